//! `sigbank publish`, `ls` and `show` on signal-datasets: from the files on disk to the values that are read back.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use common::{Bench, Said, floats, golden, npy, samples, wav};
use serde_json::{Value, json};
use sigbank::layout::signal_dataset::{Dataset, StoredRecord};

/// `sigbank publish in out` with more arguments, asserted to succeed, with the report.
#[track_caller]
fn published(bench: &Bench, args: &[&str]) -> Value {
    let said = publish(bench, &[args, &["--json"]].concat());
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    said.json()
}

fn publish(bench: &Bench, args: &[&str]) -> Said {
    bench.run(&[&["publish", "in", "out"], args].concat())
}

fn open(bench: &Bench) -> Dataset {
    Dataset::open(&bench.path("out"), Default::default()).unwrap()
}

fn records(bench: &Bench) -> Vec<StoredRecord> {
    let dataset = open(bench);
    (0..dataset.len()).map(|i| dataset.record(i).unwrap()).collect()
}

fn metadata(record: &StoredRecord) -> Value {
    record.metadata().metadata.to_value().unwrap()
}

/// dtype, shape and the axes' names.
fn kind(record: &StoredRecord) -> (String, Vec<usize>, String) {
    let field = &record.metadata().fields[0];
    assert_eq!(field.name, "signal");
    let names: Vec<_> = field.axes.iter().map(|axis| axis.name.as_str()).collect();
    (field.dtype.name(), field.shape.clone(), names.join(","))
}

