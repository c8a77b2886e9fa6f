"""Speed and memory of `sigbank.sedpack` beside the reference package, in one run, alternating.

    python benches/bench_sedpack.py            everything
    python benches/bench_sedpack.py batches singles --data traces --compression LZ4

Measures: batches, singles, write, durable, check, memory. Two datasets: `traces` (2,048 examples of trace1 float16[80000],
key and plaintext uint8[16]; smooth and noisy) and `images` (60,000 examples of image uint8[28,28], label uint8[]). Both
packages read the same files, written once by the reference and kept under --root; every byte handed out is touched once.
Each figure is the median over the repetitions, with half its spread; a ratio is the median of the ratios of runs that
followed each other, with the lowest and highest. The limit is the same work without a library on as many threads: copying a
memory-mapped .npy and touching the copy, or decoding alone (which touches nothing); `read` is reading the files' bytes by the
system's read call and touching them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

THREADS = 2
SHARD = 256
MEASURES = ["batches", "singles", "write", "durable", "check", "memory"]
COMPRESSIONS = {"traces": ["", "LZ4", "ZSTD", "GZIP"], "images": [""]}
COUNTS = {"traces": 2_048, "images": 60_000}
BATCH = {"traces": 64, "images": 256}
ATTRIBUTES: dict[str, list[tuple[str, str, tuple[int, ...]]]] = {
    "traces": [("trace1", "float16", (80_000,)), ("key", "uint8", (16,)), ("plaintext", "uint8", (16,))],
    "images": [("image", "uint8", (28, 28)), ("label", "uint8", ())],
}
EXAMPLE_BYTES = {"traces": 160_032, "images": 785}
# (measure, data, compression) -> the least ratio to the reference, and the least share of the limit
TARGETS: dict[tuple[str, str, str], tuple[float, float | None]] = {
    ("batches", "traces", ""): (3.0, 0.6),
    ("batches", "traces", "LZ4"): (1.8, 0.8),
    ("batches", "traces", "ZSTD"): (1.6, 0.8),
    ("batches", "traces", "GZIP"): (2.5, 0.8),
    ("singles", "traces", ""): (4.0, None),
    ("write", "traces", ""): (3.0, None),
    ("write", "traces", "ZSTD"): (2.0, None),
    ("write", "traces", "GZIP"): (6.0, None),
    ("check", "traces", ""): (1.3, None),
    ("durable", "traces", ""): (0.9, None),
    ("batches", "images", ""): (2.0, None),
    ("singles", "images", ""): (2.0, None),
    ("write", "images", ""): (10.0, None),
}

Way = Callable[[], int]


@dataclass
class Row:
    """One measured thing: rates in bytes a second by who did it."""

    measure: str
    data: str
    compression: str
    note: str
    rates: dict[str, list[float]]
    notes: dict[str, Any] = field(default_factory=dict)

    def fastest_reference(self) -> list[float]:
        named = [rates for name, rates in self.rates.items() if name.startswith("reference")]
        return max(named, key=statistics.median)

    def line(self) -> str:
        ours, reference = self.rates["ours"], self.fastest_reference()
        ratios = sorted(a / b for a, b in zip(ours, reference, strict=True))
        ratio, target = statistics.median(ratios), TARGETS.get((self.measure, self.data, self.compression), (None, None))
        text = f"{self.measure:8} {self.data:7} {self.compression or 'none':5} {self.note:9}"
        text += f" reference {show(reference)}  ours {show(ours)}  ratio {ratio:6.2f} [{ratios[0]:.2f}..{ratios[-1]:.2f}]"
        verdicts = [] if target[0] is None else [ratio >= target[0]]
        text += "" if target[0] is None else f" (at least {target[0]:g})"
        if "limit" in self.rates:
            share = statistics.median(a / b for a, b in zip(ours, self.rates["limit"], strict=True))
            text += f"  limit {show(self.rates['limit'])}  share {share:.2f}"
            if target[1] is not None:
                text += f" (at least {target[1]:g})"
                verdicts.append(share >= target[1])
        if "read" in self.rates:
            share = statistics.median(a / b for a, b in zip(ours, self.rates["read"], strict=True))
            text += f"  read {show(self.rates['read'])}  share {share:.2f}"
        if verdicts:
            text += "  ok" if all(verdicts) else "  BELOW"
        return text + "".join(f"  {name} {value}" for name, value in self.notes.items())


def show(rates: list[float]) -> str:
    median = statistics.median(rates)
    return f"{median / 1e9:6.3f} GB/s ±{(max(rates) - min(rates)) / 2 / median:4.0%}"


def package(name: str) -> Any:
    """`sedpack.io` or ours."""
    if name == "ours":
        import sigbank.sedpack.io as io
    else:
        import sedpack.io as io
    return io


def examples(data: str) -> Iterator[dict[str, Any]]:
    """The examples to write, the same ones at every call."""
    rng = np.random.default_rng(20_240_607)
    if data == "traces":
        time_axis = np.linspace(0, 400 * np.pi, 80_000, dtype=np.float32)
        base = np.sin(time_axis) + 0.4 * np.sin(7.3 * time_axis)
        noise = rng.standard_normal(1 << 20, dtype=np.float32) * np.float32(0.02)
        for _ in range(COUNTS[data]):
            at = int(rng.integers(0, len(noise) - 80_000))
            trace = (base * np.float32(rng.uniform(0.8, 1.2)) + noise[at : at + 80_000]).astype(np.float16)
            key, plaintext = rng.integers(0, 256, (2, 16), dtype=np.uint8)
            yield {"trace1": trace, "key": key, "plaintext": plaintext}
    else:
        strokes = rng.integers(0, 256, (1_000, 28, 28), dtype=np.uint8) * (rng.random((1_000, 28, 28)) < 0.2)
        for index in range(COUNTS[data]):
            yield {"image": strokes[index % 1_000], "label": np.uint8(index % 10)}


def create(name: str, path: Path, data: str, compression: str) -> Any:
    io = package(name)
    described = [io.Attribute(name=n, dtype=dtype, shape=shape) for n, dtype, shape in ATTRIBUTES[data]]
    structure = io.DatasetStructure(saved_data_description=described, compression=compression, examples_per_shard=SHARD)
    return io.Dataset.create(path, io.Metadata(), structure)


def write(name: str, path: Path, data: str, compression: str, made: Any, **options: Any) -> int:
    """Write a dataset of the examples `made`; the bytes handed in."""
    dataset = create(name, path, data, compression)
    with dataset.filler(concurrency=THREADS, **({"durable": False, **options} if name == "ours" else {})) as filler:
        for example in made:
            filler.write_example(values=example, split="train")
    return COUNTS[data] * EXAMPLE_BYTES[data]


def prepared(root: Path, data: str, compression: str) -> Path:
    """A dataset written by the reference, once."""
    path = root / f"{data}-{compression or 'none'}"
    if not (path / "complete").exists():
        shutil.rmtree(path, ignore_errors=True)
        write("reference", path, data, compression, examples(data))
        (path / "complete").touch()
    return path


def touch(array: np.ndarray[Any, Any]) -> None:
    """Read every byte once."""
    if array.nbytes < 65_536:
        array.tobytes()
        return
    flat = array.reshape(-1).view(np.uint8)
    np.add.reduce(flat[: len(flat) // 8 * 8].view(np.uint64))


def drain(items: Any, rows: Callable[[dict[str, Any]], int]) -> int:
    """Touch all that `items` hands out; the number of examples."""
    count = 0
    for item in items:
        for value in item.values():
            touch(value)
        count += rows(item)
    return count


def reading(name: str, path: Path, data: str, iterator: str, shuffle: int, epochs: int = 1) -> int:
    """Read everything once (or more often); the bytes handed out."""
    dataset = package(name).Dataset(path)
    options: dict[str, Any] = {"split": "train", "repeat": False, "shuffle": shuffle}
    if iterator != "as_numpy_iterator":
        options["file_parallelism"] = THREADS
    batched = iterator.endswith("batched")
    if batched:
        options["batch_size"] = BATCH[data]
    first = ATTRIBUTES[data][0][0]
    for _ in range(epochs):
        count = drain(getattr(dataset, iterator)(**options), (lambda item: len(item[first])) if batched else (lambda _: 1))
        if count != COUNTS[data]:
            raise RuntimeError(f"{name} handed out {count} of {COUNTS[data]} examples")
    return epochs * COUNTS[data] * EXAMPLE_BYTES[data]


def alternate(ways: dict[str, Way], repetitions: int, between: Callable[[], None] = lambda: None) -> dict[str, list[float]]:
    """The rates of each way, run in turns after one unmeasured round; every other round runs backwards."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for repetition in range(-1, repetitions):
        for name in list(ways) if repetition % 2 else list(ways)[::-1]:
            between()
            gc.collect()
            start = time.perf_counter()
            amount = ways[name]()
            taken = time.perf_counter() - start
            if repetition >= 0:
                rates[name].append(amount / taken)
    return rates


