//! One recording, whatever its file format.

use super::Candidate;
use crate::error::{Error, Result};
use sigbank_format::array::{self, ArrayReader, Format, Options, Samples, Subtype};
use sigbank_format::container::npz;
use sigbank_format::model::{DType, Kind};
use sigbank_format::read_at::{ReadAt, past_end};
use sigbank_format::{FormatError, error::FormatErrorKind};
use std::fs::File;
use std::sync::Arc;

/// Rows are read in blocks of about this many bytes.
const BLOCK: usize = 256 << 10;

/// An array in a file, of which rows (places on the first axis) can be read.
pub(super) struct Recording {
    /// Its name in an npz.
    pub member: Option<String>,
    /// What rows are read as, and stored as where no dtype is chosen: audio as float32 or, where that would round, as float64;
    /// arrays as they are.
    pub dtype: DType,
    /// How samples stand in an audio file.
    pub subtype: Option<Subtype>,
    pub shape: Vec<usize>,
    /// Samples per second where the file says it.
    pub rate: Option<f64>,
    /// Bits of the full scale of integer audio samples that are taken as they stand.
    pub scale: Option<u32>,
    reader: Box<dyn ArrayReader>,
}

/// What audio is read as when signals are stored as `dtype`: integers as they stand, floats on the scale of ±1.
pub(super) fn samples_for(dtype: Option<&DType>) -> Samples {
    match dtype {
        Some(t) if matches!(t.kind(), Kind::Int | Kind::UInt) => Samples::Stored,
        Some(t) if t.kind() == Kind::Float && t.itemsize() <= 4 => Samples::Float32,
        Some(_) => Samples::Float64,
        None => Samples::Float32,
    }
}

impl Recording {
    fn new(member: Option<String>, reader: Box<dyn ArrayReader>, samples: Samples) -> Self {
        let info = reader.info();
        let scale = info.audio.as_ref().filter(|_| samples == Samples::Stored).and_then(|a| a.full_scale_bits);
        Self {
            member,
            dtype: info.dtype.clone(),
            subtype: info.audio.as_ref().map(|a| a.subtype),
            shape: info.shape.clone(),
            rate: info.sample_rate().map(f64::from),
            scale,
            reader,
        }
    }
    pub(super) fn rows(&self) -> u64 {
        self.shape.first().map_or(0, |r| *r as u64)
    }
    /// Rows that are read at once.
    pub(super) fn block_rows(&self) -> u64 {
        (BLOCK / self.reader.info().row_bytes().max(1)).max(1) as u64
    }
    /// Appends `count` rows from `start` on.
    pub(super) fn read(&mut self, start: u64, count: u64, out: &mut Vec<u8>) -> Result<()> {
        // Rows of an array that opened fit the address space.
        let (start, count) = (start as usize, count as usize);
        let from = out.len();
        out.resize(from + count * self.reader.info().row_bytes(), 0);
        Ok(self.reader.read_rows(start, count, out.get_mut(from..).unwrap_or_default())?)
    }
}

/// All arrays of a file, the checksums of an archive's members compared where `verify` says so. The errors name the file.
pub(super) fn open(candidate: &Candidate, samples: Samples, verify: bool) -> Result<Vec<Recording>> {
    let at = |e: Error| e.at(candidate.path.display());
    let file = open_file(candidate)?;
    if !is_archive(&file).map_err(at)? {
        return Ok(vec![open_array(candidate, file, samples)?]);
    }
    let mut archive = npz::open(file).map_err(|e| at(e.into()))?;
    let names = archive.names().map_err(|e| at(e.into()))?;
    let member = |name: String| {
        let checked = if verify { archive.verify(&name) } else { Ok(()) };
        let reader = checked.and_then(|()| archive.member(&name)).map_err(|e| at(e.into()))?;
        Ok(Recording::new(Some(name), reader, samples))
    };
    names.into_iter().map(member).collect()
}

