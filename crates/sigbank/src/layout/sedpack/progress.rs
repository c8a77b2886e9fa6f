//! What a killed writer leaves for the next one: a small record for each shard it finished, a line of
//! `.sigbank/progress/<session>.jsonl`, or `<session>.<number>.json` where the store has no logs. Readers never look there. A
//! session is alive while its lock is held. Nothing is flushed: what a power failure leaves of a record or of its shard is
//! compared with checksums.
//!
//! Where the store has no locks, whether a writer is alive cannot be known. Its records lie in objects of some lines each, the newest of
//! which is written anew for every shard, and are taken over only by who is told to. If the writer lives after all, nothing is
//! there twice: its own commit finds its shards listed.

use super::lists::ShardInfo;
use crate::error::{Code, Error, Result};
use crate::store::{DirEntry, Expected, LockGuard, Log, Store};
use crate::uri::RelPath;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

const DIR: &str = ".sigbank/progress";
/// How the name of a file of many records ends.
const LINES: &str = ".jsonl";
/// Records in one object where it is written anew for each.
const PAGE: usize = 64;

/// One writer's session.
#[derive(Debug)]
pub(super) struct Session {
    id: String,
    alive: Option<LockGuard>,
    /// Where its records are appended; none where each is an object.
    log: Option<Box<dyn Log>>,
    /// The newest object of records, on a store without locks.
    page: Option<Mutex<Page>>,
}

#[derive(Debug, Default)]
struct Page {
    number: usize,
    lines: Vec<u8>,
    count: usize,
}

