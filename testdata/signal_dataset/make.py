"""Writes golden datasets with the reference package (signal-dataset 0.4.0), and what they hold.

    python make.py

objects.jsonl has one object a line: the dataset (`dataset`), the path in its root (`path`) and its bytes, as `text` (documents) or as
`gzip` in hex (shards). In the documents of views, whose references are absolute, and of annotations by workers `@ROOT@` stands for the
root of the dataset that they refer to, and `@path@` for the number of bytes of the document at that path.
records.jsonl has the records of each dataset in order: the document of the metadata shard (`document`) and each field's samples in hex
(C order, little-endian).
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import signal_dataset as sds
from signal_dataset import AnnotationRecord, AnnotationStatus, Axis, Coordinate, Field, Record

HERE = Path(__file__).parent
DTYPES = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8".split()


def samples(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    count = int(np.prod(shape))
    values = (np.arange(count) * 7 + seed) % 101
    if dtype == "c8":
        return (values - 1j * seed).astype("c8").reshape(shape)
    return (values % 2 == 0).reshape(shape) if dtype == "?" else values.astype(dtype).reshape(shape)


def uniform(i: int) -> Record:
    """Records that agree in everything but the samples and their own metadata."""
    time = Axis("time", 5, "sample", coordinate=Coordinate(start=0, step=1e-07, unit="s"))
    channel = Axis("channel", 2, metadata={"antennas": ["a", "é"]})
    fields = {
        "iq": Field(samples("c8", (2, 5), i), (channel, time), {"gain": 3}),
        "label": Field(np.array([i], "i4"), (Axis("one", 1),)),
    }
    return Record(f"uniform-{i}", fields, f"scene-{i % 2}", {"number": i, "rate": 1e7, "big": 10**30 + i})


def ragged(i: int) -> Record:
    """Records of another shape each; every dtype comes, and not every record has each field."""
    dtype = DTYPES[i % len(DTYPES)]
    shape = ((i,), (2, i % 4), (1, 2, 3))[i % 3]
    axes = tuple(Axis(f"axis {n}", length) for n, length in enumerate(shape))
    fields = {"signal": Field(samples(dtype, shape, i), axes), "time": Field(samples("f8", (i,), i), (Axis("t", i),))}
    if i % 2:
        fields["odd"] = Field(samples("u1", (3,), i), (Axis("t", 3),))
    return Record(f"ragged-{i}", fields)


def annotation(i: int) -> AnnotationRecord:
    status = list(AnnotationStatus)[i % 3]
    fields = {"mask": Field(samples("?", (3,), i), (Axis("t", 3),))} if i == 3 else {}
    values = {"snr": 1.5 * i, "é": [i, 1e-07]} if i % 2 else {}
    return AnnotationRecord(f"uniform-{i}", i, status, values, fields, {"by": "make.py"}, "in words" if i == 2 else None)


def annotated(root: str) -> sds.Dataset:
    """Two sets: one published at once, one by workers."""
    shard = sds.write_shard(map(uniform, range(5)), root, work_id="a")
    dataset = sds.publish(root, [shard], dataset_id="annotated", snapshot_id="s1")
    rows = [annotation(i) for i in range(5)]
    options = sds.AnnotationOptions(records_per_shard=2, publication_id="p1")
    sds.publish_annotations(dataset, "labels", rows, metadata={"v": 1}, options=options)
    parts = [
        sds.annotation.write_shard(dataset, "by-workers", "q.1", first, rows[first:last], logical_shard_id=f"part-{first}")
        for first, last in ((3, 5), (0, 3))
    ]
    sds.annotation.publish_shards(dataset, "by-workers", "q.1", parts, metadata={"ü": None})
    return sds.open(root)


def publish_all(base: Path) -> dict[str, sds.Dataset]:
    out: dict[str, sds.Dataset] = {}
    root = str(base / "uniform")
    shards = [
        sds.write_shard(map(uniform, range(first, last)), root, work_id=work_id, attempt=attempt)
        for work_id, attempt, first, last in (("b", 0, 4, 6), ("a", 0, 0, 4), ("a", 2, 0, 4), ("a", 1, 0, 4), ("c", 0, 6, 7))
    ]
    metadata = {"über": "é😀", "z": [1, 1e-07, {}], "a": {"k": None}}
    options = sds.PublicationOptions(shards_per_manifest=2)
    out["uniform"] = sds.publish(
        root, shards, dataset_id="ün 1", snapshot_id="v1", expected_work_ids=["a", "b", "c"], metadata=metadata, publication_options=options
    )
    root = str(base / "ragged")
    shards = [sds.write_shard(map(ragged, range(first, first + 13)), root, work_id=f"w{first:02}") for first in (0, 13, 26)]
    shards.append(sds.write_shard([], root, work_id="none"))
    out["ragged"] = sds.publish(root, shards, dataset_id="ragged", snapshot_id="s")
    out["empty"] = sds.publish(str(base / "empty"), [], dataset_id="empty", snapshot_id="s")
    out["annotated"] = annotated(str(base / "annotated"))
    view = out["uniform"].select([5, 0, 0, 1, 6, 2])
    out["view"] = view.publish(str(base / "view"), dataset_id="view", snapshot_id="vs")
    out["view of view"] = out["view"].select([4, 2]).publish(str(base / "view of view"), dataset_id="again", snapshot_id="v")
    return out


def objects(dataset: str, root: Path, of: Path) -> list[dict[str, str]]:
    texts, rows = {}, []
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        name = path.relative_to(root).as_posix()
        if path.name.endswith(".lock"):
            continue
        if path.suffix == ".json":
            texts[name] = path.read_text(encoding="utf-8")
        else:
            rows.append({"dataset": dataset, "path": name, "gzip": gzip.compress(path.read_bytes(), mtime=0).hex()})
    if dataset == "annotated":
        texts = {name: text.replace(str(root), "@ROOT@") for name, text in texts.items()}
    if dataset.startswith("view"):
        for name in list(texts):
            text = texts[name].replace(str(of), "@ROOT@")
            for other in texts:
                size = os.path.getsize(root / other)
                text = text.replace(f'"path": "{other}",\n        "stored_bytes": {size}', f'"path": "{other}",\n        "stored_bytes": @{other}@')
                text = text.replace(f'"path": "{other}",\n    "stored_bytes": {size}', f'"path": "{other}",\n    "stored_bytes": @{other}@')
            texts[name] = text
    return [{"dataset": dataset, "path": name, "text": text} for name, text in texts.items()] + rows


def attempts_published(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Without the shards of attempts that nothing names."""
    named = "".join(row["text"] for row in rows if "text" in row)
    return [row for row in rows if "text" in row or row["path"] in named]


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        datasets = publish_all(base)
        everything: list[dict[str, Any]] = []
        held: list[dict[str, Any]] = []
        codec = sds.record.RecordMetadataCodec()
        for name, dataset in datasets.items():
            everything += attempts_published(objects(name, base / name, base / "uniform"))
            for record in dataset:
                document = codec.encode(sds.RecordMetadata.from_record(record)).decode()
                fields = {key: np.ascontiguousarray(field.data).tobytes().hex() for key, field in record.items()}
                held.append({"dataset": name, "document": document, "fields": fields})
    (HERE / "objects.jsonl").write_text(lines(everything), encoding="utf-8")
    (HERE / "records.jsonl").write_text(lines(held), encoding="utf-8")


if __name__ == "__main__":
    main()
