//! Small datasets of each layout, in memory.

use crate::far::p;
use sigbank::Result;
use sigbank::format::record::signal::{Axis, FieldMetadata, RecordMetadata};
use sigbank::layout::sedpack::{self, FillerOptions, Info};
use sigbank::layout::signal_dataset::{
    self, AnnotationOptions, AnnotationRow, AnnotationStatus, Options, Publication, Record, VersionPublication, Which, publish,
    publish_annotations, publish_version, write_shard,
};
use sigbank::layout::{Layout, Source, detect};
use sigbank::store::{MemoryStore, Store};
use std::collections::BTreeMap;
use std::sync::Arc;

pub type Shared = Arc<dyn Store>;

pub fn memory() -> Shared {
    Arc::new(MemoryStore::new())
}

pub fn fill(store: &Shared, split: &str, values: std::ops::Range<u8>) {
    let dataset = sedpack::Dataset::open_store(store.clone(), Default::default()).unwrap();
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    values.for_each(|v| filler.append(split, &[&[v; 9]], None).unwrap());
    filler.finish().unwrap();
}

pub fn sedpack_of(name: &str) -> Shared {
    let structure = serde_json::json!({"saved_data_description": [{"name": name, "dtype": "uint8", "shape": [9]}],
        "examples_per_shard": 4, "compression": "", "hash_checksum_algorithms": ["xxh64", "sha256"]});
    let store = memory();
    let info = Info::new(Default::default(), structure.as_object().cloned().unwrap()).unwrap();
    sedpack::Dataset::create_store(store.clone(), info).unwrap();
    fill(&store, "train", 0..10);
    fill(&store, "test", 10..15);
    store.create(&p("train/orphan.fb"), &[b"named by nothing"]).unwrap();
    store
}

pub fn sedpack() -> Shared {
    sedpack_of("x")
}

pub fn record(i: u64) -> Result<Record> {
    let field = FieldMetadata { axes: vec![Axis::new("t", 20)], ..FieldMetadata::new("x", "uint8".parse().unwrap(), vec![20]) };
    Ok(Record { metadata: RecordMetadata::new(format!("r{i}"), vec![field]), data: vec![vec![i as u8; 20].into()] })
}

pub fn annotate(store: &Shared, name: &str) {
    let dataset = signal_dataset::Dataset::open_store(store.clone(), Options::default()).unwrap();
    let rows = (0..dataset.len()).map(|i| Ok(AnnotationRow::new(format!("r{i}"), i, AnnotationStatus::Success)));
    let options = AnnotationOptions { publication_id: Some("p".into()), ..Default::default() };
    publish_annotations(&dataset, name, rows, &options).unwrap();
}

pub fn version(store: &Shared, name: &str, records: std::ops::Range<u64>) {
    let options = Options::default();
    let shard = write_shard(&**store, records.map(record), name, 0, &options).unwrap();
    let publication = VersionPublication { base: Some(Which::Latest), ..VersionPublication::new(name) };
    publish_version(store, &[shard], &publication, &options).unwrap();
}

pub fn signal_of(compat: bool) -> Shared {
    let (store, options) = (memory(), Options { shards_per_manifest: 2, compat, ..Options::default() });
    let shard = |n: u64| write_shard(&*store, (n * 5..n * 5 + 5).map(record), &format!("w{n}"), 0, &options).unwrap();
    let shards: Vec<_> = (0..3).map(shard).collect();
    shard(7); // Published by nobody.
    publish(&store, &shards, &Publication::new("d", "v1"), &options).unwrap();
    annotate(&store, "labels");
    version(&store, "more", 15..18);
    store
}

pub fn signal() -> Shared {
    signal_of(false)
}

/// All that is there.
pub fn objects(store: &Shared) -> BTreeMap<String, Vec<u8>> {
    let names: Vec<_> = store.list(None).unwrap().map(|entry| entry.unwrap().path).collect();
    names.into_iter().map(|name| (name.as_str().to_owned(), store.get(&name).unwrap().to_vec())).collect()
}

/// Every record that can be read, and that all of it is right.
pub fn check(store: &Shared) -> u64 {
    match detect(&**store).unwrap() {
        Some(Layout::Sedpack) => {
            let dataset = sedpack::Dataset::open_store(store.clone(), Default::default()).unwrap();
            dataset.verify(&mut |_, _| true).unwrap().records
        }
        Some(Layout::SignalDataset) => {
            let dataset = signal_dataset::Dataset::open_store(store.clone(), Options::default()).unwrap();
            dataset.verify(&mut |_, _| true).unwrap();
            let newest = dataset.version(&Which::Latest).unwrap();
            newest.verify(&mut |_, _| true).unwrap().records
        }
        _ => panic!("no dataset"),
    }
}
