//! Numbers without a gap, and annotations of each version: for readers, publishers, copies and gc alike.

use super::gc::{DAY, HOUR, clocked, names};
use super::support::*;
use sigbank::convert::copy::{CopyOptions, plan, run};
use sigbank::layout::signal_dataset::{
    AnnotationOptions, AnnotationRow, AnnotationStatus, Dataset, GcOptions, VersionPublication, Which, gc,
    publish_annotation_shards, publish_annotations, publish_version, write_annotation_shard, write_shard,
};
use sigbank::store::{MemoryStore, Store};
use sigbank::{Code, Error, Result};
use std::sync::Arc;

fn version(store: &Arc<dyn Store>, name: &str, first: u64) -> Result<Dataset> {
    let shard = write_shard(&**store, records(first..first + 2), name, 0, &options())?;
    publish_version(store, &[shard], &VersionPublication::new(name), &options())
}

fn document(number: u64) -> String {
    format!("sigbank/versions/{number:08}.json")
}

fn copied(from: &Arc<dyn Store>, to: &Arc<dyn Store>) -> Result<()> {
    let plan = plan(from, to, &CopyOptions { update: true, ..CopyOptions::default() })?;
    run(&plan, &mut |_, _| true).map(|_| ())
}

#[test]
fn a_gap_is_told_by_everybody() {
    // Missing: what a reader takes for the end, and what it does not.
    for (all, missing, at_the_end) in [(2, 1, true), (3, 2, true), (8, 3, false), (9, 2, true)] {
        let store = memory();
        let first = dataset(&store, 2, 1, &options());
        (1..=all).for_each(|n| {
            version(&store, &format!("n{n}"), n * 10).unwrap();
        });
        let whole = memory();
        copied(&store, &whole).unwrap();
        store.delete(&path(&document(missing))).unwrap();
        let before = names(&*store);
        let told = |e: Error| {
            assert!(e.code() == Code::Corrupt && e.path().unwrap().ends_with(&document(missing)), "{all} {missing} {e:?}");
            assert!(e.remedy_text().unwrap().contains("restore"), "{e:?}");
        };
        told(
            publish_version(
                &store,
                &[],
                &VersionPublication { base: Some(Which::Number(0)), ..VersionPublication::new("x") },
                &options(),
            )
            .unwrap_err(),
        );
        told(first.versions().unwrap_err());
        told(gc(&store, &GcOptions::new(HOUR)).unwrap_err());
        told(copied(&store, &memory()).unwrap_err());
        if at_the_end {
            told(first.version(&Which::Latest).map(|_| ()).unwrap_err());
        }
        assert_eq!(names(&*store), before);
        // What can be read still can; and the remedy works.
        assert_eq!(first.version(&Which::Number(all)).unwrap().len(), 2);
        copied(&whole, &store).unwrap();
        assert_eq!(first.versions().unwrap().len() as u64, all + 1);
    }
}

#[test]
fn a_copy_does_not_fill_a_gap_with_another_version() {
    let (store, other) = (memory(), memory());
    dataset(&store, 2, 1, &options());
    copied(&store, &other).unwrap();
    (1..=2).for_each(|n| {
        version(&other, &format!("n{n}"), n * 10).unwrap();
    });
    other.delete(&path(&document(1))).unwrap();
    version(&store, "mine", 50).unwrap();
    let e = copied(&store, &other).unwrap_err();
    assert!(e.code() == Code::Conflict && e.message().contains("version 2") && e.remedy_text().is_some(), "{e:?}");
    assert!(!names(&*other).contains(&document(1)));
}

fn row(i: u64, value: &str) -> AnnotationRow {
    let values = json(&format!("{{\"of\":\"{value}\"}}"));
    AnnotationRow { values, ..AnnotationRow::new(format!("r{i}"), i % 10, AnnotationStatus::Success) }
}

fn annotate(dataset: &Dataset, name: &str, ids: [u64; 2], value: &str) {
    publish_annotations(dataset, name, ids.map(|i| Ok(row(i, value))), &AnnotationOptions::default()).unwrap();
}

fn values(dataset: &Dataset, name: &str) -> Result<Vec<String>> {
    let set = dataset.annotations()?.open(name)?;
    set.rows().map(|row| Ok(row?.values.to_string())).collect()
}

