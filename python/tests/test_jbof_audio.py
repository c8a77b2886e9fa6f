"""Audio that formats hold and few programs write: high rates, codes of telephony, files that were cut."""

from __future__ import annotations

import io
import re
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jbof_cases import AUDIO, MODULES, contents, ours, same

sf = pytest.importorskip("soundfile")


@pytest.fixture
def item(tmp_path: Path) -> Any:
    return ours.create_dataset(tmp_path / "d").add_item("i")


@pytest.mark.parametrize("rate", [1, 11025, 96_000, 96_001, 176_400, 192_000, 250_000, 384_000, 655_350])
def test_flac_of_every_rate(item: Any, rate: int) -> None:
    """Ultrasound and side channels: soundfile reads what is written, whatever the rate."""
    data = (np.sin(np.arange(20_000) / 7) * 20_000).astype("i2")
    for channels, subtype in [(1, "PCM_16"), (2, "PCM_24"), (8, "PCM_S8")]:
        frames = np.stack([np.roll(data, n) for n in range(channels)], 1)
        name = f"x{channels}"
        added = item.add_array(name, frames, None, "flac", rate, subtype=subtype, lossy=True)
        theirs, their_rate = sf.read(f"{item._path}/{name}.flac", always_2d=True)
        assert their_rate == rate == added.metadata["samplerate"]
        same(np.asarray(added).reshape(frames.shape), theirs)
        if subtype != "PCM_S8":
            same(np.round(theirs * 2**15).astype("i2"), frames)
    with pytest.raises(ValueError, match="655350"):
        item.add_array("y", data, None, "flac", 655_351)


@pytest.mark.parametrize("subtype", ["ULAW", "ALAW"])
def test_codes_of_telephony(item: Any, tmp_path: Path, subtype: str) -> None:
    """All 256 codes, as libsndfile has them, one channel and two."""
    for channels in (1, 2):
        file = io.BytesIO()
        sf.write(file, np.zeros((256, channels)), 8000, format="WAV", subtype=subtype)
        data = bytearray(file.getvalue())
        at = data.index(b"data") + 8
        data[at : at + 256 * channels] = bytes(range(256)) * channels
        path = tmp_path / f"{channels}.wav"
        path.write_bytes(data)
        found = item.add_array_from_file(f"x{channels}", path)
        same(found, sf.read(path)[0])
        assert found.metadata == {"samplerate": 8000} and (Path(item._path) / f"x{channels}.wav").read_bytes() == data
    with pytest.raises(ValueError, match=subtype):
        item.add_array("y", [0.0], None, "wav", 8000, subtype=subtype)


@pytest.mark.parametrize(("subtype", "said"), [("MS_ADPCM", "Microsoft ADPCM"), ("IMA_ADPCM", "IMA ADPCM"), ("GSM610", "GSM")])
def test_codes_in_blocks_are_refused_by_name(item: Any, tmp_path: Path, subtype: str, said: str) -> None:
    """A15: their blocks are padded, so that they hold more frames than were written."""
    sf.write(tmp_path / "x.wav", np.zeros(1600), 8000, subtype=subtype)
    with pytest.raises(ValueError, match=rf"x\.wav.*{said}.*Convert it") as refused:
        item.add_array_from_file("x", tmp_path / "x.wav")
    assert "incomplete" not in str(refused.value) and "restore" not in str(refused.value)
    with pytest.raises(ValueError, match=said):
        item.add_array_from_file("x", tmp_path / "x.wav", incomplete=True)
    assert "x" not in item


