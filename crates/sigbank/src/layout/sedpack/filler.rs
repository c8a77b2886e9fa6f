//! Filling a dataset.

use super::builder::{Builder, Builders};
use super::commit::{self, Changes, ShardsByList};
use super::info::known_split;
use super::lists::{LIST, ListRef, ShardInfo};
use super::pool::{Job, Pool, Shared};
use super::progress::{self, Record, Session};
use super::{Dataset, check};
use crate::error::{Error, Result};
use crate::layout::{GroupMetadata, RawRecord, Token};
use crate::uri::RelPath;
use serde_json::{Value, json};
use sigbank_format::model::Metadata;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Names generated in a directory before a new one is drawn at the level above.
const BRANCHING: u32 = 1000;

/// How a dataset is filled.
#[derive(Debug, Clone)]
pub struct FillerOptions {
    /// A directory below the split that is this writer's own, for workers whose lists a coordinator merges. Without it the
    /// writer itself updates the root when it finishes.
    pub relative_path: Option<RelPath>,
    /// Threads that encode, hash and write; at least one.
    pub threads: usize,
    /// Whether a power failure after the commit loses nothing.
    pub durable: bool,
    /// Whether finishing makes visible what killed writers of the same path finished; by default a writer without a path of its
    /// own does. A worker with a path is usually run again from its beginning, and would have its shards twice: it gives up what
    /// they finished for good, as does `Some(false)`.
    ///
    /// A store without locks, as an object store, cannot tell a killed writer from one at work. There `Some(true)` takes over what any other
    /// writer of the path has finished, which makes a part of a living one's work visible early and nothing twice; else nothing is
    /// taken over and nothing given up.
    pub adopt: Option<bool>,
    /// Whether finishing updates the root; by default a writer without a path of its own does.
    pub update_root: Option<bool>,
}

impl Default for FillerOptions {
    fn default() -> Self {
        Self { relative_path: None, threads: 1, durable: true, adopt: None, update_root: None }
    }
}

/// Shards that were written and are not visible yet, by the list they go into.
#[derive(Debug, Default)]
pub struct Written {
    pub(super) shards: ShardsByList,
    pub(super) sessions: Vec<Session>,
}

struct Open {
    split: String,
    metadata: Metadata,
    shard: Builder,
}

/// Three directories of 10 hexadecimal digits, then names of 32.
struct Names {
    dirs: [String; 3],
    used: [u32; 3],
}

fn random_name(len: usize) -> String {
    let mut name = uuid::Uuid::new_v4().simple().to_string();
    name.truncate(len);
    name
}

impl Names {
    fn new() -> Self {
        Self { dirs: std::array::from_fn(|_| random_name(10)), used: [1, 1, 0] }
    }
    /// The directory of the next shard, below the split and the writer's own path.
    fn next(&mut self) -> String {
        for level in (0..3).rev() {
            if let Some(used) = self.used.get_mut(level).filter(|u| level == 0 || **u < BRANCHING) {
                *used += 1;
                for below in level + 1..3 {
                    if let (Some(dir), Some(used)) = (self.dirs.get_mut(below), self.used.get_mut(below)) {
                        *dir = random_name(10);
                        *used = 1;
                    }
                }
                break;
            }
            if level == 1 {
                // Also the top level draws a new name then, without a bound.
                self.dirs[0] = random_name(10);
            }
        }
        self.dirs.join("/")
    }
}

/// Writes records into shards. Nothing is visible before [`Filler::finish`]; what is dropped without it stays invisible, and
/// the next filler of the same path adopts its finished shards (on a store without locks, as a bucket, only one that is told to: see
/// [`FillerOptions::adopt`]).
pub struct Filler {
    dataset: Dataset,
    options: FillerOptions,
    builders: Builders,
    suffix: &'static str,
    open: Vec<Open>,
    names: Names,
    running: Option<(Arc<Shared>, Pool)>,
    jobs: usize,
    process: u32,
    adopted: Adopted,
    given_up: Adopted,
    infos: Vec<ListRef>,
}

