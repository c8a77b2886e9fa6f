//! Blocks on their way here. Who needs a block that another reader of this process has asked for shares its answer.

use super::{Key, block};
use crate::error::{Error, Result};
use crate::store::Pending;
use bytes::Bytes;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

/// The blocks on their way, by object and number.
#[derive(Debug, Default)]
pub(super) struct Fetches(Mutex<Table>);

/// Begins to read ranges.
pub(super) type Start<'a> = dyn Fn(&[Range<u64>]) -> Result<Box<dyn Pending>> + 'a;

type Table = HashMap<(Key, u64), (Weak<Group>, usize)>;

/// Blocks of one object that were asked for together.
#[derive(Debug)]
struct Group {
    fetches: Arc<Fetches>,
    key: Key,
    numbers: Vec<u64>,
    size: u64,
    // The answer comes to the process that asked, not to one that was forked meanwhile.
    process: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Begun,
    Running(Box<dyn Pending>),
    Done(Result<Vec<Bytes>>),
}

/// One block that is on its way, or has come.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) number: u64,
    group: Arc<Group>,
    index: usize,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fetches {
    /// The table, unless it stays locked, as it does in a child that was forked while another thread had it: then nothing is shared.
    fn table(&self) -> Option<MutexGuard<'_, Table>> {
        for _ in 0..200 {
            match self.0.try_lock() {
                Ok(table) => return Some(table),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(100)),
            }
        }
        None
    }

    /// Has these blocks (ascending numbers) of an object of `size` bytes come, with `start` for those that nobody has asked for.
    pub(super) fn begin(self: &Arc<Self>, key: Key, size: u64, numbers: &[u64], start: &Start<'_>) -> Result<Vec<Fetch>> {
        let process = std::process::id();
        let (mut found, mut missing) = (Vec::with_capacity(numbers.len()), Vec::new());
        // What is upgraded lives until the table is free again: a group that ends takes itself out of it.
        let mut others = Vec::new();
        let mut table = self.table();
        for &number in numbers {
            let known = table.as_ref().and_then(|table| table.get(&(key, number)));
            match known.and_then(|(group, index)| Some((group.upgrade()?, *index))) {
                Some((group, index)) if group.process == process => found.push(Fetch { number, group, index }),
                other => {
                    others.extend(other);
                    missing.push(number);
                }
            }
        }
        if missing.is_empty() {
            return Ok(found);
        }
        let ranges = runs(&missing, size);
        let state = Mutex::new(State::Begun);
        let group = Arc::new(Group { fetches: Arc::clone(self), key, numbers: missing, size, process, state });
        let mut begun = held(&group.state);
        if let Some(table) = &mut table {
            let places = group.numbers.iter().enumerate();
            table.extend(places.map(|(index, number)| ((key, *number), (Arc::downgrade(&group), index))));
        }
        drop(table);
        match start(&ranges) {
            Ok(pending) => *begun = State::Running(pending),
            Err(e) => {
                *begun = State::Done(Err(e.clone())); // For those who share it by now.
                return Err(e);
            }
        }
        drop(begun);
        found.extend(group.numbers.iter().enumerate().map(|(index, number)| Fetch {
            number: *number,
            group: Arc::clone(&group),
            index,
        }));
        found.sort_unstable_by_key(|fetch| fetch.number);
        Ok(found)
    }
}

/// The bytes of blocks, those of neighbours as one range.
fn runs(numbers: &[u64], size: u64) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for number in numbers {
        let start = number * block::BLOCK;
        let end = start + block::len(*number, size) as u64;
        match runs.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => runs.push(start..end),
        }
    }
    runs
}

impl Fetch {
    pub(super) fn is_ready(&self) -> bool {
        self.group.state.try_lock().is_ok_and(|state| match &*state {
            State::Begun => false,
            State::Running(pending) => pending.is_ready(),
            State::Done(_) => true,
        })
    }

    /// The block. `keep` hears of every block that this call was the first to see.
    pub(super) fn wait(&self, keep: &dyn Fn(u64, &[u8])) -> Result<Bytes> {
        let group = &*self.group;
        let mut state = held(&group.state);
        let mut new = None;
        if matches!(*state, State::Running(_))
            && let State::Running(pending) = std::mem::replace(&mut *state, State::Begun)
        {
            let blocks = pending.wait().and_then(|runs| group.blocks(runs));
            new = blocks.as_ref().ok().cloned();
            *state = State::Done(blocks);
        }
        let block = match &*state {
            State::Done(Ok(blocks)) => blocks.get(self.index).cloned().ok_or_else(gone),
            State::Done(Err(e)) => Err(e.clone()),
            _ => Err(gone()),
        };
        drop(state);
        group.numbers.iter().zip(new.into_iter().flatten()).for_each(|(number, block)| keep(*number, &block));
        block
    }
}

impl Group {
    fn blocks(&self, runs: Vec<Bytes>) -> Result<Vec<Bytes>> {
        let (mut runs, mut left) = (runs.into_iter(), Bytes::new());
        let cut = |number: &u64| {
            if left.is_empty() {
                left = runs.next().unwrap_or_default();
            }
            let len = block::len(*number, self.size);
            if len > left.len() {
                return Err(Error::corrupt(format!("{len} bytes are expected, {} came", left.len()))
                    .remedy("try again; if it stays so, the object is not as long as it is said to be"));
            }
            Ok(left.split_to(len))
        };
        self.numbers.iter().map(cut).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(mut table) = self.fetches.table() {
            for number in &self.numbers {
                // Another group may have its place by now.
                if table.get(&(self.key, *number)).is_some_and(|(group, _)| group.strong_count() == 0) {
                    table.remove(&(self.key, *number));
                }
            }
        }
    }
}

fn gone() -> Error {
    Error::storage("whoever fetched these bytes ended before they came").remedy("try again")
}
