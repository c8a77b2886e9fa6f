//! Every rule of the layout's specification, one thing broken at a time in a dataset that we wrote.
//!
//! | rule | broken in |
//! |---|---|
//! | documents: UTF-8 JSON objects, no duplicate keys, no NaN, bounds | [`texts`], `damage::text_that_is_not_such_json_is_refused` |
//! | documents: required keys, integers that are no booleans, kinds of values | [`keys`] |
//! | documents: format, layout_version, min_reader_version, codec, shard format; unknown keys are ignored | `damage::documents_that_break_a_rule_are_refused`, `damage::unknown_keys_are_ignored` |
//! | ranges that meet, counts and sizes that add up at every level, number of record_indices | the same, `damage::counts_that_agree_with_each_other_but_not_with_the_shard`, [`pages`] |
//! | references within the root, sizes, generations | [`references`], `damage::documents_that_break_a_rule_are_refused` |
//! | shards: as many records as said, whole, of this size | [`shards`], `damage::any_changed_byte_is_found`, `damage::shards_that_were_swapped_are_found` |
//! | ArrayRecord's own rules | `arrayrecord_damage` of sigbank-format |
//! | records: descriptor's keys, tensors, bounds | [`records`], `signal_record_damage` of sigbank-format |
//! | records: names, axes, coordinates, dtypes, metadata; also on writing | `signal_record_rules` of sigbank-format, [`records`] |
//! | metadata documents of records | [`metadata_documents`], `signal_record_rules` of sigbank-format |
//! | publication: create-only, root last, work ids, sizes | `publishing` |
//! | annotations: exact keys, digests of revisions, snapshot, names | `super::annotations::documents_of_annotations_that_break_a_rule_are_refused`, [`annotations::annotation_documents`] |
//! | annotations: positive ranges that cover every ordinal, dense workers | [`annotations::annotation_documents`], `super::annotations::workers_resume_and_cover_everything` |
//! | annotations: worker pointers | [`annotations::worker_pointers`] |
//! | annotations: rows | [`annotations::annotation_rows`], `super::annotations::what_is_not_a_row_for_each_record_is_refused` |

mod annotations;

use super::damage::{changed, load, read_all, refit, small};
use super::support::*;
use bytes::Bytes;
use serde_json::{Value, json};
use sigbank::format::container::arrayrecord::{self, Reader, Writer};
use sigbank::format::record::signal::DESCRIPTOR;
use sigbank::layout::signal_dataset::Dataset;
use sigbank::store::{LocalStore, Store};
use sigbank::{Code, Error};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

fn refused<T: Debug>(what: &str, found: Result<T, Error>, code: Code, word: &str) {
    let e = match found {
        Ok(found) => panic!("{what} is taken: {found:?}"),
        Err(e) => e,
    };
    assert!(e.code() == code && e.to_string().contains(word), "{what}: {:?} {e}, not {code:?} {word:?}", e.code());
    assert!(e.path().is_some(), "{what}: {e}");
}

/// The value at a pointer.
fn at<'a>(document: &'a mut Value, pointer: &str) -> &'a mut Value {
    document.pointer_mut(pointer).unwrap()
}

/// Removes the value at a pointer.
fn remove(document: &mut Value, pointer: &str) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    at(document, parent).as_object_mut().unwrap().remove(key).unwrap();
}

/// The records of a shard, and the shard anew.
fn payloads(bytes: Bytes) -> Vec<Vec<u8>> {
    let reader = Reader::open(Arc::new(bytes)).unwrap();
    (0..reader.len()).map(|i| reader.read(i).unwrap()).collect()
}

fn shard_of(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), arrayrecord::Options { group_size: 1, ..Default::default() }).unwrap();
    payloads.iter().for_each(|payload| writer.push(payload).unwrap());
    writer.finish().unwrap().0
}

