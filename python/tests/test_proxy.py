"""The proxy in front of servers: what it passes on is unchanged, its faults are what they are called, its log is exact."""

from __future__ import annotations

import http.client
import socket
import time
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from servers import azure
from servers.client import Answer, Control, ask
from servers.proxy import Proxy
from servers.wire import Listener, Stream

DATA = bytes(range(256)) * 4000  # 1 MB


@pytest.fixture(scope="session")
def _data(http_server: dict[str, str]) -> None:
    (Path(http_server["folder"]) / "data.bin").write_bytes(DATA)
    (Path(http_server["folder"]) / "empty.bin").write_bytes(b"")


@pytest.fixture
def web(http_proxy: Control, _data: None) -> Control:
    return http_proxy


def get(web: Control, target: str = "data.bin", **headers: str) -> Answer:
    return ask(web.endpoint, "GET", target, headers=headers)


def create(gcs: Control, key: str, body: bytes = b"body") -> int:
    return ask(gcs.endpoint, "PUT", f"sigbank-test/{key}", body, {"x-goog-if-generation-match": "0"})[0]


def told(log: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(request[name] for name in names) for request in log]


def test_what_passes_is_unchanged_and_counted(web: Control, http_server: dict[str, str]) -> None:
    direct, passed = ask(http_server["endpoint"], "GET", "data.bin"), get(web)
    direct[1].pop("date"), passed[1].pop("date")
    assert passed == direct == (200, passed[1], DATA)
    assert get(web, range="bytes=5-9")[::2] == (206, DATA[5:10])
    assert get(web, "none?x=1")[0] == 404
    assert ask(web.endpoint, "HEAD", "data.bin")[1]["content-length"] == str(len(DATA))
    assert told(web.requests(), "method", "path", "range", "status", "sent", "received") == [
        ("GET", "/data.bin", None, 200, len(DATA), 0),
        ("GET", "/data.bin", "bytes=5-9", 206, 5, 0),
        ("GET", "/none?x=1", None, 404, len(b"not found\n"), 0),
        ("HEAD", "/data.bin", None, 200, 0, 0),
    ]
    log = web.log()
    assert (log["count"], log["sent"], log["connections"], log["active"]) == (4, len(DATA) + 15, 4, 0)
    web.set()
    assert web.requests() == []


def test_many_requests_of_one_connection(web: Control) -> None:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(web.endpoint).netloc, timeout=30)
    for number in range(50):
        connection.request("GET", "/data.bin", headers={"Range": f"bytes={number}-{number}"})
        assert connection.getresponse().read() == DATA[number : number + 1]
    connection.close()
    assert (web.log()["count"], web.log()["connections"]) == (50, 1)


def test_chunked_bodies(gcs_proxy: Control) -> None:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(gcs_proxy.endpoint).netloc, timeout=30)

    def pieces() -> Iterator[bytes]:
        yield from (b"a" * 5, b"b" * 300_000, b"c")

    connection.request("PUT", "/sigbank-test/chunked", pieces(), {"Transfer-Encoding": "chunked"}, encode_chunked=True)
    assert connection.getresponse().read() == b""
    connection.close()
    assert ask(gcs_proxy.endpoint, "GET", "sigbank-test/chunked")[2] == b"a" * 5 + b"b" * 300_000 + b"c"
    assert gcs_proxy.requests()[0]["received"] == 300_006


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n", b"abcde"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 412 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno", b"no"),
    ],
)
def test_answers_of_every_framing(answer: bytes, body: bytes) -> None:
    def serve(stream: Stream, _: int) -> None:
        stream.head()  # The body is not read: a server may close as soon as it knows its answer.
        stream.send(answer)

    server = Listener(serve)
    proxy = Proxy(server.endpoint)
    try:
        assert ask(proxy.endpoint, "PUT", "x", DATA)[2] == body
        assert told(proxy.log()["requests"], "received", "sent") == [(len(DATA), len(body))]
    finally:
        proxy.close()
        server.close()


def test_a_delay_is_of_each_request_and_not_of_all_together(web: Control) -> None:
    web.set({"fault": "delay", "ms": 100})
    began = time.monotonic()
    with ThreadPoolExecutor(32) as pool:
        assert {answer[0] for answer in pool.map(lambda _: get(web, range="bytes=0-0"), range(32))} == {206}
    assert 0.1 <= time.monotonic() - began < 1.6
    assert web.log()["most_active"] >= 16 and all(request["took"] >= 0.1 for request in web.requests()[:-1])


