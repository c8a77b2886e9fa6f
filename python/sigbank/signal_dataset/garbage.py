"""Objects that nothing names, as killed workers and publications that were given up leave them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

from sigbank import _native

from ._roots import ObjectStore, Settings, native_store, object_store_at, root_path

__all__ = ["Garbage", "Orphan", "gc"]


@dataclass(frozen=True, slots=True)
class Orphan:
    """An object that nothing names: `path` relative to the root, length in bytes, age in seconds by the storage's clock (None where it
    does not tell), and why it is kept ("young", "in use", "unpublished", …; None for garbage)."""

    path: str
    bytes: int
    age: float | None
    kept: str | None


@dataclass(frozen=True, slots=True)
class Garbage:
    """What `gc` found: orphans in the order of deletion; the first 1000 names that are not of the layout, which are never touched; in words,
    what is complete among the orphans and no commit names; whether there is a dataset; how much is named; and what was deleted."""

    orphans: Sequence[Orphan]
    not_ours: Sequence[str]
    uncommitted: Sequence[str]
    published: bool
    live_objects: int
    live_bytes: int
    deleted_objects: int
    deleted_bytes: int


def gc(
    root: str | PathLike[str],
    *,
    older_than: float,
    delete: bool = False,
    unpublished: bool = False,
    old_annotations: bool = False,
    uncommitted: bool = False,
    object_store: ObjectStore | None = None,
    storage_options: Settings | None = None,
) -> Garbage:
    """Look below a root for objects that no snapshot, version or annotation set names; with `delete`, delete those that are old enough.

    This lists the root, as nothing else here does. What is younger than `older_than` may belong to a publication that is still being made: give
    an age longer than any takes, from the first worker's shard on.

    Args:
        older_than: the least age in seconds of what counts as garbage, by the storage's clock.
        delete: delete it.
        unpublished: also where there is no dataset (yet).
        old_annotations: also what only earlier revisions of the annotation catalog name.
        uncommitted: also snapshots and annotations that are complete and that no commit names; their commit may have been deleted by mistake.

    Raises:
        ValueError: a negative age.
        CorruptDatasetError: a document that is named cannot be read, so that nobody knows what is garbage; nothing is deleted.

    >>> from sigbank.signal_dataset import gc
    >>> found = gc("captures", older_than=7 * 86400)  # doctest: +SKIP
    >>> [orphan.path for orphan in found.orphans if orphan.kept is None]  # doctest: +SKIP
    """
    path = root_path(root)
    store = native_store(path, object_store_at(path, object_store, storage_options), create=False)
    told = _native.signal_gc(store, older_than, delete, unpublished, old_annotations, uncommitted)
    orphans = tuple(Orphan(**one) for one in told.pop("orphans"))
    not_ours, complete = tuple(told.pop("not_ours")), tuple(told.pop("uncommitted"))
    return Garbage(orphans=orphans, not_ours=not_ours, uncommitted=complete, **told)
