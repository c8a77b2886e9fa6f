//! A worker's part: records become a pair of shard objects.

mod encode;

use super::Options;
use super::digest::Digest;
use super::documents::{Place, Reference};
use super::objects::gone;
use super::spool::Spool;
use crate::error::{Code, Error, Result};
use crate::store::Store;
use crate::uri::RelPath;
use bytes::Bytes;
pub(super) use encode::Content;
use encode::Pipeline;
use sigbank_format::container::arrayrecord::{self, Decoder, Reader, Writer};
use sigbank_format::record::signal::RecordMetadata;

/// A record to write.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Everything but the samples.
    pub metadata: RecordMetadata,
    /// Each field's samples, in the order of `metadata.fields`: C order, little-endian.
    pub data: Vec<Bytes>,
}

impl Record {
    fn bytes(&self) -> usize {
        self.data.iter().map(Bytes::len).sum()
    }
}

/// What a worker wrote, for the coordinator: names its objects and says how many records they hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedShard {
    /// Which part of the work it is.
    pub work_id: String,
    /// Which try at it; the highest is published.
    pub attempt: u64,
    /// Records in it.
    pub record_count: u64,
    /// The records. Without a digest, [`super::publish`] takes it.
    pub data: Reference,
    /// What is said of them.
    pub metadata: Reference,
}

/// The objects of a work id and attempt, data and metadata, relative to the root.
pub(super) fn shard_paths(work_id: &str, attempt: u64) -> Result<[RelPath; 2]> {
    let hex = Digest::of(format!("{work_id}:{attempt}").as_bytes()).to_string();
    let prefix = hex.get(..2).unwrap_or_default();
    let path = |kind| RelPath::parse(&format!("objects/{kind}/{prefix}/{hex}.arrayrecord"));
    Ok([path("data")?, path("metadata")?])
}

/// Writes the records of a work id and attempt. Memory is bounded whatever their number; nothing is seen by readers before
/// [`super::publish`].
///
/// To do it again is safe: an object that is there and holds the same records is accepted as it is.
///
/// ```
/// use sigbank::Code;
/// use sigbank::format::record::signal::{Axis, FieldMetadata, RecordMetadata};
/// use sigbank::layout::signal_dataset::{Options, Record, write_shard};
/// use sigbank::store::MemoryStore;
/// let (store, options) = (MemoryStore::new(), Options::default());
/// let field = FieldMetadata { axes: vec![Axis::new("t", 1)], ..FieldMetadata::new("x", "uint8".parse()?, vec![1]) };
/// let record = |i: u8| Record { metadata: RecordMetadata::new("a", vec![field.clone()]), data: vec![vec![i].into()] };
/// let shard = write_shard(&store, [Ok(record(1))], "w", 0, &options)?;
/// assert!(shard.data.path.as_str().starts_with("objects/data/"));
/// assert_eq!(write_shard(&store, [Ok(record(1))], "w", 0, &options)?, shard);
/// assert_eq!(write_shard(&store, [Ok(record(2))], "w", 0, &options).unwrap_err().code(), Code::AlreadyExists);
/// # Ok::<(), sigbank::Error>(())
/// ```
///
/// # Errors
/// `Invalid` for an empty work id and records that break a rule, `Limit` for those over the policy, with the record's number and id;
/// `AlreadyExists` where the work id and attempt were used for other records; those that `records` hands out.
pub fn write_shard(
    store: &dyn Store,
    records: impl IntoIterator<Item = Result<Record>>,
    work_id: &str,
    attempt: u64,
    options: &Options,
) -> Result<PublishedShard> {
    if work_id.is_empty() {
        return Err(Error::invalid("the work id is empty: give each worker its own"));
    }
    if let Some(container) = &options.container {
        return container.write_shard(store, records, work_id, attempt, options);
    }
    let paths = shard_paths(work_id, attempt)?;
    let layout = arrayrecord::Options { compression: options.compression, ..Default::default() };
    let [data, metadata] = &paths;
    let new = |path: &RelPath| -> Result<Writer<Spool>> {
        let object = match store.write_new(path) {
            // What is there is compared at the end.
            Err(e) if e.code() == Code::AlreadyExists => None,
            object => Some(object?),
        };
        Writer::new(Spool::new(object), layout).map_err(|e| Error::from(e).at(store.locate(path)))
    };
    let mut pipeline = Pipeline::new(options, layout, [new(data)?, new(metadata)?]);
    pipeline.run(&mut records.into_iter()).map_err(|e| e.within(format!("work id '{work_id}'")))?;
    let (record_count, contents, writers) = pipeline.finish();
    let mut references = Vec::with_capacity(2);
    for ((path, content), writer) in paths.into_iter().zip(contents).zip(writers) {
        let located = |e: Error| e.at(store.locate(&path));
        let (spool, _) = writer.finish().map_err(|e| located(e.into()))?;
        let (named, written) = spool.commit().map_err(located)?;
        let (stored_bytes, digest) = match named {
            true => written,
            false => existing(store, &path, written, record_count, &content)
                .map_err(|e| located(e.within(format!("work id '{work_id}', attempt {attempt}"))))?,
        };
        let sha256 = (!options.compat).then_some(digest);
        references.push(Reference { path: Place::Inside(path), stored_bytes, sha256 });
    }
    match <[Reference; 2]>::try_from(references) {
        Ok([data, metadata]) => Ok(PublishedShard { work_id: work_id.into(), attempt, record_count, data, metadata }),
        Err(_) => Err(Error::invalid("a shard has two objects")),
    }
}

/// Length and digest of the object that has the name already, where it holds what was to be written.
fn existing(store: &dyn Store, path: &RelPath, written: (u64, Digest), records: u64, content: &Content) -> Result<(u64, Digest)> {
    let file = store.open_read(path).map_err(gone)?;
    let found = (file.size(), super::verify::digest(&*file)?);
    if found == written {
        return Ok(found);
    }
    // Other bytes may be the same records: compressed otherwise, by another version or program.
    let other = |what: String| {
        Error::already_exists(format!("the work id and attempt were used before for other records: {what}"))
            .remedy("give each worker a work id of its own, and each further try a higher attempt")
    };
    let reader = Reader::open(file).map_err(|e| Error::from(e).within("the object that is there already"))?;
    if reader.len() != records {
        return Err(other(format!("{} were written then, {records} now", reader.len())));
    }
    let (mut decoder, mut record, mut there) = (Decoder::default(), Vec::new(), Content::default());
    for i in 0..records {
        decoder.read(&reader, i, &mut record).map_err(|e| Error::from(e).within("the object that is there already"))?;
        there.add(&Content::digest(&record));
    }
    if there == *content { Ok(found) } else { Err(other(format!("{records} records, but not the same"))) }
}
