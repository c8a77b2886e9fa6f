"""`as_tfdataset`, and TensorFlow and the reference with it on tfrec shards. Run by `make test-tensorflow`, in an environment of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sedpack.io as theirs
import tensorflow as tf
from sigbank.sedpack import io as ours

# Kinds that every container holds, and more that `fb` and `npz` do.
COMMON = {
    "trace": ("float32", (5,)),
    "half": ("float16", (2, 2)),
    "image": ("uint8", (3,)),
    "small": ("int8", ()),
    "word": ("int32", (2,)),
    "wide": ("int64", ()),
    "number": ("int", ()),
    "text": ("str", ()),
    "blob": ("bytes", ()),
    "fixed": ("bytes", (4,)),
}
MORE = {
    "double": ("float64", (2,)),
    "flag": ("bool", (2,)),
    "sample": ("uint16", (2,)),
    "counter": ("uint64", ()),
    "iq": ("complex64", (2,)),
    "code": ("S5", (2,)),
    "label": ("U5", ()),
}
PAIRS = [("fb", ""), ("fb", "LZ4"), ("npz", ""), ("npz", "ZIP"), ("tfrec", ""), ("tfrec", "GZIP"), ("tfrec", "ZLIB")]
NUMBERS = [5, -1, 2**40, -(2**63), 0]
TEXTS = ["é", "", "日本", "plain"]
# The reference stores an empty value as one zero byte, so there is none where it writes.
BLOBS = [b"\x00\x00a\x00", b"x", b"\xff\x00"]


def kinds(file_type: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {**COMMON, **({} if file_type == "tfrec" else MORE)}


def example(n: int, file_type: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, (dtype, shape) in kinds(file_type).items():
        size = int(np.prod(shape, dtype=int))
        if dtype == "int":
            values[name] = NUMBERS[n % len(NUMBERS)]
        elif dtype == "str":
            values[name] = TEXTS[n % len(TEXTS)]
        elif dtype == "bytes":
            values[name] = BLOBS[n % len(BLOBS)] if not shape else bytes([0, n, 255, 0])
        elif dtype[0] in "SU":
            values[name] = np.array([f"v{n}"] * size).reshape(shape).astype(dtype)
        else:
            values[name] = (np.arange(size).reshape(shape) + n).astype(dtype)
    return values


def make(path: Path, file_type: str, compression: str, count: int, package: Any = ours, **more: Any) -> Any:
    described = kinds(file_type)
    if package is theirs:
        del described["fixed"]  # its tfrec cannot hold bytes of a fixed length
    attributes = [package.Attribute(name=name, dtype=dtype, shape=shape) for name, (dtype, shape) in described.items()]
    structure = package.DatasetStructure(
        saved_data_description=attributes, shard_file_type=file_type, compression=compression, examples_per_shard=4, **more
    )
    dataset = package.Dataset.create(path, package.Metadata(), structure)
    with dataset.filler() as filler:
        for n in range(count):
            values = example(n, file_type)
            filler.write_example(values={name: values[name] for name in described}, split="train")
    return dataset


def same(found: Any, want: Any) -> bool:
    """Equal values; bytes to the last NUL, which arrays of bytes would lose."""
    return found == want if isinstance(want, bytes | str | int) else np.array_equal(np.asarray(found), np.asarray(want))


def expected(value: Any, dtype: str) -> Any:
    """A value as TensorFlow's arrays have it: text in UTF-8."""
    if dtype == "str":
        return value.encode()
    if dtype[0] == "U":
        return np.char.encode(value, "utf-8").astype(object)
    return value.astype(object) if dtype[0] == "S" else value


def assert_batches(batches: Any, sizes: list[int], file_type: str) -> None:
    n = 0
    for batch, size in zip(batches, sizes, strict=True):
        for name, (dtype, shape) in kinds(file_type).items():
            if name == "fixed" and name not in batch:
                continue  # not in what the reference writes
            tensor = batch[name]
            plain = {"int": "int64", "str": "string", "bytes": "string"}.get(dtype) or ("string" if dtype[0] in "SU" else dtype)
            assert tensor.dtype == tf.as_dtype(plain), name
            assert tensor.shape == (size, *(() if dtype == "bytes" else shape)), name
            for row in range(size):
                want = expected(example(n + row, file_type)[name], dtype)
                assert same(tensor[row].numpy(), want), (name, n + row)
        n += size


@pytest.mark.parametrize(("file_type", "compression"), PAIRS)
def test_batches_have_the_declared_dtypes_and_values(tmp_path: Path, file_type: str, compression: str) -> None:
    dataset = make(tmp_path / "d", file_type, compression, 11)
    batches = dataset.as_tfdataset("train", batch_size=4, repeat=False, shuffle=0)
    assert_batches(batches, [4, 4, 3], file_type)
    assert_batches(batches, [4, 4, 3], file_type)  # each iteration begins anew


@pytest.mark.parametrize("file_type", ["fb", "npz", "tfrec"])
def test_process_record_is_traced_before_batching(tmp_path: Path, file_type: str) -> None:
    dataset = make(tmp_path / "d", file_type, "", 9)
    seen = []

    def process(record: dict[str, Any]) -> tuple[Any, Any]:
        seen.append({name: value.shape.as_list() for name, value in record.items()})
        return tf.reduce_sum(record["trace"]), record["image"]

    made = dataset.as_tfdataset("train", process_record=process, batch_size=5, repeat=False, shuffle=0, prefetch=0)
    sums = np.concatenate([batch[0].numpy() for batch in made])
    assert sums.tolist() == [float(sum(range(n, n + 5))) for n in range(9)]
    assert seen == [{name: [] if dtype == "bytes" else list(shape) for name, (dtype, shape) in kinds(file_type).items()}]


