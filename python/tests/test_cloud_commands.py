"""The program's commands on datasets in buckets, while the network and the service fail, and when it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cloud_cases import COUNT, CREATES, EXPECTED, UNAVAILABLE, Fault, Place, Sedpack, params, s3  # noqa: F401

PROGRAM = os.environ.get("SIGBANK_PROGRAM", str(Path(sys.executable).parent / "sigbank"))


def program(place: Place, *arguments: str, option: str = "--storage-option") -> subprocess.CompletedProcess[str]:
    settings = [part for key, value in place.options.items() for part in (option, f"{key}={value}")]
    return subprocess.run([PROGRAM, *arguments, *settings], capture_output=True, text=True, timeout=120)


MADE_UNDER: dict[str, list[Fault]] = {
    "told that another was first": [
        {"fault": "replace", "status": 412, "code": "PreconditionFailed", **CREATES, "skip": 3, "fraction": 0.3}
    ],
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
    """Without that permission S3 says of a missing object that it must not be read; what need not be there is none then."""
    dataset = s3.holding(Sedpack)
    forbidden = {"fault": "status", "status": 403, "code": "AccessDenied", "path": r"/(\.sigbank/|root\.json|_metadata\.json)"}
    for verb in ("info", "check"):
        s3.proxy.set(forbidden)
        said = program(dataset, verb, dataset.root)
        assert said.returncode == 0, said.stderr
    s3.proxy.set(forbidden)
    said = program(dataset, "cp", dataset.root, str(tmp_path / "copy"), option="--src-option")
    assert said.returncode == 0 and s3.proxy.hits() != [0], said.stderr
    assert Sedpack.read(str(tmp_path / "copy"), {}) == EXPECTED
    # What must be there is no less forbidden than it is missed.
    s3.proxy.set({**forbidden, "path": Sedpack.shards})
    said = program(dataset, "check", dataset.root)
    assert said.returncode == 1 and "not permitted" in said.stderr and "AccessDenied" in said.stderr, said.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_a_stopped_command_left_is_gone_before_it_ends_or_with_a_gc(s3: Place, number: signal.Signals) -> None:
    source, root = s3.holding(Sedpack), f"{s3.root}-stopped-{number}"
    # From the second shard on nothing arrives, so that it is in the middle whenever it is stopped.
    s3.proxy.set({"fault": "hang", "method": "PUT", "path": r"-stopped-.*\.fb", "skip": 2})
    settings = [part for key, value in s3.options.items() for part in ("--storage-option", f"{key}={value}")]
    more = ["--compression", "GZIP", "--examples-per-shard", "2"]
    process = subprocess.Popen([PROGRAM, "recompress", source.root, root, *more, *settings], stderr=subprocess.PIPE, text=True)

    def there(*arguments: str) -> list[str]:
        said = program(s3, "gc", root, "--json", *arguments)
        assert said.returncode == 0, said.stderr
        return [one["path"] for one in json.loads(said.stdout)["orphans"] if one["kind"] == "shard"]

    deadline = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline and process.poll() is None
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == -number and (number == signal.SIGKILL or "what was begun is removed" in said), said
    s3.proxy.set()
    if number == signal.SIGKILL:
        # Nobody could remove it; it may be about to be published, unless that is said not to be.
        left = there("--older-than", "0s", "--delete", "--yes")
        assert left and there("--older-than", "0s", "--unpublished", "--no-writers", "--delete", "--yes") == left
    assert there() == []
    made = program(s3, "recompress", source.root, root, *more)
    assert made.returncode == 0 and Sedpack.read(root, s3.options) == EXPECTED, made.stderr


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
