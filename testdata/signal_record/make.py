"""Writes golden records with the reference package (signal-dataset 0.4.0), and what they hold.

    python make.py                  adds the files that are missing
    python make.py --replace        writes all anew

records.jsonl has one record a line: its bytes (`payload`, in hex) and its document of the metadata shard (`document`), both from the
reference; what it was made of (`record`; samples in hex, C order, little-endian); and the smallest limits with which the reference
reads it (`limits`). The record `golden` is the one whose bytes the format's specification makes normative.
refused.jsonl has descriptors (in the record that is described there) with whether the reference reads them (`read`).
floats.txt has doubles as the 16 hex digits of their bits, and as Python writes them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import signal_dataset as sds
from signal_dataset import Axis, Coordinate, Field, Record

HERE = Path(__file__).parent
DTYPES = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8".split()
METADATA: dict[str, Any] = {
    "text": 'é😀\u2028"\\/\n\r\t\b\f\x00\x1f\x7f',
    "big": 10**40,
    "negative": -(10**30),
    "floats": [1e-07, 1.0, -0.0, 1e16, 1e22, 123456789.125, 5e-324, 1.7976931348623157e308, 0.1, 1e-4, 1e-5],
    "nested": [[], {}, [None, True, False, {"z": 1, "a": [2], "é": 3, "Z": 4}]],
    "": "empty key",
    "😀": "a key beyond the basic plane",
    "\uffff": "the last of the basic plane",
}
COORDINATES: dict[str, Coordinate | None] = {
    "none": None,
    "empty": Coordinate(),
    "unit": Coordinate(unit="s", metadata={"a": [1, {"b": None}]}),
    "values": Coordinate(values=(0, 0.5, None), unit="Hz"),
    "mixed values": Coordinate(values=("a,b:c", [1, [2.0]], True)),
    "linear": Coordinate(start=0, step=1 / 20_000_000, unit="s"),
    "whole": Coordinate(start=-(10**20), step=10**20),
    "reference to a field": Coordinate(reference="signal"),
    "reference to an axis": Coordinate(reference="shared"),
    "empty reference": Coordinate(reference="", unit=""),
}
LIMITS = "max_encoded_record_bytes max_descriptor_bytes max_metadata_bytes max_json_depth max_json_nodes max_fields".split()


def samples(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    if dtype == "?":
        return (np.arange(count) % 3 == 0).reshape(shape)
    if dtype[0] == "c":
        return (np.arange(count) - 1j * np.arange(count) / 4).astype("c8").reshape(shape)
    return (np.arange(count) * 7 % 101).astype(dtype).reshape(shape)


def field(dtype: str, shape: tuple[int, ...], *coordinates: Coordinate | None, **metadata: Any) -> Field:
    padded = (*coordinates, *[None] * len(shape))
    axes = [Axis(f"axis {i}", n, coordinate=c) for i, (n, c) in enumerate(zip(shape, padded))]
    return Field(samples(dtype, shape), tuple(axes), metadata)


def records() -> dict[str, Record]:
    out: dict[str, Record] = {}
    golden = Field(np.array([1, 2, 3], "f4"), (Axis("time", 3),))
    out["golden"] = Record("golden", {"signal": golden}, metadata={"kind": "fixture"})
    for dtype in DTYPES:
        for shape in [(3,), (2, 3), (2, 1, 3), (0,), (2, 0, 3)]:
            out[f"{dtype} {shape}"] = Record(f"{dtype}", {"signal": field(dtype, shape)}, "scene")
    for name, coordinate in COORDINATES.items():
        fields = {"signal": field("c8", (2, 3), None, coordinate), "other": Field(samples("f8", (3,)), (Axis("t", 3, id="shared"),))}
        out[f"coordinate {name}"] = Record(name, fields)
        for dtype in DTYPES:
            out[f"coordinate {name} {dtype}"] = Record(name, {"signal": field(dtype, (3,), coordinate), "other": fields["other"]})
    everything = {f"{kind} {i:02}": field(dtype, (i % 4 + 1,)) for i, dtype in enumerate(DTYPES) for kind in "zaé😀\uffff"}
    out["every dtype"] = Record("every dtype", everything, metadata=METADATA)
    shared = Coordinate(start=0, step=0.25, unit="s", metadata={"clock": "gps"})
    same = Coordinate(start=0.0, step=0.25, unit="s", metadata={"clock": "gps"})
    axis = Axis("time", 4, "sample", "t0", shared, {"note": METADATA})
    out["shared axis"] = Record(
        'id "é"\n',
        {
            "a": Field(samples("i2", (2, 4)), (Axis("channel", 2, "", ""), axis), {"unit": "V", "more": METADATA}),
            "b": Field(samples("f2", (4,)), (dataclasses.replace(axis, name="other", role=None, coordinate=same, metadata={}),)),
        },
        "",
        METADATA,
    )
    out["deep"] = Record("deep", {"x": field("u1", (1,))}, metadata={"a": json.loads("[" * 125 + "1" + "]" * 125)})
    return out


def described(coordinate: Coordinate | None) -> Any:
    if coordinate is None:
        return None
    return {f.name: thawed(getattr(coordinate, f.name)) for f in dataclasses.fields(coordinate)}


def thawed(value: Any) -> Any:
    if hasattr(value, "items"):
        return {k: thawed(v) for k, v in value.items()}
    return [thawed(v) for v in value] if isinstance(value, (tuple, list)) else value


def what(record: Record) -> dict[str, Any]:
    def one(name: str, field: Field) -> dict[str, Any]:
        axes = [
            {**{k: getattr(a, k) for k in ("name", "length", "role", "id")}, "coordinate": described(a.coordinate), "metadata": thawed(a.metadata)}
            for a in field.axes
        ]
        data = field.data
        return {"name": name, "dtype": data.dtype.str, "shape": data.shape, "data": data.tobytes().hex(), "axes": axes, "metadata": thawed(field.metadata)}

    fields = [one(name, field) for name, field in record.fields.items()]
    return {"id": record.id, "scene_id": record.scene_id, "metadata": thawed(record.metadata), "fields": fields}


def document(record: Record) -> bytes:
    fields = {name: sds.FieldMetadata(f.data.dtype.str, f.data.shape, f.axes, f.metadata) for name, f in record.fields.items()}
    return sds.record.RecordMetadataCodec().encode(sds.RecordMetadata(record.id, fields, record.scene_id, record.metadata))


def smallest(payload: bytes, name: str) -> int:
    low, high = -1, 1 << 20
    while high - low > 1:
        middle = (low + high) // 2
        try:
            sds.decode(payload, policy=sds.ResourcePolicy(**{name: middle}))
            high = middle
        except sds.ValidationError:
            low = middle
    return high


def records_jsonl() -> str:
    lines = []
    for name, record in records().items():
        payload = sds.encode(record)
        limits = {limit: smallest(payload, limit) for limit in LIMITS}
        line = {"name": name, "payload": payload.hex(), "document": document(record).decode(), "record": what(record), "limits": limits}
        lines.append(json.dumps(line, ensure_ascii=False))
    return "\n".join(lines) + "\n"


# Parts of a descriptor in which something else stands, and what: JSON text, or None where the key is left out.
DESCRIPTOR = (
    '{"fields":{"x":{"axes":[{"coordinate":{"metadata":{},"reference":null,"start":null,"step":null,"unit":null,"values":null},'
    '"id":null,"length":3,"metadata":{},"name":"t","role":null}],"metadata":{},"tensor":"tensor_000000"}},'
    '"format":"signal-dataset.record","id":"r","metadata":{},"scene_id":null,"version":"0.1"}'
)
AXIS = ("fields", "x", "axes", 0)
PATHS: list[tuple[Any, ...]] = [
    *[(key,) for key in ("format", "version", "id", "scene_id", "metadata", "fields", "new")],
    *[("fields", "x", key) for key in ("axes", "metadata", "tensor", "new")],
    *[(*AXIS, key) for key in ("coordinate", "id", "length", "metadata", "name", "role", "new")],
    *[(*AXIS, "coordinate", key) for key in ("metadata", "reference", "start", "step", "unit", "values", "new")],
]
TEXTS = (
    'null 3 3.0 -3 3.5 1e400 -1e400 1.7976931348623159e308 1180591620717411303424 true "" "s" "x" "0.1" "tensor_000000" [] {} [1] [1,2,3]'
    ' {"a":1} {"a":1,"a":1} {"a":{"b":1,"c":2,"b":3}} NaN Infinity -Infinity -0 -0.0 1E5 1e-400 00 01 1. .5 +1 1_0 nul True "\\ud800"'
    ' "\\udc00\\ud800" "\\ud83d\\ude00" "\\u0000" "\\x" "\\/" [1,] {"a":1,} {a:1} \'a\' "\x01" "\x7f" /**/1'
).split(" ")
LONG = ["9" * 4300, "9" * 4301, "-" + "9" * 4300, "[" * 126 + "]" * 126, "[" * 127 + "]" * 127, "[" * 2000 + "]" * 2000]


def replaced(path: tuple[Any, ...], text: str | None) -> str:
    mark = "2f9a"
    document = json.loads(DESCRIPTOR)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    if text is None:
        inner.pop(path[-1], None)
        return json.dumps(document, ensure_ascii=False)
    inner[path[-1]] = mark
    return json.dumps(document, ensure_ascii=False).replace(f'"{mark}"', text)


def payload(descriptor: bytes) -> bytes:
    n = len(descriptor)
    header: dict[str, Any] = {"tensor_000000": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}
    header["__sds_descriptor__"] = {"dtype": "U8", "shape": [n], "data_offsets": [12, 12 + n]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(12) + descriptor


def read(descriptor: str) -> bool:
    try:
        sds.decode(payload(descriptor.encode()))
    except sds.ValidationError:
        return False
    return True


def refused_jsonl() -> str:
    cases = [(path, text) for path in PATHS for text in (None, *TEXTS)]
    cases += [(("metadata",), '{"a":%s}' % text) for text in LONG]
    texts = [replaced(*case) for case in cases]
    texts += [DESCRIPTOR, DESCRIPTOR + " \n\t\r", DESCRIPTOR + "x", DESCRIPTOR + "\f", DESCRIPTOR[:-1], "", "null", "[]", "3", "\n" + DESCRIPTOR]
    return "".join(json.dumps({"descriptor": text, "read": read(text)}) + "\n" for text in texts)


def floats_txt() -> str:
    rng = random.Random(4)
    numbers = [0.0, -0.0, 1.0, 0.1, 1e15, 1e16, 1e17, 9999999999999998.0, 1e-4, 9.999e-5, 1e-5, 5e-324, 2.2250738585072014e-308]
    numbers += [1.7976931348623157e308, 2.0**53, 2.0**53 + 2, 1e22, 1e23, 123456.0, 100.0, 0.001, 1 / 3, 2 / 3, 1e100]
    numbers += [10.0**e * m for e in range(-25, 26) for m in (1, -2.5, 1.2345678901234567)]
    while len(numbers) < 700:
        (x,) = struct.unpack("<d", rng.randbytes(8))
        numbers += [x] if abs(x) < float("inf") else []
    return "".join(f"{struct.unpack('<Q', struct.pack('<d', x))[0]:016x} {x!r}\n" for x in numbers)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replace", action="store_true")
    arguments = parser.parse_args()
    for name, make in {"records.jsonl": records_jsonl, "refused.jsonl": refused_jsonl, "floats.txt": floats_txt}.items():
        if arguments.replace or not (HERE / name).exists():
            (HERE / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
