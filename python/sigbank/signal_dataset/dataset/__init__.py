"""Writing, publishing and reading datasets."""

from __future__ import annotations

from ..policy import AccessMode, CachePolicy, PublicationOptions
from ..record.model import PublishedShard
from .publication import publish
from .reader import Dataset, open
from .shard import RecordShardWriter, write_shard
from .view import DatasetView

__all__ = [
    "AccessMode",
    "CachePolicy",
    "Dataset",
    "DatasetView",
    "PublicationOptions",
    "PublishedShard",
    "RecordShardWriter",
    "open",
    "publish",
    "write_shard",
]
