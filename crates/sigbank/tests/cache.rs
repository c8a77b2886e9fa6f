//! The local cache over a store that counts what it is asked for.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::single_range_in_vec_init)] // All of this file is test.

#[path = "support/far.rs"]
mod far;

use far::{Far, bytes, disk_usage, p};
use sigbank::Code;
use sigbank::store::{Expected, LocalStore, MemoryStore, StorageOptions, Store, StoreFile, cache};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

fn options(dir: &Path, size: &str) -> StorageOptions {
    [("cache_dir".to_owned(), dir.display().to_string()), ("cache_size".to_owned(), size.to_owned())].into()
}

fn wrapped(far: &Far, dir: &Path, size: &str) -> Arc<dyn Store> {
    cache::wrap(Arc::new(far.clone()), &options(dir, size)).unwrap()
}

/// Every file that holds a block.
fn blocks(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir.join("sigbank-cache-1/blocks"))
        .into_iter()
        .flatten()
        .flat_map(|sub| std::fs::read_dir(sub.unwrap().path()).unwrap().map(|f| f.unwrap().path()))
        .collect();
    found.sort();
    found
}

fn unfinished(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("sigbank-cache-1/tmp")).unwrap().count()
}

fn read(file: &dyn StoreFile, start: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0xEE; len];
    file.read_at(start, &mut buf).unwrap();
    buf
}

#[test]
fn every_way_of_reading_gives_the_bytes_and_fetches_them_once() {
    let dir = tempfile::tempdir().unwrap();
    let far = Far::new(Arc::new(MemoryStore::new()));
    let sizes = [0, 1, 16383, 16384, 16385, MIB - 1, MIB, MIB + 1, 3 * MIB + 12345];
    for size in sizes {
        far.create(&p(&format!("o/{size}")), &[&bytes(size, size)]).unwrap();
    }
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below.max(1)
    };
    for round in 0..3 {
        let store = wrapped(&far, dir.path(), "100MB");
        far.forget();
        for size in sizes {
            let (name, expected) = (p(&format!("o/{size}")), bytes(size, size));
            let file = store.open_read(&name).unwrap();
            assert_eq!(file.size(), size);
            let mut ranges: Vec<_> = (0..20)
                .map(|_| {
                    let start = random(size + 1);
                    start..start + random(size - start + 1).min(if random(2) == 0 { 300 } else { u64::MAX })
                })
                .collect();
            ranges.extend([0..size, size..size, 0..0]);
            let want: Vec<&[u8]> = ranges.iter().map(|r| &expected[r.start as usize..r.end as usize]).collect();
            assert_eq!(file.read_ranges(&ranges).unwrap(), want, "{size}");
            assert_eq!(Arc::clone(&file).start_ranges(&ranges).wait().unwrap(), want, "{size}");
            for (range, want) in ranges.iter().zip(&want) {
                assert_eq!(read(&*file, range.start, want.len()), *want, "{size} {range:?}");
            }
            let mut all = Vec::new();
            Arc::clone(&file).stream().read_to_end(&mut all).unwrap();
            assert!(all == expected, "{size}");
            let past = size.saturating_sub(1)..size + 1;
            assert_eq!(file.read_ranges(std::slice::from_ref(&past)).unwrap_err().code(), Code::Corrupt);
            assert_eq!(Arc::clone(&file).start_ranges(&[past]).wait().unwrap_err().code(), Code::Corrupt);
            assert!(file.read_at(size, &mut [0]).is_err());
        }
        // The first time each byte came once, then none.
        assert_eq!(far.fetched(), if round == 0 { sizes.iter().sum() } else { 0 }, "round {round}");
        assert_eq!(unfinished(dir.path()), 0);
    }
}

#[test]
fn a_stream_fetches_each_byte_once_and_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let far = Far::new(Arc::new(MemoryStore::new()));
    let expected = bytes(1, 21 * MIB + 5);
    far.create(&p("big"), &[&expected]).unwrap();
    for fetched in [21 * MIB + 5, 0] {
        far.forget();
        let mut all = Vec::new();
        wrapped(&far, dir.path(), "100MB").open_read(&p("big")).unwrap().stream().read_to_end(&mut all).unwrap();
        assert!(all == expected);
        assert_eq!(far.fetched(), fetched);
    }
}