/// What a filler took over from killed writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Adopted {
    /// Shards.
    pub shards: u64,
    /// Records in them.
    pub records: u64,
}

impl std::fmt::Debug for Filler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Filler({}, {} shards)", self.dataset.store().location(), self.jobs)
    }
}

impl Filler {
    pub(super) fn new(dataset: Dataset, options: FillerOptions) -> Result<Self> {
        if !dataset.store().capabilities().write {
            return Err(Error::read_only("the dataset cannot be written here").at(dataset.store().location()));
        }
        if options.relative_path.as_ref().is_some_and(|own| own.components().any(|c| c == LIST)) {
            return Err(Error::invalid(format!("a relative path may not contain '{LIST}', the name of every list")));
        }
        if let Some(own) = options.relative_path.as_ref().filter(|own| own.components().any(|c| c.starts_with('.'))) {
            // What is hidden counts as litter: a repair would not find the shards again.
            return Err(Error::invalid(format!("relative path '{own}': a directory of shards may not be hidden"))
                .remedy("choose names that do not begin with a dot"));
        }
        let info = dataset.info();
        let structure = info.structure();
        let builders = Builders::new(structure).map_err(|e| e.at(dataset.store().location()))?;
        if builders.attributes().is_empty() {
            return Err(Error::invalid("the dataset declares no attributes").at(dataset.store().location()));
        }
        Ok(Self {
            builders,
            suffix: structure.file_type.as_str(),
            open: Vec::new(),
            names: Names::new(),
            running: None,
            jobs: 0,
            process: std::process::id(),
            adopted: Adopted::default(),
            given_up: Adopted::default(),
            infos: Vec::new(),
            dataset,
            options,
        })
    }

    fn updates_root(&self) -> bool {
        self.options.update_root.unwrap_or(self.options.relative_path.is_none())
    }

    fn own(&self) -> &str {
        self.options.relative_path.as_ref().map_or("", RelPath::as_str)
    }

    /// The place of the split's open shard; a new one where there is none or where its metadata differ.
    fn open_shard(&mut self, split: &str, group: Option<&GroupMetadata>, record: &[&[u8]], bytes: usize) -> Result<usize> {
        known_split(split)?;
        group.map_or(Ok(()), |g| super::lists::not_too_deep(g, "custom_metadata"))?;
        if let Some(at) = self.open.iter().position(|o| o.split == split) {
            let Some(open) = self.open.get(at) else { return Ok(at) };
            // No record gets a label that it was not given: none is another label than one.
            let given = group.filter(|g| !g.is_empty());
            let other = given.map_or(!open.metadata.is_empty(), |g| *g != open.metadata);
            if !open.shard.is_empty() && (other || open.shard.len() >= self.builders.most() || !open.shard.fits(record, bytes)) {
                self.close(at)?;
            }
            if let Some(open) = self.open.get_mut(at).filter(|_| other) {
                open.metadata = given.cloned().unwrap_or_default();
            }
            return Ok(at);
        }
        let metadata = group.cloned().unwrap_or_default();
        let shard = self.builder()?;
        self.open.push(Open { split: split.to_owned(), metadata, shard });
        Ok(self.open.len() - 1)
    }

    fn builder(&self) -> Result<Builder> {
        let spare =
            self.running.as_ref().and_then(|(shared, _)| shared.spare.lock().unwrap_or_else(PoisonError::into_inner).pop());
        spare.map_or_else(|| self.builders.build(), Ok)
    }

    fn start(&mut self) -> Result<&(Arc<Shared>, Pool)> {
        if self.running.is_none() {
            let info = self.dataset.info();
            let structure = info.structure();
            let store = self.dataset.inner.store.clone();
            let shared = Arc::new(Shared {
                session: Session::begin(&*store, &random_name(32))?,
                flush: if self.options.durable { super::pool::flusher(store.clone()) } else { None },
                store,
                compression: structure.compression,
                algorithms: structure.algorithms.clone(),
                own: self.own().to_owned(),
                finished: Mutex::default(),
                failed: AtomicBool::new(false),
                spare: Mutex::default(),
            });
            let pool = Pool::start(&shared, self.options.threads)?;
            self.running = Some((shared, pool));
        }
        self.running.as_ref().ok_or_else(|| Error::storage("the threads that write shards have ended"))
    }

