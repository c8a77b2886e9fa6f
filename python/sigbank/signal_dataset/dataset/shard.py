"""A worker's part: records become a pair of shards."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike

from sigbank import _native

from .._frozen import set_slot, whole_number
from .._roots import (
    ObjectStore,
    Settings,
    ShardStore,
    native_store,
    object_store_at,
    operation_policy,
    root_path,
)
from ..policy import RetryPolicy, StorageOptions
from ..record.model import PublishedShard, Record
from ..retry import retrying


def write_shard(
    records: Iterable[Record],
    root: str | PathLike[str],
    *,
    work_id: str = "0",
    attempt: int = 0,
    object_store: ObjectStore | None = None,
    shard_store: ShardStore | None = None,
    options: StorageOptions | None = None,
    retry: int | RetryPolicy | None = None,
    storage_options: Settings | None = None,
) -> PublishedShard:
    """Write records as one shard. Readers see nothing of it before `publish`.

    To do it again with the same records is safe: what is there is accepted as it is.

    Args:
        records: they are consumed one by one, while threads encode and compress.
        root: the directory of the dataset to be, which is made where it is not there; or an address such as s3://bucket/prefix.
        work_id: which part of the work this is; each worker has its own.
        attempt: which try at it. `publish` takes the highest.
        object_store: the store that the root is in, where that is not to be found by its address.
        shard_store: what writes the shards, where they are to be no ArrayRecord files; see `storage.ShardStore`.
        storage_options: the settings of the storage service, by name.
        retry: how often storage that fails is tried again. Records that can be iterated but once are not tried again.

    Raises:
        ValidationError: (a ValueError) a record breaks a rule or exceeds a limit; its number is told.
        PublicationCollisionError: (a FileExistsError, here a ValueError too) work id and attempt were used for other records.
        StorageError: (an OSError) the storage failed.
    """
    whole_number("shard attempt", attempt, 0, "a nonnegative integer")
    if not work_id:
        raise ValueError("shard URIs and work_id must be non-empty")
    path = root_path(root)
    objects = object_store_at(path, object_store, storage_options)
    policy = operation_policy(objects, retry)
    if iter(records) is records:
        policy = RetryPolicy(attempts=1)
    data, metadata, count, data_bytes, metadata_bytes, digests = retrying(
        policy,
        lambda: _native.signal_write_shard(
            records,
            native_store(path, objects, create=True, retry=retry, shard_store=shard_store, options=options),
            work_id,
            attempt,
            options,
        ),
    )
    shard = PublishedShard(data, metadata, work_id, attempt, count, data_bytes, metadata_bytes)
    set_slot(shard, "_sha256", digests)
    return shard


class RecordShardWriter:
    """`write_shard` with options of its own."""

    def __init__(
        self,
        *,
        object_store: ObjectStore | None = None,
        shard_store: ShardStore | None = None,
        options: StorageOptions | None = None,
    ) -> None:
        self.object_store = object_store
        self.shard_store = shard_store
        self.options = options

    def write(
        self,
        records: Iterable[Record],
        root: str | PathLike[str],
        *,
        work_id: str,
        attempt: int = 0,
        retry: int | RetryPolicy | None = None,
    ) -> PublishedShard:
        """Write records as one shard, as `write_shard` does."""
        return write_shard(
            records,
            root,
            work_id=work_id,
            attempt=attempt,
            object_store=self.object_store,
            shard_store=self.shard_store,
            options=self.options,
            retry=retry,
        )