#[test]
fn a_small_record_fetches_its_block_only() {
    let dir = tempfile::tempdir().unwrap();
    let far = Far::new(Arc::new(MemoryStore::new()));
    let expected = bytes(2, 8 * MIB);
    far.create(&p("shard"), &[&expected]).unwrap();
    let file = wrapped(&far, dir.path(), "100MB").open_read(&p("shard")).unwrap();
    assert_eq!(read(&*file, 5 * MIB + 77, 100), expected[5 * MIB as usize + 77..][..100]);
    assert_eq!((far.fetched(), far.requests()), (MIB, 2)); // One of them to open it.
    // Across two blocks, of which one is there.
    assert_eq!(read(&*file, 6 * MIB - 50, 100), expected[6 * MIB as usize - 50..][..100]);
    assert_eq!((far.fetched(), far.requests()), (2 * MIB, 3));
}

#[test]
fn an_object_of_known_digest_is_asked_for_once_and_never_again() {
    let dir = tempfile::tempdir().unwrap();
    let far = Far::new(Arc::new(MemoryStore::new()));
    let expected = bytes(3, 2 * MIB);
    far.create(&p("a"), &[&expected]).unwrap();
    for size in [Some(2 * MIB), None] {
        let dir = dir.path().join(format!("{size:?}"));
        for requests in [1 + u64::from(size.is_none()), 0, 0] {
            far.forget();
            let store = wrapped(&far, &dir, "100MB");
            let file = store.open_known(&p("a"), size, Some("sha256:00")).unwrap();
            assert_eq!((file.size(), read(&*file, 0, 2 << 20) == expected), (2 * MIB, true));
            assert_eq!(far.requests(), requests, "{size:?}");
        }
    }
    // Another digest is another object; so is the same at another address.
    let store = wrapped(&far, &dir.path().join("Some(2097152)"), "100MB");
    far.forget();
    read(&*store.open_known(&p("a"), Some(2 * MIB), Some("sha256:01")).unwrap(), 0, 9);
    assert_eq!(far.fetched(), MIB);
    let missing = store.open_known(&p("b"), Some(2 * MIB), Some("sha256:00")).unwrap().read_at(0, &mut [0]).unwrap_err();
    assert!(missing.to_string().contains("no such"), "{missing}");
    assert_eq!(store.open_read(&p("b")).unwrap_err().code(), Code::NotFound);
    assert_eq!(store.open_sized(&p("a"), 5).unwrap_err().code(), Code::Corrupt);
    assert_eq!(store.open_sized(&p("a"), 2 * MIB).unwrap().size(), 2 * MIB);
}

