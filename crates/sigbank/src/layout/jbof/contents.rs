//! All files of a data set, for whoever moves it as a whole.

use super::describe::{each, threads};
use super::{ROOT, documents, names, write};
use crate::error::{Code, Error, Result};
use crate::layout::contents::{Contents, Entrance, Object};
use crate::layout::{Layout, jbof::Dataset};
use crate::store::{LocalStore, Store};
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::checksum::{Algorithm, digest_all};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// What makes a data set importable in Python, beside its document the only file of the root that belongs to it.
const INIT: &str = "__init__.py";

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
    let files = files(&**store)?;
    let (documents, data): (Vec<_>, Vec<_>) = files.into_iter().partition(|(path, _)| path.file_name().ends_with(".json"));
    let object = |(path, size): (RelPath, u64)| Object { path, size: Some(size), digests: Vec::new(), bytes: None };
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

/// The files that belong to items and to the root, without the root's document, sorted.
fn files(store: &dyn Store) -> Result<Vec<(RelPath, u64)>> {
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
    // A directory without a document is no item.
    files.retain(|(path, _)| path.as_str().split_once('/').is_none_or(|(item, _)| items.contains(item)));
    files.sort_unstable();
    Ok(files)
}

/// The root's document where a copy of `newer` in `store` has another one; the copy has a root already.
///
/// # Errors
/// `Conflict` where the copy has a file that `newer` has not.
pub fn missing_entrances(newer: &Contents, store: &Arc<dyn Store>) -> Result<Vec<Entrance>> {
    let known: HashSet<&RelPath> = newer.objects.iter().chain(&newer.documents).map(|object| &object.path).collect();
    if let Some((path, _)) = files(&**store)?.iter().find(|(path, _)| !known.contains(path)) {
        let what = format!("it has '{path}', which the source has not: nothing is deleted where a data set is brought forward");
        let remedy = "if it was deleted at the source, delete it here too; else copy to another place";
        return Err(Error::conflict(what).at(store.location()).remedy(remedy));
    }
    let mut missing = Vec::new();
    for entrance in &newer.entrances {
        let (there, version) = store.get_versioned(&entrance.path)?;
        if there != entrance.bytes {
            missing.push(Entrance { replaces: Some(version), ..entrance.clone() });
        }
    }
    Ok(missing)
}
