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
    for wrong in
        [&["check", "--dry-run", "out"][..], &["check", "--yes", "out"], &["check", "--repair", "--dry-run", "--yes", "out"]]
    {
        assert_eq!(bench.run(wrong).code, 2);
    }
}
