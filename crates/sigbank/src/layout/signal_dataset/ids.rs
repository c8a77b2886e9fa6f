//! Records by their ids.

use super::dataset::Dataset;
use crate::error::{Error, Result};
use crate::layout::near::Near;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;

/// Bytes of ids that are kept in memory; more are read again.
const KEPT: usize = 64 << 20;

/// Which records have which id: 16 bytes a record, and the ids where they are not too long in all.
#[derive(Debug)]
pub(super) struct IdIndex {
    hashes: RandomState,
    /// By hash, then by ordinal.
    sorted: Vec<(u64, u64)>,
    kept: Option<Kept>,
}

/// The ids, one after another, and where each ends.
#[derive(Debug, Default)]
struct Kept {
    text: String,
    ends: Vec<u32>,
}

impl Kept {
    /// Whether there was room for it.
    fn push(&mut self, id: &str, most: usize) -> bool {
        let bytes = self.text.len() + id.len() + (self.ends.len() + 1) * size_of::<u32>();
        let end = u32::try_from(self.text.len() + id.len()).ok().filter(|_| bytes <= most);
        self.ends.extend(end);
        if end.is_some() {
            self.text.push_str(id);
        }
        end.is_some()
    }
    fn get(&self, ordinal: u64) -> Option<&str> {
        let at = usize::try_from(ordinal).ok()?;
        let start = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.text.get(start as usize..*self.ends.get(at)? as usize)
    }
    fn all(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len() as u64).filter_map(|ordinal| self.get(ordinal))
    }
}

impl IdIndex {
    /// Reads what is said of every record.
    ///
    /// # Errors
    /// Those of [`Dataset::read_metadata`].
    pub(super) fn new(dataset: &Dataset) -> Result<Self> {
        Self::keeping(dataset, KEPT)
    }

    fn keeping(dataset: &Dataset, most: usize) -> Result<Self> {
        let (hashes, mut sorted, mut kept) = (RandomState::new(), Vec::new(), Some(Kept::default()));
        for batch in dataset.metadata_batches(0..dataset.len()) {
            for record in batch? {
                sorted.push((hashes.hash_one(&record.id), sorted.len() as u64));
                kept = kept.and_then(|mut kept| kept.push(&record.id, most).then_some(kept));
            }
        }
        sorted.sort_unstable();
        Ok(Self { hashes, sorted, kept })
    }

    /// The ids of some records, where they are kept.
    pub(super) fn range(&self, ordinals: &Range<u64>) -> Option<Vec<String>> {
        let kept = self.kept.as_ref()?;
        ordinals.clone().map(|ordinal| kept.get(ordinal).map(str::to_owned)).collect()
    }

    /// The ordinal of the record of an id.
    ///
    /// # Errors
    /// `NotFound` where none has it, with ids that are near; `Invalid` where several have it.
    pub(super) fn find(&self, dataset: &Dataset, id: &str) -> Result<u64> {
        let hash = self.hashes.hash_one(id);
        let first = self.sorted.partition_point(|(other, _)| *other < hash);
        let ordinals: Vec<u64> =
            self.sorted.iter().skip(first).take_while(|(other, _)| *other == hash).map(|(_, ordinal)| *ordinal).collect();
        let found: Vec<u64> = match &self.kept {
            Some(kept) => ordinals.into_iter().filter(|&ordinal| kept.get(ordinal) == Some(id)).collect(),
            None => {
                let records = dataset.read_metadata(&ordinals)?;
                records.iter().zip(ordinals).filter(|(record, _)| record.id == id).map(|(_, ordinal)| ordinal).collect()
            }
        };
        match found.as_slice() {
            [only] => Ok(*only),
            [] => Err(self.missing(dataset, id)?),
            [first, .., last] => {
                let what = format!("{} records have the id '{id}', from record {first} to record {last}", found.len());
                Err(Error::invalid(what).at(dataset.location()).remedy("name the record by its number"))
            }
        }
    }

    /// The error of an id that no record has.
    fn missing(&self, dataset: &Dataset, id: &str) -> Result<Error> {
        let mut near = Near::new(id);
        match &self.kept {
            Some(kept) => kept.all().for_each(|other| near.add(other)),
            None => {
                for batch in dataset.metadata_batches(0..dataset.len()) {
                    batch?.iter().for_each(|record| near.add(&record.id));
                }
            }
        }
        Ok(near.error().at(dataset.location()))
    }
}

/// The ids of some records.
pub(super) fn of(dataset: &Dataset, ordinals: Range<u64>) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for batch in dataset.metadata_batches(ordinals) {
        ids.extend(batch?.into_iter().map(|record| record.id));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::super::{Options, Publication, Record, RecordMetadata, publish, write_shard};
    use super::*;
    use crate::Code;
    use crate::store::{MemoryStore, Store};
    use sigbank_format::record::signal::{Axis, FieldMetadata};
    use std::sync::Arc;

    #[test]
    fn ids_are_found_whether_they_are_kept_or_not() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let ids = ["a", "", "ünï", "b/2", "a"];
        let field = FieldMetadata { axes: vec![Axis::new("t", 1)], ..FieldMetadata::new("x", "uint8".parse().unwrap(), vec![1]) };
        let record = |id: &&str| {
            let metadata = RecordMetadata::new(format!("r{id}"), vec![field.clone()]);
            Ok(Record { metadata, data: vec![vec![1].into()] })
        };
        let shard = write_shard(&*store, ids.iter().map(record), "w", 0, &Options::default()).unwrap();
        let dataset = publish(&store, &[shard], &Publication::new("d", "v"), &Options::default()).unwrap();
        let bytes: usize = ids.iter().map(|id| id.len() + 1 + 4).sum();
        for (most, kept) in [(bytes, true), (bytes - 1, false), (0, false)] {
            let index = IdIndex::keeping(&dataset, most).unwrap();
            assert_eq!(index.kept.is_some(), kept);
            assert_eq!([1, 2, 3].map(|i| index.find(&dataset, &format!("r{}", ids[i])).unwrap()), [1, 2, 3]);
            assert_eq!(index.range(&(1..4)), kept.then(|| [1, 2, 3].map(|i| format!("r{}", ids[i])).into()));
            let told = index.find(&dataset, "ra").unwrap_err();
            assert_eq!((told.code(), told.message().contains("record 0 to record 4")), (Code::Invalid, true));
            let told = index.find(&dataset, "rb/3").unwrap_err();
            assert!(told.code() == Code::NotFound && told.to_string().contains("near it: 'rb/2'"), "{told}");
        }
    }
}
