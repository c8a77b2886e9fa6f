//! `sigbank cp`, and what `sigbank sync` shares with it.

use crate::check::style;
use crate::place::option;
use crate::{Failure, text};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use sigbank::Error;
use sigbank::convert::copy::{CopyOptions, CopyPlan, destination, plan, run as copy};
use sigbank::layout::signal_dataset::{is_mounted, local_store};
use sigbank::layout::{Layout, detect};
use sigbank::store::{LocalStore, StorageOptions, Store, connect, local_path};
use sigbank::uri::RelPath;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Kept files that are named, at most.
const KEPT: usize = 50;

/// Copy a dataset, unchanged, from any place to any other: folders, s3://, gs://, az://; from http(s):// too
///
/// Which objects it consists of is read from its root down; nothing is listed, and what nothing names is not copied. Each object is
/// compared with its digest on the way, where the dataset says it, else with its size. The root comes last: until then there is no
/// dataset at the destination. Run it again after an interruption: what is there is not copied again. A JBOF data set is listed, and its files,
/// which may have changed since, are compared with the source's.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) how: How,
    /// Not here: see the message
    #[arg(long, hide = true)]
    materialize: bool,
}

#[derive(clap::Args)]
pub(crate) struct How {
    /// The dataset: a folder or an address
    #[arg(value_name = "SRC")]
    from: String,
    /// Where the copy goes: a folder or an address; its root is SRC's root
    #[arg(value_name = "DST")]
    to: String,
    /// Objects that are copied at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Read every object that is at DST already and compare it by digest; else the size of shards must do where a dataset in a bucket is
    /// brought forward (never the size of JBOF's files: those are always compared)
    #[arg(long)]
    checksum: bool,
    /// List what would be copied, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// A setting of the storage of SRC, such as aws_region=eu-west-1; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    src_option: Vec<(String, String)>,
    /// A setting of the storage of DST
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    dst_option: Vec<(String, String)>,
    /// A setting of the storage of both
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    storage_option: Vec<(String, String)>,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    if args.materialize {
        return Err(Error::unsupported("cp copies objects as they are, and a view stays a view")
            .remedy(format!("write its records as a dataset of their own: sigbank publish {} {}", args.how.from, args.how.to))
            .into());
    }
    carry_out(&args.how, false, false, out)
}

/// Copies; with `update` a dataset that is there is brought forward, with `delete` rid of what the source has not.
pub(crate) fn carry_out(how: &How, update: bool, delete: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let settings = |own: &[(String, String)]| how.storage_option.iter().chain(own).cloned().collect::<StorageOptions>();
    let from: Arc<dyn Store> = match local_path(&how.from) {
        Some(file) if file.is_file() => {
            return Err(Error::unsupported("a dataset that is one file (zip, HDF5) is copied as any file, not object by object")
                .at(&how.from)
                .remedy("copy the file itself; a folder of it is made by hdf_to_dataset of sigbank.jbof (HDF5) or by unpacking it (zip)")
                .into());
        }
        Some(folder) => Arc::new(local_store(folder)?),
        None => connect(&how.from, &settings(&how.src_option))?,
    };
    let layout = detect(&*from)?;
    let folder = local_path(&how.to).filter(|path| !path.exists());
    let to = match local_path(&how.to).filter(|folder| layout == Some(Layout::SignalDataset) && is_mounted(folder)) {
        Some(folder) => Arc::new(LocalStore::create(folder)?.mounted()),
        None => destination(&how.to, &settings(&how.dst_option), layout)?,
    };
    let options = CopyOptions { jobs: how.jobs.into(), update, checksum: how.checksum, delete };
    let plan = plan(&from, &to, &options).inspect_err(|_| remove_empty(folder))?;
    if how.dry_run {
        remove_empty(folder);
        return print_plan(&plan, how.json, out);
    }
    let bar = ProgressBar::new(plan.bytes()).with_style(style("{bar:40} {bytes}/{total_bytes}, {eta} left"));
    let report = copy(&plan, &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
        true
    });
    bar.finish_and_clear();
    let report = report?;
    if how.json {
        writeln!(
            out,
            "{}",
            json!({"ok": true, "objects": report.objects, "bytes": report.bytes, "skipped": sums(report.skipped),
                "verified": report.verified, "elsewhere": plan.elsewhere, "updated": plan.update, "replaced": report.replaced, "deleted": report.removed, "kept": names(&plan.kept),
                "root": report.root})
        )?;
        return Ok(());
    }
    print_sums(&plan, "copied", "deleted", out)?;
    let what = if layout == Some(Layout::Jbof) { " (of the metadata document; check tells that of all files)" } else { "" };
    writeln!(
        out,
        "{} compared with {}; root {}{what}",
        text::some(report.verified, "object"),
        if layout == Some(Layout::Jbof) { "the source" } else { "their digests" },
        report.root
    )?;
    Ok(())
}

/// A folder that was made for nothing.
fn remove_empty(folder: Option<&Path>) {
    if let Some(folder) = folder {
        let _ = std::fs::remove_dir(folder);
    }
}

fn sums((objects, bytes): (u64, u64)) -> Value {
    json!({"objects": objects, "bytes": bytes})
}

fn print_plan(plan: &CopyPlan, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if as_json {
        let todo: Vec<Value> =
            plan.todo.iter().map(|o| json!({"path": o.path.as_str(), "bytes": o.bytes, "replaces": o.replaces})).collect();
        writeln!(
            out,
            "{}",
            json!({"dry_run": true, "todo": todo, "objects": plan.todo.len(), "bytes": plan.bytes(), "skipped": sums(plan.skipped),
                "elsewhere": plan.elsewhere, "updated": plan.update, "delete": names(plan.removes()), "kept": names(&plan.kept), "root": plan.root})
        )?;
        return Ok(());
    }
    for object in &plan.todo {
        let verb = if object.replaces { "replace" } else { "copy" };
        text::line(out, format_args!("{verb} {} ({})", object.path, text::bytes(object.bytes)))?;
    }
    for path in plan.removes() {
        text::line(out, format_args!("delete {path}"))?;
    }
    print_sums(plan, "to copy", "to delete", out)
}

fn names(paths: &[RelPath]) -> Vec<&str> {
    paths.iter().map(RelPath::as_str).collect()
}

fn print_sums(plan: &CopyPlan, done: &str, deleted: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let objects = |(n, bytes): (u64, u64)| format!("{} with {}", text::some(n, "object"), text::bytes(bytes));
    writeln!(out, "{done}: {}", objects((plan.todo.len() as u64, plan.bytes())))?;
    let replaced = plan.todo.iter().filter(|object| object.replaces).count() as u64;
    if replaced > 0 {
        writeln!(out, "of them in place of what was there: {}", text::some(replaced, "object"))?;
    }
    if !plan.removes().is_empty() {
        writeln!(out, "{deleted}: {}", text::some(plan.removes().len() as u64, "object"))?;
    }
    for path in plan.kept.iter().take(KEPT) {
        text::line(out, format_args!("kept: {path}"))?;
    }
    if !plan.kept.is_empty() {
        let kept = text::some(plan.kept.len() as u64, "object");
        writeln!(out, "note: {kept} that the source does not have stay at the destination; --delete takes them away")?;
    }
    if plan.skipped.0 > 0 {
        writeln!(out, "there already: {}", objects(plan.skipped))?;
    }
    if plan.elsewhere > 0 {
        let named = text::some(plan.elsewhere, "object");
        writeln!(out, "note: it is a view, and names {named} of other datasets by absolute address, which stay where they are")?;
    }
    Ok(())
}
