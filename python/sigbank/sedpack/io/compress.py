"""The compressions of whole shard files."""

from __future__ import annotations

import typing

from sigbank import _native

from .types import CompressionT


class CompressedFile:
    """Compresses and decompresses a whole file in memory, by the name that a dataset gives the compression.

    ValueError for a name that compresses no whole file (ZIP belongs to the npz container) or is unknown.
    """

    def __init__(self, compression_type: CompressionT) -> None:
        if compression_type not in self.supported_compressions():
            names = ", ".join(map(repr, self.supported_compressions()))
            raise ValueError(f"expected one of {names} to compress a whole file with, found {compression_type!r}")
        self.compression_type = compression_type

    @staticmethod
    def supported_compressions() -> list[CompressionT]:
        """The compressions that work on whole files."""
        return [name for name in typing.get_args(CompressionT) if name != "ZIP"]

    def compress(self, data: bytes) -> bytes:
        """`data` compressed, as one member or frame."""
        packed: bytes = _native.compress(self.compression_type, data)
        return packed

    def decompress(self, data: bytes) -> bytes:
        """What `compress` was given; ValueError when `data` is cut short, altered or in another format."""
        whole: bytes = _native.decompress(self.compression_type, data)
        return whole
