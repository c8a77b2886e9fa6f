//! What merging, splitting and recompressing share: sources that are verified as they are read, and examples that are written
//! anew with the metadata of their shards.

use super::destination::address;
use crate::error::{Error, Result};
use crate::layout::sedpack::{Dataset, FillerOptions, ROOT, SedpackSink, ShardInfo};
use crate::layout::{GroupMetadata, RecordWriter, RowSink, Sink, Source, Split, Token, Units, Verified, fixed_lens};
use crate::loader::{Batch, Column, Loader, Options, Shuffle};
use crate::store::{StorageOptions, connect};
use sigbank_format::model::{Metadata, Schema};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of values that are read in one step, about.
const BATCH: usize = 8 << 20;
/// What a value without a fixed size is taken to have where memory is reckoned.
const VARYING: usize = 4 << 10;

/// What a new dataset holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Written {
    /// Its splits, with their examples and shards.
    pub splits: Vec<Split>,
    /// The digest of its root.
    pub root: String,
}

impl Written {
    pub(super) fn of(dataset: &Dataset) -> Result<Self> {
        Ok(Self { splits: dataset.splits(), root: dataset.root_digest()? })
    }

    /// Examples in all splits.
    ///
    /// ```
    /// assert_eq!(sigbank::convert::Written::default().records(), 0);
    /// ```
    pub fn records(&self) -> u64 {
        self.splits.iter().map(|s| s.records).sum()
    }
}

/// Opens a dataset of the Sedpack layout, in a folder or at an address.
pub(super) fn open(path: &Path, options: &StorageOptions) -> Result<Dataset> {
    if let Some(address) = address(path) {
        return Dataset::open_store(connect(address, options)?, Default::default());
    }
    if path.is_dir() && !path.join(ROOT).exists() {
        return Err(Error::unsupported("this is no Sedpack dataset")
            .at(path.display())
            .remedy(format!("a Sedpack dataset has a file {ROOT} in its root")));
    }
    Dataset::open(path, Default::default())
}

