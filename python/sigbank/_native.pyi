"""The native module: what `sigbank` and `sigbank.sedpack` are made of. Errors are those of `sigbank.errors`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, final, overload

import numpy as np

from sigbank._native_signal import (
    Payload as Payload,
    RecordIterator as RecordIterator,
    SignalAnnotationSet as SignalAnnotationSet,
    SignalAnnotations as SignalAnnotations,
    SignalDataset as SignalDataset,
    SignalStore as SignalStore,
    SignalView as SignalView,
    signal_at_version as signal_at_version,
    signal_compare as signal_compare,
    signal_decode as signal_decode,
    signal_decode_metadata as signal_decode_metadata,
    signal_encode as signal_encode,
    signal_encode_metadata as signal_encode_metadata,
    signal_freeze as signal_freeze,
    signal_freeze_values as signal_freeze_values,
    signal_gc as signal_gc,
    signal_publish as signal_publish,
    signal_publish_version as signal_publish_version,
    signal_restore as signal_restore,
    signal_thaw as signal_thaw,
    signal_validate as signal_validate,
    signal_versions as signal_versions,
    signal_write_records as signal_write_records,
    signal_write_shard as signal_write_shard,
)

__all__ = [
    "BatchIterator",
    "Buffer",
    "Dataset",
    "ExampleIterator",
    "Field",
    "Filler",
    "SedpackDataset",
    "__version__",
    "bench_decode",
    "checksum",
    "checksum_file",
    "cli_main",
    "compress",
    "decompress",
    "open",
]

__version__: str

@final
class Buffer:
    """The memory under the arrays of one batch column."""

@final
class Field:
    """One field of a schema."""

    @property
    def name(self) -> str:
        """Its name."""
    @property
    def dtype(self) -> np.dtype[Any] | type | None:
        """A NumPy dtype (little-endian), or `int`, `str` or `bytes` for what is handed out as Python's own; None where records differ."""
    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of one value; None for text and bytes of any length, and for arrays that are not alike in all records."""
    @property
    def metadata(self) -> dict[str, Any]:
        """What its author says of it."""

@final
class Dataset:
    """A dataset of any layout, opened read-only by `sigbank.open`.

    It can be used in threads and after a fork, and pickled: unpickling opens it again, with the records that it had (and that `where` found),
    though others were added meanwhile; where some are gone it raises ConflictError.
    """

    @property
    def path(self) -> str:
        """Where it is, as an absolute path."""
    @property
    def layout(self) -> str:
        """The layout's name, such as "sedpack"."""
    @property
    def metadata(self) -> dict[str, Any]:
        """The dataset's own metadata."""
    @property
    def splits(self) -> dict[str, int]:
        """Records by split, in the layout's order."""
    @property
    def schema(self) -> dict[str, Field]:
        """The fields by name, in stored order. Of a signal-dataset what is said of every record is read for it, once."""
    @property
    def root_digest(self) -> str:
        """The digest that names this state of the dataset, with its algorithm: "sha256:…"."""
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: int | tuple[str, int], /) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice, /) -> list[dict[str, Any]]: ...
    def ids(self) -> list[str]:
        """The ids of all records, in order; UnsupportedError where the layout's records have none (Sedpack's)."""
    def by_id(self, id: str) -> dict[str, Any]:
        """The record of an id; KeyError for one that no record has, InvalidError for one that several have."""
    def annotation_sets(self) -> list[str]:
        """The names of the sets of annotations that there are now (of a signal-dataset)."""
    def annotations(self, name: str) -> list[dict[str, Any]]:
        """What a set says of each record, in order, as it is now: `id`, `status`, `detail_status` and `values`, a dict."""
    def where(self, expression: str) -> Dataset:
        """The records for which an expression holds, as a dataset: see `sigbank.query`."""
    def find(self, expression: str) -> list[int]:
        """The numbers of the records for which an expression holds, counted over all splits: see `sigbank.query`."""
    def windows(self, field: str, length: int, hop: int | None = None) -> Dataset:
        """Windows of a field of recordings of any length, as a dataset with the fields `field`, `item` and `start` (JBOF only)."""
    def batches(
        self,
        split: str,
        batch_size: int,
        shuffle: bool | int | None = None,
        seed: int = 0,
        *,
        epochs: int | None = 1,
        fields: list[str] | None = None,
        threads: int = 0,
        start: int = 0,
        drop_last: bool = False,
        prefetch_bytes: int | None = None,
    ) -> BatchIterator:
        """Batches of a split, read ahead by threads: dicts of arrays whose first axis is the batch, and lists for what is no array.

        Args:
            split: the split; KeyError when there is none of that name.
            batch_size: records in a batch; the last one may have fewer.
            shuffle: False or None for the stored order; how many records to mix at once; True for a permutation of
                all records where they can be read singly (uncompressed data), and 10,000 at once elsewhere.
            seed: what the order depends on, beside the epoch: the same everywhere, whatever the number of threads.
            epochs: how often to go through the records, each time in another order when shuffled; None is for ever.
            fields: names of the fields to read, all by default; KeyError for an unknown one.
            threads: threads that read and decode; 0 is one a processor.
            start: the position to begin at: `position` of an iterator over the same records with the same shuffle and seed.
            drop_last: leave out a last batch that is not full.
            prefetch_bytes: bytes of records to read ahead, beyond what the shuffle needs; by default a few batches, or two
                shards where shards are decoded as a whole.

        Raises:
            CorruptError, NotFoundError, StorageError: while iterating; they name the shard, the record and the field.
                The shards' checksums in their lists are not compared on reading: that is what `verify` does. Those inside
                npz shards are, once for each shard and before its first value.
            UnsupportedError: while iterating, where values are stored as another type than the declared one, which an
                index keeps.

        Warns:
            UserWarning: of a signal-dataset in a bucket, where a record is met that differs from those that the fields
                were taken from: the same records follow in the same order, in the form that fits all. Look at `schema`
                first to have all batches alike.
        """
    def verify(self, progress: Callable[[int, int], object] | None = None) -> tuple[int, int, int]:
        """Compare everything with its checksums; gives (shards, records, bytes) when nothing is wrong.

        Args:
            progress: hears (shards done, shards in all); what it raises ends the run.

        Raises:
            CorruptError, NotFoundError: with the first file that is wrong.
        """
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