/// One array of a file; a member's checksum is compared.
pub(super) fn open_member(candidate: &Candidate, member: Option<&str>, samples: Samples) -> Result<Recording> {
    let at = |e: Error| e.at(candidate.path.display());
    let file = open_file(candidate)?;
    let Some(name) = member else { return open_array(candidate, file, samples) };
    let reader = npz::open(file).and_then(|mut archive| {
        archive.verify(name)?;
        archive.member(name)
    });
    Ok(Recording::new(Some(name.to_owned()), reader.map_err(|e| at(e.into()))?, samples))
}

fn open_array(candidate: &Candidate, file: Arc<dyn ReadAt>, samples: Samples) -> Result<Recording> {
    let extension = candidate.path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    // The content decides; the name only says what was expected.
    let format = match extension.as_str() {
        "wave" => Format::Wav,
        "oga" => Format::Ogg,
        other => Format::from_extension(other).unwrap_or(Format::Npy),
    };
    let at = |e: Error| e.at(candidate.path.display());
    if extension == "npz" {
        let mut head = [0; 12];
        let len = file.size().min(12) as usize;
        let head = head.get_mut(..len).unwrap_or_default();
        file.read_at(0, head).map_err(|e| at(e.into()))?;
        if Format::sniff(head).is_none() {
            let found = match head {
                [] => "the file is empty (0 bytes)".into(),
                _ => format!("the file starts with '{}'", head.escape_ascii()),
            };
            return Err(at(Error::corrupt(format!("an npz archive, which is a zip file, is expected, but {found}"))));
        }
    }
    let open = |samples| {
        let reader = array::open_with(file.clone(), format, Options { samples, ..Default::default() });
        reader.map_err(|e| Error::from(e).at(candidate.path.display()))
    };
    let mut reader = open(samples)?;
    let wide = reader.info().audio.as_ref().is_some_and(|a| matches!(a.subtype, Subtype::Double | Subtype::Pcm32));
    if wide && samples == Samples::Float32 {
        // Of these, float32 holds a part only. Where it is asked for, the cast refuses what the decoder would call infinite.
        reader = open(Samples::Float64)?;
    }
    Ok(Recording::new(None, reader, samples))
}

/// Whether the content is a zip archive, which an npz is.
fn is_archive(file: &Arc<dyn ReadAt>) -> Result<bool> {
    let mut head = [0; 4];
    if file.size() < 4 {
        return Ok(false);
    }
    file.read_at(0, &mut head)?;
    Ok(matches!(&head, b"PK\x03\x04" | b"PK\x05\x06"))
}

pub(super) fn open_file(candidate: &Candidate) -> Result<Arc<dyn ReadAt>> {
    let at = |e: std::io::Error| Error::from(e).at(candidate.path.display());
    let file = File::open(&candidate.path).map_err(at)?;
    let size = file.metadata().map_err(at)?.len();
    Ok(Arc::new(OpenFile { file, size }))
}

/// A file as the codecs read it.
struct OpenFile {
    file: File,
    size: u64,
}

impl ReadAt for OpenFile {
    fn size(&self) -> u64 {
        self.size
    }
    #[cfg(unix)]
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), FormatError> {
        use std::os::unix::fs::FileExt;
        self.file.read_exact_at(buf, offset).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => past_end(offset, buf.len(), self.size),
            _ => FormatError::new(FormatErrorKind::Io, e.to_string()),
        })
    }
    #[cfg(windows)]
    fn read_at(&self, mut offset: u64, mut buf: &mut [u8]) -> Result<(), FormatError> {
        use std::os::windows::fs::FileExt;
        while !buf.is_empty() {
            match self.file.seek_read(buf, offset) {
                Ok(0) => return Err(past_end(offset, buf.len(), self.size)),
                Ok(n) => {
                    offset += n as u64;
                    buf = buf.get_mut(n..).unwrap_or_default();
                }
                Err(e) => return Err(FormatError::new(FormatErrorKind::Io, e.to_string())),
            }
        }
        Ok(())
    }
}
