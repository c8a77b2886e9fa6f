//! `sigbank check`.

use crate::{Failure, text};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use sigbank::layout;
use std::io::Write;

/// Verify a dataset: every checksum from the root down, and that each shard holds what its list says
///
/// Exits with 1 and names the first file at fault when something is wrong.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset's folder
    dataset: String,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let source = layout::open(&args.dataset)?;
    let bar = ProgressBar::new(0).with_style(style("{bar:40} {pos}/{len} shards, {eta} left"));
    let verified = source.verify(&mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
        true
    });
    bar.finish_and_clear();
    let verified = verified?;
    let root = source.root_digest()?;
    if args.json {
        writeln!(
            out,
            "{}",
            json!({"ok": true, "units": verified.units, "records": verified.records, "bytes": verified.bytes, "root": root})
        )?;
    } else {
        let (shards, records) = (text::some(verified.units, "shard"), text::some(verified.records, "example"));
        writeln!(out, "ok: {shards}, {records}, {} verified; root {root}", text::bytes(verified.bytes))?;
    }
    Ok(())
}

/// A template that is known to be right; a plain bar otherwise.
pub(crate) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
