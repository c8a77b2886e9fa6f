//! One array in one file: NumPy's npy, the audio formats WAV, FLAC and Ogg Vorbis, and MATLAB's mat.
//!
//! [`open`] looks at the content, reads no more than the headers, and gives an [`ArrayReader`] that delivers windows of rows.
//!
//! What a header declares is what an array has: fewer elements are an error, and bytes that follow the last one are no part of it, nor a loss.
//! Audio files often have such bytes (ID3v1 tags, padding), which libsndfile passes over too. What goes on as the same stream is an error: further
//! FLAC frames, a second Ogg stream, bytes behind wav data whose size was never filled in or wrapped.

#[cfg(feature = "audio")]
mod audio;
mod encode;
#[cfg(feature = "audio")]
mod flac;
#[cfg(feature = "mat")]
pub mod mat;
pub mod npy;
#[cfg(feature = "audio")]
mod ogg;
pub(crate) mod source;
#[cfg(feature = "audio")]
mod wav;

pub use encode::{EncodeOptions, Encoded, Loss, encode};

use crate::error::{FormatError, Result};
use crate::limits::FIRST_ALLOCATION;
use crate::model::array::byte_len;
use crate::model::{Array, DType};
use crate::read_at::ReadAt;
use std::fmt;
use std::sync::Arc;

/// The file formats of an array that are handled here.
///
/// ```
/// use sigbank_format::array::Format;
/// assert_eq!(Format::from_extension("WAV"), Some(Format::Wav));
/// assert_eq!(Format::sniff(b"fLaC\0\0\0\x22"), Some(Format::Flac));
/// assert_eq!(Format::sniff(b"%PDF"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// NumPy's format, versions 1.0 to 3.0.
    Npy,
    /// RIFF, RIFX or RF64 WAVE with linear PCM, IEEE float, A-law or mu-law samples.
    Wav,
    /// Free Lossless Audio Codec in its own container.
    Flac,
    /// Vorbis in Ogg.
    Ogg,
    /// MATLAB's format, level 5 (`-v6` and `-v7`).
    Mat,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 5] = [Format::Npy, Format::Wav, Format::Flac, Format::Ogg, Format::Mat];

    /// The format that a file name's extension (without the dot, in any case) stands for.
    pub fn from_extension(extension: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.extension().eq_ignore_ascii_case(extension))
    }
    /// The extension of its files, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Npy => "npy",
            Format::Wav => "wav",
            Format::Flac => "flac",
            Format::Ogg => "ogg",
            Format::Mat => "mat",
        }
    }
    /// The format by a file's first bytes (12 are enough).
    pub fn sniff(head: &[u8]) -> Option<Self> {
        match head {
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Some(Format::Npy),
            [b'R', b'I', b'F', b'F' | b'X', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Some(Format::Wav),
            [b'R', b'F', b'6', b'4', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Some(Format::Wav),
            [b'B', b'W', b'6', b'4', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Some(Format::Wav),
            [b'f', b'L', b'a', b'C', ..] => Some(Format::Flac),
            [b'O', b'g', b'g', b'S', ..] => Some(Format::Ogg),
            [b'M', b'A', b'T', b'L', b'A', b'B', b' ', b'5' | b'7', ..] => Some(Format::Mat),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.extension())
    }
}

/// What audio samples are delivered as; other arrays have one dtype only, their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Samples {
    /// float64. Integers are divided by their full scale, so that they lie in [-1, 1); float samples are passed as they are.
    #[default]
    Float64,
    /// float32 on the same scale.
    Float32,
    /// As they stand in the file: int8 up to 8 bits (unsigned 8-bit WAV less 128), int16 up to 16, int32 up to 32,
    /// float32 and float64 for float WAV, float32 for Vorbis, int16 for A-law and mu-law. [`AudioInfo::full_scale_bits`] says what 1.0 would be.
    Stored,
}

/// How an array is to be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// What audio samples are delivered as.
    pub samples: Samples,
    /// Deliver what decodes of an audio file that is cut short or damaged, with [`ArrayInfo::incomplete`] set, in place of an
    /// error. FLAC and Ogg files are then read once in whole to find out how much that is.
    pub keep_decodable: bool,
}

