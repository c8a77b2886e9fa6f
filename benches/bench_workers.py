"""Writing from two processes beside one, in one run, alternating: `write_multiprocessing` and a filler in this process.

    python benches/bench_workers.py [--examples 2048] [--repeat 5]

Examples are traces, float16[80000], smooth and noisy, half of them to each process. Rates are of the bytes handed in, over the
whole call: starting the processes, flushing and merging included. A filler of one thread does what one process of the two
does; one of two threads is the other way to use two processors.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sigbank.sedpack.io import Attribute, Dataset, DatasetFiller, DatasetStructure, Metadata

POINTS = 80_000
# The least ratio to a filler of one thread.
TARGETS = {"GZIP": 1.8, "ZSTD": 1.8, "LZ4": None, "": None}


@cache
def traces() -> list[Any]:
    """Different traces, to be written over and over."""
    rng = np.random.default_rng(7)
    base = np.sin(np.linspace(0, 400 * np.pi, POINTS, dtype=np.float32))
    noise = rng.standard_normal(1 << 20, dtype=np.float32) * np.float32(0.02)
    return [(base + noise[at : at + POINTS]).astype(np.float16) for at in rng.integers(0, len(noise) - POINTS, 64)]


def feed(filler: DatasetFiller, start: int, stop: int) -> None:
    made = traces()
    with filler:
        for number in range(start, stop):
            filler.write_example({"trace": made[number % len(made)]}, "train")


def create(path: Path, compression: str) -> Dataset:
    attribute = Attribute(name="trace", dtype="float16", shape=(POINTS,))
    structure = DatasetStructure(saved_data_description=[attribute], compression=compression, examples_per_shard=64)
    return Dataset.create(path, Metadata(), structure)


def timed(run: Callable[[Dataset], None], path: Path, compression: str) -> float:
    dataset = create(path, compression)
    begin = time.perf_counter()
    run(dataset)
    seconds = time.perf_counter() - begin
    shutil.rmtree(path)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=2048)
    parser.add_argument("--repeat", type=int, default=5)
    given, _ = parser.parse_known_args()
    count: int = given.examples
    traces()

    def processes(dataset: Dataset) -> None:
        halves = [(0, count // 2), (count // 2, count)]
        dataset.write_multiprocessing(feed_writer=feed, custom_arguments=halves, consistency_check=False)

    ways: dict[str, Callable[[Dataset], None]] = {
        "one thread": lambda dataset: feed(dataset.filler(concurrency=1), 0, count),
        "two threads": lambda dataset: feed(dataset.filler(concurrency=2), 0, count),
        "two processes": processes,
    }
    for compression, target in TARGETS.items():
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            for _ in range(given.repeat):
                for name, run in ways.items():
                    seconds[name].append(timed(run, Path(folder) / "dataset", compression))
        rates = {name: count * POINTS * 2 / statistics.median(all_seconds) / 1e9 for name, all_seconds in seconds.items()}
        ratios = sorted(a / b for a, b in zip(seconds["one thread"], seconds["two processes"], strict=True))
        ratio = statistics.median(ratios)
        text = f"workers {compression or 'none':5}" + "".join(f"  {name} {rate:6.3f} GB/s" for name, rate in rates.items())
        text += f"  two processes to one thread {ratio:.2f} [{ratios[0]:.2f}..{ratios[-1]:.2f}]"
        print(text + ("" if target is None else f" (at least {target:g})  {'ok' if ratio >= target else 'BELOW'}"), flush=True)


if __name__ == "__main__":
    main()
