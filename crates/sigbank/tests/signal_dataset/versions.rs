//! Further versions: found by number, never seen in part, and not seen at all by who reads `root.json`.

use super::support::*;
use sigbank::layout::signal_dataset::versions::{self, ShardCount, compare};
use sigbank::layout::signal_dataset::{
    Dataset, Options, Place, PublishedShard, Record, VersionPublication, Which, publish_version, write_shard,
};
use sigbank::store::fault::{Fault, FaultStore, Op, Rule};
use sigbank::store::{MemoryStore, Store};
use sigbank::{Code, Error};
use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};

fn ids(dataset: &Dataset) -> Vec<u64> {
    dataset.batches(0..dataset.len()).flat_map(Result::unwrap).map(|r| number(r.metadata())).collect()
}

fn shard(store: &dyn Store, work: &str, range: std::ops::Range<u64>) -> PublishedShard {
    write_shard(store, records(range), work, 0, &options()).unwrap()
}

fn append(name: &str) -> VersionPublication {
    VersionPublication { base: Some(Which::Latest), ..VersionPublication::new(name) }
}

fn objects(store: &dyn Store) -> BTreeMap<String, Vec<u8>> {
    let names: Vec<_> = store.list(None).unwrap().map(|entry| entry.unwrap().path).collect();
    names.into_iter().map(|name| (name.as_str().to_owned(), store.get(&name).unwrap().to_vec())).collect()
}

fn verified(dataset: &Dataset) -> u64 {
    dataset.verify(&mut |_, _| true).unwrap().records
}

/// A dataset of 8 records in 4 shards on two pages, and the options with which it is on two.
fn first() -> (Arc<dyn Store>, Options) {
    let (store, options) = (memory(), Options { shards_per_manifest: 3, ..options() });
    dataset(&store, 8, 2, &options);
    (store, options)
}

#[test]
fn a_version_begins_with_the_shards_of_another_and_names_its_pages_again() {
    let (store, options) = first();
    let before = objects(&*store);
    let more = [shard(&*store, "b", 10..12), shard(&*store, "a", 8..10)];
    let metadata = Some(json(r#"{"by":"me"}"#));
    let second = publish_version(&store, &more, &VersionPublication { metadata, ..append("more") }, &options).unwrap();
    assert_eq!((ids(&second), verified(&second)), ((0..12).collect(), 12));
    assert_eq!(
        second.snapshot().manifests[..2],
        Dataset::open_store(store.clone(), options.clone()).unwrap().snapshot().manifests
    );
    // Of a version that loses a shard, the pages before that one are named again.
    let gone = [second.page(1).unwrap().shards[0].data.path.clone(), second.page(2).unwrap().shards[0].data.path.clone()];
    let publication = VersionPublication { without: gone.to_vec(), ..append("less") };
    let third = publish_version(&store, &[shard(&*store, "c", 12..13)], &publication, &options).unwrap();
    assert_eq!((ids(&third), verified(&third)), (vec![0, 1, 2, 3, 4, 5, 10, 11, 12], 9));
    assert_eq!(third.snapshot().manifests[0], second.snapshot().manifests[0]);
    assert_eq!(third.metadata().as_str(), r#"{"by":"me"}"#);
    // And one of new records only, though the base is an older one still.
    let fourth = publish_version(&store, &more[..1], &VersionPublication::new("other"), &options).unwrap();
    assert_eq!(ids(&fourth), [10, 11]);
    let of_first = VersionPublication { base: Some(Which::Name("v1".into())), ..VersionPublication::new("from the first") };
    let fifth = publish_version(&store, &more[1..], &of_first, &options).unwrap();
    assert_eq!((ids(&fifth), fifth.metadata().as_str()), ((0..10).collect(), "{}"));

    // What was there is there as it was: nobody who reads root.json sees any of it.
    let after = objects(&*store);
    assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes)));
    let plain = Dataset::open_store(store.clone(), options.clone()).unwrap();
    assert_eq!((plain.len(), plain.snapshot_id()), (8, "v1"));

    let all = plain.versions().unwrap();
    let told: Vec<_> =
        all.iter().map(|v| (v.number, &*v.name, v.record_count, v.shard_count, v.base.map(|b| b.number))).collect();
    let expected = [(0, "v1", 8, 4, None), (1, "more", 12, 6, Some(0)), (2, "less", 9, 5, Some(1)), (3, "other", 2, 1, None)];
    assert_eq!(told[..4], expected);
    assert_eq!(told[4], (4, "from the first", 10, 5, Some(0)));
    for pair in all.windows(2) {
        assert_eq!(pair[1].parent, Some(pair[0].reference()));
    }
    assert_eq!((all[0].digest, all[1].digest), (plain.root_digest(), second.root_digest()));
    assert_eq!(second.versions().unwrap(), all);
}

