//! Batches for training: read ahead by threads, mixed, in an order that is the same everywhere.
//!
//! [`Loader`] is an iterator over [`Batch`]es of any [`Source`]. The order is a pure function
//! ([`order`]); where a run stopped is one number ([`Loader::position`]). What is read ahead is bounded, whatever the size of
//! the dataset and however slow the consumer.
//!
//! Memory for rows, at most: the shuffle's records, what is read ahead ([`Options::prefetch_bytes`]), two batches, and what the
//! consumer holds. A source that decodes units as a whole (compressed ones) is read two units ahead, so that one is
//! decoded while another is consumed.

mod ahead;
mod engine;
pub mod order;
mod plan;
mod pool;
mod rows;

pub use crate::layout::Stored;
pub use order::Shuffle;
pub use pool::PooledBuf;

use crate::error::{Error, Result};
use crate::layout::{Source, fixed_lens};
use engine::{Engine, Job};
use order::Order;
use sigbank_format::model::FieldType;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Threads where most wait for their requests.
const WAITING: usize = 16;

/// What to load and how.
///
/// ```
/// use sigbank::loader::{Options, Shuffle};
/// let options = Options { shuffle: Shuffle::Buffer(10_000), seed: 7, epochs: None, ..Options::new("train", 256) };
/// assert_eq!((options.batch_size, options.start, options.drop_last), (256, 0, false));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The split.
    pub split: String,
    /// Numbers of the split's units to load, in this order; all where none are named. (Each rank of a training takes some.)
    pub units: Option<Vec<u32>>,
    /// The fields, as positions in the schema; all where none are named.
    pub fields: Option<Vec<usize>>,
    /// Records in a batch; the last one may have fewer.
    pub batch_size: usize,
    /// Threads that read; 0 is one a processor, and at least 16 where a request to the storage costs time.
    pub threads: usize,
    /// How records are mixed.
    pub shuffle: Shuffle,
    /// What the order of a shuffle depends on, beside the epoch.
    pub seed: u64,
    /// How often to go through the records: each time in another order where shuffled, and without a seam, so that a batch may hold the
    /// end of one epoch and the beginning of the next. None: for ever.
    pub epochs: Option<u64>,
    /// The position (records since the beginning of epoch 0) to begin at: [`Loader::position`] of an earlier run with the same
    /// records, shuffle and seed.
    pub start: u64,
    /// Whether to leave a last batch out that is not full.
    pub drop_last: bool,
    /// Bytes of records to read ahead, beyond what the shuffle needs. None: some batches, or two units where units are decoded as a
    /// whole.
    pub prefetch_bytes: Option<usize>,
    /// Whether arrays, integers and texts that are stored as another type than the schema declares are handed out as they are, in a
    /// [`Column::Stored`] a field of arrays, `int` or `str`; without it they are an `Unsupported` error.
    pub as_stored: bool,
    /// Whether the values of ragged fields come with their types, in a [`Column::Stored`]; else as bytes, in a [`Column::Var`].
    pub ragged: bool,
}

impl Options {
    /// One epoch of a split in stored order, all units and fields.
    pub fn new(split: impl Into<String>, batch_size: usize) -> Self {
        Self {
            split: split.into(),
            units: None,
            fields: None,
            batch_size,
            threads: 0,
            shuffle: Shuffle::None,
            seed: 0,
            epochs: Some(1),
            start: 0,
            drop_last: false,
            prefetch_bytes: None,
            as_stored: false,
            ragged: false,
        }
    }
}

/// The values of one field in a batch.
#[derive(Debug)]
pub enum Column {
    /// Values of one size, row after row without gaps, in one buffer.
    Fixed(PooledBuf),
    /// Values of any size, row by row.
    Var(Vec<Vec<u8>>),
    /// Values that may be of other types than the one declared, row by row ([`Options::as_stored`]).
    Stored(Vec<Stored>),
}

/// Some records, column by column.
#[derive(Debug)]
pub struct Batch {
    /// Records in it.
    pub rows: usize,
    /// A column a field, in the order asked for.
    pub columns: Vec<Column>,
    /// The position of its first record, counted from the beginning of epoch 0.
    pub first_position: u64,
}

/// What [`Loader::next_timeout`] found.
#[derive(Debug)]
pub enum Next {
    /// The next batch.
    Batch(Batch),
    /// There are no more.
    End,
    /// It is not ready yet.
    Pending,
}

/// One field as the loader sees it.
#[derive(Debug, Clone)]
pub(crate) struct FieldSpec {
    name: String,
    /// Bytes of a value where all have as many.
    len: Option<usize>,
    /// About how many it has where they have not.
    about: u64,
    /// Whether its values may be of another type than declared.
    as_stored: bool,
}

/// The fields asked for.
pub(crate) type Fields = [FieldSpec];

/// An iterator over the batches of a dataset, read ahead by threads of its own. They start with the first batch asked for, and
/// end with the loader, with its last batch or with an error, and their memory and files are given back then.
///
/// An error comes in place of the first batch that it concerns and is the last item. In a forked child the loader goes on
/// at the position where it was, with new threads.
///
/// ```no_run
/// use sigbank::loader::{Loader, Options, Shuffle};
/// let source = sigbank::layout::open("dataset")?;
/// let mut loader = Loader::new(source, Options { shuffle: Shuffle::Buffer(10_000), ..Options::new("train", 256) })?;
/// let mut records = 0;
/// for batch in &mut loader {
///     records += batch?.rows as u64;
/// }
/// assert_eq!(loader.position(), records);
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug)]
pub struct Loader {
    job: Arc<Job>,
    position: u64,
    ended: bool,
    engine: Option<Engine>,
}

