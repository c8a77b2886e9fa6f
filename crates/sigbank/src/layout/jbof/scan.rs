//! Looking at many items at once: whether what was read of them before still stands, and their documents where it does not.

use super::dataset::Dataset;
use super::{ROOT, documents, names};
use crate::error::{Code, Result};
use crate::store::DirEntry;
use crate::uri::RelPath;
use bytes::Bytes;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use serde_json::Value;
use sigbank_format::model::json::{Json, Limits};
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};
use xxhash_rust::xxh3::xxh3_128;

/// Filesystems tell times in steps of up to so much: what changed less long ago may change again without showing it.
const STEP: Duration = Duration::from_millis(100);

/// The document of an item.
#[derive(Debug, Clone)]
pub(crate) enum Document {
    /// A JSON object.
    Object(Json),
    /// Anything else, as it stands: with Python's NaN in it, another kind of value, damaged.
    Other(Bytes),
}

impl Document {
    /// What of it is metadata: of an object with words for numbers that are none, null in their place; of anything else nothing.
    pub(crate) fn metadata(&self) -> Json {
        match self {
            Self::Object(json) => json.clone(),
            Self::Other(text) => {
                let object = documents::object(text).ok();
                object.and_then(|object| Json::from_value(&Value::Object(object)).ok()).unwrap_or(Json::EMPTY)
            }
        }
    }
}

/// What of the text of a document is to be compared where it has infinities, which its metadata have null for; none where it has none.
pub(crate) fn with_infinities(text: &[u8]) -> Option<Json> {
    documents::with_infinities(text)
}

/// What tells whether a file or directory is still the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// A digest of its inode, times and size; never 0.
    pub(crate) digest: u128,
    /// Whether every later change shows: its times lie far enough before the look at it.
    pub(crate) lasting: bool,
}

impl Stamp {
    /// What can be kept, and compared with a digest of later: 0 is equal to none.
    pub(crate) fn kept(self) -> u128 {
        if self.lasting { self.digest } else { 0 }
    }
}

/// Looks at the files of a data set on a local disk. What it reads must be read after it was made.
#[derive(Debug)]
pub(crate) struct Looker {
    root: Option<OwnedFd>,
    /// Nanoseconds since 1970; what changed later than that may change again unseen.
    before: i128,
}

impl Looker {
    pub(crate) fn new(dataset: &Dataset) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = dataset.local_root().and_then(|root| rustix::fs::open(root, flags, Mode::empty()).ok());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { root, before: i128::try_from(now.saturating_sub(STEP).as_nanos()).unwrap_or(0) }
    }

    fn stamp(&self, stat: &Stat) -> Stamp {
        let nanos = |seconds: i64, nanos: i128| i128::from(seconds) * 1_000_000_000 + nanos;
        let modified = nanos(stat.st_mtime, stat.st_mtime_nsec.into());
        let changed = nanos(stat.st_ctime, stat.st_ctime_nsec.into());
        // Not the device: its number is another after the next mount.
        let parts = [i128::from(stat.st_ino), modified, changed, i128::from(stat.st_size)];
        let mut bytes = [0; 64];
        for (slot, part) in bytes.chunks_exact_mut(16).zip(parts) {
            slot.copy_from_slice(&part.to_le_bytes());
        }
        Stamp { digest: xxh3_128(&bytes).max(1), lasting: modified < self.before && changed < self.before }
    }
    fn stat(&self, path: &str) -> Option<Result<Stat, Errno>> {
        self.root.as_ref().map(|root| rustix::fs::statat(root, path, AtFlags::empty()))
    }

    /// Of the root, which changes where items come and go; none where it is on no local disk.
    pub(crate) fn root(&self) -> Option<Stamp> {
        let stat = rustix::fs::fstat(self.root.as_ref()?).ok()?;
        Some(self.stamp(&stat))
    }
    /// Of an item's document; none where only reading tells.
    pub(crate) fn document(&self, item: &str) -> Option<Stamp> {
        let stat = self.stat(&format!("{item}/{ROOT}"))?.ok()?;
        Some(self.stamp(&stat))
    }
    /// Of an item's directory and its arrays, given by name and file; none where only reading tells.
    pub(crate) fn arrays<'a>(&self, item: &str, arrays: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Option<Stamp> {
        let first = self.stamp(&self.stat(item)?.ok()?);
        let (mut digests, mut lasting) = (first.digest.to_le_bytes().to_vec(), first.lasting);
        for (name, file) in arrays {
            for path in [Some(format!("{item}/{name}.json")), file.map(|file| format!("{item}/{file}"))].into_iter().flatten() {
                let stamp = self.stamp(&self.stat(&path)?.ok()?);
                digests.extend_from_slice(&stamp.digest.to_le_bytes());
                lasting &= stamp.lasting;
            }
        }
        Some(Stamp { digest: xxh3_128(&digests).max(1), lasting })
    }
}

