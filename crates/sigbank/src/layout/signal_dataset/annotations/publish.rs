//! Writing sets: objects, then the set's root, then (by compare and swap) the catalog that names it.

use super::super::dataset::Dataset;
use super::super::digest::Digest;
use super::super::documents::Reference;
use super::super::guard::{Guard, renew};
use super::super::objects::{Objects, collision, create, document, gone, jitter};
use super::super::spool::Spool;
use super::super::verify;
use super::super::{Options, container};
use super::adopt::adopt;
use super::documents::{Pointer, SetRef, SetRoot, SetShard};
use super::{AnnotationRow, AnnotationSet, AnnotationShard, catalog, catalog_path, home, identifier, inside, same_record};
use crate::error::{Code, Error, Result};
use crate::store::{Expected, LocalStore, Store};
use crate::uri::RelPath;
use sigbank_format::container::arrayrecord::{self, Writer};
use sigbank_format::model::json::Json;
use sigbank_format::record::signal::encode_into;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// How a set is published.
///
/// ```
/// use sigbank::layout::signal_dataset::AnnotationOptions;
/// assert_eq!(AnnotationOptions { publication_id: Some("run-3".into()), ..Default::default() }.records_per_shard, 10_000);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AnnotationOptions {
    /// Rows of an object.
    pub records_per_shard: u64,
    /// How often the catalog is read anew when others changed it meanwhile.
    pub catalog_retry_limit: u32,
    /// Names this publication, so that doing it again completes it. By default it follows from the snapshot's id and the set's name, as the
    /// reference package's does.
    pub publication_id: Option<String>,
    /// Whatever the producer says of the set: an object.
    pub metadata: Json,
}

impl Default for AnnotationOptions {
    fn default() -> Self {
        Self { records_per_shard: 10_000, catalog_retry_limit: 64, publication_id: None, metadata: Json::EMPTY }
    }
}

/// Publishes a set of annotations: one row for each record of the dataset, in order.
///
/// ```
/// use sigbank::format::record::signal::{Axis, FieldMetadata, RecordMetadata};
/// use sigbank::layout::signal_dataset::*;
/// use sigbank::store::{MemoryStore, Store};
/// use std::sync::Arc;
/// let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
/// let options = Options::default();
/// let field = FieldMetadata { axes: vec![Axis::new("t", 1)], ..FieldMetadata::new("x", "uint8".parse()?, vec![1]) };
/// let record = Record { metadata: RecordMetadata::new("a", vec![field]), data: vec![vec![7].into()] };
/// let shard = write_shard(&*store, [Ok(record)], "w", 0, &options)?;
/// let dataset = publish(&store, &[shard], &Publication::new("d", "s"), &options)?;
/// let row = AnnotationRow::new("a", 0, AnnotationStatus::Success);
/// publish_annotations(&dataset, "labels", [Ok(row.clone())], &AnnotationOptions::default())?;
/// assert_eq!(dataset.annotations()?.open("labels")?.row(0)?, row);
/// # Ok::<(), sigbank::Error>(())
/// ```
///
/// # Errors
/// `Invalid` for names that are no identifiers, rows that are not in order, of other records, or not as many as records;
/// `AlreadyExists` where the name has another set; `Conflict` where others change the catalog faster than it can be read; `Unsupported`
/// where the store has no [compare-and-swap](crate::store::Capabilities::compare_and_swap): then nothing is written.
pub fn publish_annotations(
    dataset: &Dataset,
    name: &str,
    rows: impl IntoIterator<Item = Result<AnnotationRow>>,
    options: &AnnotationOptions,
) -> Result<AnnotationSet> {
    let publication_id = options.publication_id.clone().unwrap_or_else(|| default_publication_id(dataset.snapshot_id(), name));
    check(dataset, name, &publication_id, &options.metadata)?;
    if options.records_per_shard == 0 {
        return Err(Error::invalid("objects of 0 annotations: choose 1 or more"));
    }
    let guard = Guard::new(&**dataset.store())?;
    free(dataset, name, &root_path(dataset, name, &publication_id)?)?;
    let mut rows = Aligned::new(dataset, rows.into_iter(), 0, dataset.len());
    let mut shards = Vec::new();
    let mut first_ordinal = 0;
    while first_ordinal < dataset.len() {
        let hex = Digest::of(format!("{name}:{publication_id}:{}", shards.len()).as_bytes()).to_string();
        let path = object_path(dataset, name, &publication_id, &hex)?;
        let most = options.records_per_shard.min(dataset.len() - first_ordinal);
        let object = write_rows(dataset, path, &mut rows, most, &mut |_| ()).map_err(|e| match catalog(dataset) {
            Ok((_, _, revision)) if e.code() == Code::AlreadyExists && revision.sets.contains_key(name) => has_set(dataset, name),
            _ => e,
        })?;
        shards.push(SetShard { first_ordinal, record_count: most, object });
        first_ordinal += most;
    }
    if rows.rows.next().is_some() {
        return Err(Error::invalid(format!("more annotations than the {} records of the dataset", dataset.len())));
    }
    finish(dataset, name, publication_id, shards, &options.metadata, options.catalog_retry_limit, guard)
}

