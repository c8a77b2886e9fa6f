//! What a newcomer meets: JBOF data sets where recordings are expected, names that were used before, shares of splits.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use common::{Bench, Said, samples, wav};
use serde_json::json;
use sigbank::layout;
use sigbank::layout::signal_dataset::{Dataset, Which};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn done(said: Said) -> Said {
    assert_eq!(said.code, 0, "{} {}", said.out, said.err);
    said
}

/// A JBOF data set with one item, as another program may leave it.
fn speech(bench: &Bench) {
    bench.write("speech/take/_metadata.json", br#"{"speaker": 7}"#);
    bench.write("speech/take/voice.wav", wav(&samples(1, 500), 1, 8000));
    bench.write("speech/take/voice.json", br#"{"_filename": "voice.wav"}"#);
    bench.write("speech/_metadata.json", br#"{"_itemformat": null}"#);
}

#[test]
fn data_sets_of_jbof_are_not_packed_without_their_metadata_unknowingly() {
    let bench = Bench::new();
    speech(&bench);
    for command in ["publish", "pack"] {
        bench.run(&[command, "in/speech", "out"]).refused(&["in/speech", "JBOF data set", "lose the metadata", "--as-files"]);
        assert!(!bench.path("out").exists());
        let report = done(bench.run(&[command, "in/speech", "out", "--as-files", "--json"])).json();
        assert_eq!((&report["files"], report["others"].as_array().unwrap().len()), (&count(command), 3), "{report}");
        std::fs::remove_dir_all(bench.path("out")).unwrap();
    }
    // An item's folder is a folder of files.
    done(bench.run(&["pack", "in/speech/take", "out"]));
}

fn count(command: &str) -> serde_json::Value {
    if command == "pack" { json!({"train": 1}) } else { json!(1) }
}

fn ids(dataset: &Dataset) -> BTreeSet<String> {
    dataset.metadata_batches(0..dataset.len()).flat_map(Result::unwrap).map(|record| record.id).collect()
}

#[test]
fn gc_says_that_jbof_needs_none() {
    let bench = Bench::new();
    speech(&bench);
    bench.run(&["gc", "in/speech"]).refused(&["for Sedpack datasets and signal-datasets", "JBOF", "nothing to do"]);
    bench.run(&["gc", "in/speech", "--older-than", "0s", "--delete", "--yes"]).refused(&["JBOF"]);
    assert!(bench.path("in/speech/take/voice.wav").exists());
}

#[test]
fn recordings_of_names_that_were_used_before_are_appended_behind_their_folders() {
    let bench = Bench::new();
    for (day, seed) in [("monday", 1), ("tuesday", 2)] {
        bench.write(&format!("{day}/a.wav"), wav(&samples(seed, 100), 1, 8000));
    }
    done(bench.run(&["publish", "in/monday", "out"]));
    let append = ["--as-version", "more", "--append"];
    let publish = |more: &[&str]| bench.run(&[&["publish"], more, &append].concat());
    publish(&["in/tuesday", "out"]).refused(&["a record 'a' already", "--prefix-ids"]);
    done(publish(&["in/tuesday", "out", "--prefix-ids"]));
    let dataset = Dataset::open(&bench.path("out"), Default::default()).unwrap().version(&Which::Latest).unwrap();
    assert_eq!(ids(&dataset), ["a", "tuesday/a"].map(String::from).into());
    // Of a file the folder that it is in; several folders are not named twice.
    done(bench.run(&["publish", "in/monday/a.wav", "in/tuesday", "two", "--prefix-ids"]));
    let two = Dataset::open(&bench.path("two"), Default::default()).unwrap();
    assert_eq!(ids(&two), ["monday/a", "tuesday/a"].map(String::from).into());
    bench
        .run(&["publish", "in/monday/a.wav", "in/monday", "three", "--prefix-ids"])
        .refused(&["two recordings would have the id 'monday/a'"]);
}

#[test]
fn shares_tell_what_was_asked_for() {
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 400), 1, 8000));
    bench.packed(&["--window", "100", "--examples-per-shard", "1"]);
    let said = done(bench.run(&["split", "out", "new", "--split", "train=0.8,test=0.2"]));
    assert!(said.out.contains("train 75.0 % (asked: 80.0 %), test 25.0 % (asked: 20.0 %)"), "{}", said.out);
}

#[test]
fn who_asks_for_windows_is_told_where_they_are_cut() {
    let bench = Bench::new();
    speech(&bench);
    bench.write("plain/a.wav", wav(&samples(1, 400), 1, 8000));
    done(bench.run(&["publish", "in/plain", "signals"]));
    done(bench.run(&["pack", "in/plain", "out"]));
    let asked = |name: &str| layout::open(bench.path(name).to_str().unwrap()).unwrap();
    let twice = asked("in/speech").windows("voice", 100, 100).unwrap();
    for (source, sentence, advice) in [
        (asked("out"), "the examples of a Sedpack dataset are not cut", "sigbank pack --window"),
        (asked("signals"), "the records of a signal-dataset are not cut", "sigbank publish --window"),
        (twice, "these are windows already", "take windows of the dataset"),
    ] {
        let e = source.windows("signal", 10, 10).unwrap_err();
        assert!(e.message().starts_with(sentence) && e.remedy_text().unwrap().contains(advice), "{e}");
        assert!(e.path().is_some());
    }
}

/// A file of this ending.
fn shard(folder: &Path, ending: &str) -> Option<PathBuf> {
    let mut paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.find_map(|path| match path.is_dir() {
        true => shard(&path, ending),
        false => Some(path).filter(|path| path.extension().is_some_and(|e| e == ending)),
    })
}

#[test]
fn damage_in_a_compressed_shard_is_told_of_all_its_examples() {
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 40_000), 1, 8000));
    for (compression, kind) in [("LZ4", "fb"), ("GZIP", "fb"), ("ZSTD", "fb"), ("ZIP", "npz")] {
        let form = ["--window", "1000", "--compression", compression, "--shard-file-type", kind];
        bench.packed(&form);
        let shard = shard(&bench.path("out/train"), kind).unwrap();
        let mut bytes = std::fs::read(&shard).unwrap();
        let middle = bytes.len() / 2;
        bytes.iter_mut().skip(middle).take(64).for_each(|byte| *byte ^= 0x5a);
        std::fs::write(&shard, bytes).unwrap();
        let e = layout::read(&*bench.open(), "train", &[39], &[0, 1, 2, 3]).unwrap_err();
        let shard = shard.file_name().unwrap().to_str().unwrap();
        assert!(e.path().unwrap().ends_with(shard), "{e}");
        let advice = e.remedy_text().unwrap_or_default();
        assert!(advice.contains("all its 40 examples") && advice.contains("sigbank check"), "{compression}: {e}");
        std::fs::remove_dir_all(bench.path("out")).unwrap();
    }
}