#[test]
fn a_version_is_opened_by_number_name_and_digest() {
    let (store, options) = first();
    for n in 0..9 {
        publish_version(&store, &[shard(&*store, &format!("n{n}"), n..n + 1)], &append(&format!("x{n}")), &options).unwrap();
    }
    let plain = Dataset::open_store(store.clone(), options.clone()).unwrap();
    let all = plain.versions().unwrap();
    assert_eq!(all.len(), 10);
    for version in &all {
        let hex = version.digest.to_string();
        let digest = format!("sha256:{}", hex[..12].to_uppercase());
        for which in [version.number.to_string(), version.name.clone(), digest] {
            let opened = Dataset::open_version(store.clone(), &which.parse().unwrap(), options.clone()).unwrap();
            assert_eq!((opened.root_digest(), opened.len()), (version.digest, 8 + version.number), "{which}");
            assert_eq!(opened.version_document().map(|v| v.number).unwrap_or_default(), version.number);
        }
        for whole in [hex.clone(), format!("sha256:{hex}")] {
            let opened = Dataset::open_at(store.clone(), &whole, options.clone()).unwrap();
            assert_eq!(opened.len(), 8 + version.number);
        }
    }
    let latest = plain.version(&Which::Latest).unwrap();
    assert_eq!((latest.len(), latest.version_document()), (17, Some(&all[9])));
    assert_eq!(latest.version(&Which::Number(0)).unwrap().len(), 8);
    for (which, code) in [
        (Which::Number(10), Code::NotFound),
        (Which::Name("v2".into()), Code::NotFound),
        (Which::Digest("0123456789ab".into()), Code::NotFound),
        (Which::Digest(String::new()), Code::Invalid),
    ] {
        assert_eq!(plain.version(&which).unwrap_err().code(), code, "{which}");
    }
    let e = Dataset::open_at(store.clone(), "sha256:0123456789ab", options.clone()).unwrap_err();
    assert!(e.code() == Code::Invalid && e.message().contains("64 hexadecimal digits"), "{e}");
    let none = Dataset::open_at(store, &"0".repeat(64), options).unwrap_err();
    assert_eq!(none.code(), Code::NotFound);
    assert!("sha256:xyz".parse::<Which>().is_err() && "sha256:0123456789ag".parse::<Which>().is_err());
}

#[test]
fn the_newest_is_found_with_few_looks_and_no_listing() {
    let inner = Arc::new(MemoryStore::new());
    let plain: Arc<dyn Store> = inner.clone();
    dataset(&plain, 2, 2, &options());
    publish_version(&plain, &[shard(&*plain, "a", 2..3)], &append("a"), &options()).unwrap();
    // Many versions by their names only.
    let document = plain.get(&path("sigbank/versions/00000001.json")).unwrap();
    for number in 2..=700 {
        plain.create(&path(&format!("sigbank/versions/{number:08}.json")), &[&document]).unwrap();
    }
    let faulty = Arc::new(FaultStore::new(plain));
    let e = Dataset::open_version(faulty.clone(), &Which::Latest, options()).unwrap_err();
    assert!(e.code() == Code::Corrupt && e.path().unwrap().ends_with("00000700.json"), "{e}");
    assert!(e.message().contains("it is version 1, where 700 belongs"), "{e}");
    let looks: Vec<_> = faulty.log().into_iter().filter(|(_, name)| name.contains("versions/")).collect();
    // And at the next eight, where that costs next to nothing.
    assert!(looks.len() < 25 + 8 && faulty.log().iter().all(|(op, _)| *op != Op::List), "{looks:?}");
}

