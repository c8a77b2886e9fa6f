//! Records by ordinal, ahead, on threads.

use super::support::*;
use sigbank::Code;
use sigbank::layout::signal_dataset::{Dataset, Options, Publication, publish, write_shard};
use sigbank::layout::{Collected, Source};
use sigbank::store::fault::{FaultStore, Op};
use sigbank::store::{MemoryStore, Store};
use std::sync::Arc;

#[test]
fn any_ordinals_in_any_order() {
    let store = memory();
    let written = dataset(&store, 1000, 130, &Options { shards_per_manifest: 3, ..options() });
    for threads in [1, 2, 7] {
        let options = Options { threads, max_open_shards: 2, manifest_cache_pages: 1, ..Options::default() };
        let dataset = Dataset::open_store(store.clone(), options).unwrap();
        assert_eq!(dataset.root_digest(), written.root_digest());
        let shuffled: Vec<u64> = (0..3000).map(|i| i * 7919 % 1000).collect();
        let read = dataset.read(&shuffled).unwrap();
        for (record, &ordinal) in read.iter().zip(&shuffled) {
            let expected = super::support::record(ordinal);
            assert_eq!((record.metadata(), record.field(0)), (&expected.metadata, expected.data[0].clone()));
        }
        let said = dataset.read_metadata(&shuffled).unwrap();
        assert!(said.iter().zip(&read).all(|(said, record)| said == record.metadata()));
        assert!(dataset.read(&[]).unwrap().is_empty());
        let e = dataset.read(&[0, 1000]).unwrap_err();
        assert!(e.code() == Code::NotFound && e.message().contains("no record 1000: the dataset has 1000"), "{e}");
        assert_eq!(dataset.record(u64::MAX).unwrap_err().code(), Code::NotFound);
    }
}

#[test]
fn reading_ahead_keeps_the_order_and_the_budget() {
    let store = memory();
    dataset(&store, 1000, 130, &options());
    for (threads, read_ahead_bytes) in [(1, 0), (1, 1 << 20), (4, 0), (4, 5000), (4, 1 << 24)] {
        let options = Options { threads, read_ahead_bytes, ..Options::default() };
        let dataset = Dataset::open_store(store.clone(), options).unwrap();
        for (start, stop) in [(0, 1000), (129, 131), (500, 500), (999, 5000), (7, 3)] {
            let got: Vec<u64> = dataset.batches(start..stop).flat_map(Result::unwrap).map(|r| number(r.metadata())).collect();
            assert_eq!(got, (start.min(stop)..stop.min(1000)).filter(|n| *n >= start).collect::<Vec<_>>());
            let said: Vec<u64> = dataset.metadata_batches(start..stop).flat_map(Result::unwrap).map(|m| number(&m)).collect();
            assert_eq!(said, got);
        }
        // Ended early: the threads end too.
        let mut some = dataset.batches(0..1000);
        assert_eq!(number(some.next().unwrap().unwrap()[0].metadata()), 0);
        drop(some);
    }
}

#[test]
fn an_error_ends_reading_ahead() {
    let store = memory();
    let dataset = dataset(&store, 1000, 100, &options());
    let broken = dataset.page(0).unwrap().shards[4].data.path.to_string();
    store.delete(&path(&broken)).unwrap();
    let fresh = Dataset::open_store(store, options()).unwrap();
    let mut batches = fresh.batches(0..1000);
    let mut got = 0;
    let e = loop {
        match batches.next().unwrap() {
            Ok(batch) => got += batch.len(),
            Err(e) => break e,
        }
    };
    assert!(got <= 400 && e.code() == Code::NotFound && e.path().unwrap().ends_with(&broken), "{got} {e}");
    assert!(batches.next().is_none());
}

