"""Datasets in other processes and in several threads."""

from __future__ import annotations

import copy
import dataclasses
import multiprocessing
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sigbank.signal_dataset as ours
from signal_cases import ids, iq, numbered, read_in_a_process, same_record, written


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_datasets_and_views_pickle(clone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(ours, tmp_path / "d")
    monkeypatch.chdir(tmp_path)
    dataset = ours.open("d", options=ours.StorageOptions(max_open_shards=2))
    assert repr(dataset).startswith("Dataset(root='d'") and dataset.read_instructions()[0].filename.startswith("d/objects/")
    view = dataset.select([2, 1])
    monkeypatch.chdir("/")
    again = clone(dataset)
    assert repr(again) == repr(dataset) and again.storage_options == dataset.storage_options and ids(again) == ids(dataset)
    assert ids(clone(view)) == numbered(2, 1)
    shard = ours.write_shard([iq(ours)], tmp_path / "e")
    assert clone(shard) == shard and clone(shard)._sha256 == shard._sha256 is not None
    assert dataclasses.replace(shard, attempt=3)._sha256 is None


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes(method: str, tmp_path: Path) -> None:
    dataset = written(ours, tmp_path)
    begun = iter(dataset)
    next(begun)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=read_in_a_process, args=(dataset, queue))
    process.start()
    assert queue.get(timeout=60) == (numbered(*range(8)), numbered(1, 0), "r2")
    process.join(timeout=60)
    assert process.exitcode == 0 and ids(begun) == numbered(*range(1, 8))


def test_an_iterator_of_the_parent_is_refused_in_a_forked_child(tmp_path: Path) -> None:
    begun = iter(written(ours, tmp_path))
    child = os.fork()
    if child == 0:
        try:
            next(begun)
        except RuntimeError as error:
            os._exit(0 if "parent" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_threads_share_a_dataset_and_an_iterator(tmp_path: Path) -> None:
    shard = ours.write_shard((iq(ours, i) for i in range(2000)), tmp_path)
    dataset = ours.publish(tmp_path, [shard], dataset_id="d", snapshot_id="s")
    records, seen, failed = iter(dataset), [], []

    def work(seed: int) -> None:
        try:
            seen.extend(record.id for record in records)
            for i in np.random.default_rng(seed).integers(0, 2000, 200):
                same_record(dataset[int(i)], iq(ours, int(i)))
                assert dataset.record_metadata[int(i)].id == f"r{i}"
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failed and sorted(seen) == sorted(numbered(*range(2000)))


def test_an_iterator_may_be_left(tmp_path: Path) -> None:
    shard = ours.write_shard((iq(ours, i, 2000) for i in range(500)), tmp_path)
    dataset = ours.publish(tmp_path, [shard], dataset_id="d", snapshot_id="s")
    for _ in range(20):
        assert next(dataset.iter_records()).id == "r0"
    before = threading.active_count()
    assert before < 10
