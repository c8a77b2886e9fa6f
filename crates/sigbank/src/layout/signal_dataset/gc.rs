//! Garbage: objects below a dataset's root that nothing names, as killed or replaced workers and coordinators leave them.
//!
//! This is the only place of the layout that lists. Live is what `root.json`, the further versions and the annotation catalog lead to.
//! What is not live may still be a publication that is being made, so that only its age tells garbage from it: an object counts as in use while it
//! is younger than the age given, while another one that was written with it is (the other object of its shard, a document of the same
//! snapshot, an object of the same annotation publication), and while a young document names it. Ages are by the storage's clock alone.
//!
//! A publication that takes over what an older run left, and one that goes on while this deletes, are kept apart from it by
//! `sigbank/gc.json` (see `guard.rs`). What remains: the reference package does not look at it. Where it publishes, the age must be greater than
//! the time from the first shard's (or the killed run's) writing to the root's.

mod complete;
mod reach;
mod shape;

pub use shape::OrphanKind;
pub(in crate::layout) use shape::is_made_name;

use super::guard::Deleting;
use super::objects::{Elsewhere, Objects, document};
use super::uncommitted::Uncommitted;
use super::versions;
use crate::error::{Code, Error, Result};
use crate::store::{Store, clock, exists};
use crate::uri::RelPath;
use bytes::Bytes;
use reach::Reach;
pub(super) use shape::PROBE;
use shape::{Shape, group, publication, shape};
use sigbank_format::model::json::Limits;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// So many names of foreign objects are told.
const FOREIGN: usize = 1000;

/// What counts as garbage.
///
/// ```
/// use sigbank::layout::signal_dataset::GcOptions;
/// let week = GcOptions::new(std::time::Duration::from_secs(7 * 86400));
/// assert!(!week.unpublished && !week.old_annotations);
/// ```
#[derive(Debug, Clone)]
pub struct GcOptions {
    /// Only what is at least so old. It must be longer than anybody takes from writing the first shard to publishing, retries included:
    /// whoever publishes shards that are older may find them gone, or lose them.
    pub older_than: Duration,
    /// Also where no `root.json` is there (yet). No publication may be going on then.
    pub unpublished: bool,
    /// Also what earlier revisions of the annotation catalog name, and these revisions.
    pub old_annotations: bool,
    /// Also snapshots and annotations that are complete and that no commit names, see [`uncommitted`](super::uncommitted()): without it they
    /// are kept, since a commit may have been deleted by mistake.
    pub uncommitted: bool,
    /// How large documents may be.
    pub control: Limits,
    /// How the stores of other addresses are reached, where documents may be.
    pub elsewhere: Elsewhere,
}

impl GcOptions {
    /// What is at least so old, of a published dataset.
    pub fn new(older_than: Duration) -> Self {
        Self {
            older_than,
            unpublished: false,
            old_annotations: false,
            uncommitted: false,
            control: Limits::default(),
            elsewhere: Elsewhere::default(),
        }
    }
}

/// Why an orphan is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It is younger than the age given.
    Young,
    /// Something younger was written with it, or names it.
    InUse,
    /// The store does not tell how old it is.
    AgeUnknown,
    /// An earlier revision of the annotation catalog names it, or it is one.
    OldAnnotations,
    /// There is no `root.json`: it may be about to be published.
    Unpublished,
    /// It is part of something complete that no commit names.
    Uncommitted,
}

impl Kept {
    /// In words.
    ///
    /// ```
    /// assert_eq!(sigbank::layout::signal_dataset::Kept::Young.as_str(), "young");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Young => "young",
            Self::InUse => "in use",
            Self::AgeUnknown => "age unknown",
            Self::OldAnnotations => "old annotations",
            Self::Unpublished => "unpublished",
            Self::Uncommitted => "complete",
        }
    }
}

