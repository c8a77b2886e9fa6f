//! Locks among processes: `flock` on a file that is made once and never deleted.

use super::root::os;
use super::write::not_offered;
use crate::error::{Error, Result};
use crate::store::LockGuard;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// The lock of the file `name` in `dir`, or `None` while anyone else has it: another process, or another guard in this one.
///
/// A forked child shares the lock with its parent: it is free when the parent drops the guard, or when both have ended.
pub(super) fn try_lock(dir: &OwnedFd, name: &str) -> Result<Option<LockGuard>> {
    let open = |access| {
        rustix::fs::openat(dir, name, access | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::from_raw_mode(0o666))
    };
    // Writable, as NFS demands for an exclusive lock; readable is enough elsewhere for a file that another user made.
    let file = open(OFlags::RDWR).or_else(|e| if e == Errno::ACCESS { open(OFlags::RDONLY) } else { Err(e) }).map_err(os)?;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
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
    let process = std::process::id();
    Ok(Some(LockGuard::new(move || {
        // Said aloud, since a child that was forked meanwhile still holds the file open; and by the owner only.
        if std::process::id() == process {
            let _ = rustix::fs::flock(&file, FlockOperation::Unlock);
        }
    })))
}
