"""The selected shards of a split, kept in memory, in stored or random order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from sigbank import _native

from ..itertools import shuffle_buffer
from ..metadata import DatasetInfo
from ..shard_file_metadata import ShardInfo
from ..types import SplitT
from .selection import ShardFilterT, check_not_negative, select
from .shard_info_iterator import ShardInfoIterator


class CachedShardInfoIterator(ShardInfoIterator):
    """The shards that pass the filters; `shuffle` is the size of the shuffle buffer, in shards, 0 for the stored order.

    The other arguments are those of `ShardInfoIterator` and of the iterators of `Dataset`. KeyError when the split has no
    shards. With `repeat`, each round is shuffled anew.
    """

    def __init__(
        self,
        *,
        dataset_path: Path | str,
        dataset_info: DatasetInfo,
        split: SplitT | None,
        repeat: bool = False,
        shards: int | None = None,
        custom_metadata_type_limit: int | None = None,
        shard_filter: ShardFilterT | None = None,
        shuffle: int = 0,
        native: _native.SedpackDataset | None = None,
    ) -> None:
        check_not_negative(shards=shards, custom_metadata_type_limit=custom_metadata_type_limit, shuffle=shuffle)
        super().__init__(dataset_path=dataset_path, dataset_info=dataset_info, split=split, repeat=repeat, native=native)
        self._shuffle = shuffle
        self._infos = [info for _, info in select(self._stored(), shards, custom_metadata_type_limit, shard_filter)]
        self._count = len(self._infos)
        self._iterator = self._order()

    @staticmethod
    def _no_split(message: str) -> Exception:
        return KeyError(message)

    def _order(self) -> Iterator[ShardInfo]:
        """The order of this iteration."""
        for _ in itertools.count() if self.repeat and self._infos else range(1):
            yield from shuffle_buffer(self._infos, self._shuffle) if self._shuffle else self._infos
