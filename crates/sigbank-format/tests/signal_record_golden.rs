//! Records of the reference package, read and written again (see `testdata/signal_record/make.py`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::path::PathBuf;

use serde_json::Value;
use sigbank_format::checksum::{Algorithm, digest_all};
use sigbank_format::error::FormatErrorKind;
use sigbank_format::model::json::{Json, Limits, Parser, write_float};
use sigbank_format::record::signal::*;

fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/signal_record").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn lines(name: &str) -> Vec<Value> {
    let limits = Limits { max_depth: 512, ..Limits::default() };
    file(name).lines().map(|line| Parser::new(line.as_bytes(), &limits).unwrap().value().unwrap()).collect()
}

fn unhex(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn json(value: &Value) -> Json {
    Json::from_value(value).unwrap()
}

fn some(value: &Value) -> Option<Json> {
    (!value.is_null()).then(|| json(value))
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(String::from)
}

fn axis(value: &Value) -> Axis {
    let coordinate = |c: &Value| Coordinate {
        values: some(&c["values"]),
        start: some(&c["start"]),
        step: some(&c["step"]),
        reference: text(&c["reference"]),
        unit: text(&c["unit"]),
        metadata: json(&c["metadata"]),
    };
    Axis {
        name: text(&value["name"]).unwrap(),
        length: value["length"].as_u64().unwrap(),
        role: text(&value["role"]),
        id: text(&value["id"]),
        coordinate: (!value["coordinate"].is_null()).then(|| coordinate(&value["coordinate"])),
        metadata: json(&value["metadata"]),
    }
}

/// What a record was made of, and its samples.
fn said(value: &Value) -> (RecordMetadata, Vec<Vec<u8>>) {
    let fields = value["fields"].as_array().unwrap();
    let field = |f: &Value| FieldMetadata {
        name: text(&f["name"]).unwrap(),
        dtype: f["dtype"].as_str().unwrap().parse().unwrap(),
        shape: f["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect(),
        axes: f["axes"].as_array().unwrap().iter().map(axis).collect(),
        metadata: json(&f["metadata"]),
    };
    let record = RecordMetadata {
        id: text(&value["id"]).unwrap(),
        scene_id: text(&value["scene_id"]),
        metadata: json(&value["metadata"]),
        fields: fields.iter().map(field).collect(),
    };
    (record, fields.iter().map(|f| unhex(&f["data"])).collect())
}

/// Fields in the order of their names.
fn sorted((mut record, data): (RecordMetadata, Vec<Vec<u8>>)) -> (RecordMetadata, Vec<Vec<u8>>) {
    let mut both: Vec<_> = record.fields.into_iter().zip(data).collect();
    both.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    let data;
    (record.fields, data) = both.into_iter().unzip();
    (record, data)
}

#[test]
fn the_normative_bytes_are_written() {
    let golden = &lines("records.jsonl")[0];
    let (record, data) = said(&golden["record"]);
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let policy = ResourcePolicy::default();
    let sha256 = |bytes: &[u8]| digest_all(&[Algorithm::Sha256], &[bytes]).remove(0);
    // Of the vectors that the specification publishes.
    assert_eq!(
        sha256(&encode(&record, &data, &policy).unwrap()),
        "ec639e1ac501e2419ab45718d0f3d4750f93a173c120e5fd82927880a6811deb"
    );
    assert_eq!(
        sha256(&encode_metadata(&record, &policy).unwrap()),
        "f3defd8a137a591ddd0e388d41abfe7ef7d05e993767dbf767d56e464ef4e237"
    );
}

#[test]
fn the_references_records_are_read_and_written_byte_for_byte() {
    let (policy, all) = (ResourcePolicy::default(), lines("records.jsonl"));
    assert_eq!(all.len(), 209);
    for line in &all {
        let (name, payload) = (&line["name"], unhex(&line["payload"]));
        let unsorted = said(&line["record"]);
        let (wanted, samples) = sorted(unsorted.clone());
        let decoded = decode(&payload, &policy).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(decoded.metadata, wanted, "{name}");
        let found: Vec<&[u8]> = decoded.data.iter().map(|range| &payload[range.clone()]).collect();
        assert_eq!(found, samples, "{name}");
        assert_eq!(encode(&decoded.metadata, &found, &policy).unwrap(), payload, "{name}");

        let (given, samples) = unsorted;
        let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
        assert_eq!(encode(&given, &samples, &policy).unwrap(), payload, "{name}");
        let document = line["document"].as_str().unwrap().as_bytes();
        assert_eq!(encode_metadata(&given, &policy).unwrap(), document, "{name}");
        assert_eq!(decode_metadata(document, &policy, &Limits::default()).unwrap(), wanted, "{name}");
    }
}

#[test]
fn each_limit_stops_where_the_references_does() {
    for line in &lines("records.jsonl") {
        let payload = unhex(&line["payload"]);
        for (limit, smallest) in line["limits"].as_object().unwrap() {
            let smallest = smallest.as_u64().unwrap();
            let with = |n: u64| {
                let mut policy = ResourcePolicy::default();
                *match limit.as_str() {
                    "max_encoded_record_bytes" => &mut policy.max_encoded_record_bytes,
                    "max_descriptor_bytes" => &mut policy.max_descriptor_bytes,
                    "max_metadata_bytes" => &mut policy.max_metadata_bytes,
                    "max_json_depth" => &mut policy.max_json_depth,
                    "max_json_nodes" => &mut policy.max_json_nodes,
                    "max_fields" => &mut policy.max_fields,
                    other => panic!("{other}"),
                } = n;
                policy
            };
            let place = format!("{} with {limit} {smallest}", line["name"]);
            let decoded = decode(&payload, &with(smallest)).unwrap_or_else(|e| panic!("{place}: {e}"));
            let data: Vec<&[u8]> = decoded.data.iter().map(|range| &payload[range.clone()]).collect();
            assert!(encode(&decoded.metadata, &data, &with(smallest)).unwrap() == payload, "{place}");
            let e = decode(&payload, &with(smallest - 1)).expect_err(&place);
            assert!(e.kind() == FormatErrorKind::Limit && e.to_string().contains(limit), "{place}: {e}");
            // What could not be read under the same policy is not written. Header and descriptor are looked at alike.
            let e = encode(&decoded.metadata, &data, &with(smallest - 1)).expect_err(&place);
            assert!(e.kind() == FormatErrorKind::Limit && e.to_string().contains(limit), "{place}: {e}");
        }
    }
}

#[test]
fn descriptors_are_refused_where_the_reference_refuses_them() {
    // What the reference reads, though it writes none of it: other empty things instead of objects and lists, texts and objects as lists
    // of values, and halves of characters;
    // and infinite numbers where it ignores the key.
    let stricter = ["not an object", "expected a list", "values are not a list", "surrogate pair", "1e400", "-1e400", "e308"];
    let (mut read, mut refused, mut strict) = (0, 0, Vec::new());
    for line in lines("refused.jsonl") {
        let descriptor = line["descriptor"].as_str().unwrap();
        let n = descriptor.len();
        let header = format!(
            r#"{{"tensor_000000":{{"dtype":"F32","shape":[3],"data_offsets":[0,12]}},"{DESCRIPTOR}":{{"dtype":"U8","shape":[{n}],"data_offsets":[12,{}]}}}}"#,
            12 + n
        );
        let mut payload = (header.len() as u64).to_le_bytes().to_vec();
        payload.extend_from_slice(header.as_bytes());
        payload.extend_from_slice(&[0; 12]);
        payload.extend_from_slice(descriptor.as_bytes());
        match (decode(&payload, &ResourcePolicy::default()), line["read"].as_bool().unwrap()) {
            (Ok(decoded), true) => {
                read += 1;
                // Written again, it is the same record in the one form.
                let data: Vec<&[u8]> = decoded.data.iter().map(|range| &payload[range.clone()]).collect();
                let again = encode(&decoded.metadata, &data, &ResourcePolicy::default()).unwrap();
                assert_eq!(decode(&again, &ResourcePolicy::default()).unwrap().metadata, decoded.metadata);
            }
            (Err(e), false) => {
                assert_ne!(e.kind(), FormatErrorKind::Invalid, "{e}");
                refused += 1;
            }
            (Err(e), true) => {
                assert!(stricter.iter().any(|s| e.to_string().contains(s)), "{e}: {descriptor}");
                strict.push(descriptor.to_owned());
            }
            (Ok(_), false) => panic!("read: {descriptor}"),
        }
    }
    assert_eq!((read, refused, strict.len()), (204, 1036, 51), "{strict:#?}");
}

#[test]
fn floats_are_written_as_python_does() {
    let mut count = 0;
    for line in file("floats.txt").lines() {
        let (bits, wanted) = line.split_once(' ').unwrap();
        let x = f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
        let mut found = String::new();
        write_float(x, &mut found);
        assert_eq!(found, wanted);
        let json = Json::parse(wanted.as_bytes(), &Limits::default()).unwrap();
        assert_eq!((json.as_str(), json.as_f64().map(f64::to_bits)), (wanted, Some(x.to_bits())));
        count += 1;
    }
    assert_eq!(count, 700);
}
