//! Where bytes lie: named objects, written whole and never seen in part.
//!
//! [`Store`] is what a dataset layout asks of its storage. [`LocalStore`] keeps objects as files below a directory,
//! [`MemoryStore`] in memory. [`conformance`] is the suite that every store passes, [`fault::FaultStore`] a store that
//! fails on command. The interface blocks; a store may work concurrently inside.

pub mod bucket;
pub mod cache;
pub(crate) mod clock;
pub mod cloud;
#[doc(hidden)]
pub mod conformance;
mod connect;
pub mod fault;
mod file;
pub mod local;
pub mod memory;
pub(crate) mod turn;
mod zip;

pub use cloud::CloudStore;
pub use connect::{StorageOptions, connect, local_path};
pub use file::{Opening, Pending, Sequential, StoreFile};
pub use local::LocalStore;
pub use memory::MemoryStore;
pub use zip::ZipStore;
pub(crate) use zip::refuse_writing;

use crate::error::{Error, Result};
use crate::uri::RelPath;
use bytes::Bytes;
pub(crate) use sigbank_format::read_at::ReadAt;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// What stands behind a name at one time. Equal versions mean equal bytes; only the store that gave it understands it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version(Arc<str>);

impl Version {
    /// For implementors of [`Store`]: a version of the text that the store tells it by (an ETag, a digest).
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }
    /// The text given to [`Version::new`].
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What [`Store::replace`] demands of the object that it replaces.
#[derive(Debug, Clone, Copy)]
pub enum Expected<'a> {
    /// There must be none.
    Absent,
    /// It must still be what it was when [`Store::get_versioned`] or [`Store::replace`] gave this version.
    Version(&'a Version),
    /// Whatever is there, or nothing. Whoever uses it may undo another writer's work.
    Any,
}

/// What a store says of one object without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Length in bytes.
    pub size: u64,
    /// The version where the store knows it for free; `None` where only [`Store::get_versioned`] can tell (local files).
    pub version: Option<Version>,
}

/// One object of a listing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name, from the root of the store.
    pub path: RelPath,
    /// Its length in bytes.
    pub size: u64,
    /// When it was written, by the storage's clock, which may differ from the host's; `None` where the store does not tell.
    pub modified: Option<SystemTime>,
}

/// One name of a directory, see [`Store::list_dir`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DirEntry {
    /// Something with names below it.
    Dir(RelPath),
    /// An object.
    Object(Entry),
}

impl DirEntry {
    /// The name, from the root of the store.
    pub fn path(&self) -> &RelPath {
        match self {
            Self::Dir(path) | Self::Object(Entry { path, .. }) => path,
        }
    }
}

/// The objects of a listing as they arrive; an error ends it.
pub type Listing<'a> = Box<dyn Iterator<Item = Result<Entry>> + Send + 'a>;

/// What a store can do beyond what all can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// [`Store::create`], [`Store::write_new`], [`Store::replace`] and [`Store::delete`] work (they may still be refused, by a
    /// mode bit or a policy).
    pub write: bool,
    /// [`Store::replace`] can demand a [`Version`].
    pub compare_and_swap: bool,
    /// [`Store::try_lock`] works.
    pub locks: bool,
    /// Who makes a dataset appear here may create an object and delete it again, to take turns with others where there are no locks. Not in
    /// stores of a program's own, which hold what the program expects in them, nor where nothing can be deleted.
    pub turns: bool,
    /// [`Store::flush`] makes objects survive a power failure; where false they do already, or nothing can make them.
    pub flush: bool,
    /// A request costs about as much time as transferring so many bytes: ranges of an object that are nearer to each other are
    /// better read as one, and requests better sent together than one by one. 0 where a request costs next to nothing.
    pub round_trip: u64,
}

