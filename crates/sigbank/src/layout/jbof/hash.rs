//! One digest of all items, as the reference computes it.

use super::dataset::Dataset;
use super::names;
use crate::error::{Error, Result};
use crate::store::{DirEntry, ReadAt, Sequential, Store};
use crate::uri::RelPath;
use rustix::fs::{FileType, Mode, OFlags};
use sigbank_format::checksum::{Algorithm, Hasher};
use std::collections::HashSet;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A digest in hex, which sorts as its bytes do.
pub(super) type Sum = String;

impl Dataset {
    /// The hex MD5 of all items: of the sorted digests of the items, each the MD5 of the sorted digests of its files. The data set's own
    /// metadata, names, and files in the root do not count, and neither does what is being added or deleted right now. Runs on `threads`
    /// threads; 0: one a core.
    ///
    /// # Errors
    /// Those of reading, naming the file.
    ///
    /// ```
    /// use sigbank::layout::jbof::{Creation, Dataset};
    /// let dir = tempfile::tempdir()?;
    /// let dataset = Dataset::create(&dir.path().join("a"), &Creation::default())?;
    /// assert_eq!(dataset.hash(1)?, "d41d8cd98f00b204e9800998ecf8427e");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hash(&self, threads: usize) -> Result<String> {
        let names = self.item_names()?;
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let next = AtomicUsize::new(0);
        let sums: Mutex<Vec<Sum>> = Mutex::new(Vec::with_capacity(names.len()));
        let work = || -> Result<()> {
            let mut block = vec![0; 1 << 18];
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                let near = self.directory().and_then(|root| near(root, name, &mut block));
                let sum = near.map_or_else(|| item(&**self.store(), &RelPath::parse(name)?, &mut block), Ok)?;
                sums.lock().unwrap_or_else(PoisonError::into_inner).push(sum);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads.min(names.len())).map(|_| scope.spawn(work)).collect();
            let mine = work();
            others.into_iter().map(|other| other.join().unwrap_or_else(|_| Err(ended()))).fold(mine, Result::and)
        })?;
        let sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(of_sorted(sums))
    }
}

fn ended() -> Error {
    Error::storage("a thread that hashes ended unexpectedly: this is a defect of sigbank, please report it")
}

/// The digest of bytes.
pub(super) fn of_bytes(bytes: &[u8]) -> Sum {
    let mut md5 = Algorithm::Md5.hasher();
    md5.update(bytes);
    md5.finish()
}

/// The digest of the raw bytes of sorted digests.
pub(super) fn of_sorted(mut sums: Vec<Sum>) -> Sum {
    sums.sort_unstable();
    let mut md5 = Algorithm::Md5.hasher();
    for sum in sums {
        let raw = (0..sum.len()).step_by(2).filter_map(|at| u8::from_str_radix(sum.get(at..at + 2)?, 16).ok());
        md5.update(&raw.collect::<Vec<u8>>());
    }
    md5.finish()
}

/// How often an item is listed again where a data file has no document: another process may be between the two.
const LOOKS: usize = 3;

/// The files that lie in an item, without litter and what is being added or deleted; and the names of those that could be an array but have no document,
/// so that they are none.
pub(super) fn files(store: &dyn Store, dir: &RelPath) -> Result<(Vec<RelPath>, Vec<String>)> {
    let mut look = 1;
    loop {
        let listed = store.list_dir(Some(dir))?.into_iter().filter_map(|entry| match entry {
            DirEntry::Object(entry) if !names::is_litter(entry.path.file_name()) => Some(entry.path),
            _ => None,
        });
        let mut files: Vec<RelPath> = listed.collect();
        let documents: HashSet<&str> = files.iter().filter_map(|path| path.file_name().strip_suffix(".json")).collect();
        let mut alone: Vec<String> = files
            .iter()
            .map(|path| path.file_name())
            .filter(|file| is_alone(file, |stem| documents.contains(stem)))
            .map(str::to_owned)
            .collect();
        let underway = if alone.is_empty() { None } else { super::write::underway(store, dir)? };
        let known = underway.filter(|file| alone.contains(file));
        if known.is_none() && !alone.is_empty() && look < LOOKS {
            look += 1;
            continue;
        }
        if let Some(underway) = known {
            files.retain(|path| path.file_name() != underway);
            alone.retain(|file| *file != underway);
        }
        return Ok((files, alone));
    }
}

