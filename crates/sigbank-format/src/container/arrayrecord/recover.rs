//! Reading files whose end is missing: the index is made anew from the chunks.

use std::sync::Arc;

use super::chunk::{self, Chunk, HEADER_SPAN, Header};
use super::control::Entry;
use super::reader::{FIRST_CHUNK, Index, Reader, decode_footer, read_span};
use super::simple::Records;
use crate::error::{FormatError, FormatErrorKind, Result};
use crate::read_at::ReadAt;

/// What [`recover`] found.
pub struct Recovered {
    /// Reads the records up to where the file is whole. It has no writer's options.
    pub reader: Reader,
    /// Up to this offset the file consists of whole chunks of records.
    pub end: u64,
    /// What is wrong there; none where the file's own index follows and says the same.
    pub fault: Option<FormatError>,
}

/// Reads a file from its begin on, chunk by chunk, as far as it is whole, and makes an index of what is there: for a file that was not
/// finished or was cut short, or to check every hash of one. All of it is read; what is held is one chunk and the index.
///
/// # Errors
/// Corrupt where the file does not begin as Riegeli files do. Errors of the source as they are.
///
/// ```
/// use std::sync::Arc;
/// use bytes::Bytes;
/// use sigbank_format::container::arrayrecord::{Options, Reader, Writer, recover};
/// let mut writer = Writer::new(Vec::new(), Options::default())?;
/// writer.push(b"kept")?;
/// writer.push(b"cut")?;
/// let (file, _) = writer.finish()?;
/// let cut = Arc::new(Bytes::copy_from_slice(&file[..150]));
/// assert!(Reader::open(cut.clone()).is_err());
/// let found = recover(cut)?;
/// assert_eq!((found.reader.len(), found.reader.read(0)?), (1, b"kept".to_vec()));
/// assert!(found.fault.is_some());
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub fn recover(src: Arc<dyn ReadAt>) -> Result<Recovered> {
    let size = src.size();
    let (mut bytes, mut scratch, mut records) = (Vec::new(), Vec::new(), Records::default());
    let signature = chunk_at(src.as_ref(), 0, size, &mut bytes).and_then(|bytes| Ok(chunk::read(0, bytes, &mut scratch)?.header));
    match signature {
        Ok(Header { kind: chunk::SIGNATURE, size: 0, records: 0, decoded: 0, .. }) => {}
        Ok(_) => return Err(FormatError::corrupt("no ArrayRecord file: it does not begin with Riegeli's signature")),
        Err(e) => return Err(e.within("no ArrayRecord file, or its begin is damaged")),
    }
    let (mut position, mut end, mut entries) = (FIRST_CHUNK, FIRST_CHUNK, Vec::<Entry>::new());
    let fault = loop {
        if position == size {
            break Some(FormatError::corrupt("the file ends without an index: it was not finished"));
        }
        let found =
            chunk_at(src.as_ref(), position, size, &mut bytes).and_then(|bytes| chunk::read(position, bytes, &mut scratch));
        let chunk = match found {
            Ok(chunk) => chunk,
            Err(e) if e.kind() == FormatErrorKind::Io => return Err(e),
            Err(e) => break Some(e.within(format!("the chunk at offset {position}"))),
        };
        if is_footer(&chunk, position, &entries, &mut records) {
            break None;
        }
        let next = position + chunk.len as u64;
        if chunk.header.records > 0 {
            entries.push(Entry { offset: position, decoded: chunk.header.decoded, records: chunk.header.records });
            end = next;
        }
        position = next;
    };
    let chunks = entries.len();
    let index = Index::build(entries.into_iter().map(Ok), chunks, end)?;
    Ok(Recovered { reader: Reader::new(src, index), end, fault })
}

/// The bytes of the chunk at `position`, as far as the file has them.
fn chunk_at<'a>(src: &dyn ReadAt, position: u64, size: u64, bytes: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    let header = position..size.min(position + HEADER_SPAN as u64);
    let end = chunk::header(position, read_span(src, &header, bytes)?)?.end(position)?;
    if end > size {
        return Err(FormatError::corrupt(format!("it ends at {end}, but the file at {size}: the file was cut short")));
    }
    read_span(src, &(position..end), bytes)
}

/// Whether a chunk is the index of the chunks before it.
fn is_footer(chunk: &Chunk<'_>, position: u64, entries: &[Entry], records: &mut Records) -> bool {
    chunk.header.kind == chunk::SIMPLE
        && chunk.header.records == entries.len() as u64 + 1
        && decode_footer(chunk, position, records).is_ok_and(|(footer, index)| {
            footer.chunks == entries.len() as u64 && index.offsets_are(entries.iter().map(|entry| entry.offset))
        })
}
