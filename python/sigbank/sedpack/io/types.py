"""The types of the Sedpack interface, and the names of the splits."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

SplitT: TypeAlias = Literal["train", "test", "holdout"]
"""A split of a dataset."""

TRAIN_SPLIT: Final = "train"
TEST_SPLIT: Final = "test"
HOLDOUT_SPLIT: Final = "holdout"

CompressionT: TypeAlias = Literal["", "BZ2", "GZIP", "LZMA", "LZ4", "ZIP", "ZLIB", "ZSTD"]
"""How shard files are compressed; `""` is not at all. Which ones a shard file type takes differs."""

ShardFileTypeT: TypeAlias = Literal["fb", "npz", "tfrec"]
"""The container that holds a shard's examples, and the suffix of its file."""

HashChecksumT: TypeAlias = Literal[
    "md5",
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "sha3_224",
    "sha3_256",
    "sha3_384",
    "sha3_512",
    "xxh32",
    "xxh64",
    "xxh128",
]
"""A checksum that files are recorded with."""

AttributeValueT: TypeAlias = str | int | bytes | npt.NDArray[np.generic]
"""The value of one attribute of one example."""

ExampleT: TypeAlias = dict[str, AttributeValueT]
"""One example: attribute name to value. Arrays have the declared shape; a scalar is a 0-d array."""

BatchedAttributeValueT: TypeAlias = list[str] | list[int] | list[bytes] | npt.NDArray[np.generic]
"""The values of one attribute over a batch: arrays are stacked on a new first axis, the others are lists."""

BatchT: TypeAlias = dict[str, BatchedAttributeValueT]
"""A batch of examples: attribute name to values. The last batch of a dataset may be short."""

TFDatasetT: TypeAlias = Any
"""A `tensorflow.data.Dataset`, without asking for TensorFlow."""

TFModelT: TypeAlias = Any
"""A `tensorflow.keras.Model`, without asking for TensorFlow."""
