//! A folder that appears under its name only when it is complete.

use crate::error::{Error, Result};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// A new folder beside the one that it is to become. It is removed when dropped before [`Staging::publish`]; what a killed
/// process left is removed by the next one with the same destination (a lock tells whether its maker still lives).
#[derive(Debug)]
pub struct Staging {
    dir: PathBuf,
    dest: PathBuf,
    // Held for as long as the folder is being filled.
    _lock: Option<File>,
}

impl Staging {
    /// Makes the folder.
    ///
    /// # Errors
    /// `AlreadyExists` where the destination is taken, `NotFound` where the folder that it would lie in is not there,
    /// `ReadOnly` where that cannot be written to.
    pub fn new(dest: &Path) -> Result<Self> {
        refuse_existing(dest)?;
        let (parent, name) = parts(dest)?;
        let prefix = format!(".{name}.packing-");
        for left in fs::read_dir(&parent).into_iter().flatten().flatten() {
            if left.file_name().to_string_lossy().starts_with(&prefix) && is_abandoned(&left.path()) {
                // A leftover that cannot be removed is in nobody's way.
                let _ = fs::remove_dir_all(left.path());
            }
        }
        for attempt in 0u32.. {
            let dir = parent.join(format!("{prefix}{}-{attempt}", std::process::id()));
            match fs::create_dir(&dir) {
                Ok(()) => {
                    // A system without such locks cleans up less, that is all.
                    let lock = File::open(&dir).ok().filter(|f| f.try_lock().is_ok());
                    return Ok(Self { dir, dest: dest.to_path_buf(), _lock: lock });
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && attempt < 1000 => {}
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                    let what = "the folder that the destination would lie in is not there";
                    return Err(Error::not_found(what).at(parent.display()).remedy("make it first, or check the path"));
                }
                Err(e) => return Err(Error::from(e).at(parent.display())),
            }
        }
        Err(Error::storage("no free name for a temporary folder").at(parent.display()))
    }
    /// Where to write.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    /// Gives the folder its name, in one step, durably.
    ///
    /// # Errors
    /// `AlreadyExists` where the destination was made meanwhile; the folder is removed then, as with every error.
    pub fn publish(self) -> Result<()> {
        refuse_existing(&self.dest)?;
        let (parent, _) = parts(&self.dest)?;
        match rename_new(&self.dir, &self.dest) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(taken(&self.dest)),
            Err(e) => return Err(Error::from(e).at(self.dest.display())),
        }
        File::open(&parent).and_then(|d| d.sync_all()).map_err(|e| Error::from(e).at(parent.display()))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // After a publish there is nothing under this name.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Renames a folder without replacing anything.
fn rename_new(from: &Path, to: &Path) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            done => return Ok(done?),
        }
    }
    // A folder takes the place of an empty folder at most, which is no loss.
    fs::rename(from, to).map_err(|e| match e.kind() {
        std::io::ErrorKind::DirectoryNotEmpty | std::io::ErrorKind::NotADirectory => std::io::ErrorKind::AlreadyExists.into(),
        _ => e,
    })
}

fn parts(dest: &Path) -> Result<(PathBuf, String)> {
    let name = dest.file_name().ok_or_else(|| Error::invalid("this is no name for a new folder").at(dest.display()))?;
    let parent = dest.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((parent.to_path_buf(), name.to_string_lossy().into_owned()))
}

fn refuse_existing(dest: &Path) -> Result<()> {
    match fs::symlink_metadata(dest) {
        Ok(_) => Err(taken(dest)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Error::from(e).at(dest.display())),
    }
}

fn taken(dest: &Path) -> Error {
    Error::already_exists("the destination exists, and nothing is replaced")
        .at(dest.display())
        .remedy("choose another name, or remove it first")
}

fn is_abandoned(dir: &Path) -> bool {
    match File::open(dir).map(|f| f.try_lock()) {
        Ok(Ok(())) => true,
        Ok(Err(TryLockError::WouldBlock | TryLockError::Error(_))) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let dest = dir.path().join("out");
        let staging = Staging::new(&dest).unwrap();
        fs::write(staging.dir().join("x"), "1").unwrap();
        assert!(!dest.exists());
        drop(staging);
        assert_eq!(names(dir.path()), [""; 0]);
        let staging = Staging::new(&dest).unwrap();
        fs::write(staging.dir().join("x"), "1").unwrap();
        staging.publish().unwrap();
        assert_eq!((names(dir.path()), names(&dest)), (vec!["out".to_string()], vec!["x".to_string()]));
    }

    #[test]
    fn what_is_there_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let dest = dir.path().join("out");
        let staging = Staging::new(&dest).unwrap();
        fs::write(&dest, "mine").unwrap();
        assert_eq!(Staging::new(&dest).unwrap_err().code(), Code::AlreadyExists);
        assert_eq!(staging.publish().unwrap_err().code(), Code::AlreadyExists);
        assert_eq!((names(dir.path()), fs::read_to_string(&dest).unwrap().as_str()), (vec!["out".to_string()], "mine"));
        let e = Staging::new(&dir.path().join("no/where")).unwrap_err();
        assert_eq!(e.code(), Code::NotFound);
        assert!(e.path().unwrap().ends_with("no"), "{e}");
    }

    #[test]
    fn leftovers_of_the_dead_are_removed_those_of_the_living_kept() {
        let dir = tempfile::tempdir().unwrap();
        let dest = dir.path().join("out");
        let dead = dir.path().join(".out.packing-1-0");
        fs::create_dir(&dead).unwrap();
        let living = Staging::new(&dest).unwrap();
        assert!(!dead.exists());
        let other = Staging::new(&dest).unwrap();
        assert!(living.dir().exists() && other.dir().exists() && living.dir() != other.dir());
    }
}
