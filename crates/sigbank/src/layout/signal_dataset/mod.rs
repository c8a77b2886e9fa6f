//! The signal-dataset layout 0.1: immutable snapshots of records with named axes, written by many workers, published root last.
//! Byte-compatible with the reference package `signal-dataset` 0.4.0.
//!
//! | what | how |
//! |---|---|
//! | a worker's records | [`write_shard`] → [`PublishedShard`], which goes to the coordinator |
//! | make them a dataset | [`publish`] → [`Dataset`] |
//! | read | [`Dataset::open`], [`Dataset::record`], [`Dataset::read`], [`Dataset::batches`] |
//! | without samples | [`Dataset::record_metadata`], [`Dataset::read_metadata`], [`Dataset::metadata_batches`] |
//! | a selection | [`Dataset::select`] → [`View`], [`View::publish`] (references), [`View::materialize`] (a copy) |
//! | annotations | [`publish_annotations`], or [`write_annotation_shard`] by workers and [`publish_annotation_shards`]; [`Dataset::annotations`] |
//! | further versions | [`publish_version`], [`Dataset::versions`], [`Dataset::version`], [`versions::compare`] |
//! | leftovers of killed writers | [`gc()`] → [`Garbage`], [`Garbage::delete`] |
//! | lost commits | [`uncommitted()`] → [`Uncommitted`], [`restore`] |
//! | integrity | [`Dataset::verify`], [`Dataset::root_digest`] |
//! | layout-neutral | [`Dataset::source`] → [`SignalSource`], a [`crate::layout::Source`] |
//!
//! A record to write is a [`Record`] (metadata and the samples' bytes), one that was read a [`StoredRecord`] (the payload and where
//! in it each field's samples lie: no copy). What is said of a record is the codec's [`RecordMetadata`].
//!
//! **Errors.** `AlreadyExists` is a collision: what stands under a name differs from what was to be put there (the reference's
//! `PublicationCollisionError`; from [`write_shard`] it means too that a work id and attempt were used for other records). `Corrupt` (and
//! `NotFound` for an object that a document names) is its `CorruptDatasetError`; `NotFound` from [`Dataset::open`] where there is no
//! `root.json` its `FileNotFoundError`. Limits of [`ResourcePolicy`] are `Limit`, values that break a rule `Invalid`.
//!
//! ```
//! use bytes::Bytes;
//! use sigbank::format::record::signal::{Axis, FieldMetadata, RecordMetadata};
//! use sigbank::layout::signal_dataset::{Dataset, Options, Publication, Record, publish, write_shard};
//! use sigbank::store::{MemoryStore, Store};
//! use std::sync::Arc;
//!
//! let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
//! let options = Options::default();
//! let record = |i: u8| {
//!     let field = FieldMetadata { axes: vec![Axis::new("time", 3)], ..FieldMetadata::new("x", "uint8".parse()?, vec![3]) };
//!     Ok(Record { metadata: RecordMetadata::new(format!("r{i}"), vec![field]), data: vec![Bytes::from(vec![i; 3])] })
//! };
//! let b = write_shard(&*store, (3..5).map(record), "worker-b", 0, &options)?;
//! let a = write_shard(&*store, (0..3).map(record), "worker-a", 1, &options)?;
//! let dataset = publish(&store, &[b, a], &Publication::new("demo", "v1"), &options)?;
//!
//! let dataset = Dataset::open_store(store, options)?;
//! assert_eq!((dataset.len(), dataset.dataset_id(), dataset.snapshot_id()), (5, "demo", "v1"));
//! let last = dataset.record(4)?;
//! assert_eq!((last.metadata().id.as_str(), &last.field(0)[..]), ("r4", &[4, 4, 4][..]));
//! assert_eq!(dataset.record_metadata(2)?.id, "r2");
//! let ids: Vec<String> = dataset.read(&[3, 0])?.iter().map(|r| r.metadata().id.clone()).collect();
//! assert_eq!(ids, ["r3", "r0"]);
//! assert_eq!(dataset.verify(&mut |_, _| true)?.records, 5);
//! # Ok::<(), sigbank::Error>(())
//! ```

