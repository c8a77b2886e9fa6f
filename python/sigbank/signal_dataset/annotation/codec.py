"""Annotations and their bytes: an annotation is stored as a record of its source's id."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..errors import CorruptDatasetError
from ..policy import StorageOptions
from ..record.codec import RecordCodec, decode, encode
from ..record.model import AnnotationRecord, AnnotationStatus, Axis, Field, Record

_EMPTY = "__empty__"


class SafeTensorsAnnotationCodec(RecordCodec[AnnotationRecord]):
    """Annotations and the SafeTensors payloads that hold them.

    >>> codec = SafeTensorsAnnotationCodec()
    >>> codec.decode(codec.encode(AnnotationRecord("r", 3, AnnotationStatus.SUCCESS, {"label": "bird"}))).values["label"]
    'bird'
    """

    def __init__(self, *, options: StorageOptions | None = None) -> None:
        self.options = options or StorageOptions()

    def encode(self, value: AnnotationRecord) -> bytes:
        """The bytes of an annotation; ValidationError for one that breaks a rule."""
        said = {
            "source_index": value.source_index,
            "status": AnnotationStatus(value.status).value,
            "values": value.values,
            "provenance": value.provenance,
            "detail_status": value.detail_status,
            "empty_fields": not value.fields,
        }
        fields = value.fields or {_EMPTY: Field(np.empty(0, np.uint8), (Axis("empty", 0),))}
        record = Record(value.source_record_id, fields, metadata={"annotation": said})
        return encode(record, policy=self.options.resources)

    def decode(self, payload: bytes) -> AnnotationRecord:
        """The annotation of some bytes.

        Raises:
            CorruptDatasetError: (a ValueError) they hold a record that is no annotation.
            ValidationError: (a ValueError) they hold no record.
        """
        record = decode(payload, policy=self.options.resources)
        said = record.metadata.get("annotation")
        try:
            if not isinstance(said, Mapping):
                raise TypeError("its metadata hold no object 'annotation'")
            return AnnotationRecord(
                record.id,
                said["source_index"],
                AnnotationStatus(said["status"]),
                said["values"],
                {} if said["empty_fields"] else record.fields,
                said["provenance"],
                said["detail_status"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptDatasetError(f"record {record.id!r} is no annotation: {error}") from error
