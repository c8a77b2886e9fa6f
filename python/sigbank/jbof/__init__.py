"""Data sets in the JBOF layout (a folder an item, a file an array, JSON metadata), with the interface of the `jbof` package: change
the import and a program runs.

>>> import tempfile
>>> from sigbank import jbof
>>> dataset = jbof.create_dataset(tempfile.mkdtemp() + "/speech", metadata={"license": "CC0"})
>>> item = dataset.add_item("take 1", {"speaker": "ann", "snr": 12})
>>> item.add_array("ramp", [0, 1, 2], {"unit": "V"})
Array([0, 1, 2])
>>> [found.name for found in dataset.find_items(speaker=["ann", "bob"], snr=12)]
['take 1']
>>> dataset["take 1"].ramp.metadata
{'unit': 'V'}
"""

from __future__ import annotations

from pathlib import Path

from . import errors
from .array import Array
from .dataset import DataSet, create_dataset, delete_dataset
from .item import Item
from .onefile import HDFDataSet, ZIPDataSet, dataset_to_hdf, hdf_to_dataset

__version__ = "0.1.2"
"""The version of the `jbof` package whose interface this is."""

__all__ = [
    "Array",
    "DataSet",
    "HDFDataSet",
    "Item",
    "Path",
    "ZIPDataSet",
    "create_dataset",
    "dataset_to_hdf",
    "delete_dataset",
    "errors",
    "hdf_to_dataset",
]
