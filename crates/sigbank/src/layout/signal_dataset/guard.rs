//! What keeps a publication and a [`gc`](super::gc()) apart that go on at once. Neither waits for the other, and no publication lists.
//!
//! A publication may take over objects of a killed run, which are as old as that. So that `gc` does not take them for garbage, it puts the
//! one document that leads to all of them (snapshot, annotation set) anew, whose age then protects them from whoever looks afterwards. Whether
//! somebody looked before and still deletes, `sigbank/gc.json` tells: it is "deleting" from before `gc` looks until all is deleted, and
//! names each run otherwise. Who finds the same run before and behind his work knows that nothing was deleted meanwhile; who finds another looks at
//! every object once more; who finds "deleting" does not publish.

use crate::error::{Code, Error, Result};
use crate::layout::contents::{Contents, Entrance};
use crate::store::{Expected, LockGuard, Store, Version};
use crate::uri::RelPath;
use serde_json::{Value, json};

/// What tells of runs of `gc`.
const GATE: &str = "sigbank/gc.json";
/// The lock that a run holds where the store has locks: it is free again when the run was killed.
const LOCK: &str = "sigbank-gc";
/// More than so many runs during one publication are not waited for.
const RUNS: u32 = 8;

/// The last run of `gc`, and whether it is at work.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    id: String,
    deleting: bool,
}

impl Run {
    fn bytes(&self) -> Vec<u8> {
        let state = if self.deleting { "deleting" } else { "done" };
        format!("{}\n", json!({"format": "sigbank.gc", "run": self.id, "state": state})).into_bytes()
    }
}

/// The last run; none where there was none.
fn last(store: &dyn Store) -> Result<Option<(Run, Version)>> {
    let path = RelPath::parse(GATE)?;
    let (bytes, version) = match store.get_versioned(&path) {
        Err(e) if e.code() == Code::NotFound && e.remedy_text().is_none() => return Ok(None),
        found => found?,
    };
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let deleting = match text("state") {
        Some("deleting") => Some(true),
        Some("done") => Some(false),
        _ => None,
    };
    match (text("run"), deleting) {
        (Some(id), Some(deleting)) => Ok(Some((Run { id: id.into(), deleting }, version))),
        _ => Err(Error::corrupt("it does not tell whether a gc is at work")
            .at(store.locate(&path))
            .remedy("delete it when none is: it holds nothing else")),
    }
}

/// Whether an object is what a `gc` notes for itself, and no part of any dataset.
pub(crate) fn is_note(path: &RelPath) -> bool {
    path.as_str() == GATE || path.as_str().starts_with(super::gc::PROBE)
}

/// The lock of `gc`: whether it was to be had, and the lock where there are locks.
fn lock(store: &dyn Store) -> Result<(bool, Option<LockGuard>)> {
    if !store.capabilities().locks {
        return Ok((true, None));
    }
    match store.try_lock(LOCK) {
        Ok(held) => Ok((held.is_some(), held)),
        Err(e) if e.code() == Code::Unsupported => Ok((true, None)),
        Err(e) => Err(e),
    }
}

/// The last run, which has ended.
fn ended(store: &dyn Store) -> Result<Option<Run>> {
    let Some((run, version)) = last(store)? else { return Ok(None) };
    if !run.deleting {
        return Ok(Some(run));
    }
    if let (true, Some(held)) = lock(store)? {
        // It was killed, unless it ended just now.
        let done = Run { deleting: false, ..run };
        let told = store.replace(&RelPath::parse(GATE)?, &[&done.bytes()], Expected::Version(&version));
        held.retire();
        return match told {
            Ok(_) => Ok(Some(done)),
            Err(e) if e.code() == Code::Conflict => ended_by_now(store),
            Err(e) => Err(e),
        };
    }
    Err(at_work(store))
}

fn ended_by_now(store: &dyn Store) -> Result<Option<Run>> {
    match last(store)? {
        Some((run, _)) if run.deleting => Err(at_work(store)),
        run => Ok(run.map(|(run, _)| run)),
    }
}

fn at_work(store: &dyn Store) -> Error {
    Error::conflict(format!("a gc is deleting at {} now, and nothing is published meanwhile", store.location()))
        .remedy("publish again when it has ended, which uses what is written; where it was killed, run sigbank gc with --delete once more")
}

/// What a publication holds against a `gc` that goes on at once.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    seen: Option<Run>,
}

impl Guard {
    /// Before the first object is looked at that may be old.
    ///
    /// # Errors
    /// `Conflict` where a `gc` is deleting.
    pub(super) fn new(store: &dyn Store) -> Result<Self> {
        Ok(Self { seen: ended(store)? })
    }

    /// When all is in place and young, just before the document that makes it visible.
    ///
    /// # Errors
    /// `Conflict` where a `gc` is deleting; `NotFound` for an object that one deleted.
    pub(super) fn before(&mut self, store: &dyn Store, paths: &[RelPath]) -> Result<()> {
        for _ in 0..RUNS {
            let now = ended(store)?;
            if now == self.seen {
                return Ok(());
            }
            all_there(store, paths, "nothing is published: write again what is missing (the same shards), and publish again")?;
            self.seen = now;
        }
        Err(at_work(store))
    }

