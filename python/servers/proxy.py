"""A proxy in front of a server: it logs every request, and slows, spoils or ends those that its rules choose.

Over HTTP, at the proxy's own port: `POST /__faults` with `{"seed": 1, "faults": [{"fault": "status", "fraction": 0.2}]}` replaces
the rules (see `faults` for what there is), `GET /__faults` counts what they did, `DELETE /__faults` ends them; `GET /__log` tells
the requests, `DELETE /__log` forgets them; `POST /__proxy` makes another proxy before the same server, with rules and a log of
its own.
"""

from __future__ import annotations

import dataclasses
import json
import re
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from .faults import CONDITIONS, ENDING, RANGES, Rule, Throttle
from .wire import Broken, Data, Head, Listener, Stream, chunk

# Servers close idle connections at times of their own: one that was idle for longer is not used again.
IDLE_SECONDS = 1.0


class Gone(ConnectionError):
    """The client's connection ends here, on purpose."""


@dataclasses.dataclass
class Entry:
    """A request as the log tells it: what the client saw, with bytes of bodies."""

    method: str
    path: str
    range: str | None
    condition: str | None
    connection: int
    at: float
    status: int = 0  # 0: no answer
    server_status: int = 0  # 0: the server was not asked, or did not answer
    received: int = 0
    sent: int = 0
    faults: list[str] = dataclasses.field(default_factory=list)
    took: float | None = None  # None: not over


@dataclasses.dataclass
class Plan:
    """What the rules make of one request."""

    passing: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    delay: float = 0.0
    throttles: list[Throttle] = dataclasses.field(default_factory=list)
    ending: str | None = None
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    changed: threading.Event = dataclasses.field(default_factory=threading.Event)

    def throttle(self, count: int) -> None:
        for throttle in self.throttles:
            throttle.take(count)


class Proxy:
    """Passes requests on to `upstream`, an endpoint; `resign` signs again a request whose signed fields were changed."""

    def __init__(self, upstream: str, resign: Callable[[Head], None] | None = None) -> None:
        url = urllib.parse.urlsplit(upstream)
        if url.hostname is None or url.port is None:
            raise ValueError(f"an upstream is http://host:port, not {upstream!r}")
        self._upstream = upstream
        self._address = (url.hostname, url.port)
        self._resign = resign
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._changed = threading.Event()
        self._log: list[Entry] = []
        self._active = 0
        self._most_active = 0
        self._connections: set[int] = set()
        self._others: list[Proxy] = []
        self._began = time.monotonic()
        self._listener = Listener(self._serve)
        self.endpoint = self._listener.endpoint + url.path

    def described(self) -> dict[str, str]:
        """Where clients send what is for the server, and where the rules are set and the log is read."""
        return {"proxy": self.endpoint, "control": self._listener.endpoint}

    def close(self) -> None:
        """Ends all connections, and the proxies that were made from this one."""
        self.set_faults([])
        self._listener.close()
        for other in self._others:
            other.close()

    def set_faults(self, faults: list[dict[str, Any]], seed: int = 1) -> None:
        """Replaces the rules; requests that hang by one of the old end."""
        rules = [Rule.read(said, f"{seed}/{index}") for index, said in enumerate(faults)]
        with self._lock:
            self._rules = rules
            self._changed.set()
            self._changed = threading.Event()

    def faults(self) -> list[dict[str, Any]]:
        with self._lock:
            return [rule.told() for rule in self._rules]

    def log(self) -> dict[str, Any]:
        with self._lock:
            return {
                "requests": [dataclasses.asdict(entry) for entry in self._log],
                "count": len(self._log),
                "sent": sum(entry.sent for entry in self._log),
                "received": sum(entry.received for entry in self._log),
                "active": self._active,
                "most_active": self._most_active,
                "connections": len(self._connections),
            }

    def clear_log(self) -> None:
        with self._lock:
            self._log.clear()
            self._connections.clear()
            self._most_active = self._active

    def another(self) -> Proxy:
        other = Proxy(self._upstream, self._resign)
        with self._lock:
            self._others.append(other)
        return other

    def _serve(self, client: Stream, number: int) -> None:
        exchange = Exchange(self._address, client, self._resign)
        try:
            while (head := client.head()) is not None:
                if head.target.startswith("/__"):
                    _answer(client, head, *self._control(client, head))
                    continue
                entry, plan = self._begin(head, number)
                try:
                    goes_on = exchange.run(head, plan, entry)
                finally:
                    with self._lock:
                        self._active -= 1
                        entry.took = time.monotonic() - self._began - entry.at
                if not goes_on:
                    return
        finally:
            exchange.close()

    def _begin(self, head: Head, number: int) -> tuple[Entry, Plan]:
        conditions = [f"{name}: {value}" for name in CONDITIONS if (value := head.get(name)) is not None]
        asked = next((value for name in RANGES if (value := head.get(name)) is not None), None)
        at = time.monotonic() - self._began
        entry = Entry(head.method, head.target, asked, "; ".join(conditions) or None, number, at)
        plan = Plan()
        with self._lock:
            plan.changed = self._changed
            for rule in self._rules:
                ends = rule.fault in ENDING
                if (ends and plan.ending) or not rule.applies(head.method, head.target, head.get):
                    continue
                entry.faults.append(rule.fault)
                if ends:
                    plan.ending, plan.parameters = rule.fault, rule.parameters
                elif rule.fault == "delay":
                    plan.delay += rule.parameters["ms"] / 1000
                elif rule.throttle is not None:
                    plan.throttles.append(rule.throttle)
                else:
                    plan.passing[rule.fault] = rule.parameters
            self._log.append(entry)
            self._connections.add(number)
            self._active += 1
            self._most_active = max(self._most_active, self._active)
        return entry, plan

    def _control(self, client: Stream, head: Head) -> tuple[int, bytes]:
        body = b"".join(bytes(piece) for piece in client.body(head.request_framing()))
        told: Any = {}
        match head.method, head.target:
            case "POST", "/__faults":
                try:
                    said = json.loads(body)
                    self.set_faults(said["faults"], said.get("seed", 1))
                except (ValueError, KeyError, TypeError, re.error) as error:
                    return 400, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode()
            case "GET", "/__faults":
                told = self.faults()
            case "DELETE", "/__faults":
                self.set_faults([])
            case "GET", "/__log":
                told = self.log()
            case "DELETE", "/__log":
                self.clear_log()
            case "POST", "/__proxy":
                told = self.another().described()
            case _:
                return 404, b'{"error": "no such control"}'
        return 200, json.dumps(told).encode()


