//! The root directory and the way from it to a name: nothing here ever leaves the root, whatever symbolic links say.

use crate::error::{Code, Error, Result};
use crate::store::missing;
use crate::uri::RelPath;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// An open directory. It stays the same directory when it is renamed.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    pub(super) fd: OwnedFd,
    /// Whether the kernel itself can keep a look-up below the root (Linux 5.6, and no sandbox that forbids it).
    pub(super) guarded: bool,
}

/// How a directory is opened. Not `PATH`, so that it can be listed and synced too.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// How an object is opened. Not waiting, since a named pipe may stand there.
const OBJECT: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

pub(super) fn os(e: Errno) -> Error {
    io::Error::from(e).into()
}

impl Root {
    pub(super) fn open(path: PathBuf) -> Result<Self> {
        let fd = rustix::fs::open(&path, DIRECTORY, Mode::empty()).map_err(os)?;
        let mut root = Self { path, fd, guarded: true };
        root.guarded = matches!(root.open_guarded(Path::new("."), DIRECTORY), Ok(Some(_)));
        Ok(root)
    }

    /// The directory `dir`, or the root.
    pub(super) fn open_dir(&self, dir: Option<&RelPath>) -> Result<OwnedFd> {
        self.resolve(dir.map_or(Path::new("."), AsRef::as_ref), DIRECTORY)
    }

    /// The regular file at `path` and its size; what else stands there is no object.
    pub(super) fn open_file(&self, path: &RelPath) -> Result<(File, u64)> {
        let file = File::from(self.resolve(path.as_ref(), OBJECT)?);
        let meta = file.metadata()?;
        match meta.is_file() {
            true => Ok((file, meta.len())),
            false => Err(missing().within("this is a directory or a special file")),
        }
    }

    /// The directory that will hold `path`, made with all above it where it is not there, and the last component.
    pub(super) fn make_parent<'a>(&self, path: &'a RelPath) -> Result<(OwnedFd, &'a str)> {
        Ok((self.make_dir(path.parent().as_ref())?, path.file_name()))
    }

    /// The directory `dir` (or the root), made with all above it where it is not there.
    pub(super) fn make_dir(&self, dir: Option<&RelPath>) -> Result<OwnedFd> {
        let dir = match (self.open_dir(dir), dir) {
            (Err(e), Some(dir)) if e.code() == Code::NotFound => dir,
            (other, _) => return other,
        };
        // Every level is looked up from the root again, since a link may lie between.
        let above = self.make_dir(dir.parent().as_ref())?;
        match rustix::fs::mkdirat(&above, dir.file_name(), Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => self.open_dir(Some(dir)).map_err(not_a_directory),
            Err(e) => Err(os(e).within(format!("the directory {dir}"))),
        }
    }

    fn resolve(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        if self.guarded
            && let Some(fd) = self.open_guarded(path, flags)?
        {
            return Ok(fd);
        }
        self.open_checked(path, flags)
    }

    /// `None` where the kernel cannot say: an absolute link, which may well lead back inside, or a look-up that was disturbed.
    #[cfg(target_os = "linux")]
    fn open_guarded(&self, path: &Path, flags: OFlags) -> Result<Option<OwnedFd>> {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..32 {
            match rustix::fs::openat2(&self.fd, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::XDEV | Errno::NOSYS | Errno::PERM) => return Ok(None),
                Err(e) => return Err(reading(e)),
                Ok(fd) => return Ok(Some(fd)),
            }
        }
        Ok(None)
    }
    #[cfg(not(target_os = "linux"))]
    fn open_guarded(&self, _: &Path, _: OFlags) -> Result<Option<OwnedFd>> {
        Ok(None)
    }

    /// The look-up without the kernel's help: resolve, compare, open what was resolved. Whoever can change links inside the
    /// dataset at that very moment can still lead it astray, which is why it comes second.
    fn open_checked(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        let resolved = |path: &Path| std::fs::canonicalize(path).map_err(|e| errno(&e).map_or_else(|| e.into(), reading));
        let root = resolved(&self.path)?;
        let target = resolved(&root.join(path))?;
        let Ok(inside) = target.strip_prefix(&root) else {
            return Err(Error::invalid("a symbolic link leads out of the dataset's directory")
                .remedy("copy what it leads to into the dataset, or open the directory that it leads to"));
        };
        let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
        rustix::fs::openat(&self.fd, inside, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(reading)
    }
}

fn errno(e: &io::Error) -> Option<Errno> {
    e.raw_os_error().map(Errno::from_raw_os_error)
}

/// A name below a file is a name that does not exist.
fn reading(e: Errno) -> Error {
    match e {
        Errno::NOENT | Errno::NOTDIR => missing().caused_by(io::Error::from(e)),
        other => os(other),
    }
}

fn not_a_directory(e: Error) -> Error {
    match e.code() {
        Code::NotFound => Error::already_exists("a file, or a link that leads nowhere, stands where a directory is needed"),
        _ => e,
    }
}
