//! Datasets as the records of a new one: those of signal-datasets as they stand, the examples of Sedpack datasets as records.

use super::examples::{AxisNames, Examples, Mapping};
use super::target::{Put, attempts, into_new, last_part, options, publication, put};
use crate::convert::destination::{Destination, address};
use crate::convert::{Progress, SignalTarget};
use crate::error::{Error, Result};
use crate::layout::signal_dataset::versions::dataset_at_version;
use crate::layout::signal_dataset::{
    self, Dataset, Options, PublishedShard, Record, View, copy_shard, publish_views, taken_again, write_shard,
};
use crate::layout::{self, Layout, Source, sedpack};
use crate::store::{StorageOptions, Store, connect};
use serde_json::Value;
use sigbank_format::model::json::Json;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A shard of records that are encoded anew ends where their samples are more than this.
const SHARD_BYTES: u64 = 1 << 30;

/// How records are taken over.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DatasetsOptions {
    /// Whether each dataset's folder name and a slash come before its ids, so that those of several do not meet.
    pub prefix_ids: bool,
    /// The names of the axes of Sedpack's attributes: for all with as many axes, or from `field=name` on for one field; `dim_0` …
    /// for the others.
    pub axes: Vec<String>,
    /// The settings of the storage of datasets at an address.
    pub storage: StorageOptions,
}

enum Origin {
    Signal(Dataset),
    Sedpack(Arc<dyn Source>, Mapping),
}

struct From {
    path: PathBuf,
    prefix: String,
    origin: Origin,
    records: u64,
    bytes: u64,
}

/// Which datasets become one, made by [`plan_datasets`], carried out by [`publish_datasets`].
pub struct DatasetsPlan {
    sources: Vec<From>,
    prefixed: bool,
}

/// What became of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenOver {
    /// Its path.
    pub path: String,
    /// Its layout, such as `sedpack`.
    pub layout: &'static str,
    /// Its records.
    pub records: u64,
    /// Its annotation sets, which were left behind.
    pub annotations_left: Vec<String>,
}

/// What publishing datasets did.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetsReport {
    /// The new dataset's name.
    pub dataset_id: String,
    /// The snapshot's name; of a further version, the version's.
    pub snapshot_id: String,
    /// The number of the further version; none for a new dataset.
    pub version: Option<u64>,
    /// The sources in their order.
    pub sources: Vec<TakenOver>,
    /// Records taken over.
    pub records: u64,
    /// Shards that they are in; by reference, entries of the manifest.
    pub shards: u64,
    /// Shards that were copied byte for byte.
    pub copied: u64,
    /// Bytes of the sources' shards, of Sedpack the values'.
    pub bytes_in: u64,
    /// Bytes of the shards, wherever they lie.
    pub stored_bytes: u64,
    /// The digest of the new dataset's root, or of the version.
    pub root: String,
}

/// Whether paths and addresses are signal-datasets or Sedpack datasets.
///
/// # Errors
/// `Invalid` where some are and others are not; `Unsupported` for an address without a dataset, since recordings are read from folders;
/// those of the storage.
///
/// ```
/// let dir = std::env::temp_dir();
/// assert!(!sigbank::convert::are_datasets(&[dir], &Default::default())?);
/// # Ok::<(), sigbank::Error>(())
/// ```
pub fn are_datasets(paths: &[PathBuf], storage: &StorageOptions) -> Result<bool> {
    let (mut datasets, mut others) = (Vec::new(), Vec::new());
    for path in paths {
        if kind(path, storage)?.is_some() { datasets.push(path) } else { others.push(path) }
    }
    match (datasets.first(), others.first()) {
        (Some(dataset), Some(other)) => {
            let what = format!("{} is a dataset, and {} is none", dataset.display(), other.display());
            Err(Error::invalid(format!("datasets and folders of recordings cannot be published together: {what}"))
                .remedy("publish the recordings first, then both datasets as one"))
        }
        (Some(_), None) => Ok(true),
        _ => Ok(false),
    }
}

/// The layout of the dataset at a path or address whose records can be taken over.
fn kind(path: &Path, storage: &StorageOptions) -> Result<Option<Layout>> {
    let Some(address) = address(path) else {
        return Ok(if path.join(sedpack::ROOT).is_file() {
            Some(Layout::Sedpack)
        } else {
            path.join(signal_dataset::ROOT).is_file().then_some(Layout::SignalDataset)
        });
    };
    let store = connect(address, storage)?;
    match layout::detect(&*store)? {
        Some(layout @ (Layout::Sedpack | Layout::SignalDataset)) => Ok(Some(layout)),
        Some(Layout::Jbof) => Err(Error::unsupported("the items of a JBOF data set are published from a folder")
            .at(address)
            .remedy("copy it to this machine first: sigbank cp")),
        None => Err(Error::unsupported("there is no dataset here, and recordings are published from folders of this machine")
            .at(address)
            .remedy("check the address, or copy the recordings into a folder first")),
    }
}

