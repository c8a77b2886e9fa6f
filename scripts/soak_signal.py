"""Real processes write, publish, read and annotate signal-datasets, and are killed at random instants.

    python scripts/soak_signal.py ROUNDS [--workers 40] [--at-once 8] [--root ROOT] [--seed 0]

A round: workers write a shard each, a third of them is killed and retried, most with a higher attempt; a coordinator publishes, is
killed and run again until it is done, while a reader opens the dataset again and again and sees none, or the complete one, each
record of it compared. Then two coordinators publish different snapshots to one root, at once, or one after the other was killed:
exactly one wins, the other is told so. Then eight processes publish an annotation set each, some killed and run again: all sets
are in the catalog. At the end of each the reference package reads every record, and `sigbank check` finds nothing.

ROOT may be an address such as s3://bucket/prefix, whose options both packages take from the environment. Nothing is removed there.
"""

import argparse
import base64
import collections
import hashlib
import json
import os
import pickle
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import sigbank.signal_dataset as ours

ANNOTATORS = 8


# Roots are used by these functions only: a folder or an address.


def place(base: str, name: str) -> str:
    return f"{base.rstrip('/')}/{name}"


def remove(root: str) -> None:
    if "://" not in root:
        shutil.rmtree(root)


def left(root: str) -> str:
    """How far a publication is that was cut off."""
    if "://" in root:
        return "cut off"
    for name, what in (("root.json", "root"), ("snapshots/*/snapshot.json", "snapshot"), ("manifests/*/*.json", "manifest")):
        if list(Path(root).glob(name)):
            return what
    return "nothing"


# What is written is told by its name alone.


def record(m: Any, work: str, attempt: int, index: int) -> Any:
    rng = np.random.default_rng(list(f"{work} {attempt} {index}".encode()))
    length = int(rng.integers(0, 60))
    data = rng.integers(-500, 500, (2, length, 2)).astype("f4").view("c8")[..., 0]
    field = m.Field(data, (m.Axis("channel", 2), m.Axis("time", length, coordinate=m.Coordinate(start=0, step=1e-6, unit="s"))))
    return m.Record(f"{work}-{index}", {"iq": field}, metadata={"attempt": attempt, "index": index})


def digest(one: Any) -> str:
    field = one["iq"]
    axes = [(axis.name, axis.length) for axis in field.axes]
    said = (one.id, one.metadata["attempt"], one.metadata["index"], str(field.data.dtype), field.data.shape, axes)
    return hashlib.sha256(repr(said).encode() + field.data.tobytes()).hexdigest()[:16]


def digests(shards: Iterable[Any]) -> list[str]:
    """Those of a dataset of these shards."""
    chosen: dict[str, Any] = {}
    for shard in shards:
        best = chosen.setdefault(shard.work_id, shard)
        chosen[shard.work_id] = max(best, shard, key=lambda one: one.attempt)
    inside = [chosen[work] for work in sorted(chosen)]
    return [digest(record(ours, s.work_id, s.attempt, i)) for s in inside for i in range(s.record_count)]


# The processes. Each is told its job on standard input, says "ready", and begins at the next line.


def say(word: object) -> None:
    os.write(1, f"{word}\n".encode())


def worker(job: dict[str, Any]) -> None:
    def records() -> Iterator[Any]:
        for index in range(job["count"]):
            if index % 8 == 0:
                time.sleep(job["pause"])
            yield record(ours, job["work"], job["attempt"], index)

    shard = ours.write_shard(records(), job["root"], work_id=job["work"], attempt=job["attempt"])
    say(base64.b64encode(pickle.dumps(shard)).decode())


def coordinator(job: dict[str, Any]) -> None:
    shards = pickle.loads(base64.b64decode(job["shards"]))
    options = ours.PublicationOptions(shards_per_manifest=job["per_page"])
    works = sorted({shard.work_id for shard in shards})
    try:
        dataset = ours.publish(
            job["root"],
            shards,
            dataset_id=job["dataset_id"],
            snapshot_id=job["snapshot_id"],
            expected_work_ids=works,
            publication_options=options,
        )
        say(f"published {len(dataset)}")
    except ours.PublicationCollisionError:
        say("collision")


