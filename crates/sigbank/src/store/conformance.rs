//! What every [`Store`] must do. A new store is done when [`run`] passes on it: call it from the store's tests.

// This is test code that is compiled with the library so that every store, also one of another crate, can call it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::single_range_in_vec_init)]

use super::*;
use crate::Code;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Runs the whole suite; each part gets a new, empty store from `make`. Panics at the first broken promise.
pub fn run(make: &dyn Fn() -> Arc<dyn Store>) {
    type Part = fn(&dyn Store);
    let parts: [(&str, Part); 19] = [
        ("create_is_create_only", create_is_create_only),
        ("one_of_many_creators_wins", one_of_many_creators_wins),
        ("streamed_creation", streamed_creation),
        ("one_of_many_streams_wins", one_of_many_streams_wins),
        ("replace_checks_what_is_there", replace_checks_what_is_there),
        ("versions_do_not_come_back", versions_do_not_come_back),
        ("increments_are_not_lost", increments_are_not_lost),
        ("replacement_is_never_torn", replacement_is_never_torn),
        ("an_open_object_is_one_version", an_open_object_is_one_version),
        ("reads", reads),
        ("ranges", ranges),
        ("missing_objects", missing_objects),
        ("delete_can_be_repeated", delete_can_be_repeated),
        ("listing", listing),
        ("odd_names", odd_names),
        ("empty_objects", empty_objects),
        ("big_objects", big_objects),
        ("flush_names_what_is_missing", flush_names_what_is_missing),
        ("locks", locks),
    ];
    for (name, part) in parts {
        eprintln!("conformance: {name}");
        part(&*make());
    }
}

fn p(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

#[track_caller]
fn fails<T: fmt::Debug>(result: Result<T>, code: Code, path: &str) {
    let e = result.expect_err("an error was expected");
    assert_eq!(e.code(), code, "{e}");
    assert!(e.to_string().contains(path), "the error does not name {path:?}: {e}");
}

#[track_caller]
fn holds(store: &dyn Store, path: &str, bytes: &[u8]) {
    assert_eq!(store.get(&p(path)).unwrap(), bytes, "{path}");
    assert_eq!(store.head(&p(path)).unwrap().size, bytes.len() as u64, "{path}");
}

fn names(store: &dyn Store, prefix: Option<&str>) -> BTreeSet<String> {
    let prefix = prefix.map(p);
    let entries: Vec<Entry> = store.list(prefix.as_ref()).unwrap().collect::<Result<_>>().unwrap();
    let names: BTreeSet<String> = entries.iter().map(|e| e.path.to_string()).collect();
    assert_eq!(names.len(), entries.len(), "a name is listed twice");
    names
}

fn create_is_create_only(s: &dyn Store) {
    s.create(&p("a/b/one"), &[b"fir", b"", b"st"]).unwrap();
    fails(s.create(&p("a/b/one"), &[b"second"]), Code::AlreadyExists, "a/b/one");
    holds(s, "a/b/one", b"first");
    s.create(&p("a/b/two"), &[b"2"]).unwrap();
    fails(s.replace(&p("a/b/two"), &[b"3"], Expected::Absent), Code::AlreadyExists, "a/b/two");
    holds(s, "a/b/two", b"2");
    assert_eq!(names(s, None), ["a/b/one", "a/b/two"].map(String::from).into());
}

/// `write` is called by 8 threads at once for one name; exactly one may succeed, and its bytes must be there.
fn one_winner(s: &dyn Store, write: impl Fn(&RelPath, &[u8]) -> Result<()> + Sync) {
    for round in 0..10 {
        let path = p(&format!("race/{round}/x"));
        let bytes = |n: u8| vec![n; 50_000 + usize::from(n)];
        let start = Barrier::new(8);
        let (start, write, path_) = (&start, &write, &path);
        let won: Vec<u8> = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..8)
                .map(|n| {
                    scope.spawn(move || {
                        start.wait();
                        (n, write(path_, &bytes(n)))
                    })
                })
                .collect();
            racers
                .into_iter()
                .filter_map(|racer| match racer.join().unwrap() {
                    (n, Ok(())) => Some(n),
                    (_, Err(e)) => {
                        assert_eq!(e.code(), Code::AlreadyExists, "{e}");
                        None
                    }
                })
                .collect()
        });
        assert_eq!(won.len(), 1, "round {round}: winners {won:?}");
        assert_eq!(s.get(&path).unwrap(), bytes(won[0]), "the winner's bytes are not there");
    }
    assert_eq!(names(s, None).len(), 10, "the losers left something behind");
}

