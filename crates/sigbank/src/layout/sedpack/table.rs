//! The shards of one split as columns, and walking the lists.

mod columns;
mod fetch;
mod walk;

pub(super) use walk::{Position, Walk};

use super::lists::ListRef;
use super::state::State;
use crate::error::{Error, Result};
use crate::layout::Units;
use crate::store::Store;
use crate::uri::RelPath;
use columns::Columns;
use serde_json::Value;
use sigbank_format::model::Metadata;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, OnceLock};

/// What reading needs to know of each shard.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) units: Arc<Units>,
    columns: Columns,
    /// The shards by the hash of their path. Made when one is looked for.
    by_path: OnceLock<Vec<u32>>,
}

/// The hash of a path, given its directory and its name.
fn hash((dir, name): (&str, &str)) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(dir.as_bytes());
    hasher.write(b"/");
    hasher.write(name.as_bytes());
    hasher.finish()
}

/// JSON by its meaning: keys in order, and numbers that are equal in one form, whole ones apart from others.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Array(all) => all.iter().map(canonical).collect(),
        Value::Object(all) => {
            let sorted: BTreeMap<&String, Value> = all.iter().map(|(key, value)| (key, canonical(value))).collect();
            Value::Object(sorted.into_iter().map(|(key, value)| (key.clone(), value)).collect())
        }
        Value::Number(n) if n.as_str().contains(['.', 'e', 'E']) => n.as_f64().map_or_else(|| value.clone(), Value::from),
        other => other.clone(),
    }
}

impl Table {
    pub(super) fn read(state: &State, store: &dyn Store, top: &ListRef) -> Result<Self> {
        let mut columns = fetch::columns(state, store, top)?;
        let units = Arc::new(Units::from_counts(columns.counts.iter().map(|&n| u64::from(n))));
        columns.finish();
        Ok(Self { units, columns, by_path: OnceLock::new() })
    }

    fn missing(&self, unit: usize) -> Error {
        Error::not_found(format!("shard {unit} of a split with {}", self.units.len()))
    }

    /// The path of a shard's first file.
    pub(super) fn path(&self, unit: usize) -> Result<RelPath> {
        let (dir, name) = self.columns.path(unit).ok_or_else(|| self.missing(unit))?;
        RelPath::parse(&format!("{dir}/{name}"))
    }

    fn hash(&self, unit: u32) -> u64 {
        self.columns.path(unit as usize).map_or(0, hash)
    }

    /// The hash of each shard's path.
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> {
        (0..self.units.len() as u32).map(|unit| self.hash(unit))
    }

    /// The number of the shard whose first file has this path.
    pub(super) fn find(&self, path: &RelPath) -> Option<usize> {
        let wanted = path.as_str().rsplit_once('/')?;
        let sorted = self.by_path.get_or_init(|| {
            let mut hashed: Vec<(u64, u32)> = self.hashes().zip(0..).collect();
            hashed.sort_unstable();
            hashed.into_iter().map(|(_, unit)| unit).collect()
        });
        let hash = hash(wanted);
        let from = sorted.partition_point(|&unit| self.hash(unit) < hash);
        let same = sorted.get(from..).unwrap_or_default().iter().take_while(|&&unit| self.hash(unit) == hash);
        same.map(|&unit| unit as usize).find(|&unit| self.columns.path(unit) == Some(wanted))
    }

    /// The shards without those of whose metadata there were `limit` before.
    pub(super) fn limit_metadata_types(&self, limit: u64) -> Result<Vec<u32>> {
        // What is written in several ways has several numbers.
        let mut types: HashMap<String, usize> = HashMap::new();
        let mut type_of = Vec::with_capacity(self.columns.metadata_numbers());
        for number in 0..self.columns.metadata_numbers() {
            let value: Value = serde_json::from_str(self.columns.metadata_text(number as u32))
                .map_err(|e| Error::corrupt(format!("custom_metadata: {e}")))?;
            let next = types.len();
            type_of.push(*types.entry(canonical(&value).to_string()).or_insert(next));
        }
        let mut seen = vec![0u64; types.len()];
        let mut wanted = |unit: &u32| {
            let of = type_of.get(self.columns.metadata_number(*unit as usize) as usize).copied().unwrap_or(0);
            seen.get_mut(of).is_some_and(|seen| {
                *seen += 1;
                *seen <= limit
            })
        };
        Ok((0..self.units.len() as u32).filter(|unit| wanted(unit)).collect())
    }

    /// What a shard's records share.
    pub(super) fn metadata(&self, unit: usize) -> Result<Metadata> {
        if unit >= self.units.len() {
            return Err(self.missing(unit));
        }
        let text = self.columns.metadata_text(self.columns.metadata_number(unit));
        serde_json::from_str(text).map_err(|e| Error::corrupt(format!("shard {unit}: custom_metadata: {e}")))
    }
}

#[cfg(test)]
mod tests;
