"""`pack`, `merge`, `split` and `recompress` whose destination is in a bucket of a real server; the reference package reads what they made."""

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
import sedpack.io as reference

import sigbank.signal_dataset as sds
from servers.client import Control
from sigbank.sedpack import Attribute, Dataset, DatasetStructure, Metadata

boto3 = pytest.importorskip("boto3")
PROGRAM = str(Path(sys.executable).parent / "sigbank")
OPTIONS = {"allow_http": "true", "access_key_id": "testing", "secret_access_key": "testing", "region": "us-east-1"}


def options_of(server: dict[str, str]) -> dict[str, str]:
    return {"endpoint": server["endpoint"], **OPTIONS}


def command(server: dict[str, str], *arguments: object) -> list[str]:
    settings = [part for key, value in options_of(server).items() for part in ("--storage-option", f"{key}={value}")]
    return [PROGRAM, *map(str, arguments), *settings]


def run(server: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(server, *arguments), capture_output=True, text=True, timeout=120)


def done(server: dict[str, str], *arguments: object) -> dict[str, Any]:
    said = run(server, *arguments, "--json")
    assert said.returncode == 0, said.stderr + said.stdout
    answer: dict[str, Any] = json.loads(said.stdout)
    return answer


def address_in(server: dict[str, str]) -> str:
    return f"s3://{server['bucket']}/made-{uuid.uuid4().hex}"


def client(server: dict[str, str]) -> Any:
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=server["endpoint"], **keys)


def objects(server: dict[str, str], address: str) -> list[str]:
    prefix = address.removeprefix(f"s3://{server['bucket']}/") + "/"
    pages = client(server).get_paginator("list_objects_v2").paginate(Bucket=server["bucket"], Prefix=prefix)
    return [one["Key"].removeprefix(prefix) for page in pages for one in page.get("Contents", [])]


def fetched(server: dict[str, str], address: str, folder: Path) -> Path:
    """A dataset in a bucket as the reference package can read it, by plain downloads."""
    prefix = address.removeprefix(f"s3://{server['bucket']}/")
    for name in objects(server, address):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        client(server).download_file(server["bucket"], f"{prefix}/{name}", str(folder / name))
    return folder


def make(root: Path | str, numbers: range, options: dict[str, str] | None = None) -> Any:
    attributes = [Attribute(name="n", dtype="int", shape=()), Attribute(name="x", dtype="int32", shape=(20_000,))]
    structure = DatasetStructure(saved_data_description=attributes, compression="LZ4", examples_per_shard=4)
    with Dataset.create(root, Metadata(description="d"), structure, storage_options=options).filler() as filler:
        for n in numbers:
            filler.write_example(values={"n": n, "x": np.arange(n, n + 20_000, dtype=np.int32)}, split="train")
    return root


def numbers(folder: Path, *splits: Any) -> list[int]:
    dataset = reference.Dataset(folder)
    dataset.check(show_progressbar=False)
    found = []
    for split in splits or ("train",):
        for example in dataset.as_numpy_iterator(split=split, repeat=False, shuffle=0):
            np.testing.assert_array_equal(example["x"], np.arange(example["n"], example["n"] + 20_000, dtype=np.int32))
            found.append(int(example["n"]))
    return found


def test_each_command_makes_a_dataset_in_a_bucket(tmp_path: Path, s3_server: dict[str, str]) -> None:
    one, other = make(tmp_path / "one", range(10)), make(tmp_path / "other", range(10, 20))
    merged, again, by_shard, by_example = (address_in(s3_server) for _ in range(4))
    assert done(s3_server, "merge", one, other, merged)["records"] == 20
    assert numbers(fetched(s3_server, merged, tmp_path / "merged")) == [*range(20)]
    # Of one in a bucket, in another place there.
    assert done(s3_server, "recompress", merged, again, "--compression", "GZIP", "--examples-per-shard", "3")["records"] == 20
    assert numbers(fetched(s3_server, again, tmp_path / "again")) == [*range(20)]
    for address, by in [(by_shard, "shard"), (by_example, "example")]:
        shares = ["--split", "train=0.5,test=0.25,holdout=0.25", "--by", by]
        assert done(s3_server, "split", again, address, *shares)["records"] == 20
        folder = fetched(s3_server, address, tmp_path / by)
        assert sorted(numbers(folder, "train", "test", "holdout")) == [*range(20)]
    # Nothing but datasets: what writers note for each other is not there.
    for address in (merged, again, by_shard, by_example):
        assert all(name.endswith((".json", ".fb")) and not name.startswith(".") for name in objects(s3_server, address))
    # What is there is never replaced, and stays.
    for arguments in (["merge", one, merged], ["recompress", one, again], ["split", one, by_example, "--split", "train=1"]):
        refused = run(s3_server, *arguments)
        assert refused.returncode == 1 and "a dataset is there already" in refused.stderr, refused.stderr
    assert Dataset(merged, storage_options=options_of(s3_server)).check() is None
    # A further filler goes on with it as with any other.
    with Dataset(again, storage_options=options_of(s3_server)).filler() as filler:
        filler.write_example(values={"n": 20, "x": np.arange(20, 20_020, dtype=np.int32)}, split="train")
    assert numbers(fetched(s3_server, again, tmp_path / "more")) == [*range(21)]


