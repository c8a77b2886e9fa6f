//! Every rule has an input that breaks it.

use super::support::*;
use serde_json::{Value, json};
use sigbank::layout::signal_dataset::{Dataset, Options, View};
use sigbank::store::Store;
use sigbank::{Code, Error};
use std::sync::Arc;

const PAGE: usize = 4;

/// A dataset of two pages and six shards of two records, without digests.
pub fn small(compat: bool) -> (Arc<dyn Store>, Vec<String>) {
    let store = memory();
    let options = Options { compat, shards_per_manifest: PAGE, ..options() };
    let dataset = dataset(&store, 12, 2, &options);
    let pages = dataset.snapshot().manifests.iter().map(|page| page.object.path.to_string());
    let names = ["root.json".to_owned(), dataset.root().snapshot.path.to_string()].into_iter().chain(pages).collect();
    (store, names)
}

pub fn load(store: &dyn Store, name: &str) -> Value {
    serde_json::from_slice(&store.get(&path(name)).unwrap()).unwrap()
}

/// Has in the documents above one its present length.
pub fn refit(store: &dyn Store, names: &[String]) {
    let length = |name: &str| json!(store.head(&path(name)).unwrap().size);
    let mut snapshot = load(store, &names[1]);
    for (at, page) in names[2..].iter().enumerate() {
        if let Some(object) = snapshot.pointer_mut(&format!("/manifests/{at}/object/stored_bytes")) {
            *object = length(page);
        }
    }
    if snapshot != load(store, &names[1]) {
        replace(store, &names[1], snapshot.to_string().as_bytes());
    }
    let mut root = load(store, &names[0]);
    if let Some(bytes) = root.pointer_mut("/snapshot/stored_bytes") {
        *bytes = length(&names[1]);
        replace(store, &names[0], root.to_string().as_bytes());
    }
}

/// Opens the dataset and reads all of it.
pub fn read_all(store: &Arc<dyn Store>) -> Result<Vec<u64>, Error> {
    let dataset = Dataset::open_store(store.clone(), options())?;
    let all: Vec<u64> = (0..dataset.len()).collect();
    let one_by_one = all.iter().map(|&i| Ok(number(dataset.record(i)?.metadata()))).collect::<Result<Vec<_>, Error>>()?;
    let together: Vec<u64> = dataset.read(&all)?.iter().map(|r| number(r.metadata())).collect();
    assert_eq!(one_by_one, together);
    Ok(together)
}

/// Changes the value at a JSON pointer of the `document`-th document; `null` removes it.
pub fn changed(document: usize, pointer: &str, value: &Value) -> Arc<dyn Store> {
    let (store, names) = small(true);
    let mut json = load(&*store, &names[document]);
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match json.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
        Value::Object(members) if value.is_null() => drop(members.remove(key).unwrap()),
        parent => parent[key] = value.clone(),
    }
    replace(&*store, &names[document], json.to_string().as_bytes());
    if !pointer.ends_with("stored_bytes") || document != 0 {
        refit(&*store, &names);
    }
    store
}

#[test]
fn unknown_keys_are_ignored() {
    for (document, pointer) in [
        (0, "/new"),
        (1, "/new"),
        (2, "/new"),
        (0, "/snapshot/new"),
        (1, "/manifests/0/new"),
        (3, "/shards/0/data/new"),
        (1, "/min_reader_version"),
    ] {
        let store = changed(document, pointer, &json!({"a": [1, {"b": "c"}]}));
        assert_eq!(read_all(&store).unwrap(), (0..12).collect::<Vec<_>>(), "{pointer}");
    }
    for (pointer, value) in [
        ("/metadata", json!(null)),
        ("/min_reader_version", json!(null)),
        ("/min_reader_version", json!("0.4.0")),
        ("/min_reader_version", json!("0.4")),
        ("/min_reader_version", json!("0.4.0rc1")),
        ("/min_reader_version", json!("0.3.0.1")),
    ] {
        assert_eq!(read_all(&changed(0, pointer, &value)).unwrap().len(), 12, "{pointer}");
    }
}

