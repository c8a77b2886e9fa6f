//! The memory of one batch while several threads fill it: the one place of the library with `unsafe`.
//!
//! A column of fixed-size values is one contiguous buffer, and tasks fill rows of it that are scattered and disjoint; safe
//! Rust cannot lend such rows to several threads. What makes it sound, whatever callers do:
//!
//! 1. Each row of a batch has a claim bit, set by an atomic read-modify-write and never cleared while the [`Rows`] are shared,
//!    so one [`Filling`] at most ever holds a row, once.
//! 2. A [`Filling`] lends memory of rows that it holds, and of those one value at a time: `place` borrows it mutably.
//! 3. Nothing else reads or writes a column's memory through `&Rows`. [`Rows::into_columns`] takes it by value: by then no
//!    loan can exist, because a `Filling` borrows the `Rows`; whoever shared it through an `Arc` has synchronised by then.
//! 4. All memory is initialised when it is allocated, so that not even a broken source can make unset bytes visible.
#![allow(unsafe_code)]

use super::pool::{Pool, PooledBuf};
use super::{Column, Fields, Stored};
use crate::error::{Error, Result};
use crate::layout::{RowSink, stored_as};
use sigbank_format::model::FieldType;
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The rows of one batch.
pub(super) struct Rows {
    /// A bit a row, 64 a word.
    claims: Box<[AtomicU64]>,
    columns: Vec<Cells>,
}

enum Cells {
    Fixed(FixedCells),
    Var(Vec<UnsafeCell<Vec<u8>>>),
    Stored(Vec<UnsafeCell<Stored>>),
}

/// A buffer taken apart, so that no `Vec` claims memory that is lent row by row.
struct FixedCells {
    base: NonNull<u8>,
    bytes: usize,
    capacity: usize,
    /// Where the first row begins.
    start: usize,
    /// Bytes of a value.
    len: usize,
    /// The buffer without its memory, until that returns to it.
    shell: Option<PooledBuf>,
}

// SAFETY: `base` is owned memory (from a `Vec`), which may go to another thread; everything else is `Send`.
unsafe impl Send for FixedCells {}
// SAFETY: through `&Rows` the cells are reached only by `Filling::place`, for rows it holds alone (1 and 2 above).
unsafe impl Sync for Rows {}

impl FixedCells {
    fn new(mut shell: PooledBuf, len: usize) -> Self {
        let mut memory = ManuallyDrop::new(std::mem::take(&mut shell.memory));
        // A `Vec`'s pointer is never null.
        let base = NonNull::new(memory.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Self { base, bytes: memory.len(), capacity: memory.capacity(), start: shell.start, len, shell: Some(shell) }
    }
    /// The value in one row; none past the end.
    ///
    /// # Safety
    /// The caller alone holds the row for `'a`, and the cells live as long.
    unsafe fn value<'a>(&self, row: u32) -> Option<&'a mut [u8]> {
        let start = (row as usize).checked_mul(self.len)?.checked_add(self.start)?;
        if start.checked_add(self.len)? > self.bytes {
            return None;
        }
        // SAFETY: the range is within the allocation (just checked), all of it is initialised, and nobody else has it.
        Some(unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(start), self.len) })
    }
    /// The buffer in one piece again; none the second time.
    fn rejoin(&mut self) -> Option<PooledBuf> {
        let mut buffer = self.shell.take()?;
        // SAFETY: these are the parts of the `Vec` that `new` took apart, put together once because the shell is taken once.
        buffer.memory = unsafe { Vec::from_raw_parts(self.base.as_ptr(), self.bytes, self.capacity) };
        Some(buffer)
    }
}

impl Drop for FixedCells {
    fn drop(&mut self) {
        drop(self.rejoin());
    }
}

