//! Every container with every compression hands out the same values, and damage is an error with a place.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // All of this file is test.

use serde_json::{Value, json};
use sigbank::Code;
use sigbank::layout::sedpack::{Dataset, FillerOptions, Info, OpenOptions};
use sigbank::layout::{Source, read};
use sigbank::loader::{Column, Loader, Options};
use sigbank::store::{Expected, MemoryStore, Store};
use sigbank::uri::RelPath;
use std::sync::Arc;

const PAIRS: [(&str, &str); 7] =
    [("fb", ""), ("fb", "LZ4"), ("npz", ""), ("npz", "ZIP"), ("tfrec", ""), ("tfrec", "GZIP"), ("tfrec", "ZLIB")];

fn object(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn create(store: &Arc<MemoryStore>, file_type: &str, compression: &str, per_shard: u64) -> sigbank::Result<Dataset> {
    let attribute = |name: &str, dtype: &str, shape: Value| json!({"name": name, "dtype": dtype, "shape": shape});
    let structure = json!({
        "saved_data_description": [
            attribute("trace", "float32", json!([700])),
            attribute("half", "float16", json!([3])),
            attribute("image", "uint8", json!([2, 5])),
            attribute("small", "int8", json!([])),
            attribute("wide", "int64", json!([2])),
            attribute("number", "int", json!([])),
            attribute("text", "str", json!([])),
            attribute("blob", "bytes", json!([])),
            attribute("fixed", "bytes", json!([4])),
        ],
        "shard_file_type": file_type, "compression": compression, "examples_per_shard": per_shard,
    });
    Dataset::create_store(store.clone(), Info::new(object(json!({})), object(structure))?)
}

fn example(n: i64) -> Vec<Vec<u8>> {
    let numbers = [5, -1, 1 << 40, i64::MIN, i64::MAX, 0];
    let texts = ["é", "", "plain", "日本\u{1f600}", "e\u{301}"];
    let blobs: [&[u8]; 4] = [b"", b"\0\0a\0", b"\xff", b"longer than the others\0"];
    let at = n as usize;
    let number = numbers[at % numbers.len()];
    vec![
        (0..700).flat_map(|i| (n as f32 * 0.5 - i as f32).to_le_bytes()).collect(),
        (0..3).flat_map(|i| (0x3c00u16 + n as u16 * 3 + i).to_le_bytes()).collect(),
        (0..10).map(|i| (n * 31 + i * 25) as u8).collect(),
        vec![(n * 77) as u8],
        [number, -number.saturating_abs()].iter().flat_map(|v| v.to_le_bytes()).collect(),
        number.to_le_bytes().to_vec(),
        texts[at % texts.len()].as_bytes().to_vec(),
        blobs[at % blobs.len()].to_vec(),
        vec![0, n as u8, 255, 0],
    ]
}

fn fill(dataset: &Dataset, range: std::ops::Range<i64>) {
    let mut filler = dataset.filler(FillerOptions { threads: 2, ..Default::default() }).unwrap();
    for n in range {
        let example = example(n);
        filler.append("train", &example.iter().map(Vec::as_slice).collect::<Vec<_>>(), None).unwrap();
    }
    filler.finish().unwrap();
}

fn all(dataset: &Dataset) -> sigbank::Result<Vec<Vec<Vec<u8>>>> {
    let records = dataset.units("train")?.records();
    read(dataset, "train", &(0..records).collect::<Vec<_>>(), &(0..9).collect::<Vec<_>>())
}

#[test]
fn every_container_gives_what_it_was_given() {
    for (file_type, compression) in PAIRS {
        let store = Arc::new(MemoryStore::new());
        let dataset = create(&store, file_type, compression, 6).unwrap();
        fill(&dataset, 0..20);
        fill(&dataset, 20..23);
        let dataset = Dataset::open_store(store, OpenOptions::default()).unwrap();
        let expected: Vec<_> = (0..23).map(example).collect();
        assert_eq!(all(&dataset).unwrap(), expected, "{file_type} {compression}");
        let done = dataset.check(&[], &mut |_, _| true).unwrap();
        assert_eq!((done.units, done.records), (5, 23));
        // Some records in the caller's order, some fields.
        let some = read(&dataset, "train", &[22, 7, 7, 0], &[6, 0]).unwrap();
        for (row, n) in some.iter().zip([22, 7, 7, 0]) {
            assert_eq!(*row, [example(n)[6].clone(), example(n)[0].clone()]);
        }
        let loader = Loader::new(Arc::new(dataset), Options { threads: 2, ..Options::new("train", 5) }).unwrap();
        let mut n = 0;
        for batch in loader {
            let batch = batch.unwrap();
            let (Column::Fixed(traces), Column::Var(texts)) = (&batch.columns[0], &batch.columns[6]) else { panic!("columns") };
            for row in 0..batch.rows {
                assert_eq!(traces[row * 2800..(row + 1) * 2800], example(n)[0], "{file_type} {compression} {n}");
                assert_eq!(texts[row], example(n)[6]);
                n += 1;
            }
        }
        assert_eq!(n, 23);
    }
}

#[test]
fn a_damaged_shard_never_passes_a_check_and_reading_it_ends() {
    for (file_type, compression) in PAIRS {
        let store = Arc::new(MemoryStore::new());
        let dataset = create(&store, file_type, compression, 3).unwrap();
        fill(&dataset, 0..3);
        let path = RelPath::parse(&dataset.unit_name("train", 0).unwrap()).unwrap();
        let whole = store.get(&path).unwrap();
        let mut seen = 0;
        let mut damaged = |bytes: &[u8]| {
            store.replace(&path, &[bytes], Expected::Any).unwrap();
            let dataset = Dataset::open_store(store.clone(), OpenOptions::default()).unwrap();
            let checked = dataset.check(&[], &mut |_, _| true).unwrap_err();
            assert_eq!(checked.code(), Code::Corrupt, "{file_type} {compression}: {checked}");
            if let Err(e) = all(&dataset) {
                assert!(e.path().is_some_and(|p| p.contains("train/")), "{e}");
                seen += 1;
            }
        };
        for cut in (0..whole.len()).step_by(whole.len() / 60 + 1) {
            damaged(&whole[..cut]);
        }
        for at in (0..whole.len()).step_by(whole.len() / 300 + 1) {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 1 << (at % 8);
            damaged(&bytes);
        }
        assert!(seen >= 40, "{file_type} {compression}: {seen} were noticed while reading");
    }
}

#[test]
fn a_shard_with_other_counts_than_its_list_says_is_refused() {
    for (file_type, compression) in PAIRS {
        let (store, other) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
        let dataset = create(&store, file_type, compression, 3).unwrap();
        fill(&dataset, 0..3);
        let longer = create(&other, file_type, compression, 4).unwrap();
        fill(&longer, 0..4);
        let place = |d: &Dataset| RelPath::parse(&d.unit_name("train", 0).unwrap()).unwrap();
        store.replace(&place(&dataset), &[&other.get(&place(&longer)).unwrap()], Expected::Any).unwrap();
        let found = all(&Dataset::open_store(store, OpenOptions::default()).unwrap()).unwrap_err();
        assert_eq!(found.code(), Code::Corrupt);
        assert!(found.to_string().contains('3') && found.to_string().contains('4'), "{file_type} {compression}: {found}");
    }
}

#[test]
fn what_a_container_cannot_hold_is_refused_when_the_dataset_is_made() {
    let structure = |file_type: &str, dtype: &str| {
        object(json!({
            "saved_data_description": [{"name": "trace", "dtype": dtype, "shape": [4]}],
            "shard_file_type": file_type, "compression": "",
        }))
    };
    for dtype in ["float64", "int16", "uint16", "uint32", "uint64", "bool", "complex64", "S5"] {
        let info = Info::new(object(json!({})), structure("tfrec", dtype)).unwrap();
        let refused = Dataset::create_store(Arc::new(MemoryStore::new()), info).unwrap_err();
        assert!(matches!(refused.code(), Code::Unsupported | Code::Invalid), "{refused}");
        assert!(refused.to_string().contains("'trace'") && refused.to_string().contains(dtype), "{refused}");
        let info = Info::new(object(json!({})), structure("npz", dtype)).unwrap();
        Dataset::create_store(Arc::new(MemoryStore::new()), info).unwrap();
    }
    // The reference reads no other word for a dtype.
    for (word, full) in [("<f4", "float32"), ("B", "uint8"), ("half", "float16"), (">f4", "float32")] {
        let info = Info::new(object(json!({})), structure("tfrec", word)).unwrap();
        let refused = Dataset::create_store(Arc::new(MemoryStore::new()), info).unwrap_err().to_string();
        assert!(refused.contains("'trace'") && refused.contains(&format!("'{word}'")) && refused.contains(full), "{refused}");
    }
    let store = Arc::new(MemoryStore::new());
    let dataset = create(&store, "npz", "", 3).unwrap();
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    let mut bad = example(0);
    bad[6] = b"ends in NUL\0".to_vec();
    let refused = filler.append("train", &bad.iter().map(Vec::as_slice).collect::<Vec<_>>(), None).unwrap_err();
    assert!(refused.to_string().contains("'text'"), "{refused}");
    filler.append("train", &example(1).iter().map(Vec::as_slice).collect::<Vec<_>>(), None).unwrap();
    filler.finish().unwrap();
    assert_eq!(all(&dataset).unwrap(), [example(1)]);
}
