//! Where what is published goes: a new dataset, or a further version of one.

use crate::convert::SignalTarget;
use crate::convert::destination::{Destination, address, no_half_address, vacant};
use crate::convert::staging::Staging;
use crate::error::{Code, Error, Result};
use crate::layout::signal_dataset::{
    Dataset, Elsewhere, Options, Publication, PublishedShard, ROOT, VersionPublication, Which, is_mounted, jitter, publish,
    publish_version,
};
use crate::layout::{Layout, detect};
use crate::store::{LocalStore, Store, connect};
use sigbank_format::model::json::Json;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// So often others may append first.
const LOST: u32 = 64;
/// So many unfinished or other runs may have left other records under the names of shards.
const TAKEN: u64 = 64;

/// Publishing as a further version.
///
/// ```
/// use sigbank::convert::{AsVersion, SignalTarget};
/// let target = SignalTarget { version: Some(AsVersion { name: "june".into(), append: true }), ..SignalTarget::default() };
/// assert!(target.metadata.as_str() == "{}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsVersion {
    /// The version's name.
    pub name: String,
    /// Whether the records of the newest version come first.
    pub append: bool,
}

/// What was published.
pub(in crate::convert) struct Put {
    pub(in crate::convert) dataset_id: String,
    /// The snapshot's name, or the version's.
    pub(in crate::convert) name: String,
    pub(in crate::convert) version: Option<u64>,
    pub(in crate::convert) records: u64,
    pub(in crate::convert) shards: u64,
    pub(in crate::convert) stored_bytes: u64,
    pub(in crate::convert) root: String,
}

impl Put {
    pub(super) fn new(dataset: &Dataset, shards: &[PublishedShard]) -> Self {
        let version = dataset.version_document();
        Self {
            dataset_id: dataset.dataset_id().into(),
            name: version.map_or(dataset.snapshot_id(), |version| &version.name).into(),
            version: version.map(|version| version.number),
            records: shards.iter().map(|shard| shard.record_count).sum(),
            shards: shards.len() as u64,
            stored_bytes: shards.iter().map(|shard| shard.data.stored_bytes + shard.metadata.stored_bytes).sum(),
            root: format!("sha256:{}", dataset.root_digest()),
        }
    }
}

/// What a new dataset at `dest` is called.
pub(super) fn publication(dest: &Destination, target: &SignalTarget, metadata: Json) -> Publication {
    let own = || last_part(dest.path()).unwrap_or_default();
    let dataset_id = target.dataset_id.clone().unwrap_or_else(own);
    Publication { metadata, ..Publication::new(dataset_id, target.snapshot_id.as_str()) }
}

/// The last part of a path or address: of a bucket without a prefix the bucket's name.
pub(super) fn last_part(path: &Path) -> Option<String> {
    match address(path) {
        Some(address) => address.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).map(String::from),
        None => path.file_name().map(|name| name.to_string_lossy().into_owned()),
    }
}

/// The settings with which a dataset at a destination is read and written, whose objects may be elsewhere.
pub(super) fn options(dest: &Destination) -> Options {
    Options { elsewhere: Elsewhere::with_options(dest.options().clone()), ..Options::default() }
}

/// Does something with attempt 0 and, where an unfinished run of something else, or one at the same time, left other records under that
/// name, with the next ones. What is there and the same is taken over.
pub(in crate::convert) fn attempts<T>(mut write: impl FnMut(u64) -> Result<T>) -> Result<T> {
    let mut attempt = 0;
    loop {
        match write(attempt) {
            Err(e) if e.code() == Code::AlreadyExists => {
                attempt += 1;
                if attempt == TAKEN {
                    return Err(e.remedy(
                        "many unfinished runs left their records here: delete those, sigbank gc --unpublished, or publish elsewhere",
                    ));
                }
            }
            done => return done,
        }
    }
}

