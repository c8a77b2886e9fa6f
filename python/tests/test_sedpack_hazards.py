"""Many writers on one dataset, in real processes: no listed shard is lost or doubled, or an error says so beforehand.

Each docstring tells what the reference package 0.2.0 does in the same case, as it was seen when it was run.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sedpack_cases import make_numbered
from sigbank.sedpack import Dataset, DatasetFiller
from sigbank.sedpack.io.shard_file_metadata import ShardListInfo

Infos = list[ShardListInfo]


def examples(path: Path) -> list[int]:
    """All examples of all splits, sorted; every list and shard is verified first."""
    dataset = Dataset(path)
    dataset.check(show_progressbar=False)
    found: list[int] = []
    for split in dataset.dataset_info.splits:
        found += [int(e["i"]) for e in dataset.as_numpy_iterator(split=split, repeat=False, shuffle=0)]
    return sorted(found)


def work(path: Path, own: str, numbers: Iterable[int], split: Any = "train", **options: Any) -> Infos:
    """One session of one writer."""
    filler = DatasetFiller(Dataset(path), 1, Path(own), durable=False, **options)
    with filler:
        for i in numbers:
            filler.write_example({"i": i}, split)
    return filler.get_updated_infos()


def session(path: Path, own: str, numbers: Iterable[int], split: Any, start: Any, infos: Any) -> None:
    """`work` in a process of its own, which ends its session at the same time as the others."""
    filler = DatasetFiller(Dataset(path), 1, Path(own), durable=False)
    with filler:
        for i in numbers:
            filler.write_example({"i": i}, split)
        start.wait()
    infos.put([info.model_dump_json() for info in filler.get_updated_infos()])


def at_once(path: Path, writers: Sequence[tuple[str, Iterable[int], str]]) -> Infos:
    """Sessions that end at the same time; all their infos."""
    context = multiprocessing.get_context("fork")
    start, queue = context.Barrier(len(writers)), context.SimpleQueue()
    processes = [context.Process(target=session, args=(path, *writer, start, queue)) for writer in writers]
    for process in processes:
        process.start()
    texts = [text for _ in processes for text in queue.get()]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(writers)
    return [ShardListInfo.model_validate_json(text) for text in texts]


def program(text: str, *arguments: Any) -> subprocess.Popen[str]:
    """A Python program in a process that can be killed or interrupted."""
    head = "import os, signal, sys, time\nfrom pathlib import Path\nfrom sigbank.sedpack import Dataset, DatasetFiller\n"
    command = [sys.executable, "-c", head + text, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


# A filler that is killed, interrupted or raises after so many examples, once their shards are on the disk.
CUT_OFF = """
path, own, count, end = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
with DatasetFiller(Dataset(path), 1, Path(own)) as filler:
    for i in range(count):
        filler.write_example({"i": i}, "train")
    records = Path(path, ".sigbank/progress")
    while sum(record.read_text().count(".fb") for record in records.iterdir()) < count // 2:
        time.sleep(0.005)
    if end == "SystemExit":
        sys.exit(3)
    if end == "LookupError":
        raise LookupError("in the body")
    os.kill(os.getpid(), getattr(signal, end))
    time.sleep(60)
"""


@pytest.mark.parametrize("splits", [("train", "train"), ("train", "test")])
def test_two_default_fillers_at_once(tmp_path: Path, splits: tuple[str, str]) -> None:
    """The reference lost one filler's shards in 7 of 20 rounds within one split, and in 20 of 20 with two splits."""
    path = tmp_path / "d"
    make_numbered(path, 0)
    for n in range(0, 200, 10):
        at_once(path, [(".", range(n, n + 5), splits[0]), (".", range(n + 5, n + 10), splits[1])])
        assert examples(path) == list(range(n + 10))
    assert Dataset(path).dataset_info.splits.keys() == set(splits)


