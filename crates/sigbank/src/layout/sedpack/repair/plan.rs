//! What a repair will do: from what lies there and what each shard turned out to be to the lists as they should be. Nothing is
//! read or written here.

use super::candidates::{Candidate, Candidates, Origin};
use super::copies::{self, Copy};
use super::examine::{Subject, Verdict};
use super::survey::{Found, Survey, Unfinished};
use super::{RepairAction, RepairKind, RepairNote, RepairOptions, RepairPlan};
use crate::error::{Error, Result};
use crate::layout::sedpack::ROOT;
use crate::layout::sedpack::lists::{ListRef, ShardsList};
use crate::layout::sedpack::progress::Record;
use crate::layout::sedpack::relist::{Tree, split_of};
use crate::uri::RelPath;
use std::collections::{BTreeMap, HashMap, HashSet};

const STAYS: &str = "the file stays where it is";

/// The plan, from a survey without its shards and the verdict on each candidate.
///
/// # Errors
/// `Corrupt` where shards have their checksums and none of them can be read: the structure is at fault then, not they. `NotFound`
/// where no shard is there at all, unless the options say that they are lost.
pub(super) fn decide(
    survey: &Survey,
    candidates: Candidates,
    verdicts: Vec<Verdict>,
    options: &RepairOptions,
) -> Result<RepairPlan> {
    refuse_a_wrong_structure(survey, &candidates, &verdicts)?;
    if !options.lost_for_good {
        refuse_an_empty_disk(survey, &candidates, &verdicts)?;
    }
    let mut copies = copies::find(&candidates.all, &verdicts, options.adopt_copies);
    let Candidates { all, twice, claimed } = candidates;
    let mut deciding = Deciding {
        plan: RepairPlan { fingerprint: survey.fingerprint.clone(), guarded: survey.guarded.is_some(), ..Default::default() },
        tree: Tree::new(survey.info.splits(), survey.named.iter().map(|f| f.list.clone())),
        found: survey.named.iter().chain(&survey.unnamed).map(|f| (&f.list.path, f)).collect(),
        adopted_lists: BTreeMap::new(),
        accounted: HashMap::new(),
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
    for (at, (candidate, verdict)) in all.into_iter().zip(verdicts).enumerate() {
        deciding.shard(candidate, verdict, copies.remove(&at))?;
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
    /// Lists that nothing led to.
    adopted_lists: BTreeMap<RelPath, Adopted>,
    /// Examples and shards below a directory that are listed or were dropped.
    accounted: HashMap<RelPath, (u64, u64)>,
    rejected: HashMap<RelPath, Record>,
}

#[derive(Default)]
struct Adopted {
    shards: u64,
    examples: u64,
    /// How many of the shards hold the bytes of others, and the first of those.
    like: u64,
    first: Option<RelPath>,
}

impl Deciding<'_> {
    fn act(&mut self, kind: RepairKind, path: &RelPath, examples: u64, reason: impl Into<String>) {
        let (path, split, reason) = (path.clone(), split_of(path).to_owned(), reason.into());
        self.plan.actions.push(RepairAction { kind, path, split, examples, shards: u64::from(kind.of_shard()), reason });
    }

    fn note(&mut self, path: &RelPath, reason: String) {
        self.plan.notes.push(RepairNote { path: path.clone(), examples: 0, reason });
    }

    /// A whole shard that is not adopted.
    fn leave_out(&mut self, path: &RelPath, examples: u64, reason: String) {
        self.plan.left.insert(path.clone());
        self.plan.notes.push(RepairNote { path: path.clone(), examples, reason });
    }

    /// Counts what is there still, or told of as dropped, for every directory above.
    fn account(&mut self, list: &RelPath, examples: u64, shards: u64) {
        let mut dir = list.parent();
        while let Some(at) = dir {
            dir = at.parent();
            let sums = self.accounted.entry(at).or_default();
            *sums = (sums.0.saturating_add(examples), sums.1.saturating_add(shards));
        }
    }

    fn shard(&mut self, candidate: Candidate, verdict: Verdict, copy: Option<Copy>) -> Result<()> {
        let Candidate { origin, list, path, subject, .. } = candidate;
        let (shard, corrected) = match (verdict, subject) {
            (Verdict::Whole, Subject::Entry(shard)) => (shard, None),
            (Verdict::Other(shard, why), _) => (shard, Some(why)),
            // An entry with the right checksums vouches for the shard.
            (Verdict::OtherType(why), Subject::Entry(shard)) if origin != Origin::Aside => {
                let stays = if origin == Origin::Listed { "it stays listed" } else { "adopted as it is" };
                self.note(&path, format!("{stays}, for its bytes are as they were written: {why}"));
                (shard, None)
            }
            (Verdict::OtherType(why), subject) => {
                let examples = if let Subject::Entry(shard) = subject { shard.examples } else { 0 };
                self.leave_out(&path, examples, format!("not adopted: {why}"));
                return Ok(());
            }
            (Verdict::Gone, subject) => return self.reject(origin, list, &path, subject, "its file is gone".into()),
            (Verdict::Damaged(why), subject) => return self.reject(origin, list, &path, subject, format!("{why}; {STAYS}")),
            (Verdict::Unreadable(why), subject) => {
                return self.reject(origin, list, &path, subject, format!("it cannot be read: {why}; {STAYS}"));
            }
            (Verdict::Whole, Subject::File(_)) => return Ok(()),
        };
        if let Some(Copy::Of(other)) = &copy {
            let why = format!(
                "not adopted: it holds the bytes of {other}, as a copy does, or the shard of a writer that was run again"
            );
            self.leave_out(&path, shard.examples, why);
            return Ok(());
        }
        let examples = shard.examples;
        let files: Vec<RelPath> = shard.files.iter().map(|f| f.path.clone()).collect();
        let found = &self.found;
        if !self.tree.add(&list, shard, &|path| found.get(path).map(|f| f.list.clone()))? {
            self.leave_out(&path, examples, format!("not adopted: it lies outside the list of split '{}'", split_of(&path)));
            return Ok(());
        }
        self.rejected.remove(&path);
        if origin == Origin::Listed {
            corrected.into_iter().for_each(|why| self.act(RepairKind::CorrectShard, &path, examples, why));
            return Ok(());
        }
        self.plan.adopted.extend(files);
        let mut why = match origin {
            Origin::Listed | Origin::Unnamed => {
                let of_list = self.adopted_lists.entry(list).or_default();
                (of_list.shards, of_list.examples) = (of_list.shards + 1, of_list.examples + examples);
                if let Some(Copy::Like(other)) = copy {
                    of_list.like += 1;
                    of_list.first.get_or_insert(other);
                }
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
        if let Some(Copy::Like(other)) = copy {
            why += &format!("; it holds the same bytes as {other}: remove one of the files if it is a copy");
        }
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
                    self.account(&list, examples, 1);
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
        for (list, Adopted { shards, examples, like, first }) in std::mem::take(&mut self.adopted_lists) {
            let mut why = format!("nothing led to it and its {shards} shards, as when a worker's lists were not merged");
            if let Some(first) = first {
                why +=
                    &format!("; {like} of them hold the same bytes as others, such as {first}: remove the files that are copies");
            }
            self.act(RepairKind::AdoptList, &list, examples, why);
        }
        let count = |list: &ShardsList| (list.path.clone(), list.shards.iter().map(|s| s.examples).sum::<u64>());
        let holds: HashMap<RelPath, u64> = self.tree.lists().map(count).collect();
        let kept: Vec<_> = self.tree.lists().map(|l| (count(l), l.shards.len() as u64)).collect();
        kept.into_iter().for_each(|((list, examples), shards)| self.account(&list, examples, shards));
        for found in &survey.named {
            if let Some(wrong) = &found.wrong {
                let examples = holds.get(&found.list.path).copied().unwrap_or(0);
                self.act(RepairKind::RebuildList, &found.list.path, examples, wrong.as_str());
            }
        }
        self.lost(survey);
    }

    /// What damaged lists told of and is neither listed now nor dropped by name.
    fn lost(&mut self, survey: &Survey) {
        let mut told: Vec<_> = survey.named.iter().filter_map(|f| Some((&f.list.path, f.told?))).collect();
        // The deepest first: what one lost is not counted again for the lists above.
        told.sort_by_key(|(path, _)| std::cmp::Reverse(path.components().count()));
        for (path, (examples, shards)) in told {
            let there = path.parent().and_then(|dir| self.accounted.get(&dir).copied()).unwrap_or_default();
            let (examples, shards) = (examples.saturating_sub(there.0), shards.saturating_sub(there.1));
            if examples > 0 || shards > 0 {
                let why = "shards that the list told of are not there, or cannot be told from what nobody listed";
                self.act(RepairKind::LoseShards, path, examples, why);
                self.plan.actions.last_mut().into_iter().for_each(|action| action.shards = shards);
                self.account(path, examples, shards);
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
            Verdict::Whole | Verdict::Other(..) | Verdict::OtherType(_) => return Ok(()),
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

/// Where not one shard file is there, a disk that is not mounted is likelier than that all were lost.
fn refuse_an_empty_disk(survey: &Survey, candidates: &Candidates, verdicts: &[Verdict]) -> Result<()> {
    let listed = candidates.all.iter().filter(|c| c.origin == Origin::Listed).count() as u64;
    let lost: u64 = survey.named.iter().filter(|f| f.lost).filter_map(|f| f.told).map(|(_, shards)| shards).sum();
    if listed + lost == 0 || verdicts.iter().any(|v| *v != Verdict::Gone) {
        return Ok(());
    }
    Err(Error::not_found(format!("none of the {} shards that were listed is there", listed + lost)).remedy(
        "is a disk not mounted, or was the dataset copied without its shards? Where they are gone for good, say so with lost_for_good \
         (--lost-for-good), and the dataset is emptied",
    ))
}