fn one_of_many_creators_wins(s: &dyn Store) {
    one_winner(s, |path, bytes| s.create(path, &[bytes]));
}

fn one_of_many_streams_wins(s: &dyn Store) {
    one_winner(s, |path, bytes| {
        let mut new = s.write_new(path)?;
        bytes.chunks(7001).try_for_each(|chunk| new.write_all(chunk))?;
        new.commit()
    });
}

fn streamed_creation(s: &dyn Store) {
    let mut new = s.write_new(&p("d/streamed")).unwrap();
    new.write_all(b"hello ").unwrap();
    fails(s.get(&p("d/streamed")), Code::NotFound, "d/streamed");
    assert_eq!(names(s, None), BTreeSet::new(), "an unfinished object is listed");
    assert_eq!(s.list_dir(Some(&p("d"))).unwrap(), []);
    new.write_all(b"world").unwrap();
    new.commit().unwrap();
    holds(s, "d/streamed", b"hello world");

    let mut dropped = s.write_new(&p("d/dropped")).unwrap();
    dropped.write_all(&[1; 100_000]).unwrap();
    drop(dropped);
    fails(s.get(&p("d/dropped")), Code::NotFound, "d/dropped");
    s.create(&p("d/dropped"), &[b"now"]).unwrap();

    let committed = s.write_new(&p("d/streamed")).and_then(|mut new| {
        new.write_all(b"other")?;
        new.commit()
    });
    fails(committed, Code::AlreadyExists, "d/streamed");
    holds(s, "d/streamed", b"hello world");
    assert_eq!(names(s, None), ["d/dropped", "d/streamed"].map(String::from).into());
}

fn replace_checks_what_is_there(s: &dyn Store) {
    let path = p("dir/root.json");
    let first = s.replace(&path, &[b"1"], Expected::Absent).unwrap();
    assert_eq!(s.get_versioned(&path).unwrap(), (Bytes::from_static(b"1"), first.clone()));
    let second = s.replace(&path, &[b"2"], Expected::Version(&first)).unwrap();
    assert_ne!(first, second);
    fails(s.replace(&path, &[b"3"], Expected::Version(&first)), Code::Conflict, "dir/root.json");
    holds(s, "dir/root.json", b"2");
    let third = s.replace(&path, &[b"thi", b"rd"], Expected::Any).unwrap();
    holds(s, "dir/root.json", b"third");
    fails(s.replace(&path, &[b"4"], Expected::Version(&second)), Code::Conflict, "dir/root.json");
    s.delete(&path).unwrap();
    fails(s.replace(&path, &[b"5"], Expected::Version(&third)), Code::Conflict, "dir/root.json");
    fails(s.get(&path), Code::NotFound, "dir/root.json");
    s.replace(&path, &[b"6"], Expected::Any).unwrap();
    holds(s, "dir/root.json", b"6");
    assert_eq!(names(s, None).len(), 1);
}

/// A writer that was overtaken twice must hear of it, also when the newest object has the old length.
fn versions_do_not_come_back(s: &dyn Store) {
    let path = p("counter");
    s.create(&path, &[b"000"]).unwrap();
    let (_, mut version) = s.get_versioned(&path).unwrap();
    for n in 1..60 {
        let next = s.replace(&path, &[format!("{n:03}").as_bytes()], Expected::Version(&version)).unwrap();
        let again = s.replace(&path, &[format!("{:03}", n + 500).as_bytes()], Expected::Version(&next)).unwrap();
        fails(s.replace(&path, &[b"xxx"], Expected::Version(&version)), Code::Conflict, "counter");
        version = again;
    }
}

fn increments_are_not_lost(s: &dyn Store) {
    let path = p("state/counter");
    s.create(&path, &[b"0"]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    loop {
                        let (bytes, version) = s.get_versioned(&path).unwrap();
                        let next = std::str::from_utf8(&bytes).unwrap().parse::<u64>().unwrap() + 1;
                        match s.replace(&path, &[next.to_string().as_bytes()], Expected::Version(&version)) {
                            Ok(_) => break,
                            Err(e) => assert_eq!(e.code(), Code::Conflict, "{e}"),
                        }
                    }
                }
            });
        }
    });
    holds(s, "state/counter", b"80");
    assert_eq!(names(s, None).len(), 1, "something was left behind");
}

