//! Errors as those of `sigbank.signal_dataset.errors`.

use pyo3::exceptions::{PyFileExistsError, PyFileNotFoundError, PyNotImplementedError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use sigbank::{Code, Error};

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

/// What was being done when an error came up: the same code means different things.
#[derive(Clone, Copy, PartialEq)]
pub enum During {
    Open,
    Read,
    WriteShard,
    Publish,
}

/// The class of an error of a dataset. A new code does not compile until it has one.
fn class_name(code: Code, during: During) -> &'static str {
    match (code, during) {
        (Code::NotFound, _) => "MissingObjectError",
        (Code::AlreadyExists, During::WriteShard) => "WorkIdReusedError",
        (Code::AlreadyExists | Code::Conflict, _) => "PublicationCollisionError",
        (Code::Invalid | Code::Limit | Code::Unsupported, During::WriteShard | During::Publish) => "ValidationError",
        (Code::Corrupt, During::WriteShard | During::Publish) => "CorruptDatasetError",
        (Code::Corrupt | Code::Unsupported | Code::Limit | Code::Invalid, During::Open) => "CorruptDatasetError",
        (Code::Corrupt | Code::Unsupported | Code::Limit | Code::Invalid, During::Read) => "CorruptRecordError",
        (Code::ReadOnly, _) => "ReadOnlyError",
        (Code::Storage, _) => "StorageError",
    }
}

/// What a store of the program's own raised, as the program knows it, except for what its interface has a meaning for: that an object is missing
/// or there already, and what tells of data.
fn of_the_program(error: &Error) -> Option<PyErr> {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(raised) = inner.downcast_ref::<PyErr>() {
            return Python::attach(|py| {
                let is_told = raised.is_instance_of::<PyFileNotFoundError>(py)
                    || raised.is_instance_of::<PyFileExistsError>(py)
                    || raised.is_instance_of::<PyValueError>(py)
                    || raised.is_instance_of::<PyNotImplementedError>(py);
                (!is_told).then(|| with_place(py, raised, error))
            });
        }
        source = inner.source();
    }
    None
}

/// The same exception, with a note that names the object where it does not do so itself.
fn with_place(py: Python<'_>, raised: &PyErr, error: &Error) -> PyErr {
    let value = raised.value(py);
    if let Some(path) = error.path()
        && !value.to_string().contains(path)
    {
        let notes = value.getattr(intern!(py, "__notes__")).and_then(|notes| notes.extract::<Vec<String>>());
        if !notes.unwrap_or_default().iter().any(|note| note == path) {
            // An exception that takes none does without.
            let _ = value.call_method1(intern!(py, "add_note"), (path,));
        }
    }
    raised.clone_ref(py)
}

/// Raises an error of a dataset.
pub fn raise(error: Error, during: During) -> PyErr {
    if let Some(raised) = of_the_program(&error) {
        return raised;
    }
    let root_is_missing = || error.path().is_some_and(|p| p.ends_with(sigbank::layout::signal_dataset::ROOT));
    if during == During::Open && error.code() == Code::NotFound && root_is_missing() {
        return crate::errors::raise(error);
    }
    of_class(class_name(error.code(), during), error.to_string())
}
