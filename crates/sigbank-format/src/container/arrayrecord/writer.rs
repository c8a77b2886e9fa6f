//! Writing: chunks are encoded anywhere and appended in order; the index comes last.

use std::fmt;
use std::io::Write;

use super::Compression;
use super::blocks;
use super::chunk::{self, Header};
use super::codec::Compressor;
use super::control::{self, Entry, Footer};
use super::simple::{self, Sizes};
use crate::error::{FormatError, Result};

/// How a file is written.
///
/// ```
/// use sigbank_format::container::arrayrecord::{Compression, Options};
/// let options = Options { compression: Compression::Snappy, ..Options::default() };
/// assert_eq!(options.to_string(), "group_size:1,transpose:false,pad_to_block_boundary:false,snappy,max_parallelism:1");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How each chunk is compressed; zstd by default.
    pub compression: Compression,
    /// Records of a chunk; 1 by default, so that a record is read alone.
    pub group_size: u32,
    /// Whether each chunk begins at a block of 64 KiB; it does not by default.
    pub pad_to_block_boundary: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { compression: Compression::default(), group_size: 1, pad_to_block_boundary: false }
    }
}

impl fmt::Display for Options {
    /// As the `array_record` package says it, and writes it into the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group_size:{},transpose:false,pad_to_block_boundary:{},", self.group_size, self.pad_to_block_boundary)?;
        match self.compression {
            Compression::None => f.write_str("uncompressed")?,
            Compression::Zstd { level, window_log } => write!(f, "zstd:{level},window_log:{window_log}")?,
            Compression::Brotli { level } => write!(f, "brotli:{level}")?,
            Compression::Snappy => f.write_str("snappy")?,
        }
        f.write_str(",max_parallelism:1")
    }
}

/// A chunk that is ready to be appended with [`Writer::push_chunk`], in memory that [`Encoder::encode`] uses again.
#[derive(Debug, Default, Clone)]
pub struct EncodedChunk {
    /// The chunk's header and data, without the headers of the blocks it will lie in.
    bytes: Vec<u8>,
    records: u64,
    decoded: u64,
}

/// Encodes chunks. What a chunk's bytes are depends on its records and the options alone, so that any thread may do it.
pub struct Encoder {
    compressor: Compressor,
    /// For sizes: a zstd context that goes to and fro between short and long buffers has to clear its tables each time.
    short: Compressor,
    sizes: Sizes,
    values: Vec<u8>,
}

impl Encoder {
    /// An encoder with these options.
    ///
    /// # Errors
    /// Invalid for a level, window or group size that does not exist.
    pub fn new(options: &Options) -> Result<Self> {
        if options.group_size == 0 {
            return Err(FormatError::invalid("a group_size of 0: choose 1 or more"));
        }
        let [compressor, short] = [Compressor::new(options.compression)?, Compressor::new(options.compression)?];
        Ok(Self { compressor, short, sizes: Sizes::default(), values: Vec::new() })
    }

    /// Makes `chunk` that of these records.
    ///
    /// # Errors
    /// Limit where memory is short, or where snappy cannot hold them (4 GiB).
    ///
    /// ```
    /// use sigbank_format::container::arrayrecord::{EncodedChunk, Encoder, Options, Writer};
    /// let mut chunk = EncodedChunk::default();
    /// let mut one = Writer::new(Vec::new(), Options::default())?;
    /// Encoder::new(&Options::default())?.encode(&[b"a trace"], &mut chunk)?;
    /// one.push_chunk(&chunk)?;
    /// let mut other = Writer::new(Vec::new(), Options::default())?;
    /// other.push(b"a trace")?;
    /// assert_eq!(one.finish()?, other.finish()?);
    /// # Ok::<(), sigbank_format::FormatError>(())
    /// ```
    pub fn encode(&mut self, records: &[&[u8]], chunk: &mut EncodedChunk) -> Result<()> {
        let lengths = records.iter().map(|record| record.len());
        if let [record] = records {
            return self.encode_values(lengths, record, chunk);
        }
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        records.iter().for_each(|record| values.extend_from_slice(record));
        let result = self.encode_values(lengths, &values, chunk);
        self.values = values;
        result
    }