/// `ls --json`, line by line.
fn listed(bench: &Bench) -> Vec<Value> {
    let said = bench.run(&["ls", "out", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn recordings_become_records() {
    let bench = Bench::new();
    let (a, b) = (samples(1, 1000), samples(2, 700));
    bench.write("deep/a.wav", wav(&a, 1, 8000));
    bench.write("B.WAV", wav(&b, 2, 44100));
    bench.write(".DS_Store", "");
    bench.write("notes.txt", "");
    let report = published(&bench, &["--metadata", "site=roof", "--metadata", "n=1=2"]);
    let told =
        ["records", "files", "shards", "litter", "others", "no_rate", "dataset_id", "snapshot_id"].map(|k| report[k].clone());
    assert_eq!(json!(told), json!([2, 2, 1, 1, ["notes.txt"], 0, "out", "v0"]));
    let dataset = open(&bench);
    assert_eq!(dataset.metadata().to_value().unwrap(), json!({"n": "1=2", "site": "roof"}));
    assert_eq!(report["root"], format!("sha256:{}", dataset.root_digest()));
    dataset.verify(&mut |_, _| true).unwrap();
    let found = records(&bench);
    assert_eq!(found.iter().map(|r| r.metadata().id.as_str()).collect::<Vec<_>>(), ["B", "deep/a"]);
    assert_eq!(kind(&found[1]), ("float32".into(), vec![1000], "time".into()));
    assert_eq!(found[1].field(0), floats(&a));
    assert_eq!(metadata(&found[1]), json!({"source": "deep/a.wav", "sample_rate": 8000.0, "subtype": "PCM_16"}));
    // Channels come first.
    assert_eq!(kind(&found[0]), ("float32".into(), vec![2, 350], "channel,time".into()));
    let channel = |c: usize| b.iter().copied().skip(c).step_by(2).collect::<Vec<_>>();
    assert_eq!(found[0].field(0), floats(&[channel(0), channel(1)].concat()));
    let time = found[1].metadata().fields[0].axes[0].coordinate.clone().unwrap();
    let said = [time.start.unwrap().to_string(), time.step.unwrap().to_string(), time.unit.unwrap()];
    assert_eq!(said, ["0", "0.000125", "s"]);
    assert_eq!(bench.left(), ["out"]);
}

#[test]
fn windows_over_many_shards_hold_the_samples_of_their_place() {
    let (a, b) = (samples(3, 10_000), samples(4, 4_321));
    for (format, pad) in [("wav", false), ("npy", true)] {
        let bench = Bench::new();
        for (name, values) in [("a", &a), ("b", &b)] {
            let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let file = if format == "wav" { wav(values, 1, 1000) } else { npy("int16", &[values.len()], &raw) };
            bench.write(&format!("{name}.{format}"), file);
        }
        let pad: &[&str] = if pad { &["--pad"] } else { &[] };
        let args = ["--window", "300", "--hop", "200", "--records-per-shard", "7", "--dtype", "int16", "--threads", "3"];
        let report = published(&bench, &[&args, pad].concat());
        let mut expected = Vec::new();
        for (name, values) in [("a", &a), ("b", &b)] {
            let starts = (0..values.len()).step_by(200);
            for start in starts {
                let mut window: Vec<i16> = values[start..values.len().min(start + 300)].to_vec();
                let whole = window.len() == 300;
                if whole || (!pad.is_empty() && start + 100 < values.len()) {
                    window.resize(300, 0);
                    let raw: Vec<u8> = window.iter().flat_map(|v| v.to_le_bytes()).collect();
                    expected.push((format!("{name}@{start}"), json!(start), raw));
                }
            }
        }
        let found: Vec<_> = records(&bench)
            .iter()
            .map(|r| (r.metadata().id.clone(), metadata(r)["start"].clone(), r.field(0).to_vec()))
            .collect();
        assert_eq!(found.len(), expected.len(), "{format}");
        assert!(found == expected, "{format}");
        for record in records(&bench) {
            let (start, said) = (metadata(&record)["start"].as_u64().unwrap(), metadata(&record)["samples"].clone());
            // How many samples are no padding is told where there is some.
            let there = if record.metadata().id.starts_with('a') { a.len() } else { b.len() } as u64 - start;
            assert_eq!(said, if there < 300 { json!(there) } else { json!(null) });
            // A window's time is that of the recording; npy files say no rate.
            let time = record.metadata().fields[0].axes[0].coordinate.clone();
            let seconds: Option<f64> = time.map(|time| time.start.unwrap().to_string().parse().unwrap());
            assert_eq!(seconds, (format == "wav").then_some(start as f64 / 1000.0));
        }
        assert_eq!(report["shards"], found.len().div_ceil(7));
        // 10,000 = 48 * 200 + 300 + 100, 4,321 = 20 * 200 + 300 + 21.
        let ends = if pad.is_empty() {
            json!([{"arrays": 2, "samples": 121}, 0, 0])
        } else {
            json!([{"arrays": 0, "samples": 0}, 2, 2])
        };
        assert_eq!(json!([report["tails"], report["padded"], report["no_rate"]]), ends, "{format}");
    }
}

#[test]
fn arrays_keep_dtype_and_axes() {
    let bench = Bench::new();
    let raw: Vec<u8> = (0..48u8).collect();
    bench.write("iq.npy", npy("complex64", &[2, 3], &raw));
    published(&bench, &["--axes", "channel,time", "--sample-rate", "4"]);
    let found = records(&bench);
    assert_eq!((kind(&found[0]), &found[0].field(0)[..]), (("complex64".into(), vec![2, 3], "channel,time".into()), &raw[..]));
    let listed = listed(&bench);
    let axes = json!([{"name": "channel", "length": 2}, {"name": "time", "length": 3, "start": 0, "step": 0.25, "unit": "s"}]);
    assert_eq!(listed[0]["fields"]["signal"]["axes"], axes);
    for (args, words) in [
        (&["--axes", "time"][..], &["1 axes", "[2, 3]"][..]),
        (&["--axes", "channel,time", "--window", "1"], &["first axis", "'channel'"]),
        (&["--dtype", "int16"], &["iq.npy", "complex64", "int16"]),
    ] {
        std::fs::remove_dir_all(bench.path("out")).ok();
        publish(&bench, args).refused(words);
    }
    let bench = Bench::new();
    let wide: Vec<u8> = [1.5f64, -2.0, 3.0, 0.25].iter().flat_map(|v| v.to_le_bytes()).collect();
    bench.write("wide.npy", npy("complex128", &[2], &wide));
    publish(&bench, &[]).refused(&["wide.npy", "complex128", "help:"]);
    published(&bench, &["--dtype", "complex64"]);
    let narrow: Vec<u8> = [1.5f32, -2.0, 3.0, 0.25].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(records(&bench)[0].field(0), narrow);
}

#[test]
fn ids_are_unique() {
    let bench = Bench::new();
    for (i, name) in ["a.wav", "a.npy", "b.x.wav", "c/.hidden.wav"].iter().enumerate() {
        let values = samples(i as i32, 8);
        let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        bench.write(name, if name.ends_with("npy") { npy("int16", &[8], &raw) } else { wav(&values, 1, 8) });
    }
    published(&bench, &[]);
    let ids: Vec<_> = listed(&bench).iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, ["a.npy", "a.wav", "b.x", "c/.hidden"]);
}

#[test]
fn what_cannot_be_read_ends_the_run_and_leaves_nothing() {
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 100), 1, 8000));
    bench.write("b.flac", "fLaC and no more");
    publish(&bench, &[]).refused(&["b.flac", "--skip-bad"]);
    assert!(bench.left().is_empty());
    let report = published(&bench, &["--skip-bad"]);
    assert_eq!((&report["records"], &report["bad"][0]["source"]), (&json!(1), &json!("b.flac")));
    publish(&bench, &["--skip-bad"]).refused(&["out", "exists"]);
    bench.run(&["publish", "in", "other", "--skip-bad", "--window", "101"]).refused(&["nothing to publish", "1 too short"]);
    bench.run(&["publish", "in", "other", "--skip-bad", "--snapshot-id", "a/b"]).refused(&["snapshot id"]);
    bench.run(&["publish", "in", "other", "--skip-bad", "--metadata", "x"]).refused(&["KEY=TEXT"]);
    assert_eq!(bench.left(), ["out"]);
}

