//! `sigbank find`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // All of this file is test.

mod common;

use common::{Bench, Said, samples, sigbank, wav};
use sigbank::format::array::npy;
use sigbank::format::model::json::Json;
use sigbank::layout::jbof::{ArrayFile, Creation, Dataset};
use std::path::{Path, PathBuf};
use std::process::Command;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes(), &Default::default()).unwrap()
}

fn filled(root: &Path) -> Dataset {
    let dataset = Dataset::create(root, &Creation::default()).unwrap();
    for n in 0..6 {
        let item =
            dataset.add_item(Some(&format!("take {n}")), &json(&format!("{{\"snr\": {n}.5, \"by\": \"s{}\"}}", n % 2))).unwrap();
        let header = npy::header(&"<c8".parse().unwrap(), &[n]).unwrap();
        item.add_array("iq", &ArrayFile::new("npy", &[&header, &vec![0; 8 * n]]), &Json::EMPTY).unwrap();
    }
    dataset
}

#[test]
fn items_are_printed_as_names_lines_of_json_or_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (root, place) = (dir.path().join("set"), dir.path().join("set").to_string_lossy().into_owned());
    filled(&root);
    let said = sigbank(&["find", &place, "snr > 2 and by == 's1'"]);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "take 3\ntake 5\n", ""));
    assert_eq!(sigbank(&["find", &place, "snr > 2", "--limit", "2"]).out, "take 2\ntake 3\n");
    assert_eq!(sigbank(&["find", &place, "snr > 2", "--count"]).out, "4\n");
    assert_eq!(sigbank(&["find", &place, "snr > 2", "--count", "--json"]).json(), serde_json::json!({"count": 4}));
    assert_eq!(sigbank(&["find", &place]).out.lines().count(), 6);
    let told = sigbank(&["find", &place, "iq@length == 4 and iq@dtype = 'complex64'", "--json"]).json();
    let expected = serde_json::json!({
        "id": "take 4", "metadata": {"snr": 4.5, "by": "s0"}, "fields": {"iq": {"dtype": "complex64", "shape": [4]}},
    });
    assert_eq!(told, expected);
    let said = sigbank(&["find", &place, "snr > 2 or snrr == 1"]);
    assert_eq!(said.out.lines().count(), 4);
    assert_eq!(said.err, format!("warning: {place}: no record has the key \"snrr\": did you mean \"snr\"?\n"));
}

#[test]
fn what_cannot_be_searched_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (root, place) = (dir.path().join("set"), dir.path().join("set").to_string_lossy().into_owned());
    filled(&root);
    let said = sigbank(&["find", &place, "snr >"]);
    assert_eq!(said.code, 1);
    assert!(said.err.starts_with("error: the expression, column 6: expected a key"), "{}", said.err);
    let lines: Vec<_> = said.err.lines().collect();
    assert_eq!(lines[1..], ["  snr >", "       ^"]);
    std::fs::write(root.join("take 2/_metadata.json"), b"{").unwrap();
    let said = sigbank(&["find", &place, "snr > 1"]);
    assert_eq!((said.code, said.out.as_str()), (1, "take 1\ntake 3\ntake 4\ntake 5\n"));
    assert!(said.err.contains("1 item was not searched (\"take 2\"): its _metadata.json is no JSON"), "{}", said.err);
    assert_eq!(sigbank(&["find", &place, "snr > 1", "--count"]).out, "4\n");
    sigbank(&["find", &dir.path().join("none").to_string_lossy(), "a = 1"]).refused(&["none"]);
}

#[test]
fn an_index_is_written_on_demand() {
    let dir = tempfile::tempdir().unwrap();
    let (root, place) = (dir.path().join("set"), dir.path().join("set").to_string_lossy().into_owned());
    filled(&root);
    let said = sigbank(&["find", &place, "--index"]);
    let index = root.join("__pycache__/sigbank/index.parquet");
    assert_eq!((said.code, said.out), (0, format!("{}: 6 items\n", index.display())));
    assert!(sigbank::query::Table::open(&index).unwrap().is_described());
    assert_eq!(sigbank(&["find", &place, "has(iq)", "--index", "--count"]).out, "6\n");
    std::fs::write(&index, b"damaged").unwrap();
    let said = sigbank(&["find", &place, "snr > 4"]);
    assert_eq!((said.code, said.out.as_str()), (0, "take 4\ntake 5\n"));
    assert!(said.err.starts_with(&format!("warning: {place}: {}", index.display())), "{}", said.err);
}

