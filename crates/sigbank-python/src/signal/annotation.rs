//! Annotations of a dataset's records.

use super::dataset::{Places, places};
use super::errors::{During, invalid_value, raise, within};
use super::give::SharedGiver;
use super::json::{give, json};
use super::take::{fields, length, optional, string};
use super::write::Handed;
use pyo3::exceptions::PyKeyError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use sigbank::layout::signal_dataset::{
    AnnotationCatalog, AnnotationOptions, AnnotationRow, AnnotationSet, AnnotationShard, AnnotationStatus, Dataset,
    publish_annotation_shards, publish_annotations, write_annotation_shard,
};

/// The annotation sets of a dataset at one time.
#[pyclass(frozen, module = "sigbank._native")]
pub struct SignalAnnotations(AnnotationCatalog);

impl SignalAnnotations {
    pub fn new(catalog: AnnotationCatalog) -> Self {
        Self(catalog)
    }
}

#[pymethods]
impl SignalAnnotations {
    #[getter]
    fn revision(&self) -> Option<&str> {
        self.0.revision()
    }
    fn names(&self) -> Vec<&str> {
        self.0.names().collect()
    }
    fn open(&self, py: Python<'_>, name: &str) -> PyResult<SignalAnnotationSet> {
        if !self.0.names().any(|known| known == name) {
            return Err(PyKeyError::new_err(name.to_owned()));
        }
        Ok(SignalAnnotationSet::new(py.detach(|| self.0.open(name)).map_err(|e| raise(e, During::Open))?))
    }
}

/// A set of annotations: one for each record.
#[pyclass(frozen, module = "sigbank._native")]
pub struct SignalAnnotationSet {
    set: AnnotationSet,
    giver: SharedGiver,
}

impl SignalAnnotationSet {
    fn new(set: AnnotationSet) -> Self {
        Self { set, giver: SharedGiver::new() }
    }
}

#[pymethods]
impl SignalAnnotationSet {
    #[getter]
    fn name(&self) -> &str {
        self.set.name()
    }
    #[getter]
    fn publication_id(&self) -> &str {
        self.set.publication_id()
    }
    #[getter]
    fn source_snapshot_id(&self) -> &str {
        self.set.source_snapshot_id()
    }
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        give(py, self.set.metadata())
    }
    fn __len__(&self) -> usize {
        usize::try_from(self.set.len()).unwrap_or(usize::MAX)
    }
    fn row<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let read = |ordinal| py.detach(|| self.set.row(ordinal)).map_err(|e| raise(e, During::Read));
        match places(key, self.set.len(), "annotation")? {
            Places::One(ordinal) => {
                let row = read(ordinal)?;
                self.giver.with(|giver| giver.annotation(py, row))
            }
            Places::Many(ordinals) => {
                let rows = ordinals.into_iter().map(read).collect::<PyResult<Vec<_>>>()?;
                self.giver.with(|giver| {
                    let rows = rows.into_iter().map(|row| giver.annotation(py, row)).collect::<PyResult<Vec<_>>>()?;
                    Ok(PyList::new(py, rows)?.into_any())
                })
            }
        }
    }
}

