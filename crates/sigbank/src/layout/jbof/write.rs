//! Adding and deleting, each in one step, on a local disk.
//!
//! Below [`AREA`], which every reader skips: `items/<random>` is an item that is being filled, to be renamed as a whole; `store/` holds the
//! locks and what is not yet whole. Who adds or deletes an array holds its item's lock, and notes the array in it. The data file comes first, and
//! goes last: the `.json`, which comes whole, makes it an array. So whatever instant a writer is killed at, its note tells the next one which data file
//! belongs to nobody.

use super::area::{Area, Staged, unlink};
use super::lock::{self, Lock, Locks};
use super::names::SKIPPED;
use super::{ROOT, litter, names};
use crate::error::{Code, Error, Result};
use crate::store::{LocalStore, Store};
use crate::uri::RelPath;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Where what is being added and deleted lies.
const AREA: &str = "__pycache__/sigbank";
/// How long to wait for another writer of the same item, which holds its lock for one array.
const PATIENCE: Duration = Duration::from_secs(120);
/// Items that nobody has finished after so long are a killed writer's.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Files of up to so many bytes are written while the lock is held.
const SMALL: usize = 1 << 20;

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
    area: Area,
    locks: Locks,
    durable: bool,
}

impl Writer {
    pub(super) fn new(store: Arc<LocalStore>, durable: bool) -> Result<Self> {
        let area = RelPath::parse(AREA)?;
        let area = Area::new(Arc::clone(&store), area.join("items")?, area.join("store")?);
        Ok(Self { store, area, locks: Locks::default(), durable })
    }

    fn flush(&self, paths: &[RelPath]) -> Result<()> {
        if self.durable { self.store.flush(paths) } else { Ok(()) }
    }

    pub(super) fn add_item(&self, item: &RelPath, document: &[u8]) -> Result<()> {
        let staged = self.area.stage_item(ROOT, document).map_err(|e| e.at(self.store.locate(item)))?;
        self.flush(&[staged.join(ROOT)?])?;
        self.area.publish_item(&staged, item).map_err(|e| {
            let _ = self.store.delete_dir(&staged);
            match e.code() {
                Code::AlreadyExists => {
                    Error::already_exists(format!("there is an item {item} already")).at(self.store.location())
                }
                _ => e.at(self.store.locate(item)),
            }
        })?;
        self.flush(&[item.join(ROOT)?])
    }

    pub(super) fn delete_item(&self, item: &RelPath) -> Result<()> {
        let lock = self.lock(item)?;
        self.store.delete_dir(item)?;
        lock.finished();
        Ok(())
    }

