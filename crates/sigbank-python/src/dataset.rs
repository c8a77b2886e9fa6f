//! `sigbank.open`: a dataset whatever its layout.

pub use crate::arguments::{Settings, Whole, address};
use crate::arguments::{settings, version_text};
use crate::errors::{missing_split, raise};
use crate::give::{as_stored, is_absent};
use crate::iterate::BatchIterator;
pub use crate::progress::with_progress;
use crate::values::descr;
use crate::windows::Of;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice, PyTuple, PyType};
use sigbank::error::Code;
use sigbank::format::model::FieldType;
use sigbank::layout::signal_dataset::versions::dataset_at_version;
use sigbank::layout::{Annotation, OwnFields, Source, Stored};
use sigbank::loader::{Options, Shuffle};
use sigbank::store::StorageOptions;
use std::path::PathBuf;
use std::sync::Arc;

/// Opening that takes so many requests is warned of.
const WORTH_A_WORD: u64 = 1000;

/// JSON as Python objects.
fn json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    PyModule::import(py, "json")?.call_method1("loads", (text,))
}

/// Open a dataset of any layout, read-only: in a folder, or at an address such as `s3://bucket/prefix`.
///
/// `storage_options` are the settings of the storage service by name, beside what the environment says.
///
/// A JBOF data set in a bucket is opened by its index where it has one that stands (`sigbank find PLACE --index`); else a look at each item costs several
/// requests, and a `UserWarning` tells it where they are many.
///
/// `version` is that of a signal-dataset: a number, a name, `sha256:` and 12 digits or more, or `latest`; None is what all readers see.
///
/// Raises:
///     NotFoundError: (a FileNotFoundError) nothing is there, or no such version.
///     UnsupportedError: (a ValueError) what is there is no dataset of a known layout, or is newer than this package.
///     CorruptError: (a ValueError) its root is damaged.
#[pyfunction]
#[pyo3(signature = (path, *, version=None, storage_options=None))]
pub fn open(
    py: Python<'_>,
    path: PathBuf,
    version: Option<&Bound<'_, PyAny>>,
    storage_options: Option<Settings>,
) -> PyResult<Dataset> {
    let version = version.map(version_text).transpose()?;
    let address = address(&path)?;
    let options = settings(storage_options);
    let open = || -> sigbank::Result<(Arc<dyn Source>, Option<String>)> {
        let Some(version) = &version else { return Ok((sigbank::query::open_source(&address, &options)?, None)) };
        let dataset = dataset_at_version(&address, Some(version), &options)?;
        let name = match dataset.version_document() {
            Some(version) => format!("{} '{}'", version.number, version.name),
            None => format!("0 '{}'", dataset.snapshot_id()),
        };
        Ok((Arc::new(dataset.source()?), Some(name)))
    };
    let (source, version) = py.detach(open).map_err(raise)?;
    if let Some((requests, how)) = source.opening_cost().filter(|(requests, _)| *requests >= WORTH_A_WORD) {
        let text = std::ffi::CString::new(format!("opening {address} took about {requests} requests; {how}"))?;
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
    }
    Ok(Dataset { source, path: address, options, version, windows: None })
}

/// One field of a schema.
#[pyclass(frozen, get_all, module = "sigbank._native")]
pub struct Field {
    name: String,
    dtype: Py<PyAny>,
    shape: Option<Py<PyTuple>>,
    metadata: Py<PyAny>,
}

#[pymethods]
impl Field {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let dtype = match self.dtype.bind(py).cast::<PyType>() {
            Ok(own) => own.name()?.to_string(),
            Err(_) => self.dtype.bind(py).to_string(),
        };
        Ok(match &self.shape {
            Some(shape) => format!("Field({:?}, {dtype}, {})", self.name, shape.bind(py)),
            None => format!("Field({:?}, {dtype})", self.name),
        })
    }
}

/// A dataset, whatever its layout.
#[pyclass(frozen, module = "sigbank._native")]
pub struct Dataset {
    pub source: Arc<dyn Source>,
    pub path: String,
    pub options: StorageOptions,
    /// Which version it is, where one was asked for: then it is opened again by its digest.
    pub version: Option<String>,
    pub windows: Option<Of>,
}

