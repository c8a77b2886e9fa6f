//! Windows of fixed length of recordings of any length, as a dataset.

use crate::dataset::Dataset;
use crate::errors::raise;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sigbank::Error;
use sigbank::layout::Source;
use sigbank::query::Places;
use std::sync::Arc;

/// What a dataset was made of another one by, for making it again.
pub struct Of {
    dataset: Py<Dataset>,
    method: &'static str,
    args: Py<PyTuple>,
    /// What a search found.
    places: Option<Places>,
    words: String,
}

/// See `Dataset.windows`.
pub fn windows(dataset: &Bound<'_, Dataset>, field: &str, length: u64, hop: u64) -> PyResult<Dataset> {
    let py = dataset.py();
    let of = dataset.get();
    let source = py.detach(|| of.source.windows(field, length, hop)).map_err(raise)?;
    let args = (field, length, hop).into_pyobject(py)?.unbind();
    Ok(Of::made(dataset, source, "windows", args, None, format!(", windows of {length} of '{field}' every {hop}")))
}

impl Of {
    /// The dataset that a method made; `words` are for its `repr`.
    pub fn made(
        dataset: &Bound<'_, Dataset>,
        source: Arc<dyn Source>,
        method: &'static str,
        args: Py<PyTuple>,
        places: Option<Places>,
        words: String,
    ) -> Dataset {
        let of = dataset.get();
        let before = of.windows.as_ref().map(|of| of.words.as_str()).unwrap_or_default();
        let words = format!("{before}{words}");
        let made = Self { dataset: dataset.clone().unbind(), method, args, places, words };
        Dataset { source, path: of.path.clone(), options: of.options.clone(), version: of.version.clone(), windows: Some(made) }
    }
    /// For `repr`.
    pub fn words(&self) -> String {
        self.words.clone()
    }
    /// The dataset that was searched, the expression and what was found, where it is that.
    pub fn found_in<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, Dataset>, String, Places)>> {
        let Some(places) = &self.places else { return Ok(None) };
        let (expression,): (String,) = self.args.bind(py).extract()?;
        Ok(Some((self.dataset(py), expression, places.clone())))
    }
    /// What it was made of.
    pub fn dataset<'py>(&self, py: Python<'py>) -> Bound<'py, Dataset> {
        self.dataset.bind(py).clone()
    }
    /// The method that made it.
    pub fn method(&self) -> &'static str {
        self.method
    }
    /// What the method was called with.
    pub fn args<'py>(&self, py: Python<'py>) -> Bound<'py, PyTuple> {
        self.args.bind(py).clone()
    }
    /// The numbers of the records that were found by split, where it is what a search found.
    pub fn places(&self) -> Option<&Places> {
        self.places.as_ref()
    }
    /// Windows have no ids.
    pub fn refuse_ids(&self, path: &str) -> PyResult<()> {
        if self.method != "windows" {
            return Ok(());
        }
        let e = Error::unsupported("windows have no ids: the fields 'item' and 'start' say what each is of").at(path);
        Err(raise(e.remedy("name a window by its number; ids are those of the dataset that the windows are of")))
    }
    /// What is to be said where there is nothing to make batches of.
    pub fn refuse_none(&self, path: &str, split: &str) -> PyResult<()> {
        let what = format!("there is no record to make batches of in the split '{split}'{}", self.words);
        let remedy = match self.method {
            "where" => "ask for something that records have, or look at its length first (len(dataset))",
            _ => "take shorter windows, or look at its length first (len(dataset))",
        };
        Err(raise(Error::invalid(what).at(path).remedy(remedy)))
    }
}
