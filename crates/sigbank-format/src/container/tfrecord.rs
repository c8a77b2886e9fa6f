//! TFRecord: records one after another, each with its length before it and a checksum of both.
//!
//! A record lies in the file as its length (8 bytes, little-endian), the length's checksum, its bytes, and their checksum. The
//! checksums are CRC-32C, rotated and shifted by a constant, as TensorFlow does so that a CRC over data that hold CRCs stays
//! of use. What the bytes are is not the container's business: see [`crate::record::tf_example`].

#[cfg(test)]
mod tests;

use std::io::{ErrorKind, Read};

use crate::error::{FormatError, Result};

/// Bytes before a record: its length and the length's checksum.
const HEADER: usize = 12;
/// Bytes of a record's checksum.
const FOOTER: usize = 4;
/// Bytes read from the source at once, and the first buffer.
const BUFFER: usize = 256 << 10;
/// The longest record, in bytes: protobuf, and with it TensorFlow, reads no longer message.
pub const MAX_RECORD: u64 = i32::MAX as u64;

/// The checksum as it stands in the file.
fn masked(crc: u32) -> [u8; 4] {
    crc.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

fn header(len: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    if let Some((length, checksum)) = header.split_first_chunk_mut::<8>() {
        *length = (len as u64).to_le_bytes();
        checksum.copy_from_slice(&masked(crc32c::crc32c(length)));
    }
    header
}

/// Appends a record to `out`.
///
/// ```
/// use sigbank_format::container::tfrecord::{Records, frame};
/// let mut file = Vec::new();
/// frame(b"one", &mut file);
/// frame(b"", &mut file);
/// assert_eq!(file.len(), 2 * 16 + 3);
/// let mut records = Records::new(&file[..]);
/// assert_eq!(records.next()?, Some(&b"one"[..]));
/// assert_eq!(records.next()?, Some(&b""[..]));
/// assert_eq!(records.next()?, None);
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub fn frame(data: &[u8], out: &mut Vec<u8>) {
    out.reserve(HEADER + data.len() + FOOTER);
    out.extend_from_slice(&header(data.len()));
    out.extend_from_slice(data);
    out.extend_from_slice(&masked(crc32c::crc32c(data)));
}

/// Appends a record that `encode` appends to the same buffer, so that its bytes are not copied.
///
/// # Errors
/// That of `encode`, and Limit for a record over [`MAX_RECORD`]; `out` is then as it was.
///
/// ```
/// use sigbank_format::container::tfrecord::{frame, frame_with};
/// let (mut one, mut two) = (Vec::new(), Vec::new());
/// frame(b"trace", &mut one);
/// frame_with(&mut two, |out| { out.extend_from_slice(b"trace"); Ok(()) })?;
/// assert_eq!(one, two);
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub fn frame_with(out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    let result = encode(out).and_then(|()| {
        let record = out.get_mut(start..).and_then(|framed| framed.split_first_chunk_mut::<HEADER>());
        let (place, data) = record.ok_or_else(|| FormatError::invalid("the record's encoder removed bytes it did not write"))?;
        if data.len() as u64 > MAX_RECORD {
            return Err(too_long(data.len() as u64));
        }
        *place = header(data.len());
        let checksum = masked(crc32c::crc32c(data));
        out.extend_from_slice(&checksum);
        Ok(())
    });
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn too_long(len: u64) -> FormatError {
    FormatError::limit(format!("a record of {len} bytes; protobuf messages, which TFRecord files hold, end at {MAX_RECORD}"))
}

/// The records of a file, in order, read from its decompressed bytes.
///
/// Reads 256 KiB or more at once and holds one record. Memory grows with the bytes that arrive, whatever a length says. What is
/// found wrong is said again by each later call.
pub struct Records<R> {
    source: R,
    /// Of it, `start..end` are read but not handed out.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// How many records were passed.
    passed: u64,
    failed: Option<FormatError>,
}

impl<R: Read> Records<R> {
    /// A reader that stands before the first record. `source` is not read yet and needs no buffer of its own.
    pub fn new(source: R) -> Self {
        Self { source, buffer: Vec::new(), start: 0, end: 0, passed: 0, failed: None }
    }

    /// The next record's bytes, or none at the end of the file.
    ///
    /// # Errors
    /// Corrupt, with the record's number (from 0): a checksum that is wrong, a file that ends inside a record. Limit for one over
    /// [`MAX_RECORD`]. Errors of the source as they are.
    // Not an iterator: what it gives lives until the next call.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<&[u8]>> {
        let Some(len) = self.guarded(Self::take_record)? else { return Ok(None) };
        let record = self.start - FOOTER - len..self.start - FOOTER;
        self.buffer.get(record).map(Some).ok_or_else(|| FormatError::corrupt("a record outside of its buffer"))
    }

    /// Passes over one record without holding it. False at the end of the file.
    ///
    /// # Errors
    /// As [`Records::next`]; the checksums are checked here too.
    ///
    /// ```
    /// use sigbank_format::container::tfrecord::{Records, frame};
    /// let mut file = Vec::new();
    /// frame(b"one", &mut file);
    /// frame(b"two", &mut file);
    /// let mut records = Records::new(&file[..]);
    /// assert!(records.skip()?);
    /// assert_eq!(records.next()?, Some(&b"two"[..]));
    /// assert!(!records.skip()?);
    /// # Ok::<(), sigbank_format::FormatError>(())
    /// ```
    pub fn skip(&mut self) -> Result<bool> {
        Ok(self.guarded(Self::pass_record)?.is_some())
    }

    /// How many records were handed out or passed over.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Runs one step; its failure gets the record's number and stays.
    fn guarded<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<Option<T>>) -> Result<Option<T>> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        match step(self) {
            Ok(done) => {
                self.passed += u64::from(done.is_some());
                Ok(done)
            }
            Err(e) => {
                let e = e.within(format!("record {}", self.passed));
                self.failed = Some(e.clone());
                Err(e)
            }
        }
    }

    /// The next record's length; none at the end.
    fn take_length(&mut self) -> Result<Option<usize>> {
        let found = self.fill(HEADER)?;
        if found.is_empty() {
            return Ok(None);
        }
        let Some((length, rest)) = found.split_first_chunk::<8>() else { return Err(cut(found.len(), HEADER)) };
        let Some(checksum) = rest.first_chunk::<4>() else { return Err(cut(found.len(), HEADER)) };
        if *checksum != masked(crc32c::crc32c(length)) {
            return Err(FormatError::corrupt(match self.passed {
                0 => "no TFRecord file, or one with a damaged length (its checksum is wrong)".to_owned(),
                _ => "its length's checksum is wrong: the file is damaged here".to_owned(),
            }));
        }
        let length = u64::from_le_bytes(*length);
        self.start += HEADER;
        match usize::try_from(length) {
            Ok(len) if length <= MAX_RECORD => Ok(Some(len)),
            _ => Err(too_long(length)),
        }
    }

    /// Has a record and its checksum in the buffer, just before `start`.
    fn take_record(&mut self) -> Result<Option<usize>> {
        let Some(len) = self.take_length()? else { return Ok(None) };
        let found = self.fill(len + FOOTER)?;
        let Some((data, rest)) = found.split_at_checked(len) else { return Err(cut(found.len(), len + FOOTER)) };
        let Some(checksum) = rest.first_chunk::<FOOTER>() else { return Err(cut(found.len(), len + FOOTER)) };
        check(crc32c::crc32c(data), *checksum)?;
        self.start += len + FOOTER;
        Ok(Some(len))
    }

    fn pass_record(&mut self) -> Result<Option<()>> {
        let Some(len) = self.take_length()? else { return Ok(None) };
        let (mut left, mut crc) = (len, 0);
        while left > 0 {
            let found = self.fill(left.min(BUFFER))?;
            let piece = found.get(..left.min(found.len())).unwrap_or_default();
            if piece.is_empty() {
                return Err(cut(len - left, len + FOOTER));
            }
            crc = crc32c::crc32c_append(crc, piece);
            let passed = piece.len();
            self.start += passed;
            left -= passed;
        }
        let found = self.fill(FOOTER)?;
        let Some(checksum) = found.first_chunk::<FOOTER>() else { return Err(cut(len + found.len(), len + FOOTER)) };
        check(crc, *checksum)?;
        self.start += FOOTER;
        Ok(Some(()))
    }

    /// What the buffer holds after reading until it is at least `wanted` bytes; less only at the source's end.
    fn fill(&mut self, wanted: usize) -> Result<&[u8]> {
        while self.end - self.start < wanted {
            let held = self.end - self.start;
            // Moved are at most as many bytes as were handed out since the last time, or what a full buffer holds of one record.
            if held <= self.start || self.end == self.buffer.len() {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, held);
            }
            if self.end == self.buffer.len() {
                // A little over the record, so that the next one of the same length fits behind its own header.
                let grown = held.saturating_mul(2).max(BUFFER).min(wanted.saturating_add(BUFFER));
                match held {
                    // New pages are zero already, and of a small file's most are never touched.
                    0 => self.buffer = vec![0; grown],
                    _ => {
                        self.buffer.reserve_exact(grown.saturating_sub(held));
                        self.buffer.resize(grown, 0);
                    }
                }
            }
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.source.read(room) {
                Ok(0) => break,
                Ok(n) => self.end += n.min(room.len()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(self.buffer.get(self.start..self.end).unwrap_or_default())
    }
}

fn check(crc: u32, checksum: [u8; 4]) -> Result<()> {
    if masked(crc) == checksum {
        Ok(())
    } else {
        Err(FormatError::corrupt("its data's checksum is wrong: the file is damaged here"))
    }
}

fn cut(found: usize, wanted: usize) -> FormatError {
    FormatError::corrupt(format!("the file ends after {found} of {wanted} bytes: it was cut short"))
}
