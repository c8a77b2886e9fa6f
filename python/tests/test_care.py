"""`sigbank check --repair`, `merge`, `split` and `recompress`, with the reference package as the one who reads the results."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import sedpack.io as reference

import sigbank.sedpack.io as ours

PROGRAM = os.environ.get("SIGBANK_PROGRAM", str(Path(sys.executable).parent / "sigbank"))


def run(*args):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=60)


def done(*args):
    said = run(*args, "--json")
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def example(n):
    return {"trace": np.arange(50, dtype=np.float32) * n, "n": n, "note": f"é {n}", "blob": bytes(range(n % 5 + 1))}


def make(path, package, sessions, **structure):
    """A dataset of examples; a session is a list of (split, numbers, key)."""
    attributes = [("trace", "float32", (50,)), ("n", "int", ()), ("note", "str", ()), ("blob", "bytes", ())]
    described = package.DatasetStructure(
        saved_data_description=[package.Attribute(name=n, dtype=d, shape=s, custom_metadata={"of": n}) for n, d, s in attributes],
        **{"compression": "ZSTD", "examples_per_shard": 2, "hash_checksum_algorithms": ("sha256", "xxh64"), **structure},
    )
    metadata = package.Metadata(description=path.name, custom_metadata={"lab": 7})
    dataset = package.Dataset.create(path=path, metadata=metadata, dataset_structure=described)
    for session in sessions:
        with dataset.filler(concurrency=1) as filler:
            for split, numbers, key in session:
                for n in numbers:
                    filler.write_example(values=example(n), split=split, custom_metadata={"key": key})
    return path


def read(path, split):
    """The numbers of a split as the reference reads them, with their shards' keys; everything is compared on the way."""
    dataset = reference.Dataset(path)
    dataset.check(show_progressbar=False)
    keys = []
    for shard in dataset.shard_info_iterator(split):
        keys += [shard.custom_metadata.get("key")] * shard.number_of_examples
    found = []
    for values in dataset.as_numpy_iterator(split=split, repeat=False, shuffle=0):
        expected = example(values["n"])
        assert values["trace"].dtype == np.float32 and np.array_equal(values["trace"], expected["trace"])
        assert (values["note"], values["blob"]) == (expected["note"], expected["blob"])
        found.append(values["n"])
    assert len(found) == len(keys)
    if dataset.dataset_structure.shard_file_type == "fb":
        assert len(list(dataset.as_numpy_iterator_rust(split=split, repeat=False, shuffle=0))) == len(keys)
    return list(zip(found, keys, strict=True))


def keyed(numbers, key):
    return [(n, key) for n in numbers]


def shards(path, split):
    return [path / str(s.file_infos[0].file_path) for s in reference.Dataset(path).shard_info_iterator(split)]


@pytest.fixture(params=[reference, ours], ids=["reference", "sigbank"])
def damaged(request, tmp_path):
    """A dataset with a shard that is gone, one that is damaged, a lost list, and the whole shards of a split that nothing lists."""
    sessions = [[("train", range(6), 1), ("train", range(6, 10), 2)], [("test", range(20, 24), 5)], [("holdout", range(30, 32), 6)]]
    path = make(tmp_path / "damaged", request.param, sessions)
    files = shards(path, "train")
    files[1].unlink()
    files[3].write_bytes(files[3].read_bytes()[:-3])
    (shards(path, "test")[0].parent / "shards_list.json").unlink()
    root = json.loads((path / "dataset_info.json").read_text())
    del root["splits"]["holdout"]
    (path / "dataset_info.json").write_text(json.dumps(root))
    return path


def assert_repaired(path):
    assert read(path, "train") == keyed([0, 1, 4, 5], 1) + keyed([8, 9], 2)
    assert sorted(read(path, "test")) == keyed(range(20, 24), None), "their metadata were in the lost list"
    assert read(path, "holdout") == keyed([30, 31], 6)
    said = run("check", path)
    assert said.returncode == 0, said.stderr
    assert done("check", "--repair", "--dry-run", path)["actions"] == []


def test_the_reference_reads_what_was_repaired(damaged):
    with pytest.raises((ValueError, FileNotFoundError)):
        reference.Dataset(damaged).check(show_progressbar=False)
    planned = run("check", "--repair", "--dry-run", "--json", damaged)
    assert planned.returncode == 1
    report = done("check", "--repair", "--yes", damaged)
    assert report["actions"] == json.loads(planned.stdout)["actions"]
    done_to = sorted((a["action"], a["split"], a["examples"]) for a in report["actions"])
    assert done_to == [
        ("adopt", "test", 2),
        ("adopt", "test", 2),
        ("adopt list", "holdout", 2),
        ("drop", "train", 2),
        ("drop", "train", 2),
        ("rebuild list", "test", 4),
    ]
    assert_repaired(damaged)
    with reference.Dataset(damaged).filler() as filler:
        filler.write_example(values=example(40), split="train", custom_metadata={"key": 9})
    assert read(damaged, "train")[-1] == (40, 9)


