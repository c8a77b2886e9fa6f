//! A container of records that is a Python object: a `ShardStore` of `sigbank.signal_dataset.storage`.

use super::errors::{During, raise};
use super::foreign::{answer, taken};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use sigbank::layout::signal_dataset::ShardContainer;
use sigbank::{Error, Result};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A Python object that writes and reads shards, as its `write`, `read`, `read_many` and `count` do.
#[derive(Clone)]
pub struct ForeignContainer {
    object: Arc<Py<PyAny>>,
    /// Where the store is, and what its root was given as: objects are named by the latter.
    root: (String, String),
    /// `reader_options`, `writer_options` and `file_reader_buffer_size`.
    options: Arc<(String, String, Option<u64>)>,
}

impl ForeignContainer {
    pub fn new(object: Py<PyAny>, location: String, root: String, options: (String, String, Option<u64>)) -> Self {
        Self { object: Arc::new(object), root: (location, root), options: Arc::new(options) }
    }

    /// The object as the program knows it.
    fn uri(&self, object: &str) -> String {
        let (location, root) = &self.root;
        let below = object.strip_prefix(location.trim_end_matches('/')).filter(|rest| rest.starts_with('/'));
        below.map_or_else(|| object.to_owned(), |rest| format!("{}{rest}", root.trim_end_matches('/')))
    }

    /// One call that reads.
    fn call<T>(&self, object: &str, call: impl FnOnce(&Bound<'_, PyAny>, &str, &Bound<'_, PyDict>) -> PyResult<T>) -> Result<T> {
        let uri = self.uri(object);
        let (options, _, buffer) = &*self.options;
        Python::attach(|py| {
            let keywords = PyDict::new(py);
            let called = (|| {
                keywords.set_item(intern!(py, "generation"), py.None())?;
                keywords.set_item(intern!(py, "options"), options)?;
                keywords.set_item(intern!(py, "file_reader_buffer_size"), buffer)?;
                call(self.object.bind(py), &uri, &keywords)
            })();
            called.map_err(|e| taken(py, e, &uri))
        })
    }
}

impl ShardContainer for ForeignContainer {
    fn write(&self, file: &Path, records: Box<dyn Iterator<Item = Result<Vec<u8>>> + Send>) -> Result<u64> {
        Python::attach(|py| {
            let write = || -> PyResult<u64> {
                let path = PyModule::import(py, "pathlib")?.call_method1("Path", (file,))?;
                let records = Bound::new(py, Payloads(Mutex::new(records)))?;
                let keywords = PyDict::new(py);
                keywords.set_item(intern!(py, "options"), &self.options.1)?;
                let store = self.object.bind(py);
                let count = store.call_method(intern!(py, "write"), (path, records), Some(&keywords))?;
                let name = file.display().to_string();
                answer(store, ("write", &name, "the number of records"), &count, |count| count.extract())
            };
            // The file is one of this process, which nobody else knows.
            write().map_err(|e| taken(py, e, ""))
        })
    }
    fn read(&self, object: &str, index: u64) -> Result<Vec<u8>> {
        self.call(object, |store, uri, keywords| {
            let read = store.call_method(intern!(store.py(), "read"), (uri, index), Some(keywords))?;
            answer(store, ("read", uri, "bytes"), &read, record)
        })
    }
    fn read_many(&self, object: &str, indices: &[u64]) -> Result<Vec<Vec<u8>>> {
        self.call(object, |store, uri, keywords| {
            let read = store.call_method(intern!(store.py(), "read_many"), (uri, indices.to_vec()), Some(keywords))?;
            let all = answer(store, ("read_many", uri, "records"), &read, |read| read.try_iter().map(Bound::unbind))?;
            all.into_bound(store.py()).map(|one| answer(store, ("read_many", uri, "records of bytes"), &one?, record)).collect()
        })
    }
    fn count(&self, object: &str) -> Result<u64> {
        self.call(object, |store, uri, keywords| {
            let count = store.call_method(intern!(store.py(), "count"), (uri,), Some(keywords))?;
            answer(store, ("count", uri, "the number of records"), &count, |count| count.extract())
        })
    }
}

fn record(given: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    Ok(given.extract::<PyBackedBytes>()?.to_vec())
}

/// Records to write, handed out once.
#[pyclass(frozen, module = "sigbank._native")]
struct Payloads(Mutex<Box<dyn Iterator<Item = Result<Vec<u8>>> + Send>>);

#[pymethods]
impl Payloads {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let next = || self.0.lock().unwrap_or_else(PoisonError::into_inner).next().transpose();
        let record = py.detach(next).map_err(|e: Error| raise(e, During::WriteShard))?;
        Ok(record.map(|record| PyBytes::new(py, &record)))
    }
}
