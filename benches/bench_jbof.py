"""JBOF data sets: `sigbank.jbof` beside the reference package, in one run, alternating.

    python benches/bench_jbof.py                          everything
    python benches/bench_jbof.py find --items 10000 --repetitions 5
    python benches/bench_jbof.py million
    python benches/bench_jbof.py files --folder /dev/shm  in memory, where no disk decides

`find`: items with 4 keys each. The first `find_items` of a fresh process, which opens the data set and gives each item that is found: of the
reference, of ours without an index (the one that is left for the next program included), and with it; then a second search in the same process.
`million`: a table of 1,000,000 records, metadata only, kept in a file as the index is: opening it and asking for two keys, beside
DuckDB on the same file where that is installed, and the memory that the process takes for it. A ratio is the median of the ratios of
runs that followed each other, with the lowest and highest.
`files`: items with 4 keys and 1,000 samples of float32 each, every tenth with a second of 16 kHz wav too. Adding them (both leave flushing to the
operating system; `durable=True` is told beside it), reading all arrays of all items, and the hash, each in a fresh process.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# the least ratio to the reference
SEARCHES = {"first, with the index": 20.0, "first, without": 3.0, "again": 3.0}
FILES = {"adding": 2.0, "reading all arrays": 5.0, "hash": 3.0}
TARGETS = {**SEARCHES, **FILES}
# the most time, as a multiple of DuckDB's on the same file
DUCKDB_TIMES = 1.5
INDEX = "__pycache__/sigbank/index.parquet"

SEARCH = """
import sys, time
module, path = sys.argv[1:]
if module == "jbof":
    import jbof
else:
    from sigbank import jbof
def seconds():
    start = time.perf_counter()
    found = [item.metadata for item in dataset().find_items(speaker="s7")]
    return time.perf_counter() - start, len(found)
opened = []
def dataset():
    if not opened:
        opened.append(jbof.DataSet(path))
    return opened[0]
first, found = seconds()
again = min(seconds()[0] for _ in range(5))
print(first, again, found)
"""

MILLION = """
import json, sys, time
from sigbank.query import Table
def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) * 1024
before, start = resident(), time.perf_counter()
table = Table.open(sys.argv[1])
opened = time.perf_counter() - start
found = table.count(sys.argv[2])
first = time.perf_counter() - start
start = time.perf_counter()
table.count(sys.argv[2])
again = time.perf_counter() - start
table.find("metadata['nested'].depth == 3")  # Now all is loaded.
print(json.dumps([opened, first, again, found, len(table), resident() - before, table.memory]))
"""

ADD = """
import sys, time
import numpy as np
module, path, items = sys.argv[1], sys.argv[2], int(sys.argv[3])
if module == "jbof":
    import jbof
else:
    from sigbank import jbof
samples = np.random.default_rng(1).standard_normal(1000).astype("f4")
voice = np.random.default_rng(2).uniform(-0.5, 0.5, 16000)
start = time.perf_counter()
dataset = jbof.create_dataset(path, {"license": "CC0"}, **({"durable": True} if module == "durable" else {}))
for n in range(items):
    item = dataset.add_item(f"i{n:06}", {"speaker": f"s{n % 50}", "take": str(n), "snr": n / 4, "n": n})
    item.add_array("samples", samples, {"unit": "V"})
    if n % 10 == 0:
        item.add_array("voice", voice, {"unit": "1"}, "wav", 16000)
print(time.perf_counter() - start)
"""

READ = """
import sys, time
module, path = sys.argv[1:]
if module == "jbof":
    import jbof
    jbof.getattribute = getattr  # The reference's all_arrays() fails without.
else:
    from sigbank import jbof
start = time.perf_counter()
dataset = jbof.DataSet(path)
total = 0
for item in dataset.all_items():
    for name, array in item.all_arrays():
        total += len(array)
print(time.perf_counter() - start, total)
"""

HASH = """
import sys, time
module, path = sys.argv[1:]
if module == "jbof":
    import jbof
else:
    from sigbank import jbof
start = time.perf_counter()
digest = jbof.DataSet(path).calculate_hash()
print(time.perf_counter() - start, int(digest[:12], 16))
"""

DUCKDB = """
import sys, time, duckdb
connection = duckdb.connect()
best = []
for _ in range(5):
    start = time.perf_counter()
    found = connection.execute(sys.argv[2].replace("FILE", "'" + sys.argv[1] + "'")).fetchall()[0][0]
    best.append(time.perf_counter() - start)
