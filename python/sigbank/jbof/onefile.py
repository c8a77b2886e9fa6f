"""Data sets in one file: HDF5 and zip, read-only."""

from __future__ import annotations

import os
from typing import Any

from .._native import JbofDataset
from . import errors
from ._names import is_address, local
from .dataset import DataSet


class _OneFile(DataSet):
    """A data set in one file, with all that a `DataSet` can be asked. It is read-only: `hdf_to_dataset` makes a folder of it."""

    _hdf: bool

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        """Opens it."""
        try:
            if is_address(filename):
                native = JbofDataset.open_address(os.fspath(filename))
            else:
                native = JbofDataset.open_file(os.path.abspath(filename), self._hdf)
        except (errors.CorruptError, errors.InvalidError) as error:
            raise errors.WrongFileError(str(error)) from error
        self._set(native, False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by what opens it again."""
        return type(self), (self._native.path,)

    def __repr__(self) -> str:
        """Where it is."""
        return f"{type(self).__name__}({self._native.path!r})"


class HDFDataSet(_OneFile):
    """A data set in an HDF5 file, as `dataset_to_hdf` or the `jbof` package writes it.

    Items are groups, arrays are HDF5's data sets, metadata are attributes. Arrays are read when they are asked for, each alone.

    Raises:
        NotFoundError: (a FileNotFoundError and TypeError) there is no such file.
        WrongFileError: (an OSError and ValueError) it is no HDF5 file, or a damaged one.
    """

    _hdf = True


class ZIPDataSet(_OneFile):
    """A data set in a zip archive of its folder; one or more single folders around it are looked through. It is not unpacked.

    Raises:
        NotFoundError: (a FileNotFoundError and TypeError) there is no such file, or no data set in it.
        WrongFileError: (an OSError, zipfile.BadZipFile and ValueError) it is no archive, or a damaged one.
    """

    _hdf = False


def _is_data_set(dataset: object) -> DataSet:
    if isinstance(dataset, DataSet):
        return dataset
    raise errors.InvalidError(f"a DataSet is expected, found {type(dataset).__name__}: open it first")


def dataset_to_hdf(dataset: DataSet, hdffilename: str | os.PathLike[str]) -> None:
    """Write a data set to an HDF5 file, in place of what has its name: whole, or not at all.

    Audio is float64 there; `_filename` says what it was. What attributes cannot hold (None, nested values, `_itemformat`) stands in one of them,
    `_sigbank`, as JSON.

    Raises:
        UnsupportedError: (a ValueError) an array that HDF5 cannot hold: a structured one, or one whose elements have no bytes.
        InvalidError: (a TypeError) metadata that are no dict.
        NotFoundError: (a TypeError) there is no folder to write the file to.
    """
    _is_data_set(dataset)._native.to_hdf(local(hdffilename, "HDF5 files are written"))


def hdf_to_dataset(hdfdataset: DataSet, directory: str | os.PathLike[str]) -> None:
    """Make a folder of a data set in one file. It is visible as a whole.

    From HDF5, arrays become files of the format that they were exported from, where it holds them exactly (else wav of floats, or npy): values, shapes
    and dtypes do not change. The files of a `ZIPDataSet` are copied.

    Raises:
        AlreadyExistsError: (a TypeError) something is at `directory`.
    """
    _is_data_set(hdfdataset)._native.to_folder(local(directory, "data sets are created"))
