//! Audio files and archives that are damaged, cut short, unfinished, hostile, or just very large.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use bytes::Bytes;
use sigbank_format::array::{self, ArrayReader, Format, Options, Samples};
use sigbank_format::container::npz;
use sigbank_format::error::{FormatError, FormatErrorKind, Result};
use sigbank_format::model::Array;
use sigbank_format::read_at::ReadAt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn golden(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/arrays").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn open(bytes: impl Into<Bytes>, keep_decodable: bool) -> Result<Box<dyn ArrayReader>> {
    array::open_with(Arc::new(bytes.into()), Format::Wav, Options { samples: Samples::Stored, keep_decodable })
}

fn read(bytes: impl Into<Bytes>) -> Result<Array> {
    open(bytes, false)?.read_all()
}

/// An error of a kind that says these words.
fn check<T>(result: Result<T>, kind: FormatErrorKind, words: &[&str]) {
    let e = result.err().unwrap_or_else(|| panic!("read all the same, where {words:?} was to be said"));
    assert!(e.kind() == kind && words.iter().all(|w| e.to_string().contains(w)), "{:?}: {e}", e.kind());
}

/// Bytes here and there in a file of zeros.
struct Sparse {
    parts: Vec<(u64, Vec<u8>)>,
    size: u64,
}

impl ReadAt for Sparse {
    fn size(&self) -> u64 {
        self.size
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        assert!(buf.len() < 1 << 24, "{} bytes read at once from a file that is mostly to be left alone", buf.len());
        if offset + buf.len() as u64 > self.size {
            return Err(FormatError::corrupt("past the end"));
        }
        buf.fill(0);
        for (start, bytes) in &self.parts {
            for (i, b) in bytes.iter().enumerate() {
                if let Some(place) = (start + i as u64).checked_sub(offset).and_then(|at| buf.get_mut(at as usize)) {
                    *place = *b;
                }
            }
        }
        Ok(())
    }
}

fn wav(riff: u32, chunks: &[(&[u8; 4], u32, &[u8])]) -> Vec<u8> {
    let mut out = [b"RIFF".as_slice(), &riff.to_le_bytes(), b"WAVE"].concat();
    for (id, size, body) in chunks {
        out.extend([id.as_slice(), &size.to_le_bytes(), body].concat());
    }
    out
}

fn fmt(tag: u16, channels: u16, bits: u16, align: u16) -> Vec<u8> {
    let rate = 8000u32;
    [
        &tag.to_le_bytes()[..],
        &channels.to_le_bytes(),
        &rate.to_le_bytes(),
        &(rate * u32::from(align)).to_le_bytes(),
        &align.to_le_bytes(),
        &bits.to_le_bytes(),
    ]
    .concat()
}

const FMT_16: [u8; 16] = [1, 0, 1, 0, 0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, 16, 0];

#[test]
fn a_cut_wav_says_how_many_frames_there_are() {
    let whole = golden("wav/pcm_16_2.wav");
    let all = read(whole.clone()).unwrap();
    for len in 0..whole.len() {
        let cut = whole[..len].to_vec();
        let e = read(cut.clone()).unwrap_err();
        assert_eq!(e.kind(), FormatErrorKind::Corrupt, "{len}");
        if let Some(data) = len.checked_sub(44) {
            let words = ["declares 101 frames".to_owned(), format!("ends after {}:", data / 4)];
            assert!(words.iter().all(|w| e.to_string().contains(w)), "{e}");
            let mut kept = open(cut, true).unwrap();
            assert!(kept.info().incomplete.as_ref().unwrap().contains(&words[1]));
            assert_eq!((kept.info().rows(), &kept.read_all().unwrap().data()[..]), (data / 4, &all.data()[..data / 4 * 4]));
        }
    }
}

