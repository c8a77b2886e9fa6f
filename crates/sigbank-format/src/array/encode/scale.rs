//! Samples as the integers that audio files hold.

use super::{EncodeOptions, Loss};
use crate::array::Format;
use crate::error::{FormatError, Result};
use crate::limits::MAX_CHANNELS;
use crate::model::{Array, Kind};

/// More channels than frames are an array that lies on its side, from so many channels on.
const SUSPICIOUS_CHANNELS: usize = 9;

/// Readers keep the rate in 32 bits with a sign, libsndfile among them: of more, they refuse the file.
const MAX_RATE: u32 = i32::MAX as u32;

/// What an audio file says of its samples.
pub(super) struct Layout {
    pub frames: usize,
    pub channels: usize,
    pub sample_rate: u32,
}

/// Frames, channels and sample rate, where an audio file can have them.
pub(super) fn layout(format: Format, array: &Array, options: &EncodeOptions<'_>, most_channels: usize) -> Result<Layout> {
    let Some(sample_rate) = options.sample_rate.filter(|&rate| rate > 0) else {
        return Err(FormatError::invalid(format!("a {format} file needs a sample rate above 0: give one, in Hz")));
    };
    if sample_rate > MAX_RATE {
        return Err(FormatError::invalid(format!(
            "a sample rate of {sample_rate} Hz, where programs read audio files of up to {MAX_RATE} Hz: write npy, and the rate into the metadata"
        )));
    }
    let (frames, channels) = match *array.shape() {
        [frames] => (frames, 1),
        [frames, channels] => (frames, channels),
        ref other => {
            return Err(FormatError::invalid(format!(
                "{format} files hold arrays of shape (frames,) or (frames, channels), not {other:?}: write npy"
            )));
        }
    };
    if channels == 0 || channels > most_channels.min(MAX_CHANNELS) {
        return Err(FormatError::invalid(format!(
            "{format} files hold 1 to {most_channels} channels, and the shape {:?} asks for {channels}: is it (channels, frames)?",
            array.shape()
        )));
    }
    if channels >= SUSPICIOUS_CHANNELS && channels > frames {
        return Err(FormatError::invalid(format!(
            "the shape {:?} would be {channels} channels of {frames} frames: transpose it to (frames, channels), or write npy",
            array.shape()
        )));
    }
    Ok(Layout { frames, channels, sample_rate })
}

/// The numbers of an array that audio files can hold.
pub(super) enum Samples {
    /// Integers and how many bits they have.
    Ints(Vec<i32>, u32),
    Floats(Vec<f64>),
}

pub(super) fn samples(format: Format, array: &Array) -> Result<Samples> {
    fn numbers<const N: usize, T>(data: &[u8], big: bool, number: impl Fn([u8; N]) -> T) -> Vec<T> {
        let numbers = data.as_chunks::<N>().0.iter().map(|&chunk| {
            let mut chunk = chunk;
            if big {
                chunk.reverse();
            }
            number(chunk)
        });
        numbers.collect()
    }
    let (data, big) = (array.data(), array.dtype().is_big_endian());
    Ok(match (array.dtype().kind(), array.dtype().itemsize()) {
        (Kind::Int, 2) => Samples::Ints(numbers(data, big, |b| i32::from(i16::from_le_bytes(b))), 16),
        (Kind::Int, 4) => Samples::Ints(numbers(data, big, i32::from_le_bytes), 32),
        (Kind::Float, 4) => Samples::Floats(numbers(data, big, |b| f64::from(f32::from_le_bytes(b)))),
        (Kind::Float, 8) => Samples::Floats(numbers(data, big, f64::from_le_bytes)),
        _ => {
            return Err(FormatError::unsupported(format!(
                "{format} files hold int16, int32, float32 and float64 arrays, not {}: cast it, or write npy",
                array.dtype().name()
            )));
        }
    })
}

/// How floats become integers.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Rounding {
    /// To 32 bits, of which the upper ones are kept: downwards.
    Down,
    /// To the nearest.
    Nearest,
}

/// Samples as integers of so many bits, clipped, and what that changed.
pub(super) fn to_ints(samples: Samples, bits: u32, rounding: Rounding, lossy: bool) -> Result<(Vec<i32>, Option<Loss>)> {
    let mut loss = Loss { samples: 0, largest: 0.0, bits: Some(bits) };
    let full = f64::from(bits - 1).exp2();
    let ints = match samples {
        Samples::Ints(ints, from) if from <= bits => ints.into_iter().map(|v| v << (bits - from)).collect(),
        Samples::Ints(ints, from) => {
            let (shift, scale) = (from - bits, f64::from(from - 1).exp2());
            let cut = |v: i32| {
                let kept = v >> shift;
                let change = v - (kept << shift);
                if change != 0 {
                    loss.samples += 1;
                    loss.largest = loss.largest.max(f64::from(change) / scale);
                }
                kept
            };
            ints.into_iter().map(cut).collect()
        }
        Samples::Floats(floats) => {
            if !lossy && let Some(at) = floats.iter().position(|x| !x.is_finite()) {
                return Err(FormatError::invalid(format!(
                    "sample {at} is {}, which integers cannot say: write a float subtype or npy, or ask for lossy writing",
                    floats.get(at).copied().unwrap_or_default()
                )));
            }
            let (low, high) = (-full, full - 1.0);
            let scaled = |x: f64| {
                let wide = match rounding {
                    Rounding::Down => {
                        let whole = (x * 2f64.powi(31)).round_ties_even().clamp(-(2f64.powi(31)), 2f64.powi(31) - 1.0);
                        (whole / 2f64.powi(32 - bits as i32)).floor()
                    }
                    Rounding::Nearest => (x * full).round_ties_even().clamp(low, high),
                };
                let change = (x - wide / full).abs();
                if change * full >= 1.0 || !x.is_finite() {
                    loss.samples += 1;
                    loss.largest = if x.is_finite() { loss.largest.max(change) } else { f64::INFINITY };
                }
                wide as i32 // In range, and 0 for NaN.
            };
            floats.into_iter().map(scaled).collect()
        }
    };
    Ok((ints, Some(loss).filter(|loss| loss.samples > 0)))
}

/// Samples as floats on a full scale of 1.
pub(super) fn to_floats(samples: Samples) -> Vec<f64> {
    match samples {
        Samples::Floats(floats) => floats,
        Samples::Ints(ints, bits) => ints.into_iter().map(|v| f64::from(v) / f64::from(bits - 1).exp2()).collect(),
    }
}
