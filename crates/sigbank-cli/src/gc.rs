//! `sigbank gc`.

mod report;

use crate::check::confirmed;
use crate::place::Storage;
use crate::{Failure, text};
use report::{Deleted, Garbage, Orphan};
use serde_json::{Value, json};
use sigbank::Error;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Show what nothing names in a dataset's folder or bucket, and delete what is old of it
///
/// Killed writers, further tries at the same work and publications that were given up leave objects that no snapshot, version, annotation
/// set or list of a Sedpack dataset names. They harm nobody. This lists the folder (as no other command does) and shows them; --older-than and --delete together
/// delete those of at least that age. What is younger may belong to a publication that is still being made: choose an age longer than any takes,
/// from the first worker's shard on, and longer than any filler runs. Ages are by the clock of the storage. Files that are not of the layout are told of and never touched.
///
/// Of a Sedpack dataset, what can be listed yet is kept (see --unpublished): what killed fillers and workers finished, and whole shards that nothing names,
/// as after an older dataset_info.json was put back; sigbank check --repair lists them. What lives is told by locks on a disk, and in a bucket by the age of
/// what writers note there of every shard. What lies in other datasets below this one is theirs.
/// JBOF data sets need no gc: the next process that writes puts right what killed ones left.
///
/// While it deletes of a signal-dataset, sigbank/gc.json says so: publish, annotate, cp and sync wait for no one, but make what they take over of earlier runs young, look at
/// everything once more where something was deleted meanwhile, and do not publish while that is going on. Where a run in a bucket was killed, another one
/// with --delete ends that. The reference package does not look at that file.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset: a folder, or an address such as s3://bucket/data
    dataset: String,
    /// Only what is at least so old, such as 7d (units: s, m, h, d)
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,
    /// Delete it; asks first
    #[arg(long, requires = "older_than")]
    delete: bool,
    /// Delete without asking
    #[arg(long, requires = "delete")]
    yes: bool,
    /// Also where no dataset is published yet (nobody may be about to publish what is there), and of a Sedpack dataset what killed fillers and workers
    /// finished, whole shards that nothing names, and what a publication of a signal-dataset left that came too late for this address. A writer that is at
    /// work for longer than the age loses what it wrote, so ages below an hour are refused (see --no-writers)
    #[arg(long)]
    unpublished: bool,
    /// Nobody writes here now: --unpublished may delete what is younger than an hour
    #[arg(long, requires = "unpublished")]
    no_writers: bool,
    /// Also annotation sets that only earlier revisions of the catalog name, and these revisions
    #[arg(long)]
    old_annotations: bool,
    /// Also snapshots and annotations that are complete and that no commit names: of publications that were killed just before their commit,
    /// or met another, and such whose commit was deleted, by mistake perhaps (sigbank check tells). Without it they are kept
    #[arg(long)]
    uncommitted: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    storage: Storage,
}

/// A whole number and its unit.
fn age(given: &str) -> Result<Duration, String> {
    let unit = |c| match c {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(86400),
        _ => None,
    };
    let split = given.char_indices().next_back().and_then(|(at, c)| Some((given.get(..at)?, unit(c)?)));
    let digits = split.filter(|(number, _)| number.bytes().all(|b| b.is_ascii_digit()));
    let seconds = digits.and_then(|(number, unit)| number.parse::<u64>().ok()?.checked_mul(unit));
    seconds.map(Duration::from_secs).ok_or_else(|| "a whole number and a unit are expected: s, m, h or d, such as 7d".into())
}

/// A writer is at work for longer than a moment, and in a bucket nothing tells that it lives.
const WORK: Duration = Duration::from_secs(3600);

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    if args.delete && args.unpublished && !args.no_writers && args.older_than.is_some_and(|age| age < WORK) {
        return Err(Error::invalid("--unpublished with an age below an hour deletes what a writer at work has just written")
            .at(&args.dataset)
            .remedy("give a longer age, such as --older-than 1h; or, if nobody writes there now, add --no-writers")
            .into());
    }
    let garbage = Garbage::find(args, args.storage.options())?;
    if !args.json {
        print(args, &garbage, out)?;
        out.flush()?;
    }
    // Also where no object is garbage: what killed writers left unfinished goes too.
    let deleted = match args.delete && (garbage.doomed().count() == 0 || sure(args, &garbage)?) {
        true => Some(garbage.delete()?).filter(|deleted| deleted.objects + deleted.unfinished > 0),
        false => None,
    };
    if args.json {
        writeln!(out, "{}", as_json(args, &garbage, deleted.as_ref()))?;
    } else if let Some(deleted) = deleted {
        writeln!(out, "deleted {}, {}", text::some(deleted.objects, "object"), text::bytes(deleted.bytes))?;
        if deleted.unfinished > 0 {
            writeln!(out, "removed {} that killed writers left", text::some(deleted.unfinished, "unfinished file"))?;
        }
    }
    Ok(())
}

fn sure(args: &Args, garbage: &Garbage) -> Result<bool, Failure> {
    if args.yes {
        return Ok(true);
    }
    let what = told(garbage.doomed());
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Error::invalid(format!("{what} to delete, and no terminal to ask on"))
            .at(&args.dataset)
            .remedy("add --yes to delete without being asked, or look first: leave --delete out")
            .into());
    }
    if args.json {
        print(args, garbage, &mut io::stderr())?;
    }
    Ok(confirmed(&format!("Delete {what}? Type yes to go on: "))?)
}

/// How many, and how much.
fn told<'a>(orphans: impl Iterator<Item = &'a Orphan>) -> String {
    let (count, bytes) = sum(orphans);
    format!("{}, {}", text::some(count, "object"), text::bytes(bytes))
}

