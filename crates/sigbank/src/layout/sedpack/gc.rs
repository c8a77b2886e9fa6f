//! Garbage: what killed writers leave that no list names, and never will. Nothing looks for it unless it is told to.
//!
//! What the root leads to is live. All else may be somebody's who is still at work, and only its age tells that it is not: an object counts as
//! in use while it is younger than the age given, while another one is that the same writer made with it (its directory, what its progress records
//! or a list name), and, on a store with locks, while its writer lives. Ages are by the storage's clock. What can be listed yet is told and kept:
//! shards that a progress record or a list names, these lists, whole shards that nothing names, and what a repair left out. So a dead worker's
//! shards wait for their coordinator, and those that an older root does not know for a repair. Only who says so has them deleted.
//!
//! On a store with locks nobody commits while this deletes. Elsewhere what names others goes first, and everything is looked at once more before
//! the shards go: so a commit that names what is about to go is seen, or does not find what it was to name. Where lists are swung while they are
//! followed, all is looked at again.

mod bare;
mod groups;
mod shape;

pub use shape::OrphanKind;

use super::commit::{PATIENCE, ROOT_LOCK};
use super::lists::ListRef;
use super::nested::Nested;
use super::progress::Session;
use super::repair::dropped;
use super::state::State;
use super::{Dataset, OpenOptions, ROOT, claim, journal};
use crate::error::{Code, Error, Result};
use crate::layout::{Layout, detect, signal_dataset};
use crate::store::{Store, clock, lock};
use crate::uri::RelPath;
use shape::{Shape, shape};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// So many names of foreign objects are told.
const FOREIGN: usize = 1000;
/// So often all is looked at again where what is named is not there, or not as it is named, and the root is the same.
const AGAIN: u32 = 3;
/// So often where it is another one each time.
const SWUNG: u32 = 50;

/// What counts as garbage.
///
/// ```
/// use sigbank::layout::sedpack::GcOptions;
/// let week = GcOptions::new(std::time::Duration::from_secs(7 * 86400));
/// assert!(!week.unpublished);
/// ```
#[derive(Debug, Clone)]
pub struct GcOptions {
    /// Only what is at least so old. It must be longer than any writer takes from its first shard to its commit, or to that of the
    /// coordinator that merges its lists, and longer than a `cp`, `sync` or `merge` that goes on where a killed one was has lain.
    pub older_than: Duration,
    /// Also where there is no root (yet), what could be listed yet ([`Kept::Recoverable`]), and what a run of another layout left that lost to
    /// this dataset. Nobody may be about to make a dataset there, and no writer be at work for longer than `older_than`.
    pub unpublished: bool,
}

impl GcOptions {
    /// What is at least so old, of a dataset that is there.
    pub fn new(older_than: Duration) -> Self {
        Self { older_than, unpublished: false }
    }
}

/// Why an orphan is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It is younger than the age given.
    Young,
    /// Something younger was written with it, or its writer lives.
    InUse,
    /// The store does not tell how old it is.
    AgeUnknown,
    /// It is a whole shard, or a list or a record that names one: a filler, the coordinator of the worker that wrote it, or a repair can list it
    /// yet. Or a repair left it out.
    Recoverable,
    /// There is no root that leads to it: it may be about to be written.
    Unpublished,
}

impl Kept {
    /// In words.
    ///
    /// ```
    /// assert_eq!(sigbank::layout::sedpack::Kept::Recoverable.as_str(), "recoverable");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Young => "young",
            Self::InUse => "in use",
            Self::AgeUnknown => "age unknown",
            Self::Recoverable => "recoverable",
            Self::Unpublished => "unpublished",
        }
    }
}

/// An object that no list names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Its name, relative to the root.
    pub path: RelPath,
    /// Its length in bytes.
    pub bytes: u64,
    /// How old it is by the storage's clock; 0 for what is newer than now.
    pub age: Option<Duration>,
    /// What it is.
    pub kind: OrphanKind,
    /// Why it is kept; none for garbage.
    pub kept: Option<Kept>,
}

