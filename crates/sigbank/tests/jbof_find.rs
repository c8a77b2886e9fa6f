//! Search in JBOF data sets: right with an index, with a stale, damaged or foreign one, and without; and what it costs.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // All of this file is test.

#[path = "support/far.rs"]
mod far;

use far::Far;
use sigbank::format::array::npy;
use sigbank::format::model::json::Json;
use sigbank::layout::jbof::{ArrayFile, Creation, Dataset};
use sigbank::query::jbof::{Catalog, INDEX, Keep, Odd, described};
use sigbank::query::{Expr, Record, Table, TableBuilder};
use sigbank::store::{Expected, MemoryStore, Store};
use sigbank::uri::RelPath;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Default::default()).unwrap()
}

fn metadata(n: usize) -> Json {
    json(&format!("{{\"n\": {n}, \"speaker\": \"s{}\"}}", n % 5))
}

/// A data set of so many items, whose files are old enough to be told from later ones.
fn filled(root: &Path, count: usize) -> Dataset {
    let dataset = Dataset::create(root, &Creation::default()).unwrap();
    for n in 0..count {
        dataset.add_item(Some(&format!("i{n:04}")), &metadata(n)).unwrap();
    }
    settle();
    dataset
}

/// Longer than the steps in which filesystems tell times.
fn settle() {
    std::thread::sleep(Duration::from_millis(150));
}

/// What a fresh catalog finds, and what one without an index does.
fn found(dataset: &Dataset, text: &str, keep: Keep) -> Vec<String> {
    let expr: Expr = text.parse().unwrap();
    let mut names = [keep, Keep::Ignore].map(|keep| {
        let mut catalog = Catalog::new(keep);
        names_in(&mut catalog, dataset, &expr)
    });
    let without = names[1].clone();
    assert_eq!(names[0], without, "with and without an index");
    std::mem::take(&mut names[0])
}

fn names_in(catalog: &mut Catalog, dataset: &Dataset, expr: &Expr) -> Vec<String> {
    catalog.refresh(dataset, expr, 2).unwrap();
    let hits = catalog.find(expr, Odd::Expr, None).unwrap();
    assert!(hits.iter().all(|hit| hit.certain));
    hits.iter().map(|hit| catalog.table().id(hit.row).to_owned()).collect()
}

fn index_of(dataset: &Dataset) -> PathBuf {
    dataset.local_root().unwrap().join(INDEX)
}

#[test]
fn an_index_is_left_where_it_gains_something_and_is_never_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = filled(&dir.path().join("set"), 600);
    let root = dataset.local_root().unwrap().to_owned();
    assert_eq!(found(&dataset, "n < 2", Keep::Use), ["i0000", "i0001"]);
    assert!(!index_of(&dataset).exists());
    assert_eq!(found(&dataset, "n < 2", Keep::Auto), ["i0000", "i0001"]);
    let table = Table::open(&index_of(&dataset)).unwrap();
    assert_eq!((table.len(), table.is_described()), (600, false));

    dataset.delete_item("i0007").unwrap();
    dataset.add_item(Some("i0008x"), &metadata(7)).unwrap();
    std::fs::write(root.join("i0009/_metadata.json"), b"{\"n\": 7}").unwrap();
    assert_eq!(found(&dataset, "n == 7", Keep::Auto), ["i0008x", "i0009"]);
    assert_eq!(found(&dataset, "n == 9", Keep::Auto), Vec::<String>::new());

    // The same length, the same modification time: the inode's own time tells.
    let path = root.join("i0010/_metadata.json");
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    let text = std::fs::read_to_string(&path).unwrap().replace("\"n\": 10", "\"n\": 77");
    std::fs::write(&path, text).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
    assert_eq!(found(&dataset, "n == 77", Keep::Auto), ["i0010", "i0077"]);

    // Another file of the same size under the same name.
    let other = std::fs::read_to_string(root.join("i0011/_metadata.json")).unwrap().replace("\"n\": 11", "\"n\": 78");
    std::fs::write(root.join("other"), other).unwrap();
    std::fs::rename(root.join("other"), root.join("i0011/_metadata.json")).unwrap();
    assert_eq!(found(&dataset, "n == 78", Keep::Auto), ["i0011", "i0078"]);

    // A copy of all has other inodes and times, whatever else is kept.
    let copy = dir.path().join("copy");
    assert!(std::process::Command::new("cp").arg("-a").args([&root, &copy]).status().unwrap().success());
    std::fs::write(copy.join("i0012/_metadata.json"), b"{\"n\": 1000}").unwrap();
    assert_eq!(found(&Dataset::open(&copy).unwrap(), "n == 1000", Keep::Auto), ["i0012"]);
}