class Exchange:
    """The requests of one connection, over one connection to the server as long as that stays open."""

    def __init__(self, address: tuple[str, int], client: Stream, resign: Callable[[Head], None] | None) -> None:
        self._address = address
        self._client = client
        self._resign = resign
        self._server: Stream | None = None
        self._used = 0.0

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._server = None

    def run(self, head: Head, plan: Plan, entry: Entry) -> bool:
        """Whether the client's connection stays open."""
        if plan.delay:
            time.sleep(plan.delay)
        if head.remove("expect"):
            self._client.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        framing = head.request_framing()
        body = self._counted(self._client.body(framing), plan, entry)
        if plan.ending == "status":
            _drain(body)
            return self._error(head, plan, entry)
        if plan.ending == "hang" and plan.parameters["after"] is None:
            self._hang(plan)
        asked = self._change(head, plan)
        server = self._pass_on(head, body, framing == "chunked", plan)
        answer = server.head()
        while answer is not None and answer.status < 200:
            answer = server.head()
        if answer is None:
            raise Broken("the server closed without an answer")
        entry.server_status = answer.status
        stays = answer.stays_open
        if plan.ending in ("lose_reply", "replace"):
            _drain(server.body(answer.response_framing(head.method)))
            if plan.ending == "lose_reply":
                raise Gone
            goes_on = self._error(head, plan, entry)
        else:
            goes_on = self._return(head, answer, asked, plan, entry)
        self._used = time.monotonic()
        if not stays:
            self.close()
        return goes_on

    @staticmethod
    def _counted(body: Iterator[Data], plan: Plan, entry: Entry) -> Iterator[Data]:
        for piece in body:
            entry.received += len(piece)
            plan.throttle(len(piece))
            yield piece

    def _change(self, head: Head, plan: Plan) -> str | None:
        """Returns the range that was asked for where another is passed on."""
        changed = False
        asked = None
        if "ignore_conditions" in plan.passing:
            changed |= head.remove(*CONDITIONS)
        if "ignore_range" in plan.passing:
            changed |= head.remove(*RANGES)
        if "wrong_range" in plan.passing:
            shift = plan.passing["wrong_range"]["shift"]
            for name in RANGES:
                if (asked := head.get(name)) is not None:
                    head.set(name, re.sub(r"\d+", lambda number: str(int(number[0]) + shift), asked))
                    changed = True
                    break
        if changed and self._resign is not None:
            self._resign(head)
        head.remove("connection", "keep-alive")
        return asked

    def _pass_on(self, head: Head, body: Iterator[Data], chunked: bool, plan: Plan) -> Stream:
        server = self._server
        if server is not None and (time.monotonic() - self._used > IDLE_SECONDS or server.ended()):
            self.close()
            server = None
        if server is None:
            server = self._server = Stream(socket.create_connection(self._address))
        half = plan.parameters["after"] if plan.ending == "reset" and plan.parameters["of"] == "request" else None
        takes = True  # A server may answer before it has read the body, and close.
        passed = 0

        def send(data: Data) -> None:
            nonlocal takes
            if takes:
                try:
                    server.send(data)
                except OSError:
                    takes = False

        send(head.encoded())
        for piece in body:
            if half is not None and passed + len(piece) > half:
                send(piece[: half - passed])
                break
            passed += len(piece)
            send(chunk(piece) if chunked else piece)
        if half is not None:
            self._client.reset()
            raise Gone
        if chunked:
            send(b"0\r\n\r\n")
        return server

    def _return(self, head: Head, answer: Head, asked: str | None, plan: Plan, entry: Entry) -> bool:
        client, server = self._client, self._server
        assert server is not None
        framing = answer.response_framing(head.method)
        goes_on = head.stays_open and framing != "until close"
        answer.remove("connection", "keep-alive")
        if not goes_on:
            answer.set("Connection", "close")
        if asked is not None and plan.passing["wrong_range"]["hidden"]:
            _claim(answer, asked)
        cut = None
        if plan.ending in ("reset", "truncate", "hang"):
            cut = plan.parameters["after"]
            if isinstance(framing, int):
                cut = min(cut, framing - 1)
            if cut < 0:  # There is no body to end in: not even the head is sent.
                self._end(plan)
        wrong = plan.passing["corrupt"]["at"] if "corrupt" in plan.passing else -1
        entry.status = answer.status
        client.send(answer.encoded())
        for piece in server.body(framing):
            at = wrong - entry.sent
            if 0 <= at < len(piece):
                piece = bytearray(piece)
                piece[at] ^= 1
            if cut is not None and entry.sent + len(piece) > cut:
                piece = piece[: cut - entry.sent]
                entry.sent += len(piece)
                client.send(chunk(piece) if framing == "chunked" and piece else piece)
                self._end(plan)
            plan.throttle(len(piece))
            entry.sent += len(piece)
            client.send(chunk(piece) if framing == "chunked" else piece)
        if cut is not None:
            self._end(plan)
        if framing == "chunked":
            client.send(b"0\r\n\r\n")
        return goes_on

    def _end(self, plan: Plan) -> NoReturn:
        if plan.ending == "hang":
            self._hang(plan)
        if plan.ending == "reset":
            self._client.reset()
        raise Gone

    def _hang(self, plan: Plan) -> NoReturn:
        while not plan.changed.wait(0.05) and not self._client.ended():
            pass
        raise Gone

    def _error(self, head: Head, plan: Plan, entry: Entry) -> bool:
        said = plan.parameters
        body = said["body"]
        if body is None:
            body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{said['code']}</Code><Message>by a rule</Message></Error>"
        headers = {"Content-Type": "application/xml", "x-ms-error-code": said["code"], **said["headers"]}
        entry.status = said["status"]
        entry.sent = 0 if head.method == "HEAD" else len(body.encode())
        return _answer(self._client, head, said["status"], body.encode(), headers)


def _drain(body: Iterator[Data]) -> None:
    for _ in body:
        pass


def _claim(answer: Head, asked: str) -> None:
    """Says that the answer's range is the one asked for."""
    said = answer.get("content-range")
    first = re.search(r"bytes=(\d+)-", asked)
    if said is not None and first is not None:
        last = int(first[1]) + int(answer.get("content-length") or 0) - 1
        answer.set("Content-Range", f"bytes {first[1]}-{last}/{said.rpartition('/')[2]}")


def _answer(client: Stream, head: Head, status: int, body: bytes, headers: dict[str, str] | None = None) -> bool:
    fields = [("Content-Length", str(len(body))), *(headers or {"Content-Type": "application/json"}).items()]
    answer = Head(f"HTTP/1.1 {status} {'OK' if status < 300 else 'Error'}", fields)
    client.send(answer.encoded() + (b"" if head.method == "HEAD" else body))
    return head.stays_open
