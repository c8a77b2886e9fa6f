//! Commits where the store has no locks, as object stores.
//!
//! The journal of a commit is an object whose name is the digest of the root that the commit starts from. It is created, never
//! replaced, so of all who start from one root one wins, and roots never come back: each either names more than any before it or
//! carries a new mark. Whoever meets a journal of the present root may carry it out, any number of processes at once. Three rules
//! make that safe:
//!
//! 1. A list is replaced only while it still is what it was before the root was seen to be the one that the journal starts from.
//!    So whoever was held up changes nothing after the commit is over.
//! 2. The root is replaced only in the place of the one that the journal starts from, after all lists.
//! 3. A journal is deleted only when the root has moved on. One that was created too late, for a root of the past, does nothing.
//!
//! What a commit adds is added once however often it is tried: a shard that is listed is not listed again.

use super::aside;
use super::commit::{Changes, Prepared, keeps_aside, prepare};
use super::info::ROOT;
use super::journal::{Journal, sha256};
use super::state::State;
use crate::error::{Code, Error, Result};
use crate::store::{Expected, Store, Version};
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::checksum::digest_all;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a commit is tried before it gives up. One that fails means that another one succeeded.
const ATTEMPTS: u32 = 400;
/// How often the lists of one journal are looked at again.
const ROUNDS: u32 = 50;
/// Requests in flight at once.
const AT_ONCE: usize = 16;
/// The longest that somebody else's commit is waited for before it is carried out here.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of lists before they are replaced: their version, or that there is none.
pub(super) type Known = HashMap<RelPath, Option<Version>>;

pub(super) fn place(root: &[u8]) -> Result<RelPath> {
    RelPath::parse(".sigbank/journals")?.join(&format!("{}.json", sha256(root)))
}

