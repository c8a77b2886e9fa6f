//! Publishing: all or nothing, once.

use super::support::*;
use sigbank::layout::signal_dataset::{Dataset, Options, Publication, publish};
use sigbank::store::fault::{Fault, FaultStore, Op, Rule};
use sigbank::store::{MemoryStore, Store};
use sigbank::{Code, Error};
use std::sync::{Arc, Barrier};

fn publication() -> Publication {
    Publication { metadata: json(r#"{"a":1}"#), ..Publication::new("test", "v1") }
}

fn ids(dataset: &Dataset) -> Vec<u64> {
    dataset.metadata_batches(0..dataset.len()).flat_map(Result::unwrap).map(|m| number(&m)).collect()
}

#[test]
fn the_highest_attempt_in_the_order_of_work_ids() {
    let store = memory();
    let shard = |work: &str, attempt: u64, range: std::ops::Range<u64>| {
        sigbank::layout::signal_dataset::write_shard(&*store, records(range), work, attempt, &options()).unwrap()
    };
    let shards = [
        shard("b", 10, 0..2),
        shard("b", 9, 2..4),
        shard("a", 0, 4..5),
        shard("é", 0, 5..6),
        shard("Z", 0, 6..9),
        shard("a", 0, 4..5),
    ];
    let dataset = publish(&store, &shards, &publication(), &options()).unwrap();
    assert_eq!(ids(&dataset), [6, 7, 8, 4, 0, 1, 5]);
    assert_eq!(dataset.metadata().as_str(), r#"{"a":1}"#);
    let mut other = shards[5].clone();
    other.record_count = 2;
    let e = publish(&store, &[shards[2].clone(), other], &publication(), &options()).unwrap_err();
    assert!(e.code() == Code::Invalid && e.message().contains("given twice"), "{e}");
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let store = memory();
    let shards = shards(&*store, 6, 2, &options());
    let before = store.list(None).unwrap().count();
    let expect =
        |ids: &[&str]| Publication { expected_work_ids: Some(ids.iter().map(|s| s.to_string()).collect()), ..publication() };
    let refused = |shards: &[_], publication: &Publication, word: &str| {
        let e = publish(&store, shards, publication, &options()).unwrap_err();
        assert!(e.code() == Code::Invalid && e.to_string().contains(word), "{word}: {e}");
        assert_eq!(store.list(None).unwrap().count(), before);
    };
    refused(&shards, &expect(&["w000000", "w000002", "w000004", "w9"]), "missing work ids: [\"w9\"]");
    refused(&shards, &expect(&["w000000", "w000002"]), "unexpected work ids: [\"w000004\"]");
    for id in ["", "a/b", "..", ".", "/", "a\\b"] {
        refused(&shards, &Publication { snapshot_id: id.into(), ..publication() }, "snapshot id");
    }
    refused(&shards, &Publication { dataset_id: "".into(), ..publication() }, "dataset id");
    refused(&shards, &Publication { metadata: json("[]"), ..publication() }, "not an object");
    let mut wrong = shards.clone();
    wrong[1].metadata.stored_bytes += 1;
    refused(&wrong, &publication(), "the worker wrote 131073 bytes, but 131072 are there");
    let mut outside = shards.clone();
    outside[1].data.path = sigbank::layout::signal_dataset::Place::parse("/etc/passwd").unwrap();
    refused(&outside, &publication(), "not within the root");
    let mut miscounted = shards.clone();
    miscounted[2].record_count = 3;
    let counting = Options { verify_record_counts: true, ..options() };
    let e = publish(&store, &miscounted, &publication(), &counting).unwrap_err();
    assert!(e.message().contains("3 records are expected, but the shard holds 2") && e.message().contains("w000004"), "{e}");
    store.delete(&path(shards[0].data.path.as_str())).unwrap();
    assert_eq!(publish(&store, &shards, &publication(), &options()).unwrap_err().code(), Code::NotFound);
}

#[test]
fn a_digest_that_a_worker_did_not_give_is_taken() {
    let store = memory();
    let shards = shards(&*store, 6, 2, &Options { compat: true, ..options() });
    assert!(shards[0].data.sha256.is_none());
    let dataset = publish(&store, &shards, &publication(), &options()).unwrap();
    let page = dataset.page(0).unwrap();
    for reference in page.shards.iter().flat_map(|s| [&s.data, &s.metadata]) {
        let bytes = store.get(&path(reference.path.as_str())).unwrap();
        assert_eq!(reference.sha256, Some(sigbank::layout::signal_dataset::Digest::of(&bytes)));
    }
}

#[test]
fn publishing_again_finds_it_complete_and_another_collides() {
    let store = memory();
    let shards = shards(&*store, 6, 2, &options());
    let first = publish(&store, &shards, &publication(), &options()).unwrap();
    let before: Vec<_> = store.list(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(publish(&store, &shards, &publication(), &options()).unwrap().root_digest(), first.root_digest());
    for other in [
        Publication { dataset_id: "other".into(), ..publication() },
        Publication { snapshot_id: "v2".into(), ..publication() },
        Publication { metadata: json("{}"), ..publication() },
    ] {
        let e = publish(&store, &shards, &other, &options()).unwrap_err();
        assert!(e.code() == Code::AlreadyExists && e.path().unwrap().ends_with("root.json"), "{e}");
    }
    // Other shards under the same names meet the page that is there.
    let e = publish(&store, &shards[..2], &publication(), &options()).unwrap_err();
    assert!(e.code() == Code::AlreadyExists && e.path().unwrap().contains("manifests/"), "{e}");
    assert_eq!(store.list(None).unwrap().map(Result::unwrap).collect::<Vec<_>>(), before);
}

/// Whatever call fails, and whether its answer or its work is lost: readers see nothing or everything, and doing it again completes it.
#[test]
fn a_publication_that_fails_anywhere_is_completed_by_another() {
    let options = Options { shards_per_manifest: 2, ..options() };
    let whole = memory();
    let written = shards(&*whole, 8, 2, &options);
    let digest = publish(&whole, &written, &publication(), &options).unwrap().root_digest();
    let (mut failures, mut seen_whole) = (0, 0);
    for lost_answer in [false, true] {
        for op in [Op::Create, Op::Flush, Op::Head, Op::Get] {
            for nth in 1.. {
                let inner = Arc::new(MemoryStore::new());
                let shards = shards(&*inner, 8, 2, &options);
                let error = Error::storage("the power is gone");
                let fault = if lost_answer { Fault::FailAfter(error) } else { Fault::Fail(error) };
                let faulty = Arc::new(FaultStore::new(inner.clone() as Arc<dyn Store>));
                faulty.add(Rule::new(fault).on(op).nth(nth));
                let store: Arc<dyn Store> = faulty;
                let plain: Arc<dyn Store> = inner;
                let failed = publish(&store, &shards, &publication(), &options);
                let seen = Dataset::open_store(plain.clone(), options.clone());
                match &seen {
                    Ok(dataset) => {
                        assert_eq!(ids(dataset), (0..8).collect::<Vec<_>>());
                        seen_whole += usize::from(failed.is_err());
                    }
                    Err(e) => assert_eq!(e.code(), Code::NotFound, "{e}"),
                }
                if failed.is_ok() {
                    break;
                }
                failures += 1;
                let again = publish(&plain, &shards, &publication(), &options).unwrap();
                assert_eq!(again.root_digest(), digest);
                again.verify(&mut |_, _| true).unwrap();
            }
        }
    }
    assert!(failures > 20 && seen_whole > 0, "{failures} {seen_whole}");
}

#[test]
fn of_two_coordinators_one_wins() {
    for (round, same_snapshot) in (0..60).map(|round| (round, round % 2 == 0)) {
        let store = memory();
        let shards = shards(&*store, 8, 2, &options());
        let barrier = Barrier::new(2);
        let run = |which: usize| {
            let (publication, shards) = match (which, same_snapshot) {
                (0, _) => (Publication::new("first", "v1"), shards.clone()),
                (_, true) => (Publication::new("first", "v1"), shards[..3].to_vec()),
                (_, false) => (Publication::new("second", "v2"), shards[..3].to_vec()),
            };
            barrier.wait();
            publish(&store, &shards, &publication, &options())
        };
        let (a, b) = std::thread::scope(|scope| {
            let other = scope.spawn(|| run(1));
            (run(0), other.join().unwrap())
        });
        let (winner, loser, records) = match (a, b) {
            (Ok(dataset), Err(e)) => (dataset, e, 8),
            (Err(e), Ok(dataset)) => (dataset, e, 6),
            (a, b) => panic!("round {round}: {:?} {:?}", a.err(), b.err()),
        };
        assert_eq!(loser.code(), Code::AlreadyExists, "{loser}");
        assert_eq!(winner.len(), records);
        let read = Dataset::open_store(store, options()).unwrap();
        assert_eq!((read.root_digest(), read.verify(&mut |_, _| true).unwrap().records), (winner.root_digest(), records));
    }
}
