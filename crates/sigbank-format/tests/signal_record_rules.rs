//! Each rule of a signal-dataset record, broken alone: refused before writing and, in stored bytes, when reading.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use sigbank_format::error::FormatErrorKind::{self, Corrupt, Invalid, Limit};
use sigbank_format::model::json::{Json, Limits};
use sigbank_format::record::signal::*;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Limits::default()).unwrap()
}

/// Two fields: x of shape [2, 3], y of shape [3].
fn record() -> RecordMetadata {
    let x = FieldMetadata {
        axes: vec![Axis::new("channel", 2), Axis::new("time", 3)],
        ..FieldMetadata::new("x", "complex64".parse().unwrap(), vec![2, 3])
    };
    let y = FieldMetadata { axes: vec![Axis::new("t", 3)], ..FieldMetadata::new("y", "float32".parse().unwrap(), vec![3]) };
    RecordMetadata::new("r1", vec![x, y])
}

fn time(record: &mut RecordMetadata) -> &mut Axis {
    &mut record.fields[0].axes[1]
}

fn coordinate(record: &mut RecordMetadata) -> &mut Coordinate {
    time(record).coordinate.insert(Coordinate::default())
}

fn linear(step: &str) -> Coordinate {
    Coordinate { start: Some(json("0")), step: Some(json(step)), ..Coordinate::default() }
}

fn broken(change: impl Fn(&mut RecordMetadata), words: &[&str]) {
    limited(&ResourcePolicy::default(), Invalid, change, words);
}

fn limited(policy: &ResourcePolicy, kind: FormatErrorKind, change: impl Fn(&mut RecordMetadata), words: &[&str]) {
    let mut record = record();
    change(&mut record);
    let data: Vec<Vec<u8>> =
        record.fields.iter().map(|f| vec![0; f.dtype.itemsize() * f.shape.iter().product::<usize>()]).collect();
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut out = b"before".to_vec();
    for e in [
        validate(&record, policy).unwrap_err(),
        encode_into(&record, &data, policy, &mut out).unwrap_err(),
        encode_metadata(&record, policy).unwrap_err(),
    ] {
        assert_eq!(e.kind(), kind, "{e}");
        for word in words {
            assert!(e.to_string().contains(word), "{e}: no {word}");
        }
    }
    assert_eq!(out, b"before");
}

fn fine(change: impl Fn(&mut RecordMetadata)) {
    let (mut record, policy) = (record(), ResourcePolicy::default());
    change(&mut record);
    let data: Vec<Vec<u8>> =
        record.fields.iter().map(|f| vec![7; f.dtype.itemsize() * f.shape.iter().product::<usize>()]).collect();
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let payload = encode(&record, &data, &policy).unwrap();
    record.fields.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(decode(&payload, &policy).unwrap().metadata, record);
    let document = encode_metadata(&record, &policy).unwrap();
    assert_eq!(decode_metadata(&document, &policy, &Limits::default()).unwrap(), record);
}

#[test]
fn names() {
    fine(|_| ());
    broken(|r| r.id.clear(), &["record ''", "id is empty"]);
    broken(|r| r.fields.clear(), &["record 'r1'", "no fields"]);
    broken(|r| r.fields[1].name.clear(), &["record 'r1': field ''", "name is empty"]);
    broken(|r| r.fields[1].name = "x".into(), &["record 'r1'", "two fields are called 'x'"]);
    broken(|r| time(r).name.clear(), &["field 'x': axis 1 has an empty name"]);
    broken(|r| time(r).name = "channel".into(), &["field 'x'", "two axes are called 'channel'"]);
    fine(|r| r.fields[1].axes[0].name = "time".into());
    fine(|r| (r.scene_id, time(r).role, time(r).id) = (Some("".into()), Some("".into()), Some("".into())));
    fine(|r| r.fields.reverse());
    fine(|r| r.fields[0].name = DESCRIPTOR.into());
}

#[test]
fn dtypes() {
    for (dtype, advice) in [
        ("complex128", "convert it to complex64"),
        ("float128", "convert it to float64"),
        (">f4", "little-endian"),
        (">c8", "little-endian"),
        ("S3", "put texts into the metadata"),
        ("U3", "put texts into the metadata"),
        ("V4", "uint8"),
        ("M8[s]", "int64"),
        ("m8[s]", "int64"),
    ] {
        broken(|r| r.fields[1].dtype = dtype.parse().unwrap(), &["record 'r1': field 'y'", advice]);
    }
}

