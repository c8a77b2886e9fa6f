"""Annotations: what was found out about a dataset's records later. Workers use `write_shard`, a coordinator `publish_shards`."""

from __future__ import annotations

from ..policy import AnnotationOptions
from ..record.model import AnnotationRecord, AnnotationStatus
from .catalog import AnnotationCatalog, AnnotationSet
from .codec import SafeTensorsAnnotationCodec
from .model import PublishedAnnotationShard
from .publisher import publish_annotations, publish_shards, write_shard

__all__ = [
    "AnnotationCatalog",
    "AnnotationOptions",
    "AnnotationRecord",
    "AnnotationSet",
    "AnnotationStatus",
    "PublishedAnnotationShard",
    "SafeTensorsAnnotationCodec",
    "publish_annotations",
    "publish_shards",
    "write_shard",
]