    /// Hands the open shard at `at` to the threads; a fresh one takes its place, with the same metadata.
    fn close(&mut self, at: usize) -> Result<()> {
        let Some(split) = self.open.get(at).map(|o| o.split.clone()) else { return Ok(()) };
        let mut dir = RelPath::parse(&split)?;
        if let Some(own) = &self.options.relative_path {
            dir = dir.join(own.as_str())?;
        }
        let dir = dir.join(&self.names.next())?;
        let (path, list) = (dir.join(&format!("{}.{}", random_name(32), self.suffix))?, dir.join(LIST)?);
        self.start()?;
        let fresh = self.builder()?;
        let Some(open) = self.open.get_mut(at) else { return Ok(()) };
        let shard = std::mem::replace(&mut open.shard, fresh);
        let job = Job { number: self.jobs, path, list, shard, metadata: open.metadata.clone() };
        self.jobs += 1;
        let (shared, pool) = self.start()?;
        shared.finished.lock().unwrap_or_else(PoisonError::into_inner).push(None);
        pool.give(job)
    }

    /// Adds one record: each attribute's bytes, in the declared order, to a split, with the metadata that its shard has; other
    /// metadata than the open shard's close it and open a new one. None are the same as empty ones: they too are others than what an
    /// open shard has, so that no record gets a label that it was not given.
    ///
    /// # Errors
    /// `Invalid` names the attribute; the record is not written then, and the filler goes on. When an earlier shard could
    /// not be written, its error.
    pub fn append(&mut self, split: &str, record: &RawRecord<'_>, group: Option<&GroupMetadata>) -> Result<()> {
        if self.process != std::process::id() {
            return Err(Error::invalid("this filler belongs to the process that made it")
                .remedy("make one filler in each process, with a relative path of its own"));
        }
        if self.running.as_ref().is_some_and(|(shared, _)| shared.failed.load(Ordering::Relaxed)) {
            let cause = self.failure(|_| true).unwrap_or_else(|| Error::storage("no cause is known"));
            return Err(cause.within("an earlier shard could not be written, so this example was not taken"));
        }
        let bytes = self.builders.measure(record)?;
        let at = self.open_shard(split, group, record, bytes)?;
        let Some(open) = self.open.get_mut(at) else { return Err(Error::invalid("no shard is open")) };
        open.shard.push(record)?;
        if open.shard.len() >= self.builders.most() { self.close(at) } else { Ok(()) }
    }

    /// Closes the open shards and waits for all of them. Shards that could not be written are an error that says how many
    /// records are missing; the others are in the result all the same.
    pub(super) fn close_all(&mut self) -> (Written, Result<()>) {
        let (mut missing, mut shards, mut first) = (0, 0, None);
        for at in 0..self.open.len() {
            let examples = self.open.get(at).map_or(0, |o| o.shard.len() as u64);
            if examples == 0 {
                continue;
            }
            // What room a full disk has left is for the lists of the shards that are whole.
            if let Err(e) = self.disk_full().and_then(|()| self.close(at)) {
                (missing, shards) = (missing + examples, shards + 1);
                first.get_or_insert(e);
            }
        }
        let handed = self.jobs + shards;
        self.open.clear();
        let mut written = Written::default();
        let failed = |first: Option<Error>, missing: u64, shards: usize| match first {
            Some(e) => Err(
                e.within(format!("{shards} of {handed} shards with {missing} examples could not be written and are not listed"))
            ),
            None => Ok(()),
        };
        let Some((shared, mut pool)) = self.running.take() else { return (written, failed(first, missing, shards)) };
        pool.join();
        drop(pool);
        let mut by_list: ShardsByList = Vec::new();
        let mut place: BTreeMap<RelPath, usize> = BTreeMap::new();
        for done in std::mem::take(&mut *shared.finished.lock().unwrap_or_else(PoisonError::into_inner)) {
            match done {
                Some(done) => match done.result {
                    Ok(shard) => {
                        let at = *place.entry(done.list.clone()).or_insert_with(|| {
                            by_list.push((done.list.clone(), Vec::new()));
                            by_list.len() - 1
                        });
                        if let Some((_, shards)) = by_list.get_mut(at) {
                            shards.push(shard);
                        }
                    }
                    Err(e) => {
                        (missing, shards) = (missing + done.examples, shards + 1);
                        first.get_or_insert(e);
                    }
                },
                None => {
                    shards += 1;
                    first.get_or_insert_with(|| Error::storage("a thread ended before its shard was written"));
                }
            }
        }
        written.shards = by_list;
        if let Ok(shared) = Arc::try_unwrap(shared).map_err(|_| ()) {
            written.sessions.push(shared.session);
        }
        (written, failed(first, missing, shards))
    }

