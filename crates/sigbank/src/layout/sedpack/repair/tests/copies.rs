//! Shards that hold the same bytes.

use super::*;

/// So many shards of the same two records.
fn constant(filler: &mut Filler, split: &str, shards: usize) {
    (0..2 * shards).for_each(|_| append(filler, split, 7..8));
}

fn worker(own: &str) -> FillerOptions {
    FillerOptions { relative_path: Some(path(own)), ..Default::default() }
}

fn sevens(n: usize) -> Vec<(i64, Option<i64>)> {
    vec![(7, Some(3)); n]
}

/// A dataset with one such shard in `train`.
fn with_one() -> (Arc<MemoryStore>, Dataset) {
    let store = Arc::new(MemoryStore::new());
    let dataset = Dataset::create_store(store.clone(), info("GZIP")).unwrap();
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    constant(&mut filler, "train", 1);
    filler.finish().unwrap();
    (store, dataset)
}

#[test]
fn a_lost_list_gets_all_of_its_equal_shards_back() {
    // With the leaf lost its files are all that is known, with the top lost nothing leads to the leaf.
    for lost in ["the leaf", "the top", "both"] {
        for (equal, elsewhere) in [(5, 1), (1, 1), (5, 0)] {
            let (store, dataset) = with_one();
            let infos = {
                let mut filler = dataset.filler(worker("w")).unwrap();
                constant(&mut filler, "train", equal);
                filler.finish().unwrap()
            };
            dataset.write_config(None, infos).unwrap();
            let total = 2 * equal as u64 + 2;
            if elsewhere == 0 {
                // The only other one of these bytes is gone for good.
                store.delete(&shard(&dataset, "train", 0)).unwrap();
                repair(&dataset);
            }
            let leaf = list_of(&shard(&dataset, "train", elsewhere));
            for (list, which) in [(leaf, "the leaf"), (path("train/shards_list.json"), "the top")] {
                if lost == "both" || lost == which {
                    store.delete(&list).unwrap();
                }
            }
            let found = repair(&dataset);
            let now = dataset.units("train").unwrap().records();
            assert_eq!(now, if elsewhere == 0 { total - 2 } else { total }, "{lost} {equal}: {:?}", found.actions);
            assert_eq!((found.left_out(), found.dropped()), ((0, 0), (0, 0)));
        }
    }
}

#[test]
fn equal_shards_of_one_killed_writer_are_all_adopted() {
    for (own, listed) in [(None, 5), (None, 1), (None, 0), (Some("w"), 5), (Some("w"), 0)] {
        let (store, dataset) = with_one();
        if listed == 0 {
            store.delete(&shard(&dataset, "train", 0)).unwrap();
            let lost = RepairOptions { lost_for_good: true, ..Default::default() };
            dataset.repair(&dataset.plan_repair_with(&lost, &mut |_, _| true).unwrap()).unwrap();
        }
        let options = FillerOptions { relative_path: own.map(path), ..Default::default() };
        let mut killed = dataset.filler(options).unwrap();
        // Equal to those that are listed, and to each other.
        constant(&mut killed, "train", listed.max(1));
        constant(&mut killed, "train", 5);
        drop(killed);
        let found = repair(&dataset);
        let written = 2 * (listed.max(1) + 5);
        assert_eq!(found.count(RepairKind::AdoptShard).1, written as u64);
        assert_eq!(numbers(&dataset, "train"), sevens(written + if listed == 0 { 0 } else { 2 }));
        assert_eq!(store.list(Some(&path(".sigbank/progress"))).unwrap().count(), 0);
        if listed > 0 {
            assert!(found.actions[0].reason.contains("holds the same bytes as train/"), "{:?}", found.actions[0]);
        }
    }
}

#[test]
fn equal_shards_of_one_unmerged_worker_and_of_several_are_all_adopted() {
    let (_, dataset) = with_one();
    for own in ["w/1", "w/2"] {
        let mut filler = dataset.filler(worker(own)).unwrap();
        constant(&mut filler, "train", 5);
        // Of the other split not one is listed.
        constant(&mut filler, "holdout", 1);
        filler.finish().unwrap();
    }
    let found = repair(&dataset);
    assert_eq!(numbers(&dataset, "train"), sevens(22));
    assert_eq!(numbers(&dataset, "holdout"), sevens(4));
    let told = found.actions.iter().find(|a| a.kind == RepairKind::AdoptList && a.split == "train").unwrap();
    assert!(told.reason.contains("5 of them hold the same bytes as others, such as train/"), "{told:?}");
}

#[test]
fn equal_files_of_one_directory_are_all_adopted() {
    let (store, dataset) = with_one();
    let bytes = store.get(&shard(&dataset, "train", 0)).unwrap();
    for n in 0..5 {
        store.create(&path(&format!("train/more/{n}.fb")), &[&bytes]).unwrap();
    }
    repair(&dataset);
    assert_eq!(dataset.units("train").unwrap().records(), 12);
}

#[test]
fn what_a_worker_that_was_run_again_wrote_first_is_left_out_until_somebody_wants_it() {
    let (store, dataset) = filled("ZSTD");
    // It was killed once, and ended once without being merged; the third run is listed.
    let mut killed = dataset.filler(worker("w/1")).unwrap();
    append(&mut killed, "train", 20..24);
    drop(killed);
    let mut unmerged = dataset.filler(worker("w/2")).unwrap();
    append(&mut unmerged, "train", 20..24);
    unmerged.finish().unwrap();
    let mut again = dataset.filler(worker("w/3")).unwrap();
    append(&mut again, "train", 20..24);
    dataset.write_config(None, again.finish().unwrap()).unwrap();
    let listed = keyed([0, 1, 2, 3, 4, 5, 8, 9, 20, 21, 22, 23]);
    let found = repair(&dataset);
    assert!(found.is_empty());
    assert_eq!(found.left_out(), (4, 8));
    assert!(
        found.notes.iter().all(|n| n.examples == 2 && n.reason.contains("holds the bytes of train/w/3")),
        "{:?}",
        found.notes
    );
    assert_eq!(numbers(&dataset, "train"), listed);
    // A repair that does something else leaves what is known of them, too.
    store.delete(&shard(&dataset, "test", 0)).unwrap();
    assert_eq!(repair(&dataset).left_out(), (4, 8));
    assert!(store.list(Some(&path(".sigbank/progress"))).unwrap().count() > 0);
    let all = RepairOptions { adopt_copies: true, ..Default::default() };
    let found = dataset.plan_repair_with(&all, &mut |_, _| true).unwrap();
    assert_eq!(
        (found.left_out(), found.count(RepairKind::AdoptShard), found.count(RepairKind::AdoptList)),
        ((0, 0), (2, 4), (1, 4))
    );
    dataset.repair(&found).unwrap();
    let mut now = numbers(&dataset, "train");
    now.sort_unstable();
    assert_eq!(now[8..], keyed([20, 20, 20, 21, 21, 21, 22, 22, 22, 23, 23, 23]));
    assert_eq!(store.list(Some(&path(".sigbank/progress"))).unwrap().count(), 0);
}
