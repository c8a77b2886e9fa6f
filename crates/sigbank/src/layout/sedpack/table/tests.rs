use super::*;
use crate::Code;
use crate::layout::Source;
use crate::layout::sedpack::lists::{ShardInfo, ShardsList, scan};
use crate::layout::sedpack::{Dataset, Info, OpenOptions, ROOT};
use crate::store::fault::{FaultStore, Op};
use crate::store::{Expected, MemoryStore};
use serde_json::{Value, json};
use sigbank_format::checksum::{Algorithm, digest_all};

fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

/// How a list is laid out.
type Layout = fn(&Value) -> String;

/// A dataset of lists alone.
struct Made {
    store: MemoryStore,
    layout: Layout,
    /// Of each shard its path, examples and metadata, as they were made.
    shards: Vec<(String, u64, Value)>,
}

impl Made {
    fn new(layout: Layout) -> Self {
        Self { store: MemoryStore::new(), layout, shards: Vec::new() }
    }

    fn entries(&mut self, dir: &str, count: u64, metadata: impl Fn(u64) -> Value) -> Vec<Value> {
        (0..count)
            .map(|_| {
                let n = self.shards.len() as u64;
                let shard = (format!("{dir}/é{n}.fb"), n % 7, metadata(n));
                let file = json!({"file_path": shard.0, "hash_checksums": ["00", "11"], "future": [n]});
                let mut entry = json!({"file_infos": [file], "number_of_examples": shard.1, "custom_metadata": shard.2});
                if shard.2 == json!({}) {
                    entry.as_object_mut().unwrap().shift_remove("custom_metadata");
                }
                self.shards.push(shard);
                entry
            })
            .collect()
    }

    fn list(&self, dir: &str, shards: Vec<Value>, children: Vec<Value>) -> Value {
        let path = format!("{dir}/shards_list.json");
        let sum = |key: &str, of: &[Value]| of.iter().filter_map(|v| v.get(key)?.as_u64()).sum::<u64>();
        let examples = sum("number_of_examples", &shards) + sum("number_of_examples", &children);
        let below = shards.len() as u64 + sum("number_of_shards", &children);
        let list = json!({
            "relative_path_self": path, "number_of_examples": examples, "unknown": {"a": ["b", null]},
            "shard_files": shards, "children_shard_lists": children
        });
        let text = (self.layout)(&list);
        self.store.create(&super::RelPath::parse(&path).unwrap(), &[text.as_bytes()]).unwrap();
        let file = json!({"file_path": path, "hash_checksums": digest_all(&[Algorithm::Sha256], &[text.as_bytes()])});
        json!({"shard_list_info_file": file, "number_of_examples": examples, "number_of_shards": below})
    }

    fn finish(self, top: Value) -> (Arc<FaultStore>, Dataset, Vec<(String, u64, Value)>) {
        let structure = json!({"saved_data_description": [{"name": "a", "dtype": "uint8", "shape": [1]}]});
        let info = Info::new(Default::default(), structure.as_object().cloned().unwrap()).unwrap();
        let mut root: Value = serde_json::from_slice(&info.to_bytes().unwrap()).unwrap();
        root["splits"] = json!({"train": top});
        self.store.create(&path(ROOT), &[root.to_string().as_bytes()]).unwrap();
        let store = Arc::new(FaultStore::new(Arc::new(self.store)));
        let dataset = Dataset::open_store(store.clone(), OpenOptions::default()).unwrap();
        (store, dataset, self.shards)
    }
}

/// A tree whose lists have shards of their own, with more lists than one thread takes.
fn uneven(layout: Layout, metadata: impl Fn(u64) -> Value + Copy) -> (Arc<FaultStore>, Dataset, Vec<(String, u64, Value)>) {
    let mut made = Made::new(layout);
    let own = made.entries("train", 2, metadata);
    let mut tops = Vec::new();
    for a in 0..3 {
        let mut lists = Vec::new();
        let own = made.entries(&format!("train/{a}"), a, metadata);
        for b in 0..100 {
            let dir = format!("train/{a}/{b}");
            let shards = made.entries(&dir, b % 4, metadata);
            lists.push(made.list(&dir, shards, Vec::new()));
        }
        tops.push(made.list(&format!("train/{a}"), own, lists));
    }
    let top = made.list("train", own, tops);
    made.finish(top)
}

/// As the format's own writers do it.
fn usual(list: &Value) -> String {
    let mut list = list.clone();
    let object = list.as_object_mut().unwrap();
    object.retain(|key, value| key != "unknown" && *value != json!([]) && *value != json!(0));
    for entry in object.get_mut("shard_files").and_then(Value::as_array_mut).into_iter().flatten() {
        entry["file_infos"][0].as_object_mut().unwrap().shift_remove("future");
        entry.as_object_mut().unwrap().retain(|_, value| *value != json!(0));
    }
    pretty(&list)
}

