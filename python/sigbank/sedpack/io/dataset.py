"""A Sedpack dataset: a directory of packed, split, compressed and checksummed shards."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sigbank import _native

from ._model import Model, refuse_lossy
from .dataset_filler import DatasetFiller
from .dataset_iteration import DatasetIteration
from .errors import DatasetExistsError
from .file_info import FileInfo
from .metadata import DatasetInfo, DatasetStructure, Metadata
from .shard_file_metadata import ShardListInfo
from .shard_info_iterator import ShardInfoIterator
from .types import SplitT
from .utils import root_of
from .workers import write_multiprocessing


class Dataset(DatasetIteration):
    """A dataset on disk, or in a bucket.

    Args:
        path: the dataset's directory, or an address such as s3://bucket/prefix.
        create_dataset: make an empty dataset of the default structure when there is none; `Dataset.create` says more.
        allow_newer: open a dataset although its `sedpack_version` is newer than what is known here.
        storage_options: the settings of the storage service of an address, by name. They are pickled with the dataset:
            credentials are better given by the environment.

    Raises:
        FileNotFoundError: there is no dataset at `path`.
        ValueError: the dataset is newer than what is known here, or its description is damaged.
    """

    def __init__(
        self,
        path: str | Path,
        create_dataset: bool = False,
        *,
        allow_newer: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.path: Path | str = root_of(path)
        self._allow_newer = allow_newer
        self._storage_options = dict(storage_options) if storage_options else None
        try:
            self._native = _native.SedpackDataset.open(str(self.path), allow_newer, self._storage_options)
        except FileNotFoundError:
            if not create_dataset:
                raise
            info = DatasetInfo().model_dump_json()
            self._native = _native.SedpackDataset.create(str(self.path), info, self._storage_options)
        self._saved = self._info = DatasetInfo()
        self._reload()
        self._info = self._saved.model_copy(deep=True)

    @staticmethod
    def create(
        path: str | Path,
        metadata: Metadata,
        dataset_structure: DatasetStructure,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> Dataset:
        """Make a new, empty dataset and open it; `path` and `storage_options` as for `Dataset`.

        Raises:
            DatasetExistsError: (a FileExistsError) there is a dataset at `path`; it is left as it is.
            ValueError: the structure cannot be written: an unknown dtype, a name that stands twice, a compression that the
                shard file type does not take.
        """
        root, options = root_of(path), dict(storage_options) if storage_options else None
        info = DatasetInfo(metadata=metadata, dataset_structure=dataset_structure)
        try:
            refuse_lossy(metadata, "metadata")
            refuse_lossy(dataset_structure, "dataset_structure")
            _native.SedpackDataset.create(str(root), info.model_dump_json(), options)
        except FileExistsError:
            raise DatasetExistsError(root) from None
        return Dataset(root, allow_newer=True, storage_options=options)

    def __repr__(self) -> str:
        info = self._info
        splits = ", ".join(f"{name} {split.number_of_examples}" for name, split in info.splits.items()) or "empty"
        return f"Dataset({str(self.path)!r}, {info.dataset_structure.shard_file_type} shards, {splits})"

    def _reload(self) -> None:
        """Take over what the dataset's root says by now."""
        self._saved = DatasetInfo.model_validate_json(self._native.info())
        self._info.splits = self._saved.model_copy(deep=True).splits

    def _hand_over(self) -> None:
        """Give the native side the metadata and structure that were changed here, to save them with the root."""
        refuse_lossy(self._info.metadata, "metadata")
        refuse_lossy(self._info.dataset_structure, "dataset_structure")
        stored = json.loads(self._native.info())
        changed = [
            None if mine == saved else json.dumps(_with_unknown_keys(mine, stored.get(name, {})))
            for name, mine, saved in (
                ("metadata", self._info.metadata, self._saved.metadata),
                ("dataset_structure", self._info.dataset_structure, self._saved.dataset_structure),
            )
        ]
        if changed != [None, None]:
            self._native.set_info(*changed)

    def _start_filler(
        self, relative_path: str, concurrency: int, durable: bool, auto_update: bool, adopt: bool | None
    ) -> _native.Filler:
        if self._info.metadata != self._saved.metadata or self._info.dataset_structure != self._saved.dataset_structure:
            # Shards are never written by a structure that the root does not name.
            self._save([])
        return self._native.filler(relative_path, concurrency, durable, auto_update, adopt)

    def _save(self, updated_infos: list[str]) -> FileInfo:
        self._hand_over()
        structure = self._saved.dataset_structure
        saved = FileInfo.model_validate_json(self._native.write_config(updated_infos))
        self._reload()
        if self._saved.dataset_structure != structure:
            # What is open reads and writes by the structure that it was opened with.
            self._native = _native.SedpackDataset.open(str(self.path), True, self._storage_options)
        return saved

    @property
    def dataset_info(self) -> DatasetInfo:
        """All that the dataset says of itself. Changes to its metadata and structure are saved by `write_config`."""
        return self._info

    @property
    def metadata(self) -> Metadata:
        """What the dataset is about; can be set, and is saved by `write_config`."""
        return self._info.metadata

    @metadata.setter
    def metadata(self, value: Metadata) -> None:
        self._info.metadata = value

    @property
    def dataset_structure(self) -> DatasetStructure:
        """How examples are laid out; can be set, and is saved by `write_config`."""
        return self._info.dataset_structure

    @dataset_structure.setter
    def dataset_structure(self, value: DatasetStructure) -> None:
        self._info.dataset_structure = value

    def filler(self, concurrency: int = 4, *, durable: bool = True, adopt: bool | None = None) -> DatasetFiller:
        """A filler that adds examples: `with dataset.filler() as filler: filler.write_example(…)`.

        `concurrency` threads compress and write shards; with `durable` all files are flushed before they are named. Shards that
        killed writers finished are added too, with a warning; `adopt=False` gives them up. In a bucket, which cannot tell killed
        writers from living ones, they are added with `adopt=True` only.
        """
        return DatasetFiller(dataset=self, concurrency=concurrency, durable=durable, adopt=adopt)

    def write_config(self, updated_infos: list[ShardListInfo] | None = None) -> FileInfo:
        """Save the metadata and the structure, and name the shards that fillers left unnamed.

        Args:
            updated_infos: what the fillers' `get_updated_infos` gave, in any order; a list may be given beside those below it.
                Shards that are named already stay and are named once, so the same infos may be given again, by a
                coordinator that was killed for one, and several coordinators may be at work.

        Raises:
            FileNotFoundError: a list that an info describes is not there, or one of its files; nothing is changed.
            ValueError: an info describes no list of this dataset, or one that has changed since; nothing is changed.

        Returns:
            the path and the checksums of `dataset_info.json`.
        """
        return self._save([info.model_dump_json() for info in updated_infos or ()])

    def current_metadata_checksums(self) -> tuple[str, ...]:
        """The checksums of `dataset_info.json`, which stand for the whole dataset; for `check`."""
        return tuple(self._native.checksums())

    def check(self, show_progressbar: bool = True, hash_checksums_values: tuple[str, ...] = ()) -> None:
        """Verify the checksums of every list of shards and of every shard file, and the counts.

        Args:
            show_progressbar: tell how far it is, on the standard error stream where that is a terminal.
            hash_checksums_values: the expected checksums of `dataset_info.json`, from `current_metadata_checksums`.

        Raises:
            ValueError: a file differs from what is recorded; it is named, with both checksums.
            FileNotFoundError: a recorded file is missing.
        """
        self._native.check(list(hash_checksums_values), _show_progress if show_progressbar and sys.stderr.isatty() else None)

    def shard_info_iterator(self, split: SplitT | None) -> ShardInfoIterator:
        """The shards of a split in stored order, of all splits for None; ValueError when there is no such split."""
        return ShardInfoIterator(dataset_path=self.path, dataset_info=self._saved, split=split, native=self._native)

    def write_multiprocessing(
        self,
        *,
        feed_writer: Callable[..., Any],
        custom_arguments: Sequence[Sequence[Any]],
        custom_kwarguments: Sequence[dict[str, Any]] | None = None,
        consistency_check: bool = True,
        single_process: bool = False,
    ) -> list[Any]:
        """Write from several processes at once.

        Args:
            feed_writer: called as `feed_writer(dataset_filler, *arguments, **kwarguments)`, once for each entry of
                `custom_arguments`, in a pool of as many processes as there are processors. It writes inside
                `with dataset_filler:`. The processes are started as `multiprocessing.set_start_method` says, so
                `feed_writer`, its arguments and its result must be picklable.
            custom_arguments: the arguments of each call.
            custom_kwarguments: the keyword arguments of each call, as many as `custom_arguments`; none by default.
            consistency_check: `check` the dataset at the end.
            single_process: make the calls here, one after the other.

        Returns:
            what the calls returned, in order.

        All that the calls wrote becomes visible together, at the end. When a call raises, so does this, with a note that tells
        which one it was; calls that have begun run to their end, the others are not made, and what they all wrote is removed,
        so that the whole can simply be run again. So it is when a process is killed, and after Ctrl-C.

        Raises:
            ValueError: the lists differ in length.
            TypeError: `feed_writer` cannot be pickled.
            RuntimeError: a process was killed, or ended otherwise, before its call was done.
        """
        return write_multiprocessing(
            self,
            feed_writer,
            custom_arguments,
            custom_kwarguments,
            consistency_check=consistency_check,
            single_process=single_process,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "allow_newer": self._allow_newer,
            "storage_options": self._storage_options,
            "info": self._info,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(  # type: ignore[misc]
            state["path"], allow_newer=state["allow_newer"], storage_options=state.get("storage_options")
        )
        self._info.metadata = state["info"].metadata
        self._info.dataset_structure = state["info"].dataset_structure


def _with_unknown_keys(model: Model, stored: dict[str, Any]) -> dict[str, Any]:
    """`model` as JSON has it, with what `stored` holds beyond it, also in attributes of the same name."""
    dumped = model.model_dump(mode="json")
    dumped.update({key: value for key, value in stored.items() if key not in dumped})
    if isinstance(model, DatasetStructure):
        attributes = {attribute.get("name"): attribute for attribute in stored.get("saved_data_description", [])}
        dumped["saved_data_description"] = [
            _with_unknown_keys(attribute, attributes.get(attribute.name, {})) for attribute in model.saved_data_description
        ]
    return dumped


def _show_progress(done: int, total: int) -> None:
    end = "\n" if done == total else ""
    sys.stderr.write(f"\rchecked {done} of {total} shards{end}")
    sys.stderr.flush()
