//! Whole datasets copied and brought forward, between stores that fail, and nothing shown before it is there.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // All of this file is test.

#[path = "support/datasets.rs"]
mod datasets;
#[path = "support/far.rs"]
mod far;

use datasets::{Shared, annotate, check, fill, memory, objects, record, sedpack, sedpack_of, signal, signal_of, version};
use far::{Far, bytes, p};
use sigbank::convert::copy::{CopyOptions, CopyReport, plan, run};
use sigbank::layout::sedpack::{self as sedpack_layout, FillerOptions, Info};
use sigbank::layout::signal_dataset::{Options, Publication, publish, write_shard};
use sigbank::layout::{Source, contents, detect, signal_dataset};
use sigbank::store::fault::{Fault, FaultStore, Op, Rule};
use sigbank::store::{Expected, LocalStore};
use sigbank::{Code, Error, Result};
use std::sync::Arc;

fn copy_with(from: &Shared, to: &Shared, options: &CopyOptions) -> Result<CopyReport> {
    run(&plan(from, to, options)?, &mut |_, _| true)
}

fn cp(from: &Shared, to: &Shared) -> Result<CopyReport> {
    copy_with(from, to, &CopyOptions::default())
}

fn sync(from: &Shared, to: &Shared) -> Result<CopyReport> {
    copy_with(from, to, &CopyOptions { update: true, ..CopyOptions::default() })
}

#[test]
fn what_is_named_is_copied_and_nothing_else_or_listed() {
    for (from, records, orphans) in [(sedpack(), 15, 1), (signal(), 18, 2)] {
        let reading = FaultStore::new(Arc::new(Far::new(from.clone())));
        let (to, writing) = (memory(), FaultStore::new(Arc::new(Far::new(memory()))));
        let report = cp(&(Arc::new(reading.clone()) as Shared), &to).unwrap();
        assert_eq!(check(&to), records);
        let (mut all, copied) = (objects(&from), objects(&to));
        let before = all.len();
        all.retain(|name, _| copied.contains_key(name));
        assert_eq!((before - all.len(), all == copied), (orphans, true));
        assert_eq!((report.objects, report.skipped), (copied.len() as u64, (0, 0)));
        assert_eq!(report.bytes, copied.values().map(|bytes| bytes.len() as u64).sum::<u64>());
        let root = contents(&from).unwrap().root();
        assert!(report.root.ends_with(
            &sigbank::format::checksum::digest_all(&[report.root.split(':').next().unwrap().parse().unwrap()], &[&root])[0]
        ));
        cp(&(Arc::new(reading.clone()) as Shared), &(Arc::new(writing.clone()) as Shared)).unwrap();
        for log in [reading.log(), writing.log()] {
            assert!(log.len() > 5 && log.iter().all(|(op, _)| *op != Op::List), "{log:?}");
        }
        // A finished copy is no unfinished one.
        let e = cp(&from, &to).unwrap_err();
        assert_eq!(e.code(), Code::AlreadyExists);
        assert!(e.to_string().contains("sigbank sync"), "{e}");
        assert_eq!(sync(&from, &to).unwrap().objects, 0);
    }
}

#[test]
fn after_each_failure_there_is_no_dataset_or_the_whole_and_the_next_run_completes_it() {
    for (from, records) in [(sedpack(), 15), (signal(), 18)] {
        let whole = {
            let to = memory();
            cp(&from, &to).unwrap();
            objects(&to)
        };
        let mut failures = 0;
        for lost in [false, true] {
            for n in 1.. {
                let (inner, broken) = (memory(), Error::storage("pulled the plug"));
                let faulty = FaultStore::new(inner.clone());
                faulty.add(Rule::new(if lost { Fault::FailAfter(broken) } else { Fault::Fail(broken) }).nth(n).always());
                let to: Shared = Arc::new(faulty.clone());
                if faulty_run(&from, &to, n, &faulty) {
                    break;
                }
                failures += 1;
                match detect(&*inner).unwrap() {
                    Some(_) => assert_eq!(objects(&inner), whole, "call {n}"),
                    None => {
                        faulty.heal();
                        let report = cp(&from, &to).unwrap();
                        assert_eq!(report.objects + report.skipped.0, whole.len() as u64);
                        assert_eq!(objects(&inner), whole, "call {n}");
                    }
                }
                assert_eq!(check(&inner), records);
            }
        }
        assert!(failures > 40, "{failures}");
    }
}