/// An annotation of Python's.
fn taken(record: &Bound<'_, PyAny>) -> PyResult<AnnotationRow> {
    let py = record.py();
    let status = record.getattr(intern!(py, "status"))?;
    let id = string(&record.getattr(intern!(py, "source_record_id"))?, "source_record_id")?;
    let told = |e| within(py, &format!("annotation of record '{id}'"), e);
    let word = string(&status, "its status").map_err(told)?;
    let status = AnnotationStatus::from_word(&word)
        .ok_or_else(|| told(invalid_value(format!("its status is '{word}', which is none of success, skipped and failed"))))?;
    let object = |name| record.getattr(name).and_then(|value: Bound<'_, PyAny>| json(&value)).map_err(told);
    let (says, data) = fields(&record.getattr(intern!(py, "fields"))?, &told)?;
    Ok(AnnotationRow {
        source_index: length(&record.getattr(intern!(py, "source_index"))?, "source_index").map_err(told)?,
        status,
        values: object(intern!(py, "values"))?,
        provenance: object(intern!(py, "provenance"))?,
        detail_status: optional(&record.getattr(intern!(py, "detail_status"))?, "its detail_status").map_err(told)?,
        fields: says,
        data,
        source_record_id: id.clone(),
    })
}

/// The options of an `AnnotationOptions`; None is the default.
pub fn options(metadata: Option<&Bound<'_, PyAny>>, options: Option<&Bound<'_, PyAny>>) -> PyResult<AnnotationOptions> {
    let mut all = AnnotationOptions::default();
    if let Some(metadata) = metadata {
        all.metadata = json(metadata)?;
    }
    if let Some(options) = options {
        let py = options.py();
        all.records_per_shard = options.getattr(intern!(py, "records_per_shard"))?.extract()?;
        all.catalog_retry_limit = options.getattr(intern!(py, "catalog_retry_limit"))?.extract()?;
        all.publication_id = options.getattr(intern!(py, "publication_id"))?.extract()?;
    }
    Ok(all)
}

pub fn publish(
    py: Python<'_>,
    dataset: &Dataset,
    name: &str,
    records: &Bound<'_, PyAny>,
    options: &AnnotationOptions,
) -> PyResult<SignalAnnotationSet> {
    let rows = Handed::new(records, taken)?;
    let raising = rows.raising(During::Publish);
    Ok(SignalAnnotationSet::new(py.detach(|| publish_annotations(dataset, name, rows, options)).map_err(raising)?))
}

pub fn write_shard<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    (name, publication_id): (&str, &str),
    first_ordinal: u64,
    records: &Bound<'py, PyAny>,
    logical_shard_id: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let rows = records.try_iter()?.map(|record| taken(&record?)).collect::<PyResult<Vec<_>>>()?;
    let shard = py
        .detach(|| write_annotation_shard(dataset, name, publication_id, first_ordinal, rows, logical_shard_id))
        .map_err(|e| raise(e, During::Publish))?;
    let texts = |texts: Vec<String>| PyTuple::new(py, texts);
    let values = (
        shard.name,
        shard.publication_id,
        shard.source_snapshot_id,
        shard.logical_shard_id,
        shard.first_ordinal,
        texts(shard.record_ids)?,
        shard.uri,
        shard.stored_bytes,
        py.None(),
        texts(shard.statuses)?,
        texts(shard.terminal_statuses)?,
    );
    Ok(values.into_pyobject(py)?.into_any())
}

pub fn publish_shards(
    py: Python<'_>,
    dataset: &Dataset,
    (name, publication_id): (&str, &str),
    published: &Bound<'_, PyAny>,
    options: &AnnotationOptions,
) -> PyResult<SignalAnnotationSet> {
    let shards = published.try_iter()?.map(|shard| shard_of(&shard?)).collect::<PyResult<Vec<_>>>()?;
    let set = py.detach(|| publish_annotation_shards(dataset, name, publication_id, &shards, options));
    Ok(SignalAnnotationSet::new(set.map_err(|e| raise(e, During::Publish))?))
}

fn shard_of(shard: &Bound<'_, PyAny>) -> PyResult<AnnotationShard> {
    let py = shard.py();
    let text = |name| shard.getattr(name).and_then(|value: Bound<'_, PyAny>| value.extract::<String>());
    let texts = |name| shard.getattr(name).and_then(|value: Bound<'_, PyAny>| value.extract::<Vec<String>>());
    let number = |name| shard.getattr(name).and_then(|value: Bound<'_, PyAny>| value.extract::<u64>());
    Ok(AnnotationShard {
        name: text(intern!(py, "name"))?,
        publication_id: text(intern!(py, "publication_id"))?,
        source_snapshot_id: text(intern!(py, "source_snapshot_id"))?,
        logical_shard_id: text(intern!(py, "logical_shard_id"))?,
        first_ordinal: number(intern!(py, "first_ordinal"))?,
        record_ids: texts(intern!(py, "record_ids"))?,
        uri: text(intern!(py, "uri"))?,
        stored_bytes: number(intern!(py, "stored_bytes"))?,
        statuses: texts(intern!(py, "statuses"))?,
        terminal_statuses: texts(intern!(py, "terminal_statuses"))?,
    })
}
