"""Datasets in the signal-dataset layout, with the interface of the `signal_dataset` package: change the import and a program runs.

>>> import sigbank.signal_dataset as signal_dataset
>>> axis = signal_dataset.Axis("time", 3, coordinate=signal_dataset.Coordinate(start=0, step=1e-6, unit="s"))
>>> record = signal_dataset.Record("a", {"x": signal_dataset.Field([1.0, 2.0, 3.0], (axis,))})
>>> signal_dataset.decode(signal_dataset.encode(record))["x"].data
array([1., 2., 3.])
"""

from __future__ import annotations

from . import annotation, dataset, record, storage, versions
from .annotation import AnnotationCatalog, AnnotationSet, PublishedAnnotationShard, publish_annotations
from .dataset import Dataset, DatasetView, open, publish, write_shard
from .dataset.instructions import ReadInstruction
from .errors import CorruptDatasetError, PublicationCollisionError, SignalDatasetError, StorageError, ValidationError
from .garbage import gc
from .policy import AnnotationOptions, ControlPolicy, PublicationOptions, ResourcePolicy, RetryPolicy, StorageOptions
from .record import Axis, Coordinate, Field, FieldMetadata, Record, RecordMetadata, decode, encode, validate
from .record.model import AnnotationRecord, AnnotationStatus, PublishedShard

__version__ = "0.4.0"
"""The version of the `signal-dataset` package whose interface this is."""


def resolve_version() -> str:
    """`__version__`, as a call.

    >>> resolve_version()
    '0.4.0'
    """
    return __version__


__all__ = [
    "AnnotationCatalog",
    "AnnotationOptions",
    "AnnotationRecord",
    "AnnotationSet",
    "AnnotationStatus",
    "Axis",
    "ControlPolicy",
    "Coordinate",
    "CorruptDatasetError",
    "Dataset",
    "DatasetView",
    "Field",
    "FieldMetadata",
    "PublicationCollisionError",
    "PublicationOptions",
    "PublishedAnnotationShard",
    "PublishedShard",
    "ReadInstruction",
    "Record",
    "RecordMetadata",
    "ResourcePolicy",
    "RetryPolicy",
    "SignalDatasetError",
    "StorageError",
    "StorageOptions",
    "ValidationError",
    "annotation",
    "dataset",
    "decode",
    "encode",
    "gc",
    "open",
    "publish",
    "publish_annotations",
    "record",
    "resolve_version",
    "storage",
    "validate",
    "versions",
    "write_shard",
]
