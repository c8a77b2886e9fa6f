//! The stores of object storage against real servers on this host (`python/servers`): what every store promises, and what must
//! come of it when the network and the servers do their worst.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::single_range_in_vec_init)] // All of this file is test.

mod conformance;
mod faults;
mod places;
mod processes;
mod requests;
mod support;
