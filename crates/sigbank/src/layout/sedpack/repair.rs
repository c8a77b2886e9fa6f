//! Repairing a dataset: a plan of what to do, which changes nothing, and carrying it out in one commit.
//!
//! What is listed and not there, or not as it was written, is dropped; what is there, whole and not listed is adopted (but what looks
//! like the copy of a listed shard is told of and left out); lists that
//! are lost or do not fit are built anew from what is left, and counts and checksums from the lowest list up to the root. No shard
//! file is changed, moved or deleted.

mod candidates;
mod copies;
pub(super) mod dropped;
mod examine;
mod plan;
mod survey;
#[cfg(test)]
mod tests;

use super::aside;
use super::commit::{PATIENCE, ROOT_LOCK};
use super::journal::{self, Journal};
use super::progress::{self, Record};
use super::reader::Reader;
use super::state::State;
use super::{Dataset, OpenOptions, ROOT};
use crate::error::{Code, Error, Result};
use crate::store::{Expected, LockGuard, Store, lock};
use crate::uri::RelPath;
use bytes::Bytes;
use candidates::Candidates;
pub(super) use examine::useless;
use examine::{Examiner, Subject, Verdict};
use plan::decide;
use sigbank_format::checksum::digest_all;
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;
use survey::Survey;

/// For how long nothing was written to a temporary file that is swept. Between making one and locking it a process takes far less; one
/// that is suspended just there finds its file gone, and says so.
const ABANDONED: Duration = Duration::from_secs(10);

/// What is done to one shard or list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RepairKind {
    /// A commit that a killed writer began is finished.
    FinishCommit,
    /// A commit that was begun is given up, because another program wrote the root since.
    GiveUpCommit,
    /// A listed shard is listed no longer: it is gone, or not as it was written.
    DropShard,
    /// A listed shard is whole, but its entry has another count or lacks checksums.
    CorrectShard,
    /// A whole shard that was not listed is listed, after those that are.
    AdoptShard,
    /// A list that nothing led to is reached from the root.
    AdoptList,
    /// A list is written anew, or the pointer to it is.
    RebuildList,
    /// Shards that a lost or damaged list told of are listed no longer: which ones, nothing says.
    LoseShards,
}

impl RepairKind {
    /// The word for it, in messages and JSON.
    ///
    /// ```
    /// assert_eq!(sigbank::layout::sedpack::RepairKind::DropShard.as_str(), "drop");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FinishCommit => "finish commit",
            Self::GiveUpCommit => "give up commit",
            Self::DropShard => "drop",
            Self::CorrectShard => "correct",
            Self::AdoptShard => "adopt",
            Self::AdoptList => "adopt list",
            Self::RebuildList => "rebuild list",
            Self::LoseShards => "lose",
        }
    }

    fn of_shard(self) -> bool {
        matches!(self, Self::DropShard | Self::CorrectShard | Self::AdoptShard)
    }
}

/// One thing that a repair does.
#[derive(Debug, Clone, PartialEq)]
pub struct RepairAction {
    /// What is done.
    pub kind: RepairKind,
    /// To which shard or list.
    pub path: RelPath,
    /// The split that it belongs to; `dataset_info.json` for what concerns the root.
    pub split: String,
    /// Examples that are dropped or adopted, or that the shard or the list itself holds now.
    pub examples: u64,
    /// Shards that are dropped, adopted, corrected or lost; 0 where a list or a commit is dealt with.
    pub shards: u64,
    /// Why, and where a damaged file stays.
    pub reason: String,
}

/// Something that a repair leaves as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct RepairNote {
    /// The shard or list.
    pub path: RelPath,
    /// Examples of a whole shard that is not adopted; 0 for all else.
    pub examples: u64,
    /// Why.
    pub reason: String,
}