/// An object that nothing names.
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
    /// What is complete among the orphans, and no commit names; kept, or part of what is deleted.
    pub uncommitted: Vec<Uncommitted>,
    /// Objects that are named, and their bytes in all.
    pub live: (u64, u64),
    /// Whether there is a `root.json`.
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
/// use sigbank::layout::signal_dataset::*;
/// use sigbank::format::record::signal::{Axis, FieldMetadata, RecordMetadata};
/// use sigbank::store::{MemoryStore, Store};
/// use std::{sync::Arc, time::Duration};
/// let (store, options): (Arc<dyn Store>, _) = (Arc::new(MemoryStore::new()), Options::default());
/// let field = FieldMetadata { axes: vec![Axis::new("t", 1)], ..FieldMetadata::new("x", "uint8".parse()?, vec![1]) };
/// let record = Record { metadata: RecordMetadata::new("a", vec![field]), data: vec![vec![7].into()] };
/// let write = |attempt| write_shard(&*store, [Ok(record.clone())], "w", attempt, &options);
/// let (lost, shard) = (write(0)?, write(1)?);
/// publish(&store, &[shard], &Publication::new("d", "s"), &options)?;
///
/// let garbage = gc(&store, &GcOptions::new(Duration::ZERO))?;
/// let paths: Vec<&str> = garbage.orphans.iter().map(|orphan| orphan.path.as_str()).collect();
/// assert_eq!(paths, [lost.data.path.as_str(), lost.metadata.path.as_str()]);
/// assert_eq!(garbage.delete(&store)?.objects, 2);
/// assert!(gc(&store, &GcOptions::new(Duration::ZERO))?.orphans.is_empty());
/// # Ok::<(), sigbank::Error>(())
/// ```
///
/// # Errors
/// `Corrupt` or `NotFound` for a document that is named and cannot be read: then nobody knows what is garbage.
pub fn gc(store: &Arc<dyn Store>, options: &GcOptions) -> Result<Garbage> {
    // Listed before anything is followed: what is published meanwhile is found to be named.
    let Listed { mut left, versions, not_ours, not_ours_count, now, storage_clock } = list(&**store)?;
    let objects = Objects::reaching(Arc::clone(store), options.elsewhere.clone());
    let mut reach = Reach::new(&objects, &options.control);
    let (mut sets, mut missing) = (HashSet::new(), Vec::new());
    let mut mark = |path: RelPath, sure: bool| {
        sets.extend(publication(&path));
        match left.get_mut(&path) {
            Some(object) => object.live = true,
            None if sure => missing.push(path),
            None => {}
        }
    };
    let named = |e: Error| match e.remedy_text() {
        None => e.remedy("what cannot be read may name any object, so nothing is deleted: restore it from a copy first"),
        Some(_) => e,
    };
    let published = reach.root(&mut mark).map_err(named)?;
    for version in &versions {
        reach.version(version, &mut mark).map_err(named)?;
    }
    // Readers find versions by their numbers, also where a listing shows none, as behind a symbolic link.
    let listed = versions.iter().filter_map(versions::number).max().unwrap_or_default();
    let mut last = 0;
    for number in 1u64.. {
        let path = versions::path(number)?;
        match versions.contains(&path) {
            true => {}
            false if exists(&**store, &path).map_err(named)? => reach.version(&path, &mut mark).map_err(named)?,
            false if number < listed => return Err(versions::gap(&**store, number, listed)),
            false => break,
        }
        last = number;
    }
    for number in 0..=last {
        reach.annotations(number, &mut mark).map_err(named)?;
    }
    // A document that was damaged so that it can be read still may name something else than it did.
    for path in missing {
        // Unless it was written since.
        store.head(&path).map_err(|e| match e.code() {
            Code::NotFound => {
                named(Error::not_found("the dataset names this object, and it is not there").at(store.locate(&path)))
            }
            _ => e,
        })?;
    }
    // Workers' pointers of a published set stay, and so does what they name.
    for pointer in of_kind(&left, OrphanKind::AnnotationPointer) {
        if publication(&pointer).is_some_and(|of| sets.contains(&of)) {
            for path in [reach.pointer(&pointer).map_err(named)?, pointer] {
                left.entry(path).and_modify(|object| object.live = true);
            }
        }
    }
    // A copy lies beside the document that it is of.
    for copy in of_kind(&left, OrphanKind::VersionCopy) {
        let snapshot = copy.parent().and_then(|folder| folder.join("snapshot.json").ok());
        let live = snapshot.and_then(|snapshot| left.get(&snapshot)).is_some_and(|object| object.live);
        left.entry(copy).and_modify(|object| object.live = live);
    }
    let (uncommitted, whole) = complete::complete(&left, &objects, &mut reach, &options.control)?;
    let mut live = (0, 0);
    left.retain(|_, object| {
        if object.live {
            live = (live.0 + 1, live.1 + object.bytes);
        }
        !object.live
    });

    let mut old = HashSet::new();
    for revision in of_kind(&left, OrphanKind::AnnotationRevision) {
        let mut note = |path: RelPath, _: bool| {
            old.extend(publication(&path).map(|of| of.to_string()));
            old.insert(path.to_string());
        };
        let read = reach.revision(&revision, false, &mut note);
        read.map_err(|e| e.remedy("this revision is no longer the current one: delete it by hand, or restore it from a copy"))?;
    }
    let in_use = in_use(&left, now, options.older_than, &mut reach)?;
    let mut orphans: Vec<Orphan> = left
        .into_iter()
        .map(|(path, object)| {
            let (age, kind) = (object.age(now), object.kind);
            let group = group(&path, kind);
            let kept = match age {
                None => Some(Kept::AgeUnknown),
                Some(age) if kind == OrphanKind::Probe => (age < options.older_than.max(clock::MOMENT)).then_some(Kept::Young),
                Some(age) if age < options.older_than => Some(Kept::Young),
                _ if in_use.contains(&group) => Some(Kept::InUse),
                _ if !published && !options.unpublished => Some(Kept::Unpublished),
                // Given up, it goes with its annotations.
                _ if whole.contains(&path) => (!options.uncommitted).then_some(Kept::Uncommitted),
                _ if !options.old_annotations && old.contains(&group) => Some(Kept::OldAnnotations),
                _ => None,
            };
            Orphan { path, bytes: object.bytes, age, kind, kept }
        })
        .collect();
    orphans.sort_unstable_by(|a, b| (a.kind, &a.path).cmp(&(b.kind, &b.path)));
    Ok(Garbage { orphans, not_ours, not_ours_count, uncommitted, live, published, storage_clock, options: options.clone() })
}

