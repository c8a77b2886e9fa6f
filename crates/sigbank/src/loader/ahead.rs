//! Tasks of which the bytes are on their way before a thread takes them.

use super::engine::Job;
use super::plan::{Plan, Task};
use crate::store::Opening;
use std::collections::VecDeque;

/// Most tasks that are begun ahead; each holds at most about 8 MiB.
pub(super) const MOST: usize = 16;

/// A plan, and the next of its tasks, begun.
#[derive(Debug)]
pub(super) struct Ahead {
    plan: Plan,
    most: usize,
    begun: VecDeque<(Task, Option<Box<dyn Opening>>)>,
}

impl Ahead {
    /// At most so many tasks are begun before they are taken.
    pub(super) fn new(plan: Plan, most: usize) -> Self {
        Self { plan, most, begun: VecDeque::new() }
    }

    /// The next task.
    pub(super) fn next(&mut self, job: &Job) -> Option<(Task, Option<Box<dyn Opening>>)> {
        while self.begun.len() <= self.most {
            let Some(task) = self.plan.next() else { break };
            let opening = match self.most {
                0 => None,
                _ => job.source.begin_unit(&job.split, task.unit as usize, &task.records, &job.positions),
            };
            self.begun.push_back((task, opening));
        }
        self.begun.pop_front()
    }
}
