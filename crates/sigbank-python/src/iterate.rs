//! Iterators over examples and batches, on the one loader.

use crate::convert::{ArrayKind, Buffer};
use crate::errors::raise;
use crate::values::descr;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use sigbank::format::model::{FieldType, Schema};
use sigbank::layout::Source;
use sigbank::loader::{Batch, Column, Loader, Next, Options, Shuffle};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of single examples that share one buffer: keeping one example keeps that many.
const CHUNK: usize = 128 << 10;
/// How long a wait lasts before Ctrl-C is looked for.
const PATIENCE: Duration = Duration::from_millis(50);

/// One field as it is handed out.
struct Giver {
    name: Py<PyString>,
    ty: FieldType,
    kind: Option<ArrayKind>,
}

fn givers(py: Python<'_>, schema: &Schema, fields: Option<&[usize]>) -> PyResult<Vec<Giver>> {
    let all: Vec<usize> = (0..schema.fields.len()).collect();
    let chosen = fields.unwrap_or(&all).iter().filter_map(|&i| schema.fields.get(i));
    let one = |f: &sigbank::format::model::Field| {
        let kind = match (&f.ty, descr(py, &f.ty)?) {
            (FieldType::Array { shape, .. }, Some(d)) => Some(ArrayKind::new(d, shape)),
            _ => None,
        };
        Ok(Giver { name: PyString::intern(py, &f.name).unbind(), ty: f.ty.clone(), kind })
    };
    chosen.map(one).collect()
}

/// A value that is not an array, as Python's own.
pub fn own<'py>(py: Python<'py>, ty: &FieldType, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match ty {
        FieldType::Int => {
            let number = bytes.try_into().map(i64::from_le_bytes);
            Ok(number.map_err(|_| pyo3::exceptions::PyValueError::new_err("8 bytes are expected"))?.into_pyobject(py)?.into_any())
        }
        FieldType::Str => PyString::from_bytes(py, bytes).map(Bound::into_any),
        FieldType::Bytes { .. } | FieldType::Array { .. } => Ok(PyBytes::new(py, bytes).into_any()),
    }
}

/// A column on its way to Python.
enum Held {
    Fixed(Py<Buffer>),
    /// Fixed-size values that Python gets as its own objects.
    Plain(sigbank::loader::PooledBuf),
    Var(Vec<Vec<u8>>),
}

struct Pull {
    loader: Loader,
    givers: Vec<Giver>,
}

impl Pull {
    fn new(py: Python<'_>, source: &Arc<dyn Source>, options: Options) -> PyResult<Self> {
        let givers = givers(py, source.schema(), options.fields.as_deref())?;
        let loader = py.detach(|| Loader::new(source.clone(), options)).map_err(raise)?;
        Ok(Self { loader, givers })
    }

    /// The next batch; while it waits other threads run, and Ctrl-C ends the wait.
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<(usize, Vec<Held>)>> {
        let mut timeout = Duration::ZERO;
        loop {
            let next = if timeout.is_zero() { self.loader.next_timeout(timeout) } else { py.detach(|| self.loader.next_timeout(timeout)) };
            match next.map_err(raise)? {
                Next::Batch(batch) => return self.hold(py, batch).map(Some),
                Next::End => return Ok(None),
                Next::Pending => {
                    py.check_signals()?;
                    timeout = PATIENCE;
                }
            }
        }
    }

    fn hold(&self, py: Python<'_>, batch: Batch) -> PyResult<(usize, Vec<Held>)> {
        let one = |(column, giver): (Column, &Giver)| match (column, &giver.kind) {
            (Column::Fixed(memory), Some(_)) => Ok(Held::Fixed(Py::new(py, Buffer::new(memory))?)),
            (Column::Fixed(memory), None) => Ok(Held::Plain(memory)),
            (Column::Var(rows), _) => Ok(Held::Var(rows)),
        };
        Ok((batch.rows, batch.columns.into_iter().zip(&self.givers).map(one).collect::<PyResult<_>>()?))
    }
}

