"""Writes the golden npz shards: those of the Sedpack reference package 0.2.0, and a few that only NumPy writes.

Run with a Python that has the reference package: python testdata/npz/make.py

Each <name>.npz has a <name>.json: "writer" (sedpack or numpy), "fields" ([name, dtype, shape] as declared), "records" (for each
record each field's value: arrays as the hex digits of their little-endian elements in C order, int as a number, str as text, bytes
as hex digits) and "stored" (for fields whose values are stored as another type than the one declared: [dtype, shape]).
"""

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
from sedpack.io import Attribute, Dataset, DatasetStructure, Metadata

HERE = Path(__file__).parent
RNG = np.random.default_rng(20)
NUMBERS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
           "complex64", "complex128"]
OTHERS = ["S5", "U5", "datetime64[ns]", "timedelta64[25s]", "V4"]
TEXTS = ["", "plain", "größer \U0001f600", "inner\0NUL", " \t\n", "ÿ" * 40, "z"]
BLOBS = [b"", b"\0", b"abc\0", bytes(range(256)), b"\xff" * 3, b"PK\x03\x04", b""]


def little(value):
    value = np.asarray(value)
    return np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes().hex()


def plain(value):
    """A value as it stands in the JSON."""
    if isinstance(value, np.generic):
        return little(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (str, int)):
        return value
    return little(value)


