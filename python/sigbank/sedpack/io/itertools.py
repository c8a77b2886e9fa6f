"""Iterables combined and shuffled, for code that builds its own order of shards."""

from __future__ import annotations

import collections
import itertools
import random
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")

__all__ = ["LazyPool", "round_robin", "round_robin_async", "shuffle_buffer", "shuffle_buffer_async"]


class _Reservoir(list[T]):
    """A buffer that gives up a random item for each new one."""

    def swap(self, item: T) -> T:
        index = random.randrange(len(self))
        out, self[index] = self[index], item
        return out

    def drain(self) -> Iterator[T]:
        random.shuffle(self)
        while self:
            yield self.pop()


def _buffer_size(buffer_size: int) -> int:
    if buffer_size < 1:
        raise ValueError(f"expected a buffer of at least one item, found {buffer_size}")
    return buffer_size


def shuffle_buffer(iterable: Iterable[T], buffer_size: int) -> Iterator[T]:
    """The items of `iterable` in random order, with at most `buffer_size` of them held back; ValueError below 1.

    >>> sorted(shuffle_buffer(range(5), 3))
    [0, 1, 2, 3, 4]
    """
    buffer: _Reservoir[T] = _Reservoir()
    size = _buffer_size(buffer_size)
    for item in iterable:
        if len(buffer) < size:
            buffer.append(item)
        else:
            yield buffer.swap(item)
    yield from buffer.drain()


async def shuffle_buffer_async(iterable: AsyncIterable[T], buffer_size: int) -> AsyncIterator[T]:
    """As `shuffle_buffer`, of an asynchronous iterable."""
    buffer: _Reservoir[T] = _Reservoir()
    size = _buffer_size(buffer_size)
    async for item in iterable:
        if len(buffer) < size:
            buffer.append(item)
        else:
            yield buffer.swap(item)
    for item in buffer.drain():
        yield item


def round_robin(iterables: Iterable[Iterable[T]], buffer_size: int = 5) -> Iterator[T]:
    """One item of each of `buffer_size` iterables in turn; one that ends makes room for the next; ValueError below 1.

    >>> list(round_robin(["abc", "de", "f"], buffer_size=2))
    ['a', 'd', 'b', 'e', 'c', 'f']
    """
    waiting = iter(iterables)
    running = collections.deque(map(iter, itertools.islice(waiting, _buffer_size(buffer_size))))
    while running:
        current = running.popleft()
        for item in current:
            yield item
            running.append(current)
            break
        else:
            running.extend(map(iter, itertools.islice(waiting, 1)))


async def round_robin_async(iterables: AsyncIterable[AsyncIterable[T]], buffer_size: int = 5) -> AsyncIterator[T]:
    """As `round_robin`, of asynchronous iterables."""
    waiting = aiter(iterables)
    running: collections.deque[AsyncIterator[T]] = collections.deque()
    room = _buffer_size(buffer_size)
    while True:
        while room:
            try:
                running.append(aiter(await anext(waiting)))
            except StopAsyncIteration:
                break
            room -= 1
        if not running:
            return
        current = running.popleft()
        try:
            item = await anext(current)
        except StopAsyncIteration:
            room += 1
            continue
        yield item
        running.append(current)


class LazyPool:
    """Threads that apply a function to the items of an iterable, endless ones too: never far ahead of the consumer."""

    def __init__(self, threads: int | None = 2) -> None:
        self._threads = threads or 2
        self._pool = ThreadPoolExecutor(self._threads)

    def __enter__(self) -> LazyPool:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def finish_and_reset(self) -> None:
        """Wait for what runs, drop what waits, and be ready for another iterable."""
        self._pool.shutdown(cancel_futures=True)
        self._pool = ThreadPoolExecutor(self._threads)

    def imap_unordered(self, func: Callable[[U], T], iterable: Iterable[U]) -> Iterator[T]:
        """`func` of each item. An error in `func` or in `iterable` is raised in its item's place."""
        items = iter(iterable)
        futures: collections.deque[Future[Any]] = collections.deque(
            self._pool.submit(func, item) for item in itertools.islice(items, 2 * self._threads)
        )
        while futures:
            result = futures.popleft().result()
            futures.extend(self._pool.submit(func, item) for item in itertools.islice(items, 1))
            yield result
