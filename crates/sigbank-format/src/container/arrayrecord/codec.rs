//! How a chunk's buffers are compressed: each is one stream, with its uncompressed size before it.

use brotli::{BrotliDecompressStream, BrotliResult, BrotliState, HeapAlloc, HuffmanCode};
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use super::Compression;
use crate::error::{FormatError, Result};
use crate::limits::FIRST_ALLOCATION;

/// 2 to this many bytes may a zstd frame's window be that is not decoded in one piece: 128 MiB.
const WINDOW_LOG: u32 = 27;
/// Memory is taken at once for what is declared to be at most so many times as long as its compressed bytes (or short), else as it
/// comes.
const TRUSTED_RATIO: usize = 256;
/// Snappy makes at most 64 bytes of three.
const SNAPPY_RATIO: usize = 22;

/// A chunk's compression, as it stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    None,
    Brotli,
    Zstd,
    Snappy,
}

impl Kind {
    pub(super) fn from_byte(byte: u8) -> Result<Self> {
        Ok(match byte {
            0 => Kind::None,
            b'b' => Kind::Brotli,
            b'z' => Kind::Zstd,
            b's' => Kind::Snappy,
            byte => {
                return Err(FormatError::unsupported(format!(
                    "the chunk's compression is 0x{byte:02x}; known are none, brotli, zstd and snappy: a newer version may read it"
                )));
            }
        })
    }

    pub(super) fn to_byte(self) -> u8 {
        match self {
            Kind::None => 0,
            Kind::Brotli => b'b',
            Kind::Zstd => b'z',
            Kind::Snappy => b's',
        }
    }
}

/// Decompresses stream after stream with the same memory.
#[derive(Default)]
pub(super) struct Decompressor {
    zstd: Option<DCtx<'static>>,
}

impl Decompressor {
    /// Has in `out` what `stream` holds: `size` bytes.
    pub(super) fn run(&mut self, kind: Kind, stream: &[u8], size: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        match kind {
            Kind::None => {
                check(stream.len(), size)?;
                reserve(out, size)?;
                out.extend_from_slice(stream);
                Ok(())
            }
            Kind::Zstd => self.zstd(stream, size, out),
            Kind::Brotli => brotli(stream, size, out),
            Kind::Snappy => snappy(stream, size, out),
        }
    }

    fn zstd(&mut self, stream: &[u8], size: usize, out: &mut Vec<u8>) -> Result<()> {
        let context = match &mut self.zstd {
            Some(context) => context,
            none => {
                let context = DCtx::try_create().ok_or_else(|| FormatError::limit("no memory for a zstd decoder"))?;
                none.insert(context)
            }
        };
        if zstd_safe::find_frame_compressed_size(stream).map_err(zstd_failure)? != stream.len() {
            return Err(FormatError::corrupt("the zstd frame does not fill its buffer"));
        }
        if is_trusted(stream.len(), size) {
            reserve(out, size)?;
            context.decompress(out, stream).map_err(zstd_failure)?;
            return check(out.len(), size);
        }
        context.reset(ResetDirective::SessionOnly).map_err(zstd_failure)?;
        context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG)).map_err(zstd_failure)?;
        let mut input = InBuffer::around(stream);
        loop {
            let before = (input.pos(), out.len());
            if out.len() == out.capacity() {
                reserve(out, out.len().max(FIRST_ALLOCATION).min(size.saturating_sub(out.len())))?;
            }
            let mut output = OutBuffer::around_pos(out, before.1);
            let missing = context.decompress_stream(&mut output, &mut input).map_err(zstd_failure)?;
            if missing == 0 {
                return check(out.len(), size);
            }
            if (input.pos(), out.len()) == before {
                return Err(FormatError::corrupt(format!("a zstd frame does not end with the {size} bytes that are declared")));
            }
        }
    }
}

fn brotli(stream: &[u8], size: usize, out: &mut Vec<u8>) -> Result<()> {
    // A window of more than 24 bits is announced by a first byte of its own.
    if let [0x11, bits, ..] = stream
        && u32::from(bits & 0x3f) > WINDOW_LOG
    {
        return Err(FormatError::limit(format!(
            "a brotli stream whose window is over {} MiB: write the file anew with a smaller window_log",
            1 << (WINDOW_LOG - 20)
        )));
    }
    let codes = HeapAlloc::new(HuffmanCode::default());
    let mut state = BrotliState::new(HeapAlloc::new(0u8), HeapAlloc::new(0u32), codes);
    let (mut unread, mut read, mut written, mut total) = (stream.len(), 0, 0, 0);
    loop {
        if written == out.len() && written < size {
            let more = if is_trusted(stream.len(), size) { size } else { written.max(FIRST_ALLOCATION).min(size - written) };
            reserve(out, more)?;
            out.resize(written + more, 0);
        }
        let mut room = out.len() - written;
        match BrotliDecompressStream(&mut unread, &mut read, stream, &mut room, &mut written, out, &mut total, &mut state) {
            BrotliResult::ResultSuccess if unread == 0 => {
                out.truncate(written);
                return check(written, size);
            }
            BrotliResult::ResultSuccess => return Err(FormatError::corrupt("bytes are left over behind a brotli stream")),
            BrotliResult::NeedsMoreOutput if written < size => {}
            BrotliResult::NeedsMoreOutput => {
                return Err(FormatError::corrupt(format!(
                    "a brotli stream does not end with the {size} bytes that are declared"
                )));
            }
            BrotliResult::NeedsMoreInput => return Err(FormatError::corrupt("a brotli stream is cut short")),
            BrotliResult::ResultFailure => return Err(FormatError::corrupt("a brotli stream is damaged")),
        }
    }
}