def array(dtype, shape):
    dtype = np.dtype(dtype)
    raw = RNG.bytes(dtype.itemsize * int(np.prod(shape, dtype=int)))
    if dtype.kind == "b":
        return np.frombuffer(bytes(b & 1 for b in raw), dtype).reshape(shape)
    if dtype.kind == "U":
        letters = RNG.choice(list("abcäß\U0001f600"), (*shape, dtype.itemsize // 4))
        return np.apply_along_axis("".join, -1, letters).astype(dtype)
    if dtype.kind == "S":
        return np.array([bytes(raw[i:i + 1]) + b"xy" for i in range(int(np.prod(shape, dtype=int)))], dtype).reshape(shape)
    return np.frombuffer(raw, dtype).reshape(shape)


def save(name, writer, fields, records, stored=None):
    # One record a line.
    lines = ",\n  ".join(json.dumps([plain(v) for v in r], ensure_ascii=False) for r in records)
    head = json.dumps({"writer": writer, "fields": fields, "stored": stored or {}}, ensure_ascii=False)
    (HERE / f"{name}.json").write_text(f"{head[:-1]},\n \"records\": [\n  {lines}\n]}}\n", encoding="utf-8")


def sedpack(name, fields, records, compression="", stored=None):
    """One shard by the reference; the expected values are those it was given, as the reference reads them back."""
    directory = Path(tempfile.mkdtemp())
    attributes = [Attribute(name=n, dtype=d, shape=s) for n, d, s in fields]
    structure = DatasetStructure(saved_data_description=attributes, compression=compression, shard_file_type="npz")
    dataset = Dataset.create(directory / "d", Metadata(description=name), structure)
    names = [f[0] for f in fields]
    with dataset.filler(concurrency=0) as filler:
        for record in records:
            given = dict(zip(names, record))
            for n, d, s in fields:
                if d == "bytes" and s:
                    given[n] = list(given[n])
            filler.write_example(values=given, split="train")
    (shard,) = directory.rglob("*.npz")
    shutil.copy(shard, HERE / f"{name}.npz")
    read = list(Dataset(directory / "d").as_numpy_iterator(split="train", repeat=False, shuffle=0))
    shutil.rmtree(directory)
    back = [[example[n] for n in names] for example in read]
    for one, other in zip(records, back, strict=True):
        for (n, d, s), a, b in zip(fields, one, other, strict=True):
            assert plain(a) == plain(b) or n in (stored or {}) or d == "int" and int(a) == b, (name, n, a, b)
    save(name, "sedpack", [[n, d, list(s)] for n, d, s in fields], back, stored)


def foreign(name, fields, records, stored=None, **members):
    """Members as they are given, by NumPy alone."""
    np.savez(HERE / f"{name}.npz", **members)
    save(name, "numpy", fields, records, stored)


def main():
    for old in [*HERE.glob("*.npz"), *HERE.glob("*.json")]:
        old.unlink()
    kinds = [(f"x_{d}", d, s) for d, s in zip(NUMBERS + OTHERS, [(), (3,), (2, 3), (1,), (2, 1, 2)] * 4)]
    kinds += [("zahl", "int", ()), ("text", "str", ()), ("größe", "bytes", ()), ("key", "bytes", (4,))]
    fixed = [b"wxyz", b"w\0z\0", b"\0\0\0\0", b"\xff\xfe\xfd\xfc", b"abcd", b"    ", b"0123"]
    ints = [5, -7, 2**40, 0, -(2**63), 2**63 - 1, 1]
    records = []
    for text, blob, key, number in zip(TEXTS, BLOBS, fixed, ints):
        records.append([array(d, s) for _, d, s in kinds[:-4]] + [number, text, blob, key])
    # The reference hands out the scalar types of NumPy, whose values are compared as arrays.
    for compression in ("", "ZIP"):
        suffix = compression.lower() or "none"
        sedpack(f"kinds-{suffix}", kinds, records, compression)
        sedpack(f"one-{suffix}", kinds, records[2:3], compression)
        sedpack(f"bytes-empty-{suffix}", [("b", "bytes", ()), ("s", "str", ())], [[b"", ""]] * 3, compression)
        noise = [[array("int8", (300,)), i] for i in range(60)]
        sedpack(f"many-{suffix}", [("trace", "int8", (300,)), ("i", "int", ())], noise, compression)
    names = [("a/b", "uint8", ()), ("../x", "uint8", ()), ("é ü", "bytes", ()), ("", "bytes", ()), ("x.npy", "uint8", ()),
             ("a\\b", "uint8", ()), ("len", "uint8", ()), ("len_____", "bytes", ())]
    sedpack("names", names, [[np.uint8(i), np.uint8(i + 1), b"1" * i, b"2", np.uint8(9), np.uint8(8), np.uint8(7), b"3"]
                             for i in range(3)])
    # Stored as it was given, whatever was declared.
    sedpack("other-dtypes", [("a", "float32", (2,)), ("b", "uint8", ()), ("c", "U5", (1,)), ("ok", "float32", ())],
            [[np.array([1.5, i]), i, np.array(["ab"]), np.float32(i)] for i in range(3)],
            stored={"a": ["<f8", [2]], "b": ["<i8", []], "c": ["<U2", [1]]})
    sedpack("int-other", [("i32", "int", ()), ("u8", "int", ()), ("b", "int", ()), ("u64", "int", ())],
            [[np.int32(-3), np.uint8(200), True, np.uint64(7)], [np.int32(2**31 - 1), np.uint8(0), False, np.uint64(2**63 - 1)]])

    n = 4
    fortran = np.asfortranarray(array("int16", (n, 3, 2)))
    foreign("foreign-order", [["f", "int16", [3, 2]], ["be", "float64", [2]], ["bf", "uint32", [2, 2]], ["bc", "complex64", []],
                              ["i", "int", []], ["i2", "int", []], ["s", "str", []], ["t", "bytes", []]],
            [[fortran[i], np.array([i, 0.5]), np.array([[i, 1], [2, 70000]], "u4"), np.complex64(complex(i, -1)), -i, i * 300,
              "é" * i, b"q" * i] for i in range(n)],
            f=fortran, be=np.array([[i, 0.5] for i in range(n)], ">f8"),
            bf=np.asfortranarray(np.array([[[i, 1], [2, 70000]] for i in range(n)], ">u4")),
            bc=np.array([complex(i, -1) for i in range(n)], ">c8"),
            i=np.array([-i for i in range(n)], ">i8"), i2=np.array([i * 300 for i in range(n)], ">u2"),
            s=np.array(["é" * i for i in range(n)], ">U4"),
            len__t=np.array([0, 0, 1, 3, 6], ">i4"), t=np.frombuffer(b"qqqqqq", "u1"), extra=np.zeros(9))


if __name__ == "__main__":
    main()