CUT = [
    *(("wav", subtype) for subtype in ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW"]),
    *(("flac", subtype) for subtype in ["PCM_S8", "PCM_16", "PCM_24"]),
    ("ogg", "VORBIS"),
]


@pytest.mark.parametrize(("kind", "subtype"), CUT)
def test_audio_that_was_cut_is_taken_only_where_that_is_said(item: Any, tmp_path: Path, kind: str, subtype: str) -> None:
    count = 60_000 if kind == "ogg" else 9000  # Pages of ogg are long.
    noise = np.random.default_rng(1).standard_normal((count, 2)) / 20
    frames = np.stack([np.sin(np.arange(count) / 9), np.cos(np.arange(count) / 11)], 1) * 0.7 + noise
    path = tmp_path / f"take.{kind}"
    sf.write(path, frames, 22050, format=kind.upper(), subtype=subtype)
    whole, _ = sf.read(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 5 + 1])
    before = contents(Path(item._path))
    with pytest.raises(ValueError, match=rf"take\.{kind}.*cut short.*incomplete=True"):
        item.add_array_from_file("x", path)
    assert contents(Path(item._path)) == before
    with pytest.warns(UserWarning, match=rf"'x' is what decodes of .*take\.{kind}: .*frames"):
        found = item.add_array_from_file("x", path, {"take": 1}, incomplete=True)
    assert found.metadata == {"take": 1, "samplerate": 22050} and 1000 < len(found) < count
    again = ours.Item(item._path).x
    same(again, found)
    if kind == "ogg":
        assert found._filename == "x.wav" and np.allclose(found, whole[: len(found)], atol=1e-5)
    else:
        same(found, whole[: len(found)])
        assert found._filename == f"x.{kind}"
    same(sf.read(f"{item._path}/{found._filename}")[0], found)


def test_a_sample_that_was_cut_in_its_middle_and_a_header_that_says_more(item: Any, tmp_path: Path) -> None:
    """Frames are counted whole; a complete file is copied as it is whatever is said."""
    sf.write(tmp_path / "x.wav", np.arange(101).astype("i2"), 8000)
    data = (tmp_path / "x.wav").read_bytes()
    item.add_array_from_file("whole", tmp_path / "x.wav", incomplete=True)
    assert (Path(item._path) / "whole.wav").read_bytes() == data
    at = data.index(b"data") + 4
    odd = data[:at] + struct.pack("<I", 103) + data[at + 4 : at + 4 + 103]
    for name, cut, count in [("middle", data[:-1], 100), ("odd", odd, 51), ("less", data[:-60], 71)]:
        (tmp_path / f"{name}.wav").write_bytes(cut)
        with pytest.raises(ValueError, match=rf"{name}\.wav.*incomplete=True"):
            item.add_array_from_file(name, tmp_path / f"{name}.wav")
        with pytest.warns(UserWarning, match="51 frames" if name == "odd" else "101 frames"):
            item.add_array_from_file(name, tmp_path / f"{name}.wav", incomplete=True)
        assert np.asarray(item[name] * 2**15).tolist() == list(range(count))


