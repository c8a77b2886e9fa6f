//! `sigbank publish`.

mod datasets;

use crate::check::style;
use crate::place::Storage;
use crate::{Failure, text};
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};
use sigbank::Error;
use sigbank::convert::{
    AsVersion, Destination, PublishReport, SignalOptions, SignalTarget, Skipped, Windows, are_datasets, plan_signal, publish,
};
use sigbank_format::model::DType;
use sigbank_format::model::json::Json;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  sigbank publish recordings/ captures/
  sigbank publish tuesday/ s3://bucket/captures --as-version tuesday --append
  sigbank publish s3://bucket/monday s3://bucket/tuesday week/ --prefix-ids
  sigbank publish packed/ captures/ --axes signal=time,channel       # of a Sedpack dataset";

/// Publish recordings (wav, flac, ogg, npy, npz, SigMF) or datasets as a new signal-dataset, or as a further version of one
///
/// Each recording, or window of one, is a record with one field, signal, whose axis time has its start, step and unit. Audio and SigMF of
/// several channels have the axis channel before it, SigMF's complex integers the axis iq behind it; the axes of arrays are time, channel
/// and further ones as they stand, or those of --axes. The id is the file's path without its ending; the metadata holds source,
/// sample_rate and what else the file says. Files of other kinds and what operating systems and editors leave
/// (.DS_Store, ._*, Thumbs.db, __MACOSX, .git, *~ and the like) are left out, counted and listed; a file that cannot be read ends the run and leaves
/// nothing behind. Samples of SigMF are compared with core:sha512.
///
/// Of datasets the records are taken over: those of signal-datasets as they stand, with all that is said of them (annotations stay behind);
/// each example of a Sedpack dataset as a record SPLIT/NUMBER with a field for each array (a scalar has one axis of length 1), whose axes are dim_0, dim_1 and so on or those of
/// --axes. Its metadata holds split, shard (the metadata of its shard), and in values what is no array: integers, text, and bytes as
/// {"base64": TEXT}. Recordings and datasets are not published together.
///
/// With --as-version, DEST is a signal-dataset, which gets a further version; who opens it without one, as the reference package does, sees
/// what it was. See: sigbank snapshots.
#[derive(clap::Args)]
#[command(override_usage = "sigbank publish [OPTIONS] <FOLDER|FILE|DATASET>... <DEST>", after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folders of recordings, or files, or datasets (in folders or at addresses such as s3://bucket/data), and last the folder or address to make
    #[arg(required = true, num_args = 2.., value_names = ["SOURCE", "DEST"])]
    paths: Vec<PathBuf>,
    /// Cut recordings into windows of N samples; without it, each recording is one record
    #[arg(long, value_name = "N")]
    window: Option<u64>,
    /// Samples from the start of one window to that of the next [default: N]
    #[arg(long, value_name = "M", requires = "window")]
    hop: Option<u64>,
    /// Fill a last window up with zeros instead of leaving the end out
    #[arg(long, requires = "window")]
    pad: bool,
    /// Store signals as this dtype; values that do not fit are an error, floats are rounded. Without it, arrays and SigMF keep theirs;
    /// audio is float32 or, with samples of more than 24 bits, float64. complex64 makes numbers of SigMF's complex integers
    #[arg(long)]
    dtype: Option<String>,
    /// The axes of arrays (npy, npz, Sedpack's) by name, such as channel,time; of one field of Sedpack iq=channel,time
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    axes: Vec<String>,
    /// The sample rate of files that do not say it (npy, npz), in hertz
    #[arg(long, value_name = "HZ")]
    sample_rate: Option<f64>,
    /// Count and list files that cannot be read instead of ending
    #[arg(long)]
    skip_bad: bool,
    /// Take JBOF data sets as folders of files: the metadata of their items and arrays are lost
    #[arg(long)]
    as_files: bool,
    /// Publish as a further version of the signal-dataset at DEST
    #[arg(long, value_name = "NAME")]
    as_version: Option<String>,
    /// Let the version begin with the records of the newest one
    #[arg(long, requires = "as_version")]
    append: bool,
    /// Put the name of each folder of recordings or dataset (of an address the last part) and a slash before its records' ids; recordings of
    /// several folders have that anyway
    #[arg(long)]
    prefix_ids: bool,
    /// Copy nothing: refer to the objects of the signal-datasets, which must stay where they are
    #[arg(long, conflicts_with_all = ["as_version", "prefix_ids"])]
    by_reference: bool,
    /// The dataset's name [default: that of the folder to make]
    #[arg(long, value_name = "NAME", conflicts_with = "as_version")]
    dataset_id: Option<String>,
    /// The snapshot's name, by which it is called as version 0 too
    #[arg(long, value_name = "NAME", default_value = "v0", conflicts_with = "as_version")]
    snapshot_id: String,
    /// Say something of the dataset, or of the version, which else says what the one before says; may be given several times
    #[arg(long, value_name = "KEY=TEXT")]
    metadata: Vec<String>,
    /// Most records in a shard
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..))]
    records_per_shard: u64,
    /// Threads; 0: one a core, at most 16
    #[arg(long, default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    storage: Storage,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    fn options(&self) -> Result<SignalOptions, Error> {
        if self.sample_rate.is_some_and(|r| !(r > 0.0 && r.is_finite())) {
            return Err(Error::invalid("--sample-rate must be a positive number of hertz"));
        }
        Ok(SignalOptions {
            window: self.window.map(|n| Windows::new(n, self.hop.unwrap_or(n), self.pad)).transpose()?,
            dtype: self.dtype.as_deref().map(|t| t.parse::<DType>()).transpose().map_err(|e| Error::from(e).within("--dtype"))?,
            axes: self.axes.clone(),
            sample_rate: self.sample_rate,
            skip_bad: self.skip_bad,
            as_files: self.as_files,
            prefix_ids: self.prefix_ids,
        })
    }
}

