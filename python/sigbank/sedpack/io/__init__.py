"""Reading and writing datasets in the Sedpack layout."""

from __future__ import annotations

from .dataset import Dataset
from .dataset_filler import DatasetFiller, DatasetFillerContext
from .metadata import Attribute, DatasetStructure, Metadata

__all__ = ["Attribute", "Dataset", "DatasetFiller", "DatasetFillerContext", "DatasetStructure", "Metadata"]
