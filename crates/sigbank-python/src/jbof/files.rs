//! Files that become arrays.

use super::arrays::of_decoded;
use super::errors::{of_class, raise};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use serde_json::Value;
use sigbank::format::array::{self, ArrayReader, EncodeOptions, Encoded, Format, Options, Subtype};
use sigbank::format::error::{FormatError, FormatErrorKind};
use sigbank::format::model::Array;
use sigbank::format::model::json::Json;
use sigbank::format::read_at::ReadAt;
use sigbank::layout::jbof::{ArrayEntry, ArrayFile, Dataset};
use sigbank::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// What is known of a file that was added: what of it is missing, in words, and the array, where all of it was read to be sure.
type Added<'py> = (Option<String>, Option<Bound<'py, PyTuple>>);

/// A file that is to be added.
pub struct New<'a> {
    pub name: &'a str,
    pub path: &'a Path,
    pub metadata: Json,
    /// NumPy found it to be an array already.
    pub checked: bool,
    /// What decodes of audio that is cut short or damaged is taken.
    pub incomplete: bool,
}

/// Adds a copy of a file, whose content decides what it is: a file of wav named `.flac` becomes one named `.wav`. Of audio, the sample rate
/// that the file says is in the metadata.
pub fn add<'py>(py: Python<'py>, dataset: &Dataset, item: &str, new: &New<'_>) -> PyResult<Added<'py>> {
    let (src, format) = py.detach(|| look(new.path)).map_err(raise)?;
    let format = format.ok_or_else(|| {
        let known = Format::ALL.map(Format::extension).join(", ");
        let what = format!("{}: this is no array: files of {known} can be added", new.path.display());
        of_class("UnknownFormatError", what)
    })?;
    let (missing, decoded) = py.detach(|| put(dataset, item, new, src, format)).map_err(raise)?;
    let decoded = decoded.map(|(entry, array, rate)| of_decoded(py, &entry, array, rate)).transpose()?;
    Ok((missing, decoded))
}

type Decoded = (ArrayEntry, Array, Option<u32>);

fn put(dataset: &Dataset, item: &str, new: &New<'_>, src: OnDisk, format: Format) -> Result<(Option<String>, Option<Decoded>)> {
    let item = dataset.item_unseen(item)?;
    let New { name, path, .. } = *new;
    let copy = |metadata: &Json| item.put_array(name, &ArrayFile::copy_of(format.extension(), path), metadata, None);
    if new.checked {
        return copy(&new.metadata).map(|_| (None, None));
    }
    let src = Arc::new(src);
    let located = |e: FormatError| refused(e, new, &src, format);
    let options = Options { keep_decodable: new.incomplete, ..Options::default() };
    let opened = match format {
        Format::Mat => array::mat::open(src.clone(), name),
        _ => array::open_with(src.clone(), format, options),
    };
    let mut reader = opened.map_err(located)?;
    let rate = reader.info().sample_rate();
    let missing = reader.info().incomplete.clone();
    let mut metadata = new.metadata.clone();
    if let (Some(rate), Value::Object(mut object)) = (rate, metadata.to_value()?) {
        object.insert("samplerate".to_owned(), rate.into());
        metadata = Json::from_value(&Value::Object(object))?;
    }
    // What carries checksums of its samples is compared with them before it is there.
    let sums = matches!(format, Format::Flac | Format::Ogg);
    if !sums && missing.is_none() {
        return copy(&metadata).map(|_| (None, None));
    }
    if let Some(missing) = missing.as_ref().filter(|_| reader.info().rows() == 0) {
        return Err(Error::corrupt(format!("nothing of it decodes: {missing}"))
            .at(path.display())
            .remedy("restore it from a copy"));
    }
    let array = reader.read_all().map_err(located)?;
    if missing.is_some() {
        let (format, file) = anew(&*reader, format, &array).map_err(located)?;
        let parts: Vec<&[u8]> = file.parts.iter().map(|part| &part[..]).collect();
        item.put_array(name, &ArrayFile::new(format.extension(), &parts), &metadata, None)?;
    } else {
        copy(&metadata)?;
    }
    Ok((missing, Some((item.array(name)?, array, rate))))
}

