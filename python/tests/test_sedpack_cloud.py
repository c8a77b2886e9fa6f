"""Sedpack datasets in a bucket of a real server: several processes fill one at once, some of them killed, while others read."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sigbank.sedpack import Attribute, Dataset, DatasetStructure, Metadata

PROGRAM = os.environ.get("SIGBANK_PROGRAM", str(Path(sys.executable).parent / "sigbank"))
SHARDS_OF = 4
# Forty in `make soak`.
WRITERS = int(os.environ.get("SIGBANK_SOAK_WRITERS", "8"))

WRITER = """
import json, sys
import numpy as np
from sigbank.sedpack import Dataset

address, options, first, rounds = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
for turn in range(rounds):
    numbers = range(first + 10 * turn, first + 10 * turn + 10)
    with Dataset(address, storage_options=options).filler() as filler:
        for n in numbers:
            filler.write_example(values={"n": n, "trace": np.arange(n, n + 500, dtype=np.int32)}, split="train")
    print(*numbers, flush=True)
"""


def structure(compression: str = "LZ4") -> DatasetStructure:
    attributes = [Attribute(name="n", dtype="int", shape=()), Attribute(name="trace", dtype="int32", shape=(500,))]
    return DatasetStructure(saved_data_description=attributes, compression=compression, examples_per_shard=SHARDS_OF)


def options_of(server: dict[str, str]) -> dict[str, str]:
    keys = {"access_key_id": "testing", "secret_access_key": "testing", "region": "us-east-1"}
    return {"endpoint": server["endpoint"], "allow_http": "true", **keys}


def address_in(server: dict[str, str]) -> str:
    return f"s3://{server['bucket']}/sedpack-{uuid.uuid4().hex}"


def numbers(dataset: Dataset) -> list[int]:
    """Each example is compared."""
    found = []
    for example in dataset.as_numpy_iterator(split="train", repeat=False, shuffle=0):
        np.testing.assert_array_equal(example["trace"], np.arange(example["n"], example["n"] + 500, dtype=np.int32))
        found.append(int(example["n"]))
    return found


def begin(address: str, options: dict[str, str], first: int, rounds: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, address, json.dumps(options), str(first), str(rounds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_many_processes_fill_one_dataset_and_some_are_killed(s3_server: dict[str, str]) -> None:
    address, options = address_in(s3_server), options_of(s3_server)
    Dataset.create(address, Metadata(), structure(), storage_options=options)
    writers = [begin(address, options, 1000 * (at + 1), 3) for at in range(WRITERS)]
    dice = random.Random(7)
    doomed = writers[:3]
    for writer in doomed:
        # Somewhere in its work: its first line says that it has committed once.
        first = writer.stdout.readline() if writer.stdout else ""
        assert first, writer.communicate()
        time.sleep(dice.random() * 0.3)
        writer.send_signal(signal.SIGKILL)
        # What it said before it was killed is of commits that were at their end.
        told = first + writer.communicate()[0]
        writer.told = [int(n) for line in told.splitlines(True) if line.endswith("\n") for n in line.split()]  # type: ignore[attr-defined]
        # A reader meanwhile sees whole commits only, and nothing twice.
        seen = numbers(Dataset(address, storage_options=options))
        assert len(seen) == len(set(seen))
        assert set(writer.told) <= set(seen)  # type: ignore[attr-defined]
    for at, writer in enumerate(writers[3:], start=3):
        out, err = writer.communicate(timeout=1800)
        assert writer.returncode == 0, err
        assert [int(n) for n in out.split()] == list(range(1000 * (at + 1), 1000 * (at + 1) + 30))
    dataset = Dataset(address, storage_options=options)
    dataset.check()
    found = numbers(dataset)
    assert len(found) == len(set(found))
    for at in range(3, WRITERS):
        assert set(range(1000 * (at + 1), 1000 * (at + 1) + 30)) <= set(found)
    for at, writer in enumerate(doomed):
        assert set(writer.told) <= set(found)  # type: ignore[attr-defined]
        # A commit is there wholly or not at all.
        for turn in range(3):
            part = set(range(1000 * (at + 1) + 10 * turn, 1000 * (at + 1) + 10 * turn + 10))
            assert not part & set(found) or part <= set(found)


KILLED = """
import json, os, signal, sys
import numpy as np
from sigbank.sedpack import Dataset