/// The bytes of one row of a column that holds values of one size.
fn row_of(memory: &[u8], rows: usize, row: usize) -> &[u8] {
    let len = memory.len() / rows.max(1);
    memory.get(row * len..(row + 1) * len).unwrap_or_default()
}

fn give_row<'py>(py: Python<'py>, giver: &mut Giver, held: &Held, rows: usize, row: usize) -> PyResult<Bound<'py, PyAny>> {
    match (held, &mut giver.kind) {
        (Held::Fixed(buffer), Some(kind)) => kind.row(py, buffer.bind(py), row),
        (Held::Fixed(_), None) => Err(pyo3::exceptions::PyTypeError::new_err("no dtype")),
        (Held::Plain(memory), _) => own(py, &giver.ty, row_of(memory, rows, row)),
        (Held::Var(values), _) => own(py, &giver.ty, values.get(row).map(Vec::as_slice).unwrap_or_default()),
    }
}

/// Examples one by one, as dicts.
#[pyclass(module = "sigbank._native")]
pub struct ExampleIterator {
    pull: Pull,
    rows: usize,
    row: usize,
    held: Vec<Held>,
}

impl ExampleIterator {
    pub fn new(py: Python<'_>, source: &Arc<dyn Source>, mut options: Options) -> PyResult<Self> {
        let lens = sigbank::layout::fixed_lens(source.schema()).map_err(raise)?;
        let bytes: usize = lens.iter().map(|len| len.unwrap_or(256)).sum();
        options.batch_size = (CHUNK / bytes.max(1)).clamp(1, 512);
        Ok(Self { pull: Pull::new(py, source, options)?, rows: 0, row: 0, held: Vec::new() })
    }
}

#[pymethods]
impl ExampleIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if self.row == self.rows {
            self.held.clear();
            match self.pull.next(py)? {
                Some((rows, held)) => (self.rows, self.row, self.held) = (rows, 0, held),
                None => return Ok(None),
            }
        }
        let example = PyDict::new(py);
        for (giver, held) in self.pull.givers.iter_mut().zip(&self.held) {
            let value = give_row(py, giver, held, self.rows, self.row)?;
            example.set_item(giver.name.bind(py), value)?;
        }
        self.row += 1;
        Ok(Some(example))
    }
}

/// Batches, as dicts of arrays (lists for what is no array).
#[pyclass(module = "sigbank._native")]
pub struct BatchIterator {
    pull: Pull,
}

impl BatchIterator {
    pub fn new(py: Python<'_>, source: &Arc<dyn Source>, options: Options) -> PyResult<Self> {
        Ok(Self { pull: Pull::new(py, source, options)? })
    }
}

#[pymethods]
impl BatchIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some((rows, held)) = self.pull.next(py)? else { return Ok(None) };
        let batch = PyDict::new(py);
        for (giver, held) in self.pull.givers.iter_mut().zip(&held) {
            let value = match (held, &mut giver.kind) {
                (Held::Fixed(buffer), Some(kind)) => kind.batch(py, buffer.bind(py), rows)?,
                _ => {
                    let all = (0..rows).map(|row| give_row(py, giver, held, rows, row)).collect::<PyResult<Vec<_>>>()?;
                    PyList::new(py, all)?.into_any()
                }
            };
            batch.set_item(giver.name.bind(py), value)?;
        }
        Ok(Some(batch))
    }

    /// Records handed out since the beginning of epoch 0: what `start` takes to go on from here.
    #[getter]
    fn position(&self) -> u64 {
        self.pull.loader.position()
    }
}

/// The loader's options from the arguments that all iterators share.
pub fn options(split: &str, shuffle: u64, seed: Option<u64>, threads: usize) -> Options {
    let shuffle = if shuffle == 0 { Shuffle::None } else { Shuffle::Buffer(shuffle) };
    Options { shuffle, seed: seed.unwrap_or_else(random_seed), threads, ..Options::new(split, 1) }
}

/// A seed for who gives none: another one each time.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}
