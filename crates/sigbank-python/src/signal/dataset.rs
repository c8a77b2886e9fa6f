//! A published dataset, as `sigbank.signal_dataset` uses it.

use super::annotation::{self, SignalAnnotationSet, SignalAnnotations};
use super::errors::{During, raise};
use super::give::SharedGiver;
use super::iterate::RecordIterator;
use super::json::give;
use super::options::options;
use super::store::SignalStore;
use super::view::SignalView;
use crate::dataset::with_progress;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice};
use sigbank::Code;
use sigbank::layout::signal_dataset::Dataset;
use sigbank::store::{Store, exists};
use sigbank::uri::RelPath;
use std::sync::Arc;

/// A run of records in a shard: its file, records before, in it, and in the whole shard, the first ordinal.
type Run = (String, u64, u64, u64, u64);

/// A published dataset.
#[pyclass(frozen, module = "sigbank._native")]
pub struct SignalDataset {
    pub dataset: Dataset,
    /// The root as it was given, without slashes at the end.
    pub root: String,
    giver: SharedGiver,
}

impl SignalDataset {
    pub fn new(dataset: Dataset, root: &str) -> Self {
        Self { dataset, root: shown(root).to_owned(), giver: SharedGiver::new() }
    }

    /// The record at an index, or the list of those of a slice; `ordinals` are the view's, whose records are counted.
    pub fn record_at<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        ordinals: Option<&[u64]>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.places(key, ordinals)? {
            Places::One(ordinal) => {
                let record = py.detach(|| self.dataset.record(ordinal)).map_err(read)?;
                self.giver.with(|giver| giver.stored(py, record))
            }
            Places::Many(ordinals) => self.records_at(py, &ordinals),
        }
    }

    pub fn records_at<'py>(&self, py: Python<'py>, ordinals: &[u64]) -> PyResult<Bound<'py, PyAny>> {
        let records = py.detach(|| self.dataset.read(ordinals)).map_err(read)?;
        self.giver.with(|giver| {
            let records = records.into_iter().map(|record| giver.stored(py, record)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, records)?.into_any())
        })
    }

    /// The same of what is said of records.
    pub fn metadata_at<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        ordinals: Option<&[u64]>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.places(key, ordinals)? {
            Places::One(ordinal) => {
                let says = py.detach(|| self.dataset.record_metadata(ordinal)).map_err(read)?;
                self.giver.with(|giver| giver.metadata(py, &says))
            }
            Places::Many(ordinals) => {
                let all = py.detach(|| self.dataset.read_metadata(&ordinals)).map_err(read)?;
                self.giver.with(|giver| {
                    let all = all.iter().map(|says| giver.metadata(py, says)).collect::<PyResult<Vec<_>>>()?;
                    Ok(PyList::new(py, all)?.into_any())
                })
            }
        }
    }

    fn places(&self, key: &Bound<'_, PyAny>, ordinals: Option<&[u64]>) -> PyResult<Places> {
        let len = ordinals.map_or(self.dataset.len(), |o| o.len() as u64);
        let ordinal = |n: u64| match ordinals {
            Some(ordinals) => usize::try_from(n).ok().and_then(|n| ordinals.get(n)).copied().unwrap_or(n),
            None => n,
        };
        Ok(match places(key, len, "dataset")? {
            Places::One(n) => Places::One(ordinal(n)),
            Places::Many(all) => Places::Many(all.into_iter().map(ordinal).collect()),
        })
    }
}

/// What an index or a slice stands for.
pub enum Places {
    One(u64),
    Many(Vec<u64>),
}

/// Whether the root document of the layout's prototype is there.
fn prototype(store: &dyn Store) -> bool {
    RelPath::parse("sds.json").and_then(|path| exists(store, &path)).unwrap_or(false)
}

fn read(e: sigbank::Error) -> PyErr {
    raise(e, During::Read)
}

/// A root as it is shown.
pub fn shown(root: &str) -> &str {
    match root.trim_end_matches('/') {
        "" => root,
        short => short,
    }
}

/// The place among `len` of an index that may count from the end.
///
/// # Errors
/// `IndexError` where there is none; `TypeError` for what is no integer.
pub fn index(key: &Bound<'_, PyAny>, len: u64, of: &str) -> PyResult<u64> {
    let number = key.call_method0(pyo3::intern!(key.py(), "__index__")).map_err(|_| {
        let found = key.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string());
        PyTypeError::new_err(format!("{of} indices must be integers or slices, found {found}"))
    })?;
    let place = number.extract::<i128>().ok().map(|n| if n < 0 { n + i128::from(len) } else { n });
    place
        .and_then(|n| u64::try_from(n).ok())
        .filter(|&n| n < len)
        .ok_or_else(|| PyIndexError::new_err(format!("{of} index out of range: {number} of {len} records")))
}

/// The places among `len` of an index or a slice.
///
/// # Errors
/// As [`index`].
pub fn places(key: &Bound<'_, PyAny>, len: u64, of: &str) -> PyResult<Places> {
    let Ok(slice) = key.cast::<PySlice>() else { return index(key, len, of).map(Places::One) };
    let range = slice.indices(isize::try_from(len).unwrap_or(isize::MAX))?;
    let steps = (0..range.slicelength as i128).map(|i| range.start as i128 + i * range.step as i128);
    Ok(Places::Many(steps.map(|n| n as u64).collect()))
}

/// The places of indices.
pub fn indices(keys: &Bound<'_, PyAny>, len: u64, of: &str) -> PyResult<Vec<u64>> {
    keys.try_iter()?.map(|key| index(&key?, len, of)).collect()
}

