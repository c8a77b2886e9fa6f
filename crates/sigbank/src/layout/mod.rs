//! What a dataset can do, whatever its layout: [`Source`] to read, [`Sink`] to write, [`open`] to find out which layout a
//! place holds. Everything above (loader, convert, command line, Python) knows nothing else.

pub(crate) mod appear;
mod contents;
pub mod jbof;
mod near;
pub mod sedpack;
pub mod signal_dataset;
mod source;
mod summary;

pub use contents::{Contents, Entrance, Object, contents, contents_with};
pub(crate) use near::no_such_id;
pub(crate) use source::stored_as;
pub use source::{
    Annotation, Annotations, Collected, Figures, OwnFields, RowSink, Source, Split, Stored, Units, Verified, fixed_lens, read,
    read_stored,
};
pub use summary::{Summary, summary};

use self::jbof::hdf::HdfStore;
use crate::error::{Code, Error, Result};
use crate::store::{LocalStore, StorageOptions, Store, ZipStore, connect, exists, local_path};
use crate::uri::RelPath;
use std::collections::BTreeMap;
use std::path::Path;
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

/// Opens a dataset of any layout, read-only: in a folder, in a zip archive or HDF5 file, or at another address that [`connect`] knows.
///
/// # Errors
/// `NotFound` where nothing is, `Unsupported` where what is there is no dataset of a known layout.
pub fn open(address: &str) -> Result<Arc<dyn Source>> {
    open_with(address, &StorageOptions::new())
}

/// As [`open`], with settings of the store.
///
/// # Errors
/// Those of [`open`], and of [`connect`].
pub fn open_with(address: &str, options: &StorageOptions) -> Result<Arc<dyn Source>> {
    open_by(address, options, &jbof::JbofSource::new)
}

/// As [`open_with`], with the source of a JBOF data set by `jbof`: of what is known of its items.
///
/// # Errors
/// Those of [`open_with`], and of `jbof`.
pub(crate) fn open_by(
    address: &str,
    options: &StorageOptions,
    jbof: &dyn Fn(jbof::Dataset) -> Result<jbof::JbofSource>,
) -> Result<Arc<dyn Source>> {
    let (layout, place) = found(address, options)?;
    Ok(match (layout, place) {
        (Layout::Sedpack, Place::Folder(root)) => Arc::new(sedpack::Dataset::open(root, Default::default())?),
        (Layout::Sedpack, Place::Store(store)) => Arc::new(sedpack::Dataset::open_store(store, Default::default())?),
        (Layout::SignalDataset, Place::Folder(root)) => {
            Arc::new(signal_dataset::Dataset::open(root, signal_options(options))?.source()?)
        }
        (Layout::SignalDataset, Place::Store(store)) => {
            Arc::new(signal_dataset::Dataset::open_store(store, signal_options(options))?.source()?)
        }
        (Layout::Jbof, place) | (_, place @ Place::Hdf(_)) => Arc::new(jbof(jbof_in(place)?)?),
    })
}

/// Opens the data set at an address, if it is one of JBOF, to read it: without what [`open_with`] does beyond, which looks at every item.
///
/// # Errors
/// Those of [`open_with`].
///
/// ```
/// use sigbank::layout::{jbof, open_jbof};
/// let dir = tempfile::tempdir()?;
/// let root = dir.path().join("a");
/// jbof::Dataset::create(&root, &Default::default())?;
/// assert!(open_jbof(&root.to_string_lossy(), &Default::default())?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_jbof(address: &str, options: &StorageOptions) -> Result<Option<jbof::Dataset>> {
    match found(address, options)? {
        (Layout::Jbof, place) => jbof_in(place).map(Some),
        _ => Ok(None),
    }
}

/// Where a dataset lies.
enum Place<'a> {
    Folder(&'a Path),
    Store(Arc<dyn Store>),
    /// Of JBOF.
    Hdf(Box<HdfStore>),
}

