//! The data set: its metadata and its items.

use super::documents::{self, ITEMFORMAT};
use super::hdf::HdfStore;
use super::item::Item;
use super::itemformat::{check, item_name};
use super::write::{self, Writer};
use super::{ROOT, names};
use crate::error::{Code, Error, Result};
use crate::store::{DirEntry, LocalStore, Store, StoreFile, ZipStore, exists};
use crate::uri::RelPath;
use bytes::Bytes;
use serde_json::{Map, Value};
use sigbank_format::model::json::Json;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// What a new data set is made with.
#[derive(Debug, Clone)]
pub struct Creation {
    /// Its metadata, an object.
    pub metadata: Json,
    /// The template that gives items their names from their metadata, in the words of Python's `str.format`.
    pub itemformat: Option<String>,
    /// Flush each item and array before it is visible, so that it survives a power failure too. Without it, killed processes harm nothing, but
    /// the operating system decides when bytes reach the disk.
    pub durable: bool,
}

impl Default for Creation {
    /// No metadata, no template, not durable.
    fn default() -> Self {
        Self { metadata: Json::EMPTY, itemformat: None, durable: false }
    }
}

/// A data set. Cloning shares it; it is safe to share among threads.
///
/// See the [module](super) for an example.
#[derive(Debug, Clone)]
pub struct Dataset(Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) store: Arc<dyn Store>,
    pub(super) root: Option<PathBuf>,
    pub(super) writer: Option<Writer>,
    pub(super) hdf: Option<Arc<HdfStore>>,
    /// The directory, where it is on a local disk: looking into it costs one call.
    pub(super) dir: Option<OwnedFd>,
    template: OnceLock<Option<String>>,
}

impl Dataset {
    /// Opens the data set in a directory to read it.
    ///
    /// # Errors
    /// `NotFound` where there is none.
    pub fn open(root: &Path) -> Result<Self> {
        let store = LocalStore::open(root).map_err(|e| match e.code() {
            Code::NotFound => nothing().at(root.display()),
            _ => e,
        })?;
        let path = store.root().to_owned();
        Self::opened(Arc::new(write::private(store)?), Some(path))
    }

    /// Opens the data set in a store to read it.
    ///
    /// # Errors
    /// Those of [`Dataset::open`].
    pub fn open_store(store: Arc<dyn Store>) -> Result<Self> {
        Self::opened(store, None)
    }

    /// Opens the data set in an HDF5 file to read it: see [`hdf`](super::hdf).
    ///
    /// # Errors
    /// `NotFound` where there is no such file; those of [`HdfStore::open`].
    pub fn open_hdf(path: &Path) -> Result<Self> {
        Self::of_hdf(HdfStore::open(one_file(path)?)?)
    }
    /// Opens the data set in an HDF5 file, wherever that is.
    ///
    /// # Errors
    /// None now.
    pub fn of_hdf(store: HdfStore) -> Result<Self> {
        let store = Arc::new(store);
        let hdf = Some(Arc::clone(&store));
        Ok(Self(Arc::new(Inner { store, root: None, writer: None, hdf, dir: None, template: OnceLock::new() })))
    }
    /// Opens the data set in a zip archive of its directory to read it, without unpacking.
    ///
    /// # Errors
    /// `NotFound` where there is no such file, or no data set in it; those of [`ZipStore::open`].
    pub fn open_zip(path: &Path) -> Result<Self> {
        let store = ZipStore::open(one_file(path)?)?;
        // Single folders are looked through, so that the only item would be taken for the data set.
        if exists(&store, &RelPath::parse(ROOT)?)? && !super::is_data_set(&store)? {
            return Err(Error::not_found(format!(
                "there is no JBOF data set in this archive, but one item or a single folder with a {ROOT}: that of the data set itself is missing"
            ))
            .at(store.location())
            .remedy("make the archive anew of the whole folder of the data set"));
        }
        Self::open_store(Arc::new(store))
    }

    fn opened(store: Arc<dyn Store>, root: Option<PathBuf>) -> Result<Self> {
        let dir = root.as_deref().and_then(open_dir);
        let found = exists(&*store, &RelPath::parse(ROOT)?)?;
        let location = store.location();
        if found {
            Ok(Self(Arc::new(Inner { store, root, writer: None, hdf: None, dir, template: OnceLock::new() })))
        } else {
            Err(nothing().at(location))
        }
    }

    /// Opens the data set in a directory to read and write it, and puts right what killed processes left.
    ///
    /// # Errors
    /// Those of [`Dataset::open`]; `ReadOnly` where nothing can be written.
    pub fn open_to_write(root: &Path, durable: bool) -> Result<Self> {
        let read = Self::open(root)?;
        let writer = Writer::new(Arc::new(write::private(LocalStore::open(root)?)?.durable(durable)), durable)?;
        writer.recover_all()?;
        let (store, root) = (Arc::clone(&read.0.store), read.0.root.clone());
        let dir = root.as_deref().and_then(open_dir);
        Ok(Self(Arc::new(Inner { store, root, writer: Some(writer), hdf: None, dir, template: OnceLock::new() })))
    }

