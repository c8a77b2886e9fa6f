//! Search in datasets of any layout, and in metadata that are in one file.

use crate::dataset::{Dataset, Settings};
use crate::errors::raise;
use crate::windows::Of;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sigbank::format::model::json::{Json, Limits};
use sigbank::query::{Expr, Places, Record, Selected, State, Table, TableBuilder};
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

/// Opens a dataset again with the records that it had: what its pickle calls. `state` is that of a dataset as it was opened.
///
/// # Errors
/// Those of `open`; `ConflictError` where some of the records are not there any more.
#[pyfunction]
#[pyo3(signature = (path, state, version=None, storage_options=None))]
pub fn reopened(
    py: Python<'_>,
    path: PathBuf,
    state: &str,
    version: Option<&Bound<'_, PyAny>>,
    storage_options: Option<Settings>,
) -> PyResult<Dataset> {
    let state: State = state.parse().map_err(raise)?;
    let opened = crate::dataset::open(py, path, version, storage_options)?;
    let source = Arc::clone(&opened.source);
    let source = py.detach(|| state.restored(source)).map_err(raise)?;
    Ok(Dataset { source, ..opened })
}

/// What was found in a dataset, or windows of it: what their pickles call. `kept` are the numbers of the records found by split, or of windows how
/// many there are.
///
/// # Errors
/// `ConflictError` where the recordings are longer or shorter than they were, so that there are more windows or fewer.
#[pyfunction]
pub fn made_again(dataset: &Bound<'_, Dataset>, method: &str, args: &Bound<'_, PyTuple>, kept: Places) -> PyResult<Dataset> {
    if method == "where" {
        let (expression,): (String,) = args.extract()?;
        return found(dataset, &expression, kept);
    }
    let (field, length, hop): (String, u64, u64) = args.extract()?;
    let windows = crate::windows::windows(dataset, &field, length, hop)?;
    for (split, count) in kept {
        let (now, before) = (windows.source.units(&split).map_err(raise)?.records(), count.first().copied().unwrap_or(0));
        if now != before {
            let what = format!("there were {before} windows of '{field}' when they were pickled, and there are {now}");
            let e = sigbank::Error::conflict(what)
                .at(&windows.path)
                .remedy("open the dataset again, and take windows of what it is now");
            return Err(raise(e));
        }
    }
    Ok(windows)
}

/// How a dataset is pickled: what is called, and with what.
pub fn reduce<'py>(dataset: &Bound<'py, Dataset>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
    let (py, of) = (dataset.py(), dataset.get());
    let native = PyModule::import(py, "sigbank._native")?;
    if let Some(made) = &of.windows {
        let counts = || of.source.splits().into_iter().map(|split| (split.name, vec![split.records])).collect();
        let kept = made.places().cloned().unwrap_or_else(counts);
        let args = (made.dataset(py), made.method(), made.args(py), kept).into_pyobject(py)?;
        return Ok((native.getattr("made_again")?, args));
    }
    let (state, digest) = py
        .detach(|| Ok((State::of(&*of.source)?, of.version.as_ref().map(|_| of.source.root_digest()).transpose()?)))
        .map_err(raise)?;
    let options = Some(of.options.clone()).filter(|options| !options.is_empty());
    Ok((native.getattr("reopened")?, (&of.path, state.to_string(), digest, options).into_pyobject(py)?))
}

/// See `Dataset.where`.
pub fn select(dataset: &Bound<'_, Dataset>, expression: &str) -> PyResult<Dataset> {
    if let Some((of, first, among)) = found_in(dataset)? {
        let mut wanted = places(&of, expression)?;
        for (split, ordinals) in &mut wanted {
            let among = among.get(split).map(Vec::as_slice).unwrap_or_default();
            ordinals.retain(|ordinal| among.binary_search(ordinal).is_ok());
        }
        return found(&of, &format!("({first}) and ({expression})"), wanted);
    }
    let places = places(dataset, expression)?;
    found(dataset, expression, places)
}

/// The dataset of what was found.
fn found(dataset: &Bound<'_, Dataset>, expression: &str, places: Places) -> PyResult<Dataset> {
    let py = dataset.py();
    let whole = Arc::clone(&dataset.get().source);
    let source = py.detach(|| Selected::new(whole, places.clone())).map_err(raise)?;
    let args = (expression,).into_pyobject(py)?.unbind();
    Ok(Of::made(dataset, Arc::new(source), "where", args, Some(places), format!(", where {expression}")))
}

/// See `Dataset.find`.
pub fn find(dataset: &Bound<'_, Dataset>, expression: &str) -> PyResult<Vec<u64>> {
    let mut found = match found_in(dataset)? {
        None => places(dataset, expression)?,
        Some((of, _, all)) => {
            let mut wanted = places(&of, expression)?;
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

fn found_in<'py>(dataset: &Bound<'py, Dataset>) -> PyResult<Option<(Bound<'py, Dataset>, String, Places)>> {
    dataset.get().windows.as_ref().map_or(Ok(None), |of| of.found_in(dataset.py()))
}

/// The records of each split of a dataset as it was opened for which an expression holds, with warnings given.
fn places(dataset: &Bound<'_, Dataset>, expression: &str) -> PyResult<Places> {
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