/// Publishes the shards that `write` writes, with work ids that begin as it is told. `ids` are those of the records.
pub(in crate::convert) fn put(
    dest: &Destination,
    target: &SignalTarget,
    metadata: Json,
    ids: impl Iterator<Item = Result<String>>,
    write: impl FnOnce(&dyn Store, &str) -> Result<Vec<PublishedShard>>,
) -> Result<Put> {
    let Some(version) = &target.version else {
        let publication = publication(dest, target, metadata);
        publication.check()?;
        return into_new(dest, |store| {
            let shards = write(&**store, "")?;
            Ok(Put::new(&publish(store, &shards, &publication, &options(dest))?, &shards))
        });
    };
    let first = there(dest)?;
    let mut newest = first.version(&Which::Latest)?;
    match first.version(&Which::Name(version.name.clone())) {
        Err(e) if e.code() == Code::NotFound => {}
        Err(e) => return Err(e),
        Ok(_) => {
            return Err(Error::already_exists(format!("there is a version '{}' already", version.name))
                .at(dest.path().display())
                .remedy("choose another name; see which there are: sigbank snapshots"));
        }
    }
    let publication = |newest: &Dataset| VersionPublication {
        base: version.append.then_some(Which::Latest),
        metadata: Some(metadata.clone()).filter(|metadata| *metadata != Json::EMPTY),
        // What was compared with the base is right for that base alone.
        follows: Some(Which::Digest(newest.root_digest().to_string())),
        ..VersionPublication::new(version.name.as_str())
    };
    publication(&newest).check()?;
    let mine = if version.append { not_there(&newest, ids)? } else { Vec::new() };
    let shards = write(&**first.store(), &format!("{}/", version.name))?;
    let mut attempt = 0;
    loop {
        match publish_version(first.store(), &shards, &publication(&newest), &options(dest)) {
            // Others append too: behind them, unless they hold some of these records.
            Err(e) if e.code() == Code::Conflict && version.append && attempt < LOST => {
                std::thread::sleep(jitter(attempt));
                attempt += 1;
                newest = first.version(&Which::Latest)?;
                not_there(&newest, mine.iter().cloned().map(Ok))?;
            }
            published => return Ok(Put::new(&published?, &shards)),
        }
    }
}

/// Publishes to an address, in place and root last; where that is interrupted, what was written stays, and is taken over by the same
/// again. To a new folder: in a hidden one beside it, which gets its name at the end. A mounted bucket renames no folder: there in
/// place, root last; where that is interrupted, what was written stays, and is taken over by the same again.
pub(super) fn into_new<T>(dest: &Destination, publish: impl FnOnce(&Arc<dyn Store>) -> Result<T>) -> Result<T> {
    let path = dest.path();
    no_half_address(path)?;
    let bucket: Option<Arc<dyn Store>> = match address(path) {
        Some(address) => Some(connect(address, dest.options())?),
        None if is_mounted(path) => Some(Arc::new(LocalStore::create(path)?.mounted())),
        None => None,
    };
    if let Some(store) = bucket {
        if !store.capabilities().write {
            return Err(Error::read_only("nothing can be written there")
                .at(path.display())
                .remedy("choose a folder or a bucket"));
        }
        let free = vacant(&*store, path.display());
        return match free {
            Err(e) if e.code() == Code::AlreadyExists && detect(&*store)? == Some(Layout::SignalDataset) => Err(e.remedy(ADD)),
            Err(e) => Err(e),
            Ok(()) => publish(&store),
        };
    }
    let staging = Staging::new(path).map_err(|e| match e.code() {
        Code::AlreadyExists if path.join(ROOT).is_file() => {
            Error::already_exists("it exists already: a signal-dataset").at(path.display()).remedy(ADD)
        }
        _ => e,
    })?;
    let published = {
        let store: Arc<dyn Store> = Arc::new(LocalStore::create(staging.dir())?);
        publish(&store)?
    };
    staging.publish()?;
    Ok(published)
}

/// What to do about a dataset at the destination.
const ADD: &str =
    "add a version to it with --as-version NAME (and --append, to begin with the records it has), or choose another destination";

/// The dataset that gets a further version.
fn there(dest: &Destination) -> Result<Dataset> {
    let opened = match address(dest.path()) {
        Some(address) => Dataset::open_store(connect(address, dest.options())?, options(dest)),
        None => Dataset::open(dest.path(), options(dest)),
    };
    opened.map_err(|e| match e.code() {
        Code::NotFound => {
            e.remedy("a version is added to a signal-dataset: publish without --as-version first, or check the path")
        }
        _ => e,
    })
}

/// These ids, of which a version has none.
fn not_there(base: &Dataset, ids: impl Iterator<Item = Result<String>>) -> Result<Vec<String>> {
    let mut mine = Vec::new();
    let mut there = HashSet::new();
    for batch in base.metadata_batches(0..base.len()) {
        there.extend(batch?.into_iter().map(|record| record.id));
    }
    for id in ids {
        let id = id?;
        if there.contains(&id) {
            return Err(Error::invalid(format!("the newest version holds a record '{id}' already"))
                .at(base.location())
                .remedy(
                    "append new records only, put the folder's name before the ids with --prefix-ids (of a folder of another name, where \
                     it was used already), or publish without --append",
                ));
        }
        mine.push(id);
    }
    Ok(mine)
}
