//! Opening with what an index knows.

use super::jbof::described;
use crate::error::Result;
use crate::layout::jbof::JbofSource;
use crate::layout::{Source, open_by};
use crate::store::StorageOptions;
use std::sync::Arc;

/// As [`layout::open_with`](crate::layout::open_with); but a JBOF data set in a bucket that has an index ([`described`]) is opened by that: a request
/// for each thousand files instead of several for each item. An index that does not stand any more is none.
///
/// # Errors
/// Those of [`layout::open_with`](crate::layout::open_with) and of [`described`].
///
/// ```
/// use sigbank::layout::jbof::{Creation, Dataset};
/// let dir = tempfile::tempdir()?;
/// let root = dir.path().join("a");
/// Dataset::create(&root, &Creation::default())?;
/// assert_eq!(sigbank::query::open_source(&root.to_string_lossy(), &Default::default())?.layout(), "jbof");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_source(address: &str, options: &StorageOptions) -> Result<Arc<dyn Source>> {
    open_by(address, options, &|dataset| {
        // On a local disk a look at each file costs less than to compare what was seen before.
        let known = if dataset.store().capabilities().round_trip > 0 { described(&dataset)? } else { None };
        match known {
            Some(known) => JbofSource::described(dataset, known),
            None => JbofSource::new(dataset),
        }
    })
}
