//! What `sigbank` does with data, destinations and arguments that are not as they should be: an error that names what is at
//! fault, and nothing left behind.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod common;

use common::{Bench, npy, samples, sigbank, wav};
use serde_json::json;
use std::fs;

#[test]
fn a_destination_that_exists_is_kept() {
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 10), 1, 8000));
    fs::write(bench.path("out"), "mine").unwrap();
    bench.pack(&[]).refused(&["out: ", "exists"]);
    assert_eq!(fs::read_to_string(bench.path("out")).unwrap(), "mine");
    fs::remove_file(bench.path("out")).unwrap();
    fs::create_dir(bench.path("out")).unwrap();
    let said = bench.pack(&["--json"]);
    said.refused(&["out: ", "exists", "help: "]);
    assert_eq!((&said.json()["error"]["code"], &said.json()["error"]["path"]), (&json!("already_exists"), &json!("out")));
    assert_eq!(bench.left(), ["out"]);
}

#[test]
fn files_that_differ_are_listed() {
    let bench = Bench::new();
    for i in 0..3 {
        bench.write(&format!("{i}.wav"), wav(&samples(i, 100), 1, 44100));
    }
    bench.write("other.wav", wav(&samples(9, 100), 1, 48000));
    bench.pack(&["--window", "10"]).refused(&["sample rate", "44100 Hz in 3", "48000 Hz in 1 (in/other.wav)", "--mixed-rates"]);
    assert!(bench.left().is_empty());
    bench.packed(&["--window", "10", "--mixed-rates"]);
    let rates: Vec<_> = bench.records("train").iter().map(|r| r.3).collect();
    assert_eq!((rates.len(), rates[0], rates[39]), (40, 44100.0, 48000.0));

    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 100), 1, 44100));
    bench.write("b.wav", wav(&samples(1, 99), 1, 44100));
    bench.pack(&[]).refused(&["differ in length", "100 samples", "99 samples", "b.wav", "--window"]);

    let bench = Bench::new();
    bench.write("a.npy", npy("float64", &[4], &[0; 32]));
    bench.write("b.npy", npy("float16", &[4], &[0; 8]));
    bench.pack(&[]).refused(&["differ in dtype", "float64", "float16", "a.npy", "b.npy", "--dtype"]);
    bench.packed(&["--dtype", "float32"]);
    assert_eq!(bench.signal(), "float32[4]");

    let bench = Bench::new();
    bench.write("a.npy", npy("float32", &[4], &[0; 16]));
    bench.write("a.wav", wav(&samples(1, 4), 1, 44100));
    bench.pack(&[]).refused(&["sample rate", "not known", "a.npy", "--sample-rate"]);
    bench.packed(&["--sample-rate", "44100"]);
    assert_eq!(bench.records("train")[0].3, 44100.0);
}

#[test]
fn a_damaged_file_ends_the_run_or_is_left_out_as_a_whole() {
    let bench = Bench::new();
    for i in 0..4 {
        bench.write(&format!("good{i}.wav"), wav(&samples(i, 1000), 1, 44100));
    }
    let whole = wav(&samples(9, 1000), 1, 44100);
    bench.write("cut.wav", &whole[..1000]);
    // A FLAC file with one damaged frame in its middle, which only decoding finds.
    bench.copy_golden("arrays/flac/noise.flac");
    let flac = bench.path("in/noise.flac");
    let mut content = fs::read(&flac).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 0x55;
    fs::write(&flac, content).unwrap();
    bench.write("zero.npy", "");
    bench.write("ten.npy", "0123456789");
    bench.write("text.wav", "this is no sound");
    bench.write("short.npz", "PK\x03\x04 and no more");
    let args = ["--window", "100", "--mixed-rates", "--mono"];
    let said = bench.pack(&args);
    said.refused(&["in/"]);
    assert!(bench.left().is_empty(), "{:?}", bench.left());
    let report = bench.packed(&[&args[..], &["--skip-bad"]].concat());
    let bad: Vec<_> = report["bad"].as_array().unwrap().iter().map(|b| b["source"].as_str().unwrap()).collect();
    assert_eq!(bad, ["cut.wav", "noise.flac", "short.npz", "ten.npy", "text.wav", "zero.npy"]);
    assert_eq!((&report["records"], &report["files"]), (&json!({"train": 40}), &json!({"train": 4})));
    assert!(bench.records("train").iter().all(|r| r.2.starts_with("good")));
    assert_eq!(bench.run(&["check", "out"]).code, 0);
}