def open(
    path: str | PathLike[str],
    *,
    version: str | int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Dataset:
    """Open a dataset of any layout, read-only: in a folder, or at an address such as s3://bucket/prefix.

    `storage_options` are the settings of the storage service by name, beside what the environment says. They are pickled with the
    dataset: credentials are better given by the environment.

    Raises:
        NotFoundError: (a FileNotFoundError) nothing is there.
        UnsupportedError: (a ValueError) what is there is no dataset of a known layout, or is newer than this package.
        CorruptError: (a ValueError) its root is damaged.
    """

@final
class ExampleIterator(Iterator[dict[str, Any]]):
    """Examples one by one; their arrays are writable and share bytes with nothing else."""

    def __iter__(self) -> ExampleIterator: ...
    def __next__(self) -> dict[str, Any]: ...

@final
class BatchIterator(Iterator[dict[str, Any]]):
    """Batches; their arrays are writable and share bytes with nothing else."""

    def __iter__(self) -> BatchIterator: ...
    def __next__(self) -> dict[str, Any]: ...
    @property
    def position(self) -> int:
        """Records handed out since the beginning of epoch 0: what `start` takes to go on from here."""

@final
class Filler:
    """Fills a Sedpack dataset."""

    def write_example(self, values: dict[str, Any], split: str, custom_metadata: str | None = None) -> list[str] | None:
        """Add one example; gives the undeclared names in `values`, None where there are none."""
    def finish(self) -> None:
        """Close the open shards, wait for the threads, make everything visible."""
    def updated_infos(self) -> list[str]:
        """The lists that a coordinator passes to `write_config`, as JSON."""
    def adopted(self) -> tuple[int, int]:
        """(shards, examples) that finishing took over from killed writers."""
    def given_up(self) -> tuple[int, int]:
        """(shards, examples) of killed writers of the same path that finishing left out for good."""

@final
class SedpackDataset:
    """A Sedpack dataset as `sigbank.sedpack` uses it. JSON texts are those of the layout's files."""

    @staticmethod
    def open(
        path: str | PathLike[str], allow_newer: bool = False, storage_options: Mapping[str, str] | None = None
    ) -> SedpackDataset: ...
    @staticmethod
    def create(
        path: str | PathLike[str], info: str, storage_options: Mapping[str, str] | None = None
    ) -> SedpackDataset: ...
    @property
    def path(self) -> Any:
        """The dataset's directory."""
    def info(self) -> str: ...
    def set_info(self, metadata: str | None, dataset_structure: str | None) -> None: ...
    def write_config(self, updated_infos: list[str]) -> str: ...
    def discard(self, relative_path: str) -> None:
        """Remove what workers with this path wrote and nothing names."""
    def checksums(self) -> list[str]: ...
    def check(self, expected: list[str], progress: Callable[[int, int], object] | None = None) -> None: ...
    def splits(self) -> list[str]: ...
    def num_shards(self, split: str) -> int: ...
    def num_examples(self, split: str) -> int: ...
    def shard_infos(self, split: str, start: int, stop: int) -> list[str]: ...
    def limit_metadata_types(self, split: str, limit: int) -> list[int]: ...
    def filler(
        self, relative_path: str, concurrency: int, durable: bool, auto_update: bool, adopt: bool | None = None
    ) -> Filler: ...
    def examples(
        self, split: str, shards: list[int] | None, repeat: bool, shuffle: int, threads: int, seed: int | None = None
    ) -> ExampleIterator: ...
    def batches(
        self,
        split: str,
        shards: list[int] | None,
        repeat: bool,
        shuffle: int,
        threads: int,
        seed: int | None = None,
        batch_size: int = 1,
        objects: bool = False,
    ) -> BatchIterator:
        """With `objects`, text (in UTF-8) and bytes are arrays of `bytes` objects instead of lists."""
    def examples_from_paths(
        self, paths: Iterable[str], shuffle: int, threads: int, seed: int | None = None
    ) -> ExampleIterator: ...
    def batches_from_paths(
        self,
        paths: Iterable[str],
        shuffle: int,
        threads: int,
        seed: int | None = None,
        batch_size: int = 1,
        objects: bool = False,
    ) -> BatchIterator: ...

def cli_main(argv: list[str]) -> int:
    """Run the command line with these arguments (the program's name first); gives its exit code."""

def compress(name: str, data: bytes) -> bytes:
    """`data` compressed as one member or frame."""

def decompress(name: str, data: bytes) -> bytes:
    """What `compress` was given; CorruptError on damage."""

def checksum(names: list[str], data: bytes) -> list[str]:
    """The checksums of `data`, in lower-case hex."""

def checksum_file(names: list[str], path: str | PathLike[str]) -> list[str]:
    """The checksums of a file's bytes."""

def bench_decode(paths: list[str], name: str, threads: int) -> int:
    """Decode files on some threads into memory that is used again; gives the bytes decoded."""

__all__ += [
    "Payload",
    "RecordIterator",
    "SignalAnnotationSet",
    "SignalAnnotations",
    "SignalDataset",
    "SignalStore",
    "SignalView",
    "signal_at_version",
    "signal_compare",
    "signal_decode",
    "signal_decode_metadata",
    "signal_encode",
    "signal_encode_metadata",
    "signal_freeze",
    "signal_freeze_values",
    "signal_gc",
    "signal_publish",
    "signal_publish_version",
    "signal_restore",
    "signal_thaw",
    "signal_validate",
    "signal_versions",
    "signal_write_records",
    "signal_write_shard",
]

__all__ += ["JbofDataset", "MappedFile", "MetadataTable", "check_expression", "jbof_item_name", "made_again", "reopened"]

def jbof_item_name(template: str, metadata: Any) -> str:
    """The name that a template gives an item of these metadata, as `str.format` makes it."""

def check_expression(expression: str) -> str:
    """The expression in its one form."""

def reopened(path: str | PathLike[str], state: str, version: int | str | None = None, storage_options: Mapping[str, str] | None = None) -> Dataset:
    """A dataset with the records that it had: what its pickle calls."""

def made_again(dataset: Dataset, method: str, args: tuple[Any, ...], kept: Mapping[str, list[int]]) -> Dataset:
    """What was found in a dataset, or windows of it: what their pickles call."""

@final
class MetadataTable:
    """What is known of many records, as columns."""

    @staticmethod
    def from_json(records: Iterable[tuple[str, str]]) -> MetadataTable:
        """A table of ids and metadata, each the JSON text of an object."""
    @staticmethod
    def open(path: str | PathLike[str]) -> MetadataTable:
        """Opens what `save` kept, or the index of a data set; what is kept is read when it is asked for."""
    def save(self, path: str | PathLike[str]) -> None:
        """Keeps it in a Parquet file."""
    def find(self, expression: str) -> list[str]:
        """The ids of the records for which an expression holds."""
    def count(self, expression: str) -> int:
        """How many records there are for which an expression holds."""
    @property
    def memory(self) -> int:
        """Bytes of memory that it takes."""
    def __len__(self) -> int: ...

@final
class MappedFile:
    """A file's bytes under a writable array; the file never changes."""

_JbofArray: TypeAlias = tuple[
    str,
    bytes,
    str,
    tuple[np.ndarray[Any, np.dtype[np.uint8]], int, str, tuple[int, ...], bool] | None,
    tuple[list[int], str | None] | None,
    int | None,
]

@final
class JbofDataset:
    """A data set of the JBOF layout, its items and arrays by name. Errors are those of `sigbank.jbof.errors`."""

    @staticmethod
    def open(path: str | PathLike[str], readonly: bool, durable: bool) -> JbofDataset:
        """Opens a data set in a directory."""
    @staticmethod
    def open_file(path: str | PathLike[str], hdf: bool) -> JbofDataset:
        """Opens a data set in a file to read it: of HDF5, or else a zip archive."""
    @staticmethod
    def open_address(address: str) -> JbofDataset:
        """Opens a data set to read it, in a bucket or a single file there."""
    def to_hdf(self, path: str | PathLike[str]) -> None:
        """Writes all to an HDF5 file."""
    def to_folder(self, path: str | PathLike[str]) -> JbofDataset:
        """Makes a folder of all, and opens it to write."""
    @staticmethod
    def create(path: str | PathLike[str], metadata: Any, itemformat: str | None, durable: bool) -> JbofDataset:
        """Creates an empty data set."""
    def delete(self) -> None:
        """Deletes the whole directory."""
    @property
    def path(self) -> str:
        """Where it is."""
    @property
    def name(self) -> str:
        """The directory's name."""
    @property
    def readonly(self) -> bool:
        """Whether it was opened to read only."""
    def document(self) -> bytes:
        """The document of the data set's metadata as it stands."""
    def hash(self) -> str:
        """The hex MD5 of all items."""
    def item_names(self) -> list[str]:
        """The names of all items, sorted."""
    def has_item(self, item: str) -> bool:
        """Whether there is an item of this name."""
    def add_item(self, item: str | None, metadata: Any) -> str:
        """Adds an empty item; gives its name."""
    def delete_item(self, item: str) -> None:
        """Deletes an item with all its arrays."""
    def item_document(self, item: str) -> bytes:
        """The document of an item's metadata as it stands."""
    def find(self, query: list[tuple[str, list[Any]]], limit: int | None) -> list[tuple[str, bytes, bool]]:
        """The items whose metadata have, for each key, one of the values given for it: names, documents, and whether that is certain."""
    @staticmethod
    def check(expression: str) -> None:
        """Refuses an expression that cannot be read."""
    def select(self, expression: str, limit: int | None) -> tuple[list[tuple[str, bytes, bool]], list[str]]:
        """The items for which an expression holds, as `find` gives them, and what is to be warned of."""
    def write_index(self, fields: bool) -> Path:
        """Brings the index up to date, with the arrays' dtypes and shapes where `fields` says so; gives its path."""
    def array_names(self, item: str) -> list[str]:
        """The names of an item's arrays, sorted."""
    def has_array(self, item: str, name: str) -> bool:
        """Whether an item has an array of this name."""
    def array(self, item: str, name: str) -> _JbofArray:
        """An array: its file, its document, the file's name, its elements (memory, offset, dtype, shape, Fortran order; None for what NumPy
        is to read), the shape and dtype that the file does not hold, and the samplerate that it does."""
    def add_array(
        self,
        item: str,
        name: str,
        array: np.ndarray[Any, Any],
        metadata: Any,
        *,
        fileformat: str,
        header: bytes | None,
        samplerate: int | None,
        subtype: str | None,
        lossy: bool,
    ) -> tuple[str | None, bytes]:
        """Adds an array: what its file does not hold is told, and its document is given. `header` stands before the elements where it is not the core's to write."""
    def add_file(
        self, item: str, name: str, path: str | PathLike[str], metadata: Any, *, checked: bool, incomplete: bool
    ) -> tuple[str | None, _JbofArray | None]:
        """Adds a copy of a file as an array. `checked` where NumPy found it to be an array already; `incomplete` to take what decodes of audio that is
        cut short or damaged. Gives what is missing of it, in words, and the array as `array` does, where all of it was read."""
    def delete_array(self, item: str, name: str) -> None:
        """Deletes an array."""
    def array_stamp(self, item: str, name: str) -> tuple[int, int, int] | None:
        """What changes when an array is replaced: None where it is not there, or where that cannot be told cheaply."""