#[test]
fn wav_sizes_that_cannot_be_true_are_errors() {
    let samples = [7u8; 10];
    let head = (b"fmt ", 16, &FMT_16[..]);
    // Its writer died before it filled in the size.
    check(read(wav(36, &[head, (b"data", 0, &samples)])), FormatErrorKind::Corrupt, &["10 bytes follow", "did not finish"]);
    // No samples, and no reason to doubt it.
    assert_eq!(read(wav(46, &[head, (b"data", 0, b""), (b"LIST", 2, b"ab")])).unwrap().shape(), [0]);
    assert_eq!(read(wav(0, &[head, (b"data", 0, b"")])).unwrap().shape(), [0]);
    // Half a frame.
    check(read(wav(48, &[head, (b"data", 9, &samples[..9])])), FormatErrorKind::Corrupt, &["9 bytes are 4 frames of 2"]);
    let mut kept = open(wav(48, &[head, (b"data", 9, &samples[..9])]), true).unwrap();
    assert!(kept.info().incomplete.is_some() && kept.read_all().unwrap().shape() == [4]);
    // A pad byte that was counted in.
    let padded = wav(44, &[(b"fmt ", 16, &fmt(1, 1, 24, 3)), (b"data", 4, &samples[..4])]);
    assert_eq!(read(padded).unwrap().shape(), [1]);
    check(read(wav(4, &[])), FormatErrorKind::Corrupt, &["without a 'data' chunk"]);
    check(read(wav(4, &[(b"data", 10, &samples)])), FormatErrorKind::Corrupt, &["no 'fmt ' chunk"]);
    check(read(wav(4, &[(b"fmt ", 9, &samples[..9])])), FormatErrorKind::Corrupt, &["'fmt ' chunk of 9 bytes"]);
}

#[test]
fn wav_formats_that_cannot_be_meant_are_errors() {
    let with = |fmt: Vec<u8>| read(wav(0, &[(b"fmt ", fmt.len() as u32, &fmt), (b"data", 24, &[0; 24])]));
    use FormatErrorKind::{Corrupt, Limit, Unsupported};
    check(with(fmt(1, 0, 16, 0)), Corrupt, &["0 channels"]);
    check(with(fmt(1, 2, 16, 3)), Corrupt, &["2 channels with 3 bytes"]);
    check(read(wav(0, &[(b"fmt ", 16, &fmt(1, 1025, 16, 2050)), (b"data", 0, b"")])), Limit, &["1025 channels"]);
    check(with(fmt(1, 1, 24, 4)), Unsupported, &["24-bit PCM samples in 4 bytes"]);
    check(with(fmt(1, 1, 64, 8)), Unsupported, &["64-bit PCM"]);
    check(with(fmt(3, 1, 16, 2)), Unsupported, &["16-bit float"]);
    check(with(fmt(0x55, 1, 0, 1)), Unsupported, &["MP3"]);
    check(with(fmt(0x1234, 1, 0, 1)), Unsupported, &["0x1234"]);
    // Blocks of a fixed size, whose last one is padded: as many frames as nobody wrote.
    check(with(fmt(2, 1, 4, 256)), Unsupported, &["Microsoft ADPCM", "16-bit PCM"]);
    check(with(fmt(0x11, 1, 4, 256)), Unsupported, &["IMA ADPCM", "16-bit PCM"]);
    check(with(fmt(6, 1, 16, 2)), Unsupported, &["16-bit G.711 samples in 2 bytes"]);
    check(with(fmt(7 << 8, 1, 8, 1)), Corrupt, &["big-endian"]);
    assert_eq!(with(fmt(7, 2, 8, 2)).unwrap().data()[..8], (-32124i16).to_le_bytes().repeat(4));
    let extended = |valid: u16, guid: &[u8]| {
        [fmt(0xFFFE, 1, 32, 4), vec![22, 0], valid.to_le_bytes().to_vec(), vec![0; 4], guid.to_vec()].concat()
    };
    let pcm = [1, 0, 0, 0, 0, 0, 16, 0, 128, 0, 0, 170, 0, 56, 155, 113];
    assert_eq!(with(extended(20, &pcm)).unwrap().shape(), [6]);
    check(with(extended(33, &pcm)), Corrupt, &["33 valid bits"]);
    check(with(extended(32, &[9; 16])), Unsupported, &["subformat"]);
    check(with(extended(32, &pcm[..5])), Corrupt, &["'fmt ' chunk of 29 bytes"]);
}

