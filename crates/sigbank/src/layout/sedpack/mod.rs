//! The Sedpack layout: packed, split, compressed, hashed shards, listed in a tree of `shards_list.json` under one root,
//! `dataset_info.json`. Byte-compatible with the reference package `sedpack` 0.2.0; its format document is the source.

mod aside;
mod bench;
mod builder;
mod check;
mod claim;
mod commit;
mod contents;
mod filler;
mod gc;
mod info;
mod journal;
mod lists;
mod nested;
mod pool;
mod progress;
mod reader;
mod relist;
mod repair;
mod sink;
mod state;
mod structure;
mod table;
mod transfer;
mod vanished;

pub use bench::decode_all;
pub use contents::{local_store, recovered_contents, succeed, succession};
pub use filler::{Adopted, Filler, FillerOptions, Written};
pub use gc::{Deleted, Garbage, GcOptions, Kept, Orphan, OrphanKind, gc};
pub use info::{Info, NEWEST_VERSION, ROOT, SPLITS, WRITTEN_VERSION};
pub use lists::{FileInfo, LIST, ListRef, ShardInfo, ShardsList};
pub use repair::{RepairAction, RepairKind, RepairNote, RepairOptions, RepairPlan};
pub use sink::SedpackSink;
pub use structure::{ShardFileType, Structure};
pub use transfer::{Assembly, Origin};

use crate::error::{Code, Error, Result};
use crate::layout::{RowSink, Source, Split, Units, Verified};
use crate::store::{LocalStore, Opening, Store};
use crate::uri::RelPath;
use sigbank_format::model::{Metadata, Schema};
use state::State;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// How a dataset is opened.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// Accept a `sedpack_version` newer than [`NEWEST_VERSION`].
    pub allow_newer: bool,
}

/// A Sedpack dataset. Clones share one state; [`Source`] reads the state that was newest when it was opened, refreshed or
/// last written through this object.
#[derive(Debug, Clone)]
pub struct Dataset {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    options: OpenOptions,
    state: Mutex<Arc<State>>,
    /// Kept here because [`Source`] hands out references: what was there when the dataset was opened.
    metadata: Metadata,
    reader: reader::Reader,
}

impl Dataset {
    /// Opens the dataset in a directory. Nothing is written, and of the lists nothing is read before it is needed.
    ///
    /// # Errors
    /// `NotFound` where there is none, `Unsupported` for a newer version, `Corrupt` or `Invalid` for a root that does not fit
    /// the format.
    pub fn open(root: &Path, options: OpenOptions) -> Result<Self> {
        let store = LocalStore::open(root).map_err(|e| match e.code() {
            Code::NotFound => Error::not_found("there is no Sedpack dataset here")
                .at(root.join(ROOT).display())
                .remedy("check the path, or create the dataset"),
            _ => e,
        })?;
        Self::open_store(Arc::new(local(store)?), options)
    }

    /// Opens the dataset in a store.
    pub fn open_store(store: Arc<dyn Store>, options: OpenOptions) -> Result<Self> {
        let state = State::load(&*store, options.allow_newer, None)?;
        let reader = reader::Reader::new(state.info.structure())?;
        Ok(Self {
            inner: Arc::new(Inner {
                metadata: state.info.metadata(),
                store,
                options,
                state: Mutex::new(Arc::new(state)),
                reader,
            }),
        })
    }

    /// Creates an empty dataset in a directory, which may exist as long as it holds no dataset.
    ///
    /// # Errors
    /// `AlreadyExists` where one is; `Unsupported` for an attribute that shards of the type cannot hold.
    pub fn create(root: &Path, info: Info) -> Result<Self> {
        let store = LocalStore::create(root)?;
        Self::create_store(Arc::new(local(store)?), info)
    }

