"""Writing examples into a dataset."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sigbank import _native

from ._model import json_text
from .shard_file_metadata import ShardListInfo
from .types import ExampleT, SplitT

if TYPE_CHECKING:
    from .dataset import Dataset


class DatasetFillerContext:
    """What `with dataset.filler() as context:` hands out: takes the examples, one by one."""

    def __init__(self, native: _native.Filler) -> None:
        self._native = native
        self._dropped: set[str] = set()

    def write_example(self, values: ExampleT, split: SplitT, custom_metadata: dict[str, Any] | None = None) -> None:
        """Write one example.

        Args:
            values: attribute name to value, with an entry for each declared attribute. A value is taken when it casts
                safely to the declared dtype and has the declared shape. Undeclared names are left out, with one warning.
            split: "train", "test" or "holdout".
            custom_metadata: what describes this example's shard, as JSON can hold it. A value that differs from the open
                shard's closes that shard and opens a new one. None and {} are one such value too: no example gets another's label.

        Raises:
            KeyError: an attribute is missing.
            ValueError: a value, the split or the metadata does not fit; nothing of this example is written.
            OSError: an earlier shard could not be written.
        """
        metadata = json_text(custom_metadata, "custom_metadata") if custom_metadata else None
        dropped = self._native.write_example(values, split, metadata)
        if dropped and not self._dropped.issuperset(dropped):
            self._dropped.update(dropped)
            warnings.warn(
                f"the dataset declares no attribute {', '.join(map(repr, dropped))}; what is given under such a name is "
                "not written. Declare it in saved_data_description, or leave it out",
                stacklevel=2,
            )


class DatasetFiller:
    """Fills a dataset: `with filler as context: context.write_example(…)`; the filler itself has `write_example` too.

    A session adds to what the dataset holds. Its examples become visible together when the `with` block ends, also when it
    ends by an exception or Ctrl-C. A filler serves one `with` block. It can be pickled before and after that block.

    Any number of fillers may be at work at once, in any processes, whatever their paths: what each one wrote is named once.
    `get_updated_infos` stands for exactly what this filler wrote, also where other sessions had the same path. So a worker
    whose result was lost is simply run again, and the infos of its last run are merged.

    Args:
        dataset: the dataset to fill.
        concurrency: how many threads compress and write shards.
        relative_path_from_split: the directory, from the split's, that takes the shards. ValueError when it leaves the
            split's directory.
        auto_update_dataset: whether the dataset's root names the new shards when the block ends. By default it does
            when `relative_path_from_split` is "."; otherwise `Dataset.write_config(updated_infos=…)` does it later,
            with what `get_updated_infos` gives.
        durable: whether the files are flushed to the disk before they are named.
        adopt: whether the end of the block takes in what killed writers of the same path finished, too. By default a filler
            with the path "." does. One with another path does not, since a worker that died is usually run again from its
            beginning: what it had finished is given up for good, as with False. A warning says how much either was.
    """

    def __init__(
        self,
        dataset: Dataset,
        concurrency: int = 4,
        relative_path_from_split: Path | str = Path("."),
        auto_update_dataset: bool | None = None,
        *,
        durable: bool = True,
        adopt: bool | None = None,
    ) -> None:
        self._dataset = dataset
        self._concurrency = concurrency
        self._relative_path = Path(relative_path_from_split)
        self._auto_update = self._relative_path == Path(".") if auto_update_dataset is None else auto_update_dataset
        self._durable = durable
        self._adopt = adopt
        self._native: _native.Filler | None = None
        self._context: DatasetFillerContext | None = None
        self._infos: list[str] | None = None

    def __enter__(self) -> DatasetFillerContext:
        if self._context is not None or self._infos is not None:
            raise RuntimeError("this filler has had its with block; make another one with dataset.filler()")
        self._native = self._dataset._start_filler(
            self._relative_path.as_posix(), self._concurrency, self._durable, self._auto_update, self._adopt
        )
        self._context = DatasetFillerContext(self._native)
        return self._context

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        native, self._native, self._context = self._native, None, None
        if native is None:
            raise RuntimeError("this filler's with block was not entered")
        self._infos = []
        try:
            native.finish()
        finally:
            # Where some shards could not be written, the others are named all the same.
            self._infos = native.updated_infos()
            _warn_of_killed(native.adopted(), "were added too; write with adopt=False to leave them out")
            if self._adopt is None:
                _warn_of_killed(native.given_up(), "are left out; a worker that goes on where it was killed has adopt=True")
            if self._auto_update:
                self._dataset._reload()

    def write_example(self, values: ExampleT, split: SplitT, custom_metadata: dict[str, Any] | None = None) -> None:
        """As `DatasetFillerContext.write_example`; RuntimeError outside the `with` block."""
        if self._context is None:
            raise RuntimeError("write_example works inside `with filler:`")
        self._context.write_example(values, split, custom_metadata)

    def get_updated_infos(self) -> list[ShardListInfo]:
        """The lists of the shards that this session wrote, for `Dataset.write_config`; none before its end.

        They lead to these shards and no others, so infos of several sessions may be collected and merged in any order, and
        merged again.
        """
        return [ShardListInfo.model_validate(json.loads(info)) for info in self._infos or ()]

    def __getstate__(self) -> dict[str, Any]:
        if self._native is not None:
            raise TypeError("a filler cannot be pickled inside its with block; pickle it before or after")
        return self.__dict__.copy()


def _warn_of_killed(counts: tuple[int, int], what: str) -> None:
    shards, examples = counts
    if examples:
        text = f"{examples} examples in {shards} shards of a writer that was killed {what}"
        warnings.warn(text, stacklevel=3)
