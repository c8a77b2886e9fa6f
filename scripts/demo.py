"""The second half of the demo: how fast a shuffled epoch is, beside the reference package, and a picture of some records."""

import statistics
import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import sedpack.io as reference

import sigbank

ROUNDS = 3
BATCH = 64


def touch(value):
    """Read every byte of an array once, as a training loop would."""
    return int(value.view(np.uint8).max()) if value.nbytes else 0


def ours(path):
    """(examples, bytes) of one shuffled epoch in batches."""
    examples = size = 0
    for batch in sigbank.open(path).batches("train", batch_size=BATCH, shuffle=1000, seed=1):
        signal = batch["signal"]
        touch(signal)
        examples += len(signal)
        size += signal.nbytes
    return examples, size


def singles(method):
    """The same of a way in which the reference hands out single examples, stacked into batches of the same size."""

    def epoch(path):
        examples = size = 0
        rows = []
        dataset = reference.Dataset(Path(path))
        for example in getattr(dataset, method)(split="train", repeat=False, shuffle=1000):
            rows.append(example["signal"])
            if len(rows) == BATCH:
                touch(np.stack(rows))
                rows.clear()
            examples += 1
            size += example["signal"].nbytes
        if rows:
            touch(np.stack(rows))
        return examples, size

    return epoch


def speeds(path):
    ways = {
        "sigbank, batches": ours,
        "sedpack, as_numpy_iterator_concurrent": singles("as_numpy_iterator_concurrent"),
        "sedpack, as_numpy_iterator_rust": singles("as_numpy_iterator_rust"),
    }
    seconds = {name: [] for name in ways}
    totals = {}
    for _ in range(ROUNDS):
        # In turn, so that what else the machine does falls on all alike.
        for name, way in ways.items():
            start = time.perf_counter()
            totals[name] = way(path)
            seconds[name].append(time.perf_counter() - start)
    if len(set(totals.values())) != 1:
        raise SystemExit(f"the ways disagree on what an epoch holds: {totals}")
    examples, size = next(iter(totals.values()))
    print(f"a shuffled epoch of {examples} examples, {size / 1e6:.1f} MB, in batches of {BATCH} (median of {ROUNDS}):")
    fastest = max(len(name) for name in ways)
    base = min(statistics.median(seconds[name]) for name in ways if name.startswith("sedpack"))
    for name in ways:
        median = statistics.median(seconds[name])
        note = f"  {base / median:.1f} times sedpack's fastest" if name.startswith("sigbank") else ""
        print(f"  {name:<{fastest}} {size / median / 1e6:8.0f} MB/s {examples / median:10.0f} examples/s{note}")


def loudest(path, count):
    """The loudest record of each of the `count` sources that differ most from silence."""
    best = {}
    for batch in sigbank.open(path).batches("train", batch_size=BATCH, shuffle=0):
        signals = np.asarray(batch["signal"])
        power = np.square(signals.astype(np.float64).reshape(len(signals), -1)).mean(axis=1)
        for i, source in enumerate(batch["source"]):
            if source not in best or power[i] > best[source][0]:
                best[source] = (power[i], signals[i].copy(), int(batch["start"][i]), float(batch["sample_rate"][i]))
    ranked = sorted(best.items(), key=lambda item: -item[1][0])
    # Spread over the ranking: not only the loudest, which sound alike.
    count = min(count, len(ranked))
    places = np.linspace(0, max(count, len(ranked) * 0.7), count, endpoint=False).astype(int)
    return [ranked[p] for p in places]


def spectrogram(signal, rate, width=512, hop=64):
    """Decibels of each frequency over time: (frequencies, times, levels)."""
    windows = np.lib.stride_tricks.sliding_window_view(signal, width)[::hop]
    levels = 20 * np.log10(np.abs(np.fft.rfft(windows * np.hanning(width))).T / (width / 4) + 1e-6)
    return np.fft.rfftfreq(width, 1 / rate) / 1000, (np.arange(len(windows)) * hop + width / 2) / rate, levels


def picture(path, target):
    records = loudest(path, 6)
    plt.rcParams.update({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "axes.titleweight": "bold"})
    if records[0][1][1].ndim != 1:
        figure, axes = plt.subplots(1, len(records), figsize=(12, 2.6), layout="constrained")
        for ax, (source, (_, image, start, _)) in zip(np.atleast_1d(axes), records):
            ax.imshow(image, cmap="magma")
            ax.set_title(f"{source}, row {start}")
            ax.set_axis_off()
    else:
        figure, axes = plt.subplots(4, 3, figsize=(13, 8), layout="constrained", height_ratios=[1, 2, 1, 2])
        for place, (source, (_, signal, start, rate)) in enumerate(records):
            wave, levels = axes[place // 3 * 2, place % 3], axes[place // 3 * 2 + 1, place % 3]
            rate = rate if np.isfinite(rate) else 1.0
            times = np.arange(len(signal)) / rate
            wave.plot(times, signal, linewidth=0.4, color="#3b2f6b")
            limit = max(1e-6, float(np.abs(signal).max()) * 1.05)
            wave.set(xlim=(0, times[-1]), ylim=(-limit, limit), xticks=[], title=f"{source}  at {start / rate:.2f} s")
            frequencies, moments, decibels = spectrogram(signal, rate)
            mesh = levels.pcolormesh(moments, frequencies, decibels, cmap="magma", vmin=-90, vmax=-5, shading="auto", rasterized=True)
            levels.set(xlim=(0, times[-1]), ylim=(0, frequencies[-1]), xlabel="seconds in the window")
            if place % 3 == 0:
                wave.set_ylabel("amplitude")
                levels.set_ylabel("kHz")
        for unused in range(len(records), 6):
            axes[unused // 3 * 2, unused % 3].set_axis_off()
            axes[unused // 3 * 2 + 1, unused % 3].set_axis_off()
        figure.colorbar(mesh, ax=axes[[1, 3], :], label="dB of full scale", shrink=0.6)
    figure.suptitle(f"windows of {path}, as stored", fontsize=10)
    figure.savefig(target, dpi=130)
    kind = "images" if records[0][1][1].ndim != 1 else "windows and their spectrograms"
    print(f"\npicture of {len(records)} {kind}: {target}")


if __name__ == "__main__":
    speeds(sys.argv[1])
    picture(sys.argv[1], sys.argv[2])