impl Rows {
    /// Memory for so many rows of the fields.
    ///
    /// # Errors
    /// `Limit` where there is not enough.
    pub(super) fn new(fields: &Fields, rows: u32, pool: &Pool) -> Result<Self> {
        let count = rows as usize;
        let columns = fields.iter().map(|field| {
            Ok(match field.len {
                _ if field.as_stored => Cells::Stored((0..count).map(|_| UnsafeCell::default()).collect()),
                Some(len) => {
                    let bytes = count.checked_mul(len).ok_or_else(|| {
                        Error::limit(format!("{count} values of {len} bytes in a batch")).remedy("choose a smaller batch size")
                    })?;
                    Cells::Fixed(FixedCells::new(pool.take(bytes)?, len))
                }
                None => Cells::Var((0..count).map(|_| UnsafeCell::default()).collect()),
            })
        });
        // The bits past the last row are taken from the beginning.
        let word = |at: usize| if count - at < 64 { u64::MAX << (count - at) } else { 0 };
        let claims = (0..count).step_by(64).map(|at| AtomicU64::new(word(at))).collect();
        Ok(Self { claims, columns: columns.collect::<Result<_>>()? })
    }
    /// Sets the claim bits of `mask` in one word of 64 rows; false where one of them was set before.
    fn claim(&self, word: usize, mask: u64) -> bool {
        // Relaxed: that a bit is set first by one thread only needs no order among other memory. What was written
        // to the rows is published by whoever gives up the shared `Rows`.
        self.claims.get(word).is_some_and(|w| w.fetch_or(mask, Ordering::Relaxed) & mask == 0)
    }
    /// The columns, once nobody fills them any more.
    pub(super) fn into_columns(self) -> Vec<Column> {
        self.columns
            .into_iter()
            .filter_map(|cells| match cells {
                Cells::Fixed(mut cells) => cells.rejoin().map(Column::Fixed),
                Cells::Var(values) => Some(Column::Var(values.into_iter().map(UnsafeCell::into_inner).collect())),
                Cells::Stored(values) => Some(Column::Stored(values.into_iter().map(UnsafeCell::into_inner).collect())),
            })
            .collect()
    }
}

/// One task's hold on the rows that it fills, and the [`RowSink`] through which a source fills them.
pub(super) struct Filling<'a> {
    fields: &'a Fields,
    batches: &'a [Option<Arc<Rows>>],
    /// For each record of the task, which of `batches` it goes to and which row there: claimed by this filling, each once.
    places: Vec<(u32, u32)>,
    /// A bit a value: whether the source has asked for it.
    seen: Vec<u64>,
    asked: usize,
    /// Bytes of values of no fixed size in each of `batches`.
    held: Vec<u64>,
    stop: &'a AtomicBool,
}

impl<'a> Filling<'a> {
    /// Claims the rows for the records of a task. When `stop` is set, the source is told to give up.
    ///
    /// # Errors
    /// `Invalid` where a row does not exist or is another's (a defect in the plan). What was claimed until then stays so.
    pub(super) fn claim(
        fields: &'a Fields,
        batches: &'a [Option<Arc<Rows>>],
        places: Vec<(u32, u32)>,
        stop: &'a AtomicBool,
    ) -> Result<Self> {
        // Neighbouring rows share a word of bits: one atomic operation for a run of them.
        let mut word: Option<(u32, u32, u64)> = None;
        let claim = |(slot, at, mask): (u32, u32, u64)| {
            let rows = batches.get(slot as usize).and_then(Option::as_ref);
            if rows.is_some_and(|rows| rows.claim(at as usize, mask)) {
                return Ok(());
            }
            Err(Error::invalid(format!("rows {at} * 64 + {mask:#b} of batch {slot} of a task are filled twice")).remedy(REPORT))
        };
        for &(slot, row) in &places {
            let (at, bit) = (row / 64, 1u64 << (row % 64));
            match &mut word {
                Some((s, a, mask)) if (*s, *a) == (slot, at) && *mask & bit == 0 => *mask |= bit,
                _ => {
                    word.replace((slot, at, bit)).map_or(Ok(()), claim)?;
                }
            }
        }
        word.map_or(Ok(()), claim)?;
        let values = places.len().saturating_mul(fields.len());
        Ok(Self { fields, batches, places, seen: vec![0; values.div_ceil(64)], asked: 0, held: vec![0; batches.len()], stop })
    }
    /// Ends the filling; gives the bytes of values of no fixed size that each of the batches got.
    ///
    /// # Errors
    /// `Corrupt` where the source left a value out.
    pub(super) fn finish(self) -> Result<Vec<u64>> {
        let values = self.places.len() * self.fields.len();
        if self.asked == values {
            return Ok(self.held);
        }
        let seen = |i: usize| self.seen.get(i / 64).is_some_and(|w| w >> (i % 64) & 1 == 1);
        let missing = (0..values).find(|&i| !seen(i)).unwrap_or(0);
        let field = self.fields.get(missing % self.fields.len().max(1)).map_or("", |f| f.name.as_str());
        let record = missing / self.fields.len().max(1);
        Err(Error::corrupt(format!("the source gave no value of field '{field}' for record {record} of those asked for"))
            .remedy(REPORT))
    }
}

