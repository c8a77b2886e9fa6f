"""`sigbank import` and `sigbank find` on what troubled users of other packages: exact integers, dots in names, litter, lying extensions, names twice."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import sigbank
import soundfile
from jbof_cases import contents, ours
from test_jbof_cli import PROGRAM, run, told

LITTER = [".DS_Store", "._a.wav", "Thumbs.db", "desktop.ini", "a.wav~", ".nfs0001", "__MACOSX/a.wav", "__pycache__/a.wav", ".ipynb_checkpoints/a.wav"]


def audio(path: Path, seconds: float = 0.1, rate: int = 8000, **more: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.sin(np.arange(int(seconds * rate)) / 7) / 2, rate, **more)


def find(place: Path, expression: str) -> list[str]:
    return run("find", place, expression).splitlines()


def test_integers_are_exact_from_table_to_search(tmp_path: Path) -> None:
    numbers = [2**53 + 1, -(2**63), 2**63 - 1, 1_700_000_000_123_456_789]
    rows = ["path,ns"] + [f"a{n}.npy,{number}" for n, number in enumerate(numbers)]
    (tmp_path / "in").mkdir()
    for n in range(len(numbers) + 1):
        np.save(tmp_path / "in" / f"a{n}.npy", np.arange(n))
    (tmp_path / "t.csv").write_text("\n".join(rows))
    run("import", tmp_path / "in", tmp_path / "d", "--metadata", tmp_path / "t.csv")
    dataset = ours.DataSet(tmp_path / "d")
    for n, number in enumerate(numbers):
        assert dataset.get_item(f"a{n}").metadata == {"ns": number}
        assert find(tmp_path / "d", f"ns == {number}") == [f"a{n}"]
        assert find(tmp_path / "d", f"ns > {number - 1} and ns < {number + 1}") == [f"a{n}"]
    assert find(tmp_path / "d", f"ns == {2**53}") == []
    (tmp_path / "t.json").write_text(json.dumps({f"a{n}.npy": {"ns": 2**64 - 1 + n} for n in range(2)}))
    run("import", tmp_path / "in", tmp_path / "e", "--metadata", tmp_path / "t.json")
    assert find(tmp_path / "e", f"ns == {2**64}") == ["a1"]
    assert json.loads(run("find", tmp_path / "e", f"ns == {2**64 - 1}", "--json"))["metadata"] == {"ns": 2**64 - 1}


def test_dots_in_names_and_keys(tmp_path: Path) -> None:
    for name in ["train.v1/22.05.wav", "train.v1/a.b.c.wav", "Track 2.0 (x).wav", "a.b.wav"]:
        audio(tmp_path / "in" / name)
    (tmp_path / "t.jsonl").write_text(json.dumps({"path": "a.b.wav", "x.y": 1, "$": 2, "_z": 3, "p/q": 4, "deep": {"a.b": 5}}))
    run("import", tmp_path / "in", tmp_path / "d", "--metadata", tmp_path / "t.jsonl")
    names = ["Track 2.0 (x)", "a.b", "train.v1-22.05", "train.v1-a.b.c"]
    assert [item.name for item in ours.DataSet(tmp_path / "d").all_items()] == names == find(tmp_path / "d", "has(signal)")
    for expression in ["metadata['x.y'] == 1", "metadata['$'] == 2 and _z == 3", "metadata['p/q'] == 4", "deep['a.b'] == 5"]:
        assert find(tmp_path / "d", expression) == ["a.b"]
    assert find(tmp_path / "d", "exists(x.y)") == []
    assert find(tmp_path / "d", "id == 'train.v1-22.05' or id like '%(x)'") == ["Track 2.0 (x)", "train.v1-22.05"]


def test_litter_is_no_data(tmp_path: Path) -> None:
    for name in ["a.wav", "ann/b.wav"]:
        audio(tmp_path / "in" / name)
    run("import", tmp_path / "in", tmp_path / "clean")
    for name in LITTER:
        for folder in ["in", "in/ann"]:
            (tmp_path / folder / name).parent.mkdir(exist_ok=True)
            (tmp_path / folder / name).write_bytes(b"litter")
    report = told("import", tmp_path / "in", tmp_path / "d")
    assert report["items"] == 2 and report["left_out"] == [] and report["litter"] > 0
    assert contents(tmp_path / "d") == contents(tmp_path / "clean")
    digest = ours.DataSet(tmp_path / "d").calculate_hash()
    for name in LITTER:
        for folder in ["d", "d/a"]:
            (tmp_path / folder / name).parent.mkdir(exist_ok=True)
            (tmp_path / folder / name).write_bytes(b"litter")
    assert find(tmp_path / "d", "exists(samplerate)") == ["a", "ann-b"] == sigbank.open(tmp_path / "d").where("channels == 1").ids()
    assert find(tmp_path / "d", "has(signal)") == ["a", "ann-b"] and ours.DataSet(tmp_path / "d").calculate_hash() == digest


def test_extensions_in_capitals_and_lying_ones(tmp_path: Path) -> None:
    audio(tmp_path / "in/A.WAV", rate=16000, format="WAV")
    audio(tmp_path / "in/b.Flac", rate=22050, format="FLAC")
    audio(tmp_path / "in/lying.flac", rate=44100, format="WAV")
    run("import", tmp_path / "in", tmp_path / "d")
    rates = {item.name: item.metadata["samplerate"] for item in ours.DataSet(tmp_path / "d").all_items()}
    assert rates == {"A": 16000, "b": 22050, "lying": 44100}
    assert find(tmp_path / "d", "signal@sample_rate == 44100 and samplerate == 44100") == ["lying"]
    assert (tmp_path / "d/lying/signal.wav").read_bytes() == (tmp_path / "in/lying.flac").read_bytes()


def test_a_name_twice_is_an_error_that_names_both(tmp_path: Path) -> None:
    for name in ["x/a.wav", "x-a.wav", "y/a.wav"]:
        audio(tmp_path / "in" / name)
    message = run("import", tmp_path / "in", tmp_path / "d", fails=True)
    assert "'x-a.wav' and 'x/a.wav' would both be the array 'signal' of the item 'x-a'" in message
    (tmp_path / "t.csv").write_text("path,n\nx/a.wav,1\ny/a.wav,2\nx/a.wav,3\n")
    args = ["import", tmp_path / "in", tmp_path / "d", "--metadata", tmp_path / "t.csv", "--item", "{parent}_{stem}"]
    assert "rows 1 and 3 are both of 'x/a.wav'" in run(*args, fails=True)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "..", "a/../../b", ".hidden", "a\\b"])
def test_no_name_leads_out_of_the_data_set(tmp_path: Path, name: str) -> None:
    audio(tmp_path / "in/a.wav")
    before = sorted(path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents and path != tmp_path)
    (tmp_path / "t.json").write_text(json.dumps({"a.wav": {"name": name}}))
    (tmp_path / "d").mkdir()
    for option in ["--item", "--array"]:
        made = tmp_path / "d" / option
        args = ["import", tmp_path / "in", made, "--metadata", tmp_path / "t.json", option, "{name}"]
        result = subprocess.run([PROGRAM, *args], capture_output=True, text=True, check=False)
        assert result.returncode in (0, 1) and "panicked" not in result.stderr
        # Refused, or a name of one component.
        assert made.exists() == (result.returncode == 0)
        assert [path.parent.parent for path in made.rglob("*.wav")] == [made] * (result.returncode == 0)
    after = sorted(path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents and path != tmp_path)
    assert after == before and not Path("/etc/x").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "in", "t.json"]


def test_tables_are_not_taken_for_something_else_silently(tmp_path: Path) -> None:
    for name in ["a.wav", "b.wav", "c.wav"]:
        audio(tmp_path / "in" / name)
    table = tmp_path / "t.csv"
    args = ["import", tmp_path / "in", tmp_path / "d", "--metadata", table]

    def import_with(text: str, *more: str) -> tuple[list[dict[str, object]], str]:
        table.write_text(text)
        result = subprocess.run([PROGRAM, *args, *more, "--dry-run", "--json"], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return [{k: v for k, v in item["metadata"].items() if k in ("snr", "room")} for item in json.loads(result.stdout)["items"]], result.stderr

    found, warned = import_with("path,snr\na.wav,3\nb.wav,NA\nc.wav,4.5\n")
    assert found == [{"snr": "3"}, {"snr": "NA"}, {"snr": "4.5"}]
    assert warned.startswith(f"warning: {table}: the column 'snr' is text: 'NA' in line 3 is no number as 2 of its 3 values are")
    found, warned = import_with("path,snr\na.wav,3\nb.wav,NA\nc.wav,4.5\n", "--na", "NA,n/a")
    assert found == [{"snr": 3.0}, {}, {"snr": 4.5}] and warned == ""
    for text, more in [("path;snr;room\na.wav;3;x, y\n", []), ("path\tsnr\troom\na.wav\t3\tx, y\n", []), ("path|snr|room\na.wav|3|x, y\n", ["--delimiter", "|"])]:
        found, warned = import_with(text, *more)
        assert (found[0], warned) == ({"snr": 3, "room": "x, y"}, "")
    table.write_text("path,samplerate\na.wav,8000\nb.wav,44100\n")
    message = run(*args, fails=True)
    assert "in/b.wav: 'samplerate' is 44100 by its path or the table, and 8000 in its header" in message
    report = told(*args, "--skip-bad")
    assert report["items"] == 2 and [left["source"] for left in report["left_out"]] == ["b.wav"]


def test_a_file_that_is_damaged_behind_its_header(tmp_path: Path) -> None:
    audio(tmp_path / "in/good.flac", 2)
    audio(tmp_path / "in/bad.flac", 2)
    data = bytearray((tmp_path / "in/bad.flac").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 100] = b"\x55" * 100
    (tmp_path / "in/bad.flac").write_bytes(data)
    report = told("import", tmp_path / "in", tmp_path / "d", "--skip-bad")
    assert report["items"] == 1 and [left["source"] for left in report["left_out"]] == ["bad.flac"]
    assert "bad.flac" in run("import", tmp_path / "in", tmp_path / "e", "--skip-bad")


def test_a_full_disk_is_told_with_the_path_and_the_import_goes_on_later(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in/a.npy", np.zeros(10))
    np.save(tmp_path / "in/b.npy", np.zeros(1 << 16))
    script = f"trap '' XFSZ; ulimit -f 200; exec '{PROGRAM}' import '{tmp_path}/in' '{tmp_path}/d'"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "b" in result.stderr and "does not allow a file of this size" in result.stderr, result.stderr
    assert str(tmp_path) in result.stderr and not (tmp_path / "d").exists()
    run("import", tmp_path / "in", tmp_path / "d")
    assert [item.name for item in ours.DataSet(tmp_path / "d").all_items()] == ["a", "b"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "in"]
