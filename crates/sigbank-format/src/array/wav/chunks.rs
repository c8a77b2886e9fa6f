//! The chunks of a WAV file: where the samples are, how they are coded, and how many there are.
//!
//! Sizes are not always true: what writes into a pipe cannot go back to fill them in, 32 bits wrap at 4 GiB, pad bytes are
//! forgotten, and files are cut short. Each is recognised or an error; none gives fewer samples in silence.

use super::law::Law;
use crate::array::source::read_up_to;
use crate::error::{FormatError, Result};
use crate::read_at::ReadAt;

/// Most chunks that are looked through for the data.
const MAX_CHUNKS: usize = 4096;
/// What writers put for a size that they do not know: RIFF's own way, and sox's.
const UNKNOWN_SIZES: [u32; 2] = [u32::MAX, 0x7FFF_F000];
/// The subformats of WAVE_FORMAT_EXTENSIBLE that are numbers of the old list, by the rest of their GUID: the plain ones and
/// those of ambisonic B-format.
const GUID_TAILS: [[u8; 14]; 2] =
    [[0, 0, 0, 0, 16, 0, 128, 0, 0, 170, 0, 56, 155, 113], [0, 0, 0x21, 0x07, 0xd3, 0x11, 0x86, 0x44, 0xc8, 0xc1, 0xca, 0, 0, 0]];

/// How one sample stands, with its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sample {
    /// An integer of 1 (unsigned) to 4 bytes.
    Int(usize),
    /// An IEEE float of 4 or 8 bytes.
    Float(usize),
    /// A code of one byte.
    Code(Law),
}

impl Sample {
    pub(super) fn width(self) -> usize {
        match self {
            Sample::Int(width) | Sample::Float(width) => width,
            Sample::Code(_) => 1,
        }
    }
}

/// What the `fmt ` chunk says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WavFormat {
    pub sample: Sample,
    /// Bits that count.
    pub bits: u32,
    pub channels: usize,
    pub sample_rate: u32,
}

impl WavFormat {
    pub(super) fn frame_bytes(&self) -> usize {
        self.sample.width() * self.channels
    }

    fn read(body: &[u8], order: Order) -> Result<Self> {
        let short = || FormatError::corrupt(format!("a WAV 'fmt ' chunk of {} bytes where at least 16 belong", body.len()));
        let field = |at| order.u16(body, at).ok_or_else(short);
        let (tag, channels, align, bits) = (field(0)?, field(2)?, field(12)?, field(14)?);
        let sample_rate = order.u32(body, 4).ok_or_else(short)?;
        let mut wav = WavFormat { sample: Sample::Int(0), bits: bits.into(), channels: channels.into(), sample_rate };
        let mut tag = tag;
        let extensible = tag == 0xFFFE;
        if extensible {
            let cut = || {
                FormatError::corrupt(format!(
                    "a WAVE_FORMAT_EXTENSIBLE 'fmt ' chunk of {} bytes where at least 40 belong",
                    body.len()
                ))
            };
            let valid = order.u16(body, 18).ok_or_else(cut)?;
            tag = order.u16(body, 24).ok_or_else(cut)?;
            let tail = body.get(26..40).ok_or_else(cut)?;
            // The GUID's inner numbers follow the file's byte order, its last eight bytes never do.
            let plain = |known: &[u8; 14]| match order {
                Order::Little => tail == known,
                Order::Big => tail.get(6..) == known.get(6..),
            };
            if !GUID_TAILS.iter().any(plain) {
                return Err(FormatError::unsupported(format!(
                    "a WAV file whose subformat is no known codec: {:02x?}",
                    body.get(24..40).unwrap_or_default()
                )));
            }
            if valid > bits {
                return Err(FormatError::corrupt(format!("a WAV file with {valid} valid bits in samples of {bits}")));
            }
            if valid > 0 {
                wav.bits = valid.into();
            }
        }
        if matches!(tag.swap_bytes(), 1 | 3 | 6 | 7 | 0xFFFE) {
            let (start, says, is) = match order {
                Order::Little => ("RIFF", "little", "big"),
                Order::Big => ("RIFX", "big", "little"),
            };
            return Err(FormatError::corrupt(format!(
                "a WAV file that starts with {start}, which says {says}-endian, but whose 'fmt ' chunk is {is}-endian"
            )));
        }
        let codec = match tag {
            1 | 3 | 6 | 7 => "",
            2 => "Microsoft ADPCM",
            0x10 => "OKI ADPCM",
            0x11 => "IMA ADPCM",
            0x14 | 0x40 | 0x45 | 0x64 => "G.72x ADPCM",
            0x31 => "GSM 6.10",
            0x38 => "NMS VBXADPCM",
            0x50 => "MPEG layer II",
            0x55 => "MP3",
            0x674F..=0x6771 => "Ogg Vorbis",
            0xF1AC => "FLAC",
            _ => "unknown",
        };
        if !codec.is_empty() {
            return Err(FormatError::unsupported(format!(
                "a WAV file of codec {tag:#06x} ({codec}); linear PCM, IEEE float, A-law and mu-law are read. Convert it to 16-bit PCM with another tool"
            )));
        }
        if channels == 0 || align == 0 || align % channels != 0 {
            return Err(FormatError::corrupt(format!("a WAV file of {channels} channels with {align} bytes a frame")));
        }
        let width = usize::from(align / channels);
        // Without the extensible form nothing says on which side narrower samples are padded.
        let fits = if extensible { usize::from(bits) <= width * 8 && bits > 0 } else { usize::from(bits).div_ceil(8) == width };
        wav.sample = match (tag, width) {
            (1, 1..=4) if fits => Sample::Int(width),
            (3, 4 | 8) if fits && usize::from(bits) == width * 8 => Sample::Float(width),
            (6, 1) if fits => Sample::Code(Law::A),
            (7, 1) if fits => Sample::Code(Law::Mu),
            _ => {
                let kind = match tag {
                    3 => "float",
                    6 | 7 => "G.711",
                    _ => "PCM",
                };
                return Err(FormatError::unsupported(format!("a WAV file of {bits}-bit {kind} samples in {width} bytes each")));
            }
        };
        Ok(wav)
    }
}

