//! Reading a positioned source as a stream, and a part of one as a whole.

use crate::error::Result;
use crate::read_at::{ReadAt, past_end};
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

/// Up to `len` bytes from `offset` on, fewer where the source ends.
pub(crate) fn read_up_to(src: &dyn ReadAt, offset: u64, len: usize) -> Result<Vec<u8>> {
    let left = src.size().saturating_sub(offset);
    let mut bytes = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(len)];
    if !bytes.is_empty() {
        src.read_at(offset, &mut bytes)?;
    }
    Ok(bytes)
}

/// A source read from a position on, unbuffered: wrap it in a `BufReader`.
pub(crate) struct Stream {
    src: Arc<dyn ReadAt>,
    at: u64,
}

impl Stream {
    pub(crate) fn new(src: Arc<dyn ReadAt>, at: u64) -> Self {
        Self { src, at }
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.src.size().saturating_sub(self.at)).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        match buf.get_mut(..len) {
            Some(part) if len > 0 => self.src.read_at(self.at, part)?,
            _ => return Ok(0),
        }
        self.at += len as u64;
        Ok(len)
    }
}

impl Seek for Stream {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.src.size().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

/// A part of a source.
pub(crate) struct Section {
    src: Arc<dyn ReadAt>,
    start: u64,
    len: u64,
}

impl Section {
    /// `len` bytes from `start` on; an error where the source is shorter.
    pub(crate) fn new(src: Arc<dyn ReadAt>, start: u64, len: u64) -> Result<Self> {
        match start.checked_add(len) {
            Some(end) if end <= src.size() => Ok(Self { src, start, len }),
            _ => Err(past_end(start, usize::try_from(len).unwrap_or(usize::MAX), src.size())),
        }
    }
}

impl ReadAt for Section {
    fn size(&self) -> u64 {
        self.len
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        match offset.checked_add(buf.len() as u64) {
            Some(end) if end <= self.len => self.src.read_at(self.start + offset, buf),
            _ => Err(past_end(offset, buf.len(), self.len)),
        }
    }
}

/// A source whose end is in memory.
pub(crate) struct Tail {
    src: Arc<dyn ReadAt>,
    start: u64,
    bytes: Vec<u8>,
}

impl Tail {
    pub(crate) fn new(src: Arc<dyn ReadAt>, len: usize) -> Result<Self> {
        let start = src.size().saturating_sub(len as u64);
        let bytes = read_up_to(&*src, start, len)?;
        Ok(Self { src, start, bytes })
    }
}

impl ReadAt for Tail {
    fn size(&self) -> u64 {
        self.src.size()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        match offset.checked_sub(self.start) {
            Some(at) => self.bytes[..].read_at(at, buf),
            None => self.src.read_at(offset, buf),
        }
    }
}
