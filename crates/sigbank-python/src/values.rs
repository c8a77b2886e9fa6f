//! Python values as the bytes that a dataset stores.

use crate::convert::bytes_of;
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyMemoryView, PyString};
use sigbank::format::model::{FieldType, Schema};

/// One field as values for it are taken.
pub struct Taker {
    name: Py<PyString>,
    ty: FieldType,
    descr: Option<Py<PyArrayDescr>>,
}

/// Bytes to be stored, and whatever keeps them alive.
pub enum Held<'py> {
    Array(Bound<'py, PyUntypedArray>),
    Bytes(Bound<'py, PyBytes>),
    Text(Bound<'py, PyString>),
    Int([u8; 8]),
    Own(Vec<u8>),
}

impl Held<'_> {
    pub fn bytes(&self) -> PyResult<&[u8]> {
        match self {
            Self::Array(a) => bytes_of(a),
            Self::Bytes(b) => Ok(b.as_bytes()),
            Self::Text(t) => Ok(t.to_str()?.as_bytes()),
            Self::Int(b) => Ok(b),
            Self::Own(v) => Ok(v),
        }
    }
}

/// The NumPy dtype of a field's arrays; none for what is handed out as Python's own.
pub fn descr<'py>(py: Python<'py>, ty: &FieldType) -> PyResult<Option<Bound<'py, PyArrayDescr>>> {
    match ty {
        FieldType::Array { dtype, .. } => PyArrayDescr::new(py, dtype.to_string()).map(Some),
        _ => Ok(None),
    }
}

/// The takers of a schema's fields.
pub fn takers(py: Python<'_>, schema: &Schema) -> PyResult<Vec<Taker>> {
    let one = |f: &sigbank::format::model::Field| {
        Ok(Taker { name: PyString::intern(py, &f.name).unbind(), ty: f.ty.clone(), descr: descr(py, &f.ty)?.map(Bound::unbind) })
    };
    schema.fields.iter().map(one).collect()
}

impl Taker {
    pub fn name<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        self.name.bind(py)
    }

    /// This field's value of an example.
    ///
    /// # Errors
    /// `KeyError` where it is missing, `ValueError` where it does not fit, with the field's name, what is declared and what was
    /// given.
    pub fn take<'py>(&self, values: &Bound<'py, PyDict>) -> PyResult<Held<'py>> {
        let py = values.py();
        let value = values.get_item(self.name.bind(py))?.ok_or_else(|| {
            let given: Vec<String> = values.keys().iter().map(|k| k.to_string()).collect();
            PyKeyError::new_err(format!("attribute '{}' is missing; given are: {}", self.name.bind(py), given.join(", ")))
        })?;
        let held = match (&self.ty, &self.descr) {
            (FieldType::Array { shape, .. }, Some(descr)) => array(&value, descr.bind(py), shape),
            (FieldType::Int, _) => int(&value),
            (FieldType::Str, _) => text(value),
            (FieldType::Bytes { len }, _) => bytes(value, *len),
            (FieldType::Array { .. }, None) => Err(PyTypeError::new_err("no dtype")),
        };
        held.map_err(|e| {
            let text = format!("attribute '{}': {}", self.name.bind(py), e.value(py));
            let error = PyValueError::new_err(text);
            error.set_cause(py, Some(e));
            error
        })
    }
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string())
}

fn array<'py>(value: &Bound<'py, PyAny>, descr: &Bound<'py, PyArrayDescr>, shape: &[usize]) -> PyResult<Held<'py>> {
    if let Ok(a) = value.cast::<PyUntypedArray>() {
        let found = a.dtype();
        if (found.is(descr) || found.is_equiv_to(descr)) && a.is_c_contiguous() && a.shape() == shape {
            return Ok(Held::Array(a.clone()));
        }
    }
    let py = value.py();
    let numpy = PyModule::import(py, intern!(py, "numpy"))?;
    let typed = value.cast::<PyUntypedArray>().is_ok() || value.is_instance(&numpy.getattr(intern!(py, "generic"))?)?;
    let given = numpy.call_method1(intern!(py, "asarray"), (value,))?;
    let given = given.cast_into::<PyUntypedArray>()?;
    if given.shape() != shape {
        return Err(PyValueError::new_err(format!("shape {} is declared, {} is given", tuple(shape), tuple(given.shape()))));
    }
    let from = given.dtype();
    let safe: bool = numpy.call_method1(intern!(py, "can_cast"), (&from, descr, "safe"))?.extract()?;
    let refused = |why: &str| {
        PyValueError::new_err(format!(
            "dtype {descr} is declared, {} {from} is given, {why}",
            if typed { "an array of" } else { "Python's" }
        ))
    };
    if !safe && (typed || from.has_object()) {
        return Err(refused("which does not cast safely; convert it where that is meant"));
    }
    let kwargs = PyDict::new(py);
    kwargs.set_item(intern!(py, "order"), "C")?;
    kwargs.set_item(intern!(py, "copy"), false)?;
    kwargs.set_item(intern!(py, "casting"), "unsafe")?;
    let cast = if safe {
        given.call_method(intern!(py, "astype"), (descr,), Some(&kwargs))?
    } else {
        exact(&numpy, &given, descr, &kwargs)?.ok_or_else(|| refused("and not every value can be represented exactly"))?
    };
    Ok(Held::Array(cast.cast_into::<PyUntypedArray>()?))
}

