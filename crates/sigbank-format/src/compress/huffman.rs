//! Deflate without matches: each block of bytes gets its own Huffman code, and that is all.
//!
//! Sampled noise has no repeated strings worth looking for; what compresses is that some byte values (exponents, upper
//! bytes) are frequent. Looking for matches anyway is what takes nine tenths of a general compressor's time.

use crate::error::{FormatError, Result};

/// Bytes with one code: so many that the code's own description (about 80 bytes) does not count.
const BLOCK: usize = 128 << 10;
/// Bytes of one stored (uncompressed) block.
const STORED: usize = 65_535;
const LITERALS: usize = 256;
const END_OF_BLOCK: usize = 256;
/// The order in which a block's header gives the lengths of the code for code lengths.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Appends a raw deflate stream of `data` to `out`.
pub(super) fn deflate(data: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut bits = Bits::new(out);
    let mut blocks = data.chunks(BLOCK).peekable();
    if blocks.peek().is_none() {
        stored(&[], true, &mut bits)?;
    }
    while let Some(block) = blocks.next() {
        let last = blocks.peek().is_none();
        let (lengths, size) = block_code(block);
        if size / 8 >= block.len() as u64 {
            stored(block, last, &mut bits)?;
        } else {
            coded(block, &lengths, last, &mut bits)?;
        }
    }
    bits.reserve(8);
    bits.align();
    bits.finish()
}

/// The code lengths for a block's bytes and its end, and the size in bits that the bytes then take.
fn block_code(block: &[u8]) -> (Vec<u8>, u64) {
    let mut counts = histogram(block);
    counts.push(1);
    let lengths = code_lengths(&counts, 15);
    let size = counts.iter().zip(&lengths).map(|(c, l)| u64::from(*c) * u64::from(*l)).sum();
    (lengths, size)
}

