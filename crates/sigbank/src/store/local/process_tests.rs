//! What only real processes, kills and full disks can show. A child is this test binary again, told by a variable what to do.

use super::tests::tree;
use super::*;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};

const TASK: &str = "SIGBANK_TEST_TASK";
const WHERE: &str = "SIGBANK_TEST_DIR";

fn p(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

fn content(n: usize) -> Vec<u8> {
    vec![(n % 251) as u8; 200_000 + 1000 * (n % 7)]
}

fn whole(bytes: &[u8]) -> bool {
    !bytes.is_empty() && (0..7).any(|n| bytes.len() == 200_000 + 1000 * n) && bytes.iter().all(|byte| *byte == bytes[0])
}

fn spawn(task: &str, dir: &Path) -> Child {
    spawn_under("umask", task, dir)
}

/// A child of a shell that ran this command first.
fn spawn_under(command: &str, task: &str, dir: &Path) -> Child {
    Command::new("sh")
        .args(["-c", &format!("{command} >/dev/null; exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "store::local::process_tests::child", "--nocapture", "--test-threads=1"])
        .envs([(TASK, task)])
        .env(WHERE, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The lines that a child printed for its parent.
fn said(child: Child) -> Vec<String> {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "a child failed");
    String::from_utf8(output.stdout).unwrap().lines().filter_map(|line| Some(line.split_once("said:")?.1.to_owned())).collect()
}

fn say(words: impl fmt::Display) {
    println!("\nsaid:{words}");
    std::io::stdout().flush().unwrap();
}

#[test]
fn child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let store = LocalStore::open(std::env::var(WHERE).unwrap()).unwrap();
    match task.split_once(' ').unwrap_or((&task, "")) {
        ("race", me) => {
            while !exists(&store, &p("go")).unwrap() {
                std::thread::yield_now();
            }
            for n in 0..100 {
                match store.create(&p(&format!("race/{n}")), &[me.as_bytes()]) {
                    Ok(()) => say(n),
                    Err(e) => assert_eq!(e.code(), Code::AlreadyExists, "{e}"),
                }
            }
        }
        ("count", _) => {
            for _ in 0..25 {
                loop {
                    let (bytes, version) = store.get_versioned(&p("counter")).unwrap();
                    let next = std::str::from_utf8(&bytes).unwrap().parse::<u32>().unwrap() + 1;
                    match store.replace(&p("counter"), &[next.to_string().as_bytes()], Expected::Version(&version)) {
                        Ok(_) => break,
                        Err(e) => assert_eq!(e.code(), Code::Conflict, "{e}"),
                    }
                }
            }
        }
        ("replace", _) => {
            say("replacing");
            (0..1_000_000).for_each(|n| drop(store.replace(&p("root"), &[&content(n)], Expected::Any).unwrap()));
        }
        ("create", round) => {
            say("creating");
            (0..1_000_000).for_each(|n| store.create(&p(&format!("{round}/{n}")), &[&content(n)]).unwrap());
        }
        ("stream", _) => {
            let mut new = store.write_new(&p("d/unfinished")).unwrap();
            new.write_all(&content(1)).unwrap();
            say("half");
            std::thread::sleep(Duration::from_secs(60));
        }
        ("modes", _) => {
            store.create(&p("a/created"), &[b"x"]).unwrap();
            store.replace(&p("a/replaced"), &[b"x"], Expected::Any).unwrap();
            store.write_new(&p("a/streamed")).unwrap().commit().unwrap();
        }
        ("hold", _) => {
            let _guard = store.try_lock("job").unwrap().unwrap();
            say("locked");
            std::thread::sleep(Duration::from_secs(60));
        }
        (other, _) => panic!("no such task: {other}"),
    }
}

/// A child that was seen to begin.
fn begun(task: &str, dir: &Path) -> Child {
    let mut child = spawn(task, dir);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("said:")), "the child did not begin");
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn of_many_processes_one_creates() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path()).unwrap();
    let children: Vec<Child> = (0..4).map(|n| spawn(&format!("race {n}"), dir.path())).collect();
    store.create(&p("go"), &[]).unwrap();
    let won: Vec<Vec<String>> = children.into_iter().map(said).collect();
    assert_eq!(won.iter().map(Vec::len).sum::<usize>(), 100, "every name has one winner: {won:?}");
    for (me, names) in won.iter().enumerate() {
        for name in names {
            assert_eq!(store.get(&p(&format!("race/{name}"))).unwrap(), me.to_string().as_bytes());
        }
    }
    assert_eq!(tree(dir.path()).len(), 102, "the losers left something behind");
}

#[test]
fn increments_of_many_processes_are_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path()).unwrap().durable(false);
    store.create(&p("counter"), &[b"0"]).unwrap();
    let children: Vec<Child> = (0..4).map(|_| spawn("count", dir.path())).collect();
    children.into_iter().for_each(|child| drop(said(child)));
    assert_eq!(store.get(&p("counter")).unwrap(), &b"100"[..]);
    assert_eq!(tree(dir.path()), [".sigbank", ".sigbank/lock", "counter"]);
}

