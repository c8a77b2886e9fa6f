"""Fillers and iterators that threads, forked children and later runs share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import sigbank
from sigbank.sedpack import Attribute, Dataset, DatasetStructure, Metadata


def new(path: Path, examples_per_shard: int = 4) -> Dataset:
    structure = DatasetStructure(
        saved_data_description=[
            Attribute(name="x", dtype="float32", shape=(3,)),
            Attribute(name="i", dtype="int", shape=()),
        ],
        compression="",
        examples_per_shard=examples_per_shard,
    )
    return Dataset.create(path, Metadata(description="shared"), structure)


def example(i: int) -> dict[str, object]:
    return {"x": np.full(3, i, np.float32), "i": i}


def numbers(path: Path) -> list[int]:
    return [int(e["i"]) for e in Dataset(path).as_numpy_iterator(split="train", repeat=False, shuffle=0)]


def test_threads_share_a_filler(tmp_path: Path) -> None:
    path = tmp_path / "d"
    failed = []
    with new(path).filler() as filler:

        def write(worker: int) -> None:
            try:
                for i in range(200):
                    filler.write_example(example(worker * 200 + i), "train")
            except Exception as error:  # noqa: BLE001
                failed.append(error)

        threads = [threading.Thread(target=write, args=(w,)) for w in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    assert failed == []
    assert sorted(numbers(path)) == list(range(800))


@pytest.mark.parametrize("name", ["as_numpy_iterator", "as_numpy_iterator_rust_batched"])
def test_threads_share_an_iterator(tmp_path: Path, name: str) -> None:
    path = tmp_path / "d"
    with new(path).filler() as filler:
        for i in range(500):
            filler.write_example(example(i), "train")
    items = iter(getattr(Dataset(path), name)(split="train", repeat=False, shuffle=0))
    found: list[int] = []

    def read() -> None:
        for item in items:
            found.extend(np.atleast_1d(np.asarray(item["i"])).tolist())

    threads = [threading.Thread(target=read) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert sorted(found) == list(range(500))


def test_a_forked_child_leaves_its_parents_examples_alone(tmp_path: Path) -> None:
    path = tmp_path / "d"
    with new(path, examples_per_shard=1).filler() as filler:
        for i in (0, 1):
            filler.write_example(example(i), "train")
        child = os.fork()
        if child == 0:
            try:
                filler._native.finish()  # as leaving the block does
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        filler.write_example(example(2), "train")
    assert numbers(path) == [0, 1, 2]


def test_a_killed_run_is_added_with_a_warning_or_given_up(tmp_path: Path) -> None:
    for adopt, expected in ((None, [0, 1, 2, 3, 10]), (False, [10])):
        path = tmp_path / f"d{adopt}"
        new(path)
        script = f"""
            import glob, os, signal, time
            import numpy as np
            from sigbank.sedpack import Dataset
            with Dataset({str(path)!r}).filler() as filler:
                for i in range(7):
                    filler.write_example({{"x": np.full(3, i, np.float32), "i": i}}, "train")
                while not any(map(os.path.getsize, glob.glob({str(path / ".sigbank/progress/*")!r}))):
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)
        """
        killed = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
        assert killed.returncode == -signal.SIGKILL
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with Dataset(path).filler(adopt=adopt) as filler:
                filler.write_example(example(10), "train")
        texts = [str(w.message) for w in caught if "killed" in str(w.message)]
        assert texts == ([] if adopt is False else [texts[0]])
        if adopt is None:
            assert "4 examples in 1 shards of a writer that was killed were added too" in texts[0]
        assert numbers(path) == expected


def test_verify_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "d"
    with new(path).filler() as filler:
        filler.write_example(example(0), "train")
    before = {p: p.stat().st_mtime_ns for p in path.rglob("*")}
    assert sigbank.open(path).verify()[:2] == (1, 1)
    assert {p: p.stat().st_mtime_ns for p in path.rglob("*")} == before


def test_nested_metadata_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "d"
    nested: object = 1
    for _ in range(125):
        nested = [nested]
    dataset = new(path)
    with dataset.filler() as filler:
        with pytest.raises(ValueError, match="'v' is nested more than 100 deep|recursion"):
            filler.write_example(example(0), "train", custom_metadata={"v": nested})
        filler.write_example(example(1), "train")
    assert numbers(path) == [1]
    dataset.metadata = Metadata(description="q", custom_metadata={"v": nested})
    with pytest.raises(ValueError, match="nested|recursion"):
        dataset.write_config()
    assert numbers(path) == [1]
