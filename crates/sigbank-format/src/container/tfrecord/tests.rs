use proptest::prelude::*;

use super::*;
use crate::error::FormatErrorKind;

/// Hands out a few bytes at once.
struct Dribble<'a>(&'a [u8], usize);
impl Read for Dribble<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.1.min(buf.len());
        self.0.read(&mut buf[..n])
    }
}

fn framed(records: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    records.iter().for_each(|r| frame(r, &mut out));
    out
}

fn all(source: impl Read) -> Result<Vec<Vec<u8>>> {
    let mut records = Records::new(source);
    let mut found = Vec::new();
    while let Some(record) = records.next()? {
        found.push(record.to_vec());
    }
    assert_eq!(records.passed(), found.len() as u64);
    assert_eq!(records.next()?, None);
    Ok(found)
}

/// Passing over them must come to the same judgement as reading.
fn skipped(source: impl Read) -> Result<u64> {
    let mut records = Records::new(source);
    while records.skip()? {}
    Ok(records.passed())
}

#[test]
fn the_bytes_are_tensorflows() {
    // As TensorFlow writes a record of 26 bytes (testdata/tfrecord/float64.tfrec).
    let golden = include_bytes!("../../../../../testdata/tfrecord/float64.tfrec");
    let data = golden[12..38].to_vec();
    assert_eq!(framed(&[data])[..], golden[..42]);
}

#[test]
fn every_truncation_is_noticed() {
    let file = framed(&[b"one".to_vec(), Vec::new(), vec![7; 40]]);
    let ends = [0, 19, 35, 91];
    for len in 0..=file.len() {
        let found = all(&file[..len]);
        match ends.iter().position(|end| *end == len) {
            Some(count) => assert_eq!(found.unwrap().len(), count),
            None => {
                let e = found.unwrap_err();
                assert_eq!(e.kind(), FormatErrorKind::Corrupt);
                let record = ends.iter().rposition(|end| *end < len).unwrap();
                assert!(e.to_string().starts_with(&format!("record {record}: the file ends after")), "{e}");
                assert_eq!(skipped(&file[..len]).unwrap_err().to_string(), e.to_string());
            }
        }
    }
    assert_eq!(ends[3], file.len());
}

#[test]
fn every_flipped_bit_is_noticed() {
    let file = framed(&[b"one".to_vec(), Vec::new(), b"three".to_vec()]);
    for bit in 0..8 * file.len() {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let e = all(&damaged[..]).unwrap_err();
        assert_eq!(e.kind(), FormatErrorKind::Corrupt, "bit {bit}");
        assert!(
            e.to_string().starts_with(&format!("record {}", [0, 19, 35].iter().rposition(|s| bit / 8 >= *s).unwrap())),
            "{e}"
        );
        assert_eq!(skipped(&damaged[..]).unwrap_err().to_string(), e.to_string());
    }
}

#[test]
fn forged_lengths_take_no_memory() {
    for (len, kind) in [
        (MAX_RECORD, FormatErrorKind::Corrupt),
        (MAX_RECORD + 1, FormatErrorKind::Limit),
        (u64::MAX, FormatErrorKind::Limit),
        (u64::MAX - 16, FormatErrorKind::Limit),
    ] {
        let length = len.to_le_bytes();
        let file = [&length[..], &masked(crc32c::crc32c(&length)), &[1; 3 * BUFFER]].concat();
        let mut records = Records::new(&file[..]);
        let e = records.next().unwrap_err();
        assert_eq!(e.kind(), kind, "{e}");
        assert!(records.buffer.capacity() <= 2 * file.len(), "{}", records.buffer.capacity());
        // Said again.
        assert_eq!(records.next().unwrap_err().to_string(), e.to_string());
        assert_eq!(records.skip().unwrap_err().to_string(), e.to_string());
        assert_eq!(skipped(&file[..]).unwrap_err().kind(), kind);
    }
}

#[test]
fn long_records_take_little_more_than_they_are() {
    let record: Vec<u8> = (0..3 << 20).map(|i| (i % 251) as u8).collect();
    let file = framed(&vec![record.clone(); 5]);
    let mut records = Records::new(Dribble(&file, 100_000));
    for _ in 0..5 {
        assert!(records.next().unwrap() == Some(&record[..]));
        assert!(records.buffer.capacity() <= record.len() + 2 * BUFFER, "{}", records.buffer.capacity());
    }
    assert_eq!(records.next().unwrap(), None);
    let mut skipping = Records::new(&file[..]);
    assert!(skipping.skip().unwrap());
    assert_eq!(skipping.buffer.capacity(), BUFFER);
}

#[test]
fn a_source_that_fails_is_not_a_damaged_file() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::from_raw_os_error(5))
        }
    }
    let file = framed(&[vec![1; 10]]);
    let mut records = Records::new((&file[..20]).chain(Failing));
    assert_eq!(records.next().unwrap_err().kind(), FormatErrorKind::Io);
}

#[test]
fn a_failed_encoder_leaves_nothing() {
    let mut out = b"before".to_vec();
    let e = frame_with(&mut out, |out| {
        out.extend_from_slice(b"half");
        Err(FormatError::invalid("no"))
    });
    assert_eq!((e.unwrap_err().to_string().as_str(), &out[..]), ("no", &b"before"[..]));
    assert!(
        frame_with(&mut out, |out| {
            out.clear();
            Ok(())
        })
        .is_err()
    );
}

proptest! {
    #[test]
    fn records_come_back_however_they_arrive(
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..12),
        at_once in prop_oneof![1usize..50, Just(4096)],
        skips in prop::collection::vec(any::<bool>(), 12),
    ) {
        let mut file = framed(&records);
        let mut same = Vec::new();
        for record in &records {
            frame_with(&mut same, |out| { out.extend_from_slice(record); Ok(()) }).unwrap();
        }
        prop_assert_eq!(&same, &file);
        let mut reader = Records::new(Dribble(&file, at_once));
        for (record, skip) in records.iter().zip(skips) {
            if skip {
                prop_assert!(reader.skip().unwrap());
            } else {
                prop_assert_eq!(reader.next().unwrap(), Some(&record[..]));
            }
        }
        prop_assert!(!reader.skip().unwrap());
        // Anything behind the last record is damage.
        file.push(0);
        prop_assert!(all(Dribble(&file, at_once)).is_err());
    }
}