#[test]
fn damage_in_the_middle_leaves_nothing_behind() {
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 60_000), 1, 44100));
    bench.copy_golden("arrays/flac/noise.flac");
    let flac = bench.path("in/noise.flac");
    let mut content = fs::read(&flac).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 0x55;
    fs::write(&flac, content).unwrap();
    let said = bench.pack(&["--window", "64", "--examples-per-shard", "8", "--mono", "--mixed-rates"]);
    said.refused(&["noise.flac: "]);
    assert!(bench.left().is_empty(), "{:?}", bench.left());
}

#[test]
fn arrays_that_cannot_be_signals_are_named() {
    for (name, content, words) in [
        ("scalar.npy", npy("float64", &[], &[0; 8]), &["scalar.npy", "no axis"][..]),
        ("none.npy", npy("float32", &[0, 4], &[]), &["none.npy", "empty"]),
        ("thin.npy", npy("int16", &[3, 0], &[]), &["thin.npy", "empty"]),
    ] {
        let bench = Bench::new();
        bench.write(name, content);
        bench.pack(&[]).refused(words);
        assert!(bench.left().is_empty());
    }
    // What bfloat16 and float8 arrays become.
    for size in [1, 2] {
        let bench = Bench::new();
        bench.write("brain.npy", npy(&format!("V{size}"), &[4], &vec![1; 4 * size]));
        bench.pack(&[]).refused(&["in/brain.npy", &format!("|V{size}"), "bfloat16", "save it as float32", "uint16"]);
        assert!(bench.left().is_empty());
    }
    // Pickled objects are never loaded.
    let bench = Bench::new();
    let mut objects = b"\x93NUMPY\x01\x00\x76\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".to_vec();
    objects.resize(127, b' ');
    objects.extend(b"\n\x80\x04.");
    bench.write("o.npy", objects);
    bench.pack(&[]).refused(&["o.npy"]);
}

