//! A bounded cache on the local disk of what is read from far away.

mod block;
mod disk;
mod evict;
mod fetch;
mod file;
mod settings;

pub use settings::{OPTIONS, parse_size};

use super::*;
use disk::Disk;
use fetch::Fetches;
use file::CachedFile;
use sha2::{Digest as _, Sha256};

/// What identifies an object's content in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key([u8; 16]);

/// The store with a cache before it, if `options` ask for one: `cache_dir`, a directory that is made where it is not there, and
/// `cache_size`, at most so many bytes in it (as [`parse_size`] reads them; 10 GB if it is not said). A store of this machine
/// ([`Capabilities::round_trip`] 0) comes back as it is: local data is never cached.
///
/// - **What is cached** is what is opened for reading, in blocks of 1 MiB, so that a small record does not fetch its whole
///   shard. It is known by its address and its digest, where [`Store::open_known`] gives one, and else by its address and version. An
///   object whose version its store does not tell is not cached, nor is what is read whole ([`Store::get`]): those are documents that
///   may change.
/// - **Sharing.** Any number of processes and users may use one directory at once; files and directories in it have its group bits and mode.
///   Who may write there is trusted: the checksums find damage, not malice.
/// - **Care.** Every piece is compared with its checksum when it is read, and fetched again where that does not match. Files
///   appear whole or not at all. What a killed process leaves does not hinder or mislead the next one.
/// - **Space.** What was not used for longest goes first. Where nothing can be written (no permission, a full disk, a bound smaller than
///   two blocks), reading goes on without, after one warning on standard error.
///
/// # Errors
/// `Invalid` for a size that is none, or one without a directory. Trouble with the directory is no error.
///
/// ```
/// use sigbank::store::{MemoryStore, Store, StorageOptions, cache};
/// use std::sync::Arc;
/// let dir = tempfile::tempdir()?;
/// let options: StorageOptions =
///     [("cache_dir", dir.path().display().to_string()), ("cache_size", "50GB".into())].map(|(k, v)| (k.to_owned(), v)).into();
/// let store = cache::wrap(Arc::new(MemoryStore::new()), &options)?; // As it was: nothing is nearer than memory.
/// assert_eq!(format!("{store:?}"), "MemoryStore");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn wrap(store: Arc<dyn Store>, options: &StorageOptions) -> Result<Arc<dyn Store>> {
    let Some(settings) = settings::Settings::read(options)? else { return Ok(store) };
    if store.capabilities().round_trip == 0 {
        return Ok(store);
    }
    let disk = Disk::open(&settings.dir, settings.bound);
    let cache = Cache { scope: settings.scope, disk, fetches: Arc::default() };
    Ok(Arc::new(CachedStore { inner: store, cache: Arc::new(cache) }))
}

/// What all files of one store share.
#[derive(Debug)]
struct Cache {
    /// What distinguishes stores whose addresses look alike.
    scope: String,
    disk: Disk,
    fetches: Arc<Fetches>,
}

impl Cache {
    fn key(&self, location: &str, kind: &str, content: &str) -> Key {
        let mut hash = Sha256::new();
        for part in [&*self.scope, location, kind, content] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let mut key = [0; 16];
        key.iter_mut().zip(hash.finalize()).for_each(|(to, byte)| *to = byte);
        Key(key)
    }
}

/// A store behind the cache, see [`wrap`].
#[derive(Debug)]
struct CachedStore {
    inner: Arc<dyn Store>,
    cache: Arc<Cache>,
}

impl CachedStore {
    /// Begins to read an object that is known by its version, which costs a request.
    fn open_version(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        let file = self.inner.open_read(path)?;
        let Some(version) = file.version() else { return Ok(file) };
        let key = self.cache.key(file.location(), "version", version.as_str());
        Ok(CachedFile::opened(Arc::clone(&self.cache), key, file))
    }

