"""A published dataset, to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, cast, overload

from sigbank import _native

from .._roots import (
    ObjectStore,
    Settings,
    ShardStore,
    native_store,
    object_store_at,
    root_path,
    told_apart,
)
from ..annotation.catalog import AnnotationCatalog, AnnotationSet
from ..policy import AccessMode, CachePolicy, StorageOptions
from ..record.model import Json, Record, RecordMetadata
from ..storage.shards import ArrayRecordShardStore
from .instructions import ReadInstruction

if TYPE_CHECKING:
    from .view import DatasetView


class Dataset(Sequence[Record]):
    """The records of a published dataset, by ordinal. `open` and `publish` make it.

    Records are read when they are asked for; their arrays are read-only. It may be used by threads, pickled (which opens it
    again), and used after a fork.
    """

    def __init__(
        self,
        native: _native.SignalDataset,
        options: StorageOptions | None = None,
        object_store: ObjectStore | None = None,
        shard_store: ShardStore | None = None,
    ) -> None:
        self._native = native
        self._shard_store = shard_store
        self.object_store = object_store or object_store_at(native.root, None, None)
        self._options = options
        self._location = native.location
        self.root: str = native.root
        self.id: str = native.id
        self.snapshot_id: str = native.snapshot_id
        self.metadata: Mapping[str, Json] = native.metadata
        self.access_mode = AccessMode.LAZY_RANDOM_ACCESS
        self.cache_policy = CachePolicy.NONE
        self.record_metadata = RecordMetadataSequence(native)
        self._catalog: AnnotationCatalog | None = None

    @property
    def annotations(self) -> AnnotationCatalog:
        """The annotation sets by name: as they are when this is first asked for, and with what is published through this object."""
        if self._catalog is None:
            self._catalog = AnnotationCatalog(self, self._native.annotations())
        return self._catalog

    def _annotated(self, native: _native.SignalAnnotationSet) -> AnnotationSet:
        self._catalog = None
        return AnnotationSet(self, native)

    @property
    def storage_options(self) -> StorageOptions:
        """How it was opened."""
        return self._options or StorageOptions()

    @property
    def shard_store(self) -> ShardStore:
        """What its shards are read with: the store that was given, or that of ArrayRecord files."""
        return self._shard_store or ArrayRecordShardStore()

    @property
    def root_digest(self) -> str:
        """The digest that names this dataset: where its references hold checksums it stands for every byte."""
        return self._native.root_digest

    def __repr__(self) -> str:
        return f"Dataset(root={self.root!r}, id={self.id!r}, snapshot_id={self.snapshot_id!r}, records={len(self)})"

    def __len__(self) -> int:
        return len(self._native)

    @overload
    def __getitem__(self, ordinal: int) -> Record: ...
    @overload
    def __getitem__(self, ordinal: slice) -> list[Record]: ...
    def __getitem__(self, ordinal: int | slice) -> Record | list[Record]:
        return cast(Record, self._native.record(ordinal))

    def __getitems__(self, ordinals: Sequence[int]) -> list[Record]:
        """The records at `ordinals`, in that order, read together."""
        return self._native.records(ordinals)

    def __iter__(self) -> Iterator[Record]:
        return self._native.iter_records()

    def iter_records(self) -> Iterator[Record]:
        """All records in order, read ahead by threads; memory stays bounded."""
        return self._native.iter_records()

    def iter_record_metadata(self) -> Iterator[RecordMetadata]:
        """What is said of all records in order. No samples are read."""
        return self._native.iter_record_metadata()

    def select(self, indices: Sequence[int]) -> DatasetView:
        """The records at `indices`, in that order; they may repeat. Nothing is read or copied."""
        from .view import DatasetView

        return DatasetView(self, indices)

    def read_instructions(
        self, start: int = 0, stop: int | None = None, *, metadata: bool = False
    ) -> list[ReadInstruction]:
        """Where the records from `start` to before `stop` are stored, by shard; `metadata` for what is said of them.

        Raises:
            ValueError: the range is not within the dataset, or this is a published view.
        """
        runs = self._native.read_instructions(start, stop, metadata)
        return [ReadInstruction(*run) for run in runs]

    def verify(self, progress: Callable[[int, int], object] | None = None) -> tuple[int, int, int]:
        """Compare every object with its reference and decode every record; gives (shards, records, bytes).

        Args:
            progress: hears (shards done, shards in all); what it raises ends the run.

        Raises:
            CorruptDatasetError: (a ValueError) with the first object at fault.
        """
        return self._native.verify(progress)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._location, self.root, self._options, self.object_store, self._shard_store)


def _reopen(
    location: str,
    root: str,
    options: StorageOptions | None,
    object_store: ObjectStore,
    shard_store: ShardStore | None,
) -> Dataset:
    dataset = open(location, object_store=object_store, options=options, shard_store=shard_store)
    dataset.root = root
    return dataset


class RecordMetadataSequence(Sequence[RecordMetadata]):
    """What is said of records, by ordinal."""

    def __init__(self, native: _native.SignalDataset | _native.SignalView) -> None:
        self._native = native

    def __len__(self) -> int:
        return len(self._native)

    @overload
    def __getitem__(self, ordinal: int) -> RecordMetadata: ...
    @overload
    def __getitem__(self, ordinal: slice) -> list[RecordMetadata]: ...
    def __getitem__(self, ordinal: int | slice) -> RecordMetadata | list[RecordMetadata]:
        return cast(RecordMetadata, self._native.record_metadata(ordinal))

    def __iter__(self) -> Iterator[RecordMetadata]:
        return self._native.iter_record_metadata()


def open(
    root: str | PathLike[str],
    *,
    object_store: ObjectStore | None = None,
    options: StorageOptions | None = None,
    shard_store: ShardStore | None = None,
    storage_options: Settings | None = None,
    version: str | int | None = None,
) -> Dataset:
    """Open a published dataset for reading.

    Args:
        root: its directory, or an address such as s3://bucket/prefix.
        object_store: the store that it is in, where that is not to be found by its address.
        options: how to read.
        shard_store: what reads the shards, where they are no ArrayRecord files; see `storage.ShardStore`.
        storage_options: the settings of the storage service, by name; where `root` is a directory, of the one where the objects are that
            a published view there refers to. They are pickled with the dataset: credentials are better
            given by the environment.
        version: a further version, see `versions.at`; None for what every reader sees.

    Raises:
        FileNotFoundError: there is none at `root` (yet), or no such version.
        CorruptDatasetError: (a ValueError) its documents are damaged, of another format, or need a newer reader.
    """
    path = root_path(root)
    read_options, settings = told_apart(storage_options, options)
    objects = object_store_at(path, object_store, settings)
    store = native_store(path, objects, create=False, shard_store=shard_store, options=read_options)
    native = _native.SignalDataset.open(store, read_options)
    dataset = Dataset(native, read_options, objects, shard_store)
    if version is None:
        return dataset
    from ..versions import at

    return at(dataset, version)
