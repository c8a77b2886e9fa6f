"""The helpers of the interface: iterables, checksums, compressions, and the names that programs import."""

from __future__ import annotations

import asyncio
import collections
import doctest
import hashlib
import importlib
import inspect
import itertools
import pkgutil
import typing
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from sedpack_cases import CHECKSUMS, COMPRESSIONS, needs_reference, reference
from sigbank.sedpack.io.compress import CompressedFile
from sigbank.sedpack.io.itertools import LazyPool, round_robin, round_robin_async, shuffle_buffer, shuffle_buffer_async
from sigbank.sedpack.io.utils import func_or_identity, hash_checksums, hash_checksums_from_bytes, identity

MODULES = [
    "",
    "io",
    "io.types",
    "io.metadata",
    "io.shard_file_metadata",
    "io.file_info",
    "io.errors",
    "io.dataset_filler",
]
MODULES += ["io.dataset", "io.shard_info_iterator", "io.compress", "io.utils", "io.itertools", "io.iteration"]
MODULES += ["io.shard_info_iterator.balanced_iterator"]
# Names of the reference that have no counterpart: its internals, and what needs TensorFlow.
ABSENT = {"PathGenerator", "HashProtocol", "safe_update_file", "ShardProgress", "DatasetBase", "DatasetWriting"}
ABSENT |= {"DatasetIteration"}  # a base of Dataset, whose methods are looked at there
ABSENT |= {"DatasetIterationTF", "as_numpy_common", "as_tfdataset", "read_and_decode", "load_or_create", "close_shard"}
ABSENT |= {"shard_lists", "check_is_shards_list", "no_directory_traversal", "only_positive_dimensions"}
# ShardsList.write_config writes a list past the dataset that names it.
ABSENT |= {"ShardsList.write_config"}


