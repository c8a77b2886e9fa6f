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
    // To finish it does no harm.
    restore(&store, &lost[0], &options()).unwrap();
    assert_eq!(*store.get(&path(POINTER)).unwrap(), *pointer);
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

#[test]
fn no_version_takes_a_number_with_another_ones_annotations() {
    let (clock, store) = clocked(0);
    dataset(&store, 4, 2, &options());
    annotate(&append(&store, "more", 4..6), "labels");
    delete(&*store, &document(1));
    let before = names(&*store);
    let shard = write_shard(&*store, records(6..7), "other", 0, &options()).unwrap();
    let what = VersionPublication { base: Some(Which::Latest), ..VersionPublication::new("other") };
    let publish = || publish_version(&store, std::slice::from_ref(&shard), &what, &options());
    let refused = publish().unwrap_err();
    assert_eq!(refused.code(), Code::Conflict);
    let told = refused.to_string();
    assert!(told.contains("sigbank/versions/00000001/annotations/catalog.json"), "{told}");
    let remedy = refused.remedy_text().unwrap();
    assert!(remedy.contains("check --repair") && remedy.contains("gc --uncommitted"), "{remedy}");
    assert_eq!(names(&*store).len(), before.len() + 2, "the shard alone is new");
    // The same again is that version, and the annotations are its own.
    assert_eq!(append(&store, "more", 4..6).annotations().unwrap().names().collect::<Vec<_>>(), ["labels"]);

    // Given up, its annotations are too, and the number is free.
    delete(&*store, &document(1));
    clock.backdate(DAY);
    let kept = gc(&store, &GcOptions::new(HOUR)).unwrap();
    let catalog = |garbage: &sigbank::layout::signal_dataset::Garbage| {
        garbage.orphans.iter().find(|orphan| orphan.kind == OrphanKind::AnnotationCatalog).map(|orphan| orphan.kept)
    };
    assert_eq!(catalog(&kept), Some(Some(Kept::Uncommitted)));
    let given_up = gc(&store, &GcOptions { uncommitted: true, ..GcOptions::new(HOUR) }).unwrap();
    assert_eq!(catalog(&given_up), Some(None));
    given_up.delete(&store).unwrap();
    assert!(names(&*store).iter().all(|name| !name.starts_with("sigbank/versions")), "{:?}", names(&*store));
    let shard = write_shard(&*store, records(6..7), "other", 0, &options()).unwrap();
    let version = publish_version(&store, &[shard], &what, &options()).unwrap();
    assert_eq!((version.version_number(), version.len(), version.annotations().unwrap().names().count()), (1, 5, 0));
    assert_eq!(version.verify(&mut |_, _| true).unwrap().records, 5);
    // Those of a version that is there are live.
    let rows = (0..5).map(|i| Ok(AnnotationRow::new(format!("r{}", if i == 4 { 6 } else { i }), i, AnnotationStatus::Success)));
    publish_annotations(&version, "labels", rows, &AnnotationOptions::default()).unwrap();
    assert_eq!(gc(&store, &GcOptions { uncommitted: true, ..GcOptions::new(HOUR) }).unwrap().orphans, []);
}

#[test]
fn a_versions_document_that_is_damaged_is_put_back() {
    let store = memory();
    dataset(&store, 4, 2, &options());
    append(&store, "more", 4..6);
    append(&store, "most", 6..9);
    let whole = store.get(&path(&document(1))).unwrap();
    for damage in [&b"{}"[..], b"", &whole[..40]] {
        replace(&*store, &document(1), damage);
        let told = open(&store, "1").unwrap_err();
        assert_eq!(told.code(), Code::Corrupt);
        assert!(told.to_string().contains(&document(1)) && told.remedy_text().unwrap().contains("check --repair"), "{told}");
        let lost = found(&store);
        assert_eq!((lost.len(), lost[0].commit, lost[0].version.clone()), (1, Commit::Damaged, Some((1, "more".into()))));
        assert!(lost[0].to_string().ends_with("but its document sigbank/versions/00000001.json is damaged"), "{}", lost[0]);
        restore(&store, &lost[0], &options()).unwrap();
        assert_eq!(store.get(&path(&document(1))).unwrap(), whole);
        assert_eq!(restore(&store, &lost[0], &options()).unwrap_err().code(), Code::AlreadyExists);
        assert_eq!((found(&store), open(&store, "latest").unwrap().len()), (vec![], 9));
    }
}

#[test]
fn a_new_set_does_not_hide_those_whose_pointer_was_deleted() {
    const POINTER: &str = "annotations/catalog.json";
    let store = memory();
    let first = dataset(&store, 4, 2, &options());
    for dataset in [first, append(&store, "more", 4..6)] {
        let home = if dataset.version_number() == 0 { "" } else { "sigbank/versions/00000001/" };
        let pointer = format!("{home}{POINTER}");
        annotate(&dataset, "one");
        annotate(&dataset, "two");
        delete(&*store, &pointer);
        annotate(&dataset, "three");
        assert_eq!(dataset.annotations().unwrap().names().collect::<Vec<_>>(), ["one", "three", "two"]);
        assert_eq!(found(&store), []);
        // The same set again is that one; another of its name is refused, and nothing is hidden.
        delete(&*store, &pointer);
        annotate(&dataset, "one");
        assert_eq!(dataset.annotations().unwrap().names().count(), 3);
        delete(&*store, &pointer);
        let rows = (0..dataset.len()).map(|i| Ok(AnnotationRow::new(format!("r{i}"), i, AnnotationStatus::Failed)));
        let other = AnnotationOptions { publication_id: Some("other".into()), ..AnnotationOptions::default() };
        let refused = publish_annotations(&dataset, "two", rows, &other).unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists);
        assert!(refused.remedy_text().unwrap().contains("check --repair"), "{refused}");
        let lost = found(&store);
        assert_eq!((lost.len(), lost[0].sets.len()), (1, 3));
        restore(&store, &lost[0], &options()).unwrap();
        assert_eq!(dataset.annotations().unwrap().names().count(), 3);
    }
}

#[test]
fn a_copy_can_be_repaired() {
    let store = memory();
    dataset(&store, 4, 2, &options());
    let snapshot = append(&store, "more", 4..6).snapshot().snapshot_id.clone();
    let copy = format!("snapshots/{snapshot}/version.json");
    // Also of a dataset that has none itself.
    for _ in 0..2 {
        let contents = sigbank::layout::contents(&store).unwrap();
        let named = contents.objects.iter().find(|object| object.path.as_str() == copy).unwrap();
        let bytes = store.get(&path(&document(1))).unwrap();
        assert_eq!((named.size, named.bytes.as_ref()), (Some(bytes.len() as u64), Some(&bytes)));
        let _ = store.delete(&path(&copy));
    }
}