/// Whether the copy did not come to the n-th call.
fn faulty_run(from: &Shared, to: &Shared, n: u64, faulty: &FaultStore) -> bool {
    match copy_with(from, to, &CopyOptions { jobs: 1, ..CopyOptions::default() }) {
        Ok(_) => (faulty.log().len() as u64) < n,
        Err(e) => {
            assert_eq!(e.code(), Code::Storage, "{e}");
            false
        }
    }
}

#[test]
fn one_lost_answer_or_failure_of_the_source_does_no_harm() {
    for from in [sedpack(), signal()] {
        for n in 1.. {
            let faulty = FaultStore::new(from.clone());
            faulty.add(Rule::new(Fault::Fail(Error::storage("no line"))).nth(n));
            let (to, source): (Shared, Shared) = (memory(), Arc::new(faulty.clone()));
            let done = copy_with(&source, &to, &CopyOptions { jobs: 1, ..CopyOptions::default() });
            if done.is_err() {
                assert_eq!(detect(&*to).unwrap(), None, "call {n}");
                cp(&source, &to).unwrap();
            }
            check(&to);
            if (faulty.log().len() as u64) < n {
                break;
            }
        }
        // Of all calls that publish, the answer is lost once.
        for n in 1..60 {
            let faulty = FaultStore::new(memory());
            for op in [Op::Create, Op::Commit, Op::Replace] {
                faulty.add(Rule::new(Fault::FailAfter(Error::already_exists("retried"))).on(op).nth(n));
            }
            let to: Shared = Arc::new(faulty);
            cp(&from, &to).unwrap();
            check(&to);
        }
    }
}