def test_recordings_are_packed_into_a_bucket_or_nothing_is(tmp_path: Path, s3_server: dict[str, str]) -> None:
    folder, address = tmp_path / "in", address_in(s3_server)
    folder.mkdir()
    for name in "abcd":
        np.save(folder / f"{name}.npy", np.arange(ord(name), ord(name) + 30_000, dtype=np.int32))
    assert done(s3_server, "pack", folder, address, "--window", "10000", "--examples-per-shard", "2")["records"] == {"train": 12}
    dataset = reference.Dataset(fetched(s3_server, address, tmp_path / "packed"))
    dataset.check(show_progressbar=False)
    starts = [(str(e["source"]), int(e["signal"][0])) for e in dataset.as_numpy_iterator(split="train", repeat=False, shuffle=0)]
    assert sorted(starts) == [(f"{name}.npy", ord(name) + start) for name in "abcd" for start in (0, 10_000, 20_000)]
    # A file that cannot be read to its end, which shows late.
    whole = (folder / "d.npy").read_bytes()
    np.save(folder / "d.npy", np.zeros(30_000, dtype=np.int32))
    (folder / "d.npy").write_bytes(whole[:-5000])
    other = address_in(s3_server)
    refused = run(s3_server, "pack", folder, other, "--window", "10000", "--examples-per-shard", "2")
    assert refused.returncode == 1 and "d.npy" in refused.stderr
    assert objects(s3_server, other) == []