/// An error of reading with what helps: what decodes is offered only where something does.
fn refused(e: FormatError, new: &New<'_>, src: &Arc<OnDisk>, format: Format) -> Error {
    let (kind, e) = (e.kind(), Error::from(e).at(new.path.display()));
    let audio = matches!(format, Format::Wav | Format::Flac | Format::Ogg);
    if !audio || kind != FormatErrorKind::Corrupt {
        return e;
    }
    if src.head().is_ok_and(|head| Format::sniff(&head).is_none()) {
        return e.remedy(format!(
            "see what it is: a file of another kind is not made {format} by its name, so convert it with another tool; a damaged one is to be \
             restored from a copy"
        ));
    }
    let keep = Options { keep_decodable: true, ..Options::default() };
    let decodes = !new.incomplete && array::open_with(src.clone(), format, keep).is_ok_and(|reader| reader.info().rows() > 0);
    e.remedy(match decodes {
        true => "restore it from a copy, or take what decodes of it (in Python: incomplete=True)",
        false => "restore it from a copy",
    })
}

/// A whole file of exactly these samples, of the kind that they were read from: but wav of floats for Vorbis, which would lose by being encoded again.
fn anew(reader: &dyn ArrayReader, format: Format, array: &Array) -> std::result::Result<(Format, Encoded), FormatError> {
    let audio = reader.info().audio.as_ref();
    let (format, subtype) = match (format, audio.map(|audio| audio.subtype)) {
        (_, Some(Subtype::Vorbis)) => (Format::Wav, Subtype::Float),
        (_, Some(Subtype::ALaw | Subtype::ULaw)) => (Format::Wav, Subtype::Pcm16),
        // No encoder writes flac of 32 bits.
        (Format::Flac, Some(subtype)) if subtype != Subtype::Pcm32 && !array.data().is_empty() => (Format::Flac, subtype),
        (_, Some(Subtype::PcmS8)) => (Format::Wav, Subtype::Pcm16),
        (_, Some(subtype)) => (Format::Wav, subtype),
        (format, None) => return Err(FormatError::corrupt(format!("what is left of the {format} file is no array"))),
    };
    // Without a rate in the file there is none to be written either; 1 is what stands for that.
    let sample_rate = Some(audio.and_then(|audio| audio.sample_rate).unwrap_or(1));
    let options = EncodeOptions { sample_rate, subtype: Some(subtype), lossy: true, ..EncodeOptions::default() };
    Ok((format, array::encode(format, array, &options)?))
}

/// A file anywhere on the disk.
struct OnDisk {
    file: File,
    len: u64,
}

impl OnDisk {
    /// The bytes that tell what it is.
    fn head(&self) -> std::result::Result<Vec<u8>, FormatError> {
        let mut head = vec![0; self.len.min(12) as usize];
        self.read_at(0, &mut head)?;
        Ok(head)
    }
}

impl ReadAt for OnDisk {
    fn size(&self) -> u64 {
        self.len
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), FormatError> {
        Ok(self.file.read_exact_at(buf, offset)?)
    }
}

/// A file, and what it is by its content or, where that says nothing, by its name.
fn look(path: &Path) -> Result<(OnDisk, Option<Format>)> {
    let located = |e: Error| e.at(path.display());
    let open = || -> std::io::Result<OnDisk> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(OnDisk { file, len })
    };
    let src = open().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => located(Error::not_found("there is no such file").remedy("check the path")),
        _ => located(Error::from(e)),
    })?;
    let head = src.head().map_err(|e| located(e.into()))?;
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let format = Format::sniff(&head).or_else(|| Format::from_extension(extension));
    Ok((src, format))
}
