//! A coordinator's part: shards become a dataset. Objects, then manifest pages, then the snapshot, then `root.json`; each is created,
//! never replaced, so that whoever reads sees no dataset or the whole one, and an interrupted publication is completed by doing it again.

use super::dataset::Dataset;
use super::digest::Digest;
use super::documents::{Page, PageRef, Place, ROOT, Reference, Root, Shard, Snapshot};
use super::guard::{Guard, renew};
use super::objects::{Objects, collision, create, document, gone};
use super::shard_write::PublishedShard;
use super::shards::open_shard;
use super::{Options, verify};
use crate::error::{Code, Error, Result};
use crate::store::{Store, exists};
use crate::uri::RelPath;
use sigbank_format::model::json::Json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most record indices of a manifest page, so that it stays within the limits for reading it.
const MOST_INDICES: usize = 200_000;

/// What a dataset is to be called.
///
/// ```
/// use sigbank::layout::signal_dataset::Publication;
/// let publication = Publication { expected_work_ids: Some(vec!["w0".into()]), ..Publication::new("captures", "2026-01") };
/// assert_eq!(publication.metadata.as_str(), "{}");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Publication {
    /// The dataset's name; not empty.
    pub dataset_id: String,
    /// The snapshot's name; not empty, one component of a path.
    pub snapshot_id: String,
    /// The work ids that must be there, and no others; `None` for whatever is there.
    pub expected_work_ids: Option<Vec<String>>,
    /// Whatever the producer says of the dataset: an object.
    pub metadata: Json,
}

impl Publication {
    /// A publication of these names.
    pub fn new(dataset_id: impl Into<String>, snapshot_id: impl Into<String>) -> Self {
        Self { dataset_id: dataset_id.into(), snapshot_id: snapshot_id.into(), expected_work_ids: None, metadata: Json::EMPTY }
    }
}

/// Publishes shards as a dataset: of each work id the highest attempt, in the order of work ids.
///
/// To do it again with the same arguments completes an interrupted publication, or finds it complete.
///
/// # Errors
/// `Invalid` for work ids that are missing or not expected, for objects of other sizes than the shards say, and names that cannot be;
/// `NotFound` for a shard whose object is not there; `AlreadyExists` where the root holds (or gets meanwhile) another publication.
pub fn publish(
    store: &Arc<dyn Store>,
    shards: &[PublishedShard],
    publication: &Publication,
    options: &Options,
) -> Result<Dataset> {
    check_names(publication)?;
    let chosen = choose(shards, publication.expected_work_ids.as_deref())?;
    let guard = Guard::new(&**store)?;
    not_another(&**store, publication, options)?;
    let objects = Objects::reaching(Arc::clone(store), options.elsewhere.clone());
    let mut next = 0;
    let entries = chosen.into_iter().map(|shard| {
        let records = options.verify_record_counts.then_some(shard.record_count);
        let entry = Shard {
            first_ordinal: next,
            record_count: shard.record_count,
            data: checked(&objects, &shard.data, records, options).map_err(|e| e.within(of(shard)))?,
            metadata: checked(&objects, &shard.metadata, records, options).map_err(|e| e.within(of(shard)))?,
            record_indices: None,
        };
        next = next.checked_add(shard.record_count).ok_or_else(|| Error::limit("more records than 64 bits count"))?;
        Ok(entry)
    });
    publish_entries(store, entries, publication, None, options, guard)
}

pub(super) fn of(shard: &PublishedShard) -> String {
    format!("work id '{}', attempt {}", shard.work_id, shard.attempt)
}

impl Publication {
    /// Whether it can be published, as far as it tells itself.
    ///
    /// # Errors
    /// `Invalid` for names that cannot be, and metadata that are no object.
    ///
    /// ```
    /// use sigbank::layout::signal_dataset::Publication;
    /// assert!(Publication::new("captures", "v1").check().is_ok());
    /// assert!(Publication::new("captures", "v/1").check().is_err());
    /// ```
    pub fn check(&self) -> Result<()> {
        check_names(self)
    }
}

