//! `sigbank sync`.

use crate::Failure;
use crate::cp::{How, carry_out};
use std::io::Write;

/// Bring a copy of a dataset forward to what the dataset is now: only what is missing is copied
///
/// Sedpack: new shards first, then the lists and the root in one commit. signal-dataset: new versions and annotation sets; the root must be
/// the same. JBOF: new items and arrays; every file that is there is read and compared, and one that changed in place is refused. Nothing that somebody may be reading is removed. A copy that has what the source has not, or is of another dataset, is
/// refused. Where there is no copy yet, one is made, as by cp.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) how: How,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    carry_out(&args.how, true, out)
}
