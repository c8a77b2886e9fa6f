//! Every shard that may be listed after a repair.

use super::examine::Subject;
use super::survey::Survey;
use crate::error::Result;
use crate::layout::sedpack::lists::{LIST, ShardInfo};
use crate::layout::sedpack::progress::Record;
use crate::layout::sedpack::relist::split_of;
use crate::uri::RelPath;
use std::collections::{HashMap, HashSet};

/// How a shard comes into question.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Origin {
    /// The root leads to its list.
    Listed,
    /// Nothing names its list.
    Unnamed,
    /// It stands in a worker's list that was kept aside.
    Aside,
    /// A killed writer of this path finished it.
    Recorded(String),
    /// An earlier repair dropped it.
    Dropped,
    /// Nothing but its file is there.
    File,
}

/// A shard that may be listed.
pub(super) struct Candidate {
    pub(super) origin: Origin,
    pub(super) list: RelPath,
    pub(super) path: RelPath,
    pub(super) subject: Subject,
    /// What was written in one run, or lies in one directory: its shards are never each other's copies. All that is listed is one.
    pub(super) group: u32,
    /// Its writer may have been run again, so that what it wrote is listed under another name. Never for what may have been listed
    /// itself, in a list that is lost or damaged.
    pub(super) repeatable: bool,
}

/// Every shard in question, in the order in which they will be listed, and shards that are listed twice.
#[derive(Default)]
pub(super) struct Candidates {
    pub(super) all: Vec<Candidate>,
    pub(super) twice: Vec<(RelPath, u64)>,
    /// Their files.
    pub(super) claimed: HashSet<RelPath>,
}

/// Which lists can be relied on.
struct Lists {
    whole: HashSet<RelPath>,
    wrong: HashSet<RelPath>,
}

impl Lists {
    fn of(survey: &Survey) -> Self {
        let (mut whole, mut wrong) = (HashSet::new(), HashSet::new());
        for found in survey.named.iter().chain(&survey.unnamed) {
            let into = if found.wrong.is_none() { &mut whole } else { &mut wrong };
            into.insert(found.list.path.clone());
        }
        Self { whole, wrong }
    }

    /// Whether a list above `dir`, or in it, may have led to what it leads to no longer.
    fn lost_above(&self, mut dir: Option<RelPath>) -> bool {
        while let Some(at) = dir {
            if at.join(LIST).is_ok_and(|list| self.wrong.contains(&list)) {
                return true;
            }
            dir = at.parent();
        }
        false
    }
}

impl Candidates {
    /// Takes the shards out of the survey's lists.
    pub(super) fn of(survey: &mut Survey) -> Result<Self> {
        let mut found = Self::default();
        let lists = Lists::of(survey);
        let mut groups: HashMap<(u8, String), u32> = HashMap::new();
        let mut group = |kind: u8, name: &str| {
            let next = groups.len() as u32 + 1;
            *groups.entry((kind, name.to_owned())).or_insert(next)
        };
        for list in &mut survey.named {
            for shard in std::mem::take(&mut list.list.shards) {
                let (path, examples) = (shard.path()?.clone(), shard.examples);
                if !found.claim(Origin::Listed, &list.list.path, shard, 0, false)? {
                    found.twice.push((path, examples));
                }
            }
        }
        let free = survey.guarded.is_none();
        for list in survey.unnamed.iter_mut().filter(|_| free) {
            let of_top = group(1, list.top.as_str());
            let above = list.list.path.parent().and_then(|dir| dir.parent());
            // A split that the root does not know may have been lost with the root.
            let known = survey.info.split(split_of(&list.list.path)).is_some();
            let repeatable = known && !lists.lost_above(above);
            for shard in std::mem::take(&mut list.list.shards) {
                found.claim(Origin::Unnamed, &list.list.path, shard, of_top, repeatable)?;
            }
        }
        for (own, record) in std::mem::take(&mut survey.recorded) {
            // Those of the default path belong to the next filler, which never takes them for a repetition either.
            let (of_own, repeatable) = (group(2, &own), !own.is_empty());
            found.claim(Origin::Recorded(own), &record.list, record.shard, of_own, repeatable)?;
        }
        for list in survey.aside.iter_mut().filter(|_| free) {
            let of_list = group(3, list.path.as_str());
            for shard in std::mem::take(&mut list.shards) {
                found.claim(Origin::Aside, &list.path, shard, of_list, true)?;
            }
        }
        for Record { list, shard } in survey.files.iter().filter_map(|path| survey.dropped.get(path)) {
            found.claim(Origin::Dropped, list, shard.clone(), 0, false)?;
        }
        for path in survey.files.iter().filter(|_| free) {
            if found.claimed.insert(path.clone()) {
                let list = path.parent().map_or_else(|| RelPath::parse(LIST), |dir| dir.join(LIST))?;
                let repeatable = lists.whole.contains(&list) || !lists.lost_above(path.parent());
                let (group, subject) = (group(4, list.as_str()), Subject::File(path.clone()));
                found.all.push(Candidate { origin: Origin::File, list, subject, path: path.clone(), group, repeatable });
            }
        }
        Ok(found)
    }

    /// False where another entry has the file already.
    fn claim(&mut self, origin: Origin, list: &RelPath, shard: ShardInfo, group: u32, repeatable: bool) -> Result<bool> {
        let path = shard.path()?.clone();
        if !self.claimed.insert(path.clone()) {
            return Ok(false);
        }
        self.claimed.extend(shard.files.iter().map(|f| f.path.clone()));
        self.all.push(Candidate { origin, list: list.clone(), path, subject: Subject::Entry(shard), group, repeatable });
        Ok(true)
    }
}
