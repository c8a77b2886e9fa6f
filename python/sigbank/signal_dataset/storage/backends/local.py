"""Local directories, and buckets that are mounted as such."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sigbank import _native

from ...errors import StorageError
from ..native import AddressObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemCapabilities:
    """What the filesystem under a root can do; a mounted bucket can do none of it."""

    hard_links: bool
    file_locks: bool
    directory_fsync: bool
    atomic_rename: bool
    stable_inodes: bool


POSIX = FilesystemCapabilities(
    hard_links=True, file_locks=True, directory_fsync=True, atomic_rename=True, stable_inodes=True
)
"""An ordinary filesystem."""

MOUNTED_BUCKET = FilesystemCapabilities(
    hard_links=False, file_locks=False, directory_fsync=False, atomic_rename=False, stable_inodes=False
)
"""A bucket that is mounted with gcsfuse or Mountpoint for Amazon S3."""


class LocalObjectStore(AddressObjectStore):
    """Files as objects.

    Args:
        root: the directory that names must be below; any by default.
        file_mode: taken so that programs run unchanged; new files honour the umask.
        capabilities: `MOUNTED_BUCKET` for a mounted bucket: new files are written under their final names (without hard links, locks or
            renaming), and nothing is replaced, so that annotations are refused. By default what `SIGNAL_DATASET_MOUNT_ROOTS` says of the path.
    """

    def __init__(
        self,
        *,
        root: str | os.PathLike[str] | None = None,
        file_mode: int = 0o640,
        capabilities: FilesystemCapabilities | None = None,
    ) -> None:
        super().__init__()
        self._root = None if root is None else Path(root).absolute()
        self._capabilities = capabilities

    def __repr__(self) -> str:
        return f"LocalObjectStore(root={None if self._root is None else str(self._root)!r})"

    @property
    def supports_compare_and_swap(self) -> bool:  # type: ignore[override]
        """Whether objects can be replaced: not on a mounted bucket."""
        return not self._mounted(str(self._root or "/"))

    def _mounted(self, path: str) -> bool:
        if self._capabilities is not None:
            return not (self._capabilities.hard_links and self._capabilities.file_locks)
        return is_mounted(path)

    def _connect(self, root: str, *, create: bool) -> _native.SignalStore:
        return _native.SignalStore.connect(root, {}, create, self._mounted(root))

    def compare_and_swap(self, uri: str, data: bytes, *, expected_generation: int | None, content_type: str) -> None:
        if self._mounted(uri):
            raise StorageError(
                f"{uri}: a mounted bucket cannot replace an object only where it is as expected: use its native address, such as s3://"
            )
        super().compare_and_swap(uri, data, expected_generation=expected_generation, content_type=content_type)

    def _split(self, uri: str) -> tuple[str, str]:
        path = Path(uri).absolute()
        if self._root is None:
            return str(path.parent), path.name
        if not path.is_relative_to(self._root):
            raise ValueError(f"path {path} is outside local backend root {self._root}")
        return str(self._root), path.relative_to(self._root).as_posix()


def mounted_roots(environ: os._Environ[str] | dict[str, str] | None = None) -> tuple[str, ...]:
    """The directories that `SIGNAL_DATASET_MOUNT_ROOTS` declares as mounted buckets."""
    roots = (os.environ if environ is None else environ).get("SIGNAL_DATASET_MOUNT_ROOTS", "")
    return tuple(os.path.abspath(root) for root in roots.split(os.pathsep) if root)


def is_mounted(path: str | os.PathLike[str]) -> bool:
    """Whether a path lies below a declared mounted bucket."""
    below = Path(path).absolute()
    return any(below.is_relative_to(root) for root in mounted_roots())
