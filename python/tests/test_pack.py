"""The `sigbank` command as the wheel installs it, with soundfile and the reference package as referees."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import sedpack.io as reference
import soundfile

import sigbank

PROGRAM = str(Path(sys.executable).parent / "sigbank")


def run(*args, **options):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=60, **options)


def recordings(folder):
    """Files of every audio format: {source: samples as soundfile reads them}."""
    chance = np.random.default_rng(5)
    files = {}
    for name, subtype in [("a.wav", "PCM_16"), ("b.flac", "PCM_24"), ("c.ogg", "VORBIS"), ("sub/d.wav", "FLOAT"), ("e.flac", "PCM_16")]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, chance.uniform(-0.9, 0.9, 5000 + len(files) * 700), 22050, subtype=subtype)
        files[name] = soundfile.read(path, dtype="float32")[0]
    return files


def test_packed_windows_are_what_soundfile_reads_and_the_reference_hands_out(tmp_path):
    files = recordings(tmp_path / "in")
    split = "train=0.6,test=0.2,holdout=0.2"
    said = run("pack", tmp_path / "in", tmp_path / "out", "--window", 1000, "--hop", 500, "--split", split, "--examples-per-shard", 4)
    assert said.returncode == 0, said.stderr
    expected = {
        (name, start): samples[start : start + 1000] for name, samples in files.items() for start in range(0, len(samples) - 999, 500)
    }
    theirs = reference.Dataset(tmp_path / "out")
    theirs.check(show_progressbar=False)
    ours = sigbank.open(str(tmp_path / "out"))
    seen = []
    for name in ["train", "test", "holdout"]:
        read_by_us = [
            (source, int(start), signal, float(rate))
            for batch in ours.batches(name, 7)
            for source, start, signal, rate in zip(batch["source"], batch["start"], batch["signal"], batch["sample_rate"], strict=True)
        ]
        read_by_them = list(theirs.as_numpy_iterator(split=name, repeat=False, shuffle=0))
        assert len(read_by_us) == len(read_by_them) > 0
        for (source, start, signal_, rate), example in zip(read_by_us, read_by_them, strict=True):
            assert (example["source"], int(example["start"]), float(example["sample_rate"])) == (source, start, rate) == (source, start, 22050.0)
            assert signal_.dtype == example["signal"].dtype == np.float32
            np.testing.assert_array_equal(signal_, example["signal"])
            # Decoders of Vorbis differ in the last bits; everything else is exact.
            np.testing.assert_allclose(signal_, expected[source, start], rtol=0, atol=1e-6 if source.endswith("ogg") else 0)
            seen.append((source, start))
    assert sorted(seen) == sorted(expected)


def test_info_line_and_digest_agree_with_the_reference(tmp_path):
    recordings(tmp_path / "in")
    assert run("pack", tmp_path / "in", tmp_path / "out", "--window", 100).returncode == 0
    info = json.loads(run("info", tmp_path / "out", "--json").stdout)
    theirs = reference.Dataset(tmp_path / "out")
    assert info["root"] == "sha256:" + theirs.current_metadata_checksums()[0]
    assert info["records"] == sum(1 for _ in theirs.as_numpy_iterator(split="train", repeat=False, shuffle=0))
    assert str(info["root"]) in run("info", tmp_path / "out").stdout.splitlines()[0]


def test_traces_of_any_dtype_come_back_as_they_were(tmp_path):
    for dtype in ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "complex64", ">f4", "M8[ms]"]:
        folder = tmp_path / dtype.strip(">[]")
        folder.mkdir()
        traces = np.asfortranarray(np.arange(60).reshape(12, 5).astype(dtype))
        np.savez(folder / "traces.npz", traces=traces, rate=8000.0)
        said = run("pack", folder, folder / "out", "--rows", "--json")
        assert said.returncode == 0, said.stderr
        assert json.loads(said.stdout)["others"] == ["traces.npz#rate"]
        batch = next(iter(sigbank.open(str(folder / "out")).batches("train", 12)))
        assert batch["signal"].dtype == traces.dtype.newbyteorder("<")
        np.testing.assert_array_equal(batch["signal"], traces)
        assert batch["source"] == ["traces.npz#traces"] * 12


def test_arrays_of_several_kinds_in_one_archive(tmp_path):
    (tmp_path / "in").mkdir()
    for name, n in [("a", 5), ("b", 3)]:
        np.savez(tmp_path / "in" / name, traces=np.full((n, 4), n, np.int16), keys=np.ones((n, 16), np.uint8))
    said = run("pack", tmp_path / "in", tmp_path / "out", "--rows")
    assert said.returncode == 1 and "differ in dtype" in said.stderr and "--array NAME" in said.stderr, said.stderr
    report = json.loads(run("pack", tmp_path / "in", tmp_path / "out", "--rows", "--array", "traces", "--json").stdout)
    assert (report["records"], report["others"]) == ({"train": 8}, ["a.npz#keys", "b.npz#keys"])
    batch = next(iter(sigbank.open(str(tmp_path / "out")).batches("train", 8)))
    assert batch["signal"][:, 0].tolist() == [5] * 5 + [3] * 3 and batch["source"][5] == "b.npz#traces"
    said = run("pack", tmp_path / "in", tmp_path / "no", "--rows", "--array", "noise")
    assert said.returncode == 1 and "no array called noise, but" in said.stderr and "traces" in said.stderr, said.stderr
    # Whole ones of several lengths have to be cut.
    said = run("pack", tmp_path / "in", tmp_path / "no", "--array", "traces")
    assert said.returncode == 1 and "differ in length" in said.stderr and "--window N" in said.stderr, said.stderr
    assert run("pack", tmp_path / "in", tmp_path / "whole", "--array", "traces", "--window", "3").returncode == 0


def test_exit_codes_and_messages(tmp_path):
    said = run("check", tmp_path)
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.startswith(f"error: {tmp_path}: ") and "\nhelp: " in said.stderr
    assert run("check").returncode == 2
    assert run("--version").stdout == f"sigbank {sigbank.__version__}\n"


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_the_program_and_leaves_nothing(tmp_path):
    (tmp_path / "in").mkdir()
    for i in range(8):
        np.save(tmp_path / "in" / f"{i}.npy", np.zeros(4 << 20, np.uint8))
    args = [PROGRAM, "pack", "in", "out", "--window", "4000", "--hop", "200", "--compression", "LZMA"]
    child = subprocess.Popen(args, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    give_up = time.monotonic() + 30
    while not list(tmp_path.glob(".out.packing-*/dataset_info.json")):
        assert child.poll() is None and time.monotonic() < give_up
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=10)
    assert (child.returncode, out) == (-signal.SIGINT, "")
    assert err == "error: stopped by SIGINT; nothing was written, what was begun is removed\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in"]


def test_names_that_are_no_utf_8_are_an_error_and_not_a_traceback(tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff.ds"
    for command in (["check", name], ["info", name], ["merge", name, name, name + b"2"]):
        said = subprocess.run([PROGRAM.encode(), *command], capture_output=True, timeout=60)
        assert said.returncode in (1, 2) and b"error:" in said.stderr and b"Traceback" not in said.stderr, said.stderr


def used(*command):
    """What a command says as JSON, and the most memory that it had, in bytes."""
    # In a process of its own, whose memory is small: a child begins with that of its parent.
    program = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    said = subprocess.run([sys.executable, "-c", program, PROGRAM, *map(str, command), "--json"], capture_output=True, text=True, timeout=120)
    assert said.returncode == 0, said.stderr
    told, most = said.stdout.splitlines()
    return json.loads(told), int(most) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="memory as Linux counts it")
def test_a_large_recording_is_in_memory_once_to_be_published_and_shown(tmp_path):
    (tmp_path / "in").mkdir()
    # 96 MB of float32 that compress well.
    samples = np.zeros((12_000_000, 2), np.int16)
    samples[::1000] = 1000
    soundfile.write(tmp_path / "in/a.wav", samples, 48000, subtype="PCM_16")
    said, most = used("publish", tmp_path / "in", tmp_path / "out")
    assert said["records"] == 1 and most < 1.3 * 96e6 + (64 << 20)
    said, most = used("show", tmp_path / "out")
    signal_ = said["values"]["signal"]
    assert (signal_["count"], signal_["max"]) == (24_000_000, 1000 / 32768) and most < 1.3 * 96e6 + (64 << 20)
    # Of a file of its own a part is in memory.
    assert run("import", tmp_path / "in", tmp_path / "items").returncode == 0
    said, most = used("show", tmp_path / "items")
    [array] = said["values"].values()
    assert (array["count"], array["max"]) == (24_000_000, 1000 / 32768) and most < 96 << 20
