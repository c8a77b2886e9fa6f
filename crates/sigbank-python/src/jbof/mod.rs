//! The native side of `sigbank.jbof`.

mod arrays;
mod dataset;
mod errors;
mod files;
mod json;

use pyo3::prelude::*;

/// The name that a template gives an item of these metadata: as the core makes it, which is as `str.format` does.
#[pyfunction]
fn jbof_item_name(template: &str, metadata: &Bound<'_, PyAny>) -> PyResult<String> {
    sigbank::layout::jbof::item_name(template, &json::metadata(metadata)?).map_err(errors::raise)
}

/// Adds what `sigbank.jbof` is made of.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<crate::convert::MappedFile>()?;
    m.add_function(wrap_pyfunction!(jbof_item_name, m)?)?;
    m.add_class::<dataset::JbofDataset>()
}