/// How a sample stands in an audio file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subtype {
    /// Unsigned 8-bit integers, 128 being zero (WAV).
    PcmU8,
    /// Signed integers of up to 8 bits (FLAC).
    PcmS8,
    /// Signed integers of up to 16 bits.
    Pcm16,
    /// Signed integers of up to 24 bits.
    Pcm24,
    /// Signed integers of up to 32 bits.
    Pcm32,
    /// 8-bit codes of 16-bit integers, finer near zero, after ITU-T G.711 (WAV; read only).
    ALaw,
    /// The other such code, used in North America and Japan.
    ULaw,
    /// IEEE 754 single precision.
    Float,
    /// IEEE 754 double precision.
    Double,
    /// Vorbis.
    Vorbis,
}

impl fmt::Display for Subtype {
    /// libsndfile's name of the subtype, such as `PCM_16`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subtype::PcmU8 => "PCM_U8",
            Subtype::PcmS8 => "PCM_S8",
            Subtype::Pcm16 => "PCM_16",
            Subtype::Pcm24 => "PCM_24",
            Subtype::Pcm32 => "PCM_32",
            Subtype::ALaw => "ALAW",
            Subtype::ULaw => "ULAW",
            Subtype::Float => "FLOAT",
            Subtype::Double => "DOUBLE",
            Subtype::Vorbis => "VORBIS",
        })
    }
}

/// What only audio files say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AudioInfo {
    /// Frames a second, in Hz; none where the file says 0.
    pub sample_rate: Option<u32>,
    /// Samples in a frame.
    pub channels: usize,
    /// How a sample stands in the file.
    pub subtype: Subtype,
    /// Bits of a sample that count; none for Vorbis.
    pub bits_per_sample: Option<u32>,
    /// For integers: a stored value v is v / 2^(this - 1) as a float. Differs from `bits_per_sample` where the samples are
    /// left-justified in wider containers, as in WAVE_FORMAT_EXTENSIBLE with 24 bits in 32.
    pub full_scale_bits: Option<u32>,
}

/// What is known of an array before its elements are read.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayInfo {
    /// The file's format.
    pub format: Format,
    /// Element type delivered, always little-endian.
    pub dtype: DType,
    /// Element type in the file, in the file's byte order.
    pub stored_dtype: DType,
    /// Elements along each axis. Audio has (frames,) for one channel and (frames, channels) otherwise.
    pub shape: Vec<usize>,
    /// Set for audio.
    pub audio: Option<AudioInfo>,
    /// What is wrong with the file, where [`Options::keep_decodable`] made it readable all the same.
    pub incomplete: Option<String>,
    /// Bytes after the array's last one that are no part of it (npy only; NumPy ignores them too).
    pub trailing_bytes: u64,
}

impl ArrayInfo {
    /// Length along the first axis; 1 for a scalar.
    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }
    /// Bytes of one row as delivered.
    pub fn row_bytes(&self) -> usize {
        // Bounded when the file was opened, unless a zero-length axis hides a product that never gets used.
        self.shape.iter().skip(1).fold(self.dtype.itemsize(), |n, &d| n.saturating_mul(d))
    }
    /// Frames a second, in Hz, for audio that says so.
    pub fn sample_rate(&self) -> Option<u32> {
        self.audio.as_ref().and_then(|a| a.sample_rate)
    }
    /// Refuses a window that does not fit the array or its buffer.
    fn check_window(&self, start: usize, count: usize, out: usize) -> Result<()> {
        if start.checked_add(count).is_none_or(|end| end > self.rows()) {
            return Err(FormatError::invalid(format!(
                "rows {start} to {start}+{count} are asked for, but the array has {}",
                self.rows()
            )));
        }
        match count.checked_mul(self.row_bytes()) {
            Some(bytes) if bytes == out => Ok(()),
            _ => Err(FormatError::invalid(format!(
                "{count} rows of {} bytes are asked for into a buffer of {out}",
                self.row_bytes()
            ))),
        }
    }
}

