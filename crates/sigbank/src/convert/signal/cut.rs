//! Records, cut from the samples one after the other: memory for one record and a block.

use super::plan::{Item, Origin, SignalPlan};
use super::sigmf::Raw;
use crate::convert::cast::{Cast, Channels};
use crate::convert::recording::{self, Recording};
use crate::convert::{Candidate, Windows};
use crate::error::{Error, Result};
use crate::layout::signal_dataset::Record;
use bytes::Bytes;
use sigbank_format::model::DType;

/// Frames of a file without a header are read in blocks of about this many bytes.
const BLOCK: usize = 256 << 10;

/// Memory is taken at once for what is said to be at most so many times as long as its file, else as it is decoded.
const TRUSTED_RATIO: u64 = 256;

enum Reader {
    Recording(Recording),
    Raw(Raw),
}

impl Reader {
    fn open(candidate: &Candidate, item: &Item, chosen: Option<&DType>) -> Result<Self> {
        match &item.origin {
            Origin::Array(member) => {
                let r = recording::open_member(candidate, member.as_deref(), recording::samples_for(chosen))?;
                if (&r.dtype, &r.shape) != (&item.read, &item.shape) {
                    let (was, is) = ((item.read.name(), &item.shape), (r.dtype.name(), &r.shape));
                    return Err(Error::conflict(format!("it changed while it was published: {was:?} became {is:?}"))
                        .remedy("publish when nobody writes to the folder"));
                }
                Ok(Self::Recording(r))
            }
            Origin::SigMf(sigmf) => Ok(Self::Raw(sigmf.reader()?)),
        }
    }
    fn block(&self) -> u64 {
        match self {
            Self::Recording(r) => r.block_rows(),
            Self::Raw(r) => (BLOCK / r.row_bytes().max(1)).max(1) as u64,
        }
    }
    fn read(&mut self, start: u64, count: u64, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Recording(r) => r.read(start, count, out),
            Self::Raw(r) => r.read(start, count, out),
        }
    }
}

/// Decodes everything once, to know that it can be decoded.
pub(super) fn read_through(candidate: &Candidate, item: &Item, chosen: Option<&DType>) -> Result<()> {
    let mut forward = Forward::new(candidate, item, chosen)?;
    let (rows, block) = (item.rows(), forward.reader.block());
    let mut at = 0;
    while at < rows {
        let end = rows.min(at + block);
        forward.rows(at, end)?;
        at = end;
    }
    Ok(())
}

/// A recording that is gone through once; what the next window needs too is kept.
struct Forward {
    reader: Reader,
    cast: Cast,
    /// Rows in all, and bytes of one as it is stored.
    rows: u64,
    row: usize,
    /// The rows `base..base + held`, from `front` on.
    buffer: Vec<u8>,
    base: u64,
    held: u64,
    front: usize,
    raw: Vec<u8>,
}

impl Forward {
    fn new(candidate: &Candidate, item: &Item, chosen: Option<&DType>) -> Result<Self> {
        Ok(Self {
            reader: Reader::open(candidate, item, chosen)?,
            cast: Cast::new(&item.read, &item.part()?, Channels::All, item.width())?,
            rows: item.rows(),
            row: item.row_bytes()?,
            buffer: Vec::new(),
            base: 0,
            held: 0,
            front: 0,
            raw: Vec::new(),
        })
    }

    /// Takes memory for so many bytes of rows at once, as far as it is there; else it comes as rows do.
    fn expect(&mut self, bytes: usize) {
        let _ = self.buffer.try_reserve_exact(bytes.saturating_sub(self.buffer.len()));
    }

    /// The rows from `start`, which is not before the last one, to `end`.
    fn rows(&mut self, start: u64, end: u64) -> Result<&[u8]> {
        let gone = start.saturating_sub(self.base);
        if gone >= self.held {
            self.buffer.clear();
            (self.base, self.held, self.front) = (start, 0, 0);
        } else {
            (self.base, self.held, self.front) = (start, self.held - gone, self.front + gone as usize * self.row);
        }
        let block = self.reader.block();
        while self.base + self.held < end {
            self.buffer.drain(..self.front);
            self.front = 0;
            let from = self.base + self.held;
            let n = block.min(self.rows - from);
            self.raw.clear();
            self.reader.read(from, n, &mut self.raw)?;
            let cast = self.cast.apply(&self.raw, &mut self.buffer);
            cast.map_err(|e| e.within(format!("samples {from} to {}", from + n)))?;
            self.held += n;
        }
        let wanted = (end - start) as usize * self.row;
        let have = self.buffer.get(self.front..self.front + wanted);
        have.ok_or_else(|| Error::corrupt("the file holds fewer samples than its header says"))
    }

    /// The same rows as bytes of their own; without a copy where they are the last ones and nothing else is kept.
    fn take(&mut self, start: u64, end: u64) -> Vec<u8> {
        if self.front == 0 && self.held == end - start && end == self.rows {
            (self.base, self.held) = (end, 0);
            return std::mem::take(&mut self.buffer);
        }
        let wanted = (end - start) as usize * self.row;
        self.buffer.get(self.front..self.front + wanted).unwrap_or_default().to_vec()
    }

