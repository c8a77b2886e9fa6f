//! Repairs and commits that were killed.

use super::*;

/// Damage of every kind in one dataset: what a repair has to do most of.
fn ruined() -> Arc<MemoryStore> {
    let (store, dataset) = filled("LZ4");
    let mut killed = dataset.filler(FillerOptions::default()).unwrap();
    append(&mut killed, "holdout", 20..22);
    drop(killed);
    store.delete(&shard(&dataset, "train", 1)).unwrap();
    store.delete(&list_of(&shard(&dataset, "train", 3))).unwrap();
    edit(&*store, &shard(&dataset, "test", 0), |b| b[20] ^= 1);
    store
}

#[test]
fn a_repair_that_is_cut_short_anywhere_can_be_repaired() {
    let whole = ruined();
    let counting = FaultStore::new(Arc::new(clone(&*whole)));
    let dataset = Dataset::open_store(Arc::new(counting.clone()), OpenOptions::default()).unwrap();
    let found = plan(&dataset);
    let before = counting.log().len();
    dataset.repair(&found).unwrap();
    let steps = counting.log().split_off(before);
    let expected = numbers(&dataset, "train");
    assert_eq!(expected, [keyed([0, 1, 4, 5]), vec![(8, None), (9, None)]].concat());
    let changing = |op: &Op| op.publishes() || *op == Op::Flush;
    assert!(steps.iter().filter(|(op, _)| changing(op)).count() > 10, "{steps:?}");
    for nth in 1..=steps.len() as u64 {
        for fault in [Fault::Fail(Error::storage("killed")), Fault::FailAfter(Error::storage("killed"))] {
            let store = Arc::new(clone(&*whole));
            let failing = FaultStore::new(store.clone());
            let dataset = Dataset::open_store(Arc::new(failing.clone()), OpenOptions::default()).unwrap();
            let found = plan(&dataset);
            // Nothing more is done from then on, as when the process is killed.
            failing.add(Rule::new(fault.clone()).nth(nth));
            failing.add(Rule::new(Fault::Fail(Error::storage("killed"))).nth(nth + 1).always());
            let _ = dataset.repair(&found);
            drop(dataset);
            let dataset = Dataset::open_store(store, OpenOptions::default()).unwrap();
            dataset.repair(&plan(&dataset)).unwrap();
            dataset.check(&[], &mut |_, _| true).unwrap();
            assert!(plan(&dataset).is_empty());
            assert_eq!((numbers(&dataset, "train"), numbers(&dataset, "holdout")), (expected.clone(), keyed([20, 21])), "{nth}");
            assert_eq!(numbers(&dataset, "test"), []);
        }
    }
}

/// A copy of all objects.
fn clone(store: &dyn Store) -> MemoryStore {
    let copy = MemoryStore::new();
    objects(store).iter().for_each(|(path, bytes)| copy.create(path, &[bytes]).unwrap());
    copy
}

#[test]
fn an_unfinished_commit_is_finished_or_given_up() {
    for foreign in [false, true] {
        let (store, _) = filled("ZSTD");
        let failing = Arc::new(FaultStore::new(store.clone()));
        let writer = Dataset::open_store(failing.clone(), OpenOptions::default()).unwrap();
        failing.add(Rule::new(Fault::Fail(Error::storage("killed"))).on(Op::Replace).always());
        let mut filler = writer.filler(FillerOptions::default()).unwrap();
        append(&mut filler, "train", 20..22);
        filler.finish().unwrap_err();
        drop((filler, writer));
        if foreign {
            edit_json(&*store, &path(ROOT), |v| v["metadata"]["description"] = json!("another program's"));
            // The commit had begun to replace lists that this root leads to.
            let top = path("train/shards_list.json");
            edit(&*store, &top, |b| b.push(b' '));
        }
        let dataset = Dataset::open_store(store.clone(), OpenOptions::default()).unwrap();
        let before = objects(&*store);
        let found = plan(&dataset);
        assert_eq!(objects(&*store), before);
        assert_eq!(found.actions[0].kind, if foreign { RepairKind::GiveUpCommit } else { RepairKind::FinishCommit });
        repair(&dataset);
        assert_eq!(numbers(&dataset, "train"), keyed([0, 1, 2, 3, 4, 5, 8, 9, 20, 21]), "{foreign}");
    }
}
