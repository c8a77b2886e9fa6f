//! What is another in two versions.

use super::super::RecordMetadata;
use super::super::dataset::Dataset;
use super::super::digest::Digest;
use super::super::documents::{PageRef, Shard};
use super::super::read::{Stored, StoredRecord};
use crate::error::{Error, Result};
use sigbank_format::model::json::Json;
use sigbank_format::record::signal::encode_metadata;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Some shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardCount {
    /// How many.
    pub shards: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of their objects.
    pub bytes: u64,
}

impl ShardCount {
    fn add(&mut self, shards: u64, records: u64, bytes: u64) {
        self.shards = self.shards.saturating_add(shards);
        self.records = self.records.saturating_add(records);
        self.bytes = self.bytes.saturating_add(bytes);
    }
    fn shard(&mut self, shard: &Shard) {
        self.add(1, shard.record_count, shard.stored_bytes());
    }
}

/// A member of the metadata that is not the same.
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataChange {
    /// Its key.
    pub key: String,
    /// What it was; none where it is new.
    pub before: Option<Json>,
    /// What it is; none where it is gone.
    pub after: Option<Json>,
}

/// Records by their ids. An id that several records have counts for each of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ids {
    /// Only in the second, in its order.
    pub added: Vec<String>,
    /// Only in the first, in its order.
    pub removed: Vec<String>,
    /// In both, with other metadata or other samples, in the order of the second.
    pub changed: Vec<String>,
}

/// How two versions differ, see [`compare`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Comparison {
    /// Records of the first and of the second.
    pub records: (u64, u64),
    /// Shards that only the second has.
    pub added: ShardCount,
    /// Shards that only the first has.
    pub removed: ShardCount,
    /// Shards that both have.
    pub kept: ShardCount,
    /// The metadata's members that differ, by key.
    pub metadata: Vec<MetadataChange>,
    /// The records, where asked for.
    pub ids: Option<Ids>,
}

/// Compares two datasets, as a rule versions of one: by the objects of their shards, which are the same where they are at the same place.
/// Manifest pages that both name are not read.
///
/// With `by_id`, records of shards that only one has are matched by id: what is said of them is read, and samples only where that
/// is the same in both. Memory grows with the ids of those records.
///
/// # Errors
/// Those of reading.
pub fn compare(before: &Dataset, after: &Dataset, by_id: bool) -> Result<Comparison> {
    let mut found = Comparison { records: (before.len(), after.len()), ..Default::default() };
    found.metadata = metadata(before, after)?;
    // Pages that both name hold the same shards.
    let named =
        |dataset: &Dataset| dataset.snapshot().manifests.iter().map(|page| page_key(dataset, page)).collect::<HashSet<_>>();
    let both: HashSet<_> = named(before).intersection(&named(after)).cloned().collect();
    for page in after.snapshot().manifests.iter().filter(|page| both.contains(&page_key(after, page))) {
        found.kept.add(page.shard_count, page.record_count, page.stored_bytes);
    }
    let mut old: HashMap<Key, Vec<Shard>> = HashMap::new();
    for shard in others(before, &both) {
        let shard = shard?;
        old.entry(Key::of(before, &shard)).or_default().push(shard);
    }
    let mut new = Vec::new();
    for shard in others(after, &both) {
        let shard = shard?;
        match old.get_mut(&Key::of(after, &shard)).and_then(Vec::pop) {
            Some(_) => found.kept.shard(&shard),
            None => {
                found.added.shard(&shard);
                new.push(range(&shard));
            }
        }
    }
    let mut gone: Vec<_> = old.into_values().flatten().inspect(|shard| found.removed.shard(shard)).map(|s| range(&s)).collect();
    gone.sort_unstable();
    if by_id {
        found.ids = Some(ids((before, &gone), (after, &new))?);
    }
    Ok(found)
}

/// Which records of which objects.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    objects: [String; 2],
    record_indices: Option<Vec<u64>>,
}

impl Key {
    fn of(dataset: &Dataset, shard: &Shard) -> Self {
        let objects = [&shard.data, &shard.metadata].map(|object| dataset.inner().objects.locate(&object.path));
        Self { objects, record_indices: shard.record_indices.clone() }
    }
}

fn page_key(dataset: &Dataset, page: &PageRef) -> (String, u64, u64) {
    (dataset.inner().objects.locate(&page.object.path), page.object.stored_bytes, page.first_ordinal)
}