def test_a_bandwidth_is_shared(web: Control) -> None:
    web.set({"fault": "bandwidth", "bytes_per_second": 5 * len(DATA)})
    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        assert all(answer[2] == DATA for answer in pool.map(lambda _: get(web), range(4)))
    assert 0.75 <= time.monotonic() - began < 3


def test_a_fraction_is_chosen_by_the_seed(web: Control) -> None:
    def statuses(seed: int) -> list[int]:
        web.set({"fault": "status", "fraction": 0.2}, seed=seed)
        return [get(web, range="bytes=0-0")[0] for _ in range(200)]

    first = statuses(1)
    assert set(first) == {206, 503} and 20 <= first.count(503) <= 60 and web.hits() == [first.count(503)]
    assert [request["status"] for request in web.requests()] == first
    assert statuses(1) == first != statuses(2)


def test_an_answer_at_once_after_some_until_refreshed(web: Control) -> None:
    expired = {"fault": "status", "status": 403, "code": "ExpiredToken", "headers": {"x-amz-request-id": "r1"}}
    web.set({**expired, "skip": 2})
    answers = [get(web, "empty.bin") for _ in range(4)]
    assert [answer[0] for answer in answers] == [200, 200, 403, 403]
    assert b"<Code>ExpiredToken</Code>" in answers[2][2] and answers[2][1]["x-amz-request-id"] == "r1"
    assert told(web.requests(), "status", "server_status")[1:3] == [(200, 200), (403, 0)]
    web.set()
    assert get(web, "empty.bin")[0] == 200


def test_rules_choose_by_method_path_header_and_count(web: Control) -> None:
    web.set(
        {"fault": "status", "status": 409, "method": "HEAD", "times": 1},
        {"fault": "status", "status": 429, "path": r"\.bin$", "header": {"range": "=7-"}},
        {"fault": "status", "status": 500, "path": "empty"},
    )
    asked = [("HEAD", {}), ("HEAD", {}), ("GET", {"Range": "bytes=7-8"}), ("GET", {"Range": "bytes=8-8"})]
    assert [ask(web.endpoint, method, "data.bin", headers=headers)[0] for method, headers in asked] == [409, 200, 429, 206]
    assert get(web, "empty.bin")[0] == 500
    assert web.hits() == [1, 1, 1] and [request["faults"] for request in web.requests()] == [["status"], [], ["status"], [], ["status"]]


def test_a_rule_that_is_not_known_is_refused(web: Control) -> None:
    for wrong in ({"fault": "explode"}, {"fault": "delay", "milliseconds": 1}, {"fault": "delay", "path": "("}, {}):
        with pytest.raises(ValueError):
            web.set(wrong)
    assert get(web, "empty.bin")[0] == 200


