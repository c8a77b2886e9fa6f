//! A dataset divided anew into train, test and holdout.

use super::Shares;
use super::destination::{Destination, Making};
use super::rewrite::{Rewriter, Verifying, Written, each, load, open, records_in, refuse_inside, stopped};
use super::shares::hash;
use crate::error::{Error, Result};
use crate::layout::sedpack::{Assembly, SPLITS, ShardInfo};
use crate::layout::{Collected, Source};
use crate::loader::Shuffle;
use serde_json::Value;
use sigbank_format::model::{FieldType, Metadata};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Bytes of records that are mixed at a time, about.
const MIXED: usize = 64 << 20;

/// What stays together in one split.
///
/// ```
/// use sigbank::convert::SplitBy;
/// assert_eq!("example".parse::<SplitBy>()?, SplitBy::Example);
/// assert_eq!("recording".parse::<SplitBy>()?, SplitBy::Recording);
/// assert_eq!("subject".parse::<SplitBy>()?, SplitBy::Key("subject".into()));
/// assert_eq!("key:shard".parse::<SplitBy>()?, SplitBy::Key("shard".into())); // a key of this name
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SplitBy {
    /// The examples of a shard. Shards are copied as they are: what was captured together stays together.
    #[default]
    Shard,
    /// All examples of a recording, by the text in the field `source` that packing writes: no windows of one recording are in two splits.
    /// Shards are written anew, with examples mixed.
    Recording,
    /// Nothing: each example goes its own way. Shards are written anew, with examples mixed.
    Example,
    /// All shards with the same value of this key of their custom metadata: no key, subject or device is in two splits.
    Key(String),
}

impl FromStr for SplitBy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "" => Err(Error::invalid(
                "what stays together: shard, recording, example or a key of the shards' custom metadata is expected",
            )),
            "shard" => Ok(Self::Shard),
            "example" => Ok(Self::Example),
            "recording" => Ok(Self::Recording),
            key => Ok(Self::Key(key.strip_prefix("key:").unwrap_or(key).to_owned())),
        }
    }
}

/// How a dataset is divided.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SplitOptions {
    /// The share of the examples that each split gets.
    pub shares: Shares,
    /// Decides what goes where, and how examples are mixed.
    pub seed: u64,
    /// What stays together.
    pub by: SplitBy,
    /// Threads that compress, where shards are written anew; 0 for one a core, at most 4.
    pub threads: usize,
}

/// What dividing did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SplitReport {
    /// What the new dataset holds.
    pub written: Written,
    /// How many things that stay together (shards, values of the key, examples) each split has, in the order of the shares.
    pub groups: Vec<(String, u64)>,
    /// Files beside the first one of their shard that were left out, where shards were written anew.
    pub extra_files: u64,
    /// The share of the examples that was asked for each split, and what it got.
    pub shares: Vec<(String, f64, f64)>,
    /// Recordings (by the field `source`) with examples in several splits.
    pub spread: Spread,
}

/// Recordings whose examples went to several splits: windows of one recording resemble each other, so that a test on some of them tells
/// little after training on the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spread {
    /// How many there are, as far as shards are written in the order of recordings.
    pub recordings: u64,
    /// The first of them by name.
    pub first: Option<String>,
}

/// The splits in which recordings are, a bit each.
#[derive(Default)]
struct Places(BTreeMap<Vec<u8>, u64>);

impl Places {
    fn add(&mut self, source: &[u8], split: usize) {
        let recording = file(source);
        let bit = 1 << split.min(63);
        match self.0.get_mut(recording) {
            Some(bits) => *bits |= bit,
            None => {
                self.0.insert(recording.to_vec(), bit);
            }
        }
    }
    fn spread(&self) -> Spread {
        let mut all = self.0.iter().filter(|(_, bits)| bits.count_ones() > 1);
        let first = all.next().map(|(name, _)| String::from_utf8_lossy(name).into_owned());
        Spread { recordings: all.count() as u64 + u64::from(first.is_some()), first }
    }
}