/// Replaces the first shard's object; sizes fit at every level.
fn with_shard(kind: &str, change: impl FnOnce(Bytes) -> Vec<u8>) -> Arc<dyn Store> {
    let (store, names) = small(true);
    let (mut page, mut snapshot) = (load(&*store, &names[2]), load(&*store, &names[1]));
    let name = page["shards"][0][kind]["path"].as_str().unwrap().to_owned();
    let bytes = change(store.get(&path(&name)).unwrap());
    let size = &mut page["shards"][0][kind]["stored_bytes"];
    let more = bytes.len() as i64 - size.as_i64().unwrap();
    *size = json!(bytes.len());
    for pointer in ["/stored_bytes", "/manifests/0/stored_bytes"] {
        let sum = at(&mut snapshot, pointer);
        *sum = json!(sum.as_i64().unwrap() + more);
    }
    replace(&*store, &name, &bytes);
    replace(&*store, &names[2], page.to_string().as_bytes());
    replace(&*store, &names[1], snapshot.to_string().as_bytes());
    refit(&*store, &names);
    store
}

/// Changes the first record of the first shard.
fn with_payload(kind: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Arc<dyn Store> {
    with_shard(kind, |bytes| {
        let mut all = payloads(bytes);
        all[0] = change(std::mem::take(&mut all[0]));
        shard_of(&all)
    })
}

/// A record with another descriptor, around which the header fits.
fn with_descriptor(payload: &[u8], mut change: impl FnMut(&str) -> String) -> Vec<u8> {
    let size = u64::from_le_bytes(payload[..8].try_into().unwrap()) as usize;
    let mut header: BTreeMap<String, Value> = serde_json::from_slice(&payload[8..8 + size]).unwrap();
    let mut tensors: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, tensor) in &header {
        let [begin, end] = [0, 1].map(|i| tensor["data_offsets"][i].as_u64().unwrap() as usize + 8 + size);
        tensors.push((name.clone(), payload[begin..end].to_vec()));
    }
    let mut offset = 0;
    for (name, bytes) in &mut tensors {
        let tensor = header.get_mut(name).unwrap();
        if name == DESCRIPTOR {
            *bytes = change(std::str::from_utf8(bytes).unwrap()).into_bytes();
            tensor["shape"] = json!([bytes.len()]);
        }
        tensor["data_offsets"] = json!([offset, offset + bytes.len()]);
        offset += bytes.len();
    }
    let header = serde_json::to_string(&header).unwrap();
    let data: Vec<Vec<u8>> = tensors.into_iter().map(|(_, bytes)| bytes).collect();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data.concat()].concat()
}

/// The JSON text with one value changed; `Value::Null` removes it where `removed`.
fn edited(text: &str, pointer: &str, value: Option<Value>) -> String {
    let mut document: Value = serde_json::from_str(text).unwrap();
    match value {
        Some(value) => {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            match at(&mut document, parent) {
                Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
                parent => parent[key] = value,
            }
        }
        None => remove(&mut document, pointer),
    }
    document.to_string()
}

const BOMB: usize = 1_000_001;

