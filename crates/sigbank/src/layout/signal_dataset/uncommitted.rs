//! What is complete below a dataset's root and no commit names: a publication that was killed just before its commit, or one whose commit was
//! deleted. Nobody reads it; [`gc`](super::gc()) keeps it unless it is told not to, and a check tells of it.
//!
//! Of a further version, a copy of its document lies beside the snapshot (`snapshots/<id>/version.json`), written behind the commit. Where it is there,
//! and the document is not, that was deleted, and can be put back.

use super::dataset::Dataset;
use super::documents::{Page, Place, Snapshot};
use super::objects::{Objects, absent, create, document};
use super::versions::{self, Version};
use super::{Options, annotations};
use crate::error::{Code, Error, Result};
use crate::store::{Expected, Store, exists};
use crate::uri::RelPath;
use sigbank_format::model::json::Limits;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// What is known of a commit that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// It was made, and deleted since: [`restore`] puts it back.
    Deleted,
    /// It was made, and its document is damaged: [`restore`] puts it back.
    Damaged,
    /// It was made and deleted, and another one has its place now.
    Replaced,
    /// It was never made, or deleted.
    Unknown,
}

/// A complete snapshot, or complete annotations, that no commit names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncommitted {
    /// The snapshot's document, or the revision of the annotation catalog.
    pub document: RelPath,
    /// Where the commit belongs, as far as that is known: the version's document, or the pointer to the catalog.
    pub belongs: Option<RelPath>,
    /// What became of it.
    pub commit: Commit,
    /// The version's number and name, of a snapshot whose version was published.
    pub version: Option<(u64, String)>,
    /// Records of the snapshot; of annotations 0.
    pub records: u64,
    /// Names of the annotation sets; of a snapshot none.
    pub sets: Vec<String>,
}

impl fmt::Display for Uncommitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.document)?;
        match (&self.version, self.sets.as_slice()) {
            (Some((number, name)), _) => write!(f, "version {number} '{name}' with {} records, complete", self.records)?,
            (None, []) => write!(f, "a complete snapshot of {} records, and no version names it", self.records)?,
            (None, sets) => write!(f, "complete annotations ({}), and no catalog names them", sets.join(", "))?,
        }
        let belongs = self.belongs.as_ref().map(RelPath::as_str).unwrap_or_default();
        match self.commit {
            Commit::Deleted if self.version.is_some() => write!(f, ", but its document {belongs} was deleted"),
            Commit::Deleted => write!(f, ": {belongs} was deleted"),
            Commit::Damaged => write!(f, ", but its document {belongs} is damaged"),
            Commit::Replaced => write!(f, ", but its document was deleted, and {belongs} is another version's now"),
            Commit::Unknown if self.sets.is_empty() => {
                f.write_str(": its publication was killed before the commit or met another, or its document was deleted")
            }
            Commit::Unknown => write!(f, ": its publication was killed before the commit, or {belongs} was deleted"),
        }
    }
}

impl Uncommitted {
    /// Whether [`restore`] can put the commit back. Of annotations it can always: to finish a publication that was killed does no harm.
    ///
    /// ```
    /// use sigbank::layout::signal_dataset::{Commit, Uncommitted};
    /// let document = "snapshots/a/snapshot.json".parse()?;
    /// let what = Uncommitted { document, belongs: None, commit: Commit::Unknown, version: None, records: 3, sets: vec![] };
    /// assert!(!what.can_be_put_back());
    /// # Ok::<(), sigbank::Error>(())
    /// ```
    pub fn can_be_put_back(&self) -> bool {
        matches!(self.commit, Commit::Deleted | Commit::Damaged) || !self.sets.is_empty()
    }
}

/// The copy of a version's document beside its snapshot.
pub(super) fn copy_path(snapshot: &str) -> Result<RelPath> {
    RelPath::parse(&format!("{}/version.json", snapshot.rsplit_once('/').map_or("", |(folder, _)| folder)))
}

