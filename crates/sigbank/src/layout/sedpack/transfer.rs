//! Taking over whole shards of other datasets, byte by byte.

use super::lists::{FileInfo, LIST, ShardInfo};
use super::reader::{ALL, Whole, open};
use super::relist::Tree;
use super::state::compare_digests;
use super::{Dataset, Info, OpenOptions, ROOT, check};
use crate::error::{Code, Error, Result};
use crate::layout::Source;
use crate::store::{LocalStore, Store, StoreFile, exists};
use crate::uri::RelPath;
use serde_json::{Value, json};
use sigbank_format::checksum::MultiHasher;
use sigbank_format::model::Metadata;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

const CHUNK: usize = 1 << 20;
/// A shard up to this size is fetched once, to be looked at and copied, where a request costs time.
const FETCHED: u64 = 32 << 20;

/// Where a shard comes from: the number of its dataset, and its split there. The shards of one origin keep the directories that they
/// share.
pub type Origin = (usize, String);

/// A dataset that is put together from whole shards of others. It has no root, and so is none, before [`Assembly::finish`].
///
/// ```
/// # use sigbank::layout::sedpack::{Assembly, Dataset, FillerOptions, Info};
/// # use sigbank::layout::Source;
/// # let dir = tempfile::tempdir()?;
/// # let structure = serde_json::json!({"saved_data_description": [{"name": "x", "dtype": "uint8", "shape": [1]}]});
/// # let info = Info::new(Default::default(), structure.as_object().cloned().unwrap_or_default())?;
/// # let from = Dataset::create(&dir.path().join("from"), info)?;
/// # let mut filler = from.filler(FillerOptions::default())?;
/// # filler.append("train", &[&[7]], None)?;
/// # filler.finish()?;
/// let mut assembly = Assembly::create(&dir.path().join("to"), &from.info())?;
/// for shard in from.shard_infos("train", 0, u64::MAX)? {
///     assembly.copy(&from, &(0, "train".into()), &shard, "test")?;
/// }
/// let to = assembly.finish()?;
/// assert_eq!(to.units("test")?.records(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Assembly {
    store: Arc<dyn Store>,
    info: Info,
    tree: Tree,
    files: Vec<RelPath>,
    /// Whose a directory of a split is.
    taken: HashMap<(String, String), Origin>,
    /// The name that an origin's directory has in a split.
    renamed: HashMap<(Origin, String, String), String>,
    buffer: Vec<u8>,
    bytes: u64,
}

impl Assembly {
    /// Begins one in a directory that holds none, with the metadata and the structure of `info`, unknown keys included.
    ///
    /// # Errors
    /// `ReadOnly` or `Storage` where nothing can be written.
    pub fn create(root: &Path, info: &Info) -> Result<Self> {
        Self::create_store(Arc::new(LocalStore::create(root)?), info)
    }

    /// As [`Assembly::create`], in a store.
    ///
    /// # Errors
    /// `Invalid` for an info that cannot be written.
    pub fn create_store(store: Arc<dyn Store>, info: &Info) -> Result<Self> {
        Ok(Self {
            store,
            info: without_splits(info)?,
            tree: Tree::default(),
            files: Vec::new(),
            taken: HashMap::new(),
            renamed: HashMap::new(),
            buffer: vec![0; CHUNK],
            bytes: 0,
        })
    }

    /// Makes sure that there is such a split, be it an empty one. Splits stand in the order in which they are first named.
    ///
    /// # Errors
    /// `Invalid` for a split that Sedpack does not have.
    pub fn split(&mut self, name: &str) -> Result<()> {
        super::info::known_split(name)?;
        self.tree.reach(&RelPath::parse(name)?.join(LIST)?, &|_| None).map(|_| ())
    }

    /// Bytes of the shards that were copied so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Directories that have another name than where they come from, because two of one name would have met.
    pub fn renamed(&self) -> u64 {
        self.renamed.iter().filter(|((_, _, from), to)| from != *to).count() as u64
    }

