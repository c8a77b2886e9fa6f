"""Kills a filling process at random instants, many times over one dataset, and looks at what is left each time.

    python scripts/kill.py TIMES [SEED]

After every kill: the dataset opens, every listed shard verifies, what a finished session wrote is there, of a session cut off
nothing is missing but the shards that were open or being written, no example is there twice or altered, and filling goes on.
At the end the reference package checks and reads the same dataset.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import sigbank.sedpack as sigbank_sedpack

PER_SHARD = 16
THREADS = 2
# One shard is open in the filler; what it has closed waits in a bounded queue or is being written.
UNFINISHED = PER_SHARD * (1 + 4 * THREADS)


def content(index):
    """The values of an example, told by its number alone."""
    return np.random.default_rng(index).integers(0, 256, 1000).astype(np.uint8)


def fill(path, first):
    """Fills in short sessions until killed, and says after each step how far it is."""

    def say(word, index):
        os.write(1, f"{word} {index}\n".encode())

    index = int(first)
    lengths = random.Random(index)
    say("ready", index)
    while True:
        with sigbank_sedpack.Dataset(path).filler(concurrency=THREADS) as filler:
            for _ in range(lengths.randrange(1, 400)):
                filler.write_example({"index": index, "data": content(index)}, split=("train", "test")[index % 2])
                index += 1
                say("wrote", index)
        say("committed", index)


def create(path):
    attribute = sigbank_sedpack.Attribute
    structure = sigbank_sedpack.DatasetStructure(
        saved_data_description=[attribute(name="index", dtype="int", shape=()), attribute(name="data", dtype="uint8", shape=(1000,))],
        compression="LZ4",
        examples_per_shard=PER_SHARD,
    )
    sigbank_sedpack.Dataset.create(path, sigbank_sedpack.Metadata(description="kills"), structure)


def indices(dataset, split):
    """The numbers of all examples of a split, their contents compared."""
    found = []
    for example in dataset.as_numpy_iterator(split=split, repeat=False, shuffle=0):
        number = int(example["index"])
        if not np.array_equal(example["data"], content(number)):
            raise SystemExit(f"example {number} of {split} is altered")
        found.append(number)
    return found


def look(path, before, first, committed, written):
    """What a dataset holds after a kill, or why that is wrong."""
    dataset = sigbank_sedpack.Dataset(path)
    dataset.check(show_progressbar=False)
    # The next filler adopts the finished shards of the one that was killed.
    with dataset.filler(concurrency=1):
        pass
    dataset = sigbank_sedpack.Dataset(path)
    dataset.check(show_progressbar=False)
    there = []
    for split in ("train", "test"):
        try:
            there += indices(dataset, split)
        except KeyError:
            # Killed before the split's first commit.
            continue
    known = set(there)
    if len(known) != len(there):
        raise SystemExit(f"{len(there) - len(known)} examples are there twice")
    lost = [i for i in before if i not in known]
    if lost:
        raise SystemExit(f"{len(lost)} examples of earlier sessions are gone, {lost[0]} first")
    gone = [i for i in range(first, committed) if i not in known]
    if gone:
        raise SystemExit(f"{len(gone)} committed examples are missing, {gone[0]} first")
    missing = [i for i in range(first, written) if i not in known]
    # Each of the two splits has an open shard.
    if len(missing) > UNFINISHED + PER_SHARD:
        raise SystemExit(f"{len(missing)} examples are missing, where {UNFINISHED + PER_SHARD} can have been in open shards")
    return known, len(missing)


def kill_once(path, first, delay):
    """Lets a process fill for `delay` seconds: how far it had committed and written."""
    child = subprocess.Popen([sys.executable, __file__, "fill", path, str(first)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(delay)
    child.send_signal(signal.SIGKILL)
    said = child.stdout.read().decode().split("\n")[:-1]
    child.wait()
    if child.returncode != -signal.SIGKILL:
        raise SystemExit(f"the filling process ended by itself with {child.returncode}")
    committed = written = first
    for line in said:
        word, number = line.split()
        written = int(number)
        if word == "committed":
            committed = written
    return committed, written


def main(times, seed):
    chance = random.Random(seed)
    missing_in_all = kills_in_session = 0
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "dataset")
        create(path)
        known, first = set(), 0
        for round_number in range(times):
            committed, written = kill_once(path, first, chance.uniform(0, 0.25))
            known, missing = look(path, known, first, committed, written)
            missing_in_all += missing
            kills_in_session += written > committed
            # A number is never used again, so that a shard adopted late would be seen.
            first = max(written + 1, max(known, default=0) + 1)
            if (round_number + 1) % 10 == 0:
                print(f"{round_number + 1} kills: {len(known)} examples, {missing_in_all} lost with open shards", flush=True)
        import sedpack.io as reference

        dataset = reference.Dataset(Path(path))
        dataset.check(show_progressbar=False)
        seen = {int(e["index"]) for split in ("train", "test") for e in dataset.as_numpy_iterator(split=split, repeat=False, shuffle=0)}
        if seen != known:
            raise SystemExit("the reference package reads other examples than we do")
    print(f"ok: {times} kills (seed {seed}), {kills_in_session} of them within a session; {len(known)} examples verified, {missing_in_all} lost")


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        fill(sys.argv[2], sys.argv[3])
    else:
        main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