/// Leaves a copy of a version's document, which says that it was committed. Where that fails, less is known, and nothing else is wrong.
pub(super) fn keep_copy(store: &dyn Store, version: &Version, bytes: &[u8]) {
    if let Ok(path) = copy_path(version.snapshot.path.as_str()) {
        let _ = store.create(&path, &[bytes]);
    }
}

/// Compares a version's document with its copy, where there is one, and gives the bytes of that.
///
/// # Errors
/// `Corrupt` where they are not the same.
pub(super) fn same_copy(dataset: &Dataset) -> Result<u64> {
    let Some(version) = dataset.version_document() else { return Ok(0) };
    let (store, limits) = (&**dataset.store(), &dataset.options().control);
    let copy = copy_path(version.snapshot.path.as_str())?;
    let bytes = match document(store, &copy, limits) {
        Err(e) if absent(&e) => return Ok(0),
        bytes => bytes?,
    };
    if bytes == document(store, &versions::path(version.number)?, limits)? {
        return Ok(bytes.len() as u64);
    }
    Err(Error::corrupt(format!("it is not the copy of version {}, which it was", version.number))
        .at(store.locate(&copy))
        .remedy("delete it: nothing reads it while the version's document is there"))
}

/// Looks for what is complete and not committed. Names are listed below `snapshots/`, `annotations/catalogs/` and `sigbank/versions/`; where the
/// store lists nothing, nothing is found.
///
/// # Errors
/// Those of the store. A document that cannot be read is no part of anything complete.
pub fn uncommitted(store: &Arc<dyn Store>, options: &Options) -> Result<Vec<Uncommitted>> {
    let objects = Objects::reaching(Arc::clone(store), options.elsewhere.clone());
    let limits = &options.control;
    let listed = |folder: &str| list_names(&**store, folder);
    let (snapshots, documents) = match (listed("snapshots"), listed("sigbank/versions")) {
        (Err(e), _) | (_, Err(e)) if e.code() == Code::Unsupported || absent(&e) => return Ok(Vec::new()),
        (snapshots, documents) => (snapshots?, documents?),
    };
    let mut named: HashSet<String> = HashSet::new();
    let mut homes: BTreeMap<u64, String> = BTreeMap::new();
    if let Ok(bytes) = document(&**store, &RelPath::parse(super::ROOT)?, limits)
        && let Ok(root) = super::Root::parse(&bytes, limits)
    {
        homes.insert(0, root.snapshot.path.as_str().to_owned());
        named.insert(root.snapshot.path.as_str().to_owned());
    }
    let mut called = HashSet::new();
    let mut revisions: BTreeMap<u64, Vec<RelPath>> = BTreeMap::new();
    for path in documents.iter().chain(&listed("annotations/catalogs")?) {
        if let Some(number) = annotations::home_of_revision(path) {
            revisions.entry(number).or_default().push(path.clone());
        } else if let Some(number) = versions::number(path).filter(|_| path.components().count() == 3)
            && let Ok(version) = document(&**store, path, limits).and_then(|bytes| Version::parse(&bytes, limits, number))
        {
            homes.insert(number, version.snapshot.path.as_str().to_owned());
            named.insert(version.snapshot.path.as_str().to_owned());
            called.insert(version.name);
        }
    }
    let there = |path: &RelPath| exists(&**store, path);
    let mut found = Vec::new();
    for path in snapshots.iter().filter(|path| path.file_name() == "snapshot.json" && !named.contains(path.as_str())) {
        if let Some((what, _)) = whole_snapshot(&objects, limits, path, &there, &called)? {
            found.push(what);
        }
    }
    for (number, revisions) in revisions {
        if exists(&**store, &annotations::catalog_path(number)?)? {
            continue;
        }
        let Some((what, _)) = whole_annotations(&objects, limits, number, &revisions, &there)? else { continue };
        // Those of a lost version are not those of another that has its number.
        let id = homes.get(&number).and_then(|path| path.split('/').nth(1));
        if id.is_none() || annotations::sources_of(&objects, &what.document, limits)?.iter().all(|of| Some(of.as_str()) == id) {
            found.push(what);
        }
    }
    // A version is put back behind the one before it.
    found.sort_by_key(|what| what.version.as_ref().map(|(number, _)| *number));
    Ok(found)
}

