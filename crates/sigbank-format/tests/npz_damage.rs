//! npz shards that are cut, damaged or forged.
#![cfg(feature = "npz")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod npz_support;

use npz_support::{array, build, field, member, open, read, read_all, zip_of};
use sigbank_format::error::FormatErrorKind::{self, Corrupt, Invalid, Unsupported};
use sigbank_format::model::{FieldType, Schema};

fn schema() -> Schema {
    Schema {
        fields: vec![
            field("trace", array("<i2", &[3])),
            field("n", FieldType::Int),
            field("text", FieldType::Str),
            field("blob", FieldType::Bytes { len: None }),
            field("key", FieldType::Bytes { len: Some(2) }),
        ],
    }
}

fn records() -> Vec<Vec<Vec<u8>>> {
    let record = |i: u8| {
        let text = "é".repeat(i.into());
        vec![vec![i; 6], i64::from(i).to_le_bytes().to_vec(), text.into_bytes(), vec![i; usize::from(i) * 3], vec![i, !i]]
    };
    (0..4).map(record).collect()
}

/// Every value, or that something is wrong.
fn everything(file: Vec<u8>, schema: &Schema) -> Option<Vec<Vec<Vec<u8>>>> {
    let mut shard = open(file, schema).ok()?;
    let found = read_all(&mut shard, schema.fields.len()).ok()?;
    Some(found.into_iter().map(|r| r.into_iter().map(|v| v.1).collect()).collect())
}

#[test]
fn a_shard_cut_anywhere_is_refused() {
    for zip in [false, true] {
        let whole = build(&schema(), &records(), zip);
        assert_eq!(everything(whole.clone(), &schema()), Some(records()));
        for len in 0..whole.len() {
            let Err(e) = open(whole[..len].to_vec(), &schema()) else { panic!("{len} of {} bytes open", whole.len()) };
            assert_eq!(e.kind(), Corrupt, "{len}: {e}");
        }
    }
}

#[test]
fn no_flipped_bit_gives_other_values() {
    for zip in [false, true] {
        let whole = build(&schema(), &records(), zip);
        let (mut refused, mut harmless) = (0, 0);
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            match everything(damaged, &schema()) {
                None => refused += 1,
                Some(found) => {
                    assert_eq!(found, records(), "zip {zip}: byte {}, bit {}", bit / 8, bit % 8);
                    harmless += 1;
                }
            }
        }
        // What is harmless lies in the zip headers: times, versions, names and sizes that stand twice.
        assert!(refused > harmless, "zip {zip}: {refused} refused, {harmless} harmless");
    }
}

/// What reading all of a forged archive says.
fn refusal(members: &[(&str, Vec<u8>)], fields: Vec<npz_support::Named>, kind: FormatErrorKind, says: &str) {
    for zip in [false, true] {
        let fields: Vec<_> = fields.iter().map(|(name, ty)| field(name, ty.clone())).collect();
        let schema = Schema { fields };
        let found = open(zip_of(members, zip), &schema).and_then(|mut shard| read_all(&mut shard, schema.fields.len()));
        let Err(e) = found else { panic!("{says}: read as {found:?}") };
        assert_eq!(e.kind(), kind, "{e}");
        assert!(e.to_string().contains(says), "'{e}' does not say '{says}'");
    }
}

fn ints(values: &[i64]) -> Vec<u8> {
    let bytes: Vec<u8> = values.iter().flat_map(|n| n.to_le_bytes()).collect();
    member("<i8", &[values.len()], &bytes)
}

