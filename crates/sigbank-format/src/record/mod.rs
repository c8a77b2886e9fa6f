//! One record as one byte string.

pub mod tf_example;
