//! Records by ordinal: places are looked up, adjacent records read together, decoded on several threads.

use super::Options;
use super::dataset::Dataset;
use super::documents::{Reference, Shard};
use super::payload;
use super::shards::{OpenShard, Scratch};
use crate::error::{Error, Result};
use crate::store::Pending;
use bytes::Bytes;
use sigbank_format::record::signal::{Decoded, RecordMetadata, decode, decode_metadata};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes that are read at once.
const TOGETHER: u64 = 1 << 20;
/// The same where a request costs a round trip.
const TOGETHER_AFAR: u64 = 8 << 20;
/// Bytes of one call that are on their way or being decoded, where reading costs a round trip; at least one run is.
const IN_FLIGHT: u64 = 64 << 20;
/// Requests of one call that are in flight at once, more or less.
const SIDE_BY_SIDE: u64 = 32;
/// Shards that are opened at a time, where that costs requests.
const OPENERS: usize = 32;
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
        Self::decode(payload::shared(bytes), &options.resources)
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
        Ok(decode_metadata(&payload::shared(bytes), &options.resources, &options.control)?)
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
    /// Whether reading costs a round trip.
    afar: bool,
}

/// The runs of one call: which are being read, and which is decoded next.
struct Flight<'a> {
    runs: &'a [Run],
    state: Mutex<InFlight>,
}

#[derive(Default)]
struct InFlight {
    begun: VecDeque<Box<dyn Pending>>,
    /// How many runs were begun, and how many were taken to be decoded.
    next: usize,
    taken: usize,
    bytes: u64,
}

impl<'a> Flight<'a> {
    /// The next run, with its bytes on the way where reading costs a round trip.
    fn next(&self) -> Option<(&'a Run, Option<Box<dyn Pending>>)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let run = self.runs.get(state.taken)?;
        state.taken += 1;
        if !run.afar {
            state.next = state.next.max(state.taken);
            return Some((run, None));
        }
        while let Some(further) = self.runs.get(state.next).filter(|further| further.afar) {
            let bytes = further.span.end - further.span.start;
            if !state.begun.is_empty() && state.bytes.saturating_add(bytes) > IN_FLIGHT {
                break;
            }
            let begun = Arc::clone(&further.shard.file).start_ranges(std::slice::from_ref(&further.span));
            state.begun.push_back(begun);
            state.bytes += bytes;
            state.next += 1;
        }
        Some((run, state.begun.pop_front()))
    }

    fn landed(&self, run: &Run) {
        if run.afar {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.bytes = state.bytes.saturating_sub(run.span.end - run.span.start);
        }
    }
}

fn fetched(run: &Run, pending: Box<dyn Pending>) -> Result<Bytes> {
    let bytes = pending.wait().map_err(|e| e.at(&run.location))?;
    Ok(bytes.into_iter().next().unwrap_or_default())
}

impl Dataset {
    pub(super) fn one<T: Stored>(&self, ordinal: u64) -> Result<T> {
        let found = self.locate(ordinal)?;
        let reference = T::object(found.shard());
        let inner = self.inner();
        if let Some(container) = &inner.options.container {
            let read = container.one(&inner.objects, reference, found.physical, &inner.options);
            return read.map_err(|e| e.within(format!("ordinal {ordinal}")));
        }
        let shard = inner.shards.get(&inner.objects, reference, found.shard_len())?;
        let mut bytes = payload::buffer();
        let read = inner.shards.with_scratch(|scratch| scratch.decoder.read(&shard.reader, found.physical, &mut bytes));
        let read = read.map_err(|e| physical(e.into(), &shard, found.physical));
        read.and_then(|()| T::from_bytes(bytes, &inner.options))
            .map_err(|e| e.within(format!("ordinal {ordinal}")).at(inner.objects.locate(&reference.path)))
    }

