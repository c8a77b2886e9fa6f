//! Reading a shard.

use super::column::{Column, Span, Target};
use super::member::{KEPT, TAIL};
use super::{Names, Npz, member_names, open};
use crate::array::source::Tail;
use crate::container::Places;
use crate::error::{FormatError, Result};
use crate::model::{ByteOrder, DType, FieldType, Kind, Schema};
use crate::read_at::ReadAt;
use std::sync::Arc;

/// Rows that are gone through at a time.
const STEP: u64 = 4096;

/// A shard that is open for reading: see [`super::ShardBuilder`] for what its members hold.
///
/// Members are opened when they are first needed. Stored ones are read by ranges, deflated ones inflated as far as is needed: up to
/// 8 MiB at once and kept (64 MiB in all), larger ones as a stream, which goes back to the start where an earlier record is asked
/// for. A checksum is checked where its member is read from its first record to its last, is inflated at once, or when it is
/// asked for ([`ShardReader::verify`]).
///
/// ```
/// use sigbank_format::container::{Places, npz};
/// use sigbank_format::model::{Field, FieldType, Schema};
/// let field = Field { name: "note".into(), ty: FieldType::Str, metadata: Default::default() };
/// let schema = Schema { fields: vec![field] };
/// let mut builder = npz::ShardBuilder::new(&schema)?;
/// builder.push(&["first".as_bytes()])?;
/// builder.push(&["größer".as_bytes()])?;
/// let file = bytes::Bytes::from(builder.finish(true)?.concat());
///
/// struct Texts(Vec<Vec<u8>>);
/// impl Places for Texts {
///     fn place(&mut self, row: usize, _field: usize, len: usize) -> sigbank_format::Result<&mut [u8]> {
///         self.0[row] = vec![0; len];
///         Ok(&mut self.0[row])
///     }
/// }
/// let mut shard = npz::ShardReader::open(std::sync::Arc::new(file), &schema)?;
/// assert_eq!(shard.records()?, 2);
/// let mut texts = Texts(vec![vec![]; 1]);
/// shard.read(&[1], &[0], &mut texts)?;
/// assert_eq!(texts.0, ["größer".as_bytes()]);
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
pub struct ShardReader {
    npz: Npz,
    fields: Vec<Slot>,
    kept: u64,
    scratch: Vec<u8>,
}

/// A declared field.
struct Slot {
    ty: FieldType,
    names: Names,
    open: Option<Values>,
}

/// The values of a field.
struct Values {
    records: u64,
    column: Column,
    form: Form,
}

/// How they are stored.
enum Form {
    /// Each row is a value.
    Rows,
    /// Integers of another width than the eight bytes of `int`.
    Ints,
    /// UTF-32.
    Text,
    /// Bytes, each value from one offset to the next.
    Bytes(Vec<u64>),
    /// Rows of another type than the one declared.
    Other(FieldType),
}

impl ShardReader {
    /// Opens a shard of records of `schema`: reads the archive's directory.
    ///
    /// # Errors
    /// Corrupt for what is no zip archive or a cut one, for two members of one name and for a field whose member is missing.
    pub fn open(src: Arc<dyn ReadAt>, schema: &Schema) -> Result<Self> {
        let npz = open(Arc::new(Tail::new(src, TAIL)?))?;
        let slots = schema.fields.iter().zip(member_names(schema));
        let fields: Vec<Slot> = slots.map(|(f, names)| Slot { ty: f.ty.clone(), names, open: None }).collect();
        for name in fields.iter().flat_map(|f| f.names.offsets().into_iter().chain([f.names.main.clone()])) {
            if npz.archive.index_for_name(&name).is_none() {
                let there = npz.names()?.join("', '");
                return Err(FormatError::corrupt(format!(
                    "the archive lacks the member '{name}'; its arrays are '{there}'. Either the shard is damaged, or it is of \
                     another dataset"
                )));
            }
        }
        Ok(Self { npz, fields, kept: 0, scratch: Vec::new() })
    }

