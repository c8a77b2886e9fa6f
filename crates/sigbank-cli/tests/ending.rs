//! Commands that are ended by a signal, and several with one destination.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use common::{Bench, Said, samples, wav};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn start(bench: &Bench, args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sigbank"));
    command.args(args).current_dir(bench.path("")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// A dataset that takes seconds to recompress.
fn large() -> Bench {
    let bench = Bench::new();
    for n in 0..8 {
        bench.write(&format!("{n}.wav"), wav(&samples(n, 400_000), 1, 8000));
    }
    bench.packed(&["--window", "1000", "--compression", "none", "--examples-per-shard", "50"]);
    bench
}

fn hidden(bench: &Bench) -> Vec<String> {
    bench.left().into_iter().filter(|name| name.starts_with('.')).collect()
}

#[test]
fn a_signal_leaves_no_folder_behind() {
    let bench = large();
    let commands: [&[&str]; 3] = [
        &["recompress", "out", "new", "--compression", "LZMA", "--threads", "1"],
        &["split", "out", "new", "--split", "train=0.5,test=0.5", "--by", "example", "--threads", "1"],
        &["pack", "in", "new", "--window", "1000", "--compression", "LZMA", "--threads", "1"],
    ];
    for (args, (name, number)) in commands.iter().zip([("-INT", 2), ("-TERM", 15), ("-INT", 2)]) {
        let child = start(&bench, args);
        let begun = Instant::now();
        while hidden(&bench).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{args:?} did not begin");
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(30));
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(number), "{args:?}: {output:?}");
        let said = Said::from(output);
        assert_eq!(said.out, "");
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
        assert!(said.err.starts_with(&format!("error: stopped by SIG{}; nothing was written", &name[1..])), "{}", said.err);
        assert_eq!((hidden(&bench), bench.path("new").exists()), (vec![], false), "{args:?}");
    }
}

#[test]
fn what_whoever_started_it_ignores_is_ignored() {
    let bench = large();
    let script = format!("trap '' INT; exec {} recompress out new --compression LZMA", env!("CARGO_BIN_EXE_sigbank"));
    let child = Command::new("sh").args(["-c", &script]).current_dir(bench.path("")).stdout(Stdio::null()).spawn().unwrap();
    while hidden(&bench).is_empty() {
        std::thread::yield_now();
    }
    signal(&child, "-INT");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
    assert!(bench.path("new").exists());
}

#[test]
fn of_several_with_one_destination_one_wins() {
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 1000), 1, 8000));
    bench.packed(&["--window", "100", "--compression", "none", "--examples-per-shard", "2"]);
    for round in 0..20 {
        let dest = format!("new{round}");
        let args: [&[&str]; 3] = [
            &["merge", "out", &dest],
            &["split", "out", &dest, "--split", "train=1", "--by", "example"],
            &["recompress", "out", &dest, "--compression", "LZ4"],
        ];
        let all: Vec<Child> = (0..5).map(|n| start(&bench, args[n % 3])).collect();
        let mut won = 0;
        for child in all {
            let said = Said::from(child.wait_with_output().unwrap());
            match said.code {
                0 => won += 1,
                _ => said.refused(&["the destination exists", &dest]),
            }
        }
        assert_eq!((won, hidden(&bench)), (1, vec![]), "round {round}");
        let checked = bench.run(&["check", &dest, "--json"]).json();
        assert_eq!(checked["records"], 10);
    }
}
