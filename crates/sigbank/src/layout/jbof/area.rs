//! Files and items that nobody sees until they are whole, in directories that stay open: a few system calls each.

use crate::error::{Code, Error, Result};
use crate::store::LocalStore;
use crate::uri::RelPath;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of several parts that are copied to be written at once.
const TOGETHER: usize = 1 << 16;
const NEW: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Where what is being added lies.
#[derive(Debug)]
pub(super) struct Area {
    store: Arc<LocalStore>,
    items: RelPath,
    private: RelPath,
    open: Mutex<Option<Dirs>>,
}

#[derive(Debug, Clone)]
struct Dirs {
    root: Arc<OwnedFd>,
    items: Arc<OwnedFd>,
    private: Arc<OwnedFd>,
}

fn os(e: Errno) -> Error {
    io::Error::from(e).into()
}

/// A name unlike any other, of the kind that [`LocalStore::sweep`](crate::store::Store::sweep) knows.
fn unused_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    format!(".sigbank-tmp-{:x}-j{:x}-{nanos:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Writes a new file. What fails may leave a part.
pub(super) fn write(dir: &OwnedFd, name: &str, parts: &[&[u8]]) -> Result<File> {
    let mut file = File::from(rustix::fs::openat(dir, name, NEW, Mode::from_raw_mode(0o666)).map_err(os)?);
    match parts {
        [_, _, ..] if parts.iter().map(|part| part.len()).sum::<usize>() <= TOGETHER => file.write_all(&parts.concat())?,
        _ => parts.iter().try_for_each(|part| file.write_all(part))?,
    }
    Ok(file)
}

/// Takes a file away; no error where there is none.
pub(super) fn unlink(dir: &OwnedFd, name: &str) -> Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(e) => Err(os(e)),
    }
}

impl Area {
    pub(super) fn new(store: Arc<LocalStore>, items: RelPath, private: RelPath) -> Self {
        Self { store, items, private, open: Mutex::default() }
    }

    fn dirs(&self) -> Result<Dirs> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dirs) = open.as_ref() {
            return Ok(dirs.clone());
        }
        let make = |path| self.store.make_dir(path).map(Arc::new);
        let dirs = Dirs { root: make(None)?, items: make(Some(&self.items))?, private: make(Some(&self.private))? };
        Ok(open.insert(dirs).clone())
    }

    /// Does it again where somebody has deleted the directories.
    fn again<T>(&self, work: impl Fn(Dirs) -> Result<T>) -> Result<T> {
        match work(self.dirs()?) {
            Err(e) if e.code() == Code::NotFound => {
                *self.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
                work(self.dirs()?)
            }
            other => other,
        }
    }

    /// The directory of the locks.
    pub(super) fn private(&self) -> Result<Arc<OwnedFd>> {
        self.again(|dirs| {
            // One that was deleted is open all the same.
            match rustix::fs::fstat(&dirs.private) {
                Ok(found) if found.st_nlink > 0 => Ok(dirs.private),
                _ => Err(Error::not_found("the directory was deleted")),
            }
        })
    }

    /// A directory with one file.
    pub(super) fn stage_item(&self, file: &str, bytes: &[u8]) -> Result<RelPath> {
        let name = format!("{:x}-{}", std::process::id(), unused_name().trim_start_matches('.'));
        self.again(|dirs| {
            rustix::fs::mkdirat(&dirs.items, &name, Mode::from_raw_mode(0o777)).map_err(os)?;
            write(&dirs.items, &format!("{name}/{file}"), &[bytes]).map(drop).inspect_err(|_| {
                let _ = unlink(&dirs.items, &format!("{name}/{file}"));
                let _ = rustix::fs::unlinkat(&dirs.items, &name, AtFlags::REMOVEDIR);
            })
        })?;
        self.items.join(&name)
    }

    /// Gives a directory its name, if that is free.
    pub(super) fn publish_item(&self, staged: &RelPath, item: &RelPath) -> Result<()> {
        let Dirs { root, items, .. } = self.dirs()?;
        match rustix::fs::renameat_with(&items, staged.file_name(), &root, item.as_str(), RenameFlags::NOREPLACE) {
            // A filesystem that knows no such renaming, or a file in the way.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => self.store.publish_dir(staged, item),
            other => other.map_err(os),
        }
    }

    /// A file of these bytes.
    pub(super) fn stage(&self, parts: &[&[u8]], durable: bool) -> Result<Staged> {
        self.staged(|dir, name| {
            let file = write(dir, name, parts)?;
            if durable { Ok(file.sync_all()?) } else { Ok(()) }
        })
    }

    /// A copy of a file.
    pub(super) fn stage_copy(&self, from: &Path) -> Result<Staged> {
        let located = |e: io::Error| Error::from(e).at(from.display());
        let mut source = File::open(from).map_err(located)?;
        self.staged(|dir, name| {
            let mut new = write(dir, name, &[])?;
            let mut block = vec![0; 1 << 20];
            loop {
                match source.read(&mut block).map_err(located)? {
                    0 => return Ok(()),
                    n => new.write_all(block.get(..n).unwrap_or_default())?,
                }
            }
        })
    }

    fn staged(&self, mut fill: impl FnMut(&OwnedFd, &str) -> Result<()>) -> Result<Staged> {
        let name = unused_name();
        let mut dir = self.dirs()?.private;
        let filled = match fill(&dir, &name) {
            Err(e) if e.code() == Code::NotFound => {
                dir = self.private()?;
                fill(&dir, &name)
            }
            other => other,
        };
        let staged = Staged { dir, name };
        filled.map(|()| staged)
    }
}

/// A file without its name. Dropped, it is gone.
#[derive(Debug)]
pub(super) struct Staged {
    dir: Arc<OwnedFd>,
    name: String,
}

impl Staged {
    /// Gives it a name, if that is free.
    pub(super) fn publish(mut self, dir: &OwnedFd, name: &str) -> Result<()> {
        match rustix::fs::renameat_with(&self.dir, &self.name, dir, name, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                match rustix::fs::linkat(&self.dir, &self.name, dir, name, AtFlags::empty()) {
                    Ok(()) => return Ok(()), // Dropped, it loses the other name.
                    Err(Errno::PERM | Errno::NOSYS | Errno::NOTSUP) => {
                        // Weaker: for an instant others see an empty file.
                        rustix::fs::openat(dir, name, NEW, Mode::from_raw_mode(0o666)).map_err(os)?;
                        rustix::fs::renameat(&self.dir, &self.name, dir, name).map_err(os)?;
                    }
                    Err(e) => return Err(os(e)),
                }
            }
            Err(e) => return Err(os(e)),
        }
        self.name.clear();
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            let _ = unlink(&self.dir, &self.name);
        }
    }
}