fn histogram(block: &[u8]) -> Vec<u32> {
    // Four tables, so that equal neighbours do not wait for each other.
    let mut tables = [[0_u32; LITERALS]; 4];
    let [a, b, c, d] = &mut tables;
    let mut quads = block.chunks_exact(4);
    for quad in &mut quads {
        if let [p, q, r, s] = quad {
            for (table, byte) in [(&mut *a, p), (&mut *b, q), (&mut *c, r), (&mut *d, s)] {
                if let Some(count) = table.get_mut(usize::from(*byte)) {
                    *count += 1;
                }
            }
        }
    }
    for byte in quads.remainder() {
        if let Some(count) = a.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    a.iter().zip(b.iter()).zip(c.iter().zip(d.iter())).map(|((a, b), (c, d))| a + b + c + d).collect()
}

/// The lengths of a Huffman code no longer than `longest` bits; 0 for what does not occur. At least two symbols get a
/// code, because some decoders refuse a code of one.
fn code_lengths(counts: &[u32], longest: usize) -> Vec<u8> {
    let mut lengths = vec![0; counts.len()];
    let mut used: Vec<(u32, usize)> = counts.iter().copied().zip(0..).filter(|(c, _)| *c > 0).collect();
    for symbol in 0..2 {
        if used.len() < 2 && !used.iter().any(|(_, s)| *s == symbol) {
            used.push((1, symbol));
        }
    }
    used.sort_unstable();
    let mut per_length = depths(&used.iter().map(|(c, _)| u64::from(*c)).collect::<Vec<_>>());
    shorten(&mut per_length, longest);
    // The rarest symbols get the longest codes.
    let mut symbols = used.iter().map(|(_, s)| *s);
    for (length, count) in per_length.iter().enumerate().rev() {
        for symbol in symbols.by_ref().take(*count) {
            if let Some(slot) = lengths.get_mut(symbol) {
                *slot = length as u8;
            }
        }
    }
    lengths
}

/// How many leaves of the Huffman tree lie at each depth, for weights in ascending order.
fn depths(weights: &[u64]) -> Vec<usize> {
    // Nodes in the order of their making: leaves first, then joins, whose weights ascend too. So the two lightest are
    // always at the front of one of two queues.
    let mut nodes = weights.to_vec();
    let mut parents: Vec<usize> = vec![0; weights.len()];
    let (mut leaf, mut join) = (0, weights.len());
    for _ in 1..weights.len() {
        let mut weight = 0;
        let parent = nodes.len();
        for _ in 0..2 {
            let lightest = match (nodes.get(leaf).filter(|_| leaf < weights.len()), nodes.get(join)) {
                (Some(l), Some(j)) if l > j => &mut join,
                (Some(_), _) => &mut leaf,
                (None, _) => &mut join,
            };
            weight += nodes.get(*lightest).copied().unwrap_or_default();
            if let Some(slot) = parents.get_mut(*lightest) {
                *slot = parent;
            }
            *lightest += 1;
        }
        nodes.push(weight);
        parents.push(0);
    }
    let mut depth = vec![0_usize; nodes.len()];
    let mut per_length = vec![0; weights.len().max(16) + 1];
    for node in (0..nodes.len()).rev() {
        let is_root = node + 1 == nodes.len();
        let own = match parents.get(node) {
            Some(parent) if !is_root => depth.get(*parent).copied().unwrap_or_default() + 1,
            _ => 0,
        };
        if let Some(slot) = depth.get_mut(node) {
            *slot = own;
        }
        if node < weights.len()
            && let Some(slot) = per_length.get_mut(own)
        {
            *slot += 1;
        }
    }
    per_length
}

/// Moves leaves up to depth `longest` and makes room for them by moving others down.
fn shorten(per_length: &mut Vec<usize>, longest: usize) {
    let deep: usize = per_length.drain(longest + 1..).sum();
    if let Some(count) = per_length.get_mut(longest) {
        *count += deep;
    }
    let room = 1_u64 << longest;
    let mut taken: u64 = per_length.iter().enumerate().skip(1).map(|(l, c)| (*c as u64) << (longest - l)).sum();
    while taken > room {
        // A leaf at the deepest level above moves down one, and one of the deepest becomes its sibling.
        let Some(level) = (1..longest).rev().find(|l| per_length.get(*l).is_some_and(|c| *c > 0)) else { break };
        for (at, change) in [(level, -1_isize), (level + 1, 2), (longest, -1)] {
            if let Some(count) = per_length.get_mut(at) {
                *count = count.saturating_add_signed(change);
            }
        }
        taken -= 1;
    }
}

/// Canonical codes, bit-reversed as deflate wants them, with their lengths.
fn codes(lengths: &[u8]) -> Vec<(u16, u8)> {
    let mut next = [0_u16; 16];
    let mut code = 0_u16;
    for (length, slot) in (0_u8..).zip(&mut next).skip(1) {
        code = code.wrapping_shl(1);
        *slot = code;
        code = code.wrapping_add(lengths.iter().filter(|l| **l == length).count() as u16);
    }
    lengths
        .iter()
        .map(|&length| match next.get_mut(usize::from(length)) {
            Some(slot) if length > 0 => {
                let reversed = slot.reverse_bits() >> (16 - u16::from(length));
                *slot = slot.wrapping_add(1);
                (reversed, length)
            }
            _ => (0, 0),
        })
        .collect()
}

fn coded(block: &[u8], lengths: &[u8], last: bool, bits: &mut Bits<'_>) -> Result<()> {
    bits.reserve(block.len() * 2 + 1024);
    header(lengths, last, bits);
    let codes = codes(lengths);
    // Code and length in one word, in a table of a size that makes every byte a valid index.
    let mut table = [0_u32; LITERALS];
    for (slot, (code, length)) in table.iter_mut().zip(&codes) {
        *slot = u32::from(*code) << 8 | u32::from(*length);
    }
    let of = |byte: u8| table.get(usize::from(byte)).copied().unwrap_or_default();
    let mut triples = block.chunks_exact(3);
    for triple in &mut triples {
        if let [a, b, c] = *triple {
            // 3 codes of 15 bits and the 7 that may be waiting fit 64.
            bits.push(of(a));
            bits.push(of(b));
            bits.push(of(c));
            bits.flush();
        }
    }
    for byte in triples.remainder() {
        bits.put(u64::from(of(*byte) >> 8), of(*byte) & 0xff);
    }
    let (code, length) = codes.get(END_OF_BLOCK).copied().unwrap_or_default();
    bits.put(code.into(), length.into());
    bits.check()
}

/// A dynamic block's header: the code lengths, themselves run-length and Huffman coded.
fn header(lengths: &[u8], last: bool, bits: &mut Bits<'_>) {
    // Two distance codes that are never used: a code of fewer is refused by some decoders.
    let all: Vec<u8> = lengths.iter().copied().chain([1, 1]).collect();
    let tokens = run_lengths(&all);
    let mut counts = [0; 19];
    for (symbol, ..) in &tokens {
        if let Some(count) = counts.get_mut(usize::from(*symbol)) {
            *count += 1;
        }
    }
    let code_lengths = code_lengths(&counts, 7);
    let codes = codes(&code_lengths);
    let ordered: Vec<u8> = ORDER.iter().map(|s| code_lengths.get(*s).copied().unwrap_or_default()).collect();
    let sent = ordered.iter().rposition(|l| *l > 0).map_or(4, |p| (p + 1).max(4));
    bits.put(u64::from(last), 1);
    bits.put(2, 2);
    bits.put(0, 5);
    bits.put(1, 5);
    bits.put(sent as u64 - 4, 4);
    for length in ordered.iter().take(sent) {
        bits.put(u64::from(*length), 3);
    }
    for (symbol, extra, extra_bits) in tokens {
        let (code, length) = codes.get(usize::from(symbol)).copied().unwrap_or_default();
        bits.put(code.into(), length.into());
        bits.put(extra.into(), extra_bits);
    }
}

/// Code lengths as deflate's symbols: 16 repeats the last 3 to 6 times, 17 and 18 are 3 to 10 and 11 to 138 zeros.
fn run_lengths(lengths: &[u8]) -> Vec<(u8, u8, u32)> {
    let mut tokens = Vec::new();
    for run in lengths.chunk_by(|a, b| a == b) {
        let value = run.first().copied().unwrap_or_default();
        let mut left = run.len();
        if value > 0 {
            tokens.push((value, 0, 0));
            left -= 1;
        }
        while left >= 3 {
            let (symbol, base, most, extra_bits) = match (value, left) {
                (0, 11..) => (18, 11, 138, 7),
                (0, _) => (17, 3, 10, 3),
                _ => (16, 3, 6, 2),
            };
            let taken = left.min(most);
            tokens.push((symbol, (taken - base) as u8, extra_bits));
            left -= taken;
        }
        tokens.extend(std::iter::repeat_n((value, 0, 0), left));
    }
    tokens
}

fn stored(block: &[u8], last: bool, bits: &mut Bits<'_>) -> Result<()> {
    let mut pieces = block.chunks(STORED).peekable();
    let mut piece = pieces.next().unwrap_or_default();
    loop {
        bits.reserve(piece.len() + 64);
        let end = pieces.peek().is_none();
        bits.put(u64::from(last && end), 1);
        bits.put(0, 2);
        bits.align();
        bits.put(piece.len() as u64, 16);
        bits.put(!piece.len() as u64 & 0xffff, 16);
        bits.bytes(piece);
        bits.check()?;
        match pieces.next() {
            Some(next) => piece = next,
            None => return Ok(()),
        }
    }
}

/// A writer of bits, lowest first, into a vector that is made long enough beforehand.
struct Bits<'a> {
    out: &'a mut Vec<u8>,
    at: usize,
    waiting: u64,
    count: u32,
    overflow: bool,
}

