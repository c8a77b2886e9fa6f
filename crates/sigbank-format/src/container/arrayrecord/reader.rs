//! Reading: the index is taken once, then each record is one read.

use std::ops::Range;
use std::sync::{Arc, Weak};

use super::blocks::{self, BLOCK};
use super::chunk::{self, Chunk, HEADER, HEADER_SPAN};
use super::control::{self, Entry, Footer};
use super::simple::Records;
use crate::error::{FormatError, Result};
use crate::read_at::ReadAt;

/// Where the first chunk of records may begin: behind the signature.
pub(super) const FIRST_CHUNK: u64 = 64;
/// So much of a file's end is read at once by default: the postscript, and the index where it is small.
pub(super) const TAIL: u64 = 2 * BLOCK;
/// A footer up to this long is read at once, a longer one only after its header says so too.
const LONG_FOOTER: u64 = 16 << 20;
/// Most bytes of a footer's entry, with room for fields to come, and of its metadata.
const LONGEST_ENTRY: u64 = 64;
const LONGEST_METADATA: u64 = 1 << 20;

/// An ArrayRecord file that is open for reading. A clone is the same reader; threads share it.
///
/// ```
/// use std::sync::Arc;
/// use bytes::Bytes;
/// use sigbank_format::container::arrayrecord::{Decoder, Options, Reader, Writer};
/// # fn main() -> sigbank_format::Result<()> {
/// let mut writer = Writer::new(Vec::new(), Options::default())?;
/// for record in [&b"one"[..], b"", b"three"] {
///     writer.push(record)?;
/// }
/// let file = Bytes::from(writer.finish()?.0);
/// let reader = Reader::open(Arc::new(file.clone()))?;
/// // One by one ...
/// let (mut decoder, mut record) = (Decoder::default(), Vec::new());
/// decoder.read(&reader, 2, &mut record)?;
/// assert_eq!(record, b"three");
/// // ... or from bytes that were fetched together.
/// let span = reader.span(0)?;
/// decoder.decode(&reader, 0, &file[span.start as usize..span.end as usize], &mut record)?;
/// assert_eq!(record, b"one");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Reader(Arc<Inner>);

struct Inner {
    src: Arc<dyn ReadAt>,
    index: Index,
    options: String,
}

/// Where the chunks are and how many records each has: 8 or 16 bytes a chunk.
pub(super) struct Index {
    /// Each chunk's begin.
    offsets: Vec<u64>,
    /// Where the last chunk's span ends.
    end: u64,
    records: u64,
    counts: Counts,
}

enum Counts {
    /// Each chunk but the last, which may have fewer, has so many.
    Even(u64),
    /// How many records there are up to each chunk's end.
    Ends(Vec<u64>),
}

impl Index {
    /// The index of `chunks` chunks at most. Corrupt where the chunks cannot lie where they are said to.
    pub(super) fn build(entries: impl Iterator<Item = Result<Entry>>, chunks: usize, end: u64) -> Result<Self> {
        let mut index = Self { offsets: Vec::with_capacity(chunks), end, records: 0, counts: Counts::Even(0) };
        let (mut free, mut short) = (FIRST_CHUNK, false);
        for (i, entry) in entries.enumerate() {
            let within = |e: FormatError| e.within(format!("the index's chunk {i}"));
            let Entry { offset, records, .. } = entry.map_err(within)?;
            let least = offset.saturating_add(records.max(HEADER as u64));
            if offset < free || least > end || !blocks::is_boundary(offset) || records > chunk::MAX_RECORDS {
                return Err(within(FormatError::corrupt(format!(
                    "{records} records at offset {offset}, where chunks may lie at {free}..{end}: the file is damaged"
                ))));
            }
            match &mut index.counts {
                Counts::Even(group) if i == 0 => *group = records,
                Counts::Even(group) if !short && records > 0 && records <= *group => short = records < *group,
                Counts::Even(group) => {
                    // What was even up to here, and the one before this may have been short.
                    let mut ends: Vec<u64> = (1..i as u64).map(|chunks| chunks * *group).collect();
                    ends.extend([index.records, index.records + records]);
                    index.counts = Counts::Ends(ends);
                }
                Counts::Ends(ends) => ends.push(index.records + records),
            }
            // Chunks are as long as they have records, so that no sum of them is longer than the file.
            index.records += records;
            index.offsets.push(offset);
            free = least;
        }
        Ok(index)
    }

