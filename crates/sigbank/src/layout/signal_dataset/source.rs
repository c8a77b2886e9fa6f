//! The dataset as a layout-neutral [`Source`].

use super::dataset::Dataset;
use super::ids::IdIndex;
use super::read::StoredRecord;
use super::schema::Seen;
use super::{AnnotationRow, Place};
use crate::error::{Error, Result};
use crate::layout::{Annotation, Annotations, Figures, OwnFields, RowSink, Source, Split, Stored, Units, Verified};
use serde_json::Value;
use sigbank_format::model::json::Json;
use sigbank_format::model::{FieldType, Metadata, Schema};
use sigbank_format::record::signal::FieldMetadata;
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The one split.
const SPLIT: &str = "all";

/// A dataset seen as [`Source`]: one split `all`, a unit for each shard, a field for each field name of any record.
///
/// A field whose dtype and shape are those of all records is an array. Of any other (ragged, or missing in some records) the values are
/// the samples' bytes, of varying length and none where a record lacks it, placed with their type ([`RowSink::place_ragged`]); its metadata
/// tells `ragged`, and the dtype where that is the same.
/// Metadata of a field: `axes` where all records agree (with coordinates), else their names, and what the producer says where all agree.
///
/// What fields there are is taken from some records, so that opening costs the same however many there are; [`Source::exact`] looks at all.
/// Until then a record that does not fit (whose field has another dtype, shape or other axes, by name) is an `Unsupported` error that names it
/// and the field. What `axes` says beyond names is that of the records looked at.
#[derive(Debug, Clone)]
pub struct SignalSource {
    dataset: Dataset,
    metadata: Metadata,
    seen: Arc<Seen>,
    /// What clones of it have found out.
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The fields of all records.
    all: OnceLock<Arc<Seen>>,
    /// Whether a record was met that does not fit those looked at.
    strayed: AtomicBool,
    units: OnceLock<Numbered>,
    ids: OnceLock<IdIndex>,
}

/// The units.
#[derive(Debug)]
struct Numbered {
    units: Arc<Units>,
    /// The first unit of each manifest page.
    pages: Vec<usize>,
}

fn object(json: &Json) -> Result<Metadata> {
    Ok(match json.to_value()? {
        Value::Object(members) => members,
        _ => Metadata::new(),
    })
}

impl SignalSource {
    pub(super) fn new(dataset: Dataset) -> Result<Self> {
        let seen = Arc::new(Seen::some(&dataset)?);
        let shared = Arc::<Shared>::default();
        if seen.records == dataset.len() {
            shared.all.get_or_init(|| Arc::clone(&seen));
        }
        Ok(Self { metadata: object(dataset.metadata())?, seen, shared, dataset })
    }

    fn numbered(&self) -> Result<&Numbered> {
        if let Some(known) = self.shared.units.get() {
            return Ok(known);
        }
        let (mut counts, mut pages) = (Vec::new(), Vec::new());
        for number in 0..self.dataset.snapshot().manifests.len() {
            pages.push(counts.len());
            counts.extend(self.dataset.page(number)?.shards.iter().map(|shard| shard.record_count));
        }
        Ok(self.shared.units.get_or_init(|| Numbered { units: Arc::new(Units::from_counts(counts)), pages }))
    }

    fn no_unit(&self, unit: usize) -> Error {
        let units = self.dataset.snapshot().shard_count;
        Error::not_found(format!("there is no unit {unit}: the dataset has {units}")).at(self.location())
    }

    fn is_exact(&self) -> bool {
        self.seen.records == self.dataset.len()
    }

