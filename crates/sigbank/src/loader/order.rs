//! The order in which records come: pure functions of (record counts of the units, shuffle, seed, epoch). No threads and
//! no I/O, so the same on every machine.
//!
//! **This order is a promise**: a position stored by one version must mean the same record in the next. Hence the random
//! numbers are defined here and not by a dependency:
//!
//! - `mix(z)`: SplitMix64's finaliser. `G` = 0x9E3779B97F4A7C15. All arithmetic wraps at 64 bits.
//! - The key of one permutation is `k = 0`, then `k = mix((k ^ w) + G)` for each word `w` of (seed, epoch, pass, window).
//! - A generator is SplitMix64 started at its key: `s += G`, output `mix(s)`. A draw below `n` is Lemire's multiply, shift
//!   and reject (unbiased).
//! - A permutation of `n` places is Fisher–Yates: `p = 0..n`; for `i` from `n - 1` down to 1, swap `p[i]` with
//!   `p[draw below i + 1]`. In the windows of a buffer, the record at place `i` moves to `p[i]`; for units and for a global shuffle,
//!   `p[i]` is what comes at place `i`.
//!
//! [`Shuffle::Buffer`] permutes the units (pass 0) and then the stream of their `N` records twice within windows of `h`
//! records: first (pass 1) within windows that begin at 0, h, 2h, …; then (pass 2) within windows that begin at 0, h/2,
//! h/2 + h, h/2 + 2h, …. With `n` records asked for, `h` is `n / 3` rounded up, and at least 2; 1 (records stay) for `n <= 1`. Where
//! `n >= N` it is one window of all `N` and the second pass falls away: a true shuffle. So what comes at a place is drawn evenly from
//! the 2h records around it, a record moves less than 1.5 h, and each place can be computed from its neighbourhood alone.
//! Why a third: the 2h records that are being mixed are in memory, and so are the h that are handed out meanwhile.
//!
//! [`Shuffle::Global`] permutes all records: up to 65,536 by one Fisher–Yates (pass 3); beyond by six rounds of a
//! balanced Feistel network on the smallest even number of bits that holds `N`, walking the cycle until the place is below `N`.
//! The half that a round changes is xored with `mix(other + mix(key + round * G))`; `key` is that of (seed, epoch, 3, 0).

use crate::error::{Error, Result};
use crate::layout::Units;
use std::sync::Arc;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const PASS_UNITS: u64 = 0;
const PASS_FIRST: u64 = 1;
const PASS_SECOND: u64 = 2;
const PASS_GLOBAL: u64 = 3;
const FEISTEL_ABOVE: u64 = 65_536;
const FEISTEL_ROUNDS: u64 = 6;
const MAX_WINDOW: u64 = 1 << 31;

/// How the records of an epoch are mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shuffle {
    /// Stored order (units in the caller's order), the same in every epoch.
    #[default]
    None,
    /// Units in random order, and records mixed among about this many neighbours, which are in memory at a time.
    Buffer(u64),
    /// One random permutation of all records, for sources with random access.
    Global,
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn key(seed: u64, epoch: u64, pass: u64, window: u64) -> u64 {
    [seed, epoch, pass, window].into_iter().fold(0, |k, w| mix((k ^ w).wrapping_add(GOLDEN)))
}

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }
    fn below(&mut self, n: u64) -> u64 {
        let mut wide = u128::from(self.next()) * u128::from(n);
        if (wide as u64) < n {
            let reject = n.wrapping_neg().checked_rem(n).unwrap_or(0);
            while (wide as u64) < reject {
                wide = u128::from(self.next()) * u128::from(n);
            }
        }
        (wide >> 64) as u64
    }
}