impl Dataset {
    /// The split and the place in it of a record counted over all splits.
    fn place(&self, index: i64) -> PyResult<(String, u64)> {
        let splits = self.source.splits();
        let total: u64 = splits.iter().map(|s| s.records).sum();
        let from_end = if index < 0 { i128::from(index) + i128::from(total) } else { i128::from(index) };
        let mut left = u64::try_from(from_end)
            .ok()
            .filter(|&i| i < total)
            .ok_or_else(|| PyIndexError::new_err(format!("{}: record {index} of {total}", self.path)))?;
        for split in splits {
            if left < split.records {
                return Ok((split.name, left));
            }
            left -= split.records;
        }
        Err(PyIndexError::new_err(format!("record {index} of {total}")))
    }

    fn known(&self, split: &str) -> PyResult<u64> {
        let found = self.source.splits().into_iter().find(|s| s.name == split);
        found.map(|s| s.records).ok_or_else(|| missing_split(&*self.source, split))
    }

    fn read<'py>(&self, py: Python<'py>, split: &str, ordinals: &[u64]) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let read = || -> sigbank::Result<Result<Vec<OwnFields>, Vec<Vec<Stored>>>> {
            if let Some(own) = self.source.read_own(split, ordinals)? {
                return Ok(Ok(own));
            }
            let fields: Vec<usize> = (0..self.source.schema().fields.len()).collect();
            sigbank::layout::read_stored(&*self.source, split, ordinals, &fields).map(Err)
        };
        match py.detach(read).map_err(raise)? {
            Ok(own) => own.iter().map(|record| own_example(py, record)).collect(),
            Err(rows) => rows.iter().map(|row| self.example(py, row)).collect(),
        }
    }

    /// With the schema of all records.
    fn exact(&self, py: Python<'_>) -> PyResult<Arc<dyn Source>> {
        let exact = py.detach(|| self.source.exact(false)).map_err(raise)?;
        Ok(exact.unwrap_or_else(|| Arc::clone(&self.source)))
    }

    fn example<'py>(&self, py: Python<'py>, row: &[Stored]) -> PyResult<Bound<'py, PyDict>> {
        let example = PyDict::new(py);
        for (field, value) in self.source.schema().fields.iter().zip(row) {
            if field.metadata.contains_key("ragged") && is_absent(value) {
                continue;
            }
            example.set_item(&field.name, as_stored(py, &field.ty, value)?)?;
        }
        Ok(example)
    }
}

/// A record with the fields that it has itself.
fn own_example<'py>(py: Python<'py>, record: &OwnFields) -> PyResult<Bound<'py, PyDict>> {
    let example = PyDict::new(py);
    for (name, value) in record {
        example.set_item(name, as_stored(py, &FieldType::Bytes { len: None }, value)?)?;
    }
    Ok(example)
}

/// An annotation as a row of a table.
fn annotation<'py>(py: Python<'py>, said: &Annotation) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("id", &said.id)?;
    row.set_item("status", said.status)?;
    row.set_item("detail_status", &said.detail_status)?;
    row.set_item("values", json(py, &serde_json::to_string(&said.values).unwrap_or_default())?)?;
    Ok(row)
}

