//! Copies of JBOF data sets, whose files change in place: what is at the destination already is compared with the source.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // All of this file is test.

#[path = "support/far.rs"]
mod far;

use bytes::Bytes;
use far::{Far, p};
use sigbank::convert::copy::{CopyOptions, CopyReport, plan, run};
use sigbank::format::model::json::Json;
use sigbank::layout::jbof::{ArrayFile, Creation, Dataset};
use sigbank::layout::{Layout, detect};
use sigbank::store::{Expected, LocalStore, MemoryStore, Store};
use sigbank::{Code, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Shared = Arc<dyn Store>;

fn copy(from: &Shared, to: &Shared, update: bool) -> Result<CopyReport> {
    run(&plan(from, to, &CopyOptions { update, ..CopyOptions::default() })?, &mut |_, _| true)
}

fn fill(root: &Path) {
    let dataset = Dataset::create(root, &Creation::default()).unwrap();
    for n in 0..3u8 {
        let item = dataset.add_item(Some(&format!("i{n}")), &Json::EMPTY).unwrap();
        item.add_array("s", &ArrayFile::new("npy", &[&[n; 500]]), &Json::EMPTY).unwrap();
        // More than is written in one step.
        item.add_array("large", &ArrayFile::new("npy", &[&vec![n; 1_500_000]]), &Json::EMPTY).unwrap();
    }
}

/// A folder, or what is said to be far away.
fn place(folder: Option<&Path>) -> Shared {
    match folder {
        Some(folder) => Arc::new(LocalStore::create(folder).unwrap()),
        None => Arc::new(Far::new(Arc::new(MemoryStore::new()))),
    }
}

/// All that readers see in a place: what programs keep for themselves is not.
fn tree(store: &Shared) -> BTreeMap<String, Bytes> {
    let all = store.list(None).unwrap().map(|entry| entry.unwrap().path);
    let seen = all.filter(|path| !path.as_str().starts_with("__pycache__/") && !path.as_str().starts_with('.'));
    seen.map(|path| (path.as_str().to_owned(), store.get(&path).unwrap())).collect()
}

/// Sources and destinations in all ways, the source at `source`.
fn ways(test: impl Fn(&Shared, &Shared, &Path)) {
    for (from_far, to_far) in [(false, false), (false, true), (true, false)] {
        let dir = tempfile::tempdir().unwrap();
        fill(&dir.path().join("source"));
        let mut from = place(Some(&dir.path().join("source")));
        if from_far {
            let afar = place(None);
            copy(&from, &afar, false).unwrap();
            from = afar;
        }
        let to = place((!to_far).then(|| dir.path().join("copy")).as_deref());
        copy(&from, &to, false).unwrap();
        assert_eq!(tree(&from), tree(&to));
        test(&from, &to, &dir.path().join("copy"));
    }
}

fn put(store: &Shared, name: &str, bytes: &[u8]) {
    store.replace(&p(name), &[bytes], Expected::Any).unwrap();
}

#[test]
fn what_was_edited_at_the_source_replaces_what_is_there() {
    ways(|from, to, _| {
        let report = copy(from, to, true).unwrap();
        assert_eq!((report.objects, report.verified, report.skipped.0), (0, report.skipped.0, report.skipped.0));
        assert!(report.skipped.0 >= 12, "{report:?}");
        for name in ["i1/s.npy", "i2/large.npy", "i0/s.json", "i1/_metadata.json"] {
            // The source's, then the copy's, of the same size; then longer ones.
            for (changed, longer) in [(from, false), (to, false), (from, true), (to, true)] {
                let mut other = changed.get(&p(name)).unwrap().to_vec();
                if longer {
                    other.push(b' ');
                } else if name.ends_with(".json") {
                    other = format!("{{\"edited\": {}}}", u8::from(Arc::ptr_eq(changed, from))).into_bytes();
                } else {
                    *other.last_mut().unwrap() ^= 1;
                }
                put(changed, name, &other);
                let size = from.head(&p(name)).unwrap().size;
                let report = copy(from, to, true).unwrap();
                assert_eq!((report.objects, report.replaced, report.bytes, report.removed), (1, 1, size, 0), "{name}");
                assert_eq!(tree(from), tree(to), "{name}");
            }
        }
        assert_eq!(copy(from, to, true).unwrap().objects, 0);
        // As a copy it is refused, and the message says what else there is.
        let e = copy(from, to, false).unwrap_err();
        assert!(e.code() == Code::AlreadyExists && e.to_string().contains("sigbank sync"), "{e}");
    });
}

#[test]
fn the_root_and_new_items_come_and_what_is_gone_stays_until_it_is_to_be_deleted() {
    ways(|from, to, copied| {
        put(from, "i3/_metadata.json", b"{\"new\": 1}");
        put(from, "_metadata.json", b"{\"edited\": true}");
        for name in ["i0/_metadata.json", "i0/s.npy", "i0/s.json", "i0/large.npy", "i0/large.json", "i1/s.json", "i1/s.npy"] {
            from.delete(&p(name)).unwrap();
        }
        // The same array as another file.
        let wav = from.get(&p("i2/s.npy")).unwrap();
        put(from, "i2/s.wav", &wav);
        put(from, "i2/s.json", b"{\"_filename\": \"s.wav\"}");
        from.delete(&p("i2/s.npy")).unwrap();
        let before = tree(to);
        let todo = plan(from, to, &CopyOptions { update: true, ..CopyOptions::default() }).unwrap();
        let names: Vec<_> = todo.todo.iter().map(|object| (object.path.as_str(), object.replaces)).collect();
        assert_eq!(names, [("i2/s.wav", false), ("i2/s.json", true), ("i3/_metadata.json", false), ("_metadata.json", true)]);
        assert_eq!(todo.removes(), [p("i2/s.npy")]);
        let gone =
            ["i0/_metadata.json", "i0/large.json", "i0/s.json", "i1/s.json", "i0/large.npy", "i0/s.npy", "i1/s.npy"].map(p);
        assert_eq!(todo.kept, gone);
        let report = run(&todo, &mut |_, _| true).unwrap();
        assert_eq!((report.objects, report.replaced, report.removed), (4, 2, 1));
        let mut expected = tree(from);
        expected.extend(gone.iter().map(|path| (path.as_str().to_owned(), before[path.as_str()].clone())));
        assert_eq!(tree(to), expected);
        let delete = CopyOptions { update: true, delete: true, ..CopyOptions::default() };
        let todo = plan(from, to, &delete).unwrap();
        assert_eq!((todo.removes(), &*todo.kept, todo.todo.len()), (&gone[..], &[][..], 0));
        assert_eq!(run(&todo, &mut |_, _| true).unwrap().removed, 7);
        assert_eq!(tree(to), tree(from));
        assert!(!copied.join("i0").exists(), "an empty directory is left");
        assert_eq!(to.head(&p("__pycache__/sigbank/sync-deletes.json")).unwrap_err().code(), Code::NotFound);
        assert!(plan(from, to, &delete).unwrap().removes().is_empty());
    });
}

#[test]
fn at_every_end_of_a_killed_run_documents_name_what_is_there_and_the_next_run_completes_it() {
    ways(|from, to, _| {
        for n in 4..8 {
            put(from, &format!("i{n}/x.npy"), &[n; 300]);
            put(from, &format!("i{n}/x.json"), b"{\"_filename\": \"x.npy\"}");
            put(from, &format!("i{n}/_metadata.json"), b"{}");
        }
        for name in ["i0/_metadata.json", "i0/s.npy", "i0/s.json", "i0/large.npy", "i0/large.json", "i1/s.json", "i1/s.npy"] {
            from.delete(&p(name)).unwrap();
        }
        put(from, "i2/s.npy", &[9; 500]);
        put(from, "_metadata.json", b"{\"edited\": true}");
        let options = CopyOptions { update: true, delete: true, jobs: 1, ..CopyOptions::default() };
        let mut ended = 0;
        for steps in 1.. {
            let mut heard = 0;
            // Each time one step more than the last time, from what that left.
            let todo = plan(from, to, &options).unwrap();
            let done = run(&todo, &mut |_, _| {
                heard += 1;
                heard <= 1 + steps % 4
            });
            let now = tree(to);
            for (name, text) in now.iter().filter(|(name, _)| name.ends_with(".json")) {
                let document: serde_json::Value = serde_json::from_slice(text).unwrap();
                if let Some(file) = document["_filename"].as_str() {
                    assert!(now.contains_key(&format!("{}/{file}", name.split_once('/').unwrap().0)), "{name} names {file}");
                }
            }
            for n in 4..8 {
                let whole = now.contains_key(&format!("i{n}/x.json")) || !now.contains_key(&format!("i{n}/_metadata.json"));
                assert!(whole, "i{n} is there before its array");
            }
            match done {
                Ok(_) => break,
                Err(e) => assert_eq!(e.code(), Code::Conflict, "{e}"),
            }
            ended += 1;
        }
        assert!(ended >= 6, "{ended}");
        copy(from, to, true).unwrap();
        assert_eq!(tree(from), tree(to));
        assert_eq!(to.head(&p("__pycache__/sigbank/sync-deletes.json")).unwrap_err().code(), Code::NotFound);
    });
}

#[test]
fn another_data_set_is_not_replaced_and_what_is_no_data_set_not_either() {
    let dir = tempfile::tempdir().unwrap();
    fill(&dir.path().join("source"));
    let from = place(Some(&dir.path().join("source")));
    let delete = CopyOptions { update: true, delete: true, ..CopyOptions::default() };
    let to = place(None);
    put(&to, "_metadata.json", b"{}");
    put(&to, "other/_metadata.json", b"{}");
    let before = tree(&to);
    let e = plan(&from, &to, &delete).unwrap_err();
    assert!(e.code() == Code::Conflict && e.to_string().contains("another data set"), "{e}");
    assert_eq!(tree(&to), before);
    // A folder of other things, without a root.
    let to = place(Some(&dir.path().join("plain")));
    put(&to, "i0/_metadata.json", b"what?");
    let e = plan(&from, &to, &delete).unwrap_err();
    assert!(e.code() == Code::AlreadyExists && e.to_string().contains("not empty"), "{e}");
    assert_eq!(to.get(&p("i0/_metadata.json")).unwrap(), &b"what?"[..]);
}

#[test]
fn what_changes_in_a_bucket_meanwhile_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    fill(&dir.path().join("source"));
    let from = place(Some(&dir.path().join("source")));
    let to: Shared = Arc::new(MemoryStore::new());
    copy(&from, &to, false).unwrap();
    put(&from, "i1/s.npy", &[8; 500]);
    let todo = plan(&from, &to, &CopyOptions { update: true, ..CopyOptions::default() }).unwrap();
    put(&to, "i1/s.npy", &[7; 500]);
    let e = run(&todo, &mut |_, _| true).unwrap_err();
    assert!(e.code() == Code::Conflict && e.path().unwrap().ends_with("i1/s.npy"), "{e}");
    assert_eq!(to.get(&p("i1/s.npy")).unwrap(), vec![7; 500]);
    copy(&from, &to, true).unwrap();
    assert_eq!(to.get(&p("i1/s.npy")).unwrap(), vec![8; 500]);
}

