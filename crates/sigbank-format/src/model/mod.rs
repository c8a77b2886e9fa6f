//! The data model every layout shares: dtypes, arrays, records, schemas and metadata.

pub mod array;
mod dtype;
pub mod json;
mod schema;

pub use array::Array;
pub use dtype::{ByteOrder, DType, Kind};
pub use schema::{Field, FieldType, Schema};

/// A JSON object. Integers of any size stay exact, and keys keep their order.
pub type Metadata = serde_json::Map<String, serde_json::Value>;