/// An open array file.
///
/// ```
/// use sigbank_format::array::{self, Format, npy};
/// use sigbank_format::model::Array;
/// use std::sync::Arc;
/// let a = Array::new("<i2".parse()?, vec![3], vec![1, 0, 2, 0, 3, 0].into())?;
/// let file = npy::to_bytes(&a)?;
/// let mut reader = array::open(Arc::new(bytes::Bytes::from(file)), Format::Npy)?;
/// let mut window = [0; 4];
/// reader.read_rows(1, 2, &mut window)?;
/// assert_eq!(window, [2, 0, 3, 0]);
/// assert_eq!(reader.read_all()?, a);
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub trait ArrayReader: Send {
    /// Dtype, shape and the rest.
    fn info(&self) -> &ArrayInfo;
    /// Fills `out` with `count` rows (positions along the first axis; a scalar is one row) from `start` on: elements of
    /// `info().dtype` in C order, `count * info().row_bytes()` bytes.
    ///
    /// An error of kind Invalid where the window or the buffer does not fit, and Corrupt where the file is damaged there. `out` is
    /// then unspecified. FLAC and Ogg are decoded in sequence: windows that go forward cost no more than one pass, a
    /// window before the last one starts again.
    fn read_rows(&mut self, start: usize, count: usize, out: &mut [u8]) -> Result<()>;
    /// The whole array. Memory is taken as the rows arrive, not as the file declares them.
    fn read_all(&mut self) -> Result<Array> {
        let (rows, row) = (self.info().rows(), self.info().row_bytes());
        let (dtype, shape) = (self.info().dtype.clone(), self.info().shape.clone());
        let mut data = Vec::new();
        let mut done = 0;
        while done < rows && byte_len(&dtype, &shape)? > 0 {
            let step = (data.len().max(FIRST_ALLOCATION) / row.max(1)).clamp(1, rows - done);
            let have = data.len();
            data.resize(have + step * row, 0);
            self.read_rows(done, step, data.get_mut(have..).unwrap_or_default())?;
            done += step;
        }
        Array::new(dtype, shape, data.into())
    }
}

/// Opens an array file with the default [`Options`]. The content decides where it says another format than `format`.
pub fn open(src: Arc<dyn ReadAt>, format: Format) -> Result<Box<dyn ArrayReader>> {
    open_with(src, format, Options::default())
}

/// Opens an array file. The content decides where it says another format than `format`.
///
/// Errors: Corrupt for what is no file of that format or damaged in what is read to open it, Unsupported for codecs and dtypes that are not
/// handled, Limit for declared sizes over [`crate::limits`].
pub fn open_with(src: Arc<dyn ReadAt>, format: Format, options: Options) -> Result<Box<dyn ArrayReader>> {
    let head = source::read_up_to(&*src, 0, 12)?;
    if head.is_empty() {
        return Err(FormatError::corrupt(format!("{format} data are expected, but the file is empty (0 bytes)")));
    }
    match Format::sniff(&head).unwrap_or(format) {
        Format::Npy => Ok(Box::new(npy::NpyReader::new(src)?)),
        #[cfg(feature = "mat")]
        Format::Mat => Ok(Box::new(mat::MatReader::new(src, None)?)),
        #[cfg(feature = "audio")]
        Format::Wav => Ok(Box::new(wav::WavReader::new(src, options)?)),
        #[cfg(feature = "audio")]
        Format::Flac => flac::open(src, options),
        #[cfg(feature = "audio")]
        Format::Ogg => ogg::open(src, options),
        #[allow(unreachable_patterns)] // Where all features are in.
        other => {
            let _ = options;
            Err(left_out(other))
        }
    }
}

/// The refusal of a format whose code is not there.
fn left_out(format: Format) -> FormatError {
    let feature = if format == Format::Mat { "mat" } else { "audio" };
    FormatError::unsupported(format!(
        "{format} files need this library's feature '{feature}', which was left out when it was built"
    ))
}
