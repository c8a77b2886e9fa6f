//! Merging new shards and lists into the tree, and making the result visible in one step.

use super::aside;
use super::claim;
use super::info::{SPLITS, known_split};
use super::journal::{self, Journal};
use super::lists::{LIST, ListRef, ShardInfo, ShardsList};
use super::progress;
use super::state::State;
use crate::error::{Code, Error, Result};
use crate::store::{Expected, Store, Version, lock};
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::checksum::{Algorithm, digest_all};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The lock that whoever changes the root holds.
pub(super) const ROOT_LOCK: &str = "root";
/// How long a commit waits for another one.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);
/// Entries that the topmost list of one worker's session has at most, as a rule; one that has more is of many workers.
const FEW: usize = 8;

/// What a commit adds.
#[derive(Debug, Clone, Default)]
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
pub(super) fn parent_list(path: &RelPath) -> Result<Option<RelPath>> {
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
    /// Lists that an info may stand for as they lie there now: their text is kept before they change.
    described: BTreeSet<RelPath>,
    /// Whether every list begins empty: what one session wrote, whatever is there.
    alone: bool,
    /// Whether nobody keeps others from changing lists: then each is remembered as it was read, or that nothing names it.
    unlocked: bool,
    read: BTreeMap<RelPath, Option<(Bytes, Version)>>,
}

impl<'a> Tree<'a> {
    fn new(store: &'a dyn Store, state: &'a State, alone: bool) -> Self {
        Self {
            store,
            state,
            lists: BTreeMap::new(),
            dirty: BTreeMap::new(),
            marked: BTreeSet::new(),
            described: BTreeSet::new(),
            alone,
            unlocked: !store.capabilities().locks,
            read: BTreeMap::new(),
        }
    }

