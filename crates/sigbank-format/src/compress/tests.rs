use std::io;

use proptest::prelude::*;

use super::gzip::Method;
use super::*;
use crate::error::FormatErrorKind;

const REAL: [Compression; 6] =
    [Compression::Gzip, Compression::Zlib, Compression::Bz2, Compression::Lzma, Compression::Lz4, Compression::Zstd];
const PLAIN: &[u8] = include_bytes!("../../testdata/compress/plain");

macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!("../../testdata/compress/", $name)).as_slice()
    };
}

/// Streams of one member and of two, by Python's libraries.
const GOLDEN: [(Compression, &[u8], &[u8]); 5] = [
    (Compression::Gzip, golden!("one.gz"), golden!("two.gz")),
    (Compression::Bz2, golden!("one.bz2"), golden!("two.bz2")),
    (Compression::Lzma, golden!("one.xz"), golden!("two.xz")),
    (Compression::Lz4, golden!("one.lz4"), golden!("two.lz4")),
    (Compression::Zstd, golden!("one.zst"), golden!("two.zst")),
];

fn encoded(c: Compression, data: &[u8]) -> Vec<u8> {
    let mut out = vec![1, 2, 3];
    encode(c, &[data], &mut out).unwrap();
    out
}

/// Hands out a few bytes at once.
struct Dribble<'a>(&'a [u8], usize);
impl Read for Dribble<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.1.min(buf.len());
        self.0.read(&mut buf[..n])
    }
}

/// Both ways of decoding, which must agree.
fn decoded(c: Compression, data: &[u8]) -> Result<Vec<u8>> {
    let whole = decode(c, data, None, 1 << 24);
    let mut streamed = Vec::new();
    let result = decoder(c, Box::new(Dribble(data, 7))).unwrap().read_to_end(&mut streamed).map_err(FormatError::from);
    match (&whole, &result) {
        (Ok(whole), Ok(_)) => assert_eq!(whole, &streamed, "{c}"),
        (Err(a), Err(b)) => assert_eq!(a.kind(), b.kind(), "{c}: {a} / {b}"),
        other => panic!("{c}: {other:?}"),
    }
    whole
}

#[test]
fn golden_streams_decode() {
    for (c, one, two) in GOLDEN {
        assert_eq!(decoded(c, one).unwrap(), PLAIN, "{c}");
        assert_eq!(decoded(c, two).unwrap(), PLAIN, "{c} two members");
        assert_eq!(decoded(c, &[one, one].concat()).unwrap(), [PLAIN, PLAIN].concat(), "{c} the same member twice");
    }
    assert_eq!(decoded(Compression::Lz4, golden!("checks.lz4")).unwrap(), PLAIN.repeat(60));
    assert_eq!(decoded(Compression::Lz4, golden!("independent.lz4")).unwrap(), PLAIN.repeat(60));
    assert_eq!(decoded(Compression::Zstd, golden!("nosize.zst")).unwrap(), PLAIN);
}

#[test]
fn a_cut_at_any_byte_is_an_error() {
    for (c, one, two) in GOLDEN {
        let ours = encoded(c, PLAIN);
        let boundary = (0..two.len()).find(|n| decode(c, &two[..*n], None, 1 << 20).is_ok());
        for stream in [one, two, &ours] {
            for cut in (0..stream.len()).filter(|cut| stream != two || Some(*cut) != boundary) {
                let error = decoded(c, &stream[..cut]).expect_err(&format!("{c} cut at {cut}"));
                assert_eq!(error.kind(), FormatErrorKind::Corrupt);
                assert!(error.to_string().contains(c.as_str()), "{error}");
            }
        }
    }
}

#[test]
fn leftover_bytes_are_an_error() {
    for (c, one, _) in GOLDEN {
        for garbage in [&b"x"[..], b"garbage that is long enough to look at", &one[..3], &[0, 0, 1]] {
            let error = decoded(c, &[one, garbage].concat()).expect_err(c.as_str());
            assert_eq!(error.kind(), FormatErrorKind::Corrupt, "{error}");
        }
        let padded = [one, &[0; 8]].concat();
        match c {
            Compression::Gzip | Compression::Lzma => assert_eq!(decoded(c, &padded).unwrap(), PLAIN),
            _ => assert!(decoded(c, &padded).is_err(), "{c}"),
        }
    }
    assert!(decoded(Compression::Lzma, &[golden!("one.xz"), &[0; 3]].concat()).is_err());
}