#[test]
fn a_kill_while_replacing_leaves_the_old_or_the_new_object() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path()).unwrap();
    store.create(&p("root"), &[&content(0)]).unwrap();
    for round in 0..12 {
        let child = begun("replace", dir.path());
        std::thread::sleep(Duration::from_micros(2_000 + 1_700 * round));
        kill(child);
        let bytes = store.get(&p("root")).unwrap();
        assert!(whole(&bytes), "round {round}: {} torn bytes", bytes.len());
        // And the dead writer's lock bars nobody.
        store.replace(&p("root"), &[&content(0)], Expected::Any).unwrap();
    }
    assert_eq!(store.list(None).unwrap().count(), 1, "a dead writer's temporary file is listed");
}

#[test]
fn a_kill_while_creating_leaves_whole_objects_only() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..8 {
        let child = begun(&format!("create {round}"), dir.path());
        std::thread::sleep(Duration::from_micros(5_000 + 1_700 * round));
        kill(child);
    }
    let store = LocalStore::open(dir.path()).unwrap();
    let made: Vec<Entry> = store.list(None).unwrap().collect::<Result<_>>().unwrap();
    assert!(made.len() > 10, "the children were killed too early to show anything: {}", made.len());
    assert!(made.iter().all(|entry| whole(&store.get(&entry.path).unwrap())));
}

#[test]
fn a_lock_ends_with_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path()).unwrap();
    let child = begun("hold", dir.path());
    let e = lock(&store, "job", Duration::from_millis(50)).unwrap_err();
    assert!(e.code() == Code::Conflict && e.path().unwrap().ends_with(".sigbank/job.lock"), "{e}");
    kill(child);
    drop(lock(&store, "job", Duration::from_secs(10)).unwrap());
}

#[test]
fn new_files_honour_the_umask() {
    for (umask, file, dir) in [("0000", 0o666, 0o777), ("0027", 0o640, 0o750)] {
        let root = tempfile::tempdir().unwrap();
        said(spawn_under(&format!("umask {umask}"), "modes", root.path()));
        let mode = |path: &str| std::fs::metadata(root.path().join(path)).unwrap().mode() & 0o7777;
        assert_eq!(["a/created", "a/replaced", "a/streamed", ".sigbank/lock"].map(mode), [file; 4], "umask {umask}");
        assert_eq!(["a", ".sigbank"].map(mode), [dir; 2], "umask {umask}");
    }
}

#[test]
fn what_a_killed_writer_left_is_swept_when_it_is_dead() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path()).unwrap();
    let child = begun("stream", dir.path());
    assert_eq!(store.sweep(Duration::ZERO).unwrap(), 0, "a living writer's file was taken away");
    kill(child);
    assert_eq!(store.list(None).unwrap().count(), 0);
    assert_eq!(store.sweep(Duration::from_secs(3600)).unwrap(), 0, "too young");
    std::fs::create_dir_all(dir.path().join(format!(".sigbank/{TEMPORARY}1/sub"))).unwrap();
    std::fs::create_dir_all(dir.path().join(format!("d/{TEMPORARY}not-ours"))).unwrap();
    std::fs::write(dir.path().join("d/other"), b"x").unwrap();
    assert_eq!(store.sweep(Duration::ZERO).unwrap(), 2);
    assert_eq!(tree(dir.path()), [".sigbank", "d", &format!("d/{TEMPORARY}not-ours"), "d/other"]);
}