/// Named objects. A name holds either nothing or one whole byte string.
///
/// **Atomicity.** `create`, `replace` and the commit of `write_new` act at one instant: whoever reads meanwhile, in any
/// process, gets the old bytes or the new ones, never a mixture or a part. What fails leaves the name as it was.
/// **Ordering.** What one caller did is seen by every later call of everyone (`list` included on the stores of this crate;
/// nothing that must be right should rest on a listing). Nothing is promised of the order in which things survive a power
/// failure, except by [`flush`](Store::flush).
/// **Retries.** A store repeats what can be repeated safely. When the answer to a `create` or `replace` was lost, a
/// repetition may report `AlreadyExists` or `Conflict` although the caller's own first attempt won: where that matters, read
/// the object back and compare.
///
/// Every error names the object as [`locate`](Store::locate) shows it.
///
/// ```
/// use sigbank::store::{Expected, MemoryStore, Store};
/// use sigbank::{Code, uri::RelPath};
/// let store = MemoryStore::new();
/// let name = RelPath::parse("a/counter")?;
/// store.create(&name, &[b"1"])?;
/// assert_eq!(store.create(&name, &[b"9"]).unwrap_err().code(), Code::AlreadyExists);
/// let (bytes, version) = store.get_versioned(&name)?;
/// assert_eq!(&bytes[..], b"1");
/// store.replace(&name, &[b"2"], Expected::Version(&version))?;
/// assert_eq!(store.replace(&name, &[b"3"], Expected::Version(&version)).unwrap_err().code(), Code::Conflict);
/// # Ok::<(), sigbank::Error>(())
/// ```
pub trait Store: Send + Sync + fmt::Debug {
    /// The root as people know it (a directory, an address).
    fn location(&self) -> String;
    /// What tells the root's place from all others, for stores of which several addresses, or one address of several services, may lead to
    /// it: a place within another one begins with its identity and a slash. `None` where the location does.
    fn identity(&self) -> Option<String> {
        None
    }
    /// What this store can do.
    fn capabilities(&self) -> Capabilities;

