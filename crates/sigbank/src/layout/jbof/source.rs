//! The data set as a layout-neutral [`Source`].

use super::dataset::Dataset;
use super::describe::{ArrayDescription, each, threads};
use super::item::Item;
use super::onefile::OneFile;
use super::value::Value as Elements;
use super::verify;
use crate::error::{Code, Error, Result};
use crate::layout::{Figures, RowSink, Source, Split, Units, Verified, no_such_id};
use serde_json::Value;
use sigbank_format::model::json::Json;
use sigbank_format::model::{DType, Field, FieldType, Metadata, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The one split.
const SPLIT: &str = "all";
/// Items are taken together up to so many bytes of values, and up to so many items: what a thread of the loader reads at once.
const UNIT: (u64, u64) = (256 << 10, 64);
/// Names of one page of a listing.
const LISTED: u64 = 1000;
/// Most items of a unit where each of their files costs a round trip.
const UNIT_AFAR: u64 = 4;

/// A data set seen as [`Source`]: one split `all`, a record for each item, sorted by name, a field for each array name of any item.
///
/// A field whose dtype and shape are those of all items (that can be read) is an array. Of any other (ragged, or missing in some items) the values are
/// the elements' bytes, of varying length and none where an item lacks it; its metadata tell `ragged`, the `dtype` where that is the same, in how
/// many `records` it is where not in all, and how many of it are `unreadable`.
/// Metadata of a field, each where all of its arrays agree: `samplerate`, and `metadata`, what its documents say.
///
/// Values are what `sigbank.jbof` gives, little-endian: audio as float64 in [-1, 1), npy as stored, mat and (n, 1) audio with the shape that the
/// document keeps. An array that cannot be read (a structured dtype, a damaged file) is an error that names item and array when its value is
/// asked for; the others can be read.
///
/// Opening lists the data set and reads each array's document and header, no elements. What changes later in the data set is not seen, and is
/// an error where it concerns a value asked for.
///
/// ```
/// use sigbank::format::array::npy;
/// use sigbank::format::model::json::Json;
/// use sigbank::layout::jbof::{ArrayFile, Creation, Dataset, JbofSource};
/// use sigbank::layout::{Source, read};
/// let dir = tempfile::tempdir()?;
/// let dataset = Dataset::create(&dir.path().join("a"), &Creation::default())?;
/// for (name, values) in [("b", [3, 4]), ("a", [1, 2])] {
///     let file = [npy::header(&"|u1".parse()?, &[2])?, values.to_vec()].concat();
///     dataset.add_item(Some(name), &Json::EMPTY)?.add_array("x", &ArrayFile::new("npy", &[&file]), &Json::EMPTY)?;
/// }
/// let source = JbofSource::new(dataset)?;
/// assert_eq!((source.id(0), source.ordinal("b"), source.schema().fields[0].ty.to_string().as_str()), (Some("a"), Some(1), "uint8[2]"));
/// assert_eq!(read(&source, "all", &[1], &[0])?, [[[3, 4]]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct JbofSource {
    dataset: Dataset,
    items: Arc<[Item]>,
    metadata: Metadata,
    schema: Schema,
    /// For each field the items that have it, ascending; none where all do.
    has: Arc<[Option<Vec<u32>>]>,
    units: Arc<Units>,
    /// Bytes of the values of each field.
    field_bytes: Arc<[u64]>,
    figures: Figures,
    /// Arrays by the extension of their files.
    formats: BTreeMap<String, u64>,
    opened_by: Option<u64>,
    file: OneFile,
}

/// What all arrays of a name so far have in common.
struct Common {
    items: Vec<u32>,
    bytes: u64,
    dtype: Agreed<DType>,
    shape: Agreed<Vec<usize>>,
    sample_rate: Option<f64>,
    metadata: Option<Json>,
    /// How many cannot be read.
    unreadable: u64,
}

/// What was seen of all items.
struct Seen {
    fields: BTreeMap<String, Common>,
    /// Bytes of the values of each item.
    sizes: Vec<u64>,
    figures: Figures,
    formats: BTreeMap<String, u64>,
}