/// Bytes that this thread has read from files.
#[cfg(target_os = "linux")]
fn bytes_read() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    told.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn with_an_index_no_document_is_read_that_did_not_change() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = filled(&dir.path().join("set"), 600);
    let expr: Expr = "n == 33".parse().unwrap();
    let cost = |keep| {
        let mut catalog = Catalog::new(keep);
        let before = bytes_read();
        catalog.refresh(&dataset, &expr, 1).unwrap();
        let read = bytes_read() - before;
        assert_eq!(catalog.find(&expr, Odd::Expr, None).unwrap().len(), 1);
        read
    };
    let documents = cost(Keep::Ignore);
    assert!(documents > 600 * 20);
    // The first one reads all documents, and leaves the index.
    assert!(cost(Keep::Auto) >= documents);
    let index = std::fs::metadata(index_of(&dataset)).unwrap().len();
    assert!(cost(Keep::Auto) < index + 1000);
    std::fs::write(dataset.local_root().unwrap().join("i0001/_metadata.json"), format!("{{\"n\": 1, \"x\": {:5000}}}", 1))
        .unwrap();
    let again = cost(Keep::Use);
    assert!(again > index + 5000 && again < index + 6500, "{again} with an index of {index}");
}

#[test]
fn what_is_changed_at_once_after_it_was_read_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = Dataset::create(&dir.path().join("set"), &Creation::default()).unwrap();
    for n in 0..5 {
        dataset.add_item(Some(&format!("i{n}")), &metadata(n)).unwrap();
    }
    for round in 100..120 {
        // Within one step of the clock, perhaps.
        let path = dataset.local_root().unwrap().join("i3/_metadata.json");
        std::fs::write(&path, format!("{{\"n\": {round}}}")).unwrap();
        Catalog::new(Keep::Auto).write_index(&dataset, false, 1).unwrap();
        std::fs::write(&path, format!("{{\"n\": {}}}", round + 1)).unwrap();
        assert_eq!(found(&dataset, &format!("n == {}", round + 1), Keep::Auto), ["i3"]);
        assert_eq!(found(&dataset, &format!("n == {round}"), Keep::Auto), Vec::<String>::new());
    }
}

#[test]
fn a_directory_that_becomes_an_item_is_seen_though_the_root_did_not_change() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = filled(&dir.path().join("set"), 4);
    let root = dataset.local_root().unwrap();
    // As the reference adds items: the directory, and then its document.
    std::fs::create_dir(root.join("late")).unwrap();
    settle();
    let mut catalog = Catalog::new(Keep::Auto);
    catalog.write_index(&dataset, false, 1).unwrap();
    catalog.write_index(&dataset, false, 1).unwrap();
    let expr = "n == 50".parse().unwrap();
    assert_eq!(names_in(&mut catalog, &dataset, &expr), Vec::<String>::new());
    std::fs::write(root.join("late/_metadata.json"), b"{\"n\": 50}").unwrap();
    assert_eq!(names_in(&mut catalog, &dataset, &expr), ["late"]);
    assert_eq!(found(&dataset, "n == 50", Keep::Auto), ["late"]);
}

