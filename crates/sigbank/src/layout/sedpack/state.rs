//! One committed state of a dataset, and how a reader finds it while others write.

use super::info::{Info, ROOT};
use super::journal::Journal;
use super::lists::{FileInfo, ListRef, ShardsList};
use super::table::{Position, Table};
use crate::error::{Code, Error, Result};
use crate::store::{Store, Version};
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::checksum::{Algorithm, digest_all};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of lists that are kept.
const KEPT: usize = 64 << 20;

/// The root as it was read, and lists that an unfinished commit has not put in place yet.
#[derive(Debug)]
pub(super) struct State {
    pub(super) info: Info,
    pub(super) root: Bytes,
    pub(super) version: Version,
    overlay: HashMap<RelPath, Bytes>,
    /// Lists that were read, where reading one again costs a request; as many as [`KEPT`] bytes.
    texts: Mutex<(HashMap<RelPath, Bytes>, usize)>,
    tables: Mutex<HashMap<String, Arc<Table>>>,
    /// Where the last call of [`State::entries`] for a split ended.
    cursors: Mutex<HashMap<String, (u64, Position)>>,
}

impl State {
    /// Reads the root. With `journal`, an unfinished commit that starts from this root counts as done.
    pub(super) fn load(store: &dyn Store, allow_newer: bool, journal: Option<Journal>) -> Result<Self> {
        let path = RelPath::parse(ROOT)?;
        let (mut root, version) = store.get_versioned(&path).map_err(|e| match e.code() {
            Code::NotFound => Error::not_found("there is no Sedpack dataset here")
                .at(store.locate(&path))
                .remedy("check the path, or create the dataset"),
            _ => e,
        })?;
        let mut overlay = HashMap::new();
        if let Some(journal) = journal.filter(|j| j.starts_from(&root)) {
            (root, overlay) = journal.into_state();
        }
        let info = Info::parse(&root, allow_newer).map_err(|e| e.at(store.locate(&path)))?;
        Ok(Self { info, root, version, overlay, texts: Mutex::default(), tables: Mutex::default(), cursors: Mutex::default() })
    }

    /// The state after a commit that was begun on this one.
    pub(super) fn after(self, journal: Journal, allow_newer: bool) -> Result<Self> {
        let (root, overlay) = journal.into_state();
        let info = Info::parse(&root, allow_newer)?;
        Ok(Self {
            info,
            root,
            version: self.version,
            overlay,
            texts: Mutex::default(),
            tables: Mutex::default(),
            cursors: Mutex::default(),
        })
    }

    /// Whether it is a list that an unfinished commit has yet to put in place.
    pub(super) fn awaits(&self, path: &RelPath) -> bool {
        self.overlay.contains_key(path)
    }

