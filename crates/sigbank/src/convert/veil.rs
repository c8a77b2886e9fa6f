//! A store whose documents appear last: what makes a dataset visible is kept in memory until all that it names is there.

use crate::error::{Code, Error, Result};
use crate::layout::sedpack::{LIST, ROOT};
use crate::layout::{Layout, appear};
use crate::store::{
    Capabilities, DirEntry, Expected, Listing, LockGuard, MemoryStore, NewObject, ObjectMeta, Opening, Store, StoreFile, Version,
};
use crate::uri::RelPath;
use bytes::Bytes;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Requests in flight at once where much is removed.
const AT_ONCE: usize = 16;

/// Those that this process is filling.
static FILLING: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// A bucket in which a new Sedpack dataset is made. Shards go there at once; root, lists and what writers note for each other stay in
/// memory, where one process writes with the locks that a bucket does not have, until [`Veil::lift`].
#[derive(Debug, Clone)]
pub(super) struct Veil(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bucket: Arc<dyn Store>,
    hidden: MemoryStore,
    /// What was put into the bucket, where it is to be removed if the dataset never appears.
    made: Option<Mutex<Made>>,
}

#[derive(Debug, Default)]
struct Made {
    paths: Vec<RelPath>,
    /// It was removed: what a thread puts there after all is removed at once.
    over: bool,
}

fn is_hidden(path: &RelPath) -> bool {
    path.as_str() == ROOT || path.file_name() == LIST || path.as_str().starts_with(".sigbank/")
}

impl Veil {
    /// With `keep`, what is put there stays when the run fails: for names that the next run uses again.
    pub(super) fn new(bucket: Arc<dyn Store>, keep: bool) -> Self {
        let inner = Arc::new(Inner { bucket, hidden: MemoryStore::new(), made: (!keep).then(Mutex::default) });
        let mut filling = FILLING.lock().unwrap_or_else(PoisonError::into_inner);
        filling.retain(|other| other.strong_count() > 0);
        filling.push(Arc::downgrade(&inner));
        drop(filling);
        Self(inner)
    }

    /// Takes away what was put there, if the dataset has not appeared, and whatever is put there from now on.
    pub(super) fn remove(&self) {
        self.0.remove();
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
                Ok(()) => self.0.made(path),
                Err(e) if e.code() == Code::AlreadyExists && bucket.get(path)? == bytes => {}
                Err(e) if e.code() == Code::AlreadyExists => {
                    return Err(Error::conflict(
                        "there is such a list already, of another run that makes a dataset here or was killed",
                    )
                    .at(bucket.locate(path))
                    .remedy(
                        "choose another destination; or, if nobody writes there, remove what a killed run left and run again: \
                         sigbank gc ADDRESS --unpublished --older-than 1h --delete",
                    ));
                }
                Err(e) => return Err(e),
            }
        }
        bucket.flush(&lists)?;
        // Of two that are about to appear, of whatever layout, one does.
        let _turn = appear::alone(bucket, Layout::Sedpack)?;
        match bucket.create(&root, &[&self.0.hidden.get(&root)?]) {
            Err(e) if e.code() == Code::AlreadyExists => Err(taken(bucket, &root)),
            // Whatever became of it: what the root names must stay.
            done => {
                self.forget();
                done
            }
        }
    }

    fn forget(&self) {
        if let Some(mut made) = self.0.lock() {
            made.paths.clear();
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
    fn lock(&self) -> Option<MutexGuard<'_, Made>> {
        self.made.as_ref().map(|made| made.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn made(&self, path: &RelPath) {
        let Some(mut made) = self.lock() else { return };
        if made.over {
            drop(made);
            let _ = self.bucket.delete(path);
        } else {
            made.paths.push(path.clone());
        }
    }
    fn remove(&self) {
        let Some(mut made) = self.lock() else { return };
        made.over = true;
        let paths = std::mem::take(&mut made.paths);
        drop(made);
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                // What cannot be removed is in nobody's way: nothing names it, and a gc finds it.
                let _ = self.bucket.delete(path);
            }
        };
        std::thread::scope(|scope| {
            (1..AT_ONCE.min(paths.len())).for_each(|_| drop(scope.spawn(work)));
            work();
        });
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes what this process is putting into buckets, for one that is about to end; gives the number of datasets.
pub(super) fn abandon_all() -> usize {
    let all = std::mem::take(&mut *FILLING.lock().unwrap_or_else(PoisonError::into_inner));
    let begun = |inner: &Arc<Inner>| inner.lock().is_some_and(|made| !made.paths.is_empty());
    let all: Vec<_> = all.iter().filter_map(Weak::upgrade).filter(begun).collect();
    all.iter().for_each(|inner| inner.remove());
    all.len()
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
        if !is_hidden(&self.path) {
            self.inner.made(&self.path);
        }
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
        if !is_hidden(path) {
            self.0.made(path);
        }
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