/// Writes a worker's part of a set: the rows of consecutive records from `first_ordinal` on. A part that was written before is
/// found by its logical id and handed out as it is, so that a worker may resume.
///
/// # Errors
/// As [`publish_annotations`]; `AlreadyExists` where the logical id was used for other records.
pub fn write_annotation_shard(
    dataset: &Dataset,
    name: &str,
    publication_id: &str,
    first_ordinal: u64,
    rows: Vec<AnnotationRow>,
    logical_shard_id: &str,
) -> Result<AnnotationShard> {
    check(dataset, name, publication_id, &Json::EMPTY)?;
    identifier("logical shard id", logical_shard_id)?;
    if rows.is_empty() {
        return Err(Error::invalid("an annotation shard of no rows: give it one or more"));
    }
    let store = dataset.store();
    let hex = Digest::of(logical_shard_id.as_bytes()).to_string();
    let prefix = hex.get(..2).unwrap_or_default();
    let pointer = RelPath::parse(&format!("{}/shards/{prefix}/{hex}.json", set_folder(dataset, name, publication_id)))?;
    let record_ids: Vec<String> = rows.iter().map(|row| row.source_record_id.clone()).collect();
    let count = rows.len() as u64;
    let resumed = |found: AnnotationShard| {
        if found.first_ordinal == first_ordinal && found.record_ids == record_ids {
            return Ok(found);
        }
        Err(collision(format!("the logical shard id '{logical_shard_id}' was used before for other records"))
            .at(store.locate(&pointer))
            .remedy("give each part of the work a logical shard id of its own"))
    };
    if let Some(found) = written_before(dataset, &pointer)? {
        return resumed(found);
    }
    let mut statuses = (Vec::new(), Vec::new());
    let mut note = |row: &AnnotationRow| {
        statuses.0.push(row.status.as_str().to_owned());
        statuses.1.push(row.terminal_status().to_owned());
    };
    // A name that nobody else has: what is left of a killed worker is never named.
    let path = object_path(dataset, name, publication_id, &uuid::Uuid::new_v4().simple().to_string())?;
    let uri = store.locate(&path);
    let mut rows = Aligned::new(dataset, rows.into_iter().map(Ok), first_ordinal, first_ordinal.saturating_add(count));
    let object = write_rows(dataset, path.clone(), &mut rows, count, &mut note)?;
    let shard = AnnotationShard {
        name: name.into(),
        publication_id: publication_id.into(),
        source_snapshot_id: dataset.snapshot_id().into(),
        logical_shard_id: logical_shard_id.into(),
        first_ordinal,
        record_ids: record_ids.clone(),
        uri,
        stored_bytes: object.stored_bytes,
        statuses: statuses.0,
        terminal_statuses: statuses.1,
    };
    flush(dataset, &[path])?;
    match store.create(&pointer, &[&shard.to_bytes()]) {
        Ok(()) => Ok(shard),
        Err(e) if e.code() == Code::AlreadyExists => match written_before(dataset, &pointer)? {
            Some(found) => resumed(found),
            None => Err(e),
        },
        Err(e) => Err(e),
    }
}

