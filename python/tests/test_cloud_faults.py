"""Datasets in buckets while the network and the service fail, by a proxy in front of a real server.

Of each case: what was written and read is exactly right, or it stops with an error that names the object and the cause, and then
nothing is lost or doubled: done once more without faults, it succeeds.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sigbank.signal_dataset as sds
from servers.client import Control
from sigbank.sedpack import Attribute, Dataset, DatasetStructure, Metadata
from signal_cases import needs_reference

PROGRAM = os.environ.get("SIGBANK_PROGRAM", str(Path(sys.executable).parent / "sigbank"))
SOAK = Path(__file__).parents[2] / "scripts" / "soak_signal.py"
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


def expired(skip: int) -> Fault:
    return {"fault": "status", "status": 400, "code": "ExpiredToken", "skip": skip}


# What passes, and runs are to end as if it had not been.
WHILE_READING: dict[str, list[Fault]] = {
    "a fifth refused": [UNAVAILABLE],
    "reset in the middle": [{"fault": "reset", "after": 900, "method": "GET", "fraction": 0.2}],
    "cut short": [{"fault": "truncate", "after": 700, "method": "GET", "fraction": 0.2}],
    "hangs": [{"fault": "hang", "method": "GET", "skip": 2, "times": 1}],
    "hangs in the middle": [{"fault": "hang", "after": 900, "method": "GET", "skip": 2, "times": 1}],
    "all at once": [UNAVAILABLE, *({"fault": f, "after": 500, "method": "GET", "fraction": 0.1} for f in ("reset", "truncate"))],
}
WHILE_WRITING: dict[str, list[Fault]] = {
    "a fifth refused": [UNAVAILABLE],
    "reset": [
        {"fault": "reset", "after": 100, "of": "request", "method": "PUT", "skip": 1, "fraction": 0.2},
        {"fault": "reset", "after": 0, "method": "GET|PUT", "fraction": 0.2},
    ],
    "creates done, told otherwise": [
        {"fault": "lose_reply", **CREATES, "fraction": 0.2},
        {"fault": "replace", "status": 500, **CREATES, "fraction": 0.2},
    ],
    "the reply to the first creates lost": [{"fault": "lose_reply", **CREATES, "times": 3}],
    "undecided": [{"fault": "status", "status": 409, "code": "ConditionalRequestConflict", "method": "PUT", "skip": 3, "times": 1}],
    "hangs": [{"fault": "hang", "method": "PUT", "skip": 3, "times": 1}],
    "any reply lost": [{"fault": "lose_reply", "fraction": 0.2}],
    # A proxy on the way that sends a request once more: the first answer that is seen is that of the second.
    "told that another was first": [
        {"fault": "replace", "status": 412, "code": "PreconditionFailed", **CREATES, "skip": 3, "fraction": 0.3},
        {"fault": "replace", "status": 412, "code": "PreconditionFailed", **SWAPS, "fraction": 0.5},
    ],
}


def params(cases: dict[str, list[Fault]]) -> Any:
    return pytest.mark.parametrize("faults", list(cases.values()), ids=list(cases))


both = pytest.mark.parametrize("layout", LAYOUTS)


@both
@params(WHILE_READING)
def test_reading_ends_right(s3: Place, layout: Any, faults: list[Fault]) -> None:
    s3 = s3.holding(layout)
    s3.proxy.set(*faults)
    assert layout.read(s3.root, s3.given(timeout="0.6", retries="12", retry_pause="0.01")) == EXPECTED
    layout.check(s3.root, s3.given(timeout="0.6", retries="12", retry_pause="0.01"))
    assert all(s3.proxy.hits()), "a fault that was done to no request proves nothing"


@both
@params(WHILE_WRITING)
def test_writing_ends_right(s3: Place, layout: Any, faults: list[Fault]) -> None:
    s3.proxy.set(*faults)
    layout.write(s3.root, s3.given(timeout="0.6", retries="12", retry_pause="0.01"))
    done = s3.proxy.hits()
    # A signal-dataset is published without replacing anything.
    assert done[0] if faults[-1].get("header") == SWAPS["header"] and layout is SignalDataset else all(done), "proves nothing"
    s3.proxy.set()
    assert layout.read(s3.root, s3.options) == EXPECTED
    layout.check(s3.root, s3.options)


def test_a_swap_whose_reply_is_lost_is_done_once(s3: Place) -> None:
    """Sedpack's root, and the catalog of annotations."""
    s3.proxy.set({"fault": "lose_reply", **SWAPS, "times": 2})
    Sedpack.write(s3.root, s3.options)
    assert s3.proxy.hits() == [2]
    s3.proxy.set()
    assert Sedpack.read(s3.root, s3.options) == EXPECTED
    root = f"{s3.root}/signals"
    SignalDataset.write(root, s3.options)
    dataset = sds.open(root, storage_options=s3.options)
    rows = [sds.AnnotationRecord(f"r{n}", n, sds.AnnotationStatus.SUCCESS, {"k": n}) for n in range(COUNT)]
    sds.publish_annotations(dataset, "first", rows)
    for fault in ({"fault": "lose_reply"}, {"fault": "replace", "status": 500}):
        s3.proxy.set({**fault, **SWAPS, "times": 1})
        sds.publish_annotations(dataset, fault["fault"], rows)
        assert s3.proxy.hits() == [1]
    s3.proxy.set()
    catalog = sds.open(root, storage_options=s3.options).annotations
    assert sorted(catalog) == ["first", "lose_reply", "replace"]
    assert all([row.values["k"] for row in catalog[name]] == list(range(COUNT)) for name in catalog)