fn snappy(stream: &[u8], size: usize, out: &mut Vec<u8>) -> Result<()> {
    let failure = |e: snap::Error| FormatError::corrupt(e.to_string());
    check(snap::raw::decompress_len(stream).map_err(failure)?, size)?;
    if size / SNAPPY_RATIO > stream.len() {
        return Err(FormatError::corrupt(format!("{} bytes cannot be {size} bytes compressed with snappy", stream.len())));
    }
    reserve(out, size)?;
    out.resize(size, 0);
    let written = snap::raw::Decoder::new().decompress(stream, out).map_err(failure)?;
    check(written, size)
}

/// Whether memory for `size` bytes may be taken before they are there.
fn is_trusted(stream: usize, size: usize) -> bool {
    size <= FIRST_ALLOCATION.max(stream.saturating_mul(TRUSTED_RATIO))
}

fn reserve(out: &mut Vec<u8>, more: usize) -> Result<()> {
    out.try_reserve_exact(more).map_err(|_| FormatError::limit(format!("no memory for {more} bytes")))
}

fn check(found: usize, size: usize) -> Result<()> {
    if found == size {
        return Ok(());
    }
    Err(FormatError::corrupt(format!("a buffer holds {found} bytes where {size} are declared")))
}

/// A zstd library's failure.
fn zstd_failure(code: usize) -> FormatError {
    match zstd_safe::get_error_name(code) {
        text if text.contains("too much memory") => FormatError::limit(format!(
            "a zstd frame whose window is over {} MiB: write the file anew with a smaller window_log",
            1 << (WINDOW_LOG - 20)
        )),
        text => FormatError::corrupt(format!("zstd: {text}")),
    }
}

/// Compresses buffer after buffer with the same memory.
pub(super) struct Compressor {
    compression: Compression,
    zstd: Option<CCtx<'static>>,
}

impl Compressor {
    /// Invalid for a level or window that does not exist.
    pub(super) fn new(compression: Compression) -> Result<Self> {
        let mut zstd = None;
        if let Compression::Zstd { level, window_log } = compression {
            let levels = zstd_safe::min_c_level()..=zstd_safe::max_c_level();
            // What a frame's reader need not be told of.
            if !levels.contains(&level) || !(10..=WINDOW_LOG).contains(&window_log) {
                return Err(FormatError::invalid(format!(
                    "zstd level {level} with window_log {window_log}: choose a level of {levels:?} and a window of 10..={WINDOW_LOG}"
                )));
            }
            let context = CCtx::try_create().ok_or_else(|| FormatError::limit("no memory for a zstd encoder"))?;
            let context = zstd.insert(context);
            context.set_parameter(CParameter::CompressionLevel(level)).map_err(zstd_failure)?;
            context.set_parameter(CParameter::WindowLog(window_log)).map_err(zstd_failure)?;
        }
        if let Compression::Brotli { level: level @ 12.. } = compression {
            return Err(FormatError::invalid(format!("brotli level {level}: choose one of 0..=11")));
        }
        Ok(Self { compression, zstd })
    }

    pub(super) fn kind(&self) -> Kind {
        match self.compression {
            Compression::None => Kind::None,
            Compression::Zstd { .. } => Kind::Zstd,
            Compression::Brotli { .. } => Kind::Brotli,
            Compression::Snappy => Kind::Snappy,
        }
    }

    /// Appends the stream of `data`.
    pub(super) fn run(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match (self.compression, &mut self.zstd) {
            (Compression::None, _) => out.extend_from_slice(data),
            (Compression::Brotli { level }, _) => {
                let params = brotli::enc::BrotliEncoderParams {
                    quality: i32::from(level),
                    lgwin: 22,
                    size_hint: data.len(),
                    ..Default::default()
                };
                brotli::BrotliCompress(&mut &data[..], out, &params)?;
            }
            (Compression::Snappy, _) => {
                let start = out.len();
                out.resize(start + snap::raw::max_compress_len(data.len()), 0);
                let place = out.get_mut(start..).unwrap_or_default();
                let written = snap::raw::Encoder::new().compress(data, place).map_err(|e| FormatError::limit(e.to_string()))?;
                out.truncate(start + written);
            }
            (Compression::Zstd { .. }, Some(context)) => {
                let start = out.len();
                reserve(out, zstd_safe::compress_bound(data.len()))?;
                let mut place = std::io::Cursor::new(out);
                place.set_position(start as u64);
                context.compress2(&mut place, data).map_err(zstd_failure)?;
            }
            (Compression::Zstd { .. }, None) => return Err(FormatError::invalid("no zstd encoder")),
        }
        Ok(())
    }
}
