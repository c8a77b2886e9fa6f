//! TensorFlow's `tf.train.Example`: a protobuf message that holds one list of numbers or byte strings by name.
//!
//! How an attribute is stored, as the reference package does it:
//!
//! | declared | stored as |
//! |---|---|
//! | `int8`, `uint8`, `int32`, `int64`, `int` | Int64List, one number for each element, in C order |
//! | `float32` | FloatList, in C order |
//! | `float16` | BytesList of one: a serialized TensorProto with its shape and its bytes |
//! | `str`, `bytes` | BytesList of one |
//! | `bytes` of fixed length N | BytesList of N, one byte each: the reference reads nothing else where N is not 1 |
//!
//! Shapes stand in the schema only. Read are also `bytes` of fixed length in one piece, other integers, where they are in their dtype's range, and `float64` from a
//! FloatList; neither is written, since the reference could not read it.

mod read;
pub(crate) mod wire;
mod write;

#[cfg(test)]
mod tests;

use crate::container::Places;
use crate::error::{FormatError, Result};
use crate::model::{FieldType, Kind, Schema};

/// How the values of an attribute are stored.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    /// Int64List of numbers within `min..=max`, which take `width` bytes here.
    Ints { width: usize, min: i64, max: i64 },
    /// FloatList, values of 4 or 8 bytes here.
    Floats { width: usize },
    /// A TensorProto of float16.
    Half,
    /// BytesList of one.
    Bytes { text: bool },
    /// BytesList of one string for each byte.
    Octets,
}

#[derive(Debug, Clone)]
struct Attribute {
    name: String,
    /// As declared, for messages.
    ty: FieldType,
    form: Form,
    /// Bytes of a value where all have as many.
    len: Option<usize>,
}

/// Turns records of one schema into `tf.train.Example` messages and back.
///
/// A value's bytes are, in both directions: an array's elements in C order, little-endian; the 8 bytes of an `int`; UTF-8 of a `str`.
///
/// ```
/// use sigbank_format::Result;
/// use sigbank_format::container::Places;
/// use sigbank_format::model::{Field, FieldType, Schema};
/// use sigbank_format::record::tf_example::Codec;
///
/// struct Values(Vec<Vec<u8>>);
/// impl Places for Values {
///     fn place(&mut self, _row: usize, _field: usize, len: usize) -> Result<&mut [u8]> {
///         self.0.push(vec![0; len]);
///         Ok(self.0.last_mut().map(Vec::as_mut_slice).unwrap_or_default())
///     }
/// }
///
/// let field = |name: &str, ty| Field { name: name.into(), ty, metadata: Default::default() };
/// let trace = FieldType::Array { dtype: "uint8".parse()?, shape: vec![3] };
/// let codec = Codec::new(&Schema { fields: vec![field("trace", trace), field("label", FieldType::Str)] })?;
/// codec.writable()?;
/// let mut record = Vec::new();
/// codec.encode(&[&[1, 200, 3], "é".as_bytes()], &mut record)?;
///
/// let mut values = Values(Vec::new());
/// codec.decode(&record, 0, &[1, 0], &mut values)?;
/// assert_eq!(values.0, [vec![0xc3, 0xa9], vec![1, 200, 3]]);
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Codec {
    /// In declared order.
    attributes: Vec<Attribute>,
    /// Places in `attributes`, by name.
    by_name: Vec<usize>,
    /// Why nothing can be written, where that is so.
    unwritable: Option<FormatError>,
}

impl Codec {
    /// A codec for the records of a schema, for reading at least.
    ///
    /// # Errors
    /// Unsupported for an attribute that no `tf.train.Example` holds (bool, complex, text or bytes of fixed width, times), Invalid for
    /// two attributes of one name, Limit for a shape that is too large; all with the attribute's name.
    pub fn new(schema: &Schema) -> Result<Self> {
        let mut attributes = Vec::with_capacity(schema.fields.len());
        for field in &schema.fields {
            let within = |e: FormatError| e.within(format!("attribute '{}'", field.name));
            attributes.push(Attribute {
                name: field.name.clone(),
                ty: field.ty.clone(),
                form: form(&field.ty).ok_or_else(|| within(unsupported(&field.ty, "is not read from")))?,
                len: field.ty.fixed_len().map_err(within)?,
            });
        }
        let name = |&i: &usize| attributes.get(i).map(|a| a.name.as_str()).unwrap_or_default();
        let mut by_name: Vec<usize> = (0..attributes.len()).collect();
        by_name.sort_by(|a, b| name(a).cmp(name(b)));
        if let Some((twice, _)) = by_name.iter().zip(by_name.iter().skip(1)).find(|(a, b)| name(a) == name(b)) {
            return Err(FormatError::invalid(format!("two attributes are called '{}': rename one", name(twice))));
        }
        let unwritable = attributes
            .iter()
            .find(|a| !written_by_the_reference(&a.ty))
            .map(|a| unsupported(&a.ty, "is not written to").within(format!("attribute '{}'", a.name)));
        Ok(Self { attributes, by_name, unwritable })
    }

    /// Whether records of this schema may be written, that is, whether the reference could read them.
    ///
    /// # Errors
    /// Unsupported, with the attribute, its dtype, why, and what to use instead.
    pub fn writable(&self) -> Result<()> {
        self.unwritable.clone().map_or(Ok(()), Err)
    }

