//! Shards that nothing names: whole ones a repair can list yet.

use super::{Kept, Orphan, OrphanKind};
use crate::error::Result;
use crate::layout::sedpack::{Dataset, repair};
use crate::uri::RelPath;
use std::collections::HashSet;

/// Marks those of the shards about to go that are whole as recoverable. They are read for it, or only those `among` them are; shards of another container than the
/// dataset's cannot be, and are taken for whole.
///
/// # Errors
/// `Storage` where one cannot be read for other reasons than its bytes.
pub(super) fn keep_whole(dataset: &Dataset, orphans: &mut [Orphan], among: Option<&HashSet<&RelPath>>) -> Result<()> {
    let suffix = format!(".{}", dataset.info().structure().file_type.as_str());
    let of = |orphan: &&Orphan| orphan.kept.is_none() && orphan.kind == OrphanKind::Shard;
    let read = orphans.iter().filter(of).map(|orphan| &orphan.path);
    let read = read.filter(|path| path.file_name().ends_with(&suffix) && among.is_none_or(|among| among.contains(path)));
    let useless = repair::useless(dataset, read.cloned().collect())?;
    let whole = orphans.iter_mut().filter(|orphan| of(&&**orphan) && !useless.contains(&orphan.path));
    whole.for_each(|orphan| orphan.kept = Some(Kept::Recoverable));
    Ok(())
}