def ask(path, answer):
    """What is said on a terminal, and the exit code, of a repair that is answered so."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(PROGRAM, [PROGRAM, "check", "--repair", str(path)])
    said, deadline, asked = b"", time.monotonic() + 60, False
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            said += os.read(terminal, 65536)
        except OSError:
            break
        if not asked and b"Type yes" in said:
            os.write(terminal, answer + b"\n")
            asked = True
    os.close(terminal)
    return said.decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_it_asks_on_a_terminal(damaged):
    before = sorted((p, p.read_bytes()) for p in damaged.rglob("*") if p.is_file() and ".sigbank" not in p.parts)
    said, code = ask(damaged, b"no")
    assert code == 1 and "drop train/" in said and "Repair this?" in said and "repaired" not in said
    assert sorted((p, p.read_bytes()) for p in damaged.rglob("*") if p.is_file() and ".sigbank" not in p.parts) == before
    said, code = ask(damaged, b"yes")
    assert code == 0 and "repaired; root sha256:" in said
    assert_repaired(damaged)


WRITER = """
    import sys, time
    import numpy as np
    import sigbank.sedpack.io as io
    sys.path.insert(0, sys.argv[2])
    from test_care import example
    with io.Dataset(sys.argv[1]).filler(concurrency=1) as filler:
        for n in range(100, 105):
            filler.write_example(example(n), "train", custom_metadata={"key": 3})
        print("written", flush=True)
        time.sleep(60)
"""


def test_shards_of_a_writer_are_its_own_until_it_is_killed(tmp_path):
    path = make(tmp_path / "dataset", ours, [[("train", range(4), 1)]])
    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), path, Path(__file__).parent], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout.readline() == "written\n"
        deadline = time.monotonic() + 30
        while len(list(path.glob("train/*/*/*/*.fb"))) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        report = done("check", "--repair", "--yes", path)
        assert report["actions"] == []
        left = [note for note in report["left_alone"] if "still at work" in note["reason"]]
        assert len(left) == 2 and all(note["path"].endswith(".fb") for note in left)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
    report = done("check", "--repair", "--yes", path)
    assert [a["action"] for a in report["actions"]] == ["adopt", "adopt"]
    assert read(path, "train") == keyed(range(4), 1) + keyed(range(100, 104), 3)


def test_the_reference_reads_what_was_merged(tmp_path):
    a = make(tmp_path / "a", reference, [[("train", range(5), 1), ("test", range(5, 7), 2)], [("train", range(7, 9), 3)]])
    b = make(tmp_path / "b", ours, [[("holdout", range(10, 12), 4), ("train", range(12, 15), 5)]])
    report = done("merge", a, b, tmp_path / "both")
    assert report["records"] == 14
    assert read(tmp_path / "both", "train") == keyed(range(5), 1) + keyed(range(7, 9), 3) + keyed(range(12, 15), 5)
    assert read(tmp_path / "both", "test") == keyed(range(5, 7), 2)
    assert read(tmp_path / "both", "holdout") == keyed(range(10, 12), 4)
    merged = reference.Dataset(tmp_path / "both")
    assert (merged.metadata.description, merged.metadata.custom_metadata) == ("a", {"lab": 7})
    assert merged.current_metadata_checksums()[0] == report["root"].removeprefix("sha256:")
    assert [x.custom_metadata for x in merged.dataset_structure.saved_data_description][0] == {"of": "trace"}
    c = make(tmp_path / "c", reference, [], hash_checksum_algorithms=("md5",))
    said = run("merge", a, c, tmp_path / "no")
    assert said.returncode == 1 and "hash_checksum_algorithms is md5" in said.stderr and not (tmp_path / "no").exists()


@pytest.mark.parametrize("package", [reference, ours], ids=["reference", "sigbank"])
@pytest.mark.parametrize(
    ("kind", "compression"),
    [("fb", "none"), ("fb", "GZIP"), ("fb", "ZLIB"), ("fb", "LZ4"), ("fb", "ZSTD"), ("npz", "none"), ("npz", "ZIP")],
)
def test_the_reference_reads_what_was_recompressed(tmp_path, package, kind, compression):
    sessions = [[("train", range(5), 1), ("train", range(5, 8), 2), ("holdout", range(8, 9), 1)], [("train", range(9, 12), 2)]]
    a = make(tmp_path / "a", package, sessions)
    form = ["--shard-file-type", kind, "--compression", compression]
    report = done("recompress", a, tmp_path / "b", *form, "--examples-per-shard", "4", "--checksums", "md5")
    assert read(tmp_path / "b", "train") == keyed(range(5), 1) + keyed(range(5, 8), 2) + keyed(range(9, 12), 2)
    assert read(tmp_path / "b", "holdout") == keyed(range(8, 9), 1)
    sizes = [s.number_of_examples for s in reference.Dataset(tmp_path / "b").shard_info_iterator("train")]
    assert sizes == [4, 1, 4, 2] and all(path.suffix == f".{kind}" for path in shards(tmp_path / "b", "train"))
    assert report["splits"][0] == {"name": "train", "records": 11, "units": 4}


@pytest.mark.parametrize("by", ["shard", "key", "example"])
def test_the_reference_reads_what_was_divided(tmp_path, by):
    sessions = [[("train" if key % 2 else "test", range(key * 4, key * 4 + 4), key) for key in range(20)]]
    a = make(tmp_path / "a", reference, sessions)
    report = done("split", a, tmp_path / "b", "--split", "train=0.8,test=0.1,holdout=0.1", "--by", by, "--seed", "1")
    parts = {split: read(tmp_path / "b", split) for split in ["train", "test", "holdout"]}
    assert {split: len(part) for split, part in parts.items()} == {"train": 64, "test": 8, "holdout": 8}
    assert sorted(sum(parts.values(), [])) == [(n, n // 4) for n in range(80)]
    assert report["groups"] == {
        "shard": {"train": 32, "test": 4, "holdout": 4},
        "key": {"train": 16, "test": 2, "holdout": 2},
        "example": {"train": 64, "test": 8, "holdout": 8},
    }[by]
    if by == "key":
        keys = [{key for _, key in part} for part in parts.values()]
        assert sum(map(len, keys)) == len(set.union(*keys)) == 20
