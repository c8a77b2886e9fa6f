//! Iterators over examples and batches, on the one loader.

use crate::errors::raise;
use crate::give::{Giver, Held, givers};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyIterator, PyList, PySlice};
use sigbank::error::{Code, Error};
use sigbank::layout::{Source, sedpack};
use sigbank::loader::{Batch, Column, Loader, Next, Options, Shuffle};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes of single examples that share one buffer: keeping one example keeps that many.
const CHUNK: usize = 640 << 10;
/// How long a wait lasts before Ctrl-C is looked for.
const PATIENCE: Duration = Duration::from_millis(50);

struct Pull {
    loader: Loader,
    givers: Vec<Giver>,
    /// How to begin again where values are met that are stored as another type than declared: only single examples can be.
    again: Option<(Arc<dyn Source>, Options)>,
    anew: Option<Anew>,
}

/// How to go on with the fields of all records, where one is met that differs from those looked at.
struct Anew {
    source: Arc<dyn Source>,
    options: Options,
    /// The fields asked for: their places change.
    names: Option<Vec<String>>,
}

impl Pull {
    fn new(py: Python<'_>, source: &Arc<dyn Source>, options: Options) -> PyResult<Self> {
        let givers = givers(py, source.schema(), options.fields.as_deref())?;
        let loader = py.detach(|| Loader::new(source.clone(), options)).map_err(raise)?;
        Ok(Self { loader, givers, again: None, anew: None })
    }

    /// As [`Pull::new`], for examples that are handed out one by one.
    fn singles(py: Python<'_>, source: &Arc<dyn Source>, options: Options) -> PyResult<Self> {
        let again = (!options.as_stored).then(|| (source.clone(), options.clone()));
        Ok(Self { again, ..Self::new(py, source, options)? })
    }

    /// Begins to read, without waiting.
    fn start(&mut self) -> PyResult<()> {
        self.loader.start().map_err(raise)
    }

    /// The next batch; while it waits other threads run, and Ctrl-C ends the wait.
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<(usize, Vec<Held>)>> {
        let mut timeout = Duration::ZERO;
        loop {
            let next = if timeout.is_zero() {
                self.loader.next_timeout(timeout)
            } else {
                py.detach(|| self.loader.next_timeout(timeout))
            };
            let next = match next {
                Err(e) if e.code() == Code::Unsupported && self.again.is_some() => {
                    if let Some((source, options)) = self.again.take() {
                        let options = Options { start: self.loader.position(), as_stored: true, ..options };
                        self.loader = py.detach(|| Loader::new(source, options)).map_err(raise)?;
                    }
                    continue;
                }
                Err(e) if e.code() == Code::Unsupported && self.anew.is_some() => {
                    if let Some(anew) = self.anew.take() {
                        self.go_on(py, anew, &e)?;
                    }
                    continue;
                }
                next => next.map_err(raise)?,
            };
            match next {
                Next::Batch(batch) => return self.hold(py, batch).map(Some),
                Next::End => return Ok(None),
                Next::Pending => {
                    py.check_signals()?;
                    timeout = PATIENCE;
                }
            }
        }
    }

    /// Goes on with the next batch, as if all records had been looked at before; says so where batches were handed out.
    fn go_on(&mut self, py: Python<'_>, anew: Anew, stray: &Error) -> PyResult<()> {
        let Anew { source, options, names } = anew;
        let exact = py.detach(|| source.exact(false)).map_err(raise)?.unwrap_or_else(|| source.clone());
        let fields = names.map(|names| crate::dataset::positions(&*exact, &names)).transpose()?;
        let (position, begun) = (self.loader.position(), self.loader.position() > options.start);
        // The order is of units and records, not of fields: the same records follow.
        *self = Self::new(py, &exact, Options { fields, start: position, ..options })?;
        if !begun || exact.schema() == source.schema() {
            return Ok(());
        }
        let text = format!(
            "{}: {}. From position {position} on batches have the form that fits all records (lists where values differ in shape or are \
             missing). To have all batches alike, look at dataset.schema before the first one",
            stray.path().unwrap_or_default(),
            stray.message()
        );
        let text = std::ffi::CString::new(text.replace('\0', "\\0"))?;
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)
    }

    fn hold(&self, py: Python<'_>, batch: Batch) -> PyResult<(usize, Vec<Held>)> {
        let one = |(column, giver): (Column, &Giver)| giver.hold(py, column);
        Ok((batch.rows, batch.columns.into_iter().zip(&self.givers).map(one).collect::<PyResult<_>>()?))
    }
}

/// Where batches come from.
enum Feed {
    One(Box<Pull>),
    Chain(Box<Chain>),
}

impl Feed {
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<(usize, Vec<Held>)>> {
        match self {
            Self::One(pull) => pull.next(py),
            Self::Chain(chain) => chain.next(py),
        }
    }
    fn givers(&mut self) -> &mut [Giver] {
        match self {
            Self::One(pull) => &mut pull.givers,
            Self::Chain(chain) => &mut chain.givers,
        }
    }
}

