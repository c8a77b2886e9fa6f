//! Reading a compressed shard of the reference's layout as it is decoded.
//!
//! The reference builds a shard back to front, so the examples lie in it in reverse, each with its tables before its data,
//! and the vtable that all tables share lies at the end. A shard is therefore read forward on the assumption that a table's
//! one field follows its first word, which is compared with the vtable once that arrives. Nothing is kept but a small window.

use super::{Attribute, Prefix, Span, Window};
use crate::error::{FormatError, Result};
use crate::read_at::past_end;
use std::io::Read;

/// Where a table's only field lies in it.
const FIELD: u64 = 4;
/// Bytes that are looked at at a time.
const WINDOW: usize = 64 << 10;
/// Distinct vtables that are remembered.
const MOST_VTABLES: usize = 16;

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map(u32::from_le_bytes).unwrap_or_default().into()
}

/// The tables of a shard's examples, where they lie in the reference's order; none for every other layout, which is then
/// read through the same [`Prefix`].
pub fn reversed<R: Read>(prefix: &mut Prefix<R>, expected: u64) -> Option<Vec<u64>> {
    let slot = word(prefix.get(0, 4).ok()?) + FIELD;
    let vector = slot + word(prefix.get(slot, 4).ok()?);
    if word(prefix.get(vector, 4).ok()?) != expected || expected < 2 {
        return None;
    }
    let slots = prefix.get(vector + 4, usize::try_from(expected).ok()?.checked_mul(4)?).ok()?;
    let tables: Vec<u64> = slots.chunks_exact(4).zip((vector + 4..).step_by(4)).map(|(b, at)| at + word(b)).collect();
    tables.is_sorted_by(|a, b| a > b).then_some(tables)
}

/// The rest of a stream, seen through a window that moves forward.
pub struct Sliding<R> {
    source: R,
    seen: Vec<u8>,
    /// The offset of `seen`.
    base: u64,
    vtables: Vec<u64>,
    compared: usize,
}

fn out_of_order() -> FormatError {
    FormatError::unsupported("the shard cannot be read forward")
}

impl<R: Read> Sliding<R> {
    /// Goes on where `prefix` is, whose contents are the first window.
    pub fn new(prefix: Prefix<R>) -> Self {
        let (source, mut seen, filled) = prefix.into_parts();
        seen.truncate(filled);
        Self { source, seen, base: 0, vtables: Vec::new(), compared: 0 }
    }

    /// Drops what lies before `offset`.
    fn move_to(&mut self, offset: u64) -> Result<()> {
        if offset < self.base {
            return Err(out_of_order());
        }
        while self.base + (self.seen.len() as u64) < offset {
            self.base += self.seen.len() as u64;
            self.seen.clear();
            self.more(1)?;
        }
        self.seen.drain(..(offset - self.base) as usize);
        self.base = offset;
        Ok(())
    }

    /// Makes the window at least `want` bytes long.
    fn more(&mut self, want: usize) -> Result<()> {
        while self.seen.len() < want {
            let (had, target) = (self.seen.len(), want.max(WINDOW));
            self.seen.resize(target, 0);
            let read = self.seen.get_mut(had..).map_or(Ok(0), |room| self.source.read(room));
            self.seen.truncate(had + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(past_end(self.base, want, self.base + had as u64)),
                Err(e) if e.kind() != std::io::ErrorKind::Interrupted => return Err(e.into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn look(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        // Vtables on the way are compared before they are passed.
        while let Some(&vtable) = self.vtables.get(self.compared).filter(|&&v| v < offset) {
            self.move_to(vtable)?;
            self.more(6)?;
            if self.seen.first_chunk().map(|b| u16::from_le_bytes(*b)) < Some(6) || self.seen.get(4..6) != Some(&[FIELD as u8, 0])
            {
                return Err(out_of_order());
            }
            self.compared += 1;
        }
        self.move_to(offset)?;
        self.more(len)?;
        self.seen.get(..len).ok_or_else(out_of_order)
    }

    /// Notes the vtable of the table at `table` and gives where its field leads.
    fn field(&mut self, table: u64) -> Result<u64> {
        let bytes = self.look(table, 8)?;
        let (back, offset) = bytes.split_at(4);
        let (back, offset) = (word(back) as u32 as i32, word(offset));
        let vtable = i64::try_from(table).ok().and_then(|t| u64::try_from(t - i64::from(back)).ok()).ok_or_else(out_of_order)?;
        if !self.vtables.contains(&vtable) {
            if vtable < self.base || self.vtables.len() == MOST_VTABLES {
                return Err(out_of_order());
            }
            self.vtables.push(vtable);
            self.vtables.get_mut(self.compared..).unwrap_or_default().sort_unstable();
        }
        Ok(table + FIELD + offset)
    }

    /// The values of the example whose table is given, by where they lie: the position among `fields`, and the value's table.
    pub fn example(&mut self, table: u64, fields: &[usize], attributes: &[Attribute]) -> Result<Vec<(u64, usize)>> {
        let vector = self.field(table)?;
        let found = word(self.look(vector, 4)?);
        if found != attributes.len() as u64 {
            return Err(FormatError::corrupt(format!("{found} attributes are stored, {} are declared", attributes.len())));
        }
        let slots = self.look(vector + 4, 4 * attributes.len())?.to_vec();
        let one = |(i, &field): (usize, &usize)| {
            let at = slots.get(4 * field..4 * field + 4)?;
            Some((vector + 4 + 4 * field as u64 + word(at), i))
        };
        let mut tables = fields.iter().enumerate().map(one).collect::<Option<Vec<_>>>().ok_or_else(out_of_order)?;
        tables.sort_unstable();
        Ok(tables)
    }

    /// Where the value of a table lies, its length compared.
    pub fn value(&mut self, table: u64, attribute: &Attribute) -> Result<Span> {
        let vector = self.field(table)?;
        let len = word(self.look(vector, 4)?) as usize;
        super::read::check_len(len, attribute.len.unwrap_or(len))?;
        if len > 0 {
            self.look(vector + 4, 0)?;
        }
        Ok(Span { offset: vector + 4, len, checked: true })
    }

    /// Copies the value of the span that was found last.
    pub fn read(&mut self, place: &mut [u8]) -> Result<()> {
        let n = self.seen.len().min(place.len());
        let (first, second) = place.split_at_mut(n);
        first.copy_from_slice(self.seen.get(..n).unwrap_or_default());
        self.seen.drain(..n);
        self.base += n as u64;
        if !second.is_empty() {
            self.source.read_exact(second)?;
            self.base += second.len() as u64;
        }
        Ok(())
    }

    /// Compares the vtables that are left and reads to the end, so that what a compression checks at its end is checked.
    pub fn finish(mut self) -> Result<()> {
        while self.compared < self.vtables.len() {
            let last = self.vtables.get(self.compared).copied().unwrap_or_default();
            self.look(last + 1, 0)?;
        }
        std::io::copy(&mut self.source, &mut std::io::sink())?;
        Ok(())
    }
}
