//! Sets of annotations beside a snapshot.

use super::support::*;
use sigbank::format::record::signal::{Axis, FieldMetadata};
use sigbank::layout::signal_dataset::{
    AnnotationOptions, AnnotationRow, AnnotationShard, AnnotationStatus, Dataset, Options, Publication,
    publish_annotation_shards, publish_annotations, write_annotation_shard,
};
use sigbank::store::fault::{Fault, FaultStore, Op, Rule};
use sigbank::store::{LocalStore, MemoryStore, Store};
use sigbank::{Code, Error, Result};
use std::sync::Arc;

pub fn row(i: u64) -> AnnotationRow {
    let status = [AnnotationStatus::Success, AnnotationStatus::Skipped, AnnotationStatus::Failed][i as usize % 3];
    AnnotationRow { values: json(&format!(r#"{{"snr":{i}.5}}"#)), ..AnnotationRow::new(format!("r{i}"), i, status) }
}

pub fn rows(range: std::ops::Range<u64>) -> impl Iterator<Item = Result<AnnotationRow>> {
    range.map(|i| Ok(row(i)))
}

fn named(id: &str) -> AnnotationOptions {
    AnnotationOptions { publication_id: Some(id.into()), records_per_shard: 4, ..Default::default() }
}

/// The rows of the golden sets.
fn golden_row(i: u64) -> AnnotationRow {
    let status = [AnnotationStatus::Success, AnnotationStatus::Skipped, AnnotationStatus::Failed][i as usize % 3];
    let mut row = AnnotationRow::new(format!("uniform-{i}"), i, status);
    row.provenance = json(r#"{"by":"make.py"}"#);
    row.detail_status = (i == 2).then(|| "in words".into());
    if i % 2 == 1 {
        row.values = json(&format!(r#"{{"snr":{:?},"é":[{i},1e-07]}}"#, 1.5 * i as f64));
    }
    if i == 3 {
        row.fields =
            vec![FieldMetadata { axes: vec![Axis::new("t", 3)], ..FieldMetadata::new("mask", "bool".parse().unwrap(), vec![3]) }];
        // (0, 7, 14) + 3 is odd, even, odd.
        row.data = vec![vec![0, 1, 0].into()];
    }
    row
}

#[test]
fn the_references_sets_are_read_and_written_again_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    let objects = golden("annotated", root);
    write_dir(dir.path(), &objects);
    let dataset = Dataset::open(dir.path(), options()).unwrap();
    let catalog = dataset.annotations().unwrap();
    assert_eq!(catalog.names().collect::<Vec<_>>(), ["by-workers", "labels"]);
    for (name, id, metadata) in [("labels", "p1", r#"{"v":1}"#), ("by-workers", "q.1", r#"{"ü":null}"#)] {
        let set = catalog.open(name).unwrap();
        assert_eq!((set.name(), set.publication_id(), set.source_snapshot_id()), (name, id, "s1"));
        assert_eq!((set.metadata().as_str(), set.len()), (metadata, 5));
        let read: Vec<AnnotationRow> = set.rows().map(Result::unwrap).collect();
        assert_eq!(read, (0..5).map(golden_row).collect::<Vec<_>>());
        assert_eq!(set.row(5).unwrap_err().code(), Code::NotFound);
        set.verify().unwrap();
    }
    assert_eq!(catalog.open("other").unwrap_err().code(), Code::NotFound);

    // What the workers wrote is resumed as it stands, and publishing it gives the reference's root and catalog.
    let again = tempfile::tempdir().unwrap();
    let kept =
        |name: &&String| !name.starts_with("annotations/catalog") && !name.ends_with("q.1/root.json") && !name.contains("labels");
    let kept = golden("annotated", again.path().to_str().unwrap())
        .iter()
        .filter(|(name, _)| kept(name))
        .map(|(a, b)| (a.clone(), b.clone()))
        .collect();
    write_dir(again.path(), &kept);
    let dataset = Dataset::open(again.path(), Options { compat: true, ..options() }).unwrap();
    let part = |first: u64, last: u64| {
        let rows = (first..last).map(golden_row).collect();
        write_annotation_shard(&dataset, "by-workers", "q.1", first, rows, &format!("part-{first}")).unwrap()
    };
    let parts = [part(3, 5), part(0, 3)];
    assert_eq!(parts[1].terminal_statuses, ["success", "skipped", "in words"]);
    let options = AnnotationOptions { metadata: json(r#"{"ü":null}"#), ..Default::default() };
    publish_annotation_shards(&dataset, "by-workers", "q.1", &parts, &options).unwrap();
    let set = "annotations/sets/by-workers/q.1/root.json";
    assert_eq!(std::fs::read(again.path().join(set)).unwrap(), objects[set]);
    let catalog = dataset.annotations().unwrap();
    let revision = std::fs::read_to_string(again.path().join(catalog.revision().unwrap())).unwrap();
    let size = objects[set].len();
    assert_eq!(revision, format!(r#"{{"sets":{{"by-workers":{{"generation":null,"path":"{set}","stored_bytes":{size}}}}}}}"#));
    let pointer = std::fs::read_to_string(again.path().join("annotations/catalog.json")).unwrap();
    assert_eq!(pointer, format!(r#"{{"revision":{{"generation":null,"path":"{}"}}}}"#, catalog.revision().unwrap()));
}

#[test]
fn worker_pointers_are_the_references() {
    let dir = tempfile::tempdir().unwrap();
    let objects = golden("annotated", dir.path().to_str().unwrap());
    let without =
        objects.iter().filter(|(name, _)| !name.starts_with("annotations")).map(|(a, b)| (a.clone(), b.clone())).collect();
    write_dir(dir.path(), &without);
    let dataset = Dataset::open(dir.path(), options()).unwrap();
    let shard = write_annotation_shard(&dataset, "by-workers", "q.1", 0, (0..3).map(golden_row).collect(), "part-0").unwrap();
    let (name, theirs) = objects
        .iter()
        .find(|(name, text)| name.contains("/shards/") && String::from_utf8_lossy(text).contains("part-0"))
        .unwrap();
    let ours = std::fs::read_to_string(dir.path().join(name)).unwrap();
    let theirs = String::from_utf8(theirs.clone()).unwrap();
    // The object's name is random.
    let object = theirs.split("\"uri\":\"").nth(1).unwrap().trim_end_matches("\"}");
    assert_eq!(ours, theirs.replace(object, &shard.uri));
    assert!(shard.uri.starts_with(dir.path().to_str().unwrap()));
}

#[test]
fn what_is_not_a_row_for_each_record_is_refused() {
    let dataset = dataset(&memory(), 10, 4, &options());
    let store = dataset.store().clone();
    let refused = |rows: Vec<AnnotationRow>, name: &str, options: &AnnotationOptions, word: &str| {
        let e = publish_annotations(&dataset, name, rows.into_iter().map(Ok), options).unwrap_err();
        assert!(e.code() == Code::Invalid && e.to_string().contains(word), "{word}: {e}");
        assert!(dataset.annotations().unwrap().names().next().is_none());
    };
    let all = || (0..10).map(row).collect::<Vec<_>>();
    refused(all()[..9].to_vec(), "a", &named("p"), "9 annotations for 10 records");
    refused(all().into_iter().chain([row(10)]).collect(), "a", &named("p"), "more annotations");
    refused(all().into_iter().rev().collect(), "a", &named("p"), "in order");
    let mut other = all();
    other[7].source_record_id = "r8".into();
    refused(other, "a", &named("p"), "'r8', but record 7 of the dataset is 'r7'");
    let mut wrong = all();
    wrong[2].values = json("[1]");
    refused(wrong, "a", &named("p"), "not an object");
    for name in ["", "../a", "a/b", ".a", "a b", "é", &"x".repeat(129)] {
        refused(all(), name, &named("p"), "none: use at most 128");
        refused(all(), "a", &named(name), "none: use at most 128");
    }
    refused(all(), "a", &AnnotationOptions { metadata: json("3"), ..named("p") }, "not an object");
    refused(all(), "a", &AnnotationOptions { records_per_shard: 0, ..named("p") }, "0 annotations");
    let failing = rows(0..5).chain([Err(Error::storage("no more of them"))]);
    assert_eq!(publish_annotations(&dataset, "a", failing, &named("p")).unwrap_err().code(), Code::Storage);
    publish_annotations(&dataset, &"x".repeat(128), rows(0..10), &named("A.-_9")).unwrap();
    // A name is given once, the same publication may be repeated.
    let first = publish_annotations(&dataset, "a", rows(0..10), &named("p2")).unwrap();
    publish_annotations(&dataset, "a", rows(0..10), &named("p2")).unwrap();
    let e = publish_annotations(&dataset, "a", rows(0..10), &named("p3")).unwrap_err();
    assert!(e.code() == Code::AlreadyExists && e.message().contains("'a'"), "{e}");
    let changed = (0..10).map(|i| Ok(AnnotationRow { detail_status: Some("x".into()), ..row(i) }));
    assert_eq!(publish_annotations(&dataset, "a", changed, &named("p2")).unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(first.rows().map(Result::unwrap).collect::<Vec<_>>(), all());
    assert_eq!(Dataset::open_store(store, options()).unwrap().root_digest(), dataset.root_digest());
}

#[test]
fn sets_published_at_once_do_not_lose_each_other() {
    for _ in 0..10 {
        let dataset = dataset(&memory(), 10, 4, &options());
        let options = |id: &str| AnnotationOptions { catalog_retry_limit: 100, ..named(id) };
        std::thread::scope(|scope| {
            for n in 0..6 {
                let (dataset, options) = (&dataset, options(&format!("p{n}")));
                scope.spawn(move || publish_annotations(dataset, &format!("set{n}"), rows(0..10), &options).unwrap());
            }
        });
        let catalog = dataset.annotations().unwrap();
        assert_eq!(catalog.names().count(), 6);
        assert!(catalog.names().all(|name| catalog.open(name).unwrap().verify().is_ok()));
        // Of one name one wins.
        let won: usize = std::thread::scope(|scope| {
            let publish = |n: u64| publish_annotations(&dataset, "one", rows(0..10), &options(&format!("q{n}")));
            let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || publish(n))).collect();
            let ended = threads.into_iter().map(|thread| thread.join().unwrap());
            ended
                .map(|done| {
                    done.map_or_else(
                        |e| {
                            assert_eq!(e.code(), Code::AlreadyExists);
                            0
                        },
                        |_| 1,
                    )
                })
                .sum()
        });
        assert_eq!(won, 1);
    }
}

#[test]
fn a_publication_that_fails_anywhere_is_completed() {
    let mut failures = 0;
    for lost_answer in [false, true] {
        for op in [Op::Create, Op::Replace, Op::Commit, Op::WriteNew] {
            for nth in 1.. {
                let inner = Arc::new(MemoryStore::new());
                let plain = dataset(&(inner.clone() as Arc<dyn Store>), 10, 4, &options());
                publish_annotations(&plain, "first", rows(0..10), &named("p")).unwrap();
                let error = Error::storage("the power is gone");
                let faulty = FaultStore::new(inner);
                faulty.add(Rule::new(if lost_answer { Fault::FailAfter(error) } else { Fault::Fail(error) }).on(op).nth(nth));
                let dataset = Dataset::open_store(Arc::new(faulty), options()).unwrap();
                let failed = publish_annotations(&dataset, "labels", rows(0..10), &named("p"));
                let catalog = plain.annotations().unwrap();
                assert!(catalog.open("first").is_ok());
                assert!(catalog.names().count() == 1 || catalog.open("labels").unwrap().verify().is_ok());
                if failed.is_ok() {
                    break;
                }
                failures += 1;
                publish_annotations(&plain, "labels", rows(0..10), &named("p")).unwrap().verify().unwrap();
                assert_eq!(plain.annotations().unwrap().names().count(), 2);
            }
        }
    }
    assert!(failures > 12, "{failures}");
}

#[test]
fn workers_resume_and_cover_everything() {
    let dataset = dataset(&memory(), 10, 4, &options());
    let part =
        |first: u64, last: u64, id: &str| write_annotation_shard(&dataset, "w", "p", first, (first..last).map(row).collect(), id);
    let (a, b) = (part(0, 6, "a").unwrap(), part(6, 10, "b").unwrap());
    assert_eq!(part(0, 6, "a").unwrap(), a);
    for (first, last) in [(0, 5), (1, 6), (6, 10)] {
        assert_eq!(part(first, last, "a").unwrap_err().code(), Code::AlreadyExists);
    }
    assert_eq!(part(8, 11, "c").unwrap_err().code(), Code::Invalid);
    assert_eq!(part(8, 10, "c/d").unwrap_err().code(), Code::Invalid);
    let publish = |parts: &[&AnnotationShard]| {
        let parts: Vec<AnnotationShard> = parts.iter().map(|part| (*part).clone()).collect();
        publish_annotation_shards(&dataset, "w", "p", &parts, &AnnotationOptions::default())
    };
    let refused = |parts: &[&AnnotationShard], word: &str| {
        let e = publish(parts).unwrap_err();
        assert!(e.code() == Code::Invalid && e.message().contains(word), "{word}: {e}");
    };
    refused(&[&a], "cover 6 of 10");
    refused(&[&b], "where 0 is the next");
    refused(&[&a, &a, &b], "where 6 is the next");
    refused(&[&AnnotationShard { name: "x".into(), ..a.clone() }, &b], "of the set 'x'");
    refused(&[&AnnotationShard { source_snapshot_id: "x".into(), ..a.clone() }, &b], "snapshot 'x'");
    refused(&[&AnnotationShard { stored_bytes: 7, ..a.clone() }, &b], "wrote 7 bytes");
    let mut ids = a.clone();
    ids.record_ids[3] = "r0".into();
    refused(&[&ids, &b], "names record 'r0'");
    let e = publish(&[&AnnotationShard { uri: "/etc/passwd".into(), ..a.clone() }, &b]).unwrap_err();
    assert!(e.message().contains("/etc/passwd"), "{e}");
    let set = publish(&[&b, &a]).unwrap();
    assert_eq!(set.rows().map(Result::unwrap).collect::<Vec<_>>(), (0..10).map(row).collect::<Vec<_>>());
    assert!(set.verify().unwrap() > 0);
}

#[test]
fn documents_of_annotations_that_break_a_rule_are_refused() {
    let store = memory();
    let dataset = dataset(&store, 10, 4, &options());
    let set = publish_annotations(&dataset, "labels", rows(0..10), &named("p")).unwrap();
    let read = || {
        let catalog = dataset.annotations()?;
        catalog.open("labels")?.verify()
    };
    read().unwrap();
    let pointer = "annotations/catalog.json".to_owned();
    let revision = dataset.annotations().unwrap().revision().unwrap().to_owned();
    let root = "annotations/sets/labels/p/root.json".to_owned();
    let text = |name: &str| String::from_utf8(store.get(&path(name)).unwrap().to_vec()).unwrap();
    let before: Vec<(String, String)> = [&pointer, &revision, &root].map(|name| (name.clone(), text(name))).to_vec();
    let digest = |text: &str| sigbank::layout::signal_dataset::Digest::of(text.as_bytes()).to_string();
    let cases = [
        (&pointer, "{\"revision\"", "{\"new\":1,\"revision\"", "'new' is not known"),
        (&pointer, "\"generation\":null", "\"generation\":3", "generation"),
        (&pointer, "annotations/catalogs", "../catalogs", "out of the dataset"),
        (&revision, "stored_bytes", "new\":1,\"stored_bytes", "'new' is not known"),
        (&revision, "\"labels\"", "\"../labels\"", "none: use at most 128"),
        (&revision, "\"stored_bytes\":", "\"stored_bytes\":1", "bytes are expected"),
        (&revision, "annotations/sets/", "annotations/../", "out of the dataset"),
        (&root, "{\"metadata\"", "{\"mew\":1,\"metadata\"", "'mew' is not known"),
        (&root, "\"name\":\"labels\"", "\"name\":\"labelz\"", "its name is 'labelz'"),
        (&root, "\"source_snapshot_id\":\"v1\"", "\"source_snapshot_id\":\"v2\"", "its source_snapshot_id is 'v2'"),
        (&root, "\"record_count\":10", "\"record_count\":11", "but 10 by its shards"),
        (&root, "\"first_ordinal\":4", "\"first_ordinal\":5", "do not meet"),
        (&root, "annotations/sets/labels/p/objects", "annotations/sets/labels/p/../objects", "out of the dataset"),
    ];
    for (name, from, to, word) in cases {
        let changed = text(name).replacen(from, to, 1);
        assert_ne!(changed, text(name), "{from}");
        replace(&*store, name, changed.as_bytes());
        // What names it is made to fit.
        if *name == root {
            let renamed = text(&revision)
                .replace(&format!("\"stored_bytes\":{}", before[2].1.len()), &format!("\"stored_bytes\":{}", changed.len()));
            replace(&*store, &revision, renamed.as_bytes());
        }
        if *name != pointer {
            let renamed = format!("annotations/catalogs/{}.json", digest(&text(&revision)));
            replace(&*store, &renamed, text(&revision).as_bytes());
            replace(&*store, &pointer, text(&pointer).replace(&revision, &renamed).as_bytes());
        }
        let e = read().expect_err(word);
        assert!(e.code() == Code::Corrupt && e.to_string().contains(word), "{from} -> {to}: {e}");
        before.iter().for_each(|(name, text)| replace(&*store, name, text.as_bytes()));
        read().unwrap();
    }
    replace(&*store, &revision, format!("{} ", before[1].1).as_bytes());
    assert!(read().unwrap_err().message().contains("sha256"));
    replace(&*store, &revision, before[1].1.as_bytes());
    // An object that was replaced by another of the same size.
    let other =
        publish_annotations(&dataset, "other", (0..10).map(|i| Ok(AnnotationRow { values: json("{}"), ..row(i) })), &named("q"))
            .unwrap();
    let object =
        |id: &str| store.list(Some(&path(&format!("annotations/sets/{id}/objects")))).unwrap().next().unwrap().unwrap().path;
    let stolen = store.get(&object("other/q")).unwrap();
    replace(&*store, object("labels/p").as_str(), &stolen);
    for e in [read().unwrap_err(), dataset.verify(&mut |_, _| true).unwrap_err()] {
        assert!(e.code() == Code::Corrupt && e.path().unwrap().contains("annotations/sets/labels/p/objects"), "{e}");
    }
    assert!(other.verify().is_ok() && set.len() == 10);
}

#[test]
fn annotations_go_along_with_a_view() {
    let dir = tempfile::tempdir().unwrap();
    let local = |name: &str| Arc::new(sigbank::store::LocalStore::create(dir.path().join(name)).unwrap()) as Arc<dyn Store>;
    let dataset = dataset(&local("base"), 10, 4, &options());
    let said = AnnotationOptions { metadata: json(r#"{"v":1}"#), ..named("p") };
    publish_annotations(&dataset, "labels", rows(0..10), &said).unwrap();
    let view = dataset.select(vec![9, 2, 2]).unwrap();
    let expected: Vec<AnnotationRow> =
        [9, 2, 2].into_iter().zip(0..).map(|(i, n)| AnnotationRow { source_index: n, ..row(i) }).collect();
    let publication = Publication::new("v", "s");
    for turn in 0..2 {
        let by_reference = view.publish(&local("view"), &publication, &options()).unwrap();
        let copied = view.materialize(&local("copy"), &publication, 2, &options()).unwrap();
        for published in [by_reference, copied] {
            let catalog = published.annotations().unwrap();
            let set = catalog.open("labels").unwrap();
            assert_eq!(set.rows().map(Result::unwrap).collect::<Vec<_>>(), expected, "turn {turn}");
            assert_eq!((set.metadata().as_str(), set.source_snapshot_id()), (r#"{"v":1}"#, "s"));
            set.verify().unwrap();
        }
    }
}

/// The reference package locks this file while it swaps the catalog.
#[test]
fn the_references_lock_is_honoured() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(sigbank::store::LocalStore::create(dir.path()).unwrap());
    let dataset = dataset(&store, 10, 4, &options());
    std::fs::create_dir(dir.path().join("annotations")).unwrap();
    let lock = std::fs::File::create(dir.path().join("annotations/.catalog.json.lock")).unwrap();
    lock.lock().unwrap();
    std::thread::scope(|scope| {
        let publishing = scope.spawn(|| publish_annotations(&dataset, "labels", rows(0..10), &named("p")));
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(!publishing.is_finished() && dataset.annotations().unwrap().names().next().is_none());
        lock.unlock().unwrap();
        publishing.join().unwrap().unwrap();
    });
    assert_eq!(dataset.annotations().unwrap().names().collect::<Vec<_>>(), ["labels"]);
}

/// A bucket that is mounted, as which an ordinary directory is declared here.
#[test]
fn a_mounted_bucket_takes_datasets_and_versions_and_no_annotations() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(LocalStore::open(dir.path()).unwrap().mounted());
    let (made, plain) = (dataset(&store, 10, 4, &options()), memory());
    dataset(&plain, 10, 4, &options());
    let names = |store: &dyn Store| {
        let mut names: Vec<_> = store.list(None).unwrap().map(|e| e.unwrap()).map(|e| (e.path, e.size)).collect();
        names.sort();
        names
    };
    assert_eq!(names(&*store), names(&*plain));
    // No more than the dataset is there: no locks, no temporary files.
    assert!(std::fs::read_dir(dir.path()).unwrap().all(|e| !e.unwrap().file_name().to_string_lossy().starts_with('.')));
    for (path, _) in names(&*store) {
        assert_eq!(store.get(&path).unwrap(), plain.get(&path).unwrap(), "{path}");
    }
    // Again, which finds everything there, and with other records, which does not.
    dataset(&store, 10, 4, &options());
    let e = sigbank::layout::signal_dataset::write_shard(&*store, records(1..3), "w000000", 0, &options()).unwrap_err();
    assert_eq!(e.code(), Code::AlreadyExists, "{e}");

    let before = names(&*store);
    let refused = |e: Error| {
        assert!(e.code() == Code::Unsupported && e.to_string().contains("compare-and-swap"), "{e}");
        assert!(e.remedy_text().is_some());
    };
    refused(publish_annotations(&made, "labels", rows(0..10), &named("p")).unwrap_err());
    refused(write_annotation_shard(&made, "labels", "p", 0, rows(0..10).map(Result::unwrap).collect(), "one").unwrap_err());
    refused(publish_annotation_shards(&made, "labels", "p", &[], &named("p")).unwrap_err());
    assert_eq!(names(&*store), before);
    made.verify(&mut |_, _| true).unwrap();
}

/// No entry of the catalog holds a digest of a set's root: it tells its own.
#[test]
fn any_byte_of_a_sets_root_is_looked_at() {
    let store = memory();
    let dataset = dataset(&store, 3, 2, &options());
    let metadata =
        json(r#"{"by":"me","set_sha256":"0000000000000000000000000000000000000000000000000000000000000000","shards":[1]}"#);
    let options = AnnotationOptions { metadata, publication_id: Some("p1".into()), ..AnnotationOptions::default() };
    publish_annotations(&dataset, "labels", rows(0..3), &options).unwrap();
    let root = path("annotations/sets/labels/p1/root.json");
    let bytes = store.get(&root).unwrap().to_vec();
    let open = || dataset.annotations().unwrap().open("labels").and_then(|set| set.verify());
    open().unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        replace(&*store, root.as_str(), &changed);
        let e = open().err().unwrap_or_else(|| panic!("{at}: {:?}", String::from_utf8_lossy(&changed)));
        assert!(e.code() == sigbank::Code::Corrupt && e.path().unwrap().ends_with("p1/root.json"), "{at} {e:?}");
    }
}
