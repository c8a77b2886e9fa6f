//! The bytes of one member, at any position, inflated where they must be.

use super::{MAX_DEFLATE_RATIO, Npz, failure, wrong_length};
use crate::array::source::{Section, Stream};
use crate::error::{FormatError, Result};
use crate::limits::{FIRST_ALLOCATION, MAX_ARRAY_BYTES, MAX_NPY_HEADER};
use crate::read_at::ReadAt;
use bytes::Bytes;
use flate2::bufread::DeflateDecoder;
use libdeflater::{Crc, Decompressor};
use std::io::{BufReader, Read, Take};
use std::sync::Arc;
use zip::CompressionMethod;

/// A deflated member of at most so many bytes is inflated whole, which is faster, and kept.
const WHOLE: u64 = 8 << 20;
/// Most bytes of members that are kept.
pub(super) const KEPT: u64 = 64 << 20;
/// Deflated bytes read at a time.
const INPUT: usize = 128 << 10;
/// NumPy's headers have so many bytes, but for arrays of many axes.
const FRONT: u64 = 128;
/// Bytes inflated at a time to get past them.
const SKIP: usize = 64 << 10;
/// Bytes read at a time where only their checksum is wanted.
const SUMMED: u64 = 256 << 10;
/// As much of the end of an archive is read at once and kept: its directory, and all of a small archive.
pub(super) const TAIL: usize = 32 << 10;

/// Where a member lies in its archive.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: u64,
    packed: u64,
    size: u64,
    crc: u32,
}

impl Place {
    fn section(&self, src: &Arc<dyn ReadAt>) -> Result<Section> {
        Section::new(src.clone(), self.start, self.packed)
    }
    fn check(&self, found: u32) -> Result<()> {
        match found == self.crc {
            true => Ok(()),
            false => Err(FormatError::corrupt(format!(
                "the CRC-32 of its bytes is {found:08x}, and the archive declares {:08x}: the file is damaged",
                self.crc
            ))),
        }
    }
}

/// One member, open.
pub(super) enum Member {
    /// As it lies in the archive.
    Stored(Stored),
    /// Inflated into memory, its checksum checked.
    Whole(Bytes),
    /// Inflated as it is read: forward, or again from the start.
    Streamed(Box<Streamed>),
}

impl Member {
    /// Opens a member of an archive. Of a deflated one at most `keep` bytes are kept.
    pub(super) fn open(npz: &mut Npz, index: usize, keep: u64) -> Result<Self> {
        let (place, method) = {
            let file = npz.archive.by_index_raw(index).map_err(failure)?;
            if file.encrypted() {
                return Err(FormatError::unsupported("it is encrypted"));
            }
            let start =
                file.data_start().ok_or_else(|| FormatError::corrupt("the archive does not say where the member starts"))?;
            let place = Place { start, packed: file.compressed_size(), size: file.size(), crc: file.crc32() };
            (place, file.compression())
        };
        let src = &npz.src;
        match method {
            CompressionMethod::Stored if place.size == place.packed => {
                Ok(Self::Stored(Stored { src: place.section(src)?, place, sum: Crc::new(), summed: 0, verdict: Ok(()) }))
            }
            CompressionMethod::Stored => Err(wrong_length(place.size, place.packed)),
            CompressionMethod::Deflated => {
                if place.size > MAX_ARRAY_BYTES + MAX_NPY_HEADER as u64 {
                    return Err(FormatError::limit(format!(
                        "{} bytes, inflated ({MAX_ARRAY_BYTES} of elements at most)",
                        place.size
                    )));
                }
                if place.size / MAX_DEFLATE_RATIO > place.packed {
                    return Err(FormatError::corrupt(format!(
                        "{} bytes cannot inflate to the {} declared",
                        place.packed, place.size
                    )));
                }
                if place.size <= WHOLE.min(keep) {
                    whole(src, place)
                } else {
                    Ok(Self::Streamed(Box::new(Streamed::new(src, place)?)))
                }
            }
            other => Err(FormatError::unsupported(format!("it is compressed by {other}; members of npz are stored or deflated"))),
        }
    }

