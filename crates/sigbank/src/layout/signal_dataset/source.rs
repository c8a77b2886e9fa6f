//! The dataset as a layout-neutral [`Source`].

use super::dataset::Dataset;
use super::ids::IdIndex;
use super::read::StoredRecord;
use super::{Place, RecordMetadata};
use crate::error::{Error, Result};
use crate::layout::{Figures, RowSink, Source, Split, Units, Verified};
use serde_json::{Value, json};
use sigbank_format::model::{DType, Field, FieldType, Metadata, Schema};
use sigbank_format::record::signal::{Axis, FieldMetadata, encode_metadata};
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The one split.
const SPLIT: &str = "all";

/// A dataset seen as [`Source`]: one split `all`, a unit for each shard, a field for each field name of any record.
///
/// A field whose dtype and shape are those of all records is an array. Of any other (ragged, or missing in some records) the values are
/// the samples' bytes, of varying length and none where a record lacks it, placed with their type ([`RowSink::place_ragged`]); its metadata
/// tells `ragged`, and the dtype where that is the same.
/// Metadata of a field: `axes` where all records agree (with coordinates), else their names, and what the producer says where all agree.
#[derive(Debug, Clone)]
pub struct SignalSource {
    dataset: Dataset,
    metadata: Metadata,
    schema: Schema,
    units: Arc<Units>,
    /// Bytes of all records' samples.
    value_bytes: u64,
    /// The manifest page of each unit, by the first unit of each page.
    pages: Vec<usize>,
    /// Which records have which id, once that was asked for.
    ids: Arc<OnceLock<IdIndex>>,
}

/// What all records so far say of a field.
struct Common {
    records: u64,
    dtype: Option<DType>,
    shape: Option<Vec<usize>>,
    axes: Option<Vec<Axis>>,
    names: Option<Vec<String>>,
    metadata: Option<sigbank_format::model::json::Json>,
}

impl Common {
    fn new(field: &FieldMetadata) -> Self {
        Self {
            records: 0,
            dtype: Some(field.dtype.clone()),
            shape: Some(field.shape.clone()),
            axes: Some(field.axes.clone()),
            names: Some(names(field)),
            metadata: Some(field.metadata.clone()),
        }
    }
    fn add(&mut self, field: &FieldMetadata) {
        self.records += 1;
        self.dtype.take_if(|dtype| *dtype != field.dtype);
        self.shape.take_if(|shape| *shape != field.shape);
        self.axes.take_if(|axes| *axes != field.axes);
        if self.axes.is_none() {
            self.names.take_if(|these| *these != names(field));
        }
        self.metadata.take_if(|metadata| *metadata != field.metadata);
    }
    fn field(self, name: String, records: u64) -> Result<Field> {
        let mut metadata = Metadata::new();
        let everywhere = self.records == records;
        if let Some(axes) = &self.axes {
            metadata.insert("axes".into(), axes_value(axes)?);
        } else if let Some(names) = self.names {
            metadata.insert("axes".into(), names.into_iter().map(|name| json!({ "name": name })).collect());
        }
        if let Some(said) = self.metadata.filter(|said| said.as_str() != "{}") {
            metadata.insert("metadata".into(), said.to_value()?);
        }
        let ty = match (self.dtype, self.shape) {
            (Some(dtype), Some(shape)) if everywhere => FieldType::Array { dtype, shape },
            (dtype, _) => {
                metadata.insert("ragged".into(), true.into());
                if let Some(dtype) = dtype {
                    metadata.insert("dtype".into(), dtype.name().into());
                }
                FieldType::Bytes { len: None }
            }
        };
        Ok(Field { name, ty, metadata })
    }
}

fn names(field: &FieldMetadata) -> Vec<String> {
    field.axes.iter().map(|axis| axis.name.clone()).collect()
}

/// The axes as JSON, as the metadata documents have them.
fn axes_value(axes: &[Axis]) -> Result<Value> {
    let mut alone: Vec<Axis> = axes.to_vec();
    let mut references = Vec::new();
    // A reference to another field does not resolve here.
    for axis in &mut alone {
        references.push(axis.coordinate.as_mut().and_then(|coordinate| coordinate.reference.take()));
    }
    let shape = alone.iter().map(|axis| axis.length as usize).collect();
    let field = FieldMetadata { axes: alone, ..FieldMetadata::new("x", "uint8".parse()?, shape) };
    let document = encode_metadata(&RecordMetadata::new("x", vec![field]), &super::ResourcePolicy::default())?;
    let json = sigbank_format::model::json::Json::parse(&document, &Default::default())?;
    let mut axes = json.to_value()?.pointer_mut("/fields/x/axes").map(Value::take).unwrap_or_default();
    for (axis, reference) in axes.as_array_mut().into_iter().flatten().zip(references) {
        if let (Some(coordinate), Some(reference)) = (axis.pointer_mut("/coordinate/reference"), reference) {
            *coordinate = reference.into();
        }
    }
    Ok(axes)
}

