"""The command line on data sets of the JBOF layout: looking at them, checking, copying, and making one of a loose folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sigbank
import soundfile
from jbof_cases import contents, needs_reference, ours, reference

PROGRAM = os.environ.get("SIGBANK_PROGRAM", str(Path(sys.executable).parent / "sigbank"))
MODULE = reference or ours


def run(*args: object, fails: bool = False) -> str:
    done = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == int(fails), done.stdout + done.stderr
    return done.stderr if fails else done.stdout


def told(*args: object) -> Any:
    return json.loads(run(*args, "--json"))


def fill(path: Path) -> Any:
    dataset = MODULE.create_dataset(path, {"owner": "me"})
    for n in range(4):
        item = dataset.add_item(f"take {n}", {"n": n, "speaker": "ab"[n % 2], "deep": {"x": [1]}})
        item.add_array("x", np.arange(20, dtype="<f4") + n, {"unit": "V"})
        item.add_array("mic", np.sin(np.arange(800 + n) / 20), fileformat="wav", samplerate=8000)
    item.add_array("img", np.outer(np.arange(30), np.arange(40)), fileformat="mat")
    return dataset


def test_ls_tells_of_each_item(tmp_path: Path) -> None:
    fill(tmp_path / "d")
    lines = run("ls", tmp_path / "d").splitlines()
    assert lines[0] == "     0  take 0  mic float64[800] at 8000 Hz, x float32[20]  deep=… n=0 speaker=a"
    assert lines[3].startswith("     3  take 3  img int64[30, 40], mic float64[803] at 8000 Hz, x float32[20]") and len(lines) == 4
    assert run("ls", tmp_path / "d", "--from", 1, "--limit", 2).splitlines()[-1] == "2 of 4 items"
    one = json.loads(run("ls", tmp_path / "d", "--json", "--limit", 1))
    assert (one["id"], one["metadata"]["deep"], one["fields"]["x"]["metadata"]) == ("take 0", {"x": [1]}, {"unit": "V"})
    assert (one["fields"]["mic"]["dtype"], one["fields"]["mic"]["shape"], one["fields"]["mic"]["sample_rate"]) == ("float64", [800], 8000)
    (tmp_path / "d/take 1/x.npy").unlink()
    (tmp_path / "d/take 2/_metadata.json").write_text("{")
    lines = run("ls", tmp_path / "d").splitlines()
    assert "x NOT READABLE (the file of the array" in lines[1] and "_problem=" in lines[2]
    assert "no annotations" in run("ls", tmp_path / "d", "--annotations", "a", fails=True)


def test_show_finds_an_item_by_name_and_number(tmp_path: Path) -> None:
    fill(tmp_path / "d")
    by_name = run("show", tmp_path / "d", "take 3", "--width", 60)
    lines = by_name.splitlines()
    assert lines[0].endswith("d 3 of 4: take 3") and "speaker: b" in lines and "  unit: V" in lines
    assert by_name == run("show", tmp_path / "d", 3, "--width", 60)
    assert any(line.startswith("img int64[30, 40] (img.mat): min 0, max 1131") for line in lines)
    assert any("█" in line for line in lines) and any("⡜" in line for line in lines) and "  0.1004 s at 8000 Hz" in lines
    one = told("show", tmp_path / "d", "take 1", "--field", "x")
    assert (one["index"], one["id"], list(one["values"])) == (1, "take 1", ["x"])
    assert (one["values"]["x"]["min"], one["values"]["x"]["max"], one["values"]["x"]["file"]) == (1, 20, "x.npy")
    assert "near it are take 0" in run("show", tmp_path / "d", "tale 0", fails=True)
    assert "give one of 0 to 3" in run("show", tmp_path / "d", 4, fails=True)
    assert "it has mic, x" in run("show", tmp_path / "d", 0, "--field", "y", fails=True)


def test_info_and_check(tmp_path: Path) -> None:
    fill(tmp_path / "d")
    digest = "md5:" + MODULE.DataSet(tmp_path / "d").calculate_hash()
    assert ", root" not in run("info", tmp_path / "d")
    lines = run("info", tmp_path / "d", "--hash").splitlines()
    assert ": jbof, 4 items, " in lines[0] and lines[0].endswith(f"root {digest}")
    assert [line.split()[0] for line in lines[2:5]] == ["img", "mic", "x"]
    assert lines[2].endswith("int64, ragged, in 1 item") and lines[3].endswith("float64, ragged, 8000 Hz") and lines[5] == "  owner: me"
    checked = run("check", tmp_path / "d")
    assert checked.startswith("ok: 4 items, every array read, ") and f"root {digest}" in checked
    assert told("check", tmp_path / "d")["records"] == 4
    path = tmp_path / "d/take 2/mic.wav"
    path.write_bytes(path.read_bytes()[:-5])
    error = run("check", tmp_path / "d", fails=True)
    assert 'mic.wav: item "take 2", array "mic"' in error
    assert "nothing to build anew" in run("check", "--repair", tmp_path / "d", fails=True)
    path.unlink()
    lines = run("info", tmp_path / "d").splitlines()
    assert "  MISSING: 1 array file listed and not there; see: sigbank check" in "\n".join(lines)
    assert lines[3].endswith("float64, ragged, 8000 Hz, NOT READABLE: 1")


def test_a_copy_is_the_same_data_set_and_is_brought_forward(tmp_path: Path) -> None:
    fill(tmp_path / "d")
    run("cp", tmp_path / "d", tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(tmp_path / "d")
    assert MODULE.DataSet(tmp_path / "copy").calculate_hash() == MODULE.DataSet(tmp_path / "d").calculate_hash()
    assert len(list(MODULE.DataSet(tmp_path / "copy").all_items())) == 4
    ours.DataSet(tmp_path / "d", readonly=False).add_item("new", {"n": 9}).add_array("x", [1.0])
    assert "sigbank sync" in run("cp", tmp_path / "d", tmp_path / "copy", fails=True)
    run("sync", tmp_path / "d", tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(tmp_path / "d")
    path = tmp_path / "d/take 0/_metadata.json"
    path.write_text(path.read_text().replace('"n": 0', '"n": 7'))
    assert "in place of what was there: 1 object" in run("sync", tmp_path / "d", tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(tmp_path / "d")


def loose(folder: Path) -> None:
    for speaker in ["ann", "bob"]:
        for take in range(3):
            path = folder / speaker / f"s1_{take:02}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, np.sin(np.arange(800 * (take + 1)) / 9) / 2, 8000, subtype="PCM_24")
    np.save(folder / "ann" / "notes.npy", np.arange(4))
    (folder / "readme.txt").write_text("hello")
    (folder / "ann" / ".DS_Store").write_text("litter")


def test_import_makes_a_data_set_that_the_reference_reads(tmp_path: Path) -> None:
    loose(tmp_path / "in")
    (tmp_path / "t.csv").write_text("path,room,ok\nann/s1_00.wav,hall,true\nbob/s1_02.wav,cell,false\nbob/s1_09.wav,x,true\n")
    args = ["import", tmp_path / "in", tmp_path / "d", "--pattern", "{speaker}/{session}_{take:int}.wav", "--metadata", tmp_path / "t.csv"]
    plan = told(*args, "--dry-run")
    assert not (tmp_path / "d").exists() and [item["name"] for item in plan["items"]][:2] == ["ann-s1_00", "ann-s1_01"]
    assert plan["items"][0]["arrays"][0]["source"] == "ann/s1_00.wav"
    assert "item ann-s1_00  {" in run(*args, "--dry-run")
    report = told(*args)
    size = sum(path.stat().st_size for path in (tmp_path / "in").rglob("*.wav"))
    assert (report["items"], report["arrays"], report["bytes"], report["litter"]) == (6, 6, size, 1)
    assert [left["source"] for left in report["left_out"]] == ["ann/notes.npy", "readme.txt"]
    assert [left["reason"] for left in report["left_out"]] == ["its path is of no pattern", "no array file"]
    assert report["unused_rows"] == ["bob/s1_09.wav"] and len(report["without_row"]) == 4
    dataset = MODULE.DataSet(tmp_path / "d")
    (item,) = dataset.find_items(speaker="bob", take=[2]) if MODULE is ours else [dataset.get_item("bob-s1_02")]
    header = {"samplerate": 8000, "channels": 1, "bits": 24, "duration": 0.3}
    assert item.metadata == {"speaker": "bob", "session": "s1", "take": 2, "room": "cell", "ok": False, **header}
    np.testing.assert_array_equal(item.signal, soundfile.read(tmp_path / "in/bob/s1_02.wav")[0])
    assert item.signal.metadata == header
    for path in (tmp_path / "in").rglob("*.wav"):
        name = f"{path.parent.name}-{path.stem}"
        assert (tmp_path / "d" / name / "signal.wav").read_bytes() == path.read_bytes()
    assert sigbank.open(tmp_path / "d").schema["signal"].metadata["samplerate"] == 8000
    assert "the destination exists" in run(*args, fails=True)


def test_import_refuses_what_would_be_lost(tmp_path: Path) -> None:
    loose(tmp_path / "in")
    same = ["import", tmp_path / "in", tmp_path / "d", "--item", "{stem}"]
    assert "'ann/s1_00.wav' and 'bob/s1_00.wav' would both be the array 'signal'" in run(*same, fails=True)
    (tmp_path / "in/ann/s1_00.wav").write_bytes(b"RIFF")
    error = run("import", tmp_path / "in", tmp_path / "d", fails=True)
    assert "ann/s1_00.wav" in error and "--skip-bad" in error
    report = run("import", tmp_path / "in", tmp_path / "d", "--skip-bad")
    assert "6 items, 6 arrays" in report and "left out: 2 files" in report and "ann/s1_00.wav" in report
    assert "a JBOF data set already" in run("import", tmp_path / "d", tmp_path / "e", fails=True)
    assert "in the folder that is imported" in run("import", tmp_path / "in", tmp_path / "in/d", "--skip-bad", fails=True)
    assert "not at an address" in run("import", tmp_path / "in", "s3://bucket/d", "--skip-bad", fails=True)
    joined = ["import", tmp_path / "in", tmp_path / "e", "--metadata", "x.csv", "--join", "speaker"]
    assert "no pattern has the key 'speaker'" in run(*joined, fails=True)


def test_import_lists_what_has_no_name_and_keeps_forms_of_letters_apart(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "in")
    for name in [b"\xc3\xa9.npy", b"e\xcc\x81.npy", b"bad\xff.npy"]:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "wb") as file:
            np.save(file, np.arange(len(name)))
    os.symlink("nowhere", tmp_path / "in/gone.npy")
    report = told("import", tmp_path / "in", tmp_path / "d")
    assert [left["reason"] for left in report["left_out"]] == ["the name is not UTF-8", "a link that leads nowhere"]
    dataset = MODULE.DataSet(tmp_path / "d")
    assert sorted(item.name for item in dataset.all_items()) == ["e\u0301", "\u00e9"]
    assert len(dataset.get_item("\u00e9").signal) == 6 and len(dataset.get_item("e\u0301").signal) == 7
    (tmp_path / "in/.hidden.npy").write_bytes((tmp_path / "in/\u00e9.npy").read_bytes())
    assert "it is hidden" in told("import", tmp_path / "in", tmp_path / "e")["left_out"][0]["reason"]
    assert "the folder to import" in run("import", tmp_path / "none", tmp_path / "e", fails=True)


def test_an_import_that_is_killed_goes_on(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    data = np.zeros(1 << 16, "<f4")
    for n in range(200):
        data[0] = n
        np.save(tmp_path / "in" / f"{n:03}.npy", data)
    run("import", tmp_path / "in", tmp_path / "whole")
    hidden = tmp_path / ".d.importing"
    resumed = []
    for _ in range(20):
        process = subprocess.Popen([PROGRAM, "import", tmp_path / "in", tmp_path / "d", "--durable"], stdout=subprocess.DEVNULL)
        until = time.monotonic() + 60
        before = len(list(hidden.glob("*/signal.json"))) if hidden.exists() else 0
        while process.poll() is None and time.monotonic() < until and not (tmp_path / "d").exists():
            if hidden.exists() and len(list(hidden.glob("*/signal.json"))) > before + 20:
                process.send_signal(signal.SIGKILL)
        process.wait(60)
        if (tmp_path / "d").exists():
            break
        resumed.append(len(list(hidden.glob("*/signal.json"))))
    else:
        pytest.fail("it never came to its end")
    assert resumed and resumed == sorted(resumed)
    if not (tmp_path / "d/199").exists():
        run("import", tmp_path / "in", tmp_path / "d")
    assert contents(tmp_path / "d") == contents(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "in", "whole"]


@needs_reference
def test_an_item_of_several_files(tmp_path: Path) -> None:
    for take in ["t1", "t2"]:
        (tmp_path / "in" / take).mkdir(parents=True)
        for mic in ["left", "right"]:
            soundfile.write(tmp_path / "in" / take / f"{mic}.flac", np.zeros(100), 8000)
        shutil.copy(tmp_path / "in" / take / "left.flac", tmp_path / "in" / take / "lying.wav")
    run("import", tmp_path / "in", tmp_path / "d", "--item", "{folder}", "--array", "{stem}")
    dataset = reference.DataSet(tmp_path / "d")
    assert sorted(path.name for path in (tmp_path / "d/t1").iterdir()) == [
        "_metadata.json", "left.flac", "left.json", "lying.flac", "lying.json", "right.flac", "right.json",
    ]  # fmt: skip
    assert len(dataset.get_item("t2").lying) == 100
