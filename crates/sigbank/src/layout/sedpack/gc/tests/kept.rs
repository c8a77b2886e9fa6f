//! What is kept: what is another dataset's, and what can be listed yet.

use super::*;
use crate::store::Expected;

impl Place {
    fn paths(&self, which: impl Fn(&Orphan) -> bool) -> Vec<RelPath> {
        self.gc(false).orphans.into_iter().filter(which).map(|orphan| orphan.path).collect()
    }
    /// Copies an object to another name.
    fn copy(&self, from: &RelPath, to: &str) -> RelPath {
        let to = RelPath::parse(to).unwrap();
        self.store.create(&to, &[&self.store.get(from).unwrap()]).unwrap();
        to
    }
}

#[test]
fn what_workers_finished_waits_for_their_coordinator() {
    for place in places() {
        let infos = [place.worker("w0", 10..14), place.worker("w1/deep", 20..23)].concat();
        place.all_older(2 * DAY);
        let plan = place.dataset.plan_repair(&mut |_, _| true).unwrap();
        // What a repair would list is what stays.
        let locks = place.store.capabilities().locks;
        assert_eq!(plan.count(crate::layout::sedpack::RepairKind::AdoptList).1, if locks { 7 } else { 0 });
        let left = place.files("").len();
        place.gc(false).delete(&place.store).unwrap();
        assert_eq!((place.files("").len(), place.files(".fb").len()), (left, 5));
        place.dataset.write_config(None, infos).unwrap();
        assert_eq!((place.records(), place.gc(true).doomed().count()), (9, 0));
    }
}

#[test]
fn whole_shards_that_nothing_names_are_kept_and_cut_ones_go() {
    for place in places() {
        drop(place.filler(None, 10..12));
        // A session that was ended, whose shard nobody lists.
        let records: Vec<RelPath> =
            place.files("").into_iter().filter(|p| p.as_str().starts_with(".sigbank/progress/")).collect();
        records.iter().for_each(|path| place.store.delete(path).unwrap());
        let whole = place.gc(false).orphans.remove(0).path;
        let of_others = place.copy(&whole, "test/0/00112233445566778899aabbccddeeff.npz");
        let bytes = place.store.get(&whole).unwrap();
        let cut = RelPath::parse("test/0/00112233445566778899aabbccddeef0.fb").unwrap();
        place.store.create(&cut, &[&bytes[..bytes.len() / 2]]).unwrap();
        place.all_older(2 * DAY);
        assert_eq!(place.paths(|orphan| orphan.kept.is_none()), std::slice::from_ref(&cut));
        let found = place.gc(false);
        assert_eq!(found.delete(&place.store).unwrap().objects, 1);
        let mut kept = vec![whole, of_others];
        kept.sort_unstable();
        assert_eq!(place.paths(|orphan| orphan.kept == Some(Kept::Recoverable)), kept);
        // Told as garbage to one who then finds it whole, it stays.
        place.store.create(&cut, &[&bytes]).unwrap();
        place.all_older(2 * DAY);
        assert_eq!(found.delete(&place.store).unwrap().objects, 0);
        assert_eq!(place.gc(true).delete(&place.store).unwrap().objects, 3);
        assert_eq!(place.records(), 2);
    }
}