impl Loader {
    /// A loader for a dataset; nothing is read yet.
    ///
    /// # Errors
    /// `NotFound` for a split that is not there; `Invalid` for a field or unit that does not exist, a batch size of 0 or over
    /// 2^32 - 1, a start beyond the end, or where no records are chosen; `Unsupported` for [`Shuffle::Global`] where a unit is decoded as a
    /// whole; `Limit` for sizes that are not handled.
    pub fn new(source: Arc<dyn Source>, options: Options) -> Result<Self> {
        let schema = source.schema();
        let lens = fixed_lens(schema)?;
        let positions = options.fields.unwrap_or_else(|| (0..lens.len()).collect());
        let fields = positions.iter().map(|&at| match (schema.fields.get(at), lens.get(at)) {
            (Some(field), Some(&len)) => Ok(FieldSpec {
                name: field.name.clone(),
                len,
                about: source.value_size(at).unwrap_or(engine::VAR_BYTES),
                as_stored: options.as_stored && !matches!(field.ty, FieldType::Bytes { .. })
                    || options.ragged && field.metadata.contains_key("ragged"),
            }),
            _ => Err(Error::invalid(format!("field {at} is asked for, but there are {}", lens.len())).at(source.location())),
        });
        let fields = fields.collect::<Result<Arc<Fields>>>()?;
        let batch = match u32::try_from(options.batch_size) {
            Ok(n) if n > 0 => n,
            _ => {
                return Err(Error::invalid(format!(
                    "a batch of {} records (1 to {} are possible)",
                    options.batch_size,
                    u32::MAX
                )));
            }
        };
        if options.shuffle == Shuffle::Global && !source.random_access() {
            return Err(Error::unsupported("a global shuffle of data that are decoded a unit at a time")
                .at(source.location())
                .remedy("shuffle with a buffer of some thousand records, or store the dataset uncompressed"));
        }
        let place = |e: Error| e.within(format!("split '{}'", options.split)).at(source.location());
        let order = Order::new(source.units(&options.split)?, options.units, options.shuffle, options.seed).map_err(place)?;
        let end = options.epochs.map_or(u64::MAX, |n| n.saturating_mul(order.records()));
        if options.start > end {
            return Err(place(Error::invalid(format!("a start at position {}, but {end} is the end", options.start)))
                .remedy("resume with the dataset, units and epochs that the position was taken from"));
        }
        let end = if options.drop_last { end - (end - options.start) % u64::from(batch) } else { end };
        let threads = match options.threads {
            0 => {
                // Where a request costs time, threads mostly wait.
                let least = if source.round_trip() > 0 { WAITING } else { 1 };
                std::thread::available_parallelism().map_or(1, |n| n.get()).max(least)
            }
            n => n,
        };
        let (position, split) = (options.start, options.split);
        let job = Job { source, split, positions, fields, order, batch, threads, end, prefetch_bytes: options.prefetch_bytes };
        Ok(Self { job: Arc::new(job), position, ended: false, engine: None })
    }
    /// The position after the last batch handed out: what [`Options::start`] takes to go on from there.
    pub fn position(&self) -> u64 {
        self.position
    }
    /// Records of one epoch.
    pub fn records(&self) -> u64 {
        self.job.order.records()
    }
    /// The next batch, or [`Next::Pending`] where it is not ready within the time. Nothing is lost by asking again.
    ///
    /// # Errors
    /// The error of the source for the first batch that cannot be read; a panic in it comes as one too. After that: [`Next::End`].
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Next> {
        self.pull(Instant::now().checked_add(timeout))
    }
    /// Begins to read now instead of with the first batch asked for.
    ///
    /// # Errors
    /// `Storage` where no thread can be started.
    pub fn start(&mut self) -> Result<()> {
        if self.engine.is_none() && !self.ended && self.position < self.job.end {
            self.engine = Some(Engine::start(self.job.clone(), self.position)?);
        }
        Ok(())
    }
    fn pull(&mut self, deadline: Option<Instant>) -> Result<Next> {
        if self.ended || self.position >= self.job.end {
            self.stop();
            return Ok(Next::End);
        }
        if self.engine.as_ref().is_some_and(|e| !e.is_of_this_process()) {
            // In a forked child its threads are gone and its locks may be held for ever: leave it untouched.
            std::mem::forget(self.engine.take());
        }
        let engine = match self.engine.take() {
            Some(engine) => Ok(engine),
            None => Engine::start(self.job.clone(), self.position),
        };
        match engine.and_then(|engine| self.engine.insert(engine).next(deadline)) {
            Ok(Some(batch)) => {
                self.position = batch.first_position + batch.rows as u64;
                if self.position >= self.job.end {
                    self.stop();
                }
                Ok(Next::Batch(batch))
            }
            Ok(None) => Ok(Next::Pending),
            Err(e) => {
                self.stop();
                Err(e)
            }
        }
    }
    fn stop(&mut self) {
        self.ended = true;
        match self.engine.take() {
            Some(engine) if !engine.is_of_this_process() => std::mem::forget(engine),
            engine => drop(engine),
        }
    }
}

impl Iterator for Loader {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        loop {
            match self.pull(None) {
                Ok(Next::Batch(batch)) => return Some(Ok(batch)),
                Ok(Next::End) => return None,
                Ok(Next::Pending) => {}
                Err(e) => return Some(Err(e)),
            }
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.stop();
    }
}