/// What a repair is told beforehand, see [`Dataset::plan_repair_with`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairOptions {
    /// Also adopt what looks like a copy: a whole shard that nothing lists and that holds the bytes of exactly one listed shard. By
    /// default it is left out and told of: so it looks when a writer was killed and run again.
    pub adopt_copies: bool,
    /// Where not a single shard file is there: they are gone for good, and not on a disk that is not mounted. By default such a dataset
    /// is not emptied.
    pub lost_for_good: bool,
}

/// What a repair will do, see [`Dataset::plan_repair`]. It holds for the state of the dataset that it was made of.
#[derive(Debug, Clone, Default)]
pub struct RepairPlan {
    /// In the order in which a person wants to read them; nothing to do where there are none.
    pub actions: Vec<RepairAction>,
    /// What lies there and is left alone.
    pub notes: Vec<RepairNote>,
    fingerprint: [String; 2],
    /// What no list names was left out of account.
    guarded: bool,
    /// New texts of lists, deepest first, and of the root where it changes.
    lists: Vec<(RelPath, Vec<u8>)>,
    root: Option<Vec<u8>>,
    adopted: Vec<RelPath>,
    /// Texts of workers' lists that are replaced: an info of theirs may still stand for them.
    aside: Vec<Bytes>,
    recheck: Vec<Subject>,
    rejected: Vec<Record>,
    /// Whole shards that are not adopted: the record that a killed writer left of one is kept.
    left: HashSet<RelPath>,
}

impl RepairPlan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Shards and examples that are listed no longer, those that nothing but a lost list told of included.
    pub fn dropped(&self) -> (u64, u64) {
        let all = self.actions.iter().filter(|a| matches!(a.kind, RepairKind::DropShard | RepairKind::LoseShards));
        all.fold((0, 0), |(shards, examples), a| (shards + a.shards, examples + a.examples))
    }

    /// Whole shards that are not adopted, and their examples as far as they are known.
    pub fn left_out(&self) -> (u64, u64) {
        (self.left.len() as u64, self.notes.iter().map(|note| note.examples).sum())
    }

    /// Actions of one kind, and their examples.
    pub fn count(&self, kind: RepairKind) -> (u64, u64) {
        self.actions.iter().filter(|a| a.kind == kind).fold((0, 0), |(n, examples), a| (n + 1, examples + a.examples))
    }
}

impl Dataset {
    /// Opens a dataset in order to repair it: as [`Dataset::open`], but the error for a root that is lost or cannot be read says what
    /// can be done.
    ///
    /// # Errors
    /// As [`Dataset::open`]. A `dataset_info.json` that is lost or damaged is beyond repair: nothing else says what the records are.
    pub fn open_to_repair(root: &Path, options: OpenOptions) -> Result<Self> {
        Self::open(root, options).map_err(|e| match e.code() {
            Code::NotFound if !root.is_dir() => e,
            Code::NotFound | Code::Corrupt | Code::Invalid => e.within("beyond repair").remedy(format!(
                "restore {ROOT} from a copy; or move it away, create a dataset with the same dataset_structure in this folder, and repair \
                 that: it adopts the lists and shards that lie there"
            )),
            _ => e,
        })
    }

