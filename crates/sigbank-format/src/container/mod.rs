//! Many records in one object.

#[cfg(feature = "arrayrecord")]
pub mod arrayrecord;
pub mod flatbuffer;
#[cfg(feature = "npz")]
pub mod npz;
pub mod tfrecord;
#[cfg(feature = "npz")]
pub mod zip;

use crate::error::{FormatError, Result};
use crate::model::FieldType;

/// Where a container puts the values that it reads: the consumer hands out the memory.
pub trait Places {
    /// The memory for one value: field `field` (a position in the fields asked for) of the `row`-th record asked for, `len` bytes
    /// long. Each value is asked for at most once and filled completely.
    ///
    /// # Errors
    /// Invalid where the length is not what the consumer can take.
    fn place(&mut self, row: usize, field: usize, len: usize) -> Result<&mut [u8]>;

    /// As [`Places::place`], for a value that is stored as another type than the one declared.
    ///
    /// # Errors
    /// Unsupported by default: most consumers lay values out by the declaration.
    fn place_as(&mut self, row: usize, field: usize, stored: &FieldType, len: usize) -> Result<&mut [u8]> {
        let _ = (row, field, len);
        Err(FormatError::unsupported(format!("stored as {stored}, which is not what is declared")))
    }
}
