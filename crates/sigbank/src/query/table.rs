//! Records as columns, and which of them an expression selects.

use super::columns::{self, Column, Keys, Texts};
use super::index::{self, Index, Part};
use super::{Field, Record};
use crate::error::{Error, Result};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;

/// What is known of many records without reading their samples, as columns: of a million records with a few keys some hundred
/// megabytes, and where they come from an index, only what is asked for.
///
/// ```
/// use sigbank::format::model::json::Json;
/// use sigbank::query::{Record, TableBuilder};
/// let mut rows = TableBuilder::default();
/// for n in 0..100u64 {
///     let metadata = Json::parse(format!("{{\"n\": {n}, \"odd\": {}}}", n % 2 == 1).as_bytes(), &Default::default())?;
///     rows.push(&Record::new(&format!("r{n:02}"), &metadata), 0);
/// }
/// let table = rows.finish();
/// let found = table.select(&"odd == true and n < 4".parse()?)?;
/// assert_eq!(found.iter().map(|&row| table.id(row)).collect::<Vec<_>>(), ["r01", "r03"]);
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Table {
    rows: usize,
    ids: OnceLock<Texts>,
    stamps: OnceLock<Vec<u128>>,
    field_stamps: OnceLock<Vec<u128>>,
    pub(super) splits: OnceLock<Texts>,
    ordinals: OnceLock<Vec<u64>>,
    pub(super) metadata: OnceLock<Texts>,
    pub(super) fields: OnceLock<Texts>,
    pub(super) columns: BTreeMap<String, OnceLock<Column>>,
    keys: Keys,
    described: bool,
    file: Option<Index>,
}

/// Makes a [`Table`] row by row.
#[derive(Debug, Default)]
pub struct TableBuilder {
    ids: Texts,
    stamps: Vec<u128>,
    field_stamps: Vec<u128>,
    splits: Texts,
    metadata: Texts,
    fields: Texts,
    described: bool,
}

impl TableBuilder {
    /// A builder of a table that also knows the records' fields.
    pub fn described() -> Self {
        Self { described: true, ..Self::default() }
    }
    /// Adds a record. `stamp` tells whether it is still the same when the table is kept; 0 where nothing tells that.
    pub fn push(&mut self, record: &Record<'_>, stamp: u128) {
        let fields = if self.described { Field::to_json(record.fields) } else { String::new() };
        self.push_texts(record.id, record.split, record.metadata, &fields, [stamp, 0]);
    }
    /// Metadata are a JSON object's one text, and fields the text of [`Field::to_json`].
    pub(super) fn push_texts(&mut self, id: &str, split: &str, metadata: &str, fields: &str, stamps: [u128; 2]) {
        self.ids.push(id);
        self.splits.push(split);
        // What is no object has no keys.
        self.metadata.push(if metadata.starts_with('{') { metadata } else { "{}" });
        self.fields.push(fields);
        self.stamps.push(stamps[0]);
        self.field_stamps.push(stamps[1]);
    }
    /// The table.
    pub fn finish(mut self) -> Table {
        let (keys, columns) = columns::build(&self.metadata);
        for texts in [&mut self.ids, &mut self.splits, &mut self.metadata, &mut self.fields] {
            texts.shrink();
        }
        Table {
            rows: self.ids.len(),
            ids: self.ids.into(),
            stamps: self.stamps.into(),
            field_stamps: self.field_stamps.into(),
            splits: self.splits.into(),
            metadata: self.metadata.into(),
            fields: self.fields.into(),
            columns: columns.into_iter().map(|(key, column)| (key, column.into())).collect(),
            keys,
            described: self.described,
            ..Table::default()
        }
    }
}

impl Table {
    /// A table of what an index holds, which is read when it is asked for.
    fn of_index(file: Index) -> Self {
        let columns = file.columns().map(|key| (key.to_owned(), OnceLock::new())).collect();
        let (keys, described, rows) = (file.keys().clone(), file.described(), file.rows());
        Self { rows, columns, keys, described, file: Some(file), ..Self::default() }
    }

