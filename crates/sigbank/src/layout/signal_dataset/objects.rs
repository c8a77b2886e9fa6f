//! Objects by reference: in the dataset's store, or (the shards of a view) elsewhere.

use super::digest::Digest;
use super::documents::{Place, Reference};
use crate::error::{Code, Error, Result};
use crate::store::{StorageOptions, Store, StoreFile, connect};
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::model::json::Limits;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The objects that a dataset's documents name.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) store: Arc<dyn Store>,
    elsewhere: Elsewhere,
    /// Each bucket elsewhere that was needed, and the local disk as `/`.
    reached: Mutex<HashMap<String, Arc<dyn Store>>>,
    /// Objects that were found to be as long as their references say, by [`Objects::size_is_right`].
    sized: Mutex<HashSet<Place>>,
}

/// So many objects are kept in mind.
const SIZED: usize = 10_000;

/// How the stores of other addresses are reached.
#[derive(Clone)]
pub struct Elsewhere(Arc<Connect>);

type Connect = dyn Fn(&str) -> Result<Arc<dyn Store>> + Send + Sync;

impl Elsewhere {
    /// By a function of the address of a bucket (`s3://bucket`), or of `/` for the local disk.
    ///
    /// ```
    /// use sigbank::layout::signal_dataset::{Elsewhere, Options};
    /// use sigbank::store::MemoryStore;
    /// use std::sync::Arc;
    /// let nowhere = Elsewhere::new(|_| Ok(Arc::new(MemoryStore::new())));
    /// let options = Options { elsewhere: nowhere, ..Options::default() };
    /// # let _ = options;
    /// ```
    pub fn new(connect: impl Fn(&str) -> Result<Arc<dyn Store>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(connect))
    }
    /// By address, with these settings.
    pub fn with_options(options: StorageOptions) -> Self {
        Self::new(move |address| connect(address, &options))
    }
}

impl Default for Elsewhere {
    /// By address, with what the environment says.
    fn default() -> Self {
        Self::with_options(StorageOptions::new())
    }
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Elsewhere")
    }
}

impl Objects {
    #[cfg(test)]
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self::reaching(store, Elsewhere::default())
    }

    pub(super) fn reaching(store: Arc<dyn Store>, elsewhere: Elsewhere) -> Self {
        Self { store, elsewhere, reached: Mutex::default(), sized: Mutex::default() }
    }

    /// The object's name as people know it.
    pub(super) fn locate(&self, place: &Place) -> String {
        match place {
            Place::Inside(path) => self.store.locate(path),
            Place::Elsewhere(text) => text.to_string(),
        }
    }

    /// What a request for an object costs, see [`Capabilities::round_trip`](crate::store::Capabilities).
    pub(super) fn round_trip(&self, place: &Place) -> u64 {
        match place {
            Place::Inside(_) => self.store.capabilities().round_trip,
            Place::Elsewhere(text) => self.elsewhere(text).map_or(0, |(store, _)| store.capabilities().round_trip),
        }
    }

    /// Opens an object, which must be as long as its reference says. One with a digest never changes: a cache asks nothing of it.
    pub(super) fn open(&self, reference: &Reference) -> Result<Arc<dyn StoreFile>> {
        self.open_known(reference, reference.sha256.map(|digest| format!("sha256:{digest}")).as_deref())
    }

    /// As [`Objects::open`], of what the storage holds now: for whoever compares it with its digest.
    pub(super) fn open_anew(&self, reference: &Reference) -> Result<Arc<dyn StoreFile>> {
        self.open_known(reference, None)
    }

    fn open_known(&self, reference: &Reference, digest: Option<&str>) -> Result<Arc<dyn StoreFile>> {
        let size = Some(reference.stored_bytes);
        let opened = match &reference.path {
            Place::Inside(path) => self.store.open_known(path, size, digest),
            Place::Elsewhere(text) => self.elsewhere(text).and_then(|(store, path)| store.open_known(&path, size, digest)),
        };
        let file = opened.map_err(gone_object)?;
        same_size(reference, file.size()).map_err(|e| e.at(self.locate(&reference.path)))?;
        Ok(file)
    }

    /// Whether an object that is read by another is as long as its reference says; asked for once.
    pub(super) fn size_is_right(&self, reference: &Reference) -> Result<()> {
        let sized = || self.sized.lock().unwrap_or_else(PoisonError::into_inner);
        if sized().contains(&reference.path) {
            return Ok(());
        }
        let found = match &reference.path {
            Place::Inside(path) => self.store.head(path),
            Place::Elsewhere(text) => self.elsewhere(text).and_then(|(store, path)| store.head(&path)),
        };
        same_size(reference, found.map_err(gone_object)?.size).map_err(|e| e.at(self.locate(&reference.path)))?;
        let mut sized = sized();
        if sized.len() >= SIZED {
            sized.clear();
        }
        sized.insert(reference.path.clone());
        Ok(())
    }

    fn elsewhere(&self, text: &str) -> Result<(Arc<dyn Store>, RelPath)> {
        let (bucket, key) = match text.split_once("://") {
            Some(("file", path)) => ("/".to_owned(), path.trim_start_matches('/')),
            Some((scheme, rest)) => {
                let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
                (format!("{scheme}://{bucket}"), key)
            }
            None => ("/".to_owned(), text.trim_start_matches('/')),
        };
        let held = || self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let known = held().get(&bucket).map(Arc::clone);
        let store = match known {
            Some(store) => store,
            None => {
                // Reached without the lock: it may take its time.
                let store = (self.elsewhere.0)(&bucket).map_err(|e| match e.code() {
                    Code::Unsupported => e.within("objects at such an address cannot be read here").at(text),
                    _ => e.at(text),
                })?;
                Arc::clone(held().entry(bucket).or_insert(store))
            }
        };
        Ok((store, RelPath::parse(key).map_err(|e| e.at(text))?))
    }

    /// The bytes of a document, compared with what its reference says.
    pub(super) fn document(&self, reference: &Reference, limits: &Limits) -> Result<Bytes> {
        let bytes = match &reference.path {
            Place::Inside(path) => document(&*self.store, path, limits)?,
            Place::Elsewhere(text) => {
                let (store, path) = self.elsewhere(text)?;
                document(&*store, &path, limits)?
            }
        };
        let compare = || {
            same_size(reference, bytes.len() as u64)?;
            same_digest(reference, Digest::of(&bytes))
        };
        compare().map_err(|e| e.at(self.locate(&reference.path)))?;
        Ok(bytes)
    }
}

