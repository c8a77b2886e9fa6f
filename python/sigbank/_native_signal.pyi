"""The part of the native module that `sigbank.signal_dataset` is made of; at run time it is in `sigbank._native`. Records and metadata
are objects of its classes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, final

__all__ = [
    "Payload",
    "RecordIterator",
    "SignalAnnotationSet",
    "SignalAnnotations",
    "SignalDataset",
    "SignalStore",
    "SignalView",
    "signal_at_version",
    "signal_compare",
    "signal_decode",
    "signal_decode_metadata",
    "signal_encode",
    "signal_encode_metadata",
    "signal_freeze",
    "signal_freeze_values",
    "signal_gc",
    "signal_publish",
    "signal_publish_version",
    "signal_restore",
    "signal_thaw",
    "signal_validate",
    "signal_versions",
    "signal_write_records",
    "signal_write_shard",
]

@final
class Payload:
    """The bytes under the read-only arrays of a record."""

def signal_encode(record: Any, policy: Any = None) -> bytes:
    """The bytes of a record."""

def signal_decode(data: bytes, policy: Any = None) -> Any:
    """The record of some bytes; its arrays are views of them."""

def signal_validate(record: Any, policy: Any = None) -> None:
    """Check a record against every rule."""

def signal_encode_metadata(record: Any, policy: Any = None) -> bytes:
    """The document that says of a record everything but its samples."""

def signal_decode_metadata(data: bytes, policy: Any = None, control: Any = None) -> Any:
    """What such a document says."""

def signal_freeze(metadata: Any) -> Any:
    """A read-only copy of metadata: a mapping; None and what is empty are an empty one. TypeError for what is not JSON."""

def signal_freeze_values(values: Any) -> tuple[Any, ...]:
    """Read-only copies of what an iterable gives. TypeError for what is not JSON."""

def signal_thaw(object: Any, slots: list[str]) -> tuple[Any, ...]:
    """The values of an object's slots as they are pickled, with read-only mappings as dicts."""

def signal_restore(cls: type, slots: list[str], values: list[Any]) -> Any:
    """An object of a class with slots from their values, with dicts as read-only mappings and arrays made read-only."""

@final
class RecordIterator(Iterator[Any]):
    """Records, or what is said of them, one after another, read ahead by threads."""

    def __iter__(self) -> RecordIterator: ...
    def __next__(self) -> Any: ...

@final
class SignalStore:
    """The store that a dataset's root is in."""

    @staticmethod
    def connect(
        address: str, options: Mapping[str, str], create: bool = False, mounted: bool = False
    ) -> SignalStore:
        """The store at an address; a local directory is made with `create`, and may be a `mounted` bucket."""
    @staticmethod
    def of(object: Any, root: str, retry: tuple[int, float, float, bool]) -> SignalStore:
        """The store that an object in Python is; `retry` is (attempts, first and longest wait in seconds, jitter)."""
    def reaching(self, reach: Callable[[str], SignalStore]) -> SignalStore:
        """The same, with what finds the stores of other addresses."""
    def containing(self, shards: Any, options: tuple[str, str, int | None]) -> SignalStore:
        """The same, whose shards a `ShardStore` writes and reads; `options` are (the reader's, the writer's, bytes of a buffer)."""
    @property
    def root(self) -> str: ...
    @property
    def location(self) -> str: ...
    @property
    def swaps(self) -> bool:
        """Whether `compare_and_swap` works."""
    def read(self, key: str) -> bytes: ...
    def read_range(self, key: str, start: int, stop: int) -> bytes: ...
    def read_version(self, key: str) -> tuple[bytes, str]: ...
    def head(self, key: str) -> tuple[int, str | None]:
        """Size, and version where that costs no reading."""
    def create(self, key: str, data: bytes) -> None: ...
    def create_file(self, key: str, file: str | PathLike[str]) -> None: ...
    def compare_and_swap(self, key: str, data: bytes, expected: str | None) -> str: ...
    def count(self, key: str) -> int:
        """How many records an ArrayRecord object holds."""
    def records(self, key: str, indices: list[int]) -> list[bytes]: ...
    def list(self, prefix: str | None) -> list[str]: ...

