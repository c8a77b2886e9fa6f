//! From an address to its store.

use super::{CloudStore, LocalStore, Store, cache};
use crate::error::Result;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// How to reach a store, by name: the services' own settings (`aws_region`, `endpoint`, `google_service_account`, …), beside what their
/// usual environment variables say, see [`cloud`](super::cloud), and `cache_dir` and `cache_size` of a [cache](super::cache). A local
/// folder has none.
pub type StorageOptions = BTreeMap<String, String>;

/// The store whose root is at an address: a path, a `file://` URL, or one of object storage (`s3://`, `gs://`, `az://`, `http://`, …, see
/// [`cloud`](super::cloud)). Nothing is read, and nothing made.
///
/// # Errors
/// `NotFound` for a local folder that is not there, `Unsupported` for an address of an unknown kind, `Invalid` for one that names no
/// place and for options that are not known or do not fit.
///
/// ```
/// use sigbank::store::{StorageOptions, connect};
/// let dir = tempfile::tempdir()?;
/// let store = connect(&dir.path().to_string_lossy(), &StorageOptions::new())?;
/// assert!(store.capabilities().write);
/// assert_eq!(connect("gopher://a/b", &StorageOptions::new()).unwrap_err().code(), sigbank::Code::Unsupported);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn connect(address: &str, options: &StorageOptions) -> Result<Arc<dyn Store>> {
    match local_path(address) {
        Some(path) => Ok(Arc::new(LocalStore::open(path)?)),
        None => {
            let mut services = options.clone();
            services.retain(|name, _| !cache::OPTIONS.contains(&name.as_str()));
            cache::wrap(Arc::new(CloudStore::new(address, &services)?), options)
        }
    }
}

/// The path of an address on the local disk: what has no scheme, or `file://` before it.
///
/// ```
/// use sigbank::store::local_path;
/// use std::path::Path;
/// assert_eq!(local_path("a/b"), Some(Path::new("a/b")));
/// assert_eq!(local_path("file:///a"), Some(Path::new("/a")));
/// assert_eq!(local_path("s3://bucket/a"), None);
/// ```
pub fn local_path(address: &str) -> Option<&Path> {
    match address.split_once("://") {
        None => Some(Path::new(address)),
        Some(("file", path)) => Some(Path::new(path)),
        Some(_) => None,
    }
}
