use super::*;
use crate::layout::{Sink, read};
use crate::store::{Expected, MemoryStore};
use serde_json::json;

mod merging;

fn object(value: serde_json::Value) -> Metadata {
    value.as_object().unwrap().clone()
}

fn info(compression: &str, per_shard: u64) -> Info {
    let structure = json!({
        "saved_data_description": [
            {"name": "trace", "dtype": "int16", "shape": [3000]},
            {"name": "n", "dtype": "int", "shape": []},
            {"name": "note", "dtype": "str", "shape": []}
        ],
        "compression": compression, "examples_per_shard": per_shard, "hash_checksum_algorithms": ["sha256", "xxh64"]
    });
    Info::new(object(json!({"description": "été"})), object(structure)).unwrap()
}

/// The record with this number, field by field.
fn record(n: i64) -> Vec<Vec<u8>> {
    let trace = (0..3000).flat_map(|i| ((n * 7 + i) as i16).to_le_bytes()).collect();
    vec![trace, n.to_le_bytes().to_vec(), format!("note {n}").into_bytes()]
}

fn append(filler: &mut Filler, split: &str, n: i64, group: Option<&Metadata>) {
    let record = record(n);
    filler.append(split, &record.iter().map(Vec::as_slice).collect::<Vec<_>>(), group).unwrap();
}

fn fill(dataset: &Dataset, split: &str, range: std::ops::Range<i64>, threads: usize) {
    let mut filler = dataset.filler(FillerOptions { threads, ..Default::default() }).unwrap();
    range.for_each(|n| append(&mut filler, split, n, None));
    filler.finish().unwrap();
}

fn numbers(dataset: &Dataset, split: &str) -> Vec<i64> {
    let all = dataset.units(split).unwrap().records();
    let rows = read(dataset, split, &(0..all).collect::<Vec<_>>(), &[1]).unwrap();
    rows.iter().map(|r| i64::from_le_bytes(r[0].as_slice().try_into().unwrap())).collect()
}

fn memory(compression: &str, per_shard: u64) -> (Arc<MemoryStore>, Dataset) {
    let store = Arc::new(MemoryStore::new());
    let dataset = Dataset::create_store(store.clone(), info(compression, per_shard)).unwrap();
    (store, dataset)
}

fn progress_records(store: &dyn Store) -> usize {
    store.list(Some(&RelPath::parse(".sigbank/progress").unwrap())).unwrap().count()
}

#[test]
fn what_is_filled_is_read_in_order_for_every_compression() {
    for c in ["", "GZIP", "ZLIB", "BZ2", "LZMA", "LZ4", "ZSTD"] {
        let (store, dataset) = memory(c, 4);
        fill(&dataset, "train", 0..10, 2);
        fill(&dataset, "test", 10..11, 1);
        fill(&dataset, "train", 20..23, 3);
        assert_eq!(numbers(&dataset, "train"), (0..10).chain(20..23).collect::<Vec<_>>(), "{c}");
        let rows = read(&dataset, "train", &[12, 0, 12, 5], &[0, 2]).unwrap();
        for (row, n) in rows.iter().zip([22, 0, 22, 5]) {
            assert_eq!(*row, [record(n)[0].clone(), record(n)[2].clone()], "{c}");
        }
        let done = dataset.check(&dataset.checksums(), &mut |_, _| true).unwrap();
        assert_eq!((done.units, done.records), (5, 14));
        assert_eq!(progress_records(&*store), 0);
        let splits: Vec<_> = dataset.splits().into_iter().map(|s| (s.name, s.records, s.units)).collect();
        assert_eq!(splits, [("train".to_owned(), 13, 4), ("test".to_owned(), 1, 1)]);
    }
}

#[test]
fn an_empty_session_changes_nothing() {
    let (store, dataset) = memory("", 4);
    let before = store.get(&RelPath::parse(ROOT).unwrap()).unwrap();
    dataset.filler(FillerOptions::default()).unwrap().finish().unwrap();
    assert_eq!(store.get(&RelPath::parse(ROOT).unwrap()).unwrap(), before);
    assert_eq!(store.list(None).unwrap().count(), 1);
    assert_eq!(dataset.units("train").unwrap_err().code(), Code::NotFound);
}