@final
class SignalDataset:
    """A published dataset."""

    @staticmethod
    def open(store: SignalStore, options: Any = None) -> SignalDataset: ...
    @property
    def root(self) -> str:
        """The root as it was given."""
    @property
    def location(self) -> str:
        """The root as an absolute path."""
    @property
    def id(self) -> str: ...
    @property
    def snapshot_id(self) -> str: ...
    @property
    def metadata(self) -> Any: ...
    @property
    def root_digest(self) -> str: ...
    @property
    def version_number(self) -> int: ...
    def __len__(self) -> int: ...
    def record(self, key: int | slice) -> Any:
        """The record at an index, or the list of those of a slice."""
    def records(self, keys: Iterable[int]) -> list[Any]: ...
    def record_metadata(self, key: int | slice) -> Any: ...
    def iter_records(self) -> RecordIterator: ...
    def iter_record_metadata(self) -> RecordIterator: ...
    def read_instructions(
        self, start: int, stop: int | None, metadata: bool
    ) -> list[tuple[str, int, int, int, int]]: ...
    def select(self, keys: Iterable[int]) -> SignalView: ...
    def annotations(self) -> SignalAnnotations: ...
    def publish_annotations(
        self, name: str, records: Iterable[Any], metadata: Any = None, options: Any = None
    ) -> SignalAnnotationSet: ...
    def write_annotation_shard(
        self, name: str, publication_id: str, first_ordinal: int, records: Iterable[Any], logical_shard_id: str
    ) -> tuple[Any, ...]:
        """Gives what a `PublishedAnnotationShard` is made of."""
    def publish_annotation_shards(
        self, name: str, publication_id: str, published: Iterable[Any], metadata: Any = None, options: Any = None
    ) -> SignalAnnotationSet: ...
    def verify(self, progress: Callable[[int, int], object] | None = None) -> tuple[int, int, int]: ...

@final
class SignalAnnotations:
    """The annotation sets of a dataset at one time."""

    @property
    def revision(self) -> str | None: ...
    def names(self) -> list[str]: ...
    def open(self, name: str) -> SignalAnnotationSet: ...

@final
class SignalAnnotationSet:
    """A set of annotations: one for each record."""

    @property
    def name(self) -> str: ...
    @property
    def publication_id(self) -> str: ...
    @property
    def source_snapshot_id(self) -> str: ...
    @property
    def metadata(self) -> Any: ...
    def __len__(self) -> int: ...
    def row(self, key: int | slice) -> Any: ...

@final
class SignalView:
    """A selection of a dataset's records."""

    def __len__(self) -> int: ...
    def ordinals(self) -> list[int]: ...
    def record(self, key: int | slice) -> Any: ...
    def records(self, keys: Iterable[int]) -> list[Any]: ...
    def record_metadata(self, key: int | slice) -> Any: ...
    def iter_records(self) -> RecordIterator: ...
    def iter_record_metadata(self) -> RecordIterator: ...
    def publish(
        self,
        store: SignalStore,
        dataset_id: str,
        snapshot_id: str,
        options: Any = None,
        publication: Any = None,
        compat: bool = False,
    ) -> SignalDataset: ...
    def materialize(
        self,
        store: SignalStore,
        dataset_id: str,
        snapshot_id: str,
        records_per_shard: int,
        options: Any = None,
        compat: bool = False,
    ) -> SignalDataset: ...

def signal_at_version(dataset: SignalDataset, version: str) -> SignalDataset:
    """The dataset at a version."""

def signal_versions(dataset: SignalDataset) -> list[dict[str, Any]]:
    """What a `Version` is made of, for each."""

def signal_publish_version(
    dataset: SignalDataset,
    name: str,
    shards: Iterable[Any],
    base: str | None = None,
    without: list[str] = ...,
    metadata: Any = None,
    follows: str | None = None,
    rebase: bool = False,
    options: Any = None,
    publication: Any = None,
    compat: bool = False,
) -> SignalDataset:
    """Publish shards as a further version."""

def signal_compare(before: SignalDataset, after: SignalDataset, by_id: bool) -> dict[str, Any]:
    """What a `Comparison` is made of."""

def signal_write_records(file: str | PathLike[str], records: Iterable[bytes], options: str) -> int:
    """Write records as an ArrayRecord file; gives how many there were."""

def signal_write_shard(
    records: Iterable[Any], store: SignalStore, work_id: str, attempt: int, options: Any = None
) -> tuple[str, str, int, int, int, tuple[str, str] | None]:
    """Write records as a pair of shards: data and metadata URI, records, bytes of each, the SHA-256 of each."""

def signal_publish(
    store: SignalStore,
    shards: Iterable[Any],
    dataset_id: str,
    snapshot_id: str,
    expected_work_ids: list[str] | None = None,
    metadata: Any = None,
    options: Any = None,
    publication: Any = None,
    compat: bool = False,
) -> SignalDataset:
    """Publish shards as a dataset."""

def signal_gc(
    store: SignalStore,
    older_than: float,
    delete: bool = False,
    unpublished: bool = False,
    old_annotations: bool = False,
    uncommitted: bool = False,
) -> dict[str, Any]:
    """What nothing names: the orphans, and what was deleted of them."""
