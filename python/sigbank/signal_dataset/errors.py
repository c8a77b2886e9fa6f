"""The errors of the signal-dataset interface. Each is a built-in error too."""

from __future__ import annotations

from sigbank.errors import SigbankError


class SignalDatasetError(SigbankError):
    """Whatever went wrong with a signal dataset."""


class ValidationError(SignalDatasetError, ValueError):
    """A record breaks a rule of the format, or exceeds a limit; the message names record, field and axis."""

    code = "invalid"


class CorruptDatasetError(SignalDatasetError, ValueError):
    """What is stored is damaged, of another format, or does not add up."""

    code = "corrupt"


class PublicationCollisionError(SignalDatasetError, FileExistsError):
    """Something else stands where this was to be published; it is left as it is."""

    code = "already_exists"


class StorageError(SignalDatasetError, OSError):
    """The storage failed: disk, network, space.

    A store of a program's own may say with `retryable = False` that trying again does not help.
    """

    code = "storage"
    retryable: bool = True


class CorruptRecordError(CorruptDatasetError, ValidationError):
    """A stored record is damaged."""

    code = "corrupt"


class WorkIdReusedError(PublicationCollisionError, CorruptDatasetError):
    """A work id and attempt were used before, for other records."""

    code = "already_exists"


class MissingObjectError(CorruptDatasetError, FileNotFoundError):
    """An object that the dataset names is gone."""

    code = "not_found"


class ReadOnlyError(StorageError, PermissionError):
    """Writing is not permitted here."""

    code = "read_only"