#[test]
fn a_wav_of_two_byte_orders_is_named_as_such() {
    let mut file = golden("wav/pcm_16_1.wav");
    file[..4].copy_from_slice(b"RIFX");
    check(read(file), FormatErrorKind::Corrupt, &["RIFX", "big-endian", "little-endian"]);
    let mut file = golden("wav/rifx_pcm_16_1.wav");
    file[..4].copy_from_slice(b"RIFF");
    check(read(file), FormatErrorKind::Corrupt, &["starts with RIFF", "is big-endian"]);
}

#[test]
fn wav_of_more_than_4_gib_is_read_in_full() {
    let data = (9u64 << 30) / 2;
    let tail = |size: u64| (size - 2, vec![0x34, 0x12]);
    let mut last = [0; 2];
    // The 32-bit size has wrapped.
    let head = wav((data + 36) as u32, &[(b"fmt ", 16, &FMT_16), (b"data", data as u32, b"")]);
    let size = head.len() as u64 + data;
    let mut r = array::open_with(
        Arc::new(Sparse { parts: vec![(0, head.clone()), tail(size)], size }),
        Format::Wav,
        Options { samples: Samples::Stored, ..Default::default() },
    )
    .unwrap();
    assert_eq!(r.info().shape, [data as usize / 2]);
    r.read_rows(data as usize / 2 - 1, 1, &mut last).unwrap();
    assert_eq!(last, [0x34, 0x12]);
    // Something else is wrong with it.
    let size = size + 1000;
    check(array::open(Arc::new(Sparse { parts: vec![(0, head)], size }), Format::Wav), FormatErrorKind::Corrupt, &["wrapped"]);
    // RF64 has room for the size.
    let ds64 = [&(data + 72).to_le_bytes()[..], &data.to_le_bytes(), &(data / 2).to_le_bytes(), &[0; 4]].concat();
    let mut head = wav(u32::MAX, &[(b"ds64", 28, &ds64), (b"fmt ", 16, &FMT_16), (b"data", u32::MAX, b"")]);
    head[..4].copy_from_slice(b"RF64");
    let size = head.len() as u64 + data;
    let mut r = array::open_with(
        Arc::new(Sparse { parts: vec![(0, head.clone()), tail(size)], size }),
        Format::Wav,
        Options { samples: Samples::Stored, ..Default::default() },
    )
    .unwrap();
    assert_eq!(r.info().shape, [data as usize / 2]);
    r.read_rows(data as usize / 2 - 1, 1, &mut last).unwrap();
    assert_eq!(last, [0x34, 0x12]);
    let cut = Sparse { parts: vec![(0, head)], size: 3 << 30 };
    check(array::open(Arc::new(cut), Format::Wav), FormatErrorKind::Corrupt, &["cut short"]);
}

#[test]
fn a_flac_cut_anywhere_is_an_error() {
    for name in ["flac/pcm_16_2.flac", "flac/unknown_length.flac"] {
        let whole = golden(name);
        let all = read(whole.clone()).unwrap();
        for len in (0..200).chain((200..whole.len()).step_by(97)).chain([whole.len() - 1]) {
            let cut = whole[..len].to_vec();
            let e = open(cut.clone(), false).and_then(|mut r| r.read_all()).unwrap_err();
            assert_eq!(e.kind(), FormatErrorKind::Corrupt, "{name} at {len}: {e}");
            if len >= 200 {
                let mut kept = open(cut, true).unwrap();
                let rows = kept.info().rows();
                assert!(e.to_string().contains(&format!("after {rows} ")), "{e}");
                assert!(rows.is_multiple_of(4096) && kept.info().incomplete.is_some());
                assert_eq!(kept.read_all().unwrap().data()[..], all.data()[..rows * 4]);
            }
        }
    }
}

