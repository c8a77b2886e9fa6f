//! Objects in memory, with the promises of any other store: for tests, and for data sets that need no disk.

use super::*;
use crate::uri::RelPath;
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// A store in memory. Clones are the same store.
///
/// ```
/// use sigbank::store::{MemoryStore, Store};
/// use sigbank::uri::RelPath;
/// let store = MemoryStore::new();
/// store.create(&RelPath::parse("a/b")?, &[b"12", b"3"])?;
/// assert_eq!(&store.get(&RelPath::parse("a/b")?)?[..], b"123");
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Shared>);

#[derive(Default)]
struct Shared {
    objects: RwLock<Objects>,
    locked: Mutex<HashSet<String>>,
}

#[derive(Default)]
struct Objects {
    by_path: BTreeMap<RelPath, Object>,
    // Counts writes of the whole store, so that a name that was deleted and made again never has an old version.
    writes: u64,
}

#[derive(Clone)]
struct Object {
    bytes: Bytes,
    number: u64,
    written: SystemTime,
}

impl Objects {
    fn put(&mut self, path: &RelPath, bytes: Bytes) -> Version {
        self.writes += 1;
        self.by_path.insert(path.clone(), Object { bytes, number: self.writes, written: SystemTime::now() });
        version(self.writes)
    }
}

fn version(number: u64) -> Version {
    Version::new(number.to_string())
}

// Every critical section leaves the maps whole, so a panic of another thread is no reason to stop.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
    /// As if the object had been written so much earlier.
    #[cfg(test)]
    pub(crate) fn make_older(&self, path: &RelPath, by: Duration) {
        let mut objects = self.0.objects.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = objects.by_path.get_mut(path) {
            object.written -= by;
        }
    }
    fn find(&self, path: &RelPath) -> Result<(Bytes, u64)> {
        let objects = self.0.objects.read().unwrap_or_else(PoisonError::into_inner);
        let found = objects.by_path.get(path).map(|object| (object.bytes.clone(), object.number));
        found.ok_or_else(|| missing().at(self.locate(path)))
    }
    fn change<T>(&self, path: &RelPath, f: impl FnOnce(&mut Objects) -> Result<T>) -> Result<T> {
        f(&mut self.0.objects.write().unwrap_or_else(PoisonError::into_inner)).map_err(|e| e.at(self.locate(path)))
    }
    fn create_bytes(&self, path: &RelPath, bytes: Bytes) -> Result<Version> {
        self.change(path, |objects| match objects.by_path.contains_key(path) {
            true => Err(taken()),
            false => Ok(objects.put(path, bytes)),
        })
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore")
    }
}

impl Store for MemoryStore {
    fn location(&self) -> String {
        "memory:/".into()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { write: true, compare_and_swap: true, locks: true, turns: true, flush: false, round_trip: 0 }
    }
    fn get_versioned(&self, path: &RelPath) -> Result<(Bytes, Version)> {
        self.find(path).map(|(bytes, number)| (bytes, version(number)))
    }
    fn get_ranges(&self, path: &RelPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (bytes, _) = self.find(path)?;
        let slice = |range: &Range<u64>| {
            let len = range_len(range, bytes.len() as u64)?;
            let start = range.start as usize; // at most the length, after the check
            Ok(bytes.slice(start..start + len))
        };
        ranges.iter().map(slice).collect::<Result<_>>().map_err(|e: Error| e.at(self.locate(path)))
    }
    fn head(&self, path: &RelPath) -> Result<ObjectMeta> {
        let (bytes, number) = self.find(path)?;
        Ok(ObjectMeta { size: bytes.len() as u64, version: Some(version(number)) })
    }
    fn open_read(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        Ok(Arc::new(MemoryFile { bytes: self.find(path)?.0, location: self.locate(path) }))
    }
    fn list(&self, prefix: Option<&RelPath>) -> Result<Listing<'_>> {
        let objects = self.0.objects.read().unwrap_or_else(PoisonError::into_inner);
        let inside = |path: &RelPath| prefix.is_none_or(|dir| path.strip_prefix(dir).is_some());
        let found: Vec<Entry> = objects
            .by_path
            .iter()
            .filter(|(path, _)| inside(path))
            .map(|(path, object)| Entry { path: path.clone(), size: object.bytes.len() as u64, modified: Some(object.written) })
            .collect();
        Ok(Box::new(found.into_iter().map(Ok)))
    }
    fn create(&self, path: &RelPath, parts: &[&[u8]]) -> Result<()> {
        self.create_bytes(path, parts.concat().into()).map(|_| ())
    }
    fn write_new(&self, path: &RelPath) -> Result<Box<dyn NewObject>> {
        Ok(Box::new(NewMemoryObject { store: self.clone(), path: path.clone(), bytes: Vec::new() }))
    }
    fn replace(&self, path: &RelPath, parts: &[&[u8]], expected: Expected<'_>) -> Result<Version> {
        let bytes = Bytes::from(parts.concat());
        match expected {
            Expected::Absent => self.create_bytes(path, bytes),
            Expected::Any => self.change(path, |objects| Ok(objects.put(path, bytes))),
            Expected::Version(wanted) => self.change(path, |objects| match objects.by_path.get(path) {
                Some(object) if version(object.number) == *wanted => Ok(objects.put(path, bytes)),
                _ => Err(changed()),
            }),
        }
    }
    fn delete(&self, path: &RelPath) -> Result<()> {
        self.change(path, |objects| {
            objects.by_path.remove(path);
            Ok(())
        })
    }
    fn flush(&self, paths: &[RelPath]) -> Result<()> {
        paths.iter().try_for_each(|path| self.find(path).map(|_| ()))
    }
    fn try_lock(&self, name: &str) -> Result<Option<LockGuard>> {
        lock_name(name)?;
        if !held(&self.0.locked).insert(name.to_owned()) {
            return Ok(None);
        }
        let (shared, name) = (Arc::clone(&self.0), name.to_owned());
        Ok(Some(LockGuard::new(move |_| {
            held(&shared.locked).remove(&name);
        })))
    }
}

#[derive(Debug)]
struct MemoryFile {
    bytes: Bytes,
    location: String,
}

impl ReadAt for MemoryFile {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> sigbank_format::Result<()> {
        self.bytes.read_at(offset, buf)
    }
}

impl StoreFile for MemoryFile {
    fn location(&self) -> &str {
        &self.location
    }
    fn stream(self: Arc<Self>) -> Box<dyn io::Read + Send> {
        Box::new(super::Sequential::new(self))
    }
}

#[derive(Debug)]
struct NewMemoryObject {
    store: MemoryStore,
    path: RelPath,
    bytes: Vec<u8>,
}

impl Write for NewMemoryObject {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(buf);
        Ok(buf.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewObject for NewMemoryObject {
    fn commit(self: Box<Self>) -> Result<()> {
        self.store.create_bytes(&self.path, self.bytes.into()).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conformance() {
        super::super::conformance::run(&|| Arc::new(MemoryStore::new()));
    }
}
