//! Sets that no catalog names since its pointer was deleted.

use super::super::dataset::Dataset;
use super::super::uncommitted::{list_names, whole_annotations};
use super::documents::{Revision, SetRef};
use super::{catalog_path, home, home_of_revision, named_sets, sources_of};
use crate::error::{Code, Error, Result};
use crate::store::exists;

/// Takes the sets of the newest complete revision into a catalog whose pointer is not there, so that a new pointer does not hide them. Where the
/// store does not list, nothing is found.
///
/// # Errors
/// `AlreadyExists` where one of them has the name of the set that is published, and is another.
pub(super) fn adopt(dataset: &Dataset, revision: &mut Revision, name: &str, set: &SetRef) -> Result<()> {
    let (objects, limits, number) = (&dataset.inner().objects, &dataset.options().control, dataset.version_number());
    let store = &*objects.store;
    let listed = match list_names(store, &format!("{}annotations/catalogs", home(number))) {
        Err(e) if matches!(e.code(), Code::Unsupported | Code::Storage | Code::ReadOnly) => return Ok(()),
        listed => listed?,
    };
    let revisions: Vec<_> = listed.into_iter().filter(|path| home_of_revision(path) == Some(number)).collect();
    let Some((found, _)) = whole_annotations(objects, limits, number, &revisions, &|path| exists(store, path))? else {
        return Ok(());
    };
    let read = || Ok((sources_of(objects, &found.document, limits)?, named_sets(store, &found.document, limits)?));
    let (sources, sets) = match read() {
        // A gc deletes it.
        Err(e) if Error::code(&e) == Code::NotFound => return Ok(()),
        read => read?,
    };
    if sources.iter().any(|id| id != dataset.snapshot_id()) {
        return Ok(());
    }
    for (other, there) in sets {
        let there = SetRef(there);
        if other == name && there != *set {
            return Err(Error::already_exists(format!(
                "there is an annotation set '{name}' already, complete, and no catalog names it: {} was deleted, or its publication was killed",
                catalog_path(number)?
            ))
            .at(store.locate(&found.document))
            .remedy("put it back: sigbank check --repair; or give it up: sigbank gc --uncommitted"));
        }
        revision.sets.insert(other, there);
    }
    Ok(())
}
