"""From where a dataset is said to be to the store that it is in."""

from __future__ import annotations

import os
from collections.abc import Mapping

from sigbank import _native

from .policy import RetryPolicy, StorageOptions
from .retry import retry_policy
from .storage.backends.local import LocalObjectStore
from .storage.contracts import ObjectStore, ShardStore
from .storage.native import AddressObjectStore
from .storage.registry import default_registry, scheme_of
from .storage.shards import ArrayRecordShardStore

Settings = Mapping[str, str]
"""The settings of a storage service by name, `storage_options` of an address."""


_METHODS = sorted(ObjectStore.__abstractmethods__)
_SHARD_METHODS = ("write", "read", "read_many", "count")


def root_path(root: str | os.PathLike[str]) -> str:
    """The root as text: a path or an address.

    Raises:
        ValueError: it is empty.
    """
    path = os.fspath(root)
    if not isinstance(path, str):
        raise TypeError(f"the root must be a str or a path, found {root!r}")
    if not path:
        raise ValueError("the root is empty: give the path of a directory or an address")
    return path


def own_container(shard_store: ShardStore | None) -> bool:
    """Whether shards are written and read by Python: with a container of the program's own, not with ArrayRecord files as they are.

    Raises:
        ValueError: it has not all the methods of a `ShardStore`.
    """
    if shard_store is None or type(shard_store) is ArrayRecordShardStore:
        return False
    missing = [name for name in _SHARD_METHODS if not hasattr(shard_store, name)]
    if missing:
        raise ValueError(f"shard_store has no methods {', '.join(missing)}: derive its class from storage.ShardStore")
    return True


def object_store_at(root: str, object_store: ObjectStore | None, settings: Settings | None) -> ObjectStore:
    """The store that serves a root: the one given, or that of the address.

    Raises:
        ValueError: the address is of an unknown kind, or both a store and settings of one are given.
    """
    if object_store is not None:
        if settings:
            raise ValueError("both object_store and settings of the storage are given: give the settings to the store")
        missing = [name for name in _METHODS if not hasattr(object_store, name)]
        if missing:
            raise ValueError(f"object_store has no methods {', '.join(missing)}: derive its class from storage.ObjectStore")
        return object_store
    backend = default_registry().backend_for(root)
    backend.validate_root(root)
    if not settings:
        return backend.factory(root, root_is_directory=True)
    if not scheme_of(root):
        # What a view refers to may be in a bucket.
        return LocalObjectStore(root=root)._knowing(settings)
    return AddressObjectStore(settings)


def is_native(object_store: ObjectStore) -> bool:
    """Whether the native side reaches it by itself: one of this package, not a class derived from one."""
    ours = type(object_store).__module__.startswith(f"{__package__}.storage.")
    return isinstance(object_store, AddressObjectStore) and ours and not object_store.called


def native_store(
    root: str,
    object_store: ObjectStore,
    *,
    create: bool,
    retry: int | RetryPolicy | None = None,
    shard_store: ShardStore | None = None,
    options: StorageOptions | None = None,
) -> _native.SignalStore:
    """What the native side reads and writes a root with. The calls of a store in Python are tried again as `retry` says."""
    store = _native_objects(root, object_store, create, retry).reaching(_Reach(root, object_store))
    if not own_container(shard_store):
        return store
    how = options or StorageOptions()
    return store.containing(shard_store, (how.reader_options, how.writer_options, how.file_reader_buffer_size))


def _native_objects(
    root: str, object_store: ObjectStore, create: bool, retry: int | RetryPolicy | None
) -> _native.SignalStore:
    if isinstance(object_store, AddressObjectStore) and is_native(object_store):
        return object_store._connect(root, create=create)
    policy = RetryPolicy() if retry is None else retry_policy(retry)
    waits = (policy.attempts, float(policy.base_seconds), float(policy.max_seconds), policy.jitter)
    return _native.SignalStore.of(object_store, root, waits)


def operation_policy(object_store: ObjectStore, retry: int | RetryPolicy | None) -> RetryPolicy:
    """How often a whole operation is tried: once where each call of the store is tried again."""
    policy = retry_policy(retry)
    return policy if is_native(object_store) else RetryPolicy(attempts=1)


class _Reach:
    """The stores of other addresses than the dataset's own, which the shards of a published view may be at."""

    def __init__(self, root: str, object_store: ObjectStore) -> None:
        self._scheme, self._objects = scheme_of(root), object_store

    def __call__(self, base: str) -> _native.SignalStore:
        same = bool(self._scheme) and scheme_of(base) == self._scheme
        settings = self._objects._options if isinstance(self._objects, LocalObjectStore) and scheme_of(base) else None
        objects = self._objects if same else object_store_at(base, None, settings)
        return native_store(base, objects, create=False)


def told_apart(
    storage_options: StorageOptions | Settings | None, options: StorageOptions | None = None
) -> tuple[StorageOptions | None, Settings | None]:
    """Options of reading and writing, and settings of the storage service, which share a name."""
    if isinstance(storage_options, StorageOptions):
        return storage_options, None
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise TypeError(f"storage_options must be StorageOptions or a mapping, found {storage_options!r}")
    return options, storage_options


__all__ = [
    "ObjectStore",
    "Settings",
    "ShardStore",
    "native_store",
    "object_store_at",
    "operation_policy",
    "own_container",
    "root_path",
    "told_apart",
]
