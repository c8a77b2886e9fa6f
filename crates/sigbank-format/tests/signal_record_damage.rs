//! SafeTensors payloads that are damaged, or whose header lies; and records of any kind, round and round.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use proptest::prelude::*;
use sigbank_format::error::FormatErrorKind::{Corrupt, Limit, Unsupported};
use sigbank_format::model::DType;
use sigbank_format::model::json::{Json, Limits};
use sigbank_format::record::signal::*;

const DESCRIPTOR_TEXT: &str = r#"{"fields":{"x":{"axes":[{"length":3,"name":"t"}],"tensor":"a"}},"format":"signal-dataset.record","id":"r1","version":"0.1"}"#;

/// A payload of a header, three floats, and a descriptor.
fn payload_of(header: &str, descriptor: &str) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(&[7; 12]);
    out.extend_from_slice(descriptor.as_bytes());
    out
}

fn header() -> String {
    let n = DESCRIPTOR_TEXT.len();
    format!(
        r#"{{"a":{{"dtype":"F32","shape":[3],"data_offsets":[0,12]}},"__sds_descriptor__":{{"dtype":"U8","shape":[{n}],"data_offsets":[12,{}]}}}}"#,
        12 + n
    )
}

fn read(header: &str) -> sigbank_format::Result<Decoded> {
    decode(&payload_of(header, DESCRIPTOR_TEXT), &ResourcePolicy::default())
}

