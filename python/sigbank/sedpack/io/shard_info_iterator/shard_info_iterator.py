"""The shards of a split, one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from sigbank import _native

from ..metadata import DatasetInfo
from ..shard_file_metadata import ShardInfo
from ..types import SplitT

# How many shards' descriptions are fetched at a time.
_FETCH = 1_000
_shard_info = ShardInfo._stored_as()


class ShardInfoIterator:
    """The shards of a split in stored order, or with `split=None` of all splits, without end with `repeat`.

    Args:
        dataset_path: the dataset's root.
        dataset_info: what the dataset says of its splits.
        split: the split, or None for all; ValueError when it has no shards.
        repeat: start again after the last shard.
        native: the open dataset when there is one already.
    """

    def __init__(
        self,
        *,
        dataset_path: Path | str,
        dataset_info: DatasetInfo,
        split: SplitT | None,
        repeat: bool = False,
        native: _native.SedpackDataset | None = None,
    ) -> None:
        self.repeat = repeat
        self._native = native or _native.SedpackDataset.open(str(dataset_path), True)
        self._splits: list[SplitT] = list(dataset_info.splits) if split is None else [split]
        for name in self._splits:
            if name not in dataset_info.splits:
                there = ", ".join(map(repr, dataset_info.splits)) or "none"
                raise self._no_split(f"the dataset has no split {name!r}; the splits with shards are: {there}")
        self._count = sum(dataset_info.splits[name].number_of_shards for name in self._splits)
        self._iterator = self._run()

    @staticmethod
    def _no_split(message: str) -> Exception:
        return ValueError(message)

    def _stored(self) -> Iterator[ShardInfo]:
        for split in self._splits:
            total = self._native.num_shards(split)
            for start in range(0, total, _FETCH):
                infos = self._native.shard_infos(split, start, min(start + _FETCH, total))
                yield from map(_shard_info, infos)

    def _run(self) -> Iterator[ShardInfo]:
        for _ in itertools.count() if self.repeat else range(1):
            any_shard = False
            for info in self._stored():
                any_shard = True
                yield info
            if not any_shard:
                return

    def __iter__(self) -> Iterator[ShardInfo]:
        return self

    def __next__(self) -> ShardInfo:
        return next(self._iterator)

    def number_of_shards(self) -> int:
        """How many distinct shards there are to iterate over."""
        return self._count

    def __len__(self) -> int:
        """The number of shards that the iteration gives; ValueError when it repeats without end."""
        if self.repeat:
            raise ValueError("an iteration that repeats has no length; number_of_shards() counts the distinct shards")
        return self.number_of_shards()
