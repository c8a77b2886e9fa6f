"""A selection of a dataset's records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any, cast, overload

from .._frozen import whole_number
from .._roots import ObjectStore, Settings, native_store, object_store_at, operation_policy, root_path
from ..policy import PublicationOptions, RetryPolicy, StorageOptions
from ..record.model import Record
from ..retry import retrying
from .reader import Dataset, RecordMetadataSequence


class DatasetView(Sequence[Record]):
    """Records of a dataset in an order of one's own. `Dataset.select` makes it."""

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        if not isinstance(dataset, Dataset):
            raise TypeError(f"dataset must be a Dataset, found {type(dataset).__name__}")
        self.dataset = dataset
        self._native = dataset._native.select(indices)
        self.record_metadata = RecordMetadataSequence(self._native)

    @property
    def indices(self) -> tuple[int, ...]:
        """The ordinals of its records in the dataset."""
        return tuple(self._native.ordinals())

    def __repr__(self) -> str:
        return f"DatasetView({self.dataset!r}, records={len(self)})"

    def __len__(self) -> int:
        return len(self._native)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        return cast(Record, self._native.record(index))

    def __getitems__(self, indices: Sequence[int]) -> list[Record]:
        """The records at `indices` of the view, in that order, read together."""
        return self._native.records(indices)

    def __iter__(self) -> Iterator[Record]:
        return self._native.iter_records()

    def publish(
        self,
        destination: str | PathLike[str],
        *,
        dataset_id: str,
        snapshot_id: str,
        publication_options: PublicationOptions | None = None,
        retry: int | RetryPolicy | None = None,
        compat: bool = False,
        storage_options: Settings | None = None,
    ) -> Dataset:
        """Publish it as a dataset that refers to the source's objects by absolute paths: they must stay where they are.

        Its metadata say `reference_dataset`. `compat` as for `sigbank.signal_dataset.publish`.

        Raises:
            PublicationCollisionError: (a FileExistsError) another publication stands there.
        """
        path, objects, options = self._destination(destination, storage_options)
        shards = self.dataset._shard_store
        native = retrying(
            operation_policy(objects, retry),
            lambda: self._native.publish(
                native_store(path, objects, create=True, retry=retry, shard_store=shards, options=options),
                dataset_id,
                snapshot_id,
                options,
                publication_options,
                compat,
            ),
        )
        return Dataset(native, options, objects, shards)

    def materialize(
        self,
        destination: str | PathLike[str],
        *,
        dataset_id: str,
        snapshot_id: str,
        records_per_shard: int = 10_000,
        retry: int | RetryPolicy | None = None,
        compat: bool = False,
        storage_options: Settings | None = None,
    ) -> Dataset:
        """Copy its records into a dataset of its own, in shards of `records_per_shard`.

        Raises:
            PublicationCollisionError: (a FileExistsError) another publication stands there.
        """
        whole_number("records_per_shard", records_per_shard, 1, "a positive integer")
        path, objects, options = self._destination(destination, storage_options)
        shards = self.dataset._shard_store
        native = retrying(
            operation_policy(objects, retry),
            lambda: self._native.materialize(
                native_store(path, objects, create=True, retry=retry, shard_store=shards, options=options),
                dataset_id,
                snapshot_id,
                records_per_shard,
                options,
                compat,
            ),
        )
        return Dataset(native, options, objects, shards)

    def _destination(
        self, destination: str | PathLike[str], settings: Settings | None
    ) -> tuple[str, ObjectStore, StorageOptions | None]:
        """The path, its store (the dataset's own where it is in the same bucket), and the options."""
        path, given = root_path(destination), None
        if not settings and "://" in path and path.split("/")[:3] == self.dataset.root.split("/")[:3]:
            given = self.dataset.object_store
        return path, object_store_at(path, given, settings), self.dataset._options

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.dataset, self.indices)
