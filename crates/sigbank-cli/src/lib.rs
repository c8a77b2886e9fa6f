//! The `sigbank` command line: each command is argument parsing, one library call and printing. The Python package runs the
//! same code through [`run`].

mod annotate;
mod check;
mod cp;
mod find;
mod gc;
mod import;
mod info;
mod ls;
mod merge;
mod pack;
mod place;
mod publish;
mod recompress;
mod show;
mod signals;
mod snapshots;
mod split;
mod sync;
mod text;
mod uncommitted;
mod version;
mod wave;

use clap::{Parser, Subcommand};
use serde_json::json;
use sigbank::Error;
use std::ffi::OsString;
use std::io::{self, Write};

/// Datasets of signals: pack recordings, look at them, verify, repair, merge, divide and recompress them.
#[derive(Parser)]
#[command(name = "sigbank", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Pack(pack::Args),
    Publish(publish::Args),
    Import(import::Args),
    Info(info::Args),
    Ls(ls::Args),
    Find(find::Args),
    Annotate(annotate::Args),
    Show(show::Args),
    Snapshots(snapshots::Args),
    Check(check::Args),
    Gc(gc::Args),
    Merge(merge::Args),
    Split(split::Args),
    Recompress(recompress::Args),
    Cp(cp::Args),
    Sync(sync::Args),
}

/// Why a command ends early.
enum Failure {
    /// The library said no.
    Library(Error),
    /// Standard output could not be written.
    Output(io::Error),
    /// There is something to do; all is said.
    Todo,
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Self::Library(e)
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Self::Output(e)
    }
}

/// Runs the command line; `args` begins with the program's name. Results go to standard output, messages and progress to
/// standard error. The exit code is 0, 1 after an error (also where `check` found one), or 2 for wrong usage.
///
/// ```
/// assert_eq!(sigbank_cli::run(["sigbank", "info", "/no/such/dataset"]), 1);
/// assert_eq!(sigbank_cli::run(["sigbank", "--version"]), 0);
/// ```
pub fn run(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> i32 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) => {
            let _ = e.print();
            return e.exit_code();
        }
    };
    // These make a folder, which shall not stay behind half filled.
    let makes_a_folder = matches!(
        &cli.command,
        Command::Pack(_) | Command::Publish(_) | Command::Merge(_) | Command::Split(_) | Command::Recompress(_)
    );
    let _watch = makes_a_folder.then(signals::watch);
    let mut out = io::BufWriter::new(io::stdout().lock());
    let (done, as_json) = match &cli.command {
        Command::Pack(args) => (pack::run(args, &mut out), args.json),
        Command::Publish(args) => (publish::run(args, &mut out), args.json),
        Command::Import(args) => (import::run(args, &mut out), args.json),
        Command::Annotate(args) => (annotate::run(args, &mut out), args.json),
        Command::Ls(args) => (ls::run(args, &mut out), args.json),
        Command::Find(args) => (find::run(args, &mut out), args.json),
        Command::Info(args) => (info::run(args, &mut out), args.json),
        Command::Show(args) => (show::run(args, &mut out), args.json),
        Command::Snapshots(args) => (snapshots::run(args, &mut out), args.json),
        Command::Check(args) => (check::run(args, &mut out), args.json),
        Command::Gc(args) => (gc::run(args, &mut out), args.json),
        Command::Merge(args) => (merge::run(args, &mut out), args.json),
        Command::Split(args) => (split::run(args, &mut out), args.json),
        Command::Recompress(args) => (recompress::run(args, &mut out), args.json),
        Command::Cp(args) => (cp::run(args, &mut out), args.how.json),
        Command::Sync(args) => (sync::run(args, &mut out), args.how.json),
    };
    let done = done.and_then(|()| Ok(out.flush()?));
    match done {
        Ok(()) => 0,
        // Whoever read our output had enough of it.
        Err(Failure::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(Failure::Todo) => {
            let _ = out.flush();
            1
        }
        Err(Failure::Output(e)) => {
            eprintln_quietly(&format!("error: standard output: {e}"));
            1
        }
        Err(Failure::Library(e)) => {
            if as_json {
                let (code, remedy) = (e.code().as_str(), remedy(&e));
                let object = json!({"error": {"code": code, "path": e.path(), "message": e.message(), "remedy": remedy}});
                let _ = writeln!(out, "{object}").and_then(|()| out.flush());
            }
            report(&e);
            1
        }
    }
}

/// The remedy, less what only a program can do.
fn remedy(e: &Error) -> Option<&str> {
    e.remedy_text().map(|text| text.split_once(", or open it with allow_newer").map_or(text, |(before, _)| before))
}

/// `error: path: message`, and the remedy on a line of its own.
fn report(e: &Error) {
    let path = e.path().map(|p| format!("{p}: ")).unwrap_or_default();
    let mut text = text::shown(&format!("error: {path}{}", e.message()));
    if let Some(remedy) = remedy(e) {
        text += &format!("\nhelp: {}", text::shown(remedy));
    }
    eprintln_quietly(&text);
}

/// Like `eprintln!`, but standard error may be closed.
fn eprintln_quietly(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
