"""Limits and options."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import StrEnum

from ._frozen import whole_number


@dataclass(frozen=True, slots=True)
class ResourcePolicy:
    """How large a record may be, on writing and on reading; all are nonnegative integers.

    >>> ResourcePolicy(max_fields=16).max_axes_per_field
    128
    """

    max_encoded_record_bytes: int = 64 << 30
    max_descriptor_bytes: int = 16 << 20
    max_fields: int = 10_000
    max_axes_per_field: int = 128
    max_coordinate_values: int = 10_000_000
    max_tensor_bytes: int = 16 << 30
    max_total_tensor_bytes: int = 64 << 30
    max_metadata_bytes: int = 16 << 20
    max_json_depth: int = 128
    max_json_nodes: int = 1_000_000

    def __post_init__(self) -> None:
        for limit in dataclasses.fields(self):
            whole_number(limit.name, getattr(self, limit.name), 0, "a nonnegative integer")


@dataclass(frozen=True, slots=True)
class ControlPolicy:
    """How large a JSON document of the layout may be; all are positive integers."""

    max_document_bytes: int = 64 << 20
    max_json_depth: int = 128
    max_json_nodes: int = 1_000_000

    def __post_init__(self) -> None:
        for limit in dataclasses.fields(self):
            whole_number(limit.name, getattr(self, limit.name), 1, "a positive integer")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and after how long an operation that storage failed is tried again: `attempts` times in all, with waits that
    double from `base_seconds` up to `max_seconds`, each shortened at random with `jitter`."""

    attempts: int = 5
    base_seconds: float = 1.0
    max_seconds: float = 60.0
    jitter: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int):
            raise ValueError(f"attempts must be an integer, found {self.attempts!r}")
        if not 1 <= self.attempts <= 64:
            raise ValueError(f"attempts must be between 1 and 64, found {self.attempts}")
        for name in ("base_seconds", "max_seconds"):
            seconds = getattr(self, name)
            if isinstance(seconds, bool) or not isinstance(seconds, int | float):
                raise ValueError(f"{name} must be a number, found {seconds!r}")
            if not seconds >= 0:
                raise ValueError(f"{name} must be nonnegative, found {seconds}")
        if self.max_seconds < self.base_seconds:
            raise ValueError(f"max_seconds must be at least base_seconds, found {self.max_seconds} and {self.base_seconds}")
        if not isinstance(self.jitter, bool):
            raise ValueError(f"jitter must be a bool, found {self.jitter!r}")


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """How shards are written and read.

    `records_per_read_batch`, `max_open_shards`, `reader_options` and `file_reader_buffer_size` are taken so that programs run
    unchanged; reading needs no such settings here.
    """

    writer_options: str = "group_size:1"
    reader_options: str = "readahead_buffer_size:0,max_parallelism:0"
    file_reader_buffer_size: int | None = None
    resources: ResourcePolicy = field(default_factory=ResourcePolicy)
    control: ControlPolicy = field(default_factory=ControlPolicy)
    manifest_cache_pages: int = 16
    records_per_read_batch: int = 1024
    max_records_per_shard: int | None = None
    max_encoded_shard_bytes: int | None = None
    max_open_shards: int = 4

    def __post_init__(self) -> None:
        if self.file_reader_buffer_size is not None:
            whole_number("file_reader_buffer_size", self.file_reader_buffer_size, 0, "a nonnegative integer or None")
        for name in ("manifest_cache_pages", "records_per_read_batch", "max_open_shards"):
            whole_number(name, getattr(self, name), 1, "positive")
        for name in ("max_records_per_shard", "max_encoded_shard_bytes"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), 1, "positive")


@dataclass(frozen=True, slots=True)
class PublicationOptions:
    """How a snapshot is published: shards a manifest page, and whether the records of each shard are counted before."""

    shards_per_manifest: int = 10_000
    verify_record_counts: bool = False

    def __post_init__(self) -> None:
        whole_number("shards_per_manifest", self.shards_per_manifest, 1, "a positive integer")


@dataclass(frozen=True, slots=True)
class AnnotationOptions:
    """How annotations are published."""

    records_per_shard: int = 10_000
    catalog_retry_limit: int = 8
    publication_id: str | None = None
    verify_record_counts: bool = False

    def __post_init__(self) -> None:
        whole_number("records_per_shard", self.records_per_shard, 1, "a positive integer")
        whole_number("catalog_retry_limit", self.catalog_retry_limit, 1, "a positive integer")
        if self.publication_id is not None and not self.publication_id:
            raise ValueError("publication_id must be non-empty or None")


class AccessMode(StrEnum):
    """How records are read."""

    LAZY_RANDOM_ACCESS = "lazy_random_access"


class CachePolicy(StrEnum):
    """What of the records read is kept."""

    NONE = "none"
