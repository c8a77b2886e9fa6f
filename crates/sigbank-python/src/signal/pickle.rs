//! Frozen objects as they are pickled: read-only mappings, which Python cannot pickle, travel as dicts.

use crate::convert::make;
use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMappingProxy, PyTuple, PyType};

/// The values of an object's slots, in their order, with read-only mappings as dicts.
#[pyfunction]
pub fn signal_thaw<'py>(object: &Bound<'py, PyAny>, slots: Vec<Py<PyAny>>) -> PyResult<Bound<'py, PyTuple>> {
    let py = object.py();
    let values = slots.iter().map(|slot| thawed(&object.getattr(slot.bind(py).cast()?)?));
    PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)
}

/// An object from the values of its slots, with dicts as read-only mappings and arrays made read-only.
#[pyfunction]
pub fn signal_restore<'py>(
    class: &Bound<'py, PyType>,
    slots: Vec<Py<PyAny>>,
    values: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let values = values.iter().map(restored).collect::<PyResult<Vec<_>>>()?;
    make(class, &slots, &values)
}

fn each<'py>(
    mapping: &Bound<'py, PyAny>,
    one: impl Fn(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = mapping.py();
    let dict = PyDict::new(py);
    for pair in mapping.call_method0(intern!(py, "items"))?.try_iter()? {
        let (key, item): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair?.extract()?;
        dict.set_item(key, one(&item)?)?;
    }
    Ok(dict)
}

fn thawed<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if value.is_instance_of::<PyMappingProxy>() {
        return Ok(each(value, thawed)?.into_any());
    }
    match value.cast_exact::<PyTuple>() {
        Ok(tuple) => {
            let items = tuple.iter().map(|item| thawed(&item)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(value.py(), items)?.into_any())
        }
        Err(_) => Ok(value.clone()),
    }
}

fn restored<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if value.is_exact_instance_of::<PyDict>() {
        return Ok(super::json::proxy(&each(value, restored)?));
    }
    if value.cast::<PyUntypedArray>().is_ok() {
        value.getattr(intern!(py, "flags"))?.setattr(intern!(py, "writeable"), false)?;
    }
    match value.cast_exact::<PyTuple>() {
        Ok(tuple) => {
            let items = tuple.iter().map(|item| restored(&item)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, items)?.into_any())
        }
        Err(_) => Ok(value.clone()),
    }
}
