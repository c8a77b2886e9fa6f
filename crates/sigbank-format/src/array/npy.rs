//! NumPy's npy format, versions 1.0 to 3.0: reading by windows, and writing as NumPy writes.
//!
//! Every dtype of fixed size is read in either byte order and delivered little-endian; Fortran order is delivered as C order. Object
//! arrays, whose elements are pickles, and structured dtypes are refused.

mod header;
mod literal;
#[cfg(test)]
mod tests;

use super::{ArrayInfo, ArrayReader, Format};
use crate::error::{FormatError, Result};
use crate::model::array::byte_len;
use crate::model::{Array, ByteOrder, DType, Kind};
use crate::read_at::ReadAt;
use header::Header;
use std::io::Write;
use std::sync::Arc;

/// Bytes of a Fortran-ordered file that are held at once while its elements are put in C order.
const BLOCK: usize = 1 << 20;

/// The header that NumPy writes before the elements of a C-ordered array: magic, version, length and text, padded to 64 bytes.
///
/// ```
/// let header = sigbank_format::array::npy::header(&">f4".parse()?, &[3])?;
/// assert_eq!(header.len(), 128);
/// assert!(header.starts_with(b"\x93NUMPY\x01\x00v\x00{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }  "));
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub fn header(dtype: &DType, shape: &[usize]) -> Result<Vec<u8>> {
    header::write(dtype, shape)
}

/// Writes an array as NumPy's `save` does, byte for byte, in the array's own byte order.
pub fn write(array: &Array, out: &mut impl Write) -> Result<()> {
    out.write_all(&header(array.dtype(), array.shape())?)?;
    Ok(out.write_all(array.data())?)
}

/// An array as the bytes of an npy file.
///
/// ```
/// use sigbank_format::array::npy;
/// use sigbank_format::model::Array;
/// let a = Array::new("|u1".parse()?, vec![2], vec![7, 8].into())?;
/// assert!(npy::to_bytes(&a)?.ends_with(&[b'\n', 7, 8]));
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub fn to_bytes(array: &Array) -> Result<Vec<u8>> {
    let mut out = header(array.dtype(), array.shape())?;
    out.extend_from_slice(array.data());
    Ok(out)
}

/// Where an npy file has its elements, and what they are.
///
/// ```
/// use sigbank_format::array::npy;
/// let file = [npy::header(&">i2".parse()?, &[2])?, vec![0, 1, 0, 2]].concat();
/// let place = npy::locate(&bytes::Bytes::from(file))?;
/// assert_eq!((place.dtype.to_string().as_str(), &place.shape[..], place.fortran_order, place.start), (">i2", &[2][..], false, 128));
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// Element type as stored.
    pub dtype: DType,
    /// Elements along each axis.
    pub shape: Vec<usize>,
    /// Whether the first axis varies fastest.
    pub fortran_order: bool,
    /// The first element's offset in bytes.
    pub start: u64,
}

/// Reads the header alone, and checks that the file is long enough for what it declares: for whoever maps the elements.
///
/// # Errors
/// Corrupt for a damaged header or a file that was cut short; Unsupported for object arrays and structured dtypes.
pub fn locate(src: &dyn ReadAt) -> Result<Place> {
    let Header { dtype, fortran_order, shape, data_start: start } = checked_header(src)?.0;
    Ok(Place { dtype, shape, fortran_order, start })
}

/// The header, and how many bytes follow the elements.
fn checked_header(src: &dyn ReadAt) -> Result<(Header, u64)> {
    let header = Header::read(src)?;
    let wanted = byte_len(&header.dtype, &header.shape)? as u64;
    // Elements of no width take no bytes, but their count is to be possible all the same.
    byte_len(&DType::new(Kind::Bool, 1)?, &header.shape)?;
    let found = src.size().saturating_sub(header.data_start);
    if found < wanted {
        return Err(FormatError::corrupt(format!(
            "an npy array of {} with shape {:?} takes {wanted} bytes after its header, a file of {} in all, but the file has {}: it was cut short",
            header.dtype.name(),
            header.shape,
            header.data_start + wanted,
            src.size()
        )));
    }
    Ok((header, found - wanted))
}

/// An npy file that is open for reading.
pub(crate) struct NpyReader {
    src: Arc<dyn ReadAt>,
    header: Header,
    info: ArrayInfo,
}

