//! Sedpack datasets in a store without locks, as an object store: what a failure at any request leaves, and many writers at once.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // All of this file is test.

use serde_json::json;
use sigbank::Error;
use sigbank::layout::sedpack::{Dataset, Filler, FillerOptions, Info, OpenOptions};
use sigbank::layout::{Source, read};
use sigbank::loader::{Loader, Options};
use sigbank::store::bucket::{BucketStore, Requests};
use sigbank::store::{MemoryStore, Store};
use sigbank::uri::RelPath;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn info(compression: &str, per_shard: u64) -> Info {
    let structure = json!({
        "saved_data_description": [
            {"name": "n", "dtype": "int", "shape": []},
            {"name": "trace", "dtype": "int32", "shape": [100]},
        ],
        "compression": compression, "examples_per_shard": per_shard,
    });
    Info::new(Default::default(), structure.as_object().unwrap().clone()).unwrap()
}

fn record(n: i64) -> [Vec<u8>; 2] {
    [n.to_le_bytes().to_vec(), (0..100).flat_map(|i| ((n + i) as i32).to_le_bytes()).collect()]
}

fn append(filler: &mut Filler, range: std::ops::Range<i64>) -> sigbank::Result<()> {
    for n in range {
        let [number, trace] = record(n);
        filler.append("train", &[&number, &trace], None)?;
    }
    Ok(())
}

fn fill(dataset: &Dataset, range: std::ops::Range<i64>) -> sigbank::Result<()> {
    let mut filler = dataset.filler(FillerOptions::default())?;
    append(&mut filler, range)?;
    filler.finish().map(|_| ())
}

