//! The core's errors as Python's. The classes are those of `sigbank.errors`, each of which is a built-in one too.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use sigbank::{Code, Error};

/// The class of a code. A new code does not compile until it has one.
pub fn class_name(code: Code) -> &'static str {
    match code {
        Code::NotFound => "NotFoundError",
        Code::AlreadyExists => "AlreadyExistsError",
        Code::Corrupt => "CorruptError",
        Code::Unsupported => "UnsupportedError",
        Code::Invalid => "InvalidError",
        Code::Conflict => "ConflictError",
        Code::ReadOnly => "ReadOnlyError",
        Code::Storage => "StorageError",
        Code::Limit => "LimitError",
    }
}

/// Raises an error of the core.
pub fn raise(error: Error) -> PyErr {
    Python::attach(|py| {
        static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let class = MODULE
            .get_or_try_init(py, || PyModule::import(py, "sigbank.errors").map(Bound::unbind))
            .and_then(|m| m.bind(py).getattr(class_name(error.code())))
            .and_then(|c| Ok(c.cast_into::<PyType>()?));
        match class {
            Ok(class) => PyErr::from_type(class, error.to_string()),
            Err(e) => e,
        }
    })
}

/// A `KeyError` for a split that is not there, as the reference raises.
pub fn missing_split(source: &dyn sigbank::layout::Source, split: &str) -> PyErr {
    let names: Vec<String> = source.splits().into_iter().map(|s| s.name).collect();
    let names = if names.is_empty() { vec!["none yet".to_owned()] } else { names };
    pyo3::exceptions::PyKeyError::new_err(format!(
        "{}: there is no split '{split}'; there are: {}",
        source.location(),
        names.join(", ")
    ))
}
