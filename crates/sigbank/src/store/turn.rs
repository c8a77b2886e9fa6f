//! Who makes a dataset appear in a bucket, one at a time. A root is created where there is none, so that of two of one layout one wins. Two
//! roots of different layouts have different names: both would be created, and one dataset hide the other. So whoever is about to create a root
//! takes a turn first, an object that is there for as long as that takes, and looks for other roots then.

use super::{Expected, Store, Version};
use crate::error::{Code, Error, Result};
use crate::uri::RelPath;
use std::time::{Duration, Instant};

/// The object that is there while somebody has the turn.
const TURN: &str = ".sigbank/turn";
/// Who has it for so long was killed: it takes a few requests.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// A turn; over when dropped. On stores with locks it is none: there datasets appear by renaming their folder.
#[derive(Debug)]
pub(crate) struct Turn<'a>(Option<(&'a dyn Store, RelPath, String)>);

/// Waits until nobody else has the turn, and takes it. One whose owner was killed is taken over after a minute.
///
/// # Errors
/// Those of the store; `Conflict` where it passes from one to another for too long.
pub(crate) fn take(store: &dyn Store) -> Result<Turn<'_>> {
    take_after(store, PATIENCE)
}

fn take_after(store: &dyn Store, patience: Duration) -> Result<Turn<'_>> {
    if store.capabilities().locks {
        return Ok(Turn(None));
    }
    let path = RelPath::parse(TURN)?;
    let mine = format!("a dataset is about to appear here: {}\n", uuid::Uuid::new_v4().simple());
    let (start, mut seen): (Instant, Option<(Version, Instant)>) = (Instant::now(), None);
    while start.elapsed() < patience * 4 {
        let e = match store.create(&path, &[mine.as_bytes()]) {
            Ok(()) => return Ok(Turn(Some((store, path, mine)))),
            Err(e) => e,
        };
        let there = match store.get_versioned(&path) {
            // The answer was lost.
            Ok((there, _)) if there == mine.as_bytes() => return Ok(Turn(Some((store, path, mine)))),
            Ok((_, version)) => version,
            Err(gone) if gone.code() == Code::NotFound && e.code() == Code::AlreadyExists => continue,
            Err(_) => return Err(e),
        };
        match &seen {
            Some((version, since)) if *version == there => {
                if since.elapsed() >= patience {
                    match store.replace(&path, &[mine.as_bytes()], Expected::Version(&there)) {
                        Ok(_) => return Ok(Turn(Some((store, path, mine)))),
                        Err(e) if matches!(e.code(), Code::Conflict | Code::NotFound) => {}
                        Err(e) => return Err(e),
                    }
                }
            }
            _ => seen = Some((there, Instant::now())),
        }
        std::thread::sleep(PAUSE.min(patience));
    }
    Err(Error::conflict("others are making datasets here, one after another")
        .at(store.locate(&path))
        .remedy("choose another destination, or try again later; if nobody is, delete this object"))
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some((store, path, mine)) = self.0.take()
            && store.get(&path).is_ok_and(|there| there == mine.as_bytes())
        {
            let _ = store.delete(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::bucket::BucketStore;
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
    fn where_there_are_locks_nothing_is_written() {
        let store = MemoryStore::new();
        let _turn = take(&store).unwrap();
        assert_eq!(store.list(None).unwrap().count(), 0);
    }
}
