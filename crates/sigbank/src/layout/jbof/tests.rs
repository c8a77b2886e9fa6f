use super::*;
use crate::Code;
use crate::store::{LocalStore, Store};
use sigbank_format::array::npy;
use sigbank_format::model::Array;
use sigbank_format::model::json::Json;
use std::path::Path;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Default::default()).unwrap()
}

fn bytes(value: u8) -> Vec<u8> {
    npy::to_bytes(&Array::new("|u1".parse().unwrap(), vec![3], vec![value; 3].into()).unwrap()).unwrap()
}

fn fresh() -> (tempfile::TempDir, Dataset) {
    let dir = tempfile::tempdir().unwrap();
    let dataset =
        Dataset::create(&dir.path().join("set"), &Creation { metadata: json(r#"{"a": 1}"#), ..Creation::default() }).unwrap();
    (dir, dataset)
}

fn names_below(root: &Path) -> Vec<String> {
    let store = LocalStore::open(root).unwrap();
    let mut names: Vec<String> = store.list(None).unwrap().map(|entry| entry.unwrap().path.to_string()).collect();
    names.retain(|name| !name.starts_with("__pycache__/"));
    names.sort();
    names
}

#[test]
fn what_is_added_is_there_and_what_is_deleted_is_gone() {
    let (dir, dataset) = fresh();
    let root = dir.path().join("set");
    let item = dataset.add_item(Some("22.05"), &json(r#"{"snr": 3}"#)).unwrap();
    let data = bytes(1);
    item.add_array("x.y", &ArrayFile::new("npy", &[&data[..10], &data[10..]]), &json(r#"{"unit": "V"}"#)).unwrap();
    assert_eq!(names_below(&root), ["22.05/_metadata.json", "22.05/x.y.json", "22.05/x.y.npy", "__init__.py", "_metadata.json"]);
    assert_eq!(
        std::fs::read_to_string(root.join("22.05/x.y.json")).unwrap(),
        "{\n  \"_filename\": \"x.y.npy\",\n  \"unit\": \"V\"\n}"
    );
    assert_eq!(std::fs::read_to_string(root.join("_metadata.json")).unwrap(), "{\n  \"_itemformat\": null,\n  \"a\": 1\n}");
    let read = Dataset::open(&root).unwrap();
    assert_eq!(read.metadata().unwrap(), json(r#"{"a": 1}"#));
    let entry = read.item("22.05").unwrap().array("x.y").unwrap();
    assert_eq!(
        (entry.metadata(), entry.open(Default::default()).unwrap().info().shape.clone()),
        (&json(r#"{"unit":"V"}"#), vec![3])
    );
    assert_eq!(item.add_array("x.y", &ArrayFile::new("wav", &[b""]), &Json::EMPTY).unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(dataset.add_item(Some("22.05"), &Json::EMPTY).unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(read.add_item(Some("b"), &Json::EMPTY).unwrap_err().code(), Code::ReadOnly);
    item.delete_array("x.y").unwrap();
    assert!(!item.has_array("x.y").unwrap() && item.delete_array("x.y").unwrap_err().code() == Code::NotFound);
    assert_eq!(names_below(&root), ["22.05/_metadata.json", "__init__.py", "_metadata.json"]);
    dataset.delete_item("22.05").unwrap();
    assert!(dataset.item_names().unwrap().is_empty() && dataset.delete_item("22.05").unwrap_err().code() == Code::NotFound);
    Dataset::delete(&root).unwrap();
    assert!(!root.exists() && Dataset::open(&root).unwrap_err().code() == Code::NotFound);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn names_that_lead_elsewhere_or_are_skipped_are_refused() {
    let (_dir, dataset) = fresh();
    let item = dataset.add_item(Some("ok"), &Json::EMPTY).unwrap();
    let long = "x".repeat(256);
    for name in ["", ".", "..", "a/b", "/etc", "a\\b", "../../x", "n\nl", "nul\0", &long] {
        assert_eq!(dataset.add_item(Some(name), &Json::EMPTY).unwrap_err().code(), Code::Invalid, "{name:?}");
        assert!(!dataset.has_item(name).unwrap() && dataset.item(name).unwrap_err().code() == Code::NotFound);
        let e = item.add_array(name, &ArrayFile::new("npy", &[]), &Json::EMPTY).unwrap_err();
        assert_eq!(e.code(), Code::Invalid, "{name:?}");
    }
    for name in [".hidden", "__pycache__"] {
        assert_eq!(dataset.add_item(Some(name), &Json::EMPTY).unwrap_err().code(), Code::Invalid, "{name:?}");
    }
    assert_eq!(item.add_array("_metadata", &ArrayFile::new("npy", &[]), &Json::EMPTY).unwrap_err().code(), Code::Invalid);
    dataset.add_item(Some(&"x".repeat(255)), &Json::EMPTY).unwrap();
    for name in ["Track 2.0 (x)", "é", "e\u{301}", "A", "a", "CON", "a:b", "a."] {
        dataset.add_item(Some(name), &Json::EMPTY).unwrap();
    }
    assert_eq!(dataset.item_names().unwrap().len(), 10);
}

#[test]
fn litter_and_strangers_are_no_items_and_change_no_hash() {
    let (dir, dataset) = fresh();
    let root = dir.path().join("set");
    let data = bytes(2);
    dataset.add_item(Some("a"), &Json::EMPTY).unwrap().add_array("x", &ArrayFile::new("npy", &[&data]), &Json::EMPTY).unwrap();
    let hash = dataset.hash(2).unwrap();
    for litter in [".DS_Store", "Thumbs.db", "a.wav~", "desktop.ini", "._x.npy", ".nfs0001"] {
        std::fs::write(root.join(litter), b"?").unwrap();
        std::fs::write(root.join("a").join(litter), b"?").unwrap();
    }
    for folder in [".ipynb_checkpoints", "__pycache__/x", "__MACOSX", "no item"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
        std::fs::create_dir_all(root.join("a").join(folder)).unwrap();
    }
    assert_eq!((dataset.item_names().unwrap(), dataset.hash(0).unwrap()), (vec!["a".into()], hash.clone()));
    assert_eq!(dataset.item("a").unwrap().array_names().unwrap(), ["x"]);
    // A byte of the data, though, does.
    let mut changed = data;
    *changed.last_mut().unwrap() ^= 1;
    std::fs::write(root.join("a/x.npy"), changed).unwrap();
    assert_ne!(dataset.hash(0).unwrap(), hash);
}

/// Every state that a kill can leave between two of the steps of adding and deleting an array.
#[test]
fn what_a_killed_process_left_is_seen_by_nobody_and_put_right() {
    let (dir, dataset) = fresh();
    let root = dir.path().join("set");
    let data = bytes(3);
    let item = dataset.add_item(Some("a"), &Json::EMPTY).unwrap();
    item.add_array("kept", &ArrayFile::new("npy", &[&data]), &Json::EMPTY).unwrap();
    let hash = dataset.hash(1).unwrap();
    let note = "a\nx\nx.npy\n";
    let lock = root.join("__pycache__/sigbank/store").join(super::lock::file_name(&crate::uri::RelPath::parse("a").unwrap()));
    let noted = || std::fs::metadata(&lock).is_ok_and(|found| found.len() > 0);
    // What lies there, and whether the array is there then.
    for (data_file, document, there) in [(false, false, false), (true, false, false), (true, true, true)] {
        std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
        std::fs::write(&lock, note).unwrap();
        if data_file {
            std::fs::write(root.join("a/x.npy"), &data).unwrap();
        }
        if document {
            std::fs::write(root.join("a/x.json"), "{\"_filename\": \"x.npy\"}").unwrap();
        }
        let read = Dataset::open(&root).unwrap();
        assert_eq!(read.hash(1).unwrap() == hash, !there, "{data_file} {document}");
        assert_eq!(read.item("a").unwrap().has_array("x").unwrap(), there);
        // Nobody else is at work, so the next to open it for writing clears up.
        let again = Dataset::open_to_write(&root, false).unwrap();
        assert_eq!((root.join("a/x.npy").exists(), noted()), (there, false));
        let item = again.item("a").unwrap();
        if !there {
            let x = item.add_array("x", &ArrayFile::new("npy", &[&data]), &Json::EMPTY).unwrap();
            assert_eq!(x.open(Default::default()).unwrap().info().shape, [3]);
        }
        item.delete_array("x").unwrap();
        assert_eq!(again.hash(1).unwrap(), hash);
    }
    // So does who adds to that item alone, and a file that is nobody's is not taken away.
    std::fs::write(&lock, note).unwrap();
    std::fs::write(root.join("a/x.npy"), &data).unwrap();
    item.add_array("x", &ArrayFile::new("npy", &[&data]), &Json::EMPTY).unwrap();
    std::fs::write(root.join("a/y.npy"), &data).unwrap();
    let e = item.add_array("y", &ArrayFile::new("npy", &[&data]), &Json::EMPTY).unwrap_err();
    assert!(e.code() == Code::AlreadyExists && e.to_string().contains("belongs to no array"), "{e}");
    assert!(root.join("a/y.npy").exists() && !noted());
}

#[test]
fn writers_of_one_name_have_one_winner() {
    let (dir, dataset) = fresh();
    let root = dir.path().join("set");
    dataset.add_item(Some("shared"), &Json::EMPTY).unwrap();
    let won = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8u8)
            .map(|n| {
                let root = &root;
                scope.spawn(move || {
                    let mine = Dataset::open_to_write(root, false).unwrap();
                    let data = bytes(n);
                    let mut won = (0, 0);
                    for round in 0..10 {
                        let metadata = json(&format!("{{\"by\": {n}}}"));
                        won.0 += u32::from(mine.add_item(Some(&format!("i{round}")), &metadata).is_ok());
                        let format = if n % 2 == 0 { "npy" } else { "wav" };
                        let added = mine.item("shared").unwrap().add_array(
                            &format!("a{round}"),
                            &ArrayFile::new(format, &[&data]),
                            &metadata,
                        );
                        if let Err(e) = &added {
                            assert_eq!(e.code(), Code::AlreadyExists, "{e}");
                        }
                        won.1 += u32::from(added.is_ok());
                    }
                    won
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).fold((0, 0), |sum, won| (sum.0 + won.0, sum.1 + won.1))
    });
    assert_eq!(won, (10, 10));
    for round in 0..10 {
        let entry = dataset.item("shared").unwrap().array(&format!("a{round}")).unwrap();
        let by = entry.metadata().to_value().unwrap()["by"].as_u64().unwrap();
        assert_eq!(*std::fs::read(entry.location()).unwrap().last().unwrap() as u64, by);
    }
    assert_eq!(std::fs::read_dir(root.join("shared")).unwrap().count(), 21, "no file of a loser stays");
}
