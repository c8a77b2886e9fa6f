//! A selection of records, and publishing it.

use super::annotations::{AnnotationOptions, AnnotationRow, AnnotationSet, publish_annotations};
use super::batches::Batches;
use super::dataset::Dataset;
use super::digest::Digest;
use super::documents::{Place, Reference, Shard};
use super::guard::Guard;
use super::publish::{Publication, check_names, not_another, publish, publish_entries};
use super::read::StoredRecord;
use super::shard_write::{Record, write_shard};
use super::{Options, RecordMetadata};
use crate::error::{Error, Result};
use crate::store::Store;
use sigbank_format::model::json::{Json, Limits};
use std::sync::Arc;

/// Most record indices of one entry of a manifest.
const MOST_INDICES: usize = 50_000;

/// Records of a dataset in an order of one's own, repeated ones included, see [`Dataset::select`].
#[derive(Debug, Clone)]
pub struct View {
    dataset: Dataset,
    ordinals: Arc<[u64]>,
}

impl View {
    pub(super) fn new(dataset: Dataset, ordinals: Vec<u64>) -> Result<Self> {
        if let Some(ordinal) = ordinals.iter().find(|ordinal| **ordinal >= dataset.len()) {
            return Err(Error::not_found(format!("there is no record {ordinal} to select: the dataset has {}", dataset.len()))
                .at(dataset.location()));
        }
        Ok(Self { dataset, ordinals: ordinals.into() })
    }

    /// The dataset that it is of.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }
    /// The ordinals of its records in the dataset.
    pub fn ordinals(&self) -> &[u64] {
        &self.ordinals
    }
    /// Records.
    pub fn len(&self) -> u64 {
        self.ordinals.len() as u64
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ordinals.is_empty()
    }
    /// The dataset's ordinal of the view's `n`-th record.
    ///
    /// # Errors
    /// `NotFound` past the last.
    pub fn ordinal(&self, n: u64) -> Result<u64> {
        let found = usize::try_from(n).ok().and_then(|n| self.ordinals.get(n)).copied();
        found.ok_or_else(|| Error::not_found(format!("there is no record {n}: the view has {}", self.len())))
    }
    /// One record, as [`Dataset::record`].
    ///
    /// # Errors
    /// `NotFound` past the last; those of [`Dataset::record`].
    pub fn record(&self, n: u64) -> Result<StoredRecord> {
        self.dataset.record(self.ordinal(n)?)
    }
    /// What is said of one record, as [`Dataset::record_metadata`].
    ///
    /// # Errors
    /// As [`View::record`].
    pub fn record_metadata(&self, n: u64) -> Result<RecordMetadata> {
        self.dataset.record_metadata(self.ordinal(n)?)
    }
    /// Reads its records ahead, as [`Dataset::batches`].
    pub fn batches(&self) -> Batches<StoredRecord> {
        self.dataset.batches_of(Arc::clone(&self.ordinals))
    }
    /// The same over what is said of its records.
    pub fn metadata_batches(&self) -> Batches<RecordMetadata> {
        self.dataset.batches_of(Arc::clone(&self.ordinals))
    }

    /// Publishes it as a dataset of its own that refers to the objects of this one by absolute paths: they must stay where they are.
    /// `publication.metadata` gets the mark `reference_dataset`. Annotations go along.
    ///
    /// # Errors
    /// `Unsupported` where the objects have no absolute path; those of [`publish`].
    pub fn publish(&self, store: &Arc<dyn Store>, publication: &Publication, options: &Options) -> Result<Dataset> {
        let sets = self.sets(&**store)?;
        let published = publish_views(std::slice::from_ref(self), store, publication, options)?;
        self.project(&sets, published)
    }

    /// Copies its records into a dataset of its own, in shards of `records_per_shard`. Annotations go along.
    ///
    /// # Errors
    /// `Invalid` for shards of no records; those of [`write_shard`] and [`publish`], and of reading.
    pub fn materialize(
        &self,
        store: &Arc<dyn Store>,
        publication: &Publication,
        records_per_shard: u64,
        options: &Options,
    ) -> Result<Dataset> {
        let per_shard = usize::try_from(records_per_shard).unwrap_or(usize::MAX);
        if per_shard == 0 {
            return Err(Error::invalid("shards of 0 records: choose 1 or more"));
        }
        check_names(publication)?;
        not_another(&**store, publication, options)?;
        let sets = self.sets(&**store)?;
        let mut shards = Vec::new();
        for (number, ordinals) in self.ordinals.chunks(per_shard).enumerate() {
            let batches: Batches<StoredRecord> = self.dataset.batches_of(ordinals.into());
            let records = batches.flat_map(|batch| match batch {
                Ok(records) => records.into_iter().map(|record| Ok(taken_again(record))).collect::<Vec<_>>(),
                Err(e) => vec![Err(e)],
            });
            let work_id = format!("{}-{number:08}", publication.snapshot_id);
            shards.push(write_shard(&**store, records, &work_id, 0, options)?);
        }
        let published = publish(store, &shards, &Publication { expected_work_ids: None, ..publication.clone() }, options)?;
        self.project(&sets, published)
    }