def test_without_batches_repeated_and_shuffled(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", "npz", "", 10)
    single = dataset.as_tfdataset("train", batch_size=0, repeat=False, shuffle=0)
    assert [int(e["counter"]) for e in single] == list(range(10))
    assert single.element_spec["image"] == tf.TensorSpec((3,), tf.uint8)
    once = [int(e["counter"]) for e in dataset.as_tfdataset("train", batch_size=-1, repeat=False, shuffle=100)]
    assert sorted(once) == list(range(10)) and once != list(range(10))
    endless = dataset.as_tfdataset("train", batch_size=4, shuffle=0).take(5)
    assert np.concatenate([b["counter"].numpy() for b in endless]).tolist() == [n % 10 for n in range(20)]


def test_shards_of_paths(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", "tfrec", "GZIP", 10)
    paths = dataset.shard_paths_dataset("train")
    made = dataset.read_and_decode(tf.data.Dataset.from_tensor_slices([paths[2], paths[0]]), 1, 2, 2)
    assert [int(e["image"][0]) for e in made] == [8, 9, 0, 1, 2, 3]


def test_what_is_asked_wrongly_is_said_at_once(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", "fb", "", 3)
    with pytest.raises(KeyError, match="test"):
        dataset.as_tfdataset("test")
    with pytest.raises(ValueError, match="no shard"):
        dataset.as_tfdataset("train", shard_filter=lambda info: False)
    for wrong in ({"parallelism": 0}, {"prefetch": -2}, {"file_parallelism": 0}, {"shuffle": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            dataset.as_tfdataset("train", **wrong)
    automatic = dataset.as_tfdataset("train", prefetch=tf.data.AUTOTUNE, parallelism=tf.data.AUTOTUNE, repeat=False, shuffle=0)
    assert_batches(automatic, [3], "fb")
    structure = ours.DatasetStructure(
        saved_data_description=[ours.Attribute(name="when", dtype="datetime64[ns]", shape=())], compression=""
    )
    times = ours.Dataset.create(tmp_path / "t", ours.Metadata(), structure)
    with times.filler() as filler:
        filler.write_example({"when": np.datetime64("2026-01-01", "ns")}, "train")
    with pytest.raises(ValueError, match=r"'when'.*datetime64\[ns\]"):
        times.as_tfdataset("train")


def test_a_damaged_shard_stops_the_iteration_with_its_name(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", "tfrec", "", 8)
    path = Path(dataset.shard_paths_dataset("train")[1])
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(tf.errors.OpError, match=path.name):
        list(dataset.as_tfdataset("train", batch_size=4, repeat=False, shuffle=0))


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_tensorflow_itself_and_the_reference_read_our_tfrec(tmp_path: Path, compression: str) -> None:
    dataset = make(tmp_path / "d", "tfrec", compression, 10)
    features = {
        "trace": tf.io.FixedLenFeature((5,), tf.float32),
        "image": tf.io.FixedLenFeature((3,), tf.int64),
        "number": tf.io.FixedLenFeature((), tf.int64),
        "text": tf.io.FixedLenFeature((), tf.string),
        "blob": tf.io.FixedLenFeature((), tf.string),
        "half": tf.io.FixedLenFeature((), tf.string),
    }
    records = tf.data.TFRecordDataset(dataset.shard_paths_dataset("train"), compression_type=compression)
    parsed = [tf.io.parse_single_example(record, features) for record in records]
    assert len(parsed) == 10
    for n, found in enumerate(parsed):
        want = example(n, "tfrec")
        assert np.array_equal(found["trace"], want["trace"]) and found["image"].numpy().tolist() == want["image"].tolist()
        assert (int(found["number"]), found["text"].numpy(), found["blob"].numpy()) == (
            want["number"],
            want["text"].encode(),
            want["blob"],
        )
        assert np.array_equal(tf.io.parse_tensor(found["half"], tf.float16), want["half"])
    reference = theirs.Dataset(tmp_path / "d")
    reference.check(show_progressbar=False, hash_checksums_values=dataset.current_metadata_checksums())
    for n, found in enumerate(reference.as_numpy_iterator(split="train", repeat=False, shuffle=0)):
        for name, value in example(n, "tfrec").items():
            got = b"".join(found[name]) if name == "fixed" else found[name]  # the reference knows single bytes only
            assert same(got, value.encode() if isinstance(value, str) else value), (name, n)


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_we_read_the_references_tfrec(tmp_path: Path, compression: str) -> None:
    reference = make(tmp_path / "d", "tfrec", compression, 10, theirs)
    dataset = ours.Dataset(tmp_path / "d")
    dataset.check(show_progressbar=False, hash_checksums_values=reference.current_metadata_checksums())
    for n, found in enumerate(dataset.as_numpy_iterator(split="train", repeat=False, shuffle=0)):
        for name in found:
            value = example(n, "tfrec")[name]
            assert type(found[name]) is type(value) or isinstance(found[name], np.ndarray), name
            assert same(found[name], value), (name, n)
            if isinstance(value, np.ndarray):
                assert found[name].dtype == value.dtype
    assert_batches(dataset.as_tfdataset("train", batch_size=4, repeat=False, shuffle=0), [4, 4, 2], "tfrec")
