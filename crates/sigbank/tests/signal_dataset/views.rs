//! Selections, published by reference and copied.

use super::support::*;
use sigbank::Code;
use sigbank::layout::signal_dataset::{Dataset, Options, Publication};
use sigbank::store::{LocalStore, Store};
use std::sync::Arc;

fn local(dir: &std::path::Path, name: &str) -> Arc<dyn Store> {
    Arc::new(LocalStore::create(dir.join(name)).unwrap())
}

#[test]
fn a_view_by_reference_and_a_copy_hold_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let base = local(dir.path(), "base");
    let dataset = dataset(&base, 100, 30, &options());
    let ordinals: Vec<u64> = (0..150).map(|i| i * i % 100).collect();
    let view = dataset.select(ordinals.clone()).unwrap();
    let expected = dataset.read(&ordinals).unwrap();
    let publication = Publication { metadata: json(r#"{"why":"test"}"#), ..Publication::new("view", "v1") };
    for compat in [false, true] {
        let options = Options { compat, ..options() };
        let root = dir.path().join(format!("view {compat}"));
        let published = view.publish(&local(dir.path(), &format!("view {compat}")), &publication, &options).unwrap();
        assert_eq!(published.metadata().as_str(), r#"{"reference_dataset":true,"why":"test"}"#);
        let opened = Dataset::open(&root, options).unwrap();
        assert_eq!(opened.read(&(0..150).collect::<Vec<_>>()).unwrap(), expected);
        assert_eq!(opened.verify(&mut |_, _| true).unwrap().records, 150);
        assert_eq!(opened.read_instructions(0, 1, false).unwrap_err().code(), Code::Unsupported);
        assert_eq!(opened.snapshot().shard_count == 150, compat);
    }
    let copy = view.materialize(&local(dir.path(), "copy"), &publication, 40, &options()).unwrap();
    let streamed: Vec<_> = copy.batches(0..150).flat_map(Result::unwrap).collect();
    assert_eq!(streamed, expected);
    assert_eq!((copy.snapshot().shard_count, copy.metadata().as_str()), (4, r#"{"why":"test"}"#));
    // Doing it again finds it complete.
    assert_eq!(view.materialize(copy.store(), &publication, 40, &options()).unwrap().root_digest(), copy.root_digest());
    assert_eq!(view.materialize(copy.store(), &publication, 0, &options()).unwrap_err().code(), Code::Invalid);
}

#[test]
fn what_cannot_be_selected_or_referred_to() {
    let store = memory();
    let dataset = dataset(&store, 10, 5, &options());
    let e = dataset.select(vec![0, 10]).unwrap_err();
    assert!(e.code() == Code::NotFound && e.message().contains("no record 10"), "{e}");
    let view = dataset.select(vec![9, 0]).unwrap();
    assert_eq!(view.ordinals(), [9, 0]);
    assert_eq!(number(view.record(0).unwrap().metadata()), 9);
    assert_eq!(number(&view.record_metadata(1).unwrap()), 0);
    assert_eq!(view.record(2).unwrap_err().code(), Code::NotFound);
    let said: Vec<u64> = view.metadata_batches().flat_map(Result::unwrap).map(|m| number(&m)).collect();
    assert_eq!(said, [9, 0]);
    assert_eq!(view.publish(&memory(), &Publication::new("v", "v"), &options()).unwrap_err().code(), Code::Unsupported);
    // A view over the dataset itself would replace it.
    let e = view.materialize(&store, &Publication::new("v", "v"), 1, &options()).unwrap_err();
    assert_eq!(e.code(), Code::AlreadyExists);
    let empty = dataset.select(vec![]).unwrap().publish(&memory(), &Publication::new("v", "v"), &options()).unwrap();
    assert!(empty.is_empty());
}
