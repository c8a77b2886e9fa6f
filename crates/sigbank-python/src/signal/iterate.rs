//! Records one after another, read ahead.

use super::errors::{During, raise};
use super::give::Giver;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use sigbank::layout::signal_dataset::{Batches, RecordMetadata, StoredRecord};
use std::sync::{Mutex, PoisonError};

enum Item {
    Record(StoredRecord),
    Metadata(Box<RecordMetadata>),
}

struct State {
    batches: Box<dyn Iterator<Item = sigbank::Result<Vec<Item>>> + Send>,
    ready: std::vec::IntoIter<Item>,
    giver: Giver,
}

/// Records, or what is said of them, one after another.
#[pyclass(frozen, module = "sigbank._native")]
pub struct RecordIterator {
    state: Mutex<State>,
    process: u32,
}

impl RecordIterator {
    pub fn records(batches: Batches<StoredRecord>) -> Self {
        Self::new(Box::new(batches.map(|b| b.map(|b| b.into_iter().map(Item::Record).collect()))))
    }
    pub fn metadata(batches: Batches<RecordMetadata>) -> Self {
        Self::new(Box::new(batches.map(|b| b.map(|b| b.into_iter().map(|m| Item::Metadata(Box::new(m))).collect()))))
    }
    fn new(batches: Box<dyn Iterator<Item = sigbank::Result<Vec<Item>>> + Send>) -> Self {
        let state = State { batches, ready: Vec::new().into_iter(), giver: Giver::default() };
        Self { state: Mutex::new(state), process: std::process::id() }
    }
}

#[pymethods]
impl RecordIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.process != std::process::id() {
            return Err(PyRuntimeError::new_err(
                "this iterator was begun by the parent process, whose threads are not here: begin a new one in this process",
            ));
        }
        let mut state = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        let State { batches, ready, giver } = &mut *state;
        loop {
            match ready.next() {
                Some(Item::Record(record)) => return giver.stored(py, record).map(Some),
                Some(Item::Metadata(says)) => return giver.metadata(py, &says).map(Some),
                None => {}
            }
            py.check_signals()?;
            match py.detach(|| batches.next()) {
                Some(batch) => *ready = batch.map_err(|e| raise(e, During::Read))?.into_iter(),
                None => return Ok(None),
            }
        }
    }
}