/// Opening reads the root and the snapshot, however many records there are; a record costs one open and two reads, then one.
#[test]
fn no_more_is_read_than_is_needed() {
    let inner = Arc::new(MemoryStore::new());
    dataset(&(inner.clone() as Arc<dyn Store>), 3000, 1000, &options());
    let store = Arc::new(FaultStore::new(inner as Arc<dyn Store>));
    let dataset = Dataset::open_store(store.clone(), options()).unwrap();
    let count = |op| store.log().iter().filter(|(o, _)| *o == op).count();
    assert_eq!((count(Op::Get), count(Op::OpenRead), count(Op::List)), (2, 0, 0));
    dataset.record(1500).unwrap();
    assert_eq!((count(Op::Get), count(Op::OpenRead)), (3, 1));
    let reads = count(Op::ReadAt);
    assert!(reads <= 3, "{reads}");
    dataset.record(1501).unwrap();
    dataset.record(1001).unwrap();
    assert_eq!((count(Op::OpenRead), count(Op::ReadAt)), (1, reads + 2));
    // Neighbours are one read.
    dataset.read(&(1200..1300).collect::<Vec<_>>()).unwrap();
    assert_eq!(count(Op::ReadAt), reads + 3);
    // What is said of a record is read without its samples.
    dataset.record_metadata(1500).unwrap();
    assert!(store.log().iter().filter(|(op, _)| *op == Op::OpenRead).skip(1).all(|(_, path)| path.contains("objects/metadata/")));
    assert_eq!(count(Op::List), 0);
}

/// The shards used last stay open, no more of them than were asked for.
#[test]
fn few_shards_are_kept_open() {
    let inner = Arc::new(MemoryStore::new());
    dataset(&(inner.clone() as Arc<dyn Store>), 40, 10, &options());
    let opens = |max_open_shards: usize, ordinals: &[u64]| {
        let store = Arc::new(FaultStore::new(inner.clone() as Arc<dyn Store>));
        let dataset = Dataset::open_store(store.clone(), Options { max_open_shards, ..options() }).unwrap();
        ordinals.iter().for_each(|&i| drop(dataset.record(i).unwrap()));
        store.log().iter().filter(|(op, _)| *op == Op::OpenRead).count()
    };
    assert_eq!(opens(2, &[0, 10, 1, 11, 2]), 2);
    assert_eq!(opens(2, &[0, 10, 20, 0, 20, 30, 20]), 5);
    assert_eq!(opens(1, &[0, 10, 1, 11]), 4);
    assert_eq!(opens(4, &[0, 10, 20, 30, 0, 10, 20, 30]), 4);
}

#[test]
fn read_instructions_name_runs() {
    let dataset = dataset(&memory(), 10, 4, &options());
    let runs = |start, stop| {
        let runs = dataset.read_instructions(start, stop, false).unwrap();
        runs.iter().map(|r| (r.first_ordinal, r.skip, r.take, r.examples_in_shard)).collect::<Vec<_>>()
    };
    assert_eq!(runs(0, 10), [(0, 0, 4, 4), (4, 0, 4, 4), (8, 0, 2, 2)]);
    assert_eq!(runs(3, 9), [(3, 3, 1, 4), (4, 0, 4, 4), (8, 0, 1, 2)]);
    assert_eq!(runs(9, 99), [(9, 1, 1, 2)]);
    assert_eq!(runs(5, 5), []);
    assert!(dataset.read_instructions(0, 1, true).unwrap()[0].filename.contains("objects/metadata/"));
}

#[test]
fn as_a_source_ragged_fields_are_bytes() {
    let store = memory();
    let shard = write_shard(&*store, (0..50).map(|i| Ok(ragged(i))), "w", 0, &options()).unwrap();
    let dataset = publish(&store, &[shard], &Publication::new("d", "s"), &options()).unwrap();
    let source = dataset.source().unwrap();
    let field = &source.schema().fields[0];
    assert_eq!((field.ty.to_string().as_str(), &field.metadata["dtype"]), ("bytes", &"uint8".into()));
    assert_eq!(field.metadata["axes"], serde_json::json!([{"name": "t"}]));
    let mut out = Collected::new(3, 1);
    source.read_unit("all", 0, &[3, 7, 48], &[0], &mut out).unwrap();
    assert_eq!(out.into_values(), [vec![3; 3], vec![], vec![48; 6]]);
    assert_eq!((source.splits()[0].records, source.units("all").unwrap().len()), (50, 1));
    assert!(source.unit_name("all", 0).unwrap().starts_with("objects/data/"));
    assert_eq!(source.unit_name("all", 1).unwrap_err().code(), Code::NotFound);
    assert_eq!(source.units("train").unwrap_err().code(), Code::NotFound);
    assert_eq!(source.root_digest().unwrap(), format!("sha256:{}", dataset.root_digest()));
}
