//! From one kind of data to another: plan (and refuse what would be lost) → run → report.

mod scan;
mod shares;
mod staging;
mod windows;

pub use scan::{Candidate, ENDINGS, Found, scan};
pub use shares::Shares;
pub use staging::Staging;
pub use windows::Windows;