#[test]
fn values_that_do_not_fit_are_named_with_their_file() {
    let bench = Bench::new();
    let values: Vec<u8> = [1.0f64, 1e300].iter().flat_map(|v| v.to_le_bytes()).collect();
    bench.write("big.npy", npy("float64", &[2], &values));
    bench.pack(&["--dtype", "float32"]).refused(&["big.npy", "does not fit float32"]);
    let between = [3u64.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
    bench.write("big.npy", npy("uint64", &[2], &between));
    bench.pack(&["--dtype", "float64"]).refused(&["in/big.npy", "18446744073709551615 (uint64) does not fit float64"]);
    bench.write("big.npy", npy("float64", &[2], &[0; 16]));
    bench.pack(&["--dtype", "S5"]).refused(&["float64 is not turned into |S5"]);
    bench.pack(&["--dtype", "float12"]).refused(&["--dtype", "float12"]);
    assert!(bench.left().is_empty());
}

#[test]
fn what_stands_behind_the_last_window_is_looked_at() {
    let flac = fs::read(common::golden("arrays/flac/pcm_16_1.flac")).unwrap();
    let ogg = fs::read(common::golden("arrays/ogg/vorbis_1.ogg")).unwrap();
    let mut other_md5 = flac.clone();
    other_md5[30] ^= 1;
    let twice = |file: &[u8]| [file, file].concat();
    for (name, content, words) in
        [("a.flac", other_md5, &["in/a.flac: ", "MD5"][..]), ("a.ogg", twice(&ogg), &["in/a.ogg: ", "chained"])]
    {
        let bench = Bench::new();
        bench.write(name, &content);
        bench.pack(&["--window", "100", "--hop", "3500"]).refused(words);
        assert!(bench.left().is_empty());
        bench.write("good.wav", wav(&samples(1, 200), 1, 44100));
        let report = bench.packed(&["--window", "100", "--hop", "3500", "--skip-bad", "--mixed-rates"]);
        assert_eq!((&report["bad"][0]["source"], &report["records"]), (&json!(name), &json!({"train": 1})));
    }
    // Bytes behind as many frames as the header declares, which are no frames, are no part of the recording.
    let packed = |content: &[u8]| {
        let bench = Bench::new();
        bench.write("a.flac", content);
        bench.packed(&["--window", "100", "--hop", "3500"])["records"].clone()
    };
    assert_eq!(packed(&twice(&flac)), packed(&flac));
}

/// A FLAC file of 20 blocks of 4096 zeros, whose header says this MD5.
fn long_flac(md5: u8) -> Vec<u8> {
    let crc = |bytes: &[u8], width: u32, polynomial: u32| {
        let top = 1 << (width - 1);
        bytes.iter().fold(0u32, |crc, byte| {
            (0..8).fold(
                crc ^ u32::from(*byte) << (width - 8),
                |c, _| if c & top != 0 { (c ^ top) << 1 ^ polynomial } else { c << 1 },
            )
        })
    };
    // Blocks of 4096, frame sizes not known, 44100 Hz, one channel, 16 bits, 81920 frames.
    let mut file = b"fLaC\x80\0\0\x22\x10\0\x10\0\0\0\0\0\0\0\x0a\xc4\x40\xf0".to_vec();
    file.extend(81920u32.to_be_bytes());
    file.extend([md5; 16]);
    for block in 0..20 {
        let mut frame = vec![0xff, 0xf8, 0xc9, 0x08, block];
        frame.push(crc(&frame, 8, 0x07) as u8);
        frame.extend([0, 0, 0]);
        frame.extend((crc(&frame, 16, 0x8005) as u16).to_be_bytes());
        file.extend(frame);
    }
    file
}

#[test]
fn a_long_file_is_read_to_its_end_whatever_its_windows() {
    let bench = Bench::new();
    bench.write("a.flac", long_flac(0));
    let args = ["--window", "100", "--hop", "100000"];
    assert_eq!(bench.packed(&args)["records"], json!({"train": 1}));
    fs::remove_dir_all(bench.path("out")).unwrap();
    bench.write("a.flac", long_flac(1));
    bench.pack(&args).refused(&["in/a.flac: ", "MD5"]);
}

#[cfg(unix)]
#[test]
fn files_that_differ_or_cannot_be_opened_are_named_by_their_path() {
    use std::os::unix::ffi::OsStrExt as _;
    let bench = Bench::new();
    bench.write("deep/a.wav", wav(&samples(1, 10), 1, 8000));
    bench.write("zero.npz", "");
    bench.pack(&[]).refused(&["in/zero.npz: ", "npz archive", "empty (0 bytes)"]);
    bench.write("zero.npz", "x = 1");
    bench.pack(&[]).refused(&["in/zero.npz: ", "npz archive", "'x = 1'"]);
    fs::remove_file(bench.path("in/zero.npz")).unwrap();
    std::os::unix::fs::symlink("nowhere.wav", bench.path("in/deep/gone.wav")).unwrap();
    bench.pack(&[]).refused(&["in/deep/gone.wav: ", "leads nowhere"]);
    fs::remove_file(bench.path("in/deep/gone.wav")).unwrap();
    let name = bench.path("in/deep").join(std::ffi::OsStr::from_bytes(b"\xff.wav"));
    fs::write(&name, "").unwrap();
    bench.pack(&[]).refused(&["in/deep/\u{fffd}.wav: ", "UTF-8"]);
    fs::remove_file(&name).unwrap();
    bench.write("b.wav", wav(&samples(1, 10), 1, 9000));
    bench.pack(&[]).refused(&["(in/deep/a.wav)", "(in/b.wav)"]);
    bench.pack(&["--mixed-rates", "--dtype", "S3"]).refused(&["in/b.wav: "]);
}

#[test]
fn nothing_to_pack_and_wrong_choices() {
    let bench = Bench::new();
    bench.pack(&[]).refused(&["in: ", "nothing to pack"]);
    bench.write("a.txt", "x");
    bench.pack(&[]).refused(&["1 of other kinds"]);
    bench.write("a.wav", wav(&samples(1, 10), 1, 8000));
    bench.pack(&["--window", "100"]).refused(&["1 too short"]);
    bench.pack(&["--window", "0"]).refused(&["at least 1"]);
    bench.pack(&["--window", "99999999999999", "--pad"]).refused(&["--window"]);
    bench.pack(&["--split", "train=0.5,valid=0.5"]).refused(&["'valid'", "train, test, holdout"]);
    bench.pack(&["--compression", "ZIP"]).refused(&["ZIP", "GZIP"]);
    bench.pack(&["--checksums", "crc32"]).refused(&["crc32"]);
    bench.run(&["pack", "nowhere", "out"]).refused(&["nowhere: "]);
    bench.run(&["pack", "in", "no/such/parent"]).refused(&["no/such: ", "make it first"]);
    for usage in
        [&["pack", "in"][..], &["pack", "in", "out", "--split", "train=0.5"], &["pack", "in", "out", "--hop", "5"], &["fly"], &[]]
    {
        assert_eq!(bench.run(usage).code, 2, "{usage:?}");
    }
    assert!(bench.left().is_empty());
}

#[test]
fn commands_say_what_is_not_a_dataset() {
    let bench = Bench::new();
    for command in ["info", "show", "check"] {
        bench.run(&[command, "nowhere"]).refused(&["nowhere: "]);
        bench.run(&[command, "in"]).refused(&["in: ", "no dataset"]);
    }
    bench.write("dataset_info.json", "{");
    for command in ["info", "show", "check"] {
        bench.run(&[command, "in"]).refused(&["dataset_info.json"]);
    }
}

#[test]
fn check_finds_the_damaged_and_the_missing_shard() {
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 1000), 1, 8000));
    bench.packed(&["--window", "100", "--examples-per-shard", "2"]);
    let source = bench.open();
    let name = source.unit_name("train", 3).unwrap();
    let shard = bench.path("out").join(&name);
    let content = fs::read(&shard).unwrap();
    let mut damaged = content.clone();
    damaged[content.len() / 2] ^= 1;
    fs::write(&shard, &damaged).unwrap();
    bench.run(&["check", "out"]).refused(&[&name]);
    let said = bench.run(&["check", "out", "--json"]);
    assert_eq!((said.code, &said.json()["error"]["code"]), (1, &json!("corrupt")));
    fs::write(&shard, &content[..content.len() - 1]).unwrap();
    bench.run(&["check", "out"]).refused(&[&name]);
    fs::remove_file(&shard).unwrap();
    bench.run(&["check", "out"]).refused(&[&name]);
    bench.run(&["show", "out", "7"]).refused(&[&name]);
    assert_eq!(bench.run(&["show", "out", "0"]).code, 0);
    let info = bench.run(&["info", "out"]);
    assert!(info.code == 0 && info.out.contains("MISSING: 1 shard"), "{}", info.out);
    fs::write(&shard, &content).unwrap();
    assert_eq!(bench.run(&["check", "out"]).code, 0);
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_is_named() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    let bench = Bench::new();
    bench.write("a.wav", wav(&samples(1, 10), 1, 8000));
    let locked = bench.path("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    let program = bench.path("sigbank");
    fs::copy(env!("CARGO_BIN_EXE_sigbank"), &program).unwrap();
    let mut command = std::process::Command::new(&program);
    command.args(["pack", "in", "locked/out"]).current_dir(bench.path(""));
    if locked.metadata().unwrap().uid() == 0 {
        // The superuser writes anywhere: let nobody try.
        fs::set_permissions(bench.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        command.uid(65534).gid(65534);
    }
    // A process that another test began meanwhile may have the copy open for writing yet.
    let output = loop {
        match command.output() {
            Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(5))
            }
            output => break output.unwrap(),
        }
    };
    common::Said::from(output).refused(&["locked: ", "help: "]);
    assert_eq!(fs::read_dir(&locked).unwrap().count(), 0);
}

