//! From a record to its bytes.

use super::policy::within;
use super::safetensors::{dtype_rank, write_header};
use super::validate::{checked, record_name};
use super::{Axis, Coordinate, DESCRIPTOR, FORMAT, FieldMetadata, RecordMetadata, ResourcePolicy, VERSION};
use crate::error::{FormatError, Result};
use crate::model::json::{Json, Parser, write_string};
use std::borrow::Cow;
use std::fmt::Write;

/// The bytes of a record: `data` are the samples of each field, C order, little-endian, in the order of `record.fields`.
///
/// The same record gives the same bytes, whatever the order of its fields, and they are the reference package's.
///
/// # Errors
/// Those of [`super::validate`]; Invalid for other data than dtype and shape ask for and for scalars (which the reference cannot
/// hold); Limit for descriptors and records over the policy. All name record and field.
pub fn encode(record: &RecordMetadata, data: &[&[u8]], policy: &ResourcePolicy) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    encode_into(record, data, policy, &mut out)?;
    Ok(out)
}

/// Appends the bytes of a record to `out`, which is as it was after an error. See [`encode`].
///
/// ```
/// use sigbank_format::record::signal::{Axis, FieldMetadata, RecordMetadata, ResourcePolicy, encode, encode_into};
/// let field = FieldMetadata { axes: vec![Axis::new("t", 2)], ..FieldMetadata::new("x", "uint8".parse()?, vec![2]) };
/// let (record, policy) = (RecordMetadata::new("a", vec![field]), ResourcePolicy::default());
/// let mut out = vec![1];
/// encode_into(&record, &[b"xy"], &policy, &mut out)?;
/// assert_eq!(out[1..], encode(&record, &[b"xy"], &policy)?);
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
///
/// # Errors
/// Those of [`encode`].
pub fn encode_into(record: &RecordMetadata, data: &[&[u8]], policy: &ResourcePolicy, out: &mut Vec<u8>) -> Result<()> {
    let Parts { header, descriptor, order, bytes } = parts(record, data, policy)?;
    out.reserve_exact(bytes);
    out.extend_from_slice(&header);
    for part in order {
        let part = part.map_or(descriptor.as_bytes(), |field| data.get(field).copied().unwrap_or_default());
        out.extend_from_slice(part);
    }
    Ok(())
}

/// The bytes of a record of one field, made of its samples in their own memory: a large record is not in memory twice. See [`encode`].
///
/// ```
/// use sigbank_format::record::signal::{Axis, FieldMetadata, RecordMetadata, ResourcePolicy, encode, encode_owned};
/// let field = FieldMetadata { axes: vec![Axis::new("t", 2)], ..FieldMetadata::new("x", "int16".parse()?, vec![2]) };
/// let (record, policy) = (RecordMetadata::new("a", vec![field]), ResourcePolicy::default());
/// assert_eq!(encode_owned(&record, b"wxyz".to_vec(), &policy)?, encode(&record, &[b"wxyz"], &policy)?);
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
///
/// # Errors
/// Those of [`encode`].
pub fn encode_owned(record: &RecordMetadata, data: Vec<u8>, policy: &ResourcePolicy) -> Result<Vec<u8>> {
    let Parts { mut header, descriptor, order, bytes } = parts(record, &[&data], policy)?;
    let mut out = data;
    let before = order.first() == Some(&None);
    if before {
        header.extend_from_slice(descriptor.as_bytes());
    }
    let samples = out.len();
    out.reserve_exact(bytes - samples);
    out.resize(samples + header.len(), 0);
    out.copy_within(..samples, header.len());
    out.get_mut(..header.len()).unwrap_or_default().copy_from_slice(&header);
    if !before {
        out.extend_from_slice(descriptor.as_bytes());
    }
    Ok(out)
}

/// What a record's bytes consist of.
struct Parts {
    /// What comes first.
    header: Vec<u8>,
    descriptor: String,
    /// What follows: the descriptor, or the data of a field by its position in the record.
    order: Vec<Option<usize>>,
    /// All bytes.
    bytes: usize,
}