    /// Copies one shard to the end of a split, and compares it with its checksums and its count on the way. Custom metadata and unknown
    /// keys are kept.
    ///
    /// # Errors
    /// `Corrupt` or `NotFound` names the file that is not as its list says; `Invalid` for a split that Sedpack does not have.
    pub fn copy(&mut self, from: &Dataset, origin: &Origin, shard: &ShardInfo, split: &str) -> Result<()> {
        super::info::known_split(split)?;
        let path = shard.path()?.clone();
        // Where a request costs time the shard is fetched once, if it is not too large.
        let file = open(from.store(), &path, ALL, None).map_err(unreadable)?;
        let far = from.round_trip() > 0 && file.size() <= FETCHED;
        let mut first = Some(if far { Whole::fetch(file)? } else { file });
        if let Some(file) = &first {
            from.inner.reader.probe(file.clone(), shard.examples).map_err(|e| e.at(from.store().locate(&path)))?;
        }
        let mut raw = shard.to_value();
        let mut files = raw.get_mut("file_infos").and_then(Value::as_array_mut).into_iter().flatten();
        let mut list = None;
        for file in &shard.files {
            let to = self.place(origin, &file.path, split)?;
            self.copy_file(from, first.take(), file, &to)?;
            if let Some(object) = files.next().and_then(Value::as_object_mut) {
                object.insert("file_path".into(), to.as_str().into());
            }
            list = list.or(to.parent());
            self.files.push(to);
        }
        let list = list.ok_or_else(|| Error::corrupt("a shard without a file"))?.join(LIST)?;
        self.tree.add(&list, ShardInfo::parse(&raw)?, &|_| None)?;
        Ok(())
    }

    /// Where a file goes: the directories below its split stay, but for a first one that another origin has too.
    fn place(&mut self, origin: &Origin, path: &RelPath, split: &str) -> Result<RelPath> {
        let below = path.as_str().split_once('/').map_or(path.as_str(), |(_, below)| below);
        let (first, rest) = below.split_once('/').unwrap_or(("", below));
        let key = (origin.clone(), split.to_owned(), first.to_owned());
        let name = match self.renamed.get(&key) {
            Some(name) => name.clone(),
            None => {
                let others = |name: &str| self.taken.get(&(split.to_owned(), name.to_owned())).is_some_and(|o| o != origin);
                // What lies in the split's own directory comes before all that lies deeper.
                let meets = match first {
                    "" => self.taken.iter().any(|((of, _), o)| of == split && o != origin),
                    name => others(name),
                };
                let mut name = if meets { uuid::Uuid::new_v4().simple().to_string() } else { first.to_owned() };
                if meets {
                    name.truncate(10);
                }
                self.taken.insert((split.to_owned(), name.clone()), origin.clone());
                self.renamed.insert(key, name.clone());
                name
            }
        };
        let split = RelPath::parse(split)?;
        if name.is_empty() { split.join(rest) } else { split.join(&name)?.join(rest) }
    }

    fn copy_file(&mut self, from: &Dataset, file: Option<Arc<dyn StoreFile>>, info: &FileInfo, to: &RelPath) -> Result<()> {
        let store = from.store();
        let file = match file {
            Some(file) => file,
            None => open(store, &info.path, ALL, None).map_err(unreadable)?,
        };
        if self.is_there(&*file, info, to)? {
            self.bytes += file.size();
            return Ok(());
        }
        let algorithms = &self.info.structure().algorithms;
        let mut hasher = MultiHasher::new(algorithms);
        let mut new = self.store.write_new(to)?;
        let (size, mut stream) = (file.size(), file.stream());
        let mut at = 0;
        while at < size {
            let n = (size - at).min(self.buffer.len() as u64);
            let part = self.buffer.get_mut(..n as usize).unwrap_or_default();
            stream.read_exact(part).map_err(|e| Error::from(e).at(store.locate(&info.path)))?;
            hasher.update(part);
            new.write_all(part).map_err(|e| Error::from(e).at(self.store.locate(to)))?;
            at += n;
        }
        compare_digests(algorithms, info, &hasher.finish()).map_err(|e| e.at(store.locate(&info.path)))?;
        self.bytes += at;
        new.commit().map_err(|e| match e.code() {
            Code::AlreadyExists => e.remedy("another run copies to the same destination: let one of them end"),
            _ => e,
        })
    }

