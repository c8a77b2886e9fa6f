//! A chunk: a header of 40 bytes and data, both with their hashes, interrupted by the headers of the blocks it runs over.

use super::blocks::{self, Piece};
use super::hash;
use crate::error::{FormatError, Result};

/// Bytes of a chunk's header.
pub(super) const HEADER: usize = 40;
/// Bytes of the file that hold a chunk's header, wherever it lies: a block's header may be in between.
pub(super) const HEADER_SPAN: usize = HEADER + blocks::HEADER;
/// Most records of a chunk.
pub(super) const MAX_RECORDS: u64 = (1 << 56) - 1;

/// The chunk that each file begins with.
pub(super) const SIGNATURE: u8 = b's';
/// Nothing, up to a block's begin.
pub(super) const PADDING: u8 = b'p';
/// Records, their sizes before them.
pub(super) const SIMPLE: u8 = b'r';
/// Records that are protobuf messages, taken apart and laid out by field.
pub(super) const TRANSPOSED: u8 = b't';

/// What a chunk's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of the data.
    pub size: u64,
    pub hash: u64,
    pub kind: u8,
    pub records: u64,
    /// Bytes of all records.
    pub decoded: u64,
}

impl Header {
    pub(super) fn of(kind: u8, data: &[u8], records: u64, decoded: u64) -> Self {
        Self { size: data.len() as u64, hash: hash(data), kind, records, decoded }
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let words = [self.size, self.hash, u64::from(self.kind) | self.records << 8, self.decoded];
        if let Some((place, rest)) = bytes.split_first_chunk_mut::<8>() {
            for (word, place) in words.iter().zip(rest.chunks_exact_mut(8)) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            *place = hash(rest).to_le_bytes();
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; HEADER]) -> Result<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let [checked, size, data, kind, decoded] = words else { return Err(damaged()) };
        let [checked, size, data, kind, decoded] = [checked, size, data, kind, decoded].map(|word| u64::from_le_bytes(*word));
        if checked != hash(bytes.get(8..).unwrap_or_default()) {
            return Err(damaged());
        }
        Ok(Self { size, hash: data, kind: kind as u8, records: kind >> 8, decoded })
    }

    /// Where the chunk ends.
    pub(super) fn end(&self, begin: u64) -> Result<u64> {
        (self.size.checked_add(HEADER as u64))
            .and_then(|payload| blocks::chunk_end(begin, payload, self.records))
            .ok_or_else(|| FormatError::corrupt(format!("a chunk of {} bytes: its header is damaged", self.size)))
    }
}

fn damaged() -> FormatError {
    FormatError::corrupt("the chunk header's hash is wrong: no chunk begins here, or it is damaged")
}

/// A chunk of a file.
pub(super) struct Chunk<'a> {
    pub header: Header,
    pub data: &'a [u8],
    /// How many bytes of the file it takes.
    pub len: usize,
}

/// The header of the chunk at `begin`, from the bytes that begin there.
pub(super) fn header(begin: u64, bytes: &[u8]) -> Result<Header> {
    if let Some(whole) = bytes.first_chunk::<HEADER>().filter(|_| blocks::left(begin) >= HEADER as u64) {
        return Header::from_bytes(whole);
    }
    let mut gathered = [0; HEADER];
    let mut missing = &mut gathered[..];
    for piece in blocks::pieces(begin, bytes.get(..HEADER_SPAN).unwrap_or(bytes)) {
        let Piece::Payload(piece) = piece else { continue };
        let len = piece.len().min(missing.len());
        let (place, rest) = missing.split_at_mut(len);
        place.copy_from_slice(piece.get(..len).unwrap_or_default());
        missing = rest;
    }
    match missing.len() {
        0 => Header::from_bytes(&gathered),
        missing => {
            Err(FormatError::corrupt(format!("the file ends {missing} bytes before a chunk header does: it was cut short")))
        }
    }
}

/// Reads the chunk at `begin` from the bytes that begin there, all hashes checked. `scratch` takes its data if a block's header lies in
/// between.
pub(super) fn read<'a>(begin: u64, bytes: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Chunk<'a>> {
    let header = header(begin, bytes)?;
    let end = header.end(begin)?;
    let len = usize::try_from(end - begin).unwrap_or(usize::MAX);
    let bytes = bytes.get(..len).ok_or_else(|| {
        FormatError::corrupt(format!("a chunk of {len} bytes where there are {}: cut short, or its place is wrong", bytes.len()))
    })?;
    // Not more than `len`, which is at hand.
    let size = usize::try_from(header.size).unwrap_or(usize::MAX);
    let data = if end - begin <= blocks::left(begin) {
        bytes.get(HEADER..).and_then(|data| data.get(..size)).unwrap_or_default()
    } else {
        scratch.clear();
        scratch.reserve(size);
        let mut skipped = HEADER;
        for piece in blocks::pieces(begin, bytes) {
            match piece {
                Piece::Header(at, found) => blocks::check(at, found, begin, end)?,
                Piece::Payload(piece) => {
                    let (passed, piece) = piece.split_at(skipped.min(piece.len()));
                    skipped -= passed.len();
                    scratch.extend_from_slice(piece.get(..size - scratch.len()).unwrap_or(piece));
                }
            }
        }
        scratch
    };
    if data.len() != size || hash(data) != header.hash {
        return Err(FormatError::corrupt("the hash of the chunk's data is wrong: the file is damaged here"));
    }
    Ok(Chunk { header, data, len })
}

/// Passes the chunks without records that fill `bytes`, which lie at `begin`.
///
/// Errors: Corrupt where there is one with records, or which does not end where `bytes` does.
pub(super) fn pass(mut begin: u64, mut bytes: &[u8], scratch: &mut Vec<u8>) -> Result<()> {
    while !bytes.is_empty() {
        let chunk = read(begin, bytes, scratch).map_err(|e| e.within(format!("the chunk at offset {begin}")))?;
        if chunk.header.records != 0 {
            return Err(FormatError::corrupt(format!(
                "the chunk at offset {begin} has {} records, but the index does not name it",
                chunk.header.records
            )));
        }
        begin += chunk.len as u64;
        bytes = bytes.get(chunk.len..).unwrap_or_default();
    }
    Ok(())
}