#[test]
fn a_replaced_object_shows_its_new_content() {
    let dir = tempfile::tempdir().unwrap();
    let far = Far::new(Arc::new(MemoryStore::new()));
    let store = wrapped(&far, dir.path(), "100MB");
    for seed in 0..5 {
        far.replace(&p("a"), &[&bytes(seed, 3000)], Expected::Any).unwrap();
        for _ in 0..2 {
            assert_eq!(read(&*store.open_read(&p("a")).unwrap(), 0, 3000), bytes(seed, 3000));
            assert_eq!(store.get(&p("a")).unwrap(), bytes(seed, 3000));
        }
    }
    assert_eq!(blocks(dir.path()).len(), 5);
    // Nor is anything kept that has no version, or that was read as a document.
    let (far, dir) = (Far::new(Arc::new(MemoryStore::new())).without_versions(), tempfile::tempdir().unwrap());
    let store = wrapped(&far, dir.path(), "100MB");
    far.create(&p("a"), &[b"123"]).unwrap();
    assert_eq!(read(&*store.open_read(&p("a")).unwrap(), 1, 2), b"23");
    store.get(&p("a")).unwrap();
    assert_eq!(store.get_ranges(&p("a"), &[0..1]).unwrap(), [&b"1"[..]]);
    assert_eq!(blocks(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn local_data_is_not_cached_and_options_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let local = cache::wrap(Arc::new(LocalStore::open(dir.path()).unwrap()), &options(&dir.path().join("c"), "1GB")).unwrap();
    local.create(&p("a"), &[b"1"]).unwrap();
    local.open_read(&p("a")).unwrap().read_at(0, &mut [0]).unwrap();
    assert!(!dir.path().join("c").exists());

    let far: Arc<dyn Store> = Arc::new(Far::new(Arc::new(MemoryStore::new())));
    let refused = |pairs: &[(&str, &str)]| {
        let options = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        cache::wrap(Arc::clone(&far), &options).unwrap_err().to_string()
    };
    assert!(refused(&[("cache_size", "1GB")]).contains("no cache_dir"));
    assert!(refused(&[("cache_dir", "/c"), ("cache_size", "many")]).contains("\"many\""));
    let same = cache::wrap(Arc::clone(&far), &StorageOptions::new()).unwrap();
    assert!(format!("{same:?}").starts_with("Far"));
}

#[test]
fn what_is_damaged_is_fetched_again() {
    let dir = tempfile::tempdir().unwrap();
    let far = Far::new(Arc::new(MemoryStore::new()));
    let expected = bytes(4, 200_000);
    far.create(&p("a"), &[&expected]).unwrap();
    far.create(&p("b"), &[&bytes(5, 200_000)]).unwrap();
    let store = wrapped(&far, dir.path(), "100MB");
    let look = |fetched: u64, what: &str| {
        far.forget();
        assert!(read(&*store.open_read(&p("a")).unwrap(), 0, 200_000) == expected, "{what}");
        assert_eq!(far.fetched(), fetched, "{what}");
    };
    look(200_000, "new");
    let file = blocks(dir.path()).pop().unwrap();
    let whole = std::fs::read(&file).unwrap();
    for at in [0, 7, 8, 20, 30, 36, 41, 50, 1023, 1024, 1024 + 16384, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        std::fs::write(&file, damaged).unwrap();
        look(200_000, &format!("byte {at}"));
        look(0, "mended");
    }
    for len in [0, 5, 1024, whole.len() - 1] {
        std::fs::write(&file, &whole[..len]).unwrap();
        look(200_000, &format!("cut to {len}"));
    }
    std::fs::write(&file, [&whole[..], b"x"].concat()).unwrap();
    look(200_000, "longer");
    // The whole block of another object.
    read(&*store.open_read(&p("b")).unwrap(), 0, 1);
    let other = blocks(dir.path()).into_iter().find(|path| *path != file).unwrap();
    std::fs::copy(other, &file).unwrap();
    look(200_000, "another object's");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    look(200_000, "a directory");
    std::fs::remove_dir(&file).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    look(200_000, "a link");
    look(0, "mended");
}

#[test]
fn what_was_not_used_for_longest_goes_first_and_the_bound_holds() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine.txt"), "not of the cache").unwrap();
    let far = Far::new(Arc::new(MemoryStore::new()));
    for n in 0..40 {
        far.create(&p(&format!("{n}")), &[&bytes(n, MIB)]).unwrap();
    }
    let store = wrapped(&far, dir.path(), "17MiB");
    let get = |n: u64| {
        far.forget();
        assert!(read(&*store.open_read(&p(&format!("{n}"))).unwrap(), 0, 1 << 20) == bytes(n, MIB));
        far.fetched() == 0
    };
    for n in 0..15 {
        assert!(!get(n));
        std::thread::sleep(Duration::from_millis(5)); // The clock of files is coarse.
    }
    std::thread::sleep(Duration::from_millis(1100));
    assert!(get(0) && get(3));
    for n in 15..20 {
        assert!(!get(n));
        std::thread::sleep(Duration::from_millis(5));
        assert!(disk_usage(dir.path()) <= 17 * MIB, "{}", disk_usage(dir.path()));
    }
    assert!(get(0) && get(3) && get(19) && get(14));
    assert!(!get(1) && !get(2));
    for n in 0..40 {
        get(n);
        assert!(disk_usage(dir.path()) <= 17 * MIB);
    }
    assert!(blocks(dir.path()).len() >= 12, "{}", blocks(dir.path()).len());
    assert_eq!(std::fs::read_to_string(dir.path().join("mine.txt")).unwrap(), "not of the cache");

    // What is counted wrongly is counted anew.
    for garbage in ["", "000", "99999999999999999999\n", "00000000000000000000\n"] {
        std::fs::write(dir.path().join("sigbank-cache-1/usage"), garbage).unwrap();
        let store = wrapped(&far, dir.path(), "17MiB");
        for n in 0..40 {
            read(&*store.open_read(&p(&format!("{n}"))).unwrap(), 0, 1);
        }
        assert!(blocks(dir.path()).len() >= 12);
    }
    // Without locks or counts a smaller bound is heeded too; one that is too small for anything writes nothing.
    let store = wrapped(&far, dir.path(), "4MiB");
    for n in 0..10 {
        read(&*store.open_read(&p(&format!("{n}"))).unwrap(), 0, 1);
    }
    assert!(disk_usage(dir.path()) <= 4 * MIB);
    let tiny = tempfile::tempdir().unwrap();
    let store = wrapped(&far, tiny.path(), "1MiB");
    assert!(read(&*store.open_read(&p("1")).unwrap(), 0, 1 << 20) == bytes(1, MIB));
    assert_eq!(blocks(tiny.path()), Vec::<PathBuf>::new());
}

#[test]
fn readers_of_one_block_share_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let far = Far::new(Arc::new(MemoryStore::new()));
    far.create(&p("a"), &[&bytes(7, 4 * MIB)]).unwrap();
    let file = wrapped(&far, dir.path(), "100MB").open_read(&p("a")).unwrap();
    far.delay(Duration::from_millis(50));
    std::thread::scope(|scope| {
        for n in 0..16u64 {
            let file = &file;
            scope.spawn(move || {
                assert_eq!(read(&**file, n * 250_000, 200_000), bytes(7, 4 * MIB)[n as usize * 250_000..][..200_000]);
            });
        }
    });
    assert_eq!(far.fetched(), 4 * MIB);
    // What is asked for and given up leaves nothing in the way.
    far.create(&p("b"), &[&bytes(8, MIB)]).unwrap();
    let file = wrapped(&far, dir.path(), "100MB").open_read(&p("b")).unwrap();
    let (first, second) = (Arc::clone(&file).start_ranges(&[0..10]), Arc::clone(&file).start_ranges(&[5..15]));
    drop(first);
    assert_eq!(second.wait().unwrap()[0], bytes(8, MIB)[5..15]);
    drop(Arc::clone(&file).start_ranges(&[0..10]));
    assert_eq!(read(&*file, 3, 4), bytes(8, MIB)[3..7]);
    // A failure is everybody's who waits for it, and nobody's afterwards.
    far.create(&p("c"), &[&bytes(9, MIB)]).unwrap();
    let file = wrapped(&far, dir.path(), "100MB").open_read(&p("c")).unwrap();
    far.fail_next();
    assert_eq!(file.read_ranges(&[0..3]).unwrap_err().code(), Code::Storage);
    assert_eq!(read(&*file, 0, 3), bytes(9, MIB)[..3]);
}

