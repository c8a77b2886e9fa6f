//! Adding and deleting, each in one step, on a local disk.
//!
//! Below [`AREA`], which every reader skips: `items/<random>` is an item that is being filled, to be renamed as a whole; `store/` holds the
//! locks, one an item. Who adds or deletes an array holds its item's lock, and notes the array in it. The data file takes its name first, and
//! goes last: the `.json` makes it an array. So whatever instant a writer is killed at, its note tells the next one which data file
//! belongs to nobody.

use super::names::SKIPPED;
use super::{ROOT, names};
use crate::error::{Code, Error, Result};
use crate::store::local::NotedLock;
use crate::store::{LocalStore, Store, busy, exists, poll};
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
        let staged = RelPath::parse(&format!("{AREA}/items/{}", uuid::Uuid::new_v4()))?;
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
        let lock = self.lock(item)?;
        self.store.delete_dir(item)?;
        lock.retire();
        Ok(())
    }

    /// Keeps other writers of the item out, and puts right what a killed one left.
    fn lock(&self, item: &RelPath) -> Result<NotedLock> {
        let name = lock_name(item);
        let lock = poll(PATIENCE, || self.store.try_lock_noted(&name))?;
        let lock = lock.ok_or_else(|| busy(PATIENCE).at(self.store.locate_lock(&name)))?;
        self.recover(lock.left())?;
        Ok(lock)
    }

    pub(super) fn add_array(
        &self,
        item: &RelPath,
        name: &str,
        file_name: &str,
        file: &ArrayFile<'_>,
        document: &[u8],
    ) -> Result<()> {
        let lock = self.lock(item)?;
        let (data, json) = (item.join(file_name)?, document_of(item, name)?);
        let added = (|| {
            // Else adding would make it.
            if !exists(&*self.store, &item.join(ROOT)?)? {
                return Err(Error::not_found(format!("there is no item {item}"))
                    .at(self.store.location())
                    .remedy("add it first"));
            }
            let taken = |what: &str| Error::already_exists(format!("there is {what} already"));
            if exists(&*self.store, &json)? {
                return Err(taken(&format!("an array {name:?}")).at(self.store.locate(item)));
            }
            let claimed = match &file.bytes {
                Bytes::Parts(parts) => {
                    lock.note(&note(item, name, file_name), self.durable)?;
                    self.store.create(&data, parts)
                }
                Bytes::CopyOf(path) => self.copy(path, &data, || lock.note(&note(item, name, file_name), self.durable)),
            };
            claimed.map_err(|e| match e.code() {
                Code::AlreadyExists => {
                    // It is not ours to take away.
                    let _ = lock.note(b"", self.durable);
                    let remedy = "give the array another name, or move the file away";
                    taken("a file that belongs to no array").at(self.store.locate(&data)).remedy(remedy)
                }
                _ => e,
            })?;
            self.flush(std::slice::from_ref(&data))?;
            self.store.create(&json, &[document])?;
            self.flush(&[data.clone(), json.clone()])
        })();
        if added.is_err() {
            // What failed leaves nothing behind; where even that fails, the note stays for the next writer.
            self.undo(&lock, item, name, &data)?;
        }
        lock.retire();
        added
    }

    /// Takes the data file of an array away that did not come about, if the lock's note says that it is ours.
    fn undo(&self, lock: &NotedLock, item: &RelPath, name: &str, data: &RelPath) -> Result<()> {
        match lock.noted()? && !exists(&*self.store, &document_of(item, name)?)? {
            true => self.store.delete(data),
            false => Ok(()),
        }
    }

    /// `before` is done before the copy gets its name.
    fn copy(&self, from: &Path, to: &RelPath, before: impl FnOnce() -> Result<()>) -> Result<()> {
        let located = |e: std::io::Error| Error::from(e).at(from.display());
        let mut source = std::fs::File::open(from).map_err(located)?;
        let mut new = self.store.write_new(to)?;
        let mut block = vec![0; 1 << 20];
        loop {
            let n = std::io::Read::read(&mut source, &mut block).map_err(located)?;
            match block.get(..n) {
                Some(bytes) if n > 0 => new.write_all(bytes).map_err(|e| Error::from(e).at(self.store.locate(to)))?,
                _ => {
                    before()?;
                    return new.commit();
                }
            }
        }
    }

    pub(super) fn delete_array(&self, item: &RelPath, name: &str, data: &RelPath) -> Result<()> {
        let lock = self.lock(item)?;
        let json = document_of(item, name)?;
        if !exists(&*self.store, &json)? {
            return Err(Error::not_found(format!("there is no array {name:?}")).at(self.store.locate(item)));
        }
        lock.note(&note(item, name, data.file_name()), self.durable)?;
        self.store.delete(&json)?;
        self.store.delete(data)?;
        lock.retire();
        Ok(())
    }

    /// Takes the data file away that a killed process left, according to its note. The caller holds the lock.
    fn recover(&self, left: &[u8]) -> Result<()> {
        let Some((item, name, file)) = noted(left) else { return Ok(()) };
        match exists(&*self.store, &document_of(&item, &name)?)? {
            true => Ok(()),
            false => self.store.delete(&item.join(&file)?),
        }
    }

    /// What killed processes left of any item.
    pub(super) fn recover_all(&self) -> Result<()> {
        for name in self.store.lock_names()? {
            // Where the lock is held, another writer is at work.
            if let Some(lock) = self.store.try_lock_noted(&name)? {
                self.recover(lock.left())?;
                lock.retire();
            }
        }
        self.store.delete_dirs_older_than(&RelPath::parse(AREA)?.join("items")?, ABANDONED)?;
        self.store.sweep(ABANDONED).map(|_| ())
    }
}

fn document_of(item: &RelPath, array: &str) -> Result<RelPath> {
    item.join(&format!("{array}.json"))
}

/// A lock's file has a name of its own, since an item's may be as long as a file's can be.
fn lock_name(item: &RelPath) -> String {
    Sha256::digest(item.as_str()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// What a writer notes: the array that it adds or deletes, and its data file. Names have no line feeds.
fn note(item: &RelPath, array: &str, file: &str) -> Vec<u8> {
    format!("{item}\n{array}\n{file}\n").into_bytes()
}

/// What a note says; none where there is none, or a power failure left a part of it.
fn noted(text: &[u8]) -> Option<(RelPath, String, String)> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('\n')?;
    let [item, array, file] = text.split('\n').collect::<Vec<_>>().try_into().ok()?;
    Some((names::item(item).ok()?, array.to_owned(), RelPath::parse(file).ok()?.as_str().to_owned()))
}

/// The data file of an item that is being added or deleted, or was when its writer was killed; the item's own `.json` files say
/// whether it is one of an array.
pub(super) fn underway(store: &dyn Store, item: &RelPath) -> Result<Option<String>> {
    let lock = RelPath::parse(AREA)?.join(&format!("store/{}.lock", lock_name(item)))?;
    match store.get_at_most(&lock, 1 << 16) {
        Ok(text) => Ok(noted(&text).filter(|(of, ..)| of == item).map(|(.., file)| file)),
        Err(e) if e.code() == Code::NotFound => Ok(None),
        Err(e) => Err(e),
    }
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