    /// Behind that document: only a `gc` that counts as garbage what is younger than a publication takes, or one that was taken for dead,
    /// can have deleted anything.
    ///
    /// # Errors
    /// `NotFound` for an object that one deleted.
    pub(super) fn after(self, store: &dyn Store, paths: &[RelPath]) -> Result<()> {
        if last(store)?.map(|(run, _)| run) == self.seen {
            return Ok(());
        }
        all_there(
            store,
            paths,
            "it is published, and a gc deleted this: write it again as it was written (the same records under the same work id and \
             attempt), then check, and give gc a greater --older-than",
        )
    }
}

fn all_there(store: &dyn Store, paths: &[RelPath], remedy: &str) -> Result<()> {
    paths.iter().try_for_each(|path| match store.head(path) {
        Err(e) if e.code() == Code::NotFound => {
            Err(Error::not_found("a gc deleted this object while it was published").at(store.locate(path)).remedy(remedy))
        }
        found => found.map(|_| ()),
    })
}

/// What a copy holds against a [`gc`](super::gc()) at its destination that goes on at once: see [`crate::convert::copy`].
#[derive(Debug, Clone)]
pub struct CopyGuard {
    guard: Guard,
    /// The documents that lead to all that becomes visible.
    leads: Vec<RelPath>,
}

impl CopyGuard {
    /// Before it is looked at what is at the destination already. `entrances` are those that are going to be put there.
    ///
    /// # Errors
    /// `Conflict` where a `gc` is deleting there; `Corrupt` for an entrance that cannot be read.
    pub fn new(to: &dyn Store, newer: &Contents, entrances: &[Entrance]) -> Result<Self> {
        Ok(Self { guard: Guard::new(to)?, leads: super::contents::leads(newer, entrances)? })
    }

    /// When all is in place, just before the first entrance is put. What was not copied now, but was there, is an earlier run's and is made young.
    ///
    /// # Errors
    /// `Conflict` where a `gc` is deleting; `NotFound` for an object that one deleted.
    pub fn before(&mut self, to: &dyn Store, copied: &dyn Fn(&RelPath) -> bool, all: &[RelPath]) -> Result<()> {
        for lead in self.leads.iter().filter(|lead| !copied(lead)) {
            let bytes = to.get(lead).map_err(super::objects::gone)?;
            renew(to, lead, &bytes)?;
        }
        self.guard.before(to, all)
    }

    /// Behind the last entrance.
    ///
    /// # Errors
    /// `NotFound` for an object that a `gc` deleted all the same.
    pub fn after(self, to: &dyn Store, all: &[RelPath]) -> Result<()> {
        self.guard.after(to, all)
    }
}

/// Puts a document anew as it is, so that it is young. Who may only create loses nothing but that.
pub(super) fn renew(store: &dyn Store, path: &RelPath, bytes: &[u8]) -> Result<()> {
    match store.replace(path, &[bytes], Expected::Any) {
        Err(e) if matches!(e.code(), Code::ReadOnly | Code::Unsupported) => Ok(()),
        renewed => renewed.map(|_| ()),
    }
}

/// A `gc` that is about to delete.
pub(super) struct Deleting<'a> {
    store: &'a dyn Store,
    run: Run,
    lock: Option<LockGuard>,
}

impl<'a> Deleting<'a> {
    /// Before it looks at what is there. A run that was killed is taken over, and so is one on a store without locks.
    ///
    /// # Errors
    /// `Conflict` where another is at work, `ReadOnly` where nothing can be written.
    pub(super) fn begin(store: &'a dyn Store) -> Result<Self> {
        let (free, lock) = lock(store)?;
        if !free {
            return Err(Error::conflict("another gc is at work").at(store.location()).remedy("wait until it has ended"));
        }
        last(store)?; // What is no such document is not replaced.
        let run = Run { id: uuid::Uuid::new_v4().simple().to_string(), deleting: true };
        store.replace(&RelPath::parse(GATE)?, &[&run.bytes()], Expected::Any)?;
        Ok(Self { store, run, lock })
    }

    /// Whether it still is the only one.
    ///
    /// # Errors
    /// `Conflict` where another one took over.
    pub(super) fn still(&self) -> Result<()> {
        if self.lock.is_some() || last(self.store)?.is_some_and(|(run, _)| run == self.run) {
            return Ok(());
        }
        Err(Error::conflict("another gc began meanwhile, and this one stopped")
            .at(self.store.location())
            .remedy("run one at a time"))
    }

    /// When all is deleted, or nothing more is going to be.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) fn end(self) -> Result<()> {
        if let Some((run, version)) = last(self.store)?
            && run == self.run
        {
            let expected = match self.store.capabilities().compare_and_swap {
                true => Expected::Version(&version),
                false => Expected::Any,
            };
            let done = Run { deleting: false, ..run };
            self.store.replace(&RelPath::parse(GATE)?, &[&done.bytes()], expected)?;
        }
        if let Some(lock) = self.lock {
            lock.retire();
        }
        Ok(())
    }
}
