//! Search in signal-datasets and Sedpack datasets, the index of the former, and what is selected as a dataset of its own.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // All of this file is test.

use sigbank::format::model::json::Json;
use sigbank::format::record::signal::{Axis, Coordinate, FieldMetadata, RecordMetadata};
use sigbank::layout::sedpack::{self, FillerOptions, Info};
use sigbank::layout::signal_dataset::{
    self, AnnotationRow, AnnotationStatus, Options, Publication, Record, ResourcePolicy, publish, publish_annotations,
    write_shard,
};
use sigbank::layout::{self, Source, read};
use sigbank::query::jbof::Keep;
use sigbank::query::{Expr, Records, Searched, Selected, Table, places};
use sigbank::store::{LocalStore, Store};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Default::default()).unwrap()
}
fn expr(text: &str) -> Expr {
    text.parse().unwrap()
}

/// A record of `n` frames at 100 + n Hz; every fifth has a further field.
fn record(n: usize) -> sigbank::Result<Record> {
    let step = Coordinate {
        start: Some(json("0.0")),
        step: Some(json(&format!("{}", 1.0 / 128.0))),
        unit: Some("s".into()),
        ..Coordinate::default()
    };
    let time = Axis { coordinate: Some(step), ..Axis::new("time", n as u64) };
    let mut fields = vec![FieldMetadata { axes: vec![time], ..FieldMetadata::new("x", "uint8".parse()?, vec![n]) }];
    let mut data = vec![vec![n as u8; n].into()];
    if n.is_multiple_of(5) {
        fields.push(FieldMetadata { axes: vec![Axis::new("pair", 2)], ..FieldMetadata::new("y", "float32".parse()?, vec![2]) });
        data.push(vec![0; 8].into());
    }
    let mut metadata = RecordMetadata::new(format!("r{n}"), fields);
    metadata.metadata = json(&format!("{{\"n\": {n}, \"by\": \"s{}\"}}", n % 3));
    Ok(Record { metadata, data })
}

fn signal(root: &Path, count: usize, options: &Options) -> signal_dataset::Dataset {
    std::fs::create_dir_all(root).unwrap();
    let store: Arc<dyn Store> = Arc::new(LocalStore::open(root).unwrap());
    let shards: Vec<_> = (0..2)
        .map(|part| {
            let half = count / 2;
            let records = (part * half..(part + 1) * half).map(record);
            write_shard(&*store, records, &format!("w{part}"), 0, options).unwrap()
        })
        .collect();
    publish(&store, &shards, &Publication::new("demo", format!("v{count}")), options).unwrap();
    signal_dataset::Dataset::open(root, options.clone()).unwrap()
}

fn ids(records: &Records, text: &str) -> Vec<String> {
    records.find(&expr(text)).unwrap().iter().map(|found| records.table().id(found.row).to_owned()).collect()
}

fn only_file(folder: &Path) -> PathBuf {
    let mut all: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all.pop().unwrap()
}

#[test]
fn records_are_found_with_and_without_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let (root, folder) = (dir.path().join("set"), dir.path().join("indices"));
    let dataset = signal(&root, 600, &Options::default());
    let read = |keep| Records::of_signal(&dataset, keep, Some(&folder)).unwrap();
    for round in 0..3 {
        let records = read(if round == 0 { Keep::Use } else { Keep::Auto });
        assert_eq!(records.index().is_some(), round > 0);
        assert_eq!(folder.exists(), round > 0);
        assert_eq!(ids(&records, "by == 's1' and n < 9 and x@length > 3"), ["r4", "r7"]);
        assert_eq!(ids(&records, "has(y) and n < 11 and y@dtype == 'float32'"), ["r0", "r5", "r10"]);
        assert_eq!(ids(&records, "x@axes == ['time'] and x@axes contains 'time' and 'time' in x@axes and n == 3"), ["r3"]);
        assert_eq!(ids(&records, "x@sample_rate == 128 and id endswith '99'"), ["r99", "r199", "r299", "r399", "r499", "r599"]);
        let found = records.find(&expr("n == 301")).unwrap();
        assert_eq!((found[0].row, found[0].first, found[0].records), (301, 301, 1));
        assert_eq!(records.unsearched(), None);
    }
    // Another dataset at the same place has another index.
    let table = Table::open(&only_file(&folder)).unwrap();
    assert_eq!((table.len(), table.is_described()), (600, true));
    std::fs::remove_dir_all(&root).unwrap();
    let smaller = signal(&root, 500, &Options::default());
    let records = Records::of_signal(&smaller, Keep::Auto, Some(&folder)).unwrap();
    assert_eq!((records.table().len(), std::fs::read_dir(&folder).unwrap().count()), (500, 2));
    // A damaged one is made anew.
    let path = records.index().unwrap().to_owned();
    std::fs::write(&path, b"PAR1 or so").unwrap();
    let again = Records::of_signal(&smaller, Keep::Auto, Some(&folder)).unwrap();
    assert_eq!(ids(&again, "n == 7"), ["r7"]);
    assert_eq!(Table::open(&path).unwrap().len(), 500);
}

