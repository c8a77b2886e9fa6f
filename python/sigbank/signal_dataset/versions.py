"""Further versions of a dataset, which the reference package does not see: who opens the dataset without one gets what `publish` made.

>>> from sigbank.signal_dataset import open, versions, write_shard
>>> dataset = open("captures")  # doctest: +SKIP
>>> shard = write_shard(records, "captures", work_id="tuesday")  # doctest: +SKIP
>>> versions.publish(dataset, [shard], name="v2", base="latest")  # doctest: +SKIP
>>> [version.name for version in versions.versions(dataset)]  # doctest: +SKIP
['v1', 'v2']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sigbank import _native

from .dataset.reader import Dataset
from .policy import PublicationOptions, StorageOptions
from .record.model import Json, PublishedShard

__all__ = ["Comparison", "Version", "at", "compare", "publish", "versions"]


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a dataset. Number 0 is what `root.json` names.

    `digest` ("sha256:…") stands for the version and what it names; `parent` and `base` are (number, digest) of the version that was
    the newest before, and of the one whose records it begins with; `created` is its time in UTC, "2026-01-31T12:00:00Z".
    """

    number: int
    name: str
    digest: str
    parent: tuple[int, str] | None
    base: tuple[int, str] | None
    records: int
    shards: int
    stored_bytes: int
    metadata: Mapping[str, Json]
    created: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two versions differ.

    `records` of both; `added`, `removed` and `kept` are (shards, records, bytes); `metadata` has (before, after) by key, None for
    what is not there; `ids` lists the ids of records that are (added, removed, changed), where asked for.
    """

    records: tuple[int, int]
    added: tuple[int, int, int]
    removed: tuple[int, int, int]
    kept: tuple[int, int, int]
    metadata: Mapping[str, tuple[Any, Any]]
    ids: tuple[list[str], list[str], list[str]] | None


class _VersionDataset(Dataset):
    """A dataset at a version; pickled as the dataset and the digest."""

    _first: Dataset

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, version={self._native.version_number})"

    def __reduce__(self) -> tuple[Any, ...]:
        return at, (self._first, self.root_digest)


def versions(dataset: Dataset) -> list[Version]:
    """All versions, from number 0 on.

    Raises:
        CorruptDatasetError: (a ValueError) a version's document is damaged.
    """
    return [Version(**told) for told in _native.signal_versions(dataset._native)]


def at(dataset: Dataset, version: str | int) -> Dataset:
    """The dataset at a version: its number, its name, `sha256:` and 12 digits or more of its digest, or `latest`.

    Opening at a whole digest gives those bytes or fails, whatever was published since.

    Raises:
        FileNotFoundError: there is no such version.
        ValueError: the digest has too few digits, or several versions' digests begin so.
        CorruptDatasetError: (a ValueError) what is there is not what the digest says.
    """
    first = dataset._first if isinstance(dataset, _VersionDataset) else dataset
    return _wrap(first, _native.signal_at_version(first._native, str(version)))


def _wrap(first: Dataset, native: _native.SignalDataset) -> Dataset:
    # As the first one is, whatever it holds of its stores.
    opened = _VersionDataset.__new__(_VersionDataset)
    opened.__dict__.update(first.__dict__)
    fresh = Dataset(native, first._options, first.object_store, first._shard_store)
    for name in ("_native", "snapshot_id", "metadata", "record_metadata", "_catalog"):
        setattr(opened, name, getattr(fresh, name))
    opened._first = first
    return opened


def publish(
    dataset: Dataset,
    shards: Iterable[PublishedShard],
    *,
    name: str,
    base: str | int | None = None,
    without: Iterable[str] = (),
    metadata: Mapping[str, Json] | None = None,
    follows: str | int | None = None,
    rebase: bool = False,
    storage_options: StorageOptions | None = None,
    publication_options: PublicationOptions | None = None,
    compat: bool = False,
) -> Dataset:
    """Publish a further version: the records of `base`, then those of the shards in the order of their work ids.

    `root.json` and what it names stay as they are. To do it again completes an interrupted publication.

    Args:
        name: the version's name, which no other has.
        base: the version that it begins with, such as "latest"; None for new records only.
        without: shards of the base to leave out, by the path of their data object as a manifest has it.
        metadata: whatever is to be said of it; None for what is said of the base, or else of the newest version.
        follows: the version that must still be the newest.
        rebase: publish behind a version that is published meanwhile, instead of raising.

    Raises:
        ValueError: the name cannot be, a shard is not as it is said to be, the base holds it already.
        PublicationCollisionError: (a FileExistsError) the name is taken, or another version was published meanwhile.
    """
    first = dataset._first if isinstance(dataset, _VersionDataset) else dataset
    native = _native.signal_publish_version(
        first._native,
        name,
        list(shards),
        None if base is None else str(base),
        list(without),
        metadata,
        None if follows is None else str(follows),
        rebase,
        storage_options,
        publication_options,
        compat,
    )
    return _wrap(first, native)


def compare(before: Dataset, after: Dataset, *, by_id: bool = False) -> Comparison:
    """How the second version differs from the first. No samples are read, but with `by_id` of records whose metadata are the same."""
    return Comparison(**_native.signal_compare(before._native, after._native, by_id))