/// Most bytes of a snapshot's name: that of a manifest page has a number and an ending behind it, and disks take 255.
pub(super) const LONGEST_NAME: usize = 255 - "-00000000.json".len();

pub(super) fn check_names(publication: &Publication) -> Result<()> {
    if publication.dataset_id.is_empty() {
        return Err(Error::invalid("the dataset id is empty: give the dataset a name"));
    }
    let id = &publication.snapshot_id;
    if id.contains('/') || RelPath::parse(id).is_err() {
        return Err(Error::invalid(format!("the snapshot id {id:?} cannot be the name of a directory"))
            .remedy("give a name without slashes, such as v1"));
    }
    if id.len() > LONGEST_NAME {
        return Err(Error::invalid(format!("the snapshot id has {} bytes: {LONGEST_NAME} are the most", id.len()))
            .remedy("give a shorter name, such as v1"));
    }
    if !publication.metadata.is_object() {
        return Err(Error::invalid(format!("the metadata are {}, not an object", publication.metadata)));
    }
    Ok(())
}

/// The highest attempt of each work id, sorted.
pub(super) fn choose<'a>(shards: &'a [PublishedShard], expected: Option<&[String]>) -> Result<Vec<&'a PublishedShard>> {
    let mut chosen: BTreeMap<&str, &PublishedShard> = BTreeMap::new();
    for shard in shards {
        let best = chosen.entry(&shard.work_id).or_insert(shard);
        if shard.attempt > best.attempt {
            *best = shard;
        } else if shard.attempt == best.attempt && !same(shard, best) {
            return Err(Error::invalid(format!("{} is given twice, and not the same", of(shard)))
                .remedy("give each further try a higher attempt"));
        }
    }
    if let Some(expected) = expected {
        let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
        let missing: Vec<&&str> = expected.iter().filter(|id| !chosen.contains_key(**id)).collect();
        let others: Vec<&&str> = chosen.keys().filter(|id| !expected.contains(**id)).collect();
        if !missing.is_empty() || !others.is_empty() {
            return Err(Error::invalid(format!("missing work ids: {missing:?}; unexpected work ids: {others:?}"))
                .remedy("wait for the missing workers, or correct the expected work ids"));
        }
    }
    Ok(chosen.into_values().collect())
}

/// A digest may be known to one only.
fn same(a: &PublishedShard, b: &PublishedShard) -> bool {
    let objects = |a: &Reference, b: &Reference| {
        a.path == b.path && a.stored_bytes == b.stored_bytes && (a.sha256 == b.sha256 || a.sha256.is_none() || b.sha256.is_none())
    };
    a.record_count == b.record_count && objects(&a.data, &b.data) && objects(&a.metadata, &b.metadata)
}

/// The reference to write, once the object was found to be there and as long as it says.
pub(super) fn checked(objects: &Objects, reference: &Reference, records: Option<u64>, options: &Options) -> Result<Reference> {
    let Place::Inside(path) = &reference.path else {
        return Err(Error::invalid("the shard's object is not within the root of the dataset")
            .at(&reference.path)
            .remedy("publish where the workers wrote, or publish a view"));
    };
    let located = |e: Error| e.at(objects.store.locate(path));
    let again = "write the shard again, with the same work id and attempt or a higher one; a gc may have deleted it as too old";
    let found = objects.store.head(path).map_err(|e| match (e.code(), e.remedy_text()) {
        (Code::NotFound, None) => e.remedy(again),
        _ => e,
    })?;
    let found = found.size;
    if found != reference.stored_bytes {
        let message = format!("the worker wrote {} bytes, but {found} are there", reference.stored_bytes);
        return Err(located(Error::invalid(message).remedy("write the shard again with a higher attempt")));
    }
    match (&options.container, records) {
        (Some(container), Some(records)) => container.right_count(&objects.locate(&reference.path), records)?,
        (None, Some(_)) => drop(open_shard(objects, reference, records)?),
        (_, None) => {}
    }
    let sha256 = match reference.sha256 {
        _ if options.compat => None,
        None => Some(verify::digest(&*objects.open_anew(reference)?).map_err(located)?),
        digest => digest,
    };
    Ok(Reference { sha256, ..reference.clone() })
}

