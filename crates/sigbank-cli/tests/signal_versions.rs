//! Further versions and mounted buckets on the command line, and messages of `publish`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use common::{Bench, Said, npy, samples, wav};
use std::process::Command;

/// Two records, and a version of two more.
fn bench() -> Bench {
    let bench = Bench::new();
    for name in ["a", "b"] {
        bench.write(&format!("{name}.wav"), wav(&samples(1, 400), 1, 1000));
        bench.write(&format!("../more/x{name}.wav"), wav(&samples(2, 400), 1, 1000));
    }
    done(bench.run(&["publish", "in", "out"]));
    done(bench.run(&["publish", "more", "out", "--as-version", "june"]));
    bench
}

fn done(said: Said) -> Said {
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    said
}

#[test]
fn a_version_has_annotations_of_its_own() {
    let bench = bench();
    std::fs::write(bench.path("first.csv"), "id,label\na,one\n").unwrap();
    std::fs::write(bench.path("june.csv"), "id,label\nxa,two\nxb,three\n").unwrap();
    done(bench.run(&["annotate", "out", "labels", "first.csv"]));
    let said = done(bench.run(&["annotate", "out", "labels", "june.csv", "--version", "june", "--json"])).json();
    assert_eq!((said["version"].as_u64(), &said["statuses"]["success"]), (Some(1), &2.into()));
    done(bench.run(&["annotate", "out", "more", "june.csv", "--version", "1"]));
    bench.run(&["annotate", "out", "x", "first.csv", "--version", "june"]).refused(&[
        "first.csv",
        "line 2",
        "there is no record 'a'",
    ]);
    bench.run(&["annotate", "out", "x", "first.csv", "--version", "9"]).refused(&["there is no version 9", "sigbank snapshots"]);
    bench
        .run(&["annotate", "out", "labels", "june.csv", "--version", "1", "--publication-id", "p"])
        .refused(&["there is an annotation set 'labels' already", "another name"]);
    let sets = |args: &[&str]| {
        let said = done(bench.run(&[&["info", "out", "--json"], args].concat())).json();
        said["annotations"].as_array().unwrap().iter().map(|set| set["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((sets(&[]), sets(&["--version", "june"])), (vec!["labels".into()], vec!["labels".to_owned(), "more".into()]));
    done(bench.run(&["check", "out"]));
    let object =
        std::fs::read_dir(bench.path("out/sigbank/versions/00000001/annotations/sets/more")).unwrap().next().unwrap().unwrap();
    std::fs::remove_dir_all(object.path().join("objects")).unwrap();
    bench.run(&["check", "out"]).refused(&["versions/00000001/annotations/sets/more"]);
    std::fs::remove_dir_all(bench.path("out/sigbank/versions/00000001/annotations")).unwrap();
    // A copy has them; one that was annotated since is not overwritten.
    done(bench.run(&["cp", "out", "copy"]));
    done(bench.run(&["annotate", "copy", "theirs", "june.csv", "--version", "1"]));
    bench.run(&["sync", "out", "copy"]).refused(&["has an annotation set that the source has not", "help: ", "sigbank sync"]);
}

#[test]
fn a_gap_is_told_with_what_to_do() {
    let bench = bench();
    done(bench.run(&["publish", "in", "out", "--as-version", "july"]));
    std::fs::remove_file(bench.path("out/sigbank/versions/00000001.json")).unwrap();
    let words = ["out/sigbank/versions/00000001.json", "version 2 is there, and version 1 before it is missing", "restore"];
    for args in
        [&["publish", "in", "out", "--as-version", "x"][..], &["snapshots", "out"], &["cp", "out", "copy"], &["gc", "out"]]
    {
        bench.run(args).refused(&words);
    }
    // What readers see without a version is whole.
    done(bench.run(&["ls", "out"]));
}

#[test]
fn wrong_words_are_told_once_and_with_help() {
    let bench = Bench::new();
    bench.write("a.npy", npy("<f4", &[4, 2], &[0; 32]));
    let refused = |args: &[&str], words: &[&str]| {
        let said = bench.run(args);
        said.refused(words);
        assert!(said.err.contains("help: "), "{}", said.err);
        // No path is told twice.
        assert_eq!(said.err.matches(words[0]).count(), 1, "{}", said.err);
    };
    refused(&["publish", "no-such", "out"], &["no-such", "check the path of what is to be published"]);
    refused(&["publish", "in", "out", "--axes", "time,time"], &["two axes are to be called 'time'", "--axes"]);
    refused(&["publish", "in", "out", "--axes", "time"], &["1 axes are named (time)"]);
    assert!(bench.left().is_empty());
}

/// A mounted bucket: nothing is linked or renamed, annotations are refused.
#[test]
fn mounted_buckets_are_what_the_environment_says() {
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 400), 1, 1000));
    let roots = format!("/elsewhere:{}", bench.path("mnt").display());
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sigbank"));
        Said::from(command.args(args).current_dir(bench.path("")).env("SIGNAL_DATASET_MOUNT_ROOTS", &roots).output().unwrap())
    };
    std::fs::create_dir(bench.path("mnt")).unwrap();
    done(run(&["publish", "in", "mnt/out"]));
    run(&["publish", "in", "mnt/out"]).refused(&["a dataset is here already", "choose another destination"]);
    std::fs::write(bench.path("l.csv"), "id,label\na,one\n").unwrap();
    run(&["annotate", "mnt/out", "labels", "l.csv"]).refused(&["compare-and-swap", "mounted bucket"]);
    assert!(!bench.path("mnt/out/annotations").exists());
    done(run(&["check", "mnt/out"]));
    // Elsewhere, and without the variable, it is a folder like others.
    done(bench.run(&["annotate", "mnt/out", "labels", "l.csv"]));
}

