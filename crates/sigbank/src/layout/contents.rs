//! What a dataset consists of, for whoever moves it as a whole.

use super::{Layout, detect, jbof, sedpack, signal_dataset};
use crate::error::{Error, Result};
use crate::store::{StorageOptions, Store, Version};
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::checksum::Algorithm;
use std::sync::Arc;

/// Documents are kept in memory up to so many bytes in all; the rest is read again when it is needed.
const KEPT: usize = 64 << 20;

/// The objects of a dataset, found by following references from its root. Nothing is listed: what nothing names is not among them. (Of JBOF, where
/// nothing is named by a document, the data set is listed.)
#[derive(Debug, Clone)]
pub struct Contents {
    /// Its layout.
    pub layout: Layout,
    /// Objects that name no others: shards.
    pub objects: Vec<Object>,
    /// Documents that name objects or each other.
    pub documents: Vec<Object>,
    /// Where readers begin, in the order in which these may appear: what is before the root is not seen without it.
    pub entrances: Vec<Entrance>,
    /// Objects at absolute addresses: a view's, which stay where they are.
    pub elsewhere: u64,
    kept: usize,
}

/// An object and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its name, relative to the root.
    pub path: RelPath,
    /// Its length in bytes, where whoever names it says so.
    pub size: Option<u64>,
    /// Its digests (lower-case hexadecimal digits), where whoever names it gives some.
    pub digests: Vec<(Algorithm, String)>,
    /// Its bytes, where they are known already. They need not lie at `path`: a reader takes a commit that was begun as done.
    pub bytes: Option<Bytes>,
}

/// A document that readers begin at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entrance {
    /// Its name, relative to the root.
    pub path: RelPath,
    /// Its bytes.
    pub bytes: Bytes,
    /// What it is to replace where it goes; nothing is there for `None`.
    pub replaces: Option<Version>,
}

impl Contents {
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, objects: Vec::new(), documents: Vec::new(), entrances: Vec::new(), elsewhere: 0, kept: 0 }
    }

    pub(super) fn document(&mut self, path: RelPath, bytes: &Bytes, digests: Vec<(Algorithm, String)>) {
        let keep = self.kept.saturating_add(bytes.len()) <= KEPT;
        self.kept += if keep { bytes.len() } else { 0 };
        self.documents.push(Object { path, size: Some(bytes.len() as u64), digests, bytes: keep.then(|| bytes.clone()) });
    }

    pub(super) fn entrance(&mut self, path: &str, bytes: Bytes) -> Result<()> {
        self.entrances.push(Entrance { path: RelPath::parse(path)?, bytes, replaces: None });
        Ok(())
    }

    /// The root document.
    pub fn root(&self) -> Bytes {
        self.entrances.last().map(|root| root.bytes.clone()).unwrap_or_default()
    }
}

impl Object {
    /// Its first digest as `sha256:` and hexadecimal digits, for example: see [`Store::open_known`].
    pub fn digest(&self) -> Option<String> {
        self.digests.first().map(|(algorithm, hex)| format!("{}:{hex}", algorithm.as_str()))
    }
}

/// Follows everything from a dataset's root. All documents are read and compared with what names them.
///
/// ```
/// use sigbank::layout::{contents, sedpack::{Dataset, Info}};
/// use std::sync::Arc;
/// let structure = serde_json::json!({"saved_data_description": [{"name": "x", "dtype": "uint8", "shape": [1]}]});
/// let info = Info::new(Default::default(), structure.as_object().cloned().unwrap_or_default())?;
/// let store: Arc<dyn sigbank::store::Store> = Arc::new(sigbank::store::MemoryStore::new());
/// Dataset::create_store(Arc::clone(&store), info)?;
/// let contents = contents(&store)?;
/// assert_eq!((contents.objects.len(), contents.entrances[0].path.as_str()), (0, "dataset_info.json"));
/// # Ok::<(), sigbank::Error>(())
/// ```
///
/// # Errors
/// `NotFound` where no dataset is, `Corrupt` or `NotFound` for a document that is not as it is named.
pub fn contents(store: &Arc<dyn Store>) -> Result<Contents> {
    contents_with(store, &StorageOptions::new())
}

/// As [`contents`]; stores at other addresses, which a document may name, are reached with these settings.
///
/// # Errors
/// Those of [`contents`].
pub fn contents_with(store: &Arc<dyn Store>, options: &StorageOptions) -> Result<Contents> {
    match detect(&**store)? {
        Some(Layout::Sedpack) => {
            sedpack::Dataset::open_store(Arc::clone(store), sedpack::OpenOptions { allow_newer: true })?.contents()
        }
        Some(Layout::SignalDataset) => signal_dataset::contents(store, super::signal_options(options)),
        Some(Layout::Jbof) => jbof::contents(store),
        None => Err(Error::not_found(format!(
            "no dataset is here: neither {} (a signal-dataset) nor {} (Sedpack) nor the {} of a JBOF data set",
            signal_dataset::ROOT,
            sedpack::ROOT,
            jbof::ROOT
        ))
        .at(store.location())
        .remedy("give the address of the dataset's root; other files and folders are not copied")),
    }
}
