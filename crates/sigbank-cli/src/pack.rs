//! `sigbank pack`.

use crate::check::style;
use crate::place::Storage;
use crate::{Failure, text};
use indicatif::ProgressBar;
use serde_json::json;
use sigbank::Error;
use sigbank::convert::import::Pattern;
use sigbank::convert::{
    Channels, Cut, Destination, PackOptions, PackReport, SedpackTarget, Shares, Skipped, Windows, pack, plan,
};
use sigbank_format::model::DType;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  sigbank pack recordings/ dataset/ --window 16384 --hop 8192 --split train=0.8,test=0.2
  sigbank pack recordings/ dataset/ --window 16384 --split train=0.8,test=0.2 --by '{subject}/{}.wav'
  sigbank pack traces/ dataset/ --rows       # npy and npz matrices: each row is a trace";

/// Turn folders of recordings (wav, flac, ogg, npy, npz) into a new dataset
///
/// DEST is a folder, or an address such as s3://bucket/traces, where the root comes last. Each record has the fields signal, start (its first sample), source (the file, relative to its folder) and sample_rate.
/// A file lies in one split as a whole, so that no windows of one recording are in two splits; --by keeps more together. Files of other kinds and what operating
/// systems and editors leave (.DS_Store, ._*, Thumbs.db, __MACOSX, .git, *~ and the like) are left out, counted and listed; a file that cannot be read ends the run and
/// leaves nothing behind.
#[derive(clap::Args)]
#[command(override_usage = "sigbank pack [OPTIONS] <FOLDER>... <DEST>", after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folders of recordings, and last the folder or address to make
    #[arg(required = true, num_args = 2.., value_names = ["FOLDER", "DEST"])]
    paths: Vec<PathBuf>,
    /// Cut recordings into windows of N samples; without it, each recording is one record and all have the same length
    #[arg(long, value_name = "N")]
    window: Option<u64>,
    /// Samples from the start of one window to that of the next [default: N]
    #[arg(long, value_name = "M", requires = "window")]
    hop: Option<u64>,
    /// Fill a last window up with zeros instead of leaving the end out
    #[arg(long, requires = "window")]
    pad: bool,
    /// One record for each row of an array: a matrix of traces, a stack of images
    #[arg(long, conflicts_with = "window")]
    rows: bool,
    /// Store signals as this dtype, such as float32 or int16; values that do not fit are an error, floats are rounded. Without it,
    /// arrays keep theirs; audio is float32 or, with samples of more than 24 bits, float64
    #[arg(long)]
    dtype: Option<String>,
    /// Store the mean of the channels
    #[arg(long, conflicts_with = "channel")]
    mono: bool,
    /// Store one channel, counted from 0
    #[arg(long, value_name = "N")]
    channel: Option<usize>,
    /// Of npz files pack the arrays of this name only; may be given several times
    #[arg(long, value_name = "NAME")]
    array: Vec<String>,
    /// The sample rate of files that do not say it (npy, npz), in hertz
    #[arg(long, value_name = "HZ")]
    sample_rate: Option<f64>,
    /// Let files of different sample rates into one dataset
    #[arg(long)]
    mixed_rates: bool,
    /// The share of the files for each split
    #[arg(long, value_name = "SHARES", default_value = "train=1")]
    split: Shares,
    /// What stays together in one split: recording (each file goes its own way), or what a pattern finds in the files' names, such as
    /// '{subject}/{}.wav' or '{device}_{}.npy'. Shards then hold it as custom metadata, by which sigbank split can divide anew
    #[arg(long, value_name = "PATTERN", default_value = "recording")]
    by: String,
    /// Decides which file goes to which split
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Count and list files that cannot be read instead of ending
    #[arg(long)]
    skip_bad: bool,
    /// Take JBOF data sets as folders of files: the metadata of their items and arrays are lost
    #[arg(long)]
    as_files: bool,
    /// The kind of shard: fb, which is read fastest, or npz, which NumPy reads
    #[arg(long, value_name = "KIND", default_value = "fb", value_parser = ["fb", "npz"])]
    shard_file_type: String,
    /// For fb: none, GZIP, ZLIB, BZ2, LZMA, LZ4 or ZSTD; for npz: none or ZIP [default: ZSTD, for npz ZIP]
    #[arg(long, hide_default_value = true)]
    compression: Option<String>,
    /// Most examples in a shard
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    examples_per_shard: u64,
    /// Checksums of each file, such as sha256,xxh64
    #[arg(long, value_delimiter = ',', default_value = "sha256")]
    checksums: Vec<String>,
    /// What the dataset is, in words
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,
    /// The licence of the data, in words or as an address; none is stored without it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    license: String,
    /// Threads that decode, and as many that compress; 0: one a core, at most 4
    #[arg(long, default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    storage: Storage,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    fn options(&self) -> Result<PackOptions, Error> {
        if self.sample_rate.is_some_and(|r| !(r > 0.0 && r.is_finite())) {
            return Err(Error::invalid("--sample-rate must be a positive number of hertz"));
        }
        Ok(PackOptions {
            cut: match (self.window, self.rows) {
                (Some(window), _) => Cut::Windows(Windows::new(window, self.hop.unwrap_or(window), self.pad)?),
                (None, true) => Cut::Rows,
                (None, false) => Cut::Whole,
            },
            dtype: self.dtype.as_deref().map(|t| t.parse::<DType>()).transpose().map_err(|e| Error::from(e).within("--dtype"))?,
            channels: match (self.mono, self.channel) {
                (true, _) => Channels::Mono,
                (false, Some(c)) => Channels::One(c),
                (false, None) => Channels::All,
            },
            arrays: self.array.clone(),
            sample_rate: self.sample_rate,
            mixed_rates: self.mixed_rates,
            shares: self.split.clone(),
            by: by(&self.by)?,
            seed: self.seed,
            skip_bad: self.skip_bad,
            as_files: self.as_files,
        })
    }
}

