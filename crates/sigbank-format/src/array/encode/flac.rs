//! FLAC of 8, 16 or 24 bits, by the `flacenc` crate.

use super::scale::{Rounding, layout, samples, to_ints};
use super::{EncodeOptions, Encoded, no_subtype};
use crate::array::{Format, Subtype};
use crate::error::{FormatError, Result};
use crate::model::Array;
use flacenc::bitsink::ByteSink;
use flacenc::component::BitRepr;
use flacenc::error::Verify;

/// What a FLAC stream can say: 20 bits, of which the format takes no more.
const MOST_HERTZ: u32 = 655_350;
const MOST_CHANNELS: usize = 8;
/// The highest rate that the encoder takes.
const ENCODERS_HERTZ: u32 = 96_000;
/// A rate that a frame's head has no word for, so that frames say theirs is the stream's.
const UNSPOKEN: u32 = 95_999;
/// Where the stream's rate stands: the upper 20 bits of three bytes.
const RATE: std::ops::Range<usize> = 18..21;

pub(super) fn encode(array: &Array, options: &EncodeOptions<'_>) -> Result<Encoded> {
    let layout = layout(Format::Flac, array, options, MOST_CHANNELS)?;
    if layout.sample_rate > MOST_HERTZ {
        return Err(FormatError::invalid(format!(
            "a sample rate of {} Hz, where flac files have at most {MOST_HERTZ}: write wav or npy",
            layout.sample_rate
        )));
    }
    if layout.frames == 0 {
        return Err(FormatError::invalid("an empty array: no reader opens a flac file of no frames, write wav or npy"));
    }
    let bits = match options.subtype.unwrap_or(Subtype::Pcm16) {
        Subtype::PcmS8 => 8,
        Subtype::Pcm16 => 16,
        Subtype::Pcm24 => 24,
        other => return Err(no_subtype(Format::Flac, other, "PCM_S8, PCM_16, PCM_24")),
    };
    let (ints, loss) = to_ints(samples(Format::Flac, array)?, bits, Rounding::Nearest, options.lossy)?;
    let failed = |what: &dyn std::fmt::Display| FormatError::invalid(format!("the flac encoder refused the array: {what}"));
    let config = flacenc::config::Encoder::default().into_verified().map_err(|(_, e)| failed(&e))?;
    // Higher rates are put in afterwards: the samples are encoded alike whatever the rate.
    let high = layout.sample_rate > ENCODERS_HERTZ;
    let rate = if high { UNSPOKEN } else { layout.sample_rate };
    let source = flacenc::source::MemSource::from_samples(&ints, layout.channels, bits as usize, rate as usize);
    let stream = flacenc::encode_with_fixed_block_size(&config, source, config.block_size).map_err(|e| failed(&e))?;
    let mut sink = ByteSink::new();
    stream.write(&mut sink).map_err(|e| failed(&e))?;
    let mut file = sink.into_inner();
    // The encoder counts the last block among the shortest, which may then have fewer frames than a stream's blocks can; the format
    // leaves the last one out of account. (The signature, a block's head, the shortest and the longest block.)
    let size = u16::try_from(config.block_size).unwrap_or(u16::MAX).to_be_bytes();
    if let Some(sizes) = file.get_mut(8..12) {
        sizes.copy_from_slice(&[size, size].concat());
    }
    if high && let Some([a, b, c]) = file.get_mut(RATE) {
        let [_, first, second, third] = (layout.sample_rate << 4 | u32::from(*c & 0xf)).to_be_bytes();
        (*a, *b, *c) = (first, second, third);
    }
    Ok(Encoded { parts: vec![file.into()], loss })
}