/// The shards of the pages that are not in both.
fn others<'a>(dataset: &'a Dataset, both: &'a HashSet<(String, u64, u64)>) -> impl Iterator<Item = Result<Shard>> + 'a {
    let pages = dataset.snapshot().manifests.iter().enumerate();
    let pages = pages.filter(|(_, page)| !both.contains(&page_key(dataset, page)));
    pages.flat_map(|(number, _)| match dataset.page(number) {
        Ok(page) => page.shards.iter().map(|shard| Ok(shard.clone())).collect(),
        Err(e) => vec![Err(e)],
    })
}

/// First ordinal and number of records.
fn range(shard: &Shard) -> (u64, u64) {
    (shard.first_ordinal, shard.record_count)
}

fn metadata(before: &Dataset, after: &Dataset) -> Result<Vec<MetadataChange>> {
    let members = |dataset: &Dataset| -> Result<BTreeMap<String, Json>> {
        let mut members = BTreeMap::new();
        dataset.metadata().walk().object(|p, key| {
            members.insert(key.into_owned(), p.json()?);
            Ok(())
        })?;
        Ok(members)
    };
    let (mut old, mut changes) = (members(before)?, Vec::new());
    for (key, value) in members(after)? {
        match old.remove(&key) {
            Some(same) if same == value => {}
            before => changes.push(MetadataChange { key, before, after: Some(value) }),
        }
    }
    changes.extend(old.into_iter().map(|(key, value)| MetadataChange { key, before: Some(value), after: None }));
    changes.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(changes)
}

/// The records of some ranges, read ahead.
fn stream<T: Stored>(dataset: &Dataset, ordinals: Vec<u64>) -> impl Iterator<Item = Result<T>> {
    dataset.batches_of::<T>(ordinals.into()).flat_map(|batch| match batch {
        Ok(records) => records.into_iter().map(Ok).collect(),
        Err(e) => vec![Err(e)],
    })
}

fn ids((before, gone): (&Dataset, &[(u64, u64)]), (after, new): (&Dataset, &[(u64, u64)])) -> Result<Ids> {
    let ordinals = |ranges: &[(u64, u64)]| ranges.iter().flat_map(|(first, count)| *first..first + count).collect::<Vec<_>>();
    let said = |record: &RecordMetadata, dataset: &Dataset| -> Result<Digest> {
        Ok(Digest::of(&encode_metadata(record, &dataset.options().resources)?))
    };
    let mut old: HashMap<String, Vec<(u64, Digest)>> = HashMap::new();
    let gone = ordinals(gone);
    for (record, ordinal) in stream::<RecordMetadata>(before, gone.clone()).zip(&gone) {
        let record = record?;
        let digest = said(&record, before)?;
        old.entry(record.id).or_default().push((*ordinal, digest));
    }
    // The first of an id comes first.
    old.values_mut().for_each(|all| all.reverse());
    let mut found = Ids::default();
    // Records of the second: id, whether it is known to be changed, and the ordinals of both where samples decide.
    let (mut in_both, mut pairs) = (Vec::new(), (Vec::new(), Vec::new()));
    let new = ordinals(new);
    for (record, ordinal) in stream::<RecordMetadata>(after, new.clone()).zip(&new) {
        let record = record?;
        let digest = said(&record, after)?;
        match old.get_mut(&record.id).and_then(Vec::pop) {
            None => found.added.push(record.id),
            Some((_, other)) if other != digest => in_both.push((record.id, true)),
            Some((other, _)) => {
                pairs.0.push(other);
                pairs.1.push(*ordinal);
                in_both.push((record.id, false));
            }
        }
    }
    let mut samples = stream::<StoredRecord>(before, pairs.0).zip(stream::<StoredRecord>(after, pairs.1));
    for (id, mut changed) in in_both {
        if !changed {
            let (a, b) = samples.next().ok_or_else(|| Error::storage("a record was not read: this is a defect of sigbank"))?;
            changed = a?.payload() != b?.payload();
        }
        if changed {
            found.changed.push(id);
        }
    }
    let mut left: Vec<(u64, String)> =
        old.into_iter().flat_map(|(id, all)| all.into_iter().map(move |(ordinal, _)| (ordinal, id.clone()))).collect();
    left.sort_unstable();
    found.removed = left.into_iter().map(|(_, id)| id).collect();
    Ok(found)
}
