//! Packing into a new Sedpack dataset.

use super::destination::{Destination, Making};
use super::plan::Plan;
use super::report::PackReport;
use super::run::{Progress, run};
use crate::error::{Error, Result};
use crate::layout::sedpack::{Dataset, FillerOptions, Info, SPLITS};
use serde_json::{Value, json};
use sigbank_format::model::{FieldType, Metadata, Schema};

/// How the new dataset is stored.
#[derive(Debug, Clone)]
pub struct SedpackTarget {
    /// The kind of shard, by Sedpack's word: `fb`, `npz` or `tfrec`.
    pub file_type: String,
    /// The compression of each shard, by Sedpack's word: empty for none, else one that the kind of shard can have.
    pub compression: String,
    /// The checksums of each file, such as `sha256`.
    pub checksums: Vec<String>,
    /// Most records in a shard.
    pub examples_per_shard: u64,
    /// What the dataset is, in words.
    pub description: String,
    /// The licence of the data; empty where nobody said one, for the data are their owner's.
    pub license: String,
    /// Threads that decode, and as many that compress; 0 for one a core, at most 4.
    pub threads: usize,
}

impl Default for SedpackTarget {
    fn default() -> Self {
        Self {
            file_type: "fb".into(),
            compression: "ZSTD".into(),
            checksums: vec!["sha256".into()],
            examples_per_shard: 256,
            description: String::new(),
            license: String::new(),
            threads: 0,
        }
    }
}

/// Carries a plan out into a new dataset at `dest`, which appears there when it is complete, or not at all.
///
/// # Errors
/// `AlreadyExists` where the destination is taken; `Invalid` for a split, compression or checksum that Sedpack does not have;
/// else as [`run`].
pub fn pack(
    plan: &Plan,
    dest: impl Into<Destination>,
    target: &SedpackTarget,
    progress: &mut dyn FnMut(&Progress),
) -> Result<PackReport> {
    if let Some(name) = plan.splits().iter().find(|s| !SPLITS.contains(&s.as_str())) {
        return Err(
            Error::invalid(format!("Sedpack has no split '{name}'")).remedy(format!("its splits are {}", SPLITS.join(", ")))
        );
    }
    let structure = json!({
        "saved_data_description": attributes(plan.schema()),
        "compression": target.compression,
        "examples_per_shard": target.examples_per_shard,
        "hash_checksum_algorithms": target.checksums,
        "shard_file_type": target.file_type,
    });
    // Given also where it is empty: the layout's own default would put a licence on other people's data.
    let metadata = json!({ "description": target.description, "dataset_license": target.license });
    let info = Info::new(object(metadata), object(structure))?;
    let making = Making::begin(&dest.into(), false)?;
    let threads = match target.threads {
        0 => std::thread::available_parallelism().map_or(1, |n| n.get().min(4)),
        n => n,
    };
    let report = {
        let dataset = Dataset::create_store(making.store()?, info)?;
        let sink = dataset.sink(FillerOptions { threads, ..Default::default() });
        run(plan, &sink, threads, progress)?
    };
    making.publish()?;
    Ok(report)
}

fn object(value: Value) -> Metadata {
    match value {
        Value::Object(o) => o,
        _ => Metadata::new(),
    }
}

/// The fields as Sedpack declares them.
fn attributes(schema: &Schema) -> Vec<Value> {
    schema
        .fields
        .iter()
        .map(|f| {
            let (dtype, shape) = match &f.ty {
                FieldType::Array { dtype, shape } => (dtype.name(), shape.clone()),
                FieldType::Int => ("int".into(), vec![]),
                FieldType::Str => ("str".into(), vec![]),
                FieldType::Bytes { len } => ("bytes".into(), len.iter().copied().collect()),
            };
            json!({ "name": f.name, "dtype": dtype, "shape": shape, "custom_metadata": f.metadata })
        })
        .collect()
}
