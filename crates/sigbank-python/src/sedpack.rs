//! The native side of `sigbank.sedpack`.

use crate::dataset::with_progress;
use crate::errors::{missing_split, raise};
use crate::iterate::{BatchIterator, Chain, ExampleIterator, options};
use crate::values::{Taker, takers};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;
use sigbank::format::model::Metadata;
use sigbank::layout::Source;
use sigbank::layout::sedpack::{self, FillerOptions, Info, ListRef, OpenOptions};
use sigbank::uri::RelPath;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

fn object(text: &str, what: &str) -> PyResult<Metadata> {
    serde_json::from_str(text).map_err(|e| PyValueError::new_err(format!("{what}: not a JSON object: {e}")))
}

/// A Sedpack dataset.
#[pyclass(frozen, module = "sigbank._native")]
pub struct SedpackDataset {
    dataset: sedpack::Dataset,
    source: Arc<dyn Source>,
    path: PathBuf,
    /// Metadata and structure that were set and not saved yet.
    changed: Mutex<Option<Info>>,
}

impl SedpackDataset {
    fn new(dataset: sedpack::Dataset, path: PathBuf) -> Self {
        Self { source: Arc::new(dataset.clone()), dataset, path, changed: Mutex::default() }
    }
    fn known(&self, split: &str) -> PyResult<sigbank::layout::Split> {
        let found = self.source.splits().into_iter().find(|s| s.name == split);
        found.ok_or_else(|| missing_split(&*self.source, split))
    }
    fn changed(&self) -> Option<Info> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[pymethods]
impl SedpackDataset {
    #[staticmethod]
    #[pyo3(signature = (path, allow_newer=false))]
    fn open(py: Python<'_>, path: PathBuf, allow_newer: bool) -> PyResult<Self> {
        let dataset = py.detach(|| sedpack::Dataset::open(&path, OpenOptions { allow_newer })).map_err(raise)?;
        Ok(Self::new(dataset, path))
    }

    #[staticmethod]
    fn create(py: Python<'_>, path: PathBuf, info: &str) -> PyResult<Self> {
        let mut info = object(info, "info")?;
        let mut part = |key: &str| match info.remove(key) {
            Some(Value::Object(o)) => o,
            _ => Metadata::new(),
        };
        let info = Info::new(part("metadata"), part("dataset_structure")).map_err(raise)?;
        let dataset = py.detach(|| sedpack::Dataset::create(&path, info)).map_err(raise)?;
        Ok(Self::new(dataset, path))
    }

    #[getter]
    fn path(&self) -> &PathBuf {
        &self.path
    }

    fn info(&self) -> PyResult<String> {
        let bytes = self.dataset.info().to_bytes().map_err(raise)?;
        Ok(String::from_utf8(bytes)?)
    }

    #[pyo3(signature = (metadata, dataset_structure))]
    fn set_info(&self, metadata: Option<&str>, dataset_structure: Option<&str>) -> PyResult<()> {
        let parse = |text: Option<&str>, what| text.map(|t| object(t, what)).transpose();
        let base = self.changed().unwrap_or_else(|| self.dataset.info());
        let new = base.with(parse(metadata, "metadata")?, parse(dataset_structure, "dataset_structure")?).map_err(raise)?;
        *self.changed.lock().unwrap_or_else(PoisonError::into_inner) = Some(new);
        Ok(())
    }

    fn write_config(&self, py: Python<'_>, updated_infos: Vec<String>) -> PyResult<String> {
        let one = |text: &String| object(text, "updated_infos").and_then(|o| ListRef::parse(&Value::Object(o)).map_err(raise));
        let lists = updated_infos.iter().map(one).collect::<PyResult<Vec<_>>>()?;
        let info = self.changed();
        let saved = py.detach(|| self.dataset.write_config(info, lists)).map_err(raise)?;
        *self.changed.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(saved.to_value().to_string())
    }

    fn checksums(&self) -> Vec<String> {
        self.dataset.checksums()
    }

    #[pyo3(signature = (expected, progress=None))]
    fn check(&self, py: Python<'_>, expected: Vec<String>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        with_progress(py, progress, |tell| self.dataset.check(&expected, tell)).map(|_| ())
    }

    fn splits(&self) -> Vec<String> {
        self.source.splits().into_iter().map(|s| s.name).collect()
    }

    fn num_shards(&self, split: &str) -> PyResult<u64> {
        Ok(self.known(split)?.units)
    }

    fn num_examples(&self, split: &str) -> PyResult<u64> {
        Ok(self.known(split)?.records)
    }

    fn shard_infos(&self, py: Python<'_>, split: &str, start: u64, stop: u64) -> PyResult<Vec<String>> {
        self.known(split)?;
        let shards = py.detach(|| self.dataset.shard_infos(split, start, stop)).map_err(raise)?;
        Ok(shards.iter().map(|s| s.to_value().to_string()).collect())
    }

    fn filler(
        &self,
        py: Python<'_>,
        relative_path: &str,
        concurrency: usize,
        durable: bool,
        auto_update: bool,
    ) -> PyResult<Filler> {
        let relative_path = match relative_path {
            "" | "." => None,
            path => Some(RelPath::parse(path).map_err(raise)?),
        };
        let options = FillerOptions { relative_path, threads: concurrency, durable, update_root: Some(auto_update) };
        let filler = py.detach(|| self.dataset.filler(options)).map_err(raise)?;
        let takers = takers(py, self.dataset.schema())?;
        Ok(Filler { filler: Some(filler), takers, written: HashMap::new(), metadata: None, infos: Vec::new() })
    }

