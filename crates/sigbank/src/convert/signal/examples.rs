//! The examples of a Sedpack dataset as records.

use crate::error::{Error, Result};
use crate::layout::signal_dataset::{Record, ResourcePolicy};
use crate::layout::{Collected, Source};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use sigbank_format::model::FieldType;
use sigbank_format::model::json::Json;
use sigbank_format::record::signal::{Axis, FieldMetadata, RecordMetadata, validate};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec::IntoIter;

/// Bytes of examples that are read at once, where a few can be.
const TOGETHER: usize = 8 << 20;

/// Names of axes: those of one field, or of every field with as many.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct AxisNames {
    all: Vec<String>,
    fields: BTreeMap<String, Vec<String>>,
}

impl AxisNames {
    /// From `channel`, `time`, or `iq=channel`, `time`, `mask=time`: what has no `=` goes on with what the last name with one began.
    pub(super) fn parse(words: &[String]) -> Result<Self> {
        let (mut names, mut of) = (Self::default(), None);
        for word in words {
            let name = match word.split_once('=') {
                Some((field, name)) => {
                    if names.fields.insert(field.into(), Vec::new()).is_some() {
                        return Err(Error::invalid(format!("the axes of '{field}' are named twice")));
                    }
                    of = Some(field);
                    name
                }
                None => word,
            };
            match of.and_then(|field| names.fields.get_mut(field)) {
                Some(list) => list.push(name.into()),
                None => names.all.push(name.into()),
            }
        }
        Ok(names)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.fields.is_empty()
    }

    /// The names for a field of `rank` axes.
    fn of(&self, field: &str, rank: usize, scalar: bool) -> Result<Vec<String>> {
        let dims = || (0..rank).map(|n| format!("dim_{n}")).collect();
        match self.fields.get(field) {
            Some(names) if names.len() != rank => {
                Err(Error::invalid(format!("{} axes are named ({}), but it has {rank}", names.len(), names.join(", ")))
                    .within(format!("field '{field}'")))
            }
            Some(names) => Ok(names.clone()),
            None if self.all.len() == rank && !scalar => Ok(self.all.clone()),
            None => Ok(dims()),
        }
    }
}

/// What each field of the examples becomes.
#[derive(Debug, Clone)]
pub(super) struct Mapping {
    /// By position in the schema: a field, or none for what goes into the metadata.
    fields: Vec<Option<FieldMetadata>>,
    /// Bytes of one example, as far as they are known.
    pub(super) example: usize,
}

impl Mapping {
    pub(super) fn new(source: &dyn Source, names: &AxisNames) -> Result<Self> {
        let located = |e: Error| e.at(source.location());
        let (mut fields, mut example) = (Vec::new(), 0usize);
        let all = &source.schema().fields;
        if let Some(unknown) = names.fields.keys().find(|name| !all.iter().any(|field| field.name == **name)) {
            let known: Vec<_> = all.iter().map(|field| field.name.as_str()).collect();
            let e = Error::invalid(format!("axes are named for a field '{unknown}', which is not there"));
            return Err(located(e.remedy(format!("the fields are {}", known.join(", ")))));
        }
        let mut used = names.all.is_empty();
        for field in all {
            example = example.saturating_add(field.ty.fixed_len()?.unwrap_or_default());
            let FieldType::Array { dtype, shape } = &field.ty else {
                fields.push(None);
                continue;
            };
            let scalar = shape.is_empty();
            used |= names.all.len() == shape.len();
            // The layout has no scalars: one is an array of one value.
            let shape = if shape.is_empty() { &vec![1] } else { shape };
            let names = names.of(&field.name, shape.len(), scalar).map_err(located)?;
            let axes = names.into_iter().zip(shape).map(|(name, length)| Axis::new(name, *length as u64)).collect();
            let metadata = Json::from_value(&Value::Object(field.metadata.clone()))?;
            let told = FieldMetadata { axes, metadata, ..FieldMetadata::new(&*field.name, dtype.clone(), shape.clone()) };
            fields.push(Some(told));
        }
        if !used {
            let what = format!("{} axes are named ({}), and no field has as many", names.all.len(), names.all.join(", "));
            return Err(located(Error::invalid(what)));
        }
        let mapping = Self { fields, example };
        let all = RecordMetadata::new("x", mapping.fields.iter().flatten().cloned().collect());
        validate(&all, &ResourcePolicy::default()).map_err(|e| located(e.into()))?;
        Ok(mapping)
    }

    fn record(&self, source: &dyn Source, id: String, said: &Map<String, Value>, row: Vec<Vec<u8>>) -> Result<Record> {
        let (mut fields, mut data, mut values) = (Vec::new(), Vec::new(), Map::new());
        for ((told, declared), bytes) in self.fields.iter().zip(&source.schema().fields).zip(row) {
            match told {
                Some(field) => {
                    fields.push(field.clone());
                    data.push(Bytes::from(bytes));
                }
                None => {
                    values.insert(declared.name.clone(), value(&declared.ty, bytes)?);
                }
            }
        }
        let mut metadata = said.clone();
        if !values.is_empty() {
            metadata.insert("values".into(), values.into());
        }
        let metadata = Json::from_value(&Value::Object(metadata))?;
        // Fields stand in the order of their names.
        let mut both: Vec<(FieldMetadata, Bytes)> = fields.into_iter().zip(data).collect();
        both.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        let (fields, data) = both.into_iter().unzip();
        Ok(Record { metadata: RecordMetadata { metadata, ..RecordMetadata::new(id, fields) }, data })
    }
}