    /// The records at `ordinals`, in that order, on at most so many threads. Where a request costs time, all are begun before the first
    /// is waited for, within [`IN_FLIGHT`].
    pub(super) fn many<T: Stored>(&self, ordinals: &[u64], threads: usize) -> Result<Vec<T>> {
        if let Some(container) = &self.inner().options.container {
            return container.many(self, ordinals);
        }
        let runs = self.plan::<T>(ordinals)?;
        let bytes: u64 = runs.iter().map(|run| run.span.end - run.span.start).sum();
        let threads = threads.min(runs.len()).min((bytes / WORTH_A_THREAD) as usize + 1);
        let rows = Mutex::new(vec![None; ordinals.len()]);
        let flight = Flight { runs: &runs, state: Mutex::default() };
        let work = || {
            let inner = self.inner();
            inner.shards.with_scratch(|scratch| -> Result<()> {
                while let Some((run, pending)) = flight.next() {
                    let bytes = pending.map(|pending| fetched(run, pending)).transpose();
                    let got = bytes.and_then(|bytes| read_run::<T>(run, bytes, scratch, &inner.options, ordinals));
                    flight.landed(run);
                    let got = got?;
                    let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
                    for (row, value) in got {
                        if let Some(place) = rows.get_mut(row) {
                            *place = Some(value);
                        }
                    }
                }
                Ok(())
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

    /// Hands out the records at `ordinals` by their places there, run by run in stored order as they are read, so that not all are held at
    /// once. Further runs are on their way meanwhile where a request costs time.
    pub(super) fn each<T: Stored>(&self, ordinals: &[u64], mut take: impl FnMut(usize, T) -> Result<()>) -> Result<()> {
        let inner = self.inner();
        if let Some(container) = &inner.options.container {
            return container.many(self, ordinals)?.into_iter().enumerate().try_for_each(|(row, record)| take(row, record));
        }
        let runs = self.plan::<T>(ordinals)?;
        let flight = Flight { runs: &runs, state: Mutex::default() };
        inner.shards.with_scratch(|scratch| {
            while let Some((run, pending)) = flight.next() {
                let bytes = pending.map(|pending| fetched(run, pending)).transpose()?;
                let got = read_run::<T>(run, bytes, scratch, &inner.options, ordinals)?;
                flight.landed(run);
                got.into_iter().try_for_each(|(row, record)| take(row, record))?;
            }
            Ok(())
        })
    }

    /// Opens the shards of some places, together where that costs requests.
    fn open_together<T: Stored>(&self, places: &[super::dataset::Located]) -> Result<Vec<Arc<OpenShard>>> {
        let inner = self.inner();
        let open =
            |found: &super::dataset::Located| inner.shards.get(&inner.objects, T::object(found.shard()), found.shard_len());
        let remote = places.first().map_or(0, |found| inner.objects.round_trip(&T::object(found.shard()).path));
        if remote == 0 || places.len() < 2 {
            return places.iter().map(open).collect();
        }
        let (next, opened) = (AtomicUsize::new(0), Mutex::new(vec![None; places.len()]));
        let work = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(found) = places.get(number) else { return Ok(()) };
                let shard = open(found).inspect_err(|_| next.store(places.len(), Ordering::Relaxed))?;
                if let Some(place) = opened.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number) {
                    *place = Some(shard);
                }
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..places.len().min(OPENERS)).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(gone()))).fold(Ok(()), Result::and)
        })?;
        let opened = opened.into_inner().unwrap_or_else(PoisonError::into_inner);
        opened.into_iter().map(|shard| shard.ok_or_else(gone)).collect()
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
        let groups: Vec<&[Spot]> = spots.chunk_by(|a, b| (a.page, a.shard) == (b.page, b.shard)).collect();
        let places = groups.iter().filter_map(|group| ordinals.get(group.first()?.row));
        let places = places.map(|&ordinal| self.locate(ordinal)).collect::<Result<Vec<_>>>()?;
        let shards = self.open_together::<T>(&places)?;
        let mut runs: Vec<Run> = Vec::new();
        for ((group, found), shard) in groups.into_iter().zip(places).zip(shards) {
            let reference = T::object(found.shard());
            let location: Arc<str> = inner.objects.locate(&reference.path).into();
            let round_trip = inner.objects.round_trip(&reference.path);
            let (gap, together) = match round_trip {
                0 => (0, TOGETHER),
                // One more request costs a round trip only where it waits for others: bytes between two records, which all requests
                // share a line with, cost more than that from this distance on.
                far => (far / SIDE_BY_SIDE, TOGETHER_AFAR),
            };
            let first = runs.len();
            for spot in group {
                let span =
                    shard.reader.span(spot.physical).map_err(|e| physical(e.into(), &shard, spot.physical).at(&location))?;
                match runs.get_mut(first..).and_then(<[_]>::last_mut) {
                    Some(run)
                        if (span.start >= run.span.end
                            && span.start - run.span.end <= gap
                            && span.end - run.span.start <= together)
                            || (span.start >= run.span.start && span.end == run.span.end) =>
                    {
                        run.span.end = span.end;
                        run.spots.push(*spot);
                    }
                    _ => {
                        let (shard, location, afar) = (Arc::clone(&shard), Arc::clone(&location), round_trip > 0);
                        runs.push(Run { shard, location, span, spots: vec![*spot], afar });
                    }
                }
            }
        }
        Ok(runs)
    }
}

/// Reads the records of a run: (row, record).
fn read_run<T: Stored>(
    run: &Run,
    fetched: Option<Bytes>,
    scratch: &mut Scratch,
    options: &Options,
    ordinals: &[u64],
) -> Result<Vec<(usize, T)>> {
    let mut got: Vec<(usize, T)> = Vec::with_capacity(run.spots.len());
    let mut before = None;
    let Scratch { decoder, bytes } = scratch;
    let located = |e: Error, spot: &Spot| {
        let ordinal = ordinals.get(spot.row).copied().unwrap_or_default();
        e.within(format!("ordinal {ordinal}")).at(&run.location)
    };
    let alone = run.spots.len() == 1 && fetched.is_none();
    if fetched.is_none() && !alone {
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
        let bytes = fetched.as_deref().unwrap_or(bytes);
        let mut record = payload::buffer();
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
