//! `sigbank find`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // All of this file is test.

mod common;

use common::{Bench, samples, sigbank, wav};
use sigbank::format::array::npy;
use sigbank::format::model::json::Json;
use sigbank::layout::jbof::{ArrayFile, Creation, Dataset};
use std::path::Path;

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
    assert!(said.err.contains("take 2/_metadata.json: this is no JSON"), "{}", said.err);
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
    assert_eq!(told["fields"]["signal"], serde_json::json!({"dtype": "float32", "shape": [500]}));
    bench.run(&["find", "out", "--index"]).refused(&["an index is kept beside JBOF data sets only"]);
}
