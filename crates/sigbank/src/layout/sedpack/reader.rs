//! Reading the records of one shard, whatever its container.

mod fb;
mod npz;
mod tfrec;

use super::structure::{ShardFileType, Structure};
use crate::error::{Code, Error, Result};
use crate::layout::RowSink;
use crate::store::{Opening, Store, StoreFile};
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::FormatError;
use sigbank_format::compress::Compression;
use sigbank_format::container::Places;
use sigbank_format::model::{FieldType, Schema};
use sigbank_format::read_at::ReadAt;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a compressed shard that are read at a time.
const CHUNK: usize = 256 << 10;
/// A shard up to this size is fetched whole where a request costs time and its parts lie in several places: then it is one request.
const FETCHED: u64 = 256 << 20;
/// Shards that are kept open where a few of their records cost about what they weigh.
const KEPT_OPEN: usize = 8;

/// Reads shards of one structure.
#[derive(Debug)]
pub(super) struct Reader {
    schema: Schema,
    compressed: bool,
    shards: Shards,
}

#[derive(Debug)]
enum Shards {
    Fb(fb::Fb),
    Npz(npz::Npz),
    TfRec(tfrec::TfRec),
}

impl Reader {
    pub(super) fn new(structure: &Structure) -> Result<Self> {
        let shards = match structure.file_type {
            ShardFileType::Fb => Shards::Fb(fb::Fb::new(structure)?),
            ShardFileType::Npz => Shards::Npz(npz::Npz::new(structure)),
            ShardFileType::TfRec => Shards::TfRec(tfrec::TfRec::new(structure)?),
        };
        Ok(Self { schema: structure.schema.clone(), compressed: structure.compression != Compression::None, shards })
    }

    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Whether a few records of a shard cost about what they weigh.
    pub(super) fn random_access(&self) -> bool {
        match &self.shards {
            Shards::Fb(fb) => fb.random_access(),
            Shards::Npz(npz) => npz.random_access(),
            Shards::TfRec(_) => false,
        }
    }

    /// Begins to fetch what [`Reader::read`] will need, where that costs a request.
    pub(super) fn begin(&self, shard: &Listed<'_>, records: &[u32], fields: &[usize]) -> Option<Box<dyn Opening>> {
        if shard.store.capabilities().round_trip == 0 {
            return None;
        }
        let first = match &self.shards {
            Shards::Fb(fb) => fb.first(shard, records, fields),
            Shards::Npz(npz) => npz.first(shard),
            Shards::TfRec(_) => Some(ALL),
        };
        shard.store.open_ahead(shard.path, first?)
    }

    /// Reads `records` (ascending places in the shard) of `fields` into the places that `out` hands out.
    pub(super) fn read(&self, shard: Listed<'_>, records: &[u32], fields: &[usize], out: &mut dyn RowSink) -> Result<()> {
        let (store, path, count) = (shard.store, shard.path, shard.count);
        let done = match &self.shards {
            Shards::Fb(fb) => fb.read(shard, records, fields, out),
            Shards::Npz(npz) => npz.read(shard, records, fields, out),
            Shards::TfRec(tfrec) => tfrec.read(shard, records, fields, out),
        };
        done.map_err(|e| {
            let e = e.at(store.locate(path));
            if e.code() != Code::Corrupt || !self.compressed || e.remedy_text().is_some() {
                return e;
            }
            e.remedy(format!(
                "the shard is compressed, so that this affects all its {count} examples; see what is damaged with sigbank check, and put back what is from a copy"
            ))
        })
    }

    /// Compares the number of records in a shard with `count`, and its values with what is declared, as far as that can be seen
    /// without decoding all of it.
    pub(super) fn probe(&self, file: Arc<dyn StoreFile>, count: u64) -> Result<()> {
        match &self.shards {
            Shards::Fb(fb) => fb.probe(file, count),
            Shards::Npz(npz) => npz.probe(file, count),
            Shards::TfRec(tfrec) => tfrec.probe(file, count),
        }
    }

    /// How many records a shard holds, for one that no list tells of.
    pub(super) fn count(&self, file: Arc<dyn StoreFile>) -> Result<u64> {
        match &self.shards {
            Shards::Fb(fb) => fb.count(file),
            Shards::Npz(npz) => npz.count(file),
            Shards::TfRec(tfrec) => tfrec.count(file),
        }
    }
}

/// A shard that was fetched whole.
#[derive(Debug)]
pub(super) struct Whole {
    bytes: Bytes,
    location: String,
}

impl Whole {
    pub(super) fn of(bytes: Bytes, location: String) -> Arc<dyn StoreFile> {
        Arc::new(Self { bytes, location })
    }

