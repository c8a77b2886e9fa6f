//! `shards_list.json`: the shards of one directory and the lists of the directories below it.

pub(super) mod scan;

use crate::error::{Error, Result};
use crate::uri::RelPath;
use serde_json::Value;
use sigbank_format::model::Metadata;

/// The name of every shards list.
pub const LIST: &str = "shards_list.json";

/// A file of the dataset and its checksums, in the order of the structure's algorithms.
#[derive(Debug, Clone, PartialEq)]
pub struct FileInfo {
    /// Its path below the dataset's root.
    pub path: RelPath,
    /// Lower-case hex digests.
    pub checksums: Vec<String>,
}

/// What a list says of one shard.
#[derive(Debug, Clone)]
pub struct ShardInfo {
    /// Its files; the first one holds the records.
    pub files: Vec<FileInfo>,
    /// Records in it.
    pub examples: u64,
    /// What its records share.
    pub metadata: Metadata,
    raw: Raw,
}

/// Everything that stands in a shard's entry, unknown keys included.
#[derive(Debug, Clone)]
enum Raw {
    /// What the fields say.
    Fields,
    /// A JSON object.
    Text(Box<str>),
    Object(Metadata),
}

/// A pointer to a list, with what is below it.
#[derive(Debug, Clone, PartialEq)]
pub struct ListRef {
    /// The list.
    pub file: FileInfo,
    /// Records below it.
    pub examples: u64,
    /// Shards below it.
    pub shards: u64,
    raw: Metadata,
}

/// One `shards_list.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardsList {
    /// Where it is.
    pub path: RelPath,
    /// Records in its shards and below it.
    pub examples: u64,
    /// The shards of this directory, in order.
    pub shards: Vec<ShardInfo>,
    /// The lists of the directories below, in order; their records follow those of `shards`.
    pub children: Vec<ListRef>,
    raw: Metadata,
}

/// An object as the reference writes JSON: two spaces, no final line feed.
pub(super) fn pretty(object: &Metadata) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(object).map_err(|e| Error::invalid(format!("cannot be written as JSON: {e}")))
}

/// Nesting that metadata may have: what is written must be readable again, also inside the lists.
const DEEPEST: usize = 100;

/// Refuses metadata that a reader could not parse.
pub(super) fn not_too_deep(metadata: &Metadata, what: &str) -> Result<()> {
    fn depth(value: &Value, left: usize) -> bool {
        left > 0
            && match value {
                Value::Array(all) => all.iter().all(|v| depth(v, left - 1)),
                Value::Object(all) => all.values().all(|v| depth(v, left - 1)),
                _ => true,
            }
    }
    match metadata.iter().find(|(_, v)| !depth(v, DEEPEST)) {
        Some((key, _)) => Err(Error::invalid(format!("{what}: '{key}' is nested more than {DEEPEST} deep"))
            .remedy("store it as text, or flatten it")),
        None => Ok(()),
    }
}

fn as_object<'a>(value: &'a Value, what: &str) -> Result<&'a Metadata> {
    value.as_object().ok_or_else(|| Error::corrupt(format!("{what}: an object is expected, found {value}")))
}

fn as_list<'a>(object: &'a Metadata, key: &str) -> Result<&'a [Value]> {
    match object.get(key) {
        None => Ok(&[]),
        Some(v) => Ok(v.as_array().ok_or_else(|| Error::corrupt(format!("{key}: a list is expected, found {v}")))?.as_slice()),
    }
}

fn count(object: &Metadata, key: &str) -> Result<u64> {
    match object.get(key) {
        None => Ok(0),
        Some(v) => v.as_u64().ok_or_else(|| Error::corrupt(format!("{key}: a count is expected, found {v}"))),
    }
}

fn path(object: &Metadata, key: &str) -> Result<RelPath> {
    match object.get(key) {
        Some(Value::String(s)) => RelPath::parse(s).map_err(|e| e.within(key)),
        other => Err(Error::corrupt(format!("{key}: a path is expected, found {}", other.unwrap_or(&Value::Null)))),
    }
}

