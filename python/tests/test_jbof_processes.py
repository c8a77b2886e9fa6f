"""Sixteen processes add, delete and search in one data set, and some are killed: nobody sees half of anything, every name has one winner, and what
comes of it is what one process would have made.

SIGBANK_JBOF_SOAK=600 makes it go on for ten minutes.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jbof_cases import reference

from sigbank import jbof

PROCESSES = 16
SECONDS = float(os.environ.get("SIGBANK_JBOF_SOAK", "4"))
ITEMS = 60
"""Names that are fought for. Every third item is deleted again and again, and is not there in the end."""
SHARED = 30
"""Arrays of one item that are fought for, of which every third is deleted again and again."""


def _metadata(n: int) -> dict[str, Any]:
    return {"n": n, "kind": ["even", "odd"][n % 2], "text": f"item {n} " * 20}


def _values(n: int, name: str) -> np.ndarray[Any, Any]:
    # Of sizes that are written in one call, in several, and before the lock is taken.
    return np.full([5, 3000, 400_000][(n + len(name)) % 3 if n % 10 == 0 else n % 2], n, "f4")


def _passing(n: int) -> bool:
    return n % 3 == 0


def _name(n: int) -> str:
    return f"item{n:03}"



class _Worker:
    """What one process does, again and again."""

    def __init__(self, path: Path, seed: int, log: Path) -> None:
        self.dataset = jbof.DataSet(path, readonly=False)
        self.random = random.Random(seed)
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def won(self, what: str) -> None:
        os.write(self.log, (what + "\n").encode())

    def add_item(self, n: int) -> None:
        try:
            item = self.dataset.add_item(_name(n), _metadata(n))
        except jbof.errors.AlreadyExistsError:
            assert isinstance(jbof.errors.AlreadyExistsError("x"), TypeError)
            return
        self.won(f"item {n}")
        for name in ("a", "bb"):
            self.add_array(item, n, name)

    def add_array(self, item: jbof.Item, n: int, name: str) -> bool:
        if self.random.random() < 0.04:
            # The system ends this process while it adds the array, or soon after.
            signal.setitimer(signal.ITIMER_REAL, self.random.uniform(0.00001, 0.002))
        try:
            item.add_array(name, _values(n, name), {"n": n})
        except jbof.errors.AlreadyExistsError:
            return False
        except jbof.errors.NotFoundError:
            assert _passing(n)  # It was deleted meanwhile.
            return False
        return True

    def add_shared(self, n: int) -> None:
        if self.add_array(self.dataset["shared"], n, f"s{n}"):
            self.won(f"array {n}")

    def delete_item(self, n: int) -> None:
        try:
            self.dataset.delete_item(_name(n))
        except jbof.errors.NotFoundError:
            pass

    def delete_shared(self, n: int) -> None:
        item = self.dataset["shared"]
        try:
            item.delete_array(item[f"s{n}"])
        except (jbof.errors.NotFoundError, jbof.errors.MissingArrayError):
            pass

    def look(self) -> None:
        """All that is there is whole."""
        query = self.random.choice([{}, {"kind": "odd"}, {"n": list(range(0, ITEMS, 7))}])
        for item in self.dataset.find_items(**query):
            if item.name == "shared":
                continue
            n = int(item.name[4:])
            assert item.metadata == _metadata(n), item.metadata
            assert not query or item.metadata["kind"] == query.get("kind", item.metadata["kind"])
            for name in ("a", "bb"):
                self.look_at(item, n, name)
        n = self.random.randrange(SHARED)
        self.look_at(self.dataset["shared"], n, f"s{n}")

    def look_at(self, item: jbof.Item, n: int, name: str) -> None:
        try:
            array = item[name]
        except (jbof.errors.MissingArrayError, jbof.errors.NotFoundError):
            return  # Not yet, or deleted.
        assert array.metadata == {"n": n}
        np.testing.assert_array_equal(array, _values(n, name))

    def step(self) -> None:
        n, shared = self.random.randrange(ITEMS), self.random.randrange(SHARED)
        actions = [lambda: self.add_item(n), lambda: self.add_shared(shared), self.look]
        if _passing(n):
            actions.append(lambda: self.delete_item(n))
        if _passing(shared):
            actions.append(lambda: self.delete_shared(shared))
        self.random.choice(actions)()


def _work(path: Path, seed: int, log: Path, errors: Path, stop: Path, until: float) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    try:
        worker = _Worker(path, seed, log)
        while time.time() < until and not stop.exists():
            worker.step()
    except BaseException:
        errors.write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)


def _finish(dataset: jbof.DataSet) -> None:
    """What is missing is added, what was to go is deleted: as one process would have left it."""
    for n in range(ITEMS):
        if _passing(n):
            if _name(n) in dataset:
                dataset.delete_item(_name(n))
            continue
        item = dataset[_name(n)] if _name(n) in dataset else dataset.add_item(_name(n), _metadata(n))
        for name in ("a", "bb"):
            if name not in item:
                item.add_array(name, _values(n, name), {"n": n})
    shared = dataset["shared"]
    for n in range(SHARED):
        name = f"s{n}"
        if _passing(n) and name in shared:
            shared.delete_array(shared[name])
        elif not _passing(n) and name not in shared:
            shared.add_array(name, _values(n, name), {"n": n})


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_sixteen_processes_some_of_them_killed(tmp_path: Path) -> None:
    path, log, stop = tmp_path / "shared", tmp_path / "log", tmp_path / "stop"
    jbof.create_dataset(path).add_item("shared")
    context = multiprocessing.get_context("fork")
    chance = random.Random(int.from_bytes(os.urandom(4), "little"))
    # As long as that takes on a busy machine, but not for ever.
    until, started, killed = time.time() + SECONDS, 0, 0
    last = until + 120

    def start() -> Any:
        nonlocal started
        started += 1
        arguments = (path, started, log, tmp_path / f"error{started}", stop, last)
        process = context.Process(target=_work, args=arguments)
        process.start()
        return process

    running = [start() for _ in range(PROCESSES)]
    while time.time() < until or (killed <= 10 and time.time() < last):
        time.sleep(chance.uniform(0, 0.05))
        at = chance.randrange(PROCESSES)
        if running[at].is_alive():
            os.kill(running[at].pid, signal.SIGKILL)
        for at, process in enumerate(running):
            if not process.is_alive():
                process.join()
                killed += process.exitcode in (-signal.SIGKILL, -signal.SIGALRM)
                running[at] = start()
    stop.touch()
    for process in running:
        process.join()
    assert killed > 10
    errors = [error.read_text() for error in sorted(tmp_path.glob("error*"))]
    assert not errors, errors[0]

    won = log.read_text().split("\n")[:-1]
    for what, names in (("item", ITEMS), ("array", SHARED)):
        lasting = [f"{what} {n}" for n in range(names) if not _passing(n)]
        assert all(won.count(name) <= 1 for name in lasting), "a name that nobody deleted had two winners"
        assert sum(won.count(name) for name in lasting) > len(lasting) / 2

    # As it is, whoever was killed: all that is there can be read.
    for item in jbof.DataSet(path).all_items():
        for name, array in item.all_arrays():
            n = int(name[1:]) if item.name == "shared" else int(item.name[4:])
            np.testing.assert_array_equal(array, _values(n, name))
    _finish(jbof.DataSet(path, readonly=False))
    serial = jbof.create_dataset(tmp_path / "serial")
    serial.add_item("shared")
    _finish(serial)
    assert jbof.DataSet(path).calculate_hash() == serial.calculate_hash()
    if reference is not None:
        # It hashes every file that lies in an item: nothing is left over.
        assert reference.DataSet(path).calculate_hash() == serial.calculate_hash()
        assert sorted(i.name for i in reference.DataSet(path).all_items()) == sorted(i.name for i in serial.all_items())
