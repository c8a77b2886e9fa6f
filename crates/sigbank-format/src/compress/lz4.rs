//! LZ4 frames. The frame is parsed here, on top of the block decoder, because blocks can then be decoded straight into
//! the reader's buffer, and because an early end is then seen for what it is.

use std::io::{self, BufRead, ErrorKind, Read, Write};

use lz4_flex::block::decompress_into_with_dict;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use xxhash_rust::xxh32::{Xxh32, xxh32};

use super::members::fill;
use crate::error::{FormatError, Result};

const MAGIC: u32 = 0x184D_2204;
const SKIPPABLE: std::ops::RangeInclusive<u32> = 0x184D_2A50..=0x184D_2A5F;
/// How far back a match may reach.
const WINDOW: usize = 64 << 10;

pub(super) fn encode(parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
    let total = parts.iter().map(|p| p.len() as u64).sum();
    let info = FrameInfo::new()
        .content_size(Some(total))
        .content_checksum(true)
        .block_size(if total <= WINDOW as u64 { BlockSize::Max64KB } else { BlockSize::Max256KB })
        .block_mode(BlockMode::Linked);
    let mut encoder = FrameEncoder::with_frame_info(info, out);
    for part in parts {
        encoder.write_all(part)?;
    }
    encoder.finish().map_err(|e| FormatError::invalid(format!("LZ4: {e}")))?;
    Ok(())
}

/// The size in the first frame's header.
pub(super) fn declared_size(data: &[u8]) -> Option<u64> {
    let (magic, rest) = data.split_first_chunk::<4>()?;
    let ([flags, _], rest) = rest.split_first_chunk::<2>()?;
    (u32::from_le_bytes(*magic) == MAGIC && flags & 0x08 != 0).then_some(())?;
    rest.first_chunk::<8>().map(|size| u64::from_le_bytes(*size))
}

/// What a frame's header says.
struct Header {
    linked: bool,
    block_checksums: bool,
    content_checksum: bool,
    content_size: Option<u64>,
    block_size: usize,
}

/// A reader of frames one after another.
pub(super) struct Frames<R> {
    word: &'static str,
    source: R,
    frame: Option<Header>,
    frames: u64,
    done: bool,
    failed: Option<FormatError>,
    hasher: Xxh32,
    content: u64,
    /// The last bytes decoded, for blocks that refer to those before them.
    window: Vec<u8>,
    /// A compressed block that the source does not hold in one piece.
    compressed: Vec<u8>,
    /// A block for which the reader's buffer was too small, and how much of it was handed out.
    decoded: Vec<u8>,
    handed: usize,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(word: &'static str, source: R) -> Self {
        Self {
            word,
            source,
            frame: None,
            frames: 0,
            done: false,
            failed: None,
            hasher: Xxh32::new(0),
            content: 0,
            window: Vec::new(),
            compressed: Vec::new(),
            decoded: Vec::new(),
            handed: 0,
        }
    }

    fn corrupt(&self, what: impl std::fmt::Display) -> io::Error {
        FormatError::corrupt(format!("{} frame {}: {what}", self.word, self.frames + 1)).into()
    }