fn pretty(list: &Value) -> String {
    serde_json::to_string_pretty(list).unwrap()
}

/// What the scan does not take.
fn escaped(list: &Value) -> String {
    pretty(list).replace("/é", "\\/\\u00e9")
}

fn read_lists(store: &FaultStore) -> usize {
    store.log().iter().filter(|(op, path)| *op == Op::Get && path.ends_with("shards_list.json")).count()
}

#[test]
fn tables_and_walks_give_every_shard_in_stored_order() {
    let kinds: [fn(u64) -> Value; 3] = [
        |_| json!({}),
        |n| if n % 5 == 0 { json!({}) } else { json!({"kind": n % 3, "b": [1.50, "x y\n\"z", {}]}) },
        |n| json!({"n": n, "text": format!("a  {n}")}),
    ];
    for (layout, metadata) in [usual, pretty, escaped, Value::to_string as Layout].iter().flat_map(|l| kinds.map(|k| (*l, k))) {
        let (_, dataset, shards) = uneven(layout, metadata);
        let units = dataset.units("train").unwrap();
        assert_eq!(units.len(), shards.len());
        assert!(shards.len() > 400);
        for (unit, (path, examples, metadata)) in shards.iter().enumerate() {
            assert_eq!((units.count(unit), &dataset.unit_name("train", unit).unwrap()), (*examples, path));
            assert_eq!(Value::Object(dataset.unit_metadata("train", unit).unwrap()), *metadata);
            assert_eq!(dataset.find(path).unwrap(), ("train".into(), unit as u32));
        }
        assert_eq!(dataset.unit_metadata("train", shards.len()).unwrap_err().code(), Code::NotFound);
        assert_eq!(dataset.unit_name("train", shards.len()).unwrap_err().code(), Code::NotFound);
        for path in ["train/é0.fb/", "train", "train/0/é0.fb", "x"].iter().filter(|p| RelPath::parse(p).is_ok()) {
            assert_eq!(dataset.find(path).unwrap_err().code(), Code::NotFound, "{path}");
        }
        let same = |infos: &[ShardInfo], from: usize| {
            infos.iter().zip(shards.get(from..).unwrap_or_default()).all(|(info, (path, examples, metadata))| {
                info.path().unwrap().as_str() == path
                    && info.examples == *examples
                    && Value::Object(info.metadata.clone()) == *metadata
                    && info.to_value()["file_infos"][0]["future"].is_array() == (layout as usize != usual as Layout as usize)
            })
        };
        for (from, to) in [(0, 9), (9, 200), (200, 200), (200, 999), (3, 4), (300, 310), (310, 311), (999, 1000)] {
            let infos = dataset.shard_infos("train", from, to).unwrap();
            let wanted = (to.min(shards.len() as u64)).saturating_sub(from) as usize;
            assert_eq!(infos.len(), wanted, "{from}..{to}");
            assert!(same(&infos, from as usize), "{from}..{to}");
            let texts = dataset.shard_texts("train", from, to).unwrap();
            let values: Vec<Value> = texts.iter().map(|t| serde_json::from_str(t).unwrap()).collect();
            assert_eq!(values, infos.iter().map(ShardInfo::to_value).collect::<Vec<_>>());
        }
    }
}

#[test]
fn only_what_is_needed_is_read() {
    let (store, dataset, shards) = uneven(usual, |_| json!({}));
    assert_eq!(dataset.splits()[0].units, shards.len() as u64);
    assert_eq!(read_lists(&store), 0, "the root says how many there are");
    let one = dataset.shard_infos("train", 300, 301).unwrap();
    assert_eq!(one[0].path().unwrap().as_str(), shards[300].0);
    assert_eq!(read_lists(&store), 3, "the lists on the way");
    // In pages, each list once.
    let before = read_lists(&store);
    let pages = (0..shards.len() as u64).step_by(10).map(|at| dataset.shard_texts("train", at, at + 10).unwrap().len());
    assert_eq!(pages.sum::<usize>(), shards.len());
    assert_eq!(read_lists(&store) - before, 304);
    let before = read_lists(&store);
    dataset.units("train").unwrap();
    dataset.unit_metadata("train", 5).unwrap();
    dataset.find(&shards[77].0).unwrap();
    assert_eq!(read_lists(&store) - before, 304);
    assert!(store.log().iter().all(|(_, path)| !path.ends_with(".fb")), "no shard is opened");
}

