//! An object that is hashed while it is written.

use super::digest::Digest;
use crate::error::{Code, Result};
use crate::store::NewObject;
use sha2::Digest as _;
use sha2::Sha256;
use std::io::{self, Write};

/// Bytes that are hashed and written in one step.
const CHUNK: usize = 256 << 10;

/// Buffers, hashes and counts what is written to a new object, or to none where its name is taken.
pub(super) struct Spool {
    object: Option<Box<dyn NewObject>>,
    buffer: Vec<u8>,
    hasher: Sha256,
    bytes: u64,
}

impl Spool {
    pub(super) fn new(object: Option<Box<dyn NewObject>>) -> Self {
        Self { object, buffer: Vec::with_capacity(CHUNK), hasher: Sha256::new(), bytes: 0 }
    }

    /// Gives the object its name; whether it has it now, or the name was taken. And what was written: length and digest.
    pub(super) fn commit(mut self) -> Result<(bool, (u64, Digest))> {
        self.flush()?;
        let named = match self.object.map(|object| object.commit()) {
            Some(Err(e)) if e.code() != Code::AlreadyExists => return Err(e),
            committed => matches!(committed, Some(Ok(()))),
        };
        Ok((named, (self.bytes, Digest::finish(self.hasher))))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        self.object.as_mut().map_or(Ok(()), |object| object.write_all(bytes))
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > CHUNK {
            self.flush()?;
        }
        if bytes.len() >= CHUNK {
            self.put(bytes)?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let written = if buffer.is_empty() { Ok(()) } else { self.put(&buffer) };
        buffer.clear();
        self.buffer = buffer;
        written
    }
}
