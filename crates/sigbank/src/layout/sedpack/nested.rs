//! Other datasets below a dataset: what lies in them is theirs, also where its names are those of this layout.

use super::ROOT;
use crate::layout::{jbof, signal_dataset};
use crate::uri::RelPath;
use std::collections::HashSet;

/// The directories of other datasets.
#[derive(Debug, Default)]
pub(super) struct Nested(HashSet<RelPath>);

impl Nested {
    /// Looks whether a name is that of another dataset's root, or of what its writers keep beside it, which is there before the root is.
    pub(super) fn note(&mut self, path: &RelPath) {
        if matches!(path.file_name(), ROOT | signal_dataset::ROOT | jbof::ROOT) {
            self.0.extend(path.parent());
        }
        let mut at = path.parent();
        while let Some(dir) = at {
            at = dir.parent();
            if dir.file_name() == ".sigbank" {
                self.0.extend(at.clone());
            }
        }
    }

    /// Whether something lies in one of them.
    pub(super) fn holds(&self, path: &RelPath) -> bool {
        let mut at = path.parent().filter(|_| !self.0.is_empty());
        while let Some(dir) = at {
            if self.0.contains(&dir) {
                return true;
            }
            at = dir.parent();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_and_what_comes_before_them_tell_of_others() {
        let path = |text: &str| RelPath::parse(text).unwrap();
        let mut nested = Nested::default();
        for text in [
            "dataset_info.json",
            ".sigbank/journal.json",
            "train/a/root.json",
            "test/b/.sigbank/progress/x",
            "train/0/x.fb",
            "train/j/_metadata.json",
        ] {
            nested.note(&path(text));
        }
        for (text, theirs) in [
            ("train/a/train/0/x.fb", true),
            ("test/b/shards_list.json", true),
            ("train/j/item/x.fb", true),
            ("train/0/x.fb", false),
            ("train/ab/x.fb", false),
            ("test/x.fb", false),
            ("dataset_info.json", false),
        ] {
            assert_eq!(nested.holds(&path(text)), theirs, "{text}");
        }
    }
}