    /// Appends one record to `out`: `values` are the bytes of every attribute, in declared order. The same values always give the
    /// same bytes.
    ///
    /// # Errors
    /// Those of [`Codec::writable`]; Invalid, with the attribute, for a value of another length than declared, text that is not UTF-8,
    /// or another number of values. `out` is then as it was.
    pub fn encode(&self, values: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        self.writable()?;
        write::example(&self.attributes, values, out)
    }

    /// Reads a record: for each of `fields` (places in the schema), in order, asks `out` for the value's place by `row` and the
    /// place in `fields`, and fills it. Attributes that are not asked for are passed over.
    ///
    /// Lists may be packed or not, features in any order; of two with one name the last counts, and unknown fields are passed over.
    ///
    /// # Errors
    /// Corrupt, with the attribute: bytes that are no such message, an attribute that is missing or of another kind than declared, another
    /// number of elements, a number out of the dtype's range, text that is not UTF-8. Invalid for a place that is not in the schema.
    /// Those of `out`.
    pub fn decode(&self, record: &[u8], row: usize, fields: &[usize], out: &mut dyn Places) -> Result<()> {
        let features = read::features(self, record).map_err(|e| e.within("not a tf.train.Example"))?;
        for (at, &field) in fields.iter().enumerate() {
            let attribute =
                self.attributes.get(field).ok_or_else(|| FormatError::invalid(format!("there is no attribute {field}")))?;
            let feature = features.get(field).and_then(Option::as_deref);
            read::value(attribute, feature, read::Place { out: &mut *out, row, at })
                .map_err(|e| e.within(format!("attribute '{}'", attribute.name)))?;
        }
        Ok(())
    }

    /// The place of an attribute in the schema, by its name's bytes.
    fn position(&self, name: &[u8]) -> Option<usize> {
        let named = |&i: &usize| self.attributes.get(i).map(|a| a.name.as_bytes()).unwrap_or_default();
        let at = self.by_name.binary_search_by(|i| named(i).cmp(name)).ok()?;
        self.by_name.get(at).copied()
    }
}

/// How a type is stored; none where it is not.
fn form(ty: &FieldType) -> Option<Form> {
    Some(match ty {
        FieldType::Int => Form::Ints { width: 8, min: i64::MIN, max: i64::MAX },
        FieldType::Str => Form::Bytes { text: true },
        FieldType::Bytes { len: None } => Form::Bytes { text: false },
        FieldType::Bytes { len: Some(_) } => Form::Octets,
        FieldType::Array { dtype, .. } if dtype.is_big_endian() => return None,
        FieldType::Array { dtype, .. } => match (dtype.kind(), dtype.itemsize()) {
            (Kind::Int, width @ 1..=8) => {
                let max = i64::MAX >> (64 - 8 * width);
                Form::Ints { width, min: -max - 1, max }
            }
            (Kind::UInt, width @ 1..=8) => Form::Ints { width, min: 0, max: i64::MAX >> 63usize.saturating_sub(8 * width) },
            (Kind::Float, 2) => Form::Half,
            (Kind::Float, width @ (4 | 8)) => Form::Floats { width },
            _ => return None,
        },
    })
}

/// What the reference stores and reads back.
fn written_by_the_reference(ty: &FieldType) -> bool {
    match ty {
        FieldType::Int | FieldType::Str | FieldType::Bytes { .. } => true,
        FieldType::Array { dtype, .. } => {
            !dtype.is_big_endian()
                && matches!((dtype.kind(), dtype.itemsize()), (Kind::Int, 1 | 4 | 8) | (Kind::UInt, 1) | (Kind::Float, 2 | 4))
        }
    }
}

fn unsupported(ty: &FieldType, verb: &str) -> FormatError {
    let FieldType::Array { dtype, .. } = ty else {
        return FormatError::unsupported(format!("{ty} {verb} tfrec"));
    };
    let (why, instead) = match (dtype.kind(), dtype.itemsize()) {
        _ if dtype.is_big_endian() => ("the format is little-endian", "the little-endian dtype"),
        (Kind::Float, 8) => ("TensorFlow's FloatList holds float32 only, so values would lose precision", "float32"),
        (Kind::Int, 2) => ("the reference refuses it there", "int32"),
        (Kind::UInt, 2) => ("the reference refuses it there", "int32"),
        (Kind::UInt, 4) => ("the reference refuses it there", "int64"),
        (Kind::UInt, _) => ("the reference refuses it there, and an Int64List ends at 2**63 - 1", "int64"),
        (Kind::Bool, _) => ("the reference refuses it there", "uint8"),
        (Kind::Complex, 8) => ("a tf.train.Example holds no complex numbers", "float32 with a last axis of 2"),
        (Kind::Bytes | Kind::Unicode | Kind::Void, _) => ("a tf.train.Example holds no such arrays", "bytes or str"),
        (Kind::DateTime | Kind::TimeDelta, _) => ("a tf.train.Example holds no times", "int64"),
        _ => ("a tf.train.Example holds no such numbers", "float32"),
    };
    FormatError::unsupported(format!(
        "dtype {} {verb} tfrec, for {why}; use {instead}, or shard_file_type \"fb\" or \"npz\", which keep it",
        dtype.name()
    ))
}
