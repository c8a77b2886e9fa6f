"""What programs written for the `jbof` package rely on. Tests that take a module run on both: the reference is the referee."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import pickle
import random
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jbof_cases import MODULES, contents, names, ours
from sigbank import errors


def add_in_a_process(path: str, number: int, queue: Any) -> None:
    """Here, where a process that was spawned finds it."""
    dataset = ours.DataSet(path, readonly=False)
    won = []
    for name in map(str, range(20)):
        try:
            dataset.add_item(name, {"by": number})
            won.append(name)
        except TypeError:
            pass
        try:
            dataset["shared"].add_array(name, np.full(1000, number), {"by": number})
            won.append(f"array {name}")
        except TypeError as error:
            assert "already" in str(error)
    queue.put((number, won))


def fill(module: Any, path: Path) -> Any:
    dataset = module.create_dataset(path, {"owner": "me"})
    for number, metadata in enumerate(
        [{"a": "x", "n": 1}, {"a": "y", "n": 2.0}, {"a": "z", "n": True, "l": ["x", "y"]}, {"l": None}, {"n": 2**53 + 1}]
    ):
        dataset.add_item(f"i{number}", metadata)
    return module.DataSet(path)


@pytest.mark.parametrize("module", MODULES)
def test_types_of_errors(tmp_path: Path, module: Any) -> None:
    dataset = module.create_dataset(tmp_path / "d")
    item = dataset.add_item("i")
    array = item.add_array("x", [1])
    reader = module.DataSet(tmp_path / "d")
    for wrong in [
        lambda: module.create_dataset(tmp_path / "d"),
        lambda: module.DataSet(tmp_path / "none"),
        lambda: module.DataSet(5),
        lambda: dataset.add_item("i"),
        lambda: dataset.add_item("j", {"a": {1, 2}}),
        lambda: dataset.get_item("none"),
        lambda: dataset["none"],
        lambda: dataset.delete_item("none"),
        lambda: item.add_array("x", [1]),
        lambda: item.add_array("w", [1.0], fileformat="wav"),
        lambda: item.none,
        lambda: item.delete_array("x"),
        lambda: item.delete_array(np.arange(3)),
        lambda: item.add_array_from_file("f", tmp_path / "none.wav"),
    ]:
        with pytest.raises(TypeError):
            wrong()
    for write in [
        lambda: reader.add_item("k"),
        lambda: reader.delete_item("i"),
        lambda: reader["i"].add_array("y", [1]),
        lambda: reader["i"].delete_array(array),
        lambda: module.delete_dataset(reader),
    ]:
        with pytest.raises(RuntimeError):
            write()
    with pytest.raises(NotImplementedError):
        item.add_array("y", [1], fileformat="aiff")
    for dtype in ["i8", "u1", "c8", "f2", "?"]:
        with pytest.raises(ValueError):
            item.add_array(dtype, np.zeros(3, dtype), fileformat="wav", samplerate=8000)


def test_errors_name_the_object_and_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "d"
    with pytest.raises(errors.NotFoundError, match=r"d: there is no JBOF data set.*create"):
        ours.DataSet(path)
    dataset = ours.create_dataset(path)
    item = dataset.add_item("i")
    item.add_array("x", [1])
    with pytest.raises(errors.AlreadyExistsError, match=r"d.*item.*i"):
        dataset.add_item("i")
    with pytest.raises(errors.AlreadyExistsError, match=r"d/i.*array \"x\""):
        item.add_array("x", [1])
    with pytest.raises(AttributeError, match=r"d/i.*no array \"y\""):
        item.y  # noqa: B018
    assert not hasattr(item, "y") and hasattr(item, "x")
    with pytest.raises(errors.ReadOnlyError, match=r"d.*readonly=False"):
        ours.DataSet(path).add_item("k")
    with pytest.raises(NotImplementedError, match="npy, wav, flac, ogg, mat"):
        item.add_array("y", [1], fileformat="aiff")
    assert list(contents(path / "i")) == ["_metadata.json", "x.json", "x.npy"]


@pytest.mark.parametrize("module", MODULES)
def test_data_sets_items_and_arrays(tmp_path: Path, module: Any) -> None:
    dataset = fill(module, tmp_path / "d")
    assert (dataset.name, dataset.metadata, dataset.itemformat) == ("d", {"owner": "me"}, None)
    assert names(dataset.all_items()) == ["i0", "i1", "i2", "i3", "i4"]
    assert "i0" in dataset and dataset.has_item("i1") and "none" not in dataset
    item = dataset["i0"]
    assert (item.name, item.metadata, item == dataset.get_item("i0"), item == dataset["i1"]) == ("i0", {"a": "x", "n": 1}, True, False)
    assert hash(item) == hash(dataset["i0"]) and len({item, dataset["i0"], dataset["i1"]}) == 2
    item = module.DataSet(tmp_path / "d", readonly=False)["i0"]
    item.add_array("x", np.arange(3), {"unit": "V"})
    assert "x" in item and item.has_array("x") and "y" not in item
    assert (item.x.metadata, item.x._filename, item.x.tolist()) == ({"unit": "V"}, "x.npy", [0, 1, 2])
    assert (module.Item(tmp_path / "d/i0", True).name, module.Array(tmp_path / "d/i0/x.json").metadata) == ("i0", {"unit": "V"})
    writer = module.DataSet(tmp_path / "d", False)
    writer.delete_item(writer["i0"])
    writer.delete_item("i1")
    assert names(module.DataSet(tmp_path / "d").all_items()) == ["i2", "i3", "i4"]
    with pytest.raises(TypeError):
        writer["i0"]
    module.delete_dataset(writer)
    assert not (tmp_path / "d").exists()


FOUND: list[tuple[dict[str, Any], list[str]]] = [
    ({"a": "x"}, ["i0"]),
    ({"a": ["x", "y"]}, ["i0", "i1"]),
    ({"a": ("x", "z")}, ["i0", "i2"]),
    ({"a": np.array(["x", "y"])}, ["i0", "i1"]),
    ({"a": {"x"}}, ["i0"]),
    ({"a": ["x", "y"], "n": [2]}, ["i1"]),
    ({"n": [1]}, ["i0", "i2"]),
    ({"n": [1.0, 2]}, ["i0", "i1", "i2"]),
    ({"n": [2**53 + 1]}, ["i4"]),
    ({"n": [float(2**53)]}, []),
    ({"l": [["x", "y"]]}, ["i2"]),
    ({"l": ["x"]}, []),
    ({"l": [None]}, ["i3"]),
    ({"zz": [None]}, []),
    ({"a": []}, []),
    ({"n": range(1, 3)}, ["i0", "i1", "i2"]),
    ({"a": {"x": 1, "z": 2}}, ["i0", "i2"]),
    ({"a": {"x": 1}.keys()}, ["i0"]),
    ({"a": frozenset(["y"])}, ["i1"]),
    ({"a": deque(["z", "x"])}, ["i0", "i2"]),
    ({"a": "xx"}, []),
    ({"a": ""}, []),
    ({}, ["i0", "i1", "i2", "i3", "i4"]),
]


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(("query", "expected"), FOUND)
def test_find_items(tmp_path: Path, module: Any, query: dict[str, Any], expected: list[str]) -> None:
    dataset = fill(module, tmp_path / "d")
    for _ in range(2):
        assert names(dataset.find_items(**query)) == expected
        one = dataset.find_one_item(**query)
        assert one.name in expected if expected else one is None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"n": 1}, ["i0", "i2"]),
        ({"n": True}, ["i0", "i2"]),
        ({"n": np.int64(2)}, ["i1"]),
        ({"l": None}, ["i3"]),
        ({"n": float("nan")}, []),
        ({"a": (text for text in "yz")}, ["i1", "i2"]),
        ({"a": iter(["z", "x"])}, ["i0", "i2"]),
        ({"n": map(int, "12")}, ["i0", "i1", "i2"]),
        ({"n": np.array(2)}, ["i1"]),
        ({"n": bytes([2])}, ["i1"]),
    ],
)
def test_find_items_by_any_json_value(tmp_path: Path, query: dict[str, Any], expected: list[str]) -> None:
    """The reference fails on what is no string and cannot be iterated over, and uses an iterator up at the first item that it looks at."""
    assert names(fill(ours, tmp_path / "d").find_items(**query)) == expected


def test_find_items_whose_value_is_an_object(tmp_path: Path) -> None:
    dataset = ours.create_dataset(tmp_path / "d")
    for name, value in [("a", {"k": 1}), ("b", "k"), ("c", {"k": 2}), ("d", {})]:
        dataset.add_item(name, {"x": value})
    assert names(dataset.find_items(x={"k": 1})) == ["a", "b"]
    assert names(dataset.find_items(x=[{"k": 2}, {}])) == ["c", "d"]


def test_find_items_by_what_is_no_json(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="when: a date is not JSON.*isoformat"):
        list(fill(ours, tmp_path / "d").find_items(when=np.datetime64("2020-01-01")))


def test_find_items_sees_what_changes(tmp_path: Path) -> None:
    dataset = fill(ours, tmp_path / "d")
    other = ours.DataSet(tmp_path / "d", readonly=False)
    for pause in [0, 0.2]:
        time.sleep(pause)
        assert names(dataset.find_items(a="x")) == ["i0"]
        time.sleep(pause)
        assert dataset.find_one_item(a="x").metadata == {"a": "x", "n": 1}
        other.add_item("new", {"a": "x"})
        assert names(dataset.find_items(a="x")) == ["i0", "new"]
        other.delete_item("new")
        other.add_item("new", {"a": "y"})
        assert (names(dataset.find_items(a="x")), names(dataset.find_items(a="y"))) == (["i0"], ["i1", "new"])
        other.delete_item("new")
        assert names(dataset.find_items(a="y")) == ["i1"]


def test_one_damaged_item_is_named_and_does_not_hide_the_others(tmp_path: Path) -> None:
    fill(ours, tmp_path / "d")
    (tmp_path / "d/i2/_metadata.json").write_text('{"a": "z", ')
    (tmp_path / "d/i3/_metadata.json").write_text('["a"]')
    dataset = ours.DataSet(tmp_path / "d")
    found = dataset.find_items(a=["x", "y", "z"])
    assert [next(found).name, next(found).name] == ["i0", "i1"]
    with pytest.raises(ValueError, match="d/i2"):
        next(found)
    assert names(dataset.all_items()) == ["i0", "i1", "i2", "i3", "i4"] and dataset["i4"].metadata["n"] == 2**53 + 1


def test_numbers_that_json_has_not_are_read_and_not_written(tmp_path: Path) -> None:
    """Python's `json`, and so the reference, writes them."""
    dataset = ours.create_dataset(tmp_path / "d")
    item = dataset.add_item("i", {"snr": 1})
    item.add_array("x", [1])
    (tmp_path / "d/i/_metadata.json").write_text('{"snr": NaN, "top": Infinity, "twice": 1, "twice": 2, "half": "\\ud800"}')
    (tmp_path / "d/i/x.json").write_text('{"_filename": "x.npy", "top": -Infinity}')
    (tmp_path / "d/_metadata.json").write_text('{"_itemformat": null, "nan": NaN}')
    dataset = ours.DataSet(tmp_path / "d")
    assert str(dataset["i"].metadata["snr"]) == str(dataset.metadata["nan"]) == "nan"
    assert dataset["i"].x.metadata == {"top": -np.inf}
    assert names(dataset.find_items(top=np.inf)) == names(dataset.find_items(twice=2)) == ["i"]
    assert names(dataset.find_items(snr=float("nan"))) == names(dataset.find_items(snr=None)) == []
    for bad in [float("nan"), np.float32("inf")]:
        with pytest.raises(TypeError, match=r'metadata\["a"\]\[1\].*(nan|NaN|inf).*None'):
            ours.DataSet(tmp_path / "d", False).add_item("j", {"a": [0, bad]})


