//! Adding and deleting, each in one step, on a local disk.
//!
//! Below [`AREA`], which every reader skips: `items/<random>` is an item that is being filled, to be renamed as a whole.
//! `adding/<item>/` holds an array's two files until they are renamed, the data file first: the `.json` makes it an array. `deleting/<item>/`
//! holds the `.json` of an array that is no more, until its data file is gone too. Whoever holds the item's lock may put right what lies in the
//! latter two for that item: nobody alive is at work on it.

use super::documents::FILENAME;
use super::item::file_of;
use super::names::SKIPPED;
use super::{ROOT, documents};
use crate::error::{Code, Error, Result};
use crate::store::{DirEntry, LocalStore, LockGuard, Store, exists, lock};
use crate::uri::RelPath;
use sha2::{Digest, Sha256};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where what is being added and deleted lies.
const AREA: &str = "__pycache__/sigbank";
/// How long to wait for another writer of the same item, which holds its lock for one array.
const PATIENCE: Duration = Duration::from_secs(120);
/// Items that nobody has finished after so long are a killed writer's.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The data file of a new array: its format's extension and its bytes, in parts.
///
/// ```
/// use sigbank::layout::jbof::ArrayFile;
/// let file = ArrayFile::new("npy", &[b"\x93NUMPY", b"..."]);
/// assert_eq!(file.extension(), "npy");
/// ```
#[derive(Debug)]
pub struct ArrayFile<'a> {
    extension: &'a str,
    bytes: Bytes<'a>,
}

#[derive(Debug)]
enum Bytes<'a> {
    Parts(&'a [&'a [u8]]),
    CopyOf(&'a Path),
}

impl<'a> ArrayFile<'a> {
    /// A file of these bytes, one part after another.
    pub fn new(extension: &'a str, parts: &'a [&'a [u8]]) -> Self {
        Self { extension, bytes: Bytes::Parts(parts) }
    }
    /// A copy of a file, byte for byte.
    pub fn copy_of(extension: &'a str, path: &'a Path) -> Self {
        Self { extension, bytes: Bytes::CopyOf(path) }
    }
    /// The extension, without the dot.
    pub fn extension(&self) -> &str {
        self.extension
    }
}

/// The store of a data set's directory: its own files lie where every reader skips them.
pub(super) fn private(store: LocalStore) -> Result<LocalStore> {
    Ok(store.private_dir(RelPath::parse(AREA)?.join("store")?, true))
}

/// The writing side of a data set.
#[derive(Debug)]
pub(super) struct Writer {
    store: Arc<LocalStore>,
    durable: bool,
}

fn area(what: &str, item: &RelPath) -> Result<RelPath> {
    RelPath::parse(AREA)?.join(what)?.join(item.as_str())
}

impl Writer {
    pub(super) fn new(store: Arc<LocalStore>, durable: bool) -> Self {
        Self { store, durable }
    }

    fn flush(&self, paths: &[RelPath]) -> Result<()> {
        if self.durable { self.store.flush(paths) } else { Ok(()) }
    }

    pub(super) fn add_item(&self, item: &RelPath, document: &[u8]) -> Result<()> {
        let taken = || Error::already_exists(format!("there is an item {item} already")).at(self.store.location());
        if exists(&*self.store, &item.join(ROOT)?)? {
            return Err(taken());
        }
        let staged = area("items", &RelPath::parse(&uuid::Uuid::new_v4().to_string())?)?;
        let filled = (|| {
            let path = staged.join(ROOT)?;
            self.store.create(&path, &[document])?;
            self.flush(&[path])
        })();
        let published = filled.and_then(|()| self.store.publish_dir(&staged, item));
        published.map_err(|e| {
            let _ = self.store.delete_dir(&staged);
            match e.code() {
                Code::AlreadyExists => taken(),
                _ => e,
            }
        })?;
        self.flush(&[item.join(ROOT)?])
    }

    pub(super) fn delete_item(&self, item: &RelPath) -> Result<()> {
        let guard = self.lock(item)?;
        self.store.delete_dir(item)?;
        guard.retire();
        Ok(())
    }

