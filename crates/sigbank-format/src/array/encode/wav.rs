//! RIFF WAVE; RF64 where the sizes need it.

use super::scale::{Layout, Rounding, Samples, layout, samples, to_floats, to_ints};
use super::{EncodeOptions, Encoded, Loss, no_subtype};
use crate::array::{Format, Subtype};
use crate::error::{FormatError, Result};
use crate::limits::MAX_CHANNELS;
use crate::model::Array;

/// Format tags.
const PCM: u16 = 1;
const IEEE_FLOAT: u16 = 3;

pub(super) fn encode(array: &Array, options: &EncodeOptions<'_>) -> Result<Encoded> {
    let layout = layout(Format::Wav, array, options, MAX_CHANNELS)?;
    let samples = samples(Format::Wav, array)?;
    let mut loss = None;
    let (tag, width, data) = match options.subtype.unwrap_or(Subtype::Pcm16) {
        Subtype::PcmU8 => {
            let (ints, lost) = to_ints(samples, 8, Rounding::Down, options.lossy)?;
            loss = lost;
            (PCM, 1, ints.into_iter().map(|v| (v + 128) as u8).collect())
        }
        Subtype::Pcm16 => (PCM, 2, ints::<2>(samples, 16, options, &mut loss)?),
        Subtype::Pcm24 => (PCM, 3, ints::<3>(samples, 24, options, &mut loss)?),
        Subtype::Pcm32 => (PCM, 4, ints::<4>(samples, 32, options, &mut loss)?),
        Subtype::Float => {
            // An int32 or a float64 has digits that float32 has not; that is less than a step of 24 bits.
            let floats = to_floats(samples);
            (IEEE_FLOAT, 4, floats.into_iter().flat_map(|x| (x as f32).to_le_bytes()).collect::<Vec<u8>>())
        }
        Subtype::Double => (IEEE_FLOAT, 8, to_floats(samples).into_iter().flat_map(f64::to_le_bytes).collect()),
        other => return Err(no_subtype(Format::Wav, other, "PCM_U8, PCM_16, PCM_24, PCM_32, FLOAT, DOUBLE")),
    };
    let pad: &[u8] = if data.len() % 2 == 1 { &[0] } else { &[] };
    let header = header(&layout, tag, width, data.len() as u64, pad.len() as u64)?;
    Ok(Encoded { parts: vec![header.into(), data.into(), pad.to_vec().into()], loss })
}

/// The lowest N bytes of each integer.
fn ints<const N: usize>(samples: Samples, bits: u32, options: &EncodeOptions<'_>, loss: &mut Option<Loss>) -> Result<Vec<u8>> {
    let (ints, lost) = to_ints(samples, bits, Rounding::Down, options.lossy)?;
    *loss = lost;
    let mut data = Vec::with_capacity(ints.len() * N);
    for v in ints {
        data.extend_from_slice(v.to_le_bytes().get(..N).unwrap_or_default());
    }
    Ok(data)
}

fn header(layout: &Layout, tag: u16, width: usize, data: u64, pad: u64) -> Result<Vec<u8>> {
    let block = layout.channels * width;
    let (Ok(block_align), Ok(channels)) = (u16::try_from(block), u16::try_from(layout.channels)) else {
        return Err(FormatError::invalid(format!(
            "a frame of {block} bytes, where wav files have at most {}: write npy",
            u16::MAX
        )));
    };
    // Behind the format of floats stand an empty extension and the count of frames, which readers of other codings than PCM expect.
    let float = tag == IEEE_FLOAT;
    let before = if float { 4 + 8 + 18 + 8 + 4 + 8 } else { 4 + 8 + 16 + 8 };
    let riff = before + data + pad;
    let large = riff > u64::from(u32::MAX);
    let mut out = Vec::with_capacity(128);
    let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
    put(if large { b"RF64" } else { b"RIFF" });
    put(&u32::try_from(if large { u64::from(u32::MAX) } else { riff }).unwrap_or(u32::MAX).to_le_bytes());
    put(b"WAVE");
    if large {
        put(b"ds64");
        put(&28u32.to_le_bytes());
        for size in [riff + 36, data, layout.frames as u64] {
            put(&size.to_le_bytes());
        }
        put(&0u32.to_le_bytes());
    }
    put(b"fmt ");
    put(&(if float { 18u32 } else { 16 }).to_le_bytes());
    put(&tag.to_le_bytes());
    put(&channels.to_le_bytes());
    put(&layout.sample_rate.to_le_bytes());
    put(&layout.sample_rate.saturating_mul(u32::from(block_align)).to_le_bytes());
    put(&block_align.to_le_bytes());
    put(&(width as u16 * 8).to_le_bytes());
    if float {
        put(&0u16.to_le_bytes());
        put(b"fact");
        put(&4u32.to_le_bytes());
        put(&u32::try_from(layout.frames).unwrap_or(u32::MAX).to_le_bytes());
    }
    put(b"data");
    put(&u32::try_from(data).ok().filter(|_| !large).unwrap_or(u32::MAX).to_le_bytes());
    Ok(out)
}
