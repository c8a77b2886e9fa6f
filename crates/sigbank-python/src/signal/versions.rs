//! Further versions of a dataset.

use super::dataset::SignalDataset;
use super::errors::{During, raise};
use super::json::{give, json};
use super::publish::{publish_options, taken};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use sigbank::layout::signal_dataset::versions::{self, ShardCount};
use sigbank::layout::signal_dataset::{Options, Place, Version, VersionPublication, VersionRef, Which, publish_version};

fn which(text: &str) -> PyResult<Which> {
    text.parse().map_err(pyo3::exceptions::PyValueError::new_err)
}

fn open(e: sigbank::Error) -> PyErr {
    raise(e, During::Open)
}

/// Opens a version of a dataset.
#[pyfunction]
pub fn signal_at_version(py: Python<'_>, dataset: &SignalDataset, version: &str) -> PyResult<SignalDataset> {
    let which = which(version)?;
    let opened = py.detach(|| dataset.dataset.version(&which)).map_err(open)?;
    Ok(SignalDataset::new(opened, &dataset.root))
}

/// The versions of a dataset: the arguments of a `Version` each.
#[pyfunction]
pub fn signal_versions<'py>(py: Python<'py>, dataset: &SignalDataset) -> PyResult<Bound<'py, PyList>> {
    let all = py.detach(|| dataset.dataset.versions()).map_err(open)?;
    let all = all.iter().map(|version| told(py, version)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, all)
}

fn named(version: &VersionRef) -> (u64, String) {
    (version.number, format!("sha256:{}", version.digest))
}

fn told<'py>(py: Python<'py>, version: &Version) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("number", version.number)?;
    dict.set_item("name", &version.name)?;
    dict.set_item("digest", named(&version.reference()).1)?;
    dict.set_item("parent", version.parent.as_ref().map(named))?;
    dict.set_item("base", version.base.as_ref().map(named))?;
    dict.set_item("records", version.record_count)?;
    dict.set_item("shards", version.shard_count)?;
    dict.set_item("stored_bytes", version.stored_bytes)?;
    dict.set_item("metadata", give(py, &version.metadata)?)?;
    dict.set_item("created", &version.created)?;
    Ok(dict)
}

/// Publishes shards (`PublishedShard` values) as a further version.
#[pyfunction]
#[pyo3(signature = (dataset, name, shards, base=None, without=Vec::new(), metadata=None, follows=None, rebase=false, options=None, publication=None, compat=false))]
#[allow(clippy::too_many_arguments)]
pub fn signal_publish_version(
    py: Python<'_>,
    dataset: &SignalDataset,
    name: &str,
    shards: &Bound<'_, PyAny>,
    base: Option<&str>,
    without: Vec<String>,
    metadata: Option<&Bound<'_, PyAny>>,
    follows: Option<&str>,
    rebase: bool,
    options: Option<&Bound<'_, PyAny>>,
    publication: Option<&Bound<'_, PyAny>>,
    compat: bool,
) -> PyResult<SignalDataset> {
    let options = publish_options(options, publication, compat)?;
    let container = dataset.dataset.options().container.clone();
    let options = Options { elsewhere: dataset.dataset.options().elsewhere.clone(), container, ..options };
    let shards = shards.try_iter()?.map(|shard| taken(&dataset.root, &shard?)).collect::<PyResult<Vec<_>>>()?;
    let publish = |e| raise(e, During::Publish);
    let what = VersionPublication {
        base: base.map(which).transpose()?,
        without: without.iter().map(|path| Place::parse(path)).collect::<Result<_, _>>().map_err(publish)?,
        metadata: metadata.map(json).transpose()?,
        follows: follows.map(which).transpose()?,
        rebase,
        ..VersionPublication::new(name)
    };
    let published = py.detach(|| publish_version(dataset.dataset.store(), &shards, &what, &options)).map_err(publish)?;
    Ok(SignalDataset::new(published, &dataset.root))
}

/// How two datasets differ: the arguments of a `Comparison`.
#[pyfunction]
pub fn signal_compare<'py>(
    py: Python<'py>,
    before: &SignalDataset,
    after: &SignalDataset,
    by_id: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let found = py.detach(|| versions::compare(&before.dataset, &after.dataset, by_id)).map_err(|e| raise(e, During::Read))?;
    let shards = |count: ShardCount| (count.shards, count.records, count.bytes);
    let dict = PyDict::new(py);
    dict.set_item("records", found.records)?;
    dict.set_item("added", shards(found.added))?;
    dict.set_item("removed", shards(found.removed))?;
    dict.set_item("kept", shards(found.kept))?;
    let metadata = PyDict::new(py);
    for change in &found.metadata {
        let value = |json: &Option<_>| json.as_ref().map(|json| give(py, json)).transpose();
        metadata.set_item(&change.key, (value(&change.before)?, value(&change.after)?))?;
    }
    dict.set_item("metadata", metadata)?;
    dict.set_item("ids", found.ids.map(|ids| (ids.added, ids.removed, ids.changed)))?;
    Ok(dict)
}
