//! From bytes to what is said of a record, and where its samples lie.

use super::policy::within;
use super::safetensors::{Tensor, U8, dtype_rank, read_header};
use super::validate::{checked, record_name};
use super::{Axis, Coordinate, DESCRIPTOR, FORMAT, FieldMetadata, RecordMetadata, ResourcePolicy, VERSION};
use crate::error::{FormatError, FormatErrorKind, Result};
use crate::model::json::{Json, Limits, Parser};
use crate::model::{DType, Kind};
use std::borrow::Cow;
use std::ops::Range;

/// What a record's bytes say, and where in them the samples lie. Nothing is copied but names and metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// Everything but the samples; fields in the order of the descriptor, which is that of their names.
    pub metadata: RecordMetadata,
    /// For each field, the place of its samples in the payload: C order, little-endian, at any alignment.
    pub data: Vec<Range<usize>>,
}

/// Reads a record. Unknown keys of the descriptor are ignored; `scene_id`, metadata, and what an axis says beside name and length
/// may be missing. Scalars (rank 0), which the reference cannot hold, are read.
///
/// # Errors
/// Corrupt for what breaks a rule of SafeTensors, of the descriptor or of [`super::validate`]; Unsupported for another format, version or
/// dtype; Limit where the policy is exceeded. They name the record as far as it is known, field, axis or tensor.
///
/// ```
/// use sigbank_format::error::FormatErrorKind;
/// use sigbank_format::record::signal::{ResourcePolicy, decode};
/// let e = decode(b"\xff\0\0\0\0\0\0\0{}", &ResourcePolicy::default()).unwrap_err();
/// assert_eq!(e.kind(), FormatErrorKind::Corrupt);
/// assert!(e.to_string().contains("255 bytes, but only 2 follow"));
/// ```
pub fn decode(payload: &[u8], policy: &ResourcePolicy) -> Result<Decoded> {
    let tensors = read_header(payload, policy)?;
    let text = descriptor(payload, &tensors, policy)?;
    let (mut record, named) = document(text, &policy.json(), policy, Document::Descriptor)?;
    let data = resolve(&mut record.fields, &named, &tensors).map_err(|e| e.within(record_name(&record.id)))?;
    checked(&record, policy, true).map_err(stored)?;
    Ok(Decoded { metadata: record, data })
}

/// Reads a document of the metadata shard, which [`super::encode_metadata`] writes. Limits on the bytes of samples are left out.
///
/// # Errors
/// Those of [`decode`].
pub fn decode_metadata(document: &[u8], policy: &ResourcePolicy, control: &Limits) -> Result<RecordMetadata> {
    within("bytes of a metadata document", document.len() as u64, "max_metadata_bytes", policy.max_metadata_bytes)?;
    let (record, _) = self::document(document, control, policy, Document::Metadata)?;
    checked(&record, policy, false).map_err(stored)?;
    Ok(record)
}

/// Bytes that break a rule are damaged.
fn stored(e: FormatError) -> FormatError {
    let kind = if e.kind() == FormatErrorKind::Invalid { FormatErrorKind::Corrupt } else { e.kind() };
    FormatError::new(kind, e.to_string())
}

fn corrupt(message: impl Into<String>) -> FormatError {
    FormatError::corrupt(message)
}