fn sum<'a>(orphans: impl Iterator<Item = &'a Orphan>) -> (u64, u64) {
    orphans.fold((0, 0), |(count, bytes), orphan| (count + 1, bytes + orphan.bytes))
}

fn print(args: &Args, garbage: &Garbage, out: &mut dyn Write) -> Result<(), Failure> {
    for orphan in &garbage.orphans {
        let age = orphan.age.map_or_else(|| "?".into(), words);
        let kept = orphan.kept.map(|kept| format!(", kept: {kept}")).unwrap_or_default();
        let (bytes, kind) = (text::bytes(orphan.bytes), orphan.kind);
        text::line(out, format_args!("{}  {bytes}  {age}  {kind}{kept}", orphan.path))?;
    }
    if garbage.not_ours_count > 0 {
        let names = text::names(garbage.not_ours.iter().map(|path| path.as_str()), 10);
        let more = garbage.not_ours_count.saturating_sub(garbage.not_ours.len() as u64);
        let more = if more > 0 { format!(" (and {} beyond these)", text::count(more)) } else { String::new() };
        text::line(out, format_args!("not ours, never touched: {}: {names}{more}", text::some(garbage.not_ours_count, "file")))?;
    }
    let live = format!("{}, {}", text::some(garbage.live.0, "object"), text::bytes(garbage.live.1));
    let kept = garbage.orphans.iter().filter(|orphan| orphan.kept.is_some());
    let kept = match kept.clone().count() {
        0 => String::new(),
        _ => format!("; kept: {}", told(kept)),
    };
    crate::uncommitted::print(&garbage.uncommitted, &args.dataset, out)?;
    if !garbage.uncommitted.is_empty() {
        let what = text::some(garbage.uncommitted.len() as u64, "thing");
        match args.uncommitted {
            true => writeln!(out, "these ({what}) go where they are old enough, as --uncommitted says, and cannot be got back")?,
            false => writeln!(out, "these ({what}) are kept; --uncommitted gives them up")?,
        }
    }
    writeln!(out, "in use: {live}; named by nothing: {}{kept}", told(garbage.doomed()))?;
    if !garbage.storage_clock {
        writeln!(out, "nothing can be written here: ages are by the clock of this machine, and nothing can be deleted")?;
    }
    let has = |like: &dyn Fn(&Orphan) -> bool| !args.unpublished && garbage.orphans.iter().any(like);
    if has(&|orphan| orphan.kept == Some("recoverable")) {
        writeln!(
            out,
            "recoverable: a filler, write_config or sigbank check --repair can list it yet; --unpublished --older-than 1h --delete gives it up"
        )?;
    }
    if has(&|orphan| orphan.kind == "of another layout") {
        let text = "of another layout: left by a publication that came too late for this address; --unpublished --older-than 1h --delete removes it";
        writeln!(out, "{text}")?;
    }
    if !garbage.published && !args.unpublished && !garbage.orphans.is_empty() {
        writeln!(out, "no dataset is published here: what is there may be about to be (--unpublished if not)")?;
    } else if !args.delete && garbage.doomed().next().is_some() {
        match args.older_than {
            Some(_) => writeln!(out, "nothing was deleted: --delete does")?,
            None => writeln!(out, "nothing was deleted: --older-than 7d --delete deletes what is a week old")?,
        }
    }
    Ok(())
}

/// An age in its largest unit of which there are two or more.
fn words(age: Duration) -> String {
    let seconds = age.as_secs();
    let units = [(86400, "day"), (3600, "hour"), (60, "minute")];
    let (size, unit) = units.into_iter().find(|(size, _)| seconds >= 2 * size).unwrap_or((1, "second"));
    text::some(seconds / size, unit)
}

fn as_json(args: &Args, garbage: &Garbage, deleted: Option<&Deleted>) -> Value {
    let orphans = garbage.orphans.iter().map(|orphan| {
        json!({
            "path": orphan.path.as_str(), "bytes": orphan.bytes, "age_seconds": orphan.age.map(|age| age.as_secs_f64()),
            "kind": orphan.kind, "kept": orphan.kept,
        })
    });
    let names: Vec<_> = garbage.not_ours.iter().map(|path| path.as_str()).collect();
    let (count, bytes) = sum(garbage.doomed());
    json!({
        "dataset": args.dataset, "orphans": orphans.collect::<Vec<_>>(), "garbage": {"objects": count, "bytes": bytes},
        "live": {"objects": garbage.live.0, "bytes": garbage.live.1}, "not_ours": {"files": garbage.not_ours_count, "first": names},
        "uncommitted": crate::uncommitted::as_json(&garbage.uncommitted), "published": garbage.published, "storage_clock": garbage.storage_clock,
        "deleted": deleted.map(|d| json!({"objects": d.objects, "bytes": d.bytes, "unfinished": d.unfinished})),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_unit() {
        for (given, seconds) in [("0s", 0), ("90s", 90), ("5m", 300), ("2h", 7200), ("7d", 604_800)] {
            assert_eq!(age(given), Ok(Duration::from_secs(seconds)), "{given}");
        }
        for wrong in ["", "7", "d", "-1d", "1.5h", "7w", "7 d", "7é", "99999999999999999999d", "999999999999999999d"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
        let told = |seconds| words(Duration::from_secs(seconds));
        assert_eq!(
            (told(1), told(119), told(120), told(172_800)),
            ("1 second".into(), "119 seconds".into(), "2 minutes".into(), "2 days".into())
        );
    }
}
