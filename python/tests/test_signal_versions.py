"""Further versions: opened and compared by us, and not seen by the reference package."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import sigbank
import sigbank.signal_dataset as ours
from signal_cases import ids, iq, needs_reference, numbered, reference, same_record, written
from sigbank.signal_dataset import versions


def appended(root: Path, name: str = "more", first: int = 8, last: int = 11) -> Any:
    dataset = ours.open(str(root))
    shard = ours.write_shard((iq(ours, i) for i in range(first, last)), str(root), work_id=name)
    return versions.publish(dataset, [shard], name=name, base="latest", metadata={"by": [name]})


def test_published_listed_and_opened(tmp_path: Path) -> None:
    first = written(ours, tmp_path)
    second = appended(tmp_path)
    assert (len(first), len(second), ids(second)) == (8, 11, numbered(*range(11)))
    assert second.metadata == {"by": ("more",)} and second.verify()[1] == 11
    zero, one = versions.versions(first)
    assert (zero.number, zero.name, zero.digest, zero.parent, zero.created) == (0, "v1", first.root_digest, None, None)
    assert (one.name, one.parent, one.base, one.records, one.shards) == ("more", (0, zero.digest), (0, zero.digest), 11, 3)
    assert one.digest == second.root_digest and one.created is not None and one.created.endswith("Z")
    for which in (1, "1", "more", "latest", one.digest, one.digest[:19]):
        opened = ours.open(str(tmp_path), version=which)
        assert (len(opened), opened.root_digest) == (11, one.digest)
        same_record(opened[10], iq(ours, 10))
        assert opened.record_metadata[9].id == "r9" and len(opened.annotations) == 0
    assert len(ours.open(str(tmp_path))) == len(versions.at(second, 0)) == 8
    for opened in (pickle.loads(pickle.dumps(second)), pickle.loads(pickle.dumps(versions.at(first, "latest")))):
        assert (ids(opened), opened.root_digest) == (numbered(*range(11)), one.digest)


def test_what_is_not_there(tmp_path: Path) -> None:
    dataset = written(ours, tmp_path)
    appended(tmp_path)
    for which in (2, "other", "sha256:" + "0" * 64):
        with pytest.raises(FileNotFoundError, match="there is no version"):
            versions.at(dataset, which)
    with pytest.raises(ValueError, match="12 to 64 hexadecimal digits"):
        versions.at(dataset, "sha256:12")
    with pytest.raises(FileExistsError, match="'more' already"):
        versions.publish(dataset, [], name="more")
    with pytest.raises(ours.PublicationCollisionError, match="was published meanwhile"):
        versions.publish(dataset, [], name="x", follows=0)
    with pytest.raises(ValueError, match="cannot be the name"):
        versions.publish(dataset, [], name="7")
    document = tmp_path / "sigbank/versions/00000001.json"
    document.write_text(document.read_text().replace('"more"', '"fake"'))
    with pytest.raises(ours.CorruptDatasetError, match="is not the document"):
        versions.at(dataset, 1)


def test_compared(tmp_path: Path) -> None:
    first = written(ours, tmp_path)
    second = appended(tmp_path)
    found = versions.compare(first, second, by_id=True)
    assert (found.records, found.added[:2], found.removed, found.kept[:2]) == ((8, 11), (1, 3), (0, 0, 0), (2, 8))
    assert found.ids == (numbered(8, 9, 10), [], [])
    assert found.metadata == {"by": (None, ("more",)), "list": ((1,), None), "owner": ("me", None)}
    assert versions.compare(first, second).ids is None


def test_whatever_the_layout(tmp_path: Path) -> None:
    written(ours, tmp_path / "d")
    second = appended(tmp_path / "d")
    dataset = sigbank.open(tmp_path / "d", version="more")
    assert (len(dataset), dataset.root_digest) == (11, second.root_digest)
    assert len(pickle.loads(pickle.dumps(dataset))) == 11
    assert len(sigbank.open(tmp_path / "d")) == 8


@needs_reference
def test_the_reference_sees_what_was_there(tmp_path: Path) -> None:
    root, copy = tmp_path / "d", tmp_path / "copy"
    written(ours, root)
    reference.publish_annotations  # noqa: B018 - annotations are of the first version in both packages
    before = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    second = appended(root)
    third = appended(root, "again", 11, 12)
    assert all(p.read_bytes() == content for p, content in before.items())
    dataset = reference.open(str(root))
    assert (len(dataset), dataset.snapshot_id, ids(dataset.iter_records())) == (8, "v1", numbered(*range(8)))
    same_record(dataset[7], iq(reference, 7))
    # A version's snapshot, named by a root, is one that the reference reads: pages of the base and new ones.
    for version in (second, third):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(root, copy)
        document = json.loads((root / f"sigbank/versions/{2 if version is third else 1:08d}.json").read_text())
        pointing = json.loads((root / "root.json").read_text())
        pointing["snapshot"] = document["snapshot"]
        (copy / "root.json").write_text(json.dumps(pointing, indent=2, sort_keys=True) + "\n")
        dataset = reference.open(str(copy))
        assert ids(dataset.iter_records()) == numbered(*range(len(version)))
        for number, said in enumerate(dataset.iter_record_metadata()):
            assert said == reference.RecordMetadata.from_record(iq(reference, number))
        same_record(dataset[len(version) - 1], iq(reference, len(version) - 1))