fn parts(record: &RecordMetadata, data: &[&[u8]], policy: &ResourcePolicy) -> Result<Parts> {
    checked(record, policy, true)?;
    let place = |e: FormatError| e.within(record_name(&record.id));
    if data.len() != record.fields.len() {
        let message = format!("data of {} fields given for {}", data.len(), record.fields.len());
        return Err(place(FormatError::invalid(message)));
    }
    let mut sorted: Vec<(usize, (&FieldMetadata, &[u8]))> = record.fields.iter().zip(data.iter().copied()).enumerate().collect();
    sorted.sort_by(|a, b| a.1.0.name.cmp(&b.1.0.name));
    let (places, fields): (Vec<usize>, Vec<(&FieldMetadata, &[u8])>) = sorted.into_iter().unzip();
    for (field, data) in &fields {
        let wrong = |message: String| place(FormatError::invalid(format!("field '{}': {message}", field.name)));
        if field.shape.is_empty() {
            return Err(wrong("a scalar, which the reference package cannot hold: give it an axis of length 1".into()));
        }
        let want = crate::model::array::byte_len(&field.dtype, &field.shape)?;
        if data.len() != want {
            let (dtype, shape) = (field.dtype.name(), &field.shape);
            return Err(wrong(format!("{} bytes given for {dtype} of shape {shape:?}, which takes {want}", data.len())));
        }
    }
    let descriptor = descriptor(record, &fields);
    let length = [descriptor.len()];
    within("bytes of the descriptor", descriptor.len() as u64, "max_descriptor_bytes", policy.max_descriptor_bytes)
        .map_err(place)?;
    readable(&descriptor, policy).map_err(place)?;

    // (name, place of the dtype, shape, bytes, which field)
    let mut tensors = Vec::with_capacity(fields.len() + 1);
    tensors.push((Cow::Borrowed(DESCRIPTOR), super::safetensors::U8, &length[..], descriptor.len(), None));
    for (i, ((field, data), place)) in fields.iter().zip(places).enumerate() {
        let rank = dtype_rank(&field.dtype).unwrap_or_default();
        tensors.push((Cow::Owned(format!("tensor_{i:06}")), rank, &field.shape[..], data.len(), Some(place)));
    }
    tensors.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));

    let mut header = Vec::new();
    write_header(tensors.iter().map(|(name, rank, shape, len, _)| (name.clone(), *rank, *shape, *len)), &mut header);
    let bytes = header.len() + tensors.iter().map(|t| t.3).sum::<usize>();
    within("bytes of an encoded record", bytes as u64, "max_encoded_record_bytes", policy.max_encoded_record_bytes)
        .map_err(place)?;
    let order = tensors.into_iter().map(|tensor| tensor.4).collect();
    Ok(Parts { header, descriptor, order, bytes })
}

/// The document that stands in the metadata shard for a record: compact JSON of all but its samples.
///
/// ```
/// use sigbank_format::model::json::Limits;
/// use sigbank_format::record::signal::{Axis, FieldMetadata, RecordMetadata, ResourcePolicy, decode_metadata, encode_metadata};
/// let field = FieldMetadata { axes: vec![Axis::new("t", 3)], ..FieldMetadata::new("x", "float32".parse()?, vec![3]) };
/// let (record, policy) = (RecordMetadata::new("a", vec![field]), ResourcePolicy::default());
/// let document = encode_metadata(&record, &policy)?;
/// assert!(document.starts_with(br#"{"fields":{"x":{"axes":[{"coordinate":null,"id":null,"length":3,"#));
/// assert_eq!(decode_metadata(&document, &policy, &Limits::default())?, record);
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
///
/// # Errors
/// Those of [`super::validate`].
pub fn encode_metadata(record: &RecordMetadata, policy: &ResourcePolicy) -> Result<Vec<u8>> {
    checked(record, policy, true)?;
    let mut fields: Vec<_> = record.fields.iter().collect();
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = String::with_capacity(512);
    members(&mut out, "{\"fields\":{", &fields, |out, field, _| {
        write_axes(&field.axes, out);
        // Writing to a String cannot fail.
        let _ = write!(out, ",\"dtype\":\"{}\",\"metadata\":{},\"shape\":[", field.dtype, field.metadata);
        separated(out, &field.shape, |out, length| {
            let _ = write!(out, "{length}");
        });
        out.push_str("]}");
    });
    identity(record, "},\"id\":", &mut out);
    out.push('}');
    let (what, found) = ("bytes of a metadata document", out.len() as u64);
    within(what, found, "max_metadata_bytes", policy.max_metadata_bytes)
        .and_then(|()| readable(&out, policy))
        .map_err(|e| e.within(record_name(&record.id)))?;
    Ok(out.into_bytes())
}

