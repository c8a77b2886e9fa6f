"""Data sets in one file: ours and those of the reference and h5py, there and back."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import shutil
import time
import zipfile
from pathlib import Path
from typing import Any

import jbof as reference
import numpy as np
import pytest

from sigbank import jbof

h5py = pytest.importorskip("h5py")

# The reference's all_arrays(), which its own export needs, fails by the lack of this name (jbof 0.1.2).
reference.getattribute = getattr

RNG = np.random.default_rng(1)

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    **{name: np.arange(6).reshape(2, 3).astype(name) for name in ("i1", "<i2", ">i2", "<i4", "<i8", ">u8", "u1", "<u2", "<u4")},
    **{name: RNG.standard_normal((4, 2)).astype(name) for name in ("<f2", "<f4", ">f4", "<f8", "<g")},
    **{name: (RNG.standard_normal(5) + 1j * RNG.standard_normal(5)).astype(name) for name in ("<c8", ">c16", "<G")},
    "bool": np.array([[True, False, True]]),
    "bytes": np.array([b"a", b"bcd\0e", b""]),
    "text": np.array(["ä", "long text", ""]),
    "time": np.array(["2020-01-01T00:00:01", "NaT"], "M8[ns]"),
    "span": np.array([1, -5], "m8[s]"),
    "void": np.frombuffer(b"abcdef", "V3"),
    "scalar": np.array(3.5),
    "empty": np.zeros((0, 4), "f4"),
    "inner": np.zeros((3, 0), "i2"),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "large": RNG.standard_normal((300, 200)),
}
OWN = {"text", "time", "span"}  # What the reference cannot export.

METADATA = {
    "speaker": "änn",
    "take": 7,
    "snr": 1.5,
    "clean": True,
    "none": None,
    "nested": {"a": [1, {"b": 2}]},
    "ints": [1, 2, 3],
    "floats": [0.5, 1.0],
    "texts": ["a", ""],
    "mixed": [1, "a"],
    "both": [1, 2.5],
    "nothing": [],
    "big": 2**70,
    "unsigned": 2**64 - 1,
    "exact": 2**53 + 1,
    "a/b.c": 1,
    "": "no name",
    "nul": "a\0b",
}


def _filled(module: Any, path: Path, names: Any = None) -> Any:
    """A data set with everything that the module can export."""
    dataset = module.create_dataset(path, {"license": "CC0", "year": 2020}, "{speaker}-{take}")
    plain = {key: METADATA[key] for key in ("speaker", "take", "snr", "ints", "floats", "texts")}
    item = dataset.add_item(metadata=METADATA if module is jbof else plain)
    for name in names or ARRAYS:
        item.add_array(name.replace("<", "l").replace(">", "b"), ARRAYS[name], {"unit": "V", "n": 1})
    audio = dataset.add_item("audio", {"speaker": "bob", "take": 1})
    audio.add_array("voice", np.linspace(-0.5, 0.5, 1000), fileformat="wav", samplerate=8000)
    audio.add_array("stereo", RNG.uniform(-1, 1, (50, 2)), fileformat="flac", samplerate=16000)
    audio.add_array("matrix", np.arange(6.0).reshape(2, 3), fileformat="mat")
    return dataset


def _same(a: Any, b: Any) -> None:
    """All arrays of two data sets."""
    assert sorted(i.name for i in a.all_items()) == sorted(i.name for i in b.all_items())
    for item in a.all_items():
        other = b.get_item(item.name)
        mine, theirs = dict(item.all_arrays()), dict(other.all_arrays())
        assert sorted(mine) == sorted(theirs)
        for name, array in mine.items():
            found = theirs[name]
            assert (array.shape, array.dtype) == (found.shape, found.dtype), name
            assert array.tobytes() == np.asarray(found).tobytes(), name


def _plain(metadata: Any) -> Any:
    """Metadata without h5py's types."""
    return {k: v.tolist() if isinstance(v, (np.generic, np.ndarray)) else v for k, v in metadata.items()}


