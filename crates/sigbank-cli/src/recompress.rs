//! `sigbank recompress`.

use crate::check::{counted, style};
use crate::merge::{counts, print_json};
use crate::place::Storage;
use crate::{Failure, text};
use indicatif::ProgressBar;
use serde_json::json;
use sigbank::convert::{Destination, RecompressOptions, recompress};
use std::io::Write;
use std::path::PathBuf;

/// Write a Sedpack dataset anew with another compression, kind of shard, shard size or checksums
///
/// Examples keep their order, splits and metadata. What is not named stays as it is. The dataset that is read is compared with its
/// checksums and not changed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset to read
    dataset: PathBuf,
    /// The folder or address to make
    dest: PathBuf,
    /// none, GZIP, ZLIB, BZ2, LZMA, LZ4 or ZSTD; for npz none or ZIP; for tfrec none, GZIP or ZLIB [default: that of the dataset, or
    /// where the new type cannot have it ZSTD, ZIP or GZIP]
    #[arg(long)]
    compression: Option<String>,
    /// fb, npz or tfrec, which holds int8, uint8, int32, int64, float16, float32, integers, text and bytes: datasets with other attributes,
    /// such as float64, are refused
    #[arg(long, value_name = "TYPE")]
    shard_file_type: Option<String>,
    /// Most examples in a shard
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    examples_per_shard: Option<u64>,
    /// Checksums of each file, such as sha256,xxh64
    #[arg(long, value_delimiter = ',')]
    checksums: Option<Vec<String>>,
    /// Threads that compress; 0: one a core, at most 4
    #[arg(long, default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    storage: Storage,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let compression = args.compression.as_ref().map(|c| c.to_ascii_uppercase());
    let options = RecompressOptions {
        compression: compression.map(|c| if c == "NONE" { String::new() } else { c }),
        shard_file_type: args.shard_file_type.as_ref().map(|t| t.to_ascii_lowercase()),
        examples_per_shard: args.examples_per_shard,
        checksums: args.checksums.as_ref().map(|all| all.iter().map(|c| c.to_ascii_lowercase()).collect()),
        threads: args.threads,
    };
    let bar = ProgressBar::new(0).with_style(style("{bar:40} {pos}/{len} examples, {eta} left"));
    let destination = Destination::new(&args.dest, args.storage.options());
    let report = recompress(&args.dataset, destination, &options, &mut counted(&bar));
    bar.finish_and_clear();
    let report = report?;
    if args.json {
        return print_json(
            &report.written,
            &args.dest,
            json!({"extra_files": report.extra_files, "chosen_compression": report.chosen_compression}),
            out,
        );
    }
    let (from, to) = (args.dataset.display(), args.dest.display());
    text::line(out, format_args!("wrote {from} anew as {to}: {}", counts(&report.written)))?;
    if let Some(chosen) = report.chosen_compression {
        let kind = options.shard_file_type.unwrap_or_default();
        writeln!(out, "compression: {chosen}, since {kind} shards cannot have that of the dataset and --compression names none")?;
    }
    print_extra(report.extra_files, out)?;
    writeln!(out, "root {}", report.written.root)?;
    Ok(())
}

/// Says how many files of shards hold no examples and were left out.
pub(crate) fn print_extra(files: u64, out: &mut dyn Write) -> Result<(), Failure> {
    if files > 0 {
        writeln!(out, "left out: {} beside the first one of their shards, which hold no examples", text::some(files, "file"))?;
    }
    Ok(())
}
