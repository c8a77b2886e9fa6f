"""What the Sedpack tests share: the reference package, datasets of every dtype, and comparing values."""

from __future__ import annotations

import importlib
import importlib.util
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_kinds import KINDS
from sigbank.sedpack.io import Attribute, Dataset, DatasetStructure, Metadata
from sigbank.sedpack.io.types import HashChecksumT

TESTDATA = Path(__file__).resolve().parents[2] / "testdata" / "sedpack"

HAS_REFERENCE = importlib.util.find_spec("sedpack") is not None
needs_reference = pytest.mark.skipif(
    not HAS_REFERENCE, reason="the reference package sedpack is not installed here; `make test` installs it"
)

COMPRESSIONS = ["", "GZIP", "ZLIB", "BZ2", "LZMA", "LZ4", "ZSTD"]
CHECKSUMS = list(typing.get_args(HashChecksumT))
# The compressions that the reference's Rust iterators read.
REFERENCE_RUST_COMPRESSIONS = ["", "LZ4", "GZIP", "ZLIB", "ZSTD"]


def attributes(model: type[Any] = Attribute) -> list[Any]:
    """The attributes of KINDS, as our model or the reference's."""
    return [model(name=name, dtype=dtype, shape=shape) for name, (dtype, shape, _) in KINDS.items()]


def example(index: int) -> dict[str, Any]:
    """The values of example `index`."""
    return {name: value(index) for name, (_, _, value) in KINDS.items()}


def reference(name: str = "io") -> Any:
    """A module of the reference package: `sedpack.<name>`."""
    return importlib.import_module(f"sedpack.{name}")


def assert_example(found: dict[str, Any], index: int) -> None:
    """`found` holds the values of example `index`, of the right types; arrays little-endian."""
    expected = example(index)
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert_value(found[name], value, KINDS[name][0], f"example {index}, {name}")


def assert_value(found: Any, value: Any, dtype: str, what: str) -> None:
    """`found` is `value` as the dtype is handed out."""
    if dtype in ("int", "str", "bytes"):
        expected_value = bytes(value) if dtype == "bytes" else value
        assert type(found).__name__ == dtype and found == expected_value, what
        return
    expected = np.asarray(value)
    assert isinstance(found, np.ndarray), what
    assert found.dtype == np.dtype(dtype).newbyteorder("<"), what
    assert found.shape == expected.shape, what
    assert found.tobytes() == np.ascontiguousarray(expected.astype(found.dtype)).tobytes(), what


def make(path: Path, count: int = 0, structure: dict[str, Any] | None = None, package: Any = None, split: str = "train") -> Any:
    """A dataset with the examples 0..count of KINDS, by our package or the given one."""
    io = package or _ours()
    described = io.DatasetStructure(
        saved_data_description=attributes(io.Attribute), **{"examples_per_shard": 3, **(structure or {})}
    )
    dataset = io.Dataset.create(path, io.Metadata(description="é"), described)
    if count:
        fill(dataset, range(count), split)
    return dataset


def fill(dataset: Any, indexes: typing.Iterable[int], split: str = "train", **options: Any) -> None:
    """Write the examples of KINDS with those indexes in one session."""
    with dataset.filler(concurrency=1) as filler:
        for index in indexes:
            filler.write_example(example(index), split, **options)


def make_numbered(path: Path, count: int, per_shard: int = 2, **structure: Any) -> Dataset:
    """A dataset whose only attribute `i` counts the examples; shard n has the custom metadata {"k": n % 3}."""
    described = DatasetStructure(
        saved_data_description=[Attribute(name="i", dtype="int", shape=())],
        **{"examples_per_shard": per_shard, "compression": "", **structure},
    )
    dataset = Dataset.create(path, Metadata(), described)
    with dataset.filler(concurrency=1) as filler:
        for i in range(count):
            shard = i // per_shard
            filler.write_example({"i": i}, "train", custom_metadata={"k": shard % 3})
    return dataset


def _ours() -> Any:
    return importlib.import_module("sigbank.sedpack.io")