    /// The chunk of a record, which of its records that is, and how many it has.
    fn locate(&self, record: u64) -> Result<(usize, usize, u64)> {
        if record >= self.records {
            return Err(FormatError::invalid(format!("there is no record {record}: the file has {}", self.records)));
        }
        let (chunk, first, next) = match &self.counts {
            Counts::Even(group) => {
                let first = record / group * group;
                (record / group, first, (first + group).min(self.records))
            }
            Counts::Ends(ends) => {
                let chunk = ends.partition_point(|end| *end <= record);
                let first = chunk.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
                (chunk as u64, first, ends.get(chunk).copied().unwrap_or_default())
            }
        };
        Ok((chunk as usize, (record - first) as usize, next - first))
    }

    /// Whether the chunks lie at these places.
    pub(super) fn offsets_are(&self, offsets: impl Iterator<Item = u64>) -> bool {
        self.offsets.iter().copied().eq(offsets)
    }

    fn span(&self, chunk: usize) -> Range<u64> {
        let begin = self.offsets.get(chunk).copied().unwrap_or(self.end);
        begin..self.offsets.get(chunk + 1).copied().unwrap_or(self.end)
    }
}

impl Reader {
    /// Opens a file: reads its last 128 KiB, and the index where it begins before (only an index over 16 MiB takes a third read).
    ///
    /// # Errors
    /// Corrupt for what is no ArrayRecord file, for one that was cut short or not finished (see [`super::recover`]), and for a
    /// damaged index. Unsupported for an index of a later version.
    pub fn open(src: Arc<dyn ReadAt>) -> Result<Self> {
        Self::open_tail(src, TAIL)
    }

    /// As [`Self::open`], with how many bytes of the file's end are read at once: worth more than by default where a read costs a
    /// round trip. It is rounded up to blocks of 64 KiB.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_tail(src: Arc<dyn ReadAt>, tail: u64) -> Result<Self> {
        let (index, options) = open(src.as_ref(), tail)?;
        Ok(Self(Arc::new(Inner { src, index, options })))
    }

    pub(super) fn new(src: Arc<dyn ReadAt>, index: Index) -> Self {
        Self(Arc::new(Inner { src, index, options: String::new() }))
    }

    /// How many records there are.
    pub fn len(&self) -> u64 {
        self.0.index.records
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// With which options the file was written, as its writer says: for people.
    pub fn writer_options(&self) -> &str {
        &self.0.options
    }

    /// Where in the file the chunk lies that holds a record, for [`Decoder::decode`]. Records of one chunk have the same span.
    ///
    /// # Errors
    /// Invalid for a record that there is not.
    pub fn span(&self, record: u64) -> Result<Range<u64>> {
        Ok(self.0.index.span(self.0.index.locate(record)?.0))
    }

    /// Reads a record. A [`Decoder`] does it faster, for it keeps its memory.
    ///
    /// # Errors
    /// Those of [`Decoder::read`].
    pub fn read(&self, record: u64) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        Decoder::default().read(self, record, &mut out)?;
        Ok(out)
    }

    /// A record from the bytes of its [`Self::span`].
    ///
    /// # Errors
    /// Those of [`Decoder::decode`].
    pub fn decode(&self, record: u64, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        Decoder::default().decode(self, record, bytes, &mut out)?;
        Ok(out)
    }
}

/// Reads records, of any reader, with memory that it keeps: one for each thread.
///
/// It holds as much as its largest chunks took. The records of the chunk decoded last are at hand without reading.
#[derive(Default)]
pub struct Decoder {
    span: Vec<u8>,
    /// A chunk's data, where blocks end within it.
    data: Vec<u8>,
    records: Records,
    /// Whose chunk's records are held.
    held: Option<(Weak<Inner>, usize)>,
}

