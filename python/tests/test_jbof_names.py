"""Names, metadata and places that users of other packages had trouble with, tried on `sigbank.jbof`."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jbof_cases import contents, names, ours


@pytest.fixture
def item(tmp_path: Path) -> Any:
    return ours.create_dataset(tmp_path / "d").add_item("i")


def test_numpy_scalars_in_metadata(tmp_path: Path) -> None:
    """J02."""
    dataset = ours.create_dataset(tmp_path / "d")
    good = {"f": np.float32(1.5), "i": np.int64(3), "b": np.bool_(True), "s": np.str_("x"), "t": (1, [2]), "n": {1: None, "k": np.uint8(2)}}
    assert dataset.add_item("i", good).metadata == {**good, "t": [1, [2]], "n": {"1": None, "k": 2}}
    bad: list[Any] = [np.array([1, 2]), datetime.datetime.now(), Path("x"), b"x", {1}, np.datetime64("2020-01-01"), 1j, object(), np.longdouble(1)]
    for value in bad:
        with pytest.raises(TypeError, match=r'metadata\["a"\]\[1\]\["k"\]'):
            dataset.add_item("j", {"a": [0, {"k": value}]})
        with pytest.raises(TypeError, match=r'metadata\["k"\]'):
            dataset["i"].add_array("x", [1], {"k": value})
        with pytest.raises(TypeError):
            ours.create_dataset(tmp_path / "e", {"k": value})
    for metadata in [[1], "x", 5, {"a": {(1, 2): 3}}, {"_filename": 1}, {"_itemformat": 1}, {"_sigbank": 1}, {"1": 1, 1: 2}]:
        with pytest.raises(TypeError):
            dataset.add_item("j", metadata)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="holds itself"):
        dataset.add_item("j", {"a": endless})
    assert names(dataset.all_items()) == ["i"] and not (tmp_path / "e").exists() and "x" not in dataset["i"]
    assert not list((tmp_path / "d").rglob("j*"))


def test_big_metadata(tmp_path: Path) -> None:
    """M11, J03."""
    dataset = ours.create_dataset(tmp_path / "d")
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    big = {"text": "é" * 1_000_000, "list": list(range(20_000)), "deep": deep, "ints": [2**53 + 1, -(2**63), 2**64 - 1]}
    dataset.add_item("i", big)
    assert ours.DataSet(tmp_path / "d")["i"].metadata == big
    assert names(dataset.find_items(deep=[deep])) == ["i"]


NAMES = ["22.05", "a.b.c", "Track 2.0 (x)", "train.v1", "é", "e\u0301", "A", "a", "CON", "a:b", "x" * 200, "😀" * 50]


def test_names(tmp_path: Path) -> None:
    """J04, J09, J11, J12."""
    dataset = ours.create_dataset(tmp_path / "d")
    for number, name in enumerate(NAMES):
        item = dataset.add_item(name, {"number": number})
        item.add_array(name, [number])
    again = ours.DataSet(tmp_path / "d")
    assert names(again.all_items()) == sorted(NAMES)
    for number, name in enumerate(NAMES):
        assert again[name].metadata == {"number": number} and again[name][name].tolist() == [number]
        assert [n for n, _ in again[name].all_arrays()] == [name]
        dataset[name].delete_array(dataset[name][name])
        assert name not in again[name]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", "a\\b", "../../x", "n\nl", "nul\0", "x" * 256, ".hidden", "__pycache__"])
def test_names_that_lead_elsewhere(tmp_path: Path, name: str) -> None:
    """J11, J12, J13."""
    dataset = ours.create_dataset(tmp_path / "d")
    item = dataset.add_item("i")
    before = contents(tmp_path)
    with pytest.raises(TypeError, match="name"):
        dataset.add_item(name)
    if name != "__pycache__":
        with pytest.raises(TypeError, match="name"):
            item.add_array(name, [1])
    assert name not in dataset and name not in item
    for missing in [lambda: dataset[name], lambda: dataset.delete_item(name), lambda: item[name]]:
        with pytest.raises(TypeError, match="no item|no array"):
            missing()
    formatted = ours.create_dataset(tmp_path / "f", itemformat="{n}")
    with pytest.raises(TypeError):
        formatted.add_item(metadata={"n": name})
    assert {k: v for k, v in contents(tmp_path).items() if not k.startswith("f/")} == before


@pytest.mark.parametrize("name", ["metadata", "name", "add_array", "_metadata_", "_u", "__x"])
def test_arrays_named_as_attributes(item: Any, name: str) -> None:
    item.add_array(name, [1, 2])
    assert item[name].tolist() == [1, 2] and dict(item.all_arrays())[name].tolist() == [1, 2]
    assert isinstance(item.metadata, dict)


def test_litter(tmp_path: Path) -> None:
    """J05."""
    dataset = ours.create_dataset(tmp_path / "d")
    dataset.add_item("i").add_array("x", [1])
    digest = dataset.calculate_hash()
    for folder in [tmp_path / "d", tmp_path / "d/i"]:
        for file in [".DS_Store", "._a.wav", "Thumbs.db", "desktop.ini", "a.wav~", ".nfs0001"]:
            (folder / file).write_bytes(b"?")
        for sub in ["__MACOSX", "__pycache__", ".ipynb_checkpoints", "no item"]:
            (folder / sub).mkdir(exist_ok=True)
    for again in (dataset, ours.DataSet(tmp_path / "d")):
        assert names(again.all_items()) == names(again.find_items()) == ["i"] and again.calculate_hash() == digest
        assert [name for name, _ in again["i"].all_arrays()] == ["x"]


def test_symbolic_links(tmp_path: Path) -> None:
    """J14: those that lead to an item of the data set are items, those that lead out are told when they are read, the rest is nothing."""
    dataset = ours.create_dataset(tmp_path / "set")
    dataset.add_item("a", {"n": 1}).add_array("x", [1, 2])
    ours.create_dataset(tmp_path / "other").add_item("b", {"n": 2}).add_array("x", [3])
    for name, target in (
        ("inner", "a"),
        ("absolute", tmp_path / "set/a"),
        ("out", tmp_path / "other/b"),
        ("dangling", "nowhere"),
        ("parent", ".."),
    ):
        (tmp_path / "set" / name).symlink_to(target)
    (tmp_path / "set/a/y.npy").symlink_to(tmp_path / "other/b/x.npy")
    (tmp_path / "set/a/y.json").write_text('{"_filename": "y.npy"}')
    found = ours.DataSet(tmp_path / "set")
    assert [item.name for item in found.all_items()] == ["a", "absolute", "inner", "out"]
    assert found["inner"].metadata == {"n": 1} and found["absolute"].x.tolist() == [1, 2]
    for read in (lambda: found["out"].metadata, lambda: found["out"].x, lambda: found["a"].y, found.calculate_hash):
        with pytest.raises(TypeError, match="symbolic link leads out"):
            read()


def test_moved_data_sets_and_old_paths(tmp_path: Path) -> None:
    """J07."""
    dataset = ours.create_dataset(tmp_path / "d")
    dataset.add_item("i").add_array("x", [1, 2])
    shutil.move(tmp_path / "d", tmp_path / "moved")
    shutil.copytree(tmp_path / "moved/i", tmp_path / "moved/copy")
    document = tmp_path / "moved/copy/x.json"
    document.write_text('{"_filename": "/old/place/d/i/x.npy", "a": 1}')
    again = ours.DataSet(tmp_path / "moved", readonly=False)
    found = again["copy"].x
    assert (found.tolist(), found.metadata, found._filename) == ([1, 2], {"a": 1}, "x.npy")
    again["copy"].delete_array(found)
    assert "x" not in again["copy"] and again["i"].x.tolist() == [1, 2]
    (tmp_path / "outside.npy").write_bytes((tmp_path / "moved/i/x.npy").read_bytes())
    for path in ["../../outside.npy", "..", "", "none.npy"]:
        (tmp_path / "moved/i/x.json").write_text(f'{{"_filename": "{path}"}}')
        with pytest.raises((ValueError, FileNotFoundError), match=r"moved/i"):
            ours.DataSet(tmp_path / "moved")["i"].x
