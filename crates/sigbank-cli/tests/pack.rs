//! `sigbank pack`, from the files on disk to the values in the dataset.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use common::{Bench, floats, golden, npy, samples, wav};
use serde_json::json;
use sigbank::layout;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn windows_hold_the_samples_of_their_place() {
    let bench = Bench::new();
    let (a, b) = (samples(1, 1000), samples(2, 700));
    bench.write("deep/a.wav", wav(&a, 1, 8000));
    bench.write("B.WAV", wav(&b, 1, 8000));
    let report = bench.packed(&["--window", "300", "--hop", "200", "--examples-per-shard", "3"]);
    assert_eq!(report["records"], json!({"train": 7}));
    // Of a, 0..300 … 600..900: 100 left; of b, 0..300 … 400..700: none left.
    assert_eq!(report["tails"], json!({"arrays": 1, "samples": 100}));
    let expected: Vec<_> = [("B.WAV", &b, 3), ("deep/a.wav", &a, 4)]
        .iter()
        .flat_map(|(name, values, n)| {
            (0..*n).map(move |i| (floats(&values[i * 200..i * 200 + 300]), i as i64 * 200, name.to_string(), 8000.0))
        })
        .collect();
    assert_eq!(bench.records("train"), expected);
    assert_eq!(bench.signal(), "float32[300]");
}

#[test]
fn padding_fills_the_last_window_with_zeros() {
    let bench = Bench::new();
    let a = samples(3, 250);
    bench.write("a.wav", wav(&a, 1, 44100));
    bench.write("short.wav", wav(&a[..7], 1, 44100));
    let report = bench.packed(&["--window", "100", "--pad"]);
    assert_eq!(
        (&report["records"], &report["padded"], &report["tails"]["samples"]),
        (&json!({"train": 4}), &json!(2), &json!(0))
    );
    let records = bench.records("train");
    let mut last = a[200..].to_vec();
    last.resize(100, 0);
    assert_eq!((&records[2].0, records[2].1), (&floats(&last), 200));
    let mut short = a[..7].to_vec();
    short.resize(100, 0);
    assert_eq!((&records[3].0, records[3].2.as_str()), (&floats(&short), "short.wav"));
}

#[test]
fn windows_far_apart_and_windows_over_many_blocks_are_right() {
    let a = samples(4, 400_000);
    for (window, hop) in [(7usize, 99_999usize), (100_000, 6000), (1, 100_000)] {
        let bench = Bench::new();
        bench.write("a.wav", wav(&a, 1, 44100));
        let (w, h) = (window.to_string(), hop.to_string());
        bench.packed(&["--window", &w, "--hop", &h, "--compression", "none"]);
        let records = bench.records("train");
        assert_eq!(records.len(), (400_000 - window) / hop + 1);
        for (i, (signal, start, ..)) in records.iter().enumerate() {
            assert_eq!((signal, *start), (&floats(&a[i * hop..i * hop + window]), (i * hop) as i64), "{window} {hop} {i}");
        }
    }
}

#[test]
fn every_format_gives_the_values_that_soundfile_reads() {
    let described = std::fs::read_to_string(golden("arrays/audio.json")).unwrap();
    let described: BTreeMap<String, serde_json::Value> = serde_json::from_str(&described).unwrap();
    let mut kinds = BTreeMap::new();
    for (name, info) in &described {
        let extension = name.rsplit_once('.').unwrap().1;
        let expected = golden(&format!("arrays/expected/{name}.npy"));
        if info["frames"].as_u64().unwrap_or(0) == 0 || !expected.exists() {
            continue;
        }
        let bench = Bench::new();
        bench.copy_golden(&format!("arrays/{extension}/{name}"));
        if name == "over_range_double.wav" {
            bench.pack(&["--dtype", "float32"]).refused(&[name, "does not fit float32", "--dtype"]);
        }
        let wide = ["PCM_32", "DOUBLE"].contains(&info["subtype"].as_str().unwrap());
        assert_eq!(bench.packed(&[])["dtype"], if wide { "float64" } else { "float32" }, "{name}");
        let file = std::sync::Arc::new(bytes(&std::fs::read(expected).unwrap()));
        let array = sigbank_format::array::open(file, sigbank_format::array::Format::Npy).unwrap().read_all().unwrap();
        let expected = sigbank::convert::magnitudes(array.dtype(), array.data()).unwrap();
        let records = bench.records("train");
        let raw = &records[0].0;
        let found: Vec<f64> = if wide {
            raw.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
        } else {
            raw.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect()
        };
        assert_eq!(found.len(), expected.len(), "{name}");
        // Vorbis decoders differ in the last bits.
        let slack = if name.ends_with("ogg") { 1e-6 } else { 0.0 };
        let near = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= slack;
        assert!(found.iter().zip(&expected).all(|(a, b)| near(*a, *b)), "{name}");
        let rate = info["sample_rate"].as_f64().filter(|r| *r > 0.0);
        assert!(if let Some(rate) = rate { records[0].3 == rate } else { records[0].3.is_nan() }, "{name}");
        *kinds.entry(extension.to_owned()).or_insert(0) += 1;
    }
    assert!(kinds.len() == 3 && kinds.values().all(|&n| n >= 3), "{kinds:?}");
}

