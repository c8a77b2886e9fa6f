"""Damaged, foreign and newer datasets: an error of the right type that names what is wrong, never a crash."""

from __future__ import annotations

import json
import os
import sys
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sedpack_cases import COMPRESSIONS, make
from sigbank.sedpack import Dataset

READERS = ["as_numpy_iterator", "as_numpy_iterator_rust", "as_numpy_iterator_rust_batched"]


def shards(path: Path) -> list[Path]:
    return [path / p for p in Dataset(path).shard_paths_dataset("train")]


def read(path: Path, iterator: str = "as_numpy_iterator_rust") -> int:
    options: dict[str, Any] = {"split": "train", "repeat": False, "shuffle": 0}
    return len(list(getattr(Dataset(path), iterator)(**options)))


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_truncated_and_flipped_shards(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "d"
    make(path, 4, {"compression": compression})
    shard = shards(path)[0]
    whole = shard.read_bytes()
    for size in (0, 1, 7, len(whole) // 2, len(whole) - 1):
        shard.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=shard.name):
            Dataset(path).check(show_progressbar=False)
        for iterator in READERS:
            # Without a compression the last bytes may be padding, which only `check` misses.
            if compression or size < len(whole) - 1:
                with pytest.raises(ValueError, match=shard.name):
                    read(path, iterator)
    for position in range(0, len(whole), max(1, len(whole) // 200)):
        flipped = bytearray(whole)
        flipped[position] ^= 0x41
        shard.write_bytes(flipped)
        with pytest.raises(ValueError, match=shard.name):
            Dataset(path).check(show_progressbar=False)
        try:
            read(path)
        except ValueError as error:
            assert shard.name in str(error)
    shard.write_bytes(whole)
    Dataset(path).check(show_progressbar=False)


def test_hostile_offsets_in_a_shard(tmp_path: Path) -> None:
    path = tmp_path / "d"
    make(path, 3, {"compression": ""})
    shard = shards(path)[0]
    whole = shard.read_bytes()
    words = [0, 1, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF, len(whole)]
    for position in range(0, min(len(whole), 400), 4):
        for word in words:
            shard.write_bytes(whole[:position] + struct.pack("<I", word) + whole[position + 4 :])
            try:
                read(path)
            except ValueError as error:
                assert shard.name in str(error)


def test_missing_and_foreign_shards(tmp_path: Path) -> None:
    path = tmp_path / "d"
    make(path, 7)
    first, second, _ = shards(path)
    kept = first.read_bytes()
    first.unlink()
    for action in (lambda: Dataset(path).check(show_progressbar=False), lambda: read(path)):
        with pytest.raises(FileNotFoundError, match=first.name):
            action()
    first.write_bytes(b"not a shard at all" * 100)
    with pytest.raises(ValueError, match=first.name):
        read(path)
    make(tmp_path / "other", 1, {"compression": "LZ4"})
    first.write_bytes(shards(tmp_path / "other")[0].read_bytes())
    with pytest.raises(ValueError, match=first.name):
        read(path)
    first.write_bytes(second.read_bytes())
    with pytest.raises(ValueError, match=first.name):
        Dataset(path).check(show_progressbar=False)
    first.write_bytes(kept)
    Dataset(path).check(show_progressbar=False)


def edited(path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Change `dataset_info.json` by `edit`."""
    root = path / "dataset_info.json"
    info = json.loads(root.read_text(encoding="utf-8"))
    edit(info)
    root.write_text(json.dumps(info), encoding="utf-8")


def setting(*keys: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def edit(info: dict[str, Any]) -> None:
        place = info
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = to

    return edit


LIST_PATH = ("splits", "train", "shard_list_info_file", "file_path")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (setting(*LIST_PATH, to="../train/shards_list.json"), r"\.\."),
        (setting(*LIST_PATH, to="/train/shards_list.json"), "/train/shards_list.json"),
        (setting(*LIST_PATH, to="train/other.json"), "other.json"),
        (setting("dataset_structure", "compression", to="ABC"), "ABC"),
        (setting("dataset_structure", "shard_file_type", to="zip"), "zip"),
        (setting("dataset_structure", "hash_checksum_algorithms", to=["crc"]), "crc"),
        (setting("dataset_structure", "examples_per_shard", to=-1), "examples_per_shard"),
        (setting("dataset_structure", "examples_per_shard", to="many"), "examples_per_shard"),
        (lambda info: setting("splits", "valid", to=info["splits"]["train"])(info), "valid"),
        (setting("dataset_structure", to=3), "dataset_structure"),
        (lambda info: info["dataset_structure"]["saved_data_description"][0].update(shape=[0]), "shape"),
        (lambda info: info["dataset_structure"]["saved_data_description"][0].pop("dtype"), "dtype"),
    ],
)
def test_damaged_root(tmp_path: Path, edit: Callable[[dict[str, Any]], Any], message: str) -> None:
    make(tmp_path / "d", 2)
    edited(tmp_path / "d", edit)
    with pytest.raises(ValueError, match=message) as caught:
        Dataset(tmp_path / "d")
    assert "dataset_info.json" in str(caught.value)


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "null", '{"metadata": ', "[" * 100_000, "\ufeff{}x"])
def test_a_root_that_is_no_json_object(tmp_path: Path, text: str) -> None:
    make(tmp_path / "d", 2)
    (tmp_path / "d" / "dataset_info.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="dataset_info.json"):
        Dataset(tmp_path / "d")


@pytest.mark.parametrize("version", ["0.2.1", "0.3.0", "1.0.0", "99.0.0"])
def test_a_newer_dataset_is_refused_unless_allowed(tmp_path: Path, version: str) -> None:
    make(tmp_path / "d", 2)
    edited(tmp_path / "d", setting("metadata", "sedpack_version", to=version))
    with pytest.raises(ValueError, match=f"(?s){version}.*0.2.0|0.2.0.*{version}"):
        Dataset(tmp_path / "d")
    allowed = Dataset(tmp_path / "d", allow_newer=True)
    assert allowed.metadata.sedpack_version == version
    assert len(list(allowed.as_numpy_iterator(split="train", repeat=False))) == 2


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0", "0.2.0-rc1", "0.2.0+local"])
def test_older_versions_open(tmp_path: Path, version: str) -> None:
    make(tmp_path / "d", 2)
    edited(tmp_path / "d", setting("metadata", "sedpack_version", to=version))
    assert read(tmp_path / "d") == 2


@pytest.mark.parametrize("version", ["abc", "", "1"])
def test_a_version_that_is_none(tmp_path: Path, version: str) -> None:
    make(tmp_path / "d", 2)
    edited(tmp_path / "d", setting("metadata", "sedpack_version", to=version))
    with pytest.raises(ValueError, match="sedpack_version"):
        Dataset(tmp_path / "d")


@pytest.mark.parametrize("field", ["number_of_examples", "number_of_shards"])
def test_a_wrong_count_is_found_by_check(tmp_path: Path, field: str) -> None:
    make(tmp_path / "d", 4)
    edited(tmp_path / "d", setting("splits", "train", field, to=9))
    with pytest.raises(ValueError, match="9"):
        Dataset(tmp_path / "d").check(show_progressbar=False)


def test_a_changed_list_is_found(tmp_path: Path) -> None:
    make(tmp_path / "d", 4)
    lists = sorted((tmp_path / "d").rglob("shards_list.json"))
    assert len(lists) == 4
    for path in lists:
        kept = path.read_bytes()
        path.write_bytes(kept + b"\n")
        with pytest.raises(ValueError, match="shards_list.json"):
            Dataset(tmp_path / "d").check(show_progressbar=False)
        path.write_bytes(kept)
    Dataset(tmp_path / "d").check(show_progressbar=False)


def test_a_link_may_not_lead_outside(tmp_path: Path) -> None:
    make(tmp_path / "d", 4)
    shard = shards(tmp_path / "d")[0]
    outside = tmp_path / "outside.fb"
    shard.rename(outside)
    shard.symlink_to(outside)
    with pytest.raises(ValueError, match=shard.name):
        read(tmp_path / "d")
    shard.unlink()
    os.replace(outside, shard)
    assert read(tmp_path / "d") == 4


def test_check_expects_the_given_checksums(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", 2, {"hash_checksum_algorithms": ("md5", "xxh64")})
    expected = dataset.current_metadata_checksums()
    assert [len(value) for value in expected] == [32, 16]
    dataset.check(show_progressbar=False, hash_checksums_values=expected)
    for wrong in ((expected[1], expected[0]), (expected[0],), (*expected, "00"), ("00", expected[1])):
        with pytest.raises(ValueError, match=f"{wrong[0]}.*expected.*found {expected[0]}"):
            dataset.check(show_progressbar=False, hash_checksums_values=wrong)


def test_check_shows_its_progress_on_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = make(tmp_path / "d", 7)
    dataset.check()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    dataset.check()
    assert capsys.readouterr().err.endswith("checked 3 of 3 shards\n")
    dataset.check(show_progressbar=False)
    assert capsys.readouterr().err == ""


def test_files_that_do_not_belong_are_left_alone(tmp_path: Path) -> None:
    make(tmp_path / "d", 2)
    (tmp_path / "d" / "README.txt").write_text("mine")
    (tmp_path / "d" / "train" / "notes").write_text("mine")
    Dataset(tmp_path / "d").check(show_progressbar=False)
    assert read(tmp_path / "d") == 2
