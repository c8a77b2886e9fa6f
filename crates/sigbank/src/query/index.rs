//! The file that a [`Table`] is kept in: Parquet, so that DuckDB, polars and pandas read it too.
//!
//! | column | what |
//! |---|---|
//! | `id`, `split`, `ordinal` | the record's id, its split (empty where the layout has none) and its place in that |
//! | `metadata` | its metadata, the JSON text of an object |
//! | `fields` | where known: a JSON list of `{"name", "dtype", "shape"}`, with `sample_rate`, `file`, `bytes` and `metadata` where there are such |
//! | `stamp`, `field_stamp` | 16 bytes that change with what the row was read from; zero where nothing tells that |
//! | any other | the values of the metadata key of that name, where they are of the column's type, else null |
//!
//! The file's own metadata hold what reading back needs, and the XXH3 (128 bits) of the whole file with zeros in its own place.

use super::columns::{Column, Keys, Kind, Texts, Values};
use super::parallel::parallel;
use super::table::Table;
use crate::error::{Error, Result};
use bytes::Bytes;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};
use serde_json::{Value, json};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// The version that is written and read.
const FORMAT: u64 = 2;
/// Rows of a row group.
const GROUP: usize = if cfg!(test) { 16 } else { 122_880 };
/// Texts that are decoded at a time, so that they are still near when they are copied.
const TEXTS: usize = 4096;
/// The key of the file's metadata under which ours are.
const ABOUT: &str = "sigbank.index";
const CHECKSUM: &str = "sigbank.checksum";
/// What stands before the digits of the checksum.
const MARK: &str = "xxh3:";
const ZEROS: &str = "00000000000000000000000000000000";
/// Longest name of a column.
const LONGEST_NAME: usize = 200;

/// The columns that are not keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Id,
    Split,
    Ordinal,
    Metadata,
    Fields,
    Stamp,
    FieldStamp,
}

impl Part {
    const ALL: [Part; 7] = [Self::Id, Self::Split, Self::Ordinal, Self::Metadata, Self::Fields, Self::Stamp, Self::FieldStamp];
    fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Split => "split",
            Self::Ordinal => "ordinal",
            Self::Metadata => "metadata",
            Self::Fields => "fields",
            Self::Stamp => "stamp",
            Self::FieldStamp => "field_stamp",
        }
    }
    fn kind(self) -> (Physical, Option<LogicalType>) {
        match self {
            Self::Ordinal => (Physical::INT64, None),
            Self::Stamp | Self::FieldStamp => (Physical::FIXED_LEN_BYTE_ARRAY, None),
            _ => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        }
    }
}

fn damaged(e: ParquetError) -> Error {
    Error::corrupt(format!("the index is damaged: {e}"))
}