    /// Begins to read an object that is known by its digest.
    fn open_digest(&self, path: &RelPath, size: Option<u64>, digest: &str) -> Result<Arc<dyn StoreFile>> {
        let location = self.inner.locate(path);
        let key = self.cache.key(&location, "digest", digest);
        let size = match size {
            Some(size) => size,
            None => match self.cache.disk.size(&key) {
                Some(size) => size,
                None => {
                    let file = self.inner.open_read(path)?;
                    self.cache.disk.put_size(&key, file.size());
                    return Ok(CachedFile::opened(Arc::clone(&self.cache), key, file));
                }
            },
        };
        Ok(CachedFile::unopened(Arc::clone(&self.cache), key, Arc::clone(&self.inner), path.clone(), location, size))
    }
}

impl Store for CachedStore {
    fn open_read(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        self.open_version(path)
    }
    fn open_sized(&self, path: &RelPath, size: u64) -> Result<Arc<dyn StoreFile>> {
        let file = self.open_version(path)?;
        if file.size() != size {
            let found = file.size();
            return Err(Error::corrupt(format!("{size} bytes are expected, {found} were found"))
                .at(self.locate(path))
                .remedy("it was cut short or replaced: restore it from a copy"));
        }
        Ok(file)
    }
    fn open_known(&self, path: &RelPath, size: Option<u64>, digest: Option<&str>) -> Result<Arc<dyn StoreFile>> {
        match (digest, size) {
            (Some(digest), _) => self.open_digest(path, size, digest),
            (None, Some(size)) => self.open_sized(path, size),
            (None, None) => self.open_version(path),
        }
    }

    // All else is the store's own.

    fn location(&self) -> String {
        self.inner.location()
    }
    fn identity(&self) -> Option<String> {
        self.inner.identity()
    }
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    fn get_versioned(&self, path: &RelPath) -> Result<(Bytes, Version)> {
        self.inner.get_versioned(path)
    }
    fn get_ranges(&self, path: &RelPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(path, ranges)
    }
    fn head(&self, path: &RelPath) -> Result<ObjectMeta> {
        self.inner.head(path)
    }
    fn list(&self, prefix: Option<&RelPath>) -> Result<Listing<'_>> {
        self.inner.list(prefix)
    }
    fn create(&self, path: &RelPath, parts: &[&[u8]]) -> Result<()> {
        self.inner.create(path, parts)
    }
    fn write_new(&self, path: &RelPath) -> Result<Box<dyn NewObject>> {
        self.inner.write_new(path)
    }
    fn replace(&self, path: &RelPath, parts: &[&[u8]], expected: Expected<'_>) -> Result<Version> {
        self.inner.replace(path, parts, expected)
    }
    fn delete(&self, path: &RelPath) -> Result<()> {
        self.inner.delete(path)
    }
    fn flush(&self, paths: &[RelPath]) -> Result<()> {
        self.inner.flush(paths)
    }
    fn try_lock(&self, name: &str) -> Result<Option<LockGuard>> {
        self.inner.try_lock(name)
    }
    fn create_log(&self, path: &RelPath) -> Result<Option<Box<dyn Log>>> {
        self.inner.create_log(path)
    }
    fn sweep(&self, older_than: Duration) -> Result<usize> {
        self.inner.sweep(older_than)
    }
    fn delete_below(&self, dir: &RelPath) -> Result<()> {
        self.inner.delete_below(dir)
    }
    fn get(&self, path: &RelPath) -> Result<Bytes> {
        self.inner.get(path)
    }
    fn get_at_most(&self, path: &RelPath, most: u64) -> Result<Bytes> {
        self.inner.get_at_most(path, most)
    }
    fn list_dir(&self, dir: Option<&RelPath>) -> Result<Vec<DirEntry>> {
        self.inner.list_dir(dir)
    }
    fn locate_lock(&self, name: &str) -> String {
        self.inner.locate_lock(name)
    }
    fn locate(&self, path: &RelPath) -> String {
        self.inner.locate(path)
    }
}