/// Opens datasets that are to become one, and looks whether they can.
///
/// # Errors
/// `Invalid` for an id that two of them have, and axes that fit no field; those of opening.
pub fn plan_datasets(paths: &[PathBuf], options: &DatasetsOptions) -> Result<DatasetsPlan> {
    let names = AxisNames::parse(&options.axes)?;
    let mut sources = Vec::new();
    for path in paths {
        let prefix = match options.prefix_ids {
            true => format!("{}/", name(path)?),
            false => String::new(),
        };
        let text = path.to_str().ok_or_else(|| Error::invalid("the path is not UTF-8").at(path.display()))?;
        let (origin, records, bytes) = if kind(path, &options.storage)? == Some(Layout::Sedpack) {
            let source = layout::open_with(text, &options.storage)?;
            let mapping = Mapping::new(&*source, &names)?;
            let records = source.splits().iter().map(|split| split.records).sum::<u64>();
            let bytes = records.saturating_mul(mapping.example as u64);
            (Origin::Sedpack(source, mapping), records, bytes)
        } else {
            let dataset = dataset_at_version(text, None, &options.storage)?;
            let (records, bytes) = (dataset.len(), dataset.snapshot().stored_bytes);
            (Origin::Signal(dataset), records, bytes)
        };
        sources.push(From { path: path.clone(), prefix, origin, records, bytes });
    }
    if !names.is_empty() && !sources.iter().any(|from| matches!(from.origin, Origin::Sedpack(..))) {
        return Err(Error::invalid("axes are named for signal-datasets, whose records have theirs already")
            .remedy("leave --axes out: it is for recordings and Sedpack datasets"));
    }
    distinct(&sources, options.prefix_ids)?;
    Ok(DatasetsPlan { sources, prefixed: options.prefix_ids })
}

/// What comes before the ids of a dataset: the name of its folder, or the last part of its address.
pub(super) fn name(path: &Path) -> Result<String> {
    let name = match address(path) {
        Some(_) => last_part(path),
        None => last_part(&path.canonicalize().map_err(|e| Error::from(e).at(path.display()))?),
    };
    name.ok_or_else(|| Error::invalid("this folder has no name to put before ids").at(path.display()))
}

/// Ids that two sources have are refused. What one has twice, such as a view that repeats a record, it may keep.
fn distinct(sources: &[From], prefixed: bool) -> Result<()> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    if sources.len() < 2 {
        return Ok(());
    }
    for (number, from) in sources.iter().enumerate() {
        for id in from.ids() {
            let id = id?;
            let first = *seen.entry(id.clone()).or_insert(number);
            if let Some(other) = sources.get(first).filter(|_| first != number) {
                let (a, b) = (other.path.display(), from.path.display());
                let remedy = match prefixed {
                    true => "give the folders of the datasets different names",
                    false => {
                        "copy them with --prefix-ids, which puts each dataset's folder name before its ids (--by-reference leaves ids as they are)"
                    }
                };
                return Err(Error::invalid(format!("the id '{id}' stands in two datasets, {a} and {b}")).remedy(remedy));
            }
        }
    }
    Ok(())
}

impl From {
    /// The ids that its records will have.
    fn ids(&self) -> Box<dyn Iterator<Item = Result<String>> + '_> {
        match &self.origin {
            Origin::Signal(dataset) => {
                let batches = dataset.metadata_batches(0..dataset.len());
                let ids = batches.flat_map(|batch| match batch {
                    Ok(records) => records.into_iter().map(|record| Ok(record.id)).collect(),
                    Err(e) => vec![Err(e)],
                });
                Box::new(ids.map(|id| Ok(format!("{}{}", self.prefix, id?))))
            }
            Origin::Sedpack(source, _) => Box::new(source.splits().into_iter().flat_map(move |split| {
                (0..split.records).map(move |number| Ok(format!("{}{}/{number}", self.prefix, split.name.as_str())))
            })),
        }
    }
}