fn page_path(id: &str, number: usize) -> Result<RelPath> {
    RelPath::parse(DIR)?.join(&format!("{id}.{number:08}{LINES}"))
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
        if !store.capabilities().locks {
            return Ok(Self { id: id.to_owned(), alive: None, log: None, page: Some(Mutex::default()) });
        }
        let taken = || Error::conflict(format!("another writer has session {id}"));
        let alive = Some(store.try_lock(&lock_name(id))?.ok_or_else(taken)?);
        let log = store.create_log(&RelPath::parse(DIR)?.join(&format!("{id}{LINES}"))?)?;
        Ok(Self { id: id.to_owned(), alive, log, page: None })
    }

    /// Records a shard that was wholly written. `own` is the writer's path below the split, empty for the default.
    pub(super) fn record(&self, store: &dyn Store, number: usize, own: &str, list: &RelPath, shard: &ShardInfo) -> Result<()> {
        let record = json!({"number": number, "relative_path_from_split": own, "list": list.as_str(), "shard": shard.to_value()});
        if let Some(log) = &self.log {
            // A line of its own, also behind one that could not be written whole.
            return log.append(format!("\n{record}\n").as_bytes());
        }
        if let Some(page) = &self.page {
            let page = &mut *page.lock().unwrap_or_else(PoisonError::into_inner);
            if page.count == PAGE {
                *page = Page { number: page.number + 1, ..Page::default() };
            }
            page.lines.extend_from_slice(format!("{record}\n").as_bytes());
            page.count += 1;
            // One that fails is made good by the next. All that is lost otherwise is that nobody can take the shard over.
            let _ = store.replace(&page_path(&self.id, page.number)?, &[&page.lines], Expected::Any);
            return Ok(());
        }
        let name = format!("{}.{number:08}.json", self.id);
        store.create(&RelPath::parse(DIR)?.join(&name)?, &[record.to_string().as_bytes()])
    }

    /// Its name.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Removes the session's records: they are committed, or there are none.
    pub(super) fn end(self, store: &dyn Store) -> Result<()> {
        if let Some(page) = self.page {
            let page = page.into_inner().unwrap_or_else(PoisonError::into_inner);
            // Those that stay are of shards that are listed, and so do nothing.
            (0..page.number + usize::from(page.count > 0)).for_each(|number| {
                let _ = page_path(&self.id, number).and_then(|path| store.delete(&path));
            });
            return Ok(());
        }
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

/// The session that an object of records is of.
pub(super) fn session_of(path: &RelPath) -> Option<&str> {
    let id = path.strip_prefix(&RelPath::parse(DIR).ok()?).map(|_| path.file_name().split_once('.'))??.0;
    (!id.is_empty()).then_some(id)
}

/// A dead writer's session, held, so that nobody adopts it meanwhile; none where its writer lives, or where that cannot be known.
pub(super) fn hold(store: &dyn Store, id: &str) -> Result<Option<Session>> {
    if !store.capabilities().locks {
        return Ok(None);
    }
    match store.try_lock(&lock_name(id)) {
        Err(e) if matches!(e.code(), Code::ReadOnly | Code::Unsupported) => Ok(None),
        held => Ok(held?.map(|alive| Session { id: id.to_owned(), alive: Some(alive), log: None, page: None })),
    }
}

/// The records that these objects hold.
pub(super) fn records(store: &dyn Store, paths: &[RelPath]) -> Result<Vec<Record>> {
    Ok(read(store, paths)?.into_iter().map(|(_, record)| record).collect())
}

/// Reads records and the path of the writer that left each, in the order of their numbers. A torn one is none: its shard was
/// not flushed either.
fn read(store: &dyn Store, paths: &[RelPath]) -> Result<Vec<(String, Record)>> {
    let parse = |value: Value| {
        let own = value.get("relative_path_from_split")?.as_str()?.to_owned();
        let list = RelPath::parse(value.get("list")?.as_str()?).ok()?;
        let number = value.get("number").and_then(Value::as_u64);
        Some((number, own, Record { list, shard: ShardInfo::parse(value.get("shard")?).ok()? }))
    };
    let mut found = Vec::new();
    for path in paths {
        let bytes = match store.get(path) {
            Ok(bytes) => bytes,
            Err(e) if e.code() == Code::NotFound => continue,
            Err(e) => return Err(e),
        };
        let lines = path.file_name().ends_with(LINES);
        let texts = bytes.split(|&b| lines && b == b'\n').filter(|text| !text.is_empty());
        found.extend(texts.filter_map(|text| serde_json::from_slice(text).ok().and_then(parse)));
    }
    found.sort_by_key(|(number, ..)| *number);
    Ok(found.into_iter().map(|(_, own, record)| (own, record)).collect())
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
        let alive = store.try_lock(&lock_name(&id))?;
        let session = alive.map(|guard| Session { id, alive: Some(guard), log: None, page: None });
        paths.sort_unstable();
        let records = if session.is_some() { read(store, &paths)? } else { Vec::new() };
        all.push(Found { session, records });
    }
    Ok(all)
}

/// Sessions of writers of the path `own` on a store without locks, dead or alive, without those `except`; with the finished shards of
/// each.
pub(super) fn left(store: &dyn Store, own: &str, except: &[Session]) -> Result<Vec<(Session, Vec<Record>)>> {
    let mut by_session: BTreeMap<String, Vec<RelPath>> = BTreeMap::new();
    for (id, path) in entries(store)? {
        by_session.entry(id).or_default().push(path);
    }
    let mut all = Vec::new();
    for (id, paths) in by_session.into_iter().filter(|(id, _)| except.iter().all(|session| session.id != *id)) {
        let records = read(store, &paths)?.into_iter().filter(|(path, _)| path == own).map(|(_, record)| record);
        let records: Vec<Record> = records.collect();
        if !records.is_empty() {
            all.push((Session { id, alive: None, log: None, page: None }, records));
        }
    }
    Ok(all)
}

