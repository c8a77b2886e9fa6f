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
use std::collections::{BTreeMap, HashMap, HashSet};

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
#[derive(Default)]
pub(super) struct Candidates {
    pub(super) all: Vec<Candidate>,
    twice: Vec<(RelPath, u64)>,
    /// Their files.
    claimed: HashSet<RelPath>,
}

impl Candidates {
    /// Takes the shards out of the survey's lists.
    pub(super) fn of(survey: &mut Survey) -> Result<Self> {
        let mut found = Self::default();
        for list in &mut survey.named {
            for shard in std::mem::take(&mut list.list.shards) {
                let (path, examples) = (shard.path()?.clone(), shard.examples);
                if !found.claim(Origin::Listed, &list.list.path, shard)? {
                    found.twice.push((path, examples));
                }
            }
        }
        let free = survey.guarded.is_none();
        for list in survey.unnamed.iter_mut().filter(|_| free) {
            for shard in std::mem::take(&mut list.list.shards) {
                found.claim(Origin::Unnamed, &list.list.path, shard)?;
            }
        }
        for (own, record) in std::mem::take(&mut survey.recorded) {
            found.claim(Origin::Recorded(own), &record.list, record.shard)?;
        }
        for list in survey.aside.iter_mut().filter(|_| free) {
            for shard in std::mem::take(&mut list.shards) {
                found.claim(Origin::Aside, &list.path, shard)?;
            }
        }
        for Record { list, shard } in survey.files.iter().filter_map(|path| survey.dropped.get(path)) {
            found.claim(Origin::Dropped, list, shard.clone())?;
        }
        for path in survey.files.iter().filter(|_| free) {
            if found.claimed.insert(path.clone()) {
                let list = path.parent().map_or_else(|| RelPath::parse(LIST), |dir| dir.join(LIST))?;
                let subject = Subject::File(path.clone());
                found.all.push(Candidate { origin: Origin::File, list, subject, path: path.clone() });
            }
        }
        Ok(found)
    }

    /// False where another entry has the file already.
    fn claim(&mut self, origin: Origin, list: &RelPath, shard: ShardInfo) -> Result<bool> {
        let path = shard.path()?.clone();
        if !self.claimed.insert(path.clone()) {
            return Ok(false);
        }
        self.claimed.extend(shard.files.iter().map(|f| f.path.clone()));
        self.all.push(Candidate { origin, list: list.clone(), path, subject: Subject::Entry(shard) });
        Ok(true)
    }
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

/// The plan, from a survey without its shards and the verdict on each candidate.
///
/// # Errors
/// `Corrupt` where shards have their checksums and none of them can be read: the structure is at fault then, not they.
pub(super) fn decide(survey: &Survey, candidates: Candidates, verdicts: Vec<Verdict>) -> Result<RepairPlan> {
    refuse_a_wrong_structure(survey, &candidates, &verdicts)?;
    let Candidates { all, twice, claimed } = candidates;
    let mut deciding = Deciding {
        plan: RepairPlan { fingerprint: survey.fingerprint.clone(), guarded: survey.guarded.is_some(), ..Default::default() },
        tree: Tree::new(survey.info.splits(), survey.named.iter().map(|f| f.list.clone())),
        found: survey.named.iter().chain(&survey.unnamed).map(|f| (&f.list.path, f)).collect(),
        known: all.iter().any(|c| c.origin != Origin::Listed).then(Known::default),
        adopted_lists: BTreeMap::new(),
        rejected: survey.dropped.clone(),
    };
    let root = RelPath::parse(ROOT)?;
    match survey.unfinished {
        Some(Unfinished::Finish) => deciding.act(RepairKind::FinishCommit, &root, 0, "a killed writer began it"),
        Some(Unfinished::GiveUp) => {
            deciding.act(RepairKind::GiveUpCommit, &root, 0, "another program wrote the root after it was begun");
        }
        None => {}
    }
    for (candidate, verdict) in all.into_iter().zip(verdicts) {
        deciding.shard(candidate, verdict)?;
    }
    for (path, examples) in twice {
        deciding.act(RepairKind::DropShard, &path, examples, "it is listed twice; its first entry stays");
    }
    deciding.lists(survey);
    if let Some(why) = &survey.guarded {
        let left = survey.unnamed.iter().map(|f| &f.list.path).chain(survey.files.iter().filter(|f| !claimed.contains(*f)));
        left.for_each(|path| deciding.note(path, format!("left alone: {why}")));
    }
    deciding.render(survey)
}

struct Deciding<'a> {
    plan: RepairPlan,
    tree: Tree,
    found: HashMap<&'a RelPath, &'a Found>,
    /// None where nothing can be adopted.
    known: Option<Known>,
    /// Shards and examples of lists that nothing led to.
    adopted_lists: BTreeMap<RelPath, (u64, u64)>,
    rejected: HashMap<RelPath, Record>,
}

