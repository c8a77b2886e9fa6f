use proptest::prelude::*;

use super::wire::{Fields, put_varint, varint, varint_len};
use super::*;
use crate::error::FormatErrorKind;
use crate::model::Field;

#[derive(Default)]
struct Values(Vec<Vec<u8>>);

impl Places for Values {
    fn place(&mut self, _row: usize, field: usize, len: usize) -> Result<&mut [u8]> {
        assert_eq!(field, self.0.len());
        self.0.push(vec![0xaa; len]);
        Ok(self.0.last_mut().unwrap())
    }
}

fn array(dtype: &str, shape: &[usize]) -> FieldType {
    FieldType::Array { dtype: dtype.parse().unwrap(), shape: shape.to_vec() }
}

fn schema(types: &[FieldType]) -> Schema {
    let field = |(i, ty): (usize, &FieldType)| Field { name: format!("f{i}"), ty: ty.clone(), metadata: Default::default() };
    Schema { fields: types.iter().enumerate().map(field).collect() }
}

fn codec(types: &[FieldType]) -> Codec {
    Codec::new(&schema(types)).unwrap()
}

fn decode(codec: &Codec, record: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut values = Values::default();
    let all: Vec<usize> = (0..codec.attributes.len()).collect();
    codec.decode(record, 0, &all, &mut values)?;
    Ok(values.0)
}

/// A field with its length before it.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    put_varint(content.len() as u64, &mut out);
    out.extend_from_slice(content);
    out
}

/// A record of one attribute "f0", by its Feature's bytes.
fn record(feature: &[u8]) -> Vec<u8> {
    field(1, &field(1, &[field(1, b"f0"), field(2, feature)].concat()))
}

/// What an attribute reads from a Feature.
fn one(ty: FieldType, feature: &[u8]) -> Result<Vec<u8>> {
    Ok(decode(&codec(&[ty]), &record(feature))?.remove(0))
}

fn refused(ty: FieldType, feature: &[u8], words: &str) {
    let e = one(ty.clone(), feature).unwrap_err();
    assert_eq!(e.kind(), FormatErrorKind::Corrupt, "{e}");
    assert!(e.to_string().starts_with("attribute 'f0': "), "{e}");
    assert!(e.to_string().contains(words), "{ty}: {e}");
}

fn ints(values: &[i64]) -> Vec<u8> {
    let mut packed = Vec::new();
    values.iter().for_each(|v| put_varint(*v as u64, &mut packed));
    field(3, &field(1, &packed))
}

#[test]
fn numbers_out_of_range_are_refused() {
    for (dtype, min, max) in [
        ("int8", -128, 127),
        ("uint8", 0, 255),
        ("int16", -32768, 32767),
        ("uint16", 0, 65535),
        ("int32", i64::from(i32::MIN), i64::from(i32::MAX)),
        ("uint32", 0, i64::from(u32::MAX)),
        ("uint64", 0, i64::MAX),
        ("int64", i64::MIN, i64::MAX),
    ] {
        let ty = || array(dtype, &[2]);
        let width = ty().fixed_len().unwrap().unwrap() / 2;
        let wanted: Vec<u8> = [min, max].iter().flat_map(|v| v.to_le_bytes()[..width].to_vec()).collect();
        assert_eq!(one(ty(), &ints(&[min, max])).unwrap(), wanted, "{dtype}");
        if let (Some(below), Some(above)) = (min.checked_sub(1), max.checked_add(1)) {
            refused(ty(), &ints(&[min, above]), &format!("{above} is stored, which is not within {min} to {max}"));
            refused(ty(), &ints(&[below, max]), &format!("{below} is stored"));
        }
        refused(ty(), &ints(&[1]), "1 elements are stored, 2 are expected");
        refused(ty(), &ints(&[]), "0 elements are stored, 2 are expected");
        refused(ty(), &ints(&[1, 2, 3]), "more elements are stored than the 2 expected");
    }
}

