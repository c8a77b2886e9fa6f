//! `sigbank check`.

use crate::version::Version;
use crate::{Failure, text};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use sigbank::layout::sedpack::{Dataset, OpenOptions, RepairKind, RepairOptions, RepairPlan};
use sigbank::layout::signal_dataset::{Uncommitted, Which, uncommitted};
use sigbank::layout::{Layout, Source, detect, jbof, sedpack, signal_dataset};
use sigbank::store::{Store, connect, exists, local_path};
use sigbank::uri::RelPath;
use sigbank::{Code, Error};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

/// Verify a dataset: every checksum from the root down, and that each shard holds what its list says
///
/// Exits with 1 when something is wrong, and names the file at fault; of a Sedpack dataset every shard, of very many the first ones.
///
/// Of a signal-dataset, complete snapshots and annotations that no commit names are told of too. With --repair, version documents that were
/// deleted are put back from the copies beside their snapshots, and pointers to annotations; nothing else is changed.
///
/// With --repair of Sedpack, finds all that is wrong and puts it right: shards that are gone or damaged are listed no longer, whole ones that
/// nothing lists are, lists, counts and checksums are built anew. No shard file is changed, moved or deleted. It asks first.
/// What may or may not be wanted is told of and left alone: see --adopt-copies and --lost-for-good.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("repairs").args(["repair", "dry_run"]).multiple(true)))]
pub(crate) struct Args {
    /// The dataset: a folder, or an address such as s3://bucket/data
    pub(crate) dataset: String,
    #[command(flatten)]
    version: Version,
    /// Put right what is wrong
    #[arg(long, conflicts_with = "version")]
    repair: bool,
    /// Say what --repair would do (with or without it) and change nothing; exits with 1 where there is something to do, or a whole shard is left out
    #[arg(long, conflicts_with_all = ["yes", "version"])]
    pub(crate) dry_run: bool,
    /// Repair without asking
    #[arg(long, requires = "repair")]
    pub(crate) yes: bool,
    /// Also list a whole shard that holds the bytes of exactly one listed shard, as a copied file does, or that of a writer that was
    /// killed and run again
    #[arg(long, requires = "repairs")]
    adopt_copies: bool,
    /// Where not one shard file is there: they are gone, and not on a disk that is not mounted; the dataset is emptied
    #[arg(long, requires = "repairs")]
    lost_for_good: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    if args.repair || args.dry_run {
        return repair(args, out);
    }
    let source = args.version.source(&args.dataset)?;
    let bar = bar();
    let verified = source.verify(&mut counted(&bar));
    bar.finish_and_clear();
    let repairable = source.layout() == "sedpack";
    let verified = verified.map_err(|e| match (e.code(), e.remedy_text()) {
        _ if !repairable => e,
        (Code::Corrupt | Code::NotFound, None) => e.remedy(format!("see what can be put right: {}", dry_run(args))),
        (Code::Corrupt | Code::NotFound, Some(remedy)) => {
            let both = format!("{remedy}; or see what can be put right: {}", dry_run(args));
            e.remedy(both)
        }
        _ => e,
    })?;
    let mut verified = verified;
    // Without a version, all of them are meant.
    let mut others = 0u64;
    if let Some(dataset) = args.version.all_of(&args.dataset, source.layout())? {
        for version in dataset.versions_without_gap()?.iter().filter(|version| version.number > 0) {
            let bar = self::bar();
            let further = dataset.version(&Which::Number(version.number))?.source()?.verify(&mut counted(&bar));
            bar.finish_and_clear();
            let further = further.map_err(|e| e.within(format!("version {} '{}'", version.number, version.name)))?;
            verified.bytes += further.bytes;
            others += 1;
        }
    }
    let lost = match args.version.all_of(&args.dataset, source.layout())? {
        Some(dataset) => uncommitted(dataset.store(), dataset.options())?,
        None => Vec::new(),
    };
    let unseen = match (source.layout(), connect_far(args)?) {
        ("signal-dataset", Some(store)) => {
            exists(&*store, &RelPath::parse("annotations/catalog.json")?).is_err_and(|e| e.code() == Code::Storage)
        }
        _ => false,
    };
    // What was published, and is hidden now.
    let ok = !lost.iter().any(Uncommitted::can_be_put_back);
    let root = verified.root.map_or_else(|| source.root_digest(), Ok)?;
    if args.json {
        writeln!(
            out,
            "{}",
            json!({"ok": ok, "uncommitted": crate::uncommitted::as_json(&lost), "units": verified.units, "records": verified.records, "bytes": verified.bytes, "further_versions": others,
                "root": root})
        )?;
    } else {
        let (shards, records) = match source.layout() {
            jbof::LAYOUT => (text::some(verified.records, "item"), "every array read".into()),
            _ => (text::some(verified.units, "shard"), text::some(verified.records, "example")),
        };
        let further = if others == 0 { String::new() } else { format!(", {}", text::some(others, "further version")) };
        let what =
            if source.layout() == jbof::LAYOUT { " (of all files; cp and sync tell that of the metadata document)" } else { "" };
        let said = if ok { "ok" } else { "whole, but not all of it is found" };
        writeln!(out, "{said}: {shards}, {records}{further}, {} verified; root {root}{what}", text::bytes(verified.bytes))?;
        crate::uncommitted::print(&lost, &args.dataset, out)?;
        if unseen {
            writeln!(
                out,
                "note: annotations and further versions were not looked at where reading is not permitted (who may not list is told so of \
                 what is not there, too): check with the permission to list"
            )?;
        }
    }
    if ok { Ok(()) } else { Err(Failure::Todo) }
}

