//! Shard objects that are open, the ones used last.

use super::documents::{Place, Reference};
use super::objects::Objects;
use crate::error::{Error, Result};
use crate::store::StoreFile;
use sigbank_format::container::arrayrecord::{Decoder, Reader};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An open shard object.
pub(super) struct OpenShard {
    pub(super) reader: Reader,
    pub(super) file: Arc<dyn StoreFile>,
}

/// What one thread reads with.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) decoder: Decoder,
    pub(super) bytes: Vec<u8>,
}

/// Opens shard objects and keeps those that were used last, as many as were asked for: memory and open files do not grow with the
/// number of shards that are read.
pub(super) struct Shards {
    most: usize,
    open: Mutex<Open>,
    scratch: Mutex<Vec<Scratch>>,
}

#[derive(Default)]
struct Open {
    clock: u64,
    shards: HashMap<Place, (u64, Slot)>,
    process: u32,
}

/// A shard that is open, or is being opened by who holds the lock: others wait for that and do not open it again.
type Slot = Arc<Mutex<Option<Arc<OpenShard>>>>;

/// Bytes of a shard's end that are read to open it, at least and at most.
const TAIL: (u64, u64) = (128 << 10, 1 << 20);
/// About as many bytes as the index has of a record.
const INDEX_ENTRY: u64 = 16;
/// Scratches that are kept for the next reads.
const SCRATCHES: usize = 16;

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shards {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), open: Mutex::default(), scratch: Mutex::default() }
    }

    /// The shard object of a reference, which holds `records` records where that is known.
    pub(super) fn get(&self, objects: &Objects, reference: &Reference, records: Option<u64>) -> Result<Arc<OpenShard>> {
        let slot = self.slot(&reference.path);
        let mut opened = held(&slot);
        if let Some(shard) = &*opened {
            right_count(&shard.reader, records).map_err(|e| e.at(objects.locate(&reference.path)))?;
            return Ok(Arc::clone(shard));
        }
        let shard = Arc::new(open_shard(objects, reference, records)?);
        *opened = Some(Arc::clone(&shard));
        Ok(shard)
    }

    fn slot(&self, place: &Place) -> Slot {
        let mut open = held(&self.open);
        open.clock += 1;
        let now = open.clock;
        let process = std::process::id();
        if std::mem::replace(&mut open.process, process) != process {
            // In a forked child: what a thread of the parent was opening then is never opened.
            open.shards.retain(|_, (_, slot)| slot.try_lock().is_ok());
        }
        if let Some((used, slot)) = open.shards.get_mut(place) {
            *used = now;
            return Arc::clone(slot);
        }
        while open.shards.len() >= self.most {
            let oldest = open.shards.iter().min_by_key(|(_, (used, _))| *used).map(|(place, _)| place.clone());
            let Some(oldest) = oldest else { break };
            open.shards.remove(&oldest);
        }
        let slot = Slot::default();
        open.shards.insert(place.clone(), (now, Arc::clone(&slot)));
        slot
    }

    /// Runs `read` with a scratch of its own.
    pub(super) fn with_scratch<T>(&self, read: impl FnOnce(&mut Scratch) -> T) -> T {
        let mut scratch = held(&self.scratch).pop().unwrap_or_default();
        let done = read(&mut scratch);
        let mut kept = held(&self.scratch);
        if kept.len() < SCRATCHES {
            kept.push(scratch);
        }
        done
    }
}

/// Opens a shard object that is not kept.
pub(super) fn open_shard(objects: &Objects, reference: &Reference, records: Option<u64>) -> Result<OpenShard> {
    let file = objects.open(reference)?;
    let located = |e: Error| e.at(objects.locate(&reference.path));
    let source = Arc::clone(&file) as Arc<dyn sigbank_format::read_at::ReadAt>;
    // Where a request costs time, the index comes with the end of the object if it is not longer than what a request costs.
    let index = records.map_or(TAIL.1, |records| records.saturating_mul(INDEX_ENTRY).saturating_add(TAIL.0));
    let tail = objects.round_trip(&reference.path).min(index).clamp(TAIL.0, TAIL.1);
    let reader = Reader::open_tail(source, tail).map_err(|e| located(e.into()))?;
    right_count(&reader, records).map_err(located)?;
    Ok(OpenShard { reader, file })
}

fn right_count(reader: &Reader, records: Option<u64>) -> Result<()> {
    match records {
        Some(expected) if reader.len() != expected => {
            Err(Error::corrupt(format!("{expected} records are expected, but the shard holds {}", reader.len()))
                .remedy("it was cut short or replaced by another: restore it from a copy"))
        }
        _ => Ok(()),
    }
}
