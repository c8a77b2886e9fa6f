//! Raw zlib streams, which only TFRecord files hold: elsewhere the word ZLIB means gzip members.

use std::io::{BufReader, Read};

use flate2::Decompress;
use libdeflater::{CompressionLvl, Compressor};

use super::SOURCE_BUFFER;
use super::members::{Codec, Members, Step};
use crate::error::{FormatError, Result};

/// TensorFlow's level.
const LEVEL: i32 = 6;

/// Compresses `parts`, one buffer given in pieces, to one zlib stream, as TensorFlow's ZLIB does (it begins `78 9c`).
///
/// `out` is cleared first. The same input gives the same output.
///
/// # Errors
/// Invalid where the compressor fails, which it does not with the room that it asks for.
///
/// ```
/// use std::io::Read;
/// use sigbank_format::compress::{encode_zlib, zlib_decoder};
/// let mut out = Vec::new();
/// encode_zlib(&[b"trace ", b"trace"], &mut out)?;
/// assert_eq!(out.get(..2), Some(&[0x78, 0x9c][..]));
/// let mut text = String::new();
/// zlib_decoder(Box::new(&out[..])).read_to_string(&mut text)?;
/// assert_eq!(text, "trace trace");
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub fn encode_zlib(parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    let joined;
    let data = match parts {
        [] => &[][..],
        [one] => one,
        many => {
            joined = many.concat();
            &joined[..]
        }
    };
    let level = CompressionLvl::new(LEVEL).map_err(|e| FormatError::invalid(format!("ZLIB: level {LEVEL}: {e:?}")))?;
    let mut compressor = Compressor::new(level);
    out.resize(compressor.zlib_compress_bound(data.len()), 0);
    let written = compressor.zlib_compress(data, out).map_err(|e| FormatError::invalid(format!("ZLIB: {e}")))?;
    out.truncate(written);
    Ok(())
}

/// A reader of what `source` holds as zlib streams, with the checks of [`super::decoder`]: it ends only where a stream has ended,
/// its checksum included, and the source with it.
///
/// # Errors
/// Those of reading: damage, an early end and bytes left over give an `io::Error` around a [`FormatError`]; errors of the source come
/// through as they are.
pub fn zlib_decoder<'a>(source: Box<dyn Read + Send + 'a>) -> Box<dyn Read + Send + 'a> {
    Box::new(Members::new("ZLIB", BufReader::with_capacity(SOURCE_BUFFER, source), Decoder::new()))
}

struct Decoder(Decompress);

impl Decoder {
    fn new() -> Self {
        Self(Decompress::new(true))
    }
}

impl Codec for Decoder {
    const HEAD: usize = 2;
    const PADDING: usize = 0;

    /// Deflate with a window of 32 KiB at most, no dictionary, and the check bits right.
    fn starts(head: &[u8]) -> bool {
        matches!(head, &[method, flags]
            if method & 0x0f == 8 && method >> 4 <= 7 && flags & 0x20 == 0 && u16::from_be_bytes([method, flags]) % 31 == 0)
    }

    fn restart(&mut self) -> Result<()> {
        *self = Self::new();
        Ok(())
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step> {
        super::gzip::inflate(&mut self.0, input, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FormatErrorKind;

    fn decoded(data: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        zlib_decoder(Box::new(data)).read_to_end(&mut out)?;
        Ok(out)
    }

    fn encoded(data: &[u8]) -> Vec<u8> {
        let mut out = vec![1, 2, 3];
        encode_zlib(&[&data[..data.len() / 2], &data[data.len() / 2..]], &mut out).unwrap();
        out
    }

    #[test]
    fn streams_come_back() {
        let noise: Vec<u8> = (0..600_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for data in [&b""[..], b"a", &[7; 100_000], &noise] {
            let out = encoded(data);
            assert_eq!(out[..2], [0x78, 0x9c]);
            assert!(decoded(&out).unwrap() == data);
            let two = [&out[..], &encoded(b"more")].concat();
            assert!(decoded(&two).unwrap() == [data, b"more"].concat());
        }
    }

    #[test]
    fn damage_is_refused() {
        let data: Vec<u8> = (0..2000u32).map(|i| ((i * i) >> 5) as u8).collect();
        let good = encoded(&data);
        for len in 0..good.len() {
            let e = decoded(&good[..len]).unwrap_err();
            assert_eq!(e.kind(), FormatErrorKind::Corrupt, "{len}: {e}");
        }
        for bit in 0..8 * good.len() {
            let mut damaged = good.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            match decoded(&damaged) {
                Err(e) => assert_eq!(e.kind(), FormatErrorKind::Corrupt, "bit {bit}: {e}"),
                // A few bits do not matter, such as those that fill up the last byte before the checksum.
                Ok(same) => assert!(same == data, "bit {bit}"),
            }
        }
        for more in [&b"\0"[..], b"\0\0", b"x", b"\x78\x9d", b"\x78"] {
            let e = decoded(&[&good[..], more].concat()).unwrap_err();
            assert!(e.to_string().starts_with("ZLIB: ") && e.to_string().contains("after 1 complete"), "{e}");
        }
        let mut gzip = Vec::new();
        super::super::encode(super::super::Compression::Gzip, &[&data], &mut gzip).unwrap();
        assert!(decoded(&gzip).unwrap_err().to_string().contains("begin with [1f, 8b]"));
    }
}
