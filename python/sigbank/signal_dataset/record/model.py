"""Records: what was captured, with the names and coordinates of its axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import numpy as np

from sigbank import _native

from .._frozen import Frozen, set_slot, whole_number

Json = Any
"""None, a bool, an int, a finite float, a str, a list or tuple of these, or a mapping from str to these."""


@dataclass(frozen=True, slots=True)
class Coordinate(Frozen):
    """Where the elements along an axis lie: at `values`, or at `start + i * step`, or where another field or axis says.

    >>> Coordinate(start=0, step=0.5, unit="s").step
    0.5
    """

    values: tuple[Json, ...] | None = None
    start: int | float | None = None
    step: int | float | None = None
    reference: str | None = None
    unit: str | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.values is not None:
            set_slot(self, "values", _native.signal_freeze_values(self.values))
        set_slot(self, "metadata", _native.signal_freeze(self.metadata))


@dataclass(frozen=True, slots=True)
class Axis(Frozen):
    """One dimension of a field: its name, its length, and what is known of it.

    >>> Axis("time", 4096, role="sample").length
    4096
    """

    name: str
    length: int
    role: str | None = None
    id: str | None = None
    coordinate: Coordinate | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_slot(self, "metadata", _native.signal_freeze(self.metadata))


@dataclass(frozen=True, slots=True, eq=False)
class Field(Frozen):
    """An array with one axis for each dimension. `data` becomes a read-only copy in C order.

    >>> Field(np.zeros((2, 3), "complex64"), (Axis("channel", 2), Axis("time", 3))).data.flags.writeable
    False
    """

    data: np.ndarray[Any, Any]
    axes: tuple[Axis, ...] = ()
    metadata: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        data = np.array(self.data, order="C", ndmin=1)
        if data.dtype.hasobject:
            raise ValueError(f"arrays of Python objects (dtype {data.dtype}) cannot be stored: give numbers")
        data.flags.writeable = False
        set_slot(self, "data", data)
        set_slot(self, "axes", tuple(self.axes))
        set_slot(self, "metadata", _native.signal_freeze(self.metadata))


@dataclass(frozen=True, slots=True, eq=False)
class Record(Frozen, Mapping[str, Field]):
    """One capture: fields by name, and what is said of all of them. It is a mapping from names to fields.

    >>> record = Record("a", {"x": Field([1.0, 2.0], (Axis("t", 2),))}, metadata={"gain": 3})
    >>> record["x"].data, record.metadata["gain"]
    (array([1., 2.]), 3)
    """

    id: str
    fields: Mapping[str, Field]
    scene_id: str | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_slot(self, "fields", MappingProxyType(dict(self.fields)))
        set_slot(self, "metadata", _native.signal_freeze(self.metadata))

    def __getitem__(self, name: str) -> Field:
        return self.fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)


@dataclass(frozen=True, slots=True)
class FieldMetadata(Frozen):
    """All of a field but its samples. `dtype` is NumPy's string, such as "<c8"."""

    dtype: str
    shape: tuple[int, ...]
    axes: tuple[Axis, ...] = ()
    metadata: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_slot(self, "shape", tuple(self.shape))
        set_slot(self, "axes", tuple(self.axes))
        set_slot(self, "metadata", _native.signal_freeze(self.metadata))


@dataclass(frozen=True, slots=True)
class RecordMetadata(Frozen, Mapping[str, FieldMetadata]):
    """All of a record but its samples. It is a mapping from names to fields."""

    id: str
    fields: Mapping[str, FieldMetadata]
    scene_id: str | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_slot(self, "fields", MappingProxyType(dict(self.fields)))
        set_slot(self, "metadata", _native.signal_freeze(self.metadata))

    @classmethod
    def from_record(cls, record: Record) -> RecordMetadata:
        """What is said of a record."""
        fields = {
            name: FieldMetadata(one.data.dtype.str, one.data.shape, one.axes, one.metadata) for name, one in record.items()
        }
        return cls(record.id, fields, record.scene_id, record.metadata)

    def __getitem__(self, name: str) -> FieldMetadata:
        return self.fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)


class AnnotationStatus(StrEnum):
    """What came of annotating a record."""

    SUCCESS = "success"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, eq=False)
class AnnotationRecord(Frozen):
    """What was found out about one record of a dataset: values, arrays, and where they come from."""

    source_record_id: str
    source_index: int
    status: AnnotationStatus
    values: Mapping[str, Json] = field(default_factory=dict)
    fields: Mapping[str, Field] = field(default_factory=dict)
    provenance: Mapping[str, Json] = field(default_factory=dict)
    detail_status: str | None = None

    def __post_init__(self) -> None:
        if self.source_index < 0:
            raise ValueError(f"source_index must be nonnegative, found {self.source_index}")
        set_slot(self, "values", _native.signal_freeze(self.values))
        set_slot(self, "fields", MappingProxyType(dict(self.fields)))
        set_slot(self, "provenance", _native.signal_freeze(self.provenance))


class _Digests:
    """What `write_shard` knows beyond what a `PublishedShard` says: the SHA-256 of both objects, so that they need not be read
    again."""

    __slots__ = ("_sha256",)
    _sha256: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class PublishedShard(_Digests):
    """A pair of shards that was written and is to be published."""

    data_uri: str
    metadata_uri: str
    work_id: str
    attempt: int
    record_count: int
    data_bytes: int
    metadata_bytes: int
    data_generation: int | None = None
    metadata_generation: int | None = None

    def __post_init__(self) -> None:
        if not (self.data_uri and self.metadata_uri and self.work_id):
            raise ValueError("shard URIs and work_id must be non-empty")
        for name in ("attempt", "record_count", "data_bytes", "metadata_bytes"):
            whole_number(f"shard {name}", getattr(self, name), 0, "a nonnegative integer")
        set_slot(self, "_sha256", None)

    def __reduce__(self) -> tuple[Any, ...]:
        return _known_shard, (self._sha256, *(getattr(self, field.name) for field in fields(self)))


def _known_shard(sha256: tuple[str, str] | None, *values: Any) -> PublishedShard:
    shard = PublishedShard(*values)
    set_slot(shard, "_sha256", sha256)
    return shard
