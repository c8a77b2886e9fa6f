//! Garbage: what is found, what is kept, and what an interrupted run leaves.

use crate::support::*;
use sigbank::layout::signal_dataset::{
    AnnotationOptions, AnnotationRow, AnnotationStatus, Dataset, Garbage, GcOptions, Kept, Options, OrphanKind, Publication,
    PublishedShard, VersionPublication, gc, publish, publish_annotation_shards, publish_annotations, publish_version,
    write_annotation_shard, write_shard,
};
use sigbank::store::fault::{Fault, FaultStore, Op, Rule};
use sigbank::store::*;
use sigbank::uri::RelPath;
use sigbank::{Code, Error, Result};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

pub const HOUR: Duration = Duration::from_secs(3600);
pub const DAY: Duration = Duration::from_secs(86400);

/// A store in memory whose clock can be wrong, and whose objects can be made old.
#[derive(Debug, Default)]
pub struct Clocked {
    inner: MemoryStore,
    /// How far the storage's clock is ahead of the host's, in hours.
    ahead: i64,
    old: Mutex<Vec<(RelPath, Duration)>>,
    tells: bool,
}

impl Clocked {
    pub fn new(ahead: i64) -> Self {
        Self { ahead, tells: true, ..Self::default() }
    }
    /// What is written now is young, whatever had its name before.
    fn young<T>(&self, path: &RelPath, written: Result<T>) -> Result<T> {
        if written.is_ok() {
            self.old.lock().unwrap().retain(|(known, _)| known != path);
        }
        written
    }
    /// Everything that is there now was written so long ago.
    pub fn backdate(&self, by: Duration) {
        let all: Vec<RelPath> = self.inner.list(None).unwrap().map(|e| e.unwrap().path).collect();
        let mut old = self.old.lock().unwrap();
        all.into_iter().for_each(|path| match old.iter_mut().find(|(known, _)| *known == path) {
            Some((_, age)) => *age += by,
            None => old.push((path, by)),
        });
    }
}

impl Store for Clocked {
    fn location(&self) -> String {
        self.inner.location()
    }
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    fn get_versioned(&self, path: &RelPath) -> Result<(bytes::Bytes, Version)> {
        self.inner.get_versioned(path)
    }
    fn get_ranges(&self, path: &RelPath, ranges: &[Range<u64>]) -> Result<Vec<bytes::Bytes>> {
        self.inner.get_ranges(path, ranges)
    }
    fn head(&self, path: &RelPath) -> Result<ObjectMeta> {
        self.inner.head(path)
    }
    fn open_read(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        self.inner.open_read(path)
    }
    fn list(&self, prefix: Option<&RelPath>) -> Result<Listing<'_>> {
        let found = self.inner.list(prefix)?.map(|entry| {
            let entry = entry?;
            let age =
                self.old.lock().unwrap().iter().find(|(path, _)| *path == entry.path).map_or(Duration::ZERO, |(_, age)| *age);
            let shift = HOUR * self.ahead.unsigned_abs() as u32;
            let told = |written: SystemTime| if self.ahead < 0 { written - shift - age } else { written + shift - age };
            Ok(Entry { modified: entry.modified.map(told).filter(|_| self.tells), ..entry })
        });
        Ok(Box::new(found))
    }
    fn create(&self, path: &RelPath, parts: &[&[u8]]) -> Result<()> {
        self.young(path, self.inner.create(path, parts))
    }
    fn write_new(&self, path: &RelPath) -> Result<Box<dyn NewObject>> {
        self.inner.write_new(path)
    }
    fn replace(&self, path: &RelPath, parts: &[&[u8]], expected: Expected<'_>) -> Result<Version> {
        self.young(path, self.inner.replace(path, parts, expected))
    }
    fn delete(&self, path: &RelPath) -> Result<()> {
        self.young(path, self.inner.delete(path))
    }
    fn flush(&self, paths: &[RelPath]) -> Result<()> {
        self.inner.flush(paths)
    }
}

pub fn clocked(ahead: i64) -> (Arc<Clocked>, Arc<dyn Store>) {
    let store = Arc::new(Clocked::new(ahead));
    (Arc::clone(&store), store)
}

