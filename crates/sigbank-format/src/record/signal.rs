//! Records of signal-dataset: a SafeTensors payload that holds one tensor for each field, and a JSON descriptor of what they mean.
//!
//! The descriptor is the tensor `__sds_descriptor__`. A second, small JSON document tells the same of a record without its samples
//! ([`encode_metadata`]). Both are deterministic: the bytes are those that the reference package writes for the same record.
//!
//! ```
//! use sigbank_format::record::signal::{Axis, Coordinate, FieldMetadata, RecordMetadata, ResourcePolicy, decode, encode};
//! use sigbank_format::model::json::Json;
//!
//! let policy = ResourcePolicy::default();
//! let time = Axis {
//!     coordinate: Some(Coordinate { start: Some(0i64.into()), step: Some(Json::try_from(5e-8)?), unit: Some("s".into()), ..Default::default() }),
//!     ..Axis::new("time", 3)
//! };
//! let field = FieldMetadata { axes: vec![time], ..FieldMetadata::new("samples", "complex64".parse()?, vec![3]) };
//! let record = RecordMetadata { scene_id: Some("site-a".into()), ..RecordMetadata::new("array-007", vec![field]) };
//!
//! let payload = encode(&record, &[&[7; 24]], &policy)?;
//! let decoded = decode(&payload, &policy)?;
//! assert_eq!(decoded.metadata, record);
//! assert_eq!(payload[decoded.data[0].clone()], [7; 24]);
//! # Ok::<(), sigbank_format::FormatError>(())
//! ```

mod decode;
mod encode;
mod policy;
mod safetensors;
mod validate;

pub use decode::{Decoded, decode, decode_metadata};
pub use encode::{encode, encode_into, encode_metadata, encode_owned};
pub use policy::ResourcePolicy;
pub use validate::validate;

use crate::model::DType;
use crate::model::json::Json;

/// The tensor that holds the descriptor.
pub const DESCRIPTOR: &str = "__sds_descriptor__";
/// The descriptor's `format`.
pub const FORMAT: &str = "signal-dataset.record";
/// The descriptor's `version`.
pub const VERSION: &str = "0.1";

/// What is said of a record: everything but its samples.
///
/// ```
/// use sigbank_format::record::signal::RecordMetadata;
/// let record = RecordMetadata::new("a", vec![]);
/// assert_eq!((record.id.as_str(), record.scene_id, record.metadata.as_str()), ("a", None, "{}"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RecordMetadata {
    /// What its producer calls it; not empty.
    pub id: String,
    /// What records of one scene share.
    pub scene_id: Option<String>,
    /// An object of the producer's own.
    pub metadata: Json,
    /// The fields, at least one; the order of fields is not part of a record.
    pub fields: Vec<FieldMetadata>,
}

impl RecordMetadata {
    /// A record without scene and metadata.
    pub fn new(id: impl Into<String>, fields: Vec<FieldMetadata>) -> Self {
        Self { id: id.into(), scene_id: None, metadata: Json::EMPTY, fields }
    }
}

/// What is said of one field: everything but its samples.
///
/// ```
/// use sigbank_format::record::signal::FieldMetadata;
/// let field = FieldMetadata::new("iq", "complex64".parse()?, vec![2, 128]);
/// assert_eq!((field.dtype.to_string().as_str(), field.axes.len()), ("<c8", 0));
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FieldMetadata {
    /// Unique in its record; not empty.
    pub name: String,
    /// bool, int8–64, uint8–64, float16–64 or complex64, little-endian.
    pub dtype: DType,
    /// Elements along each axis.
    pub shape: Vec<usize>,
    /// One for each dimension.
    pub axes: Vec<Axis>,
    /// An object of the producer's own.
    pub metadata: Json,
}

impl FieldMetadata {
    /// A field without axes, which are still to be said, and metadata.
    pub fn new(name: impl Into<String>, dtype: DType, shape: Vec<usize>) -> Self {
        Self { name: name.into(), dtype, shape, axes: Vec::new(), metadata: Json::EMPTY }
    }
}

/// One dimension of a field.
///
/// ```
/// use sigbank_format::record::signal::Axis;
/// let axis = Axis { role: Some("sample".into()), ..Axis::new("time", 4096) };
/// assert_eq!((axis.name.as_str(), axis.length, axis.id), ("time", 4096, None));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Unique in its field; not empty.
    pub name: String,
    /// As many as the array has along this dimension.
    pub length: u64,
    /// What the axis is for, in the producer's words.
    pub role: Option<String>,
    /// Axes of one id (in a record) are one axis: their lengths and coordinates are the same. An empty id is none.
    pub id: Option<String>,
    /// Where along the axis each element lies.
    pub coordinate: Option<Coordinate>,
    /// An object of the producer's own.
    pub metadata: Json,
}

impl Axis {
    /// An axis of a name and a length.
    pub fn new(name: impl Into<String>, length: u64) -> Self {
        Self { name: name.into(), length, role: None, id: None, coordinate: None, metadata: Json::EMPTY }
    }
}

/// Where the elements along an axis lie: at `values`, or at `start + i * step`, or where another field or axis says; or only in what
/// unit.
///
/// ```
/// use sigbank_format::record::signal::Coordinate;
/// let coordinate = Coordinate { start: Some(0i64.into()), step: Some(2i64.into()), ..Coordinate::default() };
/// assert_eq!((coordinate.unit, coordinate.metadata.as_str()), (None, "{}"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Coordinate {
    /// A list, one value for each element.
    pub values: Option<Json>,
    /// The number at the first element.
    pub start: Option<Json>,
    /// The number from one element to the next.
    pub step: Option<Json>,
    /// A field of the record or an axis id. An empty one is none.
    pub reference: Option<String>,
    /// The unit of the values.
    pub unit: Option<String>,
    /// An object of the producer's own.
    pub metadata: Json,
}

impl Default for Coordinate {
    /// One that says nothing.
    fn default() -> Self {
        Self { values: None, start: None, step: None, reference: None, unit: None, metadata: Json::EMPTY }
    }
}
