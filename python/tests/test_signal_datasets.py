"""Datasets: written, published, read, selected; by either module and read by the other."""

from __future__ import annotations

import collections.abc
import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sigbank
import sigbank.signal_dataset as ours
from signal_cases import BOTH_WAYS, MODULES, all_kinds, ids, iq, needs_reference, numbered, reference, same_record, written


@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
def test_what_one_publishes_the_other_reads(writer: Any, reader: Any, tmp_path: Path) -> None:
    written(writer, tmp_path / "d")
    dataset = reader.open(str(tmp_path / "d"))
    assert repr(dataset) == f"Dataset(root={str(tmp_path / 'd')!r}, id='captures', snapshot_id='v1', records=8)"
    assert dataset.metadata == {"owner": "me", "list": (1,)}
    for number, record in enumerate(dataset.iter_records()):
        same_record(record, iq(writer, number))
    assert number == 7
    for number, said in enumerate(dataset.iter_record_metadata()):
        assert repr(said) == repr(reader.RecordMetadata.from_record(dataset[number]))
        assert said == reader.RecordMetadata.from_record(iq(reader, number))
    same_record(dataset[6], iq(writer, 6))


@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
def test_every_kind_of_record(writer: Any, reader: Any, tmp_path: Path) -> None:
    shard = writer.write_shard([all_kinds(writer)], str(tmp_path))
    writer.publish(str(tmp_path), [shard], dataset_id="d", snapshot_id="s")
    dataset = reader.open(str(tmp_path))
    for read in (dataset[0], next(iter(dataset))):
        same_record(read, reader.decode(reader.encode(all_kinds(reader))))
    said = dataset.record_metadata[0]
    assert repr(said) == repr(next(iter(dataset.iter_record_metadata()))) and said["fc8"].dtype == "<c8"
    assert repr(said) == repr(reader.RecordMetadata.from_record(reader.decode(reader.encode(all_kinds(reader)))))


@needs_reference
def test_documents_and_shards_agree_with_the_references(tmp_path: Path) -> None:
    written(ours, tmp_path / "a", compat=True)
    written(reference, tmp_path / "b")
    files = {p.relative_to(tmp_path / "b") for p in (tmp_path / "b").rglob("*") if p.is_file()}
    assert len(files) == 7
    for name in sorted(files):
        mine, theirs = (tmp_path / "a" / name).read_bytes(), (tmp_path / "b" / name).read_bytes()
        assert mine == theirs or name.suffix == ".arrayrecord", name
    # With checksums they hold one key more, and the reference reads them.
    written(ours, tmp_path / "c")
    root = json.loads((tmp_path / "c/root.json").read_text())
    assert sorted(root["snapshot"]) == ["path", "sha256", "stored_bytes"]


@needs_reference
def test_either_completes_the_others_publication(tmp_path: Path) -> None:
    for first, second in ((ours, reference), (reference, ours)):
        root = tmp_path / first.__name__
        how = {"compat": True}
        written(first, root, **(how if first is ours else {}))
        (root / "root.json").unlink()
        dataset = written(second, root, **(how if second is ours else {}))
        assert ids(dataset) == numbered(*range(8))