    /// Creates an empty dataset in a store.
    pub fn create_store(store: Arc<dyn Store>, info: Info) -> Result<Self> {
        reader::Reader::new(info.structure())?;
        builder::Builders::new(info.structure())?;
        structure::known_to_the_reference(&info.structure_object(), info.structure())?;
        let path = RelPath::parse(ROOT)?;
        let mut info = info;
        let locks = store.capabilities().locks;
        if !locks {
            info.mark();
        }
        let bytes = info.to_bytes()?;
        if let Err(e) = store.create(&path, &[&bytes]) {
            // A root with a mark is ours, whatever became of the answer.
            let ours = !locks && store.get(&path).is_ok_and(|there| there == bytes);
            match e.code() {
                _ if ours => {}
                Code::AlreadyExists => {
                    return Err(Error::already_exists("a dataset is here already")
                        .at(store.locate(&path))
                        .remedy("open it to append, or choose another path"));
                }
                _ => return Err(e),
            }
        }
        if store.capabilities().flush {
            store.flush(&[path])?;
        }
        Self::open_store(store, OpenOptions::default())
    }

    fn state(&self) -> Arc<State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_state(&self, state: State) {
        let mut now = self.inner.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !now.same(&state) {
            *now = Arc::new(state);
        }
    }

    fn store(&self) -> &dyn Store {
        &*self.inner.store
    }

    /// Takes up the newest committed state. Shards that were readable stay so: they are never replaced.
    pub fn refresh(&self) -> Result<()> {
        self.set_state(State::load(self.store(), self.inner.options.allow_newer, None)?);
        Ok(())
    }

    /// Runs `read` on the present state; where that fails because the dataset has moved on, on the newest one.
    fn with_state<T>(&self, read: impl Fn(&State) -> Result<T>) -> Result<T> {
        for _ in 0..16 {
            let state = self.state();
            let failed = match read(&state) {
                Err(e) if matches!(e.code(), Code::Corrupt | Code::NotFound) => e,
                done => return done,
            };
            let newest = self.newest()?;
            if newest.same(&state) {
                return Err(failed);
            }
            self.set_state(newest);
        }
        Err(self.too_fast())
    }

    fn too_fast(&self) -> Error {
        Error::conflict("the dataset changes faster than it can be read")
            .at(self.store().location())
            .remedy("try again when fewer writers are at work")
    }

    /// The newest state, with a commit that was begun as done.
    fn newest(&self) -> Result<State> {
        let load = |journal| State::load(self.store(), self.inner.options.allow_newer, journal);
        if self.store().capabilities().locks {
            // The journal first: where there is none, a commit that moved the lists has replaced the root by now.
            return load(journal::Journal::read(self.store()).unwrap_or(None));
        }
        let mut newest = load(None)?;
        for _ in 0..16 {
            if let Some(journal) = claim::find(self.store(), &newest.root).unwrap_or(None) {
                return newest.after(journal, self.inner.options.allow_newer);
            }
            // Only where the root has not moved on, none means that there was none.
            let again = load(None)?;
            if again.root == newest.root {
                break;
            }
            newest = again;
        }
        Ok(newest)
    }

    fn read_shard(
        &self,
        begun: Option<Box<dyn Opening>>,
        split: &str,
        unit: usize,
        records: &[u32],
        fields: &[usize],
        out: &mut dyn RowSink,
    ) -> Result<()> {
        let table = self.with_state(|state| state.table(self.store(), split))?;
        let path = table.path(unit)?;
        let listed = reader::Listed { store: self.store(), path: &path, count: table.units.count(unit), begun };
        self.inner.reader.read(listed, records, fields, out)
    }

    /// The root as it was last read or written through this object.
    pub fn info(&self) -> Info {
        self.state().info.clone()
    }

    /// Each configured checksum of the root file, in order: they stand for the whole dataset.
    pub fn checksums(&self) -> Vec<String> {
        self.state().root_checksums()
    }

    /// Entries of a split's shards, from the `start`-th to before the `stop`-th, in stored order.
    ///
    /// # Errors
    /// `NotFound` for a split that is not there.
    pub fn shard_infos(&self, split: &str, start: u64, stop: u64) -> Result<Vec<ShardInfo>> {
        self.with_state(|state| state.entries(self.store(), split, (start, stop), ShardInfo::from_text))
    }