    #[pyo3(signature = (split, shards, repeat, shuffle, threads, seed=None))]
    #[allow(clippy::too_many_arguments)]
    fn examples(
        &self,
        py: Python<'_>,
        split: &str,
        shards: Option<Vec<u32>>,
        repeat: bool,
        shuffle: u64,
        threads: usize,
        seed: Option<u64>,
    ) -> PyResult<ExampleIterator> {
        self.known(split)?;
        let epochs = if repeat { None } else { Some(1) };
        ExampleIterator::new(
            py,
            &self.source,
            sigbank::loader::Options { units: shards, epochs, ..options(split, shuffle, seed, threads) },
        )
    }

    #[pyo3(signature = (split, shards, repeat, shuffle, threads, seed=None, batch_size=1))]
    #[allow(clippy::too_many_arguments)]
    fn batches(
        &self,
        py: Python<'_>,
        split: &str,
        shards: Option<Vec<u32>>,
        repeat: bool,
        shuffle: u64,
        threads: usize,
        seed: Option<u64>,
        batch_size: usize,
    ) -> PyResult<BatchIterator> {
        self.known(split)?;
        let epochs = if repeat { None } else { Some(1) };
        BatchIterator::new(
            py,
            &self.source,
            sigbank::loader::Options { units: shards, epochs, batch_size, ..options(split, shuffle, seed, threads) },
        )
    }

    /// Examples of the shards that an iterator names by their paths.
    #[pyo3(signature = (paths, shuffle, threads, seed=None))]
    fn examples_from_paths(
        &self,
        py: Python<'_>,
        paths: &Bound<'_, PyAny>,
        shuffle: u64,
        threads: usize,
        seed: Option<u64>,
    ) -> PyResult<ExampleIterator> {
        ExampleIterator::chain(Chain::new(py, self.dataset.clone(), paths, options("", shuffle, seed, threads))?)
    }

    /// Batches of the shards that an iterator names by their paths.
    #[pyo3(signature = (paths, shuffle, threads, seed=None, batch_size=1))]
    fn batches_from_paths(
        &self,
        py: Python<'_>,
        paths: &Bound<'_, PyAny>,
        shuffle: u64,
        threads: usize,
        seed: Option<u64>,
        batch_size: usize,
    ) -> PyResult<BatchIterator> {
        let options = sigbank::loader::Options { batch_size, ..options("", shuffle, seed, threads) };
        Ok(BatchIterator::chain(Chain::new(py, self.dataset.clone(), paths, options)?))
    }
}

/// Fills a dataset.
#[pyclass(module = "sigbank._native")]
pub struct Filler {
    filler: Option<sedpack::Filler>,
    takers: Vec<Taker>,
    /// Examples taken so far, by split, for messages.
    written: HashMap<String, u64>,
    /// The last metadata given, as text and parsed: most examples of a shard give the same.
    metadata: Option<(String, Metadata)>,
    infos: Vec<ListRef>,
}

#[pymethods]
impl Filler {
    /// Adds one example; gives the names in `values` that are not declared, none where all are.
    #[pyo3(signature = (values, split, custom_metadata=None))]
    fn write_example(
        &mut self,
        py: Python<'_>,
        values: &Bound<'_, PyDict>,
        split: &str,
        custom_metadata: Option<&str>,
    ) -> PyResult<Option<Vec<String>>> {
        let filler = self.filler.as_mut().ok_or_else(|| PyRuntimeError::new_err("this filler is finished"))?;
        let position = self.written.get(split).copied().unwrap_or(0);
        let at = |e: PyErr| if e.is_instance_of::<PyValueError>(py) { wrap(py, e, split, position) } else { e };
        if let Some(text) = custom_metadata
            && self.metadata.as_ref().is_none_or(|(known, _)| known != text)
        {
            self.metadata = Some((text.to_owned(), object(text, "custom_metadata")?));
        }
        let group = custom_metadata.and(self.metadata.as_ref()).map(|(_, parsed)| parsed);
        let held = self.takers.iter().map(|t| t.take(values)).collect::<PyResult<Vec<_>>>().map_err(at)?;
        let bytes = held.iter().map(|h| h.bytes()).collect::<PyResult<Vec<_>>>().map_err(at)?;
        py.detach(|| filler.append(split, &bytes, group)).map_err(|e| at(raise(e)))?;
        match self.written.get_mut(split) {
            Some(n) => *n += 1,
            None => {
                self.written.insert(split.to_owned(), 1);
            }
        }
        if values.len() == self.takers.len() {
            return Ok(None);
        }
        let declared = |key: &Bound<'_, PyAny>| self.takers.iter().any(|t| key.eq(t.name(py)).unwrap_or(false));
        Ok(Some(values.keys().iter().filter(|k| !declared(k)).map(|k| k.to_string()).collect()))
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(mut filler) = self.filler.take() else { return Ok(()) };
        self.infos = py.detach(move || filler.finish()).map_err(raise)?;
        Ok(())
    }

    fn updated_infos(&self) -> Vec<String> {
        self.infos.iter().map(|i| i.to_value().to_string()).collect()
    }
}

/// An error of a value with the example's place.
fn wrap(py: Python<'_>, e: PyErr, split: &str, position: u64) -> PyErr {
    let text = format!("example {position} of split '{split}': {}", e.value(py));
    match e.get_type(py).call1((text,)) {
        Ok(value) => {
            let new = PyErr::from_value(value);
            new.set_cause(py, e.cause(py));
            new
        }
        Err(_) => e,
    }
}
