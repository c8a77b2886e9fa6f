//! The signal-dataset layout: what the reference package wrote is read value for value, what is written is what it writes, and whatever
//! breaks a rule is an error with a place.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // All of this file is test.

mod annotations;
mod damage;
mod gc;
mod golden;
mod live;
mod open_requests;
mod publishing;
mod races;
mod reading;
mod requests;
mod rules;
mod support;
mod uncommitted;
mod versions;
mod versions_kept;
mod views;
mod writing;
