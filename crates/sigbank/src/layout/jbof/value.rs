//! The elements of one array, with the shape and dtype that its document keeps.

use super::item::ArrayEntry;
use crate::error::{Error, Result};
use crate::store::ReadAt;
use bytes::Bytes;
use half::f16;
use sigbank_format::array::ArrayReader;
use sigbank_format::model::array::byte_len;
use sigbank_format::model::{Array, DType, Kind};
use std::sync::Arc;

/// Files up to this size are read at once.
const SMALL: u64 = 64 << 10;
/// A file of samples that are not compressed has at most so many times its size in values; of one that declares more, memory is taken as
/// its values arrive.
const SWELLS: u64 = 16;

/// An array that is open: its dtype and shape are known, its elements not yet read.
pub(super) struct Value {
    reader: Box<dyn ArrayReader>,
    dtype: DType,
    shape: Vec<usize>,
    len: usize,
    file_bytes: u64,
    location: String,
    /// All elements, where rows were asked for that the file has not as such.
    whole: Option<Vec<u8>>,
}

impl Value {
    /// Opens an array's file.
    ///
    /// # Errors
    /// Those of [`ArrayEntry::open`]; `Corrupt` where the file has not the elements of the shape that the document keeps; `Unsupported` for a
    /// dtype that the file's elements are not turned into.
    pub(super) fn open(entry: &ArrayEntry) -> Result<Self> {
        let file = entry.file()?;
        let size = file.size();
        let src: Arc<dyn ReadAt> = if size <= SMALL {
            let mut bytes = vec![0; size as usize];
            file.read_at(0, &mut bytes).map_err(|e| Error::from(e).at(entry.location()))?;
            Arc::new(Bytes::from(bytes))
        } else {
            file
        };
        Self::of(entry, src, size)
    }

    /// The array of a file's bytes, wherever they are.
    pub(super) fn of(entry: &ArrayEntry, src: Arc<dyn ReadAt>, file_bytes: u64) -> Result<Self> {
        let located = |e: Error| e.at(entry.location());
        let reader = entry.open_source(src, Default::default())?;
        let info = reader.info();
        let (mut dtype, mut shape) = (info.dtype.clone(), info.shape.clone());
        if let Some(kept) = entry.kept() {
            let elements = |shape: &[usize]| shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
            if elements(&kept.shape) != elements(&shape) {
                let what = format!("its document says that the shape is {:?}, but the file has {shape:?}", kept.shape);
                return Err(located(Error::corrupt(what).remedy("restore the file")));
            }
            shape.clone_from(&kept.shape);
            if let Some(wanted) = kept.dtype.as_ref().filter(|wanted| **wanted != dtype) {
                castable(&dtype, wanted).map_err(located)?;
                dtype = wanted.clone();
            }
        }
        let len = byte_len(&dtype, &shape).map_err(|e| located(e.into()))?;
        Ok(Self { reader, dtype, shape, len, file_bytes, location: entry.location(), whole: None })
    }

    pub(super) fn dtype(&self) -> &DType {
        &self.dtype
    }
    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }
    pub(super) fn reader(&mut self) -> &mut dyn ArrayReader {
        &mut *self.reader
    }

    /// Puts the elements, in C order and little-endian, into memory of the length that is asked for.
    ///
    /// # Errors
    /// Those of reading, and of `place`.
    pub(super) fn put<'a>(&mut self, place: impl FnOnce(usize) -> Result<&'a mut [u8]>) -> Result<()> {
        let rows = self.reader.info().rows();
        if self.len == 0 {
            return place(0).map(|_| ());
        }
        let (stored, location) = (self.reader.info().dtype.clone(), &self.location);
        let located = |e: sigbank_format::FormatError| Error::from(e).at(location);
        let as_stored = stored == self.dtype;
        if as_stored && (self.len as u64) / SWELLS <= self.file_bytes {
            let out = place(self.len)?;
            return self.reader.read_rows(0, rows, out).map_err(located);
        }
        let array = self.reader.read_all().map_err(located)?;
        let out = place(self.len)?;
        if as_stored {
            out.copy_from_slice(array.data());
            return Ok(());
        }
        cast(&stored, &self.dtype, array.data(), out);
        Ok(())
    }
}

