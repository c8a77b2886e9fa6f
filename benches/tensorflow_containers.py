"""npz and tfrec shards in batches, and `as_tfdataset`, beside the reference package in the same run: what
docs/benchmarks.md quotes. Runs in the environment with TensorFlow, which the reference needs for tfrec.

    python benches/tensorflow_containers.py                # everything
    python benches/tensorflow_containers.py npz tfdataset  # some

Both packages read the same files, written once by the reference and kept under --root. Two datasets: `traces` (1,024 examples
of trace float32[20000], key uint8[16]) and `images` (30,000 of image uint8[28,28], label uint8[]); for npz a sixteenth of them. A batch of the reference's is
what is fastest of: its single examples stacked, its `as_tfdataset`. Every byte handed out is touched once. Figures as in
bench_sedpack.py.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bench_sedpack import Row, alternate, package, touch  # noqa: E402

COUNTS = {"traces": 1_024, "images": 30_000}
# The reference reads a whole member of an npz shard for each example, which takes minutes with more.
FEWER_NPZ = 16
BATCH = {"traces": 64, "images": 256}
THREADS = 2
KINDS = {
    "traces": [("trace", "float32", (20_000,)), ("key", "uint8", (16,))],
    "images": [("image", "uint8", (28, 28)), ("label", "uint8", ())],
}
CASES = {"npz": ["", "ZIP"], "tfrec": ["", "GZIP"], "tfdataset": [""]}
TARGETS = {"npz": 5.0, "tfrec": 5.0, "tfdataset": 4.0}


def count(file_type: str, data: str) -> int:
    return COUNTS[data] // (FEWER_NPZ if file_type == "npz" else 1)


def examples(data: str) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(7)
    if data == "traces":
        base = np.sin(np.linspace(0, 100 * np.pi, 20_000, dtype=np.float32))
        for _ in range(COUNTS[data]):
            noise = rng.standard_normal(20_000, dtype=np.float32) * np.float32(0.02)
            yield {"trace": np.round((base + noise) * 512) / np.float32(512), "key": rng.integers(0, 256, 16, dtype=np.uint8)}
    else:
        strokes = rng.integers(0, 256, (1_000, 28, 28), dtype=np.uint8) * (rng.random((1_000, 28, 28)) < 0.2)
        for index in range(COUNTS[data]):
            yield {"image": strokes[index % 1_000], "label": np.uint8(index % 10)}


def prepared(root: Path, file_type: str, data: str, compression: str) -> Path:
    path = root / f"{file_type}-{data}-{compression or 'none'}"
    if not (path / "complete").exists():
        shutil.rmtree(path, ignore_errors=True)
        io = package("reference")
        attributes = [io.Attribute(name=name, dtype=dtype, shape=shape) for name, dtype, shape in KINDS[data]]
        structure = io.DatasetStructure(
            saved_data_description=attributes, compression=compression, shard_file_type=file_type, examples_per_shard=256
        )
        with io.Dataset.create(path, io.Metadata(), structure).filler() as filler:
            for example in itertools.islice(examples(data), count(file_type, data)):
                filler.write_example(values=example, split="train")
        (path / "complete").touch()
    return path


def drained(measure: str, data: str, batches: Any) -> int:
    """Touch everything; the bytes of the declared types, whatever the dtype handed out."""
    rows, first = 0, KINDS[data][0][0]
    for batch in batches:
        for value in batch.values():
            touch(np.ascontiguousarray(value))
        rows += len(batch[first])
    if rows != count(measure, data):
        raise RuntimeError(f"{rows} of {count(measure, data)} examples were handed out")
    return rows * sum(np.dtype(dtype).itemsize * int(np.prod(shape, dtype=int)) for _, dtype, shape in KINDS[data])


def stacked(single: Any, size: int) -> Iterator[dict[str, Any]]:
    for rows in iter(lambda it=iter(single): list(itertools.islice(it, size)), []):
        yield {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def ways(path: Path, data: str, measure: str, shuffle: int) -> dict[str, Any]:
    ours, theirs = package("ours").Dataset(path), package("reference").Dataset(path)
    common = {"split": "train", "repeat": False, "shuffle": shuffle}

    def tensors(dataset: Any) -> int:
        return drained(measure, data, dataset.as_tfdataset(batch_size=BATCH[data], **common).as_numpy_iterator())

    found = {"reference as_tfdataset": lambda: tensors(theirs)}
    if measure == "tfdataset":
        return {**found, "ours": lambda: tensors(ours)}
    for iterator in ("as_numpy_iterator", "as_numpy_iterator_concurrent"):
        found[f"reference {iterator}"] = lambda iterator=iterator: drained(
            measure, data, stacked(getattr(theirs, iterator)(**common), BATCH[data])
        )
    found["ours"] = lambda: drained(
        measure, data, ours.as_numpy_iterator_rust_batched(batch_size=BATCH[data], file_parallelism=THREADS, **common)
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"from {', '.join(CASES)}; all by default")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1] / ".cache" / "bench-containers")
    options = parser.parse_args()
    options.root.mkdir(parents=True, exist_ok=True)
    importlib.import_module("tensorflow")
    for measure in options.measures or CASES:
        for data, compression in itertools.product(COUNTS, CASES[measure]):
            path = prepared(options.root, "fb" if measure == "tfdataset" else measure, data, compression)
            for note, shuffle in (("stored", 0), ("shuffled", 1_000)):
                row = Row(measure, data, compression, note, alternate(ways(path, data, measure, shuffle), options.repetitions))
                print(row.line(), f"(aim {TARGETS[measure]:g})", flush=True)


if __name__ == "__main__":
    main()
