//! gzip members.
//!
//! **Writing at level 9.** The reference's zlib at level 9 spends nearly all its time on looking for matches, which
//! sampled signals hardly have. So a few pieces spread over the data are compressed in the ways below, the fastest first,
//! and the first one that is near enough to the best of them on the same pieces does it all. Which one that is depends on
//! the data alone, so the same data always give the same bytes.

use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Decompress, FlushDecompress, Status};
use libdeflater::{CompressionLvl, Compressor, Crc, Decompressor};

use super::huffman;
use super::members::{Codec, Step};
use crate::error::{FormatError, Result};

/// Magic, deflate, no flags, no time (so that the output depends on the data only), "slowest", unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 0xff];
const TRAILER: usize = 8;
/// Deflate cannot shrink data by more than this factor.
pub(super) const MOST: usize = 1032;

/// A way to deflate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// No matches at all.
    Huffman,
    /// libdeflate at a level.
    Matches(i32),
    /// zlib's algorithm at level 9.
    Zlib,
}

/// The levels of libdeflate that level 9 chooses from, the fastest first. The last is what the others are held against.
const LEVELS: [i32; 6] = [1, 4, 6, 7, 8, TOP];
const TOP: i32 = 9;
/// Under this many bytes nothing is tried out.
const SMALL: usize = 64 << 10;
/// The largest piece tried.
const SAMPLE: usize = 64 << 10;
/// Near enough is this many thousandths of the top level's size. Only close is near: with more data than a sample
/// holds, the top level gains more.
const NEAR_TOP: usize = 1005;
/// And this many thousandths of zlib's, for sparse data are where the top level is behind zlib.
const NEAR_ZLIB: usize = 1012;
/// For data that stay over half of their size the top level was never behind zlib, and this many thousandths of it do.
const NEAR_ENOUGH_IN_NOISE: usize = 1015;
/// Data that shrink by more than this factor are left to zlib: what the others write around the codes counts there.
const TINY: usize = 200;

pub(super) fn encode(level: u32, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
    let joined;
    let data = match parts {
        [] => &[][..],
        [one] => one,
        many => {
            joined = many.concat();
            &joined[..]
        }
    };
    let method = if level >= 9 { choose(data)? } else { Method::Matches(level as i32) };
    encode_by(method, data, out)
}

pub(super) fn encode_by(method: Method, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    out.extend_from_slice(&HEADER);
    deflate(method, data, out)?;
    let mut crc = Crc::new();
    crc.update(data);
    out.extend_from_slice(&crc.sum().to_le_bytes());
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    Ok(())
}

/// The fastest method that is near enough to zlib's level 9 for these data. (flate2's own level 9 is no yardstick: it came
/// out up to 4 % under zlib's.)
pub(super) fn choose(data: &[u8]) -> Result<Method> {
    if data.len() < SMALL {
        return Ok(Method::Zlib);
    }
    // A 64th of large data; of small data a quarter at most.
    let pieces = (data.len() / 64 / SAMPLE).clamp(3, 12);
    let stride = data.len() / pieces;
    let sample = (stride / 4).min(SAMPLE);
    let samples: Vec<&[u8]> =
        data.chunks(stride).filter_map(|c| c.get(c.len().checked_sub(sample)? / 2..)?.get(..sample)).collect();
    let mut scratch = Vec::new();
    let mut size = |method| -> Result<usize> {
        samples.iter().try_fold(0, |sum, sample| {
            scratch.clear();
            deflate(method, sample, &mut scratch)?;
            Ok(sum + scratch.len())
        })
    };
    let aim = size(Method::Matches(TOP))?;
    let whole = samples.len() * sample;
    if aim * TINY < whole {
        return Ok(Method::Zlib);
    }
    let (near_top, near_zlib) = match aim * 2 > whole {
        true => (aim * NEAR_ENOUGH_IN_NOISE, usize::MAX),
        false => (aim * NEAR_TOP, size(Method::Zlib)? * NEAR_ZLIB),
    };
    for method in std::iter::once(Method::Huffman).chain(LEVELS.map(Method::Matches)) {
        let thousand = size(method)? * 1000;
        if thousand <= near_top && thousand <= near_zlib {
            return Ok(method);
        }
    }
    Ok(Method::Zlib)
}

fn deflate(method: Method, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
    match method {
        Method::Huffman => huffman::deflate(data, out),
        Method::Matches(level) => {
            let level = CompressionLvl::new(level).map_err(|e| FormatError::invalid(format!("GZIP: level {level}: {e:?}")))?;
            let mut compressor = Compressor::new(level);
            let from = out.len();
            out.resize(from + compressor.deflate_compress_bound(data.len()), 0);
            let room = out.get_mut(from..).unwrap_or_default();
            let written = compressor.deflate_compress(data, room).map_err(|e| FormatError::invalid(format!("GZIP: {e}")))?;
            out.truncate(from + written);
            Ok(())
        }
        Method::Zlib => {
            let mut encoder = DeflateEncoder::new(out, Compression::best());
            encoder.write_all(data)?;
            encoder.finish()?;
            Ok(())
        }
    }
}

/// The whole of `data` at once if they are exactly one sound member of at most `limit` bytes; else `None`, and the
/// streaming decoder finds out what they are.
pub(super) fn decode_single(data: &[u8], limit: usize) -> Option<Vec<u8>> {
    let trailer = data.get(data.len().checked_sub(TRAILER)?..)?;
    let size = u32::from_le_bytes(*trailer.last_chunk::<4>()?) as usize;
    if size > limit || size > data.len().saturating_mul(MOST) {
        return None;
    }
    // The decoder does not tell where the member ended. It ended after bytes equal to these; if such bytes are found at
    // the end only, it ended there. (Two members with equal contents have the same trailer.)
    let first = find(data, trailer)?;
    if first + TRAILER != data.len() {
        return None;
    }
    let mut out = vec![0; size];
    let written = Decompressor::new().gzip_decompress(data, &mut out).ok()?;
    let mut crc = Crc::new();
    crc.update(&out);
    (written == size && crc.sum().to_le_bytes() == trailer.first_chunk::<4>().copied()?).then_some(out)
}

/// Where `needle` first lies in `data`.
fn find(data: &[u8], needle: &[u8]) -> Option<usize> {
    let (first, _) = needle.split_first()?;
    let mut from = 0;
    while let Some(rest) = data.get(from..) {
        let at = from + rest.iter().position(|b| b == first)?;
        if data.get(at..)?.starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

pub(super) struct Decoder(Decompress);

impl Decoder {
    pub(super) fn new() -> Self {
        Self(Decompress::new_gzip(15))
    }
}

impl Codec for Decoder {
    const HEAD: usize = 2;
    const PADDING: usize = 1;

    fn starts(head: &[u8]) -> bool {
        head == [0x1f, 0x8b]
    }

    fn restart(&mut self) -> Result<()> {
        *self = Self::new();
        Ok(())
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step> {
        inflate(&mut self.0, input, output)
    }
}

/// Inflates as much as there is input and room for, whatever surrounds the deflated data.
pub(super) fn inflate(stream: &mut Decompress, input: &[u8], output: &mut [u8]) -> Result<Step> {
    let (read, written) = (stream.total_in(), stream.total_out());
    let status = stream.decompress(input, output, FlushDecompress::None).map_err(|e| FormatError::corrupt(e.to_string()))?;
    Ok(Step {
        consumed: (stream.total_in() - read) as usize,
        written: (stream.total_out() - written) as usize,
        ended: status == Status::StreamEnd,
    })
}
