"""How a shard becomes a local path, for readers that open nothing else. Datasets need none of it: they read ranges of objects."""

from __future__ import annotations

import contextlib
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

from ..errors import StorageError
from .contracts import ObjectStore
from .registry import object_store_for, scheme_of


class ShardStagingArea(ABC):
    """Gives a path for an object, as long as it is in use."""

    @abstractmethod
    def stage(self, uri: str, *, generation: int | None = None) -> AbstractContextManager[str]:
        """A context whose value is a path of the object's bytes, which is valid inside it."""


class PassthroughStaging(ShardStagingArea):
    """The address itself.

    >>> with PassthroughStaging().stage("/data/x.arrayrecord") as path:
    ...     path
    '/data/x.arrayrecord'
    """

    @contextlib.contextmanager
    def stage(self, uri: str, *, generation: int | None = None) -> Iterator[str]:
        yield uri


class EphemeralFileStaging(ShardStagingArea):
    """A local copy, removed when it is no longer in use.

    Args:
        objects: the store to copy from; by default that of the address.
        directory: where the copies are.
        max_object_bytes: the largest object that is copied.
        max_open_shards: taken so that programs run unchanged.
    """

    def __init__(
        self,
        *,
        objects: ObjectStore | None = None,
        directory: str | os.PathLike[str] | None = None,
        max_object_bytes: int | None = None,
        max_open_shards: int = 4,
    ) -> None:
        self._objects = objects
        self._directory = directory
        self._most = max_object_bytes

    @contextlib.contextmanager
    def stage(self, uri: str, *, generation: int | None = None) -> Iterator[str]:
        objects = self._objects or object_store_for(uri)
        if self._most is not None and (size := objects.info(uri).size) > self._most:
            raise StorageError(f"{uri}: {size} bytes, where max_object_bytes is {self._most}")
        with tempfile.NamedTemporaryFile(prefix="sigbank-", dir=self._directory) as file:
            if hasattr(objects, "download_to_fileobj"):
                objects.download_to_fileobj(uri, file)
            else:
                file.write(objects.read(uri))
            file.flush()
            yield file.name

    def close(self) -> None:
        """Nothing is kept."""


class SchemeStagingRouter(ShardStagingArea):
    """A staging area for each scheme of addresses."""

    def __init__(self, routes: Mapping[str, ShardStagingArea], *, default: ShardStagingArea) -> None:
        self._routes = dict(routes)
        self._default = default

    def stage(self, uri: str, *, generation: int | None = None) -> AbstractContextManager[str]:
        return self._routes.get(scheme_of(uri), self._default).stage(uri, generation=generation)


def default_staging(
    objects: ObjectStore | None = None,
    *,
    root: str | None = None,
    max_object_bytes: int | None = None,
    max_open_shards: int = 4,
) -> ShardStagingArea:
    """A staging area that copies what has a scheme, by `objects` where that is the `root`'s store."""
    passing = PassthroughStaging()
    copying = EphemeralFileStaging(max_object_bytes=max_object_bytes)
    own = scheme_of(root) if root is not None else ""
    routes: dict[str, ShardStagingArea] = {"": passing}
    if own and objects is not None:
        routes[own] = EphemeralFileStaging(objects=objects, max_object_bytes=max_object_bytes)
    return SchemeStagingRouter(routes, default=copying)