impl Deciding<'_> {
    fn act(&mut self, kind: RepairKind, path: &RelPath, examples: u64, reason: impl Into<String>) {
        let (path, split, reason) = (path.clone(), split_of(path).to_owned(), reason.into());
        self.plan.actions.push(RepairAction { kind, path, split, examples, reason });
    }

    fn note(&mut self, path: &RelPath, reason: String) {
        self.plan.notes.push(RepairNote { path: path.clone(), reason });
    }

    fn shard(&mut self, candidate: Candidate, verdict: Verdict) -> Result<()> {
        let Candidate { origin, list, path, subject } = candidate;
        let (shard, corrected) = match (verdict, subject) {
            (Verdict::Whole, Subject::Entry(shard)) => (shard, None),
            (Verdict::Other(shard, why), _) => (shard, Some(why)),
            (Verdict::Gone, subject) => return self.reject(origin, list, &path, subject, "its file is gone".into()),
            (Verdict::Damaged(why), subject) => return self.reject(origin, list, &path, subject, format!("{why}; {STAYS}")),
            (Verdict::Unreadable(why), subject) => {
                return self.reject(origin, list, &path, subject, format!("it cannot be read: {why}; {STAYS}"));
            }
            (Verdict::Whole, Subject::File(_)) => return Ok(()),
        };
        if let Some(known) = &mut self.known {
            let twin = if origin == Origin::Listed { None } else { known.twin(&shard, origin != Origin::File).cloned() };
            if let Some(twin) = twin {
                self.note(&path, format!("not adopted: it holds the bytes of {twin}, as when a worker is run again"));
                return Ok(());
            }
            known.insert(&shard)?;
        }
        let examples = shard.examples;
        let files: Vec<RelPath> = shard.files.iter().map(|f| f.path.clone()).collect();
        let found = &self.found;
        if !self.tree.add(&list, shard, &|path| found.get(path).map(|f| f.list.clone()))? {
            self.note(&path, format!("not adopted: it lies outside the list of split '{}'", split_of(&path)));
            return Ok(());
        }
        self.rejected.remove(&path);
        if origin == Origin::Listed {
            corrected.into_iter().for_each(|why| self.act(RepairKind::CorrectShard, &path, examples, why));
            return Ok(());
        }
        self.plan.adopted.extend(files);
        let why = match origin {
            Origin::Listed | Origin::Unnamed => {
                let of_list = self.adopted_lists.entry(list).or_default();
                *of_list = (of_list.0 + 1, of_list.1 + examples);
                return Ok(());
            }
            Origin::Recorded(own) if own.is_empty() => "a killed writer finished it".to_owned(),
            Origin::Recorded(own) => {
                format!("a killed writer of the path '{own}' finished it; do not run that worker again")
            }
            Origin::Aside => "a worker's list that was not merged names it".to_owned(),
            Origin::Dropped => "it was dropped, and is whole again".to_owned(),
            Origin::File => "no list names it, and it can be read; its custom metadata are not known".to_owned(),
        };
        self.act(RepairKind::AdoptShard, &path, examples, why);
        Ok(())
    }

    /// Drops a listed shard, and does not adopt another one; what its entry says is remembered.
    fn reject(&mut self, origin: Origin, list: RelPath, path: &RelPath, subject: Subject, why: String) -> Result<()> {
        let examples = match subject {
            Subject::File(_) => 0,
            Subject::Entry(shard) => {
                let examples = shard.examples;
                if origin == Origin::Listed {
                    self.plan.recheck.push(Subject::Entry(shard.clone()));
                }
                self.rejected.insert(path.clone(), Record { list, shard });
                examples
            }
        };
        match origin {
            Origin::Listed => self.act(RepairKind::DropShard, path, examples, why),
            _ => self.note(path, format!("not adopted: {why}")),
        }
        Ok(())
    }

    fn lists(&mut self, survey: &Survey) {
        for (list, (shards, examples)) in std::mem::take(&mut self.adopted_lists) {
            let why = format!("nothing led to it and its {shards} shards, as when a worker's lists were not merged");
            self.act(RepairKind::AdoptList, &list, examples, why);
        }
        let count = |list: &ShardsList| (list.path.clone(), list.shards.iter().map(|s| s.examples).sum::<u64>());
        let holds: HashMap<RelPath, u64> = self.tree.lists().map(count).collect();
        for found in &survey.named {
            if let Some(wrong) = &found.wrong {
                let examples = holds.get(&found.list.path).copied().unwrap_or(0);
                self.act(RepairKind::RebuildList, &found.list.path, examples, wrong.as_str());
            }
        }
    }

    fn render(self, survey: &Survey) -> Result<RepairPlan> {
        let Self { mut plan, tree, found, rejected, .. } = self;
        let as_it_lies = |list: &ShardsList| {
            let bytes = found.get(&list.path).filter(|f| f.intact).and_then(|f| f.bytes.clone())?;
            ShardsList::parse(&list.path, &bytes).is_ok_and(|lies| lies == *list).then_some(bytes)
        };
        let (lists, tops) = tree.render(&survey.info.structure().algorithms, &as_it_lies)?;
        let written: HashSet<&RelPath> = lists.iter().map(|(path, _)| path).collect();
        let replaced = survey.unnamed.iter().filter(|f| written.contains(&f.list.path));
        plan.aside = replaced.filter_map(|f| f.bytes.clone()).collect();
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
        Ok(plan)
    }
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
