"""Where datasets are kept: stores to give as `object_store=`, and what they are made of.

>>> from sigbank.signal_dataset.storage import S3ObjectStore, S3Options
>>> store = S3ObjectStore(options=S3Options(region_name="us-west-2"))
>>> store.options.region_name
'us-west-2'
"""

from __future__ import annotations

from ..policy import ControlPolicy, ResourcePolicy
from .backends.gcs import GCSObjectStore
from .backends.local import MOUNTED_BUCKET, POSIX, FilesystemCapabilities, LocalObjectStore
from .backends.s3 import S3ObjectStore, S3Options, s3_backend
from .contracts import ObjectInfo, ObjectStore, ObjectVersion, ShardStore
from .native import AddressObjectStore
from .registry import (
    ObjectStoreBackend,
    ObjectStoreRegistry,
    default_registry,
    is_absolute_uri,
    object_store_for,
)
from .shards import ArrayRecordShardStore
from .staging import (
    EphemeralFileStaging,
    PassthroughStaging,
    SchemeStagingRouter,
    ShardStagingArea,
    default_staging,
)

__all__ = [
    "MOUNTED_BUCKET",
    "POSIX",
    "AddressObjectStore",
    "ArrayRecordShardStore",
    "ControlPolicy",
    "EphemeralFileStaging",
    "FilesystemCapabilities",
    "GCSObjectStore",
    "LocalObjectStore",
    "ObjectInfo",
    "ObjectStore",
    "ObjectStoreBackend",
    "ObjectStoreRegistry",
    "ObjectVersion",
    "PassthroughStaging",
    "ResourcePolicy",
    "S3ObjectStore",
    "S3Options",
    "SchemeStagingRouter",
    "ShardStagingArea",
    "ShardStore",
    "default_registry",
    "default_staging",
    "is_absolute_uri",
    "object_store_for",
    "s3_backend",
]
