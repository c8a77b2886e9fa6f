//! An object that is read through the cache.

use super::fetch::Fetch;
use super::{Cache, Key, block};
use crate::error::{Error, Result};
use crate::store::{Pending, ReadAt, Store, StoreFile, Version, range_len, zeroed};
use crate::uri::RelPath;
use bytes::Bytes;
use sigbank_format::read_at::past_end;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Blocks that one reader fetches at once, so that what it holds beside the reader's own buffer is bounded.
const WINDOW: usize = 16;
/// A stream reads so many pieces of so many bytes ahead.
const PIECES: usize = 4;
const PIECE: u64 = 4 * block::BLOCK;

#[derive(Debug)]
pub(super) struct CachedFile {
    cache: Arc<Cache>,
    key: Key,
    size: u64,
    location: String,
    inner: OnceLock<Arc<dyn StoreFile>>,
    /// Where to open it, once something is not in the cache.
    place: Option<(Arc<dyn Store>, RelPath)>,
}

/// Some wanted bytes that lie in one block.
#[derive(Debug, Clone, Copy)]
struct Part {
    number: u64,
    /// Where they are in the block.
    at: usize,
    len: usize,
    /// The buffer that wants them, and where in it they go.
    buffer: usize,
    to: usize,
}

impl CachedFile {
    pub(super) fn opened(cache: Arc<Cache>, key: Key, file: Arc<dyn StoreFile>) -> Arc<dyn StoreFile> {
        let (size, location) = (file.size(), file.location().to_owned());
        Arc::new(Self { cache, key, size, location, inner: OnceLock::from(file), place: None })
    }
    pub(super) fn unopened(
        cache: Arc<Cache>,
        key: Key,
        store: Arc<dyn Store>,
        path: RelPath,
        location: String,
        size: u64,
    ) -> Arc<dyn StoreFile> {
        Arc::new(Self { cache, key, size, location, inner: OnceLock::new(), place: Some((store, path)) })
    }

    fn inner(&self) -> Result<Arc<dyn StoreFile>> {
        if let Some(file) = self.inner.get() {
            return Ok(Arc::clone(file));
        }
        let Some((store, path)) = &self.place else { return Err(Error::storage("it was not opened").at(&self.location)) };
        let file = store.open_sized(path, self.size)?;
        Ok(Arc::clone(self.inner.get_or_init(|| file)))
    }

    /// Fills what it can of `buf`, whose bytes begin at `offset`, from the disk, and adds what is missing.
    fn read_kept(&self, buffer: usize, offset: u64, buf: &mut [u8], missing: &mut Vec<Part>) {
        let (mut offset, mut to, mut rest) = (offset, 0, buf);
        while !rest.is_empty() {
            let (number, at) = (offset / block::BLOCK, (offset % block::BLOCK) as usize);
            let whole = block::len(number, self.size);
            let len = whole.saturating_sub(at).min(rest.len());
            let Some((target, behind)) = rest.split_at_mut_checked(len).filter(|_| len > 0) else { return };
            if !self.cache.disk.read(&self.key, number, whole, at, target) {
                missing.push(Part { number, at, len, buffer, to });
            }
            (offset, to, rest) = (offset + len as u64, to + len, behind);
        }
    }

    fn begin(&self, parts: &[Part]) -> Result<Vec<Fetch>> {
        let mut numbers: Vec<u64> = parts.iter().map(|part| part.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let start = |ranges: &[Range<u64>]| Ok(self.inner()?.start_ranges(ranges));
        self.cache.fetches.begin(self.key, self.size, &numbers, &start)
    }

    /// Puts the parts in their places as they come.
    fn finish(&self, parts: &[Part], fetches: &[Fetch], mut buffer: impl FnMut(usize, Range<usize>, &[u8])) -> Result<()> {
        for part in parts {
            let found = fetches.binary_search_by_key(&part.number, |fetch| fetch.number).ok();
            let Some(fetch) = found.and_then(|at| fetches.get(at)) else { continue };
            let block = fetch.wait(&|number, block| self.cache.disk.put(&self.key, number, block))?;
            buffer(part.buffer, part.to..part.to + part.len, block.get(part.at..part.at + part.len).unwrap_or_default());
        }
        Ok(())
    }

    fn read_into(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut missing = Vec::new();
        self.read_kept(0, offset, buf, &mut missing);
        for parts in missing.chunks(WINDOW) {
            let fetches = self.begin(parts)?;
            self.finish(parts, &fetches, |_, place, bytes| put(buf, place, bytes))?;
        }
        Ok(())
    }

    fn begin_ranges(&self, ranges: &[Range<u64>]) -> Result<(Vec<Vec<u8>>, Vec<Part>)> {
        let (mut buffers, mut missing) = (Vec::with_capacity(ranges.len()), Vec::new());
        for range in ranges {
            let mut buf = zeroed(range_len(range, self.size)? as u64)?;
            self.read_kept(buffers.len(), range.start, &mut buf, &mut missing);
            buffers.push(buf);
        }
        missing.sort_by_key(|part| part.number);
        Ok((buffers, missing))
    }
}

fn put(buf: &mut [u8], place: Range<usize>, bytes: &[u8]) {
    if let Some(target) = buf.get_mut(place).filter(|target| target.len() == bytes.len()) {
        target.copy_from_slice(bytes);
    }
}

impl ReadAt for CachedFile {
    fn size(&self) -> u64 {
        self.size
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> sigbank_format::Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.size) {
            return Err(past_end(offset, buf.len(), self.size));
        }
        Ok(self.read_into(offset, buf)?)
    }
}

