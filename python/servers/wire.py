"""HTTP/1.1 on sockets: what a proxy needs that `http.server` hides, and at the speed that it lacks."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal

BLOCK = 256 * 1024
MAX_HEAD = 256 * 1024
Framing = int | Literal["chunked", "until close"]
Data = bytes | bytearray | memoryview


class Broken(ConnectionError):
    """The other side closed or reset the connection in the middle of a message, or sent what is not HTTP."""


class Head:
    """The first line of a message and its header fields, in their order and spelling."""

    def __init__(self, first: str, fields: list[tuple[str, str]]) -> None:
        self.first = first
        self.fields = fields

    @classmethod
    def parse(cls, data: bytes) -> Head:
        first, *lines = data.decode("latin-1").split("\r\n")
        fields = []
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise Broken(f"a header line without a colon: {line!r}")
            fields.append((name, value.strip()))
        return cls(first, fields)

    def get(self, name: str) -> str | None:
        name = name.lower()
        return next((value for known, value in self.fields if known.lower() == name), None)

    def remove(self, *names: str) -> bool:
        """Whether there was one of them."""
        before = len(self.fields)
        self.fields = [field for field in self.fields if field[0].lower() not in names]
        return len(self.fields) != before

    def set(self, name: str, value: str) -> None:
        self.remove(name.lower())
        self.fields.append((name, value))

    def encoded(self) -> bytes:
        lines = [self.first, *(f"{name}: {value}" for name, value in self.fields)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    # Of a request.
    @property
    def method(self) -> str:
        return self.first.split(" ", 1)[0]

    @property
    def target(self) -> str:
        parts = self.first.split(" ")
        if len(parts) != 3:
            raise Broken(f"not a request line: {self.first!r}")
        return parts[1]

    @property
    def stays_open(self) -> bool:
        said = (self.get("connection") or "").lower()
        return "close" not in said and ("HTTP/1.0" not in self.first or "keep-alive" in said)

    def request_framing(self) -> Framing:
        if "chunked" in (self.get("transfer-encoding") or "").lower():
            return "chunked"
        return int(self.get("content-length") or 0)

    # Of a response.
    @property
    def status(self) -> int:
        return int(self.first.split(" ", 2)[1])

    def response_framing(self, method: str) -> Framing:
        if method == "HEAD" or self.status in (204, 304) or self.status < 200:
            return 0
        if "chunked" in (self.get("transfer-encoding") or "").lower():
            return "chunked"
        length = self.get("content-length")
        return "until close" if length is None else int(length)


class Stream:
    """A connection, with what was received ahead of need."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self._ahead = bytearray()
        self._block: bytearray | None = None

    def send(self, data: Data) -> None:
        self.sock.sendall(data)

    def _receive(self) -> bool:
        data = self.sock.recv(64 * 1024)
        self._ahead += data
        return bool(data)

    def _until(self, mark: bytes) -> bytes | None:
        """What stands before the mark, or None where the connection ends before anything came."""
        seen = 0
        while True:
            at = self._ahead.find(mark, max(0, seen - len(mark)))
            if at >= 0:
                data = bytes(self._ahead[:at])
                del self._ahead[: at + len(mark)]
                return data
            seen = len(self._ahead)
            if seen > MAX_HEAD:
                raise Broken("a head of more than 256 KiB")
            if not self._receive():
                if self._ahead:
                    raise Broken("the connection ended inside a head")
                return None

    def head(self) -> Head | None:
        data = self._until(b"\r\n\r\n")
        return None if data is None else Head.parse(data)

    def _some(self, most: int) -> Data:
        """At most so many bytes, valid until the next call; none at the end of the connection."""
        if self._ahead:
            data = bytes(self._ahead[:most])
            del self._ahead[:most]
            return data
        if most < 4096:
            return self.sock.recv(most)
        if self._block is None:
            self._block = bytearray(BLOCK)
        view = memoryview(self._block)
        return view[: self.sock.recv_into(view[: min(most, BLOCK)])]

    def _exactly(self, length: int) -> Iterator[Data]:
        while length:
            data = self._some(length)
            if not data:
                raise Broken(f"the connection ended {length} bytes before the end of a body")
            length -= len(data)
            yield data

    def body(self, framing: Framing) -> Iterator[Data]:
        """The body's bytes without their framing; each piece is valid until the next is asked for."""
        if framing == "until close":
            while data := self._some(BLOCK):
                yield data
        elif framing == "chunked":
            while True:
                line = self._until(b"\r\n")
                if line is None:
                    raise Broken("the connection ended between two chunks")
                size = int(line.split(b";")[0], 16)
                if size == 0:
                    break
                yield from self._exactly(size)
                self._until(b"\r\n")
            while self._until(b"\r\n"):  # Trailers are dropped.
                pass
        else:
            yield from self._exactly(framing)

    def ended(self) -> bool:
        """Whether the other side has closed, asked without waiting and without taking anything."""
        try:
            return not self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()

    def reset(self) -> None:
        """Closes with RST instead of FIN, so that the other side gets an error."""
        linger_zero = b"\1\0\0\0\0\0\0\0"
        try:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_zero)
        except OSError:
            pass
        self.sock.close()


def chunk(data: Data) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), bytes(data))


class Listener:
    """Accepts connections on a free loopback port, a thread for each."""

    def __init__(self, serve: Callable[[Stream, int], Any]) -> None:
        self._serve = serve
        self._open: set[Stream] = set()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.closed = threading.Event()
        self._sock = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = int(self._sock.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._sock.accept()
            except OSError:
                return
            threading.Thread(target=self._connection, args=(Stream(sock), next(self._numbers)), daemon=True).start()

    def _connection(self, stream: Stream, number: int) -> None:
        with self._lock:
            if self.closed.is_set():
                stream.close()
                return
            self._open.add(stream)
        try:
            self._serve(stream, number)
        except OSError:
            pass  # The client went away.
        finally:
            with self._lock:
                self._open.discard(stream)
            stream.close()

    def close(self) -> None:
        """Stops accepting and ends all connections."""
        with self._lock:
            self.closed.set()
            streams = list(self._open)
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._sock.close()
        for stream in streams:
            try:
                stream.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