#[test]
fn flipped_bits_are_found_or_harmless() {
    for (c, one, _) in GOLDEN {
        let ours = encoded(c, PLAIN);
        // lz4.frame's default has no checksum, nor zstandard's: there only "no panic" can be asked.
        let checked = [(one, !matches!(c, Compression::Lz4 | Compression::Zstd)), (&ours[..], true)];
        for (stream, has_checksum) in checked {
            let mut unnoticed = 0;
            for bit in 0..stream.len() * 8 {
                let mut bad = stream.to_vec();
                bad[bit / 8] ^= 1 << (bit % 8);
                let Ok(data) = decoded(c, &bad) else { continue };
                unnoticed += 1;
                assert!(!has_checksum || data == PLAIN, "{c}: bit {bit} changes the data unnoticed");
            }
            // Time stamp, flags and system of gzip, and the like, may change without harm.
            assert!(!has_checksum || unnoticed < 200, "{c}: {unnoticed}");
        }
    }
}

#[test]
fn results_over_the_limit_are_refused() {
    let zeros = vec![0; 3 << 20];
    for c in REAL {
        let stream = encoded(c, &zeros);
        for hint in [None, Some(10), Some(zeros.len()), Some(usize::MAX)] {
            let error = decode(c, &stream, hint, zeros.len() as u64 - 1).unwrap_err();
            assert_eq!(error.kind(), FormatErrorKind::Limit, "{c}: {error}");
            assert_eq!(decode(c, &stream, hint, zeros.len() as u64).unwrap(), zeros, "{c} {hint:?}");
        }
    }
    assert_eq!(decode(Compression::None, b"abc", None, 2).unwrap_err().kind(), FormatErrorKind::Limit);
}

#[test]
fn a_declared_size_is_not_believed() {
    let huge = 1_u64 << 60;
    let mut lz4 = vec![0x04, 0x22, 0x4d, 0x18, 0x4c, 0x40];
    lz4.extend(huge.to_le_bytes());
    lz4.push((xxhash_rust::xxh32::xxh32(&lz4[4..], 0) >> 8) as u8);
    lz4.extend([0; 1024]);
    let mut zstd = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
    zstd.extend(huge.to_le_bytes());
    zstd.extend([0; 1024]);
    let mut gzip = encoded(Compression::Gzip, b"x");
    let n = gzip.len();
    gzip[n - 4..].fill(0xff);
    for (c, stream) in [(Compression::Lz4, lz4), (Compression::Zstd, zstd), (Compression::Gzip, gzip)] {
        let error = decode(c, &stream, None, u64::MAX).expect_err(c.as_str());
        assert!(matches!(error.kind(), FormatErrorKind::Corrupt | FormatErrorKind::Limit), "{error}");
    }
}

#[test]
fn windows_up_to_128_mib_are_allowed() {
    for (window, kind) in [(0x88, FormatErrorKind::Corrupt), (0x89, FormatErrorKind::Limit), (0x90, FormatErrorKind::Limit)] {
        // Frame header without a size, window of that code, then a raw block of 9 bytes of which none is there.
        let stream = [0x28, 0xb5, 0x2f, 0xfd, 0, window, 0x49, 0, 0];
        let error = decoded(Compression::Zstd, &stream).unwrap_err();
        assert_eq!(error.kind(), kind, "{window:#x}: {error}");
    }
}

#[test]
fn a_hint_beyond_reason_is_not_followed() {
    for c in REAL {
        assert_eq!(decode(c, &encoded(c, PLAIN), Some(usize::MAX), u64::MAX).unwrap(), PLAIN, "{c}");
    }
}

#[test]
fn headers_hold_size_and_checksum() {
    let zstd = encoded(Compression::Zstd, PLAIN);
    assert_eq!(super::zstd::declared_size(&zstd), Some(PLAIN.len() as u64));
    assert_eq!(zstd[4] & 0x04, 0x04, "content checksum");
    let lz4 = encoded(Compression::Lz4, PLAIN);
    assert_eq!(super::lz4::declared_size(&lz4), Some(PLAIN.len() as u64));
    assert_eq!(lz4[4] & 0x04, 0x04, "content checksum");
}

