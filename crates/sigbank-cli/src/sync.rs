//! `sigbank sync`.

use crate::Failure;
use crate::cp::{How, carry_out};
use std::io::Write;

/// Bring a copy of a dataset forward to what the dataset is now: only what is missing or, of JBOF, differs is copied
///
/// Sedpack: new shards first, then the lists and the root in one commit. signal-dataset: new versions and annotation sets; the root must be
/// the same. Nothing that somebody may be reading is removed. JBOF, whose files are edited in place: every file that is there is compared with the source's;
/// what differs is replaced, each file in one step, data first, and the source wins: what was edited in the copy is lost. Items and arrays that the
/// source does not have are named and kept, or deleted with --delete.
/// A copy of a Sedpack dataset or signal-dataset that has what the source has not, or is of another dataset, is
/// refused. Where there is no copy yet, one is made, as by cp.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) how: How,
    /// JBOF: delete the items and arrays of DST that SRC does not have
    #[arg(long)]
    delete: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    carry_out(&args.how, true, args.delete, out)
}
