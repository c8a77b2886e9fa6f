"""Writes the golden Sedpack datasets with the reference package (sedpack 0.2.0, NumPy 2).

    python make_golden.py            adds the datasets that are missing
    python make_golden.py --replace NAME…   writes those anew

Each dataset is a directory; beside it NAME.json holds what was written, by split and in order. A value there is
{"int": n}, {"str": text}, {"bytes": hex} or an array {"dtype": little-endian NumPy dtype, "shape": […], "hex": its bytes in
C order}. Directory and file names within a dataset are random, so a rewritten one differs in them and in its checksums.
"""

from __future__ import annotations

import argparse
import json
import shutil
import typing
from pathlib import Path
from typing import Any

import numpy as np
import sedpack
from golden_kinds import KINDS
from sedpack.io import Attribute, Dataset, DatasetFiller, DatasetStructure, Metadata
from sedpack.io.types import HashChecksumT

HERE = Path(__file__).parent
FB_COMPRESSIONS = ["", "GZIP", "ZLIB", "BZ2", "LZMA", "LZ4", "ZSTD"]


def recorded(dtype: str, value: Any) -> dict[str, Any]:
    """`value` as NAME.json holds it."""
    if dtype == "int":
        return {"int": int(value)}
    if dtype == "str":
        return {"str": value}
    if dtype == "bytes":
        return {"bytes": bytes(value).hex()}
    array = np.asarray(value)
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).reshape(array.shape)
    return {"dtype": array.dtype.str, "shape": list(array.shape), "hex": array.tobytes().hex()}


class Golden:
    """A dataset being written, and the record of what went into it."""

    def __init__(self, name: str, kinds: list[str], **structure: Any) -> None:
        self.path = HERE / name
        self.kinds = kinds
        self.record: dict[str, list[dict[str, Any]]] = {}
        self.dataset = Dataset.create(
            self.path,
            Metadata(description=f"golden: {name} é", custom_metadata={"seed": 7, "nested": {"a": [1, 2.5, None]}}),
            DatasetStructure(
                saved_data_description=[
                    Attribute(name=k, dtype=KINDS[k][0], shape=KINDS[k][1], custom_metadata={"unit": "V"} if i == 0 else {})
                    for i, k in enumerate(kinds)
                ],
                **{"examples_per_shard": 3, **structure},
            ),
        )

    def write(self, context: Any, index: int, split: str = "train", custom_metadata: dict[str, Any] | None = None) -> None:
        values = {name: KINDS[name][2](index) for name in self.kinds}
        context.write_example(values, split, custom_metadata)
        self.record.setdefault(split, []).append({k: recorded(KINDS[k][0], v) for k, v in values.items()})

    def session(self, indexes: typing.Iterable[int], split: str = "train") -> None:
        with self.dataset.filler(concurrency=1) as context:
            for index in indexes:
                self.write(context, index, split)

    def done(self) -> None:
        self.dataset.check(show_progressbar=False)
        facts = {
            "written_by": f"sedpack {sedpack.__version__}",
            "root_checksums": list(self.dataset.current_metadata_checksums()),
            "shards": {
                split: [
                    {"number_of_examples": s.number_of_examples, "custom_metadata": s.custom_metadata}
                    for s in self.dataset.shard_info_iterator(split)
                ]
                for split in self.dataset.dataset_info.splits
            },
            "splits": self.record,
        }
        self.path.with_suffix(".json").write_text(json.dumps(facts, ensure_ascii=False) + "\n")


SMALL = ["float32", "text", "number"]


def kinds(compression: str) -> typing.Callable[[str], None]:
    def write(name: str) -> None:
        golden = Golden(name, list(KINDS), compression=compression)
        golden.session(range(4))
        golden.done()

    return write


def checksums(name: str) -> None:
    golden = Golden(name, SMALL, compression="", hash_checksum_algorithms=typing.get_args(HashChecksumT))
    golden.session(range(4))
    golden.done()


def appended(name: str) -> None:
    golden = Golden(name, SMALL, compression="LZ4")
    golden.session(range(4))
    golden.session(range(4, 5))
    golden.session(range(5, 9))
    golden.done()


def splits(name: str) -> None:
    golden = Golden(name, SMALL, compression="ZSTD", examples_per_shard=2)
    with golden.dataset.filler(concurrency=1) as context:
        for index in range(11):
            golden.write(context, index, ["test", "train", "holdout"][index % 3])
    golden.session(range(11, 14), "holdout")
    golden.done()


def shard_metadata(name: str) -> None:
    golden = Golden(name, SMALL, compression="")
    with golden.dataset.filler(concurrency=1) as context:
        for index in range(9):
            metadata = {"key": [index // 2, 255], "label": "é", "deep": {"x": None, "big": 2**60 + index // 2}}
            golden.write(context, index, "train", metadata)
    golden.done()


def workers(name: str) -> None:
    golden = Golden(name, SMALL, compression="GZIP", examples_per_shard=2)
    for worker in range(2):
        filler = DatasetFiller(golden.dataset, relative_path_from_split=Path(f"part_{worker}/a"))
        with filler as context:
            for index in range(worker * 10, worker * 10 + 3):
                golden.write(context, index)
    golden.done()


def empty(name: str) -> None:
    Golden(name, SMALL).done()


DATASETS: dict[str, typing.Callable[[str], None]] = {
    **{f"kinds-{compression.lower() or 'none'}": kinds(compression) for compression in FB_COMPRESSIONS},
    "checksums": checksums,
    "appended": appended,
    "splits": splits,
    "shard-metadata": shard_metadata,
    "workers": workers,
    "empty": empty,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replace", nargs="+", default=[], choices=list(DATASETS), metavar="NAME")
    replaced = parser.parse_args().replace
    for name, write in DATASETS.items():
        path = HERE / name
        if path.exists() and name not in replaced:
            continue
        shutil.rmtree(path, ignore_errors=True)
        write(name)
        print("wrote", name)


if __name__ == "__main__":
    main()