@pytest.mark.parametrize("paths", [("a", "a/b"), ("a/b", "a"), ("a", "a"), ("a", "a/b", "a/b/c", ".", "a")], ids="+".join)
@pytest.mark.parametrize("one_by_one", [False, True])
def test_overlapping_paths(tmp_path: Path, paths: tuple[str, ...], one_by_one: bool) -> None:
    """The document forbids them. The reference gives infos of leaf lists, which overlap nothing; with lists up to the
    path, as the document describes them, the second session's list would hold the first one's shards too, or replace it."""
    path = tmp_path / "d"
    make_numbered(path, 1)
    infos: Infos = []
    for n in range(10, 50, 10):
        # At once, then one after the other.
        writers = [(own, range(n * 10 + k * 5, n * 10 + k * 5 + 5), "train") for k, own in enumerate(paths)]
        infos += at_once(path, writers) if n < 30 else [i for own, numbers, _ in writers for i in work(path, own, numbers)]
        if one_by_one:
            for info in infos:
                Dataset(path).write_config(updated_infos=[info])
        else:
            Dataset(path).write_config(updated_infos=infos[::-1])
        assert len(examples(path)) == 1 + n // 10 * len(paths) * 5
    assert examples(path) == [0, *(n * 10 + i for n in range(10, 50, 10) for i in range(len(paths) * 5))]


def test_the_path_is_a_directory_that_a_generator_made(tmp_path: Path) -> None:
    """The reference's worker would rewrite a list that the root names by its checksum, if it wrote lists up to its path."""
    path = tmp_path / "d"
    make_numbered(path, 4)
    made = [p.name for p in (path / "train").iterdir() if p.is_dir()]
    assert len(made) == 1
    infos = work(path, made[0], range(10, 13))
    assert examples(path) == [0, 1, 2, 3]
    worker = work(path, "w", range(20, 23))
    inside = next(p for p in (path / "train/w").iterdir() if p.is_dir()).relative_to(path / "train").as_posix()
    infos += work(path, inside, range(30, 33))
    Dataset(path).write_config(updated_infos=infos)
    assert examples(path) == [0, 1, 2, 3, 10, 11, 12, 30, 31, 32]
    Dataset(path).write_config(updated_infos=worker)
    assert examples(path) == [0, 1, 2, 3, 10, 11, 12, 20, 21, 22, 30, 31, 32]


def test_a_worker_killed_half_way_is_run_again(tmp_path: Path) -> None:
    """The reference leaves the finished shards of the killed run on the disk, where nothing tells them from others."""
    path = tmp_path / "d"
    make_numbered(path, 0)
    killed = program(CUT_OFF, path, "w", 7, "SIGKILL")
    killed.communicate(timeout=50)
    assert killed.returncode == -signal.SIGKILL
    with pytest.warns(UserWarning, match="6 examples in 3 shards of a writer that was killed are left out"):
        infos = work(path, "w", range(7))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        infos += work(path, "w", [7], adopt=True)
    Dataset(path).write_config(updated_infos=infos)
    assert examples(path) == list(range(8))


def test_a_worker_that_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    """The reference has no way to."""
    path = tmp_path / "d"
    make_numbered(path, 0)
    program(CUT_OFF, path, "w", 7, "SIGKILL").communicate(timeout=50)
    with pytest.warns(UserWarning, match="6 examples in 3 shards of a writer that was killed were added"):
        infos = work(path, "w", [6], adopt=True)
    assert sum(info.number_of_examples for info in infos) == 7
    Dataset(path).write_config(updated_infos=infos)
    assert examples(path) == list(range(7))


def test_a_worker_whose_result_was_lost_is_run_again(tmp_path: Path) -> None:
    """The reference, which publishes a worker's shards by default, has every example twice: [0, 0, 1, 1, 2, 2, 3, 3]."""
    path = tmp_path / "d"
    make_numbered(path, 0)
    for own in ("w", "w", "job/w"):
        lost = program(
            "with DatasetFiller(Dataset(sys.argv[1]), 1, Path(sys.argv[2])) as f:\n"
            "    for i in range(4): f.write_example({'i': i}, 'train')",
            path,
            own,
        )
        assert (lost.communicate()[1], lost.returncode) == ("", 0)
    infos = work(path, "w", range(4)) + work(path, "job/w", range(4, 8))
    Dataset(path).write_config(updated_infos=infos)
    assert examples(path) == list(range(8))


