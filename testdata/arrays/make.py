"""Writes the golden array files beside this script, by numpy and soundfile, and what they read back from them.

Run: pip install numpy==2.4.6 soundfile==0.14.0 && python make.py
(From run to run the Ogg files differ in their serial numbers, and the float WAVs in a time stamp.)

    npy/*.npy, npy.json     arrays by numpy.save, and dtype, shape and little-endian C-ordered bytes (hex) of each
    npy_headers.json        headers (as Latin-1) of float64 arrays of rank 0 to 64, whose first axis has length 0 and the others 1
    npz/*.npz               archives by numpy.savez and savez_compressed: the arrays a, b and c of `members` below
    wav/*, flac/*, ogg/*    audio files; audio.json: what libsndfile says of each
    expected/*.npy          the float64 samples that libsndfile reads from each, or should (see `expect`), saved as float32 where
                            that holds them exactly
"""

import hashlib
import io
import json
import pathlib
import struct
import warnings

import numpy as np
import soundfile as sf

HERE = pathlib.Path(__file__).parent
rng = np.random.default_rng(20261130)


def npy():
    out = HERE / "npy"
    out.mkdir(exist_ok=True)
    index = {}

    def save(name, a):
        np.save(out / f"{name}.npy", a)
        if a.dtype.names is None and a.dtype != object:
            # Not by astype, which leaves a datetime without a unit as it is.
            little = a.byteswap() if a.dtype.str[0] == ">" else a
            index[name] = {"dtype": a.dtype.str, "shape": list(a.shape), "bytes": little.tobytes("C").hex()}

    numbers = rng.integers(0, 256, 16 * 12, dtype="u1").tobytes()
    for code in ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "M8[ms]", "M8[25s]", "m8[ns]", "M8"]:
        for order in "<" if np.dtype(code).itemsize == 1 else "<>":
            dtype = np.dtype(order + code)
            a = np.frombuffer(numbers[: 12 * dtype.itemsize], dtype).reshape(2, 3, 2)
            word = {"<": "le", ">": "be"}[order] + "_" + code.replace("[", "_").replace("]", "")
            save(word, a)
            save(word + "_fortran", np.asfortranarray(a))
    save("bool", np.array([True, False, True]))
    save("longdouble", np.arange(3, dtype="longdouble") / 7)
    save("clongdouble", np.arange(3, dtype="clongdouble") / 7j)
    save("bytes", np.array([b"", b"a\0b", b"xyz\0"]))
    save("text_le", np.array(["", "é", "a\U0001f600"]))
    save("text_be", np.array(["", "é", "a\U0001f600"]).astype(">U3"))
    save("void", np.frombuffer(b"abcdefghi", "V3"))
    save("void_empty", np.zeros(3, "V0"))
    save("scalar", np.array(3.5))
    save("scalar_void", np.array(b"12", "V2"))
    save("empty_0", np.zeros(0, "f8"))
    save("empty_0_4", np.zeros((0, 4), "f4"))
    save("empty_3_0", np.zeros((3, 0), ">i2"))
    save("empty_3_0_fortran", np.zeros((3, 0, 2), ">i2", order="F"))
    save("transposed", np.arange(6, dtype="i4").reshape(2, 3).T)
    save("strided", np.arange(12, dtype="i4").reshape(3, 4)[:, ::2])
    save("rank_5_fortran", np.asfortranarray(np.arange(2 * 3 * 1 * 4 * 5, dtype="u2").reshape(2, 3, 1, 4, 5)))
    save("long_axis", np.zeros((0, 123456), "?"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save("metadata", np.arange(3, dtype=np.dtype("f4", metadata={"unit": "V"})))
        # Headers of versions 2.0 and 3.0 come from structured dtypes only.
        save("version_2_structured", np.zeros(1, [(f"field_{i:05}", "u1") for i in range(4000)]))
        save("version_3_structured", np.zeros(1, [("größe", "f4"), ("\u6642", "i2")]))
    save("padded_structured", np.zeros(2, np.dtype({"names": ["a", "b"], "formats": ["<u4", "u1"], "offsets": [0, 4], "itemsize": 8})))
    np.save(out / "object.npy", np.array([{1: 2}], object), allow_pickle=True)
    # Every length of text modulo the 64 bytes that headers are padded to.
    headers = []
    for rank in range(65):
        a = np.zeros((0,) + (1,) * (rank - 1) if rank else (), "f8")
        whole = io.BytesIO()
        np.save(whole, a)
        headers.append(whole.getvalue()[: len(whole.getvalue()) - a.nbytes].decode("latin1"))
    (HERE / "npy_headers.json").write_text(json.dumps(headers, indent=1) + "\n")
    (HERE / "npy.json").write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")


def npz():
    out = HERE / "npz"
    out.mkdir(exist_ok=True)
    members = {
        "a": np.arange(10, dtype=">i2"),
        "b": np.asfortranarray(np.arange(12, dtype="c8").reshape(3, 4) * 1j),
        "c": np.zeros((100, 100)),
    }
    np.savez(out / "stored.npz", **members)
    np.savez_compressed(out / "deflated.npz", **members)


index = {}


def audio(name):
    """The path of an audio file."""
    folder = HERE / name.rsplit(".", 1)[1]
    folder.mkdir(exist_ok=True)
    return folder / name


def save_expected(name, samples):
    with np.errstate(over="ignore"):
        single = samples.astype("f4")
    (HERE / "expected").mkdir(exist_ok=True)
    np.save(HERE / "expected" / f"{name}.npy", single if np.array_equal(single, samples) else samples)


def expect(name, data, samples=None, bits=None):
    """Writes an audio file, and libsndfile's samples of it, which must be `samples` where those are given.

    `samples` given with a channel axis is also what counts where libsndfile cannot read the file.
    """
    path = audio(name)
    path.write_bytes(data)
    entry = {}
    try:
        info = sf.info(str(path))
        read, rate = sf.read(str(path), dtype="float64")
        entry = {"sample_rate": rate, "channels": info.channels, "subtype": info.subtype, "frames": info.frames}
        if samples is not None:
            assert np.array_equal(read, samples), (name, read, samples)
    except sf.LibsndfileError as e:
        assert samples is not None, (name, e)
        entry = {"refused_by_libsndfile": str(e).split(": ", 1)[-1]}
        read = samples
    if bits is not None:
        entry["bits"] = bits
    index[name] = entry
    save_expected(name, read)


def written(samples, rate, **options):
    out = io.BytesIO()
    with sf.SoundFile(out, "w", samplerate=rate, channels=1 if samples.ndim == 1 else samples.shape[1], **options) as f:
        f.write(samples)
    return out.getvalue()


def tone(frames, channels=1):
    t = np.arange(frames)[:, None] / 44100
    a = 0.4 * np.sin(2 * np.pi * 441 * (1 + np.arange(channels)) * t) + 0.05 * rng.standard_normal((frames, channels))
    return a[:, 0] if channels == 1 else a


def riff(*chunks, kind=b"RIFF", size=None, pad=True):
    body = b"WAVE"
    for name, data, *declared in chunks:
        body += name + struct.pack("<I", *declared or [len(data)]) + data + (b"\0" if pad and len(data) % 2 else b"")
    return kind + struct.pack("<I", len(body) if size is None else size) + body


def fmt(tag, channels, bits, rate=8000, width=None, extra=b""):
    width = width or bits // 8
    return struct.pack("<HHIIHH", tag, channels, rate, rate * channels * width, channels * width, bits) + extra


def extensible(channels, bits, valid, tag=1, more=b""):
    guid = struct.pack("<H", tag) + bytes.fromhex("000000001000800000aa00389b71")
    extra = struct.pack("<HHI", 22 + len(more), valid, 0) + guid + more
    return fmt(0xFFFE, channels, bits, extra=extra)


def wav():
    for subtype in ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"]:
        for channels in [1, 2]:
            a = tone(101, channels)
            expect(f"{subtype.lower()}_{channels}.wav", written(a, 44100, format="WAV", subtype=subtype))
            expect(f"rifx_{subtype.lower()}_{channels}.wav", written(a, 48000, format="WAV", subtype=subtype, endian="BIG"))
        expect(f"wavex_{subtype.lower()}.wav", written(tone(33, 3), 96000, format="WAVEX", subtype=subtype))
        expect(f"rf64_{subtype.lower()}.wav", written(tone(20, 2), 22050, format="RF64", subtype=subtype))
    expect("over_range_float.wav", written(np.array([0, -1, 1, 1.5, -1.5, np.inf, 1e-45]), 8000, format="WAV", subtype="FLOAT"))
    expect("over_range_double.wav", written(np.array([1e300, -1.5, 5e-324]), 8000, format="WAV", subtype="DOUBLE"))
    expect("empty.wav", written(np.zeros(0), 8000, format="WAV", subtype="PCM_16"))
    expect("empty_2.wav", written(np.zeros((0, 2)), 8000, format="WAV", subtype="PCM_24"))
    expect("mono_column.wav", written(tone(10)[:, None], 8000, format="WAV", subtype="PCM_16"))

    edge = np.array([-8388608, -1, 0, 1, 8388607])
    three = b"".join(int(v).to_bytes(3, "little", signed=True) for v in edge)
    expect("edges_24.wav", riff((b"fmt ", fmt(1, 1, 24)), (b"data", three)), edge / 2**23)
    expect("edges_24_in_32_ext_22.wav", riff((b"fmt ", extensible(1, 32, 24)), (b"data", (edge << 8).astype("<i4").tobytes())), edge / 2**23, bits=24)
    expect("edges_24_in_32_ext_26.wav", riff((b"fmt ", extensible(1, 32, 24, more=b"\1\2\3\4")), (b"data", (edge << 8).astype("<i4").tobytes())), edge / 2**23, bits=24)
    edge = np.array([-32768, -1, 0, 1, 32767])
    expect("edges_16.wav", riff((b"fmt ", fmt(1, 1, 16)), (b"data", edge.astype("<i2").tobytes())), edge / 2**15)
    edge = np.array([-(2**31), -1, 0, 1, 2**31 - 1])
    expect("edges_32.wav", riff((b"fmt ", fmt(1, 1, 32)), (b"data", edge.astype("<i4").tobytes())), edge / 2**31)
    edge = np.array([0, 127, 128, 129, 255])
    expect("edges_8.wav", riff((b"fmt ", fmt(1, 1, 8)), (b"data", edge.astype("u1").tobytes())), (edge - 128) / 128)
    expect("twelve_bits.wav", riff((b"fmt ", fmt(1, 1, 12, width=2)), (b"data", np.array([-32768, 16, 32752], "<i2").tobytes())), np.array([-32768, 16, 32752]) / 2**15, bits=12)

    a = np.arange(100, dtype="<i2") * 300 - 15000
    head, data, want = (b"fmt ", fmt(1, 1, 16)), a.tobytes(), a / 2**15
    expect("pipe_ff.wav", riff(head, (b"data", data, 0xFFFFFFFF), size=0xFFFFFFFF), want)
    audio("pipe_0.wav").write_bytes(riff(head, (b"data", data, 0), size=0))
    index["pipe_0.wav"] = {"refused_by_libsndfile": "gives 0 frames"}
    save_expected("pipe_0.wav", want)
    expect("pipe_sox.wav", riff(head, (b"data", data, 0x7FFFF000), size=0x7FFFF024), want)
    odd = (b"LIST", b"INFO!")
    expect("odd_list_padded.wav", riff(head, odd, (b"data", data), odd), want)
    for name, pad in [("padded", True), ("unpadded", False)]:
        expect(f"odd_list_{name}.wav", riff(head, odd, (b"data", data), odd, pad=pad), want)
        three = bytes(i * 7 % 256 for i in range(303))
        values = np.array([int.from_bytes(three[i : i + 3], "little", signed=True) for i in range(0, 303, 3)]) / 2**23
        expect(f"odd_data_{name}.wav", riff((b"fmt ", fmt(1, 1, 24)), (b"data", three), odd, pad=pad), values)
        expect(f"odd_data_end_{name}.wav", riff((b"fmt ", fmt(1, 1, 24)), (b"data", three), pad=pad), values)
    expect("long_fmt.wav", riff((b"fmt ", fmt(1, 1, 16, extra=struct.pack("<H", 4) + b"abcd")), (b"data", data)), want)
    expect("fact_and_junk.wav", riff((b"JUNK", bytes(28)), head, (b"fact", struct.pack("<I", 100)), (b"data", data), (b"id3 ", b"x" * 10)), want)
    expect("trailing_junk.wav", riff(head, (b"data", data)) + b"TAG" + bytes(125), want)
    expect("rate_0.wav", riff((b"fmt ", fmt(1, 1, 16, rate=0)), (b"data", data)), want)
    ds64 = struct.pack("<QQQI", 0, 200, 100, 0)
    expect("rf64_ds64.wav", riff((b"ds64", ds64), head, (b"data", data, 0xFFFFFFFF), kind=b"RF64", size=0xFFFFFFFF), want)
    for subtype in ["ALAW", "ULAW", "MS_ADPCM", "IMA_ADPCM", "GSM610"]:
        audio(f"codec_{subtype.lower()}.wav").write_bytes(written(tone(200), 8000, format="WAV", subtype=subtype))


def flac():
    for subtype in ["PCM_S8", "PCM_16", "PCM_24"]:
        for channels in [1, 2, 6]:
            expect(f"{subtype.lower()}_{channels}.flac", written(tone(4500, channels), 44100, format="FLAC", subtype=subtype))
    left = tone(5000)
    expect("decorrelated.flac", written(np.stack([left, left + 0.01 * tone(5000)], 1), 48000, format="FLAC", subtype="PCM_24"))
    expect("silence.flac", written(np.zeros(10000), 44100, format="FLAC", subtype="PCM_16"))
    expect("noise.flac", written(rng.uniform(-1, 1, 5000), 44100, format="FLAC", subtype="PCM_16"))
    expect("edges.flac", written(np.resize([-1, 1 - 2**-23, 0, -(2**-23)], 5000), 44100, format="FLAC", subtype="PCM_24"))
    expect("wasted_bits.flac", written((rng.integers(-100, 100, 5000) << 9).astype("i2"), 44100, format="FLAC", subtype="PCM_16"))
    expect("one_frame.flac", written(np.array([0.5]), 44100, format="FLAC", subtype="PCM_16"))
    expect("odd_rate.flac", written(tone(300), 12345, format="FLAC", subtype="PCM_16"))
    # libsndfile writes 0 bytes for no frames; this is what libFLAC writes, the head alone.
    head = bytearray(written(np.zeros((1, 2)), 44100, format="FLAC", subtype="PCM_16")[:42])
    head[4] |= 0x80
    head[21] &= 0xF0
    head[22:42] = bytes(4) + hashlib.md5(b"").digest()
    expect("empty.flac", bytes(head), np.zeros((0, 2)))
    known = bytearray(written(tone(9500, 2), 44100, format="FLAC", subtype="PCM_16"))
    want = sf.read(io.BytesIO(bytes(known)))[0]
    known[21] &= 0xF0
    known[22:26] = bytes(4)
    audio("unknown_length.flac").write_bytes(known)
    index["unknown_length.flac"] = {"refused_by_libsndfile": "takes its length for 2^63 - 1"}
    save_expected("unknown_length.flac", want)
    tag = b"ID3\4\0\0\0\0\0\x0a" + bytes(10)
    expect("id3.flac", tag + written(tone(300), 44100, format="FLAC", subtype="PCM_16"))


CRC = []
for i in range(256):
    c = i << 24
    for _ in range(8):
        c = (c << 1 ^ 0x04C11DB7 if c & 0x80000000 else c << 1) & 0xFFFFFFFF
    CRC.append(c)


def pages(data):
    at = 0
    while at < len(data):
        count = data[at + 26]
        end = at + 27 + count + sum(data[at + 27 : at + 27 + count])
        yield bytearray(data[at:end])
        at = end


def sealed(page):
    page[22:26] = bytes(4)
    crc = 0
    for byte in page:
        crc = (crc << 8 ^ CRC[crc >> 24 ^ byte]) & 0xFFFFFFFF
    page[22:26] = struct.pack("<I", crc)
    return bytes(page)


def moved(data, by):
    """The same stream with its positions moved."""
    out = b""
    for page in pages(data):
        (granule,) = struct.unpack("<q", page[6:14])
        if granule > 0:
            page[6:14] = struct.pack("<q", granule + by)
        out += sealed(page)
    return out


def ogg():
    def vorbis(samples, rate=44100, **options):
        return written(samples, rate, format="OGG", subtype="VORBIS", **options)

    for channels in [1, 2, 3, 4, 5, 6, 7, 8]:
        expect(f"vorbis_{channels}.ogg", vorbis(tone(3000, channels)))
    for rate in [8000, 22050, 96000]:
        expect(f"rate_{rate}.ogg", vorbis(tone(4000), rate))
    expect("high_quality.ogg", vorbis(tone(4000, 2), compression_level=0.0))
    expect("low_quality.ogg", vorbis(tone(4000, 2), compression_level=1.0))
    # Long enough for many pages, with clicks that make short blocks.
    clicks = tone(25000, 2)
    clicks[::3333] = 0.9
    expect("many_pages.ogg", vorbis(clicks, compression_level=0.5))
    expect("silence.ogg", vorbis(np.zeros(10000)))
    expect("one_frame.ogg", vorbis(np.array([0.5])))
    expect("empty.ogg", vorbis(np.zeros(0)), np.zeros(0))
    data = vorbis(clicks)
    expect("moved_later.ogg", moved(data, 1000))
    # The Vorbis specification (A.2) drops frames from the start here, libsndfile from the end.
    audio("moved_earlier.ogg").write_bytes(moved(data, -1000))
    index["moved_earlier.ogg"] = {"differs_from_libsndfile": "its first 1000 frames are not dropped, its last are"}
    save_expected("moved_earlier.ogg", sf.read(io.BytesIO(data))[0][1000:])
    audio("opus.ogg").write_bytes(written(tone(4800), 48000, format="OGG", subtype="OPUS"))
    audio("chained.ogg").write_bytes(vorbis(tone(1000)) + vorbis(tone(2000)))


npy()
npz()
wav()
flac()
ogg()
(HERE / "audio.json").write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")