#[test]
fn a_damaged_list_is_named() {
    let (store, dataset, _) = uneven(usual, |_| json!({}));
    let place = path("train/1/57/shards_list.json");
    let text = store.get(&place).unwrap();
    store.replace(&place, &[&text[1..]], Expected::Any).unwrap();
    for e in [dataset.units("train").unwrap_err(), dataset.shard_infos("train", 0, 999).unwrap_err()] {
        assert!(e.code() == Code::Corrupt && e.path().unwrap().ends_with(place.as_str()), "{e}");
        assert!(e.message().contains("sha256"), "{e}");
    }
    assert_eq!(dataset.shard_infos("train", 0, 100).unwrap().len(), 100, "it is not on the way");
    store.delete(&place).unwrap();
    assert_eq!(dataset.units("train").unwrap_err().code(), Code::NotFound);
}

#[test]
fn lists_that_lie_are_refused() {
    type Change = fn(&mut Value);
    let wrong: [(Change, &str); 4] = [
        (|top| top["number_of_shards"] = json!(4), "the list holds 3 examples in 3 shards, its pointer says 3 in 4"),
        (|top| top["number_of_examples"] = json!(9), "the list holds 3 examples in 3 shards, its pointer says 9 in 3"),
        (|top| top["shard_list_info_file"]["file_path"] = json!("train/x.json"), "every shards list is called"),
        (|top| top["shard_list_info_file"]["hash_checksums"] = json!([]), "no sha256 checksum is given"),
    ];
    for (change, message) in wrong {
        let mut made = Made::new(pretty);
        let shards = made.entries("train", 3, |_| json!({}));
        let mut top = made.list("train", shards, Vec::new());
        change(&mut top);
        let opened = std::panic::catch_unwind(|| made.finish(top));
        let Ok((_, dataset, _)) = opened else {
            assert!(message.contains("called"), "the root itself is refused");
            continue;
        };
        for e in [dataset.units("train").unwrap_err(), dataset.shard_infos("train", 0, 9).unwrap_err()] {
            assert!(e.code() == Code::Corrupt && e.to_string().contains(message), "{e}");
        }
    }
    // A list below that is its own parent, or lies beside it.
    for elsewhere in ["train/shards_list.json", "test/a/shards_list.json", "trainer/a/shards_list.json"] {
        let made = Made::new(pretty);
        let mut child = made.list("train/a", Vec::new(), Vec::new());
        child["shard_list_info_file"]["file_path"] = json!(elsewhere);
        let top = made.list("train", Vec::new(), vec![child]);
        let (_, dataset, _) = made.finish(top);
        for e in [dataset.units("train").unwrap_err(), dataset.shard_infos("train", 0, 9).unwrap_err()] {
            assert!(e.to_string().contains(&format!("'{elsewhere}' does not lie below the list")), "{e}");
        }
    }
}

/// The scan takes a list only where the parser does, and sees the same in it.
fn agrees(at: &RelPath, text: &[u8]) -> bool {
    let parsed = ShardsList::parse(at, text);
    let Some(scanned) = scan::list(at, text) else { return false };
    let parsed = parsed.unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(text)));
    assert_eq!((scanned.examples, scanned.count_shards()), (parsed.examples, parsed.count_shards()));
    assert_eq!(scanned.shards.len(), parsed.shards.len());
    for (entry, shard) in scanned.shards.iter().zip(&parsed.shards) {
        assert_eq!((entry.path(), entry.examples), (shard.path().unwrap().as_str(), shard.examples));
        let metadata: Metadata = entry.metadata.map_or_else(Metadata::new, |text| serde_json::from_str(text).unwrap());
        assert_eq!(metadata, shard.metadata);
        let from_text = ShardInfo::from_text(std::str::from_utf8(&text[entry.place.clone()]).unwrap()).unwrap();
        assert_eq!((&from_text, &from_text.files), (shard, &shard.files));
    }
    for (a, b) in scanned.children.iter().zip(&parsed.children) {
        assert_eq!((&a.file, a.examples, a.shards), (&b.file, b.examples, b.shards));
    }
    true
}