/// Ways to spoil a JSON text whose first key comes in `key`; each with a word of the error.
fn spoilt(text: &str, key: &str) -> Vec<(Vec<u8>, Code, &'static str)> {
    let put = |more: &str| text.replacen('{', &format!("{{{more},"), 1).into_bytes();
    let raw = |bytes: &[u8]| [b"{\"new\":\"", bytes, b"\",", &text.trim_start().as_bytes()[1..]].concat();
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    vec![
        (put("\"new\":NaN"), Code::Corrupt, "a value"),
        (put("\"new\":Infinity"), Code::Corrupt, "a value"),
        (put("\"new\":-Infinity"), Code::Corrupt, "a number"),
        (put("\"new\":1e999"), Code::Corrupt, "not finite"),
        (put("\"new\":{\"a\":1,\"a\":2}"), Code::Corrupt, "comes twice"),
        (put("\"new\":1,\"new\":2"), Code::Corrupt, "comes twice"),
        (put(&format!("\"{key}\":\"x\"")), Code::Corrupt, ""),
        (put("\"new\":1,"), Code::Corrupt, "a key"),
        (put("'new':1"), Code::Corrupt, "a key"),
        (put("\"new\":\"\u{1}\""), Code::Corrupt, "control"),
        (put(&format!("\"new\":{}1{}", "[".repeat(130), "]".repeat(130))), Code::Limit, "max_json_depth"),
        (put(&format!("\"new\":{}", "[".repeat(100_000))), Code::Limit, "max_json_depth"),
        (put(&format!("\"new\":[{}1]", "1,".repeat(BOMB))), Code::Limit, "max_json_nodes"),
        (raw(b"\xff"), Code::Corrupt, "UTF-8"),
        (raw(b"\xed\xa0\x80"), Code::Corrupt, "UTF-8"),
        (raw(b"\\ud800"), Code::Corrupt, "surrogate"),
        ([b"\xef\xbb\xbf", text.as_bytes()].concat(), Code::Corrupt, "an object"),
        (utf16, Code::Corrupt, ""),
        (format!("[{text}]").into(), Code::Corrupt, "an object"),
        (format!("{text}x").into(), Code::Corrupt, "the end"),
        (text.trim_end().as_bytes()[..text.trim_end().len() - 1].to_vec(), Code::Corrupt, "the end"),
        (b"null".to_vec(), Code::Corrupt, "an object"),
        (Vec::new(), Code::Corrupt, "an object"),
    ]
}

/// Has the documents above one that cannot be read any more give its length.
fn fit(store: &dyn Store, names: &[String], document: usize) {
    if document == 2 {
        let mut snapshot = load(store, &names[1]);
        snapshot["manifests"][0]["object"]["stored_bytes"] = json!(store.head(&path(&names[2])).unwrap().size);
        replace(store, &names[1], snapshot.to_string().as_bytes());
    }
    if document > 0 {
        let mut root = load(store, &names[0]);
        root["snapshot"]["stored_bytes"] = json!(store.head(&path(&names[1])).unwrap().size);
        replace(store, &names[0], root.to_string().as_bytes());
    }
}

#[test]
fn texts() {
    for (document, key) in [(0, "dataset_id"), (1, "snapshot_id"), (2, "shards")] {
        let (store, names) = small(true);
        let text = String::from_utf8(store.get(&path(&names[document])).unwrap().to_vec()).unwrap();
        for (bytes, code, word) in spoilt(&text, key) {
            replace(&*store, &names[document], &bytes);
            fit(&*store, &names, document);
            let what = format!("{} {:.60}", names[document], String::from_utf8_lossy(&bytes));
            let found = read_all(&store);
            refused(&what, found.as_ref().map_err(|e| Error::new(e.code(), e.to_string()).at(&names[document])), code, word);
            assert!(found.unwrap_err().path().unwrap().ends_with(&names[document]), "{what}");
        }
    }
}

