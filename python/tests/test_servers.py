"""The servers of object storage that other tests stand on, and the proxy in front of them, do what they say."""

from __future__ import annotations

import http.client
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import botocore.client
import botocore.exceptions
import pytest
from servers import azure
from servers.client import Control, Servers

Answer = tuple[int, dict[str, str], bytes]


def ask(endpoint: str, method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
    """A request of its own connection: status, headers with small names, body."""
    url = urllib.parse.urlsplit(endpoint)
    connection = http.client.HTTPConnection(url.netloc, timeout=30)
    try:
        connection.request(method, f"{url.path}/{target}", body or None, headers or {})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def s3_client(server: dict[str, str], endpoint: str | None = None) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint or server["endpoint"],
        region_name=server["region"],
        aws_access_key_id=server["access_key"],
        aws_secret_access_key=server["secret_key"],
        config=botocore.client.Config(retries={"total_max_attempts": 1}, max_pool_connections=32),
    )


def s3_put(client: Any, server: dict[str, str], key: str, body: bytes, **condition: str) -> Answer:
    try:
        answer = client.put_object(Bucket=server["bucket"], Key=key, Body=body, **condition)
    except botocore.exceptions.ClientError as refused:
        answer = refused.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], {"etag": answer.get("ETag", "")}, b""


class Store:
    """One interface to the three, for what all must do alike."""

    def __init__(self, kind: str, server: dict[str, str]) -> None:
        self.kind = kind
        self.server = server
        self.client = s3_client(server) if kind == "s3" else None

    def put(self, key: str, body: bytes, expected: Answer | None = None) -> Answer:
        """Create-only, or in place of what `expected` put."""
        if self.kind == "s3":
            condition = {"IfMatch": expected[1]["etag"]} if expected else {"IfNoneMatch": "*"}
            return s3_put(self.client, self.server, key, body, **condition)
        if self.kind == "gcs":
            generation = expected[1]["x-goog-generation"] if expected else "0"
            target = f"{self.server['bucket']}/{urllib.parse.quote(key, safe='')}"
            return ask(self.server["endpoint"], "PUT", target, body, {"x-goog-if-generation-match": generation})
        condition = {"If-Match": expected[1]["etag"]} if expected else {"If-None-Match": "*"}
        target = f"{self.server['container']}/{key}"
        return azure.request(self.server["endpoint"], "PUT", target, body, {"x-ms-blob-type": "BlockBlob", **condition})

    def get(self, key: str) -> bytes:
        if self.kind == "s3":
            assert self.client is not None
            return bytes(self.client.get_object(Bucket=self.server["bucket"], Key=key)["Body"].read())
        if self.kind == "gcs":
            return ask(self.server["endpoint"], "GET", f"{self.server['bucket']}/{key}")[2]
        return azure.request(self.server["endpoint"], "GET", f"{self.server['container']}/{key}")[2]


@pytest.fixture(params=["s3", "gcs", "azure"])
def store(request: pytest.FixtureRequest) -> Store:
    return Store(request.param, request.getfixturevalue(f"{request.param}_server"))


def test_creates_once_and_compares_before_it_swaps(store: Store) -> None:
    # Azure says 409 to a creation, the others 412.
    first = store.put("once/a b.bin", b"first") if store.kind != "azure" else store.put("once/a.bin", b"first")
    key = "once/a b.bin" if store.kind != "azure" else "once/a.bin"
    assert first[0] in (200, 201)
    assert store.put(key, b"second")[0] in ((409,) if store.kind == "azure" else (412,))
    swapped = store.put(key, b"third", first)
    assert swapped[0] in (200, 201)
    assert store.put(key, b"fourth", first)[0] == 412
    if store.kind != "gcs":
        assert store.get(key) == b"third"
    else:
        assert ask(store.server["endpoint"], "GET", f"{store.server['bucket']}/once%2Fa%20b.bin")[2] == b"third"


def test_of_eight_creators_one_wins(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        for attempt in range(10):
            bodies = [bytes([number]) * 100_000 for number in range(8)]
            answers = list(pool.map(lambda body: store.put(f"race/{attempt}", body)[0], bodies))
            winners = [body for body, status in zip(bodies, answers, strict=True) if status < 300]
            assert len(winners) == 1, answers
            assert store.get(f"race/{attempt}") == winners[0]


def test_no_increment_is_lost(store: Store) -> None:
    """Eight count to ten each, by compare-and-swap."""
    store.put("counter", b"0")

    def count(_: int) -> None:
        for _ in range(10):
            while True:
                known = stamp(store)
                if store.put("counter", str(int(known[2]) + 1).encode(), known)[0] < 300:
                    break

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    assert stamp(store)[2] == b"80"


def stamp(store: Store) -> Answer:
    """The counter's bytes, with what a swap must name."""
    if store.kind == "s3":
        assert store.client is not None
        answer = store.client.get_object(Bucket=store.server["bucket"], Key="counter")
        return 200, {"etag": answer["ETag"]}, answer["Body"].read()
    if store.kind == "gcs":
        return ask(store.server["endpoint"], "GET", f"{store.server['bucket']}/counter")
    return azure.request(store.server["endpoint"], "GET", f"{store.server['container']}/counter")
