//! Merging new shards and lists into the tree, and making the result visible in one step.

use super::info::known_split;
use super::journal::{self, Journal};
use super::lists::{FileInfo, LIST, ListRef, ShardInfo, ShardsList};
use super::state::{State, compare};
use crate::error::{Code, Error, Result};
use crate::store::{Expected, Store, lock};
use crate::uri::RelPath;
use sigbank_format::checksum::digest_all;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The lock that whoever changes the root holds.
const ROOT_LOCK: &str = "root";
/// How long a commit waits for another one.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a commit adds.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// New shards, by the list that they go into, in order.
    pub(super) shards: ShardsByList,
    /// Lists that lie there already and are to be reached from the root.
    pub(super) lists: Vec<ListRef>,
    /// New `metadata` or `dataset_structure`.
    pub(super) info: Option<super::Info>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.lists.is_empty() && self.info.is_none() && self.shards.iter().all(|(_, s)| s.is_empty())
    }
}

fn depth(path: &RelPath) -> usize {
    path.components().count()
}

/// The split that a list belongs to.
fn split_of(path: &RelPath) -> Result<&str> {
    let split = path.components().next().unwrap_or("");
    known_split(split).map_err(|e| e.at(path))?;
    Ok(split)
}

/// The list one directory up; none for a split's own.
fn parent_list(path: &RelPath) -> Result<Option<RelPath>> {
    match path.parent().and_then(|dir| dir.parent()) {
        Some(up) => up.join(LIST).map(Some),
        None => Ok(None),
    }
}

/// The new bytes of every list that changes, deepest first, and the pointers to the topmost ones.
struct Rendered {
    lists: Vec<(RelPath, Vec<u8>)>,
    tops: Vec<ListRef>,
}

/// New shards, by the list that they go into.
pub(super) type ShardsByList = Vec<(RelPath, Vec<ShardInfo>)>;

/// The lists that a change touches, as they will be.
struct Tree<'a> {
    store: &'a dyn Store,
    state: &'a State,
    lists: BTreeMap<RelPath, ShardsList>,
    /// What is to be written: deepest first, then in the order it came, since that is the order of the records.
    dirty: BTreeMap<(Reverse<usize>, usize), RelPath>,
    marked: BTreeSet<RelPath>,
    /// Lists below this directory count although the root does not lead to them: a worker's own.
    own: Option<RelPath>,
}

impl<'a> Tree<'a> {
    fn new(store: &'a dyn Store, state: &'a State, own: Option<RelPath>) -> Self {
        Self { store, state, lists: BTreeMap::new(), dirty: BTreeMap::new(), marked: BTreeSet::new(), own }
    }

    /// The pointer by which the root leads to a list.
    fn pointer(&mut self, path: &RelPath) -> Result<Option<ListRef>> {
        Ok(match parent_list(path)? {
            None => self.state.info.split(split_of(path)?).cloned(),
            Some(parent) => {
                self.load(&parent)?;
                self.lists.get(&parent).and_then(|l| l.children.iter().find(|c| c.file.path == *path)).cloned()
            }
        })
    }

    fn load(&mut self, path: &RelPath) -> Result<()> {
        if self.lists.contains_key(path) {
            return Ok(());
        }
        let own = self.own.as_ref().is_some_and(|own| path.strip_prefix(own).is_some());
        let list = match self.pointer(path)? {
            Some(pointer) => self.state.list(self.store, &pointer)?,
            None if own => match self.store.get(path) {
                Ok(bytes) => ShardsList::parse(path, &bytes).map_err(|e| e.at(self.store.locate(path)))?,
                Err(e) if e.code() == Code::NotFound => ShardsList::new(path.clone()),
                Err(e) => return Err(e),
            },
            // What lies there without being named is the remains of a commit that did not happen.
            None => ShardsList::new(path.clone()),
        };
        self.lists.insert(path.clone(), list);
        Ok(())
    }

    fn list(&mut self, path: &RelPath) -> Result<&mut ShardsList> {
        self.load(path)?;
        self.lists.get_mut(path).ok_or_else(|| Error::not_found("a list").at(path))
    }

    fn mark(&mut self, path: &RelPath) {
        if self.marked.insert(path.clone()) {
            self.dirty.insert((Reverse(depth(path)), self.marked.len()), path.clone());
        }
    }

    /// Adds shards to a list; those that it holds already are left as they are.
    fn add(&mut self, path: &RelPath, shards: Vec<ShardInfo>) -> Result<()> {
        split_of(path)?;
        let list = self.list(path)?;
        let known: BTreeSet<RelPath> = list.shards.iter().filter_map(|s| s.path().ok().cloned()).collect();
        let before = list.shards.len();
        list.shards.extend(shards.into_iter().filter(|s| s.path().is_ok_and(|p| !known.contains(p))));
        if list.shards.len() > before {
            self.mark(path);
        }
        Ok(())
    }

    /// Hangs a pointer into the list above it, or the root.
    fn hang(&mut self, pointer: ListRef, info: &mut super::Info) -> Result<()> {
        match parent_list(&pointer.file.path)? {
            None => {
                let split = split_of(&pointer.file.path)?.to_owned();
                info.set_split(&split, pointer);
            }
            Some(parent) => {
                self.list(&parent)?.set_child(pointer);
                self.mark(&parent);
            }
        }
        Ok(())
    }

