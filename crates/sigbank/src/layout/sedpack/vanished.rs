//! Shards that were deleted before they were listed, as by a gc that was told that nobody writes any more.

use super::filler::Written;
use crate::error::{Code, Error, Result};
use crate::store::Store;
use crate::uri::RelPath;
use std::collections::HashSet;

impl Written {
    /// Leaves out shards that are gone: on a store without locks nothing keeps others from deleting them. It takes one listing a directory, which holds up to a
    /// thousand shards.
    ///
    /// # Errors
    /// `NotFound` names the first and says how many examples are lost; the others can be listed all the same.
    pub(super) fn leave_out_deleted(&mut self, store: &dyn Store) -> Result<()> {
        if store.capabilities().locks {
            return Ok(());
        }
        let (mut shards, mut examples, mut first) = (0u64, 0u64, None);
        for (list, of_list) in &mut self.shards {
            let names = |entries: crate::store::Listing<'_>| {
                entries.map(|entry| entry.map(|entry| entry.path)).collect::<Result<HashSet<RelPath>>>()
            };
            let there = store.list(list.parent().as_ref()).and_then(names).unwrap_or_default();
            // A listing may be behind, or not allowed.
            let gone = |path: &RelPath| !there.contains(path) && store.head(path).is_err_and(|e| e.code() == Code::NotFound);
            of_list.retain(|shard| {
                let gone = shard.files.iter().find(|file| gone(&file.path));
                if let Some(file) = gone {
                    (shards, examples) = (shards + 1, examples + shard.examples);
                    first.get_or_insert_with(|| store.locate(&file.path));
                }
                gone.is_none()
            });
        }
        self.shards.retain(|(_, of_list)| !of_list.is_empty());
        let Some(path) = first else { return Ok(()) };
        let text =
            format!("{shards} shards with {examples} examples were deleted while this writer was at work, and are not listed");
        Err(Error::not_found(text).at(path).remedy("write them again; sigbank gc --unpublished is for when nobody writes"))
    }
}
