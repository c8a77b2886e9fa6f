//! Items with their arrays, without a look into any file.

use super::look::Eyes;
use super::{Catalog, Keep, kept};
use crate::error::Result;
use crate::layout::jbof::{ArrayDescription, Dataset};
use crate::query::Field;
use crate::store::exists;
use sigbank_format::model::json::Json;
use std::collections::HashMap;

/// Items by their names, each with its arrays.
pub type Described = Vec<(String, Vec<ArrayDescription>)>;

/// The items of a data set, sorted by name, each with what [`Item::describe`](crate::layout::jbof::Item::describe) gives, where the data set has an
/// index with fields (`sigbank find PLACE --index`): on a local disk what changed since is looked at anew; in a bucket one listing of all files
/// tells whether it stands, a request for each thousand of them. None where there is no such index, or (in a bucket) it does not stand any more;
/// and where `SIGBANK_INDEX` is `ignore`.
///
/// # Errors
/// Those of listing and reading; `Invalid` for another word in `SIGBANK_INDEX`. A damaged index is none.
///
/// ```
/// use sigbank::format::model::json::Json;
/// use sigbank::layout::jbof::{Creation, Dataset};
/// use sigbank::query::jbof::{Catalog, Keep, described};
/// let dir = tempfile::tempdir()?;
/// let dataset = Dataset::create(&dir.path().join("a"), &Creation::default())?;
/// dataset.add_item(Some("x"), &Json::EMPTY)?;
/// assert_eq!(described(&dataset)?, None);
/// Catalog::new(Keep::Auto).write_index(&dataset, true, 0)?;
/// assert_eq!(described(&dataset)?, Some(vec![("x".to_owned(), vec![])]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn described(dataset: &Dataset) -> Result<Option<Described>> {
    if Keep::chosen()? == Keep::Ignore || !exists(&**dataset.store(), &kept::index()?)? {
        return Ok(None);
    }
    let mut catalog = Catalog::new(Keep::Use);
    let eyes = Eyes::new(dataset, true)?;
    let root = catalog.load(dataset);
    let stands = root.is_some() && root == eyes.root().map(|stamp| stamp.digest);
    if !catalog.table().is_described() || (dataset.local_root().is_none() && !stands) {
        return Ok(None);
    }
    (catalog.loaded, catalog.seen) = (true, root);
    catalog.bring_up(dataset, &eyes, true, true, 0)?;
    let table = catalog.table();
    let (mut items, mut anew) = (Vec::with_capacity(table.len()), Vec::new());
    for row in 0..table.len() {
        let name = table.id(row).to_owned();
        let arrays: Option<Vec<_>> = table.fields(row)?.into_iter().map(array).collect();
        if arrays.is_none() {
            anew.push(name.clone());
        }
        items.push((name, arrays.unwrap_or_default()));
    }
    // Why an array cannot be read is not kept.
    let looked = dataset.describe(&anew, 0)?;
    let mut looked: HashMap<&String, _> = anew.iter().zip(looked).collect();
    items.retain_mut(|(name, arrays)| match looked.remove(name) {
        Some(Some(found)) => {
            *arrays = found;
            true
        }
        // Deleted since.
        Some(None) => false,
        None => true,
    });
    Ok(Some(items))
}

/// None for an array with a problem.
fn array(field: Field) -> Option<ArrayDescription> {
    let shape = field.shape?.into_iter().map(usize::try_from).collect::<Result<_, _>>().ok()?;
    Some(ArrayDescription {
        dtype: Some(field.dtype?.parse().ok()?),
        shape: Some(shape),
        name: field.name,
        file: field.file,
        sample_rate: field.sample_rate,
        bytes: field.bytes?,
        metadata: field.metadata.unwrap_or(Json::EMPTY),
        problem: None,
    })
}
