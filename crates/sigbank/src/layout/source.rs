//! The reading side of the layout-neutral interface.

use crate::error::{Error, Result};
use crate::store::Opening;
use sigbank_format::model::{FieldType, Metadata, Schema};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// One split of a dataset and how much it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Its name, such as `train`.
    pub name: String,
    /// Records in it.
    pub records: u64,
    /// Units (shards, runs of records, items) in it.
    pub units: u64,
}

/// The units of one split as columns: where each one's records begin. Eight bytes a unit.
///
/// ```
/// use sigbank::layout::Units;
/// let units = Units::from_counts([3, 0, 2]);
/// assert_eq!((units.len(), units.records()), (3, 5));
/// assert_eq!((units.locate(2), units.locate(3), units.locate(5)), (Some((0, 2)), Some((2, 0)), None));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Units {
    starts: Vec<u64>,
}

impl Units {
    /// Units of the given record counts, in stored order.
    pub fn from_counts(counts: impl IntoIterator<Item = u64>) -> Self {
        let mut starts = vec![0];
        let mut all = 0u64;
        starts.extend(counts.into_iter().map(|n| {
            all = all.saturating_add(n);
            all
        }));
        Self { starts }
    }
    /// How many units there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Records in all units together.
    pub fn records(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }
    /// The ordinal of a unit's first record; none past the last unit.
    pub fn start(&self, unit: usize) -> Option<u64> {
        if unit < self.len() { self.starts.get(unit).copied() } else { None }
    }
    /// Records in one unit; 0 past the last.
    pub fn count(&self, unit: usize) -> u64 {
        match (self.starts.get(unit), self.starts.get(unit + 1)) {
            (Some(a), Some(b)) => b - a,
            _ => 0,
        }
    }
    /// The unit that holds a record, and the record's place in it.
    pub fn locate(&self, ordinal: u64) -> Option<(usize, u64)> {
        if ordinal >= self.records() {
            return None;
        }
        let unit = self.starts.partition_point(|&s| s <= ordinal) - 1;
        self.starts.get(unit).map(|s| (unit, ordinal - s))
    }
}

/// Where a source puts the values it reads: the consumer hands out the memory.
pub trait RowSink {
    /// The memory for one value: field `field` (a position in the fields asked for) of the `row`-th record asked for,
    /// `len` bytes long. Each value is asked for at most once, in whatever order suits the source, and is filled
    /// completely.
    ///
    /// # Errors
    /// `Invalid` where the length is not what the consumer can take.
    fn place(&mut self, row: usize, field: usize, len: usize) -> Result<&mut [u8]>;

    /// As [`RowSink::place`], for a value that is stored as another type than the schema declares (Sedpack's npz shards may hold
    /// such values). The source puts the field's name before an error.
    ///
    /// # Errors
    /// `Unsupported` by default: most consumers lay values out by the schema.
    fn place_as(&mut self, row: usize, field: usize, stored: &FieldType, len: usize) -> Result<&mut [u8]> {
        let _ = (row, field, len);
        Err(stored_as(stored))
    }

    /// As [`RowSink::place`], for a value of a field without one type for all records: `of` is this one's (an array's dtype and shape). A
    /// record without the field has a value of no bytes, by `place`.
    ///
    /// # Errors
    /// Those of [`RowSink::place`], which it is by default: most consumers want the bytes.
    fn place_ragged(&mut self, row: usize, field: usize, of: &FieldType, len: usize) -> Result<&mut [u8]> {
        let _ = of;
        self.place(row, field, len)
    }

    /// Whether the consumer goes through whole units, though it may ask for some records at a time, and so hands nothing out before
    /// the checksums inside a unit have been compared where that takes reading all of it (of npz: the members'). False by default,
    /// for who wants a few records of a unit.
    fn goes_through_units(&self) -> bool {
        false
    }
}

/// The refusal of a value that is stored as another type than the declared one.
pub(crate) fn stored_as(stored: &FieldType) -> Error {
    Error::unsupported(format!("{stored} is stored, which is not what is declared, and only single examples keep that")).remedy(
        "read the examples one by one (in Python: sigbank.open(path)[i], or as_numpy_iterator of sigbank.sedpack), or write the \
             dataset again with its values cast",
    )
}

/// One value with the type it is stored as.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stored {
    /// Its type, where that is not the declared one, and of a ragged field's value.
    pub ty: Option<FieldType>,
    /// Its bytes; of an array the elements in C order, little-endian.
    pub bytes: Vec<u8>,
}

/// The values of a record by the names of its fields, see [`Source::read_own`].
pub type OwnFields = Vec<(String, Stored)>;

