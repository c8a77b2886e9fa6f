//! What a dataset holds, on a few lines.

use super::{Figures, Source, Split, fixed_lens};
use crate::error::Result;
use crate::store::local_path;

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
    /// Bytes of the values, less those of the fields in `varying`; none where not all records were looked at ([`Source::schema_of`]).
    pub value_bytes: Option<u64>,
    /// Fields whose values vary in size and are not counted.
    pub varying: Vec<String>,
    /// Bytes of the values as they are stored: of the units (shards), or of their data objects where they have such. 0 where that is not
    /// known: of a dataset that is not on the local disk, whose layout does not keep them.
    pub stored_bytes: u64,
    /// Bytes of what is stored beside them of each record, where the layout has objects for that.
    pub metadata_bytes: Option<u64>,
    /// Units that the dataset lists and that are not there.
    pub missing: u64,
    /// The digest that names this state of the dataset. Empty for JBOF, where [`Source::root_digest`] reads everything.
    pub root: String,
}

impl Summary {
    /// Records of all splits.
    pub fn records(&self) -> u64 {
        self.splits.iter().map(|s| s.records).sum()
    }
    /// Units of all splits.
    pub fn units(&self) -> u64 {
        self.splits.iter().map(|s| s.units).sum()
    }
    /// How many times smaller the values are as they are stored; none where nothing is, and where no value was counted.
    pub fn ratio(&self) -> Option<f64> {
        let value_bytes = self.value_bytes?;
        let known = self.stored_bytes > 0 && (value_bytes > 0 || self.varying.is_empty());
        known.then(|| value_bytes as f64 / self.stored_bytes as f64)
    }
}

/// Counts, sizes and digest of a dataset. Sizes are those that the layout keeps, or else are looked up on the local disk; no unit is
/// read.
///
/// # Errors
/// As [`Source::units`].
pub fn summary(source: &dyn Source) -> Result<Summary> {
    let (location, splits) = (source.location(), source.splits());
    let (figures, varying) = match source.figures()? {
        Some(figures) => (figures, Vec::new()),
        None => looked_up(source, &splits)?,
    };
    let Figures { value_bytes, stored_bytes, metadata_bytes, missing } = figures;
    let (layout, storage) = (source.layout(), source.storage());
    let root = if layout == super::jbof::LAYOUT { String::new() } else { source.root_digest()? };
    Ok(Summary { layout, location, storage, splits, value_bytes, varying, stored_bytes, metadata_bytes, missing, root })
}

/// The figures by schema and disk, and the fields whose values vary in size.
fn looked_up(source: &dyn Source, splits: &[Split]) -> Result<(Figures, Vec<String>)> {
    let lens = fixed_lens(source.schema())?;
    let record: u64 = lens.iter().flatten().map(|&n| n as u64).sum();
    let names = source.schema().fields.iter().zip(&lens);
    let varying = names.filter(|(_, len)| len.is_none()).map(|(f, _)| f.name.clone()).collect();
    let records: u64 = splits.iter().map(|s| s.records).sum();
    let mut found = Figures { value_bytes: Some(record.saturating_mul(records)), ..Figures::default() };
    let location = source.location();
    // Far away, each look would be a request.
    let Some(folder) = local_path(&location) else { return Ok((found, varying)) };
    for split in splits {
        for unit in 0..source.units(&split.name)?.len() {
            let name = source.unit_name(&split.name, unit)?;
            match std::fs::metadata(folder.join(name)) {
                Ok(file) => found.stored_bytes += file.len(),
                Err(_) => found.missing += 1,
            }
        }
    }
    Ok((found, varying))
}