    /// Creates an empty data set and opens it to write. It is visible as a whole.
    ///
    /// # Errors
    /// `AlreadyExists` where anything is at `root`; `Invalid` for metadata that are no object or hold a key of the layout's own, and for a template
    /// that could name no item.
    ///
    /// ```
    /// use sigbank::layout::jbof::{Creation, Dataset};
    /// let dir = tempfile::tempdir()?;
    /// let root = dir.path().join("a");
    /// Dataset::create(&root, &Creation { itemformat: Some("{speaker}-{take}".into()), ..Creation::default() })?;
    /// assert_eq!(Dataset::open(&root)?.itemformat()?.as_deref(), Some("{speaker}-{take}"));
    /// assert_eq!(Dataset::create(&root, &Creation::default()).unwrap_err().code(), sigbank::Code::AlreadyExists);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(root: &Path, creation: &Creation) -> Result<Self> {
        creation.itemformat.as_deref().map_or(Ok(()), check).map_err(|e| e.at(root.display()))?;
        let itemformat = creation.itemformat.clone().map_or(Value::Null, Value::String);
        write::create(root, &documents::write(&creation.metadata, [(ITEMFORMAT, itemformat)])?, creation.durable)?;
        Self::open_to_write(root, creation.durable)
    }

    /// Deletes a data set with all that is in its directory.
    ///
    /// # Errors
    /// `NotFound` where there is no data set: no other directory is deleted.
    pub fn delete(root: &Path) -> Result<()> {
        Self::open(root)?;
        write::delete(root)
    }

    /// The store that it is in.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }
    /// Where it is.
    pub fn location(&self) -> String {
        self.0.store.location()
    }
    /// The directory's name.
    pub fn name(&self) -> String {
        let location = self.location();
        location.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
    }
    /// The directory, for a data set on a local disk.
    pub fn local_root(&self) -> Option<&Path> {
        self.0.root.as_deref()
    }
    pub(super) fn directory(&self) -> Option<&OwnedFd> {
        self.0.dir.as_ref()
    }
    /// Whether it can be written to through this object.
    pub fn is_writable(&self) -> bool {
        self.0.writer.is_some()
    }

    fn document(&self) -> Result<Map<String, Value>> {
        documents::read(&*self.0.store, &RelPath::parse(ROOT)?)
    }
    /// The document as it stands, `_itemformat` included: Python's JSON has numbers (NaN, infinities) that JSON has not.
    ///
    /// # Errors
    /// Those of the store.
    pub fn document_text(&self) -> Result<Bytes> {
        documents::text(&*self.0.store, &RelPath::parse(ROOT)?)
    }
    /// Its metadata, an object; numbers that are none (NaN, infinities) are null.
    ///
    /// # Errors
    /// `Corrupt` where the document is no JSON object.
    pub fn metadata(&self) -> Result<Json> {
        let mut document = self.document()?;
        document.remove(ITEMFORMAT);
        Ok(Json::from_value(&Value::Object(document))?)
    }
    /// The template that gives items their names, if there is one.
    ///
    /// # Errors
    /// Those of [`Dataset::metadata`].
    pub fn itemformat(&self) -> Result<Option<String>> {
        match self.document()?.remove(ITEMFORMAT) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(template)) => Ok(Some(template)),
            Some(_) => Err(Error::corrupt(format!("{ITEMFORMAT} is neither null nor a string"))
                .at(self.0.store.locate(&RelPath::parse(ROOT)?))),
        }
    }

    /// As [`Dataset::itemformat`]. Nobody changes it later, so that it is read once.
    fn template(&self) -> Result<Option<&str>> {
        if let Some(template) = self.0.template.get() {
            return Ok(template.as_deref());
        }
        let template = self.itemformat()?;
        Ok(self.0.template.get_or_init(|| template).as_deref())
    }

    /// Whether a directory has a document. One that a symbolic link leads to out of the data set is an item that cannot be read: whoever asks it for
    /// anything is told, and the others are not kept from being read.
    fn is_item(&self, path: &RelPath) -> Result<bool> {
        match self.0.has(&path.join(ROOT)?) {
            Err(e) if e.code() == Code::Invalid => Ok(true),
            other => other,
        }
    }

    /// The names of the items, sorted. Costs a listing, and a look for each directory.
    ///
    /// # Errors
    /// Those of the store.
    pub fn item_names(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in self.0.store.list_dir(None)? {
            if let DirEntry::Dir(path) = entry
                && !names::is_hidden(path.as_str())
                && self.is_item(&path)?
            {
                found.push(path.as_str().to_owned());
            }
        }
        Ok(found)
    }
    /// The items, sorted by name.
    ///
    /// # Errors
    /// Those of [`Dataset::item_names`].
    pub fn items(&self) -> Result<impl Iterator<Item = Item> + use<>> {
        let inner = Arc::clone(&self.0);
        Ok(self.item_names()?.into_iter().map(move |name| Item::new(Arc::clone(&inner), &name)))
    }
    /// Whether there is an item of this name; no name that could not be one is there.
    ///
    /// # Errors
    /// Those of the store.
    pub fn has_item(&self, name: &str) -> Result<bool> {
        match names::item(name) {
            Ok(path) => self.is_item(&path),
            Err(_) => Ok(false),
        }
    }
    /// The item of this name.
    ///
    /// # Errors
    /// `NotFound` where there is none.
    pub fn item(&self, name: &str) -> Result<Item> {
        if self.has_item(name)? {
            return Ok(Item::new(Arc::clone(&self.0), name));
        }
        Err(Error::not_found(format!("there is no item {name:?}")).at(self.location()))
    }

    /// The item of this name, which is not looked for: where there is none, what is done with it fails as `NotFound`.
    ///
    /// # Errors
    /// `NotFound` for what can be no item's name.
    ///
    /// ```
    /// use sigbank::layout::jbof::{Creation, Dataset};
    /// let dir = tempfile::tempdir()?;
    /// let dataset = Dataset::create(&dir.path().join("a"), &Creation::default())?;
    /// assert_eq!(dataset.item_unseen("x")?.metadata().unwrap_err().code(), sigbank::Code::NotFound);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn item_unseen(&self, name: &str) -> Result<Item> {
        match names::item(name) {
            Ok(_) => Ok(Item::new(Arc::clone(&self.0), name)),
            Err(_) => Err(Error::not_found(format!("there is no item {name:?}")).at(self.location())),
        }
    }

    /// Adds an empty item: visible in one step, of any number of writers of one name exactly one succeeds. Without a name the
    /// [`itemformat`](Dataset::itemformat) gives it one ([`item_name`]), or where there is none, it is a random one.
    ///
    /// # Errors
    /// `ReadOnly` for a data set that was opened to read; `AlreadyExists` where the name is taken; `Invalid` for a name that is not one path
    /// component and for metadata that are no object or hold a key of the layout's own.
    pub fn add_item(&self, name: Option<&str>, metadata: &Json) -> Result<Item> {
        let writer = self.writer()?;
        let made;
        let name = match name {
            Some(name) => name,
            None => {
                made = match self.template()? {
                    Some(template) => item_name(template, metadata)?,
                    None => uuid::Uuid::new_v4().to_string(),
                };
                &made
            }
        };
        writer.add_item(&names::item(name)?, &documents::write(metadata, [])?)?;
        Ok(Item::new(Arc::clone(&self.0), name))
    }

    /// Deletes an item with all its arrays, in one step for everyone.
    ///
    /// # Errors
    /// `ReadOnly` for a data set that was opened to read; `NotFound` where there is no such item.
    pub fn delete_item(&self, name: &str) -> Result<()> {
        let writer = self.writer()?;
        self.item(name)?;
        writer.delete_item(&names::item(name)?)
    }

    pub(super) fn writer(&self) -> Result<&Writer> {
        self.0.writer()
    }
}

