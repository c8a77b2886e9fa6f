//! What time it is where the objects are: their ages are told by that clock, which may differ from the host's.

use super::Store;
use crate::error::{Code, Error, Result};
use crate::uri::RelPath;
use std::time::{Duration, SystemTime};

/// Where objects lie that are written to find something out about a store, each under a name of its own. None is there for longer than that
/// takes, but for those of killed writers.
pub(crate) const PROBES: &str = ".sigbank/probe";

/// What is there for no longer than a few requests take, as these and turns are, belongs to somebody who lives unless it is older than this, whatever
/// else counts as old.
pub(crate) const MOMENT: Duration = Duration::from_secs(3600);

/// A name for one that is used once.
pub(crate) fn probe() -> Result<RelPath> {
    RelPath::parse(PROBES)?.join(&uuid::Uuid::new_v4().simple().to_string())
}

/// The time by the store's clock, found by writing an object and deleting it again; `None` where nothing can be written, or the store does not
/// tell when anything was.
pub(crate) fn now(store: &dyn Store) -> Result<Option<SystemTime>> {
    let probe = probe()?;
    match store.create(&probe, &[b"when is now?\n"]) {
        Err(e) if matches!(e.code(), Code::ReadOnly | Code::Unsupported) => return Ok(None),
        done => done?,
    }
    let find = || -> Result<Option<SystemTime>> {
        let found = store.list(Some(&RelPath::parse(PROBES)?))?.find(|entry| entry.as_ref().map_or(true, |e| e.path == probe));
        let lost = || Error::storage("the listing does not show an object that was just written").at(store.locate(&probe));
        Ok(found.ok_or_else(lost)??.modified)
    };
    let found = find();
    let removed = store.delete(&probe);
    let found = found?;
    removed.map(|()| found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{LocalStore, MemoryStore};

    #[test]
    fn now_is_told_and_nothing_stays() {
        let dir = tempfile::tempdir().unwrap();
        let local = LocalStore::open(dir.path()).unwrap().private_dir(RelPath::parse(".sigbank/store").unwrap(), false);
        for store in [&MemoryStore::new() as &dyn Store, &local] {
            let apart = now(store).unwrap().unwrap().elapsed().unwrap_or_default();
            assert!(apart.as_secs() < 3600, "{apart:?}");
            assert_eq!(store.list(None).unwrap().count(), 0);
        }
    }
}
