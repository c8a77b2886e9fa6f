//! Building a shard.

use super::archive::{self, Entry, Method};
use super::member_names;
use crate::array::npy;
use crate::error::{FormatError, Result};
use crate::limits::MAX_NPZ_SHARD;
use crate::model::array::byte_len;
use crate::model::{DType, FieldType, Kind, Schema};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use libdeflater::{CompressionLvl, Compressor, Crc};
use std::collections::HashSet;
use std::io::Write;

/// libdeflate's level whose output is as small as zlib's at level 6, which is what NumPy writes.
const LEVEL: i32 = 7;
/// Of data that shrink by more than this factor zlib makes less, and quickly.
const SPARSE: usize = 64;
/// Longest name that zip can hold.
const MAX_NAME: usize = u16::MAX as usize;
/// As many characters of a name that is too long are shown.
const SHOWN: usize = 40;
/// Bytes of a member's headers and its part of the directory, more or less.
const AROUND: u64 = 512;

/// Collects records and lays them out as one npz archive, as the Sedpack reference does: for each field, in the declared order, the
/// member `name.npy` with the values stacked along a new first axis.
///
/// - Arrays: the declared dtype (little-endian) and shape (records, *shape*).
/// - `int`: int64 of shape (records,).
/// - `str`: UTF-32 (`<U…`, as wide as the longest text) of shape (records,).
/// - `bytes`: the values one after another as uint8 of shape (1, total), and before that member another one with the records + 1
///   offsets (int64, from 0), whose name is `len`, as many underscores as the longest field's name has characters, and the name.
///
/// The same records give the same bytes. Stored archives are what NumPy's `savez` writes, byte for byte.
///
/// ```
/// use sigbank_format::container::npz::{ShardBuilder, open};
/// use sigbank_format::model::{Field, FieldType, Schema};
/// let field = |name: &str, ty| Field { name: name.into(), ty, metadata: Default::default() };
/// let schema = Schema {
///     fields: vec![
///         field("trace", FieldType::Array { dtype: "<i2".parse()?, shape: vec![2] }),
///         field("note", FieldType::Bytes { len: None }),
///     ],
/// };
/// let mut shard = ShardBuilder::new(&schema)?;
/// shard.push(&[&[1, 0, 2, 0], b"abc"])?;
/// let mut npz = open(std::sync::Arc::new(bytes::Bytes::from(shard.finish(false)?.concat())))?;
/// assert_eq!(npz.names()?, ["trace", "len_____note", "note"]);
/// assert_eq!(npz.read("trace")?.shape(), [1, 2]);
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub struct ShardBuilder {
    columns: Vec<Column>,
    records: usize,
    directory: Vec<u8>,
    compressor: Option<Compressor>,
}

/// The values of one field.
struct Column {
    name: String,
    ty: FieldType,
    /// Bytes of a value, where all have as many.
    len: Option<usize>,
    main: Member,
    /// Offsets of `bytes`.
    offsets: Option<Member>,
    text: Text,
}

/// Texts as they came, since only the finished shard knows how wide they are.
#[derive(Default)]
struct Text {
    utf8: String,
    ends: Vec<usize>,
    /// Characters of the longest.
    width: usize,
}

/// One member.
struct Member {
    /// With `.npy`.
    name: String,
    dtype: DType,
    local: Vec<u8>,
    /// The npy header, then the elements.
    body: Vec<u8>,
    /// Bytes of the npy header.
    header: usize,
    packed: Vec<u8>,
    packed_len: Option<usize>,
}

impl ShardBuilder {
    /// A shard without records.
    ///
    /// # Errors
    /// Invalid for two fields of one name, and for names that zip and NumPy cannot hold: with a NUL character, of 64 KiB, or `x.npy`
    /// beside `x` (NumPy takes the one for the other). Limit for shapes over [`crate::limits::MAX_ARRAY_BYTES`].
    pub fn new(schema: &Schema) -> Result<Self> {
        check_names(schema)?;
        let columns = schema.fields.iter().zip(member_names(schema)).map(|(field, names)| {
            let (dtype, shape) = match &field.ty {
                FieldType::Array { dtype, shape } => (dtype.clone(), &shape[..]),
                FieldType::Int => (DType::new(Kind::Int, 8)?, &[][..]),
                FieldType::Str => (DType::new(Kind::Unicode, 4)?, &[][..]),
                FieldType::Bytes { .. } => (DType::new(Kind::UInt, 1)?, &[1][..]),
            };
            let place = |e: FormatError| e.within(format!("attribute '{}'", field.name));
            let offsets = names.offsets().map(|name| Member::new(name, DType::new(Kind::Int, 8)?, &[])).transpose()?;
            Ok(Column {
                name: field.name.clone(),
                len: field.ty.fixed_len().map_err(place)?,
                ty: field.ty.clone(),
                main: Member::new(names.main, dtype, shape).map_err(place)?,
                offsets,
                text: Text::default(),
            })
        });
        let mut shard = Self { columns: columns.collect::<Result<_>>()?, records: 0, directory: Vec::new(), compressor: None };
        shard.clear();
        Ok(shard)
    }

