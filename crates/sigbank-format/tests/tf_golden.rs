//! TFRecord shards that the reference and TensorFlow wrote, and ours that both read (see `testdata/tfrecord/make.py`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::Read;
use std::path::PathBuf;

use serde_json::Value;
use sigbank_format::Result;
use sigbank_format::compress::{Compression, decoder, encode, encode_zlib, zlib_decoder};
use sigbank_format::container::Places;
use sigbank_format::container::tfrecord::{Records, frame_with};
use sigbank_format::error::FormatErrorKind;
use sigbank_format::model::{Field, FieldType, Schema};
use sigbank_format::record::tf_example::Codec;

const SUFFIXES: [&str; 3] = [".tfrec", ".gzip.tfrec", ".zlib.tfrec"];

fn dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tfrecord")
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(dir().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The bytes of a shard, decompressed as its name says.
fn decompressed(name: &str, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut reader: Box<dyn Read> = match name {
        _ if name.ends_with(".gzip.tfrec") => decoder(Compression::Gzip, Box::new(data)).unwrap(),
        _ if name.ends_with(".zlib.tfrec") => zlib_decoder(Box::new(data)),
        _ => Box::new(data),
    };
    reader.read_to_end(&mut out).unwrap();
    out
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// What a JSON file declares, and each record's values in that order.
struct Said {
    schema: Schema,
    records: Vec<Vec<Vec<u8>>>,
}

fn said(name: &str) -> Said {
    let json: Value = serde_json::from_slice(&file(name)).unwrap();
    let field = |a: &Value| {
        let shape: Vec<usize> = a["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
        let ty = match a["dtype"].as_str().unwrap() {
            "int" => FieldType::Int,
            "str" => FieldType::Str,
            "bytes" => FieldType::Bytes { len: shape.first().copied() },
            dtype => FieldType::Array { dtype: dtype.parse().unwrap(), shape },
        };
        Field { name: a["name"].as_str().unwrap().into(), ty, metadata: Default::default() }
    };
    let schema = Schema { fields: json["attributes"].as_array().unwrap().iter().map(field).collect() };
    let record = |r: &Value| schema.fields.iter().map(|f| unhex(r[&f.name].as_str().unwrap())).collect();
    let records = json["records"].as_array().unwrap().iter().map(record).collect();
    Said { schema, records }
}

#[derive(Default)]
struct Values(Vec<Vec<u8>>);

impl Places for Values {
    fn place(&mut self, row: usize, field: usize, len: usize) -> Result<&mut [u8]> {
        assert_eq!((row, field), (7, self.0.len()));
        self.0.push(vec![0xaa; len]);
        Ok(self.0.last_mut().unwrap())
    }
}

fn values(codec: &Codec, record: &[u8], fields: &[usize]) -> Result<Vec<Vec<u8>>> {
    let mut values = Values::default();
    codec.decode(record, 7, fields, &mut values)?;
    Ok(values.0)
}

fn check(name: &str, said: &Said) {
    let codec = Codec::new(&said.schema).unwrap();
    let all: Vec<usize> = (0..said.schema.fields.len()).collect();
    let data = decompressed(name, &file(name));
    let mut records = Records::new(&data[..]);
    for (i, wanted) in said.records.iter().enumerate() {
        let record = records.next().unwrap().unwrap();
        let found = values(&codec, record, &all).unwrap_or_else(|e| panic!("{name} record {i}: {e}"));
        for ((found, wanted), field) in found.iter().zip(wanted).zip(&said.schema.fields) {
            assert_eq!(found, wanted, "{name}, record {i}, {}", field.name);
        }
        // Backwards, and one alone.
        let reversed: Vec<usize> = all.iter().rev().copied().collect();
        assert!(values(&codec, record, &reversed).unwrap().iter().rev().eq(wanted), "{name}");
        let last = all.len() - 1;
        assert_eq!(values(&codec, record, &[last]).unwrap(), wanted[last..], "{name}");
    }
    assert_eq!(records.next().unwrap(), None);
}

#[test]
fn the_references_shards_are_read() {
    let said = said("kinds.json");
    assert_eq!((said.records.len(), said.schema.fields.len()), (4, 13));
    SUFFIXES.iter().for_each(|suffix| check(&format!("kinds{suffix}"), &said));
    assert_eq!(file("kinds.zlib.tfrec")[..2], [0x78, 0x9c]);
}

#[test]
fn what_the_reference_makes_of_float64_is_read_and_not_written() {
    let doubles = said("float64.json");
    check("float64.tfrec", &doubles);
    let codec = Codec::new(&doubles.schema).unwrap();
    let e = codec.writable().unwrap_err();
    assert_eq!(e.kind(), FormatErrorKind::Unsupported);
    for word in ["'double'", "float64", "use float32", "\"fb\""] {
        assert!(e.to_string().contains(word), "{e}");
    }
    let mut out = b"before".to_vec();
    assert!(codec.encode(&[&[0; 16]], &mut out).is_err());
    assert_eq!(out, b"before");
}

#[test]
fn what_any_protobuf_encoder_may_write_is_read() {
    check("foreign.tfrec", &said("foreign.json"));
}

/// The records of `said` as we write them.
fn written(said: &Said) -> Vec<u8> {
    let codec = Codec::new(&said.schema).unwrap();
    codec.writable().unwrap();
    let mut out = Vec::new();
    for values in &said.records {
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        frame_with(&mut out, |out| codec.encode(&values, out)).unwrap();
    }
    out
}

fn octets() -> Said {
    let field = Field { name: "octets".into(), ty: FieldType::Bytes { len: Some(4) }, metadata: Default::default() };
    Said { schema: Schema { fields: vec![field] }, records: vec![vec![b"a\0\xffd".to_vec()], vec![vec![0; 4]]] }
}

#[test]
fn our_bytes_stay() {
    let (kinds, octets) = (said("kinds.json"), octets());
    assert_eq!(file("ours/kinds.tfrec"), written(&kinds));
    assert_eq!(file("ours/octets.tfrec"), written(&octets));
    SUFFIXES.iter().for_each(|suffix| check(&format!("ours/kinds{suffix}"), &kinds));
    check("ours/octets.tfrec", &octets);
    // And their packed size is the reference's, whose map is in another order.
    assert_eq!(file("ours/kinds.tfrec").len(), file("kinds.tfrec").len());
}

/// Run with `--ignored` after a wanted change of bytes, then `make.py --check`.
#[test]
#[ignore = "writes testdata/tfrecord/ours"]
fn write_ours() {
    let plain = written(&said("kinds.json"));
    std::fs::create_dir_all(dir().join("ours")).unwrap();
    let write = |name: &str, data: &[u8]| std::fs::write(dir().join("ours").join(name), data).unwrap();
    write("kinds.tfrec", &plain);
    let mut out = Vec::new();
    encode(Compression::Gzip, &[&plain], &mut out).unwrap();
    write("kinds.gzip.tfrec", &out);
    encode_zlib(&[&plain], &mut out).unwrap();
    write("kinds.zlib.tfrec", &out);
    write("octets.tfrec", &written(&octets()));
}
