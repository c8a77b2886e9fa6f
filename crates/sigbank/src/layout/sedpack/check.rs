//! Verifying the whole Merkle tree.

use super::lists::ShardInfo;
use super::reader::Reader;
use super::state::{State, compare_digests};
use super::table::Walk;
use crate::error::{Code, Error, Result};
use crate::layout::Verified;
use crate::store::Store;
use sigbank_format::checksum::{Algorithm, MultiHasher};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::mpsc;

const CHUNK: usize = 1 << 20;

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
    let mut done = Verified::default();
    if !progress(0, total) {
        return Err(stopped());
    }
    let algorithms = &state.info.structure().algorithms;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(16);
    // Lists are walked here, shards are read and hashed by the workers; the channels are short, so memory is bounded.
    let (give, take) = mpsc::sync_channel::<ShardInfo>(threads);
    let take = &Mutex::new(Some(take));
    std::thread::scope(|scope| {
        let (tell, hear) = mpsc::channel::<Result<(u64, u64)>>();
        for _ in 0..threads {
            let tell = tell.clone();
            scope.spawn(move || {
                let mut buffer = vec![0; CHUNK];
                loop {
                    let next = take.lock().ok().and_then(|t| t.as_ref().and_then(|t| t.recv().ok()));
                    let Some(shard) = next else { return };
                    let found = shard_ok(store, algorithms, reader, &shard, &mut buffer);
                    if tell.send(found.map(|bytes| (shard.examples, bytes))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell);
        let mut hear_one = |found: Result<(u64, u64)>, done: &mut Verified| -> Result<()> {
            let (records, bytes) = found?;
            done.units += 1;
            done.records += records;
            done.bytes += bytes;
            if progress(done.units, total) { Ok(()) } else { Err(stopped()) }
        };
        let mut run = || -> Result<()> {
            let mut seen = HashSet::new();
            for (split, top) in state.info.splits() {
                for shard in Walk::new(state, store, top, 0) {
                    let shard = shard?;
                    if !seen.insert(shard.path()?.clone()) {
                        return Err(Error::corrupt(format!("the shard is listed twice, the second time in split '{split}'"))
                            .at(store.locate(shard.path()?)));
                    }
                    if give.send(shard).is_err() {
                        break;
                    }
                    while let Ok(found) = hear.try_recv() {
                        hear_one(found, &mut done)?;
                    }
                }
            }
            Ok(())
        };
        let walked = run();
        drop(give);
        if walked.is_err() {
            // The workers find the channel empty and end.
            if let Ok(mut take) = take.lock() {
                *take = None;
            }
        }
        walked?;
        for found in hear {
            if let Err(e) = hear_one(found, &mut done) {
                if let Ok(mut take) = take.lock() {
                    *take = None;
                }
                return Err(e);
            }
        }
        Ok(())
    })?;
    Ok(done)
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
    for info in &shard.files {
        let file = store.open_read(&info.path).map_err(|e| match e.code() {
            Code::NotFound => e.remedy("the shard is listed but gone: restore it from a copy"),
            _ => e,
        })?;
        let mut hasher = MultiHasher::new(algorithms);
        let mut at = 0;
        while at < file.size() {
            let n = (file.size() - at).min(buffer.len() as u64);
            let part = buffer.get_mut(..n as usize).unwrap_or_default();
            file.read_at(at, part).map_err(|e| Error::from(e).at(store.locate(&info.path)))?;
            hasher.update(part);
            at += n;
        }
        compare_digests(algorithms, info, &hasher.finish()).map_err(|e| e.at(store.locate(&info.path)))?;
        bytes += at;
    }
    let path = shard.path()?;
    store.open_read(path).and_then(|file| reader.probe(file, shard.examples)).map_err(|e| e.at(store.locate(path)))?;
    Ok(bytes)
}