impl Looker {
    /// An item's document and its stamp, in half the calls that the store needs; none where the store has to say what is there.
    fn read(&self, item: &str) -> Option<(Bytes, Stamp)> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let path = format!("{item}/{ROOT}");
        let file = rustix::fs::openat2(self.root.as_ref()?, path, flags, Mode::empty(), resolve).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        let size = usize::try_from(stat.st_size).ok().filter(|size| *size as u64 <= Limits::default().max_bytes)?;
        let mut text = vec![0; size];
        let read = rustix::io::pread(&file, &mut text[..], 0).ok()?;
        (read == size && rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()).then(|| (text.into(), self.stamp(&stat)))
    }
}

/// Whether a text can be the name of a directory that [`candidates`] gives.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && !names::is_hidden(name) && !name.contains(['/', '\\', '\0'])
}

/// The names of all directories that may be items, sorted.
pub(crate) fn candidates(dataset: &Dataset) -> Result<Vec<String>> {
    let entries = dataset.store().list_dir(None)?.into_iter();
    Ok(entries
        .filter_map(|entry| match entry {
            DirEntry::Dir(path) if !names::is_hidden(path.as_str()) => Some(path.as_str().to_owned()),
            _ => None,
        })
        .collect())
}

/// An item's document and the stamp that it can be kept under; none for a directory that is no item (any more).
pub(crate) fn document(dataset: &Dataset, looker: &Looker, item: &str) -> Result<Option<(Document, u128)>> {
    let (text, stamp) = match looker.read(item) {
        Some((text, stamp)) => (text, stamp.kept()),
        None => match documents::text(&**dataset.store(), &RelPath::parse(item)?.join(ROOT)?) {
            Ok(text) => (text, 0),
            Err(e) if e.code() == Code::NotFound => return Ok(None),
            // A link leads out of the data set: an item that cannot be read, as a damaged one.
            Err(e) if e.code() == Code::Invalid => (Bytes::new(), 0),
            Err(e) => return Err(e),
        },
    };
    let document = match Json::parse(&text, &Limits::default()) {
        Ok(json) if json.is_object() => Document::Object(json),
        _ => Document::Other(text),
    };
    Ok(Some((document, stamp)))
}

/// Whether a document is JSON, or would be but for Python's words for numbers that are none.
pub(crate) fn is_readable(text: &[u8]) -> bool {
    Json::parse(text, &Limits::default()).is_ok() || documents::object(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::{Creation, Dataset};
    use super::*;

    #[test]
    fn what_changed_just_now_is_not_taken_for_lasting() {
        let dir = tempfile::tempdir().unwrap();
        let dataset = Dataset::create(&dir.path().join("set"), &Creation::default()).unwrap();
        dataset.add_item(Some("a"), &Json::EMPTY).unwrap();
        let look = || {
            let looker = Looker::new(&dataset);
            [looker.document("a").unwrap(), looker.arrays("a", []).unwrap(), looker.root().unwrap(), looker.read("a").unwrap().1]
        };
        let before = look();
        assert!(before.iter().all(|stamp| !stamp.lasting && stamp.kept() == 0));
        std::thread::sleep(STEP + Duration::from_millis(50));
        let after = look();
        assert!(after.iter().all(|stamp| stamp.lasting && stamp.kept() == stamp.digest));
        assert_eq!(before.map(|stamp| stamp.digest), after.map(|stamp| stamp.digest));
        assert_eq!(after[0], after[3]);
        assert!(Looker::new(&dataset).arrays("a", [("gone", None)]).is_none());
    }
}
