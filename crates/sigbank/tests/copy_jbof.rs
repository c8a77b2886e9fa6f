//! Copies of JBOF data sets, whose files change in place: what is at the destination already is compared with the source.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // All of this file is test.

#[path = "support/far.rs"]
mod far;

use far::{Far, p};
use sigbank::convert::copy::{CopyOptions, CopyReport, plan, run};
use sigbank::format::model::json::Json;
use sigbank::layout::jbof::{ArrayFile, Creation, Dataset};
use sigbank::layout::{Layout, detect};
use sigbank::store::{Expected, LocalStore, MemoryStore, Store};
use sigbank::{Code, Result};
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

#[test]
fn a_file_of_the_same_size_is_no_copy() {
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
        let report = copy(&from, &to, true).unwrap();
        assert_eq!((report.objects, report.verified, report.skipped.0), (0, report.skipped.0, report.skipped.0));
        assert!(report.skipped.0 >= 12, "{report:?}");
        for (name, size) in [("i1/s.npy", 500), ("i2/large.npy", 1_500_000)] {
            // The source's, then the copy's.
            for changed in [&from, &to] {
                let before = changed.get(&p(name)).unwrap();
                let mut other = before.to_vec();
                *other.last_mut().unwrap() ^= 1;
                changed.replace(&p(name), &[&other], Expected::Any).unwrap();
                let e = copy(&from, &to, true).unwrap_err();
                assert_eq!((e.code(), e.path().unwrap().ends_with(name)), (Code::AlreadyExists, true), "{e}");
                assert!(e.to_string().contains("delete this object at the destination"), "{e}");
                assert_eq!(to.head(&p(name)).unwrap().size, size);
                if Arc::ptr_eq(changed, &from) {
                    // As the message says.
                    to.delete(&p(name)).unwrap();
                    assert_eq!(copy(&from, &to, true).unwrap().objects, 1);
                    assert_eq!(to.get(&p(name)).unwrap(), other);
                } else {
                    to.replace(&p(name), &[&before], Expected::Any).unwrap();
                    copy(&from, &to, true).unwrap();
                }
            }
        }
    }
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
        to.delete(&left).unwrap();
        copy(&from, &to, false).unwrap();
        assert_eq!(detect(&*to).unwrap(), Some(Layout::Jbof));
        assert_eq!(to.get(&left).unwrap(), other);
    }
}
