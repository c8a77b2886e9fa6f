//! Reading a record.

use std::borrow::Cow;

use super::wire::{Fields, Value, merge, varint};
use super::write::DT_HALF;
use super::{Attribute, Codec, Form};
use crate::container::Places;
use crate::error::{FormatError, Result};

/// Where one value goes.
pub(super) struct Place<'p> {
    pub(super) out: &'p mut dyn Places,
    pub(super) row: usize,
    /// Its attribute's place among those asked for.
    pub(super) at: usize,
}

impl<'p> Place<'p> {
    fn of(self, len: usize) -> Result<&'p mut [u8]> {
        self.out.place(self.row, self.at, len)
    }
}

/// A message that lies in the record in one piece, or, which nobody writes, in several.
type Message<'a> = Cow<'a, [u8]>;

/// The Feature of each attribute of the schema, of those that are in the record.
pub(super) fn features<'a>(codec: &Codec, record: &'a [u8]) -> Result<Vec<Option<Message<'a>>>> {
    let mut found = vec![None; codec.attributes.len()];
    let mut example = Fields(record);
    while let Some(field) = example.next()? {
        let (1, Value::Bytes(features)) = field else { continue };
        let mut features = Fields(features);
        while let Some(field) = features.next()? {
            let (1, Value::Bytes(entry)) = field else { continue };
            let (mut name, mut feature) = (&[][..], None);
            let mut entry = Fields(entry);
            while let Some(field) = entry.next()? {
                match field {
                    (1, Value::Bytes(key)) => name = key,
                    (2, Value::Bytes(value)) => merge(&mut feature, value),
                    _ => {}
                }
            }
            if let Some(slot) = codec.position(name).and_then(|at| found.get_mut(at)) {
                *slot = Some(feature.unwrap_or_default());
            }
        }
    }
    Ok(found)
}

/// Reads one attribute's value from its Feature.
pub(super) fn value(attribute: &Attribute, feature: Option<&[u8]>, place: Place<'_>) -> Result<()> {
    let feature = feature.ok_or_else(|| FormatError::corrupt("missing in this record"))?;
    // Of several kinds of list the last counts.
    let (mut kind, mut list) = (0, None);
    let mut fields = Fields(feature);
    while let Some((field, value)) = fields.next()? {
        if let (1..=3, Value::Bytes(bytes)) = (field, value) {
            if kind != field {
                (kind, list) = (field, None);
            }
            merge(&mut list, bytes);
        }
    }
    let wanted = match attribute.form {
        Form::Bytes { .. } | Form::Octets | Form::Half => 1,
        Form::Floats { .. } => 2,
        Form::Ints { .. } => 3,
    };
    let Some(list) = list.filter(|_| kind == wanted) else {
        let name = |kind| match kind {
            1 => "a BytesList",
            2 => "a FloatList",
            3 => "an Int64List",
            _ => "nothing",
        };
        let (found, wanted) = (name(kind), name(wanted));
        return Err(FormatError::corrupt(format!("{found} is stored, {wanted} is expected for {}", attribute.ty)));
    };
    match (attribute.form, attribute.len) {
        (Form::Bytes { text }, _) => {
            let value = only(&list)?;
            if text && let Err(e) = std::str::from_utf8(value) {
                return Err(FormatError::corrupt(format!("the text is not UTF-8: {e}")));
            }
            copy(value, place.of(value.len())?);
            Ok(())
        }
        (Form::Octets, Some(len)) => octets(&list, place.of(len)?),
        (Form::Half, Some(len)) => half(only(&list)?, len, place),
        (Form::Floats { width }, Some(len)) => floats(&list, width, place.of(len)?),
        (Form::Ints { width, min, max }, Some(len)) => {
            let out = place.of(len)?;
            match width {
                1 if min == 0 => ints::<1, true>(&list, min, max, out),
                1 => ints::<1, false>(&list, min, max, out),
                2 => ints::<2, false>(&list, min, max, out),
                4 => ints::<4, false>(&list, min, max, out),
                _ => ints::<8, false>(&list, min, max, out),
            }
        }
        (_, None) => Err(FormatError::invalid("an attribute of fixed size without a length")),
    }
}

/// To a place that was asked for with that length.
fn copy(from: &[u8], to: &mut [u8]) {
    if from.len() == to.len() {
        to.copy_from_slice(from);
    }
}