@pytest.mark.parametrize("m", MODULES)
def test_a_dataset_is_a_sequence(m: Any, tmp_path: Path) -> None:
    dataset = written(m, tmp_path)
    assert isinstance(dataset, collections.abc.Sequence) and len(dataset) == 8
    assert (dataset.root, dataset.id, dataset.snapshot_id) == (str(tmp_path), "captures", "v1")
    assert (str(dataset.access_mode), str(dataset.cache_policy)) == ("lazy_random_access", "none")
    assert dataset[-1].id == "r7" and dataset[-8].id == "r0" and dataset[np.int64(3)].id == "r3" and dataset[True].id == "r1"
    assert ids(dataset[1:7:2]) == numbered(1, 3, 5) and ids(dataset[::-3]) == numbered(7, 4, 1) and dataset[5:5] == []
    assert ids(dataset[-3:100]) == numbered(5, 6, 7) and ids(reversed(dataset)) == numbered(*range(7, -1, -1))
    assert ids(dataset.__getitems__([3, 0, 3, -1])) == numbered(3, 0, 3, 7) and dataset.__getitems__([]) == []
    assert ids(dataset.__getitems__(np.array([1, 6]))) == numbered(1, 6)
    assert ids(dataset.iter_records()) == ids(iter(dataset)) == ids(dataset.iter_record_metadata()) == numbered(*range(8))
    for wrong in (8, -9, 2**70):
        with pytest.raises(IndexError):
            dataset[wrong]
    with pytest.raises(IndexError):
        dataset.__getitems__([0, 8])
    for wrong in ("a", 1.0, None):
        with pytest.raises(TypeError):
            dataset[wrong]
    assert dataset != m.open(str(tmp_path)) and len({dataset, dataset}) == 1
    assert dataset.storage_options == m.StorageOptions()


@pytest.mark.parametrize("m", MODULES)
def test_metadata_by_ordinal(m: Any, tmp_path: Path) -> None:
    said = written(m, tmp_path).record_metadata
    assert isinstance(said, collections.abc.Sequence) and len(said) == 8
    assert said[2].id == "r2" and said[-1].metadata["number"] == 7 and ids(said[5:2:-1]) == numbered(5, 4, 3)
    assert ids(said) == numbered(*range(8)) and said[0]["iq"].shape == (2, 4)
    assert said[3] == m.RecordMetadata.from_record(iq(m, 3))
    with pytest.raises(IndexError):
        said[8]


@pytest.mark.parametrize("m", MODULES)
def test_read_instructions(m: Any, tmp_path: Path) -> None:
    dataset = written(m, tmp_path)
    whole = dataset.read_instructions()
    assert [(i.skip, i.take, i.examples_in_shard, i.first_ordinal) for i in whole] == [(0, 5, 5, 0), (0, 3, 3, 5)]
    assert all(isinstance(i, m.ReadInstruction) and Path(i.filename).is_file() for i in whole)
    assert all(i.filename.startswith(f"{tmp_path}/objects/data/") for i in whole)
    part = dataset.read_instructions(2, 7)
    assert [(i.skip, i.take, i.examples_in_shard, i.first_ordinal) for i in part] == [(2, 3, 5, 2), (0, 2, 3, 5)]
    assert all("/objects/metadata/" in i.filename for i in dataset.read_instructions(metadata=True))
    assert dataset.read_instructions(3, 3) == []
    for wrong in ((-1, None), (7, 2), (0, 9)):
        with pytest.raises(ValueError, match="outside this dataset of 8 records"):
            dataset.read_instructions(*wrong)