#[test]
fn shapes_and_axes() {
    broken(|r| drop(r.fields[0].axes.pop()), &["field 'x': 1 axes for 2 dimensions [2, 3]"]);
    broken(|r| r.fields[1].axes.push(Axis::new("more", 1)), &["field 'y': 2 axes for 1 dimensions [3]"]);
    broken(|r| time(r).length = 4, &["field 'x': axis 'time' has length 4, but dimension 1 of its array [2, 3] has 3"]);
    fine(|r| (r.fields[1].shape, r.fields[1].axes[0].length) = (vec![0], 0));
    // Other data than that, and scalars.
    let (record, policy) = (record(), ResourcePolicy::default());
    let encode = |record: &RecordMetadata, data: &[&[u8]]| encode(record, data, &policy).unwrap_err();
    let e = encode(&record, &[&[0; 48], &[0; 11]]);
    assert!(
        e.kind() == Invalid && e.to_string().contains("record 'r1': field 'y': 11 bytes given for float32 of shape [3]"),
        "{e}"
    );
    let e = encode(&record, &[&[0; 48]]);
    assert!(e.kind() == Invalid && e.to_string().contains("data of 1 fields given for 2"), "{e}");
    let scalar = RecordMetadata::new("r", vec![FieldMetadata::new("x", "float32".parse().unwrap(), vec![])]);
    let e = encode(&scalar, &[&[0; 4]]);
    assert!(e.kind() == Invalid && e.to_string().contains("record 'r': field 'x': a scalar"), "{e}");
}

#[test]
fn metadata_are_objects() {
    for no_object in ["[]", "3", "null", "\"{}\""] {
        let no_object = json(no_object);
        broken(|r| r.metadata = no_object.clone(), &["record 'r1'", "not an object"]);
        broken(|r| r.fields[1].metadata = no_object.clone(), &["field 'y'", "not an object"]);
        broken(|r| time(r).metadata = no_object.clone(), &["field 'x': axis 'time'", "not an object"]);
        broken(|r| coordinate(r).metadata = no_object.clone(), &["field 'x': axis 'time'", "not an object"]);
    }
}

#[test]
fn coordinates() {
    let values = |text: &str| Some(json(text));
    broken(|r| coordinate(r).values = values("[1,2]"), &["field 'x': axis 'time': 2 coordinate values for a length of 3"]);
    broken(|r| coordinate(r).values = values("\"abc\""), &["axis 'time'", "not a list"]);
    broken(|r| coordinate(r).values = values("{\"a\":1,\"b\":2,\"c\":3}"), &["axis 'time'", "not a list"]);
    broken(|r| coordinate(r).start = values("1"), &["axis 'time'", "no step"]);
    broken(|r| coordinate(r).step = values("1"), &["axis 'time'", "no start"]);
    for other in ["true", "\"1\"", "[1]", "{}", "null"] {
        broken(|r| *coordinate(r) = linear(other), &["axis 'time'", "step is", "not a number"]);
        let start = || Coordinate { start: Some(json(other)), ..linear("1") };
        broken(|r| *coordinate(r) = start(), &["axis 'time'", "start is", "not a number"]);
    }
    let both = "more than one of values, start with step, and reference";
    broken(|r| *coordinate(r) = Coordinate { values: values("[1,2,3]"), ..linear("1") }, &["axis 'time'", both]);
    broken(|r| *coordinate(r) = Coordinate { reference: Some("y".into()), ..linear("1") }, &["axis 'time'", both]);
    broken(|r| *coordinate(r) = Coordinate { reference: Some("".into()), ..linear("1") }, &["axis 'time'", both]);
    let both_lists = || Coordinate { reference: Some("y".into()), values: values("[1,2,3]"), ..Coordinate::default() };
    broken(|r| *coordinate(r) = both_lists(), &["axis 'time'", both]);

    fine(|r| *coordinate(r) = Coordinate::default());
    fine(|r| *coordinate(r) = linear("0"));
    fine(|r| *coordinate(r) = linear("-1e-300"));
    fine(|r| coordinate(r).values = values("[1,\"a\",{\"k\":[null]}]"));
    fine(|r| coordinate(r).unit = Some("s".into()));
}

