//! Windows of fixed length of recordings of any length, as a dataset.

use crate::dataset::Dataset;
use crate::errors::raise;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sigbank::layout::Source;
use std::sync::Arc;

/// What a dataset was made of another one by, for making it again.
pub struct Of {
    dataset: Py<Dataset>,
    method: &'static str,
    args: Py<PyTuple>,
    words: String,
}

/// See `Dataset.windows`.
pub fn windows(dataset: &Bound<'_, Dataset>, field: &str, length: u64, hop: u64) -> PyResult<Dataset> {
    let py = dataset.py();
    let of = dataset.get();
    let source = py.detach(|| of.source.windows(field, length, hop)).map_err(raise)?;
    let args = (field, length, hop).into_pyobject(py)?.unbind();
    Ok(Of::made(dataset, source, "windows", args, format!(", windows of {length} of '{field}' every {hop}")))
}

impl Of {
    /// The dataset that a method made; `words` are for its `repr`.
    pub fn made(
        dataset: &Bound<'_, Dataset>,
        source: Arc<dyn Source>,
        method: &'static str,
        args: Py<PyTuple>,
        words: String,
    ) -> Dataset {
        let of = dataset.get();
        let before = of.windows.as_ref().map(|of| of.words.as_str()).unwrap_or_default();
        let words = format!("{before}{words}");
        let made = Self { dataset: dataset.clone().unbind(), method, args, words };
        Dataset { source, path: of.path.clone(), options: of.options.clone(), version: of.version.clone(), windows: Some(made) }
    }
    /// For `repr`.
    pub fn words(&self) -> String {
        self.words.clone()
    }
    /// The dataset that was searched and the expression, where it is what a search found.
    pub fn found_in<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, Dataset>, String)>> {
        if self.method != "where" {
            return Ok(None);
        }
        let (expression,): (String,) = self.args.bind(py).extract()?;
        Ok(Some((self.dataset.bind(py).clone(), expression)))
    }

    /// For pickling: the method, and what it is called with.
    pub fn reduce<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let method = py.get_type::<Dataset>().getattr(self.method)?;
        let args = std::iter::once(self.dataset.bind(py).clone().into_any()).chain(self.args.bind(py).iter());
        Ok((method, PyTuple::new(py, args.collect::<Vec<_>>())?))
    }
}