#[test]
fn several_that_write_the_index_at_once_are_all_right() {
    let dir = tempfile::tempdir().unwrap();
    let (root, folder) = (dir.path().join("set"), dir.path().join("indices"));
    signal(&root, 600, &Options::default());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let dataset = signal_dataset::Dataset::open(&root, Options::default()).unwrap();
                for n in 0..5 {
                    let (records, path) = match n % 2 {
                        0 => Records::write_index(&dataset, Some(&folder)).unwrap(),
                        _ => (Records::of_signal(&dataset, Keep::Auto, Some(&folder)).unwrap(), PathBuf::new()),
                    };
                    assert_eq!(ids(&records, "n == 77 or n == 599"), ["r77", "r599"]);
                    assert!(n % 2 == 1 || Table::open(&path).is_ok());
                }
            });
        }
    });
    only_file(&folder);
}

#[test]
fn where_no_digest_tells_the_files_times_do() {
    let dir = tempfile::tempdir().unwrap();
    let (root, folder) = (dir.path().join("set"), dir.path().join("indices"));
    let options = Options { compat: true, ..Options::default() };
    let dataset = signal(&root, 500, &options);
    // Written less than a second ago: what is written now may have the same time.
    let fresh = Records::of_signal(&dataset, Keep::Auto, Some(&folder)).unwrap();
    assert!(fresh.index().is_none() && Records::write_index(&dataset, Some(&folder)).is_err());
    std::thread::sleep(std::time::Duration::from_millis(1300));
    let (_, path) = Records::write_index(&dataset, Some(&folder)).unwrap();
    assert_eq!(Records::of_signal(&dataset, Keep::Use, Some(&folder)).unwrap().index(), Some(&*path));
    let metadata = walk(&root).into_iter().find(|path| path.to_string_lossy().contains("metadata")).unwrap();
    let bytes = std::fs::read(&metadata).unwrap();
    std::fs::write(&metadata, bytes).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1300));
    assert!(Records::of_signal(&dataset, Keep::Use, Some(&folder)).unwrap().index().is_none());
}

