//! The sigbank library: stores, dataset layouts, queries, loading and conversion.
#![cfg_attr(test, allow(missing_docs))]

pub mod convert;
pub mod error;
pub mod layout;
pub mod loader;
mod pages;
pub mod query;
pub mod store;
pub mod uri;

/// The data model and the codecs.
pub use sigbank_format as format;

pub use error::{Code, Error, Result};
