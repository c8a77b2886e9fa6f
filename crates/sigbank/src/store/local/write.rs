//! Files that nobody sees until they are whole.

use super::root::{Root, os};
use crate::error::{Error, Result};
use crate::store::{Log, NewObject, taken};
use crate::uri::RelPath;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// How the names of unpublished files begin; a listing leaves them out.
pub(super) const TEMPORARY: &str = ".sigbank-tmp-";

/// How a new name is put without replacing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tactic {
    /// `renameat2(RENAME_NOREPLACE)`; else the next.
    Rename,
    #[cfg_attr(not(test), allow(dead_code, reason = "Rename comes to it by itself; tests begin with it"))]
    /// A hard link, then the temporary name is removed; else the next.
    Link,
    /// The name is claimed by an empty file (`O_EXCL`) over which the temporary one is renamed. Weaker: there is still one
    /// winner, but a reader may meet the empty file for an instant, and a kill at that instant leaves it there.
    Claim,
    /// The file is written elsewhere and copied under its name (`O_EXCL`): for mounted buckets, which have neither links nor renaming, and
    /// show a file when it is closed.
    InPlace,
}

/// A name unlike any other: of this process, of this moment, and counted.
pub(super) fn temporary_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    format!("{TEMPORARY}{:x}-{:x}-{nanos:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Whether an error says that this filesystem or kernel does not know the call.
pub(super) fn not_offered(e: Errno) -> bool {
    e == Errno::NOSYS || e == Errno::NOTSUP || e == Errno::OPNOTSUPP // The last two differ on some systems only.
}

/// An unpublished file. Dropped, it is gone.
#[derive(Debug)]
pub(super) struct NewFile {
    file: File,
    staging: OwnedFd,
    staged: String,
    dir: OwnedFd,
    name: String,
    location: String,
    tactic: Tactic,
    failed: bool,
    published: bool,
    // A forked child that drops its copy must not take the parent's file away.
    process: u32,
}

impl NewFile {
    /// A new file in the directory `staging` that is to become `name` in `dir` (on the same filesystem).
    pub(super) fn new(staging: OwnedFd, dir: OwnedFd, name: &str, location: String, tactic: Tactic) -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        for _ in 0..100 {
            let staged = temporary_name();
            // 0666 less the umask, as any program makes its files.
            match rustix::fs::openat(&staging, &staged, flags, Mode::from_raw_mode(0o666)) {
                Ok(fd) => {
                    // Says that its writer lives (see `sweep`). Where there are no locks, its age must do.
                    let _ = rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive);
                    if tactic == Tactic::InPlace {
                        // It needs no name there, and a killed writer would leave it.
                        let _ = rustix::fs::unlinkat(&staging, &staged, AtFlags::empty());
                    }
                    let (file, name) = (File::from(fd), name.to_owned());
                    let process = std::process::id();
                    return Ok(Self {
                        file,
                        staging,
                        staged,
                        dir,
                        name,
                        location,
                        tactic,
                        failed: false,
                        published: false,
                        process,
                    });
                }
                Err(Errno::EXIST) => {} // Another machine with our process number on a shared disk.
                Err(e) => return Err(os(e).at(location)),
            }
        }
        Err(Error::storage("no free temporary name was found").at(location))
    }

    pub(super) fn write_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        Ok(parts.iter().try_for_each(|part| self.write_all(part))?)
    }

    /// Makes the bytes (not the name) survive a power failure.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|e| Error::from(e).at(&self.location))
    }

    /// Takes the place of whatever has the name.
    pub(super) fn publish_over(mut self) -> Result<()> {
        self.check()?;
        rustix::fs::renameat(&self.staging, &self.staged, &self.dir, &self.name).map_err(|e| match e {
            Errno::ISDIR => taken().within("a directory has the name").at(&self.location),
            e => self.error(e),
        })?;
        self.published = true;
        Ok(())
    }

    /// Takes the name if it is free.
    pub(super) fn publish_new(mut self) -> Result<()> {
        self.check()?;
        if self.tactic == Tactic::InPlace {
            return self.copy();
        }
        if self.tactic == Tactic::Rename {
            match rustix::fs::renameat_with(&self.staging, &self.staged, &self.dir, &self.name, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    self.published = true;
                    return Ok(());
                }
                Err(e) if e == Errno::INVAL || not_offered(e) => {}
                Err(e) => return Err(self.error(e)),
            }
        }
        if self.tactic != Tactic::Claim {
            match rustix::fs::linkat(&self.staging, &self.staged, &self.dir, &self.name, AtFlags::empty()) {
                Ok(()) => return Ok(()), // The drop removes the temporary name.
                // Over a network the answer to a link that was made may be lost and the repetition refused.
                Err(Errno::EXIST) if self.file.metadata().is_ok_and(|m| m.nlink() == 2) => return Ok(()),
                Err(e) if e == Errno::PERM || e == Errno::MLINK || not_offered(e) => {}
                Err(e) => return Err(self.error(e)),
            }
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::openat(&self.dir, &self.name, flags, Mode::from_raw_mode(0o666)).map_err(|e| self.error(e))?;
        let renamed = rustix::fs::renameat(&self.staging, &self.staged, &self.dir, &self.name);
        if renamed.is_err() {
            // The claim is ours: nobody else can have replaced it unless asked to replace anything.
            let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
        }
        renamed.map_err(|e| self.error(e))?;
        self.published = true;
        Ok(())
    }

    /// Writes the bytes once more, under the name. What fails is taken away again.
    fn copy(&mut self) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let there = rustix::fs::openat(&self.dir, &self.name, flags, Mode::from_raw_mode(0o666)).map_err(|e| self.error(e))?;
        let mut there = File::from(there);
        let copied = self.file.rewind().and_then(|()| io::copy(&mut self.file, &mut there));
        // The upload, whose failure closing would not tell.
        copied.and_then(|_| there.sync_all()).map_err(|e| {
            let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
            Error::from(e).at(&self.location)
        })
    }

    fn check(&self) -> Result<()> {
        match self.failed {
            true => Err(Error::storage("an earlier write to this object failed, so that it is not whole").at(&self.location)),
            false => Ok(()),
        }
    }

    fn error(&self, e: Errno) -> Error {
        match e {
            Errno::EXIST => taken().at(&self.location),
            e => os(e).at(&self.location),
        }
    }

    pub(super) fn noted<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|e| {
            if e.kind() != io::ErrorKind::Interrupted {
                self.failed = true;
                return Error::from(e).at(&self.location).into();
            }
            e
        })
    }
}

