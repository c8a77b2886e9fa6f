//! Listing: one directory at a time, in sorted order, so that memory is bounded by the largest directory.

use super::LocalStore;
use super::root::os;
use super::write::TEMPORARY;
use crate::Code;
use crate::error::Result;
use crate::store::{DirEntry, Entry};
use crate::uri::RelPath;
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use std::time::{Duration, SystemTime};

/// One name of a directory, before it is known whether a link leads to it.
struct Found {
    entry: DirEntry,
    linked: bool,
}

impl LocalStore {
    /// Sorted, directories first. A symbolic link counts as what it leads to, also when that lies outside, so that reading it says
    /// why it is refused; a link to nowhere, a special file and a name that no [`RelPath`] can hold are no objects.
    fn read_dir(&self, dir: Option<&RelPath>) -> Result<Vec<Found>> {
        let fd = match self.root.open_dir(dir) {
            Ok(fd) => fd,
            Err(e) if e.code() == Code::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        let mut found = Vec::new();
        for item in Dir::read_from(&fd).map_err(os)? {
            let item = item.map_err(os)?;
            let Ok(name) = item.file_name().to_str() else { continue };
            if name == "." || name == ".." || name.starts_with(TEMPORARY) {
                continue;
            }
            let Ok(path) = dir.map_or_else(|| RelPath::parse(name), |dir| dir.join(name)) else { continue };
            if path == self.private {
                continue;
            }
            let (kind, linked) = (item.file_type(), item.file_type() == FileType::Symlink);
            if kind == FileType::Directory {
                found.push(Found { entry: DirEntry::Dir(path), linked });
                continue;
            }
            let look = |flags| rustix::fs::statat(&fd, item.file_name(), flags);
            let (stat, linked) = match look(AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => (look(AtFlags::empty()), true),
                other => (other, linked),
            };
            let stat = match stat {
                Ok(stat) => stat,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue, // Deleted meanwhile, or a link to nowhere.
                Err(e) => return Err(os(e).at(self.root.path.join(path.as_str()).display())),
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => found.push(Found { entry: DirEntry::Dir(path), linked }),
                FileType::RegularFile => {
                    let entry = Entry { path, size: stat.st_size.cast_unsigned(), modified: modified(&stat) };
                    found.push(Found { entry: DirEntry::Object(entry), linked });
                }
                _ => {}
            }
        }
        found.sort_unstable_by(|a, b| a.entry.cmp(&b.entry));
        Ok(found)
    }

    pub(super) fn dir_entries(&self, dir: Option<&RelPath>) -> Result<Vec<DirEntry>> {
        Ok(self.read_dir(dir)?.into_iter().map(|found| found.entry).collect())
    }
}

/// The time of a file's last change; none for what no clock shows.
#[allow(clippy::unnecessary_fallible_conversions, clippy::useless_conversion, reason = "the types differ between platforms")]
fn modified(stat: &rustix::fs::Stat) -> Option<SystemTime> {
    let (seconds, nanos) = (i64::try_from(stat.st_mtime).ok()?, u64::try_from(stat.st_mtime_nsec).ok()?);
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 { SystemTime::UNIX_EPOCH.checked_sub(whole) } else { SystemTime::UNIX_EPOCH.checked_add(whole) };
    base?.checked_add(Duration::from_nanos(nanos))
}

/// Everything below a directory. A linked directory is not entered: links may form circles.
pub(super) struct Walk<'a> {
    store: &'a LocalStore,
    // What is still to come, the next one last.
    left: Vec<Found>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(store: &'a LocalStore, dir: Option<&RelPath>) -> Result<Self> {
        let mut walk = Self { store, left: Vec::new() };
        walk.enter(dir)?;
        Ok(walk)
    }
    fn enter(&mut self, dir: Option<&RelPath>) -> Result<()> {
        let located = |e: crate::Error| match dir {
            Some(dir) => e.at(self.store.root.path.join(dir.as_str()).display()),
            None => e.at(self.store.root.path.display()),
        };
        let found = self.store.read_dir(dir).map_err(located)?;
        self.left.extend(found.into_iter().rev());
        Ok(())
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Entry>;
    fn next(&mut self) -> Option<Self::Item> {
        while let Some(found) = self.left.pop() {
            match found.entry {
                DirEntry::Object(entry) => return Some(Ok(entry)),
                DirEntry::Dir(_) if found.linked => {}
                DirEntry::Dir(dir) => {
                    if let Err(e) = self.enter(Some(&dir)) {
                        self.left.clear();
                        return Some(Err(e));
                    }
                }
            }
        }
        None
    }
}
