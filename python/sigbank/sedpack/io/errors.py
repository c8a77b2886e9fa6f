"""Errors of the Sedpack interface beyond the built-in ones."""

from __future__ import annotations

from pathlib import Path


class DatasetExistsError(FileExistsError):
    """A dataset stands already where one was to be created."""

    def __init__(self, dataset_path: Path | str) -> None:
        super().__init__(
            f"there is a dataset at {dataset_path} already and it is left as it is; "
            f'open it with Dataset("{dataset_path}"), or create the new one somewhere else'
        )
        self.dataset_path = dataset_path

    def __reduce__(self) -> tuple[type[DatasetExistsError], tuple[Path | str]]:
        return type(self), (self.dataset_path,)
