"""A small server of whole requests: what a stub of a service is written on."""

from __future__ import annotations

import dataclasses
import email.utils
import http
import re
import urllib.parse
from collections.abc import Callable
from typing import BinaryIO

from .wire import Data, Head, Listener, Stream


@dataclasses.dataclass
class Request:
    method: str
    path: str  # as it was sent, percent-encoded
    query: dict[str, str]
    head: Head
    body: bytes


@dataclasses.dataclass
class Response:
    status: int = 200
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    body: Data = b""
    # Instead of a body: so many bytes of a file from here on. The file is closed afterwards.
    file: tuple[BinaryIO, int, int] | None = None


def error(status: int, code: str, message: str = "") -> Response:
    """As S3 and GCS word it."""
    text = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{message or code}</Message></Error>"
    return Response(status, {"Content-Type": "application/xml"}, text.encode())


def serve(handle: Callable[[Request], Response]) -> Listener:
    """Answers each request by `handle`, which is called in many threads."""

    def connection(stream: Stream, _number: int) -> None:
        while (head := stream.head()) is not None:
            if head.get("expect"):
                stream.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = b"".join(bytes(piece) for piece in stream.body(head.request_framing()))
            path, _, query = head.target.partition("?")
            request = Request(head.method, path, dict(urllib.parse.parse_qsl(query, keep_blank_values=True)), head, body)
            try:
                response = handle(request)
            except Exception as problem:  # A stub that is wrong says so to the client instead of closing.
                response = error(500, "StubError", f"{type(problem).__name__}: {problem}")
            _send(stream, head, response)
            if not head.stays_open:
                return

    return Listener(connection)


def _send(stream: Stream, head: Head, response: Response) -> None:
    length = response.file[2] if response.file else len(response.body)
    fields: dict[str, str] = {"Date": email.utils.formatdate(usegmt=True), "Content-Length": str(length), **response.headers}
    if response.status == 304:
        del fields["Content-Length"]
    first = f"HTTP/1.1 {response.status} {http.HTTPStatus(response.status).phrase}"
    data = Head(first, list(fields.items())).encoded()
    bodiless = head.method == "HEAD" or response.status in (204, 304)
    if response.file is None:
        if bodiless or len(response.body) > 64 * 1024:
            stream.send(data)
            if not bodiless:
                stream.send(response.body)
        else:
            stream.send(data + response.body)
        return
    file, start, count = response.file
    with file:
        stream.send(data)
        if not bodiless and count:
            stream.sock.sendfile(file, start, count)


def byte_range(said: str | None, size: int) -> tuple[int, int] | None:
    """The first byte and the end of one range; None where all is to be answered; raises ValueError where it lies outside."""
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", said.strip()) if said else None
    if found is None or found[0] == "bytes=-":
        return None
    first, last = found[1], found[2]
    if first and last and int(last) < int(first):
        return None
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1 if last else size)
    if start >= end:
        raise ValueError(f"bytes */{size}")
    return start, end