    /// Keeps other writers of the item out, and puts right what a killed one left.
    fn lock(&self, item: &RelPath) -> Result<Lock<'_>> {
        let lock = self.locks.take(item, PATIENCE, || self.area.private());
        let lock = lock.map_err(|e| e.at(self.store.locate(item)))?;
        self.recover(lock.left())?;
        Ok(lock)
    }

    /// The directory of an item that is there.
    fn open(&self, item: &RelPath) -> Result<OwnedFd> {
        let missing = || Error::not_found(format!("there is no item {item}")).at(self.store.location()).remedy("add it first");
        let dir = self.store.dir(item).map_err(|e| if e.code() == Code::NotFound { missing() } else { e })?;
        if has(&dir, ROOT)? { Ok(dir) } else { Err(missing()) }
    }

    pub(super) fn add_array(
        &self,
        item: &RelPath,
        name: &str,
        file_name: &str,
        file: &ArrayFile<'_>,
        document: &[u8],
    ) -> Result<()> {
        let located = |e: Error| e.at(self.store.locate(item));
        let (data, json) = (item.join(file_name)?, item.join(&format!("{name}.json"))?);
        // What takes long is written before others are kept out.
        let staged = match &file.bytes {
            Bytes::CopyOf(path) => Some(self.area.stage_copy(path)?),
            Bytes::Parts(parts) if self.durable || parts.iter().map(|part| part.len()).sum::<usize>() > SMALL => {
                Some(self.area.stage(parts, self.durable).map_err(located)?)
            }
            Bytes::Parts(_) => None,
        };
        let mut lock = self.lock(item)?;
        let dir = self.open(item)?;
        let taken = |what: &str| Error::already_exists(format!("there is {what} already"));
        if has(&dir, json.file_name())? {
            return Err(taken(&format!("an array {name:?}")).at(self.store.locate(item)));
        }
        lock.note(&note(item, name, file_name), self.durable)?;
        let added = self.fill(&dir, file_name, file, staged).map_err(|e| match e.code() {
            Code::AlreadyExists => {
                // It is not ours to take away.
                lock.clear();
                let remedy = "give the array another name, or move the file away";
                taken("a file that belongs to no array").at(self.store.locate(&data)).remedy(remedy)
            }
            _ => e.at(self.store.locate(&data)),
        });
        let added = added.and_then(|()| {
            self.flush(std::slice::from_ref(&data))?;
            let json_located = |e: Error| e.at(self.store.locate(&json));
            let staged = self.area.stage(&[document], self.durable).map_err(json_located)?;
            staged.publish(&dir, json.file_name()).map_err(|e| match e.code() {
                Code::AlreadyExists => taken(&format!("an array {name:?}")).at(self.store.locate(item)),
                _ => json_located(e),
            })?;
            self.flush(&[data.clone(), json.clone()])
        });
        // What failed leaves nothing behind; where even that fails, the note stays for the next writer.
        if added.is_err() && lock.noted() && !has(&dir, json.file_name())? {
            unlink(&dir, file_name)?;
        }
        lock.finished();
        added
    }

    /// The data file, under its name. What fails may leave a part.
    fn fill(&self, dir: &OwnedFd, name: &str, file: &ArrayFile<'_>, staged: Option<Staged>) -> Result<()> {
        match (staged, &file.bytes) {
            (Some(staged), _) => staged.publish(dir, name),
            (None, Bytes::Parts(parts)) => super::area::write(dir, name, parts).map(drop),
            (None, Bytes::CopyOf(_)) => Ok(()), // Always staged.
        }
    }

    pub(super) fn delete_array(&self, item: &RelPath, name: &str, data: &RelPath) -> Result<()> {
        let mut lock = self.lock(item)?;
        let json = format!("{name}.json");
        let dir = self.open(item)?;
        if !has(&dir, &json)? {
            return Err(Error::not_found(format!("there is no array {name:?}")).at(self.store.locate(item)));
        }
        lock.note(&note(item, name, data.file_name()), self.durable)?;
        unlink(&dir, &json)?;
        unlink(&dir, data.file_name())?;
        lock.finished();
        Ok(())
    }

    /// Takes the data file away that a killed process left, according to its note. The caller holds the lock.
    fn recover(&self, left: &[u8]) -> Result<()> {
        let Some((item, name, file)) = noted(left) else { return Ok(()) };
        let dir = match self.store.dir(&item) {
            Err(e) if e.code() == Code::NotFound => return Ok(()),
            other => other?,
        };
        if has(&dir, &format!("{name}.json"))? { Ok(()) } else { unlink(&dir, &file).map_err(|e| e.at(self.store.locate(&item))) }
    }

    /// What killed processes left of any item.
    pub(super) fn recover_all(&self) -> Result<()> {
        for lock in self.locks.left(|| self.area.private()) {
            let lock = lock?;
            self.recover(lock.left())?;
            lock.finished();
        }
        self.store.delete_dirs_older_than(&RelPath::parse(AREA)?.join("items")?, ABANDONED)?;
        self.store.sweep(ABANDONED).map(|_| ())
    }
}

fn has(dir: &OwnedFd, name: &str) -> Result<bool> {
    match rustix::fs::statat(dir, name, rustix::fs::AtFlags::empty()) {
        Ok(_) => Ok(true),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(false),
        Err(e) => Err(std::io::Error::from(e).into()),
    }
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
    let lock = RelPath::parse(AREA)?.join(&format!("store/{}", lock::file_name(item)))?;
    match store.get_at_most(&lock, 1 << 16) {
        Ok(text) => Ok(noted(&text).filter(|(of, ..)| of == item).map(|(.., file)| file)),
        Err(e) if e.code() == Code::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Makes the directory of a new data set, visible as a whole.
pub(super) fn create(root: &Path, document: &[u8], durable: bool) -> Result<()> {
    let root = std::path::absolute(root).map_err(|e| Error::from(e).at(root.display()))?;
    let Some(above) = root.parent() else { return Err(Error::invalid("this is no name for a directory").at(root.display())) };
    let name = name_of(&root)?;
    litter::sweep(&root);
    let staged = name_of(&litter::beside(&root)?)?;
    let store = LocalStore::create(above)?.private_dir(staged.join(SKIPPED)?, true).durable(durable);
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
    litter::sweep(&root);
    let aside = litter::beside(&root)?;
    let _held = litter::hold(&root);
    std::fs::rename(&root, &aside).map_err(located)?;
    std::fs::remove_dir_all(&aside).map_err(located)
}

/// The last part of a path.
pub(super) fn name_of(path: &Path) -> Result<RelPath> {
    RelPath::parse(path.file_name().and_then(|name| name.to_str()).unwrap_or_default())
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
