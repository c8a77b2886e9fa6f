"""`sigbank.open` of a signal-dataset: arrays of each record's own shape, records by id, versions."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sigbank
from sigbank import signal_dataset as ours
from sigbank.signal_dataset import versions

AXIS, FIELD = ours.Axis, ours.Field


def _record(i: int) -> ours.Record:
    rows = i % 4
    x = (np.arange(rows * 2) + 10 * i).astype(np.complex64).reshape(rows, 2)
    fields = {"x": FIELD(x, axes=(AXIS("t", rows), AXIS("c", 2))), "n": FIELD(np.array([i], np.int16), axes=(AXIS("o", 1),))}
    if i % 3 == 0:
        fields["y"] = FIELD(np.full(3, i, np.float32), axes=(AXIS("t", 3),))
    # Of one name, but of two dtypes.
    kind = np.uint8 if i % 2 else np.float64
    fields["z"] = FIELD(np.array([i], kind), axes=(AXIS("o", 1),))
    return ours.Record(id=f"run/{i:03}", fields=fields, metadata={"i": i})


def _expected(i: int) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.asarray(field.data) for name, field in _record(i).fields.items()}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    shards = [ours.write_shard([_record(i) for i in part], tmp_path / "d", work_id=str(part[0])) for part in ([0, 1, 2], [3, 4, 5, 6])]
    ours.publish(tmp_path / "d", shards, dataset_id="d", snapshot_id="s")
    return tmp_path / "d"


def _same(found: Any, expected: np.ndarray[Any, Any]) -> None:
    assert isinstance(found, np.ndarray) and (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


def test_ragged_fields_are_arrays_of_their_own_shape(place: Path) -> None:
    dataset = sigbank.open(place)
    for i in range(7):
        record = dataset[i]
        assert sorted(record) == sorted(_expected(i))
        for name, array in _expected(i).items():
            _same(record[name], array)
    assert [sorted(r) for r in dataset[::3]] == [["n", "x", "y", "z"]] * 3
    schema = {name: (field.dtype, field.shape) for name, field in dataset.schema.items()}
    assert schema == {"n": (np.int16, (1,)), "x": (np.complex64, None), "y": (np.float32, None), "z": (None, None)}


@pytest.mark.parametrize("shuffle", [None, 7])
def test_batches_of_ragged_fields_are_lists_of_arrays(place: Path, shuffle: int | None) -> None:
    seen = []
    for batch in sigbank.open(place).batches("all", 3, shuffle, seed=5, threads=2):
        assert isinstance(batch["n"], np.ndarray) and all(isinstance(batch[name], list) for name in "xyz")
        for row, i in enumerate(batch["n"][:, 0].tolist()):
            seen.append(i)
            for name in "xyz":
                if name in _expected(i):
                    _same(batch[name][row], _expected(i)[name])
                else:
                    assert batch[name][row] is None
    assert sorted(seen) == list(range(7)) and (shuffle is None) == (seen == sorted(seen))
    only = next(iter(sigbank.open(place).batches("all", 7, fields=["y"])))
    assert [value is None for value in only["y"]] == [bool(i % 3) for i in range(7)]


def test_records_by_id(place: Path) -> None:
    dataset = sigbank.open(place)
    assert dataset.ids() == [f"run/{i:03}" for i in range(7)]
    for i in (6, 0):
        _same(dataset.by_id(f"run/{i:03}")["x"], _expected(i)["x"])
    with pytest.raises(KeyError, match="no record 'run/01'.*near it: 'run/001'"):
        dataset.by_id("run/01")
    with pytest.raises(KeyError, match="no id is like it"):
        dataset.by_id("something else")
    again = pickle.loads(pickle.dumps(dataset))
    _same(again.by_id("run/004")["n"], np.array([4], np.int16))


def test_an_id_that_several_records_have(tmp_path: Path) -> None:
    shards = [ours.write_shard([_record(1), _record(2)], tmp_path / "d", work_id=work) for work in "ab"]
    ours.publish(tmp_path / "d", shards, dataset_id="d", snapshot_id="s")
    with pytest.raises(ValueError, match="2 records have the id 'run/002', from record 1 to record 3"):
        sigbank.open(tmp_path / "d").by_id("run/002")


def test_sedpack_has_no_ids(tmp_path: Path) -> None:
    from sigbank.sedpack.io import Attribute, Dataset, DatasetStructure, Metadata

    structure = DatasetStructure(saved_data_description=[Attribute(name="x", dtype="uint8", shape=(1,))])
    dataset = Dataset.create(tmp_path / "s", Metadata(description="d"), structure)
    with dataset.filler() as filler:
        filler.write_example({"x": np.zeros(1, np.uint8)}, "train")
    opened = sigbank.open(tmp_path / "s")
    for call in (opened.ids, lambda: opened.by_id("a")):
        with pytest.raises(sigbank.errors.UnsupportedError, match="sedpack.*have no ids"):
            call()


def test_repr_tells_the_version(place: Path) -> None:
    dataset = ours.open(place)
    more = ours.write_shard([_record(9)], place, work_id="more")
    second = versions.publish(dataset, [more], name="more", base="latest")
    plain, latest = sigbank.open(place), sigbank.open(place, version="latest")
    assert repr(plain) == f'Dataset("{place}", signal-dataset, all 7)'
    assert repr(latest) == f"Dataset(\"{place}\", signal-dataset, version 1 'more', all 8)"
    assert repr(pickle.loads(pickle.dumps(latest))) == repr(latest)
    assert "version 0 's'" in repr(sigbank.open(place, version=0))
    assert ", version" not in repr(dataset) and repr(second).endswith(", records=8, version=1)")