    fn algorithms(&self) -> &'a [Algorithm] {
        &self.state.info.structure().algorithms
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
        let pointer = if self.alone { None } else { self.pointer(path)? };
        let list = match pointer {
            Some(pointer) if self.unlocked => {
                let (list, bytes, version) = self.state.list_versioned(self.store, &pointer)?;
                self.read.insert(path.clone(), Some((bytes, version)));
                list
            }
            Some(pointer) => self.state.list(self.store, &pointer)?,
            // What lies there without being named is a worker's that is not merged yet, or the remains of another program.
            None => {
                self.described.insert(path.clone());
                self.read.insert(path.clone(), None);
                ShardsList::new(path.clone())
            }
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

    /// Takes in what an info describes: the list and all below it, without what is there already.
    fn merge(&mut self, given: &ListRef, info: &mut super::Info) -> Result<()> {
        let path = &given.file.path;
        split_of(path)?;
        let now = self.pointer(path)?;
        let same = |p: &ListRef| p.file == given.file && p.examples == given.examples && p.shards == given.shards;
        if now.as_ref().is_some_and(same) {
            return Ok(());
        }
        let (bytes, in_place) = aside::find(self.store, self.algorithms(), &given.file)?;
        let list = ShardsList::parse(path, &bytes).map_err(|e| e.at(self.store.locate(path)))?;
        if (list.examples, list.count_shards()) != (given.examples, given.shards) {
            return Err(Error::corrupt(format!(
                "the list holds {} examples in {} shards, its info says {} in {}",
                list.examples,
                list.count_shards(),
                given.examples,
                given.shards
            ))
            .at(self.store.locate(path)));
        }
        if !self.lists.contains_key(path) {
            let replaced = match &now {
                Some(_) => match self.load(path) {
                    Ok(()) => false,
                    // Another program wrote a new list in the place of the one that is named.
                    Err(e) if in_place && e.code() == Code::Corrupt => true,
                    Err(e) => return Err(e),
                },
                None => true,
            };
            if replaced && in_place && self.whole(&list)? {
                self.described.insert(path.clone());
                let pointer = list.pointer(digest_all(self.algorithms(), &[&bytes]));
                self.lists.insert(path.clone(), list);
                return self.hang(pointer, info);
            }
        }
        self.described.insert(path.clone());
        let known: BTreeSet<RelPath> = self.list(path)?.shards.iter().filter_map(|s| s.path().ok().cloned()).collect();
        for shard in list.shards.iter().filter(|s| s.path().is_ok_and(|p| !known.contains(p))) {
            self.there(shard)?;
        }
        self.add(path, list.shards)?;
        list.children.iter().try_for_each(|child| {
            self.below(path, child)?;
            self.merge(child, info)
        })
    }

    /// Whether all lists below this one lie in their places as they are described. A shard that is gone is an error.
    fn whole(&self, list: &ShardsList) -> Result<bool> {
        list.shards.iter().try_for_each(|shard| self.there(shard))?;
        for child in &list.children {
            self.below(&list.path, child)?;
            let (bytes, in_place) = aside::find(self.store, self.algorithms(), &child.file)?;
            let path = &child.file.path;
            let below = ShardsList::parse(path, &bytes).map_err(|e| e.at(self.store.locate(path)))?;
            if !in_place || !self.whole(&below)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn there(&self, shard: &ShardInfo) -> Result<()> {
        shard.files.iter().try_for_each(|file| match self.store.head(&file.path) {
            Err(e) if e.code() == Code::NotFound => {
                Err(e.remedy("copy all that the worker wrote, then merge; nothing was changed"))
            }
            other => other.map(|_| ()),
        })
    }

    fn below(&self, list: &RelPath, child: &ListRef) -> Result<()> {
        if parent_list(&child.file.path)?.as_ref() == Some(list) {
            return Ok(());
        }
        Err(Error::corrupt(format!("children_shard_lists: '{}' does not lie in a directory of the list's", child.file.path))
            .at(self.store.locate(list)))
    }

    /// Keeps the text of lists that are about to be replaced and that an info may still stand for; gives what was written.
    fn keep_aside(&mut self, lists: &[(RelPath, Vec<u8>)]) -> Result<Vec<RelPath>> {
        let mut kept = Vec::new();
        for (path, new) in lists {
            let old = match self.read.get(path).filter(|_| self.unlocked) {
                Some(Some((old, _))) => old.clone(),
                // One that is there nevertheless is found when the new one is put down.
                Some(None) => continue,
                // A split's own list is no worker's.
                None if depth(path) <= 2 => continue,
                None => match self.store.get(path) {
                    Ok(old) => old,
                    Err(e) if e.code() != Code::NotFound => return Err(e),
                    _ => continue,
                },
            };
            if old != *new && depth(path) > 2 && (self.described.contains(path) || keeps_aside(path, &old)) {
                kept.extend(aside::keep(self.store, &digest_all(self.algorithms(), &[&old]), &old)?);
            }
        }
        Ok(kept)
    }

    fn known(self) -> claim::Known {
        self.read.into_iter().map(|(path, read)| (path, read.map(|(_, version)| version))).collect()
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

/// Whether a list may be what a worker's info stands for, by its place and its size.
pub(super) fn keeps_aside(path: &RelPath, text: &Bytes) -> bool {
    depth(path) > 2 && ShardsList::parse(path, text).is_ok_and(|l| l.children.len() + l.shards.len() <= FEW)
}

/// Runs `change` on the newest state while nobody else changes the root, where the store has locks; an unfinished commit is finished
/// first.
pub(super) fn exclusively<T>(
    store: &dyn Store,
    allow_newer: bool,
    durable: bool,
    change: impl FnOnce(&State) -> Result<T>,
) -> Result<T> {
    if !store.capabilities().locks {
        // Nobody is kept out; who changes the root does that by a claim.
        return change(&State::load(store, allow_newer, None)?);
    }
    let _guard = lock(store, ROOT_LOCK, PATIENCE)?;
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
    make: impl Fn(&State) -> Result<Changes>,
) -> Result<bool> {
    if !store.capabilities().locks {
        return claim::commit(store, allow_newer, &make);
    }
    exclusively(store, allow_newer, durable, |state| {
        let mut files = Vec::new();
        let changes = make(state)?;
        if durable {
            files.extend(changes.shards.iter().flat_map(|(_, s)| s).flat_map(|s| s.files.iter().map(|f| f.path.clone())));
        }
        let Some(Prepared { journal, kept, .. }) = prepare(store, state, changes)? else { return Ok(false) };
        if durable {
            files.extend(kept);
            store.flush(&files)?;
        }
        journal.write(store, durable)?;
        journal.apply(store, Expected::Version(&state.version), durable)?;
        Ok(true)
    })
}

/// A commit that is ready to be begun.
pub(super) struct Prepared {
    pub(super) journal: Journal,
    /// Objects that were written for it.
    kept: Vec<RelPath>,
    /// What is known of the lists' versions, on a store without locks.
    pub(super) known: claim::Known,
}

/// Works out what a change makes of the lists and the root; none where it makes nothing else of them.
pub(super) fn prepare(store: &dyn Store, state: &State, changes: Changes) -> Result<Option<Prepared>> {
    if changes.is_empty() {
        return Ok(None);
    }
    let mut tree = Tree::new(store, state, false);
    let mut info = changes.info.unwrap_or_else(|| state.info.clone());
    for (path, shards) in changes.shards {
        tree.add(&path, shards)?;
    }
    // A list before those below it, so that they are added to what it holds.
    let mut given: Vec<&ListRef> = changes.lists.iter().collect();
    given.sort_by_key(|list| depth(&list.file.path));
    given.into_iter().try_for_each(|list| tree.merge(list, &mut info).map_err(|e| e.within("updated_infos")))?;
    let lists = tree.finish(&mut info, None)?.lists;
    if info.to_bytes()? == state.root[..] {
        return Ok(None);
    }
    if lists.is_empty() && tree.unlocked {
        info.mark();
    }
    let kept = tree.keep_aside(&lists)?;
    Ok(Some(Prepared { journal: Journal::new(&state.root, info.to_bytes()?, lists)?, kept, known: tree.known() }))
}

/// Writes the lists of what one session wrote, which nothing names yet, and gives the pointers to the topmost: for a worker with
/// a path of its own up to `<split>/<own>/shards_list.json`, else those that hold the shards. They stand for exactly this
/// session, whatever others with the same path wrote: a list whose place is taken is kept aside.
pub(super) fn write_own(store: &dyn Store, own: Option<&RelPath>, durable: bool, shards: ShardsByList) -> Result<Vec<ListRef>> {
    let Some((first, _)) = shards.first() else { return Ok(Vec::new()) };
    let leaf = depth(first);
    exclusively(store, true, durable, |state| {
        let algorithms = &state.info.structure().algorithms;
        let ceiling = match own {
            // Without checksums nothing tells two lists of one name apart: those below it have names that are used once.
            Some(own) => depth(own) + if algorithms.is_empty() { 3 } else { 2 },
            None => leaf,
        };
        let mut tree = Tree::new(store, state, true);
        let mut files: Vec<RelPath> = Vec::new();
        for (path, shards) in shards {
            files.extend(shards.iter().flat_map(|s| s.files.iter().map(|f| f.path.clone())));
            tree.add(&path, shards)?;
        }
        let rendered = tree.finish(&mut state.info.clone(), Some(ceiling.min(leaf)))?;
        for (path, bytes) in rendered.lists {
            match store.create(&path, &[&bytes]) {
                Ok(()) => files.push(path),
                Err(e) if e.code() == Code::AlreadyExists && !algorithms.is_empty() => {
                    if store.get(&path)? != bytes {
                        files.extend(aside::keep(store, &digest_all(algorithms, &[&bytes]), &bytes)?);
                    }
                }
                Err(e) => return Err(e),
            }
        }
        if durable {
            store.flush(&files)?;
        }
        Ok(rendered.tops)
    })
}

/// Removes what workers with this path wrote and nothing names: all of it, for a path that is used once.
pub(super) fn discard(store: &dyn Store, own: &RelPath) -> Result<()> {
    let locks = store.capabilities().locks;
    if !locks {
        claim::recover(store)?;
    }
    exclusively(store, true, false, |state| {
        for split in SPLITS {
            let dir = RelPath::parse(split)?.join(own.as_str())?;
            if Tree::new(store, state, false).pointer(&dir.join(LIST)?)?.is_some() {
                continue;
            }
            store.delete_below(&dir)?;
        }
        let left = if locks { progress::dead_sessions(store, own.as_str())? } else { progress::left(store, own.as_str(), &[])? };
        left.into_iter().try_for_each(|(session, _)| session.end(store))
    })
}
