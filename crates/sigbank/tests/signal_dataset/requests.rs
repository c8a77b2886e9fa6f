//! What reading costs where each request is a round trip: counted in a store, exactly.

use super::support::*;
use bytes::Bytes;
use sigbank::Result;
use sigbank::format::read_at::ReadAt;
use sigbank::format::record::signal::{Axis, FieldMetadata, RecordMetadata};
use sigbank::layout::signal_dataset::{Dataset, Elsewhere, Options, Publication, Record, publish, write_shard};
use sigbank::store::bucket::BucketStore;
use sigbank::store::{
    Capabilities, Expected, Listing, MemoryStore, NewObject, ObjectMeta, Pending, Sequential, Store, StoreFile, Version, cache,
};
use sigbank::uri::RelPath;
use std::io::Read;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

/// A store in memory that behaves as one far away: opening an object of known size asks nothing.
#[derive(Debug, Default)]
struct Far {
    inner: MemoryStore,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    requests: AtomicU64,
    bytes: AtomicU64,
    heads: AtomicU64,
    in_flight: AtomicU64,
    most_in_flight: AtomicU64,
    /// How long a request takes.
    delay: Mutex<Duration>,
}

impl Seen {
    fn request(&self, bytes: u64) {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }
    fn begin(&self) {
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_flight.fetch_max(now, Ordering::SeqCst);
    }
    fn end(&self) {
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
    fn wait(&self) {
        let delay = *self.delay.lock().unwrap();
        self.begin();
        std::thread::sleep(delay);
        self.end();
    }
    /// Requests and bytes since this was asked last.
    fn take(&self) -> (u64, u64) {
        (self.requests.swap(0, Ordering::SeqCst), self.bytes.swap(0, Ordering::SeqCst))
    }
}

impl Store for Far {
    fn location(&self) -> String {
        "far://bucket".into()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { round_trip: 1 << 20, ..self.inner.capabilities() }
    }
    fn get_versioned(&self, path: &RelPath) -> Result<(Bytes, Version)> {
        let got = self.inner.get_versioned(path);
        self.seen.request(got.as_ref().map_or(0, |(bytes, _)| bytes.len() as u64));
        self.seen.wait();
        got
    }
    fn get_at_most(&self, path: &RelPath, most: u64) -> Result<Bytes> {
        let got = self.inner.get_at_most(path, most);
        self.seen.request(got.as_ref().map_or(0, |bytes| bytes.len() as u64));
        self.seen.wait();
        got
    }
    fn get_ranges(&self, path: &RelPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().for_each(|range| self.seen.request(range.end - range.start));
        self.inner.get_ranges(path, ranges)
    }
    fn head(&self, path: &RelPath) -> Result<ObjectMeta> {
        self.seen.heads.fetch_add(1, Ordering::SeqCst);
        self.seen.request(0);
        self.inner.head(path)
    }
    fn open_read(&self, path: &RelPath) -> Result<Arc<dyn StoreFile>> {
        self.open_sized(path, self.head(path)?.size)
    }
    fn open_sized(&self, path: &RelPath, size: u64) -> Result<Arc<dyn StoreFile>> {
        let inner = self.inner.open_read(path)?;
        Ok(Arc::new(FarFile { inner, size, seen: Arc::clone(&self.seen) }))
    }
    fn list(&self, _prefix: Option<&RelPath>) -> Result<Listing<'_>> {
        panic!("nothing is ever listed")
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
    inner: Arc<dyn StoreFile>,
    size: u64,
    seen: Arc<Seen>,
}

impl ReadAt for FarFile {
    fn size(&self) -> u64 {
        self.size
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> sigbank::format::Result<()> {
        self.seen.request(buf.len() as u64);
        self.seen.wait();
        self.inner.read_at(offset, buf)
    }
}

impl StoreFile for FarFile {
    fn location(&self) -> &str {
        self.inner.location()
    }
    fn start_ranges(self: Arc<Self>, ranges: &[Range<u64>]) -> Box<dyn Pending> {
        ranges.iter().for_each(|range| self.seen.request(range.end - range.start));
        self.seen.begin();
        Box::new(Begun { bytes: self.inner.read_ranges(ranges), seen: Arc::clone(&self.seen) })
    }
    fn stream(self: Arc<Self>) -> Box<dyn Read + Send> {
        Box::new(Sequential::new(self))
    }
}

#[derive(Debug)]
struct Begun {
    bytes: Result<Vec<Bytes>>,
    seen: Arc<Seen>,
}

impl Pending for Begun {
    fn is_ready(&self) -> bool {
        false
    }
    fn wait(self: Box<Self>) -> Result<Vec<Bytes>> {
        std::thread::sleep(*self.seen.delay.lock().unwrap());
        self.bytes.clone()
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.seen.end();
    }
}

fn far(records: u64, size: u64) -> (Arc<dyn Store>, Arc<Seen>) {
    let store = Far::default();
    let seen = Arc::clone(&store.seen);
    let store: Arc<dyn Store> = Arc::new(store);
    dataset(&store, records, size, &options());
    seen.take();
    seen.heads.store(0, Ordering::SeqCst);
    (store, seen)
}

/// The root and the snapshot; then the page, the end of the shard and the record; then a record each.
#[test]
fn a_record_costs_one_request() {
    let (store, seen) = far(3000, 1000);
    let dataset = Dataset::open_store(store, options()).unwrap();
    assert_eq!(seen.take().0, 2);
    let first = dataset.record(1500).unwrap();
    assert_eq!(number(first.metadata()), 1500);
    assert_eq!(seen.take().0, 3);
    dataset.record(1501).unwrap();
    let (requests, bytes) = seen.take();
    // Its own chunk, not the shard.
    assert!(requests == 1 && bytes < 1024, "{requests} {bytes}");
    dataset.record_metadata(1500).unwrap();
    assert_eq!(seen.take().0, 2);
    assert_eq!(seen.heads.load(Ordering::SeqCst), 0);
}

/// What is wanted of many shards is on its way together, however many threads there are.
#[test]
fn requests_of_one_call_are_in_flight_together() {
    let (store, seen) = far(640, 10);
    let dataset = Dataset::open_store(store, Options { threads: 1, max_open_shards: 64, ..Options::default() }).unwrap();
    seen.take();
    *seen.delay.lock().unwrap() = Duration::from_millis(5);
    let ordinals: Vec<u64> = (0..64).map(|i| i * 10 * 37 % 640 + 3).collect();
    let got: Vec<u64> = dataset.read(&ordinals).unwrap().iter().map(|record| number(record.metadata())).collect();
    assert_eq!(got, ordinals);
    // The page, the end of each shard, the records.
    assert_eq!(seen.take().0, 1 + 64 + 64);
    seen.most_in_flight.store(0, Ordering::SeqCst);
    dataset.read(&ordinals).unwrap();
    assert_eq!((seen.take().0, seen.most_in_flight.load(Ordering::SeqCst)), (64, 64));
    // Near each other they are one request.
    dataset.read(&[100, 104, 109, 101]).unwrap();
    assert_eq!(seen.take().0, 1);
}

/// Bytes between records are read where that costs less than one more request beside 31 others: a 32nd of a round trip.
#[test]
fn distant_records_of_a_shard_cost_their_own_bytes() {
    let store = Far::default();
    let seen = Arc::clone(&store.seen);
    let store: Arc<dyn Store> = Arc::new(store);
    let one = |n: u64| -> Result<Record> {
        // What no compression makes small.
        let mut state = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let samples: Vec<u8> = (0..20_000).map(|_| next()).collect();
        let field = FieldMetadata {
            axes: vec![Axis::new("t", 20_000)],
            ..FieldMetadata::new("x", "uint8".parse().unwrap(), vec![20_000])
        };
        Ok(Record { metadata: RecordMetadata::new(format!("r{n}"), vec![field]), data: vec![samples.into()] })
    };
    let shard = write_shard(&*store, (0..32).map(one), "w", 0, &options()).unwrap();
    let dataset = publish(&store, &[shard], &Publication::new("far", "v1"), &options()).unwrap();
    dataset.record(0).unwrap();
    seen.take();
    for (ordinals, requests, records) in
        [(&[3, 5][..], 1, 3), (&[3, 7], 2, 2), (&[20, 0, 10, 30], 4, 4), (&[1, 2, 3, 4], 1, 4), (&[9, 9], 1, 1)]
    {
        let got: Vec<String> = dataset.read(ordinals).unwrap().iter().map(|r| r.metadata().id.clone()).collect();
        assert_eq!(got, ordinals.iter().map(|n| format!("r{n}")).collect::<Vec<_>>());
        let (asked, bytes) = seen.take();
        assert_eq!((asked, bytes / 20_000), (requests, records), "{ordinals:?}: {bytes} bytes");
    }
}

/// 32 threads read a record each of one shard that none has opened yet: it is opened once, and the page is read once.
#[test]
fn threads_open_a_shard_once() {
    let (store, seen) = far(320, 320);
    let dataset = Dataset::open_store(store, options()).unwrap();
    seen.take();
    *seen.delay.lock().unwrap() = Duration::from_millis(20);
    seen.most_in_flight.store(0, Ordering::SeqCst);
    let together = Barrier::new(32);
    std::thread::scope(|scope| {
        for i in 0..32 {
            let (dataset, together) = (&dataset, &together);
            scope.spawn(move || {
                together.wait();
                assert_eq!(number(dataset.record(i * 10).unwrap().metadata()), i * 10);
            });
        }
    });
    assert_eq!(seen.take().0, 1 + 1 + 32);
    let most = seen.most_in_flight.load(Ordering::SeqCst);
    assert!(most >= 24, "{most} requests were in flight together");
}

/// An epoch in order: neighbours come together, far more than one at a time, and no shard is opened twice.
#[test]
fn iteration_reads_ahead_in_large_pieces() {
    let (store, seen) = far(4000, 1000);
    let dataset = Dataset::open_store(store, options()).unwrap();
    seen.take();
    let got: Vec<u64> = dataset.batches(0..4000).flat_map(Result::unwrap).map(|r| number(r.metadata())).collect();
    assert_eq!(got, (0..4000).collect::<Vec<_>>());
    let (requests, _) = seen.take();
    // The page, four ends, the first record alone, and pieces of 1 MiB of decoded records.
    assert!(requests <= 1 + 4 + 1 + 8, "{requests}");
}

/// The shards of a published view are in another bucket, which is reached once.
#[test]
fn a_view_reaches_the_other_bucket_once() {
    let (store, seen) = far(100, 10);
    let source = Dataset::open_store(Arc::clone(&store), options()).unwrap();
    let target: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let elsewhere = {
        let (asked, store) = (Arc::clone(&asked), Arc::clone(&store));
        Elsewhere::new(move |address| {
            asked.lock().unwrap().push(address.to_owned());
            Ok(Arc::clone(&store))
        })
    };
    let options = Options { elsewhere, ..options() };
    let view = source.select(vec![91, 3, 55]).unwrap();
    view.publish(&target, &Publication::new("view", "v1"), &options).unwrap();
    let view = Dataset::open_store(target, options).unwrap();
    seen.take();
    let got: Vec<u64> = view.read(&[0, 1, 2]).unwrap().iter().map(|r| number(r.metadata())).collect();
    assert_eq!(got, [91, 3, 55]);
    assert_eq!(*asked.lock().unwrap(), ["far://bucket"]);
    assert_eq!(seen.take().0, 3 + 3);
}

/// Opening a snapshot of 10,000 shards takes two requests, its first record three more.
#[test]
fn opening_does_not_grow_with_shards() {
    let store = Far::default();
    let seen = Arc::clone(&store.seen);
    let store: Arc<dyn Store> = Arc::new(store);
    let one = shards(&*store, 10, 10, &options()).remove(0);
    // The same objects under other work ids.
    let shards: Vec<_> = (0..10_000)
        .map(|i| sigbank::layout::signal_dataset::PublishedShard { work_id: format!("w{i:05}"), ..one.clone() })
        .collect();
    sigbank::layout::signal_dataset::publish(&store, &shards, &Publication::new("many", "v1"), &options()).unwrap();
    seen.take();
    let dataset = Dataset::open_store(store, options()).unwrap();
    assert_eq!((dataset.len(), seen.take().0), (100_000, 2));
    assert_eq!(number(dataset.record(99_999).unwrap().metadata()), 9);
    assert_eq!(seen.take().0, 3);
}

/// What a reference gives a digest of is known to the cache without a question, in a later process too.
#[test]
fn cached_shards_cost_no_request() {
    let (dir, inner) = (tempfile::tempdir().unwrap(), memory());
    dataset(&inner, 20, 10, &options());
    let bucket = BucketStore::new(Arc::clone(&inner), 1 << 20);
    let settings = [("cache_dir".to_owned(), dir.path().display().to_string())].into();
    let all = || {
        let store = cache::wrap(Arc::new(bucket.clone()), &settings).unwrap();
        let dataset = Dataset::open_store(store, options()).unwrap();
        for i in 0..20 {
            assert_eq!(*dataset.record(i).unwrap().metadata(), record(i).metadata, "{i}");
        }
        let ids = dataset.metadata_batches(0..20).map(|batch| batch.unwrap().len()).sum::<usize>();
        assert_eq!(ids, 20);
        let asked = bucket.take();
        (asked.get, asked.head)
    };
    // The root, the snapshot and the page; then the two objects of each of two shards.
    assert_eq!(all(), (3 + 4, 0));
    assert_eq!(all(), (3, 0));
    // To verify is to look at the storage itself.
    let object = inner.list(None).unwrap().map(|e| e.unwrap().path).find(|p| p.as_str().ends_with(".arrayrecord")).unwrap();
    let mut bytes = inner.get(&object).unwrap().to_vec();
    bytes[70_000] ^= 1;
    replace(&*inner, object.as_str(), &bytes);
    assert_eq!(all(), (3, 0));
    let store = cache::wrap(Arc::new(bucket.clone()), &settings).unwrap();
    let e = Dataset::open_store(store, options()).unwrap().verify(&mut |_, _| true).unwrap_err();
    assert!(e.code() == sigbank::Code::Corrupt && e.to_string().contains(object.as_str()), "{e}");
}
