//! Records by their ids.

use super::dataset::Dataset;
use crate::error::{Error, Result};
use crate::layout::near::Near;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;

/// Which records have which id: 16 bytes a record. The ids themselves are read again.
#[derive(Debug)]
pub(super) struct IdIndex {
    hashes: RandomState,
    /// By hash, then by ordinal.
    sorted: Vec<(u64, u64)>,
}

impl IdIndex {
    /// Reads what is said of every record.
    ///
    /// # Errors
    /// Those of [`Dataset::read_metadata`].
    pub(super) fn new(dataset: &Dataset) -> Result<Self> {
        let (hashes, mut sorted) = (RandomState::new(), Vec::new());
        for batch in dataset.metadata_batches(0..dataset.len()) {
            for record in batch? {
                sorted.push((hashes.hash_one(&record.id), sorted.len() as u64));
            }
        }
        sorted.sort_unstable();
        Ok(Self { hashes, sorted })
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
        let mut found = Vec::new();
        for (record, ordinal) in dataset.read_metadata(&ordinals)?.into_iter().zip(ordinals) {
            if record.id == id {
                found.push(ordinal);
            }
        }
        match found.as_slice() {
            [only] => Ok(*only),
            [] => Err(missing(dataset, id)?),
            [first, .., last] => {
                let what = format!("{} records have the id '{id}', from record {first} to record {last}", found.len());
                Err(Error::invalid(what).at(dataset.location()).remedy("name the record by its number"))
            }
        }
    }
}

/// The ids of some records.
pub(super) fn of(dataset: &Dataset, ordinals: Range<u64>) -> Result<Vec<String>> {
    if ordinals.end > dataset.len() {
        let (end, len) = (ordinals.end, dataset.len());
        return Err(Error::not_found(format!("there is no record {}: the dataset has {len}", end - 1)).at(dataset.location()));
    }
    let mut ids = Vec::new();
    for batch in dataset.metadata_batches(ordinals) {
        ids.extend(batch?.into_iter().map(|record| record.id));
    }
    Ok(ids)
}

/// The error of an id that no record has.
fn missing(dataset: &Dataset, id: &str) -> Result<Error> {
    let mut near = Near::new(id);
    for batch in dataset.metadata_batches(0..dataset.len()) {
        batch?.iter().for_each(|record| near.add(&record.id));
    }
    Ok(near.error().at(dataset.location()))
}
