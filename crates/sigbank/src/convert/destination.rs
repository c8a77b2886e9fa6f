//! Where a new dataset goes.

use super::Staging;
use super::veil::{Veil, taken};
use crate::error::{Error, Result};
use crate::layout::detect;
use crate::layout::sedpack::{ROOT, local_store};
use crate::store::{StorageOptions, Store, connect, exists, local_path};
use crate::uri::RelPath;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a new dataset goes: a folder that is made, or an address of object storage, with the settings of that (and of the addresses
/// that are read from). In a folder the dataset appears when it is complete, or not at all; in a bucket too: shards are put there as they
/// are made, the lists after them, create-only, and the root last. A run that fails removes what it put there, except copies of
/// shards, which the next run uses again; one that is killed leaves objects that nothing names.
///
/// ```
/// use sigbank::convert::Destination;
/// let there = Destination::new("s3://bucket/traces", [("region".into(), "eu-west-1".into())].into());
/// assert!(there.path().to_str() == Some("s3://bucket/traces"));
/// assert_eq!(Destination::from("traces").path().to_str(), Some("traces"));
/// ```
#[derive(Debug, Clone)]
pub struct Destination {
    path: PathBuf,
    options: StorageOptions,
}

impl Destination {
    /// A folder or an address, with the settings of its storage.
    pub fn new(path: impl Into<PathBuf>, options: StorageOptions) -> Self {
        Self { path: path.into(), options }
    }
    /// The folder, or the address.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// The settings.
    pub fn options(&self) -> &StorageOptions {
        &self.options
    }
}

impl From<&Path> for Destination {
    fn from(path: &Path) -> Self {
        Self::new(path, StorageOptions::new())
    }
}

impl From<&PathBuf> for Destination {
    fn from(path: &PathBuf) -> Self {
        Self::from(path.as_path())
    }
}

impl From<&str> for Destination {
    fn from(path: &str) -> Self {
        Self::from(Path::new(path))
    }
}

/// An address of object storage; `None` for a path.
pub(super) fn address(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| local_path(text).is_none())
}

/// Refuses what is an address but for its slashes, and would be made as a folder of that name.
pub(super) fn no_half_address(path: &Path) -> Result<()> {
    let Some((scheme, rest)) = path.to_str().and_then(|text| text.split_once(':')) else { return Ok(()) };
    if !["s3", "gs", "az", "http", "https"].contains(&scheme) || rest.starts_with("//") {
        return Ok(());
    }
    Err(Error::invalid("this looks like an address, but is a folder's name").at(path.display()).remedy(format!(
        "write {scheme}://{}, or ./{} for a folder",
        rest.trim_start_matches('/'),
        path.display()
    )))
}

/// Refuses a place that holds a dataset, of whatever layout: whichever is looked for first would hide the other.
pub(super) fn vacant(store: &dyn Store, shown: impl std::fmt::Display) -> Result<()> {
    match detect(store)? {
        None => Ok(()),
        Some(_) => Err(Error::already_exists("a dataset is here already").at(shown).remedy("choose another destination")),
    }
}

/// A dataset that is being made.
#[derive(Debug)]
pub(super) enum Making {
    Folder(Staging),
    Bucket(Begun),
}

/// What is put into a bucket; removed with this, before anybody hears of a failure, whichever threads still hold the store.
#[derive(Debug)]
pub(super) struct Begun(Veil);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.remove();
    }
}

impl Making {
    /// Begins. With `keep`, what is put into a bucket stays when the run fails, for the next one.
    ///
    /// # Errors
    /// `AlreadyExists` where the destination is taken; those of its storage.
    pub(super) fn begin(destination: &Destination, keep: bool) -> Result<Self> {
        no_half_address(&destination.path)?;
        let Some(address) = address(&destination.path) else { return Ok(Self::Folder(Staging::new(&destination.path)?)) };
        let bucket = connect(address, &destination.options)?;
        let root = RelPath::parse(ROOT)?;
        if !bucket.capabilities().write {
            return Err(Error::read_only("nothing can be written there").at(address).remedy("choose a folder or a bucket"));
        }
        if exists(&*bucket, &root)? {
            return Err(taken(&*bucket, &root));
        }
        vacant(&*bucket, address)?;
        Ok(Self::Bucket(Begun(Veil::new(bucket, keep))))
    }

    /// Where to write.
    pub(super) fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(match self {
            Self::Folder(staging) => Arc::new(local_store(staging.dir())?),
            Self::Bucket(begun) => Arc::new(begun.0.clone()),
        })
    }

    /// Makes it visible, in one step.
    ///
    /// # Errors
    /// `AlreadyExists` where somebody else's has appeared meanwhile.
    pub(super) fn publish(self) -> Result<()> {
        match self {
            Self::Folder(staging) => staging.publish(),
            Self::Bucket(begun) => begun.0.lift(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_its_slashes_is_no_folder() {
        for (text, right) in [("s3:bucket/x", "write s3://bucket/x,"), ("gs:/b", "write gs://b,")] {
            let e = no_half_address(Path::new(text)).unwrap_err();
            assert!(e.to_string().contains(right), "{e}");
        }
        for text in ["s3://bucket/x", "./s3:x", "monday", "a:b", "C:/x", "s3"] {
            no_half_address(Path::new(text)).unwrap();
        }
    }
}