/// What is written must not be over the limits for reading it.
fn readable(text: &str, policy: &ResourcePolicy) -> Result<()> {
    Parser::new(text.as_bytes(), &policy.json())?.skip()
}

/// The descriptor of a record whose fields are sorted.
fn descriptor(record: &RecordMetadata, fields: &[(&FieldMetadata, &[u8])]) -> String {
    let mut out = String::with_capacity(512);
    let sorted: Vec<_> = fields.iter().map(|f| f.0).collect();
    members(&mut out, "{\"fields\":{", &sorted, |out, field, i| {
        write_axes(&field.axes, out);
        let _ = write!(out, ",\"metadata\":{},\"tensor\":\"tensor_{i:06}\"}}", field.metadata);
    });
    let _ = write!(out, "}},\"format\":\"{FORMAT}\"");
    identity(record, ",\"id\":", &mut out);
    let _ = write!(out, ",\"version\":\"{VERSION}\"}}");
    out
}

/// Writes the members of `fields`, each up to its axes, and lets `rest` write what follows and the last brace.
fn members(out: &mut String, start: &str, fields: &[&FieldMetadata], rest: impl Fn(&mut String, &FieldMetadata, usize)) {
    out.push_str(start);
    for (i, field) in fields.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_string(&field.name, out);
        out.push_str(":{\"axes\":");
        rest(out, field, i);
    }
}

fn identity(record: &RecordMetadata, start: &str, out: &mut String) {
    out.push_str(start);
    write_string(&record.id, out);
    let _ = write!(out, ",\"metadata\":{},\"scene_id\":", record.metadata);
    optional(record.scene_id.as_deref(), out);
}

fn write_axes(axes: &[Axis], out: &mut String) {
    out.push('[');
    separated(out, axes, |out, axis| {
        out.push_str("{\"coordinate\":");
        match &axis.coordinate {
            Some(coordinate) => write_coordinate(coordinate, out),
            None => out.push_str("null"),
        }
        out.push_str(",\"id\":");
        optional(axis.id.as_deref(), out);
        let _ = write!(out, ",\"length\":{},\"metadata\":{},\"name\":", axis.length, axis.metadata);
        write_string(&axis.name, out);
        out.push_str(",\"role\":");
        optional(axis.role.as_deref(), out);
        out.push('}');
    });
    out.push(']');
}

fn write_coordinate(coordinate: &Coordinate, out: &mut String) {
    let json = |json: &Option<Json>| json.clone().unwrap_or(Json::NULL);
    let _ = write!(out, "{{\"metadata\":{},\"reference\":", coordinate.metadata);
    optional(coordinate.reference.as_deref(), out);
    let _ = write!(out, ",\"start\":{},\"step\":{},\"unit\":", json(&coordinate.start), json(&coordinate.step));
    optional(coordinate.unit.as_deref(), out);
    let values = coordinate.values.as_ref().map_or("null", Json::as_str);
    let _ = write!(out, ",\"values\":{values}}}");
}

fn optional(text: Option<&str>, out: &mut String) {
    match text {
        Some(text) => write_string(text, out),
        None => out.push_str("null"),
    }
}

fn separated<T>(out: &mut String, items: &[T], mut write: impl FnMut(&mut String, &T)) {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write(out, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::signal::Axis;

    #[test]
    fn samples_stay_where_they_are_whatever_comes_before_them() {
        for dtype in ["bool", "uint8", "int8", "float16", "int64", "complex64"] {
            let dtype: crate::model::DType = dtype.parse().unwrap();
            let data: Vec<u8> = (0..3 * dtype.itemsize() as u8).map(|i| i & 1).collect();
            let field = FieldMetadata { axes: vec![Axis::new("t", 3)], ..FieldMetadata::new("x", dtype, vec![3]) };
            let (record, policy) = (RecordMetadata::new("a", vec![field]), ResourcePolicy::default());
            let expected = encode(&record, &[&data], &policy).unwrap();
            assert_eq!(encode_owned(&record, data.clone(), &policy).unwrap(), expected);
            let more = encode_owned(&record, [data, vec![0]].concat(), &policy).unwrap_err();
            assert!(more.to_string().contains("field 'x'"), "{more}");
        }
        let none = RecordMetadata::new("a", vec![]);
        assert!(encode_owned(&none, vec![], &ResourcePolicy::default()).is_err());
    }
}
