//! Writing the zip structures around members, byte for byte as Python's zipfile does for NumPy.

/// The version that zip64 needs, which NumPy always asks for.
const VERSION: u16 = 45;
/// Made on Unix.
const UNIX: u16 = 3 << 8;
/// 1980-01-01, zip's first day.
const DATE: u16 = 0x21;
/// Read and written by the owner.
const ATTRIBUTES: u32 = 0o600 << 16;
/// Where zipfile changes to 64 bits, a bit before it must.
const LIMIT: u64 = (1 << 31) - 1;
/// A member's name is UTF-8 where it is not ASCII.
const UTF8: u16 = 1 << 11;
/// Stands where the value is in the zip64 field.
const ELSEWHERE: u32 = u32::MAX;

/// How a member's bytes stand in the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Stored = 0,
    Deflated = 8,
}

/// One member of an archive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub name: &'a str,
    pub method: Method,
    pub crc: u32,
    /// Bytes as they are read.
    pub size: u64,
    /// Bytes in the archive.
    pub packed: u64,
    /// Where its local header starts.
    pub at: u64,
}

impl Entry<'_> {
    /// What stands in both headers, up to the checksum.
    fn common(&self, out: &mut Vec<u8>) {
        put16(out, VERSION);
        put16(out, if self.name.is_ascii() { 0 } else { UTF8 });
        put16(out, self.method as u16);
        put16(out, 0);
        put16(out, DATE);
        put32(out, self.crc);
    }

    /// What stands before the member's bytes. The sizes are in the zip64 field always.
    pub(super) fn local(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"PK\x03\x04");
        self.common(out);
        put32(out, ELSEWHERE);
        put32(out, ELSEWHERE);
        put16(out, self.name.len() as u16);
        put16(out, 20);
        out.extend_from_slice(self.name.as_bytes());
        put16(out, 1);
        put16(out, 16);
        put64(out, self.size);
        put64(out, self.packed);
    }

    /// What stands in the directory.
    pub(super) fn central(&self, out: &mut Vec<u8>) {
        let mut long = Vec::new();
        if self.size > LIMIT || self.packed > LIMIT {
            long.extend([self.size, self.packed]);
        }
        let sizes_are_long = !long.is_empty();
        if self.at > LIMIT {
            long.push(self.at);
        }
        out.extend_from_slice(b"PK\x01\x02");
        put16(out, UNIX | VERSION);
        self.common(out);
        put32(out, if sizes_are_long { ELSEWHERE } else { self.packed as u32 });
        put32(out, if sizes_are_long { ELSEWHERE } else { self.size as u32 });
        put16(out, self.name.len() as u16);
        put16(out, if long.is_empty() { 0 } else { 4 + 8 * long.len() as u16 });
        // No comment, first disk, no internal attributes.
        out.extend_from_slice(&[0; 6]);
        put32(out, ATTRIBUTES);
        put32(out, if self.at > LIMIT { ELSEWHERE } else { self.at as u32 });
        out.extend_from_slice(self.name.as_bytes());
        if !long.is_empty() {
            put16(out, 1);
            put16(out, 8 * long.len() as u16);
            long.iter().for_each(|&n| put64(out, n));
        }
    }
}

/// What ends an archive whose directory of `members` members starts at `start` and is `out` so far.
pub(super) fn end(members: usize, start: u64, out: &mut Vec<u8>) {
    let (count, len) = (members as u64, out.len() as u64);
    if count > u64::from(u16::MAX) || start > LIMIT || len > LIMIT {
        out.extend_from_slice(b"PK\x06\x06");
        put64(out, 44);
        put16(out, VERSION);
        put16(out, VERSION);
        put64(out, 0);
        [count, count, len, start].into_iter().for_each(|n| put64(out, n));
        out.extend_from_slice(b"PK\x06\x07");
        put32(out, 0);
        put64(out, start + len);
        put32(out, 1);
    }
    out.extend_from_slice(b"PK\x05\x06");
    put32(out, 0);
    put16(out, count.min(u64::from(u16::MAX)) as u16);
    put16(out, count.min(u64::from(u16::MAX)) as u16);
    put32(out, len.min(u64::from(u32::MAX)) as u32);
    put32(out, start.min(u64::from(u32::MAX)) as u32);
    put16(out, 0);
}

fn put16(out: &mut Vec<u8>, n: u16) {
    out.extend_from_slice(&n.to_le_bytes());
}
fn put32(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(&n.to_le_bytes());
}
fn put64(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::read_at::{ReadAt, past_end};
    use std::sync::Arc;

    /// Pieces with nothing between them.
    struct Sparse(Vec<(u64, Vec<u8>)>);

    impl ReadAt for Sparse {
        fn size(&self) -> u64 {
            self.0.last().map_or(0, |(at, bytes)| at + bytes.len() as u64)
        }
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
            if offset + buf.len() as u64 > self.size() {
                return Err(past_end(offset, buf.len(), self.size()));
            }
            for (at, b) in (offset..).zip(buf) {
                let (start, bytes) = &self.0[self.0.partition_point(|(start, _)| *start <= at) - 1];
                *b = bytes.get((at - start) as usize).copied().unwrap_or(0);
            }
            Ok(())
        }
    }

    fn check(members: &[(String, u64, u64)]) {
        let (mut pieces, mut directory, mut at) = (Vec::new(), Vec::new(), 0);
        let mut starts = Vec::new();
        for (name, size, packed) in members {
            let method = if size == packed { Method::Stored } else { Method::Deflated };
            let entry = Entry { name, method, crc: 7, size: *size, packed: *packed, at };
            let mut local = Vec::new();
            entry.local(&mut local);
            entry.central(&mut directory);
            starts.push(at + local.len() as u64);
            pieces.push((at, local.clone()));
            at += local.len() as u64 + packed;
        }
        end(members.len(), at, &mut directory);
        pieces.push((at, directory));
        let mut npz = super::super::open(Arc::new(Sparse(pieces))).unwrap();
        assert_eq!(npz.archive.len(), members.len());
        for (i, ((name, size, packed), start)) in members.iter().zip(starts).enumerate().step_by(members.len() / 16 + 1) {
            let file = npz.archive.by_index_raw(i).unwrap();
            assert_eq!(file.name().unwrap(), name.as_str());
            assert_eq!((file.size(), file.compressed_size(), file.data_start()), (*size, *packed, Some(start)));
            assert_eq!(file.crc32(), 7);
        }
    }

    #[test]
    fn sizes_and_places_of_every_magnitude_are_found_again() {
        let member = |name: &str, size, packed| (name.to_owned(), size, packed);
        for big in [LIMIT, LIMIT + 1, u64::from(u32::MAX) - 1, u64::from(u32::MAX), u64::from(u32::MAX) + 1, 1 << 40] {
            check(&[member("a", big, big), member("b", 3, 3)]);
            check(&[member("a", 1, 1), member("\u{e9}", big, 3), member("c", 1, big)]);
        }
        check(&[member("a", 5, 5)]);
        check(&[]);
    }

    #[test]
    fn more_members_than_16_bits_count() {
        for count in [65_535, 65_536] {
            check(&(0..count).map(|i| (format!("{i}"), 1, 1)).collect::<Vec<_>>());
        }
    }
}