impl Inner {
    /// Whether there is an object; one that a symbolic link leads to out of the data set may be.
    pub(super) fn has(&self, path: &RelPath) -> Result<bool> {
        match self.dir.as_ref().map(|dir| rustix::fs::statat(dir, path.as_str(), rustix::fs::AtFlags::empty())) {
            Some(Ok(found)) => Ok(rustix::fs::FileType::from_raw_mode(found.st_mode).is_file()),
            Some(Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR)) => Ok(false),
            _ => exists(&*self.store, path),
        }
    }
    pub(super) fn writer(&self) -> Result<&Writer> {
        self.writer.as_ref().ok_or_else(|| {
            Error::read_only("the data set was opened to read only")
                .at(self.store.location())
                .remedy("open it to write (in Python: readonly=False)")
        })
    }
}

fn open_dir(path: &Path) -> Option<OwnedFd> {
    std::fs::File::open(path).ok().map(OwnedFd::from)
}

/// A file, wherever links to it lead.
fn one_file(path: &Path) -> Result<Arc<dyn StoreFile>> {
    let located = |e: Error| e.at(path.display());
    let real = std::fs::canonicalize(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => located(Error::not_found("there is no such file").remedy("check the path")),
        _ => located(e.into()),
    })?;
    match (real.parent(), real.file_name().and_then(|name| name.to_str())) {
        (Some(above), Some(name)) if real.is_file() => LocalStore::open(above)?.open_read(&RelPath::parse(name)?),
        _ => Err(located(Error::invalid("a file is expected").remedy("check the path; a folder is opened as a data set itself"))),
    }
}

fn nothing() -> Error {
    Error::not_found(format!("there is no JBOF data set here: it would have a file {ROOT}"))
        .remedy("check the path, or create the data set")
}
