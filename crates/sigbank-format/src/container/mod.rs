//! Many records in one object.

pub mod flatbuffer;
#[cfg(feature = "npz")]
pub mod npz;
