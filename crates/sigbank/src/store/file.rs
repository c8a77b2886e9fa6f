//! Objects that are being read.

use super::Version;
use crate::error::{Error, Result};
use bytes::Bytes;
use sigbank_format::read_at::ReadAt;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// An object that is being read, see [`Store::open_read`](super::Store::open_read).
///
/// The conveniences are overridden where a request costs time: they let a caller have several in flight.
pub trait StoreFile: ReadAt + fmt::Debug {
    /// Its name as [`Store::locate`](super::Store::locate) shows it.
    fn location(&self) -> &str;

    /// The version that is being read, where the store knows it for free.
    fn version(&self) -> Option<&Version> {
        None
    }

    /// The bytes of each range, in the order given, read together. A range past the end is `Corrupt`.
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = ranges.iter().map(|range| {
            let located = |e: Error| e.at(self.location());
            super::range_len(range, self.size()).map_err(located)?;
            let mut bytes = super::zeroed(range.end - range.start).map_err(located)?;
            self.read_at(range.start, &mut bytes).map_err(|e| located(e.into()))?;
            Ok(bytes.into())
        });
        read.collect()
    }

    /// Begins to read ranges and returns without waiting for them. Where reading costs no waiting, it is done here.
    fn start_ranges(self: Arc<Self>, ranges: &[Range<u64>]) -> Box<dyn Pending> {
        Box::new(Done(self.read_ranges(ranges)))
    }

    /// The object from its start to its end, fetched ahead of who reads where that costs time.
    fn stream(self: Arc<Self>) -> Box<dyn io::Read + Send>;
}

/// Bytes that were asked for. Dropped without [`Pending::wait`], the request is given up.
pub trait Pending: Send + fmt::Debug {
    /// Whether [`Pending::wait`] would return at once.
    fn is_ready(&self) -> bool;
    /// Waits for the bytes of each range, in the order asked for.
    fn wait(self: Box<Self>) -> Result<Vec<Bytes>>;
}

/// An object that is being opened, see [`Store::open_ahead`](super::Store::open_ahead). Dropped without [`Opening::open`], the request is
/// given up.
pub trait Opening: Send + fmt::Debug {
    /// The object, as soon as its size and version are known. Its first bytes may still be on their way.
    fn open(self: Box<Self>) -> Result<Arc<dyn StoreFile>>;
}

#[derive(Debug)]
struct Done(Result<Vec<Bytes>>);

impl Pending for Done {
    fn is_ready(&self) -> bool {
        true
    }
    fn wait(self: Box<Self>) -> Result<Vec<Bytes>> {
        self.0
    }
}

/// Reads a [`StoreFile`] from its start to its end, for decoders that want a stream.
///
/// ```
/// use sigbank::store::{MemoryStore, Sequential, Store};
/// use std::io::Read;
/// let (store, name) = (MemoryStore::new(), sigbank::uri::RelPath::parse("a")?);
/// store.create(&name, &[b"hello ", b"world"])?;
/// let mut text = String::new();
/// Sequential::new(store.open_read(&name)?).read_to_string(&mut text)?;
/// assert_eq!(text, "hello world");
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug)]
pub struct Sequential {
    file: Arc<dyn StoreFile>,
    position: u64,
}

impl Sequential {
    /// A reader at the start of `file`.
    pub fn new(file: Arc<dyn StoreFile>) -> Self {
        Self { file, position: 0 }
    }
}

impl io::Read for Sequential {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.file.size().saturating_sub(self.position);
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let Some(target) = buf.get_mut(..n) else { return Ok(0) };
        self.file.read_at(self.position, target).map_err(|e| Error::from(e).at(self.file.location()))?;
        self.position += n as u64;
        Ok(n)
    }
}