#[test]
fn references_and_shared_axes() {
    let refer = |to: &'static str| move |r: &mut RecordMetadata| coordinate(r).reference = Some(to.into());
    broken(refer("nowhere"), &["field 'x': axis 'time'", "'nowhere' is neither a field of the record nor an axis id"]);
    // The name of an axis is not its id.
    broken(refer("t"), &["'t' is neither"]);
    for to in ["y", "x", ""] {
        fine(refer(to));
    }
    fine(|r| {
        r.fields[1].axes[0].id = Some("clock".into());
        coordinate(r).reference = Some("clock".into());
    });

    let share = |r: &mut RecordMetadata, x: Option<Coordinate>, y: Option<Coordinate>| {
        (time(r).id, r.fields[1].axes[0].id) = (Some("clock".into()), Some("clock".into()));
        (time(r).coordinate, r.fields[1].axes[0].coordinate) = (x, y);
    };
    let differ = ["field 'y': axis 't' has the id 'clock' of another axis"];
    fine(|r| share(r, None, None));
    fine(|r| share(r, Some(linear("1")), Some(linear("1.0"))));
    broken(|r| share(r, Some(linear("1")), None), &differ);
    broken(|r| share(r, Some(linear("1")), Some(linear("2"))), &differ);
    broken(|r| share(r, Some(linear("1")), Some(Coordinate { unit: Some("s".into()), ..linear("1") })), &differ);
    broken(|r| share(r, Some(linear("1")), Some(Coordinate { metadata: json("{\"a\":1}"), ..linear("1") })), &differ);
    let values = |text: &str| Some(Coordinate { values: Some(json(text)), ..Coordinate::default() });
    fine(|r| share(r, values("[0,1,2]"), values("[false,1.0,2]")));
    broken(|r| share(r, values("[0,1,2]"), values("[0,1,3]")), &differ);
    let to = |name: &str| Some(Coordinate { reference: Some(name.into()), ..Coordinate::default() });
    broken(|r| share(r, to("x"), to("y")), &differ);
    broken(
        |r| (r.fields[0].axes[0].id, time(r).id) = (Some("i".into()), Some("i".into())),
        &["field 'x': axis 'time' has the id 'i' of another axis"],
    );
}

#[test]
fn each_limit_has_its_place() {
    let policy = ResourcePolicy::default;
    let same = |_: &mut RecordMetadata| ();
    limited(&ResourcePolicy { max_fields: 1, ..policy() }, Limit, same, &["record 'r1'", "max_fields"]);
    limited(
        &ResourcePolicy { max_axes_per_field: 1, ..policy() },
        Limit,
        same,
        &["record 'r1': field 'x'", "max_axes_per_field"],
    );
    limited(
        &ResourcePolicy { max_tensor_bytes: 47, ..policy() },
        Limit,
        same,
        &["record 'r1': field 'x'", "48", "max_tensor_bytes"],
    );
    limited(
        &ResourcePolicy { max_total_tensor_bytes: 59, ..policy() },
        Limit,
        same,
        &["record 'r1'", "60", "max_total_tensor_bytes"],
    );
    limited(&ResourcePolicy { max_metadata_bytes: 11, ..policy() }, Limit, same, &["record 'r1'", "12", "max_metadata_bytes"]);
    // Nesting and number of values are those of the texts, which are looked at when they are written.
    let nested = [
        ("max_json_nodes", ResourcePolicy { max_json_nodes: 10, ..policy() }),
        ("max_json_depth", ResourcePolicy { max_json_depth: 5, ..policy() }),
    ];
    for (name, policy) in nested {
        let data: [&[u8]; 2] = [&[0; 48], &[0; 12]];
        for e in [encode(&record(), &data, &policy).unwrap_err(), encode_metadata(&record(), &policy).unwrap_err()] {
            assert!(e.kind() == Limit && e.to_string().contains("record 'r1'") && e.to_string().contains(name), "{e}");
        }
    }
    let values = |r: &mut RecordMetadata| coordinate(r).values = Some(json("[1,2,3]"));
    let words = ["field 'x': axis 'time'", "coordinate values: 3", "max_coordinate_values"];
    limited(&ResourcePolicy { max_coordinate_values: 2, ..policy() }, Limit, values, &words);
    let huge = |r: &mut RecordMetadata| (r.fields[1].shape, r.fields[1].axes[0].length) = (vec![1 << 62], 1 << 62);
    let mut record = record();
    huge(&mut record);
    assert_eq!(validate(&record, &policy()).unwrap_err().kind(), Limit);
    // Without its samples the same record is looked at under any limit of theirs.
    let (record, small) = (self::record(), ResourcePolicy { max_tensor_bytes: 0, max_total_tensor_bytes: 0, ..policy() });
    let document = encode_metadata(&record, &policy()).unwrap();
    assert_eq!(decode_metadata(&document, &small, &Limits::default()).unwrap(), record);
    let tight = ResourcePolicy { max_metadata_bytes: document.len() as u64 - 1, ..policy() };
    assert_eq!(decode_metadata(&document, &tight, &Limits::default()).unwrap_err().kind(), Limit);
    assert_eq!(encode_metadata(&record, &tight).unwrap_err().kind(), Limit);
    let flat = Limits { max_depth: 5, ..Limits::default() };
    assert_eq!(decode_metadata(&document, &policy(), &flat).unwrap_err().kind(), Limit);
}

