//! Whether the file that a data set is in is still the one that was opened.

use super::Dataset;
use crate::error::{Error, Result};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

/// The zip archive or HDF5 file on a local disk that a data set was opened in, as it was then; of any other data set nothing.
///
/// ```
/// use sigbank::layout::jbof::{Creation, Dataset, OneFile, hdf};
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("a.h5");
/// hdf::export(&Dataset::create(&dir.path().join("a"), &Creation::default())?, &path)?;
/// let dataset = Dataset::open_hdf(&path)?;
/// let file = OneFile::of(&dataset);
/// file.still_there(&dataset)?;
/// std::fs::remove_file(&path)?;
/// assert_eq!(file.still_there(&dataset).unwrap_err().code(), sigbank::Code::Conflict);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneFile(Option<Stamp>);

/// Inode, size and time of the last change of what is in it.
type Stamp = (u64, u64, Option<SystemTime>);

impl OneFile {
    /// To be taken when the data set is opened.
    pub fn of(dataset: &Dataset) -> Self {
        Self(stamp(dataset))
    }
    /// Whether that file is still at its place.
    ///
    /// # Errors
    /// `Conflict` where another file was put there, or it was changed or removed.
    pub fn still_there(&self, dataset: &Dataset) -> Result<()> {
        if self.0.is_none() {
            return Ok(());
        }
        let what = match stamp(dataset) {
            now if now == self.0 => return Ok(()),
            None => "the file was removed since the data set was opened",
            Some(_) => "the file was replaced or changed since the data set was opened",
        };
        Err(Error::conflict(what).at(dataset.location()).remedy("open it again"))
    }
}

fn stamp(dataset: &Dataset) -> Option<Stamp> {
    if dataset.local_root().is_some() {
        return None;
    }
    let found = std::fs::metadata(dataset.location()).ok().filter(Metadata::is_file)?;
    Some((found.ino(), found.len(), found.modified().ok()))
}
