//! Reading a list in the form in which the reference and we write it, without making objects of what stands in it: whole pieces
//! of the text are compared, and what differs from list to list is borrowed. A list of any other form, and a damaged one, goes to
//! [`super::ShardsList::parse`], which says what is wrong with it, or finds that nothing is.

use super::{DEEPEST, FileInfo, LIST, ListRef};
use crate::uri::{RelPath, is_path};
use sigbank_format::model::Metadata;
use std::collections::HashSet;
use std::ops::Range;

/// A list that is as [`super::ShardsList::parse`] demands.
pub(in super::super) struct Scan<S> {
    pub(in super::super) examples: u64,
    /// The shards of its directory.
    pub(in super::super) shards: Vec<S>,
    /// The lists below.
    pub(in super::super) children: Vec<ListRef>,
}

impl<S> Scan<S> {
    /// Shards here and below.
    pub(in super::super) fn count_shards(&self) -> u64 {
        self.children.iter().fold(self.shards.len() as u64, |all, c| all.saturating_add(c.shards))
    }
}

/// What a list says of one shard.
pub(in super::super) struct Entry<'a> {
    first: File<'a>,
    more: Vec<File<'a>>,
    pub(in super::super) examples: u64,
    /// The text of its metadata, an object, where it has some.
    pub(in super::super) metadata: Option<&'a str>,
    /// Where all this stands.
    pub(in super::super) place: Range<usize>,
}

impl<'a> Entry<'a> {
    /// The entry of this text.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut cursor = Cursor::new(text);
        cursor.entry().filter(|_| cursor.left().is_empty())
    }
    /// The path of the file that holds the records.
    pub(in super::super) fn path(&self) -> &'a str {
        self.first.path
    }
    /// All its files.
    pub(super) fn files(&self) -> Option<Vec<FileInfo>> {
        std::iter::once(&self.first).chain(&self.more).map(File::to_info).collect()
    }
}

/// A file and the text between the brackets around its checksums.
struct File<'a> {
    path: &'a str,
    checksums: &'a str,
}

impl File<'_> {
    fn to_info(&self) -> Option<FileInfo> {
        // Between quotation marks, of which none is escaped.
        let checksums = self.checksums.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        Some(FileInfo { path: RelPath::parse(self.path).ok()?, checksums })
    }
}

/// How a file is indented: up to its path, up to its checksums, before each of these, and behind the last one.
struct Indent {
    path: &'static str,
    checksums: &'static str,
    each: &'static str,
    end: &'static str,
}

const OF_SHARD: Indent = Indent {
    path: "{\n          \"file_path\": \"",
    checksums: ",\n          \"hash_checksums\": [",
    each: "\n            \"",
    end: "\n          ]",
};
const OF_LIST: Indent = Indent {
    path: "{\n        \"file_path\": \"",
    checksums: ",\n        \"hash_checksums\": [",
    each: "\n          \"",
    end: "\n        ]",
};

/// The list that lies at `at`.
pub(in super::super) fn list<'a>(at: &RelPath, text: &'a [u8]) -> Option<Scan<Entry<'a>>> {
    let cursor = &mut Cursor::new(std::str::from_utf8(text).ok()?);
    cursor.take("{\n  \"relative_path_self\": \"")?;
    let itself = cursor.string()?;
    let examples = cursor.count(",\n  \"number_of_examples\": ")?;
    let (mut shards, mut children, mut sum) = (Vec::new(), Vec::new(), 0u64);
    if cursor.take(",\n  \"shard_files\": [\n    ").is_some() {
        loop {
            let entry = cursor.entry()?;
            sum = sum.checked_add(entry.examples)?;
            shards.push(entry);
            if cursor.take(",\n    ").is_none() {
                break;
            }
        }
        cursor.take("\n  ]")?;
    }
    if cursor.take(",\n  \"children_shard_lists\": [\n    ").is_some() {
        loop {
            let child = cursor.child()?;
            sum = sum.checked_add(child.examples)?;
            children.push(child);
            if cursor.take(",\n    ").is_none() {
                break;
            }
        }
        cursor.take("\n  ]")?;
    }
    cursor.take("\n}")?;
    let whole = cursor.left().is_empty() && itself == at.as_str() && sum == examples;
    whole.then_some(Scan { examples, shards, children })
}

