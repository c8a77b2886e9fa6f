//! Which dataset a command looks at: where, and at which version.

use crate::place::Storage;
use sigbank::Error;
use sigbank::layout::signal_dataset::Dataset;
use sigbank::layout::signal_dataset::versions::{dataset_at_version, open_at_version};
use sigbank::layout::{self, Source, jbof};
use sigbank::query::{self, Searched};
use sigbank::store::StorageOptions;
use std::sync::Arc;

/// The shared argument.
#[derive(clap::Args, Default)]
pub(crate) struct Version {
    /// Look at this version of a signal-dataset: a number, a name, sha256: and 12 digits or more, or latest [default: 0, what root.json names]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    #[command(flatten)]
    storage: Storage,
}

impl Version {
    /// Opens a dataset of any layout at the version, if one was given.
    pub(crate) fn source(&self, path: &str) -> Result<Arc<dyn Source>, Error> {
        match &self.version {
            None => query::open_source(path, &self.storage.options()),
            Some(version) => open_at_version(path, version, &self.storage.options()),
        }
    }
    /// The settings of the storage.
    pub(crate) fn storage(&self) -> StorageOptions {
        self.storage.options()
    }
    /// The JBOF data set, if that is what is there; it has no versions.
    pub(crate) fn jbof(&self, path: &str) -> Result<Option<jbof::Dataset>, Error> {
        match &self.version {
            None => layout::open_jbof(path, &self.storage.options()),
            Some(_) => Ok(None),
        }
    }
    /// The signal-dataset, if that is the layout, where no version was given and so all are meant.
    pub(crate) fn all_of(&self, path: &str, layout: &str) -> Result<Option<Dataset>, Error> {
        match self.version.is_none() && layout == "signal-dataset" {
            true => self.dataset(path).map(Some),
            false => Ok(None),
        }
    }
    /// What a search at a path looks at.
    pub(crate) fn searched(&self, path: &str) -> Result<Searched, Error> {
        query::open(path, self.version.as_deref(), &self.storage.options())
    }
    /// Opens a signal-dataset at the version, if one was given.
    pub(crate) fn dataset(&self, path: &str) -> Result<Dataset, Error> {
        dataset_at_version(path, self.version.as_deref(), &self.storage.options())
    }
}
