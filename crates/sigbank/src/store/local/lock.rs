//! Locks among processes: `flock` on a file, which is deleted by its holder only, when the lock is retired.

use super::root::os;
use super::write::not_offered;
use crate::error::{Error, Result};
use crate::store::LockGuard;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// The lock of the file `name` in `dir`, or `None` while anyone else has it: another process, or another guard in this one.
///
/// A forked child shares the lock with its parent: it is free when the parent drops the guard, or when both have ended.
pub(super) fn try_lock(dir: &OwnedFd, name: &str) -> Result<Option<LockGuard>> {
    let Some(file) = locked(dir, name)? else { return Ok(None) };
    Ok(Some(guard(dir, name, file)?))
}

fn locked(dir: &OwnedFd, name: &str) -> Result<Option<OwnedFd>> {
    let open = |access| {
        rustix::fs::openat(dir, name, access | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::from_raw_mode(0o666))
    };
    loop {
        // Writable, as NFS demands for an exclusive lock; readable is enough elsewhere for a file that another user made.
        let file = open(OFlags::RDWR).or_else(|e| if e == Errno::ACCESS { open(OFlags::RDONLY) } else { Err(e) }).map_err(os)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // Between opening and locking the holder may have retired the lock: then this file is nobody's any more.
            Ok(()) => match (rustix::fs::fstat(&file), rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)) {
                (Ok(held), Ok(named)) if (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino) => return Ok(Some(file)),
                _ => {}
            },
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(e) if e == Errno::NOLCK || not_offered(e) => {
                return Err(Error::unsupported("this filesystem has no locks")
                    .caused_by(std::io::Error::from(e))
                    .remedy("write the dataset on a local disk or on an object store, then copy it here"));
            }
            Err(e) => return Err(os(e)),
        }
    }
}

fn guard(dir: &OwnedFd, name: &str, file: OwnedFd) -> Result<LockGuard> {
    let process = std::process::id();
    let (dir, name) = (dir.try_clone()?, name.to_owned());
    Ok(LockGuard::new(move |retire| {
        if std::process::id() == process {
            if retire {
                let _ = rustix::fs::unlinkat(&dir, &name, AtFlags::empty());
            }
            // Said aloud, since a child that was forked meanwhile still holds the file open; and by the owner only.
            let _ = rustix::fs::flock(&file, FlockOperation::Unlock);
        }
    }))
}
