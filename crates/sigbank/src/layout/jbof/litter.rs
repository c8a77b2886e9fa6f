//! What killed processes leave beside a data set: a folder or file that was to become one, or was one and is being deleted. Its name is hidden, so that
//! nobody takes it for anything, and tells what it belongs to: whoever next makes or deletes something of that name takes it away.

use crate::error::{Error, Result};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What nobody changed for so long, and nobody holds, is left by a process that is gone.
const QUIET: Duration = Duration::from_secs(60);
/// Longest part of a name that a hidden one has of it, in bytes: names have 255.
const LONGEST: usize = 150;

/// A name that nobody has, beside another and in its words.
pub(super) fn beside(path: &Path) -> Result<PathBuf> {
    match prefix(path) {
        Some(prefix) => Ok(path.with_file_name(format!("{prefix}{}", uuid::Uuid::new_v4()))),
        None => Err(Error::invalid("this is no name for a file or directory").at(path.display())),
    }
}

fn prefix(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let end = (0..=LONGEST.min(name.len())).rev().find(|&at| name.is_char_boundary(at))?;
    Some(format!(".{}.", name.get(..end)?))
}

/// Shows that somebody is at a folder or file, until it is dropped; under whatever name.
pub(super) fn hold(path: &Path) -> Option<OwnedFd> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty()).ok()?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok().map(|()| file)
}

/// Takes away what is left beside a path. What cannot be told to be nobody's stays.
pub(super) fn sweep(path: &Path) {
    let Some((prefix, above)) = prefix(path).zip(path.parent()) else { return };
    for entry in std::fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let random = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        if random.is_none_or(|random| uuid::Uuid::try_parse(random).is_err()) {
            continue;
        }
        let Ok(found) = entry.metadata() else { continue };
        let quiet = |at| SystemTime::now().duration_since(at).is_ok_and(|past| past >= QUIET);
        if found.is_symlink() || !found.modified().is_ok_and(quiet) {
            continue;
        }
        let Some(_held) = hold(&entry.path()) else { continue };
        let _ = if found.is_dir() { std::fs::remove_dir_all(entry.path()) } else { std::fs::remove_file(entry.path()) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Creation, Dataset, hdf};
    use super::*;
    use std::fs::File;

    fn age(path: &Path) {
        File::open(path).unwrap().set_modified(SystemTime::now() - QUIET * 2).unwrap();
    }

    #[test]
    fn what_killed_processes_left_goes_with_the_next_of_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let (set, one) = (dir.path().join("set"), dir.path().join("set.h5"));
        let left = |of: &Path, old: bool| {
            let left = beside(of).unwrap();
            if of == set {
                std::fs::create_dir_all(left.join("item")).unwrap()
            } else {
                std::fs::write(&left, b"half").unwrap()
            }
            if old {
                age(&left);
            }
            left
        };
        let (stale, fresh, held, other) =
            (left(&set, true), left(&set, false), left(&set, true), left(&dir.path().join("sets"), true));
        let alike = dir.path().join(".set.txt");
        std::fs::create_dir(&alike).unwrap();
        age(&alike);
        let hold = hold(&held).unwrap();
        let dataset = Dataset::create(&set, &Creation::default()).unwrap();
        assert!(!stale.exists() && fresh.exists() && held.exists() && other.exists() && alike.exists());
        drop(hold);
        Dataset::delete(&set).unwrap();
        assert!(!held.exists() && fresh.exists());
        let dataset = dataset.is_writable().then(|| Dataset::create(&set, &Creation::default()).unwrap()).unwrap();
        let stale = left(&one, true);
        hdf::export(&dataset, &one).unwrap();
        let copy = dir.path().join("copy");
        let half = beside(&copy).unwrap();
        std::fs::create_dir(&half).unwrap();
        age(&half);
        hdf::import(&Dataset::open_hdf(&one).unwrap(), &copy).unwrap();
        assert!(!stale.exists() && !half.exists() && copy.is_dir());
    }

    #[test]
    fn long_names_are_cut_between_letters() {
        let name = beside(Path::new(&format!("/x/{}", "é".repeat(120)))).unwrap();
        let name = name.file_name().unwrap().to_str().unwrap();
        assert!(name.len() <= 255 && name.starts_with(".éé"), "{name}");
        assert!(beside(Path::new("/")).is_err());
    }
}
