//! One block of an object as a file: a header with a checksum for each page, then the bytes.
//!
//! A small read costs its pages, not the block.

use super::Key;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of an object in one file.
pub(super) const BLOCK: u64 = 1 << 20;
/// Bytes that have a checksum of their own.
const PAGE: usize = 16 << 10;
const HEADER: usize = 1024;
const MAGIC: &[u8; 8] = b"SIGBNK\x01\n";
/// Magic, key, number, length.
const NAMED: usize = 40;
/// The number of the file that says how long the object is.
pub(super) const SIZE: u64 = u64::MAX;

/// What a file of a block with `len` bytes takes on the disk.
pub(super) fn cost(len: u64) -> u64 {
    (HEADER as u64 + len).next_multiple_of(4096)
}

/// The bytes of an object that block `number` holds, of `size` in all.
pub(super) fn len(number: u64, size: u64) -> usize {
    size.saturating_sub(number.saturating_mul(BLOCK)).min(BLOCK) as usize
}

fn named(key: &Key, number: u64, len: usize) -> [u8; NAMED] {
    let mut out = [0; NAMED];
    let parts = MAGIC.iter().chain(&key.0).copied().chain(number.to_le_bytes()).chain((len as u64).to_le_bytes());
    out.iter_mut().zip(parts).for_each(|(to, byte)| *to = byte);
    out
}

/// The header of a block of these bytes.
pub(super) fn header(key: &Key, number: u64, data: &[u8]) -> Vec<u8> {
    let mut out = named(key, number, data.len()).to_vec();
    out.extend([0; 8]);
    data.chunks(PAGE).for_each(|page| out.extend(xxh3_64(page).to_le_bytes()));
    out.resize(HEADER, 0);
    let sum = sum(&out).to_le_bytes();
    out.iter_mut().skip(NAMED).zip(sum).for_each(|(to, byte)| *to = byte);
    out
}

/// The checksum of a header, except for the place where it stands.
fn sum(header: &[u8]) -> u64 {
    let (before, after) = header.split_at_checked(NAMED).unwrap_or_default();
    xxh3_64(before) ^ xxh3_64(after.get(8..).unwrap_or_default())
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Reads the bytes from `at` on of a block of `len` bytes. `false` where the file is not that block, or is damaged there.
pub(super) fn read(file: &File, key: &Key, number: u64, len: usize, at: usize, buf: &mut [u8]) -> io::Result<bool> {
    let mut header = [0; HEADER];
    if file.metadata()?.len() != (HEADER + len) as u64 {
        return Ok(false);
    }
    file.read_exact_at(&mut header, 0)?;
    if !header.starts_with(&named(key, number, len)) || word(&header, NAMED) != Some(sum(&header)) {
        return Ok(false);
    }
    let good = |page: usize, bytes: &[u8]| word(&header, NAMED + 8 + page * 8) == Some(xxh3_64(bytes));
    let (mut at, mut buf) = (at, buf);
    let mut edge = Vec::new();
    while !buf.is_empty() {
        let (page, skip) = (at / PAGE, at % PAGE);
        let start = page * PAGE;
        let last_ends = at + buf.len() == len;
        // Whole pages go straight to their place.
        let whole = if last_ends { buf.len() } else { buf.len() / PAGE * PAGE };
        let take = if skip == 0 && whole > 0 {
            let target = buf.get_mut(..whole).unwrap_or_default();
            file.read_exact_at(target, (HEADER + at) as u64)?;
            if !target.chunks(PAGE).enumerate().all(|(i, bytes)| good(page + i, bytes)) {
                return Ok(false);
            }
            whole
        } else {
            edge.resize(PAGE.min(len.saturating_sub(start)), 0);
            file.read_exact_at(&mut edge, (HEADER + start) as u64)?;
            let take = edge.len().saturating_sub(skip).min(buf.len());
            let (Some(source), Some(target)) = (edge.get(skip..skip + take), buf.get_mut(..take)) else { return Ok(false) };
            if take == 0 || !good(page, &edge) {
                return Ok(false);
            }
            target.copy_from_slice(source);
            take
        };
        at += take;
        buf = buf.get_mut(take..).unwrap_or_default();
    }
    Ok(true)
}
