//! A published dataset, open for reading.

use super::batches::Batches;
use super::digest::Digest;
use super::documents::{Page, PageRef, ROOT, Root, Shard, Snapshot};
use super::mounts;
use super::objects::{Objects, document};
use super::read::{Stored, StoredRecord};
use super::shards::Shards;
use super::versions::Version;
use super::{Options, RecordMetadata, SignalSource, View};
use crate::error::{Code, Error, Result};
use crate::layout::Verified;
use crate::store::Store;
use crate::uri::RelPath;
use sigbank_format::model::json::Json;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A published dataset. Clones are the same; threads share it. What it reads never changes.
///
/// Opening reads `root.json` and the snapshot; manifest pages and shards are opened when they are needed.
#[derive(Clone)]
pub struct Dataset(Arc<Inner>);

pub(super) struct Inner {
    pub(super) objects: Objects,
    pub(super) options: Options,
    pub(super) root: Root,
    root_digest: Digest,
    pub(super) snapshot: Snapshot,
    /// Which further version this is; none for what `root.json` names.
    version: Option<Version>,
    /// The pages used last, the last one first.
    pages: Mutex<Vec<(usize, Arc<Page>)>>,
    /// Held while a page is read, by the process of this number.
    reading: Mutex<(u32, Arc<Mutex<()>>)>,
    pub(super) shards: Shards,
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (root, id, snapshot) = (self.location(), self.dataset_id(), self.snapshot_id());
        let version = self.version_document().map(|version| format!(", version={}", version.number)).unwrap_or_default();
        write!(f, "Dataset(root={root:?}, id={id:?}, snapshot_id={snapshot:?}, records={}{version})", self.len())
    }
}

/// Where an ordinal's record is.
pub(super) struct Located {
    pub(super) page: usize,
    pub(super) number: usize,
    pub(super) physical: u64,
    manifest: Arc<Page>,
}

impl Located {
    pub(super) fn shard(&self) -> &Shard {
        // The number was found in this page.
        self.manifest.shards.get(self.number).unwrap_or(&NO_SHARD)
    }
    /// Records that the shard's objects must hold, where that is known.
    pub(super) fn shard_len(&self) -> Option<u64> {
        let shard = self.shard();
        shard.record_indices.is_none().then_some(shard.record_count)
    }
    /// The place of another ordinal of the same shard; none where it is in another.
    pub(super) fn moved_to(self, ordinal: u64) -> Option<Self> {
        let shard = self.shard();
        let physical = shard.physical(ordinal.checked_sub(shard.first_ordinal)?)?;
        Some(Self { physical, ..self })
    }
}

static NO_SHARD: std::sync::LazyLock<Shard> = std::sync::LazyLock::new(|| {
    let none = super::Reference { path: super::Place::Elsewhere("".into()), stored_bytes: 0, sha256: None };
    Shard { first_ordinal: 0, record_count: 0, data: none.clone(), metadata: none, record_indices: None }
});

/// A run of records in one shard object, for tools that read those themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadInstruction {
    /// The shard object as its store shows it (a path).
    pub filename: String,
    /// Records of the shard before the run.
    pub skip: u64,
    /// Records of the run.
    pub take: u64,
    /// Records of the shard.
    pub examples_in_shard: u64,
    /// The ordinal of the run's first record.
    pub first_ordinal: u64,
}

impl Dataset {
    /// Opens the dataset in a directory.
    ///
    /// # Errors
    /// `NotFound` where there is none (yet); `Corrupt` for documents that break a rule, are of another format or need a newer reader.
    pub fn open(root: &Path, options: Options) -> Result<Self> {
        let store = mounts::local_store(root).map_err(|e| match e.code() {
            Code::NotFound => nothing().at(root.join(ROOT).display()),
            _ => e,
        })?;
        Self::open_store(Arc::new(store), options)
    }

