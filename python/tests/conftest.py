"""What holds for all tests."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# A job in the background of a shell starts with Ctrl-C ignored, and its children inherit that: tests send it to theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)

# For `servers`, which is not installed. At the end, so that the installed package is tested and not the folder beside it.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from servers.client import Control, Servers  # noqa: E402

# Servers of object storage, as {"endpoint": ..., "bucket": ...}: one for all tests, each of which writes below a prefix of its own.
# A proxy in front of it is made anew for each test, with its own rules and log.


@pytest.fixture(scope="session")
def s3_server() -> Iterator[dict[str, str]]:
    with Servers("--s3", "--control") as servers:
        yield servers.told["s3"]


@pytest.fixture(scope="session")
def s3_stub_server() -> Iterator[dict[str, str]]:
    with Servers("--s3-stub", "--control") as servers:
        yield servers.told["s3-stub"]


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[dict[str, str]]:
    with Servers("--gcs", "--control") as servers:
        yield servers.told["gcs"]


@pytest.fixture(scope="session")
def azure_server() -> Iterator[dict[str, str]]:
    with Servers("--azure", "--control") as servers:
        if "missing" in servers.told["azure"]:
            pytest.skip(servers.told["azure"]["missing"])
        yield servers.told["azure"]


@pytest.fixture(scope="session")
def http_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Its `folder` is what it serves."""
    folder = tmp_path_factory.mktemp("http")
    with Servers("--http", str(folder), "--control") as servers:
        yield {**servers.told["http"], "folder": str(folder)}


@pytest.fixture
def s3_proxy(s3_server: dict[str, str]) -> Control:
    return Control(s3_server).another()


@pytest.fixture
def gcs_proxy(gcs_server: dict[str, str]) -> Control:
    return Control(gcs_server).another()


@pytest.fixture
def azure_proxy(azure_server: dict[str, str]) -> Control:
    return Control(azure_server).another()


@pytest.fixture
def http_proxy(http_server: dict[str, str]) -> Control:
    return Control(http_server).another()
