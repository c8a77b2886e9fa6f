"""Records and their bytes: one SafeTensors payload for each, with a descriptor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar, cast

from sigbank import _native

from ..policy import ControlPolicy, ResourcePolicy
from .model import Record, RecordMetadata

T = TypeVar("T")


def encode(record: Record, *, policy: ResourcePolicy | None = None) -> bytes:
    """The bytes of a record; the same record gives the same bytes.

    Raises:
        ValidationError: (a ValueError) it breaks a rule or exceeds a limit of `policy`.
    """
    return _native.signal_encode(record, policy)


def decode(data: bytes, *, policy: ResourcePolicy | None = None) -> Record:
    """The record of some bytes. Its arrays are read-only views of `data`.

    Raises:
        ValidationError: (a ValueError) they are damaged, no record, break a rule or exceed a limit of `policy`.
    """
    return cast(Record, _native.signal_decode(data, policy))


def validate(record: Record, *, policy: ResourcePolicy | None = None) -> None:
    """Check a record against every rule of the format, and the limits of `policy`.

    Raises:
        ValidationError: (a ValueError) with the record, the field and the axis.
    """
    _native.signal_validate(record, policy)


class RecordCodec(ABC, Generic[T]):
    """Values of one kind and their bytes."""

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """The bytes of a value."""

    @abstractmethod
    def decode(self, payload: bytes) -> T:
        """The value of some bytes."""


class SafeTensorsRecordCodec(RecordCodec[Record]):
    """`encode` and `decode` with one policy."""

    def __init__(self, *, policy: ResourcePolicy | None = None) -> None:
        self.policy = policy

    def encode(self, value: Record) -> bytes:
        """The bytes of a record."""
        return encode(value, policy=self.policy)

    def decode(self, payload: bytes) -> Record:
        """The record of some bytes."""
        return decode(payload, policy=self.policy)


class RecordMetadataCodec(RecordCodec[RecordMetadata]):
    """What is said of a record, and the JSON document that holds it in a metadata shard."""

    def __init__(self, *, control: ControlPolicy | None = None, resources: ResourcePolicy | None = None) -> None:
        self.control = control
        self.resources = resources

    def encode(self, value: RecordMetadata) -> bytes:
        """The document of a record; ValidationError for one that breaks a rule."""
        return _native.signal_encode_metadata(value, self.resources)

    def decode(self, payload: bytes) -> RecordMetadata:
        """What a document says; ValidationError for one that breaks a rule."""
        return cast(RecordMetadata, _native.signal_decode_metadata(payload, self.resources, self.control))