#[test]
fn a_flac_with_a_flipped_bit_never_gives_other_samples() {
    let whole = golden("flac/pcm_24_1.flac");
    let all = read(whole.clone()).unwrap();
    for at in (0..whole.len()).step_by(41).chain(0..60) {
        for bit in 0..8 {
            let mut bad = whole.clone();
            bad[at] ^= 1 << bit;
            if let Ok(a) = read(bad) {
                // What has no checksum is the head: the length, the rate and the like.
                assert!(at < 60 || a == all, "byte {at} bit {bit}");
            }
        }
    }
}

#[test]
fn a_flac_that_contradicts_itself_is_an_error() {
    let whole = golden("flac/unknown_length.flac");
    let starts: Vec<usize> =
        (0..3).map(|n| whole.windows(5).position(|w| w[..2] == [0xff, 0xf8] && w[4] == n).unwrap()).collect();
    let [first, second, third] = starts[..] else { panic!("{starts:?}") };
    let with_length = |frames: u32| [&whole[..22], &frames.to_be_bytes(), &whole[26..]].concat();
    assert_eq!(read(with_length(9500)).unwrap().shape(), [9500, 2]);
    // Frames beyond the declared end, and too few of them.
    for frames in [100, 4096, 8192] {
        check(read(with_length(frames)), FormatErrorKind::Corrupt, &["goes on after"]);
        let mut kept = open(with_length(frames), true).unwrap();
        assert_eq!((kept.info().rows(), kept.info().incomplete.is_some()), (9500, true));
        kept.read_all().unwrap();
    }
    check(read(with_length(9501)), FormatErrorKind::Corrupt, &["9501", "9500"]);
    check(read(with_length(u32::MAX)), FormatErrorKind::Corrupt, &["9500"]);
    // A frame is missing, or there twice.
    let missing = [&whole[..second], &whole[third..]].concat();
    check(read(missing), FormatErrorKind::Corrupt, &["after 4096 frames", "missing or doubled"]);
    let doubled = [&whole[..second], &whole[first..]].concat();
    check(read(doubled), FormatErrorKind::Corrupt, &["after 4096 frames", "missing or doubled"]);
    // A cut between two frames, where only the MD5 tells; without one, nothing does.
    check(read(whole[..third].to_vec()), FormatErrorKind::Corrupt, &["after 8192 frames", "MD5"]);
    let mut kept = open(whole[..third].to_vec(), true).unwrap();
    assert_eq!(
        (kept.info().rows(), kept.info().incomplete.is_some(), kept.read_all().unwrap().shape()),
        (8192, true, &[8192, 2][..])
    );
    let unsigned = [&whole[..26], &[0; 16], &whole[42..third]].concat();
    assert_eq!(read(unsigned).unwrap().shape(), [8192, 2]);
    // Further frames of the stream are not left out in silence, where no MD5 tells either.
    let unsigned = [&with_length(8192)[..26], &[0; 16], &whole[42..]].concat();
    check(read(unsigned), FormatErrorKind::Corrupt, &["declares 8192 frames", "goes on after"]);
}

#[test]
fn what_follows_all_declared_frames_is_no_part_of_the_array() {
    let noise = golden("flac/noise.flac");
    let flac = golden("flac/pcm_16_2.flac");
    let id3v1 = [b"TAG".as_slice(), &[0; 125]].concat();
    let apev2 = [b"APETAGEX".as_slice(), &2000u32.to_le_bytes(), &[7; 100]].concat();
    let ends: [&[u8]; 8] = [b"x", &[0; 100], &[0; 128], &[0xff; 999], b"TAG and more", &id3v1, &apev2, &noise];
    for (whole, chained) in [(&flac, false), (&golden("ogg/many_pages.ogg"), true), (&golden("wav/pcm_16_2.wav"), false)] {
        let all = read(whole.clone()).unwrap();
        for follows in ends {
            let file = [&whole[..], follows].concat();
            assert_eq!(read(file.clone()).unwrap(), all, "{follows:02x?}");
            let mut kept = open(file, true).unwrap();
            assert_eq!(kept.info().incomplete, None, "{follows:02x?}");
            assert_eq!(kept.read_all().unwrap(), all, "{follows:02x?}");
        }
        // The same file again: of Ogg that is a chain.
        match read([&whole[..], whole].concat()) {
            Err(e) if chained => assert!(e.to_string().contains("chained"), "{e}"),
            twice => assert_eq!(twice.unwrap(), all),
        }
        // What has fewer frames than declared is not made whole by what follows.
        if !chained {
            check(read([&whole[..whole.len() * 3 / 4], &[0; 9]].concat()), FormatErrorKind::Corrupt, &[]);
        }
    }
}

