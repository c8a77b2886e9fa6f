"""Datasets by address, in buckets."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import sigbank
from sigbank.sedpack.io import Dataset, Metadata
from sigbank.sedpack.io.metadata import Attribute, DatasetStructure

STRUCTURE = DatasetStructure(
    saved_data_description=[Attribute(name="x", dtype="float32", shape=(4,))],
    shard_file_type="fb",
    compression="GZIP",
    examples_per_shard=3,
)


@pytest.fixture
def settings(s3_server: dict[str, str]) -> dict[str, str]:
    return {
        "access_key_id": "testing",
        "secret_access_key": "hush-hush",
        "region": "us-east-1",
        "endpoint": s3_server["endpoint"],
    }


@pytest.fixture
def root(s3_server: dict[str, str], tmp_path: Path) -> str:
    return f"s3://{s3_server['bucket']}/addresses/{tmp_path.name}"


def filled(root: str, settings: dict[str, str]) -> Dataset:
    dataset = Dataset.create(root, Metadata(description="d"), STRUCTURE, storage_options=settings)
    with dataset.filler() as filler:
        for i in range(8):
            filler.write_example(values={"x": np.full(4, i, "f4")}, split="train")
    return dataset


def numbers(dataset: Dataset) -> list[int]:
    return sorted(int(example["x"][0]) for example in dataset.as_numpy_iterator(split="train", repeat=False, shuffle=0))


def test_sedpack_in_a_bucket(root: str, settings: dict[str, str]) -> None:
    filled(root, settings)
    dataset = Dataset(f"{root}/", storage_options=settings)
    assert dataset.path == root and numbers(dataset) == list(range(8))
    dataset.check(show_progressbar=False)
    paths = dataset.shard_paths_dataset("train")
    assert len(paths) == 3 and all(path.startswith(f"{root}/train/") for path in paths)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.path == root and numbers(again) == list(range(8))
    assert "hush-hush" not in repr(dataset)
    with pytest.raises(FileExistsError):
        Dataset.create(root, Metadata(description="d"), STRUCTURE, storage_options=settings)
    with pytest.raises(FileNotFoundError):
        Dataset(f"{root}-none", storage_options=settings)


def test_any_layout_by_its_address(root: str, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    filled(root, settings)
    dataset = sigbank.open(root, storage_options=settings)
    assert (dataset.layout, dataset.path, len(dataset)) == ("sedpack", root, 8)
    assert len(pickle.loads(pickle.dumps(dataset))) == 8
    # By the environment as well.
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": settings["endpoint"],
    }.items():
        monkeypatch.setenv(name, value)
    assert len(sigbank.open(root)) == 8
    with pytest.raises(ValueError, match="no dataset of a known layout"):
        sigbank.open(f"{root}-none")
    with pytest.raises(ValueError, match="gopher"):
        sigbank.open("gopher://bucket/x")


def test_addresses_of_files(tmp_path: Path) -> None:
    dataset = Dataset.create(tmp_path / "ds", Metadata(description="d"), STRUCTURE)
    with dataset.filler() as filler:
        filler.write_example(values={"x": np.zeros(4, "f4")}, split="train")
    assert len(sigbank.open(f"file://{tmp_path}/ds")) == 1
    assert Dataset(f"file://{tmp_path}/ds").path == tmp_path / "ds"