    /// The dataset with all that the layout offers.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    fn ids(&self) -> Result<&IdIndex> {
        if let Some(index) = self.shared.ids.get() {
            return Ok(index);
        }
        let index = IdIndex::new(&self.dataset)?;
        Ok(self.shared.ids.get_or_init(|| index))
    }

    fn known(&self, split: &str) -> Result<()> {
        if split == SPLIT {
            return Ok(());
        }
        Err(Error::not_found(format!("there is no split '{split}': a signal-dataset has one, '{SPLIT}'")).at(self.location()))
    }

    fn put(&self, record: &StoredRecord, row: usize, fields: &[usize], out: &mut dyn RowSink) -> Result<()> {
        let whole = fields.len() >= self.seen.schema.fields.len();
        if !self.is_exact()
            && let Some(why) = self.seen.stray(record.metadata(), fields, whole)
        {
            self.shared.strayed.store(true, Ordering::Relaxed);
            return Err(Error::unsupported(why)
                .remedy("records differ: take Source::exact, which looks at all of them, and go on at the loader's position"));
        }
        for (at, &field) in fields.iter().enumerate() {
            let Some(wanted) = self.seen.schema.fields.get(field) else {
                return Err(Error::invalid(format!(
                    "there is no field {field}: the schema has {}",
                    self.seen.schema.fields.len()
                )));
            };
            let found = record.metadata().fields.iter().enumerate().find(|(_, f)| f.name == wanted.name);
            let samples = found.and_then(|(f, _)| record.payload().get(record.ranges().get(f)?.clone())).unwrap_or_default();
            let placed = match (&wanted.ty, found) {
                (FieldType::Bytes { .. }, Some((_, f))) => {
                    let of = FieldType::Array { dtype: f.dtype.clone(), shape: f.shape.clone() };
                    out.place_ragged(row, at, &of, samples.len())
                }
                _ => out.place(row, at, samples.len()),
            };
            placed.map_err(|e| e.within(format!("field '{}'", wanted.name)))?.copy_from_slice(samples);
        }
        Ok(())
    }
}

