//! What lies there: every list, as far as it can be read, shard files that no list names, and what killed writers left.
//! No shard is opened for it.

use super::dropped;
use crate::error::{Code, Error, Result};
use crate::layout::sedpack::claim;
use crate::layout::sedpack::journal::Journal;
use crate::layout::sedpack::lists::{LIST, ListRef, ShardInfo, ShardsList};
use crate::layout::sedpack::nested::Nested;
use crate::layout::sedpack::progress::{self, Record};
use crate::layout::sedpack::state::compare;
use crate::layout::sedpack::{Info, ROOT, SPLITS};
use crate::store::{DirEntry, Store};
use crate::uri::RelPath;
use bytes::Bytes;
use serde_json::Value;
use sigbank_format::checksum::{Algorithm, MultiHasher, digest_all};
use sigbank_format::model::Metadata;
use std::collections::{BTreeSet, HashMap};

/// A list as it lies there, or what is left of it.
pub(super) struct Found {
    /// Its text; none where it is gone.
    pub(super) bytes: Option<Bytes>,
    /// What can be read of it.
    pub(super) list: ShardsList,
    /// Why it must be written anew, or why its pointer must.
    pub(super) wrong: Option<String>,
    /// Nothing of it can be read.
    pub(super) lost: bool,
    /// Its text says what `list` does.
    pub(super) intact: bool,
    /// Examples and shards that its pointer tells of, where not all of the list can be read.
    pub(super) told: Option<(u64, u64)>,
    /// The list at which the way to it began.
    pub(super) top: RelPath,
}

/// A commit that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfinished {
    /// It will be finished; what is surveyed is the state after it.
    Finish,
    /// Another program wrote the root since: it is given up.
    GiveUp,
}

pub(super) struct Survey {
    pub(super) info: Info,
    pub(super) root: Bytes,
    pub(super) unfinished: Option<Unfinished>,
    /// Lists that the root leads to, in the order of their shards; then those that nothing names.
    pub(super) named: Vec<Found>,
    pub(super) unnamed: Vec<Found>,
    /// Workers' lists whose place was taken.
    pub(super) aside: Vec<ShardsList>,
    /// Shard files in the splits' directories.
    pub(super) files: BTreeSet<RelPath>,
    /// What dead writers finished: the writer's path and the record.
    pub(super) recorded: Vec<(String, Record)>,
    /// Shards that an earlier repair dropped.
    pub(super) dropped: HashMap<RelPath, Record>,
    /// Why what no list names is left alone, where it is.
    pub(super) guarded: Option<String>,
    /// What a plan rests on: the named lists and the dead writers' records, and what no list names.
    pub(super) fingerprint: [String; 2],
}

/// The way to bytes: the disk's, those of an unfinished commit, or those that fit a pointer.
struct Texts<'a> {
    store: &'a dyn Store,
    algorithms: Vec<Algorithm>,
    overlay: HashMap<RelPath, Bytes>,
    /// Texts of a commit that is given up, to fall back to where they fit a pointer.
    spare: HashMap<RelPath, Bytes>,
}

impl Texts<'_> {
    /// The text of a list, and whether it lies there, or will when a begun commit is finished.
    fn get(&self, path: &RelPath, pointer: Option<&ListRef>) -> Result<(Option<Bytes>, bool)> {
        let fits = |bytes: &Bytes| pointer.is_some_and(|p| compare(&self.algorithms, &p.file, &[bytes]).is_ok());
        if let Some(bytes) = self.overlay.get(path) {
            return Ok((Some(bytes.clone()), true));
        }
        let stored = match self.store.get(path) {
            Ok(bytes) => Some(bytes),
            Err(e) if e.code() == Code::NotFound => None,
            Err(e) => return Err(e),
        };
        match self.spare.get(path) {
            Some(spare) if !stored.as_ref().is_some_and(fits) && fits(spare) => Ok((Some(spare.clone()), false)),
            _ => Ok((stored, true)),
        }
    }
}

