//! Compressions by the word that stands on disk.
//!
//! Written is always exactly one member or frame, for that is all the reference readers understand. Read is any number
//! of them. What ends early, and what is left over after the last member, is an error.

mod bzip2;
mod gzip;
mod huffman;
mod lz4;
mod members;
mod xz;
mod zlib;
mod zstd;

#[cfg(test)]
mod size_tests;
#[cfg(test)]
mod tests;

pub use zlib::{encode_zlib, zlib_decoder};

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::str::FromStr;

use crate::error::{FormatError, Result};
use crate::limits::FIRST_ALLOCATION;

/// Bytes taken from a source at once.
const SOURCE_BUFFER: usize = 256 << 10;

/// A compression, as `compression` of a Sedpack dataset names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// `""`: the bytes as they are.
    None,
    /// `GZIP`: gzip members.
    Gzip,
    /// `ZLIB`: gzip members too, whatever the name says (TFRecord containers mean a zlib stream: that is theirs to do).
    Zlib,
    /// `BZ2`: bzip2 streams.
    Bz2,
    /// `LZMA`: streams in the .xz container.
    Lzma,
    /// `LZ4`: LZ4 frames.
    Lz4,
    /// `ZIP`: done by the npz container itself; nothing can be encoded or decoded with it here.
    Zip,
    /// `ZSTD`: Zstandard frames.
    Zstd,
}

impl Compression {
    /// The word on disk.
    ///
    /// ```
    /// use sigbank_format::compress::Compression;
    /// assert_eq!(Compression::Bz2.as_str(), "BZ2");
    /// assert_eq!("".parse::<Compression>()?, Compression::None);
    /// assert!("gzip".parse::<Compression>().unwrap_err().to_string().contains("GZIP"));
    /// # Ok::<(), sigbank_format::FormatError>(())
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => "GZIP",
            Self::Zlib => "ZLIB",
            Self::Bz2 => "BZ2",
            Self::Lzma => "LZMA",
            Self::Lz4 => "LZ4",
            Self::Zip => "ZIP",
            Self::Zstd => "ZSTD",
        }
    }

    fn zip_is_a_container(self) -> FormatError {
        FormatError::unsupported(
            "compression \"ZIP\" belongs to the npz container, which compresses its members itself; \
             no other bytes can be compressed with it: use one of GZIP, ZLIB, BZ2, LZMA, LZ4, ZSTD",
        )
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Compression {
    type Err = FormatError;

    fn from_str(word: &str) -> Result<Self> {
        crate::registry::COMPRESSIONS.iter().copied().find(|c| c.as_str() == word).ok_or_else(|| {
            let known: Vec<_> = crate::registry::COMPRESSIONS.iter().map(|c| format!("{:?}", c.as_str())).collect();
            FormatError::unsupported(format!("unknown compression {word:?}: known are {}", known.join(", ")))
        })
    }
}

/// How hard each compression tries. The default is what the reference uses.
///
/// ```
/// use sigbank_format::compress::Level;
/// assert_eq!(Level::default(), Level { gzip: 9, bz2: 9, xz: 6, zstd: 3 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// 1 to 9. 9 promises at most 1.02 times the size that zlib's level 9 gives, by whatever is fastest for the data;
    /// 1 to 8 are libdeflate's levels.
    pub gzip: u8,
    /// 1 to 9: the block size in 100 000 bytes.
    pub bz2: u8,
    /// 0 to 9: the preset.
    pub xz: u8,
    /// 1 to 22; negative values are faster still.
    pub zstd: i32,
}

impl Default for Level {
    fn default() -> Self {
        Self { gzip: 9, bz2: 9, xz: 6, zstd: 3 }
    }
}

impl Level {
    /// The level that a compression is asked for, or an error with the range it must lie in.
    fn check(what: Compression, level: i32, from: i32, to: i32) -> Result<u32> {
        u32::try_from(level)
            .ok()
            .filter(|_| (from..=to).contains(&level))
            .ok_or_else(|| FormatError::invalid(format!("{what}: level {level} does not exist: choose one from {from} to {to}")))
    }
}

/// Compresses `parts`, one buffer given in pieces, to exactly one member or frame at the reference's levels.
///
/// `out` is cleared first and can be used again from call to call. The same input gives the same output. Fails for
/// [`Compression::Zip`] (Unsupported).
///
/// ```
/// use sigbank_format::compress::{Compression, decode, encode};
/// let mut out = Vec::new();
/// encode(Compression::Gzip, &[b"trace ", b"trace"], &mut out)?;
/// assert_eq!(out.get(..2), Some(&[0x1f, 0x8b][..]));
/// assert_eq!(decode(Compression::Gzip, &out, None, 100)?, b"trace trace");
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub fn encode(compression: Compression, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
    encode_at(compression, Level::default(), parts, out)
}

/// As [`encode`], at other levels. A level out of its range is Invalid.
///
/// ```
/// use sigbank_format::compress::{Compression, Level, encode_at};
/// let mut out = Vec::new();
/// let error = encode_at(Compression::Bz2, Level { bz2: 10, ..Level::default() }, &[b"x"], &mut out).unwrap_err();
/// assert!(error.to_string().contains("from 1 to 9"));
/// ```
pub fn encode_at(compression: Compression, level: Level, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    match compression {
        Compression::None => parts.iter().for_each(|p| out.extend_from_slice(p)),
        Compression::Gzip | Compression::Zlib => {
            gzip::encode(Level::check(compression, level.gzip.into(), 1, 9)?, parts, out)?;
        }
        Compression::Bz2 => bzip2::encode(Level::check(compression, level.bz2.into(), 1, 9)?, parts, out)?,
        Compression::Lzma => xz::encode(Level::check(compression, level.xz.into(), 0, 9)?, parts, out)?,
        Compression::Lz4 => lz4::encode(parts, out)?,
        Compression::Zstd => zstd::encode(level.zstd, parts, out)?,
        Compression::Zip => return Err(compression.zip_is_a_container()),
    }
    Ok(())
}