#[test]
fn whatever_stands_in_a_list_the_scan_and_the_parser_agree() {
    let mut made = Made::new(usual);
    let child = made.list("train/a", Vec::new(), Vec::new());
    let shards = made.entries("train", 2, |n| json!({"n": n, "deep": [[{"x": [1, 2.5e3, null, true]}]]}));
    made.list("train", shards, vec![child]);
    let at = path("train/shards_list.json");
    let text = made.store.get(&at).unwrap().to_vec();
    assert!(agrees(&at, &text));
    assert!(agrees(&path("train/a/shards_list.json"), &made.store.get(&path("train/a/shards_list.json")).unwrap()));
    let mut taken = 0;
    for i in 0..text.len() {
        for with in [b' ', b'"', b'\\', b'0', b'-', b'{', b']', b'/', b'.', b'x', b'\n', 0xe9, 0] {
            let mut changed = text.clone();
            changed[i] = with;
            taken += usize::from(agrees(&at, &changed));
        }
        for with in ["null", "\"", "1e2", ",", "[]", "\\ud800", "\\n", "\"a\": 1, "] {
            let mut changed = text[..i].to_vec();
            changed.extend_from_slice(with.as_bytes());
            changed.extend_from_slice(&text[i..]);
            taken += usize::from(agrees(&at, &changed));
        }
        let mut changed = text.clone();
        changed.remove(i);
        taken += usize::from(agrees(&at, &changed));
        agrees(&at, &text[..i]);
    }
    assert!(taken > 1000, "{taken} of the changed lists are still lists");
    for metadata in ["null", "[]", "1", "\"{}\"", "{}", "{\"a\": \"\\ud800\"}", "{\"a\": \"\\u00e9\"}", "{\"a\": 01}"] {
        for examples in ["2", "null", "2.0", "-2", "\"2\"", "1e0", "18446744073709551616", "02"] {
            let text = format!(
                r#"{{"relative_path_self": "train/shards_list.json", "number_of_examples": {examples}, "shard_files": [{{
                "file_infos": [{{"file_path": "train/a.fb"}}], "number_of_examples": {examples}, "custom_metadata": {metadata}}}]}}"#
            );
            agrees(&at, text.as_bytes());
        }
    }
    for depth in [1, 50, 98, 99, 100, 120, 126, 127, 200] {
        let metadata = format!("{{\"a\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
        let text = format!(
            r#"{{"relative_path_self": "train/shards_list.json", "shard_files": [{{
            "file_infos": [{{"file_path": "train/a.fb"}}], "custom_metadata": {metadata}}}]}}"#
        );
        agrees(&at, text.as_bytes());
    }
}

#[test]
fn the_lists_of_the_reference_are_scanned() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sedpack");
    let mut lists = 0;
    for dataset in std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let store = crate::store::LocalStore::open(&dataset).unwrap();
        for entry in store.list(None).unwrap().map(Result::unwrap).filter(|e| e.path.file_name() == "shards_list.json") {
            assert!(agrees(&entry.path, &store.get(&entry.path).unwrap()), "{}: {}", dataset.display(), entry.path);
            lists += 1;
        }
    }
    assert!(lists >= 12, "{lists}");
}

#[test]
fn metadata_are_kept_once_and_small() {
    let mut made = Made::new(pretty);
    let shards = made.entries("train", 1000, |n| if n < 500 { json!({"kind": n % 2}) } else { json!({"own": n}) });
    let top = made.list("train", shards, Vec::new());
    let (store, dataset, _) = made.finish(top);
    let state = State::load(&*store, false, None).unwrap();
    let table = state.table(&*store, "train").unwrap();
    assert_eq!(table.columns.metadata_text(table.columns.metadata_number(3)), r#"{"kind":1}"#);
    assert_eq!(table.columns.metadata_number(1), table.columns.metadata_number(499));
    let most = (0..1000).map(|unit| table.columns.metadata_number(unit)).max();
    assert_eq!(most, Some(502));
    drop(dataset);
}

#[test]
fn metadata_types_are_limited_by_what_they_say() {
    let mut made = Made::new(usual);
    let texts =
        [r#"{"a": 1, "b": [1.0, {"y": 0, "x": 1}]}"#, r#"{"b": [1.00, {"x": 1, "y": 0}], "a": 1}"#, r#"{"a": 1, "b": 1e0}"#];
    let shards = made.entries("train", 12, |n| match n % 4 {
        3 => json!({}),
        n => serde_json::from_str(texts[n as usize]).unwrap(),
    });
    let top = made.list("train", shards, Vec::new());
    let (_, dataset, _) = made.finish(top);
    assert_eq!(dataset.limit_metadata_types("train", 1).unwrap(), [0, 2, 3]);
    assert_eq!(dataset.limit_metadata_types("train", 2).unwrap(), [0, 1, 2, 3, 6, 7]);
    assert_eq!(dataset.limit_metadata_types("train", 99).unwrap(), (0..12).collect::<Vec<_>>());
    assert_eq!(dataset.limit_metadata_types("test", 1).unwrap_err().code(), Code::NotFound);
}
