"""Searching JBOF data sets by expressions, and the index that is left beside them."""

from __future__ import annotations

import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jbof_cases import contents, names, needs_reference, ours, reference

INDEX = "__pycache__/sigbank/index.parquet"


def fill(path: Path, count: int, module: Any = ours) -> Any:
    dataset = module.create_dataset(path, {})
    for n in range(count):
        dataset.add_item(f"i{n:04}", {"n": n, "speaker": f"s{n % 5}", "half": n / 2, "even": n % 2 == 0})
    time.sleep(0.15)  # So that the files are older than the steps of the clock.
    return dataset


def test_items_are_found_by_expressions(tmp_path: Path) -> None:
    dataset = fill(tmp_path / "d", 20)
    found = dataset.find("half > 3 and speaker in ['s1', 's2'] and not even == true")
    assert iter(found) is found
    assert [item.name for item in found] == ["i0007", "i0011", "i0017"]
    assert dataset.find_one("n >= 3 and n < 5").metadata == {"n": 3, "speaker": "s3", "half": 1.5, "even": False}
    assert dataset.find_one("n > 100") is None
    dataset["i0003"].add_array("x", np.zeros((3, 8), np.complex64))
    dataset["i0004"].add_array("x", np.zeros(4, np.float32))
    assert names(dataset.find("has(x)")) == ["i0003", "i0004"]
    assert names(dataset.find("x@shape[1] == 8 and x@dtype == 'complex64'")) == ["i0003"]
    assert names(ours.DataSet(tmp_path / "d").find("x@length < 100 and x@ndim == 1")) == ["i0004"]


def test_errors_come_at_once_and_typos_are_told(tmp_path: Path) -> None:
    dataset = fill(tmp_path / "d", 3)
    with pytest.raises(TypeError, match="column 6: expected a key"):
        dataset.find("n == ")
    with pytest.warns(UserWarning, match='no record has the key "speeker": did you mean "speaker"'):
        assert list(dataset.find("speeker == 's1'")) == []


DAMAGED = ['{"n":', '{"n": 1, "n": 2}', r'{"n": 1, "x": "\ud800"}', '{"n": ' + "[" * 200 + "]" * 200 + "}"]


def test_damaged_metadata_do_not_keep_the_others_from_being_found(tmp_path: Path) -> None:
    fill(tmp_path / "d", 12)
    for n, text in enumerate(DAMAGED):
        (tmp_path / f"d/i{2 * n:04}/_metadata.json").write_text(text)
    for _ in range(2):
        with pytest.warns(UserWarning, match=r'4 items were not searched \("i0000", "i0002", "i0004", "i0006"\)') as told:
            found = names(ours.DataSet(tmp_path / "d").find("n >= 0 and not n == 5"))
        assert found == ["i0001", "i0003", "i0007", "i0008", "i0009", "i0010", "i0011"] and len(told) == 1
    with pytest.warns(UserWarning, match="a key twice"):
        assert ours.DataSet(tmp_path / "d").find_one("n > 2").name == "i0003"
    # Keywords ask as the reference does, which ends at what Python cannot read.
    with pytest.raises(ValueError, match="i0000"):
        list(ours.DataSet(tmp_path / "d").find_items(speaker="s1"))


def test_json_that_is_pythons_own(tmp_path: Path) -> None:
    dataset = fill(tmp_path / "d", 3)
    (tmp_path / "d/i0001/_metadata.json").write_text('{"n": NaN, "speaker": "s1"}')
    (tmp_path / "d/i0002/_metadata.json").write_text('{"n": Infinity, "speaker": "s1"}')
    dataset = ours.DataSet(tmp_path / "d")
    assert names(dataset.find("n == null")) == ["i0001"]
    assert names(dataset.find("not n > 0 and speaker == 's1'")) == ["i0001"]
    assert names(dataset.find("n > 1e308")) == ["i0002"]
    assert names(dataset.find_items(n=float("inf"))) == ["i0002"]