/// Puts the commit back that was deleted, from what is left of it.
///
/// # Errors
/// `Invalid` for what has no commit to put back; `AlreadyExists` where its place is taken, `Conflict` where the version before it is missing or another.
pub fn restore(store: &Arc<dyn Store>, what: &Uncommitted, options: &Options) -> Result<()> {
    let Some(place) = what.belongs.as_ref().filter(|_| what.can_be_put_back()) else {
        return Err(Error::invalid(format!("{what}; it cannot be told what its commit was")).at(store.locate(&what.document)));
    };
    let limits = &options.control;
    let Some((number, _)) = what.version else {
        return create(&**store, place, &annotations::pointer_to(&what.document)).map(|_| ());
    };
    let copy = copy_path(what.document.as_str())?;
    let bytes = document(&**store, &copy, limits)?;
    let version = Version::parse(&bytes, limits, number).map_err(|e| e.at(store.locate(&copy)))?;
    if !follows(&**store, &version, limits)? {
        return Err(Error::conflict(format!(
            "version {} before it is missing, or another than it was",
            number.saturating_sub(1)
        ))
        .at(store.locate(place))
        .remedy("restore that one first"));
    }
    if what.commit != Commit::Damaged {
        return create(&**store, place, &bytes).map(|_| ());
    }
    let (there, seen) = store.get_versioned(place)?;
    if readable(&there, limits, number) {
        return Err(Error::already_exists("it is a version's document now").at(store.locate(place)));
    }
    store.replace(place, &[&bytes], Expected::Version(&seen)).map(|_| ())
}

/// Whether a document is that of the version of a number.
fn readable(bytes: &[u8], limits: &Limits, number: u64) -> bool {
    Version::parse(bytes, limits, number).is_ok()
}

/// Whether the version before a version is the one that it followed.
fn follows(store: &dyn Store, version: &Version, limits: &Limits) -> Result<bool> {
    let Some(parent) = version.parent else { return Ok(false) };
    let path = if parent.number == 0 { RelPath::parse(super::ROOT)? } else { versions::path(parent.number)? };
    let bytes = match document(store, &path, limits) {
        Err(e) if e.code() == Code::NotFound => return Ok(false),
        bytes => bytes?,
    };
    let found = match parent.number {
        0 => Some(super::Digest::of(&bytes)),
        number => Version::parse(&bytes, limits, number).ok().map(|version| version.digest),
    };
    Ok(found == Some(parent.digest))
}

/// The names below a folder; none where it is not there.
pub(super) fn list_names(store: &dyn Store, folder: &str) -> Result<Vec<RelPath>> {
    let folder = RelPath::parse(folder)?;
    match store.list(Some(&folder)) {
        Err(e) if e.code() == Code::NotFound => Ok(Vec::new()),
        listing => listing?.map(|entry| Ok(entry?.path)).collect(),
    }
}

/// Whether an object is there.
type There<'a> = dyn Fn(&RelPath) -> Result<bool> + 'a;