#[test]
fn documents_of_the_metadata_shard_keep_the_rules() {
    let document = String::from_utf8(encode_metadata(&record(), &ResourcePolicy::default()).unwrap()).unwrap();
    let read = |text: &str| decode_metadata(text.as_bytes(), &ResourcePolicy::default(), &Limits::default());
    assert_eq!(read(&document).unwrap(), record());
    let refused = |from: &str, to: &str, words: &str| {
        assert!(document.contains(from), "{from}");
        let e = read(&document.replacen(from, to, 1)).expect_err(to);
        assert!(matches!(e.kind(), Corrupt | FormatErrorKind::Unsupported), "{e}");
        assert!(e.to_string().contains("record 'r1'") && e.to_string().contains(words), "{e}: {words}");
    };
    refused("\"shape\":[2,3]", "\"shape\":[2,4]", "field 'x': axis 'time' has length 3");
    refused("\"shape\":[2,3]", "\"shape\":[6]", "2 axes for 1 dimensions");
    refused("\"shape\":[2,3]", "\"shape\":[2,3.0]", "nonnegative integer");
    refused("\"shape\":[2,3]", "\"shape\":[2,-3]", "nonnegative integer");
    refused(",\"shape\":[2,3]", "", "field 'x': the key 'shape' is missing");
    refused("\"<c8\"", "\"<c16\"", "field 'x': dtype complex128");
    refused("\"<c8\"", "\"|O\"", "field 'x'");
    refused("\"dtype\":\"<c8\",", "", "field 'x': the key 'dtype' is missing");
    refused("\"name\":\"t\"", "\"name\":\"\"", "field 'y': axis 0 has an empty name");
    refused("\"name\":\"t\",", "", "field 'y': axis 0: the key 'name' is missing");
    refused("\"length\":3,", "", "axis 1: the key 'length' is missing");
    refused("\"metadata\":{},\"scene_id\"", "\"metadata\":{\"a\":1,\"a\":2},\"scene_id\"", "comes twice");
    refused("\"metadata\":{},\"scene_id\"", "\"metadata\":{\"a\":NaN},\"scene_id\"", "expected");
    refused("\"scene_id\":null", "\"scene_id\":3", "a string");
    let e = read(&document.replacen("\"id\":\"r1\"", "\"id\":\"\"", 1)).unwrap_err();
    assert!(e.kind() == Corrupt && e.to_string().contains("id is empty"), "{e}");
    for text in
        ["", "[]", "null", "{}", "{\"id\":\"a\"}", &document[1..], &document[..document.len() - 1], &format!("{document}x")]
    {
        assert_eq!(read(text).expect_err(text).kind(), Corrupt);
    }
    // Unknown keys, spaces and another order are fine.
    let more = document.replacen("{\"axes\"", "{ \"zz\":[1] , \"axes\"", 1).replacen("\"id\":\"r1\",", "", 1).replacen(
        '{',
        "{\"id\":\"r1\",",
        1,
    );
    assert_eq!(read(&more).unwrap(), record());
}