fn bytes(content: &[u8]) -> bytes::Bytes {
    content.to_vec().into()
}

#[test]
fn arrays_keep_their_dtype_and_rows_become_records() {
    let bench = Bench::new();
    let values: Vec<u8> = (0..60u16).flat_map(|v| (v * 999).to_le_bytes()).collect();
    bench.write("traces.npy", npy("uint16", &[10, 6], &values));
    let report = bench.packed(&["--rows"]);
    assert_eq!((&report["records"], bench.signal().as_str()), (&json!({"train": 10}), "uint16[6]"));
    assert_eq!(report["no_rate"], 1);
    for (i, (signal, start, source, rate)) in bench.records("train").into_iter().enumerate() {
        assert_eq!((&signal[..], start, source.as_str()), (&values[i * 12..i * 12 + 12], i as i64, "traces.npy"));
        assert!(rate.is_nan());
    }
}

#[test]
fn an_npz_gives_each_of_its_arrays() {
    for name in ["stored.npz", "deflated.npz"] {
        let bench = Bench::new();
        bench.copy_golden(&format!("arrays/npz/{name}"));
        let said = bench.pack(&["--rows", "--json"]);
        // Its arrays differ in dtype: refused with a list that names them by member.
        said.refused(&["differ in dtype", &format!("{name}#"), "--dtype"]);
    }
}

#[test]
fn integers_stay_as_they_stand_when_asked_for() {
    let bench = Bench::new();
    let a = samples(5, 64);
    bench.write("a.wav", wav(&a, 2, 96000));
    bench.packed(&["--dtype", "int16"]);
    let raw: Vec<u8> = a.iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!((bench.signal().as_str(), bench.records("train")[0].0.clone()), ("int16[32, 2]", raw));
}

#[test]
fn channels_are_mixed_or_picked() {
    let (left, right) = (samples(6, 50), samples(7, 50));
    let stereo: Vec<i16> = left.iter().zip(&right).flat_map(|(l, r)| [*l, *r]).collect();
    let files = |bench: &Bench| {
        bench.write("mono.wav", wav(&left, 1, 44100));
        bench.write("stereo.wav", wav(&stereo, 2, 44100));
    };
    let bench = Bench::new();
    files(&bench);
    bench.pack(&[]).refused(&["differ in channels", "mono.wav", "stereo.wav", "--mono", "--channel"]);
    bench.packed(&["--mono"]);
    let mean: Vec<u8> =
        left.iter().zip(&right).flat_map(|(l, r)| (((f64::from(*l) + f64::from(*r)) / 65536.0) as f32).to_le_bytes()).collect();
    let records = bench.records("train");
    assert_eq!((&records[0].0, &records[1].0), (&floats(&left), &mean));
    let bench = Bench::new();
    files(&bench);
    bench.pack(&["--channel", "1"]).refused(&["mono.wav", "channel 1"]);
    bench.packed(&["--channel", "0"]);
    assert_eq!(bench.records("train")[1].0, floats(&left));
}

