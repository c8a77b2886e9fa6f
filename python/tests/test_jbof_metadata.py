"""Metadata that JSON's readers disagree on, that are large, and names that no file can have."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from jbof_cases import MODULES, contents, names, needs_reference, ours, reference

HALF = "\ud800"

ODD = {
    "twice": '{"a": 1, "b": {"c": 1, "c": 2}, "a": 2}',
    "half": '{"a": 2, "text": "x\\ud800y", "\\udc00": 1}',
    "deep": '{"a": 2, "deep": ' + "[" * 300 + "]" * 300 + "}",
    "nan": '{"a": 2, "b": NaN, "c": [-Infinity]}',
    "large": '{"a": 2, "b": 1e999, "c": 123456789012345678901234567890, "d": 1E5}',
    "spaces": ' \n{"a":2}\t\n',
}


@pytest.mark.parametrize("module", MODULES)
def test_documents_are_read_as_pythons_json_reads_them(tmp_path: Path, module: Any) -> None:
    dataset = module.create_dataset(tmp_path / "d")
    for name, text in ODD.items():
        dataset.add_item(name)
        (tmp_path / "d" / name / "_metadata.json").write_text(text)
    found = module.DataSet(tmp_path / "d")
    for name, text in ODD.items():
        assert str(found.get_item(name).metadata) == str(json.loads(text))
    if module is not ours:  # It cannot search for numbers.
        return
    assert names(found.find_items(a=2)) == sorted(ODD)
    assert names(found.find_items(a=1)) == []
    assert names(found.find_items(text=f"x{HALF}y")) == ["half"]
    assert names(found.find_items(**{"\udc00": 1})) == ["half"]
    assert names(found.find_items(c=123456789012345678901234567890)) == ["large"]


def test_documents_of_arrays_and_of_the_data_set(tmp_path: Path) -> None:
    item = ours.create_dataset(tmp_path / "d").add_item("i")
    item.add_array("x", [1])
    (tmp_path / "d/i/x.json").write_text('{"a": 1, "a": "\\ud800", "_filename": "none.npy", "_filename": "x.npy"}')
    (tmp_path / "d/_metadata.json").write_text('{"a": 1, "a": "\\ud800", "_itemformat": null}')
    again = ours.DataSet(tmp_path / "d")
    assert again.metadata == {"a": HALF} and again["i"].x.metadata == {"a": HALF} and again["i"].x.tolist() == [1]
    if reference is not None:
        assert reference.DataSet(tmp_path / "d").metadata == {"a": HALF}


def test_what_is_too_deep_for_python_is_damaged(tmp_path: Path) -> None:
    dataset = ours.create_dataset(tmp_path / "d")
    dataset.add_item("i")
    dataset.add_item("j", {"a": 1})
    (tmp_path / "d/i/_metadata.json").write_text('{"a":' * 200_000 + "1" + "}" * 200_000)
    with pytest.raises(ValueError, match=r"d/i.*this is no JSON"):
        ours.DataSet(tmp_path / "d")["i"].metadata
    assert next(iter(ours.DataSet(tmp_path / "d")["j"].metadata)) == "a"


def test_half_of_a_pair_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    """An error of sigbank that names the key, in place of a bare UnicodeEncodeError."""
    dataset = ours.create_dataset(tmp_path / "d")
    item = dataset.add_item("i")
    before = contents(tmp_path / "d")
    for wrong, said in [
        (lambda: dataset.add_item("j", {"a": [HALF]}), r'metadata\["a"\]\[0\].*surrogate'),
        (lambda: dataset.add_item("j", {"a": {HALF: 1}}), r'metadata\["a"\].*surrogate'),
        (lambda: item.add_array("x", [1], {"a": HALF}), r'metadata\["a"\].*surrogate'),
        (lambda: ours.create_dataset(tmp_path / "e", {"a": HALF}), r'metadata\["a"\].*surrogate'),
        (lambda: dataset.add_item(HALF), r"item name '\\ud800'.*surrogate"),
        (lambda: item.add_array(HALF, [1]), r"array name '\\ud800'.*surrogate"),
        (lambda: item.add_array_from_file(HALF, tmp_path / "x.npy"), r"array name '\\ud800'.*surrogate"),
        (lambda: ours.create_dataset(tmp_path / "e", itemformat=HALF), r"itemformat.*'\\ud800'"),
        (lambda: dataset.get_item(HALF), r"'\\ud800'"),
        (lambda: item[HALF], r"'\\ud800'"),
    ]:
        with pytest.raises(TypeError, match=said):
            wrong()
    assert HALF not in dataset and HALF not in item and not item.has_array(HALF) and not dataset.has_item(HALF)
    assert contents(tmp_path / "d") == before and not (tmp_path / "e").exists()
    with pytest.raises(TypeError):
        dataset.find(f"a == '{HALF}'")


TEMPLATES = ["{", "}", "{}", "{0}", "{a.b}", "{a!x}", "{a!r", "{a[}", "{a[0}", "{a[]}", "{a:{b.c}}", "{a:{b:{c}}}", "{a[0]x}", "{a{b}}"]


@pytest.mark.parametrize("template", TEMPLATES)
def test_an_itemformat_that_names_no_item_is_refused_at_once(tmp_path: Path, template: str) -> None:
    with pytest.raises(TypeError, match="itemformat.*makes no names"):
        ours.create_dataset(tmp_path / "d", itemformat=template)
    assert not (tmp_path / "d").exists()


def test_itemformats_are_texts_and_those_of_others_are_told_when_they_are_used(tmp_path: Path) -> None:
    for wrong in [5, b"{a}", ["{a}"]]:
        with pytest.raises(TypeError, match="itemformat"):
            ours.create_dataset(tmp_path / "d", itemformat=wrong)
    for template in ["", "x", "{{}}", "{a!r:>{b}}", "{a[k][0]:03d}", "{ä}"]:
        assert ours.create_dataset(tmp_path / f"d{len(list(tmp_path.iterdir()))}", itemformat=template).itemformat == template
    ours.create_dataset(tmp_path / "old")
    (tmp_path / "old/_metadata.json").write_text('{"_itemformat": "{a.real}"}')
    with pytest.raises(TypeError, match="attribute"):
        ours.DataSet(tmp_path / "old", readonly=False).add_item(metadata={"a": 1})


def deep(levels: int) -> Any:
    value: Any = 1
    for n in range(levels):
        value = [value] if n % 2 else {"k": value}
    return value


@pytest.mark.parametrize("kind", ["zip", "hdf"])
def test_large_metadata_in_one_file_and_back(tmp_path: Path, kind: str) -> None:
    """M11: of a data set, an item and an array; in a folder, see test_jbof_hazards."""
    metadata = {"text": "x" * 1_000_000, "numbers": [n / 7 for n in range(20_000)], "deep": deep(100), "int": 2**70}
    folder = tmp_path / "d"
    dataset = ours.create_dataset(folder, metadata)
    dataset.add_item("i", metadata).add_array("x", [1, 2], {"deep": deep(100), "é": "é" * 100_000})
    if kind == "zip":
        found = ours.ZIPDataSet(shutil.make_archive(str(folder), "zip", tmp_path, "d"))
    else:
        ours.dataset_to_hdf(dataset, tmp_path / "d.h5")
        found = ours.HDFDataSet(tmp_path / "d.h5")
    assert found.metadata == metadata and found["i"].metadata == metadata
    assert found["i"].x.metadata == {"deep": deep(100), "é": "é" * 100_000}
    assert names(found.find_items(int=2**70)) == ["i"]
    ours.hdf_to_dataset(found, tmp_path / "back")
    assert contents(tmp_path / "back") == contents(folder)


@needs_reference
def test_the_reference_reads_large_metadata(tmp_path: Path) -> None:
    metadata = {"text": "x" * 1_000_000, "numbers": list(range(20_000)), "deep": deep(100)}
    ours.create_dataset(tmp_path / "d").add_item("i", metadata)
    assert reference.DataSet(tmp_path / "d").get_item("i").metadata == metadata


def test_addresses_and_missing_folders(tmp_path: Path) -> None:
    """A path that is none is not made a folder of the working directory."""
    dataset = ours.create_dataset(tmp_path / "d")
    with pytest.raises(TypeError, match=r"none.*make it first") as told:
        ours.dataset_to_hdf(dataset, tmp_path / "none/d.h5")
    assert "sigbank-" not in str(told.value) and not (tmp_path / "none").exists()
    for wrong in [
        lambda: ours.create_dataset("s3://bucket/d"),
        lambda: ours.DataSet("s3://bucket/d", readonly=False),
        lambda: ours.dataset_to_hdf(dataset, "s3://bucket/d.h5"),
        lambda: ours.hdf_to_dataset(dataset, "s3://bucket/e"),
    ]:
        with pytest.raises(TypeError, match=r"s3://bucket/.* on a local disk alone"):
            wrong()
    assert not Path("s3:").exists()


def test_a_data_set_in_a_bucket(tmp_path: Path, s3_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The module reads it there, and an archive and an HDF5 file in one, by the credentials of the environment."""
    boto3 = pytest.importorskip("boto3")
    login = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    client = boto3.client("s3", endpoint_url=s3_server["endpoint"], region_name="us-east-1", **login)
    for key, value in [*login.items(), ("aws_region", "us-east-1"), ("aws_endpoint_url", s3_server["endpoint"]), ("aws_allow_http", "true")]:
        monkeypatch.setenv(key.upper(), value)
    folder = tmp_path / "d"
    dataset = ours.create_dataset(folder, {"owner": "me"})
    dataset.add_item("i", {"a": 1}).add_array("x", [1, 2], {"unit": "V"})
    dataset.add_item("j", {"a": 2}).add_array("mic", [0.0, 0.5], fileformat="flac", samplerate=8000)
    ours.dataset_to_hdf(dataset, tmp_path / "d.h5")
    shutil.make_archive(str(folder), "zip", tmp_path, "d")
    above = f"module/{tmp_path.name}"
    for path in [*contents(folder), "../d.zip", "../d.h5"]:
        client.upload_file(str(folder / path), s3_server["bucket"], f"{above}/{path}".replace(f"{above}/../", f"{above}-") )
    root = f"s3://{s3_server['bucket']}/{above}"
    for found in [ours.DataSet(root), ours.ZIPDataSet(f"{root}-d.zip"), ours.HDFDataSet(f"{root}-d.h5")]:
        again = pickle.loads(pickle.dumps(found))
        assert found.metadata == {"owner": "me"} and names(again.all_items()) == ["i", "j"] and names(found.find_items(a=2)) == ["j"]
        assert found["i"].x.tolist() == [1, 2] and found["i"].x.metadata == {"unit": "V"} and "k" not in found
        assert found["j"].mic.tolist() == [0.0, 0.5] and found["j"].mic.metadata == {"samplerate": 8000}
        with pytest.raises(RuntimeError, match=r"s3://"):
            found.add_item("k")
    assert ours.DataSet(root).calculate_hash() == dataset.calculate_hash()
    with pytest.raises((TypeError, ValueError), match="s3://.*none"):
        ours.DataSet(f"{root}/none")


