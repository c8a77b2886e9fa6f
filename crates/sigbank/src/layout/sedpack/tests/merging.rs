//! What coordinators merge, whatever else lies there.

use super::*;
use crate::store::fault::{Fault, FaultStore, Op, Rule};

fn dataset(algorithms: &[&str]) -> (Arc<MemoryStore>, Dataset) {
    let store = Arc::new(MemoryStore::new());
    let structure = json!({
        "saved_data_description": [
            {"name": "trace", "dtype": "int16", "shape": [3000]},
            {"name": "n", "dtype": "int", "shape": []},
            {"name": "note", "dtype": "str", "shape": []}
        ],
        "compression": "", "examples_per_shard": 2, "hash_checksum_algorithms": algorithms
    });
    let info = Info::new(Metadata::new(), object(structure)).unwrap();
    (store.clone(), Dataset::create_store(store, info).unwrap())
}

/// One session of a worker: its infos.
fn work(dataset: &Dataset, path: &str, range: std::ops::Range<i64>) -> Vec<ListRef> {
    let options = FillerOptions { relative_path: Some(RelPath::parse(path).unwrap()), ..Default::default() };
    let mut filler = dataset.filler(options).unwrap();
    range.for_each(|n| append(&mut filler, "train", n, None));
    let infos = filler.finish().unwrap();
    assert_eq!(infos, filler.infos());
    infos
}

fn merged(dataset: &Dataset) -> Vec<i64> {
    dataset.check(&[], &mut |_, _| true).unwrap();
    let mut all = numbers(dataset, "train");
    all.sort_unstable();
    all
}

fn root(store: &dyn Store) -> Vec<u8> {
    store.get(&RelPath::parse(ROOT).unwrap()).unwrap().to_vec()
}

/// All orders of a few things.
fn orders<T: Clone>(all: &[T]) -> Vec<Vec<T>> {
    if all.is_empty() {
        return vec![Vec::new()];
    }
    let first = |at: usize| {
        let mut rest = all.to_vec();
        let first = rest.remove(at);
        orders(&rest).into_iter().map(move |mut order| {
            order.insert(0, first.clone());
            order
        })
    };
    (0..all.len()).flat_map(first).collect()
}

#[test]
fn an_info_stands_for_what_its_session_wrote() {
    for algorithms in [&["sha256"][..], &["xxh32", "md5"], &[]] {
        let (store, dataset) = dataset(algorithms);
        let lost = work(&dataset, "w", 0..3);
        let again = work(&dataset, "w", 10..13);
        dataset.write_config(None, again.clone()).unwrap();
        assert_eq!(merged(&dataset), [10, 11, 12], "the first run's result was lost, so it is not there");
        let before = root(&*store);
        dataset.write_config(None, again.clone()).unwrap();
        assert_eq!(root(&*store), before);
        // A session after the merge waits for the coordinator too.
        let third = work(&dataset, "w", 20..23);
        assert_eq!(merged(&dataset), [10, 11, 12]);
        // Who collects all infos and gives them again each time.
        dataset.write_config(None, [again.clone(), third.clone()].concat()).unwrap();
        assert_eq!(merged(&dataset), [10, 11, 12, 20, 21, 22]);
        dataset.write_config(None, [lost, again, third].concat()).unwrap();
        assert_eq!(merged(&dataset), [0, 1, 2, 10, 11, 12, 20, 21, 22]);
    }
}

#[test]
fn overlapping_paths_lose_nothing_in_any_order() {
    for algorithms in [&["sha256"][..], &[]] {
        let paths = ["a", "a/b", "a", "a/b/c"];
        for order in orders(&[0, 1, 2, 3]) {
            let (store, dataset) = dataset(algorithms);
            let infos: Vec<_> = paths.iter().zip(0..).map(|(p, w)| work(&dataset, p, w * 10..w * 10 + 3)).collect();
            let expected: Vec<i64> = (0..4).flat_map(|w| w * 10..w * 10 + 3).collect();
            // One after the other.
            for (done, &w) in order.iter().enumerate() {
                dataset.write_config(None, infos[w].clone()).unwrap();
                assert_eq!(merged(&dataset).len(), (done + 1) * 3);
            }
            assert_eq!(merged(&dataset), expected);
            // All at once, again.
            let before = root(&*store);
            dataset.write_config(None, order.iter().flat_map(|&w| infos[w].clone()).collect()).unwrap();
            assert_eq!(root(&*store), before);
        }
        for order in orders(&[0, 1, 2, 3]) {
            let (_, dataset) = self::dataset(algorithms);
            let infos: Vec<_> = paths.iter().zip(0..).map(|(p, w)| work(&dataset, p, w * 10..w * 10 + 3)).collect();
            dataset.write_config(None, order.iter().flat_map(|&w| infos[w].clone()).collect()).unwrap();
            assert_eq!(merged(&dataset).len(), 12);
        }
    }
}