#[test]
fn what_is_no_version_is_refused_before_anything_is_written() {
    let (store, options) = first();
    let more = [shard(&*store, "m", 8..9)];
    let before = objects(&*store);
    let held = Dataset::open_store(store.clone(), options.clone()).unwrap().page(1).unwrap().shards[0].clone();
    let again = PublishedShard {
        work_id: "again".into(),
        attempt: 0,
        record_count: held.record_count,
        data: held.data.clone(),
        metadata: held.metadata,
    };
    let absent = Place::parse("objects/data/00/x.arrayrecord").unwrap();
    let base = |which| VersionPublication { base: Some(which), ..append("x") };
    let cases = [
        (append(""), &more[..], Code::Invalid, "cannot be the name"),
        (append("a/b"), &more, Code::Invalid, "cannot be the name"),
        (append("12"), &more, Code::Invalid, "numbers, latest and digests"),
        (append("latest"), &more, Code::Invalid, "numbers, latest and digests"),
        (append("sha256:1"), &more, Code::Invalid, "numbers, latest and digests"),
        (append("v1"), &more, Code::AlreadyExists, "version 0 is called 'v1' already"),
        (append("x"), &[again][..], Code::Invalid, "the base holds this shard already"),
        (VersionPublication { without: vec![absent.clone()], ..append("x") }, &more, Code::Invalid, "holds no shard"),
        (VersionPublication { without: vec![absent], ..VersionPublication::new("x") }, &more, Code::Invalid, "no base"),
        (VersionPublication { metadata: Some(json("[]")), ..append("x") }, &more, Code::Invalid, "not an object"),
        (base(Which::Number(1)), &more, Code::NotFound, "there is no version 1"),
        (base(Which::Name("y".into())), &more, Code::NotFound, "there is no version 'y'"),
    ];
    for (publication, shards, code, words) in cases {
        let e = publish_version(&store, shards, &publication, &options).unwrap_err();
        assert!(e.code() == code && e.to_string().contains(words), "{words}: {e}");
        assert_eq!(objects(&*store), before);
    }
    let e = publish_version(&memory(), &[], &append("x"), &options).unwrap_err();
    assert_eq!(e.code(), Code::NotFound);
}

/// Any byte of what a version names is looked at.
#[test]
fn a_changed_byte_is_found() {
    let (store, options) = first();
    let before: Vec<_> = objects(&*store).into_keys().collect();
    let second = publish_version(&store, &[shard(&*store, "m", 8..10)], &append("more"), &options).unwrap();
    let digest = second.root_digest().to_string();
    let check = || Dataset::open_at(store.clone(), &digest, options.clone()).and_then(|d| d.verify(&mut |_, _| true));
    check().unwrap();
    let all = objects(&*store);
    let mut own = 0;
    for (name, bytes) in &all {
        let snapshot_of_0 = name.starts_with("snapshots/v1/");
        own += usize::from(!before.contains(name));
        for at in (0..bytes.len()).step_by(bytes.len() / 40 + 1) {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            replace(&*store, name, &changed);
            let found = check();
            // Of the first snapshot's own document version 1 needs no more than that it is there.
            assert!(found.is_err() || snapshot_of_0, "{name} at {at}");
            let code = found.err().map(|e| e.code());
            assert!(matches!(code, None | Some(Code::Corrupt | Code::NotFound | Code::Unsupported)), "{name}: {code:?}");
        }
        replace(&*store, name, bytes);
    }
    assert_eq!(own, 6);
    check().unwrap();
    // A document that tells another digest, rightly, is another version.
    let name = "sigbank/versions/00000001.json";
    let text = String::from_utf8(all[name].clone()).unwrap();
    let without: String = text.lines().filter(|line| !line.starts_with("  \"digest\"")).map(|line| format!("{line}\n")).collect();
    assert_eq!(sigbank::layout::signal_dataset::Digest::of(without.as_bytes()).to_string(), digest);
}

