"""Iterators over given shards, as context managers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sigbank import _native

from .dataset_iteration import check_positive, shard_path
from .metadata import DatasetStructure
from .shard_file_metadata import ShardInfo
from .shard_info_iterator.selection import check_not_negative
from .types import BatchT, ExampleT

T = TypeVar("T")

__all__ = ["RustBatchedGenerator", "RustGenerator"]


class _Generator:
    """What both generators share: `with G(…) as generator: for item in generator(): …`."""

    _process: Callable[[Any], Any] | None

    def _open(self, dataset_path: Path | str, shard_iterator: Iterable[ShardInfo], file_parallelism: int) -> None:
        self._threads = check_positive("file_parallelism", file_parallelism)
        self._native = _native.SedpackDataset.open(str(dataset_path), True)
        self._shards = shard_iterator

    def _items(self, paths: Iterator[str]) -> Iterator[Any]:
        raise NotImplementedError

    def __call__(self) -> Iterator[Any]:
        """The items, each through the callback when one was given."""
        items = self._items(map(shard_path, self._shards))
        return items if self._process is None else map(self._process, items)

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        """Nothing is held open between items."""


class RustGenerator(_Generator):
    """The examples of given shards, one by one.

    Args:
        dataset_path: the dataset's root.
        dataset_structure: taken for compatibility; what the dataset itself says is used.
        shard_iterator: the shards, in the order to read; it may be endless.
        process_record: applied to each example; its result is handed out instead.
        file_parallelism: how many threads read and decode shards.
    """

    def __init__(
        self,
        *,
        dataset_path: Path | str,
        dataset_structure: DatasetStructure,
        shard_iterator: Iterable[ShardInfo],
        process_record: Callable[[ExampleT], Any] | None = None,
        file_parallelism: int = 2,
    ) -> None:
        self._open(dataset_path, shard_iterator, file_parallelism)
        self._process = process_record

    def _items(self, paths: Iterator[str]) -> Iterator[Any]:
        items: Iterator[Any] = self._native.examples_from_paths(paths, 0, self._threads, None)
        return items


class RustBatchedGenerator(_Generator):
    """The examples of given shards in batches of `batch_size`, through a shuffle buffer of `shuffle_buffer_size` examples.

    `process_batch` is applied to each batch; the other arguments are those of `RustGenerator`.
    """

    def __init__(
        self,
        *,
        dataset_path: Path | str,
        dataset_structure: DatasetStructure,
        shard_iterator: Iterable[ShardInfo],
        batch_size: int,
        process_batch: Callable[[BatchT], Any] | None = None,
        file_parallelism: int = 2,
        shuffle_buffer_size: int = 0,
    ) -> None:
        check_not_negative(shuffle_buffer_size=shuffle_buffer_size)
        self._open(dataset_path, shard_iterator, file_parallelism)
        self._process = process_batch
        self._batch_size = check_positive("batch_size", batch_size)
        self._shuffle = shuffle_buffer_size

    def _items(self, paths: Iterator[str]) -> Iterator[Any]:
        items: Iterator[Any] = self._native.batches_from_paths(paths, self._shuffle, self._threads, None, self._batch_size)
        return items