impl StoreFile for CachedFile {
    fn location(&self) -> &str {
        &self.location
    }
    fn version(&self) -> Option<&Version> {
        self.inner.get().and_then(|file| file.version())
    }
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = || {
            let (mut buffers, missing) = self.begin_ranges(ranges)?;
            // Parts of one block lie side by side, so that few blocks are asked for twice.
            for parts in missing.chunk_by({
                let mut blocks = 0;
                move |a, b| {
                    blocks += usize::from(a.number != b.number);
                    if blocks == WINDOW {
                        blocks = 0;
                    }
                    a.number == b.number || blocks > 0
                }
            }) {
                let fetches = self.begin(parts)?;
                self.finish(parts, &fetches, |n, place, bytes| {
                    buffers.get_mut(n).into_iter().for_each(|b| put(b, place.clone(), bytes))
                })?;
            }
            Ok(buffers.into_iter().map(Bytes::from).collect())
        };
        read().map_err(|e: Error| e.at(&self.location))
    }
    fn start_ranges(self: Arc<Self>, ranges: &[Range<u64>]) -> Box<dyn Pending> {
        let begun = self.begin_ranges(ranges).and_then(|(buffers, parts)| Ok((buffers, self.begin(&parts)?, parts)));
        match begun {
            Ok((buffers, fetches, parts)) => Box::new(CachedPending { file: self, buffers, parts, fetches }),
            Err(e) => Box::new(Failed(e.at(&self.location))),
        }
    }
    fn stream(self: Arc<Self>) -> Box<dyn io::Read + Send> {
        Box::new(Stream { file: self, next: 0, ahead: VecDeque::new(), current: Bytes::new() })
    }
}

#[derive(Debug)]
struct CachedPending {
    file: Arc<CachedFile>,
    buffers: Vec<Vec<u8>>,
    parts: Vec<Part>,
    fetches: Vec<Fetch>,
}

impl Pending for CachedPending {
    fn is_ready(&self) -> bool {
        self.fetches.iter().all(Fetch::is_ready)
    }
    fn wait(self: Box<Self>) -> Result<Vec<Bytes>> {
        let Self { file, mut buffers, parts, fetches } = *self;
        let place = |n, place: Range<usize>, bytes: &[u8]| {
            buffers.get_mut::<usize>(n).into_iter().for_each(|buf| put(buf, place.clone(), bytes));
        };
        file.finish(&parts, &fetches, place).map_err(|e| e.at(&file.location))?;
        Ok(buffers.into_iter().map(Bytes::from).collect())
    }
}

#[derive(Debug)]
struct Failed(Error);

impl Pending for Failed {
    fn is_ready(&self) -> bool {
        true
    }
    fn wait(self: Box<Self>) -> Result<Vec<Bytes>> {
        Err(self.0)
    }
}

/// The object from its start to its end, some of it asked for in advance.
#[derive(Debug)]
struct Stream {
    file: Arc<CachedFile>,
    next: u64,
    ahead: VecDeque<Box<dyn Pending>>,
    current: Bytes,
}

impl io::Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.current.is_empty() {
            while self.ahead.len() < PIECES && self.next < self.file.size {
                let end = self.next.saturating_add(PIECE).min(self.file.size);
                let piece = self.next..end;
                self.ahead.push_back(Arc::clone(&self.file).start_ranges(std::slice::from_ref(&piece)));
                self.next = end;
            }
            let Some(first) = self.ahead.pop_front() else { return Ok(0) };
            self.current = first.wait()?.pop().unwrap_or_default();
        }
        let n = buf.len().min(self.current.len());
        let bytes = self.current.split_to(n);
        put(buf, 0..n, &bytes);
        Ok(n)
    }
}
