"""Small helpers that code written for Sedpack imports."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sigbank import _native

from .types import HashChecksumT

T = TypeVar("T")


def root_of(path: str | Path) -> Path | str:
    """The root of a dataset: an absolute path, or an address such as s3://bucket/prefix as it is.

    >>> root_of("s3://bucket/prefix/")
    's3://bucket/prefix'
    """
    if isinstance(path, str) and "://" in path and not path.startswith("file://"):
        return path.rstrip("/")
    return Path(str(path).removeprefix("file://")).expanduser().resolve()


def identity(x: T) -> T:
    """What was given.

    >>> identity(3)
    3
    """
    return x


def func_or_identity(f: Callable[..., T] | None) -> Callable[..., Any]:
    """`f`, or `identity` in place of None."""
    return identity if f is None else f


def is_module_present(module_name: str) -> bool:
    """Whether a module of that name could be imported; it is not imported.

    >>> is_module_present("no_such_module")
    False
    """
    return importlib.util.find_spec(module_name) is not None


def hash_checksums(file_path: Path, hashes: tuple[HashChecksumT, ...]) -> tuple[str, ...]:
    """The checksums of a file's bytes, in lower-case hex and the order of `hashes`; OSError, ValueError."""
    return tuple(_native.checksum_file(list(hashes), str(file_path)))


def hash_checksums_from_bytes(file_content: bytes, hashes: tuple[HashChecksumT, ...]) -> tuple[str, ...]:
    """The checksums of `file_content`, in lower-case hex and the order of `hashes`; ValueError for an unknown one."""
    return tuple(_native.checksum(list(hashes), file_content))
