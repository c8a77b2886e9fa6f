//! Commits of a signal-dataset that are not there.

use crate::check::{Args, confirmed, dry_run};
use crate::{Failure, text};
use serde_json::{Value, json};
use sigbank::Error;
use sigbank::layout::signal_dataset::{Commit, Dataset, Options, Uncommitted, restore, uncommitted};
use sigbank::store::Store;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

/// Tells of each, and what to do.
pub(crate) fn print(found: &[Uncommitted], dataset: &str, out: &mut dyn Write) -> io::Result<()> {
    for what in found {
        let todo = match what.commit {
            _ if what.can_be_put_back() => format!("put it back: sigbank check {dataset} --repair"),
            Commit::Deleted | Commit::Damaged | Commit::Replaced => {
                "publish it again under another name, or give it up: sigbank gc --uncommitted".into()
            }
            Commit::Unknown => {
                "publish it again as it was, which uses what is there, or give it up: sigbank gc --uncommitted".into()
            }
        };
        text::line(out, format_args!("note: {what} ({todo})"))?;
    }
    Ok(())
}

pub(crate) fn as_json(found: &[Uncommitted]) -> Value {
    let one = |what: &Uncommitted| {
        let version = what.version.as_ref().map(|(number, name)| json!({"number": number, "name": name}));
        let commit = match what.commit {
            Commit::Deleted => "deleted",
            Commit::Damaged => "damaged",
            Commit::Replaced => "replaced",
            Commit::Unknown => "unknown",
        };
        json!({"document": what.document.as_str(), "commit": commit, "belongs": what.belongs.as_ref().map(|path| path.as_str()),
            "version": version, "records": what.records, "sets": what.sets})
    };
    found.iter().map(one).collect()
}

/// Puts the commits back that were deleted.
pub(crate) fn repair(args: &Args, store: &Arc<dyn Store>, out: &mut dyn Write) -> Result<(), Failure> {
    let options = Options::default();
    let found = uncommitted(store, &options)?;
    let deleted: Vec<&Uncommitted> = found.iter().filter(|what| what.can_be_put_back()).collect();
    if !args.json {
        print(&found, &args.dataset, out)?;
        out.flush()?;
    }
    let sure = !args.dry_run && !deleted.is_empty() && (args.yes || ask(args, deleted.len())?);
    if sure {
        deleted.iter().try_for_each(|what| restore(store, what, &options))?;
    }
    // What cannot be put back is not whole for that.
    if sure || deleted.is_empty() {
        Dataset::open_store(Arc::clone(store), options)?.versions_without_gap().map_err(|e| {
            e.remedy(
                "there is no whole copy of it beside its snapshot: restore it from a copy of the dataset (sigbank sync from it does), or \
                 delete the later ones where they are to be given up",
            )
        })?;
    }
    let ok = sure || deleted.is_empty();
    let told = text::some(deleted.len() as u64, "commit");
    match (args.json, sure) {
        (true, _) => writeln!(out, "{}", json!({"ok": ok, "repaired": sure, "uncommitted": as_json(&found)}))?,
        (_, true) => writeln!(out, "put back {told}; see what else is wrong: sigbank check {}", args.dataset)?,
        _ if ok => {
            writeln!(out, "no commit to put back; what is damaged is restored from a copy only: sigbank check {}", args.dataset)?
        }
        _ => writeln!(out, "{told} to put back")?,
    }
    if ok { Ok(()) } else { Err(Failure::Todo) }
}

fn ask(args: &Args, count: usize) -> Result<bool, Failure> {
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        return Ok(confirmed("Put back what was deleted? Type yes to go on: ")?);
    }
    let what = text::some(count as u64, "commit");
    Err(Error::invalid(format!("{what} to put back, and no terminal to ask on"))
        .at(&args.dataset)
        .remedy(format!("add --yes to do it without being asked, or look first: {}", dry_run(args)))
        .into())
}
