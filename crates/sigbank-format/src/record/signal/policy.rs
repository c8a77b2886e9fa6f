//! How large a record may be.

use crate::error::{FormatError, Result};
use crate::model::json::Limits;

/// How large a record may be, for writing and for reading. The names and values are the reference package's.
///
/// ```
/// use sigbank_format::error::FormatErrorKind;
/// use sigbank_format::record::signal::{Axis, FieldMetadata, RecordMetadata, ResourcePolicy, encode};
/// let policy = ResourcePolicy { max_tensor_bytes: 10, ..ResourcePolicy::default() };
/// let field = FieldMetadata { axes: vec![Axis::new("time", 3)], ..FieldMetadata::new("x", "float32".parse()?, vec![3]) };
/// let e = encode(&RecordMetadata::new("a", vec![field]), &[&[0; 12]], &policy).unwrap_err();
/// assert_eq!(e.kind(), FormatErrorKind::Limit);
/// assert!(e.to_string().contains("max_tensor_bytes"));
/// # Ok::<(), sigbank_format::FormatError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourcePolicy {
    /// Most bytes of an encoded record.
    pub max_encoded_record_bytes: u64,
    /// Most bytes of its descriptor.
    pub max_descriptor_bytes: u64,
    /// Most fields.
    pub max_fields: u64,
    /// Most axes of a field.
    pub max_axes_per_field: u64,
    /// Most explicit coordinate values of an axis.
    pub max_coordinate_values: u64,
    /// Most bytes of one field's samples.
    pub max_tensor_bytes: u64,
    /// Most bytes of all fields' samples.
    pub max_total_tensor_bytes: u64,
    /// Most bytes of the metadata of record, fields, axes and coordinates together, and of the coordinates themselves, as JSON with
    /// spaces behind commas and colons; for [`super::decode_metadata`], most bytes of the document.
    pub max_metadata_bytes: u64,
    /// Deepest nesting of descriptor and header.
    pub max_json_depth: u64,
    /// Most JSON values in descriptor and header.
    pub max_json_nodes: u64,
}

impl Default for ResourcePolicy {
    fn default() -> Self {
        Self {
            max_encoded_record_bytes: 64 << 30,
            max_descriptor_bytes: 16 << 20,
            max_fields: 10_000,
            max_axes_per_field: 128,
            max_coordinate_values: 10_000_000,
            max_tensor_bytes: 16 << 30,
            max_total_tensor_bytes: 64 << 30,
            max_metadata_bytes: 16 << 20,
            max_json_depth: 128,
            max_json_nodes: 1_000_000,
        }
    }
}

impl ResourcePolicy {
    /// The limits for reading one of a record's JSON texts, whose length was looked at before.
    pub(super) fn json(&self) -> Limits {
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Limits { max_bytes: u64::MAX, max_depth: size(self.max_json_depth), max_nodes: size(self.max_json_nodes) }
    }
}

/// An error of kind Limit where `found` is over the limit called `name`.
pub(super) fn within(what: &str, found: u64, name: &str, limit: u64) -> Result<()> {
    if found <= limit {
        return Ok(());
    }
    Err(FormatError::limit(format!("{what}: {found}, where the policy allows {limit}; raise {name} if that is meant")))
}
