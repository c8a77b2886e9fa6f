//! Search in datasets of any layout, and in metadata that are in one file.

use crate::dataset::Dataset;
use crate::errors::raise;
use crate::windows::Of;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use sigbank::format::model::json::{Json, Limits};
use sigbank::query::{Expr, Record, Selected, Table, TableBuilder};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;

/// What is known of many records, as columns.
#[pyclass(frozen, module = "sigbank._native")]
pub struct MetadataTable(Table);

#[pymethods]
impl MetadataTable {
    /// A table of ids and metadata, each the JSON text of an object.
    #[staticmethod]
    fn from_json(records: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut rows = TableBuilder::default();
        for record in records.try_iter()? {
            let (id, text): (String, String) = record?.extract()?;
            let json = Json::parse(text.as_bytes(), &Limits::default());
            let json = json.map_err(|e| raise(sigbank::Error::from(e).within(format!("the metadata of {id:?}"))))?;
            rows.push(&Record::new(&id, &json), 0);
        }
        Ok(Self(records.py().detach(|| rows.finish())))
    }
    /// Opens what `save` kept, or the index of a data set; what is kept is read when it is asked for.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| Table::open(&path)).map(Self).map_err(raise)
    }
    /// Keeps it in a Parquet file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.0.save(&path, "table")).map_err(raise)
    }
    /// The ids of the records for which an expression holds.
    fn find(&self, py: Python<'_>, expression: &str) -> PyResult<Vec<String>> {
        let expr: Expr = expression.parse().map_err(raise)?;
        let found = py.detach(|| {
            let rows = self.0.select(&expr)?;
            Ok(rows.into_iter().map(|row| self.0.id(row).to_owned()).collect())
        });
        found.map_err(raise)
    }
    /// How many records there are for which an expression holds.
    fn count(&self, py: Python<'_>, expression: &str) -> PyResult<usize> {
        let expr: Expr = expression.parse().map_err(raise)?;
        py.detach(|| self.0.select(&expr)).map(|rows| rows.len()).map_err(raise)
    }
    /// Bytes of memory that it takes.
    #[getter]
    fn memory(&self) -> usize {
        self.0.memory()
    }
    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// The expression in its one form.
///
/// # Errors
/// `InvalidError` where it cannot be read.
#[pyfunction]
pub fn check_expression(expression: &str) -> PyResult<String> {
    expression.parse::<Expr>().map(|expr| expr.to_string()).map_err(raise)
}

/// See `Dataset.where`.
pub fn select(dataset: &Bound<'_, Dataset>, expression: &str) -> PyResult<Dataset> {
    let py = dataset.py();
    if let Some((of, first)) = found_in(dataset)? {
        expression.parse::<Expr>().map_err(raise)?;
        return select(&of, &format!("({first}) and ({expression})"));
    }
    let found = places(dataset, expression)?;
    let whole = Arc::clone(&dataset.get().source);
    let source = py.detach(|| Selected::new(whole, found)).map_err(raise)?;
    let args = (expression,).into_pyobject(py)?.unbind();
    Ok(Of::made(dataset, Arc::new(source), "where", args, format!(", where {expression}")))
}

/// See `Dataset.find`.
pub fn find(dataset: &Bound<'_, Dataset>, expression: &str) -> PyResult<Vec<u64>> {
    let mut found = match found_in(dataset)? {
        None => places(dataset, expression)?,
        Some((of, first)) => {
            let (all, mut wanted) = (places(&of, &first)?, places(&of, expression)?);
            for (split, ordinals) in &mut wanted {
                let among = all.get(split).map(Vec::as_slice).unwrap_or_default();
                *ordinals = ordinals.iter().filter_map(|at| among.binary_search(at).ok()).map(|at| at as u64).collect();
            }
            wanted
        }
    };
    let (mut all, mut before) = (Vec::new(), 0);
    for split in dataset.get().source.splits() {
        all.extend(found.remove(&split.name).unwrap_or_default().into_iter().map(|ordinal| before + ordinal));
        before += split.records;
    }
    Ok(all)
}

fn found_in<'py>(dataset: &Bound<'py, Dataset>) -> PyResult<Option<(Bound<'py, Dataset>, String)>> {
    dataset.get().windows.as_ref().map_or(Ok(None), |of| of.found_in(dataset.py()))
}

/// The records of each split of a dataset as it was opened for which an expression holds, with warnings given.
fn places(dataset: &Bound<'_, Dataset>, expression: &str) -> PyResult<BTreeMap<String, Vec<u64>>> {
    let (py, of) = (dataset.py(), dataset.get());
    let expr: Expr = expression.parse().map_err(raise)?;
    if of.windows.is_some() {
        let refusal = sigbank::Error::unsupported("windows are not searched, but the recordings that they are of").at(&of.path);
        let remedy = "search first, and take windows of what is found: dataset.where(expression).windows(field, length)";
        return Err(raise(refusal.remedy(remedy)));
    }
    let look = || {
        // A version is opened by its digest, which names nothing else.
        let version = of.version.as_ref().map(|_| of.source.root_digest()).transpose()?;
        let searched = sigbank::query::open(&of.path, version.as_deref(), &of.options)?;
        sigbank::query::places(&searched, &*of.source, &expr)
    };
    let (found, warnings) = py.detach(look).map_err(raise)?;
    for warning in warnings {
        let message = CString::new(format!("{}: {warning}", of.path).replace('\0', "\u{fffd}")).unwrap_or_default();
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 1)?;
    }
    Ok(found)
}
