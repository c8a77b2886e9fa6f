"""The data set that the reference package wrote (`testdata/jbof`), read value for value as it reads it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jbof_cases import ours

HERE = Path(__file__).parents[2] / "testdata/jbof"
TOLD = json.loads((HERE / "speech.json").read_text())
ARRAYS = [(item, name) for item, found in TOLD["items"].items() for name in found]


@pytest.mark.parametrize(("item", "name"), ARRAYS, ids=[f"{item}: {name}" for item, name in ARRAYS])
def test_arrays(item: str, name: str) -> None:
    told = TOLD["items"][item][name]
    found = ours.DataSet(HERE / "speech")[item][name]
    assert (found.dtype.str, list(found.shape), found.metadata) == (told["dtype"], told["shape"], told["metadata"])
    values: Any = np.asarray(found)
    if values.dtype.kind == "c":
        values = values.view(f"f{values.dtype.itemsize // 2}")
    if values.dtype.kind == "M":
        values = values.astype("i8")
    listed = [value.decode() if isinstance(value, bytes) else value for value in values.ravel().tolist()]
    if name.endswith("ogg"):
        # Another decoder of a lossy format.
        assert np.allclose(listed, told["values"], rtol=0, atol=1e-6)
    else:
        assert listed == told["values"]


def test_the_rest() -> None:
    dataset = ours.DataSet(HERE / "speech")
    assert [item.name for item in dataset.all_items()] == list(TOLD["items"]) == ["ann-01", "bob-02", "empty", "tables"]
    for item in dataset.all_items():
        assert sorted(name for name, _ in item.all_arrays()) == sorted(TOLD["items"][item.name])
    assert dataset.calculate_hash() == TOLD["hash"]
    metadata = dataset.metadata
    assert math.isnan(metadata.pop("nan"))
    assert metadata == {"licence": "CC0", "é": ["ü", None, {"deep": [1.5, 2**53 + 1]}]}
    assert dataset.itemformat == "{speaker}-{take:02d}"
    assert [item.name for item in dataset.find_items(take=[2, 3])] == ["bob-02", "tables"]
    assert [item.name for item in dataset.find_items(speaker="ann", take=1)] == ["ann-01"]
    assert math.isnan(dataset["ann-01"].metadata["snr"])
