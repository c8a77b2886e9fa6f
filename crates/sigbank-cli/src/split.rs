//! `sigbank split`.

use crate::check::{counted, style};
use crate::merge::{counts, print_json};
use crate::place::Storage;
use crate::recompress::print_extra;
use crate::{Failure, text};
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};
use sigbank::convert::{Destination, Shares, SplitBy, SplitOptions, split};
use std::io::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  sigbank split packed/ divided/ --split train=0.8,test=0.2 --by recording
      # no windows of one recording are in two splits
  sigbank split packed/ divided/ --split train=0.8,test=0.2 --by subject
      # a key of the shards' metadata, such as sigbank pack --by '{subject}/{}.wav' gives them";

/// Divide a Sedpack dataset anew into train, test and holdout
///
/// All examples are divided, whatever splits they are in. The same dataset, shares and seed give the same division. By shard and by
/// key, shards are copied as they are; by recording and by example they are written anew with examples mixed, and by example the counts are the shares exactly.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The dataset to read, which is not changed
    dataset: PathBuf,
    /// The folder or address to make
    dest: PathBuf,
    /// The share of the examples for each split, such as train=0.8,test=0.1,holdout=0.1
    #[arg(long, value_name = "SHARES")]
    split: Shares,
    /// What stays together in one split: shard, recording (by the field source, which pack writes), example (nothing), or a key of the shards' custom metadata, of which each value is
    /// then in one split only (key:NAME for a key of the name shard, recording or example)
    #[arg(long, value_name = "WHAT", default_value = "shard")]
    by: SplitBy,
    /// Decides what goes where
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Threads that compress, by example; 0: one a core, at most 4
    #[arg(long, default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    storage: Storage,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shares that are further from what was asked for are warned of.
const FAR: f64 = 0.05;

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let options = SplitOptions { shares: args.split.clone(), seed: args.seed, by: args.by.clone(), threads: args.threads };
    let what = if matches!(args.by, SplitBy::Example | SplitBy::Recording) { "examples" } else { "shards" };
    let bar = ProgressBar::new(0).with_style(style(&format!("{{bar:40}} {{pos}}/{{len}} {what}, {{eta}} left")));
    let destination = Destination::new(&args.dest, args.storage.options());
    let report = split(&args.dataset, destination, &options, &mut counted(&bar));
    bar.finish_and_clear();
    let report = report?;
    if args.json {
        let groups: Map<String, Value> = report.groups.iter().map(|(name, n)| (name.clone(), json!(n))).collect();
        let shares: Map<String, Value> = report
            .shares
            .iter()
            .map(|(name, asked, reached)| (name.clone(), json!({"asked": asked, "reached": reached})))
            .collect();
        let spread = json!({"recordings": report.spread.recordings, "first": report.spread.first});
        let more = json!({"groups": groups, "extra_files": report.extra_files, "shares": shares, "spread_over_splits": spread});
        return print_json(&report.written, &args.dest, more, out);
    }
    let (from, to) = (args.dataset.display(), args.dest.display());
    text::line(out, format_args!("divided {from} into {to}: {}", counts(&report.written)))?;
    if let SplitBy::Key(key) = &args.by {
        let groups: Vec<_> = report.groups.iter().map(|(name, n)| format!("{name} {}", text::count(*n))).collect();
        text::line(out, format_args!("values of '{key}': {}", groups.join(", ")))?;
    }
    let shares: Vec<_> = report
        .shares
        .iter()
        .map(|(name, asked, reached)| format!("{name} {} (asked: {})", percent(*reached), percent(*asked)))
        .collect();
    text::line(out, format_args!("shares: {}", shares.join(", ")))?;
    let groups: u64 = report.groups.iter().map(|(_, n)| n).sum();
    if report.shares.iter().any(|(_, asked, reached)| (asked - reached).abs() > FAR) && args.by != SplitBy::Example {
        let what = format!("there are only {} to be divided: smaller ones come nearer", text::count(groups));
        text::line(
            out,
            format_args!(
                "warning: these are far from what was asked for; {what} (--by recording, --by example, or sigbank pack with fewer --examples-per-shard)"
            ),
        )?;
    }
    if let Some(first) = &report.spread.first {
        let recordings = text::some(report.spread.recordings, "recording");
        text::line(
            out,
            format_args!(
                "warning: examples of {recordings}, such as {first}, are in several splits, so that a test on some tells little after training on the others; --by recording keeps them together"
            ),
        )?;
    }
    print_extra(report.extra_files, out)?;
    writeln!(out, "root {}", report.written.root)?;
    Ok(())
}
