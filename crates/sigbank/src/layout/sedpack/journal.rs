//! The journal of a commit. Lists have fixed names and are rewritten in place, so whoever is killed between two of them
//! leaves some that the root does not name. Before the first one is touched, everything that will be written lies in the
//! journal: the next writer (or `check`) finishes the work, and a reader takes it as done.

use super::info::ROOT;
use super::lists::pretty;
use super::state::State;
use super::table::Walk;
use crate::error::{Code, Error, Result};
use crate::store::{Expected, Store};
use crate::uri::RelPath;
use bytes::Bytes;
use serde_json::{Value, json};
use sigbank_format::checksum::{Algorithm, digest_all};
use sigbank_format::model::Metadata;
use std::collections::HashMap;

const FORMAT: &str = "sigbank.sedpack.journal";

/// A commit that was begun.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Journal {
    /// SHA-256 of the root that it starts from.
    old_root: String,
    /// The new root.
    pub(super) root: String,
    /// Every list that changes, with its new text, deepest first.
    pub(super) lists: Vec<(RelPath, String)>,
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    digest_all(&[Algorithm::Sha256], &[bytes]).concat()
}

pub(super) fn place() -> Result<RelPath> {
    RelPath::parse(".sigbank/journal.json")
}

fn as_text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|e| Error::corrupt(e.to_string()))
}

impl Journal {
    /// A commit from one root to another.
    pub(super) fn new(old_root: &[u8], root: Vec<u8>, lists: Vec<(RelPath, Vec<u8>)>) -> Result<Self> {
        let lists = lists.into_iter().map(|(path, bytes)| Ok((path, as_text(bytes)?))).collect::<Result<_>>()?;
        Ok(Self { old_root: sha256(old_root), root: as_text(root)?, lists })
    }

    /// Whether it starts from this root.
    pub(super) fn starts_from(&self, root: &[u8]) -> bool {
        self.old_root == sha256(root)
    }

    /// The new root and lists.
    pub(super) fn into_state(self) -> (Bytes, HashMap<RelPath, Bytes>) {
        let lists = self.lists.into_iter().map(|(path, text)| (path, Bytes::from(text.into_bytes())));
        (Bytes::from(self.root.into_bytes()), lists.collect())
    }

    fn body(&self) -> Metadata {
        let lists: Vec<Value> = self.lists.iter().map(|(path, text)| json!({"path": path.as_str(), "text": text})).collect();
        let mut body = Metadata::new();
        body.insert("format".into(), FORMAT.into());
        body.insert("old_root".into(), self.old_root.as_str().into());
        body.insert("root".into(), self.root.as_str().into());
        body.insert("lists".into(), lists.into());
        body
    }

    /// Its text, with a checksum.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut body = self.body();
        let digest = sha256(&pretty(&body)?);
        body.insert("sha256".into(), digest.into());
        pretty(&body)
    }

    /// Puts it down, create-only: there is never more than one.
    pub(super) fn write(&self, store: &dyn Store, durable: bool) -> Result<()> {
        store.create(&place()?, &[&self.to_bytes()?])?;
        if durable { store.flush(&[place()?]) } else { Ok(()) }
    }

    /// The journal that lies there. A torn one is none: it was not flushed yet, so no list was touched.
    pub(super) fn read(store: &dyn Store) -> Result<Option<Self>> {
        let bytes = match store.get(&place()?) {
            Ok(bytes) => bytes,
            Err(e) if e.code() == Code::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        Ok(Self::parse(&bytes))
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut body: Metadata = serde_json::from_slice(bytes).ok()?;
        let digest = body.remove("sha256")?;
        if digest.as_str()? != sha256(&pretty(&body).ok()?) || body.get("format")?.as_str()? != FORMAT {
            return None;
        }
        let text = |v: Option<&Value>| Some(v?.as_str()?.to_owned());
        let one = |v: &Value| Some((RelPath::parse(v.get("path")?.as_str()?).ok()?, text(v.get("text"))?));
        let lists = body.get("lists")?.as_array()?.iter().map(one).collect::<Option<_>>()?;
        Some(Self { old_root: text(body.get("old_root"))?, root: text(body.get("root"))?, lists })
    }

    /// Writes the lists, then the root in the place of `expected`, then removes the journal.
    pub(super) fn apply(&self, store: &dyn Store, expected: Expected<'_>, durable: bool) -> Result<()> {
        let root = RelPath::parse(ROOT)?;
        for (path, text) in &self.lists {
            match store.create(path, &[text.as_bytes()]) {
                // A replacement is flushed by itself, a new list with the others.
                Err(e) if e.code() == Code::AlreadyExists => drop(store.replace(path, &[text.as_bytes()], Expected::Any)?),
                done => done?,
            }
        }
        if durable {
            let paths: Vec<RelPath> = self.lists.iter().map(|(path, _)| path.clone()).collect();
            store.flush(&paths)?;
        }
        store.replace(&root, &[self.root.as_bytes()], expected)?;
        if durable {
            store.flush(std::slice::from_ref(&root))?;
        }
        remove(store)
    }
}

