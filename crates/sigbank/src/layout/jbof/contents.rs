//! All files of a data set, for whoever moves it as a whole.

use super::describe::{each, threads};
use super::{ROOT, documents, is_array_extension, names, write};
use crate::error::{Code, Error, Result};
use crate::layout::contents::{Contents, Entrance, Object};
use crate::layout::{Layout, jbof::Dataset};
use crate::store::{Expected, LocalStore, Store};
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::checksum::{Algorithm, digest_all};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

/// What makes a data set importable in Python, beside its document the only file of the root that belongs to it.
const INIT: &str = "__init__.py";
/// Most bytes of the note of what is being deleted.
const NOTE: u64 = 64 << 20;

/// A file and its length.
type File = (RelPath, u64);

/// A folder as a store whose own files lie where readers of JBOF do not look; made where it is not there.
///
/// # Errors
/// `ReadOnly` or `Storage` where it cannot be made.
pub fn local_store(path: &Path) -> Result<LocalStore> {
    write::private(LocalStore::create(path)?)
}

/// The files of a data set, which has to be listed: all that lie directly in items (litter of operating systems excepted), and of the root
/// what belongs to it. Data files first, then what makes them arrays, and items; documents have digests.
pub(in crate::layout) fn contents(store: &Arc<dyn Store>) -> Result<Contents> {
    Dataset::open_store(Arc::clone(store))?;
    let root = documents::text(&**store, &RelPath::parse(ROOT)?)?;
    let mut all = Contents::new(Layout::Jbof);
    let (files, _) = files(&**store, &HashSet::new())?;
    let (documents, data): (Vec<_>, Vec<_>) = files.into_iter().partition(|(path, _)| path.file_name().ends_with(".json"));
    let mut documents = documents;
    documents.sort_by_key(|(path, _)| std::cmp::Reverse(rank(path)));
    let object = |(path, size): File| Object { path, size: Some(size), digests: Vec::new(), bytes: None };
    all.objects.extend(data.into_iter().map(object));
    let afar = store.capabilities().round_trip > 0;
    let mut read: Vec<Option<Bytes>> = vec![None; documents.len()];
    let one = |at: usize| match documents.get(at).map(|(path, _)| documents::text(&**store, path)).transpose() {
        // Deleted just now.
        Err(e) if e.code() == Code::NotFound => Ok(None),
        text => text,
    };
    each(documents.len(), threads(0, afar), one, &mut |at, text| {
        if let Some(slot) = read.get_mut(at) {
            *slot = text;
        }
        true
    })?;
    for ((path, _), text) in documents.into_iter().zip(read) {
        let Some(text) = text else { continue };
        let digest = digest_all(&[Algorithm::Sha256], &[&text]).concat();
        all.document(path, &text, vec![(Algorithm::Sha256, digest)]);
    }
    all.entrance(ROOT, root)?;
    Ok(all)
}

/// The files that belong to items and to the root, without the root's document, sorted; and those that a deletion which was begun left in
/// the directories of these items.
fn files(store: &dyn Store, deleting: &HashSet<String>) -> Result<(Vec<File>, Vec<File>)> {
    let (mut files, mut items) = (Vec::new(), HashSet::new());
    for entry in store.list(None)? {
        let entry = entry?;
        let belongs = match entry.path.as_str().split_once('/') {
            None => entry.path.as_str() == INIT,
            Some((item, file)) if file == ROOT => !names::is_hidden(item) && items.insert(item.to_owned()),
            Some((item, file)) => !names::is_hidden(item) && !file.contains('/') && !names::is_litter(file),
        };
        if belongs {
            files.push((entry.path, entry.size));
        }
    }
    files.sort_unstable();
    let item = |path: &RelPath| path.as_str().split_once('/').map(|(item, _)| item.to_owned());
    // A directory without a document is no item.
    let (files, rest): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(path, _)| item(path).is_none_or(|item| items.contains(&item)));
    Ok((files, rest.into_iter().filter(|(path, _)| item(path).is_some_and(|item| deleting.contains(&item))).collect()))
}

/// What a copy has that its source has not, see [`beyond`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beyond {
    /// Files of items and arrays that the source does not have, documents before what they name.
    pub gone: Vec<RelPath>,
    /// Data files of arrays that have another file at the source, and what a deletion that was begun left: they go in any case.
    pub stale: Vec<RelPath>,
    /// The items that a deletion which was begun was to take away.
    pub deleting: BTreeSet<String>,
}

/// Where it stands which items are being deleted from a copy: without their documents they are none, and nothing else would tell what is left.
fn note() -> Result<RelPath> {
    RelPath::parse(names::SKIPPED)?.join("sigbank/sync-deletes.json")
}

