//! The rules of annotations.

use super::super::annotations::{row, rows};
use super::*;
use sigbank::layout::signal_dataset::{AnnotationOptions, AnnotationRow, AnnotationShard, Digest};
use sigbank::layout::signal_dataset::{publish_annotation_shards, publish_annotations, write_annotation_shard};

const POINTER: &str = "annotations/catalog.json";
const ROOT: &str = "annotations/sets/labels/p/root.json";

/// Ten records and a set of three objects, without digests.
struct Set {
    store: Arc<dyn Store>,
    dataset: Dataset,
}

fn set() -> Set {
    let store = memory();
    let options = sigbank::layout::signal_dataset::Options { compat: true, ..options() };
    let dataset = dataset(&store, 10, 4, &options);
    let named = AnnotationOptions { publication_id: Some("p".into()), records_per_shard: 4, ..Default::default() };
    publish_annotations(&dataset, "labels", rows(0..10), &named).unwrap();
    let set = Set { store, dataset };
    assert_eq!(set.read().unwrap().len(), 10);
    set
}

impl Set {
    fn text(&self, name: &str) -> String {
        String::from_utf8(self.store.get(&path(name)).unwrap().to_vec()).unwrap()
    }

    fn revision(&self) -> String {
        self.dataset.annotations().unwrap().revision().unwrap().to_owned()
    }

    /// Opened anew, since a dataset keeps shards open.
    fn read(&self) -> Result<Vec<AnnotationRow>, Error> {
        self.opened().annotations()?.open("labels")?.rows().collect()
    }

    fn opened(&self) -> Dataset {
        Dataset::open_store(self.store.clone(), options()).unwrap()
    }

    /// Puts another revision, to which the pointer points.
    fn put_revision(&self, text: &[u8]) {
        let name = format!("annotations/catalogs/{}.json", Digest::of(text));
        replace(&*self.store, &name, text);
        replace(&*self.store, POINTER, json!({"revision": {"path": name, "generation": null}}).to_string().as_bytes());
    }

    /// Puts another root of the set, which the revision fits.
    fn put_root(&self, text: &[u8]) {
        let revision = edited(&self.text(&self.revision()), "/sets/labels/stored_bytes", Some(json!(text.len())));
        replace(&*self.store, ROOT, text);
        self.put_revision(revision.as_bytes());
    }
}

