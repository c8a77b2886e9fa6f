"""Datasets for TensorFlow, which is imported when the first one is made."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .metadata import Attribute

# Examples that pass to TensorFlow in one call where they are handed out one by one or go through a callback.
CHUNK = 256

_PLAIN = {"int": "int64", "str": "string", "bytes": "string"}


def tensorflow() -> Any:
    """The module `tensorflow`; ImportError says how to install it."""
    try:
        return importlib.import_module("tensorflow")
    except ImportError as error:
        raise ImportError(
            "TensorFlow is not installed, and as_tfdataset needs it: pip install 'sigbank[tf]', or use as_numpy_iterator_rust_batched"
        ) from error


def signature(attributes: Sequence[Attribute]) -> dict[str, Any]:
    """What TensorFlow is told of a batch: for each attribute its dtype, and its shape behind an axis of any length.

    An `int` is an int64, `str` (in UTF-8) and `bytes` are strings, as NumPy's `S5` and `U5` are; other dtypes are their own.

    Raises:
        ValueError: TensorFlow has no such dtype; the attribute is named.
    """
    tf = tensorflow()
    specs = {}
    for attribute in attributes:
        try:
            plain = _PLAIN.get(attribute.dtype) or ("string" if np.dtype(attribute.dtype).kind in "SU" else None)
            dtype = tf.as_dtype(plain or np.dtype(attribute.dtype))
        except TypeError as error:
            raise ValueError(
                f"attribute {attribute.name!r}: TensorFlow has no dtype for {attribute.dtype}; "
                "convert it in process_batch of as_numpy_iterator_rust_batched"
            ) from error
        shape = () if attribute.dtype == "bytes" else attribute.shape
        specs[attribute.name] = tf.TensorSpec(shape=(None, *shape), dtype=dtype)
    return specs


def examples(attributes: Sequence[Attribute], batches: Callable[[], Iterator[Any]]) -> Any:
    """A `tf.data.Dataset` of single examples from a callable that begins to give batches of arrays."""
    return _from(attributes, batches).unbatch()


def dataset(
    attributes: Sequence[Attribute],
    begin: Callable[[int], Iterator[Any]],
    process_record: Callable[[Any], Any] | None,
    batch_size: int,
    prefetch: int,
    parallelism: int | None,
) -> Any:
    """A `tf.data.Dataset` of batches, or of examples where `batch_size` is 0 or less.

    Args:
        attributes: what an example is made of.
        begin: begins to give batches of that many examples, anew for each iteration.
        process_record: traced by TensorFlow, and applied to each example before it is batched.
        prefetch: how many batches TensorFlow holds ready.
        parallelism: how many calls of `process_record` run at once; None for one.
    """
    if process_record is None and batch_size > 0:
        made = _from(attributes, lambda: begin(batch_size))
    else:
        made = examples(attributes, lambda: begin(CHUNK))
        if process_record is not None:
            made = made.map(process_record, num_parallel_calls=parallelism)
        if batch_size > 0:
            made = made.batch(batch_size)
    return made.prefetch(prefetch) if prefetch else made


def _from(attributes: Sequence[Attribute], batches: Callable[[], Iterator[Any]]) -> Any:
    return tensorflow().data.Dataset.from_generator(batches, output_signature=signature(attributes))
