//! An object that is being read.

use super::client::Inner;
use super::first::{Beginning, First};
use super::read::{self, PIECE, Tag, Want};
use super::runtime::{self, Started};
use crate::error::{Error, Result};
use crate::store::{Pending, ReadAt, StoreFile, Version, range_len};
use crate::uri::RelPath;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, OnceLock};

/// So many pieces of a stream are fetched ahead of who reads it.
const AHEAD: usize = 4;

pub(super) struct CloudFile {
    inner: Arc<Inner>,
    path: RelPath,
    location: String,
    size: u64,
    /// Known at once, or from the first answer on.
    version: OnceLock<(Tag, Version)>,
    /// What opening brought.
    first: First,
}

impl fmt::Debug for CloudFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CloudFile({}, {} bytes)", self.location, self.size)
    }
}

impl CloudFile {
    pub(super) fn new(inner: Arc<Inner>, path: RelPath, size: u64, tag: Option<Tag>) -> Self {
        let location = inner.locate(&path);
        let version =
            tag.map(|tag| (tag.version(), tag)).map(|(version, tag)| OnceLock::from((tag, version))).unwrap_or_default();
        Self { inner, path, location, size, version, first: First::default() }
    }

    /// A file of which the first bytes are on their way.
    pub(super) fn begun(inner: Arc<Inner>, path: RelPath, tag: Tag, first: First) -> Self {
        Self { first, ..Self::new(inner, path, tag.size(), Some(tag)) }
    }

    fn tag(&self) -> Option<Tag> {
        self.version.get().map(|(tag, _)| tag.clone())
    }

    /// Takes the version of an answer for the file's, or finds that it is another.
    fn settle(&self, tag: &Tag) -> Result<()> {
        if tag.size() != self.size {
            return Err(Error::corrupt(format!("the object has {} bytes, where {} are expected", tag.size(), self.size))
                .remedy("it was cut short or replaced, or what names its size is of another version: verify the dataset"));
        }
        let (known, _) = self.version.get_or_init(|| (tag.clone(), tag.version()));
        match known == tag {
            true => Ok(()),
            false => Err(Error::conflict("the object was replaced while it was read").remedy("open it again")),
        }
    }

    async fn ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let work = async {
            for range in ranges {
                range_len(range, self.size)?;
            }
            if ranges.iter().all(Range::is_empty) {
                return Ok(vec![Bytes::new(); ranges.len()]);
            }
            // Without a known version, no more is asked for than the size that is expected.
            let (bytes, tag) = read::ranges(&self.inner, &self.path, ranges, self.tag()).await?;
            tag.map_or(Ok(()), |tag| self.settle(&tag))?;
            Ok(bytes)
        };
        work.await.map_err(|e: Error| e.at(&self.location))
    }
}

/// What callers hold: work in the background needs the file beside them.
#[derive(Debug)]
pub(super) struct Handle(pub(super) Arc<CloudFile>);

impl ReadAt for Handle {
    fn size(&self) -> u64 {
        self.0.size
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> sigbank_format::Result<()> {
        let end = offset.saturating_add(buf.len() as u64);
        range_len(&(offset..end), self.0.size).map_err(|e| e.at(&self.0.location))?;
        let got = match self.0.first.get(&(offset..end)).map_err(|e| e.at(&self.0.location))? {
            Some(bytes) => Some(bytes),
            None => {
                let file = Arc::clone(&self.0);
                runtime::wait(async move { file.ranges(std::slice::from_ref(&(offset..end))).await })?.pop()
            }
        };
        match got {
            Some(bytes) if bytes.len() == buf.len() => buf.copy_from_slice(&bytes),
            _ => return Err(runtime::ended().into()),
        }
        Ok(())
    }
}

impl StoreFile for Handle {
    fn location(&self) -> &str {
        &self.0.location
    }
    fn version(&self) -> Option<&Version> {
        self.0.version.get().map(|(_, version)| version)
    }
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let here = |range| self.0.first.get(range).map_err(|e: Error| e.at(&self.0.location));
        let here = ranges.iter().map(here).collect::<Result<Vec<_>>>()?;
        let away: Vec<_> = ranges.iter().zip(&here).filter(|(_, here)| here.is_none()).map(|(range, _)| range.clone()).collect();
        if away.is_empty() {
            return Ok(here.into_iter().flatten().collect());
        }
        let file = Arc::clone(&self.0);
        let mut fetched = runtime::wait(async move { file.ranges(&away).await })?.into_iter();
        let all = here.into_iter().map(|here| here.or_else(|| fetched.next()));
        all.collect::<Option<Vec<_>>>().ok_or_else(runtime::ended)
    }
    fn start_ranges(self: Arc<Self>, ranges: &[Range<u64>]) -> Box<dyn Pending> {
        let (file, ranges) = (Arc::clone(&self.0), ranges.to_vec());
        Box::new(InFlight(runtime::start(async move { file.ranges(&ranges).await })))
    }
    fn stream(self: Arc<Self>) -> Box<dyn io::Read + Send> {
        let (current, pieces) = match self.0.first.take() {
            Some(Beginning::Here(bytes)) => (bytes, VecDeque::new()),
            Some(Beginning::Arriving(bytes, started, held)) => (Bytes::new(), VecDeque::from([(bytes, started, held)])),
            None => (Bytes::new(), VecDeque::new()),
        };
        let next = if current.is_empty() && pieces.is_empty() { 0 } else { self.0.first.len() };
        Box::new(Stream { file: Arc::clone(&self.0), next, given: 0, pieces, current, failed: None })
    }
}