#[test]
fn a_path_may_be_a_directory_that_another_writer_made() {
    let name = |list: &ListRef, store: &dyn Store| {
        let list = ShardsList::parse(&list.file.path, &store.get(&list.file.path).unwrap()).unwrap();
        list.children[0].file.path.parent().unwrap().as_str().strip_prefix("train/").unwrap().to_owned()
    };
    // Inside a worker's directory, merged before or after it, or both together.
    for order in [&[0, 1][..], &[1, 0], &[2]] {
        let (store, dataset) = dataset(&["sha256"]);
        let first = work(&dataset, "a", 0..3);
        let second = work(&dataset, &name(&first[0], &*store), 10..13);
        let both = [second.clone(), first.clone()].concat();
        let all = [first, second, both];
        for &which in order {
            dataset.write_config(None, all[which].clone()).unwrap();
        }
        assert_eq!(merged(&dataset), [0, 1, 2, 10, 11, 12]);
        dataset.write_config(None, all[2].clone()).unwrap();
        assert_eq!(merged(&dataset), [0, 1, 2, 10, 11, 12]);
    }
    // Inside what the root leads to.
    let (store, dataset) = dataset(&["sha256"]);
    fill(&dataset, "train", 0..3, 1);
    let top = dataset.info().split("train").unwrap().clone();
    let second = work(&dataset, &name(&top, &*store), 10..13);
    assert_eq!(merged(&dataset), [0, 1, 2]);
    fill(&dataset, "train", 3..4, 1);
    dataset.write_config(None, second).unwrap();
    assert_eq!(merged(&dataset), [0, 1, 2, 3, 10, 11, 12]);
}

/// The infos of every list below these, in all.
fn everything(store: &dyn Store, infos: &[ListRef]) -> Vec<ListRef> {
    let mut all = Vec::new();
    for info in infos {
        let list = ShardsList::parse(&info.file.path, &store.get(&info.file.path).unwrap()).unwrap();
        all.extend(everything(store, &list.children));
        all.push(info.clone());
    }
    all
}

#[test]
fn leaf_lists_and_their_ancestors_mix() {
    let (store, dataset) = dataset(&["sha256"]);
    let infos = work(&dataset, "job/w0", 0..5);
    let other = work(&dataset, "job/w1", 10..12);
    let all = everything(&*store, &infos);
    assert_eq!(all.len(), 4 - usize::from(all[0].shards == 3) + 1);
    let leaves: Vec<_> = all.iter().filter(|l| l.file.path.components().count() == 7).cloned().collect();
    dataset.write_config(None, leaves).unwrap();
    assert_eq!(merged(&dataset), [0, 1, 2, 3, 4]);
    dataset.write_config(None, all.into_iter().chain(other.clone()).chain(other).collect()).unwrap();
    assert_eq!(merged(&dataset), [0, 1, 2, 3, 4, 10, 11]);
}

#[test]
fn infos_that_do_not_fit_are_refused_before_anything_is_written() {
    let (store, dataset) = dataset(&["sha256"]);
    fill(&dataset, "train", 0..2, 1);
    let good = work(&dataset, "good", 10..12);
    let bad = work(&dataset, "bad", 20..23);
    let files = || {
        let paths: Vec<_> = store.list(None).unwrap().map(|e| e.unwrap().path).filter(|p| !p.as_str().contains("lock")).collect();
        paths.into_iter().map(|p| (store.get(&p).unwrap(), p)).collect::<Vec<_>>()
    };
    let lists = everything(&*store, &bad);
    let leaf = ShardsList::parse(&lists[0].file.path, &store.get(&lists[0].file.path).unwrap()).unwrap();
    let refused = |given: Vec<ListRef>, code: Code, text: &str| {
        let before = files();
        let e = dataset.write_config(None, good.iter().cloned().chain(given).collect()).unwrap_err();
        assert!(e.code() == code && e.to_string().contains(text), "{e}");
        assert_eq!(files(), before);
    };
    let of = |path: &str| {
        let mut of = bad[0].clone();
        of.file.path = RelPath::parse(path).unwrap();
        of
    };
    let mut more = bad[0].clone();
    more.examples = 4;
    refused(vec![of("train/none/shards_list.json")], Code::NotFound, "the list that is described is not there");
    refused(vec![of("valid/bad/shards_list.json")], Code::Invalid, "valid");
    refused(vec![of("train/good/shards_list.json")], Code::Invalid, "has changed since it was described");
    refused(vec![more], Code::Corrupt, "its info says 4 in 2");
    // A worker's directory that was copied in part: each of its files is missed, also together with an ancestor that is named.
    for path in lists.iter().map(|l| &l.file.path).chain(leaf.shards.iter().map(|s| s.path().unwrap())) {
        let bytes = store.get(path).unwrap();
        store.delete(path).unwrap();
        refused(bad.clone(), Code::NotFound, path.file_name());
        store.create(path, &[&bytes]).unwrap();
    }
    dataset.write_config(None, good.into_iter().chain(bad).collect()).unwrap();
    assert_eq!(merged(&dataset), [0, 1, 10, 11, 20, 21, 22]);
}