/// What to do about a defect of the library.
pub(super) const REPORT: &str = "this is a defect in sigbank: please report it with this message";

impl Filling<'_> {
    /// The memory of one value: `len` bytes, of the declared type or of another one.
    fn value(&mut self, row: usize, field: usize, stored: Option<&FieldType>, len: usize) -> Result<&mut [u8]> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::conflict("the loader was stopped"));
        }
        let Some(spec) = self.fields.get(field) else {
            return Err(Error::invalid(format!("field {field} of {} asked for", self.fields.len())));
        };
        if let Some(stored) = stored.filter(|_| !spec.as_stored) {
            return Err(stored_as(stored));
        }
        if stored.is_none() && spec.len.is_some_and(|want| want != len) {
            let want = spec.len.unwrap_or(0);
            return Err(Error::corrupt(format!(
                "field '{}' of record {row} of those asked for has {len} bytes, the schema says {want}",
                spec.name
            )));
        }
        let out_of = || Error::invalid(format!("row {row}: the task has no such row"));
        let &(slot, at) = self.places.get(row).ok_or_else(out_of)?;
        let rows = self.batches.get(slot as usize).and_then(Option::as_deref).ok_or_else(out_of)?;
        let value = row * self.fields.len() + field;
        let seen = self.seen.get_mut(value / 64).ok_or_else(out_of)?;
        if *seen >> (value % 64) & 1 == 1 {
            return Err(Error::invalid(format!("field '{}' of record {row} of those asked for was placed twice", spec.name))
                .remedy(REPORT));
        }
        *seen |= 1 << (value % 64);
        self.asked += 1;
        let value = match rows.columns.get(field).ok_or_else(out_of)? {
            // SAFETY: this filling claimed the row (`places`), and the loan ends with that of `self`.
            Cells::Fixed(cells) => return unsafe { cells.value(at) }.ok_or_else(out_of),
            Cells::Var(values) => {
                let cell = values.get(at as usize).ok_or_else(out_of)?;
                // SAFETY: as above.
                unsafe { &mut *cell.get() }
            }
            Cells::Stored(values) => {
                let cell = values.get(at as usize).ok_or_else(out_of)?;
                // SAFETY: as above.
                let value = unsafe { &mut *cell.get() };
                value.ty = stored.cloned();
                &mut value.bytes
            }
        };
        if let Some(held) = self.held.get_mut(slot as usize) {
            *held = held.saturating_add(len as u64);
        }
        value.try_reserve_exact(len).map_err(|_| {
            Error::limit(format!("no memory for {len} bytes of field '{}' of record {row} of those asked for", spec.name))
        })?;
        value.resize(len, 0);
        Ok(value)
    }
}

impl RowSink for Filling<'_> {
    fn place(&mut self, row: usize, field: usize, len: usize) -> Result<&mut [u8]> {
        self.value(row, field, None, len)
    }
    fn place_as(&mut self, row: usize, field: usize, stored: &FieldType, len: usize) -> Result<&mut [u8]> {
        self.value(row, field, Some(stored), len)
    }
    fn place_ragged(&mut self, row: usize, field: usize, of: &FieldType, len: usize) -> Result<&mut [u8]> {
        let typed = self.fields.get(field).is_some_and(|spec| spec.as_stored);
        self.value(row, field, typed.then_some(of), len)
    }
    fn goes_through_units(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