/// The one byte string of a BytesList.
fn only(list: &[u8]) -> Result<&[u8]> {
    let (mut found, mut count) = (&[][..], 0u64);
    let mut fields = Fields(list);
    while let Some(field) = fields.next()? {
        if let (1, Value::Bytes(value)) = field {
            found = value;
            count += 1;
        }
    }
    match count {
        1 => Ok(found),
        n => Err(FormatError::corrupt(format!("{n} byte strings are stored, one is expected"))),
    }
}

/// Reads bytes of a fixed length: byte by byte, or in one piece.
fn octets(list: &[u8], out: &mut [u8]) -> Result<()> {
    let (mut filling, mut strings) = (Filling::new(out, 1), 0u64);
    let mut fields = Fields(list);
    while let Some(field) = fields.next()? {
        let (1, Value::Bytes(value)) = field else { continue };
        strings += 1;
        if value.len() != 1 && (value.len() != filling.count || strings > 1) {
            return Err(FormatError::corrupt(format!(
                "byte string {strings} is {} bytes long; expected are {} of one byte, or one of them all",
                value.len(),
                filling.count
            )));
        }
        copy(value, filling.take(value.len())?);
    }
    filling.finish()
}

/// A list's elements go to `out` one after another.
struct Filling<'o> {
    out: &'o mut [u8],
    width: usize,
    count: usize,
}

impl<'o> Filling<'o> {
    fn new(out: &'o mut [u8], width: usize) -> Self {
        Self { count: out.len() / width.max(1), out, width }
    }
    /// The next so many elements' bytes.
    fn take(&mut self, elements: usize) -> Result<&'o mut [u8]> {
        let all = std::mem::take(&mut self.out);
        let (taken, rest) = elements
            .checked_mul(self.width)
            .and_then(|len| all.split_at_mut_checked(len))
            .ok_or_else(|| FormatError::corrupt(format!("more elements are stored than the {} expected", self.count)))?;
        self.out = rest;
        Ok(taken)
    }
    fn finish(self) -> Result<()> {
        match self.out.len() / self.width.max(1) {
            0 => Ok(()),
            left => Err(FormatError::corrupt(format!(
                "{} elements are stored, {} are expected",
                self.count.saturating_sub(left),
                self.count
            ))),
        }
    }
}

/// Reads a FloatList into elements of 4 or 8 bytes.
fn floats(list: &[u8], width: usize, out: &mut [u8]) -> Result<()> {
    let mut filling = Filling::new(out, width);
    let mut fields = Fields(list);
    while let Some((field, value)) = fields.next()? {
        let single;
        let packed = match (field, value) {
            (1, Value::Bytes(packed)) => packed,
            (1, Value::Fixed32(bytes)) => {
                single = bytes;
                &single[..]
            }
            _ => continue,
        };
        let (values, rest) = packed.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(FormatError::corrupt(format!("a FloatList of {} bytes, which is no multiple of 4", packed.len())));
        }
        let out = filling.take(values.len())?;
        if width == 4 {
            copy(packed, out);
        } else {
            let slots = out.as_chunks_mut::<8>().0;
            slots.iter_mut().zip(values).for_each(|(to, from)| *to = f64::from(f32::from_le_bytes(*from)).to_le_bytes());
        }
    }
    filling.finish()
}

/// Reads an Int64List into elements of `W` bytes.
fn ints<const W: usize, const UNSIGNED_BYTE: bool>(list: &[u8], min: i64, max: i64, out: &mut [u8]) -> Result<()> {
    let put = |slot: &mut [u8; W], value: u64| {
        let value = value as i64;
        if !(min..=max).contains(&value) {
            return Err(FormatError::corrupt(format!("{value} is stored, which is not within {min} to {max}")));
        }
        *slot = value.to_le_bytes().first_chunk().copied().unwrap_or([0; W]);
        Ok(())
    };
    let mut filling = Filling::new(out, W);
    let mut fields = Fields(list);
    while let Some((field, value)) = fields.next()? {
        match (field, value) {
            (1, Value::Bytes(mut packed)) => {
                let slots = filling.take(count(packed))?;
                if UNSIGNED_BYTE && small(packed, slots) {
                    continue;
                }
                for slot in slots.as_chunks_mut::<W>().0 {
                    let value = match packed.split_first() {
                        Some((&byte, rest)) if byte < 0x80 => {
                            packed = rest;
                            byte.into()
                        }
                        _ => varint(&mut packed)?,
                    };
                    put(slot, value)?;
                }
                if !packed.is_empty() {
                    return Err(FormatError::corrupt("an Int64List ends inside a number"));
                }
            }
            (1, Value::Varint(value)) => {
                if let Some(slot) = filling.take(1)?.first_chunk_mut() {
                    put(slot, value)?;
                }
            }
            _ => {}
        }
    }
    filling.finish()
}