#[test]
fn a_file_is_in_one_split_as_a_whole() {
    let bench = Bench::new();
    for i in 0..20 {
        bench.write(&format!("{i}.wav"), wav(&samples(i, 400), 1, 8000));
    }
    let args = ["--window", "100", "--split", "train=0.7,test=0.2,holdout=0.1", "--seed", "3"];
    let report = bench.packed(&args);
    assert_eq!(report["files"], json!({"train": 14, "test": 4, "holdout": 2}));
    assert_eq!(report["records"], json!({"train": 56, "test": 16, "holdout": 8}));
    let of = |bench: &Bench| -> BTreeMap<String, Vec<String>> {
        ["train", "test", "holdout"]
            .into_iter()
            .map(|s| {
                let mut names: Vec<_> = bench.records(s).into_iter().map(|r| r.2).collect();
                names.dedup();
                (s.to_owned(), names)
            })
            .collect()
    };
    let first = of(&bench);
    let mut all: Vec<_> = first.values().flatten().collect();
    assert_eq!(all.len(), 20);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 20);
    std::fs::remove_dir_all(bench.path("out")).unwrap();
    bench.packed(&args);
    assert_eq!(of(&bench), first);
    std::fs::remove_dir_all(bench.path("out")).unwrap();
    bench.packed(&[&args[..4], &["--seed", "4"]].concat());
    assert_ne!(of(&bench), first);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let bench = Bench::new();
    for i in 0..9 {
        bench.write(&format!("{i}.wav"), wav(&samples(i, 100 * i as usize + 50), 1, 8000));
    }
    let mut seen = Vec::new();
    for threads in ["1", "2", "5"] {
        bench.packed(&["--window", "50", "--threads", threads]);
        seen.push(bench.records("train"));
        std::fs::remove_dir_all(bench.path("out")).unwrap();
    }
    assert_eq!(seen[0].len(), 81);
    assert!(seen[0] == seen[1] && seen[1] == seen[2]);
}

#[test]
fn what_is_left_out_is_told() {
    let bench = Bench::new();
    bench.write("train_1.wav", wav(&samples(1, 100), 1, 8000));
    bench.write("valid/test.wav", wav(&samples(2, 100), 1, 8000));
    bench.write("tiny.wav", wav(&samples(3, 9), 1, 8000));
    bench.write("empty.wav", wav(&[], 1, 8000));
    for litter in [".DS_Store", "._train_1.wav", "__MACOSX/train_1.wav", "Thumbs.db", "valid/desktop.ini", "a.wav~", ".nfs0001"] {
        bench.write(litter, "x");
    }
    bench.write("notes.txt", "x");
    bench.write("valid/readme.md", "x");
    let report = bench.packed(&["--window", "50"]);
    assert_eq!((&report["records"], &report["litter"]), (&json!({"train": 4}), &json!(7)));
    assert_eq!(report["others"], json!(["notes.txt", "valid/readme.md"]));
    assert_eq!(
        report["too_short"],
        json!([{"source": "empty.wav", "reason": "0 samples"}, {"source": "tiny.wav", "reason": "9 samples"}])
    );
    std::fs::remove_dir_all(bench.path("out")).unwrap();
    let said = bench.pack(&["--window", "50"]);
    for words in [
        "4 examples (train 4 from 2 files)",
        "2 recordings too short",
        "tiny.wav: 9 samples",
        "notes.txt, valid/readme.md",
        "7 files left by",
    ] {
        assert!(said.out.contains(words), "no '{words}' in: {}", said.out);
    }
}

#[test]
fn several_folders_and_a_moved_dataset() {
    let bench = Bench::new();
    bench.write("one/x.wav", wav(&samples(1, 10), 1, 8000));
    bench.write("two/x.wav", wav(&samples(2, 10), 1, 8000));
    let said = bench.run(&["pack", "in/one", "in/two", "out", "--compression", "lz4", "--checksums", "sha256,xxh64"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let sources: Vec<_> = bench.records("train").into_iter().map(|r| r.2).collect();
    assert_eq!(sources, ["one/x.wav", "two/x.wav"]);
    std::fs::rename(bench.path("out"), bench.path("moved")).unwrap();
    assert_eq!(bench.run(&["check", "moved"]).code, 0);
}

#[test]
fn the_licence_is_the_users_own_or_none() {
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 10), 1, 8000));
    let metadata = |args: &[&str]| {
        bench.packed(args);
        let root = std::fs::read(bench.path("out/dataset_info.json")).unwrap();
        std::fs::remove_dir_all(bench.path("out")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&root).unwrap()["metadata"].clone()
    };
    let silent = metadata(&[]);
    assert_eq!((&silent["dataset_license"], &silent["description"]), (&json!(""), &json!("")));
    let said = metadata(&["--license", "CC0-1.0", "--description", "ten samples"]);
    assert_eq!((&said["dataset_license"], &said["description"]), (&json!("CC0-1.0"), &json!("ten samples")));
}