#[test]
fn other_metadata_open_a_new_shard_and_none_are_others() {
    let (_, dataset) = memory("LZ4", 100);
    let key = |k: i64| object(json!({"key": k}));
    let groups = [None, None, Some(key(1)), Some(key(1)), None, Some(Metadata::new()), Some(key(2)), Some(key(1))];
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    for (n, g) in groups.iter().enumerate() {
        append(&mut filler, "train", n as i64, g.as_ref());
    }
    filler.finish().unwrap();
    let shards = dataset.shard_infos("train", 0, 99).unwrap();
    let found: Vec<_> = shards.iter().map(|s| (s.examples, s.metadata.clone())).collect();
    assert_eq!(found, [(2, Metadata::new()), (2, key(1)), (2, Metadata::new()), (1, key(2)), (1, key(1))]);
    assert_eq!(dataset.unit_metadata("train", 3).unwrap(), key(2));
    assert_eq!(dataset.shard_infos("train", 2, 3).unwrap(), shards[2..3]);
}

#[test]
fn a_killed_writers_finished_shards_are_adopted() {
    let (store, dataset) = memory("ZSTD", 2);
    fill(&dataset, "train", 0..2, 1);
    let mut killed = dataset.filler(FillerOptions::default()).unwrap();
    (2..7).for_each(|n| append(&mut killed, "train", n, None));
    let live = dataset.filler(FillerOptions::default()).unwrap();
    drop(killed); // Its open shard with record 6 is lost, nothing of it is visible.
    drop(live);
    assert_eq!(numbers(&dataset, "train"), [0, 1]);
    assert_eq!(progress_records(&*store), 2);
    fill(&dataset, "train", 7..8, 1);
    assert_eq!(numbers(&dataset, "train"), [0, 1, 2, 3, 4, 5, 7]);
    assert_eq!(progress_records(&*store), 0);
    dataset.check(&[], &mut |_, _| true).unwrap();
}

#[test]
fn what_killed_writers_finished_is_counted_or_given_up() {
    let (store, dataset) = memory("", 2);
    let kill = |path: Option<&str>| {
        let relative_path = path.map(|p| RelPath::parse(p).unwrap());
        let mut killed = dataset.filler(FillerOptions { relative_path, ..Default::default() }).unwrap();
        (0..5).for_each(|n| append(&mut killed, "train", n, None));
    };
    kill(None);
    let mut next = dataset.filler(FillerOptions::default()).unwrap();
    next.finish().unwrap();
    assert_eq!(next.adopted(), Adopted { shards: 2, records: 4 });
    kill(None);
    dataset.filler(FillerOptions { adopt: Some(false), ..Default::default() }).unwrap().finish().unwrap();
    assert_eq!(progress_records(&*store), 0);
    fill(&dataset, "train", 10..11, 1);
    assert_eq!(numbers(&dataset, "train"), [0, 1, 2, 3, 10]);
    // A worker that is run again writes everything again: its first run is not added.
    kill(Some("w"));
    let options = FillerOptions { relative_path: Some(RelPath::parse("w").unwrap()), ..Default::default() };
    let mut again = dataset.filler(options).unwrap();
    (20..22).for_each(|n| append(&mut again, "train", n, None));
    dataset.write_config(None, again.finish().unwrap()).unwrap();
    assert_eq!(numbers(&dataset, "train"), [0, 1, 2, 3, 10, 20, 21]);
}

#[test]
fn metadata_that_could_not_be_read_back_are_refused() {
    let (_, dataset) = memory("", 2);
    let nested = |depth: usize| object(json!({"key": (0..depth).fold(json!(1), |v, _| json!([v]))}));
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    let r = record(1);
    let r: Vec<&[u8]> = r.iter().map(Vec::as_slice).collect();
    let e = filler.append("train", &r, Some(&nested(100))).unwrap_err();
    assert!(e.code() == Code::Invalid && e.to_string().contains("'key' is nested more than 100 deep"), "{e}");
    filler.append("train", &r, Some(&nested(99))).unwrap();
    filler.finish().unwrap();
    assert_eq!(dataset.shard_infos("train", 0, 1).unwrap()[0].metadata, nested(99));
    let wide = dataset.info().with(Some(object(json!({"custom_metadata": nested(125)}))), None);
    assert!(wide.unwrap_err().to_string().contains("'custom_metadata' is nested"));
}