@pytest.mark.parametrize("verb", ["merge", "recompress"])
def test_a_killed_run_shows_nothing_and_the_next_one_does_it(
    verb: str, tmp_path: Path, s3_server: dict[str, str], s3_proxy: Control
) -> None:
    source, dice = make(tmp_path / "source", range(120)), random.Random(5)
    s3_proxy.set({"fault": "delay", "ms": 15, "method": "PUT"})
    slow = {**s3_server, "endpoint": s3_proxy.endpoint}
    unfinished = 0
    for _ in range(3):
        address = address_in(s3_server)
        arguments = (verb, source, address, *(["--compression", "GZIP"] if verb == "recompress" else []))
        # Killed when it has put some shards: 30 there are, and lists and a root after them.
        enough = dice.randrange(1, 25)
        process = subprocess.Popen(command(slow, *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while process.poll() is None and len(objects(s3_server, address)) < enough:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        there = objects(s3_server, address)
        unfinished += bool(there) and "dataset_info.json" not in there
        if "dataset_info.json" not in there:
            said = run(s3_server, *arguments)
            if any(name.endswith("shards_list.json") for name in there) and verb == "recompress":
                assert said.returncode == 1 and "such a list already" in said.stderr  # Killed between its lists and its root.
                continue
            assert said.returncode == 0, said.stderr
        made = Dataset(address, storage_options=options_of(s3_server))
        made.check()
        assert [int(one["n"]) for one in made.as_numpy_iterator(split="train", repeat=False, shuffle=0)] == [*range(120)]
    assert unfinished, "none was killed in time"
    if verb == "merge":
        # Two of the same destination at once: one makes it, or both say the same.
        address = address_in(s3_server)
        both = [subprocess.Popen(command(s3_server, verb, source, address), stderr=subprocess.PIPE, text=True) for _ in range(2)]
        said = [process.communicate()[1] for process in both]
        assert any(process.returncode == 0 for process in both), said
        assert numbers(fetched(s3_server, address, tmp_path / "both")) == [*range(120)]


def test_what_names_no_place_is_told(tmp_path: Path, s3_server: dict[str, str]) -> None:
    source = make(tmp_path / "source", range(4))
    missing = run(s3_server, "merge", source, f"s3://no-such-bucket-{uuid.uuid4().hex}/a")
    assert missing.returncode == 1 and "does not exist" in missing.stderr, missing.stderr
    address = address_in(s3_server)
    make(address, range(4), options_of(s3_server))
    inside = run(s3_server, "recompress", address, f"{address}/copy")
    assert inside.returncode == 1 and "lies in one" in inside.stderr, inside.stderr
    twice = run(s3_server, "merge", address, f"{address}/", address_in(s3_server))
    assert twice.returncode == 1 and "given twice" in twice.stderr, twice.stderr


def test_a_profile_of_the_files_gives_what_the_environment_does_not(tmp_path: Path, s3_server: dict[str, str]) -> None:
    source, address = make(tmp_path / "source", range(4)), address_in(s3_server)
    (tmp_path / ".aws").mkdir()
    credentials = tmp_path / ".aws/credentials"
    credentials.write_text("[lab]\naws_access_key_id = testing\naws_secret_access_key = testing\n")
    (tmp_path / ".aws/config").write_text(
        f"[profile lab]\nregion = us-east-1\nendpoint_url = {s3_server['endpoint']}\n[profile by-role]\nrole_arn = arn:aws:iam::1:role/x\n"
    )
    plain = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}

    def copied(to: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**plain, "HOME": str(tmp_path), **variables}
        return subprocess.run([PROGRAM, "cp", str(source), to, *options], env=environment, capture_output=True, text=True, timeout=60)

    by_variable = copied(address, AWS_PROFILE="lab")
    assert by_variable.returncode == 0, by_variable.stderr
    assert numbers(fetched(s3_server, address, tmp_path / "back")) == [*range(4)]
    # An option comes before the environment, which has another's keys and no endpoint that answers.
    wrong = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_SESSION_TOKEN": "z", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    by_option = copied(address_in(s3_server), "--dst-option", "profile=lab", **wrong)
    assert by_option.returncode == 0, by_option.stderr
    for name, words in [("nobody", 'no profile "nobody"'), ("by-role", "aws configure export-credentials --profile by-role")]:
        refused = copied(address_in(s3_server), AWS_PROFILE=name)
        assert refused.returncode == 1 and words in refused.stderr, refused.stderr
    # The environment's keys come before a profile that it names itself.
    credentials.write_text("[lab]\naws_access_key_id = half\n")
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1"}
    named = copied(address_in(s3_server), AWS_PROFILE="lab", AWS_ENDPOINT_URL=s3_server["endpoint"], **keys)
    assert named.returncode == 0, named.stderr
    # What the profile says beside them is taken.
    credentials.write_text("")
    mixed = copied(address_in(s3_server), AWS_PROFILE="lab", **keys)
    assert mixed.returncode == 0, mixed.stderr


def test_what_a_repair_would_do_is_told_of_a_bucket(tmp_path: Path, s3_server: dict[str, str]) -> None:
    address, options = address_in(s3_server), options_of(s3_server)
    make(address, range(10), options)
    settings = [part for key, value in options.items() for part in ("--storage-option", f"{key}={value}")]

    def check(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAM, "check", address, *arguments, *settings], capture_output=True, text=True, timeout=60)

    whole = check("--dry-run")
    assert whole.returncode == 0 and "nothing to repair" in whole.stdout, whole.stdout + whole.stderr
    gone = next(name for name in objects(s3_server, address) if name.endswith(".fb"))
    prefix = address.removeprefix(f"s3://{s3_server['bucket']}/")
    client(s3_server).delete_object(Bucket=s3_server["bucket"], Key=f"{prefix}/{gone}")
    before = objects(s3_server, address)
    planned = check("--repair", "--dry-run")
    assert planned.returncode == 1 and f"drop {gone}" in planned.stdout, planned.stdout + planned.stderr
    refused = check("--repair", "--yes")
    assert refused.returncode == 1 and "repair the copy" in refused.stderr, refused.stderr
    assert objects(s3_server, address) == before


