"""The programs in the documentation run as they stand."""

import re
from pathlib import Path

import numpy as np
import pytest

import sigbank

ROOT = Path(__file__).parents[2]


def programs(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.mark.parametrize(
    ("number", "place", "records", "fields"),
    [(0, "traces", 1000, {"trace", "key"}), (1, "captures", 100, {"iq"}), (2, "speech", 1, {"signal", "notes"})],
)
def test_what_the_page_on_writing_makes_is_there(tmp_path, monkeypatch, number, place, records, fields):
    monkeypatch.chdir(tmp_path)
    np.save("notes.npy", np.arange(4))
    exec(compile(programs("docs/writing.md")[number], f"docs/writing.md, program {number}", "exec"), {})
    dataset = sigbank.open(place)
    assert len(dataset) == records and set(dataset[0]) == fields
    dataset.verify()
