use super::super::rewrite::tests::*;
use super::*;
use crate::error::Code;
use serde_json::json;
use std::collections::BTreeSet;

fn run(source: &Path, dest: &Path, shares: &str, by: &str, seed: u64) -> Result<SplitReport> {
    let options = SplitOptions { shares: shares.parse()?, seed, by: by.parse()?, threads: 2 };
    split(source, dest, &options, &mut |_, _| true)
}

const SHARES: &str = "train=0.8,test=0.1,holdout=0.1";

fn all(path: &Path) -> Vec<Vec<(i64, i64)>> {
    ["train", "test", "holdout"].map(|split| values(path, split)).to_vec()
}

fn sorted(parts: &[Vec<(i64, i64)>]) -> Vec<(i64, i64)> {
    let mut all = parts.concat();
    all.sort_unstable();
    all
}

#[test]
fn groups_go_where_most_is_lacking() {
    assert_eq!(assign(&[1; 10], &[0.8, 0.1, 0.1]).unwrap().iter().filter(|&&at| at == 0).count(), 8);
    assert_eq!(assign(&[5, 5, 5], &[0.8, 0.1, 0.1]).unwrap().into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2]));
    assert_eq!(assign(&[1, 100, 1], &[0.5, 0.5]), Some(vec![0, 1, 0]));
    assert_eq!(assign(&[3, 3], &[0.4, 0.3, 0.3]), None);
    assert_eq!(assign(&[], &[1.0]), None);
}

#[test]
fn examples_are_dealt_out_exactly_and_mixed() {
    let dir = tempfile::tempdir().unwrap();
    let source = make(dir.path(), "source", json!({"examples_per_shard": 7}), &[&[("train", 0..90, -1), ("test", 90..100, -1)]]);
    let dest = |name: &str| dir.path().join(name);
    let report = run(&source, &dest("a"), SHARES, "example", 5).unwrap();
    assert_eq!(report.groups, [("train".into(), 80), ("test".into(), 10), ("holdout".into(), 10)]);
    let a = all(&dest("a"));
    assert_eq!(a.iter().map(Vec::len).collect::<Vec<_>>(), [80, 10, 10]);
    assert_eq!(sorted(&a), keyed(0..100, -1));
    assert!(!a[0].is_sorted() && !a[1].is_sorted());
    assert_eq!(counts(&dest("a")).iter().map(|c| c.2).collect::<Vec<_>>(), [12, 2, 2]);
    run(&source, &dest("again"), SHARES, "example", 5).unwrap();
    assert_eq!(all(&dest("again")), a);
    run(&source, &dest("other"), SHARES, "example", 6).unwrap();
    let other: BTreeSet<_> = values(&dest("other"), "test").into_iter().collect();
    assert_ne!(other, a[1].iter().copied().collect());
    // Evenly: no half of the source is favoured much.
    let late = a[1].iter().chain(&a[2]).filter(|(n, _)| *n >= 50).count();
    assert!((4..=16).contains(&late), "{late} of 20");
}

