//! Zip archives: what is in one, and its members by ranges or inflated.
//!
//! The directory at the archive's end is read by the `zip` crate; a stored member is then a range of the archive.

use super::npz::{MAX_DEFLATE_RATIO, failure, wrong_length};
use crate::array::source::{Section, Stream, Tail, read_up_to};
use crate::error::{FormatError, Result};
use crate::limits::MAX_ARRAY_BYTES;
use crate::read_at::ReadAt;
use bytes::Bytes;
use flate2::bufread::DeflateDecoder;
use libdeflater::Crc;
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use zip::{CompressionMethod, ZipArchive};

/// As much of the end of an archive is read at once: its directory, or a large part of it.
const TAIL: usize = 1 << 20;
/// What stands before a member's name in the head that it has where its bytes are.
const HEAD: usize = 30;

/// One member.
///
/// See [`Archive`] for an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name, with `/` between its parts.
    pub name: String,
    /// Its bytes, inflated.
    pub size: u64,
    /// Whether it is a symbolic link, whose bytes are where it leads to.
    pub is_link: bool,
    /// Where its own head begins.
    head: u64,
    /// The bytes of its name, which that head has too.
    raw_name: Box<[u8]>,
    packed: u64,
    crc: u32,
    method: CompressionMethod,
    encrypted: bool,
}

/// An archive that is open for reading.
///
/// ```
/// use sigbank_format::container::zip::Archive;
/// use std::sync::Arc;
/// // An archive of no members is the end of its directory.
/// let empty = [b"PK\x05\x06".as_slice(), &[0; 18]].concat();
/// let archive = Archive::open(Arc::new(bytes::Bytes::from(empty)))?;
/// assert!(archive.members().is_empty());
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub struct Archive {
    src: Arc<dyn ReadAt>,
    members: Vec<Member>,
}

impl Archive {
    /// Reads an archive's directory: what lies in it as files.
    ///
    /// # Errors
    /// Corrupt for what is no zip archive or a cut one, and for one with two members of one name.
    pub fn open(src: Arc<dyn ReadAt>) -> Result<Self> {
        let tail = Arc::new(Tail::new(Arc::clone(&src), TAIL)?);
        let directory = ZipArchive::new(BufReader::new(Stream::new(tail, 0))).map_err(failure)?;
        if directory.has_duplicate_names() {
            return Err(FormatError::corrupt(
                "the archive has two members of one name, of which only one can be meant: write it anew",
            ));
        }
        let mut members = Vec::with_capacity(directory.len());
        for index in 0..directory.len() {
            let entry = directory.by_index_data(index).map_err(failure)?;
            if entry.is_dir() {
                continue;
            }
            members.push(Member {
                name: entry.name().map_err(failure)?.into_owned(),
                size: entry.size(),
                is_link: entry.is_symlink(),
                head: entry.header_start(),
                raw_name: entry.name_raw().into(),
                packed: entry.compressed_size(),
                crc: entry.crc32(),
                method: entry.compression(),
                encrypted: entry.encrypted(),
            });
        }
        Ok(Self { src, members })
    }

    /// What is in it, in its own order; folders are left out.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// A member at any position. A stored one is read by ranges, without its checksum being compared; a deflated one is inflated here, into memory, and
    /// compared.
    ///
    /// # Errors
    /// Corrupt for a damaged member, and for one whose bytes are under another name than the directory says; Unsupported for encryption and other
    /// compressions; Limit for one of more than [`MAX_ARRAY_BYTES`].
    pub fn read_at(&self, member: &Member) -> Result<Arc<dyn ReadAt>> {
        let section = self.section(member)?;
        if member.method == CompressionMethod::Stored {
            return Ok(Arc::new(section));
        }
        let packed = read_up_to(&section, 0, usize::try_from(member.packed).unwrap_or(usize::MAX))?;
        let mut bytes = Vec::new();
        Inflated::new(member.clone(), DeflateDecoder::new(&packed[..])).read_to_end(&mut bytes)?;
        Ok(Arc::new(Bytes::from(bytes)))
    }

