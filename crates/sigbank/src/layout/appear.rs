//! What comes before the creation of a root that makes a dataset visible.

use super::{Layout, detect};
use crate::error::{Error, Result};
use crate::store::Store;
use crate::store::turn::{self, Turn};

/// Keeps others from making another dataset appear in the same place until the result is dropped, and refuses where one of another layout
/// is by now: their roots have different names, so that both would be created, and one hide the other. On stores with locks, where datasets appear by
/// renaming their folder, it does nothing.
///
/// # Errors
/// `AlreadyExists` where such a dataset is; those of the store.
pub(crate) fn alone(store: &dyn Store, layout: Layout) -> Result<Option<Turn<'_>>> {
    let turn = turn::take(store)?;
    if turn.is_some() && detect(store)?.is_some_and(|other| other != layout) {
        return Err(Error::already_exists("a dataset of another layout has appeared here meanwhile")
            .at(store.location())
            .remedy("choose another destination"));
    }
    Ok(turn)
}
