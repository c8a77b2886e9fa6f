//! Ogg files that hold more than one stream, and pages that are damaged where another one could be taken for the end.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use bytes::Bytes;
use sigbank_format::array::{self, Format};
use sigbank_format::error::{FormatErrorKind, Result};
use sigbank_format::model::Array;
use std::sync::Arc;

fn golden(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/arrays").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn read(bytes: Vec<u8>) -> Result<Array> {
    array::open(Arc::new(Bytes::from(bytes)), Format::Ogg)?.read_all()
}

/// An error of a kind that says these words.
fn check(result: Result<Array>, kind: FormatErrorKind, words: &[&str]) {
    let e = result.err().unwrap_or_else(|| panic!("read all the same, where {words:?} was to be said"));
    assert!(e.kind() == kind && words.iter().all(|w| e.to_string().contains(w)), "{:?}: {e}", e.kind());
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
fn an_ogg_of_several_streams_is_refused() {
    let (one, other) = (golden("ogg/many_pages.ogg"), golden("ogg/vorbis_1.ogg"));
    let mut same_serial = other.clone();
    // Under the serial number of the first, with checksums that are right.
    for at in pages(&other) {
        same_serial[at + 14..at + 18].copy_from_slice(&one[14..18]);
        let end = pages(&other).into_iter().find(|&next| next > at).unwrap_or(other.len());
        resum(&mut same_serial[at..end]);
    }
    assert!(read(same_serial.clone()).is_ok() && same_serial != other);
    for follows in [&one, &other, &same_serial, &golden("ogg/opus.ogg")] {
        for between in [&b""[..], b"junk"] {
            let file = [&one[..], between, follows].concat();
            check(read(file), FormatErrorKind::Unsupported, &["chained", "25000 frames", "Split"]);
        }
    }
}

/// Gives a page the checksum of its bytes.
fn resum(page: &mut [u8]) {
    page[22..26].fill(0);
    let mut crc = 0u32;
    for byte in page.iter() {
        crc ^= u32::from(*byte) << 24;
        for _ in 0..8 {
            crc = if crc >> 31 == 1 { crc << 1 ^ 0x04c1_1db7 } else { crc << 1 };
        }
    }
    page[22..26].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn a_damaged_page_of_a_short_ogg_is_named_and_not_taken_for_a_cut() {
    let whole = golden("ogg/one_frame.ogg");
    let last = *pages(&whole).last().unwrap();
    let mut bad = whole.clone();
    *bad.last_mut().unwrap() ^= 1;
    check(read(bad), FormatErrorKind::Corrupt, &["checksum", &format!("offset {last}")]);
    check(read(whole[..last].to_vec()), FormatErrorKind::Corrupt, &["cut short"]);
}