impl<'a> Bits<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        let at = out.len();
        Self { out, at, waiting: 0, count: 0, overflow: false }
    }

    /// Makes room for so many bytes.
    fn reserve(&mut self, bytes: usize) {
        self.out.resize(self.out.len().max(self.at + bytes), 0);
    }

    /// Adds a code of the table. No more than fit before a flush.
    #[inline(always)]
    fn push(&mut self, entry: u32) {
        self.waiting |= u64::from(entry >> 8) << self.count;
        self.count += entry & 0xff;
    }

    #[inline(always)]
    fn flush(&mut self) {
        match self.out.get_mut(self.at..).and_then(|o| o.first_chunk_mut::<8>()) {
            Some(to) => *to = self.waiting.to_le_bytes(),
            None => self.overflow = true,
        }
        self.at += (self.count >> 3) as usize;
        self.waiting >>= self.count & !7;
        self.count &= 7;
    }

    fn put(&mut self, value: u64, bits: u32) {
        self.waiting |= value << self.count;
        self.count += bits;
        self.flush();
    }

    fn align(&mut self) {
        self.count = self.count.next_multiple_of(8);
        self.flush();
    }

    /// Whole bytes, after [`Bits::align`].
    fn bytes(&mut self, bytes: &[u8]) {
        match self.out.get_mut(self.at..self.at + bytes.len()) {
            Some(to) => to.copy_from_slice(bytes),
            None => self.overflow = true,
        }
        self.at += bytes.len();
    }

    fn check(&self) -> Result<()> {
        if self.overflow {
            return Err(FormatError::invalid("GZIP: the output buffer was reserved too small (a bug of this library)"));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.check()?;
        self.out.truncate(self.at);
        Ok(())
    }
}