// Several processes: this program again, with what to do in its environment.

const CHILD: &str = "SIGBANK_CACHE_CHILD";

fn child(job: &str, remote: &Path, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["the_other_process", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, format!("{job}\n{}\n{}", remote.display(), dir.display())).env_remove("HOME");
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// A folder that is read as if it were far away.
fn remote(objects: u64) -> tempfile::TempDir {
    let remote = tempfile::tempdir().unwrap();
    let store = LocalStore::open(remote.path()).unwrap();
    (0..objects).for_each(|n| store.create(&p(&format!("{n}")), &[&bytes(n, MIB + 1000)]).unwrap());
    remote
}

#[test]
fn the_other_process() {
    let Ok(job) = std::env::var(CHILD) else { return };
    let [job, remote, dir] = job.split('\n').collect::<Vec<_>>()[..] else { panic!() };
    let far = Far::new(Arc::new(LocalStore::open(remote).unwrap()));
    let size = if job == "full" { "1GB" } else { "12MiB" };
    let store = wrapped(&far, Path::new(dir), size);
    let (rounds, mut state) = (if job == "endless" { u64::MAX } else { 60 }, u64::from(std::process::id()));
    for round in 0..rounds {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let n = if job == "full" { round % 20 } else { (state >> 33) % 20 };
        let file = store.open_read(&p(&format!("{n}"))).unwrap();
        assert!(read(&*file, 0, file.size() as usize) == bytes(n, MIB + 1000), "object {n}");
    }
    if job == "hits" {
        assert!(far.fetched() < 60 * MIB, "nothing was found in the cache: {}", far.fetched());
    }
}

fn succeed(children: Vec<Child>) -> String {
    let mut heard = String::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        heard += &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{heard}");
    }
    heard
}