/// Divides all examples of `source`, whatever splits they are in, and writes them to a new dataset at `dest`, which appears there when
/// it is complete, or not at all. The same dataset, shares and seed give the same division. Shards are compared with their checksums
/// as they are read; custom metadata are kept.
///
/// Whole shards, and all shards with one value of a key, go to the splits in an order drawn from the seed, each to the split that
/// lacks most examples of its share; so the counts are as near to the shares as whole groups allow, and every split gets one where
/// there are enough. Recordings go in the same way. By example the counts are the shares exactly (rounded to whole examples); examples of shards with the same custom
/// metadata are mixed, about 64 MiB of them at a time.
///
/// `progress` hears (shards or examples done, all) and stops the run by `false`.
///
/// # Errors
/// `Invalid` for a split that Sedpack does not have, a dataset without examples, fewer groups than splits, a shard without the key, and a destination in the
/// source; `AlreadyExists` where the destination is taken; `Corrupt` or `NotFound` names a shard that is not as its list says.
///
/// ```no_run
/// use sigbank::convert::{SplitBy, SplitOptions, split};
/// let shares = "train=0.8,test=0.1,holdout=0.1".parse()?;
/// let options = SplitOptions { shares, by: SplitBy::Key("subject".into()), ..Default::default() };
/// split("all".as_ref(), "divided", &options, &mut |_, _| true)?;
/// # Ok::<(), sigbank::Error>(())
/// ```
pub fn split(
    source: &Path,
    dest: impl Into<Destination>,
    options: &SplitOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<SplitReport> {
    if let Some(name) = options.shares.names().into_iter().find(|name| !SPLITS.contains(name)) {
        return Err(
            Error::invalid(format!("Sedpack has no split '{name}'")).remedy(format!("its splits are {}", SPLITS.join(", ")))
        );
    }
    let dest = dest.into();
    refuse_inside(dest.path(), &[source])?;
    let dataset = Arc::new(Verifying::new(open(source, dest.options())?)?);
    if dataset.splits().iter().all(|s| s.records == 0) {
        return Err(Error::invalid("the dataset has no examples that could be divided").at(dataset.location()));
    }
    match &options.by {
        SplitBy::Example => by_example(&dataset, &dest, options, progress),
        SplitBy::Recording => by_recording(&dataset, &dest, options, progress),
        SplitBy::Shard => by_group(&dataset, &dest, options, progress, &|shard| Ok(shard.path()?.to_string())),
        SplitBy::Key(key) => by_group(&dataset, &dest, options, progress, &|shard| match shard.metadata.get(key) {
            Some(value) => Ok(value.to_string()),
            None => Err(without_key(&dataset, shard, key)),
        }),
    }
}

fn without_key(dataset: &Verifying, shard: &ShardInfo, key: &str) -> Error {
    let known: Vec<&str> = shard.metadata.keys().map(String::as_str).collect();
    let has = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
    let path = shard.path().map_or_else(|_| dataset.location(), |p| format!("{}/{p}", dataset.location()));
    Error::invalid(format!("the shard's custom metadata have no key '{key}': {has}"))
        .at(path)
        .remedy(
            "choose a key that every shard has; or divide by recording (--by recording), or pack anew with --by '{KEY}/{}.wav', which gives \
             shards the keys of their files' names",
        )
}

/// Every shard with its split, in stored order.
fn shards(dataset: &Verifying) -> Vec<(String, &ShardInfo)> {
    let of = |split: String| dataset.shards(&split).iter().map(move |shard| (split.clone(), shard)).collect::<Vec<_>>();
    dataset.splits().into_iter().flat_map(|s| of(s.name)).collect()
}

/// Some shards that stay together: their examples, and in which order they come.
struct Group {
    examples: u64,
    drawn: u64,
}

fn by_group(
    dataset: &Verifying,
    dest: &Destination,
    options: &SplitOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
    key: &dyn Fn(&ShardInfo) -> Result<String>,
) -> Result<SplitReport> {
    let shards = shards(dataset);
    let keys = shards.iter().map(|(_, shard)| key(shard)).collect::<Result<Vec<_>>>()?;
    let mut groups: HashMap<&str, Group> = HashMap::new();
    for (key, (_, shard)) in keys.iter().zip(&shards) {
        let group = groups.entry(key).or_insert_with(|| Group { examples: 0, drawn: hash(options.seed, key) });
        group.examples += shard.examples;
    }
    let mut order: Vec<(&str, Group)> = groups.into_iter().collect();
    order.sort_by(|a, b| (a.1.drawn, a.0).cmp(&(b.1.drawn, b.0)));
    let sizes: Vec<u64> = order.iter().map(|(_, group)| group.examples).collect();
    let names = options.shares.names();
    let chosen = assign(&sizes, &options.shares.fractions()).ok_or_else(|| {
        Error::invalid(format!("{} cannot fill {} splits", several(sizes.len(), &options.by), names.len()))
            .at(dataset.location())
            .remedy("name fewer splits, or divide by recording or by example, which makes new shards")
    })?;
    let split_of: HashMap<&str, &str> =
        order.iter().zip(&chosen).filter_map(|((key, _), &at)| Some((*key, *names.get(at)?))).collect();
    let mut places = Places::default();
    if let Some(source) = recordings(dataset) {
        let mut unit_of = HashMap::new();
        for (key, (from, shard)) in keys.iter().zip(&shards) {
            let unit: &mut usize = unit_of.entry(from).or_default();
            let to = split_of.get(key.as_str()).and_then(|to| names.iter().position(|name| name == to)).unwrap_or(0);
            // Recordings follow one another: only those at the ends go on in another shard.
            let last = u32::try_from(shard.examples.saturating_sub(1)).unwrap_or(u32::MAX);
            let ends: &[u32] = match shard.examples {
                0 => &[],
                1 => &[0],
                _ => &[0, last],
            };
            for recording in sources(dataset, from, *unit, ends, source)? {
                places.add(&recording, to);
            }
            *unit += 1;
        }
    }
    let making = Making::begin(dest, true)?;
    let mut assembly = Assembly::create_store(making.store()?, &dataset.dataset().info())?;
    names.iter().try_for_each(|name| assembly.split(name))?;
    let total = shards.len() as u64;
    for (done, (key, (from, shard))) in keys.iter().zip(&shards).enumerate() {
        if !progress(done as u64, total) {
            return Err(stopped());
        }
        let to = split_of.get(key.as_str()).copied().unwrap_or("train");
        assembly.copy(dataset.dataset(), &(0, from.clone()), shard, to)?;
    }
    progress(total, total);
    let written = Written::of(&assembly.finish()?)?;
    making.publish()?;
    let count = |at: usize| chosen.iter().filter(|&&c| c == at).count() as u64;
    let groups = names.iter().enumerate().map(|(at, name)| ((*name).to_owned(), count(at))).collect();
    let shares = reached(&written, &options.shares);
    Ok(SplitReport { written, groups, extra_files: 0, shares, spread: places.spread() })
}

/// What was asked for each split, and what it got.
fn reached(written: &Written, shares: &Shares) -> Vec<(String, f64, f64)> {
    let of = |name: &str| written.splits.iter().find(|split| split.name == name).map_or(0, |split| split.records);
    let all = written.records().max(1) as f64;
    shares
        .names()
        .into_iter()
        .zip(shares.fractions())
        .map(|(name, asked)| (name.to_owned(), asked, of(name) as f64 / all))
        .collect()
}

/// The file that a source is in: of an npz without the member.
fn file(source: &[u8]) -> &[u8] {
    const MEMBER: &[u8] = b".npz#";
    let at = source.windows(MEMBER.len()).position(|part| part.eq_ignore_ascii_case(MEMBER));
    at.and_then(|at| source.get(..at + MEMBER.len() - 1)).unwrap_or(source)
}

/// The field that names the recording of an example, in what packing makes.
fn recordings(dataset: &Verifying) -> Option<usize> {
    dataset
        .schema()
        .position("source")
        .filter(|&at| dataset.schema().fields.get(at).is_some_and(|field| field.ty == FieldType::Str))
}

/// The recordings of some examples of a shard.
fn sources(dataset: &Verifying, split: &str, unit: usize, examples: &[u32], field: usize) -> Result<Vec<Vec<u8>>> {
    let mut rows = Collected::new(examples.len(), 1);
    dataset.read_unit(split, unit, examples, &[field], &mut rows)?;
    Ok(rows.into_values())
}

fn several(count: usize, by: &SplitBy) -> String {
    let what = match by {
        SplitBy::Key(key) => format!("value{} of '{key}'", if count == 1 { "" } else { "s" }),
        SplitBy::Recording => format!("recording{}", if count == 1 { "" } else { "s" }),
        _ => format!("shard{}", if count == 1 { "" } else { "s" }),
    };
    format!("{count} {what}")
}

/// The split of each group: that which lacks most of its share when the group comes. None where there are fewer groups than splits.
pub(super) fn assign(sizes: &[u64], fractions: &[f64]) -> Option<Vec<usize>> {
    let total = sizes.iter().sum::<u64>() as f64;
    let mut lacks: Vec<f64> = fractions.iter().map(|share| share * total).collect();
    let mut members = vec![0usize; lacks.len()];
    let mut chosen = Vec::with_capacity(sizes.len());
    for &size in sizes {
        let (at, _) = lacks.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1))?;
        lacks.get_mut(at).into_iter().for_each(|lack| *lack -= size as f64);
        members.get_mut(at).into_iter().for_each(|n| *n += 1);
        chosen.push(at);
    }
    // A split that got none takes the smallest group of those with more than one.
    while let Some(empty) = members.iter().position(|&n| n == 0) {
        let spare = |at: usize| members.get(at).is_some_and(|&n| n > 1);
        let givers = chosen.iter().zip(sizes).enumerate().filter(|(_, (at, _))| spare(**at));
        let (group, from) = givers.min_by_key(|(_, (_, size))| **size).map(|(group, (at, _))| (group, *at))?;
        chosen.get_mut(group).into_iter().for_each(|at| *at = empty);
        members.get_mut(from).into_iter().for_each(|n| *n -= 1);
        members.get_mut(empty).into_iter().for_each(|n| *n += 1);
    }
    Some(chosen)
}

