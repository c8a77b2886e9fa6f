//! A store that is a Python object: an `ObjectStore` of `sigbank.signal_dataset.storage`, or anything with its methods.

use bytes::Bytes;
use pyo3::exceptions::{
    PyFileExistsError, PyFileNotFoundError, PyNotImplementedError, PyPermissionError, PyTypeError, PyValueError,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use sigbank::format::error::Result as FormatResult;
use sigbank::format::read_at::{ReadAt, past_end};
use sigbank::store::{Capabilities, Entry, Expected, Listing, NewObject, ObjectMeta, Sequential, Store, StoreFile, Version};
use sigbank::uri::RelPath;
use sigbank::{Code, Error, Result};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// Objects up to this size are held in memory while they are open, larger ones in an unnamed file.
const SMALL: usize = 1 << 20;
/// The version of an object whose store tells none.
const UNKNOWN: &str = "none";

/// A Python object as a store. Each call takes the GIL for itself.
pub struct ForeignStore {
    object: Arc<Py<PyAny>>,
    root: String,
    retry: (u32, f64, f64, bool),
}

impl fmt::Debug for ForeignStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignStore({:?})", self.root)
    }
}

/// What a Python store raised about an object, as an error of the core.
pub fn taken(py: Python<'_>, e: PyErr, uri: &str) -> Error {
    let is = |name: &str| {
        e.get_type(py).mro().iter().any(|class| class.getattr("__name__").is_ok_and(|n| n.eq(name).unwrap_or(false)))
    };
    let code = match () {
        () if e.is_instance_of::<PyFileNotFoundError>(py) => Code::NotFound,
        () if e.is_instance_of::<PyFileExistsError>(py) => Code::AlreadyExists,
        () if e.is_instance_of::<PyPermissionError>(py) => Code::ReadOnly,
        () if e.is_instance_of::<PyNotImplementedError>(py) => Code::Unsupported,
        () if is("CorruptDatasetError") => Code::Corrupt,
        () if e.is_instance_of::<PyValueError>(py) => Code::Invalid,
        () => Code::Storage,
    };
    let name = e.get_type(py).name().map_or_else(|_| "an exception".to_owned(), |n| n.to_string());
    let text = e.value(py).to_string();
    // The address is told once.
    let text = text.strip_prefix(uri).map_or(text.as_str(), |rest| rest.trim_start_matches([':', ' ']));
    let message = match (code, text) {
        (Code::NotFound, "") => "there is no such object".to_owned(),
        (Code::AlreadyExists, "") => "there is an object already".to_owned(),
        (_, "") => name,
        _ => format!("{name}: {text}"),
    };
    Error::new(code, message).caused_by(e).at(uri)
}

/// What a method of a Python object gave for an object of a store, as what is expected of it.
///
/// # Errors
/// `TypeError` that names the class, the method and the object.
pub fn answer<T>(
    of: &Bound<'_, PyAny>,
    (method, uri, expected): (&str, &str, &str),
    found: &Bound<'_, PyAny>,
    take: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<T> {
    take(found).map_err(|e| {
        let name = |object: &Bound<'_, PyAny>| object.get_type().name().map_or_else(|_| "?".to_owned(), |n| n.to_string());
        let text = format!("{uri}: {}.{method} is expected to give {expected}, and gave {}", name(of), name(found));
        let told = PyTypeError::new_err(text);
        told.set_cause(of.py(), Some(e));
        told
    })
}

fn content_type(path: &RelPath) -> &'static str {
    if path.as_str().ends_with(".json") { "application/json" } else { "application/octet-stream" }
}

fn generation<'py>(py: Python<'py>, version: &Version) -> Result<Bound<'py, PyAny>> {
    let number = PyString::new(py, version.as_str());
    let int = py.get_type::<pyo3::types::PyInt>();
    int.call1((number,)).map_err(|_| {
        Error::unsupported("the store does not tell generations, so that nothing can be replaced safely")
            .remedy("have its read_version give an ObjectVersion with a generation")
    })
}

fn version(value: &Bound<'_, PyAny>) -> Version {
    if value.is_none() { Version::new(UNKNOWN) } else { Version::new(value.to_string()) }
}