/// Whether a file could be an array and has no document.
fn is_alone(file: &str, has_document: impl Fn(&str) -> bool) -> bool {
    let (stem, extension) = file.rsplit_once('.').unwrap_or_default();
    names::is_array_extension(extension) && !has_document(stem)
}

fn item(store: &dyn Store, dir: &RelPath, block: &mut [u8]) -> Result<Sum> {
    let (files, _) = files(store, dir)?;
    let sums = files.iter().map(|path| file(store, path, block)).collect::<Result<_>>()?;
    Ok(of_sorted(sums))
}

/// The digest of an item in a local directory, in few calls; none where that is not so simple: links, an array underway, an error to be told.
fn near(root: &OwnedFd, name: &str, block: &mut [u8]) -> Option<Sum> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let dir = rustix::fs::openat(root, name, flags, Mode::empty()).ok()?;
    let mut files: Vec<String> = Vec::new();
    for entry in rustix::fs::Dir::read_from(&dir).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name().to_str().ok()?;
        match entry.file_type() {
            _ if matches!(name, "." | "..") => {}
            FileType::RegularFile if !names::is_litter(name) => files.push(name.to_owned()),
            FileType::RegularFile | FileType::Directory => {}
            _ => return None,
        }
    }
    let stem_has_document = |stem: &str| files.iter().any(|file| file.strip_suffix(".json") == Some(stem));
    if files.iter().any(|file| is_alone(file, stem_has_document)) {
        return None;
    }
    let mut sums = Vec::with_capacity(files.len());
    for file in &files {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&dir, file, flags, Mode::empty()).ok()?;
        let mut md5 = Algorithm::Md5.hasher();
        loop {
            let n = rustix::io::read(&file, &mut *block).ok()?;
            md5.update(block.get(..n)?);
            // A regular file gives less than is asked for at its end only.
            if n < block.len() {
                break;
            }
        }
        sums.push(md5.finish());
    }
    Some(of_sorted(sums))
}

pub(super) fn file(store: &dyn Store, path: &RelPath, block: &mut [u8]) -> Result<Sum> {
    let mut reader = Sequential::new(store.open_read(path)?);
    let mut md5 = Algorithm::Md5.hasher();
    loop {
        match reader.read(block)? {
            0 => return Ok(md5.finish()),
            n => md5.update(block.get(..n).unwrap_or_default()),
        }
    }
}

/// A file whose bytes are hashed as somebody reads them, mostly from its start to its end; the rest is read by [`Hashed::finish`].
pub(super) struct Hashed {
    src: Arc<dyn ReadAt>,
    /// How far from the start bytes were hashed.
    so_far: Mutex<(u64, Hasher)>,
}

impl Hashed {
    pub(super) fn new(src: Arc<dyn ReadAt>) -> Self {
        Self { src, so_far: Mutex::new((0, Algorithm::Md5.hasher())) }
    }

    /// The digest of the whole file.
    pub(super) fn finish(&self) -> sigbank_format::Result<Sum> {
        let mut block = vec![0; 1 << 18];
        loop {
            let at = self.so_far.lock().unwrap_or_else(PoisonError::into_inner).0;
            let left = usize::try_from(self.size() - at).unwrap_or(usize::MAX).min(block.len());
            match block.get_mut(..left) {
                Some(part) if left > 0 => self.read_at(at, part)?,
                _ => break,
            }
        }
        let mut so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::replace(&mut so_far.1, Algorithm::Md5.hasher()).finish())
    }
}

impl ReadAt for Hashed {
    fn size(&self) -> u64 {
        self.src.size()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> sigbank_format::Result<()> {
        self.src.read_at(offset, buf)?;
        let mut so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        // What was hashed is left out, and what does not follow it is for the end.
        let known = so_far.0.checked_sub(offset).and_then(|known| usize::try_from(known).ok());
        if let Some(new) = known.and_then(|known| buf.get(known..)).filter(|new| !new.is_empty()) {
            so_far.1.update(new);
            so_far.0 += new.len() as u64;
        }
        Ok(())
    }
}