/// Python's own numbers in a dtype that does not take all of them: only where each comes out as it is.
fn exact<'py>(
    numpy: &Bound<'py, PyModule>,
    given: &Bound<'py, PyUntypedArray>,
    descr: &Bound<'py, PyArrayDescr>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = numpy.py();
    let number = |d: &Bound<'py, PyArrayDescr>| matches!(d.kind(), b'b' | b'i' | b'u' | b'f' | b'c');
    if !number(&given.dtype()) || !number(descr) || descr.kind() == b'b' {
        return Ok(None);
    }
    let quiet = PyDict::new(py);
    quiet.set_item("all", "ignore")?;
    let state = numpy.call_method("errstate", (), Some(&quiet))?;
    state.call_method0("__enter__")?;
    let cast = given.call_method(intern!(py, "astype"), (descr,), Some(kwargs));
    let back = cast.as_ref().ok().map(|c| c.call_method1(intern!(py, "astype"), (given.dtype(),)));
    state.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
    let (cast, Some(back)) = (cast?, back) else { return Ok(None) };
    let same = PyDict::new(py);
    same.set_item("equal_nan", matches!(descr.kind(), b'f' | b'c'))?;
    let both = |a: &Bound<'py, PyAny>| {
        numpy.call_method(intern!(py, "array_equal"), (a, given), Some(&same)).and_then(|r| r.extract::<bool>())
    };
    // Both ways: 2**63 as float is equal to what it came from, but its way back is not; -1 as uint8 comes back as 255.
    Ok(if both(&back?)? && both(&cast)? { Some(cast) } else { None })
}

fn tuple(shape: &[usize]) -> String {
    match shape {
        [one] => format!("({one},)"),
        more => format!("({})", more.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}

fn int<'py>(value: &Bound<'py, PyAny>) -> PyResult<Held<'py>> {
    let py = value.py();
    let index = PyModule::import(py, intern!(py, "operator"))?.call_method1(intern!(py, "index"), (value,));
    let index = index.map_err(|_| PyValueError::new_err(format!("an integer is declared, a {} is given", type_name(value))))?;
    let number: i64 = index
        .extract()
        .map_err(|_| PyValueError::new_err(format!("an integer of 64 bits with a sign is declared, {index} is given")))?;
    Ok(Held::Int(number.to_le_bytes()))
}

fn text(value: Bound<'_, PyAny>) -> PyResult<Held<'_>> {
    let py = value.py();
    match value.cast_into::<PyString>() {
        Ok(text) => match text.to_str() {
            Ok(_) => Ok(Held::Text(text)),
            Err(e) => Err(PyValueError::new_err(format!("text that UTF-8 can hold is declared: {}", e.value(py)))),
        },
        Err(e) => Err(PyValueError::new_err(format!("a str is declared, a {} is given", type_name(&e.into_inner())))),
    }
}

fn bytes(value: Bound<'_, PyAny>, len: Option<usize>) -> PyResult<Held<'_>> {
    let py = value.py();
    let held = if let Ok(b) = value.cast::<PyBytes>() {
        Held::Bytes(b.clone())
    } else if value.is_instance_of::<PyByteArray>() || value.is_instance_of::<PyMemoryView>() {
        Held::Bytes(py.get_type::<PyBytes>().call1((&value,))?.cast_into::<PyBytes>()?)
    } else if value.is_instance_of::<PyString>() {
        return Err(PyValueError::new_err("bytes are declared, a str is given; encode it"));
    } else {
        numbers(&value)?
    };
    match len.filter(|&len| held.bytes().is_ok_and(|b| b.len() != len)) {
        Some(len) => Err(PyValueError::new_err(format!("{len} bytes are declared, {} are given", held.bytes()?.len()))),
        None => Ok(held),
    }
}

/// Bytes given as whole numbers.
fn numbers<'py>(value: &Bound<'py, PyAny>) -> PyResult<Held<'py>> {
    let py = value.py();
    let numpy = PyModule::import(py, intern!(py, "numpy"))?;
    let wrong = || {
        PyValueError::new_err(format!(
            "bytes or a sequence of integers from 0 to 255 are declared, a {} is given",
            type_name(value)
        ))
    };
    let given = numpy.call_method1(intern!(py, "asarray"), (value,)).map_err(|_| wrong())?.cast_into::<PyUntypedArray>()?;
    if given.ndim() != 1 {
        return Err(wrong());
    }
    if given.dtype().itemsize() == 1 && given.dtype().kind() == b'u' {
        return Ok(Held::Own(given.call_method0(intern!(py, "tobytes"))?.cast_into::<PyBytes>()?.as_bytes().to_vec()));
    }
    if given.is_empty() {
        return Ok(Held::Own(Vec::new()));
    }
    if !matches!(given.dtype().kind(), b'i' | b'u') {
        return Err(wrong());
    }
    let all: Vec<i64> = given.call_method0(intern!(py, "tolist"))?.extract().map_err(|_| wrong())?;
    all.into_iter().map(|n| u8::try_from(n).map_err(|_| wrong())).collect::<PyResult<Vec<u8>>>().map(Held::Own)
}
