//! Annotations: for each record of a dataset a row that came later, in named sets beside the snapshot.
//!
//! `annotations/catalog.json` points to a revision, which names each set's root. The pointer alone is ever replaced, by comparing and
//! swapping, so that sets which are published at once do not lose each other. A set covers every record of the snapshot, and a name is
//! given once.

mod adopt;
mod ahead;
mod documents;
mod publish;
mod reach;

pub(super) use publish::reference_lock;
pub(super) use reach::{
    current_revision, home_of_revision, is_identifier, named_sets, objects_of, pointed_to, pointer_to, references_of, sets_of,
    sources_of,
};

pub use publish::{AnnotationOptions, publish_annotation_shards, publish_annotations, write_annotation_shard};

use super::dataset::Dataset;
use super::documents::{Place, Reference};
use super::read::{Stored, StoredRecord};
use super::shard_write::Record;
use crate::error::{Code, Error, Result};
use crate::store::Store;
use crate::uri::RelPath;
use bytes::Bytes;
use documents::{Pointer, Revision, SetRef, SetRoot};
use sigbank_format::FormatError;
use sigbank_format::model::json::{Json, Limits, Parser, write_string};
use sigbank_format::record::signal::{Axis, FieldMetadata, RecordMetadata};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The catalog's pointer, below where a version's annotations lie.
const CATALOG: &str = "annotations/catalog.json";

/// Where the annotations of a version lie: those of version 0 where the reference package has them, those of another by its number beside
/// its document. Empty, or ending with a slash.
fn home(number: u64) -> String {
    if number == 0 { String::new() } else { format!("sigbank/versions/{number:08}/") }
}

/// The catalog's pointer of a version.
pub(super) fn catalog_path(number: u64) -> Result<RelPath> {
    RelPath::parse(&format!("{}{CATALOG}", home(number)))
}

/// Whether a path is that of a version's catalog.
pub(super) fn is_catalog(path: &RelPath) -> bool {
    path.as_str() == CATALOG || path.as_str().ends_with(&format!("/{CATALOG}"))
}

const OF_ANOTHER: &str = "they are of a version that had this number and was lost: delete the annotations/catalog.json of this version, \
     and sigbank gc takes what it named";

/// The field of a row that has none.
const EMPTY: &str = "__empty__";

/// What became of annotating a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnnotationStatus {
    /// There is an annotation.
    Success,
    /// None was wanted.
    Skipped,
    /// None could be made.
    Failed,
}

impl AnnotationStatus {
    /// As it is stored.
    ///
    /// ```
    /// assert_eq!(sigbank::layout::signal_dataset::AnnotationStatus::Failed.as_str(), "failed");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
    /// The status of this word; none for any other.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Success, Self::Skipped, Self::Failed].into_iter().find(|status| status.as_str() == word)
    }
}

impl fmt::Display for AnnotationStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The annotation of one record.
///
/// ```
/// use sigbank::layout::signal_dataset::{AnnotationRow, AnnotationStatus};
/// let row = AnnotationRow { detail_status: Some("too short".into()), ..AnnotationRow::new("r7", 7, AnnotationStatus::Skipped) };
/// assert_eq!((row.terminal_status(), row.values.as_str()), ("too short", "{}"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AnnotationRow {
    /// The id of the record that it annotates.
    pub source_record_id: String,
    /// The ordinal of that record.
    pub source_index: u64,
    /// What became of it.
    pub status: AnnotationStatus,
    /// The annotation, an object.
    pub values: Json,
    /// Where it is from, an object.
    pub provenance: Json,
    /// The status in its producer's words.
    pub detail_status: Option<String>,
    /// Arrays of the annotation: what each is.
    pub fields: Vec<FieldMetadata>,
    /// And its samples, C order, little-endian.
    pub data: Vec<Bytes>,
}

impl AnnotationRow {
    /// A row that says nothing more.
    pub fn new(source_record_id: impl Into<String>, source_index: u64, status: AnnotationStatus) -> Self {
        Self {
            source_record_id: source_record_id.into(),
            source_index,
            status,
            values: Json::EMPTY,
            provenance: Json::EMPTY,
            detail_status: None,
            fields: Vec::new(),
            data: Vec::new(),
        }
    }

    /// The producer's word for the status, or the status.
    pub fn terminal_status(&self) -> &str {
        self.detail_status.as_deref().unwrap_or(self.status.as_str())
    }