pub fn names(store: &dyn Store) -> BTreeSet<String> {
    store.list(None).unwrap().map(|e| e.unwrap().path.to_string()).collect()
}

fn doomed(garbage: &Garbage) -> Vec<String> {
    garbage.doomed().map(|orphan| orphan.path.to_string()).collect()
}

fn objects(shard: &PublishedShard) -> [String; 2] {
    [shard.data.path.to_string(), shard.metadata.path.to_string()]
}

pub fn rows(dataset: &Dataset, range: Range<u64>) -> Vec<AnnotationRow> {
    let _ = dataset;
    range.map(|i| AnnotationRow::new(format!("r{i}"), i, AnnotationStatus::Success)).collect()
}

fn annotate(dataset: &Dataset, name: &str, id: &str) {
    let options = AnnotationOptions { publication_id: Some(id.into()), ..AnnotationOptions::default() };
    publish_annotations(dataset, name, rows(dataset, 0..dataset.len()).into_iter().map(Ok), &options).unwrap();
}

pub fn write(store: &dyn Store, work: &str, attempt: u64) -> PublishedShard {
    write_shard(store, records(0..3), work, attempt, &options()).unwrap()
}

pub fn verified(store: &Arc<dyn Store>) {
    let dataset = Dataset::open_store(Arc::clone(store), options()).unwrap();
    dataset.verify(&mut |_, _| true).unwrap();
    for version in dataset.versions().unwrap() {
        dataset
            .version(&sigbank::layout::signal_dataset::Which::Number(version.number))
            .unwrap()
            .verify(&mut |_, _| true)
            .unwrap();
    }
}

#[test]
fn what_is_named_stays_and_what_is_not_goes() {
    let (clock, store) = clocked(0);
    let dataset = dataset(&store, 10, 4, &options());
    annotate(&dataset, "labels", "p1");
    let more = write(&*store, "more", 0);
    publish_version(&store, &[more], &VersionPublication::new("more"), &options()).unwrap();
    // By workers; one of them was killed before its pointer, and so was another publication.
    let part = |id: &str, range: Range<u64>| {
        write_annotation_shard(&dataset, "parts", "p2", range.start, rows(&dataset, range.clone()), id).unwrap()
    };
    let parts = [part("one", 0..6), part("two", 6..10)];
    publish_annotation_shards(&dataset, "parts", "p2", &parts, &AnnotationOptions::default()).unwrap();
    let named: BTreeSet<String> = names(&*store);
    let revision = dataset.annotations().unwrap().revision().unwrap().to_owned();
    let superseded: BTreeSet<String> =
        named.iter().filter(|n| n.starts_with("annotations/catalogs/") && **n != revision).cloned().collect();
    assert_eq!(superseded.len(), 1);

    let lost = objects(&write(&*store, "more", 7));
    let unnamed = format!("annotations/sets/parts/p2/objects/{0}/{1}.arrayrecord", "ab", "ab".repeat(16));
    let lone = part_of_nothing(&dataset);
    store.create(&path(&unnamed), &[b"x"]).unwrap();
    store.create(&path("manifests/0f/gone-00000000.json"), &[b"{\"shards\":[]}"]).unwrap();
    store.create(&path("snapshots/gone/snapshot.json"), &[b"{}"]).unwrap();
    store.create(&path("notes.txt"), &[b"mine"]).unwrap();
    store.create(&path("objects/data/ab/x.arrayrecord"), &[b"mine"]).unwrap();
    clock.backdate(DAY);

    let garbage = gc(&store, &GcOptions::new(DAY)).unwrap();
    let mut expected: Vec<String> = [lone[0].clone(), lone[1].clone(), unnamed].into();
    expected[1..].sort_unstable();
    expected.extend(["snapshots/gone/snapshot.json", "manifests/0f/gone-00000000.json"].map(String::from));
    expected.extend(lost);
    assert_eq!(doomed(&garbage), expected);
    let kept: Vec<_> = garbage.orphans.iter().filter(|o| o.kept.is_some()).map(|o| (o.path.to_string(), o.kept, o.age)).collect();
    let first = superseded.first().unwrap().clone();
    assert!(kept.len() == 1 && kept[0].0 == first && kept[0].1 == Some(Kept::OldAnnotations), "{kept:?}");
    assert!(kept[0].2.unwrap() >= DAY && kept[0].2.unwrap() < DAY + HOUR);
    assert_eq!((garbage.not_ours_count, garbage.published, garbage.storage_clock), (2, true, true));
    assert_eq!(garbage.not_ours.iter().map(RelPath::as_str).collect::<Vec<_>>(), ["notes.txt", "objects/data/ab/x.arrayrecord"]);
    let deleted = garbage.delete(&store).unwrap();
    assert_eq!((deleted.objects as usize, deleted.bytes), (expected.len(), garbage.doomed().map(|o| o.bytes).sum()));
    let mut left = named.clone();
    // The last is its own, for those who publish meanwhile.
    left.extend(["notes.txt", "objects/data/ab/x.arrayrecord", "sigbank/gc.json"].map(String::from));
    assert_eq!(names(&*store), left);
    verified(&store);

    // Twice is harmless, and so is deleting what was found long ago.
    let again = gc(&store, &GcOptions::new(DAY)).unwrap();
    assert_eq!(again.doomed().count(), 0);
    assert_eq!(again.delete(&store).unwrap().objects, 0);
    assert_eq!(garbage.delete(&store).unwrap().objects, 0);
    let with_old = GcOptions { old_annotations: true, ..GcOptions::new(DAY) };
    let old = gc(&store, &with_old).unwrap();
    assert_eq!(doomed(&old), superseded.into_iter().collect::<Vec<_>>());
    old.delete(&store).unwrap();
    verified(&store);
    annotate(&dataset, "third", "p3");
    verified(&store);
}

