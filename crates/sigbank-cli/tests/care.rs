//! `sigbank merge`, `split`, `recompress`, and `gc` of Sedpack datasets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use common::{Bench, Said, npy, samples, sigbank, wav};
use serde_json::json;
use sigbank::layout;
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, SystemTime};

/// Folders of recordings and a dataset of each: `one` (a.wav, b.wav) and `two` (c.wav), 100 samples a record.
fn bench() -> Bench {
    let bench = Bench::new();
    for (name, files) in [("one", &["a.wav", "b.wav"][..]), ("two", &["c.wav"])] {
        fs::create_dir(bench.path(&format!("{name}-in"))).unwrap();
        for file in files {
            let seed = i32::from(file.as_bytes()[0]);
            fs::write(bench.path(&format!("{name}-in/{file}")), wav(&samples(seed, 1000), 1, 8000)).unwrap();
        }
        let args = ["pack", &format!("{name}-in"), name, "--window", "100", "--examples-per-shard", "2", "--compression", "LZ4"];
        assert_eq!(bench.run(&args).code, 0);
        fs::remove_dir_all(bench.path(&format!("{name}-in"))).unwrap();
    }
    bench
}

/// The source and the start of each record of a split, after a look at its samples.
fn records(bench: &Bench, dataset: &str, split: &str) -> Vec<(String, i64)> {
    let source = layout::open(bench.path(dataset).to_str().unwrap()).unwrap();
    let all: Vec<u64> = (0..source.units(split).unwrap().records()).collect();
    let rows = layout::read(&*source, split, &all, &[0, 1, 2]).unwrap();
    let one = |row: Vec<Vec<u8>>| {
        let (file, start) = (String::from_utf8(row[2].clone()).unwrap(), i64::from_le_bytes(row[1][..].try_into().unwrap()));
        let whole = samples(i32::from(file.as_bytes()[0]), 1000);
        assert_eq!(row[0], common::floats(&whole[start as usize..start as usize + 100]));
        (file, start)
    };
    rows.into_iter().map(one).collect()
}

fn of(files: &[&str]) -> Vec<(String, i64)> {
    files.iter().flat_map(|file| (0..10).map(move |i| ((*file).to_owned(), i * 100))).collect()
}

#[track_caller]
fn done(bench: &Bench, args: &[&str]) -> Said {
    let said = bench.run(args);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    said
}

#[test]
fn merged_shards_are_those_of_all() {
    let bench = bench();
    let said = done(&bench, &["merge", "one", "two", "both"]);
    assert!(said.out.starts_with("merged 2 datasets into both: 30 examples (train 30) in 15 shards, "), "{}", said.out);
    assert!(said.out.trim_end().lines().last().unwrap().starts_with("root sha256:"), "{}", said.out);
    assert_eq!(records(&bench, "both", "train"), of(&["a.wav", "b.wav", "c.wav"]));
    let json = done(&bench, &["merge", "two", "one", "reversed", "--metadata-from", "one", "--json"]).json();
    assert_eq!((&json["records"], &json["splits"][0]["units"], &json["renamed"]), (&json!(30), &json!(15), &json!(0)));
    assert_eq!(records(&bench, "reversed", "train"), of(&["c.wav", "a.wav", "b.wav"]));
    assert_eq!(done(&bench, &["check", "reversed", "--json"]).json()["root"], json["root"]);
    bench.run(&["merge", "one", "two", "both"]).refused(&["both", "exists"]);
    bench.run(&["merge", "one", "one", "new"]).refused(&["given twice"]);
    bench.run(&["merge", "one", "two", "one/new"]).refused(&["lies in one"]);
    bench.run(&["merge", "one", "new", "--metadata-from", "two"]).refused(&["--metadata-from"]);
    done(&bench, &["recompress", "two", "other", "--compression", "zstd"]);
    bench.run(&["merge", "one", "other", "new"]).refused(&["compression is ZSTD, there it is LZ4", "sigbank recompress"]);
    assert!(!bench.path("new").exists() && bench.left().iter().all(|n| !n.starts_with('.')), "{:?}", bench.left());
}

#[test]
fn divided_examples_are_all_there_once() {
    let bench = bench();
    let shares = ["--split", "train=0.8,test=0.1,holdout=0.1"];
    let json =
        done(&bench, &[&["split", "one", "parts", "--by", "example", "--seed", "3", "--json"], &shares[..]].concat()).json();
    assert_eq!(json["groups"], json!({"train": 16, "test": 2, "holdout": 2}));
    let parts = ["train", "test", "holdout"].map(|split| records(&bench, "parts", split));
    assert_eq!(parts.each_ref().map(Vec::len), [16, 2, 2]);
    let all: BTreeSet<_> = parts.concat().into_iter().collect();
    assert_eq!(all, of(&["a.wav", "b.wav"]).into_iter().collect());
    let said = done(&bench, &["split", "one", "shards", "--split", "train=0.5,test=0.5"]);
    assert!(said.out.starts_with("divided one into shards: 20 examples (train 10, test 10) in 10 shards"), "{}", said.out);
    bench
        .run(&["split", "one", "new", "--split", "train=0.5,test=0.5", "--by", "subject"])
        .refused(&["no key 'subject'", "it has none"]);
    assert_eq!(bench.run(&["split", "one", "new", "--split", "train=0.5"]).code, 2);
    assert_eq!(bench.run(&["split", "one", "new"]).code, 2);
}