#[test]
fn a_check_sees_what_does_not_fit_the_structure_and_what_is_listed_twice() {
    for c in ["", "ZSTD"] {
        let (store, dataset) = memory(c, 2);
        fill(&dataset, "train", 0..4, 1);
        let root = RelPath::parse(ROOT).unwrap();
        let whole = store.get(&root).unwrap();
        let text = String::from_utf8(whole.to_vec()).unwrap();
        let altered = text.replacen("3000", "3001", 1);
        store.replace(&root, &[altered.as_bytes()], Expected::Any).unwrap();
        let e = Dataset::open_store(store.clone(), OpenOptions::default()).unwrap().verify(&mut |_, _| true).unwrap_err();
        assert!(e.to_string().contains("attribute 'trace': 6000 bytes are stored, 6002 are expected"), "{c}: {e}");
        let mut twice: serde_json::Value = serde_json::from_str(&text).unwrap();
        twice["splits"]["test"] = twice["splits"]["train"].clone();
        store.replace(&root, &[twice.to_string().as_bytes()], Expected::Any).unwrap();
        let e = Dataset::open_store(store.clone(), OpenOptions::default()).unwrap_err();
        assert!(e.to_string().contains("splits: test: its list 'train/shards_list.json' lies outside"), "{e}");
    }
}

#[test]
fn verifying_writes_nothing_and_stays_with_what_was_opened() {
    let (store, dataset) = memory("", 2);
    fill(&dataset, "train", 0..2, 1);
    let reader = Dataset::open_store(store.clone(), OpenOptions::default()).unwrap();
    assert_eq!(reader.units("train").unwrap().records(), 2);
    fill(&dataset, "test", 2..4, 1);
    let done = reader.verify(&mut |_, _| true).unwrap();
    assert_eq!((done.records, reader.splits().len()), (2, 1));
    assert_eq!(reader.check(&[], &mut |_, _| true).unwrap().records, 4);
}

#[test]
fn a_running_writers_shards_are_left_alone() {
    let (_, dataset) = memory("", 1);
    let mut running = dataset.filler(FillerOptions::default()).unwrap();
    (0..3).for_each(|n| append(&mut running, "train", n, None));
    fill(&dataset, "train", 10..12, 1);
    assert_eq!(numbers(&dataset, "train"), [10, 11]);
    running.finish().unwrap();
    assert_eq!(numbers(&dataset, "train"), [10, 11, 0, 1, 2]);
}

#[test]
fn workers_lists_are_merged_by_the_coordinator() {
    let (store, dataset) = memory("", 2);
    let mut pointers = Vec::new();
    for (w, path) in ["job/w0", "job/w1"].iter().enumerate() {
        let options = FillerOptions { relative_path: Some(RelPath::parse(path).unwrap()), ..Default::default() };
        let mut filler = dataset.filler(options).unwrap();
        (0..3).for_each(|n| append(&mut filler, "train", w as i64 * 10 + n, None));
        append(&mut filler, "test", 99, None);
        pointers.extend(filler.finish().unwrap());
    }
    dataset.refresh().unwrap();
    assert!(dataset.splits().is_empty());
    let paths: Vec<_> = pointers.iter().map(|p| p.file.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "train/job/w0/shards_list.json",
            "test/job/w0/shards_list.json",
            "train/job/w1/shards_list.json",
            "test/job/w1/shards_list.json"
        ]
    );
    dataset.write_config(None, pointers.clone()).unwrap();
    assert_eq!(numbers(&dataset, "train"), [0, 1, 2, 10, 11, 12]);
    let root = store.get(&RelPath::parse(ROOT).unwrap()).unwrap();
    dataset.write_config(None, pointers).unwrap();
    assert_eq!(store.get(&RelPath::parse(ROOT).unwrap()).unwrap(), root);
    dataset.check(&[], &mut |_, _| true).unwrap();
}