impl Garbage {
    /// The orphans that [`Garbage::delete`] deletes.
    pub fn doomed(&self) -> impl Iterator<Item = &Orphan> {
        self.orphans.iter().filter(|orphan| orphan.kept.is_none())
    }

    /// Deletes what is garbage, both as it was found and as it is found now: everything is looked at anew before. Documents go before
    /// what they name, so that the rest of an interrupted run is garbage again. Also deletes unfinished files of killed writers, where the
    /// store keeps such.
    ///
    /// `sigbank/gc.json` tells those who publish that this is going on, and stays: see the module.
    ///
    /// # Errors
    /// `Conflict` where another is at work, or something was published meanwhile: nothing is deleted then. `ReadOnly` where the storage's clock is not known; those of [`gc`]; `Storage` for an object that cannot be deleted.
    pub fn delete(&self, store: &Arc<dyn Store>) -> Result<Deleted> {
        if self.doomed().next().is_none() {
            let unfinished = if self.storage_clock { store.sweep(self.options.older_than)? as u64 } else { 0 };
            return Ok(Deleted { unfinished, ..Deleted::default() });
        }
        // Before anything is looked at: who publishes meanwhile finds out.
        let deleting = Deleting::begin(&**store)?;
        let deleted = self.delete_now(store, &deleting);
        let ended = deleting.end();
        let deleted = deleted?;
        ended.map(|()| deleted)
    }

    fn delete_now(&self, store: &Arc<dyn Store>, deleting: &Deleting<'_>) -> Result<Deleted> {
        // No set may be published on a revision that is about to go.
        let annotations = self.doomed().any(|orphan| orphan.kind.is_annotation());
        let _held = if annotations { super::annotations::reference_lock(&**store)? } else { None };
        let entrances = entrances(&**store, &self.options.control)?;
        let now = gc(store, &self.options)?;
        if !now.storage_clock {
            return Err(Error::read_only("nothing can be written here, so that nothing can be deleted").at(store.location()));
        }
        // The reference package publishes without looking for a gc.
        if entrances != self::entrances(&**store, &self.options.control)? {
            return Err(Error::conflict("something was published here while this looked, and nothing is deleted")
                .at(store.location())
                .remedy("run it again"));
        }
        let found: HashSet<&RelPath> = self.doomed().map(|orphan| &orphan.path).collect();
        let mut deleted = Deleted::default();
        for orphan in now.doomed().filter(|orphan| found.contains(&orphan.path)) {
            deleting.still()?;
            store.delete(&orphan.path)?;
            deleted.objects += 1;
            deleted.bytes += orphan.bytes;
        }
        deleted.unfinished = store.sweep(self.options.older_than)? as u64;
        Ok(deleted)
    }
}