/// Refuses a destination in one of the sources.
pub(super) fn refuse_inside(dest: &Path, sources: &[&Path]) -> Result<()> {
    if let Some(there) = address(dest) {
        let there = there.trim_end_matches('/');
        let inside = |source: &str| {
            there.strip_prefix(source.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        return match sources.iter().filter_map(|path| address(path)).any(inside) {
            true => Err(inside_a_source(dest)),
            false => Ok(()),
        };
    }
    let parent = dest.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Where it is not there the folder for the new dataset says so.
    let Ok(parent) = parent.canonicalize() else { return Ok(()) };
    let whole = dest.file_name().map_or_else(|| parent.clone(), |name| parent.join(name));
    for source in sources {
        if source.canonicalize().is_ok_and(|source| whole.starts_with(source)) {
            return Err(inside_a_source(dest));
        }
    }
    Ok(())
}

fn inside_a_source(dest: &Path) -> Error {
    Error::invalid("the destination is a source, or lies in one")
        .at(dest.display())
        .remedy("choose a place outside of the datasets that are read")
}

/// The error of a run that `progress` ended.
pub(super) fn stopped() -> Error {
    Error::conflict("stopped before its end; nothing was written")
}

/// A dataset whose shards are compared with their checksums before the first of their records is handed out.
#[derive(Debug)]
pub(super) struct Verifying {
    dataset: Dataset,
    shards: BTreeMap<String, Vec<ShardInfo>>,
    verified: Mutex<HashSet<(String, usize)>>,
}

impl Verifying {
    pub(super) fn new(dataset: Dataset) -> Result<Self> {
        let all = |split: Split| Ok((split.name.clone(), dataset.shard_infos(&split.name, 0, u64::MAX)?));
        let shards = dataset.splits().into_iter().map(all).collect::<Result<_>>()?;
        Ok(Self { dataset, shards, verified: Mutex::default() })
    }

    pub(super) fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The shards of a split.
    pub(super) fn shards(&self, split: &str) -> &[ShardInfo] {
        self.shards.get(split).map_or(&[], Vec::as_slice)
    }

    /// Files beside the first of their shard, which hold no examples and cannot be written anew.
    pub(super) fn extra_files(&self) -> u64 {
        self.shards.values().flatten().map(|s| s.files.len() as u64 - 1).sum()
    }
}

impl Source for Verifying {
    fn layout(&self) -> &'static str {
        self.dataset.layout()
    }
    fn location(&self) -> String {
        self.dataset.location()
    }
    fn metadata(&self) -> &Metadata {
        self.dataset.metadata()
    }
    fn schema(&self) -> &Schema {
        self.dataset.schema()
    }
    fn splits(&self) -> Vec<Split> {
        self.dataset.splits()
    }
    fn units(&self, split: &str) -> Result<Arc<Units>> {
        self.dataset.units(split)
    }
    fn unit_name(&self, split: &str, unit: usize) -> Result<String> {
        self.dataset.unit_name(split, unit)
    }
    fn unit_metadata(&self, split: &str, unit: usize) -> Result<Metadata> {
        self.dataset.unit_metadata(split, unit)
    }
    fn random_access(&self) -> bool {
        self.dataset.random_access()
    }
    fn round_trip(&self) -> u64 {
        self.dataset.round_trip()
    }
    fn read_unit(&self, split: &str, unit: usize, records: &[u32], fields: &[usize], out: &mut dyn RowSink) -> Result<()> {
        let key = (split.to_owned(), unit);
        if !self.verified.lock().unwrap_or_else(PoisonError::into_inner).contains(&key) {
            let shard =
                self.shards(split).get(unit).ok_or_else(|| Error::not_found(format!("shard {unit} of split '{split}'")))?;
            self.dataset.verify_shard(shard)?;
            self.verified.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        }
        self.dataset.read_unit(split, unit, records, fields, out)
    }
    fn verify(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        self.dataset.verify(progress)
    }
    fn root_digest(&self) -> Result<String> {
        self.dataset.root_digest()
    }
}

/// Bytes of a record, about.
fn record_len(schema: &Schema) -> Result<usize> {
    Ok(fixed_lens(schema)?.iter().fold(0usize, |all, len| all.saturating_add(len.unwrap_or(VARYING))).max(1))
}

/// Records that about so many bytes hold.
pub(super) fn records_in(schema: &Schema, bytes: usize) -> Result<u64> {
    Ok((bytes / record_len(schema)?).max(1) as u64)
}

/// The records of some shards of a split, in the order that `shuffle` and `seed` say.
pub(super) fn load(source: &Arc<Verifying>, split: &str, units: Vec<u32>, shuffle: Shuffle, seed: u64) -> Result<Loader> {
    let batch = records_in(source.schema(), BATCH)?.min(4096) as usize;
    let options = Options { units: Some(units), shuffle, seed, ..Options::new(split, batch) };
    Loader::new(source.clone(), options)
}

/// Hands out each record of a batch, field by field.
pub(super) fn each(batch: &Batch, mut use_record: impl FnMut(usize, &[&[u8]]) -> Result<()>) -> Result<()> {
    let mut record: Vec<&[u8]> = Vec::with_capacity(batch.columns.len());
    for row in 0..batch.rows {
        record.clear();
        for column in &batch.columns {
            record.push(match column {
                Column::Fixed(all) => {
                    let len = all.len() / batch.rows.max(1);
                    all.get(row * len..(row + 1) * len).unwrap_or_default()
                }
                Column::Var(all) => all.get(row).map_or(&[], Vec::as_slice),
                Column::Stored(all) => all.get(row).map_or(&[], |stored| stored.bytes.as_slice()),
            });
        }
        use_record(row, &record)?;
    }
    Ok(())
}

/// Writes examples with the metadata of the shards that they come from.
pub(super) struct Rewriter {
    sink: SedpackSink,
    writer: Option<Box<dyn RecordWriter>>,
    tokens: Vec<Token>,
    /// The metadata of each split's open shard.
    open: BTreeMap<String, GroupMetadata>,
}

impl Rewriter {
    pub(super) fn new(dataset: &Dataset, threads: usize) -> Self {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get().min(4)),
            n => n,
        };
        let sink = dataset.sink(FillerOptions { threads, ..Default::default() });
        Self { sink, writer: None, tokens: Vec::new(), open: BTreeMap::new() }
    }

    pub(super) fn append(&mut self, split: &str, record: &[&[u8]], group: &GroupMetadata) -> Result<()> {
        // To a writer no metadata means those of the open shard. Only another writer begins a shard without any.
        let open = self.open.get(split);
        if group.is_empty() && open.is_some_and(|open| !open.is_empty()) {
            self.end_writer()?;
        }
        if self.open.get(split) != Some(group) {
            self.open.insert(split.to_owned(), group.clone());
        }
        if self.writer.is_none() {
            self.writer = Some(self.sink.writer()?);
        }
        self.writer.as_mut().map_or(Ok(()), |writer| writer.append(split, record, Some(group)))
    }

    fn end_writer(&mut self) -> Result<()> {
        self.open.clear();
        if let Some(writer) = self.writer.take() {
            self.tokens.push(writer.finish()?);
        }
        Ok(())
    }

    /// Makes all visible, durably.
    pub(super) fn finish(mut self) -> Result<()> {
        self.end_writer()?;
        self.sink.commit(self.tokens).map(|_| ())
    }
}

#[cfg(test)]
pub(super) mod tests;
