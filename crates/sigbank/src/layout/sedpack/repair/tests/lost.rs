//! What is lost is counted, and what is not lost is kept.

use super::*;
use crate::store::LocalStore;
use std::time::SystemTime;

fn delete_below(store: &dyn Store, dir: &str) {
    store.delete_below(&path(dir)).unwrap();
}

#[test]
fn what_lost_lists_told_of_is_counted_as_dropped() {
    let (store, dataset) = filled("LZ4");
    delete_below(&*store, "test");
    let found = repair(&dataset);
    assert_eq!(kinds(&found), [("rebuild list", 0), ("lose", 2)]);
    assert_eq!(found.dropped(), (1, 2));
    assert_eq!(numbers(&dataset, "train").len(), 8);
    // One of three shards and their list; the next lists up are whole.
    let (store, dataset) = filled("LZ4");
    let gone = shard(&dataset, "train", 1);
    for path in [&gone, &list_of(&gone)] {
        store.delete(path).unwrap();
    }
    assert_eq!(repair(&dataset).dropped(), (1, 2));
    // Every list of the split, a shard of each of two lists gone or cut: told of by the topmost list alone.
    let (store, dataset) = filled("LZ4");
    let (one, other) = (shard(&dataset, "train", 0), shard(&dataset, "train", 3));
    for (object, _) in objects(&*store) {
        if object.as_str().starts_with("train/") && object.file_name() == LIST {
            store.delete(&object).unwrap();
        }
    }
    store.delete(&one).unwrap();
    edit(&*store, &other, |b| b.truncate(b.len() / 2));
    assert_eq!(repair(&dataset).dropped(), (2, 4));
    assert_eq!(numbers(&dataset, "train").len(), 4);
}

#[test]
fn a_dataset_whose_shards_are_all_gone_is_not_emptied_unasked() {
    for lists_too in [false, true] {
        let (store, dataset) = filled("npz/ZIP");
        for (object, _) in objects(&*store) {
            if object.file_name().ends_with(".npz") || lists_too && object.file_name() == LIST {
                store.delete(&object).unwrap();
            }
        }
        let before = objects(&*store);
        let e = dataset.plan_repair(&mut |_, _| true).unwrap_err();
        assert_eq!(e.code(), Code::NotFound);
        assert!(e.to_string().contains("none of the 5 shards"), "{e}");
        assert!(e.remedy_text().unwrap().contains("--lost-for-good"), "{e}");
        assert_eq!(objects(&*store), before);
        let gone = RepairOptions { lost_for_good: true, ..Default::default() };
        let found = dataset.plan_repair_with(&gone, &mut |_, _| true).unwrap();
        assert_eq!(found.dropped(), (5, 10));
        dataset.repair(&found).unwrap();
        dataset.check(&[], &mut |_, _| true).unwrap();
        assert_eq!(dataset.splits().iter().map(|s| s.records).sum::<u64>(), 0);
    }
    // An empty dataset, and one in which a shard is left, are none of these.
    let dataset = Dataset::create_store(Arc::new(MemoryStore::new()), info("")).unwrap();
    assert!(plan(&dataset).is_empty());
}

#[test]
fn a_shard_of_another_type_than_declared_stays_listed() {
    let structure = |dtype: &str| {
        object(json!({"shard_file_type": "npz", "compression": "ZIP", "examples_per_shard": 2,
            "saved_data_description": [{"name": "a", "dtype": dtype, "shape": [1]}], "hash_checksum_algorithms": ["sha256"]}))
    };
    let store = Arc::new(MemoryStore::new());
    let dataset = Dataset::create_store(store.clone(), Info::new(Metadata::new(), structure("float64")).unwrap()).unwrap();
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    for n in 0..4 {
        filler.append("train", &[&f64::from(n).to_le_bytes()], None).unwrap();
    }
    filler.finish().unwrap();
    let mut killed = dataset.filler(FillerOptions::default()).unwrap();
    (0..2).for_each(|_| killed.append("train", &[&9f64.to_le_bytes()], None).unwrap());
    drop(killed);
    let strange = store.get(&shard(&dataset, "train", 0)).unwrap();
    edit_json(&*store, &path(ROOT), |v| v["dataset_structure"]["saved_data_description"][0]["dtype"] = json!("float32"));
    store.create(&path("train/strange.npz"), &[&strange[..]]).unwrap();
    let dataset = Dataset::open_store(store.clone(), OpenOptions::default()).unwrap();
    let gone = shard(&dataset, "train", 1);
    let found = plan(&dataset);
    // The killed writer's record vouches for its shard; nothing does for the file.
    assert_eq!(kinds(&found), [("adopt", 2)]);
    let notes: Vec<_> = found.notes.iter().map(|n| (n.path.as_str().to_owned(), n.reason.clone())).collect();
    assert_eq!(notes.len(), 4);
    assert!(
        notes[0].1.starts_with("it stays listed") && notes[0].1.contains("'a'") && notes[0].1.contains("float64"),
        "{notes:?}"
    );
    let (place, why) = &notes[3];
    assert!(place == "train/strange.npz" && why.starts_with("not adopted") && why.contains("float64"), "{notes:?}");
    assert_eq!(found.left_out().0, 1);
    store.delete(&gone).unwrap();
    let found = plan(&dataset);
    assert_eq!(kinds(&found), [("drop", 2), ("adopt", 2)]);
    dataset.repair(&found).unwrap();
    assert_eq!(dataset.units("train").unwrap().records(), 4);
    assert!(plan(&dataset).is_empty());
}

#[test]
fn files_of_killed_writers_are_swept_and_those_of_living_ones_kept() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = Dataset::create(dir.path(), info("")).unwrap();
    fill(&dataset, "train", 0..4);
    let store = LocalStore::open(dir.path()).unwrap();
    let living = store.write_new(&path("train/living.fb")).unwrap();
    let dead = dir.path().join("train/.sigbank-tmp-1-2-3");
    std::fs::write(&dead, b"half").unwrap();
    let temporary = || -> Vec<std::path::PathBuf> {
        let all = std::fs::read_dir(dir.path().join("train")).unwrap().map(|e| e.unwrap().path());
        all.filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with(".sigbank-tmp-")).collect()
    };
    assert_eq!(temporary().len(), 2);
    assert_eq!(dataset.sweep().unwrap(), 0, "its writer may be about to lock it");
    let hour = SystemTime::now() - std::time::Duration::from_secs(3600);
    for path in temporary() {
        std::fs::File::options().append(true).open(path).unwrap().set_modified(hour).unwrap();
    }
    assert_eq!(dataset.sweep().unwrap(), 1);
    assert!(!dead.exists() && temporary().len() == 1);
    living.commit().unwrap();
    assert!(dir.path().join("train/living.fb").exists());
}
