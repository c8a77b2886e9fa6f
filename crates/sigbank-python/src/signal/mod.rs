//! The native side of `sigbank.signal_dataset`.

mod annotation;
mod classes;
mod codec;
mod container;
mod dataset;
mod errors;
mod foreign;
mod gc;
mod give;
mod iterate;
mod json;
mod options;
mod pickle;
mod publish;
mod store;
mod take;
mod versions;
mod view;
mod write;

use pyo3::prelude::*;

/// Adds what `sigbank.signal_dataset` is made of.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<crate::convert::Payload>()?;
    m.add_class::<store::SignalStore>()?;
    m.add_class::<dataset::SignalDataset>()?;
    m.add_class::<view::SignalView>()?;
    m.add_class::<iterate::RecordIterator>()?;
    m.add_class::<annotation::SignalAnnotations>()?;
    m.add_class::<annotation::SignalAnnotationSet>()?;
    m.add_function(wrap_pyfunction!(store::signal_write_records, m)?)?;
    m.add_function(wrap_pyfunction!(write::signal_write_shard, m)?)?;
    m.add_function(wrap_pyfunction!(publish::signal_publish, m)?)?;
    m.add_function(wrap_pyfunction!(gc::signal_gc, m)?)?;
    m.add_function(wrap_pyfunction!(versions::signal_at_version, m)?)?;
    m.add_function(wrap_pyfunction!(versions::signal_versions, m)?)?;
    m.add_function(wrap_pyfunction!(versions::signal_publish_version, m)?)?;
    m.add_function(wrap_pyfunction!(versions::signal_compare, m)?)?;
    m.add_function(wrap_pyfunction!(codec::signal_encode, m)?)?;
    m.add_function(wrap_pyfunction!(codec::signal_decode, m)?)?;
    m.add_function(wrap_pyfunction!(codec::signal_validate, m)?)?;
    m.add_function(wrap_pyfunction!(codec::signal_encode_metadata, m)?)?;
    m.add_function(wrap_pyfunction!(codec::signal_decode_metadata, m)?)?;
    m.add_function(wrap_pyfunction!(json::signal_freeze, m)?)?;
    m.add_function(wrap_pyfunction!(json::signal_freeze_values, m)?)?;
    m.add_function(wrap_pyfunction!(pickle::signal_thaw, m)?)?;
    m.add_function(wrap_pyfunction!(pickle::signal_restore, m)?)
}