fn remove(store: &dyn Store) -> Result<()> {
    store.delete(&place()?)
}

/// Finishes a commit that was begun and not ended. The caller holds the root's lock. Says whether there was one.
///
/// # Errors
/// `Corrupt` where the root is neither the commit's old one nor its new one (another program wrote it) and the lists do not
/// fit it.
pub(super) fn recover(store: &dyn Store, durable: bool) -> Result<bool> {
    if !crate::store::exists(store, &place()?)? {
        return Ok(false);
    }
    let Some(journal) = Journal::read(store)? else {
        remove(store)?;
        return Ok(true);
    };
    let (root, version) = store.get_versioned(&RelPath::parse(ROOT)?)?;
    if journal.starts_from(&root) || root == journal.root.as_bytes() {
        journal.apply(store, Expected::Version(&version), durable)?;
        return Ok(true);
    }
    let state = State::load(store, true, None)?;
    for (_, top) in state.info.splits() {
        for shard in Walk::new(&state, store, top, 0) {
            shard.map_err(|e| e.within("another program wrote the root while a commit of sigbank was unfinished"))?;
        }
    }
    remove(store)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text).unwrap()
    }

    fn begun() -> (MemoryStore, Journal) {
        let store = MemoryStore::new();
        store.create(&path(ROOT), &[b"{}"]).unwrap();
        let lists = vec![(path("train/shards_list.json"), b"new".to_vec())];
        (store, Journal::new(b"{}", b"{\"splits\": {}}".to_vec(), lists).unwrap())
    }

    #[test]
    fn a_begun_commit_is_finished() {
        let (store, journal) = begun();
        journal.write(&store, true).unwrap();
        assert_eq!(Journal::read(&store).unwrap().as_ref(), Some(&journal));
        assert!(recover(&store, true).unwrap());
        assert_eq!(&store.get(&path("train/shards_list.json")).unwrap()[..], b"new");
        assert_eq!(&store.get(&path(ROOT)).unwrap()[..], b"{\"splits\": {}}");
        assert!(!recover(&store, true).unwrap());
    }

    #[test]
    fn a_torn_journal_is_dropped() {
        let (store, journal) = begun();
        journal.write(&store, true).unwrap();
        let bytes = store.get(&place().unwrap()).unwrap();
        for cut in 0..bytes.len() {
            assert_eq!(Journal::parse(&bytes[..cut]), None);
        }
        store.replace(&place().unwrap(), &[&bytes[..bytes.len() / 2]], Expected::Any).unwrap();
        assert!(recover(&store, true).unwrap());
        assert_eq!(&store.get(&path(ROOT)).unwrap()[..], b"{}");
        assert!(store.get(&path("train/shards_list.json")).is_err());
    }

    #[test]
    fn a_root_of_others_wins_when_the_lists_fit_it() {
        let (store, journal) = begun();
        journal.write(&store, true).unwrap();
        store.replace(&path(ROOT), &[b"{\"metadata\": {}}"], Expected::Any).unwrap();
        assert!(recover(&store, true).unwrap());
        assert_eq!(&store.get(&path(ROOT)).unwrap()[..], b"{\"metadata\": {}}");
        assert!(store.get(&path("train/shards_list.json")).is_err());
    }
}
