//! Arrays between Rust and NumPy without a copy, and objects of Python's classes without their checks: the only `unsafe` of the
//! package.
#![allow(unsafe_code)]

use numpy::npyffi::{
    self, NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_F_CONTIGUOUS, NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API,
    npy_intp,
};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use sigbank::loader::PooledBuf;
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// The memory under the arrays of one batch column; it goes back to its loader when the last array is gone.
#[pyclass(frozen, module = "sigbank._native")]
pub struct Buffer {
    /// Held for its memory; the arrays point into it.
    _memory: PooledBuf,
    /// Where it begins. As a number, so that the class may be used by any thread.
    start: usize,
    len: usize,
}

impl Buffer {
    /// Hands memory over to Python.
    pub fn new(mut memory: PooledBuf) -> Self {
        let (start, len) = (memory.as_mut_ptr() as usize, memory.len());
        Self { _memory: memory, start, len }
    }
    fn memory(&self) -> Memory {
        (self.start, self.len)
    }
}

/// A file's bytes, mapped so that a page is copied when it is written to and the file never changes. It needs no open file. Whoever cuts
/// the file short meanwhile makes reading its end a bus error: JBOF's files are replaced and deleted, never changed.
#[pyclass(frozen, module = "sigbank._native")]
pub struct MappedFile {
    start: usize,
    len: usize,
}

impl MappedFile {
    /// Maps the first `len` bytes of a file, which has so many.
    pub fn of(file: &std::fs::File, len: usize) -> std::io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        // SAFETY: a private mapping at an address that the system chooses touches no memory in use.
        let start = unsafe {
            let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
            mmap(std::ptr::null_mut(), len, prot, flags, file, 0)?
        };
        Ok(Self { start: start as usize, len })
    }

    /// All bytes as a writable array.
    pub fn bytes<'py>(mapping: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let held = mapping.get();
        let descr = numpy::dtype::<u8>(mapping.py()).unbind();
        view(mapping.as_any(), (held.start, held.len), &descr, 0, held.len, &mut [held.len as npy_intp])
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: the mapping is this object's own, and the arrays over it are gone: each keeps it alive as its base.
        let _ = unsafe { rustix::mm::munmap(self.start as *mut c_void, self.len) };
    }
}

/// How the arrays of a field look.
pub struct ArrayKind {
    descr: Py<PyArrayDescr>,
    /// The shape of a batch: the first length is the number of rows.
    dims: Vec<npy_intp>,
    /// Bytes of one row.
    row: usize,
}

impl ArrayKind {
    pub fn new(descr: Bound<'_, PyArrayDescr>, shape: &[usize]) -> Self {
        let row = shape.iter().product::<usize>() * descr.itemsize();
        let dims = std::iter::once(0).chain(shape.iter().map(|&n| n as npy_intp)).collect();
        Self { descr: descr.unbind(), dims, row }
    }

    /// All rows of a buffer as one array.
    pub fn batch<'py>(&mut self, _py: Python<'py>, buffer: &Bound<'py, Buffer>, rows: usize) -> PyResult<Bound<'py, PyAny>> {
        if let Some(first) = self.dims.first_mut() {
            *first = rows as npy_intp;
        }
        view(buffer.as_any(), buffer.get().memory(), &self.descr, 0, rows.saturating_mul(self.row), &mut self.dims)
    }

    /// One row of a buffer as an array.
    pub fn row<'py>(&mut self, _py: Python<'py>, buffer: &Bound<'py, Buffer>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let dims = self.dims.get_mut(1..).unwrap_or_default();
        view(buffer.as_any(), buffer.get().memory(), &self.descr, row.saturating_mul(self.row), self.row, dims)
    }
}

/// Writable memory that an object of Python's keeps: where it begins, and its length.
type Memory = (usize, usize);

/// A writable array over `len` bytes of `owner`'s memory from `at` on, whose dtype and `dims` take exactly that many.
fn view<'py>(
    owner: &Bound<'py, PyAny>,
    (start, held): Memory,
    descr: &Py<PyArrayDescr>,
    at: usize,
    len: usize,
    dims: &mut [npy_intp],
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    if at.checked_add(len).is_none_or(|end| end > held) {
        return Err(PyValueError::new_err(format!("an array of {len} bytes at {at} in a buffer of {held}")));
    }
    // SAFETY: the bytes lie in the memory of `owner` (checked above), which the array keeps alive as its base; no Rust code touches
    // them any more, since `Buffer` and `MappedFile` hand theirs out to arrays only. NewFromDescr takes over one reference to the dtype,
    // SetBaseObject one to the buffer. `dims` outlives the call, which copies it.
    unsafe {
        let array_type = npyffi::get_type_object(py, NpyTypes::PyArray_Type);
        // Rows begin at multiples of the item size in memory that is aligned to 64 bytes. NumPy takes the flags as they are.
        let both = if dims.len() <= 1 { NPY_ARRAY_F_CONTIGUOUS } else { 0 };
        let flags = NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED | NPY_ARRAY_C_CONTIGUOUS | both;
        let data = (start + at) as *mut c_void;
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            array_type,
            descr.bind(py).clone().into_dtype_ptr(),
            dims.len() as c_int,
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            data,
            flags,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.clone().into_ptr()) < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}

