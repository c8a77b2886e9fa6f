//! Damaged ArrayRecord files, and files of any records: what is read is what was written, or an error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use sigbank_format::Result;
use sigbank_format::container::arrayrecord::{Compression, Decoder, Options, Reader, Writer, recover};
use sigbank_format::error::FormatErrorKind;

const BLOCK: usize = 1 << 16;

fn written(records: &[Vec<u8>], options: Options) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), options).unwrap();
    records.iter().for_each(|record| writer.push(record).unwrap());
    writer.finish().unwrap().0
}

fn records(reader: &Reader) -> Result<Vec<Vec<u8>>> {
    let mut decoder = Decoder::default();
    let one = |i| {
        let mut record = Vec::new();
        decoder.read(reader, i, &mut record).map(|()| record)
    };
    (0..reader.len()).map(one).collect()
}

/// The file's records, and that every chunk of it is whole.
fn verified(file: Bytes) -> Result<Vec<Vec<u8>>> {
    let reader = Reader::open(Arc::new(file.clone()))?;
    assert!(reader.writer_options().contains("group_size"), "{}", reader.writer_options());
    let all = records(&reader)?;
    match recover(Arc::new(file))? {
        found if found.fault.is_none() => assert_eq!(records(&found.reader)?, all),
        found => return Err(found.fault.unwrap()),
    }
    Ok(all)
}

/// A file in which chunks run over a block's end, with more than one block.
fn sample(options: Options) -> (Vec<Vec<u8>>, Vec<u8>) {
    let noise = |n: usize| -> Vec<u8> {
        let step = |x: &mut u32| {
            *x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some((*x >> 24) as u8)
        };
        std::iter::repeat(()).scan(n as u32, |x, ()| step(x)).take(n).collect()
    };
    let records = vec![noise(500), vec![], noise(65_300), noise(300), b"end".to_vec()];
    let file = written(&records, options);
    (records, file)
}

fn kinds() -> [Options; 4] {
    let with = |compression, group_size| Options { compression, group_size, pad_to_block_boundary: false };
    [
        with(Compression::Zstd { level: 3, window_log: 20 }, 1),
        with(Compression::None, 2),
        with(Compression::Snappy, 1),
        with(Compression::Brotli { level: 1 }, 3),
    ]
}

#[test]
fn any_flipped_bit_is_noticed() {
    for options in kinds() {
        let (wanted, file) = sample(options);
        assert_eq!(verified(file.clone().into()).unwrap(), wanted);
        // Where there is something: at each byte a bit, else at some.
        let mut harmless = 0;
        let ends = [0..1200, BLOCK - 64..BLOCK + 1400, 2 * BLOCK..2 * BLOCK + 300, file.len() - 100..file.len()];
        let places = ends.into_iter().flatten().chain((0..file.len()).step_by(997)).filter(|at| *at < file.len());
        for at in places {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << (at % 8);
            match verified(damaged.into()) {
                Err(e) => assert_eq!(e.kind(), FormatErrorKind::Corrupt, "{at}: {e}"),
                Ok(found) => {
                    assert_eq!((found == wanted, file[at]), (true, 0), "{at}");
                    harmless += 1;
                }
            }
        }
        // All of this file is hashed: there is no chunk with more records than bytes.
        assert_eq!(harmless, 0);
    }
}

#[test]
fn zeros_behind_many_empty_records_may_be_anything_but_block_headers_not() {
    let records = vec![vec![]; 150_000];
    let options = Options { group_size: 150_000, ..Options::default() };
    let file = written(&records, options);
    let header = 2 * BLOCK..2 * BLOCK + 24;
    for at in [100_000, header.start - 1, header.end, header.end + 5000] {
        let mut damaged = file.clone();
        assert_eq!(damaged[at], 0);
        damaged[at] = 1;
        assert_eq!(verified(damaged.into()).unwrap().len(), 150_000);
    }
    for at in header {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        let e = verified(damaged.into()).unwrap_err();
        assert!(e.to_string().contains("the block header at offset 131072"), "{e}");
    }
}

