"""What `check` says of data sets in which something has lost its document, and what killed processes leave."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sigbank
from jbof_cases import AUDIO, BOTH_WAYS, MODULES, contents, ours, reference
from sigbank import errors

PROGRAM = os.environ.get("SIGBANK_PROGRAM", str(Path(sys.executable).parent / "sigbank"))


def fill(module: Any, folder: Path) -> Any:
    dataset = module.create_dataset(folder, {"owner": "me"})
    for n in range(3):
        item = dataset.add_item(f"take {n}", {"n": n})
        item.add_array("x", np.arange(5) + n, {"unit": "V"})
        item.add_array("mic", np.linspace(-0.5, 0.5, 100), fileformat="wav", samplerate=8000)
    return dataset


def zipped(folder: Path) -> Path:
    return Path(shutil.make_archive(str(folder), "zip", folder.parent, folder.name))


@pytest.mark.parametrize("module", MODULES)
def test_whole_data_sets_are_ok(tmp_path: Path, module: Any) -> None:
    folder = tmp_path / "d"
    fill(module, folder)
    (folder / "notes").mkdir()
    (folder / "notes" / "readme.json").write_text("{}")
    (folder / "notes" / "raw.wav").write_bytes(b"RIFF")
    (folder / "take 1" / "notes.txt").write_text("what the operator said")
    (folder / "take 1" / "._x.npy").write_bytes(b"litter")
    for path in (folder, zipped(folder)):
        assert sigbank.open(path).verify()[1] == 3


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("take 1/x.json", r'take 1: item "take 1": no array has the file x\.npy: there is no x\.json that makes it one.*add_array_from_file'),
        ("take 1/x.npy", r'x\.npy: item "take 1", array "x": the file of the array .* is gone.*restore it, or delete the array'),
        ("take 1/_metadata.json", r'take 1: item "take 1": the folder has the array document .*json", but no _metadata\.json.*restore'),
    ],
)
def test_what_lost_its_other_half_is_named(tmp_path: Path, module: Any, gone: str, said: str) -> None:
    folder = tmp_path / "d"
    fill(module, folder)
    (folder / gone).unlink()
    for path in (folder, zipped(folder)):
        with pytest.raises((errors.CorruptError, errors.NotFoundError), match=said):
            sigbank.open(path).verify()


@pytest.mark.parametrize(("writer", "reader"), BOTH_WAYS)
def test_a_document_that_names_another_file_is_whole(tmp_path: Path, writer: Any, reader: Any) -> None:
    fill(writer, tmp_path / "d")
    (tmp_path / "d/take 0/x.npy").rename(tmp_path / "d/take 0/y.npy")
    (tmp_path / "d/take 0/x.json").write_text('{"_filename": "y.npy"}')
    assert reader.DataSet(tmp_path / "d")["take 0"].x.tolist() == [0, 1, 2, 3, 4]
    assert sigbank.open(tmp_path / "d").verify()[1] == 3


def test_a_zip_whose_members_have_two_names(tmp_path: Path) -> None:
    """Who goes through it unpacks other files than who looks into its directory."""
    fill(ours, tmp_path / "d")
    path = zipped(tmp_path / "d")
    data = bytearray(path.read_bytes())
    at = data.index(b"d/take 1/x.npy")
    data[at : at + 14] = b"d/take 1/z.npy"
    path.write_bytes(data)
    said = r"x\.npy.*where its bytes are it is called 'd/take 1/z\.npy'.*Write it anew"
    with pytest.raises(errors.CorruptError, match=said):
        sigbank.open(path).verify()
    with pytest.raises(ValueError, match=said):
        ours.ZIPDataSet(path)["take 1"].x
    assert ours.ZIPDataSet(path)["take 2"].x.tolist() == [2, 3, 4, 5, 6]
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(path).read("d/take 1/x.npy")


@pytest.mark.parametrize("folder", ["", "d/", "a/b/d/"])
@pytest.mark.parametrize("arrays", [True, False])
def test_a_zip_that_lost_its_own_document_is_no_data_set(tmp_path: Path, folder: str, arrays: bool) -> None:
    """Its only item is not taken for it."""
    ours.create_dataset(tmp_path / "d").add_item("one", {"a": 1}).add_array("x", np.arange(3))
    path = tmp_path / "x.zip"

    def pack(*wanted: str) -> None:
        with zipfile.ZipFile(path, "w") as file:
            for name in wanted:
                file.write(tmp_path / "d" / name, folder + name)

    members = ["one/_metadata.json", *(["one/x.json", "one/x.npy"] if arrays else [])]
    pack("_metadata.json", *members)
    assert [item.name for item in ours.ZIPDataSet(path).all_items()] == ["one"] and sigbank.open(path).verify()[1] == 1
    pack("_metadata.json")
    assert list(ours.ZIPDataSet(path).all_items()) == []
    for others in (members, ["__init__.py", *members]):
        pack(*others)
        with pytest.raises(FileNotFoundError, match=r"x\.zip: there is no JBOF data set.*_metadata\.json"):
            ours.ZIPDataSet(path)
        with pytest.raises(ValueError, match=r"x\.zip"):
            sigbank.open(path)


def test_what_killed_processes_leave_is_no_item_and_goes(tmp_path: Path) -> None:
    """The names are those that a killed writer's things have: see test_jbof_processes for writers that are killed."""
    folder = tmp_path / "d"
    dataset = fill(ours, folder)
    before = contents(folder)
    uuid = "12345678-1234-4234-8234-123456789abc"
    aside, elsewhere = tmp_path / f".d.{uuid}", tmp_path / f".dd.{uuid}"
    for left in (aside, elsewhere):
        shutil.copytree(folder, left)
    staged = folder / "__pycache__/sigbank/items/1-sigbank-tmp"
    staged.mkdir(parents=True)
    (staged / "_metadata.json").write_text("{}")
    hour = time.time() - 4000
    for left in (aside, elsewhere, staged):
        os.utime(left, (hour, hour))
    assert [item.name for item in dataset.all_items()] == ["take 0", "take 1", "take 2"]
    assert sigbank.open(folder).verify()[1] == 3
    ours.DataSet(folder, readonly=False)
    assert not staged.exists() and contents(folder) == before
    ours.delete_dataset(dataset)
    assert not aside.exists() and elsewhere.exists() and not folder.exists()