MERGE = """
from sigbank.sedpack.io.shard_file_metadata import ShardListInfo
import json
infos = [ShardListInfo.model_validate(info) for info in json.loads(sys.argv[2])]
dataset = Dataset(sys.argv[1])
print("ready", flush=True)
if len(sys.argv) > 3:
    sys.stdin.readline()
dataset.write_config(updated_infos=infos)
print("done", flush=True)
"""


def as_text(infos: Infos) -> str:
    return json.dumps([json.loads(info.model_dump_json()) for info in infos])


def test_a_coordinator_killed_while_merging_is_run_again(tmp_path: Path) -> None:
    """The reference replaces the lists one by one and the root last, without a journal: killed between them, a list does
    not fit the checksum that the root leads to."""
    path = tmp_path / "d"
    make_numbered(path, 2)
    expected = [0, 1]
    killed = 0
    for n in range(12):
        owns = ("a", f"w{n}/x", "a/b", f"w{n}")
        given = [i for k, own in enumerate(owns) for i in work(path, own, range(100 * n + 10 * k + 2, 100 * n + 10 * k + 5))]
        coordinator = program(MERGE, path, as_text(given))
        assert coordinator.stdout is not None
        assert coordinator.stdout.readline() == "ready\n"
        time.sleep(0.0008 * n)
        coordinator.kill()
        coordinator.communicate()
        killed += coordinator.returncode == -signal.SIGKILL
        now = examples(path)
        new = [100 * n + 10 * k + i for k in range(4) for i in (2, 3, 4)]
        assert now in (sorted(expected), sorted(expected + new)), "all of it or nothing"
        for _ in range(2):
            Dataset(path).write_config(updated_infos=given)
            assert examples(path) == sorted(expected + new)
        expected += new
    assert killed > 0


def test_merging_again_changes_no_byte(tmp_path: Path) -> None:
    """The reference also keeps what is listed."""
    path = tmp_path / "d"
    make_numbered(path, 2)
    infos = work(path, "a/b", range(2, 5)) + work(path, "a", range(5, 8)) + work(path, "c", range(8, 9), "test")
    Dataset(path).write_config(updated_infos=infos)
    before = {p: p.read_bytes() for p in path.rglob("*.json")}
    for given in (infos, infos[::-1], infos[:1], infos + infos):
        Dataset(path).write_config(updated_infos=given)
    assert {p: p.read_bytes() for p in path.rglob("*.json")} == before
    assert examples(path) == list(range(9))


def test_two_coordinators_at_once(tmp_path: Path) -> None:
    """The reference lost what one of them merged in 19 of 20 rounds."""
    path = tmp_path / "d"
    make_numbered(path, 0)
    expected: list[int] = []
    for n in range(6):
        given = [work(path, own, range(100 * n + 10 * k, 100 * n + 10 * k + 3)) for k, own in enumerate(("a", f"b{n}", "a/c"))]
        expected += [100 * n + 10 * k + i for k in range(3) for i in range(3)]
        # Different ones, then overlapping ones.
        shares = [given[0] + given[1], given[2]] if n % 2 else [given[0] + given[1], given[1] + given[2]]
        coordinators = [program(MERGE, path, as_text(share), "wait") for share in shares]
        for coordinator in coordinators:
            assert coordinator.stdout is not None and coordinator.stdout.readline() == "ready\n"
        for coordinator in coordinators:
            assert coordinator.stdin is not None
            print("go", file=coordinator.stdin, flush=True)
        for coordinator in coordinators:
            out, err = coordinator.communicate()
            assert (out, err, coordinator.returncode) == ("done\n", "", 0)
        assert examples(path) == expected


def snapshot(path: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in path.rglob("*") if p.is_file() and ".sigbank/store" not in p.as_posix()}