/// What is no array, as JSON.
fn value(ty: &FieldType, bytes: Vec<u8>) -> Result<Value> {
    Ok(match ty {
        FieldType::Int => {
            let found = <[u8; 8]>::try_from(&bytes[..]);
            json!(i64::from_le_bytes(found.map_err(|_| Error::corrupt(format!("an integer of {} bytes", bytes.len())))?))
        }
        FieldType::Str => json!(String::from_utf8(bytes).map_err(|_| Error::corrupt("text that is not UTF-8"))?),
        _ => json!({ "base64": base64(&bytes) }),
    })
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS.get((bits >> (18 - 6 * at) & 63) as usize).copied().unwrap_or_default();
            out.push(if at > three.len() { '=' } else { digit.into() });
        }
    }
    out
}

/// All examples, split by split, in stored order.
pub(super) struct Examples<'a> {
    source: Arc<dyn Source>,
    mapping: &'a Mapping,
    prefix: String,
    splits: IntoIter<String>,
    split: String,
    /// The next unit, and of it the next record.
    unit: usize,
    at: u64,
    /// The number in the split of the next record that is handed out.
    number: u64,
    said: Map<String, Value>,
    rows: IntoIter<Vec<u8>>,
    failed: bool,
}

impl<'a> Examples<'a> {
    pub(super) fn new(source: Arc<dyn Source>, mapping: &'a Mapping, prefix: String) -> Self {
        let splits: Vec<String> = source.splits().into_iter().map(|split| split.name).collect();
        let mut splits = splits.into_iter();
        let split = splits.next().unwrap_or_default();
        let (said, rows) = (Map::new(), Vec::new().into_iter());
        Self { source, mapping, prefix, splits, split, unit: 0, at: 0, number: 0, said, rows, failed: false }
    }

    /// Reads some records more; whether there were any.
    fn fill(&mut self) -> Result<bool> {
        loop {
            if self.split.is_empty() {
                return Ok(false);
            }
            let units = self.source.units(&self.split)?;
            if self.unit >= units.len() {
                self.split = self.splits.next().unwrap_or_default();
                (self.unit, self.at, self.number) = (0, 0, 0);
                continue;
            }
            let left = units.count(self.unit) - self.at;
            if left == 0 {
                (self.unit, self.at) = (self.unit + 1, 0);
                continue;
            }
            // A compressed unit is decoded as a whole, so all of it is taken.
            let few = (TOGETHER / self.mapping.example.max(1)).max(1) as u64;
            let n = if self.source.random_access() { left.min(few) } else { left };
            let fields: Vec<usize> = (0..self.mapping.fields.len()).collect();
            let ordinals: Vec<u32> = (self.at..self.at + n).map(|at| at as u32).collect();
            let mut rows = Declared(Collected::new(ordinals.len(), fields.len()));
            self.source.read_unit(&self.split, self.unit, &ordinals, &fields, &mut rows)?;
            self.rows = rows.0.into_values().into_iter();
            self.said = Map::from_iter([("split".to_owned(), json!(self.split))]);
            let shard = self.source.unit_metadata(&self.split, self.unit)?;
            if !shard.is_empty() {
                self.said.insert("shard".into(), shard.into());
            }
            self.at += n;
            return Ok(true);
        }
    }
}

/// Keeps values as they are declared.
struct Declared(Collected);

impl crate::layout::RowSink for Declared {
    fn place(&mut self, row: usize, field: usize, len: usize) -> Result<&mut [u8]> {
        self.0.place(row, field, len)
    }
    fn goes_through_units(&self) -> bool {
        true
    }
}

impl Iterator for Examples<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        if self.rows.len() == 0 {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => {
                    self.failed = true;
                    return Some(Err(e.at(self.source.location())));
                }
            }
        }
        let row: Vec<Vec<u8>> = self.rows.by_ref().take(self.mapping.fields.len()).collect();
        let id = format!("{}{}/{}", self.prefix, self.split, self.number);
        self.number += 1;
        Some(self.mapping.record(&*self.source, id, &self.said, row).map_err(|e| e.at(self.source.location())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_base64() {
        let of = |text: &str| base64(text.as_bytes());
        let all = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(of);
        assert_eq!(all, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn axes_by_field_and_by_number() {
        let names = |text: &str| AxisNames::parse(&text.split(',').map(String::from).collect::<Vec<_>>());
        let both = names("channel,time,iq=c,t,mask=t").unwrap();
        assert_eq!(
            (both.of("x", 2, false).unwrap(), both.of("x", 1, false).unwrap()),
            (vec!["channel".into(), "time".into()], vec!["dim_0".into()])
        );
        assert_eq!(
            (both.of("iq", 2, false).unwrap(), both.of("mask", 1, false).unwrap()),
            (vec!["c".into(), "t".into()], vec!["t".into()])
        );
        assert!(both.of("mask", 2, false).unwrap_err().to_string().contains("1 axes are named (t), but it has 2"));
        assert_eq!(
            (both.of("x", 1, true).unwrap(), names("t").unwrap().of("x", 1, true).unwrap()),
            (vec!["dim_0".into()], vec!["dim_0".into()])
        );
        assert!(names("a=x,a=y").unwrap_err().message().contains("twice"));
    }
}