def test_there_and_back(tmp_path: Path) -> None:
    dataset = _filled(jbof, tmp_path / "a")
    jbof.dataset_to_hdf(dataset, tmp_path / "a.h5")
    file = jbof.HDFDataSet(tmp_path / "a.h5")
    jbof.hdf_to_dataset(file, tmp_path / "b")
    back = jbof.DataSet(tmp_path / "b", readonly=False)
    for other in (file, back):
        _same(dataset, other)
        assert (other.metadata, other.itemformat) == ({"license": "CC0", "year": 2020}, "{speaker}-{take}")
        found = other["änn-7"].metadata
        assert found == METADATA
        assert {k: type(v) for k, v in found.items()} == {k: type(v) for k, v in METADATA.items()}
        assert other["änn-7"].li2.metadata == {"unit": "V", "n": 1}
        assert other["audio"].voice.metadata == {"samplerate": 8000}
        assert [a._filename for _, a in other["audio"].all_arrays()] == ["matrix.mat", "stereo.flac", "voice.wav"]
    # The same files and documents, so that the hash is the same, but for the order of elements in a file.
    for one in (dataset, back):
        one["änn-7"].delete_array(one["änn-7"].fortran)
    assert back.calculate_hash() == dataset.calculate_hash()


@pytest.mark.parametrize("reader", ["reference", "h5py"])
def test_others_read_what_is_exported(tmp_path: Path, reader: str) -> None:
    dataset = _filled(jbof, tmp_path / "a")
    jbof.dataset_to_hdf(dataset, tmp_path / "a.h5")
    if reader == "reference":
        _same(dataset, reference.HDFDataSet(tmp_path / "a.h5"))
        theirs = reference.HDFDataSet(tmp_path / "a.h5")
        assert [i.name for i in theirs.find_items(speaker="änn")] == ["änn-7"]
        metadata = _plain(theirs.get_item("änn-7").metadata)
        assert json.loads(metadata.pop("_sigbank")) == {
            key: METADATA[key] for key in ("clean", "none", "nested", "mixed", "both", "nothing", "big", "", "nul")
        }
        keys = ("speaker", "take", "snr", "ints", "floats", "texts", "unsigned", "exact", "a/b.c")
        assert metadata == {**{key: METADATA[key] for key in keys}, "clean": 1}
        voice = dict(theirs.get_item("audio").all_arrays())["voice"]
        assert (voice._filename, _plain(voice.metadata)) == ("voice.wav", {"samplerate": 8000})
        return
    with h5py.File(tmp_path / "a.h5") as file:
        assert dict(file.attrs)["license"] == "CC0" and list(file) == ["audio", "änn-7"]
        for name, array in dataset["änn-7"].all_arrays():
            found = file["änn-7"][name]
            assert (found.shape, found.dtype) == (array.shape, array.dtype), name
            assert found[()].tobytes() == array.tobytes(), name
            assert found.attrs["_filename"] == name + ".npy" and found.chunks is None


def test_what_the_reference_exports_is_read(tmp_path: Path) -> None:
    dataset = _filled(reference, tmp_path / "a", sorted(set(ARRAYS) - OWN))
    reference.dataset_to_hdf(dataset, tmp_path / "a.h5")
    file = jbof.HDFDataSet(tmp_path / "a.h5")
    _same(dataset, file)
    assert (file.metadata, file.itemformat) == ({"license": "CC0", "year": 2020}, None)
    assert file["änn-7"].metadata == dataset.get_item("änn-7").metadata
    assert file["audio"].voice._filename == "voice.wav" and file["audio"].voice.metadata == {"samplerate": 8000}
    # And the reference reads the folder that is made of it.
    jbof.hdf_to_dataset(file, tmp_path / "b")
    _same(dataset, reference.DataSet(tmp_path / "b"))
    # And makes a folder of what is exported here.
    (tmp_path / "a/änn-7/_metadata.json").write_text('{"speaker": "änn", "take": 7}')  # It takes no lists back.
    jbof.dataset_to_hdf(jbof.DataSet(tmp_path / "a"), tmp_path / "c.h5")
    reference.hdf_to_dataset(reference.HDFDataSet(tmp_path / "c.h5"), tmp_path / "c")
    _same(dataset, jbof.DataSet(tmp_path / "c"))


