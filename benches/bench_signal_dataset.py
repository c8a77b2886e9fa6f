"""`sigbank.signal_dataset` beside the reference package, in one run, alternating; both read one dataset that the reference wrote.

    python benches/bench_signal_dataset.py
    python benches/bench_signal_dataset.py large --repetitions 9

`small`: 20,000 records of one complex64 field [2, 128]; `large`: 800 of [4, 4096], compressible about 2:1. Each figure is records a
second; a ratio is the median of the ratios of runs that followed each other, with the lowest and highest. Every array that is
handed out is touched once.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

COUNTS = {"small": 20_000, "large": 800}
SHAPES = {"small": (2, 128), "large": (4, 4_096)}
NAMES = {"reference": "signal_dataset", "ours": "sigbank.signal_dataset"}
# The least ratio to the reference
AIMS = {
    "small": {"[i]": 20, "getitems": 8, "iter": 8, "iter metadata": 6, "metadata[i]": 20, "write": 5},
    "large": {"[i]": 2.5, "getitems": 3, "iter": 3, "write": 2},
}


def records(package: Any, data: str) -> Iterator[Any]:
    shape, rng = SHAPES[data], np.random.default_rng(5)
    for number in range(COUNTS[data]):
        samples = np.round(rng.standard_normal((*shape, 2)) * 200).astype(np.float32).view(np.complex64)[..., 0]
        time_axis = package.Axis("time", shape[1], coordinate=package.Coordinate(start=0, step=1e-6, unit="s"))
        axes = (package.Axis("channel", shape[0]), time_axis)
        yield package.Record(f"r{number}", {"iq": package.Field(samples, axes)}, metadata={"sample_rate": 1e6, "n": number})


def touch(record: Any) -> int:
    record["iq"].data.view(np.uint64).sum()
    return 1


def ways(package: Any, root: Path, data: str) -> dict[str, Callable[[], int]]:
    dataset = package.open(str(root))
    rng = np.random.default_rng(1)
    some = rng.integers(0, len(dataset), 300 if data == "small" else 100).tolist()
    groups = [rng.integers(0, len(dataset), 64).tolist() for _ in range(10 if data == "small" else 4)]
    made = list(records(package, data))

    def write() -> int:
        with tempfile.TemporaryDirectory(dir=root.parent) as folder:
            package.write_shard(iter(made), folder, work_id="worker", attempt=0)
        return len(made)

    return {
        "[i]": lambda: sum(touch(dataset[i]) for i in some),
        "getitems": lambda: sum(touch(r) for group in groups for r in dataset.__getitems__(group)),
        "iter": lambda: sum(map(touch, dataset.iter_records())),
        "iter metadata": lambda: sum(1 for _ in dataset.iter_record_metadata()),
        "metadata[i]": lambda: sum(1 for i in some if dataset.record_metadata[i].id),
        "write": write,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", help="small, large; both by default")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    packages = {name: importlib.import_module(module) for name, module in NAMES.items()}
    for data in options.data or COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "dataset"
            reference = packages["reference"]
            shard = reference.write_shard(records(reference, data), str(root), work_id="worker", attempt=0)
            reference.publish(str(root), [shard], dataset_id="bench", snapshot_id="v1")
            run = {name: ways(package, root, data) for name, package in packages.items()}
            for what in run["ours"]:
                rates: dict[str, list[float]] = {name: [] for name in run}
                for repetition in range(-1, options.repetitions):
                    for name in list(run) if repetition % 2 else list(run)[::-1]:
                        start = time.perf_counter()
                        count = run[name][what]()
                        if repetition >= 0:
                            rates[name].append(count / (time.perf_counter() - start))
                ratios = sorted(a / b for a, b in zip(rates["ours"], rates["reference"], strict=True))
                median = {name: statistics.median(found) for name, found in rates.items()}
                aim = AIMS[data].get(what)
                text = f"{data:5} {what:13} reference {median['reference']:9.0f}/s  ours {median['ours']:9.0f}/s"
                text += f"  ratio {statistics.median(ratios):6.2f} [{ratios[0]:.2f}..{ratios[-1]:.2f}]"
                print(text + (f" (aim {aim:g})" if aim else ""), flush=True)


if __name__ == "__main__":
    main()