@pytest.mark.parametrize("module", MODULES)
def test_item_format(tmp_path: Path, module: Any) -> None:
    dataset = module.create_dataset(tmp_path / "d", itemformat="{a:>5}_{b!r}_{c[0]}_{d:.2f}_{n:03d}")
    metadata = {"a": "x", "b": "é", "c": ["q"], "d": 1.23456, "n": np.int64(7)}
    assert dataset.add_item(metadata=metadata).name == "    x_'é'_q_1.23_007"
    assert dataset.add_item("own", metadata).name == "own"
    with pytest.raises(TypeError):
        dataset.add_item(metadata=metadata)
    with pytest.raises(KeyError, match="d"):
        dataset.add_item(metadata={"a": 1, "b": 2, "c": [3]})
    with pytest.raises(TypeError):
        dataset.add_item()
    assert names(module.DataSet(tmp_path / "d").all_items()) == ["    x_'é'_q_1.23_007", "own"]


@pytest.mark.parametrize("template", ["{a.real}", "{a.__class__}", "{}", "{0}", "{a[0].real}", "{a:{b.real}}", "{a", "{a/b}/{a}"])
def test_item_formats_that_are_refused(tmp_path: Path, template: str) -> None:
    ours.create_dataset(tmp_path / "d")  # As others create it: we refuse most of these at once.
    (tmp_path / "d/_metadata.json").write_text(json.dumps({"_itemformat": template}))
    dataset = ours.DataSet(tmp_path / "d", readonly=False)
    with pytest.raises((TypeError, KeyError)):
        dataset.add_item(metadata={"a": [1], "b": 3})
    assert names(dataset.all_items()) == []


