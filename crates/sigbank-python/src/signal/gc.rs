//! Garbage of a dataset.

use super::errors::{During, raise};
use super::store::SignalStore;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sigbank::layout::signal_dataset::{GcOptions, Options, Orphan, gc};
use std::time::Duration;

/// What nothing names: the arguments of a `Garbage`, its orphans those of an `Orphan` each.
#[pyfunction]
#[pyo3(signature = (store, older_than, delete=false, unpublished=false, old_annotations=false, uncommitted=false))]
pub fn signal_gc<'py>(
    py: Python<'py>,
    store: &SignalStore,
    older_than: f64,
    delete: bool,
    unpublished: bool,
    old_annotations: bool,
    uncommitted: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let older_than = Duration::try_from_secs_f64(older_than).map_err(|_| {
        pyo3::exceptions::PyValueError::new_err(format!("older_than is {older_than} s: an age of 0 or more is expected"))
    })?;
    let elsewhere = store.options(Options::default()).elsewhere;
    let options = GcOptions { unpublished, old_annotations, uncommitted, elsewhere, ..GcOptions::new(older_than) };
    let swept = py.detach(|| {
        let found = gc(&store.store, &options)?;
        let deleted = if delete { found.delete(&store.store)? } else { Default::default() };
        Ok((found, deleted))
    });
    let (found, deleted) = swept.map_err(|e| raise(e, During::Open))?;
    let dict = PyDict::new(py);
    dict.set_item("orphans", found.orphans.iter().map(|orphan| told(py, orphan)).collect::<PyResult<Vec<_>>>()?)?;
    dict.set_item("not_ours", found.not_ours.iter().map(|path| path.as_str()).collect::<Vec<_>>())?;
    dict.set_item("uncommitted", found.uncommitted.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    dict.set_item("published", found.published)?;
    dict.set_item("live_objects", found.live.0)?;
    dict.set_item("live_bytes", found.live.1)?;
    dict.set_item("deleted_objects", deleted.objects)?;
    dict.set_item("deleted_bytes", deleted.bytes)?;
    Ok(dict)
}

fn told<'py>(py: Python<'py>, orphan: &Orphan) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("path", orphan.path.as_str())?;
    dict.set_item("bytes", orphan.bytes)?;
    dict.set_item("age", orphan.age.map(|age| age.as_secs_f64()))?;
    dict.set_item("kept", orphan.kept.map(|kept| kept.as_str()))?;
    Ok(dict)
}