    /// The row as the record that is stored.
    fn to_record(&self) -> Result<Record> {
        for (what, json) in [("values", &self.values), ("provenance", &self.provenance)] {
            if !json.is_object() {
                return Err(Error::invalid(format!("the {what} are {json}, not an object")));
            }
        }
        if self.detail_status.as_deref() == Some("") {
            return Err(Error::invalid("the detail_status is empty: leave it out"));
        }
        let mut text = String::from("{\"annotation\":{\"detail_status\":");
        match &self.detail_status {
            Some(detail) => write_string(detail, &mut text),
            None => text.push_str("null"),
        }
        let empty = self.fields.is_empty();
        let (provenance, index, status, values) = (&self.provenance, self.source_index, self.status, &self.values);
        text.push_str(&format!(
            ",\"empty_fields\":{empty},\"provenance\":{provenance},\"source_index\":{index},\"status\":\"{status}\",\"values\":{values}}}}}"
        ));
        let limits = Limits { max_bytes: u64::MAX, max_depth: usize::MAX, max_nodes: usize::MAX };
        let metadata = Json::parse(text.as_bytes(), &limits)?;
        let (mut fields, mut data) = (self.fields.clone(), self.data.clone());
        if empty {
            let axes = vec![Axis::new("empty", 0)];
            fields = vec![FieldMetadata { axes, ..FieldMetadata::new(EMPTY, "uint8".parse()?, vec![0]) }];
            data = vec![Bytes::new()];
        }
        Ok(Record { metadata: RecordMetadata { metadata, ..RecordMetadata::new(self.source_record_id.clone(), fields) }, data })
    }

    fn from_record(record: StoredRecord) -> Result<Self> {
        let mut row = Self::new(record.metadata().id.clone(), 0, AnnotationStatus::Success);
        let (mut index, mut status, mut empty, mut found) = (None, None, None, false);
        record.metadata().metadata.walk().object(|p, key| {
            if key != "annotation" {
                return p.skip();
            }
            found = true;
            p.object(|p, key| {
                match &*key {
                    "detail_status" if p.null()? => {}
                    "detail_status" => row.detail_status = Some(super::documents::text(p, &key)?),
                    "empty_fields" => empty = Some(p.boolean()?),
                    "provenance" => row.provenance = members(p, &key)?,
                    "source_index" => index = Some(p.unsigned()?),
                    "status" => status = Some(p.string()?.into_owned()),
                    "values" => row.values = members(p, &key)?,
                    _ => p.skip()?,
                }
                Ok(())
            })
        })?;
        if !found {
            return Err(Error::corrupt("the record has no annotation in its metadata"));
        }
        let status = super::documents::need(status, "status")?;
        row.source_index = super::documents::need(index, "source_index")?;
        row.status = AnnotationStatus::from_word(&status)
            .ok_or_else(|| Error::corrupt(format!("the status is {status:?}, which is none of success, skipped and failed")))?;
        if !super::documents::need(empty, "empty_fields")? {
            row.data = (0..record.ranges().len()).map(|field| record.field(field)).collect();
            row.fields = record.into_parts().1.fields;
        }
        Ok(row)
    }
}

/// An object of a row, which null is not.
fn members(p: &mut Parser<'_>, key: &str) -> super::documents::Fields<Json> {
    if p.null()? {
        Err(FormatError::corrupt(format!("the {key} are null, not an object")))
    } else {
        super::documents::object(p, key)
    }
}

/// One part of a set that a worker wrote, for the coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotationShard {
    /// The set's name.
    pub name: String,
    /// Which publication of the set.
    pub publication_id: String,
    /// The snapshot whose records are annotated.
    pub source_snapshot_id: String,
    /// Which part of the work it is.
    pub logical_shard_id: String,
    /// The ordinal of the first record.
    pub first_ordinal: u64,
    /// The ids of the records.
    pub record_ids: Vec<String>,
    /// The object, as the store shows it.
    pub uri: String,
    /// Its length in bytes.
    pub stored_bytes: u64,
    /// Each row's status.
    pub statuses: Vec<String>,
    /// Each row's [`AnnotationRow::terminal_status`].
    pub terminal_statuses: Vec<String>,
}

/// The sets of a dataset at one time, see [`Dataset::annotations`].
#[derive(Debug, Clone)]
pub struct AnnotationCatalog {
    dataset: Dataset,
    revision: Option<String>,
    sets: BTreeMap<String, SetRef>,
}

