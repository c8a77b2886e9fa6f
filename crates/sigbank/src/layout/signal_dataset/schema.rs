//! What fields the records have: of some of them, or of all.

use super::RecordMetadata;
use super::dataset::Dataset;
use crate::error::Result;
use serde_json::{Value, json};
use sigbank_format::model::json::Json;
use sigbank_format::model::{DType, Field, FieldType, Metadata, Schema};
use sigbank_format::record::signal::{Axis, FieldMetadata, encode_metadata};

/// So many records of each of two shards tell what fields there are, where not all are asked.
const LOOKED_AT: u64 = 64;

/// The fields of the records that were looked at.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) schema: Schema,
    /// How many records.
    pub(super) records: u64,
    /// Bytes of all their samples.
    pub(super) value_bytes: u64,
    /// The same of each field.
    pub(super) by_field: Vec<u64>,
    /// The names of the axes of each field, where all of the records agree.
    axes: Vec<Option<Vec<String>>>,
}

impl Seen {
    /// Of some records of the first shard and of the last one that the first manifest page names: a few requests, however many shards there are.
    pub(super) fn some(dataset: &Dataset) -> Result<Self> {
        let mut ordinals: Vec<u64> = Vec::new();
        if !dataset.is_empty() {
            let page = dataset.page(0)?;
            let shards = || page.shards.iter().filter(|shard| shard.record_count > 0);
            for shard in [shards().next(), shards().next_back()].into_iter().flatten() {
                ordinals.extend(shard.first_ordinal..shard.first_ordinal + shard.record_count.min(LOOKED_AT));
            }
            ordinals.dedup();
            ordinals.sort_unstable();
            ordinals.dedup();
        }
        let mut fields = Fields::default();
        dataset.read_metadata(&ordinals)?.iter().for_each(|record| fields.add(record));
        fields.seen()
    }

    /// Of all records.
    pub(super) fn all(dataset: &Dataset) -> Result<Self> {
        let mut fields = Fields::default();
        for batch in dataset.metadata_batches(0..dataset.len()) {
            batch?.iter().for_each(|record| fields.add(record));
        }
        fields.seen()
    }

    /// Why a record cannot be among those of this schema; `whole` where all of its fields are wanted.
    pub(super) fn stray(&self, record: &RecordMetadata, wanted: &[usize], whole: bool) -> Option<String> {
        for field in &record.fields {
            let Some(at) = self.schema.position(&field.name) else {
                if whole {
                    return Some(format!(
                        "it has a field '{}', which none of the {} records looked at has",
                        field.name, self.records
                    ));
                }
                continue;
            };
            if let Some(FieldType::Array { dtype, shape }) = self.schema.fields.get(at).map(|known| &known.ty)
                && wanted.contains(&at)
                && (*dtype != field.dtype || *shape != field.shape)
            {
                let known = FieldType::Array { dtype: dtype.clone(), shape: shape.clone() };
                let found = FieldType::Array { dtype: field.dtype.clone(), shape: field.shape.clone() };
                return Some(format!("field '{}' is {found}, and {known} in the {} records looked at", field.name, self.records));
            }
            if wanted.contains(&at)
                && let Some(known) = self.axes.get(at).and_then(Option::as_ref)
                && !known.iter().eq(field.axes.iter().map(|axis| &axis.name))
            {
                let found = names(field).join(", ");
                return Some(format!(
                    "field '{}' has the axes ({found}), and ({}) in the {} records looked at",
                    field.name,
                    known.join(", "),
                    self.records
                ));
            }
        }
        let lacks = |at: &&usize| {
            let known = self.schema.fields.get(**at);
            known.is_some_and(|known| {
                matches!(known.ty, FieldType::Array { .. }) && !record.fields.iter().any(|field| field.name == known.name)
            })
        };
        let name = self.schema.fields.get(*wanted.iter().find(lacks)?).map_or("", |field| &field.name);
        Some(format!("it has no field '{name}', which the {} records looked at have", self.records))
    }
}

/// The fields of the records so far, by name.
#[derive(Default)]
struct Fields {
    records: u64,
    all: Vec<(String, Common)>,
}

impl Fields {
    fn add(&mut self, record: &RecordMetadata) {
        self.records += 1;
        for field in &record.fields {
            let at = match self.all.binary_search_by(|(name, _)| name.as_str().cmp(&field.name)) {
                Ok(at) => at,
                Err(at) => {
                    self.all.insert(at, (field.name.clone(), Common::new(field)));
                    at
                }
            };
            if let Some((_, common)) = self.all.get_mut(at) {
                common.add(field);
            }
        }
    }

    fn seen(self) -> Result<Seen> {
        let by_field: Vec<u64> = self.all.iter().map(|(_, common)| common.bytes).collect();
        let axes = self.all.iter().map(|(_, common)| common.names.clone()).collect();
        let records = self.records;
        let fields = self.all.into_iter().map(|(name, common)| common.field(name, records)).collect::<Result<_>>()?;
        let value_bytes = by_field.iter().fold(0, |all: u64, &bytes| all.saturating_add(bytes));
        Ok(Seen { schema: Schema { fields }, records, value_bytes, by_field, axes })
    }
}

/// What all records so far say of a field.
struct Common {
    records: u64,
    /// Bytes of their samples.
    bytes: u64,
    dtype: Option<DType>,
    shape: Option<Vec<usize>>,
    axes: Option<Vec<Axis>>,
    names: Option<Vec<String>>,
    metadata: Option<Json>,
}

impl Common {
    fn new(field: &FieldMetadata) -> Self {
        Self {
            records: 0,
            bytes: 0,
            dtype: Some(field.dtype.clone()),
            shape: Some(field.shape.clone()),
            axes: Some(field.axes.clone()),
            names: Some(names(field)),
            metadata: Some(field.metadata.clone()),
        }
    }
    fn add(&mut self, field: &FieldMetadata) {
        self.records += 1;
        let bytes = field.shape.iter().fold(field.dtype.itemsize() as u64, |all, &n| all.saturating_mul(n as u64));
        self.bytes = self.bytes.saturating_add(bytes);
        self.dtype.take_if(|dtype| *dtype != field.dtype);
        self.shape.take_if(|shape| *shape != field.shape);
        self.axes.take_if(|axes| *axes != field.axes);
        if self.axes.is_none() {
            self.names.take_if(|these| !these.iter().eq(field.axes.iter().map(|axis| &axis.name)));
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
    let json = Json::parse(&document, &Default::default())?;
    let mut axes = json.to_value()?.pointer_mut("/fields/x/axes").map(Value::take).unwrap_or_default();
    for (axis, reference) in axes.as_array_mut().into_iter().flatten().zip(references) {
        if let (Some(coordinate), Some(reference)) = (axis.pointer_mut("/coordinate/reference"), reference) {
            *coordinate = reference.into();
        }
    }
    Ok(axes)
}
