"""Datasets in buckets while the network and the service fail, by a proxy in front of a real server.

Of each case: what was written and read is exactly right, or it stops with an error that names the object and the cause, and then
nothing is lost or doubled: done once more without faults, it succeeds.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sigbank.signal_dataset as sds
from cloud_cases import (  # noqa: F401
    COUNT,
    CREATES,
    EXPECTED,
    SWAPS,
    UNAVAILABLE,
    Fault,
    Place,
    Sedpack,
    SignalDataset,
    both,
    params,
    place,
    s3,
)
from signal_cases import needs_reference

SOAK = Path(__file__).parents[2] / "scripts" / "soak_signal.py"


def expired(skip: int) -> Fault:
    return {"fault": "status", "status": 400, "code": "ExpiredToken", "skip": skip}


# What passes, and runs are to end as if it had not been.
WHILE_READING: dict[str, list[Fault]] = {
    "a fifth refused": [UNAVAILABLE],
    "reset in the middle": [{"fault": "reset", "after": 900, "method": "GET", "fraction": 0.2}],
    "cut short": [{"fault": "truncate", "after": 700, "method": "GET", "fraction": 0.2}],
    "hangs": [{"fault": "hang", "method": "GET", "skip": 2, "times": 1}],
    "hangs in the middle": [{"fault": "hang", "after": 900, "method": "GET", "skip": 2, "times": 1}],
    "all at once": [UNAVAILABLE, *({"fault": f, "after": 500, "method": "GET", "fraction": 0.1} for f in ("reset", "truncate"))],
}
WHILE_WRITING: dict[str, list[Fault]] = {
    "a fifth refused": [UNAVAILABLE],
    "reset": [
        {"fault": "reset", "after": 100, "of": "request", "method": "PUT", "skip": 1, "fraction": 0.2},
        {"fault": "reset", "after": 0, "method": "GET|PUT", "fraction": 0.2},
    ],
    "creates done, told otherwise": [
        {"fault": "lose_reply", **CREATES, "fraction": 0.2},
        {"fault": "replace", "status": 500, **CREATES, "fraction": 0.2},
    ],
    "the reply to the first creates lost": [{"fault": "lose_reply", **CREATES, "times": 3}],
    "undecided": [{"fault": "status", "status": 409, "code": "ConditionalRequestConflict", "method": "PUT", "skip": 3, "times": 1}],
    "hangs": [{"fault": "hang", "method": "PUT", "skip": 3, "times": 1}],
    "any reply lost": [{"fault": "lose_reply", "fraction": 0.2}],
    # A proxy on the way that sends a request once more: the first answer that is seen is that of the second.
    "told that another was first": [
        {"fault": "replace", "status": 412, "code": "PreconditionFailed", **CREATES, "skip": 3, "fraction": 0.3},
        {"fault": "replace", "status": 412, "code": "PreconditionFailed", **SWAPS, "fraction": 0.5},
    ],
}


@both
@params(WHILE_READING)
def test_reading_ends_right(s3: Place, layout: Any, faults: list[Fault]) -> None:
    s3 = s3.holding(layout)
    s3.proxy.set(*faults)
    assert layout.read(s3.root, s3.given(timeout="0.6", retries="12", retry_pause="0.01")) == EXPECTED
    layout.check(s3.root, s3.given(timeout="0.6", retries="12", retry_pause="0.01"))
    assert all(s3.proxy.hits()), "a fault that was done to no request proves nothing"


@both
@params(WHILE_WRITING)
def test_writing_ends_right(s3: Place, layout: Any, faults: list[Fault]) -> None:
    s3.proxy.set(*faults)
    layout.write(s3.root, s3.given(timeout="0.6", retries="12", retry_pause="0.01"))
    done = s3.proxy.hits()
    # A signal-dataset is published without replacing anything.
    assert done[0] if faults[-1].get("header") == SWAPS["header"] and layout is SignalDataset else all(done), "proves nothing"
    s3.proxy.set()
    assert layout.read(s3.root, s3.options) == EXPECTED
    layout.check(s3.root, s3.options)


def test_a_swap_whose_reply_is_lost_is_done_once(s3: Place) -> None:
    """Sedpack's root, and the catalog of annotations."""
    s3.proxy.set({"fault": "lose_reply", **SWAPS, "times": 2})
    Sedpack.write(s3.root, s3.options)
    assert s3.proxy.hits() == [2]
    s3.proxy.set()
    assert Sedpack.read(s3.root, s3.options) == EXPECTED
    root = f"{s3.root}/signals"
    SignalDataset.write(root, s3.options)
    dataset = sds.open(root, storage_options=s3.options)
    rows = [sds.AnnotationRecord(f"r{n}", n, sds.AnnotationStatus.SUCCESS, {"k": n}) for n in range(COUNT)]
    sds.publish_annotations(dataset, "first", rows)
    for fault in ({"fault": "lose_reply"}, {"fault": "replace", "status": 500}):
        s3.proxy.set({**fault, **SWAPS, "times": 1})
        sds.publish_annotations(dataset, fault["fault"], rows)
        assert s3.proxy.hits() == [1]
    s3.proxy.set()
    catalog = sds.open(root, storage_options=s3.options).annotations
    assert sorted(catalog) == ["first", "lose_reply", "replace"]
    assert all([row.values["k"] for row in catalog[name]] == list(range(COUNT)) for name in catalog)