/// Where readers begin: the root, and the pointers of annotation catalogs, of each version.
fn entrances(store: &dyn Store, limits: &Limits) -> Result<Vec<Option<Bytes>>> {
    let get = |path: &str| match document(store, &RelPath::parse(path)?, limits) {
        Err(e) if e.code() == Code::NotFound => Ok(None),
        bytes => bytes.map(Some),
    };
    let mut all = vec![get(super::ROOT)?];
    let mut number = 0;
    loop {
        all.push(get(super::annotations::catalog_path(number)?.as_str())?);
        number += 1;
        if !exists(store, &versions::path(number)?)? {
            return Ok(all);
        }
    }
}

/// An object that something must name.
struct Object {
    kind: OrphanKind,
    bytes: u64,
    modified: Option<SystemTime>,
    live: bool,
}

impl Object {
    /// How old it is; 0 where it is newer than now.
    fn age(&self, now: Option<SystemTime>) -> Option<Duration> {
        Some(now?.duration_since(self.modified?).unwrap_or_default())
    }
}

/// Those of a kind that nothing names so far.
fn of_kind(left: &HashMap<RelPath, Object>, kind: OrphanKind) -> Vec<RelPath> {
    left.iter().filter(|(_, object)| object.kind == kind && !object.live).map(|(path, _)| path.clone()).collect()
}

/// What lies below the root.
struct Listed {
    left: HashMap<RelPath, Object>,
    versions: Vec<RelPath>,
    not_ours: Vec<RelPath>,
    not_ours_count: u64,
    /// When the listing began.
    now: Option<SystemTime>,
    storage_clock: bool,
}

fn list(store: &dyn Store) -> Result<Listed> {
    let probe = RelPath::parse(&format!("{PROBE}{}", uuid::Uuid::new_v4().simple()))?;
    let storage_clock = match store.create(&probe, &[b"when is now?\n"]) {
        Ok(()) => true,
        // To look is still possible.
        Err(e) if matches!(e.code(), Code::ReadOnly | Code::Unsupported | Code::Storage) => false,
        Err(e) => return Err(e),
    };
    let listed = list_around(store, &probe);
    let removed = if storage_clock { store.delete(&probe) } else { Ok(()) };
    let mut listed = listed?;
    removed?;
    listed.storage_clock = storage_clock;
    if !storage_clock {
        listed.now = Some(SystemTime::now());
    }
    Ok(listed)
}

fn list_around(store: &dyn Store, probe: &RelPath) -> Result<Listed> {
    let mut found = Listed {
        left: HashMap::new(),
        versions: Vec::new(),
        not_ours: Vec::new(),
        not_ours_count: 0,
        now: None,
        storage_clock: false,
    };
    for entry in store.list(None)? {
        let entry = entry?;
        if entry.path == *probe {
            found.now = entry.modified;
            continue;
        }
        match shape(&entry.path) {
            Shape::Entrance => {}
            Shape::Version => found.versions.push(entry.path),
            Shape::Named(kind) => {
                found.left.insert(entry.path, Object { kind, bytes: entry.size, modified: entry.modified, live: false });
            }
            Shape::Foreign => {
                found.not_ours_count += 1;
                found.not_ours.push(entry.path);
                if found.not_ours.len() >= 2 * FOREIGN {
                    found.not_ours.sort_unstable();
                    found.not_ours.truncate(FOREIGN);
                }
            }
        }
    }
    found.not_ours.sort_unstable();
    found.not_ours.truncate(FOREIGN);
    Ok(found)
}

/// The groups that somebody may be at work on: those of which something is young, and of what their documents name.
fn in_use(
    left: &HashMap<RelPath, Object>,
    now: Option<SystemTime>,
    older_than: Duration,
    reach: &mut Reach<'_>,
) -> Result<HashSet<String>> {
    let young = |object: &Object| object.age(now).is_none_or(|age| age < older_than);
    let mut groups: HashSet<String> =
        left.iter().filter(|(_, object)| young(object)).map(|(path, object)| group(path, object.kind)).collect();
    let is_document = |object: &Object| matches!(object.kind, OrphanKind::Snapshot | OrphanKind::Manifest);
    let of_groups = left.iter().filter(|(path, object)| is_document(object) && groups.contains(&group(path, object.kind)));
    let mut follow: Vec<RelPath> = of_groups.map(|(path, _)| path.clone()).collect();
    while let Some(path) = follow.pop() {
        reach.unpublished(&path, &mut |named, _| {
            if let Some(object) = left.get(&named) {
                groups.insert(group(&named, object.kind));
                if is_document(object) {
                    follow.push(named);
                }
            }
        })?;
    }
    Ok(groups)
}
