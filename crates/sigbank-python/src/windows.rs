//! Windows of fixed length of recordings of any length, as a dataset.

use crate::dataset::Dataset;
use crate::errors::raise;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// What a dataset is windows of, for opening it again.
pub struct Of {
    dataset: Py<Dataset>,
    field: String,
    length: u64,
    hop: u64,
}

/// See `Dataset.windows`.
pub fn windows(dataset: &Bound<'_, Dataset>, field: &str, length: u64, hop: u64) -> PyResult<Dataset> {
    let (py, of) = (dataset.py(), dataset.get());
    let source = py.detach(|| of.source.windows(field, length, hop)).map_err(raise)?;
    let windows = Of { dataset: dataset.clone().unbind(), field: field.to_owned(), length, hop };
    Ok(Dataset {
        source,
        path: of.path.clone(),
        options: of.options.clone(),
        version: of.version.clone(),
        windows: Some(windows),
    })
}

impl Of {
    /// For `repr`.
    pub fn words(&self) -> String {
        format!(", windows of {} of '{}' every {}", self.length, self.field, self.hop)
    }

    /// For pickling: the method, and what it is called with.
    pub fn reduce<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let method = py.get_type::<Dataset>().getattr("windows")?;
        Ok((method, (self.dataset.clone_ref(py), &self.field, self.length, self.hop).into_pyobject(py)?))
    }
}
