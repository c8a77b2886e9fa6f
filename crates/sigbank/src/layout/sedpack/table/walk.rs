//! Walking the lists.

use crate::error::{Error, Result};
use crate::layout::sedpack::lists::{ListRef, ShardInfo, ShardsList, scan};
use crate::layout::sedpack::state::State;
use crate::store::Store;
use crate::uri::RelPath;
use bytes::Bytes;
use std::ops::Range;

/// A place among the shards of a split in stored order: a list's own, then its children's, depth first.
#[derive(Debug)]
pub(in super::super) struct Position {
    /// Pointers still to be followed, the next one last.
    pending: Vec<ListRef>,
    /// The list that was followed last, and the places of the entries in it that are still to come.
    text: Bytes,
    entries: std::vec::IntoIter<Range<usize>>,
    /// Shards still to be passed over.
    skip: u64,
    /// Whether lists are compared with all their checksums; one is enough to read by.
    all: bool,
}

impl Position {
    /// Before the `skip`-th shard; lists that lie wholly before it are not read.
    pub(in super::super) fn new(top: &ListRef, skip: u64) -> Self {
        Self { pending: vec![top.clone()], text: Bytes::new(), entries: Vec::new().into_iter(), skip, all: false }
    }

    /// The same, comparing each list with all its checksums.
    pub(in super::super) fn comparing_all(self) -> Self {
        Self { all: true, ..self }
    }

    /// The next shard's entry, a JSON object.
    pub(in super::super) fn next(&mut self, state: &State, store: &dyn Store) -> Result<Option<&str>> {
        loop {
            // Not past the end of the list.
            let passed = self.skip.min(self.entries.len() as u64);
            self.skip -= passed;
            if passed > 0 {
                self.entries.nth(passed as usize - 1);
            }
            if let Some(place) = self.entries.next() {
                let text = self.text.get(place).and_then(|text| std::str::from_utf8(text).ok());
                return text.map(Some).ok_or_else(|| Error::corrupt("shard_files: no text"));
            }
            let Some(pointer) = self.pending.pop() else { return Ok(None) };
            // One that says it is empty is passed over with others only: else nobody would notice that it is not.
            if self.skip > 0 && pointer.shards <= self.skip {
                self.skip -= pointer.shards;
                continue;
            }
            self.enter(state, store, &pointer)?;
        }
    }

    fn enter(&mut self, state: &State, store: &dyn Store, pointer: &ListRef) -> Result<()> {
        let path = &pointer.file.path;
        let located = |e: Error| e.at(store.locate(path));
        let mut text = state.list_text(store, pointer, self.all)?;
        let scanned = match scan::list(path, &text) {
            Some(scan::Scan { examples, shards, children }) => {
                let shards = shards.into_iter().map(|entry| entry.place).collect();
                scan::Scan { examples, shards, children }
            }
            None => {
                // It is damaged, or of a form that is not scanned: then the same is written anew.
                let list = ShardsList::parse(path, &text).map_err(located)?;
                let mut entries = String::new();
                let place = |shard: &ShardInfo| {
                    let start = entries.len();
                    entries.push_str(&shard.to_value().to_string());
                    start..entries.len()
                };
                let shards = list.shards.iter().map(place).collect();
                text = entries.into();
                scan::Scan { examples: list.examples, shards, children: list.children }
            }
        };
        pointer.agrees(scanned.examples, scanned.count_shards()).map_err(located)?;
        below(path, &scanned.children).map_err(located)?;
        self.pending.extend(scanned.children.into_iter().rev());
        self.entries = scanned.shards.into_iter();
        self.text = text;
        Ok(())
    }
}

/// A child lies below its parent: a list can therefore not lead back to itself.
pub(super) fn below(list: &RelPath, children: &[ListRef]) -> Result<()> {
    let dir = list.parent();
    let prefix = dir.as_ref().map_or("", RelPath::as_str);
    let inside = |child: &ListRef| {
        // Behind the directory and its slash: one more directory at least.
        let rest = child.file.path.as_str().strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/'));
        rest.is_some_and(|rest| rest.contains('/'))
    };
    match children.iter().find(|child| !inside(child)) {
        Some(child) => Err(Error::corrupt(format!("children_shard_lists: '{}' does not lie below the list", child.file.path))),
        None => Ok(()),
    }
}

/// The shards of a split as objects.
pub(in super::super) struct Walk<'a> {
    state: &'a State,
    store: &'a dyn Store,
    position: Position,
}

impl<'a> Walk<'a> {
    /// From the `skip`-th shard on; lists that lie wholly before it are not read.
    pub(in super::super) fn new(state: &'a State, store: &'a dyn Store, top: &ListRef, skip: u64) -> Self {
        Self { state, store, position: Position::new(top, skip) }
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<ShardInfo>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.position.next(self.state, self.store).transpose()?;
        Some(text.and_then(ShardInfo::from_text))
    }
}