    /// Keeps other writers of the item out, and puts right what a killed one left.
    fn lock(&self, item: &RelPath) -> Result<LockGuard> {
        let guard = lock(&*self.store, &lock_name(item), PATIENCE)?;
        self.recover(item)?;
        Ok(guard)
    }

    pub(super) fn add_array(
        &self,
        item: &RelPath,
        name: &str,
        file_name: &str,
        file: &ArrayFile<'_>,
        document: &[u8],
    ) -> Result<()> {
        let guard = self.lock(item)?;
        if !exists(&*self.store, &item.join(ROOT)?)? {
            return Err(Error::not_found(format!("there is no item {item}")).at(self.store.location()).remedy("add it first"));
        }
        let document_name = format!("{name}.json");
        let (data_place, document_place) = (item.join(file_name)?, item.join(&document_name)?);
        if exists(&*self.store, &document_place)? {
            return Err(Error::already_exists(format!("there is an array {name:?} already")).at(self.store.locate(item)));
        }
        if exists(&*self.store, &data_place)? {
            return Err(Error::already_exists("there is a file that belongs to no array")
                .at(self.store.locate(&data_place))
                .remedy("give the array another name, or move the file away"));
        }
        let staging = area("adding", item)?;
        let staged = (|| {
            let (data, json) = (staging.join(file_name)?, staging.join(&document_name)?);
            match &file.bytes {
                Bytes::Parts(parts) => self.store.create(&data, parts)?,
                Bytes::CopyOf(path) => self.copy(path, &data)?,
            }
            self.store.create(&json, &[document])?;
            self.flush(&[data.clone(), json.clone()])?;
            self.store.rename_new(&data, &data_place)?;
            self.store.rename_new(&json, &document_place)?;
            self.store.remove_empty_dir(&staging)?;
            self.flush(&[data_place.clone(), document_place.clone()])
        })();
        if staged.is_err() {
            // What failed leaves nothing behind; where even that fails, the next writer sees to it.
            let _ = self.recover(item);
        }
        guard.retire();
        staged
    }

    fn copy(&self, from: &Path, to: &RelPath) -> Result<()> {
        let located = |e: std::io::Error| Error::from(e).at(from.display());
        let mut source = std::fs::File::open(from).map_err(located)?;
        let mut new = self.store.write_new(to)?;
        let mut block = vec![0; 1 << 20];
        loop {
            let n = std::io::Read::read(&mut source, &mut block).map_err(located)?;
            match block.get(..n) {
                Some(bytes) if n > 0 => new.write_all(bytes).map_err(|e| Error::from(e).at(self.store.locate(to)))?,
                _ => return new.commit(),
            }
        }
    }

    pub(super) fn delete_array(&self, item: &RelPath, name: &str, data: &RelPath) -> Result<()> {
        let guard = self.lock(item)?;
        let document_name = format!("{name}.json");
        let aside = area("deleting", item)?;
        let gone = aside.join(&document_name)?;
        self.store.make_dir(&aside)?;
        self.store.rename_new(&item.join(&document_name)?, &gone).map_err(|e| match e.code() {
            Code::NotFound => Error::not_found(format!("there is no array {name:?}")).at(self.store.locate(item)),
            _ => e,
        })?;
        self.store.delete(data)?;
        self.store.delete(&gone)?;
        self.store.remove_empty_dir(&aside)?;
        guard.retire();
        Ok(())
    }

    /// Undoes an addition, and finishes a deletion, that a killed process left. The caller holds the item's lock.
    fn recover(&self, item: &RelPath) -> Result<()> {
        for what in ["adding", "deleting"] {
            let dir = area(what, item)?;
            let left = self.store.list_dir(Some(&dir))?;
            for entry in &left {
                let DirEntry::Object(entry) = entry else { continue };
                let Some(name) = entry.path.file_name().strip_suffix(".json") else { continue };
                let made = exists(&*self.store, &item.join(&format!("{name}.json"))?)?;
                // A document here belongs to a data file that may have its name already, unless another array has it.
                if !made
                    && let Ok(document) = documents::read(&*self.store, &entry.path)
                    && let Ok(file) = file_of(document.get(FILENAME))
                {
                    self.store.delete(&item.join(&file)?)?;
                }
            }
            match left.is_empty() {
                true => self.store.remove_empty_dir(&dir)?,
                false => self.store.delete_dir(&dir)?,
            }
        }
        Ok(())
    }