#[test]
fn keys() {
    let integers = [
        (0, "/snapshot/stored_bytes"),
        (1, "/record_count"),
        (1, "/shard_count"),
        (1, "/stored_bytes"),
        (1, "/manifests/0/first_ordinal"),
        (1, "/manifests/1/record_count"),
        (1, "/manifests/1/shard_count"),
        (1, "/manifests/1/stored_bytes"),
        (1, "/manifests/1/object/stored_bytes"),
        (2, "/first_ordinal"),
        (2, "/record_count"),
        (2, "/shards/0/first_ordinal"),
        (2, "/shards/0/record_count"),
        (2, "/shards/0/data/stored_bytes"),
        (2, "/shards/0/metadata/stored_bytes"),
    ];
    let huge: Value = serde_json::from_str("1000000000000000000000000000000").unwrap();
    for (document, pointer) in integers {
        let (store, names) = small(true);
        let right = load(&*store, &names[document]).pointer(pointer).unwrap().as_u64().unwrap();
        // What equals the right number in languages that convert.
        let alike = [json!(right as f64), json!(right.to_string()), json!([right]), json!(right == 1), json!(right != 0)];
        for value in alike.into_iter().chain([json!(-1), json!(u64::MAX), huge.clone(), json!({})]) {
            if pointer.ends_with("object/stored_bytes") {
                let mut snapshot = load(&*store, &names[1]);
                *at(&mut snapshot, pointer) = value.clone();
                replace(&*store, &names[1], snapshot.to_string().as_bytes());
                fit(&*store, &names, 1);
                refused(&format!("{pointer} {value}"), read_all(&store), Code::Corrupt, "");
            } else {
                refused(&format!("{pointer} {value}"), read_all(&changed(document, pointer, &value)), Code::Corrupt, "");
            }
        }
        if !pointer.ends_with("object/stored_bytes") {
            refused(pointer, read_all(&changed(document, pointer, &Value::Null)), Code::Corrupt, "is missing");
        }
    }
    let objects = [(0, "/snapshot"), (1, "/manifests/0"), (1, "/manifests/0/object"), (2, "/shards/0"), (2, "/shards/0/data")];
    for (document, pointer) in objects {
        for value in [json!([]), json!("x"), json!(3), json!(true)] {
            refused(&format!("{pointer} {value}"), read_all(&changed(document, pointer, &value)), Code::Corrupt, "an object");
        }
        refused(&format!("{pointer} {{}}"), read_all(&changed(document, pointer, &json!({}))), Code::Corrupt, "is missing");
    }
    for (document, pointer) in [(1, "/manifests"), (2, "/shards"), (2, "/shards/0/record_indices")] {
        for value in [json!({}), json!("x"), json!(3)] {
            refused(&format!("{pointer} {value}"), read_all(&changed(document, pointer, &value)), Code::Corrupt, "a list");
        }
    }
    for value in [json!([0, true]), json!([0, 1.0]), json!([0, "1"]), json!([0, 1, 1]), json!([0, u64::MAX])] {
        refused(&value.to_string(), read_all(&changed(2, "/shards/0/record_indices", &value)), Code::Corrupt, "");
    }
    for key in ["/metadata", "/shards/0/metadata"] {
        let document = if key == "/metadata" { 0 } else { 2 };
        refused(key, read_all(&changed(document, key, &json!(3))), Code::Corrupt, "an object");
    }
}

#[test]
fn references() {
    let inside = [(0, "/snapshot/path"), (1, "/manifests/0/object/path")];
    let anywhere = [(2, "/shards/0/data/path"), (2, "/shards/0/metadata/path")];
    for (document, pointer) in inside.into_iter().chain(anywhere) {
        for value in ["../x", "objects/../../x", "..", "", "objects\\..\\x", "x\u{0}y", "//etc//../passwd"] {
            refused(&format!("{pointer} {value:?}"), read_all(&changed(document, pointer, &json!(value))), Code::Corrupt, "");
        }
        for value in [json!(3), json!(["x"]), json!(true)] {
            refused(&format!("{pointer} {value}"), read_all(&changed(document, pointer, &value)), Code::Corrupt, "a string");
        }
        let generation = pointer.replace("path", "generation");
        for value in [json!(7), json!(0)] {
            refused(&generation, read_all(&changed(document, &generation, &value)), Code::Corrupt, "generation");
        }
        for value in [json!(true), json!("7"), json!(-7), json!(7.0)] {
            refused(&generation, read_all(&changed(document, &generation, &value)), Code::Corrupt, "");
        }
        let store = changed(document, pointer, &json!("objects/no"));
        let metadata = || Dataset::open_store(store.clone(), options())?.record_metadata(0).map(drop);
        refused(pointer, read_all(&store).and_then(|_| metadata()), Code::NotFound, "");
    }
    for (document, pointer) in inside {
        for value in ["/etc/passwd", "file:///etc/passwd", "s3://bucket/x"] {
            let found = read_all(&changed(document, pointer, &json!(value)));
            refused(&format!("{pointer} {value}"), found, Code::Corrupt, "not within the dataset");
        }
    }
}