/// A pattern with a key, or none.
fn by(text: &str) -> Result<Option<Pattern>, Error> {
    if text == "recording" {
        return Ok(None);
    }
    let pattern: Pattern = text.parse().map_err(|e: Error| e.within("--by"))?;
    if pattern.keys().next().is_none() {
        return Err(Error::invalid(format!("--by '{text}' has no key, whose values would stay together"))
            .remedy("write recording, or a pattern of the files' names, such as '{subject}/{}.wav'"));
    }
    Ok(Some(pattern))
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let Some((dest, folders)) = args.paths.split_last() else { return Ok(()) };
    let default = if args.shard_file_type == "npz" { "ZIP" } else { "ZSTD" };
    let compression = args.compression.as_deref().unwrap_or(default).to_ascii_uppercase();
    let target = SedpackTarget {
        file_type: args.shard_file_type.clone(),
        compression: if compression == "NONE" { String::new() } else { compression },
        checksums: args.checksums.iter().map(|c| c.to_ascii_lowercase()).collect(),
        examples_per_shard: args.examples_per_shard,
        description: args.description.clone(),
        license: args.license.clone(),
        threads: args.threads,
    };
    let plan = plan(folders, &args.options()?)?;
    let bar = ProgressBar::new(plan.bytes()).with_style(style("{bar:40} {bytes} of {total_bytes}, {msg} examples, {eta} left"));
    let report = pack(&plan, Destination::new(dest, args.storage.options()), &target, &mut |p| {
        bar.set_position(p.bytes);
        bar.set_message(text::count(p.records));
    });
    bar.finish_and_clear();
    let report = report?;
    if args.json { print_json(&report, dest, out) } else { print(&report, plan.splits(), dest, out) }
}

fn print_json(r: &PackReport, dest: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let list = |skipped: &[Skipped]| skipped.iter().map(|s| json!({"source": s.source, "reason": s.reason})).collect::<Vec<_>>();
    let object = json!({
        "dataset": dest.display().to_string(), "dtype": r.dtype, "wide": r.wide, "records": r.records, "groups": r.groups, "files": r.files, "bytes_in": r.bytes_in,
        "tails": {"arrays": r.tails.0, "samples": r.tails.1}, "padded": r.padded, "no_rate": r.no_rate, "too_short": list(&r.too_short),
        "bad": list(&r.bad), "litter": r.litter, "others": r.others, "root": r.root,
    });
    writeln!(out, "{object}")?;
    Ok(())
}

fn print(r: &PackReport, splits: &[String], dest: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let one = |split: &String| {
        let [records, files] = [&r.records, &r.files].map(|of| of.get(split).copied().unwrap_or(0));
        format!("{split} {} from {}", text::count(records), text::some(files, "file"))
    };
    let by_split: Vec<_> = splits.iter().map(one).collect();
    let (records, files) = (r.records.values().sum(), r.files.values().sum());
    let (records, files) = (text::some(records, "example"), text::some(files, "file"));
    let (size, dest, by_split) = (text::bytes(r.bytes_in), dest.display(), by_split.join(", "));
    text::line(out, format_args!("packed {files} ({size}) into {dest}: {records} ({by_split})"))?;
    if !r.groups.is_empty() {
        let groups: Vec<_> =
            splits.iter().map(|split| format!("{split} {}", r.groups.get(split).copied().unwrap_or(0))).collect();
        let (all, of): (u64, u64) = (r.groups.values().sum(), r.files.values().sum());
        let (several, from) = (text::some(all, "group"), text::some(of, "file"));
        text::line(out, format_args!("kept together, as --by says: {several} of {from} ({})", groups.join(", ")))?;
        if all == of && all > 1 {
            let how = "name by a key only what is to stay together, and write {} for the rest, such as '{subject}/{}.wav'";
            writeln!(out, "warning: every group has one file, so that nothing was kept together: {how}")?;
        }
    }
    if let Some(file) = &r.wide {
        text::line(
            out,
            format_args!("stored as {}, which {file} and its like need to be exact (--dtype float32 rounds them)", r.dtype),
        )?;
    } else {
        writeln!(out, "stored as {}", r.dtype)?;
    }
    let left = text::LeftOut {
        tails: r.tails,
        padded: r.padded,
        no_rate: (r.no_rate, "array"),
        too_short: &r.too_short,
        bad: &r.bad,
        others: &r.others,
        litter: r.litter,
    };
    left.print(out)?;
    writeln!(out, "root {}", r.root)?;
    Ok(())
}