def refused(done: Callable[[], object], root: str, cause: str) -> str:
    """The message of an error that names an object below the root, and the cause."""
    with pytest.raises((OSError, ValueError, RuntimeError)) as caught:
        done()
    message = str(caught.value)
    assert re.search(rf"{re.escape(root)}/\S*\w", message), f"names no object: {message}"
    assert re.search(cause, message), f"does not tell the cause ({cause}): {message}"
    return message


# What does not pass: the error tells it.
READING_STOPS: dict[str, tuple[list[Fault], str]] = {
    "refused": ([{"fault": "status", "status": 503, "code": "SlowDown", "skip": 2}], "503|SlowDown"),
    "forbidden": ([{"fault": "status", "status": 403, "code": "AccessDenied", "skip": 2}], "AccessDenied|permission"),
    "expired": ([expired(2)], "ExpiredToken"),
    "reset": ([{"fault": "reset", "after": 50, "method": "GET", "skip": 2}], "connection|reset|body"),
    "cut short": ([{"fault": "truncate", "after": 0, "method": "GET", "skip": 2}], "bytes|ended|body|connection"),
    "hangs": ([{"fault": "hang", "method": "GET", "skip": 2}], "timeout|nothing|seconds|s without"),
    "another answer": ([{"fault": "status", "status": 200, "body": "<html>log in</html>", "method": "GET", "skip": 1}], "."),
}


@both
@pytest.mark.parametrize("case", list(READING_STOPS))
def test_reading_stops_and_tells(s3: Place, layout: Any, case: str) -> None:
    faults, cause = READING_STOPS[case]
    s3 = s3.holding(layout)
    s3.proxy.set(*faults)
    refused(lambda: layout.read(s3.root, s3.given(timeout="0.3", retries="1", retry_pause="0.01")), s3.root, cause)
    s3.proxy.set()
    assert layout.read(s3.root, s3.options) == EXPECTED


# From some request on nothing works: in the probe, in shards, at the root.
WRITING_STOPS: dict[str, tuple[list[Fault], str]] = {
    "refused in the probe": ([{"fault": "status", "status": 503, "code": "SlowDown", "skip": 1}], "503|SlowDown"),
    "refused later": ([{"fault": "status", "status": 503, "code": "SlowDown", "skip": 7}], "503|SlowDown"),
    "expired": ([expired(5)], "ExpiredToken"),
    "hangs": ([{"fault": "hang", "method": "PUT", "skip": 5}], "timeout|nothing|seconds"),
    "every reply lost": ([{"fault": "lose_reply", "method": "PUT", "skip": 4}], "connection|reply|answer"),
}


@both
@pytest.mark.parametrize("case", list(WRITING_STOPS))
def test_writing_stops_and_goes_on(s3: Place, layout: Any, case: str) -> None:
    faults, cause = WRITING_STOPS[case]
    s3.proxy.set(*faults)
    if case == "every reply lost":
        # Whether it was written can be found out by reading, so that it may end well.
        try:
            layout.write(s3.root, s3.given(timeout="0.3", retries="1", retry_pause="0.01"))
        except (OSError, ValueError, RuntimeError) as error:
            assert s3.root in str(error) and re.search(cause, str(error)), error
    else:
        # What hangs is waited for each time.
        retries = "0" if case == "hangs" else "1"
        refused(lambda: layout.write(s3.root, s3.given(timeout="0.3", retries=retries, retry_pause="0.01")), s3.root, cause)
    s3.proxy.set()
    layout.write(s3.root, s3.options)
    assert layout.read(s3.root, s3.options) == EXPECTED
    layout.check(s3.root, s3.options)


def program(place: Place, *arguments: str, option: str = "--storage-option") -> subprocess.CompletedProcess[str]:
    settings = [part for key, value in place.options.items() for part in (option, f"{key}={value}")]
    return subprocess.run([PROGRAM, *arguments, *settings], capture_output=True, text=True, timeout=120)