impl Survey {
    /// Looks at everything. The caller keeps other writers of the root out where that is possible.
    ///
    /// # Errors
    /// `Corrupt` for a root that cannot be read: it is beyond repair. `Conflict` where a list is lost while a writer is at work.
    pub(super) fn take(store: &dyn Store, allow_newer: bool) -> Result<Self> {
        let root = store.get(&RelPath::parse(ROOT)?)?;
        let journal = if store.capabilities().locks { Journal::read(store)? } else { claim::find(store, &root)? };
        let texts = |journal: &Journal| -> HashMap<RelPath, Bytes> {
            journal.lists.iter().map(|(path, text)| (path.clone(), Bytes::from(text.clone().into_bytes()))).collect()
        };
        let (root, unfinished, overlay, spare) = match &journal {
            None => (root, None, HashMap::new(), HashMap::new()),
            Some(j) if j.starts_from(&root) || root == j.root.as_bytes() => {
                (Bytes::from(j.root.clone().into_bytes()), Some(Unfinished::Finish), texts(j), HashMap::new())
            }
            Some(j) => (root, Some(Unfinished::GiveUp), HashMap::new(), texts(j)),
        };
        let info = Info::parse(&root, allow_newer)?;
        let texts = Texts { store, algorithms: info.structure().algorithms.clone(), overlay, spare };
        let mut survey = Self {
            root,
            unfinished,
            named: Vec::new(),
            unnamed: Vec::new(),
            aside: Vec::new(),
            files: BTreeSet::new(),
            recorded: Vec::new(),
            dropped: dropped::read(store)?,
            guarded: None,
            fingerprint: Default::default(),
            info,
        };
        let mut named = MultiHasher::new(&[Algorithm::Sha256]);
        let mut unnamed = MultiHasher::new(&[Algorithm::Sha256]);
        named.update(&survey.root);
        let mut lists = survey.list_files(store)?;
        for (_, top) in survey.info.splits().to_vec() {
            survey.named.extend(walk(&texts, top.file.path.clone(), Some(top), &mut lists, &mut named)?);
        }
        while let Some((_, path)) = lists.pop_first() {
            survey.unnamed.extend(walk(&texts, path, None, &mut lists, &mut unnamed)?);
        }
        survey.aside = aside(store)?;
        survey.files.iter().for_each(|path| hash(&mut unnamed, path.as_str()));
        survey.sessions(store, &mut named)?;
        survey.fingerprint = [named.finish().concat(), unnamed.finish().concat()];
        if let (Some(_), Some(lost)) = (&survey.guarded, survey.named.iter().find(|f| f.lost)) {
            return Err(Error::conflict(
                "the list is lost, and the shards of a writer at work cannot be told from those that were in it",
            )
            .at(store.locate(&lost.list.path))
            .remedy("wait until no writer is at work, then repair again"));
        }
        Ok(survey)
    }

    /// Every list file in the splits' directories, the highest first; shard files are kept.
    fn list_files(&mut self, store: &dyn Store) -> Result<Unvisited> {
        let suffix = format!(".{}", self.info.structure().file_type.as_str());
        let (mut lists, mut nested) = (BTreeSet::new(), Nested::default());
        for split in SPLITS {
            for entry in store.list(Some(&RelPath::parse(split)?))? {
                let path = entry?.path;
                nested.note(&path);
                if path.components().any(|name| name.starts_with('.')) {
                    // What file managers leave, and temporary files.
                } else if path.file_name() == LIST {
                    lists.insert((path.components().count(), path));
                } else if path.file_name().ends_with(&suffix) {
                    self.files.insert(path);
                }
            }
        }
        // What lies in other datasets is theirs.
        lists.retain(|(_, path)| !nested.holds(path));
        self.files.retain(|path| !nested.holds(path));
        Ok(lists)
    }

    /// What killed writers finished, and whether others are at work.
    fn sessions(&mut self, store: &dyn Store, hasher: &mut MultiHasher) -> Result<()> {
        if !store.capabilities().locks {
            self.guarded = Some("this store cannot tell whether their writer is still at work".into());
            return Ok(());
        }
        let mut alive = 0;
        let sessions = match progress::sessions(store) {
            // Where nothing can be written, nothing is repaired either; the plan can be looked at.
            Err(e) if matches!(e.code(), Code::ReadOnly | Code::Unsupported) => {
                self.guarded = Some("whether their writer is still at work cannot be seen from here".into());
                return Ok(());
            }
            other => other?,
        };
        for found in sessions {
            alive += u64::from(found.session.is_none());
            for (own, record) in found.records {
                hash(hasher, record.shard.path()?.as_str());
                self.recorded.push((own, record));
            }
        }
        if alive > 0 {
            self.guarded = Some(format!("{alive} of the dataset's writers are still at work, and they may be theirs"));
        }
        Ok(())
    }
}

/// The lists that were kept aside.
fn aside(store: &dyn Store) -> Result<Vec<ShardsList>> {
    let mut all = Vec::new();
    for entry in store.list_dir(Some(&RelPath::parse(".sigbank/lists")?))? {
        if let DirEntry::Object(entry) = entry {
            let text = store.get(&entry.path)?;
            let raw: Value = serde_json::from_slice(&text).unwrap_or_default();
            let path = raw.get("relative_path_self").and_then(Value::as_str).and_then(|p| RelPath::parse(p).ok());
            all.extend(path.and_then(|path| ShardsList::parse(&path, &text).ok()));
        }
    }
    Ok(all)
}

/// List files that no walk has come to, by depth and path.
type Unvisited = BTreeSet<(usize, RelPath)>;

fn hash(hasher: &mut MultiHasher, text: &str) {
    hasher.update(text.as_bytes());
    hasher.update(&[0]);
}