/// The journal of a commit that starts from this root, where one was begun.
pub(super) fn find(store: &dyn Store, root: &[u8]) -> Result<Option<Journal>> {
    match store.get(&place(root)?) {
        Ok(bytes) => Journal::parse(&bytes)
            .filter(|journal| journal.starts_from(root))
            .map(Some)
            .ok_or_else(|| Error::corrupt("this is no journal of a commit").remedy("find out what wrote it, and delete it")),
        Err(e) if e.code() == Code::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Finishes the commit that was begun on the present root; says whether there was one.
pub(super) fn recover(store: &dyn Store) -> Result<bool> {
    let root = store.get(&RelPath::parse(ROOT)?)?;
    let Some(journal) = find(store, &root)? else { return Ok(false) };
    carry_out(store, &journal, &Known::new())?;
    clear(store, &root);
    Ok(true)
}

/// The journal's object is of no use any more. Where it stays it does no harm.
fn clear(store: &dyn Store, old_root: &[u8]) {
    if let Ok(path) = place(old_root) {
        let _ = store.delete(&path);
    }
}

/// A number that differs between callers.
fn random() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().1
}

/// Waits some part of a time, so that those who met once do not meet again.
fn pause(most: Duration) {
    std::thread::sleep(most.mul_f64((random() % 1000) as f64 / 1000.0));
}

/// As [`super::commit::commit`].
pub(super) fn commit(store: &dyn Store, allow_newer: bool, make: &dyn Fn(&State) -> Result<Changes>) -> Result<bool> {
    let mut begun = false;
    for attempt in 0..ATTEMPTS {
        let start = Instant::now();
        let state = State::load(store, allow_newer, None)?;
        let took = start.elapsed().max(Duration::from_micros(50));
        let prepared = match make(&state).and_then(|changes| prepare(store, &state, changes)) {
            Ok(Some(prepared)) => prepared,
            Ok(None) => return Ok(begun),
            // Another commit has moved a list, or is about to move the root.
            Err(e) if matches!(e.code(), Code::Corrupt | Code::NotFound | Code::Invalid) => {
                match find(store, &state.root)? {
                    Some(journal) => help(store, &state.root, &journal, took)?,
                    None if store.get(&RelPath::parse(ROOT)?)? == state.root => return Err(e),
                    None => {}
                }
                continue;
            }
            Err(e) => return Err(e),
        };
        let Prepared { journal, known, .. } = prepared;
        if let Some(other) = claim(store, &state.root, &journal)? {
            if let Claimed::By(other) = other {
                help(store, &state.root, &other, took)?;
            }
            pause(took * attempt.min(8));
            continue;
        }
        begun = true;
        let done = carry_out(store, &journal, &known)
            .map_err(|e| e.within("the commit was begun and is not at its end: whoever writes or checks next finishes it"))?;
        clear(store, &state.root);
        if done {
            return Ok(true);
        }
    }
    Err(Error::conflict(format!("other writers changed the dataset first in each of {ATTEMPTS} attempts; nothing was committed"))
        .at(store.location())
        .remedy("commit less often, or with fewer writers at once, and try again"))
}

/// Puts a journal down that was made elsewhere, and carries it out. Says whether it took effect; else the root is another one by now.
pub(super) fn carry_through(store: &dyn Store, old_root: &[u8], journal: &Journal) -> Result<bool> {
    match claim(store, old_root, journal)? {
        Some(Claimed::By(other)) => help(store, old_root, &other, Duration::from_millis(20)).map(|()| false),
        Some(Claimed::Past) => Ok(false),
        None => {
            let done = carry_out(store, journal, &Known::new())?;
            clear(store, old_root);
            Ok(done)
        }
    }
}

/// Who else has the succession of a root.
enum Claimed {
    By(Box<Journal>),
    /// Somebody who was at its end meanwhile.
    Past,
}

/// Puts the journal down; gives what is there instead where somebody else was first.
fn claim(store: &dyn Store, root: &[u8], journal: &Journal) -> Result<Option<Claimed>> {
    let path = place(root)?;
    let bytes = journal.to_bytes()?;
    let Err(e) = store.create(&path, &[&bytes]) else { return Ok(None) };
    // The answer may have been lost, or this is another one's.
    match store.get(&path) {
        Ok(there) if there == bytes => Ok(None),
        Ok(_) => Ok(Some(find(store, root)?.map_or(Claimed::Past, |journal| Claimed::By(Box::new(journal))))),
        Err(gone) if gone.code() == Code::NotFound && e.code() == Code::AlreadyExists => Ok(Some(Claimed::Past)),
        Err(_) => Err(e),
    }
}

/// Waits until another one's commit is at its end; when that takes longer than it should, carries it out.
fn help(store: &dyn Store, root: &[u8], journal: &Journal, took: Duration) -> Result<()> {
    let name = RelPath::parse(ROOT)?;
    let patience = (took * 8 + took * (journal.lists.len() / AT_ONCE) as u32).min(PATIENCE);
    let start = Instant::now();
    while start.elapsed() < patience {
        pause(took * 4);
        if store.get(&name)? != root {
            return Ok(());
        }
    }
    carry_out(store, journal, &Known::new())?;
    clear(store, root);
    Ok(())
}

/// What a list was found to be.
#[derive(Clone)]
enum There {
    /// What the journal wants it to be.
    New,
    Other(Option<Version>),
}

/// Replaces the lists, then the root. Says whether the root is the journal's now; else it is neither that nor the one that the
/// journal starts from: the commit was at its end before, or was begun too late to have an effect.
///
/// # Errors
/// Those of the store, when they come again; the commit is not at its end then.
fn carry_out(store: &dyn Store, journal: &Journal, known: &Known) -> Result<bool> {
    let first = attempt(store, journal, known);
    match first {
        // What was done already is found to be.
        Err(e) if e.code() == Code::Storage => attempt(store, journal, &Known::new()),
        done => done,
    }
}

/// A list that is to be replaced.
struct Replacing<'a> {
    path: &'a RelPath,
    text: &'a str,
    there: Option<There>,
    /// The bytes that are there, where they were read.
    old: Option<Bytes>,
}