    /// The first error like that of a shard that could not be written.
    fn failure(&self, like: impl Fn(&Error) -> bool) -> Option<Error> {
        let (shared, _) = self.running.as_ref()?;
        let finished = shared.finished.lock().unwrap_or_else(PoisonError::into_inner);
        finished.iter().flatten().filter_map(|f| f.result.as_ref().err()).find(|e| like(e)).cloned()
    }

    /// The error of a shard for which there was no room.
    fn disk_full(&self) -> Result<()> {
        let no_room = |e: &Error| {
            let source = std::error::Error::source(e).and_then(|s| s.downcast_ref::<std::io::Error>());
            source.is_some_and(|s| matches!(s.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
        };
        self.failure(no_room).map_or(Ok(()), Err)
    }

    /// Closes the open shards, waits for the threads and, where this filler updates the root, makes everything visible. Gives
    /// the pointers that a coordinator passes to [`Dataset::write_config`]: one a split that was written to.
    ///
    /// # Errors
    /// `Storage` says how many records are missing when a shard could not be written; the others are visible all the same.
    pub fn finish(&mut self) -> Result<Vec<ListRef>> {
        if self.process != std::process::id() {
            // A forked child: the records are its parent's.
            self.forget();
            return Ok(Vec::new());
        }
        let (mut written, failed) = self.close_all();
        let store = self.dataset.inner.store.clone();
        let failed = failed.and(written.leave_out_deleted(&*store));
        let default = self.options.relative_path.is_none() && self.updates_root();
        let adopt = self.options.adopt.unwrap_or(default);
        let (adopted, dead) = match adopt {
            true => self.dataset.adopt(self.own(), self.options.adopt == Some(true), &written.sessions)?,
            // A writer of the default path that leaves the root alone leaves them to the one that does not.
            false if self.own().is_empty() && self.options.adopt.is_none() => Default::default(),
            // Nobody shall adopt them later either, and have them twice.
            false => (Vec::new(), self.give_up()?),
        };
        for (_, shards) in &adopted {
            self.adopted.shards += shards.len() as u64;
            self.adopted.records += shards.iter().map(|s| s.examples).sum::<u64>();
        }
        let sessions = written.sessions.into_iter().chain(dead);
        let shards: ShardsByList = adopted.into_iter().chain(written.shards).collect();
        let named = if self.updates_root() {
            self.dataset.publish(Written { shards, sessions: sessions.collect() }, self.options.durable)
        } else {
            commit::write_own(&*store, self.options.relative_path.as_ref(), self.options.durable, shards).and_then(|infos| {
                self.infos = infos;
                end(&*store, sessions)
            })
        };
        match (named, failed) {
            (Err(e), Err(missing)) => Err(e.within(format!("{}; the others could not be named", missing.message()))),
            (named, failed) => named.and(failed).map(|()| self.infos.clone()),
        }
    }

    /// Ends the sessions of killed writers of the same path.
    fn give_up(&mut self) -> Result<Vec<Session>> {
        let dead = progress::dead_sessions(self.dataset.store(), self.own())?;
        for (_, records) in &dead {
            self.given_up.shards += records.len() as u64;
            self.given_up.records += records.iter().map(|r| r.shard.examples).sum::<u64>();
        }
        Ok(dead.into_iter().map(|(session, _)| session).collect())
    }

    /// The pointers that [`Filler::finish`] gives, also where it failed for some of the shards.
    pub fn infos(&self) -> &[ListRef] {
        &self.infos
    }

    /// What killed writers of the same path had finished and finishing left out for good.
    pub fn given_up(&self) -> Adopted {
        self.given_up
    }

    /// What finishing took over from killed writers.
    pub fn adopted(&self) -> Adopted {
        self.adopted
    }

    /// In a forked child the threads are not there and their locks may be held for ever.
    fn forget(&mut self) {
        std::mem::forget(self.running.take());
        self.open.clear();
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            self.forget();
        }
    }
}

fn end(store: &dyn crate::store::Store, sessions: impl IntoIterator<Item = Session>) -> Result<()> {
    sessions.into_iter().try_for_each(|session| session.end(store))
}

impl Dataset {
    /// Shards that killed writers of the path `own` finished and that still are as they were recorded.
    fn adopt(&self, own: &str, told: bool, mine: &[Session]) -> Result<(ShardsByList, Vec<Session>)> {
        let (mut shards, mut sessions) = (Vec::new(), Vec::new());
        let info = self.info();
        let mut buffer = vec![0; 1 << 20];
        let unlocked = told && !self.store().capabilities().locks;
        let found = match unlocked {
            true => progress::left(self.store(), own, mine)?,
            false => progress::dead_sessions(self.store(), own)?,
        };
        if unlocked && !found.is_empty() {
            self.refresh()?;
        }
        for (session, records) in found {
            for Record { list, shard } in records {
                if unlocked && self.lists(&shard)? {
                    continue;
                }
                // A shard that was not flushed before the power failed is no longer whole: it stays an orphan.
                if check::shard_ok(self.store(), &info.structure().algorithms, &self.inner.reader, &shard, &mut buffer).is_ok() {
                    shards.push((list, vec![shard]));
                }
            }
            sessions.push(session);
        }
        Ok((shards, sessions))
    }

