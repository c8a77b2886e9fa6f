//! A store that behaves as an object store does and counts what it is asked for, for tests of what stands on stores.

use super::*;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a [`BucketStore`] was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requests {
    /// Reads, of whole objects or of ranges.
    pub get: u64,
    /// Questions for a size.
    pub head: u64,
    /// Objects written or replaced, also where a condition refused it.
    pub put: u64,
    /// Deletions.
    pub delete: u64,
    /// Listings.
    pub list: u64,
    /// Bytes handed out.
    pub bytes_read: u64,
    /// Bytes taken in.
    pub bytes_written: u64,
}

#[derive(Debug, Default)]
struct Counts([AtomicU64; 7]);

impl Counts {
    fn add(&self, which: usize, n: u64) {
        if let Some(count) = self.0.get(which) {
            count.fetch_add(n, Ordering::Relaxed);
        }
    }
    fn get(&self, bytes: u64) {
        self.add(0, 1);
        self.add(5, bytes);
    }
    fn put(&self, bytes: u64) {
        self.add(2, 1);
        self.add(6, bytes);
    }
}

/// A store over another one that has no locks, no logs and nothing to flush, tells versions by content as an ETag does, and takes
/// a time for each request. It opens an object with one request that brings its first bytes, joins ranges whose gaps cost less
/// than a request, and streams with one request.
///
/// ```
/// use sigbank::store::bucket::BucketStore;
/// use sigbank::store::{MemoryStore, Store};
/// let store = BucketStore::new(std::sync::Arc::new(MemoryStore::new()), 100);
/// let name = sigbank::uri::RelPath::parse("a")?;
/// store.create(&name, &[&[7; 1000]])?;
/// let file = store.open_read(&name)?;
/// assert_eq!(file.size(), 1000);
/// file.read_ranges(&[0..50, 60..90, 500..510, 550..600])?;
/// let asked = store.take();
/// assert_eq!((asked.put, asked.get, asked.bytes_read), (1, 2, 100 + 100));
/// # Ok::<(), sigbank::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct BucketStore {
    inner: Arc<dyn Store>,
    round_trip: u64,
    delay: Duration,
    counts: Arc<Counts>,
}

impl BucketStore {
    /// A store of the objects of `inner`, where a request costs as much as `round_trip` bytes.
    pub fn new(inner: Arc<dyn Store>, round_trip: u64) -> Self {
        Self { inner, round_trip, delay: Duration::ZERO, counts: Arc::default() }
    }
    /// The same, and each request takes so long.
    #[must_use]
    pub fn delayed(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
    /// What was asked for since the last call.
    pub fn take(&self) -> Requests {
        let take = |which: usize| self.counts.0.get(which).map_or(0, |count| count.swap(0, Ordering::Relaxed));
        Requests {
            get: take(0),
            head: take(1),
            put: take(2),
            delete: take(3),
            list: take(4),
            bytes_read: take(5),
            bytes_written: take(6),
        }
    }
    fn wait(&self) {
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
    }
    /// One request for an object's first bytes.
    fn open_first(&self, path: &RelPath, first: u64) -> Result<Arc<dyn StoreFile>> {
        let file = match self.inner.open_read(path) {
            Ok(file) => file,
            Err(e) => {
                self.counts.get(0);
                return Err(e);
            }
        };
        let first = self.range(&*file, 0..file.size().min(first))?;
        Ok(Arc::new(BucketFile { store: self.clone(), file, first }))
    }
    fn put(&self, parts: &[&[u8]]) {
        self.wait();
        self.counts.put(parts.iter().map(|part| part.len() as u64).sum());
    }
    /// One request for a part of an object.
    fn range(&self, file: &dyn StoreFile, range: Range<u64>) -> Result<Bytes> {
        self.wait();
        self.counts.get(range.end.saturating_sub(range.start));
        file.read_ranges(&[range])?.pop().ok_or_else(missing)
    }
}

fn etag(bytes: &[u8]) -> Version {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    Version::new(format!("{:x}-{}", hasher.finish(), bytes.len()))
}

impl Store for BucketStore {
    fn location(&self) -> String {
        self.inner.location()
    }
    fn capabilities(&self) -> Capabilities {
        let inner = self.inner.capabilities();
        Capabilities { locks: false, flush: false, round_trip: self.round_trip, ..inner }
    }
    fn get_versioned(&self, path: &RelPath) -> Result<(Bytes, Version)> {
        self.wait();
        let got = self.inner.get(path);
        self.counts.get(got.as_ref().map_or(0, |bytes| bytes.len() as u64));
        got.map(|bytes| (bytes.clone(), etag(&bytes)))
    }
    fn get_at_most(&self, path: &RelPath, most: u64) -> Result<Bytes> {
        self.wait();
        let got = self.inner.get_at_most(path, most);
        self.counts.get(got.as_ref().map_or(0, |bytes| bytes.len() as u64));
        got
    }
    fn get_ranges(&self, path: &RelPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let file = self.inner.open_read(path)?;
        joined(ranges, file.size(), self.round_trip, |range| self.range(&*file, range)).map_err(|e| e.at(self.locate(path)))
    }
    fn head(&self, path: &RelPath) -> Result<ObjectMeta> {
        self.wait();
        self.counts.add(1, 1);
        self.inner.head(path)
    }
    fn open_read(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        self.open_first(path, self.round_trip)
    }
    fn open_ahead(&self, path: &RelPath, first: u64) -> Option<Box<dyn Opening>> {
        let (store, path) = (self.clone(), path.clone());
        Some(Box::new(Begun(std::thread::spawn(move || store.open_first(&path, first)))))
    }
    fn open_sized(&self, path: &RelPath, _size: u64) -> Result<Arc<dyn StoreFile>> {
        Ok(Arc::new(BucketFile { store: self.clone(), file: self.inner.open_read(path)?, first: Bytes::new() }))
    }
    fn list(&self, prefix: Option<&RelPath>) -> Result<Listing<'_>> {
        self.wait();
        self.counts.add(4, 1);
        self.inner.list(prefix)
    }
    fn create(&self, path: &RelPath, parts: &[&[u8]]) -> Result<()> {
        self.put(parts);
        self.inner.create(path, parts)
    }
    fn write_new(&self, path: &RelPath) -> Result<Box<dyn NewObject>> {
        Ok(Box::new(NewBucketObject { store: self.clone(), path: path.clone(), bytes: Vec::new() }))
    }
    fn replace(&self, path: &RelPath, parts: &[&[u8]], expected: Expected<'_>) -> Result<Version> {
        self.put(parts);
        let version = match expected {
            Expected::Version(wanted) => {
                let found = self.inner.get_versioned(path).ok().filter(|(bytes, _)| etag(bytes) == *wanted);
                found.ok_or_else(|| changed().at(self.locate(path)))?.1
            }
            other => return self.inner.replace(path, parts, other).map(|_| etag(&parts.concat())),
        };
        self.inner.replace(path, parts, Expected::Version(&version)).map(|_| etag(&parts.concat()))
    }
    fn delete(&self, path: &RelPath) -> Result<()> {
        self.wait();
        self.counts.add(3, 1);
        self.inner.delete(path)
    }
    fn flush(&self, paths: &[RelPath]) -> Result<()> {
        self.inner.flush(paths)
    }
    fn locate(&self, path: &RelPath) -> String {
        self.inner.locate(path)
    }
}

