//! Shards of a program's own container: what it has written and reads by itself, in the place of ArrayRecord files.
//!
//! Documents are the same, so that everything but the inside of shards is; whoever has not got the container reads no records.

use super::dataset::Dataset;
use super::digest::Digest;
use super::documents::{Place, Reference};
use super::objects::{Objects, gone};
use super::read::Stored;
use super::shard_write::{Content, PublishedShard, Record, shard_paths, write_shard};
use super::spool::Spool;
use super::{Options, verify};
use crate::error::{Code, Error, Result};
use crate::store::{LocalStore, Store};
use crate::uri::RelPath;
use sigbank_format::container::arrayrecord::{Compression, Decoder, Reader};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Records that are compared at a time.
const COMPARED: u64 = 1024;

/// Many records in one object, by their number.
///
/// Objects are named as their store shows them: by path, or address.
///
/// ```
/// use sigbank::format::record::signal::{Axis, FieldMetadata, RecordMetadata};
/// use sigbank::layout::signal_dataset::{Container, Dataset, Options, Publication, Record, ShardContainer, publish, write_shard};
/// use sigbank::store::{LocalStore, Store};
/// use std::{path::Path, sync::Arc};
/// /// Records as arrays of JSON.
/// struct Json;
/// impl ShardContainer for Json {
///     fn write(&self, file: &Path, records: Box<dyn Iterator<Item = sigbank::Result<Vec<u8>>> + Send>) -> sigbank::Result<u64> {
///         let all = records.collect::<sigbank::Result<Vec<_>>>()?;
///         std::fs::write(file, serde_json::to_vec(&all).unwrap())?;
///         Ok(all.len() as u64)
///     }
///     fn read(&self, object: &str, index: u64) -> sigbank::Result<Vec<u8>> {
///         Ok(self.read_many(object, &[index])?.remove(0))
///     }
///     fn read_many(&self, object: &str, indices: &[u64]) -> sigbank::Result<Vec<Vec<u8>>> {
///         let all: Vec<Vec<u8>> = serde_json::from_slice(&std::fs::read(object)?).unwrap();
///         Ok(indices.iter().map(|&index| all[index as usize].clone()).collect())
///     }
///     fn count(&self, object: &str) -> sigbank::Result<u64> {
///         Ok(serde_json::from_slice::<Vec<Vec<u8>>>(&std::fs::read(object)?).unwrap().len() as u64)
///     }
/// }
/// # let dir = tempfile::tempdir()?;
/// let store: Arc<dyn Store> = Arc::new(LocalStore::create(dir.path())?);
/// let options = Options { container: Some(Container::new(Json)), ..Options::default() };
/// let field = FieldMetadata { axes: vec![Axis::new("t", 1)], ..FieldMetadata::new("x", "uint8".parse()?, vec![1]) };
/// let record = |i: u8| Ok(Record { metadata: RecordMetadata::new(format!("r{i}"), vec![field.clone()]), data: vec![vec![i].into()] });
/// let shard = write_shard(&*store, (0..3).map(record), "w", 0, &options)?;
/// assert_eq!(write_shard(&*store, (0..3).map(record), "w", 0, &options)?, shard);
/// let dataset = publish(&store, &[shard], &Publication::new("d", "v1"), &options)?;
/// assert_eq!(dataset.read(&[2, 0])?.iter().map(|r| r.field(0)[0]).collect::<Vec<_>>(), [2, 0]);
/// assert_eq!(dataset.verify(&mut |_, _| true)?.records, 3);
/// // Who has not got the container reads the documents, and no records.
/// let plain = Dataset::open_store(store, Options::default())?;
/// assert_eq!((plain.len(), plain.record(0).is_err()), (3, true));
/// # Ok::<(), sigbank::Error>(())
/// ```
pub trait ShardContainer: Send + Sync {
    /// Writes a new local file of records, and gives how many there were.
    ///
    /// # Errors
    /// The container's own, and those that `records` hands out.
    fn write(&self, file: &Path, records: Box<dyn Iterator<Item = Result<Vec<u8>>> + Send>) -> Result<u64>;
    /// One record of an object.
    ///
    /// # Errors
    /// The container's own.
    fn read(&self, object: &str, index: u64) -> Result<Vec<u8>>;
    /// Several records of an object, in the order of `indices`.
    ///
    /// # Errors
    /// The container's own.
    fn read_many(&self, object: &str, indices: &[u64]) -> Result<Vec<Vec<u8>>>;
    /// How many records an object holds.
    ///
    /// # Errors
    /// The container's own.
    fn count(&self, object: &str) -> Result<u64>;
}