/// How large a dataset is, see [`Source::figures`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// Bytes of the values of all fields; none where not all records were looked at.
    pub value_bytes: Option<u64>,
    /// Bytes of the objects that hold them.
    pub stored_bytes: u64,
    /// Bytes of the objects that hold what is said of each record, where there are such.
    pub metadata_bytes: Option<u64>,
    /// Units of which an object is not there.
    pub missing: u64,
}

/// What [`Source::verify`] found when nothing was wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    /// Units read and compared.
    pub units: u64,
    /// Records they hold.
    pub records: u64,
    /// Bytes hashed.
    pub bytes: u64,
    /// What [`Source::root_digest`] of the dataset itself (not of a selection of it) gives, where reading it told that as well.
    pub root: Option<String>,
}

/// What an annotation set says of one record, see [`Source::annotations`].
#[derive(Debug, Clone, PartialEq)]
pub struct Annotation {
    /// The record's id.
    pub id: String,
    /// What became of annotating it: `success`, `skipped` or `failed`.
    pub status: &'static str,
    /// The status in its producer's words.
    pub detail_status: Option<String>,
    /// What it says.
    pub values: Metadata,
}

/// Annotations as they are read.
pub type Annotations = Box<dyn Iterator<Item = Result<Annotation>> + Send>;