/// A document, of which no more is read than the limits allow.
pub(super) fn document(store: &dyn Store, path: &RelPath, limits: &Limits) -> Result<Bytes> {
    store.get_at_most(path, limits.max_bytes).map_err(|e| match e.code() {
        Code::Limit => e.within("max_document_bytes"),
        _ => e,
    })
}

/// Whether an error means, of what need not be there, that it is not: who may not list is told of a missing object that it must not be read.
pub(super) fn absent(e: &Error) -> bool {
    e.code() == Code::NotFound || (e.code() == Code::Storage && e.to_string().contains("reading is not permitted"))
}

/// Whether an object that need not be there is there.
pub(super) fn there(store: &dyn Store, path: &RelPath) -> Result<bool> {
    match crate::store::exists(store, path) {
        Err(e) if absent(&e) => Ok(false),
        found => found,
    }
}

fn gone_object(e: Error) -> Error {
    match e.code() {
        Code::NotFound => {
            e.remedy("the dataset names this object, and it is not there: it, or the document that names it, was damaged; restore it from a copy")
        }
        _ => e,
    }
}

fn same_size(reference: &Reference, found: u64) -> Result<()> {
    if found == reference.stored_bytes {
        return Ok(());
    }
    Err(Error::corrupt(format!("{} bytes are expected, {found} were found", reference.stored_bytes))
        .remedy("it was cut short or replaced, or the document that names it was changed: restore it from a copy"))
}

/// Whether an object's digest is the one that its reference gives, if it gives one.
pub(super) fn same_digest(reference: &Reference, found: Digest) -> Result<()> {
    match reference.sha256 {
        Some(expected) if expected != found => Err(Error::corrupt(format!("the sha256 {expected} is expected, found {found}"))
            .remedy("its bytes were changed, or those of the document that names it: restore it from a copy")),
        _ => Ok(()),
    }
}

/// Puts an object whose name may be taken by the same bytes, but not by others; whether it is new.
///
/// # Errors
/// `AlreadyExists` where other bytes are there.
pub(super) fn create(store: &dyn Store, path: &RelPath, bytes: &[u8]) -> Result<bool> {
    let taken = match store.create(path, &[bytes]) {
        Err(e) if e.code() == Code::AlreadyExists => e,
        done => return done.map(|()| true),
    };
    let same = || Ok::<bool, Error>(store.head(path)?.size == bytes.len() as u64 && *store.get(path)? == *bytes);
    match same() {
        Ok(true) => return Ok(false),
        Ok(false) => {}
        // A gc deleted it in between.
        Err(e) if e.code() == Code::NotFound => return store.create(path, &[bytes]).map(|()| true),
        Err(e) => return Err(e),
    }
    Err(collision("it holds something else than is to be published").at(store.locate(path)).caused_by(taken))
}

/// How long to wait before the next try at what another writer did first: at random, up to half a second, so that many do not meet again.
pub(crate) fn jitter(attempt: u32) -> Duration {
    let longest = Duration::from_millis(5 << attempt.min(6)).min(Duration::from_millis(500));
    longest.mul_f64((RandomState::new().hash_one(attempt) >> 11) as f64 / (1u64 << 53) as f64)
}

/// The error of an object that was there and is gone when it is compared.
pub(super) fn gone(e: Error) -> Error {
    match e.code() {
        Code::NotFound => {
            e.within("it was here, and was deleted meanwhile").remedy("do it again: what is missing is written anew")
        }
        _ => e,
    }
}

/// The error of a publication that meets another.
pub(super) fn collision(message: impl Into<String>) -> Error {
    Error::already_exists(message)
        .remedy("another publication was here first, and nothing is ever replaced: publish to another root")
}
