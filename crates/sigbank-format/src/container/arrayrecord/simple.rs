//! The data of a chunk of records: how long each is, then all of them end to end, both compressed.

use super::chunk::Chunk;
use super::codec::{Compressor, Decompressor, Kind};
use crate::error::{FormatError, Result};
use crate::record::tf_example::wire::{put_varint, varint};

/// Most bytes of one record's length.
const LONGEST_LENGTH: u64 = 10;

/// The records of one chunk, in memory that is used again.
#[derive(Default)]
pub(super) struct Records {
    decompressor: Decompressor,
    sizes: Vec<u8>,
    /// Where each record ends.
    ends: Vec<usize>,
    pub values: Vec<u8>,
}

impl Records {
    /// Decodes a chunk's records into [`Self::values`], or into `values` where it is given.
    ///
    /// All that is declared is compared with what is there: sizes, sums, and that nothing is left over.
    pub(super) fn decode(&mut self, chunk: &Chunk<'_>, values: Option<&mut Vec<u8>>) -> Result<()> {
        let (kind, mut rest) =
            chunk.data.split_first().ok_or_else(|| FormatError::corrupt("a chunk of records without its compression"))?;
        let kind = Kind::from_byte(*kind)?;
        let len = varint(&mut rest)?;
        let (sizes, stream) = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len)).ok_or_else(|| {
            FormatError::corrupt(format!("{len} bytes of sizes are declared in a chunk where {} are left", rest.len()))
        })?;
        self.decode_sizes(kind, sizes, chunk.header.records, chunk.header.decoded)?;
        let (size, stream) = declared(kind, stream)?;
        if size != chunk.header.decoded {
            return Err(FormatError::corrupt(format!(
                "the chunk's header declares {} bytes of records, their buffer {size}",
                chunk.header.decoded
            )));
        }
        self.decompressor.run(kind, stream, in_memory(size)?, values.unwrap_or(&mut self.values))
    }

    /// Fills [`Self::ends`].
    fn decode_sizes(&mut self, kind: Kind, sizes: &[u8], records: u64, total: u64) -> Result<()> {
        let (size, stream) = declared(kind, sizes)?;
        if size < records || size > records.saturating_mul(LONGEST_LENGTH) {
            return Err(FormatError::corrupt(format!("the sizes of {records} records in {size} bytes")));
        }
        let mut left = match kind {
            Kind::None => stream,
            kind => {
                self.decompressor.run(kind, stream, in_memory(size)?, &mut self.sizes)?;
                &self.sizes
            }
        };
        self.ends.clear();
        // The file has at least a byte for each.
        self.ends.reserve(in_memory(records)?);
        let mut end = 0u64;
        for _ in 0..records {
            end = end.checked_add(varint(&mut left)?).filter(|end| *end <= total).ok_or_else(|| {
                FormatError::corrupt(format!("records of more than the {total} bytes that the chunk's header declares"))
            })?;
            self.ends.push(in_memory(end)?);
        }
        if !left.is_empty() || end != total {
            return Err(FormatError::corrupt(format!(
                "{records} records of {end} bytes, where the chunk's header declares {total}; {} bytes of sizes are left over",
                left.len()
            )));
        }
        Ok(())
    }

    /// A record of the chunk that was decoded last.
    pub(super) fn get(&self, record: usize) -> Result<&[u8]> {
        let begin = match record {
            0 => Some(0),
            record => self.ends.get(record - 1).copied(),
        };
        (begin.zip(self.ends.get(record)).and_then(|(begin, end)| self.values.get(begin..*end)))
            .ok_or_else(|| FormatError::corrupt(format!("a chunk has no record {record}")))
    }

    /// How many records were decoded.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// How many bytes a buffer is decompressed, and its stream.
fn declared(kind: Kind, mut buffer: &[u8]) -> Result<(u64, &[u8])> {
    let size = match kind {
        Kind::None => buffer.len() as u64,
        _ => varint(&mut buffer)?,
    };
    Ok((size, buffer))
}

fn in_memory(size: u64) -> Result<usize> {
    usize::try_from(size).map_err(|_| FormatError::limit(format!("{size} bytes do not fit into this machine's memory")))
}

/// Memory for the sizes of a chunk that is encoded, used again.
#[derive(Default)]
pub(super) struct Sizes {
    plain: Vec<u8>,
    compressed: Vec<u8>,
}

/// Appends a chunk's data. Sizes are compressed with the first compressor, values with the other one.
pub(super) fn encode(
    [short, long]: [&mut Compressor; 2],
    lengths: impl IntoIterator<Item = usize>,
    values: &[u8],
    sizes: &mut Sizes,
    out: &mut Vec<u8>,
) -> Result<()> {
    let Sizes { plain, compressed } = sizes;
    plain.clear();
    lengths.into_iter().for_each(|len| put_varint(len as u64, plain));
    compressed.clear();
    let kind = long.kind();
    out.push(kind.to_byte());
    if kind != Kind::None {
        put_varint(plain.len() as u64, compressed);
    }
    short.run(plain, compressed)?;
    put_varint(compressed.len() as u64, out);
    out.extend_from_slice(compressed);
    if kind != Kind::None {
        put_varint(values.len() as u64, out);
    }
    long.run(values, out)
}