    /// The annotation sets of the dataset, which go along.
    fn sets(&self, target: &dyn Store) -> Result<Vec<AnnotationSet>> {
        let catalog = self.dataset.annotations()?;
        let sets: Vec<AnnotationSet> = catalog.names().map(|name| catalog.open(name)).collect::<Result<_>>()?;
        if !sets.is_empty() && !target.capabilities().compare_and_swap {
            return Err(Error::unsupported(
                "the dataset has annotations, and this store cannot keep any: it has no compare and swap",
            )
            .at(target.location()));
        }
        Ok(sets)
    }

    /// Annotates the published view as the dataset is. The names of the publications tell what they are of, so that doing it again
    /// completes it.
    fn project(&self, sets: &[AnnotationSet], published: Dataset) -> Result<Dataset> {
        for set in sets {
            let rows = self.ordinals.iter().zip(0..);
            let rows = rows.map(|(&ordinal, source_index)| Ok(AnnotationRow { source_index, ..set.row(ordinal)? }));
            let of = format!("{}:{}:{}", set.source_snapshot_id(), set.publication_id(), published.snapshot_id());
            let publication_id = Digest::of(of.as_bytes()).to_string().get(..32).map(String::from);
            let options = AnnotationOptions { publication_id, metadata: set.metadata().clone(), ..Default::default() };
            publish_annotations(&published, set.name(), rows, &options)?;
        }
        Ok(published)
    }
}

/// Publishes several views, one behind the other, as one dataset that refers to the objects of theirs, see [`View::publish`]. Annotations
/// stay behind: sets of several datasets are not one.
///
/// # Errors
/// Those of [`View::publish`].
pub fn publish_views(views: &[View], store: &Arc<dyn Store>, publication: &Publication, options: &Options) -> Result<Dataset> {
    let publication = Publication { metadata: marked(&publication.metadata)?, ..publication.clone() };
    check_names(&publication)?;
    let guard = Guard::new(&**store)?;
    not_another(&**store, &publication, options)?;
    // The reference package writes an entry for each record, and its pages into a folder by the snapshot's name.
    let most = if options.compat { 1 } else { MOST_INDICES };
    let folder: String = publication.snapshot_id.chars().take(2).collect();
    let mut next = 0;
    let entries = views.iter().flat_map(|view| Entries { view, next: 0, most, compat: options.compat }).map(|shard| {
        let shard = Shard { first_ordinal: next, ..shard? };
        next += shard.record_count;
        Ok(shard)
    });
    publish_entries(store, entries, &publication, options.compat.then_some(&*folder), options, guard)
}

/// A record that was read, to be written again.
pub(crate) fn taken_again(record: StoredRecord) -> Record {
    let data = (0..record.ranges().len()).map(|field| record.field(field)).collect();
    let (_, metadata, _) = record.into_parts();
    Record { metadata, data }
}

/// The metadata with the mark of a dataset that refers to another's objects.
fn marked(metadata: &Json) -> Result<Json> {
    let mut value = metadata.to_value()?;
    if let Some(members) = value.as_object_mut() {
        members.insert("reference_dataset".into(), true.into());
    }
    let json = Json::from_value(&value)?;
    Json::parse(json.as_str().as_bytes(), &Limits::default()).map_err(Error::from)
}

/// The entries of a view: neighbours of the same shard are one.
struct Entries<'a> {
    view: &'a View,
    next: usize,
    most: usize,
    compat: bool,
}

impl Entries<'_> {
    fn entry(&mut self, first: u64) -> Result<Shard> {
        let mut found = self.view.dataset.locate(first)?;
        let mut indices = vec![found.physical];
        let shard = found.shard();
        let (data, metadata) = (self.absolute(&shard.data)?, self.absolute(&shard.metadata)?);
        let first_ordinal = self.next as u64;
        self.next += 1;
        while indices.len() < self.most
            && let Some(&ordinal) = self.view.ordinals.get(self.next)
            && let Some(same) = found.moved_to(ordinal)
        {
            indices.push(same.physical);
            found = same;
            self.next += 1;
        }
        Ok(Shard { first_ordinal, record_count: indices.len() as u64, data, metadata, record_indices: Some(indices) })
    }

    fn absolute(&self, reference: &Reference) -> Result<Reference> {
        let path = match &reference.path {
            Place::Inside(path) => self.view.dataset.store().locate(path),
            Place::Elsewhere(text) => text.to_string(),
        };
        let place = Place::parse(&path).ok().filter(|place| matches!(place, Place::Elsewhere(_)));
        let path = place.ok_or_else(|| {
            Error::unsupported("the objects of this dataset have no absolute path, so that nothing can refer to them")
                .at(path)
                .remedy("materialize the view instead")
        })?;
        let sha256 = if self.compat { None } else { reference.sha256 };
        Ok(Reference { path, sha256, stored_bytes: reference.stored_bytes })
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Shard>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.view.ordinals.get(self.next).copied()?;
        Some(self.entry(first))
    }
}