@pytest.mark.parametrize("m", MODULES)
def test_write_shard(m: Any, tmp_path: Path) -> None:
    root = str(tmp_path / "deep/er")
    shard = m.write_shard([iq(m, i) for i in range(3)], root, work_id="w", attempt=1)
    assert isinstance(shard, m.PublishedShard)
    assert (shard.work_id, shard.attempt, shard.record_count) == ("w", 1, 3)
    assert re.fullmatch(re.escape(root) + r"/objects/data/[0-9a-f]{2}/[0-9a-f]{64}\.arrayrecord", shard.data_uri)
    assert shard.data_bytes == os.path.getsize(shard.data_uri) and shard.metadata_bytes == os.path.getsize(shard.metadata_uri)
    # The same again is accepted, other records are not.
    assert m.write_shard([iq(m, i) for i in range(3)], root, work_id="w", attempt=1) == shard
    with pytest.raises(ValueError):
        m.write_shard([iq(m, i) for i in range(2)], root, work_id="w", attempt=1)
    assert m.write_shard([], root, work_id="none").record_count == 0
    for more in ({"work_id": ""}, {"attempt": -1}, {"attempt": True}, {"attempt": 1.0}):
        with pytest.raises(ValueError):
            m.write_shard([iq(m)], root, **more)
    with pytest.raises(TypeError):
        m.write_shard(3, root)
    with pytest.raises(AttributeError):
        m.write_shard([3], root, work_id="x")
    with pytest.raises(m.ValidationError):
        m.write_shard([iq(m), m.Record("", {})], root, work_id="y")

    def broken() -> Any:
        yield iq(m)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        m.write_shard(broken(), root, work_id="z")
    for options in (m.StorageOptions(max_records_per_shard=1), m.StorageOptions(max_encoded_shard_bytes=10)):
        with pytest.raises(ValueError, match="max_"):
            m.write_shard([iq(m), iq(m)], root, work_id="l", options=options)
    assert m.write_shard((iq(m, i) for i in range(2)), root, work_id="r", retry=3).record_count == 2
    with pytest.raises(ValueError):
        m.write_shard([iq(m)], root, work_id="r0", retry=0)
    for wrong in (True, 1.5, "a"):
        with pytest.raises(TypeError):
            m.write_shard([iq(m)], root, work_id="r1", retry=wrong)


def test_a_work_id_used_again_for_other_records(tmp_path: Path) -> None:
    ours.write_shard([iq(ours, 1)], tmp_path, work_id="w")
    with pytest.raises(ours.PublicationCollisionError, match="attempt") as caught:
        ours.write_shard([iq(ours, 2)], tmp_path, work_id="w")
    assert isinstance(caught.value, ours.CorruptDatasetError) and isinstance(caught.value, FileExistsError)
    with pytest.raises(ours.ValidationError, match=r"record 3: record 'r3': field 'iq': axis 'channel' has length 5"):
        bad = dataclasses.replace(iq(ours, 3), fields={"iq": dataclasses.replace(iq(ours)["iq"], axes=(ours.Axis("channel", 5), ours.Axis("t", 4)))})
        ours.write_shard([iq(ours), iq(ours), iq(ours), bad], tmp_path, work_id="v")


@pytest.mark.parametrize("options", ["group_size:1", "uncompressed", "group_size:1,zstd:9", "brotli:3", "snappy", "group_size:4,zstd:1,window_log:18", ""])
@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
def test_writer_options(writer: Any, reader: Any, options: str, tmp_path: Path) -> None:
    shard = writer.write_shard([iq(writer, i, 500) for i in range(20)], str(tmp_path), options=writer.StorageOptions(writer_options=options))
    writer.publish(str(tmp_path), [shard], dataset_id="d", snapshot_id="s")
    dataset = reader.open(str(tmp_path))
    assert ids(dataset) == numbered(*range(20))
    same_record(dataset[13], iq(writer, 13, 500))


