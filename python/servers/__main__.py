"""`python -m servers`, or `python python/servers`: see `--help`."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import urllib.parse
from pathlib import Path
from typing import IO, Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from servers import azure, s3
from servers.proxy import Proxy

BUCKET = "sigbank-test"
Description = dict[str, Any]


def run(command: list[str], log: IO[bytes] | int) -> subprocess.Popen[bytes]:
    """A server that ends when its standard input closes: when we end, however that is."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment)


def lines(child: subprocess.Popen[bytes], name: str) -> Any:
    assert child.stdout is not None
    for line in child.stdout:
        yield line.decode()
    raise SystemExit(f"error: the server for {name} ended: {child.wait()} (--log FILE tells why)")


def main() -> None:
    parser = argparse.ArgumentParser(prog="servers", description=__doc__)
    parser.add_argument("--s3", action="store_true", help="S3, by moto")
    parser.add_argument("--azure", action="store_true", help="Azure, by Azurite; told as missing where that is not installed")
    parser.add_argument("--gcs", action="store_true", help="GCS, by a stub")
    parser.add_argument("--s3-stub", action="store_true", help="S3, by the same stub: for measurements")
    parser.add_argument("--http", metavar="DIR", help="a folder over HTTP")
    parser.add_argument("--proxy", metavar="NAME", action="append", default=[], help="a proxy in front of one of them")
    parser.add_argument("--control", action="store_true", help="a proxy in front of each of them")
    parser.add_argument("--log", metavar="FILE", help="what the servers say")
    options = parser.parse_args()

    log: IO[bytes] | int = open(options.log, "ab") if options.log else subprocess.DEVNULL
    children: dict[str, subprocess.Popen[bytes]] = {}
    told: dict[str, Description] = {}
    try:
        # All are started before the first is waited for.
        if options.s3:
            children["s3"] = run([sys.executable, "-m", "servers.s3", BUCKET], log)
        if options.azure:
            command = azure.command()
            if isinstance(command, str):
                told["azure"] = {"missing": command}
            else:
                children["azure"] = run(command, log)
        if options.gcs:
            children["gcs"] = run([sys.executable, "-m", "servers.gcs", BUCKET], log)
        if options.s3_stub:
            children["s3-stub"] = run([sys.executable, "-m", "servers.gcs", BUCKET, "s3"], log)
        if options.http:
            children["http"] = run([sys.executable, "-m", "servers.files", options.http], log)
        for name, child in children.items():
            told[name] = described(name, child)
        proxies = told if options.control else options.proxy
        for name in proxies:
            if name not in told:
                parser.error(f"--proxy {name}: there is no such server among those asked for")
            if "endpoint" in told[name]:
                resign = azure.sign if name == "azure" else None
                told[name].update(Proxy(told[name]["endpoint"], resign).described())
        print(json.dumps(told), flush=True)
        sys.stdin.read()
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    finally:
        for child in children.values():
            child.kill()
        for child in children.values():
            child.wait()


def described(name: str, child: subprocess.Popen[bytes]) -> Description:
    """Waits until the server is ready."""
    for line in lines(child, name):
        if name == "azure":
            if found := re.search(r"listens on (http://\S+)", line):
                return azure.described(urllib.parse.urlsplit(found[1]).port or 0, BUCKET)
            continue
        said: Description = json.loads(line)
        return {**said, **s3.KEYS} if name.startswith("s3") else said
    raise AssertionError("not reached")


if __name__ == "__main__":
    main()