struct InFlight(Result<Started<Vec<Bytes>>>);

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InFlight")
    }
}

impl Pending for InFlight {
    fn is_ready(&self) -> bool {
        self.0.as_ref().map_or(true, Started::is_ready)
    }
    fn wait(self: Box<Self>) -> Result<Vec<Bytes>> {
        self.0?.wait()
    }
}

/// Bytes that a stream fetches and has not handed on.
pub(super) struct Held {
    all: Arc<AtomicU64>,
    bytes: u64,
}

impl Held {
    /// So many, where all together are not too many or there must be some.
    pub(super) fn some(inner: &Inner, bytes: u64, needed: bool) -> Option<Self> {
        let before = inner.held.fetch_add(bytes, Ordering::Relaxed);
        let held = Self { all: Arc::clone(&inner.held), bytes };
        (needed || before.saturating_add(bytes) <= inner.settings.read_ahead).then_some(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The object from its start to its end. Bytes are handed on as they arrive, while the next pieces are under way.
struct Stream {
    file: Arc<CloudFile>,
    /// Where the piece begins that is asked for next, and what the reader gets next.
    next: u64,
    given: u64,
    pieces: VecDeque<(Receiver<Bytes>, Started<()>, Held)>,
    current: Bytes,
    failed: Option<Error>,
}

impl Stream {
    fn fill(&mut self) -> Result<()> {
        if self.pieces.iter().any(|(_, piece, _)| !piece.is_here()) {
            // A forked child asks for the rest itself.
            self.pieces.clear();
            self.next = self.given + self.current.len() as u64;
        }
        while self.current.is_empty() {
            while self.next < self.file.size && self.pieces.len() < AHEAD {
                let piece = self.next..(self.next + PIECE).min(self.file.size);
                let Some(held) = Held::some(&self.file.inner, piece.end - piece.start, self.pieces.is_empty()) else { break };
                self.next = piece.end;
                let (bytes, started) = self.begin(piece)?;
                self.pieces.push_back((bytes, started, held));
            }
            let Some((arriving, ..)) = self.pieces.front() else { return Ok(()) };
            match arriving.recv() {
                Ok(bytes) => self.current = bytes,
                Err(_) => match self.pieces.pop_front() {
                    Some((_, piece, _held)) => piece.wait()?,
                    None => return Ok(()),
                },
            }
        }
        Ok(())
    }

    fn begin(&self, piece: Range<u64>) -> Result<(Receiver<Bytes>, Started<()>)> {
        let (sender, receiver) = mpsc::channel(); // bounded by the piece
        let file = Arc::clone(&self.file);
        let started = runtime::start(async move {
            let sink = |bytes| {
                let _ = sender.send(bytes);
            };
            let check = |tag: &Tag| file.settle(tag);
            read::fetch(&file.inner, &file.path, Want::Range(piece), file.tag(), check, sink).await.map(|_| ())
        })?;
        Ok((receiver, started))
    }
}

impl io::Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(e) = &self.failed {
            return Err(e.clone().into());
        }
        if buf.is_empty() {
            return Ok(0);
        }
        if let Err(e) = self.fill() {
            let e = e.at(&self.file.location);
            self.pieces.clear();
            self.failed = Some(e.clone());
            return Err(e.into());
        }
        let n = buf.len().min(self.current.len());
        self.current.copy_to_slice(buf.get_mut(..n).unwrap_or_default());
        self.given += n as u64;
        Ok(n)
    }
}
