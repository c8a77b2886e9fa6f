//! One record as one byte string.

pub mod signal;
pub mod tf_example;
