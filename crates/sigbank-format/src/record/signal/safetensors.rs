//! The frame of a SafeTensors payload: eight bytes of length, a JSON header, the tensors' bytes without gaps.

use super::policy::{ResourcePolicy, within};
use crate::error::{FormatError, Result};
use crate::model::array::byte_len;
use crate::model::json::{Parser, write_string};
use crate::model::{DType, Kind};
use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;

/// The dtypes, in the order in which their tensors lie in a payload.
const DTYPES: [(&str, Kind, usize); 13] = [
    ("U64", Kind::UInt, 8),
    ("I64", Kind::Int, 8),
    ("F64", Kind::Float, 8),
    ("C64", Kind::Complex, 8),
    ("F32", Kind::Float, 4),
    ("U32", Kind::UInt, 4),
    ("I32", Kind::Int, 4),
    ("F16", Kind::Float, 2),
    ("U16", Kind::UInt, 2),
    ("I16", Kind::Int, 2),
    ("I8", Kind::Int, 1),
    ("U8", Kind::UInt, 1),
    ("BOOL", Kind::Bool, 1),
];

/// The place of the descriptor's dtype in the list above.
pub(super) const U8: usize = 11;

/// The place of a dtype in the list above; none where a record cannot hold it.
pub(super) fn dtype_rank(dtype: &DType) -> Option<usize> {
    DTYPES.iter().position(|&(_, kind, size)| (kind, size) == (dtype.kind(), dtype.itemsize()) && !dtype.is_big_endian())
}

/// A tensor of a payload's header.
#[derive(Debug)]
pub(super) struct Tensor<'a> {
    pub name: Cow<'a, str>,
    pub dtype: DType,
    pub shape: Vec<usize>,
    /// Of its bytes, in the payload.
    pub range: Range<usize>,
}

/// Appends the frame of tensors (name, place of the dtype, shape, bytes), which are in the order of their bytes.
pub(super) fn write_header<'a>(tensors: impl Iterator<Item = (Cow<'a, str>, usize, &'a [usize], usize)>, out: &mut Vec<u8>) {
    let (mut header, mut at) = (String::from("{"), 0);
    for (i, (name, rank, shape, bytes)) in tensors.enumerate() {
        if i > 0 {
            header.push(',');
        }
        write_string(&name, &mut header);
        let dtype = DTYPES.get(rank).map(|d| d.0).unwrap_or_default();
        header.push_str(":{\"dtype\":\"");
        header.push_str(dtype);
        header.push_str("\",\"shape\":[");
        for (i, length) in shape.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = if i > 0 { write!(header, ",{length}") } else { write!(header, "{length}") };
        }
        let _ = write!(header, "],\"data_offsets\":[{at},{}]}}", at + bytes);
        at += bytes;
    }
    header.push('}');
    let padded = header.len().next_multiple_of(8);
    out.extend_from_slice(&(padded as u64).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    out.resize(out.len() + padded - header.len(), b' ');
}

/// The tensors of a payload, in the order of the header. That each is as long as dtype and shape say, and that together they are all
/// bytes behind the header, without gaps and overlaps, has been checked.
pub(super) fn read_header<'a>(payload: &'a [u8], policy: &ResourcePolicy) -> Result<Vec<Tensor<'a>>> {
    within("bytes of an encoded record", payload.len() as u64, "max_encoded_record_bytes", policy.max_encoded_record_bytes)?;
    let Some((length, rest)) = payload.split_first_chunk::<8>() else {
        return Err(FormatError::corrupt(format!(
            "{} bytes are no SafeTensors record: it begins with 8 bytes of length",
            payload.len()
        )));
    };
    let length = u64::from_le_bytes(*length);
    let header = usize::try_from(length).ok().and_then(|n| rest.get(..n)).ok_or_else(|| {
        FormatError::corrupt(format!(
            "the SafeTensors header has {length} bytes, but only {} follow: the record was cut short or is damaged",
            rest.len()
        ))
    })?;
    let data = 8 + header.len();
    let mut tensors = Vec::with_capacity(2);
    let mut parser = Parser::new(header, &policy.json())?;
    parser.object(|p, name| {
        if name == "__metadata__" {
            return p.object(|p, _| p.string().map(drop));
        }
        // One is the descriptor.
        within("tensors of a record", tensors.len() as u64, "max_fields", policy.max_fields)?;
        let (dtype, shape, range) = tensor(p, data, payload.len()).map_err(|e| e.within(format!("tensor '{name}'")))?;
        tensors.push(Tensor { name, dtype, shape, range });
        Ok(())
    })?;
    parser.finish()?;
    contiguous(&tensors, data, payload.len())?;
    Ok(tensors)
}

