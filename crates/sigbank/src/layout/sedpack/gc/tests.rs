use super::*;
use crate::layout::Source;
use crate::layout::sedpack::{Filler, FillerOptions, Info, ListRef, local_store};
use crate::store::MemoryStore;
use crate::store::bucket::BucketStore;
use crate::store::fault::{Fault, FaultStore, Op, Rule};
use serde_json::json;

mod kept;

const DAY: Duration = Duration::from_secs(86400);

/// A dataset of one shard: in memory with locks, as in a bucket, or on a disk.
struct Place {
    memory: MemoryStore,
    folder: Option<tempfile::TempDir>,
    store: Arc<dyn Store>,
    dataset: Dataset,
}

fn info() -> Info {
    let structure = json!({"saved_data_description": [{"name": "n", "dtype": "int", "shape": []}], "examples_per_shard": 2, "compression": ""});
    Info::new(Default::default(), structure.as_object().unwrap().clone()).unwrap()
}

fn places() -> [Place; 3] {
    ["memory", "bucket", "disk"].map(|kind| {
        let (memory, mut folder) = (MemoryStore::new(), None);
        let store: Arc<dyn Store> = match kind {
            "memory" => Arc::new(memory.clone()),
            "bucket" => Arc::new(BucketStore::new(Arc::new(memory.clone()), 1 << 20)),
            _ => Arc::new(local_store(folder.insert(tempfile::tempdir().unwrap()).path()).unwrap()),
        };
        let place = Place { dataset: Dataset::create_store(Arc::clone(&store), info()).unwrap(), memory, folder, store };
        place.filler(None, 0..2).finish().unwrap();
        place
    })
}

impl Place {
    /// One that has written the shards of these numbers, two each.
    fn filler(&self, own: Option<&str>, numbers: std::ops::Range<i64>) -> Filler {
        let relative_path = own.map(|own| RelPath::parse(own).unwrap());
        let mut filler = self.dataset.filler(FillerOptions { relative_path, ..Default::default() }).unwrap();
        let recorded = self.recorded() + (numbers.end - numbers.start) as usize / 2;
        numbers.for_each(|n| filler.append("train", &[&n.to_le_bytes()], None).unwrap());
        while self.recorded() < recorded {
            std::thread::yield_now(); // Threads write and note the shards.
        }
        filler
    }
    /// Shards that living and dead writers noted.
    fn recorded(&self) -> usize {
        let pages = self.files("").into_iter().filter(|path| path.as_str().starts_with(".sigbank/progress/"));
        pages.map(|path| String::from_utf8_lossy(&self.store.get(&path).unwrap()).matches("\"shard\"").count()).sum()
    }
    fn worker(&self, own: &str, numbers: std::ops::Range<i64>) -> Vec<ListRef> {
        self.filler(Some(own), numbers).finish().unwrap()
    }
    fn files(&self, suffix: &str) -> Vec<RelPath> {
        let all = self.store.list(None).unwrap().map(|entry| entry.unwrap().path);
        all.filter(|path| path.as_str().ends_with(suffix)).collect()
    }
    fn age(&self, paths: &[RelPath], by: Duration) {
        for path in paths {
            match &self.folder {
                None => self.memory.make_older(path, by),
                Some(folder) => {
                    let file = std::fs::File::options().append(true).open(folder.path().join(path.as_str())).unwrap();
                    file.set_modified(SystemTime::now() - by).unwrap();
                }
            }
        }
    }
    fn all_older(&self, by: Duration) {
        self.age(&self.files(""), by);
    }
    fn gc(&self, unpublished: bool) -> Garbage {
        gc(&self.store, &GcOptions { unpublished, ..GcOptions::new(DAY) }).unwrap()
    }
    /// How many orphans are kept for what reason, and how many are not.
    fn kept(&self, unpublished: bool) -> Vec<(Option<Kept>, usize)> {
        let mut counts: Vec<(Option<Kept>, usize)> = Vec::new();
        for orphan in self.gc(unpublished).orphans {
            match counts.iter_mut().find(|(kept, _)| *kept == orphan.kept) {
                Some((_, count)) => *count += 1,
                None => counts.push((orphan.kept, 1)),
            }
        }
        counts
    }
    fn records(&self) -> u64 {
        self.dataset.refresh().unwrap();
        let records = self.dataset.verify(&mut |_, _| true).unwrap().records;
        assert_eq!(self.dataset.units("train").unwrap().records(), records);
        records
    }
}