    /// How many records there are.
    ///
    /// # Errors
    /// Corrupt where members disagree, naming them, and the errors of opening every member.
    pub fn records(&mut self) -> Result<u64> {
        let mut first: Option<(String, u64)> = None;
        for field in 0..self.fields.len() {
            let values = self.values(field)?;
            let (name, records) = (&values.column.name, values.records);
            match &first {
                None => first = Some((name.clone(), records)),
                Some((_, n)) if *n == records => {}
                Some((other, n)) => {
                    return Err(FormatError::corrupt(format!(
                        "the members do not belong together: '{other}' holds {n} records, '{name}' {records}"
                    )));
                }
            }
        }
        Ok(first.map_or(0, |(_, records)| records))
    }

    /// Reads the fields `fields` (positions in the schema) of the records `records` (positions in the shard, ascending) to where `out`
    /// wants them: the value of the i-th record asked for in the j-th field asked for goes to `place(i, j, len)`. Arrays are delivered
    /// in C order, little-endian; `int` as an int64; `str` as UTF-8.
    ///
    /// A value whose stored dtype or shape differs from the declared one goes to `place_as`. `int` that is stored as another
    /// integer dtype does not differ where it fits.
    ///
    /// # Errors
    /// Invalid for records or fields that there are not, and for records that do not ascend. Corrupt for damage, naming member and
    /// record. Unsupported for pickled objects, structured dtypes, encryption and other compressions than deflate. Those of `out`.
    pub fn read(&mut self, records: &[u32], fields: &[usize], out: &mut dyn Places) -> Result<()> {
        if let Some((a, b)) = records.iter().zip(records.iter().skip(1)).find(|(a, b)| a > b) {
            return Err(FormatError::invalid(format!("records are read in their order, but {b} is asked for after {a}")));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let read = fields.iter().enumerate().try_for_each(|(to, &field)| {
            let values = self.values(field)?;
            if let Some(&record) = records.last().filter(|&&r| u64::from(r) >= values.records) {
                return Err(FormatError::invalid(format!(
                    "record {record} is asked for, but member '{}' holds {}",
                    values.column.name, values.records
                )));
            }
            values.read(records, Target { out, field: to, stored: None }, &mut scratch)
        });
        self.scratch = scratch;
        read
    }

    /// The fields, by their position in the schema, whose values are stored as another type than the declared one, and that type.
    ///
    /// # Errors
    /// Those of opening every member.
    pub fn differing(&mut self) -> Result<Vec<(usize, FieldType)>> {
        let mut differing = Vec::new();
        for field in 0..self.fields.len() {
            let values = self.values(field)?;
            if matches!(values.form, Form::Other(_)) || values.some_int_is_too_large()? {
                differing.push((field, values.column.row_type()));
            }
        }
        Ok(differing)
    }

    /// Checks the checksums of what some fields (positions in the schema) are stored in. What reads have gone through in order is
    /// not read again, nor what was checked before; the rest is read in pieces.
    ///
    /// # Errors
    /// Corrupt, naming the member, where one is not that which the archive tells of; reads of it fail from then on.
    pub fn verify(&mut self, fields: &[usize]) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut all = fields.iter().copied();
        let verified = all.try_for_each(|field| self.values(field)?.column.verify(&mut scratch));
        self.scratch = scratch;
        verified
    }

    /// Goes through everything as reading it would, and keeps nothing: checksums, and whether texts are texts.
    ///
    /// # Errors
    /// Those that reading every record would give.
    pub fn check(&mut self) -> Result<()> {
        self.records()?;
        let all: Vec<usize> = (0..self.fields.len()).collect();
        let mut scratch = std::mem::take(&mut self.scratch);
        let texts = all.iter().try_for_each(|&field| self.values(field)?.check_texts(&mut scratch));
        self.scratch = scratch;
        // What was decoded is not read again for its checksum, and damage is told as what it is.
        self.verify(&all).and(texts)
    }

    /// The values of a field, opened on first use.
    fn values(&mut self, field: usize) -> Result<&mut Values> {
        let count = self.fields.len();
        let Some(slot) = self.fields.get_mut(field) else {
            return Err(FormatError::invalid(format!("field {field} of {count}")));
        };
        if slot.open.is_none() {
            let values = Values::open(&mut self.npz, &slot.names, &slot.ty, KEPT.saturating_sub(self.kept))?;
            self.kept += values.column.kept();
            slot.open = Some(values);
        }
        slot.open.as_mut().ok_or_else(|| FormatError::invalid(format!("field {field} of {count}")))
    }
}

