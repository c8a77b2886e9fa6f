use crate::layout::sedpack::{Dataset, FillerOptions, Info, OpenOptions, ROOT, ShardInfo, ShardsList};
use crate::store::{Expected, MemoryStore, Store};
use crate::uri::RelPath;
use crate::{Code, Error};
use serde_json::{Value, json};
use sigbank_format::checksum::{Algorithm, digest_all};
use sigbank_format::model::Metadata;
use std::sync::Arc;

fn object(value: Value) -> Metadata {
    value.as_object().unwrap().clone()
}

/// 40 shards of one record in `train`, 3 in `test`.
fn filled(len: usize) -> (Arc<MemoryStore>, Dataset) {
    let structure = json!({
        "saved_data_description": [{"name": "a", "dtype": "uint8", "shape": [len]}], "compression": "",
        "examples_per_shard": 1, "hash_checksum_algorithms": ["sha256", "xxh64"]
    });
    let store = Arc::new(MemoryStore::new());
    let dataset = Dataset::create_store(store.clone(), Info::new(Metadata::new(), object(structure)).unwrap()).unwrap();
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    (0..43).for_each(|n| filler.append(if n < 40 { "train" } else { "test" }, &[&vec![n; len]], None).unwrap());
    filler.finish().unwrap();
    (store, dataset)
}

fn sums(bytes: &[u8]) -> Vec<String> {
    digest_all(&[Algorithm::Sha256, Algorithm::Xxh64], &[bytes])
}

/// Changes the leaf list of a split and every pointer above it, so that all checksums and counts fit.
fn change_leaf(store: &dyn Store, split: &str, change: impl FnOnce(&mut ShardsList)) {
    let read = |path: &RelPath| ShardsList::parse(path, &store.get(path).unwrap()).unwrap();
    let mut path = RelPath::parse(split).unwrap().join("shards_list.json").unwrap();
    let mut above = Vec::new();
    while let Some(child) = read(&path).children.first().cloned() {
        above.push(path);
        path = child.file.path;
    }
    let mut list = read(&path);
    change(&mut list);
    loop {
        let bytes = list.render().unwrap();
        store.replace(&list.path, &[&bytes], Expected::Any).unwrap();
        let pointer = list.pointer(sums(&bytes));
        let Some(parent) = above.pop() else {
            let root = RelPath::parse(ROOT).unwrap();
            let mut info: Value = serde_json::from_slice(&store.get(&root).unwrap()).unwrap();
            info["splits"][split] = pointer.to_value();
            store.replace(&root, &[info.to_string().as_bytes()], Expected::Any).unwrap();
            return;
        };
        list = read(&parent);
        list.set_child(pointer);
    }
}

fn check(store: &Arc<MemoryStore>) -> Result<u64, Error> {
    Dataset::open_store(store.clone(), OpenOptions::default())?.check(&[], &mut |_, _| true).map(|done| done.units)
}

#[test]
fn a_shard_that_is_listed_twice_is_named() {
    for (split, at) in [("train", 0), ("train", 39), ("test", 1)] {
        let (store, dataset) = filled(9);
        assert_eq!(check(&store).unwrap(), 43);
        let shard: ShardInfo = dataset.shard_infos(split, at, at + 1).unwrap().remove(0);
        change_leaf(&*store, "test", |list| list.shards.push(shard.clone()));
        let e = check(&store).unwrap_err();
        assert_eq!(e.code(), Code::Corrupt, "{e}");
        assert!(e.path().unwrap().ends_with(shard.path().unwrap().as_str()), "{e}");
        assert!(e.to_string().contains("listed twice, the second time in split 'test'"), "{e}");
    }
}