fn replacement_is_never_torn(s: &dyn Store) {
    let path = p("torn");
    let content = |n: u8| vec![n; 20_000 + 3_000 * usize::from(n % 5)];
    let whole = |bytes: &[u8]| !bytes.is_empty() && bytes == content(bytes[0]);
    s.create(&path, &[&content(0)]).unwrap();
    let (done, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let (bytes, _) = s.get_versioned(&path).expect("the object is always there");
                    assert!(whole(&bytes), "{} torn bytes", bytes.len());
                    let pieces = s.get_ranges(&path, &[0..10_000, 10_000..20_000]).unwrap();
                    assert_eq!(pieces[0], pieces[1], "ranges of two versions");
                    let mut streamed = Vec::new();
                    match Sequential::new(s.open_read(&path).unwrap()).read_to_end(&mut streamed) {
                        Ok(_) => assert!(whole(&streamed), "{} torn bytes in a stream", streamed.len()),
                        // Replaced meanwhile, as `open_read` allows.
                        Err(e) => assert!(s.capabilities().round_trip > 0, "{e}"),
                    }
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut n = 0;
        while n < 200 || (seen.load(Ordering::Relaxed) < 20 && n < 200_000) {
            n += 1;
            s.replace(&path, &[&content((n % 251) as u8)], Expected::Any).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(seen.into_inner() >= 20, "the readers saw too little to prove anything");
}

fn an_open_object_is_one_version(s: &dyn Store) {
    let path = p("open");
    s.create(&path, &[&[1; 9000]]).unwrap();
    let file = s.open_read(&path).unwrap();
    let mut half = [0; 4500];
    file.read_at(0, &mut half).unwrap();
    assert_eq!(half, [1; 4500]);
    s.replace(&path, &[&[2; 9000]], Expected::Any).unwrap();
    let mut later = [9; 4500];
    if file.read_at(4500, &mut later).is_ok() {
        assert_eq!(later, [1; 4500], "an open object changed under its reader");
    }
    s.delete(&path).unwrap();
    if file.read_at(0, &mut later).is_ok() {
        assert_eq!(later, [1; 4500]);
    }
}

fn reads(s: &dyn Store) {
    let bytes: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8).collect();
    s.create(&p("x/data"), &[&bytes]).unwrap();
    let file = s.open_read(&p("x/data")).unwrap();
    assert_eq!(file.size(), 10_000);
    assert!(file.location().contains("x/data"), "{}", file.location());
    let mut buf = [0; 100];
    file.read_at(9_900, &mut buf).unwrap();
    assert_eq!(buf, bytes[9_900..]);
    file.read_at(10_000, &mut []).unwrap();
    for offset in [9_901, 10_000, u64::MAX] {
        let e = file.read_at(offset, &mut buf).unwrap_err();
        assert_eq!(e.kind(), sigbank_format::error::FormatErrorKind::Corrupt, "{e}");
    }
    let mut all = Vec::new();
    Sequential::new(file).read_to_end(&mut all).unwrap();
    assert_eq!(all, bytes);
}

fn ranges(s: &dyn Store) {
    s.create(&p("x/r"), &[b"0123456789"]).unwrap();
    let get = |ranges: &[Range<u64>]| s.get_ranges(&p("x/r"), ranges);
    let got = get(&[7..10, 0..3, 4..4, 2..5, 10..10, 0..10]).unwrap();
    assert_eq!(got, [&b"789"[..], b"012", b"", b"234", b"", b"0123456789"]);
    assert_eq!(get(&[]).unwrap(), Vec::<Bytes>::new());
    fails(get(&[0..1, 9..11]), Code::Corrupt, "x/r");
    fails(get(&[11..11]), Code::Corrupt, "x/r");
    fails(get(&[0..u64::MAX]), Code::Corrupt, "x/r");
    #[allow(clippy::reversed_empty_ranges)]
    fails(get(&[5..4]), Code::Invalid, "x/r");
    let many: Vec<Range<u64>> = (0..1000).map(|n| n % 10..n % 10 + 1).collect();
    let got = get(&many).unwrap();
    assert!((0..1000).all(|n| got[n] == [b'0' + (n % 10) as u8][..]));
}

fn missing_objects(s: &dyn Store) {
    s.create(&p("there/is"), &[b"one"]).unwrap();
    for path in ["gone", "there", "there/gone", "no/dir/at/all"] {
        fails(s.get(&p(path)), Code::NotFound, path);
        fails(s.get_versioned(&p(path)), Code::NotFound, path);
        fails(s.get_ranges(&p(path), &[0..0]), Code::NotFound, path);
        fails(s.get_ranges(&p(path), &[]), Code::NotFound, path);
        fails(s.head(&p(path)), Code::NotFound, path);
        fails(s.open_read(&p(path)), Code::NotFound, path);
        assert!(!exists(s, &p(path)).unwrap(), "{path}");
        assert!(s.locate(&p(path)).ends_with(path));
    }
    let (_, version) = s.get_versioned(&p("there/is")).unwrap();
    fails(s.replace(&p("gone"), &[b"x"], Expected::Version(&version)), Code::Conflict, "gone");
    assert!(exists(s, &p("there/is")).unwrap());
    assert_eq!(names(s, None).len(), 1, "a failed call left an object");
}

fn delete_can_be_repeated(s: &dyn Store) {
    s.create(&p("d/x"), &[b"x"]).unwrap();
    s.create(&p("d/y"), &[b"y"]).unwrap();
    s.delete(&p("d/x")).unwrap();
    s.delete(&p("d/x")).unwrap();
    s.delete(&p("never/was")).unwrap();
    for path in ["e/x", "e/y/z", "ex"] {
        s.create(&p(path), &[b"1"]).unwrap();
    }
    s.delete_below(&p("e")).unwrap();
    s.delete_below(&p("e")).unwrap();
    assert_eq!(s.list(Some(&p("e"))).unwrap().count(), 0);
    s.get(&p("ex")).unwrap();
    fails(s.get(&p("d/x")), Code::NotFound, "d/x");
    holds(s, "d/y", b"y");
    s.create(&p("d/x"), &[b"again"]).unwrap();
    holds(s, "d/x", b"again");
}

fn listing(s: &dyn Store) {
    assert_eq!(names(s, None), BTreeSet::new());
    let all = ["a", "b/c", "b/d/e", "b/d/f", "b-prod/c", "b.c"];
    for (n, path) in all.iter().enumerate() {
        s.create(&p(path), &[&vec![0; n]]).unwrap();
    }
    assert_eq!(names(s, None), all.map(String::from).into());
    assert_eq!(names(s, Some("b")), ["b/c", "b/d/e", "b/d/f"].map(String::from).into());
    assert_eq!(names(s, Some("b/d")), ["b/d/e", "b/d/f"].map(String::from).into());
    for nothing in ["a", "b/c", "nowhere", "nowhere/deep"] {
        assert_eq!(names(s, Some(nothing)), BTreeSet::new(), "{nothing}");
        assert_eq!(s.list_dir(Some(&p(nothing))).unwrap(), [], "{nothing}");
    }
    let size = |path: &str| s.list(None).unwrap().map(|e| e.unwrap()).find(|e| e.path.as_str() == path).unwrap().size;
    assert_eq!((size("a"), size("b/d/f"), size("b.c")), (0, 3, 5));

    let (dir, object) =
        (|path| DirEntry::Dir(p(path)), |path, size| DirEntry::Object(Entry { path: p(path), size, modified: None }));
    assert_eq!(undated(s, None), [dir("b"), dir("b-prod"), object("a", 0), object("b.c", 5)]);
    assert_eq!(undated(s, Some("b")), [dir("b/d"), object("b/c", 1)]);
    // Where times are told, what is written later is not older.
    s.create(&p("later"), &[b"1"]).unwrap();
    let modified = |path: &str| s.list(None).unwrap().map(|e| e.unwrap()).find(|e| e.path.as_str() == path).unwrap().modified;
    assert!(modified("a") <= modified("later"));
}

/// A listing without its times.
fn undated(s: &dyn Store, dir: Option<&str>) -> Vec<DirEntry> {
    let entries = s.list_dir(dir.map(p).as_ref()).unwrap().into_iter();
    let undated = entries.map(|entry| match entry {
        DirEntry::Object(entry) => DirEntry::Object(Entry { modified: None, ..entry }),
        dir => dir,
    });
    undated.collect()
}

fn odd_names(s: &dyn Store) {
    let all = [
        "with space/and  two/ lead",
        "22.05/a.b.c",
        "Track 2.0 (x)/é",        // composed
        "Track 2.0 (x)/e\u{301}", // decomposed: another name
        "信号/ünï/🎵",
        "..a/...",
        "a%2Fb/%2e%2e/c",
        "q?x=1&y#z/+,;=@:$!*'()[]{}|<>\"^`~",
        ".hidden/.x",
        "-rf",
        "line\nbreak",
    ];
    // Object storage may refuse a control character, but not mistake it.
    let made = |path: &&str| match s.create(&p(path), &[path.as_bytes()]) {
        Err(e) if path.contains('\n') => {
            assert_eq!(e.code(), Code::Invalid, "{e}");
            false
        }
        made => made.map(|()| true).unwrap(),
    };
    let all: Vec<&str> = all.into_iter().filter(made).collect();
    for path in &all {
        holds(s, path, path.as_bytes());
    }
    assert_eq!(names(s, None), all.iter().map(|path| (*path).to_owned()).collect());
    for bad in ["../x", "a/../../x", "/etc/x", "a\\b", "a//b", ""] {
        assert!(RelPath::parse(bad).is_err(), "{bad:?} can be named");
    }
    for path in all {
        s.delete(&p(path)).unwrap();
    }
    assert_eq!(names(s, None), BTreeSet::new());
}

fn empty_objects(s: &dyn Store) {
    s.create(&p("e/none"), &[]).unwrap();
    s.write_new(&p("e/stream")).unwrap().commit().unwrap();
    for path in ["e/none", "e/stream"] {
        holds(s, path, b"");
        fails(s.create(&p(path), &[b"x"]), Code::AlreadyExists, path);
        assert_eq!(s.get_ranges(&p(path), &[0..0]).unwrap(), [Bytes::new()]);
        assert_eq!(s.open_read(&p(path)).unwrap().size(), 0);
    }
}

fn big_objects(s: &dyn Store) {
    let part: Vec<u8> = (0..1 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    s.create(&p("big/parts"), &vec![&part[..]; 40]).unwrap();
    let mut new = s.write_new(&p("big/stream")).unwrap();
    (0..40).for_each(|_| new.write_all(&part).unwrap());
    new.commit().unwrap();
    for path in ["big/parts", "big/stream"] {
        assert_eq!(s.head(&p(path)).unwrap().size, 40 << 20);
        let bytes = s.get(&p(path)).unwrap();
        assert!(bytes.len() == 40 << 20 && bytes.chunks(1 << 20).all(|chunk| chunk == part), "{path}");
        let middle = (39 << 20) - 5;
        let got = s.get_ranges(&p(path), &[middle..middle + 10]).unwrap();
        assert_eq!(got[0], [&part[(1 << 20) - 5..], &part[..5]].concat());
    }
}

fn flush_names_what_is_missing(s: &dyn Store) {
    let made: Vec<RelPath> = (0..20).map(|n| p(&format!("f/{}/{n}", n % 3))).collect();
    made.iter().for_each(|path| s.create(path, &[b"x"]).unwrap());
    s.flush(&[]).unwrap();
    s.flush(&made[..1]).unwrap();
    s.flush(&made).unwrap();
    if s.capabilities().round_trip > 0 {
        return; // Where nothing is to be flushed, looking for each name would only cost time.
    }
    fails(s.flush(&[made[0].clone(), p("f/gone")]), Code::NotFound, "f/gone");
    let many: Vec<RelPath> = made.iter().cloned().chain([p("f/gone")]).collect();
    fails(s.flush(&many), Code::NotFound, "f/gone");
}

fn locks(s: &dyn Store) {
    if !s.capabilities().locks {
        fails(s.try_lock("first").map(|guard| guard.is_some()), Code::Unsupported, "");
        return;
    }
    let guard = s.try_lock("first").unwrap().expect("nobody has the lock");
    assert!(s.try_lock("first").unwrap().is_none(), "the lock was given twice");
    let other = s.try_lock("second").unwrap().expect("another name is another lock");
    fails(lock(s, "first", Duration::from_millis(20)).map(drop), Code::Conflict, "first");
    drop((guard, other));
    for bad in ["", "..", "x/y", "/"] {
        fails(s.try_lock(bad).map(drop), Code::Invalid, "");
    }
    let inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let _guard = lock(s, "first", Duration::from_secs(30)).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(names(s, None), BTreeSet::new(), "a lock is listed as an object");
}
