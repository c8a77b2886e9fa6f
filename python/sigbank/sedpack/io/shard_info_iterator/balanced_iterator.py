"""The shards of a split in an order that balances groups of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path

from sigbank import _native

from ..itertools import shuffle_buffer
from ..metadata import DatasetInfo
from ..shard_file_metadata import ShardInfo
from ..types import SplitT
from .cached_shard_info_iterator import CachedShardInfoIterator
from .selection import ShardFilterT

BalanceByT = tuple[Callable[[ShardInfo], Hashable], ...]


class BalancedShardInfoIterator(CachedShardInfoIterator):
    """Shards in an order in which each group has given about as many examples as the others, at any moment.

    `balance_by` names the groups: the first function splits all shards into groups, the next one each of these, and so on.
    With `repeat` each group starts again by itself, so that a small one keeps up; without, a group that is used up leaves.
    `shuffle` is the size of the shuffle buffer within a group. The other arguments are those of `CachedShardInfoIterator`.
    """

    def __init__(
        self,
        *,
        dataset_path: Path | str,
        dataset_info: DatasetInfo,
        split: SplitT | None,
        repeat: bool = True,
        shard_filter: ShardFilterT | None = None,
        shuffle: int = 0,
        balance_by: BalanceByT = (),
        native: _native.SedpackDataset | None = None,
    ) -> None:
        self._balance_by = balance_by
        super().__init__(
            dataset_path=dataset_path,
            dataset_info=dataset_info,
            split=split,
            repeat=repeat,
            shard_filter=shard_filter,
            shuffle=shuffle,
            native=native,
        )

    def _order(self) -> Iterator[ShardInfo]:
        return self._balanced(self._infos, self._balance_by)

    def _balanced(self, infos: list[ShardInfo], balance_by: BalanceByT) -> Iterator[ShardInfo]:
        if not balance_by:
            for _ in itertools.count() if self.repeat and infos else range(1):
                yield from shuffle_buffer(infos, self._shuffle) if self._shuffle else infos
            return
        groups: dict[Hashable, list[ShardInfo]] = {}
        for info in infos:
            groups.setdefault(balance_by[0](info), []).append(info)
        running = {key: self._balanced(group, balance_by[1:]) for key, group in groups.items()}
        given = dict.fromkeys(running, 0)
        while running:
            behind = min(running, key=given.__getitem__)
            info_or_none = next(running[behind], None)
            if info_or_none is None:
                del running[behind]
                continue
            given[behind] += info_or_none.number_of_examples
            yield info_or_none
