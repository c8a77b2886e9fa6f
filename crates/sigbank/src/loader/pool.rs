//! Memory for batches that is used again: fresh pages cost more than filling them.

use crate::error::{Error, Result};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// What every buffer begins on a multiple of, so that it does not share cache lines and vector instructions meet aligned data.
pub(super) const ALIGN: usize = 64;

/// Hands out buffers and takes them back, the last returned first (its cache lines are the warmest). Dropping the pool frees
/// what it holds; buffers that are out then free themselves.
#[derive(Debug)]
pub(super) struct Pool {
    home: Arc<Home>,
}

#[derive(Debug)]
struct Home {
    /// None once the pool is gone.
    free: Mutex<Option<Vec<Vec<u8>>>>,
    /// Bytes handed out and held.
    live: AtomicUsize,
    /// While there are more bytes than this, what comes back is freed.
    limit: usize,
}

impl Pool {
    /// A pool that keeps a buffer only while all its buffers together have at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { home: Arc::new(Home { free: Mutex::new(Some(Vec::new())), live: AtomicUsize::new(0), limit }) }
    }
    /// A buffer of `len` bytes: zeros, or whatever an earlier user left in it.
    ///
    /// # Errors
    /// `Limit` where there is no memory for it.
    pub(super) fn take(&self, len: usize) -> Result<PooledBuf> {
        if len == 0 {
            return Ok(PooledBuf { memory: Vec::new(), start: 0, len, home: self.home.clone() });
        }
        let need = len.saturating_add(ALIGN - 1);
        let found = {
            let mut free = self.home.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.as_mut().and_then(|free| {
                let at = free.iter().rposition(|memory| (need..=need.saturating_mul(2)).contains(&memory.len()))?;
                Some(free.remove(at))
            })
        };
        let memory = match found {
            Some(memory) => memory,
            None => {
                let memory = crate::pages::take(need).ok_or_else(|| {
                    Error::limit(format!("no memory for a batch column of {len} bytes")).remedy("choose a smaller batch size")
                })?;
                self.home.live.fetch_add(memory.len(), Ordering::Relaxed);
                memory
            }
        };
        let start = memory.as_ptr().align_offset(ALIGN).min(ALIGN - 1);
        Ok(PooledBuf { memory, start, len, home: self.home.clone() })
    }
    /// Bytes that are handed out or kept for reuse.
    #[cfg(test)]
    pub(super) fn live(&self) -> usize {
        self.home.live.load(Ordering::Relaxed)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let freed = self.home.free.lock().unwrap_or_else(PoisonError::into_inner).take();
        let bytes: usize = freed.iter().flatten().map(Vec::len).sum();
        self.home.live.fetch_sub(bytes, Ordering::Relaxed);
        freed.into_iter().flatten().for_each(crate::pages::give_back);
    }
}

impl Home {
    fn give_back(&self, memory: Vec<u8>) {
        let bytes = memory.len();
        if self.live.load(Ordering::Relaxed) <= self.limit {
            // Never waits: in a forked child the lock may have been held by a thread that is not there.
            for _ in 0..64 {
                let mut free = match self.free.try_lock() {
                    Ok(free) => free,
                    Err(TryLockError::Poisoned(p)) => p.into_inner(),
                    Err(TryLockError::WouldBlock) => {
                        std::hint::spin_loop();
                        continue;
                    }
                };
                if let Some(free) = free.as_mut() {
                    free.push(memory);
                    return;
                }
                break;
            }
        }
        self.live.fetch_sub(bytes, Ordering::Relaxed);
        crate::pages::give_back(memory);
    }
}

/// Bytes of one batch column: contiguous, 64-byte aligned, and returned to the loader for a later batch when dropped, from
/// whichever thread.
///
/// ```no_run
/// # use sigbank::loader::{Column, Loader, Options};
/// # let mut loader = Loader::new(sigbank::layout::open("dataset")?, Options::new("train", 32))?;
/// let batch = loader.next().ok_or_else(|| sigbank::Error::not_found("an empty split"))??;
/// if let Some(Column::Fixed(bytes)) = batch.columns.first() {
///     assert_eq!(bytes.as_ptr().align_offset(64), 0);
/// }
/// # Ok::<(), sigbank::Error>(())
/// ```
pub struct PooledBuf {
    /// Taken out while `rows` lends parts of it.
    pub(super) memory: Vec<u8>,
    /// Where the aligned part begins.
    pub(super) start: usize,
    len: usize,
    home: Arc<Home>,
}

impl Deref for PooledBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.memory.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

impl DerefMut for PooledBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.memory.get_mut(self.start..self.start + self.len).unwrap_or_default()
    }
}

impl fmt::Debug for PooledBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PooledBuf({} bytes)", self.len)
    }
}

impl Drop for PooledBuf {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        if !memory.is_empty() {
            self.home.give_back(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_returned_comes_first_and_sizes_are_matched() {
        let pool = Pool::new(1 << 20);
        let mut a = pool.take(1000).unwrap();
        let b = pool.take(1000).unwrap();
        assert!(a.iter().all(|&v| v == 0) && a.len() == 1000 && a.as_ptr().align_offset(64) == 0);
        a.fill(7);
        let (at, bt) = (a.as_ptr(), b.as_ptr());
        drop(b);
        drop(a);
        assert_eq!(pool.live(), 2 * 1063);
        let small = pool.take(100).unwrap();
        assert!(small.as_ptr() != at && small.as_ptr() != bt, "a much larger buffer is kept for its size");
        let again = pool.take(900).unwrap();
        assert_eq!((again.as_ptr(), again.len(), again.first()), (at, 900, Some(&7)));
        assert_eq!(pool.take(1000).unwrap().as_ptr(), bt);
        assert_eq!(pool.live(), 2 * 1063 + 163);
    }

    #[test]
    fn what_is_over_the_limit_is_freed() {
        let pool = Pool::new(2 * 1063);
        let many: Vec<_> = (0..5).map(|_| pool.take(1000).unwrap()).collect();
        assert_eq!(pool.live(), 5 * 1063);
        drop(many);
        assert_eq!(pool.live(), 2 * 1063);
        assert!(pool.take(0).unwrap().is_empty());
        assert_eq!(pool.take(usize::MAX / 2).unwrap_err().code(), crate::error::Code::Limit);
    }

    #[test]
    fn a_buffer_outlives_its_pool_and_frees_itself_from_another_thread() {
        let pool = Pool::new(1 << 20);
        let home = pool.home.clone();
        let mut out = pool.take(64).unwrap();
        drop(pool.take(128).unwrap());
        drop(pool);
        assert_eq!(home.live.load(Ordering::Relaxed), 64 + 63);
        out.fill(3);
        std::thread::spawn(move || assert_eq!(out.iter().map(|&v| u32::from(v)).sum::<u32>(), 192)).join().unwrap();
        assert_eq!((home.live.load(Ordering::Relaxed), Arc::strong_count(&home)), (0, 1));
    }

    #[test]
    fn a_held_lock_does_not_stop_a_return() {
        let pool = Pool::new(1 << 20);
        let buffer = pool.take(64).unwrap();
        let held = pool.home.free.lock().unwrap();
        drop(buffer);
        assert_eq!(pool.live(), 0);
        drop(held);
    }
}
