"""Pickled datasets and what was found in them keep their records, whatever is added to the data meanwhile."""

from __future__ import annotations

import multiprocessing
import pickle
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
def indices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGBANK_INDEX_DIR", str(tmp_path / "indices"))


def items(path: Path, *names: str) -> Any:
    dataset = jbof.DataSet(path, readonly=False) if path.exists() else jbof.create_dataset(path, {})
    for n, name in enumerate(names):
        dataset.add_item(name, {"n": n}).add_array("x", np.full(8, n, np.float32), {})
    return dataset


def read(dataset: Any) -> list[tuple[str, float]]:
    return list(zip(dataset.ids(), (float(record["x"][0]) for record in dataset[:]), strict=True))


def test_items_that_were_added_do_not_come_in_between(tmp_path: Path) -> None:
    ours = items(tmp_path / "d", "b", "d", "f")
    dataset = sigbank.open(tmp_path / "d")
    found = dataset.where("n >= 1")
    windows = found.windows("x", 4)
    pickles = [pickle.dumps(which) for which in (dataset, found, found.where("n == 2"), windows)]
    items(tmp_path / "d", "c", "a", "e")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(read, [dataset, found]) == [[("b", 0.0), ("d", 1.0), ("f", 2.0)], [("d", 1.0), ("f", 2.0)]]
    whole, again, further, of_windows = map(pickle.loads, pickles)
    assert whole.ids() == ["b", "d", "f"] and whole.splits == {"all": 3}
    assert again.ids() == ["d", "f"] and again[1]["x"][0] == 2.0 and repr(again) == repr(found)
    assert further.ids() == ["f"] and [record["item"] for record in of_windows[:]] == ["d", "d", "f", "f"]
    # Further searches are in what it was, and its own pickle too.
    assert again.where("n >= 0").ids() == ["d", "f"] and whole.find("n == 1") == [1]
    assert pickle.loads(pickle.dumps(again)).ids() == ["d", "f"]
    assert sigbank.open(tmp_path / "d").ids() == ["a", "b", "c", "d", "e", "f"]
    ours.delete_item(ours["d"])
    for pickled in pickles:
        with pytest.raises(errors.ConflictError, match="the item 'd' is not there any more.*open it again"):
            pickle.loads(pickled)


def test_what_was_found_is_kept_though_it_would_not_be_found_now(tmp_path: Path) -> None:
    items(tmp_path / "d", "a", "b")
    found = sigbank.open(tmp_path / "d").where("n == 1")
    pickled = pickle.dumps(found)
    (tmp_path / "d/a/_metadata.json").write_text('{"n": 1}')
    (tmp_path / "d/b/_metadata.json").write_text('{"n": 2}')
    assert pickle.loads(pickled).ids() == ["b"]
    assert found.where("n >= 1").ids() == ["b"] and found.find("n >= 1") == [0]


def test_recordings_that_became_longer_are_told(tmp_path: Path) -> None:
    ours = items(tmp_path / "d", "a")
    pickled = pickle.dumps(sigbank.open(tmp_path / "d").windows("x", 4))
    ours["a"].delete_array(ours["a"]["x"])
    ours["a"].add_array("x", np.zeros(16, np.float32), {})
    with pytest.raises(errors.ConflictError, match="there were 2 windows of 'x' .* there are 4"):
        pickle.loads(pickled)


def test_examples_that_were_appended_are_not_taken(tmp_path: Path) -> None:
    structure = DatasetStructure(
        saved_data_description=[Attribute(name="x", dtype="int32", shape=(1,))], examples_per_shard=4, compression="", shard_file_type="fb"
    )
    made = Dataset.create(tmp_path / "d", Metadata(description="d"), structure)

    def append(values: range, *splits: str) -> None:
        with made.filler() as filler:
            for split in splits:
                for n in values:
                    filler.write_example({"x": np.array([n], np.int32)}, split, custom_metadata={"n": "a" if n < 8 else "b"})

    append(range(15), "train")
    dataset = sigbank.open(tmp_path / "d")
    found = dataset.where("n == 'b'")
    values = [int(record["x"][0]) for record in found[:]]
    pickles = [pickle.dumps(which) for which in (dataset, found)]
    append(range(100, 105), "train", "test")
    whole, again = map(pickle.loads, pickles)
    assert sorted(values) == list(range(8, 15)) and [int(record["x"][0]) for record in again[:]] == values
    assert whole.splits == {"train": 15} and sorted(int(record["x"][0]) for record in whole[:]) == list(range(15))
    (batch,) = whole.where("n == 'a'").batches("train", 64)
    assert sorted(batch["x"][:, 0]) == list(range(8))
    # The opened one, too, is searched as it was opened.
    assert dataset.find("n == 'b'") == [i for i in range(15) if int(dataset[i]["x"][0]) >= 8]
    assert sigbank.open(tmp_path / "d").splits == {"train": 20, "test": 5}


def test_a_snapshot_stays(tmp_path: Path) -> None:
    written(sds, tmp_path / "d", 20)
    pickled = pickle.dumps(sigbank.open(tmp_path / "d").where("number > 17"))
    assert pickle.loads(pickled).ids() == ["r18", "r19"]
    (tmp_path / "d").rename(tmp_path / "old")
    written(sds, tmp_path / "d", 30)
    with pytest.raises(errors.ConflictError, match="its root was sha256:"):
        pickle.loads(pickled)


def test_the_only_split_has_its_name(tmp_path: Path) -> None:
    items(tmp_path / "j", "a", "b")
    written(sds, tmp_path / "s", 3)
    for place, key in (("j", "n"), ("s", "number")):
        dataset = sigbank.open(tmp_path / place)
        assert dataset.find(f"split == 'all' and {key} == 1") == [1]
        assert dataset.find("split == 'train'") == dataset.find("not split in ['all', 'x']") == []
        assert dataset.find("split != 'train'") == list(range(len(dataset)))


def test_nothing_and_windows_say_what_they_are(tmp_path: Path) -> None:
    items(tmp_path / "d", "a")
    dataset = sigbank.open(tmp_path / "d")
    with pytest.raises(errors.InvalidError, match="no record to make batches of in the split 'all', where n > 5"):
        dataset.where("n > 5").batches("all", 2)
    windows = dataset.windows("x", 4)
    for asked in (windows.ids, lambda: windows.by_id("a")):
        with pytest.raises(errors.UnsupportedError, match="windows have no ids: the fields 'item' and 'start'"):
            asked()
    with pytest.raises(errors.InvalidError, match="a key whose value is one, found the text"):
        dataset.find("g in 'abc'")
