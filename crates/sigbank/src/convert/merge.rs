//! Several datasets of one structure in a new one.

use super::destination::{Destination, Making, address};
use super::rewrite::{Written, open, refuse_inside, stopped};
use crate::error::{Error, Result};
use crate::layout::Source;
use crate::layout::sedpack::{Assembly, Dataset, Info, ShardInfo, Structure};
use serde_json::Value;
use sigbank_format::model::{Field, Metadata};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

/// What to do with a shard that stands in several of the datasets (which has the same checksums in each).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SameShards {
    /// Refuse to merge: examples would come twice, or in two splits, which nobody sees later.
    #[default]
    Refuse,
    /// Take it of the first dataset alone.
    Once,
    /// Take it each time.
    Keep,
}

/// How datasets are merged.
///
/// ```
/// use sigbank::convert::{MergeOptions, SameShards};
/// assert_eq!(MergeOptions::default(), MergeOptions { metadata_from: 0, same_shards: SameShards::Refuse });
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergeOptions {
    /// The position of the dataset whose metadata the new one has.
    pub metadata_from: usize,
    /// What to do with shards that several of them have.
    pub same_shards: SameShards,
}

/// What merging did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MergeReport {
    /// What the new dataset holds.
    pub written: Written,
    /// Bytes of the shards that were copied.
    pub bytes: u64,
    /// Directories with a new name, because two of one name would have met.
    pub renamed: u64,
    /// Shards that an earlier dataset had already.
    pub same_shards: u64,
    /// What the datasets say differently of themselves: the new one says it as the one that its metadata come from.
    pub differing: Vec<String>,
}

/// Puts the shards of all `sources`, in the order given, into a new dataset at `dest`, which appears there when it is complete, or not
/// at all. Splits of one name become one. Shards are copied byte by byte and compared with their checksums on the way; they keep their
/// custom metadata and unknown keys. What else the new dataset says of itself comes from the source that the options name.
/// `progress` hears (shards done, shards in all) and stops the run by `false`.
///
/// # Errors
/// `Invalid` where the structures differ (it names the difference), for a dataset given twice, for shards that several have unless the
/// options allow that, and for a destination in a source;
/// `AlreadyExists` where the destination is taken; `Corrupt` or `NotFound` names a shard that is not as its list says.
///
/// ```no_run
/// use sigbank::convert::{MergeOptions, merge};
/// let report = merge(&["monday".into(), "tuesday".into()], "week", &MergeOptions::default(), &mut |_, _| true)?;
/// println!("{} examples", report.written.records());
/// # Ok::<(), sigbank::Error>(())
/// ```
pub fn merge(
    sources: &[PathBuf],
    dest: impl Into<Destination>,
    options: &MergeOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<MergeReport> {
    let dest = dest.into();
    let metadata_from = options.metadata_from;
    refuse_inside(dest.path(), &sources.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
    let datasets = sources.iter().map(|path| open(path, dest.options())).collect::<Result<Vec<_>>>()?;
    let chosen = datasets
        .get(metadata_from)
        .ok_or_else(|| Error::invalid(format!("metadata from dataset {metadata_from}, but {} are given", datasets.len())))?;
    for (i, (path, dataset)) in sources.iter().zip(&datasets).enumerate() {
        let same = |other: &&PathBuf| match (address(other), address(path)) {
            (None, None) => other.canonicalize().ok() == path.canonicalize().ok(),
            (one, another) => one.map(|text| text.trim_end_matches('/')) == another.map(|text| text.trim_end_matches('/')),
        };
        if sources.iter().take(i).any(|other| same(&other)) {
            return Err(Error::invalid("the dataset is given twice").at(path.display()).remedy("give each dataset once"));
        }
        if let Some(difference) = difference(chosen.info().structure(), dataset.info().structure()) {
            let first = sources.get(metadata_from).map_or_else(String::new, |p| p.display().to_string());
            let (difference, remedy) = match difference {
                Difference::Attribute(text) => (
                    text,
                    "only datasets of the same attributes (names, dtypes and shapes, in one order) are merged: pack or write one of them anew",
                ),
                Difference::Form(text) => (
                    text,
                    "give them one form first: sigbank recompress writes a dataset anew with another compression, kind of shard or checksums",
                ),
            };
            return Err(Error::invalid(format!("it differs from {first}: {difference}")).at(path.display()).remedy(remedy));
        }
    }
    let mut seen = Seen { options, first: HashMap::new(), same: 0 };
    let mut shards = Vec::new();
    for (i, dataset) in datasets.iter().enumerate() {
        for split in dataset.splits() {
            for shard in dataset.shard_infos(&split.name, 0, u64::MAX)? {
                if seen.takes(i, dataset, &shard)? {
                    shards.push((i, split.name.clone(), shard));
                }
            }
        }
    }
    let making = Making::begin(&dest, true)?;
    let mut assembly = Assembly::create_store(making.store()?, &newest(&datasets, chosen.info())?)?;
    datasets.iter().flat_map(Dataset::splits).try_for_each(|split| assembly.split(&split.name))?;
    let total = shards.len() as u64;
    for (done, (i, split, shard)) in (0..).zip(&shards) {
        if !progress(done, total) {
            return Err(stopped());
        }
        if let Some(dataset) = datasets.get(*i) {
            assembly.copy(dataset, &(*i, split.clone()), shard, split)?;
        }
    }
    progress(total, total);
    let (bytes, renamed) = (assembly.bytes(), assembly.renamed());
    let written = Written::of(&assembly.finish()?)?;
    making.publish()?;
    Ok(MergeReport { written, bytes, renamed, same_shards: seen.same, differing: differing(sources, &datasets, metadata_from) })
}

/// Which shards were met, by their checksums, and in which dataset first.
struct Seen<'a> {
    options: &'a MergeOptions,
    first: HashMap<Vec<String>, (usize, String)>,
    same: u64,
}

impl Seen<'_> {
    /// Whether a shard is to be taken.
    fn takes(&mut self, number: usize, dataset: &Dataset, shard: &ShardInfo) -> Result<bool> {
        let key: Vec<String> = shard.files.iter().flat_map(|file| file.checksums.iter().cloned()).collect();
        let place = format!("{}/{}", dataset.location(), shard.path()?);
        if key.is_empty() {
            return Ok(true); // Nothing tells shards apart.
        }
        let (first, there) = match self.first.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert((number, place));
                return Ok(true);
            }
            Entry::Occupied(entry) => entry.into_mut(),
        };
        if *first == number {
            return Ok(true); // One dataset has it twice, and so has the new one.
        }
        self.same += 1;
        match self.options.same_shards {
            SameShards::Keep => Ok(true),
            SameShards::Once => Ok(false),
            SameShards::Refuse => Err(Error::invalid(format!("this shard is also {there}: its examples would come twice"))
                .at(place)
                .remedy("leave the second out or take both, knowingly: --same-shards once, or keep")),
        }
    }
}

