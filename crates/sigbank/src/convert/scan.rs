//! Which files of a folder are recordings, which are litter of an operating system, and which are neither.

use crate::error::{Error, Result};
use crate::layout::jbof;
use crate::store::LocalStore;
use std::fs;
use std::path::{Path, PathBuf};

/// Endings of the files that [`super::pack`] reads, in lower case; upper case counts the same.
pub const ENDINGS: [&str; 7] = ["wav", "wave", "flac", "ogg", "oga", "npy", "npz"];

/// A file that looks like a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its path relative to the folder, with `/` between the parts; the folder's own name before it where several folders
    /// are packed.
    pub source: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
}

/// What cannot be packed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unpackable {
    /// As [`Candidate::source`].
    pub source: String,
    /// Where it is.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// What was found in the folders, each list sorted by the bytes of the path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Files that look like recordings.
    pub candidates: Vec<Candidate>,
    /// Files and folders that an operating system or an editor left behind (`.DS_Store`, `._a.wav`, `__MACOSX` …).
    pub litter: u64,
    /// Files of other kinds.
    pub others: Vec<String>,
    /// What cannot be packed: dangling links, links to a parent folder, names that are not UTF-8.
    pub bad: Vec<Unpackable>,
}

/// Walks folders (a file may stand for a folder of one). Links are followed, but not to a folder that they lie in.
///
/// # Errors
/// `NotFound` names a folder that is not there; `Invalid` where two folders have the same name, so that `source` could not
/// tell their files apart; `Storage` and `ReadOnly` name a folder that cannot be listed.
///
/// ```
/// let dir = tempfile::tempdir()?;
/// std::fs::write(dir.path().join("b.WAV"), b"")?;
/// std::fs::write(dir.path().join("._b.WAV"), b"")?;
/// std::fs::write(dir.path().join("notes.txt"), b"")?;
/// let found = sigbank::convert::scan(&[dir.path().to_path_buf()])?;
/// assert_eq!(found.candidates.len(), 1);
/// assert_eq!(found.candidates[0].source, "b.WAV");
/// assert_eq!((found.litter, found.others), (1, vec!["notes.txt".to_string()]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn scan(folders: &[PathBuf]) -> Result<Found> {
    scan_for(&ENDINGS, folders)
}

/// [`scan`] for files of other endings.
pub(super) fn scan_for(endings: &[&str], folders: &[PathBuf]) -> Result<Found> {
    let mut found = Found::default();
    let mut names = Vec::new();
    for folder in folders {
        let at = |e: std::io::Error| Error::from(e).at(folder.display()).remedy("check the path of the folder of recordings");
        let real = fs::canonicalize(folder).map_err(at)?;
        if real.is_dir() {
            let prefix = match (folders.len(), real.file_name()) {
                (0 | 1, _) => String::new(),
                (_, name) => name.map(|n| n.to_string_lossy().into_owned()).unwrap_or_default() + "/",
            };
            if names.contains(&prefix) {
                return Err(Error::invalid(
                    "another of the folders has the same name, so that what is said of the source could not tell their files apart",
                )
                .at(folder.display())
                .remedy("give the folder that holds both, or rename one"));
            }
            names.push(prefix.clone());
            walk(endings, folder, &prefix, &mut vec![real], &mut found)?;
        } else {
            let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
            if found.candidates.iter().any(|c| c.source == name) {
                return Err(Error::invalid("another of the files has the same name")
                    .at(folder.display())
                    .remedy("give the folder that holds both"));
            }
            file(endings, folder.clone(), name, fs::metadata(folder).map_err(at)?.len(), &mut found);
        }
    }
    found.candidates.sort_by(|a, b| a.source.cmp(&b.source));
    found.others.sort();
    found.bad.sort();
    Ok(found)
}

/// Refuses JBOF data sets: of their items only the files would be taken.
pub(super) fn refuse_data_sets(folders: &[PathBuf]) -> Result<()> {
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        if jbof::is_data_set(&LocalStore::open(folder)?)? {
            return Err(Error::invalid("this is a JBOF data set: packing its files would lose the metadata of its items")
                .at(folder.display())
                .remedy("to take its audio and arrays all the same, without their metadata: --as-files"));
        }
    }
    Ok(())
}

fn walk(endings: &[&str], folder: &Path, prefix: &str, above: &mut Vec<PathBuf>, found: &mut Found) -> Result<()> {
    let at = |e: std::io::Error| Error::from(e).at(folder.display());
    for entry in fs::read_dir(folder).map_err(at)? {
        let entry = entry.map_err(at)?;
        let path = entry.path();
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            let shown = format!("{prefix}{}", entry.file_name().to_string_lossy());
            found.bad.push(unpackable(shown, path, "the name is not UTF-8 and cannot be stored in 'source'"));
            continue;
        };
        let source = format!("{prefix}{name}");
        if is_litter(&name) {
            found.litter += 1;
            continue;
        }
        let kind = match fs::metadata(&path) {
            Ok(kind) => kind,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                found.bad.push(unpackable(source, path, "a link that leads nowhere"));
                continue;
            }
            Err(e) => {
                found.bad.push(unpackable(source, path, &e.to_string()));
                continue;
            }
        };
        if kind.is_dir() {
            let real = fs::canonicalize(&path).map_err(|e| Error::from(e).at(path.display()))?;
            if above.contains(&real) {
                found.bad.push(unpackable(source, path, "a link to a folder that it lies in"));
                continue;
            }
            above.push(real);
            walk(endings, &path, &format!("{source}/"), above, found)?;
            above.pop();
        } else if kind.is_file() {
            file(endings, path, source, kind.len(), found);
        } else {
            found.others.push(source);
        }
    }
    Ok(())
}

