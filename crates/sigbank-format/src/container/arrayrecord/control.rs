//! The messages at a file's end: the index, and where it lies.

use crate::error::{FormatError, Result};
use crate::record::tf_example::wire::{Fields, Value, delimited, plain, put_varint};

/// What marks a postscript.
const MAGIC: u64 = 0x7193_0e70_4fda_e05e;
/// The version of the footer.
const VERSION: u64 = 1;

/// The first record of the footer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub chunks: u64,
    pub records: u64,
    pub options: String,
}

/// Another record of it: a chunk of the file.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) struct Entry {
    pub offset: u64,
    /// Bytes of its records.
    pub decoded: u64,
    pub records: u64,
}

fn put(field: u8, value: u64, out: &mut Vec<u8>) {
    out.push(plain(field));
    put_varint(value, out);
}

/// A message's numbers, by field; others are passed over.
fn numbers<const N: usize>(message: &[u8]) -> Result<[Option<u64>; N]> {
    let mut numbers = [None; N];
    let mut fields = Fields(message);
    while let Some((field, value)) = fields.next()? {
        if let (Value::Varint(value), Some(place)) = (value, numbers.get_mut(field as usize - 1)) {
            *place = Some(value);
        }
    }
    Ok(numbers)
}

impl Footer {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut inner = Vec::new();
        put(1, VERSION, &mut inner);
        put(2, self.chunks, &mut inner);
        put(3, self.records, &mut inner);
        inner.push(delimited(4));
        put_varint(self.options.len() as u64, &mut inner);
        inner.extend_from_slice(self.options.as_bytes());
        let mut out = vec![delimited(1)];
        put_varint(inner.len() as u64, &mut out);
        out.extend_from_slice(&inner);
        out
    }

    pub(super) fn from_bytes(message: &[u8]) -> Result<Self> {
        let mut fields = Fields(message);
        let mut inner = None;
        while let Some((field, value)) = fields.next()? {
            if let (1, Value::Bytes(value)) = (field, value) {
                inner = Some(value);
            }
        }
        let inner = inner.ok_or_else(|| FormatError::corrupt("the footer does not begin with an ArrayRecord's metadata"))?;
        let [version, chunks, records] = numbers(inner)?;
        match version {
            Some(VERSION) => {}
            Some(other) => {
                return Err(FormatError::unsupported(format!(
                    "the footer is of version {other}, and only version {VERSION} is known: a newer version may read it"
                )));
            }
            None => return Err(FormatError::corrupt("the footer does not say its version")),
        }
        let mut options = String::new();
        let mut fields = Fields(inner);
        while let Some((field, value)) = fields.next()? {
            if let (4, Value::Bytes(text)) = (field, value) {
                options = String::from_utf8_lossy(text).into_owned();
            }
        }
        Ok(Self { chunks: chunks.unwrap_or_default(), records: records.unwrap_or_default(), options })
    }
}

impl Entry {
    /// Appends its message.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put(1, self.offset, out);
        put(2, self.decoded, out);
        put(3, self.records, out);
    }

    pub(super) fn from_bytes(message: &[u8]) -> Result<Self> {
        let [offset, decoded, records] = numbers(message)?;
        let offset = offset.ok_or_else(|| FormatError::corrupt("it has no chunk_offset"))?;
        Ok(Self { offset, decoded: decoded.unwrap_or_default(), records: records.unwrap_or_default() })
    }
}

/// The record that the postscript holds three times.
pub(super) fn postscript(footer: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put(1, footer, &mut out);
    put(2, MAGIC, &mut out);
    out
}

/// Where the footer begins.
pub(super) fn footer_offset(postscript: &[u8]) -> Result<u64> {
    match numbers(postscript)? {
        [Some(offset), Some(MAGIC)] => Ok(offset),
        _ => Err(FormatError::corrupt("the postscript is not that of an ArrayRecord file")),
    }
}