/// What shards are written and read with where they are no ArrayRecord files, see [`Options::container`].
#[derive(Clone)]
pub struct Container(Arc<dyn ShardContainer>);

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Container")
    }
}

impl Container {
    /// This container.
    pub fn new(container: impl ShardContainer + 'static) -> Self {
        Self(Arc::new(container))
    }

    /// One record, as what it is.
    pub(super) fn one<T: Stored>(&self, objects: &Objects, of: &Reference, index: u64, options: &Options) -> Result<T> {
        objects.size_is_right(of)?;
        let read = self.0.read(&objects.locate(&of.path), index).and_then(|bytes| T::from_bytes(bytes, options));
        read.map_err(|e| e.at(objects.locate(&of.path)))
    }

    /// Whether an object holds so many records.
    pub(super) fn right_count(&self, location: &str, expected: u64) -> Result<()> {
        match self.0.count(location)? {
            found if found == expected => Ok(()),
            found => Err(Error::corrupt(format!("{expected} records are expected, but the shard holds {found}"))
                .at(location)
                .remedy("it was cut short or replaced by another: restore it from a copy")),
        }
    }

    /// See [`Dataset::many`].
    pub(super) fn many<T: Stored>(&self, dataset: &Dataset, ordinals: &[u64]) -> Result<Vec<T>> {
        let inner = dataset.inner();
        // By shard, in the order in which they come up.
        let mut shards: Vec<(Reference, Vec<(u64, usize)>)> = Vec::new();
        let mut numbers: HashMap<Place, usize> = HashMap::new();
        for (row, &ordinal) in ordinals.iter().enumerate() {
            let found = dataset.locate(ordinal)?;
            let reference = T::object(found.shard());
            let number = *numbers.entry(reference.path.clone()).or_insert(shards.len());
            if number == shards.len() {
                shards.push((reference.clone(), Vec::new()));
            }
            if let Some((_, spots)) = shards.get_mut(number) {
                spots.push((found.physical, row));
            }
        }
        let mut rows: Vec<Option<T>> = vec![None; ordinals.len()];
        for (reference, mut spots) in shards {
            inner.objects.size_is_right(&reference)?;
            spots.sort_unstable();
            let location = inner.objects.locate(&reference.path);
            let mut indices: Vec<u64> = spots.iter().map(|(physical, _)| *physical).collect();
            indices.dedup();
            let read = self.read_all(&location, &indices)?;
            for (physical, row) in spots {
                let Some(bytes) = indices.binary_search(&physical).ok().and_then(|at| read.get(at)) else { continue };
                let ordinal = ordinals.get(row).copied().unwrap_or_default();
                let value = T::from_bytes(bytes.clone(), &inner.options)
                    .map_err(|e| e.within(format!("ordinal {ordinal}")).at(&location))?;
                if let Some(place) = rows.get_mut(row) {
                    *place = Some(value);
                }
            }
        }
        rows.into_iter().map(|row| row.ok_or_else(super::read::gone)).collect()
    }

    fn read_all(&self, location: &str, indices: &[u64]) -> Result<Vec<Vec<u8>>> {
        let read = self.0.read_many(location, indices)?;
        if read.len() == indices.len() {
            return Ok(read);
        }
        Err(Error::corrupt(format!("{} records were asked for, and read_many gave {}", indices.len(), read.len()))
            .at(location)
            .remedy("read_many must give one record for each index, in their order"))
    }

