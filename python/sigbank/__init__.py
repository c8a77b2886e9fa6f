"""Datasets of signals: one way to open, verify and train from them, whatever their layout.

>>> import sigbank
>>> dataset = sigbank.open("recordings")  # doctest: +SKIP
>>> for batch in dataset.batches("train", 64, shuffle=True, seed=1):  # doctest: +SKIP
...     batch["signal"].shape
(64, 16384)
"""

from __future__ import annotations

from . import errors
from ._native import Dataset, Field, __version__, open
from .errors import SigbankError

__all__ = ["Dataset", "Field", "SigbankError", "__version__", "errors", "open"]