def test_a_killed_hdf_to_dataset_leaves_nothing_to_be_seen_and_the_next_takes_its_litter(tmp_path: Path) -> None:
    dataset = ours.create_dataset(tmp_path / "d")
    for n in range(1500):
        dataset.add_item(f"{n:04}", {"n": n})
    ours.dataset_to_hdf(dataset, tmp_path / "d.h5")
    code = "import sys; from sigbank import jbof; jbof.hdf_to_dataset(jbof.HDFDataSet(sys.argv[1]), sys.argv[2])"
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "d.h5"), str(tmp_path / "back")])
    left: list[Path] = []
    while child.poll() is None and not left:
        left = [path for path in tmp_path.glob(".back.*") if (path / "0000").exists()]
    child.kill()
    child.wait()
    assert left and left[0].exists() and not (tmp_path / "back").exists()
    old = time.time() - 100
    os.utime(left[0], (old, old))
    ours.hdf_to_dataset(ours.HDFDataSet(tmp_path / "d.h5"), tmp_path / "back")
    assert contents(tmp_path / "back") == contents(tmp_path / "d")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "d", "d.h5"]


def test_a_mapped_file_that_is_too_short_is_an_error_and_deleting_leaves_it(tmp_path: Path) -> None:
    dataset = ours.create_dataset(tmp_path / "d")
    item = dataset.add_item("i")
    item.add_array("x", np.arange(1_000_000))
    item.add_array("y", np.arange(1_000_000))
    with open(tmp_path / "d/i/y.npy", "r+b") as file:
        file.truncate(4_000_000)
    with pytest.raises(ValueError, match=r"y\.npy"):
        ours.DataSet(tmp_path / "d")["i"].y
    found = ours.DataSet(tmp_path / "d")["i"].x
    item.delete_array(found)
    item.add_array("x", np.zeros(3))
    assert int(found[-1]) == 999_999 and int(found.sum()) == 499_999_500_000


