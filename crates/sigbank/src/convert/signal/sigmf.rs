//! SigMF: `NAME.sigmf-meta`, a JSON document, tells what the samples in `NAME.sigmf-data` are.

use crate::convert::{Candidate, recording};
use crate::error::{Error, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha512};
use sigbank_format::model::json::{Json, Limits};
use sigbank_format::model::{DType, Kind};
use sigbank_format::read_at::ReadAt;
use std::path::Path;
use std::sync::Arc;

/// The ending of the document.
pub(super) const META: &str = "sigmf-meta";
/// The ending of the samples.
pub(super) const DATA: &str = "sigmf-data";
/// The ending of both in a tar archive, which is not read.
pub(super) const ARCHIVE: &str = "sigmf";
/// Samples are hashed in blocks of so many bytes.
const BLOCK: u64 = 1 << 20;

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
    /// The first samples of captures, and the bytes in all headers up to theirs.
    headers: Vec<(u64, u64)>,
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
        let offset = number(global, "core:offset", 0)?;
        for segment in segments(&document, "annotations") {
            number(segment, "core:sample_count", 0)
                .and(number(segment, "core:sample_start", 0))
                .map_err(|e| e.within("annotations"))?;
        }
        let headers = headers(&document, offset).map_err(|e| e.within("captures"))?;
        let data = data_file(meta, global)?;
        let frame = channels.checked_mul(dtype.itemsize() as u64 * if pairs { 2 } else { 1 }).filter(|bytes| *bytes > 0);
        let around = headers.last().map_or(0, |last| last.1).checked_add(number(global, "core:trailing_bytes", 0)?);
        let bytes = around.and_then(|around| data.size.checked_sub(around));
        let (Some(frame), Some(bytes)) = (frame, bytes) else {
            return Err(Error::corrupt(format!(
                "core:num_channels is {channels}, and core:header_bytes and core:trailing_bytes are {} together, where the data file has {} bytes",
                around.map_or_else(|| "beyond 2^64".to_owned(), |n| n.to_string()),
                data.size
            )));
        };
        if bytes % frame != 0 {
            let what = format!("{bytes} bytes of samples, where {channels} of {datatype} take {frame}: no whole number of them");
            return Err(Error::corrupt(what).at(data.path.display()).remedy("see whether the file was cut short"));
        }
        if let Some((late, _)) = headers.iter().find(|(first, _)| *first > bytes / frame) {
            let what = format!(
                "a capture begins with sample {} ('core:sample_start'), where there are {}",
                offset.saturating_add(*late),
                bytes / frame
            );
            return Err(Error::corrupt(what).remedy(format!("see whether {} was cut short", data.path.display())));
        }
        match global.get("core:sha512") {
            None | Some(Value::Null) => {}
            Some(said) => compare(&data, said)?,
        }
        let rate = match global.get("core:sample_rate") {
            None | Some(Value::Null) => None,
            Some(rate) => Some(rate.as_f64().filter(|rate| *rate > 0.0).ok_or_else(|| {
                Error::corrupt(format!("'core:sample_rate' is {rate}, where a positive number of hertz is expected"))
            })?),
        };
        let size = |n: u64| usize::try_from(n).map_err(|_| Error::limit("more samples than can be addressed"));
        let (channels, frames) = (size(channels)?, size(bytes / frame)?);
        Ok(Self { data, dtype, pairs, channels, frames, rate, big_endian, headers, document })
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
        Ok(Raw { file, headers: self.headers.clone(), row, swap })
    }

    /// The document as it is for the samples from `start` to `end`: without the captures and annotations of others, which keep
    /// the recording's own sample numbers. And the frequency, where it is one.
    pub(super) fn said(&self, start: u64, end: u64) -> (Value, Option<f64>) {
        let global = self.document.get("global").cloned().unwrap_or_default();
        let offset = whole(global.get("core:offset")).unwrap_or(0);
        let first = |segment: &Value| first(segment, offset);
        let mut captures: Vec<&Value> = segments(&self.document, "captures").iter().collect();
        captures.sort_by_key(|capture| first(capture));
        // A capture lasts until the next.
        let ends: Vec<u64> = captures.iter().skip(1).map(|capture| first(capture)).chain([u64::MAX]).collect();
        let mut ends = ends.into_iter();
        captures.retain(|capture| ends.next().is_some_and(|to| first(capture) < end && to > start));
        let annotations = segments(&self.document, "annotations").iter().filter(|annotation| {
            let count = whole(annotation.get("core:sample_count"));
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

/// The captures or annotations of a document.
fn segments<'a>(document: &'a Value, key: &str) -> &'a [Value] {
    document.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The first sample of a capture or annotation, counted from the first one of the file.
fn first(segment: &Value, offset: u64) -> u64 {
    whole(segment.get("core:sample_start")).unwrap_or(offset).saturating_sub(offset)
}

/// See [`SigMf::headers`].
fn headers(document: &Value, offset: u64) -> Result<Vec<(u64, u64)>> {
    let (mut found, mut bytes) = (Vec::new(), 0u64);
    for capture in segments(document, "captures") {
        number(capture, "core:sample_start", 0)?;
        found.push((first(capture, offset), number(capture, "core:header_bytes", 0)?));
    }
    found.sort_by_key(|(first, _)| *first);
    if let Some((first, _)) = found.first_mut() {
        // Whatever the document says, nothing but this header comes before the first sample.
        *first = 0;
    }
    for (_, header) in &mut found {
        bytes = bytes.checked_add(*header).ok_or_else(|| Error::corrupt("'core:header_bytes' are more than any file has"))?;
        *header = bytes;
    }
    Ok(found)
}

/// Compares the samples with the checksum of their document.
fn compare(data: &Candidate, said: &Value) -> Result<()> {
    let expected = said.as_str().filter(|hex| hex.len() == 128 && hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let Some(expected) = expected else {
        return Err(Error::corrupt(format!("'core:sha512' is {said}, where 128 hexadecimal digits are expected")));
    };
    let located = |e: Error| e.at(data.path.display());
    let file = recording::open_file(data)?;
    let (mut hasher, mut at, mut block) = (Sha512::new(), 0, vec![0; BLOCK.min(file.size()) as usize]);
    while at < file.size() {
        let part = block.get_mut(..(file.size() - at).min(BLOCK) as usize).unwrap_or_default();
        file.read_at(at, part).map_err(|e| located(e.into()))?;
        hasher.update(&*part);
        at += part.len() as u64;
    }
    let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    Err(located(Error::corrupt(format!("the samples have the sha512 {found}, and their document says {expected} ('core:sha512')"))
        .remedy("restore the file from a copy; where the samples were changed on purpose, correct or remove the document's core:sha512")))
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
        if global.get("core:metadata_only") == Some(&Value::Bool(true)) {
            return Error::unsupported(format!(
                "the document comes without its samples ('core:metadata_only'), and {} is not there",
                path.display()
            ));
        }
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
        None | Some(Value::Null) => Ok(default),
        value @ Some(found) => {
            whole(value).ok_or_else(|| Error::corrupt(format!("'{key}' is {found}, where a whole number is expected")))
        }
    }
}

/// A whole number, also where it is written as 1e6 or 100.0.
fn whole(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    let float = || value.as_f64().filter(|f| f.fract() == 0.0 && (0.0..9.0e15).contains(f)).map(|f| f as u64);
    value.as_u64().or_else(float)
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
    headers: Vec<(u64, u64)>,
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
        let (from, end) = (out.len(), start + count);
        out.resize(from + count as usize * self.row, 0);
        let new = out.get_mut(from..).unwrap_or_default();
        let mut at = start;
        while at < end {
            // Up to the next header.
            let before = self.headers.partition_point(|(first, _)| *first <= at);
            let header = before.checked_sub(1).and_then(|last| self.headers.get(last)).map_or(0, |(_, bytes)| *bytes);
            let to = self.headers.get(before).map_or(end, |(next, _)| end.min(*next));
            let part = new.get_mut((at - start) as usize * self.row..(to - start) as usize * self.row).unwrap_or_default();
            self.file.read_at(header + at * self.row as u64, part)?;
            at = to;
        }
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