/// What [`gc`] found.
#[derive(Debug, Clone)]
pub struct Garbage {
    /// What nothing names, in the order of deletion.
    pub orphans: Vec<Orphan>,
    /// The first 1000 names that are not of the layout, sorted; never touched.
    pub not_ours: Vec<RelPath>,
    /// How many such names there are.
    pub not_ours_count: u64,
    /// Objects that the root leads to, and their bytes in all.
    pub live: (u64, u64),
    /// Whether there is a root.
    pub published: bool,
    /// Whether ages are by the storage's clock. They are by the host's where nothing can be written; then nothing can be deleted.
    pub storage_clock: bool,
    options: GcOptions,
}

/// Objects that were deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Unfinished files of killed writers that were deleted too.
    pub unfinished: u64,
}

/// Looks for objects that nothing names, and deletes nothing: see [`Garbage::delete`].
///
/// A probe object is written and deleted again, for the storage's clock.
///
/// ```
/// use sigbank::layout::sedpack::{Dataset, GcOptions, Info, Kept, gc};
/// use sigbank::store::{MemoryStore, Store};
/// use std::{sync::Arc, time::Duration};
/// let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
/// let structure = serde_json::json!({"saved_data_description": [{"name": "x", "dtype": "uint8", "shape": [1]}]});
/// Dataset::create_store(store.clone(), Info::new(Default::default(), structure.as_object().cloned().unwrap_or_default())?)?;
/// store.create(&"train/0/00112233445566778899aabbccddeeff.fb".parse()?, &[b"nobody names it"])?;
///
/// let day = gc(&store, &GcOptions::new(Duration::from_secs(86400)))?;
/// assert_eq!(day.orphans.len(), 1);
/// assert_eq!(day.orphans.first().and_then(|orphan| orphan.kept), Some(Kept::Young));
/// let any = gc(&store, &GcOptions::new(Duration::ZERO))?;
/// assert_eq!(any.delete(&store)?.objects, 1);
/// # Ok::<(), sigbank::Error>(())
/// ```
///
/// # Errors
/// `Corrupt` or `NotFound` for a list or a shard that is named and is not as it should be: then nobody knows what is garbage. `Unsupported` for a
/// dataset of another layout.
pub fn gc(store: &Arc<dyn Store>, options: &GcOptions) -> Result<Garbage> {
    look(store, options, None).map(|(garbage, _)| garbage)
}