mod annotations;
mod batches;
mod container;
mod contents;
mod dataset;
mod digest;
mod documents;
mod gc;
mod guard;
mod ids;
mod mounts;
mod objects;
mod payload;
mod publish;
mod read;
mod schema;
mod shard_write;
mod shards;
mod source;
mod spool;
mod transfer;
mod uncommitted;
mod verify;
pub mod versions;
mod view;

pub use annotations::{
    AnnotationCatalog, AnnotationOptions, AnnotationRow, AnnotationSet, AnnotationShard, AnnotationStatus,
    publish_annotation_shards, publish_annotations, write_annotation_shard,
};
pub use batches::Batches;
pub use container::{Container, ShardContainer};
pub(in crate::layout) use contents::contents;
pub use contents::{hold_catalog, missing_entrances};
pub use dataset::{Dataset, ReadInstruction};
pub use digest::Digest;
pub use documents::{
    LAYOUT_VERSION, MIN_READER_VERSION, NEWEST_READER_VERSION, Page, PageRef, Place, ROOT, Reference, Root, Shard, Snapshot,
};
pub(in crate::layout) use gc::is_made_name;
pub use gc::{Deleted, Garbage, GcOptions, Kept, Orphan, OrphanKind, gc};
pub use guard::CopyGuard;
pub(crate) use guard::is_note;
pub use mounts::{is_mounted, local_store};
pub use objects::Elsewhere;
pub(crate) use objects::jitter;
pub use publish::{Publication, publish};
pub use read::{Stored, StoredRecord};
pub use shard_write::{PublishedShard, Record, write_shard};
pub use source::SignalSource;
pub(crate) use view::taken_again;
pub use view::{View, publish_views};

pub use sigbank_format::record::signal::{RecordMetadata, ResourcePolicy};
pub use transfer::copy_shard;
pub use uncommitted::{Commit, Uncommitted, restore, uncommitted};
pub use versions::{Version, VersionPublication, VersionRef, Which, publish_version};

use sigbank_format::container::arrayrecord::Compression;
use sigbank_format::model::json::Limits;

/// How datasets are written and read.
///
/// ```
/// use sigbank::layout::signal_dataset::Options;
/// let options = Options { threads: 2, compat: true, ..Options::default() };
/// assert_eq!(options.shards_per_manifest, 10_000);
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads that encode and compress, or read and decompress; 0 (the default) for one a processor, at most 16.
    pub threads: usize,
    /// Whether references are written exactly as the reference package writes them, without `sha256`, so that either implementation can
    /// finish the other's publication. Then a same-size replacement of an object cannot be found.
    pub compat: bool,
    /// Whether everything is flushed before the root is created, and the root after it (the default).
    pub durable: bool,
    /// How large records may be.
    pub resources: ResourcePolicy,
    /// How large documents may be.
    pub control: Limits,
    /// How shards are compressed.
    pub compression: Compression,
    /// Most records of a shard that is written.
    pub max_records_per_shard: Option<u64>,
    /// Most bytes of the records (before compression) of a shard that is written.
    pub max_encoded_shard_bytes: Option<u64>,
    /// Shards of a manifest page that is written.
    pub shards_per_manifest: usize,
    /// Whether [`publish`] opens each shard and compares its number of records.
    pub verify_record_counts: bool,
    /// Manifest pages that are kept in memory.
    pub manifest_cache_pages: usize,
    /// Shard objects that are kept open.
    pub max_open_shards: usize,
    /// Bytes of decoded records that iteration reads ahead.
    pub read_ahead_bytes: usize,
    /// How the stores of other addresses are reached, at which the shards of a published view may be.
    pub elsewhere: Elsewhere,
    /// What shards are written and read with where they are no ArrayRecord files: only programs that have it too read those.
    pub container: Option<Container>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 0,
            compat: false,
            durable: true,
            resources: ResourcePolicy::default(),
            control: Limits::default(),
            compression: Compression::default(),
            max_records_per_shard: None,
            max_encoded_shard_bytes: None,
            shards_per_manifest: 10_000,
            verify_record_counts: false,
            manifest_cache_pages: 16,
            max_open_shards: 64,
            read_ahead_bytes: 24 << 20,
            elsewhere: Elsewhere::default(),
            container: None,
        }
    }
}

impl Options {
    /// The number of threads that is meant.
    fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from).min(16),
            n => n,
        }
    }
}
