//! `sigbank snapshots`.

use crate::place::Storage;
use crate::{Failure, ls, text};
use serde_json::{Map, Value, json};
use sigbank::Error;
use sigbank::layout::signal_dataset::Version;
use sigbank::layout::signal_dataset::versions::{Comparison, Ids, ShardCount, compare};
use std::io::Write;

/// Digits of a digest that are shown.
const DIGITS: usize = 12;
/// Most ids that are listed of each kind.
const IDS: usize = 20;

/// List the versions of a signal-dataset, or compare two of them
///
/// Version 0 is what root.json names, and what is opened where no version is named. A version is named by its number, its name, sha256: and
/// at least 12 digits of its digest, or latest: sigbank info DATASET --version latest.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset: a folder, or an address such as s3://bucket/data
    dataset: String,
    /// Say how the second version differs from the first: shards, records and metadata
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    compare: Vec<String>,
    /// Also say which records differ, by their ids
    #[arg(long, requires = "compare")]
    ids: bool,
    /// Print everything as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    storage: Storage,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let dataset = ls::open(&args.dataset, &args.storage)?;
    if let [a, b] = &args.compare[..] {
        let version = |text: &String| {
            let which = text.parse().map_err(|e: String| Error::invalid(e).within("--compare"))?;
            dataset.version(&which)
        };
        let (before, after) = (version(a)?, version(b)?);
        let found = compare(&before, &after, args.ids)?;
        let name = |dataset: &sigbank::layout::signal_dataset::Dataset| match dataset.version_document() {
            Some(version) => (version.number, version.name.clone()),
            None => (0, dataset.snapshot_id().to_owned()),
        };
        return match args.json {
            true => Ok(writeln!(out, "{}", compared_json(&found, name(&before), name(&after))?)?),
            false => compared(&found, name(&before), name(&after), out),
        };
    }
    let versions = dataset.versions()?;
    if args.json {
        let all = versions.iter().map(as_json).collect::<Result<Vec<_>, _>>()?;
        writeln!(out, "{}", json!({"dataset": args.dataset, "dataset_id": dataset.dataset_id(), "versions": all}))?;
        return Ok(());
    }
    let width = versions.iter().map(|version| text::shown(&version.name).chars().count()).max().unwrap_or(0).min(40);
    for version in &versions {
        let (records, shards) = (text::some(version.record_count, "record"), text::some(version.shard_count, "shard"));
        let parent = version.parent.map(|parent| format!("  after {}", parent.number)).unwrap_or_default();
        let begins = version.base.map(|base| format!(", begins with {}", base.number)).unwrap_or_default();
        let (number, name, size, digest) = (version.number, &version.name, text::bytes(version.stored_bytes), short(version));
        let line = format!("{number:>4}  {name:<width$}  {records:>16} in {shards:<12}  {size:>8}  {digest}{parent}{begins}");
        text::line(out, format_args!("{line}"))?;
    }
    Ok(())
}

/// The digest as it can be given back.
fn short(version: &Version) -> String {
    format!("sha256:{}", version.digest.to_string().chars().take(DIGITS).collect::<String>())
}

fn as_json(version: &Version) -> Result<Value, Error> {
    let named = |other: Option<sigbank::layout::signal_dataset::VersionRef>| {
        other.map(|other| json!({"number": other.number, "digest": format!("sha256:{}", other.digest)}))
    };
    Ok(json!({
        "number": version.number, "name": version.name, "records": version.record_count, "shards": version.shard_count,
        "stored_bytes": version.stored_bytes, "digest": format!("sha256:{}", version.digest), "parent": named(version.parent),
        "base": named(version.base), "created": version.created, "metadata": version.metadata.to_value()?,
        "snapshot": version.snapshot.path.as_str(),
    }))
}

fn compared_json(found: &Comparison, a: (u64, String), b: (u64, String)) -> Result<Value, Error> {
    let version = |(number, name): (u64, String), records| json!({"number": number, "name": name, "records": records});
    let shards = |count: ShardCount| json!({"shards": count.shards, "records": count.records, "bytes": count.bytes});
    let mut metadata = Map::new();
    for change in &found.metadata {
        let value = |json: &Option<sigbank_format::model::json::Json>| json.as_ref().map(|json| json.to_value()).transpose();
        let mut told = Map::new();
        for (key, value) in [("before", value(&change.before)?), ("after", value(&change.after)?)] {
            if let Some(value) = value {
                told.insert(key.into(), value);
            }
        }
        metadata.insert(change.key.clone(), told.into());
    }
    let ids =
        found.ids.as_ref().map(|Ids { added, removed, changed }| json!({"added": added, "removed": removed, "changed": changed}));
    Ok(json!({
        "before": version(a, found.records.0), "after": version(b, found.records.1), "added": shards(found.added),
        "removed": shards(found.removed), "kept": shards(found.kept), "metadata": metadata, "ids": ids,
    }))
}

fn compared(found: &Comparison, a: (u64, String), b: (u64, String), out: &mut dyn Write) -> Result<(), Failure> {
    for ((number, name), records) in [(a, found.records.0), (b, found.records.1)] {
        text::line(out, format_args!("{number:>4}  {name}  {}", text::some(records, "record")))?;
    }
    for (what, count) in [("added", found.added), ("removed", found.removed), ("kept", found.kept)] {
        let (shards, records) = (text::some(count.shards, "shard"), text::some(count.records, "record"));
        writeln!(out, "{what}: {shards} with {records} ({})", text::bytes(count.bytes))?;
    }
    for change in &found.metadata {
        let told = |json: &Option<sigbank_format::model::json::Json>| json.as_ref().map_or("none".into(), ToString::to_string);
        text::line(out, format_args!("metadata {}: {} -> {}", change.key, told(&change.before), told(&change.after)))?;
    }
    if let Some(ids) = &found.ids {
        for (what, list) in [("added", &ids.added), ("removed", &ids.removed), ("changed", &ids.changed)] {
            let colon = if list.is_empty() { "" } else { ": " };
            let names = text::names(list.iter().map(String::as_str), IDS);
            text::line(out, format_args!("records {what}: {}{colon}{names}", text::count(list.len() as u64)))?;
        }
    }
    Ok(())
}
