//! SigMF: `NAME.sigmf-meta`, a JSON document, tells what the samples in `NAME.sigmf-data` are.

use crate::convert::{Candidate, recording};
use crate::error::{Error, Result};
use serde_json::{Value, json};
use sigbank_format::model::json::{Json, Limits};
use sigbank_format::model::{DType, Kind};
use sigbank_format::read_at::ReadAt;
use std::path::Path;
use std::sync::Arc;

/// The ending of the document.
pub(super) const META: &str = "sigmf-meta";
/// The ending of the samples.
pub(super) const DATA: &str = "sigmf-data";

/// What a recording's document says.
#[derive(Debug)]
pub(in crate::convert) struct SigMf {
    /// Where the samples are.
    pub data: Candidate,
    /// As which the samples are read: complex floats as complex, of complex integers each part.
    pub dtype: DType,
    /// Whether two elements, real and imaginary part, are one sample.
    pub pairs: bool,
    pub channels: usize,
    /// Samples of a channel.
    pub frames: usize,
    pub rate: Option<f64>,
    big_endian: bool,
    /// Bytes before the first sample.
    header: u64,
    document: Value,
}

impl SigMf {
    /// Reads a document and looks at how many samples there are.
    pub(super) fn open(meta: &Candidate) -> Result<Self> {
        Self::parse(meta).map_err(|e| if e.path().is_some() { e } else { e.at(meta.path.display()) })
    }

    fn parse(meta: &Candidate) -> Result<Self> {
        let limits = Limits::default();
        if meta.size > limits.max_bytes {
            return Err(Error::limit(format!("a document of {} bytes, over the limit of {}", meta.size, limits.max_bytes)));
        }
        let document = Json::parse(&std::fs::read(&meta.path)?, &limits)?.to_value()?;
        let global = document
            .get("global")
            .filter(|global| global.is_object())
            .ok_or_else(|| Error::corrupt("there is no object 'global' in it, which each SigMF document has"))?;
        let datatype = global.get("core:datatype").and_then(Value::as_str);
        let datatype = datatype.ok_or_else(|| Error::corrupt("'core:datatype' is missing in 'global'"))?;
        let (dtype, pairs, big_endian) = elements(datatype)?;
        let channels = number(global, "core:num_channels", 1)?;
        let captures = document.get("captures").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut header = 0;
        for (at, capture) in captures.iter().enumerate() {
            match (at, number(capture, "core:header_bytes", 0)?) {
                (0, bytes) => header = bytes,
                (_, 0) => {}
                _ => return Err(Error::unsupported("there are header bytes between its captures ('core:header_bytes')")),
            }
        }
        let data = data_file(meta, global)?;
        let frame = channels.checked_mul(dtype.itemsize() as u64 * if pairs { 2 } else { 1 }).filter(|bytes| *bytes > 0);
        let around = header.checked_add(number(global, "core:trailing_bytes", 0)?);
        let bytes = around.and_then(|around| data.size.checked_sub(around));
        let (Some(frame), Some(bytes)) = (frame, bytes) else {
            return Err(Error::corrupt(format!("{channels} channels, {around:?} bytes that are no samples, of {}", data.size)));
        };
        if bytes % frame != 0 {
            let what = format!("{bytes} bytes of samples, where {channels} of {datatype} take {frame}: no whole number of them");
            return Err(Error::corrupt(what).at(data.path.display()).remedy("see whether the file was cut short"));
        }
        let rate = match global.get("core:sample_rate") {
            None | Some(Value::Null) => None,
            Some(rate) => Some(rate.as_f64().filter(|rate| *rate > 0.0).ok_or_else(|| {
                Error::corrupt(format!("'core:sample_rate' is {rate}, where a positive number of hertz is expected"))
            })?),
        };
        let size = |n: u64| usize::try_from(n).map_err(|_| Error::limit("more samples than can be addressed"));
        let (channels, frames) = (size(channels)?, size(bytes / frame)?);
        Ok(Self { data, dtype, pairs, channels, frames, rate, big_endian, header, document })
    }

    /// A reader of frames.
    pub(super) fn reader(&self) -> Result<Raw> {
        let file = recording::open_file(&self.data)?;
        if file.size() != self.data.size {
            let what = format!("it had {} bytes and has {} now: it changed while it was read", self.data.size, file.size());
            return Err(Error::conflict(what).at(self.data.path.display()));
        }
        let row = self.dtype.itemsize() * self.channels * if self.pairs { 2 } else { 1 };
        let swap = if self.big_endian { self.dtype.swap_width() } else { 1 };
        Ok(Raw { file, header: self.header, row, swap })
    }

    /// The document as it is for the samples from `start` to `end`: without the captures and annotations of others, which keep
    /// the recording's own sample numbers. And the frequency, where it is one.
    pub(super) fn said(&self, start: u64, end: u64) -> (Value, Option<f64>) {
        let global = self.document.get("global").cloned().unwrap_or_default();
        let offset = global.get("core:offset").and_then(Value::as_u64).unwrap_or(0);
        let list = |key: &str| self.document.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let first =
            |segment: &Value| segment.get("core:sample_start").and_then(Value::as_u64).unwrap_or(offset).saturating_sub(offset);
        let captures = list("captures");
        // A capture lasts until the next.
        let ends = captures.iter().skip(1).map(first).chain([u64::MAX]);
        let captures: Vec<&Value> = captures
            .iter()
            .zip(ends)
            .filter(|(capture, to)| first(capture) < end && *to > start)
            .map(|(capture, _)| capture)
            .collect();
        let annotations = list("annotations").iter().filter(|annotation| {
            let count = annotation.get("core:sample_count").and_then(Value::as_u64);
            first(annotation) < end && count.is_none_or(|count| first(annotation).saturating_add(count.max(1)) > start)
        });
        let frequency = |capture: &&Value| capture.get("core:frequency").and_then(Value::as_f64);
        let one = captures
            .first()
            .and_then(frequency)
            .filter(|_| captures.windows(2).all(|w| w.iter().map(frequency).is_sorted_by(|a, b| a == b)));
        (json!({"global": global, "captures": captures, "annotations": annotations.collect::<Vec<_>>()}), one)
    }
}

