//! A document or an array of an HDF5 file, presented as a file.

use super::store::guarded;
use crate::error::{Error, Result};
use crate::store::{Sequential, StoreFile};
use bytes::Bytes;
use hdf5_pure::Dataset;
use sigbank_format::FormatError;
use sigbank_format::read_at::{ReadAt, past_end};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// A file that is presented.
pub(super) struct HdfFile {
    pub(super) location: String,
    pub(super) size: u64,
    pub(super) content: Content,
}

pub(super) struct Content {
    pub(super) head: Bytes,
    pub(super) body: Body,
    /// Bytes of the body.
    pub(super) len: u64,
}

pub(super) enum Body {
    None,
    /// From this offset of the file on.
    Direct(Arc<dyn StoreFile>, u64),
    /// Rows of so many bytes, `step` of which are decoded at once.
    Rows {
        dataset: Dataset,
        row: u64,
        step: u64,
        window: Mutex<(u64, Vec<u8>)>,
    },
}

impl Body {
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        match self {
            Body::None => Ok(()),
            Body::Direct(file, start) => Ok(file.read_at(start.saturating_add(offset), buf)?),
            Body::Rows { dataset, row, step, window } => {
                let mut window = window.lock().unwrap_or_else(PoisonError::into_inner);
                let (mut at, mut rest) = (offset, buf);
                while !rest.is_empty() {
                    let have = at.checked_sub(window.0).and_then(|skip| window.1.get(usize::try_from(skip).ok()?..));
                    let have = match have {
                        Some(have) if !have.is_empty() => have,
                        _ => {
                            let first = at / row / step * step;
                            window.1 = guarded(|| dataset.read_raw_rows(first, *step))?;
                            window.0 = first * row;
                            let have = window.1.get(usize::try_from(at - window.0).unwrap_or(usize::MAX)..).unwrap_or_default();
                            if have.is_empty() {
                                return Err(Error::corrupt("the data set has fewer elements than its shape says"));
                            }
                            have
                        }
                    };
                    let n = have.len().min(rest.len());
                    let (now, later) = rest.split_at_mut(n);
                    now.copy_from_slice(have.get(..n).unwrap_or_default());
                    (at, rest) = (at + n as u64, later);
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for HdfFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HdfFile({:?})", self.location)
    }
}

impl ReadAt for HdfFile {
    fn size(&self) -> u64 {
        self.size
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), FormatError> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.size) {
            return Err(past_end(offset, buf.len(), self.size));
        }
        let head = self.content.head.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        let (first, rest) = buf.split_at_mut(head.len().min(buf.len()));
        first.copy_from_slice(head.get(..first.len()).unwrap_or_default());
        if rest.is_empty() {
            return Ok(());
        }
        let start = (offset + first.len() as u64).saturating_sub(self.content.head.len() as u64);
        self.content.body.read(start, rest).map_err(|e| io::Error::from(e.at(&self.location)).into())
    }
}

impl StoreFile for HdfFile {
    fn location(&self) -> &str {
        &self.location
    }
    fn stream(self: Arc<Self>) -> Box<dyn io::Read + Send> {
        Box::new(Sequential::new(self))
    }
}