#[test]
fn what_a_killed_copy_left_is_compared_with_what_the_source_is_now() {
    for to_far in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        fill(&dir.path().join("source"));
        let from = place(Some(&dir.path().join("source")));
        let to = place((!to_far).then(|| dir.path().join("copy")).as_deref());
        let begun = plan(&from, &to, &CopyOptions { jobs: 1, ..CopyOptions::default() }).unwrap();
        assert_eq!(run(&begun, &mut |bytes, _| bytes < 2_000_000).unwrap_err().code(), Code::Conflict);
        assert_eq!(detect(&*to).unwrap(), None);
        let left = begun.todo.iter().find(|object| to.head(&object.path).is_ok()).unwrap().path.clone();
        let mut other = from.get(&left).unwrap().to_vec();
        *other.last_mut().unwrap() ^= 1;
        from.replace(&left, &[&other], Expected::Any).unwrap();
        let e = copy(&from, &to, false).unwrap_err();
        assert_eq!((e.code(), e.path().unwrap().ends_with(left.as_str())), (Code::AlreadyExists, true), "{e}");
        // As the message says.
        assert!(e.to_string().contains("sigbank sync replaces it"), "{e}");
        assert_eq!(copy(&from, &to, true).unwrap().replaced, 1);
        assert_eq!(detect(&*to).unwrap(), Some(Layout::Jbof));
        assert_eq!(to.get(&left).unwrap(), other);
    }
}