    /// Bytes that it holds in memory.
    pub(super) fn kept(&self) -> u64 {
        match self {
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Stored(_) | Self::Streamed(_) => 0,
        }
    }

    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Stored(stored) => stored.place.size,
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Streamed(streamed) => streamed.place.size,
        }
    }

    /// The member's npy header with a little more or less, as a source that is as long as the member.
    pub(super) fn front(&mut self) -> Result<Front> {
        let size = self.size();
        let mut front = Front { bytes: vec![0; size.min(FRONT) as usize], size };
        self.peek(&mut front.bytes)?;
        let long = match front.bytes.get(6..12) {
            Some(&[2 | 3, _, a, b, c, d]) => u64::from(u32::from_le_bytes([a, b, c, d])),
            Some(&[_, _, a, b, _, _]) => u64::from(u16::from_le_bytes([a, b])),
            _ => 0,
        };
        let all = size.min(12 + long.min(MAX_NPY_HEADER as u64));
        if all > FRONT {
            front.bytes.resize(all as usize, 0);
            self.peek(&mut front.bytes)?;
        }
        Ok(front)
    }

    fn peek(&mut self, buf: &mut [u8]) -> Result<()> {
        match self {
            Self::Stored(stored) => stored.src.read_at(0, buf),
            other => other.read_at(0, buf),
        }
    }

    /// Takes the npy header into the checksum of a member that is read by ranges.
    pub(super) fn begin(&mut self, header: &[u8]) {
        if let Self::Stored(stored) = self {
            stored.add(header);
        }
    }

    /// Checks the checksum. What was read in order since the beginning is not read again, and nothing is where it was checked before.
    pub(super) fn verify(&mut self, scratch: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Stored(stored) => stored.verify(scratch),
            // It was checked when it was inflated.
            Self::Whole(_) => Ok(()),
            Self::Streamed(streamed) => streamed.verify(),
        }
    }

    /// Fills `buf` from `at` on.
    pub(super) fn read_at(&mut self, at: u64, buf: &mut [u8]) -> Result<()> {
        match self {
            Self::Stored(stored) => stored.read_at(at, buf),
            Self::Whole(bytes) => bytes.read_at(at, buf),
            Self::Streamed(streamed) => streamed.read_at(at, buf),
        }
    }

    /// `len` bytes from `at` on: the member's own memory, or `scratch`.
    pub(super) fn window<'a>(&'a mut self, at: u64, len: usize, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        if let Self::Whole(bytes) = self {
            let part = usize::try_from(at).ok().and_then(|at| bytes.get(at..)?.get(..len));
            return part.ok_or_else(|| crate::read_at::past_end(at, len, bytes.len() as u64));
        }
        self.fill(at, len, scratch)?;
        Ok(scratch)
    }

    /// Fills `scratch` with `len` bytes from `at` on. It grows with what arrives.
    pub(super) fn fill(&mut self, at: u64, len: usize, scratch: &mut Vec<u8>) -> Result<()> {
        scratch.clear();
        while scratch.len() < len {
            let have = scratch.len();
            scratch.resize(len.min(have + have.max(FIRST_ALLOCATION)), 0);
            self.read_at(at + have as u64, scratch.get_mut(have..).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Inflates all of a member at once.
fn whole(src: &Arc<dyn ReadAt>, place: Place) -> Result<Member> {
    let section = place.section(src)?;
    let packed = crate::array::source::read_up_to(&section, 0, usize::try_from(place.packed).unwrap_or(usize::MAX))?;
    // At most 8 MiB, and found to be possible.
    let mut bytes = vec![0; place.size as usize];
    match Decompressor::new().deflate_decompress(&packed, &mut bytes) {
        Ok(len) if len == bytes.len() => {}
        Ok(len) => return Err(wrong_length(place.size, len as u64)),
        Err(e) => return Err(FormatError::corrupt(format!("the deflated data are damaged: {e}"))),
    }
    place.check(libdeflater::crc32(&bytes))?;
    Ok(Member::Whole(bytes.into()))
}

/// The first bytes of a member.
#[derive(Clone)]
pub(super) struct Front {
    pub bytes: Vec<u8>,
    size: u64,
}

impl ReadAt for Front {
    fn size(&self) -> u64 {
        self.size
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.bytes[..].read_at(offset, buf)
    }
}

/// A stored member. Its checksum is checked where it is read from the first element to its end, or when it is asked for.
pub(super) struct Stored {
    src: Section,
    place: Place,
    sum: Crc,
    /// As many bytes are in the sum.
    summed: u64,
    /// What the checksum said once all was read.
    verdict: Result<()>,
}

impl Stored {
    fn read_at(&mut self, at: u64, buf: &mut [u8]) -> Result<()> {
        self.src.read_at(at, buf)?;
        if at == self.summed && !buf.is_empty() {
            self.add(buf);
        }
        self.verdict.clone()
    }

    /// Takes the bytes that come next into the sum.
    fn add(&mut self, bytes: &[u8]) {
        self.sum.update(bytes);
        self.summed += bytes.len() as u64;
        if self.summed == self.place.size {
            self.verdict = self.place.check(self.sum.sum());
        }
    }

    fn verify(&mut self, scratch: &mut Vec<u8>) -> Result<()> {
        while let left @ 1.. = self.place.size.saturating_sub(self.summed) {
            scratch.resize(left.min(SUMMED) as usize, 0);
            self.src.read_at(self.summed, scratch)?;
            self.add(scratch);
        }
        self.verdict.clone()
    }
}

type Deflated = DeflateDecoder<BufReader<Take<Stream>>>;

/// A deflated member that is inflated as it is read. Its checksum is checked at its end.
pub(super) struct Streamed {
    src: Arc<dyn ReadAt>,
    place: Place,
    decoder: Deflated,
    sum: Crc,
    at: u64,
    skipped: Vec<u8>,
    verified: bool,
}

impl Streamed {
    fn new(src: &Arc<dyn ReadAt>, place: Place) -> Result<Self> {
        let src: Arc<dyn ReadAt> = Arc::new(place.section(src)?);
        let decoder = Self::decoder(&src);
        Ok(Self { src, place, decoder, sum: Crc::new(), at: 0, skipped: Vec::new(), verified: false })
    }

    fn decoder(src: &Arc<dyn ReadAt>) -> Deflated {
        let input = (src.size().min(INPUT as u64) as usize).max(1);
        DeflateDecoder::new(BufReader::with_capacity(input, Stream::new(src.clone(), 0).take(u64::MAX)))
    }

    fn read_at(&mut self, at: u64, buf: &mut [u8]) -> Result<()> {
        if at < self.at {
            self.decoder = Self::decoder(&self.src);
            (self.sum, self.at) = (Crc::new(), 0);
        }
        let mut skipped = std::mem::take(&mut self.skipped);
        skipped.resize(SKIP, 0);
        while self.at < at {
            let step = (at - self.at).min(SKIP as u64) as usize;
            self.fill(skipped.get_mut(..step).unwrap_or_default())?;
        }
        self.skipped = skipped;
        self.fill(buf)
    }

    fn verify(&mut self) -> Result<()> {
        if self.verified { Ok(()) } else { self.read_at(self.place.size, &mut []) }
    }

    fn fill(&mut self, buf: &mut [u8]) -> Result<()> {
        let mut rest = &mut buf[..];
        while !rest.is_empty() {
            let n = match self.decoder.read(rest) {
                Ok(0) => return Err(wrong_length(self.place.size, self.at)),
                Ok(n) => n,
                Err(e) => return Err(FormatError::from(e).within("the deflated data")),
            };
            let (done, more) = rest.split_at_mut_checked(n).unwrap_or_default();
            self.sum.update(done);
            self.at += n as u64;
            rest = more;
        }
        if self.at == self.place.size {
            if self.decoder.read(&mut [0])? > 0 {
                return Err(wrong_length(self.place.size, self.at + 1));
            }
            self.place.check(self.sum.sum())?;
            self.verified = true;
        }
        Ok(())
    }
}
