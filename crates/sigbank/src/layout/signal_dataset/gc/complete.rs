//! What is complete among what nothing names: see [`super::super::uncommitted`].

use super::super::annotations;
use super::super::objects::Objects;
use super::super::uncommitted::{Uncommitted, whole_annotations, whole_snapshot};
use super::reach::Reach;
use super::shape::OrphanKind;
use super::{Object, of_kind};
use crate::error::{Code, Result};
use crate::store::exists;
use crate::uri::RelPath;
use sigbank_format::model::json::Limits;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What is complete among the objects that nothing names, and the names of all that it consists of.
pub(super) fn complete(
    left: &HashMap<RelPath, Object>,
    objects: &Objects,
    reach: &mut Reach<'_>,
    limits: &Limits,
) -> Result<(Vec<Uncommitted>, HashSet<RelPath>)> {
    let there = |path: &RelPath| Ok(left.contains_key(path));
    let (mut found, mut names) = (Vec::new(), HashSet::new());
    for snapshot in of_kind(left, OrphanKind::Snapshot) {
        if let Some((what, all)) = whole_snapshot(objects, limits, &snapshot, &there, &reach.names)? {
            found.push(what);
            names.extend(all);
        }
    }
    let mut homes: BTreeMap<u64, Vec<RelPath>> = BTreeMap::new();
    for revision in of_kind(left, OrphanKind::AnnotationRevision) {
        homes.entry(annotations::home_of_revision(&revision).unwrap_or_default()).or_default().push(revision);
    }
    for (number, revisions) in homes {
        if !exists(&*objects.store, &annotations::catalog_path(number)?)? {
            if let Some((what, all)) = whole_annotations(objects, limits, number, &revisions, &there)? {
                found.push(what);
                names.extend(all);
            }
            continue;
        }
        // Where the version's document is gone, its annotations belong to it; else these are revisions of before.
        let current = annotations::current_revision(&*objects.store, number, limits).ok().flatten();
        if current.is_some_and(|current| revisions.contains(&current)) {
            match reach.annotations(number, &mut |path, _| names.extend([path])) {
                Err(e) if !matches!(e.code(), Code::Corrupt | Code::NotFound) => return Err(e),
                _ => {}
            }
        }
    }
    found.sort_unstable_by(|a, b| a.document.cmp(&b.document));
    Ok((found, names))
}