fn walk(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_record_that_cannot_be_read_is_told_and_the_others_are_searched() {
    let dir = tempfile::tempdir().unwrap();
    let (root, folder) = (dir.path().join("set"), dir.path().join("indices"));
    signal(&root, 600, &Options::default());
    // Records of two fields count as damaged.
    let strict = ResourcePolicy { max_fields: 1, ..ResourcePolicy::default() };
    let strict = signal_dataset::Dataset::open(&root, Options { resources: strict, ..Options::default() }).unwrap();
    let records = Records::of_signal(&strict, Keep::Auto, Some(&folder)).unwrap();
    let told = records.unsearched();
    let bad = (0..600).filter(|n| strict.record_metadata(*n).is_err()).count();
    assert_eq!(bad, 120);
    assert_eq!(ids(&records, "n >= 0").len(), 600 - bad);
    assert!(told.unwrap().starts_with(&format!("{bad} records were not searched (\"#")));
    assert!(!folder.exists(), "an index would hide them");
    assert!(Records::write_index(&strict, Some(&folder)).is_err());
}

fn sedpack(root: &Path) -> sedpack::Dataset {
    let structure = serde_json::json!({"saved_data_description": [{"name": "x", "dtype": "uint8", "shape": [3]}],
        "examples_per_shard": 4, "compression": "", "hash_checksum_algorithms": ["sha256"]});
    let info = Info::new(Default::default(), structure.as_object().cloned().unwrap()).unwrap();
    let dataset = sedpack::Dataset::create(root, info).unwrap();
    for (split, device, count) in [("train", "a", 6u8), ("train", "b", 5), ("test", "a", 3)] {
        let mut filler = dataset.filler(FillerOptions::default()).unwrap();
        let said = serde_json::json!({"device": device, "rig": {"volts": 3.3}}).as_object().cloned().unwrap();
        (0..count).for_each(|n| filler.append(split, &[&[n, device.as_bytes()[0], 0]], Some(&said)).unwrap());
        filler.finish().unwrap();
    }
    dataset
}

#[test]
fn shards_of_sedpack_are_found_by_their_metadata() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("set");
    sedpack(&root);
    let source = layout::open(root.to_str().unwrap()).unwrap();
    let records = Records::of_units(&*source).unwrap();
    let count = |text: &str| records.find(&expr(text)).unwrap().iter().map(|found| found.records).sum::<u64>();
    assert_eq!((count("device == 'a'"), count("device == 'b'"), count("rig.volts > 3")), (9, 5, 14));
    assert_eq!((count("split == 'train'"), count("split != 'train' and device == 'a'"), count("x@shape == [3]")), (11, 3, 14));
    assert_eq!((count("id startswith 'test/'"), count("x@dtype == 'int8'"), count("not exists(device)")), (3, 0, 0));
    let firsts: Vec<_> = records.find(&expr("device == 'b'")).unwrap().iter().map(|found| (found.first, found.records)).collect();
    assert_eq!(firsts, [(6, 4), (10, 1)]);
}

#[test]
fn what_is_selected_is_a_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("sedpack");
    sedpack(&root);
    let whole = layout::open(root.to_str().unwrap()).unwrap();
    let (found, warnings) = places(&Searched::Sedpack(whole.clone()), &*whole, &expr("device == 'b' and devise != 3")).unwrap();
    assert!(found.values().all(Vec::is_empty) && warnings == [r#"no record has the key "devise": did you mean "device"?"#]);
    let (found, _) = places(&Searched::Sedpack(whole.clone()), &*whole, &expr("device == 'b'")).unwrap();
    let selected = Selected::new(whole.clone(), found).unwrap();
    let values = read(&selected, "train", &[4, 0], &[0]).unwrap();
    assert_eq!(values, [[vec![4, b'b', 0]], [vec![0, b'b', 0]]]);
    let splits: Vec<_> = selected.splits().into_iter().map(|split| (split.name, split.records, split.units)).collect();
    assert_eq!(splits, [("train".to_owned(), 5, 2), ("test".to_owned(), 0, 0)]);
    assert!(
        read(&selected, "train", &[5], &[0]).is_err()
            && Selected::new(whole.clone(), [("train".into(), vec![99])].into()).is_err()
    );
    assert!(Selected::new(whole.clone(), [("none".into(), vec![])].into()).is_err());
    assert_ne!(selected.root_digest().unwrap(), whole.root_digest().unwrap());

    // Some records of a unit, out of order, of which the loader gives batches.
    let root = dir.path().join("signal");
    let dataset = signal(&root, 10, &Options::default());
    let source: Arc<dyn Source> = Arc::new(dataset.source().unwrap());
    let (found, _) = places(&Searched::Signal(dataset), &*source, &expr("by == 's1' or id == 'r8'")).unwrap();
    let selected: Arc<dyn Source> = Arc::new(Selected::new(source, found).unwrap());
    assert_eq!(selected.ids("all", 0..4).unwrap(), ["r1", "r4", "r7", "r8"]);
    assert_eq!((selected.by_id("r7").unwrap(), selected.by_id("r0").is_err()), (("all".to_owned(), 2), true));
    assert!(selected.ids("all", 3..5).is_err());
    let field = selected.schema().position("x").unwrap();
    let lens: Vec<_> = read(&*selected, "all", &[3, 1, 1], &[field]).unwrap().iter().map(|row| row[0].len()).collect();
    assert_eq!(lens, [8, 4, 4]);
}

#[test]
fn annotations_are_asked_for_as_they_are_now() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = signal(&dir.path().join("set"), 10, &Options::default());
    let annotate = |name: &str, factor: u64| {
        let rows = (0..10).map(|n| {
            let status = if n == 4 { AnnotationStatus::Skipped } else { AnnotationStatus::Success };
            let values = json(&format!("{{\"snr\": {}}}", n * factor));
            Ok(AnnotationRow { values, ..AnnotationRow::new(format!("r{n}"), n, status) })
        });
        publish_annotations(&dataset, name, rows, &Default::default()).unwrap();
    };
    let found = |text: &str| {
        let records = Records::of_signal(&dataset, Keep::Ignore, None).unwrap();
        records.annotated(&dataset, &expr(text)).map(|records| ids(&records, text))
    };
    assert_eq!(found("exists(annotations)").unwrap(), Vec::<String>::new());
    annotate("quality", 2);
    annotate("odd-name", 100);
    assert_eq!(found("annotations.quality.values.snr > 13 and by == 's1'").unwrap(), ["r7"]);
    assert_eq!(found("annotations.quality.status == 'skipped'").unwrap(), ["r4"]);
    assert_eq!(found("annotations['odd-name'].values.snr == 300 and annotations.quality.values.snr == 6").unwrap(), ["r3"]);
    assert_eq!(found("exists(annotations)").unwrap().len(), 10);
    let error = found("annotations.qualty.values.snr > 13").unwrap_err();
    assert_eq!(error.code(), sigbank::Code::NotFound);
    assert!(error.to_string().contains("qualty"), "{error}");
}

