"""What the tests of `sigbank.signal_dataset` share: the reference package, and records made with either module."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sigbank.signal_dataset as ours

reference: Any = None
if importlib.util.find_spec("signal_dataset") is not None:
    import signal_dataset as reference  # type: ignore[no-redef,import-not-found]

needs_reference = pytest.mark.skipif(reference is None, reason="the reference package signal-dataset is not installed")

MODULES = [pytest.param(ours, id="ours"), pytest.param(reference, id="reference", marks=needs_reference)]
"""Behaviour that programs rely on: tests with these run on the reference package too, which is the referee."""

BOTH_WAYS = [
    pytest.param(ours, reference, id="ours-to-reference", marks=needs_reference),
    pytest.param(reference, ours, id="reference-to-ours", marks=needs_reference),
    pytest.param(ours, ours, id="ours-to-ours"),
]
"""The writer and the reader."""

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8"]


def iq(module: Any, number: int = 0, length: int = 4) -> Any:
    """A capture of two channels, another for each number."""
    data = (np.arange(2 * length).reshape(2, length) + 1j * number).astype("complex64")
    time = module.Axis("time", length, "sample", coordinate=module.Coordinate(start=0, step=0.5, unit="s"))
    field = module.Field(data, (module.Axis("channel", 2), time), {"gain": 1.5})
    return module.Record(f"r{number}", {"iq": field}, "site", {"number": number, "note": {"tags": ["é", None, True]}})


def all_kinds(module: Any) -> Any:
    """A record that uses everything that a record may hold."""
    rng = np.random.default_rng(1)
    fields = {}
    for number, dtype in enumerate(DTYPES):
        data = (rng.standard_normal((2, 3)) * 50).astype(dtype if np.dtype(dtype).kind != "u" else "i1").astype(dtype)
        axes = (
            module.Axis("a", 2, id="shared", coordinate=module.Coordinate(values=(1, 2.5), metadata={"from": "cal"})),
            module.Axis(f"b{number}", 3, "role", metadata={"n": number, "huge": 10**30, "small": 1e-7}),
        )
        fields[f"f{dtype}"] = module.Field(data, axes, {"dtype": dtype})
    reference_to = module.Coordinate(reference="shared", unit="dB")
    fields["référence \"q\""] = module.Field(np.float64([1, 2]), (module.Axis("a", 2, coordinate=reference_to),))
    fields["empty"] = module.Field(np.zeros((0, 2), "f4"), [module.Axis("x", 0), module.Axis("y", 2)])
    return module.Record("all", fields, None, {"z": [1, [2, {"a": -0.0}]], "a": "\x01\u2028\n"})


def same_record(a: Any, b: Any) -> None:
    """Whether two records, of whichever module, say the same and hold the same arrays."""
    assert (a.id, a.scene_id, a.metadata, list(a)) == (b.id, b.scene_id, b.metadata, list(b))
    for name in a:
        x, y = a[name], b[name]
        assert repr((x.axes, x.metadata)) == repr((y.axes, y.metadata))
        assert (x.data.dtype, x.data.shape, x.data.tobytes()) == (y.data.dtype, y.data.shape, y.data.tobytes())


def ids(records: Any) -> list[str]:
    return [record.id for record in records]


def read_in_a_process(dataset: Any, queue: Any) -> None:
    """Here, where a process that was spawned finds it."""
    queue.put((ids(dataset), ids(dataset.__getitems__([1, 0])), dataset.record_metadata[2].id))


def written(m: Any, root: Path | str, records: int = 8, first: int = 5, **more: Any) -> Any:
    """A dataset of two shards, published by `m`."""
    shards = [
        m.write_shard((iq(m, i) for i in range(first, records)), str(root), work_id="w1", attempt=2),
        m.write_shard([iq(m, i) for i in range(first)], str(root), work_id="w0"),
    ]
    return m.publish(str(root), shards, dataset_id="captures", snapshot_id="v1", metadata={"owner": "me", "list": [1]}, **more)


def numbered(*numbers: int) -> list[str]:
    return [f"r{number}" for number in numbers]