#[test]
fn every_checksum_of_every_file_is_compared() {
    let (store, dataset) = filled(9);
    let mut shard = dataset.shard_infos("train", 7, 8).unwrap().remove(0);
    shard.files[0].checksums[1] = "0".repeat(16);
    let shard = ShardInfo::new(shard.files[0].clone(), 1, Metadata::new());
    change_leaf(&*store, "train", |list| list.shards[7] = shard.clone());
    let e = check(&store).unwrap_err();
    assert!(e.path().unwrap().ends_with(shard.path().unwrap().as_str()), "{e}");
    assert!(e.to_string().contains("xxh64 0000000000000000 is expected"), "{e}");
    // Of a list, too, though one is enough to read by.
    let (store, dataset) = filled(9);
    let root = RelPath::parse(ROOT).unwrap();
    let mut info: Value = serde_json::from_slice(&store.get(&root).unwrap()).unwrap();
    info["splits"]["train"]["shard_list_info_file"]["hash_checksums"][1] = json!("0".repeat(16));
    store.replace(&root, &[info.to_string().as_bytes()], Expected::Any).unwrap();
    dataset.refresh().unwrap();
    assert_eq!(dataset.shard_infos("train", 0, 99).unwrap().len(), 40);
    let e = check(&store).unwrap_err();
    assert!(e.path().unwrap().ends_with("train/shards_list.json") && e.to_string().contains("xxh64"), "{e}");
}

#[test]
fn small_and_large_shards_are_compared_whole() {
    for len in [9, (64 << 10) - 200, 64 << 10, 1 << 20, (2 << 20) + 5] {
        let (store, dataset) = filled(len);
        assert_eq!(check(&store).unwrap(), 43);
        let shard = dataset.shard_infos("test", 2, 3).unwrap()[0].path().unwrap().clone();
        let whole = store.get(&shard).unwrap();
        for at in [0, whole.len() / 2, whole.len() - 1] {
            let mut changed = whole.to_vec();
            changed[at] ^= 1;
            store.replace(&shard, &[&changed], Expected::Any).unwrap();
            let e = check(&store).unwrap_err();
            assert!(e.code() == Code::Corrupt && e.path().unwrap().ends_with(shard.as_str()), "{len}, {at}: {e}");
        }
        store.replace(&shard, &[&whole], Expected::Any).unwrap();
    }
}

#[test]
fn a_check_tells_how_far_it_is_and_can_be_stopped() {
    let (_, dataset) = filled(9);
    let mut told = Vec::new();
    let done = dataset.check(&[], &mut |done, all| {
        told.push((done, all));
        true
    });
    assert_eq!((done.unwrap().units, told.first(), told.last()), (43, Some(&(0, 43)), Some(&(43, 43))));
    assert!(told.is_sorted());
    for stop in [0, 1, 20] {
        let e = dataset.check(&[], &mut |done, _| done < stop).unwrap_err();
        assert!(e.code() == Code::Conflict && e.to_string().contains("stopped before its end"), "{e}");
    }
}

#[test]
fn every_shard_at_fault_is_named_and_of_very_many_the_first() {
    let (store, dataset) = filled(9);
    let paths: Vec<RelPath> =
        dataset.shard_infos("train", 0, 40).unwrap().iter().map(|shard| shard.files[0].path.clone()).collect();
    let whole = check(&store).unwrap();
    store.delete(&paths[3]).unwrap();
    let alone = check(&store).unwrap_err();
    assert!(alone.code() == Code::NotFound && alone.path().unwrap().ends_with(paths[3].as_str()), "{alone}");
    assert!(!alone.to_string().contains("at fault"), "{alone}");
    store.replace(&paths[20], &[b"other"], Expected::Any).unwrap();
    store.replace(&paths[30], &[b"others"], Expected::Any).unwrap();
    let e = check(&store).unwrap_err();
    let text = e.to_string();
    assert!(text.contains("3 shards are at fault") && !text.contains(" more"), "{e}");
    assert!([3, 20, 30].iter().all(|&at| text.matches(paths[at].as_str()).count() == 1), "{e}");
    assert!(text.contains("sha256") && e.remedy_text().is_some(), "{e}");
    paths.iter().for_each(|path| drop(store.replace(path, &[b"nothing"], Expected::Any).unwrap()));
    let text = check(&store).unwrap_err().to_string();
    assert!(text.contains("40 shards are at fault") && text.contains("; and 20 more)"), "{text}");
    assert_eq!((whole, text.matches(".fb").count()), (43, 20));
}