/// Fills `p` with the permutation of `0..len` that belongs to a key: place `i` moves to `p[i]`.
fn permute(p: &mut Vec<u32>, len: u64, key: u64) {
    p.clear();
    p.extend(0..len as u32);
    let mut rng = Rng(key);
    for i in (1..p.len()).rev() {
        p.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

/// One pass over windows of `h` places, of which the first has `offset`, with the permutations of two windows kept: two
/// neighbouring windows are in use at a time.
#[derive(Debug, Clone)]
struct Pass {
    number: u64,
    h: u64,
    offset: u64,
    records: u64,
    kept: [Kept; 2],
}

#[derive(Debug, Clone, Default)]
struct Kept {
    start: u64,
    moves: Vec<u32>,
}

impl Pass {
    fn new(number: u64, h: u64, offset: u64, records: u64) -> Self {
        Self { number, h, offset, records, kept: Default::default() }
    }
    /// The window that holds a place: its number and where it begins.
    fn window(&self, place: u64) -> (u64, u64) {
        if self.offset == 0 {
            let number = place / self.h;
            return (number, number * self.h);
        }
        match place.checked_sub(self.offset) {
            None => (0, 0),
            Some(past) => (1 + past / self.h, self.offset + past / self.h * self.h),
        }
    }
    fn map(&mut self, place: u64, inverse: bool, seed: u64, epoch: u64) -> u64 {
        for kept in &self.kept {
            let moved = place.checked_sub(kept.start).and_then(|i| kept.moves.get(i as usize));
            if let Some(&to) = moved {
                return kept.start + u64::from(to);
            }
        }
        let (number, start) = self.window(place);
        let end = if start < self.offset { self.offset } else { start + self.h };
        let [even, odd] = &mut self.kept;
        let kept = if number % 2 == 0 { even } else { odd };
        kept.start = start;
        permute(&mut kept.moves, end.min(self.records) - start, key(seed, epoch, self.number, number));
        if inverse {
            let moves = std::mem::take(&mut kept.moves);
            kept.moves.resize(moves.len(), 0);
            for (from, &to) in moves.iter().enumerate() {
                if let Some(slot) = kept.moves.get_mut(to as usize) {
                    *slot = from as u32;
                }
            }
        }
        let to = place.checked_sub(kept.start).and_then(|i| kept.moves.get(i as usize)).copied().unwrap_or(0);
        kept.start + u64::from(to)
    }
}

/// The records of the chosen units of a split and how they are mixed. It holds four bytes a chosen unit beside the shared
/// [`Units`].
///
/// ```
/// use sigbank::layout::Units;
/// use sigbank::loader::order::{Order, Shuffle};
/// let units = Units::from_counts([2, 0, 3]).into();
/// let stored = Order::new(units, None, Shuffle::None, 0)?;
/// let all: Vec<_> = stored.epoch(0).collect();
/// assert_eq!(all, [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)]);
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Order {
    units: Arc<Units>,
    chosen: Option<Arc<[u32]>>,
    records: u64,
    shuffle: Shuffle,
    seed: u64,
}

impl Order {
    /// The order of the `chosen` units (all of them where none are named), in the caller's order.
    ///
    /// # Errors
    /// `Invalid` where a unit does not exist, is named twice, or where there is no record at all; `Limit` for a unit of
    /// more than 2^32 - 1 records or more than 2^32 - 1 units.
    pub fn new(units: Arc<Units>, chosen: Option<Vec<u32>>, shuffle: Shuffle, seed: u64) -> Result<Self> {
        if u32::try_from(units.len()).is_err() {
            return Err(Error::limit(format!("{} units in a split (at most {} are loaded)", units.len(), u32::MAX)));
        }
        if let Some(chosen) = &chosen {
            let mut seen = vec![false; units.len()];
            for &unit in chosen {
                match seen.get_mut(unit as usize) {
                    None => return Err(Error::invalid(format!("unit {unit} is chosen, but the split has {}", units.len()))),
                    Some(true) => return Err(Error::invalid(format!("unit {unit} is chosen twice"))),
                    Some(slot) => *slot = true,
                }
            }
        }
        let mut order = Self { units, chosen: chosen.map(Into::into), records: 0, shuffle, seed };
        for i in 0..order.len() {
            let count = order.count(i);
            if u32::try_from(count).is_err() {
                return Err(Error::limit(format!("unit {} has {count} records (at most {} are loaded)", order.id(i), u32::MAX)));
            }
            order.records = order.records.saturating_add(count);
        }
        if order.records == 0 {
            return Err(Error::invalid("there is no record to load").remedy("choose another split, or units that have records"));
        }
        Ok(order)
    }
    /// How the records are mixed.
    pub(super) fn shuffle(&self) -> Shuffle {
        self.shuffle
    }
    /// Chosen units.
    pub(super) fn len(&self) -> usize {
        self.chosen.as_ref().map_or(self.units.len(), |c| c.len())
    }
    /// Records of one epoch.
    pub fn records(&self) -> u64 {
        self.records
    }
    /// Records in the largest chosen unit.
    pub(super) fn largest(&self) -> u64 {
        (0..self.len()).map(|i| self.count(i)).max().unwrap_or(0)
    }
    fn id(&self, i: usize) -> u32 {
        self.chosen.as_ref().map_or(i as u32, |c| c.get(i).copied().unwrap_or(0))
    }
    fn count(&self, i: usize) -> u64 {
        self.units.count(self.id(i) as usize)
    }
    /// Records in a window of the shuffle; 1 where records keep their place in the stream of units.
    fn window(&self) -> u64 {
        match self.shuffle {
            Shuffle::Buffer(n) if n >= self.records => self.records.min(MAX_WINDOW),
            Shuffle::Buffer(0 | 1) => 1,
            Shuffle::Buffer(n) => n.div_ceil(3).clamp(2, MAX_WINDOW),
            Shuffle::None | Shuffle::Global => 1,
        }
    }
    /// How many records the shuffle keeps in memory when units are read in stream order: all that are mixed, and those that
    /// are handed out while the next are read.
    pub(super) fn spread(&self) -> u64 {
        match (self.window(), self.shuffle) {
            (1, _) => 0,
            (h, Shuffle::Buffer(n)) if h >= self.records => n.min(2 * h),
            (h, _) => 3 * h,
        }
    }
    /// The records of one epoch as (unit, place in the unit), in the order in which they come out.
    pub fn epoch(&self, epoch: u64) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut by_output = ByOutput::new(self, epoch);
        (0..self.records).map(move |output| by_output.record(self, output))
    }
}

/// One epoch's stream: the units' order and the two passes over it.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    seed: u64,
    epoch: u64,
    /// Positions in the list of chosen units; none where they keep their order.
    units: Option<Vec<u32>>,
    passes: Option<(Pass, Pass)>,
}