#[test]
fn superseded_lists_and_the_notes_of_ended_sessions_go() {
    for place in places() {
        let live = place.files("train/shards_list.json").remove(0);
        let aside = place.copy(&live, ".sigbank/lists/0123456789abcdef.json");
        let empty = RelPath::parse("test/w/shards_list.json").unwrap();
        place.store.create(&empty, &[br#"{"relative_path_self": "test/w/shards_list.json"}"#]).unwrap();
        let note = RelPath::parse(&format!(".sigbank/progress/{}.jsonl", "ab".repeat(16))).unwrap();
        let listed = place.dataset.shard_infos("train", 0, 1).unwrap().remove(0);
        let record = json!({"number": 0, "relative_path_from_split": "", "list": live.as_str(), "shard": listed.to_value()});
        place.store.create(&note, &[format!("{record}\n").as_bytes()]).unwrap();
        place.all_older(2 * DAY);
        assert_eq!(place.paths(|orphan| orphan.kept.is_none()), [note, aside, empty]);
        assert_eq!(place.gc(false).delete(&place.store).unwrap().objects, 3);
        assert_eq!((place.records(), place.gc(true).orphans.len()), (2, 0));
    }
}

#[test]
fn what_is_there_for_a_moment_stays_for_an_hour() {
    let [_, place, _] = places();
    let moments = [clock::probe().unwrap(), RelPath::parse(".sigbank/turn").unwrap()];
    moments.iter().for_each(|path| place.store.create(path, &[b"?"]).unwrap());
    let any = |unpublished| gc(&place.store, &GcOptions { unpublished, ..GcOptions::new(Duration::ZERO) }).unwrap();
    for unpublished in [false, true] {
        let found = any(unpublished);
        assert!(found.orphans.len() == 2 && found.orphans.iter().all(|orphan| orphan.kept == Some(Kept::Young)), "{found:?}");
    }
    place.all_older(Duration::from_secs(3601));
    assert_eq!(any(false).delete(&place.store).unwrap().objects, 2);
}

#[test]
fn what_a_publication_left_that_lost_to_this_dataset_goes_when_it_is_asked_for() {
    for place in places() {
        let hex = "ab".repeat(32);
        let left = [
            "manifests/0f/s-00000000.json".to_owned(),
            format!("objects/data/ab/{hex}.arrayrecord"),
            "snapshots/s/snapshot.json".to_owned(),
        ];
        for path in left.iter().map(String::as_str).chain(["objects/notes.txt"]) {
            place.store.create(&RelPath::parse(path).unwrap(), &[b"{}"]).unwrap();
        }
        assert_eq!(place.kept(true), [(Some(Kept::Young), 3)]);
        place.all_older(2 * DAY);
        assert_eq!(place.kept(false), [(Some(Kept::Unpublished), 3)]);
        let found = place.gc(true);
        assert!(found.orphans.iter().all(|orphan| orphan.kind == OrphanKind::OtherLayout) && found.not_ours_count == 1);
        assert_eq!(found.delete(&place.store).unwrap().objects, 3);
        assert_eq!((place.records(), place.files("notes.txt").len()), (2, 1));
    }
}

#[test]
fn a_list_that_is_swung_meanwhile_is_looked_at_again() {
    let [place, bucket, _] = places();
    for place in [place, bucket] {
        let list = place.files("train/shards_list.json").remove(0);
        let (faulty, behind) = (Arc::new(FaultStore::new(Arc::clone(&place.store))), Arc::clone(&place.store));
        let root = RelPath::parse(ROOT).unwrap();
        // As somebody finds it who has read the root before another commit, and the list after it.
        let swing = move |path: &str| {
            let text = behind.get(&root)?;
            behind.replace(&root, &[&text, b"\n"], Expected::Any)?;
            Err(Error::not_found("there is no such object").at(path))
        };
        faulty.add(Rule::new(Fault::Run(Arc::new(swing))).on(Op::Get).at(list.as_str()).times(12));
        let store: Arc<dyn Store> = faulty;
        let found = gc(&store, &GcOptions::new(DAY)).unwrap();
        assert_eq!((found.orphans.len(), found.live.0), (0, 5));
    }
}

#[test]
fn a_filler_whose_shards_were_deleted_says_so_and_lists_the_others() {
    let [_, place, _] = places();
    for own in [None, Some("w")] {
        let mut idle = place.filler(own, 10..14);
        place.all_older(2 * DAY);
        assert_eq!(place.gc(true).delete(&place.store).unwrap().objects, 3);
        (14..16i64).for_each(|n| idle.append("train", &[&n.to_le_bytes()], None).unwrap());
        let e = idle.finish().unwrap_err();
        assert!(e.code() == Code::NotFound && e.to_string().contains("2 shards with 4 examples were deleted"), "{e}");
        place.dataset.write_config(None, idle.infos().to_vec()).unwrap();
        assert_eq!(place.records(), if own.is_none() { 4 } else { 6 });
    }
}

#[test]
fn what_lies_in_other_datasets_is_theirs() {
    for place in places() {
        // One with a root, one that has yet to get its root, and some of other layouts.
        let shard = "00112233445566778899aabbccddeeff.fb";
        let theirs = [
            "train/deep/dataset_info.json".to_owned(),
            format!("train/deep/train/0/{shard}"),
            "train/deep/train/shards_list.json".to_owned(),
            "test/new/.sigbank/progress/00112233445566778899aabbccddeeff.jsonl".to_owned(),
            format!("test/new/test/0/{shard}"),
            "test/browsed/_metadata.json".to_owned(),
            format!("test/browsed/item/{shard}"),
            "holdout/signals/root.json".to_owned(),
            format!("holdout/signals/{shard}"),
        ];
        for path in theirs.iter().chain([&format!("train/w/0/{shard}")]) {
            place.store.create(&path.parse().unwrap(), &[b"{}"]).unwrap();
        }
        place.all_older(2 * DAY);
        let garbage = place.gc(true);
        assert_eq!(garbage.doomed().map(|orphan| orphan.path.as_str()).collect::<Vec<_>>(), [format!("train/w/0/{shard}")]);
        assert_eq!(garbage.not_ours_count, theirs.len() as u64);
        garbage.delete(&place.store).unwrap();
        assert_eq!(theirs.iter().filter(|path| place.store.head(&path.parse().unwrap()).is_ok()).count(), theirs.len());
        // A repair does not take them for this dataset's either.
        let plan = place.dataset.plan_repair(&mut |_, _| true).unwrap();
        assert!(plan.actions.is_empty() && plan.notes.is_empty(), "{plan:?}");
        assert_eq!(place.records(), 2);
    }
}

#[test]
fn what_a_root_led_to_that_was_replaced_by_an_older_one_is_kept() {
    for place in places() {
        let root = RelPath::parse(ROOT).unwrap();
        let older = place.store.get(&root).unwrap();
        let mut filler = place.dataset.filler(FillerOptions::default()).unwrap();
        (0..4i64).for_each(|n| filler.append("test", &[&n.to_le_bytes()], None).unwrap());
        filler.finish().unwrap();
        place.store.replace(&root, &[&older], crate::store::Expected::Any).unwrap();
        place.all_older(2 * DAY);
        let kept: Vec<_> = place.gc(false).orphans.into_iter().filter(|orphan| orphan.kept.is_some()).collect();
        assert!(kept.iter().all(|orphan| orphan.kept == Some(Kept::Recoverable)), "{kept:?}");
        let count = |kind| kept.iter().filter(|orphan| orphan.kind == kind).count();
        assert_eq!(count(OrphanKind::Shard), 2);
        assert!(count(OrphanKind::List) >= 1);
        place.gc(false).delete(&place.store).unwrap();
        assert_eq!(place.files(".fb").len(), 3);
        // Who says that it is given up has it deleted.
        place.gc(true).delete(&place.store).unwrap();
        assert_eq!(place.files(".fb").len(), 1);
    }
}

#[test]
fn a_list_that_a_begun_commit_has_yet_to_place_is_live() {
    let [place, _, _] = places();
    let root = place.store.get(&RelPath::parse(ROOT).unwrap()).unwrap();
    let faulty = Arc::new(FaultStore::new(Arc::clone(&place.store)));
    let dataset = Dataset::open_store(faulty.clone(), OpenOptions::default()).unwrap();
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    (0..2i64).for_each(|n| filler.append("test", &[&n.to_le_bytes()], None).unwrap());
    // The journal is written, and no list.
    faulty.add(Rule::new(Fault::Fail(Error::storage("pulled the plug"))).on(Op::Replace).always());
    filler.finish().unwrap_err();
    assert_eq!(place.store.get(&RelPath::parse(ROOT).unwrap()).unwrap(), root);
    let placed = place.files("shards_list.json").into_iter().filter(|path| path.as_str().starts_with("test/"));
    placed.for_each(|path| place.store.delete(&path).unwrap());
    let garbage = place.gc(false);
    assert!(garbage.orphans.iter().all(|orphan| orphan.kind != OrphanKind::Shard), "{:?}", garbage.orphans);
    place.all_older(2 * DAY);
    place.gc(false).delete(&place.store).unwrap();
    place.dataset.refresh().unwrap();
    assert_eq!(place.dataset.verify(&mut |_, _| true).unwrap().records, 4);
}
