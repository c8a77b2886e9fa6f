"""Annotations: published whole or by workers, by either module and read by the other."""

from __future__ import annotations

import collections.abc
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sigbank.signal_dataset as ours
from signal_cases import BOTH_WAYS, MODULES, ids, iq, reference


def dataset_of(m: Any, root: Path, records: int = 5) -> Any:
    shard = m.write_shard([iq(m, i) for i in range(records)], str(root))
    return m.publish(str(root), [shard], dataset_id="d", snapshot_id="s")


def row(m: Any, i: int, **more: Any) -> Any:
    """An annotation with arrays for some records, without for others."""
    status = list(m.AnnotationStatus)[i % 3]
    fields = {"mask": m.Field(np.arange(i, dtype="u1"), (m.Axis("t", i),))} if i % 2 else {}
    what = {"values": {"label": i, "note": ["é"]}, "fields": fields, "provenance": {"by": "me"}, "detail_status": "why" if i % 3 else None}
    return m.AnnotationRecord(f"r{i}", i, status, **(what | more))


def rows(m: Any, start: int = 0, stop: int = 5) -> list[Any]:
    return [row(m, i) for i in range(start, stop)]


def same_row(a: Any, b: Any) -> None:
    keys = ["source_record_id", "source_index", "status", "detail_status"]
    assert [getattr(a, k) for k in keys] == [getattr(b, k) for k in keys]
    assert repr((a.values, a.provenance)) == repr((b.values, b.provenance)) and list(a.fields) == list(b.fields)
    for name in a.fields:
        assert repr(a.fields[name].axes) == repr(b.fields[name].axes)
        assert np.array_equal(a.fields[name].data, b.fields[name].data)


@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
@pytest.mark.parametrize("records_per_shard", [2, 10_000])
def test_what_one_publishes_the_other_reads(writer: Any, reader: Any, records_per_shard: int, tmp_path: Path) -> None:
    dataset = dataset_of(writer, tmp_path)
    assert (list(dataset.annotations), dataset.annotations.revision) == ([], None)
    options = writer.AnnotationOptions(records_per_shard=records_per_shard, publication_id="p1")
    published = writer.publish_annotations(dataset, "labels", rows(writer), metadata={"m": [1]}, options=options)
    assert len(published) == 5
    found = reader.open(str(tmp_path)).annotations["labels"]
    assert (found.name, found.publication_id, found.source_snapshot_id, len(found)) == ("labels", "p1", "s", 5)
    assert found.metadata == {"m": (1,)}
    for i, one in enumerate(found):
        same_row(one, row(writer, i))
        assert isinstance(one, reader.AnnotationRecord) and isinstance(one.status, reader.AnnotationStatus)
        assert all(not field.data.flags.writeable for field in one.fields.values())
    # And the other adds a set of its own.
    again = reader.open(str(tmp_path))
    reader.publish_annotations(again, "more", rows(reader), options=reader.AnnotationOptions(publication_id="p2"))
    assert sorted(writer.open(str(tmp_path)).annotations) == ["labels", "more"]
    assert ids_of(writer.open(str(tmp_path)).annotations["more"]) == [f"r{i}" for i in range(5)]


def ids_of(annotations: Any) -> list[str]:
    return [one.source_record_id for one in annotations]


