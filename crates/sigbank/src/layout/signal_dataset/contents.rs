//! All that root, further versions and annotations lead to, and the same at another place, brought forward.

use super::dataset::Dataset;
use super::digest::Digest;
use super::documents::{Page, Place, Reference, Root, Snapshot};
use super::objects::{Objects, absent, document};
use super::uncommitted::copy_path;
use super::versions::{self, Version, ahead, no_gap};
use super::{Options, ROOT, annotations};
use crate::error::{Code, Error, Result};
use crate::layout::Layout;
use crate::layout::contents::{Contents, Entrance, Object};
use crate::store::Store;
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::checksum::Algorithm;
use sigbank_format::model::json::Limits;
use std::collections::HashSet;
use std::sync::Arc;

fn version_path(number: usize) -> Result<RelPath> {
    RelPath::parse(&format!("sigbank/versions/{number:08}.json"))
}

/// What a walk has come to.
struct Walk<'a> {
    objects: &'a Objects,
    limits: &'a Limits,
    seen: HashSet<RelPath>,
    all: Contents,
}

impl Walk<'_> {
    fn object(&mut self, reference: &Reference) {
        match &reference.path {
            Place::Inside(path) if self.seen.insert(path.clone()) => {
                let (size, digests) = (Some(reference.stored_bytes), digests(reference));
                self.all.objects.push(Object { path: path.clone(), size, digests, bytes: None });
            }
            Place::Inside(_) => {}
            Place::Elsewhere(_) => self.all.elsewhere += 1,
        }
    }

    /// A document that is read for the first time.
    fn document(&mut self, reference: &Reference) -> Result<Option<Bytes>> {
        let Place::Inside(path) = &reference.path else { return Ok(None) };
        if !self.seen.insert(path.clone()) {
            return Ok(None);
        }
        let bytes = self.objects.document(reference, self.limits)?;
        self.all.document(path.clone(), &bytes, digests(reference));
        Ok(Some(bytes))
    }

    /// The copy of a version's document beside its snapshot, by which a repair puts that back: made anew where there is none.
    fn copy_of_version(&mut self, version: &Version, bytes: &Bytes) -> Result<()> {
        if let Place::Inside(snapshot) = &version.snapshot.path {
            let path = copy_path(snapshot.as_str())?;
            let digests = vec![(Algorithm::Sha256, Digest::of(bytes).to_string())];
            self.all.objects.push(Object { path, size: Some(bytes.len() as u64), digests, bytes: Some(bytes.clone()) });
        }
        Ok(())
    }

    fn snapshot(&mut self, reference: &Reference) -> Result<()> {
        let Some(bytes) = self.document(reference)? else { return Ok(()) };
        let snapshot = Snapshot::parse(&bytes, self.limits).map_err(|e| e.at(self.objects.locate(&reference.path)))?;
        for named in &snapshot.manifests {
            let Some(bytes) = self.document(&named.object)? else { continue };
            let page = Page::parse(&bytes, self.limits, named).map_err(|e| e.at(self.objects.locate(&named.object.path)))?;
            for shard in &page.shards {
                self.object(&shard.data);
                self.object(&shard.metadata);
            }
        }
        Ok(())
    }

    /// Those of a version.
    fn annotations(&mut self, number: u64) -> Result<()> {
        let Some((pointer, revision)) = catalog(&*self.objects.store, number, self.limits)? else { return Ok(()) };
        let bytes = document(&*self.objects.store, &revision, self.limits)?;
        self.all.document(revision.clone(), &bytes, Vec::new());
        for set in annotations::sets_of(&*self.objects.store, &revision, self.limits)? {
            self.document(&set)?;
            annotations::references_of(self.objects, &set, self.limits)?.iter().for_each(|object| self.object(object));
        }
        self.all.entrance(annotations::catalog_path(number)?.as_str(), pointer)
    }
}

fn digests(reference: &Reference) -> Vec<(Algorithm, String)> {
    reference.sha256.iter().map(|digest| (Algorithm::Sha256, digest.to_string())).collect()
}

/// The catalog's pointer and the revision that it points to.
fn catalog(store: &dyn Store, number: u64, limits: &Limits) -> Result<Option<(Bytes, RelPath)>> {
    let path = annotations::catalog_path(number)?;
    loop {
        let pointer = match document(store, &path, limits) {
            Err(e) if absent(&e) => return Ok(None),
            bytes => bytes?,
        };
        let Some(revision) = annotations::current_revision(store, number, limits)? else { continue };
        // It may have been swung in between.
        if document(store, &path, limits)? == pointer {
            return Ok(Some((pointer, revision)));
        }
    }
}