/// Refuses early where another publication is there.
pub(super) fn not_another(store: &dyn Store, publication: &Publication, options: &Options) -> Result<()> {
    let path = RelPath::parse(ROOT)?;
    let bytes = match document(store, &path, &options.control) {
        Err(e) if e.code() == Code::NotFound => return Ok(()),
        bytes => bytes?,
    };
    let same = |root: &Root| {
        root.dataset_id == publication.dataset_id
            && root.metadata == publication.metadata
            && root.snapshot.path.as_str() == snapshot_path(&publication.snapshot_id)
    };
    match Root::parse(&bytes, &options.control) {
        Ok(root) if same(&root) => Ok(()),
        Ok(root) => Err(collision(format!("the dataset '{}' is here already", root.dataset_id)).at(store.locate(&path))),
        Err(e) => Err(collision(format!("something is here already, though no readable root: {e}")).at(store.locate(&path))),
    }
}

fn snapshot_path(id: &str) -> String {
    format!("snapshots/{id}/snapshot.json")
}

/// Writes the documents of shards that follow one another from ordinal 0 on. `folder` is where manifest pages lie; by default each by
/// the digest of its name.
pub(super) fn publish_entries(
    store: &Arc<dyn Store>,
    entries: impl Iterator<Item = Result<Shard>>,
    publication: &Publication,
    folder: Option<&str>,
    options: &Options,
    guard: Guard,
) -> Result<Dataset> {
    let written = write_snapshot(&**store, Vec::new(), entries, &publication.snapshot_id, folder, options)?;
    let path = RelPath::parse(ROOT)?;
    // What a root names already is in use by others, who are not to be disturbed.
    let new = !exists(&**store, &path)?;
    if new {
        written.renew(&**store)?;
    }
    let WrittenSnapshot { snapshot, flush, .. } = written;
    let root = Root { dataset_id: publication.dataset_id.clone(), snapshot, metadata: publication.metadata.clone() };
    let _turn = if new { crate::layout::appear::alone(&**store, crate::layout::Layout::SignalDataset)? } else { None };
    // Nothing that the root names may be lost when the root is not.
    create_last(&**store, &path, &root.to_bytes(), &flush, options, guard)?;
    Dataset::open_store(Arc::clone(store), options.clone())
}

/// Creates the document that makes everything visible, behind all that it stands for.
pub(super) fn create_last(
    store: &dyn Store,
    path: &RelPath,
    bytes: &[u8],
    flush: &[RelPath],
    options: &Options,
    mut guard: Guard,
) -> Result<()> {
    let flushes = options.durable && store.capabilities().flush;
    if flushes {
        store.flush(flush).map_err(gone)?;
    }
    guard.before(store, flush)?;
    create(store, path, bytes)?;
    if flushes {
        store.flush(std::slice::from_ref(path))?;
    }
    guard.after(store, flush)
}

/// A snapshot that was written and that nothing names yet.
pub(super) struct WrittenSnapshot {
    pub(super) snapshot: Reference,
    pub(super) document: Snapshot,
    pub(super) digest: Digest,
    /// What must be on the disk before anything names it.
    pub(super) flush: Vec<RelPath>,
    /// The snapshot's document where an earlier run wrote it.
    taken_over: Option<Vec<u8>>,
}

impl WrittenSnapshot {
    /// Makes the snapshot young where it is an earlier run's: see [`super::guard`].
    pub(super) fn renew(&self, store: &dyn Store) -> Result<()> {
        match (&self.taken_over, &self.snapshot.path) {
            (Some(bytes), Place::Inside(path)) => renew(store, path, bytes),
            _ => Ok(()),
        }
    }
}

