//! Records of signal-datasets and Sedpack datasets as a [`Table`], and the index that is kept of the former.

use super::jbof::Keep;
use super::{Expr, Field, ONLY_SPLIT, Record, Table, TableBuilder};
use crate::error::{Code, Error, Result};
use crate::layout::Source;
use crate::layout::signal_dataset::{Dataset, Place, RecordMetadata};
use sigbank_format::model::FieldType;
use sigbank_format::model::json::{Json, write_string};
use sigbank_format::record::signal::FieldMetadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use xxhash_rust::xxh3::Xxh3;

/// The environment variable that names the folder in which indices of signal-datasets are kept.
pub const INDEX_FOLDER: &str = "SIGBANK_INDEX_DIR";
const LAYOUT: &str = "signal-dataset";
/// The key under which annotations are asked for.
pub(super) const ANNOTATIONS: &str = "annotations";
/// Datasets of fewer records are read as quickly as an index is.
const WORTH_IT: u64 = 500;
/// Indices that nobody has written or used for so long are deleted by whoever writes another one.
const UNUSED: Duration = Duration::from_secs(90 * 24 * 3600);
/// What changed less long ago may change again without showing it.
const STEP: Duration = Duration::from_millis(100);
/// Records that must be read singly without an error before they are read together again.
const CALM: u64 = 64;
/// Names that a message lists.
const NAMED: usize = 5;

/// The records of a dataset and what is said of them; of Sedpack its shards.
///
/// The index of a signal-dataset is a Parquet file in a folder of the user's ([`index_folder`]), never in the dataset, which is
/// immutable and often not the reader's. Its name is made of the dataset's digest, so that a further version has another one and a copy the
/// same. Where the references to shards have no SHA-256 (as the reference package writes them) the inode, size and times of each local file with
/// records' metadata stand for it; in a bucket such datasets are read anew each time.
///
/// ```
/// use bytes::Bytes;
/// use sigbank::format::record::signal::{Axis, FieldMetadata, RecordMetadata};
/// use sigbank::format::model::json::Json;
/// use sigbank::layout::signal_dataset::{Options, Publication, Record, publish, write_shard};
/// use sigbank::query::{Records, jbof::Keep};
/// use sigbank::store::{MemoryStore, Store};
/// let (store, options) = (std::sync::Arc::new(MemoryStore::new()) as std::sync::Arc<dyn Store>, Options::default());
/// let record = |n: usize| {
///     let field = FieldMetadata { axes: vec![Axis::new("time", n as u64)], ..FieldMetadata::new("x", "uint8".parse()?, vec![n]) };
///     let mut metadata = RecordMetadata::new(format!("r{n}"), vec![field]);
///     metadata.metadata = Json::parse(format!("{{\"snr\": {n}}}").as_bytes(), &Default::default())?;
///     Ok(Record { metadata, data: vec![Bytes::from(vec![0; n])] })
/// };
/// let shard = write_shard(&*store, (1..4).map(record), "w", 0, &options)?;
/// let dataset = publish(&store, &[shard], &Publication::new("demo", "v1"), &options)?;
/// let records = Records::of_signal(&dataset, Keep::Ignore, None)?;
/// let found = records.find(&"snr > 1 and x@length < 3".parse()?)?;
/// assert_eq!((found.len(), found[0].first, records.table().id(found[0].row)), (1, 1, "r2"));
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug)]
pub struct Records {
    table: Table,
    /// Of Sedpack how many examples each row's shard has; empty where a row is one record.
    counts: Vec<u64>,
    /// Rows whose metadata cannot be read, ascending, and why.
    unreadable: Vec<(usize, String)>,
    index: Option<PathBuf>,
}

/// What a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matched {
    /// The row in the table: the record or, of Sedpack, the shard.
    pub row: usize,
    /// The place of its first record in its split.
    pub first: u64,
    /// How many records it stands for.
    pub records: u64,
}

/// The folder for indices of signal-datasets: what `SIGBANK_INDEX_DIR` names, else `sigbank/index` in `XDG_CACHE_HOME`, else `.cache/sigbank/index` in the
/// home directory; none where none of these is set.
///
/// ```
/// let folder = sigbank::query::index_folder();
/// assert!(folder.is_none_or(|folder| !folder.as_os_str().is_empty()));
/// ```
pub fn index_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set(INDEX_FOLDER)
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("sigbank/index")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/sigbank/index")))
}