@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
def test_workers(writer: Any, reader: Any, tmp_path: Path) -> None:
    dataset = dataset_of(writer, tmp_path)
    write = writer.annotation.write_shard
    first = write(dataset, "w", "p1", 0, rows(writer, 0, 2), logical_shard_id="a")
    assert isinstance(first, writer.PublishedAnnotationShard)
    assert (first.name, first.publication_id, first.source_snapshot_id, first.logical_shard_id) == ("w", "p1", "s", "a")
    assert (first.first_ordinal, first.record_ids, first.generation) == (0, ("r0", "r1"), None)
    assert (first.statuses, first.terminal_statuses) == (("success", "skipped"), ("success", "why"))
    assert Path(first.uri).stat().st_size == first.stored_bytes
    # Again, by the other module too: what was written is found.
    assert write(dataset, "w", "p1", 0, rows(writer, 0, 2), logical_shard_id="a") == first
    other = reader.open(str(tmp_path))
    resumed = reader.annotation.write_shard(other, "w", "p1", 0, rows(reader, 0, 2), logical_shard_id="a")
    assert repr(resumed) == repr(first)
    second = reader.annotation.write_shard(other, "w", "p1", 2, rows(reader, 2, 5), logical_shard_id="b")
    with pytest.raises(ValueError):
        write(dataset, "w", "p1", 1, rows(writer, 0, 2), logical_shard_id="c")
    publish = reader.annotation.publish_shards
    for wrong in ([resumed], [second], []):
        with pytest.raises(ValueError):
            publish(other, "w", "p1", wrong)
    with pytest.raises(ValueError):
        publish(other, "w", "p2", [resumed, second])
    found = publish(other, "w", "p1", [second, resumed], metadata={"m": 1})
    assert ids_of(found) == [f"r{i}" for i in range(5)]
    assert ids_of(publish(other, "w", "p1", [resumed, second], metadata={"m": 1})) == ids_of(found)
    for i, one in enumerate(writer.open(str(tmp_path)).annotations["w"]):
        same_row(one, row(writer, i))


@pytest.mark.parametrize("m", MODULES)
def test_sets_and_catalogs(m: Any, tmp_path: Path) -> None:
    m.publish_annotations(dataset_of(m, tmp_path), "labels", rows(m))
    catalog = m.open(str(tmp_path)).annotations
    assert isinstance(catalog, collections.abc.Mapping) and isinstance(catalog, m.AnnotationCatalog)
    assert (list(catalog), len(catalog), "labels" in catalog, catalog.get("nope")) == (["labels"], 1, True, None)
    assert catalog.revision.startswith("annotations/catalogs/")
    with pytest.raises(KeyError):
        catalog["nope"]
    found = catalog["labels"]
    assert isinstance(found, collections.abc.Sequence) and isinstance(found, m.AnnotationSet) and found is catalog["labels"]
    assert found[-1].source_index == 4 and ids_of(found[1:3]) == ["r1", "r2"] and ids_of(found[::-2]) == ["r4", "r2", "r0"]
    assert found.root == str(tmp_path)
    for wrong in (5, -6):
        with pytest.raises(IndexError):
            found[wrong]


@pytest.mark.parametrize("m", MODULES)
def test_refused(m: Any, tmp_path: Path) -> None:
    dataset = dataset_of(m, tmp_path)
    for wrong in (rows(m, 0, 4), rows(m)[::-1], [*rows(m), row(m, 5)], [*rows(m, 0, 4), row(m, 4, values={})][1:]):
        with pytest.raises(ValueError):
            m.publish_annotations(dataset, "labels", wrong)
    other = [*rows(m, 0, 4), m.AnnotationRecord("another", 4, m.AnnotationStatus.SUCCESS)]
    with pytest.raises(ValueError):
        m.publish_annotations(dataset, "labels", other)
    for name in ("a/b", "", ".x", "x" * 129):
        with pytest.raises(ValueError):
            m.publish_annotations(dataset, name, rows(m))
    with pytest.raises(ValueError):
        m.publish_annotations(dataset, "labels", rows(m), options=m.AnnotationOptions(publication_id="a/b"))
    assert list(m.open(str(tmp_path)).annotations) == []
    options = m.AnnotationOptions(publication_id="p")
    m.publish_annotations(dataset, "labels", rows(m), options=options)
    m.publish_annotations(dataset, "labels", rows(m), options=options)
    with pytest.raises(m.PublicationCollisionError):
        m.publish_annotations(dataset, "labels", rows(m), options=m.AnnotationOptions(publication_id="q"))
    with pytest.raises(m.PublicationCollisionError):
        m.publish_annotations(dataset, "labels", [row(m, i, values={"other": 1}) for i in range(5)], options=options)


