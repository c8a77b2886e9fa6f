"""`find` and `where` of a dataset of any layout: what is found, and what is selected as a dataset."""

from __future__ import annotations

import os
import pickle
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sigbank
import sigbank.signal_dataset as sds
from sigbank import errors, jbof
from sigbank.sedpack.io import Attribute, Dataset, DatasetStructure, Metadata
from signal_cases import written


@pytest.fixture(autouse=True)
def indices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGBANK_INDEX_DIR", str(tmp_path / "indices"))
    return tmp_path / "indices"


def jbof_at(path: Path, count: int) -> None:
    dataset = jbof.create_dataset(path, {})
    for n in range(count):
        item = dataset.add_item(f"i{n:03}", {"n": n, "by": f"s{n % 3}"})
        item.add_array("x", np.full(8 + n % 2, n, np.float32), {})


def found_ids(dataset: Any, expression: str) -> list[str]:
    """By `where`, asserted to be what `find` gives."""
    selected = dataset.where(expression)
    ids = selected.ids()
    all_ids = dataset.ids()
    assert [all_ids[i] for i in dataset.find(expression)] == ids
    assert len(selected) == len(ids)
    return ids


def test_items_of_jbof(tmp_path: Path) -> None:
    jbof_at(tmp_path / "d", 12)
    dataset = sigbank.open(tmp_path / "d")
    assert found_ids(dataset, "n > 3 and by == 's1'") == ["i004", "i007", "i010"]
    assert found_ids(dataset, "x@length == 9 and n < 4") == ["i001", "i003"]
    selected = dataset.where("by == 's1'")
    assert repr(selected) == f"Dataset(\"{tmp_path / 'd'}\", jbof, where by == 's1', all 4)"
    assert [float(record["x"][0]) for record in selected[:]] == [1.0, 4.0, 7.0, 10.0]
    assert selected.by_id("i007")["x"][0] == 7.0
    with pytest.raises(KeyError):
        selected.by_id("i000")
    further = selected.where("n >= 7")
    assert further.ids() == ["i007", "i010"] and selected.find("n >= 7") == [2, 3]
    again = pickle.loads(pickle.dumps(further))
    assert again.ids() == further.ids() and again.root_digest == further.root_digest != dataset.root_digest
    windows = further.windows("x", 4)
    assert sorted({record["item"] for record in windows[:]}) == ["i007", "i010"] and len(windows) == 4
    with pytest.raises(errors.UnsupportedError, match="search first"):
        windows.where("n > 3")
    batches = list(selected.where("x@length == 9").batches("all", 8, shuffle=True))
    assert sorted(x[0] for x in batches[0]["x"]) == [1.0, 7.0]
    assert len(dataset.where("n > 100")) == 0 and dataset.where("n > 100")[:] == []


def test_typos_and_damage_are_told(tmp_path: Path) -> None:
    jbof_at(tmp_path / "d", 4)
    dataset = sigbank.open(tmp_path / "d")
    with pytest.raises(errors.InvalidError, match="column 5"):
        dataset.where("n > ")
    with pytest.raises(errors.InvalidError, match="column"):
        dataset.where("n > 1").where("n >")
    with pytest.warns(UserWarning, match='did you mean "by"'):
        assert dataset.find("bi == 's1'") == []
    (tmp_path / "d/i002/_metadata.json").write_text('{"n": 1, "n": 2}')
    with pytest.warns(UserWarning, match=r'1 item was not searched \("i002"\)'):
        assert dataset.find("n >= 1") == [1, 3]


def test_records_of_a_signal_dataset(tmp_path: Path, indices: Path) -> None:
    written(sds, tmp_path / "d", 700, 300)
    dataset = sigbank.open(tmp_path / "d")
    for _ in range(2):
        assert found_ids(dataset, "number > 3 and number < 6 or id == 'r699'") == ["r4", "r5", "r699"]
        assert len(list(indices.iterdir())) == 1
    assert found_ids(dataset, "iq@axes == ['channel', 'time'] and iq@sample_rate == 2 and note.tags contains 'é' and number == 7") == ["r7"]
    selected = dataset.where("number in [650, 3, 299]")
    assert [complex(record["iq"][0, 0]).imag for record in selected[:]] == [3.0, 299.0, 650.0]
    (batch,) = selected.batches("all", 8)
    assert batch["iq"].shape == (3, 2, 4)
    assert pickle.loads(pickle.dumps(selected)).ids() == ["r3", "r299", "r650"]
    assert dataset.where("number < 2").annotation_sets() == dataset.annotation_sets()


