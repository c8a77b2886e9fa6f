//! Commits that are not there: told of, kept by `gc`, and put back.

use super::gc::{DAY, HOUR, clocked, names};
use super::support::*;
use sigbank::layout::signal_dataset::{
    AnnotationOptions, AnnotationRow, AnnotationStatus, Commit, Dataset, GcOptions, Kept, OrphanKind, Uncommitted,
    VersionPublication, Which, gc, publish_annotations, publish_version, restore, uncommitted, write_shard,
};
use sigbank::store::Store;
use sigbank::{Code, Result};
use std::sync::Arc;

fn append(store: &Arc<dyn Store>, name: &str, range: std::ops::Range<u64>) -> Dataset {
    let shard = write_shard(&**store, records(range), name, 0, &options()).unwrap();
    let what = VersionPublication { base: Some(Which::Latest), ..VersionPublication::new(name) };
    publish_version(store, &[shard], &what, &options()).unwrap()
}

fn annotate(dataset: &Dataset, name: &str) {
    let row = |i: u64| Ok(AnnotationRow::new(format!("r{i}"), i, AnnotationStatus::Success));
    publish_annotations(dataset, name, (0..dataset.len()).map(row), &AnnotationOptions::default()).unwrap();
}

fn document(number: u64) -> String {
    format!("sigbank/versions/{number:08}.json")
}

fn delete(store: &dyn Store, name: &str) -> Vec<u8> {
    let bytes = store.get(&path(name)).unwrap().to_vec();
    store.delete(&path(name)).unwrap();
    bytes
}

fn found(store: &Arc<dyn Store>) -> Vec<Uncommitted> {
    uncommitted(store, &options()).unwrap()
}

fn open(store: &Arc<dyn Store>, which: &str) -> Result<Dataset> {
    Dataset::open_version(store.clone(), &which.parse().unwrap(), options())
}

#[test]
fn a_versions_document_that_was_deleted_is_told_of_and_put_back() {
    let (clock, store) = clocked(0);
    dataset(&store, 4, 2, &options());
    append(&store, "more", 4..6);
    let newest = append(&store, "most", 6..9);
    annotate(&newest, "labels");
    assert_eq!(found(&store), []);
    let all = names(&*store);
    let (first, second) = (delete(&*store, &document(1)), delete(&*store, &document(2)));
    clock.backdate(DAY);

    let lost = found(&store);
    let told: Vec<_> = lost.iter().map(|what| (what.version.clone().unwrap(), what.records, what.commit)).collect();
    assert_eq!(told, [((1, "more".into()), 6, Commit::Deleted), ((2, "most".into()), 9, Commit::Deleted)]);
    assert!(
        lost[0].to_string().ends_with("with 6 records, complete, but its document sigbank/versions/00000001.json was deleted")
    );
    // What it consists of is kept, and so are its annotations; it goes only when that is said.
    let garbage = gc(&store, &GcOptions::new(HOUR)).unwrap();
    assert_eq!(garbage.uncommitted, lost);
    assert!(garbage.orphans.iter().all(|orphan| orphan.kept == Some(Kept::Uncommitted)), "{garbage:?}");
    for kind in
        [OrphanKind::VersionCopy, OrphanKind::Snapshot, OrphanKind::Manifest, OrphanKind::Shard, OrphanKind::AnnotationRoot]
    {
        assert!(garbage.orphans.iter().any(|orphan| orphan.kind == kind), "{kind:?}");
    }
    assert_eq!(garbage.delete(&store).unwrap().objects, 0);

    assert_eq!(restore(&store, &lost[1], &options()).unwrap_err().code(), Code::Conflict);
    for what in &lost {
        restore(&store, what, &options()).unwrap();
    }
    assert_eq!(names(&*store), all);
    assert_eq!(*store.get(&path(&document(1))).unwrap(), *first);
    assert_eq!(*store.get(&path(&document(2))).unwrap(), *second);
    let newest = open(&store, "latest").unwrap();
    assert_eq!((newest.len(), newest.verify(&mut |_, _| true).unwrap().records), (9, 9));
    assert_eq!(newest.annotations().unwrap().open("labels").unwrap().len(), 9);
    assert_eq!((found(&store), gc(&store, &GcOptions::new(HOUR)).unwrap().orphans.len()), (vec![], 0));

    // With the flag it goes, whole.
    delete(&*store, &document(2));
    let all = GcOptions { uncommitted: true, ..GcOptions::new(HOUR) };
    clock.backdate(DAY);
    let garbage = gc(&store, &all).unwrap();
    assert_eq!(garbage.uncommitted.len(), 1);
    assert!(garbage.delete(&store).unwrap().objects >= 5);
    assert_eq!((found(&store), open(&store, "latest").unwrap().version_number()), (vec![], 1));
}