/// A worker's annotations of a publication that nobody published: pointer and object.
fn part_of_nothing(dataset: &Dataset) -> [String; 2] {
    let before = names(&**dataset.store());
    write_annotation_shard(dataset, "lone", "p9", 0, rows(dataset, 0..2), "a").unwrap();
    let new: Vec<String> = names(&**dataset.store()).difference(&before).cloned().collect();
    let [object, pointer] = <[String; 2]>::try_from(new).unwrap();
    assert!(pointer.contains("/shards/") && object.contains("/objects/"));
    [pointer, object]
}

#[test]
fn the_young_and_what_was_written_with_them_stay() {
    let (clock, store) = clocked(0);
    let dataset = dataset(&store, 6, 3, &options());
    let [half, named, old] = ["half", "named", "old"].map(|work| write(&*store, work, 0));
    let lone = part_of_nothing(&dataset);
    store.create(&path("manifests/0f/next-00000000.json"), &[b"{}"]).unwrap();
    store.delete(&path(&objects(&half)[1])).unwrap();
    clock.backdate(2 * HOUR);
    // The worker wrote the other object now, a coordinator a page, another worker a further part.
    write(&*store, "half", 0);
    let page = format!(
        "{{\"shards\":[{{\"data\":{{\"path\":\"{}\"}},\"metadata\":{{\"path\":\"{}\"}}}}]}}",
        objects(&named)[0],
        objects(&named)[1]
    );
    store.create(&path("manifests/0f/next-00000001.json"), &[page.as_bytes()]).unwrap();
    write_annotation_shard(&dataset, "lone", "p9", 2, rows(&dataset, 2..4), "b").unwrap();
    let garbage = gc(&store, &GcOptions::new(HOUR)).unwrap();
    assert_eq!(doomed(&garbage), objects(&old));
    let kept = |name: &str| garbage.orphans.iter().find(|o| o.path.as_str() == name).unwrap().kept;
    assert_eq!((kept(&objects(&half)[0]), kept(&objects(&half)[1])), (Some(Kept::InUse), Some(Kept::Young)));
    assert_eq!(kept(&objects(&named)[0]), Some(Kept::InUse));
    assert_eq!(
        (kept("manifests/0f/next-00000000.json"), kept("manifests/0f/next-00000001.json")),
        (Some(Kept::InUse), Some(Kept::Young))
    );
    assert_eq!((kept(&lone[0]), kept(&lone[1])), (Some(Kept::InUse), Some(Kept::InUse)));
    // An hour later nobody is at work on them any more.
    clock.backdate(HOUR);
    let garbage = gc(&store, &GcOptions::new(HOUR)).unwrap();
    assert!(garbage.orphans.iter().all(|o| o.kept.is_none()) && garbage.orphans.len() == 12, "{:?}", garbage.orphans);
    // What changed between looking and deleting counts.
    publish_version(&store, &[old.clone(), named.clone()], &VersionPublication::new("v2"), &options()).unwrap();
    garbage.delete(&store).unwrap();
    assert!(objects(&old).iter().chain(&objects(&named)).all(|name| names(&*store).contains(name)));
    assert!(!names(&*store).contains(&objects(&half)[0]));
    verified(&store);
}

