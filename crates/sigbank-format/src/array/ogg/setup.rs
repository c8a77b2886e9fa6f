//! The Vorbis setup header, walked through before the decoder sees it.
//!
//! The decoder trusts its tables: sizes that multiply to gigabytes, books that do not exist and the like would cost it memory or
//! make it panic. What is refused here no encoder writes. The walk also gives the block lengths by which frames are counted without
//! decoding them.

use crate::error::{FormatError, Result};

/// Most entries, and most vector elements, of all codebooks together. libvorbis's own have some thousands.
const MAX_ENTRIES: u64 = 1 << 19;
const MAX_ELEMENTS: u64 = 1 << 22;

/// The modes of a stream: by which of its two block lengths a packet is coded.
pub(super) struct Modes {
    long: Vec<bool>,
    short_block: u32,
    long_block: u32,
}

struct Book {
    entries: u32,
    dimensions: u32,
    has_vectors: bool,
}

impl Modes {
    /// Reads the setup packet of a stream with so many channels, whose block lengths are powers of two by these exponents.
    pub(super) fn read(packet: &[u8], channels: u8, exponents: (u8, u8)) -> Result<Self> {
        let body = packet.strip_prefix(b"\x05vorbis").ok_or_else(|| wrong("it does not start with its mark"))?;
        let mut bits = Bits { bytes: body, at: 0 };
        let books = codebooks(&mut bits)?;
        for _ in 0..=bits.take(6)? {
            check(bits.take(16)? == 0, "a time transform")?;
        }
        let floors = bits.take(6)? + 1;
        for _ in 0..floors {
            floor(&mut bits, &books)?;
        }
        let residues: Vec<u32> = (0..=bits.take(6)?).map(|_| residue(&mut bits, &books)).collect::<Result<_>>()?;
        let mappings = bits.take(6)? + 1;
        for _ in 0..mappings {
            mapping(&mut bits, channels, exponents.1, floors, &residues)?;
        }
        let modes = bits.take(6)? + 1;
        let mut long = Vec::new();
        for _ in 0..modes {
            long.push(bits.take(1)? == 1);
            check(bits.take(16)? == 0 && bits.take(16)? == 0, "a mode's window or transform type")?;
            check(bits.take(8)? < mappings, "a mode's mapping")?;
        }
        check(bits.take(1)? == 1, "its framing bit")?;
        Ok(Self { long, short_block: 1 << exponents.0, long_block: 1 << exponents.1 })
    }

    /// Samples of the block that an audio packet holds; none where it holds no audio.
    pub(super) fn block_len(&self, packet: &[u8]) -> Option<u32> {
        let mut bits = Bits { bytes: packet, at: 0 };
        let is_header = bits.take(1).ok()? == 1;
        let mode = bits.take(width(self.long.len() as u32 - 1)).ok()?;
        let &long = self.long.get(mode as usize).filter(|_| !is_header)?;
        Some(if long { self.long_block } else { self.short_block })
    }
}

fn wrong(what: &str) -> FormatError {
    FormatError::corrupt(format!("the Vorbis setup header is damaged: {what}"))
}

fn check(fine: bool, what: &str) -> Result<()> {
    if fine { Ok(()) } else { Err(wrong(what)) }
}

/// Bits that a number takes.
fn width(n: u32) -> u32 {
    32 - n.leading_zeros()
}

fn codebooks(bits: &mut Bits<'_>) -> Result<Vec<Book>> {
    let (mut entries, mut elements) = (0, 0);
    let mut books = Vec::new();
    for _ in 0..=bits.take(8)? {
        let book = codebook(bits, &mut entries, &mut elements)?;
        books.push(book);
    }
    Ok(books)
}

fn codebook(bits: &mut Bits<'_>, all_entries: &mut u64, all_elements: &mut u64) -> Result<Book> {
    check(bits.take(24)? == 0x0056_4342, "a codebook does not start with its mark")?;
    let (dimensions, entries) = (bits.take(16)?, bits.take(24)?);
    check(dimensions > 0 && entries > 0, "a codebook of nothing")?;
    *all_entries += u64::from(entries);
    *all_elements += u64::from(entries) * u64::from(dimensions);
    if *all_entries > MAX_ENTRIES || *all_elements > MAX_ELEMENTS {
        return Err(FormatError::limit(format!(
            "Vorbis codebooks of more than {MAX_ENTRIES} entries or {MAX_ELEMENTS} elements"
        )));
    }
    let mut used = false;
    if bits.take(1)? == 1 {
        bits.take(5)?;
        let mut entry = 0;
        while entry < entries {
            entry += bits.take(width(entries - entry))?;
            check(entry <= entries, "a codebook's ordered lengths")?;
        }
        used = true;
    } else {
        let sparse = bits.take(1)? == 1;
        for _ in 0..entries {
            if !sparse || bits.take(1)? == 1 {
                bits.take(5)?;
                used = true;
            }
        }
    }
    check(used, "a codebook without a codeword")?;
    let lookup = bits.take(4)?;
    check(lookup <= 2, "a codebook's lookup type")?;
    if lookup > 0 {
        bits.skip(64)?;
        let value_bits = bits.take(4)? + 1;
        bits.take(1)?;
        let values = if lookup == 1 { root(entries, dimensions) } else { u64::from(entries) * u64::from(dimensions) };
        bits.skip(values * u64::from(value_bits))?;
    }
    Ok(Book { entries, dimensions, has_vectors: lookup > 0 })
}