#[test]
fn annotation_documents() {
    type Put = fn(&Set, &[u8]);
    let put_pointer: Put = |set, text| replace(&*set.store, POINTER, text);
    let documents: [(&str, &str, Put); 3] =
        [("pointer", "revision", put_pointer), ("revision", "sets", Set::put_revision), ("root", "name", Set::put_root)];
    let text_of = |set: &Set, document: &str| match document {
        "pointer" => set.text(POINTER),
        "revision" => set.text(&set.revision()),
        _ => set.text(ROOT),
    };
    for (document, key, put) in documents {
        // Unknown keys are refused, so that these texts have their mistake in front of it.
        for (bytes, code, word) in spoilt(&text_of(&set(), document), key) {
            let set = set();
            put(&set, &bytes);
            let what = format!("{document} {:.60}", String::from_utf8_lossy(&bytes));
            let unknown =
                bytes.starts_with(b"{\"new\"") && set.read().is_err_and(|e| e.to_string().contains("'new' is not known"));
            if !unknown {
                refused(&what, set.read(), code, word);
            }
        }
    }
    let none = None;
    let other = || Some(json!("x".repeat(129)));
    let cases: Vec<(&str, &str, Option<Value>, &str)> = vec![
        ("pointer", "/revision", none.clone(), "'revision' is missing"),
        ("pointer", "/revision", Some(json!("x")), "an object"),
        ("pointer", "/revision/path", none.clone(), "'path' is missing"),
        ("pointer", "/revision/path", Some(json!("/etc/passwd")), "out of the dataset"),
        ("pointer", "/revision/path", Some(json!("s3://bucket/x")), "out of the dataset"),
        ("pointer", "/revision/path", Some(json!("root.json")), "not the one that its name tells"),
        ("pointer", "/revision/sha256", Some(json!("0".repeat(64))), "'sha256' is not known"),
        ("revision", "/new", Some(json!(1)), "'new' is not known"),
        ("revision", "/sets", none.clone(), "'sets' is missing"),
        ("revision", "/sets", Some(json!([])), "an object"),
        ("revision", "/sets/labels", Some(json!([])), "an object"),
        ("revision", "/sets/labels/path", none.clone(), "'path' is missing"),
        ("revision", "/sets/labels/path", Some(json!("/etc/passwd")), "out of the dataset"),
        ("revision", "/sets/labels/path", Some(json!("root.json")), "bytes are expected"),
        ("revision", "/sets/labels/stored_bytes", none.clone(), "'stored_bytes' is missing"),
        ("revision", "/sets/labels/stored_bytes", Some(json!(true)), "a number"),
        ("revision", "/sets/labels/stored_bytes", Some(json!(-1)), "nonnegative"),
        ("revision", "/sets/labels/generation", Some(json!(3)), "generation"),
        ("revision", "/sets/a b", Some(json!({"path": ROOT, "stored_bytes": 1})), "none: use at most 128"),
        ("root", "/name", none.clone(), "'name' is missing"),
        ("root", "/name", Some(json!(3)), "a string"),
        ("root", "/name", Some(json!("other")), "'other'"),
        ("root", "/publication_id", none.clone(), "'publication_id' is missing"),
        ("root", "/publication_id", Some(json!("")), "none: use at most 128"),
        ("root", "/publication_id", Some(json!("../x")), "none: use at most 128"),
        ("root", "/publication_id", other(), "none: use at most 128"),
        ("root", "/source_snapshot_id", none.clone(), "'source_snapshot_id' is missing"),
        ("root", "/record_count", none.clone(), "'record_count' is missing"),
        ("root", "/record_count", Some(json!(9)), "but 10 by its shards"),
        ("root", "/record_count", Some(json!("10")), "a number"),
        ("root", "/metadata", none.clone(), "'metadata' is missing"),
        ("root", "/metadata", Some(json!([])), "not an object"),
        ("root", "/metadata", Some(json!(3)), "not an object"),
        ("root", "/shards", none.clone(), "'shards' is missing"),
        ("root", "/shards", Some(json!({})), "a list"),
        ("root", "/shards", Some(json!([])), "but 0 by its shards"),
        ("root", "/shards/0", Some(json!([])), "an object"),
        ("root", "/shards/0/new", Some(json!(1)), "'new' is not known"),
        ("root", "/shards/0/first_ordinal", none.clone(), "'first_ordinal' is missing"),
        ("root", "/shards/0/first_ordinal", Some(json!(false)), "a number"),
        ("root", "/shards/0/first_ordinal", Some(json!(1)), "do not meet"),
        ("root", "/shards/1/first_ordinal", Some(json!(3)), "do not meet"),
        ("root", "/shards/1/record_count", Some(json!(3)), "do not meet"),
        ("root", "/shards/1/record_count", Some(json!(u64::MAX)), "64 bits"),
        ("root", "/shards/2/record_count", Some(json!(0)), "0 rows"),
        ("root", "/shards/2/record_count", Some(json!(3)), "but 11 by its shards"),
        ("root", "/shards/0/object", none.clone(), "'object' is missing"),
        ("root", "/shards/0/object/path", Some(json!("/etc/passwd")), "not within the dataset"),
        ("root", "/shards/0/object/path", Some(json!("../x")), "out of the dataset"),
        ("root", "/shards/0/object/stored_bytes", Some(json!(7)), "bytes are expected"),
        ("root", "/shards/0/object/generation", Some(json!(7)), "generation"),
    ];
    for (document, pointer, value, word) in cases {
        let set = set();
        let text = edited(&text_of(&set, document), pointer, value.clone());
        documents.iter().find(|known| known.0 == document).unwrap().2(&set, text.as_bytes());
        refused(&format!("{document}{pointer} {value:?}"), set.read(), Code::Corrupt, word);
    }
    // A range of no rows between others, and ranges in another order.
    let set = set();
    let root: Value = serde_json::from_str(&set.text(ROOT)).unwrap();
    let mut empty = root.clone();
    let mut none = root["shards"][1].clone();
    none["record_count"] = json!(0);
    empty["shards"].as_array_mut().unwrap().insert(1, none);
    set.put_root(empty.to_string().as_bytes());
    refused("no rows", set.read(), Code::Corrupt, "0 rows");
    let mut turned = root.clone();
    turned["shards"].as_array_mut().unwrap().reverse();
    set.put_root(turned.to_string().as_bytes());
    refused("turned round", set.read(), Code::Corrupt, "do not meet");
    set.put_root(root.to_string().as_bytes());
    assert_eq!(set.read().unwrap().len(), 10);
}