#[test]
fn what_a_header_may_be() {
    let plain = read(&header()).unwrap();
    assert_eq!((plain.metadata.id.as_str(), plain.data.len()), ("r1", 1));
    assert_eq!(payload_of(&header(), DESCRIPTOR_TEXT)[plain.data[0].clone()], [7; 12]);
    let same = |header: &str| assert_eq!(read(header).unwrap().metadata, plain.metadata, "{header}");
    same(&format!(" \n{}\t  ", header()));
    same(&header().replacen('{', r#"{"__metadata__":{"a":"b"},"#, 1));
    same(&header().replace(r#""dtype""#, r#""more":[1],"dtype""#));
    same(&header().replace(r#""a""#, r#""\u0061""#));
    let (first, second) = header().split_once("},").map(|(a, b)| (a[1..].to_owned(), b.to_owned())).unwrap();
    same(&format!("{{{}, {first}}}}}", &second[..second.len() - 1]));
}

#[test]
fn headers_that_lie_are_refused() {
    let n = DESCRIPTOR_TEXT.len();
    let (all, offsets) = (12 + n, r#""data_offsets":[0,12]"#);
    let refused = |from: &str, to: &str, words: &str| {
        assert!(header().contains(from), "{from}");
        let e = read(&header().replacen(from, to, 1)).expect_err(to);
        assert!(e.kind() == Corrupt && e.to_string().contains(words), "{to}: {:?} {e}", e.kind());
    };
    for (to, words) in [
        ("[0,11]", "tensor 'a': 11 bytes by its data_offsets, where F32 of shape [3] takes 12"),
        ("[0,13]", "takes 12"),
        ("[1,13]", "leaves a gap"),
        ("[12,0]", "not a begin and an end"),
        ("[0]", "not a begin and an end"),
        ("[]", "not a begin and an end"),
        ("[0,12,13]", "not a begin and an end"),
        ("[0,18446744073709551615]", "not a begin and an end"),
        ("[18446744073709551604,18446744073709551615]", "not a begin and an end"),
        ("[0,18446744073709551616]", "nonnegative integer"),
        ("[-1,11]", "nonnegative integer"),
        ("[0.0,12.0]", "nonnegative integer"),
        ("[true,12]", "a number"),
        ("null", "a list"),
        ("\"s\"", "a list"),
    ] {
        refused(offsets, &format!("\"data_offsets\":{to}"), words);
    }
    refused(&format!("[12,{all}]"), &format!("[0,{n}]"), "overlaps the tensor before it");
    refused(&format!("[12,{all}]"), &format!("[11,{}]", all - 1), "overlaps");
    refused(
        &format!(r#"[{n}],"data_offsets":[12,{all}]"#),
        &format!(r#"[{}],"data_offsets":[12,{}]"#, n - 1, all - 1),
        "1 bytes follow the last tensor",
    );
    for shape in ["[]", "[12]", "[4]", "[0]", "[3,2]"] {
        refused("\"shape\":[3]", &format!("\"shape\":{shape}"), "12 bytes by its data_offsets");
    }
    refused("\"shape\":[3]", "\"shape\":[3,1]", "field 'x': 1 axes for 2 dimensions");
    refused("\"shape\":[3]", "\"shape\":[-3]", "nonnegative integer");
    refused("\"shape\":[3]", "\"shape\":3", "a list");
    for dtype in ["F64", "C64", "U8", "BOOL"] {
        refused("F32", dtype, "12 bytes by its data_offsets");
    }
    refused("\"dtype\":\"F32\"", "\"dtype\":null", "a string");
    refused("\"dtype\":\"F32\",", "", "tensor 'a': there is no dtype");
    refused("\"shape\":[3],", "", "tensor 'a': there is no shape");
    refused(",\"data_offsets\":[0,12]", "", "tensor 'a': there is no data_offsets");
    refused("\"dtype\":\"F32\"", "\"dtype\":\"F32\",\"dtype\":\"F32\"", "comes twice");
    refused("{\"a\"", "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},\"a\"", "comes twice");
    refused("{\"a\"", "{\"__metadata__\":{\"a\":3},\"a\"", "a string");
    refused("{\"a\"", "{\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"a\"", "no field names the tensor 'b'");
    refused("{\"a\"", "{\"b\"", "field 'x': there is no tensor 'a'");
    refused(DESCRIPTOR, "descriptor", "no tensor __sds_descriptor__");
    refused(&format!("\"U8\",\"shape\":[{n}]"), &format!("\"U8\",\"shape\":[1,{n}]"), "bytes (uint8) in one dimension belong");
    refused("\"U8\"", "\"I8\"", "bytes (uint8) in one dimension belong");
    for header in ["", "{", "[]", "null", "{}", "{\"a\":3}", "\u{feff}{}", &format!("{}x", header()), &format!("{}\0", header())]
    {
        assert_eq!(read(header).expect_err(header).kind(), Corrupt, "{header}");
    }
    for (dtype, from, to) in
        [("BF16", "[3]", "[6]"), ("F8_E4M3", "[3]", "[12]"), ("C128", "[3]", "[3]"), ("f32", "[3]", "[3]"), ("", "[3]", "[3]")]
    {
        let e = read(&header().replace("F32", dtype).replacen(from, to, 1)).expect_err(dtype);
        assert!(e.kind() == Unsupported && e.to_string().contains("tensor 'a'"), "{e}");
    }
    for shape in ["[9223372036854775808,2]", "[4294967296,4294967296]", "[18446744073709551615]"] {
        let e = read(&header().replacen("[3]", shape, 1)).expect_err(shape);
        assert_eq!(e.kind(), Limit, "{e}");
    }
    // Axis names and another field may not name the descriptor's tensor.
    let n = |text: &str| {
        header()
            .replace(&DESCRIPTOR_TEXT.len().to_string(), &text.len().to_string())
            .replace(&all.to_string(), &(12 + text.len()).to_string())
    };
    let own = DESCRIPTOR_TEXT.replace("\"a\"", "\"__sds_descriptor__\"");
    let e = decode(&payload_of(&n(&own), &own), &ResourcePolicy::default()).unwrap_err();
    assert!(e.kind() == Corrupt && e.to_string().contains("there is no tensor '__sds_descriptor__'"), "{e}");
}

#[test]
fn other_versions_say_so() {
    // Even where what they changed cannot be read.
    for (from, to) in [
        ("\"0.1\"", "\"0.2\""),
        ("signal-dataset.record", "signal-dataset.other"),
        ("\"0.1\"", "0.1"),
        (",\"version\":\"0.1\"", ""),
    ] {
        for fields in ["{", "{\"new\":3,"] {
            let text = DESCRIPTOR_TEXT.replacen(from, to, 1).replacen("\"fields\":{", &format!("\"fields\":{fields}"), 1);
            let header = format!(
                r#"{{"a":{{"dtype":"F32","shape":[3],"data_offsets":[0,12]}},"__sds_descriptor__":{{"dtype":"U8","shape":[{}],"data_offsets":[12,{}]}}}}"#,
                text.len(),
                12 + text.len()
            );
            let e = decode(&payload_of(&header, &text), &ResourcePolicy::default()).expect_err(&text);
            assert!(e.kind() == Unsupported && e.to_string().contains("record 'r1'"), "{e}");
        }
    }
}

#[test]
fn scalars_of_other_writers_are_read() {
    let text = r#"{"fields":{"x":{"axes":[],"tensor":"a"}},"format":"signal-dataset.record","id":"r1","version":"0.1"}"#;
    let n = text.len();
    let header = format!(
        r#"{{"a":{{"dtype":"F32","shape":[],"data_offsets":[0,4]}},"b":{{"dtype":"C64","shape":[1],"data_offsets":[4,12]}},"__sds_descriptor__":{{"dtype":"U8","shape":[{n}],"data_offsets":[12,{}]}}}}"#,
        12 + n
    );
    let e = decode(&payload_of(&header, text), &ResourcePolicy::default()).unwrap_err();
    assert!(e.to_string().contains("no field names the tensor 'b'"), "{e}");
    // Two fields may name one tensor, and the scalar's axes are none.
    let text = text.replacen("{\"x\"", "{\"y\":{\"axes\":[{\"length\":1,\"name\":\"t\"}],\"tensor\":\"b\"},\"x\"", 1);
    let header = header
        .replace(&format!("[{n}]"), &format!("[{}]", text.len()))
        .replace(&format!(",{}]", 12 + n), &format!(",{}]", 12 + text.len()));
    let decoded = decode(&payload_of(&header, &text), &ResourcePolicy::default()).unwrap();
    let shapes: Vec<_> = decoded.metadata.fields.iter().map(|f| (f.name.as_str(), f.shape.as_slice())).collect();
    assert_eq!(shapes, [("y", &[1][..]), ("x", &[])]);
}

/// A record of all sorts.
fn sample() -> (RecordMetadata, Vec<u8>) {
    let mut field = FieldMetadata {
        axes: vec![Axis::new("c", 2), Axis::new("t", 3)],
        ..FieldMetadata::new("iq", "complex64".parse().unwrap(), vec![2, 3])
    };
    field.axes[1].coordinate = Some(Coordinate {
        start: Some(0i64.into()),
        step: Some(Json::try_from(0.25).unwrap()),
        unit: Some("s".into()),
        ..Default::default()
    });
    let metadata = Json::parse(r#"{"a":[1,2.5,null,{"b":"c"}]}"#.as_bytes(), &Limits::default()).unwrap();
    let record = RecordMetadata { metadata, ..RecordMetadata::new("r", vec![field]) };
    let payload = encode(&record, &[&[9; 48]], &ResourcePolicy::default()).unwrap();
    (record, payload)
}

#[test]
fn a_record_cut_short_is_an_error_at_every_length() {
    let (_, payload) = sample();
    for n in 0..payload.len() {
        let e = decode(&payload[..n], &ResourcePolicy::default()).expect_err(&n.to_string());
        assert_eq!(e.kind(), Corrupt, "{n}: {e}");
    }
    let mut longer = payload.clone();
    longer.push(0);
    assert!(decode(&longer, &ResourcePolicy::default()).unwrap_err().to_string().contains("1 bytes follow the last tensor"));
}

#[test]
fn a_changed_byte_is_no_panic_and_what_is_read_can_be_written() {
    let (_, payload) = sample();
    let policy = ResourcePolicy::default();
    let mut read = 0;
    for at in 0..payload.len() {
        for flip in [1u8, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0xff] {
            let mut damaged = payload.clone();
            damaged[at] ^= flip;
            let Ok(decoded) = decode(&damaged, &policy) else { continue };
            read += 1;
            let data: Vec<&[u8]> = decoded.data.iter().map(|range| &damaged[range.clone()]).collect();
            let again = encode(&decoded.metadata, &data, &policy).unwrap();
            assert_eq!(decode(&again, &policy).unwrap().metadata, decoded.metadata);
        }
    }
    // Samples are any bytes; the rest seldom stays a record.
    assert!(read >= 48 * 9 && read < payload.len() * 9 / 2, "{read}");
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,8}", any::<String>().prop_filter("not empty", |s| !s.is_empty())]
}

fn metadata() -> impl Strategy<Value = Json> {
    prop::collection::btree_map(
        any::<String>(),
        prop_oneof![any::<i64>().prop_map(Json::from), any::<String>().prop_map(|s| Json::from(s.as_str()))],
        0..3,
    )
    .prop_map(|members| {
        let value = members.into_iter().map(|(k, v)| (k, v.to_value().unwrap())).collect();
        Json::from_value(&serde_json::Value::Object(value)).unwrap()
    })
}

fn any_coordinate(length: usize) -> impl Strategy<Value = Option<Coordinate>> {
    let number = || any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(|x| Json::try_from(x).ok());
    let values = prop::collection::vec(any::<i64>(), length).prop_map(|v| Json::from_value(&v.into()).ok());
    let form = prop_oneof![
        Just((None, None, None)),
        values.prop_map(|values| (values, None, None)),
        (number(), number()).prop_map(|(start, step)| (None, start, step)),
    ];
    prop::option::of((form, prop::option::of(any::<String>()), metadata())).prop_map(|c| {
        c.map(|((values, start, step), unit, metadata)| Coordinate { values, start, step, reference: None, unit, metadata })
    })
}

fn any_axis() -> impl Strategy<Value = Axis> {
    (0usize..4).prop_flat_map(|n| {
        (text(), prop::option::of(any::<String>()), any_coordinate(n), metadata())
            .prop_map(move |(name, role, coordinate, metadata)| Axis { role, coordinate, metadata, ..Axis::new(name, n as u64) })
    })
}

fn any_record() -> impl Strategy<Value = RecordMetadata> {
    let dtype =
        prop::sample::select(vec!["|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8"]);
    let field = (dtype, prop::collection::vec(any_axis(), 1..4), metadata()).prop_map(|(dtype, axes, metadata)| {
        let shape = axes.iter().map(|a| a.length as usize).collect();
        let axes: Vec<Axis> = axes.into_iter().enumerate().map(|(i, a)| Axis { name: format!("{i}{}", a.name), ..a }).collect();
        FieldMetadata { axes, metadata, ..FieldMetadata::new("", dtype.parse::<DType>().unwrap(), shape) }
    });
    (text(), prop::option::of(any::<String>()), metadata(), prop::collection::btree_map(text(), field, 1..5)).prop_map(
        |(id, scene_id, metadata, fields)| {
            let fields = fields.into_iter().map(|(name, field)| FieldMetadata { name, ..field }).collect();
            RecordMetadata { id, scene_id, metadata, fields }
        },
    )
}

proptest! {
    #[test]
    fn any_record_survives(record in any_record(), seed in any::<u8>()) {
        let policy = ResourcePolicy::default();
        let size = |f: &FieldMetadata| f.dtype.itemsize() * f.shape.iter().product::<usize>();
        let data: Vec<Vec<u8>> = record.fields.iter().map(|f| (0..size(f)).map(|i| seed.wrapping_add(i as u8)).collect()).collect();
        let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let payload = encode(&record, &slices, &policy).unwrap();
        let decoded = decode(&payload, &policy).unwrap();
        prop_assert_eq!(&decoded.metadata, &record);
        let found: Vec<&[u8]> = decoded.data.iter().map(|range| &payload[range.clone()]).collect();
        prop_assert_eq!(&found, &slices);
        let document = encode_metadata(&record, &policy).unwrap();
        prop_assert_eq!(&decode_metadata(&document, &policy, &Limits::default()).unwrap(), &record);

        // The order in which fields are given is not part of a record.
        let mut turned = record.clone();
        turned.fields.reverse();
        let turned_data: Vec<&[u8]> = slices.iter().rev().copied().collect();
        prop_assert_eq!(encode(&turned, &turned_data, &policy).unwrap(), payload);
        prop_assert_eq!(encode_metadata(&turned, &policy).unwrap(), document);
    }
}