def test_infos_that_do_not_fit_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The reference takes a list that was changed as it is, and merges in silence without the lists that are missing or of
    another dataset: [10, 11, 12] and [] instead of an error."""
    path, other = tmp_path / "d", tmp_path / "other"
    make_numbered(path, 2)
    make_numbered(other, 2)
    good, bad, foreign = work(path, "good", range(10, 13)), work(path, "bad", range(20, 23)), work(other, "foreign", range(3))
    same = work(other, "bad", range(30, 33))

    def moved(place: str) -> Infos:
        info = json.loads(bad[0].model_dump_json())
        info["shard_list_info_file"]["file_path"] = place
        return [ShardListInfo.model_validate(info)]

    def refused(given: Infos | Callable[[], Infos], error: type[Exception], text: str) -> None:
        before = snapshot(path)
        with pytest.raises(error, match=text):
            Dataset(path).write_config(updated_infos=good + (given() if callable(given) else given))
        assert snapshot(path) == before

    refused(foreign, FileNotFoundError, r"foreign/shards_list\.json.*is not there")
    refused(same, ValueError, r"bad/shards_list\.json.*has changed since it was described")
    refused(moved("train/nothing/shards_list.json"), FileNotFoundError, "is not there")
    for outside in ("../other/train/foreign/shards_list.json", str(other / "train/foreign/shards_list.json")):
        refused(partial(moved, outside), ValueError, r"\.\.|absolute|relative")
    refused(partial(moved, "train/bad/list.json"), ValueError, "shards_list.json")
    refused(partial(moved, "valid/bad/shards_list.json"), ValueError, "valid")
    # Each file of the worker's that was not copied, or was changed.
    for file in sorted(p for p in (path / "train/bad").rglob("*") if p.is_file()):
        kept = file.read_bytes()
        file.unlink()
        refused(bad, FileNotFoundError, file.name)
        if file.name == "shards_list.json":
            file.write_bytes(kept.replace(b'"number_of_examples": 3', b'"number_of_examples": 4'))
            refused(bad, ValueError, file.name)
        file.write_bytes(kept)
    Dataset(path).write_config(updated_infos=bad + good + bad)
    assert examples(path) == [0, 1, 10, 11, 12, 20, 21, 22]


def described(root: Path, info: ShardListInfo) -> Infos:
    """Pointers to this list and all below it, the deepest first."""
    found = [info]
    text = json.loads((root / info.shard_list_info_file.file_path).read_text())
    for child in text.get("children_shard_lists", []):
        found = described(root, ShardListInfo.model_validate(child)) + found
    return found


def test_leaf_lists_and_those_above_them_mix(tmp_path: Path) -> None:
    """The reference gives leaf lists; it merges these."""
    path = tmp_path / "d"
    make_numbered(path, 0)
    [one], [two] = work(path, "job/one", range(5)), work(path, "job/two", range(10, 15))
    of_one, of_two = described(path, one), described(path, two)
    assert [len(of_one), len(of_two)] == [4, 4]
    assert str(of_one[0].shard_list_info_file.file_path).count("/") == 6
    Dataset(path).write_config(updated_infos=[of_one[0], two])
    assert examples(path) == [*range(5), *range(10, 15)]
    for given in ([one], [of_two[0]], of_one + of_two, of_two[::-1] + of_one[::-1]):
        Dataset(path).write_config(updated_infos=given)
        assert examples(path) == [*range(5), *range(10, 15)]


@pytest.mark.parametrize("own", [".", "w"])
def test_a_shard_that_cannot_be_written(tmp_path: Path, own: str) -> None:
    """The reference's error does not say how many examples are missing."""
    path = tmp_path / "d"
    make_numbered(path, 0, per_shard=2000)
    report = tmp_path / "report"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            # Files are no longer than this: the second shard does not fit, lists and the other shards do.
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
            filler = DatasetFiller(Dataset(path), 1, Path(own))
            try:
                with filler:
                    for i, metadata in enumerate([{"k": 0}] * 10 + [{"k": 1}] * 2000 + [{"k": 2}] * 10):
                        filler.write_example({"i": i}, "train", custom_metadata=metadata)
            except OSError as error:
                report.write_text(str(error))
            Dataset(path).write_config(updated_infos=filler.get_updated_infos())
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    text = report.read_text()
    assert "2000 examples could not be written and are not listed" in text and str(path) in text
    found = examples(path)
    assert found[:10] == list(range(10)) and set(found[10:]) <= set(range(2010, 2020))


