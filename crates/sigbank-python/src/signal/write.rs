//! A worker's part: records become a pair of shards.

use super::errors::{During, raise};
use super::options::options;
use super::store::SignalStore;
use super::take::record;
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use sigbank::layout::signal_dataset::write_shard;
use sigbank::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// Stands for an error that Python raised.
const RAISED: &str = "what was handed out came to an end by an error";

/// What a Python iterator hands out, taken for a thread that does not hold the GIL.
pub struct Handed<T> {
    iterator: Py<PyIterator>,
    take: fn(&Bound<'_, PyAny>) -> PyResult<T>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl<T> Handed<T> {
    pub fn new(items: &Bound<'_, PyAny>, take: fn(&Bound<'_, PyAny>) -> PyResult<T>) -> PyResult<Self> {
        Ok(Self { iterator: items.try_iter()?.unbind(), take, raised: Arc::default() })
    }

    /// What turns the core's errors into Python's: those that Python raised on the way come out as they were.
    pub fn raising(&self, during: During) -> impl FnOnce(Error) -> PyErr + use<T> {
        let raised = Arc::clone(&self.raised);
        move |e| match raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(raised) if e.message().ends_with(RAISED) => raised,
            _ => raise(e, during),
        }
    }
}

impl<T> Iterator for Handed<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        Python::attach(|py| {
            let next = || -> PyResult<Option<T>> {
                py.check_signals()?;
                let mut iterator = self.iterator.bind(py).clone();
                iterator.next().map(|item| (self.take)(&item?)).transpose()
            };
            next()
                .map_err(|e| {
                    *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                    Error::invalid(RAISED)
                })
                .transpose()
        })
    }
}

/// Data and metadata URI, records, bytes of each, the SHA-256 of each.
type Written = (String, String, u64, u64, u64, Option<(String, String)>);

/// Writes records as a pair of shards; gives what a `PublishedShard` is made of.
#[pyfunction]
#[pyo3(signature = (records, store, work_id, attempt, options=None))]
pub fn signal_write_shard(
    py: Python<'_>,
    records: &Bound<'_, PyAny>,
    store: &SignalStore,
    work_id: &str,
    attempt: u64,
    options: Option<&Bound<'_, PyAny>>,
) -> PyResult<Written> {
    let options = store.options(self::options(options)?);
    let records = Handed::new(records, |item| record(item)?.into_record())?;
    let raising = records.raising(During::WriteShard);
    let written = py.detach(|| write_shard(&*store.store, records, work_id, attempt, &options));
    let shard = written.map_err(raising)?;
    let uri = |path: &str| format!("{}/{path}", store.root);
    let digests = shard.data.sha256.zip(shard.metadata.sha256).map(|(data, metadata)| (data.to_string(), metadata.to_string()));
    let (data, metadata) = (shard.data.path.as_str(), shard.metadata.path.as_str());
    let bytes = (shard.data.stored_bytes, shard.metadata.stored_bytes);
    Ok((uri(data), uri(metadata), shard.record_count, bytes.0, bytes.1, digests))
}