    /// Goes through the end, where what decodes in sequence finds bytes that follow and samples that are not those of the checksum.
    fn finish(&mut self, end: u64) -> Result<()> {
        if end < self.rows {
            self.raw.clear();
            self.reader.read(self.rows - 1, 1, &mut self.raw)?;
        }
        Ok(())
    }
}

/// The records from one number to another.
pub(in crate::convert) struct Records<'a> {
    plan: &'a SignalPlan,
    /// The recording, and which of its records is next.
    item: usize,
    next: u64,
    left: u64,
    open: Option<Forward>,
    /// Told bytes of files and records as they are done.
    progress: &'a mut dyn FnMut(u64, u64) -> bool,
}

impl<'a> Records<'a> {
    /// `count` records from the `next`-th of the recording `item` on.
    pub(in crate::convert) fn new(
        plan: &'a SignalPlan,
        (item, next): (usize, u64),
        count: u64,
        progress: &'a mut dyn FnMut(u64, u64) -> bool,
    ) -> Self {
        Self { plan, item, next, left: count, open: None, progress }
    }

    fn one(&mut self, item: &Item, candidate: &Candidate) -> Result<Record> {
        let window: Option<Windows> = self.plan.window;
        let start = window.map_or(0, |w| w.start(self.next));
        let end = start.saturating_add(item.len(window)).min(item.rows());
        let last = self.next + 1 == self.plan.count(item);
        let mut forward = match self.open.take() {
            Some(open) => open,
            None => Forward::new(candidate, item, self.plan.dtype.as_ref())?,
        };
        let row = forward.row;
        let full = usize::try_from(item.len(window)).ok().and_then(|rows| rows.checked_mul(row));
        let full = full.ok_or_else(|| Error::limit("a window larger than the memory"))?;
        let data = match (item.turn, window) {
            // Put in their places as they are decoded: a recording is not in memory twice.
            (true, None) if there_is(full) && full as u64 / TRUSTED_RATIO <= item.bytes => {
                let (mut data, together, block) = (vec![0; full], item.together()?, forward.reader.block());
                let mut at = start;
                while at < end {
                    let to = end.min(at + block);
                    turn(forward.rows(at, to)?, row, together, at as usize, &mut data);
                    at = to;
                }
                data
            }
            (turned, _) => {
                if window.is_none() && full as u64 / TRUSTED_RATIO <= item.bytes {
                    forward.expect(full);
                }
                forward.rows(start, end)?;
                let mut data = forward.take(start, end);
                data.resize(full, 0);
                if turned {
                    let rows = std::mem::replace(&mut data, vec![0; full]);
                    turn(&rows, row, item.together()?, 0, &mut data);
                }
                data
            }
        };
        if last {
            forward.finish(end)?;
        } else {
            self.open = Some(forward);
        }
        Ok(Record { metadata: item.metadata(window, start)?, data: vec![Bytes::from(data)] })
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let plan = self.plan;
        let item = plan.items.get(self.item)?;
        let candidate = plan.files.get(item.file)?;
        let record = self.one(item, candidate).map_err(|e| if e.path().is_some() { e } else { e.at(candidate.path.display()) });
        let count = plan.count(item).max(1);
        let bytes = item.bytes / count;
        self.next += 1;
        if self.next >= count {
            (self.item, self.next) = (self.item + 1, 0);
        }
        if record.is_ok() && !(self.progress)(bytes, 1) {
            return Some(Err(Error::conflict("stopped, for another part of the work failed")));
        }
        Some(record)
    }
}

/// Whether there is memory for so many bytes.
fn there_is(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// Puts rows, of which so many come before them, with the two axes in the other order: parts of `together` bytes of one channel lie one
/// behind the other in `out`.
fn turn(rows: &[u8], row: usize, together: usize, before: usize, out: &mut [u8]) {
    let (row, together) = (row.max(1), together.max(1));
    let channel = out.len() / (row / together).max(1);
    for (at, out) in (0..row).step_by(together).zip(out.chunks_exact_mut(channel.max(1))) {
        let places = out.chunks_exact_mut(together).skip(before);
        for (place, row) in places.zip(rows.chunks_exact(row)) {
            place.copy_from_slice(row.get(at..at + together).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_axes_change_places() {
        let turned = |rows: &[u8], row, together| {
            let mut out = vec![0; rows.len()];
            // In two steps, as blocks come.
            let (first, rest) = rows.split_at(row);
            super::turn(first, row, together, 0, &mut out);
            super::turn(rest, row, together, 1, &mut out);
            out
        };
        assert_eq!(turned(&[1, 2, 3, 4, 5, 6], 3, 1), [1, 4, 2, 5, 3, 6]);
        assert_eq!(turned(&[1, 2, 3, 4, 5, 6, 7, 8], 4, 2), [1, 2, 5, 6, 3, 4, 7, 8]);
        assert_eq!(turned(&[1, 2], 2, 2), [1, 2]);
    }
}
