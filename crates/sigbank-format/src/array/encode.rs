//! One array as one file: npy, wav, flac, ogg and mat.
//!
//! Audio files hold float32, float64, int16 or int32 arrays of shape (frames,) or (frames, channels). Floats are taken on a full scale
//! of [-1, 1) and clip outside of it, integers on their own; unless another subtype is asked for, wav and flac hold 16 bits. This, and how
//! samples are rounded, is what libsndfile does. What that changes by a step or more is told ([`Loss`]); ogg, which keeps samples about as they are,
//! is read again for it.

#[cfg(feature = "audio")]
mod flac;
#[cfg(feature = "audio")]
mod ogg;
#[cfg(feature = "audio")]
mod scale;
#[cfg(test)]
#[cfg(feature = "audio")]
mod tests;
#[cfg(feature = "audio")]
mod wav;

#[cfg(feature = "mat")]
use super::mat;
use super::{Format, Subtype, npy};
use crate::error::{FormatError, Result};
use crate::model::Array;
use bytes::Bytes;
use std::fmt;

/// How an array is to be written.
///
/// ```
/// use sigbank_format::array::EncodeOptions;
/// let options = EncodeOptions { sample_rate: Some(48_000), ..EncodeOptions::default() };
/// assert!(options.subtype.is_none() && !options.lossy);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodeOptions<'a> {
    /// The array's name, which mat files hold.
    pub name: &'a str,
    /// Frames a second, in Hz; audio files need it.
    pub sample_rate: Option<u32>,
    /// How a sample stands in an audio file; none for 16-bit PCM (wav, flac) and Vorbis (ogg).
    pub subtype: Option<Subtype>,
    /// Write samples that are not finite too (NaN as 0, infinities as full scale) in place of an error; but ogg refuses those, and is not
    /// looked into for its [`Loss`].
    pub lossy: bool,
}

impl Default for EncodeOptions<'_> {
    fn default() -> Self {
        Self { name: "data", sample_rate: None, subtype: None, lossy: false }
    }
}

/// A file that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoded {
    /// Its bytes, one part after another.
    pub parts: Vec<Bytes>,
    /// What the file does not hold of the array.
    pub loss: Option<Loss>,
}

/// What became of samples that a file's format cannot hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss {
    /// How many samples changed by one step of the format or more; of Vorbis, which has no steps, by one of 16 bits.
    pub samples: u64,
    /// The largest change, where 1 is the full scale; infinite where a sample was not finite.
    pub largest: f64,
    /// Bits of a sample in the file; none of Vorbis.
    pub bits: Option<u32>,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { samples, largest, bits } = self;
        match bits {
            Some(bits) => write!(
                f,
                "{samples} samples do not fit into {bits} bits; they were clipped or cut, by up to {largest:.3e} of the full scale"
            ),
            None => {
                write!(f, "Vorbis keeps samples about as they are; {samples} changed, by up to {largest:.3e} of the full scale")
            }
        }
    }
}

/// An array as the bytes of a file.
///
/// # Errors
/// Invalid: audio without a sample rate or with one that the format does not know, a shape or number of channels that it cannot hold, samples that are not
/// finite, an empty flac or ogg file. Unsupported: a dtype or subtype that the format does not hold.
///
/// ```
/// use sigbank_format::array::{self, EncodeOptions, Format};
/// use sigbank_format::model::Array;
/// use std::sync::Arc;
/// let tone: Vec<u8> = [0.0f32, 0.5, -1.0, 1.5].iter().flat_map(|x| x.to_le_bytes()).collect();
/// let tone = Array::new("<f4".parse()?, vec![4], tone.into())?;
/// let options = EncodeOptions { sample_rate: Some(8_000), ..EncodeOptions::default() };
/// let file = array::encode(Format::Wav, &tone, &options)?;
/// assert_eq!(file.loss.map(|loss| loss.samples), Some(1), "1.5 was clipped");
/// let read = array::open(Arc::new(bytes::Bytes::from(file.parts.concat())), Format::Wav)?.read_all()?;
/// assert_eq!(read.data().as_chunks::<8>().0.iter().map(|x| f64::from_le_bytes(*x)).collect::<Vec<_>>(), [0.0, 0.5, -1.0, 32767.0 / 32768.0]);
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub fn encode(format: Format, array: &Array, options: &EncodeOptions<'_>) -> Result<Encoded> {
    let plain = |parts| Ok(Encoded { parts, loss: None });
    match format {
        Format::Npy => plain(vec![npy::header(array.dtype(), array.shape())?.into(), array.data().clone()]),
        #[cfg(feature = "mat")]
        Format::Mat => plain(vec![mat::to_bytes(options.name, array)?.into()]),
        #[cfg(feature = "audio")]
        Format::Wav => wav::encode(array, options),
        #[cfg(feature = "audio")]
        Format::Flac => flac::encode(array, options),
        #[cfg(feature = "audio")]
        Format::Ogg => ogg::encode(array, options),
        #[allow(unreachable_patterns)] // Where all features are in.
        other => Err(super::left_out(other)),
    }
}

/// The refusal of a subtype.
#[cfg(feature = "audio")]
fn no_subtype(format: Format, subtype: Subtype, known: &str) -> FormatError {
    FormatError::unsupported(format!("{format} files of the subtype {subtype} are not written: choose one of {known}"))
}