def memory_map_copy(root: Path, data: str) -> Way:
    """Copying the first attribute's bytes out of a memory-mapped .npy, batch by batch into buffers used again, and touching
    them once, as reading does."""
    name, dtype, shape = ATTRIBUTES[data][0]
    path = root / f"{data}.npy"
    if not path.exists():
        whole = np.lib.format.open_memmap(path, "w+", dtype, (COUNTS[data], *shape))
        for index, example in enumerate(examples(data)):
            whole[index] = example[name]
        whole.flush()
    mapped, size = np.load(path, mmap_mode="r"), BATCH[data]

    def part(worker: int) -> None:
        room = np.empty((size, *shape), dtype)
        for start in range(worker * size, len(mapped), THREADS * size):
            rows = mapped[start : start + size]
            np.copyto(room[: len(rows)], rows)
            touch(room[: len(rows)])

    def run() -> int:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(part, range(THREADS)))
        return int(mapped.nbytes)

    return run


def read_alone(path: Path, data: str) -> Way:
    """Reading the shard files' bytes through the system into buffers used again, a batch's at a time, and touching them once."""
    paths, size = sorted(path.rglob("*.fb")), BATCH[data] * EXAMPLE_BYTES[data]

    def part(worker: int) -> int:
        room, amount = np.empty(size, np.uint8), 0
        for shard in paths[worker::THREADS]:
            with shard.open("rb", buffering=0) as file:
                while count := file.readinto(room):
                    touch(room[:count])
                    amount += count
        return amount

    def run() -> int:
        with ThreadPoolExecutor(THREADS) as pool:
            return sum(pool.map(part, range(THREADS)))

    return run


