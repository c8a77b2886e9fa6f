"""What is said of where datasets are."""

from __future__ import annotations

import os


def root_path(root: str | os.PathLike[str], *stores: object) -> str:
    """The root as a path.

    Raises:
        ValueError: it is an address, such as s3://…, or stores are given: only local datasets are read and written yet.
    """
    path = os.fspath(root)
    if not isinstance(path, str):
        raise TypeError(f"the root must be a str or a path, found {root!r}")
    if "://" in path:
        scheme = path.split("://", 1)[0]
        raise ValueError(f"unsupported storage URI scheme: {scheme!r}; datasets are read and written on a local disk so far")
    if any(store is not None for store in stores):
        raise ValueError("object_store and shard_store are not taken yet: leave them out for a dataset on a local disk")
    if not path:
        raise ValueError("the root is empty: give the path of a directory")
    return path
