//! What a record of a dataset is made of.

use super::array::byte_len;
use super::{DType, Metadata};
use crate::error::Result;
use std::fmt;

/// The type of one field of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldType {
    /// An array of fixed dtype and shape (a scalar has the empty shape).
    Array {
        /// Element type, little-endian.
        dtype: DType,
        /// Elements along each axis.
        shape: Vec<usize>,
    },
    /// One signed 64-bit integer, handed out as the language's own.
    Int,
    /// Text of any length.
    Str,
    /// Bytes: of any length, or of a fixed one.
    Bytes {
        /// The length where it is fixed.
        len: Option<usize>,
    },
}

impl FieldType {
    /// Bytes of one value where all values have as many.
    pub fn fixed_len(&self) -> Result<Option<usize>> {
        match self {
            FieldType::Array { dtype, shape } => byte_len(dtype, shape).map(Some),
            FieldType::Int => Ok(Some(8)),
            FieldType::Bytes { len } => Ok(*len),
            FieldType::Str => Ok(None),
        }
    }
}

/// For messages: `uint8[16]`, `int`, `str`, `bytes`, `bytes[16]`.
impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldType::Array { dtype, shape } if shape.is_empty() => f.write_str(&dtype.name()),
            FieldType::Array { dtype, shape } => write!(f, "{}{shape:?}", dtype.name()),
            FieldType::Int => f.write_str("int"),
            FieldType::Str => f.write_str("str"),
            FieldType::Bytes { len: None } => f.write_str("bytes"),
            FieldType::Bytes { len: Some(len) } => write!(f, "bytes[{len}]"),
        }
    }
}

/// One field: its name, type and metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The name, unique in its schema.
    pub name: String,
    /// What its values are.
    pub ty: FieldType,
    /// Whatever its author says of it.
    pub metadata: Metadata,
}

/// The fields of a dataset's records, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schema {
    /// The fields.
    pub fields: Vec<Field>,
}

impl Schema {
    /// The position of a field.
    ///
    /// ```
    /// use sigbank_format::model::{Field, FieldType, Schema};
    /// let s = Schema { fields: vec![Field { name: "key".into(), ty: FieldType::Int, metadata: Default::default() }] };
    /// assert_eq!((s.position("key"), s.position("trace")), (Some(0), None));
    /// ```
    pub fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == name)
    }
}
