//! A data set of the JBOF layout, its items and their arrays by name.

use super::errors::{invalid, raise};
use super::{arrays, files, json};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyString, PyTuple};
use sigbank::layout::jbof::{Creation, Dataset, Item, OneFile, hdf};
use sigbank::query::Expr;
use sigbank::query::jbof::{Catalog, Hit, Keep, Odd};
use sigbank::{Error, Result};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A data set. Items and arrays are given by their names.
#[pyclass(frozen, module = "sigbank._native")]
pub struct JbofDataset {
    pub core: Dataset,
    /// The metadata of all items as of the last search.
    catalog: Mutex<Option<Catalog>>,
    /// The file that it was opened in.
    file: OneFile,
}

/// An item that a search found: its name, its document, and whether the core is certain that it is meant.
type Found<'py> = (String, Bound<'py, PyBytes>, bool);

impl JbofDataset {
    pub fn of(core: Dataset) -> Self {
        Self { file: OneFile::of(&core), core, catalog: Mutex::default() }
    }

    /// Runs without the GIL, with what is known of the items.
    fn with_catalog<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Dataset, &mut Catalog) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.run(py, |core| {
            let mut held = self.catalog.lock().unwrap_or_else(PoisonError::into_inner);
            let mut catalog = match held.take() {
                Some(catalog) => catalog,
                None => Catalog::new(Keep::chosen()?),
            };
            let done = work(core, &mut catalog);
            *held = Some(catalog);
            done
        })
    }
    fn search<'py>(
        &self,
        py: Python<'py>,
        expr: &Expr,
        odd: Odd,
        limit: Option<usize>,
    ) -> PyResult<(Vec<Found<'py>>, Vec<String>)> {
        let (found, warnings) = self.with_catalog(py, |core, catalog| {
            match odd {
                Odd::Caller => catalog.refresh(core, expr, 0)?,
                Odd::Expr => {
                    self.file.still_there(core)?;
                    catalog.refresh_each(core, expr, 0)?;
                }
            }
            let item = |hit: Hit| {
                let document = catalog.document(hit.row)?.to_vec();
                Ok((catalog.table().id(hit.row).to_owned(), document, hit.certain))
            };
            let found = catalog.find(expr, odd, limit)?.into_iter().map(item).collect::<Result<Vec<_>>>()?;
            let unknown = if odd == Odd::Expr { catalog.unknown(expr)? } else { Vec::new() };
            let unsearched = if odd == Odd::Expr { catalog.unsearched() } else { None };
            let warnings = catalog.take_warning().into_iter().chain(unsearched).chain(unknown.iter().map(ToString::to_string));
            Ok((found, warnings.collect()))
        })?;
        Ok((found.into_iter().map(|(name, text, certain)| (name, PyBytes::new(py, &text), certain)).collect(), warnings))
    }

    /// Runs without the GIL.
    fn run<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&Dataset) -> Result<T> + Send) -> PyResult<T> {
        py.detach(|| work(&self.core)).map_err(raise)
    }
    fn with_item<T: Send>(&self, py: Python<'_>, item: &str, work: impl FnOnce(Item) -> Result<T> + Send) -> PyResult<T> {
        self.run(py, |core| work(core.item(item)?))
    }
}

