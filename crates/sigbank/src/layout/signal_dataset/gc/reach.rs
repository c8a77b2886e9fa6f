//! What is reached from the entrances of a dataset. Whatever cannot be read ends the search with an error: nothing is garbage
//! because a document was damaged.

use super::super::annotations;
use super::super::documents::{Page, Place, Root, Snapshot};
use super::super::objects::{Objects, document};
use super::super::versions::{self, Version};
use crate::error::{Code, Error, Result};
use crate::uri::RelPath;
use serde_json::Value;
use sigbank_format::model::json::{Json, Limits};
use std::collections::HashSet;

/// Hears of an object that is named, and whether it must be there.
pub(super) type Mark<'a> = dyn FnMut(RelPath, bool) + 'a;

/// Follows references, and tells of each object that is reached.
pub(super) struct Reach<'a> {
    objects: &'a Objects,
    limits: &'a Limits,
    /// Documents that were followed.
    seen: HashSet<RelPath>,
    /// Names of versions that were reached.
    pub(super) names: HashSet<String>,
}

impl<'a> Reach<'a> {
    pub(super) fn new(objects: &'a Objects, limits: &'a Limits) -> Self {
        Self { objects, limits, seen: HashSet::new(), names: HashSet::new() }
    }

    /// What `root.json` leads to; whether there is one.
    pub(super) fn root(&mut self, mark: &mut Mark<'_>) -> Result<bool> {
        let path = RelPath::parse(super::super::ROOT)?;
        let bytes = match document(&*self.objects.store, &path, self.limits) {
            Err(e) if e.code() == Code::NotFound => return Ok(false),
            bytes => bytes?,
        };
        let root = Root::parse(&bytes, self.limits).map_err(|e| e.at(self.objects.store.locate(&path)))?;
        self.snapshot(&root.snapshot, mark).map(|()| true)
    }

    /// What a further version leads to.
    pub(super) fn version(&mut self, path: &RelPath, mark: &mut Mark<'_>) -> Result<()> {
        let bytes = document(&*self.objects.store, path, self.limits)?;
        let number = versions::number(path).unwrap_or_default();
        let version = Version::parse(&bytes, self.limits, number).map_err(|e| e.at(self.objects.store.locate(path)))?;
        self.names.insert(version.name);
        self.snapshot(&version.snapshot, mark)
    }

    fn snapshot(&mut self, named: &super::super::Reference, mark: &mut Mark<'_>) -> Result<()> {
        self.place(&named.path, mark);
        let bytes = self.objects.document(named, self.limits)?;
        let snapshot = Snapshot::parse(&bytes, self.limits).map_err(|e| e.at(self.objects.locate(&named.path)))?;
        for page in &snapshot.manifests {
            // Versions share pages.
            if let Place::Inside(path) = &page.object.path
                && !self.seen.insert(path.clone())
            {
                continue;
            }
            self.place(&page.object.path, mark);
            let bytes = self.objects.document(&page.object, self.limits)?;
            let found = Page::parse(&bytes, self.limits, page).map_err(|e| e.at(self.objects.locate(&page.object.path)))?;
            for shard in &found.shards {
                self.place(&shard.data.path, mark);
                self.place(&shard.metadata.path, mark);
            }
        }
        Ok(())
    }

    /// What the current revision of a version's annotation catalog leads to; none where there is no catalog.
    pub(super) fn annotations(&mut self, number: u64, mark: &mut Mark<'_>) -> Result<()> {
        match annotations::current_revision(&*self.objects.store, number, self.limits)? {
            Some(revision) => {
                mark(annotations::catalog_path(number)?, false);
                self.revision(&revision, true, mark)
            }
            None => Ok(()),
        }
    }

    /// What a revision leads to. One that is no longer the current one may name sets that are gone.
    pub(super) fn revision(&mut self, revision: &RelPath, current: bool, mark: &mut Mark<'_>) -> Result<()> {
        mark(revision.clone(), current);
        for set in annotations::sets_of(&*self.objects.store, revision, self.limits)? {
            match annotations::objects_of(self.objects, &set, self.limits) {
                Err(e) if e.code() == Code::NotFound && !current => continue,
                found => found?.into_iter().for_each(|path| mark(path, current)),
            }
            self.place(&set.path, mark);
        }
        Ok(())
    }

    /// The object that a worker's pointer names.
    pub(super) fn pointer(&self, path: &RelPath) -> Result<RelPath> {
        annotations::pointed_to(&*self.objects.store, path, self.limits)
    }

    /// What a document that nothing names yet is going to lead to: every member `path` in it.
    pub(super) fn unpublished(&mut self, path: &RelPath, mark: &mut Mark<'_>) -> Result<()> {
        if !self.seen.insert(path.clone()) {
            return Ok(());
        }
        let bytes = match document(&*self.objects.store, path, self.limits) {
            Err(e) if e.code() == Code::NotFound => return Ok(()), // Deleted meanwhile.
            bytes => bytes?,
        };
        let read = Json::parse(&bytes, self.limits).and_then(|json| json.to_value());
        let value = read.map_err(|e| {
            Error::from(e).at(self.objects.store.locate(path)).remedy("it is younger than the age: wait, or remove it by hand")
        })?;
        let mut left = vec![&value];
        while let Some(next) = left.pop() {
            match next {
                Value::Array(items) => left.extend(items),
                Value::Object(members) => left.extend(members.values()),
                _ => {}
            }
            if let Some(place) = next.get("path").and_then(Value::as_str).and_then(|text| Place::parse(text).ok()) {
                self.place(&place, mark);
            }
        }
        Ok(())
    }

    /// The object at a place. A place elsewhere may be within this very dataset: where it may be, it is taken for that.
    fn place(&self, place: &Place, mark: &mut Mark<'_>) {
        let text = match place {
            Place::Inside(path) => return mark(path.clone(), true),
            Place::Elsewhere(text) => text,
        };
        let found = ["/objects/", "/manifests/", "/snapshots/"].into_iter().filter_map(|part| text.rfind(part));
        found.filter_map(|at| RelPath::parse(text.get(at + 1..)?).ok()).for_each(|path| mark(path, false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;
    use std::sync::Arc;

    #[test]
    fn a_place_elsewhere_may_be_this_dataset() {
        let (objects, limits) = (Objects::new(Arc::new(MemoryStore::new())), Limits::default());
        let reach = Reach::new(&objects, &limits);
        for text in [
            "/ds/objects/data/ab/x.arrayrecord",
            "file:///manifests/objects/objects/data/ab/x.arrayrecord",
            "gs://b/snapshots/ds/objects/data/ab/x.arrayrecord",
        ] {
            let mut marked = Vec::new();
            reach.place(&Place::parse(text).unwrap(), &mut |path, _| marked.push(path.to_string()));
            assert!(marked.iter().any(|path| path == "objects/data/ab/x.arrayrecord"), "{text}: {marked:?}");
        }
    }
}