#[test]
fn where_a_key_is_otherwise_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = signal(&dir.path().join("set"), 10, &Options::default());
    let rows = (0..10).map(|n| {
        let values = json(&format!("{{\"label\": \"l{n}\"}}"));
        Ok(AnnotationRow { values, ..AnnotationRow::new(format!("r{n}"), n, AnnotationStatus::Success) })
    });
    publish_annotations(&dataset, "labels", rows, &Default::default()).unwrap();
    let source = dataset.source().unwrap();
    let searched = Searched::Signal(dataset);
    let told = |text: &str| places(&searched, &source, &expr(text)).unwrap().1;
    assert_eq!(told("label == 'l3'"), [r#"no record has the key "label": annotations.labels.values.label is one"#]);
    assert_eq!(told("bye == 's1'"), [r#"no record has the key "bye": did you mean "by"?"#]);
    assert_eq!(
        told("annotations.labels.values.lable == 'l3' or annotations.labels.values.label == 'l3'"),
        [r#"no record has the key "annotations.labels.values.lable": did you mean "annotations.labels.values.label"?"#]
    );
    assert_eq!(told("annotations.labels.stat == 'x'"), [r#"no record has the key "annotations.labels.stat""#]);
    assert!(told("annotations.labels.status == 'success' and n == 3 and by == 's0' and n in ['a', 3]").is_empty());
    assert_eq!(
        told("n == '3' and by != 3"),
        [
            r#"the key "n" is compared with "3", which is a text, and all of its values are numbers: write the number without quotes"#,
            r#"the key "by" is compared with 3, which is a number, and all of its values are texts: write the number in quotes"#
        ]
    );

    let root = dir.path().join("sedpack");
    sedpack(&root);
    let whole = layout::open(root.to_str().unwrap()).unwrap();
    let field = whole.schema().fields[0].name.clone();
    let (_, told) = places(&Searched::Sedpack(whole.clone()), &*whole, &expr(&format!("{field} == 3"))).unwrap();
    let hint = "it is a field of the examples, and only the metadata of shards are searched";
    assert_eq!(told, [format!("no record has the key \"{field}\": {hint}")]);
}
