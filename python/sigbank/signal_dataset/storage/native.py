"""Stores that the native side reaches by itself; what is written with them never passes through Python."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Self

from sigbank import _native

from ..errors import PublicationCollisionError
from .contracts import ObjectInfo, ObjectStore, ObjectVersion


class AddressObjectStore(ObjectStore):
    """The store of whatever address it is used with: a local path, `s3://`, `gs://`, `az://`, `http(s)://`.

    Args:
        options: the service's settings by name, as `storage_options` everywhere. What is not given comes from the environment.
    """

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._options = {str(name): str(value) for name, value in (options or {}).items()}
        self._open: dict[tuple[str, bool], _native.SignalStore] = {}

    @property
    def called(self) -> bool:
        """Whether requests are made in Python, by a client of the program's own."""
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}=…' for name in sorted(self._options))})"

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_open": {}}

    def _knowing(self, options: Mapping[str, str]) -> Self:
        """The same with settings."""
        self._options = {str(name): str(value) for name, value in options.items()}
        return self

    def _connect(self, root: str, *, create: bool) -> _native.SignalStore:
        return _native.SignalStore.connect(root, self._options, create)

    def _split(self, uri: str) -> tuple[str, str]:
        """An address as that of a store and a key in it."""
        scheme, slashes, rest = uri.partition("://")
        if not slashes:
            path = Path(uri).absolute()
            return str(path.parent), path.name
        bucket, _, key = rest.partition("/")
        if not bucket or not key:
            raise ValueError(f"invalid object address: {uri!r}; {scheme}://BUCKET/KEY is expected")
        return f"{scheme}://{bucket}", key

    def _at(self, uri: str, *, create: bool = False) -> tuple[_native.SignalStore, str]:
        base, key = self._split(uri)
        store = self._open.get((base, create))
        if store is None:
            store = self._open[base, create] = self._connect(base, create=create)
        return store, key

    def info(self, uri: str, *, generation: int | None = None) -> ObjectInfo:
        self._no_generation(generation)
        store, key = self._at(uri)
        return ObjectInfo(store.head(key)[0])

    def read(self, uri: str, *, generation: int | None = None) -> bytes:
        self._no_generation(generation)
        store, key = self._at(uri)
        return store.read(key)

    def read_range(self, uri: str, start: int, stop: int) -> bytes:
        """The bytes of an object from `start` to before `stop`."""
        store, key = self._at(uri)
        return store.read_range(key, start, stop)

    def download_to_fileobj(self, uri: str, stream: IO[bytes], *, generation: int | None = None) -> None:
        """Copy an object into an open file, some MiB at a time."""
        size, (store, key) = self.info(uri, generation=generation).size, self._at(uri)
        for start in range(0, size, 8 << 20):
            stream.write(store.read_range(key, start, min(size, start + (8 << 20))))

    def read_version(self, uri: str) -> ObjectVersion:
        store, key = self._at(uri)
        data, version = store.read_version(key)
        return ObjectVersion(data, _token(version))

    def generation(self, uri: str) -> int | None:
        return _token(self._version(*self._at(uri)))

    def create(self, uri: str, data: bytes, *, content_type: str) -> None:
        store, key = self._at(uri, create=True)
        store.create(key, data, **self._labels(content_type))

    def create_file(self, uri: str, path: Path, *, content_type: str) -> None:
        store, key = self._at(uri, create=True)
        store.create_file(key, path, **self._labels(content_type))

    def compare_and_swap(self, uri: str, data: bytes, *, expected_generation: int | None, content_type: str) -> None:
        store, key = self._at(uri, create=True)
        expected = None
        if expected_generation is not None:
            expected = self._version(store, key)
            if _token(expected) != expected_generation:
                raise PublicationCollisionError(uri)
        store.compare_and_swap(key, data, expected, **self._labels(content_type))

    def list(self, prefix_uri: str) -> list[str]:
        """The addresses of the objects that begin with an address, sorted."""
        base, key = self._split(prefix_uri.rstrip("/") or "/")
        store, directory = self._at(prefix_uri.rstrip("/"))[0], key.rpartition("/")[0]
        found = [f"{base}/{name}" for name in store.list(directory or None)]
        return sorted(uri for uri in found if uri.startswith(prefix_uri))

    def _labels(self, content_type: str) -> dict[str, str]:
        """What a store is told of an object beside its bytes."""
        return {}

    @staticmethod
    def _version(store: _native.SignalStore, key: str) -> str:
        version = store.head(key)[1]
        return store.read_version(key)[1] if version is None else version

    @staticmethod
    def _no_generation(generation: int | None) -> None:
        if generation is not None:
            raise ValueError("objects here do not have generations: leave the generation out")


def _token(version: str) -> int:
    """A number that stands for a version."""
    return int.from_bytes(hashlib.sha256(version.encode()).digest()[:16], "big")