print(best[0], min(best), found)
"""


def python(program: str, *arguments: str, **environment: str) -> list[float]:
    """What a fresh process says."""
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return [float(word) for word in run.stdout.replace(",", " ").strip("[]\n").split()]


def ratio(name: str, pairs: list[tuple[float, float]]) -> None:
    """One line: how many times the second is faster."""
    ratios = sorted(theirs / ours for theirs, ours in pairs)
    theirs, ours = (statistics.median(column) * 1e3 for column in zip(*pairs, strict=True))
    low = "" if statistics.median(ratios) >= TARGETS[name] else "  BELOW THE TARGET"
    print(
        f"  {name:24} reference {theirs:8.1f} ms  ours {ours:8.2f} ms  {statistics.median(ratios):6.1f} times"
        f" ({ratios[0]:.1f} to {ratios[-1]:.1f}; target {TARGETS[name]:g}){low}"
    )


def find(folder: Path, options: argparse.Namespace) -> None:
    """The first and the next search."""
    import jbof  # type: ignore[import-not-found]

    path = folder / "find"
    dataset = jbof.create_dataset(path, {})
    for n in range(options.items):
        dataset.add_item(f"i{n:06}", {"speaker": f"s{n % 50}", "take": str(n), "snr": n / 4, "n": n})
    print(f"find_items over {options.items} items:")
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in SEARCHES}
    python(SEARCH, "sigbank", str(path))  # Makes the folder of the index, and the root older than the steps of the clock.
    for _ in range(options.repetitions):
        theirs = python(SEARCH, "jbof", str(path))
        (path / INDEX).unlink(missing_ok=True)
        without = python(SEARCH, "sigbank", str(path))
        ours = python(SEARCH, "sigbank", str(path))
        assert theirs[2] == without[2] == ours[2] > 0
        assert (path / INDEX).exists()
        measured["first, with the index"].append((theirs[0], ours[0]))
        measured["first, without"].append((theirs[0], without[0]))
        measured["again"].append((theirs[1], ours[1]))
    for name, pairs in measured.items():
        ratio(name, pairs)


def files(folder: Path, options: argparse.Namespace) -> None:
    """Adding items and arrays, reading them all, and the hash."""
    print(f"{options.items} items with an array each, {len(range(0, options.items, 10))} with a second of audio:")
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in FILES}
    durable = []
    for run in range(options.repetitions):
        # Folders of their own, which go at the end with everything: after a large tree was deleted, some filesystems (ext4 without a journal)
        # take ten times as long to create files, and that would be measured as adding.
        theirs, ours, flushed = (str(folder / f"{name}-{run}") for name in ("theirs", "ours", "durable"))
        add = [python(ADD, module, path, str(options.items))[0] for module, path in (("jbof", theirs), ("sigbank", ours))]
        measured["adding"].append((add[0], add[1]))
        if len(durable) < 1:
            durable.append(python(ADD, "durable", flushed, str(max(options.items // 10, 1)))[0] / max(options.items // 10, 1))
        for name, program in (("reading all arrays", READ), ("hash", HASH)):
            # Each twice: what is in memory then is so for both.
            runs = [[python(program, module, path) for _ in range(2)] for module, path in (("jbof", theirs), ("sigbank", ours))]
            assert len({result[1] for both in runs for result in both}) == 1
            measured[name].append((min(result[0] for result in runs[0]), min(result[0] for result in runs[1])))
    for name, pairs in measured.items():
        ratio(name, pairs)
    print(f"  adding with durable=True: {durable[0] * 1e3:.2f} ms an item")


def million(folder: Path, options: argparse.Namespace) -> None:
    """An expression over two keys of a table in a file."""
    from sigbank.query import Table

    def records() -> Iterator[tuple[str, str]]:
        for n in range(options.records):
            metadata: dict[str, Any] = {"snr": n % 997 / 4, "speaker": f"s{n % 101}", "session": n // 1000, "take": f"take {n}"}
            if n % 100 == 0:
                metadata["nested"] = {"depth": n % 7}
            yield f"i{n:07}", json.dumps(metadata)

    path = folder / "million.parquet"
    Table.from_json(records()).save(path)
    runs = [python(MILLION, str(path), "snr > 200 and speaker == 's7'") for _ in range(options.repetitions)]
    opened, first, again, found, count, resident, memory = (statistics.median(column) for column in zip(*runs, strict=True))
    print(f"{count:.0f} records in {path.stat().st_size / 1e6:.1f} MB:")
    print(f"  opened in {opened * 1e3:.0f} ms; an expression over two keys, opening included {first * 1e3:.0f} ms, again {again * 1e3:.1f} ms")
    print(f"  memory with everything loaded {resident / count:.0f} bytes a record ({memory / count:.0f} in the table; target below 1000)")
    try:
        import duckdb  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        print("  DuckDB is not installed, and left out")
        return
    query = "SELECT count(*) FROM FILE WHERE snr > 200 AND speaker = 's7'"
    theirs = [python(DUCKDB, str(path), query) for _ in range(options.repetitions)]
    assert theirs[0][2] == found
    for name, ours, duck in [("first", first, [t[0] for t in theirs]), ("again", again, [t[1] for t in theirs])]:
        times = ours / statistics.median(duck)
        low = "  BEYOND IT" if times > DUCKDB_TIMES else ""
        print(f"  DuckDB on the same file, {name}: {statistics.median(duck) * 1e3:.1f} ms; ours takes {times:.1f} times that (limit {DUCKDB_TIMES:g}){low}")


MEASURES: dict[str, Callable[[Path, argparse.Namespace], None]] = {"files": files, "find": find, "million": million}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"of {', '.join(MEASURES)} [default: all]")
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to work [default: a temporary folder]")
    options = parser.parse_args()
    if unknown := set(options.measures) - set(MEASURES):
        parser.error(f"no such measure: {', '.join(unknown)}")
    folder = Path(tempfile.mkdtemp(prefix="bench-jbof-", dir=options.folder))
    try:
        for name in options.measures or MEASURES:
            MEASURES[name](folder, options)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
