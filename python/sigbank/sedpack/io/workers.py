"""Writing from several processes: what `Dataset.write_multiprocessing` does."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import threading
import traceback
import uuid
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
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
    """Call `feed_writer` once for each entry of the arguments, with a filler of its own, and merge what they wrote."""
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
        written = _here(calls) if single_process else _in_processes(calls)
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


def _here(calls: list[_Call]) -> list[_Written]:
    written = []
    for number, call in enumerate(calls):
        try:
            written.append(_feed(call))
        except Exception as error:
            _note(error, number, len(calls))
            raise
    return written


def _in_processes(calls: list[_Call]) -> list[_Written]:
    """Make the calls in as many processes as there are processors.

    Each process has a pipe of its own. A `ProcessPoolExecutor` shares locks among its processes, and one that
    is killed while it holds such a lock leaves the others, and the caller, waiting for ever.
    """
    context = multiprocessing.get_context()
    processes: dict[Connection, BaseProcess] = {}
    written: dict[int, _Written] = {}
    failed: dict[int, BaseException] = {}
    waiting = list(enumerate(calls))[::-1]
    busy: dict[Connection, int] = {}

    def give(pipe: Connection) -> None:
        if not waiting or failed:
            return
        number, call = waiting.pop()
        try:
            message = pickle.dumps(call)
        except Exception as error:
            failed[number] = error
            return
        busy[pipe] = number
        with contextlib.suppress(OSError):
            # A process that is gone is noticed when it should answer.
            pipe.send_bytes(message)

    try:
        for _ in range(min(len(calls), _processors())):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there,))
            process.start()
            there.close()
            processes[here] = process
        for pipe in processes:
            give(pipe)
        while busy:
            ready = wait(list(busy))
            for pipe in [pipe for pipe in busy if pipe in ready]:
                number = busy.pop(pipe)
                try:
                    answer, error = pickle.loads(pipe.recv_bytes())
                except (EOFError, OSError):
                    processes[pipe].join()
                    raise _ended(number, len(calls), processes[pipe].exitcode) from None
                if error is None:
                    written[number] = answer
                else:
                    failed[number] = error
                give(pipe)
        for pipe in processes:
            # Closing it would not do: processes that were forked later hold it too.
            with contextlib.suppress(OSError):
                pipe.send_bytes(b"")
        for ended in processes.values():
            ended.join()
    finally:
        # Only where something went wrong are any left. What they were writing is not named.
        for left in processes.values():
            left.kill()
            left.join()
    for number, error in sorted(failed.items(), key=lambda item: item[0]):
        _note(error, number, len(calls))
        raise error
    return [written[number] for number in range(len(calls))]


def _serve(pipe: Connection) -> None:
    """Make the calls that come through the pipe, until there are no more."""
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        # Otherwise a call would go on although the coordinator was killed.
        if parent is not None:
            wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    while True:
        try:
            call = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        if not call:
            return
        try:
            answer = pickle.dumps((_feed(pickle.loads(call)), None))
        except BaseException as error:  # noqa: BLE001
            answer = _pickled(error)
        pipe.send_bytes(answer)


def _pickled(error: BaseException) -> bytes:
    """The exception with its traceback as a note, or another one that says the same."""
    error.add_note("".join(traceback.format_exception(error)).rstrip())
    try:
        pickled = pickle.dumps((None, error))
        pickle.loads(pickled)
    except Exception:  # noqa: BLE001
        return pickle.dumps((None, RuntimeError("\n".join(traceback.format_exception(error)))))
    return pickled


def _ended(number: int, count: int, code: int | None) -> RuntimeError:
    how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
    return RuntimeError(
        f"a process of write_multiprocessing {how} before call {number} (from 0) of {count} was done: "
        'for lack of memory, perhaps, or because the program that was started has no `if __name__ == "__main__":`. Nothing that the calls wrote is named'
    )


def _processors() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _note(error: BaseException, number: int, count: int) -> None:
    error.add_note(f"in call {number} (from 0) of {count} of write_multiprocessing; nothing that the calls wrote is named")


def _picklable(feed_writer: Callable[..., Any]) -> None:
    try:
        pickle.dumps(feed_writer)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"feed_writer {feed_writer!r} cannot be sent to another process ({error}): give a function that is defined at "
            "the top level of a module, or single_process=True"
        ) from error