    fn encode_values(
        &mut self,
        lengths: impl ExactSizeIterator<Item = usize>,
        values: &[u8],
        chunk: &mut EncodedChunk,
    ) -> Result<()> {
        let EncodedChunk { bytes, records, decoded } = chunk;
        (*records, *decoded) = (lengths.len() as u64, values.len() as u64);
        bytes.clear();
        bytes.resize(chunk::HEADER, 0);
        simple::encode([&mut self.short, &mut self.compressor], lengths, values, &mut self.sizes, bytes)?;
        finish_header(chunk::SIMPLE, *records, *decoded, bytes);
        Ok(())
    }
}

/// Puts a header before the data for which it was left room.
fn finish_header(kind: u8, records: u64, decoded: u64, bytes: &mut [u8]) {
    if let Some((header, data)) = bytes.split_first_chunk_mut::<{ chunk::HEADER }>() {
        *header = Header::of(kind, data, records, decoded).to_bytes();
    }
}

/// Writes a file from its begin to its end. The same records and options give the same bytes.
///
/// Each chunk goes out with one call or two: give it a `BufWriter` where records are small. A file that was not finished has no index;
/// [`super::recover`] finds its records.
///
/// ```
/// use std::sync::Arc;
/// use bytes::Bytes;
/// use sigbank_format::container::arrayrecord::{Options, Reader, Writer};
/// let mut writer = Writer::new(Vec::new(), Options::default())?;
/// writer.push(b"one")?;
/// writer.push(b"")?;
/// let (file, len) = writer.finish()?;
/// assert_eq!((file.len(), len), (131_072, 131_072));
/// let reader = Reader::open(Arc::new(Bytes::from(file)))?;
/// assert_eq!((reader.len(), reader.read(0)?), (2, b"one".to_vec()));
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub struct Writer<W: Write> {
    out: W,
    options: Options,
    encoder: Encoder,
    position: u64,
    chunk: EncodedChunk,
    /// Records that do not fill a chunk yet, and how long each is.
    pending: Vec<u8>,
    lengths: Vec<usize>,
    /// Each chunk's place and the bytes of its records.
    chunks: Vec<(u64, u64)>,
    records: u64,
    failed: bool,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Invalid for options that do not exist, those of `out` as they are.
    pub fn new(out: W, options: Options) -> Result<Self> {
        let encoder = Encoder::new(&options)?;
        let mut writer = Self {
            out,
            options,
            encoder,
            position: 0,
            chunk: EncodedChunk::default(),
            pending: Vec::new(),
            lengths: Vec::new(),
            chunks: Vec::new(),
            records: 0,
            failed: false,
        };
        let mut signature = [0; chunk::HEADER];
        finish_header(chunk::SIGNATURE, 0, 0, &mut signature);
        writer.append(&signature, 0)?;
        Ok(writer)
    }

    /// How many records were pushed.
    pub fn len(&self) -> u64 {
        self.records + self.lengths.len() as u64
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a record.
    ///
    /// # Errors
    /// Those of [`Encoder::encode`] and of `out`; Invalid after one of them, or after a chunk that was not full.
    pub fn push(&mut self, record: &[u8]) -> Result<()> {
        if self.options.group_size == 1 {
            let mut chunk = std::mem::take(&mut self.chunk);
            let result = self.encoder.encode(&[record], &mut chunk).and_then(|()| self.push_chunk(&chunk));
            self.chunk = chunk;
            return result;
        }
        self.check_open()?;
        self.pending.extend_from_slice(record);
        self.lengths.push(record.len());
        if self.lengths.len() as u64 == u64::from(self.options.group_size) { self.flush() } else { Ok(()) }
    }

    /// Appends a chunk that an [`Encoder`] with the same options made. All but the last have `group_size` records, for the `array_record`
    /// package finds records by that.
    ///
    /// # Errors
    /// Invalid for a chunk of too many records, or after one of too few; those of `out`.
    pub fn push_chunk(&mut self, chunk: &EncodedChunk) -> Result<()> {
        self.check_open()?;
        let group = u64::from(self.options.group_size);
        if !self.lengths.is_empty() || !(1..=group).contains(&chunk.records) {
            return Err(FormatError::invalid(format!(
                "a chunk of {} records after {} single ones, where chunks have {group}",
                chunk.records,
                self.lengths.len()
            )));
        }
        let begin = self.position;
        self.append(&chunk.bytes, chunk.records)?;
        self.chunks.push((begin, chunk.decoded));
        self.records += chunk.records;
        if self.options.pad_to_block_boundary { self.pad() } else { Ok(()) }
    }

    fn check_open(&self) -> Result<()> {
        if self.failed {
            return Err(FormatError::invalid("the file was not written completely before: begin it anew"));
        }
        if !self.records.is_multiple_of(u64::from(self.options.group_size)) {
            return Err(FormatError::invalid(format!(
                "a record after a chunk of less than {} records: only the last may be short",
                self.options.group_size
            )));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let (mut chunk, lengths) = (std::mem::take(&mut self.chunk), std::mem::take(&mut self.lengths));
        let result = self.encoder.encode_values(lengths.iter().copied(), &self.pending, &mut chunk);
        let result = result.and_then(|()| self.push_chunk(&chunk));
        (self.chunk, self.lengths, self.failed) = (chunk, lengths, result.is_err());
        self.pending.clear();
        self.lengths.clear();
        result
    }

    /// Writes the index and ends the file. Returns what it was written to, flushed, and the file's length.
    ///
    /// # Errors
    /// Those of `out`; Invalid after one of them.
    pub fn finish(mut self) -> Result<(W, u64)> {
        if self.failed {
            self.check_open()?;
        }
        if !self.lengths.is_empty() {
            self.flush()?;
        }
        let footer = Footer { chunks: self.chunks.len() as u64, records: self.records, options: self.options.to_string() };
        let mut values = footer.to_bytes();
        let mut lengths = vec![values.len()];
        let mut left = self.records;
        for (offset, decoded) in std::mem::take(&mut self.chunks) {
            let records = left.min(u64::from(self.options.group_size));
            left -= records;
            let begin = values.len();
            Entry { offset, decoded, records }.put(&mut values);
            lengths.push(values.len() - begin);
        }
        let begin = self.position;
        let mut chunk = std::mem::take(&mut self.chunk);
        self.encoder.encode_values(lengths.into_iter(), &values, &mut chunk)?;
        self.append(&chunk.bytes, chunk.records)?;
        self.pad()?;
        let postscript = control::postscript(begin);
        let mut plain = Encoder::new(&Options { compression: Compression::None, ..Options::default() })?;
        plain.encode(&[postscript.as_slice(); 3], &mut chunk)?;
        self.append(&chunk.bytes, chunk.records)?;
        self.pad()?;
        self.out.flush()?;
        Ok((self.out, self.position))
    }

    /// Ends the block with a chunk of nothing.
    pub(super) fn pad(&mut self) -> Result<()> {
        let Some(len) = blocks::padding(self.position, chunk::HEADER as u64) else { return Ok(()) };
        // Less than two blocks.
        let mut bytes = vec![0; len as usize];
        finish_header(chunk::PADDING, 0, 0, &mut bytes);
        self.append(&bytes, 0)
    }

    #[cfg(test)]
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    #[cfg(test)]
    pub(super) fn into_inner(self) -> W {
        self.out
    }

    /// Writes a chunk, and the headers of the blocks that begin within it.
    pub(super) fn append(&mut self, mut bytes: &[u8], records: u64) -> Result<()> {
        let begin = self.position;
        let end = blocks::chunk_end(begin, bytes.len() as u64, records)
            .ok_or_else(|| FormatError::limit("a file of more than 64 bits"))?;
        // A call that fails may have written some of it.
        self.failed = true;
        while self.position < end {
            if self.position.is_multiple_of(blocks::BLOCK) {
                self.out.write_all(&blocks::header(self.position, begin, end))?;
                self.position += blocks::HEADER as u64;
                continue;
            }
            let room = blocks::left(self.position).min(end - self.position) as usize;
            if bytes.is_empty() {
                self.out.write_all(&vec![0; room])?;
                self.position += room as u64;
            } else {
                let (piece, rest) = bytes.split_at(room.min(bytes.len()));
                self.out.write_all(piece)?;
                self.position += piece.len() as u64;
                bytes = rest;
            }
        }
        self.failed = false;
        Ok(())
    }
}
