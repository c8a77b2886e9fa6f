"""The errors of `sigbank.jbof`: those of `sigbank.errors`, each of which is also what the `jbof` package raises in its place."""

from __future__ import annotations

import zipfile

from .. import errors


class NotFoundError(errors.NotFoundError, TypeError):
    """There is no such data set, item or array."""


class WrongFileError(errors.CorruptError, OSError, zipfile.BadZipFile):
    """A file is of another kind than it was opened as, or damaged."""


class MissingArrayError(errors.SigbankError, TypeError, AttributeError):
    """An item has no such array. An `AttributeError` too, so that `hasattr` says so."""

    code = "not_found"


class AlreadyExistsError(errors.AlreadyExistsError, TypeError):
    """The name is taken."""


class InvalidError(errors.InvalidError, TypeError):
    """A name, metadata or an array that cannot be stored."""


class ReadOnlyError(errors.ReadOnlyError, RuntimeError):
    """The data set was opened to read only."""


class UnknownFormatError(errors.UnsupportedError, NotImplementedError):
    """A kind of file that is no array."""


class CorruptError(errors.CorruptError):
    """The stored bytes are damaged or of another format."""


class UnsupportedError(errors.UnsupportedError):
    """A dtype, or a variant of a format, that is not handled."""


class ConflictError(errors.ConflictError):
    """Another writer holds the item for too long."""


class StorageError(errors.StorageError):
    """The disk failed, or is full."""


class LimitError(errors.LimitError):
    """A size is over a limit that protects memory."""
