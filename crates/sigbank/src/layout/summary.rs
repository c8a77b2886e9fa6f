//! What a dataset holds, on a few lines.

use super::{Source, Split, fixed_lens};
use crate::error::Result;
use std::path::Path;

/// The figures of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The layout's name.
    pub layout: &'static str,
    /// Where it is.
    pub location: String,
    /// How its units are stored, in words.
    pub storage: String,
    /// Each split.
    pub splits: Vec<Split>,
    /// Bytes of the values of all fields of fixed size.
    pub value_bytes: u64,
    /// Fields whose values vary in size, which `value_bytes` leaves out.
    pub varying: Vec<String>,
    /// Bytes of the units (shards) as they are stored.
    pub stored_bytes: u64,
    /// Units that the dataset lists and that are not there.
    pub missing: u64,
    /// The digest that names this state of the dataset.
    pub root: String,
}

impl Summary {
    /// Records of all splits.
    pub fn records(&self) -> u64 {
        self.splits.iter().map(|s| s.records).sum()
    }
    /// How many times smaller the units are than the values in them; none where nothing is stored.
    pub fn ratio(&self) -> Option<f64> {
        (self.stored_bytes > 0).then(|| self.value_bytes as f64 / self.stored_bytes as f64)
    }
}

/// Counts, sizes and digest of a dataset. Sizes of units are looked up on the local disk; no unit is read.
///
/// # Errors
/// As [`Source::units`].
pub fn summary(source: &dyn Source) -> Result<Summary> {
    let lens = fixed_lens(source.schema())?;
    let record: u64 = lens.iter().flatten().map(|&n| n as u64).sum();
    let names = source.schema().fields.iter().zip(&lens);
    let varying = names.filter(|(_, len)| len.is_none()).map(|(f, _)| f.name.clone()).collect();
    let (location, splits) = (source.location(), source.splits());
    let (mut stored_bytes, mut missing) = (0, 0);
    for split in &splits {
        for unit in 0..source.units(&split.name)?.len() {
            match std::fs::metadata(Path::new(&location).join(source.unit_name(&split.name, unit)?)) {
                Ok(file) => stored_bytes += file.len(),
                Err(_) => missing += 1,
            }
        }
    }
    let records: u64 = splits.iter().map(|s| s.records).sum();
    let root = source.root_digest()?;
    Ok(Summary {
        layout: source.layout(),
        location,
        storage: source.storage(),
        splits,
        value_bytes: record.saturating_mul(records),
        varying,
        stored_bytes,
        missing,
        root,
    })
}
