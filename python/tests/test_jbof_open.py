"""`sigbank.open` on data sets of the JBOF layout, most of them written by the reference package."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sigbank
from jbof_cases import needs_reference, ours, reference, same
from sigbank import errors

PROGRAM = os.environ.get("SIGBANK_PROGRAM", str(Path(sys.executable).parent / "sigbank"))
SINE = np.sin(np.arange(4000) / 20) / 2
NPY = {
    "i4": np.arange(-3, 3, dtype="<i4"),
    "big": np.arange(6, dtype=">f8").reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6, dtype="<u2").reshape(2, 3)),
    "c8": np.array([1 + 2j, -3j], "<c8"),
    "flag": np.array([True, False]),
    "text": np.array(["ä", "bcd"]),
    "raw": np.array([b"x", b"yz"]),
    "scalar": np.array(7, "<i8"),
    "empty": np.zeros((0, 4), "<f4"),
    "when": np.array(["2024-02-29"], "M8[D]"),
}


def fill(module: Any, path: Path, items: int = 6) -> None:
    """Every kind of file; `x` in all items alike, `mic` of other lengths, `img` in one."""
    dataset = module.create_dataset(path, {"owner": "me", "n": 2**53 + 1})
    for n in range(items):
        item = dataset.add_item(f"take {n}", {"n": n, "speaker": "ab"[n % 2]})
        item.add_array("x", np.arange(20, dtype=">i2") + n, {"unit": "V"})
        item.add_array("mic", SINE[: 100 * n + 7], fileformat="wav", samplerate=8000)
    item.add_array("img", np.outer(np.arange(3.0), np.arange(4.0)), fileformat="mat")


def little(array: Any) -> Any:
    """The same values as the layout-neutral interface gives them."""
    array = np.asarray(array)
    return np.ascontiguousarray(array).reshape(array.shape).astype(array.dtype.newbyteorder("<"))


@needs_reference
def test_items_are_records_with_the_references_values(tmp_path: Path) -> None:
    fill(reference, tmp_path / "d")
    dataset = sigbank.open(tmp_path / "d")
    assert (dataset.layout, dataset.splits, len(dataset), dataset.metadata) == ("jbof", {"all": 6}, 6, {"owner": "me", "n": 2**53 + 1})
    assert repr(dataset) == f'Dataset("{tmp_path}/d", jbof, all 6)'
    theirs = reference.DataSet(tmp_path / "d")
    for n in range(6):
        record, item = dataset[n], theirs.get_item(f"take {n}")
        assert list(record) == (["img", "mic", "x"] if n == 5 else ["mic", "x"])
        for name, value in record.items():
            same(value, little(getattr(item, name)))
    x, mic, img = (dataset.schema[name] for name in ("x", "mic", "img"))
    assert (x.dtype, x.shape, x.metadata) == (np.dtype("<i2"), (20,), {"metadata": {"unit": "V"}})
    assert (mic.dtype, mic.metadata["samplerate"], mic.metadata["ragged"]) == (np.dtype("f8"), 8000, True)
    assert (img.metadata["records"], img.shape) == (1, None)
    assert dataset.root_digest == "md5:" + theirs.calculate_hash() == "md5:" + ours.DataSet(tmp_path / "d").calculate_hash()
    assert dataset.verify()[1] == 6
    assert dataset.ids() == [f"take {n}" for n in range(6)]
    same(dataset.by_id("take 3")["x"], np.arange(3, 23, dtype="<i2"))
    with pytest.raises(KeyError, match="no record 'take 6'.*near it: 'take 0'"):
        dataset.by_id("take 6")


@needs_reference
@pytest.mark.parametrize("fileformat", ["wav", "flac", "ogg"])
def test_audio_is_scaled_as_the_reference_scales_it(tmp_path: Path, fileformat: str) -> None:
    written = reference.create_dataset(tmp_path / "d")
    stereo = np.stack([SINE, -SINE / 3], axis=1)
    for name, array in [("a", stereo), ("b", stereo[::-1] / 2)]:
        written.add_item(name, {}).add_array("s", array, fileformat=fileformat, samplerate=16000)
    dataset = sigbank.open(tmp_path / "d")
    assert (dataset.schema["s"].shape, dataset.schema["s"].metadata["samplerate"]) == ((4000, 2), 16000)
    (batch,) = dataset.batches("all", 2)
    for n, name in enumerate("ab"):
        expected = np.asarray(reference.DataSet(tmp_path / "d").get_item(name).s)
        if fileformat == "ogg":  # Decoders may differ in the last bits.
            np.testing.assert_allclose(batch["s"][n], expected, atol=1e-6)
        else:
            same(batch["s"][n], expected)
    assert dataset.verify()[1] == 2


@needs_reference
def test_every_dtype_is_what_is_stored(tmp_path: Path) -> None:
    item = reference.create_dataset(tmp_path / "d").add_item("i", {})
    for name, array in NPY.items():
        item.add_array(name, array)
    item.add_array("pair", np.array([(1, 2.5)], [("a", "<i4"), ("b", "<f8")]))
    dataset = sigbank.open(tmp_path / "d")
    assert dataset.schema["pair"].metadata["unreadable"] == 1
    with pytest.raises(errors.UnsupportedError, match='item "i", array "pair"'):
        dataset[0]
    (batch,) = dataset.batches("all", 1, fields=list(NPY))
    for name, array in NPY.items():
        same(batch[name][0], little(array))
    shutil.rmtree(tmp_path / "d" / "i")
    assert len(dataset) == 1
    with pytest.raises(errors.NotFoundError, match='item "i", array "i4"'):
        list(dataset.batches("all", 1, fields=["i4"]))


def test_shapes_and_dtypes_that_files_cannot_hold_are_kept(tmp_path: Path) -> None:
    item = ours.create_dataset(tmp_path / "d").add_item("i")
    arrays = {
        "column": SINE[:9, None].round(2),
        "line": np.arange(3, dtype="<f4"),
        "half": np.array([1, 0.5, -2], "<f2"),
        "flag": np.array([[[True]], [[False]]]),
        "one": np.array(3.5),
    }
    for name, array in arrays.items():
        wav = name == "column"
        item.add_array(name, array, fileformat="wav" if wav else "mat", samplerate=8000 if wav else None)
    record = sigbank.open(tmp_path / "d")[0]
    for name in arrays:
        same(record[name], np.asarray(item[name] if hasattr(type(item), "__getitem__") else getattr(item, name)))
    same(record["half"], arrays["half"])


@needs_reference
def test_batches_are_the_records_in_every_order(tmp_path: Path) -> None:
    fill(reference, tmp_path / "d", 50)
    dataset = sigbank.open(tmp_path / "d")
    singly = {int(record["x"][0]): record for record in (dataset[n] for n in range(50))}
    stored = [int(name.split()[1]) for name in dataset.ids()]
    for shuffle in [False, 10, True]:
        seen = []
        for batch in dataset.batches("all", 8, shuffle, seed=5, threads=2):
            assert batch["x"].shape[1:] == (20,) and batch["x"].dtype == np.dtype("<i2")
            for row, n in enumerate(batch["x"][:, 0].tolist()):
                same(batch["mic"][row], singly[n]["mic"])
                assert (batch["img"][row] is None) == (n != 49)
                seen.append(n)
        assert sorted(seen) == list(range(50)) and (seen == stored) == (shuffle is False)
    (only,) = dataset.batches("all", 50, fields=["mic"])
    assert list(only) == ["mic"] and [len(value) for value in only["mic"]] == [len(dataset[n]["mic"]) for n in range(50)]


@needs_reference
@pytest.mark.parametrize("fileformat", ["wav", "flac"])
def test_windows_make_batches_of_unequal_recordings(tmp_path: Path, fileformat: str) -> None:
    written = reference.create_dataset(tmp_path / "d")
    lengths = {"a": 1000, "b": 63, "c": 64, "d": 500}
    for n, (name, length) in enumerate(lengths.items()):
        sound = np.stack([SINE[:length] / (n + 1), SINE[:length] / 2], axis=1)
        written.add_item(name, {}).add_array("s", sound, fileformat=fileformat, samplerate=16000)
    dataset = sigbank.open(tmp_path / "d")
    windows = dataset.windows("s", 64, 32)
    assert repr(windows) == f"""Dataset("{tmp_path}/d", jbof, windows of 64 of 's' every 32, all 45)"""
    assert (list(windows.schema), windows.schema["s"].shape) == (["s", "item", "start"], (64, 2))
    assert windows.schema["s"].metadata["window"] == {"length": 64, "hop": 32} and windows.schema["s"].metadata["samplerate"] == 16000
    expected = [(name, start) for name, length in lengths.items() for start in range(0, length - 63, 32)]
    for shuffle in [False, 20]:
        seen = []
        for batch in pickle.loads(pickle.dumps(windows)).batches("all", 8, shuffle, seed=1):
            for row, (name, start) in enumerate(zip(batch["item"], batch["start"], strict=True)):
                same(batch["s"][row], np.asarray(reference.DataSet(tmp_path / "d").get_item(name).s)[start : start + 64])
                seen.append((name, start))
        assert sorted(seen) == expected and (seen == expected) == (shuffle is False)
    assert (windows[3]["item"], windows[3]["start"], len(dataset.windows("s", 500))) == ("a", 96, 3)
    with pytest.raises(errors.NotFoundError, match="there are s"):
        dataset.windows("t", 4)
    with pytest.raises(errors.InvalidError, match="at least 1"):
        dataset.windows("s", 4, 0)


def in_a_child(dataset: Any, queue: Any) -> None:
    queue.put([batch["x"][:, 0].tolist() for batch in dataset.batches("all", 4)])


@needs_reference
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_other_processes_read_the_same(tmp_path: Path, start: str) -> None:
    fill(reference, tmp_path / "d")
    dataset = sigbank.open(tmp_path / "d")
    assert len(list(dataset.batches("all", 4))) == 2  # Its threads are the parent's.
    again = pickle.loads(pickle.dumps(dataset))
    same(again[4]["x"], dataset[4]["x"])
    context = multiprocessing.get_context(start)
    queue = context.Queue()
    process = context.Process(target=in_a_child, args=(dataset, queue))
    process.start()
    assert queue.get(timeout=60) == [[0, 1, 2, 3], [4, 5]]
    process.join(60)
    assert process.exitcode == 0


@needs_reference
def test_a_zip_archive_and_an_hdf5_file_are_opened_as_they_are(tmp_path: Path) -> None:
    fill(reference, tmp_path / "d")
    shutil.make_archive(str(tmp_path / "z"), "zip", tmp_path, "d")
    ours.dataset_to_hdf(ours.DataSet(tmp_path / "d"), str(tmp_path / "h.h5"))
    folder = sigbank.open(tmp_path / "d")
    for name in ["z.zip", "h.h5"]:
        dataset = sigbank.open(tmp_path / name)
        assert (dataset.layout, dataset.ids(), dataset.metadata["owner"]) == ("jbof", folder.ids(), "me")
        for n in range(6):
            record = dataset[n]
            assert list(record) == list(folder[n])
            for field, value in folder[n].items():
                same(np.asarray(record[field]).reshape(value.shape), value)
        assert dataset.verify()[1] == 6
        assert len(list(pickle.loads(pickle.dumps(dataset)).batches("all", 3))) == 2
    with zipfile.ZipFile(tmp_path / "stored.zip", "w", zipfile.ZIP_STORED) as archive:
        for path in sorted((tmp_path / "d").rglob("*.*")):
            archive.write(path, path.relative_to(tmp_path))
    whole = (tmp_path / "stored.zip").read_bytes()
    damaged = bytearray(whole)
    damaged[whole.index(b"\x93NUMPY") + 140] ^= 1
    (tmp_path / "bad.zip").write_bytes(damaged)
    assert sigbank.open(tmp_path / "stored.zip").verify()[1] == 6
    with pytest.raises(errors.CorruptError, match='item "take 0", array "x"'):
        sigbank.open(tmp_path / "bad.zip").verify()


def test_what_is_no_data_set_is_not_taken_for_one(tmp_path: Path) -> None:
    fill(ours, tmp_path / "d", 1)
    with pytest.raises(errors.UnsupportedError, match=r"item of a JBOF data set.*folder that it lies in"):
        sigbank.open(tmp_path / "d" / "take 0")
    with pytest.raises(errors.UnsupportedError, match=r"data sets lie in this folder \(d\)"):
        sigbank.open(tmp_path)
    (tmp_path / "loose" / "a").mkdir(parents=True)
    with pytest.raises(errors.UnsupportedError, match=r"dataset_info.json.*root.json.*_metadata.json.*sigbank import"):
        sigbank.open(tmp_path / "loose")
    (tmp_path / "d" / "_metadata.json").unlink()
    with pytest.raises(errors.UnsupportedError, match=r"its own document, _metadata.json, is missing"):
        sigbank.open(tmp_path / "d")


def test_damage_names_item_and_array(tmp_path: Path) -> None:
    fill(ours, tmp_path / "d")
    (tmp_path / "d" / "take 2" / "x.npy").write_bytes(b"\x93NUMPY\x01\x00")
    (tmp_path / "d" / "take 4" / "mic.json").write_text("{")
    dataset = sigbank.open(tmp_path / "d")
    same(dataset[1]["x"], np.arange(1, 21, dtype="<i2"))
    assert (dataset.schema["x"].shape, dataset.schema["x"].metadata["unreadable"]) == ((20,), 1)
    with pytest.raises(errors.CorruptError, match=r'x.npy: item "take 2", array "x"'):
        dataset[2]
    with pytest.raises(errors.CorruptError, match=r'mic.json: item "take 4", array "mic"'):
        list(dataset.batches("all", 2, fields=["mic"]))
    with pytest.raises(errors.CorruptError, match=r'item "take [24]"'):
        dataset.verify()


def test_a_data_set_in_a_bucket_and_an_archive_there(tmp_path: Path, s3_server: dict[str, str]) -> None:
    fill(ours, tmp_path / "d")
    archive = shutil.make_archive(str(tmp_path / "z"), "zip", tmp_path, "d")
    settings = {"access_key_id": "testing", "secret_access_key": "testing", "region": "us-east-1", "endpoint": s3_server["endpoint"]}
    root = f"s3://{s3_server['bucket']}/jbof/{tmp_path.name}"
    options = [word for key, value in settings.items() for word in ("--dst-option", f"{key}={value}")]
    subprocess.run([PROGRAM, "cp", str(tmp_path / "d"), f"{root}/d", *options], check=True, timeout=120, capture_output=True)
    boto3 = pytest.importorskip("boto3")
    client = boto3.client(
        "s3", endpoint_url=s3_server["endpoint"], aws_access_key_id="testing", aws_secret_access_key="testing", region_name="us-east-1"
    )
    client.upload_file(archive, s3_server["bucket"], f"jbof/{tmp_path.name}/z.zip")
    folder = sigbank.open(tmp_path / "d")
    for address in [f"{root}/d", f"{root}/z.zip"]:
        dataset = sigbank.open(address, storage_options=settings)
        assert (dataset.layout, dataset.path, dataset.ids(), dataset.root_digest) == ("jbof", address, folder.ids(), folder.root_digest)
        (batch,) = pickle.loads(pickle.dumps(dataset)).batches("all", 6)
        for n in range(6):
            for name, value in folder[n].items():
                same(batch[name][n], value)
        assert dataset.verify()[1:] == folder.verify()[1:]
    with pytest.raises(errors.UnsupportedError, match="no dataset of a known layout"):
        sigbank.open(root, storage_options=settings)
