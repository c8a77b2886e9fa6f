//! Who makes a dataset appear in a bucket, one at a time. A root is created where there is none, so that of two of one layout one wins. Two
//! roots of different layouts have different names: both would be created, and one dataset hide the other. So whoever is about to create a root
//! takes a turn first, an object that is there for as long as that takes, and looks for other roots then.

use super::{Expected, Store, Version};
use crate::error::{Code, Error, Result};
use crate::uri::RelPath;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The object that is there while somebody has the turn.
const TURN: &str = ".sigbank/turn";
/// Who has it for so long was killed, or cannot reach the storage: it takes a few requests.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(100);

/// The turns that this process has.
static MINE: Mutex<Option<HashSet<String>>> = Mutex::new(None);

fn mine() -> MutexGuard<'static, Option<HashSet<String>>> {
    MINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What this process's turns begin with.
fn process() -> String {
    static ID: OnceLock<String> = OnceLock::new();
    let id = ID.get_or_init(|| uuid::Uuid::new_v4().simple().to_string());
    // A forked child has the same.
    format!("a dataset is about to appear here, by {id} {} ", std::process::id())
}

/// A turn; over when dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    store: &'a dyn Store,
    path: RelPath,
    text: String,
}

/// Waits until nobody else has the turn, and takes it. One whose owner was killed is taken over after 20 seconds. None on a store with locks,
/// where datasets appear by renaming their folder, and on one without compare-and-swap or of a program's own.
///
/// # Errors
/// Those of the store; `Conflict` where it passes from one to another for too long.
pub(crate) fn take(store: &dyn Store) -> Result<Option<Turn<'_>>> {
    take_after(store, PATIENCE)
}

fn take_after(store: &dyn Store, patience: Duration) -> Result<Option<Turn<'_>>> {
    let capabilities = store.capabilities();
    // A mounted bucket has neither: there a turn could not be taken over.
    if capabilities.locks || !capabilities.compare_and_swap || !capabilities.turns {
        return Ok(None);
    }
    let (path, text) = (RelPath::parse(TURN)?, format!("{}{}\n", process(), uuid::Uuid::new_v4().simple()));
    // From before it is there, so that nobody in this process takes it for one that was given up.
    mine().get_or_insert_default().insert(text.clone());
    let turn = Turn { store, path, text };
    let (start, mut seen): (Instant, Option<(Version, Instant)>) = (Instant::now(), None);
    while start.elapsed() < patience * 15 {
        let e = match store.create(&turn.path, &[turn.text.as_bytes()]) {
            Ok(()) => return Ok(Some(turn)),
            Err(e) => e,
        };
        let (there, version) = match store.get_versioned(&turn.path) {
            // The answer was lost.
            Ok((there, _)) if there == turn.text.as_bytes() => return Ok(Some(turn)),
            Ok(found) => found,
            Err(gone) if gone.code() == Code::NotFound && e.code() == Code::AlreadyExists => continue,
            Err(_) => return Err(e),
        };
        if !seen.as_ref().is_some_and(|(before, _)| *before == version) {
            seen = Some((version.clone(), Instant::now()));
        }
        let long = seen.as_ref().is_some_and(|(_, since)| since.elapsed() >= patience);
        if long || given_up(&there) {
            match store.replace(&turn.path, &[turn.text.as_bytes()], Expected::Version(&version)) {
                Ok(_) => return Ok(Some(turn)),
                Err(e) if matches!(e.code(), Code::Conflict | Code::NotFound) => {}
                Err(e) => return Err(e),
            }
        }
        std::thread::sleep(PAUSE.min(patience));
    }
    Err(Error::conflict("others are making datasets here, one after another")
        .at(store.locate(&turn.path))
        .remedy("choose another destination, or try again later; if nobody is, delete this object"))
}

/// Whether it is one of this process that could not be ended, as the storage failed.
fn given_up(there: &[u8]) -> bool {
    let text = String::from_utf8_lossy(there);
    text.starts_with(&process()) && !mine().as_ref().is_some_and(|mine| mine.contains(&*text))
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.store.get(&self.path).is_ok_and(|there| there == self.text.as_bytes()) {
            let _ = self.store.delete(&self.path);
        }
        mine().as_mut().map(|mine| mine.remove(&self.text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::bucket::BucketStore;
    use crate::store::fault::{Fault, FaultStore, Rule};
    use crate::store::{MemoryStore, exists};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn bucket() -> BucketStore {
        BucketStore::new(Arc::new(MemoryStore::new()), 1 << 20)
    }

    #[test]
    fn one_has_it_at_a_time() {
        let (store, inside, most) = (bucket(), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let _turn = take(&store).unwrap();
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(2));
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
        assert!(!exists(&store, &RelPath::parse(TURN).unwrap()).unwrap());
    }

    #[test]
    fn that_of_a_killed_one_is_taken_over_and_stays_with_who_took_it() {
        let store = bucket();
        let killed = take(&store).unwrap();
        let patience = Duration::from_millis(20);
        let next = take_after(&store, patience).unwrap();
        // It lives after all: what it takes away is its own.
        drop(killed);
        assert!(exists(&store, &RelPath::parse(TURN).unwrap()).unwrap());
        drop(next);
        assert!(!exists(&store, &RelPath::parse(TURN).unwrap()).unwrap());
    }

    #[test]
    fn one_that_could_not_be_ended_is_in_nobodys_way() {
        let broken = FaultStore::new(Arc::new(bucket()));
        let turn = take(&broken).unwrap();
        broken.add(Rule::new(Fault::Fail(Error::storage("pulled the plug"))).always());
        drop(turn);
        broken.heal();
        assert!(exists(&broken, &RelPath::parse(TURN).unwrap()).unwrap());
        let start = Instant::now();
        drop(take(&broken).unwrap());
        assert!(start.elapsed() < PATIENCE && !exists(&broken, &RelPath::parse(TURN).unwrap()).unwrap());
    }

    #[test]
    fn where_there_are_locks_nothing_is_written() {
        let store = MemoryStore::new();
        assert!(take(&store).unwrap().is_none());
        assert_eq!(store.list(None).unwrap().count(), 0);
    }
}
