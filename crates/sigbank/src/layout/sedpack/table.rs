//! The shards of one split as columns, and walking the lists.

use super::lists::{ListRef, ShardInfo};
use super::state::State;
use crate::error::{Error, Result};
use crate::layout::Units;
use crate::store::Store;
use crate::uri::RelPath;
use sigbank_format::model::Metadata;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// The shards of a split in stored order: a list's own, then its children's, depth first.
pub(super) struct Walk<'a> {
    state: &'a State,
    store: &'a dyn Store,
    /// Pointers still to be followed, the next one last.
    pending: Vec<ListRef>,
    shards: std::vec::IntoIter<ShardInfo>,
    /// Shards still to be passed over.
    skip: u64,
}

impl<'a> Walk<'a> {
    /// From the `skip`-th shard on; lists that lie wholly before it are not read.
    pub(super) fn new(state: &'a State, store: &'a dyn Store, top: &ListRef, skip: u64) -> Self {
        Self { state, store, pending: vec![top.clone()], shards: Vec::new().into_iter(), skip }
    }

    fn step(&mut self) -> Result<Option<ShardInfo>> {
        loop {
            for shard in self.shards.by_ref() {
                if self.skip == 0 {
                    return Ok(Some(shard));
                }
                self.skip -= 1;
            }
            let Some(pointer) = self.pending.pop() else { return Ok(None) };
            if pointer.shards <= self.skip && pointer.shards > 0 {
                self.skip -= pointer.shards;
                continue;
            }
            let list = self.state.list(self.store, &pointer)?;
            let dir = pointer.file.path.parent();
            for child in list.children.iter().rev() {
                // A child lies below its parent: a list can therefore not lead back to itself.
                let inside = dir
                    .as_ref()
                    .is_some_and(|d| child.file.path.parent().is_some_and(|c| c != *d && c.strip_prefix(d).is_some()));
                if !inside {
                    return Err(Error::corrupt(format!(
                        "children_shard_lists: '{}' does not lie below the list",
                        child.file.path
                    ))
                    .at(self.store.locate(&list.path)));
                }
                self.pending.push(child.clone());
            }
            self.shards = list.shards.into_iter();
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<ShardInfo>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// What reading needs to know of each shard, in columns: no object a shard.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) units: Arc<Units>,
    dirs: Vec<RelPath>,
    dir_of: Vec<u32>,
    names: String,
    name_ends: Vec<u32>,
    metadata: Vec<Metadata>,
    metadata_of: Vec<u32>,
    /// Made when a shard is looked for by its path.
    by_path: OnceLock<HashMap<RelPath, u32>>,
}

impl Table {
    pub(super) fn read(state: &State, store: &dyn Store, top: &ListRef) -> Result<Self> {
        let mut table = Self {
            units: Arc::new(Units::from_counts([])),
            dirs: Vec::new(),
            dir_of: Vec::new(),
            names: String::new(),
            name_ends: Vec::new(),
            metadata: vec![Metadata::new()],
            metadata_of: Vec::new(),
            by_path: OnceLock::new(),
        };
        let mut known_dirs = HashMap::new();
        let mut known_metadata = HashMap::from([("{}".to_owned(), 0)]);
        let mut counts = Vec::new();
        for shard in Walk::new(state, store, top, 0) {
            let shard = shard?;
            let path = shard.path()?;
            let dir = path
                .parent()
                .ok_or_else(|| Error::corrupt(format!("shard '{path}' lies in no directory")).at(store.location()))?;
            if shard.examples > u64::from(u32::MAX) {
                return Err(Error::limit(format!("a shard of {} examples", shard.examples)).at(store.locate(path)));
            }
            let id = *known_dirs.entry(dir.clone()).or_insert_with(|| {
                table.dirs.push(dir);
                table.dirs.len() as u32 - 1
            });
            table.dir_of.push(id);
            table.names.push_str(path.file_name());
            table.name_ends.push(u32::try_from(table.names.len()).map_err(|_| Error::limit("more than 4 GiB of shard names"))?);
            let key = serde_json::to_string(&shard.metadata).unwrap_or_default();
            let id = *known_metadata.entry(key).or_insert_with(|| {
                table.metadata.push(shard.metadata);
                table.metadata.len() as u32 - 1
            });
            table.metadata_of.push(id);
            counts.push(shard.examples);
        }
        table.units = Arc::new(Units::from_counts(counts));
        Ok(table)
    }

    /// The path of a shard's first file.
    pub(super) fn path(&self, unit: usize) -> Result<RelPath> {
        let begin = match unit.checked_sub(1) {
            Some(before) => self.name_ends.get(before).copied().unwrap_or(u32::MAX),
            None => 0,
        };
        let name = self.name_ends.get(unit).and_then(|&end| self.names.get(begin as usize..end as usize));
        let dir = self.dir_of.get(unit).and_then(|&d| self.dirs.get(d as usize));
        match (dir, name) {
            (Some(dir), Some(name)) => dir.join(name),
            _ => Err(Error::not_found(format!("shard {unit} of a split with {}", self.units.len()))),
        }
    }

    /// The number of the shard whose first file has this path.
    pub(super) fn find(&self, path: &RelPath) -> Option<usize> {
        let known =
            self.by_path.get_or_init(|| (0..self.units.len()).filter_map(|u| Some((self.path(u).ok()?, u as u32))).collect());
        known.get(path).map(|&u| u as usize)
    }

    /// What a shard's records share.
    pub(super) fn metadata(&self, unit: usize) -> Result<&Metadata> {
        let found = self.metadata_of.get(unit).and_then(|&m| self.metadata.get(m as usize));
        found.ok_or_else(|| Error::not_found(format!("shard {unit} of a split with {}", self.units.len())))
    }
}