impl ForeignStore {
    pub fn new(object: Py<PyAny>, root: String, retry: (u32, f64, f64, bool)) -> Self {
        Self { object: Arc::new(object), root, retry }
    }

    fn uri(&self, path: &RelPath) -> String {
        format!("{}/{path}", self.root.trim_end_matches('/'))
    }

    /// One call, whose failure names the object.
    fn call<T>(&self, path: &RelPath, call: impl FnOnce(&Bound<'_, PyAny>, &str) -> PyResult<T>) -> Result<T> {
        let uri = self.uri(path);
        Python::attach(|py| call(self.object.bind(py), &uri).map_err(|e| taken(py, e, &uri)))
    }

    /// A call that may be repeated, as often as the retry policy says.
    fn again<T>(&self, path: &RelPath, call: impl Fn(&Bound<'_, PyAny>, &str) -> PyResult<T>) -> Result<T> {
        let (attempts, base, most, jitter) = self.retry;
        let mut wait = base;
        for _ in 1..attempts {
            match self.call(path, &call) {
                Err(e) if e.code() == Code::Storage && transient(&e) => {
                    let seconds = if jitter { wait * share() } else { wait };
                    std::thread::sleep(Duration::try_from_secs_f64(seconds.min(most)).unwrap_or_default());
                    wait = (wait * 2.0).min(most);
                }
                done => return done,
            }
        }
        self.call(path, &call)
    }

    fn has(&self, method: &str) -> bool {
        Python::attach(|py| self.object.bind(py).hasattr(method).unwrap_or(false))
    }
}

/// Whether it may help to try again: not where a program is wrong, or was interrupted, nor where the error says that it does not.
fn transient(e: &Error) -> bool {
    let raised = std::error::Error::source(e).and_then(|source| source.downcast_ref::<PyErr>());
    raised.is_none_or(|raised| {
        Python::attach(|py| {
            let said = raised.value(py).getattr(intern!(py, "retryable")).and_then(|said| said.is_truthy());
            raised.is_instance_of::<pyo3::exceptions::PyOSError>(py) && said.unwrap_or(true)
        })
    })
}

/// A number from 0 to 1 that differs from process to process and call to call.
fn share() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one(0u8) >> 11) as f64 / (1u64 << 53) as f64
}

fn bytes_of(value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    match value.cast::<PyBytes>() {
        Ok(bytes) => Ok(Bytes::copy_from_slice(bytes.as_bytes())),
        Err(_) => Ok(Bytes::from(value.extract::<Vec<u8>>()?)),
    }
}

fn joined<'py>(py: Python<'py>, parts: &[&[u8]]) -> Bound<'py, PyBytes> {
    match parts {
        [one] => PyBytes::new(py, one),
        _ => PyBytes::new(py, &parts.concat()),
    }
}

fn keywords<'py>(py: Python<'py>, path: &RelPath) -> PyResult<Bound<'py, PyDict>> {
    let keywords = PyDict::new(py);
    keywords.set_item(intern!(py, "content_type"), content_type(path))?;
    Ok(keywords)
}

impl Store for ForeignStore {
    fn location(&self) -> String {
        self.root.clone()
    }
    fn capabilities(&self) -> Capabilities {
        let swaps = Python::attach(|py| {
            let swaps = self.object.bind(py).getattr(intern!(py, "supports_compare_and_swap"));
            swaps.and_then(|value| value.is_truthy()).unwrap_or(true)
        });
        let round_trip = if self.has("read_range") { 1 << 20 } else { 0 };
        Capabilities { write: true, compare_and_swap: swaps, locks: false, turns: false, flush: false, round_trip }
    }