filler = Dataset(sys.argv[1], storage_options=json.loads(sys.argv[2])).filler()
with filler:
    for n in range(100, 108):
        filler.write_example(values={"n": n, "trace": np.arange(n, n + 500, dtype=np.int32)}, split="train")
    print(flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def gc(address: str, options: dict[str, str], *arguments: str) -> Any:
    settings = [part for key, value in options.items() for part in ("--storage-option", f"{key}={value}")]
    command = [PROGRAM, "gc", address, *arguments, "--json", *settings]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert said.returncode == 0, said.stderr + said.stdout
    return json.loads(said.stdout)


def test_what_killed_writers_left_in_a_bucket_is_found_and_deleted(s3_server: dict[str, str]) -> None:
    address, options = address_in(s3_server), options_of(s3_server)
    Dataset.create(address, Metadata(), structure(), storage_options=options)
    writer = begin(address, options, 0, 1)
    assert writer.communicate(timeout=120)[0] and writer.returncode == 0
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process: Any = subprocess.Popen([sys.executable, "-c", KILLED, address, json.dumps(options)], **pipes)
    assert process.stdout.readline() == "\n"
    # While it lives, what it wrote is young. Two shards are on their way, or there.
    deadline = time.monotonic() + 60
    while True:
        found = gc(address, options, "--older-than", "1h")
        if sum(one["kind"] == "shard" for one in found["orphans"]) == 2:
            break
        assert time.monotonic() < deadline, found
    assert found["published"] and found["storage_clock"] and {one["kept"] for one in found["orphans"]} == {"young"}
    process.communicate("\n")
    assert process.returncode == -signal.SIGKILL
    # A filler that is told to could take it over: kept unless that is said, too.
    found = gc(address, options, "--older-than", "0s", "--delete", "--yes")
    assert {one["kind"] for one in found["orphans"]} == {"progress record", "shard"}
    assert found["deleted"] is None and {one["kept"] for one in found["orphans"]} == {"recoverable"}
    found = gc(address, options, "--older-than", "0s", "--unpublished", "--no-writers", "--delete", "--yes")
    assert found["deleted"]["objects"] == len(found["orphans"]) >= 3
    dataset = Dataset(address, storage_options=options)
    dataset.check()
    assert numbers(dataset) == [*range(10)]
    assert gc(address, options)["orphans"] == []


@pytest.mark.parametrize("compression", ["", "GZIP", "ZSTD"])
def test_what_the_reference_wrote_reads_the_same_from_a_bucket(
    s3_server: dict[str, str], tmp_path: Path, compression: str
) -> None:
    reference = pytest.importorskip("sedpack.io")
    boto3 = pytest.importorskip("boto3")
    attributes = [
        reference.Attribute(name="n", dtype="int", shape=()),
        reference.Attribute(name="trace", dtype="int32", shape=(500,)),
    ]
    described = reference.DatasetStructure(
        saved_data_description=attributes, compression=compression, examples_per_shard=SHARDS_OF
    )
    written = reference.Dataset.create(tmp_path / "local", reference.Metadata(description="of the reference"), described)
    with written.filler() as filler:
        for n in range(30):
            filler.write_example(values={"n": n, "trace": np.arange(n, n + 500, dtype=np.int32)}, split="train")
    address, options = address_in(s3_server), options_of(s3_server)
    client = boto3.client(
        "s3",
        endpoint_url=s3_server["endpoint"],
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    prefix = address.removeprefix(f"s3://{s3_server['bucket']}/")
    for file in (tmp_path / "local").rglob("*"):
        if file.is_file():
            client.upload_file(str(file), s3_server["bucket"], f"{prefix}/{file.relative_to(tmp_path / 'local').as_posix()}")
    dataset = Dataset(address, storage_options=options)
    dataset.check()
    assert numbers(dataset) == list(range(30))
    with dataset.filler() as filler:
        for n in range(30, 40):
            filler.write_example(values={"n": n, "trace": np.arange(n, n + 500, dtype=np.int32)}, split="train")
    assert numbers(Dataset(address, storage_options=options)) == list(range(40))
    # Back on a disk the reference reads what was added in the bucket.
    back = tmp_path / "back"
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=s3_server["bucket"], Prefix=f"{prefix}/"):
        for found in page["Contents"]:
            target = back / found["Key"].removeprefix(f"{prefix}/")
            target.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(s3_server["bucket"], found["Key"], str(target))
    again = reference.Dataset(back)
    again.check()
    read = [int(example["n"]) for example in again.as_numpy_iterator(split="train", repeat=False, shuffle=0)]
    assert read == list(range(40))