#[test]
fn a_whole_dataset_has_none() {
    for place in places() {
        place.all_older(2 * DAY);
        place.store.create(&"notes.txt".parse().unwrap(), &[b"mine"]).unwrap();
        let garbage = place.gc(true);
        assert_eq!((garbage.orphans.as_slice(), garbage.published, garbage.storage_clock), ([].as_slice(), true, true));
        assert_eq!((garbage.not_ours_count, garbage.not_ours[0].as_str()), (1, "notes.txt"));
        // A shard and the four lists that lead to it.
        assert_eq!(garbage.live.0, 5);
        assert_eq!(garbage.delete(&place.store).unwrap(), Deleted::default());
        assert_eq!((place.records(), place.files("notes.txt").len()), (2, 1));
    }
}

#[test]
fn what_a_killed_filler_finished_goes_when_it_is_asked_for_and_a_living_ones_never() {
    for place in places() {
        let locks = place.store.capabilities().locks;
        drop(place.filler(None, 10..14));
        let mut living = place.filler(None, 20..24);
        let orphans = place.gc(false).orphans;
        assert!(orphans.len() >= 6 && orphans.iter().all(|orphan| orphan.kept == Some(Kept::Young)), "{orphans:?}");
        place.all_older(2 * DAY);
        let pages = place.files(".jsonl").into_iter().chain(place.files(".json")).filter(|p| p.as_str().contains("/progress/"));
        let pages: Vec<RelPath> = pages.collect();
        if !locks {
            // Where there are no locks it is at work as its newest note is young, whichever of the two is its.
            let told = |path: &RelPath| String::from_utf8(place.store.get(path).unwrap().to_vec()).unwrap();
            let shards = place.files(".fb");
            assert_eq!((pages.len(), shards.len()), (2, 5));
            let mine = |page: &&RelPath| is_living(&told(page), &place);
            let page = pages.iter().find(mine).unwrap();
            let bytes = place.store.get(page).unwrap();
            place.store.replace(page, &[&bytes], crate::store::Expected::Any).unwrap();
        }
        assert!(place.gc(false).doomed().next().is_none());
        let kept = place.kept(false);
        assert!(kept.iter().any(|(kept, n)| *kept == Some(Kept::Recoverable) && *n >= 3), "{kept:?}");
        assert!(kept.iter().any(|(kept, n)| *kept == Some(Kept::InUse) && *n >= 2), "{kept:?}");
        let deleted = place.gc(true).delete(&place.store).unwrap();
        assert!(deleted.objects >= 3 && deleted.bytes > 0, "{deleted:?}");
        living.finish().unwrap();
        assert_eq!(place.records(), 6);
        assert_eq!(place.files(".fb").len(), 3);
        // The killed one's session is gone, and nothing is adopted of it.
        place.filler(None, 30..32).finish().unwrap();
        assert_eq!((place.records(), place.gc(true).orphans.len()), (8, 0));
    }
}

/// Whether a page of records is the living filler's: its numbers are from 20 on.
fn is_living(page: &str, place: &Place) -> bool {
    let first: serde_json::Value = serde_json::from_str(page.lines().next().unwrap()).unwrap();
    let path = first["shard"]["file_infos"][0]["file_path"].as_str().unwrap();
    let shard = place.store.get(&RelPath::parse(path).unwrap()).unwrap();
    shard.windows(8).any(|bytes| bytes == 20i64.to_le_bytes() || bytes == 22i64.to_le_bytes())
}