#[test]
fn annotation_rows() {
    let with_row = |change: &dyn Fn(&str) -> String| {
        let set = set();
        let mut root: Value = serde_json::from_str(&set.text(ROOT)).unwrap();
        let object = &mut root["shards"][1]["object"];
        let name = object["path"].as_str().unwrap().to_owned();
        let mut all = payloads(set.store.get(&path(&name)).unwrap());
        all[1] = with_descriptor(&all[1], change);
        let bytes = shard_of(&all);
        object["stored_bytes"] = json!(bytes.len());
        replace(&*set.store, &name, &bytes);
        set.put_root(root.to_string().as_bytes());
        set
    };
    let with = |pointer: &str, value: Option<Value>| {
        with_row(&|text| edited(text, &format!("/metadata/annotation{pointer}"), value.clone()))
    };
    assert_eq!(with("/new", Some(json!(1))).read().unwrap().len(), 10);
    for (pointer, value, word) in [
        ("", None, "no annotation in its metadata"),
        ("", Some(json!([])), "an object"),
        ("/source_index", None, "'source_index' is missing"),
        ("/source_index", Some(json!(6)), "of record 6"),
        ("/source_index", Some(json!(-5)), "nonnegative"),
        ("/source_index", Some(json!(5.0)), "nonnegative"),
        ("/source_index", Some(json!(true)), "a number"),
        ("/status", None, "'status' is missing"),
        ("/status", Some(json!("done")), "none of success, skipped and failed"),
        ("/status", Some(json!("")), "none of success, skipped and failed"),
        ("/status", Some(json!(null)), "a string"),
        ("/values", Some(json!([])), "not an object"),
        ("/values", Some(json!("x")), "not an object"),
        ("/values", Some(json!(null)), "not an object"),
        ("/provenance", Some(json!(3)), "not an object"),
        ("/provenance", Some(json!(null)), "not an object"),
        ("/detail_status", Some(json!("")), "detail_status is empty"),
        ("/detail_status", Some(json!(3)), "a string"),
        ("/empty_fields", None, "'empty_fields' is missing"),
        ("/empty_fields", Some(json!(0)), "true or false"),
        ("/empty_fields", Some(json!(null)), "true or false"),
    ] {
        let set = with(pointer, value.clone());
        let what = format!("{pointer} {value:?}");
        refused(&what, set.read(), Code::Corrupt, word);
        refused(&what, set.opened().verify(&mut |_, _| true), Code::Corrupt, word);
        // The others are as they were.
        assert_eq!(set.opened().annotations().unwrap().open("labels").unwrap().row(4).unwrap(), row(4));
    }
    // A row of another record is found by a check.
    let set = with_row(&|text| edited(text, "/id", Some(json!("r6"))));
    let word = "is of record 'r6', but record 5 of the dataset is 'r5'";
    let e = set.opened().verify(&mut |_, _| true).unwrap_err();
    assert!(e.code() == Code::Corrupt && e.to_string().contains(word), "{e}");
    // On writing.
    let empty = AnnotationRow { detail_status: Some(String::new()), ..row(0) };
    let rows = std::iter::once(empty).chain((1..10).map(row)).map(Ok);
    let e = publish_annotations(&set.dataset, "more", rows, &AnnotationOptions::default()).unwrap_err();
    assert!(e.code() == Code::Invalid && e.to_string().contains("the detail_status is empty"), "{e}");
}

#[test]
fn worker_pointers() {
    let set = set();
    let write = |last: u64| write_annotation_shard(&set.dataset, "w", "q", 0, (0..last).map(row).collect(), "part");
    let shard = write(4).unwrap();
    let folder = path("annotations/sets/w/q/shards");
    let pointer = set.store.list(Some(&folder)).unwrap().next().unwrap().unwrap().path.to_string();
    let text = set.text(&pointer);
    for (at, value) in [
        ("/new", Some(json!(1))),
        ("/name", None),
        ("/name", Some(json!(3))),
        ("/uri", None),
        ("/uri", Some(json!("/etc/passwd"))),
        ("/stored_bytes", Some(json!(true))),
        ("/stored_bytes", None),
        ("/generation", Some(json!(3))),
        ("/first_ordinal", Some(json!(-1))),
        ("/record_ids", Some(json!("r0"))),
        ("/record_ids", Some(json!(["r0"]))),
        ("/statuses", Some(json!([]))),
        ("/statuses", Some(json!([1, 2, 3, 4]))),
        ("/terminal_statuses", None),
        ("/terminal_statuses", Some(json!(["success"]))),
    ] {
        replace(&*set.store, &pointer, edited(&text, at, value.clone()).as_bytes());
        refused(&format!("{at} {value:?}"), write(4), Code::Corrupt, "");
    }
    replace(&*set.store, &pointer, text.replacen('{', "{\"name\":\"w\",", 1).as_bytes());
    refused("a key twice", write(4), Code::Corrupt, "comes twice");
    replace(&*set.store, &pointer, text.as_bytes());
    assert_eq!(write(4).unwrap(), shard);
    // One winner for each logical shard.
    assert_eq!(write(3).unwrap_err().code(), Code::AlreadyExists);
    let publish = |shards: &[AnnotationShard]| {
        publish_annotation_shards(&set.dataset, "w", "q", shards, &AnnotationOptions::default()).unwrap_err()
    };
    let empty = AnnotationShard { record_ids: vec![], statuses: vec![], terminal_statuses: vec![], ..shard.clone() };
    let e = publish(&[empty, shard]);
    assert!(e.code() == Code::Invalid && e.to_string().contains("no rows"), "{e}");
    let e = write_annotation_shard(&set.dataset, "w", "q", 0, vec![], "empty").unwrap_err();
    assert!(e.code() == Code::Invalid && e.to_string().contains("no rows"), "{e}");
}
