//! `sigbank merge`.

use crate::check::{counted, style};
use crate::place::Storage;
use crate::{Failure, text};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use sigbank::Error;
use sigbank::convert::{Destination, MergeOptions, SameShards, Written, merge};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Put the shards of several Sedpack datasets of one structure into a new one
///
/// Splits of one name become one, in the order in which the datasets are given. Shards are copied as they are and compared with
/// their checksums on the way; the datasets that are read are not changed.
#[derive(clap::Args)]
#[command(override_usage = "sigbank merge [OPTIONS] <DATASET>... <DEST>")]
pub(crate) struct Args {
    /// Datasets, and last the folder or address to make
    #[arg(required = true, num_args = 2.., value_names = ["DATASET", "DEST"])]
    paths: Vec<PathBuf>,
    /// The dataset whose description, licence and other metadata the new one has [default: the first]
    #[arg(long, value_name = "DATASET")]
    metadata_from: Option<PathBuf>,
    /// What to do with shards that several of the datasets have: refuse, take them once (of the first), or keep them all
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Same::Refuse)]
    same_shards: Same,
    #[command(flatten)]
    storage: Storage,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Same {
    Refuse,
    Once,
    Keep,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let Some((dest, sources)) = args.paths.split_last() else { return Ok(()) };
    let metadata_from = match &args.metadata_from {
        None => 0,
        Some(wanted) => sources.iter().position(|path| path == wanted).ok_or_else(|| {
            Error::invalid("--metadata-from names none of the datasets that are merged")
                .at(wanted.display())
                .remedy("write it as it stands among the datasets")
        })?,
    };
    let same_shards = match args.same_shards {
        Same::Refuse => SameShards::Refuse,
        Same::Once => SameShards::Once,
        Same::Keep => SameShards::Keep,
    };
    let options = MergeOptions { metadata_from, same_shards };
    let bar = ProgressBar::new(0).with_style(style("{bar:40} {pos}/{len} shards, {eta} left"));
    let report = merge(sources, Destination::new(dest, args.storage.options()), &options, &mut counted(&bar));
    bar.finish_and_clear();
    let report = report?;
    if args.json {
        let more = json!({"bytes": report.bytes, "renamed": report.renamed, "same_shards": report.same_shards, "differing": report.differing});
        return print_json(&report.written, dest, more, out);
    }
    let datasets = text::some(sources.len() as u64, "dataset");
    let counts = counts(&report.written);
    text::line(out, format_args!("merged {datasets} into {}: {counts}, {}", dest.display(), text::bytes(report.bytes)))?;
    if report.renamed > 0 {
        writeln!(out, "renamed: {}, which would have met others of the same name", text::some(report.renamed, "folder"))?;
    }
    if report.same_shards > 0 {
        let (what, shards) = match same_shards {
            SameShards::Keep => ("taken twice", "which another dataset has too"),
            _ => ("taken once", "which an earlier dataset has already"),
        };
        writeln!(out, "{what}: {}, {shards}", text::some(report.same_shards, "shard"))?;
    }
    for difference in &report.differing {
        text::line(out, format_args!("differs: {difference}"))?;
    }
    writeln!(out, "root {}", report.written.root)?;
    Ok(())
}

/// What a new dataset holds, on a part of a line.
pub(crate) fn counts(written: &Written) -> String {
    let splits: Vec<_> = written.splits.iter().map(|s| format!("{} {}", s.name, text::count(s.records))).collect();
    let shards = written.splits.iter().map(|s| s.units).sum();
    if splits.is_empty() {
        return "no examples, no splits".into();
    }
    format!("{} ({}) in {}", text::some(written.records(), "example"), splits.join(", "), text::some(shards, "shard"))
}

/// The same for `--json`, with what else there is to say.
pub(crate) fn print_json(written: &Written, dest: &Path, more: Value, out: &mut dyn Write) -> Result<(), Failure> {
    let splits: Vec<_> = written.splits.iter().map(|s| json!({"name": s.name, "records": s.records, "units": s.units})).collect();
    let dataset = dest.display().to_string();
    let mut object = json!({"dataset": dataset, "records": written.records(), "splits": splits, "root": written.root});
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    writeln!(out, "{object}")?;
    Ok(())
}
