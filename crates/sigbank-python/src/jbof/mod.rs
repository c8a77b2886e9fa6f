//! The native side of `sigbank.jbof`.

mod arrays;
mod dataset;
mod errors;
mod json;

use pyo3::prelude::*;

/// Adds what `sigbank.jbof` is made of.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<crate::convert::MappedFile>()?;
    m.add_class::<dataset::JbofDataset>()
}