/// Publishes a set from the parts that workers wrote.
///
/// # Errors
/// `Invalid` for parts of another set or snapshot, that do not cover all records, or whose objects are not as long as they say; else as
/// [`publish_annotations`].
pub fn publish_annotation_shards(
    dataset: &Dataset,
    name: &str,
    publication_id: &str,
    published: &[AnnotationShard],
    options: &AnnotationOptions,
) -> Result<AnnotationSet> {
    check(dataset, name, publication_id, &options.metadata)?;
    let guard = Guard::new(&**dataset.store())?;
    free(dataset, name, &root_path(dataset, name, publication_id)?)?;
    let mut parts: Vec<&AnnotationShard> = published.iter().collect();
    parts.sort_by_key(|part| (part.first_ordinal, part.record_ids.len()));
    let inner = dataset.inner();
    let (mut shards, mut next) = (Vec::new(), 0);
    for part in parts {
        let wrong = |message: String| Error::invalid(format!("annotation shard '{}': {message}", part.logical_shard_id));
        if (part.name.as_str(), part.publication_id.as_str()) != (name, publication_id) {
            return Err(wrong(format!("it is of the set '{}', publication '{}'", part.name, part.publication_id)));
        }
        if part.source_snapshot_id != dataset.snapshot_id() {
            return Err(wrong(format!("it is of snapshot '{}', not '{}'", part.source_snapshot_id, dataset.snapshot_id())));
        }
        let count = part.record_ids.len() as u64;
        if count == 0 {
            return Err(wrong("it has no rows: leave it out".into()));
        }
        if part.first_ordinal != next || count > dataset.len() - next {
            return Err(wrong(format!("it covers {count} records from {} on, where {next} is the next", part.first_ordinal)));
        }
        let path = part.object()?;
        let found = dataset.store().head(&path)?.size;
        if found != part.stored_bytes {
            return Err(wrong(format!("its worker wrote {} bytes, but {found} are there", part.stored_bytes)));
        }
        let mut object = inside(path, part.stored_bytes);
        let file = match &inner.options.container {
            Some(container) => {
                container.right_count(&inner.objects.locate(&object.path), count)?;
                inner.objects.open_anew(&object)?
            }
            None => Arc::clone(&inner.shards.get(&inner.objects, &object, Some(count))?.file),
        };
        let ids = dataset.metadata_batches(next..next + count);
        let mut ids = ids.flat_map(|batch| batch.map_or_else(|e| vec![Err(e)], |all| all.into_iter().map(Ok).collect()));
        for id in &part.record_ids {
            let record = ids.next().transpose()?.map(|record| record.id);
            if record.as_ref() != Some(id) {
                return Err(wrong(format!("it names record '{id}', where the dataset has {record:?}")));
            }
        }
        object.sha256 = if inner.options.compat { None } else { Some(verify::digest(&*file)?) };
        shards.push(SetShard { first_ordinal: next, record_count: count, object });
        next += count;
    }
    if next != dataset.len() {
        return Err(Error::invalid(format!("the annotation shards cover {next} of {} records", dataset.len())));
    }
    finish(dataset, name, publication_id.into(), shards, &options.metadata, options.catalog_retry_limit, guard)
}

/// The id of a publication that is given none, the reference package's.
fn default_publication_id(snapshot_id: &str, name: &str) -> String {
    let digest = Digest::of(format!("{snapshot_id}:{name}").as_bytes()).to_string();
    digest.get(..32).unwrap_or_default().to_owned()
}

fn check(dataset: &Dataset, name: &str, publication_id: &str, metadata: &Json) -> Result<()> {
    if !dataset.store().capabilities().compare_and_swap {
        // Before anything is written: the catalog could not be swung.
        return Err(Error::unsupported("annotations need a compare-and-swap, which this store cannot do")
            .at(dataset.location())
            .remedy(
                "annotate the dataset on a local disk or in object storage itself (not by HTTP or as a mounted bucket), or a copy of it",
            ));
    }
    identifier("annotation set's name", name)?;
    identifier("publication id", publication_id)?;
    if metadata.is_object() { Ok(()) } else { Err(Error::invalid(format!("the metadata are {metadata}, not an object"))) }
}

fn set_folder(dataset: &Dataset, name: &str, publication_id: &str) -> String {
    format!("{}annotations/sets/{name}/{publication_id}", home(dataset.version_number()))
}

fn root_path(dataset: &Dataset, name: &str, publication_id: &str) -> Result<RelPath> {
    RelPath::parse(&format!("{}/root.json", set_folder(dataset, name, publication_id)))
}

fn object_path(dataset: &Dataset, name: &str, publication_id: &str, hex: &str) -> Result<RelPath> {
    let prefix = hex.get(..2).unwrap_or_default();
    RelPath::parse(&format!("{}/objects/{prefix}/{hex}.arrayrecord", set_folder(dataset, name, publication_id)))
}

/// Refuses early a name that another set has.
fn free(dataset: &Dataset, name: &str, root: &RelPath) -> Result<()> {
    match catalog(dataset)?.2.sets.get(name) {
        Some(SetRef(there)) if there.path.as_str() != root.as_str() => Err(has_set(dataset, name)),
        _ => Ok(()),
    }
}

fn has_set(dataset: &Dataset, name: &str) -> Error {
    Error::already_exists(format!("there is an annotation set '{name}' already"))
        .at(dataset.location())
        .remedy("sets are never replaced: publish other annotations under another name")
}