MADE_UNDER: dict[str, list[Fault]] = {
    "told that another was first": [{"fault": "replace", "status": 412, "code": "PreconditionFailed", **CREATES, "skip": 3, "fraction": 0.3}],
    "reply lost": [{"fault": "lose_reply", **CREATES, "skip": 3, "fraction": 0.3}],
    "a fifth refused": [UNAVAILABLE],
}


@params(MADE_UNDER)
def test_new_datasets_are_made_in_spite_of_faults(s3: Place, faults: list[Fault]) -> None:
    """By merge, recompress and split, whose shards, lists and root are each created once."""
    source = s3.holding(Sedpack)
    for verb, *more in [("merge",), ("recompress", "--compression", "GZIP"), ("split", "--split", "train=1")]:
        root = f"{s3.root}-{verb}"
        s3.proxy.set(*faults)
        said = program(s3, verb, source.root, root, *more)
        assert said.returncode == 0, said.stderr + said.stdout
        assert all(s3.proxy.hits()), "a fault that was done to no request proves nothing"
        s3.proxy.set()
        numbers = Sedpack.read(root, s3.options)[0]
        assert sorted(numbers) == [*range(COUNT)]
        Sedpack.check(root, s3.options)


def test_who_may_not_list_reads_and_copies_nevertheless(s3: Place, tmp_path: Path) -> None:
    """Without that permission S3 says of a missing object that it must not be read; those that need not be there are none then."""
    layout = Sedpack
    dataset = s3.holding(layout)
    forbidden = {"fault": "status", "status": 403, "code": "AccessDenied", "path": r"/(\.sigbank/|root\.json|_metadata\.json)"}
    for verb in ("info", "check"):
        s3.proxy.set(forbidden)
        said = program(dataset, verb, dataset.root)
        assert said.returncode == 0, said.stderr
    s3.proxy.set(forbidden)
    said = program(dataset, "cp", dataset.root, str(tmp_path / "copy"), option="--src-option")
    assert said.returncode == 0 and s3.proxy.hits() != [0], said.stderr
    assert layout.read(str(tmp_path / "copy"), {}) == EXPECTED
    # What must be there is no less forbidden than it is missed.
    s3.proxy.set({**forbidden, "path": layout.shards})
    said = program(dataset, "check", dataset.root)
    assert said.returncode == 1 and "not permitted" in said.stderr and "AccessDenied" in said.stderr, said.stderr


@both
@pytest.mark.parametrize(
    "fault", [{"fault": "ignore_range"}, {"fault": "wrong_range", "shift": 3}, {"fault": "wrong_range", "shift": 3, "hidden": True}]
)
def test_no_other_bytes_are_taken_for_those_asked_for(s3: Place, layout: Any, fault: Fault) -> None:
    s3 = s3.holding(layout)
    s3.proxy.set(fault)
    try:
        assert layout.read(s3.root, s3.given(retries="1", retry_pause="0.01")) == EXPECTED
    except (OSError, ValueError, RuntimeError) as error:
        assert s3.root in str(error) and layout.shards in str(error), error
        if fault["fault"] == "ignore_range":
            # Of the storage, not of the data: nothing there is damaged.
            assert isinstance(error, OSError) and not isinstance(error, ValueError), repr(error)
            assert "ignored the range" in str(error) and "honours the Range header" in str(error), error
    else:
        # It ended right without an error: no range was asked for.
        assert not any(one["range"] for one in s3.proxy.requests())
    s3.proxy.set()
    assert layout.read(s3.root, s3.options) == EXPECTED


@both
def test_a_flipped_bit_is_found(s3: Place, layout: Any) -> None:
    s3 = s3.holding(layout)
    for at in (40, 5_001):
        s3.proxy.set({"fault": "corrupt", "at": at, "method": "GET", "path": layout.shards})
        message = refused(lambda: layout.check(s3.root, s3.options), s3.root, "checksum|digest|hash|sha256|CRC|crc")
        assert layout.shards in message and s3.proxy.hits() != [0]
    s3.proxy.set()
    layout.check(s3.root, s3.options)


@both
def test_without_conditions_nothing_is_written(s3: Place, layout: Any) -> None:
    s3.proxy.set({"fault": "ignore_conditions"})
    refused(lambda: layout.write(f"{s3.root}/refused", s3.options), s3.root.rpartition("/")[0], "condition")
    s3.proxy.set()
    with pytest.raises(FileNotFoundError):
        layout.read(f"{s3.root}/refused", s3.options)
    layout.write(s3.root, s3.options)
    assert layout.read(s3.root, s3.options) == EXPECTED