#[cfg(unix)]
#[test]
fn symbolic_links_out_of_the_root() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let store: Arc<dyn Store> = Arc::new(LocalStore::create(&root).unwrap());
    let dataset = dataset(&store, 4, 2, &options());
    let page = dataset.snapshot().manifests[0].object.path.to_string();
    let shard = dataset.page(0).unwrap().shards[0].clone();
    let mut names = vec!["root.json".to_owned(), dataset.root().snapshot.path.to_string(), page];
    names.extend([shard.data.path.to_string(), shard.metadata.path.to_string()]);
    names.extend(["objects", "objects/data", "snapshots"].map(String::from));
    let read = || {
        let dataset = Dataset::open(&root, options())?;
        dataset.read(&[0, 3])?;
        dataset.read_metadata(&[0, 3])
    };
    for name in names {
        let (here, there) = (root.join(&name), dir.path().join("elsewhere"));
        std::fs::rename(&here, &there).unwrap();
        std::os::unix::fs::symlink(&there, &here).unwrap();
        refused(&name, read(), Code::Invalid, "symbolic link");
        std::fs::remove_file(&here).unwrap();
        std::fs::rename(&there, &here).unwrap();
        assert_eq!(read().unwrap().len(), 2);
    }
}

#[test]
fn pages() {
    let change = |change: &dyn Fn(&mut Vec<Value>)| {
        let (store, names) = small(true);
        let mut snapshot = load(&*store, &names[1]);
        change(snapshot["manifests"].as_array_mut().unwrap());
        replace(&*store, &names[1], snapshot.to_string().as_bytes());
        fit(&*store, &names, 1);
        read_all(&store)
    };
    refused("turned round", change(&|pages| pages.reverse()), Code::Corrupt, "do not meet");
    refused("twice", change(&|pages| pages.push(pages[1].clone())), Code::Corrupt, "do not meet");
    refused("gone", change(&|pages| drop(pages.pop())), Code::Corrupt, "record_count is 12, but 8");
    refused("one for the other", change(&|pages| pages[1]["object"] = pages[0]["object"].clone()), Code::Corrupt, "");
    let empty = |pages: &mut Vec<Value>| {
        pages.insert(1, pages[1].clone());
        pages[1]["record_count"] = json!(0);
    };
    refused("an empty one that is none", change(&empty), Code::Corrupt, "");
}

#[test]
fn shards() {
    for kind in ["data", "metadata"] {
        for count in [0, 1, 3] {
            let store = with_shard(kind, |bytes| {
                let all = payloads(bytes);
                shard_of(&all.iter().cycle().take(count).cloned().collect::<Vec<_>>())
            });
            let dataset = Dataset::open_store(store, options()).unwrap();
            let word = format!("2 records are expected, but the shard holds {count}");
            let found = if kind == "data" { dataset.record(0).map(drop) } else { dataset.record_metadata(0).map(drop) };
            refused(&format!("{kind} {count}"), found, Code::Corrupt, &word);
            refused(&format!("{kind} {count}"), dataset.verify(&mut |_, _| true), Code::Corrupt, &word);
        }
        type Change = fn(Vec<u8>) -> Vec<u8>;
        let spoil: [(&str, Change); 6] = [
            ("cut", |bytes| bytes[..bytes.len() - 100].to_vec()),
            ("cut by a block", |bytes| bytes[..bytes.len() - 65_536].to_vec()),
            ("empty", |_| Vec::new()),
            ("longer", |bytes| [bytes, vec![0; 65_536]].concat()),
            ("zeros", |bytes| vec![0; bytes.len()]),
            ("another thing", |bytes| b"{\"x\":1}".iter().copied().cycle().take(bytes.len()).collect()),
        ];
        for (what, change) in spoil {
            // Sizes fit, and there is no digest.
            let dataset = Dataset::open_store(with_shard(kind, |bytes| change(bytes.to_vec())), options()).unwrap();
            let found = if kind == "data" { dataset.record(0).map(drop) } else { dataset.record_metadata(0).map(drop) };
            refused(&format!("{kind} {what}"), found, Code::Corrupt, "");
            refused(&format!("{kind} {what}"), dataset.verify(&mut |_, _| true), Code::Corrupt, "");
        }
    }
}