#[test]
fn small_numbers_in_other_forms() {
    let ty = || array("uint8", &[3]);
    let packed = |bytes: &[u8]| field(3, &field(1, bytes));
    assert_eq!(one(ty(), &packed(&[200, 1, 5, 128, 1])).unwrap(), [200, 5, 128]);
    // 200 with a needless zero group, 5 with two.
    assert_eq!(one(ty(), &packed(&[200, 0x81, 0, 0x85, 0x80, 0, 7])).unwrap(), [200, 5, 7]);
    // 5 in two bytes: as long as two of three numbers.
    assert_eq!(one(ty(), &packed(&[0x85, 0, 7, 200, 1])).unwrap(), [5, 7, 200]);
    // 456 in two bytes.
    refused(ty(), &packed(&[200, 3, 5, 7]), "456 is stored");
    refused(ty(), &packed(&[1, 2, 3, 200]), "ends inside a number");
    refused(ty(), &packed(&[1, 200, 1, 200]), "ends inside a number");
    refused(ty(), &packed(&[1, 200, 1]), "2 elements are stored, 3 are expected");
    refused(array("int64", &[1]), &packed(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), "more than 64 bits");
    refused(array("int64", &[1]), &packed(&[&[0x80; 12][..], &[1]].concat()), "more than 64 bits");
    // In two packed pieces with single ones between.
    let mixed = [field(1, &[1, 128, 1]), vec![8, 0xac, 2], field(1, &[4])].concat();
    assert_eq!(one(array("int16", &[4]), &field(3, &mixed)).unwrap(), [1, 0, 128, 0, 0x2c, 1, 4, 0]);
    assert_eq!(one(ty(), &field(3, &[field(1, &[1, 128, 1]), vec![8, 9]].concat())).unwrap(), [1, 128, 9]);
}

#[test]
fn floats() {
    let values = [1.5f32, f32::NAN, -0.0];
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let feature = field(2, &field(1, &bytes));
    assert_eq!(one(array("float32", &[3]), &feature).unwrap(), bytes);
    let wide = one(array("float64", &[3]), &feature).unwrap();
    assert_eq!(wide[..8], 1.5f64.to_le_bytes());
    assert_eq!(wide[16..], (-0.0f64).to_le_bytes());
    refused(array("float32", &[2]), &feature, "more elements");
    refused(array("float32", &[4]), &feature, "3 elements are stored, 4 are expected");
    refused(array("float32", &[3]), &field(2, &field(1, &bytes[..11])), "no multiple of 4");
    let mixed = [&[0x0d][..], &bytes[..4], &field(1, &bytes[4..])].concat();
    assert_eq!(one(array("float32", &[3]), &field(2, &mixed)).unwrap(), bytes);
}

#[test]
fn halves() {
    let ty = || array("float16", &[2, 1]);
    let tensor = |bytes: &[u8]| field(1, &field(1, bytes));
    let dim = |n: u8| field(2, &[8, n]);
    let shape = field(2, &[dim(2), dim(1)].concat());
    let content = field(4, &[1, 2, 3, 4]);
    let with = |parts: &[&[u8]]| tensor(&parts.concat());
    assert_eq!(one(ty(), &with(&[&[8, 19], &shape, &content])).unwrap(), [1, 2, 3, 4]);
    assert_eq!(one(ty(), &with(&[&[8, 19], &content])).unwrap(), [1, 2, 3, 4]);
    // Another shape of as many elements.
    assert_eq!(one(ty(), &with(&[&[8, 19], &field(2, &dim(2)), &content])).unwrap(), [1, 2, 3, 4]);
    assert_eq!(one(array("float16", &[]), &with(&[&[8, 19], &field(2, &[]), &field(4, &[1, 2])])).unwrap(), [1, 2]);
    // Elements one by one: packed, not packed, repeated.
    let half = field(13, &[1, 0x80, 2]);
    assert_eq!(one(ty(), &with(&[&[8, 19], &half])).unwrap(), [1, 0, 0, 1]);
    assert_eq!(one(ty(), &with(&[&[8, 19], &shape, &[13 << 3, 7, 13 << 3, 8]])).unwrap(), [7, 0, 8, 0]);
    assert_eq!(one(ty(), &with(&[&[8, 19], &shape, &[13 << 3, 7]])).unwrap(), [7, 0, 7, 0]);
    refused(ty(), &with(&[&[8, 19], &[13 << 3, 7]]), "1 elements are stored, 2 are expected");
    refused(ty(), &with(&[&[8, 19], &shape, &field(13, &[1, 2, 3])]), "3 elements are stored");
    refused(ty(), &with(&[&[8, 19], &shape, &field(13, &[0xff, 0xff, 4])]), "which has 16 bits");
    refused(ty(), &with(&[&[8, 1], &shape, &content]), "a tensor of type 1");
    refused(ty(), &with(&[&shape, &content]), "a tensor of type 0");
    refused(ty(), &with(&[&[8, 19], &field(2, &dim(3)), &content]), "a tensor of 3 elements");
    refused(ty(), &with(&[&[8, 19], &shape, &field(4, &[1, 2])]), "a tensor of 2 bytes");
    refused(ty(), &with(&[&[8, 19], &shape]), "a tensor of 0 bytes");
    let huge: Vec<u8> = (0..10).flat_map(|_| field(2, &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f])).collect();
    refused(ty(), &with(&[&[8, 19], &field(2, &huge), &content]), "a tensor of more elements");
}

