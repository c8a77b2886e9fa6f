//! `sigbank info`, `show` and `check`, on datasets that the reference package wrote and on our own.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use common::{Bench, golden, samples, sigbank, wav};
use serde_json::{Value, json};
use std::io::Read;
use std::process::{Command, Stdio};

fn reference(name: &str) -> (String, Value) {
    let text = std::fs::read_to_string(golden(&format!("sedpack/{name}.json"))).unwrap();
    (golden(&format!("sedpack/{name}")).to_str().unwrap().to_owned(), serde_json::from_str(&text).unwrap())
}

#[test]
fn one_line_tells_one_state_of_a_dataset() {
    let (path, described) = reference("splits");
    let said = sigbank(&["info", &path]);
    let root = described["root_checksums"][0].as_str().unwrap();
    let line = said.out.lines().next().unwrap();
    for part in ["sedpack, 16 examples (", "test 4", "train 4", "holdout 6", &format!("root sha256:{root}")] {
        let part = part.replace("16", &records(&described).to_string());
        assert!(line.contains(&part), "no '{part}' in {line}");
    }
    let json = sigbank(&["info", &path, "--json"]).json();
    assert_eq!((&json["root"], &json["layout"]), (&json!(format!("sha256:{root}")), &json!("sedpack")));
    assert_eq!(json["records"], json!(records(&described)));
    let checked = sigbank(&["check", &path]);
    assert!(
        checked.code == 0 && checked.out.contains(&format!("{} examples", records(&described))) && checked.out.contains(root),
        "{}",
        checked.out
    );
}

fn records(described: &Value) -> u64 {
    let shards = described["shards"].as_object().unwrap().values().flat_map(|s| s.as_array().unwrap());
    shards.map(|s| s["number_of_examples"].as_u64().unwrap()).sum()
}

#[test]
fn sizes_and_ratio_are_those_of_the_files() {
    let bench = Bench::new();
    bench.write("a.wav", wav(&[0; 40_000], 1, 8000));
    bench.packed(&["--window", "1000", "--compression", "zstd", "--examples-per-shard", "7"]);
    let json = bench.run(&["info", "out", "--json"]).json();
    let source = bench.open();
    let units = source.units("train").unwrap().len();
    let stored: u64 =
        (0..units).map(|u| bench.path("out").join(source.unit_name("train", u).unwrap()).metadata().unwrap().len()).sum();
    // A record is 1000 float32, an int64 and a float64; the source is of no fixed size.
    assert_eq!((units, &json["stored_bytes"], &json["value_bytes"]), (6, &json!(stored), &json!(40 * 4016)));
    assert_eq!((json["ratio"].as_f64().unwrap(), &json["varying"]), (40.0 * 4016.0 / stored as f64, &json!(["source"])));
    assert_eq!(json["splits"], json!([{"name": "train", "records": 40, "units": 6}]));
}

#[test]
fn show_sums_values_up_and_draws_them() {
    let bench = Bench::new();
    let ramp: Vec<i16> = (0..1000).map(|i| (i * 32 - 16000) as i16).collect();
    bench.write("ramp.wav", wav(&ramp, 1, 8000));
    bench.write("second.wav", wav(&samples(2, 1000), 1, 8000));
    bench.packed(&[]);
    let said = bench.run(&["show", "out", "0", "--width", "60"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines[0], "out train 0 of 2");
    assert_eq!(lines[1], "signal float32[1000]: min -0.4883, max 0.4873, mean -4.883e-4, std 0.2819");
    let drawn: Vec<&str> = lines[2..10].to_vec();
    assert!(drawn.iter().all(|l| l.chars().count() <= 60), "{drawn:?}");
    // A ramp goes from the lower left to the upper right.
    let first_dot = |line: &str| line.chars().skip(11).position(|c| c != '\u{2800}').unwrap();
    let starts: Vec<usize> = drawn.iter().map(|l| first_dot(l)).collect();
    assert!(starts.windows(2).all(|w| w[0] > w[1]) && starts[7] == 0, "{starts:?}");
    assert!(
        said.out.contains("\nsource str: ramp.wav\n") && said.out.contains("\nsample_rate float64: 8000.0\n"),
        "{}",
        said.out
    );
    let json = bench.run(&["show", "out", "1", "--json", "--field", "source", "--field", "start"]).json();
    assert_eq!(json, json!({"split": "train", "index": 1, "values": {"source": {"value": "second.wav"}, "start": {"value": 0}}}));
    bench.run(&["show", "out", "2"]).refused(&["out", "record 2", "2 records"]);
    bench.run(&["show", "out", "--split", "test"]).refused(&["test"]);
    bench.run(&["show", "out", "--field", "sgnal"]).refused(&["'sgnal'", "signal, start, source, sample_rate"]);
}

#[test]
fn show_knows_every_kind_of_value() {
    let (path, _) = reference("kinds-zstd");
    let said = sigbank(&["show", &path]);
    assert_eq!(said.code, 0, "{}", said.err);
    for line in [
        "number int: 4611686018427387904",
        "int16 int16[2]: [-300, 32767]",
        "fixed_text <U5[2]: é0",
        "blob bytes: 3 bytes, 00ff00",
    ] {
        assert!(said.out.lines().any(|l| l == line), "no '{line}' in {}", said.out);
    }
}

#[test]
fn a_reader_who_has_enough_is_no_error() {
    let (path, _) = reference("kinds-zstd");
    let mut child = Command::new(env!("CARGO_BIN_EXE_sigbank"))
        .args(["info", &path])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}
