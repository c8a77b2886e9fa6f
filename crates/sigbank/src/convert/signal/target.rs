//! Where what is published goes: a new dataset, or a further version of one.

use crate::convert::SignalTarget;
use crate::convert::destination::{address, vacant};
use crate::convert::staging::Staging;
use crate::error::{Code, Error, Result};
use crate::layout::signal_dataset::{
    Dataset, Options, Publication, PublishedShard, VersionPublication, Which, is_mounted, publish, publish_version,
};
use crate::store::{LocalStore, StorageOptions, Store, connect};
use sigbank_format::model::json::Json;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

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
pub(super) fn publication(dest: &Path, target: &SignalTarget, metadata: Json) -> Publication {
    let own = || dest.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let dataset_id = target.dataset_id.clone().unwrap_or_else(own);
    Publication { metadata, ..Publication::new(dataset_id, target.snapshot_id.as_str()) }
}

/// Publishes the shards that `write` writes, with work ids that begin as it is told. `ids` are those of the records.
pub(in crate::convert) fn put(
    dest: &Path,
    target: &SignalTarget,
    metadata: Json,
    ids: impl Iterator<Item = Result<String>>,
    write: impl FnOnce(&dyn Store, &str) -> Result<Vec<PublishedShard>>,
) -> Result<Put> {
    let Some(version) = &target.version else {
        let publication = publication(dest, target, metadata);
        return into_new(dest, |store| {
            let shards = write(&**store, "")?;
            Ok(Put::new(&publish(store, &shards, &publication, &Options::default())?, &shards))
        });
    };
    let first = Dataset::open(dest, Options::default())?;
    let newest = first.version(&Which::Latest)?;
    match first.version(&Which::Name(version.name.clone())) {
        Err(e) if e.code() == Code::NotFound => {}
        Err(e) => return Err(e),
        Ok(_) => {
            return Err(Error::already_exists(format!("there is a version '{}' already", version.name))
                .at(dest.display())
                .remedy("choose another name; see which there are: sigbank snapshots"));
        }
    }
    if version.append {
        not_there(&newest, ids)?;
    }
    let publication = VersionPublication {
        base: version.append.then_some(Which::Latest),
        metadata: Some(metadata).filter(|metadata| *metadata != Json::EMPTY),
        // What was compared with the base is right for that base alone.
        follows: Some(Which::Digest(newest.root_digest().to_string())),
        ..VersionPublication::new(version.name.as_str())
    };
    publication.check()?;
    let shards = write(&**first.store(), &format!("{}/", version.name)).map_err(|e| match e.code() {
        Code::AlreadyExists => e.remedy("an interrupted run published other records under this name: choose another"),
        _ => e,
    })?;
    Ok(Put::new(&publish_version(first.store(), &shards, &publication, &Options::default())?, &shards))
}

/// Publishes to an address, in place and root last; where that is interrupted, what was written stays, and is taken over by the same
/// again. To a new folder: in a hidden one beside it, which gets its name at the end. A mounted bucket renames no folder: there in
/// place, root last; where that is interrupted, what was written stays, and is taken over by the same again.
pub(super) fn into_new<T>(dest: &Path, publish: impl FnOnce(&Arc<dyn Store>) -> Result<T>) -> Result<T> {
    let bucket: Option<Arc<dyn Store>> = match address(dest) {
        Some(address) => Some(connect(address, &StorageOptions::new())?),
        None if is_mounted(dest) => Some(Arc::new(LocalStore::create(dest)?.mounted())),
        None => None,
    };
    if let Some(store) = bucket {
        vacant(&*store, dest.display())?;
        return publish(&store);
    }
    let staging = Staging::new(dest)?;
    let published = {
        let store: Arc<dyn Store> = Arc::new(LocalStore::create(staging.dir())?);
        publish(&store)?
    };
    staging.publish()?;
    Ok(published)
}

/// Whether a version has none of these ids.
fn not_there(base: &Dataset, ids: impl Iterator<Item = Result<String>>) -> Result<()> {
    let mut there = HashSet::new();
    for batch in base.metadata_batches(0..base.len()) {
        there.extend(batch?.into_iter().map(|record| record.id));
    }
    for id in ids {
        let id = id?;
        if there.contains(&id) {
            return Err(Error::invalid(format!("the newest version holds a record '{id}' already"))
                .at(base.location())
                .remedy("append new records only, or publish without --append"));
        }
    }
    Ok(())
}
