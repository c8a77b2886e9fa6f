//! Objects by reference: in the dataset's store, or (the shards of a view) elsewhere.

use super::digest::Digest;
use super::documents::{Place, Reference};
use crate::error::{Code, Error, Result};
use crate::store::{LocalStore, Store, StoreFile};
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::model::json::Limits;
use std::sync::{Arc, OnceLock};

/// The objects that a dataset's documents name.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) store: Arc<dyn Store>,
    /// All of the local disk, once it is needed.
    disk: OnceLock<Arc<dyn Store>>,
}

impl Objects {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, disk: OnceLock::new() }
    }

    /// The object's name as people know it.
    pub(super) fn locate(&self, place: &Place) -> String {
        match place {
            Place::Inside(path) => self.store.locate(path),
            Place::Elsewhere(text) => text.to_string(),
        }
    }

    /// Opens an object, which must be as long as its reference says.
    pub(super) fn open(&self, reference: &Reference) -> Result<Arc<dyn StoreFile>> {
        let opened = match &reference.path {
            Place::Inside(path) => self.store.open_read(path),
            Place::Elsewhere(text) => self.elsewhere(text).and_then(|(store, path)| store.open_read(&path)),
        };
        let file = opened.map_err(|e| match e.code() {
            Code::NotFound => e.remedy("the dataset names this object, but it is gone: restore it from a copy"),
            _ => e,
        })?;
        same_size(reference, file.size()).map_err(|e| e.at(self.locate(&reference.path)))?;
        Ok(file)
    }

    fn elsewhere(&self, text: &str) -> Result<(Arc<dyn Store>, RelPath)> {
        let path = text.strip_prefix("file://").unwrap_or(text);
        let Some(path) = path.strip_prefix('/') else {
            return Err(Error::unsupported("objects at such an address cannot be read here").at(text));
        };
        let store = match self.disk.get() {
            Some(store) => Arc::clone(store),
            None => {
                let disk: Arc<dyn Store> = Arc::new(LocalStore::open("/")?);
                Arc::clone(self.disk.get_or_init(|| disk))
            }
        };
        Ok((store, RelPath::parse(path)?))
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

fn same_size(reference: &Reference, found: u64) -> Result<()> {
    if found == reference.stored_bytes {
        return Ok(());
    }
    Err(Error::corrupt(format!("{} bytes are expected, {found} were found", reference.stored_bytes))
        .remedy("it was cut short or replaced: restore it from a copy"))
}

/// Whether an object's digest is the one that its reference gives, if it gives one.
pub(super) fn same_digest(reference: &Reference, found: Digest) -> Result<()> {
    match reference.sha256 {
        Some(expected) if expected != found => Err(Error::corrupt(format!("the sha256 {expected} is expected, found {found}"))
            .remedy("its bytes were changed: restore it from a copy")),
        _ => Ok(()),
    }
}

/// Puts an object whose name may be taken by the same bytes, but not by others.
///
/// # Errors
/// `AlreadyExists` where other bytes are there.
pub(super) fn create(store: &dyn Store, path: &RelPath, bytes: &[u8]) -> Result<()> {
    let taken = match store.create(path, &[bytes]) {
        Err(e) if e.code() == Code::AlreadyExists => e,
        done => return done,
    };
    if store.head(path)?.size == bytes.len() as u64 && *store.get(path)? == *bytes {
        return Ok(());
    }
    Err(collision("it holds something else than is to be published").at(store.locate(path)).caused_by(taken))
}

/// The error of a publication that meets another.
pub(super) fn collision(message: impl Into<String>) -> Error {
    Error::already_exists(message)
        .remedy("another publication was here first, and nothing is ever replaced: publish to another root")
}
