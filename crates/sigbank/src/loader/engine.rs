//! The threads behind a loader.
//!
//! Workers take tasks from the plan in its order. A task starts only when all rows that it fills lie in the window of batches that
//! may be in memory, or when the batch that the consumer needs next waits for it alone. The second rule is why nothing
//! can lock up, whatever the window: while a task runs, it will end; when none runs, either the front batch is full and the consumer can
//! take it, or it is not, and then the next task is admitted. Each started task is finished and each row is filled by one of
//! the planned tasks, so the front batch is full after finitely many of them. The window is only about memory and speed.

use super::ahead::{self, Ahead};
use super::order::{Order, Shuffle};
use super::plan::{Plan, Task, Way};
use super::pool::Pool;
use super::rows::{Filling, REPORT, Rows};
use super::{Batch, Fields};
use crate::error::{Error, Result};
use crate::layout::Source;
use crate::store::Opening;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What one task reads where records can be read singly: a share of a processor's cache.
const TASK_BYTES: u64 = 256 << 10;
const MAX_TASK_ROWS: u64 = 1 << 16;
/// From this size on a record is read for itself at full speed, so a shuffle reads in the order of its output and holds nothing back.
const LARGE_RECORD: u64 = 32 << 10;
/// The same where a request costs time: as much as it takes to make one worth it.
const FAR_TASK_BYTES: u64 = 1 << 20;
/// What a value of no fixed size is taken to have where the source does not tell.
pub(super) const VAR_BYTES: u64 = 256;
/// Bytes of such values that are always room for: what is said of their sizes may be wrong.
const VAR_ROOM: u64 = 32 << 20;
/// Small units are read further ahead than two, so that all threads have work.
const SMALL_UNITS: u64 = 16 << 20;
/// The same where a request costs time.
const FAR_UNITS: u64 = 256 << 20;
/// Most bytes of one unit that are fetched before a thread takes it.
const FETCHED_AHEAD: u64 = 8 << 20;
/// How long the end of a loader waits for its threads; one that hangs in a system call longer ends by itself later.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a loader does, apart from where it is.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) source: Arc<dyn Source>,
    pub(super) split: String,
    /// The fields' positions in the schema.
    pub(super) positions: Vec<usize>,
    pub(super) fields: Arc<Fields>,
    pub(super) order: Order,
    pub(super) batch: u32,
    pub(super) threads: usize,
    /// The position after the last record.
    pub(super) end: u64,
    pub(super) prefetch_bytes: Option<usize>,
}

/// How a job is done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) way: Way,
    /// Batches that may be in memory, beside the one that is needed next.
    pub(super) window: u64,
    /// While there are more bytes of values of no fixed size in them, tasks wait.
    pub(super) room: u64,
    /// Bytes of batch memory that are kept for reuse.
    pub(super) pool: usize,
    /// Tasks whose bytes are fetched before a thread takes them.
    pub(super) ahead: usize,
}

