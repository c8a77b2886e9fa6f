//! What a name tells of an object: whether it is one of the layout's, and which other names are written with it.

use crate::uri::RelPath;

/// What an object of the layout is. The order is that of deletion: a document goes before what it names, so that whatever an
/// interrupted run leaves is garbage again, and never a document whose objects are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrphanKind {
    /// What an interrupted run of this left of its look at the storage's clock.
    Probe,
    /// The pointer to the annotation catalog of a version that is not there.
    AnnotationCatalog,
    /// A revision of the annotation catalog.
    AnnotationRevision,
    /// The root of an annotation set.
    AnnotationRoot,
    /// The pointer to a worker's annotations.
    AnnotationPointer,
    /// Annotations.
    AnnotationShard,
    /// The copy of a version's document beside its snapshot.
    VersionCopy,
    /// A snapshot document.
    Snapshot,
    /// A manifest page.
    Manifest,
    /// Records, or what is said of them.
    Shard,
}

impl OrphanKind {
    /// In a word or two.
    ///
    /// ```
    /// assert_eq!(sigbank::layout::signal_dataset::OrphanKind::Manifest.as_str(), "manifest page");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Probe => "clock probe",
            Self::AnnotationCatalog => "pointer to an annotation catalog",
            Self::AnnotationRevision => "annotation catalog",
            Self::AnnotationRoot => "annotation set",
            Self::AnnotationPointer => "annotation pointer",
            Self::AnnotationShard => "annotations",
            Self::VersionCopy => "copy of a version",
            Self::Snapshot => "snapshot",
            Self::Manifest => "manifest page",
            Self::Shard => "shard",
        }
    }
    /// Whether it is part of annotations.
    pub fn is_annotation(self) -> bool {
        (Self::AnnotationCatalog..=Self::AnnotationShard).contains(&self)
    }
}

/// What a name is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// `root.json`, its catalog's pointer and the lock of that: never garbage.
    Entrance,
    /// A further version: live, and so is what it names.
    Version,
    /// An object that something must name.
    Named(OrphanKind),
    /// No name of the layout's.
    Foreign,
}

/// The name of the probe begins with this.
pub(in super::super) const PROBE: &str = "sigbank-gc-";

pub(super) fn shape(path: &RelPath) -> Shape {
    use OrphanKind::*;
    let all: Vec<&str> = path.components().collect();
    let inner = at_home(&all);
    let kind = match inner {
        ["annotations", "catalog.json"] if inner.len() < all.len() => AnnotationCatalog,
        ["root.json"] | ["sigbank", "gc.json"] | ["annotations", "catalog.json" | ".catalog.json.lock"] => {
            return Shape::Entrance;
        }
        ["sigbank", "versions", file] if file.strip_suffix(".json").is_some_and(number) => return Shape::Version,
        // What killed writers of any layout leave of a look at the storage, or of their turn to create a root.
        [".sigbank", "turn"] | [".sigbank", "probe", _] => Probe,
        [probe] if probe.strip_prefix(PROBE).is_some_and(|id| hex(id, 32)) => Probe,
        ["annotations", "catalogs", file] if file.strip_suffix(".json").is_some_and(|id| hex(id, 64)) => AnnotationRevision,
        ["annotations", "sets", name, id, rest @ ..] if identifier(name) && identifier(id) => match rest {
            ["root.json"] => AnnotationRoot,
            ["shards", two, file] if file.strip_suffix(".json").is_some_and(|id| below(two, id)) => AnnotationPointer,
            ["objects", two, file] if file.strip_suffix(".arrayrecord").is_some_and(|id| below(two, id)) => AnnotationShard,
            _ => return Shape::Foreign,
        },
        ["snapshots", _, "version.json"] => VersionCopy,
        ["snapshots", _, "snapshot.json"] => Snapshot,
        ["manifests", folder, file] if page_of(file).is_some_and(|id| hex(folder, 2) || id.starts_with(folder)) => Manifest,
        ["objects", "data" | "metadata", two, file] => match file.strip_suffix(".arrayrecord") {
            Some(id) if hex(id, 64) && below(two, id) => Shard,
            _ => return Shape::Foreign,
        },
        _ => return Shape::Foreign,
    };
    Shape::Named(kind)
}

/// Whether a name is one of what publications make, the root and the like aside.
pub(in crate::layout) fn is_made_name(path: &RelPath) -> bool {
    matches!(shape(path), Shape::Named(kind) if kind != OrphanKind::Probe)
}

/// What is written together: while one of a group is young, somebody may be at work on all of it.
pub(super) fn group(path: &RelPath, kind: OrphanKind) -> String {
    use OrphanKind::*;
    match kind {
        Probe | AnnotationCatalog | AnnotationRevision => path.to_string(),
        AnnotationRoot | AnnotationPointer | AnnotationShard => {
            publication(path).map_or_else(|| path.to_string(), |p| p.to_string())
        }
        Snapshot | VersionCopy => format!("snapshot {}", path.components().nth(1).unwrap_or_default()),
        Manifest => format!("snapshot {}", page_of(path.file_name()).unwrap_or_default()),
        // Both objects of a shard have one name.
        Shard => format!("shard {}", path.file_name()),
    }
}

