"""Datasets far away: behind a proxy that adds 20 ms to each request, in front of an S3 stub. Both read what the reference wrote.

    python benches/bench_cloud.py                      all: records, stream, batches, open
    python benches/bench_cloud.py records --shard-mib 1 8
    python benches/bench_cloud.py records --quick

`records`: random single records of 64 shards of 1 MiB (32 of 8 MiB) of records of 16 KiB at concurrency 32: `dataset[i]` in 32 threads,
`__getitems__` of 32, and `dataset[i]` of the reference package in 32 threads, alternating. Each repetition opens anew, so that no cache of
shards hides what was asked for. A ratio is the median of those of runs that followed each other, with the lowest and the highest. The
reference fetches whole shards, so it depends on their size. No way of reading can give more than 32 records in 20 ms, 1,600 a second.
`stream`: an epoch from there, as a share of the same from the local disk, and, where a line of 50 MB/s is the limit, of that.
`batches`: an epoch of a signal-dataset from there as `sigbank.open(…).batches`, as a multiple of the time that `iter_records` takes.
`open`: the requests of opening a snapshot of 10,000 shards.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import sigbank
import sigbank.signal_dataset as ours
from sigbank.sedpack import Attribute, Dataset, DatasetStructure, Metadata

sys.path.append(str(Path(__file__).resolve().parent.parent / "python"))
from servers.client import Control, Servers  # noqa: E402

THREADS = 32
BYTES = 16 << 10
DELAY: dict[str, Any] = {"fault": "delay", "ms": 20}
LINE: dict[str, Any] = {"fault": "bandwidth", "bytes_per_second": 50_000_000}
# At least so many times the reference's records; at least this share of the local epoch; at most so many requests to open.
AIM_RECORDS, AIM_STREAM, AIM_OPEN = 10, 0.8, 4
# At most so many times as long as by `iter_records`.
AIM_BATCHES = 1.2


def record(module: Any, number: int, size: int) -> Any:
    """What no compression makes small."""
    data = np.random.default_rng(number).integers(0, 256, size, dtype=np.uint8)
    return module.Record(f"r{number}", {"x": module.Field(data, (module.Axis("time", size),))}, metadata={"n": number})


def fill(module: Any, root: str, shards: int, per_shard: int, size: int = BYTES) -> None:
    def write(shard: int) -> Any:
        numbers = range(shard * per_shard, (shard + 1) * per_shard)
        return module.write_shard((record(module, n, size) for n in numbers), root, work_id=f"w{shard:06}")

    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(write, range(shards)))
    module.publish(root, written, dataset_id="bench", snapshot_id="v1")


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} [{min(values):.2f}..{max(values):.2f}]"


def timed(work: Callable[[], int]) -> tuple[float, int]:
    began = time.perf_counter()
    count = work()
    return time.perf_counter() - began, count


class Bench:
    def __init__(self, server: dict[str, str], repetitions: int, quick: bool) -> None:
        self.proxy, self.endpoint, self.base = Control(server), server["endpoint"], f"s3://{server['bucket']}/bench"
        self.repetitions, self.quick = repetitions, quick

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Past the proxy."""
        os.environ["AWS_ENDPOINT_URL"] = self.endpoint
        yield
        os.environ["AWS_ENDPOINT_URL"] = self.proxy.endpoint

    def records(self, mib: int) -> None:
        import signal_dataset as reference

        per_shard = mib * 64
        shards, count = (16, 128) if self.quick else (64 if mib == 1 else 32, 1024)
        root = f"{self.base}/records-{mib}"
        with self.filling():
            fill(reference, root, shards, per_shard)

        def singles(module: Any, chosen: list[int]) -> int:
            dataset = module.open(root)

            def one(i: int) -> int:
                found = dataset[i]
                assert found.metadata["n"] == i, (found.id, i)
                return int(found["x"].data.nbytes)

            with ThreadPoolExecutor(THREADS) as pool:
                return sum(pool.map(one, chosen))

        def groups(chosen: list[int]) -> int:
            dataset, total = ours.open(root), 0
            for at in range(0, len(chosen), THREADS):
                total += sum(found["x"].data.nbytes for found in dataset.__getitems__(chosen[at : at + THREADS]))
            return total

        ways: dict[str, Callable[[list[int]], int]] = {
            "reference dataset[i]": lambda chosen: singles(reference, chosen),
            "ours dataset[i]": lambda chosen: singles(ours, chosen),
            "ours __getitems__": groups,
        }
        ratios: dict[str, list[float]] = {way: [] for way in ways}
        rng = np.random.default_rng(1)
        asked = {}
        for _ in range(self.repetitions):
            chosen = rng.choice(shards * per_shard, count, replace=False).tolist()
            base = 0.0
            for way, work in ways.items():
                self.proxy.set(DELAY)
                seconds, total = timed(lambda work=work, chosen=chosen: work(chosen))  # type: ignore[misc]
                assert total == count * BYTES
                log = self.proxy.log()
                asked[way] = f"{count / seconds:.0f} records/s, {log['count']} requests, {log['sent'] / 1e6:.1f} MB"
                base = base or seconds
                ratios[way].append(base / seconds)
        most = THREADS * 1000 // DELAY["ms"]
        print(f"records: {count} of {shards} x {per_shard} of {BYTES >> 10} KiB, {THREADS} at a time, so at most {most} records/s")
        for way, values in ratios.items():
            print(f"  {way:22} ratio {spread(values)} (aim {AIM_RECORDS}); at last {asked[way]}")

    def stream(self, folder: Path) -> None:
        shards, per_shard = (16, 64) if self.quick else (64, 128)
        attributes = [Attribute(name="n", dtype="int", shape=()), Attribute(name="x", dtype="uint8", shape=(BYTES,))]
        structure = DatasetStructure(saved_data_description=attributes, compression="", examples_per_shard=per_shard)
        samples = [np.random.default_rng(n).integers(0, 256, BYTES, dtype=np.uint8) for n in range(64)]

        def fill_sedpack(root: str) -> None:
            with Dataset.create(root, Metadata(), structure).filler() as filler:
                for n in range(shards * per_shard):
                    filler.write_example(values={"n": n, "x": samples[n % 64]}, split="train")

        def sedpack(root: str) -> int:
            examples = Dataset(root).as_numpy_iterator(split="train", repeat=False, shuffle=0)
            return sum(bool(np.asarray(example["x"]).view(np.uint64).sum()) for example in examples)

        def signals(root: str) -> int:
            return sum(bool(one["x"].data.view(np.uint64).sum()) for one in ours.open(root).iter_records())

        kinds: dict[str, tuple[Callable[[str], None], Callable[[str], int]]] = {
            "sedpack": (fill_sedpack, sedpack),
            "signal-dataset": (lambda root: fill(ours, root, shards, per_shard), signals),
        }
        print(f"stream: {shards} shards of {per_shard} x {BYTES >> 10} KiB")
        for kind, (write, read) in kinds.items():
            near, far = str(folder / kind), f"{self.base}/stream-{kind}"
            with self.filling():
                write(near)
                write(far)
            shares: list[float] = []
            lines: list[float] = []
            for _ in range(self.repetitions):
                local, count = timed(lambda read=read, near=near: read(near))  # type: ignore[misc]
                assert count == shards * per_shard
                for found, faults in ((shares, [DELAY]), (lines, [DELAY, LINE])):
                    self.proxy.set(*faults)
                    away, count = timed(lambda read=read, far=far: read(far))  # type: ignore[misc]
                    assert count == shards * per_shard
                    if found is shares:
                        found.append(local / away)
                    else:
                        # The bytes that were wanted: what is fetched twice is not counted.
                        found.append(count * BYTES / away / LINE["bytes_per_second"])
            log = self.proxy.log()
            asked = f"{log['count']} requests, {log['most_active']} at once, {log['sent'] / 1e6:.1f} MB"
            print(f"  {kind:15} share of the local disk {spread(shares)}, of a line of 50 MB/s {spread(lines)} (aim {AIM_STREAM}); {asked}")

    def batches(self) -> None:
        shards, per_shard = (16, 64) if self.quick else (64, 128)
        root = f"{self.base}/batches"
        with self.filling():
            fill(ours, root, shards, per_shard)

        def records() -> int:
            return sum(bool(one["x"].data.view(np.uint64).sum()) for one in ours.open(root).iter_records())

        def batches(shuffle: int | None) -> int:
            found = sigbank.open(root).batches("all", 64, shuffle)
            return sum(int((batch["x"].view(np.uint64).sum(axis=1) > 0).sum()) for batch in found)

        ratios: dict[int | None, list[float]] = {None: [], 2000: []}
        for _ in range(self.repetitions):
            self.proxy.set(DELAY)
            base, count = timed(records)
            asked = self.proxy.log()["count"]
            assert count == shards * per_shard
            for shuffle, found in ratios.items():
                self.proxy.set(DELAY)
                seconds, count = timed(lambda shuffle=shuffle: batches(shuffle))  # type: ignore[misc]
                assert count == shards * per_shard
                found.append(seconds / base)
        log = self.proxy.log()
        for shuffle, found in ratios.items():
            name = "in order" if shuffle is None else f"{shuffle} mixed"
            print(f"batches: {name}: {spread(found)} times as long as iter_records (aim {AIM_BATCHES})")
        print(f"  iter_records: {asked} requests, {base:.2f} s; at last {log['count']}, {log['most_active']} at once, {log['sent'] / 1e6:.1f} MB")

    def open(self) -> None:
        shards = 500 if self.quick else 10_000
        root = f"{self.base}/open"
        with self.filling():
            fill(ours, root, shards, 1, size=8)
        for _ in range(self.repetitions):
            self.proxy.set(DELAY)
            seconds, count = timed(lambda: len(ours.open(root)))
            assert count == shards
            opened = self.proxy.log()["count"]
            ours.open(root)[shards // 2]
            total = self.proxy.log()["count"] - opened
            self.proxy.set(DELAY)
            neutral, count = timed(lambda: len(sigbank.open(root)[shards // 2]))
            asked = self.proxy.log()["count"]
        print(f"open: {shards} shards: {opened} requests (aim {AIM_OPEN}), {seconds * 1e3:.0f} ms; to open again and read one: {total}")
        print(f"  sigbank.open and a record: {asked} requests, {neutral * 1e3:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=["records", "stream", "batches", "open", []], default=[])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="smaller, to see that it runs")
    parser.add_argument("--shard-mib", type=int, nargs="+", default=[1, 8], help="sizes of shards that records are read of")
    options = parser.parse_args()
    what = options.what or ["records", "stream", "batches", "open"]
    with Servers("--s3-stub", "--control") as servers, tempfile.TemporaryDirectory() as folder:
        server = servers.told["s3-stub"]
        # Both packages take these.
        keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}
        os.environ.update({**keys, "AWS_ENDPOINT_URL": Control(server).endpoint, "AWS_ALLOW_HTTP": "true"})
        bench = Bench(server, options.repetitions, options.quick)
        if "records" in what:
            for mib in options.shard_mib:
                bench.records(mib)
        if "stream" in what:
            bench.stream(Path(folder))
        if "batches" in what:
            bench.batches()
        if "open" in what:
            bench.open()


if __name__ == "__main__":
    main()