    /// Records pushed so far.
    pub fn len(&self) -> usize {
        self.records
    }
    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }
    /// Bytes held in memory.
    pub fn memory(&self) -> usize {
        let members = |c: &Column| {
            let each = c.members().map(|m| m.local.capacity() + m.body.capacity() + m.packed.capacity());
            each.sum::<usize>() + c.text.utf8.capacity() + c.text.ends.capacity() * size_of::<usize>()
        };
        self.columns.iter().map(members).sum::<usize>() + self.directory.capacity()
    }

    /// Whether one more record whose values have `bytes` in all keeps the shard within [`crate::limits::MAX_NPZ_SHARD`], texts
    /// counted at the width they have so far. The first record always fits.
    pub fn fits(&self, bytes: usize) -> bool {
        self.fits_with(bytes as u64, |column| column.text.width)
    }

    /// As [`ShardBuilder::fits`], and knows how wide texts become: each takes as much room as the longest, four bytes a
    /// character, so that one long text among many records can make a shard large.
    pub fn fits_values(&self, values: &[&[u8]]) -> bool {
        let bytes = values.iter().fold(0u64, |all, v| all.saturating_add(v.len() as u64));
        let mut values = values.iter();
        self.fits_with(bytes, |column| {
            let len = values.next().map_or(0, |v| v.len());
            // The length in bytes is no less than that in characters, and mostly enough to know.
            column.text.width.max(len)
        })
    }

    fn fits_with(&self, bytes: u64, mut width: impl FnMut(&Column) -> usize) -> bool {
        let records = self.records as u64 + 1;
        let columns = self.columns.iter().map(|c| {
            let width = width(c) as u64;
            let offsets = c.offsets.as_ref().map_or(0, |_| records * 8 + AROUND);
            let main = match c.ty {
                FieldType::Str => records.saturating_mul(width).saturating_mul(4),
                _ => c.main.body.len() as u64,
            };
            AROUND.saturating_add(offsets).saturating_add(main)
        });
        self.records == 0 || columns.fold(bytes, u64::saturating_add) <= MAX_NPZ_SHARD
    }

    /// Adds one record: each field's bytes, in the declared order. An array's are its elements in C order, little-endian, an `int`'s
    /// an int64's, a `str`'s UTF-8.
    ///
    /// # Errors
    /// Invalid, naming the field, for a wrong number of values or bytes, for text that is not UTF-8, and for text that ends in NUL,
    /// which NumPy would drop. Limit where the shard would pass [`crate::limits::MAX_NPZ_SHARD`]. The shard is as before.
    pub fn push(&mut self, values: &[&[u8]]) -> Result<()> {
        if values.len() != self.columns.len() {
            return Err(FormatError::invalid(format!("{} values for {} attributes", values.len(), self.columns.len())));
        }
        for (column, value) in self.columns.iter().zip(values) {
            column.check(value).map_err(|e| e.within(format!("attribute '{}'", column.name)))?;
        }
        if !self.fits_values(values) {
            return Err(FormatError::limit(format!(
                "the example does not fit into an npz shard that holds {} examples ({MAX_NPZ_SHARD} bytes at most)",
                self.records
            )));
        }
        self.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        self.records += 1;
        Ok(())
    }

    /// The finished archive in pieces that follow one another: stored, or with `zip` deflated. What was pushed is not copied when it
    /// is stored, but for texts, which become UTF-32.
    pub fn finish(&mut self, zip: bool) -> Result<Vec<&[u8]>> {
        if zip && self.compressor.is_none() {
            let level = CompressionLvl::new(LEVEL).map_err(|e| FormatError::invalid(format!("ZIP: level {LEVEL}: {e:?}")))?;
            self.compressor = Some(Compressor::new(level));
        }
        self.directory.clear();
        let (mut at, mut members) = (0, 0);
        for column in &mut self.columns {
            column.seal(self.records)?;
            for member in column.members_mut() {
                at = member.finish(at, self.compressor.as_mut().filter(|_| zip), &mut self.directory)?;
                members += 1;
            }
        }
        archive::end(members, at, &mut self.directory);
        let pieces = self.columns.iter().flat_map(Column::members).flat_map(Member::pieces);
        Ok(pieces.chain([&self.directory[..]]).collect())
    }

    /// Empties the shard and keeps its memory.
    pub fn clear(&mut self) {
        for column in &mut self.columns {
            column.members_mut().for_each(|m| m.body.truncate(m.header));
            column.text.utf8.clear();
            column.text.ends.clear();
            column.text.width = 0;
            if let Some(offsets) = &mut column.offsets {
                offsets.body.extend_from_slice(&0u64.to_le_bytes());
            }
        }
        self.records = 0;
    }
}

