"""A coordinator's part: shards become a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike

from sigbank import _native

from .._roots import (
    ObjectStore,
    Settings,
    ShardStore,
    native_store,
    object_store_at,
    operation_policy,
    root_path,
    told_apart,
)
from ..policy import PublicationOptions, RetryPolicy, StorageOptions
from ..record.model import Json, PublishedShard
from ..retry import retrying
from .reader import Dataset


def publish(
    root: str | PathLike[str],
    shards: Iterable[PublishedShard],
    *,
    dataset_id: str,
    snapshot_id: str,
    expected_work_ids: Sequence[str] | None = None,
    metadata: Mapping[str, Json] | None = None,
    object_store: ObjectStore | None = None,
    shard_store: ShardStore | None = None,
    storage_options: StorageOptions | Settings | None = None,
    publication_options: PublicationOptions | None = None,
    retry: int | RetryPolicy | None = None,
    compat: bool = False,
    options: StorageOptions | None = None,
) -> Dataset:
    """Publish shards as a dataset: of each work id the highest attempt, in the order of work ids.

    A reader sees no dataset or the complete one. To do it again with the same arguments completes an interrupted publication.

    Args:
        expected_work_ids: the work ids that must be there, and no others.
        metadata: whatever is to be said of the dataset.
        object_store: the store that the root is in, where that is not to be found by its address.
        shard_store: what wrote the shards, where they are no ArrayRecord files; see `storage.ShardStore`.
        storage_options: how to read and write (`StorageOptions`), or the settings of the storage service by name; `options` are
            the former beside the latter.
        compat: leave out the checksums that references get otherwise, so that the reference package can complete an interrupted
            publication of ours and we one of its; then `verify` cannot find an object replaced by another of its size.

    Raises:
        ValueError: work ids are missing or not expected, a shard is not as it is said to be, a name cannot be.
        PublicationCollisionError: (a FileExistsError) another publication stands there.
    """
    path, given = root_path(root), list(shards)
    options, settings = told_apart(storage_options, options)
    objects = object_store_at(path, object_store, settings)
    expected = None if expected_work_ids is None else list(expected_work_ids)
    native = retrying(
        operation_policy(objects, retry),
        lambda: _native.signal_publish(
            native_store(path, objects, create=True, retry=retry, shard_store=shard_store, options=options),
            given,
            dataset_id,
            snapshot_id,
            expected,
            metadata,
            options,
            publication_options,
            compat,
        ),
    )
    return Dataset(native, options, objects, shard_store)
