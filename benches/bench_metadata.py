"""Many small shards and long lists: `sigbank.sedpack` beside the reference package, in one run, alternating.

    python benches/bench_metadata.py            everything, then the Rust example `metadata_scale` where cargo is there
    python benches/bench_metadata.py small --repetitions 9

`small`: 2,000 shards of one example {a: uint8[16]}: writing them (ours flushed, as by default; the reference flushes nothing),
`list(dataset.shard_info_iterator("train"))`, the same with every field of every shard looked at, and `check()`. Every
repetition has new files, and none are deleted before the end: ext4 passes by inodes that were freed within minutes one by
one, which would slow whoever writes next. `scale`: the Rust example, which makes trees of 100,000 shards. A ratio is the
median of the ratios of runs that followed each other, with the lowest and highest.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SHARDS = 2_000
MEASURES = ["small", "scale"]
# the least ratio to the reference
TARGETS = {"write": 4.0, "list": 10.0, "check": 3.0}
NAMES = ("reference", "ours")


def package(name: str) -> Any:
    """`sedpack.io` or ours."""
    if name == "ours":
        import sigbank.sedpack.io as io
    else:
        import sedpack.io as io
    return io


def create(name: str, path: Path) -> Any:
    io = package(name)
    described = [io.Attribute(name="a", dtype="uint8", shape=(16,))]
    structure = io.DatasetStructure(saved_data_description=described, examples_per_shard=1)
    return io.Dataset.create(path, io.Metadata(), structure)


def seconds(action: Callable[[], Any]) -> float:
    gc.collect()
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def look(info: Any) -> tuple[Any, ...]:
    """Every field of a shard."""
    file = info.file_infos[0]
    return file.file_path, file.hash_checksums, info.number_of_examples, info.custom_metadata


def small(path: Path, name: str) -> dict[str, float]:
    """One repetition: the seconds of each step."""
    values = [np.full(16, n % 256, np.uint8) for n in range(SHARDS)]
    dataset = create(name, path)
    # What others left to be written is theirs.
    os.sync()

    def fill() -> None:
        with dataset.filler() as filler:
            for value in values:
                filler.write_example(values={"a": value}, split="train")

    took = {"write": seconds(fill)}
    dataset = package(name).Dataset(path)
    found: list[Any] = []
    took["list"] = seconds(lambda: found.extend(list(dataset.shard_info_iterator("train"))))
    found.clear()
    took["list, all fields"] = seconds(lambda: found.extend(map(look, dataset.shard_info_iterator("train"))))
    if len(set(map(str, found))) != SHARDS:
        raise RuntimeError(f"{name} lists {len(set(map(str, found)))} of {SHARDS} shards")
    took["check"] = seconds(lambda: dataset.check(show_progressbar=False))
    return took


def report(what: str, reference: list[float], ours: list[float]) -> str:
    ratios = sorted(a / b for a, b in zip(reference, ours, strict=True))
    ratio, target = statistics.median(ratios), TARGETS.get(what)
    text = f"{SHARDS} shards of one example: {what:16}"
    for name, taken in zip(NAMES, (reference, ours), strict=True):
        text += f"  {name} {statistics.median(taken) * 1e3:8.1f} ms"
    text += f"  ratio {ratio:6.2f} [{ratios[0]:.2f}..{ratios[-1]:.2f}]"
    return text if target is None else f"{text} (at least {target:g})  {'ok' if ratio >= target else 'BELOW'}"


def bench_small(root: Path, repetitions: int) -> None:
    taken: dict[str, dict[str, list[float]]] = {name: {} for name in NAMES}
    for repetition in range(-1, repetitions):
        for name in NAMES if repetition % 2 else NAMES[::-1]:
            took = small(root / f"{name}{repetition}", name)
            for what, value in took.items():
                if repetition >= 0:
                    taken[name].setdefault(what, []).append(value)
    for what in taken["ours"]:
        print(report(what, taken["reference"][what], taken["ours"][what]), flush=True)


def bench_scale(root: Path) -> None:
    if shutil.which("cargo") is None:
        print("the Rust example needs cargo: left out")
        return
    command = ["cargo", "run", "--release", "--quiet", "--package", "sigbank", "--example", "metadata_scale"]
    repository = Path(__file__).resolve().parents[1]
    subprocess.run(command, check=True, cwd=repository, env={**os.environ, "TMPDIR": str(root)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"from {', '.join(MEASURES)}; all by default")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1] / ".cache" / "bench-metadata")
    options = parser.parse_args()
    unknown = set(options.measures) - set(MEASURES)
    if unknown:
        parser.error(f"there is no measure {', '.join(sorted(unknown))}")
    options.root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.root) as root:
        for measure in options.measures or MEASURES:
            sys.stdout.flush()
            if measure == "small":
                bench_small(Path(root), options.repetitions)
            else:
                bench_scale(Path(root))


if __name__ == "__main__":
    main()
