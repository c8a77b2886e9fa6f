"""Which store serves an address."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .contracts import ObjectStore


class ObjectStoreFactory(Protocol):
    """Makes the store that serves an address."""

    def __call__(self, uri: str, *, root_is_directory: bool) -> ObjectStore: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStoreBackend:
    """A storage service: the scheme of its addresses ("" for paths), whether it is a filesystem, what makes a store for an address,
    and what raises ValueError for an address that cannot be a root."""

    scheme: str
    filesystem: bool
    factory: ObjectStoreFactory
    validate_root: Callable[[str], None]


class ObjectStoreRegistry:
    """Backends by scheme."""

    def __init__(self) -> None:
        self._backends: dict[str, ObjectStoreBackend] = {}
        self._lock = threading.Lock()

    def register(self, backend: ObjectStoreBackend, *, replace: bool = False) -> None:
        """Add a backend; ValueError where its scheme has one, unless it is to `replace` that."""
        with self._lock:
            if backend.scheme in self._backends and not replace:
                raise ValueError(f"storage scheme is already registered: {backend.scheme!r}; pass replace=True")
            self._backends[backend.scheme] = backend

    def backend_for(self, uri: str) -> ObjectStoreBackend:
        """The backend of an address; ValueError for an unknown scheme."""
        scheme = scheme_of(uri)
        backend = self._backends.get(scheme)
        if backend is None:
            known = ", ".join(repr(known) for known in sorted(self._backends))
            raise ValueError(f"unsupported storage URI scheme: {scheme!r} (registered: {known})")
        return backend

    def schemes(self) -> frozenset[str]:
        """The schemes that have a backend."""
        return frozenset(self._backends)


@functools.cache
def default_registry() -> ObjectStoreRegistry:
    """The registry that every call of this process uses where no `object_store` is given."""
    from .backends.gcs import GCSObjectStore
    from .backends.local import LocalObjectStore
    from .backends.s3 import s3_backend
    from .native import AddressObjectStore

    def anything(uri: str) -> None:
        if not uri or ("://" in uri and not uri.partition("://")[2].strip("/")):
            raise ValueError(f"invalid storage address: {uri!r}")

    def local(uri: str, *, root_is_directory: bool) -> ObjectStore:
        return LocalObjectStore(root=uri if root_is_directory else None)

    def gcs(uri: str, *, root_is_directory: bool) -> ObjectStore:
        return GCSObjectStore()

    def address(uri: str, *, root_is_directory: bool) -> ObjectStore:
        return AddressObjectStore()

    registry = ObjectStoreRegistry()
    registry.register(s3_backend())
    registry.register(ObjectStoreBackend(scheme="", filesystem=True, factory=local, validate_root=anything))
    registry.register(ObjectStoreBackend(scheme="gs", filesystem=False, factory=gcs, validate_root=anything))
    for scheme in ("file", "s3a", "az", "azure", "adl", "abfs", "abfss", "http", "https"):
        registry.register(
            ObjectStoreBackend(scheme=scheme, filesystem=scheme == "file", factory=address, validate_root=anything)
        )
    return registry


def scheme_of(uri: str) -> str:
    """The scheme of an address, in lower case; empty for a path."""
    return uri.partition("://")[0].lower() if "://" in uri else ""


def object_store_for(
    uri: str, *, root_is_directory: bool = False, registry: ObjectStoreRegistry | None = None
) -> ObjectStore:
    """A store that serves an address.

    >>> object_store_for("recordings/root.json")
    LocalObjectStore(root=None)
    """
    backend = (registry or default_registry()).backend_for(uri)
    return backend.factory(uri, root_is_directory=root_is_directory)


def is_absolute_uri(uri: str, *, registry: ObjectStoreRegistry | None = None) -> bool:
    """Whether a path in a document is a whole address rather than relative to the dataset.

    >>> [is_absolute_uri(uri) for uri in ("/data/x", "s3://bucket/x", "a:b/x", "objects/x")]
    [True, True, False, False]
    """
    scheme, slashes, _ = uri.partition("://")
    return uri.startswith("/") or (bool(slashes) and scheme in (registry or default_registry()).schemes())
