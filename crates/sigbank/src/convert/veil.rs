//! A store whose documents appear last: what makes a dataset visible is kept in memory until all that it names is there.

use crate::error::{Code, Error, Result};
use crate::layout::sedpack::{LIST, ROOT};
use crate::store::{
    Capabilities, DirEntry, Expected, Listing, LockGuard, MemoryStore, NewObject, ObjectMeta, Opening, Store, StoreFile, Version,
};
use crate::uri::RelPath;
use bytes::Bytes;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A bucket in which a new Sedpack dataset is made. Shards go there at once; root, lists and what writers note for each other stay in
/// memory, where one process writes with the locks that a bucket does not have, until [`Veil::lift`].
#[derive(Debug, Clone)]
pub(super) struct Veil(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bucket: Arc<dyn Store>,
    hidden: MemoryStore,
    /// What was put into the bucket, where it is to be removed if the dataset never appears.
    made: Option<Mutex<Vec<RelPath>>>,
}

fn is_hidden(path: &RelPath) -> bool {
    path.as_str() == ROOT || path.file_name() == LIST || path.as_str().starts_with(".sigbank/")
}

impl Veil {
    /// With `keep`, what is put there stays when the run fails: for names that the next run uses again.
    pub(super) fn new(bucket: Arc<dyn Store>, keep: bool) -> Self {
        Self(Arc::new(Inner { bucket, hidden: MemoryStore::new(), made: (!keep).then(Mutex::default) }))
    }

    fn of(&self, path: &RelPath) -> &dyn Store {
        if is_hidden(path) { &self.0.hidden } else { &*self.0.bucket }
    }

    /// Puts the lists and, when they are there, the root.
    pub(super) fn lift(&self) -> Result<()> {
        let bucket = &*self.0.bucket;
        let root = RelPath::parse(ROOT)?;
        let mut lists = Vec::new();
        for entry in self.0.hidden.list(None)? {
            let path = entry?.path;
            if path.file_name() == LIST {
                lists.push(path);
            }
        }
        // Those below before those that name them.
        lists.sort_by_key(|path| (std::cmp::Reverse(path.as_str().matches('/').count()), path.clone()));
        for path in &lists {
            let bytes = self.0.hidden.get(path)?;
            match bucket.create(path, &[&bytes]) {
                Ok(()) => self.made(path),
                Err(e) if e.code() == Code::AlreadyExists && bucket.get(path)? == bytes => {}
                Err(e) if e.code() == Code::AlreadyExists => {
                    return Err(Error::conflict(
                        "there is such a list already, of another run that makes a dataset here or was killed",
                    )
                    .at(bucket.locate(path))
                    .remedy("choose another destination; or, if nobody writes there, remove what lies there and run again"));
                }
                Err(e) => return Err(e),
            }
        }
        bucket.flush(&lists)?;
        match bucket.create(&root, &[&self.0.hidden.get(&root)?]) {
            Err(e) if e.code() == Code::AlreadyExists => Err(taken(bucket, &root)),
            // Whatever became of it: what the root names must stay.
            done => {
                self.forget();
                done
            }
        }
    }

    fn made(&self, path: &RelPath) {
        self.0.made(path);
    }

    fn forget(&self) {
        if let Some(mut made) = self.0.lock() {
            made.clear();
        }
    }
}

/// The error of a destination that has a dataset.
pub(super) fn taken(bucket: &dyn Store, root: &RelPath) -> Error {
    Error::already_exists("a dataset is there already, and nothing is replaced")
        .at(bucket.locate(root))
        .remedy("choose another destination, or remove it first")
}

impl Inner {
    fn lock(&self) -> Option<MutexGuard<'_, Vec<RelPath>>> {
        self.made.as_ref().map(|made| made.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn made(&self, path: &RelPath) {
        if !is_hidden(path)
            && let Some(mut made) = self.lock()
        {
            made.push(path.clone());
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for path in self.lock().map(|mut made| std::mem::take(&mut *made)).unwrap_or_default() {
            // What cannot be removed is in nobody's way: nothing names it.
            let _ = self.bucket.delete(&path);
        }
    }
}

#[derive(Debug)]
struct NewVeiled {
    object: Box<dyn NewObject>,
    path: RelPath,
    inner: Arc<Inner>,
}

impl Write for NewVeiled {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.object.write(buf)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.object.flush()
    }
}

impl NewObject for NewVeiled {
    fn commit(self: Box<Self>) -> Result<()> {
        self.object.commit()?;
        self.inner.made(&self.path);
        Ok(())
    }
}

impl Store for Veil {
    fn location(&self) -> String {
        self.0.bucket.location()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { compare_and_swap: true, locks: true, flush: false, ..self.0.bucket.capabilities() }
    }
    fn get_versioned(&self, path: &RelPath) -> Result<(Bytes, Version)> {
        self.of(path).get_versioned(path)
    }
    fn get_at_most(&self, path: &RelPath, most: u64) -> Result<Bytes> {
        self.of(path).get_at_most(path, most)
    }
    fn get_ranges(&self, path: &RelPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.of(path).get_ranges(path, ranges)
    }
    fn head(&self, path: &RelPath) -> Result<ObjectMeta> {
        self.of(path).head(path)
    }
    fn open_read(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        self.of(path).open_read(path)
    }
    fn open_ahead(&self, path: &RelPath, first: u64) -> Option<Box<dyn Opening>> {
        self.of(path).open_ahead(path, first)
    }
    fn list(&self, prefix: Option<&RelPath>) -> Result<Listing<'_>> {
        match prefix {
            Some(path) if path.as_str() == ".sigbank" || is_hidden(path) => self.0.hidden.list(prefix),
            _ => Ok(Box::new(self.0.hidden.list(prefix)?.chain(self.0.bucket.list(prefix)?))),
        }
    }
    fn list_dir(&self, dir: Option<&RelPath>) -> Result<Vec<DirEntry>> {
        match dir {
            Some(path) if path.as_str() == ".sigbank" || is_hidden(path) => self.0.hidden.list_dir(dir),
            _ => {
                let mut all = self.0.hidden.list_dir(dir)?;
                all.extend(self.0.bucket.list_dir(dir)?);
                all.sort_unstable();
                all.dedup();
                Ok(all)
            }
        }
    }
    fn create(&self, path: &RelPath, parts: &[&[u8]]) -> Result<()> {
        self.of(path).create(path, parts)?;
        self.made(path);
        Ok(())
    }
    fn write_new(&self, path: &RelPath) -> Result<Box<dyn NewObject>> {
        let object = self.of(path).write_new(path)?;
        Ok(Box::new(NewVeiled { object, path: path.clone(), inner: Arc::clone(&self.0) }))
    }
    fn replace(&self, path: &RelPath, parts: &[&[u8]], expected: Expected<'_>) -> Result<Version> {
        self.of(path).replace(path, parts, expected)
    }
    fn delete(&self, path: &RelPath) -> Result<()> {
        self.of(path).delete(path)
    }
    fn flush(&self, _: &[RelPath]) -> Result<()> {
        Ok(())
    }
    fn try_lock(&self, name: &str) -> Result<Option<LockGuard>> {
        self.0.hidden.try_lock(name)
    }
    fn locate(&self, path: &RelPath) -> String {
        self.0.bucket.locate(path)
    }
}

#[cfg(test)]
mod tests;