    /// Whether the two show the same lists.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.root == other.root && self.overlay == other.overlay
    }

    /// The checksums of the root's bytes.
    pub(super) fn root_checksums(&self) -> Vec<String> {
        digest_all(&self.info.structure().algorithms, &[&self.root])
    }

    /// A list's text, compared with the first checksum that its pointer gives, which is enough to read by, or with all of them.
    ///
    /// # Errors
    /// `Corrupt` or `NotFound`, which may mean that the dataset has moved on: [`super::Dataset`] looks again before it
    /// says so.
    pub(super) fn list_text(&self, store: &dyn Store, pointer: &ListRef, all: bool) -> Result<Bytes> {
        let path = &pointer.file.path;
        let texts = || self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.overlay.get(path).cloned().or_else(|| texts().0.get(path).cloned());
        let new = known.is_none() && store.capabilities().round_trip > 0;
        let bytes = known.map_or_else(|| store.get(path), Ok)?;
        let algorithms = self.info.structure().algorithms.as_slice();
        compare(if all { algorithms } else { algorithms.get(..1).unwrap_or_default() }, &pointer.file, &[&bytes])
            .map_err(|e| e.at(store.locate(path)))?;
        if new {
            let mut texts = texts();
            if texts.1 + bytes.len() <= KEPT {
                texts.1 += bytes.len();
                texts.0.insert(path.clone(), bytes.clone());
            }
        }
        Ok(bytes)
    }

    /// A list with all that stands in it; errors as [`State::list_text`].
    pub(super) fn list(&self, store: &dyn Store, pointer: &ListRef) -> Result<ShardsList> {
        let path = &pointer.file.path;
        let parse = |bytes: Bytes| {
            let list = ShardsList::parse(path, &bytes)?;
            pointer.agrees(list.examples, list.count_shards())?;
            Ok(list)
        };
        parse(self.list_text(store, pointer, false)?).map_err(|e: Error| e.at(store.locate(path)))
    }

    /// As [`State::list`] for what lies there, with its bytes and their version.
    pub(super) fn list_versioned(&self, store: &dyn Store, pointer: &ListRef) -> Result<(ShardsList, Bytes, Version)> {
        let path = &pointer.file.path;
        let (bytes, version) = store.get_versioned(path)?;
        let parse = || {
            compare(self.info.structure().algorithms.get(..1).unwrap_or_default(), &pointer.file, &[&bytes])?;
            let list = ShardsList::parse(path, &bytes)?;
            pointer.agrees(list.examples, list.count_shards())?;
            Ok(list)
        };
        let list = parse().map_err(|e: Error| e.at(store.locate(path)))?;
        Ok((list, bytes, version))
    }

    fn top(&self, store: &dyn Store, split: &str) -> Result<&ListRef> {
        self.info.split(split).ok_or_else(|| {
            let names: Vec<_> = self.info.splits().iter().map(|(name, _)| name.as_str()).collect();
            Error::not_found(format!(
                "the dataset has no split '{split}'; it has: {}",
                if names.is_empty() { "none".into() } else { names.join(", ") }
            ))
            .at(store.location())
        })
    }

    /// What `each` makes of the entries of a split's shards, from the `start`-th to before the `stop`-th. Whoever goes on where
    /// the last call ended reads no list again.
    pub(super) fn entries<T>(
        &self,
        store: &dyn Store,
        split: &str,
        (start, stop): (u64, u64),
        each: impl Fn(&str) -> Result<T>,
    ) -> Result<Vec<T>> {
        let top = self.top(store, split)?;
        let cursors = || self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cursors().remove(split).filter(|(at, _)| *at == start);
        let mut position = known.map_or_else(|| Position::new(top, start), |(_, position)| position);
        let (mut at, mut found) = (start, Vec::new());
        while at < stop
            && let Some(text) = position.next(self, store)?
        {
            found.push(each(text)?);
            at += 1;
        }
        if at < top.shards {
            cursors().insert(split.to_owned(), (at, position));
        }
        Ok(found)
    }

    /// The shards of one split as columns; read once.
    pub(super) fn table(&self, store: &dyn Store, split: &str) -> Result<Arc<Table>> {
        let known = |tables: &HashMap<String, Arc<Table>>| tables.get(split).cloned();
        if let Some(table) = known(&self.tables.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(table);
        }
        let pointer = self.top(store, split)?;
        let table = Arc::new(Table::read(self, store, pointer)?);
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).insert(split.to_owned(), table.clone());
        Ok(table)
    }
}

/// Compares bytes with the checksums given for them; as many algorithms as are asked for, in the dataset's order.
pub(super) fn compare(algorithms: &[Algorithm], file: &FileInfo, parts: &[&[u8]]) -> Result<()> {
    compare_digests(algorithms, file, &digest_all(algorithms, parts))
}

/// As [`compare`], for checksums already made.
pub(super) fn compare_digests(algorithms: &[Algorithm], file: &FileInfo, found: &[String]) -> Result<()> {
    for (i, (algorithm, found)) in algorithms.iter().zip(found).enumerate() {
        match file.checksums.get(i) {
            Some(expected) if expected == found => {}
            Some(expected) => {
                return Err(Error::corrupt(format!("{} {expected} is expected, found {found}", algorithm.as_str()))
                    .remedy("the file was changed or damaged: fetch it again, or restore it from a copy"));
            }
            None => return Err(Error::corrupt(format!("no {} checksum is given for it", algorithm.as_str()))),
        }
    }
    Ok(())
}
