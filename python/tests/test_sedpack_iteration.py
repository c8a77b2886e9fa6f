"""What the iterators select, in which order, and what they hand out."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_kinds import KINDS
from sedpack_cases import assert_example, make, make_numbered
from sigbank.sedpack import BalancedShardInfoIterator, CachedShardInfoIterator, Dataset, ShardInfo, ShardInfoIterator
from sigbank.sedpack.io import Attribute, DatasetStructure, Metadata
from sigbank.sedpack.io.iteration import RustBatchedGenerator, RustGenerator

SINGLES = ["as_numpy_iterator", "as_numpy_iterator_concurrent", "as_numpy_iterator_rust"]
ITERATORS = [*SINGLES, "as_numpy_iterator_rust_batched"]


@pytest.fixture
def numbered(tmp_path: Path) -> Dataset:
    """24 examples in 12 shards of 2; shard n has the custom metadata {"k": n % 3}."""
    return make_numbered(tmp_path / "numbered", 24)


def numbers(dataset: Dataset, iterator: str = "as_numpy_iterator", count: int | None = None, **options: Any) -> list[int]:
    """The numbers that an iterator hands out, batches flattened."""
    items = getattr(dataset, iterator)(**{"split": "train", "repeat": False, "shuffle": 0, **options})
    found: list[int] = []
    for item in itertools.islice(items, count):
        found += item["i"] if isinstance(item["i"], list) else [item["i"]]
    return found


@pytest.mark.parametrize("iterator", ITERATORS)
def test_stored_order_and_selection(numbered: Dataset, iterator: str) -> None:
    def is_one(info: ShardInfo) -> bool:
        return bool(info.custom_metadata["k"] == 1)

    assert numbers(numbered, iterator) == list(range(24))
    assert numbers(numbered, iterator, shards=3) == list(range(6))
    assert numbers(numbered, iterator, shards=0) == list(range(24))
    assert numbers(numbered, iterator, shards=99) == list(range(24))
    assert numbers(numbered, iterator, shard_filter=is_one) == [2, 3, 8, 9, 14, 15, 20, 21]
    assert numbers(numbered, iterator, shard_filter=is_one, shards=2) == [2, 3, 8, 9]
    assert numbers(numbered, iterator, custom_metadata_type_limit=2) == list(range(12))
    assert numbers(numbered, iterator, custom_metadata_type_limit=0) == list(range(24))
    assert numbers(numbered, iterator, custom_metadata_type_limit=1, shards=2) == [0, 1, 2, 3]
    assert numbers(numbered, iterator, custom_metadata_type_limit=1, shards=2, shard_filter=lambda info: not is_one(info)) == [
        0,
        1,
        4,
        5,
    ]


@pytest.mark.parametrize("iterator", ITERATORS)
def test_repeat_starts_again(numbered: Dataset, iterator: str) -> None:
    assert numbers(numbered, iterator, 10, repeat=True, shards=2) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    signature = getattr(numbered, iterator)(split="train", shards=1)
    assert len(list(itertools.islice(signature, 5))) == 5, "repeat is the default"


@pytest.mark.parametrize("iterator", ITERATORS)
@pytest.mark.parametrize("shuffle", [1, 5, 1_000])
def test_shuffle_gives_every_example_once_in_each_epoch(numbered: Dataset, iterator: str, shuffle: int) -> None:
    once = numbers(numbered, iterator, shuffle=shuffle)
    assert sorted(once) == list(range(24))
    if shuffle > 1:
        orders = {tuple(numbers(numbered, iterator, shuffle=shuffle)) for _ in range(4)}
        assert len(orders) > 1, "each iteration has an order of its own"


def test_batches(numbered: Dataset) -> None:
    def batches(count: int | None = None, **options: Any) -> list[Any]:
        given = {"split": "train", "repeat": False, "shuffle": 0, **options}
        return [batch["i"] for batch in itertools.islice(numbered.as_numpy_iterator_rust_batched(**given), count)]

    assert batches(batch_size=10) == [list(range(10)), list(range(10, 20)), [20, 21, 22, 23]]
    assert batches(batch_size=100) == [list(range(24))]
    assert batches(2) == [[0], [1]]
    # With repeat the batches run across epochs, so that none is short.
    assert batches(3, batch_size=5, shards=3, repeat=True) == [[0, 1, 2, 3, 4], [5, 0, 1, 2, 3], [4, 5, 0, 1, 2]]
    assert sorted(itertools.chain(*batches(batch_size=5, shuffle=7))) == list(range(24))


def test_callbacks(numbered: Dataset) -> None:
    for iterator in SINGLES:
        doubled = getattr(numbered, iterator)(
            split="train", repeat=False, shuffle=0, process_record=lambda example: example["i"] * 2
        )
        assert list(doubled) == list(range(0, 48, 2))
    sums = numbered.as_numpy_iterator_rust_batched(
        split="train", repeat=False, shuffle=0, batch_size=12, process_batch=lambda batch: sum(batch["i"])
    )
    assert list(sums) == [sum(range(12)), sum(range(12, 24))]


@pytest.mark.parametrize("iterator", SINGLES)
def test_an_error_in_a_callback_reaches_the_caller(numbered: Dataset, iterator: str) -> None:
    def refuse(example: dict[str, Any]) -> None:
        raise LookupError(example["i"])

    with pytest.raises(LookupError, match="0"):
        next(iter(getattr(numbered, iterator)(split="train", repeat=False, shuffle=0, process_record=refuse)))
    with pytest.raises(LookupError, match="shard 2"):
        numbers(numbered, iterator, shard_filter=_raiser(LookupError("shard 2")))


def _raiser(error: Exception) -> Callable[[ShardInfo], bool]:
    def refuse(info: ShardInfo) -> bool:
        raise error

    return refuse


def test_asynchronous_iteration(numbered: Dataset) -> None:
    async def collect(**options: Any) -> list[Any]:
        given = {"split": "train", "repeat": False, "shuffle": 0, **options}
        return [item async for item in numbered.as_numpy_iterator_async(**given)]

    async def first(count: int) -> list[int]:
        found: list[int] = []
        async for example in numbered.as_numpy_iterator_async(split="train", shuffle=0, shards=1):
            found.append(example["i"])
            if len(found) == count:
                break
        return found

    assert [example["i"] for example in asyncio.run(collect())] == list(range(24))
    assert asyncio.run(collect(process_record=lambda example: -example["i"], shards=1)) == [0, -1]
    assert asyncio.run(first(70)) == [0, 1] * 35
    with pytest.raises(KeyError):
        asyncio.run(collect(split="test"))


def test_given_shards_in_a_given_order(numbered: Dataset) -> None:
    infos = list(numbered.shard_info_iterator("train"))
    read = numbered.example_iterator_from_shard_iterator
    assert [e["i"] for e in read(shard_iterator=infos[:-4:-1], shuffle=0)] == [22, 23, 20, 21, 18, 19]
    endless = read(shard_iterator=itertools.cycle(infos[:2]), shuffle=0, process_record=lambda e: e["i"])
    assert list(itertools.islice(endless, 9)) == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert list(read(shard_iterator=[], shuffle=0)) == []
    assert sorted(e["i"] for e in read(shard_iterator=iter(infos))) == list(range(24))
    common = {"dataset_path": numbered.path, "dataset_structure": numbered.dataset_structure}
    with RustGenerator(**common, shard_iterator=infos[3:5]) as generator:
        assert [e["i"] for e in generator()] == [6, 7, 8, 9]
    with RustBatchedGenerator(**common, shard_iterator=infos[3:5], batch_size=3, process_batch=dict) as batched:
        assert [batch["i"] for batch in batched()] == [[6, 7, 8], [9]]


def test_an_error_while_giving_shards_reaches_the_caller(numbered: Dataset) -> None:
    def shards() -> Any:
        yield from itertools.islice(numbered.shard_info_iterator("train"), 1)
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        list(numbered.example_iterator_from_shard_iterator(shard_iterator=shards(), shuffle=0))


def test_shard_info_iterators(numbered: Dataset) -> None:
    common: dict[str, Any] = {"dataset_path": numbered.path, "dataset_info": numbered.dataset_info}
    paths = [info.file_infos[0].file_path for info in numbered.shard_info_iterator("train")]

    def order(iterator: Any, count: int | None = None) -> list[int]:
        return [paths.index(info.file_infos[0].file_path) for info in itertools.islice(iterator, count)]

    every = list(range(12))
    assert len(numbered.shard_info_iterator("train")) == 12
    assert order(numbered.shard_info_iterator(None)) == every
    assert order(ShardInfoIterator(**common, split="train", repeat=True), 26) == [*every, *every, 0, 1]
    with pytest.raises(ValueError, match="no length"):
        len(ShardInfoIterator(**common, split="train", repeat=True))
    cached = CachedShardInfoIterator(**common, split="train", shards=3)
    assert (cached.number_of_shards(), order(cached), order(cached)) == (3, [0, 1, 2], [])
    assert order(CachedShardInfoIterator(**common, split="train", shards=3, repeat=True), 7) == [0, 1, 2, 0, 1, 2, 0]
    assert sorted(order(CachedShardInfoIterator(**common, split=None, shuffle=5))) == every
    assert order(CachedShardInfoIterator(**common, split="train", custom_metadata_type_limit=1)) == [0, 1, 2]
    assert order(CachedShardInfoIterator(**common, split="train", shard_filter=lambda info: False)) == []
    with pytest.raises(KeyError):
        CachedShardInfoIterator(**common, split="test")
    balanced = BalancedShardInfoIterator(
        **common, split="train", repeat=False, balance_by=(lambda info: info.custom_metadata["k"] == 0,)
    )
    assert order(balanced) == [0, 1, 3, 2, 6, 4, 9, 5, 7, 8, 10, 11]
    endless = BalancedShardInfoIterator(**common, split="train", balance_by=(lambda info: info.custom_metadata["k"] == 0,))
    assert order(endless, 12) == [0, 1, 3, 2, 6, 4, 9, 5, 0, 7, 3, 8]


def test_balance_is_by_examples(tmp_path: Path) -> None:
    described = DatasetStructure(
        saved_data_description=[Attribute(name="i", dtype="int", shape=())], examples_per_shard=4, compression=""
    )
    dataset = Dataset.create(tmp_path / "d", Metadata(), described)
    sizes = [("a", 4), ("b", 1), ("a", 4), ("b", 1), ("b", 1), ("b", 1), ("b", 1), ("a", 4), ("b", 4)]
    with dataset.filler() as filler:
        for shard, (kind, size) in enumerate(sizes):
            for _ in range(size):
                filler.write_example({"i": shard}, "train", {"kind": kind, "shard": shard})
    balanced = BalancedShardInfoIterator(
        dataset_path=dataset.path,
        dataset_info=dataset.dataset_info,
        split="train",
        repeat=False,
        balance_by=(lambda info: info.custom_metadata["kind"],),
    )
    assert [info.custom_metadata["shard"] for info in balanced] == [0, 1, 3, 4, 5, 2, 6, 8, 7]


def test_shard_paths(numbered: Dataset) -> None:
    paths = numbered.shard_paths_dataset("train", 2)
    assert [Path(path).relative_to(numbered.path).parts[0] for path in paths] == ["train", "train"]
    assert all(isinstance(path, str) and Path(path).is_file() for path in paths)
    assert len(numbered.shard_paths_dataset(split="train")) == 12
    with pytest.raises(ValueError, match="no shard"):
        numbered.shard_paths_dataset("train", shard_filter=lambda info: False)


@pytest.mark.parametrize("iterator", ITERATORS)
def test_wrong_arguments(numbered: Dataset, iterator: str) -> None:
    for split in ("test", "valid"):
        with pytest.raises(KeyError, match=split):
            numbers(numbered, iterator, split=split)
    with pytest.raises(ValueError, match="no shard of the 12 in the split 'train' is selected"):
        numbers(numbered, iterator, shard_filter=lambda info: False)
    for wrong in ({"shards": -1}, {"shuffle": -1}, {"custom_metadata_type_limit": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} to be 0 or more"):
            numbers(numbered, iterator, **wrong)
    if iterator != "as_numpy_iterator":
        with pytest.raises(ValueError, match="file_parallelism to be at least 1"):
            numbers(numbered, iterator, file_parallelism=0)
    if iterator == "as_numpy_iterator_rust_batched":
        with pytest.raises(ValueError, match="batch_size to be at least 1"):
            numbers(numbered, iterator, batch_size=0)
    with pytest.raises(ValueError, match="no split 'test'"):
        numbered.shard_info_iterator("test")
    with pytest.raises(TypeError):
        getattr(numbered, iterator)("train")


@pytest.mark.parametrize("iterator", ["as_numpy_iterator_rust", "as_numpy_iterator_rust_batched"])
def test_what_is_handed_out_can_be_written_into(tmp_path: Path, iterator: str) -> None:
    dataset = make(tmp_path / "d", 6, {"compression": ""})
    options = {"split": "train", "repeat": False, "shuffle": 0}
    items = list(getattr(dataset, iterator)(**options))
    arrays = [value for item in items for value in item.values() if isinstance(value, np.ndarray)]
    for array in arrays:
        assert array.flags.writeable and array.flags.c_contiguous and array.flags.aligned
    before = [array.tobytes() for array in arrays]
    arrays[4].view("u1")[...] ^= 255
    assert [array.tobytes() == bytes_ for array, bytes_ in zip(arrays, before, strict=True)].count(False) == 1
    for index, example in enumerate(dataset.as_numpy_iterator(**options)):
        assert_example(example, index)


def test_batches_of_every_kind(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", 5)
    [batch] = dataset.as_numpy_iterator_rust_batched(split="train", repeat=False, shuffle=0, batch_size=8)
    assert list(batch) == list(KINDS)
    for name, (dtype, shape, value) in KINDS.items():
        if dtype in ("int", "str", "bytes"):
            expected = [bytes(value(i)) if dtype == "bytes" else value(i) for i in range(5)]
            assert isinstance(batch[name], list) and batch[name] == expected, name
        else:
            assert batch[name].shape == (5, *shape) and batch[name].dtype == np.dtype(dtype).newbyteorder("<"), name


def test_abandoned_iterators_and_threads(numbered: Dataset) -> None:
    for _ in range(20):
        iterators = [numbered.as_numpy_iterator_rust(split="train") for _ in range(3)]
        assert [next(iterator)["i"] >= 0 for iterator in iterators] == [True] * 3
        del iterators