impl FileInfo {
    fn parse(value: &Value) -> Result<Self> {
        let object = as_object(value, "file info")?;
        let one = |v: &Value| {
            v.as_str().map(str::to_owned).ok_or_else(|| Error::corrupt(format!("hash_checksums: text is expected, found {v}")))
        };
        Ok(Self {
            path: path(object, "file_path")?,
            checksums: as_list(object, "hash_checksums")?.iter().map(one).collect::<Result<_>>()?,
        })
    }
    /// As it stands in JSON.
    pub fn to_value(&self) -> Value {
        serde_json::json!({"file_path": self.path.as_str(), "hash_checksums": self.checksums})
    }
}

impl ShardInfo {
    /// A new shard of one file.
    pub fn new(file: FileInfo, examples: u64, metadata: Metadata) -> Self {
        Self { files: vec![file], examples, metadata, raw: Raw::Fields }
    }
    /// Reads an entry of a list from its text.
    ///
    /// # Errors
    /// As [`ShardInfo::parse`].
    pub(super) fn from_text(text: &str) -> Result<Self> {
        let scanned = || {
            let entry = scan::Entry::parse(text)?;
            let metadata = entry.metadata.map_or(Ok(Metadata::new()), serde_json::from_str).ok()?;
            Some(Self { files: entry.files()?, examples: entry.examples, metadata, raw: Raw::Text(text.into()) })
        };
        match scanned() {
            Some(shard) => Ok(shard),
            None => Self::parse(&serde_json::from_str(text).map_err(|e| Error::corrupt(format!("not a JSON object: {e}")))?),
        }
    }
    /// Reads an entry of a list.
    ///
    /// # Errors
    /// `Corrupt` names the key; a path that leaves the dataset is refused.
    pub fn parse(value: &Value) -> Result<Self> {
        let raw = as_object(value, "shard info")?;
        let files = as_list(raw, "file_infos")?.iter().map(FileInfo::parse).collect::<Result<Vec<_>>>()?;
        if files.is_empty() {
            return Err(Error::corrupt("file_infos: a shard without a file"));
        }
        let metadata = match raw.get("custom_metadata") {
            None => Metadata::new(),
            Some(v) => as_object(v, "custom_metadata")?.clone(),
        };
        Ok(Self { files, examples: count(raw, "number_of_examples")?, metadata, raw: Raw::Object(raw.clone()) })
    }
    /// As it stands in JSON.
    pub fn to_value(&self) -> Value {
        match &self.raw {
            Raw::Object(raw) => return Value::Object(raw.clone()),
            Raw::Text(text) => {
                if let Ok(value) = serde_json::from_str(text) {
                    return value;
                }
            }
            Raw::Fields => {}
        }
        let mut raw = Metadata::new();
        raw.insert("file_infos".into(), self.files.iter().map(FileInfo::to_value).collect());
        raw.insert("number_of_examples".into(), self.examples.into());
        if !self.metadata.is_empty() {
            raw.insert("custom_metadata".into(), Value::Object(self.metadata.clone()));
        }
        Value::Object(raw)
    }
    /// The path of the file that holds the records.
    pub fn path(&self) -> Result<&RelPath> {
        self.files.first().map(|f| &f.path).ok_or_else(|| Error::corrupt("a shard without a file"))
    }
}

impl PartialEq for ShardInfo {
    fn eq(&self, other: &Self) -> bool {
        self.to_value() == other.to_value()
    }
}

impl ListRef {
    /// Reads a pointer.
    ///
    /// # Errors
    /// `Corrupt` names the key.
    pub fn parse(value: &Value) -> Result<Self> {
        let raw = as_object(value, "shard list info")?;
        let file = FileInfo::parse(raw.get("shard_list_info_file").unwrap_or(&Value::Null))
            .map_err(|e| e.within("shard_list_info_file"))?;
        if file.path.file_name() != LIST {
            return Err(Error::corrupt(format!("'{}': every shards list is called {LIST}", file.path)));
        }
        Ok(Self { file, examples: count(raw, "number_of_examples")?, shards: count(raw, "number_of_shards")?, raw: raw.clone() })
    }
    /// Compares what a list holds with what its pointer says.
    pub(super) fn agrees(&self, examples: u64, shards: u64) -> Result<()> {
        if (self.examples, self.shards) == (examples, shards) {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "the list holds {examples} examples in {shards} shards, its pointer says {} in {}",
            self.examples, self.shards
        )))
    }
    /// The same pointer with the unknown keys of the one that it replaces.
    pub(super) fn keeping(self, old: &Self) -> Self {
        Self { raw: old.raw.clone(), ..self }
    }
    /// As it stands in JSON.
    pub fn to_value(&self) -> Value {
        let mut raw = self.raw.clone();
        raw.insert("shard_list_info_file".into(), self.file.to_value());
        raw.insert("number_of_examples".into(), self.examples.into());
        raw.insert("number_of_shards".into(), self.shards.into());
        Value::Object(raw)
    }
}