#[test]
fn a_workers_list_goes_before_its_shards_and_is_not_merged_then() {
    for place in places() {
        let lost = place.worker("w0", 10..14);
        let merged = place.worker("w1", 20..24);
        place.all_older(2 * DAY);
        // While its list is young its shards are in use, as old as they are.
        let w0 = |path: &RelPath| path.as_str().starts_with("train/w0/");
        let list = place.files("train/w0/shards_list.json");
        let bytes = place.store.get(&list[0]).unwrap();
        place.store.replace(&list[0], &[&bytes], crate::store::Expected::Any).unwrap();
        let garbage = place.gc(true);
        assert!(garbage.orphans.iter().filter(|o| w0(&o.path)).all(|o| matches!(o.kept, Some(Kept::Young | Kept::InUse))));
        assert!(garbage.doomed().all(|orphan| !w0(&orphan.path)) && garbage.doomed().count() >= 4);
        // What is merged after it was found is not deleted.
        place.dataset.write_config(None, merged).unwrap();
        assert_eq!(garbage.delete(&place.store).unwrap().objects, 0);
        assert_eq!(place.records(), 6);

        place.age(&list, 2 * DAY);
        // Its coordinator may come yet: only who knows that it does not has it deleted.
        assert!(place.kept(false).iter().all(|(kept, _)| *kept == Some(Kept::Recoverable)), "{:?}", place.kept(false));
        let garbage = place.gc(true);
        let kinds: Vec<OrphanKind> = garbage.doomed().map(|orphan| orphan.kind).collect();
        assert!(kinds.is_sorted() && kinds.last() == Some(&OrphanKind::Shard) && kinds[0] < OrphanKind::Shard, "{kinds:?}");
        assert_eq!(garbage.delete(&place.store).unwrap().objects as usize, kinds.len());
        assert!(!place.files("").iter().any(w0));
        let e = place.dataset.write_config(None, lost).unwrap_err();
        assert!(e.code() == Code::NotFound && e.to_string().contains("w0"), "{e}");
        assert_eq!((place.records(), place.gc(true).orphans.len()), (6, 0));
    }
}

#[test]
fn where_no_dataset_is_yet_all_is_one_runs() {
    for place in places() {
        drop(place.filler(None, 10..12));
        place.store.delete(&RelPath::parse(ROOT).unwrap()).unwrap();
        place.all_older(2 * DAY);
        let all = place.files("").len();
        assert_eq!(place.kept(false), [(Some(Kept::Unpublished), all)]);
        assert!(!place.gc(false).published && place.gc(true).doomed().count() == all);
        // Somebody is at work there.
        place.store.create(&RelPath::parse("test/0/00112233445566778899aabbccddeeff.fb").unwrap(), &[b"new"]).unwrap();
        assert_eq!(place.kept(true), [(Some(Kept::InUse), all), (Some(Kept::Young), 1)]);
        let found = {
            place.all_older(2 * DAY);
            place.gc(true)
        };
        // A root that appears after it was looked at keeps what it names.
        assert_eq!(found.doomed().count(), all + 1);
        Dataset::create_store(Arc::clone(&place.store), info()).unwrap();
        place.filler(None, 20..22).finish().unwrap();
        found.delete(&place.store).unwrap();
        // With locks the filler has taken over what the killed one finished.
        assert_eq!(place.records(), if place.store.capabilities().locks { 4 } else { 2 });
    }
}

