//! Stores of objects: those that the core reaches by address, and those that are Python objects.

use super::container::ForeignContainer;
use super::errors::{During, raise};
use crate::dataset::Settings;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sigbank::format::container::arrayrecord::{self, Decoder, Reader, Writer};
use sigbank::layout::signal_dataset::{Container, Elsewhere, Options};
use sigbank::store::{Expected, LocalStore, Store, Version, connect, local_path};
use sigbank::uri::RelPath;
use std::path::PathBuf;
use std::sync::Arc;

/// The store that a dataset's root is in.
#[derive(Clone)]
#[pyclass(frozen, module = "sigbank._native")]
pub struct SignalStore {
    pub store: Arc<dyn Store>,
    /// The root as it was given, without slashes at the end.
    pub root: String,
    /// Finds the stores of other addresses.
    reach: Option<Arc<Py<PyAny>>>,
    /// What shards are written and read with where they are no ArrayRecord files.
    container: Option<ForeignContainer>,
}

impl SignalStore {
    /// The options with how other addresses are reached from here, and shards are written and read.
    pub fn options(&self, mut options: Options) -> Options {
        if let Some(container) = self.container.clone() {
            // Its methods run one at a time anyway.
            options.threads = 1;
            options.container = Some(Container::new(container));
        }
        let Some(reach) = self.reach.clone() else { return options };
        let elsewhere = Elsewhere::new(move |base| {
            Python::attach(|py| {
                let found = reach.bind(py).call1((base,)).and_then(|found| Ok(found.cast_into::<SignalStore>()?));
                found.map(|found| Arc::clone(&found.get().store)).map_err(|e| super::foreign::taken(py, e, base))
            })
        });
        Options { elsewhere, ..options }
    }

    fn path(key: &str) -> PyResult<RelPath> {
        RelPath::parse(key).map_err(failed)
    }
}

fn failed(e: sigbank::Error) -> PyErr {
    // Of a single object: what is not there is a plain FileNotFoundError.
    match e.code() {
        sigbank::Code::NotFound => crate::errors::raise(e),
        _ => raise(e, During::Publish),
    }
}

#[pymethods]
impl SignalStore {
    /// The store at an address. A local directory is made with `create`; it may be a `mounted` bucket.
    #[staticmethod]
    #[pyo3(signature = (address, options, create=false, mounted=false))]
    fn connect(py: Python<'_>, address: &str, options: Settings, create: bool, mounted: bool) -> PyResult<Self> {
        let Settings(options) = options;
        let local = |path| -> sigbank::Result<Arc<dyn Store>> {
            let store = if create { LocalStore::create(path)? } else { LocalStore::open(path)? };
            Ok(Arc::new(if mounted { store.mounted() } else { store }))
        };
        let open = || -> sigbank::Result<Arc<dyn Store>> {
            let at = match local_path(address) {
                Some(path) => local(path),
                None => connect(address, &options),
            };
            at.map_err(|e| match (e.code(), local_path(address)) {
                (sigbank::Code::NotFound, Some(path)) if !create => {
                    let root = path.join(sigbank::layout::signal_dataset::ROOT);
                    let e = sigbank::Error::not_found("there is no signal-dataset here").at(root.display());
                    e.remedy("check the path; a dataset is there once it is published")
                }
                _ => e,
            })
        };
        let store = py.detach(open).map_err(|e| raise(e, During::Open))?;
        Ok(Self { store, root: super::dataset::shown(address).to_owned(), reach: None, container: None })
    }

    /// The store that a Python object is, an `ObjectStore`, below a root. `retry` is (attempts, base, most seconds, jitter).
    #[staticmethod]
    fn of(object: Py<PyAny>, root: &str, retry: (u32, f64, f64, bool)) -> Self {
        let root = super::dataset::shown(root).to_owned();
        let store = Arc::new(super::foreign::ForeignStore::new(object, root.clone(), retry));
        Self { store, root, reach: None, container: None }
    }

    /// The same store, with what finds the stores of other addresses: called with the address of a bucket, or a directory.
    fn reaching(&self, reach: Py<PyAny>) -> Self {
        Self { reach: Some(Arc::new(reach)), ..self.clone() }
    }

    /// The same store, whose shards a Python object writes and reads, a `ShardStore`. `options` are (reader's, writer's, buffer size).
    fn containing(&self, shards: Py<PyAny>, options: (String, String, Option<u64>)) -> Self {
        let container = ForeignContainer::new(shards, self.store.location(), self.root.clone(), options);
        Self { container: Some(container), ..self.clone() }
    }

    #[getter]
    fn root(&self) -> &str {
        &self.root
    }
    #[getter]
    fn location(&self) -> String {
        self.store.location()
    }
    /// Whether `compare_and_swap` works.
    #[getter]
    fn swaps(&self) -> bool {
        self.store.capabilities().compare_and_swap
    }

