"""Items and their arrays."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _documents, array, errors
from ._names import as_str, is_text, text
from .array import Array

if TYPE_CHECKING:
    from .. import _native
    from .dataset import DataSet

_AUDIO = ("wav", "flac", "ogg")
_WORTH_READING = 1 << 16
"""Bytes from which on an array that was added is read back, for it may be mapped then."""


class Item:
    """An item of a data set: metadata, and arrays as attributes: `item.voice` is the array "voice", as is `item["voice"]`.

    An array is read when it is first asked for and then kept by this object, until another takes its place on the disk. Items are
    equal where they are the same directory. `Item(directory, readonly)` opens an item by its directory.
    """

    _dataset: DataSet
    _name: str
    _document: bytes | None
    _metadata: Any
    _arrays: dict[str, tuple[Any, Array]]

    def __init__(self, directory: str | os.PathLike[str], readonly: bool = True) -> None:
        """Opens it."""
        from .dataset import DataSet

        above, name = os.path.split(os.path.abspath(directory))
        self._set(DataSet(above, readonly)[name]._dataset, name, None)

    @classmethod
    def _of(cls, dataset: DataSet, name: str, document: bytes | None = None) -> Item:
        item = cls.__new__(cls)
        item._set(dataset, name, document)
        return item

    def _set(self, dataset: DataSet, name: str, document: bytes | None) -> None:
        self._dataset, self._name, self._document = dataset, name, document
        self._metadata, self._arrays = None, {}

    @property
    def _native(self) -> _native.JbofDataset:
        return self._dataset._native

    @property
    def _path(self) -> str:
        return os.path.join(self._native.path, self._name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by what opens it again: no array travels along."""
        return _reopened, (type(self), self._dataset, self._name)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same directory."""
        return self._path == other._path if isinstance(other, Item) else NotImplemented

    def __hash__(self) -> int:
        """Equal for equal items."""
        return hash(self._path)

    def __repr__(self) -> str:
        """Where it is."""
        return f"Item({self._path!r})"

    @property
    def name(self) -> str:
        """The item's name, which is its directory's."""
        return self._name

    @property
    def metadata(self) -> dict[str, Any]:
        """The item's metadata, as they were when this object was first asked for them."""
        if self._metadata is None:
            document = self._native.item_document(self._name) if self._document is None else self._document
            self._metadata = _documents.parse(document, self._path)
            self._document = None
        return self._metadata  # type: ignore[no-any-return]

    def has_array(self, name: str) -> bool:
        """Whether there is an array of this name."""
        name = as_str(name, "array")
        return is_text(name) and self._native.has_array(self._name, name)

    __contains__ = has_array

    def all_arrays(self) -> Iterator[tuple[str, Array]]:
        """The names and arrays, sorted by name."""
        for name in self._native.array_names(self._name):
            yield name, self[name]

    def __getitem__(self, name: str) -> Array:
        """The array of this name.

        Raises:
            MissingArrayError: (a TypeError and AttributeError) there is none.
            CorruptError, UnsupportedError: (ValueErrors) its file is damaged, or of a kind that is not handled.
        """
        try:
            stamp = self._native.array_stamp(self._name, name)
        except UnicodeEncodeError:
            what = "no file has half of a surrogate pair in its name"
            raise errors.MissingArrayError(f"{self._path}: there is no array {name!r}: {what}") from None
        known = self._arrays.get(name)
        if known is not None and stamp is not None and known[0] == stamp:
            return known[1]
        found = array.read(self._native, self._name, name)
        self._arrays[name] = stamp, found
        return found

    def __getattr__(self, name: str) -> Array:
        """The array of this name. What Python itself asks for, with two underscores, is no array."""
        if (name.startswith("__") and name.endswith("__")) or "_dataset" not in self.__dict__:
            raise AttributeError(name)
        return self[name]

    def __dir__(self) -> list[str]:
        """The attributes, arrays included."""
        return sorted({*super().__dir__(), *self._native.array_names(self._name)})

    def add_array(
        self,
        name: str,
        data: Any,
        metadata: dict[str, Any] | None = None,
        fileformat: str = "npy",
        samplerate: float | str | None = None,
        *,
        subtype: str | None = None,
        lossy: bool = False,
    ) -> Array:
        """Add an array, and give it as it is read back. It is visible as a whole: of several writers of one name exactly one succeeds.

        Args:
            name: one path component, without the file's ending.
            data: what NumPy makes an array of. For wav, flac and ogg: float32 or float64 on a full scale of [-1, 1), int16 or int32
                on their own, of shape (frames,) or (frames, channels).
            metadata: a dict of what JSON has.
            fileformat: npy, wav, flac, ogg or mat.
            samplerate: frames a second, in Hz, above 0 and below 2**31; for audio. Files hold whole numbers: of another one the file
                has what stands before the point, with a warning. A text such as "8000" is taken as its number.
            subtype: how samples are stored, in libsndfile's words; PCM_16 by default for wav and flac. wav: PCM_U8, PCM_16, PCM_24, PCM_32,
                FLOAT, DOUBLE; flac: PCM_S8, PCM_16, PCM_24; ogg: VORBIS.
            lossy: do not warn where samples change by the format's step or more (of ogg, which changes nearly all: by one of 16 bits), and
                take those that are not finite (not ogg). Floats of wav and flac are rounded to the format's step without a warning.

        Raises:
            AlreadyExistsError: (a TypeError) there is an array of this name.
            InvalidError: (a TypeError) a name, metadata, a shape, a samplerate or samples that cannot be stored.
            UnsupportedError: (a ValueError) a dtype or subtype that the format does not have.
            UnknownFormatError: (a NotImplementedError) another `fileformat`.
            ReadOnlyError: (a RuntimeError) the data set was opened to read.
        """
        name = text(name, "array")
        rate, metadata = _samplerate(samplerate, fileformat, metadata)
        stored, header = array.to_store(data, fileformat)
        loss, document = self._native.add_array(
            self._name,
            name,
            stored,
            metadata,
            fileformat=fileformat,
            header=header,
            samplerate=rate,
            subtype=subtype,
            lossy=lossy,
        )
        if loss is not None and not lossy:
            better = "wav, flac" if fileformat == "ogg" else "a subtype of more bits,"
            advice = f"choose {better} or npy, or say lossy=True"
            warnings.warn(f"{self._path}: the array {name!r}: {loss}: {advice}", UserWarning, stacklevel=2)
        if fileformat != "npy" or header is not None or stored.nbytes >= _WORTH_READING:
            return self[name]
        # What reading would give.
        added = array.of(self._path, name, stored.copy(), document)
        self._arrays[name] = self._native.array_stamp(self._name, name), added
        return added

    def add_array_from_file(
        self,
        name: str,
        filename: str | os.PathLike[str],
        metadata: dict[str, Any] | None = None,
        *,
        incomplete: bool = False,
    ) -> Array:
        """Add a copy of a file as an array: its bytes are not changed, its content decides what it is, whatever its name says.

        The sample rate of audio is stored in the metadata.

        Args:
            name: one path component, without the file's ending.
            filename: an npy, wav, flac, ogg or mat file.
            metadata: a dict of what JSON has.
            incomplete: take what decodes of audio that is cut short or damaged, with a warning, in place of an error: its whole frames
                are then written anew, as a whole file of the same samples (wav of floats for ogg, which would lose by it).

        Raises:
            NotFoundError: (a TypeError) there is no such file.
            UnknownFormatError: (a NotImplementedError) it is no npy, wav, flac, ogg or mat file.
            CorruptError, UnsupportedError: (ValueErrors) it is damaged, or of a kind that is not handled.
            The others of `add_array`.
        """
        name, path = text(name, "array"), os.path.abspath(filename)
        try:
            missing, found = self._native.add_file(self._name, name, path, metadata, checked=False, incomplete=incomplete)
        except errors.UnsupportedError:
            if not _is_numpys(path):
                raise
            missing, found = self._native.add_file(self._name, name, path, metadata, checked=True, incomplete=False)
        if missing is not None:
            warnings.warn(f"{self._path}: the array {name!r} is what decodes of {path}: {missing}", UserWarning, stacklevel=2)
        if found is None:
            return self[name]
        # All of it was read already.
        added = array.made(name, found)
        self._arrays[name] = self._native.array_stamp(self._name, name), added
        return added

    def delete_array(self, array: Array) -> None:
        """Delete an array of this item, in one step.

        Raises:
            InvalidError: (a TypeError) what is no `Array`, or one of another item.
            NotFoundError: (a TypeError) it is not there any more.
            ReadOnlyError: (a RuntimeError) the data set was opened to read.
        """
        if not isinstance(array, Array) or array._home is None:
            raise errors.InvalidError(f"an array of this item is expected, found {type(array).__name__}: give item[name]")
        folder, name = os.path.split(array._home)
        if folder != self._path:
            raise errors.InvalidError(f"the array {name!r} is in {folder}, not in {self._path}")
        self._native.delete_array(self._name, name)
        self._arrays.pop(name, None)