/// The numbers of all records, each of which is compared.
fn numbers(dataset: &dyn Source) -> sigbank::Result<Vec<i64>> {
    if dataset.splits().is_empty() {
        return Ok(Vec::new());
    }
    let all = dataset.units("train")?.records();
    let rows = read(dataset, "train", &(0..all).collect::<Vec<_>>(), &[0, 1])?;
    let number = |row: &Vec<Vec<u8>>| {
        let n = i64::from_le_bytes(row[0].as_slice().try_into().unwrap());
        assert_eq!(row[1], record(n)[1]);
        n
    };
    Ok(rows.iter().map(number).collect())
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

fn bucket(inner: &Arc<dyn Store>) -> BucketStore {
    BucketStore::new(inner.clone(), 1000)
}

fn open(store: impl Store + 'static) -> sigbank::Result<Dataset> {
    Dataset::open_store(Arc::new(store), OpenOptions::default())
}

/// Opens, reads, verifies and fills what is there; gives the numbers that were there before.
fn healthy(objects: &Arc<dyn Store>, context: &str) -> Vec<i64> {
    goes_on(objects).map_err(|e| e.within(context)).unwrap()
}

fn goes_on(objects: &Arc<dyn Store>) -> sigbank::Result<Vec<i64>> {
    let dataset = open(bucket(objects))?;
    let before = numbers(&dataset)?;
    dataset.verify(&mut |_, _| true)?;
    let dataset = open(bucket(objects))?;
    dataset.check(&[], &mut |_, _| true)?;
    fill(&dataset, 1000..1003)?;
    let dataset = open(bucket(objects))?;
    dataset.check(&[], &mut |_, _| true)?;
    let mut after = numbers(&dataset)?;
    assert!(after.ends_with(&[1000, 1001, 1002]), "{after:?}");
    after.truncate(after.len() - 3);
    assert!(after.starts_with(&before), "{before:?} {after:?}");
    Ok(after)
}

/// A store whose n-th change fails, and whose later ones do too where its process is killed then.
#[derive(Debug)]
struct Breaking {
    inner: Arc<dyn Store>,
    left: std::sync::atomic::AtomicI64,
    done: bool,
    killed: bool,
}

impl Breaking {
    fn change<T>(&self, change: impl FnOnce() -> sigbank::Result<T>) -> sigbank::Result<T> {
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        if left > 1 || (left < 1 && !self.killed) {
            return change();
        }
        let broken = || Error::storage("the connection was reset");
        if self.done && left == 1 {
            change()?;
        }
        Err(broken())
    }
}

#[derive(Debug)]
struct BreakingNew(Box<dyn sigbank::store::NewObject>, Arc<Breaking>);

impl std::io::Write for BreakingNew {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.write(buf)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl sigbank::store::NewObject for BreakingNew {
    fn commit(self: Box<Self>) -> sigbank::Result<()> {
        let Self(new, store) = *self;
        store.change(|| new.commit())
    }
}

#[derive(Debug, Clone)]
struct Broken(Arc<Breaking>);

impl Store for Broken {
    fn location(&self) -> String {
        self.0.inner.location()
    }
    fn capabilities(&self) -> sigbank::store::Capabilities {
        self.0.inner.capabilities()
    }
    fn get_versioned(&self, path: &RelPath) -> sigbank::Result<(bytes::Bytes, sigbank::store::Version)> {
        self.0.inner.get_versioned(path)
    }
    fn get_ranges(&self, path: &RelPath, ranges: &[std::ops::Range<u64>]) -> sigbank::Result<Vec<bytes::Bytes>> {
        self.0.inner.get_ranges(path, ranges)
    }
    fn head(&self, path: &RelPath) -> sigbank::Result<sigbank::store::ObjectMeta> {
        self.0.inner.head(path)
    }
    fn open_read(&self, path: &RelPath) -> sigbank::Result<Arc<dyn sigbank::store::StoreFile>> {
        self.0.inner.open_read(path)
    }
    fn list(&self, prefix: Option<&RelPath>) -> sigbank::Result<sigbank::store::Listing<'_>> {
        self.0.inner.list(prefix)
    }
    fn create(&self, path: &RelPath, parts: &[&[u8]]) -> sigbank::Result<()> {
        self.0.change(|| self.0.inner.create(path, parts))
    }
    fn write_new(&self, path: &RelPath) -> sigbank::Result<Box<dyn sigbank::store::NewObject>> {
        Ok(Box::new(BreakingNew(self.0.inner.write_new(path)?, self.0.clone())))
    }
    fn replace(
        &self,
        path: &RelPath,
        parts: &[&[u8]],
        expected: sigbank::store::Expected<'_>,
    ) -> sigbank::Result<sigbank::store::Version> {
        self.0.change(|| self.0.inner.replace(path, parts, expected))
    }
    fn delete(&self, path: &RelPath) -> sigbank::Result<()> {
        self.0.change(|| self.0.inner.delete(path))
    }
    fn flush(&self, paths: &[RelPath]) -> sigbank::Result<()> {
        self.0.inner.flush(paths)
    }
}

fn breaking(objects: &Arc<dyn Store>, n: i64, done: bool, killed: bool) -> Broken {
    let inner = Arc::new(bucket(objects));
    Broken(Arc::new(Breaking { inner, left: n.into(), done, killed }))
}

#[test]
fn a_failure_at_any_change_leaves_a_dataset_that_goes_on() {
    for killed in [false, true] {
        for done in [false, true] {
            let mut finished = 0;
            for n in 1.. {
                let objects = memory();
                let dataset = Dataset::create_store(Arc::new(bucket(&objects)), info("GZIP", 2)).unwrap();
                fill(&dataset, 0..3).unwrap();
                let store = breaking(&objects, n, done, killed);
                let outcome = open(store.clone()).and_then(|dataset| fill(&dataset, 3..8));
                let context = format!("change {n}, done {done}, killed {killed}: {outcome:?}");
                let found = healthy(&objects, &context);
                assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "{context}: {found:?}");
                assert!(found.starts_with(&[0, 1, 2]), "{context}: {found:?}");
                match &outcome {
                    Ok(()) => assert_eq!(found, (0..8).collect::<Vec<_>>(), "{context}"),
                    // A shard that failed is left out alone.
                    Err(_) => assert!(found.len() <= 8, "{context}"),
                }
                // A reply that was lost is known to be a success, whatever it answered.
                assert!(killed || !done || outcome.is_ok(), "{context}");
                finished = n;
                if store.0.left.load(Ordering::SeqCst) > 0 {
                    break;
                }
            }
            assert!(finished > 10, "{finished} changes");
        }
    }
}