def test_two_files_of_one_array_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    fill(ours, folder)
    shutil.copy(folder / "take 1/mic.wav", folder / "take 1/x.wav")
    for path in (folder, zipped(folder)):
        with pytest.raises(errors.CorruptError, match=r'item "take 1": no array has the file x\.wav: x\.json.* names another file'):
            sigbank.open(path).verify()
    (folder / "take 1/x.wav").rename(folder / "take 1/x.txt")
    assert sigbank.open(folder).verify()[1] == 3


@pytest.mark.parametrize("kind", AUDIO)
def test_a_document_of_another_rate_than_its_file_is_told(tmp_path: Path, kind: str) -> None:
    """Which of the two is right nobody knows; arrays have that of the file, as the reference has it."""
    folder = tmp_path / "d"
    item = fill(ours, folder)["take 1"]
    ours.Item(folder / "take 1", False).add_array("a", np.linspace(-0.5, 0.5, 5000), fileformat=kind, samplerate=8000)
    document = folder / "take 1/a.json"
    for same in ("8000", "8000.0", "8000.7", '"8000"', "null"):
        document.write_text(f'{{"_filename": "a.{kind}", "samplerate": {same}}}')
        assert sigbank.open(folder).verify()[1] == 3
        assert item.a.metadata == {"samplerate": 8000}
    document.write_text(f'{{"_filename": "a.{kind}"}}')
    assert sigbank.open(folder).verify()[1] == 3
    for other in ("44100", "7999.9", '"fast"', "[8000]"):
        document.write_text(f'{{"_filename": "a.{kind}", "samplerate": {other}}}')
        with pytest.raises(errors.CorruptError, match=rf"a\.{kind}.*item \"take 1\", array \"a\": .*the samplerate is {re.escape(other)}.*8000 Hz"):
            sigbank.open(folder).verify()
        assert ours.Array(document).metadata == {"samplerate": 8000}
        if reference is not None:
            assert reference.Array(document).metadata == {"samplerate": 8000}
        assert [i.name for i in ours.DataSet(folder).find("a@sample_rate == 8000")] == ["take 1"]


@pytest.mark.parametrize("module", MODULES)
def test_check_gives_the_hash_of_what_it_read(tmp_path: Path, module: Any) -> None:
    """Every file is read once; the hash is that of all files, documents and strangers among them, in folders, zip archives and HDF5 files."""
    folder = tmp_path / "d"
    item = fill(module, folder)["take 1"]
    for kind in AUDIO:
        item.add_array(f"long {kind}", np.sin(np.arange(300_000) / 9).reshape(-1, 2) / 2, None, kind, 8000)
    item.add_array("mat", np.arange(12.0).reshape(3, 4), None, "mat")
    item.add_array("npy", np.arange(500_000))
    (folder / "take 1" / "notes.txt").write_bytes(b"what the operator said" * 50_000)
    (folder / "take 1" / "empty").touch()
    with (folder / "take 1" / "long ogg.ogg").open("ab") as file:
        file.write(b"\0" * 300)
    ours.dataset_to_hdf(ours.DataSet(folder), tmp_path / "d.h5")
    for path in (folder, zipped(folder), tmp_path / "d.h5"):
        done = subprocess.run([PROGRAM, "check", str(path), "--json"], capture_output=True, text=True)
        opened = {".h5": ours.HDFDataSet, ".zip": ours.ZIPDataSet}.get(path.suffix, module.DataSet)(path)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["root"] == f"md5:{opened.calculate_hash()}"
