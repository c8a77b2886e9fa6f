//! What a repair will do: from what lies there and what each shard turned out to be to the lists as they should be. Nothing is
//! read or written here.

use super::examine::{Subject, Verdict};
use super::survey::{Found, Survey, Unfinished};
use super::{RepairAction, RepairKind, RepairNote, RepairPlan};
use crate::error::{Error, Result};
use crate::layout::sedpack::ROOT;
use crate::layout::sedpack::lists::{LIST, ListRef, ShardInfo, ShardsList};
use crate::layout::sedpack::progress::Record;
use crate::layout::sedpack::relist::{Tree, split_of};
use crate::uri::RelPath;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// How a shard comes into question.
#[derive(Debug, Clone, PartialEq)]
enum Origin {
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
    origin: Origin,
    list: RelPath,
    path: RelPath,
    pub(super) subject: Subject,
}

/// Every shard in question, in the order in which they will be listed, and shards that are listed twice.
pub(super) struct Candidates {
    pub(super) all: Vec<Candidate>,
    twice: Vec<Candidate>,
}

impl Candidates {
    pub(super) fn of(survey: &Survey) -> Result<Self> {
        let mut found = Self { all: Vec::new(), twice: Vec::new() };
        let mut claimed = HashSet::new();
        let mut claim = |origin: Origin, list: &RelPath, shard: &ShardInfo| -> Result<()> {
            let path = shard.path()?.clone();
            let subject = Subject::Entry(shard.clone());
            let is_listed = origin == Origin::Listed;
            let candidate = Candidate { origin, list: list.clone(), path: path.clone(), subject };
            let mut files = shard.files.iter().map(|f| f.path.clone());
            if claimed.insert(path) {
                claimed.extend(&mut files);
                found.all.push(candidate);
            } else if is_listed {
                found.twice.push(candidate);
            }
            Ok(())
        };
        for list in &survey.named {
            list.list.shards.iter().try_for_each(|s| claim(Origin::Listed, &list.list.path, s))?;
        }
        if survey.guarded.is_none() {
            for list in &survey.unnamed {
                list.list.shards.iter().try_for_each(|s| claim(Origin::Unnamed, &list.list.path, s))?;
            }
        }
        for (own, record) in &survey.recorded {
            claim(Origin::Recorded(own.clone()), &record.list, &record.shard)?;
        }
        for list in survey.aside.iter().filter(|_| survey.guarded.is_none()) {
            list.shards.iter().try_for_each(|s| claim(Origin::Aside, &list.path, s))?;
        }
        let mut alone = Vec::new();
        for path in &survey.files {
            match survey.dropped.get(path) {
                Some(Record { list, shard }) => claim(Origin::Dropped, list, shard)?,
                None => alone.push(path.clone()),
            }
        }
        for path in alone.into_iter().filter(|path| survey.guarded.is_none() && !claimed.contains(path)) {
            let list = path.parent().map_or_else(|| RelPath::parse(LIST), |dir| dir.join(LIST))?;
            found.all.push(Candidate { origin: Origin::File, list, subject: Subject::File(path.clone()), path });
        }
        Ok(found)
    }
}

/// What a list was, without its shards.
fn emptied(found: &Found) -> ShardsList {
    let mut list = found.list.clone();
    list.shards.clear();
    list
}

/// Bytes that are listed already: what a worker that was run again wrote twice.
#[derive(Default)]
struct Known(HashMap<String, Vec<(RelPath, String)>>);

impl Known {
    fn key(shard: &ShardInfo) -> Option<&String> {
        shard.files.first().and_then(|f| f.checksums.first())
    }
    fn insert(&mut self, shard: &ShardInfo) -> Result<()> {
        let metadata = serde_json::to_string(&shard.metadata).unwrap_or_default();
        if let Some(key) = Self::key(shard) {
            self.0.entry(key.clone()).or_default().push((shard.path()?.clone(), metadata));
        }
        Ok(())
    }
    /// The shard that holds the same bytes, and the same metadata where those are known.
    fn twin(&self, shard: &ShardInfo, metadata_known: bool) -> Option<&RelPath> {
        let metadata = serde_json::to_string(&shard.metadata).unwrap_or_default();
        let twins = self.0.get(Self::key(shard)?)?;
        twins.iter().find(|(_, m)| !metadata_known || *m == metadata).map(|(path, _)| path)
    }
}

