//! npz shards: any records there and back, builders, and how much is read.
#![cfg(feature = "npz")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod npz_support;

use npz_support::{Collected, Counting, array, build, field, member, open, read, read_all, zip_of};
use proptest::prelude::*;
use sigbank_format::container::npz::{ShardBuilder, ShardReader};
use sigbank_format::error::FormatErrorKind::{Corrupt, Invalid, Limit};
use sigbank_format::limits::MAX_NPZ_SHARD;
use sigbank_format::model::{FieldType, Schema};
use sigbank_format::read_at::ReadAt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

fn schema(types: impl IntoIterator<Item = FieldType>) -> Schema {
    Schema { fields: types.into_iter().enumerate().map(|(i, ty)| field(&format!("f{i}"), ty)).collect() }
}

fn any_type() -> impl Strategy<Value = FieldType> {
    prop_oneof![
        ("(\\|b1|<i2|<f4|<c16|\\|S3|<U2|<M8\\[ns\\])", prop::collection::vec(1usize..4, 0..3))
            .prop_map(|(dtype, shape)| array(&dtype, &shape)),
        // Values that are read straight into their place, and such that are not.
        (1usize..40_000).prop_map(|n| array("|i1", &[n])),
        Just(FieldType::Int),
        Just(FieldType::Str),
        Just(FieldType::Bytes { len: None }),
        (0usize..5).prop_map(|len| FieldType::Bytes { len: Some(len) }),
    ]
}

fn any_value(ty: &FieldType) -> BoxedStrategy<Vec<u8>> {
    match ty.fixed_len().unwrap() {
        Some(len) => any::<u64>().prop_map(move |seed| noise(seed, len)).boxed(),
        None if *ty == FieldType::Str => {
            "(\\PC|[\u{0}é\u{1f600}]){0,9}".prop_map(|s| s.trim_end_matches('\0').as_bytes().to_vec()).boxed()
        }
        None => prop_oneof![
            9 => prop::collection::vec(any::<u8>(), 0..20),
            1 => (any::<u64>(), 0usize..40_000).prop_map(|(seed, len)| noise(seed, len)),
        ]
        .boxed(),
    }
}