/// The store of an address.
fn connect_far(args: &Args) -> Result<Option<Arc<dyn Store>>, Error> {
    local_path(&args.dataset).is_none().then(|| connect(&args.dataset, &args.version.storage())).transpose()
}

pub(crate) fn dry_run(args: &Args) -> String {
    format!("sigbank check --repair --dry-run {}", args.dataset)
}

fn bar() -> ProgressBar {
    ProgressBar::new(0).with_style(style("{bar:40} {pos}/{len} shards, {eta} left"))
}

/// Shows (done, all) and never stops.
pub(crate) fn counted(bar: &ProgressBar) -> impl FnMut(u64, u64) -> bool + '_ {
    |done, all| {
        bar.set_length(all);
        bar.set_position(done);
        true
    }
}

fn repair(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let Some(folder) = local_path(&args.dataset) else { return plan_afar(args, out) };
    if folder.join(signal_dataset::ROOT).is_file() && !folder.join(sedpack::ROOT).is_file() {
        return crate::uncommitted::repair(args, args.version.dataset(&args.dataset)?.store(), out);
    }
    if folder.join(jbof::ROOT).is_file() && !folder.join(sedpack::ROOT).is_file() {
        return Err(Error::unsupported("a JBOF data set has no lists and checksums, so a repair has nothing to build anew")
            .at(folder.display())
            .remedy("check it without --repair and --dry-run; restore what is damaged from a copy, or delete the array")
            .into());
    }
    carry_out(&Dataset::open_to_repair(folder, OpenOptions::default())?, args, out)
}

/// In a bucket it can be told what a repair would do; carried out it is in a copy.
fn plan_afar(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let refused = |why: &str| Error::unsupported(why.to_owned()).at(&args.dataset);
    let store = connect(&args.dataset, &args.version.storage())?;
    let layout = detect(&*store)?;
    if layout == Some(Layout::SignalDataset) {
        return crate::uncommitted::repair(args, &store, out);
    }
    let copy = "copy it (sigbank cp; of a damaged one what is whole), and repair the copy";
    if !args.dry_run {
        return Err(refused("a dataset is repaired in a folder, where writers can be kept out meanwhile")
            .remedy(format!("see what would be done ({}); {copy}", dry_run(args)))
            .into());
    }
    if layout != Some(Layout::Sedpack) {
        return Err(refused("only Sedpack datasets have lists and checksums that a repair builds anew")
            .remedy("check it without --dry-run, and restore what is damaged from a copy")
            .into());
    }
    carry_out(&Dataset::open_store(store, OpenOptions::default())?, args, out)
}