def test_item_formats_of_the_core_are_pythons() -> None:
    """Random templates on random metadata: the core's names are those of `str.format`, and what that refuses is refused."""
    from sigbank._native import jbof_item_name
    from sigbank.jbof._names import from_template

    rng = random.Random(5)
    texts = ["", "ann", "é", "a'b", 'q"', "\U0001d11e", "tab\t", "\u0301x", "\xa0", "\u200b"]

    def value(depth: int = 0) -> Any:
        kind = rng.randrange(9 if depth < 2 else 6)
        if kind < 2:
            return rng.choice([0, 1, -1, 7, -42, 999, 1000, 123456789, -(2**63), 10**22, 2**70, rng.randrange(-(10**6), 10**6)])
        if kind < 4:
            exact = rng.choice([0.0, -0.0, 0.5, 1.0, -2.5, 1e-5, 1e-4, 1e16, 1e22, 123456.789, 9.995, 5e-324, 1.7e308, 0.1])
            return rng.choice([exact, float(f"{rng.uniform(-1, 1) * 10 ** rng.randrange(-8, 20):.12g}")])
        if kind < 6:
            return rng.choice([rng.choice(texts), True, False, None])
        if kind < 8:
            return [value(depth + 1) for _ in range(rng.randrange(3))]
        return {key: value(depth + 1) for key in sorted(rng.sample(["k", "x y", "é"], 2))}  # As the documents have them.

    def spec() -> str:
        parts = [
            rng.choice(["", "", "<", ">", "^", "=", "*<", "0>", "é^", "0=", "x="]),
            rng.choice(["", "", "", "+", "-", " "]),
            rng.choice(["", "", "", "", "z"]),
            rng.choice(["", "", "", "#"]),
            rng.choice(["", "", "0"]),
            rng.choice(["", "", "5", "12", "{w}"]),
            rng.choice(["", "", "", ",", "_"]),
            rng.choice(["", "", ".0", ".1", ".3", ".10", ".{p}"]),
            rng.choice(["", "", "", *"sdbcoxXneEfFgG%q"]),
        ]
        return "".join(parts)

    made = refused = 0
    for _ in range(40_000):
        metadata = {"a": value(), "b": value(), "w": rng.randrange(12), "p": rng.randrange(5)}
        name = rng.choice(["a", "a", "b", "a[0]", "a[k]", "b[x y]", "a[1][0]", "w", "missing", "b[-1]"])
        template = f"{rng.choice(['', '{{', 'x'])}{{{name}{rng.choice(['', '', '', '!r', '!s', '!a'])}{rng.choice([':', '']) and ':' + spec()}}}"
        try:
            expected = template.format(**metadata)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError):
            refused += 1
            with pytest.raises(TypeError):
                jbof_item_name(template, metadata)
            with pytest.raises((TypeError, KeyError)):
                from_template(template, metadata)
            continue
        made += 1
        assert jbof_item_name(template, metadata) == expected, (template, metadata)
        assert from_template(template, metadata) == expected
    assert made > 5000 and refused > 5000


