//! What was made together: while somebody may be at work on a part of it, all of it is in use.

use super::{Object, OrphanKind};
use crate::error::{Code, Result};
use crate::layout::sedpack::ShardsList;
use crate::layout::sedpack::progress::{self, Session};
use crate::store::Store;
use crate::uri::RelPath;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Names of one writer's objects, those that are live among them.
struct Group {
    members: Vec<RelPath>,
    alive: bool,
}

/// Those of what nothing names that somebody may be at work on, and the sessions of dead writers, held so that nobody takes them over
/// meanwhile. What a session finished and is not listed, and what lists name that are not live, is added to `recoverable`.
pub(super) fn in_use(
    store: &dyn Store,
    left: &HashMap<RelPath, Object>,
    young: impl Fn(&Object) -> bool,
    recoverable: &mut HashSet<RelPath>,
) -> Result<(HashSet<RelPath>, Vec<Session>)> {
    let (mut groups, held) = sessions(store, left, recoverable)?;
    let mut lists = Vec::new();
    let mut directories: BTreeMap<RelPath, Vec<RelPath>> = BTreeMap::new();
    for (path, object) in left {
        match object.kind {
            OrphanKind::List | OrphanKind::ListAside => lists.push(listed(store, path)?),
            OrphanKind::Probe | OrphanKind::Journal | OrphanKind::Progress | OrphanKind::Shard | OrphanKind::OtherLayout => {}
        }
        if matches!(object.kind, OrphanKind::List | OrphanKind::Shard)
            && let Some(dir) = path.parent()
        {
            directories.entry(dir).or_default().push(path.clone());
        }
    }
    lead_to_shards(&lists, left, recoverable);
    groups.extend(lists);
    groups.extend(directories.into_values().map(|members| Group { members, alive: false }));

    let mut used: HashSet<RelPath> = left.iter().filter(|(_, object)| young(object)).map(|(path, _)| path.clone()).collect();
    loop {
        let before = groups.len();
        let (at_work, rest): (Vec<Group>, Vec<Group>) =
            groups.into_iter().partition(|group| group.alive || group.members.iter().any(|path| used.contains(path)));
        let known = at_work.into_iter().flat_map(|group| group.members).filter(|path| left.contains_key(path));
        used.extend(known);
        groups = rest;
        if groups.len() == before {
            return Ok((used, held));
        }
    }
}

/// Adds lists to `recoverable` that lead to shards which are there and not live, and these shards: who wrote the lists may have handed on where they are,
/// and a repair finds them. A list that leads to none is one that was superseded.
fn lead_to_shards(lists: &[Group], left: &HashMap<RelPath, Object>, recoverable: &mut HashSet<RelPath>) {
    let is_shard = |path: &&RelPath| left.get(*path).is_some_and(|object| object.kind == OrphanKind::Shard);
    let mut leading: HashSet<&RelPath> = HashSet::new();
    loop {
        let before = leading.len();
        for Group { members, .. } in lists {
            let Some((list, named)) = members.split_first() else { continue };
            if named.iter().any(|path| is_shard(&path) || leading.contains(path)) {
                leading.insert(list);
            }
        }
        if leading.len() == before {
            break;
        }
    }
    recoverable.extend(lists.iter().flat_map(|list| &list.members).filter(is_shard).cloned());
    recoverable.extend(leading.into_iter().cloned());
}

/// What each session that left records made.
fn sessions(
    store: &dyn Store,
    left: &HashMap<RelPath, Object>,
    recoverable: &mut HashSet<RelPath>,
) -> Result<(Vec<Group>, Vec<Session>)> {
    let mut pages: BTreeMap<String, Vec<RelPath>> = BTreeMap::new();
    for (path, _) in left.iter().filter(|(_, object)| object.kind == OrphanKind::Progress) {
        if let Some(id) = progress::session_of(path) {
            pages.entry(id.to_owned()).or_default().push(path.clone());
        }
    }
    let (mut groups, mut held) = (Vec::new(), Vec::new());
    for (id, mut members) in pages {
        let dead = progress::hold(store, &id)?;
        let alive = dead.is_none() && store.capabilities().locks;
        held.extend(dead);
        let records = progress::records(store, &members)?;
        let files = records.iter().flat_map(|record| &record.shard.files).map(|file| file.path.clone());
        let unlisted: Vec<RelPath> = files.filter(|path| left.contains_key(path)).collect();
        if !unlisted.is_empty() {
            recoverable.extend(members.iter().chain(&unlisted).cloned());
        }
        members.extend(unlisted);
        members.extend(records.into_iter().map(|record| record.list));
        groups.push(Group { members, alive });
    }
    Ok((groups, held))
}

/// A list, first, and what it names; of one that cannot be read, itself.
fn listed(store: &dyn Store, path: &RelPath) -> Result<Group> {
    let mut members = vec![path.clone()];
    let text = match store.get(path) {
        Ok(text) => text,
        Err(e) if e.code() == Code::NotFound => return Ok(Group { members, alive: false }),
        Err(e) => return Err(e),
    };
    let raw: Value = serde_json::from_slice(&text).unwrap_or_default();
    let said = raw.get("relative_path_self").and_then(Value::as_str).and_then(|said| RelPath::parse(said).ok());
    if let Some(list) = said.and_then(|said| ShardsList::parse(&said, &text).ok()) {
        members.extend(list.shards.into_iter().flat_map(|shard| shard.files).map(|file| file.path));
        members.extend(list.children.into_iter().map(|child| child.file.path));
    }
    Ok(Group { members, alive: false })
}