def recordings(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        np.save(folder / f"{name}.npy", np.arange(ord(name[0]), ord(name[0]) + 1000, dtype=np.int32))
    return folder


def published(server: dict[str, str], address: Path | str, version: str | None = None) -> dict[str, int]:
    """Ids and first values of a signal-dataset's records, all of which are verified."""
    dataset = sds.open(str(address), storage_options=options_of(server), version=version)
    dataset.verify()
    return {one.id: int(np.asarray(one["signal"].data)[0]) for one in dataset}


def test_recordings_are_published_in_a_bucket_and_versions_follow(tmp_path: Path, s3_server: dict[str, str]) -> None:
    one, two, address = recordings(tmp_path / "in", "a", "b"), recordings(tmp_path / "more", "c"), address_in(s3_server)
    first = done(s3_server, "publish", one, address)
    assert first["dataset_id"] == address.rsplit("/", 1)[1] and first["version"] is None
    assert published(s3_server, address) == {"a": 97, "b": 98}
    before = objects(s3_server, address)
    again = run(s3_server, "publish", two, address)
    assert again.returncode == 1 and "a dataset is here already" in again.stderr and "--as-version NAME" in again.stderr, again.stderr
    added = done(s3_server, "publish", two, address, "--as-version", "june", "--append")
    assert (added["version"], added["records"], added["dataset_id"]) == (1, 1, first["dataset_id"])
    assert published(s3_server, address, "june") == {"a": 97, "b": 98, "c": 99}
    assert published(s3_server, address) == {"a": 97, "b": 98}
    assert set(before) < set(objects(s3_server, address))
    twice = run(s3_server, "publish", two, address, "--as-version", "july", "--append")
    assert twice.returncode == 1 and "holds a record 'c' already" in twice.stderr, twice.stderr
    shown = run(s3_server, "show", address, "c", "--version", "june")
    assert f"{address} 2 of 3: c" in shown.stdout and "signal int32[time 1000]" in shown.stdout, shown.stdout + shown.stderr
    # There is nothing yet that a version could be added to; and recordings are not read from a bucket.
    nothing = run(s3_server, "publish", two, address_in(s3_server), "--as-version", "v2")
    assert nothing.returncode == 1 and "publish without --as-version first" in nothing.stderr, nothing.stderr
    from_there = run(s3_server, "publish", address_in(s3_server), tmp_path / "out")
    assert from_there.returncode == 1 and "there is no dataset here, and recordings are published from folders" in from_there.stderr
    assert not (tmp_path / "out").exists()


def test_datasets_in_buckets_are_published(tmp_path: Path, s3_server: dict[str, str]) -> None:
    here, far = tmp_path / "here", address_in(s3_server)
    done(s3_server, "publish", recordings(tmp_path / "a", "a1", "a2"), here)
    done(s3_server, "publish", recordings(tmp_path / "b", "b1"), far)
    values = {"a1": 97, "a2": 97, "b1": 98}
    for dest in (tmp_path / "local", address_in(s3_server)):
        report = done(s3_server, "publish", here, far, dest)
        assert (report["records"], report["copied_shards"], report["sources"][1]["path"]) == (3, 2, far)
        assert published(s3_server, dest) == values
    named = done(s3_server, "publish", far, here, tmp_path / "named", "--prefix-ids")
    assert named["records"] == 3
    prefix = far.rsplit("/", 1)[1]
    assert published(s3_server, tmp_path / "named") == {f"{prefix}/b1": 98, "here/a1": 97, "here/a2": 97}
    # As a version of one in a bucket, and by reference.
    report = done(s3_server, "publish", here, far, "--as-version", "both", "--append")
    assert report["version"] == 1 and published(s3_server, far, "both") == values
    for dest in (tmp_path / "view", address_in(s3_server)):
        assert done(s3_server, "publish", far, dest, "--by-reference")["copied_shards"] == 0
        assert done(s3_server, "check", dest)["ok"] and done(s3_server, "show", dest, "b1")["values"]["signal"]["first"][0] == 98
    assert all(name.endswith(".json") for name in objects(s3_server, dest))
    away = run(s3_server, "publish", here, address_in(s3_server), "--by-reference")
    assert away.returncode == 1 and "name files that are on this machine only" in away.stderr, away.stderr


def test_a_sedpack_dataset_in_a_bucket_is_published(tmp_path: Path, s3_server: dict[str, str]) -> None:
    packed, dest = make(address_in(s3_server), range(6), options_of(s3_server)), address_in(s3_server)
    report = done(s3_server, "publish", packed, dest, "--axes", "time")
    assert report["sources"][0]["layout"] == "sedpack" and report["records"] == 6
    found = sds.open(dest, storage_options=options_of(s3_server))
    assert [(one.id, int(np.asarray(one["x"].data)[1])) for one in found] == [(f"train/{n}", n + 1) for n in range(6)]


def test_a_dataset_of_another_layout_is_not_hidden(tmp_path: Path, s3_server: dict[str, str], monkeypatch: Any) -> None:
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    np.save(recordings / "a.npy", np.arange(100, dtype=np.float32))
    for key, value in options_of(s3_server).items():
        monkeypatch.setenv(f"AWS_{key.upper()}", value)
    packed, published = address_in(s3_server), address_in(s3_server)
    commands = [["pack", str(recordings), packed], ["publish", str(recordings), published]]
    for words in commands:
        subprocess.run([PROGRAM, *words], check=True, capture_output=True, timeout=120)
    before = objects(s3_server, packed), objects(s3_server, published)
    for verb, there in (("publish", packed), ("pack", published)):
        said = subprocess.run([PROGRAM, verb, str(recordings), there], capture_output=True, text=True, timeout=120)
        assert said.returncode != 0 and "a dataset is here already" in said.stderr, said.stderr + said.stdout
    assert (objects(s3_server, packed), objects(s3_server, published)) == before