@pytest.mark.parametrize("module", MODULES)
def test_arrays_are_arrays(tmp_path: Path, module: Any) -> None:
    item = module.create_dataset(tmp_path / "d").add_item("i")
    item.add_array("x", np.arange(6.0).reshape(2, 3), {"unit": "V"})
    x = module.DataSet(tmp_path / "d")["i"].x
    assert isinstance(x, np.ndarray) and x.flags.writeable
    for derived in (x[1], x[:, ::2], x.T, x.reshape(-1), x + 1):
        assert (type(derived), derived.metadata, derived._filename) == (module.Array, {"unit": "V"}, "x.npy")
    assert x[1, 2] == 5 and type(x[1, 2]) is np.float64 and x.sum() == 15
    assert np.asarray(x).view(module.Array).metadata is None
    with pytest.raises(TypeError):
        hash(x)


def test_an_array_that_others_replace_is_read_again(tmp_path: Path) -> None:
    item = ours.create_dataset(tmp_path / "d").add_item("i")
    item.add_array("x", [1])
    other = ours.DataSet(tmp_path / "d", readonly=False)["i"]
    assert item.x is item.x
    other.delete_array(other.x)
    with pytest.raises(AttributeError):
        item.x  # noqa: B018
    other.add_array("x", [2, 3])
    assert item.x.tolist() == [2, 3]


