//! JSON values between Python and the core: frozen, that is as read-only mappings and tuples.

use super::classes::model;
use super::errors::invalid;
use pyo3::exceptions::{PyRecursionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyMappingProxy, PyString, PyTuple};
use serde_json::Value;
use sigbank::format::model::json::{Json, Limits, write_float, write_string};

/// Deepest nesting of a value that is taken.
const MAX_DEPTH: usize = 900;

/// What a Python value is in JSON.
enum Kind<'a, 'py> {
    Null,
    Bool(bool),
    Int,
    Float(f64),
    Text(&'a Bound<'py, PyString>),
    List,
    Object(&'a Bound<'py, PyMapping>),
}

fn kind<'a, 'py>(value: &'a Bound<'py, PyAny>) -> PyResult<Kind<'a, 'py>> {
    let refused = || {
        let name = value.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string());
        let nan = if value.is_instance_of::<PyFloat>() { format!(" ({value})") } else { String::new() };
        PyTypeError::new_err(format!(
            "value of type {name}{nan} is not JSON-compatible: give None, bool, int, a finite float, str, a list or a mapping"
        ))
    };
    Ok(if value.is_none() {
        Kind::Null
    } else if let Ok(text) = value.cast::<PyString>() {
        Kind::Text(text)
    } else if let Ok(truth) = value.cast::<PyBool>() {
        Kind::Bool(truth.is_true())
    } else if value.is_instance_of::<PyInt>() {
        Kind::Int
    } else if let Ok(number) = value.cast::<PyFloat>() {
        match number.value() {
            finite if finite.is_finite() => Kind::Float(finite),
            _ => return Err(refused()),
        }
    } else if value.is_instance_of::<PyTuple>() || value.is_instance_of::<PyList>() {
        Kind::List
    } else if let Ok(mapping) = value.cast::<PyMapping>() {
        Kind::Object(mapping)
    } else {
        return Err(refused());
    })
}

fn deeper(depth: usize) -> PyResult<usize> {
    if depth >= MAX_DEPTH {
        return Err(PyRecursionError::new_err(format!("JSON nested more than {MAX_DEPTH} deep, or a value that holds itself")));
    }
    Ok(depth + 1)
}

/// A frozen copy of a value.
fn frozen<'py>(value: &Bound<'py, PyAny>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    match kind(value)? {
        Kind::List => {
            let depth = deeper(depth)?;
            let items = value.try_iter()?.map(|item| frozen(&item?, depth)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, items)?.into_any())
        }
        Kind::Object(mapping) => {
            let depth = deeper(depth)?;
            let copy = PyDict::new(py);
            for_each(mapping, |key, item| copy.set_item(key, frozen(item, depth)?))?;
            Ok(proxy(&copy))
        }
        _ => Ok(value.clone()),
    }
}

/// A read-only mapping.
pub fn proxy<'py>(dict: &Bound<'py, PyDict>) -> Bound<'py, PyAny> {
    PyMappingProxy::new(dict.py(), dict.as_mapping()).into_any()
}

fn for_each<'py>(
    mapping: &Bound<'py, PyMapping>,
    mut member: impl FnMut(&Bound<'py, PyString>, &Bound<'py, PyAny>) -> PyResult<()>,
) -> PyResult<()> {
    let mut one = |key: Bound<'py, PyAny>, item: Bound<'py, PyAny>| match key.cast::<PyString>() {
        Ok(key) => member(key, &item),
        Err(_) => Err(PyTypeError::new_err(format!("JSON object keys must be strings, found {}", key.repr()?))),
    };
    if let Ok(dict) = mapping.cast::<PyDict>() {
        return dict.iter().try_for_each(|(key, item)| one(key, item));
    }
    mapping.items()?.iter().try_for_each(|pair| pair.extract().and_then(|(key, item)| one(key, item)))
}

