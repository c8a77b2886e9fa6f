"""Kills one of several processes that write one dataset, at random instants, and looks at what is left each time.

    python scripts/kill_many.py TIMES [SEED]

By turns: one of three fillers of the default path, a custom worker (which is run again from its beginning), a coordinator that
merges (and is run again with the same infos), a coordinator or a process of `write_multiprocessing`. After every kill the
dataset opens and every listed shard verifies; what was finished is there, nothing is there twice or altered; what is merged in
one step is there wholly or not at all.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from kill import content, create, indices

from sigbank.sedpack import Dataset, DatasetFiller
from sigbank.sedpack.io.shard_file_metadata import ShardListInfo

SPLITS = ("train", "test")


def put(filler, number):
    filler.write_example({"index": number, "data": content(number)}, split=SPLITS[number % 2])


def say(word):
    os.write(1, f"{word}\n".encode())


def sessions(path, first, count):
    """Ten sessions of a filler of the default path."""
    first, count = int(first), int(count)
    for start in range(first, first + 10 * count, count):
        with Dataset(path).filler(concurrency=1) as filler:
            for number in range(start, start + count):
                put(filler, number)
        say(start + count)


def work(path, own, first, count):
    """A worker with a path of its own: its infos."""
    first, count = int(first), int(count)
    filler = DatasetFiller(Dataset(path), 1, Path(own))
    with filler:
        for number in range(first, first + count):
            put(filler, number)
    return [json.loads(info.model_dump_json()) for info in filler.get_updated_infos()]


def merge(path, infos):
    infos = [ShardListInfo.model_validate(info) for info in json.loads(infos)]
    dataset = Dataset(path)
    dataset.write_config(updated_infos=infos)


def feed(filler, first, count):
    with filler:
        for number in range(first, first + count):
            put(filler, number)


def pool(path, first, calls, count):
    """`write_multiprocessing` with some calls."""
    first, calls, count = int(first), int(calls), int(count)
    arguments = [(first + n * count, count) for n in range(calls)]
    Dataset(path).write_multiprocessing(feed_writer=feed, custom_arguments=arguments, consistency_check=False)


def start(*arguments):
    command = [sys.executable, __file__, *map(str, arguments)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    return child


def children(process):
    """Processes that a process started."""
    try:
        return [int(p) for p in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except FileNotFoundError:
        return []


def ended(processes):
    """Waits for processes that are not our children."""
    limit = time.monotonic() + 30
    while any(Path(f"/proc/{p}").exists() and "\nState:\tZ" not in status(p) for p in processes):
        if time.monotonic() > limit:
            raise SystemExit(f"the processes {processes} outlive the one that started them")
        time.sleep(0.01)


def status(process):
    try:
        return Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return ""


class Run:
    """One dataset and what is known to be in it."""

    def __init__(self, path, seed):
        self.path, self.chance, self.known, self.next, self.killed = path, random.Random(seed), set(), 0, 0
        create(path)

    def numbers(self, count):
        self.next += count
        return self.next - count

    def read(self):
        dataset = Dataset(self.path)
        dataset.check(show_progressbar=False)
        there = [number for split in dataset.dataset_info.splits for number in indices(dataset, split)]
        if len(set(there)) != len(there):
            raise SystemExit(f"{len(there) - len(set(there))} examples are there twice")
        return set(there)

    def look(self, name, must, may=()):
        """Reads all: what was there, what must be there now, and any of the groups in `may`, each wholly or not at all."""
        there = self.read()
        for what, wanted in (("earlier examples", self.known), ("finished examples", must)):
            if missing := sorted(set(wanted) - there):
                raise SystemExit(f"{name}: {len(missing)} {what} are missing, {missing[0]} first")
        more = there - self.known - set(must)
        for group in map(set, may):
            if more & group and group - there:
                raise SystemExit(f"{name}: {len(more & group)} of {len(group)} examples that belong together")
            more -= group
        if more:
            raise SystemExit(f"{name}: {len(more)} examples that should not be there, {min(more)} first")
        self.known = there

    def kill(self, child, longest, process=None):
        time.sleep(self.chance.uniform(0, longest))
        try:
            os.kill(process or child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        out, err = child.communicate()
        self.killed += child.returncode != 0
        if child.returncode not in (0, -signal.SIGKILL) and not process:
            raise SystemExit(f"a process failed by itself: {err}")
        return out, err

    def fillers(self):
        count = self.chance.randrange(1, 60)
        firsts = [self.numbers(10 * count) for _ in range(3)]
        victim, *others = [start("sessions", self.path, first, count) for first in firsts]
        out, _ = self.kill(victim, 0.4)
        for other in others:
            if (failed := other.communicate()[1]) or other.returncode:
                raise SystemExit(f"a filler beside the killed one failed: {failed}")
        done = int(out.split()[-1]) if out.split() else firsts[0]
        finished = [*range(firsts[0], done), *(n for first in firsts[1:] for n in range(first, first + 10 * count))]
        # Of the session that was cut off, whole shards may be there: other fillers adopt them.
        self.look("fillers", finished, [[n] for n in range(done, firsts[0] + 10 * count)])
        with Dataset(self.path).filler(concurrency=1):
            pass
        self.look("adoption", [], [[n] for n in range(done, firsts[0] + 10 * count)])

    def custom(self):
        own, count = self.chance.choice(["w", "w/x", f"job/{self.next}"]), self.chance.randrange(1, 300)
        first = self.numbers(count)
        self.kill(start("work", self.path, own, first, count), 0.1)
        self.look("custom worker", [])
        infos = work(self.path, own, first, count)
        merge(self.path, json.dumps(infos))
        self.look("worker run again", range(first, first + count))

    def merging(self):
        count = 20
        firsts = [self.numbers(count) for _ in range(5)]
        owns = ("a", "a/b", f"c{self.next}", f"d/{self.next}", "a")
        infos = [info for own, first in zip(owns, firsts) for info in work(self.path, own, first, count)]
        everything = [n for first in firsts for n in range(first, first + count)]
        self.kill(start("merge", self.path, json.dumps(infos)), 0.03)
        self.look("merging", [], [everything])
        for _ in range(2):
            merge(self.path, json.dumps(infos))
            self.look("merged again", everything)

    def pools(self):
        calls, count = 3, self.chance.randrange(20, 200)
        first = self.numbers(calls * count)
        coordinator = start("pool", self.path, first, calls, count)
        time.sleep(self.chance.uniform(0, 0.15))
        workers = children(coordinator.pid)
        process = self.chance.choice([None, *workers])
        _, err = self.kill(coordinator, 0.1, process)
        if process and coordinator.returncode and "was killed by signal 9 before call" not in err:
            raise SystemExit(f"another message than of a killed process: {err}")
        ended(workers)
        everything = range(first, first + calls * count)
        self.look("write_multiprocessing", everything if coordinator.returncode == 0 else [], [everything])


def main(times, seed):
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = Run(str(Path(folder) / "dataset"), seed)
        turns = [run.fillers, run.custom, run.merging, run.pools]
        for number in range(times):
            turns[number % 4]()
            if (number + 1) % 10 == 0:
                print(f"{number + 1} kills among several: {len(run.known)} examples", flush=True)
        import sedpack.io as reference

        dataset = reference.Dataset(Path(run.path))
        dataset.check(show_progressbar=False)
        seen = [int(e["index"]) for split in SPLITS for e in dataset.as_numpy_iterator(split=split, repeat=False, shuffle=0)]
        if sorted(seen) != sorted(run.known):
            raise SystemExit("the reference package reads other examples than we do")
    print(f"ok: {times} kills among several (seed {seed}), {run.killed} of them of a process at work; {len(run.known)} examples verified")


if __name__ == "__main__":
    actions = {"sessions": sessions, "work": work, "merge": merge, "pool": pool}
    if sys.argv[1] in actions:
        warnings.simplefilter("ignore")
        say("ready")
        actions[sys.argv[1]](*sys.argv[2:])
    else:
        main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
