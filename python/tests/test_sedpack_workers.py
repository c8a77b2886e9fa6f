"""Writing from several processes: `write_multiprocessing` and workers of one's own, as the format document prints them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sedpack_cases import make_numbered
from sigbank.sedpack import Dataset, DatasetFiller
from test_sedpack_hazards import at_once, examples, program

# The document's programs, letter by letter; before them only the imports, from our package.
DOCUMENT = '''
from pathlib import Path
from sigbank.sedpack.io import Dataset, DatasetFiller
from sigbank.sedpack.io.shard_file_metadata import ShardListInfo
from sigbank.sedpack.io.types import ExampleT, SplitT

def feed_worker(
    dataset_filler: DatasetFiller,
    chunk: list[ExampleT],
    split: SplitT = "train",
) -> int:
    # First argument is `dataset_filler`; remaining `*args` and `**kwargs`
    # are unpacked from `custom_arguments` and `custom_kwarguments`.
    with dataset_filler:
        for values in chunk:
            dataset_filler.write_example(values=values, split=split)
    return len(chunk)

def run_worker(
    dataset_path: Path,
    worker_id: int,
    items: list[ExampleT],
) -> list[ShardListInfo]:
    ds = Dataset(dataset_path)
    filler = DatasetFiller(
        dataset=ds,
        relative_path_from_split=Path(f"worker_{worker_id}"),
    )
    with filler:
        for item in items:
            filler.write_example(values=item, split="train")
    return filler.get_updated_infos()

if __name__ == "__main__":
    import multiprocessing, sys
    multiprocessing.set_start_method(sys.argv[2])
    dataset = Dataset(sys.argv[1])
    chunk_0, chunk_1 = [{"i": i} for i in range(3)], [{"i": i} for i in range(3, 5)]

    counts = dataset.write_multiprocessing(
        feed_writer=feed_worker,
        custom_arguments=[(chunk_0,), (chunk_1,)],
        custom_kwarguments=[{"split": "train"}, {"split": "test"}],
    )
    assert counts == [3, 2], counts
    chunks = [[{"i": i} for i in range(n, n + 3)] for n in (10, 20)]

    # Coordinator: merge all worker ShardListInfo updates into the dataset.
    updated_infos: list[ShardListInfo] = []
    for worker_id, chunk in enumerate(chunks):
        updated_infos.extend(run_worker(dataset.path, worker_id, chunk))
    dataset.write_config(updated_infos=updated_infos)
    print([str(info.shard_list_info_file.file_path) for info in updated_infos])
'''


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_programs_of_the_document(tmp_path: Path, method: str) -> None:
    """The reference fails: its fillers have no `write_example`, and it "cannot pickle '_thread.lock' object"."""
    dataset = make_numbered(tmp_path / "d", 0)
    (tmp_path / "program.py").write_text(DOCUMENT)
    command = [sys.executable, str(tmp_path / "program.py"), str(dataset.path), method]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == "['train/worker_0/shards_list.json', 'train/worker_1/shards_list.json']\n"
    assert examples(dataset.path) == [0, 1, 2, 3, 4, 10, 11, 12, 20, 21, 22]
    train = [e["i"] for e in Dataset(dataset.path).as_numpy_iterator(split="train", repeat=False, shuffle=0)]
    assert train == [0, 1, 2, 10, 11, 12, 20, 21, 22]


@pytest.fixture(params=["fork", "spawn"])
def method(request: pytest.FixtureRequest) -> Iterator[str]:
    """How `write_multiprocessing` starts its processes."""
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method(request.param, force=True)
    yield request.param
    multiprocessing.set_start_method(before, force=True)


def feed(filler: DatasetFiller, numbers: list[int], split: Any = "train", *, act: str = "") -> tuple[str, int]:
    """Writes the numbers, and does something untoward on the way."""
    with filler:
        for at, i in enumerate(numbers):
            filler.write_example({"i": i}, split)
            if at == len(numbers) // 2:
                if act == "raise":
                    raise LookupError(f"cannot make {i}")
                if act == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if act == "sleep":
                    time.sleep(0.5)
                if act == "hang":
                    time.sleep(600)
    return filler._relative_path.name, os.getpid()


def ignore(filler: DatasetFiller) -> str:
    """Never opens its filler."""
    return "ignored"


def feed_locked(filler: DatasetFiller) -> Any:
    """A result that no other process can have."""
    feed(filler, [1])
    return (i for i in [1])


def left(path: Path) -> list[str]:
    """The files of the dataset, without what is ours."""
    return sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file() and ".sigbank" not in p.parts)


def test_more_calls_than_processes(tmp_path: Path, method: str) -> None:
    path = tmp_path / "d"
    dataset = make_numbered(path, 0)
    calls = [(list(range(n * 10, n * 10 + 5)),) for n in range(7)]
    # The first call takes longest: results are in the order of the calls nevertheless.
    keywords: list[dict[str, Any]] = [{"act": "sleep"}, *({"split": ("train", "test")[n % 2]} for n in range(1, 7))]
    first = dataset.write_multiprocessing(feed_writer=feed, custom_arguments=calls, custom_kwarguments=keywords)
    assert len({own for own, _ in first}) == 7 and os.getpid() not in {process for _, process in first}
    assert examples(path) == [n * 10 + i for n in range(7) for i in range(5)]
    again = dataset.write_multiprocessing(
        feed_writer=feed, custom_arguments=[([100, 101],), ([102],)], consistency_check=False
    )
    assert len({own for own, _ in first + again}) == 9
    assert examples(path)[-3:] == [100, 101, 102] and len(examples(path)) == 38
    train = [e["i"] for e in Dataset(path).as_numpy_iterator(split="train", repeat=False, shuffle=0)]
    assert train[:10] == [0, 1, 2, 3, 4, 20, 21, 22, 23, 24], "shards stand in the order of the calls"
    for own, _ in first[:1]:
        assert (path / "train" / own / "shards_list.json").is_file()


def test_a_call_that_raises(tmp_path: Path, method: str) -> None:
    path = tmp_path / "d"
    dataset = make_numbered(path, 3)
    before = left(path)
    calls = [(list(range(n * 10, n * 10 + 10)),) for n in range(1, 7)]
    keywords: list[dict[str, Any]] = [{}] * 6
    keywords[1] = {"act": "raise"}
    with pytest.raises(LookupError, match="cannot make 25") as caught:
        dataset.write_multiprocessing(feed_writer=feed, custom_arguments=calls, custom_kwarguments=keywords)
    assert any("in call 1 (from 0) of 6" in note for note in caught.value.__notes__)
    assert examples(path) == [0, 1, 2] and left(path) == before, "nothing is named and nothing remains"
    dataset.write_multiprocessing(feed_writer=feed, custom_arguments=calls)
    assert examples(path) == [0, 1, 2, *range(10, 70)]


def test_a_process_that_is_killed(tmp_path: Path, method: str) -> None:
    path = tmp_path / "d"
    dataset = make_numbered(path, 3)
    before = left(path)
    calls = [(list(range(n * 10, n * 10 + 10)),) for n in range(1, 5)]
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"was killed by signal 9 before call 1 \(from 0\) of 4 was done"):
        dataset.write_multiprocessing(
            feed_writer=feed, custom_arguments=calls, custom_kwarguments=[{"act": "hang"}, {"act": "kill"}, {}, {}]
        )
    assert time.monotonic() - start < 60
    assert examples(path) == [0, 1, 2] and left(path) == before
    # A filler that follows adopts nothing of it.
    with dataset.filler() as filler:
        filler.write_example({"i": 3}, "train")
    assert examples(path) == [0, 1, 2, 3]


def test_what_cannot_be_sent_to_another_process(tmp_path: Path, method: str) -> None:
    path = tmp_path / "d"
    dataset = make_numbered(path, 1)
    with pytest.raises(TypeError, match="cannot be sent to another process.*top level of a module, or single_process=True"):
        dataset.write_multiprocessing(feed_writer=lambda filler: feed(filler, [1]), custom_arguments=[()])
    with pytest.raises(Exception, match="pickle"):
        dataset.write_multiprocessing(feed_writer=feed, custom_arguments=[([1],), ((i for i in [1]),)])
    with pytest.raises(Exception, match="pickle"):
        dataset.write_multiprocessing(feed_writer=feed_locked, custom_arguments=[()])
    assert examples(path) == [0] and len(left(path)) == 6
    here = dataset.write_multiprocessing(
        feed_writer=lambda filler, i: feed(filler, [i])[1], custom_arguments=[(1,)], single_process=True
    )
    assert here == [os.getpid()]
    assert examples(path) == [0, 1]


@pytest.mark.parametrize("single_process", [False, True])
def test_arguments_that_do_not_fit(tmp_path: Path, single_process: bool) -> None:
    """The reference also gives an empty list for no calls."""
    path = tmp_path / "d"
    dataset = make_numbered(path, 1)
    differing: list[tuple[list[Any], list[dict[str, Any]]]] = [([], [{}]), ([([1],)], []), ([([1],), ([2],)], [{}])]
    for arguments, keywords in differing:
        with pytest.raises(ValueError, match=f"found {len(arguments)} and {len(keywords)}"):
            dataset.write_multiprocessing(
                feed_writer=feed, custom_arguments=arguments, custom_kwarguments=keywords, single_process=single_process
            )
    assert dataset.write_multiprocessing(feed_writer=feed, custom_arguments=[], single_process=single_process) == []
    with pytest.raises(TypeError, match="unexpected keyword") as caught:
        dataset.write_multiprocessing(
            feed_writer=feed, custom_arguments=[([1],)], custom_kwarguments=[{"no": 1}], single_process=single_process
        )
    assert any("in call 0 (from 0) of 1" in note for note in caught.value.__notes__)
    # A call may write nothing, or leave its filler alone.
    ignored = dataset.write_multiprocessing(feed_writer=ignore, custom_arguments=[()] * 2, single_process=single_process)
    assert ignored == ["ignored"] * 2
    assert examples(path) == [0]


def test_the_consistency_check(tmp_path: Path) -> None:
    path = tmp_path / "d"
    dataset = make_numbered(path, 4)
    shard = next((path / "train").rglob("*.fb"))
    shard.write_bytes(shard.read_bytes()[::-1])
    with pytest.raises(ValueError, match=shard.name):
        dataset.write_multiprocessing(feed_writer=feed, custom_arguments=[([10],)], single_process=True)
    dataset.write_multiprocessing(feed_writer=feed, custom_arguments=[([11],)], single_process=True, consistency_check=False)
    assert dataset.dataset_info.splits["train"].number_of_examples == 6


INTERRUPTED = """
import threading
sys.path.insert(0, sys.argv[2])
from test_sedpack_workers import feed
if __name__ == "__main__":
    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    Dataset(sys.argv[1]).write_multiprocessing(
        feed_writer=feed, custom_arguments=[(list(range(10)),)] * 5, custom_kwarguments=[{"act": "sleep"}] * 5 )