    /// Whether a shard is listed already.
    fn lists(&self, shard: &ShardInfo) -> Result<bool> {
        match self.find(shard.path()?.as_str()) {
            Err(e) if e.code() == crate::Code::NotFound => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// Makes written shards visible.
    pub(super) fn publish(&self, written: Written, durable: bool) -> Result<()> {
        let done = commit::commit(self.store(), self.inner.options.allow_newer, durable, |_| {
            Ok(Changes { shards: written.shards.clone(), ..Default::default() })
        })?;
        end(self.store(), written.sessions)?;
        if done { self.refresh() } else { Ok(()) }
    }
}

impl Written {
    pub(super) fn to_token(&self) -> Token {
        let lists = self.shards.iter().map(
            |(list, shards)| json!({"list": list.as_str(), "shards": shards.iter().map(ShardInfo::to_value).collect::<Vec<_>>()}),
        );
        Token(Value::Array(lists.collect()))
    }

    pub(super) fn from_token(token: &Token) -> Result<Self> {
        let wrong = || Error::invalid("this is no token of a Sedpack writer");
        let mut written = Self::default();
        for entry in token.0.as_array().ok_or_else(wrong)? {
            let list = RelPath::parse(entry.get("list").and_then(Value::as_str).ok_or_else(wrong)?)?;
            let shards = entry.get("shards").and_then(Value::as_array).ok_or_else(wrong)?;
            written.shards.push((list, shards.iter().map(ShardInfo::parse).collect::<Result<_>>()?));
        }
        Ok(written)
    }
}