def test_long_names_are_kept_whole_or_refused(tmp_path: Path) -> None:
    """J11, J12: nothing is cut, so that names with one beginning stay apart."""
    dataset = ours.create_dataset(tmp_path / "d")
    longest = ["x" * 254 + end for end in "ab"]
    for name in [*longest, "y" * 128, "y" * 129, "😀" * 63, "a.", " a", "a "]:
        dataset.add_item(name, {"name": name})
    assert [item.metadata["name"] for item in ours.DataSet(tmp_path / "d").all_items()] == names(dataset.all_items())
    assert len(list(dataset.all_items())) == 8
    for name in ["x" * 256, "x" * 1024, "😀" * 200]:
        with pytest.raises(TypeError, match=rf"has {len(name.encode())} bytes.*shorter name"):
            dataset.add_item(name)
    item = dataset.add_item("i")
    for name in ["x" * 249 + end for end in "ab"]:
        item.add_array(name, [1])
    with pytest.raises(TypeError, match="250"):
        item.add_array("x" * 251, [1])
    assert len(list(item.all_arrays())) == 2


def test_forms_of_letters_stay_apart_in_an_archive_too(tmp_path: Path) -> None:
    """J09: a name is the one that was given, byte for byte, composed or not, as an archive made on macOS has it."""
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    dataset = ours.create_dataset(tmp_path / "d")
    dataset.add_item(decomposed, {"form": "NFD"}).add_array(decomposed, [1])
    found = ours.ZIPDataSet(shutil.make_archive(str(tmp_path / "d"), "zip", tmp_path, "d"))
    assert decomposed in found and composed not in found and found[decomposed][decomposed].tolist() == [1]
    dataset.add_item(composed, {"form": "NFC"})
    assert {item.name: item.metadata["form"] for item in dataset.all_items()} == {composed: "NFC", decomposed: "NFD"}
