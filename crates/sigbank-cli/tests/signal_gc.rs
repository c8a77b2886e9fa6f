//! `sigbank gc`, and annotations in `info`, `ls` and `show`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use common::{Bench, samples, wav};
use serde_json::json;
use std::time::{Duration, SystemTime};

fn bench() -> Bench {
    let bench = Bench::new();
    for name in ["a", "b"] {
        bench.write(&format!("{name}.wav"), wav(&samples(1, 400), 1, 1000));
    }
    assert_eq!(bench.run(&["publish", "in", "out"]).code, 0);
    bench
}

#[test]
fn garbage_is_shown_and_deleted_by_age() {
    let bench = bench();
    let hex = "ab".repeat(32);
    let lost = format!("objects/data/ab/{hex}.arrayrecord");
    let path = bench.path("out").join(&lost);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, [0; 1000]).unwrap();
    std::fs::write(bench.path("out/notes.txt"), "mine").unwrap();
    let aged = |by: u64| {
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(by)).unwrap();
    };
    aged(3 * 86400 + 3600); // The kernel stamps files by a clock that is a little behind.
    let said = bench.run(&["gc", "out"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert!(said.out.starts_with(&format!("{lost}  1.00 kB  3 days  shard\n")), "{}", said.out);
    assert!(said.out.contains("1 file: notes.txt") && said.out.contains("named by nothing: 1 object, 1.00 kB"), "{}", said.out);
    assert!(path.exists());
    // Not without an age, nor a terminal or --yes; what is younger stays.
    assert_eq!(bench.run(&["gc", "out", "--delete"]).code, 2);
    bench.run(&["gc", "out", "--older-than", "1d", "--delete"]).refused(&["1 object", "--yes"]);
    let told = bench.run(&["gc", "out", "--older-than", "7d", "--delete", "--yes", "--json"]).json();
    assert_eq!((&told["deleted"], &told["orphans"][0]["kept"]), (&json!(null), &json!("young")));
    assert!(path.exists());
    let said = bench.run(&["gc", "out", "--older-than", "2d", "--delete", "--yes"]);
    assert!(said.code == 0 && said.out.contains("deleted 1 object, 1.00 kB"), "{} {}", said.out, said.err);
    assert!(!path.exists() && bench.path("out/notes.txt").exists());
    assert_eq!(bench.run(&["check", "out"]).code, 0);
    std::fs::remove_file(bench.path("out/root.json")).unwrap();
    let told = bench.run(&["gc", "out", "--older-than", "0s", "--delete", "--yes", "--json"]).json();
    assert_eq!(
        (&told["published"], &told["deleted"], &told["orphans"][0]["kept"]),
        (&json!(false), &json!(null), &json!("unpublished"))
    );
}

#[test]
fn annotations_are_told() {
    let bench = bench();
    std::fs::write(bench.path("t.csv"), "id,label\na,wifi\n").unwrap();
    assert_eq!(bench.run(&["annotate", "out", "labels", "t.csv"]).code, 0);
    let info = bench.run(&["info", "out"]);
    assert!(info.out.contains("  annotations labels: skipped 1, success 1 (publication "), "{}", info.out);
    let told = bench.run(&["info", "out", "--json"]).json();
    assert_eq!(told["layout"], json!("signal-dataset"));
    assert_eq!(
        (&told["value_bytes"], &told["annotations"][0]["statuses"]),
        (&json!(2 * 400 * 4), &json!({"success": 1, "skipped": 1}))
    );
    assert!(told["ratio"].as_f64().unwrap() > 0.0 && told["metadata_bytes"].as_u64().unwrap() > 0);
    let said = bench.run(&["ls", "out", "--annotations", "labels"]);
    assert_eq!(said.out, "     0  a  success  label=wifi\n     1  b  skipped\n");
    bench.run(&["ls", "out", "--annotations", "x"]).refused(&["'x'", "labels"]);
    assert!(bench.run(&["show", "out", "0"]).out.ends_with("annotation labels: success  label=wifi\n"));
    let told = bench.run(&["show", "out", "0", "--json"]).json();
    assert_eq!(told["annotations"]["labels"]["values"], json!({"label": "wifi"}));
    bench.run(&["show", "out", "2"]).refused(&["record 2", "out", "0 to 1"]);
}

/// Everything below a folder was written a month ago.
fn aged(folder: &std::path::Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            aged(&path);
        } else {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(30 * 86400)).unwrap();
        }
    }
}