/// A small filesystem of its own, gone again when dropped.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = mount(&["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"], dir.path());
        if !mounted {
            println!("skipped: only root may mount a filesystem here");
        }
        mounted.then(|| Self(dir))
    }
}

fn mount(options: &[&str], dir: &Path) -> bool {
    let status = Command::new("mount").args(options).arg(dir).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_named_and_leaves_nothing_in_part() {
    let Some(mount) = Mount::new("1m") else { return };
    let (dir, big) = (mount.0.path(), vec![3u8; 3 << 20]);
    let store = LocalStore::open(dir).unwrap();
    let full = |e: Error, path: &str| {
        assert_eq!(e.code(), Code::Storage, "{e}");
        assert!(e.path().unwrap().ends_with(path) && e.to_string().contains("disk is full"), "{e}");
    };
    store.replace(&p("root"), &[b"old"], Expected::Absent).unwrap();
    full(store.create(&p("x"), &[&big]).unwrap_err(), "/x");
    full(store.replace(&p("root"), &[&big], Expected::Any).unwrap_err(), "/root");
    assert_eq!(store.get(&p("root")).unwrap(), &b"old"[..]);
    let mut new = store.write_new(&p("y")).unwrap();
    let written = big.chunks(100_000).try_for_each(|chunk| new.write_all(chunk));
    full(written.unwrap_err().into(), "/y");
    assert_eq!(new.commit().unwrap_err().code(), Code::Storage);
    assert_eq!(tree(dir), [".sigbank", ".sigbank/lock", "root"]);
    store.create(&p("x"), &[&big[..500_000]]).unwrap();
    assert_eq!(store.head(&p("x")).unwrap().size, 500_000);
}

#[test]
fn a_read_only_mount_is_read_and_not_written() {
    let Some(mounted) = Mount::new("1m") else { return };
    let dir = mounted.0.path();
    LocalStore::open(dir).unwrap().create(&p("a/x"), &[b"x"]).unwrap();
    assert!(mount(&["-o", "remount,ro"], dir));
    let store = LocalStore::open(dir).unwrap();
    assert_eq!(store.get(&p("a/x")).unwrap(), &b"x"[..]);
    assert_eq!(store.list(None).unwrap().count(), 1);
    store.head(&p("a/x")).unwrap();
    store.open_read(&p("a/x")).unwrap();
    for (e, path) in [
        (store.create(&p("a/y"), &[b"y"]).unwrap_err(), "a/y"),
        (store.create(&p("new/y"), &[b"y"]).unwrap_err(), "new/y"),
        (store.write_new(&p("y")).unwrap_err(), "y"),
        (store.replace(&p("a/x"), &[b"y"], Expected::Any).unwrap_err(), "lock"),
        (store.delete(&p("a/x")).unwrap_err(), "lock"),
        (store.try_lock("job").unwrap_err(), "job.lock"),
    ] {
        assert_eq!(e.code(), Code::ReadOnly, "{e}");
        assert!(e.path().unwrap().ends_with(path) && e.to_string().contains("mounted read-only"), "{e}");
    }
    assert_eq!(tree(dir), ["a", "a/x"]);
}

#[test]
fn staging_and_target_on_different_filesystems_is_an_error_that_leaves_nothing() {
    let Some(mounted) = Mount::new("1m") else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("other")).unwrap();
    if !mount(&["--bind", &mounted.0.path().display().to_string()], &dir.path().join("other")) {
        return println!("skipped: no bind mounts here");
    }
    let store = LocalStore::open(dir.path()).unwrap();
    let beside = store.create(&p("other/x"), &[b"x"]);
    let e = store.private_dir(p(".sigbank"), true).create(&p("other/y"), &[b"y"]);
    let left = tree(dir.path());
    assert!(Command::new("umount").arg(dir.path().join("other")).status().unwrap().success());
    beside.unwrap();
    assert_eq!(e.unwrap_err().code(), Code::Storage);
    assert_eq!(left, [".sigbank", "other", "other/x"]);
}