impl Records {
    /// Those of a signal-dataset: from the index in `folder`, or read, and then left there for the next program where `keep` says so and there
    /// are some hundred. No samples are read. A record whose metadata are damaged keeps its place and is found by no expression.
    ///
    /// # Errors
    /// Those of reading the metadata of records, other than of what a record's own say. That the index cannot be used or written is none.
    pub fn of_signal(dataset: &Dataset, keep: Keep, folder: Option<&Path>) -> Result<Self> {
        let place = place(dataset, keep, folder)?;
        if let Some((path, key)) = &place
            && let Ok(table) = Table::open(path)
            && table.layout() == Some(LAYOUT)
            && table.root() == Some(*key)
            && table.len() as u64 == dataset.len()
        {
            // It was used: see UNUSED.
            let _ = std::fs::File::options().write(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
            return Ok(Self { table, counts: Vec::new(), unreadable: Vec::new(), index: Some(path.clone()) });
        }
        let mut found = read(dataset)?;
        if let Some((path, key)) =
            place.filter(|_| keep == Keep::Auto && found.unreadable.is_empty() && dataset.len() >= WORTH_IT)
            && found.save(&path, key).is_ok()
        {
            found.index = Some(path);
        }
        Ok(found)
    }

    /// As [`Records::of_signal`], with an index in any case; gives its path.
    ///
    /// # Errors
    /// Those of [`Records::of_signal`]; `Unsupported` where there is no folder for it, or nothing that tells whether the dataset is the same;
    /// `Corrupt` where metadata of a record cannot be read; `ReadOnly`, `Storage` where it cannot be written.
    pub fn write_index(dataset: &Dataset, folder: Option<&Path>) -> Result<(Self, PathBuf)> {
        let place = place(dataset, Keep::Auto, folder)?;
        let (path, key) = place.ok_or_else(|| {
            Error::unsupported("no index of this dataset can be kept: there is no folder for it, or its references have no SHA-256 that would tell whether it is the same")
                .at(dataset.location())
                .remedy(format!("name a folder by the environment variable {INDEX_FOLDER}; publish the dataset with sigbank"))
        })?;
        let mut found = Self::of_signal(dataset, Keep::Use, folder)?;
        if let Some(message) = found.unsearched() {
            return Err(Error::corrupt(message).at(dataset.location()));
        }
        found.save(&path, key).map_err(|e| e.at(path.display()))?;
        found.index = Some(path.clone());
        Ok((found, path))
    }

    /// The same with what annotation sets of the dataset say, as they are now, where an expression asks for the key `annotations`: an object by set, each
    /// with `status`, `detail_status` where there is one, and `values`. Sets are read that are named, or all. Where records have a key of that
    /// name themselves, it is theirs.
    ///
    /// # Errors
    /// `NotFound` for a set that is not there; those of reading it.
    pub fn annotated(self, dataset: &Dataset, expr: &Expr) -> Result<Self> {
        let Some(named) = expr.below(ANNOTATIONS).filter(|_| !self.table.counted_keys().counts.contains_key(ANNOTATIONS)) else {
            return Ok(self);
        };
        let catalog = dataset.annotations()?;
        let sets: Vec<String> = match named.is_empty() {
            true => catalog.names().map(str::to_owned).collect(),
            false => named.into_iter().map(str::to_owned).collect(),
        };
        // What each record's object holds so far.
        let mut said = vec![String::new(); self.table.len()];
        for set in sets {
            for row in catalog.open(&set)?.rows() {
                let row = row?;
                let Some(out) = usize::try_from(row.source_index).ok().and_then(|at| said.get_mut(at)) else { continue };
                out.push_str(if out.is_empty() { "" } else { "," });
                write_string(&set, out);
                out.push_str(":{\"status\":");
                write_string(row.status.as_str(), out);
                if let Some(detail) = &row.detail_status {
                    out.push_str(",\"detail_status\":");
                    write_string(detail, out);
                }
                out.push_str(",\"values\":");
                out.push_str(row.values.as_str());
                out.push('}');
            }
        }
        let table = &self.table;
        let mut rows = if table.is_described() { TableBuilder::described() } else { TableBuilder::default() };
        for (row, said) in said.iter().enumerate() {
            let metadata = table.metadata(row)?;
            let before = metadata.strip_suffix('}').unwrap_or("{");
            let comma = if before == "{" || said.is_empty() { "" } else { "," };
            let text = match said.is_empty() {
                true => metadata.to_owned(),
                false => format!("{before}{comma}\"{ANNOTATIONS}\":{{{said}}}}}"),
            };
            rows.push_texts(table.id(row), table.split(row)?, &text, table.fields_text(row)?, [0, 0]);
        }
        Ok(Self { table: rows.finish(), ..self })
    }

    /// The shards of a Sedpack dataset, or the units of any source of whose units metadata are kept.
    ///
    /// # Errors
    /// Those of reading the lists of shards.
    pub fn of_units(source: &dyn Source) -> Result<Self> {
        let fields: Vec<Field> = source.schema().fields.iter().map(declared).collect();
        let (mut rows, mut counts, mut unreadable) = (TableBuilder::described(), Vec::new(), Vec::new());
        for split in source.splits() {
            let units = source.units(&split.name)?;
            for unit in 0..units.len() {
                let name = source.unit_name(&split.name, unit)?;
                let said = source.unit_metadata(&split.name, unit).and_then(|said| Ok(Json::from_value(&said.into())?));
                let metadata = said.unwrap_or_else(|e| {
                    unreadable.push((counts.len(), e.message().to_owned()));
                    Json::EMPTY
                });
                rows.push(&Record::new(&name, &metadata).with_fields(&fields).in_split(&split.name), 0);
                counts.push(units.count(unit));
            }
        }
        Ok(Self { table: rows.finish(), counts, unreadable, index: None })
    }

    /// What is known, a row for each record or shard, in stored order, split by split.
    pub fn table(&self) -> &Table {
        &self.table
    }
    /// The file of the index that was used or written.
    pub fn index(&self) -> Option<&Path> {
        self.index.as_deref()
    }
    /// Whether a row stands for several records.
    pub fn is_of_units(&self) -> bool {
        !self.counts.is_empty()
    }
    /// What an expression holds for, in stored order.
    ///
    /// # Errors
    /// Those of [`Table::select`].
    pub fn find(&self, expr: &Expr) -> Result<Vec<Matched>> {
        let rows = match self.counts.is_empty() {
            true => self.table.select(&expr.in_split(ONLY_SPLIT))?,
            false => self.table.select(expr)?,
        };
        let rows = rows.into_iter();
        let rows = rows.filter(|row| self.unreadable.binary_search_by_key(row, |(bad, _)| *bad).is_err());
        if self.counts.is_empty() {
            return rows.map(|row| Ok(Matched { row, first: self.table.ordinal(row)?, records: 1 })).collect();
        }
        let mut firsts = Vec::with_capacity(self.counts.len());
        let (mut split, mut next) = (String::new(), 0u64);
        for (row, count) in self.counts.iter().enumerate() {
            if self.table.split(row)? != split {
                (split, next) = (self.table.split(row)?.to_owned(), 0);
            }
            firsts.push(next);
            next += count;
        }
        let get = |values: &[u64], row: usize| values.get(row).copied().unwrap_or(0);
        Ok(rows.map(|row| Matched { row, first: get(&firsts, row), records: get(&self.counts, row) }).collect())
    }
    /// What is to be said of records that no expression can be asked of: how many, which, and why the first. None where there are none.
    pub fn unsearched(&self) -> Option<String> {
        let what = if self.is_of_units() { "shard" } else { "record" };
        let names = self.unreadable.iter().map(|(row, _)| self.table.id(*row));
        unsearched(what, self.unreadable.len(), names, self.unreadable.first().map_or("", |(_, why)| why))
    }

    fn save(&self, path: &Path, key: u128) -> Result<()> {
        let Some(folder) = path.parent() else { return Ok(()) };
        let told = |e: Error| match (path.is_dir(), e.remedy_text().is_some()) {
            (true, _) => e.remedy("remove this folder: an index of the dataset is kept as a file of that name"),
            (_, true) => e,
            _ => e.remedy(format!("name a folder that can be written by the environment variable {INDEX_FOLDER}")),
        };
        std::fs::create_dir_all(folder).map_err(|e| told(Error::from(e).at(folder.display())))?;
        self.table.save_with(path, LAYOUT, key).map_err(|e| told(e.at(path.display())))?;
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let age = entry.metadata().and_then(|found| found.modified()).ok().and_then(|time| time.elapsed().ok());
            if age.is_some_and(|age| age > UNUSED) && entry.file_name().to_string_lossy().contains(LAYOUT) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}

/// The message of what could not be searched.
pub(super) fn unsearched<'a>(what: &str, count: usize, names: impl Iterator<Item = &'a str>, why: &str) -> Option<String> {
    let names: Vec<String> = names.take(NAMED).map(|name| format!("{name:?}")).collect();
    let more = if count > names.len() { ", ..." } else { "" };
    let what = if count == 1 { format!("1 {what} was") } else { format!("{count} {what}s were") };
    (count > 0).then(|| format!("{what} not searched ({}{more}): {why}", names.join(", ")))
}

/// Where the index of a dataset is, and what tells that it is of this one.
fn place(dataset: &Dataset, keep: Keep, folder: Option<&Path>) -> Result<Option<(PathBuf, u128)>> {
    let Some(folder) = folder.filter(|_| keep != Keep::Ignore) else { return Ok(None) };
    Ok(key(dataset)?.map(|key| (folder.join(format!("{LAYOUT}-{key:032x}.parquet")), key)))
}

/// A digest of all that the metadata of records are read from; none where nothing tells that.
fn key(dataset: &Dataset) -> Result<Option<u128>> {
    let root = PathBuf::from(dataset.location());
    let before = SystemTime::now().checked_sub(STEP).unwrap_or(SystemTime::UNIX_EPOCH);
    let mut hash = Xxh3::new();
    hash.update(dataset.root_digest().to_string().as_bytes());
    for number in 0..dataset.snapshot().manifests.len() {
        for shard in &dataset.page(number)?.shards {
            let reference = &shard.metadata;
            let told = match &reference.sha256 {
                Some(digest) => digest.to_string(),
                None => match local(&root, &reference.path).and_then(|path| stamp(&path, before)) {
                    Some(stamp) => stamp,
                    None => return Ok(None),
                },
            };
            hash.update(format!("{}\0{told}\0{}\0{:?}\n", reference.path, shard.record_count, shard.record_indices).as_bytes());
        }
    }
    Ok(Some(hash.digest128().max(1)))
}

/// The file of an object of a dataset in a folder.
fn local(root: &Path, place: &Place) -> Option<PathBuf> {
    match place {
        Place::Inside(path) => root.is_absolute().then(|| root.join(path.as_str())),
        Place::Elsewhere(text) => Some(PathBuf::from(&**text)).filter(|path| path.is_absolute()),
    }
}

/// What changes with a file; none where that may not show.
fn stamp(path: &Path, before: SystemTime) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    let since = before.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let lasting = |seconds: i64| u64::try_from(seconds).is_ok_and(|seconds| seconds < since.as_secs());
    let (modified, changed) = ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
    (lasting(modified.0) && lasting(changed.0)).then(|| format!("{} {} {modified:?} {changed:?}", found.ino(), found.len()))
}