#[test]
fn each_version_has_annotations_of_its_own() {
    let (clock, store) = clocked(0);
    let first = dataset(&store, 2, 1, &options());
    let second = version(&store, "more", 10).unwrap();
    annotate(&first, "labels", [0, 1], "first");
    let before = names(&*store);
    // The same name in each.
    annotate(&second, "labels", [10, 11], "second");
    let mut shards = Vec::new();
    for i in [10, 11] {
        shards.push(write_annotation_shard(&second, "parts", "p", i - 10, vec![row(i, "part")], &format!("w{i}")).unwrap());
    }
    // Written before: found by its pointer.
    assert_eq!(write_annotation_shard(&second, "parts", "p", 0, vec![row(10, "part")], "w10").unwrap(), shards[0]);
    publish_annotation_shards(&second, "parts", "p", &shards, &AnnotationOptions::default()).unwrap();
    let new: Vec<String> = names(&*store).difference(&before).cloned().collect();
    assert!(new.iter().all(|name| name.starts_with("sigbank/versions/00000001/annotations/")), "{new:?}");

    let check = |store: &Arc<dyn Store>| {
        let first = Dataset::open_store(Arc::clone(store), options()).unwrap();
        let second = first.version(&Which::Number(1)).unwrap();
        assert_eq!(first.annotations().unwrap().names().collect::<Vec<_>>(), ["labels"]);
        assert_eq!(second.annotations().unwrap().names().collect::<Vec<_>>(), ["labels", "parts"]);
        assert_eq!(values(&first, "labels").unwrap(), [r#"{"of":"first"}"#; 2]);
        assert_eq!(values(&second, "labels").unwrap(), [r#"{"of":"second"}"#; 2]);
        assert_eq!(values(&second, "parts").unwrap(), [r#"{"of":"part"}"#; 2]);
        second.verify(&mut |_, _| true).unwrap();
        assert_eq!(first.versions().unwrap().len(), 2);
    };
    check(&store);
    // A copy has them, and gets later ones; not those that the source has not.
    let copy: Arc<dyn Store> = Arc::new(MemoryStore::new());
    copied(&store, &copy).unwrap();
    check(&copy);
    annotate(&second, "later", [10, 11], "later");
    copied(&store, &copy).unwrap();
    assert_eq!(values(&Dataset::open_version(Arc::clone(&copy), &Which::Latest, options()).unwrap(), "later").unwrap().len(), 2);
    let theirs = Dataset::open_version(Arc::clone(&copy), &Which::Number(1), options()).unwrap();
    annotate(&theirs, "theirs", [10, 11], "theirs");
    let e = copied(&store, &copy).unwrap_err();
    assert!(e.code() == Code::Conflict && e.message().contains("annotation set") && e.remedy_text().is_some(), "{e:?}");

    // A gc takes earlier revisions only, and those only where asked for.
    clock.backdate(DAY);
    let options = GcOptions { old_annotations: true, ..GcOptions::new(HOUR) };
    let kept: Vec<String> = gc(&store, &GcOptions::new(HOUR)).unwrap().doomed().map(|o| o.path.to_string()).collect();
    assert_eq!(kept, [""; 0]);
    let garbage = gc(&store, &options).unwrap();
    let doomed: Vec<&str> = garbage.doomed().map(|orphan| orphan.path.as_str()).collect();
    assert!(
        doomed.len() == 2 && doomed.iter().all(|p| p.starts_with("sigbank/versions/00000001/annotations/catalogs/")),
        "{doomed:?}"
    );
    assert_eq!((garbage.not_ours_count, garbage.delete(&store).unwrap().objects), (0, 2));
    let later = Dataset::open_version(Arc::clone(&store), &Which::Number(1), super::support::options()).unwrap();
    assert_eq!(values(&later, "later").unwrap().len(), 2);
    later.verify(&mut |_, _| true).unwrap();

    // A changed byte of a version's annotations is found.
    let object = new.iter().find(|name| name.ends_with(".arrayrecord")).unwrap();
    let mut bytes = store.get(&path(object)).unwrap().to_vec();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    replace(&*store, object, &bytes);
    assert_eq!(later.verify(&mut |_, _| true).unwrap_err().code(), Code::Corrupt);
}

#[test]
fn what_is_annotated_already_is_refused_in_words_that_help() {
    let store = memory();
    let first = dataset(&store, 2, 1, &options());
    annotate(&first, "labels", [0, 1], "first");
    let other = [0, 1].map(|i| Ok(row(i, "other")));
    let e = publish_annotations(&first, "labels", other, &AnnotationOptions::default()).unwrap_err();
    assert!(e.code() == Code::AlreadyExists && e.message().contains("'labels' already"), "{e:?}");
    assert!(e.remedy_text().unwrap().contains("another name"), "{e:?}");
    // The same again is no error.
    annotate(&first, "labels", [0, 1], "first");
}
