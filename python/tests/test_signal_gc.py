"""Garbage of signal-datasets: shown, and deleted on demand."""

from __future__ import annotations

from pathlib import Path

import pytest
import sigbank.signal_dataset as ours
from signal_cases import ids, iq


def test_what_nothing_names_is_shown_and_deleted_when_told(tmp_path: Path) -> None:
    root = tmp_path / "captures"
    lost = ours.write_shard([iq(ours, 0)], root, work_id="w", attempt=0)
    kept = ours.write_shard([iq(ours, 1)], root, work_id="w", attempt=1)
    assert all(orphan.kept == "unpublished" for orphan in ours.gc(root, older_than=0).orphans)
    ours.publish(root, [lost, kept], dataset_id="d", snapshot_id="v1")
    (root / "notes.txt").write_text("mine")

    young = ours.gc(root, older_than=3600, delete=True)
    assert [orphan.kept for orphan in young.orphans] == ["young", "young"] and young.deleted_objects == 0
    assert young.not_ours == ("notes.txt",) and young.published

    found = ours.gc(root, older_than=0, delete=True)
    assert {Path(orphan.path).parts[1] for orphan in found.orphans} == {"data", "metadata"}
    assert found.deleted_objects == 2 and found.deleted_bytes == sum(orphan.bytes for orphan in found.orphans)
    assert ours.gc(root, older_than=0).orphans == ()
    assert ids(ours.open(root)) == [iq(ours, 1).id] and (root / "notes.txt").exists()


def test_no_age_below_zero(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="older_than"):
        ours.gc(tmp_path, older_than=-1)


def test_what_is_complete_is_kept_unless_it_is_given_up(tmp_path: Path) -> None:
    root = tmp_path / "captures"
    first = ours.publish(root, [ours.write_shard([iq(ours, 0)], root, work_id="a")], dataset_id="d", snapshot_id="v1")
    ours.versions.publish(first, [ours.write_shard([iq(ours, 1)], root, work_id="b")], name="more")
    (root / "sigbank/versions/00000001.json").unlink()
    found = ours.gc(root, older_than=0, delete=True)
    assert {orphan.kept for orphan in found.orphans} == {"complete"} and found.deleted_objects == 0
    (told,) = found.uncommitted
    assert "version 1 'more' with 1 records, complete" in told
    assert ours.gc(root, older_than=0, delete=True, uncommitted=True).deleted_objects == 5
    assert ours.gc(root, older_than=0).orphans == () and ids(ours.open(root)) == ["r0"]
