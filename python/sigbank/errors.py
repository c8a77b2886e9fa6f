"""The errors of sigbank. Each is a built-in error too, so that code which knows only those goes on working."""

from __future__ import annotations


class SigbankError(Exception):
    """Whatever went wrong in sigbank; the message names the object, what was expected, what was found, what to do."""

    code: str = ""


class NotFoundError(SigbankError, FileNotFoundError):
    """There is no such object: correct the name, or make it first."""

    code = "not_found"


class AlreadyExistsError(SigbankError, FileExistsError):
    """The name is taken and was not replaced."""

    code = "already_exists"


class CorruptError(SigbankError, ValueError):
    """The stored bytes are damaged or of another format."""

    code = "corrupt"


class UnsupportedError(SigbankError, ValueError):
    """The data or the request are of a kind that is not handled."""

    code = "unsupported"


class InvalidError(SigbankError, ValueError):
    """A value does not fit: correct the call."""

    code = "invalid"


class ConflictError(SigbankError, RuntimeError):
    """Another writer was first, or still is: read again and retry."""

    code = "conflict"


class ReadOnlyError(SigbankError, PermissionError):
    """Writing is not permitted here."""

    code = "read_only"


class StorageError(SigbankError, OSError):
    """The storage failed: disk, network, space."""

    code = "storage"


class LimitError(SigbankError, ValueError):
    """A size is over a limit that protects memory."""

    code = "limit"