#[test]
fn flac_samples_that_are_not_those_of_the_md5_are_an_error() {
    for name in ["flac/pcm_16_2.flac", "flac/pcm_24_1.flac", "flac/pcm_s8_1.flac", "flac/wasted_bits.flac"] {
        let mut file = golden(name);
        let all = read(file.clone()).unwrap();
        file[26 + 7] ^= 1;
        let mut r = open(file.clone(), false).unwrap();
        let mut row = vec![0; r.info().row_bytes()];
        r.read_rows(0, 1, &mut row).unwrap();
        // Also by a window that came to the end with gaps: all before it was decoded.
        let last = r.info().rows() - 1;
        check(r.read_rows(last, 1, &mut row), FormatErrorKind::Corrupt, &["MD5"]);
        check(read(file.clone()), FormatErrorKind::Corrupt, &["MD5"]);
        let mut kept = open(file.clone(), true).unwrap();
        assert!(kept.info().incomplete.as_ref().unwrap().contains("MD5"));
        assert_eq!(kept.read_all().unwrap(), all);
        // Zeros are no MD5.
        file[26..42].fill(0);
        assert_eq!(read(file).unwrap(), all);
    }
}

fn pages(ogg: &[u8]) -> Vec<usize> {
    let mut starts = vec![];
    let mut at = 0;
    while at < ogg.len() {
        starts.push(at);
        let lacing = &ogg[at + 27..][..usize::from(ogg[at + 26])];
        at += 27 + lacing.len() + lacing.iter().map(|&n| usize::from(n)).sum::<usize>();
    }
    starts
}

#[test]
fn an_ogg_cut_anywhere_says_how_many_frames_decode() {
    let whole = golden("ogg/many_pages.ogg");
    let all = read(whole.clone()).unwrap();
    let starts = pages(&whole);
    assert!(starts.len() > 4);
    let granule = |page: usize| i64::from_le_bytes(whole[page + 6..page + 14].try_into().unwrap());
    let last = *starts.last().unwrap();
    for len in (0..300).chain((300..whole.len()).step_by(97)).chain([last - 1, last, last + 1, whole.len() - 1]) {
        let cut = whole[..len].to_vec();
        let e = read(cut.clone()).unwrap_err();
        assert_eq!(e.kind(), FormatErrorKind::Corrupt, "{len}: {e}");
        if len >= starts[2] {
            let ends = starts[1..].iter().rposition(|&end| end <= len).unwrap();
            let frames = granule(starts[ends]).max(0) as usize;
            assert!(e.to_string().starts_with(&format!("{frames} frames decode")), "{len}: {e}");
            let mut kept = open(cut, true).unwrap();
            assert_eq!((kept.info().rows(), kept.info().incomplete.is_some()), (frames, true));
            assert!(kept.read_all().unwrap().data()[..] == all.data()[..frames * 8], "{len}");
        }
    }
}

