"""Azure Blob Storage: Azurite, which checks the signatures of requests, so that they are made here too."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import http.client
import shutil
import urllib.parse
from pathlib import Path

from .wire import Head

# The emulator's own, the same everywhere.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2023-11-03"

SIGNED = (
    "content-encoding content-language content-length content-md5 content-type date if-modified-since if-match if-none-match "
    "if-unmodified-since range"
).split()


def sign(head: Head) -> None:
    """Sets the shared-key signature for what the request now says. Other kinds of authorization are left as they are."""
    said = head.get("authorization")
    if said is not None and not said.startswith("SharedKey "):
        return
    values = [head.get(name) or "" for name in SIGNED]
    if values[2] == "0":
        values[2] = ""
    ours = sorted((name.lower(), value) for name, value in head.fields if name.lower().startswith("x-ms-"))
    if any(name == "x-ms-date" for name, _ in ours):
        values[5] = ""
    path, _, query = head.target.partition("?")
    resource = f"/{ACCOUNT}{path}"
    parameters: dict[str, list[str]] = {}
    for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True):
        parameters.setdefault(name.lower(), []).append(value)
    lines = [head.method, *values, *(f"{name}:{value}" for name, value in ours), resource]
    lines += [f"{name}:{','.join(sorted(values))}" for name, values in sorted(parameters.items())]
    digest = hmac.digest(base64.b64decode(KEY), "\n".join(lines).encode(), hashlib.sha256)
    head.set("Authorization", f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}")


def request(
    endpoint: str, method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """One signed request of `endpoint`/`target`: status, headers with small names, body."""
    url = urllib.parse.urlsplit(endpoint)
    fields = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": VERSION, "Content-Length": str(len(body))}
    fields.update(headers or {})
    head = Head(f"{method} {url.path}/{target} HTTP/1.1", list(fields.items()))
    sign(head)
    connection = http.client.HTTPConnection(url.netloc, timeout=30)
    try:
        connection.request(method, head.target, body, dict(head.fields))
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def command() -> list[str] | str:
    """The command that starts Azurite, or why there is none."""
    package = Path(__file__).parents[2] / ".cache/azurite/node_modules/azurite"
    node = shutil.which("node")
    if node is None:
        return "node is not found"
    if not package.is_dir():
        return "Azurite is not installed: run scripts/setup.sh test where npm is"
    ends_with_parent = str(Path(__file__).with_name("end_with_stdin.js"))
    options = ["--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence", "--silent", "--skipApiVersionCheck"]
    return [node, "-r", ends_with_parent, str(package / "dist/src/blob/main.js"), *options, "--disableTelemetry"]


def described(port: int, container: str) -> dict[str, str]:
    """Makes the container, and tells what a client has to be told."""
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    status, _, body = request(endpoint, "PUT", f"{container}?restype=container")
    if status != 201:
        raise RuntimeError(f"Azurite makes no container: {status} {body!r}")
    return {"endpoint": endpoint, "account": ACCOUNT, "key": KEY, "container": container}
