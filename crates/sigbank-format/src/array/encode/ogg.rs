//! Ogg Vorbis, by libvorbis.

use super::scale::{layout, samples, to_floats};
use super::{EncodeOptions, Encoded, Loss, no_subtype};
use crate::array::{self, Format, Subtype};
use crate::error::{FormatError, Result};
use crate::model::Array;
use bytes::Bytes;
use std::num::{NonZeroU8, NonZeroU32};
use std::sync::Arc;
use vorbis_rs::{VorbisBitrateManagementStrategy, VorbisEncoderBuilder};

/// libvorbis knows no higher one.
const MOST_HERTZ: u32 = 200_000;
/// libsndfile's default.
const QUALITY: f32 = 0.4;
/// Frames that are handed over at once: libvorbis copies them to its stack.
const BLOCK: usize = 1024;
/// Changes from so much of the full scale on are told: a step of 16 bits.
const STEP: f64 = 1.0 / 32768.0;
/// The same array gives the same file.
const SERIAL: i32 = 0x7369_6762;

/// What a file holds of the samples.
fn loss(file: &Bytes, floats: &[f64], channels: usize) -> Result<Option<Loss>> {
    let mut reader = array::open(Arc::new(file.clone()), Format::Ogg)?;
    let (frames, row) = (reader.info().rows(), reader.info().row_bytes());
    let mut loss = Loss { samples: 0, largest: 0.0, bits: None };
    let mut block = vec![0; BLOCK * row];
    for (start, wanted) in (0..).step_by(BLOCK).zip(floats.chunks(BLOCK * channels)) {
        let count = (wanted.len() / channels).min(frames.saturating_sub(start));
        let Some(found) = block.get_mut(..count * row) else { break };
        reader.read_rows(start, count, found)?;
        for (bytes, wanted) in found.as_chunks::<8>().0.iter().zip(wanted) {
            let change = (f64::from_le_bytes(*bytes) - wanted).abs();
            if change >= STEP {
                loss.samples += 1;
                loss.largest = loss.largest.max(change);
            }
        }
    }
    Ok(Some(loss).filter(|loss| loss.samples > 0))
}

pub(super) fn encode(array: &Array, options: &EncodeOptions<'_>) -> Result<Encoded> {
    let layout = layout(Format::Ogg, array, options, 255)?;
    if layout.sample_rate > MOST_HERTZ {
        return Err(FormatError::invalid(format!(
            "a sample rate of {} Hz, where Vorbis has at most {MOST_HERTZ}: write wav or npy",
            layout.sample_rate
        )));
    }
    if layout.frames == 0 {
        return Err(FormatError::invalid("an empty array, of which no ogg file can be made: write wav or npy"));
    }
    if let Some(other) = options.subtype.filter(|&subtype| subtype != Subtype::Vorbis) {
        return Err(no_subtype(Format::Ogg, other, "VORBIS"));
    }
    let floats = to_floats(samples(Format::Ogg, array)?);
    if let Some(at) = floats.iter().position(|x| !x.is_finite()) {
        return Err(FormatError::invalid(format!(
            "sample {at} is {}, which Vorbis cannot say: write npy or float wav",
            floats.get(at).copied().unwrap_or_default()
        )));
    }
    let failed = |e: vorbis_rs::VorbisError| FormatError::invalid(format!("the Vorbis encoder refused the array: {e}"));
    let (Some(rate), Some(channels)) =
        (NonZeroU32::new(layout.sample_rate), u8::try_from(layout.channels).ok().and_then(NonZeroU8::new))
    else {
        return Err(FormatError::invalid("Vorbis has 1 to 255 channels, and a sample rate above 0"));
    };
    let mut builder = VorbisEncoderBuilder::new_with_serial(rate, channels, Vec::new(), SERIAL);
    builder.bitrate_management_strategy(VorbisBitrateManagementStrategy::QualityVbr { target_quality: QUALITY });
    let mut encoder = builder.build().map_err(failed)?;
    let mut block: Vec<Vec<f32>> = vec![Vec::with_capacity(BLOCK); layout.channels];
    for frames in floats.chunks(BLOCK * layout.channels) {
        block.iter_mut().for_each(Vec::clear);
        for frame in frames.chunks_exact(layout.channels) {
            block.iter_mut().zip(frame).for_each(|(channel, &x)| channel.push(x as f32));
        }
        encoder.encode_audio_block(&block).map_err(failed)?;
    }
    let file = encoder.finish().map_err(failed)?;
    let file = Bytes::from(file);
    // What is written knowingly need not be read for it.
    let loss = if options.lossy { None } else { loss(&file, &floats, layout.channels)? };
    Ok(Encoded { parts: vec![file], loss })
}
