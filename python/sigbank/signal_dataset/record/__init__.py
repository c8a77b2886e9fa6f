"""Records, and their bytes."""

from __future__ import annotations

from .codec import RecordCodec, RecordMetadataCodec, SafeTensorsRecordCodec, decode, encode, validate
from .model import Axis, Coordinate, Field, FieldMetadata, Record, RecordMetadata

__all__ = [
    "Axis",
    "Coordinate",
    "Field",
    "FieldMetadata",
    "Record",
    "RecordCodec",
    "RecordMetadata",
    "RecordMetadataCodec",
    "SafeTensorsRecordCodec",
    "decode",
    "encode",
    "validate",
]
