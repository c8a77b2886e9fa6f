"""`sigbank.open` and `sigbank info` of a signal-dataset in a bucket: what it costs, and records that differ from those that were looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sigbank
from servers.client import Control
from sigbank import signal_dataset as ours

PROGRAM = str(Path(sys.executable).parent / "sigbank")
KEYS = {"allow_http": "true", "access_key_id": "testing", "secret_access_key": "testing", "region": "us-east-1"}


def _record(i: int, rows: int = 3) -> ours.Record:
    x = np.full((rows, 2), i, np.float32)
    return ours.Record(f"r{i}", {"x": ours.Field(x, (ours.Axis("t", rows), ours.Axis("c", 2)))}, metadata={"i": i})


def _dataset(server: dict[str, str], shards: int, odd: int | None = None, per_shard: int = 2) -> str:
    """Shards of records of one shape; those of one shard have another."""
    root, options = f"s3://{server['bucket']}/far-{uuid.uuid4().hex}", {"endpoint": server["endpoint"], **KEYS}
    written = []
    for shard in range(shards):
        records = [_record(i, 5 if shard == odd else 3) for i in range(shard * per_shard, (shard + 1) * per_shard)]
        written.append(ours.write_shard(records, root, work_id=f"w{shard:04}", storage_options=options))
    ours.publish(root, written, dataset_id="far", snapshot_id="v1", storage_options=options)
    return root


def _open(root: str, proxy: Control) -> Any:
    return sigbank.open(root, storage_options={"endpoint": proxy.endpoint, **KEYS})


def test_opening_and_a_record_cost_the_same_however_many_shards_there_are(s3_server: dict[str, str], s3_proxy: Control) -> None:
    costs = []
    for shards in (5, 40):
        root = _dataset(s3_server, shards)
        s3_proxy.set()
        dataset = _open(root, s3_proxy)
        assert (len(dataset), dataset.splits, repr(dataset)) == (
            shards * 2,
            {"all": shards * 2},
            f'Dataset("{root}", signal-dataset, all {shards * 2})',
        )
        np.testing.assert_array_equal(dataset[-1]["x"], np.full((3, 2), shards * 2 - 1, np.float32))
        costs.append(s3_proxy.log()["count"])
    assert costs[0] == costs[1] <= 12, costs


def test_batches_ask_for_no_metadata_and_the_schema_for_all_once(s3_server: dict[str, str], s3_proxy: Control) -> None:
    root = _dataset(s3_server, 20)
    dataset = _open(root, s3_proxy)
    s3_proxy.set()
    seen = [int(row[0, 0]) for batch in dataset.batches("all", 7) for row in batch["x"]]
    assert seen == [*range(40)]
    asked = [request["path"] for request in s3_proxy.requests()]
    assert not any("/objects/metadata/" in path for path in asked) and len(asked) <= 2 * 20
    s3_proxy.set()
    assert (dataset.schema["x"].dtype, dataset.schema["x"].shape) == (np.float32, (3, 2))
    assert 20 <= s3_proxy.log()["count"] <= 2 * 20
    s3_proxy.set()
    assert list(dataset.schema) == ["x"] and s3_proxy.log()["count"] == 0


def test_ids_are_asked_for_once(s3_server: dict[str, str], s3_proxy: Control) -> None:
    dataset = _open(_dataset(s3_server, 4), s3_proxy)
    dataset.by_id("r5")
    s3_proxy.set()
    np.testing.assert_array_equal(dataset.by_id("r5")["x"][0], [5, 5])
    # The record alone: its shard is open.
    assert s3_proxy.log()["count"] == 1
    with pytest.raises(KeyError, match="near it: 'r7'"):
        dataset.by_id("r7o")
    assert dataset.ids() == [f"r{i}" for i in range(8)] and s3_proxy.log()["count"] == 1


def test_records_that_differ_come_as_lists_or_are_told_by_name(s3_server: dict[str, str], s3_proxy: Control) -> None:
    root = _dataset(s3_server, 5, odd=2)
    shapes = [(5, 2) if i in (4, 5) else (3, 2) for i in range(10)]
    # In the first batch: all are looked at, and the batches begin again.
    batches = list(_open(root, s3_proxy).batches("all", 8))
    assert [value.shape for batch in batches for value in batch["x"]] == shapes and isinstance(batches[0]["x"], list)
    # Later: what was handed out cannot be taken back, the rest has the form that fits all.
    dataset = _open(root, s3_proxy)
    batches = dataset.batches("all", 2, prefetch_bytes=0)
    assert next(batches)["x"].shape == (2, 3, 2) == next(batches)["x"].shape
    with pytest.warns(UserWarning, match=r"record 'r4'.*'x' is float32\[5, 2\], and float32\[3, 2\] in.*From position 4 on"):
        assert [value.shape for value in next(batches)["x"]] == shapes[4:6]
    assert [value.shape for batch in batches for value in batch["x"]] == shapes[6:]
    again = [value.shape for batch in dataset.batches("all", 2) for value in batch["x"]]
    assert again == shapes
    # Single records are as they are in any case.
    assert [record["x"].shape for record in _open(root, s3_proxy)[3:6]] == shapes[3:6]
    with pytest.raises(KeyError, match="no field 'y'; there are: x"):
        _open(root, s3_proxy).batches("all", 2, fields=["y"])


def test_info_tells_of_how_many_records_the_fields_are(s3_server: dict[str, str], s3_proxy: Control) -> None:
    root = _dataset(s3_server, 70, odd=2)
    settings = [part for key, value in {"endpoint": s3_proxy.endpoint, **KEYS}.items() for part in ("--storage-option", f"{key}={value}")]

    def info(*arguments: str) -> str:
        done = subprocess.run([PROGRAM, "info", root, *settings, *arguments], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    s3_proxy.set()
    said = info()
    assert "x float32[3, 2] (t, c)" in said and "these fields are those of 4 of 140 records" in said and "--all" in said and "ratio" not in said
    # The annotations' and the versions' documents are asked for too.
    assert s3_proxy.log()["count"] <= 25
    assert "x float32[t, c], ragged" in info("--all") and "these fields are" not in info("--all")
    told = json.loads(info("--json"))
    assert (told["schema_of"], told["value_bytes"], told["records"]) == (4, None, 140)
    told = json.loads(info("--json", "--all"))
    assert (told["schema_of"], told["value_bytes"]) == (None, 138 * 24 + 2 * 40)


def test_settings_reach_the_objects_of_a_local_view(tmp_path: Path, s3_server: dict[str, str], s3_proxy: Control) -> None:
    options = {"endpoint": s3_proxy.endpoint, **KEYS}
    dataset = ours.open(_dataset(s3_server, 3), storage_options=options)
    dataset.select([4, 1]).publish(tmp_path / "view", dataset_id="v", snapshot_id="v1")
    s3_proxy.set()
    view = sigbank.open(tmp_path / "view", storage_options=options)
    np.testing.assert_array_equal(view[0]["x"][0], [4, 4])
    assert [batch["x"].shape for batch in view.batches("all", 2)] == [(2, 3, 2)] and s3_proxy.log()["count"] > 0
    assert sigbank.open(tmp_path / "view", storage_options=options).by_id("r1")["x"][0, 0] == 1
    settings = [part for key, value in options.items() for part in ("--storage-option", f"{key}={value}")]
    said = subprocess.run([PROGRAM, "info", str(tmp_path / "view"), *settings], capture_output=True, text=True, timeout=60)
    assert said.returncode == 0 and "x float32[3, 2] (t, c)" in said.stdout, said.stderr


def test_copies_know_mounted_buckets(tmp_path: Path) -> None:
    shard = ours.write_shard([_record(i) for i in range(3)], tmp_path / "d", work_id="w")
    dataset = ours.publish(tmp_path / "d", [shard], dataset_id="d", snapshot_id="s")
    rows = [ours.AnnotationRecord(f"r{i}", i, "skipped") for i in range(3)]
    mount, copy = tmp_path / "mnt", tmp_path / "mnt" / "copy"
    mount.mkdir()

    def run(*arguments: object, mounted: bool = True) -> subprocess.CompletedProcess[str]:
        roots = {"SIGNAL_DATASET_MOUNT_ROOTS": f"/elsewhere:{mount}"} if mounted else {}
        return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=60, env={**os.environ, **roots})

    assert run("cp", tmp_path / "d", copy).returncode == 0
    ours.publish_annotations(dataset, "first", rows)
    assert run("sync", tmp_path / "d", copy).returncode == 0
    # The catalog is there now, and nothing can be replaced in a mounted bucket.
    ours.publish_annotations(dataset, "second", rows)
    refused = run("sync", tmp_path / "d", copy)
    assert refused.returncode != 0 and "a mounted bucket cannot replace objects" in refused.stderr
    assert sigbank.open(copy).annotation_sets() == ["first"]
    # As a source it is one too, and without the variable it is a folder like others.
    assert run("cp", copy, tmp_path / "out").returncode == 0
    assert run("sync", tmp_path / "d", copy, mounted=False).returncode == 0
    assert sigbank.open(copy).annotation_sets() == ["first", "second"] and len(sigbank.open(tmp_path / "out")) == 3


def test_annotations(tmp_path: Path) -> None:
    shard = ours.write_shard([_record(i) for i in range(3)], tmp_path / "d", work_id="w")
    dataset = ours.publish(tmp_path / "d", [shard], dataset_id="d", snapshot_id="s")
    opened = sigbank.open(tmp_path / "d")
    assert opened.annotation_sets() == []
    rows = [
        ours.AnnotationRecord(f"r{i}", i, "success" if i else "skipped", values={"snr": i + 0.5, "n": {"k": [i]}} if i else {}) for i in range(3)
    ]
    ours.publish_annotations(dataset, "quality", rows)
    # What came since it was opened is seen.
    assert opened.annotation_sets() == ["quality"]
    table = opened.annotations("quality")
    assert [(row["id"], row["status"], row["detail_status"]) for row in table] == [("r0", "skipped", None), ("r1", "success", None), ("r2", "success", None)]
    assert [row["values"] for row in table] == [{}, {"snr": 1.5, "n": {"k": [1]}}, {"snr": 2.5, "n": {"k": [2]}}]
    with pytest.raises(FileNotFoundError, match="no annotation set 'other'.*there are quality"):
        opened.annotations("other")


def test_who_may_not_list_reads_checks_and_copies_nevertheless(
    s3_server: dict[str, str], s3_proxy: Control, tmp_path: Path
) -> None:
    """Without that permission S3 says of a missing object that it must not be read; what need not be there is none then."""
    root, settings = _dataset(s3_server, 3), {"endpoint": s3_proxy.endpoint, **KEYS}
    lists = {"fault": "status", "status": 403, "code": "AccessDenied", "path": r"list-type"}
    missing = {"fault": "status", "status": 403, "code": "AccessDenied"} | {
        "path": r"/(annotations/|sigbank/|\.sigbank/|dataset_info\.json|_metadata\.json|version\.json)"
    }
    program = os.environ.get("SIGBANK_PROGRAM", PROGRAM)
    for arguments in (["info", root], ["check", root], ["cp", root, str(tmp_path / "copy")]):
        option = "--src-option" if arguments[0] == "cp" else "--storage-option"
        words = [part for key, value in settings.items() for part in (option, f"{key}={value}")]
        s3_proxy.set(lists, missing)
        said = subprocess.run([program, *arguments, *words], capture_output=True, text=True, timeout=120)
        assert said.returncode == 0 and s3_proxy.hits()[1], (arguments, said.stderr)
        assert ("not permitted" in said.stdout) == (arguments[0] == "check"), said.stdout
    assert len(ours.open(str(tmp_path / "copy"))) == 6
    dataset = ours.open(root, storage_options=settings)
    assert [record.id for record in dataset] == [f"r{i}" for i in range(6)] and not list(dataset.annotations)
