"""Creating and filling datasets: what is accepted, refused, published, and when."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_kinds import KINDS
from sedpack_cases import assert_example, assert_value, example, fill, make, make_numbered
from sigbank.sedpack import Dataset, DatasetExistsError, DatasetFiller, DatasetFillerContext, DatasetInfo
from sigbank.sedpack.io import Attribute, DatasetStructure, Metadata
from sigbank.sedpack.io.file_info import FileInfo


def one(tmp_path: Path, dtype: str, shape: tuple[int, ...] = (), **structure: Any) -> Dataset:
    """An empty dataset whose only attribute is `a`."""
    described = [Attribute(name="a", dtype=dtype, shape=shape)]
    path = tmp_path / f"d{len(list(tmp_path.iterdir()))}"
    return Dataset.create(path, Metadata(), DatasetStructure(saved_data_description=described, **structure))


def write(dataset: Dataset, *values: Any, split: Any = "train") -> None:
    with dataset.filler(concurrency=1) as filler:
        for value in values:
            filler.write_example({"a": value}, split)


def read(dataset: Dataset, split: Any = "train") -> list[Any]:
    return [e["a"] for e in Dataset(dataset.path).as_numpy_iterator(split=split, repeat=False, shuffle=0)]


def numbers(path: Path, split: Any = "train") -> list[int]:
    return [e["i"] for e in Dataset(path).as_numpy_iterator(split=split, repeat=False, shuffle=0)]


ACCEPTED: list[tuple[str, tuple[int, ...], Any, Any]] = [
    ("float32", (3,), np.arange(3, dtype="f2"), np.arange(3, dtype="f4")),
    ("float32", (3,), np.arange(3, dtype=">f4"), np.arange(3, dtype="f4")),
    (
        "float32",
        (2, 2),
        np.asfortranarray(np.arange(4, dtype="f4").reshape(2, 2)),
        np.arange(4, dtype="f4").reshape(2, 2),
    ),
    ("float32", (2,), np.arange(4, dtype="f4")[::2], np.array([0, 2], "f4")),
    ("float32", (2,), np.arange(2, dtype="f4")[::-1], np.array([1, 0], "f4")),
    ("float32", (3,), np.broadcast_to(np.float32(2), (3,)), np.full(3, 2, "f4")),
    ("float64", (), 1, np.float64(1)),
    ("float32", (), 1.5, np.float32(1.5)),
    ("float32", (2,), [1, 2.5], np.array([1, 2.5], "f4")),
    ("float32", (2,), (1.0, 2.0), np.array([1, 2], "f4")),
    ("uint8", (), 255, np.uint8(255)),
    ("uint8", (), True, np.uint8(1)),
    ("int32", (2,), [1, -2], np.array([1, -2], "i4")),
    ("bool", (2,), [True, False], np.array([True, False])),
    ("complex64", (2,), np.arange(2, dtype="f4"), np.arange(2, dtype="c8")),
    ("complex128", (), 1 + 2j, np.complex128(1 + 2j)),
    ("S5", (), b"abc", np.array(b"abc", "S5")),
    ("U5", (2,), ["a", "é"], np.array(["a", "é"], "U5")),
    ("datetime64[ns]", (), np.datetime64("2020-01-01", "s"), np.datetime64("2020-01-01", "ns")),
    ("<f4", (), np.float32(2), np.float32(2)),
    ("int", (), np.uint8(5), 5),
    ("int", (), np.array(5), 5),
    ("int", (), True, 1),
    ("int", (), -(2**63), -(2**63)),
    ("str", (), np.str_("é"), "é"),
    ("bytes", (), bytearray(b"q\0"), b"q\0"),
    ("bytes", (), memoryview(b"q"), b"q"),
    ("bytes", (), np.arange(3, dtype="u1"), b"\0\1\2"),
    ("bytes", (), b"", b""),
    ("bytes", (3,), b"a\0\0", b"a\0\0"),
    ("bytes", (3,), [1, 2, 255], b"\1\2\xff"),
    ("bytes", (3,), np.arange(3), b"\0\1\2"),
    ("bytes", (3,), np.arange(3, dtype="u1"), b"\0\1\2"),
]

REFUSED: list[tuple[str, tuple[int, ...], Any]] = [
    ("float32", (3,), np.arange(3.0)),
    ("float32", (3,), np.arange(3)),
    ("float32", (3,), np.arange(4, dtype="f4")),
    ("float32", (1,), np.float32(3)),
    ("float32", (), np.arange(1, dtype="f4")),
    ("float32", (), 0.1),
    ("float32", (), 2**24 + 1),
    ("float32", (2,), ["a", "b"]),
    ("float32", (2,), None),
    ("float32", (), {}),
    ("uint8", (), 256),
    ("uint8", (), -1),
    ("int32", (2,), np.array([1, 2])),
    ("complex64", (), np.complex128(1)),
    ("S5", (), b"abcdefgh"),
    ("S5", (), "abc"),
    ("U5", (), "abcdefgh"),
    ("datetime64[ns]", (), "2020-01-01"),
    ("int", (), 2**63),
    ("int", (), "5"),
    ("str", (), b"q"),
    ("str", (), 5),
    ("str", (), None),
    ("str", (), "\ud800"),
    ("bytes", (), "q"),
    ("bytes", (), 5),
    ("bytes", (3,), b"ab"),
    ("bytes", (3,), [1, 2, 256]),
    ("bytes", (3,), [1, 2, -1]),
    ("bytes", (3,), np.arange(3.0)),
    ("bytes", (3,), np.arange(4)),
]


def case_id(value: Any) -> str:
    return value if isinstance(value, str) else repr(value).replace("\n", " ")[:40]


@pytest.mark.parametrize(("dtype", "shape", "value", "expected"), ACCEPTED, ids=case_id)
def test_values_that_cast_safely(tmp_path: Path, dtype: str, shape: tuple[int, ...], value: Any, expected: Any) -> None:
    dataset = one(tmp_path, dtype, shape)
    write(dataset, value, value)
    found = read(dataset)
    assert len(found) == 2
    for item in found:
        assert_value(item, expected, dtype, repr(value))


@pytest.mark.parametrize(("dtype", "shape", "value"), REFUSED, ids=case_id)
def test_values_that_do_not_fit_are_refused(tmp_path: Path, dtype: str, shape: tuple[int, ...], value: Any) -> None:
    dataset = one(tmp_path, dtype, shape)
    with pytest.raises(ValueError, match=r"\ba\b"), dataset.filler() as filler:
        filler.write_example({"a": value}, "train")
    assert "train" not in Dataset(dataset.path).dataset_info.splits


def test_a_refused_example_leaves_the_others(tmp_path: Path) -> None:
    dataset = one(tmp_path, "int", examples_per_shard=2)
    with dataset.filler() as filler:
        for value in (1, "bad", 2, 2.5, 3):
            try:
                filler.write_example({"a": value}, "train")
            except ValueError:
                assert value in ("bad", 2.5)
    assert read(dataset) == [1, 2, 3]
    assert [info.number_of_examples for info in dataset.shard_info_iterator("train")] == [2, 1]


def test_the_error_names_attribute_dtypes_and_position(tmp_path: Path) -> None:
    dataset = one(tmp_path, "float32", (2,))
    with pytest.raises(ValueError, match="float64.*float32|float32.*float64") as caught, dataset.filler() as filler:
        for _ in range(3):
            filler.write_example({"a": np.zeros(2, "f4")}, "train")
        filler.write_example({"a": np.zeros(2)}, "train")
    assert "3" in str(caught.value) and "train" in str(caught.value)
    with pytest.raises(ValueError, match=r"\(3,?\).*\(2,?\)|\[3\].*\[2\]|\(2,?\).*\(3,?\)|\[2\].*\[3\]"):
        write(dataset, np.zeros(3, "f4"))


def test_missing_and_undeclared_attributes(tmp_path: Path) -> None:
    dataset = one(tmp_path, "int")
    with dataset.filler() as filler:
        with pytest.raises(KeyError, match="a"):
            filler.write_example({"b": 1}, "train")
        with pytest.warns(UserWarning, match="declares no attribute 'b'"):
            filler.write_example({"a": 1, "b": 2}, "train")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            filler.write_example({"a": 2, "b": 2}, "train")
    assert read(dataset) == [1, 2]


def test_unknown_split_and_bad_metadata(tmp_path: Path) -> None:
    dataset = one(tmp_path, "int")
    with dataset.filler() as filler:
        with pytest.raises(ValueError, match="valid"):
            filler.write_example({"a": 1}, "valid")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"custom_metadata\['k'\]"):
            filler.write_example({"a": 1}, "train", {"k": np.int64(3)})
        filler.write_example({"a": 2}, "train")
    assert read(dataset) == [2]


def test_shard_metadata_opens_new_shards(tmp_path: Path) -> None:
    dataset = one(tmp_path, "int", examples_per_shard=10)
    given: list[dict[str, Any] | None] = [None, None, {"k": 1}, {"k": 1}, None, None, {}, {"k": 2}, {"k": 1}, {"k": 1}]
    with dataset.filler() as filler:
        for i, metadata in enumerate(given):
            filler.write_example({"a": i}, "train", custom_metadata=metadata)
        filler.write_example({"a": 10}, "train", {"x": 1, "y": [2]})
        filler.write_example({"a": 11}, "train", {"y": (2,), "x": 1})
    shards = [(info.number_of_examples, info.custom_metadata) for info in dataset.shard_info_iterator("train")]
    assert shards == [(2, {}), (2, {"k": 1}), (3, {}), (1, {"k": 2}), (2, {"k": 1}), (2, {"x": 1, "y": [2]})]
    assert read(dataset) == list(range(12))


def test_splits_are_apart(tmp_path: Path) -> None:
    dataset = one(tmp_path, "int", examples_per_shard=2)
    with dataset.filler() as filler:
        for i in range(8):
            filler.write_example({"a": i}, ["train", "test", "holdout"][i % 3])  # type: ignore[arg-type]
    assert [read(dataset, split) for split in ("train", "test", "holdout")] == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert list(dataset.dataset_info.splits) == ["train", "test", "holdout"]


def test_both_styles_of_filler(tmp_path: Path) -> None:
    dataset = one(tmp_path, "int")
    filler = DatasetFiller(dataset, concurrency=2)
    with pytest.raises(RuntimeError, match="inside"):
        filler.write_example({"a": 0}, "train")
    with filler as context:
        assert isinstance(context, DatasetFillerContext)
        context.write_example({"a": 1}, "train")
        filler.write_example(values={"a": 2}, split="train", custom_metadata=None)
    assert read(dataset) == [1, 2]
    with pytest.raises(RuntimeError, match="make another"), filler:
        pass


def test_many_shards_keep_their_order(tmp_path: Path) -> None:
    dataset = make_numbered(tmp_path / "d", 0, compression="GZIP")
    with dataset.filler(concurrency=3) as filler:
        for i in range(101):
            filler.write_example({"i": i}, "train")
    assert numbers(tmp_path / "d") == list(range(101))
    dataset.check(show_progressbar=False)


def test_a_session_is_published_when_the_block_ends(tmp_path: Path) -> None:
    dataset = make_numbered(tmp_path / "d", 4)
    with dataset.filler() as filler:
        for i in range(4, 9):
            filler.write_example({"i": i}, "train")
        assert numbers(tmp_path / "d") == [0, 1, 2, 3]
    assert numbers(tmp_path / "d") == list(range(9))
    with pytest.raises(LookupError, match="stop"), dataset.filler() as filler:
        filler.write_example({"i": 9}, "train")
        raise LookupError("stop")
    assert numbers(tmp_path / "d") == list(range(10)), "what was written before an error is published"
    root = (tmp_path / "d" / "dataset_info.json").read_bytes()
    with dataset.filler():
        pass
    assert (tmp_path / "d" / "dataset_info.json").read_bytes() == root
    assert dataset.dataset_info.splits["train"].number_of_examples == 10


def test_fillers_of_two_dataset_objects_lose_nothing(tmp_path: Path) -> None:
    make_numbered(tmp_path / "d", 0)
    first, second, third = (Dataset(tmp_path / "d") for _ in range(3))
    with first.filler() as one_filler, second.filler() as other:
        one_filler.write_example({"i": 1}, "train")
        other.write_example({"i": 2}, "test")
    with third.filler() as filler:
        filler.write_example({"i": 3}, "train")
    assert (numbers(tmp_path / "d"), numbers(tmp_path / "d", "test")) == ([1, 3], [2])
    Dataset(tmp_path / "d").check(show_progressbar=False)


def test_fillers_in_threads(tmp_path: Path) -> None:
    make_numbered(tmp_path / "d", 0)

    def work(start: int) -> None:
        with Dataset(tmp_path / "d").filler(concurrency=1) as filler:
            for i in range(start, start + 5):
                filler.write_example({"i": i}, "train")

    threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 40, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers(tmp_path / "d")) == list(range(40))


def test_relative_paths_and_updated_infos(tmp_path: Path) -> None:
    dataset = make_numbered(tmp_path / "d", 2)
    filler = DatasetFiller(dataset, relative_path_from_split=Path("w/1"))
    assert filler.get_updated_infos() == []
    with filler:
        for i in range(2, 5):
            filler.write_example({"i": i}, "train")
        filler.write_example({"i": 9}, "test")
    infos = filler.get_updated_infos()
    counts = {info.shard_list_info_file.file_path.parts[0]: (info.number_of_examples, info.number_of_shards) for info in infos}
    assert (len(infos), counts) == (2, {"train": (3, 2), "test": (1, 1)})
    assert {info.shard_list_info_file.file_path.parts[:3] for info in infos} == {
        ("train", "w", "1"),
        ("test", "w", "1"),
    }
    assert numbers(tmp_path / "d") == [0, 1]
    saved = dataset.write_config(updated_infos=infos)
    assert isinstance(saved, FileInfo)
    assert (saved.file_path, saved.hash_checksums) == (Path("dataset_info.json"), dataset.current_metadata_checksums())
    assert dataset.dataset_info.splits["train"].number_of_examples == 5
    assert (numbers(tmp_path / "d"), numbers(tmp_path / "d", "test")) == ([0, 1, 2, 3, 4], [9])
    dataset.write_config(updated_infos=infos)
    assert numbers(tmp_path / "d") == [0, 1, 2, 3, 4], "naming the same shards again changes nothing"
    dataset.check(show_progressbar=False)


def test_automatic_update_can_be_chosen(tmp_path: Path) -> None:
    dataset = make_numbered(tmp_path / "d", 0)
    for relative, update, visible in ((".", False, False), (".", True, True), ("w", True, True), ("v", None, False)):
        filler = DatasetFiller(dataset, 1, Path(relative), update)
        before = len(numbers(tmp_path / "d")) if "train" in Dataset(tmp_path / "d").dataset_info.splits else 0
        with filler:
            filler.write_example({"i": before}, "train")
        found = Dataset(tmp_path / "d").dataset_info.splits
        assert ("train" in found and found["train"].number_of_examples > before) is visible, (relative, update)
        if not visible:
            assert len(filler.get_updated_infos()) == 1


@pytest.mark.parametrize("relative", ["../x", "a/../b", "/absolute"])
def test_a_relative_path_stays_inside_the_split(tmp_path: Path, relative: str) -> None:
    dataset = make_numbered(tmp_path / "d", 0)
    with pytest.raises(ValueError), DatasetFiller(dataset, relative_path_from_split=Path(relative)) as filler:
        filler.write_example({"i": 1}, "train")


def test_create_and_open(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        Dataset(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        Dataset(tmp_path)
    dataset = make_numbered(tmp_path / "d", 3)
    root = (tmp_path / "d" / "dataset_info.json").read_bytes()
    with pytest.raises(DatasetExistsError, match="already") as caught:
        Dataset.create(tmp_path / "d", Metadata(), DatasetStructure())
    assert isinstance(caught.value, FileExistsError) and isinstance(pickle.loads(pickle.dumps(caught.value)), FileExistsError)
    assert (tmp_path / "d" / "dataset_info.json").read_bytes() == root
    assert Dataset(str(tmp_path / "d")).path == dataset.path == tmp_path / "d"
    assert dataset.dataset_info == Dataset(tmp_path / "d").dataset_info
    (tmp_path / "there").mkdir()
    assert Dataset.create(tmp_path / "there", Metadata(), DatasetStructure()).dataset_info.splits == {}
    assert Dataset(tmp_path / "flag", create_dataset=True).dataset_info == DatasetInfo()
    assert len(list(Dataset(tmp_path / "d", create_dataset=True).shard_info_iterator("train"))) == 2


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        ({"compression": "ZIP"}, "ZIP"),
        ({"saved_data_description": [Attribute(name="a", dtype="int", shape=())] * 2}, "a"),
        ({"saved_data_description": [Attribute(name="a", dtype="object", shape=())]}, "object"),
        ({"saved_data_description": [Attribute(name="a", dtype="nonsense", shape=())]}, "nonsense"),
        ({"saved_data_description": [Attribute(name="a", dtype="S", shape=())]}, "S"),
        ({"shard_file_type": "npz", "compression": "GZIP"}, "GZIP"),
        ({"shard_file_type": "tfrec", "compression": "BZ2"}, "BZ2"),
    ],
)
def test_structures_that_cannot_be_written(tmp_path: Path, structure: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dataset.create(tmp_path / "d", Metadata(), DatasetStructure(**structure))
    assert not (tmp_path / "d" / "dataset_info.json").exists()


def test_metadata_is_saved_by_write_config_and_by_fillers(tmp_path: Path) -> None:
    dataset = make_numbered(tmp_path / "d", 1)
    dataset.metadata = Metadata(description="first", custom_metadata={"é": [1, 2**60]})
    assert Dataset(tmp_path / "d").metadata.description == ""
    dataset.write_config()
    assert Dataset(tmp_path / "d").metadata == dataset.metadata
    dataset.metadata.description = "second"
    with dataset.filler() as filler:
        filler.write_example({"i": 1}, "train")
    assert Dataset(tmp_path / "d").metadata.description == "second"
    dataset.dataset_structure.examples_per_shard = 7
    dataset.write_config()
    assert Dataset(tmp_path / "d").dataset_structure.examples_per_shard == 7
    with pytest.raises(AttributeError):
        dataset.dataset_info = DatasetInfo()  # type: ignore[misc]
    assert numbers(tmp_path / "d") == [0, 1]


def test_a_structure_that_was_set_is_used_by_the_next_filler(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path / "d", create_dataset=True)
    dataset.dataset_structure = DatasetStructure(
        saved_data_description=[Attribute(name="a", dtype="float32", shape=(2,))], examples_per_shard=3, compression="LZ4"
    )
    write(dataset, *np.arange(10, dtype="f4").reshape(5, 2))
    dataset.dataset_structure.examples_per_shard = 1
    write(dataset, np.zeros(2, "f4"), np.ones(2, "f4"))
    assert [info.number_of_examples for info in dataset.shard_info_iterator("train")] == [3, 2, 1, 1]
    assert np.stack(read(dataset)).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [0, 0], [1, 1]]
    [batch] = dataset.as_numpy_iterator_rust_batched(split="train", repeat=False, shuffle=0, batch_size=9)
    assert batch["a"].shape == (7, 2)
    assert Dataset(tmp_path / "d").dataset_structure == dataset.dataset_structure


def test_pickles(tmp_path: Path) -> None:
    dataset = make_numbered(tmp_path / "d", 2)
    dataset.metadata.description = "unsaved"
    again = pickle.loads(pickle.dumps(dataset))
    assert (again.path, again.metadata.description) == (dataset.path, "unsaved")
    filler = pickle.loads(pickle.dumps(DatasetFiller(dataset, relative_path_from_split=Path("w"))))
    with filler:
        filler.write_example({"i": 2}, "train")
        with pytest.raises(TypeError, match="inside its with block"):
            pickle.dumps(filler)
    used = pickle.loads(pickle.dumps(filler))
    assert used.get_updated_infos() == filler.get_updated_infos() != []
    again.write_config(updated_infos=used.get_updated_infos())
    assert numbers(tmp_path / "d") == [0, 1, 2]


def feed(filler: DatasetFiller, numbers_: list[int], split: Any = "train") -> tuple[int, int]:
    with filler:
        for i in numbers_:
            filler.write_example({"i": i}, split)
    return len(numbers_), os.getpid()


def feed_and_fail(filler: DatasetFiller, numbers_: list[int]) -> None:
    feed(filler, numbers_)
    raise LookupError("worker failed")


@pytest.mark.parametrize("single_process", [True, False])
def test_write_multiprocessing(tmp_path: Path, single_process: bool) -> None:
    dataset = make_numbered(tmp_path / "d", 1)
    results = dataset.write_multiprocessing(
        feed_writer=feed,
        custom_arguments=[([1, 2, 3],), ([7],), ([4, 5],)],
        custom_kwarguments=[{}, {"split": "test"}, {"split": "train"}],
        single_process=single_process,
    )
    assert [count for count, _ in results] == [3, 1, 2]
    assert all((process == os.getpid()) is single_process for _, process in results)
    assert (numbers(tmp_path / "d"), numbers(tmp_path / "d", "test")) == ([0, 1, 2, 3, 4, 5], [7])
    assert dataset.dataset_info.splits["train"].number_of_examples == 6
    with pytest.raises(LookupError, match="worker failed"):
        dataset.write_multiprocessing(feed_writer=feed_and_fail, custom_arguments=[([1],)], single_process=single_process)
    assert numbers(tmp_path / "d") == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="as many"):
        dataset.write_multiprocessing(feed_writer=feed, custom_arguments=[([1],)], custom_kwarguments=[{}, {}])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_read_and_write(tmp_path: Path, method: str) -> None:
    dataset = make(tmp_path / "d", 5, {"compression": "ZSTD"})
    iterator = dataset.as_numpy_iterator_rust(split="train", shuffle=0)
    next(iterator)
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        assert pool.map(read_all, [dataset] * 3) == [5] * 3
        pool.map(add_one, [dataset])
    assert_example(next(iterator), 1)
    assert read_all(Dataset(tmp_path / "d")) == 6


def read_all(dataset: Dataset) -> int:
    count = 0
    for count, found in enumerate(dataset.as_numpy_iterator_rust(split="train", repeat=False, shuffle=0), 1):
        assert_example(found, count - 1)
    return count


def add_one(dataset: Dataset) -> None:
    fill(dataset, [5])


def test_appending_leaves_what_was_handed_out(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", 4)
    iterator = dataset.as_numpy_iterator(split="train", repeat=False, shuffle=0)
    first = next(iterator)
    fill(dataset, range(4, 6))
    assert_example(first, 0)
    assert [e["number"] for e in iterator] == [example(i)["number"] for i in range(1, 4)]
    assert len(list(dataset.as_numpy_iterator(split="train", repeat=False, shuffle=0))) == 6
    assert list(KINDS) == list(first)


@pytest.mark.parametrize("path", [".hidden", "worker/.sigbank", "a/shards_list.json"])
def test_a_path_that_a_repair_would_not_find_is_refused(tmp_path: Path, path: str) -> None:
    filler = DatasetFiller(make_numbered(tmp_path / "d", 1), relative_path_from_split=Path(path))
    with pytest.raises(ValueError, match="relative path"), filler:
        filler.write_example({"i": 1}, "train")