/// Sessions of dead writers of the path `own`, with the finished shards of each. While the sessions are held nobody else adopts
/// them.
pub(super) fn dead_sessions(store: &dyn Store, own: &str) -> Result<Vec<(Session, Vec<Record>)>> {
    if !store.capabilities().locks {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for found in sessions(store)? {
        let Some(session) = found.session else { continue };
        if found.records.is_empty() {
            // It died before its first shard was whole.
            session.end(store)?;
            continue;
        }
        let records: Vec<Record> = found.records.into_iter().filter(|(path, _)| path == own).map(|(_, r)| r).collect();
        if !records.is_empty() {
            all.push((session, records));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::sedpack::{FileInfo, local};
    use crate::store::{LocalStore, MemoryStore};

    fn shard(n: usize) -> ShardInfo {
        let path = RelPath::parse(&format!("train/d/{n}.fb")).unwrap();
        ShardInfo::new(FileInfo { path, checksums: vec![format!("{n:064x}")] }, 1, Default::default())
    }

    fn left(store: &dyn Store) -> Vec<RelPath> {
        store.list(Some(&RelPath::parse(DIR).unwrap())).unwrap().map(|e| e.unwrap().path).collect()
    }

    /// Records of two shards, the second one first.
    fn two(store: &dyn Store, id: &str) -> Session {
        let session = Session::begin(store, id).unwrap();
        for n in [1, 0] {
            session.record(store, n, "", &RelPath::parse("train/d/shards_list.json").unwrap(), &shard(n)).unwrap();
        }
        session
    }

    #[test]
    fn records_come_back_in_order_and_are_one_file_where_the_store_has_logs() {
        let dir = tempfile::tempdir().unwrap();
        let on_disk = local(LocalStore::open(dir.path()).unwrap()).unwrap();
        for (store, files) in [(&on_disk as &dyn Store, 1), (&MemoryStore::new(), 2)] {
            let session = two(store, "a");
            assert_eq!(left(store).len(), files);
            assert!(dead_sessions(store, "").unwrap().is_empty(), "its writer lives");
            drop(session);
            assert!(dead_sessions(store, "other").unwrap().is_empty());
            let (session, records) = dead_sessions(store, "").unwrap().remove(0);
            assert_eq!(records.iter().map(|r| r.shard.clone()).collect::<Vec<_>>(), [shard(0), shard(1)]);
            session.end(store).unwrap();
            assert!(left(store).is_empty());
        }
        assert!(dir.path().join(".sigbank/store").exists() && !dir.path().join(".sigbank/store/progress-a.lock").exists());
    }

    #[test]
    fn a_torn_record_is_none_wherever_it_was_cut() {
        let dir = tempfile::tempdir().unwrap();
        let store = local(LocalStore::open(dir.path()).unwrap().durable(false)).unwrap();
        drop(two(&store, "a"));
        let path = left(&store).remove(0);
        let whole = store.get(&path).unwrap();
        let second = whole.iter().rposition(|&b| b == b'{').unwrap_or(0).min(whole.len() / 2);
        for cut in second..whole.len() {
            // A kill ends the file there, a power failure may leave zeros, and a full disk a part before the next record.
            let mut zeros = whole[..cut].to_vec();
            zeros.resize(whole.len(), 0);
            let mut more = whole[..cut].to_vec();
            more.extend_from_slice(&whole);
            for (bytes, least) in [(&whole[..cut], 1), (&zeros, 1), (&more, 2)] {
                store.replace(&path, &[bytes], Expected::Any).unwrap();
                let (_, records) = dead_sessions(&store, "").unwrap().remove(0);
                let whole_line = usize::from(cut + 1 == whole.len());
                assert!(records.len() >= least && records.len() <= least + 1 + whole_line, "cut at {cut}: {}", records.len());
                assert!(records.iter().all(|r| r.shard == shard(0) || r.shard == shard(1)));
            }
        }
    }

    #[test]
    fn a_session_that_died_without_a_record_is_cleaned_away() {
        let dir = tempfile::tempdir().unwrap();
        let store = local(LocalStore::open(dir.path()).unwrap()).unwrap();
        let session = Session::begin(&store, "a").unwrap();
        assert!(dead_sessions(&store, "").unwrap().is_empty());
        assert_eq!(left(&store).len(), 1);
        drop(session);
        assert!(dead_sessions(&store, "").unwrap().is_empty());
        assert!(left(&store).is_empty());
    }
}
