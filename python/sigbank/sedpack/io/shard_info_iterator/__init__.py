"""Iterators over the shards of a dataset, without reading the shards."""

from __future__ import annotations

from .cached_shard_info_iterator import CachedShardInfoIterator
from .shard_info_iterator import ShardInfoIterator

__all__ = ["CachedShardInfoIterator", "ShardInfoIterator"]
