//! Where chunks lie: a file is cut into blocks, and each block's first bytes are a header that points at the chunk around it.

use super::hash;
use crate::error::{FormatError, Result};

/// Bytes of a block. Blocks begin at multiples of it.
pub(super) const BLOCK: u64 = 1 << 16;
/// Bytes of a block's header.
pub(super) const HEADER: usize = 24;
/// Bytes of a block that hold what chunks consist of.
const USABLE: u64 = BLOCK - HEADER as u64;

/// How far it is to the next block; nothing at its begin.
pub(super) fn left(position: u64) -> u64 {
    position.wrapping_neg() % BLOCK
}

/// Whether a chunk may begin here: not within a block's header, nor right behind it.
pub(super) fn is_boundary(position: u64) -> bool {
    left(position) < USABLE
}

/// Where the chunk's `payload`-th byte ends, with the headers of the blocks it runs over. None beyond 64 bits.
fn after(begin: u64, payload: u64) -> Option<u64> {
    let blocks = payload.checked_add((begin % BLOCK + USABLE - 1) % BLOCK)? / USABLE;
    begin.checked_add(payload)?.checked_add(blocks.checked_mul(HEADER as u64)?)
}

/// Where a chunk ends that begins at `begin` and consists of `payload` bytes: it is at least as long as it has records. None beyond
/// 64 bits.
pub(super) fn chunk_end(begin: u64, payload: u64, records: u64) -> Option<u64> {
    let enough = begin.checked_add(records)?;
    let enough = enough.checked_add(left(enough).saturating_sub(USABLE - 1))?;
    Some(after(begin, payload)?.max(enough))
}

/// How long a padding chunk's payload is that goes from here to a block's begin. None where no padding is needed.
pub(super) fn padding(position: u64, least: u64) -> Option<u64> {
    let mut end = position + left(position);
    if end == position {
        return None;
    }
    if end - position < least {
        end += BLOCK;
    }
    // The block boundary that lies in between belongs to the chunk, the one at its end does not.
    let headers = (end - 1) / BLOCK - position / BLOCK;
    Some(end - position - headers * HEADER as u64)
}

/// A block's header.
pub(super) fn header(position: u64, begin: u64, end: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    if let Some((place, links)) = header.split_first_chunk_mut::<8>() {
        if let Some((previous, next)) = links.split_first_chunk_mut::<8>() {
            *previous = (position - begin).to_le_bytes();
            next.copy_from_slice(&(end - position).to_le_bytes());
        }
        *place = hash(links).to_le_bytes();
    }
    header
}

/// What lies in the file, piece by piece.
pub(super) enum Piece<'a> {
    /// The header of the block that begins at this position.
    Header(u64, &'a [u8]),
    /// What lies behind one.
    Payload(&'a [u8]),
}

/// The pieces of `bytes`, which lie at `position` in the file: not within a block's header.
pub(super) fn pieces(mut position: u64, mut bytes: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let is_header = position.is_multiple_of(BLOCK);
        let len = if is_header { HEADER as u64 } else { left(position) };
        let (piece, rest) = bytes.split_at(bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX)));
        let at = position;
        position += piece.len() as u64;
        bytes = rest;
        Some(if is_header { Piece::Header(at, piece) } else { Piece::Payload(piece) })
    })
}

/// Checks a block's header against the chunk that it lies in.
pub(super) fn check(position: u64, found: &[u8], begin: u64, end: u64) -> Result<()> {
    if found == header(position, begin, end) {
        return Ok(());
    }
    Err(FormatError::corrupt(format!(
        "the block header at offset {position} is not that of a block within a chunk at {begin}..{end}: the file is damaged here"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The positions a chunk of so many bytes takes, one byte at a time.
    fn walked(begin: u64, payload: u64) -> u64 {
        let mut position = begin;
        for _ in 0..payload {
            if position.is_multiple_of(BLOCK) {
                position += HEADER as u64;
            }
            position += 1;
        }
        position
    }

    #[test]
    fn a_chunk_ends_where_its_bytes_do() {
        for begin in [0, 64, 25, BLOCK - 1, BLOCK, BLOCK + 25, 3 * BLOCK - 39] {
            for payload in [1, 40, 41, USABLE - 25, USABLE - 1, USABLE, USABLE + 1, 2 * USABLE, 2 * USABLE + 1] {
                assert_eq!(chunk_end(begin, payload, 0), Some(walked(begin, payload)), "{begin} {payload}");
            }
        }
        // As long as it has records, but not to an end within a block's header or right behind it.
        assert_eq!(chunk_end(64, 41, 1000), Some(1064));
        for records in BLOCK - 64 + 1..=BLOCK - 64 + 24 {
            assert_eq!(chunk_end(64, 41, records), Some(BLOCK + 25));
        }
        assert_eq!(chunk_end(64, 41, BLOCK - 64), Some(BLOCK));
        assert_eq!(chunk_end(64, 41, BLOCK - 64 + 26), Some(BLOCK + 26));
        assert_eq!(chunk_end(64, u64::MAX - 10, 0), None);
        assert_eq!(chunk_end(u64::MAX - 10, 40, 20), None);
    }

    #[test]
    fn padding_ends_at_a_block() {
        assert_eq!(padding(0, 40), None);
        assert_eq!(padding(2 * BLOCK, 40), None);
        for position in [64, 25, 1000, BLOCK - 41, BLOCK - 40, BLOCK - 39, BLOCK - 1, 5 * BLOCK + 77] {
            let payload = padding(position, 40).unwrap();
            assert!(payload >= 40);
            let end = walked(position, payload);
            assert_eq!((end % BLOCK, end - position < BLOCK + 40), (0, true), "{position}");
        }
    }

    #[test]
    fn pieces_are_all_there() {
        let file: Vec<u8> = (0..4 * BLOCK).map(|i| (i % 251) as u8).collect();
        for begin in [0, 64, BLOCK - 1, BLOCK, 2 * BLOCK + 25] {
            for len in [1, 30, 1000, BLOCK as usize - 64, BLOCK as usize + 24] {
                let (mut all, mut position) = (Vec::new(), begin);
                for piece in pieces(begin, &file[begin as usize..begin as usize + len]) {
                    let bytes = match piece {
                        Piece::Header(at, bytes) => {
                            assert_eq!((at, at % BLOCK), (position, 0));
                            assert!(bytes.len() <= HEADER);
                            bytes
                        }
                        Piece::Payload(bytes) => {
                            assert!(position % BLOCK >= HEADER as u64);
                            bytes
                        }
                    };
                    position += bytes.len() as u64;
                    all.extend_from_slice(bytes);
                }
                assert_eq!(all, file[begin as usize..begin as usize + len]);
            }
        }
    }
}
