use super::super::rewrite::tests::*;
use super::*;
use crate::error::Code;
use crate::layout::sedpack::{FillerOptions, RepairOptions};
use crate::uri::RelPath;
use serde_json::json;

fn all(sources: &[&PathBuf], dest: &Path) -> Result<MergeReport> {
    merge(&sources.iter().map(|p| (*p).clone()).collect::<Vec<_>>(), dest, &MergeOptions::default(), &mut |_, _| true)
}

#[test]
fn shards_of_all_come_in_the_order_given_with_all_that_is_said_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let a = make(dir.path(), "a", json!({}), &[&[("train", 0..5, 1), ("test", 5..7, -1)], &[("train", 7..9, 2)]]);
    let b = make(dir.path(), "b", json!({"examples_per_shard": 3}), &[&[("holdout", 10..12, 4), ("train", 12..15, 5)]]);
    let dest = dir.path().join("dest");
    let report = all(&[&a, &b], &dest).unwrap();
    assert_eq!(values(&dest, "train"), [keyed(0..5, 1), keyed(7..9, 2), keyed(12..15, 5)].concat());
    assert_eq!((values(&dest, "test"), values(&dest, "holdout")), (keyed(5..7, -1), keyed(10..12, 4)));
    assert_eq!(counts(&dest), [("train".into(), 10, 5), ("test".into(), 2, 1), ("holdout".into(), 2, 1)]);
    assert_eq!((report.written.records(), report.renamed), (14, 0));
    let differing = report.differing.join("\n");
    assert!(report.differing.len() == 2 && differing.contains("description: \"b\" was left for \"a\""), "{differing}");
    assert!(differing.contains("examples_per_shard: 3 was left for 2"), "{differing}");
    // Byte by byte, under the same names.
    for (split, unit) in [("train", 3), ("test", 0)] {
        let from = shard(&a, split, unit);
        assert_eq!(std::fs::read(dest.join(from.strip_prefix(&a).unwrap())).unwrap(), std::fs::read(&from).unwrap());
    }
    let size: u64 = [(&a, "train", 0..4), (&a, "test", 0..1), (&b, "train", 0..1), (&b, "holdout", 0..1)]
        .into_iter()
        .flat_map(|(path, split, units)| units.map(move |u| shard(path, split, u).metadata().unwrap().len()))
        .sum();
    assert_eq!(report.bytes, size);
    let reversed = dir.path().join("reversed");
    let report = merge(&[b, a], &reversed, &MergeOptions { metadata_from: 1, ..Default::default() }, &mut |_, _| true).unwrap();
    assert_eq!(values(&reversed, "train"), [keyed(12..15, 5), keyed(0..5, 1), keyed(7..9, 2)].concat());
    assert!(report.differing.iter().any(|d| d.contains("\"b\" was left for \"a\"")));
    let metadata = Dataset::open(&reversed, Default::default()).unwrap().info().metadata();
    assert_eq!((&metadata["description"], &metadata["custom_metadata"]), (&json!("a"), &json!({"lab": 7})));
}

#[test]
fn the_order_holds_whatever_the_depth_and_names_that_meet_are_changed() {
    let dir = tempfile::tempdir().unwrap();
    let own = |path: &str| Some(RelPath::parse(path).unwrap());
    let fill = |path: &Path, relative_path, n: i64| {
        let dataset = Dataset::open(path, Default::default()).unwrap();
        let mut filler = dataset.filler(FillerOptions { relative_path, update_root: Some(true), ..Default::default() }).unwrap();
        let record = [vec![0; 160], n.to_le_bytes().to_vec(), b"x".to_vec()];
        filler.append("train", &record.iter().map(Vec::as_slice).collect::<Vec<_>>(), None).unwrap();
        filler.finish().unwrap();
    };
    let numbers = |path: &Path| -> Vec<i64> {
        let dataset = Dataset::open(path, Default::default()).unwrap();
        let all: Vec<u64> = (0..dataset.units("train").unwrap().records()).collect();
        let rows = crate::layout::read(&dataset, "train", &all, &[1]).unwrap();
        rows.iter().map(|r| i64::from_le_bytes(r[0].as_slice().try_into().unwrap())).collect()
    };
    // Workers of one name in both, deeper than the other shards.
    let (a, b) = (make(dir.path(), "a", json!({}), &[]), make(dir.path(), "b", json!({}), &[]));
    fill(&a, own("worker/0"), 1);
    fill(&a, None, 2);
    fill(&a, own("worker/1"), 3);
    fill(&b, None, 4);
    fill(&b, own("worker/0"), 5);
    let (of_a, of_b) = (numbers(&a), numbers(&b));
    assert_eq!((of_a.len(), of_b.len()), (3, 2));
    let dest = dir.path().join("dest");
    let report = all(&[&a, &b], &dest).unwrap();
    assert_eq!((numbers(&dest), report.renamed), ([of_a, of_b].concat(), 1));
    assert_eq!(counts(&dest), [("train".into(), 5, 5)]);
}