impl AnnotationCatalog {
    /// The path of the revision; none where nothing is annotated.
    pub fn revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }
    /// The names of the sets, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sets.keys().map(String::as_str)
    }
    /// Opens a set.
    ///
    /// # Errors
    /// `NotFound` for a name that is not there; `Corrupt` for a root that is not as the catalog says, or of another snapshot.
    pub fn open(&self, name: &str) -> Result<AnnotationSet> {
        let set = self.sets.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            let e = Error::not_found(format!("there is no annotation set '{name}'")).at(self.dataset.location());
            match names.as_slice() {
                [] => e.remedy("there is none at all"),
                all => e.remedy(format!("there are {}", all.join(", "))),
            }
        })?;
        AnnotationSet::open(self.dataset.clone(), name, &set.0)
    }
}

/// A set of annotations: a row for each record of the dataset.
#[derive(Debug, Clone)]
pub struct AnnotationSet {
    dataset: Dataset,
    root: Arc<SetRoot>,
}

impl AnnotationSet {
    fn open(dataset: Dataset, name: &str, reference: &Reference) -> Result<Self> {
        let inner = dataset.inner();
        let bytes = inner.objects.document(reference, &inner.options.control)?;
        let root = SetRoot::parse(&bytes, &inner.options.control).map_err(Error::from).and_then(|root| {
            // It lies where its publication id says.
            let folder = reference.path.as_str().rsplit('/').nth(1).unwrap_or_default();
            let agrees = [
                ("publication_id", root.publication_id.as_str(), folder),
                ("name", root.name.as_str(), name),
                ("source_snapshot_id", root.source_snapshot_id.as_str(), dataset.snapshot_id()),
            ];
            for (what, found, expected) in agrees {
                if found != expected {
                    let e = Error::corrupt(format!("its {what} is '{found}', where '{expected}' is expected"));
                    return Err(match (what, dataset.version_number()) {
                        ("source_snapshot_id", 1..) => e.remedy(OF_ANOTHER),
                        _ => e,
                    });
                }
            }
            if root.record_count != dataset.len() {
                let (rows, records) = (root.record_count, dataset.len());
                return Err(Error::corrupt(format!("{rows} annotations for {records} records: a set covers every record")));
            }
            Ok(root.verify(&bytes)?)
        });
        let root = root.map_err(|e| e.at(inner.objects.locate(&reference.path)))?;
        Ok(Self { root: Arc::new(root), dataset })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.root.name
    }
    /// Which publication it is.
    pub fn publication_id(&self) -> &str {
        &self.root.publication_id
    }
    /// The snapshot whose records are annotated.
    pub fn source_snapshot_id(&self) -> &str {
        &self.root.source_snapshot_id
    }
    /// What its producer says of it.
    pub fn metadata(&self) -> &Json {
        &self.root.metadata
    }
    /// Rows.
    pub fn len(&self) -> u64 {
        self.root.record_count
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row of a record.
    ///
    /// # Errors
    /// `NotFound` past the last; `Corrupt` names the object and the ordinal, also for a row of another record.
    pub fn row(&self, ordinal: u64) -> Result<AnnotationRow> {
        let missing = || Error::not_found(format!("there is no annotation {ordinal}: the set has {}", self.len()));
        let shard = self.root.shards.partition_point(|shard| shard.first_ordinal <= ordinal).checked_sub(1);
        let shard =
            shard.and_then(|at| self.root.shards.get(at)).filter(|shard| ordinal - shard.first_ordinal < shard.record_count);
        let shard = shard.ok_or_else(missing)?;
        let inner = self.dataset.inner();
        let at = ordinal - shard.first_ordinal;
        let stored = || -> Result<StoredRecord> {
            if let Some(container) = &inner.options.container {
                return container.one(&inner.objects, &shard.object, at, &inner.options);
            }
            let open = inner.shards.get(&inner.objects, &shard.object, Some(shard.record_count))?;
            let mut bytes = Vec::new();
            inner.shards.with_scratch(|scratch| scratch.decoder.read(&open.reader, at, &mut bytes))?;
            StoredRecord::from_bytes(bytes, &inner.options)
        };
        let read = || -> Result<AnnotationRow> {
            let row = AnnotationRow::from_record(stored()?)?;
            if row.source_index != ordinal {
                return Err(Error::corrupt(format!("the row says that it is of record {}", row.source_index)));
            }
            Ok(row)
        };
        read().map_err(|e| e.within(format!("annotation {ordinal}")).at(inner.objects.locate(&shard.object.path)))
    }

    /// All rows in order, read ahead; an error is handed out in the row's place, and ends it.
    pub fn rows(&self) -> impl Iterator<Item = Result<AnnotationRow>> + use<> {
        self.rows_of(0..self.len())
    }

    /// How many rows have each status that occurs. All rows are read.
    ///
    /// # Errors
    /// Those of [`AnnotationSet::row`].
    pub fn statuses(&self) -> Result<BTreeMap<AnnotationStatus, u64>> {
        let mut counts = BTreeMap::new();
        for row in self.rows() {
            *counts.entry(row?.status).or_default() += 1;
        }
        Ok(counts)
    }

    /// Compares each of its objects with its reference, and each row with the record that it is of. Gives the bytes hashed.
    ///
    /// # Errors
    /// `Corrupt` or `NotFound` names the first object at fault.
    pub fn verify(&self) -> Result<u64> {
        let inner = self.dataset.inner();
        let mut bytes = 0;
        for shard in &self.root.shards {
            let file = inner.objects.open_anew(&shard.object)?;
            let compare = || super::objects::same_digest(&shard.object, super::verify::digest(&*file)?);
            compare().map_err(|e| e.at(inner.objects.locate(&shard.object.path)))?;
            bytes += file.size();
        }
        let records = self.dataset.metadata_batches(0..self.len()).flat_map(|batch| match batch {
            Ok(records) => records.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(e) => vec![Err(e)],
        });
        for (row, record) in self.rows().zip(records) {
            same_record(&row?, record?.id.as_str())?;
        }
        Ok(bytes)
    }
}

/// Whether a row is of the record of this id.
fn same_record(row: &AnnotationRow, id: &str) -> Result<()> {
    if row.source_record_id == id {
        return Ok(());
    }
    let (index, found) = (row.source_index, &row.source_record_id);
    Err(Error::corrupt(format!("annotation {index} is of record '{found}', but record {index} of the dataset is '{id}'")))
}

impl Dataset {
    /// The annotation sets of this version as they are now. The reference package sees those of what `root.json` names.
    ///
    /// # Errors
    /// `Corrupt` for a catalog that breaks a rule.
    pub fn annotations(&self) -> Result<AnnotationCatalog> {
        let (_, revision, sets) = catalog(self)?;
        Ok(AnnotationCatalog { dataset: self.clone(), revision, sets: sets.sets })
    }
}

/// The catalog: the pointer's version, the revision's path, and what it holds.
fn catalog(dataset: &Dataset) -> Result<(Option<crate::store::Version>, Option<String>, Revision)> {
    let inner = dataset.inner();
    let (store, limits) = (&inner.objects.store, &inner.options.control);
    let path = catalog_path(dataset.version_number())?;
    let mut before = None;
    loop {
        let (bytes, version) = match store.get_versioned(&path) {
            Err(e) if super::objects::absent(&e) => return Ok((None, None, Revision::default())),
            pointer => pointer?,
        };
        let pointer = Pointer::parse(&bytes, limits).map_err(|e| Error::from(e).at(store.locate(&path)))?;
        match revision(&**store, &pointer.revision, limits) {
            // It was swung in between, and a gc deleted what it pointed to.
            Err(e) if e.code() == Code::NotFound && before.as_ref() != Some(&bytes) => before = Some(bytes),
            Err(e) if e.code() == Code::NotFound => {
                let what =
                    format!("it points to {}, which is not there: one of the two was damaged or deleted", pointer.revision);
                return Err(Error::corrupt(what)
                    .at(store.locate(&path))
                    .caused_by(e)
                    .remedy("restore both from a copy of the dataset"));
            }
            revision => return Ok((Some(version), Some(pointer.revision.to_string()), revision?)),
        }
    }
}

/// A revision, compared with its name, which is its digest.
fn revision(store: &dyn Store, path: &RelPath, limits: &Limits) -> Result<Revision> {
    let bytes = super::objects::document(store, path, limits)?;
    let parse = || -> Result<Revision> {
        let found = super::digest::Digest::of(&bytes).to_string();
        if path.file_name() != format!("{found}.json") {
            return Err(Error::corrupt(format!("its sha256 is {found}, not the one that its name tells")));
        }
        Ok(Revision::parse(&bytes, limits)?)
    };
    parse().map_err(|e| e.at(store.locate(path)))
}

/// A name that may be part of a path on any store.
fn identifier(what: &str, name: &str) -> Result<(), FormatError> {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if first && rest && name.len() <= 128 {
        return Ok(());
    }
    Err(FormatError::invalid(format!(
        "the {what} {name:?} is none: use at most 128 letters, digits, '.', '_' and '-', a letter or digit first"
    )))
}

/// A reference to an object below the root.
fn inside(path: RelPath, stored_bytes: u64) -> Reference {
    Reference { path: Place::Inside(path), stored_bytes, sha256: None }
}