/// The directory of the publication that an object of annotations is of.
pub(super) fn publication(path: &RelPath) -> Option<RelPath> {
    let all: Vec<&str> = path.components().collect();
    let inner = at_home(&all);
    let (outer, named) = (all.len() - inner.len(), inner.len() >= 4 && inner.starts_with(&["annotations", "sets"]));
    named.then(|| RelPath::parse(&all.get(..outer + 4)?.join("/")).ok()).flatten()
}

/// A name below where a version's annotations lie.
fn at_home<'a, 'b>(parts: &'a [&'b str]) -> &'a [&'b str] {
    match parts {
        ["sigbank", "versions", of, rest @ ..] if number(of) && rest.first() == Some(&"annotations") => rest,
        all => all,
    }
}

/// The snapshot of a manifest page's file.
fn page_of(file: &str) -> Option<&str> {
    let (id, page) = file.strip_suffix(".json")?.rsplit_once('-')?;
    (!id.is_empty() && number(page)).then_some(id)
}

/// `%08d`
fn number(text: &str) -> bool {
    text.len() >= 8 && text.len() <= 20 && text.bytes().all(|b| b.is_ascii_digit())
}

fn hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// A name of hexadecimal digits in the directory of its first two.
fn below(two: &str, id: &str) -> bool {
    (hex(id, 64) || hex(id, 32)) && id.get(..2) == Some(two)
}

fn identifier(name: &str) -> bool {
    super::super::annotations::is_identifier(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_of_the_layout() {
        let hex64 = "ab".repeat(32);
        let of = |text: &str| shape(&RelPath::parse(&text.replace("HEX", &hex64)).unwrap());
        let named = [
            ("sigbank-gc-00112233445566778899aabbccddeeff", OrphanKind::Probe),
            (".sigbank/probe/00112233445566778899aabbccddeeff", OrphanKind::Probe),
            (".sigbank/turn", OrphanKind::Probe),
            ("annotations/catalogs/HEX.json", OrphanKind::AnnotationRevision),
            ("sigbank/versions/00000001/annotations/catalog.json", OrphanKind::AnnotationCatalog),
            ("annotations/sets/a.b/p-1/root.json", OrphanKind::AnnotationRoot),
            ("annotations/sets/a/p/shards/ab/HEX.json", OrphanKind::AnnotationPointer),
            ("annotations/sets/a/p/objects/ab/HEX.arrayrecord", OrphanKind::AnnotationShard),
            ("annotations/sets/a/p/objects/ab/abababababababababababababababab.arrayrecord", OrphanKind::AnnotationShard),
            ("snapshots/v 1/snapshot.json", OrphanKind::Snapshot),
            ("snapshots/v 1/version.json", OrphanKind::VersionCopy),
            ("manifests/0f/v-1-00000002.json", OrphanKind::Manifest),
            ("manifests/v-/v-1-00000002.json", OrphanKind::Manifest),
            ("objects/data/ab/HEX.arrayrecord", OrphanKind::Shard),
            ("objects/metadata/ab/HEX.arrayrecord", OrphanKind::Shard),
        ];
        for (text, kind) in named {
            assert_eq!(of(text), Shape::Named(kind), "{text}");
        }
        for entrance in ["root.json", "annotations/catalog.json", "annotations/.catalog.json.lock"] {
            assert_eq!(of(entrance), Shape::Entrance);
        }
        assert_eq!(of("sigbank/versions/00000001.json"), Shape::Version);
        for foreign in [
            "README.md",
            "sub/root.json",
            "sigbank-gc-1",
            "sigbank/versions/1.json",
            "sigbank/other/00000001.json",
            "snapshots/v/more/snapshot.json",
            "snapshots/v/notes.json",
            "manifests/0f/v.json",
            "manifests/xy/v-00000000.json",
            "objects/data/ab/HEX.arrayrecord.bak",
            "objects/data/cd/HEX.arrayrecord",
            "objects/data/HEX.arrayrecord",
            "objects/other/ab/HEX.arrayrecord",
            "objects/data/ab/abababababababababababababababab.arrayrecord",
            "annotations/sets/a b/p/root.json",
            "annotations/sets/a/p/notes/root.json",
            "annotations/catalogs/ab.json",
            "dataset_info.json",
        ] {
            assert_eq!(of(foreign), Shape::Foreign, "{foreign}");
        }
        let groups = |a: &str, b: &str| {
            let of = |text: &str| {
                let path = RelPath::parse(&text.replace("HEX", &hex64)).unwrap();
                match shape(&path) {
                    Shape::Named(kind) => group(&path, kind),
                    other => panic!("{other:?}"),
                }
            };
            of(a) == of(b)
        };
        assert!(groups("objects/data/ab/HEX.arrayrecord", "objects/metadata/ab/HEX.arrayrecord"));
        assert!(groups("snapshots/v-1/snapshot.json", "manifests/0f/v-1-00000000.json"));
        assert!(!groups("snapshots/v/snapshot.json", "manifests/0f/v-1-00000000.json"));
        assert!(groups("annotations/sets/a/p/root.json", "annotations/sets/a/p/shards/ab/HEX.json"));
        assert!(!groups("annotations/sets/a/p/root.json", "annotations/sets/a/q/root.json"));
    }
}