/// What an unfinished run left under the names of shards is taken over where it is the same, and passed over where it is not.
#[test]
fn an_unfinished_run_is_in_nobodys_way() {
    let bench = Bench::new();
    for (name, seed) in [("b", 1), ("c", 2), ("d", 3)] {
        bench.write(&format!("{name}.wav"), wav(&samples(seed, 400), 1, 1000));
    }
    let roots = format!("/elsewhere:{}", bench.path("mnt").display());
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sigbank"));
        Said::from(command.args(args).current_dir(bench.path("")).env("SIGNAL_DATASET_MOUNT_ROOTS", &roots).output().unwrap())
    };
    std::fs::create_dir(bench.path("mnt")).unwrap();
    // A run that ended before its root and its snapshot.
    let interrupt = |place: &str| {
        std::fs::remove_file(bench.path(&format!("mnt/{place}/root.json"))).unwrap();
        for left in ["snapshots", "manifests"] {
            let _ = std::fs::remove_dir_all(bench.path(&format!("mnt/{place}/{left}")));
        }
    };
    let shards = |place: &str| {
        let data = std::fs::read_dir(bench.path(&format!("mnt/{place}/objects/data"))).unwrap();
        data.map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap().count()).sum::<usize>()
    };
    let publish = |from: &str, to: &str| done(run(&["publish", from, &format!("mnt/{to}"), "--records-per-shard", "1"]));
    publish("in", "out");
    interrupt("out");
    assert_eq!(shards("out"), 3);
    publish("in", "out");
    assert_eq!(shards("out"), 3);
    interrupt("out");
    // One more recording, before the others: every shard holds other records than then.
    bench.write("a.wav", wav(&samples(4, 400), 1, 1000));
    publish("in", "out");
    assert_eq!(shards("out"), 3 + 4);
    let ids = |place: &str| {
        let said = done(run(&["ls", &format!("mnt/{place}"), "--json"]));
        said.out.matches("\"id\"").count()
    };
    assert_eq!(ids("out"), 4);
    done(run(&["check", "mnt/out"]));
    // Of datasets the same.
    publish("mnt/out", "copy");
    interrupt("copy");
    std::fs::remove_file(bench.path("in/a.wav")).unwrap();
    bench.write("e.wav", wav(&samples(5, 400), 1, 1000));
    done(run(&["publish", "in", "mnt/other", "--records-per-shard", "1"]));
    publish("mnt/other", "copy");
    assert_eq!(shards("copy"), 4 + 4);
    done(run(&["check", "mnt/copy"]));
    let told = done(run(&["ls", "mnt/copy", "--json"])).out;
    assert!(told.contains("\"e\"") && !told.contains("\"a\""), "{told}");
    // A version under a name whose run was killed.
    done(run(&["publish", "in", "mnt/out", "--as-version", "two", "--records-per-shard", "1"]));
    std::fs::remove_dir_all(bench.path("mnt/out/sigbank/versions")).unwrap();
    std::fs::remove_file(bench.path("in/e.wav")).unwrap();
    bench.write("f.wav", wav(&samples(6, 400), 1, 1000));
    done(run(&["publish", "in", "mnt/out", "--as-version", "two", "--records-per-shard", "1"]));
    done(run(&["check", "mnt/out"]));
}

