//! Objects as files below a directory.

mod dirs;
mod lock;
#[cfg(test)]
mod process_tests;
mod root;
mod sweep;
#[cfg(test)]
mod tests;
mod walk;
mod write;

use super::*;
use crate::Code;
use root::{Root, os};
use rustix::fs::AtFlags;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use write::{NewFile, TEMPORARY, Tactic};

/// How long a writer waits for the others of a directory; each holds the lock for one small write only.
const PATIENCE: Duration = Duration::from_secs(60);
/// Up to so many objects are flushed one by one; more are cheaper together with everything else of the filesystem.
const FEW: usize = 8;

/// A directory whose files are the objects.
///
/// - **New objects** are written to a temporary file (`.sigbank-tmp-…`) beside their name and then take it without replacing
///   anything (`renameat2`, else a hard link, else, on filesystems with neither, a claim file, which is weaker: a reader may meet
///   an empty file for an instant). Replacements are renamed over the old file. A killed writer leaves at most a temporary file, which no
///   listing shows. New files and directories honour the umask.
/// - **Replacing and deleting** happen under a lock, the file `.sigbank/lock` (see [`private_dir`](Self::private_dir)), so that a
///   comparison holds until the rename. A version is the SHA-256 of the content: programs that know no sigbank may change the file too.
/// - **Links.** A symbolic link inside the directory may lead anywhere inside it; one that leads out is refused
///   ([`Invalid`](Code::Invalid)). A listing does not enter linked directories.
/// - **Reading** never writes, so that it works on read-only mounts and in other people's directories.
/// - **Durability** is [`flush`](Store::flush) (`syncfs`, or `fsync` of the files and their directories); see [`durable`](Self::durable).
///
/// ```
/// use sigbank::store::{LocalStore, Store};
/// use sigbank::uri::RelPath;
/// let dir = tempfile::tempdir()?;
/// let store = LocalStore::create(dir.path().join("ds"))?;
/// store.create(&RelPath::parse("a/b.txt")?, &[b"text"])?;
/// assert_eq!(std::fs::read(dir.path().join("ds/a/b.txt"))?, b"text");
/// let e = store.get(&RelPath::parse("a/c.txt")?).unwrap_err();
/// assert!(e.path().unwrap().ends_with("ds/a/c.txt"));
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug)]
pub struct LocalStore {
    root: Root,
    durable: bool,
    private: RelPath,
    stage_privately: bool,
    tactic: Tactic,
}

