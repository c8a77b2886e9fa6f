//! A folder that appears under its name only when it is complete.

use crate::error::{Error, Result};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The folders that this process is filling.
static FILLING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn filling() -> MutexGuard<'static, Vec<PathBuf>> {
    FILLING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every folder that this process is filling, and what it put into buckets for new Sedpack datasets, for one that is about to end: whoever
/// wants to publish or to make one waits for that end, and waits for ever. Gives the number of datasets.
///
/// ```no_run
/// let folders = sigbank::convert::abandon_all();
/// eprintln!("stopped; {folders} unfinished folders were removed");
/// std::process::exit(130);
/// ```
pub fn abandon_all() -> usize {
    let mut all = filling();
    let count = all.len();
    for dir in all.drain(..) {
        // Threads go on writing there until they find that it is gone.
        for _ in 0..100 {
            match fs::remove_dir_all(&dir) {
                Err(e) if e.kind() != ErrorKind::NotFound => std::thread::sleep(std::time::Duration::from_millis(1)),
                _ if dir.exists() => {}
                _ => break,
            }
        }
    }
    std::mem::forget(all);
    count + super::veil::abandon_all()
}

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
        static COUNT: AtomicU64 = AtomicU64::new(0);
        if crate::store::local_path(&dest.to_string_lossy()).is_none() {
            return Err(Error::unsupported("this is made in a folder, not at an address")
                .at(dest.display())
                .remedy("make it in a folder, and copy that: sigbank cp"));
        }
        refuse_existing(dest)?;
        let (parent, name) = parts(dest)?;
        let prefix = format!(".{name}.packing-");
        for left in fs::read_dir(&parent).into_iter().flatten().flatten() {
            if left.file_name().to_string_lossy().starts_with(&prefix) {
                remove_abandoned(&left.path());
            }
        }
        for _ in 0..1000 {
            let dir = parent.join(format!("{prefix}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
            let mut all = filling();
            match fs::create_dir(&dir) {
                Ok(()) => {
                    // Where another process took it for abandoned before the lock was there: once more.
                    if let Ok(lock) = take(&dir) {
                        all.push(dir.clone());
                        return Ok(Self { dir, dest: dest.to_path_buf(), _lock: lock });
                    }
                }
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) if e.kind() == ErrorKind::NotFound => {
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
        // Not while the process is being ended, and the folder emptied.
        let mut all = filling();
        let renamed = rename_new(&self.dir, &self.dest);
        match renamed {
            Ok(()) => all.retain(|dir| *dir != self.dir),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(taken(&self.dest)),
            Err(e) => return Err(Error::from(e).at(self.dest.display())),
        }
        drop(all);
        File::open(&parent).and_then(|d| d.sync_all()).map_err(|e| Error::from(e).at(parent.display()))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let mut all = filling();
        let before = all.len();
        all.retain(|dir| *dir != self.dir);
        // A published one is none of these any more.
        if all.len() < before {
            drop(all);
            let _ = fs::remove_dir_all(&self.dir);
        }
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

/// The folder was removed by another process.
struct TakenAway;

/// Locks a new folder; none on a system without such locks, which cleans up less, that is all.
fn take(dir: &Path) -> std::result::Result<Option<File>, TakenAway> {
    let file = match File::open(dir) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(TakenAway),
        Err(_) => return Ok(None),
    };
    let locked = match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => return Err(TakenAway),
        Err(TryLockError::Error(_)) => false,
    };
    // Who removes it holds the lock before and while doing so: what is there now, stays.
    match (file.metadata(), fs::metadata(dir)) {
        (Ok(held), Ok(named)) if (held.dev(), held.ino()) == (named.dev(), named.ino()) => Ok(locked.then_some(file)),
        _ => Err(TakenAway),
    }
}

/// Removes a folder that no process holds the lock of. One that cannot be removed is in nobody's way.
fn remove_abandoned(dir: &Path) {
    if let Ok(file) = File::open(dir)
        && file.try_lock().is_ok()
    {
        let _ = fs::remove_dir_all(dir);
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

    #[test]
    fn several_at_once_never_take_each_others_folder() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..300 {
            let dest = dir.path().join(format!("out{round}"));
            let start = std::sync::Barrier::new(5);
            let one = || {
                start.wait();
                let staging = Staging::new(&dest)?;
                fs::write(staging.dir().join("a"), "1")?;
                std::thread::yield_now();
                fs::write(staging.dir().join("b"), "2")?;
                staging.publish()
            };
            let done: Vec<Result<()>> = std::thread::scope(|scope| {
                let all: Vec<_> = (0..5).map(|_| scope.spawn(one)).collect();
                all.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(done.iter().filter(|d| d.is_ok()).count(), 1, "{done:?}");
            let refused = |d: &Result<()>| d.as_ref().err().is_none_or(|e| e.code() == Code::AlreadyExists);
            assert!(done.iter().all(refused), "{done:?}");
            assert_eq!(names(&dest), ["a", "b"]);
            assert_eq!(names(dir.path()).len(), round + 1);
        }
    }

    #[test]
    fn a_folder_that_is_taken_away_before_its_lock_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let (there, gone) = (dir.path().join("a"), dir.path().join("b"));
        fs::create_dir(&there).unwrap();
        assert!(take(&gone).is_err());
        // Another process removes it just now.
        let rival = File::open(&there).unwrap();
        rival.try_lock().unwrap();
        assert!(take(&there).is_err());
        drop(rival);
        assert!(take(&there).is_ok_and(|lock| lock.is_some()));
    }
}
