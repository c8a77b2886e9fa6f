//! The control documents: root, snapshot and manifest pages, and the references that tie them together.
//!
//! JSON objects with sorted keys, an indent of two spaces, and a last line feed, byte for byte as the reference package writes them
//! (without our `sha256`, which it ignores). Unknown keys are ignored when reading.

mod read;

pub(super) use read::{Fields, document, need, object, reference, text};

use super::digest::Digest;
use crate::error::{Error, Result};
use crate::uri::RelPath;
use sigbank_format::model::json::Json;
use std::fmt;
use std::sync::Arc;

/// The file that makes a directory a dataset.
pub const ROOT: &str = "root.json";
/// The `layout_version` of every document.
pub const LAYOUT_VERSION: &str = "0.1";
/// The `min_reader_version` of the roots that are written, as the reference package 0.4.0 writes it.
pub const MIN_READER_VERSION: &str = "0.3.0";
/// The newest `min_reader_version` that is read: what this module can do is what the reference package of this version can.
pub const NEWEST_READER_VERSION: [u64; 3] = [0, 4, 0];

const ROOT_FORMAT: &str = "signal-dataset.dataset";
/// The `format` of the documents of further versions, which the reference package does not know.
pub(super) const VERSION_FORMAT: &str = "sigbank.version";
const SNAPSHOT_FORMAT: &str = "signal-dataset.snapshot";
const MANIFEST_FORMAT: &str = "signal-dataset.manifest";
const CODEC: &str = "safetensors";
const SHARD_FORMAT: &str = "array_record";

/// Where an object is: below the dataset's root, or at an absolute path or address (only the shards of a view).
///
/// ```
/// use sigbank::layout::signal_dataset::Place;
/// assert!(matches!(Place::parse("objects/data/0a/x.arrayrecord")?, Place::Inside(_)));
/// assert!(matches!(Place::parse("/data/ds/objects/data/0a/x.arrayrecord")?, Place::Elsewhere(_)));
/// assert!(Place::parse("../ds/x.arrayrecord").is_err());
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// Relative to the root.
    Inside(RelPath),
    /// An absolute path, or an address with its scheme.
    Elsewhere(Arc<str>),
}

impl Place {
    /// The place of this text.
    ///
    /// # Errors
    /// `Invalid` for a path that leads out of its directory by `..` or is no path.
    pub fn parse(text: &str) -> Result<Self> {
        let absolute = match text.split_once("://") {
            Some((scheme, rest)) if !scheme.contains('/') => Some(rest),
            _ => text.strip_prefix('/'),
        };
        match absolute {
            Some(rest) => RelPath::parse(rest.trim_start_matches('/')).map(|_| Self::Elsewhere(text.into())),
            None => RelPath::parse(text).map(Self::Inside),
        }
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Inside(path) => path.as_str(),
            Self::Elsewhere(text) => text,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names an object: where it is, how long, and (what we add) what its bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Where it is.
    pub path: Place,
    /// Its length in bytes.
    pub stored_bytes: u64,
    /// Its SHA-256; the reference package neither writes nor reads it.
    pub sha256: Option<Digest>,
}

impl Reference {
    pub(super) fn put(&self, out: &mut Doc) {
        self.put_with(out, None);
    }

    /// With one member more, whose key comes between `path` and `sha256`.
    pub(super) fn put_with(&self, out: &mut Doc, more: Option<(&str, &str)>) {
        out.open('{');
        out.string("path", self.path.as_str());
        if let Some((key, value)) = more {
            out.string(key, value);
        }
        if let Some(digest) = &self.sha256 {
            out.string("sha256", &digest.to_string());
        }
        out.number("stored_bytes", self.stored_bytes);
        out.close('}');
    }
}

/// `root.json`: what the dataset is called, and which snapshot it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Root {
    /// What its producer calls the dataset; not empty.
    pub dataset_id: String,
    /// The snapshot document.
    pub snapshot: Reference,
    /// Whatever its producer says of it, an object by rule.
    pub metadata: Json,
}

/// A snapshot document: the pages of the manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Its name; not empty.
    pub snapshot_id: String,
    /// Records of all pages.
    pub record_count: u64,
    /// Shards of all pages.
    pub shard_count: u64,
    /// Bytes of all shards' objects, data and metadata.
    pub stored_bytes: u64,
    /// The pages, their records in order from 0 on without gaps.
    pub manifests: Vec<PageRef>,
}

/// Names a manifest page.
#[derive(Debug, Clone, PartialEq)]
pub struct PageRef {
    /// The ordinal of its first record.
    pub first_ordinal: u64,
    /// Its records.
    pub record_count: u64,
    /// Its shards.
    pub shard_count: u64,
    /// Bytes of its shards' objects.
    pub stored_bytes: u64,
    /// The page.
    pub object: Reference,
}

/// A manifest page: some of the shards.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The ordinal of its first record.
    pub first_ordinal: u64,
    /// Its records.
    pub record_count: u64,
    /// The shards, their records in order without gaps.
    pub shards: Vec<Shard>,
}

/// One shard of a manifest page: the records, and what is said of them, in two objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Shard {
    /// The ordinal of its first record.
    pub first_ordinal: u64,
    /// Its records.
    pub record_count: u64,
    /// The records.
    pub data: Reference,
    /// What is said of them, aligned with the records.
    pub metadata: Reference,
    /// In a view: which records of the objects these are, as many as `record_count`.
    pub record_indices: Option<Vec<u64>>,
}