fn written_before(dataset: &Dataset, pointer: &RelPath) -> Result<Option<AnnotationShard>> {
    let (store, limits) = (dataset.store(), &dataset.options().control);
    match document(&**store, pointer, limits) {
        Err(e) if e.code() == Code::NotFound => Ok(None),
        bytes => AnnotationShard::parse(&bytes?, limits).map(Some).map_err(|e| Error::from(e).at(store.locate(pointer))),
    }
}

/// Rows with the ids of the records that they must be of.
struct Aligned<I> {
    rows: I,
    ids: Box<dyn Iterator<Item = Result<String>>>,
    next: u64,
}

impl<I: Iterator<Item = Result<AnnotationRow>>> Aligned<I> {
    fn new(dataset: &Dataset, rows: I, first: u64, end: u64) -> Self {
        let batches = dataset.metadata_batches(first..end);
        let ids = batches.flat_map(|batch| match batch {
            Ok(records) => records.into_iter().map(|record| Ok(record.id)).collect::<Vec<_>>(),
            Err(e) => vec![Err(e)],
        });
        Self { rows, ids: Box::new(ids), next: first }
    }

    fn next(&mut self) -> Result<Option<AnnotationRow>> {
        let Some(row) = self.rows.next().transpose()? else { return Ok(None) };
        let id = self.ids.next().transpose()?;
        let Some(id) = id else {
            return Err(Error::invalid(format!(
                "there is no record {}, which annotation '{}' follows",
                self.next, row.source_record_id
            )));
        };
        if row.source_index != self.next {
            return Err(Error::invalid(format!(
                "annotation {} is of record {}: give them in order",
                self.next, row.source_index
            )));
        }
        same_record(&row, &id).map_err(|e| Error::invalid(e.message()))?;
        self.next += 1;
        Ok(Some(row))
    }
}

/// Writes so many rows to an object; `note` hears of each. Where there are fewer, nothing is written.
fn write_rows<I: Iterator<Item = Result<AnnotationRow>>>(
    dataset: &Dataset,
    path: RelPath,
    rows: &mut Aligned<I>,
    count: u64,
    note: &mut dyn FnMut(&AnnotationRow),
) -> Result<Reference> {
    let (store, options) = (dataset.store(), dataset.options());
    let located = |e: Error| e.at(store.locate(&path));
    let layout = arrayrecord::Options { compression: options.compression, ..Default::default() };
    // What a program's own container writes is first written here.
    let own = match &options.container {
        Some(container) => {
            let folder = container::folder()?;
            Some((container, LocalStore::open(folder.path())?, folder))
        }
        None => None,
    };
    let target = own.as_ref().map_or(&**store, |(_, local, _)| local);
    let object = match target.write_new(&path) {
        Err(e) if e.code() == Code::AlreadyExists => None,
        object => Some(object?),
    };
    let mut writer = Writer::new(Spool::new(object), layout).map_err(|e| located(e.into()))?;
    let mut payload = Vec::new();
    while writer.len() < count {
        let Some(row) = rows.next()? else {
            let (got, records) = (rows.next, dataset.len());
            return Err(Error::invalid(format!("{got} annotations for {records} records"))
                .remedy("give one for each record; those without one get the status skipped or failed"));
        };
        let place = |e: Error| e.within(format!("annotation {}", row.source_index));
        let record = row.to_record().map_err(place)?;
        let data: Vec<&[u8]> = record.data.iter().map(|d| &d[..]).collect();
        payload.clear();
        encode_into(&record.metadata, &data, &options.resources, &mut payload).map_err(|e| place(e.into()))?;
        writer.push(&payload).map_err(|e| located(e.into()))?;
        note(&row);
    }
    let (spool, _) = writer.finish().map_err(|e| located(e.into()))?;
    let (named, (stored_bytes, digest)) = match &own {
        None => spool.commit(),
        Some((container, local, _)) => spool.commit().and_then(|_| container.write_object(local, &**store, &path)),
    }
    .map_err(located)?;
    if !named {
        let file = store.open_read(&path).map_err(gone)?;
        if (file.size(), verify::digest(&*file)?) != (stored_bytes, digest) {
            return Err(located(collision("it holds other annotations than are to be published")
                .remedy("a run that was interrupted wrote it: publish what that one was to publish, or give this one a publication id of its own")));
        }
    }
    let sha256 = (!options.compat).then_some(digest);
    Ok(Reference { sha256, ..inside(path.clone(), stored_bytes) })
}