impl Write for NewFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buf);
        self.noted(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewObject for NewFile {
    fn commit(self: Box<Self>) -> Result<()> {
        self.publish_new()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.published && self.process == std::process::id() {
            let _ = rustix::fs::unlinkat(&self.staging, &self.staged, AtFlags::empty());
        }
    }
}

/// A file that grows by appending.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    location: String,
}

impl LogFile {
    pub(super) fn new(root: &Root, path: &RelPath, location: String) -> Result<Self> {
        let (dir, name) = root.make_parent(path)?;
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::openat(&dir, name, flags, Mode::from_raw_mode(0o666)) {
            Ok(fd) => Ok(Self { file: fd.into(), location }),
            Err(Errno::EXIST) => Err(taken()),
            Err(e) => Err(os(e)),
        }
    }
}

impl Log for LogFile {
    fn append(&self, bytes: &[u8]) -> Result<()> {
        // One call for all bytes: the system puts it behind what is there while nobody else appends.
        match (&self.file).write(bytes) {
            Ok(n) if n == bytes.len() => Ok(()),
            Ok(n) => (&self.file).write_all(bytes.get(n..).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => (&self.file).write_all(bytes),
            Err(e) => Err(e),
        }
        .map_err(|e| Error::from(e).at(&self.location))
    }
}
