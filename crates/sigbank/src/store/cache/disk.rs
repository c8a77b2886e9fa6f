//! The directory of the cache.
//!
//! `<dir>/sigbank-cache-1/blocks/<2 hex>/<30 hex>-<number>` is a block of an object, `tmp/` holds what is being written, each file
//! locked by its writer, and `usage` how many bytes there are; it is the lock of who counts and evicts.

use super::evict::Room;
use super::{Key, block};
use crate::error::{Code, Error, Result};
use rustix::fs::{FlockOperation, Mode};
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

const NAME: &str = "sigbank-cache-1";
/// So long nothing is written after writing failed.
const PAUSE: Duration = Duration::from_secs(60);
/// A block's time of last use is this exact.
const STAMP: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Disk {
    pub(super) root: PathBuf,
    pub(super) room: Room,
    /// The mode bits that the directory demands of what is in it; `None` where the umask alone rules.
    mode: Option<u32>,
    born: Instant,
    /// Milliseconds since `born` before which nothing is written.
    paused: AtomicU64,
}

impl Disk {
    /// The cache in this directory. Where it cannot be used, that is told, and nothing is ever found in it or written.
    pub(super) fn open(dir: &Path, bound: u64) -> Self {
        let root = dir.join(NAME);
        let there = dir.is_dir();
        let made = std::fs::create_dir_all(dir);
        let mode = std::fs::metadata(dir).ok().filter(|_| there).map(|m| m.mode() & 0o3777);
        let disk = Self { root, room: Room::new(bound), mode, born: Instant::now(), paused: AtomicU64::new(0) };
        let made = made.and_then(|()| {
            let dirs = [disk.root.clone(), disk.root.join("blocks"), disk.root.join("tmp")];
            dirs.iter().try_for_each(|dir| disk.make_dir(dir))
        });
        match made {
            Err(e) => disk.stop(&Error::from(e)),
            Ok(()) if bound < 2 * block::cost(block::BLOCK) => {
                let least = 2 * block::cost(block::BLOCK);
                disk.stop(&Error::limit(format!("a cache of {bound} bytes is too small, at least {least} are needed")));
            }
            Ok(()) => disk.sweep(),
        }
        disk
    }

    pub(super) fn path(&self, key: &Key, number: u64) -> PathBuf {
        let hex: String = key.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let (first, rest) = hex.split_at_checked(2).unwrap_or_default();
        self.root.join("blocks").join(first).join(format!("{rest}-{number:x}"))
    }

    /// Reads the bytes from `at` on of a block of `len` bytes; `false` where it is not there, or damaged (then it is gone).
    pub(super) fn read(&self, key: &Key, number: u64, len: usize, at: usize, buf: &mut [u8]) -> bool {
        let path = self.path(key, number);
        let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(&path) else { return false };
        match block::read(&file, key, number, len, at, buf) {
            Ok(true) => {
                touch(&file);
                true
            }
            _ => {
                let _ = std::fs::remove_file(&path);
                false
            }
        }
    }

    /// How long an object is, if that was noted.
    pub(super) fn size(&self, key: &Key) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(key, block::SIZE, 8, 0, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }
    /// Notes how long an object is.
    pub(super) fn put_size(&self, key: &Key, size: u64) {
        self.put(key, block::SIZE, &size.to_le_bytes());
    }

    /// Keeps a block, if that can be done.
    pub(super) fn put(&self, key: &Key, number: u64, data: &[u8]) {
        if self.elapsed() < self.paused.load(Ordering::Relaxed) {
            return;
        }
        let cost = block::cost(data.len() as u64);
        match self.write(key, number, data, cost) {
            Ok(()) => {}
            Err(e) if e.code() == Code::Conflict => {} // This block alone.
            Err(e) if full(&e) && self.room.shrink(self) => {}
            Err(e) => self.stop(&e),
        }
    }

    fn write(&self, key: &Key, number: u64, data: &[u8], cost: u64) -> Result<()> {
        let staged = self.root.join("tmp").join(format!("{}-{}", std::process::id(), uuid::Uuid::new_v4().simple()));
        let mut file = self.create(&staged)?;
        // Held until the file is closed: whoever sweeps leaves it alone, and whoever counts counts it.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        let path = self.path(key, number);
        let mut write = || {
            file.write_all(&block::header(key, number, data))?;
            file.write_all(data)?;
            match std::fs::rename(&staged, &path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    path.parent().map_or(Ok(()), |dir| self.make_dir(dir))?;
                    std::fs::rename(&staged, &path)
                }
                other => other,
            }
        };
        let written = match self.room.reserve(self, cost) {
            // Room that was not used after all is not kept: others may have counted anew without it.
            Ok(true) => write().map_err(|e| {
                // Swept in the instant before it was locked; or something odd has the block's name.
                let odd = !staged.exists() || path.is_dir();
                let e = Error::from(e).at(path.display());
                if odd { Error::conflict("the block has no place").caused_by(e) } else { e }
            }),
            Ok(false) => Err(Error::conflict("another process is making room: it is not worth waiting for")),
            Err(e) => Err(e),
        };
        if written.is_err() {
            let _ = std::fs::remove_file(&staged);
        }
        written
    }

    /// A new file as the directory says.
    pub(super) fn create(&self, path: &Path) -> Result<File> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o666).open(path);
        let file = file.map_err(|e| Error::from(e).at(path.display()))?;
        if let Some(mode) = self.mode {
            let _ = rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o666));
        }
        Ok(file)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o777).create(path) {
            Err(_) if path.is_dir() => return Ok(()),
            other => other?,
        }
        if let Some(mode) = self.mode {
            let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
        }
        Ok(())
    }

    /// Takes away the unfinished files of processes that are dead.
    pub(super) fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(self.root.join("tmp")) else { return };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let Ok(file) = File::open(&path) else { continue };
            let old = file.metadata().and_then(|m| m.modified()).is_ok_and(|time| age(time) > Duration::from_secs(3600));
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => continue,
                // Where there are no locks, its age must do.
                Err(_) if !old => continue,
                _ => {
                    let _ = std::fs::remove_file(&path);
                }
            }
        }
    }

    /// Writes nothing for a while, and says why, once.
    fn stop(&self, why: &Error) {
        let until = self.elapsed().saturating_add(PAUSE.as_millis() as u64);
        let always = matches!(why.code(), Code::Limit);
        self.paused.store(if always { u64::MAX } else { until }, Ordering::Relaxed);
        if first_time(&self.root) {
            let _ = writeln!(io::stderr(), "sigbank: warning: reading goes on without the cache {}: {why}", self.root.display());
        }
    }

    fn elapsed(&self) -> u64 {
        self.born.elapsed().as_millis() as u64
    }
}

/// Whether the disk has no room, or the user has none left on it.
fn full(e: &Error) -> bool {
    let source = std::error::Error::source(e).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|e| matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
}

pub(super) fn age(time: SystemTime) -> Duration {
    SystemTime::now().duration_since(time).unwrap_or_default()
}

/// Notes that a block was used. Who may not, does not.
fn touch(file: &File) {
    if file.metadata().and_then(|m| m.modified()).is_ok_and(|time| age(time) >= STAMP) {
        let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let _ = rustix::fs::futimens(file, &rustix::fs::Timestamps { last_access: now, last_modification: now });
    }
}

/// Whether this process has not yet warned of this cache.
fn first_time(root: &Path) -> bool {
    static WARNED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    // A forked child may find it locked for ever.
    WARNED.try_lock().is_ok_and(|mut warned| warned.insert(root.to_owned()))
}