#[pymethods]
impl Dataset {
    /// Where it is.
    #[getter]
    fn path(&self) -> &str {
        &self.path
    }
    /// The layout's name.
    #[getter]
    fn layout(&self) -> &'static str {
        self.source.layout()
    }
    /// The dataset's metadata.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json(py, &serde_json::to_string(self.source.metadata()).unwrap_or_default())
    }
    /// Records by split.
    #[getter]
    fn splits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let splits = PyDict::new(py);
        for split in self.source.splits() {
            splits.set_item(split.name, split.records)?;
        }
        Ok(splits)
    }
    /// The fields by name, in stored order. Of a signal-dataset what is said of every record is read for it, once.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let schema = PyDict::new(py);
        for field in &self.exact(py)?.schema().fields {
            let builtin = |name: &str| PyModule::import(py, "builtins")?.getattr(name);
            let (dtype, shape) = match (&field.ty, descr(py, &field.ty)?) {
                (FieldType::Array { shape, .. }, Some(d)) => (d.into_any(), Some(PyTuple::new(py, shape)?.unbind())),
                (FieldType::Int, _) => (builtin("int")?, Some(PyTuple::empty(py).unbind())),
                (FieldType::Str, _) => (builtin("str")?, None),
                (FieldType::Bytes { .. }, _) if field.metadata.contains_key("ragged") => {
                    // Of records' arrays at least the dtype may be the same.
                    let name = field.metadata.get("dtype").and_then(|name| name.as_str());
                    let dtype = name.map(|name| PyModule::import(py, "numpy")?.call_method1("dtype", (name,))).transpose()?;
                    (dtype.unwrap_or_else(|| py.None().into_bound(py)), None)
                }
                (FieldType::Bytes { len }, _) => {
                    (builtin("bytes")?, len.map(|n| PyTuple::new(py, [n])).transpose()?.map(Bound::unbind))
                }
                (FieldType::Array { .. }, None) => return Err(PyTypeError::new_err("no dtype")),
            };
            let metadata = json(py, &serde_json::to_string(&field.metadata).unwrap_or_default())?.unbind();
            schema.set_item(
                &field.name,
                Field { name: field.name.clone(), dtype: dtype.unbind(), shape, metadata }.into_pyobject(py)?,
            )?;
        }
        Ok(schema)
    }
    /// The digest that names this state of the dataset.
    #[getter]
    fn root_digest(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.source.root_digest()).map_err(raise)
    }

    fn __len__(&self) -> usize {
        self.source.splits().iter().map(|s| s.records as usize).sum()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = key.cast::<PySlice>() {
            let range = slice.indices(self.__len__() as isize)?;
            let mut all = Vec::with_capacity(range.slicelength);
            let steps = (0..range.slicelength as isize).map(|step| self.place((range.start + step * range.step) as i64));
            let places = steps.collect::<PyResult<Vec<_>>>()?;
            for run in places.chunk_by(|a, b| a.0 == b.0) {
                let ordinals: Vec<u64> = run.iter().map(|place| place.1).collect();
                if let Some((split, _)) = run.first() {
                    all.extend(self.read(py, split, &ordinals)?);
                }
            }
            return Ok(PyList::new(py, all)?.into_any());
        }
        let (split, ordinal) = match key.extract::<(String, i64)>() {
            Ok((split, index)) => {
                let records = self.known(&split)?;
                let from_end = if index < 0 { i128::from(index) + i128::from(records) } else { i128::from(index) };
                let ordinal = u64::try_from(from_end).ok().filter(|&i| i < records);
                let ordinal =
                    ordinal.ok_or_else(|| PyIndexError::new_err(format!("record {index} of {records} in split '{split}'")))?;
                (split, ordinal)
            }
            Err(_) => match key.call_method0("__index__").and_then(|i| i.extract::<i64>()) {
                Ok(index) => self.place(index)?,
                Err(_) => return Err(PyTypeError::new_err("an index, a slice or (split, index) is expected")),
            },
        };
        let mut one = self.read(py, &split, &[ordinal])?;
        one.pop().map(Bound::into_any).ok_or_else(|| PyIndexError::new_err("no record"))
    }

    /// The ids of all records, in order, split by split.
    ///
    /// Raises:
    ///     UnsupportedError: the layout's records have no ids (Sedpack's), and windows have none.
    fn ids(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.windows.as_ref().map_or(Ok(()), |of| of.refuse_ids(&self.path))?;
        let all = || {
            let mut ids = Vec::new();
            for split in self.source.splits() {
                ids.extend(self.source.ids(&split.name, 0..split.records)?);
            }
            Ok(ids)
        };
        py.detach(all).map_err(raise)
    }

    /// The record of an id, as `[i]` gives it. What is said of all records is read the first time.
    ///
    /// Raises:
    ///     KeyError: no record has it; the message names ids that are near.
    ///     InvalidError: (a ValueError) several have it.
    ///     UnsupportedError: the layout's records have no ids (Sedpack's), and windows have none.
    fn by_id<'py>(&self, py: Python<'py>, id: &str) -> PyResult<Bound<'py, PyDict>> {
        self.windows.as_ref().map_or(Ok(()), |of| of.refuse_ids(&self.path))?;
        let (split, ordinal) = py.detach(|| self.source.by_id(id)).map_err(|e| match e.code() {
            Code::NotFound => PyKeyError::new_err(e.to_string()),
            _ => raise(e),
        })?;
        let mut one = self.read(py, &split, &[ordinal])?;
        one.pop().ok_or_else(|| PyKeyError::new_err(format!("no record '{id}'")))
    }

    /// The names of the sets of annotations that there are now: what was said of the records after they were published. Layouts other than
    /// signal-dataset have none.
    fn annotation_sets(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| self.source.annotation_sets()).map_err(raise)
    }

    /// What a set of annotations says, as it is now: a dict for each record, in order, with `id`, `status` ("success", "skipped" or "failed"),
    /// `detail_status` and `values`, a dict. `pandas.json_normalize` makes a table of it.
    ///
    /// Raises:
    ///     NotFoundError: (a FileNotFoundError) there is no such set; the message names those there are.
    fn annotations<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let all = || {
            let mut all = Vec::new();
            for split in self.source.splits() {
                for said in self.source.annotations(name, &split.name, 0..split.records)? {
                    all.push(said?);
                }
            }
            Ok(all)
        };
        py.detach(all).map_err(raise)?.iter().map(|said| annotation(py, said)).collect()
    }

    /// Windows of a field of recordings, as a dataset: its records have the field (`length` rows of it), `item` (the recording's id) and `start` (the
    /// window's first row), `hop` rows after the one before (by default `length`). What fills no window at an end is left out.
    ///
    /// Raises:
    ///     UnsupportedError: for layouts other than JBOF.
    #[pyo3(signature = (field, length, hop=None))]
    fn windows(slf: &Bound<'_, Self>, field: &str, length: Whole, hop: Option<Whole>) -> PyResult<Self> {
        crate::windows::windows(slf, field, length.0, hop.map_or(length.0, |hop| hop.0))
    }

    /// The records for which an expression holds, as a dataset: see `sigbank.query`.
    #[pyo3(name = "where")]
    fn where_(slf: &Bound<'_, Self>, expression: &str) -> PyResult<Self> {
        crate::query::select(slf, expression)
    }
    /// The numbers of the records for which an expression holds, counted over all splits: see `sigbank.query`.
    fn find(slf: &Bound<'_, Self>, expression: &str) -> PyResult<Vec<u64>> {
        crate::query::find(slf, expression)
    }
    /// Batches of a split, read ahead by threads: dicts of arrays whose first axis is the batch, and lists for what is no array.
    ///
    /// Of a field whose dtype or shape is not the same in all records the list holds an array for each record, and None for one that lacks it.
    ///
    /// Args:
    ///     split: the split; KeyError when there is none of that name.
    ///     batch_size: records in a batch; the last one may have fewer.
    ///     shuffle: False or None for the stored order; how many records to mix at once; True for a permutation of all records
    ///         where they can be read singly (uncompressed data), and 10,000 at once elsewhere.
    ///     seed: what the order depends on, beside the epoch: the same everywhere, whatever the number of threads.
    ///     epochs: how often to go through the records, each time in another order when shuffled; None is for ever.
    ///     fields: names of the fields to read, all by default; KeyError for an unknown one.
    ///     threads: threads that read and decode; 0 is one a processor.
    ///     start: the position to begin at: `position` of an iterator over the same records with the same shuffle and seed.
    ///     drop_last: leave out a last batch that is not full.
    ///     prefetch_bytes: bytes of records to read ahead, beyond what the shuffle needs; by default a few batches, or two shards
    ///         where shards are decoded as a whole.
    ///
    /// Raises:
    ///     CorruptError, NotFoundError, StorageError: while iterating; they name the shard, the record and the field. The shards'
    ///         checksums in their lists are not compared on reading: that is what `verify` does. Those inside npz shards are, once
    ///         for each shard and before its first value.
    ///     UnsupportedError: while iterating, where values are stored as another type than the declared one, which an index keeps.
    ///
    /// Warns:
    ///     UserWarning: of a signal-dataset in a bucket, where a record is met that differs from those that the fields were taken from: the
    ///         same records follow in the same order, in the form that fits all. Look at `schema` first to have all batches alike.
    #[pyo3(
        signature = (split, batch_size, shuffle=None, seed=Whole(0), *, epochs=Some(Whole(1)), fields=None, threads=Whole(0), start=Whole(0), drop_last=false, prefetch_bytes=None),
        text_signature = "(self, split, batch_size, shuffle=None, seed=0, *, epochs=1, fields=None, threads=0, start=0, drop_last=False, prefetch_bytes=None)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn batches(
        &self,
        py: Python<'_>,
        split: &str,
        batch_size: Whole,
        shuffle: Option<&Bound<'_, PyAny>>,
        seed: Whole,
        epochs: Option<Whole>,
        fields: Option<Vec<String>>,
        threads: Whole,
        start: Whole,
        drop_last: bool,
        prefetch_bytes: Option<Whole>,
    ) -> PyResult<BatchIterator> {
        if self.known(split)? == 0 {
            self.windows.as_ref().map_or(Ok(()), |of| of.refuse_none(&self.path, split))?;
        }
        let mut source = py.detach(|| self.source.exact(true)).map_err(raise)?.unwrap_or_else(|| Arc::clone(&self.source));
        let known = |source: &dyn Source| fields.iter().flatten().all(|name| source.schema().position(name).is_some());
        if source.schema_of().is_some() && !known(&*source) {
            source = self.exact(py)?;
        }
        let names = fields;
        let fields = names.as_deref().map(|names| positions(&*source, names)).transpose()?;
        let shuffle = match shuffle {
            None => Shuffle::None,
            Some(s) => match s.extract::<bool>() {
                Ok(false) => Shuffle::None,
                Ok(true) if self.source.random_access() => Shuffle::Global,
                Ok(true) => Shuffle::Buffer(DEFAULT_BUFFER),
                Err(_) => match s.extract::<Whole>().map_err(|e| PyTypeError::new_err(format!("shuffle: {}", e.value(py))))?.0 {
                    0 => Shuffle::None,
                    n => Shuffle::Buffer(n),
                },
            },
        };
        let options = Options {
            shuffle,
            seed: seed.0,
            epochs: epochs.map(|n| n.0),
            fields,
            threads: threads.size(),
            start: start.0,
            drop_last,
            prefetch_bytes: prefetch_bytes.map(|n| n.size()),
            ragged: true,
            ..Options::new(split, batch_size.size())
        };
        BatchIterator::new(py, &source, options, names)
    }

    /// Compare everything with its checksums, without writing; gives (shards, records, bytes) when nothing is wrong.
    ///
    /// Args:
    ///     progress: hears (shards done, shards in all); what it raises ends the run.
    ///
    /// Raises:
    ///     CorruptError, NotFoundError: with the first file that is wrong.
    #[pyo3(signature = (progress=None))]
    fn verify(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<(u64, u64, u64)> {
        let done = with_progress(py, progress, |tell| self.source.verify(tell))?;
        Ok((done.units, done.records, done.bytes))
    }

    fn __repr__(&self) -> String {
        let splits: Vec<String> = self.source.splits().iter().map(|s| format!("{} {}", s.name, s.records)).collect();
        let mut version = self.version.as_ref().map(|version| format!(", version {version}")).unwrap_or_default();
        version += &self.windows.as_ref().map(Of::words).unwrap_or_default();
        format!(
            "Dataset({:?}, {}{version}, {})",
            self.path,
            self.layout(),
            if splits.is_empty() { "empty".into() } else { splits.join(", ") }
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        crate::query::reduce(slf)
    }
}

/// Where fields are in the schema.
pub fn positions(source: &dyn Source, names: &[String]) -> PyResult<Vec<usize>> {
    let schema = source.schema();
    let position = |name: &String| {
        schema.position(name).ok_or_else(|| {
            let known: Vec<&str> = schema.fields.iter().map(|f| f.name.as_str()).collect();
            PyKeyError::new_err(format!("there is no field '{name}'; there are: {}", known.join(", ")))
        })
    };
    names.iter().map(position).collect()
}

/// Records that a shuffle mixes at once where it has to decode whole shards.
const DEFAULT_BUFFER: u64 = 10_000;