    fn exact<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes).map_err(|e| self.early(e))?;
        Ok(bytes)
    }

    fn early(&self, e: io::Error) -> io::Error {
        if e.kind() != ErrorKind::UnexpectedEof || e.get_ref().is_some_and(|inner| inner.is::<FormatError>()) {
            return e;
        }
        let text = format!("{}: the data end inside frame {}: they were cut short", self.word, self.frames + 1);
        io::Error::new(ErrorKind::UnexpectedEof, FormatError::corrupt(text))
    }

    /// Reads the next frame's header. `None`: the source has ended where it may.
    fn begin(&mut self) -> io::Result<Option<Header>> {
        loop {
            if fill(&mut self.source)?.is_empty() && self.frames > 0 {
                return Ok(None);
            }
            let magic = u32::from_le_bytes(self.exact()?);
            if magic == MAGIC {
                break;
            }
            if !SKIPPABLE.contains(&magic) {
                return Err(match self.frames {
                    0 => self.corrupt(format_args!("the data begin with {magic:#010x}, a frame with {MAGIC:#010x}")),
                    n => FormatError::corrupt(format!("{}: bytes left over after {n} complete frame(s)", self.word)).into(),
                });
            }
            let length = u64::from(u32::from_le_bytes(self.exact()?));
            if io::copy(&mut (&mut self.source).take(length), &mut io::sink())? < length {
                return Err(self.early(ErrorKind::UnexpectedEof.into()));
            }
            self.frames += 1;
        }
        let descriptor = self.exact::<2>()?;
        let [flags, sizes] = descriptor;
        let mut hasher = Xxh32::new(0);
        hasher.update(&descriptor);
        if flags >> 6 != 1 || flags & 0x02 != 0 || sizes & 0x8f != 0 || sizes >> 4 < 4 {
            return Err(self.corrupt(format_args!("a header of unknown kind ({flags:#04x} {sizes:#04x})")));
        }
        let content_size = match flags & 0x08 != 0 {
            true => {
                let size = self.exact::<8>()?;
                hasher.update(&size);
                Some(u64::from_le_bytes(size))
            }
            false => None,
        };
        if flags & 0x01 != 0 {
            return Err(FormatError::unsupported(format!("{}: a frame that needs a dictionary", self.word)).into());
        }
        let [found] = self.exact::<1>()?;
        if found != (hasher.digest() >> 8) as u8 {
            return Err(self.corrupt("the header's checksum is wrong"));
        }
        self.hasher = Xxh32::new(0);
        self.content = 0;
        self.window.clear();
        Ok(Some(Header {
            linked: flags & 0x20 == 0,
            block_checksums: flags & 0x10 != 0,
            content_checksum: flags & 0x04 != 0,
            content_size,
            block_size: 1 << (8 + 2 * (sizes >> 4)),
        }))
    }

    /// Decodes the frame's next block to the start of `out`, which holds a full block. `None`: the frame has ended.
    fn block(&mut self, frame: &Header, out: &mut [u8]) -> io::Result<Option<usize>> {
        let word = u32::from_le_bytes(self.exact()?);
        if word == 0 {
            if let Some(size) = frame.content_size.filter(|s| *s != self.content) {
                return Err(self.corrupt(format_args!("{} bytes where its header declares {size}", self.content)));
            }
            if frame.content_checksum && u32::from_le_bytes(self.exact()?) != self.hasher.digest() {
                return Err(self.corrupt("the content's checksum is wrong"));
            }
            self.frames += 1;
            return Ok(None);
        }
        let (raw, length) = (word >> 31 == 1, (word & 0x7fff_ffff) as usize);
        let too_long = |this: &Self| this.corrupt(format_args!("a block of {length} bytes where {} fit", frame.block_size));
        if length > frame.block_size {
            return Err(too_long(self));
        }
        let (written, checksum) = if raw {
            let Some(out) = out.get_mut(..length) else { return Err(too_long(self)) };
            self.source.read_exact(out).map_err(|e| self.early(e))?;
            (length, frame.block_checksums.then(|| xxh32(out, 0)))
        } else {
            let whole = fill(&mut self.source)?.len() >= length;
            if !whole {
                self.compressed.resize(length, 0);
                let mut compressed = std::mem::take(&mut self.compressed);
                self.source.read_exact(&mut compressed).map_err(|e| self.early(e))?;
                self.compressed = compressed;
            }
            let input = match whole {
                true => fill(&mut self.source)?.get(..length).unwrap_or_default(),
                false => &self.compressed,
            };
            let checksum = frame.block_checksums.then(|| xxh32(input, 0));
            let out = out.get_mut(..frame.block_size).unwrap_or_default();
            let written = decompress_into_with_dict(input, out, &self.window);
            if whole {
                self.source.consume(length);
            }
            (written.map_err(|e| self.corrupt(e))?, checksum)
        };
        if let Some(checksum) = checksum
            && u32::from_le_bytes(self.exact()?) != checksum
        {
            return Err(self.corrupt("a block's checksum is wrong"));
        }
        let decoded = out.get(..written).unwrap_or_default();
        self.content += written as u64;
        if frame.content_checksum {
            self.hasher.update(decoded);
        }
        if frame.linked {
            keep(&mut self.window, decoded);
        }
        Ok(Some(written))
    }

    fn advance(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.done {
            if let Some(pending) = self.decoded.get(self.handed..).filter(|p| !p.is_empty()) {
                let n = pending.len().min(out.len());
                if let (Some(to), Some(from)) = (out.get_mut(..n), pending.get(..n)) {
                    to.copy_from_slice(from);
                }
                self.handed += n;
                return Ok(n);
            }
            let Some(frame) = self.frame.take() else {
                self.frame = self.begin()?;
                self.done = self.frame.is_none();
                continue;
            };
            if out.len() >= frame.block_size {
                if let Some(written) = self.block(&frame, out)? {
                    self.frame = Some(frame);
                    if written > 0 {
                        return Ok(written);
                    }
                }
                continue;
            }
            let mut decoded = std::mem::take(&mut self.decoded);
            decoded.resize(frame.block_size, 0);
            if let Some(written) = self.block(&frame, &mut decoded)? {
                self.frame = Some(frame);
                decoded.truncate(written);
                self.decoded = decoded;
                self.handed = 0;
            }
        }
        Ok(0)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let Some(e) = &self.failed {
            return Err(e.clone().into());
        }
        if out.is_empty() {
            return Ok(0);
        }
        let result = self.advance(out);
        // Whatever went wrong, a block is lost: later reads must not go on as if it were not.
        if let Err(e) = &result {
            let own = e.get_ref().and_then(|e| e.downcast_ref::<FormatError>()).cloned();
            self.failed = Some(own.unwrap_or_else(|| FormatError::new(crate::error::FormatErrorKind::Io, e.to_string())));
        }
        result
    }
}

/// Keeps the last [`WINDOW`] bytes of what was decoded.
fn keep(window: &mut Vec<u8>, decoded: &[u8]) {
    let from = decoded.len().saturating_sub(WINDOW);
    let new = decoded.get(from..).unwrap_or_default();
    window.drain(..(window.len() + new.len()).saturating_sub(WINDOW).min(window.len()));
    window.extend_from_slice(new);
}