def test_audio_of_which_nothing_is_left_is_refused(item: Any, tmp_path: Path) -> None:
    for kind, keep in [("wav", 45), ("flac", 100), ("ogg", 3000)]:
        sf.write(tmp_path / f"x.{kind}", np.sin(np.arange(2000) / 9), 8000)
        data = (tmp_path / f"x.{kind}").read_bytes()
        (tmp_path / f"x.{kind}").write_bytes(data[: min(keep, len(data) * 4 // 5)])
        with pytest.raises(ValueError, match=rf"x\.{kind}.*"):
            item.add_array_from_file("x", tmp_path / f"x.{kind}", incomplete=True)
    assert "x" not in item


def test_files_of_audio_are_decoded_once(item: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What checked the samples gives them: an array that is added is there without being read again."""

    def never(*arguments: Any) -> None:
        raise AssertionError("it is read again")

    for kind in ["flac", "ogg"]:
        sf.write(tmp_path / f"x.{kind}", np.sin(np.arange(5000) / 9), 8000)
        with monkeypatch.context() as patched:
            patched.setattr("sigbank.jbof.array.read", never)
            found = item.add_array_from_file(kind, tmp_path / f"x.{kind}", {"a": 1})
            assert item[kind] is found
        again = ours.Item(item._path)[kind]
        same(again, found)
        assert (found._filename, found.metadata) == (f"{kind}.{kind}", {"a": 1, "samplerate": 8000}) == (again._filename, again.metadata)
        item.delete_array(found)
        assert kind not in item


def test_more_channels_than_two_to_the_24_samples(item: Any) -> None:
    """A12, in the number of samples that it takes: 3,000,000 frames of 6 channels."""
    frames = np.zeros((3_000_000, 6), "i2")
    frames[::1000] = np.arange(6) + 1
    found = item.add_array("x", frames, None, "flac", 48_000)
    assert found.shape == frames.shape
    assert np.array_equal(found[2_999_000], (np.arange(6) + 1) / 2**15) and not found[2_999_001:].any()
    info = sf.info(f"{item._path}/x.flac")
    assert (info.frames, info.channels) == (3_000_000, 6)


ENDS = [b"\0" * 100, b"TAG" + b"a" * 125, b"\xff" * 999, b"APETAGEX" + b"\1" * 60, b"x"]


@pytest.mark.parametrize("kind", ["wav", "flac", "ogg"])
def test_bytes_behind_the_last_frame_are_no_samples(item: Any, tmp_path: Path, kind: str) -> None:
    """Tags and padding: soundfile reads all frames, and so does everyone."""
    frames = np.sin(np.arange(20_000) / 9) / 2
    path = tmp_path / f"x.{kind}"
    sf.write(path, frames, 8000)
    whole = path.read_bytes()
    for number, end in enumerate(ENDS):
        path.write_bytes(whole + end)
        theirs, _ = sf.read(path)
        for incomplete in (False, True):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = item.add_array_from_file(f"x{number}{incomplete}", path, incomplete=incomplete)
            assert (found.shape, found._filename) == (theirs.shape, f"x{number}{incomplete}.{kind}")
            assert np.allclose(found, theirs, atol=1e-6 if kind == "ogg" else 0)
            assert (Path(item._path) / found._filename).read_bytes() == whole + end
    path.write_bytes(whole[: len(whole) * 3 // 4] + b"\0" * 9)
    with pytest.raises(ValueError, match="decode|frames"):
        item.add_array_from_file("cut", path)


def test_what_does_not_help_is_not_advised(item: Any, tmp_path: Path) -> None:
    """`incomplete=True` and copies, where they are no way out."""
    sf.write(tmp_path / "x.aiff", np.zeros(100), 8000)
    sf.write(tmp_path / "x.wav", np.zeros(100), 8000)
    sf.write(tmp_path / "x.ogg", np.zeros(1000), 8000)
    wav, ogg = (tmp_path / "x.wav").read_bytes(), (tmp_path / "x.ogg").read_bytes()
    cases = [
        ("another", (tmp_path / "x.aiff").read_bytes(), "no WAV file.*convert it with another tool", "incomplete"),
        ("headless", wav[:40], "without a 'data' chunk.*restore it from a copy", "incomplete"),
        ("nothing", wav[:45], "ends after 0.*restore it from a copy", "incomplete"),
        ("chained", ogg + ogg, "chained.*Split it", "incomplete|restore"),
    ]
    for name, data, said, unsaid in cases:
        path = tmp_path / f"{name}.wav"
        path.write_bytes(data)
        with pytest.raises(ValueError, match=said) as refused:
            item.add_array_from_file(name, path)
        assert not re.search(unsaid, str(refused.value)), refused.value
        with pytest.raises(ValueError) as refused:
            item.add_array_from_file(name, path, incomplete=True)
        assert "incomplete" not in str(refused.value)


@pytest.mark.parametrize("module", MODULES)
def test_rates_as_they_are_given(tmp_path: Path, module: Any) -> None:
    """Texts, floats and NumPy's numbers: the document has what was given, the file and who reads it a whole number."""
    new = module.create_dataset(tmp_path / "d").add_item("i")
    for number, (rate, written) in enumerate([("8000", '"8000"'), (8000.0, "8000.0"), (np.int64(8000), "8000"), (np.float64(8000), "8000.0")]):
        for kind in AUDIO:
            new.add_array(f"x{number}{kind}", np.zeros(100), None, kind, rate)
            document = (tmp_path / f"d/i/x{number}{kind}.json").read_text()
            assert f'"samplerate": {written}\n' in document
            found = module.Array(tmp_path / f"d/i/x{number}{kind}.json")
            assert (found.metadata, type(found.metadata["samplerate"])) == ({"samplerate": 8000}, int)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        new.add_array("between", np.zeros(100), None, "wav", 44100.5)
    if module is ours:
        assert ["44100.5" in str(w.message) and "44100;" in str(w.message) for w in told] == [True]
    assert getattr(new, "between").metadata["samplerate"] == 44100 == sf.info(str(tmp_path / "d/i/between.wav")).samplerate


def test_rates_that_nobody_reads_are_not_written(item: Any) -> None:
    """libsndfile keeps a rate in 32 bits with a sign."""
    item.add_array("most", [0.0], None, "wav", 2**31 - 1)
    assert sf.read(f"{item._path}/most.wav")[1] == 2**31 - 1
    for rate in [2**31, 2**32 - 1]:
        with pytest.raises(TypeError, match=str(rate)):
            item.add_array("more", [0.0], None, "wav", rate)
    assert "more" not in item