#[test]
fn a_recompressed_dataset_holds_the_same() {
    let bench = bench();
    let args = ["recompress", "one", "new", "--compression", "none", "--examples-per-shard", "16", "--checksums", "xxh64,md5"];
    let said = done(&bench, &args);
    assert!(said.out.starts_with("wrote one anew as new: 20 examples (train 20) in 2 shards\nroot xxh64:"), "{}", said.out);
    assert_eq!(records(&bench, "new", "train"), of(&["a.wav", "b.wav"]));
    assert_eq!(done(&bench, &["check", "new"]).code, 0);
    let said = done(&bench, &["recompress", "one", "zipped", "--shard-file-type", "npz"]);
    assert!(said.out.contains("compression: ZIP, since npz shards cannot have that of the dataset"), "{}", said.out);
    assert_eq!(records(&bench, "zipped", "train"), of(&["a.wav", "b.wav"]));
    let refused = bench.run(&["recompress", "one", "x", "--shard-file-type", "npz", "--compression", "LZ4"]);
    refused.refused(&["'npz' shards cannot have compression 'LZ4'"]);
    bench.run(&["recompress", "none", "x", "--json"]).refused(&["none"]);
    for command in ["merge", "split", "recompress", "check"] {
        let said = sigbank(&[command, "--help"]);
        assert!(said.code == 0 && said.out.contains("Usage: sigbank") && said.out.contains("--json"), "{}", said.err);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    struct Mount(std::path::PathBuf);
    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg(&self.0).status();
        }
    }
    let bench = Bench::new();
    bench.write("a.npy", npy("uint8", &[3 << 20], &vec![7; 3 << 20]));
    bench.packed(&["--window", "1000", "--compression", "zstd"]);
    let disk = bench.path("disk");
    fs::create_dir(&disk).unwrap();
    let mount = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&disk).output();
    if !mount.is_ok_and(|m| m.status.success()) {
        println!("skipped: only root may mount a filesystem here");
        return;
    }
    let _mount = Mount(disk.clone());
    done(&bench, &["recompress", "out", "plain", "--compression", "none"]);
    for args in [
        &["recompress", "out", "disk/new", "--compression", "none"][..],
        &["recompress", "out", "disk/new", "--compression", "none", "--shard-file-type", "npz", "--threads", "1"],
        &["merge", "plain", "disk/new"],
        &["split", "plain", "disk/new", "--split", "train=1"],
        &["split", "plain", "disk/new", "--split", "train=1", "--by", "example"],
    ] {
        bench.run(args).refused(&["No space left", "the disk is full: free some space"]);
        assert_eq!(fs::read_dir(&disk).unwrap().count(), 0, "{args:?}");
    }
    done(&bench, &["split", "out", "disk/new", "--split", "train=1", "--by", "example"]);
}

#[cfg(unix)]
#[test]
fn a_killed_run_is_invisible_and_the_next_one_cleans_up() {
    let bench = Bench::new();
    for i in 0..8 {
        bench.write(&format!("{i}.npy"), npy("uint8", &[4 << 20], &vec![i; 4 << 20]));
    }
    bench.packed(&["--window", "4000", "--hop", "500", "--compression", "LZ4"]);
    for args in [
        &["recompress", "out", "new", "--compression", "LZMA"][..],
        &["split", "out", "new", "--split", "train=1", "--by", "example"],
        &["merge", "out", "new"],
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sigbank"));
        let mut child = command.args(args).current_dir(bench.path("")).stdout(std::process::Stdio::null()).spawn().unwrap();
        // Killed once it has begun to write; a merge of these may be done by then.
        let begun = std::time::Instant::now();
        let hidden = |n: &String| n.starts_with(".new") && bench.path(n).join("train").exists();
        while !bench.left().iter().any(hidden) && child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed().as_secs() < 60);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let ended = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(ended || args[0] == "merge" || !bench.path("new").exists());
        if bench.path("new").exists() {
            assert_eq!(bench.run(&["check", "new"]).code, 0);
            fs::remove_dir_all(bench.path("new")).unwrap();
        }
        done(&bench, &["merge", "out", "new"]);
        let mut left = bench.left();
        left.sort();
        assert_eq!(left, ["new", "out"], "{args:?}");
        fs::remove_dir_all(bench.path("new")).unwrap();
    }
}