/// What two structures do not have in common, in words.
enum Difference {
    /// What the records are.
    Attribute(String),
    /// How they are stored.
    Form(String),
}

/// The first difference; none where shards of one are shards of the other.
fn difference(a: &Structure, b: &Structure) -> Option<Difference> {
    let most = a.schema.fields.len().max(b.schema.fields.len());
    for place in 0..most {
        let (a, b) = (a.schema.fields.get(place), b.schema.fields.get(place));
        if a.map(|f| (&f.name, &f.ty)) != b.map(|f| (&f.name, &f.ty)) {
            let shown = |f: Option<&Field>| f.map_or("none".to_owned(), |f| format!("'{}' {}", f.name, f.ty));
            return Some(Difference::Attribute(format!("attribute {place} is {}, there it is {}", shown(b), shown(a))));
        }
    }
    let word = |text: &'static str| if text.is_empty() { "none" } else { text };
    let checksums = |s: &Structure| s.algorithms.iter().map(|a| a.as_str()).collect::<Vec<_>>().join(", ");
    let pairs = [
        ("shard_file_type", a.file_type.as_str().to_owned(), b.file_type.as_str().to_owned()),
        ("compression", word(a.compression.as_str()).to_owned(), word(b.compression.as_str()).to_owned()),
        ("hash_checksum_algorithms", checksums(a), checksums(b)),
    ];
    pairs.into_iter().find(|(_, a, b)| a != b).map(|(what, a, b)| Difference::Form(format!("{what} is {b}, there it is {a}")))
}

/// The root that the new one is made like, with the highest version among the datasets: their shards are copied as they are.
fn newest(datasets: &[Dataset], chosen: Info) -> Result<Info> {
    let version = |info: &Info| info.metadata().get("sedpack_version").and_then(Value::as_str).map(str::to_owned);
    let number = |text: &String| text.split(['.', '-', '+']).map_while(|p| p.parse::<u64>().ok()).collect::<Vec<_>>();
    let highest = datasets.iter().filter_map(|d| version(&d.info())).max_by_key(number);
    if highest == version(&chosen) {
        return Ok(chosen);
    }
    let mut metadata = chosen.metadata();
    metadata.extend(highest.map(|v| ("sedpack_version".to_owned(), Value::String(v))));
    chosen.with(Some(metadata), None)
}

/// What the datasets say differently from the chosen one.
fn differing(sources: &[PathBuf], datasets: &[Dataset], chosen: usize) -> Vec<String> {
    let mut found = Vec::new();
    let Some(first) = datasets.get(chosen) else { return found };
    let mut compare = |path: &Path, what: &str, a: &Metadata, b: &Metadata| {
        let keys = a.keys().chain(b.keys().filter(|k| !a.contains_key(*k)));
        for key in keys.filter(|key| *key != "sedpack_version" && *key != "saved_data_description" && a.get(*key) != b.get(*key))
        {
            let shown = |v: Option<&Value>| v.map_or("nothing".to_owned(), ToString::to_string);
            found.push(format!("{}: {what}{key}: {} was left for {}", path.display(), shown(b.get(key)), shown(a.get(key))));
        }
    };
    for (path, other) in sources.iter().zip(datasets) {
        let (a, b) = (first.info(), other.info());
        compare(path, "", &a.metadata(), &b.metadata());
        compare(path, "", &a.structure_object(), &b.structure_object());
        for (a, b) in a.structure().schema.fields.iter().zip(&b.structure().schema.fields) {
            compare(path, &format!("attribute '{}': ", a.name), &a.metadata, &b.metadata);
        }
    }
    found
}

#[cfg(test)]
mod tests;