impl Job {
    pub(super) fn sizes(&self) -> Sizes {
        let sum = |all: u64, bytes| all.saturating_add(bytes);
        let fixed = self.fields.iter().filter_map(|f| f.len).fold(0, |all, n| sum(all, n as u64));
        let varying = self.fields.iter().filter(|f| f.len.is_none()).map(|f| f.about).fold(0, sum);
        let row = sum(fixed, varying).max(1);
        let (batch, threads, spread) = (u64::from(self.batch), self.threads as u64, self.order.spread());
        // Tasks grow with the shuffle, so that a task's records are not fewer than the batches they are scattered over.
        let task = |bytes: u64| (bytes / row).max(spread / 16).clamp(1, MAX_TASK_ROWS);
        let far = self.source.round_trip() > 0 && self.order.shuffle() != Shuffle::Global;
        let parts = far && self.source.parts_far_away();
        let (way, ahead) = if parts {
            let task = task(FAR_TASK_BYTES);
            (Way::Slices(task as u32), (2 * task).saturating_mul(threads).saturating_add(batch))
        } else if far || !self.source.random_access() {
            // Where a request costs time, a unit is fetched once, and the next ones meanwhile.
            let unit = self.order.largest();
            let many = unit.saturating_mul(threads).min(if far { FAR_UNITS } else { SMALL_UNITS } / row);
            (Way::WholeUnits, unit.saturating_mul(2).max(many))
        } else {
            let mixed = self.order.shuffle() == Shuffle::Global || (spread > 0 && row >= LARGE_RECORD);
            let task = if mixed { (TASK_BYTES / row).clamp(1, MAX_TASK_ROWS) } else { task(TASK_BYTES) };
            let way = if mixed { Way::ByOutput(task as u32) } else { Way::Slices(task as u32) };
            (way, (2 * task).saturating_mul(threads).saturating_add(batch))
        };
        let rows = self.prefetch_bytes.map_or(ahead, |bytes| bytes as u64 / row);
        let held = if matches!(way, Way::ByOutput(_)) { 0 } else { spread };
        let window = rows.saturating_add(held).div_ceil(batch).max(1);
        let room = match self.prefetch_bytes {
            Some(bytes) => bytes as u64,
            None => ahead.saturating_mul(varying).max(VAR_ROOM),
        };
        // Values are larger here and smaller there than the mean.
        let room = room.saturating_add(held.saturating_add(batch).saturating_mul(varying).saturating_mul(2));
        let records = self.order.records().min(batch);
        let pool = window.saturating_add(2).saturating_mul(records).saturating_mul(row).min(usize::MAX as u64) as usize;
        let fetched = |bytes: usize| {
            let unit = self.order.largest().saturating_mul(row).min(FETCHED_AHEAD);
            (bytes as u64 / unit.max(1)).clamp(1, ahead::MOST as u64) as usize
        };
        let ahead = if far && !parts { self.prefetch_bytes.map_or(ahead::MOST, fetched) } else { 0 };
        Sizes { way, window, room, pool, ahead }
    }
}

struct Shared {
    job: Arc<Job>,
    start: u64,
    /// Number of batches from `start`.
    batches: u64,
    window: u64,
    room: u64,
    pool: Pool,
    /// Held from taking a task until it is admitted: tasks start in their order.
    plan: Mutex<Ahead>,
    state: Mutex<State>,
    /// A worker waits for admission.
    admitted: Condvar,
    /// The consumer waits for the front batch, or the end for the workers.
    ready: Condvar,
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The number of the batch that is handed out next; `batches` begins with it.
    front: u64,
    batches: VecDeque<Option<InFlight>>,
    /// Bytes of values of no fixed size in them.
    held: u64,
    running: usize,
    /// The plan has no more tasks.
    planned: bool,
    /// The first batch that cannot be filled, and why.
    failed: Option<(u64, Error)>,
    /// The last batch of the task that waits for admission.
    wanted: Option<u64>,
    listening: bool,
    alive: usize,
}

struct InFlight {
    rows: Arc<Rows>,
    missing: u32,
    /// Bytes of its values of no fixed size that are there.
    held: u64,
}

impl State {
    fn front_is_full(&self) -> bool {
        matches!(self.batches.front(), Some(Some(b)) if b.missing == 0)
    }
    fn admits(&self, last: u64, window: u64, room: u64) -> bool {
        let fits = last <= self.front.saturating_add(window) && self.held <= room;
        fits || (self.running == 0 && !self.front_is_full())
    }
}

/// The batches from a task's first to its last; none where it has no row.
type Slots = Vec<Option<Arc<Rows>>>;

