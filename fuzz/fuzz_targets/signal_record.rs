//! Any bytes as a signal-dataset record, as its header, its descriptor, its document of the metadata shard, and as JSON. The header's
//! lengths are mended, for they would keep the fuzzer from what is behind them. What is read must survive being written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sigbank_format::error::FormatErrorKind;
use sigbank_format::model::json::{Json, Limits};
use sigbank_format::record::signal::{RecordMetadata, ResourcePolicy, decode, decode_metadata, encode, encode_metadata};

/// The fields x and y, tensors a (three float32) and b (two int16).
const DESCRIPTOR: &str = r#"{"fields":{"x":{"axes":[{"length":3,"name":"t"}],"tensor":"a"},"y":{"axes":[{"length":2,"name":"t"}],"tensor":"b"}},"format":"signal-dataset.record","id":"r","version":"0.1"}"#;
const DATA: usize = 16;

fn payload(header: &[u8], descriptor: &[u8]) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(header);
    out.extend_from_slice(&[7; DATA]);
    out.extend_from_slice(descriptor);
    out
}

fn header(descriptor: usize) -> String {
    format!(
        r#"{{"a":{{"dtype":"F32","shape":[3],"data_offsets":[0,12]}},"b":{{"dtype":"I16","shape":[2],"data_offsets":[12,16]}},"__sds_descriptor__":{{"dtype":"U8","shape":[{descriptor}],"data_offsets":[16,{}]}}}}"#,
        DATA + descriptor
    )
}

fn sorted(mut record: RecordMetadata) -> RecordMetadata {
    record.fields.sort_by(|a, b| a.name.cmp(&b.name));
    record
}

fn record(payload: &[u8], policy: &ResourcePolicy) {
    let Ok(decoded) = decode(payload, policy) else { return };
    let data: Vec<&[u8]> = decoded.data.iter().map(|range| &payload[range.clone()]).collect();
    // Scalars are not written; and what left out much may be too long when it is said.
    let written = match encode(&decoded.metadata, &data, policy) {
        Ok(written) => written,
        Err(e) if e.kind() == FormatErrorKind::Limit => return,
        Err(e) => return assert!(e.to_string().contains("a scalar"), "{e}"),
    };
    let again = decode(&written, policy).expect("was written");
    assert!(again.metadata == sorted(decoded.metadata));
    let found: Vec<&[u8]> = again.data.iter().map(|range| &written[range.clone()]).collect();
    assert!(encode(&again.metadata, &found, policy).expect("was written") == written);
    document(&encode_metadata(&again.metadata, policy).expect("is a record"), policy);
}

fn document(text: &[u8], policy: &ResourcePolicy) {
    let Ok(record) = decode_metadata(text, policy, &Limits::default()) else { return };
    match encode_metadata(&record, policy) {
        Ok(written) => {
            let again = decode_metadata(&written, policy, &Limits::default()).expect("was written");
            assert!(again == sorted(record));
        }
        Err(e) => assert!(e.kind() == FormatErrorKind::Limit, "{e}"),
    }
}

fuzz_target!(|input: &[u8]| {
    let policy = ResourcePolicy::default();
    record(input, &policy);
    record(&payload(input, DESCRIPTOR.as_bytes()), &policy);
    record(&payload(header(input.len()).as_bytes(), input), &policy);
    document(input, &policy);
    if let Ok(json) = Json::parse(input, &Limits::default()) {
        let again = |text: &str| Json::parse(text.as_bytes(), &Limits::default()).expect("was written");
        assert!(again(json.as_str()) == json);
        assert!(Json::from_value(&json.to_value().expect("was read")).expect("was read") == json);
        let mut indented = String::new();
        json.write_indented(&mut indented);
        assert!(again(&indented) == json && json.equals(&json));
    }
});
