//! Locks of items among processes and threads, and what their holders note: which array they are at.
//!
//! A lock is a range of an item's many: a few files stay open, so that locking costs no file. Each holds the note of whoever holds the lock, or of one that
//! was killed.

use crate::error::{Error, Result};
use crate::store::{busy, poll};
use crate::uri::RelPath;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// How many locks there are; writers of different items seldom wait for one another.
const LOCKS: usize = 64;
/// Longest note that is read.
const NOTE: u64 = 4096;

/// The name of the file of an item's lock.
pub(super) fn file_name(item: &RelPath) -> String {
    name_of(number(item))
}

fn number(item: &RelPath) -> usize {
    Sha256::digest(item.as_str()).iter().take(1).map(|&byte| usize::from(byte) % LOCKS).sum()
}

fn name_of(number: usize) -> String {
    format!("items-{number:02}.lock")
}

/// All locks of a data set, in this process.
#[derive(Debug)]
pub(super) struct Locks {
    open: Vec<Mutex<Option<Open>>>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// A child that was forked shares the lock with its parent, so that it needs a file of its own.
    process: u32,
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock<'a> {
    open: MutexGuard<'a, Option<Open>>,
    left: Vec<u8>,
    noted: bool,
}

impl Default for Locks {
    fn default() -> Self {
        Self { open: (0..LOCKS).map(|_| Mutex::default()).collect() }
    }
}

impl Locks {
    /// Takes the lock of an item, waiting at most so long; `directory` gives the one of the locks' files.
    pub(super) fn take(
        &self,
        item: &RelPath,
        patience: Duration,
        directory: impl Fn() -> Result<Arc<OwnedFd>>,
    ) -> Result<Lock<'_>> {
        let number = number(item);
        let lock = poll(patience, || self.attempt(number, &directory))?;
        lock.ok_or_else(|| busy(patience).at(name_of(number)))
    }

    /// Takes the locks in which killed holders left notes, one after another; one that is held is somebody's who lives.
    pub(super) fn left(&self, directory: impl Fn() -> Result<Arc<OwnedFd>>) -> impl Iterator<Item = Result<Lock<'_>>> {
        (0..LOCKS).filter_map(move |number| {
            let attempt = || -> Result<Option<Lock<'_>>> {
                match rustix::fs::statat(&*directory()?, name_of(number), rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) if found.st_size > 0 => self.attempt(number, &directory),
                    _ => Ok(None),
                }
            };
            attempt().transpose()
        })
    }

    fn attempt(&self, number: usize, directory: &impl Fn() -> Result<Arc<OwnedFd>>) -> Result<Option<Lock<'_>>> {
        let Some(open) = self.open.get(number) else { return Ok(None) };
        // Not waited for: a child that was forked while another thread of its parent held it would wait for ever.
        let mut open = match open.try_lock() {
            Ok(open) => open,
            Err(TryLockError::Poisoned(open)) => open.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        let process = std::process::id();
        loop {
            if open.as_ref().is_none_or(|open| open.process != process) {
                *open = Some(Open { file: create(&*directory()?, &name_of(number))?, process });
            }
            let Some(held) = open.as_ref() else { return Ok(None) };
            match rustix::fs::flock(&held.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(e @ (Errno::NOLCK | Errno::NOSYS | Errno::NOTSUP)) => {
                    return Err(Error::unsupported("this filesystem has no locks")
                        .caused_by(std::io::Error::from(e))
                        .remedy("write the data set on a local disk, then copy it here"));
                }
                Err(e) => return Err(std::io::Error::from(e).into()),
            }
            let found = held.file.metadata()?;
            if found.nlink() == 0 {
                *open = None; // Somebody deleted the file, and the next one locks another.
                continue;
            }
            let mut left = vec![0; found.len().min(NOTE) as usize];
            if !left.is_empty() {
                held.file.read_exact_at(&mut left, 0)?;
            }
            return Ok(Some(Lock { noted: !left.is_empty(), open, left }));
        }
    }
}

fn create(directory: &OwnedFd, name: &str) -> Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o666)).map_err(std::io::Error::from)?;
    // Whoever may write to the directory may lock, whoever made the file.
    if let (Ok(above), Ok(found)) = (rustix::fs::fstat(directory), rustix::fs::fstat(&file)) {
        let wanted = (found.st_mode | (above.st_mode & 0o222)) & 0o777;
        if wanted != found.st_mode & 0o777 {
            let _ = rustix::fs::fchmod(&file, Mode::from_raw_mode(wanted));
        }
    }
    Ok(file.into())
}

impl Lock<'_> {
    /// What a killed holder noted and did not finish; empty where the last one finished.
    pub(super) fn left(&self) -> &[u8] {
        &self.left
    }
    /// Notes what is begun, durably where that is asked for.
    pub(super) fn note(&mut self, bytes: &[u8], durable: bool) -> Result<()> {
        let Some(open) = self.open.as_ref() else { return Ok(()) };
        if self.noted {
            open.file.set_len(0)?;
        }
        open.file.write_all_at(bytes, 0)?;
        self.noted = true;
        if durable { Ok(open.file.sync_all()?) } else { Ok(()) }
    }
    /// Whether something is noted now.
    pub(super) fn noted(&self) -> bool {
        self.noted
    }
    /// What was begun is finished, or undone: nothing is noted any more.
    pub(super) fn finished(mut self) {
        self.clear();
    }
    pub(super) fn clear(&mut self) {
        if let Some(open) = self.open.as_ref().filter(|_| self.noted) {
            self.noted = open.file.set_len(0).is_err();
        }
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.open.as_ref() {
            let _ = rustix::fs::flock(&open.file, FlockOperation::Unlock);
        }
    }
}