/// Bytes that nobody changes any more, under the arrays of one record.
#[pyclass(frozen, module = "sigbank._native")]
pub struct Payload(pub bytes::Bytes);

/// Bytes that nobody changes, held by an object of Python's.
pub enum Unchanging<'py> {
    Python(Bound<'py, PyBytes>),
    Native(Bound<'py, Payload>),
}

impl<'py> Unchanging<'py> {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Python(bytes) => bytes.as_bytes(),
            Self::Native(payload) => &payload.get().0,
        }
    }

    /// A read-only array of this dtype and shape over these bytes, which must be as many as it takes.
    pub fn array(&self, range: &Range<usize>, descr: &Bound<'py, PyArrayDescr>, shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
        let py = descr.py();
        let wants = shape.iter().try_fold(descr.itemsize(), |all, &n| all.checked_mul(n));
        let held = self.bytes().get(range.clone()).filter(|held| wants == Some(held.len()));
        let Some(held) = held else {
            let len = self.bytes().len();
            return Err(PyValueError::new_err(format!("bytes {range:?} of {len} for {descr} of shape {shape:?}")));
        };
        let base = match self {
            Self::Python(bytes) => bytes.clone().into_any(),
            Self::Native(payload) => payload.clone().into_any(),
        };
        let mut dims: Vec<npy_intp> = shape.iter().map(|&n| n as npy_intp).collect();
        let aligned = (held.as_ptr() as usize).is_multiple_of(descr.alignment().max(1));
        let flags = NPY_ARRAY_C_CONTIGUOUS
            | if aligned { NPY_ARRAY_ALIGNED } else { 0 }
            | if dims.len() <= 1 { NPY_ARRAY_F_CONTIGUOUS } else { 0 };
        // SAFETY: `held` lies in `base`, whose bytes neither move nor change and which the array keeps alive; without
        // NPY_ARRAY_WRITEABLE, and with a base that offers no writable memory, NumPy does not write to it. The rest as in `view`.
        unsafe {
            let array = PY_ARRAY_API.PyArray_NewFromDescr(
                py,
                npyffi::get_type_object(py, NpyTypes::PyArray_Type),
                descr.clone().into_dtype_ptr(),
                dims.len() as c_int,
                dims.as_mut_ptr(),
                std::ptr::null_mut(),
                held.as_ptr().cast_mut().cast::<c_void>(),
                flags,
                std::ptr::null_mut(),
            );
            let array = Bound::from_owned_ptr_or_err(py, array)?;
            if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base.into_ptr()) < 0 {
                return Err(PyErr::fetch(py));
            }
            Ok(array)
        }
    }
}

/// A contiguous array's memory as bytes that keep it alive.
struct ArrayMemory {
    /// Held for its memory.
    _array: Py<PyUntypedArray>,
    start: usize,
    len: usize,
}

impl AsRef<[u8]> for ArrayMemory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `start` and `len` are those of a slice of the array's memory, which lives as long as the array; NumPy does not
        // move it, since the array cannot be resized while it is referred to from here.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.len) }
    }
}

/// The bytes of a C-contiguous array, which keep it alive, for use without the GIL. As for [`bytes_of`], writing to the array
/// meanwhile is the program's own race.
pub fn shared_bytes(array: &Bound<'_, PyUntypedArray>) -> PyResult<bytes::Bytes> {
    let held = bytes_of(array)?;
    if held.is_empty() {
        return Ok(bytes::Bytes::new());
    }
    let (start, len) = (held.as_ptr() as usize, held.len());
    Ok(bytes::Bytes::from_owner(ArrayMemory { _array: array.clone().unbind(), start, len }))
}

/// An object of a Python class whose slots have these values, past its constructor and its own `__setattr__`.
pub fn make<'py>(class: &Bound<'py, PyType>, slots: &[Py<PyAny>], values: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    // SAFETY: the callers' classes are written in Python and have `object` as their only base with memory of its own, so that
    // this is what their `tp_alloc` does. The object is whole before its slots are set, which take references of their own.
    unsafe {
        let object = Bound::from_owned_ptr_or_err(py, ffi::PyType_GenericAlloc(class.as_type_ptr(), 0))?;
        for (slot, value) in slots.iter().zip(values) {
            if ffi::PyObject_GenericSetAttr(object.as_ptr(), slot.as_ptr(), value.as_ptr()) < 0 {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(object)
    }
}

/// The bytes of a C-contiguous array, as long as it is borrowed.
///
/// Another Python thread may write to the array meanwhile, as it may while NumPy itself copies it: the bytes stored are then
/// some mixture, which is that program's race.
pub fn bytes_of<'a>(array: &'a Bound<'_, PyUntypedArray>) -> PyResult<&'a [u8]> {
    if !array.is_c_contiguous() {
        return Err(PyValueError::new_err("the array is not contiguous"));
    }
    let len = array.len() * array.dtype().itemsize();
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: a C-contiguous array holds `len` bytes from its data pointer on, and lives as long as it is borrowed.
    unsafe { Ok(std::slice::from_raw_parts((*array.as_array_ptr()).fields.data.cast::<u8>(), len)) }
}