/// A snapshot that no commit names, where `names` are those of the versions that there are, and the objects below the root that are its own or others' too; none where something of it is missing or
/// cannot be read.
pub(super) fn whole_snapshot(
    objects: &Objects,
    limits: &Limits,
    path: &RelPath,
    there: &There<'_>,
    names: &HashSet<String>,
) -> Result<Option<(Uncommitted, Vec<RelPath>)>> {
    let store = &*objects.store;
    let copy = copy_path(path.as_str())?;
    let copied = copied(store, &copy, limits).filter(|version| version.snapshot.path.as_str() == path.as_str());
    // A try that met another version: the next one had another base, and with it another snapshot, under the same name.
    let name = path.components().nth(1).and_then(|id| id.rsplit_once('-')).map(|(name, _)| name);
    if copied.is_none() && name.is_some_and(|name| names.contains(name)) {
        return Ok(None);
    }
    let Ok(snapshot) = document(store, path, limits).and_then(|bytes| Snapshot::parse(&bytes, limits)) else { return Ok(None) };
    let mut all = vec![path.clone()];
    for page in &snapshot.manifests {
        let read = objects.document(&page.object, limits).and_then(|bytes| Page::parse(&bytes, limits, page));
        let Ok(read) = read else { return Ok(None) };
        let places = std::iter::once(&page.object).chain(read.shards.iter().flat_map(|shard| [&shard.data, &shard.metadata]));
        for reference in places {
            let Place::Inside(path) = &reference.path else { continue };
            if !there(path)? {
                return Ok(None);
            }
            all.push(path.clone());
        }
    }
    let mut what = Uncommitted {
        document: path.clone(),
        belongs: None,
        commit: Commit::Unknown,
        version: None,
        records: snapshot.record_count,
        sets: Vec::new(),
    };
    if let Some(version) = copied {
        all.push(copy);
        let belongs = versions::path(version.number)?;
        what.commit = match document(store, &belongs, limits) {
            Ok(bytes) if readable(&bytes, limits, version.number) => Commit::Replaced,
            Ok(_) => Commit::Damaged,
            Err(e) if e.code() == Code::NotFound => Commit::Deleted,
            Err(e) if e.code() == Code::Limit => Commit::Damaged,
            Err(e) => return Err(e),
        };
        what.belongs = Some(belongs);
        what.version = Some((version.number, version.name));
    }
    Ok(Some((what, all)))
}

/// What a copy of a version's document says, whatever its number.
fn copied(store: &dyn Store, copy: &RelPath, limits: &Limits) -> Option<Version> {
    let bytes = document(store, copy, limits).ok()?;
    let number = serde_json::from_slice::<serde_json::Value>(&bytes).ok()?.get("number")?.as_u64()?;
    Version::parse(&bytes, limits, number).ok()
}

/// The revision of a version's annotation catalog, to which nothing points, that names all that any other one does, where all of it is there; and its objects.
pub(super) fn whole_annotations(
    objects: &Objects,
    limits: &Limits,
    number: u64,
    revisions: &[RelPath],
    there: &There<'_>,
) -> Result<Option<(Uncommitted, Vec<RelPath>)>> {
    let mut read: Vec<(&RelPath, BTreeMap<String, super::Reference>)> = Vec::new();
    for path in revisions {
        if let Ok(sets) = annotations::named_sets(&*objects.store, path, limits) {
            read.push((path, sets));
        }
    }
    let within = |small: &BTreeMap<String, super::Reference>, large: &BTreeMap<String, super::Reference>| {
        small.iter().all(|(name, set)| large.get(name) == Some(set))
    };
    let newest = read.iter().max_by_key(|(_, sets)| sets.len());
    let Some((path, sets)) = newest.filter(|(_, newest)| read.iter().all(|(_, sets)| within(sets, newest))) else {
        return Ok(None);
    };
    let mut all = vec![(*path).clone()];
    for set in sets.values() {
        let Ok(of_set) = annotations::objects_of(objects, set, limits) else { return Ok(None) };
        for path in of_set {
            if !there(&path)? {
                return Ok(None);
            }
            all.push(path);
        }
        if let Place::Inside(path) = &set.path {
            all.push(path.clone());
        }
    }
    // Who added the second set had found the first one in the catalog.
    let commit = if read.len() > 1 { Commit::Deleted } else { Commit::Unknown };
    let what = Uncommitted {
        document: (*path).clone(),
        belongs: Some(annotations::catalog_path(number)?),
        commit,
        version: None,
        records: 0,
        sets: sets.keys().cloned().collect(),
    };
    Ok(Some((what, all)))
}
