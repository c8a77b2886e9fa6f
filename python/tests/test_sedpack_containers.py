"""Every container hands out the same values, and npz shards pass between the reference and us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sigbank
from sedpack_cases import needs_reference, reference
from sigbank.sedpack import io as ours

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
    with pytest.raises(ValueError, match=r"'trace' is stored as float64\[3\].*single examples"):
        list(dataset.as_numpy_iterator_rust_batched(split="train", repeat=False, shuffle=0, batch_size=2))
    with pytest.raises(ValueError, match=r"'trace': float32\[3\] is declared, float64\[3\] is stored"):
        dataset.check(show_progressbar=False)
    with pytest.raises(ValueError, match="float64"):
        sigbank.open(tmp_path / "d")[0]


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
