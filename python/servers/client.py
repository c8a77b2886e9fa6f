"""For tests in Python: the servers as a process of their own, and the control of a proxy."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self


Answer = tuple[int, dict[str, str], bytes]


def ask(endpoint: str, method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
    """A request without a signature, on a connection of its own: status, headers with small names, body."""
    url = urllib.parse.urlsplit(endpoint)
    connection = http.client.HTTPConnection(url.netloc, timeout=30)
    try:
        connection.request(method, f"{url.path}/{target}", body or None, headers or {})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


class Servers:
    """`Servers("--s3", "--proxy", "s3")`: what it prints is `told`; ends with `close`, or with this process."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, str(Path(__file__).with_name("__main__.py")), *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise RuntimeError(f"{' '.join(arguments)}: no servers, see above")
        self.told: dict[str, dict[str, str]] = json.loads(line)

    def close(self) -> None:
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Control:
    """A proxy's rules and log; `endpoint` is where clients send their requests."""

    def __init__(self, told: dict[str, str]) -> None:
        self.endpoint = told["proxy"]
        self._control = told["control"]

    def _ask(self, method: str, target: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._control + target, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                raise ValueError(json.load(refused)["error"]) from None

    def set(self, *faults: dict[str, Any], seed: int = 1) -> None:
        """Replaces the rules (see `servers.faults`) and forgets the log: `set({"fault": "status", "times": 1})`, or `set()`."""
        self._ask("POST", "/__faults", {"faults": faults, "seed": seed})
        self._ask("DELETE", "/__log")

    def hits(self) -> list[int]:
        """To how many requests each rule was done."""
        return [told["hits"] for told in self._ask("GET", "/__faults")]

    def log(self) -> dict[str, Any]:
        told: dict[str, Any] = self._ask("GET", "/__log")
        return told

    def requests(self) -> list[dict[str, Any]]:
        return list(self.log()["requests"])

    def another(self) -> Control:
        """A proxy before the same server, with rules and a log of its own: for one test."""
        return Control(self._ask("POST", "/__proxy"))
