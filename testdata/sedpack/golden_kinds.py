"""One attribute of every kind of dtype, and its value in each example; shared by the generator and the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# name -> (dtype, shape, the value of example i)
KINDS: dict[str, tuple[str, tuple[int, ...], Callable[[int], Any]]] = {
    "bool": ("bool", (3,), lambda i: np.array([i % 2 == 0, True, False])),
    "int8": ("int8", (2, 2), lambda i: np.array([[i, -i], [127, -128]], "i1")),
    "uint8": ("uint8", (), lambda i: np.uint8(200 + i)),
    "int16": ("int16", (2,), lambda i: np.array([i - 300, 32767], "i2")),
    "uint16": ("uint16", (2,), lambda i: np.array([i, 65535], "u2")),
    "int32": ("int32", (1, 2), lambda i: np.array([[i - 70_000, 2**31 - 1]], "i4")),
    "uint32": ("uint32", (2,), lambda i: np.array([i, 2**32 - 1], "u4")),
    "int64": ("int64", (), lambda i: np.int64(i - 2**40)),
    "uint64": ("uint64", (2,), lambda i: np.array([i, 2**64 - 1], "u8")),
    "float16": ("float16", (3,), lambda i: np.array([i + 0.5, -0.0, np.inf], "f2")),
    "float32": ("float32", (2, 3), lambda i: np.linspace(-i, i + 1, 6, dtype="f4").reshape(2, 3)),
    "float64": ("float64", (2,), lambda i: np.array([i / 3, np.nan])),
    "complex64": ("complex64", (2,), lambda i: np.array([i + 2j, -1j], "c8")),
    "complex128": ("complex128", (), lambda i: np.complex128(i / 7 - 3j)),
    "big_endian": (">f4", (2,), lambda i: np.array([i, 1.25], ">f4")),
    "short_name": ("<i2", (2,), lambda i: np.array([i, -2], "i2")),
    "fixed_bytes": ("S5", (2,), lambda i: np.array([b"ab%d" % i, b""], "S5")),
    "fixed_text": ("U5", (2,), lambda i: np.array([f"é{i}", "日本語語語"], "U5")),
    "moment": ("datetime64[ns]", (2,), lambda i: np.array([i, -i], "M8[ns]")),
    "span": ("timedelta64[s]", (), lambda i: np.timedelta64(i, "s")),
    "number": ("int", (), lambda i: (-1) ** i * (2**62 + i)),
    "text": ("str", (), lambda i: "é\0日本" * i + "end\0" if i else ""),
    "blob": ("bytes", (), lambda i: b"\0\xff" * (i + 1) + b"\0"),
    "fixed_blob": ("bytes", (4,), lambda i: np.array([i, 0, 255, 0], "u1")),
}
