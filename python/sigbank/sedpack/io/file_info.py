"""A file of a dataset, named from the dataset's root, with its checksums."""

from __future__ import annotations

from pathlib import Path

from ._model import Model, ValidationError


class FileInfo(Model):
    """One file and the checksums of its bytes as they lie on disk.

    `file_path` is relative to the dataset's root and does not leave it; `hash_checksums` are lower-case hex, in the order of
    the dataset's `hash_checksum_algorithms`. ValueError for a path that is absolute or holds `..`.

    >>> FileInfo(file_path="train/shards_list.json", hash_checksums=["d41d8cd9"]).hash_checksums
    ('d41d8cd9',)
    """

    file_path: Path
    hash_checksums: tuple[str, ...] = ()

    def _check(self, where: str) -> None:
        check_inside(self.file_path, f"{where}.file_path")


def check_inside(path: Path, where: str) -> None:
    """ValidationError unless `path`, taken from the dataset's root, stays inside it."""
    if path.is_absolute() or ".." in path.parts:
        raise ValidationError(
            f"{where}: expected a path relative to the dataset's root that stays inside it, found {str(path)!r}"
        )