impl Values {
    fn open(npz: &mut Npz, names: &Names, ty: &FieldType, keep: u64) -> Result<Self> {
        if let Some(offsets) = names.offsets() {
            let column = Column::open(npz, &names.main, keep)?;
            let offsets = offsets_of(Column::open(npz, &offsets, u64::MAX)?, &column)?;
            return Ok(match ty {
                FieldType::Bytes { len: Some(len) } => {
                    let mut bounds = offsets.iter().zip(offsets.iter().skip(1));
                    if let Some(record) = bounds.position(|(from, to)| to - from != *len as u64) {
                        return Err(FormatError::corrupt(format!(
                            "member '{}', record {record}: not the {len} bytes that are declared",
                            names.main
                        )));
                    }
                    Self { records: offsets.len() as u64 - 1, column, form: Form::Bytes(offsets) }
                }
                _ => Self { records: offsets.len() as u64 - 1, column, form: Form::Bytes(offsets) },
            });
        }
        let column = Column::open(npz, &names.main, keep)?;
        let records = column.rows()?;
        let stored = column.row_type();
        let single = column.shape.len() == 1;
        let form = match (ty, column.dtype.kind()) {
            (FieldType::Array { dtype, shape }, _) => {
                let declared = FieldType::Array { dtype: dtype.clone().with_order(ByteOrder::Little), shape: shape.clone() };
                if declared == stored { Form::Rows } else { Form::Other(stored) }
            }
            (FieldType::Int, Kind::Int) if single && column.row == 8 => Form::Rows,
            (FieldType::Int, Kind::Int | Kind::UInt | Kind::Bool) if single => Form::Ints,
            (FieldType::Str, Kind::Unicode) if single => Form::Text,
            _ => Form::Other(stored),
        };
        Ok(Self { records, column, form })
    }

    fn read(&mut self, records: &[u32], mut target: Target<'_>, scratch: &mut Vec<u8>) -> Result<()> {
        let column = &mut self.column;
        let name = column.name.clone();
        let at = |i: usize| format!("member '{name}', record {}", records.get(i).copied().unwrap_or(0));
        let rows = || records.iter().map(|&r| u64::from(r));
        match &self.form {
            Form::Rows => column.deliver(&column.spans(rows()), &mut target, scratch),
            Form::Other(stored) => {
                let mut target = Target { out: target.out, field: target.field, stored: Some(stored) };
                column.deliver(&column.spans(rows()), &mut target, scratch)
            }
            Form::Bytes(offsets) => column.deliver(&spans(offsets, rows()), &mut target, scratch),
            Form::Ints => {
                let (dtype, stored) = (column.dtype.clone(), column.row_type());
                column.each(&column.spans(rows()), scratch, &mut |i, value| match i64::try_from(int(&dtype, value)) {
                    Ok(n) => target.put(i, &n.to_le_bytes()),
                    Err(_) => Target { out: &mut *target.out, field: target.field, stored: Some(&stored) }.put(i, value),
                })
            }
            Form::Text => {
                let mut text = String::new();
                column.each(&column.spans(rows()), scratch, &mut |i, value| {
                    text.clear();
                    utf8(value, &mut text).map_err(|e| e.within(at(i)))?;
                    target.put(i, text.as_bytes())
                })
            }
        }
    }

    /// Decodes every text.
    fn check_texts(&mut self, scratch: &mut Vec<u8>) -> Result<()> {
        if !matches!(self.form, Form::Text) {
            return Ok(());
        }
        let (name, mut text) = (self.column.name.clone(), String::new());
        for start in (0..self.records).step_by(STEP as usize) {
            let spans = self.column.spans(start..self.records.min(start + STEP));
            self.column.each(&spans, scratch, &mut |i, value| {
                text.clear();
                utf8(value, &mut text).map_err(|e| e.within(format!("member '{name}', record {}", start + i as u64)))
            })?;
        }
        Ok(())
    }