#[test]
fn a_parent_that_was_replaced_is_found_where_all_are_listed() {
    let (store, options) = first();
    publish_version(&store, &[], &append("a"), &options).unwrap();
    let second = path("sigbank/versions/00000002.json");
    publish_version(&store, &[], &append("b"), &options).unwrap();
    let document = store.get(&second).unwrap();
    let dataset = Dataset::open_store(store.clone(), options.clone()).unwrap();
    store.delete(&path("sigbank/versions/00000001.json")).unwrap();
    store.delete(&second).unwrap();
    publish_version(&store, &[], &append("another"), &options).unwrap();
    store.create(&second, &[&document]).unwrap();
    let e = dataset.versions().unwrap_err();
    assert!(e.code() == Code::Corrupt && e.message().contains("it follows version 1"), "{e}");
}

/// Whatever call fails, and whether its answer or its work is lost: readers see no version or the whole one, and doing it again
/// completes it.
#[test]
fn a_publication_that_fails_anywhere_is_completed_by_another() {
    let options = Options { shards_per_manifest: 2, ..options() };
    let (mut failures, mut seen_whole) = (0, 0);
    for lost_answer in [false, true] {
        for op in [Op::Create, Op::Flush, Op::Head, Op::Get] {
            for nth in 1.. {
                let inner = Arc::new(MemoryStore::new());
                let plain: Arc<dyn Store> = inner;
                dataset(&plain, 8, 2, &options);
                let more: Vec<_> = (0..3).map(|n| shard(&*plain, &format!("m{n}"), 8 + 2 * n..10 + 2 * n)).collect();
                let error = Error::storage("the power is gone");
                let fault = if lost_answer { Fault::FailAfter(error) } else { Fault::Fail(error) };
                let faulty = Arc::new(FaultStore::new(plain.clone()));
                faulty.add(Rule::new(fault).on(op).nth(nth));
                let store: Arc<dyn Store> = faulty;
                let failed = publish_version(&store, &more, &append("more"), &options);
                let seen = Dataset::open_version(plain.clone(), &Which::Latest, options.clone()).unwrap();
                let records = ids(&seen).len();
                assert!(records == 14 || (failed.is_err() && records == 8), "{records}");
                seen_whole += usize::from(failed.is_err() && records == 14);
                if failed.is_ok() {
                    break;
                }
                failures += 1;
                let again = publish_version(&plain, &more, &append("more"), &options).unwrap();
                assert_eq!((ids(&again), verified(&again)), ((0..14).collect(), 14));
                assert_eq!(seen.versions().unwrap().len(), 2);
            }
        }
    }
    assert!(failures > 20 && seen_whole > 0, "{failures} {seen_whole}");
}

