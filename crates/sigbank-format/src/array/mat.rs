//! MATLAB level 5 MAT-files (`-v6` and `-v7`), as far as they hold arrays: one variable a file, read and written.
//!
//! The format is that of MathWorks' "MAT-File Format" document. Numeric, logical and character arrays are read, in either byte order and
//! compressed or not, and delivered in C order with at least two axes, as MATLAB has them. Cells, structures, sparse matrices and
//! objects are refused, and so are level 4 and version 7.3 (which is HDF5), each by name.

mod read;
#[cfg(test)]
mod tests;
mod write;

pub(super) use read::MatReader;
pub use write::to_bytes;

use super::ArrayReader;
use crate::error::{FormatError, Result};
use crate::model::Array;
use crate::read_at::ReadAt;
use std::sync::Arc;

/// Longest name of a variable that MATLAB has.
const LONGEST_NAME: usize = 63;
/// Length of a file's header.
const HEADER: usize = 128;

/// Types of data elements.
mod element {
    pub(super) const INT8: u32 = 1;
    pub(super) const UINT8: u32 = 2;
    pub(super) const INT16: u32 = 3;
    pub(super) const UINT16: u32 = 4;
    pub(super) const INT32: u32 = 5;
    pub(super) const UINT32: u32 = 6;
    pub(super) const SINGLE: u32 = 7;
    pub(super) const DOUBLE: u32 = 9;
    pub(super) const INT64: u32 = 12;
    pub(super) const UINT64: u32 = 13;
    pub(super) const MATRIX: u32 = 14;
    pub(super) const COMPRESSED: u32 = 15;
    pub(super) const UTF8: u32 = 16;
    pub(super) const UTF16: u32 = 17;
    pub(super) const UTF32: u32 = 18;
}

/// Classes of arrays.
mod class {
    pub(super) const CHAR: u8 = 4;
    pub(super) const DOUBLE: u8 = 6;
    pub(super) const SINGLE: u8 = 7;
    pub(super) const INT8: u8 = 8;
    pub(super) const UINT8: u8 = 9;
    pub(super) const INT16: u8 = 10;
    pub(super) const UINT16: u8 = 11;
    pub(super) const INT32: u8 = 12;
    pub(super) const UINT32: u8 = 13;
    pub(super) const INT64: u8 = 14;
    pub(super) const UINT64: u8 = 15;
}

/// Flags of arrays.
const COMPLEX: u8 = 8;
const LOGICAL: u8 = 2;

/// The variable of this name, or, where there is none of it, the only one.
///
/// # Errors
/// Corrupt for a damaged file; Unsupported for what is no array or no level 5 file; Invalid where there are several variables and none of
/// the name, which lists them.
///
/// ```
/// use sigbank_format::array::mat;
/// use sigbank_format::model::Array;
/// use std::sync::Arc;
/// let a = Array::new("<i2".parse()?, vec![2, 3], [0i16, 1, 2, 3, 4, 5].iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>().into())?;
/// let file = bytes::Bytes::from(mat::to_bytes("ramp", &a)?);
/// assert_eq!(mat::read(Arc::new(file), "ramp")?, a);
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub fn read(src: Arc<dyn ReadAt>, name: &str) -> Result<Array> {
    open(src, name)?.read_all()
}

/// As [`read`], its elements not yet read.
///
/// # Errors
/// Those of [`read`].
pub fn open(src: Arc<dyn ReadAt>, name: &str) -> Result<Box<dyn ArrayReader>> {
    Ok(Box::new(MatReader::new(src, Some(name))?))
}

/// The name under which a variable is stored: the array's, where it is Latin-1, does not begin with `_` and has at most 63 characters. SciPy,
/// and so the reference package of the JBOF layout, finds the variable under it, and Octave reads it; MATLAB's own names are ASCII letters,
/// digits and `_`, and begin with a letter. What even SciPy cannot store is made one of MATLAB's.
///
/// ```
/// use sigbank_format::array::mat::variable_name;
/// assert_eq!(variable_name("1st take"), "1st take");
/// assert_eq!(variable_name("_ref"), "x_ref");
/// ```
pub fn variable_name(name: &str) -> String {
    let kept = |c: char| matches!(c, ' '..='~' | '\u{a0}'..='\u{ff}');
    if !name.is_empty() && !name.starts_with('_') && name.chars().all(kept) && name.chars().count() <= LONGEST_NAME {
        return name.to_owned();
    }
    let mut out = String::with_capacity(name.len() + 1);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        out.push('x');
    }
    out.extend(name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }));
    out.chars().take(LONGEST_NAME).collect()
}

fn cut_short(what: &str) -> FormatError {
    FormatError::corrupt(format!("the file ends inside {what}: it was cut short"))
}