/// Refuses names that would not come back.
fn check_names(schema: &Schema) -> Result<()> {
    let names: HashSet<&str> = schema.fields.iter().map(|f| f.name.as_str()).collect();
    if names.len() < schema.fields.len() {
        let mut seen = HashSet::new();
        let twice = schema.fields.iter().find(|f| !seen.insert(&f.name)).map_or("", |f| &f.name);
        return Err(FormatError::invalid(format!("two attributes are called '{twice}'")));
    }
    for (field, names) in schema.fields.iter().zip(member_names(schema)) {
        let len = names.main.len() + names.underscores.map_or(0, |n| "len".len() + n);
        if len > MAX_NAME {
            let cut = field.name.char_indices().nth(SHOWN).map(|(at, _)| at);
            let (start, more) = (field.name.get(..cut.unwrap_or(field.name.len())).unwrap_or(""), cut.map_or("", |_| "…"));
            return Err(FormatError::invalid(format!(
                "attribute '{start}{more}': its member of an npz archive would have a name of {len} bytes, and zip can hold {MAX_NAME}: \
                 shorten the longest attribute name"
            )));
        }
    }
    for name in &names {
        if name.contains('\0') {
            return Err(FormatError::invalid(format!("attribute {name:?}: npz cannot hold a name with a NUL character")));
        }
        if name.strip_suffix(".npy").is_some_and(|other| names.contains(other)) {
            return Err(FormatError::invalid(format!(
                "attribute '{name}': npz cannot hold it beside '{}', for NumPy would read the one in place of the other",
                name.trim_end_matches(".npy")
            )));
        }
    }
    Ok(())
}

impl Column {
    fn members(&self) -> impl Iterator<Item = &Member> {
        self.offsets.iter().chain([&self.main])
    }
    fn members_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.offsets.iter_mut().chain([&mut self.main])
    }

    fn check(&self, value: &[u8]) -> Result<()> {
        if self.len.is_some_and(|len| len != value.len()) {
            let len = self.len.unwrap_or(0);
            return Err(FormatError::invalid(format!("{} takes {len} bytes, {} are given", self.ty, value.len())));
        }
        if self.ty == FieldType::Str {
            std::str::from_utf8(value).map_err(|e| FormatError::invalid(format!("the text is not UTF-8: {e}")))?;
            if value.ends_with(&[0]) {
                return Err(FormatError::invalid(
                    "the text ends in a NUL character, which NumPy drops from npz shards; strip it, or declare the attribute as bytes",
                ));
            }
        }
        Ok(())
    }

    fn push(&mut self, value: &[u8]) {
        if self.ty == FieldType::Str {
            // Checked before.
            let text = std::str::from_utf8(value).unwrap_or_default();
            self.text.width = self.text.width.max(text.chars().count());
            self.text.utf8.push_str(text);
            self.text.ends.push(self.text.utf8.len());
            return;
        }
        self.main.body.extend_from_slice(value);
        if let Some(offsets) = &mut self.offsets {
            let end = self.main.body.len() - self.main.header;
            offsets.body.extend_from_slice(&(end as u64).to_le_bytes());
        }
    }

    /// Puts the elements and the npy headers of `records` records in place.
    fn seal(&mut self, records: usize) -> Result<()> {
        match &self.ty {
            FieldType::Str => {
                self.main.set_text(&self.text)?;
                self.main.seal(&[records])
            }
            FieldType::Array { shape, .. } => {
                let stacked: Vec<usize> = std::iter::once(records).chain(shape.iter().copied()).collect();
                self.main.seal(&stacked)
            }
            FieldType::Int => self.main.seal(&[records]),
            FieldType::Bytes { .. } => {
                if let Some(offsets) = &mut self.offsets {
                    offsets.seal(&[records + 1])?;
                }
                let total = self.main.body.len() - self.main.header;
                self.main.seal(&[1, total])
            }
        }
    }
}

