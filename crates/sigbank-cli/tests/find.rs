//! `sigbank find`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // All of this file is test.

mod common;

use common::sigbank;
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