impl DatasetsPlan {
    /// Records of all datasets.
    pub fn records(&self) -> u64 {
        self.sources.iter().map(|from| from.records).sum()
    }
    /// Bytes of their shards, of Sedpack the values'.
    pub fn bytes(&self) -> u64 {
        self.sources.iter().map(|from| from.bytes).sum()
    }

    /// Of one dataset its own metadata with those of the target, of several the target's alone.
    fn metadata(&self, target: &SignalTarget) -> Result<Json> {
        let [From { origin: Origin::Signal(only), .. }] = &self.sources[..] else { return Ok(target.metadata.clone()) };
        let (mut said, more) = (only.metadata().to_value()?, target.metadata.to_value()?);
        if let (Value::Object(said), Value::Object(more)) = (&mut said, more) {
            said.remove("reference_dataset");
            said.extend(more);
        }
        Ok(Json::from_value(&said)?)
    }

    fn report(&self, put: Put, copied: u64, together: bool) -> Result<DatasetsReport> {
        let left = |from: &From| -> Result<TakenOver> {
            let (layout, annotations_left) = match &from.origin {
                Origin::Sedpack(..) => ("sedpack", Vec::new()),
                Origin::Signal(_) if together => ("signal-dataset", Vec::new()),
                Origin::Signal(dataset) => ("signal-dataset", dataset.annotations()?.names().map(String::from).collect()),
            };
            Ok(TakenOver { path: from.path.display().to_string(), layout, records: from.records, annotations_left })
        };
        Ok(DatasetsReport {
            dataset_id: put.dataset_id,
            snapshot_id: put.name,
            version: put.version,
            sources: self.sources.iter().map(left).collect::<Result<_>>()?,
            records: put.records,
            shards: put.shards,
            copied,
            bytes_in: self.bytes(),
            stored_bytes: put.stored_bytes,
            root: put.root,
        })
    }
}

/// Publishes the records of datasets as a new signal-dataset at `dest`, or as a further version of the one there, all or nothing.
///
/// The records of a signal-dataset are as they stand: its shards are copied byte for byte (those of views, and with prefixed ids, record
/// by record). A Sedpack example becomes a record `<split>/<number>` with a field for each array (a scalar is one of length 1); its metadata has `split`, `shard` (what
/// the shard's examples share, where there is something) and `values`: integers, text, and bytes as `{"base64": …}`. A Sedpack dataset is
/// verified first, since its examples alone do not tell damage.
///
/// ```no_run
/// use sigbank::convert::{DatasetsOptions, SignalTarget, plan_datasets, publish_datasets};
/// let plan = plan_datasets(&["monday".into(), "tuesday".into()], &DatasetsOptions::default())?;
/// let report = publish_datasets(&plan, "week", &SignalTarget::default(), false, &mut |_| ())?;
/// println!("{} records, {} shards copied as they are", report.records, report.copied);
/// # Ok::<(), sigbank::Error>(())
/// ```
///
/// With `by_reference` nothing is copied: the new dataset refers to the objects of the others by absolute paths and addresses, which
/// must stay.
///
/// # Errors
/// `AlreadyExists` where the destination is taken, or the version's name; `Invalid` for an id that the newest version has already, and by
/// reference for prefixed ids, Sedpack datasets, versions, and a dataset in a bucket that would name files of this machine; `Corrupt` names the first object at fault.
pub fn publish_datasets(
    plan: &DatasetsPlan,
    dest: impl Into<Destination>,
    target: &SignalTarget,
    by_reference: bool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<DatasetsReport> {
    let dest = &dest.into();
    if by_reference {
        return refer(plan, dest, target);
    }
    if target.records_per_shard == 0 {
        return Err(Error::invalid("shards of 0 records: choose 1 or more"));
    }
    let state = Progress { of_bytes: plan.bytes(), of_records: plan.records(), ..Default::default() };
    let mut run = Run {
        target,
        state,
        progress,
        shards: Vec::new(),
        copied: 0,
        options: Options { threads: target.threads, ..options(dest) },
    };
    let ids = plan.sources.iter().flat_map(From::ids);
    let metadata = plan.metadata(target)?;
    let put = put(dest, target, metadata, ids, |store, prefix| {
        attempts(|attempt| {
            (run.state.bytes, run.state.records, run.copied) = (0, 0, 0);
            run.shards.clear();
            // Records that come one by one cannot be had again: all are written under other names.
            let prefix = if attempt == 0 { prefix.to_owned() } else { format!("{prefix}attempt-{attempt}/") };
            plan.sources.iter().try_for_each(|from| run.take(from, store, &prefix))
        })?;
        Ok(std::mem::take(&mut run.shards))
    })?;
    plan.report(put, run.copied, false)
}

fn refer(plan: &DatasetsPlan, dest: &Destination, target: &SignalTarget) -> Result<DatasetsReport> {
    let refused =
        |what: &str| Err(Error::invalid(format!("by reference, {what}")).remedy("publish without --by-reference, which copies"));
    if plan.prefixed {
        return refused("ids stay as they are: they stand in the records");
    }
    if target.version.is_some() {
        return refused("nothing becomes a version of another dataset");
    }
    let mut views: Vec<View> = Vec::new();
    for from in &plan.sources {
        match &from.origin {
            Origin::Signal(_) if address(dest.path()).is_some() && address(&from.path).is_none() => {
                return refused("a dataset in a bucket would name files that are on this machine only");
            }
            Origin::Signal(dataset) => views.push(dataset.select((0..dataset.len()).collect())?),
            Origin::Sedpack(..) => return refused("a Sedpack dataset's examples are no records"),
        }
    }
    let publication = publication(dest, target, plan.metadata(target)?);
    let put = into_new(dest, |store| {
        let dataset = match &views[..] {
            [only] => only.publish(store, &publication, &options(dest))?,
            all => publish_views(all, store, &publication, &options(dest))?,
        };
        let snapshot = dataset.snapshot();
        Ok(Put { records: dataset.len(), shards: snapshot.shard_count, stored_bytes: plan.bytes(), ..Put::new(&dataset, &[]) })
    })?;
    plan.report(put, 0, views.len() == 1)
}

struct Run<'a> {
    target: &'a SignalTarget,
    options: Options,
    state: Progress,
    progress: &'a mut dyn FnMut(&Progress),
    shards: Vec<PublishedShard>,
    copied: u64,
}