#[test]
fn a_file_that_is_cut_is_refused_and_its_whole_records_are_found() {
    for options in kinds() {
        let (wanted, file) = sample(options);
        let whole: Bytes = file.clone().into();
        // Where chunks begin, as the reader says.
        let reader = Reader::open(Arc::new(whole.clone())).unwrap();
        let ends: Vec<u64> = (0..reader.len()).map(|i| reader.span(i).unwrap().end).collect();
        for len in (0..1200).chain((1200..file.len()).step_by(331)).chain([BLOCK, 2 * BLOCK, file.len() - BLOCK, file.len() - 1])
        {
            let cut = whole.slice(..len);
            let e = Reader::open(Arc::new(cut.clone())).err().expect("is refused");
            assert_eq!(e.kind(), FormatErrorKind::Corrupt, "{len}");
            let Ok(found) = recover(Arc::new(cut)) else {
                assert!(len < 64);
                continue;
            };
            let there = ends.iter().filter(|end| **end <= len as u64).count();
            assert_eq!(records(&found.reader).unwrap(), wanted[..there], "{len}");
        }
        // Something behind the end.
        let longer = |n| Bytes::from([&file[..], &vec![0; n]].concat());
        assert!(Reader::open(Arc::new(longer(1))).is_err());
        assert!(Reader::open(Arc::new(longer(BLOCK))).is_err());
    }
}

/// Blocks that another file of the same length has there: their own hashes are right.
#[test]
fn a_block_of_another_file_is_noticed() {
    let (_, file) = sample(kinds()[1]);
    let mut records = sample(kinds()[1]).0;
    records[2][40_000] ^= 1;
    let other = written(&records, kinds()[1]);
    assert_eq!(other.len(), file.len());
    for block in 0..file.len() / BLOCK {
        let place = block * BLOCK..(block + 1) * BLOCK;
        if file[place.clone()] == other[place.clone()] {
            continue;
        }
        let mut mixed = file.clone();
        mixed[place.clone()].copy_from_slice(&other[place]);
        // A chunk that lies in one block altogether is another one, rightly.
        match verified(mixed.into()) {
            Err(e) => assert_eq!(e.kind(), FormatErrorKind::Corrupt),
            Ok(found) => assert_eq!(found, records),
        }
    }
}

fn options() -> impl Strategy<Value = Options> {
    let compression = prop_oneof![
        Just(Compression::None),
        (-5i32..6, 10u32..22).prop_map(|(level, window_log)| Compression::Zstd { level, window_log }),
        (0u8..6).prop_map(|level| Compression::Brotli { level }),
        Just(Compression::Snappy),
    ];
    (compression, 1u32..6, any::<bool>()).prop_map(|(compression, group_size, pad_to_block_boundary)| Options {
        compression,
        group_size,
        pad_to_block_boundary,
    })
}

fn record() -> impl Strategy<Value = Vec<u8>> {
    let long = (prop_oneof![0usize..300, 65_400usize..65_640, 130_000usize..132_000], any::<u8>(), 0usize..3);
    prop_oneof![
        3 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => long.prop_map(|(len, first, step)| (0..len).map(|i| (i * step) as u8 ^ first).collect()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn what_is_written_is_read(wanted in proptest::collection::vec(record(), 0..14), options in options(), order in any::<u64>()) {
        let file: Bytes = written(&wanted, options).into();
        prop_assert_eq!(file.len() % BLOCK, 0);
        prop_assert_eq!(&verified(file.clone()).unwrap(), &wanted);
        let reader = Reader::open(Arc::new(file.clone())).unwrap();
        prop_assert_eq!(reader.writer_options(), options.to_string());
        let (mut decoder, mut out) = (Decoder::default(), Vec::new());
        for n in 0..wanted.len() as u64 {
            let i = order.wrapping_mul(n + 1) % wanted.len() as u64;
            let span = reader.span(i).unwrap();
            decoder.decode(&reader, i, &file[span.start as usize..span.end as usize], &mut out).unwrap();
            prop_assert_eq!(&out, &wanted[i as usize]);
        }
    }
}
