//! Taking away what killed writers left.

use super::LocalStore;
use super::root::os;
use super::write::{TEMPORARY, not_offered};
use crate::error::{Error, Result};
use crate::uri::RelPath;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

impl LocalStore {
    /// Deletes the temporary files that killed writers left, and the rests of deletions that were killed, and says how many
    /// there were. A file whose writer lives is left alone, and so is what changed within the time `older_than`: a minute is enough
    /// on a local disk; on a filesystem without locks it must be longer than any writer pauses.
    ///
    /// ```
    /// use sigbank::store::{LocalStore, Store};
    /// use std::time::Duration;
    /// let dir = tempfile::tempdir()?;
    /// let store = LocalStore::open(dir.path())?;
    /// let unfinished = store.write_new(&sigbank::uri::RelPath::parse("a/b")?)?;
    /// assert_eq!(store.sweep(Duration::ZERO)?, 0); // Its writer lives.
    /// unfinished.commit()?;
    /// # Ok::<(), sigbank::Error>(())
    /// ```
    pub fn sweep(&self, older_than: Duration) -> Result<usize> {
        let mut swept = 0;
        let mut left: Vec<Option<RelPath>> = vec![None];
        while let Some(dir) = left.pop() {
            let located = |e: Error| {
                e.at(dir.as_ref().map_or_else(|| self.root.path.clone(), |d| self.root.path.join(d.as_str())).display())
            };
            let fd = match self.root.open_dir(dir.as_ref()) {
                Err(e) if e.code() == crate::Code::NotFound => continue, // Deleted meanwhile.
                other => other.map_err(located)?,
            };
            for item in Dir::read_from(&fd).map_err(os).map_err(located)? {
                let item = item.map_err(os).map_err(located)?;
                let Ok(name) = item.file_name().to_str() else { continue };
                let Ok(stat) = rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                let kind = FileType::from_raw_mode(stat.st_mode);
                if name.starts_with(TEMPORARY) {
                    let aged = age(stat.st_mtime.cast_unsigned()) >= older_than;
                    let gone = match kind {
                        FileType::RegularFile => aged && delete_abandoned(&fd, name).map_err(located)?,
                        FileType::Directory if aged && dir.as_ref() == Some(&self.private) => self.empty_trash(name).is_ok(),
                        _ => false,
                    };
                    swept += usize::from(gone);
                } else if kind == FileType::Directory && name != "." && name != ".." {
                    let below = dir.as_ref().map_or_else(|| RelPath::parse(name), |dir| dir.join(name));
                    left.extend(below.ok().map(Some));
                }
            }
        }
        Ok(swept)
    }
}

fn age(modified: u64) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_secs(modified))
}

/// Whether the file was nobody's and is gone.
fn delete_abandoned(dir: &OwnedFd, name: &str) -> Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(false),
        other => other.map_err(os)?,
    };
    // Of an interrupted or refused attempt nothing is known, so the file stays; where there are no locks, its age must do.
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(e) if e == Errno::NOLCK || not_offered(e) => {}
        Err(_) => return Ok(false),
    }
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(false),
        other => other.map(|()| true).map_err(os),
    }
}
