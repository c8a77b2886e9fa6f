//! The rules that a record must keep.

use super::policy::within;
use super::safetensors::dtype_rank;
use super::{Axis, Coordinate, FieldMetadata, RecordMetadata, ResourcePolicy};
use crate::error::{FormatError, Result};
use crate::model::array::byte_len;
use crate::model::json::Json;
use crate::model::{DType, Kind};
use std::collections::{HashMap, HashSet};

/// Checks a record against every rule of the format and against the policy.
///
/// The rules: id and names of fields and axes are not empty; at least one field, names of fields unique; dtypes as in
/// [`FieldMetadata`]; as many axes as dimensions, each as long as its dimension, names unique in the field; a coordinate has one
/// form (values, start with step, or a reference), values as many as the axis is long, start and step are numbers, a
/// reference names a field or an axis id; axes of one id have one length and coordinate; metadata are objects.
///
/// ```
/// use sigbank_format::record::signal::{Axis, FieldMetadata, RecordMetadata, ResourcePolicy, validate};
/// let field = FieldMetadata { axes: vec![Axis::new("time", 4)], ..FieldMetadata::new("iq", "complex64".parse()?, vec![3]) };
/// let e = validate(&RecordMetadata::new("a", vec![field]), &ResourcePolicy::default()).unwrap_err();
/// assert_eq!(e.to_string(), "record 'a': field 'iq': axis 'time' has length 4, but dimension 0 of its array [3] has 3");
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
///
/// # Errors
/// Invalid, or Limit where the policy is exceeded, with record, field and axis.
pub fn validate(record: &RecordMetadata, policy: &ResourcePolicy) -> Result<()> {
    checked(record, policy, true)
}

/// [`validate`]; without `samples`, those limits are left out that speak of the samples' bytes.
pub(super) fn checked(record: &RecordMetadata, policy: &ResourcePolicy, samples: bool) -> Result<()> {
    rules(record, policy, samples).map_err(|e| e.within(record_name(&record.id)))
}

/// For messages.
pub(super) fn record_name(id: &str) -> String {
    format!("record '{id}'")
}

fn invalid(message: impl Into<String>) -> FormatError {
    FormatError::invalid(message)
}

fn rules(record: &RecordMetadata, policy: &ResourcePolicy, samples: bool) -> Result<()> {
    if record.id.is_empty() {
        return Err(invalid("its id is empty: give it one"));
    }
    if record.fields.is_empty() {
        return Err(invalid("it has no fields: a record has at least one"));
    }
    within("its fields", record.fields.len() as u64, "max_fields", policy.max_fields)?;
    object(&record.metadata)?;
    let mut total = 0u64;
    for field in &record.fields {
        let place = |e: FormatError| e.within(format!("field '{}'", field.name));
        one_field(field, policy).map_err(place)?;
        if samples {
            let bytes = byte_len(&field.dtype, &field.shape).map_err(place)? as u64;
            within("bytes of its samples", bytes, "max_tensor_bytes", policy.max_tensor_bytes).map_err(place)?;
            total = total.saturating_add(bytes);
        }
    }
    within("bytes of its fields' samples", total, "max_total_tensor_bytes", policy.max_total_tensor_bytes)?;
    distinct("fields", record.fields.iter().map(|f| f.name.as_str()))?;
    shared_axes(record)?;
    references(record)?;
    // With spaces and escapes the texts seldom take more than allowed; only then it is counted.
    if metadata_bytes(record, |json| 2 * json.as_str().len(), |text| 6 * text.len() + 2) > policy.max_metadata_bytes {
        let bytes = metadata_bytes(record, Json::spaced_len, |text| Json::from(text).as_str().len());
        within("bytes of its metadata", bytes, "max_metadata_bytes", policy.max_metadata_bytes)?;
    }
    Ok(())
}

/// Bytes of all metadata, and of the coordinates without theirs, as JSON; `json` and `text` tell those of a value and of a string.
fn metadata_bytes(record: &RecordMetadata, json: impl Fn(&Json) -> usize, text: impl Fn(&str) -> usize) -> u64 {
    let value = |value: &Option<Json>| value.as_ref().map_or("null".len(), &json);
    let string = |string: &Option<String>| string.as_deref().map_or("null".len(), &text);
    let coordinate = |c: &Coordinate| {
        let keys = r#"{"reference": , "start": , "step": , "unit": , "values": }"#.len();
        keys + value(&c.values) + value(&c.start) + value(&c.step) + string(&c.reference) + string(&c.unit) + json(&c.metadata)
    };
    let axis = |a: &Axis| json(&a.metadata) + a.coordinate.as_ref().map_or(0, coordinate);
    let field = |f: &FieldMetadata| json(&f.metadata) + f.axes.iter().map(axis).sum::<usize>();
    (json(&record.metadata) + record.fields.iter().map(field).sum::<usize>()) as u64
}

fn one_field(field: &FieldMetadata, policy: &ResourcePolicy) -> Result<()> {
    if field.name.is_empty() {
        return Err(invalid("the name is empty: give it one"));
    }
    if dtype_rank(&field.dtype).is_none() {
        return Err(unsupported(&field.dtype));
    }
    within("axes", field.axes.len() as u64, "max_axes_per_field", policy.max_axes_per_field)?;
    if field.axes.len() != field.shape.len() {
        let (axes, rank) = (field.axes.len(), field.shape.len());
        return Err(invalid(format!("{axes} axes for {rank} dimensions {:?}: give one axis for each", field.shape)));
    }
    object(&field.metadata)?;
    for (dimension, (axis, &length)) in field.axes.iter().zip(&field.shape).enumerate() {
        if axis.name.is_empty() {
            return Err(invalid(format!("axis {dimension} has an empty name: give it one")));
        }
        if axis.length != length as u64 {
            return Err(invalid(format!(
                "axis '{}' has length {}, but dimension {dimension} of its array {:?} has {length}",
                axis.name, axis.length, field.shape
            )));
        }
        one_axis(axis, policy).map_err(|e| e.within(format!("axis '{}'", axis.name)))?;
    }
    distinct("axes", field.axes.iter().map(|a| a.name.as_str()))
}

