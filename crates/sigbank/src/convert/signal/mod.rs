//! What recordings are as records of a signal-dataset: planned from their headers, then cut from their samples.

pub(super) mod cut;
pub(super) mod plan;
mod sigmf;

pub use plan::{SignalOptions, SignalPlan, plan_signal};