/// Loaders one after another over shards that a Python iterator names, which may go on for ever. Each takes some shards,
/// and the next one begins to read while the present one is consumed.
pub struct Chain {
    dataset: sedpack::Dataset,
    source: Arc<dyn Source>,
    paths: Py<PyIterator>,
    /// The path that was drawn and belongs to the next loader.
    drawn: Option<(String, u32)>,
    options: Options,
    present: Option<Pull>,
    following: Option<Pull>,
    givers: Vec<Giver>,
    singles: bool,
}

impl Chain {
    pub fn new(py: Python<'_>, dataset: sedpack::Dataset, paths: &Bound<'_, PyAny>, options: Options) -> PyResult<Self> {
        let source: Arc<dyn Source> = Arc::new(dataset.clone());
        let givers = givers(py, source.schema(), None)?;
        Ok(Self {
            dataset,
            source,
            paths: paths.try_iter()?.unbind(),
            drawn: None,
            options,
            present: None,
            following: None,
            givers,
            singles: false,
        })
    }

    fn draw(&mut self, py: Python<'_>) -> PyResult<Option<(String, u32)>> {
        if let Some(drawn) = self.drawn.take() {
            return Ok(Some(drawn));
        }
        let Some(path) = self.paths.bind(py).clone().next().transpose()? else { return Ok(None) };
        let path: String = path.extract()?;
        py.detach(|| self.dataset.find(&path)).map(Some).map_err(raise)
    }

    /// A loader over the next shards: of one split, each once, enough for the shuffle.
    fn begin(&mut self, py: Python<'_>) -> PyResult<Option<Pull>> {
        let wanted = match self.options.shuffle {
            Shuffle::Buffer(n) => n,
            _ => 0,
        };
        let (mut split, mut units, mut records) = (String::new(), Vec::new(), 0);
        while units.len() < 2 * self.options.threads.max(1) || records < wanted {
            let Some((of, unit)) = self.draw(py)? else { break };
            if !units.is_empty() && (of != split || units.contains(&unit)) {
                self.drawn = Some((of, unit));
                break;
            }
            records += self.source.units(&of).map_err(raise)?.count(unit as usize);
            units.push(unit);
            split = of;
        }
        if units.is_empty() {
            return Ok(None);
        }
        self.options.seed = self.options.seed.wrapping_add(1);
        let options = Options { split, units: Some(units), epochs: Some(1), ..self.options.clone() };
        let pull = if self.singles { Pull::singles } else { Pull::new };
        pull(py, &self.source, options).map(Some)
    }

    fn next(&mut self, py: Python<'_>) -> PyResult<Option<(usize, Vec<Held>)>> {
        loop {
            if self.present.is_none() {
                self.present = match self.following.take() {
                    Some(pull) => Some(pull),
                    None => self.begin(py)?,
                };
                self.following = self.begin(py)?;
                if let Some(pull) = &mut self.following {
                    pull.start()?;
                }
            }
            let Some(pull) = &mut self.present else { return Ok(None) };
            match pull.next(py)? {
                Some(batch) => return Ok(Some(batch)),
                None => self.present = None,
            }
        }
    }
}

/// Examples one by one, as dicts. Threads may share one: each example goes to one of them.
#[pyclass(frozen, module = "sigbank._native")]
pub struct ExampleIterator(Mutex<Examples>, String);

struct Examples {
    feed: Feed,
    rows: usize,
    row: usize,
    held: Vec<Held>,
}

impl ExampleIterator {
    pub fn new(py: Python<'_>, source: &Arc<dyn Source>, options: Options) -> PyResult<Self> {
        let options = in_chunks(&**source, options)?;
        let label = format!("ExampleIterator({}, split {:?})", source.location(), options.split);
        Ok(Self::of(Feed::One(Box::new(Pull::singles(py, source, options)?)), label))
    }
    pub fn chain(mut chain: Chain) -> PyResult<Self> {
        chain.options = in_chunks(&*chain.source, chain.options)?;
        chain.singles = true;
        let label = format!("ExampleIterator({}, a stream of shards)", chain.source.location());
        Ok(Self::of(Feed::Chain(Box::new(chain)), label))
    }
    fn of(feed: Feed, label: String) -> Self {
        Self(Mutex::new(Examples { feed, rows: 0, row: 0, held: Vec::new() }), label)
    }
}

#[pymethods]
impl ExampleIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __repr__(&self) -> &str {
        &self.1
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner).next(py)
    }
}

impl Examples {
    fn next<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if self.row == self.rows {
            self.held.clear();
            match self.feed.next(py)? {
                Some((rows, held)) => (self.rows, self.row, self.held) = (rows, 0, held),
                None => return Ok(None),
            }
        }
        let example = PyDict::new(py);
        for (giver, held) in self.feed.givers().iter_mut().zip(&self.held) {
            let value = giver.row(py, held, self.rows, self.row)?;
            example.set_item(giver.name(py), value)?;
        }
        self.row += 1;
        Ok(Some(example))
    }
}