/// An index file in memory.
pub(super) struct Index {
    size: usize,
    reader: SerializedFileReader<Bytes>,
    rows: usize,
    layout: String,
    root: u128,
    described: bool,
    keys: Keys,
    columns: Vec<(String, Kind, bool)>,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("rows", &self.rows).field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl Index {
    /// Takes a file's bytes for an index.
    ///
    /// # Errors
    /// `Corrupt` for a damaged one; `Unsupported` for another kind of file, and for one of a newer version.
    pub(super) fn new(bytes: Bytes) -> Result<Self> {
        let place = checksum_place(&bytes)?;
        let found = bytes.get(place.clone()).unwrap_or_default();
        if found != digest(&bytes, &place).as_bytes() {
            return Err(Error::corrupt("the index does not have its checksum"));
        }
        let size = bytes.len();
        let reader = SerializedFileReader::new(bytes).map_err(damaged)?;
        let file = reader.metadata().file_metadata();
        let about =
            file.key_value_metadata().into_iter().flatten().find(|pair| pair.key == ABOUT).and_then(|pair| pair.value.as_deref());
        let about: Value = about
            .and_then(|text| serde_json::from_str(text).ok())
            .ok_or_else(|| Error::corrupt("the index does not say what it is"))?;
        let format = about.get("format").and_then(Value::as_u64).unwrap_or(0);
        if format != FORMAT {
            return Err(Error::unsupported(format!("an index of format {format}, where {FORMAT} is read")));
        }
        let text = |key: &str| about.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut keys = Keys { more: about.get("more_keys").and_then(Value::as_bool).unwrap_or(true), ..Keys::default() };
        for (key, count) in about.get("keys").and_then(Value::as_object).into_iter().flatten() {
            keys.counts.insert(key.clone(), count.as_u64().unwrap_or(0));
        }
        let column = |entry: &Value| {
            let word = entry.get("type").and_then(Value::as_str)?;
            let (kind, _) = Kind::ALL.into_iter().find(|(_, known)| *known == word)?;
            Some((entry.get("key")?.as_str()?.to_owned(), kind, entry.get("exact")?.as_bool()?))
        };
        let columns = about.get("columns").and_then(Value::as_array).into_iter().flatten().filter_map(column).collect();
        let rows = usize::try_from(file.num_rows()).map_err(|_| Error::corrupt("the index has a negative number of rows"))?;
        Ok(Self {
            layout: text("layout"),
            root: u128::from_str_radix(&text("root"), 16).unwrap_or(0),
            described: about.get("described").and_then(Value::as_bool).unwrap_or(false),
            size,
            rows,
            keys,
            columns,
            reader,
        })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }
    pub(super) fn layout(&self) -> &str {
        &self.layout
    }
    /// What tells whether the root is still the same.
    pub(super) fn root(&self) -> u128 {
        self.root
    }
    pub(super) fn described(&self) -> bool {
        self.described
    }
    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(key, ..)| key.as_str())
    }
    pub(super) fn bytes(&self) -> usize {
        self.size
    }

    /// What `decode` makes of every row group's part of a column, by several threads.
    fn groups<T: Send>(&self, name: &str, decode: impl Fn(ColumnReader, usize) -> Result<T> + Sync) -> Result<Vec<T>> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        let place = (0..schema.num_columns()).find(|&at| schema.column(at).name() == name);
        let place = place.ok_or_else(|| Error::corrupt(format!("the index has no column {name:?}")))?;
        parallel(self.reader.num_row_groups(), 1, 0, |groups, out| {
            for group in groups {
                let group = self.reader.get_row_group(group).map_err(damaged)?;
                let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
                out.push(decode(group.get_column_reader(place).map_err(damaged)?, rows)?);
            }
            Ok(())
        })
    }
    fn counted<T>(&self, found: usize, name: &str, value: T) -> Result<T> {
        match found == self.rows {
            true => Ok(value),
            false => Err(Error::corrupt(format!("the index has {found} values of {name:?} for {} rows", self.rows))),
        }
    }

    /// A column of texts.
    pub(super) fn texts(&self, part: Part) -> Result<Texts> {
        if part == Part::Fields && !self.described {
            return Ok(Texts::default());
        }
        let groups = self.groups(part.name(), |reader, rows| {
            let mut texts = Texts::default();
            read_texts(reader, rows, &mut texts, None).map(|()| texts)
        })?;
        let texts = joined(groups, Texts::append).unwrap_or_default();
        self.counted(texts.len(), part.name(), texts)
    }
    /// A column of stamps; empty where there is none.
    pub(super) fn stamps(&self, part: Part) -> Result<Vec<u128>> {
        if part == Part::FieldStamp && !self.described {
            return Ok(Vec::new());
        }
        let groups = self.groups(part.name(), |reader, rows| {
            let ColumnReader::FixedLenByteArrayColumnReader(mut reader) = reader else { return Err(mistyped(part.name())) };
            let (values, _) = read::<FixedLenByteArrayType>(&mut reader, rows)?;
            let stamp = |value: &FixedLenByteArray| <[u8; 16]>::try_from(value.data()).map_or(0, u128::from_le_bytes);
            Ok(values.iter().map(stamp).collect::<Vec<_>>())
        })?;
        let stamps = joined(groups, Vec::append).unwrap_or_default();
        self.counted(stamps.len(), part.name(), stamps)
    }
    /// A key's column.
    pub(super) fn column(&self, key: &str) -> Result<Column> {
        let (_, kind, exact) = self
            .columns
            .iter()
            .find(|(name, ..)| name == key)
            .ok_or_else(|| Error::corrupt(format!("the index has no key {key:?}")))?;
        let groups = self.groups(key, |reader, rows| {
            let mut column = Column { exact: *exact, ..Column::new(*kind) };
            let present = &mut column.present;
            match (&mut column.values, reader) {
                (Values::Text(texts), reader @ ColumnReader::ByteArrayColumnReader(_)) => {
                    read_texts(reader, rows, texts, Some(present))?;
                }
                (Values::Bool(values), ColumnReader::BoolColumnReader(mut reader)) => {
                    spread(read::<BoolType>(&mut reader, rows)?, values, present);
                }
                (Values::Int(values), ColumnReader::Int64ColumnReader(mut reader)) => {
                    spread(read::<Int64Type>(&mut reader, rows)?, values, present);
                }
                (Values::Float(values), ColumnReader::DoubleColumnReader(mut reader)) => {
                    spread(read::<DoubleType>(&mut reader, rows)?, values, present);
                }
                _ => return Err(mistyped(key)),
            }
            Ok(column)
        })?;
        let column = joined(groups, Column::append).unwrap_or_else(|| Column { exact: *exact, ..Column::new(*kind) });
        self.counted(column.present.len(), key, column)
    }
}