impl Seen {
    fn new(items: usize) -> Self {
        let figures = Figures { value_bytes: Some(0), ..Figures::default() };
        Self { fields: BTreeMap::new(), sizes: vec![0; items], figures, formats: BTreeMap::new() }
    }
    fn add(&mut self, at: usize, arrays: &[ArrayDescription]) {
        let figures = &mut self.figures;
        for array in arrays {
            let bytes = array.value_bytes().unwrap_or(array.bytes);
            figures.value_bytes = figures.value_bytes.map(|all| all.saturating_add(bytes));
            figures.stored_bytes = figures.stored_bytes.saturating_add(array.bytes);
            figures.missing += u64::from(array.problem.as_ref().is_some_and(|p| p.code == Code::NotFound.as_str()));
            if let Some(size) = self.sizes.get_mut(at) {
                *size = size.saturating_add(bytes);
            }
            let extension = array.file.as_deref().and_then(|file| file.rsplit_once('.')).map(|(_, end)| end.to_lowercase());
            *self.formats.entry(extension.unwrap_or_default()).or_insert(0) += 1;
            let common = self.fields.entry(array.name.clone()).or_insert_with(|| Common::new(array));
            common.add(at as u32, array);
        }
    }
}

fn is_far(dataset: &Dataset) -> bool {
    dataset.store().capabilities().round_trip > 0
}

/// Whether there is one value for all; what cannot be read has none, and disagrees with nothing.
enum Agreed<T> {
    Nothing,
    One(T),
    Several,
}

impl<T: Clone + PartialEq> Agreed<T> {
    fn add(&mut self, found: Option<&T>) {
        match (&*self, found) {
            (Self::Nothing, Some(found)) => *self = Self::One(found.clone()),
            (Self::One(known), Some(found)) if known != found => *self = Self::Several,
            _ => {}
        }
    }
    fn one(self) -> Option<T> {
        match self {
            Self::One(value) => Some(value),
            Self::Nothing | Self::Several => None,
        }
    }
}

impl Common {
    fn new(array: &ArrayDescription) -> Self {
        let (dtype, shape) = (Agreed::Nothing, Agreed::Nothing);
        Self {
            items: Vec::new(),
            bytes: 0,
            dtype,
            shape,
            sample_rate: array.sample_rate,
            metadata: Some(array.metadata.clone()),
            unreadable: 0,
        }
    }
    fn add(&mut self, item: u32, array: &ArrayDescription) {
        self.items.push(item);
        self.bytes = self.bytes.saturating_add(array.value_bytes().unwrap_or(array.bytes));
        self.dtype.add(array.dtype.as_ref());
        self.shape.add(array.shape.as_ref());
        self.sample_rate.take_if(|rate| Some(*rate) != array.sample_rate);
        self.metadata.take_if(|metadata| *metadata != array.metadata);
        self.unreadable += u64::from(array.problem.is_some());
    }
    fn field(mut self, name: String, items: usize) -> Result<(Field, Option<Vec<u32>>)> {
        self.items.sort_unstable();
        let everywhere = self.items.len() == items;
        let mut metadata = Metadata::new();
        if let Some(rate) = self.sample_rate {
            metadata.insert("samplerate".into(), rate.into());
        }
        if let Some(said) = self.metadata.filter(|said| said.as_str() != "{}") {
            metadata.insert("metadata".into(), said.to_value()?);
        }
        if !everywhere {
            metadata.insert("records".into(), self.items.len().into());
        }
        if self.unreadable > 0 {
            metadata.insert("unreadable".into(), self.unreadable.into());
        }
        let ty = match (self.dtype.one(), self.shape.one()) {
            (Some(dtype), Some(shape)) if everywhere => FieldType::Array { dtype, shape },
            (dtype, _) => {
                metadata.insert("ragged".into(), true.into());
                if let Some(dtype) = dtype {
                    metadata.insert("dtype".into(), dtype.name().into());
                }
                FieldType::Bytes { len: None }
            }
        };
        Ok((Field { name, ty, metadata }, (!everywhere).then_some(self.items)))
    }
}

