//! The member of one field: its rows, one for each record.

use super::Npz;
use super::member::Member;
use crate::array::ArrayReader;
use crate::array::npy::{NpyReader, swap};
use crate::container::Places;
use crate::error::{FormatError, Result};
use crate::model::array::byte_len;
use crate::model::{DType, FieldType};
use std::sync::Arc;

/// Values of at least so many bytes are read straight into their place, smaller ones several at a time.
const DIRECT: usize = 16 << 10;
/// Most bytes that are read for several values at once.
const SPAN: usize = 256 << 10;
/// The same in Fortran order, where the values of one record lie all over the member.
const FORTRAN_SPAN: usize = 4 << 20;
/// So many bytes that nobody asked for are read where that makes one read of two.
const GAP: u64 = 4096;

/// Part of a column's elements: where it starts after the npy header, and its length.
pub(super) type Span = (u64, usize);

/// An npy member, open.
pub(super) struct Column {
    /// The member's name.
    pub name: String,
    elements: Elements,
    /// Element type, little-endian.
    pub dtype: DType,
    /// Bytes that are reversed where the member is big-endian, else 1.
    swap: usize,
    /// The whole member's.
    pub shape: Vec<usize>,
    /// Bytes of one row.
    pub row: usize,
}

enum Elements {
    /// In C order, after a header of so many bytes.
    Rows(Member, u64),
    /// In Fortran order, with the member where nothing has checked its checksum.
    Fortran(Box<dyn ArrayReader>, Option<Member>),
}

/// Where the values of one field go.
pub(super) struct Target<'a> {
    pub out: &'a mut dyn Places,
    /// The position in the fields asked for.
    pub field: usize,
    /// The type that they are stored as, where it is not the one declared.
    pub stored: Option<&'a FieldType>,
}

impl Target<'_> {
    pub(super) fn place(&mut self, i: usize, len: usize) -> Result<&mut [u8]> {
        let place = match self.stored {
            Some(stored) => self.out.place_as(i, self.field, stored, len),
            None => self.out.place(i, self.field, len),
        }?;
        match place.len() == len {
            true => Ok(place),
            false => Err(FormatError::invalid(format!("a place of {} bytes for a value of {len}", place.len()))),
        }
    }
    pub(super) fn put(&mut self, i: usize, value: &[u8]) -> Result<()> {
        self.place(i, value.len())?.copy_from_slice(value);
        Ok(())
    }
}

impl Column {
    /// Opens a member. Of a deflated one at most `keep` bytes are kept in memory, unless it is in Fortran order.
    pub(super) fn open(npz: &mut Npz, name: &str, keep: u64) -> Result<Self> {
        let place = |e: FormatError| e.within(format!("member '{name}'"));
        let index = npz.archive.index_for_name(name);
        let index = index.ok_or_else(|| place(FormatError::corrupt("it is not in the archive")))?;
        let mut member = Member::open(npz, index, keep).map_err(place)?;
        let front = member.front().map_err(place)?;
        let npy = NpyReader::new(Arc::new(front.clone())).map_err(place)?;
        let info = npy.info();
        let (dtype, shape) = (info.dtype.clone(), info.shape.clone());
        let swap = if info.stored_dtype.is_big_endian() { dtype.swap_width() } else { 1 };
        let data = byte_len(&dtype, &shape).map_err(place)? as u64;
        if info.trailing_bytes > 0 {
            return Err(place(FormatError::corrupt(format!("{} bytes after the end of its array", info.trailing_bytes))));
        }
        let header = member.size().saturating_sub(data);
        member.begin(front.bytes.get(..header as usize).unwrap_or_default());
        let row = byte_len(&dtype, shape.get(1..).unwrap_or_default()).map_err(place)?;
        let elements = match npy.is_fortran() {
            true => {
                let stored = matches!(member, Member::Stored(_)).then_some(member);
                Elements::Fortran(npz.open_member(index).map_err(place)?, stored)
            }
            false => Elements::Rows(member, header),
        };
        Ok(Self { name: name.into(), elements, dtype, swap, shape, row })
    }

    /// Bytes that are kept in memory.
    pub(super) fn kept(&self) -> u64 {
        match &self.elements {
            Elements::Rows(member, _) => member.kept(),
            Elements::Fortran(..) => 0,
        }
    }

    /// Checks the member's checksum, reading what was not read of it.
    pub(super) fn verify(&mut self, scratch: &mut Vec<u8>) -> Result<()> {
        let checked = match &mut self.elements {
            Elements::Rows(member, _) | Elements::Fortran(_, Some(member)) => member.verify(scratch),
            Elements::Fortran(_, None) => Ok(()),
        };
        checked.map_err(|e| e.within(format!("member '{}'", self.name)))
    }

