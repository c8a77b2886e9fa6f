//! A coordinator's part: shards become a dataset.

use super::dataset::{SignalDataset, shown};
use super::errors::{During, raise};
use super::json::json;
use super::options::options;
use super::store::SignalStore;
use pyo3::intern;
use pyo3::prelude::*;
use sigbank::layout::signal_dataset::{Options, Place, Publication, PublishedShard, Reference, publish};
use sigbank::uri::RelPath;

/// Publishes shards (`PublishedShard` values) as a dataset.
#[pyfunction]
#[pyo3(signature = (store, shards, dataset_id, snapshot_id, expected_work_ids=None, metadata=None, options=None, publication=None, compat=false))]
#[allow(clippy::too_many_arguments)]
pub fn signal_publish(
    py: Python<'_>,
    store: &SignalStore,
    shards: &Bound<'_, PyAny>,
    dataset_id: &str,
    snapshot_id: &str,
    expected_work_ids: Option<Vec<String>>,
    metadata: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyAny>>,
    publication: Option<&Bound<'_, PyAny>>,
    compat: bool,
) -> PyResult<SignalDataset> {
    let options = store.options(publish_options(options, publication, compat)?);
    let shards = shards.try_iter()?.map(|shard| taken(&store.root, &shard?)).collect::<PyResult<Vec<_>>>()?;
    let mut what = named(dataset_id, snapshot_id);
    what.expected_work_ids = expected_work_ids;
    if let Some(metadata) = metadata {
        what.metadata = json(metadata)?;
    }
    let published = py.detach(|| publish(&store.store, &shards, &what, &options));
    Ok(SignalDataset::new(published.map_err(|e| raise(e, During::Publish))?, &store.root))
}

/// What a dataset is to be called.
pub fn named(dataset_id: &str, snapshot_id: &str) -> Publication {
    Publication::new(dataset_id, snapshot_id)
}

/// The options of a publication.
pub fn publish_options(
    storage: Option<&Bound<'_, PyAny>>,
    publication: Option<&Bound<'_, PyAny>>,
    compat: bool,
) -> PyResult<Options> {
    let mut options = Options { compat, ..options(storage)? };
    if let Some(publication) = publication {
        let py = publication.py();
        options.shards_per_manifest = publication.getattr(intern!(py, "shards_per_manifest"))?.extract()?;
        options.verify_record_counts = publication.getattr(intern!(py, "verify_record_counts"))?.is_truthy()?;
    }
    Ok(options)
}

pub(super) fn taken(root: &str, shard: &Bound<'_, PyAny>) -> PyResult<PublishedShard> {
    let py = shard.py();
    let (data, metadata): (Option<String>, Option<String>) = match shard.getattr_opt(intern!(py, "_sha256"))? {
        Some(known) if !known.is_none() => known.extract()?,
        _ => (None, None),
    };
    let object = |uri, bytes, digest: Option<String>| -> PyResult<Reference> {
        let uri: String = shard.getattr(uri)?.extract()?;
        Ok(Reference {
            path: place(root, &uri).map_err(|e| raise(e, During::Publish))?,
            stored_bytes: shard.getattr(bytes)?.extract()?,
            sha256: digest.and_then(|d| d.parse().ok()),
        })
    };
    Ok(PublishedShard {
        work_id: shard.getattr(intern!(py, "work_id"))?.extract()?,
        attempt: shard.getattr(intern!(py, "attempt"))?.extract()?,
        record_count: shard.getattr(intern!(py, "record_count"))?.extract()?,
        data: object("data_uri", "data_bytes", data)?,
        metadata: object("metadata_uri", "metadata_bytes", metadata)?,
    })
}

/// Where an object is: relative to the root where it is below it, however either is written.
fn place(root: &str, uri: &str) -> sigbank::Result<Place> {
    let below = || {
        let inside = uri.strip_prefix(shown(root)).and_then(|rest| rest.strip_prefix('/')).map(str::to_owned);
        let absolute = || {
            if root.contains("://") || uri.contains("://") {
                return None;
            }
            let [root, uri] = [root, uri].map(std::path::absolute);
            Some(uri.ok()?.strip_prefix(root.ok()?).ok()?.to_str()?.to_owned())
        };
        inside.or_else(absolute)
    };
    match below() {
        Some(path) => RelPath::parse(&path).map(Place::Inside),
        None => Place::parse(uri),
    }
}
