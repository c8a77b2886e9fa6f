"""The container of records that datasets have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from .contracts import ShardStore
from .native import AddressObjectStore
from .staging import PassthroughStaging, ShardStagingArea


class ArrayRecordShardStore(ShardStore):
    """ArrayRecord files. Given as `shard_store` it changes nothing: it is what datasets have, and ranges of objects are read.

    Args:
        staging: for its own methods: how an address becomes one that can be read; by default it is read where it is.
    """

    def __init__(self, *, staging: ShardStagingArea | None = None) -> None:
        self._staging = staging or PassthroughStaging()
        self._objects = AddressObjectStore()

    @property
    def staging(self) -> ShardStagingArea:
        """What was given."""
        return self._staging

    def write(self, path: Path, records: Iterable[bytes], *, options: str) -> int:
        from sigbank import _native

        return _native.signal_write_records(path, records, options)

    def read(
        self,
        uri: str,
        index: int,
        *,
        generation: int | None = None,
        options: str,
        file_reader_buffer_size: int | None = None,
    ) -> bytes:
        return self.read_many(uri, [index], generation=generation, options=options)[0]

    def read_many(
        self,
        uri: str,
        indices: Sequence[int],
        *,
        generation: int | None = None,
        options: str,
        file_reader_buffer_size: int | None = None,
    ) -> tuple[bytes, ...]:
        with self._staging.stage(uri, generation=generation) as path:
            store, key = self._objects._at(path)
            return tuple(store.records(key, list(indices)))

    def count(
        self,
        uri: str,
        *,
        generation: int | None = None,
        options: str,
        file_reader_buffer_size: int | None = None,
    ) -> int:
        with self._staging.stage(uri, generation=generation) as path:
            store, key = self._objects._at(path)
            return store.count(key)