#[test]
fn examples_keep_the_metadata_of_their_shards() {
    let dir = tempfile::tempdir().unwrap();
    let parts: &[Part<'_>] = &[("train", 0..10, 1), ("train", 10..25, 2), ("train", 25..30, 1)];
    let source = make(dir.path(), "source", json!({}), &[parts, &[("train", 30..40, -1)]]);
    let dest = dir.path().join("dest");
    run(&source, &dest, "train=0.5,holdout=0.5", "example", 0).unwrap();
    let found = [values(&dest, "train"), values(&dest, "holdout")];
    assert_eq!(found.each_ref().map(Vec::len), [20, 20]);
    assert_eq!(sorted(&found), [keyed(0..10, 1), keyed(10..25, 2), keyed(25..30, 1), keyed(30..40, -1)].concat());
}

#[test]
fn whole_shards_stay_whole_and_keys_stay_in_one_split() {
    let dir = tempfile::tempdir().unwrap();
    // Keys 0..20 with two shards each, of which those of one session have the same folders in both splits.
    let parts: Vec<Part<'_>> = (0..40).map(|n| (if n % 3 == 0 { "test" } else { "train" }, n * 2..n * 2 + 2, n % 20)).collect();
    let source = make(dir.path(), "source", json!({}), &[&parts]);
    let before = files(&source);
    let (by_shard, by_key) = (dir.path().join("shard"), dir.path().join("key"));
    let report = run(&source, &by_shard, SHARES, "shard", 1).unwrap();
    assert_eq!(report.groups, [("train".into(), 32), ("test".into(), 4), ("holdout".into(), 4)]);
    assert_eq!(counts(&by_shard), [("train".into(), 64, 32), ("test".into(), 8, 4), ("holdout".into(), 8, 4)]);
    let parts = all(&by_shard);
    assert_eq!(sorted(&parts).len(), 80);
    assert!(parts.iter().all(|split| split.chunks(2).all(|c| c[0].0 + 1 == c[1].0)));
    // What was in the first split comes first, each in its order.
    let order = parts[0].iter().map(|v| (v.0 / 2 % 3 != 0, v.0));
    assert!(order.is_sorted(), "{:?}", parts[0]);
    let report = run(&source, &by_key, SHARES, "key", 1).unwrap();
    assert_eq!(report.groups, [("train".into(), 16), ("test".into(), 2), ("holdout".into(), 2)]);
    let parts = all(&by_key);
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [64, 8, 8]);
    assert_eq!(sorted(&parts), sorted(&all(&by_shard)));
    let keys: Vec<BTreeSet<i64>> = parts.iter().map(|split| split.iter().map(|v| v.1).collect()).collect();
    assert_eq!(keys.iter().map(BTreeSet::len).sum::<usize>(), 20, "a key is in two splits: {keys:?}");
    let again = dir.path().join("again");
    run(&source, &again, SHARES, "key", 1).unwrap();
    assert_eq!(all(&again), parts);
    run(&source, &dir.path().join("other"), SHARES, "key", 2).unwrap();
    assert_ne!(all(&dir.path().join("other"))[1], parts[1]);
    assert_eq!(files(&source), before);
}

#[test]
fn what_cannot_be_divided_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let source = make(dir.path(), "source", json!({}), &[&[("train", 0..2, 1)], &[("train", 2..4, -1)]]);
    let dest = dir.path().join("dest");
    for (shares, by, words) in [
        ("train=0.5,validation=0.5", "shard", "no split 'validation'"),
        (SHARES, "shard", "2 shards cannot fill 3 splits"),
        ("train=0.5,test=0.5", "key", "no key 'key': it has none"),
        ("train=0.5,test=0.5", "subject", "no key 'subject': it has key, big"),
        ("train=0.5,test=0.5", "", "is expected"),
    ] {
        let e = run(&source, &dest, shares, by, 0).unwrap_err();
        assert!(e.code() == Code::Invalid && e.to_string().contains(words), "{e}");
        assert_eq!(names(dir.path()), ["source"]);
    }
    let one = make(dir.path(), "one", json!({}), &[&[("train", 0..1, 1)]]);
    assert!(run(&one, &dest, "train=0.5,test=0.5", "example", 0).unwrap_err().message().contains("1 example cannot fill 2"));
    assert!(run(&one, &dest, "train=0.5,test=0.5", "key", 0).unwrap_err().message().contains("1 value of 'key' cannot fill 2"));
    let none = make(dir.path(), "none", json!({}), &[]);
    for by in ["shard", "example", "key"] {
        let e = run(&none, &dest, "train=1", by, 0).unwrap_err();
        assert!(e.code() == Code::Invalid && e.to_string().contains("no examples that could be divided"), "{e}");
    }
}

#[test]
fn dividing_keeps_its_promises() {
    for by in [SplitBy::Shard, SplitBy::Example, SplitBy::Key("key".into())] {
        let options = SplitOptions { shares: "train=1".parse().unwrap(), by, ..Default::default() };
        keeps_its_promises(|source, dest, progress| split(source, dest, &options, progress).map(|_| ()));
    }
}