#[test]
fn a_damaged_ogg_never_gives_other_samples() {
    let whole = golden("ogg/many_pages.ogg");
    let all = read(whole.clone()).unwrap();
    for at in (0..whole.len()).step_by(61).chain(0..60) {
        let mut bad = whole.clone();
        bad[at] ^= 1 << (at % 8);
        let e = read(bad.clone()).unwrap_err();
        assert_eq!(e.kind(), if bad[4] == 0 { FormatErrorKind::Corrupt } else { FormatErrorKind::Unsupported }, "byte {at}: {e}");
        // What comes before the damage can be had.
        if at >= pages(&whole)[2] {
            let mut kept = open(bad, true).unwrap();
            let frames = kept.info().rows();
            assert!(frames < all.shape()[0] && kept.info().incomplete.is_some());
            assert!(kept.read_all().unwrap().data()[..] == all.data()[..frames * 8]);
        }
    }
    let starts = pages(&whole);
    let missing = [&whole[..starts[3]], &whole[starts[4]..]].concat();
    check(read(missing), FormatErrorKind::Corrupt, &["pages are missing"]);
    let doubled = [&whole[..starts[4]], &whole[starts[3]..]].concat();
    check(read(doubled), FormatErrorKind::Corrupt, &["pages are missing"]);
    let junk = [&whole[..starts[3]], b"junk", &whole[starts[3]..]].concat();
    check(read(junk), FormatErrorKind::Corrupt, &["page is expected"]);
    let tagged = [&whole[..], b"TAG", &[0; 125]].concat();
    assert_eq!(read(tagged).unwrap(), all);
    // A tail that is full of page marks is no reason to take long.
    let marks = [&whole[..], &b"OggS".repeat(40_000)].concat();
    assert_eq!(read(marks).unwrap(), all);
}

#[test]
fn windows_that_go_forward_decode_once() {
    struct Counting(Bytes, AtomicU64);
    impl ReadAt for Counting {
        fn size(&self) -> u64 {
            self.0.len() as u64
        }
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
            self.1.fetch_add(buf.len() as u64, Ordering::Relaxed);
            self.0.read_at(offset, buf)
        }
    }
    for name in ["flac/pcm_16_6.flac", "ogg/many_pages.ogg"] {
        let src = Arc::new(Counting(golden(name).into(), AtomicU64::new(0)));
        let mut r = array::open(src.clone(), Format::Flac).unwrap();
        let opened = src.1.swap(0, Ordering::Relaxed);
        let mut row = vec![0; r.info().row_bytes()];
        for start in 0..r.info().rows() {
            r.read_rows(start, 1, &mut row).unwrap();
        }
        let read = src.1.load(Ordering::Relaxed);
        // One pass: some bytes of pages' heads are read twice.
        assert!(read < src.size() * 5 / 4, "{name}: {read} bytes read of {}, {opened} to open it", src.size());
    }
}

/// The place of a member's entry in the directory of an archive.
fn entry(zip: &[u8], name: &str) -> usize {
    (0..zip.len() - 46).find(|&i| zip[i..].starts_with(b"PK\x01\x02") && zip[i + 46..].starts_with(name.as_bytes())).unwrap()
}

#[test]
fn npz_damage_is_found() {
    for name in ["npz/stored.npz", "npz/deflated.npz"] {
        let whole = golden(name);
        for len in (0..whole.len()).step_by(37) {
            check(npz::open(Arc::new(Bytes::from(whole[..len].to_vec()))).map(|_| ()), FormatErrorKind::Corrupt, &["zip"]);
        }
        let open = |zip: Vec<u8>| npz::open(Arc::new(Bytes::from(zip))).unwrap();
        assert!(open(whole.clone()).read("a").is_ok());
        // One bit of a's data.
        let data = 30 + 5 + usize::from(whole[28]);
        let mut bad = whole.clone();
        bad[data + 20 + if name.contains("stored") { 128 - 20 } else { 0 }] ^= 1;
        check(open(bad.clone()).read("a"), FormatErrorKind::Corrupt, &["member 'a'"]);
        check(open(bad.clone()).verify("a"), FormatErrorKind::Corrupt, &["member 'a'"]);
        assert!(open(bad).read("b").is_ok());
        // The directory lies about the size.
        for size in [1u32, 100, u32::MAX - 1] {
            let mut bad = whole.clone();
            let at = entry(&bad, "c.npy") + 24;
            bad[at..at + 4].copy_from_slice(&size.to_le_bytes());
            check(open(bad.clone()).read("c"), FormatErrorKind::Corrupt, &["member 'c'"]);
            check(open(bad.clone()).verify("c"), FormatErrorKind::Corrupt, &["member 'c'"]);
            check(open(bad).member("c").map(|_| ()), FormatErrorKind::Corrupt, &["member 'c'"]);
        }
    }
    // Two members of one name: a reader by name would drop one.
    let mut doubled = golden("npz/stored.npz");
    let places: Vec<usize> = (0..doubled.len()).filter(|&i| doubled[i..].starts_with(b"b.npy")).collect();
    assert_eq!(places.len(), 2);
    places.iter().for_each(|&i| doubled[i] = b'a');
    check(npz::open(Arc::new(Bytes::from(doubled))).map(|_| ()), FormatErrorKind::Corrupt, &["'a.npy'", "more than one"]);
    check(npz::open(Arc::new(Bytes::from_static(b"not a zip"))).map(|_| ()), FormatErrorKind::Corrupt, &["zip"]);
}