/// Reads ranges by as few requests as their gaps allow.
fn joined(ranges: &[Range<u64>], size: u64, gap: u64, mut read: impl FnMut(Range<u64>) -> Result<Bytes>) -> Result<Vec<Bytes>> {
    ranges.iter().try_for_each(|range| range_len(range, size).map(|_| ()))?;
    let mut order: Vec<&Range<u64>> = ranges.iter().filter(|range| !range.is_empty()).collect();
    order.sort_unstable_by_key(|range| range.start);
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in order {
        match runs.last_mut().filter(|run| range.start <= run.end.saturating_add(gap)) {
            Some(run) => run.end = run.end.max(range.end),
            None => runs.push(range.clone()),
        }
    }
    let read: Vec<(u64, Bytes)> = runs.into_iter().map(|run| Ok((run.start, read(run)?))).collect::<Result<_>>()?;
    let part = |range: &Range<u64>| {
        let at = read.partition_point(|(start, _)| *start <= range.start).saturating_sub(1);
        let (start, bytes) = read.get(at).filter(|_| !range.is_empty())?;
        Some(bytes.slice((range.start - start) as usize..(range.end - start) as usize))
    };
    Ok(ranges.iter().map(|range| part(range).unwrap_or_default()).collect())
}

#[derive(Debug)]
struct Begun(std::thread::JoinHandle<Result<Arc<dyn StoreFile>>>);

impl Opening for Begun {
    fn open(self: Box<Self>) -> Result<Arc<dyn StoreFile>> {
        self.0.join().unwrap_or_else(|_| Err(Error::storage("opening panicked")))
    }
}

#[derive(Debug)]
struct BucketFile {
    store: BucketStore,
    file: Arc<dyn StoreFile>,
    /// What opening brought.
    first: Bytes,
}

impl ReadAt for BucketFile {
    fn size(&self) -> u64 {
        self.file.size()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> sigbank_format::Result<()> {
        let end = offset.saturating_add(buf.len() as u64);
        if end <= self.first.len() as u64 {
            return self.first.read_at(offset, buf);
        }
        self.store.wait();
        self.store.counts.get(buf.len() as u64);
        self.file.read_at(offset, buf)
    }
}

impl StoreFile for BucketFile {
    fn location(&self) -> &str {
        self.file.location()
    }
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        joined(ranges, self.size(), self.store.round_trip, |range| match range.end <= self.first.len() as u64 {
            true => Ok(self.first.slice(range.start as usize..range.end as usize)),
            false => self.store.range(&*self.file, range),
        })
        .map_err(|e| e.at(self.location()))
    }
    fn stream(self: Arc<Self>) -> Box<dyn io::Read + Send> {
        let (size, begun) = (self.file.size(), self.first.len() as u64);
        if begun < size {
            self.store.wait();
            self.store.counts.get(size - begun);
        }
        Box::new(Sequential::new(self.file.clone()))
    }
}

#[derive(Debug)]
struct NewBucketObject {
    store: BucketStore,
    path: RelPath,
    bytes: Vec<u8>,
}

impl Write for NewBucketObject {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(buf);
        Ok(buf.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewObject for NewBucketObject {
    fn commit(self: Box<Self>) -> Result<()> {
        self.store.create(&self.path, &[&self.bytes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conformance() {
        super::super::conformance::run(&|| Arc::new(BucketStore::new(Arc::new(MemoryStore::new()), 16)));
    }
}
