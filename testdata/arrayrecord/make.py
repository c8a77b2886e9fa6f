"""Writes the golden ArrayRecord files with the package array_record (0.8.6), and has it read ours.

    python make.py                  adds the files that are missing, and files.json
    python make.py --replace        writes all anew
    python make.py --check FOLDER   the package reads the files of FOLDER as the files.json there says

files.json says for each file with which options it was written, and each record's length and SHA-256. The files lie here compressed
with gzip, for most of their bytes are padding. edges.json holds, for a first record of each length around a block's end, the SHA-256 of the
package's uncompressed file. seeds/ holds the chunks of small files, without what lies around them, as the fuzz target takes them. `cargo test -p sigbank-format --test arrayrecord_golden -- --ignored` writes files of ours into the folder
that ARRAYRECORD_OURS names.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.metadata
import json
import tempfile
from pathlib import Path

from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

HERE = Path(__file__).parent


def pattern(length: int, step: int) -> bytes:
    """Bytes that compress well; the tests make the same."""
    return bytes((i * step + i // 256) % 251 for i in range(length))


def noise(length: int) -> bytes:
    """Bytes that do not compress."""
    blocks = (hashlib.sha256(n.to_bytes(4, "little")).digest() for n in range(-(-length // 32)))
    return b"".join(blocks)[:length]


def mixed() -> list[bytes]:
    """Empty records in several places, and records of many blocks."""
    sizes = [0, 1, 300, 0, 65_512, 7, 65_536, 0, 200_000, 70_000, 1_300_000, 0, 2_000, 1_440_000]
    records = [pattern(n, i + 1) for i, n in enumerate(sizes)]
    records += [pattern(17 * i % 1000, i) for i in range(69)]
    return [*records, b""]


RECORDS = {
    "mixed": mixed(),
    "noise": [noise(70_000), noise(10), b"", noise(3_000)],
    "none": [],
    "empty": [b""],
    "empty5000": [b""] * 5_000,
    "empty200000": [b""] * 200_000,
    "many": [b"%d" % i for i in range(3_000)],
}
# Name of the file, name of its records, options.
FILES = [
    ("default", "mixed", ""),
    ("zstd1", "mixed", "group_size:1"),
    ("zstd16", "mixed", "group_size:16,zstd:3"),
    ("plain1", "mixed", "group_size:1,uncompressed"),
    ("plain16", "mixed", "group_size:16,uncompressed"),
    ("brotli1", "mixed", "group_size:1,brotli:6"),
    ("brotli16", "mixed", "group_size:16,brotli:6"),
    ("snappy1", "mixed", "group_size:1,snappy"),
    ("snappy16", "mixed", "group_size:16,snappy"),
    ("window7", "mixed", "group_size:7,zstd:19,window_log:22"),
    ("padded4", "mixed", "group_size:4,pad_to_block_boundary:true"),
    ("padded4_plain", "mixed", "group_size:4,pad_to_block_boundary:true,uncompressed"),
    ("fast", "mixed", "group_size:3,zstd:-5"),
    ("noise_zstd", "noise", "group_size:1"),
    ("noise_brotli", "noise", "group_size:2,brotli:1"),
    ("noise_snappy", "noise", "group_size:3,snappy"),
    ("none", "none", ""),
    ("none_plain", "none", "uncompressed"),
    ("empty", "empty", ""),
    ("empty_plain", "empty", "uncompressed"),
    ("empty5000", "empty5000", "group_size:5000"),
    ("empty200000", "empty200000", "group_size:200000"),
    ("empty200000_plain", "empty200000", "group_size:200000,uncompressed"),
    ("many", "many", ""),
    ("many_plain", "many", "uncompressed"),
    ("transposed", "mixed", "group_size:16,transpose:true"),
]


def written(records: list[bytes], options: str) -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.arrayrecord"
        writer = ArrayRecordWriter(str(path), options)
        for record in records:
            writer.write(record)
        writer.close()
        reader = ArrayRecordReader(str(path))
        assert reader.ok() and reader.read_all() == records
        said = reader.writer_options_string()
        reader.close()
        return path.read_bytes(), said


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def seed(file: bytes) -> bytes:
    """The chunks of a file up to its index: a byte that says so, then of each the type, counts and data (see the fuzz target)."""
    out, at = b"\1", 64
    while at < len(file) - 65_536:
        size, kind = int.from_bytes(file[at + 8 : at + 16], "little"), file[at + 24]
        records, decoded = (int.from_bytes(file[at + a : at + b], "little") for a, b in ((25, 32), (32, 40)))
        if kind == ord("p"):
            break
        data = file[at + 40 : at + 40 + size]
        at += max(40 + size, records)
        assert at < 65_536, "a file of one block"
        out += bytes([kind]) + varint(records) + varint(decoded) + varint(size) + data
    return out


def facts(record: bytes) -> list[object]:
    return [len(record), hashlib.sha256(record).hexdigest()]


def write(replace: bool) -> None:
    said: dict[str, object] = {"written_by": f"array_record {importlib.metadata.version('array_record')}", "files": {}}
    for name, records, options in FILES:
        data, text = written(RECORDS[records], options)
        path = HERE / f"{name}.arrayrecord.gz"
        if replace or not path.exists():
            path.write_bytes(gzip.compress(data, 9, mtime=0))
        said["files"][name] = {"records": records, "options": options, "writer_options": text}  # type: ignore[index]
    small = [b"record", b"", pattern(300, 3), noise(30), b"record", b"\0" * 50]
    for options in ["", "uncompressed", "brotli:6", "snappy", "transpose:true"]:
        for group in (1, 4):
            path = HERE / "seeds" / f"{options.partition(':')[0] or 'zstd'}{group}"
            path.parent.mkdir(exist_ok=True)
            if replace or not path.exists():
                path.write_bytes(seed(written(small, f"group_size:{group}{',' * bool(options)}{options}")[0]))
    # Record i of "many" is the number i in decimal, those of the other long lists are empty.
    said["records"] = {name: list(map(facts, records)) for name, records in RECORDS.items() if len(records) < 100}
    said["counts"] = {name: len(records) for name, records in RECORDS.items()}
    (HERE / "files.json").write_text(json.dumps(said).replace("}, ", "},\n").replace("], ", "],\n") + "\n")
    if replace or not (HERE / "edges.json").exists():
        edges = {}
        for length in range(65_400, 65_641):
            data, _ = written([pattern(length, 7), pattern(100, 3), pattern(130_000, 5)], "uncompressed")
            edges[length] = hashlib.sha256(data).hexdigest()
        (HERE / "edges.json").write_text(json.dumps(edges, indent=0) + "\n")


def check(folder: Path) -> None:
    for name, wanted in json.loads((folder / "files.json").read_text()).items():
        reader = ArrayRecordReader(str(folder / name))
        assert reader.ok(), name
        assert reader.writer_options_string() == wanted["writer_options"], name
        expected = wanted["records"]
        assert reader.num_records() == len(expected), name
        assert list(map(facts, reader.read_all())) == expected, name
        if expected:
            order = list(range(len(expected)))[::-7]
            assert list(map(facts, reader.read(order))) == [expected[i] for i in order], name
            assert list(map(facts, reader.read(0, len(expected)))) == expected, name
            reader.seek(len(expected) - 1)
            assert facts(reader.read()) == expected[-1], name
        assert reader.ok(), name
        reader.close()
        print("read", name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replace", action="store_true")
    parser.add_argument("--check", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.check:
        check(arguments.check)
    else:
        write(arguments.replace)


if __name__ == "__main__":
    main()