def test_files_of_h5py(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    data = RNG.integers(0, 1000, (1000, 7)).astype("i4")
    texts = ["ä", "", "three"]
    with h5py.File(path, "w", userblock_size=512) as file:
        file.attrs.update(a=np.float32(0.5), b=np.array([True, False]), c=np.bytes_(b"ascii"), d=np.uint8(3), e=np.array([], "i4"))
        for n in range(20):  # Densely stored.
            file.attrs[f"k{n}"] = n
        item = file.create_group("item")
        item.attrs["nan"] = np.nan
        item.create_dataset("gzip", data=data, chunks=(64, 3), compression="gzip", shuffle=True, fletcher32=True)
        item.create_dataset("lzf", data=data, chunks=(100, 7), compression="lzf")
        item.create_dataset("wide", data=data.T, chunks=(7, 1000), compression="gzip")
        item.create_dataset("big", data=data.astype(">f8"))
        item.create_dataset("scalar", data=2.5)
        item.create_dataset("texts", data=texts, dtype=h5py.string_dtype())
        item.create_dataset("fixed", data=np.array([b"ab", b"c"]))
        item.create_dataset("flags", data=data % 2 == 0)
        item.create_dataset("complex", data=data + 1j)
        item.create_dataset("unwritten", (5,), "f4", fillvalue=7)
        item.create_dataset("enum", data=np.array([0, 2]), dtype=h5py.enum_dtype({"A": 0, "B": 2}, "i2"))
        item.create_dataset("compound", data=np.zeros(2, [("x", "f4"), ("y", "i2")]))
        item.create_group("nested")
        file.create_dataset("stray", data=1)
    found = jbof.HDFDataSet(path)
    metadata = found.metadata
    assert {key: metadata.pop(key) for key in "abcde"} == {"a": 0.5, "b": [True, False], "c": "ascii", "d": 3, "e": []}
    assert metadata == {f"k{n}": n for n in range(20)}
    item = found["item"]
    assert np.isnan(item.metadata["nan"])
    for name in ("gzip", "lzf", "big"):
        np.testing.assert_array_equal(item[name], data)
    np.testing.assert_array_equal(item.wide, data.T)
    assert item.big.dtype == ">f8" and (item.scalar.shape, item.scalar[()]) == ((), 2.5)
    assert item.texts.tolist() == texts and item.fixed.tolist() == [b"ab", b"c"]
    np.testing.assert_array_equal(item.flags, data % 2 == 0)
    np.testing.assert_array_equal(item.complex, data + 1j)
    assert item.unwritten.tolist() == [7] * 5 and item.enum.tolist() == [0, 2] and item.flags.dtype == bool
    assert "stray" not in found and "nested" not in item and item.gzip._filename == "gzip.npy"
    with pytest.raises(jbof.errors.UnsupportedError, match=r"item/compound\.npy.*h5py"):
        _ = item.compound


def test_symbolic_links_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group("item")
        file["link"] = h5py.SoftLink("/item")
    with pytest.raises(jbof.errors.UnsupportedError, match="symbolic link"):
        jbof.HDFDataSet(tmp_path / "a.h5")


def test_the_whole_interface_on_one_file(tmp_path: Path) -> None:
    dataset = _filled(jbof, tmp_path / "a")
    jbof.dataset_to_hdf(dataset, tmp_path / "a.h5")
    shutil.make_archive(str(tmp_path / "a"), "zip", tmp_path, "a")
    for file in (jbof.HDFDataSet(tmp_path / "a.h5"), jbof.ZIPDataSet(tmp_path / "a.zip")):
        assert isinstance(file, jbof.DataSet)
        assert [i.name for i in file.find_items(take=7)] == ["änn-7"]
        assert file.find_one_item(speaker="bob", take=[1, 2]) == file["audio"]
        assert "audio" in file and "nothing" not in file and not file.has_item("a/b")
        assert "voice" in file["audio"] and not hasattr(file["audio"], "nothing")
        with pytest.raises(TypeError, match="nothing"):
            file.get_item("nothing")
        array = file["audio"].matrix
        array[0, 0] = 7  # A copy.
        assert file.get_item("audio").matrix[0, 0] == 0
        audio = file["audio"]
        for write in (
            lambda file=file: file.add_item("x"),
            lambda file=file: file.delete_item("audio"),
            lambda audio=audio: audio.add_array("x", [1]),
            lambda audio=audio: audio.add_array_from_file("x", tmp_path / "a/audio/voice.wav"),
            lambda audio=audio: audio.delete_array(audio.voice),
            lambda file=file: jbof.delete_dataset(file),
        ):
            with pytest.raises(RuntimeError, match="read"):
                write()
        again = pickle.loads(pickle.dumps(file))
        assert type(again) is type(file) and again["audio"] == file["audio"]
        assert repr(file).startswith(type(file).__name__)
    assert jbof.ZIPDataSet(tmp_path / "a.zip").calculate_hash() == dataset.calculate_hash()
    jbof.hdf_to_dataset(jbof.ZIPDataSet(tmp_path / "a.zip"), tmp_path / "unzipped")
    assert jbof.DataSet(tmp_path / "unzipped").calculate_hash() == dataset.calculate_hash()


def _read_in_a_process(dataset: jbof.DataSet, queue: Any) -> None:
    arrays = {f"{i.name}/{name}": array.tobytes() for i in dataset.all_items() for name, array in i.all_arrays()}
    queue.put(arrays)


def test_a_file_that_is_open_is_read_in_forked_processes(tmp_path: Path) -> None:
    """M09."""
    dataset = _filled(jbof, tmp_path / "a")
    jbof.dataset_to_hdf(dataset, tmp_path / "a.h5")
    file = jbof.HDFDataSet(tmp_path / "a.h5")
    assert file["audio"].voice.size == 1000
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    processes = [context.Process(target=_read_in_a_process, args=(file, queue)) for _ in range(4)]
    for process in processes:
        process.start()
    found = [queue.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    expected = {f"{i.name}/{name}": array.tobytes() for i in dataset.all_items() for name, array in i.all_arrays()}
    assert found == [expected] * 4


def _export_again_and_again(dataset: jbof.DataSet, target: Path) -> None:
    while True:
        jbof.dataset_to_hdf(dataset, target)


def test_a_killed_export_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """M08."""
    dataset = _filled(jbof, tmp_path / "a")
    target = tmp_path / "out" / "a.h5"
    target.parent.mkdir()
    jbof.dataset_to_hdf(dataset, target)
    context = multiprocessing.get_context("fork")
    for delay in (0.005, 0.02, 0.05, 0.1):
        process = context.Process(target=_export_again_and_again, args=(dataset, target))
        process.start()
        time.sleep(delay)
        process.kill()
        process.join()
        _same(dataset, jbof.HDFDataSet(target))


def test_errors(tmp_path: Path) -> None:
    dataset = _filled(jbof, tmp_path / "a", ["<f4"])
    (tmp_path / "text").write_text("no file of that kind")
    for module in (jbof, reference):
        with pytest.raises(FileNotFoundError):
            module.HDFDataSet(tmp_path / "none.h5")
        with pytest.raises(OSError):
            module.HDFDataSet(tmp_path / "text")
        with pytest.raises(FileNotFoundError):
            module.ZIPDataSet(tmp_path / "none.zip")
        with pytest.raises(zipfile.BadZipFile):
            module.ZIPDataSet(tmp_path / "text")
        with pytest.raises(TypeError):
            module.hdf_to_dataset(dataset, tmp_path / "a")
    with pytest.raises(TypeError, match="DataSet is expected"):
        jbof.dataset_to_hdf("a", tmp_path / "x.h5")  # type: ignore[arg-type]
    item = jbof.DataSet(tmp_path / "a", readonly=False)["audio"]
    item.add_array("structured", np.zeros(2, [("a", "f4")]))
    with pytest.raises(ValueError, match=r"structured.*audio"):
        jbof.dataset_to_hdf(dataset, tmp_path / "x.h5")
    assert not (tmp_path / "x.h5").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "text"]


def test_large_metadata(tmp_path: Path) -> None:
    """M11: more than 64 KiB in one value, in many, and deep nesting."""
    nested: Any = 1
    for _ in range(100):
        nested = [nested]
    metadata = {"text": "x" * 1_000_000, "numbers": list(range(20_000)), "nested": nested, **{f"k{n:04}": "v" * 100 for n in range(2000)}}
    dataset = jbof.create_dataset(tmp_path / "a")
    dataset.add_item("i", metadata).add_array("x", [1], metadata)
    jbof.dataset_to_hdf(dataset, tmp_path / "a.h5")
    file = jbof.HDFDataSet(tmp_path / "a.h5")
    assert file["i"].metadata == metadata and file["i"].x.metadata == metadata
    with h5py.File(tmp_path / "a.h5") as theirs:
        assert theirs["i"].attrs["text"] == metadata["text"] and len(theirs["i"].attrs) == 2002
        assert theirs["i"]["x"].attrs["k1999"] == "v" * 100


def test_many_items(tmp_path: Path) -> None:
    dataset = jbof.create_dataset(tmp_path / "a")
    for n in range(3000):
        dataset.add_item(f"i{n:04}", {"n": n})
    jbof.dataset_to_hdf(dataset, tmp_path / "a.h5")
    file = jbof.HDFDataSet(tmp_path / "a.h5")
    assert [i.name for i in file.find_items(n=[5, 2999])] == ["i0005", "i2999"]
    with h5py.File(tmp_path / "a.h5") as theirs:
        assert len(theirs) == 3000 and theirs["i2999"].attrs["n"] == 2999
    assert len(list(reference.HDFDataSet(tmp_path / "a.h5").all_items())) == 3000
