//! The first bytes of an object, which come with the answer that tells its size.

use super::client::Inner;
use super::file::{CloudFile, Handle, Held};
use super::read::{self, PIECE, Want, joined};
use super::runtime::{self, Started};
use crate::error::Result;
use crate::store::{Opening, StoreFile};
use crate::uri::RelPath;
use bytes::Bytes;
use std::fmt;
use std::ops::Range;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};

/// The first bytes, as they arrive or all of them.
pub(super) enum Beginning {
    Arriving(Receiver<Bytes>, Started<()>, Held),
    Here(Bytes),
}

/// The first bytes of a file until a stream takes them. A forked child does without: its parent's requests are not its own.
#[derive(Default)]
pub(super) struct First {
    len: u64,
    process: u32,
    beginning: Mutex<Option<Beginning>>,
}

impl First {
    fn new(len: u64, bytes: Receiver<Bytes>, started: Started<()>, held: Held) -> Self {
        Self { len, process: std::process::id(), beginning: Mutex::new(Some(Beginning::Arriving(bytes, started, held))) }
    }
    /// How many they are.
    pub(super) fn len(&self) -> u64 {
        self.len
    }
    fn is_here(&self) -> bool {
        self.len > 0 && self.process == std::process::id()
    }
    /// What there is, for a stream, which goes on with it.
    pub(super) fn take(&self) -> Option<Beginning> {
        if !self.is_here() {
            return None;
        }
        self.beginning.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
    /// The bytes of a range, once they have come; `None` for one that does not lie in the first bytes.
    pub(super) fn get(&self, range: &Range<u64>) -> Result<Option<Bytes>> {
        if range.start > range.end || range.end > self.len || !self.is_here() {
            return Ok(None);
        }
        let mut beginning = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = match beginning.take() {
            None => return Ok(None),
            Some(Beginning::Here(bytes)) => bytes,
            Some(Beginning::Arriving(arriving, started, _held)) => {
                let bytes = joined(arriving.iter().collect());
                started.wait()?;
                bytes
            }
        };
        let wanted = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let slice = wanted.filter(|(_, end)| *end <= bytes.len()).map(|(start, end)| bytes.slice(start..end));
        *beginning = Some(Beginning::Here(bytes));
        Ok(slice)
    }
}

/// The request that opens an object and brings its first bytes.
pub(super) struct Begun {
    inner: Arc<Inner>,
    path: RelPath,
    first: u64,
    request: Result<(Receiver<read::Tag>, Receiver<Bytes>, Started<()>)>,
}

impl Begun {
    pub(super) fn new(inner: Arc<Inner>, path: RelPath, first: u64) -> Self {
        let first = first.clamp(1, PIECE);
        let request = Self::request(&inner, &path, first);
        Self { inner, path, first, request }
    }

    fn request(inner: &Arc<Inner>, path: &RelPath, first: u64) -> Result<(Receiver<read::Tag>, Receiver<Bytes>, Started<()>)> {
        let ((tell, told), (sender, bytes)) = (mpsc::channel(), mpsc::channel()); // bounded by `first`
        let (inner, path) = (Arc::clone(inner), path.clone());
        let started = runtime::start(async move {
            let check = |tag: &read::Tag| {
                let _ = tell.send(tag.clone());
                Ok(())
            };
            let sink = |bytes| {
                let _ = sender.send(bytes);
            };
            read::fetch(&inner, &path, Want::First(first), None, check, sink).await.map(|_| ())
        })?;
        Ok((told, bytes, started))
    }
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Begun({})", self.inner.locate(&self.path))
    }
}

impl Opening for Begun {
    fn open(self: Box<Self>) -> Result<Arc<dyn StoreFile>> {
        let location = self.inner.locate(&self.path);
        let Self { inner, path, first, request } = *self;
        let work = || {
            let (mut told, mut bytes, mut started) = request?;
            if !started.is_here() {
                // In a forked child: what the parent began does not arrive here.
                (told, bytes, started) = Self::request(&inner, &path, first)?;
            }
            let Ok(tag) = told.recv() else {
                started.wait()?;
                return Err(runtime::ended());
            };
            let len = tag.size().min(first);
            let held = Held::some(&inner, len, true).ok_or_else(runtime::ended)?;
            let beginning = First::new(len, bytes, started, held);
            Ok(Arc::new(Handle(Arc::new(CloudFile::begun(inner, path, tag, beginning)))) as Arc<dyn StoreFile>)
        };
        work().map_err(|e| e.at(location))
    }
}