    fn read<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyBytes>> {
        let path = Self::path(key)?;
        let bytes = py.detach(|| self.store.get(&path)).map_err(failed)?;
        Ok(PyBytes::new(py, &bytes))
    }
    fn read_range<'py>(&self, py: Python<'py>, key: &str, start: u64, stop: u64) -> PyResult<Bound<'py, PyBytes>> {
        let path = Self::path(key)?;
        let got = py.detach(|| self.store.get_ranges(&path, std::slice::from_ref(&(start..stop)))).map_err(failed)?;
        Ok(PyBytes::new(py, got.first().map(|b| &b[..]).unwrap_or_default()))
    }
    fn read_version<'py>(&self, py: Python<'py>, key: &str) -> PyResult<(Bound<'py, PyBytes>, String)> {
        let path = Self::path(key)?;
        let (bytes, version) = py.detach(|| self.store.get_versioned(&path)).map_err(failed)?;
        Ok((PyBytes::new(py, &bytes), version.as_str().to_owned()))
    }
    /// Size, and version where that costs no reading.
    fn head(&self, py: Python<'_>, key: &str) -> PyResult<(u64, Option<String>)> {
        let path = Self::path(key)?;
        let meta = py.detach(|| self.store.head(&path)).map_err(failed)?;
        Ok((meta.size, meta.version.map(|v| v.as_str().to_owned())))
    }
    fn create(&self, py: Python<'_>, key: &str, data: &[u8]) -> PyResult<()> {
        let path = Self::path(key)?;
        py.detach(|| self.store.create(&path, &[data])).map_err(failed)
    }
    fn create_file(&self, py: Python<'_>, key: &str, file: PathBuf) -> PyResult<()> {
        let path = Self::path(key)?;
        let copy = || -> sigbank::Result<()> {
            let mut file = std::fs::File::open(file)?;
            let mut object = self.store.write_new(&path)?;
            std::io::copy(&mut file, &mut object)?;
            object.commit()
        };
        py.detach(copy).map_err(failed)
    }
    /// Puts an object in the place of the version that was `expected`, or of none.
    fn compare_and_swap(&self, py: Python<'_>, key: &str, data: &[u8], expected: Option<String>) -> PyResult<String> {
        let (path, version) = (Self::path(key)?, expected.map(Version::new));
        let expected = version.as_ref().map_or(Expected::Absent, Expected::Version);
        let now = py.detach(|| self.store.replace(&path, &[data], expected)).map_err(failed)?;
        Ok(now.as_str().to_owned())
    }
    /// How many records an ArrayRecord object holds.
    fn count(&self, py: Python<'_>, key: &str) -> PyResult<u64> {
        let path = Self::path(key)?;
        let count = || -> sigbank::Result<u64> { Ok(Reader::open(self.store.open_read(&path)?)?.len()) };
        py.detach(count).map_err(|e| failed(e.at(self.store.locate(&path))))
    }
    /// Records of an ArrayRecord object, by number.
    fn records<'py>(&self, py: Python<'py>, key: &str, indices: Vec<u64>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let path = Self::path(key)?;
        let read = || -> sigbank::Result<Vec<Vec<u8>>> {
            let (reader, mut decoder) = (Reader::open(self.store.open_read(&path)?)?, Decoder::default());
            let one = |index: u64| {
                let mut record = Vec::new();
                decoder.read(&reader, index, &mut record)?;
                Ok(record)
            };
            indices.into_iter().map(one).collect()
        };
        let records = py.detach(read).map_err(|e| failed(e.at(self.store.locate(&path))))?;
        Ok(records.iter().map(|record| PyBytes::new(py, record)).collect())
    }
    /// The keys below a directory.
    fn list(&self, py: Python<'_>, prefix: Option<&str>) -> PyResult<Vec<String>> {
        let prefix = prefix.map(Self::path).transpose()?;
        let list = || -> sigbank::Result<Vec<String>> {
            self.store.list(prefix.as_ref())?.map(|entry| entry.map(|e| e.path.to_string())).collect()
        };
        py.detach(list).map_err(failed)
    }
}

/// Writes records (bytes) as an ArrayRecord file; gives how many there were.
#[pyfunction]
pub fn signal_write_records(file: PathBuf, records: &Bound<'_, PyAny>, options: &str) -> PyResult<u64> {
    let options = arrayrecord::Options { compression: super::options::compression(options)?, ..Default::default() };
    let wrong = |e: sigbank::Error| failed(e.at(file.display()));
    let target = std::fs::File::create(&file).map_err(|e| wrong(e.into()))?;
    let mut writer = Writer::new(std::io::BufWriter::new(target), options).map_err(|e| wrong(e.into()))?;
    let mut count = 0;
    for record in records.try_iter()? {
        writer.push(record?.extract::<pyo3::pybacked::PyBackedBytes>()?.as_ref()).map_err(|e| wrong(e.into()))?;
        count += 1;
    }
    let (mut target, _) = writer.finish().map_err(|e| wrong(e.into()))?;
    std::io::Write::flush(&mut target).map_err(|e| wrong(e.into()))?;
    Ok(count)
}
