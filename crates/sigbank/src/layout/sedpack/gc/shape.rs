//! What a name tells of an object: whether it is one that this layout's writers make.

use crate::layout::sedpack::{LIST, SPLITS};
use crate::store::clock::PROBES;
use crate::uri::RelPath;

/// What an object is. The order is that of deletion: what names others goes before them, so that whatever an interrupted run leaves is
/// garbage again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrphanKind {
    /// What a killed writer left of its look at the storage, or of its turn to create a root.
    Probe,
    /// A commit that was begun on a root that is none any more.
    Journal,
    /// What a writer noted of the shards that it finished.
    Progress,
    /// The text of a worker's list whose place was taken.
    ListAside,
    /// A list.
    List,
    /// A shard.
    Shard,
    /// What a run left that was to publish a signal-dataset here, when this dataset was there first.
    OtherLayout,
}

impl OrphanKind {
    /// In a word or two.
    ///
    /// ```
    /// assert_eq!(sigbank::layout::sedpack::OrphanKind::Progress.as_str(), "progress record");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Journal => "journal",
            Self::Progress => "progress record",
            Self::ListAside => "list kept aside",
            Self::List => "list",
            Self::Shard => "shard",
            Self::OtherLayout => "of another layout",
        }
    }
    /// Whether it tells of others.
    pub(super) fn is_document(self) -> bool {
        self < Self::Shard
    }
}

/// What a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The root, and what there is one of: never garbage.
    Entrance,
    /// An object that something must name.
    Named(OrphanKind),
    /// No name of the layout's.
    Foreign,
}

pub(super) fn shape(path: &RelPath) -> Shape {
    use OrphanKind::*;
    let all: Vec<&str> = path.components().collect();
    let kind = match all.as_slice() {
        ["dataset_info.json"] | [".sigbank", "journal.json" | "dropped.json" | "lock"] => return Shape::Entrance,
        [".sigbank", "turn"] => Probe,
        [".sigbank", "journals", file] if file.strip_suffix(".json").is_some_and(|id| hex(id, 64)) => Journal,
        [".sigbank", "progress", file] if is_progress(file) => Progress,
        [".sigbank", "lists", file] if file.strip_suffix(".json").is_some_and(is_checksum) => ListAside,
        [split, .., LIST] if SPLITS.contains(split) => List,
        // Shards that have other names were not made by a filler: nobody but their owner knows what they are.
        [split, .., file] if SPLITS.contains(split) && is_shard(file) => Shard,
        [.., id] if hex(id, 32) && path.parent().is_some_and(|dir| dir.as_str() == PROBES) => Probe,
        _ => return Shape::Foreign,
    };
    // What is hidden in a split's directory is a file manager's.
    let hidden = matches!(kind, List | Shard) && all.iter().any(|name| name.starts_with('.'));
    if hidden { Shape::Foreign } else { Shape::Named(kind) }
}

/// `<session>.jsonl`, `<session>.<number>.jsonl` or `<session>.<number>.json`.
fn is_progress(file: &str) -> bool {
    let (id, rest) = file.split_once('.').unwrap_or_default();
    let number = |text: &str| text.len() >= 8 && text.bytes().all(|b| b.is_ascii_digit());
    let numbered = || rest.strip_suffix(".jsonl").or_else(|| rest.strip_suffix(".json")).is_some_and(number);
    hex(id, 32) && (rest == "jsonl" || numbered())
}

fn is_shard(file: &str) -> bool {
    file.split_once('.').is_some_and(|(id, suffix)| hex(id, 32) && matches!(suffix, "fb" | "npz" | "tfrec"))
}

fn is_checksum(text: &str) -> bool {
    !text.is_empty() && hex(text, text.len())
}

fn hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_of_the_layout() {
        let of =
            |text: &str| shape(&RelPath::parse(&text.replace("H32", &"ab".repeat(16)).replace("H64", &"0f".repeat(32))).unwrap());
        for (text, kind) in [
            (".sigbank/probe/H32", OrphanKind::Probe),
            (".sigbank/turn", OrphanKind::Probe),
            (".sigbank/journals/H64.json", OrphanKind::Journal),
            (".sigbank/progress/H32.jsonl", OrphanKind::Progress),
            (".sigbank/progress/H32.00000012.jsonl", OrphanKind::Progress),
            (".sigbank/progress/H32.00000012.json", OrphanKind::Progress),
            (".sigbank/lists/0123456789abcdef.json", OrphanKind::ListAside),
            ("train/shards_list.json", OrphanKind::List),
            ("holdout/own path/0123456789/shards_list.json", OrphanKind::List),
            ("test/0/1/2/H32.fb", OrphanKind::Shard),
            ("test/H32.npz", OrphanKind::Shard),
            ("train/w/0/1/2/H32.tfrec", OrphanKind::Shard),
        ] {
            assert_eq!(of(text), Shape::Named(kind), "{text}");
        }
        for text in ["dataset_info.json", ".sigbank/journal.json", ".sigbank/dropped.json"] {
            assert_eq!(of(text), Shape::Entrance, "{text}");
        }
        for text in [
            "README.md",
            "shards_list.json",
            "H32.fb",
            "other/0/1/2/H32.fb",
            "train/notes.txt",
            "train/mine.npz",
            "train/0/H32.fb.bak",
            "train/0/H32.npy",
            "train/.trash/H32.fb",
            "train/.trash/shards_list.json",
            ".sigbank/H32",
            ".sigbank/probe/other",
            ".sigbank/probe/0/H32",
            ".sigbank/progress/x.jsonl",
            ".sigbank/progress/H32.1.json",
            ".sigbank/lists/.json",
            ".sigbank/lists/xyz.json",
            ".sigbank/journals/H32.json",
            "sub/dataset_info.json",
        ] {
            assert_eq!(of(text), Shape::Foreign, "{text}");
        }
    }
}