fn carry_out(dataset: &Dataset, args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let bar = bar();
    let options = RepairOptions { adopt_copies: args.adopt_copies, lost_for_good: args.lost_for_good };
    let plan = dataset.plan_repair_with(&options, &mut counted(&bar));
    bar.finish_and_clear();
    let plan = plan?;
    if !args.json {
        print_plan(&plan, out)?;
        out.flush()?;
    }
    let applied = if plan.is_empty() || args.dry_run {
        false
    } else {
        let sure = args.yes || ask(&plan, args)?;
        if sure {
            dataset.repair(&plan)?;
        }
        sure
    };
    let done = applied || plan.is_empty();
    // A leftover that cannot be removed is in nobody's way.
    let swept = if done && !args.dry_run { dataset.sweep().unwrap_or(0) as u64 } else { 0 };
    let root = dataset.root_digest()?;
    // What is left out is for a person to decide on, who looks before the repair.
    let ok = done && !(args.dry_run && plan.left_out().0 > 0);
    if args.json {
        writeln!(out, "{}", as_json(&plan, ok, applied, swept, &root))?;
    } else {
        if swept > 0 {
            writeln!(out, "removed {} that killed writers left", text::some(swept, "unfinished file"))?;
        }
        match (applied, plan.is_empty()) {
            (true, _) => writeln!(out, "repaired; root {root}")?,
            (_, true) if plan.left_out().0 > 0 => writeln!(out, "nothing else to repair; root {root}")?,
            (_, true) => writeln!(out, "nothing to repair; root {root}")?,
            _ => {}
        }
    }
    if ok { Ok(()) } else { Err(Failure::Todo) }
}

/// Asks on the terminal whether to go on.
fn ask(plan: &RepairPlan, args: &Args) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let todo = text::some(plan.actions.len() as u64, "thing");
        return Err(Error::invalid(format!("{todo} to repair, and no terminal to ask on"))
            .at(&args.dataset)
            .remedy(format!("add --yes to repair without being asked, or look first: {}", dry_run(args)))
            .into());
    }
    let mut err = io::stderr();
    if args.json {
        print_plan(plan, &mut err)?;
    }
    Ok(confirmed("Repair this? Type yes to go on: ")?)
}

/// Asks on the terminal; `y` and `yes` are consent.
pub(crate) fn confirmed(question: &str) -> io::Result<bool> {
    let mut err = io::stderr();
    write!(err, "{question}")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn print_plan(plan: &RepairPlan, out: &mut dyn Write) -> Result<(), Failure> {
    for a in &plan.actions {
        let examples = match a.kind {
            RepairKind::FinishCommit | RepairKind::GiveUpCommit => String::new(),
            RepairKind::LoseShards => format!(" ({})", shards((a.shards, a.examples))),
            _ => format!(" ({})", text::some(a.examples, "example")),
        };
        text::line(out, format_args!("{} {}{examples}: {}", a.kind.as_str(), a.path, a.reason))?;
    }
    for note in &plan.notes {
        text::line(out, format_args!("leave {}: {}", note.path, note.reason))?;
    }
    if !plan.is_empty() {
        let of_lists = plan.count(RepairKind::AdoptList);
        let lists = format!("{} with {}", text::some(of_lists.0, "list"), text::some(of_lists.1, "example"));
        let (dropped, adopted) = (shards(plan.dropped()), shards(plan.count(RepairKind::AdoptShard)));
        writeln!(out, "in all: {dropped} dropped, {adopted} and {lists} adopted")?;
    }
    let left = plan.left_out();
    if left.0 > 0 {
        writeln!(out, "left out: {}, although whole (--adopt-copies lists those that look like copies)", shards(left))?;
    }
    Ok(())
}

/// Shards and their examples.
fn shards((shards, examples): (u64, u64)) -> String {
    format!("{} with {}", text::some(shards, "shard"), text::some(examples, "example"))
}

fn as_json(plan: &RepairPlan, ok: bool, applied: bool, swept: u64, root: &str) -> Value {
    let actions = plan.actions.iter().map(|a| {
        json!({"action": a.kind.as_str(), "path": a.path.as_str(), "split": a.split, "examples": a.examples, "shards": a.shards,
            "reason": a.reason})
    });
    let notes = plan.notes.iter().map(|n| json!({"path": n.path.as_str(), "examples": n.examples, "reason": n.reason}));
    let sums = |(shards, examples): (u64, u64)| json!({"shards": shards, "examples": examples});
    json!({"ok": ok, "repaired": applied, "actions": actions.collect::<Vec<_>>(),
        "left_alone": notes.collect::<Vec<_>>(), "dropped": sums(plan.dropped()), "left_out": sums(plan.left_out()),
        "adopted": {"shards": plan.count(RepairKind::AdoptShard).0, "lists": plan.count(RepairKind::AdoptList).0,
            "examples": plan.count(RepairKind::AdoptShard).1 + plan.count(RepairKind::AdoptList).1},
        "swept": swept, "root": root})
}

/// A template that is known to be right; a plain bar otherwise.
pub(crate) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