def decode_alone(path: Path, compression: str) -> Way:
    from sigbank import _native

    paths = [str(p) for p in sorted(path.rglob("*.fb"))]
    return lambda: int(_native.bench_decode(paths, compression, THREADS))


def bench_batches(root: Path, data: str, compression: str, repetitions: int) -> Iterator[Row]:
    path = prepared(root, data, compression)
    if compression:
        beside = {"limit": decode_alone(path, compression)}
    else:
        beside = {"limit": memory_map_copy(root, data), "read": read_alone(path, data)}
    for note, shuffle in (("stored", 0), ("shuffled", 1_000)):
        ways: dict[str, Way] = {
            name: lambda name=name, shuffle=shuffle: reading(name, path, data, "as_numpy_iterator_rust_batched", shuffle)
            for name in ("reference", "ours")
        }
        yield Row("batches", data, compression, note, alternate({**ways, **beside}, repetitions))


def bench_singles(root: Path, data: str, compression: str, repetitions: int) -> Iterator[Row]:
    path = prepared(root, data, compression)
    ways: dict[str, Way] = {"ours": lambda: reading("ours", path, data, "as_numpy_iterator_rust", 0)}
    for iterator in ("as_numpy_iterator", "as_numpy_iterator_concurrent", "as_numpy_iterator_rust"):
        ways[f"reference {iterator}"] = lambda iterator=iterator: reading("reference", path, data, iterator, 0)
    yield Row("singles", data, compression, "stored", alternate(ways, repetitions))


def stored_bytes(path: Path) -> int:
    return sum(p.stat().st_size for p in path.rglob("*.fb"))


def bench_write(root: Path, data: str, compression: str, repetitions: int) -> Iterator[Row]:
    made = list(examples(data))
    paths = {name: root / f"write-{name}" for name in ("reference", "ours")}
    sizes: dict[str, int] = {}

    def clean() -> None:
        for path in paths.values():
            shutil.rmtree(path, ignore_errors=True)
        os.sync()

    def way(name: str) -> int:
        amount = write(name, paths[name], data, compression, made)
        sizes[name] = stored_bytes(paths[name])
        return amount

    rates = alternate({name: lambda name=name: way(name) for name in paths}, repetitions, clean)
    clean()
    yield Row("write", data, compression, "unflushed", rates, {"size": f"{sizes['ours'] / sizes['reference']:.4f}"})


