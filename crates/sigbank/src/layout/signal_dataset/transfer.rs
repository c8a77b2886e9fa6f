//! Taking a shard over into another dataset as it is.

use super::dataset::Dataset;
use super::digest::Digest;
use super::documents::{Place, Reference, Shard};
use super::objects::same_digest;
use super::shard_write::{PublishedShard, shard_paths};
use super::shards::open_shard;
use super::{Options, verify};
use crate::error::{Code, Error, Result};
use crate::store::Store;
use crate::uri::RelPath;
use sha2::{Digest as _, Sha256};
use std::io::Write;

const CHUNK: u64 = 1 << 20;

/// Copies both objects of a shard byte for byte into a store, under the names of a work id and attempt 0. Nothing is decoded; what the
/// references' checksums do not fit is not copied.
///
/// To do it again is safe: an object that is there and holds the same bytes is accepted.
///
/// ```no_run
/// use sigbank::layout::signal_dataset::{Dataset, Options, Publication, copy_shard, publish};
/// use sigbank::store::{LocalStore, Store};
/// let (dataset, options) = (Dataset::open("captures".as_ref(), Options::default())?, Options::default());
/// let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(LocalStore::create("first-page")?);
/// let shards = dataset.page(0)?.shards.iter().zip(0..).map(|(shard, n)| copy_shard(&dataset, shard, &*store, &format!("{n:08}"), &options))
///     .collect::<Result<Vec<_>, _>>()?;
/// publish(&store, &shards, &Publication::new("first page", "v1"), &options)?;
/// # Ok::<(), sigbank::Error>(())
/// ```
///
/// # Errors
/// `Unsupported` for the entry of a view, which is a selection of a shard's records; `Corrupt` or `NotFound` for an object that is not as the
/// dataset says; `AlreadyExists` where the work id was used for other records.
pub fn copy_shard(
    dataset: &Dataset,
    shard: &Shard,
    store: &dyn Store,
    work_id: &str,
    options: &Options,
) -> Result<PublishedShard> {
    if shard.record_indices.is_some() {
        return Err(Error::unsupported("this is a selection of a shard's records, which cannot be copied as a whole")
            .at(dataset.location())
            .remedy("write its records with write_shard"));
    }
    let [data, metadata] = shard_paths(work_id, 0)?;
    let copy = |reference: &Reference, path: RelPath| -> Result<Reference> {
        let sha256 = Some(copied(dataset, reference, shard.record_count, store, &path)?).filter(|_| !options.compat);
        Ok(Reference { path: Place::Inside(path), stored_bytes: reference.stored_bytes, sha256 })
    };
    Ok(PublishedShard {
        work_id: work_id.into(),
        attempt: 0,
        record_count: shard.record_count,
        data: copy(&shard.data, data)?,
        metadata: copy(&shard.metadata, metadata)?,
    })
}

fn copied(dataset: &Dataset, reference: &Reference, records: u64, store: &dyn Store, path: &RelPath) -> Result<Digest> {
    let objects = &dataset.inner().objects;
    let file = match &dataset.inner().options.container {
        Some(_) => objects.open_anew(reference)?,
        None => open_shard(objects, reference, Some(records))?.file,
    };
    let mut object = match store.write_new(path) {
        Err(e) if e.code() == Code::AlreadyExists => None,
        object => Some(object?),
    };
    let located = |e: Error| e.at(store.locate(path));
    let (mut hasher, mut at, mut buffer) = (Sha256::new(), 0, vec![0; CHUNK.min(file.size()) as usize]);
    while at < file.size() {
        let n = (file.size() - at).min(CHUNK);
        let part = buffer.get_mut(..n as usize).unwrap_or_default();
        file.read_at(at, part).map_err(|e| Error::from(e).at(file.location()))?;
        hasher.update(&*part);
        if let Some(object) = &mut object {
            object.write_all(part).map_err(|e| located(e.into()))?;
        }
        at += n;
    }
    let digest = Digest::finish(hasher);
    same_digest(reference, digest).map_err(|e| e.at(objects.locate(&reference.path)))?;
    let named = match object.map(|object| object.commit()) {
        Some(Err(e)) if e.code() != Code::AlreadyExists => return Err(located(e)),
        committed => matches!(committed, Some(Ok(()))),
    };
    if !named && verify::digest(&*store.open_read(path)?)? != digest {
        return Err(located(
            Error::already_exists("the work id was used before for other records").remedy("give each shard a work id of its own"),
        ));
    }
    Ok(digest)
}