"""


def test_ctrl_c(tmp_path: Path) -> None:
    path = tmp_path / "d"
    make_numbered(path, 3)
    before = left(path)
    text = INTERRUPTED.replace("* 5", "* 50")
    stopped = program(text, path, Path(__file__).parent)
    _, errors = stopped.communicate(timeout=50)
    assert "KeyboardInterrupt" in errors and stopped.returncode in (1, -signal.SIGINT)
    assert examples(path) == [0, 1, 2] and left(path) == before


def test_a_coordinator_that_is_killed(tmp_path: Path) -> None:
    """Its processes end, what they wrote is not named, and the whole is run again."""
    path = tmp_path / "d"
    dataset = make_numbered(path, 3)
    stopped = program(INTERRUPTED.replace("SIGINT", "SIGKILL").replace("* 5", "* 50"), path, Path(__file__).parent)
    stopped.communicate(timeout=50)
    assert stopped.returncode == -signal.SIGKILL
    assert examples(path) == [0, 1, 2]
    dataset.write_multiprocessing(feed_writer=feed, custom_arguments=[([3, 4],), ([5],)])
    assert examples(path) == [0, 1, 2, 3, 4, 5]


def test_a_filler_belongs_to_its_process(tmp_path: Path) -> None:
    path = tmp_path / "d"
    dataset = make_numbered(path, 0)
    with dataset.filler() as filler:
        filler.write_example({"i": 0}, "train")
        child = os.fork()
        if child == 0:
            try:
                filler.write_example({"i": 1}, "train")
            except ValueError as error:
                os._exit(7 if "process that made it" in str(error) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert examples(path) == [0]


def test_forty_writers_at_once(tmp_path: Path) -> None:
    path = tmp_path / "d"
    make_numbered(path, 0)
    writers = [(".", f"w{n}", "job/w", f"job/w{n}")[n % 4] for n in range(40)]
    infos = at_once(path, [(own, range(n * 10, n * 10 + 5), ("train", "test")[n % 2]) for n, own in enumerate(writers)])
    assert examples(path) == [n * 10 + i for n in range(0, 40, 4) for i in range(5)]
    Dataset(path).write_config(updated_infos=infos)
    assert examples(path) == [n * 10 + i for n in range(40) for i in range(5)]
    assert Dataset(path).dataset_info.splits["test"].number_of_shards == 60