/// A task with the rows it fills.
struct Work {
    task: Task,
    begun: Option<Box<dyn Opening>>,
    first: u64,
    places: Vec<(u32, u32)>,
    /// Records of the task in each batch from `first` on.
    counts: Vec<u32>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn rows_of(&self, batch: u64) -> u32 {
        let from = batch.saturating_mul(u64::from(self.job.batch)).saturating_add(self.start);
        self.job.end.saturating_sub(from).min(u64::from(self.job.batch)) as u32
    }
    /// Where the records of a task go.
    fn lay_out(&self, (mut task, begun): (Task, Option<Box<dyn Opening>>)) -> Work {
        let size = u64::from(self.job.batch);
        let positions = std::mem::take(&mut task.positions);
        let lowest = positions.iter().min().map_or(0, |p| p - self.start);
        let highest = positions.iter().max().map_or(0, |p| p - self.start);
        let (first, last) = (lowest / size, highest / size);
        let base = self.start + first * size;
        let mut counts = vec![0; (last - first + 1) as usize];
        let (mut slot, mut begin) = (0u64, 0u64);
        let places = positions.into_iter().map(|position| {
            let at = position - base;
            if at.checked_sub(begin).is_none_or(|row| row >= size) {
                slot = at / size;
                begin = slot * size;
            }
            if let Some(count) = counts.get_mut(slot as usize) {
                *count += 1;
            }
            (slot as u32, (at - begin) as u32)
        });
        let places = places.collect();
        Work { task, begun, first, places, counts }
    }
    /// The next task, when it may start, with the batches it goes to; none when there is nothing more to do.
    fn take(&self) -> Option<(Work, Result<Slots>)> {
        let mut plan = lock(&self.plan);
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let work = plan.next(&self.job).map(|task| self.lay_out(task));
        let mut state = lock(&self.state);
        let Some(work) = work else {
            state.planned = true;
            self.ready.notify_all();
            return None;
        };
        let last = work.first + work.counts.len() as u64 - 1;
        while !state.admits(last, self.window, self.room) {
            // Asked under the lock that the stopper takes before it wakes us, or its call could come before the wait.
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            state.wanted = Some(last);
            state = self.admitted.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.wanted = None;
        state.running += 1;
        let slots = self.slots(&mut state, &work);
        Some((work, slots))
    }
    fn slots(&self, state: &mut State, work: &Work) -> Result<Slots> {
        // No batch is handed out before all of its rows are there, so a task never comes too late for its batches.
        let offset = work.first.saturating_sub(state.front) as usize;
        let end = offset + work.counts.len();
        if state.batches.len() < end {
            state.batches.resize_with(end, || None);
        }
        let batches = state.batches.range_mut(offset..end).zip(work.first..).zip(&work.counts);
        let slots = batches.map(|((slot, number), &count)| {
            if count == 0 {
                return Ok(None);
            }
            if let Some(batch) = slot {
                return Ok(Some(batch.rows.clone()));
            }
            let missing = self.rows_of(number);
            let rows = Arc::new(Rows::new(&self.job.fields, missing, &self.pool)?);
            *slot = Some(InFlight { rows: rows.clone(), missing, held: 0 });
            Ok(Some(rows))
        });
        slots.collect()
    }
    /// Reads one task into its rows; gives the bytes of values of no fixed size that each batch got.
    fn run(
        &self,
        task: &Task,
        begun: Option<Box<dyn Opening>>,
        places: Vec<(u32, u32)>,
        slots: &[Option<Arc<Rows>>],
    ) -> Result<Vec<u64>> {
        let job = &*self.job;
        let read = || {
            let mut filling = Filling::claim(&job.fields, slots, places, &self.stop)?;
            let (unit, records, fields) = (task.unit as usize, &task.records, &job.positions);
            match begun {
                Some(begun) => job.source.read_begun(begun, &job.split, unit, records, fields, &mut filling)?,
                None => job.source.read_unit(&job.split, unit, records, fields, &mut filling)?,
            }
            filling.finish()
        };
        // Nothing of ours is left half done by a panic: rows that are not finished make the batch fail.
        let outcome = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| Err(panicked(&*panic)));
        outcome.map_err(|e| {
            let name = || job.source.unit_name(&job.split, task.unit as usize).unwrap_or_else(|_| format!("unit {}", task.unit));
            if e.path().is_some() { e } else { e.at(name()) }
        })
    }
    /// What every worker does.
    fn work(&self) {
        while let Some((Work { task, begun, first, places, counts }, slots)) = self.take() {
            let outcome = slots.and_then(|slots| self.run(&task, begun, places, &slots));
            // From here on this thread has no share in the rows: a batch without missing rows is the engine's alone.
            let mut state = lock(&self.state);
            state.running -= 1;
            match outcome {
                Ok(held) => {
                    let offset = first.saturating_sub(state.front) as usize;
                    for (i, (count, bytes)) in counts.iter().zip(&held).enumerate().filter(|(_, (n, _))| **n > 0) {
                        if let Some(Some(batch)) = state.batches.get_mut(offset + i) {
                            batch.missing = batch.missing.saturating_sub(*count);
                            batch.held = batch.held.saturating_add(*bytes);
                        }
                    }
                    state.held = held.iter().fold(state.held, |all, bytes| all.saturating_add(*bytes));
                }
                Err(e) if state.failed.as_ref().is_none_or(|(batch, _)| *batch > first) => state.failed = Some((first, e)),
                Err(_) => {}
            }
            self.after_change(&state);
        }
    }
    fn after_change(&self, state: &State) {
        if state.wanted.is_some_and(|last| state.admits(last, self.window, self.room)) {
            self.admitted.notify_one();
        }
        let done = state.planned && state.running == 0;
        if state.listening && (done || state.front_is_full() || state.failed.as_ref().is_some_and(|f| f.0 <= state.front)) {
            self.ready.notify_all();
        }
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let words = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::corrupt(format!("reading panicked: {}", words.unwrap_or("no message"))).remedy(REPORT)
}

/// A running loader.
pub(super) struct Engine {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    process: u32,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({} threads)", self.threads.len())
    }
}

