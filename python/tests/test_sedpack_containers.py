"""Every container hands out the same values, and npz shards pass between the reference and us."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sigbank
from sedpack_cases import needs_reference, reference
from sigbank.sedpack import io as ours

PROGRAM = os.environ.get("SIGBANK_PROGRAM", str(Path(sys.executable).parent / "sigbank"))

PAIRS = [
    *(("fb", compression) for compression in ("", "GZIP", "ZLIB", "BZ2", "LZMA", "LZ4", "ZSTD")),
    *(("npz", compression) for compression in ("", "ZIP")),
    *(("tfrec", compression) for compression in ("", "GZIP", "ZLIB")),
]
ITERATORS = ["as_numpy_iterator", "as_numpy_iterator_concurrent", "as_numpy_iterator_rust"]

# What users store beside arrays: the same values must come out of every container.
NUMBERS = [5, -1, 2**40, -(2**63), 2**63 - 1, 0, 7]
TEXTS = ["é", "", "日本\U0001f600", "plain", "e\u0301", "ß" * 100, " "]
BLOBS = [b"", b"\x00\x00a\x00", b"\xff", b"text", b"\x00", bytes(range(256)), b"a\x00"]
DTYPES = ["float16", "float32", "int8", "uint8", "int32", "int64"]


def cli(*args: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=60)


def attributes(io: Any, dtypes: list[str]) -> list[Any]:
    plain = [("number", "int", ()), ("text", "str", ()), ("blob", "bytes", ())]
    arrays = [(f"a_{dtype}", dtype, shape) for dtype, shape in zip(dtypes, [(3,), (2, 2), (), (1,)] * 9, strict=False)]
    return [io.Attribute(name=name, dtype=dtype, shape=shape) for name, dtype, shape in [*plain, *arrays]]


def example(n: int, described: list[Any]) -> dict[str, Any]:
    values: dict[str, Any] = {"number": NUMBERS[n % 7], "text": TEXTS[n % 7], "blob": BLOBS[n % 7]}
    for attribute in described[3:]:
        size = int(np.prod(attribute.shape, dtype=int))
        values[attribute.name] = (np.arange(size) * 3 + n).reshape(attribute.shape).astype(attribute.dtype)
    return values


def make(path: Path, file_type: str, compression: str, dtypes: list[str], count: int = 14, io: Any = ours) -> Any:
    described = attributes(io, dtypes)
    structure = io.DatasetStructure(
        saved_data_description=described, shard_file_type=file_type, compression=compression, examples_per_shard=4
    )
    dataset = io.Dataset.create(path, io.Metadata(), structure)
    for part in (range(count - 3), range(count - 3, count)):
        with dataset.filler() as filler:
            for n in part:
                filler.write_example(values=example(n, described), split="train")
    return dataset


def assert_example(found: dict[str, Any], n: int, described: list[Any], empty: bytes = b"") -> None:
    for name, value in example(n, described).items():
        if isinstance(value, np.ndarray):
            assert isinstance(found[name], np.ndarray) and found[name].dtype == value.dtype, (n, name)
            assert found[name].shape == value.shape and found[name].tobytes() == value.tobytes(), (n, name)
        else:
            assert type(found[name]) is type(value), (n, name)
            assert found[name] == (value if value != b"" else empty), (n, name)


@pytest.mark.parametrize(("file_type", "compression"), PAIRS)
def test_the_same_values_whatever_the_container(tmp_path: Path, file_type: str, compression: str) -> None:
    dataset = make(tmp_path / "d", file_type, compression, DTYPES)
    described = attributes(ours, DTYPES)
    for iterator in ITERATORS:
        found = list(getattr(dataset, iterator)(split="train", repeat=False, shuffle=0))
        assert len(found) == 14
        for n, one in enumerate(found):
            assert list(one) == [a.name for a in described]
            assert_example(one, n, described)
    n = 0
    for batch in dataset.as_numpy_iterator_rust_batched(split="train", repeat=False, shuffle=0, batch_size=5):
        for row in range(len(batch["text"])):
            assert_example({k: v[row] if isinstance(v, list) else np.asarray(v[row]) for k, v in batch.items()}, n, described)
            n += 1
    assert n == 14
    shuffled = [e["number"] for e in dataset.as_numpy_iterator(split="train", repeat=False, shuffle=100)]
    assert sorted(shuffled) == sorted(NUMBERS * 2)
    dataset.check(show_progressbar=False)
    neutral = sigbank.open(tmp_path / "d")
    assert [neutral[i]["number"] for i in (13, 0, 5)] == [NUMBERS[i % 7] for i in (13, 0, 5)]


@pytest.mark.parametrize("compression", ["", "ZIP"])
@needs_reference
def test_npz_both_ways(tmp_path: Path, compression: str) -> None:
    dtypes = [*DTYPES, "float64", "int16", "uint16", "uint32", "uint64", "bool", "complex64", "complex128"]
    mine = make(tmp_path / "mine", "npz", compression, dtypes)
    theirs = reference().Dataset(tmp_path / "mine")
    theirs.check(show_progressbar=False, hash_checksums_values=mine.current_metadata_checksums())
    described = attributes(ours, dtypes)
    for n, found in enumerate(theirs.as_numpy_iterator(split="train", repeat=False, shuffle=0)):
        for name, value in example(n, described).items():
            got = found[name]
            if isinstance(value, np.ndarray):
                assert np.array_equal(got, value) and np.asarray(got).dtype == value.dtype, (n, name)
            else:
                assert (bytes(got) if isinstance(value, bytes) else got) == value, (n, name)
    assert n == 13
    written = make(tmp_path / "theirs", "npz", compression, dtypes, io=reference())
    dataset = ours.Dataset(tmp_path / "theirs")
    dataset.check(show_progressbar=False, hash_checksums_values=written.current_metadata_checksums())
    for iterator in ITERATORS:
        for n, found in enumerate(getattr(dataset, iterator)(split="train", repeat=False, shuffle=0)):
            assert_example(found, n, described, empty=b"")


@needs_reference
def test_npz_values_of_another_dtype_than_declared(tmp_path: Path) -> None:
    """The reference stores what it is given, whatever is declared: such values come out as they are, one by one."""
    io = reference()
    structure = io.DatasetStructure(
        saved_data_description=[
            io.Attribute(name="trace", dtype="float32", shape=(3,)),
            io.Attribute(name="n", dtype="int", shape=()),
        ],
        shard_file_type="npz",
        compression="",
        examples_per_shard=4,
    )
    with io.Dataset.create(tmp_path / "d", io.Metadata(), structure).filler() as filler:
        for n in range(10):
            # The second shard is as declared, the others are not.
            dtype = "float32" if 4 <= n < 8 else "float64"
            filler.write_example(values={"trace": np.array([n, 0.1, 1e300 if dtype == "float64" else 1], dtype), "n": n}, split="train")
    dataset = ours.Dataset(tmp_path / "d")
    for iterator in ITERATORS:
        found = list(getattr(dataset, iterator)(split="train", repeat=False, shuffle=0))
        assert [one["n"] for one in found] == list(range(10))
        assert [str(one["trace"].dtype) for one in found] == ["float64"] * 4 + ["float32"] * 4 + ["float64"] * 2
        assert found[9]["trace"].tolist() == [9.0, 0.1, 1e300]
        found[9]["trace"][0] = 1  # writable, and nobody else's
    shards = list(dataset.shard_info_iterator("train"))
    one = list(dataset.example_iterator_from_shard_iterator(shard_iterator=iter([shards[2], shards[1]]), shuffle=0))
    assert [(e["n"], str(e["trace"].dtype)) for e in one] == [(8, "float64"), (9, "float64"), *((n, "float32") for n in range(4, 8))]
    with pytest.raises(ValueError, match=r"'trace': float64\[3\] is stored.*one by one"):
        list(dataset.as_numpy_iterator_rust_batched(split="train", repeat=False, shuffle=0, batch_size=2))
    with pytest.raises(ValueError, match=r"'trace': float32\[3\] is declared, float64\[3\] is stored"):
        dataset.check(show_progressbar=False)
    neutral = sigbank.open(tmp_path / "d")
    assert neutral[0]["trace"].dtype == "float64" and neutral[9]["trace"].tolist() == [9.0, 0.1, 1e300]
    assert neutral["train", 4]["trace"].dtype == "float32"
    shown = cli("show", tmp_path / "d", "9")
    assert "trace float32[3], stored as float64[3]: [9, 0.1000, 1.000e300]" in shown.stdout, shown
    assert json.loads(cli("show", tmp_path / "d", "9", "--json").stdout)["values"]["trace"]["stored_as"] == "float64[3]"


def test_a_text_that_ends_in_nul_is_refused_for_npz_only(tmp_path: Path) -> None:
    for file_type, refused in (("npz", True), ("fb", False), ("tfrec", False)):
        dataset = make(tmp_path / file_type, file_type, "", ["uint8"], count=3)
        with dataset.filler() as filler:
            values = {**example(0, attributes(ours, ["uint8"])), "text": "ends\0"}
            if refused:
                with pytest.raises(ValueError, match="text.*NUL"):
                    filler.write_example(values=values, split="train")
            else:
                filler.write_example(values=values, split="train")
        assert len(sigbank.open(tmp_path / file_type)) == (3 if refused else 4)


@pytest.mark.parametrize(
    ("file_type", "compression"), [("npz", "GZIP"), ("npz", "LZ4"), ("tfrec", "ZSTD"), ("tfrec", "ZIP"), ("fb", "ZIP")]
)
def test_an_unsupported_pair_is_refused_when_the_dataset_is_made(tmp_path: Path, file_type: str, compression: str) -> None:
    with pytest.raises(ValueError, match=f"'{file_type}' shards cannot have compression '{compression}'"):
        make(tmp_path / "d", file_type, compression, ["uint8"])
    assert not (tmp_path / "d" / "dataset_info.json").exists()


def test_what_tfrec_cannot_hold_is_refused_with_what_to_use(tmp_path: Path) -> None:
    for dtype in ("float64", "int16", "uint16", "bool", "complex64"):
        with pytest.raises(ValueError, match=f"a_{dtype}.*{dtype}"):
            make(tmp_path / dtype, "tfrec", "", [dtype])

def archive(dataset: Any) -> Path:
    (path,) = dataset.shard_paths_dataset("train")
    return Path(path)


def sign(dataset: Any) -> None:
    """Makes the lists' checksums those of a shard that was changed."""

    def put(listed: dict[str, Any]) -> None:
        listed["hash_checksums"] = [hashlib.sha256((dataset.path / listed["file_path"]).read_bytes()).hexdigest()]

    lists = sorted(dataset.path.rglob("shards_list.json"), key=lambda p: -len(p.parts))
    for path in lists:
        content = json.loads(path.read_text())
        for entry in content.get("shard_files", []):
            for listed in entry["file_infos"]:
                put(listed)
        for child in content.get("children_shard_lists", []):
            put(child["shard_list_info_file"])
        path.write_text(json.dumps(content))
    root = dataset.path / "dataset_info.json"
    content = json.loads(root.read_text())
    for split in content["splits"].values():
        put(split["shard_list_info_file"])
    root.write_text(json.dumps(content))