/// The greatest number whose power of `exponent` is at most `n`.
fn root(n: u32, exponent: u32) -> u64 {
    let fits = |base: u64| base.checked_pow(exponent).is_some_and(|power| power <= u64::from(n));
    // Bit by bit from the top.
    (0..32).rev().fold(0, |base, bit| if fits(base | 1 << bit) { base | 1 << bit } else { base })
}

fn floor(bits: &mut Bits<'_>, books: &[Book]) -> Result<()> {
    match bits.take(16)? {
        0 => return Err(FormatError::unsupported("Vorbis with floor type 0, of encoders before version 1.0")),
        1 => {}
        _ => return Err(wrong("a floor's type")),
    }
    let classes: Vec<u32> = (0..bits.take(5)?).map(|_| bits.take(4)).collect::<Result<_>>()?;
    let count = classes.iter().max().map_or(0, |most| most + 1);
    let mut dimensions = Vec::new();
    for _ in 0..count {
        dimensions.push(bits.take(3)? + 1);
        let subclasses = bits.take(2)?;
        if subclasses > 0 {
            check((bits.take(8)? as usize) < books.len(), "a floor's master book")?;
        }
        for _ in 0..1 << subclasses {
            // 0 stands for no book.
            check(bits.take(8)? as usize <= books.len(), "a floor's book")?;
        }
    }
    bits.take(2)?;
    let range_bits = bits.take(4)?;
    let points: u32 = classes.iter().filter_map(|&class| dimensions.get(class as usize)).sum();
    check(points + 2 <= 65, "a floor of too many points")?;
    let mut x = vec![0, 1 << range_bits];
    for _ in 0..points {
        x.push(bits.take(range_bits)?);
    }
    x.sort_unstable();
    check(x.windows(2).all(|pair| pair.first() != pair.get(1)), "a floor's point is there twice")
}

/// Reads a residue, and gives its type.
fn residue(bits: &mut Bits<'_>, books: &[Book]) -> Result<u32> {
    let kind = bits.take(16)?;
    check(kind <= 2, "a residue's type")?;
    let (begin, end, partition) = (bits.take(24)?, bits.take(24)?, bits.take(24)? + 1);
    check(begin <= end, "a residue's range")?;
    let classes = bits.take(6)? + 1;
    let class_book = books.get(bits.take(8)? as usize);
    // All combinations of classes must have an entry, or the book is not meant for this.
    let combinations = class_book.and_then(|book| u64::from(classes).checked_pow(book.dimensions));
    let entries = class_book.map_or(0, |book| u64::from(book.entries));
    check(combinations.is_some_and(|n| n <= entries), "a residue's class book")?;
    let mut passes = 0;
    for _ in 0..classes {
        let low = bits.take(3)?;
        let high = if bits.take(1)? == 1 { bits.take(5)? } else { 0 };
        passes += (high << 3 | low).count_ones();
    }
    for _ in 0..passes {
        let book = books.get(bits.take(8)? as usize);
        let fits = book.is_some_and(|b| b.has_vectors && b.dimensions <= partition);
        check(fits, "a residue's book")?;
    }
    Ok(kind)
}

