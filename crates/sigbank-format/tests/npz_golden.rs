//! The npz shards in testdata/npz, most of which the Sedpack reference wrote: value for value, and what we write byte for byte.
#![cfg(feature = "npz")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod npz_support;

use npz_support::{Value, array, build, field, open, read, read_all};
use serde_json::Value as Json;
use sigbank_format::model::{FieldType, Schema};
use std::path::PathBuf;

struct Golden {
    file: Vec<u8>,
    json: Json,
    schema: Schema,
    /// What each field's values are stored as, where that differs.
    stored: Vec<Option<FieldType>>,
    records: Vec<Vec<Vec<u8>>>,
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn shape(json: &Json) -> Vec<usize> {
    json.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
}

impl Golden {
    fn load(name: &str) -> Self {
        let path = |ext| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/npz").join(format!("{name}.{ext}"));
        let file = std::fs::read(path("npz")).unwrap();
        let json: Json = serde_json::from_slice(&std::fs::read(path("json")).unwrap()).unwrap();
        let declared = |f: &Json| {
            let (name, dtype, shape) = (f[0].as_str().unwrap(), f[1].as_str().unwrap(), shape(&f[2]));
            let ty = match dtype {
                "int" => FieldType::Int,
                "str" => FieldType::Str,
                "bytes" => FieldType::Bytes { len: shape.first().copied() },
                other => array(other, &shape),
            };
            field(name, ty)
        };
        let schema = Schema { fields: json["fields"].as_array().unwrap().iter().map(declared).collect() };
        let stored = |name: &str| json["stored"].get(name).map(|ty| array(ty[0].as_str().unwrap(), &shape(&ty[1])));
        let value = |ty: &FieldType, v: &Json| match ty {
            FieldType::Int => v.as_i64().unwrap().to_le_bytes().to_vec(),
            FieldType::Str => v.as_str().unwrap().as_bytes().to_vec(),
            _ => hex(v.as_str().unwrap()),
        };
        let record = |r: &Json| r.as_array().unwrap().iter().zip(&schema.fields).map(|(v, f)| value(&f.ty, v)).collect();
        let records = json["records"].as_array().unwrap().iter().map(record).collect();
        Self { stored: schema.fields.iter().map(|f| stored(&f.name)).collect(), file, schema, records, json }
    }

    fn expected(&self, record: usize, field: usize) -> Value {
        (self.stored[field].clone(), self.records[record][field].clone())
    }
}

const ALL: [&str; 12] = [
    "kinds-none",
    "kinds-zip",
    "one-none",
    "one-zip",
    "bytes-empty-none",
    "bytes-empty-zip",
    "many-none",
    "many-zip",
    "names",
    "other-dtypes",
    "int-other",
    "foreign-order",
];

#[test]
fn every_shard_is_read_value_for_value() {
    let mut values = 0;
    for name in ALL {
        let golden = Golden::load(name);
        let fields = golden.schema.fields.len();
        let mut shard = open(golden.file.clone(), &golden.schema).unwrap();
        assert_eq!(shard.records().unwrap(), golden.records.len() as u64, "{name}");
        let found = read_all(&mut shard, fields).unwrap();
        for (r, record) in found.into_iter().enumerate() {
            for (f, value) in record.into_iter().enumerate() {
                assert_eq!(value, golden.expected(r, f), "{name}: record {r}, {}", golden.schema.fields[f].name);
                values += 1;
            }
        }
        // Some of it, fields in another order, from a fresh reader that did not count the records.
        let mut shard = open(golden.file.clone(), &golden.schema).unwrap();
        let records: Vec<u32> = (0..golden.records.len() as u32).step_by(2).collect();
        let order: Vec<usize> = (0..fields).rev().step_by(2).collect();
        for (row, &r) in read(&mut shard, &records, &order).unwrap().into_iter().zip(&records) {
            for (value, &f) in row.into_iter().zip(&order) {
                assert_eq!(value, golden.expected(r as usize, f), "{name}: record {r}, {}", golden.schema.fields[f].name);
            }
        }
        let differing: Vec<_> = golden.stored.iter().cloned().enumerate().filter_map(|(i, ty)| Some((i, ty?))).collect();
        assert_eq!(shard.differing().unwrap(), differing, "{name}");
    }
    assert_eq!(values, 2 * (7 * 23 + 23 + 6 + 120) + 24 + 12 + 8 + 32);
}

#[test]
fn stored_shards_are_written_byte_for_byte_as_the_reference_does() {
    for name in ["kinds-none", "one-none", "bytes-empty-none", "many-none", "names"] {
        let golden = Golden::load(name);
        assert_eq!(golden.json["writer"], "sedpack");
        let ours = build(&golden.schema, &golden.records, false);
        let differs = ours.iter().zip(&golden.file).position(|(a, b)| a != b);
        assert!(ours == golden.file, "{name}: {} bytes for {}, from {differs:?} on", ours.len(), golden.file.len());
    }
}

#[test]
fn deflated_shards_have_the_members_of_the_reference_and_are_no_larger() {
    for name in ["kinds-zip", "one-zip", "bytes-empty-zip", "many-zip"] {
        let golden = Golden::load(name);
        let ours = build(&golden.schema, &golden.records, true);
        let slack = golden.file.len() / 50;
        assert!(ours.len() <= golden.file.len() + slack, "{name}: {} bytes for {}", ours.len(), golden.file.len());
        let mut a = zip::ZipArchive::new(std::io::Cursor::new(&ours)).unwrap();
        let mut b = zip::ZipArchive::new(std::io::Cursor::new(&golden.file)).unwrap();
        assert_eq!(a.len(), b.len());
        for i in 0..a.len() {
            let (mut a, mut b) = (a.by_index(i).unwrap(), b.by_index(i).unwrap());
            assert_eq!(a.name_raw(), b.name_raw());
            assert_eq!((a.compression(), a.crc32(), a.size()), (b.compression(), b.crc32(), b.size()));
            assert_eq!(
                (a.unix_mode(), a.last_modified(), a.version_made_by()),
                (b.unix_mode(), b.last_modified(), b.version_made_by())
            );
            let (mut one, mut other) = (Vec::new(), Vec::new());
            std::io::Read::read_to_end(&mut a, &mut one).unwrap();
            std::io::Read::read_to_end(&mut b, &mut other).unwrap();
            assert!(one == other, "{name}: {:?}", a.name());
        }
        let mut shard = open(ours, &golden.schema).unwrap();
        let found = read_all(&mut shard, golden.schema.fields.len()).unwrap();
        let values: Vec<Vec<Vec<u8>>> = found.into_iter().map(|r| r.into_iter().map(|v| v.1).collect()).collect();
        assert_eq!(values, golden.records, "{name}");
    }
}
