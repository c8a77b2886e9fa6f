//! Values of a batch as Python gets them.

use crate::convert::{ArrayKind, Buffer};
use crate::errors::raise;
use crate::values::descr;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyInt, PyList, PyString, PyTuple};
use sigbank::format::model::{FieldType, Schema};
use sigbank::loader::{Column, PooledBuf, Stored};

/// One field as it is handed out.
pub struct Giver {
    name: Py<PyString>,
    ty: FieldType,
    kind: Option<ArrayKind>,
    objects: bool,
    /// It has no type that is that of all records.
    ragged: bool,
    /// A value was handed out that is not what is stored, and it was said.
    warned: bool,
}

/// The givers of some fields of a schema, all of them by default.
pub fn givers(py: Python<'_>, schema: &Schema, fields: Option<&[usize]>) -> PyResult<Vec<Giver>> {
    let all: Vec<usize> = (0..schema.fields.len()).collect();
    let chosen = fields.unwrap_or(&all).iter().filter_map(|&i| schema.fields.get(i));
    let one = |f: &sigbank::format::model::Field| {
        let kind = match (&f.ty, descr(py, &f.ty)?) {
            (FieldType::Array { shape, .. }, Some(d)) => Some(ArrayKind::new(d, shape)),
            _ => None,
        };
        let ragged = f.metadata.contains_key("ragged");
        Ok(Giver { name: PyString::intern(py, &f.name).unbind(), ty: f.ty.clone(), kind, objects: false, ragged, warned: false })
    };
    chosen.map(one).collect()
}

/// A value that is not an array, as Python's own.
pub fn own<'py>(py: Python<'py>, ty: &FieldType, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match ty {
        FieldType::Int => {
            let number = bytes.try_into().map(i64::from_le_bytes);
            Ok(number.map_err(|_| pyo3::exceptions::PyValueError::new_err("8 bytes are expected"))?.into_pyobject(py)?.into_any())
        }
        FieldType::Str => PyString::from_bytes(py, bytes).map(Bound::into_any),
        FieldType::Bytes { .. } | FieldType::Array { .. } => Ok(PyBytes::new(py, bytes).into_any()),
    }
}

/// A column on its way to Python.
pub enum Held {
    Fixed(Py<Buffer>),
    /// Fixed-size values that Python gets as its own objects.
    Plain(PooledBuf),
    Var(Vec<Vec<u8>>),
    Stored(Vec<Stored>),
}

/// The bytes of one row of a column that holds values of one size.
fn row_of(memory: &[u8], rows: usize, row: usize) -> &[u8] {
    let len = memory.len() / rows.max(1);
    memory.get(row * len..(row + 1) * len).unwrap_or_default()
}