def bench_durable(root: Path, data: str, compression: str, repetitions: int) -> Iterator[Row]:
    """Durable writing beside writing and flushing one file of the same bytes."""
    if compression or data != "traces":
        return
    made, path, plain = list(examples(data)), root / "write-ours", root / "plain"
    chunk = os.urandom(1 << 20) * 40

    def clean() -> None:
        shutil.rmtree(path, ignore_errors=True)
        plain.unlink(missing_ok=True)
        os.sync()

    def one_file() -> int:
        left = COUNTS[data] * EXAMPLE_BYTES[data]
        with plain.open("wb") as file:
            while left:
                left -= file.write(chunk[: min(left, len(chunk))])
            file.flush()
            os.fsync(file.fileno())
        return COUNTS[data] * EXAMPLE_BYTES[data]

    ours: Way = lambda: write("ours", path, data, compression, made, durable=True)  # noqa: E731
    rates = alternate({"reference one file": one_file, "ours": ours}, repetitions, clean)
    clean()
    yield Row("durable", data, compression, "one file", rates)


def bench_check(root: Path, data: str, compression: str, repetitions: int) -> Iterator[Row]:
    path = prepared(root, data, compression)
    size = stored_bytes(path)

    def way(name: str) -> int:
        package(name).Dataset(path).check(show_progressbar=False)
        return size

    rates = alternate({name: lambda name=name: way(name) for name in ("reference", "ours")}, repetitions)
    yield Row("check", data, compression, "", rates)


def peak(name: str, what: str, path: Path, data: str, compression: str) -> None:
    """In a process of its own: print how far memory rose above the interpreter with the package, in bytes."""
    made = repeated_examples(data) if what == "write" else None
    package(name).Dataset  # noqa: B018  (imported before the baseline is taken)
    baseline = memory("VmRSS")
    if what == "write":
        write(name, path, data, compression, made)
    else:
        shuffle = 1_000 if what == "shuffled" else 0
        reading(name, path, data, "as_numpy_iterator_rust_batched", shuffle, epochs=3 if what == "epochs" else 1)
    print(memory("VmHWM") - baseline)


def repeated_examples(data: str) -> Iterator[dict[str, Any]]:
    """As many examples as `examples` gives, of which only a few are held in memory."""
    few = [example for _, example in zip(range(16), examples(data), strict=False)]
    return (few[index % len(few)] for index in range(COUNTS[data]))


def memory(what: str) -> int:
    """This process's resident memory in bytes: VmRSS now, VmHWM at its highest (getrusage's would count the parent's too)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith(what))


def bench_memory(root: Path, data: str, compression: str, repetitions: int) -> Iterator[str]:
    shard = SHARD * EXAMPLE_BYTES[data]
    for what in ("stored", "epochs", "shuffled", "write"):
        found = []
        for name in ("reference", "ours"):
            path = root / "write-peak" if what == "write" else prepared(root, data, compression)
            if what == "write":
                shutil.rmtree(path, ignore_errors=True)
            arguments = ["--peak", name, what, str(path), data, compression]
            done = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True)
            found.append(int(done.stdout))
            if what == "write":
                shutil.rmtree(path)
        text = "  ".join(
            f"{n} {v / 1e6:7.1f} MB = {v / shard:5.2f} shards" for n, v in zip(("reference", "ours"), found, strict=True)
        )
        yield f"memory   {data:7} {compression or 'none':5} {what:9} {text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"from {', '.join(MEASURES)}; all by default")
    parser.add_argument("--data", choices=list(COUNTS), action="append")
    parser.add_argument("--compression", action="append", help="none, LZ4, ZSTD or GZIP")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1] / ".cache" / "bench-sedpack")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.add_argument("--peak", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        name, what, path, data, compression = options.peak
        peak(name, what, Path(path), data, compression)
        return
    unknown = set(options.measures) - set(MEASURES)
    if unknown:
        parser.error(f"there is no measure {', '.join(sorted(unknown))}")
    options.root.mkdir(parents=True, exist_ok=True)
    wanted = None if options.compression is None else {c.upper().replace("NONE", "") for c in options.compression}
    rows = []
    for measure in options.measures or MEASURES:
        for data in options.data or COUNTS:
            for compression in COMPRESSIONS[data]:
                if wanted is not None and compression not in wanted:
                    continue
                for row in globals()[f"bench_{measure}"](options.root, data, compression, options.repetitions):
                    print(row.line() if isinstance(row, Row) else row, flush=True)
                    rows.append(asdict(row) if isinstance(row, Row) else row)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