@pytest.mark.parametrize("m", MODULES)
def test_publish(m: Any, tmp_path: Path) -> None:
    root = str(tmp_path)
    shards = [m.write_shard([iq(m, i)], root, work_id=f"w{i}", attempt=i % 2) for i in range(3)]
    better = m.write_shard([iq(m, 9)], root, work_id="w0", attempt=4)
    what = {"dataset_id": "d", "snapshot_id": "s"}
    for more in (
        {"expected_work_ids": ["w0", "w1"]},
        {"expected_work_ids": ["w0", "w1", "w2", "w3"]},
        {"shards": [dataclasses.replace(shards[0], data_bytes=3)]},
        {"shards": [dataclasses.replace(shards[0], record_count=2)], "publication_options": m.PublicationOptions(verify_record_counts=True)},
        {"shards": [dataclasses.replace(shards[0], data_uri="/elsewhere/x.arrayrecord")]},
    ):
        with pytest.raises(ValueError):
            m.publish(root, **({"shards": shards} | what | {"snapshot_id": "refused"} | more))
    with pytest.raises(TypeError):
        m.publish(root, shards, metadata={"a": {1}}, dataset_id="d", snapshot_id="refused too")
    with pytest.raises(FileNotFoundError):
        m.open(root)
    expected = ["w2", "w0", "w1"]
    dataset = m.publish(root, [*reversed(shards), better], expected_work_ids=expected, publication_options=m.PublicationOptions(1), **what)
    assert ids(dataset) == numbered(9, 1, 2)
    assert len(list((tmp_path / "manifests").rglob("s-*.json"))) == 3
    # Again: complete. Anything else: refused.
    assert ids(m.publish(root, [better, *shards], publication_options=m.PublicationOptions(1), **what)) == numbered(9, 1, 2)
    for other in ({"dataset_id": "e"}, {"snapshot_id": "t"}, {"metadata": {"a": 1}}):
        with pytest.raises(m.PublicationCollisionError) as caught:
            m.publish(root, [better, *shards], publication_options=m.PublicationOptions(1), **(what | other))
        assert isinstance(caught.value, FileExistsError)
    with pytest.raises(m.PublicationCollisionError):
        m.publish(root, shards, publication_options=m.PublicationOptions(1), **what)


def test_ours_refuses_names_that_cannot_be(tmp_path: Path) -> None:
    for names in ({"dataset_id": "", "snapshot_id": "s"}, {"dataset_id": "d", "snapshot_id": "a/b"}, {"dataset_id": "d", "snapshot_id": ""}):
        with pytest.raises(ValueError):
            ours.publish(tmp_path, [], **names)
    assert not (tmp_path / "root.json").exists()