#[test]
fn damaged_foreign_and_newer_indices_are_passed_over_and_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = filled(&dir.path().join("set"), 600);
    let path = index_of(&dataset);
    assert_eq!(found(&dataset, "n == 3", Keep::Auto), ["i0003"]);
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 3] ^= 1;
    let cases: [(&[u8], bool); 5] =
        [(&flipped, true), (&whole[..whole.len() / 2], true), (b"", true), (b"something else", true), (&[0; 4096], true)];
    for (bytes, told) in cases {
        std::fs::write(&path, bytes).unwrap();
        let (mut catalog, expr) = (Catalog::new(Keep::Auto), "n == 3".parse().unwrap());
        assert_eq!(names_in(&mut catalog, &dataset, &expr), ["i0003"]);
        assert_eq!(catalog.take_warning().is_some(), told);
        assert_eq!(Table::open(&path).unwrap().len(), 600, "it is made anew");
    }
    // One of other data, whole: its stamps fit nothing here.
    let other = filled(&dir.path().join("other"), 600);
    std::fs::write(other.local_root().unwrap().join("i0003/_metadata.json"), b"{\"n\": 4000}").unwrap();
    Catalog::new(Keep::Auto).write_index(&other, false, 0).unwrap();
    std::fs::copy(index_of(&other), &path).unwrap();
    assert_eq!(found(&dataset, "n == 3", Keep::Auto), ["i0003"]);
    assert_eq!(found(&dataset, "n == 4000", Keep::Auto), Vec::<String>::new());
    // One of another layout.
    Table::open(&path).unwrap().save(&path, "other").unwrap();
    assert_eq!(found(&dataset, "n == 3", Keep::Auto), ["i0003"]);
    // One that names what is outside.
    let mut rows = TableBuilder::default();
    rows.push(&Record::new("../other/i0003", &metadata(3)), 1);
    rows.finish().save(&path, "jbof").unwrap();
    assert_eq!(found(&dataset, "n == 3", Keep::Auto), ["i0003"]);
    // What killed writers left is removed when the next index is written, where it is old.
    let left = ["old", "new"].map(|name| path.with_file_name(format!(".index.parquet.{name}")));
    for file in &left {
        std::fs::write(file, b"half").unwrap();
    }
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(7200);
    std::fs::File::options().write(true).open(&left[0]).unwrap().set_modified(long_ago).unwrap();
    Catalog::new(Keep::Auto).write_index(&dataset, false, 0).unwrap();
    assert_eq!(left.map(|file| file.exists()), [false, true]);
    // A directory in its place: no index then, and no harm.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(found(&dataset, "n == 3", Keep::Auto), ["i0003"]);
    assert!(Catalog::new(Keep::Auto).write_index(&dataset, false, 0).is_err());
}