impl SignalSource {
    pub(super) fn new(dataset: Dataset) -> Result<Self> {
        let mut fields: Vec<(String, Common)> = Vec::new();
        let mut value_bytes = 0u64;
        for batch in dataset.metadata_batches(0..dataset.len()) {
            for record in batch? {
                for field in &record.fields {
                    let elements = field.shape.iter().fold(field.dtype.itemsize() as u64, |all, &n| all.saturating_mul(n as u64));
                    value_bytes = value_bytes.saturating_add(elements);
                    let at = match fields.binary_search_by(|(name, _)| name.as_str().cmp(&field.name)) {
                        Ok(at) => at,
                        Err(at) => {
                            fields.insert(at, (field.name.clone(), Common::new(field)));
                            at
                        }
                    };
                    if let Some((_, common)) = fields.get_mut(at) {
                        common.add(field);
                    }
                }
            }
        }
        let fields = fields.into_iter().map(|(name, common)| common.field(name, dataset.len())).collect::<Result<_>>()?;
        let (mut counts, mut pages) = (Vec::new(), Vec::new());
        for number in 0..dataset.snapshot().manifests.len() {
            pages.push(counts.len());
            counts.extend(dataset.page(number)?.shards.iter().map(|shard| shard.record_count));
        }
        let metadata = match dataset.metadata().to_value()? {
            Value::Object(members) => members,
            _ => Metadata::new(),
        };
        Ok(Self {
            metadata,
            schema: Schema { fields },
            units: Arc::new(Units::from_counts(counts)),
            value_bytes,
            pages,
            ids: Arc::default(),
            dataset,
        })
    }

    /// The dataset with all that the layout offers.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    fn known(&self, split: &str) -> Result<()> {
        if split == SPLIT {
            return Ok(());
        }
        Err(Error::not_found(format!("there is no split '{split}': a signal-dataset has one, '{SPLIT}'")).at(self.location()))
    }

    fn put(&self, record: &StoredRecord, row: usize, fields: &[usize], out: &mut dyn RowSink) -> Result<()> {
        for (at, &field) in fields.iter().enumerate() {
            let Some(wanted) = self.schema.fields.get(field) else {
                return Err(Error::invalid(format!("there is no field {field}: the schema has {}", self.schema.fields.len())));
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
        &self.schema
    }
    fn splits(&self) -> Vec<Split> {
        vec![Split { name: SPLIT.into(), records: self.units.records(), units: self.units.len() as u64 }]
    }
    fn units(&self, split: &str) -> Result<Arc<Units>> {
        self.known(split).map(|()| Arc::clone(&self.units))
    }
    fn unit_name(&self, split: &str, unit: usize) -> Result<String> {
        self.known(split)?;
        let page = self.pages.partition_point(|first| *first <= unit).checked_sub(1);
        let first = page.and_then(|page| self.pages.get(page)).copied().unwrap_or_default();
        let shard = page.map(|page| self.dataset.page(page)).transpose()?;
        let name = shard.and_then(|page| Some(page.shards.get(unit - first)?.data.path.to_string()));
        name.ok_or_else(|| Error::not_found(format!("there is no unit {unit}: the dataset has {}", self.units.len())))
    }
    fn unit_metadata(&self, split: &str, _unit: usize) -> Result<Metadata> {
        self.known(split).map(|()| Metadata::new())
    }
    fn random_access(&self) -> bool {
        true
    }
    fn read_unit(&self, split: &str, unit: usize, records: &[u32], fields: &[usize], out: &mut dyn RowSink) -> Result<()> {
        self.known(split)?;
        let Some(start) = self.units.start(unit) else {
            return Err(Error::not_found(format!("there is no unit {unit}: the dataset has {}", self.units.len())));
        };
        // A few at a time: their payloads are held until they are copied.
        for (rows, chunk) in records.chunks(16).enumerate() {
            let ordinals: Vec<u64> = chunk.iter().map(|&n| start + u64::from(n)).collect();
            let got: Vec<StoredRecord> = self.dataset.many(&ordinals, 1)?;
            for (row, record) in got.iter().enumerate() {
                self.put(record, rows * 16 + row, fields, out)
                    .map_err(|e| e.within(format!("record '{}'", record.metadata().id)).at(self.location()))?;
            }
        }
        Ok(())
    }
    fn ids(&self, split: &str, ordinals: Range<u64>) -> Result<Vec<String>> {
        self.known(split)?;
        super::ids::of(&self.dataset, ordinals)
    }
    fn by_id(&self, id: &str) -> Result<(String, u64)> {
        let index = match self.ids.get() {
            Some(index) => index,
            None => {
                let index = IdIndex::new(&self.dataset)?;
                self.ids.get_or_init(|| index)
            }
        };
        index.find(&self.dataset, id).map(|ordinal| (SPLIT.into(), ordinal))
    }
    fn verify(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        self.dataset.verify(progress)
    }
    fn figures(&self) -> Result<Option<Figures>> {
        let mut found = Figures { value_bytes: self.value_bytes, ..Figures::default() };
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
