//! Whole shards that hold the same bytes. Equal bytes are data as good as any (silence, a constant, one recording taken twice), so
//! they are no reason to leave a shard out, but for one case: of the shards that are listed exactly one holds these bytes, and of
//! what one run wrote or one directory holds exactly one does too. So it looks when a writer was killed and run again, or a file was
//! copied.

use super::candidates::{Candidate, Origin};
use super::examine::{Subject, Verdict};
use crate::layout::sedpack::lists::ShardInfo;
use crate::layout::sedpack::relist::split_of;
use crate::uri::RelPath;
use std::collections::{HashMap, HashSet};

/// What a shard that is not listed has in common with another one.
pub(super) enum Copy {
    /// It looks as if it were listed already under this name.
    Of(RelPath),
    /// The shard of this name, of another origin, happens to hold the same bytes.
    Like(RelPath),
}

/// The shards of one checksum.
#[derive(Default)]
struct Alike {
    /// How many are listed, and the first one.
    listed: usize,
    first: Option<usize>,
    /// How many there are in each other group.
    groups: HashMap<u32, usize>,
}

fn shard<'a>(candidate: &'a Candidate, verdict: &'a Verdict) -> Option<&'a ShardInfo> {
    match (verdict, &candidate.subject) {
        (Verdict::Other(shard, _), _) => Some(shard),
        (Verdict::Whole | Verdict::OtherType(_), Subject::Entry(shard)) => Some(shard),
        _ => None,
    }
}

fn checksum(shard: &ShardInfo) -> Option<&str> {
    shard.files.first()?.checksums.first().map(String::as_str)
}

/// Of each candidate by its place, as far as there is something to tell.
pub(super) fn find(candidates: &[Candidate], verdicts: &[Verdict], adopt: bool) -> HashMap<usize, Copy> {
    let whole = || {
        let all = candidates.iter().zip(verdicts).enumerate();
        all.filter_map(|(at, (c, v))| shard(c, v).and_then(|s| Some((at, c, s, checksum(s)?))))
    };
    let unlisted: HashSet<&str> = whole().filter(|(_, c, ..)| c.origin != Origin::Listed).map(|(.., sum)| sum).collect();
    let mut alike: HashMap<&str, Alike> = HashMap::new();
    for (at, candidate, _, sum) in whole().filter(|(.., sum)| unlisted.contains(sum)) {
        let alike = alike.entry(sum).or_default();
        alike.first.get_or_insert(at);
        match candidate.group {
            0 => alike.listed += 1,
            group => *alike.groups.entry(group).or_default() += 1,
        }
    }
    let one = |(at, candidate, shard, sum): (usize, &Candidate, &ShardInfo, &str)| {
        let alike = alike.get(sum)?;
        let first = candidates.get(alike.first?).filter(|first| first.group != candidate.group)?;
        let said = match &first.subject {
            Subject::Entry(first) => Some(&first.metadata),
            Subject::File(_) => None,
        };
        let same = candidate.origin == Origin::File
            || (said == Some(&shard.metadata) && split_of(&first.path) == split_of(&candidate.path));
        let once = alike.listed == 1 && alike.groups.get(&candidate.group) == Some(&1);
        let path = first.path.clone();
        let copy = if candidate.repeatable && once && same && !adopt { Copy::Of(path) } else { Copy::Like(path) };
        Some((at, copy))
    };
    whole().filter(|(_, c, ..)| c.origin != Origin::Listed).filter_map(one).collect()
}
