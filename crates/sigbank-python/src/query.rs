//! Search in metadata that are in one file, whatever dataset they are of.

use crate::errors::raise;
use pyo3::prelude::*;
use sigbank::format::model::json::{Json, Limits};
use sigbank::query::{Expr, Record, Table, TableBuilder};
use std::path::PathBuf;

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
