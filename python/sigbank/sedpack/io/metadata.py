"""What a dataset says of itself: the content of `dataset_info.json`."""

from __future__ import annotations

from typing import Any

from ._model import Model, ValidationError
from .shard_file_metadata import ShardListInfo
from .types import CompressionT, HashChecksumT, ShardFileTypeT, SplitT


class Metadata(Model):
    """What the dataset is about. `custom_metadata` takes anything that JSON can hold.

    `sedpack_version` is the oldest version of the layout whose readers understand the dataset.

    >>> Metadata(description="Two traces").dataset_version
    '1.0.0'
    """

    description: str = ""
    dataset_license: str = "https://creativecommons.org/licenses/by/4.0/"
    dataset_version: str = "1.0.0"
    download_from: str = ""
    custom_metadata: dict[str, Any] = {}
    sedpack_version: str = "0.1.0"


class Attribute(Model):
    """One attribute that every example has.

    `dtype` is the name of a NumPy dtype of fixed size, or `int`, `str` or `bytes` for those Python types; `shape` holds
    positive integers, and is `()` for a scalar. `bytes` with the shape `(N,)` is always N bytes long.

    >>> Attribute(name="trace", dtype="float32", shape=[80_000]).shape
    (80000,)
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    custom_metadata: dict[str, Any] = {}

    def _check(self, where: str) -> None:
        for axis, length in enumerate(self.shape):
            if length <= 0:
                raise ValidationError(f"{where}.shape[{axis}]: expected a positive number of elements, found {length}")

    def has_variable_size(self) -> bool:
        """Whether examples may differ in the size of this attribute: `str` and `bytes` of the shape `()`."""
        return self.dtype in ("str", "bytes") and self.shape == ()


class DatasetStructure(Model):
    """How examples are laid out: their attributes in order, the shard files, and the checksums kept of every file.

    >>> DatasetStructure(compression="ZSTD").examples_per_shard
    256
    """

    saved_data_description: list[Attribute] = []
    compression: CompressionT = "GZIP"
    examples_per_shard: int = 256
    shard_file_type: ShardFileTypeT = "fb"
    hash_checksum_algorithms: tuple[HashChecksumT, ...] = ("sha256",)

    def _check(self, where: str) -> None:
        if self.examples_per_shard <= 0:
            raise ValidationError(
                f"{where}.examples_per_shard: expected a positive number of examples, found {self.examples_per_shard}"
            )

    def attribute_by_name(self, attribute_name: str) -> Attribute:
        """The attribute of that name; ValueError when there is none."""
        for attribute in self.saved_data_description:
            if attribute.name == attribute_name:
                return attribute
        names = ", ".join(repr(attribute.name) for attribute in self.saved_data_description) or "none"
        raise ValueError(f"there is no attribute {attribute_name!r}; the attributes are: {names}")


class DatasetInfo(Model):
    """All of `dataset_info.json`. A split that has no shards yet is not in `splits`.

    >>> DatasetInfo().splits
    {}
    """

    metadata: Metadata = Metadata()
    dataset_structure: DatasetStructure = DatasetStructure()
    splits: dict[SplitT, ShardListInfo] = {}