/// A place in a text.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// The directory of the last shard, which is a path.
    dir: &'a str,
    /// Metadata that can be parsed.
    metadata: HashSet<&'a str>,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0, dir: "", metadata: HashSet::new() }
    }

    fn left(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Passes over a piece of text, if it stands here.
    fn take(&mut self, piece: &str) -> Option<()> {
        self.left().starts_with(piece).then(|| self.at += piece.len())
    }

    /// What stands here up to a quotation mark, which is passed over.
    fn string(&mut self) -> Option<&'a str> {
        let left = self.left();
        let found = left.get(..left.find('"')?)?;
        self.at += found.len() + 1;
        // Escapes are for the parser.
        let odd = found.bytes().fold(false, |odd, b| odd | (b == b'\\') | (b < b' '));
        (!odd).then_some(found)
    }

    /// The count behind its key; 0 where that is left out.
    fn count(&mut self, key: &str) -> Option<u64> {
        if self.take(key).is_none() {
            return Some(0);
        }
        let left = self.left();
        let digits = left.get(..left.bytes().take_while(u8::is_ascii_digit).count())?;
        self.at += digits.len();
        // What else may follow a number is not what follows a count.
        let plain = digits == "0" || !digits.starts_with('0');
        digits.parse().ok().filter(|_| plain && self.left().starts_with([',', '\n']))
    }

    fn file(&mut self, indent: &Indent) -> Option<File<'a>> {
        self.take(indent.path)?;
        let path = self.string()?;
        self.take(indent.checksums)?;
        let start = self.at;
        if self.take("]").is_some() {
            return Some(File { path, checksums: "" });
        }
        loop {
            self.take(indent.each)?;
            self.string()?;
            if self.take(",").is_none() {
                break;
            }
        }
        let checksums = self.text.get(start..self.at)?;
        self.take(indent.end)?;
        Some(File { path, checksums })
    }

    fn shard_file(&mut self) -> Option<File<'a>> {
        let file = self.file(&OF_SHARD)?;
        self.take("\n        }")?;
        let (dir, name) = file.path.rsplit_once('/').unwrap_or(("", file.path));
        // Most shards lie beside the one before.
        let known = !dir.is_empty() && dir == self.dir && !matches!(name, "" | "." | "..");
        if !known {
            if !is_path(file.path) {
                return None;
            }
            self.dir = dir;
        }
        Some(file)
    }

    fn entry(&mut self) -> Option<Entry<'a>> {
        let start = self.at;
        self.take("{\n      \"file_infos\": [\n        ")?;
        let (first, mut more) = (self.shard_file()?, Vec::new());
        while self.take(",\n        ").is_some() {
            more.push(self.shard_file()?);
        }
        self.take("\n      ]")?;
        let examples = self.count(",\n      \"number_of_examples\": ")?;
        let metadata = match self.take(",\n      \"custom_metadata\": ") {
            Some(()) => Some(self.object()?),
            None => None,
        };
        self.take("\n    }")?;
        Some(Entry { first, more, examples, metadata, place: start..self.at })
    }

    fn child(&mut self) -> Option<ListRef> {
        self.take("{\n      \"shard_list_info_file\": ")?;
        let file = self.file(&OF_LIST)?.to_info().filter(|file| file.path.file_name() == LIST)?;
        self.take("\n      }")?;
        let examples = self.count(",\n      \"number_of_examples\": ")?;
        let shards = self.count(",\n      \"number_of_shards\": ")?;
        self.take("\n    }")?;
        Some(ListRef { file, examples, shards, raw: Metadata::new() })
    }

    /// An object's text.
    fn object(&mut self) -> Option<&'a str> {
        let left = self.left();
        let (mut depth, mut opened, mut quoted, mut escaped) = (0usize, 0, false, false);
        let end = left.bytes().position(|b| {
            match b {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => quoted = !quoted,
                b'{' | b'[' if !quoted => (depth, opened) = (depth + 1, opened + 1),
                b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })?;
        let text = left.get(..end + 1)?;
        if !self.metadata.contains(text) {
            // The parser minds how deep it is nested, lists and all.
            if opened >= DEEPEST || serde_json::from_str::<Metadata>(text).is_err() {
                return None;
            }
            self.metadata.insert(text);
        }
        self.at += text.len();
        Some(text)
    }
}