fn noise(mut seed: u64, len: usize) -> Vec<u8> {
    let next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Few values, so that it deflates.
        (seed >> 60) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

type Record = Vec<Vec<u8>>;

fn any_shard() -> impl Strategy<Value = (Schema, Vec<Record>)> {
    prop::collection::vec(any_type(), 1..6).prop_flat_map(|types| {
        let record: Vec<_> = types.iter().map(any_value).collect();
        (Just(schema(types)), prop::collection::vec(record, 1..12))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_is_written_is_read(
        (schema, records) in any_shard(),
        zip in any::<bool>(),
        wanted in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        fields in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let file = build(&schema, &records, zip);
        prop_assert!(file == build(&schema, &records, zip), "the bytes depend on the records alone");
        let mut shard = open(file, &schema).unwrap();
        prop_assert_eq!(shard.differing().unwrap(), []);
        let all = read_all(&mut shard, schema.fields.len()).unwrap();
        for (found, given) in all.iter().zip(&records) {
            for ((ty, found), given) in found.iter().zip(given) {
                prop_assert!(ty.is_none() && found == given);
            }
        }
        let mut wanted: Vec<u32> = wanted.iter().map(|i| i.index(records.len()) as u32).collect();
        wanted.sort_unstable();
        let fields: Vec<usize> = fields.iter().map(|i| i.index(schema.fields.len())).collect();
        for (row, &r) in read(&mut shard, &wanted, &fields).unwrap().iter().zip(&wanted) {
            for ((_, found), &f) in row.iter().zip(&fields) {
                prop_assert_eq!(found, &records[r as usize][f]);
            }
        }
    }
}

#[test]
fn large_deflated_members_are_streamed_forward_and_back() {
    // 12 MiB of 64 KiB values, over what is inflated whole, beside a small member.
    let schema = schema([array("<i2", &[32 << 10]), FieldType::Int]);
    let records: Vec<Record> = (0..192).map(|i| vec![noise(i, 64 << 10), i.to_le_bytes().to_vec()]).collect();
    let file = build(&schema, &records, true);
    let mut shard = open(file.clone(), &schema).unwrap();
    for wanted in [&[0, 1, 7][..], &[7, 8, 100], &[3], &[191], &[0, 191], &[190, 190]] {
        for (row, &r) in read(&mut shard, wanted, &[1, 0]).unwrap().iter().zip(wanted) {
            let given = &records[r as usize];
            assert!(row[1].1 == given[0] && row[0].1 == given[1], "{wanted:?}: {r}");
        }
    }
    let all = read_all(&mut shard, 2).unwrap();
    assert!(all.iter().zip(&records).all(|(found, given)| found[0].1 == given[0] && found[1].1 == given[1]));

    // The checksum is wrong: known at the end of the stream, not before.
    let directory = file.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    let mut damaged = file.clone();
    damaged[directory + 16] ^= 1;
    let mut shard = open(damaged, &schema).unwrap();
    assert!(read(&mut shard, &[0, 190], &[0]).is_ok());
    let e = read(&mut shard, &[191], &[0]).unwrap_err();
    assert_eq!(e.kind(), Corrupt);
    assert!(e.to_string().starts_with("member 'f0.npy': the CRC-32 of its bytes is"), "{e}");
    // Deflated data that break off or go on.
    for (at, by) in [(20, -1000i32), (24, -64 * 1024), (24, 64 * 1024)] {
        let mut damaged = file.clone();
        let old = u32::from_le_bytes(damaged[directory + at..directory + at + 4].try_into().unwrap());
        damaged[directory + at..directory + at + 4].copy_from_slice(&old.wrapping_add_signed(by).to_le_bytes());
        let e = open(damaged, &schema).and_then(|mut shard| read_all(&mut shard, 2)).unwrap_err();
        assert_eq!(e.kind(), Corrupt, "{e}");
    }
}

#[test]
fn large_values_in_other_orders_come_out_the_same() {
    let (n, rows, columns) = (50usize, 60usize, 70usize);
    let value = |r: usize, i: usize, j: usize| (r * 5000 + i * 70 + j) as f32;
    let mut members = [Vec::new(), Vec::new()];
    for r in 0..n {
        for i in 0..rows {
            (0..columns).for_each(|j| members[0].extend_from_slice(&value(r, i, j).to_be_bytes()));
        }
    }
    for j in 0..columns {
        for i in 0..rows {
            (0..n).for_each(|r| members[1].extend_from_slice(&value(r, i, j).to_be_bytes()));
        }
    }
    let [big, fortran] = members.map(|data| member(">f4", &[n, rows, columns], &data));
    let at = fortran.windows(5).position(|w| w == b"False").unwrap();
    let mut fortran = fortran;
    fortran[at..at + 6].copy_from_slice(b"True, ");
    let schema = schema([array("<f4", &[rows, columns]), array("<f4", &[rows, columns])]);
    for zip in [false, true] {
        let file = zip_of(&[("f0.npy", big.clone()), ("f1.npy", fortran.clone())], zip);
        let mut shard = open(file, &schema).unwrap();
        assert_eq!(shard.differing().unwrap(), []);
        let wanted = [0, 3, 4, 5, 49];
        for (row, &r) in read(&mut shard, &wanted, &[1, 0]).unwrap().into_iter().zip(&wanted) {
            for (stored, found) in row {
                assert!(stored.is_none());
                for (k, bytes) in found.as_chunks::<4>().0.iter().enumerate() {
                    assert_eq!(f32::from_le_bytes(*bytes), value(r as usize, k / columns, k % columns), "record {r}");
                }
            }
        }
    }
}

/// Opens a shard, and gives how many reads and bytes `use_it` takes beyond those of opening.
fn reads(file: Vec<u8>, schema: &Schema, use_it: impl FnOnce(&mut ShardReader)) -> (usize, usize) {
    let src = Arc::new(Counting { bytes: file, reads: 0.into(), read: 0.into() });
    let mut shard = ShardReader::open(src.clone(), schema).unwrap();
    assert!(src.read.load(Relaxed) <= 40 << 10, "opening reads {} bytes", src.read.load(Relaxed));
    shard.records().unwrap();
    let before = (src.reads.load(Relaxed), src.read.load(Relaxed));
    use_it(&mut shard);
    (src.reads.load(Relaxed) - before.0, src.read.load(Relaxed) - before.1)
}

#[test]
fn only_what_is_asked_for_is_read() {
    let schema = schema([array("<f4", &[10_000]), FieldType::Int, array("|u1", &[100])]);
    let record = |i: u64| vec![noise(i, 40_000), i.to_le_bytes().to_vec(), noise(i, 100)];
    let records: Vec<Record> = (0..1000).map(record).collect();
    let file = build(&schema, &records, false);
    let get = |wanted: &[u32], fields: &[usize]| {
        reads(file.clone(), &schema, |shard| {
            let found = read(shard, wanted, fields).unwrap();
            for (row, &r) in found.iter().zip(wanted) {
                for ((_, found), &f) in row.iter().zip(fields) {
                    assert!(found == &records[r as usize][f]);
                }
            }
        })
    };
    // Large values: one read each, to their place.
    assert_eq!(get(&[5, 6, 999], &[0]), (3, 3 * 40_000));
    // Small ones: one read for neighbours, another where a long gap is between.
    let all: Vec<u32> = (0..1000).collect();
    assert_eq!(get(&all, &[1]), (1, 8_000));
    assert_eq!(get(&[0, 2, 4, 900], &[1]), (2, 5 * 8 + 8));
    assert_eq!(get(&[10, 30], &[2]), (1, 21 * 100));
    // A small shard is in memory once it is open.
    let tiny = Schema { fields: schema.fields[1..].to_vec() };
    let records: Vec<Record> = records.iter().take(100).map(|r| r[1..].to_vec()).collect();
    assert_eq!(reads(build(&tiny, &records, false), &tiny, |shard| drop(read_all(shard, 2).unwrap())), (0, 0));
}

/// A shard of over 4 GiB, of which all but the pieces around the zeros is in memory.
struct Sparse {
    head: Vec<u8>,
    tail: Vec<u8>,
    zeros: u64,
}

impl ReadAt for Sparse {
    fn size(&self) -> u64 {
        self.head.len() as u64 + self.zeros + self.tail.len() as u64
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> sigbank_format::Result<()> {
        let (head, after) = (self.head.len() as u64, self.head.len() as u64 + self.zeros);
        for (i, b) in buf.iter_mut().enumerate() {
            let at = offset + i as u64;
            *b = match at {
                _ if at < head => self.head[at as usize],
                _ if at < after => 0,
                _ => *self.tail.get((at - after) as usize).ok_or_else(|| sigbank_format::FormatError::corrupt("end"))?,
            };
        }
        Ok(())
    }
}

#[test]
fn members_over_4_gib_are_read_by_range() {
    // Made from a small shard by giving its first member more zeros.
    let schema = schema([array("|i1", &[1 << 20]), FieldType::Int]);
    let records: Vec<Record> = (0..2).map(|i: u64| vec![vec![0; 1 << 20], i.to_le_bytes().to_vec()]).collect();
    let whole = build(&schema, &records, false);
    let second = whole.windows(6).position(|w| w == b"f1.npy").unwrap() - 30;
    let directory = whole.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap() - 46 - 6;
    assert_eq!(&whole[directory..directory + 4], b"PK\x01\x02");
    let rows = 5000u64;
    let size = 128 + (rows << 20);
    let mut head = whole[..second - (2 << 20)].to_vec();
    head[36 + 4..][..16].copy_from_slice(&[size.to_le_bytes(), size.to_le_bytes()].concat());
    let at = head.windows(9).position(|w| w == b"(2, 10485").unwrap();
    head.splice(at..at + 2, *b"(5000").for_each(drop);
    let end = head.iter().rposition(|&b| b == b'\n').unwrap();
    head.drain(end - 3..end);
    let members = [("f0.npy", size, 0u64), ("f1.npy", 128 + 16, head.len() as u64 + (rows << 20))];
    let mut tail = whole[second..directory].to_vec();
    let start = members[1].2 + tail.len() as u64;
    let from = tail.len();
    for (name, size, at) in members {
        tail.extend_from_slice(b"PK\x01\x02\x2d\x03\x2d\x00\x00\x00\x00\x00\x00\x00\x21\x00\x00\x00\x00\x00");
        tail.extend_from_slice(&[0xff; 8]);
        tail.extend_from_slice(&[6, 0, 28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        tail.extend_from_slice(name.as_bytes());
        tail.extend_from_slice(&[1, 0, 24, 0]);
        tail.extend_from_slice(&[size.to_le_bytes(), size.to_le_bytes(), at.to_le_bytes()].concat());
    }
    let len = (tail.len() - from) as u64;
    tail.extend_from_slice(b"PK\x06\x06\x2c\0\0\0\0\0\0\0\x2d\0\x2d\0\0\0\0\0\0\0\0\0");
    tail.extend_from_slice(&[2u64, 2, len, start].map(u64::to_le_bytes).concat());
    tail.extend_from_slice(b"PK\x06\x07\0\0\0\0");
    tail.extend_from_slice(&(start + len).to_le_bytes());
    tail.extend_from_slice(b"\x01\0\0\0PK\x05\x06\0\0\0\0\x02\0\x02\0");
    tail.extend_from_slice(&[0xff; 8]);
    tail.extend_from_slice(&[0, 0]);
    let mut shard = ShardReader::open(Arc::new(Sparse { head, tail, zeros: rows << 20 }), &schema).unwrap();
    let mut out = Collected::new(1, 1);
    shard.read(&[4999], &[0], &mut out).unwrap();
    assert!(out.values()[0][0].1 == vec![0; 1 << 20]);
    let e = shard.records().unwrap_err();
    assert!(e.to_string().contains("'f0.npy' holds 5000 records, 'f1.npy' 2"), "{e}");
}

#[test]
fn a_value_that_is_refused_leaves_the_shard_as_it_was() {
    let schema = schema([array("<i2", &[2]), FieldType::Int, FieldType::Str, FieldType::Bytes { len: Some(1) }]);
    let good: Record = vec![vec![1, 2, 3, 4], vec![0; 8], b"a".to_vec(), vec![7]];
    let mut builder = ShardBuilder::new(&schema).unwrap();
    let push =
        |builder: &mut ShardBuilder, record: &[Vec<u8>]| builder.push(&record.iter().map(Vec::as_slice).collect::<Vec<_>>());
    push(&mut builder, &good).unwrap();
    let bad = [
        (0, &b"123"[..], "attribute 'f0': int16[2] takes 4 bytes, 3 are given"),
        (1, b"1234", "attribute 'f1': int takes 8 bytes, 4 are given"),
        (2, b"ab\0", "attribute 'f2': the text ends in a NUL character"),
        (2, b"\xed\xa0\x80", "attribute 'f2': the text is not UTF-8"),
        (3, b"", "attribute 'f3': bytes[1] takes 1 bytes, 0 are given"),
    ];
    for (at, value, says) in bad {
        let mut record = good.clone();
        record[at] = value.to_vec();
        let e = push(&mut builder, &record).unwrap_err();
        assert_eq!(e.kind(), Invalid);
        assert!(e.to_string().starts_with(says), "{e}");
    }
    assert_eq!(push(&mut builder, &good[1..]).unwrap_err().kind(), Invalid);
    assert_eq!((builder.len(), builder.is_empty()), (1, false));
    let once = build(&schema, std::slice::from_ref(&good), false);
    assert!(builder.finish(false).unwrap().concat() == once);
    // Finishing can be repeated, either way, and pushing goes on.
    let deflated = builder.finish(true).unwrap().concat();
    assert!(deflated == build(&schema, std::slice::from_ref(&good), true));
    push(&mut builder, &good).unwrap();
    assert!(builder.finish(false).unwrap().concat() == build(&schema, &[good.clone(), good.clone()], false));
    // A cleared builder is as new, with its memory.
    let memory = builder.memory();
    builder.clear();
    assert_eq!((builder.len(), builder.is_empty(), builder.memory()), (0, true, memory));
    push(&mut builder, &good).unwrap();
    assert!(builder.finish(false).unwrap().concat() == once);
}

#[test]
fn names_that_would_not_come_back_are_refused() {
    let refused = |names: &[&str]| {
        let schema = Schema { fields: names.iter().map(|n| field(n, FieldType::Bytes { len: None })).collect() };
        let e = ShardBuilder::new(&schema).err()?;
        assert_eq!(e.kind(), Invalid);
        Some(e.to_string())
    };
    assert_eq!(refused(&["a", "b", "a"]).unwrap(), "two attributes are called 'a'");
    assert_eq!(refused(&["a\0b"]).unwrap(), "attribute \"a\\0b\": npz cannot hold a name with a NUL character");
    assert!(refused(&["x", "x.npy"]).unwrap().starts_with("attribute 'x.npy': npz cannot hold it beside 'x'"));
    // The member with the offsets has twice as long a name; one of 70,000 characters is more than a format's width can be.
    for (long, whose) in [(40_000, "'yyyy"), (70_000, "'x': its member")] {
        let said = refused(&["x", &"y".repeat(long)]).unwrap();
        assert!(said.starts_with(&format!("attribute {whose}")) && said.len() < 300, "{said}");
        assert!(said.contains("bytes, and zip can hold 65535: shorten"), "{said}");
        let schema = Schema { fields: vec![field(&"y".repeat(long), FieldType::Bytes { len: None })] };
        assert_eq!(open(zip_of(&[], false), &schema).err().unwrap().kind(), sigbank_format::error::FormatErrorKind::Corrupt);
    }
    for fine in [&["x.npy"][..], &["", "len"], &["a/b", "../c", "é"], &["file", "allow_pickle"], &["y", "len_y"]] {
        assert_eq!(refused(fine), None, "{fine:?}");
    }
}

#[test]
fn a_shard_that_becomes_large_is_closed_before() {
    let mut builder = ShardBuilder::new(&schema([FieldType::Str, FieldType::Int])).unwrap();
    assert!(builder.fits(usize::MAX), "the first always fits");
    for _ in 0..1000 {
        builder.push(&[b"short", &[0; 8]]).unwrap();
    }
    assert!(builder.fits(1 << 20) && builder.fits_values(&[b"short", &[0; 8]]));
    assert!(!builder.fits(MAX_NPZ_SHARD as usize));
    // 1001 texts as wide as this one are over 4 GiB.
    let long = vec![b'a'; 1_100_000];
    assert!(!builder.fits_values(&[&long, &[0; 8]]));
    assert_eq!(builder.push(&[&long, &[0; 8]]).unwrap_err().kind(), Limit);
    assert_eq!(builder.len(), 1000);
    builder.clear();
    builder.push(&[&long, &[0; 8]]).unwrap();
    assert_eq!(builder.len(), 1);
}