    /// As [`Dataset::shard_infos`], as the entries stand in their lists: JSON objects.
    pub fn shard_texts(&self, split: &str, start: u64, stop: u64) -> Result<Vec<String>> {
        self.with_state(|state| state.entries(self.store(), split, (start, stop), |text| Ok(text.to_owned())))
    }

    /// The numbers of a split's shards, in stored order, without those of whose metadata there were `limit` before. Metadata are
    /// the same where they say the same, however they are written.
    ///
    /// # Errors
    /// `NotFound` for a split that is not there.
    pub fn limit_metadata_types(&self, split: &str, limit: u64) -> Result<Vec<u32>> {
        self.with_state(|state| state.table(self.store(), split))?.limit_metadata_types(limit)
    }

    /// The split of a shard and its number in it, by the path of its first file.
    ///
    /// # Errors
    /// `NotFound` where no list names it.
    pub fn find(&self, path: &str) -> Result<(String, u32)> {
        let wanted = RelPath::parse(path)?;
        for split in self.splits() {
            if let Some(unit) = self.with_state(|state| state.table(self.store(), &split.name))?.find(&wanted) {
                return Ok((split.name, unit as u32));
            }
        }
        Err(Error::not_found("no list of the dataset names this shard").at(self.store().locate(&wanted)))
    }

    /// Saves new `metadata` or `dataset_structure` and makes lists that workers wrote reachable, in one step; gives the root's
    /// file info. Shards that are listed already stay and are not listed twice.
    ///
    /// # Errors
    /// `Corrupt` or `NotFound` for a list that is not as its pointer says; nothing is changed then.
    pub fn write_config(&self, info: Option<Info>, lists: Vec<ListRef>) -> Result<FileInfo> {
        commit::commit(self.store(), self.inner.options.allow_newer, true, |state| {
            let info = match &info {
                Some(new) => Some(state.info.with(Some(new.metadata()), Some(new.structure_object()))?),
                None => None,
            };
            Ok(commit::Changes { lists: lists.clone(), info, ..Default::default() })
        })?;
        self.refresh()?;
        Ok(FileInfo { path: RelPath::parse(ROOT)?, checksums: self.checksums() })
    }

    /// Removes what workers with this path wrote and nothing names, for a coordinator that gives up on them. The path must not
    /// be used again meanwhile.
    ///
    /// # Errors
    /// `Storage` where a file cannot be removed.
    pub fn discard(&self, own: &RelPath) -> Result<()> {
        commit::discard(self.store(), own)
    }

    /// Begins to fill the dataset.
    ///
    /// # Errors
    /// `Invalid` for a path that leaves the split; `ReadOnly` where nothing can be written.
    pub fn filler(&self, options: FillerOptions) -> Result<Filler> {
        Filler::new(self.clone(), options)
    }

    /// The layout-neutral way to fill it.
    pub fn sink(&self, options: FillerOptions) -> SedpackSink {
        SedpackSink::new(self.clone(), options)
    }

    /// Verifies the root's checksums against `expected` (where given), every list, and every file of every shard, and that
    /// each shard holds as many records as its list says. A commit that was begun and not ended is finished first where the
    /// dataset can be written. `progress` hears (shards done, shards in all) and stops the run by `false`.
    ///
    /// # Errors
    /// `Corrupt` or `NotFound` names the files at fault, of very many the first ones.
    pub fn check(&self, expected: &[String], progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        // Where that is not possible (a full disk, a read-only one) what readers see is checked.
        let _ = self.recover();
        self.refresh()?;
        self.check_state(expected, progress)
    }

    fn check_state(&self, expected: &[String], progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        let all = |state: &State| {
            let mut splits = state.info.splits().iter();
            splits.try_for_each(|(split, _)| state.table(self.store(), split).map(|_| ()))
        };
        for _ in 0..16 {
            self.with_state(all)?;
            let state = self.state();
            let done = check::check(self.store(), &state, &self.inner.reader, expected, progress);
            let list = |e: &Error| e.path().is_some_and(|path| path.ends_with(LIST));
            match done {
                // A writer may have replaced a list meanwhile; shards are never replaced.
                Err(e) if matches!(e.code(), Code::Corrupt | Code::NotFound) && list(&e) => {
                    let newest = self.newest()?;
                    if newest.same(&state) {
                        return Err(e);
                    }
                    self.set_state(newest);
                }
                done => return done,
            }
        }
        Err(self.too_fast())
    }

