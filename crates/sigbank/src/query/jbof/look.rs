//! What tells whether items are still as they were: on a local disk the times of each file, in a bucket one listing of all of them.

use super::kept;
use crate::error::{Error, Result};
use crate::layout::jbof::scan::{self, Document, Looker, Stamp};
use crate::layout::jbof::{Dataset, ROOT, is_litter};
use crate::query::Field;
use crate::store::{Expected, Store, exists};
use crate::uri::RelPath;
use std::time::{Duration, SystemTime};
use xxhash_rust::xxh3::xxh3_128;

/// Storage services tell times in steps of up to so much.
const STEP: Duration = Duration::from_secs(2);
/// How often it is tried to list a data set to which nobody has just written.
const TRIES: u32 = 3;
/// What is put to learn the time by the storage's clock, beside the index.
const CLOCK: &str = "__pycache__/sigbank/clock";
/// The stamp of what was read under a listing that stands for it.
const LISTED: Stamp = Stamp { digest: 1, lasting: true };

/// Looks at a data set. What it reads must be read after it was made.
pub(super) struct Eyes {
    looker: Looker,
    /// Of a data set in a bucket that has an index.
    listing: Option<Listing>,
}

/// All files of items of a data set.
struct Listing {
    items: Vec<String>,
    digest: u128,
    /// When the last one was written; none where the store does not tell for all.
    newest: Option<SystemTime>,
    /// Whether every later change shows in the digest.
    steady: bool,
}

impl Eyes {
    /// For searching: data sets in buckets are listed where an index is there that may gain by it.
    pub(super) fn new(dataset: &Dataset, index: bool) -> Result<Self> {
        let far = index && is_far(dataset) && exists(&**dataset.store(), &kept::index()?)?;
        let listing = if far { Some(Listing::new(&**dataset.store())?) } else { None };
        Ok(Self { looker: Looker::new(dataset), listing })
    }
    /// For an index that is going to be written.
    ///
    /// # Errors
    /// `Conflict` where somebody goes on writing to a data set in a bucket; those of the store.
    pub(super) fn to_keep(dataset: &Dataset) -> Result<Self> {
        let listing = if is_far(dataset) { Some(Listing::steady(&**dataset.store())?) } else { None };
        Ok(Self { looker: Looker::new(dataset), listing })
    }
    /// Whether items are not looked at one by one.
    pub(super) fn is_listing(&self) -> bool {
        self.listing.is_some()
    }
    /// Of the whole, which changes where items come and go, and in a bucket with every file.
    pub(super) fn root(&self) -> Option<Stamp> {
        match &self.listing {
            Some(listing) => Some(Stamp { digest: listing.digest, lasting: listing.steady }),
            None => self.looker.root(),
        }
    }
    /// The names of all that may be items, sorted.
    pub(super) fn candidates(&self, dataset: &Dataset) -> Result<Vec<String>> {
        self.listing.as_ref().map_or_else(|| scan::candidates(dataset), |listing| Ok(listing.items.clone()))
    }
    /// Of an item's document; none where only reading tells.
    pub(super) fn document(&self, item: &str) -> Option<Stamp> {
        if self.is_listing() { Some(LISTED) } else { self.looker.document(item) }
    }
    /// Of an item's directory and its arrays; none where only reading tells.
    pub(super) fn arrays(&self, item: &str, fields: &[Field]) -> Option<Stamp> {
        match self.is_listing() {
            true => Some(LISTED),
            false => self.looker.arrays(item, fields.iter().map(|field| (field.name.as_str(), field.file.as_deref()))),
        }
    }
    /// An item's document and the stamp that it can be kept under; none for a directory that is no item (any more).
    pub(super) fn read(&self, dataset: &Dataset, item: &str) -> Result<Option<(Document, u128)>> {
        let read = scan::document(dataset, &self.looker, item)?;
        Ok(read.map(|(document, stamp)| (document, if self.is_listing() { LISTED.digest } else { stamp })))
    }
}

/// Whether a look at each item costs a request.
fn is_far(dataset: &Dataset) -> bool {
    dataset.store().capabilities().round_trip > 0
}

impl Listing {
    fn new(store: &dyn Store) -> Result<Self> {
        let (mut lines, mut items, mut newest) = (Vec::new(), Vec::new(), Some(SystemTime::UNIX_EPOCH));
        for entry in store.list(None)? {
            let entry = entry?;
            let path = entry.path.as_str();
            let Some((item, file)) = path.split_once('/').filter(|(item, _)| scan::is_name(item)) else { continue };
            if file.contains('/') || is_litter(file) {
                continue;
            }
            if file == ROOT {
                items.push(item.to_owned());
            }
            newest = newest.zip(entry.modified).map(|(a, b)| a.max(b));
            let since = entry.modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
            lines.push(format!("{path}\0{}\0{}\n", entry.size, since.unwrap_or_default().as_nanos()));
        }
        lines.sort_unstable();
        items.sort_unstable();
        items.dedup();
        Ok(Self { items, digest: xxh3_128(lines.concat().as_bytes()).max(1), newest, steady: false })
    }

    /// One in which nothing was written so lately, by the storage's own clock, that it could be written again under the same time.
    fn steady(store: &dyn Store) -> Result<Self> {
        let clock = RelPath::parse(CLOCK)?;
        for _ in 0..TRIES {
            store.replace(&clock, &[b"?"], Expected::Any)?;
            let (found, now) = (Self::new(store), modified(store, &clock));
            store.delete(&clock)?;
            let found = found?;
            let now = now?.ok_or_else(|| {
                Error::unsupported("this storage does not tell when objects were written, so that no index of it can be kept")
                    .at(store.location())
            })?;
            if found.newest.is_some_and(|newest| newest + STEP < now) {
                return Ok(Self { steady: true, ..found });
            }
            std::thread::sleep(STEP + STEP / 4);
        }
        Err(Error::conflict("items are being written, so that an index of them would not last")
            .at(store.location())
            .remedy("write it when nobody adds to the data set"))
    }
}

fn modified(store: &dyn Store, path: &RelPath) -> Result<Option<SystemTime>> {
    let above = RelPath::parse("__pycache__/sigbank")?;
    for entry in store.list(Some(&above))? {
        let entry = entry?;
        if entry.path == *path {
            return Ok(entry.modified);
        }
    }
    Ok(None)
}
