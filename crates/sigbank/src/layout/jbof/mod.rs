//! The JBOF layout: a folder an item, an array a file that people can open, metadata as JSON. Byte-compatible with the reference
//! package `jbof` 0.1.2.
//!
//! | what | where |
//! |---|---|
//! | the data set's metadata, and its `_itemformat` | `_metadata.json` |
//! | an item's metadata | `<item>/_metadata.json` |
//! | an array's metadata, and its `_filename` | `<item>/<array>.json` |
//! | an array's elements | `<item>/<array>.{npy,wav,flac,ogg,mat}` |
//! | what is being added or deleted | `__pycache__/sigbank/`, which the reference skips |
//!
//! Names of items and arrays are one path component. A directory that starts with a dot, `__pycache__`, and one without
//! `_metadata.json` are no items; a file without its `.json` is no array. Data sets are read from any [`Store`](crate::store::Store) and written on a
//! local disk. **Opening reads nothing but whether the data set is there.**
//!
//! Each add and delete is one step for every other process, also where its own is killed: an item is filled unseen and renamed; an
//! array's data file takes its name before its `.json` does, which makes it an array. What a killed process left is put right by the next
//! that writes to the item, and by [`Dataset::open_to_write`]; readers see it not. What a killed creation, deletion or conversion left lies beside the data set
//! under a hidden name (`.NAME.<random>`), and goes with the next one of that name, a minute later or after. [`Source::verify`](crate::layout::Source::verify)
//! finds arrays and items that have lost their documents.
//!
//! ```
//! use sigbank::format::array::npy;
//! use sigbank::format::model::{Array, json::Json};
//! use sigbank::layout::jbof::{ArrayFile, Creation, Dataset};
//! let dir = tempfile::tempdir()?;
//! let dataset = Dataset::create(&dir.path().join("speech"), &Creation::default())?;
//! let item = dataset.add_item(Some("take 1"), &Json::parse(br#"{"speaker": "ann"}"#, &Default::default())?)?;
//! let ramp = Array::new("<i2".parse()?, vec![2], vec![1, 0, 2, 0].into())?;
//! item.add_array("ramp", &ArrayFile::new("npy", &[&npy::to_bytes(&ramp)?]), &Json::EMPTY)?;
//! let found = Dataset::open(&dir.path().join("speech"))?.item("take 1")?;
//! assert_eq!(found.metadata()?.as_str(), r#"{"speaker":"ann"}"#);
//! assert_eq!(found.array("ramp")?.open(Default::default())?.read_all()?, ramp);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod area;
mod contents;
mod dataset;
mod describe;
mod detect;
mod documents;
mod hash;
pub mod hdf;
mod item;
mod itemformat;
mod litter;
mod lock;
mod names;
mod onefile;
pub(crate) mod scan;
mod source;
#[cfg(test)]
mod tests;
mod value;
mod verify;
mod windows;
mod write;

pub(super) use contents::contents;
pub use contents::{Beyond, begin_deletes, beyond, end_deletes, local_store, missing_entrances, rank};
pub use dataset::{Creation, Dataset};
pub(crate) use describe::each;
pub use describe::{ArrayDescription, Problem};
pub(super) use detect::near_miss;
pub(crate) use detect::{check_names, is_data_set, is_own_key};
pub use item::{ArrayEntry, Item, Kept};
pub use itemformat::item_name;
pub use names::{is_array_extension, is_litter};
pub use onefile::OneFile;
pub use source::JbofSource;
pub use write::ArrayFile;

/// The layout's name, as [`Source::layout`](crate::layout::Source::layout) gives it.
pub const LAYOUT: &str = "jbof";
/// The metadata document of a data set and of an item.
pub const ROOT: &str = "_metadata.json";