async def as_async(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


async def collected(items: Any) -> list[Any]:
    return [item async for item in items]


def test_shuffle_buffer() -> None:
    shuffled = [tuple(shuffle_buffer(range(20), 7)) for _ in range(5)]
    assert all(sorted(order) == list(range(20)) for order in shuffled) and len(set(shuffled)) > 1
    assert list(shuffle_buffer(range(5), 1)) == [0, 1, 2, 3, 4]
    assert sorted(itertools.islice(shuffle_buffer(itertools.count(), 3), 4))[-1] < 7
    assert sorted(asyncio.run(collected(shuffle_buffer_async(as_async(range(20)), 7)))) == list(range(20))
    with pytest.raises(ValueError, match="at least one"):
        list(shuffle_buffer(range(5), 0))


def test_round_robin() -> None:
    ranges = [range(3), range(10, 15), range(20, 22)]
    expected = [0, 10, 1, 11, 2, 12, 13, 20, 14, 21]
    assert list(round_robin(ranges, buffer_size=2)) == expected
    assert list(round_robin(ranges, buffer_size=1)) == [0, 1, 2, 10, 11, 12, 13, 14, 20, 21]
    assert list(round_robin([])) == []
    many = asyncio.run(collected(round_robin_async(as_async(as_async(r) for r in ranges), buffer_size=2)))
    assert many == expected
    assert asyncio.run(collected(round_robin_async(as_async([])))) == []


def test_lazy_pool() -> None:
    with LazyPool(2) as pool:
        assert sorted(pool.imap_unordered(lambda x: x * x, range(10))) == [x * x for x in range(10)]
        assert list(itertools.islice(pool.imap_unordered(lambda x: x, itertools.count()), 5)) == [0, 1, 2, 3, 4]
        pool.finish_and_reset()
        with pytest.raises(ZeroDivisionError):
            list(pool.imap_unordered(lambda x: 1 / x, [0]))
        asked: list[int] = []
        taken = pool.imap_unordered(lambda x: x, map(lambda x: asked.append(x) or x, range(1_000)))
        collections.deque(itertools.islice(taken, 3))
        assert len(asked) < 20


def test_checksums(tmp_path: Path) -> None:
    data = b"abc" * 1_000
    (tmp_path / "f").write_bytes(data)
    found = hash_checksums_from_bytes(data, tuple(CHECKSUMS))
    assert hash_checksums(tmp_path / "f", tuple(CHECKSUMS)) == found
    for name, value in zip(CHECKSUMS, found, strict=True):
        if name in hashlib.algorithms_available:
            assert value == hashlib.new(name, data).hexdigest(), name
    assert hash_checksums_from_bytes(b"", ("xxh32", "xxh64", "xxh128")) == (
        "02cc5d05",
        "ef46db3751d8e999",
        "99aa06d3014798d86001c324468d497f",
    )
    with pytest.raises(FileNotFoundError):
        hash_checksums(tmp_path / "none", ("md5",))
    with pytest.raises(ValueError, match="crc"):
        hash_checksums_from_bytes(b"", ("crc",))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_compressions(name: Any) -> None:
    data = b"signal" * 5_000 + bytes(range(256))
    packed = CompressedFile(name).compress(data)
    assert CompressedFile(name).decompress(packed) == data
    assert (len(packed) < len(data) // 4) is (name != "")
    if name:
        with pytest.raises(ValueError):
            CompressedFile(name).decompress(packed[:-3])


@needs_reference
@pytest.mark.parametrize("name", COMPRESSIONS)
def test_compressions_are_the_references(name: Any) -> None:
    theirs = reference("io.compress").CompressedFile(name)
    data = b"signal" * 5_000 + bytes(range(256))
    assert theirs.decompress(CompressedFile(name).compress(data)) == data
    assert CompressedFile(name).decompress(theirs.compress(data)) == data
    assert CompressedFile.supported_compressions() == theirs.supported_compressions()


def test_unknown_compression() -> None:
    for name in ("ZIP", "Q"):
        with pytest.raises(ValueError, match=f"found '{name}'"):
            CompressedFile(name)  # type: ignore[arg-type]


def test_functions() -> None:
    assert func_or_identity(None) is identity
    assert func_or_identity(len)("ab") == 2


@needs_reference
@pytest.mark.parametrize("module", MODULES)
def test_names_and_parameters_of_the_reference_are_there(module: str) -> None:
    mine, theirs = _module("sigbank.sedpack", module), _module("sedpack", module)
    for name, other in vars(theirs).items():
        defined_here = getattr(other, "__module__", theirs.__name__).startswith("sedpack")
        if name.startswith("_") or name in ABSENT or inspect.ismodule(other) or not defined_here:
            continue
        if isinstance(other, typing.TypeVar) or not (callable(other) or isinstance(other, str)):
            continue
        found = getattr(mine, name, None)
        if found is None:
            assert name in _borrowed(theirs), f"{module}.{name} is missing"
            continue
        if inspect.isclass(other):
            _assert_methods(found, other)
        elif inspect.isfunction(other):
            _assert_parameters(found, other, name)
        elif isinstance(other, str):
            assert found == other


def _borrowed(module: Any) -> set[str]:
    """Names that a module of the reference only imports from another one, and does not offer itself."""
    offered = getattr(module, "__all__", None)
    return {
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", module.__name__) != module.__name__ and (offered is None or name not in offered)
    }


def _module(package: str, name: str) -> Any:
    return importlib.import_module(f"{package}.{name}" if name else package)


def _assert_methods(mine: type, theirs: type) -> None:
    for name, other in inspect.getmembers(theirs):
        inherited = getattr(other, "__module__", None) not in (None, theirs.__module__) and "sedpack" not in str(
            getattr(other, "__module__", "")
        )
        if name.startswith(("_", "model_")) or name in ABSENT or inherited or f"{theirs.__name__}.{name}" in ABSENT:
            continue
        if inspect.isfunction(other):
            assert hasattr(mine, name), f"{theirs.__name__}.{name} is missing"
            _assert_parameters(getattr(mine, name), other, f"{theirs.__name__}.{name}")
        elif isinstance(other, property):
            assert isinstance(getattr(mine, name), property), f"{theirs.__name__}.{name} is missing"


def _assert_parameters(mine: Any, theirs: Any, where: str) -> None:
    found, expected = inspect.signature(mine).parameters, inspect.signature(theirs).parameters
    for name, parameter in expected.items():
        assert name in found, f"{where} lacks the parameter {name}"
        assert found[name].kind in (parameter.kind, inspect.Parameter.POSITIONAL_OR_KEYWORD), f"{where}: {name}"
        # The document's default differs from the package's for these two.
        if parameter.default is not inspect.Parameter.empty and name not in ("concurrency", "auto_update_dataset"):
            assert found[name].default == parameter.default, f"{where}: {name}"
    order = [name for name in found if name in expected]
    assert order == list(expected), where


def test_examples_in_the_documentation() -> None:
    package = importlib.import_module("sigbank.sedpack")
    modules = [package, *(importlib.import_module(m.name) for m in pkgutil.walk_packages(package.__path__, "sigbank.sedpack."))]
    results = [doctest.testmod(module) for module in modules]
    assert sum(result.failed for result in results) == 0
    assert sum(result.attempted for result in results) > 10