/// The parts one behind the other.
fn joined<T>(parts: Vec<T>, append: impl Fn(&mut T, &mut T)) -> Option<T> {
    let mut parts = parts.into_iter();
    let mut first = parts.next()?;
    parts.for_each(|mut part| append(&mut first, &mut part));
    Some(first)
}

fn mistyped(name: &str) -> Error {
    Error::corrupt(format!("the index has values of another type in the column {name:?}"))
}

/// All values of a row group's column, and for optional columns which rows have one.
fn read<T: DataType>(reader: &mut ColumnReaderImpl<T>, rows: usize) -> Result<(Vec<T::T>, Vec<i16>)> {
    // Grows as it is read: the number is only declared.
    let capacity = rows.min(GROUP);
    let (mut values, mut levels) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
    while rows > 0 && reader.read_records(GROUP, Some(&mut levels), None, &mut values).map_err(damaged)?.0 > 0 {}
    Ok((values, levels))
}

/// Puts values where the levels say that there are some.
fn spread<V: Copy + Default>((found, levels): (Vec<V>, Vec<i16>), values: &mut Vec<V>, present: &mut Vec<bool>) {
    let mut found = found.into_iter();
    for level in levels {
        present.push(level > 0);
        values.push(if level > 0 { found.next().unwrap_or_default() } else { V::default() });
    }
}

fn read_texts(reader: ColumnReader, rows: usize, texts: &mut Texts, mut present: Option<&mut Vec<bool>>) -> Result<()> {
    let ColumnReader::ByteArrayColumnReader(mut reader) = reader else { return Err(mistyped("of texts")) };
    let (mut values, mut levels) = (Vec::with_capacity(TEXTS), Vec::with_capacity(TEXTS));
    while rows > 0 && reader.read_records(TEXTS, Some(&mut levels), None, &mut values).map_err(damaged)?.0 > 0 {
        let text = |value: &ByteArray, texts: &mut Texts| value.as_utf8().map(|text| texts.push(text)).map_err(damaged);
        match &mut present {
            None => values.iter().try_for_each(|value| text(value, texts))?,
            Some(present) => {
                let mut values = values.iter();
                for level in &levels {
                    present.push(*level > 0);
                    match if *level > 0 { values.next() } else { None } {
                        Some(value) => text(value, texts)?,
                        None => texts.push(""),
                    }
                }
            }
        }
        values.clear();
        levels.clear();
    }
    Ok(())
}