fn unpackable(source: String, path: PathBuf, reason: &str) -> Unpackable {
    Unpackable { source, path, reason: reason.to_owned() }
}

fn file(endings: &[&str], path: PathBuf, source: String, size: u64, found: &mut Found) {
    let ending = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    if endings.contains(&ending.as_str()) {
        found.candidates.push(Candidate { source, path, size });
    } else {
        found.others.push(source);
    }
}

/// Names that operating systems, editors and network file systems leave behind: never data, whatever their ending.
fn is_litter(name: &str) -> bool {
    const NAMES: [&str; 13] = [
        ".ds_store",
        "__macosx",
        "thumbs.db",
        "ehthumbs.db",
        "desktop.ini",
        "__pycache__",
        ".ipynb_checkpoints",
        ".git",
        "@eadir",
        "$recycle.bin",
        "system volume information",
        ".spotlight-v100",
        ".fseventsd",
    ];
    NAMES.contains(&name.to_ascii_lowercase().as_str())
        || name.starts_with("._")
        || name.starts_with(".nfs")
        || name.starts_with(".Trash")
        || name.ends_with('~')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn tree(names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        dir
    }

    fn sources(found: &Found) -> Vec<&str> {
        found.candidates.iter().map(|c| c.source.as_str()).collect()
    }

    #[test]
    fn litter_changes_nothing_but_its_count() {
        let data = ["train_1.wav", "valid/test.wav", "a.b/22.05.FLAC"];
        let clean = scan(&[tree(&data).path().into()]).unwrap();
        let litter = [
            ".DS_Store",
            "._train_1.wav",
            "__MACOSX/x.wav",
            "Thumbs.db",
            "valid/desktop.ini",
            "__pycache__/a.npy",
            "a.wav~",
            ".nfs0001",
        ];
        let dir = tree(&data);
        for l in litter {
            let path = dir.path().join(l);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        fs::create_dir(dir.path().join(".ipynb_checkpoints")).unwrap();
        let found = scan(&[dir.path().into()]).unwrap();
        assert_eq!(sources(&found), ["a.b/22.05.FLAC", "train_1.wav", "valid/test.wav"]);
        assert_eq!(sources(&found), sources(&clean));
        assert_eq!((found.litter, clean.litter, found.others.len()), (9, 0, 0));
    }

    #[test]
    fn other_files_are_listed() {
        let found = scan(&[tree(&["a.txt", "b/c.mp3", "x.npy", ".take.wav", "noending"]).path().into()]).unwrap();
        assert_eq!(found.others, ["a.txt", "b/c.mp3", "noending"]);
        assert_eq!(sources(&found), [".take.wav", "x.npy"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_but_not_in_circles() {
        use std::os::unix::ffi::OsStrExt as _;
        use std::os::unix::fs::symlink;
        let dir = tree(&["a/x.wav", "b/y.wav"]);
        symlink("../a", dir.path().join("b/more")).unwrap();
        symlink("..", dir.path().join("b/up")).unwrap();
        symlink("nowhere.wav", dir.path().join("gone.wav")).unwrap();
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"\xff.wav")), "").unwrap();
        let found = scan(&[dir.path().into()]).unwrap();
        assert_eq!(sources(&found), ["a/x.wav", "b/more/x.wav", "b/y.wav"]);
        let bad: Vec<_> = found.bad.iter().map(|b| b.source.as_str()).collect();
        assert_eq!(bad, ["b/up", "gone.wav", "\u{fffd}.wav"]);
        assert!(found.bad.iter().all(|b| b.path.starts_with(dir.path()) && b.path.symlink_metadata().is_ok()));
    }

    #[test]
    fn data_sets_of_jbof_are_told_from_folders_of_files() {
        let dir = tree(&["speech/take/a.wav", "plain/_metadata.json", "plain/a.wav"]);
        let folders = ["plain", "speech"].map(|name| dir.path().join(name)).to_vec();
        refuse_data_sets(&folders).unwrap();
        fs::write(dir.path().join("speech/_metadata.json"), r#"{"_itemformat": null}"#).unwrap();
        let e = refuse_data_sets(&folders).unwrap_err();
        assert!(e.code() == Code::Invalid && e.path().unwrap().ends_with("speech"), "{e}");
        assert!(e.message().contains("JBOF") && e.remedy_text().unwrap().contains("--as-files"), "{e}");
    }

    #[test]
    fn several_folders_carry_their_names() {
        let dir = tree(&["one/x.wav", "two/x.wav", "deep/one/x.wav"]);
        let at = |p: &str| dir.path().join(p);
        assert_eq!(sources(&scan(&[at("one"), at("two")]).unwrap()), ["one/x.wav", "two/x.wav"]);
        assert_eq!(scan(&[at("one"), at("deep/one")]).unwrap_err().code(), Code::Invalid);
        let missing = scan(&[at("three")]).unwrap_err();
        assert_eq!(missing.code(), Code::NotFound);
        assert!(missing.path().unwrap().ends_with("three"));
        assert_eq!(sources(&scan(&[at("one/x.wav")]).unwrap()), ["x.wav"]);
    }
}
