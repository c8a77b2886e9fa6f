//! What recordings are as records of a signal-dataset: planned from their headers, then cut from their samples.

pub(super) mod cut;
mod datasets;
mod examples;
pub(super) mod plan;
mod sigmf;
pub(super) mod target;

pub use datasets::{DatasetsOptions, DatasetsPlan, DatasetsReport, TakenOver, are_datasets, plan_datasets, publish_datasets};
pub use plan::{SignalOptions, SignalPlan, plan_signal};
pub use target::AsVersion;
