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
        drop(veil);
        let wanted = if keep { 4 } else { 0 };
        // A thread of the filler may let go of the store a moment later.
        for _ in 0..1000 {
            if names(&bucket).len() == wanted {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(names(&bucket).len(), wanted);
    }
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