#[test]
fn when_the_root_appears_everything_is_there() {
    for (from, root) in [(sedpack(), sedpack_layout::ROOT), (signal(), signal_dataset::ROOT)] {
        let (inner, named) = (memory(), contents(&from).unwrap());
        let faulty = FaultStore::new(inner.clone());
        let (seen, looked) = (inner.clone(), Arc::new(std::sync::atomic::AtomicU64::new(0)));
        let (names, count) = (named.clone(), looked.clone());
        let look = move |path: &str| {
            if path == root {
                for object in names.objects.iter().chain(&names.documents) {
                    seen.head(&object.path)?;
                }
                names.entrances[..names.entrances.len() - 1].iter().try_for_each(|e| seen.head(&e.path).map(|_| ()))?;
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            Ok(())
        };
        let look = Arc::new(look);
        for op in [Op::Create, Op::Replace] {
            faulty.add(Rule::new(Fault::Run(look.clone())).on(op).always());
        }
        cp(&from, &(Arc::new(faulty) as Shared)).unwrap();
        assert_eq!(looked.load(std::sync::atomic::Ordering::Relaxed), 1);
    }
}

#[test]
fn damage_is_not_copied() {
    for from in [sedpack(), signal()] {
        // What is made anew from the document that it is a copy of, is not read.
        for object in contents(&from).unwrap().objects.into_iter().filter(|object| object.bytes.is_none()) {
            let whole = from.get(&object.path).unwrap();
            let mut damaged = whole.to_vec();
            damaged[whole.len() / 2] ^= 1;
            for bytes in [damaged, whole[..whole.len() - 1].to_vec()] {
                from.replace(&object.path, &[&bytes], Expected::Any).unwrap();
                let to = memory();
                let e = cp(&from, &to).unwrap_err();
                assert_eq!(e.code(), Code::Corrupt);
                assert!(e.to_string().contains(object.path.as_str()), "{e}");
                assert_eq!(detect(&*to).unwrap(), None);
                assert!(!objects(&to).contains_key(object.path.as_str()));
            }
            from.replace(&object.path, &[&whole], Expected::Any).unwrap();
        }
    }
    // Without digests only the length tells.
    let from = signal_of(true);
    let object = contents(&from).unwrap().objects[0].path.clone();
    let len = from.get(&object).unwrap().len();
    from.replace(&object, &[&vec![0; len - 1]], Expected::Any).unwrap();
    assert_eq!(cp(&from, &memory()).unwrap_err().code(), Code::Corrupt);
}

#[test]
fn what_is_there_must_be_what_it_is_to_be() {
    for from in [sedpack(), signal(), signal_of(true)] {
        let named = contents(&from).unwrap();
        let (object, with_digest) = (&named.objects[1], !named.objects[1].digests.is_empty());
        let whole = from.get(&object.path).unwrap();
        let mut other = whole.to_vec();
        other[0] ^= 1;
        for far in [false, true] {
            let place = || -> (Shared, Shared) {
                let inner = memory();
                let store: Shared = if far { Arc::new(Far::new(inner.clone())) } else { inner.clone() };
                (store, inner)
            };
            let refused = |bytes: &[u8], checksum: bool| {
                let (to, _) = place();
                to.create(&object.path, &[bytes]).unwrap();
                match copy_with(&from, &to, &CopyOptions { checksum, ..CopyOptions::default() }) {
                    Ok(report) => {
                        assert_eq!(report.skipped, (1, bytes.len() as u64));
                        None
                    }
                    Err(e) => {
                        assert!(e.to_string().contains(object.path.as_str()), "{e}");
                        Some(e.code())
                    }
                }
            };
            assert_eq!(refused(&whole[1..], false), Some(Code::AlreadyExists));
            assert_eq!(refused(&other, true), Some(Code::AlreadyExists));
            // What has a digest is always compared where there is no dataset yet.
            assert_eq!(refused(&other, false).is_some(), with_digest);
            assert_eq!((refused(&whole, true), refused(&whole, false)), (None, None));
        }
    }
}

#[test]
fn large_objects_go_through_in_pieces() {
    let (from, to) = (signal(), memory());
    // A shard is not read as one: any object will do.
    let dir = tempfile::tempdir().unwrap();
    let local: Shared = Arc::new(LocalStore::create(dir.path().join("copy")).unwrap());
    let structure =
        serde_json::json!({"saved_data_description": [{"name": "x", "dtype": "uint8", "shape": [3_000_000]}], "compression": ""});
    let big = memory();
    let info = Info::new(Default::default(), structure.as_object().cloned().unwrap()).unwrap();
    let dataset = sedpack_layout::Dataset::create_store(big.clone(), info).unwrap();
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    filler.append("train", &[&bytes(5, 3_000_000)], None).unwrap();
    filler.finish().unwrap();
    let mut heard = Vec::new();
    let plan = plan(&big, &local, &CopyOptions::default()).unwrap();
    run(&plan, &mut |done, all| {
        heard.push((done, all));
        true
    })
    .unwrap();
    assert_eq!(check(&local), 1);
    assert_eq!((heard[0].0, *heard.last().unwrap()), (0, (plan.bytes(), plan.bytes())));
    cp(&from, &to).unwrap();
    // To be stopped leaves what can be completed.
    let place = memory();
    let plan = sigbank::convert::copy::plan(&from, &place, &CopyOptions { jobs: 1, ..Default::default() }).unwrap();
    let mut calls = 0;
    let e = run(&plan, &mut |_, _| {
        calls += 1;
        calls < 4
    });
    assert_eq!(e.unwrap_err().code(), Code::Conflict);
    assert_eq!(detect(&*place).unwrap(), None);
    assert!(cp(&from, &place).unwrap().skipped.0 >= 3);
    check(&place);
}

#[test]
fn sync_brings_sedpack_forward() {
    for locks in [true, false] {
        let from = sedpack();
        let inner = memory();
        let to: Shared = if locks { inner.clone() } else { Arc::new(Far::new(inner.clone())) };
        sync(&from, &to).unwrap(); // The first time it is cp.
        let reader = sedpack_layout::Dataset::open_store(to.clone(), Default::default()).unwrap();
        for round in 0..3u8 {
            fill(&from, "train", 20 + round..23 + round);
            let report = sync(&from, &to).unwrap();
            assert!(report.skipped.0 >= 5 && report.objects <= 6, "{report:?}");
            assert_eq!(check(&to), 15 + 3 * (u64::from(round) + 1));
            let root = p(sedpack_layout::ROOT);
            assert_eq!(from.get(&root).unwrap(), to.get(&root).unwrap());
        }
        assert_eq!(sync(&from, &to).unwrap().objects, 0);
        // Whoever had it open reads on, and finds what is there now.
        assert_eq!(reader.verify(&mut |_, _| true).unwrap().records, 24);
        assert!(!objects(&inner).keys().any(|name| name.contains("journal")), "{:?}", objects(&inner).keys());
        // What is lost is brought again.
        let lost = contents(&from).unwrap().objects[0].path.clone();
        inner.delete(&lost).unwrap();
        assert_eq!(sync(&from, &to).unwrap().objects, 1);
        check(&to);
        // What the source has not is not undone.
        fill(&to, "train", 90..91);
        fill(&from, "train", 30..31);
        let before = objects(&inner);
        let e = sync(&from, &to).unwrap_err();
        assert_eq!(e.code(), Code::Conflict);
        assert!(e.to_string().contains("a shard that the source has not"), "{e}");
        assert_eq!(objects(&inner), before);
        assert_eq!(sync(&sedpack_of("y"), &to).unwrap_err().code(), Code::Conflict);
        assert_eq!(sync(&sedpack(), &to).unwrap_err().code(), Code::Conflict);
        assert_eq!(sync(&signal(), &to).unwrap_err().code(), Code::Conflict);
        assert_eq!(objects(&inner), before);
    }
}

#[test]
fn sync_that_fails_anywhere_leaves_the_old_or_the_new_state_and_can_be_run_again() {
    for locks in [true, false] {
        let from = sedpack();
        let first = memory();
        cp(&from, &first).unwrap();
        fill(&from, "train", 20..28);
        fill(&from, "holdout", 40..42);
        for lost in [false, true] {
            for n in 1.. {
                let inner = memory();
                for (name, bytes) in objects(&first) {
                    inner.create(&p(&name), &[&bytes]).unwrap();
                }
                let broken = Error::storage("pulled the plug");
                let faulty = FaultStore::new(if locks { inner.clone() } else { Arc::new(Far::new(inner.clone())) });
                faulty.add(Rule::new(if lost { Fault::FailAfter(broken) } else { Fault::Fail(broken) }).nth(n).always());
                let to: Shared = Arc::new(faulty.clone());
                let options = CopyOptions { jobs: 1, update: true, ..CopyOptions::default() };
                let done = copy_with(&from, &to, &options).is_ok();
                if done && (faulty.log().len() as u64) < n {
                    break;
                }
                faulty.heal();
                let records = check(&to);
                assert!(records == 15 || records == 25, "call {n}: {records}");
                sync(&from, &to).unwrap();
                assert_eq!(check(&to), 25, "call {n}");
                assert_eq!(from.get(&p(sedpack_layout::ROOT)).unwrap(), inner.get(&p(sedpack_layout::ROOT)).unwrap());
            }
        }
    }
}

#[test]
fn sync_brings_versions_and_annotations_forward() {
    let (from, to) = (signal(), memory());
    cp(&from, &to).unwrap();
    annotate(&from, "second");
    version(&from, "yet-more", 18..21);
    let report = sync(&from, &to).unwrap();
    assert!(report.objects >= 7 && report.skipped.0 >= 8, "{report:?}");
    assert_eq!(check(&to), 21);
    let dataset = signal_dataset::Dataset::open_store(to.clone(), Options::default()).unwrap();
    assert_eq!(dataset.annotations().unwrap().names().collect::<Vec<_>>(), ["labels", "second"]);
    assert_eq!(sync(&from, &to).unwrap().objects, 0);

    let refused = |change: &dyn Fn(&Shared), words: &str| {
        let copy = memory();
        cp(&from, &copy).unwrap();
        change(&copy);
        let before = objects(&copy);
        let e = sync(&from, &copy).unwrap_err();
        assert!(e.code() == Code::Conflict && e.to_string().contains(words), "{e}");
        assert_eq!(objects(&copy), before);
    };
    refused(&|copy| annotate(copy, "own"), "an annotation set that the source has not");
    refused(&|copy| version(copy, "own", 30..31), "version 3, which the source has not");
    annotate(&from, "third");
    refused(&|copy| copy.replace(&p("root.json"), &[b"{}"], Expected::Any).map(|_| ()).unwrap(), "another dataset");
    let other = memory();
    cp(&from, &other).unwrap();
    version(&from, "here", 40..41);
    version(&other, "there", 50..51);
    let e = sync(&from, &other).unwrap_err();
    assert!(e.to_string().contains("another version 3"), "{e}");
    // The catalog of a copy without annotations.
    let (from, to) = (memory(), memory());
    let options = Options::default();
    let shard = write_shard(&*from, (0..3).map(record), "w", 0, &options).unwrap();
    publish(&from, &[shard], &Publication::new("d", "s"), &options).unwrap();
    cp(&from, &to).unwrap();
    annotate(&from, "a");
    sync(&from, &to).unwrap();
    let dataset = signal_dataset::Dataset::open_store(to, options).unwrap();
    assert_eq!(dataset.annotations().unwrap().open("a").unwrap().len(), 3);
}

#[test]
fn a_view_is_copied_with_its_references() {
    let dir = tempfile::tempdir().unwrap();
    let from: Shared = Arc::new(LocalStore::create(dir.path().join("ds")).unwrap());
    let options = Options::default();
    let shard = write_shard(&*from, (0..5).map(record), "w", 0, &options).unwrap();
    let dataset = publish(&from, &[shard], &Publication::new("d", "s"), &options).unwrap();
    let view: Shared = Arc::new(LocalStore::create(dir.path().join("view")).unwrap());
    dataset.select(vec![3, 1]).unwrap().publish(&view, &Publication::new("v", "s"), &options).unwrap();
    let to: Shared = Arc::new(LocalStore::create(dir.path().join("copy")).unwrap());
    let plan = plan(&view, &to, &CopyOptions::default()).unwrap();
    assert!(plan.elsewhere >= 2 && plan.todo.iter().all(|o| !o.path.as_str().starts_with("objects/")), "{plan:?}");
    run(&plan, &mut |_, _| true).unwrap();
    let copy = signal_dataset::Dataset::open_store(to, options).unwrap();
    assert_eq!(copy.record(0).unwrap().metadata().id, "r3");
}

#[test]
fn what_is_no_copy_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let e = cp(&memory(), &memory()).unwrap_err();
    assert_eq!(e.code(), Code::NotFound);
    assert!(e.to_string().contains("root.json") && e.to_string().contains("dataset_info.json"), "{e}");

    let (from, folder) =
        (dir.path().join("from"), |name: &str| -> Shared { Arc::new(LocalStore::create(dir.path().join(name)).unwrap()) });
    let source = folder("from");
    cp(&sedpack(), &source).unwrap();
    let refused = |to: &Shared| cp(&source, to).unwrap_err();
    assert_eq!(refused(&source).code(), Code::Invalid);
    assert_eq!(refused(&folder("from/inside")).code(), Code::Invalid);
    assert_eq!(refused(&folder("")).code(), Code::Invalid);
    assert!(from.join("dataset_info.json").exists());
    std::fs::create_dir(dir.path().join("mine")).unwrap();
    std::fs::write(dir.path().join("mine/notes.txt"), "notes").unwrap();
    let e = refused(&folder("mine"));
    assert!(e.code() == Code::AlreadyExists && e.to_string().contains("notes.txt"), "{e}");
    // A name that only begins alike is another place.
    cp(&source, &folder("from-2")).unwrap();
    check(&folder("from-2"));
}