/// The options with batches of as many records as share one buffer.
fn in_chunks(source: &dyn Source, options: Options) -> PyResult<Options> {
    let lens = sigbank::layout::fixed_lens(source.schema()).map_err(raise)?;
    let about = |field| source.value_size(field).unwrap_or(256) as usize;
    let bytes: usize = lens.iter().enumerate().map(|(field, len)| len.unwrap_or_else(|| about(field))).sum();
    Ok(Options { batch_size: (CHUNK / bytes.max(1)).clamp(1, 512), ..options })
}

/// Batches, as dicts of arrays (lists for what is no array).
#[pyclass(frozen, module = "sigbank._native")]
pub struct BatchIterator(Mutex<Batches>, String);

struct Batches {
    feed: Feed,
    /// Records in a batch, where the loaders' own batches may be short.
    rebatch: Option<usize>,
    /// Rows of which too few came for a batch.
    short: Option<(usize, Py<PyDict>)>,
}

impl BatchIterator {
    /// `names` are those of the fields that the options ask for.
    pub fn new(py: Python<'_>, source: &Arc<dyn Source>, options: Options, names: Option<Vec<String>>) -> PyResult<Self> {
        let label = format!("BatchIterator({}, split {:?}, batches of {})", source.location(), options.split, options.batch_size);
        let anew = source.schema_of().map(|_| Anew { source: Arc::clone(source), options: options.clone(), names });
        let feed = Feed::One(Box::new(Pull { anew, ..Pull::new(py, source, options)? }));
        Ok(Self(Mutex::new(Batches { feed, rebatch: None, short: None }), label))
    }
    /// Batches whose text and bytes are arrays of `bytes` objects.
    pub fn of_objects(self) -> Self {
        let mut batches = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        batches.feed.givers().iter_mut().for_each(Giver::give_objects);
        Self(Mutex::new(batches), self.1)
    }
    pub fn chain(chain: Chain) -> Self {
        let size = chain.options.batch_size;
        let label = format!("BatchIterator({}, a stream of shards, batches of {size})", chain.source.location());
        Self(Mutex::new(Batches { feed: Feed::Chain(Box::new(chain)), rebatch: Some(size), short: None }), label)
    }
}

impl Batches {
    fn pull<'py>(&mut self, py: Python<'py>) -> PyResult<Option<(usize, Bound<'py, PyDict>)>> {
        let Some((rows, held)) = self.feed.next(py)? else { return Ok(None) };
        let batch = PyDict::new(py);
        for (giver, held) in self.feed.givers().iter_mut().zip(&held) {
            let value = giver.batch(py, held, rows)?;
            batch.set_item(giver.name(py), value)?;
        }
        Ok(Some((rows, batch)))
    }
}

/// The rows of one batch, then those of another: arrays are joined, lists added.
fn join<'py>(first: &Bound<'py, PyDict>, second: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    let both = PyDict::new(first.py());
    for (name, a) in first {
        let b = second.as_any().get_item(&name)?;
        let value = if a.is_instance_of::<PyList>() {
            a.add(b)?
        } else {
            PyModule::import(first.py(), "numpy")?.call_method1("concatenate", ((a, b),))?
        };
        both.set_item(name, value)?;
    }
    Ok(both)
}

/// The rows of a batch in a range.
fn part<'py>(batch: &Bound<'py, PyDict>, from: usize, to: usize) -> PyResult<Bound<'py, PyDict>> {
    let some = PyDict::new(batch.py());
    let range = PySlice::new(batch.py(), from as isize, to as isize, 1);
    for (name, value) in batch {
        some.set_item(name, value.get_item(&range)?)?;
    }
    Ok(some)
}

#[pymethods]
impl BatchIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __repr__(&self) -> &str {
        &self.1
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner).next(py)
    }

    /// Records handed out since the beginning of epoch 0: what `start` takes to go on from here.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        match &self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner).feed {
            Feed::One(pull) => Ok(pull.loader.position()),
            Feed::Chain(_) => Err(pyo3::exceptions::PyTypeError::new_err("a stream of shards has no position")),
        }
    }
}

impl Batches {
    fn next<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(wanted) = self.rebatch else { return Ok(self.pull(py)?.map(|(_, batch)| batch)) };
        loop {
            let short = self.short.take();
            match (self.pull(py)?, short) {
                (None, short) => return Ok(short.map(|(_, batch)| batch.into_bound(py))),
                (Some((rows, batch)), None) if rows == wanted => return Ok(Some(batch)),
                (Some((rows, batch)), short) => {
                    let (rows, batch) = match short {
                        Some((before, first)) => (before + rows, join(first.bind(py), &batch)?),
                        None => (rows, batch),
                    };
                    if rows < wanted {
                        self.short = Some((rows, batch.unbind()));
                        continue;
                    }
                    if rows > wanted {
                        self.short = Some((rows - wanted, part(&batch, wanted, rows)?.unbind()));
                    }
                    return part(&batch, 0, wanted).map(Some);
                }
            }
        }
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