#[test]
fn arrays_are_asked_for_and_followed() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = filled(&dir.path().join("set"), 20);
    let array = |len: usize| [npy::header(&"<f4".parse().unwrap(), &[len]).unwrap(), vec![0; 4 * len]].concat();
    for n in 0..10 {
        let item = dataset.item(&format!("i{n:04}")).unwrap();
        item.add_array("voice", &ArrayFile::new("npy", &[&array(n)]), &json(r#"{"samplerate": 16000}"#)).unwrap();
    }
    settle();
    assert_eq!(found(&dataset, "voice@length > 8 or (has(voice) and n == 1)", Keep::Auto), ["i0001", "i0009"]);
    Catalog::new(Keep::Auto).write_index(&dataset, true, 0).unwrap();
    let table = Table::open(&index_of(&dataset)).unwrap();
    assert!(table.is_described());
    assert_eq!(table.fields(4).unwrap()[0].shape, Some(vec![4]));
    assert_eq!(
        found(&dataset, "voice@length > 8 and voice@dtype == 'float32' and voice@sample_rate == 16000", Keep::Auto),
        ["i0009"]
    );
    // An array more, one less, one in another's place; a catalog that was used before sees them too.
    let (mut catalog, expr) = (Catalog::new(Keep::Use), "voice@length > 8".parse().unwrap());
    assert_eq!(names_in(&mut catalog, &dataset, &expr), ["i0009"]);
    dataset.item("i0015").unwrap().add_array("voice", &ArrayFile::new("npy", &[&array(99)]), &Json::EMPTY).unwrap();
    dataset.item("i0009").unwrap().delete_array("voice").unwrap();
    std::fs::write(dataset.local_root().unwrap().join("i0002/voice.npy"), array(77)).unwrap();
    std::fs::write(dataset.local_root().unwrap().join("i0003/voice.npy"), b"damaged").unwrap();
    assert_eq!(names_in(&mut catalog, &dataset, &expr), ["i0002", "i0015"]);
    assert_eq!(found(&dataset, "voice@length > 8", Keep::Auto), ["i0002", "i0015"]);
    assert_eq!(found(&dataset, "has(voice) and not voice@length >= 0", Keep::Auto), ["i0003"]);
    // Metadata that change leave the arrays as they are known.
    std::fs::write(dataset.local_root().unwrap().join("i0004/_metadata.json"), b"{\"n\": 44}").unwrap();
    assert_eq!(found(&dataset, "n == 44 and voice@length == 4", Keep::Auto), ["i0004"]);
}

#[test]
fn odd_documents_are_found_and_damaged_ones_told() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = filled(&dir.path().join("set"), 600);
    let root = dataset.local_root().unwrap();
    for (item, text) in [("i0001", "{\"n\": NaN, \"a\": 1}"), ("i0002", "[1]"), ("i0003", "{\"n\":")] {
        std::fs::write(root.join(item).join("_metadata.json"), text).unwrap();
    }
    settle();
    for _ in 0..3 {
        let mut catalog = Catalog::new(Keep::Auto);
        let expr: Expr = "n == null or n < 5 or a == 1".parse().unwrap();
        catalog.refresh(&dataset, &expr, 0).unwrap();
        let told = |odd, limit| -> Vec<(String, bool)> {
            let hits = catalog.find(&expr, odd, limit).unwrap();
            hits.iter().map(|hit| (catalog.table().id(hit.row).to_owned(), hit.certain)).collect()
        };
        let named = |name: &str, certain| (name.to_owned(), certain);
        assert_eq!(told(Odd::Expr, None), [named("i0000", true), named("i0001", true), named("i0004", true)]);
        let (first, third) = (named("i0000", true), named("i0002", false));
        assert_eq!(told(Odd::Caller, None)[..4], [first.clone(), named("i0001", false), third, named("i0003", false)]);
        assert_eq!(told(Odd::Caller, Some(1)), std::slice::from_ref(&first));
        assert_eq!(told(Odd::Expr, Some(2)), [first, named("i0001", true)]);
        let told = catalog.unsearched().unwrap();
        assert!(told.starts_with("1 item was not searched (\"i0003\"): its _metadata.json is no JSON"), "{told}");
    }
}

#[test]
fn one_file_and_far_away_is_searched_too() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = filled(&dir.path().join("set"), 5);
    let store = sigbank::store::LocalStore::open(dataset.local_root().unwrap()).unwrap();
    let far = Dataset::open_store(std::sync::Arc::new(store)).unwrap();
    assert_eq!(found(&far, "n >= 3", Keep::Auto), ["i0003", "i0004"]);
    dataset.delete_item("i0003").unwrap();
    assert_eq!(found(&far, "n >= 3", Keep::Auto), ["i0004"]);
    let error = Catalog::new(Keep::Auto).write_index(&far, false, 0).unwrap_err();
    assert_eq!(error.code(), sigbank::Code::Unsupported);
}