#[test]
fn records() {
    let read = |change: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        let dataset = Dataset::open_store(with_payload("data", change), options()).unwrap();
        // The others are as they were.
        assert_eq!(number(dataset.record(1).unwrap().metadata()), 1);
        dataset.record(0)
    };
    assert_eq!(number(read(&|payload| with_descriptor(&payload, str::to_owned)).unwrap().metadata()), 0);
    let length = |n: u64| move |payload: Vec<u8>| [&n.to_le_bytes()[..], &payload[8..]].concat();
    for n in [0, 1, 1 << 20, 100_000_001, 1 << 62, u64::MAX] {
        refused(&format!("a header of {n} bytes"), read(&length(n)), Code::Corrupt, "");
    }
    refused("a header as long as the record", read(&|p| length(p.len() as u64)(p)), Code::Corrupt, "header");
    refused("a header to the end", read(&|p| length(p.len() as u64 - 8)(p)), Code::Corrupt, "");
    for n in [0, 7, 8, 100] {
        refused(&format!("a record cut to {n} bytes"), read(&|p| p[..n].to_vec()), Code::Corrupt, "");
    }
    // The descriptor, as text.
    let described = |change: &dyn Fn(&str) -> String| read(&|payload| with_descriptor(&payload, change));
    let (store, _) = small(true);
    let dataset = Dataset::open_store(store, options()).unwrap();
    let payload = dataset.record(0).unwrap().payload().to_vec();
    let mut text = String::new();
    with_descriptor(&payload, |found| {
        text = found.to_owned();
        text.clone()
    });
    for (bytes, code, word) in spoilt(&text, "id") {
        let what = format!("{:.60}", String::from_utf8_lossy(&bytes));
        if let Ok(new) = String::from_utf8(bytes) {
            refused(&what, described(&|_| new.clone()), code, word);
        }
    }
    // And its values.
    let none = None;
    let broken: Vec<(&str, Option<Value>, Code, &str)> = vec![
        ("/format", Some(json!("signal-dataset.dataset")), Code::Unsupported, "format"),
        ("/version", Some(json!("0.2")), Code::Unsupported, "version"),
        ("/id", none.clone(), Code::Corrupt, "'id' is missing"),
        ("/id", Some(json!("")), Code::Corrupt, "id is empty"),
        ("/id", Some(json!(3)), Code::Corrupt, "a string"),
        ("/scene_id", Some(json!(3)), Code::Corrupt, "a string"),
        ("/metadata", Some(json!([])), Code::Corrupt, "not an object"),
        ("/fields", none.clone(), Code::Corrupt, "fields"),
        ("/fields", Some(json!({})), Code::Corrupt, "no field"),
        ("/fields", Some(json!([])), Code::Corrupt, "an object"),
        ("/fields/x/tensor", none.clone(), Code::Corrupt, "'tensor' is missing"),
        ("/fields/x/tensor", Some(json!("tensor_000001")), Code::Corrupt, "there is no tensor"),
        ("/fields/x/tensor", Some(json!(DESCRIPTOR)), Code::Corrupt, "there is no tensor"),
        ("/fields/x/axes", none.clone(), Code::Corrupt, "0 axes for 2 dimensions"),
        ("/fields/x/axes/0", Some(json!({"name": "channel", "length": 2.0})), Code::Corrupt, "nonnegative integer"),
        ("/fields/x/axes/0/length", Some(json!(true)), Code::Corrupt, "a number"),
        ("/fields/x/axes/0/length", Some(json!(3)), Code::Corrupt, "has length 3"),
        ("/fields/x/axes/0/name", Some(json!("time")), Code::Corrupt, "two axes are called 'time'"),
        ("/fields/x/axes/0/name", Some(json!("")), Code::Corrupt, "empty name"),
        ("/fields/x/axes/0/coordinate", Some(json!(3)), Code::Corrupt, "an object"),
        ("/fields/x/axes/0/coordinate", Some(json!({"start": 0})), Code::Corrupt, "no step"),
        ("/fields/x/axes/0/coordinate", Some(json!({"values": [1]})), Code::Corrupt, "1 coordinate values"),
        ("/fields/x/axes/0/coordinate", Some(json!({"values": [1, 2], "start": 0, "step": 1})), Code::Corrupt, "more than one"),
        ("/fields/x/axes/0/coordinate", Some(json!({"reference": "y"})), Code::Corrupt, "neither a field"),
    ];
    for (pointer, value, code, word) in broken {
        let what = format!("{pointer} {value:?}");
        refused(&what, described(&|text| edited(text, pointer, value.clone())), code, word);
    }
    let many = |count: usize| {
        let axis = json!({"name": "a", "length": 1});
        (0..count)
            .map(|i| (format!("f{i}"), json!({"tensor": "tensor_000000", "axes": [axis]})))
            .collect::<serde_json::Map<_, _>>()
    };
    let bomb = json!(many(10_001));
    refused("10,001 fields", described(&|text| edited(text, "/fields", Some(bomb.clone()))), Code::Limit, "max_fields");
    let axes = json!((0..129).map(|i| json!({"name": format!("a{i}"), "length": 1})).collect::<Vec<_>>());
    refused("129 axes", described(&|text| edited(text, "/fields/x/axes", Some(axes.clone()))), Code::Limit, "max_axes_per_field");
    let long = json!({"a": "x".repeat(17 << 20)});
    refused("17 MiB", described(&|text| edited(text, "/metadata", Some(long.clone()))), Code::Limit, "max_descriptor_bytes");
}