/// Reads what is said of all records; those whose own metadata cannot be read are told.
fn read(dataset: &Dataset) -> Result<Records> {
    let (mut rows, mut unreadable) = (TableBuilder::described(), Vec::new());
    let mut next = 0;
    while next < dataset.len() {
        let mut failed = false;
        for batch in dataset.metadata_batches(next..dataset.len()) {
            let Ok(batch) = batch else {
                failed = true;
                break;
            };
            next += batch.len() as u64;
            batch.iter().for_each(|record| push(&mut rows, record));
        }
        // One of those that were read together is at fault: which one?
        let mut calm = 0;
        while failed && next < dataset.len() && calm < CALM {
            calm += 1;
            match dataset.record_metadata(next) {
                Ok(record) => push(&mut rows, &record),
                Err(e) if matches!(e.code(), Code::Corrupt | Code::Limit | Code::Invalid | Code::Unsupported) => {
                    calm = 0;
                    let row = usize::try_from(next).unwrap_or(usize::MAX);
                    unreadable.push((row, e.message().to_owned()));
                    rows.push(&Record::new(&format!("#{next}"), &Json::EMPTY), 0);
                }
                Err(e) => return Err(e),
            }
            next += 1;
        }
    }
    Ok(Records { table: rows.finish(), counts: Vec::new(), unreadable, index: None })
}