fn flush(dataset: &Dataset, paths: &[RelPath]) -> Result<()> {
    let Options { durable, .. } = dataset.options();
    if *durable && dataset.store().capabilities().flush { dataset.store().flush(paths).map_err(gone) } else { Ok(()) }
}

/// Writes the set's root and has the catalog name it.
fn finish(
    dataset: &Dataset,
    name: &str,
    publication_id: String,
    shards: Vec<SetShard>,
    metadata: &Json,
    retries: u32,
    guard: Guard,
) -> Result<AnnotationSet> {
    let Objects { store, .. } = &dataset.inner().objects;
    let path = root_path(dataset, name, &publication_id)?;
    let root = SetRoot {
        name: name.into(),
        publication_id,
        source_snapshot_id: dataset.snapshot_id().into(),
        record_count: dataset.len(),
        metadata: metadata.clone(),
        shards,
    };
    let bytes = root.to_bytes();
    if !create(&**store, &path, &bytes)? && !catalog(dataset)?.2.sets.contains_key(name) {
        // It protects all that was written with it, see `guard`.
        renew(&**store, &path, &bytes)?;
    }
    let mut paths = vec![path.clone()];
    for shard in &root.shards {
        paths.push(RelPath::parse(shard.object.path.as_str())?);
    }
    flush(dataset, &paths)?;
    let set = SetRef::new(path, bytes.len() as u64);
    swing(dataset, name, &set, retries, (guard, &paths))?;
    AnnotationSet::open(dataset.clone(), name, &set.0)
}

/// The lock that the reference package takes around its own compare and swap on a local disk, so that neither undoes the other's. It is
/// free again when the file is closed.
pub(in super::super) fn reference_lock(store: &dyn Store) -> Result<Option<File>> {
    let folder = Path::new(&store.location()).join("annotations");
    if !folder.is_absolute() || !folder.is_dir() {
        return Ok(None); // No local disk: the set's root was written before.
    }
    let path = folder.join(".catalog.json.lock");
    let open = || {
        let file = File::options().create(true).append(true).open(&path)?;
        file.lock().map(|()| file)
    };
    open().map(Some).map_err(|e| Error::from(e).at(path.display()))
}

/// Adds the set to the catalog, as often as others do so meanwhile.
fn swing(dataset: &Dataset, name: &str, set: &SetRef, retries: u32, (mut guard, paths): (Guard, &[RelPath])) -> Result<()> {
    let store: &dyn Store = &**dataset.store();
    let number = dataset.version_number();
    let pointer = catalog_path(number)?;
    // The reference package knows of version 0 only.
    let _held = if number == 0 { reference_lock(store)? } else { None };
    for attempt in 0..=retries {
        let (version, _, mut revision) = catalog(dataset)?;
        if version.is_none() {
            adopt(dataset, &mut revision, name, set)?;
        }
        match revision.sets.get(name) {
            Some(there) if there == set && version.is_some() => return flush(dataset, &[pointer]),
            Some(there) if there != set => return Err(has_set(dataset, name)),
            _ => revision.sets.insert(name.into(), set.clone()),
        };
        let bytes = revision.to_bytes();
        let path = RelPath::parse(&format!("{}annotations/catalogs/{}.json", home(number), Digest::of(&bytes)))?;
        if !create(store, &path, &bytes)? {
            renew(store, &path, &bytes)?;
        }
        flush(dataset, std::slice::from_ref(&path))?;
        let named: Vec<RelPath> = paths.iter().chain([&path]).cloned().collect();
        guard.before(store, &named)?;
        let expected = version.as_ref().map_or(Expected::Absent, Expected::Version);
        match store.replace(&pointer, &[&Pointer { revision: path }.to_bytes()], expected) {
            Ok(_) => {
                flush(dataset, &[pointer])?;
                return guard.after(store, &named);
            }
            Err(e) if matches!(e.code(), Code::Conflict | Code::AlreadyExists) => {
                std::thread::sleep(jitter(attempt));
            }
            Err(e) => return Err(e),
        }
    }
    Err(Error::conflict(format!("other annotation sets were published {} times while this was", retries + 1))
        .at(store.locate(&pointer))
        .remedy("publish it again with the same publication id: what is written is used"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_are_those_of_the_reference() {
        // Published by signal-dataset 0.4.0 without an id.
        assert_eq!(super::default_publication_id("s", "labels"), "0542eec48103d906eee3aee22a19da7a");
        assert_eq!(super::default_publication_id("t", "labels"), "f8342b62b4ea24361712ae98a2a195d1");
    }
}