#[test]
fn processes_side_by_side_get_right_bytes_and_keep_the_bound() {
    let (remote, dir) = (remote(20), tempfile::tempdir().unwrap());
    let mut children: Vec<Child> = (0..4).map(|_| child("hits", remote.path(), dir.path()).spawn().unwrap()).collect();
    let mut most = 0;
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        // While nobody evicts: else what goes and what comes instead may both be seen.
        if let Ok(usage) = std::fs::File::open(dir.path().join("sigbank-cache-1/usage")) {
            usage.lock().unwrap();
            most = most.max(disk_usage(&dir.path().join("sigbank-cache-1/blocks")));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(succeed(children), "");
    assert!(most > 8 * MIB && most <= 12 * MIB, "{most}");
    assert_eq!(unfinished(dir.path()), 0);
}

#[test]
fn a_killed_process_leaves_nothing_in_the_way() {
    let (remote, dir) = (remote(20), tempfile::tempdir().unwrap());
    for round in 0..10u64 {
        let mut children: Vec<Child> = (0..2).map(|_| child("endless", remote.path(), dir.path()).spawn().unwrap()).collect();
        let start = Instant::now();
        while blocks(dir.path()).is_empty() && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(round * 7));
        for child in &mut children {
            child.kill().unwrap(); // SIGKILL
            child.wait().unwrap();
        }
        assert_eq!(succeed(vec![child("hits", remote.path(), dir.path()).spawn().unwrap()]), "");
        assert_eq!(unfinished(dir.path()), 0);
        assert!(disk_usage(dir.path()) <= 12 * MIB);
    }
}

#[test]
fn a_full_disk_and_a_directory_without_permission_are_read_past() {
    let remote = remote(20);
    // A place where no directory can be.
    let place = tempfile::NamedTempFile::new().unwrap();
    let heard = succeed(vec![child("full", remote.path(), &place.path().join("c")).spawn().unwrap()]);
    assert_eq!(heard.matches("warning").count(), 1, "{heard}");

    let dir = tempfile::tempdir().unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=14m", "tmpfs"]).arg(dir.path()).stderr(Stdio::null()).status();
    if mounted.is_ok_and(|status| status.success()) {
        let done = std::panic::catch_unwind(|| {
            let heard = succeed(vec![child("full", remote.path(), dir.path()).spawn().unwrap()]);
            assert!(heard.matches("warning").count() <= 1, "{heard}");
            assert!(blocks(dir.path()).len() > 4, "nothing was kept");
            assert_eq!(unfinished(dir.path()), 0);
        });
        assert!(Command::new("umount").arg(dir.path()).status().unwrap().success());
        done.unwrap();
    } else {
        eprintln!("skipped: a small filesystem cannot be mounted here");
    }
}

#[test]
fn a_directory_that_may_only_be_read_serves_hits() {
    use std::os::unix::fs::PermissionsExt;
    let (remote, dir) = (remote(20), tempfile::tempdir().unwrap());
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(remote.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let cache = dir.path().join("cache");
    std::fs::create_dir(&cache).unwrap();
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o2775)).unwrap();
    succeed(vec![child("full", remote.path(), &cache).spawn().unwrap()]);
    // What is made in a directory has its mode, whatever the umask.
    let file = blocks(&cache).pop().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o664, 0o2775));
    if std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(remote.path()).unwrap()) != 0 {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let before = blocks(&cache);
    let as_nobody = |job: &str| {
        let own = child(job, remote.path(), &cache);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(own.get_program()).args(own.get_args());
        command.envs(own.get_envs().filter_map(|(k, v)| Some((k, v?)))).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    assert_eq!(succeed(vec![as_nobody("full").spawn().unwrap()]), "");
    std::fs::remove_file(&file).unwrap();
    let heard = succeed(vec![as_nobody("full").spawn().unwrap()]);
    assert_eq!(heard.matches("warning").count(), 1, "{heard}");
    assert_eq!(blocks(&cache).len(), before.len() - 1);
}
