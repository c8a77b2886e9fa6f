"""The language of searches, and tables of metadata in one file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sigbank import errors
from sigbank.query import Table, check_expression

RECORDS = [
    ("a", {"snr": 3, "speaker": "ann", "tags": ["x"], "deep": {"b c": 1.5}}),
    ("b", {"snr": 12.5, "speaker": "bob", "big": 2**70 + 1, "voiced": True}),
    ("c", {"speaker": "ann\n", "voiced": None, "in": "é"}),
]

FOUND = [
    ("snr > 10 and speaker in ['ann', 'bob']", "b"),
    ("snr <= 3.0", "a"),
    ("not snr == 3", "bc"),
    ("snr != 3", "b"),
    (f"big == {2**70 + 1}", "b"),
    (f"big == {2**70}", ""),
    ("voiced == 1", "b"),
    ("voiced is_not = 1", None),
    ("exists(voiced) and voiced == None", "c"),
    ("tags contains 'x' or deep['b c'] > 2", "a"),
    ("metadata['in'] like '_' and speaker endswith '\\n'", "c"),
    ("speaker matches r'^a\\w+$'", "a"),
    ("id in ('a', 'c') and not exists(snr)", "c"),
]


def table() -> Table:
    return Table.from_json((name, json.dumps(metadata)) for name, metadata in RECORDS)


@pytest.mark.parametrize(("expression", "expected"), FOUND)
def test_what_is_found(tmp_path: Path, expression: str, expected: str | None) -> None:
    made = table()
    made.save(tmp_path / "t.parquet")
    for one in [made, Table.open(tmp_path / "t.parquet")]:
        if expected is None:
            with pytest.raises(errors.InvalidError):
                one.find(expression)
        else:
            assert one.find(expression) == list(expected)
            assert one.count(expression) == len(expected)
            assert one.find(check_expression(expression)) == list(expected)
    assert len(made) == 3


def test_the_message_points_at_the_place() -> None:
    with pytest.raises(errors.InvalidError) as caught:
        check_expression("snr > 3 and speaker ann")
    lines = str(caught.value).splitlines()
    assert "column 21: expected a comparison" in lines[0]
    assert lines[1] == "  snr > 3 and speaker ann"
    assert lines[2].index("^") == lines[1].index("ann")


def test_duckdb_reads_the_file(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    table().save(tmp_path / "t.parquet")
    file = str(tmp_path / "t.parquet")
    rows = duckdb.sql(f"SELECT id, snr, speaker, voiced, metadata FROM '{file}' ORDER BY ordinal").fetchall()
    assert [row[:3] for row in rows] == [("a", 3.0, "ann"), ("b", 12.5, "bob"), ("c", None, "ann\n")]
    assert [row[3] for row in rows] == [None, True, None]
    assert json.loads(rows[1][4]) == RECORDS[1][1]


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.CorruptError, match=r"the metadata of 'x'|the metadata of \"x\""):
        Table.from_json([("x", "{")])
    with pytest.raises(errors.NotFoundError):
        Table.open(tmp_path / "none")
    (tmp_path / "bad").write_bytes(b"PAR1 or so")
    with pytest.raises(errors.CorruptError, match="bad"):
        Table.open(tmp_path / "bad")