def raw(web: Control, target: str = "data.bin") -> tuple[bytes, bytes, bool]:
    """The head and what came of the body, and whether it ended by a reset."""
    url = urllib.parse.urlsplit(web.endpoint)
    with socket.create_connection((url.hostname, url.port), timeout=30) as sock:
        sock.sendall(f"GET /{target} HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode())
        data = b""
        try:
            while piece := sock.recv(1 << 20):
                data += piece
            reset = False
        except ConnectionResetError:
            reset = True
    head, _, body = data.partition(b"\r\n\r\n")
    return head, body, reset


def test_an_answer_that_is_cut(web: Control) -> None:
    web.set({"fault": "truncate", "after": 1000, "times": 1}, {"fault": "truncate", "after": 10**9, "times": 1})
    head, body, reset = raw(web)
    assert f"Content-Length: {len(DATA)}".encode() in head and (body, reset) == (DATA[:1000], False)
    # A body that is shorter lacks its last byte, one that is empty its head: the fault is always one.
    assert raw(web)[1:] == (DATA[:-1], False)
    web.set({"fault": "truncate", "after": 1000})
    assert raw(web, "empty.bin") == (b"", b"", False)
    assert told(web.requests(), "status", "server_status", "sent") == [(0, 200, 0)]


def test_an_answer_that_is_reset(web: Control) -> None:
    web.set({"fault": "reset", "after": 700_000})
    _, body, reset = raw(web)
    assert reset and DATA[:700_000].startswith(body)  # What was on its way is lost.
    assert told(web.requests(), "status", "sent") == [(200, 700_000)]
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        get(web)


def test_a_request_that_is_reset_does_not_reach_the_server(gcs_proxy: Control) -> None:
    gcs_proxy.set({"fault": "reset", "of": "request", "after": 500_000, "method": "PUT"})
    with pytest.raises(ConnectionError):
        create(gcs_proxy, "half", DATA)
    assert 500_000 <= gcs_proxy.requests()[0]["received"] < len(DATA)
    time.sleep(0.2)
    assert ask(gcs_proxy.endpoint, "GET", "sigbank-test/half")[0] == 404
    assert told(gcs_proxy.requests(), "status", "server_status") == [(0, 0), (404, 404)]


def test_an_answer_that_never_comes(web: Control) -> None:
    web.set({"fault": "hang", "times": 1}, {"fault": "hang", "after": 100, "times": 1})
    with ThreadPoolExecutor(2) as pool:
        none = pool.submit(raw, web)
        while web.log()["active"] < 1:
            time.sleep(0.01)
        some = pool.submit(raw, web)
        time.sleep(0.3)
        assert not none.done() and not some.done() and web.log()["active"] == 2
        web.set()
        assert none.result(timeout=10) == (b"", b"", False) and some.result(timeout=10)[1] == DATA[:100]
    # A client that gives up ends it too.
    web.set({"fault": "hang"})
    url = urllib.parse.urlsplit(web.endpoint)
    connection = http.client.HTTPConnection(url.netloc, timeout=0.2)
    connection.request("GET", "/data.bin")
    with pytest.raises(TimeoutError):
        connection.getresponse()
    connection.close()
    deadline = time.monotonic() + 10
    while web.log()["active"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_reply_that_is_lost_or_another(gcs_proxy: Control) -> None:
    gcs_proxy.set({"fault": "lose_reply", "method": "PUT", "times": 1})
    with pytest.raises(ConnectionError):
        create(gcs_proxy, "lost")
    assert create(gcs_proxy, "lost") == 412 and ask(gcs_proxy.endpoint, "GET", "sigbank-test/lost")[2] == b"body"
    assert told(gcs_proxy.requests(), "status", "server_status") == [(0, 200), (412, 412), (200, 200)]
    gcs_proxy.set({"fault": "replace", "status": 503, "times": 1})
    assert [create(gcs_proxy, "other"), create(gcs_proxy, "other")] == [503, 412]
    assert told(gcs_proxy.requests(), "status", "server_status", "condition") == [
        (503, 200, "x-goog-if-generation-match: 0"),
        (412, 412, "x-goog-if-generation-match: 0"),
    ]


def test_ranges_that_are_not_kept(web: Control) -> None:
    web.set({"fault": "ignore_range", "times": 1}, {"fault": "wrong_range", "shift": 10, "times": 1, "skip": 1})
    assert get(web, range="bytes=5-9")[::2] == (200, DATA)
    status, headers, body = get(web, range="bytes=5-9")
    assert (status, body, headers["content-range"]) == (206, DATA[15:20], f"bytes 15-19/{len(DATA)}")
    assert told(web.requests(), "range") == [("bytes=5-9",)] * 2
    web.set({"fault": "wrong_range", "hidden": True})
    status, headers, body = get(web, range="bytes=5-9")
    assert (status, body, headers["content-range"]) == (206, DATA[6:11], f"bytes 5-9/{len(DATA)}")


def test_a_bit_that_is_another(web: Control) -> None:
    web.set({"fault": "corrupt", "at": 500_000})
    body = get(web)[2]
    assert [(at, ours ^ theirs) for at, (ours, theirs) in enumerate(zip(body, DATA, strict=True)) if ours != theirs] == [(500_000, 1)]


def test_a_store_that_ignores_conditions(gcs_proxy: Control) -> None:
    """The negative control: what passes here by its conditions proves nothing."""
    gcs_proxy.set({"fault": "ignore_conditions"})
    assert [create(gcs_proxy, "all"), create(gcs_proxy, "all")] == [200, 200]


def test_signed_requests_pass_and_are_signed_again_where_changed(azure_proxy: Control) -> None:
    def put() -> int:
        headers = {"x-ms-blob-type": "BlockBlob", "If-None-Match": "*"}
        return azure.request(azure_proxy.endpoint, "PUT", "sigbank-test/signed", b"0123456789", headers)[0]

    def read() -> Answer:
        return azure.request(azure_proxy.endpoint, "GET", "sigbank-test/signed", headers={"Range": "bytes=2-4"})

    assert [put(), put()] == [201, 409] and read()[::2] == (206, b"234")
    azure_proxy.set({"fault": "ignore_conditions"}, {"fault": "wrong_range", "times": 1, "method": "GET"})
    assert [put(), put()] == [201, 201] and read()[::2] == (206, b"345")
    assert azure.request(azure_proxy.endpoint, "GET", "sigbank-test/signed", headers={"Authorization": "x"})[0] == 403