/// The descriptor's bytes.
fn descriptor<'a>(payload: &'a [u8], tensors: &[Tensor<'_>], policy: &ResourcePolicy) -> Result<&'a [u8]> {
    let tensor = tensors.iter().find(|t| t.name == DESCRIPTOR);
    let tensor =
        tensor.ok_or_else(|| corrupt(format!("there is no tensor {DESCRIPTOR}: this is not a signal-dataset record")))?;
    if dtype_rank(&tensor.dtype) != Some(U8) || tensor.shape.len() != 1 {
        let (dtype, shape) = (tensor.dtype.name(), &tensor.shape);
        return Err(corrupt(format!("{DESCRIPTOR} is {dtype} of shape {shape:?}, where bytes (uint8) in one dimension belong")));
    }
    within("bytes of the descriptor", tensor.range.len() as u64, "max_descriptor_bytes", policy.max_descriptor_bytes)?;
    Ok(payload.get(tensor.range.clone()).unwrap_or_default())
}

/// Finds each field's tensor: `named` are the names that the descriptor gives.
fn resolve(fields: &mut [FieldMetadata], named: &[Cow<'_, str>], tensors: &[Tensor<'_>]) -> Result<Vec<Range<usize>>> {
    let mut by_name: Vec<(&Tensor<'_>, bool)> = tensors.iter().map(|t| (t, t.name == DESCRIPTOR)).collect();
    by_name.sort_unstable_by(|a, b| a.0.name.cmp(&b.0.name));
    let mut data = Vec::with_capacity(fields.len());
    for (field, name) in fields.iter_mut().zip(named) {
        let found = by_name.binary_search_by(|(t, _)| t.name.cmp(name)).ok().filter(|_| name != DESCRIPTOR);
        let Some((tensor, used)) = found.and_then(|i| by_name.get_mut(i)) else {
            return Err(corrupt(format!("field '{}': there is no tensor '{name}' in the record", field.name)));
        };
        *used = true;
        field.dtype = tensor.dtype.clone();
        field.shape.clone_from(&tensor.shape);
        data.push(tensor.range.clone());
    }
    match by_name.iter().find(|(_, used)| !used) {
        Some((tensor, _)) => Err(corrupt(format!("no field names the tensor '{}'", tensor.name))),
        None => Ok(data),
    }
}

/// The two documents that describe a record.
#[derive(Clone, Copy, PartialEq)]
enum Document {
    /// Within the record: it has a format and a version, and names the tensors, which have dtype and shape.
    Descriptor,
    /// In the metadata shard: it has dtype and shape itself.
    Metadata,
}

/// Reads a document. Of a descriptor, dtypes and shapes are still to be filled in, by the names of tensors that come along.
fn document<'a>(
    text: &'a [u8],
    limits: &Limits,
    policy: &ResourcePolicy,
    kind: Document,
) -> Result<(RecordMetadata, Vec<Cow<'a, str>>)> {
    let read = || {
        let mut parser = Parser::new(text, limits)?;
        let (mut id, mut scene_id, mut metadata) = (None, None, Json::EMPTY);
        let (mut format, mut version, mut fields) = (None, None, None);
        parser.object(|p, key| {
            match &*key {
                "id" => id = Some(p.string()?.into_owned()),
                "scene_id" => scene_id = optional(p)?,
                "metadata" => metadata = object(p)?,
                "fields" => fields = Some(self::fields(p, policy, kind)?),
                "format" => format = Some(p.json()?),
                "version" => version = Some(p.json()?),
                _ => p.skip()?,
            }
            Ok(())
        })?;
        parser.finish()?;
        let missing = |what: &str| corrupt(format!("the key '{what}' is missing"));
        if kind == Document::Descriptor {
            supported("format", format, FORMAT)?;
            supported("version", version, VERSION)?;
        }
        let (fields, tensors) = fields.ok_or_else(|| missing("fields"))?;
        Ok((RecordMetadata { id: id.ok_or_else(|| missing("id"))?, scene_id, metadata, fields }, tensors))
    };
    read().map_err(|e: FormatError| explained(e, text, limits, kind))
}

/// What went wrong in a document: its version where that is another, else the error with the record's id.
fn explained(e: FormatError, text: &[u8], limits: &Limits, kind: Document) -> FormatError {
    let mut record = "a record".to_owned();
    let (mut format, mut version) = (None, None);
    let readable = Parser::new(text, limits).and_then(|mut parser| {
        parser.object(|p, key| {
            match (&*key, p.peek()) {
                ("id", Some(b'"')) => record = record_name(&p.string()?),
                ("format", _) => format = Some(p.json()?),
                ("version", _) => version = Some(p.json()?),
                _ => p.skip()?,
            }
            Ok(())
        })
    });
    let other = match kind {
        Document::Descriptor if readable.is_ok() => {
            supported("format", format, FORMAT).and(supported("version", version, VERSION))
        }
        _ => Ok(()),
    };
    let what = if kind == Document::Descriptor { "descriptor" } else { "metadata document" };
    other.err().unwrap_or(e).within(format!("{what} of {record}"))
}

fn supported(key: &str, found: Option<Json>, known: &str) -> Result<()> {
    match found {
        Some(found) if found.as_str().strip_prefix('"').and_then(|s| s.strip_suffix('"')) == Some(known) => Ok(()),
        Some(found) => Err(FormatError::unsupported(format!("its {key} is {found}; only \"{known}\" is read"))),
        None => Err(FormatError::unsupported(format!("it has no {key}; only \"{known}\" is read"))),
    }
}

fn fields<'a>(p: &mut Parser<'a>, policy: &ResourcePolicy, kind: Document) -> Result<(Vec<FieldMetadata>, Vec<Cow<'a, str>>)> {
    let (mut fields, mut tensors) = (Vec::with_capacity(1), Vec::with_capacity(1));
    p.object(|p, name| {
        within("fields of a record", fields.len() as u64 + 1, "max_fields", policy.max_fields)?;
        let (field, tensor) = field(p, &name, policy, kind).map_err(|e| e.within(format!("field '{name}'")))?;
        fields.push(field);
        tensors.extend(tensor);
        Ok(())
    })?;
    Ok((fields, tensors))
}

