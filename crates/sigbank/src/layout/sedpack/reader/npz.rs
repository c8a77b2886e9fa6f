//! NumPy archives.

use super::{ALL, FETCHED, KeptOpen, Listed, Rows, Shared, Whole, miscounted, refused};
use crate::error::{Error, Result};
use crate::layout::RowSink;
use crate::layout::sedpack::structure::Structure;
use crate::store::{Store, StoreFile};
use crate::uri::RelPath;
use sigbank_format::compress::Compression;
use sigbank_format::container::Places;
use sigbank_format::container::npz::ShardReader;
use sigbank_format::model::{FieldType, Schema};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

/// Of a shard of at most so many bytes the checksums of stored members are compared also for a single example.
const SMALL: u64 = 1 << 20;
/// Most members of which is known that their checksums were compared: 16 bytes each, more or less.
const KNOWN: usize = 1 << 20;

/// Reads npz shards of one structure.
pub(super) struct Npz {
    schema: Schema,
    compression: Compression,
    /// Shards that were read from last: with their directory and headers known.
    open: KeptOpen<Open>,
    verified: Verified,
}

/// A shard that is open.
struct Open {
    bytes: u64,
    shard: Mutex<ShardReader>,
}

/// Of which shards' fields the checksums were compared, so that a shard that is opened again is not read again for them.
#[derive(Default)]
struct Verified {
    state: RandomState,
    members: Mutex<HashSet<(u64, usize)>>,
}

impl Verified {
    /// Compares what was not compared yet.
    fn verify(&self, path: &RelPath, shard: &mut ShardReader, fields: &[usize]) -> sigbank_format::Result<()> {
        let path = self.state.hash_one(path);
        let lock = || self.members.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock();
        let rest: Vec<usize> = fields.iter().copied().filter(|&field| !known.contains(&(path, field))).collect();
        drop(known);
        if rest.is_empty() {
            return Ok(());
        }
        shard.verify(&rest)?;
        let mut known = lock();
        if known.len() + rest.len() > KNOWN {
            known.clear();
        }
        known.extend(rest.into_iter().map(|field| (path, field)));
        Ok(())
    }
}

/// The sink's rows, which name the attribute that they refuse.
struct Named<'a, 'b> {
    rows: Rows<'a>,
    schema: &'b Schema,
    fields: &'b [usize],
}

impl Places for Named<'_, '_> {
    fn place(&mut self, row: usize, field: usize, len: usize) -> sigbank_format::Result<&mut [u8]> {
        self.rows.place(row, field, len)
    }
    fn place_as(&mut self, row: usize, field: usize, stored: &FieldType, len: usize) -> sigbank_format::Result<&mut [u8]> {
        let Rows { sink, refused: kept } = &mut self.rows;
        sink.place_as(row, field, stored, len).map_err(|e| {
            let declared = self.fields.get(field).and_then(|&at| self.schema.fields.get(at));
            refused(kept, e.within(format!("attribute '{}'", declared.map_or("", |f| &f.name))))
        })
    }
}

impl std::fmt::Debug for Npz {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Npz({})", self.compression.as_str())
    }
}

/// A file whose parts can be read at little cost: its directory lies at its end, and each member has a head.
fn near(store: &dyn Store, file: Arc<dyn StoreFile>) -> Result<Arc<dyn StoreFile>> {
    if store.capabilities().round_trip > 0 && file.size() <= FETCHED { Whole::fetch(file) } else { Ok(file) }
}

impl Npz {
    pub(super) fn new(structure: &Structure) -> Self {
        Self {
            schema: structure.schema.clone(),
            compression: structure.compression,
            open: KeptOpen::default(),
            verified: Verified::default(),
        }
    }

    pub(super) fn random_access(&self) -> bool {
        self.compression == Compression::None
    }

    /// How many of its first bytes to open it with; none where it is open.
    pub(super) fn first(&self, listed: &Listed<'_>) -> Option<u64> {
        (!self.random_access() || !self.open.knows(listed.path)).then_some(ALL)
    }

    pub(super) fn read(&self, mut listed: Listed<'_>, records: &[u32], fields: &[usize], out: &mut dyn RowSink) -> Result<()> {
        let (path, count) = (listed.path, listed.count);
        let open = |listed: &mut Listed<'_>| {
            let file = listed.open(ALL)?;
            self.shard(near(listed.store, file)?)
        };
        let shard = if self.random_access() { self.open.get(path, || open(&mut listed))? } else { Arc::new(open(&mut listed)?) };
        // What is read here is handed out when this returns, so the checksums may be compared after it: then only the rest is read.
        let verify = out.goes_through_units() || (self.random_access() && shard.bytes <= SMALL);
        let mut shard = shard.shard.lock().unwrap_or_else(PoisonError::into_inner);
        let found = shard.records()?;
        if found != count {
            return Err(miscounted(count, found));
        }
        let mut named = Named { rows: Rows::new(out), schema: &self.schema, fields };
        let done = shard.read(records, fields, &mut named);
        named.rows.outcome(done)?;
        if verify {
            self.verified.verify(path, &mut shard, fields)?;
        }
        Ok(())
    }

    fn shard(&self, file: Arc<dyn StoreFile>) -> Result<Open> {
        let bytes = file.size();
        Ok(Open { bytes, shard: Mutex::new(ShardReader::open(Arc::new(Shared(file)), &self.schema)?) })
    }

    /// Goes through everything as reading it does.
    pub(super) fn probe(&self, file: Arc<dyn StoreFile>, count: u64) -> Result<()> {
        let mut shard = ShardReader::open(Arc::new(Shared(file)), &self.schema)?;
        let found = shard.records()?;
        if found != count {
            return Err(miscounted(count, found));
        }
        shard.check()?;
        let differing = shard.differing()?;
        let Some((field, stored)) = differing.first() else { return Ok(()) };
        let declared = self.schema.fields.get(*field);
        let (name, declared) = declared.map_or_else(Default::default, |f| (f.name.as_str(), f.ty.to_string()));
        Err(Error::corrupt(format!("attribute '{name}': {declared} is declared, {stored} is stored")).remedy(
            "single examples can be read as they are stored; declare what is stored, or write the dataset again with values cast",
        ))
    }

    pub(super) fn count(&self, file: Arc<dyn StoreFile>) -> Result<u64> {
        Ok(ShardReader::open(Arc::new(Shared(file)), &self.schema)?.records()?)
    }
}