@pytest.mark.parametrize("m", MODULES)
def test_open_of_what_is_no_dataset(m: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        m.open(str(tmp_path / "nothing"))
    with pytest.raises(FileNotFoundError):
        m.open(str(tmp_path))
    (tmp_path / "sds.json").write_text("{}")
    with pytest.raises(m.CorruptDatasetError, match="prototype"):
        m.open(str(tmp_path))
    with pytest.raises(ValueError, match="scheme"):
        m.open("nope://bucket/d")


DAMAGE = {
    "no JSON": lambda text: "{",
    "duplicate keys": lambda text: text.replace("{", '{"dataset_id": "q",', 1),
    "NaN": lambda text: text.replace('"metadata": {', '"metadata": {"x": NaN,'),
    "another format": lambda text: text.replace("signal-dataset.dataset", "other"),
    "another version": lambda text: text.replace('"0.1"', '"0.2"'),
    "a newer reader": lambda text: text.replace("0.3.0", "9.0.0"),
    "another codec": lambda text: text.replace("safetensors", "other"),
    "a reference out of the root": lambda text: text.replace("snapshots/", "../snapshots/"),
}


@pytest.mark.parametrize("m", MODULES)
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_roots(m: Any, damage: str, tmp_path: Path) -> None:
    written(m, tmp_path)
    root = tmp_path / "root.json"
    text = DAMAGE[damage](root.read_text())
    root.unlink()
    root.write_text(text)
    with pytest.raises(m.CorruptDatasetError) as caught:
        m.open(str(tmp_path))
    assert isinstance(caught.value, ValueError)


def test_damaged_objects_are_told(tmp_path: Path) -> None:
    written(ours, tmp_path)
    data = sorted((tmp_path / "objects/data").rglob("*.arrayrecord"))
    content = data[0].read_bytes()
    at = content.rindex(b"\x28\xb5\x2f\xfd") + 20
    data[0].write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    dataset = ours.open(tmp_path)
    with pytest.raises(ours.CorruptDatasetError) as caught:
        list(dataset)
    assert isinstance(caught.value, ours.ValidationError) and data[0].name in str(caught.value)
    with pytest.raises(ours.CorruptDatasetError, match=data[0].name):
        dataset.verify()
    data[0].write_bytes(content[:-1])
    with pytest.raises(ours.CorruptDatasetError, match="131071"):
        ours.open(tmp_path)[:]
    data[0].unlink()
    with pytest.raises(ours.CorruptDatasetError) as caught:
        ours.open(tmp_path)[:]
    assert isinstance(caught.value, FileNotFoundError) and ids(ours.open(tmp_path).record_metadata) == numbered(*range(8))


def test_limits_on_reading(tmp_path: Path) -> None:
    written(ours, tmp_path)
    options = ours.StorageOptions(resources=ours.ResourcePolicy(max_tensor_bytes=1))
    with pytest.raises(ours.ValidationError, match="max_tensor_bytes"):
        ours.open(tmp_path, options=options)[0]
    with pytest.raises(ours.CorruptDatasetError):
        ours.open(tmp_path, options=ours.StorageOptions(control=ours.ControlPolicy(max_document_bytes=10)))


def test_verify_and_digest(tmp_path: Path) -> None:
    dataset = written(ours, tmp_path)
    heard: list[tuple[int, int]] = []
    shards, records, size = dataset.verify(lambda done, total: heard.append((done, total)))
    assert (records, heard[-1]) == (8, (2, 2)) and shards == 2 and size > 0
    assert re.fullmatch("sha256:[0-9a-f]{64}", dataset.root_digest) and ours.open(tmp_path).root_digest == dataset.root_digest

    def stop(done: int, total: int) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        dataset.verify(stop)


def test_arrays_of_stored_records(tmp_path: Path) -> None:
    dataset = written(ours, tmp_path)
    for data in (dataset[3]["iq"].data, dataset[:][3]["iq"].data, list(dataset)[3]["iq"].data):
        assert not data.flags.writeable and data.flags.aligned and data.base is not None
        with pytest.raises(ValueError):
            data[0, 0] = 1
        with pytest.raises(ValueError):
            data.flags.writeable = True
        assert np.array_equal(data, iq(ours, 3)["iq"].data)


def test_what_is_alike_is_shared(tmp_path: Path) -> None:
    dataset = written(ours, tmp_path)
    records = list(dataset)
    assert records[0]["iq"].axes is records[7]["iq"].axes
    said = list(dataset.iter_record_metadata())
    assert said[0].fields is said[7].fields


def test_records_that_differ_in_their_fields(tmp_path: Path) -> None:
    def record(i: int) -> ours.Record:
        fields = {f"f{k}": ours.Field(np.full(i + 1, k, "i2"), (ours.Axis("t", i + 1, metadata={"i": i}),), {"k": k}) for k in range(i % 3 + 1)}
        return ours.Record(f"r{i}", fields, metadata={"i": i})

    shard = ours.write_shard(map(record, range(50)), tmp_path)
    dataset = ours.publish(tmp_path, [shard], dataset_id="d", snapshot_id="s")
    for i, (read, said) in enumerate(zip(dataset, dataset.iter_record_metadata(), strict=True)):
        same_record(read, record(i))
        assert said == ours.RecordMetadata.from_record(record(i))
    assert [dataset[i]["f0"].data.shape for i in (40, 3, 3, 41)] == [(41,), (4,), (4,), (42,)]


def test_paths_and_stores(tmp_path: Path) -> None:
    dataset = written(ours, tmp_path)
    assert ours.open(tmp_path).root == ours.open(f"{tmp_path}/").root == str(tmp_path) == dataset.root
    with pytest.raises(ValueError, match="object_store"):
        ours.open(tmp_path, object_store=object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="s3"):
        ours.write_shard([], "nope+s3://bucket/x")
    with pytest.raises(ValueError):
        ours.open("")
    with pytest.raises(ValueError, match="'zst'"):
        ours.write_shard([], tmp_path, options=ours.StorageOptions(writer_options="zst"))


def test_relative_and_absolute_roots_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shard = ours.write_shard([iq(ours)], "x/d")
    assert shard.data_uri.startswith("x/d/objects/")
    assert ids(ours.publish(tmp_path / "x/d", [shard], dataset_id="d", snapshot_id="s")) == numbered(0)


def test_the_neutral_open(tmp_path: Path) -> None:
    written(ours, tmp_path)
    dataset = sigbank.open(tmp_path)
    assert dataset.layout == "signal-dataset" and len(dataset) == 8


@pytest.mark.parametrize("m", MODULES)
def test_annotation_records(m: Any) -> None:
    codec = m.annotation.SafeTensorsAnnotationCodec()
    full = m.AnnotationRecord("r", 3, m.AnnotationStatus.FAILED, {"a": [1]}, {"x": m.Field([1.5], (m.Axis("t", 1),))}, {"by": "me"}, "why")
    for annotation in (full, m.AnnotationRecord("r", 0, m.AnnotationStatus.SUCCESS)):
        assert repr(codec.decode(codec.encode(annotation))) == repr(annotation)
    with pytest.raises(m.CorruptDatasetError):
        codec.decode(m.encode(iq(m)))
    if reference is not None:
        assert ours.annotation.SafeTensorsAnnotationCodec().encode(
            ours.AnnotationRecord("r", 3, ours.AnnotationStatus.SKIPPED, {"a": 1})
        ) == reference.annotation.SafeTensorsAnnotationCodec().encode(
            reference.AnnotationRecord("r", 3, reference.AnnotationStatus.SKIPPED, {"a": 1})
        )


@needs_reference
@pytest.mark.parametrize("space", ["", ".record", ".dataset", ".annotation"])
def test_names_are_the_references(space: str) -> None:
    mine, theirs = ours, reference
    for part in space.split(".")[1:]:
        mine, theirs = getattr(mine, part), getattr(theirs, part)
    missing = set(theirs.__all__) - set(mine.__all__)
    # Annotation sets are not there yet.
    assert all("Annotation" in name or name in {"publish_annotations", "publish_shards"} or space == ".annotation" for name in missing)
    assert ours.__version__ == reference.__version__
    for name in sorted(set(theirs.__all__) & set(mine.__all__)):
        a, b = getattr(mine, name), getattr(theirs, name)
        assert isinstance(a, type) == isinstance(b, type)
        if isinstance(a, type) and issubclass(b, BaseException):
            assert {c for c in b.__mro__ if c.__module__ == "builtins"} <= set(a.__mro__)


def test_storage_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sigbank import _native

    calls, fails = [], 2

    def flaky(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) <= fails:
            raise ours.StorageError("the disk is away")
        return real(*arguments)

    real = _native.signal_write_shard
    monkeypatch.setattr(_native, "signal_write_shard", flaky)
    policy = ours.RetryPolicy(attempts=3, base_seconds=0, max_seconds=0)
    assert ours.write_shard([iq(ours)], tmp_path, retry=policy).record_count == 1 and len(calls) == 3
    for records, retry, tried in (([iq(ours)], None, 1), (iter([iq(ours)]), policy, 1), ([iq(ours)], dataclasses.replace(policy, attempts=2), 2)):
        calls.clear()
        with pytest.raises(ours.StorageError, match="away"):
            ours.write_shard(records, tmp_path, work_id="w", retry=retry)
        assert len(calls) == tried
    # What is not the storage's fault is not tried again.
    monkeypatch.setattr(_native, "signal_write_shard", real)
    with pytest.raises(ours.ValidationError):
        ours.write_shard([ours.Record("", {})], tmp_path, work_id="x", retry=ours.RetryPolicy(base_seconds=60, max_seconds=60))


@pytest.mark.parametrize("m", MODULES)
def test_a_root_that_cannot_be(m: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for call in (lambda root: m.write_shard([iq(m)], root), m.open):
        with pytest.raises(OSError):
            call(str(tmp_path / "file"))