#[test]
fn documents_that_break_a_rule_are_refused() {
    let none = Value::Null;
    let rules: Vec<(usize, &str, Value, &str)> = vec![
        (0, "/format", json!("signal-dataset.snapshot"), "format"),
        (0, "/format", none.clone(), "format"),
        (0, "/layout_version", json!("0.2"), "layout_version"),
        (0, "/layout_version", json!(0.1), "layout_version"),
        (0, "/layout_version", none.clone(), "layout_version"),
        (0, "/min_reader_version", json!("0.4.1"), "newer sigbank"),
        (0, "/min_reader_version", json!("1"), "newer sigbank"),
        (0, "/min_reader_version", json!("new"), "no version"),
        (0, "/metadata", json!([1]), "not an object"),
        (0, "/min_reader_version", json!("0.4.0.1"), "newer sigbank"),
        (0, "/min_reader_version", json!("0.99999999999999999999"), "newer sigbank"),
        (0, "/min_reader_version", json!("0.5.0rc1"), "newer sigbank"),
        (0, "/min_reader_version", json!("+0.3.0"), "no version"),
        (0, "/record_codec", json!({"name": "safetensors", "level": 3}), "record_codec"),
        (0, "/min_reader_version", json!(3), "no version"),
        (0, "/dataset_id", json!(""), "dataset_id is empty"),
        (0, "/dataset_id", json!(3), "string"),
        (0, "/dataset_id", none.clone(), "'dataset_id' is missing"),
        (0, "/record_codec", json!({"name": "npy"}), "record_codec"),
        (0, "/record_codec", json!("safetensors"), "record_codec"),
        (0, "/record_codec", none.clone(), "record_codec"),
        (0, "/shard_format", json!({"name": "tfrecord"}), "shard_format"),
        (0, "/shard_format", none.clone(), "shard_format"),
        (0, "/snapshot", none.clone(), "'snapshot' is missing"),
        (0, "/snapshot", json!([]), "object"),
        (0, "/snapshot/path", json!("../snapshot.json"), "out of the dataset"),
        (0, "/snapshot/path", json!("snapshots/../../x"), "out of the dataset"),
        (0, "/snapshot/path", json!("/etc/passwd"), "not within the dataset"),
        (0, "/snapshot/path", json!("s3://bucket/x"), "not within the dataset"),
        (0, "/snapshot/path", json!(""), "out of the dataset"),
        (0, "/snapshot/path", none.clone(), "'path' is missing"),
        (0, "/snapshot/stored_bytes", json!(3), "bytes are expected"),
        (0, "/snapshot/stored_bytes", json!(-3), "nonnegative"),
        (0, "/snapshot/stored_bytes", json!(3.0), "nonnegative"),
        (0, "/snapshot/stored_bytes", none.clone(), "'stored_bytes' is missing"),
        (0, "/snapshot/sha256", json!("abc"), "64 hexadecimal digits"),
        (0, "/snapshot/sha256", json!("0".repeat(64)), "sha256 0000"),
        (0, "/snapshot/generation", json!(7), "generation 7"),
        (1, "/format", json!("signal-dataset.dataset"), "format"),
        (1, "/layout_version", json!("0.2"), "layout_version"),
        (1, "/snapshot_id", json!(""), "snapshot_id is empty"),
        (1, "/record_count", json!(11), "record_count is 11, but 12"),
        (1, "/record_count", json!(-1), "nonnegative"),
        (1, "/record_count", none.clone(), "missing"),
        (1, "/shard_count", json!(7), "shard_count is 7, but 6"),
        (1, "/stored_bytes", json!(7), "stored_bytes is 7"),
        (1, "/manifests", json!([]), "record_count is 12, but 0"),
        (1, "/manifests", none.clone(), "missing"),
        (1, "/manifests/0/first_ordinal", json!(1), "do not meet"),
        (1, "/manifests/1/first_ordinal", json!(7), "do not meet"),
        (1, "/manifests/0/record_count", json!(u64::MAX), "do not meet"),
        (1, "/manifests/1/record_count", json!(u64::MAX), "64 bits"),
        (1, "/manifests/0/shard_count", json!(5), "shard_count is 6, but 7"),
        (1, "/manifests/0/stored_bytes", json!(5), "stored_bytes"),
        (1, "/manifests/0/object/path", json!("../x"), "out of the dataset"),
        (1, "/manifests/0/object/path", json!("/x"), "not within the dataset"),
        (2, "/format", json!("x"), "format"),
        (2, "/layout_version", json!("9"), "layout_version"),
        (2, "/first_ordinal", json!(1), "do not meet"),
        (2, "/record_count", json!(7), "record_count is 7, but 8"),
        (2, "/shards", json!([]), "record_count is 8, but 0"),
        (2, "/shards/0/first_ordinal", json!(1), "do not meet"),
        (2, "/shards/1/first_ordinal", json!(1), "do not meet"),
        (2, "/shards/1/record_count", json!(3), "do not meet"),
        (2, "/shards/0/data/path", json!("objects/../../x"), "out of the dataset"),
        (2, "/shards/0/data/path", json!("gopher://bucket/x"), "cannot be read here"),
        (2, "/shards/0/data/stored_bytes", json!(131_073), "sum of stored_bytes"),
        (2, "/shards/0/metadata", none.clone(), "'metadata' is missing"),
        (2, "/shards/0/record_indices", json!([0]), "1 record_indices for a record_count of 2"),
        (2, "/shards/0/record_indices", json!([0, 2]), "record 2 of the shard is named, but it holds 2"),
        (2, "/shards/0/record_indices", json!([0, -1]), "nonnegative"),
        (2, "/shards/0/record_indices", json!(5), "a list"),
    ];
    for (document, pointer, value, word) in rules {
        let e = read_all(&changed(document, pointer, &value)).expect_err(&format!("{pointer} {value}"));
        let code = if word.contains("cannot be read here") { Code::Unsupported } else { Code::Corrupt };
        assert_eq!(e.code(), code, "{pointer} {value}: {e}");
        assert!(e.to_string().contains(word), "{pointer} {value}: {e}");
        assert!(e.path().is_some(), "{pointer} {value}: {e}");
    }
}