#[test]
fn writers_of_the_index_and_of_items_at_once_are_all_right() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = filled(&dir.path().join("set"), 100);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let dataset = dataset.clone();
            scope.spawn(move || {
                for n in 0..15 {
                    let name = format!("t{thread}-{n}");
                    dataset.add_item(Some(&name), &json(&format!("{{\"mine\": {}}}", 1000 * thread + n))).unwrap();
                    let mut catalog = Catalog::new(Keep::Auto);
                    catalog.write_index(&dataset, n % 2 == 0, 1).unwrap();
                    assert_eq!(
                        names_in(
                            &mut Catalog::new(Keep::Auto),
                            &dataset,
                            &format!("mine == {}", 1000 * thread + n).parse().unwrap()
                        ),
                        [name.as_str()]
                    );
                    if n % 3 == 0 {
                        dataset.delete_item(&name).unwrap();
                        assert!(
                            names_in(&mut Catalog::new(Keep::Auto), &dataset, &format!("id == '{name}'").parse().unwrap())
                                .is_empty()
                        );
                    }
                }
            });
        }
    });
    assert_eq!(found(&dataset, "exists(mine)", Keep::Auto).len(), 40);
    let left = std::fs::read_dir(index_of(&dataset).parent().unwrap()).unwrap();
    assert!(left.map(|entry| entry.unwrap().file_name()).all(|name| !name.to_string_lossy().starts_with('.')));
}

/// What a folder holds, in a store of its own.
fn uploaded(root: &Path) -> MemoryStore {
    let store = MemoryStore::new();
    let local = sigbank::store::LocalStore::open(root).unwrap();
    for entry in local.list(None).unwrap() {
        let path = entry.unwrap().path;
        if !path.as_str().starts_with("__pycache__") {
            store.create(&path, &[&local.get(&path).unwrap()]).unwrap();
        }
    }
    store
}

#[test]
fn an_index_in_a_bucket_stands_for_all_items_while_their_listing_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = filled(&dir.path().join("set"), 40);
    for n in [3, 5] {
        let file = [npy::header(&"<i2".parse().unwrap(), &[n]).unwrap(), vec![0; 2 * n]].concat();
        let item = dataset.item(&format!("i{n:04}")).unwrap();
        item.add_array("x", &ArrayFile::new("npy", &[&file]), &json("{\"mic\": 2}")).unwrap();
    }
    let root = dataset.local_root().unwrap();
    std::fs::write(root.join("i0009/_metadata.json"), b"{\"n\": 9, \"n\": 9}").unwrap();
    std::fs::write(root.join("i0011/torn.json"), b"{").unwrap();
    let memory = uploaded(root);
    let store = Far::new(Arc::new(memory.clone()));
    let open = || Dataset::open_store(Arc::new(store.clone())).unwrap();
    assert_eq!(described(&open()).unwrap(), None);
    let place = Catalog::new(Keep::Auto).write_index(&open(), true, 2).unwrap();
    assert!(place.ends_with(INDEX), "{}", place.display());

    let expr: Expr = "x@length >= 3 and n > 3".parse().unwrap();
    let find = || {
        let mut catalog = Catalog::new(Keep::Use);
        catalog.refresh(&open(), &expr, 1).unwrap();
        let hits = catalog.find(&expr, Odd::Expr, None).unwrap();
        assert!(catalog.unsearched().unwrap().contains("1 item was not searched (\"i0009\")"));
        hits.iter().map(|hit| catalog.table().id(hit.row).to_owned()).collect::<Vec<_>>()
    };
    store.forget();
    assert_eq!(find(), ["i0005"]);
    // The listing, the index, the document that no index holds and the arrays of the item with a torn one: not 40 items.
    assert!(store.requests() < 15, "{} requests", store.requests());
    store.forget();
    let all = described(&open()).unwrap().unwrap();
    assert!(store.requests() < 25, "{} requests", store.requests());
    let names: Vec<String> = all.iter().map(|(name, _)| name.clone()).collect();
    let truth = open().describe(&names, 1).unwrap();
    assert_eq!(names, open().item_names().unwrap());
    assert!(all.iter().zip(&truth).all(|((_, arrays), truth)| Some(arrays) == truth.as_ref()));
    assert_eq!((all[3].1[0].shape.as_deref(), all[3].1[0].metadata.as_str()), (Some(&[3][..]), r#"{"mic":2}"#));
    assert_eq!(all[11].1[0].problem.as_ref().unwrap().code, "corrupt");
    // The same in the folder, by the times of its files.
    assert_eq!(described(&dataset).unwrap(), None);
    settle();
    Catalog::new(Keep::Auto).write_index(&dataset, true, 2).unwrap();
    assert_eq!(described(&dataset).unwrap().unwrap(), all);

    // Another document of the same size: the index is passed over.
    let changed = RelPath::parse("i0007/_metadata.json").unwrap();
    let text = String::from_utf8(memory.get(&changed).unwrap().to_vec()).unwrap().replace("\"n\": 7", "\"n\": 6");
    memory.replace(&changed, &[text.as_bytes()], Expected::Any).unwrap();
    assert_eq!(described(&open()).unwrap(), None);
    let expr: Expr = "n == 6".parse().unwrap();
    let mut catalog = Catalog::new(Keep::Use);
    catalog.refresh(&open(), &expr, 1).unwrap();
    assert_eq!(catalog.find(&expr, Odd::Expr, None).unwrap().len(), 2);
}

#[test]
fn infinities_are_beyond_all_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = filled(dir.path().join("a").as_path(), 6);
    for (item, text) in [
        ("i0000", "{\"snr\": Infinity}"),
        ("i0001", "{\"snr\": -Infinity}"),
        ("i0002", "{\"snr\": NaN}"),
        ("i0003", "{\"snr\": 1e308}"),
    ] {
        std::fs::write(dir.path().join("a").join(item).join("_metadata.json"), text).unwrap();
    }
    settle();
    for _ in 0..2 {
        for (text, expected) in [
            ("snr > 5", vec!["i0000", "i0003"]),
            ("snr < 0", vec!["i0001"]),
            ("snr == null", vec!["i0002"]),
            ("not snr > 5 and exists(snr)", vec!["i0001", "i0002"]),
            ("snr > 5 and not has(x) and split == 'all'", vec!["i0000", "i0003"]),
        ] {
            assert_eq!(found(&dataset, text, Keep::Auto), expected, "{text}");
        }
        Catalog::new(Keep::Auto).write_index(&dataset, true, 0).unwrap();
    }
}