def test_another_dataset_at_the_place_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(sds, tmp_path / "d", 600)
    assert sigbank.open(tmp_path / "d").find("number == 599") == [599]
    (tmp_path / "d").rename(tmp_path / "old")
    written(sds, tmp_path / "d", 510)
    assert sigbank.open(tmp_path / "d").find("number >= 509") == [509]
    assert sigbank.open(tmp_path / "old").find("number == 599") == [599]
    monkeypatch.setenv("SIGBANK_INDEX", "ignore")
    assert sigbank.open(tmp_path / "old").find("number == 599") == [599]


def test_shards_of_sedpack(tmp_path: Path) -> None:
    structure = DatasetStructure(
        saved_data_description=[Attribute(name="x", dtype="int32", shape=(2,))], examples_per_shard=4, compression="", shard_file_type="fb"
    )
    dataset = Dataset.create(tmp_path / "d", Metadata(description="d"), structure)
    with dataset.filler() as filler:
        for n in range(10):
            filler.write_example({"x": np.array([n, 7], np.int32)}, "train", custom_metadata={"device": "a" if n < 6 else "b"})
        filler.write_example({"x": np.array([99, 7], np.int32)}, "test", custom_metadata={"device": "b"})
    opened = sigbank.open(tmp_path / "d")
    selected = opened.where("device == 'b'")
    values = [int(record["x"][0]) for record in selected[:]]
    assert sorted(values) == [6, 7, 8, 9, 99] and selected.splits == {"train": 4, "test": 1}
    assert [int(opened[i]["x"][0]) for i in opened.find("device == 'b' and split == 'test'")] == [99]
    (batch,) = selected.batches("train", 8)
    assert sorted(batch["x"][:, 0]) == [6, 7, 8, 9]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(opened.where("x@dtype == 'int32' and x@shape == [2]")) == 11


def test_windows_of_what_was_found_look_at_nothing_else(tmp_path: Path) -> None:
    jbof_at(tmp_path / "d", 2)
    jbof.DataSet(tmp_path / "d", readonly=False).add_item("z", {"n": 9}).add_array("x", np.arange(9, dtype=np.int16), {})
    dataset = sigbank.open(tmp_path / "d")
    with pytest.raises(errors.InvalidError, match="'x' is float32"):
        dataset.windows("x", 4)
    selected = dataset.where("x@dtype == 'int16'")
    windows = selected.windows("x", 4)
    assert [(record["item"], record["x"].tolist()) for record in windows[:]] == [("z", [0, 1, 2, 3]), ("z", [4, 5, 6, 7])]
    assert windows[0]["x"].dtype == np.int16
    again = pickle.loads(pickle.dumps(windows))
    assert len(again) == 2 and again.root_digest == windows.root_digest
    others = dataset.where("n < 9")
    one, other = (others.where(f"n == {n}").windows("x", 4) for n in range(2))
    assert len(others.windows("x", 4)) == 4 and one.root_digest != other.root_digest
    assert other[1]["item"] == "i001" and len(dataset.where("n > 9").windows("x", 4)) == 0


def test_a_document_edited_by_hand_is_found_by_the_same_object(tmp_path: Path) -> None:
    jbof_at(tmp_path / "d", 3)
    dataset = jbof.DataSet(tmp_path / "d")
    for _ in range(2):
        time.sleep(0.15)  # Longer than the steps of times: what was read is kept.
        assert [item.name for item in dataset.find("n == 1")] == ["i001"]
    (tmp_path / "d/i001/_metadata.json").write_text('{"n": 55, "by": "me"}')
    assert [item.name for item in dataset.find("n == 1")] == []
    found = dataset.find_one("n == 55")
    assert found is not None and found.metadata == {"n": 55, "by": "me"}


@pytest.mark.parametrize("kind", ["zip", "h5"])
def test_a_file_that_was_replaced_is_told(tmp_path: Path, kind: str) -> None:
    def put(count: int) -> Path:
        folder, path = tmp_path / f"d{count}", tmp_path / f"d.{kind}"
        jbof_at(folder, count)
        if kind == "h5":
            jbof.dataset_to_hdf(jbof.DataSet(folder), tmp_path / "new.h5")
        else:
            shutil.make_archive(str(tmp_path / "new"), "zip", folder)
        os.replace(tmp_path / f"new.{kind}", path)
        return path

    path = put(4)
    dataset, opened = sigbank.open(path), (jbof.HDFDataSet if kind == "h5" else jbof.ZIPDataSet)(path)
    selected = dataset.where("n > 0")
    assert dataset.find("n > 1") == [2, 3] and len(list(opened.find("n > 1"))) == 2
    put(5)
    for search in (dataset.find, dataset.where, selected.where, lambda text: list(opened.find(text)), opened.find_one):
        with pytest.raises(errors.ConflictError, match="replaced or changed since the data set was opened") as told:
            search("n > 1")
        assert str(path) in str(told.value)
    assert sigbank.open(path).find("n > 1") == [2, 3, 4]
    path.unlink()
    with pytest.raises(errors.ConflictError, match="was removed"):
        opened.find_one("n > 1")