/// Looks for what a copy of `newer` in `store` has and `newer` has not.
///
/// # Errors
/// `Conflict` where `store` has items, none of which is one of `newer`: it is another data set. Those of the store.
pub fn beyond(newer: &Contents, store: &dyn Store) -> Result<Beyond> {
    let deleting: BTreeSet<String> = match store.get_at_most(&note()?, NOTE) {
        Err(e) if e.code() == Code::NotFound => BTreeSet::new(),
        text => serde_json::from_slice(&text?).unwrap_or_default(),
    };
    let (there, left) = files(store, &deleting.iter().cloned().collect())?;
    let known: HashSet<&str> = newer.objects.iter().chain(&newer.documents).map(|object| object.path.as_str()).collect();
    let mut items = there.iter().filter(|(path, _)| is_item(path)).peekable();
    if items.peek().is_some() && !items.any(|(path, _)| known.contains(path.as_str())) {
        return Err(Error::conflict("it has items, but none of the source's: it is another data set")
            .at(store.location())
            .remedy("choose another destination; if it is this data set, whose items were all replaced, delete the copy first"));
    }
    let arrays: HashSet<&str> = newer.objects.iter().filter_map(|object| array(&object.path)).collect();
    let mut beyond = Beyond { deleting, ..Beyond::default() };
    for (path, _) in there.into_iter().filter(|(path, _)| !known.contains(path.as_str())) {
        let replaced = array(&path).is_some_and(|name| arrays.contains(name) && known.contains(&*format!("{name}.json")));
        if replaced { &mut beyond.stale } else { &mut beyond.gone }.push(path);
    }
    beyond.stale.extend(left.into_iter().map(|(path, _)| path).filter(|path| !known.contains(path.as_str())));
    beyond.gone.sort_by_key(rank);
    beyond.stale.sort_by_key(rank);
    Ok(beyond)
}

/// The item and the name of an array, of the path of its data file.
fn array(path: &RelPath) -> Option<&str> {
    let (stem, extension) = path.as_str().rsplit_once('.')?;
    (stem.contains('/') && is_array_extension(extension)).then_some(stem)
}

fn is_item(path: &RelPath) -> bool {
    path.as_str().split_once('/').is_some_and(|(_, file)| file == ROOT)
}

/// In which order documents and data are deleted: an item, its arrays, their data. The other way round they appear.
pub fn rank(path: &RelPath) -> u8 {
    match path.file_name() {
        ROOT => 0,
        name if name.ends_with(".json") => 1,
        _ => 2,
    }
}

/// Notes which items are about to be deleted from a copy, beside those of a deletion that was begun.
///
/// # Errors
/// Those of the store.
pub fn begin_deletes(store: &dyn Store, files: &[RelPath], begun: &BTreeSet<String>) -> Result<()> {
    let items = files.iter().filter(|path| is_item(path)).filter_map(|path| path.parent()).map(|item| item.as_str().to_owned());
    let all: BTreeSet<String> = items.chain(begun.iter().cloned()).collect();
    if all == *begun {
        return Ok(());
    }
    let text = serde_json::to_vec(&all).map_err(|e| Error::invalid(e.to_string()))?;
    store.replace(&note()?, &[&text], Expected::Any).map(drop)
}

/// Ends what [`begin_deletes`] began: takes away the note, and the directories of items that are empty now.
///
/// # Errors
/// Those of the store.
pub fn end_deletes(store: &dyn Store, files: &[RelPath], begun: &BTreeSet<String>) -> Result<()> {
    let items = files.iter().filter(|path| is_item(path)).filter_map(RelPath::parent);
    let items: BTreeSet<RelPath> = items.chain(begun.iter().filter_map(|item| names::item(item).ok())).collect();
    // Where there are no directories, nothing is left of them.
    for item in items.iter().filter(|_| store.capabilities().round_trip == 0) {
        if store.list(Some(item))?.next().is_none() {
            store.delete_below(item)?;
        }
    }
    if items.is_empty() { Ok(()) } else { store.delete(&note()?) }
}

/// The root's document where a copy of `newer` in `store` has another one; the copy has a root already.
///
/// # Errors
/// Those of the store.
pub fn missing_entrances(newer: &Contents, store: &Arc<dyn Store>) -> Result<Vec<Entrance>> {
    let mut missing = Vec::new();
    for entrance in &newer.entrances {
        let (there, version) = store.get_versioned(&entrance.path)?;
        if there != entrance.bytes {
            missing.push(Entrance { replaces: Some(version), ..entrance.clone() });
        }
    }
    Ok(missing)
}
