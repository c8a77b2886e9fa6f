//! What a run of `pack` did, and what it left out.

use std::collections::BTreeMap;

/// A file (or an array in one) that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The file, relative to its folder.
    pub source: String,
    /// Why.
    pub reason: String,
}

/// What packing did. Nothing is left out without standing here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PackReport {
    /// The dtype of `signal`.
    pub dtype: String,
    /// The first audio file that made it float64, where nobody chose a dtype: its samples, of more than 24 bits, are not
    /// all in float32.
    pub wide: Option<String>,
    /// Files packed, by split.
    pub files: BTreeMap<String, u64>,
    /// How many different things that stay together (see [`super::PackOptions::by`]) each split has; empty where files go their own way.
    pub groups: BTreeMap<String, u64>,
    /// Records written, by split.
    pub records: BTreeMap<String, u64>,
    /// Bytes of the files that were read.
    pub bytes_in: u64,
    /// Arrays with an end that filled no window, and the samples of those ends together.
    pub tails: (u64, u64),
    /// Windows that were filled up with zeros.
    pub padded: u64,
    /// Arrays whose sample rate nobody said: NaN in the dataset.
    pub no_rate: u64,
    /// Arrays without a single whole window.
    pub too_short: Vec<Skipped>,
    /// Files that could not be read.
    pub bad: Vec<Skipped>,
    /// What operating systems and editors left behind.
    pub litter: u64,
    /// Files of other kinds.
    pub others: Vec<String>,
    /// The digest of the new dataset's root.
    pub root: String,
}