const STAYS: &str = "the file stays where it is";

/// The plan, from a survey and the verdict on each of its candidates.
///
/// # Errors
/// `Corrupt` where shards have their checksums and none of them can be read: the structure is at fault then, not they.
pub(super) fn decide(survey: Survey, candidates: Candidates, verdicts: Vec<Verdict>) -> Result<RepairPlan> {
    refuse_a_wrong_structure(&survey, &candidates, &verdicts)?;
    let mut plan =
        RepairPlan { fingerprint: survey.fingerprint.clone(), guarded: survey.guarded.is_some(), ..Default::default() };
    let mut act = |kind, path: &RelPath, examples, reason: String| {
        let split = split_of(path).to_owned();
        plan.actions.push(RepairAction { kind, path: path.clone(), split, examples, reason });
    };
    let mut rejected = survey.dropped.clone();
    let mut notes = Vec::new();
    match survey.unfinished {
        Some(Unfinished::Finish) => act(RepairKind::FinishCommit, &RelPath::parse(ROOT)?, 0, "a killed writer began it".into()),
        Some(Unfinished::GiveUp) => {
            act(RepairKind::GiveUpCommit, &RelPath::parse(ROOT)?, 0, "another program wrote the root after it was begun".into());
        }
        None => {}
    }
    let found: HashMap<&RelPath, &Found> = survey.named.iter().chain(&survey.unnamed).map(|f| (&f.list.path, f)).collect();
    let before = |path: &RelPath| found.get(path).map(|f| emptied(f));
    let mut tree = Tree::new(survey.info.splits(), survey.named.iter().map(emptied));
    let mut known = Known::default();
    let mut adopted_lists: BTreeMap<RelPath, (u64, u64)> = BTreeMap::new();
    for (candidate, verdict) in candidates.all.iter().zip(verdicts) {
        let Candidate { origin, list, path, subject } = candidate;
        let (shard, corrected) = match (verdict, subject) {
            (Verdict::Whole, Subject::Entry(shard)) => (shard.clone(), None),
            (Verdict::Other(shard, why), _) => (shard, Some(why)),
            (verdict, subject) => {
                let why = match verdict {
                    Verdict::Gone => "its file is gone".to_owned(),
                    Verdict::Damaged(why) => format!("{why}; {STAYS}"),
                    Verdict::Unreadable(why) => format!("it cannot be read: {why}; {STAYS}"),
                    Verdict::Whole | Verdict::Other(..) => continue,
                };
                if let Subject::Entry(shard) = subject {
                    let record = Record { list: list.clone(), shard: shard.clone() };
                    rejected.insert(path.clone(), record);
                    if *origin == Origin::Listed {
                        act(RepairKind::DropShard, path, shard.examples, why);
                        continue;
                    }
                }
                notes.push(RepairNote { path: path.clone(), reason: format!("not adopted: {why}") });
                continue;
            }
        };
        let twin = if *origin == Origin::Listed { None } else { known.twin(&shard, *origin != Origin::File).cloned() };
        if let Some(twin) = twin {
            let reason = format!("not adopted: it holds the bytes of {twin}, as when a worker is run again");
            notes.push(RepairNote { path: path.clone(), reason });
            continue;
        }
        let examples = shard.examples;
        known.insert(&shard)?;
        if !tree.add(list, shard, &before)? {
            let reason = format!("not adopted: it lies outside the list of split '{}'", split_of(path));
            notes.push(RepairNote { path: path.clone(), reason });
            continue;
        }
        match (origin, corrected) {
            (Origin::Listed, None) => {}
            (Origin::Listed, Some(why)) => act(RepairKind::CorrectShard, path, examples, why),
            (Origin::Unnamed, _) => {
                let of_list = adopted_lists.entry(list.clone()).or_default();
                *of_list = (of_list.0 + 1, of_list.1 + examples);
            }
            (Origin::Recorded(own), _) => {
                let whose = if own.is_empty() { String::new() } else { format!(" of the path '{own}'") };
                let warn = if own.is_empty() { "" } else { "; do not run that worker again" };
                act(RepairKind::AdoptShard, path, examples, format!("a killed writer{whose} finished it{warn}"));
            }
            (Origin::Aside, _) => {
                act(RepairKind::AdoptShard, path, examples, "a worker's list that was not merged names it".into())
            }
            (Origin::Dropped, _) => act(RepairKind::AdoptShard, path, examples, "it was dropped, and is whole again".into()),
            (Origin::File, _) => {
                let why = "no list names it, and it can be read; its custom metadata are not known";
                act(RepairKind::AdoptShard, path, examples, why.into());
            }
        }
    }
    for (list, (shards, examples)) in adopted_lists {
        act(
            RepairKind::AdoptList,
            &list,
            examples,
            format!("nothing led to it and its {shards} shards, as when a worker's lists were not merged"),
        );
    }
    for twice in &candidates.twice {
        if let Subject::Entry(shard) = &twice.subject {
            act(RepairKind::DropShard, &twice.path, shard.examples, "it is listed twice; its first entry stays".into());
        }
    }
    let holds: HashMap<RelPath, u64> =
        tree.lists().map(|l| (l.path.clone(), l.shards.iter().map(|s| s.examples).sum())).collect();
    for found in &survey.named {
        if let Some(wrong) = &found.wrong {
            let examples = holds.get(&found.list.path).copied().unwrap_or(0);
            act(RepairKind::RebuildList, &found.list.path, examples, wrong.clone());
        }
    }
    if let Some(why) = &survey.guarded {
        let listed: HashSet<&RelPath> = candidates.all.iter().map(|c| &c.path).collect();
        for path in survey.unnamed.iter().map(|f| &f.list.path).chain(survey.files.iter().filter(|f| !listed.contains(f))) {
            notes.push(RepairNote { path: path.clone(), reason: format!("left alone: {why}") });
        }
    }
    let kept: BTreeSet<RelPath> = tree.lists().flat_map(|l| &l.shards).filter_map(|s| s.path().ok().cloned()).collect();
    let as_it_lies = |list: &ShardsList| {
        let same = found.get(&list.path).filter(|f| f.intact && f.list == *list);
        same.and_then(|f| f.bytes.clone())
    };
    let (lists, tops) = tree.render(&survey.info.structure().algorithms, &as_it_lies)?;
    plan.adopted = {
        let adopted = candidates.all.iter().filter(|c| c.origin != Origin::Listed && kept.contains(&c.path));
        adopted.map(|c| c.path.clone()).collect()
    };
    plan.recheck = {
        let dropped = candidates.all.iter().filter(|c| c.origin == Origin::Listed && !kept.contains(&c.path));
        dropped.map(|c| c.subject.clone()).collect()
    };
    plan.aside = {
        let replaced = survey.unnamed.iter().filter(|f| lists.iter().any(|(path, _)| *path == f.list.path));
        replaced.filter_map(|f| f.bytes.clone()).collect()
    };
    rejected.retain(|path, _| !kept.contains(path));
    plan.rejected = rejected.into_values().collect();
    plan.rejected.sort_by(|a, b| a.shard.path().ok().cmp(&b.shard.path().ok()));
    let mut info = survey.info.clone();
    for top in tops {
        let split = split_of(&top.file.path).to_owned();
        let same = |old: &ListRef| (&top.file, top.examples, top.shards) == (&old.file, old.examples, old.shards);
        if !info.split(&split).is_some_and(same) {
            info.set_split(&split, top);
            plan.root = Some(Vec::new());
        }
    }
    plan.root = plan.root.map(|_| info.to_bytes()).transpose()?;
    plan.lists = lists;
    plan.notes = notes;
    Ok(plan)
}

/// Shards that are as they were written and cannot be read tell of a structure that is not theirs.
fn refuse_a_wrong_structure(survey: &Survey, candidates: &Candidates, verdicts: &[Verdict]) -> Result<()> {
    if survey.info.structure().algorithms.is_empty() {
        return Ok(());
    }
    let listed = candidates.all.iter().zip(verdicts).filter(|(c, _)| c.origin == Origin::Listed);
    let mut first = None;
    for (candidate, verdict) in listed {
        match verdict {
            Verdict::Whole | Verdict::Other(..) => return Ok(()),
            Verdict::Unreadable(why) => {
                first.get_or_insert((candidate, why));
            }
            Verdict::Gone | Verdict::Damaged(_) => {}
        }
    }
    match first {
        None => Ok(()),
        Some((candidate, why)) => {
            Err(Error::corrupt(format!("no listed shard can be read although its checksums are right: {why}"))
                .at(&candidate.path)
                .remedy("dataset_structure in dataset_info.json is not that of these shards: correct it, then repair again"))
        }
    }
}