/// Where the checksum's digits stand.
fn checksum_place(bytes: &[u8]) -> Result<Range<usize>> {
    let torn = || Error::corrupt("the index is no whole Parquet file");
    let (body, tail) = bytes.split_last_chunk::<8>().ok_or_else(torn)?;
    let (len, magic) = tail.split_first_chunk::<4>().ok_or_else(torn)?;
    if magic != b"PAR1" || !bytes.starts_with(b"PAR1") {
        return Err(torn());
    }
    let start = body.len().checked_sub(u32::from_le_bytes(*len) as usize).ok_or_else(torn)?;
    let footer = body.get(start..).ok_or_else(torn)?;
    let at = footer.windows(MARK.len()).rposition(|window| window == MARK.as_bytes());
    let at = at.ok_or_else(|| Error::unsupported("a Parquet file that sigbank did not write"))? + start + MARK.len();
    let place = at..at + ZEROS.len();
    if bytes.get(place.clone()).is_some() { Ok(place) } else { Err(torn()) }
}

fn digest(bytes: &[u8], place: &Range<usize>) -> String {
    let mut hash = Xxh3::new();
    hash.update(bytes.get(..place.start).unwrap_or_default());
    hash.update(ZEROS.as_bytes());
    hash.update(bytes.get(place.end..).unwrap_or_default());
    format!("{:032x}", hash.digest128())
}

/// The bytes of the file of a table. `root` is what tells whether the dataset is the same as a whole; 0 where nothing does.
pub(super) fn write(table: &Table, layout: &str, root: u128) -> Result<Vec<u8>> {
    let failed = |e: ParquetError| Error::storage(format!("the index cannot be written: {e}"));
    let mut names: std::collections::HashSet<String> = Part::ALL.iter().map(|part| part.name().to_owned()).collect();
    let mut columns = table.loaded_columns()?;
    // Names differ in more than case, since DuckDB does not tell those apart.
    columns.retain(|(key, _)| {
        let plain = !key.is_empty() && key.len() <= LONGEST_NAME && !key.chars().any(char::is_control);
        plain && names.insert(key.to_lowercase())
    });
    let parts: Vec<Part> =
        Part::ALL.into_iter().filter(|part| table.is_described() || !matches!(part, Part::Fields | Part::FieldStamp)).collect();
    let schema = schema(&parts, &columns).map_err(failed)?;
    let keys = table.counted_keys();
    let told: Vec<Value> =
        columns.iter().map(|(key, column)| json!({"key": key, "type": column.kind().word(), "exact": column.exact})).collect();
    let about = json!({
        "format": FORMAT, "layout": layout, "root": format!("{root:x}"), "described": table.is_described(), "columns": told,
        "keys": keys.counts, "more_keys": keys.more, "sigbank": env!("CARGO_PKG_VERSION"),
    });
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("sigbank {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).map_err(failed)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(vec![
            KeyValue::new(ABOUT.to_owned(), about.to_string()),
            KeyValue::new(CHECKSUM.to_owned(), format!("{MARK}{ZEROS}")),
        ]));
    for part in [Part::Id, Part::Metadata, Part::Ordinal, Part::Stamp, Part::FieldStamp] {
        // No two are the same.
        properties = properties.set_column_dictionary_enabled(ColumnPath::new(vec![part.name().to_owned()]), false);
        if part != Part::Id && part != Part::Ordinal {
            let path = ColumnPath::new(vec![part.name().to_owned()]);
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
        }
    }
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties.build())).map_err(failed)?;
    let mut start = 0;
    while start < table.len() {
        let rows = start..table.len().min(start + GROUP);
        let mut group = writer.next_row_group().map_err(failed)?;
        for part in &parts {
            write_part(&mut group, table, *part, rows.clone())?;
        }
        for (_, column) in &columns {
            write_column(&mut group, column, rows.clone()).map_err(failed)?;
        }
        group.close().map_err(failed)?;
        start = rows.end;
    }
    let mut bytes = writer.into_inner().map_err(failed)?;
    let place = checksum_place(&bytes)?;
    let digits = digest(&bytes, &place);
    if let Some(slot) = bytes.get_mut(place) {
        slot.copy_from_slice(digits.as_bytes());
    }
    Ok(bytes)
}

