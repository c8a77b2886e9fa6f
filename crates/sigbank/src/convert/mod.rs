//! From one kind of data to another: plan (and refuse what would be lost) → run → report.
//!
//! Packing folders of recordings into a dataset is three steps, of which [`pack()`] takes the last two:
//!
//! ```no_run
//! use sigbank::convert::{Cut, PackOptions, SedpackTarget, Windows, pack, plan};
//! let options = PackOptions {
//!     cut: Cut::Windows(Windows::new(16384, 8192, false)?),
//!     shares: "train=0.8,test=0.1,holdout=0.1".parse()?,
//!     ..Default::default()
//! };
//! let plan = plan(&["recordings".into()], &options)?;
//! let report = pack(&plan, "dataset", &SedpackTarget::default(), &mut |_| ())?;
//! println!("{:?}, {} files of other kinds", report.records, report.others.len());
//! # Ok::<(), sigbank::Error>(())
//! ```

mod cast;
pub mod copy;
mod destination;
pub mod import;
mod merge;
mod plan;
mod recompress;
mod recording;
mod report;
mod rewrite;
mod run;
mod scan;
mod shares;
mod signal;
mod split;
mod staging;
mod to_sedpack;
mod to_signal;
mod veil;
mod windows;

pub use cast::{Channels, magnitudes};
pub use destination::Destination;
pub use merge::{MergeOptions, MergeReport, SameShards, merge};
pub use plan::{Cut, PackOptions, Plan, plan};
pub use recompress::{RecompressOptions, RecompressReport, recompress};
pub use report::{PackReport, Skipped};
pub use rewrite::Written;
pub use run::{Progress, run};
pub use scan::{Candidate, ENDINGS, Found, Unpackable, scan};
pub use shares::Shares;
pub use signal::{
    AsVersion, DatasetsOptions, DatasetsPlan, DatasetsReport, SignalOptions, SignalPlan, TakenOver, are_datasets, plan_datasets,
    plan_signal, publish_datasets,
};
pub use split::{SplitBy, SplitOptions, SplitReport, Spread, split};
pub use staging::{Staging, abandon_all};
pub use to_sedpack::{SedpackTarget, pack};
pub use to_signal::{PublishReport, SignalTarget, publish};
pub use windows::Windows;