/// A list and those below it, in the order of their shards. Without a pointer, only lists that nobody has come to.
fn walk(
    texts: &Texts<'_>,
    path: RelPath,
    pointer: Option<ListRef>,
    unvisited: &mut Unvisited,
    hasher: &mut MultiHasher,
) -> Result<Vec<Found>> {
    let (named, top) = (pointer.is_some(), path.clone());
    let mut all = Vec::new();
    let mut pending = vec![(path, pointer)];
    while let Some((path, pointer)) = pending.pop() {
        unvisited.remove(&(path.components().count(), path.clone()));
        let (bytes, lies_there) = texts.get(&path, pointer.as_ref())?;
        hash(hasher, path.as_str());
        hash(hasher, &bytes.as_deref().map_or_else(String::new, |b| digest_all(&[Algorithm::Sha256], &[b]).concat()));
        let list = ShardsList::new(path.clone());
        let mut found = Found { list, bytes, wrong: None, lost: false, intact: false, told: None, top: top.clone() };
        match &found.bytes {
            None => (found.lost, found.wrong) = (true, Some("it is gone".into())),
            Some(bytes) => (found.list, found.wrong, found.lost) = salvage(&path, bytes)?,
        }
        found.intact = found.wrong.is_none() && lies_there;
        found.told = pointer.as_ref().filter(|_| found.wrong.is_some()).map(|p| (p.examples, p.shards));
        if !lies_there && found.wrong.is_none() {
            found.wrong = Some("a commit that was not finished left another text".into());
        }
        if let Some(pointer) = pointer.as_ref().filter(|_| found.wrong.is_none()) {
            found.wrong = wrong_pointer(texts, pointer, &found);
        }
        if let Some(told) = pointer.filter(|_| found.lost)
            && let Some(wrong) = &mut found.wrong
        {
            *wrong += &format!(" (it told of {} examples in {} shards)", told.examples, told.shards);
        }
        for child in found.list.children.iter().rev() {
            let path = &child.file.path;
            if named {
                pending.push((path.clone(), Some(child.clone())));
            } else if unvisited.contains(&(path.components().count(), path.clone())) {
                pending.push((path.clone(), None));
            }
        }
        all.push(found);
    }
    Ok(all)
}

/// What a pointer says that is not so.
fn wrong_pointer(texts: &Texts<'_>, pointer: &ListRef, found: &Found) -> Option<String> {
    let bytes = found.bytes.as_deref().unwrap_or_default();
    if let Err(e) = compare(&texts.algorithms, &pointer.file, &[bytes]) {
        return Some(format!("{}; it can be read, so it is taken as it stands", e.message()));
    }
    let (list, is) = ((pointer.examples, pointer.shards), (found.list.examples, found.list.count_shards()));
    let text = format!("its pointer tells of {} examples in {} shards, it holds {} in {}", list.0, list.1, is.0, is.1);
    (list != is).then_some(text)
}

/// As much of a list as can be read: the list, what is wrong with it, and whether nothing could be read.
fn salvage(path: &RelPath, bytes: &[u8]) -> Result<(ShardsList, Option<String>, bool)> {
    let (mut list, mut wrong) = match ShardsList::parse(path, bytes) {
        Ok(list) => (list, None),
        Err(e) => {
            match serde_json::from_slice::<Metadata>(bytes).ok().map(|raw| ShardsList::parse(path, &readable(path, raw)?)) {
                Some(Ok(list)) => (list, Some(e.message().to_owned())),
                Some(Err(_)) | None => return Ok((ShardsList::new(path.clone()), Some(e.message().to_owned()), true)),
            }
        }
    };
    let dir = path.parent();
    let mut seen = BTreeSet::new();
    let children = std::mem::take(&mut list.children);
    for child in children {
        let at = child.file.path.parent();
        let below = dir.as_ref().zip(at).is_some_and(|(dir, at)| at != *dir && at.strip_prefix(dir).is_some());
        if below && seen.insert(child.file.path.clone()) {
            list.children.push(child);
        } else {
            wrong = Some(format!("children_shard_lists: '{}' does not lie below the list, or stands twice", child.file.path));
        }
    }
    Ok((list, wrong, false))
}

/// The list's text with the entries that can be read and a count that fits them.
fn readable(path: &RelPath, mut raw: Metadata) -> Result<Vec<u8>> {
    let mut examples = 0u64;
    let mut kept = |key: &str, good: &dyn Fn(&Value) -> bool| {
        let all = raw.get(key).and_then(Value::as_array).into_iter().flatten();
        let all: Vec<Value> = all.filter(|v| good(v)).cloned().collect();
        let counts = all.iter().filter_map(|v| v.get("number_of_examples").and_then(Value::as_u64));
        examples = counts.fold(examples, u64::saturating_add);
        if raw.contains_key(key) {
            raw.insert(key.to_owned(), Value::Array(all));
        }
    };
    kept("shard_files", &|v| ShardInfo::parse(v).is_ok());
    kept("children_shard_lists", &|v| ListRef::parse(v).is_ok());
    raw.insert("number_of_examples".into(), examples.into());
    raw.insert("relative_path_self".into(), path.as_str().into());
    serde_json::to_vec(&raw).map_err(|e| Error::invalid(e.to_string()))
}
