//! What a killed writer leaves for the next one: a small record for each shard it finished,
//! `.sigbank/progress/<session>.<number>.json`. Readers never look there. A session is alive while its lock is held.

use super::lists::ShardInfo;
use crate::error::{Code, Error, Result};
use crate::store::{DirEntry, LockGuard, Store};
use crate::uri::RelPath;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const DIR: &str = ".sigbank/progress";

/// One writer's session.
#[derive(Debug)]
pub(super) struct Session {
    id: String,
    alive: Option<LockGuard>,
}

/// A finished shard and the list it belongs into.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) list: RelPath,
    pub(super) shard: ShardInfo,
}

fn lock_name(id: &str) -> String {
    format!("progress-{id}")
}

impl Session {
    /// Begins a session of this name; its lock is held until it is dropped.
    pub(super) fn begin(store: &dyn Store, id: &str) -> Result<Self> {
        let alive = if store.capabilities().locks {
            Some(store.try_lock(&lock_name(id))?.ok_or_else(|| Error::conflict(format!("another writer has session {id}")))?)
        } else {
            None
        };
        Ok(Self { id: id.to_owned(), alive })
    }

    /// Records a shard that was wholly written. `own` is the writer's path below the split, empty for the default.
    pub(super) fn record(&self, store: &dyn Store, number: usize, own: &str, list: &RelPath, shard: &ShardInfo) -> Result<()> {
        let record = json!({"relative_path_from_split": own, "list": list.as_str(), "shard": shard.to_value()});
        let name = format!("{}.{number:08}.json", self.id);
        store.create(&RelPath::parse(DIR)?.join(&name)?, &[record.to_string().as_bytes()])
    }

    /// Removes the session's records: they are committed, or there are none.
    pub(super) fn end(self, store: &dyn Store) -> Result<()> {
        for (id, path) in entries(store)? {
            if id == self.id {
                store.delete(&path)?;
            }
        }
        self.alive.into_iter().for_each(LockGuard::retire);
        Ok(())
    }
}

/// Every record that lies there, with its session.
fn entries(store: &dyn Store) -> Result<Vec<(String, RelPath)>> {
    let mut found = Vec::new();
    for entry in store.list_dir(Some(&RelPath::parse(DIR)?))? {
        if let DirEntry::Object(entry) = entry
            && let Some((id, _)) = entry.path.file_name().split_once('.')
            && !id.is_empty()
        {
            found.push((id.to_owned(), entry.path));
        }
    }
    Ok(found)
}

/// Reads a record and the path of the writer that left it. A torn one is none: its shard was not flushed either.
fn read(store: &dyn Store, path: &RelPath) -> Result<Option<(String, Record)>> {
    let parse = |value: Value| {
        let own = value.get("relative_path_from_split")?.as_str()?.to_owned();
        let list = RelPath::parse(value.get("list")?.as_str()?).ok()?;
        Some((own, Record { list, shard: ShardInfo::parse(value.get("shard")?).ok()? }))
    };
    match store.get(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok().and_then(parse)),
        Err(e) if e.code() == Code::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// A session that left records.
pub(super) struct Found {
    /// The session itself, held, where its writer is dead; none where that lives.
    pub(super) session: Option<Session>,
    /// What a dead one left: each record with the path of its writer.
    pub(super) records: Vec<(String, Record)>,
}

/// Every session that left records. While the dead ones are held nobody else adopts them.
pub(super) fn sessions(store: &dyn Store) -> Result<Vec<Found>> {
    let mut by_session: BTreeMap<String, Vec<RelPath>> = BTreeMap::new();
    for (id, path) in entries(store)? {
        by_session.entry(id).or_default().push(path);
    }
    let mut all = Vec::new();
    for (id, mut paths) in by_session {
        let mut records = Vec::new();
        let session = store.try_lock(&lock_name(&id))?.map(|guard| Session { id, alive: Some(guard) });
        if session.is_some() {
            paths.sort_unstable();
            for path in &paths {
                records.extend(read(store, path)?);
            }
        }
        all.push(Found { session, records });
    }
    Ok(all)
}

/// Sessions of dead writers of the path `own`, with the finished shards of each. While the sessions are held nobody else adopts
/// them.
pub(super) fn dead_sessions(store: &dyn Store, own: &str) -> Result<Vec<(Session, Vec<Record>)>> {
    if !store.capabilities().locks {
        return Ok(Vec::new());
    }
    let of_own = |found: Found| {
        let records: Vec<Record> = found.records.into_iter().filter(|(path, _)| path == own).map(|(_, r)| r).collect();
        found.session.filter(|_| !records.is_empty()).map(|session| (session, records))
    };
    Ok(sessions(store)?.into_iter().filter_map(of_own).collect())
}
