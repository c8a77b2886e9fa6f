//! NumPy's npz: a zip archive of npy members, stored or deflated, with zip64 sizes where they are needed.
//!
//! [`open`] reads any archive, array by array. [`ShardBuilder`] and [`ShardReader`] hold many records in one archive: each
//! field's values stacked along a new first axis in one member.

mod archive;
mod column;
mod member;
mod shard_read;
mod shard_write;

pub use shard_read::ShardReader;
pub use shard_write::ShardBuilder;

use crate::array::ArrayReader;
use crate::array::npy::NpyReader;
use crate::array::source::{Section, Stream};
use crate::error::{FormatError, FormatErrorKind, Result};
use crate::limits::{FIRST_ALLOCATION, MAX_ARRAY_BYTES, MAX_NPY_HEADER};
use crate::model::{Array, FieldType, Schema};
use crate::read_at::ReadAt;
use bytes::Bytes;
use std::collections::HashSet;
use std::io::{BufReader, Read};
use std::sync::Arc;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

/// Deflate makes at most so many bytes of one.
pub(super) const MAX_DEFLATE_RATIO: u64 = 1032;

/// An npz archive that is open for reading.
///
/// ```no_run
/// # fn file() -> std::sync::Arc<dyn sigbank_format::read_at::ReadAt> { std::sync::Arc::new(bytes::Bytes::new()) }
/// let mut npz = sigbank_format::container::npz::open(file())?;
/// for name in npz.names()? {
///     println!("{name}: {:?}", npz.member(&name)?.info().shape);
/// }
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub struct Npz {
    src: Arc<dyn ReadAt>,
    archive: ZipArchive<BufReader<Stream>>,
}

/// Opens an npz archive: reads its directory.
///
/// Errors: Corrupt for what is no zip archive or a cut one, and for one with two members of the same name, of which a reader by
/// name would drop one.
pub fn open(src: Arc<dyn ReadAt>) -> Result<Npz> {
    let archive = ZipArchive::new(BufReader::new(Stream::new(src.clone(), 0))).map_err(failure)?;
    if archive.has_duplicate_names() {
        let name = doubled_name(Stream::new(src, archive.central_directory_start()))?;
        return Err(FormatError::corrupt(format!(
            "the archive has more than one member '{name}', and only one of them can be meant: write it anew"
        )));
    }
    Ok(Npz { src, archive })
}

impl Npz {
    /// The arrays' names, in the archive's order: the members that end in `.npy`, without it.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for name in self.archive.file_names() {
            let name = name.map_err(failure)?;
            names.extend(name.strip_suffix(".npy").map(str::to_owned));
        }
        Ok(names)
    }

    /// Opens one array, by its name or its member's.
    ///
    /// A stored member is read by ranges, and its checksum is not checked (see [`Npz::verify`]); a deflated one is inflated here,
    /// into memory that grows with what arrives, and its checksum is checked. Errors: Invalid where there is no such member,
    /// Unsupported for encryption and other compressions, and those of reading an npy file.
    pub fn member(&mut self, name: &str) -> Result<Box<dyn ArrayReader>> {
        let index = self.index(name)?;
        self.open_member(index).map_err(|e| e.within(format!("member '{name}'")))
    }

    /// Reads one array in whole, its checksum checked.
    pub fn read(&mut self, name: &str) -> Result<Array> {
        self.verify(name)?;
        self.member(name)?.read_all().map_err(|e| e.within(format!("member '{name}'")))
    }

    /// Checks a member's checksum, reading it once, without holding it.
    pub fn verify(&mut self, name: &str) -> Result<()> {
        let index = self.index(name)?;
        let place = |e: FormatError| e.within(format!("member '{name}'"));
        let file = self.archive.by_index(index).map_err(failure).map_err(place)?;
        let size = file.size();
        let copied = std::io::copy(&mut file.take(size.saturating_add(1)), &mut std::io::sink());
        match copied {
            Ok(len) if len == size => Ok(()),
            Ok(len) => Err(place(wrong_length(size, len))),
            Err(e) => Err(place(e.into())),
        }
    }

    fn index(&self, name: &str) -> Result<usize> {
        // The array's name first: an array 'a.npy' beside one 'a' is the member 'a.npy.npy'.
        let found = self.archive.index_for_name(&format!("{name}.npy")).or_else(|| self.archive.index_for_name(name));
        match found {
            Some(index) => Ok(index),
            None => {
                let names = self.names()?;
                let some = names.iter().take(20).cloned().collect::<Vec<_>>().join(", ");
                Err(FormatError::invalid(format!(
                    "there is no array '{name}' in the npz archive; its {} are: {some}",
                    names.len()
                )))
            }
        }
    }

    fn open_member(&mut self, index: usize) -> Result<Box<dyn ArrayReader>> {
        let file = self.archive.by_index(index).map_err(failure)?;
        let (size, compressed) = (file.size(), file.compressed_size());
        if file.compression() == CompressionMethod::Stored {
            let start =
                file.data_start().ok_or_else(|| FormatError::corrupt("the archive does not say where the member starts"))?;
            if size != compressed {
                return Err(wrong_length(size, compressed));
            }
            return Ok(Box::new(NpyReader::new(Arc::new(Section::new(self.src.clone(), start, size)?))?));
        }
        if size > MAX_ARRAY_BYTES + MAX_NPY_HEADER as u64 {
            return Err(FormatError::limit(format!("{size} bytes, inflated ({MAX_ARRAY_BYTES} of elements at most)")));
        }
        if size / MAX_DEFLATE_RATIO > compressed {
            return Err(FormatError::corrupt(format!("{compressed} bytes cannot inflate to the {size} declared")));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(usize::MAX).min(FIRST_ALLOCATION));
        file.take(size.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != size {
            return Err(wrong_length(size, bytes.len() as u64));
        }
        Ok(Box::new(NpyReader::new(Arc::new(Bytes::from(bytes)))?))
    }
}

