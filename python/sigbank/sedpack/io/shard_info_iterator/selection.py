"""Which shards are read: filters and limits over a list of shards, as pure functions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from ..shard_file_metadata import ShardInfo

ShardFilterT = Callable[[ShardInfo], bool]


def check_not_negative(**limits: int | None) -> None:
    """ValueError naming the first limit below 0."""
    for name, limit in limits.items():
        if limit is not None and limit < 0:
            raise ValueError(f"expected {name} to be 0 or more, found {limit}")


def select(
    infos: Iterable[ShardInfo],
    shards: int | None,
    custom_metadata_type_limit: int | None,
    shard_filter: ShardFilterT | None,
) -> Iterator[tuple[int, ShardInfo]]:
    """The selected shards with their positions, in order.

    First `shard_filter`, then at most `custom_metadata_type_limit` shards of each distinct custom metadata, then at most
    `shards` of those; a limit of None or 0 does not limit.
    """
    seen: Counter[str] = Counter()
    selected = 0
    for index, info in enumerate(infos):
        if shard_filter is not None and not shard_filter(info):
            continue
        if custom_metadata_type_limit:
            kind = json.dumps(info.custom_metadata, sort_keys=True)
            seen[kind] += 1
            if seen[kind] > custom_metadata_type_limit:
                continue
        yield index, info
        selected += 1
        if selected == shards:
            return