#[test]
fn ages_are_by_the_storages_clock() {
    for ahead in [-1, 0, 1] {
        let (clock, store) = clocked(ahead);
        dataset(&store, 4, 2, &options());
        let old = write(&*store, "old", 0);
        clock.backdate(HOUR / 2 + Duration::from_secs(60));
        let young = write(&*store, "young", 0);
        let garbage = gc(&store, &GcOptions::new(HOUR / 2)).unwrap();
        assert_eq!(doomed(&garbage), objects(&old), "{ahead} hours ahead");
        garbage.delete(&store).unwrap();
        assert!(names(&*store).contains(&objects(&young)[0]));
        assert!(!names(&*store).iter().any(|name| name.contains("sigbank-gc")));
    }
    // No clock: nothing is old.
    let store: Arc<dyn Store> = Arc::new(Clocked { tells: false, ..Clocked::default() });
    dataset(&store, 4, 2, &options());
    write(&*store, "old", 0);
    let garbage = gc(&store, &GcOptions::new(Duration::ZERO)).unwrap();
    assert!(garbage.orphans.len() == 2 && garbage.orphans.iter().all(|o| o.kept == Some(Kept::AgeUnknown) && o.age.is_none()));
    assert_eq!(garbage.delete(&store).unwrap().objects, 0);
}

#[test]
fn nothing_goes_before_a_root_is_there_unless_asked_for() {
    let (clock, store) = clocked(0);
    let shards = [write(&*store, "a", 0), write(&*store, "b", 0)];
    clock.backdate(DAY);
    let garbage = gc(&store, &GcOptions::new(HOUR)).unwrap();
    assert!(!garbage.published && garbage.orphans.len() == 4);
    assert!(garbage.orphans.iter().all(|o| o.kept == Some(Kept::Unpublished)));
    assert_eq!(garbage.delete(&store).unwrap().objects, 0);
    // Young shards survive in any case; what is gone is named by whoever wants to publish it.
    write(&*store, "c", 0);
    let asked = GcOptions { unpublished: true, ..GcOptions::new(HOUR) };
    assert_eq!(gc(&store, &asked).unwrap().delete(&store).unwrap().objects, 4);
    let e = publish(&store, &shards, &Publication::new("d", "s"), &options()).unwrap_err();
    assert_eq!(e.code(), Code::NotFound);
    assert!(e.to_string().contains("work id 'a'") && e.path().unwrap().contains(&objects(&shards[0])[0]), "{e}");
    let documents: Vec<String> = names(&*store).into_iter().filter(|name| name.ends_with(".json")).collect();
    assert_eq!(documents, ["sigbank/gc.json"]);
    let again = [write(&*store, "a", 0), write(&*store, "b", 0), write(&*store, "c", 0)];
    publish(&store, &again, &Publication::new("d", "s"), &options()).unwrap();
    verified(&store);
}