#[test]
fn a_failure_while_two_write() {
    for done in [false, true] {
        for n in 1..40 {
            let objects = memory();
            let dataset = Dataset::create_store(Arc::new(bucket(&objects)), info("", 2)).unwrap();
            fill(&dataset, 0..2).unwrap();
            let store = breaking(&objects, n, done, true);
            let (one, other) = std::thread::scope(|scope| {
                let broken = scope.spawn(|| open(store.clone()).and_then(|dataset| fill(&dataset, 10..14)));
                let whole = scope.spawn(|| open(bucket(&objects)).and_then(|dataset| fill(&dataset, 20..24)));
                (broken.join().unwrap(), whole.join().unwrap())
            });
            let context = format!("change {n}, done {done}: {one:?}");
            other.map_err(|e| e.within(&*context)).unwrap();
            let found = healthy(&objects, &context);
            let set: BTreeSet<i64> = found.iter().copied().collect();
            assert_eq!(set.len(), found.len(), "{context}: {found:?}");
            assert!([0, 1, 20, 21, 22, 23].iter().all(|n| set.contains(n)), "{context}: {found:?}");
            assert!(one.is_err() || (10..14).all(|n| set.contains(&n)), "{context}: {found:?}");
        }
    }
}

#[test]
fn eight_threads_fill_at_once_while_others_read() {
    let objects = memory();
    Dataset::create_store(Arc::new(bucket(&objects)), info("LZ4", 2)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = || {
            let mut most = 0;
            while !stop.load(Ordering::Relaxed) {
                let dataset = open(bucket(&objects)).unwrap();
                let found = numbers(&dataset).unwrap();
                assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
                assert!(found.len() >= most, "what was seen once stays");
                most = found.len();
                dataset.verify(&mut |_, _| true).unwrap();
            }
        };
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(reading)).collect();
        let writers: Vec<_> = (0..8i64)
            .map(|w| {
                let objects = &objects;
                scope.spawn(move || {
                    for i in 0..5 {
                        let start = w * 100 + i * 10;
                        fill(&open(bucket(objects)).unwrap(), start..start + 3).unwrap();
                    }
                })
            })
            .collect();
        let written: Vec<_> = writers.into_iter().map(|w| w.join().is_ok()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(readers.into_iter().all(|r| r.join().is_ok()));
        assert!(written.into_iter().all(|ok| ok));
    });
    let mut found = healthy(&objects, "after all");
    found.sort_unstable();
    let wanted = (0..8).flat_map(|w| (0..5).flat_map(move |i| (0..3).map(move |n| w * 100 + i * 10 + n)));
    assert_eq!(found, wanted.collect::<Vec<i64>>());
    let left = objects.list(Some(&RelPath::parse(".sigbank").unwrap())).unwrap().map(|e| e.unwrap().path.to_string());
    let left: Vec<String> = left.filter(|path| !path.starts_with(".sigbank/lists")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_killed_writers_shards_are_taken_over_when_told_and_never_twice() {
    let objects = memory();
    let dataset = Dataset::create_store(Arc::new(bucket(&objects)), info("", 2)).unwrap();
    let mut living = dataset.filler(FillerOptions::default()).unwrap();
    append(&mut living, 0..200).unwrap();
    let mut killed = dataset.filler(FillerOptions::default()).unwrap();
    append(&mut killed, 200..205).unwrap();
    drop(killed);
    fill(&dataset, 300..301).unwrap();
    assert_eq!(numbers(&dataset).unwrap(), [300], "nobody was told to take over");
    let mut filler = dataset.filler(FillerOptions { adopt: Some(true), ..Default::default() }).unwrap();
    append(&mut filler, 400..401).unwrap();
    filler.finish().unwrap();
    assert_eq!(filler.adopted().records, 204);
    living.finish().unwrap();
    let mut found = numbers(&open(bucket(&objects)).unwrap()).unwrap();
    found.sort_unstable();
    assert_eq!(found, (0..204).chain([300, 400]).collect::<Vec<_>>());
    healthy(&objects, "after all");
}

/// What a call costs, of the store that it is made on.
fn cost<T>(store: &BucketStore, call: impl FnOnce() -> sigbank::Result<T>) -> (T, Requests) {
    store.take();
    let value = call().unwrap();
    (value, store.take())
}

/// A dataset of shards of four records, and its store, where a request costs as much as `round_trip` bytes.
fn filled(file_type: &str, compression: &str, shards: i64, round_trip: u64) -> (BucketStore, Dataset) {
    let store = BucketStore::new(memory(), round_trip);
    let mut structure = info("", 4).structure_object();
    structure.insert("shard_file_type".into(), file_type.into());
    structure.insert("compression".into(), compression.into());
    let dataset = Dataset::create_store(Arc::new(store.clone()), Info::new(Default::default(), structure).unwrap()).unwrap();
    fill(&dataset, 0..shards * 4).unwrap();
    (store, dataset)
}

#[test]
fn what_writing_costs() {
    let store = BucketStore::new(memory(), 1000);
    let (dataset, asked) = cost(&store, || Dataset::create_store(Arc::new(store.clone()), info("", 4)));
    assert_eq!((asked.put, asked.get), (1, 1), "the root, and reading it");
    let ((), asked) = cost(&store, || fill(&dataset, 0..40));
    // Ten shards, a record of each; the journal, four lists, the root.
    assert_eq!((asked.put, asked.delete), (10 + 10 + 1 + 4 + 1, 1 + 1));
    // The root, whether it is still the same, and what it is then. No list is there yet. A listing: are the shards still there?
    assert_eq!((asked.get, asked.head, asked.list), (3, 0, 1));
    let ((), asked) = cost(&store, || fill(&dataset, 40..80));
    assert_eq!((asked.put, asked.delete), (10 + 10 + 1 + 4 + 1, 1 + 1));
    assert_eq!((asked.get, asked.head, asked.list), (4, 0, 1), "and the split's list");
    let mut filler =
        dataset.filler(FillerOptions { relative_path: Some(RelPath::parse("w").unwrap()), ..Default::default() }).unwrap();
    let (infos, asked) = cost(&store, || {
        append(&mut filler, 80..84)?;
        filler.finish()
    });
    assert_eq!((asked.put, asked.get, asked.head, asked.list, asked.delete), (1 + 1 + 4, 1, 0, 1, 1), "{asked:?}");
    let (_, asked) = cost(&store, || dataset.write_config(None, infos));
    assert_eq!((asked.put, asked.list, asked.delete), (1 + 1 + 1, 0, 1), "the journal, the split's list, the root: {asked:?}");
    assert_eq!(numbers(&dataset).unwrap(), (0..84).collect::<Vec<_>>());
}

#[test]
fn what_reading_costs() {
    let all = [("fb", ""), ("fb", "ZSTD"), ("npz", ""), ("npz", "ZIP"), ("tfrec", ""), ("tfrec", "GZIP")];
    for (file_type, compression) in all {
        let (store, _) = filled(file_type, compression, 10, 16);
        let (dataset, asked) = cost(&store, || open(store.clone()));
        assert_eq!(asked.get, 1, "the root");
        let bytes = asked.bytes_read;
        let (units, asked) = cost(&store, || dataset.units("train"));
        assert_eq!((units.len(), asked.get, asked.head), (10, 4, 0), "the lists");
        let lists = asked.bytes_read;
        let context = format!("{file_type} {compression}");
        let shards: u64 = {
            let found = store.list(Some(&RelPath::parse("train").unwrap())).unwrap().map(|e| e.unwrap());
            found.filter(|e| e.path.as_str().ends_with(file_type)).map(|e| e.size).sum()
        };
        let source: Arc<dyn Source> = Arc::new(dataset.clone());
        let epoch = || {
            let options = Options { epochs: Some(1), ..Options::new("train", 3) };
            Loader::new(source.clone(), options)?.map(|batch| batch.map(|b| b.rows as u64)).sum::<sigbank::Result<u64>>()
        };
        let (rows, asked) = cost(&store, epoch);
        assert_eq!((rows, asked.get, asked.bytes_read), (40, 10, shards), "{context}: {asked:?}");
        assert_eq!((asked.head, asked.list), (0, 0), "{context}");
        let (_, asked) = cost(&store, || dataset.verify(&mut |_, _| true));
        assert_eq!((asked.get, asked.bytes_read, asked.head, asked.list), (10, shards, 0, 0), "{context}: {asked:?}");
        let (_, asked) = cost(&store, || open(store.clone())?.verify(&mut |_, _| true));
        assert_eq!((asked.get, asked.bytes_read), (1 + 4 + 10, bytes + lists + shards), "{context}: {asked:?}");
    }
}

#[test]
fn a_small_shard_is_one_request() {
    for compression in ["", "LZ4"] {
        let (store, _) = filled("fb", compression, 10, 1 << 20);
        let dataset = open(store.clone()).unwrap();
        dataset.units("train").unwrap();
        let (_, asked) = cost(&store, || read(&dataset, "train", &[17], &[0, 1]));
        assert_eq!((asked.get, asked.head), (1, 0));
        let (_, asked) = cost(&store, || numbers(&dataset));
        assert!(asked.get <= 10, "{asked:?}");
    }
}

#[test]
fn a_few_records_of_a_large_shard_cost_their_bytes() {
    let structure = json!({
        "saved_data_description": [{"name": "x", "dtype": "uint8", "shape": [100_000]}, {"name": "y", "dtype": "uint8", "shape": [100_000]}],
        "compression": "", "examples_per_shard": 50,
    });
    let store = BucketStore::new(memory(), 64 << 10);
    let structure = structure.as_object().unwrap().clone();
    let dataset = Dataset::create_store(Arc::new(store.clone()), Info::new(Default::default(), structure).unwrap()).unwrap();
    let mut filler = dataset.filler(FillerOptions::default()).unwrap();
    for n in 0..50u8 {
        filler.append("train", &[&[n; 100_000], &[100 + n; 100_000]], None).unwrap();
    }
    filler.finish().unwrap();
    dataset.units("train").unwrap();
    let (rows, asked) = cost(&store, || read(&dataset, "train", &[7, 30], &[1, 0]));
    assert_eq!((rows[0][0][0], rows[0][1][99_999], rows[1][0][5], rows[1][1][6]), (107, 7, 130, 30));
    // What opening brings has the tables; the two fields of a record lie side by side.
    assert_eq!((asked.get, asked.head), (1 + 2, 0), "{asked:?}");
    assert!(asked.bytes_read < 470_000, "{asked:?}");
    let (_, asked) = cost(&store, || read(&dataset, "train", &[8], &[0]));
    assert_eq!(asked.get, 1, "{asked:?}");
}

#[test]
fn shards_are_fetched_ahead_while_others_are_awaited() {
    let (store, _) = filled("fb", "LZ4", 32, 1 << 20);
    let slow = store.delayed(Duration::from_millis(20));
    let source: Arc<dyn Source> = Arc::new(open(slow).unwrap());
    source.units("train").unwrap();
    let start = Instant::now();
    let options = Options { epochs: Some(1), ..Options::new("train", 4) };
    let rows: usize = Loader::new(source, options).unwrap().map(|batch| batch.unwrap().rows).sum();
    assert_eq!(rows, 128);
    // One after another they would take 640 ms.
    assert!(start.elapsed() < Duration::from_millis(320), "{:?}", start.elapsed());
}
