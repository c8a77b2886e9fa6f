"""Each package reads what the other writes, in every format and dtype, and both write the same documents and have the same hash."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jbof_cases import AUDIO, BOTH_WAYS, contents, names, needs_reference, ours, reference, same

rng = np.random.default_rng(3)

PADDED = np.dtype({"names": ["a", "b"], "formats": ["<u4", "u1"], "offsets": [0, 4], "itemsize": 8})
NPY: dict[str, Any] = {
    **{f"dtype {t}": (rng.standard_normal((2, 3)) * 50).astype(t) for t in "i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16 ?".split()},
    **{f"big {t[1:]}": (rng.standard_normal((2, 3)) * 50).astype(t) for t in [">i2", ">u4", ">i8", ">f4", ">f8", ">c8", ">c16"]},
    "uint64": np.array([2**64 - 1, 0], "u8"),
    "bytes": np.array([[b"a", b"b\x00c", b""]]),
    "text": np.array(["", "é", "𝄞x"]),
    "big text": np.array(["é", "ab"], ">U3"),
    "dates": np.array(["2020-01-01", "NaT"], "M8[ms]"),
    "spans": np.array([1, -5], "m8[s]"),
    "void": np.array([b"ab", b"cd"], "V2"),
    "scalar": np.array(3.5),
    "scalar text": np.array("abc"),
    "none": np.zeros(0),
    "no rows": np.zeros((0, 4), "f4"),
    "no columns": np.zeros((3, 0), "i2"),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "fortran big": np.asfortranarray(np.arange(24).reshape(2, 3, 4).astype(">i4")),
    "transposed": np.arange(24.0).reshape(2, 3, 4).T,
    "strided": np.arange(20).reshape(4, 5)[::2, ::-2],
    "large": np.arange(100_000, dtype="f4"),
    "large fortran": np.asfortranarray(np.arange(90_000, dtype="i4").reshape(300, 300)),
    "structured": np.array([(1, 2.5, "x"), (2, -1, "yz")], [("a", "<i4"), ("b", ">f8"), ("c", "U2")]),
    "nested": np.zeros(2, [("p", [("x", "f4"), ("y", "f4")]), ("m", "i2", (2, 2))]),
    "padded": np.array([(7, 8), (9, 10)], PADDED),
    "list": [1, 2, 3],
    "number": 4,
}


@pytest.mark.parametrize(("writer", "reader"), BOTH_WAYS)
@pytest.mark.parametrize("case", NPY)
def test_npy(tmp_path: Path, writer: Any, reader: Any, case: str) -> None:
    data = NPY[case]
    written = writer.create_dataset(tmp_path / "d").add_item("i").add_array("x", data, {"unit": "V"})
    found = reader.DataSet(tmp_path / "d")["i"].x
    same(written, data)
    same(found, data)
    assert (found.metadata, found._filename, type(found)) == ({"unit": "V"}, "x.npy", reader.Array)
    same(np.load(tmp_path / "d/i/x.npy", allow_pickle=False), data)


@needs_reference
@pytest.mark.parametrize("case", NPY)
def test_npy_bytes(tmp_path: Path, case: str) -> None:
    for module in (ours, reference):
        module.create_dataset(tmp_path / module.__name__).add_item("i").add_array("x", NPY[case])
    mine, theirs = (contents(tmp_path / module.__name__ / "i") for module in (ours, reference))
    assert mine == theirs


SAMPLES = {
    "float64": np.clip(rng.standard_normal(3000) / 3, -1, 0.999),
    "float32": (rng.uniform(-1, 0.999, (3000, 2))).astype("f4"),
    "int16": rng.integers(-(2**15), 2**15, (3000, 2)).astype("i2"),
    "int32": (rng.integers(-(2**15), 2**15, 3000) << 16).astype("i4"),
    "big int16": rng.integers(-(2**15), 2**15, 3000).astype(">i2"),
    "big float": rng.uniform(-1, 0.999, 3000).astype(">f8"),
    "three channels": rng.uniform(-1, 0.999, (3000, 3)),
    "short": np.array([0.25, -0.5]),
}


@pytest.mark.parametrize(("writer", "reader"), BOTH_WAYS)
@pytest.mark.parametrize("fileformat", AUDIO)
@pytest.mark.parametrize("case", SAMPLES)
def test_audio(tmp_path: Path, writer: Any, reader: Any, fileformat: str, case: str) -> None:
    data = SAMPLES[case]
    if writer is reference and case.startswith("big"):
        pytest.skip("the reference stores the bytes of big-endian samples as if they were little-endian")
    written = writer.create_dataset(tmp_path / "d").add_item("i").add_array("x", data, {"take": 1}, fileformat, 16000)
    found = reader.DataSet(tmp_path / "d")["i"].x
    assert (found.metadata, found._filename) == ({"take": 1, "samplerate": 16000}, f"x.{fileformat}")
    assert found.metadata == written.metadata
    if fileformat != "ogg":
        same(found, written)
    else:
        # Two decoders of a lossy format agree to a rounding of float32.
        assert (found.dtype, found.shape) == (written.dtype, written.shape)
        assert np.abs(found - written).max() < 1e-6
    if fileformat != "ogg" and data.dtype.kind == "i":
        same(found, data / 2.0 ** (8 * data.dtype.itemsize - 1))
    else:
        full = data if data.dtype.kind == "f" else data / 2.0 ** (8 * data.dtype.itemsize - 1)
        assert np.abs(found - full).max() < (2 if fileformat == "ogg" else 2**-15)


@needs_reference
@pytest.mark.parametrize("case", [case for case in SAMPLES if not case.startswith("big")])
@pytest.mark.parametrize("fileformat", ["wav", "flac"])
def test_default_samples_are_the_references(tmp_path: Path, fileformat: str, case: str) -> None:
    """Rounding and clipping included; a wav file is the same to the byte."""
    soundfile = pytest.importorskip("soundfile")
    data = SAMPLES[case]
    if data.dtype.kind == "f":
        data = data * 1.2
    for module in (ours, reference):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module.create_dataset(tmp_path / module.__name__).add_item("i").add_array("x", data, {}, fileformat, 8000)
    mine, theirs = (contents(tmp_path / module.__name__ / "i") for module in (ours, reference))
    assert mine["x.json"] == theirs["x.json"]
    if fileformat == "wav":
        assert mine == theirs
    samples = [soundfile.read(tmp_path / m.__name__ / f"i/x.{fileformat}", dtype="int16")[0] for m in (ours, reference)]
    same(samples[0], samples[1])


SUBTYPES = ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"]


@pytest.mark.parametrize("subtype", SUBTYPES)
def test_subtypes_of_wav(tmp_path: Path, subtype: str) -> None:
    soundfile = pytest.importorskip("soundfile")
    data = rng.uniform(-1, 0.99, (500, 2))
    item = ours.create_dataset(tmp_path / "d").add_item("i")
    found = item.add_array("x", data, None, "wav", 8000, subtype=subtype)
    file = tmp_path / "d/i/x.wav"
    assert soundfile.info(str(file)).subtype == subtype
    soundfile.write(tmp_path / "s.wav", data, 8000, subtype)
    same(found, soundfile.read(tmp_path / "s.wav")[0])
    same(soundfile.read(file)[0], found)
    if subtype == "DOUBLE":
        same(found, data)


@pytest.mark.parametrize(("subtype", "theirs"), [("PCM_S8", "PCM_S8"), ("PCM_16", "PCM_16"), ("PCM_24", "PCM_24")])
def test_subtypes_of_flac(tmp_path: Path, subtype: str, theirs: str) -> None:
    soundfile = pytest.importorskip("soundfile")
    data = rng.uniform(-1, 0.99, (5000, 2))
    found = ours.create_dataset(tmp_path / "d").add_item("i").add_array("x", data, None, "flac", 48000, subtype=subtype)
    assert soundfile.info(str(tmp_path / "d/i/x.flac")).subtype == theirs
    soundfile.write(tmp_path / "s.flac", data, 48000, subtype)
    same(found, soundfile.read(tmp_path / "s.flac")[0])


MAT = {
    **{f"dtype {t}": (rng.standard_normal((2, 3)) * 50).astype(t) for t in "i1 u1 i2 u2 i4 u4 i8 u8 f4 f8 c8 c16".split()},
    "big": np.arange(6).reshape(2, 3).astype(">i2"),
    "three axes": np.arange(24.0).reshape(2, 3, 4),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "no rows": np.zeros((0, 4)),
}


@pytest.mark.parametrize(("writer", "reader"), BOTH_WAYS)
@pytest.mark.parametrize("case", MAT)
def test_mat(tmp_path: Path, writer: Any, reader: Any, case: str) -> None:
    scipy_io = pytest.importorskip("scipy.io")
    data = np.asarray(MAT[case])
    written = writer.create_dataset(tmp_path / "d").add_item("i").add_array("x", data, {"a": 1}, "mat")
    native = data.astype(data.dtype.newbyteorder("="))
    for found in (written, reader.DataSet(tmp_path / "d")["i"].x, scipy_io.loadmat(tmp_path / "d/i/x.mat")["x"]):
        same(np.ascontiguousarray(found), np.ascontiguousarray(native))
    assert json.loads((tmp_path / "d/i/x.json").read_text()) == {"_filename": "x.mat", "a": 1}


# Shapes and dtypes that MATLAB has not: (what, what scipy and the reference find).
NOT_MATLABS = {
    "vector": (np.arange(3.0), (1, 3), "f8"),
    "scalar": (np.array(3.5), (1, 1), "f8"),
    "empty": (np.zeros(0), (0, 0), "f8"),
    "float16": (np.arange(6).reshape(2, 3).astype("f2"), (2, 3), "f8"),
    "bool": (np.array([[True, False]]), (1, 2), "u1"),
    "bool vector": (np.array([True, False]), (1, 2), "u1"),
}


@pytest.mark.parametrize("case", NOT_MATLABS)
def test_shape_and_dtype_that_mat_has_not_are_restored(tmp_path: Path, case: str) -> None:
    data, shape, dtype = NOT_MATLABS[case]
    scipy_io = pytest.importorskip("scipy.io")
    item = ours.create_dataset(tmp_path / "d").add_item("i")
    same(item.add_array("x", data, {"a": 1}, "mat"), data)
    found = ours.DataSet(tmp_path / "d")["i"].x
    same(found, data)
    assert found.metadata == {"a": 1}
    theirs = scipy_io.loadmat(tmp_path / "d/i/x.mat")["x"]
    assert (theirs.shape, theirs.dtype) == (shape, np.dtype(dtype))
    assert np.array_equal(theirs.reshape(data.shape), data)
    if reference is not None:
        theirs = reference.DataSet(tmp_path / "d")["i"].x
        assert theirs.shape == shape and np.array_equal(theirs.reshape(data.shape), data)


METADATA = {
    "é": "ü𝄞\x7f\n\"\\/",
    "numbers": [0, -1, 1.5, 1e-7, 1e22, 2**53 + 1, -(2**63), 2**64 - 1, 10**30, 0.1, -0.0, 1e300],
    "nested": {"z": [], "a": {}, "b": [[1, [2]], {"k": None}], "t": True, "f": False},
    "": "empty key",
    "a.b/c$ d": "odd key",
    "_private": 1,
    "Z": 1,
    "a": 2,
}


@needs_reference
def test_documents_and_hash(tmp_path: Path) -> None:
    numpys = {"f": np.float32(0.1), "i": np.int64(3), "u": np.uint8(7), "d": np.float64(0.1), "t": (1, 2)}
    for module in (ours, reference):
        dataset = module.create_dataset(tmp_path / module.__name__, METADATA, "{a}-{n:03d}")
        for n in range(5):
            item = dataset.add_item(metadata={**METADATA, "n": n})
            item.add_array("x", np.arange(n), METADATA)
            item.add_array("y", np.arange(n + 1, dtype="i2"), numpys, "wav", 8000)
        dataset.add_item("empty")
    mine, theirs = (contents(tmp_path / module.__name__) for module in (ours, reference))
    # Their own __init__.py is each package's.
    assert mine.pop("__init__.py") != theirs.pop("__init__.py") and mine == theirs
    assert list(mine)[:3] == ["2-000/_metadata.json", "2-000/x.json", "2-000/x.npy"]
    hashes = {m.DataSet(tmp_path / w.__name__).calculate_hash() for m in (ours, reference) for w in (ours, reference)}
    assert len(hashes) == 1
    (tmp_path / "sigbank.jbof/2-000/x.npy").write_bytes(b"?")
    assert ours.DataSet(tmp_path / "sigbank.jbof").calculate_hash() not in hashes


@pytest.mark.parametrize(("writer", "reader"), BOTH_WAYS)
def test_metadata(tmp_path: Path, writer: Any, reader: Any) -> None:
    dataset = writer.create_dataset(tmp_path / "d", METADATA)
    dataset.add_item("i", METADATA).add_array("x", [1], METADATA)
    found = reader.DataSet(tmp_path / "d")
    for metadata in (found.metadata, found["i"].metadata, found["i"].x.metadata):
        assert metadata == METADATA and repr(metadata["numbers"]) == repr(METADATA["numbers"])
    assert found.itemformat is None and names(found.find_items(a=[2])) == ["i"]


@pytest.mark.parametrize(("writer", "reader"), BOTH_WAYS[1:])
def test_a_folder_is_a_python_module(tmp_path: Path, writer: Any, reader: Any) -> None:
    writer.create_dataset(tmp_path / "speech", {"a": 1}).add_item("i")
    code = "from speech import dataset; print(dataset.name, dataset.metadata, [i.name for i in dataset.all_items()])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "speech {'a': 1} ['i']\n"
    # Python left its own __pycache__ there.
    assert names(reader.DataSet(tmp_path / "speech").find_items()) == ["i"]