def test_an_index_is_left_beside_many_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "d", 600)
    index = tmp_path / "d" / INDEX
    for word in ["use", "ignore"]:
        monkeypatch.setenv("SIGBANK_INDEX", word)
        assert names(ours.DataSet(tmp_path / "d").find_items(n=7)) == ["i0007"]
        assert not index.exists()
    monkeypatch.setenv("SIGBANK_INDEX", "perhaps")
    with pytest.raises(TypeError, match="SIGBANK_INDEX is auto, use or ignore"):
        list(ours.DataSet(tmp_path / "d").find_items(n=7))
    monkeypatch.delenv("SIGBANK_INDEX")
    before, digest = contents(tmp_path / "d"), ours.DataSet(tmp_path / "d").calculate_hash()
    assert names(ours.DataSet(tmp_path / "d").find_items(n=7)) == ["i0007"]
    assert index.exists() and contents(tmp_path / "d") == before
    assert ours.DataSet(tmp_path / "d").calculate_hash() == digest
    # A program that reads it, with its metadata as they stand.
    (tmp_path / "d/i0008/_metadata.json").write_text(json.dumps({"n": 7}))
    found = list(ours.DataSet(tmp_path / "d").find_items(n=7))
    assert [(item.name, item.metadata["n"]) for item in found] == [("i0007", 7), ("i0008", 7)]
    index.write_bytes(index.read_bytes()[:-100])
    with pytest.warns(UserWarning, match="index.parquet"):
        assert names(ours.DataSet(tmp_path / "d").find("n == 7")) == ["i0007", "i0008"]


def test_an_index_on_demand(tmp_path: Path) -> None:
    dataset = fill(tmp_path / "d", 5)
    dataset["i0002"].add_array("x", np.zeros(7))
    path = ours.DataSet(tmp_path / "d").index(arrays=True)
    assert path == str(tmp_path / "d" / INDEX)
    from sigbank.query import Table

    assert Table.open(path).find("x@length == 7") == ["i0002"]
    (tmp_path / "d/__pycache__").rename(tmp_path / "elsewhere")
    (tmp_path / "d/__pycache__").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ours.errors.StorageError, match="__pycache__: this is no directory"):
        ours.DataSet(tmp_path / "d").index()
    assert names(ours.DataSet(tmp_path / "d").find("n == 3")) == ["i0003"]


@needs_reference
def test_the_reference_reads_beside_the_index(tmp_path: Path) -> None:
    fill(tmp_path / "d", 600, reference)
    theirs = reference.DataSet(tmp_path / "d")
    digest = theirs.calculate_hash()
    assert names(ours.DataSet(tmp_path / "d").find("speaker == 's3'")) == names(theirs.find_items(speaker="s3"))
    assert (tmp_path / "d" / INDEX).exists()
    theirs = reference.DataSet(tmp_path / "d", readonly=False)
    assert theirs.calculate_hash() == digest == ours.DataSet(tmp_path / "d").calculate_hash()
    theirs.add_item("new", {"speaker": "s3", "n": 1000})
    theirs.delete_item(theirs.get_item("i0003"))
    expected = [f"i{n:04}" for n in range(600) if n % 5 == 3 and n != 3] + ["new"]
    assert names(ours.DataSet(tmp_path / "d").find("speaker == 's3'")) == expected
    assert names(reference.DataSet(tmp_path / "d").find_items(speaker="s3")) == expected


def search_in_a_process(path: str, number: int, queue: Any) -> None:
    """Here, where a process that was spawned finds it."""
    dataset = ours.DataSet(path, readonly=False)
    for n in range(8):
        name = f"p{number}-{n}"
        dataset.add_item(name, {"mine": 100 * number + n})
        assert names(ours.DataSet(path).find(f"mine == {100 * number + n}")) == [name]
        assert len(list(dataset.find("n >= 0"))) == 600
    queue.put(number)


def test_processes_add_and_search_at_once(tmp_path: Path) -> None:
    fill(tmp_path / "d", 600)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=search_in_a_process, args=(str(tmp_path / "d"), n, queue)) for n in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert len(list(ours.DataSet(tmp_path / "d").find("exists(mine)"))) == 32