impl LocalStore {
    /// The store of a directory that is there: `NotFound` otherwise.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let given: PathBuf = root.into();
        let shown = given.display().to_string();
        // Absolute, so that nothing changes when the process changes its directory.
        let path = std::path::absolute(&given).map_err(|e| Error::invalid(format!("{shown:?} is no directory's name: {e}")))?;
        let is_file = path.is_file();
        let root = Root::open(path).map_err(|e| match e.code() {
            Code::NotFound => Error::not_found("there is no such directory").at(&shown),
            _ if is_file => Error::not_found("a directory is expected, and this is a file").at(&shown),
            _ => e.at(&shown),
        })?;
        Ok(Self { root, durable: true, private: RelPath::parse(".sigbank")?, stage_privately: false, tactic: Tactic::Rename })
    }
    /// The store of a directory that is made, with those above it, where it is not there.
    pub fn create(root: impl Into<PathBuf>) -> Result<Self> {
        let path: PathBuf = root.into();
        std::fs::create_dir_all(&path).map_err(|e| Error::from(e).at(path.display()))?;
        Self::open(path)
    }
    /// Whether [`flush`](Store::flush) flushes (the default). Without it a dataset is only safe from killed programs, not from power
    /// failures: for scratch data and tests.
    #[must_use]
    pub fn durable(self, durable: bool) -> Self {
        Self { durable, ..self }
    }
    /// Keeps the files of the store's own (locks, trash) in the directory `dir` instead of `.sigbank`; no listing shows it and
    /// no object can be put there. With `stage`, temporary files lie there too, so that a killed writer leaves nothing beside other
    /// objects. For a layout whose other readers trip over directories or files that they do not know.
    #[must_use]
    pub fn private_dir(self, dir: RelPath, stage: bool) -> Self {
        Self { private: dir, stage_privately: stage, ..self }
    }
    /// Of a directory that is a mounted bucket (gcsfuse, Mountpoint for Amazon S3), which has neither links nor locks, and does not rename:
    /// new objects are written to an unnamed file in the system's temporary directory, then under their names, where whoever comes second
    /// is refused. Nothing can be replaced, locked or appended to. Such a mount shows a file when it was written whole; in an
    /// ordinary directory others see it grow, and a killed writer leaves a part.
    ///
    /// ```
    /// use sigbank::store::{Expected, LocalStore, Store};
    /// let dir = tempfile::tempdir()?;
    /// let (store, name) = (LocalStore::open(dir.path())?.mounted(), sigbank::uri::RelPath::parse("a/b")?);
    /// store.create(&name, &[b"text"])?;
    /// assert_eq!(store.create(&name, &[b"more"]).unwrap_err().code(), sigbank::Code::AlreadyExists);
    /// assert_eq!(store.replace(&name, &[b"more"], Expected::Any).unwrap_err().code(), sigbank::Code::Unsupported);
    /// assert!(!store.capabilities().compare_and_swap);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn mounted(self) -> Self {
        Self { tactic: Tactic::InPlace, ..self }
    }
    fn is_mounted(&self) -> bool {
        self.tactic == Tactic::InPlace
    }
    fn not_mounted(&self, what: &str) -> Result<()> {
        match self.is_mounted() {
            true => Err(Error::unsupported(format!("a mounted bucket cannot {what}"))
                .at(self.location())
                .remedy("use the bucket's own address (s3://, gs://) for this")),
            false => Ok(()),
        }
    }
    /// The directory's absolute path when it was opened.
    pub fn root(&self) -> &Path {
        &self.root.path
    }

    fn open_file(&self, path: &RelPath) -> Result<(File, u64)> {
        self.root.open_file(path).map_err(|e| e.at(self.locate(path)))
    }

    /// Refuses the names of the store's own files, which would be objects that no listing shows.
    fn writable(&self, path: &RelPath) -> Result<()> {
        let own = *path == self.private || path.strip_prefix(&self.private).is_some();
        if own || path.components().any(|name| name.starts_with(TEMPORARY)) {
            return Err(Error::invalid("this name is reserved for the store's own files").at(self.locate(path)));
        }
        Ok(())
    }

    /// An unpublished file for `path`, whose bytes may go on being written.
    fn new_file(&self, path: &RelPath, replacing: bool) -> Result<NewFile> {
        self.writable(path)?;
        let open = || {
            let (dir, name) = self.root.make_parent(path)?;
            // Early, so that nothing is written in vain; who is first is decided when publishing.
            if !replacing && rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                return Err(taken());
            }
            let staging = match (self.is_mounted(), self.stage_privately) {
                (true, _) => File::open(std::env::temp_dir())?.into(),
                (_, true) => self.root.make_dir(Some(&self.private))?,
                (_, false) => dir.try_clone()?,
            };
            NewFile::new(staging, dir, name, self.locate(path), self.tactic)
        };
        open().map_err(|e| e.at(self.locate(path)))
    }

    fn create_file(&self, path: &RelPath, parts: &[&[u8]]) -> Result<()> {
        let mut file = self.new_file(path, false)?;
        file.write_parts(parts)?;
        file.publish_new()
    }

    /// Keeps other replacing and deleting writers of this directory out.
    fn exclusive(&self) -> Result<LockGuard> {
        let location = || format!("{}/{}/lock", self.root.path.display(), self.private);
        let lock = || {
            let dir = self.root.make_dir(Some(&self.private))?;
            poll(PATIENCE, || lock::try_lock(&dir, "lock"))?.ok_or_else(|| busy(PATIENCE))
        };
        lock().map_err(|e| e.at(location()))
    }
}

