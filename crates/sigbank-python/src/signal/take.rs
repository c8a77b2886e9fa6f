//! Python's records and metadata as the core takes them.

use super::classes::model;
use super::errors::{invalid_value, within};
use super::json::{json, utf8};
use crate::convert::{bytes_of, shared_bytes};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyMapping, PyString};
use sigbank::format::model::json::Json;
use sigbank::format::model::{ByteOrder, DType, Kind};
use sigbank::format::record::signal::{Axis, Coordinate, FieldMetadata, RecordMetadata, ResourcePolicy};
use sigbank::layout::signal_dataset::Record;

/// A record of Python's: what is said of it, and its arrays, which are contiguous.
pub struct Taken<'py> {
    pub says: RecordMetadata,
    arrays: Vec<Bound<'py, PyUntypedArray>>,
}

impl Taken<'_> {
    /// The record as it is handed over to other threads.
    pub fn into_record(self) -> PyResult<Record> {
        let data = self.arrays.iter().map(shared_bytes).collect::<PyResult<_>>()?;
        Ok(Record { metadata: self.says, data })
    }

    /// The samples of each field.
    pub fn data(&self) -> PyResult<Vec<&[u8]>> {
        self.arrays.iter().map(bytes_of).collect()
    }
}

/// Takes a record. Its values are looked at only so far as the core's types cannot hold what Python's can.
///
/// # Errors
/// `ValidationError` for a value of a wrong type; `AttributeError` for what is no record at all.
pub fn record<'py>(record: &Bound<'py, PyAny>) -> PyResult<Taken<'py>> {
    let mut arrays = Vec::with_capacity(1);
    let says = described(record, |field| array_field(field, &mut arrays))?;
    Ok(Taken { says, arrays })
}

/// Takes a mapping of fields; `told` says where it stands.
pub fn fields<'py>(
    fields: &Bound<'py, PyAny>,
    told: &impl Fn(PyErr) -> PyErr,
) -> PyResult<(Vec<FieldMetadata>, Vec<bytes::Bytes>)> {
    let mut arrays = Vec::new();
    let says = described_fields(fields, told, |field| array_field(field, &mut arrays))?;
    Ok((says, arrays.iter().map(shared_bytes).collect::<PyResult<_>>()?))
}

fn array_field<'py>(field: &Bound<'py, PyAny>, arrays: &mut Vec<Bound<'py, PyUntypedArray>>) -> PyResult<(DType, Vec<usize>)> {
    let py = field.py();
    if !model(py)?.field.holds(field)? {
        return Err(invalid_value(format!("it must be a Field, found {}", type_name(field))));
    }
    let data = field.getattr(intern!(py, "data"))?;
    let array = data.cast::<PyUntypedArray>().map_err(|_| invalid_value("its data are no array"))?;
    let array = if array.is_c_contiguous() {
        array.clone()
    } else {
        let numpy = PyModule::import(py, intern!(py, "numpy"))?;
        numpy.call_method1(intern!(py, "ascontiguousarray"), (array,))?.cast_into()?
    };
    let says = (dtype(&array.dtype())?, array.shape().to_vec());
    arrays.push(array);
    Ok(says)
}

/// Takes what is said of a record.
///
/// # Errors
/// Those of [`record`].
pub fn record_metadata(record: &Bound<'_, PyAny>) -> PyResult<RecordMetadata> {
    let py = record.py();
    described(record, |field| {
        if !model(py)?.field_metadata.holds(field)? {
            return Err(invalid_value(format!("it must be a FieldMetadata, found {}", type_name(field))));
        }
        let dtype = string(&field.getattr(intern!(py, "dtype"))?, "its dtype")?;
        let dtype = dtype.parse::<DType>().map_err(super::errors::invalid)?;
        let shape = field.getattr(intern!(py, "shape"))?;
        let lengths = shape.try_iter()?.map(|n| length(&n?, "its shape"));
        Ok((dtype, lengths.map(|n| n.map(|n| usize::try_from(n).unwrap_or(usize::MAX))).collect::<PyResult<_>>()?))
    })
}

fn described<'py>(
    record: &Bound<'py, PyAny>,
    kind: impl FnMut(&Bound<'py, PyAny>) -> PyResult<(DType, Vec<usize>)>,
) -> PyResult<RecordMetadata> {
    let py = record.py();
    let fields = record.getattr(intern!(py, "fields"))?;
    let id = string(&record.getattr(intern!(py, "id"))?, "record id");
    let told = |e| match &id {
        Ok(id) => within(py, &format!("record '{id}'"), e),
        Err(_) => within(py, "a record", e),
    };
    let fields = described_fields(&fields, &told, kind)?;
    let scene_id = optional(&record.getattr(intern!(py, "scene_id"))?, "scene id").map_err(told)?;
    let metadata = record.getattr(intern!(py, "metadata")).and_then(|m| json(&m)).map_err(told)?;
    Ok(RecordMetadata { id: id?, scene_id, metadata, fields })
}

fn described_fields<'py>(
    fields: &Bound<'py, PyAny>,
    told: &impl Fn(PyErr) -> PyErr,
    mut kind: impl FnMut(&Bound<'py, PyAny>) -> PyResult<(DType, Vec<usize>)>,
) -> PyResult<Vec<FieldMetadata>> {
    let py = fields.py();
    let fields = fields.cast::<PyMapping>().map_err(|_| told(invalid_value("its fields are no mapping")))?;
    let mut all = Vec::with_capacity(1);
    for pair in fields.items()? {
        let (name, field): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair.extract()?;
        let name = string(&name, "field names").map_err(told)?;
        let one = kind(&field).and_then(|(dtype, shape)| {
            let axes = field.getattr(intern!(py, "axes"))?;
            let axes = axes.try_iter()?.map(|axis| axis.and_then(|a| self::axis(&a))).collect::<PyResult<Vec<_>>>()?;
            let metadata = json(&field.getattr(intern!(py, "metadata"))?)?;
            Ok(FieldMetadata { name: name.clone(), dtype, shape, axes, metadata })
        });
        all.push(one.map_err(|e| told(within(py, &format!("field '{name}'"), e)))?);
    }
    Ok(all)
}

