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
use crate::store::{LocalStore, StorageOptions, Store, ZipStore, connect, exists, local_path};
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

/// Opens a dataset of any layout, read-only: in a folder, in a zip archive, or at another address that [`connect`](crate::store::connect) knows.
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
    if let Some(store) = one_file(address, options)? {
        return open_store(store, options)?.ok_or_else(|| unknown().at(address));
    }
    let Some(root) = local_path(address) else {
        return open_store(connect(address, options)?, options)?.ok_or_else(|| unknown().at(address));
    };
    if root.join(sedpack::ROOT).is_file() {
        return Ok(Arc::new(sedpack::Dataset::open(root, Default::default())?));
    }
    if root.join(signal_dataset::ROOT).is_file() {
        return Ok(Arc::new(signal_dataset::Dataset::open(root, signal_options(options))?.source()?));
    }
    if !root.exists() {
        return Err(Error::not_found("there is nothing here").at(address).remedy("check the path"));
    }
    let store = LocalStore::open(root)?;
    if jbof::is_data_set(&store)? {
        return Ok(Arc::new(jbof::JbofSource::new(jbof::Dataset::open(root)?)?));
    }
    Err(jbof::near_miss(&store)?.unwrap_or_else(unknown).at(address))
}

fn signal_options(options: &StorageOptions) -> signal_dataset::Options {
    signal_dataset::Options { elsewhere: signal_dataset::Elsewhere::with_options(options.clone()), ..Default::default() }
}

/// The dataset in a store, if there is one.
fn open_store(store: Arc<dyn Store>, options: &StorageOptions) -> Result<Option<Arc<dyn Source>>> {
    Ok(match detect(&*store)? {
        Some(Layout::Sedpack) => Some(Arc::new(sedpack::Dataset::open_store(store, Default::default())?)),
        Some(Layout::SignalDataset) => {
            Some(Arc::new(signal_dataset::Dataset::open_store(store, signal_options(options))?.source()?))
        }
        Some(Layout::Jbof) => Some(Arc::new(jbof::JbofSource::new(jbof::Dataset::open_store(store)?)?)),
        None => None,
    })
}

/// The store in a single file that holds a dataset: a zip archive, on the local disk or (by its name's ending) elsewhere.
///
/// # Errors
/// `Unsupported` for other files.
fn one_file(address: &str, options: &StorageOptions) -> Result<Option<Arc<dyn Store>>> {
    let ends = |ending: &str| address.len() > ending.len() && address.to_ascii_lowercase().ends_with(ending);
    let Some(path) = local_path(address) else {
        let Some((parent, name)) = address.rsplit_once('/').filter(|_| ends(".zip")) else { return Ok(None) };
        let above = connect(parent, options)?;
        let path = RelPath::parse(name)?;
        // A folder may have such a name too.
        if !exists(&*above, &path)? {
            return Ok(None);
        }
        let round_trip = above.capabilities().round_trip;
        return Ok(Some(Arc::new(ZipStore::open_far(above.open_read(&path)?, round_trip)?)));
    };
    if !path.is_file() {
        return Ok(None);
    }
    let absolute = std::path::absolute(path).map_err(|e| Error::from(e).at(address))?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name().and_then(|name| name.to_str())) else {
        return Ok(None);
    };
    let file = LocalStore::open(parent)?.open_read(&RelPath::parse(name)?)?;
    let mut head = [0; 8];
    let head = head.get_mut(..file.size().min(8) as usize).unwrap_or_default();
    file.read_at(0, head).map_err(|e| Error::from(e).at(address))?;
    match head {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Ok(Some(Arc::new(ZipStore::open(file)?))),
        _ => Err(Error::unsupported(
            "a dataset is a folder, a zip archive of one or an HDF5 file of JBOF, and this is another file",
        )
        .at(address)
        .remedy("give the folder that holds the dataset; of a folder of loose files one is made by: sigbank import")),
    }
}

/// The layouts that a root can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// [`sedpack`].
    Sedpack,
    /// [`signal_dataset`].
    SignalDataset,
    /// [`jbof`].
    Jbof,
}

/// Which layout's root file a store holds, if any: a few requests. Nothing is listed, but where the root has a `_metadata.json` that does not
/// say by itself that it is one of a JBOF data set.
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
    match jbof::is_data_set(store) {
        Ok(true) => return Ok(Some(Layout::Jbof)),
        Ok(false) => {}
        Err(e) if e.code() == Code::Storage => refused = refused.or(Some(e)),
        Err(e) => return Err(e),
    }
    refused.map_or(Ok(None), Err)
}

fn unknown() -> Error {
    Error::unsupported("no dataset of a known layout is here").remedy(format!(
        "a Sedpack dataset has a file {} in its root, a signal-dataset {}, a JBOF data set {}; of a folder of loose files one is made by: \
         sigbank import",
        sedpack::ROOT,
        signal_dataset::ROOT,
        jbof::ROOT
    ))
}