@both
def test_on_each_service(place: Place, layout: Any) -> None:
    """The short form: of whole runs each fault, of writing and then of reading."""
    hard = place.given(timeout="0.6", retries="12", retry_pause="0.01")
    place.proxy.set(
        {"fault": "lose_reply", "method": "PUT", "skip": 3, "times": 2},
        {"fault": "reset", "after": 100, "of": "request", "method": "PUT", "skip": 5, "times": 1},
        {**UNAVAILABLE, "status": 503},
    )
    layout.write(place.root, hard)
    assert all(place.proxy.hits())
    place.proxy.set(*({"fault": f, "after": 500, "method": "GET", "fraction": 0.2} for f in ("reset", "truncate")), UNAVAILABLE)
    assert layout.read(place.root, hard) == EXPECTED
    place.proxy.set({"fault": "status", "status": 403, "code": "Expired", "method": "GET", "skip": 1})
    refused(lambda: layout.read(place.root, place.options), place.root, "403|Expired|permission")
    place.proxy.set()
    assert layout.read(place.root, place.options) == EXPECTED
    layout.check(place.root, place.options)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_a_stopped_command_put_into_a_bucket_is_gone_before_it_ends(s3: Place, number: signal.Signals) -> None:
    source, root = s3.holding(Sedpack), f"{s3.root}-stopped-{number}"
    # From the second shard on nothing arrives, so that it is in the middle whenever it is stopped.
    s3.proxy.set({"fault": "hang", "method": "PUT", "path": r"-stopped-.*\.fb", "skip": 2})
    settings = [part for key, value in s3.options.items() for part in ("--storage-option", f"{key}={value}")]
    more = ["--compression", "GZIP", "--examples-per-shard", "2"]
    process = subprocess.Popen([PROGRAM, "recompress", source.root, root, *more, *settings], stderr=subprocess.PIPE, text=True)

    def there() -> list[str]:
        said = program(s3, "gc", root, "--json")
        assert said.returncode == 0, said.stderr
        return [one["path"] for one in json.loads(said.stdout)["orphans"] if one["kind"] == "shard"]

    deadline = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline and process.poll() is None
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == -number and "what was begun is removed" in said, said
    s3.proxy.set()
    assert there() == []


def test_of_a_pack_and_a_publication_at_one_address_one_appears(s3: Place, s3_server: dict[str, str], tmp_path: Path) -> None:
    boto3 = pytest.importorskip("boto3")
    folder = tmp_path / "in"
    folder.mkdir()
    for name in "ab":
        np.save(folder / f"{name}.npy", np.arange(1000, dtype=np.int32))
    settings = [part for key, value in s3.options.items() for part in ("--storage-option", f"{key}={value}")]
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=s3_server["endpoint"], **keys)
    for at in range(4):
        root = f"{s3.root}-{at}"
        # Each is about to create its root while the other is; who comes first is not always the same.
        slow = r"\.fb|/lists|shards_list" if at % 2 else r"\.arrayrecord|manifests"
        s3.proxy.set(
            {"fault": "delay", "ms": 250, "method": "PUT", "path": r"/(root|dataset_info)\.json"},
            {"fault": "delay", "ms": 60, "method": "PUT", "path": slow},
        )
        commands = {"pack": ["--window", "100"], "publish": []}
        both = {
            verb: subprocess.Popen([PROGRAM, verb, str(folder), root, *more, *settings], stderr=subprocess.PIPE, text=True)
            for verb, more in commands.items()
        }
        said = {verb: process.communicate(timeout=120)[1] for verb, process in both.items()}
        assert sorted(process.returncode for process in both.values()) == [0, 1], said
        lost = next(said[verb] for verb, process in both.items() if process.returncode)
        assert "dataset" in lost and "choose another destination" in lost, lost
        found = client.list_objects_v2(Bucket=s3_server["bucket"], Prefix=f"{root.partition(s3_server['bucket'] + '/')[2]}/")
        roots = [one["Key"] for one in found["Contents"] if one["Key"].endswith(("/root.json", "/dataset_info.json"))]
        assert len(roots) == 1 and not any("/turn" in one["Key"] for one in found["Contents"]), found["Contents"]
        s3.proxy.set()
        assert program(s3, "check", root).returncode == 0


@needs_reference
def test_processes_write_and_are_killed_in_a_bucket(s3_server: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    environment = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_server["endpoint"],
    }
    root = f"s3://{s3_server['bucket']}/{tmp_path.name}"
    # Forty in `make soak`.
    workers = os.environ.get("SIGBANK_SOAK_WRITERS", "4")
    command = [sys.executable, str(SOAK), "1", "--workers", workers, "--root", root]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ok: 1 rounds of {workers} workers" in done.stdout
