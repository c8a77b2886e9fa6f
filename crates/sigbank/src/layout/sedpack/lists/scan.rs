//! Reading a list without making objects of what stands in it: what is needed is borrowed from its text. Whatever is not taken
//! here goes to [`super::ShardsList::parse`], which says what is wrong with it, or finds that nothing is.

use super::{DEEPEST, FileInfo, LIST, ListRef};
use crate::uri::{RelPath, is_path};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use sigbank_format::model::Metadata;
use std::ops::Range;

/// A file's path and checksums. Text with escapes cannot be borrowed; the format's has none.
#[derive(Deserialize)]
struct File<'a> {
    file_path: &'a str,
    #[serde(borrow, default)]
    hash_checksums: Vec<&'a str>,
}

impl File<'_> {
    fn to_info(&self) -> Option<FileInfo> {
        let path = RelPath::parse(self.file_path).ok()?;
        Some(FileInfo { path, checksums: self.hash_checksums.iter().map(|&c| c.to_owned()).collect() })
    }
}

/// What a list says of one shard.
#[derive(Deserialize)]
pub(in super::super) struct Entry<'a> {
    #[serde(borrow)]
    file_infos: Vec<File<'a>>,
    #[serde(default)]
    pub(in super::super) number_of_examples: u64,
    #[serde(borrow, default, deserialize_with = "given")]
    custom_metadata: Option<&'a RawValue>,
}

/// What stands there, `null` too.
fn given<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

#[derive(Deserialize)]
struct Child<'a> {
    #[serde(borrow)]
    shard_list_info_file: File<'a>,
    #[serde(default)]
    number_of_examples: u64,
    #[serde(default)]
    number_of_shards: u64,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de>"))]
struct List<'a, S> {
    relative_path_self: &'a str,
    #[serde(default)]
    number_of_examples: u64,
    #[serde(default = "Vec::new")]
    shard_files: Vec<S>,
    #[serde(borrow, default)]
    children_shard_lists: Vec<Child<'a>>,
}

/// A list that is as [`super::ShardsList::parse`] demands.
pub(in super::super) struct Scan<S> {
    pub(in super::super) examples: u64,
    /// The shards of its directory.
    pub(in super::super) shards: Vec<S>,
    /// The lists below, without keys that are not known here.
    pub(in super::super) children: Vec<ListRef>,
}

impl<S> Scan<S> {
    /// Shards here and below.
    pub(in super::super) fn count_shards(&self) -> u64 {
        self.children.iter().fold(self.shards.len() as u64, |all, c| all.saturating_add(c.shards))
    }
}

/// The list that lies at `at`, with each shard's entry.
pub(in super::super) fn entries<'a>(at: &RelPath, text: &'a [u8]) -> Option<Scan<Entry<'a>>> {
    let list: List<'a, Entry<'a>> = serde_json::from_str(plain(text)?).ok()?;
    let mut sum = 0u64;
    for entry in &list.shard_files {
        sum = sum.checked_add(entry.number_of_examples).filter(|_| entry.valid())?;
    }
    finish(at, list, sum)
}

/// The list that lies at `at`, with the place of each shard's entry in the text.
pub(in super::super) fn places(at: &RelPath, text: &[u8]) -> Option<Scan<Range<usize>>> {
    let list: List<'_, &RawValue> = serde_json::from_str(plain(text)?).ok()?;
    let mut sum = 0u64;
    for raw in &list.shard_files {
        sum = sum.checked_add(Entry::parse(raw.get())?.number_of_examples)?;
    }
    let begin = text.as_ptr() as usize;
    let place = |raw: &RawValue| {
        let start = raw.get().as_ptr() as usize - begin;
        start..start + raw.get().len()
    };
    let scan = finish(at, list, sum)?;
    Some(Scan { examples: scan.examples, shards: scan.shards.into_iter().map(place).collect(), children: scan.children })
}

fn finish<S>(at: &RelPath, list: List<'_, S>, mut sum: u64) -> Option<Scan<S>> {
    let mut children = Vec::with_capacity(list.children_shard_lists.len());
    for child in list.children_shard_lists {
        let file = child.shard_list_info_file.to_info().filter(|file| file.path.file_name() == LIST)?;
        sum = sum.checked_add(child.number_of_examples)?;
        children.push(ListRef { file, examples: child.number_of_examples, shards: child.number_of_shards, raw: Metadata::new() });
    }
    let whole = list.relative_path_self == at.as_str() && sum == list.number_of_examples;
    whole.then_some(Scan { examples: sum, shards: list.shard_files, children })
}

impl<'a> Entry<'a> {
    /// The entry of this text, if it is as [`super::ShardInfo::parse`] demands.
    pub(in super::super) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str::<Self>(plain(text.as_bytes())?).ok().filter(Self::valid)
    }

    fn valid(&self) -> bool {
        let metadata = self.metadata().is_none_or(|text| text.starts_with('{') && shallow(text));
        metadata && !self.file_infos.is_empty() && self.file_infos.iter().all(|f| is_path(f.file_path))
    }

    /// The path of the file that holds the records.
    pub(in super::super) fn path(&self) -> &'a str {
        self.file_infos.first().map_or("", |f| f.file_path)
    }

    /// All its files.
    pub(super) fn files(&self) -> Option<Vec<FileInfo>> {
        self.file_infos.iter().map(File::to_info).collect()
    }

    /// The text of its metadata, an object, where it has some.
    pub(in super::super) fn metadata(&self) -> Option<&'a str> {
        self.custom_metadata.map(RawValue::get)
    }
}

/// Text without escaped characters, which may be halves of one: what is passed over is not looked at so closely as what is
/// parsed.
fn plain(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?;
    (!text.as_bytes().contains(&b'\\') || !text.contains("\\u")).then_some(text)
}

/// Whether an object is not nested too deep to be parsed.
fn shallow(text: &str) -> bool {
    text.bytes().filter(|b| matches!(b, b'{' | b'[')).count() < DEEPEST
}
