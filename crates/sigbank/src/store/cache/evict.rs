//! Keeping the cache within its bound, among processes.
//!
//! The file `usage` holds how many bytes are taken. A process takes room for several blocks at a time, under the file's lock, and
//! writes those without asking again. When there is no more, the blocks used least recently go, an eighth of the bound at
//! once, and what is left is counted anew, so that no error in counting lasts.

use super::disk::Disk;
use super::{Key, block};
use crate::error::{Error, Result};
use crate::store::poll;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// So long a reader waits for another process that makes room.
const PATIENCE: Duration = Duration::from_millis(200);
/// Room is taken in pieces of at most so many bytes.
const PIECE: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct Room {
    bound: AtomicU64,
    /// Taken and not yet written.
    granted: AtomicI64,
}

/// A file of the cache.
struct Found {
    used: i128,
    cost: u64,
    key: Key,
    number: u64,
}

impl Room {
    pub(super) fn new(bound: u64) -> Self {
        Self { bound: AtomicU64::new(bound), granted: AtomicI64::new(0) }
    }

    /// Takes room for `cost` bytes; `false` where that would mean waiting.
    pub(super) fn reserve(&self, disk: &Disk, cost: u64) -> Result<bool> {
        if self.granted.fetch_sub(cost as i64, Ordering::Relaxed) >= cost as i64 {
            return Ok(true);
        }
        self.granted.fetch_add(cost as i64, Ordering::Relaxed);
        let Some(usage) = lock(disk)? else { return Ok(false) };
        // What other processes have taken and not written yet is forgotten when everything is counted anew: a part is left for that.
        let bound = self.bound.load(Ordering::Relaxed);
        let piece = (bound / 256).clamp(cost, PIECE.max(cost));
        let bound = bound - bound / 16;
        let mut taken = read(&usage);
        if taken.is_none_or(|taken| taken.saturating_add(piece) > bound) {
            taken = Some(evict(disk, (bound - bound / 8).saturating_sub(piece), bound.saturating_sub(piece)));
        }
        let taken = taken.unwrap_or(0).saturating_add(piece);
        if taken > bound {
            write(&usage, taken - piece)?;
            return Ok(false); // What is there cannot be deleted: it is another user's.
        }
        write(&usage, taken)?;
        self.granted.fetch_add((piece - cost) as i64, Ordering::Relaxed);
        Ok(true)
    }

    /// Makes do with less than is there, since the disk is full; `false` where that is next to nothing.
    pub(super) fn shrink(&self, disk: &Disk) -> bool {
        let Ok(Some(usage)) = lock(disk) else { return false };
        let there = scan(disk).iter().map(|found| found.cost).sum::<u64>();
        if there < 8 * block::cost(block::BLOCK) {
            return false;
        }
        let bound = there - there / 8;
        self.bound.fetch_min(bound, Ordering::Relaxed);
        self.granted.store(0, Ordering::Relaxed);
        write(&usage, evict(disk, there - there / 4, bound)).is_ok()
    }
}

/// The file that counts, locked; `None` where another process has it.
fn lock(disk: &Disk) -> Result<Option<File>> {
    let path = disk.root.join("usage");
    let open = || match OpenOptions::new().read(true).write(true).open(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => disk.create(&path).or_else(|e| match e.code() {
            crate::Code::AlreadyExists => Ok(OpenOptions::new().read(true).write(true).open(&path)?),
            _ => Err(e),
        }),
        other => Ok(other?),
    };
    let file = open().map_err(|e: Error| e.at(path.display()))?;
    let locked = poll(PATIENCE, || match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(())),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
        Err(_) => Ok(Some(())), // A filesystem without locks: the counting is less exact.
    })?;
    Ok(locked.map(|()| file))
}

/// What stands in the file; `None` for what a killed process left half written, or nothing.
fn read(usage: &File) -> Option<u64> {
    let mut text = [0; 21];
    usage.read_exact_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text).ok()?.strip_suffix('\n')?.parse().ok()
}

fn write(usage: &File, taken: u64) -> Result<()> {
    Ok(usage.write_all_at(format!("{taken:020}\n").as_bytes(), 0)?)
}

/// Deletes what was not used for longest until at most `target` bytes are left, if there are more than `most`, and says how many there are.
fn evict(disk: &Disk, target: u64, most: u64) -> u64 {
    disk.sweep();
    // What others are writing counts as if it were there; the caller's own file is one of those. Before the blocks, so that none
    // that moves in between is missed.
    let others = (entries(&disk.root.join("tmp")).count() as u64).saturating_sub(1);
    let begun = others * block::cost(block::BLOCK);
    let mut all = scan(disk);
    let mut there = all.iter().map(|found| found.cost).sum::<u64>().saturating_add(begun);
    if there <= most {
        return there;
    }
    all.sort_unstable_by_key(|found| found.used);
    for found in &all {
        if there <= target {
            break;
        }
        match std::fs::remove_file(disk.path(&found.key, found.number)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {}
            _ => there -= found.cost,
        }
    }
    there
}

/// All blocks. Other files are nobody's business.
fn scan(disk: &Disk) -> Vec<Found> {
    let mut all = Vec::new();
    for dir in entries(&disk.root.join("blocks")) {
        let first = dir.file_name();
        for file in entries(&dir.path()) {
            let Some((key, number)) = first.to_str().zip(file.file_name().to_str()).and_then(|(a, b)| named(a, b)) else {
                continue;
            };
            let Some(meta) = file.metadata().ok().filter(|meta| meta.is_file()) else { continue };
            let used = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
            all.push(Found { used, cost: meta.len().next_multiple_of(4096), key, number });
        }
    }
    all
}

fn entries(dir: &Path) -> impl Iterator<Item = std::fs::DirEntry> {
    std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok)
}

/// The key and number that a file's name says.
fn named(first: &str, rest: &str) -> Option<(Key, u64)> {
    let (second, number) = rest.split_once('-')?;
    let hex = format!("{first}{second}");
    if hex.len() != 32 || !hex.is_ascii() {
        return None;
    }
    let mut key = [0; 16];
    for (i, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some((Key(key), u64::from_str_radix(number, 16).ok()?))
}
