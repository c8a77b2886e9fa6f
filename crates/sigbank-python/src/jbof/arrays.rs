//! Arrays between NumPy and files.

use super::dataset::unknown;
use super::errors::{of_class, raise};
use crate::convert::{MappedFile, shared_bytes};
use bytes::Bytes;
use numpy::{PyArray1, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use sigbank::format::array::npy::{self, Place};
use sigbank::format::array::{self, EncodeOptions, Format, Options, Subtype};
use sigbank::format::error::{FormatError, FormatErrorKind};
use sigbank::format::model::json::Json;
use sigbank::format::model::{Array, DType};
use sigbank::format::read_at::ReadAt;
use sigbank::layout::jbof::{ArrayEntry, ArrayFile, Dataset, Kept};
use sigbank::{Code, Error, Result};
use std::fs::File;
use std::sync::Arc;

/// Files from this size on are mapped: below it, reading costs less than the mapping's page faults.
const WORTH_MAPPING: u64 = 128 << 10;

/// An array that is to be added.
pub struct New<'a> {
    pub name: &'a str,
    pub metadata: Json,
    pub format: Format,
    pub samplerate: Option<u32>,
    pub subtype: Option<Subtype>,
    pub lossy: bool,
}

/// The format of a `fileformat`.
pub fn format(name: &str) -> PyResult<Format> {
    Format::ALL.into_iter().find(|format| format.extension() == name).ok_or_else(|| {
        let known = Format::ALL.map(Format::extension).join(", ");
        of_class("UnknownFormatError", format!("the fileformat {name:?} is not known: give one of {known}"))
    })
}

/// The subtype of libsndfile's name.
pub fn subtype(name: &str) -> PyResult<Subtype> {
    use Subtype::{ALaw, Double, Float, Pcm16, Pcm24, Pcm32, PcmS8, PcmU8, ULaw, Vorbis};
    let all = [PcmU8, PcmS8, Pcm16, Pcm24, Pcm32, Float, Double, ALaw, ULaw, Vorbis];
    let known = || all.map(|subtype| subtype.to_string()).join(", ");
    all.into_iter().find(|subtype| subtype.to_string() == name).ok_or_else(|| unknown("subtype", name, &known()))
}

/// Adds an array; gives what its file does not hold, in words, and its document.
pub fn add(
    py: Python<'_>,
    dataset: &Dataset,
    item: &str,
    new: New<'_>,
    array: &Bound<'_, PyUntypedArray>,
    header: Option<&[u8]>,
) -> PyResult<(Option<String>, Bytes)> {
    let data = shared_bytes(array)?;
    let dtype = array.dtype().getattr(intern!(py, "str"))?.extract::<String>()?;
    let shape = array.shape().to_vec();
    let work = || -> Result<(Option<String>, Bytes)> {
        let item = dataset.item_unseen(item)?;
        let extension = new.format.extension();
        let Some(header) = header else {
            let dtype = dtype.parse::<DType>().map_err(|e| Error::from(e).within(format!("the array {:?}", new.name)))?;
            let array = Array::new(dtype, shape, data)?;
            let options = EncodeOptions { name: new.name, sample_rate: new.samplerate, subtype: new.subtype, lossy: new.lossy };
            let file = array::encode(new.format, &array, &options)
                .map_err(|e| Error::from(e).within(format!("the array {:?}", new.name)))?;
            let parts: Vec<&[u8]> = file.parts.iter().map(|part| &part[..]).collect();
            let kept = Kept::of(new.format, &array, &file, new.name)?;
            let document = item.put_array(new.name, &ArrayFile::new(extension, &parts), &new.metadata, kept.as_ref())?;
            return Ok((file.loss.map(|loss| loss.to_string()), document));
        };
        Ok((None, item.put_array(new.name, &ArrayFile::new(extension, &[header, &data]), &new.metadata, None)?))
    };
    py.detach(work).map_err(raise)
}

/// The elements of an array, before they are Python's.
enum Elements {
    Memory(Vec<u8>, Place),
    Mapped(MappedFile, Place),
    /// For NumPy to read.
    Foreign,
}

/// An array as Python makes it: see `JbofDataset.array`.
pub fn read<'py>(py: Python<'py>, dataset: &Dataset, item: &str, name: &str) -> PyResult<Bound<'py, PyTuple>> {
    let entry = py.detach(|| dataset.item_unseen(item)?.array(name)).map_err(|e| match e.code() {
        Code::NotFound => of_class("MissingArrayError", e.to_string()),
        _ => raise(e),
    })?;
    let (elements, samplerate) = py.detach(|| elements(dataset, &entry)).map_err(raise)?;
    given(py, &entry, elements, samplerate)
}