impl Source for SignalSource {
    fn layout(&self) -> &'static str {
        "signal-dataset"
    }
    fn location(&self) -> String {
        self.dataset.location()
    }
    fn storage(&self) -> String {
        let what = match self.dataset.version_document() {
            None => format!("snapshot {}", self.dataset.snapshot_id()),
            Some(version) => format!("version {} '{}'", version.number, version.name),
        };
        format!("{what} of {}, shards of ArrayRecord", self.dataset.dataset_id())
    }
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
    fn schema(&self) -> &Schema {
        &self.seen.schema
    }
    fn splits(&self) -> Vec<Split> {
        vec![Split { name: SPLIT.into(), records: self.dataset.len(), units: self.dataset.snapshot().shard_count }]
    }
    fn units(&self, split: &str) -> Result<Arc<Units>> {
        self.known(split)?;
        Ok(Arc::clone(&self.numbered()?.units))
    }
    fn unit_name(&self, split: &str, unit: usize) -> Result<String> {
        self.known(split)?;
        let pages = &self.numbered()?.pages;
        let page = pages.partition_point(|first| *first <= unit).checked_sub(1);
        let first = page.and_then(|page| pages.get(page)).copied().unwrap_or_default();
        let shard = page.map(|page| self.dataset.page(page)).transpose()?;
        let name = shard.and_then(|page| Some(page.shards.get(unit - first)?.data.path.to_string()));
        name.ok_or_else(|| self.no_unit(unit))
    }
    fn unit_metadata(&self, split: &str, _unit: usize) -> Result<Metadata> {
        self.known(split).map(|()| Metadata::new())
    }
    fn random_access(&self) -> bool {
        true
    }
    fn read_unit(&self, split: &str, unit: usize, records: &[u32], fields: &[usize], out: &mut dyn RowSink) -> Result<()> {
        self.known(split)?;
        let start = self.numbered()?.units.start(unit).ok_or_else(|| self.no_unit(unit))?;
        let ordinals: Vec<u64> = records.iter().map(|&n| start + u64::from(n)).collect();
        self.dataset.each(&ordinals, |row, record| {
            self.put(&record, row, fields, out)
                .map_err(|e| e.within(format!("record '{}'", record.metadata().id)).at(self.location()))
        })
    }
    fn round_trip(&self) -> u64 {
        self.dataset.round_trip()
    }
    fn parts_far_away(&self) -> bool {
        true
    }
    fn value_size(&self, field: usize) -> Option<u64> {
        self.seen.by_field.get(field)?.checked_div(self.seen.records)
    }
    fn schema_of(&self) -> Option<u64> {
        (!self.is_exact()).then_some(self.seen.records)
    }
    fn exact(&self, cheaply: bool) -> Result<Option<Arc<dyn Source>>> {
        let (known, strayed) = (self.shared.all.get(), self.shared.strayed.load(Ordering::Relaxed));
        if self.is_exact() || (cheaply && known.is_none() && !strayed && self.round_trip() > 0) {
            return Ok(None);
        }
        let seen = match known {
            Some(seen) => Arc::clone(seen),
            None => {
                let seen = Arc::new(Seen::all(&self.dataset)?);
                Arc::clone(self.shared.all.get_or_init(|| seen))
            }
        };
        Ok(Some(Arc::new(Self { seen, ..self.clone() })))
    }
    fn read_own(&self, split: &str, ordinals: &[u64]) -> Result<Option<Vec<OwnFields>>> {
        self.known(split)?;
        let own = |record: &StoredRecord| {
            let fields = record.metadata().fields.iter().zip(record.ranges());
            let one = |(field, range): (&FieldMetadata, &Range<usize>)| {
                let ty = FieldType::Array { dtype: field.dtype.clone(), shape: field.shape.clone() };
                let bytes = record.payload().get(range.clone()).unwrap_or_default().to_vec();
                (field.name.clone(), Stored { ty: Some(ty), bytes })
            };
            fields.map(one).collect()
        };
        Ok(Some(self.dataset.read(ordinals)?.iter().map(own).collect()))
    }
    fn ids(&self, split: &str, ordinals: Range<u64>) -> Result<Vec<String>> {
        self.known(split)?;
        self.dataset.reaches(&ordinals)?;
        // Who asks for all may ask for one by its id next.
        let index = if ordinals == (0..self.dataset.len()) { Some(self.ids()?) } else { self.shared.ids.get() };
        match index.and_then(|index| index.range(&ordinals)) {
            Some(ids) => Ok(ids),
            None => super::ids::of(&self.dataset, ordinals),
        }
    }
    fn by_id(&self, id: &str) -> Result<(String, u64)> {
        self.ids()?.find(&self.dataset, id).map(|ordinal| (SPLIT.into(), ordinal))
    }
    fn annotation_sets(&self) -> Result<Vec<String>> {
        Ok(self.dataset.annotations()?.names().map(str::to_owned).collect())
    }
    fn annotations(&self, set: &str, split: &str, ordinals: Range<u64>) -> Result<Annotations> {
        self.known(split)?;
        self.dataset.reaches(&ordinals)?;
        let one = |row: Result<AnnotationRow>| {
            let row = row?;
            let values = object(&row.values)?;
            let (id, status) = (row.source_record_id, row.status.as_str());
            Ok(Annotation { id, status, detail_status: row.detail_status, values })
        };
        Ok(Box::new(self.dataset.annotations()?.open(set)?.rows_of(ordinals).map(one)))
    }
    fn verify(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        self.dataset.verify(progress)
    }
    fn figures(&self) -> Result<Option<Figures>> {
        let value_bytes = self.is_exact().then_some(self.seen.value_bytes);
        let mut found = Figures { value_bytes, ..Figures::default() };
        // A view may name an object often; it is there once.
        let mut seen = HashSet::new();
        let location = self.location();
        // Elsewhere than on the local disk a look at each object costs a request: `verify` looks.
        let local = Path::new(&location).is_absolute();
        for number in 0..self.dataset.snapshot().manifests.len() {
            for shard in &self.dataset.page(number)?.shards {
                if !seen.insert(shard.data.path.clone()) {
                    continue;
                }
                found.stored_bytes = found.stored_bytes.saturating_add(shard.data.stored_bytes);
                let metadata = found.metadata_bytes.get_or_insert(0);
                *metadata = metadata.saturating_add(shard.metadata.stored_bytes);
                let gone = |place: &Place| {
                    let text = place.as_str();
                    let path = text.strip_prefix("file://").unwrap_or(text);
                    local && !path.contains("://") && !Path::new(&location).join(path).is_file()
                };
                found.missing += u64::from(gone(&shard.data.path) || gone(&shard.metadata.path));
            }
        }
        Ok(Some(found))
    }
    fn root_digest(&self) -> Result<String> {
        Ok(format!("sha256:{}", self.dataset.root_digest()))
    }
}
