//! `sigbank publish` of datasets, further versions, and `sigbank snapshots`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use common::{Bench, floats, npy, samples, wav};
use serde_json::{Value, json};
use sigbank::layout::signal_dataset::{Dataset, StoredRecord};
use std::collections::BTreeMap;
use std::path::Path;

/// A command with `--json`, asserted to succeed.
#[track_caller]
fn told(bench: &Bench, args: &[&str]) -> Value {
    let said = bench.run(&[args, &["--json"]].concat());
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    said.json()
}

fn open(bench: &Bench, name: &str) -> Dataset {
    Dataset::open(&bench.path(name), Default::default()).unwrap()
}

fn all(dataset: &Dataset) -> Vec<StoredRecord> {
    (0..dataset.len()).map(|i| dataset.record(i).unwrap()).collect()
}

fn ids(dataset: &Dataset) -> Vec<String> {
    all(dataset).iter().map(|r| r.metadata().id.clone()).collect()
}

/// Datasets `a` (four records in two shards) and `b` (one).
fn two(bench: &Bench) {
    for name in ["a1", "a2", "a3", "a4", "b1"] {
        let (folder, number) = name.split_at(1);
        bench.write(&format!("{folder}/{name}.wav"), wav(&samples(number.parse().unwrap(), 300), 1, 8000));
    }
    told(bench, &["publish", "in/a", "a", "--records-per-shard", "2", "--metadata", "site=roof"]);
    told(bench, &["publish", "in/b", "b"]);
}

