//! Threads that encode, hash and write full shards.

use super::builder::Builder;
use super::lists::{FileInfo, ShardInfo};
use super::progress::Session;
use crate::error::{Error, Result};
use crate::store::{NewObject, Store};
use crate::uri::RelPath;
use sigbank_format::checksum::{Algorithm, MultiHasher};
use sigbank_format::compress::Compression;
use sigbank_format::model::Metadata;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

/// Bytes that are hashed and written in one step, so that they are still in the cache for the second. Writes begin at
/// multiples of it: the page cache then keeps the file in large pages, from which it is read half as fast again.
const CHUNK: usize = 512 << 10;

/// A shard from this size on is flushed as soon as it is written, while the next ones are being made. Smaller ones wait for the
/// one flush of the commit.
const FLUSHED_EARLY: u64 = 4 << 20;

/// A full shard on its way to the disk.
pub(super) struct Job {
    pub(super) number: usize,
    pub(super) path: RelPath,
    pub(super) list: RelPath,
    pub(super) shard: Builder,
    pub(super) metadata: Metadata,
}

/// What became of one shard.
pub(super) struct Finished {
    pub(super) list: RelPath,
    pub(super) examples: u64,
    pub(super) result: Result<ShardInfo>,
}

/// What every job needs.
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) compression: Compression,
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) session: Session,
    /// Where large shards are named for the thread that flushes; none where nothing is to be flushed.
    pub(super) flush: Option<mpsc::Sender<RelPath>>,
    /// The writer's path below the split, empty for the default.
    pub(super) own: String,
    pub(super) finished: Mutex<Vec<Option<Finished>>>,
    /// Whether a shard could not be written.
    pub(super) failed: AtomicBool,
    /// Builders whose memory can be used again.
    pub(super) spare: Mutex<Vec<Builder>>,
}

/// The threads. A job is handed over, not queued: whoever fills waits while all of them are busy, so memory stays at one
/// shard being filled and one a thread.
pub(super) struct Pool {
    give: Option<mpsc::SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

/// Starts a thread that flushes the shards it is told of, and ends when nobody can tell it of more. A failure shows when the
/// commit flushes.
pub(super) fn flusher(store: Arc<dyn Store>) -> Option<mpsc::Sender<RelPath>> {
    let (tell, hear) = mpsc::channel::<RelPath>();
    let run = move || hear.iter().for_each(|path| drop(store.flush(std::slice::from_ref(&path))));
    std::thread::Builder::new().name("sigbank-flush".into()).spawn(run).ok().map(|_| tell)
}

impl Pool {
    pub(super) fn start(shared: &Arc<Shared>, threads: usize) -> Result<Self> {
        let (give, take) = mpsc::sync_channel::<Job>(0);
        let take = Arc::new(Mutex::new(take));
        let mut pool = Self { give: Some(give), threads: Vec::new() };
        for i in 0..threads.max(1) {
            let (shared, take) = (shared.clone(), take.clone());
            let run = move || {
                let mut out = Vec::new();
                loop {
                    let job = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    match job {
                        Ok(job) => shared.run(job, &mut out),
                        Err(_) => return,
                    }
                }
            };
            let thread = std::thread::Builder::new().name(format!("sigbank-write-{i}")).spawn(run);
            pool.threads.push(thread.map_err(|e| Error::storage(format!("no thread could be started: {e}")))?);
        }
        Ok(pool)
    }

    pub(super) fn give(&self, job: Job) -> Result<()> {
        let given = self.give.as_ref().map(|g| g.send(job).is_ok());
        if given == Some(true) { Ok(()) } else { Err(Error::storage("the threads that write shards have ended")) }
    }

    /// Waits for all jobs.
    pub(super) fn join(&mut self) {
        self.give = None;
        for thread in self.threads.drain(..) {
            // A panic is seen as a shard without a result.
            let _ = thread.join();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.join();
    }
}

impl Shared {
    fn run(&self, mut job: Job, out: &mut Vec<u8>) {
        let examples = job.shard.len() as u64;
        // A panic in a codec must not take the other shards' results with it.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.write(&mut job, out)));
        let result = result.unwrap_or_else(|_| Err(Error::storage("writing the shard panicked; please report this")));
        let result = result.map_err(|e| e.at(self.store.locate(&job.path)));
        self.spare(&mut job);
        self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = finished.get_mut(job.number) {
            *slot = Some(Finished { list: job.list, examples, result });
        }
    }

    /// Of an object store the answer may be lost. A shard's name is used once, so what is there is what was written.
    fn settle(&self, path: &RelPath, size: u64, e: Error) -> Result<()> {
        let there = || self.store.head(path).is_ok_and(|found| found.size == size);
        if !self.store.capabilities().locks && there() { Ok(()) } else { Err(e) }
    }

    /// Gives the builder's memory to whoever fills the next shard.
    fn spare(&self, job: &mut Job) {
        let mut shard = std::mem::take(&mut job.shard);
        if shard.memory() > 0 {
            shard.clear();
            self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(shard);
        }
    }

    fn write(&self, job: &mut Job, out: &mut Vec<u8>) -> Result<ShardInfo> {
        let examples = job.shard.len() as u64;
        let mut file = Hashed {
            hasher: MultiHasher::new(&self.algorithms),
            file: self.store.write_new(&job.path)?,
            begun: Vec::new(),
            size: 0,
        };
        match job.shard.finish(self.compression, out)? {
            Some(parts) => parts.into_iter().try_for_each(|part| file.put(part))?,
            None => {
                self.spare(job);
                file.put(out)?;
            }
        }
        let (checksums, size) = file.finish(|e, size| self.settle(&job.path, size, e))?;
        if let Some(flush) = self.flush.as_ref().filter(|_| size >= FLUSHED_EARLY) {
            // Where that thread has ended, the commit flushes.
            let _ = flush.send(job.path.clone());
        }
        let file = FileInfo { path: job.path.clone(), checksums };
        let shard = ShardInfo::new(file, examples, std::mem::take(&mut job.metadata));
        if let Err(e) = self.session.record(&*self.store, job.number, &self.own, &job.list, &shard) {
            // It is not listed then, and on a full disk its room is what the lists of the others need.
            let _ = self.store.delete(&job.path);
            return Err(e);
        }
        Ok(shard)
    }
}

/// A new object that is hashed on its way, in chunks.
struct Hashed {
    hasher: MultiHasher,
    file: Box<dyn NewObject>,
    /// The beginning of a chunk whose rest has not come yet.
    begun: Vec<u8>,
    size: u64,
}

impl Hashed {
    fn put(&mut self, mut part: &[u8]) -> Result<()> {
        self.size += part.len() as u64;
        while !part.is_empty() {
            let (now, later) = part.split_at(part.len().min(CHUNK - self.begun.len()));
            part = later;
            if now.len() == CHUNK {
                self.hasher.update(now);
                self.file.write_all(now)?;
                continue;
            }
            self.begun.extend_from_slice(now);
            if self.begun.len() == CHUNK {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.hasher.update(&self.begun);
        self.file.write_all(&self.begun)?;
        self.begun.clear();
        Ok(())
    }

    /// The checksums and the size.
    fn finish(mut self, settle: impl FnOnce(Error, u64) -> Result<()>) -> Result<(Vec<String>, u64)> {
        self.flush()?;
        self.file.commit().or_else(|e| settle(e, self.size))?;
        Ok((self.hasher.finish(), self.size))
    }
}
