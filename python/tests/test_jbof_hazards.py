"""Trouble that users of arrays, audio and metadata report in public, tried on `sigbank.jbof`."""

from __future__ import annotations

import io
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jbof_cases import contents, names, needs_reference, ours, reference, same

sf = pytest.importorskip("soundfile")


@pytest.fixture
def item(tmp_path: Path) -> Any:
    return ours.create_dataset(tmp_path / "d").add_item("i")


def wav(frames: np.ndarray, **more: Any) -> bytes:
    file = io.BytesIO()
    sf.write(file, frames, 8000, format="WAV", **more)
    return file.getvalue()


def put(item: Any, name: str, data: bytes) -> Any:
    """A file that somebody else put into the item's folder."""
    folder = Path(item._path)
    (folder / name).write_bytes(data)
    (folder / f"{Path(name).stem}.json").write_text(f'{{"_filename": "{name}"}}')
    return item


# Arrays


def test_dtypes_that_an_npy_file_cannot_name_are_refused(item: Any) -> None:
    """F01: bfloat16 would come back as void."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e5m2):
        with pytest.raises(ValueError, match="would come back as"):
            item.add_array("x", np.arange(4).astype(dtype))
    assert not item.has_array("x")


def test_metadata_of_dtypes(item: Any) -> None:
    """F07."""
    dtype = np.dtype([("a", np.dtype("f4", metadata={"unit": "V"}))])
    with pytest.warns(UserWarning, match="metadata"):
        item.add_array("x", np.zeros(2, dtype))
    assert item.x.dtype == np.dtype([("a", "f4")])


@pytest.mark.parametrize("keep", [0, 5, 10, 60, 128, 150])
@pytest.mark.parametrize("data", [np.arange(10), np.zeros(10, [("a", "i4"), ("b", "f4")])], ids=["plain", "structured"])
def test_truncated_npy(item: Any, keep: int, data: np.ndarray) -> None:
    """F11."""
    item.add_array("x", data)
    file = Path(item._path) / "x.npy"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"d/i/x\.npy"):
        ours.DataSet(item._path + "/..")["i"].x


def test_objects_are_refused(item: Any) -> None:
    """F12, at write and at read."""
    for data in [np.array([{1: 2}], object), None, np.zeros(1, [("a", "O")]), [["a", None]]]:
        with pytest.raises(ValueError, match="pickle"):
            item.add_array("x", data)
    with pytest.raises(ValueError):
        item.add_array("x", [[1], [1, 2]])
    with pytest.raises(ValueError, match="mask"):
        item.add_array("x", np.ma.array([1, 2], mask=[True, False]))
    file = io.BytesIO()
    np.save(file, np.array([{1: 2}], object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"d/i/o\.npy.*allow_pickle"):
        put(item, "o.npy", file.getvalue()).o
    (Path(item._path) / "../../o.npy").write_bytes(file.getvalue())
    with pytest.raises(ValueError, match="object"):
        item.add_array_from_file("p", Path(item._path) / "../../o.npy")
    assert sorted(contents(Path(item._path))) == ["_metadata.json", "o.json", "o.npy"]


# Audio


def test_flac_of_unknown_length(item: Any) -> None:
    """A01."""
    item.add_array("x", np.arange(-5000, 5000).astype("i2"), fileformat="flac", samplerate=8000)
    file = Path(item._path) / "x.flac"
    data = bytearray(file.read_bytes())
    data[21] &= 0xF0
    data[22:26] = bytes(4)
    same(put(item, "y.flac", bytes(data)).y, item.x)


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0])
def test_wav_of_a_pipe(item: Any, size: int) -> None:
    """A02."""
    data = bytearray(wav(np.linspace(-1, 0.9, 100)))
    at = data.index(b"data") + 4
    data[4:8] = data[at : at + 4] = struct.pack("<I", size)
    assert put(item, "x.wav", bytes(data)).x.shape == (100,)


def test_odd_chunks_extensible_and_24_bits(item: Any) -> None:
    """A03, A04, A05."""
    values = np.array([-8388608, -1, 0, 1, 8388607] + [0] * 96)
    plain = wav((values << 8).astype("i4"), subtype="PCM_24")
    at = plain.index(b"data")
    for name, chunk in [("padded", b"LIST\5\0\0\0abcde\0"), ("even", b"LIST\4\0\0\0abcd")]:
        odd = plain[:at] + chunk + plain[at:] + chunk
        odd = odd[:4] + struct.pack("<I", len(odd) - 8) + odd[8:]
        same(put(item, f"{name}.wav", odd)[name], values / 2**23)
    item.add_array("again", item.padded, None, "wav", 8000, subtype="PCM_24")
    assert (Path(item._path) / "again.wav").read_bytes()[44 : 44 + 303] == plain[at + 8 : at + 8 + 303]
    file = io.BytesIO()
    sf.write(file, (values << 8).astype("i4"), 8000, format="WAVEX", subtype="PCM_24")
    same(put(item, "x.wav", file.getvalue()).x, values / 2**23)


@pytest.mark.parametrize("fileformat", ["wav", "flac"])
def test_samples_over_range(item: Any, fileformat: str) -> None:
    """A06: nothing is clipped without a word, and NaN is no sample."""
    with pytest.warns(UserWarning, match=r"d/i.*\"x\"|'x'.*2 samples do not fit into 16 bits.*lossy=True"):
        x = item.add_array("x", [0, -1, 0.5, 1.5, -1.5], None, fileformat, 8000)
    same(x, np.array([0, -1, 0.5, 1 - 2**-15, -1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(item.add_array("y", [0, -1, 0.5, 1.5, -1.5], None, fileformat, 8000, lossy=True), x)
        item.add_array("fits", [0, -1, 0.999], None, fileformat, 8000)
    for bad in [np.nan, np.inf]:
        with pytest.raises(ValueError, match=f"sample 1 is .*{bad}|sample 1 is NaN"):
            item.add_array("z", [0, bad], None, fileformat, 8000)
    assert not item.has_array("z") and not list(Path(item._path).glob("z*"))
    assert item.add_array("z", [0, np.nan, np.inf], None, fileformat, 8000, lossy=True).tolist() == [0, 0, 1 - 2**-15]
    if fileformat == "wav":
        same(item.add_array("f", [0, 1.5, np.nan], None, "wav", 8000, subtype="DOUBLE"), np.array([0, 1.5, np.nan]))


@pytest.mark.parametrize("fileformat", ["wav", "flac"])
def test_default_subtype_drops_precision_with_a_warning(item: Any, fileformat: str) -> None:
    """A07."""
    with pytest.warns(UserWarning, match="1 samples do not fit into 16 bits"):
        item.add_array("x", np.array([2**30 + 1], "i4"), None, fileformat, 8000)
    if fileformat == "wav":
        same(item.add_array("y", np.array([2**30 + 1], "i4"), None, "wav", 8000, subtype="PCM_32"), np.array([(2**30 + 1) / 2**31]))
    with pytest.raises(ValueError, match="subtype"):
        item.add_array("z", [0.0], None, fileformat, 8000, subtype="PCM_17")
    with pytest.raises(ValueError, match="VORBIS"):
        item.add_array("z", [0.0], None, fileformat, 8000, subtype="VORBIS")


def test_ogg_of_many_frames_and_of_high_rates(item: Any) -> None:
    """A10: libsndfile ends the process."""
    long = item.add_array("x", np.zeros(1_000_000), None, "ogg", 8000)
    assert long.shape == (1_000_000,)
    for rate in [250_000, 1_000_000]:
        with pytest.raises(ValueError, match="200000 Hz|200000"):
            item.add_array("y", np.zeros(1000), None, "ogg", rate)


def test_what_ogg_changes_is_told_unless_it_is_wanted(item: Any) -> None:
    """The reference says nothing; wav and flac round floats by less than their step."""
    noise = np.random.default_rng(3).uniform(-0.5, 0.5, 20_000)
    with pytest.warns(UserWarning, match=r"'x': Vorbis keeps samples about .* changed, by up to .*wav, flac or npy, or say lossy=True") as told:
        added = item.add_array("x", noise, None, "ogg", 8000)
    changes = np.abs(np.asarray(added) - noise)
    assert f"{(changes >= 2**-15).sum()} changed, by up to {changes.max():.3e}".replace("e-0", "e-") in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(item.add_array("y", noise, None, "ogg", 8000, lossy=True), added)
        item.add_array("z", np.zeros(3000), None, "ogg", 8000)
        for fileformat in ["wav", "flac"]:
            close = item.add_array(fileformat, noise, None, fileformat, 8000)
            assert 0 < np.abs(np.asarray(close) - noise).max() < 2**-15


@pytest.mark.parametrize("fileformat", ["wav", "flac", "ogg"])
def test_truncated_audio_is_an_error(item: Any, fileformat: str) -> None:
    """A11, A17."""
    item.add_array("x", np.sin(np.arange(50_000) / 30) / 2, None, fileformat, 8000)
    file = Path(item._path) / f"x.{fileformat}"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(ValueError, match=rf"d/i/x\.{fileformat}.*"):
        ours.Item(item._path).x


def test_flipped_bit_in_flac(item: Any) -> None:
    """A17."""
    item.add_array("x", np.sin(np.arange(50_000) / 30) / 2, None, "flac", 8000)
    file = Path(item._path) / "x.flac"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match=r"x\.flac"):
        ours.Item(item._path).x


def test_zero_length_recordings(item: Any) -> None:
    """A13."""
    same(item.add_array("x", np.zeros(0), None, "wav", 8000), np.zeros(0))
    for fileformat in ["flac", "ogg"]:
        with pytest.raises(ValueError, match="empty"):
            item.add_array("y", np.zeros(0), None, fileformat, 8000)
    assert names_of_files(item) == ["_metadata.json", "x.json", "x.wav"]


def names_of_files(item: Any) -> list[str]:
    return sorted(contents(Path(item._path)))


@pytest.mark.parametrize("fileformat", ["wav", "flac", "ogg"])
def test_one_channel_keeps_its_shape_and_channels_are_guarded(item: Any, fileformat: str) -> None:
    """A14."""
    assert item.add_array("x", np.zeros((100, 1)), {"a": 1}, fileformat, 8000).shape == (100, 1)
    found = ours.Item(item._path).x
    assert (found.shape, found.metadata) == ((100, 1), {"a": 1, "samplerate": 8000})
    for shape in [(2, 1000), (2, 2000), (2, 2, 2), (3, 0)]:
        with pytest.raises(ValueError, match="transpose|channels|shape"):
            item.add_array("y", np.zeros(shape), None, fileformat, 8000)
    if reference is not None:
        theirs = reference.Item(Path(item._path), True).x
        assert theirs.shape == (100,) and theirs.metadata["samplerate"] == 8000


def test_files_have_their_own_sample_rates(item: Any) -> None:
    """A16."""
    for rate in [32000, 16000, 1, 44100.0, np.int64(8000)]:
        found = item.add_array(f"x{int(rate)}", [0.0], None, "wav", rate)
        assert found.metadata["samplerate"] == rate and sf.info(f"{item._path}/x{int(rate)}.wav").samplerate == rate
    for bad in [0, -1, 0.5, float("nan"), float("inf"), True, "8e3", [8000], 2**31, 2**32]:
        with pytest.raises(TypeError, match="samplerate"):
            item.add_array("y", [0.0], None, "wav", bad)
    with pytest.warns(UserWarning, match="npy files have no samplerate"):
        assert item.add_array("n", [0.0], None, "npy", 8000).metadata == {}


def test_files_are_added_as_they_are(item: Any, tmp_path: Path) -> None:
    """J06: endings in upper case, and ones that lie."""
    tone = np.sin(np.arange(500) / 10) / 2
    stereo = np.stack([tone, -tone], 1)
    for file, format_, rate in [("A.WAV", "WAV", 16000), ("b.Flac", "FLAC", 8000), ("c.ogg", "OGG", 44100)]:
        sf.write(tmp_path / file, stereo, rate, format=format_)
        found = item.add_array_from_file(file[0], tmp_path / file, {"take": 1})
        assert found.metadata == {"take": 1, "samplerate": rate} and found.shape == (500, 2)
        kept = Path(item._path) / f"{file[0]}.{format_.lower()}"
        assert kept.read_bytes() == (tmp_path / file).read_bytes()
        assert f'"samplerate": {rate}' in kept.with_suffix(".json").read_text()
    sf.write(tmp_path / "lie.flac", tone, 22050, format="WAV")
    found = item.add_array_from_file("lie", str(tmp_path / "lie.flac"))
    assert (found._filename, found.metadata) == ("lie.wav", {"samplerate": 22050})
    structured = np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])
    for data in [structured, np.arange(6).reshape(2, 3)]:
        np.save(tmp_path / "d.npy", data)
        name = f"d{data.ndim}"
        same(item.add_array_from_file(name, tmp_path / "d.npy"), data)
    (tmp_path / "x.txt").write_text("hello, this is text")
    (tmp_path / "x.wav").write_text("hello, this is text")
    with pytest.raises(NotImplementedError, match=r"x\.txt.*npy"):
        item.add_array_from_file("t", tmp_path / "x.txt")
    with pytest.raises(ValueError, match=r"x\.wav"):
        item.add_array_from_file("t", tmp_path / "x.wav")
    with pytest.raises(FileNotFoundError, match=r"y\.wav"):
        item.add_array_from_file("t", tmp_path / "y.wav")
    assert not [name for name in names_of_files(item) if name.startswith("t")]


# MAT


@pytest.mark.parametrize("name", ["_ref", "1st", "x y", "ü", "日", "x" * 40, "x.y"])
def test_names_that_matlab_has_not(item: Any, name: str) -> None:
    """M01."""
    found = item.add_array(name, np.arange(6.0).reshape(2, 3), {"a": 1}, "mat")
    same(np.ascontiguousarray(found), np.arange(6.0).reshape(2, 3))
    assert name in item and [n for n, _ in item.all_arrays()] == [name]
    stored = pytest.importorskip("scipy.io").loadmat(f"{item._path}/{name}.mat")
    [(inner, values)] = [(k, v) for k, v in stored.items() if not k.startswith("__")]
    assert np.array_equal(values, found) and inner == {"_ref": "x_ref", "日": "x_"}.get(name, name)
    if reference is not None and inner == name:
        assert np.array_equal(getattr(reference.Item(Path(item._path), True), name), found)


def test_mat_files_of_others(item: Any, tmp_path: Path) -> None:
    """M03."""
    scipy_io = pytest.importorskip("scipy.io")
    scipy_io.savemat(tmp_path / "other.mat", {"other": np.arange(3)})
    assert item.add_array_from_file("x", tmp_path / "other.mat").tolist() == [[0, 1, 2]]
    scipy_io.savemat(tmp_path / "two.mat", {"a": np.arange(3), "b": np.arange(2)})
    with pytest.raises(ValueError, match=r"two\.mat.*\(a, b\)"):
        item.add_array_from_file("c", tmp_path / "two.mat")
    assert item.add_array_from_file("a", tmp_path / "two.mat").tolist() == [[0, 1, 2]]
    scipy_io.savemat(tmp_path / "cell.mat", {"s": {"a": 1}})
    with pytest.raises(ValueError, match=r"cell\.mat"):
        item.add_array_from_file("s", tmp_path / "cell.mat")
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM"
    (tmp_path / "new.mat").write_bytes(head.ljust(512, b"\0") + b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(ValueError, match=r"new\.mat.*7\.3"):
        item.add_array_from_file("n", tmp_path / "new.mat")


def test_dtypes_that_mat_has_not(item: Any) -> None:
    for data in [np.array(["ab"]), np.array([b"ab"]), np.zeros(2, "M8[s]"), np.zeros(2, [("a", "i4")])]:
        with pytest.raises(ValueError, match="mat|dtype"):
            item.add_array("x", data, fileformat="mat")
    assert names_of_files(item) == ["_metadata.json"]


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    dataset = ours.create_dataset(tmp_path / "d")
    item = dataset.add_item("i")
    item.add_array("x", [1])
    before = contents(tmp_path / "d")
    for wrong in [
        lambda: item.add_array("y", [1], {"a": {1}}),
        lambda: item.add_array("y", np.zeros((2, 2, 2)), None, "wav", 8000),
        lambda: item.add_array("x", [1.0], None, "wav", 8000),
        lambda: item.add_array("y", np.array([None])),
        lambda: dataset.add_item("j", {"a": object()}),
    ]:
        with pytest.raises((TypeError, ValueError)):
            wrong()
    assert contents(tmp_path / "d") == before


def test_an_array_of_another_item_is_not_deleted(tmp_path: Path) -> None:
    dataset = ours.create_dataset(tmp_path / "d")
    a, b = dataset.add_item("a"), dataset.add_item("b")
    a.add_array("x", [1])
    b.add_array("x", [2])
    with pytest.raises(TypeError, match=r"'x' is in .*d/a, not in .*d/b"):
        b.delete_array(a.x)
    other = ours.create_dataset(tmp_path / "e")
    other.add_item("a")
    with pytest.raises(TypeError, match="another data set"):
        other.delete_item(a)
    assert "x" in a and "x" in b and "a" in other
    # A document that names another array's file.
    (tmp_path / "d/b/y.json").write_text('{"_filename": "x.npy"}')
    with pytest.raises(TypeError):
        b.delete_array(np.zeros(3).view(ours.Array))
    found = ours.DataSet(tmp_path / "d")["b"]["y"]
    (tmp_path / "d/b/y.npy").write_bytes((tmp_path / "d/b/x.npy").read_bytes())
    (tmp_path / "d/b/y.json").write_text('{"_filename": "y.npy"}')
    b.delete_array(found)
    assert "y" not in b and b.x.tolist() == [2]


@needs_reference
def test_states_that_the_reference_leaves_are_read(tmp_path: Path) -> None:
    """Half-written documents, data without metadata, names that we refuse."""
    dataset = reference.create_dataset(tmp_path / "d")
    item = dataset.add_item("i")
    for fail in [lambda: dataset.add_item("half", {"a": {1}}), lambda: item.add_array("rag", [[1], [1, 2]])]:
        with pytest.raises(Exception):  # noqa: B017
            fail()
    item.add_array(".h", [1])
    item.add_array("x", [2])
    again = ours.DataSet(tmp_path / "d", readonly=False)
    assert names(again.all_items()) == ["half", "i"]
    assert [name for name, _ in again["i"].all_arrays()] == ["x"]
    with pytest.raises(ValueError, match="d/half"):
        again["half"].metadata
    again.delete_item("half")
    assert names(again.find_items()) == ["i"]