/// Shards are named after the work, and so those of other data may have the same name and size.
#[test]
fn what_a_copy_of_other_data_left_is_not_taken_over() {
    let of = |first: u64| {
        let store = memory();
        let shard = write_shard(&*store, (first..first + 4).map(record), "w", 0, &Options::default()).unwrap();
        publish(&store, &[shard], &Publication::new("d", "s"), &Options::default()).unwrap();
        store
    };
    let (one, other) = (of(0), of(4));
    let to: Shared = Arc::new(Far::new(memory()));
    for (name, bytes) in objects(&one).iter().filter(|(name, _)| name.starts_with("objects/data")) {
        to.create(&p(name), &[bytes]).unwrap();
    }
    let e = cp(&other, &to).unwrap_err();
    assert!(e.code() == Code::AlreadyExists && e.to_string().contains("its bytes are others"), "{e}");
    assert!(detect(&*to).unwrap().is_none());
    assert_eq!(cp(&one, &to).unwrap().skipped.0, 1);
}

#[test]
fn a_copy_does_not_appear_beside_a_dataset_of_another_layout() {
    for (from, other) in [(sedpack(), "root.json"), (signal(), "dataset_info.json")] {
        let to: Shared = Arc::new(Far::new(memory()));
        let plan = plan(&from, &to, &CopyOptions::default()).unwrap();
        to.create(&p(other), &[b"{}"]).unwrap();
        let e = run(&plan, &mut |_, _| true).unwrap_err();
        assert!(e.code() == Code::AlreadyExists && e.remedy_text().is_some(), "{e}");
        let roots = objects(&to).keys().filter(|name| !name.contains('/')).count();
        assert_eq!((roots, objects(&to).keys().filter(|name| name.contains("turn")).count()), (1, 0));
        to.delete(&p(other)).unwrap();
        run(&plan, &mut |_, _| true).unwrap();
    }
}
