use super::super::rewrite::tests::*;
use super::*;
use crate::error::Code;
use crate::layout::sedpack::Dataset;
use serde_json::json;

fn run(source: &Path, dest: &Path, options: RecompressOptions) -> Result<RecompressReport> {
    recompress(source, dest, &options, &mut |_, _| true)
}

fn to(compression: &str, kind: &str) -> RecompressOptions {
    RecompressOptions { compression: Some(compression.into()), shard_file_type: Some(kind.into()), ..Default::default() }
}

#[test]
fn every_form_holds_the_same_examples_in_the_same_order() {
    let dir = tempfile::tempdir().unwrap();
    let parts: &[Part<'_>] = &[("train", 0..5, 1), ("train", 5..8, 2), ("test", 8..9, -1), ("train", 9..12, 1)];
    let source = make(dir.path(), "source", json!({}), &[parts, &[("train", 12..15, -1)], &[("train", 15..16, 3)]]);
    let train = [keyed(0..5, 1), keyed(5..8, 2), keyed(9..12, 1), keyed(12..15, -1), keyed(15..16, 3)].concat();
    let before = files(&source);
    let forms = [
        ("", "fb"),
        ("GZIP", "fb"),
        ("ZSTD", "fb"),
        ("LZMA", "fb"),
        ("", "npz"),
        ("ZIP", "npz"),
        ("", "tfrec"),
        ("GZIP", "tfrec"),
    ];
    for (i, (compression, kind)) in forms.into_iter().enumerate() {
        let dest = dir.path().join(format!("dest{i}"));
        let report = run(&source, &dest, to(compression, kind)).unwrap();
        assert_eq!(values(&dest, "train"), train, "{kind} {compression}");
        assert_eq!(values(&dest, "test"), keyed(8..9, -1));
        // A change of metadata closes a shard; so does the 15th record, which has none.
        assert_eq!(counts(&dest), [("train".into(), 15, 10), ("test".into(), 1, 1)]);
        assert_eq!((report.written.records(), report.extra_files), (16, 0));
        let info = Dataset::open(&dest, Default::default()).unwrap().info();
        let field = &info.structure().schema.fields[0];
        assert_eq!((&info.metadata()["description"], &field.metadata), (&json!("source"), &object(json!({"unit": "mV"}))));
        assert!(shard(&dest, "train", 0).extension().is_some_and(|e| e == kind));
        // And back.
        let back = dir.path().join(format!("back{i}"));
        run(&dest, &back, to("LZ4", "fb")).unwrap();
        assert_eq!((values(&back, "train"), counts(&back)), (train.clone(), counts(&dest)));
    }
    assert_eq!(files(&source), before);
}

#[test]
fn shards_have_the_size_and_the_checksums_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let source = make(dir.path(), "source", json!({}), &[&[("train", 0..3, -1)], &[("train", 3..10, -1)]]);
    let dest = dir.path().join("dest");
    let options = RecompressOptions {
        examples_per_shard: Some(4),
        checksums: Some(vec!["xxh128".into(), "md5".into()]),
        threads: 3,
        ..Default::default()
    };
    let report = run(&source, &dest, options).unwrap();
    assert_eq!(values(&dest, "train"), keyed(0..10, -1));
    let dataset = Dataset::open(&dest, Default::default()).unwrap();
    let shards = dataset.shard_infos("train", 0, 9).unwrap();
    assert_eq!(shards.iter().map(|s| s.examples).collect::<Vec<_>>(), [4, 4, 2]);
    assert!(shards.iter().all(|s| s.files[0].checksums.iter().map(String::len).eq([32, 32])));
    assert_eq!(dataset.checksums().len(), 2);
    assert!(report.written.root.starts_with("xxh128:"), "{}", report.written.root);
    assert_eq!(counts(&dest), [("train".into(), 10, 3)]);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let source = make(dir.path(), "source", json!({}), &[&[("train", 0..3, -1)]]);
    for (options, words) in [
        (to("LZ4", "npz"), "'npz' shards cannot have compression 'LZ4'; they can have '', 'ZIP'"),
        (to("LZ5", "fb"), "LZ5"),
        (to("", "zarr"), "'fb', 'npz' or 'tfrec' is expected"),
        (RecompressOptions { checksums: Some(vec!["crc".into()]), ..Default::default() }, "crc"),
    ] {
        let e = run(&source, &dir.path().join("dest"), options).unwrap_err();
        assert!(e.to_string().contains(words), "{e}");
        assert_eq!(names(dir.path()), ["source"]);
    }
    let nothing = make(dir.path(), "nothing", json!({}), &[]);
    run(&nothing, &dir.path().join("dest"), to("", "fb")).unwrap();
    assert_eq!(counts(&dir.path().join("dest")), []);
    assert_eq!(run(&dir.path().join("none"), &dir.path().join("x"), to("", "fb")).unwrap_err().code(), Code::NotFound);
}

#[test]
fn what_tfrec_cannot_hold_is_told_of_the_dataset() {
    let dir = tempfile::tempdir().unwrap();
    for (dtype, found) in [("float64", "float64"), ("float", "float64"), ("bool", "bool")] {
        let described = json!({"saved_data_description": [{"name": "level", "dtype": dtype, "shape": [2]}]});
        let source = make(dir.path(), "source", described, &[]);
        let e = run(&source, &dir.path().join("dest"), to("GZIP", "tfrec")).unwrap_err();
        assert_eq!((e.code(), e.path().unwrap()), (Code::Unsupported, source.to_str().unwrap()), "{e}");
        assert!(e.message().contains("'level'") && e.message().contains(found) && e.to_string().contains("float32"), "{e}");
        assert_eq!(names(dir.path()), ["source"]);
        std::fs::remove_dir_all(source).unwrap();
    }
}

#[test]
fn recompressing_keeps_its_promises() {
    keeps_its_promises(|source, dest, progress| recompress(source, dest, &to("", "fb"), progress).map(|_| ()));
}

#[test]
fn a_kind_that_cannot_have_the_old_compression_gets_its_usual_one() {
    let dir = tempfile::tempdir().unwrap();
    let source = make(dir.path(), "source", json!({}), &[&[("train", 0..5, 1)]]);
    for (from, kind, chosen, word) in [
        ("LZ4", "npz", Some("ZIP"), "ZIP"),
        ("LZ4", "tfrec", Some("GZIP"), "GZIP"),
        ("LZ4", "fb", None, "LZ4"),
        ("", "npz", None, ""),
    ] {
        let (first, second) = (dir.path().join(format!("{kind}{from}")), dir.path().join(format!("{kind}{from}2")));
        run(&source, &first, to(from, "fb")).unwrap();
        let options = RecompressOptions { shard_file_type: Some(kind.into()), ..Default::default() };
        assert_eq!(run(&first, &second, options).unwrap().chosen_compression, chosen);
        assert_eq!(Dataset::open(&second, Default::default()).unwrap().info().structure().compression.as_str(), word);
        assert_eq!(values(&second, "train"), keyed(0..5, 1));
    }
    // One that is named is taken at its word.
    let refused = run(&source, &dir.path().join("no"), to("LZ4", "npz")).unwrap_err();
    assert_eq!(refused.code(), Code::Invalid, "{refused}");
}