def reader(job: dict[str, Any]) -> None:
    """Looks again and again until a line comes: what may be there is one of the lists of digests, and stays."""
    absent = complete = 0
    known, stop = None, False
    while not stop:
        stop = bool(select.select([0], [], [], 0)[0])
        try:
            dataset = ours.open(job["root"])
        except FileNotFoundError:
            if known is not None:
                raise SystemExit("a dataset that was there is gone") from None
            absent += 1
            continue
        found = [digest(one) for one in dataset]
        if found not in job["allowed"] or (known is not None and found != known):
            raise SystemExit(f"a dataset of {len(found)} records that is none of those published")
        some = complete % len(found)
        if digest(dataset[some]) != found[some] or dataset.record_metadata[some].metadata["index"] != dataset[some].metadata["index"]:
            raise SystemExit(f"record {some} reads otherwise alone")
        known, complete = found, complete + 1
    say(f"{absent} {complete}")


def annotator(job: dict[str, Any]) -> None:
    dataset = ours.open(job["root"])
    options = ours.AnnotationOptions(publication_id=job["id"], records_per_shard=job["per_shard"])
    try:
        ours.publish_annotations(dataset, job["name"], rows_of(ours, dataset, job["id"]), options=options)
        say("published")
    except ours.PublicationCollisionError:
        say("collision")


def rows_of(m: Any, dataset: Any, by: str) -> Iterator[Any]:
    for index, one in enumerate(dataset.iter_record_metadata()):
        yield m.AnnotationRecord(one.id, index, m.AnnotationStatus.SUCCESS, values={"by": by, "index": index})


ROLES = {"worker": worker, "coordinator": coordinator, "reader": reader, "annotator": annotator}


class Process:
    """A process of one of the roles. It starts in the background; one that is never told to go ends with this."""

    def __init__(self, role: str, **job: Any) -> None:
        self.name = f"{role} {job.get('work', job.get('snapshot_id', job.get('name', '')))}"
        command = [sys.executable, __file__, role]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.line(json.dumps(job))

    def line(self, text: str) -> "Process":
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            # It failed: end tells how.
            self.end()
        return self

    def go(self) -> "Process":
        assert self.process.stdout is not None
        if self.process.stdout.readline() != "ready\n":
            self.end()
        self.began = time.monotonic()
        return self.line("go")

    def kill(self, after: float) -> str | None:
        """Kills it: what it said, none where it was cut off."""
        time.sleep(after)
        self.process.send_signal(signal.SIGKILL)
        return self.end() or None

    def end(self) -> str:
        out, err = self.process.communicate(timeout=300)
        if self.process.returncode not in (0, -signal.SIGKILL):
            raise SystemExit(f"the {self.name} failed with {self.process.returncode}: {err}")
        return out.strip()


