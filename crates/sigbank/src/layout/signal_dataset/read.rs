//! Records by ordinal: places are looked up, adjacent records read together, decoded on several threads.

use super::Options;
use super::dataset::Dataset;
use super::documents::{Reference, Shard};
use super::shards::{OpenShard, Scratch};
use crate::error::{Error, Result};
use bytes::Bytes;
use sigbank_format::record::signal::{Decoded, RecordMetadata, decode, decode_metadata};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes that are read at once.
const TOGETHER: u64 = 1 << 20;
/// From so many stored bytes on, further threads are worth their start.
const WORTH_A_THREAD: u64 = 128 << 10;

/// A record that was read: its payload, and where in it the samples lie.
///
/// ```
/// use sigbank::format::record::signal::{Axis, FieldMetadata, RecordMetadata, ResourcePolicy, encode};
/// use sigbank::layout::signal_dataset::StoredRecord;
/// let field = FieldMetadata { axes: vec![Axis::new("t", 2)], ..FieldMetadata::new("x", "uint8".parse()?, vec![2]) };
/// let payload = encode(&RecordMetadata::new("a", vec![field]), &[&[7, 9]], &ResourcePolicy::default())?;
/// let record = StoredRecord::decode(payload.into(), &ResourcePolicy::default())?;
/// assert_eq!((record.metadata().id.as_str(), &record.field(0)[..]), ("a", &[7, 9][..]));
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRecord {
    payload: Bytes,
    decoded: Decoded,
}

impl StoredRecord {
    /// Reads a payload.
    ///
    /// # Errors
    /// Those of the codec's [`decode`].
    pub fn decode(payload: Bytes, policy: &super::ResourcePolicy) -> Result<Self> {
        let decoded = decode(&payload, policy)?;
        Ok(Self { payload, decoded })
    }
    /// Everything but the samples.
    pub fn metadata(&self) -> &RecordMetadata {
        &self.decoded.metadata
    }
    /// The bytes as they are stored (decompressed).
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }
    /// Where in the payload each field's samples lie, in the order of `metadata().fields`; at any alignment.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.decoded.data
    }
    /// A field's samples, sharing the payload's memory; empty past the last field.
    pub fn field(&self, field: usize) -> Bytes {
        self.decoded.data.get(field).map_or_else(Bytes::new, |range| self.payload.slice(range.clone()))
    }
    /// All parts.
    pub fn into_parts(self) -> (Bytes, RecordMetadata, Vec<Range<usize>>) {
        (self.payload, self.decoded.metadata, self.decoded.data)
    }
}

/// What is stored for each ordinal: a [`StoredRecord`] in the data objects, its [`RecordMetadata`] in the metadata objects.
pub trait Stored: Clone + Send + Sync + Sized + 'static {
    /// Which of a shard's two objects holds it.
    fn object(shard: &Shard) -> &Reference;
    /// Reads one.
    ///
    /// # Errors
    /// Those of the codec.
    fn from_bytes(bytes: Vec<u8>, options: &Options) -> Result<Self>;
    /// About how many bytes of memory it holds.
    fn weight(&self) -> usize;
}

impl Stored for StoredRecord {
    fn object(shard: &Shard) -> &Reference {
        &shard.data
    }
    fn from_bytes(bytes: Vec<u8>, options: &Options) -> Result<Self> {
        Self::decode(bytes.into(), &options.resources)
    }
    fn weight(&self) -> usize {
        self.payload.len() + 512
    }
}

impl Stored for RecordMetadata {
    fn object(shard: &Shard) -> &Reference {
        &shard.metadata
    }
    fn from_bytes(bytes: Vec<u8>, options: &Options) -> Result<Self> {
        Ok(decode_metadata(&bytes, &options.resources, &options.control)?)
    }
    fn weight(&self) -> usize {
        512 + self.metadata.as_str().len()
    }
}

/// A record's place: the shard's page and its number there, and the record's number in the shard's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    page: usize,
    shard: usize,
    physical: u64,
    row: usize,
}

/// Records that are read with one call.
struct Run {
    shard: Arc<OpenShard>,
    location: Arc<str>,
    span: Range<u64>,
    spots: Vec<Spot>,
}

impl Dataset {
    pub(super) fn one<T: Stored>(&self, ordinal: u64) -> Result<T> {
        let found = self.locate(ordinal)?;
        let reference = T::object(found.shard());
        let inner = self.inner();
        let shard = inner.shards.get(&inner.objects, reference, found.shard_len())?;
        let mut bytes = Vec::new();
        let read = inner.shards.with_scratch(|scratch| scratch.decoder.read(&shard.reader, found.physical, &mut bytes));
        let read = read.map_err(|e| physical(e.into(), &shard, found.physical));
        read.and_then(|()| T::from_bytes(bytes, &inner.options))
            .map_err(|e| e.within(format!("ordinal {ordinal}")).at(inner.objects.locate(&reference.path)))
    }