fn attempt(store: &dyn Store, journal: &Journal, known: &Known) -> Result<bool> {
    let root = RelPath::parse(ROOT)?;
    let lists = journal.lists.iter();
    let mut left: Vec<Replacing<'_>> = lists
        .map(|(path, text)| Replacing { path, text, there: known.get(path).cloned().map(There::Other), old: None })
        .collect();
    for round in 0..ROUNDS {
        // First what the lists are, then that the root has not moved: what is replaced below is what was there before it did.
        let found = all(&left, |list| match &list.there {
            Some(there) => Ok((there.clone(), None)),
            None => look(store, list.path, list.text),
        })?;
        for (list, found) in left.iter_mut().zip(found) {
            let (there, old) = found?;
            (list.there, list.old) = (Some(there), old);
        }
        let (now, version) = store.get_versioned(&root)?;
        if now == journal.root.as_bytes() {
            return Ok(true);
        }
        if !journal.starts_from(&now) {
            return Ok(false);
        }
        let done = all(&left, |list| put(store, journal, list))?;
        let mut rest = Vec::new();
        for (list, done) in left.into_iter().zip(done) {
            if !done? {
                rest.push(Replacing { there: None, old: None, ..list });
            }
        }
        left = rest;
        if left.is_empty() {
            return match store.replace(&root, &[journal.root.as_bytes()], Expected::Version(&version)) {
                Ok(_) => Ok(true),
                Err(e) => {
                    let now = store.get(&root)?;
                    match journal.starts_from(&now) {
                        // A lost reply is none of these: then the root is the new one.
                        true => Err(e),
                        false => Ok(now == journal.root.as_bytes()),
                    }
                }
            };
        }
        pause(Duration::from_millis(u64::from(round)));
    }
    Err(Error::conflict("a list changes faster than it can be replaced")
        .at(store.location())
        .remedy("find the program that writes into the dataset's lists without taking part in its commits"))
}

/// Replaces what was found; says whether it is the new list now, or something else was there meanwhile.
fn put(store: &dyn Store, journal: &Journal, list: &Replacing<'_>) -> Result<bool> {
    let expected = match &list.there {
        Some(There::New) => return Ok(true),
        Some(There::Other(Some(version))) => Expected::Version(version),
        Some(There::Other(None)) | None => Expected::Absent,
    };
    if let Some(old) = &list.old {
        keep(store, journal, list.path, old)?;
    }
    match store.replace(list.path, &[list.text.as_bytes()], expected) {
        Ok(_) => Ok(true),
        Err(e) if matches!(e.code(), Code::Conflict | Code::AlreadyExists | Code::NotFound) => Ok(false),
        Err(e) => Err(e),
    }
}

fn look(store: &dyn Store, path: &RelPath, text: &str) -> Result<(There, Option<Bytes>)> {
    match store.get_versioned(path) {
        Ok((bytes, _)) if bytes == text.as_bytes() => Ok((There::New, None)),
        Ok((bytes, version)) => Ok((There::Other(Some(version)), Some(bytes))),
        Err(e) if e.code() == Code::NotFound => Ok((There::Other(None), None)),
        Err(e) => Err(e),
    }
}

/// A worker may have put its list down meanwhile: its info still stands for it.
fn keep(store: &dyn Store, journal: &Journal, path: &RelPath, old: &Bytes) -> Result<()> {
    if keeps_aside(path, old) {
        let info = super::Info::parse(journal.root.as_bytes(), true)?;
        aside::keep(store, &digest_all(&info.structure().algorithms, &[old]), old)?;
    }
    Ok(())
}

/// Does something with each item, several at once, and gives the results in order.
pub(super) fn all<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> R + Sync) -> Result<Vec<R>> {
    if items.len() <= 1 {
        return Ok(items.iter().map(each).collect());
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    let run = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            let result = each(item);
            if let Some(slot) = done.lock().unwrap_or_else(PoisonError::into_inner).get_mut(at) {
                *slot = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE.min(items.len())).map(|_| scope.spawn(run)).collect();
        threads.into_iter().for_each(|thread| drop(thread.join()));
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.into_iter().collect::<Option<Vec<R>>>().ok_or_else(|| Error::storage("a request panicked; please report this"))
}
