"""The reference reads what we write and checks it; we read what it writes and check it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_kinds import KINDS
from sedpack_cases import (
    CHECKSUMS,
    COMPRESSIONS,
    REFERENCE_RUST_COMPRESSIONS,
    assert_example,
    assert_value,
    fill,
    make,
    needs_reference,
    reference,
)
from sigbank.sedpack import io as ours
from sigbank.sedpack.io import Dataset, DatasetFiller

pytestmark = needs_reference


def read(dataset: Any, split: str = "train", iterator: str = "as_numpy_iterator", **options: Any) -> list[Any]:
    return list(getattr(dataset, iterator)(split=split, repeat=False, shuffle=0, **options))


def assert_same(dataset: Any, indexes: Any, split: str = "train") -> None:
    found = read(dataset, split)
    assert len(found) == len(indexes)
    for example, index in zip(found, indexes, strict=True):
        assert_example(example, index)


# Every checksum is seen with some compression, and every compression with some checksums.
PAIRS = [
    (COMPRESSIONS[i % len(COMPRESSIONS)], tuple(dict.fromkeys((CHECKSUMS[i], CHECKSUMS[-i])))) for i in range(len(CHECKSUMS))
]


@pytest.mark.parametrize(("compression", "checksums"), PAIRS)
def test_the_reference_reads_ours(tmp_path: Path, compression: str, checksums: tuple[str, ...]) -> None:
    structure = {"compression": compression, "hash_checksum_algorithms": checksums}
    mine = make(tmp_path / "d", 7, structure)
    theirs = reference().Dataset(tmp_path / "d")
    theirs.check(show_progressbar=False, hash_checksums_values=mine.current_metadata_checksums())
    assert theirs.current_metadata_checksums() == mine.current_metadata_checksums()
    assert_same(theirs, range(7))
    assert [info.number_of_examples for info in theirs.shard_info_iterator("train")] == [3, 3, 1]
    if compression in REFERENCE_RUST_COMPRESSIONS:
        for index, example in enumerate(read(theirs, iterator="as_numpy_iterator_rust")):
            assert_example(example, index)
        # The reference's batches hand out `bytes` of a fixed length wrongly, whoever wrote them.
        for index, batch in enumerate(read(theirs, iterator="as_numpy_iterator_rust_batched", batch_size=1)):
            for name, (dtype, _, value) in KINDS.items():
                if name != "fixed_blob":
                    row = batch[name][0]
                    assert_value(np.asarray(row) if isinstance(row, np.generic) else row, value(index), dtype, name)


@pytest.mark.parametrize(("compression", "checksums"), PAIRS)
def test_we_read_the_references(tmp_path: Path, compression: str, checksums: tuple[str, ...]) -> None:
    structure = {"compression": compression, "hash_checksum_algorithms": checksums}
    theirs = make(tmp_path / "d", 7, structure, reference())
    mine = Dataset(tmp_path / "d")
    mine.check(show_progressbar=False, hash_checksums_values=theirs.current_metadata_checksums())
    assert_same(mine, range(7))
    for iterator in ("as_numpy_iterator_concurrent", "as_numpy_iterator_rust"):
        for index, example in enumerate(read(mine, iterator=iterator)):
            assert_example(example, index)
    batches = read(mine, iterator="as_numpy_iterator_rust_batched", batch_size=4)
    assert [len(batch["text"]) for batch in batches] == [4, 3]
    for name, (dtype, _, value) in KINDS.items():
        rows = [row for batch in batches for row in batch[name]]
        for index, row in enumerate(rows):
            assert_value(np.asarray(row) if isinstance(row, np.generic) else row, value(index), dtype, name)


def test_sessions_of_both_in_one_dataset(tmp_path: Path) -> None:
    make(tmp_path / "d", 4, {"compression": "LZ4"}, reference())
    fill(Dataset(tmp_path / "d"), range(4, 9))
    fill(reference().Dataset(tmp_path / "d"), range(9, 13))
    fill(Dataset(tmp_path / "d"), range(3), "holdout")
    fill(reference().Dataset(tmp_path / "d"), range(5), "test")
    fill(Dataset(tmp_path / "d"), range(13, 14))
    for dataset in (Dataset(tmp_path / "d"), reference().Dataset(tmp_path / "d")):
        dataset.check(show_progressbar=False)
        assert_same(dataset, range(14))
        assert_same(dataset, range(3), "holdout")
        assert_same(dataset, range(5), "test")
        assert list(dataset.dataset_info.splits) == ["train", "holdout", "test"]


def test_shard_metadata_both_ways(tmp_path: Path) -> None:
    kinds = [{"key": [1, 2], "deep": {"é": None}}, {"key": [1, 3], "big": 2**60, "x": 0.1}]
    for name, package in (("ours", ours), ("theirs", reference())):
        dataset = make(tmp_path / name, 0, None, package)
        with dataset.filler() as filler:
            for index in range(8):
                filler.write_example({n: kind[2](index) for n, kind in KINDS.items()}, "train", kinds[index // 4])
    for name in ("ours", "theirs"):
        for package in (ours, reference()):
            dataset = package.Dataset(tmp_path / name)
            dataset.check(show_progressbar=False)
            shards = list(dataset.shard_info_iterator("train"))
            assert [info.number_of_examples for info in shards] == [3, 1, 3, 1]
            assert [info.custom_metadata for info in shards] == [kinds[0], kinds[0], kinds[1], kinds[1]]
            kept = dataset.as_numpy_iterator(
                split="train", repeat=False, shuffle=0, shard_filter=lambda info: info.custom_metadata["key"] == [1, 3]
            )
            for index, example in zip(range(4, 8), kept, strict=True):
                assert_example(example, index)


def test_workers_shards_are_read_and_merged(tmp_path: Path) -> None:
    dataset = make(tmp_path / "d", 2)
    infos = []
    for worker in range(3):
        filler = DatasetFiller(Dataset(tmp_path / "d"), 1, relative_path_from_split=Path(f"job/w{worker}"))
        with filler:
            filler.write_example({n: kind[2](10 + worker) for n, kind in KINDS.items()}, "train")
            filler.write_example({n: kind[2](20 + worker) for n, kind in KINDS.items()}, "test")
        infos += filler.get_updated_infos()
    assert_same(Dataset(tmp_path / "d"), range(2))
    dataset.write_config(updated_infos=infos)
    for again in (dataset, Dataset(tmp_path / "d"), reference().Dataset(tmp_path / "d")):
        again.check(show_progressbar=False)
        assert_same(again, [0, 1, 10, 11, 12])
        assert_same(again, [20, 21, 22], "test")


def test_the_references_worker_infos_are_merged(tmp_path: Path) -> None:
    make(tmp_path / "d")
    infos = []
    for worker in range(2):
        theirs = reference().Dataset(tmp_path / "d")
        filler = reference().DatasetFiller(theirs, 1, Path(f"w{worker}"), auto_update_dataset=False)
        with filler as context:
            for index in range(4):
                context.write_example({n: kind[2](index + 4 * worker) for n, kind in KINDS.items()}, "train")
        infos += [ours.shard_file_metadata.ShardListInfo.model_validate(i.model_dump()) for i in filler.get_updated_infos()]
    dataset = Dataset(tmp_path / "d")
    dataset.write_config(updated_infos=infos)
    dataset.check(show_progressbar=False)
    assert_same(dataset, range(8))
    reference().Dataset(tmp_path / "d").check(show_progressbar=False)


def test_empty_values(tmp_path: Path) -> None:
    described = [ours.Attribute(name="s", dtype="str", shape=()), ours.Attribute(name="b", dtype="bytes", shape=())]
    dataset = Dataset.create(tmp_path / "d", ours.Metadata(), ours.DatasetStructure(saved_data_description=described))
    values = [("", b""), ("é", b"\0"), ("\0", b"a\0"), ("", b"")]
    with dataset.filler() as filler:
        for s, b in values:
            filler.write_example({"s": s, "b": b}, "train")
    assert [(e["s"], e["b"]) for e in read(dataset)] == values
    assert [(e["s"], e["b"]) for e in read(reference().Dataset(tmp_path / "d"))] == values
    [batch] = read(dataset, iterator="as_numpy_iterator_rust_batched", batch_size=9)
    assert list(zip(batch["s"], batch["b"], strict=True)) == values


def test_the_json_files_have_the_references_form(tmp_path: Path) -> None:
    structure = {"compression": "", "examples_per_shard": 4}
    forms = []
    for name, package in (("ours", ours), ("theirs", reference())):
        dataset = make(tmp_path / name, 0, structure, package)
        with dataset.filler(concurrency=1) as filler:
            for index in range(3):
                filler.write_example({n: kind[2](index) for n, kind in KINDS.items()}, "train", {"é": [index // 2]})
        files = sorted((tmp_path / name).rglob("*.json"), key=lambda path: len(path.parts))
        texts = [path.read_bytes().decode() for path in files]
        # Names of directories and files are random, and with them the checksums; the version is each one's own.
        forms.append([re.sub(r'[0-9a-f]{10,}|(?<="sedpack_version": )"[0-9.]+"', "…", text) for text in texts])
    assert forms[0] == forms[1]
    assert len(forms[0]) == 5


@pytest.mark.parametrize("iterator", ["as_numpy_iterator", "as_numpy_iterator_concurrent", "as_numpy_iterator_rust"])
def test_selection_is_that_of_the_reference(tmp_path: Path, iterator: str) -> None:
    dataset = make(tmp_path / "d", 0, {"examples_per_shard": 1})
    with dataset.filler() as filler:
        for index in range(9):
            filler.write_example({n: kind[2](index) for n, kind in KINDS.items()}, "train", {"k": index % 3})
    choices: list[dict[str, Any]] = [
        {"shards": 4},
        {"shards": 0},
        {"shards": 99},
        {"shards": 2, "shard_filter": lambda info: info.custom_metadata["k"] == 1},
    ]
    if iterator != "as_numpy_iterator_rust":
        choices += [
            {"custom_metadata_type_limit": 2},
            {"custom_metadata_type_limit": 0},
            {"custom_metadata_type_limit": 1, "shards": 2},
            {"custom_metadata_type_limit": 1, "shards": 2, "shard_filter": lambda info: info.custom_metadata["k"] != 0},
        ]
    for choice in choices:
        found = [example["number"] for example in read(dataset, iterator=iterator, **choice)]
        expected = [example["number"] for example in read(reference().Dataset(tmp_path / "d"), iterator=iterator, **choice)]
        assert found == expected, choice