#[test]
fn samples_of_more_than_24_bits_are_exact_unless_asked_otherwise() {
    let bench = Bench::new();
    // One 32-bit value that float32 would round, its file under a header that was of 16 bits.
    let mut wide = wav(&[1, 0x4000, 0, 0], 1, 8000);
    wide[32..36].copy_from_slice(&[4, 0, 32, 0]);
    bench.write("wide.wav", wide);
    bench.write("narrow.wav", wav(&samples(1, 2), 1, 8000));
    let report = bench.packed(&[]);
    assert_eq!((&report["dtype"], &report["wide"]), (&json!("float64"), &json!("wide.wav")));
    let records = bench.records("train");
    let value = f64::from(0x4000_0001) / f64::from(1u32 << 31);
    assert_eq!(records[1].0, [value.to_le_bytes(), [0; 8]].concat());
    let narrow: Vec<u8> = samples(1, 2).iter().flat_map(|v| (f64::from(*v) / 32768.0).to_le_bytes()).collect();
    assert_eq!(records[0].0, narrow);
    std::fs::remove_dir_all(bench.path("out")).unwrap();
    let said = bench.pack(&[]);
    assert!(said.out.contains("stored as float64, which wide.wav"), "{}", said.out);
    std::fs::remove_dir_all(bench.path("out")).unwrap();
    let report = bench.packed(&["--dtype", "float32"]);
    assert_eq!((&report["dtype"], &report["wide"]), (&json!("float32"), &json!(null)));
    assert_eq!(bench.records("train")[1].0, [(value as f32).to_le_bytes(), [0; 4]].concat());
}

#[test]
fn npz_shards_hold_the_same_and_info_says_how_they_are_stored() {
    let bench = Bench::new();
    let a = samples(9, 1000);
    bench.write("ä.wav", wav(&a, 1, 44100));
    for (args, stored) in [(&[][..], "ZIP"), (&["--compression", "none"][..], "not compressed")] {
        let args = [&["--window", "400", "--hop", "300", "--shard-file-type", "npz", "--examples-per-shard", "2"], args].concat();
        bench.packed(&args);
        let expected: Vec<_> =
            [0usize, 300, 600].iter().map(|&at| (floats(&a[at..at + 400]), at as i64, "ä.wav".to_owned(), 44100.0)).collect();
        assert_eq!(bench.records("train"), expected);
        let info = bench.run(&["info", "out", "--json"]).json();
        assert_eq!(info["storage"], format!("npz shards of at most 2 records, {stored}"));
        assert_eq!(bench.run(&["check", "out", "--json"]).json()["ok"], json!(true));
        std::fs::remove_dir_all(bench.path("out")).unwrap();
    }
    bench.pack(&["--window", "400", "--shard-file-type", "npz", "--compression", "lz4"]).refused(&["npz", "LZ4", "ZIP"]);
}

/// The sources in each split of a dataset.
fn sources(bench: &Bench, dataset: &str) -> Vec<BTreeSet<String>> {
    let source = layout::open(bench.path(dataset).to_str().unwrap()).unwrap();
    let of = |split: &layout::Split| {
        let all: Vec<u64> = (0..split.records).collect();
        let rows = layout::read(&*source, &split.name, &all, &[2]).unwrap();
        rows.into_iter().map(|row| String::from_utf8(row[0].clone()).unwrap()).collect()
    };
    source.splits().iter().map(of).collect()
}

fn together(parts: &[BTreeSet<String>]) -> bool {
    parts.iter().map(BTreeSet::len).sum::<usize>() == parts.iter().flatten().collect::<BTreeSet<_>>().len()
}