fn mapping(bits: &mut Bits<'_>, channels: u8, long_exponent: u8, floors: u32, residues: &[u32]) -> Result<()> {
    check(bits.take(16)? == 0, "a mapping's type")?;
    let submaps = if bits.take(1)? == 1 { bits.take(4)? + 1 } else { 1 };
    let couplings = if bits.take(1)? == 1 { bits.take(8)? + 1 } else { 0 };
    let channel_bits = width(u32::from(channels) - 1);
    for _ in 0..couplings {
        let (magnitude, angle) = (bits.take(channel_bits)?, bits.take(channel_bits)?);
        check(magnitude != angle && magnitude.max(angle) < channels.into(), "a coupling of channels")?;
    }
    check(bits.take(2)? == 0, "a mapping's reserved bits")?;
    let mut of_submap = vec![0u32; submaps as usize];
    for _ in 0..channels {
        let submap = if submaps > 1 { bits.take(4)? } else { 0 };
        *of_submap.get_mut(submap as usize).ok_or_else(|| wrong("a channel's submap"))? += 1;
    }
    for channels in of_submap {
        bits.take(8)?;
        check(bits.take(8)? < floors, "a submap's floor")?;
        let kind = residues.get(bits.take(8)? as usize).ok_or_else(|| wrong("a submap's residue"))?;
        // The decoder counts the samples of all channels of such a block in 16 bits.
        if *kind == 2 && channels << long_exponent > u32::from(u16::MAX) {
            return Err(FormatError::unsupported(format!(
                "Vorbis that interleaves {channels} channels in blocks of {}",
                1u32 << long_exponent
            )));
        }
    }
    Ok(())
}

/// A reader of Vorbis's bits, least significant first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: u64,
}

impl Bits<'_> {
    /// The next number of up to 32 bits.
    fn take(&mut self, count: u32) -> Result<u32> {
        let mut value = 0;
        for i in 0..count {
            let byte = self.bytes.get((self.at / 8) as usize).ok_or_else(|| wrong("it ends too early"))?;
            value |= u32::from(byte >> (self.at % 8) & 1) << i;
            self.at += 1;
        }
        Ok(value)
    }
    fn skip(&mut self, count: u64) -> Result<()> {
        self.at += count;
        check(self.at <= self.bytes.len() as u64 * 8, "it ends too early")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FormatErrorKind;

    /// A setup packet of these numbers, each with its bits.
    fn packet(numbers: &[(u64, u32)]) -> Vec<u8> {
        let bits: Vec<u8> = numbers.iter().flat_map(|&(n, width)| (0..width).map(move |i| (n >> i & 1) as u8)).collect();
        let body = bits.chunks(8).map(|byte| byte.iter().rev().fold(0, |byte, bit| byte << 1 | bit));
        b"\x05vorbis".iter().copied().chain(body).collect()
    }

    /// One codebook, then what follows.
    fn with_book(dimensions: u64, entries: u64, rest: &[(u64, u32)]) -> Result<Modes> {
        let mut numbers = vec![(0, 8), (0x56_4342, 24), (dimensions, 16), (entries, 24)];
        numbers.extend(rest);
        // Room, so that the end of the packet is not what is met.
        numbers.extend([(0, 64); 64]);
        Modes::read(&packet(&numbers), 2, (8, 11))
    }

    /// The rest of a book of two entries of one bit, and the start of one floor of a type.
    fn floor_of(kind: u64) -> [(u64, u32); 8] {
        [(0, 1), (0, 1), (0, 5), (0, 5), (0, 4), (0, 6 + 16), (0, 6), (kind, 16)]
    }

    #[test]
    fn tables_that_would_cost_the_decoder_are_refused() {
        let kind = |result: Result<Modes>| result.err().map(|e| e.kind());
        for (dimensions, entries) in [(65535, 0xFF_FFFF), (1, (1 << 19) + 1), (9, 1 << 19), (65535, 65)] {
            assert_eq!(kind(with_book(dimensions, entries, &[])), Some(FormatErrorKind::Limit), "{dimensions} {entries}");
        }
        assert_eq!(kind(with_book(0, 8, &[])), Some(FormatErrorKind::Corrupt));
        assert_eq!(kind(with_book(8, 0, &[])), Some(FormatErrorKind::Corrupt));
        // Sparse, and no entry used.
        assert_eq!(kind(with_book(1, 2, &[(0, 1), (1, 1), (0, 2)])), Some(FormatErrorKind::Corrupt));
        assert_eq!(kind(with_book(1, 2, &floor_of(0))), Some(FormatErrorKind::Unsupported));
        assert_eq!(kind(with_book(1, 2, &floor_of(2))), Some(FormatErrorKind::Corrupt));
        assert_eq!(kind(Modes::read(b"\x05vorbis", 2, (8, 11))), Some(FormatErrorKind::Corrupt));
    }

    #[test]
    fn roots_are_whole_and_not_above() {
        for (n, exponent, want) in
            [(1025, 10, 2), (1023, 10, 1), (3125, 5, 5), (3124, 5, 4), (7, 1, 7), (7, 40, 1), (81, 4, 3), (0xFF_FFFF, 2, 4095)]
        {
            assert_eq!(root(n, exponent), want, "{n} {exponent}");
        }
    }
}
