"""What a worker tells of its part of an annotation set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedAnnotationShard:
    """A part of an annotation set that was written and is to be published: the rows of consecutive records.

    `statuses` are those of its rows, `terminal_statuses` the same in the producer's words where it has some.
    """

    name: str
    publication_id: str
    source_snapshot_id: str
    logical_shard_id: str
    first_ordinal: int
    record_ids: tuple[str, ...]
    uri: str
    stored_bytes: int
    generation: int | None
    statuses: tuple[str, ...]
    terminal_statuses: tuple[str, ...]