impl JbofSource {
    /// Looks at the documents and headers of all items.
    ///
    /// # Errors
    /// Those of the store; `Corrupt` where the data set's own metadata are no JSON object.
    pub fn new(dataset: Dataset) -> Result<Self> {
        let items: Vec<Item> = dataset.items()?.collect();
        let afar = is_far(&dataset);
        let mut seen = Seen::new(items.len());
        let one = |at: usize| items.get(at).map_or(Ok(Vec::new()), Item::describe);
        each(items.len(), threads(0, afar), one, &mut |at, arrays| {
            seen.add(at, &arrays);
            true
        })?;
        // The listing, and for each item whether it is one and which files it has; for each array its document, its size and its header.
        let requests = items.len() as u64 / LISTED + 2 * items.len() as u64 + 3 * seen.formats.values().sum::<u64>();
        Self::of(dataset, items, seen, afar.then_some(requests))
    }

    /// Of a data set whose items, sorted by name, and their arrays are known, by an index: no file is looked at.
    ///
    /// # Errors
    /// Those of [`JbofSource::new`]; `NotFound` for what can be no item's name.
    ///
    /// ```
    /// use sigbank::format::model::json::Json;
    /// use sigbank::layout::Source;
    /// use sigbank::layout::jbof::{Creation, Dataset, JbofSource};
    /// let dir = tempfile::tempdir()?;
    /// let dataset = Dataset::create(&dir.path().join("a"), &Creation::default())?;
    /// dataset.add_item(Some("x"), &Json::EMPTY)?;
    /// let source = JbofSource::described(dataset, vec![("x".into(), vec![])])?;
    /// assert_eq!((source.id(0), source.splits()[0].records), (Some("x"), 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn described(dataset: Dataset, known: Vec<(String, Vec<ArrayDescription>)>) -> Result<Self> {
        let items = known.iter().map(|(name, _)| dataset.item_unseen(name)).collect::<Result<Vec<_>>>()?;
        let mut seen = Seen::new(items.len());
        known.iter().enumerate().for_each(|(at, (_, arrays))| seen.add(at, arrays));
        Self::of(dataset, items, seen, None)
    }

    fn of(dataset: Dataset, items: Vec<Item>, seen: Seen, opened_by: Option<u64>) -> Result<Self> {
        if u32::try_from(items.len()).is_err() {
            return Err(Error::limit(format!("{} items", items.len())).at(dataset.location()));
        }
        let metadata = object(&dataset.metadata()?)?;
        let Seen { fields, sizes, figures, formats } = seen;
        let field_bytes = fields.values().map(|common| common.bytes).collect();
        let all = fields.into_iter().map(|(name, common)| common.field(name, items.len())).collect::<Result<Vec<_>>>()?;
        let (fields, has): (Vec<Field>, Vec<_>) = all.into_iter().unzip();
        let most = if is_far(&dataset) { UNIT_AFAR } else { UNIT.1 };
        let units = Arc::new(Units::from_counts(runs(&sizes, UNIT.0, most)));
        let (items, has, schema) = (items.into(), has.into(), Schema { fields });
        let file = OneFile::of(&dataset);
        Ok(Self { dataset, items, metadata, schema, has, units, field_bytes, figures, formats, opened_by, file })
    }

    /// About how many requests opening it took, of one far away whose items were looked at.
    pub fn opened_by(&self) -> Option<u64> {
        self.opened_by
    }

    /// The data set with all that the layout offers.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }
    /// The name of the item that is this record; none past the last.
    pub fn id(&self, ordinal: u64) -> Option<&str> {
        self.item(ordinal).map(Item::name)
    }
    /// Which record the item of this name is.
    pub fn ordinal(&self, id: &str) -> Option<u64> {
        self.items.binary_search_by(|item| item.name().cmp(id)).ok().map(|at| at as u64)
    }
    /// The item that is this record; none past the last.
    pub fn item(&self, ordinal: u64) -> Option<&Item> {
        self.items.get(usize::try_from(ordinal).ok()?)
    }
    /// Whether a record has a field, a position in the schema.
    pub fn has(&self, ordinal: u64, field: usize) -> bool {
        let item = u32::try_from(ordinal).unwrap_or(u32::MAX);
        match self.has.get(field) {
            Some(Some(items)) => items.binary_search(&item).is_ok(),
            Some(None) => (item as usize) < self.items.len(),
            None => false,
        }
    }

    /// The extensions of arrays' files, in lower case.
    pub(super) fn formats(&self) -> impl Iterator<Item = &str> {
        self.formats.keys().map(String::as_str)
    }

    fn known(&self, split: &str) -> Result<()> {
        if split == SPLIT {
            return Ok(());
        }
        Err(Error::not_found(format!("there is no split '{split}': a JBOF data set has one, '{SPLIT}'")).at(self.location()))
    }

    fn no_unit(&self, unit: usize) -> Error {
        Error::not_found(format!("there is no unit {unit}: the data set has {}", self.units.len())).at(self.location())
    }

    fn put(&self, item: &Item, name: &Field, row: usize, at: usize, out: &mut dyn RowSink) -> Result<()> {
        let entry = item.array(&name.name).map_err(|e| match e.code() {
            Code::NotFound => e.remedy("it was deleted since the data set was opened: open it again"),
            _ => e,
        })?;
        let mut value = Elements::open(&entry)?;
        if let FieldType::Array { dtype, shape } = &name.ty
            && (value.dtype(), value.shape()) != (dtype, shape)
        {
            let found = FieldType::Array { dtype: value.dtype().clone(), shape: value.shape().to_vec() };
            return Err(Error::conflict(format!("{} when the data set was opened, and {found} now", name.ty))
                .at(entry.location())
                .remedy("the array was replaced: open the data set again"));
        }
        if let FieldType::Bytes { .. } = name.ty {
            let of = FieldType::Array { dtype: value.dtype().clone(), shape: value.shape().to_vec() };
            return value.put(|len| out.place_ragged(row, at, &of, len));
        }
        value.put(|len| out.place(row, at, len))
    }
}