#[test]
fn counts_that_agree_with_each_other_but_not_with_the_shard() {
    let (store, names) = small(true);
    // The second page and all above say that a shard holds three records.
    for (document, pointers) in
        [(3, vec!["/record_count", "/shards/1/record_count"]), (1, vec!["/record_count", "/manifests/1/record_count"])]
    {
        let mut json = load(&*store, &names[document]);
        for pointer in pointers {
            let count = json.pointer_mut(pointer).unwrap();
            *count = json!(count.as_u64().unwrap() + 1);
        }
        replace(&*store, &names[document], json.to_string().as_bytes());
    }
    refit(&*store, &names);
    let dataset = Dataset::open_store(store.clone(), options()).unwrap();
    assert_eq!(dataset.len(), 13);
    assert_eq!(number(dataset.record(9).unwrap().metadata()), 9);
    for ordinal in [10, 12] {
        let e = dataset.record(ordinal).unwrap_err();
        assert!(e.code() == Code::Corrupt && e.message().contains("3 records are expected, but the shard holds 2"), "{e}");
    }
}

#[test]
fn text_that_is_not_such_json_is_refused() {
    let (store, names) = small(true);
    let text = String::from_utf8(store.get(&path(&names[0])).unwrap().to_vec()).unwrap();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (text.replacen("\"dataset_id\"", "\"new\": NaN, \"dataset_id\"", 1).into(), "a value"),
        (text.replacen("\"dataset_id\"", "\"new\": -Infinity, \"dataset_id\"", 1).into(), "a number"),
        (text.replacen("\"dataset_id\"", "\"new\": {\"a\": 1, \"a\": 2}, \"dataset_id\"", 1).into(), "comes twice"),
        (text.replacen("\"dataset_id\"", "\"dataset_id\": \"x\", \"dataset_id\"", 1).into(), "comes twice"),
        (text.clone().into_bytes()[..text.len() - 3].to_vec(), "the end"),
        (format!("{text}x").into(), "the end"),
        (b"[]".to_vec(), "an object"),
        (b"".to_vec(), "an object"),
        (b"\xff\xfe{\0}\0".to_vec(), "UTF-8"),
        (format!("{{\"new\": {}1{}}}", "[".repeat(200), "]".repeat(200)).into(), "max_json_depth"),
    ];
    for (bytes, word) in cases {
        replace(&*store, &names[0], &bytes);
        let e = Dataset::open_store(store.clone(), options()).unwrap_err();
        assert!(e.to_string().contains(word) && e.path().unwrap().ends_with("root.json"), "{word}: {e}");
    }
    replace(&*store, &names[0], text.as_bytes());
    let mut small = options();
    small.control.max_bytes = 100;
    assert_eq!(Dataset::open_store(store.clone(), small).unwrap_err().code(), Code::Limit);
    let mut few = options();
    few.control.max_nodes = 10;
    assert_eq!(Dataset::open_store(store, few).unwrap_err().code(), Code::Limit);
}