def stored(path: Path, declared: str, values: np.ndarray, compression: str = "") -> Any:
    """A dataset whose npz shard stores an attribute `v` otherwise than declared, next to an `i` that counts."""
    structure = ours.DatasetStructure(
        saved_data_description=[
            ours.Attribute(name="v", dtype=declared, shape=()),
            ours.Attribute(name="i", dtype="int", shape=()),
        ],
        shard_file_type="npz",
        compression=compression,
        examples_per_shard=len(values),
    )
    dataset = ours.Dataset.create(path, ours.Metadata(), structure)
    with dataset.filler() as filler:
        for i in range(len(values)):
            filler.write_example(values={"v": {"int": 0, "str": ""}[declared], "i": i}, split="train")
    shard = archive(dataset)
    save = np.savez_compressed if compression else np.savez
    with shard.open("wb") as file:
        save(file, v=values, i=np.arange(len(values)))
    sign(dataset)
    return ours.Dataset(path)


def one_by_one(dataset: Any) -> dict[str, list[dict[str, Any]]]:
    """The examples of a split from every iterator of single examples."""
    options: dict[str, Any] = {"split": "train", "repeat": False, "shuffle": 0}

    async def collected() -> list[dict[str, Any]]:
        return [example async for example in dataset.as_numpy_iterator_async(**options)]

    found = {name: list(getattr(dataset, name)(**options)) for name in ITERATORS}
    found["async"] = asyncio.run(collected())
    shards = dataset.shard_info_iterator("train")
    found["shards"] = list(dataset.example_iterator_from_shard_iterator(shard_iterator=shards, shuffle=0))
    return found