    /// The whole object and the version that these bytes are. `NotFound` when there is none.
    fn get_versioned(&self, path: &RelPath) -> Result<(Bytes, Version)>;
    /// The bytes of each range, in the order given, all of one version of the object. An empty range gives no bytes. A range
    /// that ends behind the object is `Corrupt` (whoever named it was told of more bytes), one that ends before it starts `Invalid`.
    fn get_ranges(&self, path: &RelPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>>;
    /// Size, and version if that costs no reading. `NotFound` when there is none.
    fn head(&self, path: &RelPath) -> Result<ObjectMeta>;
    /// The object for reading at any position. All reads see the version that was there now: a later replacement or
    /// deletion either does not show or makes reads fail; bytes of two versions are never mixed.
    fn open_read(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>>;
    /// As [`Store::open_read`] for an object whose size is known: it need not be asked for, where that costs a request, and then what
    /// is missing or of another size shows in the first read, as `NotFound` or `Corrupt`.
    fn open_sized(&self, path: &RelPath, size: u64) -> Result<Arc<dyn StoreFile>> {
        let _ = size;
        self.open_read(path)
    }
    /// Begins to open an object and returns without waiting: where that costs requests, one that brings its first bytes (`first` of them,
    /// where it has so many) and tells its size and version with them. For objects of which the beginning will be read. `None` where
    /// [`Store::open_read`] does as well.
    fn open_ahead(&self, path: &RelPath, first: u64) -> Option<Box<dyn Opening>> {
        let _ = (path, first);
        None
    }
    /// As [`Store::open_sized`] for an object that never changes, since a document names it by its digest (`sha256:` and hex digits,
    /// for example): a [cache] needs to ask nothing then. The digest is not compared; an unknown size is asked for.
    fn open_known(&self, path: &RelPath, size: Option<u64>, digest: Option<&str>) -> Result<Arc<dyn StoreFile>> {
        let _ = digest;
        size.map_or_else(|| self.open_read(path), |size| self.open_sized(path, size))
    }
    /// Every object below the directory `prefix` (the root for `None`), at any depth, each once, in no promised order. A prefix is
    /// whole components: `a` lists `a/b` but not `a-prod/b` nor an object named `a`. Nothing there is an empty listing.
    fn list(&self, prefix: Option<&RelPath>) -> Result<Listing<'_>>;

    /// Puts a new object whose bytes are the `parts` one after another. `AlreadyExists` when the name is taken: of any number of
    /// callers, in any processes, exactly one succeeds.
    fn create(&self, path: &RelPath, parts: &[&[u8]]) -> Result<()>;
    /// Begins a new object that is too big to hold in memory. Nothing is seen before [`NewObject::commit`], which then
    /// fails or succeeds as `create` does; dropped without it, nothing remains.
    fn write_new(&self, path: &RelPath) -> Result<Box<dyn NewObject>>;
    /// Puts an object in the place of what is `expected` there, as one step, and returns its version; `Conflict` when something
    /// else is there (`AlreadyExists` for [`Expected::Absent`]).
    fn replace(&self, path: &RelPath, parts: &[&[u8]], expected: Expected<'_>) -> Result<Version>;
    /// Takes the object away. No error when there is none, so that it can be repeated.
    fn delete(&self, path: &RelPath) -> Result<()>;
    /// The group commit: when it returns, the named objects and the directories that lead to them survive a power failure,
    /// and so does whatever was deleted beside them. More may be flushed. `NotFound` for a name without an object.
    fn flush(&self, paths: &[RelPath]) -> Result<()>;

    /// Takes the lock of this name, or `None` while another thread or process has it. It is advice among those who ask:
    /// reading and writing go on regardless. It is free again when the guard is dropped or its process is dead. `Unsupported`
    /// where [`Capabilities::locks`] is false. A name is one path component.
    fn try_lock(&self, name: &str) -> Result<Option<LockGuard>> {
        Err(Error::unsupported(format!("this store has no locks, and {name:?} was asked for")).at(self.location()))
    }

    /// Begins an object that grows: a log of one writer. `None` where the store has no such thing; then each entry must be an
    /// object of its own. `AlreadyExists` when the name is taken.
    fn create_log(&self, path: &RelPath) -> Result<Option<Box<dyn Log>>> {
        let _ = path;
        Ok(None)
    }

    /// Deletes what killed writers left half-written and is older than `older_than`, never what a living one writes, and says how
    /// many files that were. A store that publishes whole objects only has none.
    fn sweep(&self, older_than: Duration) -> Result<usize> {
        let _ = older_than;
        Ok(0)
    }

    // Conveniences, overridden where a store can do better.

    /// Takes away all that is below the directory `dir`. No error when there is nothing. What someone else puts there meanwhile
    /// may stay.
    fn delete_below(&self, dir: &RelPath) -> Result<()> {
        let found = self.list(Some(dir))?.map(|entry| entry.map(|e| e.path)).collect::<Result<Vec<_>>>()?;
        found.iter().try_for_each(|path| self.delete(path))
    }

    /// The whole object. `NotFound` when there is none.
    fn get(&self, path: &RelPath) -> Result<Bytes> {
        Ok(self.get_versioned(path)?.0)
    }
    /// The whole object unless it is longer than `most` bytes, which is a `Limit` error and reads nothing, or little.
    fn get_at_most(&self, path: &RelPath, most: u64) -> Result<Bytes> {
        match self.head(path)?.size {
            size if size > most => Err(over(size, most).at(self.locate(path))),
            _ => self.get(path),
        }
    }
    /// The names directly in the directory `dir` (the root for `None`), sorted, directories first. Nothing there is empty.
    fn list_dir(&self, dir: Option<&RelPath>) -> Result<Vec<DirEntry>> {
        let mut names = std::collections::BTreeSet::new();
        for entry in self.list(dir)? {
            let entry = entry?;
            let below = match dir {
                Some(dir) => entry.path.strip_prefix(dir),
                None => Some(entry.path.clone()),
            };
            let Some(below) = below else { continue };
            match below.as_str().split_once('/') {
                None => names.insert(DirEntry::Object(entry)),
                Some((first, _)) => names.insert(DirEntry::Dir(match dir {
                    Some(dir) => dir.join(first)?,
                    None => RelPath::parse(first)?,
                })),
            };
        }
        Ok(names.into_iter().collect())
    }
    /// Where the lock of this name is, for messages.
    fn locate_lock(&self, name: &str) -> String {
        format!("{} (lock {name:?})", self.location())
    }
    /// The object's name as people know it, for messages.
    fn locate(&self, path: &RelPath) -> String {
        format!("{}/{path}", self.location().trim_end_matches('/'))
    }
}

/// Whether there is an object of this name. A `NotFound` that has a remedy is no answer to that: it is an error of the place itself, such as
/// a bucket that does not exist.
///
/// ```
/// use sigbank::store::{MemoryStore, exists};
/// assert!(!exists(&MemoryStore::new(), &sigbank::uri::RelPath::parse("a")?)?);
/// # Ok::<(), sigbank::Error>(())
/// ```
pub fn exists(store: &dyn Store, path: &RelPath) -> Result<bool> {
    match store.head(path) {
        Ok(_) => Ok(true),
        Err(e) if e.code() == crate::Code::NotFound && e.remedy_text().is_none() => Ok(false),
        Err(e) => Err(e),
    }
}

/// Takes the lock of this name, waiting at most `timeout` for it; a `Conflict` that names the lock when that was not enough.
///
/// ```
/// use sigbank::store::{MemoryStore, Store, lock};
/// use std::time::Duration;
/// let store = MemoryStore::new();
/// let guard = lock(&store, "commit", Duration::ZERO)?;
/// assert_eq!(lock(&store, "commit", Duration::from_millis(5)).unwrap_err().code(), sigbank::Code::Conflict);
/// drop(guard);
/// assert!(store.try_lock("commit")?.is_some());
/// # Ok::<(), sigbank::Error>(())
/// ```
pub fn lock(store: &dyn Store, name: &str, timeout: Duration) -> Result<LockGuard> {
    poll(timeout, || store.try_lock(name))?.ok_or_else(|| busy(timeout).at(store.locate_lock(name)))
}

/// What `attempt` gives as soon as it gives something; `None` when it did not within `timeout`.
pub(crate) fn poll<T>(timeout: Duration, mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(50);
    loop {
        if let Some(got) = attempt()? {
            return Ok(Some(got));
        }
        let left = timeout.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// The error of a lock that did not become free in time.
pub(crate) fn busy(timeout: Duration) -> Error {
    Error::conflict(format!("the lock is still held by another writer after {:.1} s", timeout.as_secs_f64()))
        .remedy("wait for the other writer, or end it: a lock ends with its process, and its file need not be deleted")
}

/// An object that is being written, see [`Store::write_new`]. What it writes is buffered by the caller, if at all.
pub trait NewObject: io::Write + Send + fmt::Debug {
    /// Publishes what was written under its name: `AlreadyExists` when the name is taken by now. After a failed write it fails too.
    fn commit(self: Box<Self>) -> Result<()>;
}

/// An object that grows, see [`Store::create_log`]. Readers see what was appended so far; no flush is implied, so that a
/// power failure may leave less of it, or zeros.
pub trait Log: Send + Sync + fmt::Debug {
    /// Adds bytes in one step: whoever appends from other threads meanwhile comes before or after. What outlives the end of
    /// the process is all of them, unless this returned an error: then any part.
    fn append(&self, bytes: &[u8]) -> Result<()>;
}

/// A held lock, free again when dropped, see [`Store::try_lock`].
#[must_use = "the lock is free again when this is dropped"]
pub struct LockGuard {
    release: Option<Box<dyn FnOnce(bool) + Send + Sync>>,
}

impl LockGuard {
    /// For implementors of [`Store`]: a guard that does this when dropped, with `true` where the lock is retired.
    pub fn new(release: impl FnOnce(bool) + Send + Sync + 'static) -> Self {
        Self { release: Some(Box::new(release)) }
    }
    /// Frees the lock and removes what the store keeps for its name: for names that are used once.
    pub fn retire(mut self) {
        if let Some(release) = self.release.take() {
            release(true);
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockGuard")
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release(false);
        }
    }
}

/// The length of a range inside an object of `size` bytes, or the error that [`Store::get_ranges`] promises.
pub(crate) fn range_len(range: &Range<u64>, size: u64) -> Result<usize> {
    if range.start > range.end {
        return Err(Error::invalid(format!("the range {}..{} ends before it starts", range.start, range.end)));
    }
    if range.end > size {
        return Err(Error::corrupt(format!("the bytes {}..{} are expected, but the object has {size}", range.start, range.end))
            .remedy("it was cut short, or what names this range is of another version: verify the dataset"));
    }
    usize::try_from(range.end - range.start).map_err(|_| Error::limit("a range is larger than the address space"))
}

/// A zeroed buffer, or a `Limit` error where the memory is not to be had.
pub(crate) fn zeroed(len: u64) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    let wanted = usize::try_from(len).ok().filter(|n| buffer.try_reserve_exact(*n).is_ok());
    match wanted {
        Some(n) => {
            buffer.resize(n, 0);
            Ok(buffer)
        }
        None => Err(Error::limit(format!("{len} bytes of memory are not to be had")).remedy("read the object in ranges")),
    }
}

/// The error of an object that is longer than the caller takes.
pub(crate) fn over(size: u64, most: u64) -> Error {
    Error::limit(format!("the object has {size} bytes, where at most {most} are taken"))
        .remedy("it is not what is expected here, or raise the limit if it can be trusted")
}
/// The error of a name that has no object.
pub(crate) fn missing() -> Error {
    Error::not_found("there is no such object")
}
/// The error of a name that is taken.
pub(crate) fn taken() -> Error {
    Error::already_exists("the name is taken, and what is there is not replaced")
}
/// The error of an object that is not what was expected.
pub(crate) fn changed() -> Error {
    Error::conflict("the object is not the expected version: another writer replaced or deleted it")
        .remedy("read it again, redo the change on that, and retry")
}
/// A lock's name is one component of a path, since the local store makes a file of it.
pub(crate) fn lock_name(name: &str) -> Result<RelPath> {
    match RelPath::parse(name) {
        Ok(path) if path.parent().is_none() => Ok(path),
        _ => Err(Error::invalid(format!("the lock name {name:?} is not one path component"))),
    }
}