impl Stream {
    pub(super) fn new(order: &Order, epoch: u64) -> Self {
        let units = matches!(order.shuffle, Shuffle::Buffer(_)).then(|| {
            let mut units = Vec::new();
            permute(&mut units, order.len() as u64, key(order.seed, epoch, PASS_UNITS, 0));
            units
        });
        let h = order.window();
        let second = if h >= order.records { (1, 0) } else { (h, h / 2) };
        let passes = (h > 1)
            .then(|| (Pass::new(PASS_FIRST, h, 0, order.records), Pass::new(PASS_SECOND, second.0, second.1, order.records)));
        Self { seed: order.seed, epoch, units, passes }
    }
    /// The `k`-th unit of the stream: its number in the split and its records. None past the last.
    pub(super) fn unit(&self, order: &Order, k: usize) -> Option<(u32, u64)> {
        let i = match &self.units {
            Some(units) => *units.get(k)? as usize,
            None if k < order.len() => k,
            None => return None,
        };
        Some((order.id(i), order.count(i)))
    }
    /// Whether records come out as they are in the stream.
    pub(super) fn is_plain(&self) -> bool {
        self.passes.is_none()
    }
    /// Where the record at a place of the stream comes out.
    pub(super) fn output(&mut self, input: u64) -> u64 {
        match &mut self.passes {
            None => input,
            Some((first, second)) => {
                let between = first.map(input, false, self.seed, self.epoch);
                if second.h > 1 { second.map(between, false, self.seed, self.epoch) } else { between }
            }
        }
    }
    /// Which place of the stream comes out there.
    fn input(&mut self, output: u64) -> u64 {
        match &mut self.passes {
            None => output,
            Some((first, second)) => {
                let between = if second.h > 1 { second.map(output, true, self.seed, self.epoch) } else { output };
                first.map(between, true, self.seed, self.epoch)
            }
        }
    }
    /// No place of the stream before this one comes out at `output` or later.
    pub(super) fn first_input(&self, output: u64) -> u64 {
        match &self.passes {
            None => output,
            Some((first, second)) => first.window(second.window(output).1).1,
        }
    }
}

/// One epoch seen from its output: which record comes at a place. Eight bytes a unit more than a [`Stream`].
#[derive(Debug, Clone)]
pub(super) struct ByOutput {
    stream: Stream,
    global: Option<Global>,
    /// The stream's units as columns, in the order of the stream.
    starts: Units,
}

impl ByOutput {
    pub(super) fn new(order: &Order, epoch: u64) -> Self {
        let stream = Stream::new(order, epoch);
        let starts = Units::from_counts((0..order.len()).map_while(|k| stream.unit(order, k)).map(|(_, count)| count));
        let global = (order.shuffle == Shuffle::Global).then(|| Global::new(order.records, order.seed, epoch));
        Self { stream, global, starts }
    }
    /// The record that comes at a place of the epoch: unit and place in the unit.
    pub(super) fn record(&mut self, order: &Order, output: u64) -> (u32, u32) {
        let input = match &self.global {
            Some(global) => global.input(output),
            None => self.stream.input(output),
        };
        let (k, index) = self.starts.locate(input).unwrap_or((0, 0));
        (self.stream.unit(order, k).map_or(0, |u| u.0), index as u32)
    }
}

/// A permutation of all places of an epoch, without a list of them where there are many.
#[derive(Debug, Clone)]
enum Global {
    Listed(Vec<u32>),
    Feistel { records: u64, half: u32, keys: Vec<u64> },
}

impl Global {
    fn new(records: u64, seed: u64, epoch: u64) -> Self {
        let key = key(seed, epoch, PASS_GLOBAL, 0);
        if records <= FEISTEL_ABOVE {
            let mut list = Vec::new();
            permute(&mut list, records, key);
            return Self::Listed(list);
        }
        let bits = u64::BITS - (records - 1).leading_zeros();
        let keys = (0..FEISTEL_ROUNDS).map(|round| mix(key.wrapping_add(round.wrapping_mul(GOLDEN)))).collect();
        Self::Feistel { records, half: bits.div_ceil(2), keys }
    }
    fn input(&self, output: u64) -> u64 {
        match self {
            Self::Listed(list) => list.get(output as usize).copied().map_or(0, u64::from),
            Self::Feistel { records, half, keys } => {
                let mask = (1u64 << half) - 1;
                let mut place = output;
                loop {
                    let (mut left, mut right) = (place >> half, place & mask);
                    for key in keys {
                        (left, right) = (right, left ^ (mix(right.wrapping_add(*key)) & mask));
                    }
                    place = (left << half) | right;
                    if place < *records {
                        return place;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