#[test]
fn byte_strings() {
    let bytes = || FieldType::Bytes { len: None };
    let list = |values: &[&[u8]]| field(1, &values.iter().flat_map(|v| field(1, v)).collect::<Vec<_>>());
    assert_eq!(one(bytes(), &list(&[b""])).unwrap(), b"");
    assert_eq!(one(FieldType::Str, &list(&["é\0".as_bytes()])).unwrap(), "é\0".as_bytes());
    refused(FieldType::Str, &list(&[b"\xff"]), "not UTF-8");
    refused(bytes(), &list(&[]), "0 byte strings are stored, one is expected");
    refused(bytes(), &list(&[b"a", b"b"]), "2 byte strings");
    let fixed = || FieldType::Bytes { len: Some(3) };
    assert_eq!(one(fixed(), &list(&[b"abc"])).unwrap(), b"abc");
    assert_eq!(one(fixed(), &list(&[b"a", b"b", b"c"])).unwrap(), b"abc");
    for (values, words) in [
        (&[&b"ab"[..]][..], "byte string 1 is 2 bytes long"),
        (&[b"a", b"bc"], "byte string 2 is 2 bytes long"),
        (&[b"abc", b"d"], "more elements"),
        (&[b"a", b"abc"], "byte string 2 is 3 bytes long"),
        (&[b"a", b"b"], "2 elements are stored, 3 are expected"),
        (&[b"a", b"b", b"c", b"d"], "more elements"),
        (&[], "0 elements"),
    ] {
        refused(fixed(), &list(values), words);
    }
}

#[test]
fn another_kind_of_list_is_named() {
    refused(array("uint8", &[1]), &field(2, &[]), "a FloatList is stored, an Int64List is expected for uint8[1]");
    refused(FieldType::Str, &ints(&[1]), "an Int64List is stored, a BytesList is expected for str");
    refused(array("float32", &[1]), &[], "nothing is stored, a FloatList is expected");
    // Of two kinds the last counts.
    assert_eq!(one(FieldType::Int, &[field(2, &[]), ints(&[3])].concat()).unwrap(), 3u64.to_le_bytes());
    refused(FieldType::Int, &[ints(&[3]), field(2, &[])].concat(), "a FloatList is stored");
}

#[test]
fn protobuf_is_read_as_protobuf_is() {
    let codec = codec(&[FieldType::Int, FieldType::Str]);
    let entry = |name: &[u8], value: &[u8]| field(1, &[field(1, name), field(2, value)].concat());
    let text = field(1, &field(1, b"t"));
    let wanted = vec![5u64.to_le_bytes().to_vec(), b"t".to_vec()];
    let same = |record: &[u8]| assert_eq!(decode(&codec, record).unwrap(), wanted);
    // Any order, more attributes, the last of two.
    same(&field(1, &[entry(b"f1", &text), entry(b"f0", &ints(&[5]))].concat()));
    same(&field(1, &[entry(b"f0", &text), entry(b"x", &[1]), entry(b"f1", &text), entry(b"f0", &ints(&[5]))].concat()));
    // The features in two pieces, value before key, unknown fields of every kind everywhere.
    let unknown = [&[0x50, 1, 0x59, 1, 2, 3, 4, 5, 6, 7, 8, 0x5d, 1, 2, 3, 4][..], &field(15, b"x")].concat();
    let reversed = field(1, &[&field(2, &text)[..], &unknown, &field(1, b"f1")].concat());
    let strange = [&unknown[..], &ints(&[5]), &unknown].concat();
    same(&[field(1, &[&unknown[..], &entry(b"f0", &strange)].concat()), unknown, field(1, &reversed)].concat());
    // One list in two pieces, in two pieces of its Feature.
    let (mut a, mut b) = (field(1, b"f0"), field(1, b"f1"));
    a.extend(field(2, &field(3, &[])));
    a.extend(field(2, &ints(&[5])));
    b.extend(field(2, &text));
    same(&field(1, &[field(1, &a), field(1, &b)].concat()));
    // A name in another field's type is no name.
    let e = decode(&codec, &field(1, &entry(b"f0", &ints(&[5])))).unwrap_err();
    assert_eq!(e.to_string(), "attribute 'f1': missing in this record");
    assert_eq!(e.kind(), FormatErrorKind::Corrupt);
}

