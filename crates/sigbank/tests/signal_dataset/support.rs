//! Records and datasets to test with.

use bytes::Bytes;
use serde_json::Value;
use sigbank::Result;
use sigbank::format::compress::{Compression, decode};
use sigbank::format::model::json::{Json, Limits};
use sigbank::format::record::signal::{Axis, FieldMetadata, RecordMetadata};
use sigbank::layout::signal_dataset::{Dataset, Options, Publication, PublishedShard, Record, publish, write_shard};
use sigbank::store::{Expected, LocalStore, MemoryStore, Store};
use sigbank::uri::RelPath;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

pub fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Limits::default()).unwrap()
}

fn lines(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/signal_dataset").join(file);
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// The objects of a golden dataset; `of` is the root that a view's references begin with.
pub fn golden(dataset: &str, of: &str) -> BTreeMap<String, Vec<u8>> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut objects = BTreeMap::new();
    for row in lines("objects.jsonl").iter().filter(|row| row["dataset"] == dataset) {
        let name = row["path"].as_str().unwrap().to_owned();
        match row["text"].as_str() {
            Some(text) => {
                texts.insert(name, text.replace("@ROOT@", of));
            }
            None => {
                let bytes = decode(Compression::Gzip, &unhex(row["gzip"].as_str().unwrap()), None, 1 << 20).unwrap();
                objects.insert(name, bytes);
            }
        }
    }
    // Documents name the lengths of others: pages first, the root last.
    for name in ["manifests/", "snapshots/", "annotations/", "root.json"] {
        let these: Vec<String> = texts.keys().filter(|known| known.starts_with(name)).cloned().collect();
        for name in these {
            let text = texts[&name].clone();
            for other in texts.values_mut() {
                *other = other.replace(&format!("@{name}@"), &text.len().to_string());
            }
            objects.insert(name, text.into_bytes());
        }
    }
    objects
}

/// What the golden dataset's records are: document, samples by field.
pub fn golden_records(dataset: &str) -> Vec<(String, BTreeMap<String, Vec<u8>>)> {
    let rows = lines("records.jsonl");
    let of = rows.iter().filter(|row| row["dataset"] == dataset);
    of.map(|row| {
        let fields = row["fields"].as_object().unwrap();
        let fields = fields.iter().map(|(name, hex)| (name.clone(), unhex(hex.as_str().unwrap()))).collect();
        (row["document"].as_str().unwrap().to_owned(), fields)
    })
    .collect()
}

pub fn write_dir(root: &Path, objects: &BTreeMap<String, Vec<u8>>) {
    let store = LocalStore::create(root).unwrap();
    for (name, bytes) in objects {
        store.create(&path(name), &[bytes]).unwrap();
    }
}

/// A record whose samples and metadata tell its number.
pub fn record(i: u64) -> Record {
    let samples: Vec<u8> = (0..40).flat_map(|n| (i as f32 * 100.0 + n as f32).to_le_bytes()).collect();
    let axes = vec![Axis::new("channel", 2), Axis::new("time", 20)];
    let field = FieldMetadata { axes, ..FieldMetadata::new("x", "float32".parse().unwrap(), vec![2, 20]) };
    let metadata =
        RecordMetadata { metadata: json(&format!(r#"{{"number":{i}}}"#)), ..RecordMetadata::new(format!("r{i}"), vec![field]) };
    Record { metadata, data: vec![samples.into()] }
}

/// A record with one uint8 field of another length each.
pub fn ragged(i: u64) -> Record {
    let axes = vec![Axis::new("t", i % 7)];
    let field = FieldMetadata { axes, ..FieldMetadata::new("x", "uint8".parse().unwrap(), vec![(i % 7) as usize]) };
    Record {
        metadata: RecordMetadata::new(format!("r{i}"), vec![field]),
        data: vec![Bytes::from(vec![i as u8; (i % 7) as usize])],
    }
}

pub fn records(range: std::ops::Range<u64>) -> impl Iterator<Item = Result<Record>> {
    range.map(|i| Ok(record(i)))
}

pub fn options() -> Options {
    Options { threads: 2, ..Options::default() }
}

/// Shards of `size` records each, up to `records`.
pub fn shards(store: &dyn Store, records: u64, size: u64, options: &Options) -> Vec<PublishedShard> {
    let one = |first: u64| {
        let range = first..(first + size).min(records);
        write_shard(store, self::records(range), &format!("w{first:06}"), 0, options).unwrap()
    };
    (0..records).step_by(size as usize).map(one).collect()
}

pub fn dataset(store: &Arc<dyn Store>, records: u64, size: u64, options: &Options) -> Dataset {
    let shards = shards(&**store, records, size, options);
    publish(store, &shards, &Publication::new("test", "v1"), options).unwrap()
}

pub fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

pub fn replace(store: &dyn Store, name: &str, bytes: &[u8]) {
    store.replace(&path(name), &[bytes], Expected::Any).unwrap();
}

/// The number that a record of [`record`] tells.
pub fn number(metadata: &RecordMetadata) -> u64 {
    metadata.id[1..].parse().unwrap()
}