/// A frozen copy of metadata: a mapping; None and what is empty are an empty one.
#[pyfunction]
pub fn signal_freeze<'py>(metadata: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if metadata.is_none() || metadata.len().is_ok_and(|len| len == 0) {
        return Ok(model(metadata.py())?.empty(metadata.py()));
    }
    if metadata.cast::<PyMapping>().is_err() {
        return Err(PyTypeError::new_err(format!("expected a mapping, found {}", metadata.get_type().name()?)));
    }
    frozen(metadata, 0)
}

/// Frozen copies of what an iterable gives, as a tuple.
#[pyfunction]
pub fn signal_freeze_values<'py>(values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    let items = values.try_iter()?.map(|item| frozen(&item?, 0)).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(values.py(), items)
}

/// A value of Python's.
pub fn json(value: &Bound<'_, PyAny>) -> PyResult<Json> {
    let mut text = String::new();
    write(value, 0, &mut text)?;
    if text == "{}" {
        return Ok(Json::EMPTY);
    }
    let limits = Limits { max_bytes: u64::MAX, max_depth: usize::MAX, max_nodes: usize::MAX };
    Json::parse(text.as_bytes(), &limits).map_err(invalid)
}

/// Appends a value as compact text with sorted keys.
fn write(value: &Bound<'_, PyAny>, depth: usize, out: &mut String) -> PyResult<()> {
    let py = value.py();
    match kind(value)? {
        Kind::Null => out.push_str("null"),
        Kind::Bool(true) => out.push_str("true"),
        Kind::Bool(false) => out.push_str("false"),
        Kind::Int => match value.extract::<i64>() {
            Ok(small) => out.push_str(&small.to_string()),
            // Its own repr: that of an enumeration's member is its name.
            Err(_) => {
                let digits = py.get_type::<PyInt>().call_method1(pyo3::intern!(py, "__repr__"), (value,))?;
                out.push_str(digits.cast::<PyString>()?.to_str()?);
            }
        },
        Kind::Float(number) => write_float(number, out),
        Kind::Text(text) => write_string(utf8(text)?, out),
        Kind::List => {
            let depth = deeper(depth)?;
            out.push('[');
            for (i, item) in value.try_iter()?.enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(&item?, depth, out)?;
            }
            out.push(']');
        }
        Kind::Object(mapping) => {
            let depth = deeper(depth)?;
            let mut members: Vec<(String, Bound<'_, PyAny>)> = Vec::new();
            for_each(mapping, |key, item| {
                members.push((utf8(key)?.to_owned(), item.clone()));
                Ok(())
            })?;
            members.sort_by(|a, b| a.0.cmp(&b.0));
            out.push('{');
            for (i, (key, item)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write(item, depth, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// A text that UTF-8 can hold.
pub fn utf8<'a>(text: &'a Bound<'_, PyString>) -> PyResult<&'a str> {
    text.to_str().map_err(|e| PyValueError::new_err(format!("{}: half of a surrogate pair is no text", e.value(text.py()))))
}

/// A value of the core's, frozen.
pub fn give<'py>(py: Python<'py>, json: &Json) -> PyResult<Bound<'py, PyAny>> {
    if *json == Json::EMPTY {
        return Ok(model(py)?.empty(py));
    }
    given(py, &json.to_value().map_err(invalid)?)
}

fn given<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(truth) => truth.into_pyobject(py)?.to_owned().into_any(),
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Number(number) => {
            let text = number.as_str();
            if text.contains(['.', 'e', 'E']) {
                PyFloat::new(py, text.parse().map_err(|e| PyValueError::new_err(format!("{text}: {e}")))?).into_any()
            } else if let Ok(small) = text.parse::<i64>() {
                small.into_pyobject(py)?.into_any()
            } else {
                py.get_type::<PyInt>().call1((text,))?
            }
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| given(py, item)).collect::<PyResult<Vec<_>>>()?;
            PyTuple::new(py, items)?.into_any()
        }
        Value::Object(members) => {
            let dict = PyDict::new(py);
            for (key, item) in members {
                dict.set_item(key, given(py, item)?)?;
            }
            proxy(&dict)
        }
    })
}
