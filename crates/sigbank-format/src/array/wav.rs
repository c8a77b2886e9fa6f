//! WAV: RIFF, RIFX (big-endian) and RF64/BW64, with linear PCM of 8 to 32 bits, IEEE floats, A-law or mu-law.

mod chunks;
mod law;

use super::audio::{Coding, info, put_floats, put_ints};
use super::{ArrayInfo, ArrayReader, Format, Options, Samples, Subtype};
use crate::error::Result;
use crate::model::Array;
use crate::model::array::byte_len;
use crate::read_at::ReadAt;
use chunks::{Layout, Sample};
use law::Law;
use std::sync::Arc;

/// Bytes of the file that are held at once while they are converted.
const BLOCK: usize = 1 << 20;

/// A WAV file that is open for reading.
pub(super) struct WavReader {
    src: Arc<dyn ReadAt>,
    layout: Layout,
    info: ArrayInfo,
    /// Whether the samples are delivered as they stand.
    direct: bool,
}

impl WavReader {
    pub(super) fn new(src: Arc<dyn ReadAt>, options: Options) -> Result<Self> {
        let layout = Layout::read(&*src, options.keep_decodable)?;
        let format = &layout.format;
        let (subtype, bits) = match format.sample {
            Sample::Int(1) => (Subtype::PcmU8, Some(8)),
            Sample::Int(2) => (Subtype::Pcm16, Some(16)),
            Sample::Int(3) => (Subtype::Pcm24, Some(24)),
            Sample::Int(_) => (Subtype::Pcm32, Some(32)),
            Sample::Code(Law::A) => (Subtype::ALaw, Some(16)),
            Sample::Code(Law::Mu) => (Subtype::ULaw, Some(16)),
            Sample::Float(4) => (Subtype::Float, None),
            Sample::Float(_) => (Subtype::Double, None),
        };
        let coding = Coding { subtype, bits_per_sample: Some(format.bits), full_scale_bits: bits, big_endian: layout.big_endian };
        let mut info = info(Format::Wav, &coding, format.sample_rate, format.channels, layout.frames, options.samples)?;
        info.incomplete = layout.incomplete.clone();
        let direct = options.samples == Samples::Stored
            && info.stored_dtype == info.dtype
            && format.sample.width() == info.dtype.itemsize();
        Ok(Self { src, layout, info, direct })
    }

    fn convert(&self, bytes: &[u8], out: &mut [u8]) {
        let (dtype, big) = (&self.info.dtype, self.layout.big_endian);
        match self.layout.format.sample {
            Sample::Int(1) => put_ints(bytes.iter().map(|&b| i32::from(b) - 128), 8, dtype, out),
            Sample::Int(2) => put_ints(numbers(bytes, big, |b| i32::from(i16::from_le_bytes(b))), 16, dtype, out),
            Sample::Int(3) => put_ints(numbers(bytes, big, |[a, b, c]| i32::from_le_bytes([0, a, b, c]) >> 8), 24, dtype, out),
            Sample::Int(_) => put_ints(numbers(bytes, big, i32::from_le_bytes), 32, dtype, out),
            Sample::Code(law) => put_ints(bytes.iter().map(|&b| i32::from(law.decode(b))), 16, dtype, out),
            Sample::Float(4) => put_floats(numbers(bytes, big, |b| f64::from(f32::from_le_bytes(b))), dtype, out),
            Sample::Float(_) => put_floats(numbers(bytes, big, f64::from_le_bytes), dtype, out),
        }
    }
}

/// The numbers of N bytes each in `bytes`, by a function of their bytes in little-endian order.
fn numbers<const N: usize, T>(bytes: &[u8], big_endian: bool, number: impl Fn([u8; N]) -> T) -> impl Iterator<Item = T> {
    bytes.as_chunks::<N>().0.iter().map(move |&chunk| {
        let mut chunk = chunk;
        if big_endian {
            chunk.reverse();
        }
        number(chunk)
    })
}

impl ArrayReader for WavReader {
    fn info(&self) -> &ArrayInfo {
        &self.info
    }
    fn read_rows(&mut self, start: usize, count: usize, out: &mut [u8]) -> Result<()> {
        self.info.check_window(start, count, out.len())?;
        let frame = self.layout.format.frame_bytes();
        let mut offset = self.layout.data_start + start as u64 * frame as u64;
        if self.direct && !out.is_empty() {
            return self.src.read_at(offset, out);
        }
        let mut block = Vec::new();
        let frames = (BLOCK / frame).max(1);
        for part in out.chunks_mut(frames * self.info.row_bytes()) {
            block.resize(part.len() / self.info.row_bytes() * frame, 0);
            self.src.read_at(offset, &mut block)?;
            self.convert(&block, part);
            offset += block.len() as u64;
        }
        Ok(())
    }
    fn read_all(&mut self) -> Result<Array> {
        // The file was found to hold as many frames.
        let mut data = vec![0; byte_len(&self.info.dtype, &self.info.shape)?];
        self.read_rows(0, self.info.rows(), &mut data)?;
        Array::new(self.info.dtype.clone(), self.info.shape.clone(), data.into())
    }
}
