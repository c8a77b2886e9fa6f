//! Metadata of Python's as JSON: as Python's `json` writes them, NumPy's scalars as plain numbers, and nothing that JSON has not.

use super::errors::{invalid, raise};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use sigbank::format::model::json::{Json, Limits, write_float, write_string};
use std::collections::BTreeMap;

/// Deepest nesting that is taken.
const MAX_DEPTH: usize = 500;

/// Metadata: a mapping, or None for none.
///
/// # Errors
/// `InvalidError` that names the key.
pub fn metadata(value: &Bound<'_, PyAny>) -> PyResult<Json> {
    if value.is_none() {
        return Ok(Json::EMPTY);
    }
    if value.cast::<PyMapping>().is_err() {
        return Err(invalid(format!("metadata are a dict, found {}", type_name(value))));
    }
    json(value, "metadata")
}

/// Any value; `place` is what it is called in messages.
pub fn json(value: &Bound<'_, PyAny>, place: &str) -> PyResult<Json> {
    let mut text = String::new();
    write(value, &mut Path { place: place.to_owned(), depth: 0 }, &mut text)?;
    // A document's own limits, so that what is written can be read.
    Json::parse(text.as_bytes(), &Limits::default()).map_err(|e| raise(sigbank::Error::from(e).within(place)))
}

/// Where a value stands.
struct Path {
    place: String,
    depth: usize,
}

impl Path {
    fn refused(&self, why: &str) -> PyErr {
        invalid(format!("{}: {why}", self.place))
    }
    fn below<T>(&mut self, step: &str, run: impl FnOnce(&mut Self) -> PyResult<T>) -> PyResult<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.refused(&format!("nested more than {MAX_DEPTH} deep, or it holds itself")));
        }
        let len = self.place.len();
        self.place.push_str(step);
        self.depth += 1;
        let done = run(self);
        self.depth -= 1;
        self.place.truncate(len);
        done
    }
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string())
}

fn write(value: &Bound<'_, PyAny>, path: &mut Path, out: &mut String) -> PyResult<()> {
    let py = value.py();
    if value.is_none() {
        out.push_str("null");
    } else if let Ok(text) = value.cast::<PyString>() {
        write_string(utf8(text, path)?, out);
    } else if let Ok(truth) = value.cast::<PyBool>() {
        out.push_str(if truth.is_true() { "true" } else { "false" });
    } else if value.is_instance_of::<PyInt>() {
        integer(value, out)?;
    } else if let Ok(number) = value.cast::<PyFloat>() {
        match number.value() {
            finite if finite.is_finite() => write_float(finite, out),
            other => {
                return Err(
                    path.refused(&format!("{other} is no number that JSON has: leave the key out, or store None or a text"))
                );
            }
        }
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        out.push('[');
        for (i, item) in value.try_iter()?.enumerate() {
            if i > 0 {
                out.push(',');
            }
            path.below(&format!("[{i}]"), |path| write(&item?, path, out))?;
        }
        out.push(']');
    } else if let Ok(mapping) = value.cast::<PyMapping>() {
        object(mapping, path, out)?;
    } else if is_scalar(value)? {
        // NumPy's scalar as Python's own; one that stays NumPy's (longdouble) is none that JSON has.
        let own = value.call_method0(intern!(py, "item"))?;
        if is_scalar(&own)? {
            return Err(
                path.refused(&format!("the {} {value} is no number that JSON has: convert it to float", type_name(value)))
            );
        }
        write(&own, path, out)?;
    } else {
        return Err(path.refused(&format!(
            "a {} is not JSON: give None, bool, numbers, str, lists and dicts ({})",
            type_name(value),
            remedy(value)
        )));
    }
    Ok(())
}

fn remedy(value: &Bound<'_, PyAny>) -> &'static str {
    let has = |name: &str| value.hasattr(name).unwrap_or(false);
    match () {
        () if has("tolist") => "store an array with add_array, or value.tolist()",
        () if has("isoformat") => "store value.isoformat()",
        () if has("__fspath__") => "store str(value)",
        () if has("decode") => "store value.decode(), or an array",
        () if has("__iter__") => "store sorted(value), or list(value)",
        () => "store str(value)",
    }
}

fn is_scalar(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let generic = PyModule::import(value.py(), intern!(value.py(), "numpy"))?.getattr(intern!(value.py(), "generic"))?;
    value.is_instance(&generic)
}

fn integer(value: &Bound<'_, PyAny>, out: &mut String) -> PyResult<()> {
    match value.extract::<i64>() {
        Ok(small) => out.push_str(&small.to_string()),
        // Its own repr: that of an enumeration's member is its name.
        Err(_) => {
            let py = value.py();
            let digits = py.get_type::<PyInt>().call_method1(intern!(py, "__repr__"), (value,))?;
            out.push_str(digits.cast::<PyString>()?.to_str()?);
        }
    }
    Ok(())
}

fn object(mapping: &Bound<'_, PyMapping>, path: &mut Path, out: &mut String) -> PyResult<()> {
    let mut members: BTreeMap<String, Bound<'_, PyAny>> = BTreeMap::new();
    let mut add = |name: Bound<'_, PyAny>, item| {
        let text = key(&name, path)?;
        match members.insert(text, item) {
            Some(_) => Err(path.refused(&format!("two keys would both be {:?}", key(&name, path)?))),
            None => Ok(()),
        }
    };
    match mapping.cast::<PyDict>() {
        Ok(dict) => dict.iter().try_for_each(|(name, item)| add(name, item))?,
        Err(_) => mapping.items()?.iter().try_for_each(|pair| pair.extract().and_then(|(name, item)| add(name, item)))?,
    }
    out.push('{');
    for (i, (name, item)) in members.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_string(name, out);
        out.push(':');
        path.below(&format!("[{name:?}]"), |path| write(item, path, out))?;
    }
    out.push('}');
    Ok(())
}

/// A key as Python's `json` makes it a string.
fn key(key: &Bound<'_, PyAny>, path: &Path) -> PyResult<String> {
    let mut text = String::new();
    if let Ok(name) = key.cast::<PyString>() {
        return utf8(name, path).map(str::to_owned);
    } else if key.is_none() {
        text.push_str("null");
    } else if let Ok(truth) = key.cast::<PyBool>() {
        text.push_str(if truth.is_true() { "true" } else { "false" });
    } else if key.is_instance_of::<PyInt>() {
        integer(key, &mut text)?;
    } else if let Ok(number) = key.cast::<PyFloat>()
        && number.value().is_finite()
    {
        write_float(number.value(), &mut text);
    } else {
        return Err(path.refused(&format!("keys are strings, found the {} {}", type_name(key), key.repr()?)));
    }
    Ok(text)
}

fn utf8<'a>(text: &'a Bound<'_, PyString>, path: &Path) -> PyResult<&'a str> {
    text.to_str().map_err(|_| path.refused("half of a surrogate pair is no text: store value.encode(...) as an array"))
}
