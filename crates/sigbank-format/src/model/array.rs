//! An array in memory.

use super::DType;
use crate::error::{FormatError, Result};
use crate::limits;
use bytes::Bytes;

/// A dense array in C order: dtype, shape and shared bytes. Cloning shares the bytes.
///
/// ```
/// use sigbank_format::model::Array;
/// let a = Array::new("<i2".parse()?, vec![2, 3], vec![0; 12].into())?;
/// assert_eq!((a.shape(), a.count(), a.data().len()), (&[2, 3][..], 6, 12));
/// assert!(Array::new("<i2".parse()?, vec![2, 3], vec![0; 11].into()).is_err());
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    dtype: DType,
    shape: Vec<usize>,
    data: Bytes,
}

impl Array {
    /// An array of the given bytes; an error of kind Invalid where they are not as many as dtype and shape ask for.
    pub fn new(dtype: DType, shape: Vec<usize>, data: Bytes) -> Result<Self> {
        let want = byte_len(&dtype, &shape)?;
        if want != data.len() {
            return Err(FormatError::invalid(format!(
                "{} bytes given for {} of shape {shape:?}, which takes {want}",
                data.len(),
                dtype.name()
            )));
        }
        Ok(Self { dtype, shape, data })
    }
    /// The element type.
    pub fn dtype(&self) -> &DType {
        &self.dtype
    }
    /// Elements along each axis; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }
    /// How many elements there are.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }
    /// The elements' bytes, C order.
    pub fn data(&self) -> &Bytes {
        &self.data
    }
}

/// Bytes of an array of a dtype and shape; an error of kind Limit where it is over [`limits::MAX_ARRAY_BYTES`] or the rank over
/// [`limits::MAX_RANK`].
pub fn byte_len(dtype: &DType, shape: &[usize]) -> Result<usize> {
    if shape.len() > limits::MAX_RANK {
        return Err(FormatError::limit(format!("an array of rank {} (at most {} is read)", shape.len(), limits::MAX_RANK)));
    }
    // A zero anywhere makes the array empty, but the other lengths must still be possible.
    let nonzero = shape.iter().filter(|&&n| n != 0).try_fold(dtype.itemsize() as u64, |all, &n| all.checked_mul(n as u64));
    match nonzero {
        Some(bytes) if bytes <= limits::MAX_ARRAY_BYTES => Ok(if shape.contains(&0) { 0 } else { bytes as usize }),
        _ => Err(FormatError::limit(format!(
            "an array of {} with shape {shape:?} takes more than {} bytes",
            dtype.name(),
            limits::MAX_ARRAY_BYTES
        ))),
    }
}
