//! Finding the values of a shard.

use super::Window;
use crate::error::{FormatError, Result};

/// Where one value lies in the (uncompressed) shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Offset of its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub len: usize,
    /// Whether the length is the stored one. If not it is the expected one of a large value, whose length word (4 bytes
    /// before `offset`) was not looked at because it lies among the data: whoever reads the value calls
    /// [`Span::check_word`] with it.
    pub checked: bool,
}

impl Span {
    /// Compares the stored length word with the expected length.
    ///
    /// # Errors
    /// Corrupt, with both lengths.
    pub fn check_word(&self, word: [u8; 4]) -> Result<()> {
        check_len(u32::from_le_bytes(word) as usize, self.len)
    }
}

pub(super) fn check_len(stored: usize, expected: usize) -> Result<()> {
    if stored == expected {
        Ok(())
    } else {
        Err(FormatError::corrupt(format!("{stored} bytes are stored, {expected} are expected")))
    }
}

/// An attribute as a shard's reader needs it: its name for messages, and how many bytes its values have where all have as
/// many.
#[derive(Debug, Clone)]
pub struct Attribute {
    /// The name.
    pub name: String,
    /// Bytes of each value; none where values differ.
    pub len: Option<usize>,
}

/// Follows the tables of a shard.
struct Finder<'a, W: ?Sized> {
    window: &'a mut W,
    /// The vtable met last and the place of its first field: all tables of a shard usually share one.
    vtable: Option<(u64, u64)>,
}

impl<W: Window + ?Sized> Finder<'_, W> {
    fn u16_at(&mut self, at: u64) -> Result<u64> {
        let b = self.window.get(at, 2)?;
        Ok(b.try_into().map(u16::from_le_bytes).unwrap_or_default().into())
    }

    fn u32_at(&mut self, at: u64) -> Result<u64> {
        let b = self.window.get(at, 4)?;
        Ok(b.try_into().map(u32::from_le_bytes).unwrap_or_default().into())
    }

    /// Where the vector in the first field of a table begins (with its length); none where the field is absent.
    fn vector_at(&mut self, table: u64) -> Result<Option<u64>> {
        let back = self.u32_at(table)? as u32 as i32;
        let vtable = i64::try_from(table).ok().and_then(|t| u64::try_from(t - i64::from(back)).ok());
        let vtable = vtable.ok_or_else(|| FormatError::corrupt(format!("the table at offset {table} points before the data")))?;
        let field = match self.vtable {
            Some((known, field)) if known == vtable => field,
            _ => {
                let field = if self.u16_at(vtable)? >= 6 { self.u16_at(vtable + 4)? } else { 0 };
                self.vtable = Some((vtable, field));
                field
            }
        };
        if field == 0 {
            return Ok(None);
        }
        let slot = table + field;
        Ok(Some(slot + self.u32_at(slot)?))
    }

    /// The elements of that vector: where they begin and how many there are.
    fn vector_of(&mut self, table: u64) -> Result<(u64, u64)> {
        match self.vector_at(table)? {
            Some(at) => Ok((at + 4, self.u32_at(at)?)),
            None => Ok((0, 0)),
        }
    }

    fn examples(&mut self) -> Result<(u64, u64)> {
        let root = self.u32_at(0)?;
        self.vector_of(root)
    }

    fn record(&mut self, slot: u64, fields: &[usize], attributes: &[Attribute], all: &mut Vec<Span>) -> Result<()> {
        let table = slot + self.u32_at(slot)?;
        let (first, found) = self.vector_of(table)?;
        if found != attributes.len() as u64 {
            return Err(FormatError::corrupt(format!("{found} attributes are stored, {} are declared", attributes.len())));
        }
        for &field in fields {
            let attribute =
                attributes.get(field).ok_or_else(|| FormatError::invalid(format!("there is no attribute {field}")))?;
            let span = self.value(first + 4 * field as u64, attribute.len);
            all.push(span.map_err(|e| e.within(format!("attribute '{}'", attribute.name)))?);
        }
        Ok(())
    }

    fn value(&mut self, slot: u64, expected: Option<usize>) -> Result<Span> {
        let table = slot + self.u32_at(slot)?;
        match (self.vector_at(table)?, expected) {
            (Some(at), Some(len)) if len >= super::write::LARGE => Ok(Span { offset: at + 4, len, checked: false }),
            (vector, expected) => {
                let (offset, len) = match vector {
                    Some(at) => (at + 4, self.u32_at(at)? as usize),
                    None => (0, 0),
                };
                check_len(len, expected.unwrap_or(len))?;
                Ok(Span { offset, len, checked: true })
            }
        }
    }
}

/// How many records a shard holds.
///
/// # Errors
/// Corrupt where the bytes are no such shard.
pub fn count(window: &mut dyn Window) -> Result<u64> {
    Ok(Finder { window, vtable: None }.examples()?.1)
}

/// Where the values of some records lie: for each of `records` (places in the shard), each of `fields` (places among
/// `attributes`, which are all of a record's in stored order).
///
/// # Errors
/// Corrupt, with the record and the attribute: a shard that does not hold `expected` records, a record without as many
/// attributes as are declared, a value of another length, offsets that lead out of the data.
pub fn spans(
    window: &mut dyn Window,
    expected: u64,
    records: &[u32],
    fields: &[usize],
    attributes: &[Attribute],
) -> Result<Vec<Span>> {
    window.get(0, 4)?;
    // A slice is looked at without a call for each word.
    match window.whole() {
        Some(mut all) => find(&mut all, expected, records, fields, attributes),
        None => find(window, expected, records, fields, attributes),
    }
}

fn find<W: Window + ?Sized>(
    window: &mut W,
    expected: u64,
    records: &[u32],
    fields: &[usize],
    attributes: &[Attribute],
) -> Result<Vec<Span>> {
    let mut finder = Finder { window, vtable: None };
    let (first, found) = finder.examples().map_err(|e| e.within("not a FlatBuffers shard"))?;
    if found != expected {
        return Err(FormatError::corrupt(format!("the shard holds {found} examples, but its list says {expected}")));
    }
    let mut all = Vec::with_capacity(records.len().saturating_mul(fields.len()));
    for &record in records {
        if u64::from(record) >= found {
            return Err(FormatError::invalid(format!("example {record} of a shard with {found}")));
        }
        let slot = first + 4 * u64::from(record);
        finder.record(slot, fields, attributes, &mut all).map_err(|e| e.within(format!("example {record}")))?;
    }
    Ok(all)
}