/// Where the samples are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    pub format: WavFormat,
    pub big_endian: bool,
    pub data_start: u64,
    pub frames: u64,
    /// What is wrong, where that is to be borne with.
    pub incomplete: Option<String>,
}

impl Layout {
    pub(super) fn read(src: &dyn ReadAt, keep_decodable: bool) -> Result<Self> {
        let head = read_up_to(src, 0, 12)?;
        let (order, wide) = match (head.get(..4), head.get(8..12)) {
            (Some(b"RIFF"), Some(b"WAVE")) => (Order::Little, false),
            (Some(b"RIFX"), Some(b"WAVE")) => (Order::Big, false),
            (Some(b"RF64" | b"BW64"), Some(b"WAVE")) => (Order::Little, true),
            _ => {
                return Err(FormatError::corrupt(format!(
                    "this is no WAV file: RIFF....WAVE is expected at its start, and '{}' found",
                    head.escape_ascii()
                )));
            }
        };
        let riff_size = order.u32(&head, 4).unwrap_or(0);
        let reader = Chunks { src, order };
        let (mut at, mut format, mut ds64) = (12, None, None);
        for _ in 0..MAX_CHUNKS {
            let Some(chunk) = reader.chunk(at)? else { break };
            match &chunk.id {
                b"data" => {
                    let Some(format) = format else {
                        return Err(FormatError::corrupt("a WAV file with no 'fmt ' chunk before its data"));
                    };
                    let data = Data { start: at + 8, size: chunk.size, riff_size, ds64 };
                    return data.layout(&reader, format, keep_decodable);
                }
                b"fmt " => format = Some(WavFormat::read(&reader.body(at, chunk.size, 64)?, order)?),
                b"ds64" if wide => ds64 = Ds64::read(&reader.body(at, chunk.size, 24)?, order),
                b"LIST" if reader.body(at, chunk.size, 4)? == b"wavl" => {
                    return Err(FormatError::unsupported("a WAV file whose samples are in a list of several parts ('wavl')"));
                }
                _ => {}
            }
            at = reader.after(at + 8, chunk.size.into())?;
        }
        Err(FormatError::corrupt(format!("a WAV file without a 'data' chunk in its {} bytes: it was cut short", src.size())))
    }
}

/// The 64-bit sizes of RF64.
#[derive(Debug, Clone, Copy)]
struct Ds64 {
    riff: u64,
    data: u64,
}

impl Ds64 {
    fn read(body: &[u8], order: Order) -> Option<Self> {
        Some(Self { riff: order.u64(body, 0)?, data: order.u64(body, 8)? })
    }
}

/// The data chunk, and the sizes that tell its length.
struct Data {
    start: u64,
    size: u32,
    riff_size: u32,
    ds64: Option<Ds64>,
}

impl Data {
    fn layout(&self, chunks: &Chunks<'_>, format: WavFormat, keep_decodable: bool) -> Result<Layout> {
        let frame = format.frame_bytes() as u64;
        let available = chunks.src.size().saturating_sub(self.start);
        let mut incomplete = None;
        let mut len = match self.declared(available) {
            None => available,
            Some(declared) if declared > available => {
                let e = format!(
                    "the WAV header declares {} frames, but the file ends after {}: it was cut short",
                    declared / frame,
                    available / frame
                );
                if !keep_decodable {
                    return Err(FormatError::corrupt(e));
                }
                incomplete = Some(e);
                available
            }
            Some(declared) => self.checked(chunks, declared, available)?,
        };
        // A pad byte that was counted in is no sample; other left-over bytes are half a frame.
        let rest = len % frame;
        let padded = rest == 1 && (len - rest) % 2 == 1;
        if rest > 0 && !padded && incomplete.is_none() {
            let e =
                format!("the WAV data of {len} bytes are {} frames of {frame} bytes and {rest} bytes of another", len / frame);
            if !keep_decodable {
                return Err(FormatError::corrupt(e));
            }
            incomplete = Some(e);
        }
        len -= rest;
        Ok(Layout { format, big_endian: chunks.order == Order::Big, data_start: self.start, frames: len / frame, incomplete })
    }