impl ShardsList {
    /// A list without shards.
    pub fn new(path: RelPath) -> Self {
        Self { path, examples: 0, shards: Vec::new(), children: Vec::new(), raw: Metadata::new() }
    }
    /// Reads the list that lies at `path`.
    ///
    /// # Errors
    /// `Corrupt` where it is no such document, names another place, or its counts do not add up.
    pub fn parse(at: &RelPath, bytes: &[u8]) -> Result<Self> {
        let raw: Metadata = serde_json::from_slice(bytes).map_err(|e| Error::corrupt(format!("not a JSON object: {e}")))?;
        let itself = path(&raw, "relative_path_self")?;
        if itself != *at {
            return Err(Error::corrupt(format!("relative_path_self: the list lies at '{at}' and says '{itself}'")));
        }
        let numbered = |i: usize, e: Error| e.within(format!("shard_files: {i}"));
        let shards = as_list(&raw, "shard_files")?
            .iter()
            .enumerate()
            .map(|(i, v)| ShardInfo::parse(v).map_err(|e| numbered(i, e)))
            .collect::<Result<Vec<_>>>()?;
        let children = as_list(&raw, "children_shard_lists")?.iter().map(ListRef::parse).collect::<Result<Vec<_>>>()?;
        let list = Self { path: itself, examples: count(&raw, "number_of_examples")?, shards, children, raw };
        let added = list.sum();
        if added != Some(list.examples) {
            return Err(Error::corrupt(format!(
                "number_of_examples: the list says {}, its shards and children hold {}",
                list.examples,
                added.unwrap_or(u64::MAX)
            ))
            .remedy("run a repair, which rebuilds counts"));
        }
        Ok(list)
    }
    fn sum(&self) -> Option<u64> {
        let counts = self.shards.iter().map(|s| s.examples).chain(self.children.iter().map(|c| c.examples));
        counts.into_iter().try_fold(0u64, u64::checked_add)
    }
    /// Shards here and below.
    pub fn count_shards(&self) -> u64 {
        self.children.iter().fold(self.shards.len() as u64, |all, c| all.saturating_add(c.shards))
    }
    /// Puts a child's pointer in the place of its older one, or at the end.
    pub(super) fn set_child(&mut self, child: ListRef) {
        match self.children.iter_mut().find(|c| c.file.path == child.file.path) {
            Some(old) => *old = child.keeping(old),
            None => self.children.push(child),
        }
    }
    /// The list's bytes, with its count made anew. Empty parts are left out, unknown keys kept.
    pub(super) fn render(&mut self) -> Result<Vec<u8>> {
        self.examples = self.sum().ok_or_else(|| Error::limit("more examples than can be counted"))?;
        let mut all = Metadata::new();
        all.insert("relative_path_self".into(), self.path.as_str().into());
        if self.examples > 0 {
            all.insert("number_of_examples".into(), self.examples.into());
        }
        if !self.shards.is_empty() {
            all.insert("shard_files".into(), self.shards.iter().map(ShardInfo::to_value).collect());
        }
        if !self.children.is_empty() {
            all.insert("children_shard_lists".into(), self.children.iter().map(ListRef::to_value).collect());
        }
        for (key, value) in &self.raw {
            if !["relative_path_self", "number_of_examples", "shard_files", "children_shard_lists"].contains(&key.as_str()) {
                all.insert(key.clone(), value.clone());
            }
        }
        pretty(&all)
    }
    /// The pointer to this list, given its bytes' checksums.
    pub(super) fn pointer(&self, checksums: Vec<String>) -> ListRef {
        let file = FileInfo { path: self.path.clone(), checksums };
        ListRef { file, examples: self.examples, shards: self.count_shards(), raw: Metadata::new() }
    }
}
