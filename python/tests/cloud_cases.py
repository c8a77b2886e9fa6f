"""Datasets of both layouts in buckets, by a proxy in front of a real server, and what test files on that share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sigbank.signal_dataset as sds
from servers.client import Control
from sigbank.sedpack import Attribute, Dataset, DatasetStructure, Metadata

COUNT = 24
Options = dict[str, str]
Fault = dict[str, Any]
Told = tuple[list[int], str]


def samples(number: int) -> Any:
    """Those of one record, which no compression makes small: bodies are long enough to end in the middle."""
    return np.random.default_rng(number).integers(0, 256, 2048, dtype=np.uint8)


def told(read: Iterable[tuple[int, Any]]) -> Told:
    """The numbers in their order, and a digest of all that was read."""
    numbers, digest = [], hashlib.sha256()
    for number, data in read:
        numbers.append(number)
        digest.update(repr((number, str(data.dtype), data.shape)).encode() + data.tobytes())
    return numbers, digest.hexdigest()


# The store itself tries again: of that these tests are.
ONCE = sds.RetryPolicy(attempts=1)
EXPECTED = told((number, samples(number)) for number in range(COUNT))


class SignalDataset:
    shards = "objects/data"

    @staticmethod
    def write(root: str, options: Options) -> None:
        def record(number: int) -> sds.Record:
            field = sds.Field(samples(number), (sds.Axis("time", 2048),))
            return sds.Record(f"r{number}", {"x": field}, metadata={"number": number})

        half = COUNT // 2
        parts = [range(half), range(half, COUNT)]
        shards = [
            sds.write_shard([record(n) for n in part], root, work_id=f"w{at}", storage_options=options, retry=ONCE)
            for at, part in enumerate(parts)
        ]
        sds.publish(root, shards, dataset_id="d", snapshot_id="v1", storage_options=options, retry=ONCE)

    @staticmethod
    def read(root: str, options: Options) -> Told:
        dataset = sds.open(root, storage_options=options)
        whole = told((record.metadata["number"], record["x"].data) for record in dataset)
        some = [17, 3, 3]
        assert [record.id for record in dataset.__getitems__(some)] == [f"r{n}" for n in some]
        assert dataset[5]["x"].data.tobytes() == samples(5).tobytes()
        return whole

    @staticmethod
    def check(root: str, options: Options) -> None:
        sds.open(root, storage_options=options).verify()


class Sedpack:
    shards = "train/"

    @staticmethod
    def write(root: str, options: Options) -> None:
        """Adds what is missing."""
        attributes = [Attribute(name="n", dtype="int", shape=()), Attribute(name="x", dtype="uint8", shape=(2048,))]
        structure = DatasetStructure(saved_data_description=attributes, compression="ZSTD", examples_per_shard=5)
        try:
            dataset = Dataset.create(root, Metadata(), structure, storage_options=options)
        except FileExistsError:
            dataset = Dataset(root, storage_options=options)
        # A commit is there wholly or not at all.
        first = len(Sedpack.numbers(dataset))
        for part in (range(16), range(16, COUNT)):
            if part.start >= first:
                with dataset.filler() as filler:
                    for number in part:
                        filler.write_example(values={"n": number, "x": samples(number)}, split="train")

    @staticmethod
    def numbers(dataset: Dataset) -> list[int]:
        if "train" not in dataset.dataset_info.splits:
            return []
        return told((int(one["n"]), one["x"]) for one in dataset.as_numpy_iterator(split="train", repeat=False, shuffle=0))[0]

    @staticmethod
    def read(root: str, options: Options) -> Told:
        dataset = Dataset(root, storage_options=options)
        return told((int(one["n"]), one["x"]) for one in dataset.as_numpy_iterator(split="train", repeat=False, shuffle=0))

    @staticmethod
    def check(root: str, options: Options) -> None:
        Dataset(root, storage_options=options).check(show_progressbar=False)


LAYOUTS = [SignalDataset, Sedpack]


class Place:
    """An address for one test; by `options` through the proxy."""

    def __init__(self, root: str, options: Options, proxy: Control) -> None:
        self.root, self.options, self.proxy = root, options, proxy

    def given(self, **more: str) -> Options:
        return {**self.options, **more}

    def holding(self, layout: Any) -> Place:
        """One that has a dataset, the same for all tests that only read."""
        root = READ_ONLY.get(layout)
        if root is None:
            layout.write(self.root, self.options)
            root = READ_ONLY.setdefault(layout, self.root)
        return Place(root, self.options, self.proxy)


READ_ONLY: dict[Any, str] = {}


@pytest.fixture(params=["s3", "gcs", "azure"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place_in(request, request.param, tmp_path)


@pytest.fixture
def s3(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place_in(request, "s3", tmp_path)


def place_in(request: pytest.FixtureRequest, service: str, tmp_path: Path) -> Place:
    server: dict[str, str] = request.getfixturevalue(f"{service}_server")
    proxy: Control = request.getfixturevalue(f"{service}_proxy")
    if service == "azure":
        options = {"account_name": server["account"], "account_key": server["key"]}
        root = f"az://{server['container']}/{tmp_path.name}"
    elif service == "gcs":
        options = {"anonymous": "true"}
        root = f"gs://{server['bucket']}/{tmp_path.name}"
    else:
        options = {"access_key_id": "testing", "secret_access_key": "testing", "region": "us-east-1"}
        root = f"s3://{server['bucket']}/{tmp_path.name}"
    return Place(root, {"endpoint": proxy.endpoint, "allow_http": "true", **options}, proxy)


UNAVAILABLE = {"fault": "status", "status": 503, "code": "SlowDown", "fraction": 0.2}
CREATES = {"header": {"if-none-match": r"\*"}, "method": "PUT"}
SWAPS = {"header": {"if-match": "."}, "method": "PUT"}


def params(cases: dict[str, list[Fault]]) -> Any:
    return pytest.mark.parametrize("faults", list(cases.values()), ids=list(cases))


both = pytest.mark.parametrize("layout", LAYOUTS)
