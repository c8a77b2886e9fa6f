//! Looking at parts of a shard: three ways to have the bytes at an offset.

use crate::error::{FormatError, FormatErrorKind, Result};
use crate::limits;
use crate::read_at::{ReadAt, past_end};
use std::io::Read;

/// Bytes that can be looked at by offset.
pub trait Window {
    /// The `len` bytes at `offset`; an error of kind Corrupt where the data end before.
    fn get(&mut self, offset: u64, len: usize) -> Result<&[u8]>;
    /// All the bytes, where they are at hand.
    fn whole(&self) -> Option<&[u8]> {
        None
    }
}

impl Window for &[u8] {
    fn get(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let found = usize::try_from(offset).ok().and_then(|o| <[u8]>::get(self, o..)?.get(..len));
        found.ok_or_else(|| past_end(offset, len, <[u8]>::len(self) as u64))
    }
    fn whole(&self) -> Option<&[u8]> {
        Some(self)
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
        Self { source, blocks: Vec::with_capacity(KEPT), next: first.max(SMALLEST_BLOCK) }
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
            // The reference lays records out back to front: what is wanted next then lies just before what is known.
            let precedes = self.blocks.iter().any(|(start, _)| (end..end + SMALLEST_BLOCK as u64).contains(start));
            let mut block = if self.blocks.len() == KEPT { self.blocks.remove(0).1 } else { Vec::new() };
            if !self.blocks.is_empty() {
                self.next = if follows || precedes { (self.next * 4).min(LARGEST_BLOCK) } else { SMALLEST_BLOCK };
            }
            let take = self.next.max(len) as u64;
            let start = if precedes && !follows { end.saturating_sub(take) } else { offset };
            block.resize(take.min(size - start) as usize, 0);
            self.source.read_at(start, &mut block)?;
            self.blocks.push((start, block));
        }
        let block = self.blocks.last().and_then(|(start, b)| b.get((offset - start) as usize..)?.get(..len));
        block.ok_or_else(|| past_end(offset, len, size))
    }
    fn whole(&self) -> Option<&[u8]> {
        let (start, block) = self.blocks.last()?;
        if *start == 0 && block.len() as u64 == self.source.size() { Some(block) } else { None }
    }
}

/// A window on a stream: what has been read of it so far is kept, and grows as far as is looked at.
pub struct Prefix<R> {
    source: R,
    /// Memory, of which the first `filled` bytes are the stream's.
    room: Vec<u8>,
    filled: usize,
    limit: u64,
}

impl<R: Read> Prefix<R> {
    /// A window on `source` that keeps at most `limit` bytes, in `room`, whose length is used as far as it reaches.
    pub fn new(source: R, limit: u64, room: Vec<u8>) -> Self {
        Self { source, room, filled: 0, limit }
    }
    /// What was read so far, from offset 0 on.
    pub fn kept(&self) -> &[u8] {
        self.room.get(..self.filled).unwrap_or_default()
    }
    /// The stream after what was kept, the memory, and how many of its bytes were kept.
    pub fn into_parts(self) -> (R, Vec<u8>, usize) {
        (self.source, self.room, self.filled)
    }

    /// Reads on until `end`; false where the stream ends before.
    fn fill(&mut self, end: usize) -> Result<bool> {
        // Growing steps: a shard whose tables lie among its data is soon read whole, one with its tables first is not.
        let step = self.filled.clamp(64 << 10, 8 << 20).max(end.saturating_sub(self.filled)).min(limits::FIRST_ALLOCATION * 8);
        let target = self.filled + step;
        if self.room.len() < target {
            self.room.resize(target, 0);
        }
        while self.filled < target {
            let n = match self.room.get_mut(self.filled..target) {
                Some(room) => self.source.read(room),
                None => Ok(0),
            };
            match n {
                Ok(0) => return Ok(self.filled >= end),
                Ok(n) => self.filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(true)
    }
}

impl<R: Read> Window for Prefix<R> {
    fn get(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let end = offset.saturating_add(len as u64);
        if end > self.limit {
            let text = format!("offset {end} is over the limit of {} bytes for this kind of shard", self.limit);
            return Err(FormatError::new(FormatErrorKind::Limit, text));
        }
        while (self.filled as u64) < end {
            if !self.fill(end as usize)? {
                return Err(past_end(offset, len, self.filled as u64));
            }
        }
        let size = self.filled as u64;
        self.room.get(offset as usize..end as usize).ok_or_else(|| past_end(offset, len, size))
    }
}