impl Decoder {
    /// Has in `out` a record of the file.
    ///
    /// # Errors
    /// Invalid for a record that there is not. Corrupt for a hash that is wrong or sizes that do not agree, Unsupported for a transposed
    /// chunk or an unknown compression. Errors of the source as they are.
    pub fn read(&mut self, reader: &Reader, record: u64, out: &mut Vec<u8>) -> Result<()> {
        let (chunk, place, records) = reader.0.index.locate(record)?;
        if self.holds(reader, chunk) {
            return self.hand_out(place, out);
        }
        let span = reader.0.index.span(chunk);
        let mut bytes = std::mem::take(&mut self.span);
        let result = read_span(reader.0.src.as_ref(), &span, &mut bytes)
            .and_then(|bytes| self.decode_chunk(reader, (chunk, place, records), bytes, out));
        self.span = bytes;
        result.map_err(|e| e.within(format!("record {record}")))
    }

    /// Has in `out` a record from the bytes of its [`Reader::span`].
    ///
    /// # Errors
    /// As [`Self::read`]; Invalid for bytes of another length than the span's.
    pub fn decode(&mut self, reader: &Reader, record: u64, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let (chunk, place, records) = reader.0.index.locate(record)?;
        if self.holds(reader, chunk) {
            return self.hand_out(place, out);
        }
        self.decode_chunk(reader, (chunk, place, records), bytes, out).map_err(|e| e.within(format!("record {record}")))
    }

    fn holds(&self, reader: &Reader, chunk: usize) -> bool {
        self.held.as_ref().is_some_and(|(whose, held)| *held == chunk && whose.as_ptr() == Arc::as_ptr(&reader.0))
    }

    fn hand_out(&self, place: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.extend_from_slice(self.records.get(place)?);
        Ok(())
    }

    fn decode_chunk(
        &mut self,
        reader: &Reader,
        (chunk, place, records): (usize, usize, u64),
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let span = reader.0.index.span(chunk);
        if bytes.len() as u64 != span.end - span.start {
            return Err(FormatError::invalid(format!("its span is {span:?}, but {} bytes were handed over", bytes.len())));
        }
        let found = chunk::read(span.start, bytes, &mut self.data)?;
        let (header, len) = (found.header, found.len);
        if header.records != records {
            return Err(FormatError::corrupt(format!(
                "the chunk at offset {} has {} records where the index says {records}",
                span.start, header.records
            )));
        }
        check_kind(&found)?;
        self.held = None;
        if records == 1 {
            self.records.decode(&found, Some(out))?;
        } else {
            self.records.decode(&found, None)?;
            self.held = Some((Arc::downgrade(&reader.0), chunk));
        }
        // Padding may follow.
        if let Some(rest) = bytes.get(len..).filter(|rest| !rest.is_empty()) {
            chunk::pass(span.start + len as u64, rest, &mut self.data)?;
        }
        if records == 1 { Ok(()) } else { self.hand_out(place, out) }
    }
}

pub(super) fn check_kind(chunk: &Chunk<'_>) -> Result<()> {
    match chunk.header.kind {
        chunk::SIMPLE => Ok(()),
        chunk::TRANSPOSED => Err(FormatError::unsupported(
            "the chunk is transposed, which is not read here: write the file anew with transpose:false, the package's default",
        )),
        kind => Err(FormatError::unsupported(format!("a chunk of records of type 0x{kind:02x}: a newer version may read it"))),
    }
}

/// The bytes of the file at `span`, in `buffer`, which is longer or gets as long.
pub(super) fn read_span<'a>(src: &dyn ReadAt, span: &Range<u64>, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    // Not longer than the file.
    let len = usize::try_from(span.end - span.start).unwrap_or(usize::MAX);
    if buffer.len() < len {
        buffer.clear();
        buffer.try_reserve_exact(len).map_err(|_| FormatError::limit(format!("no memory for a chunk of {len} bytes")))?;
        buffer.resize(len, 0);
    }
    let place = buffer.get_mut(..len).unwrap_or_default();
    src.read_at(span.start, place)?;
    Ok(place)
}

