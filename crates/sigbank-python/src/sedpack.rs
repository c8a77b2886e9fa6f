//! The native side of `sigbank.sedpack`.

use crate::arguments::{Settings, settings};
use crate::dataset::with_progress;
use crate::errors::{missing_split, raise};
use crate::iterate::{BatchIterator, Chain, ExampleIterator, options};
use crate::values::{Taker, takers};
use pyo3::exceptions::{PyKeyError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;
use sigbank::format::model::{Metadata, Schema};
use sigbank::layout::Source;
use sigbank::layout::sedpack::{self, Adopted, FillerOptions, Info, ListRef, OpenOptions};
use sigbank::store::{connect, local_path};
use sigbank::uri::RelPath;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

fn object(text: &str, what: &str) -> PyResult<Metadata> {
    serde_json::from_str(text).map_err(|e| PyValueError::new_err(format!("{what}: not a JSON object: {e}")))
}

/// What is no path of the local disk.
fn afar(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| local_path(text).is_none())
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
    #[pyo3(signature = (path, allow_newer=false, storage_options=None))]
    fn open(py: Python<'_>, path: PathBuf, allow_newer: bool, storage_options: Option<Settings>) -> PyResult<Self> {
        let options = OpenOptions { allow_newer };
        let open = || match afar(&path) {
            Some(address) => sedpack::Dataset::open_store(connect(address, &settings(storage_options))?, options),
            None => sedpack::Dataset::open(&path, options),
        };
        let dataset = py.detach(open).map_err(raise)?;
        Ok(Self::new(dataset, path))
    }

    #[staticmethod]
    #[pyo3(signature = (path, info, storage_options=None))]
    fn create(py: Python<'_>, path: PathBuf, info: &str, storage_options: Option<Settings>) -> PyResult<Self> {
        let mut info = object(info, "info")?;
        let mut part = |key: &str| match info.remove(key) {
            Some(Value::Object(o)) => o,
            _ => Metadata::new(),
        };
        let info = Info::new(part("metadata"), part("dataset_structure")).map_err(raise)?;
        let create = || match afar(&path) {
            Some(address) => sedpack::Dataset::create_store(connect(address, &settings(storage_options))?, info),
            None => sedpack::Dataset::create(&path, info),
        };
        let dataset = py.detach(create).map_err(raise)?;
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

    /// Removes what workers with this path wrote and nothing names.
    fn discard(&self, py: Python<'_>, relative_path: &str) -> PyResult<()> {
        let own = RelPath::parse(relative_path).map_err(raise)?;
        py.detach(|| self.dataset.discard(&own)).map_err(raise)
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
        py.detach(|| self.dataset.shard_texts(split, start, stop)).map_err(raise)
    }

    /// The numbers of the first shards of each distinct metadata, at most `limit` of each.
    fn limit_metadata_types(&self, py: Python<'_>, split: &str, limit: u64) -> PyResult<Vec<u32>> {
        self.known(split)?;
        py.detach(|| self.dataset.limit_metadata_types(split, limit)).map_err(raise)
    }

    #[pyo3(signature = (relative_path, concurrency, durable, auto_update, adopt=None))]
    fn filler(
        &self,
        py: Python<'_>,
        relative_path: &str,
        concurrency: usize,
        durable: bool,
        auto_update: bool,
        adopt: Option<bool>,
    ) -> PyResult<Filler> {
        let relative_path = match relative_path {
            "" | "." => None,
            path => Some(RelPath::parse(path).map_err(raise)?),
        };
        let options = FillerOptions { relative_path, threads: concurrency, durable, adopt, update_root: Some(auto_update) };
        let filler = py.detach(|| self.dataset.filler(options)).map_err(raise)?;
        Filler::new(py, filler, self.dataset.schema())
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

    #[pyo3(signature = (split, shards, repeat, shuffle, threads, seed=None, batch_size=1, objects=false))]
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
        objects: bool,
    ) -> PyResult<BatchIterator> {
        self.known(split)?;
        let epochs = if repeat { None } else { Some(1) };
        let options = sigbank::loader::Options { units: shards, epochs, batch_size, ..options(split, shuffle, seed, threads) };
        let batches = BatchIterator::new(py, &self.source, options, None)?;
        Ok(if objects { batches.of_objects() } else { batches })
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
    #[pyo3(signature = (paths, shuffle, threads, seed=None, batch_size=1, objects=false))]
    #[allow(clippy::too_many_arguments)]
    fn batches_from_paths(
        &self,
        py: Python<'_>,
        paths: &Bound<'_, PyAny>,
        shuffle: u64,
        threads: usize,
        seed: Option<u64>,
        batch_size: usize,
        objects: bool,
    ) -> PyResult<BatchIterator> {
        let options = sigbank::loader::Options { batch_size, ..options("", shuffle, seed, threads) };
        let batches = BatchIterator::chain(Chain::new(py, self.dataset.clone(), paths, options)?);
        Ok(if objects { batches.of_objects() } else { batches })
    }
}

/// Fills a dataset. Threads may share one.
#[pyclass(frozen, module = "sigbank._native")]
pub struct Filler {
    takers: Vec<Taker>,
    state: Mutex<Filling>,
}

struct Filling {
    filler: Option<sedpack::Filler>,
    /// Examples taken so far, by split, for messages.
    written: HashMap<String, u64>,
    /// The last metadata given, as text and parsed: most examples of a shard give the same.
    metadata: Option<(String, Metadata)>,
    infos: Vec<ListRef>,
    adopted: Adopted,
    given_up: Adopted,
}

impl Filling {
    fn append(&mut self, split: &str, record: &[&[u8]], metadata: Option<&str>) -> sigbank::Result<()> {
        let finished = || sigbank::Error::invalid("this filler is finished").remedy("make another one");
        let filler = self.filler.as_mut().ok_or_else(finished)?;
        if let Some(text) = metadata
            && self.metadata.as_ref().is_none_or(|(known, _)| known != text)
        {
            let parsed = serde_json::from_str(text)
                .map_err(|e| sigbank::Error::invalid(format!("custom_metadata: not a JSON object that can be stored: {e}")))?;
            self.metadata = Some((text.to_owned(), parsed));
        }
        let group = metadata.and(self.metadata.as_ref()).map(|(_, parsed)| parsed);
        filler.append(split, record, group)?;
        match self.written.get_mut(split) {
            Some(n) => *n += 1,
            None => {
                self.written.insert(split.to_owned(), 1);
            }
        }
        Ok(())
    }
}

impl Filler {
    fn new(py: Python<'_>, filler: sedpack::Filler, schema: &Schema) -> PyResult<Self> {
        let state = Filling {
            filler: Some(filler),
            written: HashMap::new(),
            metadata: None,
            infos: Vec::new(),
            adopted: Adopted::default(),
            given_up: Adopted::default(),
        };
        Ok(Self { takers: takers(py, schema)?, state: Mutex::new(state) })
    }
    fn state(&self) -> MutexGuard<'_, Filling> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Filler {
    /// Adds one example; gives the names in `values` that are not declared, none where all are.
    #[pyo3(signature = (values, split, custom_metadata=None))]
    fn write_example(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyDict>,
        split: &str,
        custom_metadata: Option<&str>,
    ) -> PyResult<Option<Vec<String>>> {
        let at = |e: PyErr| {
            let position = py.detach(|| self.state().written.get(split).copied().unwrap_or(0));
            wrap(py, e, split, position)
        };
        let held = self.takers.iter().map(|t| t.take(values)).collect::<PyResult<Vec<_>>>().map_err(at)?;
        let bytes = held.iter().map(|h| h.bytes()).collect::<PyResult<Vec<_>>>().map_err(at)?;
        // The lock is never held while waiting for the GIL.
        py.detach(|| self.state().append(split, &bytes, custom_metadata)).map_err(|e| at(raise(e)))?;
        if values.len() == self.takers.len() {
            return Ok(None);
        }
        let declared = |key: &Bound<'_, PyAny>| self.takers.iter().any(|t| key.eq(t.name(py)).unwrap_or(false));
        Ok(Some(values.keys().iter().filter(|k| !declared(k)).map(|k| k.to_string()).collect()))
    }

    /// Closes the open shards, waits for the threads, makes everything visible.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let run = || -> sigbank::Result<()> {
            let mut state = self.state();
            let Some(mut filler) = state.filler.take() else { return Ok(()) };
            let done = filler.finish();
            (state.adopted, state.given_up) = (filler.adopted(), filler.given_up());
            state.infos = filler.infos().to_vec();
            done.map(|_| ())
        };
        py.detach(run).map_err(raise)
    }

    fn updated_infos(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| self.state().infos.iter().map(|i| i.to_value().to_string()).collect())
    }

    /// (shards, examples) that finishing took over from killed writers.
    fn adopted(&self, py: Python<'_>) -> (u64, u64) {
        let adopted = py.detach(|| self.state().adopted);
        (adopted.shards, adopted.records)
    }

    /// (shards, examples) of killed writers of the same path that finishing left out for good.
    fn given_up(&self, py: Python<'_>) -> (u64, u64) {
        let given_up = py.detach(|| self.state().given_up);
        (given_up.shards, given_up.records)
    }
}

/// An error of a value with the example's place; other errors as they are.
fn wrap(py: Python<'_>, e: PyErr, split: &str, position: u64) -> PyErr {
    let of_value = e.is_instance_of::<PyValueError>(py) || e.is_instance_of::<PyKeyError>(py);
    if !of_value || e.is_instance_of::<PyOSError>(py) {
        return e;
    }
    let inner = match e.value(py).getattr("args").and_then(|args| args.get_item(0)) {
        Ok(first) => first.to_string(),
        Err(_) => e.value(py).to_string(),
    };
    match e.get_type(py).call1((format!("example {position} of split '{split}': {inner}"),)) {
        Ok(value) => {
            let new = PyErr::from_value(value);
            new.set_cause(py, e.cause(py));
            new
        }
        Err(_) => e,
    }
}