    /// Takes in a list that lies there already: its pointer is made anew from its bytes.
    fn adopt(&mut self, given: &ListRef, info: &mut super::Info) -> Result<()> {
        let path = &given.file.path;
        split_of(path)?;
        let bytes = self.store.get(path)?;
        let algorithms = &self.state.info.structure().algorithms;
        compare(algorithms, &given.file, &[&bytes]).map_err(|e| e.at(self.store.locate(path)).within("updated_infos"))?;
        let list = ShardsList::parse(path, &bytes).map_err(|e| e.at(self.store.locate(path)))?;
        let pointer = list.pointer(digest_all(algorithms, &[&bytes]));
        if self.pointer(path)?.is_some_and(|now| now.file == pointer.file) {
            return Ok(());
        }
        self.hang(pointer, info)
    }

    /// The new bytes of every list that changes, deepest first, up to (and with) `ceiling` or the root, and the pointers to
    /// the topmost ones.
    fn finish(&mut self, info: &mut super::Info, ceiling: Option<usize>) -> Result<Rendered> {
        let mut written = Vec::new();
        let mut tops = Vec::new();
        while let Some((_, path)) = self.dirty.pop_first() {
            let algorithms = &self.state.info.structure().algorithms;
            let list = self.list(&path)?;
            let bytes = list.render()?;
            let pointer = list.pointer(digest_all(algorithms, &[&bytes]));
            written.push((path.clone(), bytes));
            if ceiling == Some(depth(&path)) { tops.push(pointer) } else { self.hang(pointer, info)? }
        }
        Ok(Rendered { lists: written, tops })
    }
}

/// Runs `change` on the newest state while nobody else changes the root; an unfinished commit is finished first.
pub(super) fn exclusively<T>(
    store: &dyn Store,
    allow_newer: bool,
    durable: bool,
    change: impl FnOnce(&State) -> Result<T>,
) -> Result<T> {
    let _guard = if store.capabilities().locks { Some(lock(store, ROOT_LOCK, PATIENCE)?) } else { None };
    journal::recover(store, durable)?;
    change(&State::load(store, allow_newer, None)?)
}

/// Makes changes visible, all of them or none; says whether there were any.
///
/// # Errors
/// `Conflict` where a program that does not take the lock changed the root meanwhile; `Corrupt` where what is there does not
/// fit its checksums. The dataset is as before.
pub(super) fn commit(
    store: &dyn Store,
    allow_newer: bool,
    durable: bool,
    make: impl FnOnce(&State) -> Result<Changes>,
) -> Result<bool> {
    exclusively(store, allow_newer, durable, |state| {
        let changes = make(state)?;
        if changes.is_empty() {
            return Ok(false);
        }
        let mut tree = Tree::new(store, state, None);
        let mut info = changes.info.unwrap_or_else(|| state.info.clone());
        let files: Vec<RelPath> =
            changes.shards.iter().flat_map(|(_, s)| s).flat_map(|s| s.files.iter().map(|f| f.path.clone())).collect();
        for (path, shards) in changes.shards {
            tree.add(&path, shards)?;
        }
        for list in &changes.lists {
            tree.adopt(list, &mut info)?;
        }
        let lists = tree.finish(&mut info, None)?.lists;
        let root = info.to_bytes()?;
        let changed = root != state.root;
        if changed {
            if durable {
                store.flush(&files)?;
            }
            let journal = Journal::new(&state.root, root, lists)?;
            journal.write(store, durable)?;
            journal.apply(store, Expected::Version(&state.version), durable)?;
        }
        Ok(changed)
    })
}

/// Writes the lists of a worker with a path of its own, up to `<split>/<own>/shards_list.json`, which nothing names yet, and
/// gives the pointers to those. Where the root already leads to them the whole change is committed instead, since a list
/// that is named must not change under its readers.
pub(super) fn write_own(store: &dyn Store, own: &RelPath, durable: bool, shards: ShardsByList) -> Result<Vec<ListRef>> {
    exclusively(store, true, durable, |state| {
        let mut tops = Vec::new();
        let mut by_split: BTreeMap<String, ShardsByList> = BTreeMap::new();
        for (path, shards) in shards {
            by_split.entry(split_of(&path)?.to_owned()).or_default().push((path, shards));
        }
        let mut info = state.info.clone();
        let (mut lists, mut files) = (Vec::new(), Vec::new());
        for (split, shards) in by_split {
            let dir = RelPath::parse(&split)?.join(own.as_str())?;
            let top = dir.join(LIST)?;
            let published = Tree::new(store, state, None).pointer(&top)?.is_some();
            let mut tree = Tree::new(store, state, Some(dir));
            for (path, shards) in shards {
                files.extend(shards.iter().flat_map(|s| s.files.iter().map(|f: &FileInfo| f.path.clone())));
                tree.add(&path, shards)?;
            }
            let rendered = tree.finish(&mut info, if published { None } else { Some(depth(&top)) })?;
            if published {
                let list = tree.list(&top)?;
                let bytes = list.render()?;
                tops.push(list.pointer(digest_all(&state.info.structure().algorithms, &[&bytes])));
            }
            lists.extend(rendered.lists);
            tops.extend(rendered.tops);
        }
        if durable {
            store.flush(&files)?;
        }
        let root = info.to_bytes()?;
        if root == state.root {
            for (path, bytes) in &lists {
                store.replace(path, &[bytes], Expected::Any)?;
            }
        } else {
            let journal = Journal::new(&state.root, root, lists)?;
            journal.write(store, durable)?;
            journal.apply(store, Expected::Version(&state.version), durable)?;
        }
        Ok(tops)
    })
}