#[test]
fn metadata_documents() {
    let read = |change: &dyn Fn(&str) -> String| {
        let store = with_payload("metadata", |payload| change(std::str::from_utf8(&payload).unwrap()).into_bytes());
        let dataset = Dataset::open_store(store, options()).unwrap();
        assert_eq!(dataset.metadata_batches(0..12).filter(|batch| batch.is_err()).count(), 1);
        dataset.record_metadata(0)
    };
    let (store, _) = small(true);
    let dataset = Dataset::open_store(store.clone(), options()).unwrap();
    let text = payloads(store.get(&path(dataset.page(0).unwrap().shards[0].metadata.path.as_str())).unwrap()).remove(0);
    for (bytes, code, word) in spoilt(std::str::from_utf8(&text).unwrap(), "id") {
        if let Ok(new) = String::from_utf8(bytes) {
            refused(&format!("{new:.60}"), read(&|_| new.clone()), code, word);
        }
    }
    for (pointer, value) in [
        ("/id", json!(3)),
        ("/scene_id", json!([])),
        ("/fields", json!({})),
        ("/fields/x/dtype", Value::Null),
        ("/fields/x/shape", json!([true, 20])),
        ("/fields/x/shape", json!(["2", 20])),
        ("/fields/x/axes/0/length", json!(true)),
    ] {
        refused(pointer, read(&|text| edited(text, pointer, Some(value.clone()))), Code::Corrupt, "");
    }
    let object = read(&|text| edited(text, "/fields/x/dtype", Some(json!("|O"))));
    refused("object arrays", object, Code::Unsupported, "'|O'");
    // What another record's says is found by a check.
    let store =
        with_payload("metadata", |payload| edited(std::str::from_utf8(&payload).unwrap(), "/id", Some(json!("r7"))).into());
    let dataset = Dataset::open_store(store, options()).unwrap();
    refused("another id", dataset.verify(&mut |_, _| true), Code::Corrupt, "'r7'");
}