fn axis(axis: &Bound<'_, PyAny>) -> PyResult<Axis> {
    let py = axis.py();
    if !model(py)?.axis.holds(axis)? {
        return Err(invalid_value(format!("its axes must be Axis values, found {}", type_name(axis))));
    }
    let name = string(&axis.getattr(intern!(py, "name"))?, "an axis name")?;
    let one = || {
        let coordinate = axis.getattr(intern!(py, "coordinate"))?;
        Ok(Axis {
            length: length(&axis.getattr(intern!(py, "length"))?, "its length")?,
            role: optional(&axis.getattr(intern!(py, "role"))?, "its role")?,
            id: optional(&axis.getattr(intern!(py, "id"))?, "its id")?,
            coordinate: if coordinate.is_none() { None } else { Some(self::coordinate(&coordinate)?) },
            metadata: json(&axis.getattr(intern!(py, "metadata"))?)?,
            name: name.clone(),
        })
    };
    one().map_err(|e| within(py, &format!("axis '{name}'"), e))
}

fn coordinate(coordinate: &Bound<'_, PyAny>) -> PyResult<Coordinate> {
    let py = coordinate.py();
    if !model(py)?.coordinate.holds(coordinate)? {
        return Err(invalid_value(format!("its coordinate must be a Coordinate or None, found {}", type_name(coordinate))));
    }
    let values = coordinate.getattr(intern!(py, "values"))?;
    Ok(Coordinate {
        values: if values.is_none() { None } else { Some(json(&values)?) },
        start: number(&coordinate.getattr(intern!(py, "start"))?, "the coordinate's start")?,
        step: number(&coordinate.getattr(intern!(py, "step"))?, "the coordinate's step")?,
        reference: optional(&coordinate.getattr(intern!(py, "reference"))?, "the coordinate's reference")?,
        unit: optional(&coordinate.getattr(intern!(py, "unit"))?, "the coordinate's unit")?,
        metadata: json(&coordinate.getattr(intern!(py, "metadata"))?)?,
    })
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string())
}

/// A text; whether it may be empty is the core's to say.
pub fn string(value: &Bound<'_, PyAny>, what: &str) -> PyResult<String> {
    match value.cast::<PyString>() {
        Ok(text) => utf8(text).map(str::to_owned).map_err(|e| within(value.py(), what, e)),
        Err(_) => Err(invalid_value(format!("{what} must be a non-empty string, found {}", type_name(value)))),
    }
}

/// A text or None.
pub fn optional(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Option<String>> {
    if value.is_none() {
        return Ok(None);
    }
    match value.cast::<PyString>() {
        Ok(text) => utf8(text).map(|t| Some(t.to_owned())).map_err(|e| within(value.py(), what, e)),
        Err(_) => Err(invalid_value(format!("{what} must be a string or None, found {}", type_name(value)))),
    }
}

/// A nonnegative integer.
pub fn length(value: &Bound<'_, PyAny>, what: &str) -> PyResult<u64> {
    let whole = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    let number = if whole { value.extract::<u64>().ok() } else { None };
    number.ok_or_else(|| invalid_value(format!("{what} must be a nonnegative integer, found {value:?}")))
}

fn number(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Option<Json>> {
    if value.is_none() {
        return Ok(None);
    }
    if value.is_instance_of::<PyBool>() || !(value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>()) {
        return Err(invalid_value(format!("{what} must be a number or None, found {value:?}")));
    }
    json(value).map(Some).map_err(|e| within(value.py(), what, e))
}

fn dtype(descr: &Bound<'_, PyArrayDescr>) -> PyResult<DType> {
    let kind = match descr.kind() {
        b'b' => Kind::Bool,
        b'i' => Kind::Int,
        b'u' => Kind::UInt,
        b'f' => Kind::Float,
        b'c' => Kind::Complex,
        _ => {
            let name: String = descr.getattr(intern!(descr.py(), "str"))?.extract()?;
            return name.parse::<DType>().map_err(super::errors::invalid);
        }
    };
    let order = if descr.byteorder() == b'>' { ByteOrder::Big } else { ByteOrder::Little };
    Ok(DType::new(kind, descr.itemsize()).map_err(super::errors::invalid)?.with_order(order))
}

/// The limits of a `ResourcePolicy`; None is the default.
pub fn policy(policy: Option<&Bound<'_, PyAny>>) -> PyResult<ResourcePolicy> {
    let Some(policy) = policy else { return Ok(ResourcePolicy::default()) };
    let limit = |name: &str| policy.getattr(name)?.extract::<u64>().or(Ok::<_, PyErr>(u64::MAX));
    Ok(ResourcePolicy {
        max_encoded_record_bytes: limit("max_encoded_record_bytes")?,
        max_descriptor_bytes: limit("max_descriptor_bytes")?,
        max_fields: limit("max_fields")?,
        max_axes_per_field: limit("max_axes_per_field")?,
        max_coordinate_values: limit("max_coordinate_values")?,
        max_tensor_bytes: limit("max_tensor_bytes")?,
        max_total_tensor_bytes: limit("max_total_tensor_bytes")?,
        max_metadata_bytes: limit("max_metadata_bytes")?,
        max_json_depth: limit("max_json_depth")?,
        max_json_nodes: limit("max_json_nodes")?,
    })
}
