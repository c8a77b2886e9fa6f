//! One object from one store to another.

use crate::error::{Code, Error, Result};
use crate::layout::{Entrance, Object};
use crate::store::{Expected, ObjectMeta, Store, StoreFile, Version};
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::checksum::{Algorithm, MultiHasher, digest_all};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are read and written at once.
const CHUNK: usize = 1 << 20;
/// Objects up to this size are written in one step.
const SMALL: u64 = CHUNK as u64;
/// Objects up to this size are replaced, which is one step, for which they are read into memory.
const REPLACED: u64 = 2 << 30;

/// From where to where.
pub(super) struct Transfer<'a> {
    pub(super) from: &'a dyn Store,
    pub(super) to: &'a dyn Store,
    /// Held while a large object is in memory.
    large: Mutex<()>,
}

impl<'a> Transfer<'a> {
    pub(super) fn new(from: &'a dyn Store, to: &'a dyn Store) -> Self {
        Self { from, to, large: Mutex::new(()) }
    }

    /// The bytes of a document, as it is named.
    pub(super) fn read(&self, object: &Object) -> Result<Bytes> {
        if let Some(bytes) = &object.bytes {
            return Ok(bytes.clone());
        }
        let bytes = match object.size {
            Some(size) => self.from.get_at_most(&object.path, size),
            None => self.from.get(&object.path),
        };
        let bytes = bytes.map_err(|e| if e.code() == Code::Limit { changed(object, self.from) } else { e })?;
        let digests = digest_all(&algorithms(object), &[&bytes]);
        if object.size.is_some_and(|size| size != bytes.len() as u64) || !same(object, &digests) {
            return Err(changed(object, self.from));
        }
        Ok(bytes)
    }

    /// Copies an object that is not there; whoever puts the same there meanwhile is welcome. Says whether a digest was compared.
    pub(super) fn copy(&self, object: &Object, size: u64) -> Result<bool> {
        let taken = match self.put(object, size) {
            Err(e) if e.code() == Code::AlreadyExists => e,
            done => return done,
        };
        // Another copy was first, or the answer to our own attempt was lost.
        match there(self.from, self.to, object, size, Care { hash: true, compare: true, update: false, replace: false }) {
            Ok(There::Same) => Ok(!object.digests.is_empty()),
            Ok(_) => Err(taken),
            Err(e) => Err(e),
        }
    }

    /// Puts an object in the place of another of its name: of the one that was looked at, where the store can tell. Says whether a digest
    /// was compared.
    pub(super) fn put_over(&self, object: &Object, size: u64, old: &Old) -> Result<bool> {
        // Each is in memory as a whole.
        let _turn = (size > SMALL).then(|| self.large.lock().unwrap_or_else(PoisonError::into_inner));
        let bytes = self.read(&Object { size: Some(size), ..object.clone() })?;
        let version = old.version.as_ref().filter(|_| self.to.capabilities().compare_and_swap);
        self.exchange(&object.path, &bytes, version.map_or(Expected::Any, Expected::Version))?;
        Ok(!object.digests.is_empty())
    }

    fn put(&self, object: &Object, size: u64) -> Result<bool> {
        if object.bytes.is_some() || size <= SMALL {
            let object = Object { size: Some(size), ..object.clone() };
            self.to.create(&object.path, &[&self.read(&object)?])?;
            return Ok(!object.digests.is_empty());
        }
        let file = self.from.open_known(&object.path, Some(size), object.digest().as_deref())?;
        let mut hasher = MultiHasher::new(&algorithms(object));
        let mut new = self.to.write_new(&object.path)?;
        let written = pass(file, |part| {
            hasher.update(part);
            new.write_all(part).map_err(|e| Error::from(e).at(self.to.locate(&object.path)))
        })?;
        if written != size || !same(object, &hasher.finish()) {
            return Err(changed(object, self.from));
        }
        new.commit()?;
        Ok(!object.digests.is_empty())
    }

    /// Puts a document that readers begin at.
    pub(super) fn open_up(&self, entrance: &Entrance) -> Result<()> {
        let catalog = entrance.path.as_str().starts_with("annotations/");
        let _held = if catalog { Some(crate::layout::signal_dataset::hold_catalog(self.to)?) } else { None };
        let expected = entrance.replaces.as_ref().map_or(Expected::Absent, Expected::Version);
        self.exchange(&entrance.path, &entrance.bytes, expected)
    }