#[test]
fn garbage_is_refused() {
    for (bytes, words) in [
        (&[0x0a, 5, 1][..], "a field of 5 bytes where the message ends after 1"),
        (&[0x0a], "ends inside a number"),
        (&[0x0b], "wire type 3"),
        (&[0x0f], "wire type 7"),
        (&[0x02, 0], "a field with the number 0"),
        (&[0xff; 10], "more than 64 bits"),
        (&[0x0a, 2, 0x0a, 1], "a field of 1 bytes where the message ends after 0"),
        (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "a field of 18446744073709551615 bytes"),
    ] {
        let e = decode(&codec(&[FieldType::Int]), bytes).unwrap_err();
        assert_eq!(e.kind(), FormatErrorKind::Corrupt);
        assert!(e.to_string().starts_with("not a tf.train.Example: ") && e.to_string().contains(words), "{bytes:?}: {e}");
    }
    refused(FieldType::Int, &[0x1a, 9], "a field of 9 bytes");
    assert!(decode(&codec(&[]), &[]).unwrap().is_empty());
    let e = codec(&[FieldType::Int]).decode(&[], 0, &[1], &mut Values::default()).unwrap_err();
    assert_eq!(e.kind(), FormatErrorKind::Invalid);
}

#[test]
fn what_may_be_written() {
    for dtype in ["int8", "uint8", "int32", "int64", "float16", "float32"] {
        codec(&[array(dtype, &[2])]).writable().unwrap();
    }
    codec(&[FieldType::Int, FieldType::Str, FieldType::Bytes { len: None }, FieldType::Bytes { len: Some(2) }])
        .writable()
        .unwrap();
    for (dtype, instead) in
        [("float64", "float32"), ("int16", "int32"), ("uint16", "int32"), ("uint32", "int64"), ("uint64", "int64")]
    {
        let e = codec(&[FieldType::Int, array(dtype, &[2])]).writable().unwrap_err();
        assert_eq!(e.kind(), FormatErrorKind::Unsupported);
        assert!(e.to_string().contains(&format!("attribute 'f1': dtype {dtype} is not written to tfrec")), "{e}");
        assert!(e.to_string().contains(&format!("use {instead}, or")), "{e}");
    }
    for dtype in ["bool", "complex64", "complex128", "S5", "U5", "M8[ns]", "m8", ">f4", "V3", "longdouble"] {
        let e = Codec::new(&schema(&[array(dtype, &[2])])).unwrap_err();
        assert_eq!(e.kind(), FormatErrorKind::Unsupported);
        assert!(e.to_string().starts_with("attribute 'f0': dtype ") && e.to_string().contains("use "), "{e}");
    }
    let mut twice = schema(&[FieldType::Int, FieldType::Str]);
    twice.fields[1].name = "f0".into();
    assert_eq!(Codec::new(&twice).unwrap_err().kind(), FormatErrorKind::Invalid);
}

