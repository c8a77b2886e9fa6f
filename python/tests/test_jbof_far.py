"""`sigbank.open` of a JBOF data set in a bucket: by its index where it has one that stands, else item by item."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import sigbank
from servers.client import Control
from sigbank import jbof

PROGRAM = str(Path(sys.executable).parent / "sigbank")
KEYS = {"allow_http": "true", "access_key_id": "testing", "secret_access_key": "testing", "region": "us-east-1"}


def _run(endpoint: str, *arguments: str) -> str:
    settings = [part for key, value in {"endpoint": endpoint, **KEYS}.items() for part in ("--storage-option", f"{key}={value}")]
    done = subprocess.run([PROGRAM, *arguments, *settings], capture_output=True, text=True, timeout=120, env=os.environ)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def _open(root: str, proxy: Control) -> tuple[Any, list[str], int]:
    """The data set, what is warned of, and how many requests it took."""
    proxy.set()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        dataset = sigbank.open(root, storage_options={"endpoint": proxy.endpoint, **KEYS})
    return dataset, [str(one.message) for one in said], proxy.log()["count"]


def _told(dataset: Any) -> Any:
    schema = {name: (str(field.dtype), field.shape, field.metadata) for name, field in dataset.schema.items()}
    return len(dataset), dataset.ids(), schema, [{name: value.tolist() for name, value in record.items()} for record in dataset]


def test_an_index_saves_the_look_at_each_item(tmp_path: Path, s3_server: dict[str, str], s3_proxy: Control) -> None:
    items = 170
    local = jbof.create_dataset(tmp_path / "set", {"of": "test"})
    for n in range(items):
        item = local.add_item(f"i{n:03}", {"n": n})
        item.add_array("x", np.full(4, n, np.int16))
        if n % 2:
            item.add_array("y", np.arange(n % 5, dtype=np.float32), {"gain": n})
    root = f"s3://{s3_server['bucket']}/far-{uuid.uuid4().hex}"
    _run(s3_server["endpoint"], "cp", str(tmp_path / "set"), root)
    plain, said, looked = _open(root, s3_proxy)
    assert len(said) == 1 and "took about" in said[0] and f"sigbank find {root} --index" in said[0]
    estimate = int(said[0].split("about ")[1].split()[0])
    assert 0.5 < estimate / looked < 2, (estimate, looked)
    assert f"sigbank find {root} --index" in _run(s3_server["endpoint"], "info", root)
    # The storage's times are of whole seconds: an index of what was just written would not last.
    time.sleep(2.5)
    _run(s3_server["endpoint"], "find", root, "--index")
    fast, said, asked = _open(root, s3_proxy)
    assert said == [] and asked <= 20, asked
    assert _told(fast) == _told(plain) == _told(sigbank.open(tmp_path / "set"))
    # It does not stand any more: items are looked at, and what is new is seen.
    added = jbof.DataSet(tmp_path / "set", readonly=False).add_item("new", {"n": -1})
    added.add_array("x", np.full(4, -1, np.int16))
    _run(s3_server["endpoint"], "sync", str(tmp_path / "set"), root)
    stale, said, asked = _open(root, s3_proxy)
    assert len(stale) == items + 1 and asked > items and len(said) == 1
    np.testing.assert_array_equal(stale.by_id("new")["x"], np.full(4, -1, np.int16))