#[test]
fn windows_of_one_recording_are_divided_together_or_it_is_told() {
    let bench = Bench::new();
    for i in 0..10 {
        bench.write(&format!("{i}.wav"), wav(&samples(i, 1000 + 100 * i as usize), 1, 8000));
    }
    let array = npy("int16", &[300], &[1; 600]);
    bench.write("11.npy", array);
    assert_eq!(
        bench
            .run(&[
                "pack",
                "in",
                "out",
                "--window",
                "100",
                "--examples-per-shard",
                "4",
                "--sample-rate",
                "8000",
                "--dtype",
                "float32"
            ])
            .code,
        0
    );
    let shares = ["--split", "train=0.5,test=0.5"];
    let split = |dest: &str, by: &str| bench.run(&[&["split", "out", dest, "--by", by], &shares[..]].concat());
    let spread = split("by-shard", "shard");
    assert!(
        spread.code == 0 && spread.out.contains("are in several splits") && spread.out.contains("--by recording"),
        "{}",
        spread.out
    );
    assert!(!together(&sources(&bench, "by-shard")));
    let whole = split("by-recording", "recording");
    assert!(
        whole.code == 0 && !whole.out.contains("warning") && whole.out.contains("shares: train "),
        "{} {}",
        whole.out,
        whole.err
    );
    let parts = sources(&bench, "by-recording");
    assert!(together(&parts) && parts.iter().map(BTreeSet::len).sum::<usize>() == 11, "{parts:?}");
    let told = bench.run(&["split", "out", "told", "--by", "example", "--split", "train=0.8,test=0.2", "--json"]).json();
    assert_eq!(told["spread_over_splits"]["first"], "0.wav");
    assert!(told["spread_over_splits"]["recordings"].as_u64().unwrap() > 8, "{told}");
    assert_eq!(told["shares"]["train"]["asked"], 0.8);
    assert_eq!(bench.run(&["pack", "in/0.wav", "in/9.wav", "two", "--window", "100"]).code, 0);
    let said = bench.run(&["split", "two", "far", "--by", "recording", "--split", "train=0.5,test=0.5"]);
    assert!(said.out.contains("far from what was asked for; there are only 2"), "{} {}", said.out, said.err);
    // What has no recordings is told what to do.
    bench
        .run(&["split", golden("sedpack/splits").to_str().unwrap(), "no", "--by", "recording", "--split", "train=1"])
        .refused(&["'source'", "sigbank pack"]);
    bench.run(&["split", "out", "no", "--by", "subject", "--split", "train=1"]).refused(&[
        "no key 'subject'",
        "--by recording",
        "pack anew",
    ]);
}

#[test]
fn what_the_names_say_stays_together() {
    let bench = Bench::new();
    for i in 0..12 {
        bench.write(&format!("{i:02}_s{}.wav", i % 4), wav(&samples(i, 400), 1, 8000));
    }
    let said = bench.pack(&["--window", "100", "--by", "{}_{subject}.wav", "--split", "train=0.5,test=0.25,holdout=0.25"]);
    assert!(
        said.code == 0
            && said.out.contains("kept together, as --by says: 4 groups of 12 files (train 2, test 1, holdout 1)")
            && !said.out.contains("warning"),
        "{} {}",
        said.out,
        said.err
    );
    let subjects = |dataset: &str| -> Vec<BTreeSet<String>> {
        sources(&bench, dataset).into_iter().map(|part| part.into_iter().map(|name| name[3..5].to_owned()).collect()).collect()
    };
    let parts = subjects("out");
    assert!(together(&parts) && parts.iter().map(BTreeSet::len).sum::<usize>() == 4, "{parts:?}");
    let source = bench.open();
    for split in source.splits() {
        for unit in 0..split.units as usize {
            assert!(source.unit_metadata(&split.name, unit).unwrap()["subject"].as_str().unwrap().starts_with('s'));
        }
    }
    // And is divided anew by it.
    let said = bench.run(&["split", "out", "anew", "--by", "subject", "--split", "train=0.75,test=0.25", "--seed", "1"]);
    assert!(
        said.code == 0 && said.out.contains("values of 'subject': train 3, test 1") && !said.out.contains("warning"),
        "{}",
        said.out
    );
    assert!(together(&subjects("anew")));
    // A name for what need not stay together keeps nothing together.
    let said =
        bench.run(&["pack", "in", "pairs", "--window", "100", "--by", "{n:int}_{subject}.wav", "--split", "train=0.5,test=0.5"]);
    assert!(said.out.contains("12 groups of 12 files") && said.out.contains("warning: every group has one file"), "{}", said.out);
    assert!(said.out.contains("write {} for the rest"), "{}", said.out);
    for (by, words) in
        [("{a}/{b}.wav", &["00_s0.wav", "--by", "--skip-bad"][..]), ("subject", &["no key"]), ("{subject", &["--by"])]
    {
        bench.run(&["pack", "in", "no", "--window", "100", "--by", by]).refused(words);
    }
    bench
        .run(&["pack", "in/00_s0.wav", "few", "--window", "100", "--by", "{}_{subject}.wav", "--split", "train=0.5,test=0.5"])
        .refused(&["1 different subject", "2 splits"]);
}
