//! Verifying the whole Merkle tree.

use super::lists::{ListRef, ShardInfo};
use super::reader::{ALL, Reader, Whole, open};
use super::state::{State, compare_digests};
use super::table::Position;
use crate::error::{Code, Error, Result};
use crate::layout::Verified;
use crate::store::Store;
use sigbank_format::checksum::{Algorithm, MultiHasher};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

const CHUNK: usize = 1 << 20;
/// A file up to this size is read once.
const SMALL: u64 = 64 << 10;
/// The same where a request costs more than the memory.
const FETCHED: u64 = 32 << 20;
/// Threads where each waits for its requests.
const WAITING: usize = 8;
/// Shards that a thread takes at a time.
const BATCH: u64 = 32;
/// So many shards at fault are named, and after so many the check ends.
const NAMED: usize = 20;
const ENOUGH: usize = 1000;
/// How often a thread that is at work on some shards says how far it is.
const OFTEN: Duration = Duration::from_millis(20);

pub(super) fn check(
    store: &dyn Store,
    state: &State,
    reader: &Reader,
    expected: &[String],
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Verified> {
    let root = state.root_checksums();
    if !expected.is_empty() && root != expected {
        return Err(Error::corrupt(format!(
            "the root's checksums {} are expected, found {}",
            expected.join(", "),
            root.join(", ")
        ))
        .at(store.location())
        .remedy("this is another version of the dataset than the one the checksums were taken of"));
    }
    let total = state.info.splits().iter().map(|(_, list)| list.shards).sum();
    let (mut done, mut faults) = (Verified::default(), Vec::new());
    if !progress(0, total) {
        return Err(stopped());
    }
    listed_once(store, state)?;
    let algorithms = &state.info.structure().algorithms;
    let least = if store.capabilities().round_trip > 0 { WAITING } else { 1 };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).clamp(least, 16);
    // Whoever is free walks the lists to the next shards, so no more than a few entries are ever held.
    let batch = (total / (threads as u64 * 8)).clamp(1, BATCH) as usize;
    let entries = Mutex::new(Entries { store, state, splits: state.info.splits().iter(), now: None });
    let stop = AtomicBool::new(false);
    let (tell, hear) = mpsc::channel::<Result<Told>>();
    let fault = |e: &Error| matches!(e.code(), Code::Corrupt | Code::NotFound);
    let run = |tell: mpsc::Sender<Result<Told>>| {
        let mut buffer = vec![0; CHUNK];
        loop {
            let taken = entries.lock().unwrap_or_else(PoisonError::into_inner).take(batch);
            let Some(texts) = taken.transpose() else { return };
            let found = texts.and_then(|texts| {
                let mut done = Verified::default();
                let mut told = Instant::now();
                for text in texts {
                    let shard = ShardInfo::from_text(&text)?;
                    match shard_ok(store, algorithms, reader, &shard, &mut buffer) {
                        Err(e) if fault(&e) => drop(tell.send(Ok(Told::AtFault(e)))),
                        bytes => done.bytes += bytes?,
                    }
                    done.units += 1;
                    done.records += shard.examples;
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    if told.elapsed() >= OFTEN {
                        let _ = tell.send(Ok(Told::Whole(std::mem::take(&mut done))));
                        told = Instant::now();
                    }
                }
                Ok(done)
            });
            let failed = found.is_err();
            if tell.send(found.map(Told::Whole)).is_err() || failed || stop.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let tell = tell.clone();
            scope.spawn(|| run(tell));
        }
        drop(tell);
        let heard = hear.iter().try_for_each(|told| {
            let found = match told? {
                Told::Whole(found) => found,
                Told::AtFault(e) => {
                    faults.push(e);
                    return if faults.len() < ENOUGH { Ok(()) } else { Err(stopped()) };
                }
            };
            done.units += found.units;
            done.records += found.records;
            done.bytes += found.bytes;
            if progress(done.units, total) { Ok(()) } else { Err(stopped()) }
        });
        stop.store(true, Ordering::Relaxed);
        if faults.len() < ENOUGH { heard } else { Ok(()) }
    })?;
    all_of(faults).map_or(Ok(done), Err)
}

/// What a thread found.
enum Told {
    Whole(Verified),
    /// A shard that is gone or damaged: the next ones are looked at all the same.
    AtFault(Error),
}

