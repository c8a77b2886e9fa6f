//! Texts of lists whose place is taken. Lists have fixed names, so a list that a worker wrote may later be in the way of
//! another one's, or the other way round. What its info stands for is then kept here, `.sigbank/lists/<checksum>.json`, and
//! found by the checksum that the info gives: an info always means exactly what its session wrote.

use super::lists::FileInfo;
use super::state::compare;
use crate::error::{Code, Error, Result};
use crate::store::Store;
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::checksum::Algorithm;

/// Where a text of this checksum is kept; none where the dataset uses no checksums.
fn place(checksums: &[String]) -> Result<Option<RelPath>> {
    let Some(first) = checksums.first() else { return Ok(None) };
    // It comes from outside, and becomes a name.
    if first.is_empty() || !first.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(Error::invalid(format!("hash_checksums: '{first}' is no checksum")));
    }
    RelPath::parse(".sigbank/lists")?.join(&format!("{first}.json")).map(Some)
}

/// Keeps the bytes of a list; gives their place where they had to be written.
pub(super) fn keep(store: &dyn Store, checksums: &[String], bytes: &[u8]) -> Result<Option<RelPath>> {
    let Some(place) = place(checksums)? else { return Ok(None) };
    match store.create(&place, &[bytes]) {
        Ok(()) => Ok(Some(place)),
        Err(e) if e.code() == Code::AlreadyExists => match store.get(&place)? == bytes {
            true => Ok(None),
            false => Err(Error::conflict("two lists have the same checksum").at(store.locate(&place))),
        },
        Err(e) => Err(e),
    }
}

/// The bytes of a list as an info describes it: those that lie at its path, or those kept here. Says whether they are in place.
///
/// # Errors
/// `NotFound` where no list is there, `Invalid` where it is not the one that is described.
pub(super) fn find(store: &dyn Store, algorithms: &[Algorithm], file: &FileInfo) -> Result<(Bytes, bool)> {
    let there = match store.get(&file.path) {
        Ok(bytes) => Some(bytes),
        Err(e) if e.code() == Code::NotFound => None,
        Err(e) => return Err(e),
    };
    let mut stale = None;
    if let Some(bytes) = there {
        match compare(algorithms, file, &[&bytes]) {
            Ok(()) => return Ok((bytes, true)),
            Err(e) => stale = Some(e.message().to_owned()),
        }
    }
    if let Some(place) = place(&file.checksums)? {
        match store.get(&place) {
            Ok(bytes) if compare(algorithms, file, &[&bytes]).is_ok() => return Ok((bytes, false)),
            Err(e) if e.code() != Code::NotFound => return Err(e),
            _ => {}
        }
    }
    Err(match stale {
        Some(text) => Error::invalid(format!("the list has changed since it was described: {text}"))
            .remedy("give the info that the last session with this path returned; nothing was changed"),
        None => Error::not_found("the list that is described is not there")
            .remedy("give infos of this dataset's own workers, and copy what they wrote as a whole; nothing was changed"),
    }
    .at(store.locate(&file.path)))
}
