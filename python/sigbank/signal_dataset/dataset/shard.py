"""A worker's part: records become a pair of shards."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike

from sigbank import _native

from .._frozen import set_slot, whole_number
from .._roots import root_path
from ..policy import RetryPolicy, StorageOptions
from ..record.model import PublishedShard, Record
from ..retry import retry_policy, retrying


def write_shard(
    records: Iterable[Record],
    root: str | PathLike[str],
    *,
    work_id: str = "0",
    attempt: int = 0,
    object_store: None = None,
    shard_store: None = None,
    options: StorageOptions | None = None,
    retry: int | RetryPolicy | None = None,
) -> PublishedShard:
    """Write records as one shard. Readers see nothing of it before `publish`.

    To do it again with the same records is safe: what is there is accepted as it is.

    Args:
        records: they are consumed one by one, while threads encode and compress.
        root: the directory of the dataset to be; it is made where it is not there.
        work_id: which part of the work this is; each worker has its own.
        attempt: which try at it. `publish` takes the highest.
        retry: how often storage that fails is tried again. Records that can be iterated but once are not tried again.

    Raises:
        ValidationError: (a ValueError) a record breaks a rule or exceeds a limit; its number is told.
        PublicationCollisionError: (a FileExistsError, here a ValueError too) work id and attempt were used for other records.
        StorageError: (an OSError) the storage failed.
    """
    whole_number("shard attempt", attempt, 0, "a nonnegative integer")
    if not work_id:
        raise ValueError("shard URIs and work_id must be non-empty")
    path, policy = root_path(root, object_store, shard_store), retry_policy(retry)
    if iter(records) is records:
        policy = RetryPolicy(attempts=1)
    data, metadata, count, data_bytes, metadata_bytes, digests = retrying(
        policy, lambda: _native.signal_write_shard(records, path, work_id, attempt, options)
    )
    shard = PublishedShard(data, metadata, work_id, attempt, count, data_bytes, metadata_bytes)
    set_slot(shard, "_sha256", digests)
    return shard


class RecordShardWriter:
    """`write_shard` with options of its own."""

    def __init__(
        self, *, object_store: None = None, shard_store: None = None, options: StorageOptions | None = None
    ) -> None:
        root_path("/", object_store, shard_store)
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
        return write_shard(records, root, work_id=work_id, attempt=attempt, options=self.options, retry=retry)