/// How many items each unit has: runs of at most so many bytes and items; larger items stand for themselves.
fn runs(sizes: &[u64], bytes: u64, most: u64) -> Vec<u64> {
    let (mut runs, mut count, mut held) = (Vec::new(), 0, 0u64);
    for size in sizes {
        if count > 0 && (count == most || held.saturating_add(*size) > bytes) {
            runs.push(std::mem::take(&mut count));
            held = 0;
        }
        count += 1;
        held = held.saturating_add(*size);
    }
    runs.extend((count > 0).then_some(count));
    runs
}

fn object(json: &Json) -> Result<Metadata> {
    Ok(match json.to_value()? {
        Value::Object(members) => members,
        _ => Metadata::new(),
    })
}

impl Source for JbofSource {
    fn layout(&self) -> &'static str {
        super::LAYOUT
    }
    fn location(&self) -> String {
        self.dataset.location()
    }
    fn storage(&self) -> String {
        let formats: Vec<_> = self.formats.iter().map(|(format, n)| format!("{n} {format}")).collect();
        if formats.is_empty() { "no arrays".into() } else { format!("arrays in files: {}", formats.join(", ")) }
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
    /// The item's name, or those of the first and the last of a run.
    fn unit_name(&self, split: &str, unit: usize) -> Result<String> {
        self.known(split)?;
        let start = self.units.start(unit).ok_or_else(|| self.no_unit(unit))?;
        let last = start + self.units.count(unit).saturating_sub(1);
        let names = (self.id(start).unwrap_or_default(), self.id(last).unwrap_or_default());
        Ok(if start == last { names.0.to_owned() } else { format!("{} to {}", names.0, names.1) })
    }
    /// Of an item that stands for itself its metadata, of a run nothing: see [`JbofSource::item`].
    fn unit_metadata(&self, split: &str, unit: usize) -> Result<Metadata> {
        self.known(split)?;
        let start = self.units.start(unit).ok_or_else(|| self.no_unit(unit))?;
        match (self.units.count(unit), self.item(start)) {
            (1, Some(item)) => object(&item.metadata()?),
            _ => Ok(Metadata::new()),
        }
    }
    fn random_access(&self) -> bool {
        true
    }
    fn ids(&self, split: &str, ordinals: std::ops::Range<u64>) -> Result<Vec<String>> {
        self.known(split)?;
        let one = |ordinal| {
            let id = self.id(ordinal).map(str::to_owned);
            id.ok_or_else(|| Error::not_found(format!("there is no item {ordinal}")).at(self.location()))
        };
        ordinals.map(one).collect()
    }
    fn by_id(&self, id: &str) -> Result<(String, u64)> {
        match self.ordinal(id) {
            Some(ordinal) => Ok((SPLIT.into(), ordinal)),
            None => Err(no_such_id(id, self.items.iter().map(Item::name)).at(self.location())),
        }
    }
    fn opening_cost(&self) -> Option<(u64, String)> {
        let how = format!(
            "keep an index beside it, and opening takes a request for each thousand files: sigbank find {} --index",
            self.location()
        );
        self.opened_by.map(|requests| (requests, how))
    }
    fn value_size(&self, field: usize) -> Option<u64> {
        self.field_bytes.get(field)?.checked_div(self.items.len() as u64)
    }
    fn round_trip(&self) -> u64 {
        self.dataset.store().capabilities().round_trip
    }
    fn read_unit(&self, split: &str, unit: usize, records: &[u32], fields: &[usize], out: &mut dyn RowSink) -> Result<()> {
        self.known(split)?;
        let start = self.units.start(unit).ok_or_else(|| self.no_unit(unit))?;
        for (row, &record) in records.iter().enumerate() {
            let ordinal = start + u64::from(record);
            let Some(item) = self.item(ordinal).filter(|_| u64::from(record) < self.units.count(unit)) else {
                return Err(Error::not_found(format!("there is no record {record} in unit {unit}")).at(self.location()));
            };
            for (at, &field) in fields.iter().enumerate() {
                let Some(wanted) = self.schema.fields.get(field) else {
                    let all = self.schema.fields.len();
                    return Err(Error::invalid(format!("there is no field {field}: the schema has {all}")));
                };
                let put = if self.has(ordinal, field) {
                    self.put(item, wanted, row, at, out)
                } else {
                    out.place(row, at, 0).map(|_| ())
                };
                put.map_err(|e| e.within(format!("item {:?}, array {:?}", item.name(), wanted.name)).at(self.location()))?;
            }
        }
        Ok(())
    }
    /// See [`JbofSource::windows_of`].
    fn windows(&self, field: &str, len: u64, hop: u64) -> Result<Arc<dyn Source>> {
        self.windows_of(field, len, hop)
    }
    fn windows_among(&self, records: &BTreeMap<String, Vec<u64>>, field: &str, len: u64, hop: u64) -> Result<Arc<dyn Source>> {
        records.keys().try_for_each(|split| self.known(split))?;
        self.windows_in(Some(records.get(SPLIT).map(Vec::as_slice).unwrap_or_default()), field, len, hop)
    }
    fn still_there(&self) -> Result<()> {
        self.file.still_there(&self.dataset)
    }
    /// Reads each array wholly, through what its format checks (the MD5 of flac, the CRC of ogg; in a zip archive the CRC of each member), compares
    /// the sizes of npy files with what they declare, and looks at each document. Nothing else is known of a data set that could be
    /// compared: see [`Source::root_digest`].
    fn verify(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        verify::verify(&self.dataset, &self.items, &self.units, progress)
    }
    fn figures(&self) -> Result<Option<Figures>> {
        Ok(Some(self.figures.clone()))
    }
    /// The hash of [`Dataset::hash`], which reads everything: the MD5 of the files of all items. Not in it are the data set's own metadata, the
    /// names of items and files, and which files belong to which array.
    fn root_digest(&self) -> Result<String> {
        Ok(format!("md5:{}", self.dataset.hash(0)?))
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
