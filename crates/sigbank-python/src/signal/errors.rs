//! Errors as those of `sigbank.signal_dataset.errors`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use sigbank::Error;

/// An error of a class of `sigbank.signal_dataset.errors`.
pub fn of_class(name: &str, message: String) -> PyErr {
    Python::attach(|py| {
        static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let class = MODULE
            .get_or_try_init(py, || PyModule::import(py, "sigbank.signal_dataset.errors").map(Bound::unbind))
            .and_then(|m| m.bind(py).getattr(name))
            .and_then(|c| Ok(c.cast_into::<PyType>()?));
        match class {
            Ok(class) => PyErr::from_type(class, message),
            Err(e) => e,
        }
    })
}

/// A record that breaks a rule, whether given or read as bytes.
pub fn invalid(error: impl Into<Error>) -> PyErr {
    let error: Error = error.into();
    of_class("ValidationError", error.to_string())
}

/// The same in words.
pub fn invalid_value(message: impl Into<String>) -> PyErr {
    of_class("ValidationError", message.into())
}

/// An error of what a Python value is, told with where it stands, as a `ValidationError`; others stay as they are.
pub fn within(py: Python<'_>, place: &str, error: PyErr) -> PyErr {
    let kinds =
        (error.is_instance_of::<pyo3::exceptions::PyValueError>(py), error.is_instance_of::<pyo3::exceptions::PyTypeError>(py));
    if kinds == (false, false) {
        return error;
    }
    let told = invalid_value(format!("{place}: {}", error.value(py)));
    told.set_cause(py, error.cause(py));
    told
}
