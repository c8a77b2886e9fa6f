"""`sigbank.signal_dataset` beside the reference package, in one run, alternating; both read one dataset that the reference wrote.

    python benches/bench_signal_dataset.py                                 all, at full scale
    python benches/bench_signal_dataset.py small memory --records 2000 --repetitions 3

`small`: 100,000 records of one complex64 field [2, 128]; `large`: 4,000 of [4, 4096], compressible about 2:1. Each figure is records a
second; a ratio is the median of the ratios of runs that followed each other, with the lowest and highest. Every array that is
handed out is touched once. `of the codec` is to plain zstd, in as many threads, on the same records; `of array_record` is to that
package reading the same file.

`memory`: how much more a process holds at most than before it began, by `iter_records` over the large dataset, and over few and many
shards. `open`: the time, and the read calls of the process, to open datasets of few and many records and shards and to read one record.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

COUNTS = {"small": 100_000, "large": 4_000}
SHAPES = {"small": (2, 128), "large": (4, 4_096)}
NAMES = {"reference": "signal_dataset", "ours": "sigbank.signal_dataset"}
# The least ratio to the reference
AIMS = {
    "small": {"[i]": 20, "getitems": 8, "iter": 8, "iter metadata": 6, "metadata[i]": 20, "write": 5},
    "large": {"[i]": 2.5, "getitems": 3, "iter": 3, "write": 2},
}
CODEC_AIM, MEMORY_AIM = 0.75, 64
# The threads that each measurement is given
THREADS = {"[i]": 1, "getitems": 2, "iter": 2, "write": 2}
DISTINCT = 64


def records(package: Any, data: str, count: int) -> Iterator[Any]:
    """Records whose samples are those of 64 that differ: each is compressed by itself, so that nothing gains by it."""
    shape, rng = SHAPES[data], np.random.default_rng(5)
    time_axis = package.Axis("time", shape[1], coordinate=package.Coordinate(start=0, step=1e-6, unit="s"))
    axes = (package.Axis("channel", shape[0]), time_axis)
    fields = []
    for _ in range(min(DISTINCT, count)):
        samples = np.round(rng.standard_normal((*shape, 2)) * 200).astype(np.float32).view(np.complex64)[..., 0]
        fields.append(package.Field(samples, axes))
    for number, field in zip(range(count), itertools.cycle(fields), strict=False):
        yield package.Record(f"r{number}", {"iq": field}, metadata={"sample_rate": 1e6, "n": number})


def touch(record: Any) -> int:
    record["iq"].data.view(np.uint64).sum()
    return 1


def ways(package: Any, root: Path, data: str, count: int) -> dict[str, Callable[[], int]]:
    dataset = package.open(str(root))
    rng = np.random.default_rng(1)
    some = rng.integers(0, len(dataset), 1000).tolist()
    groups = [rng.integers(0, len(dataset), 64).tolist() for _ in range(20)]
    made = list(records(package, data, count))

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


def codec(data: str, count: int) -> dict[str, Callable[[], int]]:
    """What zstd alone does with the payloads of the records, by the names of `ways`."""
    import zstandard
    from sigbank import signal_dataset

    payloads = [signal_dataset.encode(record) for record in records(signal_dataset, data, DISTINCT)]
    compressed = [zstandard.ZstdCompressor(3).compress(payload) for payload in payloads]
    # A task is long, so that handing them out costs nothing.
    rounds = max(1, min(count, 4_000 if data == "large" else 100_000) // DISTINCT // 2)

    def decode(times: int) -> int:
        decoder = zstandard.ZstdDecompressor()
        return sum(1 for _ in range(times) for chunk in compressed if decoder.decompress(chunk))

    def encode(times: int) -> int:
        encoder = zstandard.ZstdCompressor(3)
        return sum(1 for _ in range(times) for payload in payloads if encoder.compress(payload))

    def in_threads(action: Callable[[int], int], threads: int) -> Callable[[], int]:
        def run() -> int:
            with ThreadPoolExecutor(threads) as pool:
                return sum(pool.map(action, [rounds] * threads))

        return run

    return {what: in_threads(encode if what == "write" else decode, threads) for what, threads in THREADS.items()}


def array_record(root: Path, data: str) -> Callable[[], int]:
    """Records at random by the plain package, from the same file."""
    from array_record.python.array_record_module import ArrayRecordReader

    page = next(root.glob("manifests/*/*.json"))
    shard = json.loads(page.read_text())["shards"][0]
    # Its defaults read ahead, which would be unfair at random.
    reader = ArrayRecordReader(str(root / shard["data"]["path"]), "readahead_buffer_size:0,max_parallelism:0")
    rng = np.random.default_rng(1)
    some = rng.integers(0, shard["record_count"], 1000).tolist()
    return lambda: sum(1 for i in some if reader.read([i]))


def alternating(run: dict[str, Callable[[], int]], repetitions: int) -> dict[str, list[float]]:
    """Rates of each; the first round warms up."""
    rates: dict[str, list[float]] = {name: [] for name in run}
    for repetition in range(-1, repetitions):
        for name in list(run) if repetition % 2 else list(run)[::-1]:
            start = time.perf_counter()
            count = run[name]()
            if repetition >= 0:
                rates[name].append(count / (time.perf_counter() - start))
    return rates


def ratio(a: Iterable[float], b: Iterable[float]) -> str:
    ratios = sorted(x / y for x, y in zip(a, b, strict=True))
    return f"{statistics.median(ratios):6.2f} [{ratios[0]:.2f}..{ratios[-1]:.2f}]"


def throughput(data: str, count: int, repetitions: int) -> None:
    packages = {name: importlib.import_module(module) for name, module in NAMES.items()}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "dataset"
        dataset_of(packages["reference"], root, data, [count])
        run = {name: ways(package, root, data, count) for name, package in packages.items()}
        alone, plain = codec(data, count), array_record(root, data)
        for what in run["ours"]:
            contest = {name: ways_of[what] for name, ways_of in run.items()}
            if what in alone:
                contest["codec"] = alone[what]
            if what == "[i]":
                contest["array_record"] = plain
            rates = alternating(contest, repetitions)
            median = {name: statistics.median(found) for name, found in rates.items()}
            text = f"{data:5} {what:13} reference {median['reference']:9.0f}/s  ours {median['ours']:9.0f}/s"
            text += f"  ratio {ratio(rates['ours'], rates['reference'])}"
            if aim := AIMS[data].get(what):
                text += f" (aim {aim:g})"
            print(text, flush=True)
            for name, least in (("codec", CODEC_AIM), ("array_record", 1)):
                if name in rates:
                    found = ratio(rates["ours"], rates[name])
                    aim = f" (aim {least:g})" if data == "large" else ""
                    print(f"{'':19} of {name:12} {median[name]:9.0f}/s  ratio {found}{aim}", flush=True)


def dataset_of(package: Any, root: Path, data: str, shards: list[int]) -> None:
    """A dataset of shards of so many records each."""
    written = [
        package.write_shard(records(package, data, count), str(root), work_id=f"{n:06}", attempt=0) for n, count in enumerate(shards)
    ]
    package.publish(str(root), written, dataset_id="bench", snapshot_id="v1")


def kibibytes(key: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{key}:")[1].split()[0])


def child(what: str, module: str, root: str) -> None:
    """In a process of its own, which says as JSON what it took."""
    package = importlib.import_module(module)
    if what == "memory":
        before = kibibytes("VmRSS")
        # The highest mark so far may be that of importing.
        Path("/proc/self/clear_refs").write_text("5")
        count = sum(map(touch, package.open(root).iter_records()))
        print(json.dumps({"records": count, "mebibytes": (kibibytes("VmHWM") - before) / 1024}))
        return
    calls = lambda: int(Path("/proc/self/io").read_text().split("syscr: ")[1].split()[0])  # noqa: E731
    package.open(root)[0]
    before, took = calls(), []
    for _ in range(9):
        start = time.perf_counter()
        dataset = package.open(root)
        took.append(time.perf_counter() - start)
        dataset[len(dataset) // 2]
    # Asking takes calls too.
    spent = (calls() - before - (calls() - calls())) / 9
    print(json.dumps({"milliseconds": statistics.median(took) * 1e3, "reads": round(spent, 1)}))


def asked(what: str, name: str, root: Path) -> Any:
    command = [sys.executable, __file__, "--child", what, NAMES[name], str(root)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def memory(count: int) -> None:
    ours = importlib.import_module(NAMES["ours"])
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        dataset_of(ours, whole, "large", [count])
        for name in NAMES:
            found = asked("memory", name, whole)
            aim = f" (aim {MEMORY_AIM})" if name == "ours" else ""
            print(f"memory of iter_records, {found['records']} large records in a shard: {name} {found['mebibytes']:.1f} MiB{aim}", flush=True)
        held = {}
        for shards in (10, max(20, min(1_000, count // 4))):
            root = Path(folder) / str(shards)
            dataset_of(ours, root, "large", [4] * shards)
            held[shards] = asked("memory", "ours", root)["mebibytes"]
        text = ", ".join(f"{shards} shards {found:.1f} MiB" for shards, found in held.items())
        print(f"memory of iter_records by shards: ours {text}", flush=True)


def opening(count: int) -> None:
    ours = importlib.import_module(NAMES["ours"])
    cases = {"few records": [max(10, count // 100)], "many records": [count], "many shards": [10] * max(10, min(2_000, count // 50))}
    with tempfile.TemporaryDirectory() as folder:
        for case, shards in cases.items():
            root = Path(folder) / case.replace(" ", "-")
            dataset_of(ours, root, "small", shards)
            for name in NAMES:
                found = asked("open", name, root)
                what = f"open {case} ({sum(shards)} in {len(shards)})"
                print(f"{what:40} {name:9} {found['milliseconds']:8.2f} ms, then one record: {found['reads']} read calls", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="small, large, memory, open; all by default")
    parser.add_argument("--records", type=int, help="instead of 100,000 small and 4,000 large ones")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    count = {data: options.records or full for data, full in COUNTS.items()}
    for part in options.parts or ["small", "large", "memory", "open"]:
        if part in COUNTS:
            throughput(part, count[part], options.repetitions)
        elif part == "memory":
            memory(count["large"])
        elif part == "open":
            opening(count["small"])
        else:
            parser.error(f"{part}: small, large, memory or open")


if __name__ == "__main__":
    main()