#[test]
fn any_changed_byte_is_found() {
    let (store, _) = small(false);
    let dataset = Dataset::open_store(store.clone(), options()).unwrap();
    let digest = dataset.root_digest();
    let names: Vec<_> = store.list(None).unwrap().map(|entry| entry.unwrap().path).collect();
    assert_eq!(names.len(), 12 + 2 + 2);
    let verify =
        || Dataset::open_store(store.clone(), options()).and_then(|d| d.verify(&mut |_, _| true).map(|_| d.root_digest()));
    assert_eq!(verify().unwrap(), digest);
    for name in names {
        let bytes = store.get(&name).unwrap().to_vec();
        for at in [0, 200, bytes.len() / 2, bytes.len() - 1] {
            let mut flipped = bytes.clone();
            let at = at.min(bytes.len() - 1);
            flipped[at] ^= 1;
            replace(&*store, name.as_str(), &flipped);
            match verify() {
                Err(_) => {}
                Ok(other) => assert_ne!(other, digest, "byte {at} of {name}"),
            }
        }
        // Cut, gone.
        replace(&*store, name.as_str(), &bytes[..bytes.len() - 1]);
        assert!(verify().map_or(true, |other| other != digest), "{name} cut");
        store.delete(&name).unwrap();
        let e = verify().unwrap_err();
        assert!(e.code() == Code::NotFound && e.path().unwrap().ends_with(name.as_str()), "{e}");
        replace(&*store, name.as_str(), &bytes);
    }
    assert_eq!(verify().unwrap(), digest);
}

#[test]
fn shards_that_were_swapped_are_found() {
    // Same size, whole in themselves, and without digests: only the records tell.
    let (store, _) = small(true);
    let dataset = Dataset::open_store(store.clone(), options()).unwrap();
    let page = dataset.page(0).unwrap();
    let [a, b] = [0, 1].map(|i| page.shards[i].data.path.to_string());
    let bytes = [&a, &b].map(|name| store.get(&path(name)).unwrap());
    replace(&*store, &a, &bytes[1]);
    let e = Dataset::open_store(store.clone(), options()).unwrap().verify(&mut |_, _| true).unwrap_err();
    assert!(e.message().contains("'r2'") && e.message().contains("'r0'"), "{e}");
    // With digests it is told by name.
    let (store, _) = small(false);
    replace(&*store, &a, &bytes[1]);
    let e = Dataset::open_store(store, options()).unwrap().verify(&mut |_, _| true).unwrap_err();
    assert!(e.message().contains("sha256") && e.path().unwrap().ends_with(&a), "{e}");
}

#[test]
fn the_check_can_be_stopped() {
    let (store, _) = small(false);
    let dataset = Dataset::open_store(store, options()).unwrap();
    let mut heard = Vec::new();
    dataset
        .verify(&mut |done, all| {
            heard.push((done, all));
            true
        })
        .unwrap();
    assert_eq!((heard[0], heard[heard.len() - 1], heard.len()), ((0, 6), (6, 6), 7));
    assert_eq!(dataset.verify(&mut |done, _| done < 2).unwrap_err().code(), Code::Conflict);
    let _: View = dataset.select(vec![]).unwrap();
}
