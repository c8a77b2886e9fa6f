//! Records and metadata as Python gets them.

use super::classes::model;
use super::json::{give, proxy};
use crate::convert::{Payload, Unchanging};
use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use sigbank::format::record::signal::{Axis, Coordinate, FieldMetadata, RecordMetadata};
use sigbank::layout::signal_dataset::{AnnotationRow, StoredRecord};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Makes Python's records. Records of one dataset differ in little but id, metadata and samples, so what is said of the
/// fields is made once and given again as long as it stays the same.
#[derive(Default)]
pub struct Giver {
    fields: Vec<KnownField>,
    /// The read-only mapping of the fields' metadata, as far as it has been asked for.
    mapping: Option<Py<PyAny>>,
}

/// What was said of a field the last time.
struct KnownField {
    says: FieldMetadata,
    name: Py<PyString>,
    descr: Py<PyArrayDescr>,
    axes: Py<PyAny>,
    metadata: Py<PyAny>,
}

impl KnownField {
    fn new(py: Python<'_>, says: &FieldMetadata) -> PyResult<Self> {
        let axes = says.axes.iter().map(|a| axis(py, a)).collect::<PyResult<Vec<_>>>()?;
        Ok(Self {
            name: PyString::intern(py, &says.name).unbind(),
            descr: PyArrayDescr::new(py, says.dtype.to_string())?.unbind(),
            axes: PyTuple::new(py, axes)?.into_any().unbind(),
            metadata: give(py, &says.metadata)?.unbind(),
            says: says.clone(),
        })
    }

    /// Adds a field whose array is a view of some bytes.
    fn add<'py>(&self, fields: &Bound<'py, PyDict>, payload: &Unchanging<'py>, range: &Range<usize>) -> PyResult<()> {
        let py = fields.py();
        let array = payload.array(range, self.descr.bind(py), &self.says.shape)?;
        let values = [array, self.axes.bind(py).clone(), self.metadata.bind(py).clone()];
        fields.set_item(self.name.bind(py), model(py)?.field.make(py, &values)?)
    }
}

fn axis<'py>(py: Python<'py>, axis: &Axis) -> PyResult<Bound<'py, PyAny>> {
    model(py)?.axis.make(
        py,
        &[
            PyString::intern(py, &axis.name).into_any(),
            axis.length.into_pyobject(py)?.into_any(),
            text(py, axis.role.as_deref()),
            text(py, axis.id.as_deref()),
            axis.coordinate.as_ref().map_or_else(|| Ok(py.None().into_bound(py)), |c| coordinate(py, c))?,
            give(py, &axis.metadata)?,
        ],
    )
}

fn coordinate<'py>(py: Python<'py>, coordinate: &Coordinate) -> PyResult<Bound<'py, PyAny>> {
    let json = |value: &Option<_>| value.as_ref().map_or_else(|| Ok(py.None().into_bound(py)), |v| give(py, v));
    model(py)?.coordinate.make(
        py,
        &[
            json(&coordinate.values)?,
            json(&coordinate.start)?,
            json(&coordinate.step)?,
            text(py, coordinate.reference.as_deref()),
            text(py, coordinate.unit.as_deref()),
            give(py, &coordinate.metadata)?,
        ],
    )
}

fn text<'py>(py: Python<'py>, text: Option<&str>) -> Bound<'py, PyAny> {
    text.map_or_else(|| py.None().into_bound(py), |t| PyString::new(py, t).into_any())
}

/// A giver that several threads use.
#[derive(Default)]
pub struct SharedGiver(Mutex<Option<Giver>>);

impl SharedGiver {
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Takes the giver out while it is used, since making objects may run any Python code: whoever comes meanwhile takes a new one.
    pub fn with<T>(&self, give: impl FnOnce(&mut Giver) -> PyResult<T>) -> PyResult<T> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut giver = lock().take().unwrap_or_default();
        let given = give(&mut giver);
        *lock() = Some(giver);
        given
    }
}

impl Giver {
    /// Makes what is said of these fields, where it is not what was said the last time.
    fn know(&mut self, py: Python<'_>, fields: &[FieldMetadata]) -> PyResult<()> {
        if fields.len() == self.fields.len() && self.fields.iter().zip(fields).all(|(known, says)| known.says == *says) {
            return Ok(());
        }
        self.mapping = None;
        self.fields.truncate(fields.len());
        for (i, says) in fields.iter().enumerate() {
            match self.fields.get_mut(i) {
                Some(known) if known.says == *says => {}
                Some(known) => *known = KnownField::new(py, says)?,
                None => self.fields.push(KnownField::new(py, says)?),
            }
        }
        Ok(())
    }

    /// A record that was read.
    pub fn stored<'py>(&mut self, py: Python<'py>, record: StoredRecord) -> PyResult<Bound<'py, PyAny>> {
        let (payload, says, data) = record.into_parts();
        self.record(py, &says, &data, &Unchanging::Native(Bound::new(py, Payload(payload))?))
    }

    /// A record whose arrays are read-only views of its bytes.
    pub fn record<'py>(
        &mut self,
        py: Python<'py>,
        says: &RecordMetadata,
        data: &[Range<usize>],
        payload: &Unchanging<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.know(py, &says.fields)?;
        let fields = PyDict::new(py);
        for (known, range) in self.fields.iter().zip(data) {
            known.add(&fields, payload, range)?;
        }
        model(py)?.record.make(py, &identity(py, says, proxy(&fields))?)
    }

    /// The annotation of a record.
    pub fn annotation<'py>(&mut self, py: Python<'py>, row: AnnotationRow) -> PyResult<Bound<'py, PyAny>> {
        let model = model(py)?;
        self.know(py, &row.fields)?;
        let fields = PyDict::new(py);
        for (known, data) in self.fields.iter().zip(row.data) {
            let range = 0..data.len();
            known.add(&fields, &Unchanging::Native(Bound::new(py, Payload(data))?), &range)?;
        }
        let values = [
            PyString::new(py, &row.source_record_id).into_any(),
            row.source_index.into_pyobject(py)?.into_any(),
            model.status.bind(py).call1((row.status.as_str(),))?,
            give(py, &row.values)?,
            proxy(&fields),
            give(py, &row.provenance)?,
            text(py, row.detail_status.as_deref()),
        ];
        model.annotation.make(py, &values)
    }

    /// What is said of a record.
    pub fn metadata<'py>(&mut self, py: Python<'py>, record: &RecordMetadata) -> PyResult<Bound<'py, PyAny>> {
        let model = model(py)?;
        self.know(py, &record.fields)?;
        let mapping = match &self.mapping {
            Some(mapping) => mapping.bind(py).clone(),
            None => {
                let fields = PyDict::new(py);
                for known in &self.fields {
                    let dtype = PyString::intern(py, &known.says.dtype.to_string()).into_any();
                    let shape = PyTuple::new(py, &known.says.shape)?.into_any();
                    let values = [dtype, shape, known.axes.bind(py).clone(), known.metadata.bind(py).clone()];
                    fields.set_item(known.name.bind(py), model.field_metadata.make(py, &values)?)?;
                }
                let mapping = proxy(&fields);
                self.mapping = Some(mapping.clone().unbind());
                mapping
            }
        };
        model.record_metadata.make(py, &identity(py, record, mapping)?)
    }
}

fn identity<'py>(py: Python<'py>, record: &RecordMetadata, fields: Bound<'py, PyAny>) -> PyResult<[Bound<'py, PyAny>; 4]> {
    let id = PyString::new(py, &record.id).into_any();
    Ok([id, fields, text(py, record.scene_id.as_deref()), give(py, &record.metadata)?])
}