class Soak:
    def __init__(self, base: str, workers: int, at_once: int, seed: int) -> None:
        self.base, self.workers, self.at_once, self.seed = base, workers, at_once, seed
        self.chance = random.Random(seed)
        self.counts: collections.Counter[str] = collections.Counter()
        # About how long these take; kills fall within.
        self.seconds = {"worker": 0.1, "coordinator": 0.05, "annotator": 0.05}

    def instant(self, role: str) -> float:
        """When to kill, seconds from its start: often early, since most of the time goes into flushing."""
        return self.chance.uniform(0, self.chance.choice([0.1, 1.2]) * self.seconds[role])

    def took(self, role: str, process: Process) -> None:
        self.seconds[role] += 0.1 * (time.monotonic() - process.began - self.seconds[role])

    def write(self, root: str, work: str, counts: range, chance: random.Random) -> list[Any]:
        """What one worker hands to the coordinator, with whatever kills and retries."""
        shards, attempt = [], 0
        kills = chance.choice([1, 1, 2]) if chance.random() < 1 / 3 else 0
        while True:
            # A retry as the same attempt has the same records.
            count = random.Random(f"{self.seed} {work} {attempt}").choice(counts)
            job = {"root": root, "work": work, "attempt": attempt, "count": count, "pause": chance.choice([0, 0.002])}
            process = Process("worker", **job).go()
            said = process.kill(chance.uniform(0, 0.6 * self.seconds["worker"])) if kills else process.end()
            if said:
                # Finished all the same: such a shard is handed over too.
                shards.append(pickle.loads(base64.b64decode(said)))
            if not kills:
                self.took("worker", process)
                return shards
            self.counts["workers killed"] += said is None
            self.counts["attempts given up that had finished"] += said is not None
            kills -= 1
            attempt += chance.random() < 0.8

    def publish(self, root: str, shards: list[Any]) -> None:
        """A coordinator, killed and run again until it is done, beside a reader."""
        expected = digests(shards)
        watching = Process("reader", root=root, allowed=[expected]).go()
        job = {
            "root": root,
            "shards": base64.b64encode(pickle.dumps(shards)).decode(),
            "dataset_id": "soak",
            "snapshot_id": "v1",
            "per_page": self.chance.choice([3, 10_000]),
        }
        *victims, last, again = [Process("coordinator", **job) for _ in range(self.chance.choice([3, 4]))]
        done = None
        for victim in victims:
            # One that is not needed any more ends by itself.
            if done:
                victim.end()
                continue
            done = victim.go().kill(self.instant("coordinator"))
            self.counts[f"publications cut off: {left(root)} there"] += done is None
        for process in (last, again):
            # To do it once more is to find it complete.
            said = process.go().end()
            self.took("coordinator", process)
            self.same(said, f"published {len(expected)}")
        absent, complete = map(int, watching.line("stop").end().split())
        self.counts["looks: no dataset"] += absent
        self.counts["looks: the complete one"] += complete
        if not absent or not complete:
            raise SystemExit(f"the reader looked too seldom: {absent} times before, {complete} times after")
        self.read(root, expected)

    def race(self, root: str, shards: list[Any]) -> None:
        """Two coordinators of different snapshots."""
        other = self.chance.choice([{"snapshot_id": "v2"}, {"dataset_id": "other"}, {}])
        # The same names for other shards, by turns with the same first page and without.
        part = shards if other else self.chance.choice([shards[1:], shards[:-1], shards[:1]])
        jobs: list[dict[str, Any]] = [
            {"root": root, "dataset_id": "soak", "snapshot_id": "v1", "per_page": 1, **more, "shards": given}
            for more, given in (({}, shards), (other, part))
        ]
        self.chance.shuffle(jobs)
        allowed = [digests(job["shards"]) for job in jobs]
        for job in jobs:
            job["shards"] = base64.b64encode(pickle.dumps(job["shards"])).decode()
        watching = Process("reader", root=root, allowed=allowed).go()
        first, second = (Process("coordinator", **job) for job in jobs)
        if self.chance.random() < 0.5:
            first.go()
            time.sleep(max(0, self.chance.uniform(-1, 1)) * self.seconds["coordinator"])
            second.go()
            said = [first.end(), second.end()]
        else:
            rerun = Process("coordinator", **jobs[0])
            cut = first.go().kill(self.instant("coordinator"))
            self.counts["races after a kill"] += cut is None
            said = ["", second.go().end()]
            said[0] = rerun.go().end()
        won = [i for i, expected in enumerate(allowed) if said[i] == f"published {len(expected)}"]
        if len(won) != 1 or said[1 - won[0]] != "collision":
            raise SystemExit(f"of two coordinators one wins, the other collides, but: {said}")
        self.counts[f"races won by the {'second' if won[0] else 'first'}"] += 1
        watching.line("stop").end()
        self.read(root, allowed[won[0]])

    def annotate(self, root: str) -> None:
        """Sets published at once, two of them under one name."""
        jobs: list[dict[str, Any]] = [{"root": root, "name": f"set{n}", "id": f"p{n}", "per_shard": 7} for n in range(ANNOTATORS)]
        rivals = [{**jobs[0], "name": "rivals", "id": f"q{n}"} for n in range(2)]
        victims = self.chance.sample(range(ANNOTATORS), 2)
        processes = [Process("annotator", **job) for job in jobs + rivals]
        reruns = [Process("annotator", **jobs[n]) for n in victims]
        for process in processes:
            process.go()
        for n in victims:
            cut = processes[n].kill(self.chance.uniform(0, 0.5 * self.seconds["annotator"]))
            self.counts["annotators killed"] += cut is None
        said = [process.end() for n, process in enumerate(processes) if n not in victims]
        self.took("annotator", processes[-1])
        said += [process.go().end() for process in reruns]
        if sorted(said) != ["collision", *["published"] * (ANNOTATORS + 1)]:
            raise SystemExit(f"annotating: {said}")
        import signal_dataset as reference

        names = [*(job["name"] for job in jobs), "rivals"]
        for m in (ours, reference):
            dataset = m.open(root)
            catalog, ids = dataset.annotations, [one.id for one in dataset.iter_record_metadata()]
            self.same(sorted(catalog), sorted(names))
            for name in names:
                by = catalog[name].publication_id
                self.same(by in ("q0", "q1") if name == "rivals" else by == name.replace("set", "p"), True)
                rows = [(row.source_record_id, row.source_index, row.values["by"], row.values["index"]) for row in catalog[name]]
                self.same(rows, [(one, n, by, n) for n, one in enumerate(ids)])
        self.check(root)

    def read(self, root: str, expected: list[str]) -> None:
        import signal_dataset as reference

        dataset = reference.open(root)
        self.same([digest(one) for one in dataset], expected)
        self.same([one.metadata["index"] for one in dataset.iter_record_metadata()], [one.metadata["index"] for one in ours.open(root)])
        self.check(root)
        self.counts["records read by the reference package"] += len(expected)

    def check(self, root: str) -> None:
        done = subprocess.run([sys.executable, "-m", "sigbank._cli", "check", root], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"sigbank check: {done.stdout}{done.stderr}")

    def same(self, found: object, expected: object) -> None:
        if found != expected:
            raise SystemExit(f"found {str(found)[:300]}, where {str(expected)[:300]} is expected")

    def round(self, number: int) -> None:
        root = place(self.base, f"round-{number}")
        stories = [(f"w{number}.{n:02}", random.Random(f"{self.seed} {number} {n}")) for n in range(self.workers)]
        with ThreadPoolExecutor(self.at_once) as pool:
            running = [pool.submit(self.write, root, work, range(1, 60), chance) for work, chance in stories]
            shards = [shard for one in running for shard in one.result()]
        self.counts["shards"] += len(shards)
        self.chance.shuffle(shards)
        self.publish(root, shards)
        remove(root)
        root = place(self.base, f"race-{number}")
        few = [self.written(root, f"r{number}.{n}") for n in range(4)]
        self.race(root, few)
        self.annotate(root)
        remove(root)

    def written(self, root: str, work: str) -> Any:
        return ours.write_shard([record(ours, work, 0, i) for i in range(self.chance.randrange(1, 9))], root, work_id=work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=int)
    parser.add_argument("--workers", type=int, default=40, help="processes that write a shard each")
    parser.add_argument("--at-once", type=int, default=8, help="most of them at a time")
    parser.add_argument("--root", help="a folder or an address; by default a temporary folder")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(options.root or folder, options.workers, options.at_once, options.seed)
        for number in range(options.rounds):
            soak.round(number)
            if (number + 1) % 10 == 0:
                print(f"{number + 1} rounds", flush=True)
    for what, count in sorted((+soak.counts).items()):
        print(f"{count:8} {what}")
    print(f"ok: {options.rounds} rounds of {options.workers} workers (seed {options.seed})")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in ROLES:
        # Unbuffered: a reader asks whether a line waits.
        with open(0, "rb", buffering=0, closefd=False) as lines:
            job = json.loads(lines.readline())
            say("ready")
            if lines.readline():
                ROLES[sys.argv[1]](job)
    else:
        main()