#[test]
fn a_key_that_has_an_object_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = Dataset::create(&dir.path().join("a"), &Creation::default()).unwrap();
    for (name, text) in [("a", "{\"v\": {\"mic\": 1}, \"w\": {\"x\": 1}}"), ("b", "{\"v\": {\"mic\": 2}, \"w\": 1}"), ("c", "{}")]
    {
        dataset.add_item(Some(name), &json(text)).unwrap();
    }
    let told = |text: &str| {
        let (expr, mut catalog) = (text.parse::<Expr>().unwrap(), Catalog::new(Keep::Ignore));
        let names = names_in(&mut catalog, &dataset, &expr);
        (names, catalog.unknown(&expr).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let (names, warnings) = told("v == 1 or v in [2]");
    assert_eq!((names.len(), warnings.len()), (0, 1));
    assert!(warnings[0].contains("\"v\" has an object") && warnings[0].ends_with("by metadata[\"v\"][\"mic\"]"), "{warnings:?}");
    // Of some only, and where it is asked whether it is there.
    for text in ["w == 1", "exists(v)", "v.mic == 1"] {
        assert_eq!((told(text).0.len(), told(text).1), (if text == "exists(v)" { 2 } else { 1 }, vec![]), "{text}");
    }
}

#[test]
fn what_is_edited_by_hand_shows_to_the_same_catalog_that_looks_at_each_item() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = filled(&dir.path().join("set"), 3);
    let (expr, mut catalog) = ("n == 1".parse::<Expr>().unwrap(), Catalog::new(Keep::Use));
    assert_eq!(names_in(&mut catalog, &dataset, &expr), ["i0001"]);
    std::fs::write(dir.path().join("set/i0001/_metadata.json"), r#"{"n": 77}"#).unwrap();
    assert_eq!(names_in(&mut catalog, &dataset, &expr), ["i0001"]);
    catalog.refresh_each(&dataset, &expr, 1).unwrap();
    assert!(catalog.find(&expr, Odd::Expr, None).unwrap().is_empty());
}
