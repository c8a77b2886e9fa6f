//! Shards.

use super::support::*;
use sigbank::layout::signal_dataset::{Options, Record, write_shard};
use sigbank::store::{MemoryStore, Store};
use sigbank::{Code, Error};

fn all_objects(store: &dyn Store) -> Vec<(String, Vec<u8>)> {
    let names = store.list(None).unwrap().map(|entry| entry.unwrap().path);
    names.map(|name| (name.to_string(), store.get(&name).unwrap().to_vec())).collect()
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let write = |threads: usize| {
        let store = MemoryStore::new();
        let options = Options { threads, ..Options::default() };
        let shard = write_shard(&store, records(0..1500), "w", 3, &options).unwrap();
        (shard, all_objects(&store))
    };
    let one = write(1);
    assert_eq!((one.0.record_count, one.1.len()), (1500, 2));
    assert_eq!(one.0.data.stored_bytes, one.1[0].1.len() as u64);
    assert_eq!(one.0.data.sha256, Some(sigbank::layout::signal_dataset::Digest::of(&one.1[0].1)));
    for threads in [2, 5] {
        assert_eq!(write(threads), one);
    }
}

#[test]
fn writing_again_is_safe() {
    let store = MemoryStore::new();
    let first = write_shard(&store, records(0..300), "w", 0, &options()).unwrap();
    let before = all_objects(&store);
    assert_eq!(write_shard(&store, records(0..300), "w", 0, &options()).unwrap(), first);
    // Only one of the two objects was there.
    store.delete(&path(first.metadata.path.as_str())).unwrap();
    assert_eq!(write_shard(&store, records(0..300), "w", 0, &options()).unwrap(), first);
    // The same records compressed otherwise are the same records.
    let compression = sigbank::format::container::arrayrecord::Compression::None;
    let other = Options { compression, ..options() };
    assert_eq!(write_shard(&store, records(0..300), "w", 0, &other).unwrap(), first);
    assert_eq!(all_objects(&store), before);
}

#[test]
fn a_work_id_is_for_one_set_of_records() {
    let store = MemoryStore::new();
    write_shard(&store, records(0..30), "w", 0, &options()).unwrap();
    let before = all_objects(&store);
    for (range, word) in [(0..29, "30 were written then, 29 now"), (1..31, "not the same"), (0..0, "30 were written then, 0 now")]
    {
        let e = write_shard(&store, records(range), "w", 0, &options()).unwrap_err();
        assert_eq!(e.code(), Code::AlreadyExists);
        assert!(
            e.to_string().contains(word) && e.to_string().contains("'w'") && e.path().unwrap().contains("objects/data"),
            "{e}"
        );
    }
    // Only what is said of a record differs.
    let other = records(0..30).map(|r| {
        let mut record: Record = r?;
        record.metadata.metadata = json("{}");
        Ok(record)
    });
    assert_eq!(write_shard(&store, other, "w", 0, &options()).unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(all_objects(&store), before);
    // Another attempt has objects of its own.
    write_shard(&store, records(0..29), "w", 1, &options()).unwrap();
    assert_eq!(all_objects(&store).len(), 4);
}

#[test]
fn what_fails_writes_nothing_and_names_the_record() {
    for threads in [1, 2] {
        let store = MemoryStore::new();
        let options = Options { threads, ..Options::default() };
        let broken = |at: u64| {
            (0..2000).map(move |i| {
                let mut record = record(i);
                if i == at {
                    record.metadata.fields[0].shape = vec![2, 21];
                }
                Ok(record)
            })
        };
        for at in [0, 777, 1999] {
            let e = write_shard(&store, broken(at), "w", 0, &options).unwrap_err();
            assert_eq!(e.code(), Code::Invalid);
            assert!(e.message().contains(&format!("record {at}: ")) && e.message().contains(&format!("r{at}")), "{e}");
        }
        let ended = records(0..700).chain([Err(Error::storage("the disk of the recorder"))]).chain(records(0..9));
        let e = write_shard(&store, ended, "w", 0, &options).unwrap_err();
        assert!(e.message().contains("the disk of the recorder"));
        let few = Options { max_records_per_shard: Some(10), ..options.clone() };
        assert_eq!(write_shard(&store, records(0..11), "w", 0, &few).unwrap_err().code(), Code::Limit);
        let small = Options { max_encoded_shard_bytes: Some(1000), ..options.clone() };
        assert_eq!(write_shard(&store, records(0..11), "w", 0, &small).unwrap_err().code(), Code::Limit);
        assert_eq!(write_shard(&store, records(0..1), "", 0, &options).unwrap_err().code(), Code::Invalid);
        assert_eq!(all_objects(&store), []);
        write_shard(&store, records(0..10), "w", 0, &few).unwrap();
    }
}