fn push(rows: &mut TableBuilder, record: &RecordMetadata) {
    let fields: Vec<Field> = record.fields.iter().map(Field::from).collect();
    rows.push(&Record::new(&record.id, &record.metadata).with_fields(&fields), 0);
}

impl From<&FieldMetadata> for Field {
    /// What a record of a signal-dataset says of a field; the sample rate is that of its first axis in steps of seconds.
    fn from(field: &FieldMetadata) -> Self {
        let rate = field.axes.iter().find_map(|axis| {
            let coordinate =
                axis.coordinate.as_ref().filter(|c| matches!(c.unit.as_deref(), Some("s" | "second" | "seconds")))?;
            let step = coordinate.step.as_ref()?.as_f64().filter(|step| *step > 0.0)?;
            Some(1.0 / step)
        });
        let shape: Vec<u64> = field.shape.iter().map(|&n| n as u64).collect();
        Self {
            axes: Some(field.axes.iter().map(|axis| axis.name.clone()).collect()),
            sample_rate: rate,
            ..Self::new(&field.name, &field.dtype.name(), &shape)
        }
    }
}

/// What a schema says of a field of all records.
fn declared(field: &sigbank_format::model::Field) -> Field {
    let (dtype, shape) = match &field.ty {
        FieldType::Array { dtype, shape } => (Some(dtype.name()), Some(shape.iter().map(|&n| n as u64).collect())),
        FieldType::Int => (Some("int".to_owned()), Some(Vec::new())),
        FieldType::Str => (Some("str".to_owned()), None),
        FieldType::Bytes { len } => (Some("bytes".to_owned()), len.map(|len| vec![len as u64])),
    };
    Field { name: field.name.clone(), dtype, shape, ..Field::default() }
}