fn jbof_in(place: Place<'_>) -> Result<jbof::Dataset> {
    match place {
        Place::Folder(root) => jbof::Dataset::open(root),
        Place::Store(store) => jbof::Dataset::open_store(store),
        Place::Hdf(store) => jbof::Dataset::of_hdf(*store),
    }
}

/// The dataset at an address: its layout, and where it lies.
fn found<'a>(address: &'a str, options: &StorageOptions) -> Result<(Layout, Place<'a>)> {
    let store = match (one_file(address, options)?, local_path(address)) {
        (Some(OneFile::Hdf(store)), _) => return Ok((Layout::Jbof, Place::Hdf(store))),
        (Some(OneFile::Zip(store)), _) => store,
        (None, None) => connect(address, options)?,
        (None, Some(root)) => return in_folder(root).map(|layout| (layout, Place::Folder(root))).map_err(|e| e.at(address)),
    };
    match detect(&*store)? {
        Some(layout) => Ok((layout, Place::Store(store))),
        None => Err(unknown().at(address)),
    }
}

fn in_folder(root: &Path) -> Result<Layout> {
    if root.join(sedpack::ROOT).is_file() {
        return Ok(Layout::Sedpack);
    }
    if root.join(signal_dataset::ROOT).is_file() {
        return Ok(Layout::SignalDataset);
    }
    if !root.exists() {
        return Err(Error::not_found("there is nothing here").remedy("check the path"));
    }
    let store = LocalStore::open(root)?;
    if jbof::is_data_set(&store)? {
        return Ok(Layout::Jbof);
    }
    Err(jbof::near_miss(&store)?.unwrap_or_else(unknown))
}

fn signal_options(options: &StorageOptions) -> signal_dataset::Options {
    signal_dataset::Options { elsewhere: signal_dataset::Elsewhere::with_options(options.clone()), ..Default::default() }
}

/// A single file that holds a dataset.
enum OneFile {
    Zip(Arc<dyn Store>),
    Hdf(Box<HdfStore>),
}

/// The single file that holds a dataset, on the local disk or (by its name's ending) elsewhere.
///
/// # Errors
/// `Unsupported` for other files.
fn one_file(address: &str, options: &StorageOptions) -> Result<Option<OneFile>> {
    const ENDINGS: [&str; 4] = [".zip", ".h5", ".hdf5", ".hdf"];
    let lower = address.to_ascii_lowercase();
    let (file, round_trip) = match local_path(address) {
        Some(path) if !path.is_file() => return Ok(None),
        Some(path) => {
            let path = std::path::absolute(path).map_err(|e| Error::from(e).at(address))?;
            let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
                return Ok(None);
            };
            (LocalStore::open(parent)?.open_read(&RelPath::parse(name)?)?, 0)
        }
        None => {
            let ends = ENDINGS.iter().any(|ending| lower.ends_with(ending));
            let Some((parent, name)) = address.rsplit_once('/').filter(|_| ends) else { return Ok(None) };
            let (above, path) = (connect(parent, options)?, RelPath::parse(name)?);
            // A folder may have such a name too.
            if !exists(&*above, &path)? {
                return Ok(None);
            }
            (above.open_read(&path)?, above.capabilities().round_trip)
        }
    };
    let mut head = [0; 8];
    let head = head.get_mut(..file.size().min(8) as usize).unwrap_or_default();
    file.read_at(0, head).map_err(|e| Error::from(e).at(address))?;
    match &*head {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => {
            Ok(Some(OneFile::Zip(Arc::new(ZipStore::open_far(file, round_trip)?))))
        }
        b"\x89HDF\r\n\x1a\n" => Ok(Some(OneFile::Hdf(Box::new(HdfStore::open_far(file, round_trip)?)))),
        // Another block of bytes may stand before it.
        _ if ENDINGS.iter().skip(1).any(|ending| lower.ends_with(ending)) => {
            Ok(Some(OneFile::Hdf(Box::new(HdfStore::open_far(file, round_trip)?))))
        }
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