    /// All of a file, as it arrives.
    pub(super) fn fetch(file: Arc<dyn StoreFile>) -> Result<Arc<dyn StoreFile>> {
        let (size, location) = (file.size(), file.location().to_owned());
        let mut bytes = crate::store::zeroed(size)?;
        file.stream().read_exact(&mut bytes).map_err(|e| Error::from(e).at(&location))?;
        Ok(Self::of(bytes.into(), location))
    }
}

impl ReadAt for Whole {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> sigbank_format::Result<()> {
        self.bytes.read_at(offset, buf)
    }
}

impl StoreFile for Whole {
    fn location(&self) -> &str {
        &self.location
    }
    fn stream(self: Arc<Self>) -> Box<dyn std::io::Read + Send> {
        Box::new(crate::store::Sequential::new(self))
    }
}

/// A shard that a list names.
#[derive(Debug)]
pub(super) struct Listed<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) path: &'a RelPath,
    /// How many records the list says it has.
    pub(super) count: u64,
    /// What [`Reader::begin`] gave.
    pub(super) begun: Option<Box<dyn Opening>>,
}

/// More bytes from the beginning of an object than a store gives with one request.
pub(super) const ALL: u64 = u64::MAX;

impl Listed<'_> {
    fn is_far(&self) -> bool {
        self.store.capabilities().round_trip > 0
    }

    /// Opens it, with its first bytes where that costs a request anyway.
    fn open(&mut self, first: u64) -> Result<Arc<dyn StoreFile>> {
        let opened = open(self.store, self.path, first, self.begun.take());
        opened.map_err(|e| match e.remedy_text() {
            None => e.remedy("the shard is listed but cannot be opened; run a check, and restore it from a copy"),
            Some(_) => e,
        })
    }
}

/// Opens a file with its first bytes where that costs a request anyway.
pub(super) fn open(store: &dyn Store, path: &RelPath, first: u64, begun: Option<Box<dyn Opening>>) -> Result<Arc<dyn StoreFile>> {
    match begun.or_else(|| store.open_ahead(path, first)) {
        Some(begun) => begun.open(),
        None => store.open_read(path),
    }
}

/// A shard with another number of records than its list says.
fn miscounted(listed: u64, found: u64) -> Error {
    Error::corrupt(format!("the list says {listed} examples, the shard holds {found}"))
}

/// A store's file as the codecs see it.
#[derive(Debug, Clone)]
struct Shared(Arc<dyn StoreFile>);

impl ReadAt for Shared {
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> sigbank_format::Result<()> {
        self.0.read_at(offset, buf)
    }
}

/// The shards that were read from last, the newest at the end. Shards never change, so they may be kept open.
#[derive(Debug)]
struct KeptOpen<T>(Mutex<Vec<(RelPath, Arc<T>)>>);

impl<T> Default for KeptOpen<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> KeptOpen<T> {
    fn knows(&self, path: &RelPath) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|(p, _)| p == path)
    }
    fn get(&self, path: &RelPath, open: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut known = lock();
            if let Some(at) = known.iter().rposition(|(p, _)| p == path) {
                let entry = known.remove(at);
                let shard = entry.1.clone();
                known.push(entry);
                return Ok(shard);
            }
        }
        let shard = Arc::new(open()?);
        let mut known = lock();
        if known.len() >= KEPT_OPEN {
            known.remove(0);
        }
        known.push((path.clone(), shard.clone()));
        Ok(shard)
    }
}

/// A [`RowSink`] as the containers see it. What it refuses is kept, with its code.
struct Rows<'a> {
    sink: &'a mut dyn RowSink,
    refused: Option<Error>,
}

impl<'a> Rows<'a> {
    fn new(sink: &'a mut dyn RowSink) -> Self {
        Self { sink, refused: None }
    }

    /// The outcome, with what the sink refused in its own words.
    fn outcome<T>(self, outcome: sigbank_format::Result<T>) -> Result<T> {
        match (outcome, self.refused) {
            (Ok(value), _) => Ok(value),
            (Err(_), Some(refused)) => Err(refused),
            (Err(e), None) => Err(e.into()),
        }
    }
}

fn refused(refused: &mut Option<Error>, e: Error) -> FormatError {
    let told = FormatError::invalid(e.to_string());
    *refused = Some(e);
    told
}

impl Places for Rows<'_> {
    fn place(&mut self, row: usize, field: usize, len: usize) -> sigbank_format::Result<&mut [u8]> {
        self.sink.place(row, field, len).map_err(|e| refused(&mut self.refused, e))
    }
    fn place_as(&mut self, row: usize, field: usize, stored: &FieldType, len: usize) -> sigbank_format::Result<&mut [u8]> {
        self.sink.place_as(row, field, stored, len).map_err(|e| refused(&mut self.refused, e))
    }
}