def refused(done: Callable[[], object], root: str, cause: str) -> str:
    """The message of an error that names an object below the root, and the cause."""
    with pytest.raises((OSError, ValueError, RuntimeError)) as caught:
        done()
    message = str(caught.value)
    assert re.search(rf"{re.escape(root)}/\S*\w", message), f"names no object: {message}"
    assert re.search(cause, message), f"does not tell the cause ({cause}): {message}"
    return message


# What does not pass: the error tells it.
READING_STOPS: dict[str, tuple[list[Fault], str]] = {
    "refused": ([{"fault": "status", "status": 503, "code": "SlowDown", "skip": 2}], "503|SlowDown"),
    "forbidden": ([{"fault": "status", "status": 403, "code": "AccessDenied", "skip": 2}], "AccessDenied|permission"),
    "expired": ([expired(2)], "ExpiredToken"),
    "reset": ([{"fault": "reset", "after": 50, "method": "GET", "skip": 2}], "connection|reset|body"),
    "cut short": ([{"fault": "truncate", "after": 0, "method": "GET", "skip": 2}], "bytes|ended|body|connection"),
    "hangs": ([{"fault": "hang", "method": "GET", "skip": 2}], "timeout|nothing|seconds|s without"),
    "another answer": ([{"fault": "status", "status": 200, "body": "<html>log in</html>", "method": "GET", "skip": 1}], "."),
}


@both
@pytest.mark.parametrize("case", list(READING_STOPS))
def test_reading_stops_and_tells(s3: Place, layout: Any, case: str) -> None:
    faults, cause = READING_STOPS[case]
    s3 = s3.holding(layout)
    s3.proxy.set(*faults)
    refused(lambda: layout.read(s3.root, s3.given(timeout="0.3", retries="1", retry_pause="0.01")), s3.root, cause)
    s3.proxy.set()
    assert layout.read(s3.root, s3.options) == EXPECTED


# From some request on nothing works: in the probe, in shards, at the root.
WRITING_STOPS: dict[str, tuple[list[Fault], str]] = {
    "refused in the probe": ([{"fault": "status", "status": 503, "code": "SlowDown", "skip": 1}], "503|SlowDown"),
    "refused later": ([{"fault": "status", "status": 503, "code": "SlowDown", "skip": 7}], "503|SlowDown"),
    "expired": ([expired(5)], "ExpiredToken"),
    "hangs": ([{"fault": "hang", "method": "PUT", "skip": 5}], "timeout|nothing|seconds"),
    "every reply lost": ([{"fault": "lose_reply", "method": "PUT", "skip": 4}], "connection|reply|answer"),
}


@both
@pytest.mark.parametrize("case", list(WRITING_STOPS))
def test_writing_stops_and_goes_on(s3: Place, layout: Any, case: str) -> None:
    faults, cause = WRITING_STOPS[case]
    s3.proxy.set(*faults)
    if case == "every reply lost":
        # Whether it was written can be found out by reading, so that it may end well.
        try:
            layout.write(s3.root, s3.given(timeout="0.3", retries="1", retry_pause="0.01"))
        except (OSError, ValueError, RuntimeError) as error:
            assert s3.root in str(error) and re.search(cause, str(error)), error
    else:
        # What hangs is waited for each time.
        retries = "0" if case == "hangs" else "1"
        refused(lambda: layout.write(s3.root, s3.given(timeout="0.3", retries=retries, retry_pause="0.01")), s3.root, cause)
    s3.proxy.set()
    layout.write(s3.root, s3.options)
    assert layout.read(s3.root, s3.options) == EXPECTED
    layout.check(s3.root, s3.options)