/// The first name that stands twice in an archive's directory, which starts where the stream does.
fn doubled_name(directory: Stream) -> Result<String> {
    let mut directory = BufReader::new(directory);
    let mut seen = HashSet::new();
    loop {
        let mut entry = [0; 46];
        directory.read_exact(&mut entry)?;
        let &[b'P', b'K', 1, 2, .., n0, n1, e0, e1, c0, c1, _, _, _, _, _, _, _, _, _, _, _, _] = &entry else {
            return Err(FormatError::corrupt("the zip archive's directory is damaged"));
        };
        let mut name = vec![0; usize::from(u16::from_le_bytes([n0, n1]))];
        directory.read_exact(&mut name)?;
        let more = u64::from(u16::from_le_bytes([e0, e1])) + u64::from(u16::from_le_bytes([c0, c1]));
        std::io::copy(&mut directory.by_ref().take(more), &mut std::io::sink())?;
        if let Some(name) = seen.replace(name) {
            return Ok(String::from_utf8_lossy(&name).into_owned());
        }
    }
}

/// The members of one field of a shard.
struct Names {
    /// With `.npy`.
    main: String,
    /// For `bytes`: how many underscores the name of the member has that tells where values start and end.
    underscores: Option<usize>,
}

impl Names {
    /// The member that tells where the values of `bytes` start and end. Made when it is needed, for it is as long as the longest
    /// field's name, whatever their number.
    fn offsets(&self) -> Option<String> {
        self.underscores.map(|n| format!("len{}{}", "_".repeat(n), self.main))
    }
}

/// The members of each field, as the Sedpack reference names them: the prefix of offsets is long enough to be the start of no field.
fn member_names(schema: &Schema) -> impl Iterator<Item = Names> {
    let longest = schema.fields.iter().map(|f| f.name.chars().count()).max().unwrap_or(0);
    schema.fields.iter().map(move |field| Names {
        main: format!("{}.npy", field.name),
        underscores: matches!(field.ty, FieldType::Bytes { .. }).then_some(longest),
    })
}

pub(super) fn wrong_length(declared: u64, found: u64) -> FormatError {
    FormatError::corrupt(format!("the archive declares {declared} bytes, and {found} are there"))
}

pub(super) fn failure(e: ZipError) -> FormatError {
    match e {
        ZipError::Io(e) => e.into(),
        ZipError::UnsupportedArchive(what) => FormatError::unsupported(format!("a zip archive with a rare feature: {what}")),
        e => FormatError::new(FormatErrorKind::Corrupt, format!("the zip archive is damaged or cut short: {e}")),
    }
}