impl Member {
    fn new(name: String, dtype: DType, row: &[usize]) -> Result<Self> {
        byte_len(&dtype, row)?;
        let shape: Vec<usize> = std::iter::once(1).chain(row.iter().copied()).collect();
        // NumPy leaves room for the first axis to grow, so the header has this length whatever the number of records.
        let header = npy::header(&dtype, &shape)?.len();
        let (local, packed) = (Vec::new(), Vec::new());
        Ok(Self { name, dtype, local, body: vec![0; header], header, packed, packed_len: None })
    }

    /// Writes texts as UTF-32, each as wide as the widest, the rest NUL.
    fn set_text(&mut self, text: &Text) -> Result<()> {
        // NumPy has no text of width 0.
        let width = text.width.max(1) * 4;
        self.dtype = DType::new(Kind::Unicode, width)?;
        let header = self.header;
        self.body.truncate(header);
        self.body.resize(header + width * text.ends.len(), 0);
        let rows = self.body.get_mut(header..).unwrap_or_default();
        let mut start = 0;
        for (row, &end) in rows.chunks_exact_mut(width).zip(&text.ends) {
            let chars = text.utf8.get(start..end).unwrap_or_default().chars();
            row.as_chunks_mut::<4>().0.iter_mut().zip(chars).for_each(|(to, c)| *to = u32::from(c).to_le_bytes());
            start = end;
        }
        Ok(())
    }

    /// Writes the npy header before the elements.
    fn seal(&mut self, shape: &[usize]) -> Result<()> {
        let header = npy::header(&self.dtype, shape)?;
        match self.body.get_mut(..header.len()).filter(|_| header.len() == self.header) {
            Some(room) => room.copy_from_slice(&header),
            None => {
                let old = std::mem::replace(&mut self.header, header.len());
                drop(self.body.splice(..old, header));
            }
        }
        Ok(())
    }

    /// Puts the local header before the body and its entry into the directory, with a compressor deflates the body. Gives where the
    /// next member starts.
    fn finish(&mut self, at: u64, compressor: Option<&mut Compressor>, directory: &mut Vec<u8>) -> Result<u64> {
        self.packed_len = compressor.map(|compressor| self.deflate(compressor)).transpose()?;
        let mut crc = Crc::new();
        crc.update(&self.body);
        let entry = Entry {
            name: &self.name,
            method: if self.packed_len.is_some() { Method::Deflated } else { Method::Stored },
            crc: crc.sum(),
            size: self.body.len() as u64,
            packed: self.packed_len.unwrap_or(self.body.len()) as u64,
            at,
        };
        self.local.clear();
        entry.local(&mut self.local);
        entry.central(directory);
        Ok(at + self.local.len() as u64 + entry.packed)
    }

    /// Deflates the body into the first bytes of `packed`. Gives how many.
    fn deflate(&mut self, compressor: &mut Compressor) -> Result<usize> {
        let bound = compressor.deflate_compress_bound(self.body.len());
        if self.packed.len() < bound {
            self.packed.resize(bound, 0);
        }
        let deflated = compressor.deflate_compress(&self.body, &mut self.packed);
        let len = deflated.map_err(|e| FormatError::invalid(format!("ZIP: member '{}': {e}", self.name)))?;
        if len * SPARSE > self.body.len() {
            return Ok(len);
        }
        let mut zlib = DeflateEncoder::new(Vec::with_capacity(len), Compression::default());
        zlib.write_all(&self.body)?;
        let other = zlib.finish()?;
        match self.packed.get_mut(..other.len()).filter(|_| other.len() < len) {
            Some(room) => room.copy_from_slice(&other),
            None => return Ok(len),
        }
        Ok(other.len())
    }

    fn pieces(&self) -> [&[u8]; 2] {
        let body = match self.packed_len {
            Some(len) => self.packed.get(..len).unwrap_or_default(),
            None => &self.body,
        };
        [&self.local, body]
    }
}