/// Six processes that append, and six that annotate, all at once: each of them lands.
#[test]
fn who_loses_against_others_comes_behind_them() {
    let bench = bench();
    for n in 0..6 {
        bench.write(&format!("../add{n}/n{n}.wav"), wav(&samples(n + 5, 100), 1, 1000));
        std::fs::write(bench.path(&format!("{n}.csv")), "index,label\n0,x\n").unwrap();
    }
    let all_at_once = |args: &dyn Fn(usize) -> Vec<String>| {
        let start = |n| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_sigbank"));
            command.args(args(n)).current_dir(bench.path(""));
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        };
        let running: Vec<_> = (0..6).map(start).collect();
        for process in running {
            let ended = process.wait_with_output().unwrap();
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        }
    };
    let words = |text: String| text.split(' ').map(String::from).collect();
    all_at_once(&|n| words(format!("publish add{n} out --as-version add-{n} --append")));
    all_at_once(&|n| words(format!("annotate out set-{n} {n}.csv")));
    let told = done(bench.run(&["snapshots", "out", "--json"])).json();
    let versions = told["versions"].as_array().unwrap();
    let records: Vec<u64> = versions.iter().map(|version| version["records"].as_u64().unwrap()).collect();
    assert_eq!(records, [2, 2, 3, 4, 5, 6, 7, 8]);
    let told = done(bench.run(&["info", "out", "--json"])).json();
    assert_eq!(told["annotations"].as_array().unwrap().len(), 6);
    // What the losers wrote in vain is no more than garbage.
    let said = done(bench.run(&["check", "out"]));
    assert!(said.out.starts_with("ok: ") && !said.out.contains("note"), "{}", said.out);
    // Records that another one brought meanwhile are not taken twice.
    bench.run(&["publish", "add0", "out", "--as-version", "again", "--append"]).refused(&["a record 'n0' already"]);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_written() {
    let bench = bench();
    bench.write("../text/t.npy", npy("<U1", &[2], &[b'a', 0, 0, 0, b'b', 0, 0, 0]));
    let long = "n".repeat(300);
    bench.run(&["publish", "more", "out", "--as-version", &long]).refused(&["it has 300 bytes"]);
    bench.run(&["publish", "more", "new", "--snapshot-id", &long]).refused(&["the snapshot id has 300 bytes"]);
    let said = bench.run(&["publish", "text", "new"]);
    assert!(said.err.contains("record 't'") && said.err.contains("--skip-bad") && !said.err.contains("--dtype"), "{}", said.err);
    assert!(!bench.path("new").exists() && !bench.path("out/snapshots").join(&long).exists());
}
