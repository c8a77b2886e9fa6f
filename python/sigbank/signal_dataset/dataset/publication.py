"""A coordinator's part: shards become a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike

from sigbank import _native

from .._roots import root_path
from ..policy import PublicationOptions, RetryPolicy, StorageOptions
from ..record.model import Json, PublishedShard
from ..retry import retry_policy, retrying
from .reader import Dataset


def publish(
    root: str | PathLike[str],
    shards: Iterable[PublishedShard],
    *,
    dataset_id: str,
    snapshot_id: str,
    expected_work_ids: Sequence[str] | None = None,
    metadata: Mapping[str, Json] | None = None,
    object_store: None = None,
    shard_store: None = None,
    storage_options: StorageOptions | None = None,
    publication_options: PublicationOptions | None = None,
    retry: int | RetryPolicy | None = None,
    compat: bool = False,
) -> Dataset:
    """Publish shards as a dataset: of each work id the highest attempt, in the order of work ids.

    A reader sees no dataset or the complete one. To do it again with the same arguments completes an interrupted publication.

    Args:
        expected_work_ids: the work ids that must be there, and no others.
        metadata: whatever is to be said of the dataset.
        compat: leave out the checksums that references get otherwise, so that the reference package can complete an interrupted
            publication of ours and we one of its; then `verify` cannot find an object replaced by another of its size.

    Raises:
        ValueError: work ids are missing or not expected, a shard is not as it is said to be, a name cannot be.
        PublicationCollisionError: (a FileExistsError) another publication stands there.
    """
    path, given = root_path(root, object_store, shard_store), list(shards)
    expected = None if expected_work_ids is None else list(expected_work_ids)
    native = retrying(
        retry_policy(retry),
        lambda: _native.signal_publish(
            path, given, dataset_id, snapshot_id, expected, metadata, storage_options, publication_options, compat
        ),
    )
    return Dataset(native, storage_options)