    /// Length of the first axis.
    pub(super) fn rows(&self) -> Result<u64> {
        let rows = self.shape.first().map(|&n| n as u64);
        rows.ok_or_else(|| {
            FormatError::corrupt(format!("member '{}': a scalar, where an axis of records is expected", self.name))
        })
    }

    /// The type of its rows.
    pub(super) fn row_type(&self) -> FieldType {
        FieldType::Array { dtype: self.dtype.clone(), shape: self.shape.get(1..).unwrap_or_default().to_vec() }
    }

    pub(super) fn is_fortran(&self) -> bool {
        matches!(self.elements, Elements::Fortran(..))
    }

    /// The spans of rows.
    pub(super) fn spans(&self, records: impl Iterator<Item = u64>) -> Vec<Span> {
        records.map(|r| (r.saturating_mul(self.row as u64), self.row)).collect()
    }

    /// Reads spans, which go forward, into their places.
    pub(super) fn deliver(&mut self, spans: &[Span], target: &mut Target<'_>, scratch: &mut Vec<u8>) -> Result<()> {
        let mut first = 0;
        while let Some(&(at, len)) = spans.get(first) {
            if len >= DIRECT && !self.is_fortran() {
                let place = target.place(first, len)?;
                self.read(at, place)?;
                first += 1;
            } else {
                let count = group(spans.get(first..).unwrap_or_default(), self.most(), DIRECT);
                self.group(spans, first, count, scratch, &mut |i, value| target.put(i, value))?;
                first += count;
            }
        }
        Ok(())
    }

    /// Reads spans, which go forward, and shows each to `see`.
    pub(super) fn each(
        &mut self,
        spans: &[Span],
        scratch: &mut Vec<u8>,
        see: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut first = 0;
        while first < spans.len() {
            let count = group(spans.get(first..).unwrap_or_default(), self.most(), usize::MAX);
            self.group(spans, first, count, scratch, see)?;
            first += count;
        }
        Ok(())
    }

    fn most(&self) -> usize {
        if self.is_fortran() { FORTRAN_SPAN } else { SPAN }
    }

    /// Reads `count` spans from the `first` on in one piece.
    fn group(
        &mut self,
        spans: &[Span],
        first: usize,
        count: usize,
        scratch: &mut Vec<u8>,
        see: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let spans = spans.get(first..).and_then(|s| s.get(..count)).unwrap_or_default();
        let (Some(&(start, _)), Some(&(last, len))) = (spans.first(), spans.last()) else { return Ok(()) };
        let bytes = self.window(start, (last - start) as usize + len, scratch)?;
        for (i, &(at, len)) in spans.iter().enumerate() {
            let value = bytes.get((at - start) as usize..).and_then(|b| b.get(..len)).unwrap_or_default();
            see(first + i, value)?;
        }
        Ok(())
    }

    /// Elements as little-endian bytes, straight into `buf`.
    fn read(&mut self, at: u64, buf: &mut [u8]) -> Result<()> {
        if let Elements::Rows(member, header) = &mut self.elements {
            member.read_at(*header + at, buf).map_err(|e| e.within(format!("member '{}'", self.name)))?;
        }
        if self.swap > 1 {
            swap(buf, self.swap);
        }
        Ok(())
    }

    /// Elements as little-endian bytes.
    fn window<'a>(&'a mut self, at: u64, len: usize, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let name = &self.name;
        let place = |e: FormatError| e.within(format!("member '{name}'"));
        match &mut self.elements {
            Elements::Rows(member, header) => {
                if self.swap == 1 {
                    return member.window(*header + at, len, scratch).map_err(place);
                }
                member.fill(*header + at, len, scratch).map_err(place)?;
                swap(scratch, self.swap);
                Ok(scratch)
            }
            Elements::Fortran(array, _) => {
                let row = self.row.max(1);
                scratch.clear();
                scratch.resize(len, 0);
                array.read_rows((at / row as u64) as usize, len / row, scratch).map_err(place)?;
                Ok(scratch)
            }
        }
    }
}

/// How many of the spans to read in one piece: those that follow one another closely, of fewer than `large` bytes each and
/// `most` in all.
fn group(spans: &[Span], most: usize, large: usize) -> usize {
    let Some(&(start, len)) = spans.first() else { return 0 };
    let mut end = start + len as u64;
    let mut count = 1;
    for &(at, len) in spans.get(1..).unwrap_or_default() {
        let next = at.saturating_add(len as u64);
        if len >= large || at > end + GAP || next - start > most as u64 {
            break;
        }
        end = next;
        count += 1;
    }
    count
}
