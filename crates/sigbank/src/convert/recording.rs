//! One recording, whatever its file format.

use super::Candidate;
use crate::error::{Error, Result};
use sigbank_format::model::DType;

/// Rows are read in blocks of about this many bytes.
const BLOCK: u64 = 256 << 10;

/// An array in a file, of which rows (places on the first axis) can be read.
pub(super) struct Recording {
    /// Its name in an npz.
    pub member: Option<String>,
    pub dtype: DType,
    pub shape: Vec<usize>,
    /// Samples per second where the file says it.
    pub rate: Option<f64>,
}

impl Recording {
    /// Rows that are read at once.
    pub(super) fn block_rows(&self) -> u64 {
        let width: usize = self.shape.iter().skip(1).product();
        (BLOCK / (self.dtype.itemsize() * width).max(1) as u64).max(1)
    }
    /// Appends `count` rows from `start` on.
    pub(super) fn read(&mut self, start: u64, count: u64, out: &mut Vec<u8>) -> Result<()> {
        let _ = (start, count, out);
        Err(Error::unsupported("no reader yet"))
    }
}

/// All arrays of a file.
pub(super) fn open(candidate: &Candidate) -> Result<Vec<Recording>> {
    Err(Error::unsupported("no reader yet").at(candidate.path.display()))
}

/// One array of a file.
pub(super) fn open_member(candidate: &Candidate, member: Option<&str>) -> Result<Recording> {
    let all = open(candidate)?;
    let found = all.into_iter().find(|r| r.member.as_deref() == member);
    found.ok_or_else(|| Error::conflict("an array vanished while it was packed").at(candidate.path.display()))
}
