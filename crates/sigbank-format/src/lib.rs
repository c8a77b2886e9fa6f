//! Everything of sigbank that can be done in memory: the data model, compressions, checksums, and the codecs of
//! arrays, records and shard containers. No files, network, threads or Python here, so that each decoder can be fuzzed.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(missing_docs))]

pub mod array;
pub mod checksum;
#[cfg(feature = "compression")]
pub mod compress;
pub mod container;
pub mod error;
pub mod limits;
pub mod model;
pub mod read_at;
pub mod record;
pub mod registry;

pub use error::{FormatError, Result};
