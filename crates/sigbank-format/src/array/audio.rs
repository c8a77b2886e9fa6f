//! What the audio formats share: the scale of samples, and windows over a codec that only goes forward.

use super::{ArrayInfo, ArrayReader, AudioInfo, Format, Samples, Subtype};
use crate::error::{FormatError, Result};
use crate::limits::MAX_CHANNELS;
use crate::model::array::byte_len;
use crate::model::{ByteOrder, DType, Kind};

/// What a file says of its samples.
pub(super) struct Coding {
    pub subtype: Subtype,
    /// Bits that count, none for Vorbis.
    pub bits_per_sample: Option<u32>,
    /// For integers: the exponent of the full scale, plus one.
    pub full_scale_bits: Option<u32>,
    pub big_endian: bool,
}

/// The info of an audio file, checked against the limits.
pub(super) fn info(
    format: Format,
    coding: &Coding,
    sample_rate: u32,
    channels: usize,
    frames: u64,
    samples: Samples,
) -> Result<ArrayInfo> {
    if channels == 0 {
        return Err(FormatError::corrupt("an audio file of no channels"));
    }
    if channels > MAX_CHANNELS {
        return Err(FormatError::limit(format!("an audio file of {channels} channels (at most {MAX_CHANNELS} are read)")));
    }
    let stored = match coding.subtype {
        Subtype::PcmU8 | Subtype::ALaw | Subtype::ULaw => (Kind::UInt, 1),
        Subtype::PcmS8 => (Kind::Int, 1),
        Subtype::Pcm16 => (Kind::Int, 2),
        Subtype::Pcm24 | Subtype::Pcm32 => (Kind::Int, 4),
        Subtype::Float | Subtype::Vorbis => (Kind::Float, 4),
        Subtype::Double => (Kind::Float, 8),
    };
    let delivered = match (samples, coding.subtype) {
        (Samples::Float64, _) => (Kind::Float, 8),
        (Samples::Float32, _) => (Kind::Float, 4),
        (Samples::Stored, Subtype::PcmU8) => (Kind::Int, 1),
        (Samples::Stored, Subtype::ALaw | Subtype::ULaw) => (Kind::Int, 2),
        (Samples::Stored, _) => stored,
    };
    let dtype = DType::new(delivered.0, delivered.1)?;
    let frames = usize::try_from(frames).map_err(|_| FormatError::limit(format!("an audio file of {frames} frames")))?;
    let shape = if channels == 1 { vec![frames] } else { vec![frames, channels] };
    byte_len(&dtype, &shape)?;
    Ok(ArrayInfo {
        format,
        dtype,
        stored_dtype: DType::new(stored.0, stored.1)?.with_order(if coding.big_endian {
            ByteOrder::Big
        } else {
            ByteOrder::Little
        }),
        shape,
        audio: Some(AudioInfo {
            sample_rate: (sample_rate > 0).then_some(sample_rate),
            channels,
            subtype: coding.subtype,
            bits_per_sample: coding.bits_per_sample,
            full_scale_bits: coding.full_scale_bits,
        }),
        incomplete: None,
        trailing_bytes: 0,
    })
}

/// Writes integer samples of a full scale of 2^(bits - 1) as elements of `dtype`: divided by it, or as they are.
pub(super) fn put_ints(values: impl Iterator<Item = i32>, bits: u32, dtype: &DType, out: &mut [u8]) {
    // A power of two: the product is exact in float64, and rounded once, from the integer, in float32.
    let scale = f64::from(1 - bits as i32).exp2();
    match (dtype.kind(), dtype.itemsize()) {
        (Kind::Float, 8) => put(values.map(|v| (f64::from(v) * scale).to_le_bytes()), out),
        (Kind::Float, _) => put(values.map(|v| ((f64::from(v) * scale) as f32).to_le_bytes()), out),
        (_, 1) => put(values.map(|v| (v as i8).to_le_bytes()), out),
        (_, 2) => put(values.map(|v| (v as i16).to_le_bytes()), out),
        _ => put(values.map(i32::to_le_bytes), out),
    }
}