#[test]
fn unknown_keys_empty_splits_and_the_highest_version_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let a = make(dir.path(), "a", json!({}), &[&[("train", 0..2, 1)]]);
    let b = make(dir.path(), "b", json!({}), &[&[("train", 2..4, 1)]]);
    // Another program's words, with the checksums made anew.
    let dataset = Dataset::open(&a, Default::default()).unwrap();
    let list = shard(&a, "train", 0).parent().unwrap().join("shards_list.json");
    let mut text: Value = serde_json::from_slice(&std::fs::read(&list).unwrap()).unwrap();
    text["shard_files"][0]["camera"] = json!({"gain": 3});
    std::fs::write(&list, text.to_string()).unwrap();
    dataset.repair(&dataset.plan_repair(&mut |_, _| true).unwrap()).unwrap();
    let root = b.join("dataset_info.json");
    let mut text: Value = serde_json::from_slice(&std::fs::read(&root).unwrap()).unwrap();
    text["metadata"]["sedpack_version"] = json!("0.1.10");
    std::fs::write(&root, text.to_string()).unwrap();
    let dest = dir.path().join("dest");
    all(&[&a, &b], &dest).unwrap();
    let merged = Dataset::open(&dest, Default::default()).unwrap();
    let entry = merged.shard_infos("train", 0, 1).unwrap()[0].to_value();
    assert_eq!((&entry["camera"], &entry["custom_metadata"]["key"]), (&json!({"gain": 3}), &json!(1)));
    assert_eq!(entry["custom_metadata"]["big"].to_string(), "9007199254740993");
    assert_eq!(merged.info().metadata()["sedpack_version"], "0.1.10");
    // A split that is there and holds nothing is still there.
    let only = shard(&b, "train", 0);
    std::fs::remove_file(only).unwrap();
    let dataset = Dataset::open(&b, Default::default()).unwrap();
    let gone = RepairOptions { lost_for_good: true, ..Default::default() };
    dataset.repair(&dataset.plan_repair_with(&gone, &mut |_, _| true).unwrap()).unwrap();
    let empty = dir.path().join("empty");
    all(&[&b], &empty).unwrap();
    assert_eq!(counts(&empty), [("train".into(), 0, 0)]);
}

#[test]
fn a_difference_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let a = make(dir.path(), "a", json!({}), &[&[("train", 0..2, 1)]]);
    let attributes = |v: Value| json!({"saved_data_description": v});
    let cases = [
        (json!({"compression": "ZSTD"}), "compression is ZSTD, there it is LZ4"),
        (json!({"compression": ""}), "compression is none, there it is LZ4"),
        (json!({"hash_checksum_algorithms": ["xxh64", "sha256"]}), "hash_checksum_algorithms is xxh64, sha256"),
        (
            attributes(json!([{"name": "trace", "dtype": "int32", "shape": [41]}])),
            "attribute 0 is 'trace' int32[41], there it is 'trace' int32[40]",
        ),
        (
            attributes(json!([{"name": "trace", "dtype": "int32", "shape": [40]}, {"name": "n", "dtype": "int", "shape": []}])),
            "attribute 2 is none, there it is 'note' str",
        ),
    ];
    for (i, (changes, words)) in cases.into_iter().enumerate() {
        let b = make(dir.path(), &format!("b{i}"), changes, &[]);
        let e = all(&[&a, &b], &dir.path().join("dest")).unwrap_err();
        assert!(
            e.code() == Code::Invalid && e.message().contains(words) && e.to_string().contains("recompress") == (i < 3),
            "{e}"
        );
        assert!(e.path().unwrap().ends_with(&format!("b{i}")), "{e}");
    }
    let e = all(&[&a, &dir.path().join("../").join(dir.path().file_name().unwrap()).join("a")], &dir.path().join("dest"))
        .unwrap_err();
    assert!(e.message().contains("twice"), "{e}");
    assert!(!dir.path().join("dest").exists());
}

#[test]
fn merging_keeps_its_promises() {
    keeps_its_promises(|source, dest, progress| merge(&[source.into()], dest, &MergeOptions::default(), progress).map(|_| ()));
}

#[test]
fn a_shard_that_two_have_is_refused_taken_once_or_kept() {
    let dir = tempfile::tempdir().unwrap();
    let a = make(dir.path(), "a", json!({}), &[&[("train", 0..4, 1)]]);
    let b = make(dir.path(), "b", json!({}), &[&[("test", 0..2, 1), ("train", 8..10, 1)]]);
    let with = |name: &str, same_shards| {
        let options = MergeOptions { same_shards, ..Default::default() };
        let dest = dir.path().join(name);
        (merge(&[a.clone(), b.clone()], dest.as_path(), &options, &mut |_, _| true), dest)
    };
    let (refused, dest) = with("refused", SameShards::Refuse);
    let e = refused.unwrap_err();
    assert_eq!((e.code(), dest.exists()), (Code::Invalid, false));
    assert!(e.to_string().contains(&shard(&a, "train", 0).display().to_string()), "{e}");
    assert!(e.path().unwrap() == shard(&b, "test", 0).display().to_string(), "{e}");
    let (once, dest) = with("once", SameShards::Once);
    assert_eq!(once.unwrap().same_shards, 1);
    assert_eq!((values(&dest, "train"), values(&dest, "test")), ([keyed(0..4, 1), keyed(8..10, 1)].concat(), vec![]));
    let (kept, dest) = with("kept", SameShards::Keep);
    assert_eq!((kept.unwrap().same_shards, values(&dest, "test")), (1, keyed(0..2, 1)));
}