/// How many numbers end in `packed`: a number's last byte has no high bit.
fn count(packed: &[u8]) -> usize {
    // Summed in bytes, which many at once can be.
    packed.chunks(255).map(|bytes| usize::from(bytes.iter().map(|b| b >> 7 ^ 1).sum::<u8>())).sum()
}

/// Reads numbers from 0 to 255 in the form in which they are always written: from 128 on, the byte itself, whose high bit says
/// "not the last", and then a 1. So what follows a byte with a high bit is left out. `out` has a place for each number that ends in
/// `packed`. False where they are not in this form.
fn small(packed: &[u8], out: &mut [u8]) -> bool {
    if packed.len() == out.len() {
        // As many bytes as numbers: none has its high bit.
        copy(packed, out);
        return true;
    }
    let (mut at, mut follows, mut other) = (0, 0u8, 0u8);
    for &byte in packed {
        // One that is left out is overwritten by the next.
        if let Some(slot) = out.get_mut(at) {
            *slot = byte;
        }
        at += usize::from(1 - follows);
        other |= follows.wrapping_neg() & (byte ^ 1);
        follows = byte >> 7;
    }
    // One more than numbers end where the last byte has its high bit.
    at == out.len() && other == 0
}

/// Reads a float16 array of `len` bytes from a TensorProto.
fn half(tensor: &[u8], len: usize, place: Place<'_>) -> Result<()> {
    let count = len / 2;
    let (mut dtype, mut shape, mut content) = (0, None, &[][..]);
    let mut halves = Vec::new();
    let mut fields = Fields(tensor);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Varint(value)) => dtype = value,
            (2, Value::Bytes(bytes)) => merge(&mut shape, bytes),
            (4, Value::Bytes(bytes)) => content = bytes,
            (13, Value::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    halves.push(varint(&mut packed)?);
                }
            }
            (13, Value::Varint(value)) => halves.push(value),
            _ => {}
        }
    }
    if dtype != DT_HALF {
        return Err(FormatError::corrupt(format!("a tensor of type {dtype} is stored, {DT_HALF} (float16) is expected")));
    }
    if let Some(shape) = &shape {
        let found = elements(shape)?;
        if found != Some(count as u64) {
            let found = found.map_or_else(|| "more".to_owned(), |n| n.to_string());
            return Err(FormatError::corrupt(format!("a tensor of {found} elements is stored, {count} are expected")));
        }
    }
    if !content.is_empty() || halves.is_empty() {
        if content.len() != len {
            return Err(FormatError::corrupt(format!("a tensor of {} bytes is stored, {len} are expected", content.len())));
        }
        copy(content, place.of(len)?);
        return Ok(());
    }
    // Numbers one by one; TensorFlow leaves out repetitions of the last one if the shape tells how many there are.
    if halves.len() != count && (halves.len() > count || shape.is_none()) {
        return Err(FormatError::corrupt(format!("{} elements are stored, {count} are expected", halves.len())));
    }
    let last = halves.last().copied().unwrap_or_default();
    let all = halves.into_iter().chain(std::iter::repeat(last));
    for (slot, value) in place.of(len)?.as_chunks_mut::<2>().0.iter_mut().zip(all) {
        let bits = u16::try_from(value)
            .map_err(|_| FormatError::corrupt(format!("{value} is stored for a float16, which has 16 bits")))?;
        *slot = bits.to_le_bytes();
    }
    Ok(())
}

/// The number of elements of a TensorShapeProto; none where it is beyond all bounds.
fn elements(shape: &[u8]) -> Result<Option<u64>> {
    let mut all = Some(1u64);
    let mut fields = Fields(shape);
    while let Some(field) = fields.next()? {
        let (2, Value::Bytes(dim)) = field else { continue };
        let (mut size, mut dim) = (0, Fields(dim));
        while let Some(field) = dim.next()? {
            if let (1, Value::Varint(value)) = field {
                size = value;
            }
        }
        all = all.and_then(|all| all.checked_mul(size));
    }
    Ok(all)
}