@pytest.mark.parametrize("compression", ["", "ZIP"])
@pytest.mark.parametrize(
    ("declared", "values"),
    [
        ("int", np.array([1, 2**63, 2**64 - 1], "uint64")),
        ("int", np.array([1, -2, 2.0**70])),
        ("int", np.array([1, -2, 3], "float16")),
        ("int", np.array(["1", "2_0", "-3"])),
        ("int", np.array([5, 6, 2**40], ">i8")),
        ("int", np.array([1.5, -2.7, 3])),
        ("str", np.array([b"a", b"bb", b""])),
        ("str", np.array([b"\xff", b"a\0b", b"c"])),
        ("str", np.array([0.1, 2, 3], "float32")),
        ("str", np.array([7, 8, 9])),
    ],
    ids=lambda v: str(v.dtype) if isinstance(v, np.ndarray) else v,
)
@needs_reference
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_int_and_str_stored_as_another_type(tmp_path: Path, declared: str, values: np.ndarray, compression: str) -> None:
    """Single examples are those of the reference; an index keeps what is stored."""
    dataset = stored(tmp_path / "d", declared, values, compression)
    theirs = [e["v"] for e in reference().Dataset(tmp_path / "d").as_numpy_iterator(split="train", repeat=False, shuffle=0)]
    for name, found in one_by_one(dataset).items():
        assert [e["i"] for e in found] == [0, 1, 2]
        assert [(type(e["v"]), e["v"]) for e in found] == [(type(v), v) for v in theirs], name
    neutral = sigbank.open(tmp_path / "d")
    if declared == "int" and values.dtype.kind == "i":
        # Every integer that `int` holds is one, whatever its width.
        assert [neutral[i]["v"] for i in range(3)] == values.tolist()
        return
    for i in (2, 0, 1):
        for one in (neutral[i], neutral["train", i], neutral[i : i + 1][0]):
            assert one["v"] == values[i] and one["i"] == i
            if declared == "str" or values.dtype != "uint64" or values[i] >= 2**63:
                assert type(one["v"]) is type(values[i]) and one["v"].dtype == values[i].dtype, one
    batched = lambda: list(dataset.as_numpy_iterator_rust_batched(split="train", repeat=False, shuffle=0, batch_size=2))  # noqa: E731
    for refused in (batched, lambda: list(neutral.batches("train", 2))):
        with pytest.raises(ValueError, match=r"attribute 'v': .* is stored.*one by one \(in Python: sigbank\.open"):
            refused()
    shown = cli("show", tmp_path / "d", "1")
    assert shown.returncode == 0 and f"v {declared}, stored as " in shown.stdout, shown
    assert cli("show", tmp_path / "d", "1", "--json").returncode == 0


