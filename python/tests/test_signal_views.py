"""Selections of a dataset: read, published by reference, copied."""

from __future__ import annotations

import collections.abc
import shutil
from pathlib import Path
from typing import Any

import pytest
import sigbank.signal_dataset as ours
from signal_cases import BOTH_WAYS, MODULES, ids, iq, numbered, same_record, written


@pytest.mark.parametrize("m", MODULES)
def test_views(m: Any, tmp_path: Path) -> None:
    dataset = written(m, tmp_path / "d")
    view = dataset.select([3, 1, -1, 3])
    assert isinstance(view, collections.abc.Sequence) and isinstance(view, m.DatasetView)
    assert (view.indices, len(view), view.dataset) == ((3, 1, 7, 3), 4, dataset)
    assert view[0].id == "r3" and view[-2].id == "r7" and ids(view[1:3]) == numbered(1, 7) and ids(view) == numbered(3, 1, 7, 3)
    assert view.record_metadata[1].id == "r1" and ids(view.record_metadata[1:]) == numbered(1, 7, 3)
    assert len(view.record_metadata) == 4 and ids(view.record_metadata) == numbered(3, 1, 7, 3)
    for wrong in (4, -5):
        with pytest.raises(IndexError):
            view[wrong]
    for wrong in ([8], [-9]):
        with pytest.raises(IndexError):
            dataset.select(wrong)
    with pytest.raises(TypeError):
        dataset.select(["a"])
    with pytest.raises(TypeError):
        m.DatasetView(view, [0])
    by_reference = view.publish(str(tmp_path / "v"), dataset_id="view", snapshot_id="s")
    assert ids(by_reference) == numbered(3, 1, 7, 3) and by_reference.metadata == {"reference_dataset": True}
    with pytest.raises(ValueError, match="materialize"):
        by_reference.read_instructions()
    copied = view.materialize(str(tmp_path / "m"), dataset_id="copy", snapshot_id="s", records_per_shard=3)
    assert ids(copied) == numbered(3, 1, 7, 3) and copied.metadata == {} and len(copied.read_instructions()) == 2
    shutil.rmtree(tmp_path / "d")
    assert ids(m.open(str(tmp_path / "m"))) == numbered(3, 1, 7, 3)
    with pytest.raises((OSError, ValueError, RuntimeError)):
        m.open(str(tmp_path / "v"))[0]
    with pytest.raises(ValueError):
        view.materialize(str(tmp_path / "x"), dataset_id="d", snapshot_id="s", records_per_shard=0)
    assert len(copied.select([]).publish(str(tmp_path / "e"), dataset_id="d", snapshot_id="s")) == 0


@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
@pytest.mark.parametrize("compat", [False, True])
def test_views_are_exchanged(writer: Any, reader: Any, compat: bool, tmp_path: Path) -> None:
    more = {"compat": True} if writer is ours and compat else {}
    view = written(writer, tmp_path / "d").select([6, 2, 2, 0])
    view.publish(str(tmp_path / "v"), dataset_id="view", snapshot_id="sn", **more)
    view.materialize(str(tmp_path / "m"), dataset_id="copy", snapshot_id="sn", records_per_shard=2, **more)
    for name in "vm":
        dataset = reader.open(str(tmp_path / name))
        assert ids(dataset) == ids(dataset.record_metadata) == numbered(6, 2, 2, 0)
        same_record(dataset[1], iq(writer, 2))
        again = dataset.select([3, 0]).publish(str(tmp_path / f"{name}2"), dataset_id="again", snapshot_id="sn")
        assert ids(writer.open(str(tmp_path / f"{name}2"))) == ids(again) == numbered(0, 6)
