//! Buckets that are mounted as folders.

use crate::error::Result;
use crate::store::LocalStore;
use std::ffi::OsStr;
use std::path::{Path, absolute};

/// Names the mounted buckets, as the reference package reads it.
const ROOTS: &str = "SIGNAL_DATASET_MOUNT_ROOTS";

/// Whether a folder is, or is below, one that `SIGNAL_DATASET_MOUNT_ROOTS` declares as a mounted bucket: folders with `:` between them.
///
/// ```
/// assert!(!sigbank::layout::signal_dataset::is_mounted("captures".as_ref()));
/// ```
pub fn is_mounted(folder: &Path) -> bool {
    std::env::var_os(ROOTS).is_some_and(|roots| is_below(folder, &roots))
}

fn is_below(folder: &Path, roots: &OsStr) -> bool {
    let Ok(folder) = absolute(folder) else { return false };
    let roots = std::env::split_paths(roots).filter(|root| !root.as_os_str().is_empty());
    roots.filter_map(|root| absolute(root).ok()).any(|root| folder.starts_with(root))
}

/// The store of a folder: a [mounted](LocalStore::mounted) one where [`is_mounted`] says so.
///
/// # Errors
/// Those of [`LocalStore::open`].
pub fn local_store(folder: &Path) -> Result<LocalStore> {
    let store = LocalStore::open(folder)?;
    Ok(if is_mounted(folder) { store.mounted() } else { store })
}

#[cfg(test)]
mod tests {
    use super::is_below;

    #[test]
    fn what_is_below_a_mount() {
        for (folder, roots, expected) in [
            ("/mnt/bucket/a", "/mnt/bucket", true),
            ("/mnt/bucket", "/x:/mnt/bucket/", true),
            ("/mnt/bucket-2/a", "/mnt/bucket", false),
            ("/mnt", "/mnt/bucket", false),
            ("/anything", "", false),
            ("/anything", ":", false),
        ] {
            assert_eq!(is_below(folder.as_ref(), roots.as_ref()), expected, "{folder} {roots}");
        }
    }
}