    /// Finds out what is wrong with the dataset and what a repair would do about it. Nothing is changed. Every listed shard is
    /// read and compared with its checksums, every shard that is not listed is read whole; `progress` hears (shards done, shards in
    /// all) and stops the run by `false`.
    ///
    /// # Errors
    /// `NotFound` where not one shard file is there (see [`RepairOptions::lost_for_good`]);
    /// `Corrupt` where the root cannot be read, or where all shards are as they were written and contradict `dataset_structure`;
    /// `Conflict` where a list is lost while a writer is at work, or the run was stopped; `Storage` where a file cannot be read for
    /// other reasons than its bytes, which is no proof of damage.
    ///
    /// ```
    /// # use sigbank::layout::sedpack::{Dataset, FillerOptions, Info, RepairKind};
    /// # let dir = tempfile::tempdir()?;
    /// # let structure = serde_json::json!({"saved_data_description": [{"name": "x", "dtype": "uint8", "shape": [1]}]});
    /// # let info = Info::new(Default::default(), structure.as_object().cloned().unwrap_or_default())?;
    /// let dataset = Dataset::create(dir.path(), info)?;
    /// let mut filler = dataset.filler(FillerOptions::default())?;
    /// filler.append("train", &[&[7]], None)?;
    /// filler.append("test", &[&[8]], None)?;
    /// filler.finish()?;
    /// assert!(dataset.plan_repair(&mut |_, _| true)?.is_empty());
    /// let shard = dataset.shard_infos("train", 0, 1)?.remove(0);
    /// std::fs::remove_file(dir.path().join(shard.path()?.as_str()))?;
    /// let plan = dataset.plan_repair(&mut |_, _| true)?;
    /// assert_eq!((plan.actions[0].kind, plan.actions[0].examples), (RepairKind::DropShard, 1));
    /// dataset.repair(&plan)?;
    /// dataset.check(&[], &mut |_, _| true)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn plan_repair(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<RepairPlan> {
        self.plan_repair_with(&RepairOptions::default(), progress)
    }

    /// The same, with what is to be done in cases that need somebody's word.
    ///
    /// # Errors
    /// As [`Dataset::plan_repair`].
    pub fn plan_repair_with(&self, options: &RepairOptions, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<RepairPlan> {
        let store = self.store();
        let mut survey = {
            // Where nothing can be written nobody else writes either.
            let _guard = match root_lock(store) {
                Err(e) if e.code() == Code::Conflict => return Err(e),
                guard => guard.ok().flatten(),
            };
            Survey::take(store, self.inner.options.allow_newer)?
        };
        let structure = survey.info.structure().clone();
        let reader = Reader::new(&structure)?;
        let candidates = Candidates::of(&mut survey)?;
        let subjects: Vec<&Subject> = candidates.all.iter().map(|c| &c.subject).collect();
        let examiner = Examiner { store, algorithms: &structure.algorithms, reader: &reader };
        let verdicts = examiner.all(&subjects, progress)?;
        decide(&survey, candidates, verdicts, options).map_err(|e| if e.path().is_some() { e } else { e.at(store.location()) })
    }

    /// Carries a plan out, in one commit: a repair that is killed has changed nothing, or is finished by the next writer or
    /// repair. Of what it dropped a memory stays in `.sigbank/dropped.json`: a later repair does not take the damaged file for a whole
    /// one, and lists the shard again, with its metadata, when its file was restored from a copy.
    ///
    /// # Errors
    /// `Conflict` where the dataset changed since the plan was made; nothing is changed then.
    pub fn repair(&self, plan: &RepairPlan) -> Result<()> {
        if plan.is_empty() {
            return Ok(());
        }
        let store = self.store();
        if !store.capabilities().write {
            return Err(Error::read_only("the dataset cannot be written here").at(store.location()));
        }
        if !store.capabilities().locks {
            return Err(Error::unsupported(
                "a dataset cannot be repaired where writers cannot be kept out, as on an object store",
            )
            .at(store.location())
            .remedy("copy the dataset to a disk, repair it there, and copy it back to a new place"));
        }
        let _guard = root_lock(store)?;
        let now = Survey::take(store, self.inner.options.allow_newer)?;
        if now.fingerprint[0] != plan.fingerprint[0]
            || (!plan.guarded && (now.guarded.is_some() || now.fingerprint[1] != plan.fingerprint[1]))
        {
            return Err(changed().at(store.location()));
        }
        self.still_damaged(&now, &plan.recheck)?;
        match journal::recover(store, true) {
            Err(e) if plan.count(RepairKind::GiveUpCommit).0 > 0 && matches!(e.code(), Code::Corrupt | Code::NotFound) => {
                store.delete(&journal::place()?)?;
            }
            done => drop(done?),
        }
        if !plan.rejected.is_empty() || !now.dropped.is_empty() {
            dropped::write(store, &plan.rejected)?;
        }
        let state = State::load(store, self.inner.options.allow_newer, None)?;
        if !plan.lists.is_empty() || plan.root.is_some() {
            let durable = store.capabilities().flush;
            let mut files = plan.adopted.clone();
            for text in &plan.aside {
                files.extend(aside::keep(store, &digest_all(&state.info.structure().algorithms, &[text]), text)?);
            }
            if durable {
                store.flush(&files)?;
            }
            let root = plan.root.clone().unwrap_or_else(|| state.root.to_vec());
            let journal = Journal::new(&state.root, root, plan.lists.clone())?;
            journal.write(store, durable)?;
            journal.apply(store, Expected::Version(&state.version), durable)?;
        }
        if store.capabilities().locks {
            let planned: HashSet<&RelPath> = now.recorded.iter().filter_map(|(_, r)| r.shard.path().ok()).collect();
            for found in progress::sessions(store)? {
                // One that died meanwhile is the next repair's.
                let all_planned = found.records.iter().all(|(_, r)| r.shard.path().is_ok_and(|p| planned.contains(p)));
                // Whoever wants them later finds what is known of those that are left out.
                let none_left = found.records.iter().all(|(_, r)| r.shard.path().is_ok_and(|p| !plan.left.contains(p)));
                found.session.filter(|_| all_planned && none_left).map_or(Ok(()), |session| session.end(store))?;
            }
        }
        self.refresh()
    }

    /// Deletes the temporary files of killed writers, which have lain unchanged for ten seconds, and says how many there were. Those of
    /// living ones are locked and stay. Nothing is done where files cannot be locked or written, nor while another process commits.
    ///
    /// # Errors
    /// `Storage` where a directory cannot be read or a file not be deleted.
    ///
    /// ```
    /// # use sigbank::layout::sedpack::{Dataset, Info};
    /// # let dir = tempfile::tempdir()?;
    /// # let structure = serde_json::json!({"saved_data_description": [{"name": "x", "dtype": "uint8", "shape": [1]}]});
    /// # let info = Info::new(Default::default(), structure.as_object().cloned().unwrap_or_default())?;
    /// let dataset = Dataset::create(dir.path(), info)?;
    /// assert_eq!(dataset.sweep()?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sweep(&self) -> Result<usize> {
        let store = self.store();
        let capabilities = store.capabilities();
        if !capabilities.write || !capabilities.locks {
            return Ok(0);
        }
        // Where this lock can be had, those of the files can be too.
        match store.try_lock(ROOT_LOCK) {
            Ok(Some(_guard)) => store.sweep(ABANDONED),
            _ => Ok(0),
        }
    }

    /// What is to be dropped may have been restored since.
    fn still_damaged(&self, now: &Survey, subjects: &[Subject]) -> Result<()> {
        let structure = now.info.structure();
        let reader = Reader::new(structure)?;
        let examiner = Examiner { store: self.store(), algorithms: &structure.algorithms, reader: &reader };
        for verdict in examiner.all(&subjects.iter().collect::<Vec<_>>(), &mut |_, _| true)? {
            if matches!(verdict, Verdict::Whole | Verdict::Other(..) | Verdict::OtherType(_)) {
                return Err(changed().at(self.store().location()));
            }
        }
        Ok(())
    }
}

fn changed() -> Error {
    Error::conflict("the dataset changed since the repair was planned; nothing was repaired").remedy("repair again")
}

fn root_lock(store: &dyn Store) -> Result<Option<LockGuard>> {
    let capabilities = store.capabilities();
    if capabilities.locks && capabilities.write { lock(store, ROOT_LOCK, PATIENCE).map(Some) } else { Ok(None) }
}
