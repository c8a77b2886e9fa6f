//! The sigbank library: stores, dataset layouts, queries, loading and conversion.
#![cfg_attr(test, allow(missing_docs))]

pub mod convert;
pub mod error;
pub mod store;
pub mod uri;

pub use error::{Code, Error, Result};
