//! Lists made anew from shards in the order in which they are to be listed.

use super::SPLITS;
use super::commit::parent_list;
use super::lists::{ListRef, ShardInfo, ShardsList};
use crate::error::Result;
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::checksum::{Algorithm, digest_all};
use std::collections::{BTreeMap, HashMap};

/// Lists with their new texts, deepest first, and the pointers to those of the splits.
pub(super) type Rendered = (Vec<(RelPath, Vec<u8>)>, Vec<ListRef>);

/// The lists as they will be.
#[derive(Debug, Default)]
pub(super) struct Tree {
    lists: BTreeMap<RelPath, ShardsList>,
    /// Each split's list, in the order of the splits.
    tops: Vec<RelPath>,
}

/// The split that a path lies in.
pub(super) fn split_of(path: &RelPath) -> &str {
    path.components().next().unwrap_or("")
}

impl Tree {
    /// From lists that the root leads to.
    pub(super) fn new(splits: &[(String, ListRef)], lists: impl Iterator<Item = ShardsList>) -> Self {
        Self {
            lists: lists.map(|list| (list.path.clone(), list)).collect(),
            tops: splits.iter().map(|(_, top)| top.file.path.clone()).collect(),
        }
    }

    pub(super) fn lists(&self) -> impl Iterator<Item = &ShardsList> {
        self.lists.values()
    }

    /// Makes the root lead to a list, where that is possible: behind what the lists above lead to already.
    pub(super) fn reach(&mut self, path: &RelPath, before: &dyn Fn(&RelPath) -> Option<ShardsList>) -> Result<bool> {
        if self.lists.contains_key(path) {
            return Ok(true);
        }
        match parent_list(path)? {
            None if !SPLITS.contains(&split_of(path)) || self.tops.iter().any(|top| split_of(top) == split_of(path)) => {
                return Ok(false);
            }
            None => self.tops.push(path.clone()),
            Some(parent) => {
                if !self.reach(&parent, before)? {
                    return Ok(false);
                }
                if let Some(parent) = self.lists.get_mut(&parent).filter(|l| l.children.iter().all(|c| c.file.path != *path)) {
                    parent.children.push(ShardsList::new(path.clone()).pointer(Vec::new()));
                }
            }
        }
        self.lists.insert(path.clone(), before(path).unwrap_or_else(|| ShardsList::new(path.clone())));
        Ok(true)
    }

    /// Lists a shard, at the end of its list; false where the root cannot lead there. `before` gives what else is known of a list
    /// that nothing led to.
    pub(super) fn add(
        &mut self,
        path: &RelPath,
        shard: ShardInfo,
        before: &dyn Fn(&RelPath) -> Option<ShardsList>,
    ) -> Result<bool> {
        let reached = self.reach(path, before)?;
        if let Some(list) = self.lists.get_mut(path).filter(|_| reached) {
            list.shards.push(shard);
        }
        Ok(reached)
    }

    /// The texts of the lists, but of those for which `as_it_lies` knows one already.
    pub(super) fn render(
        mut self,
        algorithms: &[Algorithm],
        as_it_lies: &dyn Fn(&ShardsList) -> Option<Bytes>,
    ) -> Result<Rendered> {
        let mut order: Vec<RelPath> = self.lists.keys().cloned().collect();
        order.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
        let mut pointers: HashMap<RelPath, ListRef> = HashMap::new();
        let (mut written, mut tops) = (Vec::new(), Vec::new());
        for path in order {
            let Some(mut list) = self.lists.remove(&path) else { continue };
            for child in std::mem::take(&mut list.children) {
                if let Some(new) = pointers.remove(&child.file.path) {
                    let same = (&new.file, new.examples, new.shards) == (&child.file, child.examples, child.shards);
                    list.children.push(if same { child } else { new.keeping(&child) });
                }
            }
            let is_top = self.tops.contains(&path);
            let checksums = match as_it_lies(&list) {
                Some(bytes) => digest_all(algorithms, &[&bytes]),
                // A list that has become empty leads nowhere.
                None if list.shards.is_empty() && list.children.is_empty() && !is_top => continue,
                None => {
                    let bytes = list.render()?;
                    let checksums = digest_all(algorithms, &[&bytes]);
                    written.push((path.clone(), bytes));
                    checksums
                }
            };
            let pointer = list.pointer(checksums);
            if is_top { tops.push(pointer) } else { drop(pointers.insert(path, pointer)) }
        }
        tops.sort_by_key(|top: &ListRef| self.tops.iter().position(|path| *path == top.file.path));
        Ok((written, tops))
    }
}