/// An array that was read already, as [`read`] gives it.
pub fn of_decoded<'py>(
    py: Python<'py>,
    entry: &ArrayEntry,
    array: Array,
    samplerate: Option<u32>,
) -> PyResult<Bound<'py, PyTuple>> {
    given(py, entry, in_memory(array), samplerate)
}

fn in_memory(array: Array) -> Elements {
    let place = Place { dtype: array.dtype().clone(), shape: array.shape().to_vec(), fortran_order: false, start: 0 };
    let data = array.data().clone();
    drop(array); // So that the bytes are handed on, not copied.
    Elements::Memory(data.into(), place)
}

fn given<'py>(py: Python<'py>, entry: &ArrayEntry, elements: Elements, samplerate: Option<u32>) -> PyResult<Bound<'py, PyTuple>> {
    let filename = py.detach(|| entry.stored_name()).map_err(raise)?;
    let given = |memory: Bound<'py, PyAny>, place: Place| {
        let shape = PyTuple::new(py, place.shape)?;
        (memory, place.start, place.dtype.to_string(), shape, place.fortran_order).into_pyobject(py)
    };
    let elements = match elements {
        Elements::Memory(bytes, place) => Some(given(PyArray1::from_vec(py, bytes).into_any(), place)?),
        Elements::Mapped(mapping, place) => Some(given(MappedFile::bytes(&Bound::new(py, mapping)?)?, place)?),
        Elements::Foreign => None,
    };
    let kept = entry.kept().map(|kept| (kept.shape.clone(), kept.dtype.as_ref().map(DType::to_string)));
    let document = PyBytes::new(py, entry.document_text());
    (entry.location(), document, filename, elements, kept, samplerate).into_pyobject(py)
}

fn elements(dataset: &Dataset, entry: &ArrayEntry) -> Result<(Elements, Option<u32>)> {
    let file = entry.file()?;
    let size = file.size();
    let located = |e: FormatError| Error::from(e).at(entry.location());
    let mut whole = None;
    let src: Arc<dyn ReadAt> = if size < WORTH_MAPPING {
        let mut bytes = vec![0; size as usize];
        file.read_at(0, &mut bytes).map_err(located)?;
        Arc::new(whole.insert(Bytes::from(bytes)).clone())
    } else {
        file
    };
    let mut head = [0; 12];
    let head = head.get_mut(..size.min(12) as usize).unwrap_or_default();
    src.read_at(0, head).map_err(located)?;
    if Format::sniff(head) == Some(Format::Npy) || (entry.format()? == Format::Npy && size < 12) {
        return match npy::locate(&*src) {
            Ok(place) => {
                let elements = match whole {
                    Some(bytes) => {
                        drop(src); // So that the bytes are handed on, not copied.
                        Elements::Memory(bytes.into(), place)
                    }
                    None => in_place(dataset, entry, &*src, place)?,
                };
                Ok((elements, None))
            }
            Err(e) if e.kind() == FormatErrorKind::Unsupported && dataset.local_root().is_some() => Ok((Elements::Foreign, None)),
            Err(e) => Err(located(e)),
        };
    }
    let mut reader = entry.open_source(src, Options::default())?;
    let array = reader.read_all().map_err(located)?;
    let samplerate = reader.info().sample_rate();
    drop(reader);
    Ok((in_memory(array), samplerate))
}

/// The elements of a large file as they lie in it: mapped, or read where there is no mapping (any more).
fn in_place(dataset: &Dataset, entry: &ArrayEntry, src: &dyn ReadAt, mut place: Place) -> Result<Elements> {
    let len = usize::try_from(src.size()).map_err(|_| Error::limit("a file larger than memory can be"))?;
    if dataset.local_root().is_some()
        && let Ok(file) = File::open(entry.location())
        && file.metadata().is_ok_and(|found| found.len() == src.size())
        && let Ok(mapping) = MappedFile::of(&file, len)
    {
        return Ok(Elements::Mapped(mapping, place));
    }
    let start = std::mem::take(&mut place.start);
    let wanted = len.saturating_sub(start as usize);
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(wanted)
        .map_err(|_| Error::limit(format!("{wanted} bytes of memory are not to be had")).at(entry.location()))?;
    bytes.resize(wanted, 0);
    src.read_at(start, &mut bytes).map_err(|e| Error::from(e).at(entry.location()))?;
    Ok(Elements::Memory(bytes, place))
}