    /// Writes the records of a work id and attempt, see [`write_shard`].
    pub(super) fn write_shard(
        &self,
        store: &dyn Store,
        records: impl IntoIterator<Item = Result<Record>>,
        work_id: &str,
        attempt: u64,
        options: &Options,
    ) -> Result<PublishedShard> {
        let paths = shard_paths(work_id, attempt)?;
        let folder = folder()?;
        let local = LocalStore::open(folder.path())?;
        let plain = Options { container: None, compression: Compression::None, durable: false, ..options.clone() };
        let spooled = write_shard(&local, records, work_id, attempt, &plain)?;
        let mut written = Vec::with_capacity(2);
        for (kind, path) in ["data", "metadata"].into_iter().zip(&paths) {
            let file = folder.path().join(format!("{kind}.arrayrecord"));
            written.push(self.rewrite(&local, path, &file).map_err(|e| e.at(store.locate(path)))?);
        }
        let mut references = Vec::with_capacity(2);
        for (path, written) in paths.into_iter().zip(written) {
            let located = |e: Error| e.at(store.locate(&path));
            let reused = |e: Error| located(e.within(format!("work id '{work_id}', attempt {attempt}")));
            let (named, put) = written.put(store, &path).map_err(located)?;
            let (stored_bytes, digest) = if named { put } else { self.existing(store, &path, put, &written).map_err(reused)? };
            let sha256 = (!options.compat).then_some(digest);
            references.push(Reference { path: Place::Inside(path), stored_bytes, sha256 });
        }
        match <[Reference; 2]>::try_from(references) {
            Ok([data, metadata]) => Ok(PublishedShard { data, metadata, ..spooled }),
            Err(_) => Err(Error::invalid("a shard has two objects")),
        }
    }

    /// Writes an object of the records of another, which is an ArrayRecord file. See [`Spool::commit`].
    pub(super) fn write_object(&self, spooled: &dyn Store, store: &dyn Store, path: &RelPath) -> Result<(bool, (u64, Digest))> {
        let folder = folder()?;
        let written = self.rewrite(spooled, path, &folder.path().join("shard.arrayrecord"))?;
        written.put(store, path)
    }

    /// Has the records of an ArrayRecord object written to a file.
    fn rewrite(&self, spooled: &dyn Store, path: &RelPath, file: &Path) -> Result<Written> {
        let reader = Reader::open(spooled.open_read(path)?)?;
        let (records, mut decoder, source) = (reader.len(), Decoder::default(), Reader::open(spooled.open_read(path)?)?);
        let all = (0..records).map(move |index| {
            let mut record = Vec::new();
            decoder.read(&reader, index, &mut record)?;
            Ok(record)
        });
        let count = self.0.write(file, Box::new(all))?;
        if count != records {
            return Err(Error::invalid(format!("{records} records were handed to the shard store, and its write says {count}"))
                .remedy("its write must write every record, and give their number"));
        }
        Ok(Written { file: file.to_owned(), source })
    }

    /// Length and digest of the object that has the name already, where it holds what was to be written.
    fn existing(&self, store: &dyn Store, path: &RelPath, put: (u64, Digest), written: &Written) -> Result<(u64, Digest)> {
        let location = store.locate(path);
        let size = store.head(path).map_err(gone)?.size;
        let (found, records) = (self.0.count(&location)?, written.source.len());
        let other = |what: String| {
            Error::already_exists(format!("the work id and attempt were used before for other records: {what}"))
                .remedy("give each worker a work id of its own, and each further try a higher attempt")
        };
        if found != records {
            return Err(other(format!("{found} were written then, {records} now")));
        }
        let digest = verify::digest(&*store.open_read(path).map_err(gone)?)?;
        if (size, digest) == put {
            return Ok(put);
        }
        let (mut here, mut there) = (Content::default(), Content::default());
        let (mut decoder, mut record) = (Decoder::default(), Vec::new());
        for first in (0..records).step_by(COMPARED as usize) {
            let indices: Vec<u64> = (first..records.min(first + COMPARED)).collect();
            for (&index, bytes) in indices.iter().zip(self.read_all(&location, &indices)?) {
                decoder.read(&written.source, index, &mut record)?;
                here.add(&Content::digest(&record));
                there.add(&Content::digest(&bytes));
            }
        }
        if here == there { Ok((size, digest)) } else { Err(other(format!("{records} records, but not the same"))) }
    }
}

/// A file that a container wrote, and the records that are in it.
struct Written {
    file: std::path::PathBuf,
    source: Reader,
}

impl Written {
    fn put(&self, store: &dyn Store, path: &RelPath) -> Result<(bool, (u64, Digest))> {
        let object = match store.write_new(path) {
            Err(e) if e.code() == Code::AlreadyExists => None,
            object => Some(object?),
        };
        let mut spool = Spool::new(object);
        let mut file = File::open(&self.file).map_err(|e| {
            Error::from(e)
                .at(self.file.display())
                .remedy("the shard store's write must leave a file at the path that it is given")
        })?;
        io::copy(&mut file, &mut spool)?;
        spool.commit()
    }
}

/// A folder that goes when it is dropped.
pub(super) fn folder() -> Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("sigbank-").tempdir().map_err(|e| Error::from(e).within("a folder for shards underway"))
}
