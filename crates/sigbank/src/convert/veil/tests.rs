use super::*;
use crate::layout::sedpack::{Dataset, FillerOptions, Info};
use crate::layout::{Source, read};
use crate::store::bucket::BucketStore;
use crate::store::exists;
use serde_json::json;

fn info() -> Info {
    let structure = json!({"saved_data_description": [{"name": "n", "dtype": "int", "shape": []}], "examples_per_shard": 2});
    Info::new(Default::default(), structure.as_object().unwrap().clone()).unwrap()
}

fn filled(veil: &Veil) -> Dataset {
    let dataset = Dataset::create_store(Arc::new(veil.clone()), info()).unwrap();
    for part in [0..5i64, 5..7] {
        let mut filler = dataset.filler(FillerOptions::default()).unwrap();
        part.for_each(|n| filler.append("train", &[&n.to_le_bytes()], None).unwrap());
        filler.finish().unwrap();
    }
    dataset
}

fn names(bucket: &Arc<dyn Store>) -> Vec<String> {
    let mut names: Vec<_> = bucket.list(None).unwrap().map(|e| e.unwrap().path.to_string()).collect();
    names.sort();
    names
}

fn bucket() -> Arc<dyn Store> {
    Arc::new(BucketStore::new(Arc::new(MemoryStore::new()), 1 << 20))
}

#[test]
fn a_dataset_appears_with_its_root_and_not_before() {
    let bucket = bucket();
    let veil = Veil::new(Arc::clone(&bucket), false);
    drop(filled(&veil));
    let before = names(&bucket);
    assert!(before.len() == 4 && before.iter().all(|name| name.ends_with(".fb")), "{before:?}");
    veil.lift().unwrap();
    drop(veil);
    let after = names(&bucket);
    assert!(after.contains(&ROOT.to_owned()) && before.iter().all(|name| after.contains(name)), "{after:?}");
    assert!(!after.iter().any(|name| name.starts_with(".sigbank")), "{after:?}");
    let dataset = Dataset::open_store(bucket, Default::default()).unwrap();
    let rows = read(&dataset, "train", &(0..7).collect::<Vec<_>>(), &[0]).unwrap();
    assert_eq!(rows.concat(), (0..7i64).map(|n| n.to_le_bytes().to_vec()).collect::<Vec<_>>());
    assert_eq!(dataset.verify(&mut |_, _| true).unwrap().records, 7);
    // And is filled on as any other.
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    filler.append("train", &[&7i64.to_le_bytes()], None).unwrap();
    filler.finish().unwrap();
    dataset.refresh().unwrap();
    assert_eq!(dataset.units("train").unwrap().records(), 8);
}

#[test]
fn what_failed_is_removed_unless_the_next_run_uses_it() {
    for keep in [false, true] {
        let bucket = bucket();
        let veil = Veil::new(Arc::clone(&bucket), keep);
        drop(filled(&veil));
        // Somebody still holds the store, and goes on.
        let held = veil.clone();
        veil.remove();
        assert_eq!(names(&bucket).len(), if keep { 4 } else { 0 });
        held.create(&RelPath::parse("train/late.fb").unwrap(), &[b"late"]).unwrap();
        let mut new = held.write_new(&RelPath::parse("train/later.fb").unwrap()).unwrap();
        new.write_all(b"later").unwrap();
        new.commit().unwrap();
        assert_eq!(names(&bucket).len(), if keep { 6 } else { 0 });
    }
}

#[test]
fn what_is_begun_is_removed_before_the_process_ends() {
    let bucket = bucket();
    let veil = Veil::new(Arc::clone(&bucket), false);
    drop(filled(&veil));
    // Other tests begin datasets too, in buckets of their own.
    assert!(abandon_all() >= 1);
    assert_eq!(names(&bucket).len(), 0);
}

#[test]
fn of_two_roots_that_are_about_to_be_created_one_is() {
    let splits = [&["train", "test"][..], &["holdout"]];
    for _ in 0..5 {
        let bucket = bucket();
        let veils = splits.map(|splits| {
            let veil = Veil::new(Arc::clone(&bucket), false);
            let dataset = Dataset::create_store(Arc::new(veil.clone()), info()).unwrap();
            let mut filler = dataset.filler(FillerOptions::default()).unwrap();
            splits.iter().for_each(|split| filler.append(split, &[&7i64.to_le_bytes()], None).unwrap());
            filler.finish().unwrap();
            veil
        });
        let done = std::thread::scope(|scope| {
            let all = veils.map(|veil| {
                scope.spawn(move || {
                    let done = veil.lift();
                    veil.remove();
                    done
                })
            });
            all.map(|one| one.join().unwrap())
        });
        let lost = done.iter().filter_map(|done| done.as_ref().err()).collect::<Vec<_>>();
        assert!(lost.len() == 1 && lost[0].code() == Code::AlreadyExists, "{done:?}");
        // The winner's shards, lists and root, and nothing else.
        let dataset = Dataset::open_store(Arc::clone(&bucket), Default::default()).unwrap();
        let shards = dataset.splits().len();
        assert_eq!(dataset.verify(&mut |_, _| true).unwrap().records as usize, shards);
        assert_eq!(names(&bucket).len(), 1 + shards * 5);
    }
}

#[test]
fn beside_a_dataset_of_another_layout_none_appears() {
    let bucket = bucket();
    let veil = Veil::new(Arc::clone(&bucket), false);
    drop(filled(&veil));
    bucket.create(&RelPath::parse("root.json").unwrap(), &[b"{}"]).unwrap();
    let e = veil.lift().unwrap_err();
    assert!(e.code() == Code::AlreadyExists && e.remedy_text().is_some(), "{e}");
    veil.remove();
    assert_eq!(names(&bucket), ["root.json"]);
}

#[test]
fn of_two_that_make_a_dataset_in_one_place_one_does() {
    let bucket = bucket();
    let [first, second] = [(); 2].map(|()| Veil::new(Arc::clone(&bucket), false));
    let both = [filled(&first), filled(&second)];
    drop(both);
    first.lift().unwrap();
    let e = second.lift().unwrap_err();
    assert_eq!(e.code(), Code::Conflict, "{e}");
    assert!(e.path().unwrap().ends_with(LIST) && e.remedy_text().is_some(), "{e}");
    drop((first, second));
    let dataset = Dataset::open_store(Arc::clone(&bucket), Default::default()).unwrap();
    assert_eq!(dataset.verify(&mut |_, _| true).unwrap().records, 7);
    let shards = names(&bucket).iter().filter(|name| name.ends_with(".fb")).count();
    assert_eq!(shards, 4, "those of the other are gone");
    // A dataset that came meanwhile is not replaced either.
    let third = Veil::new(Arc::clone(&bucket), false);
    drop(Dataset::create_store(Arc::new(third.clone()), info()).unwrap());
    assert_eq!(third.lift().unwrap_err().code(), Code::AlreadyExists);
    drop(third);
    assert!(exists(&*bucket, &RelPath::parse(ROOT).unwrap()).unwrap());
}
