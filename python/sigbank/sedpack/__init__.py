"""Datasets in the Sedpack layout, with the interface of the `sedpack` package: change the import and a program runs.

>>> import sigbank.sedpack.io as sedpack_io
>>> attribute = sedpack_io.Attribute(name="trace", dtype="float32", shape=(100,))
>>> sedpack_io.DatasetStructure(saved_data_description=[attribute], compression="ZSTD").examples_per_shard
256
"""

from __future__ import annotations

from . import io
from .io import Attribute, Dataset, DatasetFiller, DatasetFillerContext, DatasetStructure, Metadata
from .io.errors import DatasetExistsError
from .io.file_info import FileInfo
from .io.metadata import DatasetInfo
from .io.shard_file_metadata import ShardInfo, ShardListInfo, ShardsList
from .io.shard_info_iterator import CachedShardInfoIterator, ShardInfoIterator
from .io.shard_info_iterator.balanced_iterator import BalancedShardInfoIterator
from .io.types import (
    HOLDOUT_SPLIT,
    TEST_SPLIT,
    TRAIN_SPLIT,
    BatchT,
    CompressionT,
    ExampleT,
    HashChecksumT,
    ShardFileTypeT,
    SplitT,
)

__version__ = "0.2.0"
"""The version of the `sedpack` package whose interface this is, and the newest `sedpack_version` that can be read."""

__all__ = [
    "HOLDOUT_SPLIT",
    "TEST_SPLIT",
    "TRAIN_SPLIT",
    "Attribute",
    "BalancedShardInfoIterator",
    "BatchT",
    "CachedShardInfoIterator",
    "CompressionT",
    "Dataset",
    "DatasetExistsError",
    "DatasetFiller",
    "DatasetFillerContext",
    "DatasetInfo",
    "DatasetStructure",
    "ExampleT",
    "FileInfo",
    "HashChecksumT",
    "Metadata",
    "ShardFileTypeT",
    "ShardInfo",
    "ShardInfoIterator",
    "ShardListInfo",
    "ShardsList",
    "SplitT",
    "io",
]
