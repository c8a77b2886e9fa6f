"""Datasets that the reference wrote, checked in with what went into them, are read value for value."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sedpack_cases import TESTDATA
from sigbank.sedpack.io import Dataset

NAMES = sorted(path.stem for path in TESTDATA.glob("*.json"))


def facts(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((TESTDATA / f"{name}.json").read_text(encoding="utf-8"))
    return read


def recorded(value: Any) -> dict[str, Any]:
    """A value that was read, as the record holds it."""
    if type(value) is bytes:
        return {"bytes": value.hex()}
    if type(value) is str:
        return {"str": value}
    if type(value) is int:
        return {"int": value}
    # A row of batched scalars is a NumPy scalar, which has the same three.
    assert isinstance(value, (np.ndarray, np.generic))
    return {"dtype": value.dtype.str, "shape": list(value.shape), "hex": value.tobytes().hex()}


def test_there_are_golden_datasets() -> None:
    assert len(NAMES) >= 13


@pytest.mark.parametrize("name", NAMES)
def test_golden_dataset(name: str) -> None:
    expected = facts(name)
    dataset = Dataset(TESTDATA / name)
    assert dataset.current_metadata_checksums() == tuple(expected["root_checksums"])
    dataset.check(show_progressbar=False, hash_checksums_values=tuple(expected["root_checksums"]))
    assert list(dataset.dataset_info.splits) == list(expected["splits"])
    for split, examples in expected["splits"].items():
        shards = [
            {"number_of_examples": info.number_of_examples, "custom_metadata": info.custom_metadata}
            for info in dataset.shard_info_iterator(split)
        ]
        assert shards == expected["shards"][split]
        for iterator in (
            dataset.as_numpy_iterator,
            dataset.as_numpy_iterator_concurrent,
            dataset.as_numpy_iterator_rust,
        ):
            read = list(iterator(split=split, repeat=False, shuffle=0))
            assert [{k: recorded(v) for k, v in example.items()} for example in read] == examples
            assert [list(example) for example in read] == [list(example) for example in examples]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("kinds")])
def test_golden_batches(name: str) -> None:
    examples = facts(name)["splits"]["train"]
    dataset = Dataset(TESTDATA / name)
    batches = list(dataset.as_numpy_iterator_rust_batched(split="train", repeat=False, shuffle=0, batch_size=3))
    assert [len(batch["text"]) for batch in batches] == [3, 1]
    rows = [{k: recorded(batch[k][i]) for k in batch} for batch in batches for i in range(len(batch["text"]))]
    assert rows == examples


def test_appending_keeps_what_the_reference_wrote(tmp_path: Path) -> None:
    path = tmp_path / "appended"
    shutil.copytree(TESTDATA / "appended", path)
    before = facts("appended")["splits"]["train"]
    dataset = Dataset(path)
    with dataset.filler(concurrency=1) as filler:
        filler.write_example({"float32": np.ones((2, 3), "f4"), "text": "new", "number": 5}, "train")
        filler.write_example({"float32": np.ones((2, 3), "f4"), "text": "other", "number": 6}, "test")
    again = Dataset(path)
    again.check(show_progressbar=False)
    read = list(again.as_numpy_iterator(split="train", repeat=False, shuffle=0))
    assert [{k: recorded(v) for k, v in example.items()} for example in read[:-1]] == before
    assert read[-1]["text"] == "new"
    assert [example["number"] for example in again.as_numpy_iterator(split="test", repeat=False, shuffle=0)] == [6]


def test_unknown_keys_stay_when_files_are_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "appended"
    shutil.copytree(TESTDATA / "appended", path)
    root = path / "dataset_info.json"
    info = json.loads(root.read_text(encoding="utf-8"))
    info["later"] = {"a": 10**30}
    info["metadata"]["also_later"] = [1.10]
    info["dataset_structure"]["codec"] = {"level": 3}
    info["dataset_structure"]["saved_data_description"][1]["unit"] = "V"
    root.write_text(json.dumps(info), encoding="utf-8")
    dataset = Dataset(path)
    with dataset.filler() as filler:
        filler.write_example({"float32": np.ones((2, 3), "f4"), "text": "new", "number": 5}, "train")
    dataset.metadata.description = "changed"
    dataset.dataset_structure.examples_per_shard = 7
    dataset.write_config()
    rewritten = json.loads(root.read_text(encoding="utf-8"))
    assert rewritten["later"] == {"a": 10**30}
    assert rewritten["metadata"]["also_later"] == [1.10]
    assert rewritten["dataset_structure"]["codec"] == {"level": 3}
    assert [a.get("unit") for a in rewritten["dataset_structure"]["saved_data_description"]] == [None, "V", None]
    assert rewritten["metadata"]["description"] == "changed"
    assert rewritten["dataset_structure"]["examples_per_shard"] == 7
