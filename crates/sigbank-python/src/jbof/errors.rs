//! The core's errors as those of `sigbank.jbof.errors`, each of which is also what the `jbof` package raises.

use crate::errors::class_name;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use sigbank::Error;

/// An error of a class of `sigbank.jbof.errors`.
pub fn of_class(name: &str, message: String) -> PyErr {
    Python::attach(|py| {
        static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let class = MODULE
            .get_or_try_init(py, || PyModule::import(py, "sigbank.jbof.errors").map(Bound::unbind))
            .and_then(|m| m.bind(py).getattr(name))
            .and_then(|c| Ok(c.cast_into::<PyType>()?));
        match class {
            Ok(class) => PyErr::from_type(class, message),
            Err(e) => e,
        }
    })
}

/// Raises an error of the core.
pub fn raise(error: Error) -> PyErr {
    of_class(class_name(error.code()), error.to_string())
}

/// A value that cannot be stored.
pub fn invalid(message: String) -> PyErr {
    of_class("InvalidError", message)
}
