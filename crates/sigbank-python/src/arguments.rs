//! Arguments that several functions take.

use crate::errors::raise;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use sigbank::store::{StorageOptions, local_path};
use std::path::{Path, PathBuf};

/// A path made absolute, or an address as it is.
pub fn address(path: &Path) -> PyResult<String> {
    let text = path.to_str().ok_or_else(|| PyValueError::new_err(format!("the path {path:?} is not UTF-8")))?;
    if text.is_empty() {
        return Err(raise(sigbank::Error::not_found("an empty path is given")));
    }
    if local_path(text).is_none() {
        return Ok(text.to_owned());
    }
    let absolute = std::path::absolute(local_path(text).unwrap_or(path))?;
    Ok(absolute.to_str().unwrap_or(text).to_owned())
}

/// Settings of a storage service by name. Numbers, truths and paths may be given as such.
pub struct Settings(pub StorageOptions);

impl<'a, 'py> FromPyObject<'a, 'py> for Settings {
    type Error = PyErr;

    fn extract(value: pyo3::Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let items = value.call_method0("items").map_err(|_| {
            PyTypeError::new_err(format!("storage_options are settings by name, a mapping; found {}", value.get_type()))
        })?;
        let mut settings = StorageOptions::new();
        for item in items.try_iter()? {
            let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item?.extract()?;
            let name: String = name
                .extract()
                .map_err(|_| PyTypeError::new_err(format!("storage_options: the name of a setting is text, found {name}")))?;
            let text = setting(&value).ok_or_else(|| {
                let kind = value.get_type();
                PyTypeError::new_err(format!(
                    "storage_options: {name} is text, a number or True or False; found {value} ({kind})"
                ))
            })?;
            settings.insert(name, text);
        }
        Ok(Self(settings))
    }
}

/// The settings given, or none.
pub fn settings(given: Option<Settings>) -> StorageOptions {
    given.map(|settings| settings.0).unwrap_or_default()
}

/// A setting's value as text.
fn setting(value: &Bound<'_, PyAny>) -> Option<String> {
    if let Ok(truth) = value.cast::<PyBool>() {
        return Some(truth.is_true().to_string());
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyString>() {
        return value.str().ok().map(|text| text.to_string());
    }
    value.extract::<PathBuf>().ok()?.into_os_string().into_string().ok()
}

/// A version as it may be given: a number or text.
pub fn version_text(version: &Bound<'_, PyAny>) -> PyResult<String> {
    if version.is_instance_of::<PyString>() || version.is_instance_of::<PyInt>() {
        return Ok(version.str()?.to_string());
    }
    Err(PyTypeError::new_err(format!("a version is a number or text, found {version}")))
}

/// A whole number from 0 on; what is none is a `TypeError` that names the argument.
pub struct Whole(pub u64);

impl<'a, 'py> FromPyObject<'a, 'py> for Whole {
    type Error = PyErr;

    fn extract(value: pyo3::Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let found = value.extract::<u64>().map(Self);
        found.map_err(|_| PyTypeError::new_err(format!("a whole number from 0 on is expected, found {}", value.to_owned())))
    }
}

impl Whole {
    /// As a size in memory.
    pub fn size(&self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}