/// One error of all shards at fault: about the first, with the names of the others.
fn all_of(mut faults: Vec<Error>) -> Option<Error> {
    faults.sort_by(|a, b| a.path().cmp(&b.path()));
    let count = faults.len();
    let mut faults = faults.into_iter();
    let first = faults.next()?;
    if count == 1 {
        return Some(first);
    }
    let one = |e: Error| format!("{}: {}", e.path().unwrap_or("a shard"), e.message());
    let named: Vec<String> = faults.take(NAMED - 1).map(one).collect();
    let more = match count.saturating_sub(named.len() + 1) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let least = if count < ENOUGH { "" } else { "at least " };
    let text = format!("{} ({least}{count} shards are at fault: this one; {}{more})", first.message(), named.join("; "));
    let all = Error::new(first.code(), text).at(first.path().unwrap_or("a shard"));
    Some(match first.remedy_text() {
        Some(remedy) => all.remedy(remedy),
        None => all,
    })
}

/// The entries of all shards.
struct Entries<'a> {
    store: &'a dyn Store,
    state: &'a State,
    splits: std::slice::Iter<'a, (String, ListRef)>,
    now: Option<Position>,
}

impl Entries<'_> {
    /// The next ones, none at the end.
    fn take(&mut self, most: usize) -> Result<Option<Vec<String>>> {
        let mut texts = Vec::with_capacity(most);
        while texts.len() < most {
            let Some(position) = &mut self.now else {
                let Some((_, top)) = self.splits.next() else { break };
                self.now = Some(Position::new(top, 0).comparing_all());
                continue;
            };
            match position.next(self.state, self.store)? {
                Some(text) => texts.push(text.to_owned()),
                None => self.now = None,
            }
        }
        Ok(Some(texts).filter(|texts| !texts.is_empty()))
    }
}

/// Refuses a shard that two entries name.
fn listed_once(store: &dyn Store, state: &State) -> Result<()> {
    let mut tables = Vec::new();
    for (split, _) in state.info.splits() {
        tables.push((split, state.table(store, split)?));
    }
    let mut hashed: Vec<(u64, usize, usize)> = Vec::new();
    for (at, (_, table)) in tables.iter().enumerate() {
        hashed.extend(table.hashes().enumerate().map(|(unit, hash)| (hash, at, unit)));
    }
    hashed.sort_unstable();
    let path = |&(_, at, unit): &(u64, usize, usize)| tables.get(at).map(|(_, table)| table.path(unit)).transpose();
    for same in hashed.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
        let mut seen = HashSet::new();
        for one in same {
            if let (Some(path), Some((split, _))) = (path(one)?, tables.get(one.1))
                && !seen.insert(path.clone())
            {
                return Err(Error::corrupt(format!("the shard is listed twice, the second time in split '{split}'"))
                    .at(store.locate(&path)));
            }
        }
    }
    Ok(())
}

fn stopped() -> Error {
    Error::conflict("the check was stopped before its end")
}

/// Compares every file of a shard with its checksums, and the records it holds with its list. Gives the bytes read.
pub(super) fn shard_ok(
    store: &dyn Store,
    algorithms: &[Algorithm],
    reader: &Reader,
    shard: &ShardInfo,
    buffer: &mut [u8],
) -> Result<u64> {
    let mut bytes = 0;
    let mut first = None;
    for info in &shard.files {
        let file = open(store, &info.path, ALL, None).map_err(|e| match e.code() {
            Code::NotFound => e.remedy("the shard is listed but gone: restore it from a copy"),
            _ => e,
        })?;
        let located = |e: Error| e.at(store.locate(&info.path));
        let mut hasher = MultiHasher::new(algorithms);
        let size = file.size();
        // What was just read is not read again, as far as it is little, or a request costs more.
        let most = if store.capabilities().round_trip > 0 { FETCHED } else { SMALL };
        let mut kept = (first.is_none() && size <= most).then(Vec::new);
        let mut stream = file.clone().stream();
        let mut at = 0;
        while at < size {
            let n = (size - at).min(buffer.len() as u64);
            let part = buffer.get_mut(..n as usize).unwrap_or_default();
            stream.read_exact(part).map_err(|e| located(e.into()))?;
            hasher.update(part);
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(part);
            }
            at += n;
        }
        compare_digests(algorithms, info, &hasher.finish()).map_err(located)?;
        bytes += at;
        if first.is_none() {
            first = Some(kept.map_or_else(|| file.clone(), |all| Whole::of(all.into(), file.location().to_owned())));
        }
    }
    let path = shard.path()?;
    let probe = |file| reader.probe(file, shard.examples).map_err(|e| e.at(store.locate(path)));
    first.map_or(Ok(()), probe)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
