"""Reading examples out of a dataset: every iterator of the interface, over the one native loader."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sigbank import _native

from . import tf_dataset
from .metadata import Attribute, DatasetInfo
from .shard_file_metadata import ShardInfo
from .shard_info_iterator.selection import ShardFilterT, check_not_negative, select
from .types import BatchT, ExampleT, SplitT

T = TypeVar("T")

_DEFAULT_PARALLELISM = 2
# TensorFlow's word for as many as it likes.
_AUTOTUNE = -1
# How many examples the asynchronous iterator fetches for one hop to a thread.
_ASYNC_CHUNK = 32
_shard_info = ShardInfo._stored_as()


class DatasetIteration:
    """The iterators of `Dataset`.

    Arguments that they share:
        split: the split to read; KeyError when the dataset has no such split.
        process_record, process_batch: applied to each example or batch; its result is handed out instead.
        shards: at most that many shards, the first ones that pass the filters; None or 0 is no limit.
        custom_metadata_type_limit: at most that many shards of each distinct custom metadata; None or 0 is no limit.
        shard_filter: keeps the shards for which it returns true.
        repeat: start again after the last example, without end.
        shuffle: how many examples the shuffle buffer holds; 0 is the stored order, always.
        file_parallelism: how many threads read and decode shards.

    They raise ValueError when no shard is left to read, and on the way ValueError for a damaged shard and OSError for one
    that cannot be read.
    """

    path: Path | str
    _native: _native.SedpackDataset

    def _selection(
        self,
        split: SplitT,
        shards: int | None,
        custom_metadata_type_limit: int | None,
        shard_filter: ShardFilterT | None,
    ) -> list[int] | None:
        """The positions of the selected shards in the split, None for all of them."""
        check_not_negative(shards=shards, custom_metadata_type_limit=custom_metadata_type_limit)
        total = self._native.num_shards(split)
        if shard_filter is None and not custom_metadata_type_limit:
            chosen = None if not shards or shards >= total else list(range(shards))
            empty = total == 0
        elif shard_filter is None and custom_metadata_type_limit:
            # What the metadata of all shards are is known without an object for each.
            chosen = self._native.limit_metadata_types(split, custom_metadata_type_limit)[: shards or None]
            empty = not chosen
        else:
            infos = iterate_shard_infos(self._native, split)
            chosen = [index for index, _ in select(infos, shards, custom_metadata_type_limit, shard_filter)]
            empty = not chosen
        if empty:
            raise ValueError(
                f"no shard of the {total} in the split {split!r} is selected; loosen shard_filter, or write examples first"
            )
        return chosen

    def _examples(
        self,
        split: SplitT,
        process_record: Callable[[ExampleT], T] | None,
        selection: tuple[int | None, int | None, ShardFilterT | None],
        repeat: bool,
        shuffle: int,
        file_parallelism: int,
    ) -> Iterator[Any]:
        check_not_negative(shuffle=shuffle)
        threads = check_positive("file_parallelism", file_parallelism)
        chosen = self._selection(split, *selection)
        examples = self._native.examples(split, chosen, repeat, shuffle, threads, None)
        return examples if process_record is None else map(process_record, examples)

    def as_numpy_iterator(
        self,
        *,
        split: SplitT,
        process_record: Callable[[ExampleT], T] | None = None,
        shards: int | None = None,
        custom_metadata_type_limit: int | None = None,
        shard_filter: ShardFilterT | None = None,
        repeat: bool = True,
        shuffle: int = 1_000,
    ) -> Iterator[ExampleT] | Iterator[T]:
        """Examples one by one; see the class for the arguments and errors."""
        selection = (shards, custom_metadata_type_limit, shard_filter)
        return self._examples(split, process_record, selection, repeat, shuffle, _DEFAULT_PARALLELISM)

    def as_numpy_iterator_concurrent(
        self,
        *,
        split: SplitT,
        process_record: Callable[[ExampleT], T] | None = None,
        shards: int | None = None,
        custom_metadata_type_limit: int | None = None,
        shard_filter: ShardFilterT | None = None,
        repeat: bool = True,
        file_parallelism: int = _DEFAULT_PARALLELISM,
        shuffle: int = 1_000,
    ) -> Iterator[ExampleT] | Iterator[T]:
        """As `as_numpy_iterator`, with a chosen number of threads."""
        selection = (shards, custom_metadata_type_limit, shard_filter)
        return self._examples(split, process_record, selection, repeat, shuffle, file_parallelism)

    def as_numpy_iterator_rust(
        self,
        *,
        split: SplitT,
        process_record: Callable[[ExampleT], T] | None = None,
        shards: int | None = None,
        custom_metadata_type_limit: int | None = None,
        shard_filter: ShardFilterT | None = None,
        repeat: bool = True,
        file_parallelism: int = _DEFAULT_PARALLELISM,
        shuffle: int = 1_000,
    ) -> Iterator[ExampleT] | Iterator[T]:
        """As `as_numpy_iterator_concurrent`."""
        selection = (shards, custom_metadata_type_limit, shard_filter)
        return self._examples(split, process_record, selection, repeat, shuffle, file_parallelism)

    def as_numpy_iterator_rust_batched(
        self,
        *,
        split: SplitT,
        process_batch: Callable[[BatchT], T] | None = None,
        shards: int | None = None,
        custom_metadata_type_limit: int | None = None,
        shard_filter: ShardFilterT | None = None,
        repeat: bool = True,
        batch_size: int = 1,
        file_parallelism: int = _DEFAULT_PARALLELISM,
        shuffle: int = 1_000,
    ) -> Iterator[BatchT] | Iterator[T]:
        """Batches of `batch_size` examples; the last one may be short, and with `repeat` none is: they run across epochs."""
        check_not_negative(shuffle=shuffle)
        check_positive("batch_size", batch_size)
        threads = check_positive("file_parallelism", file_parallelism)
        chosen = self._selection(split, shards, custom_metadata_type_limit, shard_filter)
        batches = self._native.batches(split, chosen, repeat, shuffle, threads, None, batch_size)
        return batches if process_batch is None else map(process_batch, batches)

    async def as_numpy_iterator_async(
        self,
        *,
        split: SplitT,
        process_record: Callable[[ExampleT], T] | None = None,
        shards: int | None = None,
        custom_metadata_type_limit: int | None = None,
        shard_filter: ShardFilterT | None = None,
        repeat: bool = True,
        file_parallelism: int = _DEFAULT_PARALLELISM,
        shuffle: int = 1_000,
    ) -> AsyncIterator[Any]:
        """As `as_numpy_iterator_concurrent`, without blocking the event loop while shards are read."""
        selection = (shards, custom_metadata_type_limit, shard_filter)
        examples = await asyncio.to_thread(self._examples, split, None, selection, repeat, shuffle, file_parallelism)
        error: Exception | None = None
        while error is None:
            chunk, error = await asyncio.to_thread(_take, examples, _ASYNC_CHUNK)
            for example in chunk:
                yield example if process_record is None else process_record(example)
        if not isinstance(error, StopIteration):
            raise error

    def example_iterator_from_shard_iterator(
        self,
        *,
        shard_iterator: Iterable[ShardInfo],
        process_record: Callable[[ExampleT], T] | None = None,
        shuffle: int = 1_000,
    ) -> Iterator[ExampleT] | Iterator[T]:
        """The examples of the shards that `shard_iterator` gives, in its order when `shuffle` is 0; it may be endless."""
        check_not_negative(shuffle=shuffle)
        paths = map(shard_path, shard_iterator)
        examples = self._native.examples_from_paths(paths, shuffle, _DEFAULT_PARALLELISM, None)
        return examples if process_record is None else map(process_record, examples)

    def as_tfdataset(
        self,
        split: SplitT,
        *,
        process_record: Callable[[Any], Any] | None = None,
        shards: int | None = None,
        custom_metadata_type_limit: int | None = None,
        shard_filter: ShardFilterT | None = None,
        repeat: bool = True,
        batch_size: int = 32,
        prefetch: int = 2,
        file_parallelism: int | None = _DEFAULT_PARALLELISM,
        parallelism: int | None = _DEFAULT_PARALLELISM,
        shuffle: int = 1_000,
    ) -> Any:
        """A `tf.data.Dataset` of batches, whatever the shard file type; each iteration over it begins anew.

        Values have the declared dtypes: an `int` is an int64, `str` (in UTF-8) and `bytes` are strings.

        Args:
            process_record: traced by TensorFlow, and applied to each example before it is batched.
            batch_size: examples in a batch; 0 or less gives examples that are not batched.
            prefetch: how many batches TensorFlow holds ready; -1 leaves it to TensorFlow.
            file_parallelism: how many threads read and decode shards; None for the default.
            parallelism: how many calls of `process_record` run at once; None for one, -1 leaves it to TensorFlow.

        Raises:
            ImportError: TensorFlow is not installed (`pip install 'sigbank[tf]'`).
            ValueError: TensorFlow has no dtype for an attribute, or no shard is left to read.
            KeyError: the dataset has no such split.
        """
        check_not_negative(shuffle=shuffle)
        threads = check_positive("file_parallelism", _DEFAULT_PARALLELISM if file_parallelism is None else file_parallelism)
        if parallelism is not None and parallelism != _AUTOTUNE:
            check_positive("parallelism", parallelism)
        if prefetch != _AUTOTUNE:
            check_not_negative(prefetch=prefetch)
        chosen = self._selection(split, shards, custom_metadata_type_limit, shard_filter)

        def begin(size: int) -> Iterator[BatchT]:
            return self._native.batches(split, chosen, repeat, shuffle, threads, None, size, True)

        return tf_dataset.dataset(self._attributes(), begin, process_record, batch_size, prefetch, parallelism)

    def read_and_decode(
        self, tf_dataset_of_paths: Any, cycle_length: int | None, num_parallel_calls: int | None, parallelism: int | None
    ) -> Any:
        """A `tf.data.Dataset` of the examples of the shards that one of paths names (see `shard_paths_dataset`), in its order.

        `num_parallel_calls` is how many threads read; the other two are taken for compatibility.
        """
        threads = num_parallel_calls if num_parallel_calls and num_parallel_calls > 0 else _DEFAULT_PARALLELISM

        def begin() -> Iterator[BatchT]:
            paths = map(self._from_root, tf_dataset_of_paths.as_numpy_iterator())
            return self._native.batches_from_paths(paths, 0, threads, None, tf_dataset.CHUNK, True)

        return tf_dataset.examples(self._attributes(), begin)

    def _from_root(self, path: bytes) -> str:
        if isinstance(self.path, str):
            return path.decode().removeprefix(f"{self.path.rstrip('/')}/")
        return Path(path.decode()).relative_to(self.path).as_posix()

    def _attributes(self) -> Sequence[Attribute]:
        return DatasetInfo.model_validate_json(self._native.info()).dataset_structure.saved_data_description

    def as_numpy_common(
        self,
        *,
        split: SplitT,
        shards: int | None = None,
        custom_metadata_type_limit: int | None = None,
        shard_filter: ShardFilterT | None = None,
        repeat: bool = True,
        shuffle: int = 1_000,
    ) -> Iterator[str]:
        """The paths of the selected shards' files, mixed anew each time unless `shuffle` is 0, without end when `repeat`."""
        check_not_negative(shuffle=shuffle)
        paths = self.shard_paths_dataset(split, shards, custom_metadata_type_limit, shard_filter)
        epochs = itertools.repeat(paths) if repeat else iter([paths])
        return itertools.chain.from_iterable(random.sample(paths, len(paths)) if shuffle else paths for _ in epochs)

    def shard_paths_dataset(
        self,
        split: SplitT,
        shards: int | None = None,
        custom_metadata_type_limit: int | None = None,
        shard_filter: ShardFilterT | None = None,
    ) -> list[str]:
        """The paths of the selected shards' files, in stored order; KeyError and ValueError as the iterators."""
        chosen = self._selection(split, shards, custom_metadata_type_limit, shard_filter)
        infos = list(iterate_shard_infos(self._native, split))
        root = str(self.path).rstrip("/")
        return [f"{root}/{shard_path(infos[i])}" for i in (range(len(infos)) if chosen is None else chosen)]


def iterate_shard_infos(native: _native.SedpackDataset, split: SplitT) -> Iterator[ShardInfo]:
    """Every shard of the split in stored order, a thousand fetched at a time; KeyError."""
    total = native.num_shards(split)
    for start in range(0, total, 1_000):
        yield from map(_shard_info, native.shard_infos(split, start, min(start + 1_000, total)))


def shard_path(info: ShardInfo) -> str:
    """The first file of a shard, from the dataset's root."""
    if not info.file_infos:
        raise ValueError(f"a shard of {info.number_of_examples} examples names no file; the list of shards is damaged")
    return info.file_infos[0].file_path.as_posix()


def check_positive(name: str, value: int) -> int:
    """`value`; ValueError naming it when it is below 1."""
    if value < 1:
        raise ValueError(f"expected {name} to be at least 1, found {value}")
    return value


def _take(items: Iterator[Any], count: int) -> tuple[list[Any], Exception | None]:
    """Up to `count` items, and what ended them early."""
    taken: list[Any] = []
    try:
        while len(taken) < count:
            taken.append(next(items))
    except Exception as error:  # handed back, and raised after the items before it
        return taken, error
    return taken, None
