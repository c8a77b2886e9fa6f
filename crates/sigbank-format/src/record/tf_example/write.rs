//! Writing a record.

use super::wire::{delimited, plain, put_varint, varint_len};
use super::{Attribute, Form};
use crate::error::{FormatError, Result};
use crate::model::FieldType;

/// What a serialized TensorProto calls float16.
pub(super) const DT_HALF: u64 = 19;

/// A value, ready to be written: it, and the length of the list's elements in the message.
struct Planned<'a> {
    attribute: &'a Attribute,
    value: &'a [u8],
    elements: usize,
}

impl Planned<'_> {
    /// BytesList, FloatList or Int64List: field 1 of each is its values.
    fn list(&self) -> usize {
        match self.attribute.form {
            Form::Octets => field_len(1) * self.elements,
            _ => field_len(self.elements),
        }
    }
    /// Feature: one of the lists.
    fn feature(&self) -> usize {
        field_len(self.list())
    }
    /// An entry of the map: its key and its Feature.
    fn entry(&self) -> usize {
        field_len(self.attribute.name.len()) + field_len(self.feature())
    }
}

/// A field with a length before its `len` bytes.
fn field_len(len: usize) -> usize {
    1 + varint_len(len as u64) + len
}

fn open(field: u8, len: usize, out: &mut Vec<u8>) {
    out.push(delimited(field));
    put_varint(len as u64, out);
}

pub(super) fn example(attributes: &[Attribute], values: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
    if values.len() != attributes.len() {
        return Err(FormatError::invalid(format!("{} values for {} attributes", values.len(), attributes.len())));
    }
    let plan = attributes
        .iter()
        .zip(values)
        .map(|(attribute, value)| {
            check(attribute, value).map_err(|e| e.within(format!("attribute '{}'", attribute.name)))?;
            Ok(Planned { attribute, value, elements: elements_len(attribute, value) })
        })
        .collect::<Result<Vec<_>>>()?;
    let features = plan.iter().map(|p| field_len(p.entry())).sum();
    out.reserve(field_len(features));
    open(1, features, out);
    for p in &plan {
        open(1, p.entry(), out);
        open(1, p.attribute.name.len(), out);
        out.extend_from_slice(p.attribute.name.as_bytes());
        open(2, p.feature(), out);
        let kind = match p.attribute.form {
            Form::Bytes { .. } | Form::Octets | Form::Half => 1,
            Form::Floats { .. } => 2,
            Form::Ints { .. } => 3,
        };
        open(kind, p.list(), out);
        if p.attribute.form == Form::Octets {
            p.value.iter().for_each(|&byte| out.extend_from_slice(&[delimited(1), 1, byte]));
            continue;
        }
        open(1, p.elements, out);
        match p.attribute.form {
            Form::Bytes { .. } | Form::Octets | Form::Floats { .. } => out.extend_from_slice(p.value),
            Form::Half => tensor(&p.attribute.ty, p.value, out),
            Form::Ints { width: 1, min: 0, .. } => small(p.value, out),
            Form::Ints { width, min, .. } => numbers(p.value, width, min).for_each(|n| put_varint(n, out)),
        }
    }
    Ok(())
}

fn check(attribute: &Attribute, value: &[u8]) -> Result<()> {
    if let Some(len) = attribute.len.filter(|len| *len != value.len()) {
        return Err(FormatError::invalid(format!("{} bytes given for {}, which takes {len}", value.len(), attribute.ty)));
    }
    if attribute.form == (Form::Bytes { text: true })
        && let Err(e) = std::str::from_utf8(value)
    {
        return Err(FormatError::invalid(format!("the text is not UTF-8: {e}")));
    }
    Ok(())
}

/// How many bytes the list's elements take: of numbers all, of byte strings each.
fn elements_len(attribute: &Attribute, value: &[u8]) -> usize {
    match attribute.form {
        Form::Bytes { .. } | Form::Octets | Form::Floats { .. } => value.len(),
        Form::Half => tensor_len(&attribute.ty, value),
        Form::Ints { width: 1, min: 0, .. } => value.len() + value.iter().map(|b| usize::from(b >> 7)).sum::<usize>(),
        Form::Ints { width, min, .. } => numbers(value, width, min).map(varint_len).sum(),
    }
}

/// The integers of an array as Int64List holds them: negative ones as two's complement of 64 bits.
fn numbers(value: &[u8], width: usize, min: i64) -> impl Iterator<Item = u64> {
    let unused = 64 - 8 * width.clamp(1, 8) as u32;
    value.chunks_exact(width.max(1)).map(move |element| {
        let mut word = [0; 8];
        word.iter_mut().zip(element).for_each(|(to, from)| *to = *from);
        let word = u64::from_le_bytes(word);
        if min < 0 { ((word << unused) as i64 >> unused) as u64 } else { word }
    })
}

/// Bytes as varints: from 128 on each is followed by a 1, for its own high bit says "not the last".
fn small(value: &[u8], out: &mut Vec<u8>) {
    let mut piece = [0; 2 * 64];
    for values in value.chunks(64) {
        let mut at = 0;
        for &value in values {
            if let Some([this, next]) = piece.get_mut(at..at + 2) {
                (*this, *next) = (value, 1);
            }
            at += 1 + usize::from(value >> 7);
        }
        out.extend_from_slice(piece.get(..at).unwrap_or_default());
    }
}

fn shape(ty: &FieldType) -> &[usize] {
    match ty {
        FieldType::Array { shape, .. } => shape,
        _ => &[],
    }
}

/// TensorShapeProto.Dim: field 1 is the size.
fn dim_len(size: usize) -> usize {
    1 + varint_len(size as u64)
}

/// TensorShapeProto: field 2 is its dims.
fn shape_len(shape: &[usize]) -> usize {
    shape.iter().map(|&size| field_len(dim_len(size))).sum()
}

fn tensor_len(ty: &FieldType, value: &[u8]) -> usize {
    1 + varint_len(DT_HALF) + field_len(shape_len(shape(ty))) + field_len(value.len())
}

/// TensorProto: 1 the dtype, 2 the shape, 4 the bytes.
fn tensor(ty: &FieldType, value: &[u8], out: &mut Vec<u8>) {
    out.push(plain(1));
    put_varint(DT_HALF, out);
    open(2, shape_len(shape(ty)), out);
    for &size in shape(ty) {
        open(2, dim_len(size), out);
        out.push(plain(1));
        put_varint(size as u64, out);
    }
    open(4, value.len(), out);
    out.extend_from_slice(value);
}
