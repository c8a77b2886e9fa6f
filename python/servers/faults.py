"""What a proxy does to requests and their answers, by rules."""

from __future__ import annotations

import dataclasses
import random
import re
import threading
import time
from typing import Any

# Each fault with its parameters and their defaults. Those of the first group add up and the request goes on; of the second, the
# first that applies decides.
PASSING: dict[str, dict[str, Any]] = {
    # Milliseconds before the request is passed on.
    "delay": {"ms": 20},
    # Of all bodies to which the rule applies together, both ways.
    "bandwidth": {"bytes_per_second": 10_000_000},
    # The server never sees the range: it answers 200 with everything.
    "ignore_range": {},
    # 206 with another range than asked for, `shift` bytes further on; `hidden`: it is said to be the one asked for.
    "wrong_range": {"shift": 1, "hidden": False},
    # A store that does not keep its word: the server never sees the conditions.
    "ignore_conditions": {},
    # One bit of the answer's body at this offset is another.
    "corrupt": {"at": 0},
}
ENDING: dict[str, dict[str, Any]] = {
    # An answer that the server never sees; `code` is the service's name for the error.
    "status": {"status": 503, "code": "SlowDown", "headers": {}, "body": None},
    # The server takes the request, the client is told this instead.
    "replace": {"status": 500, "code": "InternalError", "headers": {}, "body": None},
    # The server takes the request, the client's connection ends without an answer.
    "lose_reply": {},
    # RST after so many bytes of the body: of the answer, or of the request, which the server then gets half of.
    "reset": {"after": 0, "of": "answer"},
    # The answer says its whole length and ends after so many bytes of its body.
    "truncate": {"after": 0},
    # No answer at all, or none after so many bytes of its body, until the client gives up or the faults change.
    "hang": {"after": None},
}
CONDITIONS = ("if-match", "if-none-match", "if-unmodified-since", "if-modified-since", "x-goog-if-generation-match")
RANGES = ("range", "x-ms-range")


class Throttle:
    """A rate that many threads share."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free = 0.0
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        with self._lock:
            now = time.monotonic()
            self._free = max(self._free, now) + count / self._rate
            wait = self._free - now
        time.sleep(wait)


@dataclasses.dataclass
class Rule:
    """A fault, and the requests it is done to."""

    fault: str
    method: str | None = None  # regular expressions: the whole method,
    path: str | None = None  # somewhere in path and query,
    header: dict[str, str] = dataclasses.field(default_factory=dict)  # somewhere in the value of each of these
    skip: int = 0  # let so many of them pass first
    times: int | None = None  # then do it to so many at most
    fraction: float = 1.0  # of them, chosen by the seed
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    seen: int = 0
    hits: int = 0
    choice: random.Random = dataclasses.field(default_factory=random.Random, repr=False)
    throttle: Throttle | None = None

    @classmethod
    def read(cls, said: dict[str, Any], seed: str) -> Rule:
        """From JSON, in which the parameters stand beside the selection; raises ValueError at what it does not know."""
        said = dict(said)
        fault = said.get("fault")
        known = {**PASSING, **ENDING}.get(str(fault))
        if known is None:
            raise ValueError(f"fault {fault!r} is not one of {', '.join([*PASSING, *ENDING])}")
        parameters = {name: said.pop(name, default) for name, default in known.items()}
        selection = {"fault", "method", "path", "header", "skip", "times", "fraction"}
        if unknown := set(said) - selection:
            raise ValueError(f"{fault} takes {', '.join([*known, *sorted(selection)])}, not {', '.join(sorted(unknown))}")
        rule = cls(**said, parameters=parameters, choice=random.Random(seed))
        for pattern in filter(None, [rule.method, rule.path, *rule.header.values()]):
            re.compile(pattern)
        if fault == "bandwidth":
            rule.throttle = Throttle(parameters["bytes_per_second"])
        return rule

    def applies(self, method: str, target: str, header: Any) -> bool:
        """Whether it is done to this request, which is counted."""
        if self.method is not None and not re.fullmatch(self.method, method):
            return False
        if self.path is not None and not re.search(self.path, target):
            return False
        if any((value := header(name)) is None or not re.search(want, value) for name, want in self.header.items()):
            return False
        self.seen += 1
        if self.seen <= self.skip or (self.times is not None and self.hits >= self.times):
            return False
        if self.fraction < 1 and self.choice.random() >= self.fraction:
            return False
        self.hits += 1
        return True

    def told(self) -> dict[str, Any]:
        return {"fault": self.fault, "seen": self.seen, "hits": self.hits}
