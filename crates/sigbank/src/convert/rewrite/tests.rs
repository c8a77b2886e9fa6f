//! Datasets for the tests of merging, dividing and recompressing, and their values read back.

use super::*;
use crate::error::Code;
use crate::layout::read;
use crate::layout::sedpack::Info;
use serde_json::{Value, json};
use std::ops::Range;
use std::path::PathBuf;

pub(in crate::convert) fn object(value: Value) -> Metadata {
    value.as_object().unwrap().clone()
}

pub(in crate::convert) fn structure(changes: Value) -> Metadata {
    let mut structure = object(json!({
        "saved_data_description": [
            {"name": "trace", "dtype": "int32", "shape": [40], "custom_metadata": {"unit": "mV"}},
            {"name": "n", "dtype": "int", "shape": []},
            {"name": "note", "dtype": "str", "shape": []}
        ],
        "compression": "LZ4", "examples_per_shard": 2, "hash_checksum_algorithms": ["sha256", "xxh64"]
    }));
    structure.extend(object(changes));
    structure
}

/// Some records of one split with the key that their shards have; negative for none.
pub(in crate::convert) type Part<'a> = (&'a str, Range<i64>, i64);

/// A dataset, one session a list of parts.
pub(in crate::convert) fn make(dir: &Path, name: &str, changes: Value, sessions: &[&[Part<'_>]]) -> PathBuf {
    let path = dir.join(name);
    let info = Info::new(object(json!({"description": name, "custom_metadata": {"lab": 7}})), structure(changes)).unwrap();
    let dataset = Dataset::create(&path, info).unwrap();
    for session in sessions {
        let mut filler = dataset.filler(FillerOptions { durable: false, ..Default::default() }).unwrap();
        for (split, range, key) in *session {
            for n in range.clone() {
                let group = (*key >= 0).then(|| object(json!({"key": key, "big": 2u64.pow(53) + 1})));
                let record = record(n);
                let values: Vec<&[u8]> = record.iter().map(Vec::as_slice).collect();
                filler.append(split, &values, group.as_ref()).unwrap();
            }
        }
        filler.finish().unwrap();
    }
    path
}

fn record(n: i64) -> [Vec<u8>; 3] {
    let trace = (0..40).flat_map(|i| ((n * 31 + i) as i32).to_le_bytes()).collect();
    [trace, n.to_le_bytes().to_vec(), format!("é {n}").into_bytes()]
}

/// The number of each record of a split, whose other values it is compared with, and its shard's key.
pub(in crate::convert) fn values(path: &Path, split: &str) -> Vec<(i64, i64)> {
    let dataset = Dataset::open(path, Default::default()).unwrap();
    let units = dataset.units(split).unwrap();
    let rows = read(&dataset, split, &(0..units.records()).collect::<Vec<_>>(), &[0, 1, 2]).unwrap();
    let one = |(at, row): (usize, &Vec<Vec<u8>>)| {
        let n = i64::from_le_bytes(row[1].as_slice().try_into().unwrap());
        assert_eq!(row[..], record(n));
        let metadata = dataset.unit_metadata(split, units.locate(at as u64).unwrap().0).unwrap();
        (n, metadata.get("key").map_or(-1, |k| k.as_i64().unwrap()))
    };
    rows.iter().enumerate().map(one).collect()
}

pub(in crate::convert) fn keyed(range: impl IntoIterator<Item = i64>, key: i64) -> Vec<(i64, i64)> {
    range.into_iter().map(|n| (n, key)).collect()
}

pub(in crate::convert) fn counts(path: &Path) -> Vec<(String, u64, u64)> {
    let dataset = Dataset::open(path, Default::default()).unwrap();
    dataset.check(&[], &mut |_, _| true).unwrap();
    dataset.splits().into_iter().map(|s| (s.name, s.records, s.units)).collect()
}

/// Every file of a dataset, to see that nothing changed.
pub(in crate::convert) fn files(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut found, mut left) = (Vec::new(), vec![path.to_path_buf()]);
    while let Some(dir) = left.pop() {
        for path in std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
            if path.is_dir() { left.push(path) } else { found.push((path.clone(), std::fs::read(path).unwrap())) }
        }
    }
    found.sort();
    found
}

