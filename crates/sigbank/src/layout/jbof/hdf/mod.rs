//! A data set in one HDF5 file: the data set's metadata are the file's attributes, an item is a group with attributes, an array a data set with
//! attributes. As the reference writes and reads it.
//!
//! | what | where |
//! |---|---|
//! | metadata that attributes hold: numbers, texts, lists of either | attributes |
//! | metadata that they do not: None, nested values, lists of several kinds or over 60,000 bytes, the `_itemformat` | the text attribute `_sigbank`, JSON |
//! | true and false | as a number, and in `_sigbank` |
//! | elements | in one piece, shape and byte order as they are |
//! | bool, complex | the enumeration and the compound that h5py has for them |
//! | `U`, `M8`, `m8`, 16-byte floats | opaque, tagged `NUMPY:` and the dtype, as h5py has them |

mod attrs;
mod export;
mod file;
mod import;
mod store;
#[cfg(test)]
mod tests;
mod types;

pub use export::export;
pub use import::import;
pub use store::HdfStore;
