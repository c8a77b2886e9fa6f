//! Work on many things by threads.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What `work` gives for ranges of numbers below `count`, in order: `batch` numbers
/// at a time on `threads` threads; 0: one a core.
pub(super) fn parallel<T: Send>(
    count: usize,
    batch: usize,
    threads: usize,
    work: impl Fn(std::ops::Range<usize>, &mut Vec<T>) -> Result<()> + Sync,
) -> Result<Vec<T>> {
    // Asking costs a look into several files.
    static CORES: OnceLock<usize> = OnceLock::new();
    let threads = match threads {
        0 if count <= batch => 1,
        0 => *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from)),
        n => n,
    };
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, Vec<T>)>> = Mutex::new(Vec::new());
    let run = || -> Result<()> {
        loop {
            let start = next.fetch_add(batch, Ordering::Relaxed);
            if start >= count {
                return Ok(());
            }
            let mut out = Vec::with_capacity(batch);
            work(start..count.min(start + batch), &mut out)?;
            found.lock().unwrap_or_else(PoisonError::into_inner).push((start, out));
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(count.div_ceil(batch))).map(|_| scope.spawn(run)).collect();
        let mine = run();
        let ended = || Error::storage("a thread ended before its work was done: this is a defect of sigbank, please report it");
        others.into_iter().map(|other| other.join().unwrap_or_else(|_| Err(ended()))).fold(mine, Result::and)
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by_key(|(start, _)| *start);
    Ok(found.into_iter().flat_map(|(_, part)| part).collect())
}