/// An npz of one stored member of `size` bytes of zeros after its npy header, in zip64.
fn zip64(size: u64) -> Sparse {
    let header = sigbank_format::array::npy::header(&"<f4".parse().unwrap(), &[size as usize / 4]).unwrap();
    let member = header.len() as u64 + size;
    let sizes = [&member.to_le_bytes()[..], &member.to_le_bytes()].concat();
    let field = |body: &[u8]| [&1u16.to_le_bytes()[..], &(body.len() as u16).to_le_bytes(), body].concat();
    // Version 4.5, no flags, stored, no time, no checksum (which reading by range does not ask for), sizes elsewhere.
    let common = |extra: usize| [&[45, 0, 0, 0, 0, 0][..], &[0; 8], &[0xff; 8], &[7, 0], &(extra as u16).to_le_bytes()].concat();
    let local = [b"PK\x03\x04", &common(20)[..], b"big.npy", &field(&sizes)].concat();
    let start = local.len() as u64;
    let directory_start = start + member;
    let directory =
        [b"PK\x01\x02", &[45u8, 3][..], &common(20), &[0; 10], &0u32.to_le_bytes(), b"big.npy", &field(&sizes)].concat();
    let end64 = [
        b"PK\x06\x06",
        &44u64.to_le_bytes()[..],
        &[45, 3, 45, 0],
        &[0; 8],
        &1u64.to_le_bytes(),
        &1u64.to_le_bytes(),
        &(directory.len() as u64).to_le_bytes(),
        &directory_start.to_le_bytes(),
    ]
    .concat();
    let locator = [b"PK\x06\x07", &[0; 4][..], &(directory_start + directory.len() as u64).to_le_bytes(), &[1, 0, 0, 0]].concat();
    let end = [b"PK\x05\x06", &[0; 4][..], &[0xff; 12], &[0; 2]].concat();
    let tail = [directory, end64, locator, end].concat();
    let total = directory_start + tail.len() as u64;
    Sparse {
        parts: vec![(0, local), (start, header), (directory_start - 4, vec![1, 2, 3, 4]), (directory_start, tail)],
        size: total,
    }
}

#[test]
fn npz_members_of_more_than_4_gib_are_read_by_range() {
    let size = 4_400_000_000u64;
    let mut npz = npz::open(Arc::new(zip64(size))).unwrap();
    assert_eq!(npz.names().unwrap(), ["big"]);
    let mut r = npz.member("big").unwrap();
    assert_eq!(r.info().shape, [size as usize / 4]);
    let mut window = [9; 8];
    r.read_rows(size as usize / 4 - 2, 2, &mut window).unwrap();
    assert_eq!(window, [0, 0, 0, 0, 1, 2, 3, 4]);
    // A member that reaches beyond the archive.
    let mut lying = zip64(size);
    let tail = lying.parts.last_mut().unwrap();
    tail.1[46 + 7 + 4..][..16].fill(0x7f);
    check(npz::open(Arc::new(lying)).and_then(|mut n| n.member("big").map(|_| ())), FormatErrorKind::Corrupt, &[]);
}
