"""Annotations: what was found out about a dataset's records later."""

from __future__ import annotations

from ..policy import AnnotationOptions
from ..record.model import AnnotationRecord, AnnotationStatus
from .codec import SafeTensorsAnnotationCodec

__all__ = ["AnnotationOptions", "AnnotationRecord", "AnnotationStatus", "SafeTensorsAnnotationCodec"]