#[test]
fn values_that_do_not_fit_are_not_written() {
    let codec = codec(&[array("int32", &[2]), FieldType::Str, FieldType::Bytes { len: Some(2) }]);
    let mut out = b"before".to_vec();
    let good: [&[u8]; 3] = [&[0; 8], b"text", b"ab"];
    for (values, words) in [
        ([&[0; 7], good[1], good[2]], "attribute 'f0': 7 bytes given for int32[2], which takes 8"),
        ([good[0], b"\xff", good[2]], "attribute 'f1': the text is not UTF-8"),
        ([good[0], good[1], b"abc"], "attribute 'f2': 3 bytes given for bytes[2], which takes 2"),
    ] {
        let e = codec.encode(&values, &mut out).unwrap_err();
        assert_eq!(e.kind(), FormatErrorKind::Invalid);
        assert!(e.to_string().contains(words), "{e}");
    }
    assert!(codec.encode(&good[..2], &mut out).unwrap_err().to_string().contains("2 values for 3 attributes"));
    assert_eq!(out, b"before");
}

#[test]
fn every_cut_of_a_record_is_refused() {
    let codec = codec(&[array("int32", &[2]), FieldType::Str, array("float16", &[2]), array("uint8", &[3])]);
    let mut record = Vec::new();
    codec.encode(&[&[0xff; 8], b"text", &[1; 4], &[1, 200, 3]], &mut record).unwrap();
    for len in 0..record.len() {
        assert_eq!(decode(&codec, &record[..len]).unwrap_err().kind(), FormatErrorKind::Corrupt, "{len}");
    }
}

fn any_type() -> impl Strategy<Value = FieldType> {
    let shapes = prop_oneof![Just(vec![]), prop::collection::vec(1usize..6, 1..3), (100usize..400).prop_map(|n| vec![n])];
    let dtypes = prop::sample::select(vec!["int8", "uint8", "int32", "int64", "float16", "float32"]);
    prop_oneof![
        4 => (dtypes, shapes).prop_map(|(dtype, shape)| array(dtype, &shape)),
        1 => Just(FieldType::Int),
        1 => Just(FieldType::Str),
        1 => Just(FieldType::Bytes { len: None }),
        1 => (0usize..200).prop_map(|len| FieldType::Bytes { len: Some(len) }),
    ]
}

/// A type and a value of it; small numbers are as frequent as large ones.
fn any_value() -> impl Strategy<Value = (FieldType, Vec<u8>)> {
    any_type().prop_flat_map(|ty| {
        let value = match (ty.fixed_len().unwrap(), &ty) {
            (Some(len), _) => {
                let small = prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], len);
                prop_oneof![prop::collection::vec(any::<u8>(), len), small, prop::collection::vec(0u8..128, len)].boxed()
            }
            (None, FieldType::Str) => ".{0,200}".prop_map(|t: String| t.into_bytes()).boxed(),
            (None, _) => prop::collection::vec(any::<u8>(), 0..300).boxed(),
        };
        (Just(ty), value)
    })
}

proptest! {
    #[test]
    fn records_come_back(values in prop::collection::vec(any_value(), 0..7), before in 0usize..3) {
        let (types, values): (Vec<_>, Vec<_>) = values.into_iter().unzip();
        let codec = codec(&types);
        let refs: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let mut out = vec![9; before];
        codec.encode(&refs, &mut out).unwrap();
        prop_assert_eq!(decode(&codec, &out[before..]).unwrap(), values);
        // The reserved size was the real one: one message, nothing behind it.
        let mut fields = Fields(&out[before..]);
        prop_assert!(matches!(fields.next().unwrap(), Some((1, wire::Value::Bytes(_)))));
        prop_assert!(fields.next().unwrap().is_none());
        // Damage gives an error or other values, never a panic.
        for at in (before..out.len()).step_by(1 + out.len() / 40) {
            let mut damaged = out[before..].to_vec();
            damaged[at - before] ^= 1 << (at % 8);
            let _ = decode(&codec, &damaged);
        }
    }

    #[test]
    fn numbers_come_back(value in prop_oneof![any::<u64>(), (0u32..64).prop_map(|b| 1 << b), (1u32..64).prop_map(|b| (1 << b) - 1)], more in 0usize..9) {
        let mut bytes = Vec::new();
        put_varint(value, &mut bytes);
        prop_assert_eq!(bytes.len(), varint_len(value));
        bytes.extend(vec![0xff; more]);
        let mut rest = &bytes[..];
        prop_assert_eq!(varint(&mut rest).unwrap(), value);
        prop_assert_eq!(rest.len(), more);
    }
}
