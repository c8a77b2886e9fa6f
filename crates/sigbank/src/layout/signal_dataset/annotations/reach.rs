//! What annotation documents name, for [`gc`](super::super::gc).

use super::super::documents::Reference;
use super::super::objects::{Objects, absent, document};
use super::documents::{Pointer, SetRoot};
use super::{AnnotationShard, Place, catalog_path, identifier};
use crate::error::{Error, Result};
use crate::store::Store;
use crate::uri::RelPath;
use sigbank_format::model::json::Limits;
use std::collections::{BTreeMap, BTreeSet};

/// Whether a name may be a set's or a publication's.
pub(in super::super) fn is_identifier(name: &str) -> bool {
    identifier("name", name).is_ok()
}

/// The revision that a version's catalog points to; none where nothing is annotated.
pub(in super::super) fn current_revision(store: &dyn Store, number: u64, limits: &Limits) -> Result<Option<RelPath>> {
    let path = catalog_path(number)?;
    let bytes = match document(store, &path, limits) {
        Err(e) if absent(&e) => return Ok(None),
        bytes => bytes?,
    };
    let pointer = Pointer::parse(&bytes, limits).map_err(|e| Error::from(e).at(store.locate(&path)))?;
    Ok(Some(pointer.revision))
}

/// The roots of the sets that a revision names.
pub(in super::super) fn sets_of(store: &dyn Store, revision: &RelPath, limits: &Limits) -> Result<Vec<Reference>> {
    Ok(named_sets(store, revision, limits)?.into_values().collect())
}

/// The same by the names of the sets.
pub(in super::super) fn named_sets(
    store: &dyn Store,
    revision: &RelPath,
    limits: &Limits,
) -> Result<BTreeMap<String, Reference>> {
    Ok(super::revision(store, revision, limits)?.sets.into_iter().map(|(name, set)| (name, set.0)).collect())
}

/// The version whose revision of its catalog this is by its name; none for another name.
pub(in super::super) fn home_of_revision(path: &RelPath) -> Option<u64> {
    let all: Vec<&str> = path.components().collect();
    match all.as_slice() {
        ["annotations", "catalogs", _] => Some(0),
        ["sigbank", "versions", number, "annotations", "catalogs", _] => number.parse().ok(),
        _ => None,
    }
}

/// The pointer to a revision.
pub(in super::super) fn pointer_to(revision: &RelPath) -> Vec<u8> {
    Pointer { revision: revision.clone() }.to_bytes()
}

/// The objects of a set.
pub(in super::super) fn objects_of(objects: &Objects, set: &Reference, limits: &Limits) -> Result<Vec<RelPath>> {
    let inside = references_of(objects, set, limits)?.into_iter().filter_map(|object| match object.path {
        Place::Inside(path) => Some(path),
        Place::Elsewhere(_) => None,
    });
    Ok(inside.collect())
}

/// The snapshots that the sets of a revision are of.
pub(in super::super) fn sources_of(objects: &Objects, revision: &RelPath, limits: &Limits) -> Result<BTreeSet<String>> {
    let sets = sets_of(&*objects.store, revision, limits)?;
    sets.iter().map(|set| Ok(root_of(objects, set, limits)?.source_snapshot_id)).collect()
}

/// How a set names its objects.
pub(in super::super) fn references_of(objects: &Objects, set: &Reference, limits: &Limits) -> Result<Vec<Reference>> {
    Ok(root_of(objects, set, limits)?.shards.into_iter().map(|shard| shard.object).collect())
}

fn root_of(objects: &Objects, set: &Reference, limits: &Limits) -> Result<SetRoot> {
    let bytes = objects.document(set, limits)?;
    let root = SetRoot::parse(&bytes, limits).and_then(|root| root.verify(&bytes));
    root.map_err(|e| Error::from(e).at(objects.locate(&set.path)))
}

/// The object that a worker's pointer names.
pub(in super::super) fn pointed_to(store: &dyn Store, pointer: &RelPath, limits: &Limits) -> Result<RelPath> {
    let located = |e: Error| e.at(store.locate(pointer));
    let bytes = document(store, pointer, limits)?;
    let shard = AnnotationShard::parse(&bytes, limits).map_err(|e| located(e.into()))?;
    shard.object().map_err(|e| located(e.into()))
}