#[test]
fn a_merge_cut_short_anywhere_is_finished_by_the_next() {
    for cut in 1.. {
        let (memory, whole) = dataset(&["sha256"]);
        let store = Arc::new(FaultStore::new(memory.clone()));
        let dataset = Dataset::open_store(store.clone(), OpenOptions::default()).unwrap();
        let first = work(&dataset, "a", 0..3);
        dataset.write_config(None, first.clone()).unwrap();
        let infos = [work(&dataset, "a/b", 10..13), work(&dataset, "a", 20..23), first].concat();
        let calls = store.log().len() as u64;
        store.heal();
        store.add(Rule::new(Fault::Fail(Error::storage("pulled the plug"))).nth(cut).always());
        let cut_short = dataset.write_config(None, infos.clone()).is_err();
        store.heal();
        // Readers and a second coordinator, which finishes what was begun.
        whole.refresh().unwrap();
        let seen = numbers(&whole, "train").len();
        assert!(seen == 3 || seen == 9, "{seen}");
        dataset.write_config(None, infos).unwrap();
        whole.refresh().unwrap();
        assert_eq!(merged(&whole), [0, 1, 2, 10, 11, 12, 20, 21, 22]);
        assert!(store.log().len() as u64 > calls);
        if !cut_short {
            assert!(cut > 10);
            break;
        }
    }
}

#[test]
fn a_worker_run_again_gives_up_what_its_killed_run_finished() {
    let (store, dataset) = memory("", 2);
    let options = |adopt| FillerOptions { relative_path: Some(RelPath::parse("w").unwrap()), adopt, ..Default::default() };
    let mut killed = dataset.filler(options(None)).unwrap();
    (0..5).for_each(|n| append(&mut killed, "train", n, None));
    drop(killed);
    let mut again = dataset.filler(options(None)).unwrap();
    (0..5).for_each(|n| append(&mut again, "train", n, None));
    let infos = again.finish().unwrap();
    assert_eq!(again.given_up(), Adopted { shards: 2, records: 4 });
    assert_eq!(progress_records(&*store), 0, "or a later session could adopt them");
    dataset.filler(options(Some(true))).unwrap().finish().unwrap();
    dataset.write_config(None, infos).unwrap();
    assert_eq!(merged(&dataset), [0, 1, 2, 3, 4]);
}

#[test]
fn what_is_given_up_on_is_removed() {
    let (store, dataset) = memory("", 2);
    let kept = work(&dataset, "kept", 0..3);
    dataset.write_config(None, kept).unwrap();
    work(&dataset, "gone", 10..13);
    dataset.discard(&RelPath::parse("gone").unwrap()).unwrap();
    dataset.discard(&RelPath::parse("kept").unwrap()).unwrap();
    let left: Vec<_> = store.list(None).unwrap().map(|e| e.unwrap().path.to_string()).collect();
    assert!(left.iter().all(|p| !p.contains("gone")), "{left:?}");
    assert_eq!(merged(&dataset), [0, 1, 2]);
}

#[test]
fn a_failed_shard_stops_the_filler_early_and_leaves_infos() {
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new())));
    let dataset = Dataset::create_store(store.clone(), info("", 2)).unwrap();
    store.add(Rule::new(Fault::Fail(Error::storage("the disk is full"))).on(Op::Write).nth(2));
    let options = FillerOptions { relative_path: Some(RelPath::parse("w").unwrap()), ..Default::default() };
    let mut filler = dataset.filler(options).unwrap();
    let (mut taken, mut n) = (0, 0);
    let refused = loop {
        let record = record(n);
        match filler.append("train", &record.iter().map(Vec::as_slice).collect::<Vec<_>>(), None) {
            Ok(()) => taken += 1,
            Err(e) => break e,
        }
        n += 1;
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert!(refused.to_string().contains("an earlier shard could not be written"), "{refused}");
    let e = filler.finish().unwrap_err();
    assert!(e.to_string().contains("with 2 examples could not be written and are not listed"), "{e}");
    let infos = filler.infos().to_vec();
    dataset.write_config(None, infos).unwrap();
    assert_eq!(merged(&dataset).len(), taken - 2);
}
