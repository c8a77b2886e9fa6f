//! Datasets for the reference package to read: `testdata/signal_dataset/live.py` runs this and compares.

use super::annotations::{row, rows};
use super::support::*;
use sigbank::layout::signal_dataset::{
    AnnotationOptions, Dataset, Options, Publication, publish, publish_annotation_shards, publish_annotations,
    write_annotation_shard, write_shard,
};
use sigbank::store::{LocalStore, Store};
use std::path::Path;
use std::sync::Arc;

fn folder() -> String {
    std::env::var("SIGNAL_DATASET_LIVE").unwrap()
}

fn local(base: &str, name: &str) -> Arc<dyn Store> {
    Arc::new(LocalStore::create(Path::new(base).join(name)).unwrap())
}

#[test]
#[ignore = "needs the reference package"]
fn ours_for_the_reference() {
    let base = folder();
    for compat in [false, true] {
        let name = |what: &str| format!("{what}{}", if compat { " compat" } else { "" });
        let options = Options { compat, shards_per_manifest: 3, ..options() };
        let uniform = dataset(&local(&base, &name("uniform")), 100, 13, &options);
        publish_annotations(
            &uniform,
            "at-once",
            rows(0..100),
            &AnnotationOptions { records_per_shard: 30, ..Default::default() },
        )
        .unwrap();
        let part = |first: u64, last: u64| {
            let rows = (first..last).map(row).collect();
            write_annotation_shard(&uniform, "by-workers", "p", first, rows, &format!("part-{first}")).unwrap()
        };
        let parts = [part(60, 100), part(0, 60)];
        publish_annotation_shards(&uniform, "by-workers", "p", &parts, &AnnotationOptions::default()).unwrap();
        let store = local(&base, &name("ragged"));
        let shard = write_shard(&*store, (0..50).map(|i| Ok(ragged(i))), "w", 7, &options).unwrap();
        publish(&store, &[shard], &Publication::new("ragged é", "s"), &options).unwrap();
        let view = uniform.select((0..60).map(|i| i * 37 % 100).chain([4, 5, 6, 6, 5]).collect()).unwrap();
        view.publish(&local(&base, &name("view")), &Publication::new("view", "s"), &options).unwrap();
        view.materialize(&local(&base, &name("copy")), &Publication::new("copy", "s"), 20, &options).unwrap();
    }
    // What the reference is to finish: all but the root, and only the shards.
    let store = local(&base, "unfinished");
    let options = Options { compat: true, ..options() };
    dataset(&store, 20, 7, &options);
    store.delete(&path("root.json")).unwrap();
}

#[test]
#[ignore = "needs the reference package"]
fn the_references_by_us() {
    let root = Path::new(&folder()).join("theirs");
    let dataset = Dataset::open(&root, options()).unwrap();
    assert_eq!(dataset.verify(&mut |_, _| true).unwrap().records, 100);
    for name in ["theirs", "ours"] {
        let rows: Vec<_> = dataset.annotations().unwrap().open("theirs").unwrap().rows().map(Result::unwrap).collect();
        assert_eq!(rows, (0..100).map(row).collect::<Vec<_>>());
        if name == "theirs" {
            publish_annotations(&dataset, "ours", rows.into_iter().map(Ok), &AnnotationOptions::default()).unwrap();
        }
    }
    for (record, i) in dataset.batches(0..100).flat_map(Result::unwrap).zip(0..) {
        let expected = super::support::record(i);
        assert_eq!((record.metadata(), record.field(0)), (&expected.metadata, expected.data[0].clone()));
    }
    // The same records written by us are the reference's shards.
    let shard = write_shard(&**dataset.store(), records(0..60), "a", 1, &Options { compat: true, ..options() }).unwrap();
    assert_eq!(shard.data, dataset.page(0).unwrap().shards[0].data);
}
