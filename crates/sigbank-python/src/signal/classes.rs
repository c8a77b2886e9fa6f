//! The Python classes of `sigbank.signal_dataset` that are made and looked into here.

use crate::convert::make;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyMappingProxy, PyType};

/// A frozen class with slots.
pub struct Class {
    class: Py<PyType>,
    slots: Vec<Py<PyAny>>,
}

impl Class {
    fn new(module: &Bound<'_, PyModule>, name: &str, slots: &[&str]) -> PyResult<Self> {
        let slots = slots.iter().map(|slot| pyo3::types::PyString::intern(module.py(), slot).into_any().unbind()).collect();
        Ok(Self { class: module.getattr(name)?.cast_into::<PyType>()?.unbind(), slots })
    }

    /// An object of these values, in the order of the slots; nothing is checked.
    pub fn make<'py>(&self, py: Python<'py>, values: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
        make(self.class.bind(py), &self.slots, values)
    }

    pub fn holds(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        object.is_instance(self.class.bind(object.py()))
    }
}

/// The classes of the model.
pub struct Model {
    pub record: Class,
    pub field: Class,
    pub axis: Class,
    pub coordinate: Class,
    pub record_metadata: Class,
    pub field_metadata: Class,
    pub annotation: Class,
    /// The enumeration of what became of annotating a record.
    pub status: Py<PyAny>,
    /// The one empty mapping.
    empty: Py<PyAny>,
}

impl Model {
    /// Metadata that say nothing.
    pub fn empty<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.empty.bind(py).clone()
    }
}

/// The classes of the model.
pub fn model(py: Python<'_>) -> PyResult<&'static Model> {
    static MODEL: PyOnceLock<Model> = PyOnceLock::new();
    MODEL.get_or_try_init(py, || {
        let m = PyModule::import(py, "sigbank.signal_dataset.record.model")?;
        Ok(Model {
            record: Class::new(&m, "Record", &["id", "fields", "scene_id", "metadata"])?,
            field: Class::new(&m, "Field", &["data", "axes", "metadata"])?,
            axis: Class::new(&m, "Axis", &["name", "length", "role", "id", "coordinate", "metadata"])?,
            coordinate: Class::new(&m, "Coordinate", &["values", "start", "step", "reference", "unit", "metadata"])?,
            record_metadata: Class::new(&m, "RecordMetadata", &["id", "fields", "scene_id", "metadata"])?,
            field_metadata: Class::new(&m, "FieldMetadata", &["dtype", "shape", "axes", "metadata"])?,
            annotation: Class::new(
                &m,
                "AnnotationRecord",
                &["source_record_id", "source_index", "status", "values", "fields", "provenance", "detail_status"],
            )?,
            status: m.getattr("AnnotationStatus")?.unbind(),
            empty: PyMappingProxy::new(py, PyDict::new(py).as_mapping()).into_any().unbind(),
        })
    })
}