/// `KEY=TEXT` many times as one object.
pub(crate) fn metadata(pairs: &[String]) -> Result<Json, Error> {
    let mut object = Map::new();
    for pair in pairs {
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| Error::invalid(format!("--metadata {pair:?} is not KEY=TEXT, such as site=roof")))?;
        if object.insert(key.into(), value.into()).is_some() {
            return Err(Error::invalid(format!("--metadata gives '{key}' twice")));
        }
    }
    Ok(Json::from_value(&Value::Object(object))?)
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let Some((dest, folders)) = args.paths.split_last() else { return Ok(()) };
    let target = SignalTarget {
        dataset_id: args.dataset_id.clone(),
        snapshot_id: args.snapshot_id.clone(),
        metadata: metadata(&args.metadata)?,
        records_per_shard: args.records_per_shard,
        threads: args.threads,
        version: args.as_version.clone().map(|name| AsVersion { name, append: args.append }),
    };
    if are_datasets(folders, &args.storage.options())? {
        return datasets::run(args, folders, dest, &target, out);
    }
    if args.by_reference {
        return Err(Error::invalid("--by-reference is for datasets, and these are recordings").into());
    }
    let plan = plan_signal(folders, &args.options()?)?;
    let bar = ProgressBar::new(plan.bytes()).with_style(style("{bar:40} {bytes} of {total_bytes}, {msg} records, {eta} left"));
    let report = publish(&plan, Destination::new(dest, args.storage.options()), &target, &mut |p| {
        bar.set_position(p.bytes);
        bar.set_message(text::count(p.records));
    });
    bar.finish_and_clear();
    let report = report?;
    if args.json { print_json(&report, dest, out) } else { print(&report, dest, out) }
}

fn print_json(r: &PublishReport, dest: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let list = |skipped: &[Skipped]| skipped.iter().map(|s| json!({"source": s.source, "reason": s.reason})).collect::<Vec<_>>();
    let object = json!({
        "dataset": dest.display().to_string(), "dataset_id": r.dataset_id, "snapshot_id": r.snapshot_id, "version": r.version, "records": r.records,
        "shards": r.shards, "files": r.files, "bytes_in": r.bytes_in, "stored_bytes": r.stored_bytes,
        "tails": {"arrays": r.tails.0, "samples": r.tails.1}, "padded": r.padded, "no_rate": r.no_rate,
        "too_short": list(&r.too_short), "bad": list(&r.bad), "litter": r.litter, "others": r.others, "root": r.root,
    });
    writeln!(out, "{object}")?;
    Ok(())
}

/// What was published.
fn called(dataset: &str, name: &str, version: Option<u64>) -> String {
    match version {
        None => format!("{dataset} {name}"),
        Some(number) => format!("version {number} of {dataset}, {name}"),
    }
}

fn print(r: &PublishReport, dest: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let (files, size, dest) = (text::some(r.files, "file"), text::bytes(r.bytes_in), dest.display());
    let (records, shards) = (text::some(r.records, "record"), text::some(r.shards, "shard"));
    let (called, stored) = (called(&r.dataset_id, &r.snapshot_id, r.version), text::bytes(r.stored_bytes));
    text::line(out, format_args!("published {files} ({size}) as {dest}: {records} in {shards} ({stored}), {called}"))?;
    let left = text::LeftOut {
        tails: r.tails,
        padded: r.padded,
        no_rate: (r.no_rate, "recording"),
        too_short: &r.too_short,
        bad: &r.bad,
        others: &r.others,
        litter: r.litter,
    };
    left.print(out)?;
    writeln!(out, "root {}", r.root)?;
    Ok(())
}