#[test]
fn a_reader_takes_a_begun_commit_as_done_and_a_writer_finishes_it() {
    let (store, dataset) = memory("", 2);
    fill(&dataset, "train", 0..2, 1);
    let root = RelPath::parse(ROOT).unwrap();
    let old = store.get(&root).unwrap();
    let list = RelPath::parse("train/shards_list.json").unwrap();
    let old_list = store.get(&list).unwrap();
    fill(&dataset, "train", 2..4, 1);
    let (new, new_list) = (store.get(&root).unwrap(), store.get(&list).unwrap());
    // As if the writer had been killed before it replaced the root, or before it replaced the list.
    for (root_now, list_now) in [(&old, &new_list), (&old, &old_list), (&new, &new_list)] {
        store.replace(&root, &[root_now], Expected::Any).unwrap();
        store.replace(&list, &[list_now], Expected::Any).unwrap();
        let begun = journal::Journal::new(&old, new.to_vec(), vec![(list.clone(), new_list.to_vec())]).unwrap();
        begun.write(&*store, false).unwrap();
        let reader = Dataset::open_store(store.clone(), OpenOptions::default()).unwrap();
        let seen = numbers(&reader, "train");
        assert!(seen == [0, 1, 2, 3] || (seen == [0, 1] && list_now == &old_list), "{seen:?}");
        assert_eq!(store.get(&root).unwrap(), *root_now, "a reader writes nothing");
        reader.check(&[], &mut |_, _| true).unwrap();
        assert_eq!(numbers(&reader, "train"), [0, 1, 2, 3]);
        assert_eq!((store.get(&root).unwrap(), store.get(&list).unwrap()), (new.clone(), new_list.clone()));
        assert!(journal::Journal::read(&*store).unwrap().is_none());
    }
}

#[test]
fn a_reader_follows_a_writer() {
    let (store, writer) = memory("", 2);
    fill(&writer, "train", 0..2, 1);
    let reader = Dataset::open_store(store, OpenOptions::default()).unwrap();
    fill(&writer, "train", 2..4, 1);
    assert_eq!(numbers(&reader, "train"), [0, 1, 2, 3]); // its own root is gone, so it looks again
    fill(&writer, "train", 4..6, 1);
    assert_eq!(numbers(&reader, "train"), [0, 1, 2, 3]); // what was read once stays as it was
    reader.refresh().unwrap();
    assert_eq!(numbers(&reader, "train"), (0..6).collect::<Vec<_>>());
}

#[test]
fn unknown_keys_survive_an_append() {
    let (store, dataset) = memory("", 2);
    fill(&dataset, "train", 0..2, 1);
    let root = RelPath::parse(ROOT).unwrap();
    let mut document: serde_json::Value = serde_json::from_slice(&store.get(&root).unwrap()).unwrap();
    document["future"] = json!({"n": 12345678901234567890123_u128.to_string()});
    document["metadata"]["owner"] = json!("é");
    document["splits"]["train"]["color"] = json!(1);
    store.replace(&root, &[document.to_string().as_bytes()], Expected::Any).unwrap();
    let dataset = Dataset::open_store(store.clone(), OpenOptions::default()).unwrap();
    fill(&dataset, "train", 2..4, 1);
    let after: serde_json::Value = serde_json::from_slice(&store.get(&root).unwrap()).unwrap();
    assert_eq!(
        (&after["future"], &after["metadata"]["owner"], &after["splits"]["train"]["color"]),
        (&document["future"], &json!("é"), &json!(1))
    );
}

#[test]
fn damage_is_found_and_named() {
    for c in ["", "LZ4"] {
        let (store, dataset) = memory(c, 2);
        fill(&dataset, "train", 0..6, 1);
        let shard = dataset.shard_infos("train", 1, 2).unwrap()[0].path().unwrap().clone();
        let bytes = store.get(&shard).unwrap();
        let mut flipped = bytes.to_vec();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        store.replace(&shard, &[&flipped], Expected::Any).unwrap();
        let e = dataset.check(&[], &mut |_, _| true).unwrap_err();
        assert_eq!((e.code(), e.path().unwrap().ends_with(shard.as_str())), (Code::Corrupt, true), "{e}");
        store.replace(&shard, &[&bytes[..bytes.len() / 2]], Expected::Any).unwrap();
        let e = read(&dataset, "train", &[3], &[0]).unwrap_err();
        assert_eq!((e.code(), e.to_string().contains(shard.as_str())), (Code::Corrupt, true), "{e}");
        store.delete(&shard).unwrap();
        let dataset = Dataset::open_store(store.clone(), OpenOptions::default()).unwrap(); // the old one has the shard open
        let e = read(&dataset, "train", &[3], &[0]).unwrap_err();
        assert_eq!((e.code(), e.to_string().contains(shard.as_str())), (Code::NotFound, true), "{e}");
        assert_eq!(read(&dataset, "train", &[0, 5], &[1]).unwrap().len(), 2);
    }
}

