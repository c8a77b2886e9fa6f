//! `sigbank check --repair`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use common::{Bench, samples, wav};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Ten records of 100 samples in five shards.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 1000), 1, 8000));
    bench.packed(&["--window", "100", "--compression", "LZ4", "--examples-per-shard", "2"]);
    bench
}

fn shard(bench: &Bench, unit: usize) -> PathBuf {
    bench.path("out").join(bench.open().unit_name("train", unit).unwrap())
}

fn starts(bench: &Bench) -> Vec<i64> {
    bench.records("train").into_iter().map(|r| r.1).collect()
}

/// Everything that lies in the dataset but the store's own locks.
fn files(bench: &Bench) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut left = vec![bench.path("out")];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true if path.ends_with(".sigbank/store") => {}
                true => left.push(path),
                false => found.push((path.clone(), std::fs::read(path).unwrap())),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_plan_is_shown_then_carried_out() {
    let bench = bench();
    let (gone, damaged) = (shard(&bench, 1), shard(&bench, 3));
    std::fs::remove_file(&gone).unwrap();
    let mut bytes = std::fs::read(&damaged).unwrap();
    bytes[30] ^= 4;
    std::fs::write(&damaged, bytes).unwrap();
    let said = bench.run(&["check", "out"]);
    said.refused(&["gone", "sigbank check --repair --dry-run out"]);
    let before = files(&bench);
    let said = bench.run(&["check", "--repair", "--dry-run", "out"]);
    assert_eq!((said.code, said.err.as_str()), (1, ""));
    let name = gone.file_name().unwrap().to_str().unwrap();
    let line = said.out.lines().next().unwrap();
    assert!(line.starts_with("drop train/") && line.contains(name) && line.ends_with("(2 examples): its file is gone"), "{line}");
    assert!(said.out.contains("in all: 2 shards with 4 examples dropped"), "{}", said.out);
    let json = bench.run(&["check", "--repair", "--dry-run", "--json", "out"]);
    assert_eq!(json.code, 1);
    let json = json.json();
    assert_eq!((&json["ok"], &json["repaired"], json["actions"].as_array().unwrap().len()), (&json!(false), &json!(false), 2));
    assert_eq!((&json["actions"][0]["action"], &json["actions"][1]["examples"]), (&json!("drop"), &json!(2)));
    // Nobody to ask: a mistake, not a yes.
    bench.run(&["check", "--repair", "out"]).refused(&["2 things to repair", "--yes"]);
    assert_eq!(files(&bench), before);
    let said = bench.run(&["check", "--repair", "--yes", "--json", "out"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let json = said.json();
    assert_eq!((&json["ok"], &json["repaired"]), (&json!(true), &json!(true)));
    assert_eq!(starts(&bench), [0, 100, 400, 500, 800, 900]);
    assert!(damaged.exists());
    let checked = bench.run(&["check", "out", "--json"]).json();
    assert_eq!((&checked["records"], &checked["root"]), (&json!(6), &json["root"]));
    let said = bench.run(&["check", "--repair", "out"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("nothing to repair") && said.out.contains("leave train/"), "{}", said.out);
    let said = bench.run(&["check", "--repair", "--dry-run", "--json", "out"]);
    assert_eq!((said.code, said.json()["actions"].clone()), (0, Value::Array(vec![])));
}

#[test]
fn a_lost_list_and_a_shard_that_nothing_lists_come_back() {
    let bench = bench();
    let list = shard(&bench, 0).parent().unwrap().join("shards_list.json");
    std::fs::remove_file(list).unwrap();
    let said = bench.run(&["check", "--repair", "--yes", "out"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert!(said.out.contains("rebuild list train/") && said.out.contains("repaired; root sha256:"), "{}", said.out);
    let mut found = starts(&bench);
    found.sort_unstable();
    assert_eq!(found, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
    assert_eq!(bench.run(&["check", "out"]).code, 0);
}

#[test]
fn a_root_that_cannot_be_read_is_beyond_repair_and_the_way_out_works() {
    let bench = bench();
    let root = bench.path("out/dataset_info.json");
    let text = std::fs::read_to_string(&root).unwrap();
    std::fs::write(&root, &text[..text.len() / 2]).unwrap();
    bench.run(&["check", "--repair", "--yes", "out"]).refused(&[
        "beyond repair",
        "restore dataset_info.json",
        "dataset_structure",
    ]);
    // A root with the same structure and no splits, as creating a dataset makes.
    let mut fresh: Value = serde_json::from_str(&text).unwrap();
    fresh["splits"] = json!({});
    std::fs::write(&root, fresh.to_string()).unwrap();
    let said = bench.run(&["check", "--repair", "--yes", "out"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(starts(&bench), [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
    bench.run(&["check", "--repair", "nowhere"]).refused(&["nowhere"]);
    for wrong in [
        &["check", "--yes", "out"][..],
        &["check", "--dry-run", "--yes", "out"],
        &["check", "--repair", "--dry-run", "--yes", "out"],
    ] {
        assert_eq!(bench.run(wrong).code, 2);
    }
}

#[test]
fn what_is_lost_with_its_list_is_counted_and_all_lost_is_refused() {
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 1000), 1, 8000));
    bench.write("b.wav", wav(&samples(2, 600), 1, 8000));
    bench.packed(&["--window", "100", "--compression", "LZ4", "--examples-per-shard", "2", "--split", "train=0.5,test=0.5"]);
    let lost = bench.open().units("test").unwrap();
    std::fs::remove_dir_all(bench.path("out/test")).unwrap();
    let said = bench.run(&["check", "--repair", "--dry-run", "out"]);
    let (shards, examples) = (lost.len(), lost.records());
    assert!(said.out.contains(&format!("in all: {shards} shards with {examples} examples dropped")), "{}", said.out);
    assert!(
        said.out.contains(&format!("lose test/shards_list.json ({shards} shards with {examples} examples): ")),
        "{}",
        said.out
    );
    let json = bench.run(&["check", "--repair", "--dry-run", "--json", "out"]).json();
    assert_eq!(json["dropped"], json!({"shards": shards, "examples": examples}));
    std::fs::remove_dir_all(bench.path("out/train")).unwrap();
    bench.run(&["check", "--repair", "--yes", "out"]).refused(&["none of the 8 shards", "mounted", "--lost-for-good"]);
    let said = bench.run(&["check", "--repair", "--yes", "--lost-for-good", "--json", "out"]);
    assert_eq!((said.code, said.json()["dropped"].clone()), (0, json!({"shards": 8, "examples": 16})));
    assert_eq!(bench.run(&["check", "out", "--json"]).json()["records"], json!(0));
    // Nothing to merge or to divide, in words that fit.
    let said = bench.run(&["merge", "out", "empty"]);
    assert!(said.code == 0 && said.out.contains("empty: 0 examples (test 0, train 0) in 0 shards, 0 B"), "{}", said.out);
    bench.run(&["split", "out", "parts", "--split", "train=1"]).refused(&["no examples that could be divided"]);
    let root = bench.path("empty/dataset_info.json");
    let mut info: Value = serde_json::from_slice(&std::fs::read(&root).unwrap()).unwrap();
    info["splits"] = json!({});
    std::fs::write(&root, info.to_string()).unwrap();
    let said = bench.run(&["merge", "empty", "none"]);
    assert!(said.code == 0 && said.out.starts_with("merged 1 dataset into none: no examples, no splits, 0 B\n"), "{}", said.out);
}

#[test]
fn a_copy_is_left_out_and_told_of_until_it_is_wanted() {
    let bench = bench();
    let one = shard(&bench, 0);
    // A name that would end the line, and clear the screen.
    let name = "a copy\n\u{1b}[2J.fb";
    std::fs::copy(&one, one.with_file_name(name)).unwrap();
    let said = bench.run(&["check", "--repair", "--dry-run", "out"]);
    assert_eq!(said.code, 1);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(
        lines.len() == 3 && lines[0].starts_with("leave train/") && lines[0].contains("a copy\\n\\u{1b}[2J.fb: "),
        "{}",
        said.out
    );
    assert!(lines[1].starts_with("left out: 1 shard with 2 examples") && lines[1].contains("--adopt-copies"), "{}", said.out);
    let json = bench.run(&["check", "--repair", "--dry-run", "--json", "out"]);
    assert_eq!((json.code, json.json()["left_out"].clone()), (1, json!({"shards": 1, "examples": 2})));
    assert_eq!(json.json()["ok"], json!(false));
    assert_eq!(bench.run(&["check", "--repair", "--yes", "out"]).code, 0);
    assert_eq!(starts(&bench).len(), 10);
    let said = bench.run(&["check", "--repair", "--yes", "--adopt-copies", "out"]);
    assert!(said.code == 0 && said.out.contains("holds the same bytes as train/"), "{}", said.out);
    assert_eq!(starts(&bench).len(), 12);
    assert_eq!(bench.run(&["check", "--repair", "--dry-run", "out"]).code, 0);
}

#[test]
fn a_repair_sweeps_and_a_newer_version_asks_for_an_update() {
    let bench = bench();
    let left = shard(&bench, 0).with_file_name(".sigbank-tmp-1-2-3");
    std::fs::write(&left, b"half").unwrap();
    let hour = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::options().append(true).open(&left).unwrap().set_modified(hour).unwrap();
    assert_eq!(bench.run(&["check", "--repair", "--dry-run", "out"]).code, 0);
    assert!(left.exists());
    let said = bench.run(&["check", "--repair", "--yes", "out"]);
    assert!(said.code == 0 && said.out.contains("removed 1 unfinished file that killed writers left"), "{}", said.out);
    assert!(!left.exists());
    let root = bench.path("out/dataset_info.json");
    let mut info: Value = serde_json::from_slice(&std::fs::read(&root).unwrap()).unwrap();
    info["metadata"]["sedpack_version"] = json!("99.0.0");
    std::fs::write(&root, info.to_string()).unwrap();
    for args in [&["check", "out"][..], &["info", "out"], &["merge", "out", "new"], &["check", "--repair", "--yes", "out"]] {
        let said = bench.run(args);
        said.refused(&["update sigbank"]);
        assert!(!said.err.contains("allow_newer"), "{}", said.err);
    }
    assert!(!bench.run(&["check", "out", "--json"]).out.contains("allow_newer"));
}