#[test]
fn a_damaged_document_stops_it() {
    for (name, bytes) in [
        ("root.json", &b"{}"[..]),
        ("snapshots/v1/snapshot.json", b"{}"),
        ("manifests", b"{}"),
        ("annotations/catalog.json", b"{}"),
        ("annotations/catalogs", b"{\"sets\":{}} "),
        ("annotations/sets", b"{}"),
        ("sigbank/versions/00000001.json", b"{}"),
        ("sigbank/versions/00000007.json", b"[]"),
    ] {
        let (clock, store) = clocked(0);
        let dataset = dataset(&store, 4, 2, &options());
        annotate(&dataset, "labels", "p");
        write(&*store, "lost", 0);
        let full =
            names(&*store).into_iter().find(|full| full.starts_with(name) && full.ends_with(".json")).unwrap_or(name.into());
        replace(&*store, &full, bytes);
        clock.backdate(DAY);
        let before = names(&*store);
        if name == "annotations/catalogs" {
            // Its name is its digest: whoever reads the catalog sees the damage.
            assert_eq!(dataset.annotations().unwrap_err().code(), Code::Corrupt);
        }
        let e = gc(&store, &GcOptions::new(HOUR)).unwrap_err();
        assert!(e.path().unwrap().contains(&full) && e.remedy_text().is_some(), "{name}: {e:?}");
        assert_eq!((e.code(), names(&*store)), (Code::Corrupt, before), "{name}");
    }
    // References without checksums: a page that can be read may name something else than it did.
    let (clock, store) = clocked(0);
    dataset(&store, 4, 2, &Options { compat: true, ..options() });
    let page = names(&*store).into_iter().find(|name| name.starts_with("manifests/")).unwrap();
    let text = String::from_utf8(store.get(&path(&page)).unwrap().to_vec()).unwrap();
    let at = text.find(".arrayrecord").unwrap() - 1;
    let other = if text.as_bytes()[at] == b'0' { "1" } else { "0" };
    replace(&*store, &page, format!("{}{other}{}", &text[..at], &text[at + 1..]).as_bytes());
    clock.backdate(DAY);
    let e = gc(&store, &GcOptions::new(HOUR)).unwrap_err();
    assert!(
        e.code() == Code::NotFound && e.path().unwrap().ends_with(&format!("{other}.arrayrecord")) && e.remedy_text().is_some(),
        "{e:?}"
    );
}

#[test]
fn what_an_interrupted_run_leaves_is_garbage_again() {
    for stop in 1.. {
        let (clock, inner) = clocked(0);
        let faulty = FaultStore::new(Arc::clone(&inner));
        let store: Arc<dyn Store> = Arc::new(faulty.clone());
        let dataset = dataset(&store, 4, 2, &options());
        part_of_nothing(&dataset);
        // A whole publication whose root was never written.
        let shard = write(&*store, "x", 0);
        let version = publish_version(&store, &[shard], &VersionPublication::new("x"), &options()).unwrap();
        drop(version);
        store.delete(&path("sigbank/versions/00000001.json")).unwrap();
        clock.backdate(DAY);
        let old = GcOptions { uncommitted: true, ..GcOptions::new(HOUR) };
        let garbage = gc(&store, &old).unwrap();
        let all = garbage.doomed().count();
        assert_eq!(all, 7);
        // Each run deletes a probe of its own.
        faulty.add(Rule::new(Fault::Fail(Error::storage("pulled"))).on(Op::Delete).nth(1 + stop).always());
        let done = garbage.delete(&store);
        let left = gc(&inner, &old).unwrap();
        if stop as usize > all {
            assert_eq!((done.unwrap().objects as usize, left.orphans.len()), (all, 0));
            return;
        }
        assert_eq!(done.unwrap_err().code(), Code::Storage);
        assert_eq!(left.doomed().count(), all + 1 - stop as usize);
        // No document is left whose objects are gone.
        let names = names(&*inner);
        for orphan in left.orphans.iter().filter(|o| o.path.as_str().ends_with(".json")) {
            let text = String::from_utf8(inner.get(&orphan.path).unwrap().to_vec()).unwrap();
            for part in text.split('"').filter(|part| part.contains('/') && part.contains('.')) {
                assert!(
                    names.contains(part.trim_start_matches("memory:/").trim_start_matches('/')),
                    "{} names {part}",
                    orphan.path
                );
            }
        }
        assert_eq!(left.delete(&inner).unwrap().objects as usize, all + 1 - stop as usize);
        verified(&inner);
    }
}