    /// A member from its start to its end, where its checksum is compared: the last read fails where it differs.
    ///
    /// # Errors
    /// Those of [`Archive::read_at`].
    pub fn stream(&self, member: &Member) -> Result<Box<dyn Read + Send>> {
        let stored = member.method == CompressionMethod::Stored;
        let stream = BufReader::with_capacity(1 << 17, Stream::new(Arc::new(self.section(member)?), 0));
        Ok(match stored {
            true => Box::new(Inflated::new(member.clone(), stream)),
            false => Box::new(Inflated::new(member.clone(), DeflateDecoder::new(stream))),
        })
    }

    /// The member's bytes as they lie in the archive, and whether what it says of them is possible.
    fn section(&self, member: &Member) -> Result<Section> {
        let within = |e: FormatError| e.within(format!("member '{}'", member.name));
        let possible = match member.method {
            _ if member.encrypted => Err(FormatError::unsupported("it is encrypted")),
            _ if member.size > MAX_ARRAY_BYTES => {
                Err(FormatError::limit(format!("{} bytes ({MAX_ARRAY_BYTES} at most)", member.size)))
            }
            CompressionMethod::Stored if member.size == member.packed => Ok(()),
            CompressionMethod::Deflated if member.size / MAX_DEFLATE_RATIO <= member.packed => Ok(()),
            CompressionMethod::Stored | CompressionMethod::Deflated => Err(wrong_length(member.size, member.packed)),
            other => {
                Err(FormatError::unsupported(format!("it is compressed by {other}, and stored or deflated members are read")))
            }
        };
        possible.map_err(within)?;
        let start = self.start(member).map_err(within)?;
        Section::new(Arc::clone(&self.src), start, member.packed).map_err(within)
    }

    /// Where a member's bytes begin, which its own head tells. An archive in which that has another name than the directory gives is one thing to
    /// who goes through it and another to who looks into its directory.
    fn start(&self, member: &Member) -> Result<u64> {
        let known = member.raw_name.len();
        let head = read_up_to(&*self.src, member.head, HEAD + known)?;
        let length = |at: usize| Some(usize::from(u16::from_le_bytes([*head.get(at)?, *head.get(at + 1)?])));
        let (Some(b"PK\x03\x04"), Some(name), Some(extra)) = (head.get(..4), length(26), length(28)) else {
            return Err(FormatError::corrupt(format!(
                "it is said to begin at offset {}, where no member does: the archive is damaged, or was cut at its beginning",
                member.head
            )));
        };
        let found = head.get(HEAD..).unwrap_or_default();
        if name != known || found != &member.raw_name[..] {
            return Err(FormatError::corrupt(format!(
                "where its bytes are it is called '{}', unlike in the archive's directory: the archive was changed afterwards or is damaged. \
                 Write it anew",
                found.get(..name).unwrap_or(found).escape_ascii()
            )));
        }
        Ok(member.head + (HEAD + name + extra) as u64)
    }
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Archive of {} members", self.members.len())
    }
}

/// Counts and sums up what a member gives, and compares both at its end.
struct Inflated<R> {
    member: Member,
    stream: R,
    sum: Crc,
    given: u64,
}

impl<R: Read> Inflated<R> {
    fn new(member: Member, stream: R) -> Self {
        Self { member, stream, sum: Crc::new(), given: 0 }
    }
    fn next(&mut self, buf: &mut [u8]) -> Result<usize> {
        let n = self.stream.read(buf)?;
        self.sum.update(buf.get(..n).unwrap_or_default());
        self.given += n as u64;
        if self.given > self.member.size || (n == 0 && !buf.is_empty() && self.given < self.member.size) {
            return Err(wrong_length(self.member.size, self.given));
        }
        // As soon as all is there, since nobody has to ask for more.
        if self.given == self.member.size && self.sum.sum() != self.member.crc {
            return Err(FormatError::corrupt(format!(
                "the CRC-32 of its bytes is {:08x}, and the archive declares {:08x}: the file is damaged",
                self.sum.sum(),
                self.member.crc
            )));
        }
        Ok(n)
    }
}

impl<R: Read> Read for Inflated<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.next(buf).map_err(|e| e.within(format!("member '{}'", self.member.name)).into())
    }
}