    fn get_versioned(&self, path: &RelPath) -> Result<(Bytes, Version)> {
        self.again(path, |store, uri| {
            let found = store.call_method1(intern!(store.py(), "read_version"), (uri,))?;
            answer(store, ("read_version", uri, "an ObjectVersion, data of bytes and a generation"), &found, |found| {
                let data = bytes_of(&found.getattr(intern!(store.py(), "data"))?)?;
                Ok((data, version(&found.getattr(intern!(store.py(), "generation"))?)))
            })
        })
    }
    fn get(&self, path: &RelPath) -> Result<Bytes> {
        self.again(path, |store, uri| {
            let found = store.call_method1(intern!(store.py(), "read"), (uri,))?;
            answer(store, ("read", uri, "bytes"), &found, bytes_of)
        })
    }
    fn get_ranges(&self, path: &RelPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.open_read(path)?.read_ranges(ranges)
    }
    fn head(&self, path: &RelPath) -> Result<ObjectMeta> {
        self.again(path, |store, uri| {
            let info = store.call_method1(intern!(store.py(), "info"), (uri,))?;
            answer(store, ("info", uri, "an ObjectInfo, with the size in bytes"), &info, |info| {
                Ok(ObjectMeta { size: info.getattr(intern!(info.py(), "size"))?.extract()?, version: None })
            })
        })
    }
    fn open_read(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        if self.has("read_range") {
            return self.open_sized(path, self.head(path)?.size);
        }
        let bytes = self.get(path)?;
        Ok(Arc::new(Whole::new(bytes, self.uri(path))?))
    }
    fn open_sized(&self, path: &RelPath, size: u64) -> Result<Arc<dyn StoreFile>> {
        if !self.has("read_range") {
            return self.open_read(path);
        }
        let store = Self { object: Arc::clone(&self.object), root: self.root.clone(), retry: self.retry };
        Ok(Arc::new(Ranged { location: self.uri(path), store, path: path.clone(), size }))
    }
    fn list(&self, prefix: Option<&RelPath>) -> Result<Listing<'_>> {
        if !self.has("list") {
            return Err(Error::unsupported("this store lists nothing: its class has no method list").at(&self.root));
        }
        let base = format!("{}/", self.root.trim_end_matches('/'));
        let below = prefix.map_or_else(|| base.clone(), |prefix| format!("{base}{prefix}/"));
        let listed = || -> Result<Vec<String>> {
            Python::attach(|py| {
                let list = self.object.bind(py).call_method1(intern!(py, "list"), (&below,));
                list.and_then(|list| list.try_iter()?.map(|uri| uri?.extract()).collect()).map_err(|e| taken(py, e, &below))
            })
        };
        let entries: Vec<Result<Entry>> = listed()?
            .into_iter()
            .filter_map(|uri| uri.starts_with(&below).then(|| uri.strip_prefix(&base).map(RelPath::parse))?)
            .map(|path| {
                let path = path?;
                let size = self.head(&path)?.size;
                Ok(Entry { path, size, modified: None })
            })
            .collect();
        Ok(Box::new(entries.into_iter()))
    }

    fn create(&self, path: &RelPath, parts: &[&[u8]]) -> Result<()> {
        self.again(path, |store, uri| {
            let py = store.py();
            store.call_method(intern!(py, "create"), (uri, joined(py, parts)), Some(&keywords(py, path)?)).map(drop)
        })
    }
    fn write_new(&self, path: &RelPath) -> Result<Box<dyn NewObject>> {
        let store = Self { object: Arc::clone(&self.object), root: self.root.clone(), retry: self.retry };
        let file = tempfile::NamedTempFile::with_prefix("sigbank-")?;
        Ok(Box::new(Spooled { store, path: path.clone(), file, failed: false }))
    }
    fn replace(&self, path: &RelPath, parts: &[&[u8]], expected: Expected<'_>) -> Result<Version> {
        let found = match expected {
            Expected::Any => match self.get_versioned(path) {
                Err(e) if e.code() == Code::NotFound => None,
                found => Some(found?.1),
            },
            Expected::Absent => None,
            Expected::Version(version) => Some(version.clone()),
        };
        let swap = |store: &Bound<'_, PyAny>, uri: &str| -> PyResult<Result<Version>> {
            let py = store.py();
            let keywords = keywords(py, path)?;
            let expected = match found.as_ref().map(|version| generation(py, version)).transpose() {
                Ok(expected) => expected,
                Err(e) => return Ok(Err(e)),
            };
            keywords.set_item(intern!(py, "expected_generation"), expected)?;
            let now = store.call_method(intern!(py, "compare_and_swap"), (uri, joined(py, parts)), Some(&keywords))?;
            if !now.is_none() {
                return Ok(Ok(version(&now)));
            }
            Ok(Ok(version(&store.call_method1(intern!(py, "generation"), (uri,))?)))
        };
        let swapped = self.call(path, swap).and_then(|swapped| swapped.map_err(|e| e.at(self.uri(path))));
        swapped.map_err(|e| match e.code() {
            Code::AlreadyExists | Code::NotFound if found.is_some() => {
                Error::conflict("the object is not the expected version: another writer replaced or deleted it")
                    .at(self.uri(path))
                    .caused_by(e)
            }
            _ => e,
        })
    }
    fn delete(&self, path: &RelPath) -> Result<()> {
        if !self.has("delete") {
            return Err(Error::unsupported("this store deletes nothing: its class has no method delete").at(self.uri(path)));
        }
        match self.again(path, |store, uri| store.call_method1(intern!(store.py(), "delete"), (uri,)).map(drop)) {
            Err(e) if e.code() == Code::NotFound => Ok(()),
            done => done,
        }
    }
    fn flush(&self, _paths: &[RelPath]) -> Result<()> {
        Ok(())
    }
}