    /// Opens the dataset in a store.
    ///
    /// # Errors
    /// Those of [`Dataset::open`].
    pub fn open_store(store: Arc<dyn Store>, options: Options) -> Result<Self> {
        let path = RelPath::parse(ROOT)?;
        let bytes = document(&*store, &path, &options.control).map_err(|e| match e.code() {
            Code::NotFound => nothing().at(store.locate(&path)),
            _ => e,
        })?;
        let root = Root::parse(&bytes, &options.control).map_err(|e| e.at(store.locate(&path)))?;
        Self::of_root(store, options, root, Digest::of(&bytes), None)
    }

    /// Opens the snapshot that a root names, or a version that stands in for one.
    pub(super) fn of_root(
        store: Arc<dyn Store>,
        options: Options,
        root: Root,
        root_digest: Digest,
        version: Option<Version>,
    ) -> Result<Self> {
        let objects = Objects::reaching(store, options.elsewhere.clone());
        let snapshot = objects.document(&root.snapshot, &options.control).map_err(named)?;
        let snapshot = Snapshot::parse(&snapshot, &options.control).map_err(|e| e.at(objects.locate(&root.snapshot.path)))?;
        let shards = Shards::new(options.max_open_shards);
        let (pages, reading) = (Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(Inner { objects, options, root, root_digest, snapshot, version, pages, reading, shards })))
    }

    /// Shards of other objects beside this dataset, to be read as records are: those of an annotation set. Nothing names this dataset.
    pub(super) fn of_shards(&self, shards: Vec<Shard>) -> Self {
        let Inner { objects, options, root, root_digest, version, snapshot, .. } = self.inner();
        let record_count = shards.iter().fold(0, |all: u64, shard| all.saturating_add(shard.record_count));
        let (shard_count, page) = (shards.len() as u64, Page { first_ordinal: 0, record_count, shards });
        let stored_bytes = page.stored_bytes();
        let object = root.snapshot.clone();
        let manifests = vec![PageRef { first_ordinal: 0, record_count, shard_count, stored_bytes, object }];
        let snapshot_id = snapshot.snapshot_id.clone();
        let snapshot = Snapshot { snapshot_id, record_count, shard_count, stored_bytes, manifests };
        Self(Arc::new(Inner {
            objects: Objects::reaching(Arc::clone(&objects.store), options.elsewhere.clone()),
            options: options.clone(),
            root: root.clone(),
            root_digest: *root_digest,
            snapshot,
            version: version.clone(),
            // The only page: it is never let go of.
            pages: Mutex::new(vec![(0, Arc::new(page))]),
            reading: Mutex::default(),
            shards: Shards::new(options.max_open_shards),
        }))
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Where it is.
    pub fn location(&self) -> String {
        self.0.objects.store.location()
    }
    /// The store that it is in.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.objects.store
    }
    /// What its producer called it.
    pub fn dataset_id(&self) -> &str {
        &self.0.root.dataset_id
    }
    /// The snapshot's name.
    pub fn snapshot_id(&self) -> &str {
        &self.0.snapshot.snapshot_id
    }
    /// What its producer says of it.
    pub fn metadata(&self) -> &Json {
        &self.0.root.metadata
    }
    /// The version document that it was opened by; none for version 0, which `root.json` names.
    pub fn version_document(&self) -> Option<&Version> {
        self.0.version.as_ref()
    }
    /// Its number among the dataset's versions: 0 is what `root.json` names.
    pub fn version_number(&self) -> u64 {
        self.0.version.as_ref().map_or(0, |version| version.number)
    }
    /// `root.json`; of a further version, what it stands for: the version's snapshot and metadata.
    pub fn root(&self) -> &Root {
        &self.0.root
    }
    /// The snapshot document.
    pub fn snapshot(&self) -> &Snapshot {
        &self.0.snapshot
    }
    /// How it was opened.
    pub fn options(&self) -> &Options {
        &self.0.options
    }
    /// Records.
    pub fn len(&self) -> u64 {
        self.0.snapshot.record_count
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The SHA-256 of `root.json`, or the digest of the further [`Version`] that this is. Where all references have digests it stands for every byte of the dataset.
    pub fn root_digest(&self) -> Digest {
        self.0.root_digest
    }

    /// A manifest page by its number.
    ///
    /// # Errors
    /// `NotFound` past the last; `Corrupt` for a page that is not as the snapshot says.
    pub fn page(&self, number: usize) -> Result<Arc<Page>> {
        let held = || self.0.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = || {
            let mut pages = held();
            let at = pages.iter().position(|(n, _)| *n == number)?;
            pages.get_mut(..=at)?.rotate_right(1);
            pages.first().map(|(_, page)| Arc::clone(page))
        };
        if let Some(page) = kept() {
            return Ok(page);
        }
        // One at a time: who waited here may find it read.
        let reading = {
            let mut reading = self.0.reading.lock().unwrap_or_else(PoisonError::into_inner);
            let process = std::process::id();
            if reading.0 != process {
                // In a forked child: who held it in the parent is not here.
                *reading = (process, Arc::default());
            }
            Arc::clone(&reading.1)
        };
        let _reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = kept() {
            return Ok(page);
        }
        let page = Arc::new(self.read_page(number)?);
        let mut pages = held();
        pages.truncate(self.0.options.manifest_cache_pages.max(1) - 1);
        pages.insert(0, (number, Arc::clone(&page)));
        Ok(page)
    }

    fn read_page(&self, number: usize) -> Result<Page> {
        let Inner { objects, options, snapshot, .. } = self.inner();
        let pages = snapshot.manifests.len();
        let page = snapshot.manifests.get(number);
        let page = page.ok_or_else(|| Error::not_found(format!("there is no manifest {number}: the snapshot has {pages}")))?;
        let bytes = objects.document(&page.object, &options.control).map_err(named)?;
        Page::parse(&bytes, &options.control, page).map_err(|e| e.at(objects.locate(&page.object.path)))
    }

    /// Where a record is.
    pub(super) fn locate(&self, ordinal: u64) -> Result<Located> {
        let snapshot = self.snapshot();
        if ordinal >= snapshot.record_count {
            return Err(Error::not_found(format!("there is no record {ordinal}: the dataset has {}", snapshot.record_count))
                .at(self.location()));
        }
        // Ranges meet, so the last that begins at or before the ordinal and is not empty holds it.
        let page = snapshot.manifests.partition_point(|page| page.first_ordinal <= ordinal).saturating_sub(1);
        let manifest = self.page(page)?;
        let number = manifest.shards.partition_point(|shard| shard.first_ordinal <= ordinal).saturating_sub(1);
        let physical = manifest.shards.get(number).and_then(|shard| shard.physical(ordinal.checked_sub(shard.first_ordinal)?));
        match physical {
            Some(physical) => Ok(Located { page, number, physical, manifest }),
            None => Err(Error::corrupt(format!("no shard holds ordinal {ordinal}")).at(self.location())),
        }
    }

    /// One record.
    ///
    /// # Errors
    /// `NotFound` past the last; `Corrupt` names the shard and the ordinal.
    pub fn record(&self, ordinal: u64) -> Result<StoredRecord> {
        self.one(ordinal)
    }
    /// What is said of one record, without reading its samples.
    ///
    /// # Errors
    /// As [`Dataset::record`].
    pub fn record_metadata(&self, ordinal: u64) -> Result<RecordMetadata> {
        self.one(ordinal)
    }
    /// Several records, in the order of `ordinals`, which may repeat. Neighbours are read together; several threads decode.
    ///
    /// # Errors
    /// As [`Dataset::record`].
    pub fn read(&self, ordinals: &[u64]) -> Result<Vec<StoredRecord>> {
        self.many(ordinals, self.0.options.threads())
    }
    /// What is said of several records, as [`Dataset::read`].
    ///
    /// # Errors
    /// As [`Dataset::record`].
    pub fn read_metadata(&self, ordinals: &[u64]) -> Result<Vec<RecordMetadata>> {
        self.many(ordinals, self.0.options.threads())
    }
    /// Reads records ahead, in order: an iterator over batches of some records (however many make a handy piece). The memory of what is
    /// read ahead is bounded by [`Options::read_ahead_bytes`].
    pub fn batches(&self, range: Range<u64>) -> Batches<StoredRecord> {
        Batches::new(self.clone(), super::batches::Ordinals::Range(range))
    }
    /// The same over what is said of records.
    pub fn metadata_batches(&self, range: Range<u64>) -> Batches<RecordMetadata> {
        Batches::new(self.clone(), super::batches::Ordinals::Range(range))
    }
    /// Reads any records (or what is said of them) ahead, in the order of `ordinals`, as [`Dataset::batches`].
    pub fn batches_of<T: Stored>(&self, ordinals: Arc<[u64]>) -> Batches<T> {
        Batches::new(self.clone(), super::batches::Ordinals::List(ordinals))
    }

    /// What a request for records costs: to this store, or (of a view on a local disk) to where the records lie.
    pub(super) fn round_trip(&self) -> u64 {
        let own = self.store().capabilities().round_trip;
        if own > 0 || self.is_empty() {
            return own;
        }
        let page = self.page(0).ok();
        let shard = page.as_ref().and_then(|page| page.shards.first());
        shard.map_or(0, |shard| self.0.objects.round_trip(&shard.data.path))
    }

    /// Whether all these records are there.
    pub(super) fn reaches(&self, range: &Range<u64>) -> Result<()> {
        if range.end <= self.len() {
            return Ok(());
        }
        let what = format!("there is no record {}: the dataset has {}", range.end - 1, self.len());
        Err(Error::not_found(what).at(self.location()))
    }

    /// The records at `ordinals`, in that order, repeated ones included. Nothing is read.
    ///
    /// # Errors
    /// `NotFound` for an ordinal past the last.
    pub fn select(&self, ordinals: Vec<u64>) -> Result<View> {
        View::new(self.clone(), ordinals)
    }

    /// Where the records from `start` to before `stop` are stored, by shard; `metadata` for what is said of them.
    ///
    /// # Errors
    /// `Unsupported` for a published view, whose shards' own counts are not known.
    pub fn read_instructions(&self, start: u64, stop: u64, metadata: bool) -> Result<Vec<ReadInstruction>> {
        let (mut runs, mut next, stop) = (Vec::new(), start, stop.min(self.len()));
        while next < stop {
            let found = self.locate(next)?;
            let shard = found.shard();
            if shard.record_indices.is_some() {
                return Err(Error::unsupported("this is a view by reference, and how many records its shards hold is not known")
                    .at(self.location())
                    .remedy("materialize it, and read the copy"));
            }
            let skip = next - shard.first_ordinal;
            let take = (shard.record_count - skip).min(stop - next);
            let object = if metadata { &shard.metadata } else { &shard.data };
            let filename = self.0.objects.locate(&object.path);
            runs.push(ReadInstruction { filename, skip, take, examples_in_shard: shard.record_count, first_ordinal: next });
            next += take;
        }
        Ok(runs)
    }

    /// Compares every object with its reference, decodes every record and compares it with its metadata document, and does so for the
    /// annotations there are now. `progress` hears (shards done, shards in all) and stops the run by `false`.
    ///
    /// # Errors
    /// `Corrupt` or `NotFound` names the first object at fault.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        super::verify::verify(self, progress)
    }

    /// The dataset as a layout-neutral source, whose fields are those of some records until [`Source::exact`](crate::layout::Source::exact) looks at all.
    ///
    /// # Errors
    /// Those of [`Dataset::read_metadata`].
    pub fn source(&self) -> Result<SignalSource> {
        SignalSource::new(self.clone())
    }
}

fn nothing() -> Error {
    Error::not_found("there is no signal-dataset here").remedy("check the path; a dataset is there once it is published")
}

/// An object that another document names must be there.
fn named(e: Error) -> Error {
    match e.code() {
        Code::NotFound => e.remedy("the dataset names this document, but it is gone: restore it from a copy"),
        _ => e,
    }
}