/// See [`crate::layout::contents_with`].
pub(in crate::layout) fn contents(store: &Arc<dyn Store>, options: Options) -> Result<Contents> {
    let root = document(&**store, &RelPath::parse(ROOT)?, &options.control)?;
    let dataset = Dataset::open_store(Arc::clone(store), options.clone())?;
    let objects = Objects::reaching(Arc::clone(store), options.elsewhere.clone());
    let all = Contents::new(Layout::SignalDataset);
    let mut walk = Walk { objects: &objects, limits: &options.control, seen: HashSet::new(), all };
    walk.snapshot(&dataset.root().snapshot)?;
    let all_versions = dataset.versions()?;
    no_gap(&**store, all_versions.len().saturating_sub(1) as u64)?;
    for (number, version) in all_versions.iter().enumerate().skip(1) {
        walk.snapshot(&version.snapshot)?;
        let path = version_path(number)?;
        let bytes = document(&**store, &path, &options.control)?;
        walk.copy_of_version(version, &bytes)?;
        walk.all.entrance(path.as_str(), bytes)?;
        walk.annotations(version.number)?;
    }
    walk.annotations(0)?;
    let mut all = walk.all;
    all.entrance(ROOT, root)?;
    Ok(all)
}

/// The documents that lead to all that these entrances make visible: snapshots, revisions of annotations and the roots of their sets.
pub(super) fn leads(newer: &Contents, entrances: &[Entrance]) -> Result<Vec<RelPath>> {
    let limits = Options::default().control;
    let mut leads = Vec::new();
    for entrance in entrances {
        let located = |e: Error| e.at(&entrance.path);
        if annotations::is_catalog(&entrance.path) {
            // Which of them this revision names does not matter: they are few and small.
            let home = entrance.path.as_str().strip_suffix("catalog.json").unwrap_or_default();
            let of = |document: &&Object| {
                let below = document.path.as_str().strip_prefix(home);
                below.is_some_and(|below| below.starts_with("catalogs/") || below.ends_with("/root.json"))
            };
            leads.extend(newer.documents.iter().filter(of).map(|document| document.path.clone()));
            continue;
        }
        let snapshot = match versions::number(&entrance.path) {
            Some(number) => Version::parse(&entrance.bytes, &limits, number).map_err(located)?.snapshot,
            None => Root::parse(&entrance.bytes, &limits).map_err(located)?.snapshot,
        };
        if let Place::Inside(path) = snapshot.path {
            leads.push(path);
        }
    }
    Ok(leads)
}

/// The entrances of `newer` that a copy of it in `store` has not, or has as they were before; the copy's root is there.
///
/// # Errors
/// `Conflict` where the copy is of another dataset, or has versions or annotation sets that `newer` has not.
pub fn missing_entrances(newer: &Contents, store: &Arc<dyn Store>) -> Result<Vec<Entrance>> {
    let limits = Options::default().control;
    let get = |path: &RelPath| match document(&**store, path, &limits) {
        Err(e) if e.code() == Code::NotFound => Ok(None),
        bytes => bytes.map(Some),
    };
    let conflict = |message: String| {
        Error::conflict(message)
            .at(store.location())
            .remedy("copy to another place, or bring the source forward first: sigbank sync in the other direction")
    };
    let mut missing = Vec::new();
    let mut versions = 0;
    for entrance in &newer.entrances {
        let is_catalog = annotations::is_catalog(&entrance.path);
        let is_version = entrance.path.as_str().starts_with("sigbank/") && !is_catalog;
        versions += usize::from(is_version);
        match get(&entrance.path)? {
            Some(there) if there == entrance.bytes => {}
            Some(_) if is_version => return Err(conflict(format!("it has another version {versions} than the source"))),
            None if is_version => missing.push(entrance.clone()),
            there if is_catalog => {
                let replaces = match there {
                    None => None,
                    Some(_) => Some(store.get_versioned(&entrance.path)?.1),
                };
                missing.push(Entrance { replaces, ..entrance.clone() });
            }
            _ => return Err(conflict("it is another dataset: its root.json is not the source's".into())),
        }
    }
    if let Some(number) = ahead(&**store, versions as u64)?.first() {
        return Err(conflict(format!("it has a version {number}, which the source has not")));
    }
    let known: HashSet<&RelPath> = newer.documents.iter().map(|document| &document.path).collect();
    for number in 0..=versions as u64 {
        let Some((_, revision)) = catalog(&**store, number, &limits)? else { continue };
        for set in annotations::sets_of(&**store, &revision, &limits)? {
            if !matches!(&set.path, Place::Inside(path) if known.contains(path)) {
                return Err(conflict(format!("it has an annotation set that the source has not, '{}'", set.path)));
            }
        }
    }
    Ok(missing)
}

/// Holds what the reference package locks around its compare and swap of the annotation catalog, on a local disk.
///
/// # Errors
/// `ReadOnly` or `Storage` where the lock's file cannot be made.
pub fn hold_catalog(store: &dyn Store) -> Result<impl Drop + use<>> {
    struct Held(#[expect(dead_code, reason = "it is held, not used")] Option<std::fs::File>);
    impl Drop for Held {
        fn drop(&mut self) {}
    }
    Ok(Held(annotations::reference_lock(store)?))
}