def test_a_directory_that_may_not_be_written(tmp_path: Path) -> None:
    """A file stands where the worker's directory should be made: nothing can be written, and all that was taken is counted."""
    path = tmp_path / "d"
    make_numbered(path, 2)
    (path / "train/w").write_text("in the way")
    filler = DatasetFiller(Dataset(path), 1, Path("w"))
    taken = 0
    with pytest.raises(Exception, match=r"\d+ examples could not be written and are not listed") as caught, filler:
        with pytest.raises(OSError, match="an earlier shard could not be written"):
            for i in range(1000):
                filler.write_example({"i": i}, "train")
                taken += 1
                time.sleep(0.01)
    assert f"with {taken} examples" in str(caught.value) and "stands where a directory is needed" in str(caught.value)
    assert filler.get_updated_infos() == [] and examples(path) == [0, 1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser mounts")
def test_a_full_disk(tmp_path: Path) -> None:
    """The whole shards are published, the others counted; room again, and filling goes on."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True, check=False).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        path = disk / "d"
        make_numbered(path, 0, per_shard=1000)
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(1_500_000))
        written = 0
        with pytest.raises(OSError, match=r"\d+ examples could not be written and are not listed") as caught:
            with Dataset(path).filler(concurrency=1) as filler:
                for _ in range(60_000):
                    filler.write_example({"i": written}, "train")
                    written += 1
        missing = int(str(caught.value).split(" with ")[1].split(" examples")[0])
        ballast.unlink()
        found = examples(path)
        assert len(found) == written - missing > 0 and found == sorted(set(found))
        work(path, ".", [100_000])
        assert examples(path) == [*found, 100_000]
    finally:
        # What an error still refers to may hold files open.
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize(
    ("end", "code", "error"),
    [("SIGINT", 1, "KeyboardInterrupt"), ("SystemExit", 3, ""), ("LookupError", 1, "in the body")],
)
@pytest.mark.parametrize("own", [".", "w"])
def test_what_was_written_before_an_exception_is_published(tmp_path: Path, end: str, code: int, error: str, own: str) -> None:
    """So it is in the reference with an exception; with Ctrl-C its pool's processes get the signal too."""
    path = tmp_path / "d"
    make_numbered(path, 0)
    cut_off = program(CUT_OFF, path, own, 7, end)
    _, errors = cut_off.communicate(timeout=50)
    assert error in errors and cut_off.returncode in (code, -signal.SIGINT if end == "SIGINT" else code)
    if own == ".":
        assert examples(path) == list(range(7))
    else:
        # The worker's own lists lie there, for whoever merges them; nothing is named yet.
        assert examples(path) == []
        [top] = (path / "train/w").glob("shards_list.json")
        assert json.loads(top.read_text())["number_of_examples"] == 7


def test_a_session_killed_among_others_takes_nothing_with_it(tmp_path: Path) -> None:
    """The reference's fillers overwrite each other's root, killed or not."""
    path = tmp_path / "d"
    make_numbered(path, 0)
    killed = program(
        "with Dataset(sys.argv[1]).filler(concurrency=1) as filler:\n"
        "    for i in range(7): filler.write_example({'i': i}, 'train')\n"
        "    print('written', flush=True)\n"
        "    time.sleep(60)",
        path,
    )
    assert killed.stdout is not None and killed.stdout.readline() == "written\n"
    for n in range(100, 160, 10):
        at_once(path, [(".", range(n, n + 5), "train"), (".", range(n + 5, n + 10), "test")])
        if n == 120:
            assert examples(path) == list(range(100, 130))
            killed.kill()
            killed.communicate(timeout=50)
    found = examples(path)
    # The shards that were whole when it died are adopted by whoever ends a session next.
    assert found[-60:] == list(range(100, 160)) and found[:-60] in ([0, 1, 2, 3], [0, 1, 2, 3, 4, 5])