impl Giver {
    /// The name.
    pub fn name<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        self.name.bind(py)
    }

    /// A column of this field, on its way to Python.
    pub fn hold(&self, py: Python<'_>, column: Column) -> PyResult<Held> {
        Ok(match (column, &self.kind) {
            (Column::Fixed(memory), Some(_)) => Held::Fixed(Py::new(py, Buffer::new(memory))?),
            (Column::Fixed(memory), None) => Held::Plain(memory),
            (Column::Var(rows), _) => Held::Var(rows),
            (Column::Stored(rows), _) => Held::Stored(rows),
        })
    }

    /// The value in one row of a column.
    pub fn row<'py>(&mut self, py: Python<'py>, held: &Held, rows: usize, row: usize) -> PyResult<Bound<'py, PyAny>> {
        match (held, &mut self.kind) {
            (Held::Fixed(buffer), Some(kind)) => kind.row(py, buffer.bind(py), row),
            (Held::Fixed(_), None) => Err(pyo3::exceptions::PyTypeError::new_err("no dtype")),
            (Held::Plain(memory), _) => own(py, &self.ty, row_of(memory, rows, row)),
            (Held::Var(values), _) => own(py, &self.ty, values.get(row).map(Vec::as_slice).unwrap_or_default()),
            (Held::Stored(values), _) => {
                let value = values.get(row).ok_or_else(|| pyo3::exceptions::PyIndexError::new_err(format!("row {row}")))?;
                if self.ragged && is_absent(value) {
                    return Ok(py.None().into_bound(py));
                }
                let given = as_stored(py, &self.ty, value)?;
                match &value.ty {
                    Some(stored) => self.as_reference(given, stored),
                    None => Ok(given),
                }
            }
        }
    }

    /// A value that is stored as another type as the Sedpack reference hands it out: what is declared as `int` or `str` goes through
    /// Python's `int()` or `str()`. Where that changes it (2.5 to 2), a warning says so once.
    fn as_reference<'py>(&mut self, stored: Bound<'py, PyAny>, ty: &FieldType) -> PyResult<Bound<'py, PyAny>> {
        let py = stored.py();
        let class = match self.ty {
            FieldType::Int => py.get_type::<PyInt>(),
            FieldType::Str => py.get_type::<PyString>(),
            FieldType::Array { .. } | FieldType::Bytes { .. } => return Ok(stored),
        };
        let (name, declared) = (self.name.bind(py).to_string(), &self.ty);
        let elsewhere = "sigbank.open(path)[i] gives values as they are stored";
        let given = class.call1((&stored,)).map_err(|e| {
            let what = format!("attribute '{name}': {ty} is stored where {declared} is declared, and {}", e.value(py));
            raise(sigbank::Error::unsupported(what).remedy(elsewhere))
        })?;
        if !self.warned && !given.eq(&stored).unwrap_or(false) {
            self.warned = true;
            let text = format!(
                "attribute '{name}': {ty} is stored where {declared} is declared; {} is handed out as {}, as sedpack does. {elsewhere}",
                stored.repr()?,
                given.repr()?
            );
            let text = std::ffi::CString::new(text.replace('\0', "\\0"))?;
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
        }
        Ok(given)
    }

    /// All rows of a column: an array, or a list of what is no array.
    pub fn batch<'py>(&mut self, py: Python<'py>, held: &Held, rows: usize) -> PyResult<Bound<'py, PyAny>> {
        if let (Held::Fixed(buffer), Some(kind)) = (held, &mut self.kind) {
            return kind.batch(py, buffer.bind(py), rows);
        }
        let all = (0..rows).map(|row| self.row(py, held, rows, row)).collect::<PyResult<Vec<_>>>()?;
        let list = PyList::new(py, all)?.into_any();
        if !self.objects {
            return Ok(list);
        }
        PyModule::import(py, "numpy")?.call_method1("array", (list, "O"))
    }

    /// Makes this field's text bytes (in UTF-8), and lists of text or bytes arrays of `bytes` objects.
    pub fn give_objects(&mut self) {
        if matches!(self.ty, FieldType::Str | FieldType::Bytes { .. }) {
            (self.ty, self.objects) = (FieldType::Bytes { len: None }, true);
        }
    }
}

/// Whether a value of a ragged field is none: its record lacks the field.
pub fn is_absent(value: &Stored) -> bool {
    value.ty.is_none() && value.bytes.is_empty()
}

/// A value as it is stored: a declared `int` or `str` that is stored as something else as NumPy's scalar (or array, where it has a
/// shape).
pub fn as_stored<'py>(py: Python<'py>, declared: &FieldType, value: &Stored) -> PyResult<Bound<'py, PyAny>> {
    let array = array(py, value.ty.as_ref().unwrap_or(declared), &value.bytes)?;
    match (declared, &value.ty) {
        // The type of a ragged field's value is its own.
        (FieldType::Array { .. } | FieldType::Bytes { .. }, _) | (_, None) => Ok(array),
        _ => array.get_item(PyTuple::empty(py)),
    }
}

/// An array of its own from its bytes.
fn array<'py>(py: Python<'py>, ty: &FieldType, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let (FieldType::Array { shape, .. }, Some(dtype)) = (ty, descr(py, ty)?) else { return own(py, ty, bytes) };
    let arguments = (PyTuple::new(py, shape)?, dtype, PyByteArray::new(py, bytes));
    PyModule::import(py, "numpy")?.getattr("ndarray")?.call1(arguments)
}
