//! `sigbank annotate`, `show`, `info` and `check` on signal-datasets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use common::{Bench, npy, samples, wav};
use serde_json::{Value, json};
use sigbank::layout::signal_dataset::Dataset;

/// Three records: a, b and 7.
fn bench() -> Bench {
    let bench = Bench::new();
    for (name, channels) in [("a", 1), ("b", 2), ("7", 1)] {
        bench.write(&format!("{name}.wav"), wav(&samples(1, 400), channels, 1000));
    }
    assert_eq!(bench.run(&["publish", "in", "out"]).code, 0);
    bench
}

/// Each row: id, index, status, detail, values, provenance.
fn rows(bench: &Bench, name: &str) -> Value {
    let dataset = Dataset::open(&bench.path("out"), Default::default()).unwrap();
    let set = dataset.annotations().unwrap().open(name).unwrap();
    let row = |row: sigbank::Result<sigbank::layout::signal_dataset::AnnotationRow>| {
        let row = row.unwrap();
        let (values, provenance) = (row.values.to_value().unwrap(), row.provenance.to_value().unwrap());
        json!([row.source_record_id, row.source_index, row.status.as_str(), row.detail_status, values, provenance])
    };
    set.rows().map(row).collect()
}

#[test]
fn lines_become_annotations() {
    let bench = bench();
    let lines = [
        json!({"id": "b", "label": "wifi", "snr": 3.5, "box": [1, 2]}),
        json!({"index": 0, "status": "failed", "detail_status": "no sound", "provenance": {"by": "x"}, "values": {"id": 4}}),
    ];
    std::fs::write(bench.path("l.jsonl"), format!("{}\n\n{}\n", lines[0], lines[1])).unwrap();
    let said = bench.run(&["annotate", "out", "labels", "l.jsonl", "--publication-id", "p1"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert_eq!(said.out, "annotated out as labels: 2 lines for 3 records (failed 1, skipped 1, success 1)\n");
    let expected = json!([
        ["7", 0, "failed", "no sound", {"id": 4}, {"by": "x"}],
        ["a", 1, "skipped", null, {}, {}],
        ["b", 2, "success", null, {"label": "wifi", "snr": 3.5, "box": [1, 2]}, {}],
    ]);
    assert_eq!(rows(&bench, "labels"), expected);
    // Another set beside it; the same name with other rows is taken.
    std::fs::write(bench.path("t.csv"), "\u{feff}id,class,note\r\n7,1,\"a, b\"\r\nb,,x\r\n").unwrap();
    assert_eq!(bench.run(&["annotate", "out", "table", "t.csv"]).code, 0);
    let expected = json!([
        ["7", 0, "success", null, {"class": 1, "note": "a, b"}, {}],
        ["a", 1, "skipped", null, {}, {}],
        ["b", 2, "success", null, {"note": "x"}, {}],
    ]);
    assert_eq!(rows(&bench, "table"), expected);
    bench.run(&["annotate", "out", "labels", "t.csv"]).refused(&["labels"]);
    assert_eq!(bench.run(&["check", "out"]).code, 0);
}

#[test]
fn wrong_lines_are_named_and_nothing_is_annotated() {
    let bench = bench();
    for (file, text, words) in [
        ("l.jsonl", "{\"id\":\"a\"}\n{\"id\":\"c\"}", &["l.jsonl", "line 2", "'c'"][..]),
        ("l.jsonl", "{\"index\":3}", &["line 1", "no record 3"]),
        ("l.jsonl", "{\"x\":3}", &["line 1", "neither"]),
        ("l.jsonl", "{\"id\":\"a\"}\n{\"index\":1}", &["line 2", "line 1", "record 1"]),
        ("l.jsonl", "{\"id\":\"a\",\"index\":0}", &["line 1", "record 0 is '7'"]),
        ("l.jsonl", "{\"id\":\"a\",\"status\":\"good\"}", &["line 1", "'good'"]),
        ("l.jsonl", "{\"id\":\"a\",\"values\":{},\"x\":1}", &["line 1", "beside 'values': x"]),
        ("l.jsonl", "[1]", &["line 1", "no object"]),
        ("l.jsonl", "{\"id\":\"a\",\"x\":NaN}", &["line 1"]),
        ("l.csv", "id,x\na,1\nb", &["l.csv", "line 3", "1 cells"]),
        ("l.txt", "a", &["l.txt", ".jsonl or .csv"]),
    ] {
        std::fs::write(bench.path(file), text).unwrap();
        bench.run(&["annotate", "out", "labels", file]).refused(words);
    }
    let dataset = Dataset::open(&bench.path("out"), Default::default()).unwrap();
    assert_eq!(dataset.annotations().unwrap().names().count(), 0);
}

#[test]
fn show_tells_axes_and_draws() {
    let bench = bench();
    let said = bench.run(&["show", "out", "2", "--width", "60"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let lines: Vec<_> = said.out.lines().collect();
    assert_eq!(lines[..4], ["out 2 of 3: b", "sample_rate: 1000.0", "source: b.wav", "subtype: PCM_16"]);
    assert!(lines[4].starts_with("signal float32[channel 2, time 200]: min "), "{}", lines[4]);
    assert_eq!(lines[5], "  time: 0 to 0.1990 s, step 0.001000 s");
    // Four lines for each channel.
    assert_eq!(lines.len(), 6 + 2 * 4);
    assert!(lines[6..].iter().all(|line| line.chars().any(|c| ('\u{2800}'..'\u{28ff}').contains(&c))), "{}", said.out);
    let told = bench.run(&["show", "out", "2", "--json"]).json();
    assert_eq!(
        (&told["id"], &told["values"]["signal"]["shape"], &told["values"]["signal"]["count"]),
        (&json!("b"), &json!([2, 200]), &json!(400))
    );
    bench.run(&["show", "out", "3"]).refused(&["3"]);
    bench.run(&["show", "out", "--field", "x"]).refused(&["'x'", "signal"]);
    bench.run(&["show", "out", "--split", "train"]).refused(&["'train'", "'all'"]);
}

#[test]
fn two_long_axes_are_an_image() {
    let bench = Bench::new();
    let ramp: Vec<u8> = (0..24u8).flat_map(|row| (0..20u8).map(move |column| if column > row { 200 } else { 0 })).collect();
    bench.write("image.npy", npy("uint8", &[24, 20], &ramp));
    assert_eq!(bench.run(&["publish", "in", "out", "--axes", "y,x"]).code, 0);
    let said = bench.run(&["show", "out", "--width", "60"]);
    let lines: Vec<_> = said.out.lines().skip_while(|line| !line.starts_with("signal uint8[y 24, x 20]")).skip(1).collect();
    assert_eq!(lines.len(), 24, "{}", said.out);
    for (row, line) in lines.iter().enumerate() {
        let expected: String = (0..20).flat_map(|column| [if column > row { '█' } else { ' ' }; 2]).collect();
        assert_eq!(*line, expected);
    }
}

#[test]
fn info_tells_what_records_have_in_common() {
    let bench = bench();
    let said = bench.run(&["info", "out"]);
    assert!(said.out.contains("  signal float32, ragged\n") && said.out.contains(", ratio 0.04, "), "{}", said.out);
    std::fs::remove_dir_all(bench.path("out")).unwrap();
    std::fs::remove_file(bench.path("in/b.wav")).unwrap();
    bench.run(&["publish", "in", "out"]);
    let said = bench.run(&["info", "out"]);
    assert!(said.out.contains("  signal float32[400] (time)\n"), "{}", said.out);
    let shard = bench.path("out/objects/data");
    let shard = std::fs::read_dir(shard).unwrap().next().unwrap().unwrap().path();
    let shard = std::fs::read_dir(shard).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&shard).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&shard, bytes).unwrap();
    let said = bench.run(&["check", "out"]);
    assert_eq!(said.code, 1);
    assert!(
        format!("{}{}", said.out, said.err).contains(shard.file_name().unwrap().to_str().unwrap()),
        "{} {}",
        said.out,
        said.err
    );
}

/// Lines in any order, of a text with a byte order mark, and cells with line feeds.
#[test]
fn lines_are_found_again_wherever_they_stand() {
    let bench = Bench::new();
    for name in ["a", "b", "c"] {
        bench.write(&format!("{name}.wav"), wav(&samples(1, 100), 1, 1000));
    }
    assert_eq!(bench.run(&["publish", "in", "out"]).code, 0);
    std::fs::write(bench.path("t.csv"), "\u{feff}\nid,note\r\nc,\"last, \"\"é\"\"\r\nof all\"\r\n\r\na,first\n").unwrap();
    assert_eq!(bench.run(&["annotate", "out", "csv", "t.csv"]).code, 0);
    std::fs::write(bench.path("t.jsonl"), "\u{feff}{\"index\":2,\"note\":\"é\"}\n\n  \r\n{\"id\":\"a\",\"note\":1}").unwrap();
    assert_eq!(bench.run(&["annotate", "out", "lines", "t.jsonl"]).code, 0);
    let note = |set: &str, record: &str| {
        bench.run(&["show", "out", record, "--json"]).json()["annotations"][set]["values"]["note"].clone()
    };
    assert_eq!((note("csv", "0"), note("csv", "2")), ("first".into(), "last, \"é\"\r\nof all".into()));
    assert_eq!((note("lines", "0"), note("lines", "2")), (1.into(), "é".into()));
    for (text, expected) in [
        ("id,note\na,1\nb,\"x\ny\"\na,2\n", "line 5: it is of record 0, and so is line 2"),
        ("id,note\na,1\nb,\"x\ny", "line 3: a quoted cell does not end"),
        ("id,note\na,1\n\nb,1,2\n", "line 4: 3 cells, where 2 columns are named"),
        ("\n\n", "the file is empty"),
        ("id,index\na,0\nb,2\n", "line 3: record 2 is 'c', not 'b'"),
    ] {
        std::fs::write(bench.path("wrong.csv"), text).unwrap();
        bench.run(&["annotate", "out", "wrong", "wrong.csv"]).refused(&["wrong.csv", expected]);
        assert!(!bench.path("out/annotations/sets/wrong").exists());
    }
}
