"""A selection of a dataset's records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any, cast, overload

from .._frozen import whole_number
from .._roots import root_path
from ..policy import PublicationOptions, RetryPolicy
from ..record.model import Record
from ..retry import retry_policy, retrying
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
    ) -> Dataset:
        """Publish it as a dataset that refers to the source's objects by absolute paths: they must stay where they are.

        Its metadata say `reference_dataset`. `compat` as for `sigbank.signal_dataset.publish`.

        Raises:
            PublicationCollisionError: (a FileExistsError) another publication stands there.
        """
        path, options = root_path(destination), self.dataset._options
        native = retrying(
            retry_policy(retry),
            lambda: self._native.publish(path, dataset_id, snapshot_id, options, publication_options, compat),
        )
        return Dataset(native, options)

    def materialize(
        self,
        destination: str | PathLike[str],
        *,
        dataset_id: str,
        snapshot_id: str,
        records_per_shard: int = 10_000,
        retry: int | RetryPolicy | None = None,
        compat: bool = False,
    ) -> Dataset:
        """Copy its records into a dataset of its own, in shards of `records_per_shard`.

        Raises:
            PublicationCollisionError: (a FileExistsError) another publication stands there.
        """
        whole_number("records_per_shard", records_per_shard, 1, "a positive integer")
        path, options = root_path(destination), self.dataset._options
        native = retrying(
            retry_policy(retry),
            lambda: self._native.materialize(path, dataset_id, snapshot_id, records_per_shard, options, compat),
        )
        return Dataset(native, options)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.dataset, self.indices)