impl NpyReader {
    /// Reads the header, and checks that the file is long enough for what it declares.
    pub(crate) fn new(src: Arc<dyn ReadAt>) -> Result<Self> {
        let (header, trailing_bytes) = checked_header(&*src)?;
        let info = ArrayInfo {
            format: Format::Npy,
            dtype: header.dtype.clone().with_order(ByteOrder::Little),
            stored_dtype: header.dtype.clone(),
            shape: header.shape.clone(),
            audio: None,
            incomplete: None,
            trailing_bytes,
        };
        Ok(Self { src, header, info })
    }

    /// Whether neighbouring elements of a row lie apart in the file.
    pub(crate) fn is_fortran(&self) -> bool {
        self.header.fortran_order && self.header.shape.iter().filter(|&&n| n != 1).count() > 1
    }

    /// Rows of a Fortran-ordered array: in the file, the rows of one column (one position on all axes but the first) lie together.
    fn read_fortran(&self, start: usize, count: usize, out: &mut [u8]) -> Result<()> {
        let item = self.header.dtype.itemsize();
        let rows = self.info.rows();
        let columns = self.info.row_bytes() / item;
        let tail = self.header.shape.get(1..).unwrap_or_default();
        let mut column = ColumnOrder::new(tail);
        // Short columns are read several at a time, rows not asked for included; long ones a piece at a time.
        let together = (BLOCK / (rows * item)).clamp(1, columns.max(1));
        let piece = if together > 1 { count } else { count.min((BLOCK / item).max(1)) };
        let mut block = Vec::new();
        for first in (0..columns).step_by(together) {
            let group = together.min(columns - first);
            let places: Vec<usize> = (0..group).map(|_| column.next_place()).collect();
            for from in (0..count).step_by(piece) {
                let taken = piece.min(count - from);
                // From the first column's first row wanted to the last column's last.
                let span = (group - 1) * rows + taken;
                block.resize(span * item, 0);
                let offset = (first * rows + start + from) as u64 * item as u64;
                self.src.read_at(self.header.data_start + offset, &mut block)?;
                for (run, place) in block.chunks(rows * item).zip(&places) {
                    let targets = out.chunks_exact_mut(item).skip(from * columns + place).step_by(columns);
                    for (element, target) in run.chunks_exact(item).take(taken).zip(targets) {
                        target.copy_from_slice(element);
                    }
                }
            }
        }
        Ok(())
    }
}

impl ArrayReader for NpyReader {
    fn info(&self) -> &ArrayInfo {
        &self.info
    }
    fn read_rows(&mut self, start: usize, count: usize, out: &mut [u8]) -> Result<()> {
        self.info.check_window(start, count, out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        if self.header.fortran_order && self.header.shape.len() > 1 {
            self.read_fortran(start, count, out)?;
        } else {
            let offset = start as u64 * self.info.row_bytes() as u64;
            self.src.read_at(self.header.data_start + offset, out)?;
        }
        if self.header.dtype.is_big_endian() {
            swap(out, self.header.dtype.swap_width());
        }
        Ok(())
    }
    fn read_all(&mut self) -> Result<Array> {
        // The file was found to be as long as this.
        let mut data = vec![0; byte_len(&self.info.dtype, &self.info.shape)?];
        self.read_rows(0, self.info.rows(), &mut data)?;
        Array::new(self.info.dtype.clone(), self.info.shape.clone(), data.into())
    }
}

/// Walks the positions on all axes but the first in the file's order (first axis fastest), giving each one's place in C order.
pub(super) struct ColumnOrder<'a> {
    shape: &'a [usize],
    at: Vec<usize>,
}

impl<'a> ColumnOrder<'a> {
    pub(super) fn new(shape: &'a [usize]) -> Self {
        Self { shape, at: vec![0; shape.len()] }
    }
    pub(super) fn next_place(&mut self) -> usize {
        let place = self.shape.iter().zip(&self.at).fold(0, |place, (len, at)| place * len + at);
        for (at, &len) in self.at.iter_mut().zip(self.shape) {
            *at += 1;
            if *at < len {
                break;
            }
            *at = 0;
        }
        place
    }
}

/// Reverses the bytes of each number of a width.
pub(crate) fn swap(bytes: &mut [u8], width: usize) {
    match width {
        2 => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|n| *n = u16::from_be_bytes(*n).to_le_bytes()),
        4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|n| *n = u32::from_be_bytes(*n).to_le_bytes()),
        8 => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|n| *n = u64::from_be_bytes(*n).to_le_bytes()),
        _ => bytes.chunks_exact_mut(width.max(1)).for_each(<[u8]>::reverse),
    }
}
