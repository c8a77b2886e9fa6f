"""Writes the golden TFRecord shards with the reference package (sedpack 0.2.0) and TensorFlow, and has them read ours.

    python make.py                  adds the files that are missing
    python make.py --replace        writes all anew
    python make.py --check          TensorFlow and the reference read the files in ours/, value for value

kinds{,.gzip,.zlib}.tfrec hold the same records; kinds.json says what they are. float64.tfrec is what the reference makes of
float64 (it cannot read it back). foreign.tfrec is by TensorFlow alone: bytes of fixed length and integers that the reference reads but
does not write, lists that are not packed, tensors with their elements one by one. In the JSON a value is its bytes in hex: an array's
elements in C order, little-endian; 8 bytes for an int; UTF-8. ours/ is written by `cargo test --test tf_golden -- --ignored`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import sedpack
import tensorflow as tf
from sedpack.io import Attribute, Dataset, DatasetStructure, Metadata

HERE = Path(__file__).parent
SUFFIXES = {"": ".tfrec", "GZIP": ".gzip.tfrec", "ZLIB": ".zlib.tfrec"}
KINDS: list[tuple[str, str, tuple[int, ...]]] = [
    ("int8", "int8", (2, 2)),
    ("uint8", "uint8", (5, 60)),
    ("byte", "uint8", ()),
    ("int32", "int32", (3,)),
    ("int64", "int64", (1, 3)),
    ("float16", "float16", (2, 3)),
    ("half", "float16", ()),
    ("float32", "float32", (2, 3)),
    ("single", "float32", ()),
    ("number", "int", ()),
    ("text", "str", ()),
    ("blob", "bytes", ()),
    ("długość", "int64", (2,)),
]
FOREIGN: list[tuple[str, str, tuple[int, ...]]] = [
    ("octets", "bytes", (4,)),
    ("piece", "bytes", (4,)),
    ("int16", "int16", (2,)),
    ("uint32", "uint32", (2,)),
    ("unpacked", "int32", (4,)),
    ("unpacked_float", "float32", (3,)),
    ("splat", "float16", (2, 2)),
]


def example(i: int) -> dict[str, Any]:
    return {
        "int8": np.array([[i, -i], [127, -128]], "i1"),
        "uint8": (np.arange(300).reshape(5, 60) * (2 * i + 1) % 256).astype("u1"),
        "byte": np.uint8(126 + i),
        "int32": np.array([2**31 - 1, -(2**31), -i * 70_000], "i4"),
        "int64": np.array([[2**63 - 1, -(2**63), 2 ** (7 * i + 6)]], "i8"),
        "float16": np.array([[i + 0.5, -0.0, np.inf], [np.nan, 6e-8, 65504]], "f2"),
        "half": np.float16(-i / 3),
        "float32": np.array([[i / 3, -0.0, np.inf], [np.nan, 1e-45, -3.4e38]], "f4"),
        "single": np.float32(i / 7),
        "number": (-1) ** i * (2 ** (20 * i) + i),
        "text": ["", "é\0日本 end\0", "\0", "x" * 200][i],
        "blob": [b"", b"\0\xff\x80\0", b"\0", bytes(range(256))][i],
        "długość": np.array([i, 127 + i], "i8"),
    }


def stored(dtype: str, value: Any) -> str:
    if dtype == "str":
        return value.encode().hex()
    if dtype == "bytes":
        return bytes(value).hex()
    return np.asarray(value, "i8" if dtype == "int" else dtype).tobytes().hex()


def facts(name: str, attributes: list[tuple[str, str, tuple[int, ...]]], examples: list[dict[str, Any]]) -> None:
    text = {
        "written_by": f"sedpack {sedpack.__version__}, tensorflow {tf.__version__}",
        "attributes": [{"name": n, "dtype": d, "shape": s} for n, d, s in attributes],
        "records": [{n: stored(d, values[n]) for n, d, _ in attributes} for values in examples],
    }
    (HERE / f"{name}.json").write_text(json.dumps(text, ensure_ascii=False) + "\n")


def dataset(root: Path, attributes: list[tuple[str, str, tuple[int, ...]]], compression: str) -> Dataset:
    structure = DatasetStructure(
        saved_data_description=[Attribute(name=n, dtype=d, shape=s) for n, d, s in attributes],
        shard_file_type="tfrec",
        compression=compression,
    )
    return Dataset.create(root, Metadata(description="golden"), structure)


def shard(root: Path) -> Path:
    (path,) = root.glob("train/**/*.tfrec")
    return path


def by_the_reference(
    target: Path, attributes: list[tuple[str, str, tuple[int, ...]]], compression: str, examples: list[dict[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as root:
        with dataset(Path(root), attributes, compression).filler(concurrency=1) as filler:
            for values in examples:
                filler.write_example(values, "train")
        shutil.copyfile(shard(Path(root)), target)


def foreign(target: Path) -> None:
    """A record as no encoder in use writes it, but as any protobuf reader reads it."""

    def strings(*values: bytes) -> bytes:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values)).SerializeToString()

    def integers(*values: int) -> bytes:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values)).SerializeToString()

    def field(number: int, content: bytes) -> bytes:
        length = bytes([len(content)]) if len(content) < 128 else bytes([len(content) & 0x7F | 0x80, len(content) >> 7])
        return bytes([number << 3 | 2]) + length + content

    halves = np.array([1.5, 1.5, 1.5, 1.5], "f2")
    message = type(tf.make_tensor_proto(0))
    tensor = message(dtype=tf.float16.as_datatype_enum, half_val=[int(halves.view("u2")[0])])
    for size in (2, 2):
        tensor.tensor_shape.dim.add(size=size)
    # Int64List: 1 and 128 one by one, then 300 and 5 packed. FloatList: 1.0 one by one, 2.0 and -2.0 packed.
    ints = bytes.fromhex("08 01 08 80 01 0a 03 ac 02 05".replace(" ", ""))
    floats = b"\x0d" + np.float32(1).tobytes() + b"\x0a\x08" + np.array([2, -2], "f4").tobytes()
    # Assembled by hand, for TensorFlow would pack the lists.
    features = {
        "octets": strings(b"a", b"\0", b"\xff", b"d"),
        "piece": strings(b"ab\0d"),
        "int16": integers(-32768, 32767),
        "uint32": integers(0, 2**32 - 1),
        "unpacked": field(3, ints),
        "unpacked_float": field(2, floats),
        "splat": strings(tensor.SerializeToString()),
    }
    record = field(1, b"".join(field(1, field(1, name.encode()) + field(2, value)) for name, value in features.items()))
    parsed = tf.train.Example.FromString(record).features.feature
    assert list(parsed["unpacked"].int64_list.value) == [1, 128, 300, 5]
    assert list(parsed["unpacked_float"].float_list.value) == [1.0, 2.0, -2.0]
    assert (tf.io.parse_tensor(parsed["splat"].bytes_list.value[0], tf.float16).numpy() == 1.5).all()
    with tf.io.TFRecordWriter(str(target)) as writer:
        writer.write(record)
    values = {
        "octets": b"a\0\xffd",
        "piece": b"ab\0d",
        "int16": np.array([-32768, 32767], "i2"),
        "uint32": np.array([0, 2**32 - 1], "u4"),
        "unpacked": np.array([1, 128, 300, 5], "i4"),
        "unpacked_float": np.array([1, 2, -2], "f4"),
        "splat": halves,
    }
    facts("foreign", FOREIGN, [values])


def write(replace: bool) -> None:
    examples = [example(i) for i in range(4)]
    doubles = [{"double": np.array([0.5, i / 3], "f8")} for i in range(2)]
    for compression, suffix in SUFFIXES.items():
        target = HERE / f"kinds{suffix}"
        if replace or not target.exists():
            by_the_reference(target, KINDS, compression, examples)
            facts("kinds", KINDS, examples)
    if replace or not (HERE / "float64.tfrec").exists():
        by_the_reference(HERE / "float64.tfrec", [("double", "float64", (2,))], "", doubles)
        kept = [{"double": values["double"].astype("f4").astype("f8")} for values in doubles]
        facts("float64", [("double", "float64", (2,))], kept)
    if replace or not (HERE / "foreign.tfrec").exists():
        foreign(HERE / "foreign.tfrec")


def check() -> None:
    said = json.loads((HERE / "kinds.json").read_text())
    attributes = [(a["name"], a["dtype"], tuple(a["shape"])) for a in said["attributes"]]
    for compression, suffix in SUFFIXES.items():
        path = HERE / "ours" / f"kinds{suffix}"
        # TensorFlow by itself: the same messages as in the reference's file.
        ours, theirs = (
            [tf.train.Example.FromString(r.numpy()) for r in tf.data.TFRecordDataset(str(p), compression_type=compression)]
            for p in (path, HERE / f"kinds{suffix}")
        )
        assert ours == theirs and len(ours) == len(said["records"]), path
        # And the reference, which knows bytes and numbers as int64 only.
        with tempfile.TemporaryDirectory() as root:
            data = dataset(Path(root), attributes, compression)
            with data.filler(concurrency=1) as filler:
                filler.write_example(example(0), "train")
            shutil.copyfile(path, shard(Path(root)))
            read = list(data.as_numpy_iterator(split="train", repeat=False, shuffle=0))
        assert len(read) == len(said["records"]), path
        for values, wanted in zip(read, said["records"], strict=True):
            for name, dtype, shape in attributes:
                value = values[name]
                if dtype not in ("str", "bytes"):
                    assert np.shape(value) == shape, name
                    value = np.asarray(value, "i8" if dtype == "int" else dtype).tobytes()
                assert value.hex() == wanted[name], (path, name)
        print("read", path)
    # Bytes of fixed length, which the reference reads as single bytes.
    with tempfile.TemporaryDirectory() as root:
        data = dataset(Path(root), [("blob", "bytes", ())], "")
        with data.filler(concurrency=1) as filler:
            filler.write_example({"blob": b""}, "train")
        shutil.copyfile(HERE / "ours" / "octets.tfrec", shard(Path(root)))
        info = Path(root) / "dataset_info.json"
        info.write_text(info.read_text().replace('"blob"', '"octets"').replace('"shape": []', '"shape": [4]'))
        read = list(Dataset(root).as_numpy_iterator(split="train", repeat=False, shuffle=0))
        assert [b"".join(values["octets"]) for values in read] == [b"a\0\xffd", b"\0\0\0\0"]
    print("read", HERE / "ours" / "octets.tfrec")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replace", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        check()
    else:
        write(arguments.replace)


if __name__ == "__main__":
    main()