#[test]
fn a_file_that_fails_in_its_middle_leaves_nothing() {
    let bench = Bench::new();
    let flac = std::fs::read_dir(golden("arrays/flac")).unwrap().map(|e| e.unwrap().path());
    let flac = flac.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut damaged = std::fs::read(&flac).unwrap();
    bench.write("good.flac", &damaged);
    published(&bench, &[]);
    std::fs::remove_dir_all(bench.path("out")).unwrap();
    let middle = damaged.len() * 3 / 4;
    damaged[middle] ^= 0x10;
    bench.write("bad.flac", &damaged);
    publish(&bench, &[]).refused(&["bad.flac"]);
    assert!(bench.left().is_empty());
    assert_eq!(published(&bench, &["--skip-bad"])["bad"][0]["source"], "bad.flac");
}

#[test]
fn ls_says_what_is_there() {
    let bench = Bench::new();
    for i in 0..5 {
        bench.write(&format!("{i}.wav"), wav(&samples(i, 10), 1, 8000));
    }
    published(&bench, &["--records-per-shard", "2"]);
    let said = bench.run(&["ls", "out", "--from", "1", "--limit", "2"]);
    let line = |i: usize| format!("     {i}  {i}  signal float32[time 10]  sample_rate=8000.0 source={i}.wav subtype=PCM_16\n");
    assert_eq!(said.out, format!("{}{}2 of 5 records\n", line(1), line(2)));
    assert_eq!(bench.run(&["ls", "out"]).out.lines().count(), 5);
    let all = listed(&bench);
    assert_eq!((all.len(), &all[4]["index"], &all[4]["fields"]["signal"]["shape"]), (5, &json!(4), &json!([10])));
    bench.run(&["ls", "in"]).refused(&["root.json"]);
    bench.run(&["pack", "in", "packed"]);
    bench.run(&["ls", "packed"]).refused(&["Sedpack"]);
}

#[test]
fn a_repair_is_not_offered_where_nothing_can_be_built_anew() {
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 500), 1, 8000));
    published(&bench, &[]);
    assert!(bench.run(&["check", "out", "--repair", "--yes"]).out.starts_with("no commit to put back"));
    let mut folders = vec![bench.path("out/objects")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                let mut bytes = std::fs::read(&entry).unwrap();
                bytes[200] ^= 1;
                std::fs::write(&entry, bytes).unwrap();
            }
        }
    }
    let said = bench.run(&["check", "out"]);
    assert!(said.code == 1 && said.err.contains("objects/") && !said.err.contains("--repair"), "{}", said.err);
}

#[test]
fn an_id_that_is_a_number_counts_before_the_number() {
    let bench = Bench::new();
    for (name, value) in [("2", 20), ("a", 30), ("b", 40)] {
        bench.write(&format!("{name}.npy"), npy("int16", &[1], &i16::to_le_bytes(value)));
    }
    assert_eq!(bench.run(&["publish", "in", "out"]).code, 0);
    let shown = |args: &[&str]| {
        let said = bench.run(&[&["show", "out"], args].concat());
        assert_eq!((said.code, said.err.as_str()), (0, ""));
        said.out
    };
    // The records are 2, a, b.
    let by_id = shown(&["2"]);
    assert!(by_id.contains("signal int16[time 1]: 20") && by_id.contains("'2' is a name here, of number 0"), "{by_id}");
    let by_number = shown(&["--index", "2"]);
    assert!(by_number.contains("out 2 of 3: b") && !by_number.contains("a name here"), "{by_number}");
    assert!(shown(&["1"]).contains("out 1 of 3: a") && shown(&["b"]).contains("out 2 of 3: b"));
    assert!(shown(&[]).contains("out 0 of 3: 2"));
    bench.run(&["show", "out", "3"]).refused(&["there is no record 3", "0 to 2"]);
    bench.run(&["show", "out", "--index", "3"]).refused(&["there is no record 3", "0 to 2"]);
    bench.run(&["show", "out", "aa"]).refused(&["there is no record 'aa'"]);
    assert_eq!(bench.run(&["show", "out", "1", "--index", "1"]).code, 2);
    // The same of a JBOF data set.
    assert_eq!(bench.run(&["import", "in", "items"]).code, 0);
    let shown = |args: &[&str]| bench.run(&[&["show", "items"], args].concat()).out;
    assert!(shown(&["2"]).contains("'2' is a name here, of number 0; number 2 is shown by --index 2"), "{}", shown(&["2"]));
    assert!(shown(&["--index", "2"]).contains("items 2 of 3: b"), "{}", shown(&["--index", "2"]));
}
