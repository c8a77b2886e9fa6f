"""Writing from several processes: what `Dataset.write_multiprocessing` does."""

from __future__ import annotations

import multiprocessing.connection
import os
import pickle
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .dataset_filler import DatasetFiller
from .shard_file_metadata import ShardListInfo

if TYPE_CHECKING:
    from .dataset import Dataset

_Call = tuple[Callable[..., Any], DatasetFiller, Sequence[Any], dict[str, Any]]
_Written = tuple[list[ShardListInfo], Any]


def write_multiprocessing(
    dataset: Dataset,
    feed_writer: Callable[..., Any],
    custom_arguments: Sequence[Sequence[Any]],
    custom_kwarguments: Sequence[dict[str, Any]] | None,
    *,
    consistency_check: bool,
    single_process: bool,
) -> list[Any]:
    """Call `feed_writer` once for each entry of the arguments, each time with a filler of its own, and merge what they wrote."""
    arguments = list(custom_arguments)
    kwarguments = [{} for _ in arguments] if custom_kwarguments is None else list(custom_kwarguments)
    if len(kwarguments) != len(arguments):
        raise ValueError(
            f"expected as many custom_arguments as custom_kwarguments, found {len(arguments)} and {len(kwarguments)}"
        )
    if not arguments:
        return []
    if not single_process:
        _picklable(feed_writer)
    # One job's directory: given up as a whole where a call fails.
    job = [uuid.uuid4().hex for _ in arguments]
    fillers = [DatasetFiller(dataset, concurrency=1, relative_path_from_split=Path(name)) for name in job]
    calls: list[_Call] = [(feed_writer, *call) for call in zip(fillers, arguments, kwarguments)]
    try:
        written = list(_here(calls) if single_process else _in_processes(calls))
    except BaseException:
        for name in job:
            dataset._native.discard(name)
        raise
    dataset.write_config(updated_infos=[info for infos, _ in written for info in infos])
    if consistency_check:
        dataset.check(show_progressbar=False)
    return [result for _, result in written]


def _feed(call: _Call) -> _Written:
    feed_writer, filler, arguments, kwarguments = call
    result = feed_writer(filler, *arguments, **kwarguments)
    return filler.get_updated_infos(), result


def _here(calls: list[_Call]) -> Iterator[_Written]:
    for number, call in enumerate(calls):
        try:
            yield _feed(call)
        except Exception as error:
            _note(error, number, len(calls))
            raise


def _in_processes(calls: list[_Call]) -> Iterator[_Written]:
    with ProcessPoolExecutor(initializer=_end_with_parent) as pool:
        futures: list[Future[_Written]] = [pool.submit(_feed, call) for call in calls]
        try:
            # Whichever fails first, the calls that have not begun are not made.
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            for future in futures:
                future.cancel()
        for number, future in enumerate(futures):
            if future.cancelled():
                continue
            try:
                yield future.result()
            except BrokenProcessPool as error:
                raise BrokenProcessPool(
                    "a process of write_multiprocessing ended before its call was done: it was killed (for lack of memory, "
                    'perhaps), or the program that was started has no `if __name__ == "__main__":`. Nothing that the calls '
                    "wrote is named"
                ) from error
            except Exception as error:
                _note(error, number, len(calls))
                raise


def _end_with_parent() -> None:
    """A process of the pool ends when the coordinator is killed; otherwise it would wait for more work for ever."""
    parent = multiprocessing.parent_process()

    def wait_for_end() -> None:
        if parent is not None:
            multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait_for_end, daemon=True).start()


def _note(error: Exception, number: int, count: int) -> None:
    error.add_note(f"in call {number} (from 0) of {count} of write_multiprocessing; nothing that the calls wrote is named")


def _picklable(feed_writer: Callable[..., Any]) -> None:
    try:
        pickle.dumps(feed_writer)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"feed_writer {feed_writer!r} cannot be sent to another process ({error}): give a function that is defined at the top "
            "level of a module, or single_process=True"
        ) from error
