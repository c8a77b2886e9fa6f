//! Publishing datasets as one.

use super::{Args, called};
use crate::check::style;
use crate::{Failure, text};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use sigbank::Error;
use sigbank::convert::{DatasetsOptions, DatasetsReport, Destination, SignalTarget, plan_datasets, publish_datasets};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Most names of annotation sets that are told.
const NAMES: usize = 5;

pub(super) fn run(
    args: &Args,
    paths: &[PathBuf],
    dest: &Path,
    target: &SignalTarget,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let given = [
        (args.window.is_some(), "--window"),
        (args.dtype.is_some(), "--dtype"),
        (args.sample_rate.is_some(), "--sample-rate"),
        (args.skip_bad, "--skip-bad"),
        (args.as_files, "--as-files"),
    ];
    if let Some((_, option)) = given.iter().find(|(given, _)| *given) {
        return Err(Error::invalid(format!(
            "{option} is for recordings, and these are datasets, whose records are taken over as they are"
        ))
        .remedy(format!("leave {option} out"))
        .into());
    }
    let options = DatasetsOptions { prefix_ids: args.prefix_ids, axes: args.axes.clone(), storage: args.storage.options() };
    let plan = plan_datasets(paths, &options)?;
    let bar = ProgressBar::new(plan.bytes()).with_style(style("{bar:40} {bytes} of {total_bytes}, {msg} records, {eta} left"));
    let report = publish_datasets(&plan, Destination::new(dest, args.storage.options()), target, args.by_reference, &mut |p| {
        bar.set_position(p.bytes);
        bar.set_message(text::count(p.records));
    });
    bar.finish_and_clear();
    let report = report?;
    if args.json {
        writeln!(out, "{}", as_json(&report, dest))?;
        return Ok(());
    }
    print(&report, dest, args.by_reference, out)
}

fn as_json(r: &DatasetsReport, dest: &Path) -> Value {
    let source = |s: &sigbank::convert::TakenOver| json!({"path": s.path, "layout": s.layout, "records": s.records, "annotations_left": s.annotations_left});
    json!({
        "dataset": dest.display().to_string(), "dataset_id": r.dataset_id, "snapshot_id": r.snapshot_id, "version": r.version,
        "sources": r.sources.iter().map(source).collect::<Vec<_>>(), "records": r.records, "shards": r.shards, "copied_shards": r.copied,
        "bytes_in": r.bytes_in, "stored_bytes": r.stored_bytes, "root": r.root,
    })
}

fn print(r: &DatasetsReport, dest: &Path, by_reference: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let (sources, records) = (text::some(r.sources.len() as u64, "dataset"), text::some(r.records, "record"));
    let (shards, stored) = (text::some(r.shards, "shard"), text::bytes(r.stored_bytes));
    let how = if by_reference { ", by reference" } else { "" };
    let called = called(&r.dataset_id, &r.snapshot_id, r.version);
    text::line(out, format_args!("published {sources} as {}: {records} in {shards} ({stored}){how}, {called}", dest.display()))?;
    for source in r.sources.iter().filter(|source| !source.annotations_left.is_empty()) {
        let names = text::names(source.annotations_left.iter().map(String::as_str), NAMES);
        text::line(out, format_args!("left out: annotations of {}: {names}", source.path))?;
    }
    writeln!(out, "root {}", r.root)?;
    Ok(())
}
