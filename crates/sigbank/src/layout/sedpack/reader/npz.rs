//! NumPy archives.

use super::{KeptOpen, Rows, Shared, miscounted, open};
use crate::error::{Error, Result};
use crate::layout::RowSink;
use crate::layout::sedpack::structure::Structure;
use crate::store::{Store, StoreFile};
use crate::uri::RelPath;
use sigbank_format::compress::Compression;
use sigbank_format::container::npz::ShardReader;
use sigbank_format::model::Schema;
use std::sync::{Arc, Mutex, PoisonError};

/// Reads npz shards of one structure.
pub(super) struct Npz {
    schema: Schema,
    compression: Compression,
    /// Shards that were read from last: with their directory and headers known.
    open: KeptOpen<Mutex<ShardReader>>,
}

impl std::fmt::Debug for Npz {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Npz({})", self.compression.as_str())
    }
}

impl Npz {
    pub(super) fn new(structure: &Structure) -> Self {
        Self { schema: structure.schema.clone(), compression: structure.compression, open: KeptOpen::default() }
    }

    pub(super) fn random_access(&self) -> bool {
        self.compression == Compression::None
    }

    pub(super) fn read(
        &self,
        store: &dyn Store,
        path: &RelPath,
        count: u64,
        records: &[u32],
        fields: &[usize],
        out: &mut dyn RowSink,
    ) -> Result<()> {
        let shard = if self.random_access() {
            self.open.get(path, || self.shard(open(store, path)?))?
        } else {
            Arc::new(self.shard(open(store, path)?)?)
        };
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let found = shard.records()?;
        if found != count {
            return Err(miscounted(count, found));
        }
        let mut rows = Rows::new(out);
        let done = shard.read(records, fields, &mut rows);
        rows.outcome(done)
    }

    fn shard(&self, file: Arc<dyn StoreFile>) -> Result<Mutex<ShardReader>> {
        Ok(Mutex::new(ShardReader::open(Arc::new(Shared(file)), &self.schema)?))
    }

    pub(super) fn probe(&self, file: Arc<dyn StoreFile>, count: u64) -> Result<()> {
        let mut shard = ShardReader::open(Arc::new(Shared(file)), &self.schema)?;
        let found = shard.records()?;
        if found != count {
            return Err(miscounted(count, found));
        }
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
