//! What the reference package wrote.

use super::support::*;
use sigbank::format::record::signal::{ResourcePolicy, encode_metadata};
use sigbank::layout::signal_dataset::{Dataset, Options, Page, Place, Publication, PublishedShard, Root, Snapshot, publish};
use sigbank::layout::{Source, open};

const DATASETS: [(&str, u64); 6] =
    [("uniform", 7), ("ragged", 39), ("empty", 0), ("annotated", 5), ("view", 6), ("view of view", 2)];

/// The golden dataset below `root`, and those that it refers to.
fn unpack(root: &std::path::Path, name: &str) -> std::path::PathBuf {
    let base = root.join("uniform");
    if !base.exists() {
        write_dir(&base, &golden("uniform", ""));
    }
    let own = root.join(name);
    if !own.exists() {
        write_dir(&own, &golden(name, base.to_str().unwrap()));
    }
    own
}

#[test]
fn every_record_is_read_value_for_value() {
    let dir = tempfile::tempdir().unwrap();
    for (name, count) in DATASETS {
        let root = unpack(dir.path(), name);
        for threads in [1, 3] {
            let dataset = Dataset::open(&root, Options { threads, ..Options::default() }).unwrap();
            let expected = golden_records(name);
            assert_eq!((dataset.len(), expected.len() as u64), (count, count), "{name}");
            let all: Vec<u64> = (0..count).collect();
            let read = dataset.read(&all).unwrap();
            let said = dataset.read_metadata(&all).unwrap();
            let streamed: Vec<_> = dataset.batches(0..count).flat_map(Result::unwrap).collect();
            assert_eq!(read, streamed, "{name}");
            for (i, (document, fields)) in expected.iter().enumerate() {
                let record = dataset.record(i as u64).unwrap();
                assert_eq!(record, read[i]);
                assert_eq!(*record.metadata(), said[i]);
                assert_eq!(said[i], dataset.record_metadata(i as u64).unwrap());
                let policy = ResourcePolicy::default();
                assert_eq!(String::from_utf8(encode_metadata(&said[i], &policy).unwrap()).unwrap(), *document, "{name} {i}");
                assert_eq!(record.metadata().fields.len(), fields.len());
                for (k, field) in record.metadata().fields.iter().enumerate() {
                    assert_eq!(record.field(k), fields[&field.name], "{name} {i} {}", field.name);
                }
            }
            assert_eq!(dataset.verify(&mut |_, _| true).unwrap().records, count);
        }
    }
}

#[test]
fn root_metadata_are_exact() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&unpack(dir.path(), "uniform"), Options::default()).unwrap();
    assert_eq!((dataset.dataset_id(), dataset.snapshot_id()), ("ün 1", "v1"));
    assert_eq!(dataset.metadata().as_str(), r#"{"a":{"k":null},"z":[1,1e-07,{}],"über":"é😀"}"#);
    assert!(Dataset::open(dir.path(), Options::default()).unwrap_err().message().contains("no signal-dataset here"));
}

#[test]
fn documents_are_rendered_byte_for_byte() {
    for (name, _) in DATASETS {
        let limits = Options::default().control;
        let objects = golden(name, "/data/uniform");
        let root = Root::parse(&objects["root.json"], &limits).unwrap();
        assert_eq!(root.to_bytes(), objects["root.json"], "{name}");
        let snapshot = &objects[root.snapshot.path.as_str()];
        let parsed = Snapshot::parse(snapshot, &limits).unwrap();
        assert_eq!(parsed.to_bytes(), *snapshot, "{name}");
        for page in &parsed.manifests {
            let bytes = &objects[page.object.path.as_str()];
            assert_eq!(Page::parse(bytes, &limits, page).unwrap().to_bytes(), *bytes, "{name}");
        }
    }
}

/// Publishing the reference's shards again gives its documents.
#[test]
fn publishing_writes_the_same_documents() {
    let objects = golden("uniform", "");
    let store = memory();
    for (name, bytes) in objects.iter().filter(|(name, _)| name.starts_with("objects")) {
        store.create(&path(name), &[bytes]).unwrap();
    }
    let shard = |work_id: &str, attempt: u64, records: u64| {
        let hex = sigbank::layout::signal_dataset::Digest::of(format!("{work_id}:{attempt}").as_bytes()).to_string();
        let object = |kind: &str| sigbank::layout::signal_dataset::Reference {
            path: Place::parse(&format!("objects/{kind}/{}/{hex}.arrayrecord", &hex[..2])).unwrap(),
            stored_bytes: 131_072,
            sha256: None,
        };
        PublishedShard {
            work_id: work_id.into(),
            attempt,
            record_count: records,
            data: object("data"),
            metadata: object("metadata"),
        }
    };
    // Attempts 0 and 1 of `a` are gone: nothing asks for them.
    let shards = [shard("b", 0, 2), shard("a", 0, 4), shard("a", 2, 4), shard("a", 1, 4), shard("c", 0, 1)];
    let options = Options { compat: true, shards_per_manifest: 2, verify_record_counts: true, ..Options::default() };
    let metadata = json(r#"{"über":"é😀","z":[1,1e-07,{}],"a":{"k":null}}"#);
    let expected_work_ids = Some(["c", "b", "a"].map(String::from).to_vec());
    let publication = Publication { metadata, expected_work_ids, ..Publication::new("ün 1", "v1") };
    publish(&store, &shards, &publication, &options).unwrap();
    let written: Vec<String> = store.list(None).unwrap().map(|entry| entry.unwrap().path.to_string()).collect();
    assert_eq!(written.len(), objects.len());
    for name in written {
        assert_eq!(store.get(&path(&name)).unwrap(), objects[&name], "{name}");
    }
}

#[test]
fn views_are_written_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let base = unpack(dir.path(), "uniform");
    let options = Options { compat: true, ..Options::default() };
    let dataset = Dataset::open(&base, options.clone()).unwrap();
    let (first, second) = (memory(), memory());
    let view = dataset.select(vec![5, 0, 0, 1, 6, 2]).unwrap();
    let published = view.publish(&first, &Publication::new("view", "vs"), &options).unwrap();
    published.select(vec![4, 2]).unwrap().publish(&second, &Publication::new("again", "v"), &options).unwrap();
    for (name, store) in [("view", first), ("view of view", second)] {
        for (path, bytes) in golden(name, base.to_str().unwrap()) {
            let ours = store.get(&super::support::path(&path)).unwrap();
            assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&bytes), "{name} {path}");
        }
    }
}

#[test]
fn any_layout_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let source = open(unpack(dir.path(), "uniform").to_str().unwrap()).unwrap();
    let source: &dyn Source = &*source;
    assert_eq!(source.layout(), "signal-dataset");
    let iq = &source.schema().fields[source.schema().position("iq").unwrap()];
    assert_eq!(iq.ty.to_string(), "complex64[2, 5]");
    assert_eq!(iq.metadata["axes"][1]["coordinate"]["step"].to_string(), "1e-07");
    let label = source.schema().position("label").unwrap();
    let rows = sigbank::layout::read(source, "all", &[6, 0, 3], &[label]).unwrap();
    let labels: Vec<i32> = rows.iter().map(|row| i32::from_le_bytes(row[0].as_slice().try_into().unwrap())).collect();
    assert_eq!(labels, [6, 0, 3]);
}