/// Where the samples are: a file of the same name, or the one that is named.
fn data_file(meta: &Candidate, global: &Value) -> Result<Candidate> {
    let path = match global.get("core:dataset").and_then(Value::as_str) {
        // A name, so that nobody's document leads elsewhere.
        Some(name) if Path::new(name).file_name() == Some(name.as_ref()) => meta.path.with_file_name(name),
        Some(name) => return Err(Error::corrupt(format!("'core:dataset' is {name:?}, which is no name of a file beside it"))),
        None => meta.path.with_extension(DATA),
    };
    let size = std::fs::metadata(&path).map_err(|e| {
        let missing = Error::from(e).within("the samples of the recording").at(path.display());
        missing.remedy(format!("put the file beside {}", meta.path.display()))
    })?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let source = meta.source.rsplit_once('/').map_or(name.clone(), |(folder, _)| format!("{folder}/{name}"));
    Ok(Candidate { source, size: size.len(), path })
}

/// A number of an object that must be a whole one where it is there.
fn number(object: &Value, key: &str, default: u64) -> Result<u64> {
    match object.get(key) {
        None => Ok(default),
        Some(value) => {
            value.as_u64().ok_or_else(|| Error::corrupt(format!("'{key}' is {value}, where a whole number is expected")))
        }
    }
}

/// What a datatype such as `cf32_le` is: the elements as they are delivered, whether two are one sample, and whether big-endian.
fn elements(datatype: &str) -> Result<(DType, bool, bool)> {
    let unknown = || {
        Error::unsupported(format!("'core:datatype' is '{datatype}', which SigMF does not have"))
            .remedy("it has c or r, then f32, f64, i32, i16, u32 or u16 with _le or _be behind it, or i8 or u8 without")
    };
    let (body, order) = match datatype.rsplit_once('_') {
        Some((body, order @ ("le" | "be"))) => (body, Some(order)),
        Some(_) => return Err(unknown()),
        None => (datatype, None),
    };
    let (complex, number) = match body.split_at_checked(1) {
        Some(("c", number)) => (true, number),
        Some(("r", number)) => (false, number),
        _ => return Err(unknown()),
    };
    let (kind, bytes) = match number {
        "f32" => (Kind::Float, 4),
        "f64" => (Kind::Float, 8),
        "i32" => (Kind::Int, 4),
        "u32" => (Kind::UInt, 4),
        "i16" => (Kind::Int, 2),
        "u16" => (Kind::UInt, 2),
        "i8" => (Kind::Int, 1),
        "u8" => (Kind::UInt, 1),
        _ => return Err(unknown()),
    };
    if (bytes > 1) != order.is_some() {
        return Err(unknown());
    }
    let big_endian = order == Some("be");
    Ok(match (kind, complex) {
        (Kind::Float, true) => (DType::new(Kind::Complex, 2 * bytes)?, false, big_endian),
        (kind, complex) => (DType::new(kind, bytes)?, complex, big_endian),
    })
}

/// Frames in a file without a header of its own.
pub(super) struct Raw {
    file: Arc<dyn ReadAt>,
    header: u64,
    /// Bytes of a frame.
    row: usize,
    /// Bytes that are turned round together.
    swap: usize,
}

impl Raw {
    /// Bytes of a frame.
    pub(super) fn row_bytes(&self) -> usize {
        self.row
    }
    /// Appends `count` frames from `start` on.
    pub(super) fn read(&self, start: u64, count: u64, out: &mut Vec<u8>) -> Result<()> {
        let from = out.len();
        out.resize(from + count as usize * self.row, 0);
        let new = out.get_mut(from..).unwrap_or_default();
        self.file.read_at(self.header + start * self.row as u64, new)?;
        if self.swap > 1 {
            new.chunks_exact_mut(self.swap).for_each(<[u8]>::reverse);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datatypes() {
        let told = |t: &str| elements(t).map(|(dtype, pairs, big)| (dtype.name(), pairs, big)).ok();
        let is = |name: &str, pairs, big| Some((name.to_owned(), pairs, big));
        assert_eq!(told("cf32_le"), is("complex64", false, false));
        assert_eq!(told("cf64_be"), is("complex128", false, true));
        assert_eq!(told("ci16_be"), is("int16", true, true));
        assert_eq!(told("cu8"), is("uint8", true, false));
        assert_eq!(told("ri32_le"), is("int32", false, false));
        assert_eq!(told("ru8"), is("uint8", false, false));
        for wrong in ["cf32", "ci8_le", "f32_le", "cf16_le", "", "é", "cf32_me", "ci64_le", "ru8_"] {
            assert_eq!(told(wrong), None, "{wrong}");
        }
    }
}
