//! Which directories are data sets, and which only look like one.

use super::documents::{self, FILENAME, ITEMFORMAT, KEPT};
use super::{ROOT, names};
use crate::error::{Code, Error, Result};
use crate::store::{DirEntry, Store, exists};
use crate::uri::RelPath;
use std::path::Path;

/// Most names of a directory that a message lists, and most directories that are looked into for it.
const NAMED: usize = 3;
const LOOKED: usize = 100;

/// Whether a store's root is a data set: its document has `_itemformat`, as every writer leaves it, or is beside a directory that has a document of
/// its own. (An item's directory has a document without either.) The second costs a listing.
pub(crate) fn is_data_set(store: &dyn Store) -> Result<bool> {
    let path = RelPath::parse(ROOT)?;
    if !exists(store, &path)? {
        return Ok(false);
    }
    let document = documents::read(store, &path);
    Ok(match document {
        Ok(document) if document.contains_key(ITEMFORMAT) => true,
        Err(e) if !matches!(e.code(), Code::Corrupt | Code::Limit) => return Err(e),
        // Old, or damaged.
        _ => !item_like(store)?.is_empty(),
    })
}

/// A few directories that have a document.
fn item_like(store: &dyn Store) -> Result<Vec<RelPath>> {
    let dirs = store.list_dir(None)?.into_iter().filter_map(|entry| match entry {
        DirEntry::Dir(path) if !names::is_hidden(path.as_str()) => Some(path),
        _ => None,
    });
    let mut found = Vec::new();
    for dir in dirs.take(LOOKED) {
        if exists(store, &dir.join(ROOT)?)? {
            found.push(dir);
        }
        if found.len() == NAMED {
            break;
        }
    }
    Ok(found)
}

/// What a folder of no known layout has to do with JBOF, and what to do then: it is an item, holds data sets, or has lost its document.
pub(in crate::layout) fn near_miss(store: &dyn Store) -> Result<Option<Error>> {
    let root = RelPath::parse(ROOT)?;
    if exists(store, &root)? {
        let arrays = store.list_dir(None)?.into_iter().any(|entry| match entry {
            DirEntry::Object(entry) if entry.path.file_name().ends_with(".json") && entry.path != root => {
                documents::read(store, &entry.path).is_ok_and(|document| document.contains_key(FILENAME))
            }
            _ => false,
        });
        let parent = Path::new(&store.location()).parent().map(|path| path.display().to_string()).unwrap_or_default();
        return Ok(arrays.then(|| {
            Error::unsupported("this is an item of a JBOF data set, not a data set")
                .remedy(format!("open the folder that it lies in: {parent}"))
        }));
    }
    let items = item_like(store)?;
    let Some(first) = items.first() else { return Ok(None) };
    let shown: Vec<_> = items.iter().map(RelPath::as_str).collect();
    let shown = shown.join(", ");
    let inner = documents::read(store, &first.join(ROOT)?).is_ok_and(|document| document.contains_key(ITEMFORMAT));
    Ok(Some(match inner {
        true => Error::unsupported(format!("JBOF data sets lie in this folder ({shown}), which is none itself"))
            .remedy("open one of them"),
        false => Error::unsupported(format!(
            "folders in it look like items of a JBOF data set ({shown}), but its own document, {ROOT}, is missing"
        ))
        .remedy(format!("if it is one, make it whole: write {{\"{ITEMFORMAT}\": null}} to {ROOT}")),
    }))
}

/// Refuses names that no item and no array can have.
pub(crate) fn check_names(item: &str, array: &str) -> Result<()> {
    names::item(item)?;
    names::array(array)
}

/// Whether a key is one that the layout keeps for itself.
pub(crate) fn is_own_key(key: &str) -> bool {
    [ITEMFORMAT, FILENAME, KEPT].contains(&key)
}