    /// The records at `ordinals`, in that order, on at most so many threads.
    pub(super) fn many<T: Stored>(&self, ordinals: &[u64], threads: usize) -> Result<Vec<T>> {
        let runs = self.plan::<T>(ordinals)?;
        let bytes: u64 = runs.iter().map(|run| run.span.end - run.span.start).sum();
        let threads = threads.min(runs.len()).min((bytes / WORTH_A_THREAD) as usize + 1);
        let rows = Mutex::new(vec![None; ordinals.len()]);
        let next = AtomicUsize::new(0);
        let work = || {
            let inner = self.inner();
            inner.shards.with_scratch(|scratch| -> Result<()> {
                loop {
                    let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) else { return Ok(()) };
                    let got = read_run::<T>(run, scratch, &inner.options, ordinals)?;
                    let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
                    for (row, value) in got {
                        if let Some(place) = rows.get_mut(row) {
                            *place = Some(value);
                        }
                    }
                }
            })
        };
        if threads < 2 {
            work()?;
        } else {
            std::thread::scope(|scope| {
                let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
                let mine = work();
                others.into_iter().map(|other| other.join().unwrap_or_else(|_| Err(gone()))).fold(mine, Result::and)
            })?;
        }
        let rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
        rows.into_iter().map(|row| row.ok_or_else(gone)).collect()
    }

    /// Which records are read together.
    fn plan<T: Stored>(&self, ordinals: &[u64]) -> Result<Vec<Run>> {
        let inner = self.inner();
        let mut spots = Vec::with_capacity(ordinals.len());
        let mut last: Option<super::dataset::Located> = None;
        for (row, &ordinal) in ordinals.iter().enumerate() {
            let found = match last.take().and_then(|last| last.moved_to(ordinal)) {
                Some(found) => found,
                None => self.locate(ordinal)?,
            };
            spots.push(Spot { page: found.page, shard: found.number, physical: found.physical, row });
            last = Some(found);
        }
        spots.sort_unstable();
        let mut runs: Vec<Run> = Vec::new();
        for group in spots.chunk_by(|a, b| (a.page, a.shard) == (b.page, b.shard)) {
            let Some(found) = group.first().and_then(|spot| ordinals.get(spot.row)) else { continue };
            let found = self.locate(*found)?;
            let reference = T::object(found.shard());
            let shard = inner.shards.get(&inner.objects, reference, found.shard_len())?;
            let location: Arc<str> = inner.objects.locate(&reference.path).into();
            let first = runs.len();
            for spot in group {
                let span =
                    shard.reader.span(spot.physical).map_err(|e| physical(e.into(), &shard, spot.physical).at(&location))?;
                match runs.get_mut(first..).and_then(<[_]>::last_mut) {
                    Some(run)
                        if (span.start == run.span.end && span.end - run.span.start <= TOGETHER)
                            || (span.start >= run.span.start && span.end == run.span.end) =>
                    {
                        run.span.end = span.end;
                        run.spots.push(*spot);
                    }
                    _ => runs.push(Run { shard: Arc::clone(&shard), location: Arc::clone(&location), span, spots: vec![*spot] }),
                }
            }
        }
        Ok(runs)
    }
}

/// Reads the records of a run: (row, record).
fn read_run<T: Stored>(run: &Run, scratch: &mut Scratch, options: &Options, ordinals: &[u64]) -> Result<Vec<(usize, T)>> {
    let mut got: Vec<(usize, T)> = Vec::with_capacity(run.spots.len());
    let mut before = None;
    let Scratch { decoder, bytes } = scratch;
    let located = |e: Error, spot: &Spot| {
        let ordinal = ordinals.get(spot.row).copied().unwrap_or_default();
        e.within(format!("ordinal {ordinal}")).at(&run.location)
    };
    let alone = run.spots.len() == 1;
    if !alone {
        let len = usize::try_from(run.span.end - run.span.start).map_err(|_| Error::limit("a span larger than the memory"))?;
        if bytes.len() < len {
            *bytes = crate::store::zeroed(len as u64)?;
        }
        let place = bytes.get_mut(..len).unwrap_or_default();
        run.shard.file.read_at(run.span.start, place).map_err(|e| Error::from(e).at(&run.location))?;
    }
    for spot in &run.spots {
        if let (Some(physical), Some((_, same))) = (before, got.last())
            && physical == spot.physical
        {
            // Asked for twice: the bytes are shared.
            let same = same.clone();
            got.push((spot.row, same));
            continue;
        }
        let mut record = Vec::new();
        let decoded = if alone {
            decoder.read(&run.shard.reader, spot.physical, &mut record)
        } else {
            run.shard.reader.span(spot.physical).and_then(|span| {
                let at = (span.start - run.span.start) as usize..(span.end - run.span.start) as usize;
                decoder.decode(&run.shard.reader, spot.physical, bytes.get(at).unwrap_or_default(), &mut record)
            })
        };
        let value = decoded.map_err(Error::from).and_then(|()| T::from_bytes(record, options));
        got.push((spot.row, value.map_err(|e| located(e, spot))?));
        before = Some(spot.physical);
    }
    Ok(got)
}

/// A record that the shard does not have is named by a document: that is damage, not a wrong call.
fn physical(e: Error, shard: &OpenShard, index: u64) -> Error {
    if index < shard.reader.len() {
        return e;
    }
    Error::corrupt(format!("record {index} of the shard is named, but it holds {}", shard.reader.len()))
        .remedy("it was cut short or replaced by another, or the manifest is of another dataset: restore it from a copy")
}

pub(super) fn gone() -> Error {
    Error::storage("a thread that reads records ended unexpectedly: this is a defect of sigbank, please report it")
}
