//! A store that is said to be far away, over one that is not: it counts requests and bytes, may be slow, and may fail.

#![allow(dead_code)] // Each test uses what it needs.

use bytes::Bytes;
use sigbank::store::*;
use sigbank::uri::RelPath;
use sigbank::{Error, Result};
use sigbank_format::read_at::ReadAt;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub fn p(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

/// So many bytes that differ everywhere.
pub fn bytes(seed: u64, len: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        })
        .collect()
}

/// Bytes that the files below a directory take.
pub fn disk_usage(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let one = |path: &Path| match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => disk_usage(path),
        Ok(meta) => meta.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(|entry| one(&entry.path())).sum()
}

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    fetched: AtomicU64,
    delay: AtomicU64,
    fail: AtomicBool,
}

#[derive(Debug, Clone)]
pub struct Far {
    inner: Arc<dyn Store>,
    counts: Arc<Counts>,
    versions: bool,
}

impl Far {
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, counts: Arc::default(), versions: true }
    }
    pub fn without_versions(self) -> Self {
        Self { versions: false, ..self }
    }
    pub fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::Relaxed)
    }
    /// Bytes of ranges.
    pub fn fetched(&self) -> u64 {
        self.counts.fetched.load(Ordering::Relaxed)
    }
    pub fn forget(&self) {
        self.counts.requests.store(0, Ordering::Relaxed);
        self.counts.fetched.store(0, Ordering::Relaxed);
    }
    pub fn delay(&self, time: Duration) {
        self.counts.delay.store(time.as_millis() as u64, Ordering::Relaxed);
    }
    pub fn fail_next(&self) {
        self.counts.fail.store(true, Ordering::Relaxed);
    }
    fn request(&self, bytes: u64) -> Result<()> {
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        self.counts.fetched.fetch_add(bytes, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(self.counts.delay.load(Ordering::Relaxed)));
        if self.counts.fail.swap(false, Ordering::Relaxed) { Err(Error::storage("no line")) } else { Ok(()) }
    }
}

impl Store for Far {
    fn location(&self) -> String {
        format!("far:{}", self.inner.location())
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { round_trip: 1 << 20, locks: false, ..self.inner.capabilities() }
    }
    fn get_versioned(&self, path: &RelPath) -> Result<(Bytes, Version)> {
        self.request(0)?;
        self.inner.get_versioned(path)
    }
    fn get_ranges(&self, path: &RelPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.request(0)?;
        self.inner.get_ranges(path, ranges)
    }
    fn head(&self, path: &RelPath) -> Result<ObjectMeta> {
        self.request(0)?;
        self.inner.head(path)
    }
    fn open_read(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        self.request(0)?;
        let version = self.inner.get_versioned(path)?.1;
        let version = self.versions.then_some(version);
        Ok(Arc::new(FarFile { file: self.inner.open_read(path)?, store: self.clone(), version }))
    }
    fn open_sized(&self, path: &RelPath, size: u64) -> Result<Arc<dyn StoreFile>> {
        let file = self.inner.open_sized(path, size)?;
        Ok(Arc::new(FarFile { file, store: self.clone(), version: None }))
    }
    fn list(&self, prefix: Option<&RelPath>) -> Result<Listing<'_>> {
        self.request(0)?;
        self.inner.list(prefix)
    }
    fn create(&self, path: &RelPath, parts: &[&[u8]]) -> Result<()> {
        self.inner.create(path, parts)
    }
    fn write_new(&self, path: &RelPath) -> Result<Box<dyn NewObject>> {
        self.inner.write_new(path)
    }
    fn replace(&self, path: &RelPath, parts: &[&[u8]], expected: Expected<'_>) -> Result<Version> {
        self.inner.replace(path, parts, expected)
    }
    fn delete(&self, path: &RelPath) -> Result<()> {
        self.inner.delete(path)
    }
    fn flush(&self, paths: &[RelPath]) -> Result<()> {
        self.inner.flush(paths)
    }
}

#[derive(Debug)]
struct FarFile {
    file: Arc<dyn StoreFile>,
    store: Far,
    version: Option<Version>,
}

impl ReadAt for FarFile {
    fn size(&self) -> u64 {
        self.file.size()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> sigbank_format::Result<()> {
        self.store.request(buf.len() as u64)?;
        self.file.read_at(offset, buf)
    }
}

impl StoreFile for FarFile {
    fn location(&self) -> &str {
        self.file.location()
    }
    fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store.request(ranges.iter().map(|r| r.end - r.start).sum())?;
        self.file.read_ranges(ranges)
    }
    fn stream(self: Arc<Self>) -> Box<dyn Read + Send> {
        Box::new(Sequential::new(self))
    }
}
