//! The one error type of the codecs. It knows nothing of files: the caller adds the path.

use std::fmt;
use std::io::ErrorKind;

/// What kind of failure a [`FormatError`] is; the caller decides by it what can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FormatErrorKind {
    /// The bytes are not what their format says: damaged, cut short, or of another format.
    Corrupt,
    /// The bytes (or the request) are of a kind that this library does not handle.
    Unsupported,
    /// The caller's value does not fit what was declared (dtype, shape, count).
    Invalid,
    /// A declared size is over a limit of [`crate::limits`].
    Limit,
    /// A reader under the codec failed (the disk, not the bytes).
    Io,
}

/// A codec's failure: a kind, and a sentence that says what was expected and what was found.
#[derive(Debug, Clone)]
pub struct FormatError {
    kind: FormatErrorKind,
    message: String,
}

/// The result of a codec.
pub type Result<T, E = FormatError> = std::result::Result<T, E>;

impl FormatError {
    /// An error of a kind with its sentence.
    ///
    /// ```
    /// use sigbank_format::error::{FormatError, FormatErrorKind};
    /// let e = FormatError::new(FormatErrorKind::Corrupt, "3 bytes where 4 belong");
    /// assert_eq!(e.kind(), FormatErrorKind::Corrupt);
    /// assert_eq!(e.to_string(), "3 bytes where 4 belong");
    /// ```
    pub fn new(kind: FormatErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
    /// Damaged or foreign bytes.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(FormatErrorKind::Corrupt, message)
    }
    /// A kind of data that is not handled here.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(FormatErrorKind::Unsupported, message)
    }
    /// A value that does not fit its declaration.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(FormatErrorKind::Invalid, message)
    }
    /// A size over a limit.
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(FormatErrorKind::Limit, message)
    }
    /// What kind of failure this is.
    pub fn kind(&self) -> FormatErrorKind {
        self.kind
    }
    /// The same failure with words put before its sentence, such as the member or the record it happened in.
    #[must_use]
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FormatError {}

impl From<std::io::Error> for FormatError {
    /// Decoders report damage through `io::Error`: what is neither the operating system's failure nor a connection's is corruption.
    fn from(e: std::io::Error) -> Self {
        if let Some(inner) = e.get_ref().and_then(|i| i.downcast_ref::<FormatError>()) {
            return inner.clone();
        }
        match (e.raw_os_error(), e.kind()) {
            (Some(_), _) => Self::new(FormatErrorKind::Io, e.to_string()),
            (None, ErrorKind::UnexpectedEof) => Self::corrupt("the data end too early"),
            (None, ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::Other) => Self::corrupt(e.to_string()),
            (None, _) => Self::new(FormatErrorKind::Io, e.to_string()),
        }
    }
}

impl From<FormatError> for std::io::Error {
    fn from(e: FormatError) -> Self {
        std::io::Error::new(ErrorKind::InvalidData, e)
    }
}