/// As [`gc`], with the sessions of dead writers, held. Of shards that nothing names only those of `among` are read.
fn look(store: &Arc<dyn Store>, options: &GcOptions, among: Option<&HashSet<&RelPath>>) -> Result<(Garbage, Vec<Session>)> {
    let (mut same, mut root) = (0, None);
    for _ in 0..SWUNG {
        match look_once(store, options, among) {
            // Somebody commits meanwhile, perhaps.
            Err(e) if matches!(e.code(), Code::Corrupt | Code::NotFound) => {
                let now = store.get(&RelPath::parse(ROOT)?).ok();
                same = if now == root { same + 1 } else { 1 };
                root = now;
                if same >= AGAIN {
                    return Err(named(e));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            found => return found,
        }
    }
    Err(Error::conflict("others commit all the time, so that what is live cannot be found out")
        .at(store.location())
        .remedy("try again later"))
}

fn look_once(store: &Arc<dyn Store>, options: &GcOptions, among: Option<&HashSet<&RelPath>>) -> Result<(Garbage, Vec<Session>)> {
    let published = match detect(&**store)? {
        None => false,
        Some(Layout::Sedpack) => true,
        Some(_) => return Err(Error::unsupported("a dataset of another layout is here").at(store.location())),
    };
    let storage_now = clock::now(&**store)?;
    let now = storage_now.or_else(|| Some(SystemTime::now()));
    // Listed before anything is followed: what is committed meanwhile is found to be named.
    let mut listed = list(&**store, published)?;
    let dataset = if published { Some(Dataset::open_store(Arc::clone(store), OpenOptions { allow_newer: true })?) } else { None };
    let (mut live, mut recoverable) = ((0, 0), HashSet::new());
    if let Some(dataset) = &dataset {
        live = self::live(dataset, &mut listed.left)?;
        recoverable.extend(dropped::read(&**store)?.into_values().flat_map(|r| r.shard.files).map(|file| file.path));
    }
    listed.leave_others();
    let Listed { left, not_ours, not_ours_count, .. } = listed;
    let young = |object: &Object| object.age(now).is_none_or(|age| age < options.older_than);
    let (in_use, held) = groups::in_use(&**store, &left, young, &mut recoverable)?;
    // Where no dataset is yet, all is one run's that makes one.
    let making = !published && left.values().any(|object| object.kind != OrphanKind::Probe && young(object));
    let mut orphans: Vec<Orphan> = left
        .into_iter()
        .map(|(path, object)| {
            let age = object.age(now);
            let kept = match (age, object.kind) {
                (None, _) => Some(Kept::AgeUnknown),
                (Some(age), OrphanKind::Probe) => (age < options.older_than.max(clock::MOMENT)).then_some(Kept::Young),
                (Some(age), _) if age < options.older_than => Some(Kept::Young),
                _ if making || in_use.contains(&path) => Some(Kept::InUse),
                _ if options.unpublished => None,
                (_, OrphanKind::OtherLayout) => Some(Kept::Unpublished),
                _ if !published => Some(Kept::Unpublished),
                _ if recoverable.contains(&path) => Some(Kept::Recoverable),
                _ => None,
            };
            Orphan { path, bytes: object.bytes, age, kind: object.kind, kept }
        })
        .collect();
    if let Some(dataset) = dataset.filter(|_| !options.unpublished) {
        bare::keep_whole(&dataset, &mut orphans, among)?;
    }
    orphans.sort_unstable_by(|a, b| (a.kind, &a.path).cmp(&(b.kind, &b.path)));
    let options = options.clone();
    let storage_clock = storage_now.is_some();
    Ok((Garbage { orphans, not_ours, not_ours_count, live, published, storage_clock, options }, held))
}

fn named(e: Error) -> Error {
    match e.code() {
        Code::Corrupt | Code::NotFound => e.remedy(
            "a dataset that is not whole may need what nothing names, so nothing is deleted: repair it first, sigbank check --repair --dry-run",
        ),
        _ => e,
    }
}

impl Garbage {
    /// The orphans that [`Garbage::delete`] deletes.
    pub fn doomed(&self) -> impl Iterator<Item = &Orphan> {
        self.orphans.iter().filter(|orphan| orphan.kept.is_none())
    }

    /// Deletes what is garbage, both as it was found and as it is found now: everything is looked at anew before. Also deletes unfinished files of killed
    /// writers, where the store keeps such.
    ///
    /// # Errors
    /// `ReadOnly` where nothing can be written; `Conflict` where another writer holds the root's lock for long; those of [`gc`]; `Storage` for an
    /// object that cannot be deleted: run it again then.
    pub fn delete(&self, store: &Arc<dyn Store>) -> Result<Deleted> {
        if !self.storage_clock {
            return Err(Error::read_only("nothing can be written here, so that nothing can be deleted").at(store.location()));
        }
        let locks = store.capabilities().locks;
        let _guard = if locks { Some(lock(&**store, ROOT_LOCK, PATIENCE)?) } else { None };
        let found: HashSet<&RelPath> = self.doomed().map(|orphan| &orphan.path).collect();
        let mut deleted = Deleted::default();
        if !found.is_empty() {
            if self.published {
                if locks {
                    journal::recover(&**store, true)?
                } else {
                    claim::recover(&**store)?
                };
            }
            let (mut now, held) = look(store, &self.options, Some(&found))?;
            let documents = now.delete_those(&**store, &found, OrphanKind::is_document, &mut deleted)?;
            if !locks && !documents.is_empty() {
                now = look(store, &self.options, Some(&found))?.0;
            }
            now.delete_those(&**store, &found, |kind| !kind.is_document(), &mut deleted)?;
            for session in held.into_iter().filter(|session| documents.contains(session.id())) {
                session.end(&**store)?;
            }
        }
        deleted.unfinished = store.sweep(self.options.older_than)? as u64;
        Ok(deleted)
    }

    /// Gives the sessions whose records went.
    fn delete_those(
        &self,
        store: &dyn Store,
        found: &HashSet<&RelPath>,
        of: impl Fn(OrphanKind) -> bool,
        deleted: &mut Deleted,
    ) -> Result<HashSet<String>> {
        let mut sessions = HashSet::new();
        for orphan in self.doomed().filter(|orphan| of(orphan.kind) && found.contains(&orphan.path)) {
            store.delete(&orphan.path)?;
            deleted.objects += 1;
            deleted.bytes += orphan.bytes;
            sessions.extend(super::progress::session_of(&orphan.path).map(str::to_owned));
        }
        Ok(sessions)
    }
}

/// An object that something must name.
struct Object {
    kind: OrphanKind,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Object {
    /// How old it is; 0 where it is newer than now.
    fn age(&self, now: Option<SystemTime>) -> Option<Duration> {
        Some(now?.duration_since(self.modified?).unwrap_or_default())
    }
}

/// What lies below the root.
struct Listed {
    left: HashMap<RelPath, Object>,
    not_ours: Vec<RelPath>,
    not_ours_count: u64,
    nested: Nested,
}

impl Listed {
    /// Something that is none of this dataset's.
    fn foreign(&mut self, path: RelPath) {
        self.not_ours_count += 1;
        self.not_ours.push(path);
        if self.not_ours.len() >= 2 * FOREIGN {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        self.not_ours.sort_unstable();
        self.not_ours.truncate(FOREIGN);
    }

    /// What lies in other datasets below this one, and is not live here, is theirs.
    fn leave_others(&mut self) {
        let theirs: Vec<RelPath> = self.left.keys().filter(|path| self.nested.holds(path)).cloned().collect();
        for path in theirs {
            self.left.remove(&path);
            self.foreign(path);
        }
        self.shorten();
    }
}

fn list(store: &dyn Store, published: bool) -> Result<Listed> {
    let mut found = Listed { left: HashMap::new(), not_ours: Vec::new(), not_ours_count: 0, nested: Nested::default() };
    for entry in store.list(None)? {
        let entry = entry?;
        found.nested.note(&entry.path);
        match shape(&entry.path) {
            Shape::Entrance => {}
            Shape::Named(kind) => {
                found.left.insert(entry.path, Object { kind, bytes: entry.size, modified: entry.modified });
            }
            // Of runs that lost to this dataset.
            Shape::Foreign if published && signal_dataset::is_made_name(&entry.path) => {
                let object = Object { kind: OrphanKind::OtherLayout, bytes: entry.size, modified: entry.modified };
                found.left.insert(entry.path, object);
            }
            Shape::Foreign => found.foreign(entry.path),
        }
    }
    Ok(found)
}

/// Takes away what the root leads to, a begun commit's with it; gives how much that is.
fn live(dataset: &Dataset, left: &mut HashMap<RelPath, Object>) -> Result<(u64, u64)> {
    let store = dataset.store();
    dataset.set_state(dataset.newest()?);
    let paths = dataset.with_state(|state| reach(state, store))?;
    let mut live = (0, 0);
    for path in paths {
        match left.remove(&path) {
            Some(object) => live = (live.0 + 1, live.1 + object.bytes),
            // Unless it was written since, or has a name of its own, or will be there when a commit has gone on.
            None => dataset.with_state(|state| if state.awaits(&path) { Ok(()) } else { store.head(&path).map(drop) })?,
        }
    }
    // Whoever meets it finishes it.
    let root = store.get(&RelPath::parse(ROOT)?)?;
    left.remove(&claim::place(&root)?);
    Ok(live)
}

/// Every list and every file of every shard.
fn reach(state: &State, store: &dyn Store) -> Result<HashSet<RelPath>> {
    let mut all = HashSet::new();
    let mut next: Vec<ListRef> = state.info.splits().iter().map(|(_, top)| top.clone()).collect();
    while let Some(pointer) = next.pop() {
        if !all.insert(pointer.file.path.clone()) {
            return Err(Error::corrupt("two lists name it, or it names itself").at(store.locate(&pointer.file.path)));
        }
        let list = state.list(store, &pointer)?;
        all.extend(list.shards.iter().flat_map(|shard| &shard.files).map(|file| file.path.clone()));
        next.extend(list.children);
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