    fn exchange(&self, path: &RelPath, bytes: &Bytes, expected: Expected<'_>) -> Result<()> {
        let e = match self.to.replace(path, &[bytes], expected) {
            Ok(_) => return Ok(()),
            Err(e) => e,
        };
        match (e.code(), self.to.get_at_most(path, bytes.len() as u64)) {
            // The answer was lost, or another copy was first.
            (_, Ok(there)) if there == *bytes => Ok(()),
            (Code::Conflict | Code::AlreadyExists, _) => Err(Error::conflict("it was changed at the destination meanwhile")
                .at(self.to.locate(path))
                .remedy("run it again: it looks at what is there now")),
            _ => Err(e),
        }
    }
}

fn algorithms(object: &Object) -> Vec<Algorithm> {
    object.digests.iter().map(|(algorithm, _)| *algorithm).collect()
}

fn same(object: &Object, found: &[String]) -> bool {
    object.digests.iter().map(|(_, digest)| digest).eq(found)
}

/// Hands on all bytes of an object; gives their number.
fn pass(file: Arc<dyn StoreFile>, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
    let location = file.location().to_owned();
    let (mut stream, mut buffer, mut all) = (file.stream(), vec![0; CHUNK], 0);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(all),
            Ok(n) => {
                take(buffer.get(..n).unwrap_or_default())?;
                all += n as u64;
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::from(e).at(location)),
        }
    }
}

/// How what is at a destination already is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Care {
    /// It must have its digest, or be the bytes, where one is known.
    pub(super) hash: bool,
    /// Without a digest it is compared with the source.
    pub(super) compare: bool,
    /// There is a dataset, which is brought forward.
    pub(super) update: bool,
    /// What differs is replaced.
    pub(super) replace: bool,
}

/// What is at a destination under an object's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum There {
    /// Nothing.
    Nothing,
    /// The object.
    Same,
    /// Something else, which is to be replaced.
    Other(Old),
}

/// What is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Old {
    /// Which version that is, where the store tells it for nothing.
    version: Option<Version>,
}

impl Care {
    /// Whether more than the size of an object is compared.
    pub(super) fn compares(self, object: &Object) -> bool {
        self.compare || (self.hash && (object.bytes.is_some() || !object.digests.is_empty()))
    }
}

/// Whether the object is at its destination, where it must be as long as it is named.
pub(super) fn there(from: &dyn Store, to: &dyn Store, object: &Object, size: u64, care: Care) -> Result<There> {
    let Care { hash, compare, update, replace } = care;
    let other = |what: &str, found: ObjectMeta| {
        let location = to.locate(&object.path);
        if replace && size <= REPLACED {
            return Ok(There::Other(Old { version: found.version }));
        }
        if replace {
            return Err(Error::limit(format!(
                "it changed at the source; files above {REPLACED} bytes are not replaced, and it has {size}"
            ))
            .at(location)
            .remedy("delete it at the destination, then run it again"));
        }
        let e = Error::already_exists(format!("{what}: this is not what the source has under this name"));
        Err(e.at(location).remedy(match update {
            true => {
                "nothing that is there is replaced: where the source is right, delete this object at the destination and run it again"
            }
            false => {
                "if it is what is left of an older or damaged copy, delete it and run the copy again (of JBOF, sigbank sync replaces it); else choose another place"
            }
        }))
    };
    let found = match to.head(&object.path) {
        Err(e) if e.code() == Code::NotFound => return Ok(There::Nothing),
        found => found?,
    };
    if found.size != size {
        return other(&format!("it has {} bytes, {size} at the source", found.size), found);
    }
    let digests_of = |store: &dyn Store, algorithms: &[Algorithm]| {
        let mut hasher = MultiHasher::new(algorithms);
        pass(store.open_known(&object.path, Some(size), None)?, |part| {
            hasher.update(part);
            Ok(())
        })?;
        Ok::<_, Error>(hasher.finish())
    };
    let equal = match &object.bytes {
        Some(bytes) if hash => *to.get(&object.path)? == **bytes,
        _ if hash && !object.digests.is_empty() => same(object, &digests_of(to, &algorithms(object))?),
        _ if compare => digests_of(to, &[Algorithm::Sha256])? == digests_of(from, &[Algorithm::Sha256])?,
        _ => true,
    };
    if equal { Ok(There::Same) } else { other("its bytes are others", found) }
}

fn changed(object: &Object, from: &dyn Store) -> Error {
    Error::corrupt("its bytes are not those that the document which names it says")
        .at(from.locate(&object.path))
        .remedy("it is damaged, or was replaced while it was copied: check the source, then run the copy again")
}
