"""What a store of objects and a container of records must do. Subclass these to bring your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a store says of an object without reading it: its size in bytes, and its generation where it has one."""

    size: int
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """An object's bytes, and a number that stands for them until another writer replaces it."""

    data: bytes
    generation: int | None = None


class ObjectStore(ABC):
    """Named objects that are created once; the one that is replaced is compared first. Names are whole addresses.

    What is not there is a FileNotFoundError, a name that is taken a FileExistsError such as `PublicationCollisionError`, any other
    failure of the storage an OSError such as `StorageError`, which is tried again as the `retry` of an operation says.

    A subclass may also have:

    - `read_range(uri, start, stop) -> bytes`: then a record costs its own bytes; without it, whole objects are read and kept in
      unnamed files while they are open;
    - `list(prefix_uri) -> list[str]` and `delete(uri)`: only for `sigbank gc`, which finds and deletes what nothing names.

    Its methods are called by several threads at once.
    """

    supports_compare_and_swap = True
    """Whether `compare_and_swap` works; where it does not, nothing can be annotated."""

    @abstractmethod
    def info(self, uri: str, *, generation: int | None = None) -> ObjectInfo:
        """The object's size."""

    @abstractmethod
    def read(self, uri: str, *, generation: int | None = None) -> bytes:
        """The whole object."""

    @abstractmethod
    def read_version(self, uri: str) -> ObjectVersion:
        """The whole object, and the generation that these bytes are."""

    @abstractmethod
    def generation(self, uri: str) -> int | None:
        """The generation of what is there now."""

    @abstractmethod
    def create(self, uri: str, data: bytes, *, content_type: str) -> int | None:
        """Put a new object; of several callers exactly one succeeds. May give its generation."""

    @abstractmethod
    def create_file(self, uri: str, path: Path, *, content_type: str) -> int | None:
        """Put a new object that has the bytes of a local file."""

    @abstractmethod
    def compare_and_swap(
        self, uri: str, data: bytes, *, expected_generation: int | None, content_type: str
    ) -> int | None:
        """Put an object in the place of the generation that is expected there (None: of nothing). May give its generation."""


@runtime_checkable
class ObjectDownloader(Protocol):
    """A store that can copy an object into an open file."""

    def download_to_fileobj(self, uri: str, stream: IO[bytes], *, generation: int | None = None) -> None: ...


class ShardStore(ABC):
    """A container of many records in one file, by their number. `ArrayRecordShardStore` is what datasets have; given as `shard_store`, a
    class of one's own writes and reads the shards of records and annotations in its place.

    Everything else stays the same, also that documents call the shards ArrayRecord files: only who gives such a `shard_store` reads the
    records, and `sigbank.open` and the command line do not. Methods may be called by other threads than the one that reads, also by several at once.
    """

    @abstractmethod
    def write(self, path: Path, records: Iterable[bytes], *, options: str) -> int:
        """Write a new local file of some records, which can be iterated once; gives how many there were."""

    @abstractmethod
    def read(
        self,
        uri: str,
        index: int,
        *,
        generation: int | None = None,
        options: str,
        file_reader_buffer_size: int | None = None,
    ) -> bytes:
        """One record."""

    def read_many(
        self,
        uri: str,
        indices: Sequence[int],
        *,
        generation: int | None = None,
        options: str,
        file_reader_buffer_size: int | None = None,
    ) -> tuple[bytes, ...]:
        """Several records, in the order of `indices`. Override it where they can be read together."""
        return tuple(
            self.read(
                uri,
                index,
                generation=generation,
                options=options,
                file_reader_buffer_size=file_reader_buffer_size,
            )
            for index in indices
        )

    @abstractmethod
    def count(
        self,
        uri: str,
        *,
        generation: int | None = None,
        options: str,
        file_reader_buffer_size: int | None = None,
    ) -> int:
        """How many records there are."""