fn open(src: &dyn ReadAt, tail: u64) -> Result<(Index, String)> {
    let size = src.size();
    if size < 2 * BLOCK || !size.is_multiple_of(BLOCK) {
        return Err(FormatError::corrupt(format!(
            "{size} bytes; an ArrayRecord file has a multiple of {BLOCK}, {} at least: it is none, or was cut short or not finished",
            2 * BLOCK
        )));
    }
    let (mut bytes, mut scratch, mut records) = (Vec::new(), Vec::new(), Records::default());
    let last = size - BLOCK;
    let start = size - tail.max(1).div_ceil(BLOCK).saturating_mul(BLOCK).min(size);
    let read = read_span(src, &(start..size), &mut bytes)?;
    let (before, postscript) = read.split_at_checked((last - start) as usize).unwrap_or_default();
    let begin = footer_offset(postscript, last, &mut scratch, &mut records)
        .map_err(|e| e.within("no postscript: this is no ArrayRecord file, or it is damaged or was not finished"))?;
    if begin >= start {
        let footer = before.get((begin - start) as usize..).unwrap_or_default();
        return read_footer(footer, begin, &mut scratch, &mut records).map_err(|e| e.within("the index"));
    }
    // What was read already is not read again.
    let before = before.to_vec();
    if last - begin > LONG_FOOTER {
        let header = chunk::header(begin, read_span(src, &(begin..begin + HEADER_SPAN as u64), &mut bytes)?)?;
        if header.end(begin)? > last {
            return Err(FormatError::corrupt("the index is longer than the file"));
        }
    }
    let mut footer = Vec::new();
    read_span(src, &(begin..start), &mut footer)?;
    footer.extend_from_slice(&before);
    read_footer(&footer, begin, &mut scratch, &mut records).map_err(|e| e.within("the index"))
}

fn footer_offset(tail: &[u8], last: u64, scratch: &mut Vec<u8>, records: &mut Records) -> Result<u64> {
    let postscript = chunk::read(last, tail, scratch)?;
    let len = postscript.len;
    if postscript.header.kind != chunk::SIMPLE {
        return Err(FormatError::corrupt(format!("a chunk of type 0x{:02x} lies in its place", postscript.header.kind)));
    }
    if postscript.header.decoded > BLOCK {
        return Err(FormatError::corrupt("it is longer than a block"));
    }
    records.decode(&postscript, None)?;
    let first = records.get(0)?;
    let offset = control::footer_offset(first)?;
    for copy in 1..records.len() {
        if records.get(copy)? != first {
            return Err(FormatError::corrupt("its copies are not equal"));
        }
    }
    if offset < FIRST_CHUNK || offset >= last || !blocks::is_boundary(offset) {
        return Err(FormatError::corrupt(format!("it says that the index is at offset {offset}, where none can be")));
    }
    chunk::pass(last + len as u64, tail.get(len..).unwrap_or_default(), scratch)?;
    Ok(offset)
}

/// The index and the writer's options, from the footer's bytes and what follows up to the postscript.
fn read_footer(bytes: &[u8], begin: u64, scratch: &mut Vec<u8>, records: &mut Records) -> Result<(Index, String)> {
    let chunk = chunk::read(begin, bytes, scratch)?;
    let len = chunk.len;
    check_kind(&chunk)?;
    let (footer, index) = decode_footer(&chunk, begin, records)?;
    if footer.chunks != index.offsets.len() as u64 || footer.records != index.records {
        return Err(FormatError::corrupt(format!(
            "it names {} chunks of {} records, but says that there are {} of {}",
            index.offsets.len(),
            index.records,
            footer.chunks,
            footer.records
        )));
    }
    chunk::pass(begin + len as u64, bytes.get(len..).unwrap_or_default(), scratch)?;
    Ok((index, footer.options))
}

/// What a footer says, if it is one.
pub(super) fn decode_footer(chunk: &Chunk<'_>, begin: u64, records: &mut Records) -> Result<(Footer, Index)> {
    let entries = chunk.header.records.checked_sub(1).ok_or_else(|| FormatError::corrupt("it is empty"))?;
    let longest = LONGEST_METADATA.saturating_add(entries.saturating_mul(LONGEST_ENTRY));
    if chunk.header.decoded > longest {
        return Err(FormatError::corrupt(format!("{} bytes for {entries} chunks", chunk.header.decoded)));
    }
    records.decode(chunk, None)?;
    let footer = Footer::from_bytes(records.get(0)?)?;
    // As many as the footer has bytes on disk, at most.
    let chunks = records.len() - 1;
    let entries = (1..=chunks).map(|i| Entry::from_bytes(records.get(i)?));
    Ok((footer, Index::build(entries, chunks, begin)?))
}