fn is_errno(e: &Error, wanted: rustix::io::Errno) -> bool {
    let source = std::error::Error::source(e).and_then(|source| source.downcast_ref::<io::Error>());
    source.and_then(io::Error::raw_os_error) == Some(wanted.raw_os_error())
}

fn version(parts: &[&[u8]]) -> Version {
    let mut digest = Sha256::new();
    parts.iter().for_each(|part| digest.update(part));
    Version::new(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn read_range(file: &File, start: u64, len: u64) -> Result<Bytes> {
    let mut bytes = zeroed(len)?;
    read_exact(file, start, &mut bytes)?;
    Ok(bytes.into())
}

fn read_exact(file: &File, start: u64, buf: &mut [u8]) -> Result<()> {
    file.read_exact_at(buf, start).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => Error::corrupt("the file became shorter while it was read")
            .remedy("sigbank never shortens a file: find the program that did, and restore the file"),
        _ => e.into(),
    })
}

impl Store for LocalStore {
    fn location(&self) -> String {
        self.root.path.display().to_string()
    }
    fn capabilities(&self) -> Capabilities {
        let own = !self.is_mounted();
        Capabilities { write: true, compare_and_swap: own, locks: own, turns: own, flush: own && self.durable, round_trip: 0 }
    }
    fn get(&self, path: &RelPath) -> Result<Bytes> {
        let (file, size) = self.open_file(path)?;
        read_range(&file, 0, size).map_err(|e| e.at(self.locate(path)))
    }
    fn get_versioned(&self, path: &RelPath) -> Result<(Bytes, Version)> {
        let bytes = self.get(path)?;
        let version = version(&[&bytes]);
        Ok((bytes, version))
    }
    fn get_ranges(&self, path: &RelPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (file, size) = self.open_file(path)?;
        let read = |range: &Range<u64>| read_range(&file, range.start, range_len(range, size)? as u64);
        ranges.iter().map(read).collect::<Result<_>>().map_err(|e| e.at(self.locate(path)))
    }
    fn head(&self, path: &RelPath) -> Result<ObjectMeta> {
        Ok(ObjectMeta { size: self.open_file(path)?.1, version: None })
    }
    fn open_read(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        let (file, size) = self.open_file(path)?;
        Ok(Arc::new(LocalFile { file, size, location: self.locate(path) }))
    }
    fn list(&self, prefix: Option<&RelPath>) -> Result<Listing<'_>> {
        Ok(Box::new(walk::Walk::new(self, prefix)?))
    }
    fn list_dir(&self, dir: Option<&RelPath>) -> Result<Vec<DirEntry>> {
        self.dir_entries(dir).map_err(|e| e.at(dir.map_or_else(|| self.location(), |dir| self.locate(dir))))
    }
    fn create(&self, path: &RelPath, parts: &[&[u8]]) -> Result<()> {
        self.create_file(path, parts)
    }
    fn write_new(&self, path: &RelPath) -> Result<Box<dyn NewObject>> {
        Ok(Box::new(self.new_file(path, false)?))
    }
    fn replace(&self, path: &RelPath, parts: &[&[u8]], expected: Expected<'_>) -> Result<Version> {
        if let Expected::Absent = expected {
            self.create_file(path, parts)?;
            return Ok(version(parts));
        }
        self.writable(path)?;
        self.not_mounted("replace objects")?;
        let _exclusive = self.exclusive()?;
        if let Expected::Version(wanted) = expected {
            match self.get_versioned(path) {
                Ok((_, found)) if found == *wanted => {}
                Err(e) if e.code() != Code::NotFound => return Err(e),
                _ => return Err(changed().at(self.locate(path))),
            }
        }
        let mut file = self.new_file(path, true)?;
        file.write_parts(parts)?;
        if self.durable {
            // Else a power failure could leave the new name on the old bytes' grave: neither the old object nor the new one.
            file.sync()?;
        }
        file.publish_over()?;
        Ok(version(parts))
    }
    fn delete(&self, path: &RelPath) -> Result<()> {
        self.writable(path)?;
        let delete = || match self.root.open_dir(path.parent().as_ref()) {
            Err(e) if e.code() == Code::NotFound => Ok(()),
            Err(e) => Err(e),
            Ok(dir) => {
                let _exclusive = if self.is_mounted() { None } else { Some(self.exclusive()?) };
                match rustix::fs::unlinkat(&dir, path.file_name(), AtFlags::empty()) {
                    Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
                    Err(rustix::io::Errno::ISDIR) => Err(Error::invalid("this is a directory, not an object")),
                    Err(e) => Err(os(e)),
                }
            }
        };
        delete().map_err(|e| e.at(self.locate(path)))
    }
    fn delete_below(&self, dir: &RelPath) -> Result<()> {
        self.writable(dir)?;
        self.not_mounted("delete directories")?;
        self.delete_dir(dir)
    }
    fn flush(&self, paths: &[RelPath]) -> Result<()> {
        if self.is_mounted() {
            return paths.iter().try_for_each(|path| self.head(path).map(drop)); // It was uploaded.
        }
        if !self.durable || (paths.len() > FEW && cfg!(target_os = "linux")) {
            paths.iter().try_for_each(|path| self.head(path).map(|_| ()))?;
            return if self.durable { self.sync_filesystem() } else { Ok(()) };
        }
        let mut dirs = BTreeSet::new();
        for path in paths {
            let (file, _) = self.open_file(path)?;
            file.sync_all().map_err(|e| Error::from(e).at(self.locate(path)))?;
            let mut dir = path.parent();
            while let Some(inner) = dir {
                dir = inner.parent();
                dirs.insert(Some(inner));
            }
            dirs.insert(None);
        }
        // The deepest first: a directory's name is of no use before what is in it.
        dirs.iter().rev().try_for_each(|dir| {
            let sync = || match rustix::fs::fsync(self.root.open_dir(dir.as_ref())?) {
                Err(rustix::io::Errno::INVAL) => Ok(()), // A filesystem on which directories need no flush.
                other => other.map_err(os),
            };
            sync().map_err(|e| e.at(dir.as_ref().map_or_else(|| self.location(), |dir| self.locate(dir))))
        })
    }
    fn try_lock(&self, name: &str) -> Result<Option<LockGuard>> {
        lock_name(name)?;
        self.not_mounted("be locked")?;
        let lock = || lock::try_lock(&self.root.make_dir(Some(&self.private))?, &format!("{name}.lock"));
        lock().map_err(|e| e.at(self.locate_lock(name)))
    }
    fn create_log(&self, path: &RelPath) -> Result<Option<Box<dyn Log>>> {
        self.writable(path)?;
        if self.is_mounted() {
            return Ok(None);
        }
        let create = || write::LogFile::new(&self.root, path, self.locate(path));
        Ok(Some(Box::new(create().map_err(|e| e.at(self.locate(path)))?)))
    }
    fn sweep(&self, older_than: Duration) -> Result<usize> {
        LocalStore::sweep(self, older_than)
    }
    fn locate_lock(&self, name: &str) -> String {
        format!("{}/{}/{name}.lock", self.root.path.display(), self.private)
    }
}

impl LocalStore {
    #[cfg(target_os = "linux")]
    fn sync_filesystem(&self) -> Result<()> {
        rustix::fs::syncfs(&self.root.fd).map_err(|e| os(e).at(self.location()))
    }
    #[cfg(not(target_os = "linux"))]
    fn sync_filesystem(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct LocalFile {
    file: File,
    size: u64,
    location: String,
}

impl ReadAt for LocalFile {
    fn size(&self) -> u64 {
        self.size
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> sigbank_format::Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.size) {
            return Err(sigbank_format::read_at::past_end(offset, buf.len(), self.size));
        }
        Ok(read_exact(&self.file, offset, buf)?)
    }
}

impl StoreFile for LocalFile {
    fn location(&self) -> &str {
        &self.location
    }
    fn stream(self: Arc<Self>) -> Box<dyn io::Read + Send> {
        Box::new(super::Sequential::new(self))
    }
}
