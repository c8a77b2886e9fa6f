"""`sigbank cp` and `sigbank sync` between folders and a bucket of a real server; the reference package reads what arrives."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import jbof as jbof_reference
import numpy as np
import pytest
import sedpack.io as reference

import sigbank.jbof as jbof
import sigbank.signal_dataset as sds

PROGRAM = os.environ.get("SIGBANK_PROGRAM", str(Path(sys.executable).parent / "sigbank"))
OPTIONS = {"allow_http": "true", "access_key_id": "testing", "secret_access_key": "testing", "region": "us-east-1"}


def command(verb: str, *arguments: object, server: dict[str, str] | None = None) -> list[str]:
    given = {"endpoint": server["endpoint"], **OPTIONS} if server else {}
    # A folder has no settings: each side is given its own.
    sides = [("--src-option", arguments[0]), ("--dst-option", arguments[1])]
    remote = [side for side, place in sides if "://" in str(place)]
    settings = [part for side in remote for key, value in given.items() for part in (side, f"{key}={value}")]
    return [PROGRAM, verb, *map(str, arguments), *settings]


def run(verb: str, *arguments: object, server: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(verb, *arguments, server=server), capture_output=True, text=True, timeout=120)


def done(verb: str, *arguments: object, server: dict[str, str] | None = None) -> dict[str, Any]:
    said = run(verb, *arguments, "--json", server=server)
    assert said.returncode == 0, said.stderr + said.stdout
    answer: dict[str, Any] = json.loads(said.stdout)
    return answer


def address_in(server: dict[str, str]) -> str:
    return f"s3://{server['bucket']}/copy-{uuid.uuid4().hex}"


def tree(folder: Path) -> dict[str, bytes]:
    """All but what is sigbank's own, unfinished files of killed copies among it."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    names = [path.relative_to(folder).as_posix() for path in files]
    own = [name for name in names if any(part.startswith(".sigbank") or part == "__pycache__" for part in name.split("/"))]
    return {name: (folder / name).read_bytes() for name in names if name not in own}


def fill(path: Path, numbers: range, split: Any = "train") -> None:
    with reference.Dataset(path).filler(concurrency=1) as filler:
        for n in numbers:
            filler.write_example(values={"x": np.full(300_000, n, dtype=np.int32)}, split=split)


def sedpack_in(path: Path) -> Path:
    structure = reference.DatasetStructure(
        saved_data_description=[reference.Attribute(name="x", dtype="int32", shape=(300_000,))],
        compression="",
        examples_per_shard=2,
    )
    reference.Dataset.create(path=path, metadata=reference.Metadata(description="d"), dataset_structure=structure)
    fill(path, range(12))
    fill(path, range(12, 15), "test")
    return path


def values(path: Path, split: Any = "train") -> list[int]:
    dataset = reference.Dataset(path)
    dataset.check(show_progressbar=False)
    return sorted(int(e["x"][0]) for e in dataset.as_numpy_iterator(split=split, repeat=False, shuffle=0))


def record(n: int) -> sds.Record:
    axes = (sds.Axis(name="time", length=50_000),)
    field = sds.Field(data=np.random.default_rng(n).standard_normal(50_000).astype(np.float32), axes=axes)
    return sds.Record(id=f"r{n}", fields={"x": field})


def signal_in(path: Path) -> Path:
    shards = [sds.write_shard([record(10 * w + n) for n in range(5)], str(path), work_id=f"w{w}", attempt=0) for w in range(3)]
    sds.publish(str(path), shards, dataset_id="d", snapshot_id="s", expected_work_ids=[f"w{w}" for w in range(3)])
    return path