@both
@pytest.mark.parametrize(
    "fault", [{"fault": "ignore_range"}, {"fault": "wrong_range", "shift": 3}, {"fault": "wrong_range", "shift": 3, "hidden": True}]
)
def test_no_other_bytes_are_taken_for_those_asked_for(s3: Place, layout: Any, fault: Fault) -> None:
    s3 = s3.holding(layout)
    s3.proxy.set(fault)
    try:
        assert layout.read(s3.root, s3.given(retries="1", retry_pause="0.01")) == EXPECTED
    except (OSError, ValueError, RuntimeError) as error:
        assert s3.root in str(error) and layout.shards in str(error), error
        if fault["fault"] == "ignore_range":
            # Of the storage, not of the data: nothing there is damaged.
            assert isinstance(error, OSError) and not isinstance(error, ValueError), repr(error)
            assert "ignored the range" in str(error) and "honours the Range header" in str(error), error
    else:
        # It ended right without an error: no range was asked for.
        assert not any(one["range"] for one in s3.proxy.requests())
    s3.proxy.set()
    assert layout.read(s3.root, s3.options) == EXPECTED


@both
def test_a_flipped_bit_is_found(s3: Place, layout: Any) -> None:
    s3 = s3.holding(layout)
    for at in (40, 5_001):
        s3.proxy.set({"fault": "corrupt", "at": at, "method": "GET", "path": layout.shards})
        message = refused(lambda: layout.check(s3.root, s3.options), s3.root, "checksum|digest|hash|sha256|CRC|crc")
        assert layout.shards in message and s3.proxy.hits() != [0]
    s3.proxy.set()
    layout.check(s3.root, s3.options)


@both
def test_without_conditions_nothing_is_written(s3: Place, layout: Any) -> None:
    s3.proxy.set({"fault": "ignore_conditions"})
    refused(lambda: layout.write(f"{s3.root}/refused", s3.options), s3.root.rpartition("/")[0], "condition")
    s3.proxy.set()
    with pytest.raises(FileNotFoundError):
        layout.read(f"{s3.root}/refused", s3.options)
    layout.write(s3.root, s3.options)
    assert layout.read(s3.root, s3.options) == EXPECTED


@both
def test_on_each_service(place: Place, layout: Any) -> None:
    """The short form: of whole runs each fault, of writing and then of reading."""
    hard = place.given(timeout="0.6", retries="12", retry_pause="0.01")
    place.proxy.set(
        {"fault": "lose_reply", "method": "PUT", "skip": 3, "times": 2},
        {"fault": "reset", "after": 100, "of": "request", "method": "PUT", "skip": 5, "times": 1},
        {**UNAVAILABLE, "status": 503},
    )
    layout.write(place.root, hard)
    assert all(place.proxy.hits())
    place.proxy.set(*({"fault": f, "after": 500, "method": "GET", "fraction": 0.2} for f in ("reset", "truncate")), UNAVAILABLE)
    assert layout.read(place.root, hard) == EXPECTED
    place.proxy.set({"fault": "status", "status": 403, "code": "Expired", "method": "GET", "skip": 1})
    refused(lambda: layout.read(place.root, place.options), place.root, "403|Expired|permission")
    place.proxy.set()
    assert layout.read(place.root, place.options) == EXPECTED
    layout.check(place.root, place.options)


@needs_reference
def test_processes_write_and_are_killed_in_a_bucket(s3_server: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    environment = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_server["endpoint"],
    }
    root = f"s3://{s3_server['bucket']}/{tmp_path.name}"
    # Forty in `make soak`.
    workers = os.environ.get("SIGBANK_SOAK_WRITERS", "4")
    command = [sys.executable, str(SOAK), "1", "--workers", workers, "--root", root]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ok: 1 rounds of {workers} workers" in done.stdout