/// What the header says of one tensor; `data` is where the bytes behind the header begin, `end` where they end.
fn tensor(p: &mut Parser<'_>, data: usize, end: usize) -> Result<(DType, Vec<usize>, Range<usize>)> {
    let missing = |what: &str| FormatError::corrupt(format!("there is no {what}"));
    let (mut dtype, mut shape, mut offsets) = (None, None, None);
    p.object(|p, key| {
        match &*key {
            "dtype" => dtype = Some(p.string()?),
            "shape" => shape = Some(lengths(p)?),
            "data_offsets" => offsets = Some(lengths(p)?),
            _ => p.skip()?,
        }
        Ok(())
    })?;
    let word = dtype.ok_or_else(|| missing("dtype"))?;
    let known = DTYPES.iter().find(|d| d.0 == word).ok_or_else(|| {
        FormatError::unsupported(format!("the dtype {word} is none that a record may hold ({})", DTYPES.map(|d| d.0).join(", ")))
    })?;
    let dtype = DType::new(known.1, known.2)?;
    let shape = shape.ok_or_else(|| missing("shape"))?;
    let range = match offsets.ok_or_else(|| missing("data_offsets"))?[..] {
        [from, to] if from <= to && to <= end - data => data + from..data + to,
        ref other => {
            return Err(FormatError::corrupt(format!(
                "data_offsets {other:?} are not a begin and an end within the {} bytes behind the header",
                end - data
            )));
        }
    };
    let want = byte_len(&dtype, &shape)?;
    if range.len() != want {
        return Err(FormatError::corrupt(format!(
            "{} bytes by its data_offsets, where {word} of shape {shape:?} takes {want}",
            range.len()
        )));
    }
    Ok((dtype, shape, range))
}

fn lengths(p: &mut Parser<'_>) -> Result<Vec<usize>> {
    let mut lengths = Vec::with_capacity(2);
    p.array(|p| {
        let n = p.unsigned()?;
        lengths.push(usize::try_from(n).map_err(|_| FormatError::limit(format!("{n} is too large a length here")))?);
        Ok(())
    })?;
    Ok(lengths)
}

fn contiguous(tensors: &[Tensor<'_>], data: usize, end: usize) -> Result<()> {
    let in_order = |tensors: &mut dyn Iterator<Item = &Tensor<'_>>| {
        let mut at = data;
        for tensor in tensors {
            if tensor.range.start != at {
                let fault = if tensor.range.start < at { "overlaps the tensor before it" } else { "leaves a gap before it" };
                return Err(FormatError::corrupt(format!(
                    "tensor '{}' begins at byte {} of the data and {fault}, which ends at {}",
                    tensor.name,
                    tensor.range.start - data,
                    at - data
                )));
            }
            at = tensor.range.end;
        }
        Ok(at)
    };
    // As they are written they are in order.
    let last = in_order(&mut tensors.iter()).or_else(|_| {
        let mut sorted: Vec<_> = tensors.iter().collect();
        sorted.sort_by_key(|t| (t.range.start, t.range.end));
        in_order(&mut sorted.into_iter())
    })?;
    if last != end {
        return Err(FormatError::corrupt(format!("{} bytes follow the last tensor: the record is damaged", end - last)));
    }
    Ok(())
}