fn one_axis(axis: &Axis, policy: &ResourcePolicy) -> Result<()> {
    object(&axis.metadata)?;
    let Some(coordinate) = &axis.coordinate else { return Ok(()) };
    object(&coordinate.metadata)?;
    let linear = [("start", &coordinate.start), ("step", &coordinate.step)];
    let is_linear = linear.iter().any(|(_, number)| number.is_some());
    let forms = [coordinate.values.is_some(), is_linear, coordinate.reference.is_some()];
    if forms.into_iter().filter(|&form| form).count() > 1 {
        return Err(invalid("its coordinate has more than one of values, start with step, and reference: keep one"));
    }
    for (name, number) in linear {
        match number {
            Some(number) if !is_number(number) => {
                return Err(invalid(format!("the coordinate's {name} is {number}, not a number")));
            }
            None if is_linear => return Err(invalid(format!("the coordinate has no {name}: start and step go together"))),
            _ => {}
        }
    }
    if let Some(values) = &coordinate.values {
        let count = values.list_len().ok_or_else(|| invalid("the coordinate's values are not a list"))? as u64;
        within("coordinate values", count, "max_coordinate_values", policy.max_coordinate_values)?;
        if count != axis.length {
            return Err(invalid(format!("{count} coordinate values for a length of {}", axis.length)));
        }
    }
    Ok(())
}

/// Axes of one id agree.
fn shared_axes(record: &RecordMetadata) -> Result<()> {
    let mut known: HashMap<&str, &Axis> = HashMap::new();
    for (field, axis) in axes(record) {
        let Some(id) = axis.id.as_deref().filter(|id| !id.is_empty()) else { continue };
        let first = *known.entry(id).or_insert(axis);
        if first.length != axis.length || !same_coordinate(first.coordinate.as_ref(), axis.coordinate.as_ref()) {
            return Err(invalid(format!(
                "field '{}': axis '{}' has the id '{id}' of another axis, but not its length and coordinate: axes of one id are one axis",
                field.name, axis.name
            )));
        }
    }
    Ok(())
}

/// References name a field or an axis id.
fn references(record: &RecordMetadata) -> Result<()> {
    let mut targets: Option<HashSet<&str>> = None;
    for (field, axis) in axes(record) {
        let Some(name) = axis.coordinate.as_ref().and_then(reference) else { continue };
        let targets = targets.get_or_insert_with(|| {
            let ids = axes(record).filter_map(|(_, axis)| axis.id.as_deref());
            record.fields.iter().map(|f| f.name.as_str()).chain(ids).collect()
        });
        if !targets.contains(name) {
            return Err(invalid(format!(
                "field '{}': axis '{}': the coordinate's reference '{name}' is neither a field of the record nor an axis id",
                field.name, axis.name
            )));
        }
    }
    Ok(())
}

fn axes(record: &RecordMetadata) -> impl Iterator<Item = (&FieldMetadata, &Axis)> {
    record.fields.iter().flat_map(|field| field.axes.iter().map(move |axis| (field, axis)))
}

/// What it refers to; an empty text is no name.
fn reference(coordinate: &Coordinate) -> Option<&str> {
    coordinate.reference.as_deref().filter(|name| !name.is_empty())
}

/// An error with the first name that comes twice.
fn distinct<'a>(what: &str, names: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
    let ascending = names.clone().zip(names.clone().skip(1)).all(|(a, b)| a < b);
    let mut seen = HashSet::new();
    match names.into_iter().find(|&name| !ascending && !seen.insert(name)) {
        Some(name) => Err(invalid(format!("two {what} are called '{name}': rename one"))),
        None => Ok(()),
    }
}

fn same_coordinate(a: Option<&Coordinate>, b: Option<&Coordinate>) -> bool {
    let same = |a: &Option<Json>, b: &Option<Json>| match (a, b) {
        (Some(a), Some(b)) => a.equals(b),
        (a, b) => a.is_none() && b.is_none(),
    };
    match (a, b) {
        (Some(a), Some(b)) => {
            (&a.reference, &a.unit) == (&b.reference, &b.unit)
                && same(&a.values, &b.values)
                && same(&a.start, &b.start)
                && same(&a.step, &b.step)
                && a.metadata.equals(&b.metadata)
        }
        (a, b) => a.is_none() && b.is_none(),
    }
}

fn object(metadata: &Json) -> Result<()> {
    if metadata.is_object() { Ok(()) } else { Err(invalid(format!("its metadata is {metadata}, not an object"))) }
}

fn is_number(json: &Json) -> bool {
    json.as_str().starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

fn unsupported(dtype: &DType) -> FormatError {
    let instead = match (dtype.kind(), dtype.itemsize()) {
        _ if dtype.is_big_endian() => "turn it into the little-endian dtype",
        (Kind::Complex, _) => "convert it to complex64, which loses precision",
        (Kind::Float, _) => "convert it to float64",
        (Kind::Bytes | Kind::Unicode | Kind::Void, _) => "put texts into the metadata, other bytes into a uint8 field",
        _ => "convert it to int64 and name the unit in the metadata",
    };
    FormatError::invalid(format!("dtype {} cannot be held by a record: {instead}", dtype.name()))
}
