//! Many things at once.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// Does something with each item on so many threads; `tell` hears of each result, in no promised order, on the caller's thread and
/// stops the run by `false`. The first error ends it too.
pub(super) fn each<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    work: impl Fn(&T) -> Result<R> + Sync,
    tell: &mut dyn FnMut(R) -> bool,
) -> Result<()> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (send, hear) = mpsc::channel();
    let run = |send: mpsc::Sender<Result<R>>| {
        while !stop.load(Ordering::Relaxed) {
            let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let done = work(item);
            let failed = done.is_err();
            if send.send(done).is_err() || failed {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.min(items.len()))
            .map(|_| {
                let (send, run) = (send.clone(), &run);
                scope.spawn(move || run(send))
            })
            .collect();
        drop(send);
        let heard = hear.iter().try_for_each(|done| if tell(done?) { Ok(()) } else { Err(super::stopped()) });
        stop.store(true, Ordering::Relaxed);
        let gone = || Error::storage("a thread ended before its work was done; please report this");
        threads.into_iter().map(|thread| thread.join().map_err(|_| gone())).fold(heard, Result::and)
    })
}