/// A dataset that can be read. Implementations are immutable views of one committed state and safe to share among threads.
pub trait Source: Send + Sync + std::fmt::Debug {
    /// The layout's name, such as `sedpack`.
    fn layout(&self) -> &'static str;
    /// Where it is, for messages and for opening it again in another process.
    fn location(&self) -> String;
    /// How its units are stored, in words, such as `fb shards of at most 256 records, ZSTD`.
    fn storage(&self) -> String {
        String::new()
    }
    /// The dataset's own metadata.
    fn metadata(&self) -> &Metadata;
    /// The fields of its records.
    fn schema(&self) -> &Schema;
    /// Its splits, in the layout's order.
    fn splits(&self) -> Vec<Split>;
    /// The units of a split. `NotFound` for a split that is not there.
    fn units(&self, split: &str) -> Result<Arc<Units>>;
    /// A unit's name for messages (Sedpack: the shard's path). `NotFound` past the last.
    fn unit_name(&self, split: &str, unit: usize) -> Result<String>;
    /// What the records of a unit share.
    fn unit_metadata(&self, split: &str, unit: usize) -> Result<Metadata>;
    /// Whether a few records of a unit cost about what they weigh (uncompressed data), or the whole unit (compressed).
    fn random_access(&self) -> bool;
    /// What a request to its storage costs, as [`Capabilities::round_trip`](crate::store::Capabilities::round_trip); 0 where nothing.
    fn round_trip(&self) -> u64 {
        0
    }
    /// Reads some records of one unit into memory that `out` hands out. `records` are places in the unit, ascending;
    /// `fields` are positions in the schema.
    ///
    /// # Errors
    /// `Corrupt`, `NotFound`, `Storage` name the unit's path, and the record and field where one is at fault.
    fn read_unit(&self, split: &str, unit: usize, records: &[u32], fields: &[usize], out: &mut dyn RowSink) -> Result<()>;
    /// Begins to fetch what reading these records will need, for a later [`Source::read_begun`]; `None` where nothing is gained by it.
    /// At most about 8 MiB are fetched and held before that.
    fn begin_unit(&self, split: &str, unit: usize, records: &[u32], fields: &[usize]) -> Option<Box<dyn Opening>> {
        let _ = (split, unit, records, fields);
        None
    }
    /// As [`Source::read_unit`], of a unit for which [`Source::begin_unit`] gave `begun`.
    fn read_begun(
        &self,
        begun: Box<dyn Opening>,
        split: &str,
        unit: usize,
        records: &[u32],
        fields: &[usize],
        out: &mut dyn RowSink,
    ) -> Result<()> {
        drop(begun);
        self.read_unit(split, unit, records, fields, out)
    }
    /// Whether a part of a unit is worth a request of its own where a request costs time; else units are fetched whole there.
    fn parts_far_away(&self) -> bool {
        false
    }
    /// About how many bytes a value of a field has that has no fixed size; none where nothing tells.
    fn value_size(&self, field: usize) -> Option<u64> {
        let _ = field;
        None
    }
    /// About how many requests opening took, where that grows with the records, and what makes it fewer, in words.
    fn opening_cost(&self) -> Option<(u64, String)> {
        None
    }
    /// Of how many records the schema was taken, where that is not all of them: others may differ, and are an error then where their
    /// values are asked for.
    fn schema_of(&self) -> Option<u64> {
        None
    }
    /// The same dataset with the schema of all records; none where this one's is that. `cheaply`: only where finding out costs no requests, or
    /// a record was met that does not fit.
    ///
    /// # Errors
    /// Those of reading what is said of each record.
    fn exact(&self, cheaply: bool) -> Result<Option<Arc<dyn Source>>> {
        let _ = cheaply;
        Ok(None)
    }
    /// Some records of a split, each with the fields that it has itself, whatever the schema says; none where all records have what the schema
    /// declares, and [`read_stored`] tells all.
    ///
    /// # Errors
    /// `NotFound` names an ordinal past the end; else as [`Source::read_unit`].
    fn read_own(&self, split: &str, ordinals: &[u64]) -> Result<Option<Vec<OwnFields>>> {
        let _ = (split, ordinals);
        Ok(None)
    }
    /// The ids of some records of a split, in order.
    ///
    /// # Errors
    /// `Unsupported` where the layout's records have no ids; `NotFound` for records past the last.
    fn ids(&self, split: &str, ordinals: Range<u64>) -> Result<Vec<String>> {
        let _ = (split, ordinals);
        Err(no_ids(self.layout(), &self.location()))
    }
    /// The split of the record of an id, and its ordinal there.
    ///
    /// # Errors
    /// `NotFound` for an id that no record has, with those that are near it; `Invalid` for one that several have; as [`Source::ids`].
    fn by_id(&self, id: &str) -> Result<(String, u64)> {
        let _ = id;
        Err(no_ids(self.layout(), &self.location()))
    }
    /// Windows of `len` rows (positions along the first axis) of a field, `hop` rows apart, as records of their own: how recordings of unequal
    /// lengths become batches.
    ///
    /// # Errors
    /// `Unsupported` where the layout has none; `NotFound` for an unknown field; `Invalid` where its values differ in more than their length.
    fn windows(&self, field: &str, len: u64, hop: u64) -> Result<Arc<dyn Source>> {
        let _ = (field, len, hop);
        Err(no_windows(self.layout()).at(self.location()))
    }
    /// As [`Source::windows`], of some records only: their numbers by split, ascending. The others need not fit. A layout that has windows has
    /// these too; by default it has none.
    ///
    /// # Errors
    /// Those of [`Source::windows`].
    fn windows_among(&self, records: &BTreeMap<String, Vec<u64>>, field: &str, len: u64, hop: u64) -> Result<Arc<dyn Source>> {
        let _ = records;
        self.windows(field, len, hop)
    }
    /// Whether what was opened is still what is at its place, where it is one file.
    ///
    /// # Errors
    /// `Conflict` where another file was put there, or it was changed or removed.
    fn still_there(&self) -> Result<()> {
        Ok(())
    }
    /// The names of the sets of annotations that there are now: what was said of the records after they were stored. Nothing is kept of it: the
    /// next call sees what came meanwhile.
    ///
    /// # Errors
    /// `Corrupt` for a damaged catalog.
    fn annotation_sets(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    /// What a set says of some records of a split, one after another in order, read ahead. After an error it ends.
    ///
    /// # Errors
    /// `NotFound` for a set that is not there, and for records past the last.
    fn annotations(&self, set: &str, split: &str, ordinals: Range<u64>) -> Result<Annotations> {
        let _ = (split, ordinals);
        Err(Error::not_found(format!("there is no annotation set '{set}': this layout ({}) has none", self.layout()))
            .at(self.location()))
    }
    /// Compares everything with its checksums; `progress` hears (units done, units in all) and stops the run by `false`.
    fn verify(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified>;
    /// How large the dataset is, where the layout keeps that; none where schema and disk have to tell.
    ///
    /// # Errors
    /// `Corrupt` or `NotFound` for a document that is damaged or gone.
    fn figures(&self) -> Result<Option<Figures>> {
        Ok(None)
    }
    /// One digest that names this state of the dataset (Sedpack: the root file's checksum).
    fn root_digest(&self) -> Result<String>;
}

fn no_ids(layout: &str, location: &str) -> Error {
    Error::unsupported(format!("the records of this layout ({layout}) have no ids"))
        .at(location)
        .remedy("name a record by its split and its number in it")
}

fn no_windows(layout: &str) -> Error {
    let (what, remedy) = match layout {
        "sedpack" => (
            "the examples of a Sedpack dataset are not cut into windows",
            "cut recordings when they are packed: sigbank pack --window",
        ),
        "signal-dataset" => (
            "the records of a signal-dataset are not cut into windows",
            "cut recordings when they are published: sigbank publish --window",
        ),
        // Of the layout that has windows, these are.
        _ => {
            ("these are windows already, which are not cut into windows", "take windows of the dataset that these were taken of")
        }
    };
    Error::unsupported(what).remedy(remedy)
}

/// A [`RowSink`] that keeps each value as bytes of its own, and as it is stored: for single records, not for speed.
#[derive(Debug, Default)]
pub struct Collected {
    fields: usize,
    values: Vec<Stored>,
}

impl Collected {
    /// Room for `rows` records of `fields` values.
    pub fn new(rows: usize, fields: usize) -> Self {
        Self { fields, values: vec![Stored::default(); rows.saturating_mul(fields)] }
    }
    /// The values, record by record.
    pub fn into_values(self) -> Vec<Vec<u8>> {
        self.values.into_iter().map(|v| v.bytes).collect()
    }
    /// The values, record by record, with the types of those that are not stored as declared.
    pub fn into_stored(self) -> Vec<Stored> {
        self.values
    }
    fn slot(&mut self, row: usize, field: usize, stored: Option<&FieldType>, len: usize) -> Result<&mut [u8]> {
        let slot = self
            .values
            .get_mut(row * self.fields + field)
            .ok_or_else(|| Error::invalid(format!("no place for record {row}, field {field}")))?;
        slot.ty = stored.cloned();
        slot.bytes.resize(len, 0);
        Ok(&mut slot.bytes)
    }
}

impl RowSink for Collected {
    fn place(&mut self, row: usize, field: usize, len: usize) -> Result<&mut [u8]> {
        self.slot(row, field, None, len)
    }
    fn place_as(&mut self, row: usize, field: usize, stored: &FieldType, len: usize) -> Result<&mut [u8]> {
        self.slot(row, field, Some(stored), len)
    }
    fn place_ragged(&mut self, row: usize, field: usize, of: &FieldType, len: usize) -> Result<&mut [u8]> {
        self.slot(row, field, Some(of), len)
    }
}

/// Reads whole records by ordinal, in the caller's order, repeated ones included: for each record, each field's bytes.
///
/// # Errors
/// `NotFound` names an ordinal past the end; `Unsupported` where a value is stored as another type than the declared one
/// ([`read_stored`] gives those); else as [`Source::read_unit`].
pub fn read(source: &dyn Source, split: &str, ordinals: &[u64], fields: &[usize]) -> Result<Vec<Vec<Vec<u8>>>> {
    let rows = read_stored(source, split, ordinals, fields)?.into_iter().map(|row| {
        let values = row.into_iter().zip(fields).map(|(value, &at)| match value.ty {
            None => Ok(value.bytes),
            Some(_) if ragged(source.schema(), at) => Ok(value.bytes),
            Some(ty) => {
                let name = source.schema().fields.get(at).map_or("", |f| &f.name);
                Err(stored_as(&ty).within(format!("field '{name}'")).at(source.location()))
            }
        });
        values.collect()
    });
    rows.collect()
}

/// Whether a field of a schema has no type that is that of all records.
fn ragged(schema: &Schema, field: usize) -> bool {
    schema.fields.get(field).is_some_and(|field| field.metadata.contains_key("ragged"))
}

/// As [`read`], with values as they are stored: with their type where that is not the declared one.
///
/// # Errors
/// `NotFound` names an ordinal past the end; else as [`Source::read_unit`].
pub fn read_stored(source: &dyn Source, split: &str, ordinals: &[u64], fields: &[usize]) -> Result<Vec<Vec<Stored>>> {
    let units = source.units(split)?;
    let mut places = Vec::with_capacity(ordinals.len());
    for (row, &ordinal) in ordinals.iter().enumerate() {
        let (unit, index) = units.locate(ordinal).ok_or_else(|| {
            Error::not_found(format!("record {ordinal} of split '{split}': it has {} records", units.records()))
                .at(source.location())
        })?;
        places.push((unit, index as u32, row));
    }
    places.sort_unstable();
    let mut rows = vec![Vec::new(); ordinals.len()];
    for run in places.chunk_by(|a, b| a.0 == b.0) {
        let Some(&(unit, ..)) = run.first() else { continue };
        let mut wanted: Vec<u32> = run.iter().map(|p| p.1).collect();
        wanted.dedup();
        let mut out = Collected::new(wanted.len(), fields.len());
        source.read_unit(split, unit, &wanted, fields, &mut out)?;
        let values = out.into_stored();
        for &(_, index, row) in run {
            let at = wanted.partition_point(|&w| w < index) * fields.len();
            if let (Some(slot), Some(v)) = (rows.get_mut(row), values.get(at..at + fields.len())) {
                *slot = v.to_vec();
            }
        }
    }
    Ok(rows)
}

/// What is fixed about the bytes of each field, for consumers that lay records out in memory.
pub fn fixed_lens(schema: &Schema) -> Result<Vec<Option<usize>>> {
    schema.fields.iter().map(|f| f.ty.fixed_len().map_err(|e| Error::from(e).within(format!("field '{}'", f.name)))).collect()
}
