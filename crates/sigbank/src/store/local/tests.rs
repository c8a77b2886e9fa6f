use super::*;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::sync::Mutex;

fn p(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

/// Every file and directory below `dir`, as the filesystem has them.
pub(super) fn tree(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(next).unwrap().map(Result::unwrap) {
            found.push(entry.path().strip_prefix(dir).unwrap().to_string_lossy().into_owned());
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// The stores' directories live until the end, then none may hold a temporary file.
fn conforms(tactic: Tactic, guarded: bool, stage_privately: bool) {
    let kept = Mutex::new(Vec::new());
    conformance::run(&|| {
        let dir = tempfile::tempdir().unwrap();
        let mut store = LocalStore::open(dir.path()).unwrap();
        (store.tactic, store.stage_privately) = (tactic, stage_privately);
        store.root.guarded &= guarded;
        kept.lock().unwrap().push(dir);
        Arc::new(store)
    });
    let kept = kept.into_inner().unwrap();
    let temporary: Vec<String> = kept.iter().flat_map(|dir| tree(dir.path())).filter(|name| name.contains(TEMPORARY)).collect();
    assert!(kept.len() > 10 && temporary.is_empty(), "{temporary:?}");
}

#[test]
fn conformance_with_rename() {
    conforms(Tactic::Rename, true, false);
}

#[test]
fn conformance_with_links_and_without_the_kernels_guard() {
    conforms(Tactic::Link, false, false);
}

#[test]
fn conformance_with_claim_files_and_private_staging() {
    conforms(Tactic::Claim, true, true);
}

fn new_store() -> (tempfile::TempDir, LocalStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::create(dir.path().join("ds")).unwrap();
    (dir, store)
}

#[test]
fn opening_says_what_is_wrong_with_the_root() {
    let (dir, store) = new_store();
    store.create(&p("file"), &[b"x"]).unwrap();
    for (path, words) in [("nowhere", "no such directory"), ("ds/file", "this is a file")] {
        let e = LocalStore::open(dir.path().join(path)).unwrap_err();
        assert_eq!(e.code(), Code::NotFound);
        assert!(e.to_string().contains(words) && e.path().unwrap().ends_with(path), "{e}");
    }
    assert_eq!(store.root(), dir.path().join("ds"));
}

#[test]
fn creating_writes_nothing_but_the_object() {
    let (dir, store) = new_store();
    store.create(&p("a/b/c"), &[b"x"]).unwrap();
    store.create(&p("a/b/c"), &[b"y"]).unwrap_err();
    assert_eq!(tree(dir.path()), ["ds", "ds/a", "ds/a/b", "ds/a/b/c"]);
    let (_, version) = store.get_versioned(&p("a/b/c")).unwrap();
    store.replace(&p("a/b/c"), &[b"z"], Expected::Version(&version)).unwrap();
    assert_eq!(tree(&dir.path().join("ds")), [".sigbank", ".sigbank/lock", "a", "a/b", "a/b/c"]);
    assert_eq!(version.as_str(), "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"); // sha256("x")
}

#[test]
fn unfinished_files_lie_where_they_were_told_to() {
    let (dir, store) = new_store();
    let store = store.private_dir(p("__pycache__/.sigbank"), true);
    let new = store.write_new(&p("item/x")).unwrap();
    let names = tree(&dir.path().join("ds"));
    assert_eq!(names[..3], ["__pycache__", "__pycache__/.sigbank", names[2].as_str()]);
    assert!(names[2].starts_with("__pycache__/.sigbank/.sigbank-tmp-"), "{names:?}");
    assert_eq!(names[3..], ["item"]);
    assert_eq!(store.list_dir(Some(&p("__pycache__"))).unwrap(), []);
    new.commit().unwrap();
    assert_eq!(tree(&dir.path().join("ds")), ["__pycache__", "__pycache__/.sigbank", "item", "item/x"]);
}

#[test]
fn the_stores_own_names_are_refused() {
    let (_dir, store) = new_store();
    for own in [".sigbank", ".sigbank/lock", "a/.sigbank-tmp-1/x", ".sigbank-tmp-1"] {
        for result in
            [store.create(&p(own), &[b"x"]), store.replace(&p(own), &[], Expected::Any).map(drop), store.delete(&p(own))]
        {
            assert_eq!(result.unwrap_err().code(), Code::Invalid, "{own}");
        }
    }
    store.create(&p("a/.sigbank"), &[b"x"]).unwrap(); // Only the root's is the store's.
    assert_eq!(store.list(None).unwrap().count(), 1);
}

#[test]
fn a_relative_root_is_made_absolute() {
    let store = LocalStore::open(".").unwrap();
    assert_eq!(store.root(), std::env::current_dir().unwrap());
    assert_eq!(LocalStore::open("").unwrap_err().code(), Code::Invalid);
}

#[test]
fn links_inside_are_followed_and_links_outside_refused() {
    for guarded in [true, false] {
        let (dir, mut store) = new_store();
        store.root.guarded &= guarded;
        let at = |path: &str| dir.path().join(path);
        std::fs::write(at("secret"), b"secret").unwrap();
        std::fs::create_dir(at("outside")).unwrap();
        std::fs::write(at("outside/file"), b"secret").unwrap();
        store.create(&p("d/real"), &[b"inside"]).unwrap();
        symlink("real", at("ds/d/relative")).unwrap();
        symlink("../d/real", at("ds/d/around")).unwrap();
        symlink(at("ds/d/real"), at("ds/absolute")).unwrap();
        symlink("d", at("ds/dirlink")).unwrap();
        symlink("..", at("ds/d/up")).unwrap();
        for inside in ["d/relative", "d/around", "absolute", "dirlink/real", "d/up/d/up/d/real"] {
            assert_eq!(store.get(&p(inside)).unwrap(), &b"inside"[..], "{inside}");
        }
        store.create(&p("dirlink/new"), &[b"new"]).unwrap();
        assert_eq!(store.get(&p("d/new")).unwrap(), &b"new"[..]);

        symlink("../secret", at("ds/out1")).unwrap();
        symlink(at("secret"), at("ds/out2")).unwrap();
        symlink("../outside", at("ds/outdir")).unwrap();
        symlink("../ds/d/real", at("ds/out-and-in")).unwrap();
        symlink("nowhere", at("ds/dangling")).unwrap();
        symlink("loop", at("ds/loop")).unwrap();
        for outside in ["out1", "out2", "outdir/file"] {
            let refused = [
                store.get(&p(outside)).map(drop),
                store.head(&p(outside)).map(drop),
                store.get_ranges(&p(outside), &[]).map(drop),
                store.open_read(&p(outside)).map(drop),
            ];
            for result in refused {
                let e = result.unwrap_err();
                assert_eq!(e.code(), Code::Invalid, "{outside}: {e}");
                assert!(e.to_string().contains("symbolic link") && e.to_string().contains(outside), "{e}");
            }
        }
        for result in [
            store.create(&p("outdir/new"), &[b"x"]),
            store.create(&p("outdir/sub/new"), &[b"x"]),
            store.replace(&p("outdir/file"), &[b"x"], Expected::Any).map(drop),
            store.delete(&p("outdir/file")),
            store.write_new(&p("outdir/new")).map(drop),
            store.list(Some(&p("outdir"))).map(drop),
            store.list_dir(Some(&p("outdir"))).map(drop),
            store.flush(&[p("outdir/file")]),
        ] {
            assert_eq!(result.unwrap_err().code(), Code::Invalid);
        }
        assert_eq!(tree(&at("outside")), ["file"]);
        // The name itself is a link: it is what is replaced, not where it leads to.
        store.replace(&p("out1"), &[b"mine"], Expected::Any).unwrap();
        assert_eq!((store.get(&p("out1")).unwrap(), std::fs::read(at("secret")).unwrap()), ("mine".into(), b"secret".to_vec()));
        assert_eq!(store.get(&p("dangling")).unwrap_err().code(), Code::NotFound);
        assert!(store.get(&p("loop")).is_err());

        // Links are listed as what they lead to, those outside too; dangling ones are not, and no linked directory is entered.
        let listed: Vec<String> = store.list(None).unwrap().map(|e| e.unwrap().path.to_string()).collect();
        assert_eq!(listed, ["d/around", "d/new", "d/real", "d/relative", "absolute", "out-and-in", "out1", "out2"]);
        assert_eq!(store.list_dir(None).unwrap()[..3], ["d", "dirlink", "outdir"].map(|name| DirEntry::Dir(p(name))));
        store.delete(&p("out2")).unwrap();
        assert_eq!(std::fs::read(at("secret")).unwrap(), b"secret");
    }
}

#[test]
fn what_is_no_file_is_no_object() {
    let (dir, store) = new_store();
    let at = |path: &str| dir.path().join("ds").join(path);
    std::fs::create_dir_all(at("dir/sub")).unwrap();
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    std::fs::write(at("back\\slash"), b"x").unwrap();
    std::fs::write(Path::new(&at("")).join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"latin\xe9")), b"x")
        .unwrap();
    for name in ["dir", "pipe"] {
        assert_eq!(store.get(&p(name)).unwrap_err().code(), Code::NotFound, "{name}"); // And does not hang on the pipe.
    }
    assert!(store.get(&p("socket")).is_err());
    assert_eq!(store.list(None).unwrap().count(), 0);
    for name in ["dir", "pipe", "socket"] {
        assert_eq!(store.create(&p(name), &[b"x"]).unwrap_err().code(), Code::AlreadyExists, "{name}");
    }
    assert_eq!(store.replace(&p("dir"), &[b"x"], Expected::Any).unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(store.delete(&p("dir")).unwrap_err().code(), Code::Invalid);
    store.create(&p("file"), &[b"x"]).unwrap();
    let e = store.create(&p("file/below"), &[b"x"]).unwrap_err();
    assert!(e.code() == Code::AlreadyExists && e.to_string().contains("where a directory is needed"), "{e}");
    let long = "n".repeat(256);
    for path in [long.clone(), format!("{long}/x"), format!("x/{long}"), "x/".repeat(3000) + "x"] {
        assert_eq!(store.create(&p(&path), &[b"x"]).unwrap_err().code(), Code::Invalid);
        assert!(store.get(&p(&path)).is_err());
    }
    assert!(!tree(&dir.path().join("ds")).iter().any(|name| name.contains(TEMPORARY)));
}

#[test]
fn a_file_cut_short_under_its_reader_is_named() {
    let (dir, store) = new_store();
    store.create(&p("x"), &[&[7; 100]]).unwrap();
    let file = store.open_read(&p("x")).unwrap();
    std::fs::OpenOptions::new().write(true).open(dir.path().join("ds/x")).unwrap().set_len(10).unwrap();
    let mut buf = [0; 50];
    let e = file.read_at(0, &mut buf).unwrap_err();
    assert!(e.to_string().contains("shorter"), "{e}");
    let e = Error::from(std::io::Read::read(&mut Sequential::new(file), &mut buf).unwrap_err());
    assert_eq!((e.code(), e.path().unwrap().ends_with("ds/x")), (Code::Corrupt, true));
}

#[test]
fn a_huge_sparse_file_is_a_limit_and_not_an_abort() {
    let (dir, store) = new_store();
    let file = std::fs::File::create(dir.path().join("ds/x")).unwrap();
    if file.set_len(15 << 40).is_err() {
        return println!("skipped: no sparse file of this size here");
    }
    let e = store.get(&p("x")).unwrap_err();
    assert_eq!((e.code(), store.head(&p("x")).unwrap().size), (Code::Limit, 15 << 40), "{e}");
    let (far, near) = (7 << 40..(7 << 40) + 3, 0..1);
    assert_eq!(store.get_ranges(&p("x"), &[far, near]).unwrap(), [&[0; 3][..], &[0]]);
}

#[test]
fn directories_are_published_and_deleted_whole() {
    for tactic in [Tactic::Rename, Tactic::Claim] {
        let (dir, mut store) = new_store();
        store.tactic = tactic;
        store.create(&p("stage/1/a"), &[b"1"]).unwrap();
        store.create(&p("stage/2/a"), &[b"2"]).unwrap();
        store.publish_dir(&p("stage/1"), &p("items/x")).unwrap();
        let e = store.publish_dir(&p("stage/2"), &p("items/x")).unwrap_err();
        assert!(e.code() == Code::AlreadyExists && e.to_string().contains("items/x"), "{e}");
        let e = store.publish_dir(&p("stage/3"), &p("items/y")).unwrap_err();
        assert!(e.code() == Code::NotFound && e.to_string().contains("stage/3"), "{e}");
        assert_eq!(store.get(&p("items/x/a")).unwrap(), &b"1"[..]);
        store.create(&p("file"), &[b"f"]).unwrap();
        assert_eq!(store.publish_dir(&p("stage/2"), &p("file")).unwrap_err().code(), Code::AlreadyExists);
        store.delete_dir(&p("items/x")).unwrap();
        store.delete_dir(&p("items/x")).unwrap();
        store.delete_dir(&p("no/where")).unwrap();
        assert_eq!(tree(&dir.path().join("ds")), [".sigbank", "file", "items", "stage", "stage/2", "stage/2/a"]);
    }
}

#[test]
fn the_durable_flush_works_one_by_one_and_together() {
    let (_dir, store) = new_store();
    let paths: Vec<RelPath> = (0..FEW + 1).map(|n| p(&format!("a/b{n}/c"))).collect();
    paths.iter().for_each(|path| store.create(path, &[b"x"]).unwrap());
    store.flush(&paths[..FEW]).unwrap();
    store.flush(&paths).unwrap();
    assert!(store.capabilities().flush && !store.durable(false).capabilities().flush);
}

#[test]
fn a_directory_without_write_permission_is_readable_and_says_so_when_written() {
    if std::process::Command::new("id").arg("-u").output().unwrap().stdout == b"0\n" {
        return println!("skipped: permissions do not bind root (the read-only mount test covers it)");
    }
    let (dir, store) = new_store();
    store.create(&p("x"), &[b"x"]).unwrap();
    std::fs::set_permissions(dir.path().join("ds"), std::fs::Permissions::from_mode(0o555)).unwrap();
    assert_eq!(store.get(&p("x")).unwrap(), &b"x"[..]);
    assert_eq!(store.create(&p("y"), &[b"y"]).unwrap_err().code(), Code::ReadOnly);
    std::fs::set_permissions(dir.path().join("ds"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_stream_that_failed_is_never_published() {
    let (dir, store) = new_store();
    let mut new = store.new_file(&p("x"), false).unwrap();
    new.write_all(b"part").unwrap();
    new.noted::<()>(Err(io::Error::from_raw_os_error(28))).unwrap_err();
    let e = Box::new(new).commit().unwrap_err();
    assert!(e.code() == Code::Storage && e.to_string().contains("ds/x"), "{e}");
    assert_eq!(tree(&dir.path().join("ds")), Vec::<String>::new());
}

#[test]
fn a_log_grows_by_whole_entries() {
    let (dir, store) = new_store();
    let log = store.create_log(&p("logs/a")).unwrap().unwrap();
    assert_eq!(store.create_log(&p("logs/a")).unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(store.create_log(&p(".sigbank/x")).unwrap_err().code(), Code::Invalid);
    let entry = |thread: u8, n: u8| vec![b'a' + thread; usize::from(n) * 7 + 1].into_iter().chain([b'\n']).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || (0..100).for_each(|n| log.append(&entry(thread, n)).unwrap()));
        }
    });
    let text = store.get(&p("logs/a")).unwrap();
    let mut found: Vec<&[u8]> = text.split_inclusive(|&b| b == b'\n').collect();
    let mut expected: Vec<Vec<u8>> = (0..4).flat_map(|t| (0..100).map(move |n| entry(t, n))).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    store.delete(&p("logs/a")).unwrap();
    log.append(b"into nowhere").unwrap();
    assert_eq!(store.get(&p("logs/a")).unwrap_err().code(), Code::NotFound);
    drop(dir);
}