/// Writes float samples as elements of `dtype`, which is a float.
pub(super) fn put_floats(values: impl Iterator<Item = f64>, dtype: &DType, out: &mut [u8]) {
    match dtype.itemsize() {
        8 => put(values.map(f64::to_le_bytes), out),
        _ => put(values.map(|v| (v as f32).to_le_bytes()), out),
    }
}

fn put<const N: usize>(values: impl Iterator<Item = [u8; N]>, out: &mut [u8]) {
    out.as_chunks_mut::<N>().0.iter_mut().zip(values).for_each(|(place, value)| *place = value);
}

/// A codec that gives its frames block after block.
pub(super) trait Blocks: Send {
    /// One decoded sample.
    type Sample: Copy + Send;
    /// Goes back to the first frame.
    fn rewind(&mut self) -> Result<()>;
    /// Replaces `block` by the next frames, channels interleaved; leaves it empty at the end of the stream.
    fn next_block(&mut self, block: &mut Vec<Self::Sample>) -> Result<()>;
    /// Writes samples as elements of `dtype`.
    fn put(&self, samples: &[Self::Sample], dtype: &DType, out: &mut [u8]);
}

/// Decodes a stream to its end or its first damage: how many frames there are, and what the damage is.
pub(super) fn count_frames<B: Blocks>(blocks: &mut B, channels: usize) -> Result<(u64, Option<FormatError>)> {
    blocks.rewind()?;
    let (mut frames, mut block) = (0, Vec::new());
    loop {
        match blocks.next_block(&mut block) {
            Ok(()) if block.is_empty() => return Ok((frames, None)),
            Ok(()) => frames += (block.len() / channels) as u64,
            Err(e) => return Ok((frames, Some(e))),
        }
    }
}

/// Windows over a codec: one block is held, and only a window that lies before it starts the stream again.
pub(super) struct Sequential<B: Blocks> {
    info: ArrayInfo,
    channels: usize,
    blocks: B,
    block: Vec<B::Sample>,
    /// The first frame of the block; none before the first one is decoded and after an error.
    block_start: Option<usize>,
}

impl<B: Blocks> Sequential<B> {
    pub(super) fn new(info: ArrayInfo, channels: usize, blocks: B) -> Self {
        Self { info, channels, blocks, block: Vec::new(), block_start: None }
    }

    /// Decodes up to the block that holds a frame, and gives the block's first frame.
    fn seek(&mut self, frame: usize) -> Result<usize> {
        let mut start = match self.block_start.take() {
            Some(start) if start <= frame => start,
            _ => {
                self.blocks.rewind()?;
                self.block.clear();
                0
            }
        };
        loop {
            let end = start + self.block.len() / self.channels;
            if frame < end {
                self.block_start = Some(start);
                return Ok(start);
            }
            let declared = self.info.rows();
            self.blocks.next_block(&mut self.block).map_err(|e| e.within(format!("after {end} of {declared} frames")))?;
            if self.block.is_empty() {
                return Err(FormatError::corrupt(format!(
                    "{declared} frames are expected, but the stream ends after {end}: it was cut short"
                )));
            }
            start = end;
        }
    }
}

impl<B: Blocks> ArrayReader for Sequential<B> {
    fn info(&self) -> &ArrayInfo {
        &self.info
    }
    fn read_rows(&mut self, start: usize, count: usize, out: &mut [u8]) -> Result<()> {
        self.info.check_window(start, count, out.len())?;
        let (mut frame, end, mut out) = (start, start + count, out);
        while frame < end {
            let block_start = self.seek(frame)?;
            let samples = self.block.get((frame - block_start) * self.channels..).unwrap_or_default();
            let taken = (samples.len() / self.channels).min(end - frame);
            let (filled, rest) = std::mem::take(&mut out).split_at_mut(taken * self.info.row_bytes());
            self.blocks.put(samples.get(..taken * self.channels).unwrap_or_default(), &self.info.dtype, filled);
            out = rest;
            frame += taken;
        }
        Ok(())
    }
}