    /// Finishes a commit that a killed writer left unfinished; where nothing can be written readers do without.
    fn recover(&self) -> Result<()> {
        let capabilities = self.store().capabilities();
        if !capabilities.locks {
            return if capabilities.write { claim::recover(self.store()).map(|_| ()) } else { Ok(()) };
        }
        let unfinished = journal::Journal::read(self.store())?.is_some();
        if !unfinished || !self.store().capabilities().write {
            return Ok(());
        }
        commit::exclusively(self.store(), self.inner.options.allow_newer, true, |_| Ok(()))
    }
}

/// The journal and the progress records lie in `.sigbank`; the store's own files in a directory of their own there.
fn local(store: LocalStore) -> Result<LocalStore> {
    Ok(store.private_dir(RelPath::parse(".sigbank/store")?, false))
}

impl Source for Dataset {
    fn layout(&self) -> &'static str {
        "sedpack"
    }
    fn location(&self) -> String {
        self.store().location()
    }
    fn storage(&self) -> String {
        let state = self.state();
        let structure = state.info.structure();
        let compression = match structure.compression.as_str() {
            "" => "not compressed",
            word => word,
        };
        format!("{} shards of at most {} records, {compression}", structure.file_type.as_str(), structure.examples_per_shard)
    }
    fn metadata(&self) -> &Metadata {
        &self.inner.metadata
    }
    fn schema(&self) -> &Schema {
        self.inner.reader.schema()
    }
    fn splits(&self) -> Vec<Split> {
        let state = self.state();
        state
            .info
            .splits()
            .iter()
            .map(|(name, list)| Split { name: name.clone(), records: list.examples, units: list.shards })
            .collect()
    }
    fn units(&self, split: &str) -> Result<Arc<Units>> {
        Ok(self.with_state(|state| state.table(self.store(), split))?.units.clone())
    }
    fn unit_name(&self, split: &str, unit: usize) -> Result<String> {
        Ok(self.with_state(|state| state.table(self.store(), split))?.path(unit)?.to_string())
    }
    fn unit_metadata(&self, split: &str, unit: usize) -> Result<Metadata> {
        self.with_state(|state| state.table(self.store(), split))?.metadata(unit)
    }
    fn random_access(&self) -> bool {
        self.inner.reader.random_access()
    }
    fn round_trip(&self) -> u64 {
        self.store().capabilities().round_trip
    }
    fn read_unit(&self, split: &str, unit: usize, records: &[u32], fields: &[usize], out: &mut dyn RowSink) -> Result<()> {
        self.read_shard(None, split, unit, records, fields, out)
    }
    fn begin_unit(&self, split: &str, unit: usize, records: &[u32], fields: &[usize]) -> Option<Box<dyn Opening>> {
        if self.round_trip() == 0 {
            return None;
        }
        // An error is met again by who reads.
        let table = self.with_state(|state| state.table(self.store(), split)).ok()?;
        let path = table.path(unit).ok()?;
        let listed = reader::Listed { store: self.store(), path: &path, count: table.units.count(unit), begun: None };
        self.inner.reader.begin(&listed, records, fields)
    }
    fn read_begun(
        &self,
        begun: Box<dyn Opening>,
        split: &str,
        unit: usize,
        records: &[u32],
        fields: &[usize],
        out: &mut dyn RowSink,
    ) -> Result<()> {
        self.read_shard(Some(begun), split, unit, records, fields, out)
    }
    fn verify(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        self.check_state(&[], progress)
    }
    fn root_digest(&self) -> Result<String> {
        let state = self.state();
        let first = state.info.structure().algorithms.first().copied().unwrap_or(sigbank_format::checksum::Algorithm::Sha256);
        let digest = sigbank_format::checksum::digest_all(&[first], &[&state.root]).concat();
        Ok(format!("{}:{digest}", first.as_str()))
    }
}

#[cfg(test)]
mod tests;
