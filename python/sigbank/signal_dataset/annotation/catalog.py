"""Annotation sets, to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

from sigbank import _native

from ..record.model import AnnotationRecord, Json

if TYPE_CHECKING:
    from ..dataset.reader import Dataset


class AnnotationSet(Sequence[AnnotationRecord]):
    """A set of annotations, one for each record of a dataset, by the record's ordinal."""

    def __init__(self, dataset: Dataset, native: _native.SignalAnnotationSet) -> None:
        self._dataset = dataset
        self._native = native
        self.root: str = dataset.root
        self.name: str = native.name
        self.publication_id: str = native.publication_id
        self.source_snapshot_id: str = native.source_snapshot_id
        self.metadata: Mapping[str, Json] = native.metadata

    def __repr__(self) -> str:
        return f"AnnotationSet(name={self.name!r}, publication_id={self.publication_id!r}, records={len(self)})"

    def __len__(self) -> int:
        return len(self._native)

    @overload
    def __getitem__(self, index: int) -> AnnotationRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[AnnotationRecord]: ...
    def __getitem__(self, index: int | slice) -> AnnotationRecord | list[AnnotationRecord]:
        return cast(AnnotationRecord, self._native.row(index))

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self._dataset, self.name)


def _reopened(dataset: Dataset, name: str) -> AnnotationSet:
    return dataset.annotations[name]


class AnnotationCatalog(Mapping[str, AnnotationSet]):
    """The annotation sets of a dataset by name, as they were when they were looked up.

    `revision` is the path of the document that names them, None where there are none.
    """

    def __init__(self, dataset: Dataset, native: _native.SignalAnnotations) -> None:
        self._dataset = dataset
        self._native = native
        self._names: list[str] = native.names()
        self._opened: dict[str, AnnotationSet] = {}
        self.revision: str | None = native.revision

    def __repr__(self) -> str:
        return f"AnnotationCatalog({self._names}, revision={self.revision!r})"

    def __getitem__(self, name: str) -> AnnotationSet:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._opened:
            self._opened[name] = AnnotationSet(self._dataset, self._native.open(name))
        return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __reduce__(self) -> tuple[Any, ...]:
        return _catalog, (self._dataset,)


def _catalog(dataset: Dataset) -> AnnotationCatalog:
    return dataset.annotations