@pytest.mark.parametrize("make", [sedpack_in, signal_in])
def test_to_a_bucket_and_back(make: Any, tmp_path: Path, s3_server: dict[str, str]) -> None:
    source, address = make(tmp_path / "source"), address_in(s3_server)
    (source / "notes.txt").write_text("named by nothing")
    plan = done("cp", source, address, "--dry-run", server=s3_server)
    there = done("cp", source, address, server=s3_server)
    assert (plan["objects"], plan["bytes"]) == (there["objects"], there["bytes"])
    assert there["skipped"] == {"objects": 0, "bytes": 0}
    assert there["verified"] >= there["objects"] - 1
    again = run("cp", source, address, server=s3_server)
    assert again.returncode == 1
    assert "a dataset is here already" in again.stderr
    assert "sigbank sync" in again.stderr
    assert done("sync", source, address, server=s3_server)["objects"] == 0
    back = done("cp", address, tmp_path / "back", server=s3_server)
    assert (back["objects"], back["root"]) == (there["objects"], there["root"])
    expected = tree(source)
    expected.pop("notes.txt")
    assert tree(tmp_path / "back") == expected


def test_what_arrives_is_read_by_the_reference(tmp_path: Path, s3_server: dict[str, str]) -> None:
    source, address, back = sedpack_in(tmp_path / "source"), address_in(s3_server), tmp_path / "back"
    done("sync", source, address, server=s3_server)
    done("sync", address, back, server=s3_server)
    for turn in range(3):
        fill(source, range(20 + 2 * turn, 22 + 2 * turn))
        for places in [(source, address), (address, back)]:
            said = done("sync", *places, server=s3_server)
            assert 0 < said["objects"] <= 6
            assert said["skipped"]["objects"] >= 8
        assert values(back) == [*range(12), *range(20, 22 + 2 * turn)]
        assert values(back, "test") == [12, 13, 14]
    fill(back, range(90, 91))
    refused = run("sync", address, back, server=s3_server)
    assert refused.returncode == 1
    assert "a shard that the source has not" not in refused.stdout
    assert "a shard that the source has not" in refused.stderr


@pytest.mark.parametrize("make", [sedpack_in, signal_in])
def test_a_killed_copy_is_completed(make: Any, tmp_path: Path, s3_server: dict[str, str]) -> None:
    source, dice = make(tmp_path / "source"), random.Random(3)
    root = "root.json" if make is signal_in else "dataset_info.json"
    killed = 0
    for turn in range(6):
        address, back = address_in(s3_server), tmp_path / f"back{turn}"
        for places in [(source, address), (address, back)]:
            for _ in range(2):
                copy = subprocess.Popen(command("cp", *places, "--jobs", "2", server=s3_server), stderr=subprocess.PIPE)
                time.sleep(dice.random() * 0.2)
                copy.send_signal(signal.SIGKILL)
                copy.communicate()
                killed += copy.returncode != 0
            if back.is_dir() and (back / root).is_file():
                continue  # It was quicker.
            said = run("cp", *places, "--json", server=s3_server)
            assert said.returncode == 0 or "a dataset is here already" in said.stderr, said.stderr
        assert tree(back) == tree(source)
    assert killed > 6


def test_what_is_no_dataset_is_refused(tmp_path: Path, s3_server: dict[str, str]) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.txt").write_text("a")
    for place in [plain, address_in(s3_server)]:
        said = run("cp", place, tmp_path / "copy", server=s3_server)
        assert said.returncode == 1
        assert "root.json" in said.stderr and "dataset_info.json" in said.stderr, said.stderr
        assert not (tmp_path / "copy").exists()
    said = run("cp", sedpack_in(tmp_path / "source"), plain)
    assert said.returncode == 1
    assert "a.txt" in said.stderr
    said = run("cp", tmp_path / "source", tmp_path / "copy", "--materialize")
    assert said.returncode == 1
    assert "sigbank publish" in said.stderr
    assert run("cp", tmp_path / "source", tmp_path / "copy", "--src-option", "nothing").returncode == 2