    /// Whether an earlier run, which was interrupted, has copied the file to a bucket already.
    fn is_there(&self, file: &dyn StoreFile, info: &FileInfo, to: &RelPath) -> Result<bool> {
        if self.store.capabilities().round_trip == 0 || !exists(&*self.store, to)? {
            return Ok(false);
        }
        let other = |found: String| {
            Error::already_exists(format!("another file of this name is there: {found}"))
                .at(self.store.locate(to))
                .remedy("choose another destination, or remove what lies there")
        };
        let there = open(&*self.store, to, ALL, None)?;
        if there.size() != file.size() {
            return Err(other(format!("it has {} bytes, not {}", there.size(), file.size())));
        }
        let algorithms = &self.info.structure().algorithms;
        let mut hasher = MultiHasher::new(algorithms);
        let mut stream = there.stream();
        let mut part = vec![0; CHUNK];
        loop {
            match stream.read(&mut part).map_err(|e| Error::from(e).at(self.store.locate(to)))? {
                0 => break,
                n => hasher.update(part.get(..n).unwrap_or_default()),
            }
        }
        compare_digests(algorithms, info, &hasher.finish()).map_err(|e| other(e.message().to_owned()))?;
        Ok(true)
    }

    /// Writes the lists and, when all that they name survives a power failure, the root.
    ///
    /// # Errors
    /// `Storage` where that is not possible; there is no dataset then.
    pub fn finish(self) -> Result<Dataset> {
        let Self { store, mut info, tree, mut files, .. } = self;
        let (lists, tops) = tree.render(&info.structure().algorithms, &|_| None)?;
        for (path, text) in lists {
            store.create(&path, &[&text])?;
            files.push(path);
        }
        store.flush(&files)?;
        for top in tops {
            let split = super::relist::split_of(&top.file.path).to_owned();
            info.set_split(&split, top);
        }
        let root = RelPath::parse(ROOT)?;
        store.create(&root, &[&info.to_bytes()?])?;
        store.flush(&[root])?;
        Dataset::open_store(store, OpenOptions { allow_newer: true })
    }
}

/// What to do about a shard that is gone or damaged; what the storage says of itself stays.
fn unreadable(e: Error) -> Error {
    match e.code() {
        Code::NotFound | Code::Corrupt => {
            e.remedy("the shard is listed but cannot be read: see what a repair would do, sigbank check --repair --dry-run")
        }
        _ => e,
    }
}

/// The same root without splits.
fn without_splits(info: &Info) -> Result<Info> {
    let mut document: Metadata =
        serde_json::from_slice(&info.to_bytes()?).map_err(|e| Error::invalid(format!("cannot be read again: {e}")))?;
    document.insert("splits".into(), json!({}));
    Info::parse(&super::lists::pretty(&document)?, true)
}

impl Dataset {
    /// Creates an empty dataset in a directory with the metadata and the structure of `info`, unknown keys and the version that it
    /// carries included.
    ///
    /// # Errors
    /// As [`Dataset::create`].
    pub fn create_like(root: &Path, info: &Info) -> Result<Self> {
        Self::create(root, without_splits(info)?)
    }

    /// Compares every file of a shard with its checksums, and the records in it with its entry; gives the bytes that were read.
    ///
    /// # Errors
    /// `Corrupt` or `NotFound` names the file.
    pub fn verify_shard(&self, shard: &ShardInfo) -> Result<u64> {
        let mut buffer = vec![0; CHUNK];
        check::shard_ok(self.store(), &self.info().structure().algorithms, &self.inner.reader, shard, &mut buffer)
    }
}
