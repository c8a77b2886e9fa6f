//! A dataset divided anew into train, test and holdout.

use super::Shares;
use super::destination::{Destination, Making};
use super::rewrite::{Rewriter, Verifying, Written, each, load, open, records_in, refuse_inside, stopped};
use super::shares::hash;
use crate::error::{Error, Result};
use crate::layout::Source;
use crate::layout::sedpack::{Assembly, SPLITS, ShardInfo};
use crate::loader::Shuffle;
use serde_json::Value;
use sigbank_format::model::Metadata;
use std::collections::HashMap;
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
/// assert_eq!("subject".parse::<SplitBy>()?, SplitBy::Key("subject".into()));
/// assert_eq!("key:shard".parse::<SplitBy>()?, SplitBy::Key("shard".into())); // a key of this name
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SplitBy {
    /// The examples of a shard. Shards are copied as they are: what was captured together stays together.
    #[default]
    Shard,
    /// Nothing: each example goes its own way. Shards are written anew, with examples mixed.
    Example,
    /// All shards with the same value of this key of their custom metadata: no key, subject or device is in two splits.
    Key(String),
}

impl FromStr for SplitBy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "" => Err(Error::invalid("what stays together: shard, example or a key of the shards' custom metadata is expected")),
            "shard" => Ok(Self::Shard),
            "example" => Ok(Self::Example),
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
}

/// Divides all examples of `source`, whatever splits they are in, and writes them to a new dataset at `dest`, which appears there when
/// it is complete, or not at all. The same dataset, shares and seed give the same division. Shards are compared with their checksums
/// as they are read; custom metadata are kept.
///
/// Whole shards, and all shards with one value of a key, go to the splits in an order drawn from the seed, each to the split that
/// lacks most examples of its share; so the counts are as near to the shares as whole groups allow, and every split gets one where
/// there are enough. By example the counts are the shares exactly (rounded to whole examples); examples of shards with the same custom
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
        .remedy("choose a key that every shard has, or divide by shard or by example")
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
            .remedy("name fewer splits, or divide by example")
    })?;
    let split_of: HashMap<&str, &str> =
        order.iter().zip(&chosen).filter_map(|((key, _), &at)| Some((*key, *names.get(at)?))).collect();
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
    Ok(SplitReport { written, groups, extra_files: 0 })
}

fn several(count: usize, by: &SplitBy) -> String {
    let what = match by {
        SplitBy::Key(key) => format!("value{} of '{key}'", if count == 1 { "" } else { "s" }),
        _ => format!("shard{}", if count == 1 { "" } else { "s" }),
    };
    format!("{count} {what}")
}

/// The split of each group: that which lacks most of its share when the group comes. None where there are fewer groups than splits.
fn assign(sizes: &[u64], fractions: &[f64]) -> Option<Vec<usize>> {
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
    let making = Making::begin(dest, false)?;
    let mut empty = Assembly::create_store(making.store()?, &dataset.dataset().info())?;
    names.iter().try_for_each(|name| empty.split(name))?;
    let new = empty.finish()?;
    let mut writer = Rewriter::new(&new, options.threads);
    let mut dealer = Dealer { left: counts.iter().map(|&n| n as u64).collect(), seed: options.seed, dealt: 0 };
    let mixed = Shuffle::Buffer(records_in(dataset.schema(), MIXED)?);
    let mut done = 0;
    for (from, metadata, units) in alike(dataset)? {
        for batch in load(dataset, &from, units, mixed, options.seed)? {
            let batch = batch?;
            each(&batch, |_, record| {
                let to = names.get(dealer.next()).copied().unwrap_or("train");
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
    let groups = names.iter().zip(counts).map(|(name, n)| ((*name).to_owned(), n as u64)).collect();
    Ok(SplitReport { written, groups, extra_files: dataset.extra_files() })
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
