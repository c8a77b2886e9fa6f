"""Publishing annotations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import StorageError
from ..policy import AnnotationOptions, RetryPolicy
from ..record.model import AnnotationRecord, Json
from ..retry import retry_policy, retrying
from .catalog import AnnotationSet
from .model import PublishedAnnotationShard

if TYPE_CHECKING:
    from ..dataset.reader import Dataset


def refuse_without_swap(dataset: Dataset) -> None:
    """StorageError where the catalog of annotations cannot be replaced safely; before anything is written."""
    if not getattr(dataset.object_store, "supports_compare_and_swap", True):
        raise StorageError(
            f"{dataset.root}: annotations need a compare-and-swap, which this store cannot do (a mounted bucket has none): "
            "open the dataset at its native address, such as s3://bucket/prefix, and annotate that"
        )


def publish_annotations(
    dataset: Dataset,
    name: str,
    records: Iterable[AnnotationRecord],
    *,
    metadata: Mapping[str, Json] | None = None,
    options: AnnotationOptions | None = None,
    retry: int | RetryPolicy | None = None,
) -> AnnotationSet:
    """Publish a set of annotations: one for each record of the dataset, in order.

    Sets that others publish meanwhile are kept. With `options.publication_id`, to do it again completes an interrupted publication.

    Raises:
        ValueError: the annotations are not as many as the records, not in order, or of others.
        PublicationCollisionError: (a FileExistsError) the name has another set.
    """
    refuse_without_swap(dataset)
    policy = retry_policy(retry)
    if iter(records) is records:
        policy = RetryPolicy(attempts=1)
    native = retrying(policy, lambda: dataset._native.publish_annotations(name, records, metadata, options))
    return dataset._annotated(native)


def write_shard(
    dataset: Dataset,
    name: str,
    publication_id: str,
    first_ordinal: int,
    records: Sequence[AnnotationRecord],
    *,
    logical_shard_id: str,
    retry: int | RetryPolicy | None = None,
) -> PublishedAnnotationShard:
    """Write a worker's part of a set: the annotations of consecutive records from `first_ordinal` on.

    A part that was written before is found by `logical_shard_id` and given as it is, so that a worker may begin again.

    Raises:
        ValueError: the annotations are not in order, or of other records.
        PublicationCollisionError: (a FileExistsError) the id was used for other records.
    """
    refuse_without_swap(dataset)
    given = list(records)
    values = retrying(
        retry_policy(retry),
        lambda: dataset._native.write_annotation_shard(name, publication_id, first_ordinal, given, logical_shard_id),
    )
    return PublishedAnnotationShard(*values)


def publish_shards(
    dataset: Dataset,
    name: str,
    publication_id: str,
    published: Sequence[PublishedAnnotationShard],
    *,
    metadata: Mapping[str, Json] | None = None,
    options: AnnotationOptions | None = None,
    retry: int | RetryPolicy | None = None,
) -> AnnotationSet:
    """Publish a set from the parts that workers wrote, which must cover every record.

    Raises:
        ValueError: they do not, or are of another set or snapshot.
        PublicationCollisionError: (a FileExistsError) the name has another set.
    """
    refuse_without_swap(dataset)
    given = list(published)
    native = retrying(
        retry_policy(retry),
        lambda: dataset._native.publish_annotation_shards(name, publication_id, given, metadata, options),
    )
    return dataset._annotated(native)