#[pymethods]
impl JbofDataset {
    /// Opens a data set in a directory.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, readonly: bool, durable: bool) -> PyResult<Self> {
        let open = || if readonly { Dataset::open(&path) } else { Dataset::open_to_write(&path, durable) };
        py.detach(open).map(Self::of).map_err(raise)
    }
    /// Opens a data set in a file to read it: of HDF5, or else a zip archive.
    #[staticmethod]
    fn open_file(py: Python<'_>, path: PathBuf, hdf: bool) -> PyResult<Self> {
        let open = || if hdf { Dataset::open_hdf(&path) } else { Dataset::open_zip(&path) };
        py.detach(open).map(Self::of).map_err(raise)
    }
    /// Opens a data set to read it, in a bucket or a single file there.
    #[staticmethod]
    fn open_address(py: Python<'_>, address: &str) -> PyResult<Self> {
        let open = || {
            let found = sigbank::layout::open_jbof(address, &Default::default())?;
            found.ok_or_else(|| {
                Error::not_found("the dataset here is of another layout").at(address).remedy("open it by sigbank.open")
            })
        };
        py.detach(open).map(Self::of).map_err(raise)
    }
    /// Writes all to an HDF5 file.
    fn to_hdf(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.run(py, |core| hdf::export(core, &path))
    }
    /// Makes a folder of all, and opens it to write.
    fn to_folder(&self, py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        self.run(py, |core| hdf::import(core, &path)).map(Self::of)
    }
    /// Creates an empty data set.
    #[staticmethod]
    fn create(
        py: Python<'_>,
        path: PathBuf,
        metadata: &Bound<'_, PyAny>,
        itemformat: Option<String>,
        durable: bool,
    ) -> PyResult<Self> {
        let creation = Creation { metadata: json::metadata(metadata)?, itemformat, durable };
        py.detach(|| Dataset::create(&path, &creation)).map(Self::of).map_err(raise)
    }
    /// Deletes the whole directory.
    fn delete(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |core| match core.local_root() {
            Some(root) if core.is_writable() => Dataset::delete(root),
            _ => Err(Error::read_only("the data set was opened to read only")
                .at(core.location())
                .remedy("open it to write: readonly=False")),
        })
    }

    /// Where it is.
    #[getter]
    fn path(&self) -> String {
        self.core.location()
    }
    /// The directory's name.
    #[getter]
    fn name(&self) -> String {
        self.core.name()
    }
    /// Whether it was opened to read only.
    #[getter]
    fn readonly(&self) -> bool {
        !self.core.is_writable()
    }
    /// The document of the data set's metadata as it stands.
    fn document<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.run(py, Dataset::document_text)?))
    }
    /// The hex MD5 of all items.
    fn hash(&self, py: Python<'_>) -> PyResult<String> {
        self.run(py, |core| core.hash(0))
    }

    /// The names of all items, sorted.
    fn item_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.run(py, Dataset::item_names)
    }
    /// Whether there is an item of this name.
    fn has_item(&self, py: Python<'_>, item: &str) -> PyResult<bool> {
        self.run(py, |core| core.has_item(item))
    }
    /// Adds an empty item; gives its name.
    fn add_item(&self, py: Python<'_>, item: Option<&str>, metadata: &Bound<'_, PyAny>) -> PyResult<String> {
        let metadata = json::metadata(metadata)?;
        self.run(py, |core| Ok(core.add_item(item, &metadata)?.name().to_owned()))
    }
    /// Deletes an item with all its arrays.
    fn delete_item(&self, py: Python<'_>, item: &str) -> PyResult<()> {
        self.run(py, |core| core.delete_item(item))
    }
    /// The document of an item's metadata as it stands.
    fn item_document<'py>(&self, py: Python<'py>, item: &str) -> PyResult<Bound<'py, PyBytes>> {
        let text = self.with_item(py, item, |item| item.document_text())?;
        Ok(PyBytes::new(py, &text))
    }

    /// The items whose metadata have, for each key, one of the values given for it: names, documents, and whether that is certain, which it is
    /// not where the document is no plain JSON object. At most `limit` certain ones.
    fn find<'py>(
        &self,
        py: Python<'py>,
        query: Vec<(String, Vec<Bound<'py, PyAny>>)>,
        limit: Option<usize>,
    ) -> PyResult<Vec<Found<'py>>> {
        let wanted = query
            .iter()
            .map(|(key, values)| {
                let of_json = values.iter().filter(|value| !is_not_of_json(value));
                Ok((key.clone(), of_json.map(|value| json::json(value, key)).collect::<PyResult<Vec<_>>>()?))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let mut found = self.search(py, &Expr::any_of(&wanted), Odd::Caller, limit)?.0;
        found.iter_mut().for_each(|(.., certain)| *certain |= wanted.is_empty());
        Ok(found)
    }

    /// Refuses an expression that cannot be read.
    #[staticmethod]
    fn check(expression: &str) -> PyResult<()> {
        expression.parse::<Expr>().map(drop).map_err(raise)
    }

    /// The items for which an expression holds, as `find` gives them, and what is to be warned of, items with damaged documents among it.
    fn select<'py>(&self, py: Python<'py>, expression: &str, limit: Option<usize>) -> PyResult<(Vec<Found<'py>>, Vec<String>)> {
        let expr: Expr = expression.parse().map_err(raise)?;
        self.search(py, &expr, Odd::Expr, limit)
    }

    /// Brings the index up to date, with the arrays' dtypes and shapes where `fields` says so; gives its path.
    fn write_index(&self, py: Python<'_>, fields: bool) -> PyResult<PathBuf> {
        self.with_catalog(py, |core, catalog| catalog.write_index(core, fields, 0))
    }

    /// The names of an item's arrays, sorted.
    fn array_names(&self, py: Python<'_>, item: &str) -> PyResult<Vec<String>> {
        self.run(py, |core| {
            let names = core.item_unseen(item)?.array_names()?;
            // An item that has arrays is there.
            if names.is_empty() { core.item(item)?.array_names() } else { Ok(names) }
        })
    }
    /// Whether an item has an array of this name.
    fn has_array(&self, py: Python<'_>, item: &str, name: &str) -> PyResult<bool> {
        self.with_item(py, item, |item| item.has_array(name))
    }
    /// An array: its file, its document, the file's name, its elements (memory, offset, dtype, shape, Fortran order; None for what NumPy
    /// is to read), the shape and dtype that the file does not hold, and the samplerate that it does.
    fn array<'py>(&self, py: Python<'py>, item: &str, name: &str) -> PyResult<Bound<'py, PyTuple>> {
        arrays::read(py, &self.core, item, name)
    }
    /// Adds an array: what its file does not hold is told, and its document is given. `header` stands before the elements where it is not the core's to write.
    #[allow(clippy::too_many_arguments)] // The arguments of `Item.add_array`.
    #[pyo3(signature = (item, name, array, metadata, *, fileformat, header, samplerate, subtype, lossy))]
    fn add_array<'py>(
        &self,
        py: Python<'py>,
        item: &str,
        name: &str,
        array: &Bound<'_, PyUntypedArray>,
        metadata: &Bound<'_, PyAny>,
        fileformat: &str,
        header: Option<&[u8]>,
        samplerate: Option<u32>,
        subtype: Option<&str>,
        lossy: bool,
    ) -> PyResult<(Option<String>, Bound<'py, PyBytes>)> {
        let new = arrays::New {
            name,
            metadata: json::metadata(metadata)?,
            format: arrays::format(fileformat)?,
            samplerate,
            subtype: subtype.map(arrays::subtype).transpose()?,
            lossy,
        };
        let (loss, document) = arrays::add(py, &self.core, item, new, array, header)?;
        Ok((loss, PyBytes::new(py, &document)))
    }
    /// Adds a copy of a file as an array. `checked` where NumPy found it to be an array already; `incomplete` to take what decodes of audio that is cut short
    /// or damaged. Gives what is missing of it, in words, and the array as `array` does, where all of it was read.
    #[allow(clippy::too_many_arguments)] // The arguments of `Item.add_array_from_file`.
    #[pyo3(signature = (item, name, path, metadata, *, checked, incomplete))]
    fn add_file<'py>(
        &self,
        py: Python<'py>,
        item: &str,
        name: &str,
        path: PathBuf,
        metadata: &Bound<'_, PyAny>,
        checked: bool,
        incomplete: bool,
    ) -> PyResult<(Option<String>, Option<Bound<'py, PyTuple>>)> {
        let new = files::New { name, path: &path, metadata: json::metadata(metadata)?, checked, incomplete };
        files::add(py, &self.core, item, &new)
    }
    /// Deletes an array.
    fn delete_array(&self, py: Python<'_>, item: &str, name: &str) -> PyResult<()> {
        self.with_item(py, item, |item| item.delete_array(name))
    }
    /// What changes when an array is replaced: None where it is not there, or where that cannot be told cheaply.
    fn array_stamp(&self, item: &str, name: &str) -> Option<(u64, i64, i64)> {
        self.core.item_unseen(item).ok()?.array_stamp(name)
    }
}

/// Whether a value is one that only documents beside JSON can have: a number that is none, half a surrogate pair.
fn is_not_of_json(value: &Bound<'_, PyAny>) -> bool {
    let odd = |number: &Bound<'_, PyFloat>| !number.value().is_finite();
    value.cast().is_ok_and(odd) || value.cast::<PyString>().is_ok_and(|text| text.to_str().is_err())
}

/// A text that names nothing known.
pub fn unknown(what: &str, found: &str, known: &str) -> PyErr {
    invalid(format!("the {what} {found:?} is not known: give one of {known}"))
}