    /// What killed processes left of any item.
    pub(super) fn recover_all(&self) -> Result<()> {
        let area = RelPath::parse(AREA)?;
        for what in ["adding", "deleting"] {
            let dir = area.join(what)?;
            for entry in self.store.list_dir(Some(&dir))? {
                let item = RelPath::parse(entry.path().file_name())?;
                // Where the lock is held, another writer is at work.
                if let Some(guard) = self.store.try_lock(&lock_name(&item))? {
                    self.recover(&item)?;
                    guard.retire();
                }
            }
        }
        self.store.delete_dirs_older_than(&area.join("items")?, ABANDONED)?;
        self.store.sweep(ABANDONED).map(|_| ())
    }
}

/// A lock's file has a name of its own, since an item's may be as long as a file's can be.
fn lock_name(item: &RelPath) -> String {
    Sha256::digest(item.as_str()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The data files of an item that are being added or deleted, whose documents lie aside.
pub(super) fn underway(store: &dyn Store, item: &RelPath) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for what in ["adding", "deleting"] {
        for entry in store.list_dir(Some(&area(what, item)?))? {
            if let DirEntry::Object(entry) = entry
                && entry.path.file_name().ends_with(".json")
                && let Ok(document) = documents::read(store, &entry.path)
                && let Ok(file) = file_of(document.get(FILENAME))
            {
                files.push(file);
            }
        }
    }
    Ok(files)
}

/// Makes the directory of a new data set, visible as a whole.
pub(super) fn create(root: &Path, document: &[u8], durable: bool) -> Result<()> {
    let root = std::path::absolute(root).map_err(|e| Error::from(e).at(root.display()))?;
    let (above, name) = match (root.parent(), root.file_name().and_then(|name| name.to_str())) {
        (Some(above), Some(name)) => (above.to_owned(), RelPath::parse(name)?),
        _ => return Err(Error::invalid("this is no name for a directory").at(root.display())),
    };
    let staged = hidden(&name)?;
    let store = LocalStore::create(&above)?.private_dir(staged.join(SKIPPED)?, true).durable(durable);
    let made = (|| {
        let files = [(ROOT, document), ("__init__.py", INIT.as_bytes())];
        for (file, bytes) in files {
            store.create(&staged.join(file)?, &[bytes])?;
        }
        store.flush(&[staged.join(ROOT)?, staged.join("__init__.py")?])?;
        store.publish_dir(&staged, &name)?;
        store.flush(&[name.join(ROOT)?])
    })();
    made.map_err(|e: Error| {
        let _ = std::fs::remove_dir_all(above.join(staged.as_str()));
        match e.code() {
            Code::AlreadyExists => {
                Error::already_exists("something is here already").at(root.display()).remedy("choose another directory")
            }
            _ => e,
        }
    })
}

/// Takes the directory's name away in one step, and then what is in it.
pub(super) fn delete(root: &Path) -> Result<()> {
    let located = |e: std::io::Error| Error::from(e).at(root.display());
    let root = std::path::absolute(root).map_err(located)?;
    let name = root.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let aside: PathBuf = root.with_file_name(hidden(&RelPath::parse(name)?)?.as_str());
    std::fs::rename(&root, &aside).map_err(located)?;
    std::fs::remove_dir_all(&aside).map_err(located)
}

fn hidden(name: &RelPath) -> Result<RelPath> {
    let mut short = name.as_str();
    while short.len() > 150 {
        short = short.get(..short.len() - 1).or_else(|| short.get(..short.len() - 4)).unwrap_or("long");
    }
    RelPath::parse(&format!(".{short}.{}", uuid::Uuid::new_v4()))
}

/// Makes the data set importable: `from folder import dataset`.
const INIT: &str = "\
import os.path

try:
    from sigbank import jbof
except ImportError:
    import jbof

dataset = jbof.DataSet(os.path.dirname(os.path.abspath(__file__)))
";