#[test]
fn help_is_there_for_each_command() {
    for command in ["pack", "info", "show", "check"] {
        let said = sigbank(&[command, "--help"]);
        assert!(said.code == 0 && said.out.contains("Usage: sigbank"), "{}", said.err);
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
    let disk = bench.path("disk");
    fs::create_dir(&disk).unwrap();
    let mount = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&disk).output();
    if !mount.is_ok_and(|m| m.status.success()) {
        println!("skipped: only root may mount a filesystem here");
        return;
    }
    let _mount = Mount(disk.clone());
    let said = bench.run(&["pack", "in", "disk/out", "--window", "1000", "--compression", "none"]);
    said.refused(&["disk/", "disk is full"]);
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 0);
    let said = bench.run(&["pack", "in", "disk/out", "--window", "1000", "--compression", "zstd"]);
    assert_eq!(said.code, 0, "{}", said.err);
}

#[cfg(unix)]
#[test]
fn a_killed_run_is_invisible_and_the_next_one_cleans_up() {
    let bench = Bench::new();
    for i in 0..8 {
        bench.write(&format!("{i}.npy"), npy("uint8", &[4 << 20], &vec![i; 4 << 20]));
    }
    let args = ["pack", "in", "out", "--window", "4000", "--hop", "500", "--compression", "LZMA"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sigbank"));
    let mut child = command.args(args).current_dir(bench.path("")).spawn().unwrap();
    // Killed once it has begun to write, long before it can be done.
    let begun = std::time::Instant::now();
    while !bench.left().iter().any(|n| bench.path(n).join("dataset_info.json").exists()) {
        assert!(begun.elapsed().as_secs() < 60 && child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let left = bench.left();
    assert!(left.len() == 1 && left[0].starts_with(".out.packing-"), "{left:?}");
    bench.packed(&["--window", "4000", "--compression", "lz4"]);
    assert_eq!(bench.left(), ["out"]);
}