impl Value {
    /// Puts some rows (positions along the first axis) into memory of the length that is asked for.
    ///
    /// # Errors
    /// `Invalid` for rows that are not there; those of reading, and of `place`.
    pub(super) fn put_rows<'a>(
        &mut self,
        start: u64,
        count: usize,
        place: impl FnOnce(usize) -> Result<&'a mut [u8]>,
    ) -> Result<()> {
        let info = self.reader.info();
        let rows = self.shape.first().copied().unwrap_or(1);
        let row = self.len.checked_div(rows).unwrap_or(0);
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let Some(end) = start.checked_add(count).filter(|end| *end <= rows) else {
            return Err(Error::invalid(format!("rows {start} to {start}+{count} are asked for, but the array has {rows}"))
                .at(&self.location));
        };
        // The file has the same rows, whatever else its document keeps.
        if info.rows() == rows && info.dtype == self.dtype {
            let location = &self.location;
            return self.reader.read_rows(start, count, place(count * row)?).map_err(|e| Error::from(e).at(location));
        }
        let whole = match self.whole.take() {
            Some(whole) => whole,
            None => {
                let mut whole = Vec::new();
                self.put(|len| {
                    whole.resize(len, 0);
                    Ok(&mut whole[..])
                })?;
                whole
            }
        };
        let whole = self.whole.insert(whole);
        let wanted = whole.get(start * row..end * row).unwrap_or_default();
        place(wanted.len())?.copy_from_slice(wanted);
        Ok(())
    }
}

impl ArrayEntry {
    /// The elements as the layout means them: little-endian, audio as float64, with the shape and dtype that the document keeps.
    ///
    /// # Errors
    /// Those of [`ArrayEntry::open`]; `Corrupt` where the file has not the elements of the shape that the document keeps.
    ///
    /// ```
    /// use sigbank::format::array::npy;
    /// use sigbank::format::model::json::Json;
    /// use sigbank::layout::jbof::{ArrayFile, Creation, Dataset};
    /// let dir = tempfile::tempdir()?;
    /// let item = Dataset::create(&dir.path().join("a"), &Creation::default())?.add_item(Some("i"), &Json::EMPTY)?;
    /// item.add_array("x", &ArrayFile::new("npy", &[&npy::header(&">i2".parse()?, &[1])?, &[0, 7]]), &Json::EMPTY)?;
    /// let array = item.array("x")?.elements()?;
    /// assert_eq!((array.dtype().name().as_str(), &array.data()[..]), ("int16", &[7, 0][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn elements(&self) -> Result<Array> {
        let mut value = Value::open(self)?;
        let located = |e: sigbank_format::FormatError| Error::from(e).at(self.location());
        let array = value.reader.read_all().map_err(located)?;
        let data = match *array.dtype() == value.dtype {
            true => array.data().clone(),
            false => {
                let mut out = vec![0; value.len];
                cast(array.dtype(), &value.dtype, array.data(), &mut out);
                out.into()
            }
        };
        Array::new(value.dtype, value.shape, data).map_err(located)
    }
}

/// Whether what a file has is what was made of an array of this dtype when it was written: mat files have no float16, and their bool may be uint8.
fn castable(stored: &DType, wanted: &DType) -> Result<()> {
    match (stored.kind(), wanted.kind(), wanted.itemsize()) {
        (Kind::Float, Kind::Float, 2) if matches!(stored.itemsize(), 4 | 8) => Ok(()),
        (Kind::UInt | Kind::Bool, Kind::Bool | Kind::UInt, 1) if stored.itemsize() == 1 => Ok(()),
        _ => Err(Error::unsupported(format!(
            "its document says that the dtype is {}, and the file has {}, which is not turned into it",
            wanted.name(),
            stored.name()
        ))
        .remedy("delete \"dtype\" below \"_sigbank\" in the document to read what the file has")),
    }
}

fn cast(stored: &DType, wanted: &DType, data: &[u8], out: &mut [u8]) {
    let halves = out.as_chunks_mut::<2>().0.iter_mut();
    match (stored.itemsize(), wanted.kind()) {
        (8, _) => {
            halves.zip(data.as_chunks().0).for_each(|(half, b)| *half = f16::from_f64(f64::from_le_bytes(*b)).to_le_bytes());
        }
        (4, _) => {
            halves.zip(data.as_chunks().0).for_each(|(half, b)| *half = f16::from_f32(f32::from_le_bytes(*b)).to_le_bytes());
        }
        (_, Kind::Bool) => out.iter_mut().zip(data).for_each(|(out, b)| *out = u8::from(*b != 0)),
        _ => out.copy_from_slice(data),
    }
}