#[test]
fn records_of_a_signal_dataset_are_found_too() {
    let bench = Bench::new();
    for (name, count, rate) in [("a", 1000, 8000), ("b", 500, 8000), ("c", 300, 44100)] {
        bench.write(&format!("{name}.wav"), wav(&samples(1, count), 1, rate));
    }
    assert_eq!(bench.run(&["publish", "in", "out"]).code, 0);
    let found = |expression: &str| bench.run(&["find", "out", expression]);
    assert_eq!(found("sample_rate == 8000").out, "a\nb\n");
    assert_eq!(found("signal@shape[0] < 1000 and not id == 'c'").out, "b\n");
    assert_eq!(found("signal@dtype == 'float32' and source endswith '.wav'").out, "a\nb\nc\n");
    assert_eq!(bench.run(&["find", "out", "--count"]).out, "3\n");
    assert_eq!(bench.run(&["find", "out", "sample_rate > 0", "--limit", "1"]).out, "a\n");
    let said = found("sample_rat == 8000 or has(signl)");
    assert_eq!((said.code, said.out.as_str()), (0, ""));
    let told: Vec<_> = said.err.lines().map(|line| line.rsplit_once(": ").unwrap().1).collect();
    assert_eq!(told, ["did you mean \"sample_rate\"?", "did you mean \"signal\"?"]);
    let told = bench.run(&["find", "out", "id == 'b' and has(signal)", "--json"]).json();
    let signal = serde_json::json!({"dtype": "float32", "shape": [500], "axes": ["time"], "sample_rate": 8000.0});
    assert_eq!(told["fields"]["signal"], signal);
}

/// `sigbank find` with a folder of its own for indices.
fn find(bench: &Bench, args: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sigbank"));
    let command = command.arg("find").args(args).current_dir(bench.path("."));
    Said::from(command.env("SIGBANK_INDEX_DIR", bench.path("indices")).output().unwrap())
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    all.sort();
    all
}

#[test]
fn a_signal_dataset_has_an_index_elsewhere() {
    let bench = Bench::new();
    for (name, count) in [("a", 1000), ("b", 500)] {
        bench.write(&format!("{name}.wav"), wav(&samples(1, count), 1, 8000));
    }
    assert_eq!(bench.run(&["publish", "in", "out"]).code, 0);
    let before = files(&bench.path("out"));
    let said = find(&bench, &["out", "--index"]);
    let folder = bench.path("indices");
    assert!(
        said.code == 0 && said.out.starts_with(folder.to_str().unwrap()) && said.out.ends_with(": 2 records\n"),
        "{}",
        said.out
    );
    assert_eq!(files(&bench.path("out")), before);
    assert_eq!(find(&bench, &["out", "signal@axes contains 'time' and signal@sample_rate == 8000 and id > 'a'"]).out, "b\n");
    let index = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    assert_eq!(find(&bench, &["out", "signal@length < 900", "--index", "--count"]).out, "1\n");
    std::fs::write(&index, b"damaged").unwrap();
    assert_eq!(find(&bench, &["out", "signal@length < 900"]).out, "b\n");
}

#[test]
fn shards_of_a_sedpack_dataset_are_found() {
    let bench = Bench::new();
    for n in 0..6 {
        bench.write(&format!("{}/{n}.wav", ["ann", "bob"][n % 2]), wav(&samples(n as i32, 1000), 1, 8000));
    }
    bench.packed(&["--window", "100"]);
    let all: u64 = find(&bench, &["out", "--count"]).out.trim().parse().unwrap();
    assert_eq!(all, 60);
    let train: u64 = find(&bench, &["out", "split == 'train' and signal@shape == [100]", "--count"]).out.trim().parse().unwrap();
    let said = find(&bench, &["out", "split == 'train'", "--json"]);
    let lines: Vec<serde_json::Value> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line["examples"].as_u64().unwrap()).sum::<u64>(), train);
    assert!(lines.iter().all(|line| line["split"] == "train" && line["id"].as_str().unwrap().starts_with("train/")));
    assert!(find(&bench, &["out", "devise == 3"]).err.contains("no record has the key \"devise\""));
    find(&bench, &["out", "--index"]).refused(&["the lists of shards are the index"]);
}
