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
    shards: HashMap<Place, (u64, Arc<OpenShard>)>,
}

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
        {
            let mut open = held(&self.open);
            open.clock += 1;
            let now = open.clock;
            if let Some((used, shard)) = open.shards.get_mut(&reference.path) {
                *used = now;
                let shard = Arc::clone(shard);
                drop(open);
                right_count(&shard.reader, records).map_err(|e| e.at(objects.locate(&reference.path)))?;
                return Ok(shard);
            }
        }
        // Opened without the lock: others read meanwhile.
        let shard = Arc::new(open_shard(objects, reference, records)?);
        let mut open = held(&self.open);
        open.clock += 1;
        let now = open.clock;
        while open.shards.len() >= self.most {
            let oldest = open.shards.iter().min_by_key(|(_, (used, _))| *used).map(|(place, _)| place.clone());
            let Some(oldest) = oldest else { break };
            open.shards.remove(&oldest);
        }
        open.shards.insert(reference.path.clone(), (now, Arc::clone(&shard)));
        Ok(shard)
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
    let reader = Reader::open(Arc::clone(&file) as Arc<dyn sigbank_format::read_at::ReadAt>).map_err(|e| located(e.into()))?;
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
