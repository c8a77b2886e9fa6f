//! One record, or what is said of it, and its bytes.

use super::errors::{invalid, invalid_value, within};
use super::give::SharedGiver;
use super::take::{policy, record, record_metadata};
use crate::convert::Unchanging;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sigbank::format::model::json::Limits;
use sigbank::format::record::signal;

/// From so many bytes on, other threads run meanwhile.
const LARGE: usize = 64 << 10;

static GIVER: SharedGiver = SharedGiver::new();

/// The bytes of a record.
#[pyfunction]
#[pyo3(signature = (record, policy=None))]
pub fn signal_encode<'py>(
    py: Python<'py>,
    record: &Bound<'py, PyAny>,
    policy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let policy = self::policy(policy)?;
    let taken = self::record(record)?;
    let data = taken.data()?;
    let says = &taken.says;
    let large = data.iter().map(|d| d.len()).sum::<usize>() >= LARGE;
    let run = || signal::encode(says, &data, &policy);
    let encoded = if large { py.detach(run) } else { run() };
    Ok(PyBytes::new(py, &encoded.map_err(invalid)?))
}

/// The record of some bytes; its arrays are views of them.
#[pyfunction]
#[pyo3(signature = (data, policy=None))]
pub fn signal_decode<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    policy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let data = bytes(data)?;
    let policy = self::policy(policy)?;
    let payload = data.as_bytes();
    let run = || signal::decode(payload, &policy);
    let decoded = if payload.len() >= LARGE { py.detach(run) } else { run() }.map_err(invalid)?;
    GIVER.with(|giver| giver.record(py, &decoded.metadata, &decoded.data, &Unchanging::Python(data.clone())))
}

/// Checks a record against every rule.
#[pyfunction]
#[pyo3(signature = (record, policy=None))]
pub fn signal_validate(record: &Bound<'_, PyAny>, policy: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let policy = self::policy(policy)?;
    signal::validate(&self::record(record)?.says, &policy).map_err(invalid)
}

/// The document that says of a record everything but its samples.
#[pyfunction]
#[pyo3(signature = (record, policy=None))]
pub fn signal_encode_metadata<'py>(
    py: Python<'py>,
    record: &Bound<'py, PyAny>,
    policy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let policy = self::policy(policy)?;
    Ok(PyBytes::new(py, &signal::encode_metadata(&record_metadata(record)?, &policy).map_err(invalid)?))
}

/// What such a document says.
#[pyfunction]
#[pyo3(signature = (data, policy=None, control=None))]
pub fn signal_decode_metadata<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    policy: Option<&Bound<'py, PyAny>>,
    control: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let data = bytes(data)?;
    let (policy, control) = (self::policy(policy)?, limits(control)?);
    let says = signal::decode_metadata(data.as_bytes(), &policy, &control).map_err(invalid)?;
    GIVER.with(|giver| giver.metadata(py, &says))
}

/// The limits of a `ControlPolicy`; None is the default.
pub fn limits(policy: Option<&Bound<'_, PyAny>>) -> PyResult<Limits> {
    let Some(policy) = policy else { return Ok(Limits::default()) };
    let limit = |name: &str| policy.getattr(name)?.extract::<u64>().or(Ok::<_, PyErr>(u64::MAX));
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    Ok(Limits {
        max_bytes: limit("max_document_bytes")?,
        max_depth: size(limit("max_json_depth")?),
        max_nodes: size(limit("max_json_nodes")?),
    })
}

fn bytes<'a, 'py>(data: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyBytes>> {
    let found = || data.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string());
    data.cast::<PyBytes>().map_err(|_| within(data.py(), "data", invalid_value(format!("bytes are expected, found {}", found()))))
}