def _reopened(cls: type[Item], dataset: DataSet, name: str) -> Item:
    return cls._of(dataset, name)


def _samplerate(
    samplerate: float | str | None, fileformat: str, metadata: dict[str, Any] | None
) -> tuple[int | None, dict[str, Any] | None]:
    """The rate as a file has it, and the metadata with it."""
    if samplerate is None:
        if fileformat in _AUDIO:
            raise errors.InvalidError(f"a {fileformat} file needs a samplerate: give it, in Hz")
        return None, metadata
    if fileformat not in _AUDIO:
        if fileformat in ("npy", "mat"):
            warnings.warn(f"{fileformat} files have no samplerate: put it in the metadata", UserWarning, stacklevel=3)
        return None, metadata
    rate = _whole(samplerate)
    if rate is None or not 0 < rate < 2**31 or isinstance(samplerate, bool):
        raise errors.InvalidError(f"the samplerate {samplerate!r} is no whole number of Hz above 0 and below 2**31: files hold no other")
    if isinstance(samplerate, (float, np.floating)) and rate != samplerate:
        what = f"{fileformat} files hold whole numbers of Hz: of the samplerate {samplerate!r} the file has {rate}"
        warnings.warn(f"{what}; resample, or put the exact rate into metadata of another name", UserWarning, stacklevel=3)
    return rate, {**(metadata or {}), "samplerate": samplerate}


def _whole(samplerate: Any) -> int | None:
    """The rate that a file has for what is given: texts of whole numbers are taken, and what is behind the point is left out."""
    try:
        return operator.index(samplerate)
    except TypeError:
        pass
    if not isinstance(samplerate, (str, float, np.floating)):
        return None
    try:
        return int(samplerate)
    except (ValueError, OverflowError):
        return None


def _is_numpys(path: str) -> bool:
    """Whether a file is an npy file that only NumPy reads: a structured array, no pickle."""
    try:
        np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:
        return False
    return True
