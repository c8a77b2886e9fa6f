//! The index where it is kept.

use super::INDEX;
use crate::error::{Error, Result};
use crate::layout::jbof::Dataset;
use crate::query::Table;
use crate::store::Expected;
use crate::uri::RelPath;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file that nobody finished after so long is a killed writer's.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Most bytes of an index that are taken from a bucket.
const MOST: u64 = 4 << 30;

pub(super) fn index() -> Result<RelPath> {
    RelPath::parse(INDEX)
}

/// Opens the index of a data set.
pub(super) fn open(dataset: &Dataset) -> Result<Table> {
    match dataset.local_root() {
        Some(root) => Table::open(&root.join(INDEX)),
        None => Table::of_bytes(dataset.store().get_at_most(&index()?, MOST)?, &dataset.store().locate(&index()?)),
    }
}

/// Keeps a table as the index; `root` tells whether the data set is the same as a whole, as long as nothing had to be made in it. Gives the place.
pub(super) fn save(table: &Table, layout: &str, dataset: &Dataset, root: Option<u128>) -> Result<PathBuf> {
    let Some(folder) = dataset.local_root() else {
        let store = dataset.store();
        if store.capabilities().round_trip == 0 {
            return Err(Error::unsupported("an index is kept beside data sets in folders and buckets only").at(store.location()));
        }
        store.replace(&index()?, &[&table.to_bytes(layout, root.unwrap_or(0))?], Expected::Any)?;
        return Ok(store.locate(&index()?).into());
    };
    let path = folder.join(INDEX);
    let made = place(folder)?;
    // A directory that had to be made shows in the root; what else came meanwhile would not be told from it.
    let root = root.filter(|_| !made);
    table.save_with(&path, layout, root.unwrap_or(0)).map_err(|e| match path.is_dir() {
        true => e.at(path.display()).remedy("remove this folder: the index is kept as a file of that name"),
        false => e.at(path.display()),
    })?;
    sweep(&path);
    Ok(path)
}

/// Removes what killed writers of the index left beside it.
fn sweep(path: &Path) {
    let Some((dir, name)) = path.parent().zip(path.file_name().and_then(|name| name.to_str())) else { return };
    let left = format!(".{name}.");
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|found| found.modified()).ok().and_then(|time| time.elapsed().ok());
        if entry.file_name().to_string_lossy().starts_with(&left) && age.is_some_and(|age| age > ABANDONED) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Makes the directories of the index; whether they were not there.
fn place(root: &Path) -> Result<bool> {
    let mut made = false;
    // Not the root: it may be deleted at this moment.
    for dir in ["__pycache__", "__pycache__/sigbank"].map(|dir| root.join(dir)) {
        let located = |e: std::io::Error| Error::from(e).at(dir.display());
        match std::fs::create_dir(&dir) {
            Ok(()) => made = true,
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(located(e)),
            Err(_) if std::fs::symlink_metadata(&dir).map_err(located)?.is_dir() => {}
            Err(_) => {
                let what = "this is no directory, so that no index can be kept in it";
                return Err(Error::storage(what).at(dir.display()).remedy("remove it: nobody needs what is in it"));
            }
        }
    }
    Ok(made)
}
