//! What a dataset can do, whatever its layout: [`Source`] to read, [`Sink`] to write, [`open`] to find out which layout a
//! place holds. Everything above (loader, convert, command line, Python) knows nothing else.

mod contents;
pub mod jbof;
pub mod sedpack;
pub mod signal_dataset;
mod source;
mod summary;

pub use contents::{Contents, Entrance, Object, contents};
pub(crate) use source::stored_as;
pub use source::{Collected, Figures, RowSink, Source, Split, Stored, Units, Verified, fixed_lens, read, read_stored};
pub use summary::{Summary, summary};

use crate::error::{Code, Error, Result};
use crate::store::{StorageOptions, Store, connect, exists, local_path};
use crate::uri::RelPath;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One record to write: each field's bytes, in the order of the schema. An array's are its elements in C order,
/// little-endian, of the declared dtype; an `int`'s the 8 bytes of an int64; a `str`'s its UTF-8.
pub type RawRecord<'a> = [&'a [u8]];

/// Metadata that a run of records shares where the layout keeps it once for all of them (Sedpack: the shard's).
pub type GroupMetadata = sigbank_format::model::Metadata;

/// Takes the records of one writer. Records become readable with [`Sink::commit`], not before.
pub trait RecordWriter: Send {
    /// Adds one record to a split, with the metadata its group shares.
    ///
    /// # Errors
    /// `Invalid` names the field and the record where a value does not fit; `Storage` is an earlier background write's
    /// failure. A record that fails is not written, and the writer goes on.
    fn append(&mut self, split: &str, record: &RawRecord<'_>, group: Option<&GroupMetadata>) -> Result<()>;
    /// Writes what is open and waits for everything in the background. The token says what was written.
    fn finish(self: Box<Self>) -> Result<Token>;
}

/// What one finished writer wrote, for [`Sink::commit`]: JSON that can be sent to another process.
#[derive(Debug, Clone, PartialEq)]
pub struct Token(pub serde_json::Value);

/// What a commit made visible.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Committed {
    /// Records by split, this commit's only.
    pub records: BTreeMap<String, u64>,
    /// The digest of the new root.
    pub root: String,
}

/// A dataset that is being written.
pub trait Sink: Send + Sync {
    /// A writer of its own for one worker; several may write at once.
    fn writer(&self) -> Result<Box<dyn RecordWriter>>;
    /// Makes everything that the tokens name visible in one step, durably: all or nothing.
    fn commit(&self, tokens: Vec<Token>) -> Result<Committed>;
}

/// Opens a dataset of any layout, read-only: in a folder, or at another address that [`connect`](crate::store::connect) knows.
///
/// # Errors
/// `NotFound` where nothing is, `Unsupported` where what is there is no dataset of a known layout.
pub fn open(address: &str) -> Result<Arc<dyn Source>> {
    open_with(address, &StorageOptions::new())
}

/// As [`open`], with settings of the store.
///
/// # Errors
/// Those of [`open`], and of [`connect`](crate::store::connect).
pub fn open_with(address: &str, options: &StorageOptions) -> Result<Arc<dyn Source>> {
    let signal =
        || signal_dataset::Options { elsewhere: signal_dataset::Elsewhere::with_options(options.clone()), ..Default::default() };
    let Some(root) = local_path(address) else {
        let store = connect(address, options)?;
        return match detect(&*store)? {
            Some(Layout::Sedpack) => Ok(Arc::new(sedpack::Dataset::open_store(store, Default::default())?)),
            Some(Layout::SignalDataset) => Ok(Arc::new(signal_dataset::Dataset::open_store(store, signal())?.source()?)),
            None => Err(unknown().at(address)),
        };
    };
    if root.join(sedpack::ROOT).is_file() {
        return Ok(Arc::new(sedpack::Dataset::open(root, Default::default())?));
    }
    if root.join(signal_dataset::ROOT).is_file() {
        return Ok(Arc::new(signal_dataset::Dataset::open(root, signal())?.source()?));
    }
    if !root.exists() {
        return Err(Error::not_found("there is nothing here").at(address).remedy("check the path"));
    }
    Err(unknown().at(address))
}

/// The layouts that a root can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// [`sedpack`].
    Sedpack,
    /// [`signal_dataset`].
    SignalDataset,
}

/// Which layout's root file a store holds, if any: a request or two, and no listing.
///
/// # Errors
/// The store's, where it holds no root file that can be asked for: `NotFound` for a bucket that does not exist, `Storage` where reading
/// is not permitted.
///
/// ```
/// use sigbank::layout::detect;
/// assert_eq!(detect(&sigbank::store::MemoryStore::new())?, None);
/// # Ok::<(), sigbank::Error>(())
/// ```
pub fn detect(store: &dyn Store) -> Result<Option<Layout>> {
    let mut refused = None;
    for (name, layout) in [(signal_dataset::ROOT, Layout::SignalDataset), (sedpack::ROOT, Layout::Sedpack)] {
        match exists(store, &RelPath::parse(name)?) {
            Ok(true) => return Ok(Some(layout)),
            Ok(false) => {}
            // Who may not list is told of a missing object that it must not be read, so the other root may still be there.
            Err(e) if e.code() == Code::Storage => refused = refused.or(Some(e)),
            Err(e) => return Err(e),
        }
    }
    refused.map_or(Ok(None), Err)
}

fn unknown() -> Error {
    Error::unsupported("no dataset of a known layout is here").remedy(format!(
        "a Sedpack dataset has a file {} in its root, a signal-dataset {}",
        sedpack::ROOT,
        signal_dataset::ROOT
    ))
}