    /// Whether an integer is stored that `int` cannot hold.
    fn some_int_is_too_large(&mut self) -> Result<bool> {
        let dtype = &self.column.dtype;
        if !matches!(self.form, Form::Ints) || (dtype.kind(), dtype.itemsize()) != (Kind::UInt, 8) {
            return Ok(false);
        }
        let mut found = false;
        each_int(&mut self.column, &mut |n| {
            found |= i64::try_from(n).is_err();
            Ok(())
        })?;
        Ok(found)
    }
}

/// The spans of values between offsets.
fn spans(offsets: &[u64], records: impl Iterator<Item = u64>) -> Vec<Span> {
    let bounds = |r: u64| match offsets.get(r as usize..) {
        Some([from, to, ..]) => (*from, (to - from) as usize),
        _ => (0, 0),
    };
    records.map(bounds).collect()
}

/// The offsets of the values in `data`, checked: they start at 0, ascend and end where the data do.
fn offsets_of(mut column: Column, data: &Column) -> Result<Vec<u64>> {
    let name = column.name.clone();
    let corrupt = |what: String| FormatError::corrupt(format!("member '{name}': {what}"));
    if column.shape.len() != 1 || !matches!(column.dtype.kind(), Kind::Int | Kind::UInt) {
        return Err(corrupt(format!(
            "the offsets of bytes are integers along one axis, not {} of shape {:?}",
            column.dtype.name(),
            column.shape
        )));
    }
    if data.is_fortran() || (data.dtype.kind(), data.dtype.itemsize()) != (Kind::UInt, 1) {
        return Err(FormatError::corrupt(format!(
            "member '{}': bytes are uint8 of shape (1, total), not {} of shape {:?}",
            data.name,
            data.dtype.name(),
            data.shape
        )));
    }
    let total: u64 = data.shape.iter().map(|&n| n as u64).product();
    let mut offsets: Vec<u64> = Vec::new();
    each_int(&mut column, &mut |n| {
        let before = offsets.last().copied();
        match u64::try_from(n) {
            Ok(n) if n <= total && before.map_or(n == 0, |before| before <= n) => {
                offsets.push(n);
                Ok(())
            }
            _ => Err(corrupt(format!("offset {} is {n}, where {} to {total} is expected", offsets.len(), before.unwrap_or(0)))),
        }
    })?;
    column.verify(&mut Vec::new())?;
    match offsets.last() {
        Some(&last) if last == total => Ok(offsets),
        Some(last) => Err(corrupt(format!("the offsets end at {last}, but member '{}' holds {total} bytes", data.name))),
        None => Err(corrupt("no offsets, where one more than there are records is expected".into())),
    }
}

/// Shows every integer of a column.
fn each_int(column: &mut Column, see: &mut dyn FnMut(i128) -> Result<()>) -> Result<()> {
    let (rows, dtype) = (column.rows()?, column.dtype.clone());
    let mut scratch = Vec::new();
    for start in (0..rows).step_by(STEP as usize) {
        let spans = column.spans(start..rows.min(start + STEP));
        column.each(&spans, &mut scratch, &mut |_, value| see(int(&dtype, value)))?;
    }
    Ok(())
}

/// A little-endian integer of a dtype of at most eight bytes.
fn int(dtype: &DType, bytes: &[u8]) -> i128 {
    let mut wide = [0; 8];
    wide.iter_mut().zip(bytes).for_each(|(to, b)| *to = *b);
    let unsigned = u64::from_le_bytes(wide);
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    match dtype.kind() {
        Kind::Int => i128::from((unsigned << unused) as i64 >> unused),
        _ => i128::from(unsigned),
    }
}

/// UTF-32, padded with NUL, as UTF-8.
fn utf8(units: &[u8], text: &mut String) -> Result<()> {
    let (units, _) = units.as_chunks::<4>();
    let len = units.iter().rposition(|u| u32::from_le_bytes(*u) != 0).map_or(0, |last| last + 1);
    for unit in units.iter().take(len) {
        let code = u32::from_le_bytes(*unit);
        let c = char::from_u32(code).ok_or_else(|| {
            FormatError::corrupt(format!(
                "{code:#x} is no character's code point (surrogates are not either), so this is no text"
            ))
        })?;
        text.push(c);
    }
    Ok(())
}