fn field<'a>(
    p: &mut Parser<'a>,
    name: &str,
    policy: &ResourcePolicy,
    kind: Document,
) -> Result<(FieldMetadata, Option<Cow<'a, str>>)> {
    let (mut tensor, mut dtype, mut shape) = (None, None, None);
    let (mut axes, mut metadata) = (Vec::new(), Json::EMPTY);
    p.object(|p, key| {
        match (&*key, kind) {
            ("axes", _) => p.array(|p| {
                within("axes", axes.len() as u64 + 1, "max_axes_per_field", policy.max_axes_per_field)?;
                axes.push(axis(p).map_err(|e| e.within(format!("axis {}", axes.len())))?);
                Ok(())
            })?,
            ("metadata", _) => metadata = object(p)?,
            ("tensor", Document::Descriptor) => tensor = Some(p.string()?),
            ("dtype", Document::Metadata) => dtype = Some(p.string()?.parse()?),
            ("shape", Document::Metadata) => shape = Some(lengths(p)?),
            _ => p.skip()?,
        }
        Ok(())
    })?;
    let missing = |what: &str| corrupt(format!("the key '{what}' is missing"));
    let (dtype, shape) = match kind {
        Document::Metadata => (dtype.ok_or_else(|| missing("dtype"))?, shape.ok_or_else(|| missing("shape"))?),
        Document::Descriptor if tensor.is_none() => return Err(missing("tensor")),
        Document::Descriptor => (DType::new(Kind::UInt, 1)?, Vec::new()),
    };
    Ok((FieldMetadata { name: name.to_owned(), dtype, shape, axes, metadata }, tensor))
}

fn lengths(p: &mut Parser<'_>) -> Result<Vec<usize>> {
    let mut lengths = Vec::new();
    p.array(|p| {
        let n = p.unsigned()?;
        lengths.push(usize::try_from(n).map_err(|_| FormatError::limit(format!("{n} is too large a length here")))?);
        Ok(())
    })?;
    Ok(lengths)
}

fn axis(p: &mut Parser<'_>) -> Result<Axis> {
    let (mut name, mut length) = (None, None);
    let mut axis = Axis::new(String::new(), 0);
    p.object(|p, key| {
        match &*key {
            "name" => name = Some(p.string()?.into_owned()),
            "length" => length = Some(p.unsigned()?),
            "role" => axis.role = optional(p)?,
            "id" => axis.id = optional(p)?,
            "coordinate" if p.null()? => {}
            "coordinate" => axis.coordinate = Some(coordinate(p)?),
            "metadata" => axis.metadata = object(p)?,
            _ => p.skip()?,
        }
        Ok(())
    })?;
    let missing = |what: &str| corrupt(format!("the key '{what}' is missing"));
    axis.name = name.ok_or_else(|| missing("name"))?;
    axis.length = length.ok_or_else(|| missing("length"))?;
    Ok(axis)
}

fn coordinate(p: &mut Parser<'_>) -> Result<Coordinate> {
    let mut coordinate = Coordinate::default();
    p.object(|p, key| {
        match &*key {
            "values" => coordinate.values = some(p)?,
            "start" => coordinate.start = some(p)?,
            "step" => coordinate.step = some(p)?,
            "reference" => coordinate.reference = optional(p)?,
            "unit" => coordinate.unit = optional(p)?,
            "metadata" => coordinate.metadata = object(p)?,
            _ => p.skip()?,
        }
        Ok(())
    })?;
    Ok(coordinate)
}

/// A string or null.
fn optional(p: &mut Parser<'_>) -> Result<Option<String>> {
    if p.null()? { Ok(None) } else { Ok(Some(p.string()?.into_owned())) }
}

/// Any value but null.
fn some(p: &mut Parser<'_>) -> Result<Option<Json>> {
    if p.null()? { Ok(None) } else { p.json().map(Some) }
}

/// An object; null is an empty one.
fn object(p: &mut Parser<'_>) -> Result<Json> {
    if p.null()? {
        return Ok(Json::EMPTY);
    }
    let json = p.json()?;
    if json.is_object() { Ok(json) } else { Err(corrupt(format!("the metadata are {json}, not an object"))) }
}