fn schema(parts: &[Part], columns: &[(&str, &Column)]) -> Result<Type, ParquetError> {
    let mut fields = Vec::new();
    for part in parts {
        let (physical, logical) = part.kind();
        let length = if physical == Physical::FIXED_LEN_BYTE_ARRAY { 16 } else { -1 };
        let field = Type::primitive_type_builder(part.name(), physical).with_repetition(Repetition::REQUIRED);
        fields.push(Arc::new(field.with_length(length).with_logical_type(logical).build()?));
    }
    for (key, column) in columns {
        let (physical, logical) = match column.kind() {
            Kind::Bool => (Physical::BOOLEAN, None),
            Kind::Int => (Physical::INT64, None),
            Kind::Float => (Physical::DOUBLE, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(key, physical).with_repetition(Repetition::OPTIONAL);
        fields.push(Arc::new(field.with_logical_type(logical).build()?));
    }
    Type::group_type_builder("sigbank").with_fields(fields).build()
}

fn write_part(group: &mut SerializedRowGroupWriter<'_, Vec<u8>>, table: &Table, part: Part, rows: Range<usize>) -> Result<()> {
    let failed = |e: ParquetError| Error::storage(format!("the index cannot be written: {e}"));
    let stamp = |stamps: &[u128], row: usize| {
        let stamp = stamps.get(row).copied().unwrap_or(0);
        FixedLenByteArray::from(stamp.to_le_bytes().to_vec())
    };
    let (stamps, field_stamps) = (table.stamps()?, table.field_stamps()?);
    match part {
        Part::Ordinal => {
            let values = rows.map(|row| table.ordinal(row).map(|n| n as i64)).collect::<Result<Vec<i64>>>()?;
            put::<Int64Type>(group, &values, None).map_err(failed)
        }
        Part::Stamp => {
            put::<FixedLenByteArrayType>(group, &rows.map(|row| stamp(stamps, row)).collect::<Vec<_>>(), None).map_err(failed)
        }
        Part::FieldStamp => {
            put::<FixedLenByteArrayType>(group, &rows.map(|row| stamp(field_stamps, row)).collect::<Vec<_>>(), None)
                .map_err(failed)
        }
        _ => {
            let text = |row: usize| match part {
                Part::Split => table.split(row),
                Part::Metadata => table.metadata(row),
                Part::Fields => table.fields_text(row),
                _ => Ok(table.id(row)),
            };
            let values = rows.map(|row| text(row).map(ByteArray::from)).collect::<Result<Vec<_>>>()?;
            put::<ByteArrayType>(group, &values, None).map_err(failed)
        }
    }
}

fn write_column(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    column: &Column,
    rows: Range<usize>,
) -> Result<(), ParquetError> {
    let there: Vec<bool> = rows.clone().map(|row| column.present.get(row).copied().unwrap_or(false)).collect();
    let levels: Vec<i16> = there.iter().map(|there| i16::from(*there)).collect();
    fn kept<V: Copy>(values: &[V], rows: Range<usize>, there: &[bool]) -> Vec<V> {
        let values = values.get(rows).unwrap_or_default();
        values.iter().zip(there).filter(|(_, there)| **there).map(|(value, _)| *value).collect()
    }
    match &column.values {
        Values::Bool(values) => put::<BoolType>(group, &kept(values, rows, &there), Some(&levels)),
        Values::Int(values) => put::<Int64Type>(group, &kept(values, rows, &there), Some(&levels)),
        Values::Float(values) => put::<DoubleType>(group, &kept(values, rows, &there), Some(&levels)),
        Values::Text(texts) => {
            let values: Vec<_> =
                rows.zip(&there).filter(|(_, there)| **there).map(|(row, _)| ByteArray::from(texts.get(row))).collect();
            put::<ByteArrayType>(group, &values, Some(&levels))
        }
    }
}

fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.ok_or_else(|| ParquetError::General("a column too many".into()))?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