@pytest.mark.parametrize("size", [10, 100_000])
def test_writing_to_an_array_never_changes_its_file(tmp_path: Path, size: int) -> None:
    data = np.arange(size, dtype="f8")
    item = ours.create_dataset(tmp_path / "d").add_item("i")
    item.add_array("x", data)
    x, again = item.x, ours.DataSet(tmp_path / "d")["i"].x
    x[:] = -1
    assert (x == -1).all() and (again == data).all() and item.x is x
    assert (np.load(tmp_path / "d/i/x.npy") == data).all()
    item.delete_array(again)
    assert (again == data).all() and "x" not in item and not hasattr(item, "x")
    assert (item.add_array("x", [7]) == [7]).all() and item.x.tolist() == [7]


def test_large_arrays_are_mapped_and_hold_no_file_open(tmp_path: Path) -> None:
    item = ours.create_dataset(tmp_path / "d").add_item("i")
    for n in range(3):
        item.add_array(f"x{n}", np.full(1_000_000, n, "f8"))
    del item
    held = [ours.DataSet(tmp_path / "d")["i"][f"x{n}"] for n in range(3)]
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(tmp_path) in line]
    assert len(mapped) == 3 and all(" rw-p " in line for line in mapped)
    assert not any(str(tmp_path) in os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
    part = held[1][10:20]
    del held
    assert part.tolist() == [1.0] * 10
    del part
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


def test_pickles_and_copies(tmp_path: Path) -> None:
    dataset = fill(ours, tmp_path / "d")
    writer = ours.DataSet(tmp_path / "d", readonly=False)
    for number in range(5):
        writer[f"i{number}"].add_array("x", np.full(200_000, number), {"unit": "V"})
    items = list(dataset.find_items())
    live = [item.x for item in items]
    for again in (pickle.loads(pickle.dumps(dataset)), copy.copy(dataset), copy.deepcopy(dataset)):
        assert (again.metadata, names(again.find_items(a="x"))) == ({"owner": "me"}, ["i0"])
        with pytest.raises(RuntimeError):
            again.add_item("new")
    assert pickle.loads(pickle.dumps(writer)).add_item("new").name == "new"
    small = pickle.dumps(items)
    assert len(small) < 2000 and [item.x is x for item, x in zip(items, live, strict=True)] == [True] * 5
    for again in (pickle.loads(small), copy.deepcopy(items), [copy.copy(item) for item in items]):
        assert again == items and [item.metadata for item in again] == [item.metadata for item in items]
        assert [int(item.x[5]) for item in again] == [0, 1, 2, 3, 4]
    part = live[3][5:8]
    part[0] = 9
    for again in (pickle.loads(pickle.dumps(part)), copy.copy(part), copy.deepcopy(part)):
        assert (type(again), again.tolist(), again.metadata, again._filename) == (ours.Array, [9, 3, 3], {"unit": "V"}, "x.npy")
    assert len(pickle.dumps(part)) < 1000


def test_paths_are_those_of_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(ours, tmp_path / "d")
    monkeypatch.chdir(tmp_path)
    dataset, dot = ours.DataSet("d"), ours.DataSet(Path("d/../d/"))
    monkeypatch.chdir("/")
    assert (dataset.name, dot.name, dataset["i0"] == dot["i0"], names(dataset.all_items())[0]) == ("d", "d", True, "i0")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_two_processes_adding_the_same_names(tmp_path: Path, method: str) -> None:
    path = str(tmp_path / "d")
    ours.create_dataset(path).add_item("shared")
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    processes = [context.Process(target=add_in_a_process, args=(path, number, queue)) for number in (1, 2)]
    for process in processes:
        process.start()
    won = dict(queue.get(timeout=120) for _ in processes)
    for process in processes:
        process.join()
    assert sorted(won[1] + won[2]) == sorted([str(n) for n in range(20)] + [f"array {n}" for n in range(20)])
    dataset = ours.DataSet(path)
    for number in (1, 2):
        assert names(dataset.find_items(by=number)) == sorted(name for name in won[number] if not name.startswith("array"))
        for name in won[number]:
            if name.startswith("array"):
                array = dataset["shared"][name.removeprefix("array ")]
                assert array.metadata == {"by": number} and (array == number).all()
    assert len(contents(Path(path) / "shared")) == 41


def test_durable(tmp_path: Path) -> None:
    dataset = ours.create_dataset(tmp_path / "d", durable=True)
    dataset.add_item("i").add_array("x", [1])
    assert pickle.loads(pickle.dumps(ours.DataSet(tmp_path / "d", durable=True)))["i"].x.tolist() == [1]