#[test]
fn where_nothing_can_be_written_it_only_looks() {
    let faulty = FaultStore::new(memory());
    let store: Arc<dyn Store> = Arc::new(faulty.clone());
    dataset(&store, 4, 2, &options());
    write(&*store, "lost", 0);
    faulty.add(Rule::new(Fault::Fail(Error::read_only("no"))).on(Op::Create).always());
    let garbage = gc(&store, &GcOptions::new(Duration::ZERO)).unwrap();
    assert_eq!((garbage.storage_clock, garbage.doomed().count()), (false, 2));
    assert_eq!(garbage.delete(&store).unwrap_err().code(), Code::ReadOnly);
    assert_eq!(gc(&store, &GcOptions::new(Duration::ZERO)).unwrap().orphans.len(), 2);
}

#[test]
fn sets_that_the_catalog_no_longer_names_are_old() {
    let (clock, store) = clocked(0);
    let dataset = dataset(&store, 4, 2, &options());
    annotate(&dataset, "labels", "p1");
    let [before, now] = [(); 2].map(|()| {
        let found = dataset.annotations().unwrap().revision().unwrap().to_owned();
        if names(&*store).iter().filter(|n| n.contains("/catalogs/")).count() == 1 {
            // Another program replaces the set.
            annotate(&dataset, "other", "p1");
        }
        found
    });
    assert_ne!(before, now);
    let bytes = store.get(&path(&now)).unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let (start, end) = (text.find("\"labels\"").unwrap(), text.find(",\"other\"").unwrap());
    let without = format!("{}{}", &text[..start], &text[end + 1..]);
    let digest = sigbank::layout::signal_dataset::Digest::of(without.as_bytes());
    replace(&*store, &format!("annotations/catalogs/{digest}.json"), without.as_bytes());
    replace(
        &*store,
        "annotations/catalog.json",
        format!("{{\"revision\":{{\"generation\":null,\"path\":\"annotations/catalogs/{digest}.json\"}}}}").as_bytes(),
    );
    assert_eq!(dataset.annotations().unwrap().names().collect::<Vec<_>>(), ["other"]);
    clock.backdate(DAY);
    let garbage = gc(&store, &GcOptions::new(HOUR)).unwrap();
    assert_eq!(
        garbage.orphans.iter().map(|o| (o.kind, o.kept)).collect::<Vec<_>>(),
        [
            (OrphanKind::AnnotationRevision, Some(Kept::OldAnnotations)),
            (OrphanKind::AnnotationRevision, Some(Kept::OldAnnotations)),
            (OrphanKind::AnnotationRoot, Some(Kept::OldAnnotations)),
            (OrphanKind::AnnotationShard, Some(Kept::OldAnnotations)),
        ]
    );
    let asked = GcOptions { old_annotations: true, ..GcOptions::new(HOUR) };
    assert_eq!(gc(&store, &asked).unwrap().delete(&store).unwrap().objects, 4);
    verified(&store);
    assert_eq!(gc(&store, &asked).unwrap().orphans, []);
}

#[test]
fn datasets_below_and_what_is_there_for_a_moment_stay() {
    let (clock, store) = clocked(0);
    dataset(&store, 4, 2, &options());
    let lost = write(&*store, "lost", 0);
    let below = ["objects/inner/", "snapshots/in2/", "objects/data/15/"];
    let inner = names(&*store);
    for name in &inner {
        let bytes = store.get(&RelPath::parse(name).unwrap()).unwrap();
        below.iter().for_each(|dir| store.create(&RelPath::parse(&format!("{dir}{name}")).unwrap(), &[&bytes]).unwrap());
    }
    clock.backdate(2 * DAY);
    let moments = [".sigbank/turn", ".sigbank/probe/00112233445566778899aabbccddeeff"];
    moments.iter().for_each(|path| store.create(&RelPath::parse(path).unwrap(), &[b"?"]).unwrap());
    let any = GcOptions { unpublished: true, uncommitted: true, ..GcOptions::new(Duration::ZERO) };
    let garbage = gc(&store, &any).unwrap();
    assert_eq!(doomed(&garbage), objects(&lost));
    assert_eq!(garbage.not_ours_count, (below.len() * inner.len()) as u64);
    garbage.delete(&store).unwrap();
    verified(&store);
    clock.backdate(HOUR);
    assert_eq!(gc(&store, &any).unwrap().delete(&store).unwrap().objects, moments.len() as u64);
}
