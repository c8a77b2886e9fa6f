"""The servers of object storage that other tests stand on, and the proxy in front of them, do what they say."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import botocore.client
import botocore.exceptions
import pytest
import servers.client
from servers import azure
from servers.client import Answer, ask

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
        self.client = s3_client(server) if kind.startswith("s3") else None

    def put(self, key: str, body: bytes, expected: Answer | None = None) -> Answer:
        """Create-only, or in place of what `expected` put."""
        if self.client is not None:
            condition = {"IfMatch": expected[1]["etag"]} if expected else {"IfNoneMatch": "*"}
            return s3_put(self.client, self.server, key, body, **condition)
        if self.kind == "gcs":
            generation = expected[1]["x-goog-generation"] if expected else "0"
            target = f"{self.server['bucket']}/{urllib.parse.quote(key, safe='')}"
            return ask(self.server["endpoint"], "PUT", target, body, {"x-goog-if-generation-match": generation})
        condition = {"If-Match": expected[1]["etag"]} if expected else {"If-None-Match": "*"}
        target = f"{self.server['container']}/{key}"
        return azure.request(self.server["endpoint"], "PUT", target, body, {"x-ms-blob-type": "BlockBlob", **condition})

    def get(self, key: str) -> Answer:
        if self.client is not None:
            answer = self.client.get_object(Bucket=self.server["bucket"], Key=key)
            return 200, {"etag": answer["ETag"]}, answer["Body"].read()
        if self.kind == "gcs":
            return ask(self.server["endpoint"], "GET", f"{self.server['bucket']}/{key}")
        return azure.request(self.server["endpoint"], "GET", f"{self.server['container']}/{key}")


@pytest.fixture(params=["s3", "s3_stub", "gcs", "azure"])
def store(request: pytest.FixtureRequest) -> Store:
    return Store(request.param, request.getfixturevalue(f"{request.param}_server"))


def test_creates_once_and_compares_before_it_swaps(store: Store) -> None:
    first = store.put("once/a.bin", b"first")
    assert first[0] in (200, 201)
    assert store.put("once/a.bin", b"second")[0] == (409 if store.kind == "azure" else 412)
    assert store.put("once/a.bin", b"third", first)[0] in (200, 201)
    assert store.put("once/a.bin", b"fourth", first)[0] == 412
    assert store.get("once/a.bin")[2] == b"third"


def test_of_eight_creators_one_wins(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        for attempt in range(10):
            bodies = [bytes([number]) * 100_000 for number in range(8)]
            answers = list(pool.map(lambda body: store.put(f"race/{attempt}", body)[0], bodies))
            winners = [body for body, status in zip(bodies, answers, strict=True) if status < 300]
            assert len(winners) == 1, answers
            assert store.get(f"race/{attempt}")[2] == winners[0]


def test_no_increment_is_lost(store: Store) -> None:
    """Eight count to ten each, by compare-and-swap."""
    store.put("counter", b"0")

    def count(_: int) -> None:
        for _ in range(10):
            while True:
                known = store.get("counter")
                if store.put("counter", str(int(known[2]) + 1).encode(), known)[0] < 300:
                    break

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    assert store.get("counter")[2] == b"80"


@pytest.mark.parametrize("kind", ["s3", "s3_stub"])
def test_both_servers_of_s3_do_alike(kind: str, request: pytest.FixtureRequest) -> None:
    """What the two servers answer that differs from GCS, as boto3 sees it."""
    server = request.getfixturevalue(f"{kind}_server")
    client, bucket = s3_client(server), server["bucket"]
    for number in range(3):
        client.upload_fileobj(io.BytesIO(bytes(10)), bucket, f"alike/{number} <&>")
    listed = client.list_objects_v2(Bucket=bucket, Prefix="alike/", MaxKeys=2)
    assert [(entry["Key"], entry["Size"]) for entry in listed["Contents"]] == [("alike/0 <&>", 10), ("alike/1 <&>", 10)]
    assert listed["IsTruncated"] and client.get_object(Bucket=bucket, Key="alike/0 <&>", Range="bytes=-3")["Body"].read() == bytes(3)
    client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "alike/0 <&>"}, {"Key": "alike/none"}]})
    client.delete_object(Bucket=bucket, Key="alike/none")
    assert client.list_objects_v2(Bucket=bucket, Prefix="alike/")["KeyCount"] == 2
    for where, code in ((bucket, "NoSuchKey"), ("none", "NoSuchBucket")):
        with pytest.raises(botocore.exceptions.ClientError) as refused:
            client.get_object(Bucket=where, Key="none")
        assert refused.value.response["Error"]["Code"] == code


def test_a_bucket_of_gcs_lists_and_takes_parts(gcs_server: dict[str, str]) -> None:
    def gcs(method: str, target: str, body: bytes = b"", **headers: str) -> Answer:
        return ask(gcs_server["endpoint"], method, f"{gcs_server['bucket']}{target}", body, headers)

    for key in ("l%2Fa", "l%2Fb%2Fc", "l%2Fb%2Fd", "l%2Fe%20%26"):
        assert gcs("PUT", f"/{key}", b"12345")[0] == 200
    listed = gcs("GET", "?list-type=2&prefix=l%2F&delimiter=%2F&max-keys=2")[2].decode()
    assert "<Key>l/a</Key>" in listed and "<Prefix>l/b/</Prefix>" in listed and "l/e" not in listed and "<Size>5</Size>" in listed
    assert "<IsTruncated>true</IsTruncated><NextContinuationToken>l/b/</NextContinuationToken>" in listed
    rest = gcs("GET", "?list-type=2&prefix=l%2F&delimiter=%2F&continuation-token=l%2Fb%2F")[2].decode()
    assert "<Key>l/e &amp;</Key>" in rest and "l/b" not in rest.replace("<Prefix>l/</Prefix>", "") and "false</IsTr" in rest

    upload = gcs("POST", "/parts?uploads=")[2].decode().partition("<UploadId>")[2].partition("<")[0]
    etags = [gcs("PUT", f"/parts?partNumber={n}&uploadId={upload}", bytes([n]) * 9)[1]["etag"] for n in (1, 2)]
    parts = "".join(f"<Part><ETag>{etag}</ETag><PartNumber>{n}</PartNumber></Part>" for n, etag in enumerate(etags, 1))
    whole = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    assert gcs("GET", "/parts")[0] == 404
    assert gcs("POST", f"/parts?uploadId={upload}", whole.replace(b"1</PartN", b"2</PartN"))[0] == 400
    assert gcs("POST", f"/parts?uploadId={upload}", whole)[0] == 200
    assert gcs("GET", "/parts", range="bytes=8-9")[2] == b"\1\2"
    assert gcs("DELETE", "/parts")[0] == 204 and gcs("DELETE", "/parts")[0] == 404
    assert ask(gcs_server["endpoint"], "GET", "another/key")[0] == 404


def test_a_folder_over_http(http_server: dict[str, str]) -> None:
    (Path(http_server["folder"]) / "a b").mkdir(exist_ok=True)
    (Path(http_server["folder"]) / "a b" / "c.bin").write_bytes(bytes(range(100)))

    def http(method: str, target: str, **headers: str) -> Answer:
        return ask(http_server["endpoint"], method, target, headers={name.replace("_", "-"): value for name, value in headers.items()})

    status, headers, body = http("GET", "a%20b/c.bin")
    assert (status, body, headers["accept-ranges"]) == (200, bytes(range(100)), "bytes")
    etag = headers["etag"]
    status, headers, body = http("HEAD", "a%20b/c.bin")
    assert (status, body, headers["content-length"], headers["etag"]) == (200, b"", "100", etag)
    for asked, first, end in (("10-19", 10, 20), ("90-", 90, 100), ("-5", 95, 100), ("98-1000", 98, 100), ("-1000", 0, 100)):
        status, headers, body = http("GET", "a%20b/c.bin", range=f"bytes={asked}")
        assert (status, body) == (206, bytes(range(first, end)))
        assert headers["content-range"] == f"bytes {first}-{end - 1}/100"
    status, headers, _ = http("GET", "a%20b/c.bin", range="bytes=100-")
    assert (status, headers["content-range"]) == (416, "bytes */100")
    assert http("GET", "a%20b/c.bin", if_none_match=etag)[0] == 304
    assert http("GET", "a%20b/c.bin", if_match='"other"')[0] == 412
    assert http("GET", "a%20b/c.bin", range="bytes=0-0", if_range='"other"')[0] == 200
    assert http("PUT", "a%20b/c.bin")[0] == 405
    (Path(http_server["folder"]).parent / "outside").write_bytes(b"secret")
    for missing in ("nothing", "a%20b", "", "../outside", "%2e%2e/outside", "a%20b/..%2f../outside", "%00"):
        assert http("GET", missing)[0] == 404


def test_a_killed_parent_leaves_no_server() -> None:
    command = [sys.executable, str(Path(servers.client.__file__).with_name("__main__.py")), "--s3", "--gcs", "--azure"]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    told = json.loads(parent.stdout.readline())
    endpoints = [server["endpoint"] for server in told.values() if "endpoint" in server]
    assert [ask(endpoint, "GET", "")[0] for endpoint in endpoints]
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    deadline = time.monotonic() + 20
    while endpoints:
        assert time.monotonic() < deadline, f"still served: {endpoints}"
        try:
            ask(endpoints[0], "GET", "")
            time.sleep(0.05)
        except ConnectionError:
            endpoints.pop(0)


def test_a_server_that_is_not_installed_is_told() -> None:
    command = [sys.executable, str(Path(servers.client.__file__).with_name("__main__.py")), "--azure", "--control"]
    said = subprocess.run(command, env={**os.environ, "PATH": ""}, input=b"", stdout=subprocess.PIPE, check=True).stdout
    assert json.loads(said) == {"azure": {"missing": "node is not found"}}