/// A new object in a file of the local disk, which the Python store gets as a whole.
#[derive(Debug)]
struct Spooled {
    store: ForeignStore,
    path: RelPath,
    file: tempfile::NamedTempFile,
    failed: bool,
}

impl Write for Spooled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).inspect_err(|_| self.failed = true)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl NewObject for Spooled {
    fn commit(mut self: Box<Self>) -> Result<()> {
        if self.failed {
            return Err(Error::storage("an earlier write of it failed").at(self.store.uri(&self.path)));
        }
        self.file.flush()?;
        self.store.again(&self.path, |store, uri| {
            let py = store.py();
            let path = PyModule::import(py, "pathlib")?.call_method1("Path", (self.file.path(),))?;
            store.call_method(intern!(py, "create_file"), (uri, path), Some(&keywords(py, &self.path)?)).map(drop)
        })
    }
}

/// An object of a store that gives ranges.
#[derive(Debug)]
struct Ranged {
    location: String,
    store: ForeignStore,
    path: RelPath,
    size: u64,
}

impl ReadAt for Ranged {
    fn size(&self) -> u64 {
        self.size
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> FormatResult<()> {
        let stop = offset.saturating_add(buf.len() as u64);
        if stop > self.size {
            return Err(past_end(offset, buf.len(), self.size));
        }
        let got = self.store.again(&self.path, |store, uri| {
            let found = store.call_method1(intern!(store.py(), "read_range"), (uri, offset, stop))?;
            answer(store, ("read_range", uri, "bytes"), &found, bytes_of)
        })?;
        match got.len() == buf.len() {
            true => buf.copy_from_slice(&got),
            false => return Err(past_end(offset, buf.len(), offset + got.len() as u64)),
        }
        Ok(())
    }
}

impl StoreFile for Ranged {
    fn location(&self) -> &str {
        &self.location
    }
    fn stream(self: Arc<Self>) -> Box<dyn io::Read + Send> {
        Box::new(Sequential::new(self))
    }
}

/// An object that was read as a whole, since its store gives no ranges.
#[derive(Debug)]
struct Whole {
    location: String,
    size: u64,
    bytes: Bytes,
    file: Option<File>,
}

impl Whole {
    fn new(bytes: Bytes, location: String) -> Result<Self> {
        let size = bytes.len() as u64;
        if bytes.len() <= SMALL {
            return Ok(Self { location, size, bytes, file: None });
        }
        let mut file = tempfile::tempfile().map_err(|e| Error::from(e).at(&location))?;
        file.write_all(&bytes).map_err(|e| Error::from(e).at(&location))?;
        Ok(Self { location, size, bytes: Bytes::new(), file: Some(file) })
    }
}

impl ReadAt for Whole {
    fn size(&self) -> u64 {
        self.size
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> FormatResult<()> {
        match &self.file {
            None => self.bytes.read_at(offset, buf),
            Some(_) if offset.saturating_add(buf.len() as u64) > self.size => Err(past_end(offset, buf.len(), self.size)),
            Some(file) => file.read_exact_at(buf, offset).map_err(|e| Error::from(e).at(&self.location).into()),
        }
    }
}

impl StoreFile for Whole {
    fn location(&self) -> &str {
        &self.location
    }
    fn stream(self: Arc<Self>) -> Box<dyn io::Read + Send> {
        Box::new(Sequential::new(self))
    }
}