impl Run<'_> {
    fn tell(&mut self, bytes: u64, records: u64) {
        self.state.bytes += bytes;
        self.state.records += records;
        (self.progress)(&self.state);
    }

    fn work_id(&self, prefix: &str) -> String {
        format!("{prefix}part-{:08}", self.shards.len())
    }

    fn take(&mut self, from: &From, store: &dyn Store, prefix: &str) -> Result<()> {
        let dataset = match &from.origin {
            Origin::Sedpack(source, mapping) => {
                source.verify(&mut |_, _| true)?;
                let bytes = mapping.example as u64;
                return self.write(Examples::new(Arc::clone(source), mapping, from.prefix.clone()), bytes, store, prefix);
            }
            Origin::Signal(dataset) => dataset,
        };
        for number in 0..dataset.snapshot().manifests.len() {
            for shard in &dataset.page(number)?.shards {
                if from.prefix.is_empty() && shard.record_indices.is_none() {
                    let copy = copy_shard(dataset, shard, store, &self.work_id(prefix), &self.options)?;
                    self.shards.push(copy);
                    self.copied += 1;
                    self.tell(shard.stored_bytes(), shard.record_count);
                    continue;
                }
                let batches = dataset.batches(shard.first_ordinal..shard.first_ordinal + shard.record_count);
                let records = batches.flat_map(|batch| match batch {
                    Ok(records) => records.into_iter().map(|record| Ok(taken_again(record))).collect(),
                    Err(e) => vec![Err(e)],
                });
                let records = records.map(|record: Result<Record>| {
                    let mut record = record?;
                    record.metadata.id.insert_str(0, &from.prefix);
                    Ok(record)
                });
                let bytes = shard.stored_bytes() / shard.record_count.max(1);
                self.write(records, bytes, store, prefix)?;
            }
        }
        Ok(())
    }

    /// Writes records as shards; each is about so many bytes of the source.
    fn write(
        &mut self,
        records: impl Iterator<Item = Result<Record>>,
        bytes: u64,
        store: &dyn Store,
        prefix: &str,
    ) -> Result<()> {
        let mut records = records.peekable();
        while records.peek().is_some() {
            let (mut left, mut room) = (self.target.records_per_shard, SHARD_BYTES);
            let work_id = self.work_id(prefix);
            let options = self.options.clone();
            let part = std::iter::from_fn(|| {
                if left == 0 || room == 0 {
                    return None;
                }
                let record = records.next()?;
                left -= 1;
                if let Ok(record) = &record {
                    room = room.saturating_sub(record.data.iter().map(|data| data.len() as u64).sum());
                    self.tell(bytes, 1);
                }
                Some(record)
            });
            let shard = write_shard(store, part, &work_id, 0, &options)?;
            self.shards.push(shard);
        }
        Ok(())
    }
}