    /// The table that [`Table::save`] kept in a file. What is kept is read when it is asked for.
    ///
    /// # Errors
    /// `NotFound` where there is no such file; `Corrupt` for a damaged one; `Unsupported` for another kind of file, and for one of a
    /// newer version.
    pub fn open(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|e| Error::from(e).at(path.display()))?;
        Self::of_bytes(bytes.into(), &path.display())
    }
    /// The table in the bytes of a file, which lie at a place.
    pub(super) fn of_bytes(bytes: Bytes, place: &dyn std::fmt::Display) -> Result<Self> {
        let opened = Index::new(bytes).map(Self::of_index);
        opened.map_err(|e| e.at(place).remedy("make it again from the dataset"))
    }
    /// Keeps the table in a Parquet file, which takes the place of what was there in one step.
    ///
    /// # Errors
    /// `ReadOnly`, `Storage` where it cannot be written.
    ///
    /// ```
    /// use sigbank::format::model::json::Json;
    /// use sigbank::query::{Record, Table, TableBuilder};
    /// let dir = tempfile::tempdir()?;
    /// let mut rows = TableBuilder::default();
    /// rows.push(&Record::new("r1", &Json::parse(br#"{"snr": 3}"#, &Default::default())?), 0);
    /// rows.finish().save(&dir.path().join("index.parquet"), "records")?;
    /// let table = Table::open(&dir.path().join("index.parquet"))?;
    /// assert_eq!((table.metadata(0)?, table.select(&"snr == 3".parse()?)?), (r#"{"snr":3}"#, vec![0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, path: &Path, layout: &str) -> Result<()> {
        self.save_with(path, layout, 0).map_err(|e| e.at(path.display()))
    }
    pub(super) fn save_with(&self, path: &Path, layout: &str, root: u128) -> Result<()> {
        replace(path, &self.to_bytes(layout, root)?)
    }
    pub(super) fn to_bytes(&self, layout: &str, root: u128) -> Result<Vec<u8>> {
        index::write(self, layout, root)
    }

    /// The layout of the dataset that a kept table is of.
    pub(super) fn layout(&self) -> Option<&str> {
        self.file.as_ref().map(Index::layout)
    }
    /// What tells whether that dataset is still the same as a whole.
    pub(super) fn root(&self) -> Option<u128> {
        self.file.as_ref().map(Index::root).filter(|root| *root != 0)
    }
    /// Loads ids and stamps, and refuses rows that are not sorted by id, or have ids twice.
    pub(super) fn sorted_by_id(&self) -> Result<()> {
        let ids = self.ids()?;
        self.stamps()?;
        self.field_stamps()?;
        match (1..ids.len()).all(|row| ids.get(row - 1) < ids.get(row)) {
            true => Ok(()),
            false => Err(Error::corrupt("the rows of the index are not sorted")),
        }
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.rows
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub(super) fn ids(&self) -> Result<&Texts> {
        self.texts(&self.ids, Part::Id)
    }
    /// A record's id; empty past the last, and where the index that it comes from is damaged.
    pub fn id(&self, row: usize) -> &str {
        self.ids().map_or("", |ids| ids.get(row))
    }
    /// The row of an id, where rows are sorted by id.
    pub(super) fn row_of(&self, id: &str) -> Option<usize> {
        self.ids().ok().and_then(|ids| ids.find_sorted(id))
    }
    /// What tells whether a record is still the same; 0 where nothing does.
    pub(super) fn stamps(&self) -> Result<&[u128]> {
        self.stamps_of(&self.stamps, Part::Stamp)
    }
    /// What tells whether a record's fields are.
    pub(super) fn field_stamps(&self) -> Result<&[u128]> {
        self.stamps_of(&self.field_stamps, Part::FieldStamp)
    }
    fn stamps_of<'a>(&'a self, held: &'a OnceLock<Vec<u128>>, part: Part) -> Result<&'a [u128]> {
        once(held, || self.file.as_ref().map_or_else(|| Ok(Vec::new()), |file| file.stamps(part))).map(Vec::as_slice)
    }
    /// The text of a record's metadata, a JSON object; empty past the last.
    ///
    /// # Errors
    /// `Corrupt` where the index that it comes from is damaged.
    pub fn metadata(&self, row: usize) -> Result<&str> {
        Ok(self.texts(&self.metadata, Part::Metadata)?.get(row))
    }
    /// The split that a record is in; empty in layouts without splits.
    ///
    /// # Errors
    /// Those of [`Table::metadata`].
    pub fn split(&self, row: usize) -> Result<&str> {
        Ok(self.texts(&self.splits, Part::Split)?.get(row))
    }
    /// A record's fields, in the order of their names; empty where [`Table::is_described`] says no.
    ///
    /// # Errors
    /// Those of [`Table::metadata`].
    pub fn fields(&self, row: usize) -> Result<Vec<Field>> {
        match self.fields_text(row)? {
            "" => Ok(Vec::new()),
            text => Field::from_json(text),
        }
    }
    /// Its place in its split, counting the rows in their order.
    pub(super) fn ordinal(&self, row: usize) -> Result<u64> {
        let splits = self.texts(&self.splits, Part::Split)?;
        let ordinals = once(&self.ordinals, || {
            let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
            let ordinals = splits.iter().map(|split| {
                let count = counts.entry(split).or_default();
                *count += 1;
                *count - 1
            });
            Ok(ordinals.collect::<Vec<u64>>())
        })?;
        Ok(ordinals.get(row).copied().unwrap_or(0))
    }
    pub(super) fn fields_text(&self, row: usize) -> Result<&str> {
        Ok(self.texts(&self.fields, Part::Fields)?.get(row))
    }
    /// Whether the records' fields are known.
    pub fn is_described(&self) -> bool {
        self.described
    }
    /// The keys at the top of the records' metadata, and how many records have each, in the order of the keys; at most a few thousand.
    pub fn keys(&self) -> impl Iterator<Item = (&str, u64)> {
        self.keys.counts.iter().map(|(key, count)| (key.as_str(), *count))
    }
    pub(super) fn counted_keys(&self) -> &Keys {
        &self.keys
    }
    /// The columns, loaded.
    pub(super) fn loaded_columns(&self) -> Result<Vec<(&str, &Column)>> {
        self.columns.keys().filter_map(|key| Some(self.column(key).transpose()?.map(|column| (key.as_str(), column)))).collect()
    }
    /// Bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        let texts =
            [self.splits.get(), self.metadata.get(), self.fields.get()].into_iter().flatten().map(Texts::bytes).sum::<usize>();
        let columns = self.columns.values().filter_map(OnceLock::get).map(Column::bytes).sum::<usize>();
        let stamps = [self.stamps.get(), self.field_stamps.get()]
            .into_iter()
            .flatten()
            .map(|stamps| 16 * stamps.capacity())
            .sum::<usize>();
        texts + columns + stamps + self.file.as_ref().map_or(0, Index::bytes)
    }

    pub(super) fn texts<'a>(&self, held: &'a OnceLock<Texts>, part: Part) -> Result<&'a Texts> {
        once(held, || self.file.as_ref().map_or_else(|| Ok(Texts::default()), |file| file.texts(part)))
    }
    pub(super) fn column(&self, key: &str) -> Result<Option<&Column>> {
        let Some(held) = self.columns.get(key) else { return Ok(None) };
        let load = || match &self.file {
            Some(file) => file.column(key),
            None => Err(Error::corrupt("a column is gone")),
        };
        once(held, load).map(Some)
    }
}

/// What is loaded once.
fn once<T>(held: &OnceLock<T>, load: impl FnOnce() -> Result<T>) -> Result<&T> {
    if let Some(found) = held.get() {
        return Ok(found);
    }
    let loaded = load()?;
    Ok(held.get_or_init(|| loaded))
}

/// Puts a file in the place of another in one step. Of several at once, one is there in the end, whole.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("index");
    let aside = path.with_file_name(format!(".{name}.{}", uuid::Uuid::new_v4()));
    let written = std::fs::OpenOptions::new().write(true).create_new(true).open(&aside).and_then(|mut file| {
        file.write_all(bytes)?;
        std::fs::rename(&aside, path)
    });
    written.map_err(|e| {
        let _ = std::fs::remove_file(&aside);
        Error::from(e)
    })
}
