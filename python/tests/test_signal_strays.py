"""Batches of a signal-dataset in a bucket some of whose records differ from those that were looked at: the same records come in the same order."""

from __future__ import annotations

import pickle
import uuid
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sigbank
from sigbank import signal_dataset as ours

KEYS = {"allow_http": "true", "access_key_id": "testing", "secret_access_key": "testing", "region": "us-east-1"}
ODD = {"field": 170, "shape": 180, "lacks": 230, "early": 195}


def _record(i: int) -> ours.Record:
    rows = 5 if i == ODD["shape"] else 3
    fields = {"x": np.full((rows, 2), i, np.float32), "z": np.full((1, 2), -i, np.int32)}
    if i in (ODD["field"], ODD["early"]):
        fields["y"] = np.full((2, 2), i, np.int16)
    if i == ODD["lacks"]:
        del fields["z"]
    axes = {name: (ours.Axis("t", len(data)), ours.Axis("c", 2)) for name, data in fields.items()}
    return ours.Record(f"r{i}", {name: ours.Field(data, axes[name]) for name, data in fields.items()})


def _write(root: str, options: dict[str, str], records: list[ours.Record]) -> None:
    shards = [
        ours.write_shard(records[at : at + 100], root, work_id=f"w{at:04}", storage_options=options or None)
        for at in range(0, len(records), 100)
    ]
    ours.publish(root, shards, dataset_id="d", snapshot_id="s", storage_options=options or None)


@pytest.fixture
def places(tmp_path: Path, s3_server: dict[str, str]) -> tuple[str, str, dict[str, str]]:
    """One dataset in a folder and in a bucket; of its 300 records the first 64 and the last shard's first 64 are alike."""
    far, options = f"s3://{s3_server['bucket']}/strays-{uuid.uuid4().hex}", {"endpoint": s3_server["endpoint"], **KEYS}
    records = [_record(i) for i in range(300)]
    _write(str(tmp_path / "d"), {}, records)
    _write(far, options, records)
    return str(tmp_path / "d"), far, options


def _rows(batch: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of a batch with the fields that they have, whatever its form."""
    count = len(batch["x"])
    rows = [{name: values[i] for name, values in batch.items() if values[i] is not None} for i in range(count)]
    return [{name: (value.dtype.str, value.shape, value.tobytes()) for name, value in sorted(row.items())} for row in rows]


HOW: list[dict[str, Any]] = [
    {},
    {"threads": 1, "prefetch_bytes": 0},
    {"threads": 7, "shuffle": 100, "seed": 3},
    {"shuffle": True, "seed": 5, "epochs": 2},
    {"epochs": 3, "drop_last": True},
    {"start": 40, "shuffle": 50, "seed": 1, "epochs": 2},
]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("size", [3, 64, 400])
def test_the_same_records_come_in_the_same_order(places: tuple[str, str, dict[str, str]], how: dict[str, Any], size: int) -> None:
    local, far, options = places
    mine = sigbank.open(local).batches("all", size, **how)
    want = [(_rows(batch), mine.position) for batch in mine]
    dataset = sigbank.open(far, storage_options=options)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        batches = dataset.batches("all", size, **how)
        found = [(_rows(batch), batches.position) for batch in batches]
    assert found == want and len(want) > 0
    # One warning at most: none where the stray was met before anything was handed out.
    assert len(said) <= 1 and all(w.category is UserWarning for w in said)
    # From then on they are alike from the beginning.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = list(dataset.batches("all", size, **how))
    assert [_rows(batch) for batch in again] == [rows for rows, _ in want]


def test_what_is_said_names_the_record_and_the_field(places: tuple[str, str, dict[str, str]]) -> None:
    local, far, options = places
    dataset = sigbank.open(far, storage_options=options)
    batches = dataset.batches("all", 10, threads=1, prefetch_bytes=0)
    forms, places_after = [], []
    with pytest.warns(UserWarning, match=r"record 'r170': it has a field 'y'.*From position \d+ on.*dataset\.schema") as said:
        for batch in batches:
            forms.append((sorted(batch), type(batch["x"])))
            places_after.append(batches.position)
    assert len(said) == 1
    assert forms[0] == (["x", "z"], np.ndarray) and forms[-1] == (["x", "y", "z"], list)
    # A position from before or after the change is one of either.
    for at in (0, 5, 9, 12, 29):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rest = [_rows(b) for b in sigbank.open(far, storage_options=options).batches("all", 10, start=places_after[at])]
        assert rest == [_rows(b) for b in sigbank.open(local).batches("all", 10, start=places_after[at])]
    # Of all records from the beginning, also in a copy in another process, whose schema nobody asked for.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fresh = sigbank.open(far, storage_options=options)
        assert sorted(fresh.schema) == ["x", "y", "z"]
        assert [sorted(batch) for batch in fresh.batches("all", 100)] == [["x", "y", "z"]] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copied = pickle.loads(pickle.dumps(sigbank.open(far, storage_options=options)))
        assert sum((_rows(b) for b in copied.batches("all", 10)), []) == sum((_rows(b) for b in sigbank.open(local).batches("all", 10)), [])


def test_a_warning_that_is_an_error_loses_no_batch(places: tuple[str, str, dict[str, str]]) -> None:
    local, far, options = places
    batches = sigbank.open(far, storage_options=options).batches("all", 10, threads=1, prefetch_bytes=0)
    found, raised = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while True:
            try:
                found += _rows(next(batches))
            except UserWarning:
                raised += 1
            except StopIteration:
                break
    assert raised == 1 and found == sum((_rows(b) for b in sigbank.open(local).batches("all", 10)), [])


def test_fields_asked_for_by_name_keep_their_places(places: tuple[str, str, dict[str, str]]) -> None:
    local, far, options = places
    for fields in (["z"], ["z", "x"], ["x"]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            batches = list(sigbank.open(far, storage_options=options).batches("all", 10, fields=fields))
        want = list(sigbank.open(local).batches("all", 10, fields=fields))
        assert all(sorted(batch) == sorted(fields) for batch in batches)
        pairs = [(a[name], b[name]) for a, b in zip(batches, want, strict=True) for name in fields]
        assert all(
            (v is None and w is None) or np.array_equal(v, w) for values, wanted in pairs for v, w in zip(values, wanted, strict=True)
        )


def test_other_axes_of_one_shape_are_told(tmp_path: Path, s3_server: dict[str, str]) -> None:
    def record(i: int) -> ours.Record:
        axes = (ours.Axis("ch", 4), ours.Axis("time", 4))
        return ours.Record(f"r{i}", {"x": ours.Field(np.full((4, 4), i, np.float32), axes[::-1] if i == 150 else axes)})

    far, options = f"s3://{s3_server['bucket']}/strays-{uuid.uuid4().hex}", {"endpoint": s3_server["endpoint"], **KEYS}
    _write(far, options, [record(i) for i in range(300)])
    with pytest.warns(UserWarning, match=r"record 'r150': field 'x' has the axes \(time, ch\), and \(ch, time\) in the 128 records looked at"):
        batches = list(sigbank.open(far, storage_options=options).batches("all", 10, threads=1, prefetch_bytes=0))
    assert [int(row[0, 0]) for batch in batches for row in batch["x"]] == list(range(300))