    /// The declared size; none where the writer could not know it, so that the data go on to the end of the file.
    fn declared(&self, available: u64) -> Option<u64> {
        match (self.size, self.ds64) {
            // A writer of RF64 that did not come to fill in its sizes.
            (u32::MAX, Some(Ds64 { data: 0 | u64::MAX, riff: 0 | u64::MAX })) => None,
            (u32::MAX, Some(ds64)) => Some(ds64.data),
            (0, _) if self.riff_size == 0 || UNKNOWN_SIZES.contains(&self.riff_size) => None,
            (size, _) if UNKNOWN_SIZES.contains(&size) && u64::from(size) > available => None,
            (size, _) => Some(size.into()),
        }
    }

    /// A size that the file can hold, held against what follows.
    fn checked(&self, chunks: &Chunks<'_>, declared: u64, available: u64) -> Result<u64> {
        let rest = available - declared;
        let wraps = self.ds64.is_none() && chunks.src.size() > u64::from(u32::MAX);
        if rest == 0 || !(declared == 0 || wraps) || chunks.only_chunks_after(self.start, declared)? {
            return Ok(declared);
        }
        if wraps && rest.is_multiple_of(1 << 32) {
            return Ok(available);
        }
        Err(FormatError::corrupt(format!(
            "the WAV header declares {declared} bytes of samples, but {rest} bytes follow that are no chunks: {}",
            if wraps {
                "its 32-bit size has wrapped, or the file was put together wrongly"
            } else {
                "its writer did not finish it"
            }
        )))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn bytes<const N: usize>(self, body: &[u8], at: usize) -> Option<[u8; N]> {
        let mut bytes: [u8; N] = body.get(at..at + N)?.try_into().ok()?;
        if self == Order::Big {
            bytes.reverse();
        }
        Some(bytes)
    }
    fn u16(self, body: &[u8], at: usize) -> Option<u16> {
        self.bytes(body, at).map(u16::from_le_bytes)
    }
    fn u32(self, body: &[u8], at: usize) -> Option<u32> {
        self.bytes(body, at).map(u32::from_le_bytes)
    }
    fn u64(self, body: &[u8], at: usize) -> Option<u64> {
        self.bytes(body, at).map(u64::from_le_bytes)
    }
}

struct Chunk {
    id: [u8; 4],
    size: u32,
}

struct Chunks<'a> {
    src: &'a dyn ReadAt,
    order: Order,
}

impl Chunks<'_> {
    /// The chunk at a position; none where less than a chunk's head is left.
    fn chunk(&self, at: u64) -> Result<Option<Chunk>> {
        let head = read_up_to(self.src, at, 8)?;
        Ok(head.first_chunk().zip(self.order.u32(&head, 4)).map(|(&id, size)| Chunk { id, size }))
    }
    /// The first bytes of the chunk at a position, `most` at most.
    fn body(&self, at: u64, size: u32, most: usize) -> Result<Vec<u8>> {
        read_up_to(self.src, at + 8, most.min(size as usize))
    }
    /// Where the chunk after the one with this body starts. After an odd size a pad byte belongs, which some writers leave out.
    fn after(&self, start: u64, size: u64) -> Result<u64> {
        let end = start + size;
        if size.is_multiple_of(2) {
            return Ok(end);
        }
        let next = read_up_to(self.src, end, 5)?;
        let known =
            |id: Option<&[u8]>| matches!(id, Some(b"data" | b"fmt " | b"LIST" | b"fact" | b"bext" | b"cue " | b"id3 " | b"JUNK"));
        let padded = next.first().is_none_or(|&pad| pad == 0) || known(next.get(1..5));
        Ok(if padded || !next.get(..4).is_some_and(is_id) { end + 1 } else { end })
    }
    /// Whether nothing but whole chunks stands from a body on to the end of the file.
    fn only_chunks_after(&self, start: u64, size: u64) -> Result<bool> {
        let mut at = self.after(start, size)?;
        for _ in 0..MAX_CHUNKS {
            match self.chunk(at)? {
                None => return Ok(at >= self.src.size()),
                Some(chunk) if is_id(&chunk.id) && at + 8 + u64::from(chunk.size) <= self.src.size() => {
                    at = self.after(at + 8, chunk.size.into())?
                }
                Some(_) => return Ok(false),
            }
        }
        Ok(false)
    }
}

fn is_id(id: &[u8]) -> bool {
    id.iter().all(|c| matches!(c, b' '..=b'~'))
}