#[test]
fn without_the_copy_it_may_have_been_killed() {
    let (clock, store) = clocked(0);
    dataset(&store, 4, 2, &options());
    let snapshot = append(&store, "more", 4..6).snapshot().snapshot_id.clone();
    delete(&*store, &document(1));
    delete(&*store, &format!("snapshots/{snapshot}/version.json"));
    clock.backdate(DAY);
    let lost = found(&store);
    assert_eq!((lost.len(), lost[0].commit, &lost[0].version, lost[0].records), (1, Commit::Unknown, &None, 6));
    assert_eq!(restore(&store, &lost[0], &options()).unwrap_err().code(), Code::Invalid);
    let garbage = gc(&store, &GcOptions::new(HOUR)).unwrap();
    assert!(garbage.doomed().next().is_none() && garbage.uncommitted == lost);
    // Publishing it again uses it.
    append(&store, "more", 4..6);
    assert_eq!((found(&store), open(&store, "more").unwrap().len()), (vec![], 6));
    // What has lost a part is no more than garbage.
    delete(&*store, &document(1));
    let shard = gc(&store, &GcOptions::new(HOUR)).unwrap();
    let shard = shard.orphans.iter().find(|orphan| orphan.kind == OrphanKind::Shard).unwrap().path.clone();
    store.delete(&shard).unwrap();
    clock.backdate(DAY);
    assert_eq!(found(&store), []);
    assert!(gc(&store, &GcOptions::new(HOUR)).unwrap().orphans.iter().all(|orphan| orphan.kept.is_none()));
}

#[test]
fn a_number_that_was_given_again_is_not_taken_back() {
    let store = memory();
    dataset(&store, 4, 2, &options());
    append(&store, "more", 4..6);
    delete(&*store, &document(1));
    append(&store, "other", 6..7);
    let lost = found(&store);
    assert_eq!((lost.len(), lost[0].commit, lost[0].version.clone()), (1, Commit::Replaced, Some((1, "more".into()))));
    assert_eq!(restore(&store, &lost[0], &options()).unwrap_err().code(), Code::Invalid);
    assert_eq!(open(&store, "1").unwrap().version_document().unwrap().name, "other");
}

#[test]
fn a_catalogs_pointer_that_was_deleted_is_put_back() {
    const POINTER: &str = "annotations/catalog.json";
    let (clock, store) = clocked(0);
    let dataset = dataset(&store, 4, 2, &options());
    annotate(&dataset, "one");
    let pointer = delete(&*store, POINTER);
    // The first set's publication may have been killed.
    let lost = found(&store);
    assert_eq!((lost.len(), lost[0].commit, lost[0].sets.clone()), (1, Commit::Unknown, vec!["one".to_owned()]));
    replace(&*store, POINTER, &pointer);
    annotate(&dataset, "two");
    let pointer = delete(&*store, POINTER);
    clock.backdate(DAY);
    let lost = found(&store);
    assert_eq!((lost.len(), lost[0].commit, lost[0].sets.len()), (1, Commit::Deleted, 2));
    assert!(lost[0].to_string().ends_with("(one, two), and no catalog names them: annotations/catalog.json was deleted"));
    let garbage = gc(&store, &GcOptions { old_annotations: true, ..GcOptions::new(HOUR) }).unwrap();
    assert_eq!(garbage.uncommitted, lost);
    let doomed: Vec<_> = garbage.doomed().map(|orphan| orphan.kind).collect();
    assert_eq!(doomed, [OrphanKind::AnnotationRevision], "the revision before the last");
    restore(&store, &lost[0], &options()).unwrap();
    assert_eq!(*store.get(&path(POINTER)).unwrap(), *pointer);
    assert_eq!(dataset.annotations().unwrap().names().collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(found(&store), []);
}