def test_through_a_cache(tmp_path: Path, s3_server: dict[str, str]) -> None:
    source, address, cache = sedpack_in(tmp_path / "source"), address_in(s3_server), tmp_path / "cache"
    done("cp", source, address, server=s3_server)
    kept = []
    for turn in range(2):
        options = ["--src-option", f"cache_dir={cache}", "--src-option", "cache_size=100MB"]
        done("cp", address, tmp_path / f"back{turn}", *options, server=s3_server)
        assert tree(tmp_path / f"back{turn}") == tree(source)
        kept.append({path: path.stat().st_ino for path in cache.rglob("blocks/*/*")})
    # Shards of more than a block go through it: each block was written once.
    assert len(kept[0]) == 7 * 3 + 2
    assert kept[0] == kept[1]


def test_a_copy_within_itself_is_refused(tmp_path: Path, s3_server: dict[str, str]) -> None:
    source, address = sedpack_in(tmp_path / "source"), address_in(s3_server)
    done("cp", source, address, server=s3_server)
    parent = address.rpartition("/")[0]
    for to in (f"{address}/copy", address, f"{address}/", parent):
        said = run("cp", address, to, server=s3_server)
        assert said.returncode == 1 and "one is within the other" in said.stderr, said.stderr
    done("cp", address, f"{address}-2", server=s3_server)
    said = run("cp", source, source / "copy")
    assert said.returncode == 1 and "one is within the other" in said.stderr, said.stderr


def test_a_copy_of_jbof_follows_what_was_edited(tmp_path: Path, s3_server: dict[str, str]) -> None:
    source, address, back = tmp_path / "source", address_in(s3_server), tmp_path / "back"
    dataset = jbof.create_dataset(source, {"kind": "speech"})
    for n in range(3):
        item = dataset.add_item(f"i{n}", {"n": n})
        item.add_array("s", np.full(100, n, dtype=np.int16), {"gain": n})
    for places in [(source, address), (address, back)]:
        done("cp", *places, server=s3_server)
    assert tree(back) == tree(source)
    signal_of = source / "i1" / "s.npy"
    np.save(signal_of, np.arange(100, dtype=np.int16))
    (source / "i2" / "_metadata.json").write_text('{"n": 22}')
    dataset.delete_item("i0")
    dataset.add_item("i3", {"n": 3}).add_array("s", np.full(7, 3, dtype=np.int16), {})
    refused = run("cp", source, address, server=s3_server)
    assert refused.returncode == 1 and "sigbank sync" in refused.stderr
    for places in [(source, address), (address, back)]:
        said = done("sync", *places, server=s3_server)
        assert (said["replaced"], said["objects"], said["deleted"]) == (2, 5, 0), said
        # The bucket still has what the folder has.
        assert said["kept"] == (["i0/_metadata.json", "i0/s.json", "i0/s.npy"] if places[0] == source else [])
    assert "i0/s.npy" in tree(back)
    said_in_words = run("sync", source, address, server=s3_server).stdout
    assert "kept: i0/s.npy" in said_in_words and "--delete" in said_in_words
    for places in [(source, address), (address, back)]:
        todo = done("sync", *places, "--delete", "--dry-run", server=s3_server)
        said = done("sync", *places, "--delete", server=s3_server)
        assert (todo["delete"], said["deleted"]) == (["i0/_metadata.json", "i0/s.json", "i0/s.npy"], 3)
    assert tree(back) == tree(source)
    copied = jbof_reference.DataSet(back)
    found = {item.name: (item.metadata["n"], np.array(item.s).tolist()) for item in copied.all_items()}
    assert found == {"i1": (1, list(range(100))), "i2": (22, [2] * 100), "i3": (3, [3] * 7)}


def test_delete_is_for_jbof_only(tmp_path: Path) -> None:
    source = sedpack_in(tmp_path / "source")
    said = run("sync", source, tmp_path / "copy", "--delete")
    assert said.returncode == 1 and "JBOF" in said.stderr
    assert not (tmp_path / "copy").exists()
