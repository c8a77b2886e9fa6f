"""Arrays of items."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _documents, errors

if TYPE_CHECKING:
    from .. import _native


class Array(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array with `metadata`, and `_filename`, the name of its file.

    It is writable, and the file never changes: large npy files are mapped, each page being copied when it is written to; the rest
    is read. A file that is too short when it is mapped is an error; one that another program cuts *afterwards*, in place, ends the
    process (SIGBUS) when pages are touched that are gone. `sigbank` itself never cuts a file: who deletes and adds leaves a mapped
    one as it is. Where others might, take a copy at once: `array.copy()`.
    What is computed from it (slices, sums) has its metadata too. It is pickled by value, metadata included.

    `Array(metafile)` reads the array whose JSON document this is.
    """

    metadata: dict[str, Any]
    _filename: str | None = None
    _home: str | None = None
    """The item's folder and the array's name, for deleting it."""

    def __new__(cls, metafile: str | os.PathLike[str]) -> Array:
        """The array whose JSON document this is."""
        from .dataset import DataSet

        path = Path(os.path.abspath(metafile))
        return DataSet(path.parent.parent)[path.parent.name][path.stem]

    def __array_finalize__(self, source: Any) -> None:
        """NumPy made this array from another, or anew."""
        if source is None:
            self.metadata = {}  # It is being made, and gets its own then.
            return
        self.metadata = getattr(source, "metadata", None)  # type: ignore[assignment]
        self._filename = getattr(source, "_filename", None)
        self._home = getattr(source, "_home", None)

    def __reduce__(self) -> tuple[Any, ...]:
        """By value: a slice, or what was written to, is what it is."""
        reduced = super().__reduce__()
        assert isinstance(reduced, tuple)
        make, arguments, state = reduced
        return make, arguments, (state, self.metadata, self._filename, self._home)

    def __setstate__(self, state: Any) -> None:
        """What `__reduce__` gave."""
        values, self.metadata, self._filename, self._home = state
        super().__setstate__(values)


def read(dataset: _native.JbofDataset, item: str, name: str) -> Array:
    """The array of an item."""
    return made(name, dataset.array(item, name))


def made(name: str, found: _native._JbofArray) -> Array:
    """The array of what the core read."""
    where, document, filename, elements, kept, samplerate = found
    metadata = _documents.parse_object(document, where)
    metadata.pop("_filename", None)
    metadata.pop("_sigbank", None)
    if samplerate is not None:
        # Of audio the file decides, whatever its document says; `sigbank check` tells where they differ.
        metadata["samplerate"] = samplerate
    if elements is None:
        array = _by_numpy(where)
    else:
        memory, start, dtype, shape, fortran = elements
        array = np.ndarray.__new__(Array, shape, dtype, memory, start, None, "F" if fortran else "C")
    if kept is not None:
        array = _restored(array, *kept, where)
    array.metadata = metadata
    array._filename = filename
    array._home = where[: where.rindex("/") + 1] + name
    return array


def of(folder: str, name: str, elements: np.ndarray[Any, Any], document: bytes) -> Array:
    """The array of an npy file of these elements, which it takes over, and of this document."""
    array = elements.view(Array)
    array.metadata = _documents.parse_object(document, folder)
    array._filename = array.metadata.pop("_filename")
    array._home = os.path.join(folder, name)
    return array


def _by_numpy(where: str) -> Array:
    """A structured array, which NumPy reads itself."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.load(where, allow_pickle=False).view(Array)  # type: ignore[no-any-return]
    except ValueError as error:
        refused = errors.UnsupportedError if "allow_pickle" in str(error) else errors.CorruptError
        raise refused(f"{where}: {error}") from error


def _restored(array: Array, shape: list[int], dtype: str | None, where: str) -> Array:
    """The shape and dtype that the file's format could not hold."""
    try:
        shaped = array.reshape(shape)
    except ValueError as error:
        raise errors.CorruptError(
            f"{where}: its document says that the shape is {tuple(shape)}, but the file has {array.shape}: restore the file"
        ) from error
    return shaped if dtype is None else shaped.astype(dtype)  # type: ignore[return-value]


def to_store(data: Any, fileformat: str) -> tuple[np.ndarray[Any, Any], bytes | None]:
    """An array as the core takes it, C-contiguous; and, for npy, the header where it is not what the core writes.

    Raises:
        InvalidError: (a TypeError and ValueError) what is no array, or a masked one.
        UnsupportedError: (a ValueError) objects, which would be pickled, and dtypes that an npy file cannot name.
    """
    if isinstance(data, np.ma.MaskedArray):
        raise errors.InvalidError("a masked array would lose its mask: store `data` and `mask` as two arrays, or fill it")
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise errors.InvalidError(f"this is no array: {error}") from error
    dtype = array.dtype
    if dtype.hasobject:
        raise errors.UnsupportedError("an array of Python objects is given, which only a pickle could hold: store numbers or text")
    plain = dtype.names is None and dtype.subdtype is None
    if plain and np.dtype(dtype.str) != dtype:
        raise errors.UnsupportedError(f"the dtype {dtype} would come back as {np.dtype(dtype.str)}: store a view as integers")
    if fileformat == "npy":
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        if not plain or fortran:
            return _with_header(array, fortran)
    return (array if array.flags.c_contiguous else np.array(array, order="C")), None


def _with_header(array: np.ndarray[Any, Any], fortran: bool) -> tuple[np.ndarray[Any, Any], bytes]:
    """NumPy's own header of an npy file, and the bytes that follow it."""
    import io

    file = io.BytesIO()
    described = np.lib.format.header_data_from_array_1_0(array)
    writers = (np.lib.format.write_array_header_1_0, np.lib.format.write_array_header_2_0)
    for write in writers:
        try:
            write(file, described)
            break
        except ValueError:
            file.seek(0)
            file.truncate()
    else:
        raise errors.UnsupportedError(f"the dtype {array.dtype} has names that an npy header of version 2.0 cannot hold: rename them")
    return (array.T if fortran else np.array(array, order="C", copy=None)), file.getvalue()