def test_what_int_changes_is_said_once(tmp_path: Path) -> None:
    dataset = stored(tmp_path / "d", "int", np.array([1.0, 2.5, 3.5]))
    with pytest.warns(UserWarning, match=r"'v': float64 is stored where int is declared; .*2\.5.* is handed out as 2") as said:
        found = list(dataset.as_numpy_iterator(split="train", repeat=False, shuffle=0))
    assert [e["v"] for e in found] == [1, 2, 3] and len(said) == 1
    whole = stored(tmp_path / "whole", "int", np.array([1.0, 2.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [e["v"] for e in whole.as_numpy_iterator(split="train", repeat=False, shuffle=0)] == [1, 2]


@pytest.mark.parametrize("values", [np.array([1, np.nan]), np.array([1, np.inf]), np.array(["1", "x"]), np.zeros((2, 3))])
def test_what_int_refuses_is_refused_by_name_and_an_index_gives_it(tmp_path: Path, values: np.ndarray) -> None:
    dataset = stored(tmp_path / "d", "int", values)
    with pytest.raises(ValueError, match=r"attribute 'v': .* is stored where int is declared, and .*sigbank\.open\(path\)\[i\]"):
        list(dataset.as_numpy_iterator(split="train", repeat=False, shuffle=0))
    np.testing.assert_array_equal(sigbank.open(tmp_path / "d")[1]["v"], values[1])


def flipped(path: Path, at: float, count: int = 400) -> Any:
    """One stored shard of 1.6 kB examples, with a byte of the values flipped."""
    structure = ours.DatasetStructure(
        saved_data_description=[
            ours.Attribute(name="x", dtype="float32", shape=(400,)),
            ours.Attribute(name="n", dtype="int", shape=()),
        ],
        shard_file_type="npz",
        compression="",
        examples_per_shard=count,
    )
    dataset = ours.Dataset.create(path, ours.Metadata(), structure)
    with dataset.filler() as filler:
        for n in range(count):
            filler.write_example(values={"x": np.full(400, n, "float32"), "n": n}, split="train")
    shard = archive(dataset)
    damaged = bytearray(shard.read_bytes())
    damaged[int(len(damaged) * at)] ^= 0x10
    shard.write_bytes(damaged)
    return ours.Dataset(path)


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9])
def test_a_flipped_byte_is_found_before_the_first_value_whatever_is_read(tmp_path: Path, at: float) -> None:
    flipped(tmp_path / "d", at, 2_000)

    def refused(read: Callable[[], Iterable[Any]]) -> None:
        given = []
        with pytest.raises(ValueError, match=r"member 'x\.npy': the CRC-32"):
            given.extend(iter(read()))
        assert given == []

    for size in (1, 7, 50, 400, 2_000):
        for shuffle in (0, 100, 10_000):
            options: dict[str, Any] = {"split": "train", "repeat": False, "shuffle": shuffle}
            dataset = ours.Dataset(tmp_path / "d")
            refused(lambda: dataset.as_numpy_iterator_rust_batched(batch_size=size, **options))  # noqa: B023
            for iterator in ITERATORS:
                refused(lambda: getattr(dataset, iterator)(**options))  # noqa: B023
        for mixed in (False, 100, True):
            refused(lambda: sigbank.open(tmp_path / "d").batches("train", size, mixed, fields=["x"]))  # noqa: B023
    opened = sigbank.open(tmp_path / "d")
    # What is stored elsewhere is whole, and one example of a large shard is not worth reading all of it.
    assert sum(b["n"].sum() if isinstance(b["n"], np.ndarray) else sum(b["n"]) for b in opened.batches("train", 7, fields=["n"])) == 1_999_000
    assert len({opened[i]["x"][0] for i in (0, 1_999)}) == 2
    shards = ours.Dataset(tmp_path / "d").shard_info_iterator("train")
    refused(lambda: ours.Dataset(tmp_path / "d").example_iterator_from_shard_iterator(shard_iterator=shards, shuffle=0))


def test_of_a_small_shard_one_example_is_enough_to_find_a_flipped_byte(tmp_path: Path) -> None:
    flipped(tmp_path / "d", 0.9, 400)
    with pytest.raises(ValueError, match=r"member 'x\.npy': the CRC-32"):
        sigbank.open(tmp_path / "d")[0]


def test_a_check_refuses_npz_shards_that_cannot_be_read(tmp_path: Path) -> None:
    dataset = flipped(tmp_path / "crc", 0.5)
    sign(dataset)
    surrogate = stored(tmp_path / "text", "str", np.array(["a", "\udc80", ""]))
    for path, says in (("crc", r"member 'x\.npy': the CRC-32"), ("text", r"member 'v\.npy', record 1: 0xdc80")):
        with pytest.raises(ValueError, match=says):
            ours.Dataset(tmp_path / path).check(show_progressbar=False)
        with pytest.raises(ValueError, match=says):
            list(ours.Dataset(tmp_path / path).as_numpy_iterator(split="train", repeat=False, shuffle=0))
        assert cli("check", tmp_path / path).returncode == 1
    assert surrogate.dataset_info is not None


def test_names_too_long_for_npz_are_refused_and_info_shows_long_ones(tmp_path: Path) -> None:
    def create(name: str, file_type: str, length: int) -> Any:
        structure = ours.DatasetStructure(
            saved_data_description=[
                ours.Attribute(name="n" * length, dtype="bytes", shape=()),
                ours.Attribute(name="x", dtype="float32", shape=(2,)),
            ],
            shard_file_type=file_type,
            compression="",
        )
        return ours.Dataset.create(tmp_path / name, ours.Metadata(), structure)

    with pytest.raises(ValueError, match="'nnnn.*zip can hold 65535: shorten"):
        create("npz", "npz", 70_000)
    create("fb", "fb", 70_000)
    told = cli("info", tmp_path / "fb")
    assert told.returncode == 0 and "n" * 70_000 + " bytes" in told.stdout and "x" + " " * 39 + " float32[2]" in told.stdout, told.stderr


def test_what_datasets_and_iterators_are_called(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", "npz", "", ["uint8"])
    opened = sigbank.open(tmp_path / "d")
    assert repr(opened) == f'Dataset("{tmp_path / "d"}", sedpack, train 14)'
    assert repr(dataset) == f"Dataset({str(tmp_path / 'd')!r}, npz shards, train 14)"
    assert repr(opened.batches("train", 3)) == f'BatchIterator({tmp_path / "d"}, split "train", batches of 3)'
    examples = dataset.as_numpy_iterator(split="train", repeat=False)
    assert repr(examples) == f'ExampleIterator({tmp_path / "d"}, split "train")'
    of_shards = dataset.example_iterator_from_shard_iterator(shard_iterator=dataset.shard_info_iterator("train"), shuffle=0)
    assert repr(of_shards) == f"ExampleIterator({tmp_path / 'd'}, a stream of shards)"