#[test]
fn what_a_killed_writer_left_is_shown_and_deleted_by_age() {
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 400), 1, 1000));
    assert_eq!(bench.run(&["pack", "in", "data", "--window", "100"]).code, 0);
    let lost = "train/0123456789/00112233445566778899aabbccddeeff.fb";
    let path = bench.path("data").join(lost);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, [0; 1000]).unwrap();
    fs::write(bench.path("data/train/mine.npz"), [0; 10]).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3 * 86400 + 3600)).unwrap();
    let said = bench.run(&["gc", "data"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert!(said.out.starts_with(&format!("{lost}  1.00 kB  3 days  shard\n")), "{}", said.out);
    assert!(said.out.contains("1 file: train/mine.npz") && said.out.contains("named by nothing: 1 object"), "{}", said.out);
    let told = bench.run(&["gc", "data", "--older-than", "7d", "--delete", "--yes", "--json"]).json();
    assert_eq!((&told["deleted"], &told["orphans"][0]["kept"]), (&json!(null), &json!("young")));
    let said = bench.run(&["gc", "data", "--older-than", "2d", "--delete", "--yes"]);
    assert!(said.code == 0 && said.out.contains("deleted 1 object, 1.00 kB"), "{} {}", said.out, said.err);
    assert!(!path.exists() && bench.path("data/train/mine.npz").exists());
    assert_eq!(bench.run(&["check", "data"]).code, 0);
    // Where the root is gone, what lies there tells the layout; and it may be about to be published.
    fs::remove_file(bench.path("data/dataset_info.json")).unwrap();
    let told = bench.run(&["gc", "data", "--older-than", "0s", "--delete", "--yes", "--json"]).json();
    assert_eq!((&told["published"], &told["orphans"][0]["kept"]), (&json!(false), &json!("unpublished")));
    // A writer at work needs an hour.
    let asked = ["gc", "data", "--unpublished", "--delete", "--yes", "--older-than"];
    bench.run(&[&asked[..], &["59m"]].concat()).refused(&["an hour", "--no-writers"]);
    assert_eq!(bench.run(&["gc", "data", "--unpublished", "--older-than", "0s"]).code, 0);
    let said = bench.run(&[&asked[..], &["0s", "--no-writers"]].concat());
    assert!(
        said.code == 0 && said.out.contains("deleted ") && !bench.path("data/train/shards_list.json").exists(),
        "{}",
        said.out
    );
    assert!(bench.path("data/train/mine.npz").exists());
}

#[test]
fn what_can_be_listed_yet_and_what_lost_to_a_dataset_is_told_with_what_to_do() {
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 400), 1, 1000));
    assert_eq!(bench.run(&["pack", "in", "data", "--window", "100"]).code, 0);
    let root = bench.path("data/dataset_info.json");
    let text = fs::read_to_string(&root).unwrap();
    // An older root, from before anything was written, was put back.
    let mut older: serde_json::Value = serde_json::from_str(&text).unwrap();
    older["splits"] = json!({});
    fs::write(&root, older.to_string()).unwrap();
    let lost = bench.path(&format!("data/objects/data/ab/{}.arrayrecord", "ab".repeat(32)));
    fs::create_dir_all(lost.parent().unwrap()).unwrap();
    fs::write(&lost, [0; 10]).unwrap();
    let said = bench.run(&["gc", "data", "--older-than", "0s", "--delete", "--yes"]);
    assert!(said.code == 0 && said.out.contains("  shard, kept: recoverable\n"), "{}", said.out);
    assert!(said.out.contains("  of another layout, kept: unpublished\n") && lost.exists(), "{}", said.out);
    for told in ["\nrecoverable: a filler, write_config or sigbank check --repair", "\nof another layout: left by a publication"]
    {
        assert!(said.out.contains(told), "{}", said.out);
    }
    assert_eq!(bench.run(&["check", "data", "--repair", "--yes"]).code, 0);
    let said = bench.run(&["gc", "data", "--older-than", "0s", "--unpublished", "--no-writers", "--delete", "--yes"]);
    assert!(said.code == 0 && said.out.contains("deleted 1 object, 10 B") && !lost.exists(), "{}", said.out);
    assert_eq!(bench.run(&["check", "data"]).code, 0);
    // Nothing was lost: the root is what it was.
    let repaired: serde_json::Value = serde_json::from_str(&fs::read_to_string(&root).unwrap()).unwrap();
    let whole: serde_json::Value = serde_json::from_str(&text).unwrap();
    let examples = |root: &serde_json::Value| root["splits"]["train"]["number_of_examples"].clone();
    assert!(examples(&whole).as_u64().unwrap() > 0 && examples(&repaired) == examples(&whole), "{repaired}");
}