#[test]
fn publishing_again_finds_it_complete_and_another_of_the_name_collides() {
    let (store, options) = first();
    let more = [shard(&*store, "m", 8..10), shard(&*store, "n", 10..11)];
    let once = publish_version(&store, &more, &append("more"), &options).unwrap();
    publish_version(&store, &[], &append("later"), &options).unwrap();
    let before = objects(&*store);
    let twice = publish_version(&store, &more, &append("more"), &options).unwrap();
    assert_eq!(once.root_digest(), twice.root_digest());
    for (shards, publication) in [
        (&more[..1], append("more")),
        (&more, VersionPublication::new("more")),
        (&more, VersionPublication { base: Some(Which::Latest), metadata: Some(json(r#"{"a":1}"#)), ..append("more") }),
        (&more, VersionPublication { base: Some(Which::Number(1)), ..append("more") }),
    ] {
        let e = publish_version(&store, shards, &publication, &options).unwrap_err();
        assert!(e.code() == Code::AlreadyExists && e.message().contains("version 1 is called 'more'"), "{e}");
    }
    assert_eq!(objects(&*store), before);
}

#[test]
fn of_two_writers_of_the_next_version_one_gets_the_number() {
    for rebase in [false, true] {
        let mut conflicts = 0;
        for round in 0..60 {
            let (store, options) = first();
            let shards = [shard(&*store, "a", 8..10), shard(&*store, "b", 10..11)];
            let barrier = Barrier::new(2);
            let run = |which: usize| {
                let publication = VersionPublication { rebase, ..append(["a", "b"][which]) };
                barrier.wait();
                publish_version(&store, &shards[which..=which], &publication, &options)
            };
            let both = std::thread::scope(|scope| {
                let other = scope.spawn(|| run(1));
                [run(0), other.join().unwrap()]
            });
            let dataset = Dataset::open_store(store.clone(), options.clone()).unwrap();
            let versions = dataset.versions().unwrap();
            for version in &versions {
                verified(&dataset.version(&Which::Number(version.number)).unwrap());
            }
            let failed: Vec<&Error> = both.iter().filter_map(|one| one.as_ref().err()).collect();
            assert_eq!(versions.len(), 3 - failed.len(), "round {round}");
            conflicts += failed.len();
            for e in &failed {
                assert!(!rebase && e.code() == Code::Conflict, "{e}");
                assert!(e.message().contains("this one was to follow version 0 'v1'") && e.remedy_text().is_some(), "{e}");
            }
            if failed.is_empty() {
                // One came before the other, and stands in it.
                assert_eq!(verified(&dataset.version(&Which::Latest).unwrap()), 11);
            } else {
                // Under the same name, on what is there now.
                let late = usize::from(both[1].is_err());
                let again = publish_version(&store, &shards[late..=late], &append(["a", "b"][late]), &options).unwrap();
                assert_eq!(verified(&again), 11);
            }
        }
        assert!(rebase || conflicts > 0, "the two never met");
    }
}

#[test]
fn who_prepared_on_an_older_version_is_told() {
    let (store, options) = first();
    publish_version(&store, &[], &append("a"), &options).unwrap();
    let stale = VersionPublication { follows: Some(Which::Number(0)), rebase: true, ..append("b") };
    let e = publish_version(&store, &[], &stale, &options).unwrap_err();
    assert!(e.code() == Code::Conflict && e.message().contains("version 1 'a' was published meanwhile"), "{e}");
    let fresh = VersionPublication { follows: Some(Which::Name("a".into())), ..append("b") };
    publish_version(&store, &[], &fresh, &options).unwrap();
}

/// A record as [`record`], but for one sample.
fn touched(i: u64) -> Record {
    let mut record = record(i);
    let mut samples = record.data[0].to_vec();
    samples[7] ^= 1;
    record.data[0] = samples.into();
    record
}

#[test]
fn versions_are_compared() {
    let (store, options) = first();
    let plain = Dataset::open_store(store.clone(), options.clone()).unwrap();
    let same = compare(&plain, &plain, true).unwrap();
    assert_eq!(
        (same.records, same.added, same.removed, same.kept.shards, same.metadata.len()),
        ((8, 8), ShardCount::default(), ShardCount::default(), 4, 0)
    );
    assert_eq!(same.ids, Some(versions::Ids::default()));
    // Of the shard of 6 and 7, record 6 gets another sample, 7 another word; 8 is new; 4 and 5 go.
    let mut said = record(7);
    said.metadata.metadata = json(r#"{"number":7,"note":"late"}"#);
    let changed = [Ok(touched(6)), Ok(said), Ok(record(8))];
    let new = write_shard(&*store, changed, "changed", 0, &options).unwrap();
    let page = |n: usize| plain.page(n).unwrap().shards.clone();
    let without = vec![page(0)[2].data.path.clone(), page(1)[0].data.path.clone()];
    let metadata = Some(json(r#"{"a":1,"b":[2]}"#));
    let publication = VersionPublication { without, metadata, ..append("mixed") };
    let second = publish_version(&store, std::slice::from_ref(&new), &publication, &options).unwrap();
    let found = compare(&plain, &second, true).unwrap();
    let bytes = page(0)[2].stored_bytes() + page(1)[0].stored_bytes();
    assert_eq!(found.removed, ShardCount { shards: 2, records: 4, bytes });
    assert_eq!(found.kept, ShardCount { shards: 2, records: 4, bytes: page(0)[0].stored_bytes() + page(0)[1].stored_bytes() });
    assert_eq!(found.added, ShardCount { shards: 1, records: 3, bytes: new.data.stored_bytes + new.metadata.stored_bytes });
    let keys: Vec<_> = found.metadata.iter().map(|c| (&*c.key, c.before.clone(), c.after.clone().unwrap())).collect();
    assert_eq!(keys, [("a", None, json("1")), ("b", None, json("[2]"))]);
    let ids = found.ids.unwrap();
    assert_eq!(
        (ids.added, ids.removed, ids.changed),
        (vec!["r8".into()], vec!["r4".into(), "r5".into()], vec!["r6".into(), "r7".into()])
    );
    // And the other way round.
    let back = compare(&second, &plain, true).unwrap();
    assert_eq!((back.added, back.removed), (found.removed, found.added));
    assert_eq!(back.metadata[0].before, Some(json("1")));
    assert_eq!(back.ids.unwrap().changed, ["r6", "r7"]);
    assert!(compare(&plain, &second, false).unwrap().ids.is_none());
}

#[test]
fn comparing_without_ids_reads_no_shard() {
    let (plain, options) = first();
    publish_version(&plain, &[shard(&*plain, "m", 8..10)], &append("more"), &options).unwrap();
    let faulty = Arc::new(FaultStore::new(plain));
    let before = Dataset::open_store(faulty.clone(), options).unwrap();
    let after = before.version(&Which::Latest).unwrap();
    compare(&before, &after, false).unwrap();
    let pages = faulty.log().iter().filter(|(op, name)| *op == Op::Get && name.contains("manifests/")).count();
    assert!(faulty.log().iter().all(|(_, name)| !name.contains("objects/")), "{:?}", faulty.log());
    assert_eq!(pages, 1);
    // With ids, the records of the new shard alone.
    let found = compare(&before, &after, true).unwrap();
    assert_eq!(found.ids.unwrap().added, ["r8", "r9"]);
    let shards = |log: Vec<(Op, String)>| log.into_iter().filter(|(_, n)| n.contains("objects/data")).count();
    assert_eq!(shards(faulty.log()), 0);
}

#[test]
fn names_that_no_disk_takes_are_refused_first() {
    let (store, options) = first();
    let before = objects(&*store);
    let e = publish_version(&store, &[], &append(&"n".repeat(300)), &options).unwrap_err();
    assert!(e.code() == Code::Invalid && e.message().contains("it has 300 bytes, and 224 are the most"), "{e}");
    assert_eq!(objects(&*store), before);
    publish_version(&store, &[shard(&*store, "x", 8..9)], &append(&"n".repeat(224)), &options).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(sigbank::store::LocalStore::create(dir.path()).unwrap());
    let long = sigbank::layout::signal_dataset::Publication::new("d", "s".repeat(241));
    sigbank::layout::signal_dataset::publish(&store, &[shard(&*store, "x", 8..9)], &long, &options).unwrap();
    publish_version(&store, &[shard(&*store, "y", 9..10)], &append(&"n".repeat(224)), &options).unwrap();
}
