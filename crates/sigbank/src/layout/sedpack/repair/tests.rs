use super::*;
use crate::layout::sedpack::commit::{self, Changes};
use crate::layout::sedpack::{FileInfo, Filler, FillerOptions, Info, LIST, ShardInfo};
use crate::layout::{Source, read};
use crate::store::MemoryStore;
use crate::store::fault::{Fault, FaultStore, Op, Rule};
use serde_json::{Value, json};
use sigbank_format::model::Metadata;
use std::ops::Range;
use std::sync::Arc;

mod copies;
mod interrupted;
mod lost;

fn object(value: Value) -> Metadata {
    value.as_object().unwrap().clone()
}

/// `form` is the kind of shard and the compression, or the compression of `fb` alone.
fn info(form: &str) -> Info {
    let (kind, compression) = form.split_once('/').unwrap_or(("fb", form));
    let structure = json!({"shard_file_type": kind,
        "saved_data_description": [{"name": "n", "dtype": "int", "shape": []}, {"name": "note", "dtype": "str", "shape": []}],
        "compression": compression, "examples_per_shard": 2, "hash_checksum_algorithms": ["sha256", "xxh64"]
    });
    Info::new(object(json!({"description": "été"})), object(structure)).unwrap()
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

/// A store and a dataset in it: train 0..6 with a key of their own for each shard and test 6..8; then train 8..10.
fn filled(compression: &str) -> (Arc<MemoryStore>, Dataset) {
    let store = Arc::new(MemoryStore::new());
    let dataset = Dataset::create_store(store.clone(), info(compression)).unwrap();
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    append(&mut filler, "train", 0..6);
    append(&mut filler, "test", 6..8);
    filler.finish().unwrap();
    fill(&dataset, "train", 8..10);
    (store, dataset)
}

fn append(filler: &mut Filler, split: &str, range: Range<i64>) {
    for n in range {
        let key = object(json!({"key": n / 2}));
        filler.append(split, &[&n.to_le_bytes(), format!("note {n}").as_bytes()], Some(&key)).unwrap();
    }
}

fn fill(dataset: &Dataset, split: &str, range: Range<i64>) {
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    append(&mut filler, split, range);
    filler.finish().unwrap();
}

/// Each record's number, compared with its note, and its shard's key.
fn numbers(dataset: &Dataset, split: &str) -> Vec<(i64, Option<i64>)> {
    let units = dataset.units(split).unwrap();
    let rows = read(dataset, split, &(0..units.records()).collect::<Vec<_>>(), &[0, 1]).unwrap();
    let number = |(at, row): (usize, &Vec<Vec<u8>>)| {
        let n = i64::from_le_bytes(row[0].as_slice().try_into().unwrap());
        assert_eq!(row[1], format!("note {n}").into_bytes());
        let unit = units.locate(at as u64).unwrap().0;
        (n, dataset.unit_metadata(split, unit).unwrap().get("key").and_then(Value::as_i64))
    };
    rows.iter().enumerate().map(number).collect()
}

/// Numbers with the keys that they were written with.
fn keyed(range: impl IntoIterator<Item = i64>) -> Vec<(i64, Option<i64>)> {
    range.into_iter().map(|n| (n, Some(n / 2))).collect()
}

fn plan(dataset: &Dataset) -> RepairPlan {
    dataset.plan_repair(&mut |_, _| true).unwrap()
}

fn kinds(plan: &RepairPlan) -> Vec<(&'static str, u64)> {
    plan.actions.iter().map(|a| (a.kind.as_str(), a.examples)).collect()
}

/// Repairs, checks, and looks that there is nothing more to do.
#[track_caller]
fn repair(dataset: &Dataset) -> RepairPlan {
    let done = plan(dataset);
    dataset.repair(&done).unwrap();
    dataset.check(&[], &mut |_, _| true).unwrap();
    let again = plan(dataset);
    assert!(again.is_empty(), "{:?}", again.actions);
    done
}

fn shard(dataset: &Dataset, split: &str, unit: usize) -> RelPath {
    path(&dataset.unit_name(split, unit).unwrap())
}

fn list_of(shard: &RelPath) -> RelPath {
    shard.parent().unwrap().join(LIST).unwrap()
}

fn edit(store: &dyn Store, path: &RelPath, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = store.get(path).unwrap().to_vec();
    change(&mut bytes);
    store.replace(path, &[&bytes], Expected::Any).unwrap();
}

fn edit_json(store: &dyn Store, path: &RelPath, change: impl FnOnce(&mut Value)) {
    edit(store, path, |bytes| {
        let mut value: Value = serde_json::from_slice(bytes).unwrap();
        change(&mut value);
        *bytes = serde_json::to_vec_pretty(&value).unwrap();
    });
}

fn flip(store: &dyn Store, path: &RelPath, at_text: &[u8]) {
    edit(store, path, |bytes| {
        let at = bytes.windows(at_text.len()).position(|w| w == at_text).unwrap();
        bytes[at] ^= 1;
    });
}

fn objects(store: &dyn Store) -> Vec<(RelPath, Vec<u8>)> {
    let mut all: Vec<_> =
        store.list(None).unwrap().map(|e| e.unwrap().path).map(|p| (p.clone(), store.get(&p).unwrap().to_vec())).collect();
    all.sort();
    all
}

#[test]
fn a_whole_dataset_needs_nothing_and_planning_changes_nothing() {
    for form in ["", "GZIP", "ZSTD", "npz/", "npz/ZIP", "tfrec/", "tfrec/GZIP"] {
        let (store, dataset) = filled(form);
        let before = objects(&*store);
        let mut heard = Vec::new();
        let found = dataset
            .plan_repair(&mut |done, all| {
                heard.push((done, all));
                true
            })
            .unwrap();
        assert!(found.is_empty() && found.notes.is_empty());
        assert_eq!(heard, (1..=5).map(|n| (n, 5)).collect::<Vec<_>>());
        dataset.repair(&found).unwrap();
        assert_eq!(objects(&*store), before);
        let e = dataset.plan_repair(&mut |_, _| false).unwrap_err();
        assert_eq!(e.code(), Code::Conflict);
    }
}

#[test]
fn gone_and_damaged_shards_are_dropped_and_listed_again_when_they_are_restored() {
    let (store, dataset) = filled("");
    let (gone, damaged) = (shard(&dataset, "train", 0), shard(&dataset, "train", 2));
    let (gone_bytes, whole_bytes) = (store.get(&gone).unwrap(), store.get(&damaged).unwrap());
    store.delete(&gone).unwrap();
    // The values of an uncompressed shard can be read all the same: only the checksum tells.
    flip(&*store, &damaged, b"note 4");
    let before = objects(&*store);
    let found = plan(&dataset);
    assert_eq!(kinds(&found), [("drop", 2), ("drop", 2)]);
    assert_eq!((&found.actions[0].path, found.actions[0].split.as_str()), (&gone, "train"));
    assert!(found.actions[0].reason.contains("gone") && found.actions[1].reason.contains("sha256"), "{:?}", found.actions);
    assert!(found.actions[1].reason.contains("stays where it is"));
    assert_eq!(objects(&*store), before);
    repair(&dataset);
    assert_eq!(numbers(&dataset, "train"), keyed([2, 3, 8, 9]));
    assert_eq!(numbers(&dataset, "test"), keyed([6, 7]));
    let again = plan(&dataset);
    assert!(again.notes.len() == 1 && again.notes[0].path == damaged && again.notes[0].reason.contains("sha256"), "{again:?}");
    // From a copy they come back with what was known of them.
    store.create(&gone, &[&gone_bytes]).unwrap();
    store.replace(&damaged, &[&whole_bytes], Expected::Any).unwrap();
    let found = repair(&dataset);
    assert_eq!(kinds(&found), [("adopt", 2), ("adopt", 2)]);
    let mut all = numbers(&dataset, "train");
    // At the end of their list, which another list follows.
    assert_eq!((&all[..2], &all[6..]), (&keyed([2, 3])[..], &keyed([8, 9])[..]));
    all.sort_unstable();
    assert_eq!(all, keyed([0, 1, 2, 3, 4, 5, 8, 9]));
}

#[test]
fn a_split_that_loses_all_is_empty_and_not_absent() {
    let (store, dataset) = filled("LZ4");
    let only = shard(&dataset, "test", 0);
    store.delete(&only).unwrap();
    repair(&dataset);
    let splits: Vec<_> = dataset.splits().into_iter().map(|s| (s.name, s.records, s.units)).collect();
    assert_eq!(splits, [("train".to_owned(), 8, 4), ("test".to_owned(), 0, 0)]);
    fill(&dataset, "test", 20..22);
    assert_eq!(numbers(&dataset, "test"), keyed([20, 21]));
}

#[test]
fn wrong_counts_missing_checksums_and_double_entries_are_put_right() {
    let (store, dataset) = filled("ZSTD");
    let first = dataset.shard_infos("train", 0, 1).unwrap().remove(0);
    let list = list_of(first.path().unwrap());
    edit_json(&*store, &list, |v| v["shard_files"][0]["number_of_examples"] = json!(7));
    edit_json(&*store, &list, |v| {
        v["shard_files"][1]["file_infos"][0]["hash_checksums"].as_array_mut().unwrap().pop();
        let third = v["shard_files"][2].clone();
        v["shard_files"].as_array_mut().unwrap().push(third);
        v["extra"] = json!("kept");
    });
    let found = repair(&dataset);
    assert_eq!(kinds(&found), [("correct", 2), ("correct", 2), ("drop", 2), ("rebuild list", 6)]);
    assert!(found.actions[0].reason.contains("says 7 examples, it holds 2"), "{:?}", found.actions[0]);
    assert_eq!(numbers(&dataset, "train"), keyed([0, 1, 2, 3, 4, 5, 8, 9]));
    let now: Value = serde_json::from_slice(&store.get(&list).unwrap()).unwrap();
    assert_eq!((&now["extra"], &now["number_of_examples"]), (&json!("kept"), &json!(6)));
}

#[test]
fn a_count_that_all_lists_agree_on_is_compared_with_the_shard() {
    for form in ["GZIP", "npz/ZIP", "tfrec/"] {
        let (store, dataset) = filled(form);
        let mut killed = dataset.filler(FillerOptions::default()).unwrap();
        append(&mut killed, "test", 30..32);
        drop(killed);
        let sessions = progress::sessions(&*store).unwrap();
        let record = sessions[0].records[0].1.clone();
        drop(sessions);
        let lying = ShardInfo::new(record.shard.files[0].clone(), 5, record.shard.metadata.clone());
        let changes = Changes { shards: vec![(record.list, vec![lying])], ..Default::default() };
        commit::commit(&*store, false, true, |_| Ok(changes.clone())).unwrap();
        assert!(dataset.check(&[], &mut |_, _| true).is_err());
        assert_eq!(kinds(&repair(&dataset)), [("correct", 2)]);
        assert_eq!(numbers(&dataset, "test"), keyed([6, 7, 30, 31]));
    }
}

#[test]
fn every_list_can_be_lost_or_damaged() {
    let lists = |store: &dyn Store| -> Vec<RelPath> {
        objects(store).into_iter().map(|(p, _)| p).filter(|p| p.file_name() == LIST).collect()
    };
    type Damage = fn(&dyn Store, &RelPath);
    let kinds: [(Damage, bool); 5] = [
        (|store, list| store.delete(list).unwrap(), true),
        (|store, list| edit(store, list, |b| b.truncate(b.len() / 2)), true),
        (|store, list| edit_json(store, list, |v| v["number_of_examples"] = json!(77)), false),
        (|store, list| edit(store, list, |b| b.push(b'\n')), false),
        (|store, list| edit_json(store, list, |v| v["relative_path_self"] = json!("test/other/shards_list.json")), false),
    ];
    let count = lists(&*filled("").0).len();
    assert_eq!(count, 11);
    for (damage, loses) in kinds {
        for at in 0..count {
            let (store, dataset) = filled("LZ4");
            let list = lists(&*store)[at].clone();
            damage(&*store, &list);
            assert!(dataset.check(&[], &mut |_, _| true).is_err());
            let found = repair(&dataset);
            assert!(found.actions.iter().any(|a| a.kind == RepairKind::RebuildList && a.path == list), "{:?}", found.actions);
            for (split, all) in [("train", keyed([0, 1, 2, 3, 4, 5, 8, 9])), ("test", keyed([6, 7]))] {
                let mut now = numbers(&dataset, split);
                if !loses {
                    assert_eq!(now, all, "{list}");
                    continue;
                }
                // Order and metadata of the shards of a lost list are gone with it.
                now.sort_unstable();
                assert_eq!(now.iter().map(|n| n.0).collect::<Vec<_>>(), all.iter().map(|n| n.0).collect::<Vec<_>>());
                let is_leaf = list.components().count() == 5;
                assert!(now.iter().zip(&all).all(|(now, all)| now.1 == all.1 || is_leaf && now.1.is_none()), "{list}: {now:?}");
            }
        }
    }
}

#[test]
fn entries_that_cannot_be_read_cost_only_themselves() {
    let (store, dataset) = filled("LZ4");
    let list = list_of(&shard(&dataset, "train", 0));
    let top = path("train/shards_list.json");
    edit_json(&*store, &list, |v| v["shard_files"][1]["file_infos"][0]["file_path"] = json!("../../etc/passwd"));
    edit_json(&*store, &top, |v| {
        let stray = json!({"shard_list_info_file": {"file_path": "test/shards_list.json", "hash_checksums": []},
            "number_of_examples": 2, "number_of_shards": 1});
        v["children_shard_lists"].as_array_mut().unwrap().insert(0, stray);
    });
    let found = repair(&dataset);
    // Its file is there still.
    assert_eq!(kinds(&found), [("adopt", 2), ("rebuild list", 0), ("rebuild list", 6)]);
    let (known, unknown) = (keyed([0, 1, 4, 5]), [(2, None), (3, None)]);
    assert_eq!(numbers(&dataset, "train"), [&known, &unknown[..], &keyed([8, 9])].concat());
}

#[test]
fn what_killed_writers_finished_is_adopted_with_its_metadata() {
    let (store, dataset) = filled("ZSTD");
    for (own, range) in [(None, 20..25), (Some("worker/1"), 30..33)] {
        let options = FillerOptions { relative_path: own.map(path), ..Default::default() };
        let mut killed = dataset.filler(options).unwrap();
        append(&mut killed, "holdout", range);
    }
    let found = repair(&dataset);
    assert_eq!(found.count(RepairKind::AdoptShard), (3, 6));
    assert!(found.actions.iter().any(|a| a.reason.contains("'worker/1'") && a.reason.contains("do not run that worker again")));
    let mut all = numbers(&dataset, "holdout");
    all.sort_unstable();
    assert_eq!(all, keyed([20, 21, 22, 23, 30, 31]));
    assert_eq!(store.list(Some(&path(".sigbank/progress"))).unwrap().count(), 0);
    fill(&dataset, "holdout", 40..42);
    assert_eq!(dataset.units("holdout").unwrap().records(), 8);
}

#[test]
fn what_a_living_writer_wrote_is_left_alone() {
    let (store, dataset) = filled("");
    let mut alive = dataset.filler(FillerOptions::default()).unwrap();
    append(&mut alive, "train", 20..26);
    while progress::sessions(&*store).unwrap().iter().all(|s| s.session.is_some()) {
        std::thread::yield_now();
    }
    let gone = shard(&dataset, "test", 0);
    store.delete(&gone).unwrap();
    let orphan = path("train/aa/orphan.fb");
    store.create(&orphan, &[&store.get(&shard(&dataset, "train", 0)).unwrap()]).unwrap();
    let found = repair(&dataset);
    assert_eq!(kinds(&found), [("drop", 2)]);
    assert!(found.notes.iter().any(|n| n.path == orphan && n.reason.contains("still at work")), "{:?}", found.notes);
    // A lost list cannot be told from what it writes.
    let list = list_of(&shard(&dataset, "train", 0));
    let text = store.get(&list).unwrap();
    store.delete(&list).unwrap();
    let e = dataset.plan_repair(&mut |_, _| true).unwrap_err();
    assert!(e.code() == Code::Conflict && e.to_string().contains("a writer"), "{e}");
    store.create(&list, &[&text]).unwrap();
    alive.finish().unwrap();
    assert_eq!(numbers(&dataset, "train"), keyed([0, 1, 2, 3, 4, 5, 8, 9, 20, 21, 22, 23, 24, 25]));
}

#[test]
fn unlisted_files_are_adopted_when_they_are_whole_and_no_copies() {
    for form in ["fb/", "fb/GZIP", "npz/", "npz/ZIP", "tfrec/", "tfrec/ZLIB"] {
        let (store, dataset) = filled(form);
        let other = Arc::new(MemoryStore::new());
        let foreign = Dataset::create_store(other.clone(), info(form)).unwrap();
        fill(&foreign, "train", 50..52);
        let bytes = other.get(&shard(&foreign, "train", 0)).unwrap();
        let copy = store.get(&shard(&dataset, "train", 1)).unwrap();
        let kind = form.split_once('/').unwrap().0;
        for (name, bytes) in [
            ("holdout/whole", &bytes[..]),
            ("train/a/copy", &copy[..]),
            // A record more or less would not show in a tfrec shard.
            ("train/a/cut", &bytes[..bytes.len() / 2 + 3]),
            ("train/a/noise", b"noise"),
            ("train/a/._whole", b"litter"),
        ] {
            store.create(&path(&format!("{name}.{kind}")), &[bytes]).unwrap();
        }
        store.create(&path("train/a/other.bin"), &[b"x"]).unwrap();
        let found = repair(&dataset);
        assert_eq!(kinds(&found), [("adopt", 2)], "{form}");
        let notes: Vec<_> = found.notes.iter().map(|n| (n.path.file_name(), n.reason.as_str())).collect();
        let expected = ["copy", "cut", "noise"].map(|name| format!("{name}.{kind}"));
        assert_eq!(notes.iter().map(|n| n.0).collect::<Vec<_>>(), expected, "{form}");
        assert!(notes[0].1.contains("the bytes of train/") && notes[1].1.contains("cannot be read"), "{notes:?}");
        assert_eq!(numbers(&dataset, "holdout"), [(50, None), (51, None)]);
        assert_eq!(numbers(&dataset, "train"), keyed([0, 1, 2, 3, 4, 5, 8, 9]));
    }
}

#[test]
fn lists_of_workers_that_nobody_merged_are_adopted_as_they_are() {
    let (store, dataset) = filled("ZSTD");
    let mut infos = Vec::new();
    for (own, range) in [("w/1", 20..24), ("w/2", 30..34)] {
        let mut filler = dataset.filler(FillerOptions { relative_path: Some(path(own)), ..Default::default() }).unwrap();
        append(&mut filler, "train", range);
        infos.extend(filler.finish().unwrap());
    }
    store.delete(&path("train/w/2/shards_list.json")).unwrap();
    let found = repair(&dataset);
    assert_eq!(found.count(RepairKind::AdoptList), (2, 8));
    assert_eq!(numbers(&dataset, "train"), keyed([0, 1, 2, 3, 4, 5, 8, 9, 20, 21, 22, 23, 30, 31, 32, 33]));
    // A coordinator that comes late finds its work done.
    dataset.write_config(None, vec![infos.remove(0)]).unwrap();
    assert_eq!(dataset.units("train").unwrap().records(), 16);
    dataset.check(&[], &mut |_, _| true).unwrap();
}

#[test]
fn a_new_root_takes_up_all_that_lies_there() {
    let (store, dataset) = filled("LZ4");
    let root = path(ROOT);
    edit(&*store, &root, |b| b.truncate(40));
    let e = dataset.plan_repair(&mut |_, _| true).unwrap_err();
    assert_eq!(e.code(), Code::Corrupt);
    store.delete(&root).unwrap();
    let dataset = Dataset::create_store(store.clone(), info("LZ4")).unwrap();
    let found = repair(&dataset);
    assert_eq!(found.count(RepairKind::AdoptList), (3, 10));
    assert_eq!(numbers(&dataset, "test"), keyed([6, 7]));
    assert_eq!(numbers(&dataset, "train"), keyed([0, 1, 2, 3, 4, 5, 8, 9]));
}

#[test]
fn a_wrong_structure_and_a_failing_disk_are_no_damage() {
    let (store, dataset) = filled("GZIP");
    edit_json(&*store, &path(ROOT), |v| v["dataset_structure"]["saved_data_description"].as_array_mut().unwrap().truncate(1));
    let e = dataset.plan_repair(&mut |_, _| true).unwrap_err();
    assert!(e.code() == Code::Corrupt && e.to_string().contains("dataset_structure"), "{e}");
    let (store, _) = filled("GZIP");
    let failing = Arc::new(FaultStore::new(store));
    let dataset = Dataset::open_store(failing.clone(), OpenOptions::default()).unwrap();
    for op in [Op::OpenRead, Op::ReadAt, Op::Get, Op::List] {
        failing.add(Rule::new(Fault::Fail(Error::storage("the disk does not answer"))).on(op).nth(2).always());
        let e = dataset.plan_repair(&mut |_, _| true).unwrap_err();
        assert!(e.to_string().contains("does not answer"), "{op:?}: {e}");
        failing.heal();
    }
    assert!(plan(&dataset).is_empty());
}

#[test]
fn a_plan_holds_for_the_state_it_was_made_of() {
    let (store, dataset) = filled("");
    let gone = shard(&dataset, "train", 0);
    let bytes = store.get(&gone).unwrap();
    store.delete(&gone).unwrap();
    let found = plan(&dataset);
    store.create(&gone, &[&bytes]).unwrap();
    let e = dataset.repair(&found).unwrap_err();
    assert!(e.code() == Code::Conflict && e.to_string().contains("changed since"), "{e}");
    store.delete(&gone).unwrap();
    fill(&dataset, "train", 60..61);
    assert_eq!(dataset.repair(&found).unwrap_err().code(), Code::Conflict);
    repair(&dataset);
    assert_eq!(numbers(&dataset, "train"), keyed([2, 3, 4, 5, 8, 9, 60]));
}

#[test]
fn files_info_of_a_dropped_shard_is_remembered_without_checksums() {
    let file = FileInfo { path: path("train/x.fb"), checksums: vec!["ab".into()] };
    let record = Record { list: path("train/shards_list.json"), shard: ShardInfo::new(file, 3, object(json!({"key": 1}))) };
    let store = MemoryStore::new();
    dropped::write(&store, std::slice::from_ref(&record)).unwrap();
    let back = dropped::read(&store).unwrap();
    assert_eq!(back[&path("train/x.fb")].shard, record.shard);
    store.replace(&path(".sigbank/dropped.json"), &[b"torn"], Expected::Any).unwrap();
    assert!(dropped::read(&store).unwrap().is_empty());
}
