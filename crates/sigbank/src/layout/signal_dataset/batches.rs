//! Reading ahead: threads decode the next records while the last are in use.

use super::dataset::Dataset;
use super::read::{Stored, gone};
use crate::error::Result;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Bytes of decoded records that make a batch, and most records. Smaller ones have threads wait for each other: at 256 KiB once a record.
const BATCH: (usize, usize) = (1 << 20, 1024);
/// The same where a request costs a round trip; and threads then, most of which wait.
const BATCH_AFAR: (usize, usize) = (1 << 20, 4096);
const THREADS_AFAR: usize = 16;
/// Bytes that are read ahead then, at least.
const AHEAD_AFAR: usize = 48 << 20;

/// What is read, in order.
#[derive(Debug, Clone)]
pub(super) enum Ordinals {
    Range(Range<u64>),
    List(Arc<[u64]>),
}

impl Ordinals {
    fn len(&self) -> u64 {
        match self {
            Self::Range(range) => range.end.saturating_sub(range.start),
            Self::List(list) => list.len() as u64,
        }
    }
    fn take(&self, from: u64, to: u64) -> Vec<u64> {
        match self {
            Self::Range(range) => (range.start + from..range.start + to).collect(),
            Self::List(list) => list.get(from as usize..to as usize).unwrap_or_default().to_vec(),
        }
    }
}

/// Batches of records, in order, see [`Dataset::batches`]. After an error it ends. The threads end with it.
///
/// In a forked child it hands out nothing new: make it anew there.
pub struct Batches<T: Stored> {
    shared: Arc<Shared<T>>,
    threads: Vec<JoinHandle<()>>,
    process: u32,
}

struct Shared<T> {
    dataset: Dataset,
    ordinals: Ordinals,
    /// Whether reading costs round trips.
    afar: bool,
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// How far it has been handed to threads.
    position: u64,
    /// The number of the batch that is handed to a thread next, and of the one that is delivered next.
    next: u64,
    deliver: u64,
    done: BTreeMap<u64, (usize, Result<Vec<T>>)>,
    /// Bytes that are done but not delivered, or expected of what is at work.
    held: usize,
    /// The most bytes that a record took.
    largest: usize,
    alive: usize,
    stop: bool,
}

impl<T: Stored> Batches<T> {
    pub(super) fn new(dataset: Dataset, ordinals: Ordinals) -> Self {
        let ordinals = match ordinals {
            Ordinals::Range(range) => Ordinals::Range(range.start.min(dataset.len())..range.end.min(dataset.len())),
            list => list,
        };
        let afar = dataset.round_trip() > 0;
        let threads = if afar { dataset.options().threads().max(THREADS_AFAR) } else { dataset.options().threads() };
        let threads = threads.min(usize::try_from(ordinals.len()).unwrap_or(usize::MAX));
        let state =
            State { position: 0, next: 0, deliver: 0, done: BTreeMap::new(), held: 0, largest: 0, alive: threads, stop: false };
        let shared = Arc::new(Shared { dataset, ordinals, afar, state: Mutex::new(state), changed: Condvar::new() });
        let spawn = |_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                let _ends = Ends(&shared);
                shared.work();
            })
        };
        let threads = (0..threads).map(spawn).collect();
        Self { shared, threads, process: std::process::id() }
    }
}

/// Says that a thread has ended, even by a panic.
struct Ends<'a, T>(&'a Shared<T>);

impl<T> Drop for Ends<'_, T> {
    fn drop(&mut self) {
        self.0.state().alive -= 1;
        self.0.changed.notify_all();
    }
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Stored> Shared<T> {
    fn work(&self) {
        let ahead = self.dataset.options().read_ahead_bytes;
        let (budget, batch) = if self.afar { (ahead.max(AHEAD_AFAR), BATCH_AFAR) } else { (ahead, BATCH) };
        loop {
            let (number, ordinals, expected) = {
                let mut state = self.state();
                let (records, expected) = loop {
                    let left = self.ordinals.len() - state.position;
                    if state.stop || left == 0 {
                        return;
                    }
                    // How large they are shows with the first.
                    let records = batch.0.checked_div(state.largest).unwrap_or(1).clamp(1, batch.1);
                    let records = left.min(records as u64);
                    let expected = state.largest.saturating_mul(records as usize);
                    if state.next == state.deliver || (state.largest > 0 && state.held.saturating_add(expected) <= budget) {
                        break (records, expected);
                    }
                    state = self.wait(state);
                };
                let number = state.next;
                let from = state.position;
                state.next += 1;
                state.position += records;
                state.held += expected;
                (number, self.ordinals.take(from, from + records), expected)
            };
            let got = self.dataset.many::<T>(&ordinals, 1);
            let (mut bytes, mut largest) = (0, 0);
            for record in got.iter().flatten() {
                let weight = record.weight().max(1);
                bytes += weight;
                largest = weight.max(largest);
            }
            let mut state = self.state();
            state.held = state.held - expected + bytes;
            state.largest = state.largest.max(largest);
            state.done.insert(number, (bytes, got));
            drop(state);
            self.changed.notify_all();
        }
    }
}

impl<T: Stored> Iterator for Batches<T> {
    type Item = Result<Vec<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.process != std::process::id() {
            return Some(Err(crate::Error::unsupported(
                "this iterator was begun by the parent process, whose threads are not here",
            )
            .remedy("begin a new one in this process")));
        }
        let mut state = self.shared.state();
        loop {
            if state.stop {
                return None;
            }
            let number = state.deliver;
            if let Some((bytes, got)) = state.done.remove(&number) {
                state.deliver += 1;
                state.held -= bytes;
                state.stop |= got.is_err();
                drop(state);
                self.shared.changed.notify_all();
                return Some(got);
            }
            if state.alive == 0 {
                let ended = state.position == self.shared.ordinals.len() && number == state.next;
                state.stop = true;
                return if ended { None } else { Some(Err(gone())) };
            }
            state = self.shared.wait(state);
        }
    }
}

impl<T: Stored> Drop for Batches<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return; // The threads are the parent's.
        }
        self.shared.state().stop = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl<T: Stored> std::fmt::Debug for Batches<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batches({:?})", self.shared.ordinals)
    }
}
