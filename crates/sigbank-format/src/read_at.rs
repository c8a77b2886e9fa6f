//! Positioned reading, the one thing a codec asks of whatever holds its bytes.

use crate::error::Result;

/// Bytes that can be read at any position, such as a slice or an open file.
///
/// Reading past the end is a [`crate::error::FormatErrorKind::Corrupt`] error; `read_at` fills the whole buffer or fails.
pub trait ReadAt: Send + Sync {
    /// How many bytes there are.
    fn size(&self) -> u64;
    /// Fills `buf` from `offset` on.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;
}

impl ReadAt for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let source = usize::try_from(offset).ok().and_then(|o| self.get(o..)?.get(..buf.len()));
        match source {
            Some(s) => {
                buf.copy_from_slice(s);
                Ok(())
            }
            None => Err(past_end(offset, buf.len(), self.size())),
        }
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn size(&self) -> u64 {
        (**self).size()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        (**self).read_at(offset, buf)
    }
}

impl ReadAt for bytes::Bytes {
    fn size(&self) -> u64 {
        self.len() as u64
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.as_ref().read_at(offset, buf)
    }
}

/// The error of a read past the end.
pub fn past_end(offset: u64, want: usize, size: u64) -> crate::FormatError {
    crate::FormatError::corrupt(format!(
        "{want} bytes are expected at offset {offset}, but the data end at {size}: the file was cut short or is damaged"
    ))
}