#[pymethods]
impl SignalDataset {
    #[staticmethod]
    #[pyo3(signature = (store, options=None))]
    fn open(py: Python<'_>, store: &SignalStore, options: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let options = store.options(self::options(options)?);
        let opened = py.detach(|| {
            Dataset::open_store(Arc::clone(&store.store), options).map_err(|e| match e.code() {
                Code::NotFound if prototype(&*store.store) => {
                    let message =
                        "this is the earlier prototype of the layout (sds.json), which is not read: publish a new dataset";
                    sigbank::Error::corrupt(message).at(store.store.location())
                }
                _ => e,
            })
        });
        Ok(Self::new(opened.map_err(|e| raise(e, During::Open))?, &store.root))
    }

    #[getter]
    fn root(&self) -> &str {
        &self.root
    }
    #[getter]
    fn location(&self) -> String {
        self.dataset.location()
    }
    #[getter]
    fn id(&self) -> &str {
        self.dataset.dataset_id()
    }
    #[getter]
    fn snapshot_id(&self) -> &str {
        self.dataset.snapshot_id()
    }
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        give(py, self.dataset.metadata())
    }
    #[getter]
    fn root_digest(&self) -> String {
        format!("sha256:{}", self.dataset.root_digest())
    }
    #[getter]
    fn version_number(&self) -> u64 {
        self.dataset.version_number()
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.dataset.len()).unwrap_or(usize::MAX)
    }

    fn record<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.record_at(py, key, None)
    }
    fn records<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.records_at(py, &indices(keys, self.dataset.len(), "dataset")?)
    }
    fn record_metadata<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.metadata_at(py, key, None)
    }

    fn iter_records(&self, py: Python<'_>) -> RecordIterator {
        py.detach(|| RecordIterator::records(self.dataset.batches(0..self.dataset.len())))
    }
    fn iter_record_metadata(&self, py: Python<'_>) -> RecordIterator {
        py.detach(|| RecordIterator::metadata(self.dataset.metadata_batches(0..self.dataset.len())))
    }

    fn read_instructions(&self, py: Python<'_>, start: i64, stop: Option<i64>, metadata: bool) -> PyResult<Vec<Run>> {
        let len = self.dataset.len();
        let stop = stop.map_or(i128::from(len), i128::from);
        let range = u64::try_from(start).ok().zip(u64::try_from(stop).ok()).filter(|&(start, stop)| start <= stop && stop <= len);
        let Some((start, stop)) = range else {
            let message = format!("range [{start}, {stop}) is outside this dataset of {len} records");
            return Err(PyValueError::new_err(message));
        };
        let runs = py.detach(|| self.dataset.read_instructions(start, stop, metadata)).map_err(|e| match e.code() {
            Code::Unsupported => raise(e, During::Publish),
            _ => read(e),
        })?;
        let location = self.dataset.location();
        // As other paths of this dataset: by the root that was given.
        let shown = |filename: String| match filename.strip_prefix(&location) {
            Some(inside) => format!("{}{inside}", self.root),
            None => filename,
        };
        Ok(runs.into_iter().map(|r| (shown(r.filename), r.skip, r.take, r.examples_in_shard, r.first_ordinal)).collect())
    }

    fn select(slf: &Bound<'_, Self>, keys: &Bound<'_, PyAny>) -> PyResult<SignalView> {
        let dataset = &slf.get().dataset;
        let ordinals = indices(keys, dataset.len(), "selection")?;
        Ok(SignalView::new(slf.clone().unbind(), dataset.select(ordinals).map_err(read)?))
    }

    fn annotations(&self, py: Python<'_>) -> PyResult<SignalAnnotations> {
        let catalog = py.detach(|| self.dataset.annotations()).map_err(|e| raise(e, During::Open))?;
        Ok(SignalAnnotations::new(catalog))
    }

    #[pyo3(signature = (name, records, metadata=None, options=None))]
    fn publish_annotations(
        &self,
        py: Python<'_>,
        name: &str,
        records: &Bound<'_, PyAny>,
        metadata: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<SignalAnnotationSet> {
        annotation::publish(py, &self.dataset, name, records, &annotation::options(metadata, options)?)
    }

    /// Gives what a `PublishedAnnotationShard` is made of.
    fn write_annotation_shard<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        publication_id: &str,
        first_ordinal: u64,
        records: &Bound<'py, PyAny>,
        logical_shard_id: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        annotation::write_shard(py, &self.dataset, (name, publication_id), first_ordinal, records, logical_shard_id)
    }

    #[pyo3(signature = (name, publication_id, published, metadata=None, options=None))]
    fn publish_annotation_shards(
        &self,
        py: Python<'_>,
        name: &str,
        publication_id: &str,
        published: &Bound<'_, PyAny>,
        metadata: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<SignalAnnotationSet> {
        let options = annotation::options(metadata, options)?;
        annotation::publish_shards(py, &self.dataset, (name, publication_id), published, &options)
    }

    /// Compares everything with its checksums, decodes every record; gives (shards, records, bytes).
    #[pyo3(signature = (progress=None))]
    fn verify(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<(u64, u64, u64)> {
        let mut failed = None;
        let done = with_progress(py, progress, |tell| self.dataset.verify(tell).inspect_err(|e| failed = Some(e.clone())));
        match (done, failed) {
            // What the callable raised comes first: it stopped the run.
            (Err(raised), Some(e)) if raised.is_instance(py, &sigbank_error(py)?) => Err(read(e)),
            (done, _) => done.map(|v| (v.units, v.records, v.bytes)),
        }
    }
}

fn sigbank_error(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    PyModule::import(py, "sigbank.errors")?.getattr("SigbankError")
}
