//! The promise on sizes at gzip's level 9, against what Python's gzip made of the same data (testdata/compress/generate.py
//! makes them and prints these lines).

use super::gzip::{Method, choose};
use super::{Compression, decode, encode};
use crate::checksum::{Algorithm, digest_all};

const N: usize = 1 << 19;
/// Kind of data, the start of its sha256, the size Python's gzip.compress(data, 9) gives.
const GOLDEN: [(&str, &str, usize); 9] = [
    ("noisy", "e9665ef50d83ecd3", 432_412),
    ("smooth", "d6398289243df961", 263_691),
    ("text", "7d3b678576dfb56c", 205_830),
    ("constant", "b40c3180081602dd", 544),
    ("random", "085f87f6dff4b840", 524_466),
    ("image", "4255d37c3048ffbf", 401_520),
    ("sparse", "1c2d32bcdb884f08", 106_309),
    ("ramp", "f1baed3e70a4f9fc", 99_365),
    ("half", "5f2f101d3ed51cb1", 366_651),
];

/// Pseudo-random bytes that Python makes too.
pub(super) fn lcg(n: usize) -> Vec<u8> {
    let mut state = 1_u64;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
    .take(n)
    .collect()
}

fn triangle(i: usize, p: usize) -> usize {
    (i % (2 * p)).abs_diff(p)
}

fn kind(name: &str, r: &[u8]) -> Vec<u8> {
    let before = |i: usize| r[(i + N - 1) % N];
    let text = || {
        let words: Vec<Vec<u8>> = (0..2000)
            .map(|k| {
                let piece = &r[k * 9..k * 9 + 2 + usize::from(r[k] % 7)];
                piece.iter().map(|b| 97 + b % 26).chain([b' ']).collect()
            })
            .collect();
        let picks = r.chunks(2).flat_map(|p| words[usize::from(p[0]) * usize::from(p[1]) % 2000].clone());
        picks.take(N).collect::<Vec<u8>>()
    };
    match name {
        "noisy" => (0..N).map(|i| if i % 2 == 0 { r[i] } else { 100 + (r[i] >> 5) + (before(i) & 3) }).collect(),
        "smooth" => (0..N).map(|i| (triangle(i, 60) + usize::from(r[i] & 3)) as u8).collect(),
        "text" => text(),
        "constant" => vec![7; N],
        "random" => r.to_vec(),
        "image" => (0..N).map(|i| (triangle(i % 1000, 120) + triangle(i / 1000, 90) + usize::from(r[i] & 7)) as u8).collect(),
        "sparse" => (0..N).map(|i| if before(i) < 40 && i % 28 > 9 { r[i] } else { 0 }).collect(),
        "ramp" => (0..N as u64 / 8).flat_map(|i| (i * 3).to_le_bytes()).collect(),
        "half" => [&r[..N / 2], &text()[..N / 2]].concat(),
        other => panic!("{other}"),
    }
}

#[test]
fn level_9_is_at_most_2_percent_over_pythons_size() {
    let r = lcg(N);
    for (name, digest, python) in GOLDEN {
        let data = kind(name, &r);
        assert_eq!(digest_all(&[Algorithm::Sha256], &[&data])[0][..16], *digest, "{name}: not the data that Python made");
        let mut out = Vec::new();
        encode(Compression::Gzip, &[&data], &mut out).unwrap();
        println!("{name}: {} of Python's, by {:?}", out.len() as f64 / python as f64, choose(&data).unwrap());
        assert!(out.len() * 100 <= python * 102, "{name}: {} bytes, Python's gzip {python}", out.len());
        let again = out.clone();
        encode(Compression::Gzip, &[&data[..1000], &data[1000..]], &mut out).unwrap();
        assert!(out == again, "{name}: not the same bytes again");
        assert!(decode(Compression::Gzip, &out, None, N as u64).unwrap() == data, "{name}");
    }
}

#[test]
fn noise_is_coded_without_looking_for_matches() {
    let r = lcg(N);
    assert_eq!(choose(&kind("noisy", &r)).unwrap(), Method::Huffman);
    assert_eq!(choose(&r).unwrap(), Method::Huffman);
    assert_ne!(choose(&kind("text", &r)).unwrap(), Method::Huffman);
}

/// Writes streams for `generate.py check`: run with SIGBANK_WRITE_STREAMS naming an existing folder.
#[test]
fn streams_for_the_reference_decoders() {
    let Some(folder) = std::env::var_os("SIGBANK_WRITE_STREAMS") else { return };
    let folder = std::path::Path::new(&folder);
    let data = kind("half", &lcg(N));
    std::fs::write(folder.join("plain"), &data).unwrap();
    for (suffix, c) in [("gz", "GZIP"), ("bz2", "BZ2"), ("xz", "LZMA"), ("lz4", "LZ4"), ("zst", "ZSTD")] {
        for (name, data) in [("ours", &data[..]), ("empty", &[])] {
            let mut out = Vec::new();
            encode(c.parse().unwrap(), &[&data[..data.len() / 3], &data[data.len() / 3..]], &mut out).unwrap();
            std::fs::write(folder.join(format!("{name}.{suffix}")), out).unwrap();
        }
    }
    for (name, method) in [("huffman", Method::Huffman), ("fast", Method::Matches(1)), ("zlib", Method::Zlib)] {
        let mut out = Vec::new();
        super::gzip::encode_by(method, &data, &mut out).unwrap();
        std::fs::write(folder.join(format!("{name}.gz")), out).unwrap();
    }
}
