//! All that the root leads to, and a root that was made elsewhere in the place of an older one.

use super::aside;
use super::claim;
use super::commit::{exclusively, keeps_aside};
use super::journal::Journal;
use super::lists::{FileInfo, ListRef, ShardsList};
use super::state::State;
use super::{Dataset, OpenOptions, ROOT};
use crate::error::{Code, Error, Result};
use crate::layout::Layout;
use crate::layout::contents::{Contents, Object};
use crate::store::{Expected, LocalStore, Store};
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::checksum::{Algorithm, digest_all};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

impl Dataset {
    /// All objects of the newest state, see [`crate::layout::contents`].
    ///
    /// # Errors
    /// `Corrupt` or `NotFound` for a list that is not as it is named.
    pub fn contents(&self) -> Result<Contents> {
        self.with_state(|state| contents(state, self.store()))
    }
}

/// As [`Dataset::contents`], after a commit that a killed writer left unfinished is finished.
///
/// # Errors
/// Those of [`Dataset::contents`], and of writing.
pub fn recovered_contents(store: &Arc<dyn Store>) -> Result<Contents> {
    let dataset = Dataset::open_store(Arc::clone(store), OpenOptions { allow_newer: true })?;
    match dataset.recover() {
        // Who may only read sees a begun commit as done; and is told by S3 that a journal that is not there must not be read.
        Err(e) if matches!(e.code(), Code::ReadOnly | Code::Storage) => dataset.set_state(dataset.newest()?),
        recovered => {
            recovered?;
            dataset.refresh()?;
        }
    }
    dataset.contents()
}

/// A folder as a store whose writers keep those of Sedpack datasets out, and the other way round; made where it is not there.
///
/// # Errors
/// `ReadOnly` or `Storage` where it cannot be made.
pub fn local_store(path: &Path) -> Result<LocalStore> {
    super::local(LocalStore::create(path)?)
}

fn known(algorithms: &[Algorithm], file: &FileInfo) -> Vec<(Algorithm, String)> {
    algorithms.iter().copied().zip(file.checksums.iter().cloned()).collect()
}

fn contents(state: &State, store: &dyn Store) -> Result<Contents> {
    let algorithms = &state.info.structure().algorithms;
    let mut all = Contents::new(Layout::Sedpack);
    let mut seen = HashSet::new();
    let mut left: Vec<ListRef> = state.info.splits().iter().rev().map(|(_, top)| top.clone()).collect();
    while let Some(pointer) = left.pop() {
        let path = &pointer.file.path;
        let located = |e: Error| e.at(store.locate(path));
        if !seen.insert(path.clone()) {
            return Err(located(Error::corrupt("two lists name it, or it names itself")));
        }
        let bytes = state.list_text(store, &pointer, true)?;
        let list = ShardsList::parse(path, &bytes).map_err(located)?;
        pointer.agrees(list.examples, list.count_shards()).map_err(located)?;
        for file in list.shards.iter().flat_map(|shard| &shard.files) {
            if seen.insert(file.path.clone()) {
                let digests = known(algorithms, file);
                all.objects.push(Object { path: file.path.clone(), size: None, digests, bytes: None });
            }
        }
        all.document(path.clone(), &bytes, known(algorithms, &pointer.file));
        left.extend(list.children.into_iter().rev());
    }
    all.entrance(ROOT, state.root.clone())?;
    Ok(all)
}

/// Checks that a dataset holds nothing that another one of the same origin, `newer`, does not hold too, so that the newer one's root
/// can take the place of its own: gives the lists that change then.
///
/// # Errors
/// `Conflict` names the first shard that only the older one has, or another structure.
pub fn succession(older: &Contents, newer: &Contents) -> Result<Vec<Object>> {
    let structure = |contents: &Contents| Ok::<_, Error>(super::Info::parse(&contents.root(), true)?.structure_object());
    if structure(older)?.get("saved_data_description") != structure(newer)?.get("saved_data_description") {
        return Err(Error::conflict("it is another dataset: its attributes are not those of the source"));
    }
    let by_path = |objects: &[Object]| -> HashMap<RelPath, Option<String>> {
        objects.iter().map(|object| (object.path.clone(), object.digest())).collect()
    };
    let there = by_path(&newer.objects);
    for object in &older.objects {
        match there.get(&object.path) {
            Some(digest) if *digest == object.digest() => {}
            found => {
                let what =
                    if found.is_some() { "a shard of other bytes than the source's" } else { "a shard that the source has not" };
                return Err(Error::conflict(format!("it holds {what}, '{}'", object.path)));
            }
        }
    }
    let lists = by_path(&older.documents);
    let same = |list: &&Object| lists.get(&list.path).is_some_and(|digest| digest.is_some() && *digest == list.digest());
    Ok(newer.documents.iter().filter(|list| !same(list)).cloned().collect())
}

/// Puts a root that was made elsewhere in the place of `old_root`, with the lists that change, in one commit. Shards that it names
/// must be there, and survive a power failure.
///
/// # Errors
/// `Conflict` where the root is another one by now.
pub fn succeed(store: &dyn Store, old_root: &[u8], root: &Bytes, lists: Vec<(RelPath, Bytes)>) -> Result<()> {
    let journal = Journal::new(old_root, root.to_vec(), lists.into_iter().map(|(path, bytes)| (path, bytes.to_vec())).collect())?;
    let moved_on = || {
        Error::conflict("another writer has changed the dataset meanwhile")
            .at(store.location())
            .remedy("run it again: it looks at what is there now")
    };
    if !store.capabilities().locks {
        return if claim::carry_through(store, old_root, &journal)? { Ok(()) } else { Err(moved_on()) };
    }
    exclusively(store, true, true, |state| {
        if state.root == *root {
            return Ok(());
        }
        if state.root != old_root {
            return Err(moved_on());
        }
        // A worker's info may stand for a list as it lies there now.
        for (path, new) in &journal.lists {
            match store.get(path) {
                Ok(old) if old != *new && keeps_aside(path, &old) => {
                    let kept = aside::keep(store, &digest_all(&state.info.structure().algorithms, &[&old]), &old)?;
                    store.flush(&kept.into_iter().collect::<Vec<_>>())?;
                }
                Err(e) if e.code() != Code::NotFound => return Err(e),
                _ => {}
            }
        }
        journal.write(store, true)?;
        journal.apply(store, Expected::Version(&state.version), true)
    })
}
