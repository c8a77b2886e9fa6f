//! Protobuf's encoding, as far as these messages need it.

use std::borrow::Cow;

use crate::error::{FormatError, Result};

/// The tag of a field whose value has its length before it (field numbers up to 15, as all here).
pub(crate) const fn delimited(field: u8) -> u8 {
    field << 3 | 2
}

/// The tag of a field that is a varint.
pub(crate) const fn plain(field: u8) -> u8 {
    field << 3
}

/// How many bytes a number takes.
pub(crate) fn varint_len(value: u64) -> usize {
    ((63 - (value | 1).leading_zeros() as usize) * 9 + 73) / 64
}

/// Appends a number.
pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number off the front.
#[inline]
pub(crate) fn varint(bytes: &mut &[u8]) -> Result<u64> {
    // Up to eight bytes at once: where the first byte without its high bit is, the number ends.
    if let Some(word) = bytes.first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let ends = !word & 0x8080_8080_8080_8080;
        if ends != 0 {
            // All bits up to the end, the high bits left out, and the groups of seven moved together.
            let w = word & (ends ^ (ends - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
            let w = (w & 0x007f_007f_007f_007f) | (w & 0x7f00_7f00_7f00_7f00) >> 1;
            let w = (w & 0x0000_3fff_0000_3fff) | (w & 0x3fff_0000_3fff_0000) >> 2;
            let w = (w & 0x0fff_ffff) | (w & 0x0fff_ffff_0000_0000) >> 4;
            *bytes = bytes.get((ends.trailing_zeros() as usize + 1) / 8..).unwrap_or_default();
            return Ok(w);
        }
    }
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        if i == 9 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *bytes = bytes.get(i + 1..).unwrap_or_default();
            return Ok(value);
        }
    }
    Err(FormatError::corrupt(match bytes.len() {
        0..10 => "the message ends inside a number",
        _ => "a number of more than 64 bits",
    }))
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64,
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
}

/// The fields of a message, one after another.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next field's number and value; none at the message's end.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = varint(&mut self.0)?;
        let field = u32::try_from(tag >> 3).unwrap_or_default();
        if !(1..1 << 29).contains(&field) {
            return Err(FormatError::corrupt(format!("a field with the number {}", tag >> 3)));
        }
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut self.0)?),
            1 => self.take(8).map(|_| Value::Fixed64)?,
            2 => {
                let len = varint(&mut self.0)?;
                Value::Bytes(self.take(usize::try_from(len).unwrap_or(usize::MAX))?)
            }
            5 => Value::Fixed32(self.take(4)?.first_chunk().copied().unwrap_or_default()),
            kind => return Err(FormatError::corrupt(format!("field {field} is of wire type {kind}"))),
        };
        Ok(Some((field, value)))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(|| {
            FormatError::corrupt(format!("a field of {len} bytes where the message ends after {}", self.0.len()))
        })?;
        self.0 = rest;
        Ok(taken)
    }
}

/// A message within a message. If it is given more than once, all of it counts: that is the same as one after another.
pub(super) fn merge<'a>(all: &mut Option<Cow<'a, [u8]>>, more: &'a [u8]) {
    match all {
        None => *all = Some(Cow::Borrowed(more)),
        Some(all) => all.to_mut().extend_from_slice(more),
    }
}
