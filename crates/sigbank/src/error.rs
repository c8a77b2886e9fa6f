//! The one error type of sigbank: what the caller can do about it (a [`Code`]), which object it is about, and the
//! remedy in words.

use sigbank_format::FormatError;
use sigbank_format::error::FormatErrorKind;
use std::fmt;
use std::io;
use std::sync::Arc;

/// What a caller can do about an [`Error`]. The set is closed on purpose: whoever maps it (to Python, to an exit code)
/// matches all of it, so that a new one does not compile until it has been given a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// There is no such object: correct the name, or make it first.
    NotFound,
    /// The name is taken and was not replaced: choose another, or say that it may be replaced.
    AlreadyExists,
    /// The stored bytes are damaged or of another format: fetch them anew or restore them.
    Corrupt,
    /// The data or the request are of a kind that sigbank (or this store, or this build) does not handle.
    Unsupported,
    /// The caller's value does not fit: correct the call.
    Invalid,
    /// Another writer was there first, or still is: read again and retry.
    Conflict,
    /// Writing is not permitted here.
    ReadOnly,
    /// The storage failed: disk, network, space. Trying again may help.
    Storage,
    /// A size is over a limit that protects memory: raise the limit when the data are trusted.
    Limit,
}

impl Code {
    /// The stable word for this code, as logs, `--json` output and Python show it.
    ///
    /// ```
    /// assert_eq!(sigbank::error::Code::AlreadyExists.as_str(), "already_exists");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::Invalid => "invalid",
            Self::Conflict => "conflict",
            Self::ReadOnly => "read_only",
            Self::Storage => "storage",
            Self::Limit => "limit",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failure: a code, the object it is about, a sentence (what was expected, what was found) and what to do.
///
/// ```
/// use sigbank::error::{Code, Error};
/// let e = Error::corrupt("12 bytes are expected, 7 were found")
///     .within("example 3")
///     .at("train/0.fb")
///     .remedy("fetch the shard again");
/// assert_eq!(e.code(), Code::Corrupt);
/// assert_eq!(e.to_string(), "train/0.fb: example 3: 12 bytes are expected, 7 were found (fetch the shard again)");
/// ```
#[derive(Debug, Clone)]
pub struct Error(Box<Inner>);

// Boxed, so that a `Result` of something small stays small.
#[derive(Debug, Clone)]
struct Inner {
    code: Code,
    path: Option<String>,
    message: String,
    remedy: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The result of whatever can fail in sigbank.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of a code with its sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { code, path: None, message: message.into(), remedy: None, source: None }))
    }
    /// No such object.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }
    /// The name is taken.
    pub fn already_exists(message: impl Into<String>) -> Self {
        Self::new(Code::AlreadyExists, message)
    }
    /// Damaged or foreign bytes.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(Code::Corrupt, message)
    }
    /// A kind of data or request that is not handled.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Code::Unsupported, message)
    }
    /// A value of the caller that does not fit.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::Invalid, message)
    }
    /// Another writer was first.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Code::Conflict, message)
    }
    /// Writing is not permitted.
    pub fn read_only(message: impl Into<String>) -> Self {
        Self::new(Code::ReadOnly, message)
    }
    /// The storage failed.
    pub fn storage(message: impl Into<String>) -> Self {
        Self::new(Code::Storage, message)
    }
    /// A size over a limit.
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(Code::Limit, message)
    }

    /// The same error about the object at `path`; an object named earlier (nearer to the failure) is kept.
    #[must_use]
    pub fn at(mut self, path: impl fmt::Display) -> Self {
        self.0.path.get_or_insert_with(|| path.to_string());
        self
    }
    /// The same error with what the user can do about it, replacing an earlier remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy = Some(remedy.into());
        self
    }
    /// The same error with words before its sentence: where inside the object it happened ("example 3").
    #[must_use]
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.0.message = format!("{place}: {}", self.0.message);
        self
    }
    /// The same error with the error that caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// What the caller can do about it.
    pub fn code(&self) -> Code {
        self.0.code
    }
    /// The object it is about, as its store shows it.
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }
    /// The sentence, without path and remedy.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// What to do, in words.
    pub fn remedy_text(&self) -> Option<&str> {
        self.0.remedy.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.0.path {
            write!(f, "{path}: ")?;
        }
        f.write_str(&self.0.message)?;
        match &self.0.remedy {
            Some(remedy) => write!(f, " ({remedy})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}

impl From<io::Error> for Error {
    /// By kind; an error of ours that travelled through `std::io` comes out as it went in.
    fn from(e: io::Error) -> Self {
        if let Some(inner) = e.get_ref() {
            if let Some(ours) = inner.downcast_ref::<Error>() {
                return ours.clone();
            }
            if let Some(format) = inner.downcast_ref::<FormatError>() {
                return format.clone().into();
            }
        }
        let (code, remedy) = match e.kind() {
            io::ErrorKind::NotFound => (Code::NotFound, None),
            io::ErrorKind::AlreadyExists => (Code::AlreadyExists, None),
            io::ErrorKind::PermissionDenied => {
                (Code::ReadOnly, Some("check the owner and the mode of the file and its directory"))
            }
            io::ErrorKind::ReadOnlyFilesystem => (Code::ReadOnly, Some("the filesystem is mounted read-only: write elsewhere")),
            io::ErrorKind::StorageFull => (Code::Storage, Some("the disk is full: free some space, then try again")),
            io::ErrorKind::QuotaExceeded => (Code::Storage, Some("the disk quota is used up: free some space, then try again")),
            io::ErrorKind::FileTooLarge => (Code::Storage, Some("the filesystem or a ulimit does not allow a file of this size")),
            io::ErrorKind::InvalidFilename => (Code::Invalid, Some("the filesystem does not allow such a name: shorten it")),
            _ => (Code::Storage, None),
        };
        let error = Self::new(code, e.to_string()).caused_by(e);
        match remedy {
            Some(remedy) => error.remedy(remedy),
            None => error,
        }
    }
}

impl From<Error> for io::Error {
    /// For code that must speak `std::io` (a `Write`): the kind by code, the error itself inside.
    fn from(e: Error) -> Self {
        let kind = match e.code() {
            Code::NotFound => io::ErrorKind::NotFound,
            Code::AlreadyExists => io::ErrorKind::AlreadyExists,
            Code::Corrupt => io::ErrorKind::InvalidData,
            Code::Unsupported => io::ErrorKind::Unsupported,
            Code::Invalid | Code::Limit => io::ErrorKind::InvalidInput,
            Code::ReadOnly => io::ErrorKind::PermissionDenied,
            Code::Conflict | Code::Storage => io::ErrorKind::Other,
        };
        io::Error::new(kind, e)
    }
}

impl From<FormatError> for Error {
    fn from(e: FormatError) -> Self {
        let code = match e.kind() {
            FormatErrorKind::Corrupt => Code::Corrupt,
            FormatErrorKind::Unsupported => Code::Unsupported,
            FormatErrorKind::Invalid => Code::Invalid,
            FormatErrorKind::Limit => Code::Limit,
            FormatErrorKind::Io => Code::Storage,
        };
        Self::new(code, e.to_string()).caused_by(e)
    }
}

impl From<Error> for FormatError {
    /// For a `ReadAt` whose store failed: the codec passes it on, and its caller adds the path as for any codec error.
    fn from(e: Error) -> Self {
        let kind = match e.code() {
            Code::Corrupt => FormatErrorKind::Corrupt,
            Code::Unsupported => FormatErrorKind::Unsupported,
            Code::Invalid => FormatErrorKind::Invalid,
            Code::Limit => FormatErrorKind::Limit,
            Code::NotFound | Code::AlreadyExists | Code::Conflict | Code::ReadOnly | Code::Storage => FormatErrorKind::Io,
        };
        let remedy = e.0.remedy.map(|r| format!(" ({r})")).unwrap_or_default();
        FormatError::new(kind, e.0.message + &remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn io_kinds_become_codes() {
        let of = |kind: io::ErrorKind| Error::from(io::Error::from(kind));
        assert_eq!(of(io::ErrorKind::NotFound).code(), Code::NotFound);
        assert_eq!(of(io::ErrorKind::AlreadyExists).code(), Code::AlreadyExists);
        assert_eq!(of(io::ErrorKind::PermissionDenied).code(), Code::ReadOnly);
        assert_eq!(of(io::ErrorKind::ReadOnlyFilesystem).code(), Code::ReadOnly);
        assert_eq!(of(io::ErrorKind::TimedOut).code(), Code::Storage);
        for (errno, word) in [(28, "full"), (122, "quota")] {
            let e = Error::from(io::Error::from_raw_os_error(errno));
            assert_eq!(e.code(), Code::Storage);
            assert!(e.remedy_text().unwrap().contains(word), "{e}");
        }
    }

    #[test]
    fn an_error_survives_the_way_through_io() {
        let ours = Error::conflict("someone else was first").at("a/b").remedy("retry");
        let back = Error::from(io::Error::from(ours.clone()));
        assert_eq!((back.code(), back.to_string()), (Code::Conflict, ours.to_string()));
        let back = Error::from(io::Error::from(FormatError::limit("too big")));
        assert_eq!((back.code(), back.message()), (Code::Limit, "too big"));
    }

    #[test]
    fn the_nearest_path_and_the_cause_are_kept() {
        let e = Error::from(FormatError::corrupt("bad")).at("inner").at("outer").within("row 2");
        assert_eq!(e.to_string(), "inner: row 2: bad");
        assert_eq!(e.source().unwrap().to_string(), "bad");
        let format = FormatError::from(e.remedy("fetch it again"));
        assert_eq!((format.kind(), format.to_string().as_str()), (FormatErrorKind::Corrupt, "row 2: bad (fetch it again)"));
    }
}