#[test]
fn a_damaged_dataset_keeps_everything() {
    for place in places() {
        place.store.create(&RelPath::parse("test/0/00112233445566778899aabbccddeeff.fb").unwrap(), &[b"orphan"]).unwrap();
        place.all_older(2 * DAY);
        let garbage = place.gc(false);
        assert_eq!(garbage.doomed().count(), 1);
        let shard = place.files(".fb").into_iter().find(|path| path.as_str().starts_with("train")).unwrap();
        let bytes = place.store.get(&shard).unwrap();
        place.store.delete(&shard).unwrap();
        let e = garbage.delete(&place.store).unwrap_err();
        assert!(e.code() == Code::NotFound && e.to_string().contains("nothing is deleted"), "{e}");
        place.store.create(&shard, &[&bytes]).unwrap();
        let list = place.files("train/shards_list.json");
        let text = place.store.get(&list[0]).unwrap();
        place.store.replace(&list[0], &[b"{}"], crate::store::Expected::Any).unwrap();
        assert_eq!(garbage.delete(&place.store).unwrap_err().code(), Code::Corrupt);
        assert_eq!(place.files("test/0/00112233445566778899aabbccddeeff.fb").len(), 1);
        place.store.replace(&list[0], &[&text], crate::store::Expected::Any).unwrap();
        assert_eq!((garbage.delete(&place.store).unwrap().objects, place.records()), (1, 2));
    }
}

#[test]
fn journals_of_the_past_and_probes_go_and_those_of_now_stay() {
    let [_, place, _] = places();
    let root = place.store.get(&RelPath::parse(ROOT).unwrap()).unwrap();
    let (now, past) = (claim::place(&root).unwrap(), claim::place(b"an older root").unwrap());
    let probe = clock::probe().unwrap();
    let begun = journal::Journal::new(&root, root.to_vec(), Vec::new()).unwrap().to_bytes().unwrap();
    for (path, bytes) in [(&now, begun.as_slice()), (&past, b"{}"), (&probe, b"?")] {
        place.store.create(path, &[bytes]).unwrap();
    }
    place.all_older(2 * DAY);
    let garbage = place.gc(false);
    assert_eq!(garbage.doomed().map(|orphan| &orphan.path).collect::<Vec<_>>(), [&probe, &past]);
    assert_eq!(garbage.delete(&place.store).unwrap().objects, 2);
    assert_eq!(place.records(), 2);
}

#[test]
fn where_nothing_can_be_written_it_is_looked_at_only() {
    let [_, _, place] = places();
    let orphan = RelPath::parse("test/0/00112233445566778899aabbccddeeff.fb").unwrap();
    place.store.create(&orphan, &[b"orphan"]).unwrap();
    place.all_older(2 * DAY);
    let garbage = place.gc(false);
    assert_eq!(garbage.doomed().map(|orphan| &orphan.path).collect::<Vec<_>>(), [&orphan]);
    let refused = Garbage { storage_clock: false, ..garbage.clone() };
    assert_eq!(refused.delete(&place.store).unwrap_err().code(), Code::ReadOnly);
    assert_eq!((garbage.delete(&place.store).unwrap().objects, place.records()), (1, 2));
}

#[test]
fn what_a_deletion_that_broke_off_leaves_is_garbage_again() {
    for place in places() {
        place.worker("w", 10..16);
        place.all_older(2 * DAY);
        let (mut n, mut broken) = (1, 0);
        loop {
            let faulty = FaultStore::new(Arc::clone(&place.store));
            // Those of the probes for the clock are among them.
            faulty.add(Rule::new(Fault::Fail(Error::storage("pulled the plug"))).on(Op::Delete).nth(n));
            let store: Arc<dyn Store> = Arc::new(faulty);
            match gc(&store, &GcOptions { unpublished: true, ..GcOptions::new(DAY) }).and_then(|found| found.delete(&store)) {
                Err(e) => assert_eq!(e.code(), Code::Storage, "{e}"),
                Ok(_) => break,
            }
            (n, broken) = (n + 1, broken + 1);
            // Never a list whose shards are gone.
            let left = place.gc(true).orphans;
            let count = |kind| left.iter().filter(|orphan| orphan.kind == kind).count();
            assert!(count(OrphanKind::Shard) == 3 || count(OrphanKind::List) == 0, "{left:?}");
            assert!(broken < 30 && place.records() == 2);
        }
        let left = place.gc(true).orphans;
        assert!(broken >= 4 && left.iter().all(|orphan| orphan.kind == OrphanKind::Probe), "{broken}: {left:?}");
        assert_eq!(place.records(), 2);
    }
}
