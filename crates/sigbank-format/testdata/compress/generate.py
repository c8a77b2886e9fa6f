"""Writes the golden streams beside it with the libraries that the reference uses, and prints hashes and sizes.

    python generate.py          # needs numpy, lz4, zstandard, xxhash
    python generate.py check D  # decodes D/*.<suffix>, written by the Rust tests, and compares with D/plain
"""

import bz2, gzip, hashlib, lzma, pathlib, sys

import lz4.frame, xxhash, zstandard

HERE = pathlib.Path(__file__).parent
PLAIN = b"".join(((i * i) % 251).to_bytes(1, "little") * (i % 7) for i in range(700)) + bytes(300)
DECODE = {
    "gz": gzip.decompress, "bz2": bz2.decompress, "xz": lzma.decompress,
    "lz4": lz4.frame.decompress, "zst": lambda b: zstandard.ZstdDecompressor().decompress(b),
}


def generate():
    (HERE / "plain").write_bytes(PLAIN)
    half = len(PLAIN) // 2
    encode = {
        "gz": lambda b: gzip.compress(b, 9, mtime=0), "bz2": bz2.compress, "xz": lzma.compress,
        "lz4": lz4.frame.compress, "zst": lambda b: zstandard.ZstdCompressor(level=3).compress(b),
    }
    for suffix, f in encode.items():
        (HERE / f"one.{suffix}").write_bytes(f(PLAIN))
        (HERE / f"two.{suffix}").write_bytes(f(PLAIN[:half]) + f(PLAIN[half:]))
    (HERE / "checks.lz4").write_bytes(lz4.frame.compress(
        PLAIN * 60, content_checksum=True, block_checksum=True, store_size=False, block_linked=True))
    (HERE / "independent.lz4").write_bytes(lz4.frame.compress(PLAIN * 60, block_linked=False, content_checksum=True))
    (HERE / "nosize.zst").write_bytes(zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(PLAIN))
    for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_224", "sha3_256", "sha3_384", "sha3_512"):
        print(name, hashlib.new(name, PLAIN).hexdigest(), hashlib.new(name, b"").hexdigest())
    for name in ("xxh32", "xxh64", "xxh128"):
        f = getattr(xxhash, name)
        print(name, f(PLAIN).hexdigest(), f(b"").hexdigest())


def lcg(n, state=1):
    """The tests' pseudo-random bytes: the top byte of a 64-bit linear congruential generator."""
    out = bytearray(n)
    for i in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        out[i] = state >> 56
    return bytes(out)


def kinds(n=1 << 19):
    """The data of the gzip size test; the Rust test makes the same."""
    r = lcg(n)
    triangle = lambda i, p: abs(i % (2 * p) - p)
    yield "noisy", bytes(r[i] if i % 2 == 0 else 100 + (r[i] >> 5) + (r[i - 1] & 3) for i in range(n))
    yield "smooth", bytes((triangle(i, 60) + (r[i] & 3)) & 255 for i in range(n))
    words = [bytes(97 + b % 26 for b in r[k * 9 : k * 9 + 2 + r[k] % 7]) + b" " for k in range(2000)]
    text = bytearray()
    k = 0
    while len(text) < n:
        text += words[(r[k] * r[k + 1]) % 2000]
        k += 2
    yield "text", bytes(text[:n])
    yield "constant", b"\x07" * n
    yield "random", r
    yield "image", bytes((triangle(i % 1000, 120) + triangle(i // 1000, 90) + (r[i] & 7)) & 255 for i in range(n))
    yield "sparse", bytes(r[i] if r[i - 1] < 40 and i % 28 > 9 else 0 for i in range(n))
    yield "ramp", b"".join((i * 3).to_bytes(8, "little") for i in range(n // 8))
    yield "half", r[: n // 2] + bytes(text[: n // 2])


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"]:
        folder = pathlib.Path(sys.argv[2])
        plain = (folder / "plain").read_bytes()
        for suffix, f in DECODE.items():
            for path in sorted(folder.glob(f"*.{suffix}")):
                assert f(path.read_bytes()) == (b"" if path.stem == "empty" else plain), path
                print("ok", path.name)
    else:
        generate()
        for name, data in kinds():
            print(f'("{name}", "{hashlib.sha256(data).hexdigest()[:16]}", {len(gzip.compress(data, 9, mtime=0))}),')
