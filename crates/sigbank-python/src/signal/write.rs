//! A worker's part: records become a pair of shards.

use super::dataset::{created, shown};
use super::errors::{During, raise};
use super::options::options;
use super::take::record;
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use sigbank::layout::signal_dataset::{Record, write_shard};
use sigbank::{Error, Result};

/// Stands for an error that Python raised.
const RAISED: &str = "the records came to an end by an error";

/// Records that Python hands out, for a thread that does not hold the GIL.
struct Records<'a> {
    iterator: Py<PyIterator>,
    raised: &'a mut Option<PyErr>,
}

impl Iterator for Records<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        Python::attach(|py| {
            let next = || -> PyResult<Option<Record>> {
                py.check_signals()?;
                let mut iterator = self.iterator.bind(py).clone();
                iterator.next().map(|item| record(&item?)?.into_record()).transpose()
            };
            next()
                .map_err(|e| {
                    *self.raised = Some(e);
                    Error::invalid(RAISED)
                })
                .transpose()
        })
    }
}

/// Writes records as a pair of shards; gives what a `PublishedShard` is made of: data and metadata URI, records, bytes of each, and the
/// SHA-256 of each.
#[pyfunction]
#[pyo3(signature = (records, root, work_id, attempt, options=None))]
pub fn signal_write_shard(
    py: Python<'_>,
    records: &Bound<'_, PyAny>,
    root: &str,
    work_id: &str,
    attempt: u64,
    options: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String, u64, u64, u64, Option<(String, String)>)> {
    let options = self::options(options)?;
    let iterator = records.try_iter()?.unbind();
    let mut raised = None;
    let written = py.detach(|| {
        let store = created(root)?;
        write_shard(&*store, Records { iterator, raised: &mut raised }, work_id, attempt, &options)
    });
    let shard = written.map_err(|e| match raised.take() {
        Some(raised) if e.message().ends_with(RAISED) => raised,
        _ => raise(e, During::WriteShard),
    })?;
    let uri = |path: &str| format!("{}/{path}", shown(root));
    let digests = shard.data.sha256.zip(shard.metadata.sha256).map(|(data, metadata)| (data.to_string(), metadata.to_string()));
    let (data, metadata) = (shard.data.path.as_str(), shard.metadata.path.as_str());
    let bytes = (shard.data.stored_bytes, shard.metadata.stored_bytes);
    Ok((uri(data), uri(metadata), shard.record_count, bytes.0, bytes.1, digests))
}