#[test]
fn errors_of_the_source_come_through() {
    struct Failing<'a>(&'a [u8]);
    impl Read for Failing<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buf)? {
                0 => Err(io::Error::from_raw_os_error(5)),
                n => Ok(n),
            }
        }
    }
    for (c, one, _) in GOLDEN {
        let error = decoder(c, Box::new(Failing(&one[..one.len() / 2]))).unwrap().read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5), "{c}");
        assert_eq!(FormatError::from(error).kind(), FormatErrorKind::Io);
    }
}

#[test]
fn a_failed_decoder_stays_failed() {
    for (c, one, _) in GOLDEN {
        let mut reader = decoder(c, Box::new(&one[..one.len() - 1])).unwrap();
        assert!(reader.read_to_end(&mut Vec::new()).is_err());
        assert!(reader.read(&mut [0; 8]).is_err(), "{c}");
    }
}

#[test]
fn words_and_the_zip_exception() {
    for c in crate::registry::COMPRESSIONS {
        assert_eq!(c.as_str().parse::<Compression>().unwrap(), *c);
    }
    assert_eq!("BROTLI".parse::<Compression>().unwrap_err().kind(), FormatErrorKind::Unsupported);
    assert_eq!(encode(Compression::Zip, &[], &mut Vec::new()).unwrap_err().kind(), FormatErrorKind::Unsupported);
    assert_eq!(decode(Compression::Zip, b"", None, 1).unwrap_err().kind(), FormatErrorKind::Unsupported);
    assert!(decoder(Compression::Zip, Box::new(io::empty())).is_err());
}

#[test]
fn every_gzip_method_round_trips() {
    let r = super::size_tests::lcg(300_000);
    let skewed: Vec<u8> = r.iter().map(|b| (b.leading_zeros() * 3 + u32::from(*b > 250)) as u8).collect();
    // Byte counts that double make a tree 17 deep, and deflate allows 15.
    let deep: Vec<u8> = (0..17_u8).flat_map(|symbol| std::iter::repeat_n(symbol, 1 << symbol)).collect();
    for data in [&[][..], b"a", &[7; 200_000], b"ab", PLAIN, &r, &skewed, &deep, &r[..131_072], &r[..65_535]] {
        for method in [Method::Huffman, Method::Zlib, Method::Matches(1), Method::Matches(9)] {
            let mut out = Vec::new();
            gzip::encode_by(method, data, &mut out).unwrap();
            assert!(decoded(Compression::Gzip, &out).unwrap() == data, "{method:?} on {} bytes", data.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn round_trip_in_odd_pieces(
        data in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..3000),
            (any::<u8>(), 0..200_000_usize).prop_map(|(b, n)| vec![b; n]),
            (proptest::collection::vec(0..9_u8, 1..500), 1..400_usize).prop_map(|(v, n)| v.repeat(n)),
        ],
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let mut at: Vec<usize> = cuts.iter().map(|i| i.index(data.len() + 1)).chain([0, data.len()]).collect();
        at.sort_unstable();
        let parts: Vec<&[u8]> = at.windows(2).map(|w| &data[w[0]..w[1]]).collect();
        let mut out = Vec::new();
        for c in REAL.into_iter().chain([Compression::None]) {
            encode(c, &parts, &mut out).unwrap();
            prop_assert_eq!(&out, &encoded(c, &data), "{}: the pieces show", c);
            prop_assert!(decode(c, &out, Some(data.len()), data.len() as u64).unwrap() == data);
            let mut streamed = Vec::new();
            decoder(c, Box::new(Dribble(&out, 1000))).unwrap().read_to_end(&mut streamed).unwrap();
            prop_assert!(streamed == data);
        }
    }

    #[test]
    fn any_bytes_never_panic(data in proptest::collection::vec(any::<u8>(), 0..300), from in 0..5_usize, keep in 2..60_usize) {
        let (c, one, _) = GOLDEN[from];
        let _ = decode(c, &data, None, 1 << 20);
        let _ = decode(c, &[&one[..keep], &data].concat(), None, 1 << 20);
    }
}