impl Shard {
    /// The place in the shard's objects of its `n`-th record; none past the last.
    pub fn physical(&self, n: u64) -> Option<u64> {
        match &self.record_indices {
            _ if n >= self.record_count => None,
            Some(indices) => indices.get(usize::try_from(n).ok()?).copied(),
            None => Some(n),
        }
    }
    /// Bytes of both objects.
    pub fn stored_bytes(&self) -> u64 {
        self.data.stored_bytes.saturating_add(self.metadata.stored_bytes)
    }
}

impl Root {
    /// The document.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Doc::default();
        out.open('{');
        out.string("dataset_id", &self.dataset_id);
        out.string("format", ROOT_FORMAT);
        out.string("layout_version", LAYOUT_VERSION);
        out.raw("metadata", self.metadata.as_str());
        out.string("min_reader_version", MIN_READER_VERSION);
        for (key, name) in [("record_codec", CODEC), ("shard_format", SHARD_FORMAT)] {
            out.key(key);
            out.open('{');
            out.string("name", name);
            out.close('}');
        }
        out.key("snapshot");
        self.snapshot.put(&mut out);
        out.finish()
    }
}

impl Snapshot {
    /// The document.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Doc::default();
        out.open('{');
        out.string("format", SNAPSHOT_FORMAT);
        out.string("layout_version", LAYOUT_VERSION);
        out.key("manifests");
        out.open('[');
        for page in &self.manifests {
            out.item();
            out.open('{');
            out.number("first_ordinal", page.first_ordinal);
            out.key("object");
            page.object.put(&mut out);
            out.number("record_count", page.record_count);
            out.number("shard_count", page.shard_count);
            out.number("stored_bytes", page.stored_bytes);
            out.close('}');
        }
        out.close(']');
        out.number("record_count", self.record_count);
        out.number("shard_count", self.shard_count);
        out.string("snapshot_id", &self.snapshot_id);
        out.number("stored_bytes", self.stored_bytes);
        out.finish()
    }
}

impl Page {
    /// The document.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Doc::default();
        out.open('{');
        out.number("first_ordinal", self.first_ordinal);
        out.string("format", MANIFEST_FORMAT);
        out.string("layout_version", LAYOUT_VERSION);
        out.number("record_count", self.record_count);
        out.key("shards");
        out.open('[');
        for shard in &self.shards {
            out.item();
            out.open('{');
            out.key("data");
            shard.data.put(&mut out);
            out.number("first_ordinal", shard.first_ordinal);
            out.key("metadata");
            shard.metadata.put(&mut out);
            out.number("record_count", shard.record_count);
            if let Some(indices) = &shard.record_indices {
                out.key("record_indices");
                out.open('[');
                for index in indices {
                    out.item();
                    out.text.push_str(&index.to_string());
                }
                out.close(']');
            }
            out.close('}');
        }
        out.close(']');
        out.finish()
    }
    /// Bytes of all shards' objects.
    pub fn stored_bytes(&self) -> u64 {
        self.shards.iter().fold(0, |all, shard| all.saturating_add(shard.stored_bytes()))
    }
}

/// A document that is being written: compact, keys in the order in which they come (which is sorted).
#[derive(Default)]
pub(super) struct Doc {
    text: String,
}

impl Doc {
    pub(super) fn open(&mut self, bracket: char) {
        self.text.push(bracket);
    }
    pub(super) fn close(&mut self, bracket: char) {
        self.text.push(bracket);
    }
    pub(super) fn item(&mut self) {
        if !self.text.ends_with(['[', '{']) {
            self.text.push(',');
        }
    }
    pub(super) fn key(&mut self, key: &str) {
        self.item();
        sigbank_format::model::json::write_string(key, &mut self.text);
        self.text.push(':');
    }
    pub(super) fn string(&mut self, key: &str, value: &str) {
        self.key(key);
        sigbank_format::model::json::write_string(value, &mut self.text);
    }
    pub(super) fn number(&mut self, key: &str, value: u64) {
        self.raw(key, &value.to_string());
    }
    pub(super) fn raw(&mut self, key: &str, json: &str) {
        self.key(key);
        self.text.push_str(json);
    }
    /// The text as it is.
    pub(super) fn compact(mut self) -> Vec<u8> {
        self.text.push('}');
        self.text.into_bytes()
    }
    /// The text, indented.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.text.push('}');
        indented(&self.text)
    }
}

/// Compact JSON as the documents are laid out.
fn indented(compact: &str) -> Vec<u8> {
    let mut out = String::with_capacity(compact.len() * 2);
    // What was just put together is JSON.
    match Json::parse(compact.as_bytes(), &UNLIMITED) {
        Ok(json) => json.write_indented(&mut out),
        Err(_) => out.push_str(compact),
    }
    out.push('\n');
    out.into_bytes()
}

const UNLIMITED: sigbank_format::model::json::Limits =
    sigbank_format::model::json::Limits { max_bytes: u64::MAX, max_depth: usize::MAX, max_nodes: usize::MAX };

/// A sum that is told as damage where it does not fit in 64 bits.
fn add(a: u64, b: u64, what: &str) -> Result<u64> {
    a.checked_add(b).ok_or_else(|| Error::corrupt(format!("{what} of more than 64 bits")))
}