/// What lies in a directory, hidden names too.
pub(in crate::convert) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The path of a shard's file.
pub(in crate::convert) fn shard(path: &Path, split: &str, unit: usize) -> PathBuf {
    path.join(Dataset::open(path, Default::default()).unwrap().unit_name(split, unit).unwrap())
}

pub(in crate::convert) fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// What every command that makes a dataset from datasets promises: `run` makes `dest` from the dataset `a` (whose first train shard
/// is compared when it is read).
pub(in crate::convert) fn keeps_its_promises(run: impl Fn(&Path, &Path, &mut dyn FnMut(u64, u64) -> bool) -> Result<()>) {
    let dir = tempfile::tempdir().unwrap();
    let a = make(dir.path(), "a", json!({}), &[&[("train", 0..20, 3)]]);
    let before = files(&a);
    let dest = dir.path().join("dest");
    let refused = |e: Error, code: Code, word: &str| {
        assert!(e.code() == code && e.to_string().contains(word), "{e}");
        assert_eq!((names(dir.path()), files(&a)), (vec!["a".to_owned()], before.clone()));
    };
    // In the source, also by another way; in no folder.
    refused(run(&a, &a.join("train/new"), &mut |_, _| true).unwrap_err(), Code::Invalid, "lies in one");
    refused(run(&a, &a.join("../a/new"), &mut |_, _| true).unwrap_err(), Code::Invalid, "lies in one");
    refused(run(&a, &dir.path().join("no/dest"), &mut |_, _| true).unwrap_err(), Code::NotFound, "no");
    let e = run(&a, &a, &mut |_, _| true).unwrap_err();
    assert!(matches!(e.code(), Code::Invalid | Code::AlreadyExists), "{e}");
    // Stopped in the middle.
    let mut heard = 0;
    let stop = &mut |done, _| {
        heard += 1;
        done == 0 && heard < 2
    };
    refused(run(&a, &dest, stop).unwrap_err(), Code::Conflict, "stopped");
    // A damaged and a missing shard.
    let first = shard(&a, "train", 4);
    let bytes = std::fs::read(&first).unwrap();
    flip(&first);
    let e = run(&a, &dest, &mut |_, _| true).unwrap_err();
    assert!(
        e.code() == Code::Corrupt && e.path().is_some_and(|p| p.ends_with(first.file_name().unwrap().to_str().unwrap())),
        "{e}"
    );
    std::fs::remove_file(&first).unwrap();
    assert_eq!(run(&a, &dest, &mut |_, _| true).unwrap_err().code(), Code::NotFound);
    std::fs::write(&first, bytes).unwrap();
    assert_eq!(names(dir.path()), ["a"]);
    // Nothing is replaced.
    std::fs::write(&dest, "mine").unwrap();
    assert_eq!(run(&a, &dest, &mut |_, _| true).unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(std::fs::read(&dest).unwrap(), b"mine");
    std::fs::remove_file(&dest).unwrap();
    // And then it works, and says how far it is.
    let mut heard = Vec::new();
    run(&a, &dest, &mut |done, all| {
        heard.push((done, all));
        true
    })
    .unwrap();
    assert!(heard.is_sorted() && heard.last().is_some_and(|(done, all)| done == all), "{heard:?}");
    assert_eq!((names(dir.path()), files(&a)), (vec!["a".to_owned(), "dest".to_owned()], before));
    assert_eq!(counts(&dest).iter().map(|c| c.1).sum::<u64>(), 20);
    let other = tempfile::tempdir().unwrap();
    let e = run(other.path(), &dir.path().join("x"), &mut |_, _| true).unwrap_err();
    assert!(e.to_string().contains("no Sedpack dataset"), "{e}");
}