def test_ours_says_what_is_wrong(tmp_path: Path) -> None:
    dataset = dataset_of(ours, tmp_path)
    with pytest.raises(ValueError, match=r"4 annotations for 5 records"):
        ours.publish_annotations(dataset, "labels", rows(ours, 0, 4))
    bad = ours.AnnotationRecord("r0", 0, "done")  # type: ignore[arg-type]
    with pytest.raises(ours.ValidationError, match=r"'done', which is none of success, skipped and failed"):
        ours.publish_annotations(dataset, "labels", [bad])
    with pytest.raises(ours.ValidationError, match=r"annotation of record 'r0': field 'x': it must be a Field"):
        ours.publish_annotations(dataset, "labels", [row(ours, 0, fields={"x": 1})])
    with pytest.raises(AttributeError):
        ours.publish_annotations(dataset, "labels", [3])  # type: ignore[list-item]
    write = ours.annotation.write_shard
    write(dataset, "w", "p", 0, rows(ours, 0, 2), logical_shard_id="a")
    with pytest.raises(ours.PublicationCollisionError, match="used before for other records"):
        write(dataset, "w", "p", 0, rows(ours, 0, 3), logical_shard_id="a")


def test_one_sees_what_one_has_published(tmp_path: Path) -> None:
    dataset = dataset_of(ours, tmp_path)
    before = dataset.annotations
    published = ours.publish_annotations(dataset, "labels", iter(rows(ours)))
    assert list(before) == [] and list(dataset.annotations) == ["labels"] and repr(published[3]) == repr(dataset.annotations["labels"][3])
    assert ids_of(pickle.loads(pickle.dumps(published))) == ids_of(published)
    assert list(pickle.loads(pickle.dumps(dataset.annotations))) == ["labels"]
    assert ids(dataset) == [f"r{i}" for i in range(5)]


def test_sets_that_are_published_at_once_are_all_there(tmp_path: Path) -> None:
    dataset_of(ours, tmp_path)
    failed = []

    def work(number: int) -> None:
        try:
            options = ours.AnnotationOptions(catalog_retry_limit=100)
            ours.publish_annotations(ours.open(tmp_path), f"set{number}", rows(ours), options=options)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failed and sorted(ours.open(tmp_path).annotations) == [f"set{number}" for number in range(6)]
    if reference is not None:
        assert len(reference.open(str(tmp_path)).annotations) == 6


def test_a_damaged_catalog_is_told_when_it_is_used(tmp_path: Path) -> None:
    ours.publish_annotations(dataset_of(ours, tmp_path), "labels", rows(ours))
    (tmp_path / "annotations/catalog.json").write_text("{}")
    dataset = ours.open(tmp_path)
    assert len(dataset) == 5
    with pytest.raises(ours.CorruptDatasetError, match="catalog.json"):
        dataset.annotations


@pytest.mark.parametrize("writer, reader", BOTH_WAYS)
@pytest.mark.parametrize("how", ["publish", "materialize"])
def test_annotations_go_along_with_a_view(writer: Any, reader: Any, how: str, tmp_path: Path) -> None:
    dataset_of(writer, tmp_path / "d")
    writer.publish_annotations(writer.open(str(tmp_path / "d")), "labels", rows(writer))
    view = writer.open(str(tmp_path / "d")).select([3, 0])
    getattr(view, how)(str(tmp_path / "v"), dataset_id="v", snapshot_id="t")
    found = reader.open(str(tmp_path / "v")).annotations["labels"]
    assert [(one.source_record_id, one.source_index) for one in found] == [("r3", 0), ("r0", 1)]
    assert found[0].values["label"] == 3 and found[0].fields["mask"].data.tolist() == [0, 1, 2] and found.source_snapshot_id == "t"
