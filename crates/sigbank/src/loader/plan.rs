//! What to read, in order: from positions to tasks. Lazy; it holds a few bytes a unit and the shuffle's windows.

use super::order::{ByOutput, Order, Stream};
use std::collections::VecDeque;

/// Some records of one unit, and where each of them comes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    /// The unit, a number of the split.
    pub(super) unit: u32,
    /// Places in the unit, ascending.
    pub(super) records: Vec<u32>,
    /// The position of each, counted from the beginning of epoch 0.
    pub(super) positions: Vec<u64>,
}

/// How a plan goes through the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Unit after unit, all that is wanted of a unit in one task (where a unit is decoded as a whole).
    WholeUnits,
    /// Unit after unit, in tasks of at most so many records.
    Slices(u32),
    /// As records come out, in steps of at most so many, of which each unit's part is a task: the least in memory, but random
    /// reads.
    ByOutput(u32),
}

/// The tasks for the positions `start..end`, in order of first need.
#[derive(Debug)]
pub(super) struct Plan {
    order: Order,
    start: u64,
    end: u64,
    epoch: u64,
    walk: Walk,
}

#[derive(Debug)]
enum Walk {
    Input {
        most: u64,
        stream: Stream,
        /// The unit's number in the stream, the place of its first record there, and the next record in it.
        unit: usize,
        first: u64,
        next: u64,
    },
    Output {
        most: u64,
        epoch: ByOutput,
        next: u64,
        ready: VecDeque<Task>,
    },
}

impl Plan {
    pub(super) fn new(order: Order, way: Way, start: u64, end: u64) -> Self {
        let epoch = start / order.records().max(1);
        let walk = match way {
            Way::WholeUnits => Walk::input(u64::MAX, &order, epoch),
            Way::Slices(most) => Walk::input(u64::from(most.max(1)), &order, epoch),
            Way::ByOutput(most) => Walk::Output {
                most: u64::from(most.max(1)),
                epoch: ByOutput::new(&order, epoch),
                next: start,
                ready: VecDeque::new(),
            },
        };
        Self { order, start, end, epoch, walk }
    }
}

impl Walk {
    fn input(most: u64, order: &Order, epoch: u64) -> Self {
        Self::Input { most, stream: Stream::new(order, epoch), unit: 0, first: 0, next: 0 }
    }
}

impl Iterator for Plan {
    type Item = Task;

    fn next(&mut self) -> Option<Task> {
        let Self { order, start, end, epoch, walk } = self;
        match walk {
            Walk::Input { most, stream, unit, first, next } => loop {
                let base = epoch.saturating_mul(order.records());
                if base >= *end {
                    return None;
                }
                let Some((number, count)) = stream.unit(order, *unit) else {
                    *epoch += 1;
                    *stream = Stream::new(order, *epoch);
                    (*unit, *first, *next) = (0, 0, 0);
                    continue;
                };
                let skip = start.checked_sub(base).map_or(0, |s| stream.first_input(s));
                *next = (*next).max(skip.saturating_sub(*first).min(count));
                if *next >= count {
                    *first += count;
                    (*unit, *next) = (*unit + 1, 0);
                    continue;
                }
                let (from, to) = (*first + *next, *first + count.min((*next).saturating_add(*most)));
                let task = slice(stream, number, *first, from..to, base, *start..*end);
                *next = to - *first;
                if !task.records.is_empty() {
                    return Some(task);
                }
            },
            Walk::Output { most, epoch: by_output, next, ready } => {
                if ready.is_empty() && *next < *end {
                    let mut base = epoch.saturating_mul(order.records());
                    if *next - base >= order.records() {
                        *epoch += 1;
                        *by_output = ByOutput::new(order, *epoch);
                        base = *next;
                    }
                    let to = next.saturating_add(*most).min(*end).min(base.saturating_add(order.records()));
                    let mut picks: Vec<(u32, u32, u64)> = (*next..to)
                        .map(|p| {
                            let (unit, index) = by_output.record(order, p - base);
                            (unit, index, p)
                        })
                        .collect();
                    picks.sort_unstable();
                    ready.extend(picks.chunk_by(|a, b| a.0 == b.0).filter_map(|run| {
                        let unit = run.first()?.0;
                        let (records, positions) = run.iter().map(|p| (p.1, p.2)).unzip();
                        Some(Task { unit, records, positions })
                    }));
                    *next = to;
                }
                ready.pop_front()
            }
        }
    }
}

/// The task for the places `span` of the stream, all of the unit that begins at `first`: those that come out in `wanted`.
fn slice(
    stream: &mut Stream,
    unit: u32,
    first: u64,
    span: std::ops::Range<u64>,
    base: u64,
    wanted: std::ops::Range<u64>,
) -> Task {
    if stream.is_plain() {
        let span = span.start.max(wanted.start.saturating_sub(base))..span.end.min(wanted.end.saturating_sub(base));
        let records = span.clone().map(|at| (at - first) as u32).collect();
        return Task { unit, records, positions: span.map(|at| at + base).collect() };
    }
    let length = (span.end - span.start) as usize;
    let mut task = Task { unit, records: Vec::with_capacity(length), positions: Vec::with_capacity(length) };
    for at in span {
        let position = base.saturating_add(stream.output(at));
        if wanted.contains(&position) {
            task.records.push((at - first) as u32);
            task.positions.push(position);
        }
    }
    task
}

#[cfg(test)]
mod tests;