impl Engine {
    /// Starts reading at a position.
    ///
    /// # Errors
    /// `Storage` where the system gives no thread.
    pub(super) fn start(job: Arc<Job>, start: u64) -> Result<Self> {
        let Sizes { way, window, room, pool, ahead } = job.sizes();
        let shared = Arc::new(Shared {
            start,
            batches: job.end.saturating_sub(start).div_ceil(u64::from(job.batch)),
            window,
            room,
            pool: Pool::new(pool),
            plan: Mutex::new(Ahead::new(Plan::new(job.order.clone(), way, start, job.end), ahead)),
            state: Mutex::default(),
            admitted: Condvar::new(),
            ready: Condvar::new(),
            stop: AtomicBool::new(false),
            job,
        });
        let mut engine = Self { shared, threads: Vec::new(), process: std::process::id() };
        for _ in 0..engine.shared.job.threads {
            let guard = Alive::new(engine.shared.clone());
            let thread = std::thread::Builder::new().name("sigbank-loader".into());
            match thread.spawn(move || guard.0.work()) {
                Ok(thread) => engine.threads.push(thread),
                Err(_) if !engine.threads.is_empty() => break,
                Err(e) => return Err(Error::from(e).within("no thread to read with")),
            }
        }
        Ok(engine)
    }
    /// Whether the process was not forked since the start.
    pub(super) fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }
    /// The next batch; none where it is not there by the deadline.
    pub(super) fn next(&self, deadline: Option<Instant>) -> Result<Option<Batch>> {
        let shared = &*self.shared;
        let mut state = lock(&shared.state);
        loop {
            if state.front_is_full() {
                let taken = state.batches.pop_front().flatten();
                let number = state.front;
                state.front += 1;
                state.held = state.held.saturating_sub(taken.as_ref().map_or(0, |batch| batch.held));
                shared.after_change(&state);
                drop(state);
                let rows = taken.and_then(|b| Arc::into_inner(b.rows));
                let rows = rows.ok_or_else(|| Error::conflict("a finished batch is still in use").remedy(REPORT))?;
                let first_position = shared.start + number * u64::from(shared.job.batch);
                return Ok(Some(Batch { rows: shared.rows_of(number) as usize, columns: rows.into_columns(), first_position }));
            }
            if state.failed.as_ref().is_some_and(|f| f.0 <= state.front) {
                return Err(state.failed.take().map_or_else(|| Error::corrupt("unreadable"), |f| f.1));
            }
            if state.running == 0 && (state.planned || state.alive == 0) {
                let message = format!("batch {} of {} was never filled", state.front, shared.batches);
                return Err(Error::conflict(message).remedy(REPORT));
            }
            state.listening = true;
            state = match deadline.map(|d| d.saturating_duration_since(Instant::now())) {
                None => shared.ready.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Ok(None),
                Some(left) => shared.ready.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
            state.listening = false;
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let shared = &*self.shared;
        shared.stop.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + PATIENCE;
        let mut state = lock(&shared.state);
        shared.admitted.notify_all();
        while state.alive > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = shared.ready.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        for thread in self.threads.drain(..) {
            // A worker has nothing left that could panic, and its error has nobody to go to.
            drop(thread.join());
        }
    }
}

/// Counts a worker from before its start until it is gone, also by a panic.
struct Alive(Arc<Shared>);

impl Alive {
    fn new(shared: Arc<Shared>) -> Self {
        lock(&shared.state).alive += 1;
        Self(shared)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.alive -= 1;
        if std::thread::panicking() && state.failed.is_none() {
            state.failed = Some((state.front, Error::conflict("a thread of the loader panicked").remedy(REPORT)));
        }
        self.0.ready.notify_all();
    }
}

#[cfg(test)]
mod tests;