/// Every file below a folder.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut left) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn signal_datasets_become_one_byte_for_byte() {
    let bench = Bench::new();
    two(&bench);
    let report = told(&bench, &["publish", "a", "b", "both", "--metadata", "n=2"]);
    let keys = ["records", "shards", "copied_shards", "dataset_id", "snapshot_id", "version"].map(|k| report[k].clone());
    assert_eq!(json!(keys), json!([5, 3, 3, "both", "v0", null]));
    assert_eq!(report["sources"][1], json!({"path": "b", "layout": "signal-dataset", "records": 1, "annotations_left": []}));
    let both = open(&bench, "both");
    let before = [all(&open(&bench, "a")), all(&open(&bench, "b"))].concat();
    assert_eq!(all(&both), before);
    assert_eq!(ids(&both), ["a1", "a2", "a3", "a4", "b1"]);
    assert_eq!(both.metadata().as_str(), r#"{"n":"2"}"#);
    assert_eq!(both.verify(&mut |_, _| true).unwrap().records, 5);
    assert_eq!(report["root"], format!("sha256:{}", both.root_digest()));
    let shards = |name| {
        let mut all: Vec<_> =
            files(&bench.path(name)).into_iter().filter(|(n, _)| n.ends_with("arrayrecord")).map(|f| f.1).collect();
        all.sort();
        all
    };
    let mut copied = [shards("a"), shards("b")].concat();
    copied.sort();
    assert_eq!(shards("both"), copied);
    // One alone keeps what is said of it.
    told(&bench, &["publish", "a", "alone", "--metadata", "n=1"]);
    assert_eq!(open(&bench, "alone").metadata().as_str(), r#"{"n":"1","site":"roof"}"#);
    assert_eq!(bench.left().len(), 4);
}

#[test]
fn ids_that_two_datasets_have() {
    let bench = Bench::new();
    two(&bench);
    std::fs::create_dir(bench.path("old")).unwrap();
    std::fs::rename(bench.path("a"), bench.path("old/a")).unwrap();
    told(&bench, &["publish", "old/a", "a"]);
    bench.run(&["publish", "a", "old/a", "out"]).refused(&["the id 'a1' stands in two datasets, a and old/a", "--prefix-ids"]);
    bench.run(&["publish", "a", "old/a", "out", "--prefix-ids"]).refused(&["different names"]);
    std::fs::rename(bench.path("a"), bench.path("c")).unwrap();
    let report = told(&bench, &["publish", "c", "old/a", "out", "--prefix-ids", "--records-per-shard", "3"]);
    assert_eq!(json!([report["records"], report["copied_shards"]]), json!([8, 0]));
    let out = open(&bench, "out");
    assert_eq!(ids(&out), ["c/a1", "c/a2", "c/a3", "c/a4", "a/a1", "a/a2", "a/a3", "a/a4"]);
    for (record, was) in all(&out).iter().zip(all(&open(&bench, "c"))) {
        assert_eq!((record.field(0), &record.metadata().fields), (was.field(0), &was.metadata().fields));
        assert_eq!(record.metadata().metadata, was.metadata().metadata);
    }
    assert_eq!(out.verify(&mut |_, _| true).unwrap().records, 8);
}

#[test]
fn by_reference_nothing_is_copied() {
    let bench = Bench::new();
    two(&bench);
    let report = told(&bench, &["publish", "a", "b", "both", "--by-reference"]);
    assert_eq!(json!([report["records"], report["shards"], report["copied_shards"]]), json!([5, 3, 0]));
    let both = open(&bench, "both");
    assert_eq!(all(&both), [all(&open(&bench, "a")), all(&open(&bench, "b"))].concat());
    assert_eq!(both.metadata().as_str(), r#"{"reference_dataset":true}"#);
    assert!(files(&bench.path("both")).keys().all(|name| name.ends_with(".json")));
    assert_eq!(both.verify(&mut |_, _| true).unwrap().records, 5);
    // A copy of it stands alone again.
    told(&bench, &["publish", "both", "copy"]);
    std::fs::remove_dir_all(bench.path("a")).unwrap();
    std::fs::remove_dir_all(bench.path("b")).unwrap();
    let copy = open(&bench, "copy");
    assert_eq!(
        (ids(&copy), copy.metadata().as_str()),
        (vec!["a1".into(), "a2".into(), "a3".into(), "a4".into(), "b1".into()], "{}")
    );
    assert_eq!(copy.verify(&mut |_, _| true).unwrap().records, 5);
}

#[test]
fn annotations_stay_behind_and_are_told() {
    let bench = Bench::new();
    two(&bench);
    bench.write("labels.jsonl", "{\"id\":\"b1\",\"label\":3}\n");
    told(&bench, &["annotate", "b", "labels", "in/labels.jsonl"]);
    let said = bench.run(&["publish", "a", "b", "both"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert!(said.out.contains("left out: annotations of b: labels"), "{}", said.out);
    // By reference those of a single one go along.
    let report = told(&bench, &["publish", "b", "view", "--by-reference"]);
    assert_eq!(report["sources"][0]["annotations_left"], json!([]));
    let set = open(&bench, "view").annotations().unwrap().open("labels").unwrap();
    assert_eq!(set.row(0).unwrap().values.as_str(), r#"{"label":3}"#);
}

#[test]
fn sedpack_examples_become_records() {
    let bench = Bench::new();
    for i in 0..5 {
        bench.write(&format!("{i}.wav"), wav(&samples(i, 400), 2, 8000));
    }
    bench.packed(&["--window", "100", "--split", "train=0.6,test=0.4"]);
    told(&bench, &["publish", "out", "signals", "--axes", "time,channel", "--records-per-shard", "3"]);
    let dataset = open(&bench, "signals");
    let source = bench.open();
    let mut expected = Vec::new();
    for split in source.splits() {
        expected.extend(
            bench
                .records(&split.name)
                .into_iter()
                .enumerate()
                .map(|(n, row)| (format!("{}/{n}", split.name), split.name.clone(), row)),
        );
    }
    assert_eq!(dataset.len(), expected.len() as u64);
    assert!(dataset.len() == 10 && dataset.snapshot().shard_count == 4);
    for (record, (id, split, (signal, start, file, rate))) in all(&dataset).iter().zip(expected) {
        let said = record.metadata();
        assert_eq!(said.id, id);
        let (names, axes): (Vec<_>, Vec<_>) = said
            .fields
            .iter()
            .map(|f| (f.name.as_str(), f.axes.iter().map(|a| (a.name.as_str(), a.length)).collect::<Vec<_>>()))
            .unzip();
        assert_eq!(names, ["sample_rate", "signal", "start"]);
        assert_eq!(axes, [vec![("dim_0", 1)], vec![("time", 100), ("channel", 2)], vec![("dim_0", 1)]]);
        assert_eq!(
            [0, 1, 2].map(|n| record.field(n).to_vec()),
            [rate.to_le_bytes().to_vec(), signal, start.to_le_bytes().to_vec()]
        );
        let metadata = said.metadata.to_value().unwrap();
        assert_eq!(metadata["split"], split);
        assert_eq!(metadata["values"], json!({ "source": file }));
    }
    dataset.verify(&mut |_, _| true).unwrap();
    // Two of them have the same ids; and what is published stands beside a signal-dataset.
    std::fs::create_dir(bench.path("b")).unwrap();
    bench.run(&["publish", "out", "signals", "x"]).refused(&["the id 'test/0' stands in two datasets"]);
    let report = told(&bench, &["publish", "out", "signals", "x", "--prefix-ids"]);
    assert_eq!(report["records"], 20);
    assert_eq!(ids(&open(&bench, "x"))[..1], ["out/test/0"]);
    bench.run(&["publish", "out", "y", "--axes", "a,b,c"]).refused(&["3 axes are named (a, b, c), and no field has as many"]);
    bench.run(&["publish", "out", "y", "--axes", "noise=a"]).refused(&["a field 'noise', which is not there", "signal"]);
    bench.run(&["publish", "out", "y", "--axes", "signal=a"]).refused(&["1 axes are named (a), but it has 2"]);
    bench.run(&["publish", "out", "y", "--by-reference"]).refused(&["Sedpack"]);
    assert!(!bench.path("y").exists());
    // Without names, the axes are numbered.
    told(&bench, &["publish", "out", "z"]);
    let names: Vec<_> = open(&bench, "z").record(0).unwrap().metadata().fields[1].axes.iter().map(|a| a.name.clone()).collect();
    assert_eq!(names, ["dim_0", "dim_1"]);
}

#[test]
fn a_damaged_source_leaves_nothing_behind() {
    let bench = Bench::new();
    two(&bench);
    bench.write("c.wav", wav(&samples(9, 400), 1, 8000));
    assert_eq!(bench.run(&["pack", "in/c.wav", "out", "--window", "100"]).code, 0);
    for (source, ending) in [("a", "arrayrecord"), ("out", "fb")] {
        let name = files(&bench.path(source)).into_keys().find(|name| name.ends_with(ending)).unwrap();
        let path = bench.path(source).join(&name);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.len() - 70;
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        bench.run(&["publish", "b", source, "both"]).refused(&[&name]);
        assert!(!bench.path("both").exists());
    }
    assert_eq!(bench.left().len(), 3);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let bench = Bench::new();
    two(&bench);
    bench
        .run(&["publish", "a", "in/b", "x"])
        .refused(&["datasets and folders of recordings", "a is a dataset, and in/b is none"]);
    bench.run(&["publish", "a", "x", "--window", "10"]).refused(&["--window is for recordings"]);
    bench.run(&["publish", "a", "x", "--axes", "time"]).refused(&["whose records have theirs already"]);
    bench.run(&["publish", "in/a", "x", "--by-reference"]).refused(&["--by-reference is for datasets"]);
    bench.run(&["publish", "a", "x", "--as-files"]).refused(&["--as-files is for recordings"]);
    bench.run(&["publish", "a", "b"]).refused(&["exists", "--as-version NAME"]);
    bench.run(&["publish", "in/a", "b"]).refused(&["exists", "--as-version NAME"]);
    for usage in [["--by-reference", "--prefix-ids"].as_slice(), &["--append"], &["--as-version", "v", "--snapshot-id", "s"]] {
        assert_eq!(bench.run(&[&["publish", "a", "x"], usage].concat()).code, 2, "{usage:?}");
    }
    bench
        .run(&["publish", "in/a", "nothing", "--as-version", "v2"])
        .refused(&["there is no signal-dataset here", "without --as-version first"]);
    assert!(!bench.path("x").exists() && !bench.path("nothing").exists());
}

#[test]
fn a_further_version_of_recordings_is_listed_and_compared() {
    let bench = Bench::new();
    two(&bench);
    let before = files(&bench.path("a"));
    for i in 5..8 {
        bench.write(&format!("more/a{i}.wav"), wav(&samples(i, 300), 1, 8000));
    }
    bench.write("more/a8.npy", npy("float32", &[4], &[0; 16]));
    let report = told(&bench, &["publish", "in/more", "a", "--as-version", "june", "--append", "--metadata", "n=8"]);
    let keys = ["records", "dataset_id", "snapshot_id", "version"].map(|k| report[k].clone());
    assert_eq!(json!(keys), json!([4, "a", "june", 1]));
    let said = bench.run(&["publish", "b", "a", "--as-version", "only b"]);
    assert_eq!(said.err, "");
    assert!(said.out.contains("1 record in 1 shard") && said.out.contains("version 2 of a, only b"), "{}", said.out);

    let after = files(&bench.path("a"));
    assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes)));
    assert_eq!(ids(&open(&bench, "a")), ["a1", "a2", "a3", "a4"]);
    let version = |text: &str| open(&bench, "a").version(&text.parse().unwrap()).unwrap();
    assert_eq!(ids(&version("june")), ["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"]);
    assert_eq!((ids(&version("latest")), version("2").metadata().as_str()), (vec!["b1".into()], r#"{"n":"8"}"#));
    assert_eq!(version("1").record(5).unwrap().field(0), floats(&samples(6, 300)));

    let listed = told(&bench, &["snapshots", "a"]);
    let told_of: Vec<_> = listed["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| json!([v["number"], v["name"], v["records"], v["shards"], v["parent"]["number"], v["base"]["number"]]))
        .collect();
    assert_eq!(json!(told_of), json!([[0, "v0", 4, 2, null, null], [1, "june", 8, 3, 0, 0], [2, "only b", 1, 1, 1, null]]));
    assert_eq!(listed["versions"][1]["digest"], report["root"]);
    assert_eq!(listed["versions"][2]["parent"]["digest"], report["root"]);
    let lines = bench.run(&["snapshots", "a"]);
    let short = report["root"].as_str().unwrap()[..19].to_owned();
    let line = lines.out.lines().nth(1).unwrap();
    for word in ["1  june", "8 records in 3 shards", &short, "after 0, begins with 0"] {
        assert!(line.contains(word), "{word}: {line}");
    }
    // A digest as it is shown can be given back.
    let found = told(&bench, &["snapshots", "a", "--compare", "v0", &short, "--ids"]);
    assert_eq!(json!([found["before"]["records"], found["after"]["records"]]), json!([4, 8]));
    assert_eq!(json!([found["kept"]["shards"], found["added"]["records"], found["removed"]["shards"]]), json!([2, 4, 0]));
    assert_eq!(found["metadata"], json!({"n": {"after": "8"}, "site": {"before": "roof"}}));
    assert_eq!(found["ids"], json!({"added": ["a5", "a6", "a7", "a8"], "removed": [], "changed": []}));
    let said = bench.run(&["snapshots", "a", "--compare", "1", "2", "--ids"]);
    assert!(said.out.contains("removed: 3 shards with 8 records") && said.out.contains("records added: 1: b1"), "{}", said.out);
    assert!(told(&bench, &["snapshots", "a", "--compare", "0", "1"])["ids"].is_null());

    bench.run(&["snapshots", "a", "--compare", "0", "9"]).refused(&["there is no version 9", "sigbank snapshots"]);
    bench.run(&["snapshots", "a", "--compare", "0", "sha256:12"]).refused(&["is no digest"]);
    bench.run(&["snapshots", "in"]).refused(&["no signal-dataset"]);
    bench.run(&["publish", "in/b", "a", "--as-version", "june"]).refused(&["there is a version 'june' already"]);
    bench.run(&["publish", "in/b", "a", "--as-version", "7"]).refused(&["cannot be the name of a version"]);
    bench.run(&["publish", "b", "a", "--as-version", "x", "--append"]).refused(&["holds a record 'b1' already"]);
    bench.run(&["publish", "in/b", "a", "--as-version", "x", "--append"]).refused(&["holds a record 'b1' already"]);
    assert_eq!(files(&bench.path("a")), after);
}

#[test]
fn commands_look_at_a_version() {
    let bench = Bench::new();
    two(&bench);
    let report = told(&bench, &["publish", "b", "a", "--as-version", "june", "--append"]);
    let lines = |args: &[&str]| bench.run(args).out.lines().count();
    assert_eq!((lines(&["ls", "a"]), lines(&["ls", "a", "--version", "june"])), (4, 5));
    let info = told(&bench, &["info", "a", "--version", "latest"]);
    assert_eq!(json!([info["records"], info["root"]]), json!([5, report["root"]]));
    assert!(info["storage"].as_str().unwrap().starts_with("version 1 'june' of a,"), "{info}");
    assert_eq!(told(&bench, &["info", "a"])["records"], 4);
    assert_eq!(told(&bench, &["show", "a", "4", "--version", "1"])["id"], "b1");
    bench.run(&["show", "a", "4"]).refused(&["it holds 4"]);
    let check = told(&bench, &["check", "a", "--version", report["root"].as_str().unwrap()]);
    assert_eq!(json!([check["ok"], check["records"], check["root"]]), json!([true, 5, report["root"]]));
    let check = told(&bench, &["check", "a"]);
    assert_eq!((&check["records"], &check["further_versions"]), (&json!(4), &json!(1)));
    assert_eq!(told(&bench, &["info", "a"])["further_versions"], 1);
    assert!(bench.run(&["info", "a"]).out.contains("1 further version; see: sigbank snapshots a"));
    bench.run(&["info", "a", "--version", "2"]).refused(&["there is no version 2", "sigbank snapshots"]);
    assert_eq!(bench.run(&["check", "a", "--repair", "--version", "1"]).code, 2);
    // A damaged object of the version alone is found in the version alone, and where all are looked at.
    let old = files(&bench.path("a"));
    told(&bench, &["publish", "in/b", "c"]);
    bench.write("new/n1.wav", wav(&samples(8, 300), 1, 8000));
    told(&bench, &["publish", "in/new", "a", "--as-version", "july", "--append"]);
    let new =
        files(&bench.path("a")).into_keys().find(|name| !old.contains_key(name) && name.starts_with("objects/data")).unwrap();
    let mut bytes = std::fs::read(bench.path("a").join(&new)).unwrap();
    bytes[70] ^= 1;
    std::fs::write(bench.path("a").join(&new), bytes).unwrap();
    bench.run(&["check", "a", "--version", "july"]).refused(&[&new]);
    bench.run(&["check", "a"]).refused(&[&new, "version 2 'july'"]);
    assert_eq!(told(&bench, &["check", "a", "--version", "june"])["ok"], true);
    // The other layout has none.
    assert_eq!(bench.run(&["pack", "in/a", "packed", "--window", "100"]).code, 0);
    for command in ["info", "check", "show"] {
        bench.run(&[command, "packed", "--version", "1"]).refused(&["Sedpack", "no versions"]);
    }
}
