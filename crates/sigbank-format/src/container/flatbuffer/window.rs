//! Looking at parts of a shard: three ways to have the bytes at an offset.

use crate::error::{FormatError, FormatErrorKind, Result};
use crate::limits;
use crate::read_at::{ReadAt, past_end};
use std::io::Read;

/// Bytes that can be looked at by offset.
pub trait Window {
    /// The `len` bytes at `offset`; an error of kind Corrupt where the data end before.
    fn get(&mut self, offset: u64, len: usize) -> Result<&[u8]>;
}

impl Window for &[u8] {
    fn get(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let found = usize::try_from(offset).ok().and_then(|o| <[u8]>::get(self, o..)?.get(..len));
        found.ok_or_else(|| past_end(offset, len, <[u8]>::len(self) as u64))
    }
}

const SMALLEST_BLOCK: usize = 4 << 10;
const LARGEST_BLOCK: usize = 256 << 10;
const KEPT: usize = 8;

/// A window on positioned reads that keeps the last few blocks (2 MiB at most). Blocks grow while reading goes forward, so
/// that a run of small values costs few reads, and stay small where reading jumps.
#[derive(Debug)]
pub struct Blocks<S> {
    source: S,
    blocks: Vec<(u64, Vec<u8>)>, // most recently used last
    next: usize,
}

impl<S: ReadAt> Blocks<S> {
    /// A window on `source`; its first read takes `first` bytes.
    pub fn new(source: S, first: usize) -> Self {
        Self { source, blocks: Vec::with_capacity(KEPT), next: first.clamp(SMALLEST_BLOCK, LARGEST_BLOCK) }
    }
}

impl<S: ReadAt> Window for Blocks<S> {
    fn get(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let size = self.source.size();
        let end = offset.checked_add(len as u64).filter(|&e| e <= size).ok_or_else(|| past_end(offset, len, size))?;
        let holds = |(start, block): &(u64, Vec<u8>)| *start <= offset && end <= *start + block.len() as u64;
        if let Some(at) = self.blocks.iter().rposition(holds) {
            if at + 1 != self.blocks.len() {
                let block = self.blocks.remove(at);
                self.blocks.push(block);
            }
        } else {
            let follows = self.blocks.iter().any(|(start, b)| (*start..=*start + b.len() as u64).contains(&offset));
            let mut block = if self.blocks.len() == KEPT { self.blocks.remove(0).1 } else { Vec::new() };
            if !self.blocks.is_empty() {
                self.next = if follows { (self.next * 4).min(LARGEST_BLOCK) } else { SMALLEST_BLOCK };
            }
            let take = (self.next.max(len) as u64).min(size - offset);
            block.clear();
            block.resize(take as usize, 0);
            self.source.read_at(offset, &mut block)?;
            self.blocks.push((offset, block));
        }
        let block = self.blocks.last().and_then(|(start, b)| b.get((offset - start) as usize..)?.get(..len));
        block.ok_or_else(|| past_end(offset, len, size))
    }
}

/// A window on a stream: what has been read of it so far is kept, and grows as far as is looked at.
pub struct Prefix<R> {
    source: R,
    kept: Vec<u8>,
    limit: u64,
}

impl<R: Read> Prefix<R> {
    /// A window on `source` that keeps at most `limit` bytes, in `room` (whose contents are dropped, its memory reused).
    pub fn new(source: R, limit: u64, mut room: Vec<u8>) -> Self {
        room.clear();
        Self { source, kept: room, limit }
    }
    /// What was read so far, from offset 0 on.
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }
    /// The stream after what was kept, and what was kept.
    pub fn into_parts(self) -> (R, Vec<u8>) {
        (self.source, self.kept)
    }
}

impl<R: Read> Window for Prefix<R> {
    fn get(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let end = offset.saturating_add(len as u64);
        if end > self.limit {
            return Err(FormatError::new(
                FormatErrorKind::Limit,
                format!("offset {end} is over the limit of {} bytes for this kind of shard", self.limit),
            ));
        }
        // Doubling steps: a shard whose tables lie among its data is soon read whole, one with its tables first is not.
        while (self.kept.len() as u64) < end {
            let step =
                self.kept.len().clamp(64 << 10, 8 << 20).max(end as usize - self.kept.len()).min(limits::FIRST_ALLOCATION * 8);
            let had = self.kept.len();
            self.kept.resize(had + step, 0);
            let mut filled = had;
            while filled < self.kept.len() {
                let n = match self.kept.get_mut(filled..) {
                    Some(room) => self.source.read(room),
                    None => Ok(0),
                };
                match n {
                    Ok(0) => break,
                    Ok(n) => filled += n,
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(e) => {
                        self.kept.truncate(filled);
                        return Err(e.into());
                    }
                }
            }
            let ended = filled < self.kept.len();
            self.kept.truncate(filled);
            if ended && (filled as u64) < end {
                return Err(past_end(offset, len, filled as u64));
            }
        }
        let size = self.kept.len() as u64;
        self.kept.get(offset as usize..end as usize).ok_or_else(|| past_end(offset, len, size))
    }
}
