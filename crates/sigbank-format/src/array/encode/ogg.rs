//! Ogg Vorbis, by libvorbis.

use super::scale::{layout, samples, to_floats};
use super::{EncodeOptions, Encoded, no_subtype};
use crate::array::{Format, Subtype};
use crate::error::{FormatError, Result};
use crate::model::Array;
use std::num::{NonZeroU8, NonZeroU32};
use vorbis_rs::{VorbisBitrateManagementStrategy, VorbisEncoderBuilder};

/// libvorbis knows no higher one.
const MOST_HERTZ: u32 = 200_000;
/// libsndfile's default.
const QUALITY: f32 = 0.4;
/// Frames that are handed over at once: libvorbis copies them to its stack.
const BLOCK: usize = 1024;
/// The same array gives the same file.
const SERIAL: i32 = 0x7369_6762;

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
    Ok(Encoded { parts: vec![file.into()], loss: None })
}
