"""The lists of shards: what a `shards_list.json` holds and how it is pointed to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ._model import Model, ValidationError
from .file_info import FileInfo, check_inside

SHARDS_LIST_NAME: Final = "shards_list.json"


class ShardInfo(Model):
    """One shard: its file or files, how many examples it holds, and the metadata given with them.

    >>> ShardInfo(file_infos=[FileInfo(file_path="train/a.fb")], number_of_examples=2).custom_metadata
    {}
    """

    file_infos: tuple[FileInfo, ...]
    number_of_examples: int = 0
    custom_metadata: dict[str, Any] = {}

    def _check(self, where: str) -> None:
        _check_count(self.number_of_examples, f"{where}.number_of_examples")


class ShardListInfo(Model):
    """A pointer to a `shards_list.json`, with the number of examples and of shards in the directories below it.

    >>> ShardListInfo(shard_list_info_file=FileInfo(file_path="train/shards_list.json")).number_of_shards
    0
    """

    shard_list_info_file: FileInfo
    number_of_examples: int = 0
    number_of_shards: int = 0

    def _check(self, where: str) -> None:
        _check_name(self.shard_list_info_file.file_path, f"{where}.shard_list_info_file.file_path")
        _check_count(self.number_of_examples, f"{where}.number_of_examples")
        _check_count(self.number_of_shards, f"{where}.number_of_shards")


class ShardsList(Model):
    """The content of a `shards_list.json`: the shards of its own directory, then the lists of the directories below.

    `number_of_examples` counts all of them. In the file empty lists and zero counts are left out.

    >>> ShardsList(relative_path_self="train/shards_list.json").model_dump_json(exclude_defaults=True)
    '{"relative_path_self":"train/shards_list.json"}'
    """

    relative_path_self: Path
    number_of_examples: int = 0
    shard_files: list[ShardInfo] = []
    children_shard_lists: list[ShardListInfo] = []

    def _check(self, where: str) -> None:
        check_inside(self.relative_path_self, f"{where}.relative_path_self")
        _check_name(self.relative_path_self, f"{where}.relative_path_self")
        _check_count(self.number_of_examples, f"{where}.number_of_examples")


def _check_name(path: Path, where: str) -> None:
    if path.name != SHARDS_LIST_NAME:
        raise ValidationError(f"{where}: expected a file called {SHARDS_LIST_NAME!r}, found {str(path)!r}")


def _check_count(count: int, where: str) -> None:
    if count < 0:
        raise ValidationError(f"{where}: expected a count, found {count}")