#[test]
fn forged_offsets_are_refused() {
    let blob = || vec![("b", FieldType::Bytes { len: None })];
    let data = member("|u1", &[1, 5], b"abcde");
    let shard = |offsets: &[i64]| [("b.npy", data.clone()), ("len_b.npy", ints(offsets))];
    refusal(&shard(&[0, 3, 2, 5]), blob(), Corrupt, "member 'len_b.npy': offset 2 is 2, where 3 to 5 is expected");
    refusal(&shard(&[1, 5]), blob(), Corrupt, "offset 0 is 1, where 0 to 5");
    refusal(&shard(&[0, 6]), blob(), Corrupt, "offset 1 is 6, where 0 to 5");
    refusal(&shard(&[0, -1, 5]), blob(), Corrupt, "offset 1 is -1");
    refusal(&shard(&[0, i64::MAX]), blob(), Corrupt, "offset 1 is 9223372036854775807");
    refusal(&shard(&[0, 4]), blob(), Corrupt, "the offsets end at 4, but member 'b.npy' holds 5 bytes");
    refusal(&shard(&[]), blob(), Corrupt, "no offsets");
    let floats = member("<f8", &[2], &[0; 16]);
    refusal(&[("b.npy", data.clone()), ("len_b.npy", floats)], blob(), Corrupt, "integers along one axis, not float64");
    let table = member("<i8", &[1, 2], &[0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    refusal(&[("b.npy", data.clone()), ("len_b.npy", table)], blob(), Corrupt, "one axis, not int64 of shape [1, 2]");
    let wide = member("<i2", &[1, 5], &[0; 10]);
    refusal(&[("b.npy", wide), ("len_b.npy", ints(&[0, 5]))], blob(), Corrupt, "uint8 of shape (1, total), not int16");
    refusal(&[("b.npy", data.clone())], blob(), Corrupt, "lacks the member 'len_b.npy'; its arrays are 'b'");
    let fixed = vec![("b", FieldType::Bytes { len: Some(3) })];
    refusal(&shard(&[0, 3, 5]), fixed, Corrupt, "member 'b.npy', record 1: not the 3 bytes that are declared");
}

#[test]
fn members_that_do_not_belong_together_are_named() {
    let two = [("a", FieldType::Int), ("b", FieldType::Bytes { len: None })];
    let members = [("a.npy", ints(&[1, 2, 3])), ("b.npy", member("|u1", &[1, 0], b"")), ("len_b.npy", ints(&[0, 0, 0]))];
    refusal(&members, two.to_vec(), Corrupt, "'a.npy' holds 3 records, 'b.npy' 2");
    // Without counting, what is asked for decides.
    let schema = Schema { fields: two.iter().map(|(n, ty)| field(n, ty.clone())).collect() };
    let mut shard = open(zip_of(&members, false), &schema).unwrap();
    assert_eq!(read(&mut shard, &[2], &[0]).unwrap(), [[(None, 3i64.to_le_bytes().to_vec())]]);
    let e = read(&mut shard, &[1, 2], &[0, 1]).unwrap_err();
    assert_eq!((e.kind(), e.to_string().as_str()), (Invalid, "record 2 is asked for, but member 'b.npy' holds 2"));
    let e = read(&mut shard, &[1, 0], &[0]).unwrap_err();
    assert_eq!((e.kind(), e.to_string().as_str()), (Invalid, "records are read in their order, but 0 is asked for after 1"));
    assert_eq!(read(&mut shard, &[0], &[2]).unwrap_err().kind(), Invalid);
}

#[test]
fn members_of_wrong_content_are_refused() {
    let one = |ty: FieldType| vec![("a", ty)];
    let shard = |bytes: Vec<u8>| [("a.npy", bytes)];
    refusal(&[("b.npy", ints(&[1]))], one(FieldType::Int), Corrupt, "lacks the member 'a.npy'; its arrays are 'b'");
    refusal(&shard(member("|O", &[1], b"\x80\x04.")), one(FieldType::Str), Unsupported, "member 'a.npy': an object array");
    refusal(&shard(member("<i8", &[], &[0; 8])), one(FieldType::Int), Corrupt, "member 'a.npy': a scalar");
    refusal(&shard(b"not npy".to_vec()), one(FieldType::Int), Corrupt, "member 'a.npy': this is no npy file");
    refusal(&shard(Vec::new()), one(FieldType::Int), Corrupt, "member 'a.npy'");
    let mut longer = ints(&[1]);
    longer.push(0);
    refusal(&shard(longer), one(FieldType::Int), Corrupt, "member 'a.npy': 1 bytes after the end of its array");
    // A count that the bytes do not bear out is refused before memory is taken.
    refusal(&shard(member("<i8", &[1 << 34], &[0; 16])), one(FieldType::Int), Corrupt, "it was cut short");
    refusal(&shard(member("<i8", &[1 << 60, 9], &[0; 16])), one(FieldType::Int), FormatErrorKind::Limit, "takes more than");
    let text = |units: &[u32]| {
        let bytes: Vec<u8> = units.iter().flat_map(|n| n.to_le_bytes()).collect();
        member("<U2", &[units.len() / 2], &bytes)
    };
    refusal(
        &shard(text(&[97, 0, 0xd800, 98])),
        one(FieldType::Str),
        Corrupt,
        "member 'a.npy', record 1: 0xd800 is no character's",
    );
    refusal(&shard(text(&[0x11_0000, 0])), one(FieldType::Str), Corrupt, "member 'a.npy', record 0: 0x110000");
}

#[test]
fn values_of_another_type_are_handed_over_with_it() {
    let given = |stored: Vec<u8>, declared: FieldType| {
        let schema = Schema { fields: vec![field("a", declared)] };
        let mut shard = open(zip_of(&[("a.npy", stored)], false), &schema).unwrap();
        let values = read_all(&mut shard, 1).unwrap().concat();
        (values, shard.differing().unwrap())
    };
    let float = member("<f8", &[2], &[1.5f64.to_le_bytes(), 2f64.to_le_bytes()].concat());
    let ty = array("<f8", &[]);
    let values = [1.5f64, 2.0].map(|x| (Some(ty.clone()), x.to_le_bytes().to_vec()));
    assert_eq!(given(float.clone(), FieldType::Int), (values.to_vec(), vec![(0, ty.clone())]));
    assert_eq!(given(float, array("<f4", &[])), (values.to_vec(), vec![(0, ty)]));
    // Integers of other widths are ints where they fit.
    let large = member(">u8", &[2], &[5u64.to_be_bytes(), u64::MAX.to_be_bytes()].concat());
    let ty = array("<u8", &[]);
    let values = vec![(None, 5i64.to_le_bytes().to_vec()), (Some(ty.clone()), vec![0xff; 8])];
    assert_eq!(given(large, FieldType::Int), (values, vec![(0, ty)]));
    let small = member(">i2", &[2], &[0xff, 0xfe, 0x01, 0x00]);
    let values = [-2i64, 256].map(|n| (None, n.to_le_bytes().to_vec()));
    assert_eq!(given(small, FieldType::Int), (values.to_vec(), vec![]));
    // Bytes of a width are no text.
    let ty = array("|S2", &[]);
    assert_eq!(given(member("|S2", &[1], b"ab"), FieldType::Str), (vec![(Some(ty.clone()), b"ab".to_vec())], vec![(0, ty)]));
    let ty = array("<i2", &[2, 1]);
    let values = vec![(Some(ty.clone()), vec![1, 0, 2, 0])];
    assert_eq!(given(member("<i2", &[1, 2, 1], &[1, 0, 2, 0]), array("<i2", &[2])), (values, vec![(0, ty)]));
}

#[test]
fn two_members_of_one_name_are_refused() {
    let mut file = zip_of(&[("a.npy", ints(&[1])), ("b.npy", ints(&[2]))], false);
    for at in 0..file.len() - 5 {
        if &file[at..at + 5] == b"b.npy" {
            file[at] = b'a';
        }
    }
    let schema = Schema { fields: vec![field("a", FieldType::Int)] };
    let Err(e) = open(file, &schema) else { panic!("opened") };
    assert_eq!(e.kind(), Corrupt);
    assert!(e.to_string().contains("more than one member 'a.npy'"), "{e}");
}

#[test]
fn forged_sizes_are_refused_before_memory_is_taken() {
    // 40 bytes of deflate that declare 8 MiB, 1 GiB and more than anything: at most what they can become is taken.
    let schema = Schema { fields: vec![field("a", FieldType::Int)] };
    let good = zip_of(&[("a.npy", ints(&[1, 2, 3]))], true);
    let directory = good.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    for size in [151u32, 153, 100_000, 8 << 20, 1 << 30, u32::MAX - 1] {
        let mut file = good.clone();
        file[directory + 24..directory + 28].copy_from_slice(&size.to_le_bytes());
        let found = open(file, &schema).and_then(|mut shard| read_all(&mut shard, 1));
        assert_eq!(found.unwrap_err().kind(), Corrupt, "{size}");
    }
    let good = zip_of(&[("a.npy", ints(&[1, 2, 3]))], false);
    let directory = good.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    for (at, size) in [(20, 151u32), (24, 151), (20, u32::MAX - 1), (24, u32::MAX - 1), (42, 7), (42, u32::MAX - 1)] {
        let mut file = good.clone();
        file[directory + at..directory + at + 4].copy_from_slice(&size.to_le_bytes());
        let found = open(file, &schema).and_then(|mut shard| read_all(&mut shard, 1));
        assert_eq!(found.unwrap_err().kind(), Corrupt, "{at}: {size}");
    }
}

#[test]
fn a_checksum_is_compared_whatever_was_read_before() {
    // Of 3000 values one is other than the checksum says; a part that is without it is read, which the checksum of the whole is not.
    let schema = Schema { fields: vec![field("a", array("<i4", &[100])), field("b", FieldType::Int)] };
    let record = |i: u32| vec![i.to_le_bytes().repeat(100), i64::from(i).to_le_bytes().to_vec()];
    let records: Vec<_> = (0..3000).map(record).collect();
    let whole = build(&schema, &records, false);
    let mut damaged = whole.clone();
    let at = whole.windows(8).position(|w| w == [2000u32.to_le_bytes(); 2].concat()).unwrap();
    damaged[at] ^= 1;
    for read_first in [&[][..], &[0], &[0, 1, 2], &[7, 2500], &[2999]] {
        let mut shard = open(damaged.clone(), &schema).unwrap();
        read(&mut shard, read_first, &[0, 1]).unwrap();
        shard.verify(&[1]).unwrap();
        let e = shard.verify(&[0]).unwrap_err();
        assert_eq!(e.kind(), Corrupt);
        assert!(e.to_string().starts_with("member 'a.npy': the CRC-32"), "{e}");
        // And it is not forgotten.
        assert!(read(&mut shard, &[0], &[0]).is_err() && shard.verify(&[0, 1]).is_err() && shard.check().is_err());
    }
    let source = std::sync::Arc::new(npz_support::Counting { bytes: whole, reads: 0.into(), read: 0.into() });
    let read_bytes = || source.read.load(std::sync::atomic::Ordering::Relaxed);
    let mut shard = sigbank_format::container::npz::ShardReader::open(source.clone(), &schema).unwrap();
    let first: Vec<u32> = (0..2000).collect();
    read(&mut shard, &first, &[0]).unwrap();
    let before = read_bytes();
    shard.verify(&[0]).unwrap();
    assert_eq!(read_bytes() - before, 1000 * 400, "what was read in order is not read again");
    shard.verify(&[0]).unwrap();
    shard.check().unwrap();
    assert!(read_bytes() - before < 1000 * 400 + 3000 * 8 + 10_000, "nor what was verified");
}

#[test]
fn a_large_deflated_member_and_one_in_fortran_order_are_verified_too() {
    // Too large to be inflated at once, so a few records are given before the end is seen.
    let schema = Schema { fields: vec![field("a", array("<i4", &[1 << 20]))] };
    let records: Vec<_> = (0..3u32).map(|i| vec![i.to_le_bytes().repeat(1 << 20)]).collect();
    let mut file = build(&schema, &records, true);
    let mut shard = open(file.clone(), &schema).unwrap();
    shard.check().unwrap();
    // The checksum in the directory, which is the one that counts.
    let directory = file.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    file[directory + 16] ^= 1;
    let mut shard = open(file, &schema).unwrap();
    assert_eq!(read(&mut shard, &[1], &[0]).unwrap()[0][0].1, records[1][0]);
    assert_eq!(shard.verify(&[0]).unwrap_err().kind(), Corrupt);
    assert_eq!(shard.check().unwrap_err().kind(), Corrupt);

    let mut fortran = member("<i2", &[2, 2], &[1, 0, 3, 0, 2, 0, 4, 0]);
    let word = fortran.windows(5).position(|w| w == b"False").unwrap();
    fortran[word..word + 5].copy_from_slice(b"True ");
    let schema = Schema { fields: vec![field("a", array("<i2", &[2]))] };
    let mut file = zip_of(&[("a.npy", fortran)], false);
    let values = |file: &[u8]| read_all(&mut open(file.to_vec(), &schema).unwrap(), 1).unwrap();
    assert_eq!(values(&file), [[(None, vec![1, 0, 2, 0])], [(None, vec![3, 0, 4, 0])]]);
    open(file.clone(), &schema).unwrap().check().unwrap();
    let at = file.windows(4).position(|w| w == [1, 0, 3, 0]).unwrap();
    file[at] = 9;
    assert!(open(file, &schema).unwrap().check().unwrap_err().to_string().contains("member 'a.npy': the CRC-32"));
}

#[test]
fn a_check_finds_what_reading_would() {
    let text = |units: &[u32]| member("<U2", &[units.len() / 2], &units.iter().flat_map(|u| u.to_le_bytes()).collect::<Vec<_>>());
    let schema = Schema { fields: vec![field("a", FieldType::Str)] };
    for zip in [false, true] {
        let checked = |units: &[u32]| open(zip_of(&[("a.npy", text(units))], zip), &schema).unwrap().check();
        checked(&[0x61, 0, 0xe9, 0x1f600]).unwrap();
        let e = checked(&[0x61, 0, 0x61, 0xdc80]).unwrap_err();
        assert_eq!(e.kind(), Corrupt);
        assert!(e.to_string().starts_with("member 'a.npy', record 1: 0xdc80 is no character"), "{e}");
        // Past the rows that are gone through at once.
        let mut many = vec![0x61; 10_000];
        many[9_999] = 0xd800;
        assert!(checked(&many).unwrap_err().to_string().contains("record 4999: 0xd800"));
    }
    // Everything: no flipped bit that a check misses gives other values, or none.
    let whole = build(&self::schema(), &records(), false);
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let checked = open(damaged.clone(), &self::schema()).and_then(|mut shard| shard.check()).is_ok();
        assert_eq!(checked, everything(damaged, &self::schema()).is_some(), "byte {}, bit {}", bit / 8, bit % 8);
    }
}