#[test]
fn what_a_version_names_is_kept_however_it_is_found() {
    const DELETE: [&str; 6] = ["gc", "out", "--older-than", "1d", "--delete", "--yes"];
    let bench = bench();
    bench.write("more/c.wav", wav(&samples(3, 400), 1, 1000));
    assert_eq!(bench.run(&["publish", "in/more", "out", "--as-version", "tue", "--append"]).code, 0);
    assert_eq!(bench.run(&["publish", "in/more", "more"]).code, 0);
    assert_eq!(bench.run(&["publish", "more", "out", "--as-version", "wed"]).code, 0);
    let versions = bench.path("out/sigbank/versions");
    let whole = || {
        for version in ["0", "tue", "wed"] {
            assert_eq!(bench.run(&["check", "out", "--version", version]).code, 0, "{version}");
        }
    };
    // A listing does not enter a linked directory; readers do.
    std::fs::rename(&versions, bench.path("out/sigbank/real")).unwrap();
    std::os::unix::fs::symlink("real", &versions).unwrap();
    aged(&bench.path("out"));
    assert_eq!(bench.run(&DELETE).code, 0);
    whole();
    std::fs::remove_file(&versions).unwrap();
    std::fs::rename(bench.path("out/sigbank/real"), &versions).unwrap();
    // A document that is not what its digest says, and a number that is missing, may hide what is named.
    for (file, hidden) in [("00000002.json", false), ("00000001.json", true)] {
        let path = versions.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        match hidden {
            true => std::fs::remove_file(&path).unwrap(),
            false => std::fs::write(&path, text.replace("wed", "web")).unwrap(),
        }
        aged(&bench.path("out"));
        bench.run(&DELETE).refused(&[&format!("sigbank/versions/{file}")]);
        std::fs::write(&path, text).unwrap();
        whole();
    }
}

/// A version's document that was deleted by mistake: told of, kept, and put back.
#[test]
fn lost_commits_are_told_kept_and_put_back() {
    let bench = bench();
    bench.write("more/c.wav", wav(&samples(3, 400), 1, 1000));
    assert_eq!(bench.run(&["publish", "in/more", "out", "--as-version", "june", "--append"]).code, 0);
    let document = bench.path("out/sigbank/versions/00000001.json");
    let text = std::fs::read(&document).unwrap();
    std::fs::remove_file(&document).unwrap();
    aged(&bench.path("out"));
    let said = bench.run(&["check", "out"]);
    assert_eq!(said.code, 1, "{} {}", said.out, said.err);
    assert!(said.out.starts_with("whole, but not all of it is found: "), "{}", said.out);
    assert!(said.out.contains("version 1 'june' with 3 records, complete, but its document"), "{}", said.out);
    assert!(said.out.contains("sigbank check out --repair"), "{}", said.out);
    let told = bench.run(&["check", "out", "--json"]).json();
    assert_eq!((&told["ok"], &told["uncommitted"][0]["commit"]), (&json!(false), &json!("deleted")));
    // Kept without the flag, and told of with it.
    let delete = ["gc", "out", "--older-than", "1d", "--delete", "--yes"];
    let said = bench.run(&delete);
    assert!(said.code == 0 && said.out.contains("kept: complete") && !said.out.contains("deleted 5"), "{}", said.out);
    let said = bench.run(&["gc", "out", "--older-than", "1d", "--uncommitted"]);
    assert!(said.out.contains("these (1 thing) go") && said.out.contains("version 1 'june'"), "{}", said.out);
    bench.run(&["check", "out", "--repair"]).refused(&["1 commit to put back", "--yes"]);
    assert_eq!(bench.run(&["check", "out", "--dry-run"]).code, 1);
    let said = bench.run(&["check", "out", "--repair", "--yes"]);
    assert!(said.code == 0 && said.out.contains("put back 1 commit"), "{} {}", said.out, said.err);
    assert_eq!(std::fs::read(&document).unwrap(), text);
    let said = bench.run(&["check", "out"]);
    assert!(said.code == 0 && said.out.starts_with("ok: ") && !said.out.contains("note"), "{}", said.out);
    let said = bench.run(&["check", "out", "--repair"]);
    assert!(said.code == 0 && said.out.starts_with("no commit to put back"), "{}", said.out);
    std::fs::remove_file(&document).unwrap();
    aged(&bench.path("out"));
    let said = bench.run(&[&delete[..], &["--uncommitted"]].concat());
    assert!(said.code == 0 && said.out.contains("deleted 5 objects"), "{}", said.out);
    assert_eq!(bench.run(&["check", "out"]).code, 0);
}

/// A copy holds what a repair needs; a gap that no copy closes is not passed over.
#[test]
fn copies_are_repaired_too_and_gaps_are_not_ok() {
    let bench = bench();
    bench.write("more/c.wav", wav(&samples(3, 400), 1, 1000));
    for name in ["june", "july"] {
        assert_eq!(bench.run(&["publish", "in/more", "out", "--as-version", name]).code, 0);
    }
    assert_eq!(bench.run(&["cp", "out", "copy"]).code, 0);
    let document = bench.path("copy/sigbank/versions/00000001.json");
    let text = std::fs::read(&document).unwrap();
    for damage in [None, Some("{}"), Some("")] {
        match damage {
            None => std::fs::remove_file(&document).unwrap(),
            Some(damage) => std::fs::write(&document, damage).unwrap(),
        }
        let said = bench.run(&["check", "copy"]);
        said.refused(&["copy/sigbank/versions/00000001.json", "sigbank check --repair"]);
        let said = bench.run(&["check", "copy", "--repair", "--yes"]);
        assert!(said.code == 0 && said.out.contains("put back 1 commit"), "{} {}", said.out, said.err);
        assert_eq!(std::fs::read(&document).unwrap(), text);
        assert_eq!(bench.run(&["check", "copy"]).code, 0);
    }
    std::fs::remove_file(&document).unwrap();
    for entry in std::fs::read_dir(bench.path("copy/snapshots")).unwrap() {
        let _ = std::fs::remove_file(entry.unwrap().path().join("version.json"));
    }
    bench.run(&["check", "copy", "--repair", "--yes"]).refused(&["version 1 before it is missing", "no whole copy", "sync"]);
}