/// A reader of what `source` holds compressed.
///
/// It reads any number of members, and 0 bytes only where the last one has ended, checksum included, and the source
/// with it. Damage, an early end and bytes left over give an `io::Error` around a [`FormatError`] that names the
/// compression; errors of the source come through as they are. It takes 256 KiB at once from the source, and is fastest
/// when read in pieces of 1 MiB or more. A zstd window over 128 MiB and an xz dictionary that needs more than 256 MiB
/// are refused. Fails for [`Compression::Zip`] (Unsupported).
///
/// ```
/// use std::io::Read;
/// use sigbank_format::compress::{Compression, decoder, encode};
/// let mut out = Vec::new();
/// encode(Compression::Zstd, &[b"one trace"], &mut out)?;
/// let mut text = String::new();
/// decoder(Compression::Zstd, Box::new(&out[..]))?.read_to_string(&mut text)?;
/// assert_eq!(text, "one trace");
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub fn decoder<'a>(compression: Compression, source: Box<dyn Read + Send + 'a>) -> Result<Box<dyn Read + Send + 'a>> {
    if compression == Compression::None {
        return Ok(source);
    }
    reader(compression, BufReader::with_capacity(SOURCE_BUFFER, source))
}

fn reader<'a>(compression: Compression, source: impl BufRead + Send + 'a) -> Result<Box<dyn Read + Send + 'a>> {
    let word = compression.as_str();
    Ok(match compression {
        Compression::None => Box::new(source),
        Compression::Gzip | Compression::Zlib => Box::new(members::Members::new(word, source, gzip::Decoder::new())),
        Compression::Bz2 => Box::new(members::Members::new(word, source, bzip2::Decoder::new())),
        Compression::Lzma => Box::new(members::Members::new(word, source, xz::Decoder::new()?)),
        Compression::Zstd => Box::new(members::Members::new(word, source, zstd::Decoder::new()?)),
        Compression::Lz4 => Box::new(lz4::Frames::new(word, source)),
        Compression::Zip => return Err(compression.zip_is_a_container()),
    })
}

/// Decompresses a whole buffer.
///
/// `size_hint` is the decompressed size where it is known: one allocation is enough then. A result over `limit` bytes
/// is refused (Limit) without taking more memory than that; sizes that `data` declare are never trusted beyond what so
/// many bytes can reasonably hold. Damage is Corrupt.
///
/// ```
/// use sigbank_format::compress::{Compression, decode, encode};
/// use sigbank_format::error::FormatErrorKind;
/// let mut out = Vec::new();
/// encode(Compression::Lz4, &[&[0; 1000]], &mut out)?;
/// assert_eq!(decode(Compression::Lz4, &out, Some(1000), 1000)?, [0; 1000]);
/// assert_eq!(decode(Compression::Lz4, &out, None, 999).unwrap_err().kind(), FormatErrorKind::Limit);
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub fn decode(compression: Compression, data: &[u8], size_hint: Option<usize>, limit: u64) -> Result<Vec<u8>> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let declared = match compression {
        Compression::None => Some(data.len() as u64),
        Compression::Gzip | Compression::Zlib => match gzip::decode_single(data, limit) {
            Some(decoded) => return Ok(decoded),
            None => None,
        },
        Compression::Lz4 => lz4::declared_size(data),
        Compression::Zstd => zstd::declared_size(data),
        Compression::Bz2 | Compression::Lzma | Compression::Zip => None,
    };
    // A frame may declare anything, and a hint may come from a file too. More than this is rare enough to grow for.
    let plausible = data.len().saturating_mul(gzip::MOST).max(FIRST_ALLOCATION);
    let declared = declared.map(|d| usize::try_from(d).unwrap_or(usize::MAX));
    let expected = size_hint.or(declared).unwrap_or(data.len().saturating_mul(3)).min(plausible);
    read_all(&mut *reader(compression, data)?, expected.min(limit), limit)
        .map_err(|e| if e.kind() == std::io::ErrorKind::QuotaExceeded { over(compression, limit) } else { e.into() })
}

fn over(compression: Compression, limit: usize) -> FormatError {
    FormatError::limit(format!(
        "{compression}: the data decompress to more than {limit} bytes: raise the limit if they are trusted"
    ))
}

/// All of a reader into a buffer of `expected` bytes, which grows, but not over `limit`.
fn read_all(reader: &mut dyn Read, expected: usize, limit: usize) -> std::io::Result<Vec<u8>> {
    let mut out = vec![0; expected];
    let mut filled = 0;
    loop {
        while let Some(room) = out.get_mut(filled..).filter(|r| !r.is_empty()) {
            match reader.read(room) {
                Ok(0) => {
                    out.truncate(filled);
                    return Ok(out);
                }
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        // Full: the usual case is that the data end here, so ask before growing.
        let mut next = [0];
        if reader.read(&mut next)? == 0 {
            return Ok(out);
        }
        if filled >= limit {
            return Err(std::io::ErrorKind::QuotaExceeded.into());
        }
        out.resize(filled.saturating_mul(2).max(filled.saturating_add(SOURCE_BUFFER)).min(limit), 0);
        if let (Some(slot), [byte]) = (out.get_mut(filled), next) {
            *slot = byte;
        }
        filled += 1;
    }
}