/// Deals examples out to splits until each has its count: every example is as likely to go to a split as that lacks examples.
struct Dealer {
    left: Vec<u64>,
    seed: u64,
    dealt: u64,
}

impl Dealer {
    fn next(&mut self) -> usize {
        let all: u64 = self.left.iter().sum();
        let drawn = hash(self.seed, &format!("example {}", self.dealt));
        self.dealt += 1;
        let mut at = ((u128::from(drawn) * u128::from(all)) >> 64) as u64;
        for (split, left) in self.left.iter_mut().enumerate() {
            if at < *left {
                *left -= 1;
                return split;
            }
            at -= *left;
        }
        0
    }
}

fn by_recording(
    dataset: &Arc<Verifying>,
    dest: &Destination,
    options: &SplitOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<SplitReport> {
    let field = recordings(dataset).ok_or_else(|| {
        Error::invalid("the examples have no text in a field 'source', which would name their recording")
            .at(dataset.location())
            .remedy("divide by a key of the shards' custom metadata, or pack the recordings with sigbank pack, which writes it")
    })?;
    let mut examples: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for split in dataset.splits() {
        for (unit, shard) in dataset.shards(&split.name).iter().enumerate() {
            let all: Vec<u32> = (0..u32::try_from(shard.examples).unwrap_or(u32::MAX)).collect();
            for recording in sources(dataset, &split.name, unit, &all, field)? {
                *examples.entry(file(&recording).to_vec()).or_default() += 1;
            }
        }
    }
    let drawn = |recording: &[u8]| hash(options.seed, &String::from_utf8_lossy(recording));
    let mut order: Vec<(Vec<u8>, u64)> = examples.into_iter().collect();
    order.sort_by_cached_key(|(recording, _)| (drawn(recording), recording.clone()));
    let (names, sizes) = (options.shares.names(), order.iter().map(|(_, n)| *n).collect::<Vec<_>>());
    let chosen = assign(&sizes, &options.shares.fractions()).ok_or_else(|| {
        Error::invalid(format!("{} cannot fill {} splits", several(sizes.len(), &options.by), names.len()))
            .at(dataset.location())
            .remedy("name fewer splits")
    })?;
    let count = |at: usize| chosen.iter().filter(|&&c| c == at).count() as u64;
    let groups = names.iter().enumerate().map(|(at, name)| ((*name).to_owned(), count(at))).collect();
    let split_of: HashMap<Vec<u8>, usize> = order.into_iter().map(|(recording, _)| recording).zip(chosen).collect();
    let missing = || Error::conflict("the dataset changed while it was divided").at(dataset.location());
    let report = written_anew(dataset, dest, options, progress, &mut |record| {
        record.get(field).and_then(|source| split_of.get(file(source)).copied()).ok_or_else(missing)
    })?;
    Ok(SplitReport { groups, ..report })
}

fn by_example(
    dataset: &Arc<Verifying>,
    dest: &Destination,
    options: &SplitOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<SplitReport> {
    let names = options.shares.names();
    let total: u64 = dataset.splits().iter().map(|s| s.records).sum();
    let counts = options.shares.counts(usize::try_from(total).map_err(|_| Error::limit("more examples than can be counted"))?);
    if (total as usize) < names.len() {
        let what = format!("{total} example{} cannot fill {} splits", if total == 1 { "" } else { "s" }, names.len());
        return Err(Error::invalid(what).at(dataset.location()).remedy("name fewer splits"));
    }
    let mut dealer = Dealer { left: counts.iter().map(|&n| n as u64).collect(), seed: options.seed, dealt: 0 };
    let groups = names.iter().zip(counts).map(|(name, n)| ((*name).to_owned(), n as u64)).collect();
    let report = written_anew(dataset, dest, options, progress, &mut |_| Ok(dealer.next()))?;
    Ok(SplitReport { groups, ..report })
}

/// Writes all examples anew, mixed, each to the split that `choose` says.
fn written_anew(
    dataset: &Arc<Verifying>,
    dest: &Destination,
    options: &SplitOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
    choose: &mut dyn FnMut(&[&[u8]]) -> Result<usize>,
) -> Result<SplitReport> {
    let names = options.shares.names();
    let total: u64 = dataset.splits().iter().map(|s| s.records).sum();
    let making = Making::begin(dest, false)?;
    let mut empty = Assembly::create_store(making.store()?, &dataset.dataset().info())?;
    names.iter().try_for_each(|name| empty.split(name))?;
    let new = empty.finish()?;
    let mut writer = Rewriter::new(&new, options.threads);
    let (source, mut places) = (recordings(dataset), Places::default());
    let mixed = Shuffle::Buffer(records_in(dataset.schema(), MIXED)?);
    let mut done = 0;
    for (from, metadata, units) in alike(dataset)? {
        for batch in load(dataset, &from, units, mixed, options.seed)? {
            let batch = batch?;
            each(&batch, |_, record| {
                let at = choose(record)?;
                if let Some(recording) = source.and_then(|source| record.get(source)) {
                    places.add(recording, at);
                }
                let to = names.get(at).copied().unwrap_or("train");
                writer.append(to, record, &metadata)
            })?;
            done += batch.rows as u64;
            if !progress(done, total) {
                return Err(stopped());
            }
        }
    }
    writer.finish()?;
    new.refresh()?;
    let written = Written::of(&new)?;
    drop(new);
    making.publish()?;
    let shares = reached(&written, &options.shares);
    Ok(SplitReport { written, groups: Vec::new(), extra_files: dataset.extra_files(), shares, spread: places.spread() })
}

/// Runs of shards of one split with the same custom metadata, in the order in which those are first met.
fn alike(dataset: &Verifying) -> Result<Vec<(String, Metadata, Vec<u32>)>> {
    let mut runs: Vec<(String, Metadata, Vec<u32>)> = Vec::new();
    let mut known: HashMap<(String, String), usize> = HashMap::new();
    for split in dataset.splits() {
        for (unit, shard) in dataset.shards(&split.name).iter().enumerate().filter(|(_, s)| s.examples > 0) {
            let metadata = Value::Object(shard.metadata.clone()).to_string();
            let at = *known.entry((split.name.clone(), metadata)).or_insert_with(|| {
                runs.push((split.name.clone(), shard.metadata.clone(), Vec::new()));
                runs.len() - 1
            });
            let unit = u32::try_from(unit).map_err(|_| Error::limit("more shards than can be counted"))?;
            runs.get_mut(at).into_iter().for_each(|run| run.2.push(unit));
        }
    }
    // Those without metadata first: a shard without them can follow one with them only from another writer.
    runs.sort_by_key(|run| !run.1.is_empty());
    Ok(runs)
}

#[cfg(test)]
mod tests;