#[test]
fn bad_roots_are_refused_with_the_reason() {
    let cases = [
        ("{", Code::Corrupt, "not a JSON object"),
        (r#"{"metadata": {"sedpack_version": "0.3.0"}}"#, Code::Unsupported, "0.3.0"),
        (r#"{"metadata": {"sedpack_version": "new"}}"#, Code::Invalid, "sedpack_version"),
        (r#"{"dataset_structure": {"compression": "RAR"}}"#, Code::Unsupported, "RAR"),
        (r#"{"dataset_structure": {"compression": "ZIP"}}"#, Code::Invalid, "cannot have compression 'ZIP'"),
        (r#"{"dataset_structure": {"examples_per_shard": 0}}"#, Code::Invalid, "examples_per_shard"),
        (
            r#"{"dataset_structure": {"saved_data_description": [{"name": "a", "dtype": "object", "shape": []}]}}"#,
            Code::Unsupported,
            "attribute 'a'",
        ),
        (
            r#"{"dataset_structure": {"saved_data_description": [{"name": "a", "dtype": "u1", "shape": [0]}]}}"#,
            Code::Invalid,
            "attribute 'a'",
        ),
        (r#"{"splits": {"validation": {}}}"#, Code::Invalid, "split 'validation'"),
        (r#"{"splits": {"train": {"shard_list_info_file": {"file_path": "../x/shards_list.json"}}}}"#, Code::Invalid, ".."),
        (r#"{"splits": {"train": {"shard_list_info_file": {"file_path": "/x/shards_list.json"}}}}"#, Code::Invalid, "/x"),
    ];
    for (text, code, words) in cases {
        let store = Arc::new(MemoryStore::new());
        store.create(&RelPath::parse(ROOT).unwrap(), &[text.as_bytes()]).unwrap();
        let e = Dataset::open_store(store, OpenOptions::default()).unwrap_err();
        assert!(e.code() == code && e.to_string().contains(words), "{text}: {e}");
        assert!(e.to_string().contains(ROOT), "{e}");
    }
}

#[test]
fn a_refused_record_leaves_the_filler_whole() {
    let (_, dataset) = memory("", 2);
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    append(&mut filler, "train", 0, None);
    let e = filler.append("train", &[b"short", &[0; 8], b""], None).unwrap_err();
    assert!(e.to_string().contains("attribute 'trace': 5 bytes are given, 6000 are declared"), "{e}");
    assert!(filler.append("dev", &[b""], None).is_err());
    append(&mut filler, "train", 1, None);
    filler.finish().unwrap();
    assert_eq!(numbers(&dataset, "train"), [0, 1]);
}

#[test]
fn a_sink_commits_all_writers_at_once() {
    let (store, dataset) = memory("GZIP", 3);
    let sink = dataset.sink(FillerOptions::default());
    let mut tokens = Vec::new();
    for w in 0..3 {
        let mut writer = sink.writer().unwrap();
        for n in 0..4 {
            let r = record(w * 10 + n);
            writer.append("train", &r.iter().map(Vec::as_slice).collect::<Vec<_>>(), None).unwrap();
        }
        tokens.push(writer.finish().unwrap());
        assert!(dataset.splits().is_empty());
    }
    let done = sink.commit(tokens).unwrap();
    assert_eq!(done.records["train"], 12);
    assert_eq!(numbers(&dataset, "train"), [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]);
    assert_eq!(progress_records(&*store), 0);
}

#[test]
fn a_failed_shard_is_counted_and_the_others_are_published() {
    use crate::store::fault::{Fault, FaultStore, Op, Rule};
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let dataset = Dataset::create_store(store.clone(), info("", 2)).unwrap();
    store.add(Rule::new(Fault::Fail(Error::storage("the disk is full"))).on(Op::Write).nth(3));
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    (0..6).for_each(|n| append(&mut filler, "train", n, None));
    let e = filler.finish().unwrap_err();
    let text = "1 of 3 shards with 2 examples could not be written and are not listed: the disk is full";
    assert!(e.code() == Code::Storage && e.to_string().contains(text), "{e}");
    assert_eq!(numbers(&dataset, "train"), [0, 1, 2, 3]);
    // A commit that cannot write its lists is finished by the next one.
    store.add(Rule::new(Fault::Fail(Error::storage("the disk is full"))).on(Op::Replace).always());
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    append(&mut filler, "train", 6, None);
    filler.finish().unwrap_err();
    dataset.refresh().unwrap();
    assert_eq!(numbers(&dataset, "train"), [0, 1, 2, 3]);
    store.heal();
    fill(&dataset, "train", 7..8, 1);
    assert_eq!(numbers(&dataset, "train"), [0, 1, 2, 3, 6, 7]);
    dataset.check(&[], &mut |_, _| true).unwrap();
}
