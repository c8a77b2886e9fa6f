"""What the tests of `sigbank.jbof` share: the reference package, and what a folder holds."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sigbank import jbof as ours

reference: Any = None
if importlib.util.find_spec("jbof") is not None:
    import jbof as reference  # type: ignore[no-redef,import-not-found]

needs_reference = pytest.mark.skipif(reference is None, reason="the reference package jbof is not installed")

MODULES = [pytest.param(ours, id="ours"), pytest.param(reference, id="reference", marks=needs_reference)]
"""Behaviour that programs rely on: tests with these run on the reference package too, which is the referee."""

BOTH_WAYS = [
    pytest.param(ours, reference, id="ours-to-reference", marks=needs_reference),
    pytest.param(reference, ours, id="reference-to-ours", marks=needs_reference),
    pytest.param(ours, ours, id="ours-to-ours"),
]
"""The writer and the reader."""

AUDIO = ["wav", "flac", "ogg"]


def contents(folder: Path) -> dict[str, bytes]:
    """The data set's files, without what lies where readers do not look."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def same(found: Any, expected: Any) -> None:
    """Whether an array is another, dtype, shape and every bit of its values included."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if found.dtype.names is None:
        assert found.tobytes() == expected.tobytes()
    else:
        assert all(np.array_equal(found[name], expected[name]) for name in expected.dtype.names)


def names(items: Any) -> list[str]:
    return sorted(item.name for item in items)
