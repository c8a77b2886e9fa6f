"""The reference package (signal-dataset 0.4.0) reads what we write, and we what it writes; each finishes the other's publication.

    python live.py          in an environment with the reference package, within the repository
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import signal_dataset as sds
from signal_dataset import AnnotationRecord, AnnotationStatus, Axis, Field, Record


def uniform(i: int) -> Record:
    data = (np.arange(40, dtype="f4") + np.float32(100 * i)).reshape(2, 20)
    return Record(f"r{i}", {"x": Field(data, (Axis("channel", 2), Axis("time", 20)))}, metadata={"number": i})


def ragged(i: int) -> Record:
    return Record(f"r{i}", {"x": Field(np.full(i % 7, i, "u1"), (Axis("t", i % 7),))})


def same(dataset: sds.Dataset, expected: Iterable[Record]) -> None:
    wanted = list(expected)
    assert len(dataset) == len(wanted)
    for found in (list(dataset), list(dataset.iter_records()), [dataset[i] for i in range(len(dataset))], dataset.__getitems__(list(range(len(dataset))))):
        for a, b in zip(found, wanted, strict=True):
            assert sds.encode(a) == sds.encode(b), (a, b)
    for said, b in zip(dataset.iter_record_metadata(), wanted, strict=True):
        assert said == sds.RecordMetadata.from_record(b)


def annotation(i: int) -> AnnotationRecord:
    return AnnotationRecord(f"r{i}", i, list(AnnotationStatus)[i % 3], {"snr": i + 0.5})


def annotated(dataset: sds.Dataset) -> None:
    for name in ("at once", "by workers"):
        rows = dataset.annotations[name.replace(" ", "-")]
        assert len(rows) == len(dataset)
        for i, row in enumerate(rows):
            source = int(row.source_record_id[1:])
            assert (row.source_record_id, row.source_index, dict(row.fields)) == (dataset.record_metadata[i].id, i, {})
            assert (row.status, dict(row.values)) == (annotation(source).status, dict(annotation(source).values))


def rust(test: str, folder: str) -> None:
    command = ["cargo", "test", "-q", "-p", "sigbank", "--test", "signal_dataset", "--", "--ignored", test]
    subprocess.run(command, check=True, env={**os.environ, "SIGNAL_DATASET_LIVE": folder})


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        rust("ours_for_the_reference", folder)
        selected = [i * 37 % 100 for i in range(60)] + [4, 5, 6, 6, 5]
        for suffix in ("", " compat"):
            same(sds.open(str(base / f"uniform{suffix}")), map(uniform, range(100)))
            same(sds.open(str(base / f"ragged{suffix}")), map(ragged, range(50)))
            same(sds.open(str(base / f"view{suffix}")), map(uniform, selected))
            same(sds.open(str(base / f"copy{suffix}")), map(uniform, selected))
            for name in ("uniform", "view"):
                annotated(sds.open(str(base / f"{name}{suffix}")))
        more = sds.open(str(base / "uniform"))
        sds.publish_annotations(more, "theirs", [annotation(i) for i in range(100)])
        root = str(base / "unfinished")
        shards = [
            sds.write_shard(map(uniform, range(first, min(first + 7, 20))), root, work_id=f"w{first:06}") for first in (0, 7, 14)
        ]
        same(sds.publish(root, shards, dataset_id="test", snapshot_id="v1"), map(uniform, range(20)))
        root = str(base / "theirs")
        shards = [
            sds.write_shard(map(uniform, range(*bounds)), root, work_id=work, attempt=attempt)
            for work, attempt, bounds in (("b", 0, (60, 100)), ("a", 0, (0, 60)), ("a", 1, (0, 60)))
        ]
        theirs = sds.publish(root, shards, dataset_id="theirs", snapshot_id="s")
        sds.publish_annotations(theirs, "theirs", [annotation(i) for i in range(100)])
        rust("the_references_by_us", folder)
    print("each reads what the other writes")


if __name__ == "__main__":
    main()