/// Writes the manifest pages and the snapshot of shards that follow one another behind the pages that are there already.
pub(super) fn write_snapshot(
    store: &dyn Store,
    before: Vec<PageRef>,
    entries: impl Iterator<Item = Result<Shard>>,
    snapshot_id: &str,
    folder: Option<&str>,
    options: &Options,
) -> Result<WrittenSnapshot> {
    let first = before.last().map_or(0, |page| page.first_ordinal.saturating_add(page.record_count));
    let mut pages = Pages { store, snapshot_id, folder, options, manifests: before, flush: Vec::new() };
    let mut page = Page { first_ordinal: first, record_count: 0, shards: Vec::new() };
    let mut indices = 0;
    for shard in entries {
        let shard = shard?;
        let more = shard.record_indices.as_ref().map_or(0, Vec::len);
        if page.shards.len() >= options.shards_per_manifest.max(1) || (indices > 0 && indices + more > MOST_INDICES) {
            let next = page.first_ordinal + page.record_count;
            pages.put(&std::mem::replace(&mut page, Page { first_ordinal: next, record_count: 0, shards: Vec::new() }))?;
            indices = 0;
        }
        indices += more;
        page.record_count += shard.record_count;
        page.shards.push(shard);
    }
    if !page.shards.is_empty() {
        pages.put(&page)?;
    }
    let Pages { manifests, mut flush, .. } = pages;
    let sum = |of: fn(&PageRef) -> u64| manifests.iter().map(of).fold(0u64, u64::saturating_add);
    let document = Snapshot {
        snapshot_id: snapshot_id.into(),
        record_count: sum(|page| page.record_count),
        shard_count: sum(|page| page.shard_count),
        stored_bytes: sum(|page| page.stored_bytes),
        manifests,
    };
    let bytes = document.to_bytes();
    let (snapshot, new) = put(store, &snapshot_path(snapshot_id), &bytes, options, &mut flush)?;
    Ok(WrittenSnapshot { snapshot, document, digest: Digest::of(&bytes), flush, taken_over: (!new).then_some(bytes) })
}

struct Pages<'a> {
    store: &'a dyn Store,
    snapshot_id: &'a str,
    folder: Option<&'a str>,
    options: &'a Options,
    manifests: Vec<PageRef>,
    flush: Vec<RelPath>,
}

impl Pages<'_> {
    fn put(&mut self, page: &Page) -> Result<()> {
        let id = format!("{}-{:08}", self.snapshot_id, self.manifests.len());
        let hex = Digest::of(id.as_bytes()).to_string();
        let folder = self.folder.unwrap_or_else(|| hex.get(..2).unwrap_or_default());
        let path = format!("manifests/{folder}/{id}.json");
        let (object, _) = put(self.store, &path, &page.to_bytes(), self.options, &mut self.flush)?;
        let inside = |reference: &Reference| match &reference.path {
            Place::Inside(path) => Some(path.clone()),
            Place::Elsewhere(_) => None,
        };
        self.flush.extend(page.shards.iter().flat_map(|shard| [&shard.data, &shard.metadata]).filter_map(inside));
        self.manifests.push(PageRef {
            first_ordinal: page.first_ordinal,
            record_count: page.record_count,
            shard_count: page.shards.len() as u64,
            stored_bytes: page.stored_bytes(),
            object,
        });
        Ok(())
    }
}

/// Creates a document and gives the reference to it, and whether it is new.
fn put(store: &dyn Store, path: &str, bytes: &[u8], options: &Options, flush: &mut Vec<RelPath>) -> Result<(Reference, bool)> {
    let path = RelPath::parse(path)?;
    let limit = options.control.max_bytes;
    if bytes.len() as u64 > limit {
        return Err(Error::limit(format!("a document of {} bytes, where max_document_bytes is {limit}", bytes.len()))
            .at(store.locate(&path))
            .remedy("put fewer shards into a manifest page (shards_per_manifest)"));
    }
    let new = create(store, &path, bytes)?;
    flush.push(path.clone());
    let sha256 = (!options.compat).then(|| Digest::of(bytes));
    Ok((Reference { path: Place::Inside(path), stored_bytes: bytes.len() as u64, sha256 }, new))
}
